"""Tables of events, and the days they fall on."""

from datetime import date, datetime, timedelta

import pyarrow as pa

START = date(2026, 1, 1)
TODAY = date(2026, 6, 1)


def events(rows):
    """A table of (user, item, day) events; a day is counted from the first one, and may be negative."""
    moments = [
        datetime(2026, 1, 1, 9) + timedelta(days=day, minutes=place % 600) for place, (_, _, day) in enumerate(rows)
    ]
    return pa.table(
        {
            "user": pa.array([user for user, _, _ in rows], pa.string()),
            "item": pa.array([item for _, item, _ in rows], pa.string()),
            "at": pa.array(moments, pa.timestamp("us")),
        }
    )


def day(place):
    return (START + timedelta(days=place)).isoformat()
