"""Prices of uses in a Gaussian wallet (a budget of mu squared): certified upper bounds.

Write G_s for the Gaussian mechanism with mu^2 = s. The *price* of a use that leaves v in the wallet is the least c such
that the use followed by G_v is dominated by G_{v + c} (docs/optimal-composition.md, "Prices"). The price falls as v
grows, so a price at v is an upper bound at every larger v. Every function here returns an upper bound, infinite if none
is known.
"""

# The comment above `PriceConfig` derives the margins for rounding errors.
#
# Truncating integer Gaussian noise to {-bound, ..., bound} removes mass. The noise on a number and the noise on its
# neighbour, moved by the sensitivity s, then have only the outcomes {-bound + s, ..., bound} in common.

import math
from collections.abc import Callable
from dataclasses import dataclass

from setwise.accounting.brackets import UNIT, crossing, probability, up

Price = Callable[[float], float]
"""A function from a lower bound on the balance that a use leaves (mu squared) to an upper bound on its price (mu
squared)."""

_NODES = (
    0.09501250983763744,
    0.2816035507792589,
    0.45801677765722737,
    0.6178762444026438,
    0.755404408355003,
    0.8656312023878318,
    0.9445750230732326,
    0.9894009349916499,
)
_WEIGHTS = (
    0.1894506104550685,
    0.18260341504492358,
    0.16915651939500254,
    0.14959598881657674,
    0.12462897125553388,
    0.09515851168249279,
    0.062253523938647894,
    0.027152459411754096,
)
"""The Gauss-Legendre rule with 16 points on [-1, 1]: its positive nodes (`_NODES`), and the weight of each node and
its mirror image."""


# Margins for rounding errors, which are added to every price. In units of 2^-53 (notation of
# docs/optimal-composition.md, "Prices"):
#
# * Pure DP and Laplace. Both sides of the equation for d are integrals of positive functions, by the Gauss rule with 16
#   points on panels of at most one deviation of the Gaussian weight and at most 1 in s (or 2 / max(1, w) in x). The
#   rule: on the Bernstein ellipse with rho = 4 around a panel the integrands are at most about 20 times their values on
#   it, or 300 times less than what the first panel holds, so the remainder, at most (64 / 15) M rho^-32 / (1 - rho^-2)
#   with 4^-32 = 5e-20, is below one unit. (The factors 20 and 300 were read off in high precision over the range of
#   parameters, not derived.) Terms: nodes and exponents err by 490 units, `exp` by 8, the cancellation in epsilon - s
#   averages to at most 200 for epsilon <= 60, weights 2; sums are exact (`fsum`). That is below 800 units together; the
#   margin is 1e-12, 9,000 units, which covers the weight beyond nine deviations too.
# * If d is close to 0 (curvature d (w + d) < 1e-6), e^-y >= 1 - y gives d (1 - d (w/2 + d/6)) for the integral, and the
#   d taken is checked against that. Otherwise the d that Newton's method finds is raised by 4e-12 or more until the
#   integral, minus its margin, is at least the value needed; then c = 4 d (2 w + d) is raised by 16 units.
# * Bounded range. For a <= 1, theta / a^2 = 1/2 - a^2/24 + ... alternates and shrinks and is cut after its 13th,
#   positive term; Horner's rule loses 30 units, and the margin is 64. For a > 1 the two terms of theta cancel by a
#   factor of 2.7 at most, `erf` is assumed to err by at most 1,000 units and counts at most twice: 5,500 units, and the
#   margin is 1e-12. The price at v = 0 bounds both.
# * Integer Gaussian. The exponent of eta is lowered by 1e-12, the sum bounded by 2 e^-x / (1 - e^-3x) because j^2 >= 1
#   + 3 (j - 1), and the price follows from the equation for d again.
# * The balance that a wallet has left after paying is found by a search, and the value returned is checked: the balance
#   that `wallet_before` needs for it, plus 1e-12 of that, is at most the wallet. Levels are added with one float up
#   each. In any order (Theorem 12) jumps are compared with 4 units, rates lowered by 8, each partial sum of the
#   potential by 4, the last level raised by 16.


