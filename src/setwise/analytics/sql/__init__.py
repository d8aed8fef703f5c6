"""SQL: parse a statement into private queries, run the rest of it over their noisy answers, and return the rows."""
