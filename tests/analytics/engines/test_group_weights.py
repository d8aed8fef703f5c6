"""The sums of rounds of discovery: exact on every engine, over the groups not found yet, and within bounds."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from setwise.analytics.bins import Group, group_of
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.base import Engine
from setwise.analytics.engines.bounding import StatementBuilder
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.query import Mean, Query
from setwise.analytics.session import Session
from setwise.errors import EngineFailed, UnsuitableTable
from setwise.mechanisms.planning.request import Total
from setwise.mechanisms.randomness import SystemRandomness
from setwise.mechanisms.weighted_rounds import (
    _MOST_ROOTS,
    MOST_GROUPS,
    USER_UNIT,
    WEIGHT_UNIT,
    user_root,
    user_share,
    user_weight,
)
from tests.analytics.engines.backends import Backend, PostgresqlBackend
from tests.analytics.engines.reference import contributions
from tests.analytics.engines.test_recorder import crowd
from tests.analytics.recorded import RecordedEngine
from tests.analytics.test_discovery import crowd as visitors


def plain(aggregation: Aggregation) -> Aggregation:
    return aggregation.for_discovery()


def expected(table: pa.Table, aggregation: Aggregation, found: tuple = ()) -> tuple[dict, int, int]:
    """The sums by their definition, for users with no more groups than they may keep."""
    weights, roots, shares = Counter(), 0, 0
    for items in contributions(table, aggregation).values():
        own = [item for item in items if item not in found]
        assert len(own) <= MOST_GROUPS
        for item in own:
            weights[item] += user_weight(len(own))
            roots, shares = roots + user_root(len(own)), shares + user_share(len(own))
    return dict(weights), roots, shares


def read(engine: Engine, aggregation: Aggregation, *rounds: tuple) -> list[tuple[dict, int, int]]:
    with engine.group_weights(plain(aggregation)) as reader:
        sums = [reader.read(found) for found in rounds]
    return [
        (dict(zip(each.weights.labels, each.weights.counts.tolist(), strict=True)), each.roots, each.shares)
        for each in sums
    ]


@pytest.mark.parametrize("value", [None, "v"])
def test_sums_are_exact_in_every_round(backend: Backend, value: str | None):
    table = crowd(5)
    aggregation = Aggregation(user="u", item="i", contributions=3, per_item=7, value=value)
    rounds = [(), ("item 1", "item 3"), ("item 1", "item 3", "item 2", "not there", "it's")]
    with backend.engine(table) as engine:
        assert read(engine, aggregation, *rounds) == [expected(table, aggregation, found) for found in rounds]


def test_a_later_round_can_come_first(backend: Backend):
    """A retry starts with the groups that earlier rounds found."""
    table = crowd(6)
    aggregation = Aggregation(user="u", item="i")
    with backend.engine(table) as engine:
        assert read(engine, aggregation, ("item 1", "item 2")) == [expected(table, aggregation, ("item 1", "item 2"))]


def test_rows_that_a_filter_leaves_out_have_no_weight(backend: Backend):
    table = crowd(8)
    with backend.engine(table) as engine:
        where = parse_filter("v >= 10 AND i <> 'item 4'", engine.describe())
        aggregation = Aggregation(user="u", item="i", where=where)
        rounds = [(), ("item 2",)]
        assert read(engine, aggregation, *rounds) == [expected(table, aggregation, found) for found in rounds]


def test_whole_numbers_missing_items_and_several_columns(backend: Backend):
    table = pa.table(
        {
            "u": pa.array([1, 1, 1, 2, 2, 3, 4, None], pa.int64()),
            "i": pa.array([5, None, -7, 5, 5, -7, None, 5], pa.int64()),
            "c": ["a", "b", "a", "a", "it's", "b", "c", "a"],
        }
    )
    with backend.engine(table) as engine:
        missing = Aggregation(user="u", item="i", null_item=0)
        assert read(engine, missing, (), (5, 0)) == [
            expected(table, missing),
            expected(table, missing, (5, 0)),
        ]
        both = Aggregation(user="u", item=("i", "c"))
        [(weights, roots, _), (fewer, _, _)] = read(engine, both, (), ((5, "a"),))
    assert weights == {
        (5, "a"): 2 * user_weight(2),
        (-7, "a"): user_weight(2),
        (5, "it's"): user_weight(2),
        (-7, "b"): user_weight(1),
    }
    assert roots == 4 * user_root(2) + USER_UNIT
    assert fewer == {(-7, "a"): WEIGHT_UNIT, (5, "it's"): WEIGHT_UNIT, (-7, "b"): WEIGHT_UNIT}


def test_an_empty_table_has_no_sums(backend: Backend):
    table = pa.table({"u": pa.array([], pa.string()), "i": pa.array([], pa.string())})
    with backend.engine(table) as engine:
        assert read(engine, Aggregation(user="u", item="i"), (), ("a",)) == [({}, 0, 0)] * 2


@pytest.mark.parametrize("found", [(), ("item 1", "item 2", "item 3")])
def test_one_heavy_user_moves_the_sums_by_norm_one(backend: Backend, found: tuple):
    """Given the salt and the groups found before, in every round, however many groups the user has."""
    without = crowd(1)
    heavy = pa.table({"u": ["the one"] * 700, "i": [f"item {n}" for n in range(700)], "v": np.ones(700, dtype=int)})
    with_one = pa.concat_tables([heavy, without])
    aggregation = Aggregation(user="u", item="i")
    sums = []
    for table in (without, with_one):
        with backend.engine(table, salts=lambda: 7919) as engine:
            sums.append(read(engine, aggregation, found)[0])
    (before, roots, shares), (after, more_roots, more_shares) = sums
    moves = {label: weight - before.get(label, 0) for label, weight in after.items()}
    assert set(before) <= set(after)
    assert 0 < sum(move**2 for move in moves.values()) <= WEIGHT_UNIT**2
    assert sum(move > 0 for move in moves.values()) <= MOST_GROUPS
    assert 0 < more_roots - roots <= _MOST_ROOTS
    assert 0 < more_shares - shares <= USER_UNIT
    alone = [weight for label, weight in after.items() if label not in before]
    assert all(weight <= user_weight(len(alone)) for weight in alone)


def test_a_group_may_be_a_bin(backend: Backend):
    table = pa.table({"u": [1, 1, 2, 3], "i": pa.array([1, 14, 17, 25], pa.int64())})
    with backend.engine(table) as engine:
        schema = engine.describe()
        group = group_of("i by 10", schema)
        assert isinstance(group, Group)
        [(weights, _, _), (later, _, _)] = read(engine, Aggregation(user="u", item=group), (), (10,))
    assert weights == {0: user_weight(2), 10: user_weight(2) + WEIGHT_UNIT, 20: WEIGHT_UNIT}
    assert later == {0: WEIGHT_UNIT, 20: WEIGHT_UNIT}


def test_a_prepared_dataset_has_no_weights(backend: Backend):
    with backend.stored(crowd(2)) as engine:
        destination = backend.destination()
        engine.prepare(user="u", item="i", destination=destination)
    with (
        backend.reopened(destination) as prepared,
        pytest.raises(UnsuitableTable, match="tell users apart"),
        prepared.group_weights(plain(Aggregation(user="u", item="i"))),
    ):
        pass


def test_a_failing_round_shows_nothing_of_the_driver(backend: Backend, monkeypatch: pytest.MonkeyPatch):
    with backend.engine(crowd(3)) as engine:
        monkeypatch.setattr(StatementBuilder, "weights", lambda *_: "SELECT g0 FROM nowhere")
        with (
            engine.group_weights(plain(Aggregation(user="u", item="i"))) as reader,
            pytest.raises(EngineFailed) as seen,
        ):
            reader.read(())
    assert seen.value.__cause__ is seen.value.__context__ is None
    assert "nowhere" not in str(seen.value)


def test_postgresql_reads_again_where_it_may_not_store_pairs(request, monkeypatch):
    from setwise.analytics.engines.postgresql import engine as postgresql

    monkeypatch.setattr(postgresql, "_MAY_STORE", "SELECT FALSE")
    backend = PostgresqlBackend(request.getfixturevalue("postgresql_server").schema())
    table, aggregation = crowd(7), Aggregation(user="u", item="i")
    with backend.engine(table) as engine:
        rounds = [(), ("item 1",), ("item 1", "item 2")]
        assert read(engine, aggregation, *rounds) == [expected(table, aggregation, found) for found in rounds]


def test_every_engine_answers_in_rounds(backend: Backend):
    engine = RecordedEngine(backend.engine(visitors()))
    with Session(engine, user="who", name="visits", randomness=SystemRandomness()) as session:
        answer = session.histogram(item="page", contributions=6, epsilon=4, delta=1e-6)
        counts = {item.label: item.count for item in answer.items}
        assert counts["home"] == pytest.approx(4000, abs=60)
        assert counts["help"] == pytest.approx(2000, abs=60)
        assert not [label for label in counts if str(label).startswith("own")]
        means = Query(statistics=(Mean(column="minutes", low=0, high=10),), item="page", contributions=6)
        answer = session.ask(means, Total(epsilon=4, delta=1e-6))
        values = {item.label: item.estimates[0].value for item in answer.items}
        assert values["home"] == pytest.approx(5.0, abs=0.5)