@dataclass(frozen=True, slots=True)
class PriceConfig:
    """Constants for the accuracy of prices; a price is the mu squared that a use takes from a budget of mu squared.

    Mu squared is (sensitivity / sigma)^2 for a Gaussian mechanism. Each price is an upper bound, whatever these numbers
    are. The text below each constant says what it decides.
    """

    blocks_to_wallet: int = 32
    """Many equal uses are paid in blocks, to save time. A block of several uses costs at most the budget left after it,
    divided by this number."""
    lattice_shares: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 4.0)
    """The proof of a price for integer Gaussian noise lets Gaussian noise of some mu squared b follow it. The balance
    that remains provides this Gaussian, and the price includes what the balance lacks of b. If m is the price of
    continuous Gaussian noise of the same sigma, the b tried are these numbers times m / sigma^2."""
    slight: float = 1e-6
    """A price is computed from the number d up to which an integral from 0 has a given value. If the integrand changes
    by less than this share between 0 and d, a polynomial in d replaces the integral, to save time. The price is then
    too large by a share of about the square of this number."""
    enough: float = 1e-5
    """If the price of integer Gaussian noise exceeds that of continuous Gaussian noise by at most this share, no
    smaller price is searched for."""


CONFIG = PriceConfig()

_CHARGE = 1e-12
"""Relative error assumed for an integral, several times the error that was derived."""

_FAR = 9.0
"""Standard deviations beyond which a Gaussian weight is left out: 3e-19 of the weight, far less than `_CHARGE`."""

_LARGEST_EPSILON = 60.0
"""A larger epsilon is not priced, because it promises nothing."""

_LARGEST_EXPONENT = 200.0
"""Beyond this exponent a total variation is 1 in floats, so it has no finite price."""


def gaussian_price(sigma: float, sensitivity: float = 1.0) -> float:
    """Return the price of Gaussian noise, rounded up: the mu^2 = (sensitivity / sigma)^2 that it takes from a budget.

    `sigma` is the standard deviation of the noise. The price does not depend on the remaining budget. The price also
    holds for Gaussian noise that is rounded to integers.

    Theorem: Gaussian losses add up; rounding to integers is post-processing.
    """
    return (sensitivity / sigma) ** 2 * (1.0 + 8.0 * UNIT)


def pure_price(epsilon: float, remaining: float) -> float:
    """Return the price of an epsilon-DP use: the mu squared that it takes from a budget of mu squared.

    `remaining` is the mu squared that the use leaves in the budget. The price p is so large that one Gaussian mechanism
    of mu^2 = `remaining` + p dominates the use followed by a Gaussian of mu^2 = `remaining`. The more remains, the
    lower the price. The result is infinite for epsilons above 60.

    Theorem: docs/optimal-composition.md, Theorem 9 (the price is a total variation).
    """

    def kernel(s: float) -> float:
        """Return k(s) = 2 sinh((epsilon - s) / 2) / cosh(epsilon / 2), by which an epsilon-DP use is priced.

        `s` is a privacy loss, and `_by_total_variation` computes the price from k. The use adds to the total variation
        of all later uses (one Gaussian mechanism of mu squared v stands for them), and the price follows from this
        gain. The gain is in proportion to the integral of k(s) exp(-s^2 / (2 v)) over s from 0 to epsilon.
        """
        return 2.0 * math.sinh(0.5 * (epsilon - s)) / math.cosh(0.5 * epsilon)

    return _by_total_variation(kernel, epsilon, remaining)


def laplace_price(epsilon: float, remaining: float) -> float:
    """Return the price of Laplace noise: the mu squared that it takes from a budget of mu squared.

    The scale of the noise is 1/epsilon times the l1-sensitivity. `remaining` is the mu squared that the use leaves in
    the budget. The price p is so large that one Gaussian mechanism of mu^2 = `remaining` + p dominates the use followed
    by a Gaussian of mu^2 = `remaining`. The more remains, the lower the price. The result is infinite for epsilons
    above 60.

    Theorem: docs/optimal-composition.md, Theorem 9 (the price is a total variation).
    """

    def kernel(s: float) -> float:
        """Return k(s) = 2 (exp(-s / 2) - exp(-epsilon / 2)), by which Laplace noise of scale 1/epsilon is priced.

        `s` is a privacy loss, and `_by_total_variation` computes the price from k. The noise adds to the total
        variation of all later uses (one Gaussian mechanism of mu squared v stands for them), and the price follows from
        this gain. The gain is in proportion to the integral of k(s) exp(-s^2 / (2 v)) over s from 0 to epsilon.
        """
        return -2.0 * math.exp(-0.5 * s) * math.expm1(0.5 * (s - epsilon))

    return _by_total_variation(kernel, epsilon, remaining)


