"""ClickHouse as an engine."""
