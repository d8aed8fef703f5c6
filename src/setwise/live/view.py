"""The released numbers of a live series, read back as tables of estimates with intervals.

A live series is a set of noisy user counts that is released period by period.
"""

import csv
import io
import json
import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from typing import TYPE_CHECKING

import numpy as np

from setwise.accounting.brackets import CertifiedBound
from setwise.accounting.guarantees import Use
from setwise.accounting.notation import format_use
from setwise.accounting.promises import promise_for_unit
from setwise.errors import InvalidParameter, UnknownName
from setwise.live.calendar import Calendar, PeriodLength, parse_date
from setwise.live.release import Released
from setwise.live.terms import SeriesTerms, Unit
from setwise.mechanisms.intervals import CONFIDENCE
from setwise.mechanisms.running_totals import RunningTotals

if TYPE_CHECKING:
    from setwise.analytics.present.plot import Picture
    from setwise.contract import LineRecord, SeriesValuesRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One group of a live series (noisy user counts) over time: its estimated numbers of users, with 95% intervals.

    - `item` is the group.
    - `values` has the estimate for each released period, rounded to a whole number of at least 0.
    - `intervals` has the confidence interval for each released period.
    - `shown_from` is the first day of the period in which the group was first shown.
    """

    item: str | int
    values: tuple[int, ...]
    intervals: tuple[tuple[int, int], ...]
    shown_from: str

    def to_dict(self) -> "LineRecord":
        """Return a dict of JSON values: the group as "item", and the estimated "values" and "intervals" of periods."""
        return {
            "item": self.item,
            "values": list(self.values),
            "intervals": [list(interval) for interval in self.intervals],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesView:
    """Estimated counts of a live series: running totals, or counts over windows of `window` periods.

    - `window` is None for running totals.
    - `every` is the length of a period (such as "week").
    - `unit` is the unit of privacy (such as "user").
    - `contributions` is the most groups in which one user counts; None if no group of a user can be left out, because
      there are no more public groups than that.
    - `periods` are the first days of the released periods.
    - `remaining` is the number of periods not released yet.
    - `lines` has one `Line` of estimates with intervals per group.
    - `epsilon` and `delta` are the privacy promise.
    - `spent` are the privacy guarantees, with counts, that the series was charged.
    - `matrix` names, for readers, how a released value is made: a weighted sum of the counts of all periods so far,
      whose weights are, for example, "the square root of the prefix sums".
    """

    name: str
    every: str
    unit: str
    window: int | None
    periods: tuple[str, ...]
    lines: tuple[Line, ...]
    epsilon: CertifiedBound
    delta: float
    spent: tuple[Use, ...]
    matrix: str
    contributions: int | None
    remaining: int

    @property
    def measure(self) -> str:
        """A phrase that says what each number counts, such as "users from the first period up to each period"."""
        counted = "users" if self.unit == Unit.USER else "user-days"
        if self.window is None:
            return f"{counted} from the first period up to each period"
        return f"new {counted} of each period" + (f" and the {self.window - 1} before it" if self.window > 1 else "")

    @property
    def left_out(self) -> str:
        """A sentence for readers that says in how many groups a user (or a user's day) counts at most.

        The sentence adds that further groups of the user are left out, and what this does to the numbers. It is "" if
        no group can be left out.
        """
        if self.contributions is None:
            return ""
        items = _items_counted(self.unit, self.contributions)
        return f"{items}, the first in order of time; others are left out, so the table's own numbers can be larger."

    def confidence_note(self, what: str = "interval") -> str:
        """Return "Each interval holds the exact number 95 times in 100.", a sentence for readers.

        `what` is the first noun, "interval" or "band". If groups of a user may be left out, the intervals hold the
        number of users who are counted, and the sentence says "number counted".
        """
        number = "exact number" if self.contributions is None else "number counted"
        return f"Each {what} holds the {number} 95 times in 100."

    def promise(self) -> str:
        """Return the privacy promise of the series in words: what is protected (such as users), epsilon, delta."""
        return promise_for_unit(self.unit, self.epsilon.upper, self.delta)

    def top(self, k: int, period: str | None = None) -> tuple[Line, ...]:
        """Return the `k` groups with the largest estimates in one period, as lines over all periods, the largest first.

        `period` is a day of this period; None takes the last one. Groups that were not shown yet in this period are
        left out. Raises `UnknownName` if no released period has that day. Returns an empty tuple if nothing was
        released.
        """
        if not self.periods:
            return ()
        place = self.place_of(period)
        lines = [line for line in self.lines if line.shown_from <= self.periods[place]]
        return tuple(sorted(lines, key=lambda line: (-line.values[place], str(line.item)))[:k])

    def place_of(self, day: str | None) -> int:
        """Return the number, counted from 0, of the released period that has `day` (YYYY-MM-DD); None takes the last.

        Raises `UnknownName` if no released period has that day.
        """
        if day is None:
            return len(self.periods) - 1
        calendar = Calendar(
            every=PeriodLength(self.every), start=date.fromisoformat(self.periods[0]), periods=len(self.periods)
        )
        with suppress(InvalidParameter):
            place = calendar.place_of(parse_date(day, "on"))
            if 0 <= place < len(self.periods):
                return place
        last = f"the {self.every} that begins on {self.periods[-1]}"
        raise UnknownName(f"no released period has the day {day!r}; the last one is {last}")

    def largest(self, k: int, period: str | None = None) -> "SeriesView":
        """Return a copy of the view with only the `k` groups whose estimates in one period are largest, largest first.

        `period` is a day of this period; None takes the last one.
        """
        return replace(self, lines=self.top(k, period))

    def to_dict(self) -> "SeriesValuesRecord":
        """Return the estimated counts of the series as the JSON object that commands print and the service sends."""
        return {
            "name": self.name,
            "every": self.every,
            "unit": self.unit,
            "measure": self.measure,
            "left_out": self.left_out,
            "periods": list(self.periods),
            "remaining": self.remaining,
            "series": [line.to_dict() for line in self.lines],
            "epsilon": {"lower": self.epsilon.lower, "upper": self.epsilon.upper},
            "delta": self.delta,
            "spent": [format_use(use) for use in self.spent],
            "promise": self.promise(),
        }

    def picture(self) -> "Picture":
        """Return a picture of each group's estimated counts over time, with confidence bands.

        Few groups share one chart, and many groups get a small chart each.
        """
        from setwise.live.picture import draw_series

        return draw_series(self)

    def to_json(self) -> str:
        """Return the estimated counts of the series as JSON text, with the fields that `to_dict` returns."""
        return json.dumps(self.to_dict())

    def to_csv(self) -> str:
        """Return CSV text with one line for each group and period: period, item (the group), value, low, high, measure.

        `low` and `high` are the ends of the 95% interval, and `measure` says what is counted, left out and protected.
        """
        sentences = (f"{self.measure}.", self.left_out, self.confidence_note(), self.promise().partition(". ")[0])
        measure = " ".join(filter(None, sentences))
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["period", "item", "value", "low", "high", "measure"])
        for line in self.lines:
            for period, value, (low, high) in zip(self.periods, line.values, line.intervals, strict=True):
                writer.writerow([period, line.item, value, low, high, measure])
        return text.getvalue()


def view_of(
    terms: SeriesTerms,
    totals: RunningTotals,
    released: Released,
    *,
    epsilon: CertifiedBound,
    delta: float,
    window: int | None = None,
    items: Sequence[str | int] = (),
) -> SeriesView:
    """Return the view (estimates with intervals) of the `released` numbers of a live series.

    - `terms` say what the series counts, and `totals` is its noise mechanism.
    - `epsilon` and `delta` are the privacy promise to show.
    - `window` asks for counts over that many periods; None for running totals.
    - `items` are the only groups to show; all if empty.

    Raises `InvalidParameter` for a window outside the series, and `UnknownName` for a group that is not shown.
    """
    if window is not None and (type(window) is not int or not 1 <= window <= terms.periods):
        raise InvalidParameter(f"a window spans between 1 and {terms.periods} periods, not {window!r}")
    known = {str(label): place for place, label in enumerate(released.labels)}
    unknown = [item for item in items if str(item) not in known]
    if unknown:
        raise UnknownName(f"the series {terms.name!r} does not show an item {str(unknown[0])!r} so far")
    places = [known[str(item)] for item in items] if items else range(len(released.labels))
    estimates = totals.estimates(released.noisy, window)
    shown_from = None if totals.failure is None else np.array(released.shown_from, dtype=np.int64)
    lower, upper = totals.intervals(released.noisy, CONFIDENCE, window, shown_from)
    # Round to whole numbers of at least 0, because people are counted (`shown_count` in mechanisms/release.py is the
    # same rule for one number); values stay within their intervals. An estimate below 0 is raised together with the
    # upper end of its interval (as in `raise_to_zero`), because 0 .. 0 would state that nobody was counted.
    lows = np.maximum(np.floor(lower), 0).astype(np.int64)
    highs = np.maximum(np.ceil(upper - np.minimum(estimates, 0)), 0).astype(np.int64)
    values = np.maximum(np.rint(estimates), 0).astype(np.int64)
    lines = tuple(
        Line(
            item=released.labels[place],
            values=tuple(values[place].tolist()),
            intervals=tuple(zip(lows[place].tolist(), highs[place].tolist(), strict=True)),
            shown_from=released.periods[released.shown_from[place]],
        )
        for place in places
    )
    return SeriesView(
        name=terms.name,
        every=terms.every,
        unit=terms.unit,
        window=window,
        periods=released.periods,
        lines=lines,
        epsilon=epsilon,
        delta=delta,
        spent=totals.uses(),
        matrix=str(terms.shape()),
        contributions=terms.contributions if terms.is_bounded() else None,
        remaining=terms.periods - len(released.periods),
    )


def _items_counted(unit: str, contributions: int) -> str:
    """Return "Of each user at most 10 items count": the most groups of one protected unit that a live series counts."""
    counted = "user" if unit == Unit.USER else "user-day"
    return f"Of each {counted} at most {'1 item counts' if contributions == 1 else f'{contributions:,} items count'}"


def accuracy_in_words(terms: SeriesTerms, totals: RunningTotals) -> str:
    """Return a phrase for people: how far the numbers of a live series may be from those counted, at 95% confidence.

    A live series is a set of noisy user counts; `terms` say what it counts, and `totals` is its noise mechanism. If the
    groups are private, the phrase also says about how many users a group needs to be shown in the last period.
    """
    radius, counted = math.ceil(totals.radii(CONFIDENCE)[-1]), "users" if terms.unit == Unit.USER else "user-days"
    number = "number counted" if terms.is_bounded() else "exact number"
    words = f"totals within {radius:,} {counted} of the {number} in every period, 95 times in 100"
    if terms.window is not None:
        words += f"; windows of {terms.window} within {math.ceil(totals.radii(CONFIDENCE, terms.window)[-1]):,}"
    elif terms.purpose == "periods":
        single = math.ceil(totals.radii(CONFIDENCE, 1)[-1])
        words = f"single periods within {single:,} {counted}, 95 times in 100; {words}"
    if totals.failure is not None:
        words += f"; an item is shown from about {math.ceil(totals.thresholds()[-1]):,} {counted} on"
    if terms.is_bounded():
        items = _items_counted(terms.unit, terms.contributions)
        words += f"; {items[:1].lower()}{items[1:]}, so the table's own totals can be larger"
    return words
