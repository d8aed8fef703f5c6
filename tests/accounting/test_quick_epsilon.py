"""Prices for searches are certified: above what an analyst reaches, and close to the usual bound."""

import pytest

from setwise.accounting.compose import compose

MANY_PICKS = (
    (("bounded-range:0.0225x300", "gaussian:121x300"), 1e-6),
    (("bounded-range:0.035x300", "approx:0,4e-9", "gaussian:76x300"), 1e-8),
    (("bounded-range:0.012x1000", "approx:0,3e-7", "gaussian:220x1000"), 1e-6),
    (("bounded-range:0.02x700",), 1e-9),
    (("bounded-range:0.2x500", "gaussian:20x100"), 1e-6),
)


@pytest.mark.parametrize(("uses", "delta"), MANY_PICKS)
def test_many_picks_are_priced_quickly_and_within_a_thousandth(uses: tuple[str, ...], delta: float) -> None:
    composition = compose(uses)
    quick, usual = composition.quick_epsilon(delta), composition.epsilon(delta)
    assert quick.lower <= usual.upper  # both brackets hold the optimum, so they meet
    assert usual.lower <= quick.upper
    assert quick.upper <= 1.0015 * usual.upper
    assert quick.width <= 2.6e-3 * quick.upper


@pytest.mark.parametrize(
    "uses",
    [
        ("bounded-range:0.1x10", "laplace:5x3", "gaussian:10x3"),
        ("discrete-laplace:60,50x3", "gaussian:9x2", "discrete-laplace:4,1x3"),
        ("discrete-gaussian:40,3x7", "gaussian:12x2"),
        ("discrete-laplace:9000,5000", "gaussian:8x2"),
    ],
)
def test_other_uses_are_priced_nearly_as_usual(uses: tuple[str, ...]) -> None:
    composition = compose(uses)
    quick, usual = composition.quick_epsilon(1e-6), composition.epsilon(1e-6)
    assert usual.lower <= quick.upper <= usual.upper * (1.0 + 5e-5)
