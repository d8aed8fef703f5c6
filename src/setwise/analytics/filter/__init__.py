"""Filters on rows: a small language of comparisons, parsed and checked here and written anew for every engine."""
