"""Hypothesis draws the same examples on every run: a failure here is a failure everywhere."""

from hypothesis import HealthCheck, settings

from tests.sizes import examples

settings.register_profile(
    "accounting",
    derandomize=True,
    deadline=None,
    max_examples=examples(60),
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("accounting")
