"""The real DuckDB engine with a notebook beside it, and a small table to ask."""

from contextlib import contextmanager

import pyarrow as pa

from setwise.analytics.engines.connect import open_engine
from setwise.analytics.session import Session
from setwise.errors import EngineFailed
from setwise.mechanisms.randomness import SystemRandomness

OPENED = []
"""Engines to close after the test."""


class RecordedRounds:
    """Remembers what each round of a discovery read."""

    def __init__(self, engine, weights):
        self._engine = engine
        self._weights = weights

    def read(self, found):
        return self._engine._noted(("round", len(found)), lambda: self._weights.read(found))


class RecordedEngine:
    """Passes everything on to an engine and remembers, in order, which calls read rows and what they gave."""

    def __init__(self, engine, events=None):
        OPENED.append(engine)
        self._engine = engine
        self.events = [] if events is None else events
        self.read = []
        self.failing = False

    def describe(self):
        return self._engine.describe()

    def rows(self):
        return self._engine.rows()

    def check(self, aggregation):
        self._engine.check(aggregation)

    def histogram(self, aggregation):
        return self._noted(("histogram", None), lambda: self._engine.histogram(aggregation))

    def top(self, aggregation, most):
        return self._noted(("top", most), lambda: self._engine.top(aggregation, most))

    def statistics(self, aggregation):
        return self._noted(("statistics", None), lambda: self._engine.statistics(aggregation))

    @contextmanager
    def group_weights(self, aggregation):
        with self._engine.group_weights(aggregation) as weights:
            yield RecordedRounds(self, weights)

    def cancel(self):
        self._engine.cancel()

    def close(self):
        self._engine.close()

    def _noted(self, event, work):
        self.events.append(event)
        if self.failing:
            raise EngineFailed("the disk is full")
        self.read.append(work())
        return self.read[-1]


def visits(users=2000):
    """Users 0, 1, ...: each sees "home", every second one "help" too, every tenth one page of its own, three times."""
    rows = [(user, page, 5) for user in range(users) for page in ("home", *(("help",) if user % 2 else ()))]
    rows += [(user, f"page {user}", 7) for user in range(0, users, 10) for _ in range(3)]
    who, page, minutes = zip(*rows, strict=True)
    return pa.table({"who": who, "page": page, "minutes": minutes, "share": [0.5] * len(rows)})


def recorded_session(table=None, *, account=None, events=None):
    engine = RecordedEngine(open_engine(visits() if table is None else table), events)
    return engine, Session(engine, user="who", name="visits", randomness=SystemRandomness(), account=account)
