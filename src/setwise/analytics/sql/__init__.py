"""SQL: parse a statement into private queries, run its free part over their noisy answers, and return the rows."""
