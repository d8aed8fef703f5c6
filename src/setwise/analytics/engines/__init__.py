"""The databases that read tables: each bounds contributions and hands over an exact histogram.

To add one, write a folder with an `Engine` (`base`) and a `Dialect` of the shared query (`sql`), and let `open_engine`
in `setwise.analytics.engines.connect` open it.
"""
