"""What time it is: an argument, so that tests have a time of their own."""

from datetime import UTC, datetime, timedelta
from typing import Protocol

from setwise.errors import InvalidParameter

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    """Anything that tells the time."""

    def now(self) -> datetime:
        """Return the present moment, with its time zone."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """Return the present moment in UTC."""
        return datetime.now(UTC)


def microseconds(moment: datetime) -> int:
    """Return a moment as whole microseconds since 1970, UTC: how entries are stamped.

    >>> microseconds(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    1000000
    """
    if moment.tzinfo is None:
        raise InvalidParameter(f"a clock must tell its time zone, and {moment.isoformat()} has none")
    return (moment - _EPOCH) // _MICROSECOND


def moment_of(stamp: int) -> datetime:
    """Return the moment of a stamp, in UTC."""
    return _EPOCH + stamp * _MICROSECOND
