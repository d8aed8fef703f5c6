"""Exact sampling from distributions on the integers."""
