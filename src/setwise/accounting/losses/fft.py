"""Sums of many lattice losses by the fast Fourier transform, tilted so that small probabilities keep their digits.

Multiplying masses by exp(tilt x) before transforming and undoing it after moves the bulk of the distribution to the
losses that matter; round-off is then relative to the probabilities there, not to 1. What the transform may have got
wrong, and what was wrapped around its ends, is charged to every mass (docs/numerics.md, "Tilt, window, transform,
charge").
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.brackets import ELEMENTARY, UNIT
from setwise.accounting.losses.lattice import Atoms, multiples
from setwise.accounting.losses.tilting import Part, Saddle, cumulant
from setwise.errors import Unattainable

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FftConfig:
    """How much of a sum is transformed. What lies outside is bounded and charged, whatever these numbers are."""

    largest_transform: int = 2**22
    """Points of a transform: a limit on memory and time."""
    few_losses: int = 2048
    """Losses below which a sum is convolved term by term, which keeps every digit."""
    reach: float = 7.0
    """Standard deviations of the tilted sum kept on either side."""
    farther: float = 1.4
    """Factor on the reach while too much lies beyond, as of a sum whose parts are nearly all at their largest."""
    farthest: float = 20.0
    """Times the usual reach at which that ends."""
    rare: float = 0.45
    """Little enough lies beyond when minus its logarithm is this times the square of the reach; a Gaussian has 0.5."""


CONFIG = FftConfig()

_SMALLEST_POWER = 1e-100
"""Entries of a spectrum whose power would be below this are set to 0 and charged."""

_SECOND_ORDER = 1.01
"""Covers products of errors: each is below 1e-3 of the values it multiplies."""

_CHERNOFF = 1.0 + 1e-6
"""Covers the rounding of cumulants in bounds on what lies beyond the window."""


@dataclass(frozen=True, slots=True)
class Window:
    """Which losses of a sum to keep, [left, right], the tilts to transform under, and those that point at the ends."""

    tilts: tuple[float, ...]
    left: float
    right: float
    left_tilt: float
    right_tilt: float


def window(saddle: Saddle, tilt: float, *, whole: bool) -> Window:
    """Return the window around the mean under the tilt outside which next to nothing lies.

    With `whole`, the bulk of the sum is inside too, and transformed under tilts of its own: far from where a tilt
    points, undoing it magnifies round-off. Without, only losses from the mean under the tilt on will be used.
    """
    height, mean, variance = saddle.at(tilt)
    ends = []
    for side, farthest in zip((-1.0, 1.0), saddle.support, strict=True):
        reach = CONFIG.reach
        while True:
            end = mean + side * reach * math.sqrt(variance)
            if side * (end - farthest) >= 0.0:  # nothing lies beyond, so no tilt has to point there
                further = tilt
                break
            further = saddle.for_loss(end)
            exponent = saddle.at(further)[0] - height - (further - tilt) * end
            if exponent < -CONFIG.rare * CONFIG.reach**2 or reach > CONFIG.farthest * CONFIG.reach:
                break
            reach *= CONFIG.farther
        ends.append((end, further))
    left, left_tilt = ends[0]
    if whole:
        _, mean, variance = saddle.at(0.0)
        bulk = mean - CONFIG.reach * math.sqrt(variance)
        if bulk < left:
            left, left_tilt = bulk, saddle.for_loss(bulk)
    tilts = (tilt, tilt / 2, 0.0) if whole and tilt > 0.0 else (tilt,)
    return Window(tilts, left, ends[1][0], left_tilt, ends[1][1])


def sums(parts: Sequence[Part], window: Window, *, from_above: bool) -> Atoms:
    """Return the atoms of the sum, ascending: masses never too small `from_above`, never too large otherwise.

    Requires: all lattices have the same step.
    Ensures: from above, all that lies right of the window is in `dropped`; losses that are infinite are left to the
    caller.
    """
    step = parts[0].lattice.step
    lowest = sum(part.count * part.lattice.first for part in parts)
    highest = sum(part.count * (part.lattice.first + part.lattice.mass.size - 1) for part in parts)
    if highest - lowest < CONFIG.few_losses:
        return _directly(parts, lowest)
    first = min(max(lowest, math.floor(window.left / step)), highest)
    last = max(first, min(highest, math.ceil(window.right / step)))
    size = _good_size(last - first + 1)
    if size > CONFIG.largest_transform:
        raise Unattainable(
            "the losses of these uses spread too far for the accuracy asked for; ask for a wider bracket"
        )
    cut_left, cut_right = first > lowest, last < highest
    x = multiples(step, first, last - first + 1)
    end_left, end_right = step * (first - 1), step * (last + 1)

    def beyond(cut: bool, further: float, end: float, tilt: float = 0.0, height: float = 0.0) -> float:
        """Return Chernoff's bound on the tilted probability beyond an end of the window."""
        exponent = cumulant(parts, further) - height - (further - tilt) * end
        return math.exp(min(0.0, exponent)) * _CHERNOFF if cut else 0.0

    found, relative = [], 0.0
    for tilt in window.tilts:
        tilted, charge, height, weight_error = _transformed(parts, tilt, first, size)
        tilted = tilted[: x.size]
        if from_above:
            np.maximum(tilted + charge, charge, out=tilted)
        else:
            # What was cut off is wrapped around, to anywhere.
            wrapped = beyond(cut_left, min(window.left_tilt, tilt), end_left, tilt, height)
            wrapped += beyond(cut_right, max(window.right_tilt, tilt), end_right, tilt, height)
            np.maximum(tilted - (charge + wrapped), 0.0, out=tilted)
        tilted *= np.exp(np.minimum(height - tilt * x, 700.0))
        found.append(tilted)
        largest_exponent = abs(height) + abs(tilt) * max(abs(x[0]), abs(x[-1]))
        relative = max(relative, weight_error + (ELEMENTARY + 4) * UNIT * (1.0 + largest_exponent))
    mass = (np.minimum if from_above else np.maximum).reduce(found)  # each is on the safe side
    relative += sum(part.count * part.lattice.relative_error for part in parts)
    shift = sum(part.count * part.lattice.shift for part in parts)
    dropped = 0.0
    if from_above:
        dropped = beyond(cut_right, max(window.right_tilt, 0.0), end_right)
        # What lies left of the window is raised to the first loss kept.
        mass[0] += beyond(cut_left, min(window.left_tilt, 0.0), end_left)
    return Atoms(x - shift, mass, relative, dropped)


