"""Calendar periods: how often an account gets a fresh budget, and the name of the period a moment lies in."""

from datetime import datetime
from enum import StrEnum
from typing import assert_never

from setwise.errors import InvalidParameter


class Period(StrEnum):
    """How long a budget lasts, in UTC.

    >>> from datetime import UTC
    >>> Period.MONTH.of(datetime(2026, 11, 15, tzinfo=UTC)), Period.WEEK.of(datetime(2026, 11, 15, tzinfo=UTC))
    ('2026-11', '2026-W46')
    """

    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"

    def of(self, moment: datetime) -> str:
        """Return the name of the period; names of one kind sort as time does."""
        match self:
            case Period.DAY:
                return f"{moment:%Y-%m-%d}"
            case Period.WEEK:
                year, week, _ = moment.isocalendar()
                return f"{year:04d}-W{week:02d}"
            case Period.MONTH:
                return f"{moment:%Y-%m}"
            case Period.QUARTER:
                return f"{moment.year:04d}-Q{(moment.month + 2) // 3}"
            case Period.YEAR:
                return f"{moment.year:04d}"
            case _:
                assert_never(self)


WHOLE_LIFE = ""
"""The name of the only period of an account without periods."""


def parse_period(value: "str | Period | None") -> Period | None:
    """Return the period of that name, None for an account without periods, or raise `InvalidParameter`."""
    if value is None:
        return None
    try:
        return Period(value)
    except ValueError:
        raise InvalidParameter(f"period must be one of {', '.join(Period)}, not {value!r}") from None


def period_id(period: Period | None, moment: datetime) -> str:
    """Return the name of the period that a moment lies in; empty for an account without periods."""
    return WHOLE_LIFE if period is None else period.of(moment)
