"""Planning: which mechanism answers a query within a budget, and with what error."""
