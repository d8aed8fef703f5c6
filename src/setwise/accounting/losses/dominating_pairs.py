"""Dominating pairs of mechanisms with known noise: their privacy losses on a lattice, enumerated or in closed form.

A dominating pair (P, Q) is the pair of output distributions on two neighbouring tables that has the largest delta at
every epsilon. All pairs here are symmetric: the pair for adding a user is the mirrored pair for removing one. Truncated
noise has outputs that only one of the two tables can produce; such an output is an outright failure. The privacy losses
in this module are conditional on no outright failure.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.brackets import ELEMENTARY, SPECIAL, UNIT
from setwise.accounting.guarantees import (
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Laplace,
    PureDP,
    TruncatedDiscreteGaussian,
)
from setwise.accounting.losses.lattice import (
    NOTHING,
    Atoms,
    Loss,
    LossLattice,
    LossPair,
    from_atoms,
    from_bins,
    from_cells,
    lattice_tail,
    multiples,
    randomized_response,
    two_point_atoms,
    two_point_loss,
)

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TwoPointLaw:
    """A privacy loss that takes only two values, `high` > 0 and `low` < 0: an example from which lower bounds follow.

    The two losses determine their probabilities (`probability` and `complement`). Randomized response, for example, has
    such a loss. The object is for lower bounds on delta only. An upper bound must also hold with the two neighbouring
    tables exchanged, and the exchanged loss has another distribution.
    """

    # P and Q are the distributions of outputs on two neighbouring tables. The two losses determine the probabilities of
    # both outcomes, because the probabilities add up to 1 under P and under Q. An upper bound on delta must hold for
    # the pair (P, Q) and for the pair (Q, P). Exchanging P and Q gives another distribution of the loss. So one
    # `TwoPointLaw` alone must not stand for a mechanism in an upper bound.

    high: float
    low: float

    @property
    def probability(self) -> float:
        """The probability, under P, of the larger loss `high`: (e^-low - 1) / (e^-low - e^-high).

        P and Q are the output distributions on two neighbouring tables, and the loss of an output is log(P / Q). The
        two losses determine the probability, because the probabilities of both tables must add up to 1.
        """
        return math.expm1(self.low) / math.expm1(self.low - self.high)

    @property
    def complement(self) -> float:
        """The probability, under P, of the lower loss `low`: (1 - e^-high) / (e^-low - e^-high).

        P and Q are the output distributions on two neighbouring tables, and the loss of an output is log(P / Q).
        """
        return math.exp(self.low) * math.expm1(-self.high) / math.expm1(self.low - self.high)

    def largest_loss(self) -> Fraction:
        """Return the larger of the two privacy losses, the field `high`, as a fraction."""
        return Fraction(self.high)


KnownNoise = PureDP | Laplace | Gaussian | DiscreteLaplace | DiscreteGaussian | TruncatedDiscreteGaussian | TwoPointLaw
"""A mechanism with a fixed dominating pair. For `PureDP` the pair is randomized response, the worst of its class.

