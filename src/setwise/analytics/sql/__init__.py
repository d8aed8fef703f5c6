"""SQL: one SELECT read into a query, and its answer as columns and rows."""
