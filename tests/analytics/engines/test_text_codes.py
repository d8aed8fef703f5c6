"""Texts that are sorted as the hashes they have: the same histograms and measures, and no collision merges anybody."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from setwise.analytics.bins import ConsecutiveTime, Group, TimeUnit
from setwise.analytics.engines import bounding
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.base import Engine
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.engines.duckdb import engine as engine_module
from setwise.analytics.engines.duckdb import query, text_codes
from setwise.analytics.engines.duckdb.dialect import DuckDBDialect
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.measure import Measure

MEASURES = (
    Measure(most=3),
    Measure(column="x", averaged=True, step=Fraction(1, 2), most=20, in_cells=True),
    Measure(column="x", most=30),
)
ALL_KEPT = 1000
"""More items than any user has: nothing is left to chance, yet the window runs."""


def events(users: int = 60) -> pa.Table:
    generator = np.random.default_rng(8)
    rows = 1_500
    item = pa.array([f"item {n}" for n in generator.integers(40, size=rows)], mask=generator.random(rows) < 0.1)
    return pa.table(
        {
            "u": [f"user {n}" for n in generator.integers(users, size=rows)],
            "i": item,
            "plan": generator.integers(3, size=rows),
            "day": pa.array(generator.integers(0, 60, size=rows).astype(np.int32), pa.date32()),
            "x": generator.integers(9, size=rows),
        }
    )


def asked(engine: Engine) -> list[Aggregation]:
    kept = {"user": "u", "contributions": ALL_KEPT, "measures": MEASURES}
    where = parse_filter("x > 1 AND i <> 'item 3'", engine.describe())
    domain = tuple(f"item {n}" for n in range(0, 40, 2))
    month = Group("day", ConsecutiveTime(TimeUnit.MONTH))
    return [
        Aggregation(item="i", **kept),
        Aggregation(item="i", per_item=3, where=where, domain=domain, null_item="?", **kept),
        Aggregation(item="i", per_item=50, value="x", **kept),
        Aggregation(item=("plan", "i", month), **kept),
        Aggregation(item="day", **{**kept, "user": "x"}),
        Aggregation(item="plan", pooled=True, **kept),
    ]


def answers(engine: Engine, aggregation: Aggregation) -> object:
    """Return all that an engine says, in an order of its own."""
    found, top = engine.histogram(aggregation), engine.top(aggregation, 7)
    counted = dict(zip(found.labels, found.counts.tolist(), strict=True))
    table = engine.statistics(aggregation)
    users = dict(zip(table.users.labels, table.users.counts.tolist(), strict=True))
    cells = [{label: each[label].tolist() for label in users} for each in table.cells]
    return counted, top.labels, top.counts.tolist(), users, table.totals, table.numbers, cells


def in_memory(table: pa.Table, folder: Path) -> Engine:
    del folder
    return open_engine(table)


def in_a_file(table: pa.Table, folder: Path) -> Engine:
    pq.write_table(table, folder / "events.parquet")
    return open_engine(folder / "events.parquet")


def with_broken_text(table: pa.Table, folder: Path) -> Engine:
    """Return a file that DuckDB cannot read by itself, and that is read through Arrow: good for one pass."""
    items = [None if item is None else item.encode() for item in table.column("i").to_pylist()]
    broken = pa.array([*items[:-1], b"\xff"], pa.binary()).view(pa.string())
    return in_a_file(table.set_column(1, "i", broken), folder)


@pytest.mark.parametrize(("opened", "parts"), [(in_memory, 3), (in_a_file, 1), (with_broken_text, 1)])
def test_codes_change_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: Callable[[pa.Table, Path], Engine], parts: int
):
    if parts > 1:
        monkeypatch.setattr(engine_module, "PAIR_BYTES", 2**50)
        monkeypatch.setattr(engine_module, "MOST_PARTITIONS", parts)
    with opened(events(), tmp_path) as engine:
        for aggregation in asked(engine):
            found = []
            for small, repeated in ((10**9, 2.0), (0, 0.0), (0, 1e9)):
                monkeypatch.setattr(query, "UNPROBED_ROWS", small)
                monkeypatch.setattr(bounding, "MOST_ROWS_PER_PAIR", repeated)
                found.append(answers(engine, aggregation))
            assert found[0] == found[1] == found[2]


def test_both_forms_of_codes_keep_the_same(monkeypatch: pytest.MonkeyPatch):
    with open_engine(events()) as engine:
        engine._salts = lambda: 12345
        found = []
        for repeated in (0.0, 1e9):
            monkeypatch.setattr(bounding, "MOST_ROWS_PER_PAIR", repeated)
            histogram = engine.histogram(Aggregation(user="u", item="i", contributions=3))
            found.append(dict(zip(histogram.labels, histogram.counts.tolist(), strict=True)))
        measured = engine.statistics(Aggregation(user="u", item="i", contributions=3, measures=MEASURES)).users
    assert found[0] == found[1] == dict(zip(measured.labels, measured.counts.tolist(), strict=True))
    assert sum(found[0].values()) == 3 * 60


@pytest.mark.parametrize("ranks", ["hashed", "all equal"])
def test_users_keep_the_same_items_whether_hashes_stand_for_texts_or_not(monkeypatch: pytest.MonkeyPatch, ranks: str):
    """Were it otherwise, a user whose text collides with another's would change what everybody keeps."""
    rank_hash = DuckDBDialect.rank_hash
    if ranks == "all equal":

        def equal(self: DuckDBDialect, user: str, labels: list[str], salt: str) -> str:
            return f"CAST({salt} AS UBIGINT)" + rank_hash(self, user, labels, salt).partition("UBIGINT)))")[2]

        monkeypatch.setattr(DuckDBDialect, "rank_hash", equal)
    month = Group("day", ConsecutiveTime(TimeUnit.MONTH))
    with open_engine(events()) as engine:
        engine._salts = lambda: 12345
        for asked in (
            {"user": "u", "item": "i"},
            {"user": "u", "item": ("plan", "i", month)},
            {"user": "plan", "item": "i"},
        ):
            aggregation = Aggregation(**asked, contributions=3, measures=MEASURES)
            found = []
            for small, differ in ((10**9, True), (0, True), (0, False)):
                monkeypatch.setattr(query, "UNPROBED_ROWS", small)
                monkeypatch.setattr(text_codes.TextCodes, "_differ", lambda *_, differ=differ: differ)
                engine._hashes = text_codes.DistinctHashes(())
                found.append(answers(engine, aggregation))
            assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("colliding", ["u", "g0"])
