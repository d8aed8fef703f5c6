"""SELECTs and subqueries in which each row is computed from the rows of one user."""
