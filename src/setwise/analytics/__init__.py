"""Private analytics of tables: plan and charge a question, bound what users add, aggregate, add noise, and answer."""
