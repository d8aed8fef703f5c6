"""A question about a table: bound contributions, exact histogram, mechanism, answer; the engines are inside."""