def bounded_range_price(epsilon: float, remaining: float) -> float:
    """Return the price of a use with epsilon-bounded range: the mu squared that it takes from a budget of mu squared.

    An account that pays in mu squared promises that all its uses together are no worse than one Gaussian mechanism; mu
    is sensitivity / sigma of the Gaussian. `remaining` is the mu squared that the account has after the payment.

    The price p keeps the promise: a Gaussian mechanism of mu^2 = `remaining` + p dominates the composition of this use
    with a later Gaussian mechanism of mu^2 = `remaining`. The more remains, the lower the price.

    Theorem: docs/optimal-composition.md, Theorem 10 (bounded range).
    """
    # Let v = `remaining`, a = epsilon / (2 sqrt v) and theta = int_0^a (a - s) exp(-s^2/2) ds. The price is v (2 theta
    # + theta^2).
    half = 0.5 * epsilon
    alone = 0.5 * math.pi * half * half * (1.0 + 8.0 * UNIT)
    if remaining < 1e-300:
        return alone
    ratio = half / math.sqrt(remaining)
    if ratio <= 1.0:
        square = ratio * ratio
        share = 0.0
        for coefficient in _THETA_SERIES:
            share = share * square + coefficient
        return half * half * (2.0 * share + square * share * share) * (1.0 + 64.0 * UNIT)
    theta = ratio * math.sqrt(0.5 * math.pi) * math.erf(ratio * math.sqrt(0.5)) + math.expm1(-0.5 * ratio * ratio)
    return min(remaining * theta * (2.0 + theta) * (1.0 + _CHARGE), alone)


_THETA_SERIES = tuple((-1.0) ** n / (2**n * math.factorial(n) * (2 * n + 1) * (2 * n + 2)) for n in range(12, -1, -1))
"""theta / a^2 in powers of a^2, highest first. For a <= 1 the terms alternate and fall in size, and the last is
positive."""


def integer_gaussian_price(sigma: float, sensitivity: int, remaining: float, missing: float = 0.0) -> float:
    """Return the price of integer Gaussian noise: the mu squared that it takes from a budget of mu squared.

    Integer noise reveals slightly more than continuous Gaussian noise. How much more depends on what follows it, so the
    price depends on the budget that remains. The price p is so large that one Gaussian mechanism of mu^2 = `remaining`
    + p dominates the integer noise followed by a Gaussian of mu^2 = `remaining`.

    - `sigma` is the noise parameter.
    - `sensitivity` is the most by which one user changes the number that gets the noise.
    - `remaining` is the mu squared that the use leaves in the budget. The more remains, the lower the price may be.
    - `missing` is for truncated noise: a bound on the probability that untruncated noise falls outside of the outcomes
      that both of two neighbouring tables can produce. It is 0 for noise that is not truncated.

    Theorem: docs/optimal-composition.md, Theorem 11 (integer Gaussian).
    """
    # The proof needs a Gaussian of some mu^2 = b to follow the noise, because it smooths the integer lattice; a small b
    # is enough. The balance that remains in the wallet provides this Gaussian. If b exceeds `remaining`, the price
    # includes the difference. Several b are tried, and the smallest price is returned.
    gaussian = gaussian_price(sigma, float(sensitivity))
    best = math.inf
    for smoothing in (remaining, *(gaussian * share / (sigma * sigma) for share in CONFIG.lattice_shares)):
        if smoothing <= 0.0 or missing >= 0.5:
            continue
        exponent = 2.0 * math.pi**2 * sigma * sigma * smoothing / (smoothing + gaussian) * (1.0 - _CHARGE)
        ripple = 2.0 * math.exp(-exponent) / -math.expm1(-3.0 * exponent)  # j^2 >= 1 + 3 (j - 1)
        raised = (ripple + missing) / (1.0 - missing)
        root = 0.5 * math.sqrt(smoothing + gaussian)
        if raised == 0.0:
            added = 0.0
        elif 0.5 * root * root < _LARGEST_EXPONENT:
            area = math.sqrt(0.5 * math.pi) * math.erf(root * math.sqrt(0.5)) * math.exp(0.5 * root * root)
            added = _price_of_gain(root, raised * area * (1.0 + _CHARGE))
        else:
            continue
        best = min(best, max(0.0, smoothing - remaining) + gaussian + added)
        if best <= gaussian * (1.0 + CONFIG.enough):
            break
    return up(best * (1.0 + 16.0 * UNIT)) if best < math.inf else best


def wallet_before(price: Price, count: int, remaining: float) -> float:
    """Return the mu squared that a budget needs to pay for `count` equal uses and keep `remaining` after them.

    `price` maps the mu squared left after one use to the price of this use. The less is left, the higher the price, so
    each use costs at least as much as the use before it. The result is rounded up, so that it always suffices, and
    infinite if a use has no finite price.
    """
    # Uses are priced in blocks, from the last use to the first. Each use of a block is charged the price of the block's
    # last use, which is the highest of the block. All blocks together overcharge by only a few hundredths of the price
    # of one use.
    wallet, unpaid = remaining, count
    while unpaid:
        one_price = price(wallet)
        if one_price == math.inf:
            return math.inf
        block = min(unpaid, max(1, int(wallet / (CONFIG.blocks_to_wallet * one_price)))) if one_price else unpaid
        wallet = up(wallet + block * one_price * (1.0 + 4.0 * UNIT))
        unpaid -= block
    return wallet


