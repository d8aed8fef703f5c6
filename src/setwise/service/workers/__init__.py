"""Processes for calculations that must not hold up a replica."""
