"""How many examples Hypothesis draws here: the same on every run."""

from hypothesis import settings

EXAMPLES = settings(derandomize=True, deadline=None, max_examples=60, database=None)