Other guarantees have no single pair: classified_uses.py says how uses of each are bounded.
"""


def tabulate_loss(noise: KnownNoise, step: float, reach: float = 40.0) -> LossPair:
    """Return the privacy loss of one use of `noise` as two tables, one for an upper and one for a lower bound on delta.

    Each table is a lattice: it has the probabilities of equally spaced losses, `step` apart, to which all losses are
    rounded. In the first table the rounding can only raise delta, and in the second it can only lower delta. `reach` is
    for Gaussian noise only: losses more than `reach` standard deviations from their mean are left out.
    """
    # The upper bound adds the probability of losses that are not tabulated to the probability of an infinite loss.
    match noise:
        case PureDP(epsilon=epsilon):
            keep = 1.0 / (1.0 + math.exp(-epsilon))
            loss, mass = np.array([-epsilon, epsilon]), np.array([keep * math.exp(-epsilon), keep])
            return from_atoms(step, loss, mass, 0.0, 4 * ELEMENTARY * UNIT)
        case Laplace():
            return _laplace(noise, step)
        case Gaussian():
            return _gaussian(noise, step, reach)
        case DiscreteLaplace():
            return from_atoms(step, *_discrete_laplace(noise), 0.0, _ATOM_ERROR)
        case DiscreteGaussian():
            return from_atoms(step, *_discrete_gaussian(noise, None), 0.0, _ATOM_ERROR)
        case TruncatedDiscreteGaussian():
            return from_atoms(step, *_discrete_gaussian(noise, noise.bound), 0.0, _ATOM_ERROR)
        case TwoPointLaw(high=high, low=low):
            loss, mass = np.array([low, high]), np.array([noise.complement, noise.probability])
            return from_atoms(step, loss, mass, 0.0, 8 * ELEMENTARY * UNIT)
        case _:
            assert_never(noise)


_ATOM_ERROR = 1e-11
"""Relative error assumed for the masses of integer noise, which are normalised by sums of up to millions of
exponentials with exponents up to 800."""


_OUTER_RATIO = 1e-120
"""Enumerated masses below this share of their mode are dropped and added to the upper bound; far below any delta of
interest."""

_MOST_CONVOLVED = 4096
"""Largest number of losses of integer noise for which equal uses are added up term by term."""

_LEAST_CONVOLVED = 1e-250
"""Smallest probability of a sum of losses that still keeps all its digits; rarer sums are not added up term by term."""


def enumerate_losses(uses: Iterable[tuple[KnownNoise, int]], most: int) -> Atoms | None:
    """Return the distribution of the total privacy loss of `uses`, pairs (noise, count), as a list of losses.

    The losses are exact, that is, not rounded to equally spaced values. Losses of negligible probability are left out,
    and the field `dropped` of the result bounds the sum of their probabilities. A list is possible for pure DP (its
    worst mechanism is randomized response, with two losses), for other losses with two values, and for integer noise
    with few losses. Returns None if there is other noise, or if the result would have more than `most` entries.
    """
    atoms = NOTHING
    for noise, count in uses:
        if isinstance(noise, PureDP):
            group = two_point_atoms(noise.epsilon, -noise.epsilon, count, _OUTER_RATIO)
        elif isinstance(noise, TwoPointLaw):
            group = two_point_atoms(noise.high, noise.low, count, _OUTER_RATIO)
        elif (sums := _sums(noise, count)) is not None:
            group = Atoms((sums.top - sums.step * np.arange(sums.mass.size)) / sums.unit, sums.mass, sums.error, 0.0)
        else:
            return None
        if atoms.size * group.size > most:
            return None
        atoms = atoms.times(group)
    return atoms


def sum_equal_uses(noise: KnownNoise, count: int) -> Loss | None:
    """Return the total privacy loss of `count` uses of `noise` as a `Loss`, which gives delta at any epsilon.

    The object is quicker than a list of all losses if only delta is wanted. The result is None if the total loss is
    continuous, if it has too many values to enumerate, or if the probability of some value is too small for a float.
    """
    if isinstance(noise, PureDP):
        return randomized_response(noise.epsilon, count)
    if isinstance(noise, TwoPointLaw):
        return two_point_loss(noise.high, noise.low, count)
    if isinstance(noise, DiscreteLaplace) and count == 1 and noise.sensitivity >= _MOST_CONVOLVED:
        return DiscreteLaplaceLoss(noise)
    sums = _sums(noise, count)
    if sums is None:
        return None
    return lattice_tail(sums.top / sums.unit, sums.step / sums.unit, sums.mass, sums.error, 0.0)


@dataclass(frozen=True, slots=True)
class _Sums:
    """A distribution of privacy losses: `mass[i]` is the probability of the loss (top - i * step) / unit.

    `top` and `step` are whole numbers, so that the losses of several uses are added up without rounding; the positive
    number `unit` converts such a whole number to a loss. `error` bounds the relative error of each probability.
    """

    top: int
    step: int
    unit: float
    mass: Floats
    error: float


def _sums(noise: KnownNoise, count: int) -> _Sums | None:
    """Return the distribution of the total loss of `count` uses of the integer `noise`, with exact losses.

    The distribution is computed by convolution, term by term. The result is None if this would be slow or inexact:

    - `noise` is neither integer Laplace nor truncated integer Gaussian noise;
    - the total loss has about 4096 values or more (`_MOST_CONVOLVED`);
    - the rarest value has a probability below 1e-250 (`_LEAST_CONVOLVED`), which a float cannot hold precisely.
    """
    match noise:
        case DiscreteLaplace(scale=unit, sensitivity=s) if s * count < _MOST_CONVOLVED:
            top, step, (_, one) = s, 2, _discrete_laplace(noise)
        case TruncatedDiscreteGaussian(sigma=sigma, bound=bound, sensitivity=s) if 2 * bound * count < _MOST_CONVOLVED:
            losses, one = _discrete_gaussian(noise, bound)
            unit = 2.0 * sigma * sigma
            top, step = round(losses[0] * unit), 2 * s
        case _:
            return None
    rarest = float(one.min())
    # A probability below the range of floats has become 0, so its relative error cannot be bounded.
    if rarest == 0.0 or count * math.log(rarest) < math.log(_LEAST_CONVOLVED):
        return None
    total = one
    for _ in range(count - 1):
        total = np.convolve(total, one)  # all terms are positive, so no digits are lost
    return _Sums(count * top, step, unit, total, count * (_ATOM_ERROR + (one.size + 2) * UNIT))


def loss_unit(noise: KnownNoise) -> float:
    """Return a number of which all losses of `noise` that have positive probability are whole multiples.

    Callers round losses to multiples of a step. If the step divides this number, losses of positive probability need no
    rounding. The result is 0 if no single loss has positive probability, as for a Gaussian. The two losses of a
    `TwoPointLaw` have no such number in common; the result is then the larger loss.
    """
    # A `TwoPointLaw` is an exception: its two losses have no common unit, so the larger loss is returned.
    match noise:
        case PureDP(epsilon=epsilon):
            return epsilon
        case Laplace(scale=scale) | DiscreteLaplace(scale=scale):
            return 1.0 / scale
        case Gaussian():
            return 0.0
        case DiscreteGaussian(sigma=sigma, sensitivity=s) | TruncatedDiscreteGaussian(sigma=sigma, sensitivity=s):
            return 0.5 * s / (sigma * sigma)
        case TwoPointLaw(high=high):
            return high
        case _:
            assert_never(noise)


def on_lattice(noise: KnownNoise, step: float) -> bool:
    """Return whether losses of `noise` that have positive probability should be points of the lattice of this `step`.

    A lattice is a set of equally spaced losses, `step` apart, to which all losses are rounded. Losses that are lattice
    points are not changed by this rounding. The result is False if no single loss has positive probability, or if these
    losses are so much closer together than `step` that rounding them changes little.
    """
    # The result is False if the loss is continuous, because no loss has positive probability, and if these losses are
    # much closer together than `step`, because then they are treated like a continuous loss.
    match noise:
        case PureDP() | Laplace() | DiscreteLaplace() | TwoPointLaw():
            return True
        case Gaussian():
            return False
        case DiscreteGaussian() | TruncatedDiscreteGaussian():
            return loss_unit(noise) > step / 8  # finer losses are as good as continuous
        case _:
            assert_never(noise)


def variance_and_continuous_mass(noise: KnownNoise) -> tuple[float, float]:
    """Return (approximate variance of the loss of one use of `noise`, probability that the loss is continuous).

    A loss is continuous if it has no positive probability by itself. Callers round losses to a lattice (equally spaced
    losses): rounding always changes continuous losses, while a loss of positive probability can be a lattice point,
    which needs no rounding. All losses of integer Gaussian noise count as continuous, because there are so many of
    them.
    """
    # Other losses are multiples of `loss_unit`.
    match noise:
        case PureDP(epsilon=epsilon):
            return epsilon**2, 0.0
        case Laplace(scale=scale):
            return scale**-2, -0.5 * math.expm1(-1.0 / scale)
        case DiscreteLaplace(scale=scale, sensitivity=sensitivity):
            return (sensitivity / scale) ** 2, 0.0
        case Gaussian(sigma=sigma):
            return sigma**-2, 1.0
        case DiscreteGaussian(sigma=sigma, sensitivity=s) | TruncatedDiscreteGaussian(sigma=sigma, sensitivity=s):
            return (s / sigma) ** 2, 1.0
        case TwoPointLaw(high=high, low=low):
            return noise.probability * noise.complement * (high - low) ** 2, 0.0
        case _:
            assert_never(noise)


def _laplace(noise: Laplace, step: float) -> LossPair:
    """Return the privacy loss of the Laplace `noise`, rounded to equally spaced losses, for both bounds on delta.

    A lattice holds the probabilities of equally spaced losses, to which all losses are rounded; `step` is their
    distance. The result has two such lattices: in one, rounding can only raise delta, and in the other only lower it.
    Before rounding, the losses epsilon = 1/scale and -epsilon have positive probability, and between them the loss has
    the density exp((loss - epsilon)/2) / 4.
    """
    epsilon = 1.0 / noise.scale

    def between(edges: Floats) -> tuple[Floats, Floats]:
        """Return the probabilities of Laplace losses between consecutive `edges`, as two arrays: under P and under Q.

        P and Q are the output distributions on two neighbouring tables. The two losses epsilon = 1/scale and -epsilon
        have positive probability by themselves; if one of them is an edge, it belongs to the interval above.
        """
        inside = np.clip(edges, -epsilon, epsilon)
        # expm1 keeps the difference of the two exponentials accurate for short cells
        width = np.diff(inside)
        p = 0.5 * np.exp(0.5 * (inside[1:] - epsilon)) * -np.expm1(-0.5 * width)
        q = 0.5 * np.exp(-0.5 * (inside[:-1] + epsilon)) * -np.expm1(-0.5 * width)
        for atom, p_atom, q_atom in (
            (epsilon, 0.5, 0.5 * math.exp(-epsilon)),
            (-epsilon, 0.5 * math.exp(-epsilon), 0.5),
        ):
            cell = int(np.searchsorted(edges, atom, side="right")) - 1
            p[cell] += p_atom
            q[cell] += q_atom
        return p, q

    reach = math.ceil(epsilon / step) + 2
    nodes = multiples(step, -reach, 2 * reach + 1)
    error = 8 * ELEMENTARY * UNIT
    halves = np.append(nodes, nodes[-1] + step) - step / 2
    return LossPair(
        lambda: from_cells(step, -reach, *between(nodes), 0.0, error),
        lambda: from_bins(step, -reach, *between(halves), 0.0, error),
    )


def _gaussian(noise: Gaussian, step: float, reach: float) -> LossPair:
    """Return the privacy loss of the Gaussian `noise`, rounded to equally spaced losses, for both bounds on delta.

    A lattice has the probabilities of equally spaced losses, to which all losses are rounded; `step` is their distance.
    The result has two such lattices: in one, rounding can only raise delta, and in the other only lower it. In the
    first, losses more than `reach` standard deviations above the mean count as infinite.
    """
    # On one of the two neighbouring tables the loss is normal with mean 1/(2 sigma^2) and standard deviation 1/sigma.
    from scipy.special import ndtr

    deviation = 1.0 / noise.sigma
    mean = 0.5 * deviation**2
    last = math.ceil((mean + reach * deviation) / step)
    nodes = multiples(step, -last, 2 * last + 1)

    # The pair is symmetric, so the Q mass of a cell is the P mass of its mirror image.
    def above() -> LossLattice:
        """Return the Gaussian loss rounded to equally spaced losses (a lattice) so that delta can only rise.

        The loss is that of `noise`, a parameter of the function around this one.
        """
        cells, error = _normal_masses((nodes[:-1] + step / 2 - mean) / deviation, step / deviation)
        tail = float(ndtr(-(nodes[-1] - mean) / deviation)) * (1 + SPECIAL * UNIT)
        return from_cells(step, -last, cells, cells[::-1], tail, error)

    def below() -> LossLattice:
        """Return the Gaussian loss rounded to equally spaced losses (a lattice) so that delta can only fall.

        The loss is that of `noise`, a parameter of the function around this one.
        """
        bins, error = _normal_masses((nodes - mean) / deviation, step / deviation)
        return from_bins(step, -last, bins, bins[::-1], 0.0, error)

    return LossPair(above, below)


def _normal_masses(z: Floats, width: float) -> tuple[Floats, float]:
    """Return the standard normal probabilities of intervals, and a bound on the relative error of each probability.

    Each interval has the length `width`, and its middle is an entry of `z`. The caller rounds all Gaussian losses in an
    interval to one loss, which then has the probability of the interval.
    """
    # Short intervals use the midpoint expansion, whose next term is below (width z)^6 / 3e5. Long intervals use
    # differences of the distribution function, whose cancellation magnifies the error by about 1 / width.
    farthest = float(np.abs(z).max()) + 1.0
    if width * farthest > 0.02:
        from scipy.special import ndtr

        tails = ndtr(-np.abs(z[:, None] + np.array([-0.5, 0.5]) * width))
        across = np.abs(z) < 0.5 * width
        masses = np.where(across, 1.0 - tails[:, 0] - tails[:, 1], np.abs(tails[:, 0] - tails[:, 1]))
        return masses, SPECIAL * UNIT * (2.0 + 4.0 / width)
    square, w2 = z * z, width * width
    series = 1.0 + (w2 / 24) * (square - 1.0) + (w2 * w2 / 1920) * ((square - 6.0) * square + 3.0)
    masses = (width / math.sqrt(2 * math.pi)) * np.exp(-0.5 * square) * series
    return masses, 1e-15 + 8 * farthest**2 * UNIT


def _discrete_laplace(noise: DiscreteLaplace) -> tuple[Floats, Floats]:
    """Return the privacy losses of one use of integer Laplace noise, and their probabilities, as two arrays.

    The losses are (|z - s| - |z|) / b for the possible values z of the noise, where b is the scale and s the
    sensitivity of `noise`.
    """
    # The noise values z <= 0 have the same loss and form the first entry, then come z = 1, ..., s - 1, and the last
    # entry is for all z >= s.
    s, rate = noise.sensitivity, 1.0 / noise.scale
    keep = 1.0 / (1.0 + math.exp(-rate))  # P[z <= 0]
    inner = multiples(1.0, 1, s - 1)
    loss = np.concatenate(([s * rate], (s - 2 * inner) * rate, [-s * rate]))
    weight = np.exp(-inner * rate) * -math.expm1(-rate) * keep
    return loss, np.concatenate(([keep], weight, [keep * math.exp(-s * rate)]))


@dataclass(frozen=True, slots=True)
class DiscreteLaplaceLoss:
    """The privacy loss of one use of integer Laplace noise, whose delta is computed by a formula.

    The formula takes any sensitivity. The alternative, a list of all losses, would be too long if the sensitivity is
    large.
    """

    # Let s be the sensitivity, r = 1 / scale and x >= 0. The loss is s r with probability k = 1 / (1 + exp(-r)), and (s
    # - 2 j) r with probability k (1 - exp(-r)) exp(-j r) for 0 < j < s. Only losses above x contribute to delta(x), by
    # their probability times 1 - exp(x - loss). With J the number of values j that contribute, both sums over j are
    # geometric and have a common factor, so that delta(x) = k (1 - exp(x - s r)) + k exp(-r) (1 - exp(-J r)) (1 - exp(x
    # - (s - J - 1) r)), a sum of two products of positive factors, in which no digits cancel.

    noise: DiscreteLaplace

    def delta(self, x: Floats) -> tuple[Floats, Floats]:
        """Return delta of integer Laplace noise at each epsilon in `x`, and a bound on each value's absolute error."""
        s, rate = self.noise.sensitivity, 1.0 / self.noise.scale
        size = np.abs(x)
        keep = 1.0 / (1.0 + math.exp(-rate))
        value = keep * -np.expm1(np.minimum(0.0, size - s * rate))
        # A J that rounding made too large or too small drops a term or adds one that is not positive, so both give a
        # smaller sum. Of three neighbouring J the right one gives the largest.
        nearest = np.ceil((s - size * self.noise.scale) / 2.0) - 1.0
        inner = np.zeros_like(size)
        for shift in (-1.0, 0.0, 1.0):
            last = np.clip(nearest + shift, 0.0, s - 1.0)
            term = np.expm1(-last * rate) * np.expm1(np.minimum(0.0, size - (s - last - 1.0) * rate))
            inner = np.maximum(inner, term)
        value = value + keep * math.exp(-rate) * inner
        # The exponents are differences of numbers up to s r + |x|, so that rounding moves them by that many units.
        error = value * (16 * ELEMENTARY * UNIT) + 16 * UNIT * (s * rate + size) * (size < s * rate * (1.0 + 16 * UNIT))
        negative = x < 0.0
        value = np.where(negative, -np.expm1(-size) + np.exp(-size) * value, value)
        return value, error + negative * (4 * ELEMENTARY * UNIT) * value


