"""What one use costs a Gaussian wallet: certified upper bounds.

Write G_s for the Gaussian mechanism with mu^2 = s. The *price* of a use with v left behind it is the least c such that
the use followed by G_v is dominated by G_{v + c} (docs/optimal-composition.md, "Prices"). It falls as v grows, so a
price at v is a price at every larger v. Every function here returns an upper bound, infinite where none is known.
What is charged for rounding is counted in docs/numerics.md, "Prices".

Truncation of integer Gaussian noise to {-bound, ..., bound} takes some of it away: with g(z) = exp(-z^2 / (2 sigma^2)),
noise and its neighbour, moved by the sensitivity s, overlap on {-bound + s, ..., bound}.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from setwise.accounting.brackets import UNIT, crossing, probability, up

Price = Callable[[float], float]
"""From a lower bound of what is left behind a use to an upper bound of its price."""

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
"""The Gauss-Legendre rule with 16 points on [-1, 1]: positive nodes, and the weight of each and of its mirror image."""


@dataclass(frozen=True, slots=True)
class PriceConfig:
    """How closely prices are found; each is an upper bound, whatever these numbers are."""

    blocks_to_wallet: int = 32
    """Uses are paid in blocks that raise the wallet by at most one part in this many."""
    lattice_shares: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 4.0)
    """Values of b that are tried for integer Gaussian noise, in units of the price of the Gaussian over sigma^2."""
    slight: float = 1e-6
    """Relative curvature of an integral below which it counts as a parabola: a price gives away the square of it."""
    enough: float = 1e-5
    """Excess of the price of integer Gaussian noise over that of Gaussian noise that is not looked to be lowered."""


CONFIG = PriceConfig()

_CHARGE = 1e-12
"""Relative error charged for an integral, several times what was counted."""

_FAR = 9.0
"""Standard deviations beyond which a Gaussian weight is left out: 3e-19 of it, far within the charge."""

_LARGEST_EPSILON = 60.0
"""A larger epsilon promises nothing and is not priced."""

_LARGEST_EXPONENT = 200.0
"""Beyond it a total variation is 1 in floats, and has no price."""


def gaussian_price(sigma: float, sensitivity: float = 1.0) -> float:
    """Return mu^2 = (sensitivity / sigma)^2, rounded up: the price whatever is left, also of rounded Gaussian noise.

    Theorem: Gaussian losses add; rounding to integers post-processes.
    """
    return (sensitivity / sigma) ** 2 * (1.0 + 8.0 * UNIT)


def pure_price(epsilon: float, left: float) -> float:
    """Return the price of an epsilon-DP use with `left` behind it.

    Theorem: docs/optimal-composition.md, Theorem 9 (the price is a total variation).
    """

    def kernel(s: float) -> float:
        return 2.0 * math.sinh(0.5 * (epsilon - s)) / math.cosh(0.5 * epsilon)

    return _by_total_variation(kernel, epsilon, left)


def laplace_price(epsilon: float, left: float) -> float:
    """Return the price of Laplace noise of scale 1/epsilon over the l1-sensitivity with `left` behind it.

    Theorem: docs/optimal-composition.md, Theorem 9.
    """

    def kernel(s: float) -> float:
        return -2.0 * math.exp(-0.5 * s) * math.expm1(0.5 * (s - epsilon))

    return _by_total_variation(kernel, epsilon, left)


def bounded_range_price(epsilon: float, left: float) -> float:
    """Return v (2 theta + theta^2), theta = int_0^a (a - s) exp(-s^2/2) ds, a = epsilon / (2 sqrt v), v = `left`.

    Theorem: docs/optimal-composition.md, Theorem 10 (bounded range).
    """
    half = 0.5 * epsilon
    alone = 0.5 * math.pi * half * half * (1.0 + 8.0 * UNIT)
    if left < 1e-300:
        return alone
    ratio = half / math.sqrt(left)
    if ratio <= 1.0:
        square = ratio * ratio
        share = 0.0
        for coefficient in _THETA_SERIES:
            share = share * square + coefficient
        return half * half * (2.0 * share + square * share * share) * (1.0 + 64.0 * UNIT)
    theta = ratio * math.sqrt(0.5 * math.pi) * math.erf(ratio * math.sqrt(0.5)) + math.expm1(-0.5 * ratio * ratio)
    return min(left * theta * (2.0 + theta) * (1.0 + _CHARGE), alone)


_THETA_SERIES = tuple((-1.0) ** n / (2**n * math.factorial(n) * (2 * n + 1) * (2 * n + 2)) for n in range(12, -1, -1))
"""theta / a^2 in powers of a^2, highest first: alternating and falling in size for a <= 1, and the last is positive."""


def integer_gaussian_price(sigma: float, sensitivity: int, left: float, missing: float = 0.0) -> float:
    """Return the price of integer Gaussian noise with `left` behind it.

    `missing` bounds the share of the untruncated noise that truncation takes away from what both neighbours reach.
    The lattice is seen through a Gaussian of mu^2 = b; where b is more than `left` the difference is paid in addition,
    and less than `left` serves as well. A little makes the lattice vanish.

    Theorem: docs/optimal-composition.md, Theorem 11 (integer Gaussian).
    """
    own = gaussian_price(sigma, float(sensitivity))
    best = math.inf
    for behind in (left, *(own * share / (sigma * sigma) for share in CONFIG.lattice_shares)):
        if behind <= 0.0 or missing >= 0.5:
            continue
        exponent = 2.0 * math.pi**2 * sigma * sigma * behind / (behind + own) * (1.0 - _CHARGE)
        ripple = 2.0 * math.exp(-exponent) / -math.expm1(-3.0 * exponent)  # j^2 >= 1 + 3 (j - 1)
        raised = (ripple + missing) / (1.0 - missing)
        root = 0.5 * math.sqrt(behind + own)
        if raised == 0.0:
            added = 0.0
        elif 0.5 * root * root < _LARGEST_EXPONENT:
            area = math.sqrt(0.5 * math.pi) * math.erf(root * math.sqrt(0.5)) * math.exp(0.5 * root * root)
            added = _spent(root, raised * area * (1.0 + _CHARGE))
        else:
            continue
        best = min(best, max(0.0, behind - left) + own + added)
        if best <= own * (1.0 + CONFIG.enough):
            break
    return up(best * (1.0 + 16.0 * UNIT)) if best < math.inf else best


def wallet_before(price: Price, count: int, left: float) -> float:
    """Return a wallet that pays for `count` uses of one price and has `left` afterwards, rounded up.

    The price at the last use of a block holds for all of the block, because more is left behind the others. Blocks grow
    with the wallet: what they give away adds up to a few hundredths of one use.
    """
    wallet, unpaid = left, count
    while unpaid:
        each = price(wallet)
        if each == math.inf:
            return math.inf
        block = min(unpaid, max(1, int(wallet / (CONFIG.blocks_to_wallet * each)))) if each else unpaid
        wallet = up(wallet + block * each * (1.0 + 4.0 * UNIT))
        unpaid -= block
    return wallet


def after_paying(price: Price, count: int, wallet: float) -> float | None:
    """Return what is left of the wallet after `count` uses, rounded down; None when it does not pay for them.

    What is returned was checked: `wallet_before` of it, raised by `_CHARGE`, is at most the wallet.
    """

    def spare(left: float) -> float:
        return (wallet - wallet_before(price, count, left) * (1.0 + _CHARGE)) / wallet

    if price(0.0) == 0.0:
        return wallet
    if wallet <= 0.0 or spare(0.0) < 0.0:
        return None
    return crossing(spare, 0.0, wallet, keep_left=True)


def _by_total_variation(kernel: Callable[[float], float], epsilon: float, left: float) -> float:
    """Return c with 2 Phi(sqrt(v + c) / 2) - 1 at least the total variation of the use followed by G_v; v = `left`.

    With w = sqrt(v) / 2, c = 4 d (2 w + d) where int_0^d exp(-w x - x^2/2) dx is at least

        (1 / (2 sqrt v)) int_0^epsilon kernel(s) exp(-s^2 / (2 v)) ds,

    or at least sqrt(pi / 8) kernel(0) where v is next to nothing: the price at 0 holds everywhere. All terms are
    positive, so nothing cancels.
    """
    if epsilon > _LARGEST_EPSILON:
        return math.inf
    deviation = math.sqrt(max(left, 0.0))
    if deviation < 1e-9 * epsilon:
        return _spent(0.0, math.sqrt(0.125 * math.pi) * kernel(0.0) * (1.0 + _CHARGE))
    end = min(epsilon, _FAR * deviation)
    total = _integral(lambda s: kernel(s) * math.exp(-0.5 * (s / deviation) ** 2), end, min(1.0, deviation))
    return _spent(0.5 * deviation, 0.5 * total / deviation * (1.0 + _CHARGE))


def _spent(root: float, gained: float) -> float:
    """Return 4 d (2 w + d), rounded up, for a d with int_0^d exp(-w x - x^2/2) dx >= `gained`; w = `root`.

    Newton's steps come from the left, because the integral is concave in d. The d returned was checked. It is at least
    d (1 - d (w / 2 + d / 6)), which is close enough where d is next to nothing.
    """
    slight = gained * (root + gained)
    if slight < CONFIG.slight:
        d = gained * (1.0 + gained * (0.5 * root + gained / 6.0) * (1.0 + 4.0 * slight) + 4.0 * _CHARGE)
        if d * (1.0 - d * (0.5 * root + d / 6.0)) * (1.0 - _CHARGE) >= gained:
            return 4.0 * d * (2.0 * root + d) * (1.0 + 16.0 * UNIT)

    def area(d: float) -> float:
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
    """Return the integral from 0 to `end` by the Gauss rule on panels no longer than `panel`."""
    panels = max(1, math.ceil(end / panel))
    half = 0.5 * end / panels
    terms = []
    for index in range(panels):
        middle = half * (2 * index + 1)
        for node, weight in zip(_NODES, _WEIGHTS, strict=True):
            terms.append(weight * (function(middle - half * node) + function(middle + half * node)))
    return half * math.fsum(terms)


_SUMMED_SIGMA = 1e5
"""Up to this scale sums over integer noise are taken term by term."""


def off_the_overlap(sigma: float, bound: int, sensitivity: int) -> float:
    """Return a bound on sum_{z=T-s+1}^{T} g(z) / sum_{z=-T}^{T} g(z): what one neighbour alone reaches, T = bound."""
    import numpy as np

    if sigma > _SUMMED_SIGMA or sensitivity > _SUMMED_SIGMA:
        # g falls from 0 on: the edge is at most s times its first term, the rest at least the integral less one.
        edge = sensitivity * math.exp(-0.5 * ((bound - sensitivity + 1) / sigma) ** 2)
        inside = sigma * math.sqrt(2 * math.pi) * math.erf(bound / (sigma * math.sqrt(2.0))) - 1.0
        return min(edge / inside * (1 + 1e-9) if inside > 0.0 else 1.0, math.nextafter(1.0, 0.0))
    reach = min(bound, math.ceil(40 * sigma))  # beyond, g is below 1e-340: leaving it out only raises the ratio
    within = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    outside = np.exp(-0.5 * (np.arange(bound - sensitivity + 1, bound + 1) / sigma) ** 2)
    ratio = float(outside.sum()) / float(within.sum())
    exponent = 0.5 * (bound / sigma) ** 2
    value = probability(ratio, ratio * (8 * exponent + within.size + outside.size + 64) * UNIT + 5e-324).upper
    return min(value, math.nextafter(1.0, 0.0))


def missing_mass(sigma: float, bound: int, sensitivity: int) -> float:
    """Return a bound on the share of untruncated noise outside the overlap.

    With m = bound - sensitivity + 1, both ends hold at most exp(-m^2 / 2 sigma^2) + 2 int_m^inf exp(-x^2 / 2 sigma^2)
    dx together, and the whole at least max(1, sigma sqrt(2 pi)), by Poisson summation.
    """
    first = (bound - sensitivity + 1) / sigma
    edge = math.exp(-0.5 * first * first) / max(1.0, sigma * math.sqrt(2.0 * math.pi))
    return min(1.0, (edge + math.erfc(first * math.sqrt(0.5))) * (1.0 + 1e-9))
