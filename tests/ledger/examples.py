"""How many examples Hypothesis draws here: the same on every run."""

from hypothesis import settings

from tests.sizes import examples

EXAMPLES = settings(derandomize=True, deadline=None, max_examples=examples(60), database=None)