def _discrete_gaussian(noise: DiscreteGaussian | TruncatedDiscreteGaussian, bound: int | None) -> tuple[Floats, Floats]:
    """Return the privacy losses of one use of integer Gaussian noise, and their probabilities, as two arrays.

    The losses are (s^2 - 2 z s) / (2 sigma^2) for the possible values z of the noise, where s is the sensitivity of
    `noise` and sigma its noise parameter. With a `bound`, noise is truncated to {-bound, ..., bound}; None means no
    truncation.
    """
    # sigma is about the standard deviation. With a `bound`, only outcomes that both of two neighbouring tables can
    # produce are included.
    s, sigma = noise.sensitivity, noise.sigma
    reach = math.ceil(38.5 * sigma)
    last = reach if bound is None else min(reach, bound)
    support = multiples(1.0, -last, 2 * last + 1)
    weight = np.exp(-0.5 * (support / sigma) ** 2)
    weight /= weight.sum()
    if bound is not None and last == bound:
        # Values that only one neighbour can produce are an outright failure, which is composed separately. Given no
        # failure, both neighbours are normalised by the same constant (by reflection), so the loss does not change.
        shared = support >= s - bound
        support, weight = support[shared], weight[shared] / weight[shared].sum()
    return (s * s - 2.0 * support * s) / (2.0 * sigma * sigma), weight


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


