"""One user, however many rows they have, moves at most so many counts by at most so much."""

import numpy as np
import pyarrow as pa
import pytest

from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.joins import Join, Key
from setwise.analytics.session import Session
from setwise.analytics.sql.parser import parse_sql
from setwise.mechanisms.randomness import SystemRandomness
from tests.analytics.engines.backends import Backend, JoinedTables
from tests.analytics.engines.reference import as_dict
from tests.analytics.engines.test_row_expressions import derived
from tests.analytics.recorded import RecordedEngine

CROWD = 60


def crowd(seed: int) -> pa.Table:
    generator = np.random.default_rng(seed)
    rows = 2000
    return pa.table(
        {
            "u": [f"user {n}" for n in generator.integers(CROWD, size=rows)],
            "i": [f"item {n}" for n in np.minimum(generator.geometric(0.05, size=rows), 80)],
            "v": generator.integers(-5, 20, size=rows),
        }
    )


def heavy(rows: int, items: int) -> pa.Table:
    """Return thousands of rows of one user, under names that come from the crowd's items and beyond them."""
    return pa.table(
        {
            "u": ["the one"] * rows,
            "i": [f"item {n % items}" for n in range(rows)],
            "v": np.array([2**62 if n % 7 else -3 for n in range(rows)]),
        }
    )


AGGREGATIONS = [
    Aggregation(user="u", item="i", contributions=3, per_item=1),
    Aggregation(user="u", item="i", contributions=1, per_item=4),
    Aggregation(user="u", item="i", contributions=8, per_item=5, value="v"),
    Aggregation(user="u", item="i", contributions=None, per_item=2),
    Aggregation(user="u", item=None, per_item=3),
    Aggregation(user="u", item=None, per_item=9, value="v"),
    Aggregation(user="u", item="i", contributions=2, domain=("item 1", "item 2", "item 3", "item 100")),
]


@pytest.mark.parametrize("items", [3, 150])
def test_one_heavy_user_moves_no_more_than_the_bounds_allow(backend: Backend, items: int):
    without = crowd(1)
    with_one = pa.concat_tables([without, heavy(4000, items)])
    shuffled = with_one.take(np.random.default_rng(2).permutation(len(with_one)))
    for salt, aggregation in enumerate(AGGREGATIONS):
        histograms = []
        for table in (without, shuffled):
            with backend.engine(table, salts=lambda salt=salt: salt * 7919) as engine:
                found = engine.histogram(aggregation)
                histograms.append(as_dict(found.labels, found.counts))
        most = 1 if aggregation.item is None else aggregation.contributions or items
        _moves(histograms, most, aggregation.per_item)


def test_what_a_session_on_a_join_hands_to_its_mechanism_moves_no_more(backend: Backend):
    """The join gives the heavy user three rows for one."""
    without = crowd(3)
    with_one = pa.concat_tables([heavy(1000, 150), without])
    kinds = pa.table({"i": [f"item {n % 150}" for n in range(450)], "kind": [f"kind {n % 40}" for n in range(450)]})
    join = Join(table="kinds", keys=(Key(column="i", joined="i"),))
    reached: list[list[dict[str | int, int]]] = [[], [], []]
    for table in (without, with_one):
        tables = JoinedTables({"events": table, "kinds": kinds}, [join], "u")
        engine = RecordedEngine(backend.joined(tables, salts=lambda: 271828))
        with Session(engine, user="u", name="events", randomness=SystemRandomness()) as session:
            session.histogram(item="kind", contributions=3, per_item=2, epsilon=1.0, delta=1e-6)
            session.top_k(item="kind", k=5, contributions=3, epsilon=1.0, delta=1e-6, limit=10**4)
            session.sum(value="v", clip=6, epsilon=1.0)
        for place, found in enumerate(engine.read):
            reached[place].append(as_dict(found.labels, found.counts))
    for histograms, (most, by) in zip(reached, [(3, 2), (3, 1), (1, 6)], strict=True):
        _moves(histograms, most, by)


def _moves(histograms: list[dict[str | int, int]], most: int, by: int) -> None:
    before, after = histograms
    moved = [after.get(label, 0) - before.get(label, 0) for label in before.keys() | after.keys()]
    changes = [change for change in moved if change]
    assert 0 < len(changes) <= most
    assert all(0 < change <= by for change in changes)


def test_what_a_session_hands_to_its_mechanism_moves_no_more(backend: Backend):
    without = crowd(3)
    with_one = pa.concat_tables([heavy(4000, 150), without])
    reached: list[list[dict[str | int, int]]] = [[], [], [], []]
    for table in (without, with_one):
        engine = RecordedEngine(backend.engine(table, salts=lambda: 271828))
        with Session(engine, user="u", name="events", randomness=SystemRandomness()) as session:
            session.histogram(item="i", contributions=3, per_item=2, epsilon=1.0, delta=1e-6)
            session.top_k(item="i", k=5, contributions=3, epsilon=1.0, delta=1e-6, limit=10**4)
            session.count(per_user=4, epsilon=1.0)
            session.sum(value="v", clip=6, epsilon=1.0)
        for place, found in enumerate(engine.read):
            reached[place].append(as_dict(found.labels, found.counts))
    for histograms, (most, by) in zip(reached, [(3, 2), (3, 1), (1, 4), (1, 6)], strict=True):
        _moves(histograms, most, by)


ABOUT_USERS = [
    "SELECT u, i, v, ROW_NUMBER() OVER (PARTITION BY u ORDER BY v DESC) AS n FROM events",
    "SELECT u, i, v FROM events e WHERE v >= (SELECT MIN(f.v) FROM events f WHERE f.u = e.u AND f.i = e.i)",
    "SELECT u, i, v FROM events WHERE u IN (SELECT u FROM events GROUP BY u HAVING COUNT(*) > 20)",
    "SELECT e.u, e.i, f.v FROM events e JOIN events f ON e.u = f.u AND f.v > 3",
]


def test_what_a_session_on_rows_about_users_hands_to_its_mechanism_moves_no_more(backend: Backend):
    """Windows, correlated subqueries and joins of a user's rows; the last gives the heavy user 900 rows for one."""
    without = crowd(3)
    with_one = pa.concat_tables([heavy(900, 60), without])
    for text in ABOUT_USERS[:: 3 if backend.name in ("spark", "delta", "iceberg") else 1]:
        statement = parse_sql(f"SELECT COUNT(*) FROM ({text}) AS t", user="u", columns=("u", "i", "v"))
        reached: list[list[dict[str | int, int]]] = [[], []]
        for table in (without, with_one):
            engine = RecordedEngine(derived(backend, table, statement.cores[0].source.derivation))
            engine._engine._salts = lambda: 271828
            with Session(engine, user="u", name="events", randomness=SystemRandomness()) as session:
                session.histogram(item="i", contributions=3, per_item=2, epsilon=1.0, delta=1e-6)
                session.sum(value="v", clip=6, epsilon=1.0)
            for place, found in enumerate(engine.read):
                reached[place].append(as_dict(found.labels, found.counts))
        for histograms, (most, by) in zip(reached, [(3, 2), (1, 6)], strict=True):
            _moves(histograms, most, by)
