"""A clock that says what the test tells it."""

from datetime import UTC, datetime, timedelta


class ManualClock:
    """A clock that stands still until it is moved."""

    def __init__(self, moment: datetime = datetime(2026, 11, 15, 12, tzinfo=UTC)) -> None:
        self.moment = moment

    def now(self) -> datetime:
        return self.moment

    def move(self, **by: float) -> None:
        self.moment += timedelta(**by)