def _kernel(y: Floats) -> Floats:
    """Return 2 / sqrt(pi) - 2 y erfcx(y) at each `y`, where erfcx(y) = exp(y^2) erfc(y).

    The result is minus the derivative of erfcx, and is positive. `_positive_side` computes the delta of Gaussian noise
    as an integral of this function.
    """
    from scipy.special import erfcx

    return np.asarray(2.0 / math.sqrt(math.pi) - 2.0 * y * erfcx(y), dtype=np.float64)


def _positive_side(x: Floats, sigma: float) -> tuple[Floats, Floats]:
    """Return the delta of Gaussian noise at each epsilon in `x`, and bounds on the absolute errors of these deltas.

    `sigma` is the standard deviation of the noise divided by the l2-sensitivity.

    Requires: every x is at least 0.
    """
    from scipy.special import erfc, erfcx

    distance = 1.0 / (sigma * math.sqrt(2.0))
    start = (x * sigma - 0.5 / sigma) / math.sqrt(2.0)
    if distance < 0.5:
        middle, half = start + distance / 2, distance / 2
        points = middle[:, None] + half * _NODES[None, :]
        difference = half * (_kernel(points) * _WEIGHTS).sum(axis=1)
        # Cancellation in the kernel magnifies its error by about 1 + 2 y^2. The kernel is (4/sqrt(pi)) times the
        # integral of t exp(-t^2 - 2 y t), so the relative error of the 8-point rule is below 5e-14 distance^17, which
        # is negligible.
        relative = (SPECIAL * (2.0 + 2.0 * np.maximum(start, 0.0) ** 2) + 64) * UNIT
        value = 0.5 * np.exp(-(start**2)) * difference
    else:
        # erfcx overflows far to the left, where Phi itself is close to 1 and nothing cancels.
        ahead = np.maximum(start, -1.0)
        from_start = erfcx(ahead)
        difference = np.where(start < -1.0, 1.0, from_start - erfcx(ahead + distance))
        far_left = 0.5 * erfc(start) - 0.5 * np.exp(-(start**2)) * erfcx(np.maximum(start + distance, 0.0))
        value = np.where(start < -1.0, far_left, 0.5 * np.exp(-(start**2)) * difference)
        relative = SPECIAL * UNIT * (3.0 + 2.0 * from_start / np.maximum(difference, 1e-300))
    # `start` has a rounding error of a few units of its larger term (sigma itself may have been rounded when Gaussians
    # were merged), and the exponential magnifies that error by 2 |start|.
    parts = x * sigma + 0.5 / sigma
    magnified = np.where(start < -1.0, 1.0, 2 * np.abs(start) + 2)
    relative = relative + magnified * 16 * UNIT * parts + (np.minimum(start, 1e3) ** 2 + ELEMENTARY) * UNIT
    return value, value * relative + 1e-300


