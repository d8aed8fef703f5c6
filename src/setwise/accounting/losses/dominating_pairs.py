"""The dominating pairs of mechanisms with known noise, tabulated on a lattice; that of the Gaussian also exactly.

All are symmetric: adding and removing a user give the same pair, mirrored. For truncated noise this is the loss given
that it does not fail outright.
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
    LatticeTail,
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
    """A privacy loss that takes the values `high` > 0 and `low` < 0: one pair of laws, used for lower bounds only.

    The two values determine the probabilities, because P and Q both have mass 1. The pair the other way round is a
    different law, so such a law must not stand for a mechanism in an upper bound.
    """

    high: float
    low: float

    @property
    def probability(self) -> float:
        """The probability of `high` under P: (e^-low - 1) / (e^-low - e^-high)."""
        return math.expm1(self.low) / math.expm1(self.low - self.high)

    @property
    def complement(self) -> float:
        """The probability of `low` under P: (1 - e^-high) / (e^-low - e^-high)."""
        return math.exp(self.low) * math.expm1(-self.high) / math.expm1(self.low - self.high)

    def largest_loss(self) -> Fraction:
        """Return the larger of the two losses."""
        return Fraction(self.high)


KnownNoise = PureDP | Laplace | Gaussian | DiscreteLaplace | DiscreteGaussian | TruncatedDiscreteGaussian | TwoPointLaw
"""What has a fixed dominating pair. For PureDP it is randomized response, the worst of its class."""


def tabulated(known: KnownNoise, step: float, reach: float = 40.0) -> LossPair:
    """Return the privacy loss of one use on the lattice with the given step.

    Losses of a Gaussian further than `reach` standard deviations from their mean are not tabulated but charged.
    """
    match known:
        case PureDP(epsilon=epsilon):
            keep = 1.0 / (1.0 + math.exp(-epsilon))
            loss, mass = np.array([-epsilon, epsilon]), np.array([keep * math.exp(-epsilon), keep])
            return from_atoms(step, loss, mass, 0.0, 4 * ELEMENTARY * UNIT)
        case Laplace():
            return _laplace(known, step)
        case Gaussian():
            return _gaussian(known, step, reach)
        case DiscreteLaplace():
            return from_atoms(step, *_discrete_laplace(known), 0.0, _ATOM_ERROR)
        case DiscreteGaussian():
            return from_atoms(step, *_discrete_gaussian(known, None), 0.0, _ATOM_ERROR)
        case TruncatedDiscreteGaussian():
            return from_atoms(step, *_discrete_gaussian(known, known.bound), 0.0, _ATOM_ERROR)
        case TwoPointLaw(high=high, low=low):
            loss, mass = np.array([low, high]), np.array([known.complement, known.probability])
            return from_atoms(step, loss, mass, 0.0, 8 * ELEMENTARY * UNIT)
        case _:
            assert_never(known)


_ATOM_ERROR = 1e-11
"""Charged to the masses of integer noise: sums of up to millions of exponentials with exponents up to 800."""


_OUTER_RATIO = 1e-120
"""Enumerated masses below this share of their mode are dropped and charged; far below any delta of interest."""

_MOST_CONVOLVED = 4096
"""Losses of integer noise up to which uses are added up term by term."""

_LEAST_CONVOLVED = 1e-250
"""Probability of the rarest sum of losses that is kept to every digit."""


def enumerated(uses: Iterable[tuple[KnownNoise, int]], most: int) -> Atoms | None:
    """Return the exact losses of randomized responses and of integer noise with few values.

    None where there is other noise, or more than `most` losses.
    """
    atoms = NOTHING
    for known, count in uses:
        if isinstance(known, PureDP):
            group = two_point_atoms(known.epsilon, -known.epsilon, count, _OUTER_RATIO)
        elif isinstance(known, TwoPointLaw):
            group = two_point_atoms(known.high, known.low, count, _OUTER_RATIO)
        elif (sums := _sums(known, count)) is not None:
            group = Atoms((sums.top - sums.step * np.arange(sums.mass.size)) / sums.unit, sums.mass, sums.error, 0.0)
        else:
            return None
        if atoms.size * group.size > most:
            return None
        atoms = atoms.times(group)
    return atoms


def added_up(known: KnownNoise, count: int) -> LatticeTail | None:
    """Return the loss of equal uses where it is one of those that `enumerated` knows."""
    if isinstance(known, PureDP):
        return randomized_response(known.epsilon, count)
    if isinstance(known, TwoPointLaw):
        return two_point_loss(known.high, known.low, count)
    sums = _sums(known, count)
    if sums is None:
        return None
    return lattice_tail(sums.top / sums.unit, sums.step / sums.unit, sums.mass, sums.error, 0.0)


@dataclass(frozen=True, slots=True)
class _Sums:
    """Masses of the losses top / unit, (top - step) / unit, ... with whole tops and steps, and their relative error."""

    top: int
    step: int
    unit: float
    mass: Floats
    error: float


def _sums(known: KnownNoise, count: int) -> _Sums | None:
    """Return the losses of integer noise added up; None for other noise, or where they are many or too rare."""
    match known:
        case DiscreteLaplace(scale=unit, sensitivity=s) if s * count < _MOST_CONVOLVED:
            top, step, (_, one) = s, 2, _discrete_laplace(known)
        case TruncatedDiscreteGaussian(sigma=sigma, bound=bound, sensitivity=s) if 2 * bound * count < _MOST_CONVOLVED:
            losses, one = _discrete_gaussian(known, bound)
            unit = 2.0 * sigma * sigma
            top, step = round(losses[0] * unit), 2 * s
        case _:
            return None
    rarest = float(one.min())
    # A probability below the range of floats is 0 here, and has no digits to keep.
    if rarest == 0.0 or count * math.log(rarest) < math.log(_LEAST_CONVOLVED):
        return None
    total = one
    for _ in range(count - 1):
        total = np.convolve(total, one)  # all terms are positive: every digit is kept
    return _Sums(count * top, step, unit, total, count * (_ATOM_ERROR + (one.size + 2) * UNIT))


def loss_unit(known: KnownNoise) -> float:
    """Return the unit of which all losses with positive probability are multiples; 0 for a continuous loss."""
    match known:
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
            assert_never(known)


def on_lattice(known: KnownNoise, step: float) -> bool:
    """Return whether a lattice of about the given step should contain the losses that have positive probability."""
    match known:
        case PureDP() | Laplace() | DiscreteLaplace() | TwoPointLaw():
            return True
        case Gaussian():
            return False
        case DiscreteGaussian() | TruncatedDiscreteGaussian():
            return loss_unit(known) > step / 8  # finer losses are as good as continuous
        case _:
            assert_never(known)


def spread(known: KnownNoise) -> tuple[float, float]:
    """Return roughly the variance of the loss, and the probability that it lies between multiples of its unit."""
    match known:
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
            return known.probability * known.complement * (high - low) ** 2, 0.0
        case _:
            assert_never(known)


def _laplace(known: Laplace, step: float) -> LossPair:
    """Tabulate Laplace noise: atoms at ±epsilon, and between them the density exp((loss - epsilon)/2) / 4."""
    epsilon = 1.0 / known.scale

    def between(edges: Floats) -> tuple[Floats, Floats]:
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


def _gaussian(known: Gaussian, step: float, reach: float) -> LossPair:
    """Tabulate Gaussian noise: a loss of mean 1/(2 sigma^2) and standard deviation 1/sigma under P."""
    from scipy.special import ndtr

    deviation = 1.0 / known.sigma
    mean = 0.5 * deviation**2
    last = math.ceil((mean + reach * deviation) / step)
    nodes = multiples(step, -last, 2 * last + 1)

    # The pair is symmetric: the Q mass of a cell is the P mass of its mirror image.
    def above() -> LossLattice:
        cells, error = _normal_masses((nodes[:-1] + step / 2 - mean) / deviation, step / deviation)
        tail = float(ndtr(-(nodes[-1] - mean) / deviation)) * (1 + SPECIAL * UNIT)
        return from_cells(step, -last, cells, cells[::-1], tail, error)

    def below() -> LossLattice:
        bins, error = _normal_masses((nodes - mean) / deviation, step / deviation)
        return from_bins(step, -last, bins, bins[::-1], 0.0, error)

    return LossPair(above, below)


def _normal_masses(z: Floats, width: float) -> tuple[Floats, float]:
    """Return the standard normal probabilities of intervals of the given width around each z, and their relative error.

    Short intervals by the midpoint expansion, whose next term is below (width z)^6 / 3e5; long ones as differences of
    the distribution function, which share all but about `width` of their digits.
    """
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


def _discrete_laplace(known: DiscreteLaplace) -> tuple[Floats, Floats]:
    """Return the losses (|z - s| - |z|)/b and their masses: z <= 0, then 1 .. s-1, then z >= s."""
    s, rate = known.sensitivity, 1.0 / known.scale
    keep = 1.0 / (1.0 + math.exp(-rate))  # P[z <= 0]
    inner = multiples(1.0, 1, s - 1)
    loss = np.concatenate(([s * rate], (s - 2 * inner) * rate, [-s * rate]))
    weight = np.exp(-inner * rate) * -math.expm1(-rate) * keep
    return loss, np.concatenate(([keep], weight, [keep * math.exp(-s * rate)]))


def _discrete_gaussian(known: DiscreteGaussian | TruncatedDiscreteGaussian, bound: int | None) -> tuple[Floats, Floats]:
    """Return the losses (s^2 - 2 z s)/(2 sigma^2) over the values z both neighbours can produce, and their masses."""
    s, sigma = known.sensitivity, known.sigma
    reach = math.ceil(38.5 * sigma)
    last = reach if bound is None else min(reach, bound)
    support = multiples(1.0, -last, 2 * last + 1)
    weight = np.exp(-0.5 * (support / sigma) ** 2)
    weight /= weight.sum()
    if bound is not None and last == bound:
        # The rest of the support is lost outright. That failure is composed separately; given that it does not happen
        # both neighbours are normalised alike, by reflection, so the loss is as it was.
        shared = support >= s - bound
        support, weight = support[shared], weight[shared] / weight[shared].sum()
    return (s * s - 2.0 * support * s) / (2.0 * sigma * sigma), weight


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


def _kernel(y: Floats) -> Floats:
    """Return -(d/dy) erfcx(y) = 2/sqrt(pi) - 2 y erfcx(y), positive."""
    from scipy.special import erfcx

    return np.asarray(2.0 / math.sqrt(math.pi) - 2.0 * y * erfcx(y), dtype=np.float64)


def _positive_side(x: Floats, sigma: float) -> tuple[Floats, Floats]:
    """Return delta and its absolute error for x >= 0."""
    from scipy.special import erfc, erfcx

    distance = 1.0 / (sigma * math.sqrt(2.0))
    start = (x * sigma - 0.5 / sigma) / math.sqrt(2.0)
    if distance < 0.5:
        middle, half = start + distance / 2, distance / 2
        points = middle[:, None] + half * _NODES[None, :]
        difference = half * (_kernel(points) * _WEIGHTS).sum(axis=1)
        # The kernel itself cancels by a factor of about 1 + 2 y^2. The kernel is (4/sqrt(pi)) times the integral of
        # t exp(-t^2 - 2 y t), so the error term of the 8-point rule is below 5e-14 distance^17 of the value: nothing.
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
    # start carries an error of a few units of its larger part (sigma itself may have been rounded when it was merged),
    # which the exponential magnifies by 2 |start|.
    parts = x * sigma + 0.5 / sigma
    magnified = np.where(start < -1.0, 1.0, 2 * np.abs(start) + 2)
    relative = relative + magnified * 16 * UNIT * parts + (np.minimum(start, 1e3) ** 2 + ELEMENTARY) * UNIT
    return value, value * relative + 1e-300


@dataclass(frozen=True, slots=True)
class GaussianLoss:
    """The privacy loss of Gaussian noise of standard deviation `sigma` over the l2-sensitivity, exactly.

        delta(x) = Phi(1/(2 sigma) - x sigma) - exp(x) Phi(-1/(2 sigma) - x sigma)          (lem:AGM)

    is a difference that cancels when sigma is large or delta small. Both terms share the factor exp(-s^2)/2 when
    written with erfcx, and the rest is the integral of a positive kernel, so relative accuracy is kept.
    """

    sigma: float

    def delta(self, x: Floats) -> tuple[Floats, Floats]:
        """Return delta at each x and the absolute error of each.

        Theorem: lem:AGM; negative x by the symmetry delta(-x) = 1 - exp(-x) + exp(-x) delta(x).
        """
        size = np.abs(x)
        value, error = _positive_side(size, self.sigma)
        negative = x < 0
        if negative.any():
            scale = np.exp(-size)
            value = np.where(negative, -np.expm1(-size) + scale * value, value)
            error = np.where(negative, scale * error + (2 * ELEMENTARY + 4) * UNIT * value, error)
        return value, error
