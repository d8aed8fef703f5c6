"""The paper's formulas in plain floats, as printed, and helpers that build the uses that its figures compose.

The library is checked against the printed formulas. They are neither fast nor certified nor accurate at tiny deltas;
the library computes the same numbers in its own ways.
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
    """Return `uses` mechanisms of the same `epsilon`, `pure` of them epsilon-DP and the others epsilon-bounded-range.

    In the paper's letters, m = `pure` of k = `uses`. The result has each guarantee once, with its number of mechanisms.
    """
    uses_made = []
    if pure:
        uses_made.append(f"pure:{epsilon!r}x{pure}")
    if pure < uses:
        uses_made.append(f"bounded-range:{epsilon!r}x{uses - pure}")
    return as_uses(uses_made)


def paper_epsilon(uses: tuple[Use, ...], delta: float) -> float:
    """Return the paper's set-wise bound on the overall epsilon of the mechanisms `uses` at `delta`.

    Each of `uses` is a privacy guarantee and a number of runs. The bound depends on the privacy losses only through the
    sum of their means and the sum of their squared sub-Gaussian parameters. Neither sum depends on the order of the
    mechanisms, so the bound holds for any order, even one that is chosen adaptively.

    Theorem: eq:setWiseCompEps2.
    """
    total = subgaussian_sum(uses)
    assert total is not None  # pure DP and bounded range have known means and sub-Gaussian parameters
    return total.paper_epsilon(delta)


def narrow(ask: Callable[[float | None], Bracket], widths: tuple[float, ...] = _WIDTHS) -> Bracket:
    """Return the narrowest certified bracket (lower and upper bound on one number) that the function `ask` can compute.

    `ask(width)` returns a bracket whose ends are at most `width` times the upper end apart, or raises `Unattainable`.
    It is called with each of `widths` in turn, until it succeeds. If it raises for every width, the bracket of
    `ask(None)` is returned, for which no width is demanded.
    """
    for width in widths:
        try:
            return ask(width)
        except Unattainable:
            continue
    return ask(None)


def laplace_histogram_as_pure(*, epsilon: float, contributions: int) -> Use:
    """Return the cost of Laplace noise of scale 1/epsilon on every count, as `contributions` uses of epsilon-DP.

    One user changes at most `contributions` counts. The paper composes these uses as the worst epsilon-DP mechanisms.

    Theorem: lem:peeling_lap.

    >>> from setwise.accounting.compose import compose
    >>> compose([laplace_histogram_as_pure(epsilon=0.1, contributions=25)]).epsilon(1e-6).upper < 2.0791
    True
    """
    return Use(PureDP(epsilon=epsilon), check_count(contributions, "contributions"))


def laplace_histogram(*, scale: float, contributions: int) -> Use:
    """Return the cost of Laplace noise of this `scale` on every count, as `contributions` uses of Laplace noise.

    One user changes at most `contributions` counts, each by at most 1. The overall epsilon is never above the one of
    `laplace_histogram_as_pure` with epsilon = 1/scale.

    Theorem: lem:peeling_lap with the exact loss of Laplace noise.
    """
    return Use(Laplace(scale=scale), check_count(contributions, "contributions"))


def gaussian_histogram(*, sigma: float, contributions: int) -> Use:
    """Return the cost of Gaussian noise of deviation `sigma` on every count, as `contributions` uses of Gaussian noise.

    One user changes at most `contributions` counts. The uses compose exactly into one Gaussian mechanism.

    Theorem: lem:AGM with l2-sensitivity sqrt(contributions), exactly.
    """
    return Use(Gaussian(sigma=sigma), check_count(contributions, "contributions"))


def gaussian_histogram_epsilon_by_paper(*, sigma: float, contributions: int, delta: float) -> float:
    """Return contributions/(2 sigma^2) + sqrt(2 contributions log(1/delta))/sigma, the epsilon that the figures use.

    This is the paper's bound through zCDP for Gaussian noise of deviation `sigma` if one user changes at most
    `contributions` counts. The exact epsilon of `gaussian_histogram` is below it.

    Theorem: lem:GM, through zCDP.

    >>> round(gaussian_histogram_epsilon_by_paper(sigma=13.0948, contributions=25, delta=1e-6), 4)
    2.08
    """
    noise = Gaussian(sigma=sigma).sigma
    count = check_count(contributions, "contributions")
    return count / (2 * noise**2) + math.sqrt(-2.0 * count * math.log(check_delta(delta))) / noise


def paper_sigma(*, epsilon: float, delta: float, items: int) -> float:
    """Return the sigma at which the paper's zCDP bound, items/(2 s^2) + sqrt(2 items log(1/delta))/s, equals epsilon.

    s is sigma, and `items` the number of counts that one user changes. Raises `InvalidParameter` for an epsilon or
    delta out of range.

    Theorem: lem:GM, solved for sigma.

    >>> round(paper_sigma(epsilon=2.08, delta=1e-6, items=25), 4)
    13.0948
    """
    check_delta(delta)
    if not epsilon > 0.0:
        raise InvalidParameter(f"epsilon must be positive, not {epsilon!r}")
    root = math.sqrt(-2.0 * items * math.log(delta))
    return (root + math.sqrt(root * root + 2.0 * items * epsilon)) / (2.0 * epsilon)


def keep(epsilon: float, t: float) -> float:
    """Return q_{epsilon,t}: the probability that generalized randomized response answers 0 on input 0.

    Generalized randomized response is the mechanism whose privacy loss is `t` with probability q_{epsilon,t}, and
    otherwise t - epsilon. No other epsilon-bounded-range mechanism with privacy losses in [t - epsilon, t] has a larger
    delta.

    Theorem: defn:gen_rr.
    """
    return expm1(t - epsilon) / expm1(-epsilon)


def pure_delta(uses: int, epsilon: float, g: float) -> float:
    """Return the optimal delta, at overall epsilon `g`, of the composition of `uses` mechanisms that are `epsilon`-DP.

    Theorem: thm:opt_DPCOMP.
    """
    first = math.ceil((g + uses * epsilon) / (2 * epsilon) - 1e-12)
    terms = [comb(uses, i) * (exp(i * epsilon) - exp(g + (uses - i) * epsilon)) for i in range(first, uses + 1)]
    return math.fsum(terms) / (1 + exp(epsilon)) ** uses


def batch_range_delta(uses: int, epsilon: float, g: float) -> float:
    """Return the optimal delta, at overall epsilon `g`, of `uses` epsilon-bounded-range mechanisms chosen up front.

    Theorem: thm:non-adaptive.
    """

    def at(t: float) -> float:
        """Return delta at overall epsilon `g` if each mechanism is randomized response with losses `t` and t - epsilon.

        `g`, epsilon and the number of mechanisms are the arguments of `batch_range_delta`.
        """
        weights = [
            comb(uses, i) * (exp(-t) - exp(-epsilon)) ** (uses - i) * (1 - exp(-t)) ** i for i in range(uses + 1)
        ]
        gains = [max(0.0, exp(uses * t - i * epsilon) - exp(g)) for i in range(uses + 1)]
        total = math.fsum(w * gain for w, gain in zip(weights, gains, strict=True))
        return total / (1 - exp(-epsilon)) ** uses

    return max(at(min(epsilon, max(0.0, (g + (i + 1) * epsilon) / (uses + 1)))) for i in range(uses + 1))


def batch_delta(uses: int, pure: int, epsilon: float, g: float) -> float:
    """Return the optimal delta, at overall epsilon `g`, of `uses` mechanisms of the same epsilon, chosen up front.

    `pure` of the mechanisms are pure DP and the others bounded range.

    Theorem: thm:opt_nonadaptive.
    """
    ranges = uses - pure
    # The candidates for t, the parameter of the randomized responses that stand for the bounded-range mechanisms.
    candidates = [(g + epsilon * (i + 1 - pure)) / (ranges + 1) for i in range(uses + pure + 1)]
    return max(batch_delta_at(min(epsilon, max(0.0, t)), ranges, pure, epsilon, g) for t in candidates)


def batch_delta_at(t: float, ranges: int, pure: int, epsilon: float, g: float) -> float:
    """Return the double sum in the formula for the optimal delta of a batch (thm:opt_nonadaptive), at one `t`.

    A batch is a set of mechanisms chosen up front: here `ranges` bounded-range and `pure` pure-DP mechanisms, all of
    the same `epsilon`. t is the parameter of the randomized responses that stand for the bounded-range mechanisms
    (their losses are t and t - epsilon), and `g` is the overall epsilon. The optimal delta is the largest of these sums
    over t.
    """
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
    """Return alpha_{i,j}, a weight in the double sum for the optimal delta of mechanisms chosen up front.

    In the sum, each mechanism is replaced by the worst mechanism with its guarantee: a randomized response, which
    answers its input bit or the flipped bit. The summand (i, j) is about the case that `i` of the `ranges`
    bounded-range mechanisms and `j` of the `pure` pure-DP mechanisms answer the flipped bit. `p` is the probability
    that a pure-DP mechanism does not flip its bit (q_{2 epsilon, epsilon} in the paper).

    Theorem: thm:opt_nonadaptive.
    """
    return comb(ranges, i) * comb(pure, j) * p ** (pure - j) * (1 - p) ** j


def partial_sum(t: float, last: int, ranges: int, pure: int, epsilon: float, g: float, *, power: str) -> float:
    """Return F_ell(t), a part of the double sum for the optimal delta of a batch (mechanisms chosen up front).

    In the double sum, each mechanism is replaced by a randomized response, and the summand (i, j) is about the case
    that i bounded-range and j pure-DP mechanisms answer the flipped bit. F_ell(t) has the summands with i + 2j <= ell.
    With q, the probability that a bounded-range mechanism does not flip its bit, each summand has a factor (1 -
    q)^`power`.

    - `t`: the parameter of the randomized responses that stand for the bounded-range mechanisms
    - `last`: ell
    - `ranges`, `pure`: how many bounded-range and pure-DP mechanisms of `epsilon` there are
    - `g`: the overall epsilon
    - `power`: "i", which is right, or "j", as the paper prints it

    Theorem: lem:deriv_zero, which says where the derivative of F_ell is zero.
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
    """Return the derivative at `t` of F_ell for ell = `last`, by the formula of the paper's lem:deriv_zero.

    F_ell(t) is a part of the double sum for the optimal delta of a batch, mechanisms chosen up front (see
    `partial_sum`). The paper's proof has an error in this formula, which `uses` can repeat.

    - `ranges`, `pure`: how many bounded-range and pure-DP mechanisms of `epsilon` there are
    - `g`: the overall epsilon
    - `uses`: the number n in the factor n - i of each summand, which is about the case that i bounded-range mechanisms
      answer the flipped bit. The formula is right for n = `ranges`; the paper has n = `ranges` + `pure`.
    """
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
