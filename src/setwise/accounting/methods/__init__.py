"""Ways to bound a composition, one per module."""
