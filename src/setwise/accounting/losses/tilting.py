"""Exponential tilts under which a sum of losses has a given mean or a given tail.

Nothing is certified by a tilt; a good one makes the certified bounds tight.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.losses.dominating_pairs import KnownNoise, spread, tabulated
from setwise.accounting.losses.lattice import LossLattice, multiples, odds_of_low, worst_t

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TiltConfig:
    """How closely tilts are found, and how large they may be."""

    largest: float = 60.0
    """Largest tilt over the smallest standard deviation of a part: there each part is at its largest loss."""
    largest_moderate: float = 25.0
    """Largest moderate tilt over the standard deviation of the whole loss: enough for deltas down to 1e-130."""
    steps_in_deviation: int = 12
    """Lattice steps to a standard deviation in the coarse version of a loss."""
    beyond: int = 4
    """Steps of the coarse version beyond its losses that rounding to another lattice may reach."""
    newton_steps: int = 6
    newton_close: float = 0.01
    """Newton's method ends at a relative step this small, and gives way to bisection after that many steps."""
    close: float = 0.02
    """Relative length at which bisection ends: a tilt need not be exact."""
    apart: float = 1.5
    """Factor between the tilts tried to enclose a root."""
    piled: float = 0.03
    """Share of the variance that a tilt leaves below which losses count as piled up at their largest."""
    first_gain: float = 1.4
    later_gain: float = 1.75
    """An analyst who adapts gains m / (first + later m) bounded-range uses, where m of them are not at their largest
    loss: fitted to certified optima of 1 to 100 uses at deltas from 1e-4 to 1e-10."""


CONFIG = TiltConfig()


@dataclass(frozen=True, slots=True)
class Part:
    """`count` independent losses with the same lattice distribution."""

    lattice: LossLattice
    count: int


def cumulant(parts: Sequence[Part], tilt: float) -> float:
    """Return log E[exp(tilt x)] of the sum, x counted from the shifts."""
    return math.fsum(part.count * _cumulant(part.lattice, tilt) for part in parts)


def _cumulant(lattice: LossLattice, tilt: float) -> float:
    """Return log E[exp(tilt x)]."""
    exponent = multiples(tilt * lattice.step, lattice.first, lattice.mass.size)
    with np.errstate(divide="ignore"):
        exponent += np.log(lattice.mass)
    top = float(exponent.max())
    return top + math.log(float(np.exp(np.maximum(exponent - top, -700.0)).sum()))  # no denormal numbers: they are slow


@dataclass(frozen=True, slots=True)
class _Tables:
    """The losses of all parts and the logarithms of their masses, one part after the other."""

    loss: Floats
    log_mass: Floats
    part: NDArray[np.intp]
    """The part of each loss."""
    start: NDArray[np.intp]
    """Where each part begins."""
    count: Floats

    @classmethod
    def of(cls, parts: Sequence[Part]) -> "_Tables":
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
        """Return log E[exp(tilt x)] of each part, and mean and variance of x under the tilt."""
        exponent = tilt * self.loss + self.log_mass
        top = np.maximum.reduceat(exponent, self.start)
        weight = np.exp(np.maximum(exponent - top[self.part], -700.0))  # no denormal numbers, which are slow
        total = np.add.reduceat(weight, self.start)
        mean = np.add.reduceat(weight * self.loss, self.start) / total
        variance = np.add.reduceat(weight * (self.loss - mean[self.part]) ** 2, self.start) / total
        return top + np.log(total), mean, variance


