"""Worst mechanisms that satisfy zCDP: privacy losses with two values, certified to satisfy zCDP at every Renyi order.

The delta of such a loss is a lower bound on the delta that any proof from zCDP alone can promise. It is nearly the
delta of the usual conversion of zCDP to (epsilon, delta)-DP, so this conversion can hardly be improved.
"""

# P and Q are the output distributions on two neighbouring tables, and L is the privacy loss. The pair (P, Q) is (xi,
# rho)-zCDP if log E_P[exp(b L)] <= b (xi + rho) + rho b^2 for every b = alpha - 1 > 0, where alpha is the order, and
# the same holds with P and Q exchanged. The worst loss of one use is nearly one that is `high` with the largest
# probability p that every order allows, and a little below 0 otherwise. The conversion counts only the term p exp(b
# high) of E_P[exp(b L)] and neglects the other term, which is about 1 (docs/optimal-composition.md, "Worst members of a
# zCDP class").

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.losses.dominating_pairs import TwoPointLaw

Floats = NDArray[np.float64]

_CELLS = 2000
"""Cells of the certificate between the smallest and the largest order. The search uses `_FEW_CELLS`."""

_FEW_CELLS = 300

_MARGIN = 1e-12
"""Share of their terms by which cumulants are raised, far above the rounding error of their few operations."""

_STEPS = 24
"""Number of bisections for the logarithm of the lower loss."""

_BACK_OFF = (1e-9, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 5e-2)
"""Shares by which the lower loss is moved towards 0, one after another, until the law can be certified."""


def _cumulant_above(law: TwoPointLaw, b: Floats) -> Floats:
    """Return upper bounds on log E[exp(b L)] at each `b` > 0, for the privacy loss L with the two values of `law`.

    zCDP limits this number for every b, so the bounds certify that a mechanism with the loss L satisfies zCDP.
    """
    # Where b times the larger loss is below 1, the two terms of E[exp(b L)] - 1 have opposite signs, so the margin for
    # rounding is a share of the sum of their sizes. Elsewhere the margin is a share of the largest exponent.
    share, complement = law.probability, law.complement
    near = np.minimum(b, 1.0 / law.high)
    rising, falling = share * np.expm1(near * law.high), -complement * np.expm1(near * law.low)
    precise = np.log1p(rising - falling) + _MARGIN * (rising + falling)
    wide = np.logaddexp(math.log(share) + b * law.high, math.log(complement) + b * law.low)
    return np.where(b * law.high < 1.0, precise, wide + _MARGIN * (b * law.high - math.log(share)))


def satisfies(law: TwoPointLaw, xi: float, rho: float, cells: int = _CELLS) -> bool:
    """Return True if a computation certifies that mechanisms with the privacy loss `law` are (xi, rho)-zCDP.

    `law` is a loss that takes only two values. (xi, rho)-zCDP limits the Renyi divergence at every order a > 1 to xi +
    rho a, in both directions: also with the two neighbouring tables exchanged. The orders are divided into `cells`
    intervals, and the limit is checked for each. False means only that these intervals did not suffice for a proof.

    Requires: rho > 0 and xi >= -rho.
    """
    # With P and Q exchanged, the larger loss is minus the lower loss of `law`. If that is at most xi + rho, this
    # direction needs no grid.
    if not _one_direction(law, xi, rho, cells):
        return False
    return -law.low <= (xi + rho) * (1.0 - 1e-15) or _one_direction(TwoPointLaw(-law.low, -law.high), xi, rho, cells)


def _one_direction(law: TwoPointLaw, xi: float, rho: float, cells: int) -> bool:
    """Return whether the two-valued privacy loss `law` is certified to be (xi, rho)-zCDP in one direction.

    The direction is from P to Q, the output distributions on two neighbouring tables; `law` is the loss under P. zCDP
    is a condition for every Renyi order; it is checked on a grid of `cells` intervals of orders that covers all.
    """
    # With L the loss under P, the condition is K(b) = log E[exp(b L)] <= q(b) = b (xi + rho) + rho b^2 for all b > 0.
    # It is certified on a grid of b. K is convex in b and 0 at b = 0. From 0 to the first grid point b_1, K(b) <= b
    # K(b_1) / b_1, and q(b) is at least b (xi + rho). On each of `cells` cells K lies below its chord, and q minus the
    # chord has a minimum in closed form. From b = (high - xi) / rho - 1 on, exp(b high) <= exp(q(b)), and exp(b low) <=
    # 1 <= exp(q(b)), where high and low are the two losses.
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
    """Return nearly the worst privacy loss with two values that (xi, rho)-zCDP allows, if the larger value is `high`.

    The worst loss has the value `high` with the largest probability. This probability grows if the other value becomes
    smaller. So the function searches for nearly the smallest other value that zCDP allows. The returned loss is
    certified to satisfy (xi, rho)-zCDP. The result is None if no loss could be certified.
    """
    lower_loss = _search_lower_loss(xi, rho, high)
    for share in _BACK_OFF if lower_loss is not None else ():
        law = TwoPointLaw(high, lower_loss * (1.0 - share))  # type: ignore[operator]  # not None in the loop
        if satisfies(law, xi, rho):
            return law
    return None


def _search_lower_loss(xi: float, rho: float, high: float) -> float | None:
    """Return about the smallest lower value that a privacy loss with two values can have if it is (xi, rho)-zCDP.

    `high` is the larger of the two values. The two values determine the probability of `high`: it is larger if the
    lower value is smaller. So the smallest lower value gives nearly the worst privacy loss with the value `high` that
    zCDP allows. Callers check that this loss is (xi, rho)-zCDP, because the search is not certified. The result is None
    if such a value would be too close to 0 for a float.
    """
    # The lower loss determines the probability of `high`, which zCDP limits: for every b > 0 the probability is at most
    # exp(q(b) - b high), where q(b) = b (xi + rho) + rho b^2. Let p be the smallest of these limits. The result is
    # about -p, and is found by bisection near -p.
    order = max((high - xi - rho) / (2.0 * rho), 0.0)  # the b at which q(b) - b high is smallest
    most = order * (xi + rho) + rho * order * order - order * high - math.log(max(-math.expm1(-high), 1e-300))

    def allowed(logarithm: float) -> bool:
        """Return whether the two-valued loss with the lower value -exp(`logarithm`) is certified to be (xi, rho)-zCDP.

        The check uses a coarse grid of Renyi orders. The larger value `high`, `xi` and `rho` are variables of the
        function around this one.
        """
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
    """Return the privacy loss with two values, certified to be (xi, rho)-zCDP, for which `value` is nearly largest.

    - `value` maps a two-valued loss to the number to maximise, such as its delta at some epsilon.
    - `usual` is a guess at the larger of the two values of the best loss. The search tries larger values from 0.4 to
      1.6 times this guess, each with nearly the smallest other value that zCDP allows.

    Returns None if no loss could be certified.
    """

    def at(high: float) -> float:
        """Return the number to maximise, `value(law)`, for a privacy loss `law` whose larger value is `high`.

        The smaller value of `law` is nearly the lowest that zCDP allows beside `high`. `value` is a parameter of the
        function around this one, which maps `law` to its delta, for example. The result serves only to choose `high`,
        so `law` is not certified here. The result is -infinity if no smaller value was found.
        """
        # The lower value of the loss is about the lowest that zCDP allows. It is not certified, because this function
        # serves only to choose `high`; `largest_law` certifies the loss that is returned in the end.
        lower = _search_lower_loss(xi, rho, high)
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
