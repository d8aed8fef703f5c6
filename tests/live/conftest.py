"""Series on tables of events."""

import pytest
from tests.live.streams import START, events

from setwise.ledger.ledger import Ledger
from setwise.live.series import open_live


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
