"""A query on its way: planned, queued, run, timed."""
