"""Every engine returns the exact bounded histogram of the plain Python reference where nothing is left to chance."""

import pyarrow as pa
import pytest

from setwise.analytics.bins import parse_group
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.query import EVERYTHING
from setwise.analytics.schema import Kind
from setwise.errors import InvalidParameter, UnknownColumn, UnsuitableTable
from tests.analytics.engines.backends import Backend
from tests.analytics.engines.reference import as_dict, contributions, exact, ranked
from tests.analytics.engines.tables import mixed

TABLE = mixed()
ODD = 'od"d %s ;--'
PLAIN = [
    Aggregation(user="user_id", item="word"),
    Aggregation(user="user_id", item="word", per_item=3),
    Aggregation(user="user_id", item="word", contributions=50, per_item=2, null_item="none"),
    Aggregation(user="user_id", item="word", contributions=50, null_item="a"),
    Aggregation(user="user name", item=ODD, per_item=4),
    Aggregation(user="user name", item=ODD, null_item=-5, contributions=10),
    Aggregation(user="user name", item="day", per_item=2**40),
    Aggregation(user="user name", item="flag", per_item=100),
    Aggregation(user=ODD, item="word", per_item=7),
    Aggregation(user="day", item="flag", per_item=3),
    Aggregation(user="price", item="small", per_item=3),
    Aggregation(user="user_id", item="word", value="amount", per_item=4),
    Aggregation(user="user_id", item="word", value="amount", per_item=2**40, contributions=100),
    Aggregation(user="user_id", item="small", value="small", per_item=9),
    Aggregation(user="user_id", item="word", domain=("a|b", "|", "", "missing", "\U0001f600", "nul\0"), per_item=2),
    Aggregation(user="user_id", item="word", domain=("a", "none"), null_item="none", contributions=2),
    Aggregation(user="user name", item=ODD, domain=(3, 2**63 - 1, 2**70, 17), contributions=3),
    Aggregation(user="user_id"),
    Aggregation(user="user_id", per_item=10),
    Aggregation(user="user_id", value="amount", per_item=1000),
    Aggregation(user="user_id", item="word", domain=()),
]


@pytest.fixture
def engine(backend: Backend):
    with backend.engine(TABLE) as opened:
        yield opened


def test_exact_histograms_agree_with_the_reference(engine):
    for number, aggregation in enumerate(PLAIN):
        wanted = exact(TABLE, aggregation)
        found = engine.histogram(aggregation)
        assert as_dict(found.labels, found.counts) == wanted, aggregation
        assert found.counts.dtype == "int64"
        if number % 3 == 0:
            top = engine.top(aggregation, 4)
            assert list(zip(top.labels, top.counts.tolist(), strict=True)) == ranked(wanted, 4), aggregation


def test_the_pairs_of_users_and_groups_are_those_of_the_rows(engine):
    where = parse_filter("small >= 0", engine.describe())
    aggregation = Aggregation(user="user_id", item=("word", parse_group("day by day")), where=where)
    found = engine.user_groups(aggregation).to_pydict()
    pairs = list(zip(found["u"], found["g0"], found["g1"], strict=True))
    rows = TABLE.to_pylist()
    kept = [row for row in rows if row["small"] is not None and row["small"] >= 0]
    wanted = {
        (str(row["user_id"]), row["word"], row["day"].isoformat())
        for row in kept
        if None not in (row["user_id"], row["word"], row["day"])
    }
    assert len(pairs) == len(set(pairs))
    assert set(pairs) == wanted


def test_filters_come_before_bounding(engine):
    where = parse_filter("small >= 0 AND flag = true", engine.describe())
    aggregation = Aggregation(user="user_id", item="word", contributions=17, per_item=2, where=where)
    found = engine.histogram(aggregation)
    assert as_dict(found.labels, found.counts) == exact(TABLE, aggregation)


def test_sampled_histograms_keep_within_both_bounds(engine):
    for bound in (1, 3):
        aggregation = Aggregation(user="user_id", item="word", contributions=bound, per_item=2)
        every = contributions(TABLE, aggregation)
        found = engine.histogram(aggregation)
        counts = as_dict(found.labels, found.counts)
        assert sum(counts.values()) <= sum(
            sum(sorted((min(n, 2) for n in items.values()), reverse=True)[:bound]) for items in every.values()
        )
        assert sum(counts.values()) >= sum(
            sum(sorted(min(n, 2) for n in items.values())[:bound]) for items in every.values()
        )
        for item, count in counts.items():
            assert count <= sum(min(items.get(item, 0), 2) for items in every.values())


