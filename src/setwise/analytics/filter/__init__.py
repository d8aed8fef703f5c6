"""Filters on rows: a small language of comparisons, parsed and checked here; engines translate filters to their SQL."""
