"""The DuckDB engine, which runs inside this process."""
