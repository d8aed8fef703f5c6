"""Noise on a histogram of which one user changes few counts: the uses it amounts to.

One user changes at most `contributions` counts (the l0-sensitivity), each by at most the l-infinity-sensitivity that
the noise is scaled by. Only those counts differ between neighbours, so only they cost.
"""

import math

from setwise.accounting.guarantees import Gaussian, Laplace, PureDP, check_delta
from setwise.accounting.use import Use, check_count


def laplace_histogram_as_pure(*, epsilon: float, contributions: int) -> Use:
    """Laplace noise of scale 1/epsilon on every count costs `contributions` uses of epsilon-DP.

    Theorem: lem:peeling_lap. The paper composes these as the worst epsilon-DP mechanisms.

    >>> from setwise.accounting.compose import compose
    >>> compose([laplace_histogram_as_pure(epsilon=0.1, contributions=25)]).epsilon(1e-6).upper < 2.0791
    True
    """
    return Use(PureDP(epsilon=epsilon), check_count(contributions, "contributions"))


def laplace_histogram(*, scale: float, contributions: int) -> Use:
    """Laplace noise of the given scale on every count costs `contributions` uses of that noise, whose loss is known.

    Theorem: lem:peeling_lap with the exact loss of Laplace noise: never above `laplace_histogram_as_pure`.
    """
    return Use(Laplace(scale=scale), check_count(contributions, "contributions"))


def gaussian_histogram(*, sigma: float, contributions: int) -> Use:
    """Gaussian noise of deviation sigma on every count costs `contributions` uses, which merge into one Gaussian.

    Theorem: lem:AGM with l2-sensitivity sqrt(contributions), exactly.
    """
    return Use(Gaussian(sigma=sigma), check_count(contributions, "contributions"))


def gaussian_histogram_epsilon_by_paper(*, sigma: float, contributions: int, delta: float) -> float:
    """Return contributions/(2 sigma^2) + sqrt(2 contributions log(1/delta))/sigma: what the figures use.

    Theorem: lem:GM, through zCDP; the exact Gaussian of `gaussian_histogram` is below it.

    >>> round(gaussian_histogram_epsilon_by_paper(sigma=13.0948, contributions=25, delta=1e-6), 4)
    2.08
    """
    noise = Gaussian(sigma=sigma).sigma
    count = check_count(contributions, "contributions")
    return count / (2 * noise**2) + math.sqrt(-2.0 * count * math.log(check_delta(delta))) / noise
