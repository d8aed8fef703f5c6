"""Tables of events and series on them."""

from datetime import date, datetime, timedelta

import pyarrow as pa
import pytest

from setwise.ledger.ledger import Ledger
from setwise.live.series import open_live

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


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(str(tmp_path / "ledger.db")) as opened:
        yield opened


@pytest.fixture
def opened(ledger, tmp_path):
    """Open a series whose table is given with every update."""

    def make(name="reach", **words):
        schema = words.pop("schema", None)
        words = {
            "user": "user",
            "item": "item",
            "at": "at",
            "every": "day",
            "start": START,
            "periods": 8,
            "contributions": 2,
            "epsilon": 20.0,
            "delta": 1e-3,
            "state": str(tmp_path / f"{name}.live.db"),
            **words,
        }
        if schema is None:
            from setwise.analytics.engines.connect import open_engine

            with open_engine(events([("a", "x", 0)])) as engine:
                schema = engine.describe()
        return open_live(words.pop("ledger", ledger), name, "events", schema=schema, **words)

    return make
