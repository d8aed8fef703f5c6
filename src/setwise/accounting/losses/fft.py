"""Sums of many lattice losses by the fast Fourier transform, tilted so that small probabilities keep their digits.

A lattice has equally spaced losses x. Their probabilities are multiplied by exp(tilt x) before the transform and
divided by it afterwards. This moves the bulk of the distribution to the losses that decide delta, so that rounding
errors are small in proportion to the probabilities there. The transform has an error, and wraps the probability beyond
one end of the grid around to the other end. A bound on both is added to every probability in an upper bound, and
subtracted in a lower bound (docs/numerics.md, "Tilt, window, transform, charge").
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.brackets import ELEMENTARY, UNIT
from setwise.accounting.losses.lattice import Atoms, multiples
from setwise.accounting.losses.tilting import EqualLosses, Saddle, cumulant
from setwise.errors import Unattainable

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FftConfig:
    """Constants that choose the window of total losses in which a sum of losses is computed by Fourier transform.

    The probability of each loss L is weighted by exp(tilt L), so that the losses that decide delta become likely; the
    tilt is a number. The constants decide time and tightness only. The probability outside of the window is bounded and
    added to the upper bound on delta, so no proof depends on them. The text below each constant says what it decides.
    """

    largest_transform: int = 2**22
    """Largest number of points of a transform, which limits memory and time."""
    few_losses: int = 2048
    """A sum with at most this many possible values (lattice points from the smallest to the largest sum) is convolved
    term by term, which loses no digits."""
    reach: float = 7.0
    """Half the length of the window, in standard deviations of the weighted sum; the window lies around the mean of
    that sum."""
    farther: float = 1.4
    """Factor by which the reach on one side grows while too much probability lies beyond it. That happens if nearly all
    losses in the sum are at their largest value."""
    farthest: float = 20.0
    """Largest reach, as a multiple of `reach`."""
    rare: float = 0.45
    """The window is long enough at one end if the weighted probability beyond this end is at most exp(-`rare` reach^2).
    For a Gaussian sum, exp(-0.5 reach^2) could be asked for."""


CONFIG = FftConfig()

_SMALLEST_POWER = 1e-100
"""Entries of a spectrum whose power would be below this are set to 0, and the error is added to the bounds."""

_SECOND_ORDER = 1.01
"""Factor that covers products of two errors, because each error is below 1e-3 of the values that it multiplies."""

_CHERNOFF = 1.0 + 1e-6
"""Factor that covers the rounding of cumulants in Chernoff bounds on the mass beyond the window."""


@dataclass(frozen=True, slots=True)
class Window:
    """The interval of total losses, from `left` to `right`, in which a sum of losses is computed by Fourier transform.

    - `tilts`: the sum is computed once for each of these numbers, with the probability of each loss L weighted by
      exp(tilt L). Each result gives a valid bound. With a tilt, large losses that are rare keep their digits.
    - `left_tilt` and `right_tilt` bound the probability of the losses outside of the interval. If S is the total loss,
      Chernoff's bound says that P[S >= right] <= E[exp(r S)] exp(-r right) with r = `right_tilt`. `left_tilt` does the
      same for P[S <= left]. Both numbers are chosen so that the bound is nearly as small as it can be.
    """

    # With `left_tilt` and `right_tilt`, Chernoff's bound limits the probability outside of the window.

    tilts: tuple[float, ...]
    left: float
    right: float
    left_tilt: float
    right_tilt: float


def window(saddle: Saddle, tilt: float, *, whole: bool) -> Window:
    """Return an interval in which the total loss L lies with nearly all probability, after weighting by exp(`tilt` L).

    The weights make the losses likely that decide delta. The distribution of the total loss is then computed within the
    interval only.

    - `saddle` is an approximation of the total loss, from which the interval is chosen.
    - `whole`: if True, the interval also contains the losses that are likely without the weights. If False, it begins a
      few standard deviations below the mean under the weights, which suffices for deltas at epsilons near this mean.
    """
    # If `whole` is False, the Fourier transform is computed under `tilt` alone. If `whole` is True, the interval also
    # contains the losses that are likely without a tilt. The transform is then computed under half of `tilt` and under
    # no tilt as well, because undoing a tilt magnifies rounding errors far from the tilted mean.
    height, mean, variance = saddle.at(tilt)
    ends = []
    for side, farthest in zip((-1.0, 1.0), saddle.support, strict=True):
        reach = CONFIG.reach
        while True:
            end = mean + side * reach * math.sqrt(variance)
            if side * (end - farthest) >= 0.0:  # there is no mass beyond, so no Chernoff bound is needed
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


def sums(parts: Sequence[EqualLosses], window: Window, *, from_above: bool) -> Atoms:
    """Return the distribution of the sum of the independent losses in `parts`, within the interval `window`.

    A part is a number of losses with the same distribution on a lattice, that is, with equally spaced values. The sums
    are in ascending order. If `from_above`, each computed probability is at least the true probability, otherwise at
    most. Probabilities of infinite losses are not included; callers add them.

    Requires: all lattices have the same step.
    Ensures: if `from_above`, `dropped` of the result bounds the probability of sums above the window, and the first
    entry includes a bound on the probability of sums below it.
    Raises: `Unattainable` if the window has more than `CONFIG.largest_transform` lattice points.
    """
    step = parts[0].lattice.step
    lowest = sum(part.count * part.lattice.first for part in parts)
    highest = sum(part.count * (part.lattice.first + part.lattice.mass.size - 1) for part in parts)
    if highest - lowest < CONFIG.few_losses:
        return _convolve_directly(parts, lowest)
    first = min(max(lowest, math.floor(window.left / step)), highest)
    last = max(first, min(highest, math.ceil(window.right / step)))
    size = _good_size(last - first + 1)
    if size > CONFIG.largest_transform:
        raise Unattainable(
            "the privacy losses of these uses cover too wide a range for this accuracy; ask for a wider bracket"
        )
    cut_left, cut_right = first > lowest, last < highest
    x = multiples(step, first, last - first + 1)
    end_left, end_right = step * (first - 1), step * (last + 1)

    def beyond(cut: bool, further: float, end: float, tilt: float = 0.0, height: float = 0.0) -> float:
        """Return an upper bound on the probability that the sum S of all losses lies beyond one end of the window.

        The window is the interval of losses in which the distribution of S is computed, and `end` is one of its ends, a
        privacy loss. The bound is Chernoff's, E[exp(r S)] exp(-r `end`) with r = `further`, but at most 1.

        - `cut`: False if S cannot lie beyond this end; the result is then 0.
        - `tilt` and `height`: if they are given, the probability of each value s of S is weighted by exp(tilt s -
          height), and the result bounds the weighted probability beyond `end`.
        - `further` is the r of the bound: at least `tilt` for the right end of the window, and at most `tilt` for the
          left end. (Without weights `tilt` is 0.)
        """
        # The bound is E[exp(`further` S)] exp(-`further` * `end`), for the weighted probability.
        exponent = cumulant(parts, further) - height - (further - tilt) * end
        return math.exp(min(0.0, exponent)) * _CHERNOFF if cut else 0.0

    bounds, relative = [], 0.0
    for tilt in window.tilts:
        tilted, charge, height, weight_error = _transform(parts, tilt, first, size)
        tilted = tilted[: x.size]
        if from_above:
            np.maximum(tilted + charge, charge, out=tilted)
        else:
            # The transform wraps the mass outside of the window around, and it may land on any point.
            wrapped = beyond(cut_left, min(window.left_tilt, tilt), end_left, tilt, height)
            wrapped += beyond(cut_right, max(window.right_tilt, tilt), end_right, tilt, height)
            np.maximum(tilted - (charge + wrapped), 0.0, out=tilted)
        tilted *= np.exp(np.minimum(height - tilt * x, 700.0))
        bounds.append(tilted)
        largest_exponent = abs(height) + abs(tilt) * max(abs(x[0]), abs(x[-1]))
        relative = max(relative, weight_error + (ELEMENTARY + 4) * UNIT * (1.0 + largest_exponent))
    mass = (np.minimum if from_above else np.maximum).reduce(bounds)  # each tilt gives a valid bound; take the best
    relative += sum(part.count * part.lattice.relative_error for part in parts)
    shift = sum(part.count * part.lattice.shift for part in parts)
    dropped = 0.0
    if from_above:
        dropped = beyond(cut_right, max(window.right_tilt, 0.0), end_right)
        # The mass left of the window is moved up to the first loss kept, which can only raise delta.
        mass[0] += beyond(cut_left, min(window.left_tilt, 0.0), end_left)
    return Atoms(x - shift, mass, relative, dropped)


def _convolve_directly(parts: Sequence[EqualLosses], lowest: int) -> Atoms:
    """Return the distribution of the sum of the losses in `parts`, computed by convolution without a Fourier transform.

    If the sum has few possible values this is quick, and more accurate than a Fourier transform, because all terms are
    positive. With many values it is slow. A part is a number of independent losses with the same distribution. All
    losses are multiples of one step, and `lowest` is the smallest possible sum in steps.
    """
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
    """Return the smallest length of at least `size` for which a Fourier transform is fast."""
    from scipy.fft import next_fast_len

    return int(next_fast_len(size, real=True))


def _power(values: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """Return the entries of `values` to the power `exponent`, by repeated squaring.

    This is far faster than the general complex power. `exponent` is a whole number.

    Requires: exponent >= 1.
    """
    result: NDArray[np.complex128] | None = None
    while exponent:
        if exponent & 1:
            result = values if result is None else result * values
        exponent >>= 1
        if exponent:
            values = values * values
    assert result is not None
    return result


def _transform(parts: Sequence[EqualLosses], tilt: float, first: int, size: int) -> tuple[Floats, float, float, float]:
    """Return the distribution of the sum of the losses of `parts`, as (values, charge, height, weight_error).

    Each part is a number of equal independent losses. The sum is computed by Fourier transforms, in which rare losses
    would lose their digits. So the probability of each loss L is first weighted by exp(`tilt` L). The sums are points
    of a lattice (equally spaced losses): `size` points, from the point number `first` on.

    - `values` has one entry v for each point. The probability of the sum x is v exp(height - `tilt` x), up to errors.
    - `charge` bounds the absolute error of each entry.
    - `height` is log E[exp(`tilt` S)], where S is the sum of all losses. With this number the weights are undone.
    - `weight_error` bounds the further relative error of a probability, which the weights add.

    The transform treats the points as a circle. The probability of a sum outside of the `size` points is not lost, but
    added to the entry that is a multiple of `size` points away. The error bounds do not include this wrapped
    probability.

    Requires: the Euclidean norm of the errors of a Fourier transform, over all its entries, is at most 8 (log2(size) +
    4) `UNIT` times the Euclidean norm of the exact transform. `UNIT` is the relative rounding error of one float
    operation.
    Ensures: apart from the wrapped probability, the errors are within `charge` and `weight_error`.
    """
    # A Fourier transform is periodic. So the probability of a sum x outside of these points is not lost, but is added
    # to the entry for the point that is a multiple of `size` lattice steps away from x.
    from scipy.fft import irfft, rfft

    share = 8 * (math.log2(size) + 4) * UNIT
    product = np.ones(size // 2 + 1, dtype=np.complex128)
    log_reach = np.zeros(product.size)
    spectra: dict[int, NDArray[np.complex128]] = {}  # products over parts of equal count, raised to it only once
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
        # The weights are divided by `total` and `height` multiplies it back, so the rounding of `total` cancels.
        height.append(count * (top + math.log(total)))
        largest = float(np.abs(exponent[positive]).max())
        weight_error += count * (2 * ELEMENTARY + 8 + 4 * largest) * UNIT
        if weight.size > size:
            weight = np.bincount(np.arange(weight.size) % size, weight, minlength=size)
            weight_error += count * (lattice.mass.size / size + 1.0) * UNIT
        norm = math.sqrt(float((weight * weight).sum())) * (1 + size * UNIT)
        spectrum = rfft(weight, n=size)
        modulus = np.abs(spectrum)
        # Upper bound on the logarithm of every entry of the true spectrum.
        log_modulus = np.log(modulus + share * norm * math.sqrt(size))
        log_reach += count * log_modulus
        factors.append((count, norm, log_modulus))
        spectrum[modulus < _SMALLEST_POWER ** (1.0 / count)] = 0.0  # denormal numbers are slow
        spectra[count] = spectra[count] * spectrum if count in spectra else spectrum
    for count, spectrum in spectra.items():
        spectrum[np.abs(spectrum) < _SMALLEST_POWER ** (1.0 / count)] = 0.0
        product *= _power(spectrum, count)
    # An error in one factor is multiplied by all other factors. Entrywise products add rounding errors of their own:
    # one product for each use of a factor, in whatever order factors are multiplied.
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
    """Return the root mean square of a Fourier spectrum of `size` points, or slightly more.

    `half` holds the absolute values of the first half of the spectrum; the second half mirrors it, because the signal
    is real. The caller bounds the rounding error of the inverse transform by this number.
    """
    return math.sqrt(2.0 * float((half * half).sum()) / size)
