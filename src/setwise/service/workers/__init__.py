"""Processes and threads for work that must not hold up a replica."""