@dataclass(frozen=True, slots=True)
class GaussianLoss:
    """The privacy loss of Gaussian noise; `sigma` is its standard deviation divided by the l2-sensitivity."""

    # Its delta has the closed form delta(x) = Phi(1/(2 sigma) - x sigma) - exp(x) Phi(-1/(2 sigma) - x sigma)
    # (lem:AGM), a difference of nearly equal numbers if sigma is large or delta is small. Written with erfcx, both
    # terms share the factor exp(-y^2)/2 with y = (x sigma - 1/(2 sigma)) / sqrt(2), and the other factor is the
    # integral of a positive function, so relative accuracy is kept.

    sigma: float

    def delta(self, x: Floats) -> tuple[Floats, Floats]:
        """Return the delta of Gaussian noise at each epsilon in `x`, and a bound on each delta's absolute error.

        Theorem: the analytic Gaussian mechanism (lem:AGM); negative x by the symmetry delta(-x) = 1 - exp(-x) + exp(-x)
        delta(x).
        """
        size = np.abs(x)
        value, error = _positive_side(size, self.sigma)
        negative = x < 0
        if negative.any():
            scale = np.exp(-size)
            value = np.where(negative, -np.expm1(-size) + scale * value, value)
            error = np.where(negative, scale * error + (2 * ELEMENTARY + 4) * UNIT * value, error)
        return value, error
