"""Laplace and Gaussian noise of one variance on a histogram: the curves of `fig:GM_oneshot` and `fig:GM_comp`."""

import math
from collections.abc import Callable

from setwise.accounting.compose import compose
from setwise.accounting.conversions import gaussian_to_approx
from setwise.accounting.guarantees import ApproxDP, Gaussian
from setwise.accounting.histogram import (
    gaussian_histogram,
    gaussian_histogram_epsilon_by_paper,
    laplace_histogram,
    laplace_histogram_as_pure,
)
from setwise.accounting.use import Use

DELTA = 1e-6
EPSILONS = (0.1, 1.0)
"""The paper does not say which it drew; these two show both of the cases it speaks of."""


def equal_sigma(epsilon: float) -> float:
    """Return the deviation of Laplace noise of scale 1/epsilon: its variance is 2/epsilon^2."""
    return math.sqrt(2.0) / epsilon


def laplace_by_paper(epsilon: float, counts: int) -> float:
    """Return the overall epsilon of Laplace noise on `counts` counts of one user, as the worst pure DP.

    Theorem: lem:peeling_lap.
    """
    return compose([laplace_histogram_as_pure(epsilon=epsilon, contributions=counts)]).epsilon(DELTA).upper


def laplace_exact(epsilon: float, counts: int) -> float:
    """Return the same with the loss of Laplace noise itself."""
    return compose([laplace_histogram(scale=1.0 / epsilon, contributions=counts)]).epsilon(DELTA).upper


def gaussian_by_paper(epsilon: float, counts: int) -> float:
    """Return the overall epsilon of Gaussian noise of the same variance, through zCDP.

    Theorem: lem:GM.
    """
    return gaussian_histogram_epsilon_by_paper(sigma=equal_sigma(epsilon), contributions=counts, delta=DELTA)


def gaussian_exact(epsilon: float, counts: int) -> float:
    """Return the same exactly: one Gaussian of l2-sensitivity sqrt(counts).

    Theorem: lem:AGM.
    """
    return compose([gaussian_histogram(sigma=equal_sigma(epsilon), contributions=counts)]).epsilon(DELTA).upper


def gaussian_composed(epsilon: float, contributions: int, histograms: int) -> float:
    """Return the overall epsilon when each histogram is first made an (epsilon, delta) mechanism, with the best split.

    What the paper draws: lem:AGM for each histogram, then the optimal composition of (epsilon_i, delta_i)-DP. How much
    of delta goes to the histograms is free; the best share is found by search, and every share is valid.

    Theorem: lem:AGM, MurtaghVa16.
    """
    once = Gaussian(sigma=equal_sigma(epsilon) / math.sqrt(contributions))

    def overall(log_share: float) -> float:
        spent = DELTA * math.exp(log_share)
        each = gaussian_to_approx(once, -math.expm1(math.log1p(-spent) / histograms))
        use = Use(ApproxDP(epsilon=each.epsilon, delta=each.delta), histograms)
        return compose([use]).epsilon(DELTA).upper

    return _smallest(overall, math.log(1e-4), math.log(1.0 - 1e-6))


def _smallest(value: Callable[[float], float], low: float, high: float, points: int = 25) -> float:
    """Return the smallest value over a grid, refined twice around its best point."""
    best = math.inf
    for _ in range(3):
        step = (high - low) / (points - 1)
        places = [low + step * i for i in range(points)]
        found = [value(place) for place in places]
        best = min(best, *found)
        middle = places[found.index(min(found))]
        low, high = max(low, middle - step), min(high, middle + step)
    return best
