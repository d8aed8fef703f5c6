"""The worst mechanisms of a zCDP class: losses with two values, certified to satisfy the guarantee at every order.

A pair (P, Q) is (xi, rho)-zCDP if log E_P[exp(b L)] <= b (xi + rho) + rho b^2 for every b = alpha - 1 > 0, and the same
with P and Q exchanged. For one use the conversion to (epsilon, delta)-DP is attained, up to the 1 in
E_P[exp(b L)] = p exp(b high) + ..., by a loss that is `high` with a probability p as large as every order allows, and a
little below 0 otherwise (docs/optimal-composition.md, "Worst members of a zCDP class").
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.losses.dominating_pairs import TwoPointLaw

Floats = NDArray[np.float64]

_CELLS = 2000
"""Cells of the certificate between the smallest and the largest order; in a search, `_FEW_CELLS`."""

_FEW_CELLS = 300

_MARGIN = 1e-12
"""Share of their terms by which cumulants are raised: far above the rounding of their few operations."""

_STEPS = 24
"""Bisections for the logarithm of the lower loss."""

_BACK_OFF = (1e-9, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 5e-2)
"""Shares by which the lower loss is moved to 0 until the law is certified."""


def _cumulant_above(law: TwoPointLaw, b: Floats) -> Floats:
    """Return upper bounds on log E_P[exp(b L)] at each b > 0.

    Where exp(b high) is near 1 the two terms of E_P[exp(b L)] - 1 have opposite signs; the margin is a share of the sum
    of their sizes. Elsewhere it is a share of the largest exponent.
    """
    share, rest = law.probability, law.complement
    near = np.minimum(b, 1.0 / law.high)
    rising, falling = share * np.expm1(near * law.high), -rest * np.expm1(near * law.low)
    precise = np.log1p(rising - falling) + _MARGIN * (rising + falling)
    wide = np.logaddexp(math.log(share) + b * law.high, math.log(rest) + b * law.low)
    return np.where(b * law.high < 1.0, precise, wide + _MARGIN * (b * law.high - math.log(share)))


def satisfies(law: TwoPointLaw, xi: float, rho: float, cells: int = _CELLS) -> bool:
    """Return whether the pair with this law is certified to be (xi, rho)-zCDP in both directions.

    With P and Q exchanged the larger loss is -low. Where that is at most xi + rho, E_Q[exp(-b L)] <= exp(b (xi + rho))
    needs no grid.

    Requires: rho > 0 and xi >= -rho.
    """
    if not _one_direction(law, xi, rho, cells):
        return False
    return -law.low <= (xi + rho) * (1.0 - 1e-15) or _one_direction(TwoPointLaw(-law.low, -law.high), xi, rho, cells)


def _one_direction(law: TwoPointLaw, xi: float, rho: float, cells: int) -> bool:
    """Return whether log E_P[exp(b L)] <= q(b) = b (xi + rho) + rho b^2 is certified for all b > 0.

    The left side K is convex in b and 0 at 0. From 0 to the first grid point, K(b) <= b K(b_1) / b_1, and q(b) is at
    least b (xi + rho). On a cell K lies below its chord, and the parabola less the chord has a minimum in closed form.
    From b = (high - xi) / rho - 1 on, exp(b high) <= exp(q(b)), and exp(b low) <= 1 <= exp(q(b)).
    """
    slope = xi + rho
    last = max((law.high - xi) / rho - 1.0, 0.0) * (1.0 + 1e-9) + 1e-9
    first = min(1e-4 * last, 1e-3 / law.high)
    if not (0.0 < first < last < 1e12 and law.probability > 0.0 and law.complement > 0.0):
        return False
    b = np.geomspace(first, last, cells + 1)
    cumulant = _cumulant_above(law, b)
    if not cumulant[0] <= b[0] * slope:
        return False
    rise = np.diff(cumulant) / np.diff(b)
    lowest = np.clip((rise - slope) / (2.0 * rho), b[:-1], b[1:])
    allowed = lowest * slope + rho * lowest * lowest
    chord = cumulant[:-1] + rise * (lowest - b[:-1])
    return bool(np.all(chord + _MARGIN * np.abs(allowed) <= allowed))


def largest_law(xi: float, rho: float, high: float) -> TwoPointLaw | None:
    """Return a law with the larger loss `high` that is certified to be (xi, rho)-zCDP, its probability about maximal.

    None where no law is found. The lower loss decides the probability: the further below 0, the larger it is.
    """
    found = _searched(xi, rho, high)
    for share in _BACK_OFF if found is not None else ():
        law = TwoPointLaw(high, found * (1.0 - share))  # type: ignore[operator]  # not None in the loop
        if satisfies(law, xi, rho):
            return law
    return None


def _searched(xi: float, rho: float, high: float) -> float | None:
    """Return about the lowest lower loss that every order allows, not certified.

    The probability of `high` is at most exp(q(b) - b high) at every order, and the lower loss about that less.
    """
    order = max((high - xi - rho) / (2.0 * rho), 0.0)  # where q(b) - b high is least
    most = order * (xi + rho) + rho * order * order - order * high - math.log(max(-math.expm1(-high), 1e-300))

    def allowed(logarithm: float) -> bool:
        return satisfies(TwoPointLaw(high, -math.exp(logarithm)), xi, rho, _FEW_CELLS)

    good, bad = max(most - 3.0, -660.0), min(most + 1.0, 5.0)
    while not allowed(good):
        good, bad = good - 8.0, good
        if good < -668.0:
            return None
    for _ in range(_STEPS):
        middle = 0.5 * (good + bad)
        good, bad = (middle, bad) if allowed(middle) else (good, middle)
    return -math.exp(good)


def best_high(xi: float, rho: float, value: Callable[[TwoPointLaw], float], usual: float) -> TwoPointLaw | None:
    """Return a certified law for which `value` is about largest, by a scan of larger losses around `usual`."""

    def at(high: float) -> float:
        lower = _searched(xi, rho, high)
        return -math.inf if lower is None else value(TwoPointLaw(high, lower))

    points = usual * np.geomspace(0.4, 1.6, 21)
    values = [at(float(point)) for point in points]
    top = values.index(max(values))
    left, right = float(points[max(top - 1, 0)]), float(points[min(top + 1, len(points) - 1)])
    for _ in range(18):  # golden section
        first, second = right - 0.618 * (right - left), left + 0.618 * (right - left)
        left, right = (left, second) if at(first) > at(second) else (first, right)
    best = max((0.5 * (left + right), float(points[top])), key=at)
    return largest_law(xi, rho, best)
