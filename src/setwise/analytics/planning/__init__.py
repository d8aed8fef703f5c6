"""Planning: choose the mechanism that answers a query within its budget, with its certified cost and expected error."""
