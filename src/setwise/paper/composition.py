"""What figures and claims compose: mixtures of pure DP and bounded range, and noise of one variance on a histogram."""

import math
from collections.abc import Callable

from setwise.accounting.brackets import Bracket
from setwise.accounting.checks import check_count, check_delta
from setwise.accounting.compose import compose
from setwise.accounting.conversions import gaussian_to_approx
from setwise.accounting.guarantees import ApproxDP, Gaussian, Laplace, PureDP, Use
from setwise.accounting.methods.moments import subgaussian_sum
from setwise.accounting.notation import as_uses
from setwise.errors import InvalidParameter, Unattainable

_WIDTHS = (1e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3)


def mixture(epsilon: float, uses: int, pure: int) -> tuple[Use, ...]:
    """Return `pure` uses of epsilon-DP and the rest of epsilon-BR, m and k - m in the paper's letters."""
    written = []
    if pure:
        written.append(f"pure:{epsilon!r}x{pure}")
    if pure < uses:
        written.append(f"bounded-range:{epsilon!r}x{uses - pure}")
    return as_uses(written)


def paper_epsilon(uses: tuple[Use, ...], delta: float) -> float:
    """Return the paper's set-wise bound.

    Theorem: eq:setWiseCompEps2.
    """
    total = subgaussian_sum(uses)
    assert total is not None  # pure DP and bounded range have known means and spreads
    return total.paper_epsilon(delta)


def narrow(ask: Callable[[float | None], Bracket], widths: tuple[float, ...] = _WIDTHS) -> Bracket:
    """Return the bracket for the first relative width that can be reached, else the one got without asking."""
    for width in widths:
        try:
            return ask(width)
        except Unattainable:
            continue
    return ask(None)


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


DELTA = 1e-6
EPSILONS = (0.1, 1.0)
"""The paper does not say which it drew; these two show both of the cases it speaks of."""


def paper_sigma(*, epsilon: float, delta: float, items: int) -> float:
    """Return the sigma where the paper's zCDP bound, items/(2 s^2) + sqrt(2 items log(1/delta))/s, gives epsilon.

    Theorem: lem:GM, solved for sigma. The exact Gaussian needs less noise; this one is for the figures.

    >>> round(paper_sigma(epsilon=2.08, delta=1e-6, items=25), 4)
    13.0948
    """
    check_delta(delta)
    if not epsilon > 0.0:
        raise InvalidParameter(f"epsilon must be positive, not {epsilon!r}")
    root = math.sqrt(-2.0 * items * math.log(delta))
    return (root + math.sqrt(root * root + 2.0 * items * epsilon)) / (2.0 * epsilon)


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