@dataclass(frozen=True)
class Saddle:
    """A coarse version of a sum of losses.

    Beside the parts there are bounded-range uses, (epsilon, count), whose analyst takes what is worst under each tilt.
    """

    parts: tuple[Part, ...]
    ranges: tuple[tuple[float, int], ...] = ()

    @cached_property
    def _tables(self) -> _Tables:
        return _Tables.of(self.parts)

    @cached_property
    def support(self) -> tuple[float, float]:
        """Losses that no sum of the parts is below or above, on lattices up to `beyond` times as coarse."""
        nodes = [(part.count * part.lattice.step, part.lattice.first, part.lattice.mass.size) for part in self.parts]
        least = math.fsum(steps * (first - CONFIG.beyond) for steps, first, _ in nodes)
        return least, math.fsum(steps * (first + size - 1 + CONFIG.beyond) for steps, first, size in nodes)

    def at(self, tilt: float) -> tuple[float, float, float]:
        """Return the cumulant, mean and variance of the sum under the tilt."""
        height = mean = variance = 0.0
        if self.parts:
            of_parts = self._tables.moments(tilt)
            height, mean, variance = (float((self._tables.count * each).sum()) for each in of_parts)
        adapted = [(count, _adapted_moments(epsilon, tilt), 4.0 / epsilon**2) for epsilon, count in self.ranges]
        gain = CONFIG.first_gain + CONFIG.later_gain * math.fsum(count * one[2] * unit for count, one, unit in adapted)
        for count, one, unit in adapted:
            uses = count * (1.0 + one[2] * unit / gain)
            height, mean, variance = height + uses * one[0], mean + uses * one[1], variance + uses * one[2]
        return height, mean, variance

    def for_loss(self, loss: float) -> float:
        """Return the tilt, of either sign, under which the mean is about `loss`."""

        def residual(tilt: float) -> tuple[float, float]:
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
        """Return the tilt, at least 0, whose mean is about the epsilon at which delta is as given."""
        target = math.log(delta)

        def residual(tilt: float) -> tuple[float, float]:
            height, mean, variance = self.at(tilt)
            return height - tilt * mean - self._log_spread(tilt, variance) - target, tilt * variance

        guess = min(math.sqrt(-2.0 * target / self._variance), self._largest)
        quick = _newton(residual, guess)
        if quick is not None and quick > 0.0:
            return min(quick, self._largest)
        return self._root(guess, lambda tilt: residual(tilt)[0] > 0.0)

    def log_delta(self, epsilon: float) -> float:
        """Return about log delta at epsilon, by the saddle-point approximation."""
        tilt = self.for_loss(epsilon)
        if tilt <= 0.0:
            return 0.0
        height, _, variance = self.at(tilt)
        return height - tilt * epsilon - self._log_spread(tilt, variance)

    def epsilon(self, delta: float) -> float:
        """Return about the epsilon at which delta is as given, by the saddle-point approximation.

        The tilt need not be exact: log delta falls by the tilt per unit of epsilon.
        """
        tilt = self.for_delta(delta)
        height, mean, variance = self.at(tilt)
        if tilt <= 0.0:
            return max(0.0, mean)
        return max(0.0, mean + (height - tilt * mean - self._log_spread(tilt, variance) - math.log(delta)) / tilt)

    def _log_spread(self, tilt: float, variance: float) -> float:
        """Return the logarithm of exp(height - tilt mean) over delta.

        Under the tilt a loss that is x above the mean counts with exp(-tilt x) - exp(-(tilt + 1) x), whose mean is
        known where x is normal. Where losses are piled up at their largest, x takes few values, and the mean is about
        that of an even spread, or 1.
        """
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
        """The variance of the sum without a tilt."""
        return max(self.at(0.0)[2], 1e-300)

    def moderate(self, tilt: float) -> float:
        """Return the tilt, kept where round-off in a sum of the parts is not magnified beyond use.

        Near the largest loss tilts grow without bound, the sooner for the proxies of bounded-range mechanisms.
        """
        return min(tilt, CONFIG.largest_moderate / math.sqrt(self._variance))

    @cached_property
    def _largest(self) -> float:
        """The largest tilt of use; a loss that hardly varies counts as spread over a thousandth of a step."""
        deviations = [epsilon / 2 for epsilon, _ in self.ranges]
        if self.parts:
            variances = self._tables.moments(0.0)[2].tolist()
            steps = [part.lattice.step for part in self.parts]
            deviations += [max(math.sqrt(one), 1e-3 * step) for one, step in zip(variances, steps, strict=True)]
        return CONFIG.largest / min(deviations)

    def _root(self, guess: float, too_small: Callable[[float], bool]) -> float:
        """Return about where `too_small` turns false, by doubling or halving from the guess and then bisecting."""
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
    """Return exp(x^2 / 2) P[Z > x] of a standard normal Z, for x >= 0."""
    if x < 25.0:
        return 0.5 * math.exp(0.5 * x * x) * math.erfc(x * math.sqrt(0.5))
    return x / ((x * x + 1.0) * math.sqrt(2.0 * math.pi))


def _adapted_moments(epsilon: float, tilt: float) -> tuple[float, float, float]:
    """Return log E[exp(tilt loss)] of the worst bounded-range mechanism for the tilt, and its mean and variance."""
    t = worst_t(epsilon, max(tilt, 1e-9))
    odds = odds_of_low(t, t - epsilon)
    tilted = odds * math.exp(min(-tilt * epsilon, 700.0))
    share = 1.0 / (1.0 + tilted)
    height = tilt * t + math.log1p(tilted) - math.log1p(odds)
    return height, t - (1.0 - share) * epsilon, share * (1.0 - share) * epsilon**2


def coarse_saddle(uses: Sequence[tuple[KnownNoise, int]]) -> Saddle:
    """Return a coarse version of the uses."""
    return Saddle(
        tuple(
            Part(tabulated(known, math.sqrt(spread(known)[0]) / CONFIG.steps_in_deviation).upper, count)
            for known, count in uses
        )
    )


def _newton(residual: Callable[[float], tuple[float, float]], tilt: float) -> float | None:
    """Return where the residual vanishes by a few plain Newton steps, or None when they do not settle."""
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
