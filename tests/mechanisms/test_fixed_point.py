"""exp and ln in integers hold the truth at every precision."""

import random
from fractions import Fraction

import mpmath
import pytest
from exact_laws import exact

from setwise.mechanisms.sampling.fixed_point import exp_minus, ln


def _rationals(seed, count):
    source = random.Random(seed)
    for _ in range(count):
        yield Fraction(source.randint(1, 10 ** source.randint(1, 9)), source.randint(1, 10 ** source.randint(1, 9)))


@pytest.mark.parametrize("precision", [6, 64, 200, 600])
def test_bounds_hold_the_truth_and_are_tight(precision):
    with mpmath.workprec(2000):
        scale = mpmath.mpf(2) ** precision
        for x in _rationals(precision, 150):
            low, high = exp_minus(x, precision)
            assert low <= mpmath.exp(-exact(x)) * scale <= high
            assert high - low <= 2
            low, high = ln(x, precision)
            assert low <= mpmath.log(exact(x)) * scale <= high
            assert high - low <= 4


def test_special_values():
    assert exp_minus(Fraction(0), 64) == (2**64, 2**64)
    assert exp_minus(Fraction(10**9), 64) == (0, 1)
    assert ln(Fraction(1), 64) == (0, 0)
    low, high = ln(Fraction(2**64 - 1, 2**64), 256)
    with mpmath.workprec(800):
        assert low <= mpmath.log(1 - mpmath.mpf(2) ** -64) * mpmath.mpf(2) ** 256 <= high
