"""Methods to bound the delta or epsilon of a composition, one per module."""