def after_paying(price: Price, count: int, wallet: float) -> float | None:
    """Return the mu squared left of a budget `wallet` after `count` equal uses; None if it cannot pay for them.

    The result is rounded down, so that no more is spent later than the budget allows. `price` maps the mu squared left
    after one use to the mu squared that this use costs; the less is left, the higher the price.
    """
    # The result is checked: the balance that `wallet_before` needs to keep the result, plus a margin for rounding
    # errors, is at most `wallet`.

    def spare(remaining: float) -> float:
        """Return which share of the budget `wallet` is left over after paying for all uses and keeping `remaining`.

        The function around this one searches for the largest amount that can be kept, that is, for the `remaining` at
        which the result is 0. The result is negative if the budget is too small. All amounts are in mu squared. The
        variables `count` and `price` of that function are the number of uses, and the price of a use as a function of
        what remains after it.
        """
        return (wallet - wallet_before(price, count, remaining) * (1.0 + _CHARGE)) / wallet

    if price(0.0) == 0.0:
        return wallet
    if wallet <= 0.0 or spare(0.0) < 0.0:
        return None
    return crossing(spare, 0.0, wallet, keep_left=True)


def _by_total_variation(kernel: Callable[[float], float], epsilon: float, remaining: float) -> float:
    """Return the price, in mu squared, of a mechanism use that leaves `remaining` in a budget; it is rounded up.

    A Gaussian mechanism of mu^2 = `remaining` stands for all uses that may follow. The price is the smallest p for
    which one Gaussian mechanism of mu^2 = `remaining` + p has at least the total variation of the use followed by that
    Gaussian.

    - `kernel` is a function k of a privacy loss s that describes the use: the use raises the total variation in
      proportion to the integral of k(s) exp(-s^2 / (2 `remaining`)) over s from 0 to `epsilon`.
    - `epsilon` is the largest loss of the use. The price is infinite if it is above 60.
    """
    # Let v = `remaining`, and G_v a Gaussian of mu^2 = v. The price is a c for which the total variation of G_{v + c},
    # 2 Phi(sqrt(v + c) / 2) - 1, is at least that of the use followed by G_v. With w = sqrt(v) / 2, c = 4 d (2 w + d),
    # where int_0^d exp(-w x - x^2/2) dx is at least (1 / (2 sqrt v)) int_0^epsilon kernel(s) exp(-s^2 / (2 v)) ds, or
    # at least sqrt(pi / 8) kernel(0) if v is close to 0, because the price at v = 0 holds for every v. All terms are
    # positive, so no digits cancel.
    if epsilon > _LARGEST_EPSILON:
        return math.inf
    deviation = math.sqrt(max(remaining, 0.0))
    if deviation < 1e-9 * epsilon:
        return _price_of_gain(0.0, math.sqrt(0.125 * math.pi) * kernel(0.0) * (1.0 + _CHARGE))
    end = min(epsilon, _FAR * deviation)
    total = _integral(lambda s: kernel(s) * math.exp(-0.5 * (s / deviation) ** 2), end, min(1.0, deviation))
    return _price_of_gain(0.5 * deviation, 0.5 * total / deviation * (1.0 + _CHARGE))


