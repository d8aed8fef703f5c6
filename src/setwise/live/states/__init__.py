"""Private state of a series, kept in a DuckDB file of its own or in tables beside the data."""
