"""Which mechanism answers a question within a budget, and with what error."""
