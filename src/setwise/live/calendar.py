"""The periods of a series: days, weeks or months, one after the other from the first day on."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum

from setwise.accounting.checks import check_choice
from setwise.errors import InvalidParameter
from setwise.mechanisms.parameters import positive_integer
from setwise.mechanisms.running_totals import MOST_PERIODS

_LAST_COMMON_DAY = 28
"""Every month has this day, so that months which begin on it, or on an earlier day, always exist."""


class Every(StrEnum):
    """How long a period is."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


@dataclass(frozen=True, slots=True, kw_only=True)
class Calendar:
    """`periods` periods, the first of which begins on `start`; dates are those of UTC.

    >>> months = Calendar(every=Every.MONTH, start=date(2026, 1, 1), periods=12)
    >>> months.begins(1), months.end
    (datetime.date(2026, 2, 1), datetime.date(2027, 1, 1))
    """

    every: Every
    start: date
    periods: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "every", check_choice("every", self.every, Every))
        positive_integer("periods", self.periods, MOST_PERIODS)
        if not isinstance(self.start, date):
            raise InvalidParameter(f"start must be a date, not {self.start!r}")
        if self.every is Every.MONTH and self.start.day > _LAST_COMMON_DAY:
            raise InvalidParameter(
                f"months begin on a day from 1 to {_LAST_COMMON_DAY}, which every month has, not {self.start.day}"
            )
        try:
            self.begins(self.periods)
        except (OverflowError, ValueError):
            raise InvalidParameter(f"{self.periods} periods from {self.start} reach beyond the year 9999") from None

    def begins(self, place: int) -> date:
        """Return the first day of a period, counted from 0; that of `periods` is the day after the series."""
        match self.every:
            case Every.DAY:
                return self.start + timedelta(days=place)
            case Every.WEEK:
                return self.start + timedelta(weeks=place)
            case Every.MONTH:
                months = self.start.month - 1 + place
                return self.start.replace(year=self.start.year + months // 12, month=months % 12 + 1)

    @property
    def end(self) -> date:
        """The day after the last period."""
        return self.begins(self.periods)

    def dates(self, count: int) -> list[date]:
        """Return the first days of the first `count` periods."""
        return [self.begins(place) for place in range(count)]

    def place_of(self, day: date) -> int:
        """Return the number of periods that begin after `start` and on or before a day: the period of the day."""
        match self.every:
            case Every.DAY:
                return (day - self.start).days
            case Every.WEEK:
                return (day - self.start).days // 7
            case Every.MONTH:
                months = 12 * (day.year - self.start.year) + day.month - self.start.month
                return months - (day.day < self.start.day)

    def closed(self, until: date) -> int:
        """Return how many periods have ended before the day `until` begins."""
        return 0 if until <= self.start else min(self.place_of(until), self.periods)

    def days(self, first: date, until: date) -> Iterator[date]:
        """Yield the days from `first` to the one before `until`."""
        for place in range((until - first).days):
            yield first + timedelta(days=place)


def parse_date(text: str | date, name: str) -> date:
    """Return the date that is written YYYY-MM-DD, or raise `InvalidParameter`."""
    if isinstance(text, date):
        return text
    try:
        return date.fromisoformat(text)
    except (TypeError, ValueError):
        raise InvalidParameter(f"{name} is a date such as 2026-01-01, not {text!r}") from None
