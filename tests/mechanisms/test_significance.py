"""The false-alarm probability of a whole run stays below 1e-5, and the statistical tests do fail when they should."""

import ast
from pathlib import Path

import pytest
from significance import MOST_TESTS, SIGNIFICANCE, assert_frequencies, lower_limit, upper_limit

HERE = Path(__file__).parent
COUNTED = ("assert_frequencies", "assert_fits", "epsilon_at_least", "upper_limit", "lower_limit")


def test_the_stated_probability_of_a_false_alarm():
    """Every parametrised statistical test stays within the number the statement allows; there are a few hundred."""
    assert SIGNIFICANCE * MOST_TESTS < 1e-5
    calls = 0
    for path in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(getattr(node, "func", None), "id", "")
            calls += name in COUNTED
    # No call runs more than a hundred times over its test's parameters.
    assert calls * 100 < MOST_TESTS


def test_a_frequency_far_off_fails():
    assert_frequencies([500], [0.5], 1000)
    with pytest.raises(AssertionError):
        assert_frequencies([620], [0.5], 1000)
    with pytest.raises(AssertionError):
        assert_frequencies([1], [0.0], 10)


def test_limits_hold_the_truth():
    assert lower_limit(0, 10) == 0.0
    assert upper_limit(10, 10) == 1.0
    assert lower_limit(500, 1000) < 0.5 < upper_limit(500, 1000)
