"""Reading of FROM and JOIN in a SELECT over private rows: tables, the names of their columns, and public lists."""
