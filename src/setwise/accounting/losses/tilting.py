"""Choice of exponential tilts, weights exp(tilt L) on privacy losses L that make the losses that decide delta likely.

Under a good tilt, the sum of losses has its mean near the epsilon of interest. No proof depends on the tilt, but a good
tilt makes the certified bounds tight.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.guarantees import DiscreteLaplace, Laplace
from setwise.accounting.losses.dominating_pairs import KnownNoise, tabulate_loss, variance_and_continuous_mass
from setwise.accounting.losses.lattice import LossLattice, multiples, odds_of_low, worst_t

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TiltConfig:
    """Constants for how accurately exponential tilts of a privacy loss are computed, and how large they may be.

    A tilt is a number with which the probability of each loss L is weighted by exp(tilt L), so that the losses that
    decide delta become likely. The total loss is the sum of many losses. No proof depends on the tilt; the text below
    each constant says what it decides.
    """

    largest: float = 60.0
    """Largest tilt, in units of one over the standard deviation of the loss of one use, for the use where it is
    smallest. Under this tilt nearly every use has its largest loss."""
    largest_moderate: float = 25.0
    """Largest tilt for computations that undo the weights later, in units of one over the standard deviation of the
    total loss: enough for deltas down to 1e-130."""
    steps_in_deviation: int = 12
    """Losses are approximated by equally spaced values; this many steps make one standard deviation of the loss of one
    use."""
    most_values: int = 512
    """Integer Laplace noise has about as many losses as its sensitivity. Up to this sensitivity they are listed one by
    one."""
    beyond: int = 4
    """Other code rounds the same losses to another step. The rounding is taken to move a loss by at most this many
    steps beyond the smallest and the largest loss known here."""
    newton_steps: int = 6
    newton_close: float = 0.01
    """Newton's method for a tilt ends at a relative step this small, and gives way to bisection after `newton_steps`
    steps."""
    close: float = 0.02
    """Bisection for a tilt ends when the interval is this short, relative to the tilt. A tilt need not be exact."""
    apart: float = 1.5
    """Factor between the tilts that are tried until two of them enclose the wanted one."""
    piled: float = 0.03
    """If the variance of the total loss under a tilt is below this share of the variance without the tilt, most losses
    are at their largest value."""
    first_gain: float = 1.4
    later_gain: float = 1.75
    """An adversary who adapts reaches about the delta of one who does not adapt but has more bounded-range uses: m /
    (first_gain + later_gain m) more, where m is the number of uses that are not at their largest loss. The constants
    were fitted to certified optima of 1 to 100 uses at deltas from 1e-4 to 1e-10."""


CONFIG = TiltConfig()


@dataclass(frozen=True, slots=True)
class EqualLosses:
    """Independent privacy losses, `count` of them, that all have the distribution `lattice`.

    A lattice has the probabilities of equally spaced losses.
    """

    lattice: LossLattice
    count: int


def cumulant(parts: Sequence[EqualLosses], tilt: float) -> float:
    """Return log E[exp(tilt x)], where x is the sum of the privacy losses of all `parts`.

    Chernoff's bound on the probability of large sums needs this number. Each part is a number of equal independent
    losses, whose distribution is a lattice (equally spaced losses). A lattice may have a constant `shift`, to be
    subtracted from its losses. This function ignores the shift, because callers shift the sum at the end.
    """
    return math.fsum(part.count * _cumulant(part.lattice, tilt) for part in parts)


def _cumulant(lattice: LossLattice, tilt: float) -> float:
    """Return log E[exp(tilt x)], where x is the privacy loss of `lattice`.

    The lattice has the probabilities of equally spaced losses. Its constant `shift`, to be subtracted from every loss,
    is ignored here, because callers shift the sum of all losses at the end.
    """
    exponent = multiples(tilt * lattice.step, lattice.first, lattice.mass.size)
    with np.errstate(divide="ignore"):
        exponent += np.log(lattice.mass)
    top = float(exponent.max())
    return top + math.log(float(np.exp(np.maximum(exponent - top, -700.0)).sum()))  # denormal numbers would be slow


@dataclass(frozen=True, slots=True)
class _LossArrays:
    """The losses and log probabilities of all parts of a sum, in single arrays so that moments are array operations.

    A part is a number of equal uses, and has a list of possible losses for one use.

    - `loss` has an entry for each possible loss of each part.
    - `log_mass` has, for each entry of `loss`, the logarithm of its probability.
    - `part` has, for each entry of `loss`, the index of its part.
    - `start` has, for each part, the index of its first entry.
    - `count` has, for each part, its number of uses.
    """

    loss: Floats
    log_mass: Floats
    part: NDArray[np.intp]
    """Index of the part that each loss belongs to."""
    start: NDArray[np.intp]
    """Index at which the losses of each part begin."""
    count: Floats

    @classmethod
    def of(cls, parts: Sequence[EqualLosses]) -> "_LossArrays":
        """Return the possible losses of all `parts` of a sum, with the logarithms of their probabilities, as arrays.

        A part stands for a number of independent uses with equal loss distributions. The arrays list the possible
        losses of one use of the first part, then of one use of the second part, and so on.
        """
        lattices = [part.lattice for part in parts]
        sizes = [lattice.mass.size for lattice in lattices]
        with np.errstate(divide="ignore"):
            log_mass = np.log(np.concatenate([lattice.mass for lattice in lattices]))
        return cls(
            np.concatenate([multiples(lattice.step, lattice.first, lattice.mass.size) for lattice in lattices]),
            log_mass,
            np.repeat(np.arange(len(sizes)), sizes),
            np.cumsum([0, *sizes[:-1]]),
            np.array([float(part.count) for part in parts]),
        )

    def moments(self, tilt: float) -> tuple[Floats, Floats, Floats]:
        """Return three arrays, with one number for each part: log E[exp(`tilt` x)], and the mean and variance of x.

        A part is a group of equal mechanism uses, and x is the privacy loss of one of them. Mean and variance are those
        of x after the probability of each loss is multiplied by exp(`tilt` x) and normalised. The caller multiplies the
        numbers by the counts of uses and adds them up over the parts.
        """
        exponent = tilt * self.loss + self.log_mass
        top = np.maximum.reduceat(exponent, self.start)
        weight = np.exp(np.maximum(exponent - top[self.part], -700.0))  # no denormal numbers, which are slow
        total = np.add.reduceat(weight, self.start)
        mean = np.add.reduceat(weight * self.loss, self.start) / total
        variance = np.add.reduceat(weight * (self.loss - mean[self.part]) ** 2, self.start) / total
        return top + np.log(total), mean, variance


@dataclass(frozen=True)
class Saddle:
    """An approximate distribution of the total privacy loss of many uses, from which exponential tilts are chosen.

    A tilt is a number with which the probability of each loss L is weighted by exp(tilt L). It is chosen so that the
    losses that decide delta become the likely ones. The approximation cannot make a bound wrong: bounds are computed
    from other numbers, and a badly chosen tilt only makes them wider.

    - `parts` are losses with equally spaced values (on coarse lattices), each with the number of uses that have it.
    - `ranges` are bounded-range uses as (epsilon, count). They have no fixed loss, so for each tilt the loss with the
      largest E[exp(tilt L)] is taken.
    """

    # Bounded-range uses have no fixed loss: under each tilt, they are taken as the randomized response that is worst
    # under this tilt.

    parts: tuple[EqualLosses, ...]
    ranges: tuple[tuple[float, int], ...] = ()

    @cached_property
    def _tables(self) -> _LossArrays:
        """The losses of all uses in `parts` with the logarithms of their probabilities, in single arrays for speed."""
        return _LossArrays.of(self.parts)

    @cached_property
    def support(self) -> tuple[float, float]:
        """The smallest and the largest total privacy loss that the uses in `parts` can have, widened by a margin.

        Each loss is rounded here to a multiple of a step. Other code rounds the same losses to another step, so its
        total may lie a little outside. The margin is `CONFIG.beyond` steps for each loss: enough if the other step is
        at most `CONFIG.beyond` times as large as the step here.
        """
        nodes = [(part.count * part.lattice.step, part.lattice.first, part.lattice.mass.size) for part in self.parts]
        least = math.fsum(steps * (first - CONFIG.beyond) for steps, first, _ in nodes)
        return least, math.fsum(steps * (first + size - 1 + CONFIG.beyond) for steps, first, size in nodes)

    def at(self, tilt: float) -> tuple[float, float, float]:
        """Return (log E[exp(tilt L)], mean, variance) of the total privacy loss L of all uses in `parts` and `ranges`.

        Mean and variance are computed with the probability of each L weighted by exp(`tilt` L). `ranges` are the
        bounded-range uses. Each of them is counted as slightly more than one use, because an adversary who adapts to
        earlier answers gains a little.
        """
        height = mean = variance = 0.0
        if self.parts:
            of_parts = self._tables.moments(tilt)
            with np.errstate(over="ignore"):  # a tilt that makes the height infinite is too large for every search
                height, mean, variance = (float((self._tables.count * moment).sum()) for moment in of_parts)
        adapted = [(count, _adapted_moments(epsilon, tilt), 4.0 / epsilon**2) for epsilon, count in self.ranges]
        gain = CONFIG.first_gain + CONFIG.later_gain * math.fsum(count * one[2] * unit for count, one, unit in adapted)
        for count, one, unit in adapted:
            uses = count * (1.0 + one[2] * unit / gain)
            height, mean, variance = height + uses * one[0], mean + uses * one[1], variance + uses * one[2]
        return height, mean, variance

    def for_loss(self, loss: float) -> float:
        """Return the exponential tilt under which the total privacy loss has a mean near `loss`.

        A tilt is a number with which the probability of a loss L is weighted by exp(tilt L). Callers use it to make
        losses near `loss` likely. The result is negative if `loss` is below the mean without a tilt.
        """

        def residual(tilt: float) -> tuple[float, float]:
            """Return (`loss` minus the mean of the total loss under `tilt`, derivative of this mean by the tilt).

            Newton's method finds the tilt at which the first number is 0. `loss`, a variable of the function around
            this one, is the wanted mean. Under a tilt, the probability of each loss L is multiplied by exp(tilt L) and
            normalised. The derivative is the variance of the total loss under the tilt.
            """
            _, mean, variance = self.at(tilt)
            return loss - mean, variance

        _, mean, variance = self.at(0.0)
        guess = (loss - mean) / max(variance, 1e-300)
        guess = min(max(guess, -self._largest), self._largest)
        quick = _newton(residual, guess)
        if quick is not None:
            return min(max(quick, -self._largest), self._largest)
        if guess < 0.0:
            return -self._root(-guess, lambda tilt: self.at(-tilt)[1] > loss)
        return self._root(guess, lambda tilt: self.at(tilt)[1] < loss)

    def for_delta(self, delta: float) -> float:
        """Return the exponential tilt with which bounds on epsilon at `delta` are computed most accurately; at least 0.

        Under a tilt, the probability of each total loss L is weighted by exp(tilt L), which moves the mean of L. The
        result moves the mean to about the epsilon at which the mechanisms have `delta`, so that losses near that
        epsilon become likely. The epsilon need not be known.
        """
        target = math.log(delta)

        def residual(tilt: float) -> tuple[float, float]:
            """Return (log(d / `delta`), about minus the derivative of this logarithm by `tilt`), for Newton's method.

            Newton's method finds the tilt at which the first number is 0. `delta`, a variable of the function around
            this one, is the wanted delta, and d is an estimate of the delta that `tilt` leads to. To find d, the
            probability of each total loss L is multiplied by exp(`tilt` L) and normalised. L then has some mean and
            some variance. d is the estimated delta at the epsilon equal to this mean, and the second number is `tilt`
            times this variance.
            """
            # The second number is about minus the derivative of the first by the tilt.
            height, mean, variance = self.at(tilt)
            return height - tilt * mean - self._log_chernoff_excess(tilt, variance) - target, tilt * variance

        guess = min(math.sqrt(-2.0 * target / self._variance), self._largest)
        quick = _newton(residual, guess)
        if quick is not None and quick > 0.0:
            return min(quick, self._largest)
        return self._root(guess, lambda tilt: residual(tilt)[0] > 0.0)

    def log_delta(self, epsilon: float) -> float:
        """Return roughly log delta at `epsilon` for mechanisms with this total loss, by the saddle-point approximation.

        Quick estimates use it; it is not a bound. The result is 0 (delta = 1) for an epsilon at or below the mean loss,
        where the approximation does not apply.
        """
        tilt = self.for_loss(epsilon)
        if tilt <= 0.0:
            return 0.0
        height, _, variance = self.at(tilt)
        return height - tilt * epsilon - self._log_chernoff_excess(tilt, variance)

    def epsilon(self, delta: float) -> float:
        """Return roughly the epsilon at which mechanisms with this total loss have `delta`.

        The saddle-point approximation is used. The result serves quick estimates and is not a bound.
        """
        # The approximation gives log delta at the mean loss under a tilt (the weight exp(tilt L) on each loss L) that
        # suits `delta`. From there log delta falls by the tilt per unit of epsilon, so one linear step leads to the
        # epsilon; an inexact tilt does little harm.
        tilt = self.for_delta(delta)
        height, mean, variance = self.at(tilt)
        if tilt <= 0.0:
            return max(0.0, mean)
        return max(
            0.0, mean + (height - tilt * mean - self._log_chernoff_excess(tilt, variance) - math.log(delta)) / tilt
        )

    def _log_chernoff_excess(self, tilt: float, variance: float) -> float:
        """Return about log(C / delta), where C is Chernoff's bound on delta, which is larger than delta.

        Callers subtract the result from log C to get a better estimate of log delta.

        Let L be the total loss, and let its probabilities be weighted by exp(`tilt` L). L then has some mean m and the
        given `variance`. C is E[exp(tilt L)] exp(-tilt m), and delta is taken at the epsilon m.
        """
        # Chernoff's bound is C = E[exp(tilt L)] exp(-tilt m). The quotient d / C is the tilted average of exp(-tilt x)
        # - exp(-(tilt + 1) x) over losses m + x with x > 0. For a normal loss this average has a closed form. If the
        # variance is small, most losses are at their largest value, and the loss is far from normal. So the smaller the
        # variance, the more the result approaches the one for a uniform x, which is at least 0.
        start = max(tilt, 0.0)
        deviation = math.sqrt(variance)
        even = math.log(max(1.0, math.sqrt(2 * math.pi) * deviation * start * (start + 1.0)))
        normal = _mills(start * deviation) - _mills((start + 1.0) * deviation)
        if normal <= 0.0:
            return even
        piled = math.exp(-variance / (CONFIG.piled * self._variance))
        return piled * even - (1.0 - piled) * math.log(normal)

    @cached_property
    def _variance(self) -> float:
        """Variance of the total privacy loss of all uses; at least 1e-300, so that it can be a divisor."""
        return max(self.at(0.0)[2], 1e-300)

    def moderate(self, tilt: float) -> float:
        """Return `tilt`, limited to `CONFIG.largest_moderate` divided by the standard deviation of the total loss.

        A tilt weights each loss L by exp(tilt L). Results are divided by this weight at the end, which would magnify
        rounding errors too far if the tilt were larger.
        """
        return min(tilt, CONFIG.largest_moderate / math.sqrt(self._variance))

    @cached_property
    def _largest(self) -> float:
        """The largest exponential tilt that is used: under it, nearly all probability lies at the largest loss.

        Under a tilt, the probability of each loss L is multiplied by exp(tilt L). The result is `CONFIG.largest`
        divided by a standard deviation: that of the loss of one mechanism use, for the use where it is smallest.
        """
        # The deviation is the standard deviation; for a bounded-range use it is half its epsilon. A loss that hardly
        # varies is taken to have a deviation of a thousandth of a lattice step.
        deviations = [epsilon / 2 for epsilon, _ in self.ranges]
        if self.parts:
            variances = self._tables.moments(0.0)[2].tolist()
            steps = [part.lattice.step for part in self.parts]
            deviations += [max(math.sqrt(one), 1e-3 * step) for one, step in zip(variances, steps, strict=True)]
        return CONFIG.largest / min(deviations)

    def _root(self, guess: float, too_small: Callable[[float], bool]) -> float:
        """Return approximately the smallest tilt at which `too_small(tilt)` is False, found by bisection from `guess`.

        A tilt is a number with which the probability of each loss L is weighted by exp(tilt L). `too_small` is a
        condition that holds for all tilts below the wanted one, and for none above it. If it still holds at the largest
        useful tilt (under which nearly all losses are at their maximum), that tilt is returned.
        """
        # The tilt is enclosed by multiplying or dividing `guess` by `CONFIG.apart`, and then found by bisection.
        largest = self._largest
        high = min(max(guess, 1e-9), largest)
        low = 0.0
        while too_small(high):
            if high >= largest:
                return largest
            low, high = high, min(CONFIG.apart * high, largest)
        if low == 0.0:
            low = high
            while low > 1e-12 and not too_small(low):
                low, high = low / CONFIG.apart, low
        while high - low > CONFIG.close * high and high > 1e-12:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if too_small(middle) else (low, middle)
        return 0.5 * (low + high)


def _mills(x: float) -> float:
    """Return exp(x^2 / 2) P[Z > x] for a standard normal variable Z and x >= 0.

    An estimate of delta needs this number. The result is only approximate for x of at least 25.
    """
    if x < 25.0:
        return 0.5 * math.exp(0.5 * x * x) * math.erfc(x * math.sqrt(0.5))
    return x / ((x * x + 1.0) * math.sqrt(2.0 * math.pi))


def _adapted_moments(epsilon: float, tilt: float) -> tuple[float, float, float]:
    """Return (log E[exp(tilt L)], mean, variance) of the loss L of the worst `epsilon`-bounded-range mechanism.

    The worst mechanism is the one for which E[exp(tilt L)] is largest. Mean and variance are those of L after the
    probability of each loss is multiplied by exp(`tilt` L) and normalised. The caller adds up these numbers over many
    uses, to choose the tilt at which certified bounds are tight.
    """
    t = worst_t(epsilon, max(tilt, 1e-9))
    odds = odds_of_low(t, t - epsilon)
    tilted = odds * math.exp(min(-tilt * epsilon, 700.0))
    share = 1.0 / (1.0 + tilted)
    height = tilt * t + math.log1p(tilted) - math.log1p(odds)
    return height, t - (1.0 - share) * epsilon, share * (1.0 - share) * epsilon**2


def coarse_saddle(uses: Sequence[tuple[KnownNoise, int]]) -> Saddle:
    """Return an approximation of the total privacy loss of `uses`, pairs (noise, count), from which tilts are chosen.

    A tilt weights the probability of a loss L by exp(tilt L), so that the losses that decide delta become likely.
    Losses are rounded to coarse, equally spaced values, so the result is not a bound.
    """
    parts = []
    for noise, count in uses:
        rough = _with_few_values(noise)
        step = math.sqrt(variance_and_continuous_mass(rough)[0]) / CONFIG.steps_in_deviation
        parts.append(EqualLosses(tabulate_loss(rough, step).upper, count))
    return Saddle(tuple(parts))


def _with_few_values(noise: KnownNoise) -> KnownNoise:
    """Return noise with nearly the privacy loss of `noise`, but few enough losses to be tabulated quickly.

    Integer Laplace noise of large sensitivity is replaced by continuous Laplace noise; other noise is returned
    unchanged. The result is for choosing a tilt (a number with which losses L are weighted by exp(tilt L)); its delta
    is not a bound.
    """
    # Integer Laplace noise has about as many losses as its sensitivity, which may be a million. If the sensitivity is
    # above `CONFIG.most_values`, continuous Laplace noise is returned instead. Other noise is returned unchanged.
    if isinstance(noise, DiscreteLaplace) and noise.sensitivity > CONFIG.most_values:
        return Laplace(scale=noise.scale / noise.sensitivity)
    return noise


def _newton(residual: Callable[[float], tuple[float, float]], tilt: float) -> float | None:
    """Return the tilt at which a function of the tilt is 0, by a few Newton steps from `tilt`.

    A tilt weights the probability of a loss L by exp(tilt L). Callers look for the tilt under which the mean loss, or
    the estimated delta, has a wanted value. `residual` maps a tilt to the value of the function and minus its
    derivative. The result is None if the steps do not converge.
    """
    for _ in range(CONFIG.newton_steps):
        value, slope = residual(tilt)
        if not slope > 0.0:
            return None
        step = value / slope
        tilt += step
        if abs(step) <= CONFIG.newton_close * abs(tilt):
            return tilt
        if abs(step) > 10.0 * abs(tilt) + 1.0:
            return None
    return None
