"""SQL: parse a statement into private queries, run the public rest over released rows, and return columns and rows."""
