"""The private state of a live series (counted users and noise), kept in a DuckDB file or in tables beside the data."""
