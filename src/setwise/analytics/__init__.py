"""Private analytics of tables: plan a question, charge it, bound what users add, aggregate, add noise, and answer."""
