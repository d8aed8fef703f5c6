"""The paper's formulas exactly as printed, in plain floats: what the library is checked against.

Nothing here is fast, certified or accurate at tiny deltas; the library has its own ways to the same numbers.
"""

import math
from math import comb, exp, expm1


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