def _price_of_gain(root: float, gained: float) -> float:
    """Return by how much the mu squared of a Gaussian mechanism must rise for its total variation to rise by an amount.

    This is the last step in computing the price of a use in mu squared: the use raises the total variation by a known
    amount, and its price is the rise of mu squared that has the same effect.

    - `root` is w, half the mu of the Gaussian.
    - `gained` is the amount by which the total variation rises, divided by 2 phi(w), where phi is the standard normal
      density.

    The result is 4 d (2 w + d), rounded up, where d is the smallest number with int_0^d exp(-w x - x^2/2) dx >=
    `gained`. The result is infinite if the integral cannot reach `gained`.
    """
    # `_by_total_variation` derives the formula. Newton's method finds d from the left, because the integral is concave
    # in d, and the d used is checked. For d close to 0 the integral is replaced by its lower bound d (1 - d (w / 2 + d
    # / 6)).
    slight = gained * (root + gained)
    if slight < CONFIG.slight:
        d = gained * (1.0 + gained * (0.5 * root + gained / 6.0) * (1.0 + 4.0 * slight) + 4.0 * _CHARGE)
        if d * (1.0 - d * (0.5 * root + d / 6.0)) * (1.0 - _CHARGE) >= gained:
            return 4.0 * d * (2.0 * root + d) * (1.0 + 16.0 * UNIT)

    def area(d: float) -> float:
        """Return the integral of exp(-w x - x^2/2) over x from 0 to `d`.

        The number w is `root`, a parameter of the function around this one.
        """
        return _integral(lambda x: math.exp(-x * (root + 0.5 * x)), d, 2.0 / max(1.0, root))

    d, step = gained, math.inf
    for _ in range(60):
        exponent = d * (root + 0.5 * d)
        if exponent > _LARGEST_EXPONENT:
            return math.inf
        step = (gained - area(d)) * math.exp(exponent)
        if step <= 1e-15 * d:
            break
        d += step
    margin = 4.0 * _CHARGE
    while area(d * (1.0 + margin)) * (1.0 - _CHARGE) < gained:
        margin *= 4.0
        if margin > 1.0:
            return math.inf
    d *= 1.0 + margin
    return 4.0 * d * (2.0 * root + d) * (1.0 + 16.0 * UNIT)


def _integral(function: Callable[[float], float], end: float, panel: float) -> float:
    """Return the integral of `function` from 0 to `end`, by a Gauss quadrature rule on intervals of at most `panel`."""
    panels = max(1, math.ceil(end / panel))
    half = 0.5 * end / panels
    terms = []
    for index in range(panels):
        middle = half * (2 * index + 1)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            terms.append(weight * (function(middle - half * node) + function(middle + half * node)))
    return half * math.fsum(terms)


_SUMMED_SIGMA = 1e5
"""Up to this noise scale, sums over integer noise are computed term by term."""


def off_the_overlap(sigma: float, bound: int, sensitivity: int) -> float:
    """Return an upper bound on the probability that truncated integer Gaussian noise fails outright.

    Noise of parameter `sigma` is truncated to {-bound, ..., bound}. The noise fails if only one of two neighbouring
    tables, whose true values differ by `sensitivity`, can produce the outcome.
    """
    # With g(z) = exp(-z^2 / (2 sigma^2)), T the bound and s the sensitivity, the probability is sum_{z=T-s+1}^{T} g(z)
    # / sum_{z=-T}^{T} g(z).
    import numpy as np

    if sigma > _SUMMED_SIGMA or sensitivity > _SUMMED_SIGMA:
        # g falls from 0 on, so the numerator is at most s times its first term, and the denominator at least the
        # integral minus 1.
        edge = sensitivity * math.exp(-0.5 * ((bound - sensitivity + 1) / sigma) ** 2)
        inside = sigma * math.sqrt(2 * math.pi) * math.erf(bound / (sigma * math.sqrt(2.0))) - 1.0
        return min(edge / inside * (1 + 1e-9) if inside > 0.0 else 1.0, math.nextafter(1.0, 0.0))
    reach = min(bound, math.ceil(40 * sigma))  # further out g is below 1e-340, and leaving it out raises the ratio
    within = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    outside = np.exp(-0.5 * (np.arange(bound - sensitivity + 1, bound + 1) / sigma) ** 2)
    ratio = float(outside.sum()) / float(within.sum())
    exponent = 0.5 * (bound / sigma) ** 2
    value = probability(ratio, ratio * (8 * exponent + within.size + outside.size + 64) * UNIT + 5e-324).upper
    return min(value, math.nextafter(1.0, 0.0))


def missing_mass(sigma: float, bound: int, sensitivity: int) -> float:
    """Return an upper bound on the probability that integer Gaussian noise gives an outcome outside of a common range.

    Suppose that the noise is truncated to {-bound, ..., bound}. The common range has the outcomes that both of two
    neighbouring tables can then produce. The result, however, is the probability that noise which is not truncated
    falls outside of this range. The price of truncated noise is computed from it.

    `sigma` is the noise parameter, and `sensitivity` the difference of the two tables' true values.
    """
    # Let g(z) = exp(-z^2 / (2 sigma^2)) be the weights of the noise and m = bound - sensitivity + 1. The weights of all
    # other outcomes add up to at most g(m) + 2 int_m^inf g(x) dx. All weights add up to at least max(1, sigma sqrt(2
    # pi)), by Poisson summation.
    first = (bound - sensitivity + 1) / sigma
    edge = math.exp(-0.5 * first * first) / max(1.0, sigma * math.sqrt(2.0 * math.pi))
    return min(1.0, (edge + math.erfc(first * math.sqrt(0.5))) * (1.0 + 1e-9))
