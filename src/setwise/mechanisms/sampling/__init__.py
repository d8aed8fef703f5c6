"""Exact sampling from laws on the integers."""
