"""Exponential tilts under which a sum of losses has a given mean or a given tail.

Nothing is certified by a tilt; a good one makes the certified bounds tight.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from setwise.accounting.losses.dominating_pairs import KnownNoise, spread, tabulated
from setwise.accounting.losses.lattice import LossLattice, multiples


@dataclass(frozen=True, slots=True)
class Tuning:
    """How closely tilts are found, and how large they may be."""

    largest: float = 60.0
    """Largest tilt over the smallest standard deviation of a part: there each part is at its largest loss."""
    largest_moderate: float = 25.0
    """Largest moderate tilt over the standard deviation of the whole loss: enough for deltas down to 1e-130."""
    steps_in_deviation: int = 12
    """Lattice steps to a standard deviation in the coarse version of a loss."""
    newton_steps: int = 6
    newton_close: float = 0.01
    """Newton's method ends at a relative step this small, and gives way to bisection after that many steps."""
    close: float = 0.02
    """Relative length at which bisection ends: a tilt need not be exact."""
    apart: float = 1.5
    """Factor between the tilts tried to enclose a root."""


TUNING = Tuning()


@dataclass(frozen=True, slots=True)
class Part:
    """`count` independent losses with the same lattice distribution."""

    lattice: LossLattice
    count: int


def cumulant(parts: Sequence[Part], tilt: float) -> float:
    """Return log E[exp(tilt x)] of the sum, x counted from the shifts."""
    return math.fsum(part.count * _moments(part.lattice, tilt)[0] for part in parts)


def _moments(lattice: LossLattice, tilt: float) -> tuple[float, float, float]:
    """Return log E[exp(tilt x)], and mean and variance of x under the tilt."""
    x = multiples(lattice.step, lattice.first, lattice.mass.size)
    exponent = tilt * x
    with np.errstate(divide="ignore"):
        exponent += np.log(lattice.mass)
    top = float(exponent.max())
    weight = np.exp(np.maximum(exponent - top, -700.0))  # no denormal numbers, which are slow
    total = float(weight.sum())
    mean = float((weight * x).sum()) / total
    return top + math.log(total), mean, float((weight * (x - mean) ** 2).sum()) / total


@dataclass(frozen=True, slots=True)
class Saddle:
    """A coarse version of a sum of losses."""

    parts: tuple[Part, ...]

    def at(self, tilt: float) -> tuple[float, float, float]:
        """Return the cumulant, mean and variance of the sum under the tilt."""
        height = mean = variance = 0.0
        for part in self.parts:
            one = _moments(part.lattice, tilt)
            height += part.count * one[0]
            mean += part.count * one[1]
            variance += part.count * one[2]
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
            return height - tilt * mean - _log_spread(tilt, variance) - target, tilt * variance

        guess = min(math.sqrt(-2.0 * target / max(self.at(0.0)[2], 1e-300)), self._largest)
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
        return height - tilt * epsilon - _log_spread(tilt, variance)

    def moderate(self, tilt: float) -> float:
        """Return the tilt, kept where round-off in a sum of the parts is not magnified beyond use.

        Near the largest loss tilts grow without bound, the sooner for the proxies of bounded-range mechanisms.
        """
        return min(tilt, TUNING.largest_moderate / math.sqrt(max(self.at(0.0)[2], 1e-300)))

    @property
    def _largest(self) -> float:
        """The largest tilt of use; a loss that hardly varies counts as spread over a thousandth of a step."""
        return TUNING.largest / min(
            max(math.sqrt(_moments(part.lattice, 0.0)[2]), 1e-3 * part.lattice.step) for part in self.parts
        )

    def _root(self, guess: float, too_small: Callable[[float], bool]) -> float:
        """Return about where `too_small` turns false, by doubling or halving from the guess and then bisecting."""
        largest = self._largest
        high = min(max(guess, 1e-9), largest)
        low = 0.0
        while too_small(high):
            if high >= largest:
                return largest
            low, high = high, min(TUNING.apart * high, largest)
        if low == 0.0:
            low = high
            while low > 1e-12 and not too_small(low):
                low, high = low / TUNING.apart, low
        while high - low > TUNING.close * high and high > 1e-12:
            middle = 0.5 * (low + high)
            low, high = (middle, high) if too_small(middle) else (low, middle)
        return 0.5 * (low + high)


def _log_spread(tilt: float, variance: float) -> float:
    """Return log(sqrt(2 pi) deviation tilt (tilt + 1)): delta is about exp(height - tilt mean) over that."""
    return math.log(max(1.0, math.sqrt(2 * math.pi * variance) * tilt * (tilt + 1.0)))


def coarse_saddle(uses: Sequence[tuple[KnownNoise, int]]) -> Saddle:
    """Return a coarse version of the uses."""
    return Saddle(
        tuple(
            Part(tabulated(known, math.sqrt(spread(known)[0]) / TUNING.steps_in_deviation).upper, count)
            for known, count in uses
        )
    )


def _newton(residual: Callable[[float], tuple[float, float]], tilt: float) -> float | None:
    """Return where the residual vanishes by a few plain Newton steps, or None when they do not settle."""
    for _ in range(TUNING.newton_steps):
        value, slope = residual(tilt)
        if not slope > 0.0:
            return None
        step = value / slope
        tilt += step
        if abs(step) <= TUNING.newton_close * abs(tilt):
            return tilt
        if abs(step) > 10.0 * abs(tilt) + 1.0:
            return None
    return None
