"""Privacy profiles (delta as a function of epsilon) on a grid of epsilons, and how many grid points they need.

A `Profile` stores certified bounds on delta at grid points, and gives certified bounds at any epsilon. `Band` chooses
the grid points. `TailProfile` is the profile of the mechanisms used last. The operators in the module `operator` take
such a profile, and return the profile of one earlier mechanism followed by the last ones.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.brackets import UNIT

Floats = NDArray[np.float64]

FARTHEST_LEFT = 40.0
"""Smallest epsilon, less the epsilon of one mechanism, at which a profile may begin if values on the left are left out.
e^-40 is below one unit of rounding."""

CHORD_ROUNDING = 32.0 * UNIT
"""Relative rounding error of values on the chord that replaces a profile left of its first stored value."""

_LEAST_REACH = 6.4
"""Smallest length of grid beyond the point that will be read, in standard deviations of the loss. Further right the
profile is read as constant."""

_FURTHER_LEFT = 1.5
"""Standard deviations that a grid covers on the left in addition to those on the right, because a profile that counts
as nearly 1 there raises the result by more than one that counts as constant on the right."""

_POSITION = 1e-11
"""Relative error added to a value read between grid points, for the rounding of its position."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Certified lower and upper bounds on a privacy profile (delta as a function of epsilon), on a grid of epsilons.

    - `step` is h, the distance of neighbouring grid points 0, h, 2h, ...
    - `lower` and `upper` are the bounds at the grid points from index `first` on. Bounds at earlier points are left out
      to save time; `whole` adds them again before delta is read.
    - `rounding` is the relative rounding error of the stored bounds. `read_lower` and `read_upper` allow for it; the
      stored values do not.
    """

    # Only profiles with `first` = 0 can be read; `whole` returns such a profile.

    step: float
    lower: Floats
    upper: Floats
    rounding: float = 0.0
    first: int = 0

    @property
    def end(self) -> float:
        """The largest epsilon at which this privacy profile (delta as a function of epsilon) has a stored value."""
        return self.step * (self.upper.size - 1)

    def without_points_before(self, first: int) -> "Profile":
        """Return this privacy profile without its bounds at the grid points with an index below `first`, to save time.

        A privacy profile is delta as a function of epsilon; the point with index i is the epsilon i times `step`.

        Requires: `first` is at least `self.first` and below the index of the last grid point.
        """
        left_out = first - self.first
        return replace(self, lower=self.lower[left_out:], upper=self.upper[left_out:], first=first)

    def whole(self) -> "Profile":
        """Return this privacy profile with bounds also at the small epsilons that `without_points_before` left out.

        The added bounds follow from the first stored value, because delta falls with epsilon and is convex in
        e^epsilon.
        """
        # Let s be the first epsilon with a stored value. Lower bound: a profile falls, so f(s) is a lower bound left of
        # s. Upper bound: a profile is at most 1 and convex in u = e^x, so between 0 and s it is at most the chord from
        # (1, 1) to (e^s, f(s)), which is 1 - (1 - f(s)) (e^x - 1) / (e^s - 1). It is computed as 1 - r + r f(s) with r
        # = e^(x - s). This differs from the chord by a share e^-s, which is below one unit of rounding because s is at
        # least `FARTHEST_LEFT`.
        if self.first == 0:
            return self
        distance = self.step * np.arange(self.first, 0, -1.0)
        chord = -np.expm1(-distance) + np.exp(-np.minimum(distance, 700.0)) * self.upper[0]
        return Profile(
            self.step,
            np.concatenate((np.full(self.first, self.lower[0]), self.lower)),
            np.concatenate((np.minimum(chord, 1.0), self.upper)),
            self.rounding + CHORD_ROUNDING,
        )

    def read_upper(self, x: Floats) -> Floats:
        """Return upper bounds on the delta of this privacy profile at the epsilons `x`, which may be negative.

        A privacy profile is delta as a function of epsilon. The bounds allow for the rounding errors of the stored
        values. Beyond the last grid point, the bound at this point is used, because delta falls with epsilon.

        Requires: the profile has a stored value at every grid point from epsilon 0 on (`first` is 0). The method
        `whole` fills in the points that `without_points_before` left out.
        """
        size = np.abs(x)
        position = np.minimum(size / self.step, self.upper.size - 1.0)
        cell = np.minimum(position.astype(np.int64), max(0, self.upper.size - 2))
        share = np.clip(np.expm1((position - cell) * self.step) / math.expm1(self.step), 0.0, 1.0)
        after = np.minimum(cell + 1, self.upper.size - 1)
        value = (1.0 - share) * self.upper[cell] + share * self.upper[after]
        value *= 1.0 + self.rounding + _POSITION
        mirrored: Floats = np.where(x < 0.0, -np.expm1(-size) + np.exp(-size) * value, value)
        return np.minimum(mirrored, 1.0)

    def read_lower(self, x: Floats) -> Floats:
        """Return lower bounds on the delta of this privacy profile at the epsilons `x`, which may be negative.

        A privacy profile is delta as a function of epsilon. The bounds allow for the rounding errors of the stored
        values. Beyond the last grid point, the bound is 0.

        Requires: the profile has a stored value at every grid point from epsilon 0 on (`first` is 0). The method
        `whole` fills in the points that `without_points_before` left out.
        """
        size = np.abs(x)
        position = np.minimum(size / self.step, self.lower.size)  # beyond the grid, and within the range of integers
        # A position that equals a grid point up to rounding counts as that point; `_POSITION` covers the difference.
        after = np.ceil(position * (1.0 - 1e-15) - 1e-12).astype(np.int64)
        on_grid = after < self.lower.size
        at = np.where(on_grid, after, 0)
        value = np.where(on_grid, self.lower[at], 0.0)
        # The chord from `after` to the next point, continued back to x, runs below f. Its drop is at least `drop`.
        following = np.minimum(at + 1, self.upper.size - 1)
        drop = np.maximum(0.0, self.lower[at] * (1 - self.rounding) - self.upper[following] * (1 + self.rounding))
        back = -np.expm1(np.minimum(0.0, (position - after) * self.step))
        value = value + np.where(on_grid, drop * back / math.expm1(self.step), 0.0)
        value *= 1.0 - self.rounding - _POSITION
        return np.where(x < 0.0, -np.expm1(-size) + np.exp(-size) * value, value)


def nothing_to_come(step: float) -> Profile:
    """Return the privacy profile (delta as a function of epsilon) of no mechanism at all: 0 at every epsilon >= 0.

    The delta of several mechanisms is computed backwards, from the last mechanism to the first, beginning with this
    profile. `step` is the distance of neighbouring grid points. One stored value, 0 at epsilon 0, is enough: delta
    stays 0 at larger epsilons, and delta at a negative epsilon x follows from it as 1 - exp(x).
    """
    return Profile(step, np.zeros(1), np.zeros(1))


@dataclass(frozen=True, slots=True)
class Band:
    """Decides how many grid points a privacy profile needs so that the result is accurate.

    A privacy profile is delta as a function of epsilon, on a grid of epsilons. Profiles are computed backwards, from
    the mechanism used last to the mechanism used first. The final profile is that of all mechanisms together; it is
    read at epsilons from `begin` to `end`.

    - `step` is the distance of neighbouring epsilons on the grid.
    - `end` may be infinite: profiles then extend to the largest possible loss.
    - `variance` is the variance of the privacy loss of all mechanisms together.
    - `depth` is about -log of the final delta. A smaller delta depends on rarer losses, so grids are then longer.
    """

    # The optimal delta is computed backwards: profiles (delta as a function of epsilon) of the last mechanisms come
    # first. Beyond its last grid point a profile is taken to be constant, so its last value must be well below the
    # final delta. Beyond the largest possible loss a profile is 0.

    step: float
    end: float
    variance: float
    depth: float
    begin: float = 0.0

    def size(self, done: float, support: float) -> int:
        """Return the number of grid points with which the privacy profile of the mechanisms used last has to be stored.

        Profiles (delta as a function of epsilon) are computed backwards, so this profile is a step towards the final
        profile of all mechanisms. Beyond the returned number of points it is too small to change the final delta
        noticeably.

        - `done` is the variance of the total privacy loss of the mechanisms used last.
        - `support` is their largest total privacy loss.
        """
        # If the overall epsilon `end` is infinite, the grid covers epsilons up to `support`. Otherwise it covers only
        # the epsilons at which the profile can still change the final delta noticeably.
        if self.end == math.inf:
            return math.ceil(support / self.step) + 2
        reach = min(support, self.end * min(1.0, done / self.variance) + self._deviations * self._spread(done))
        return math.ceil(reach / self.step) + 2

    def first(self, done: float, epsilon: float) -> int:
        """Return how many points, at the smallest epsilons, can be left out of a privacy profile to save time.

        A privacy profile is delta as a function of epsilon, at the points of a grid. Profiles are computed backwards,
        and this profile is that of the mechanisms used last. The final profile of all mechanisms is read only at
        epsilons from the field `begin` on, and hardly depends on the points that are left out.

        - `done` is the variance of the total privacy loss of the mechanisms used last.
        - `epsilon` is the parameter of the bounded-range mechanism that is added to the profile next.
        """
        # The final profile is read at epsilons of at least `begin`. Losses of the earlier mechanisms lower the epsilon
        # at which the profile of the last ones is read, to about `begin` times `done` / `variance`. At epsilons several
        # standard deviations below that, the profile hardly changes the final delta. Adding the mechanism of this
        # `epsilon` reads the profile at epsilons smaller by up to `epsilon`.
        if self.end == math.inf:
            return 0
        share = min(1.0, done / self.variance)
        left = self.begin * share - (self._deviations + _FURTHER_LEFT) * self._spread(done) - epsilon
        return math.floor(left / self.step) if left >= FARTHEST_LEFT + epsilon + self.step else 0

    @property
    def _deviations(self) -> float:
        """Number of standard deviations of the privacy loss that a grid covers beyond the epsilons of interest.

        The number grows with `depth`, about -log of the final delta, because a smaller delta depends on rarer losses.
        """
        return max(_LEAST_REACH, math.sqrt(2.0 * self.depth))

    def _spread(self, done: float) -> float:
        """Return the standard deviation of the loss of the last mechanisms, given the total loss of all mechanisms.

        The caller chooses from it how long the grid of the last mechanisms' privacy profile (delta as a function of
        epsilon) must be. Delta at one epsilon depends on outcomes whose total privacy loss is near this epsilon. So the
        grid must cover the losses that the last mechanisms have in such outcomes. `done` is the variance of the total
        loss of the last mechanisms, and the field `variance` that of all mechanisms; losses are treated as normal.
        """
        return math.sqrt(max(0.0, done * (self.variance - done) / self.variance))


@dataclass(frozen=True, slots=True)
class TailProfile:
    """The privacy profile (delta as a function of epsilon) of the mechanisms that are used last.

    Earlier mechanisms are added to it one by one. `variance` is the variance of the privacy loss of these last
    mechanisms, and `support` their largest loss.
    """

    profile: Profile
    variance: float = 0.0
    support: float = 0.0
