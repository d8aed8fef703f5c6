"""The ClickHouse engine: servers over HTTP, and chDB folders in this process."""
