"""The paper's formulas: what figures and claims compose, and below it what is printed, in plain floats.

What is printed is what the library is checked against: nothing of it is fast, certified or accurate at tiny deltas; the
library has its own ways to the same numbers.
"""

import math
from collections.abc import Callable
from math import comb, exp, expm1

from setwise.accounting.brackets import Bracket
from setwise.accounting.checks import check_count, check_delta
from setwise.accounting.guarantees import Gaussian, Laplace, PureDP, Use
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


def keep(epsilon: float, t: float) -> float:
    """Return q_{epsilon,t}, the chance that generalized randomized response says 0 on 0.

    Theorem: defn:gen_rr.
    """
    return expm1(t - epsilon) / expm1(-epsilon)


def pure_delta(uses: int, epsilon: float, g: float) -> float:
    """Return the optimal delta of pure-DP uses at overall epsilon g.

    Theorem: thm:opt_DPCOMP.
    """
    first = math.ceil((g + uses * epsilon) / (2 * epsilon) - 1e-12)
    terms = [comb(uses, i) * (exp(i * epsilon) - exp(g + (uses - i) * epsilon)) for i in range(first, uses + 1)]
    return math.fsum(terms) / (1 + exp(epsilon)) ** uses


def batch_range_delta(uses: int, epsilon: float, g: float) -> float:
    """Return the optimal delta of bounded-range uses chosen in a batch.

    Theorem: thm:non-adaptive.
    """

    def at(t: float) -> float:
        weights = [
            comb(uses, i) * (exp(-t) - exp(-epsilon)) ** (uses - i) * (1 - exp(-t)) ** i for i in range(uses + 1)
        ]
        gains = [max(0.0, exp(uses * t - i * epsilon) - exp(g)) for i in range(uses + 1)]
        total = math.fsum(w * gain for w, gain in zip(weights, gains, strict=True))
        return total / (1 - exp(-epsilon)) ** uses

    return max(at(min(epsilon, max(0.0, (g + (i + 1) * epsilon) / (uses + 1)))) for i in range(uses + 1))


def batch_delta(uses: int, pure: int, epsilon: float, g: float) -> float:
    """Return the optimal delta of a batch of `pure` pure-DP uses and the rest bounded range.

    Theorem: thm:opt_nonadaptive, a maximum over k + m + 1 candidates of a double sum.
    """
    ranges = uses - pure
    candidates = [(g + epsilon * (i + 1 - pure)) / (ranges + 1) for i in range(uses + pure + 1)]
    return max(batch_delta_at(min(epsilon, max(0.0, t)), ranges, pure, epsilon, g) for t in candidates)


def batch_delta_at(t: float, ranges: int, pure: int, epsilon: float, g: float) -> float:
    """Return the double sum of thm:opt_nonadaptive at one t."""
    q, p = keep(epsilon, t), keep(2 * epsilon, epsilon)
    return math.fsum(
        alpha(i, j, ranges, pure, p)
        * q ** (ranges - i)
        * (1 - q) ** i
        * max(0.0, 1 - exp(g - epsilon * (pure - 2 * j - i) - t * ranges))
        for i in range(ranges + 1)
        for j in range(pure + 1)
    )


def alpha(i: int, j: int, ranges: int, pure: int, p: float) -> float:
    """Return alpha_{i,j}, the weight of the text before lem:deriv_zero; p is q_{2 epsilon, epsilon}."""
    return comb(ranges, i) * comb(pure, j) * p ** (pure - j) * (1 - p) ** j


def partial_sum(t: float, last: int, ranges: int, pure: int, epsilon: float, g: float, *, power: str) -> float:
    """Return F_ell(t) for ell = `last`, with the last factor raised to "i", which is right, or "j", as printed.

    Theorem: lem:deriv_zero.
    """
    q, p = keep(epsilon, t), keep(2 * epsilon, epsilon)
    return math.fsum(
        (1 - exp(g - epsilon * (pure - n) - t * ranges))
        * alpha(n - 2 * j, j, ranges, pure, p)
        * q ** (ranges - (n - 2 * j))
        * (1 - q) ** (n - 2 * j if power == "i" else j)
        for n in range(last + 1)
        for j in range(pure + 1)
        if 0 <= n - 2 * j <= ranges
    )


def partial_sum_slope(t: float, last: int, ranges: int, pure: int, epsilon: float, g: float, *, uses: int) -> float:
    """Return F'_ell(t) by lem:deriv_zero with the factor (uses - i): k - m is right, k is in the proof's last line."""
    q, p = keep(epsilon, t), keep(2 * epsilon, epsilon)
    front = (exp(g - epsilon * (pure - last) - t * ranges) - exp(t - epsilon)) / (1 - exp(-epsilon))
    return front * math.fsum(
        alpha(last - 2 * j, j, ranges, pure, p)
        * (uses - (last - 2 * j))
        * q ** (ranges - (last - 2 * j) - 1)
        * (1 - q) ** (last - 2 * j)
        for j in range(pure + 1)
        if 0 <= last - 2 * j <= ranges
    )
