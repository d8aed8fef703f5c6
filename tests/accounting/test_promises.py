"""No text states less than what is promised: epsilons and deltas are rounded up, noise and balances down."""

import ast
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import setwise
from setwise.accounting.guarantees import KINDS
from setwise.accounting.notation import parse_use, use_in_words
from setwise.accounting.promises import epsilon_at_delta, promise_in_words, promised_pair, rounded_down, rounded_up

SOURCE = Path(setwise.__file__).parent
LIKE_ROUNDING_ERROR = 1e-12  # a difference below this is taken for that of a float
NUMBER = r"\d[\d.]*(?:e[+-]?\d+)?"


def numbers_in(text: str) -> list[float]:
    return [float(number.rstrip(".")) for number in re.findall(NUMBER, text)]


@given(st.floats(1e-6, 50.0), st.floats(1e-300, 0.5))
def test_a_promise_is_never_stated_smaller_than_it_is(epsilon, delta):
    for text in (epsilon_at_delta(epsilon, delta), epsilon_at_delta(epsilon, delta, 3), promised_pair(epsilon, delta)):
        stated_epsilon, stated_delta = numbers_in(text)
        assert stated_epsilon >= epsilon * (1 - LIKE_ROUNDING_ERROR)
        assert stated_delta >= delta * (1 - LIKE_ROUNDING_ERROR)


@given(st.floats(1e-290, 1e290), st.integers(1, 8))
def test_rounding_changes_less_than_the_last_digit(value, digits):
    step = 10.0 ** (1 - digits) * (1 + 1e-9)
    assert value * (1 - LIKE_ROUNDING_ERROR) <= float(rounded_up(value, digits)) <= value * (1 + step)
    assert value * (1 - step) <= float(rounded_down(value, digits)) <= value * (1 + LIKE_ROUNDING_ERROR)


@given(st.floats(1e-15, 1e-6))
def test_the_chance_of_a_failure_is_never_stated_smaller_than_it_is(delta):
    words = promise_in_words(1.0, delta).rpartition("about one in ")[2].rstrip(".")
    sizes = {"million": 1e6, "billion": 1e9, "trillion": 1e12}
    number, _, size = words.replace("a ", "1 ").replace(",", "").partition(" ")
    assert 1 / (float(number) * sizes.get(size, 1.0)) >= delta * (1 - LIKE_ROUNDING_ERROR)


USES = {
    "pure": "0.123449",
    "bounded-range": "0.123449",
    "zcdp": "0.123449",
    "cdp": "0.00123449,0.1",
    "approx": "0.123449,1e-9",
    "laplace": "123.456",
    "gaussian": "123.456",
    "discrete-laplace": "123.456,1",
    "discrete-gaussian": "123.456,1",
    "truncated-gaussian": "123.456,800,1",
}
"""For each kind of use, parameters of which the first would promise too much if it were rounded to the nearest."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_use_is_never_described_as_revealing_less_than_it_does(kind):
    stated = numbers_in(use_in_words(parse_use(f"{kind}:{USES[kind]}")))[1]
    true = float(USES[kind].partition(",")[0])
    assert stated <= true if true > 100 else stated >= true


def promised_numbers_rounded_to_the_nearest() -> list[str]:
    """Return every place that formats an upper end or a delta with a format such as :.4g, which may round it down."""
    return [
        f"{path.relative_to(SOURCE)}:{node.lineno} {ast.unparse(node.value)}"
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FormattedValue)
        and node.format_spec is not None
        and isinstance(node.value, ast.Attribute)
        and (node.value.attr == "upper" or ast.unparse(node.value).endswith(("epsilon", ".delta")))
    ]


def test_no_text_rounds_a_promised_number_to_the_nearest():
    assert not promised_numbers_rounded_to_the_nearest()


@pytest.mark.parametrize("delta", [5e-324, 1e-310, 1e-300])
def test_a_delta_whose_reciprocal_is_infinite_has_a_number_in_words(delta):
    """It was worded as a chance of about one in inf trillion."""
    words = promise_in_words(5.0, delta)
    assert "inf" not in words
    assert "about one in 1e+288 trillion" in words
