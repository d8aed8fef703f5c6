"""The sentence that says which intervals of an answer are wider than the accuracy that was asked for, and what helps.

The accuracy of a mean is planned for groups of 1,000 users, because the sizes of groups are private. Smaller groups
have wider intervals, which is seen only in the answer.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from setwise.analytics.planning.expected_error import releases_of
from setwise.analytics.planning.remembered import plan_statistics
from setwise.analytics.query import Mean, Query
from setwise.analytics.statistics import Statistic
from setwise.errors import SetwiseError
from setwise.mechanisms.planning.request import Total
from setwise.mechanisms.release import Estimate, Item
from setwise.mechanisms.statistics import GroupStatistics

_ROUNDING = 1 + 1e-9
"""Factor by which an interval may be wider than the accuracy and still meet it, because its ends are rounded floats."""

_MOST_PROPOSED = 5.0
"""The largest epsilon that is proposed: with more, an answer protects hardly anybody, and coarser groups are better."""

_STEP = 1.05
"""The ratio of neighbouring epsilons that are tried for a proposal, which says "about"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccuracyTarget:
    """The accuracy that a question asked for, and the plan that promises it, to compare released intervals with it.

    - `within` is the largest allowed half-width of an interval, in the unit of the statistic.
    - `query` and `total` are the planned query and its (epsilon, delta). `total` is None if the query is one of several
      SELECTs, whose joint epsilon this query alone does not tell.
    - `radii` has the planned half-width of each statistic (for a mean, in a group of 1,000 users), or None if the
      search for groups counts the users. It is empty for a single count or sum of each group.
    - `weighable` is True if private groups are found in rounds (several noisy passes over the table).
    """

    within: Fraction
    query: Query
    total: Total | None
    radii: tuple[Fraction | None, ...] = ()
    weighable: bool = False

    def missed_note(self, items: Sequence[Item]) -> str:
        """Return sentences on the intervals of the released `items` that are wider than `within`; "" if none is.

        Only released numbers are read. If intervals are wide because groups are small, the sentences name the epsilon
        with which they would be about as narrow as asked for, unless it is above 5 (`_MOST_PROPOSED`).
        """
        half_widths = list(self._half_widths(items))
        missed = [(place, half) for place, half in half_widths if half > float(self.within) * _ROUNDING]
        if not missed:
            return ""
        number = f"{len(missed):,} of {len(half_widths):,} intervals {'is' if len(missed) == 1 else 'are'}"
        which = "The interval is" if len(half_widths) == 1 else number
        wider = f"{which} wider than the ±{float(self.within):g} asked for"
        by_size = [(place, half) for place, half in missed if self._radius_unit(place)]
        if not by_size:
            return f"{wider}: the interval of a group that is listed for its noisy count can reach further down."
        units = dict.fromkeys(self._radius_unit(place) for place, _ in sorted(by_size))
        planned = " and".join(units).replace(" of ", "for ", 1)
        spread = ", or other values," if "spread" in planned else ""
        return (
            f"{wider}: the accuracy is planned {planned}, and smaller groups{spread} have wider intervals."
            f"{self._advice(sorted(half for _, half in by_size), by_size)}"
        )

    def _radius_unit(self, place: int) -> str:
        """Return what the planned half-width of statistic `place` refers to, such as " of means over 1,000 users".

        Returns "" if all intervals of the statistic are planned to be equally wide.
        """
        return self.query.statistics[place].radius_unit if self.radii else ""

    def _advice(self, halves: Sequence[float], missed: Sequence[tuple[int, float]]) -> str:
        """Return a sentence, after a blank, with the epsilon that would do for the `missed` intervals; "" if unknown.

        It is known for means only, because the width of their intervals is proportional to the noise. If no epsilon
        up to 5 (`_MOST_PROPOSED`) does for all of them, the sentence is about half of them. `missed` has pairs (index
        of the statistic, half-width of an interval), and `halves` are these half-widths in ascending order.
        """
        if self.total is None or any(self.query.statistics[place].kind != Mean.kind for place, _ in missed):
            return ""
        within = f"in place of within = {float(self.within):g}"
        widest = "it" if len(halves) == 1 else "the widest of them"
        for largest, which in ((halves[-1], widest), (halves[(len(halves) - 1) // 2], "half of them")):
            epsilon = self._epsilon_for([(place, half) for place, half in missed if half <= largest])
            if epsilon is not None:
                return f" About epsilon = {float(epsilon):g} {within} would do for {which}."
        return f" No epsilon up to {_MOST_PROPOSED:g} would do: ask for larger groups, or for less accuracy."

    def _epsilon_for(self, missed: Sequence[tuple[int, float]]) -> Fraction | None:
        """Return about the least epsilon whose intervals would be narrow enough in place of those in `missed`.

        `missed` has pairs (index of the statistic, half-width of an interval). Returns None if the epsilon is above 5
        (`_MOST_PROPOSED`).
        """
        assert self.total is not None
        # Whatever the size of a group is, the width of its interval is about proportional to the planned half-width.
        most: dict[int, Fraction] = {}
        if any(math.isinf(half) for _, half in missed):
            return None
        for place, half in missed:
            if (planned := self.radii[place]) is not None:
                needed = planned * self.within / Fraction(half)
                most[place] = min(needed, most.get(place, needed))
        low, high = 0, math.ceil(math.log(_MOST_PROPOSED / float(self.total.epsilon), _STEP))
        if high <= 0 or not self._is_planned_within(most, Fraction(_MOST_PROPOSED)):
            return None
        while high - low > 1:
            middle = (low + high) // 2
            is_enough = self._is_planned_within(most, self.total.epsilon * Fraction(_STEP**middle))
            low, high = (low, middle) if is_enough else (middle, high)
        return min(_two_digits_up(float(self.total.epsilon) * _STEP**high), Fraction(_MOST_PROPOSED))

    def _half_widths(self, items: Sequence[Item]) -> Iterator[tuple[int, float]]:
        """Yield (index of the statistic, half-width) of each interval of `items`.

        The half-width is the larger distance of the two ends from the released number. It is infinite for a mean whose
        interval has no end between the clipping bounds, because the noise is then as large as the values.
        """
        for item in items:
            if item.interval is not None and item.count is not None:
                drawn = item.count if item.noisy is None else item.noisy
                yield 0, float(max(item.interval[1] - drawn, drawn - item.interval[0]))
            for place, estimate in enumerate(item.estimates):
                if estimate.interval is not None:
                    lower, upper = estimate.interval
                    half = max(upper - estimate.value, estimate.value - lower)
                    yield place, math.inf if _is_unbounded(self.query.statistics[place], estimate) else half

    def _is_planned_within(self, most: dict[int, Fraction], epsilon: Fraction) -> bool:
        """Return whether `epsilon` plans half-widths of at most the numbers in `most`, by index of the statistic."""
        assert self.total is not None
        total = replace(self.total, epsilon=epsilon, from_accuracy=False)
        bounds = replace(self.query.bounds, weighable=self.weighable)
        releases = releases_of(self.query.statistics)
        try:
            mechanism = plan_statistics(bounds, total, releases, certified=False).mechanism
        except SetwiseError:
            return False
        radii = planned_radii(self.query, mechanism)
        return all((radius := radii[place]) is not None and radius <= most[place] for place in most)


def planned_radii(query: Query, mechanism: GroupStatistics) -> tuple[Fraction | None, ...]:
    """Return the planned half-width of each statistic of `query`, in its unit; `mechanism` is the planned mechanism.

    The half-width is None for a number of users that the search for private groups releases.
    """
    pairs = zip(query.statistics, mechanism.statistics, strict=True)
    return tuple(statistic.planned_radius(release) for statistic, release in pairs)


def _is_unbounded(statistic: Statistic, estimate: Estimate) -> bool:
    """Return whether `estimate` is a mean with no end of its interval between the clipping bounds, or at a bound."""
    if not isinstance(statistic, Mean) or estimate.interval is None:
        return False
    low, high = float(statistic.clip_bounds.low), float(statistic.clip_bounds.high)
    return estimate.interval == (low, high) or estimate.value in (low, high)


def _two_digits_up(value: float) -> Fraction:
    """Return the positive `value` rounded up to two significant digits.

    >>> _two_digits_up(2.31), _two_digits_up(0.2)
    (Fraction(12, 5), Fraction(1, 5))
    """
    unit = Fraction(10) ** (math.floor(math.log10(value)) - 1)
    return math.ceil(Fraction(str(value)) / unit) * unit
