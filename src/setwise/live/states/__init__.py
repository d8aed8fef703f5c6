"""Private state of a series, kept in a DuckDB file of its own or in tables beside the data.

A live series is a set of noisy user counts that is released period by period.
"""