def _directly(parts: Sequence[Part], lowest: int) -> Atoms:
    """Return the atoms of a sum with few losses term by term: all terms are positive, so every digit is kept."""
    total = np.ones(1)
    for part in parts:
        power, count = part.lattice.mass, part.count
        while count:
            total = np.convolve(total, power) if count & 1 else total
            count >>= 1
            power = np.convolve(power, power) if count else power
    step = parts[0].lattice.step
    shift = sum(part.count * part.lattice.shift for part in parts)
    relative = sum(part.count * part.lattice.relative_error for part in parts) + 64 * CONFIG.few_losses * UNIT
    return Atoms(multiples(step, lowest, total.size) - shift, np.maximum(total, 0.0), relative, 0.0)


def _good_size(size: int) -> int:
    from scipy.fft import next_fast_len

    return int(next_fast_len(size, real=True))


def _power(values: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """Return values ** exponent by repeated squaring: far faster than the general complex power."""
    result: NDArray[np.complex128] | None = None
    while exponent:
        if exponent & 1:
            result = values if result is None else result * values
        exponent >>= 1
        if exponent:
            values = values * values
    assert result is not None
    return result


def _transformed(parts: Sequence[Part], tilt: float, first: int, size: int) -> tuple[Floats, float, float, float]:
    """Return the tilted masses from index `first` on, wrapped to `size`, and what they are worth.

    Ensures: apart from what is wrapped, the mass at loss x is exp(height - tilt x) times the value returned, up to
    `charge` in that value and a share `weight_error` of the mass. Returned are the values, `charge`, `height`,
    `weight_error`.
    Requires: a transform errs by at most a share `share` of the Euclidean norm.
    """
    from scipy.fft import irfft, rfft

    share = 8 * (math.log2(size) + 4) * UNIT
    product = np.ones(size // 2 + 1, dtype=np.complex128)
    log_reach = np.zeros(product.size)
    factors: list[tuple[int, float, Floats]] = []
    height, weight_error = [], 0.0
    for part in parts:
        lattice, count = part.lattice, part.count
        exponent = multiples(tilt * lattice.step, lattice.first, lattice.mass.size)
        positive = lattice.mass > 0.0
        top = float(exponent[positive].max())
        weight = np.where(positive, lattice.mass * np.exp(np.minimum(exponent - top, 0.0)), 0.0)
        total = float(weight.sum())
        weight /= total
        # The same total divides here and comes back with the height: how it was rounded does not matter.
        height.append(count * (top + math.log(total)))
        largest = float(np.abs(exponent[positive]).max())
        weight_error += count * (2 * ELEMENTARY + 8 + 4 * largest) * UNIT
        if weight.size > size:
            weight = np.bincount(np.arange(weight.size) % size, weight, minlength=size)
            weight_error += count * (lattice.mass.size / size + 1.0) * UNIT
        norm = math.sqrt(float((weight * weight).sum())) * (1 + size * UNIT)
        spectrum = rfft(weight, n=size)
        modulus = np.abs(spectrum)
        # No entry of the true spectrum is larger than this.
        log_modulus = np.log(modulus + share * norm * math.sqrt(size))
        log_reach += count * log_modulus
        factors.append((count, norm, log_modulus))
        spectrum[modulus < _SMALLEST_POWER ** (1.0 / count)] = 0.0  # denormal numbers are slow
        product *= _power(spectrum, count)
    # An error in one factor is passed on by all the others. Entrywise products err by units of themselves.
    reach = np.exp(np.maximum(log_reach, -700.0))
    charge = share * _root_mean_square(reach, size) + _SMALLEST_POWER
    for count, norm, log_modulus in factors:
        others = np.exp(np.maximum(log_reach - log_modulus, -700.0))
        charge += count * share * norm * _root_mean_square(others, size)
        charge += count * 8 * UNIT * 2.0 * float(reach.sum()) / size
    offset = (sum(part.count * part.lattice.first for part in parts) - first) % size
    values = np.roll(irfft(product, n=size), offset)
    return values, _SECOND_ORDER * charge, math.fsum(height), weight_error


def _root_mean_square(half: Floats, size: int) -> float:
    """Return an upper bound on the root mean square of a spectrum, of which the first half is given."""
    return math.sqrt(2.0 * float((half * half).sum()) / size)
