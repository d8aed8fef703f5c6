"""The database engines that read tables: each bounds contributions and returns exact histograms or statistics.

To add an engine, write a folder with an `Engine` and a `SqlEngineQuery` (`base`) and a `Dialect` (`dialect`), and add
the engine to `ENGINES` in `setwise.analytics.engines.registry`.
"""
