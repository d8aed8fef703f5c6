"""Sums of many lattice losses by the fast Fourier transform, tilted so that small probabilities keep their digits.

Multiplying masses by exp(lambda x) before transforming and undoing it after moves the bulk of the distribution to the
losses that matter; round-off is then relative to the probabilities there, not to 1. What the transform may have got
wrong, and what was wrapped around its ends, is charged to every mass.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.intervals import ELEMENTARY, UNIT
from setwise.accounting.losses.discrete import Atoms
from setwise.accounting.losses.lattice import multiples
from setwise.accounting.losses.tilting import Part, Saddle, cumulant
from setwise.errors import Unattainable

Floats = NDArray[np.float64]

_LARGEST_TRANSFORM = 2**22
_FEW_LOSSES = 2048
"""Sums with fewer losses than this are convolved term by term."""

_REACH = 7.0
"""Standard deviations of the tilted sum kept on either side; what lies beyond is bounded and charged."""


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
    for side in (-1.0, 1.0):
        reach = _REACH
        while True:
            end = mean + side * reach * math.sqrt(variance)
            further = saddle.for_loss(end)
            exponent = saddle.at(further)[0] - height - (further - tilt) * end
            if exponent < -0.45 * _REACH**2 or reach > 20 * _REACH:
                break
            reach *= 1.4  # a skewed sum, as when nearly all its parts are at their largest
        ends.append((end, further))
    left, left_tilt = ends[0]
    if whole:
        _, mean, variance = saddle.at(0.0)
        bulk = mean - _REACH * math.sqrt(variance)
        if bulk < left:
            left, left_tilt = bulk, saddle.for_loss(bulk)
    tilts = (tilt, tilt / 2, 0.0) if whole and tilt > 0.0 else (tilt,)
    return Window(tilts, left, ends[1][0], left_tilt, ends[1][1])


def sums(parts: Sequence[Part], window: Window, *, from_above: bool) -> Atoms:
    """Return the atoms of the sum, ascending: masses never too small `from_above`, never too large otherwise.

    Requires: all lattices have the same step.
    Ensures: every average of a non-negative, non-decreasing function of the loss is on the safe side; outright
    failures of the parts are left to the caller.
    """
    step = parts[0].lattice.step
    lowest = sum(part.count * part.lattice.first for part in parts)
    highest = sum(part.count * (part.lattice.first + part.lattice.mass.size - 1) for part in parts)
    if highest - lowest < _FEW_LOSSES:
        return _directly(parts, lowest)
    first = max(lowest, math.floor(window.left / step))
    first = min(first, highest)
    last = max(first, min(highest, math.ceil(window.right / step)))
    size = _good_size(last - first + 1)
    if size > _LARGEST_TRANSFORM:
        raise Unattainable(
            "the losses of these uses spread too far for the accuracy asked for; ask for a wider bracket"
        )
    cut_left, cut_right = first > lowest, last < highest
    end_left, end_right = step * (first - 1), step * (last + 1)
    x = multiples(step, first, last - first + 1)
    found, relative = [], 0.0
    for tilt in window.tilts:
        height = cumulant(parts, tilt)
        tilted, error = _transformed(parts, tilt, first, size)
        tilted = tilted[: last - first + 1]
        if from_above:
            tilted += error
            np.maximum(tilted, error, out=tilted)
        else:
            # What was cut off is wrapped around, to anywhere.
            left, right = (
                math.exp(min(0.0, cumulant(parts, further) - height - (further - tilt) * end)) if cut else 0.0
                for cut, further, end in (
                    (cut_left, min(window.left_tilt, tilt), end_left),
                    (cut_right, max(window.right_tilt, tilt), end_right),
                )
            )
            tilted -= error + left + right
            np.maximum(tilted, 0.0, out=tilted)
        tilted *= np.exp(np.minimum(height - tilt * x, 700.0))
        found.append(tilted)
        largest_exponent = abs(height) + abs(tilt) * max(abs(x[0]), abs(x[-1]))
        relative = max(relative, (ELEMENTARY + 4) * UNIT * (1.0 + largest_exponent))
    mass = (np.minimum if from_above else np.maximum).reduce(found)  # each is on the safe side
    relative += sum(part.count * part.lattice.relative_error for part in parts)
    shift = sum(part.count * part.lattice.shift for part in parts)
    dropped = 0.0
    if from_above and cut_right:
        further = max(window.right_tilt, 0.0)
        dropped = math.exp(min(0.0, cumulant(parts, further) - further * end_right))
    if from_above and cut_left:  # raised to the first loss kept, which is on the safe side
        further = min(window.left_tilt, 0.0)
        mass[0] += math.exp(min(0.0, cumulant(parts, further) - further * end_left)) if further < 0.0 else 1.0
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
    relative = sum(part.count * part.lattice.relative_error for part in parts) + 64 * _FEW_LOSSES * UNIT
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


def _transformed(parts: Sequence[Part], tilt: float, first: int, size: int) -> tuple[Floats, float]:
    """Return the tilted, normalised masses from index `first` on, wrapped to `size`, and the error of each."""
    from scipy.fft import irfft, rfft

    product: NDArray[np.complex128] | None = None
    moduli = []
    for part in parts:
        lattice = part.lattice
        exponent = multiples(tilt * lattice.step, lattice.first, lattice.mass.size)
        weight = np.where(lattice.mass > 0.0, lattice.mass * np.exp(exponent - exponent[lattice.mass > 0.0].max()), 0.0)
        weight /= weight.sum()
        if weight.size > size:
            weight = np.bincount(np.arange(weight.size) % size, weight, minlength=size)
        spectrum = rfft(weight, n=size)
        modulus = np.abs(spectrum)
        moduli.append((part.count, modulus))
        # Denormal numbers are slow; powers this small are far below the error charged.
        spectrum[modulus < 1e-100 ** (1.0 / part.count)] = 0.0
        power = _power(spectrum, part.count)
        product = power if product is None else product * power
    assert product is not None
    # An error in one factor is passed on by all the others: |product| / |factor|, averaged over the frequencies. Where
    # the factor is small the others include count - 1 more of it.
    per_factor = (8 * (math.log2(size) + 4) + 8) * UNIT
    whole = np.abs(product)
    error = per_factor * float(whole.mean())
    for count, modulus in moduli:
        others = np.where(modulus > 0.05, whole / np.maximum(modulus, 0.05), 0.05 ** (count - 1))
        error += count * per_factor * float(others.mean())
    offset = (sum(part.count * part.lattice.first for part in parts) - first) % size
    return np.roll(irfft(product, n=size), offset), 2 * error