def test_one_item_per_user_of_many(backend):
    rows = 3000
    table = pa.table({"u": [f"u{n % 10}" for n in range(rows)], "i": [f"{n}" for n in range(rows)]})
    with backend.engine(table) as engine:
        for bound in (1, 7):
            found = engine.histogram(Aggregation(user="u", item="i", contributions=bound, per_item=5))
            assert found.counts.tolist() == [1] * (10 * bound)
            owners = [int(label) % 10 for label in found.labels]
            assert sorted(owners) == sorted(list(range(10)) * bound)


def test_kinds_are_the_same_everywhere(engine):
    assert [(column.name, column.kind) for column in engine.describe()] == [
        ("user_id", Kind.INTEGER),
        ("user name", Kind.TEXT),
        ("word", Kind.TEXT),
        (ODD, Kind.INTEGER),
        ("amount", Kind.INTEGER),
        ("small", Kind.INTEGER),
        ("flag", Kind.BOOLEAN),
        ("day", Kind.DATE),
        ("share", Kind.FLOAT),
        ("price", Kind.DECIMAL),
    ]
    price = engine.describe().column("price")
    assert (price.precision, price.scale) == (9, 2)


NAMES = "'user_id', 'user name', 'word', 'od\"d %s ;--', 'amount', 'small', 'flag', 'day', 'share', 'price'"


@pytest.mark.parametrize(
    ("asked", "error", "sentence"),
    [
        ({"user": "nobody"}, UnknownColumn, f"the table has no column 'nobody'; it has {NAMES}"),
        ({"item": "nothing"}, UnknownColumn, f"the table has no column 'nothing'; it has {NAMES}"),
        ({"value": "nothing"}, UnknownColumn, f"the table has no column 'nothing'; it has {NAMES}"),
        (
            {"user": "share"},
            UnsuitableTable,
            "column 'share' cannot tell users apart, because it holds floating-point numbers: "
            "convert it to integers or text",
        ),
        (
            {"item": "share"},
            UnsuitableTable,
            "column 'share' cannot be grouped by, because it holds float values: group by its integers or bins: "
            "in SQL, GROUP BY CAST(ROUND(share) AS INT64) or FLOOR(share / 0.5) * 0.5",
        ),
        (
            {"value": "share"},
            UnsuitableTable,
            "column 'share' cannot be summed exactly, because it holds float values: "
            "round or scale it to an integer column",
        ),
        (
            {"value": "price"},
            UnsuitableTable,
            "column 'price' cannot be summed exactly, because it holds decimal values: "
            "round or scale it to an integer column",
        ),
        (
            {"domain": (1, 2)},
            InvalidParameter,
            "column 'word' has labels that are text, but the domain has 1",
        ),
        (
            {"item": "small", "null_item": "none"},
            InvalidParameter,
            "column 'small' has labels that are whole numbers, but the label of missing items has 'none'",
        ),
    ],
)
def test_bad_columns_give_the_same_sentence(engine, asked, error, sentence):
    aggregation = Aggregation(**{"user": "user_id", "item": "word", **asked})
    # `check` is asked before a charge, so what is wrong must be known to it and not only to those that read.
    for call in (
        lambda: engine.check(aggregation),
        lambda: engine.histogram(aggregation),
        lambda: engine.top(aggregation, 3),
    ):
        with pytest.raises(error) as raised:
            call()
        assert str(raised.value) == sentence


def test_empty_tables_and_absent_users_are_answered_like_any_other(backend):
    columns = {"u": pa.int64(), "t": pa.string(), "i": pa.string(), "v": pa.int64()}
    empty = pa.table({name: pa.array([], kind) for name, kind in columns.items()})
    absent = pa.table(
        {
            "u": pa.array([None] * 3, pa.int64()),
            "t": pa.array([None] * 3, pa.string()),
            "i": ["a", "b", None],
            "v": [1] * 3,
        }
    )
    for table in (empty, absent):
        with backend.engine(table) as engine:
            for user in ("u", "t"):
                for item, value, bound in (("i", None, 2), ("i", "v", None), (None, None, None), (None, "v", 1)):
                    aggregation = Aggregation(user=user, item=item, value=value, contributions=bound)
                    assert len(engine.histogram(aggregation)) == 0
                    assert len(engine.top(aggregation, 5)) == 0


def test_the_one_group_has_a_name(engine):
    assert engine.histogram(Aggregation(user="user_id")).labels == (EVERYTHING,)