def test_hashes_that_collide_merge_nobody(monkeypatch: pytest.MonkeyPatch, colliding: str):
    with open_engine(events()) as engine:
        aggregation = Aggregation(user="u", item="i", contributions=3, measures=MEASURES)
        everything = Aggregation(user="u", item="i", contributions=ALL_KEPT, measures=MEASURES)
        wanted = answers(engine, everything)
        monkeypatch.setattr(
            text_codes, "_hash_sql", lambda name: f"hash({name}) % 20" if name == colliding else f"hash({name})"
        )
        engine._hashes = text_codes.DistinctHashes(())
        assert answers(engine, everything) == wanted
        assert int(engine.histogram(aggregation).counts.sum()) == 3 * 60


def test_users_are_looked_at_once_until_their_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    looked = []
    differ = text_codes.TextCodes.users_differ
    monkeypatch.setattr(
        text_codes.TextCodes, "users_differ", lambda *given: looked.append(differ(*given)) or looked[-1]
    )
    aggregation = Aggregation(user="u", item="i", contributions=3)
    with in_a_file(events(), tmp_path) as engine:
        for _ in range(2):
            engine.histogram(aggregation)
        assert looked == [True]
        pq.write_table(events(users=61), tmp_path / "events.parquet")
        engine.histogram(aggregation)
    assert looked == [True, True]


def test_few_rows_and_texts_that_no_window_sorts_are_left_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(text_codes.TextCodes, "encode", lambda *_: pytest.fail("texts were numbered"))
    with open_engine(events()) as engine:
        engine.histogram(Aggregation(user="u", item="i"))
        engine.histogram(Aggregation(user="x", item="plan", contributions=2))
        monkeypatch.undo()
        monkeypatch.setattr(query, "UNPROBED_ROWS", 1_500)
        monkeypatch.setattr(text_codes.TextCodes, "encode", lambda *_: pytest.fail("texts were numbered"))
        engine.histogram(Aggregation(user="u", item="i", contributions=2))
