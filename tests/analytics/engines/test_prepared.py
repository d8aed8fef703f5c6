"""A prepared dataset answers like its source, for any bounds, until the source changes."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.filter.parser import parse_filter
from setwise.errors import InvalidFilter, InvalidParameter, UnsuitableTable
from tests.analytics.engines.backends import Backend
from tests.analytics.engines.conftest import open_backend
from tests.analytics.engines.reference import as_dict, contributions, exact, ranked
from tests.analytics.engines.tables import mixed

TABLE = mixed(rows=400)


@pytest.fixture(params=["duckdb", "postgresql", "clickhouse", "spark"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    """Return a backend; a prepared lake table belongs to its version and is tested with object stores."""
    return open_backend(request.param, request, tmp_path)


@pytest.mark.parametrize(
    ("columns", "where"),
    [
        ({"user": "user_id", "item": "word", "null_item": "none"}, None),
        ({"user": "user name", "item": 'od"d %s ;--'}, "small >= 0"),
        ({"user": "user_id", "item": "day", "value": "amount"}, None),
    ],
)
def test_any_bounds_are_answered_as_from_the_source(backend: Backend, columns: dict[str, str], where: str | None):
    with backend.stored(TABLE) as source:
        chosen = None if where is None else parse_filter(where, source.describe())
        source.prepare(**columns, where=chosen, destination=backend.destination())
        with backend.reopened(backend.destination()) as engine:
            for bounds in ({}, {"contributions": 100, "per_item": 3}, {"per_item": 2**40}):
                found = engine.histogram(Aggregation(**columns, **bounds))
                wanted = exact(TABLE, Aggregation(**columns, **bounds, where=chosen))
                assert as_dict(found.labels, found.counts) == wanted
                top = engine.top(Aggregation(**columns, **bounds), 3)
                assert list(zip(top.labels, top.counts.tolist(), strict=True)) == ranked(wanted, 3)
            every = contributions(TABLE, Aggregation(**columns, where=chosen)).values()
            for bound in (1, 2, 5):
                found = engine.histogram(Aggregation(**columns, contributions=bound))
                assert int(found.counts.sum()) == sum(min(bound, len(items)) for items in every)
            some = sorted(wanted)[:2]
            within = engine.histogram(Aggregation(**columns, domain=tuple(some)))
            assert set(within.labels) <= set(some)


@pytest.mark.parametrize(("user", "item"), [("users", "item"), ("rank", "n"), ("u", "users")])
def test_columns_may_have_the_names_of_the_stored_ones(backend: Backend, user: str, item: str):
    """A dataset whose groups are called `item` was not answered: of its stored columns only that one was read."""
    table = pa.table({user: [n // 3 for n in range(300)], item: [f"{n % 3}" for n in range(300)]})
    with backend.stored(table) as source:
        source.prepare(user=user, item=item, destination=backend.destination())
        with backend.reopened(backend.destination()) as engine:
            found = engine.histogram(Aggregation(user=user, item=item, contributions=3))
            assert as_dict(found.labels, found.counts) == {"0": 100, "1": 100, "2": 100}


def test_more_contributions_keep_all_that_fewer_kept(backend: Backend):
    table = pa.table({"u": [n // 9 for n in range(900)], "i": [f"{n}" for n in range(900)]})
    with backend.stored(table) as source:
        source.prepare(user="u", item="i", destination=backend.destination())
        with backend.reopened(backend.destination()) as engine:
            one, three = (
                set(engine.histogram(Aggregation(user="u", item="i", contributions=n)).labels) for n in (1, 3)
            )
    assert one < three
    assert (len(one), len(three)) == (100, 300)


def test_sums_of_equal_lines_are_exact(backend: Backend):
    large = 2**61 + 12345
    table = pa.table({"u": [1, 2, 3, 4, 5], "i": ["a", "a", "a", "b", "c"], "v": [large, large, large, large, 7]})
    columns = {"user": "u", "item": "i", "value": "v"}
    with backend.stored(table) as source:
        source.prepare(**columns, destination=backend.destination())
        with backend.reopened(backend.destination()) as engine:
            for bound in (2**40, 2**40 - 1, 2):
                found = engine.histogram(Aggregation(**columns, contributions=1, per_item=bound))
                least = min(large, bound)
                wanted = {"a": 3 * least, "b": least, "c": min(7, bound)}
                assert as_dict(found.labels, found.counts) == wanted


def test_equal_lines_are_stored_once(tmp_path: Path):
    table = pa.table({"u": [n // 2 for n in range(2000)], "i": [n % 2 for n in range(2000)]})
    pq.write_table(table, tmp_path / "source.parquet")
    with open_engine(tmp_path / "source.parquet") as source:
        source.prepare(user="u", item="i", destination=tmp_path / "prepared")
    stored = pq.read_table(tmp_path / "prepared" / "contributions.parquet")
    assert stored.column_names == ["item", "n", "rank", "users"]
    assert stored.num_rows == 4
    assert stored.column("rank").to_pylist() == [1, 1, 2, 2]
    assert sum(stored.column("users").to_pylist()) == 2000


def test_a_changed_source_is_refused_until_prepared_again(backend: Backend):
    columns = {"user": "user_id", "item": "word"}
    with backend.stored(TABLE) as source:
        source.prepare(**columns, destination=backend.destination())
        with backend.reopened(backend.destination()) as engine:
            assert len(engine.histogram(Aggregation(**columns)))
            backend.grow(source)
            for call in (engine.check, engine.histogram):
                with pytest.raises(UnsuitableTable, match="changed since the dataset was prepared: prepare it again"):
                    call(Aggregation(**columns))
    with backend.reopened(source.origin()[0]) as again:
        again.prepare(**columns, destination=backend.destination())
    with backend.reopened(backend.destination()) as engine:
        assert len(engine.histogram(Aggregation(**columns)))


def test_other_questions_are_refused(backend: Backend):
    with backend.stored(TABLE) as source:
        where = parse_filter("word = 'a'", source.describe())
        source.prepare(user="user_id", item="word", destination=backend.destination())
        with backend.reopened(backend.destination()) as engine:
            assert engine.describe().names == ("user_id", "word")
            for asked in ({"null_item": "none"}, {"item": None}, {"item": "user_id"}):
                with pytest.raises(UnsuitableTable, match="prepared for users 'user_id' and items 'word'"):
                    engine.check(Aggregation(**{"user": "user_id", "item": "word", **asked}))
            with pytest.raises(InvalidFilter, match="takes no filter"):
                engine.histogram(Aggregation(user="user_id", item="word", where=where))
            with pytest.raises(UnsuitableTable, match="cannot be prepared again"):
                engine.prepare(user="user_id", item="word", destination=backend.destination())


def test_nothing_else_is_overwritten(backend: Backend):
    with backend.stored(TABLE) as source:
        taken = source.origin()[0]
        if backend.name == "spark":
            taken = "plain_" + backend.destination()
            backend.session.sql(f"CREATE TABLE {taken} (x INT) USING parquet")
        with pytest.raises(InvalidParameter, match="exists and is not a prepared dataset"):
            source.prepare(user="user_id", item="word", destination=taken)
