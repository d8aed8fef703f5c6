"""The periods of a live series (noisy counts that are released period by period): consecutive days, weeks or months."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from enum import StrEnum

from setwise.accounting.checks import check_choice
from setwise.errors import InvalidParameter
from setwise.mechanisms.parameters import positive_integer
from setwise.mechanisms.running_totals import MOST_PERIODS
from setwise.records import set_fields

_LAST_COMMON_DAY = 28
"""The last day that every month has; monthly periods begin on it or earlier, so that the first day always exists."""


class PeriodLength(StrEnum):
    """The length of a period: a day, a week (7 days), or a calendar month."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """The periods of a series: their number `periods`, their length `every`, and the first day `start` (UTC).

    A live series releases noisy user counts at the end of each period. Raises `InvalidParameter` if months begin on a
    day after the 28th, or if a period lies beyond the year 9999.

    >>> months = Calendar(every=PeriodLength.MONTH, start=date(2026, 1, 1), periods=12)
    >>> months.begins(1), months.end
    (datetime.date(2026, 2, 1), datetime.date(2027, 1, 1))
    """

    every: PeriodLength
    start: date
    periods: int

    def __post_init__(self) -> None:
        set_fields(self, every=check_choice("every", self.every, PeriodLength))
        positive_integer("periods", self.periods, MOST_PERIODS)
        if not isinstance(self.start, date):
            raise InvalidParameter(f"start must be a date, not {self.start!r}")
        if self.every is PeriodLength.MONTH and self.start.day > _LAST_COMMON_DAY:
            raise InvalidParameter(
                f"months begin on a day from 1 to {_LAST_COMMON_DAY}, which every month has, not {self.start.day}"
            )
        try:
            self.begins(self.periods)
        except (OverflowError, ValueError):
            raise InvalidParameter(f"{self.periods} periods from {self.start} reach beyond the year 9999") from None

    def begins(self, place: int) -> date:
        """Return the first day of period number `place`, counted from 0.

        If `place` is the number of periods, the result is the day after the last period.
        """
        match self.every:
            case PeriodLength.DAY:
                return self.start + timedelta(days=place)
            case PeriodLength.WEEK:
                return self.start + timedelta(weeks=place)
            case PeriodLength.MONTH:
                months = self.start.month - 1 + place
                return self.start.replace(year=self.start.year + months // 12, month=months % 12 + 1)

    @property
    def end(self) -> date:
        """The day after the last period."""
        return self.begins(self.periods)

    def dates(self, count: int) -> list[date]:
        """Return the first days of the first `count` periods, in order."""
        return [self.begins(place) for place in range(count)]

    def place_of(self, day: date) -> int:
        """Return the number, counted from 0, of the period that contains `day`.

        The number is negative for a day before the first period. After the last period, the count goes on as if there
        were more periods.
        """
        match self.every:
            case PeriodLength.DAY:
                return (day - self.start).days
            case PeriodLength.WEEK:
                return (day - self.start).days // 7
            case PeriodLength.MONTH:
                months = 12 * (day.year - self.start.year) + day.month - self.start.month
                return months - (day.day < self.start.day)

    def closed(self, until: date) -> int:
        """Return how many periods have ended before the day `until`: those whose last day is before `until`.

        The result is at least 0 and at most the number of the series' periods.
        """
        return 0 if until <= self.start else min(self.place_of(until), self.periods)

    def days(self, first: date, until: date) -> Iterator[date]:
        """Yield the days from `first` to the day before `until`."""
        for place in range((until - first).days):
            yield first + timedelta(days=place)


def parse_date(text: str | date, name: str) -> date:
    """Return `text` as a date: a text YYYY-MM-DD is parsed, and a `datetime` is reduced to its day.

    Raises `InvalidParameter` for any other value; the error message calls the value `name`.
    """
    if isinstance(text, datetime):
        return text.date()
    if isinstance(text, date):
        return text
    try:
        return date.fromisoformat(text)
    except (TypeError, ValueError):
        raise InvalidParameter(f"{name} is a date such as 2026-01-01, not {text!r}") from None
