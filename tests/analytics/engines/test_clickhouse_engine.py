"""What ClickHouse does otherwise than the other engines: its settings, its types, its text, its tables."""

import os
import subprocess
import sys
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import setwise
from setwise.analytics.bins import TimeUnit, parse_group
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.clickhouse.dialect import ClickHouseDialect
from setwise.analytics.engines.clickhouse.engine import ClickHouseEngine
from setwise.analytics.engines.connect import JoinableTables, Joined, location_of, open_engine
from setwise.analytics.engines.joins import Join, Key
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.measure import Measure
from setwise.analytics.schema import Column, Kind
from setwise.errors import EngineFailed, InvalidParameter, SetwiseError, UnsuitableTable
from tests.analytics.engines.reference import as_dict
from tests.servers.clickhouse import ClickHouseServer

EVENTS = pa.table(
    {
        "who": pa.array([n % 20 if n % 13 else None for n in range(400)], pa.int64()),
        "word": pa.array([f"w{n % 7}" if n % 11 else None for n in range(400)], pa.string()),
        "minutes": pa.array([n % 9 if n % 5 else None for n in range(400)], pa.int64()),
        "score": pa.array([n / 8 if n % 3 else float("nan") for n in range(400)], pa.float64()),
    }
)
MEASURES = (
    Measure(most=3),
    Measure(column="minutes", least=-5, most=30),
    Measure(column="score", averaged=True, step=Fraction(1, 4), least=0, most=100, in_cells=True),
)
QUESTIONS = [
    Aggregation(user="who", item="word", contributions=3, per_item=2),
    Aggregation(user="who", item="word", contributions=3),
    Aggregation(user="who", item="word", null_item="none", value="minutes", per_item=9),
    Aggregation(user="who", item="word", domain=("w1", "w2", "w9")),
    Aggregation(user="who"),
]


@pytest.fixture(scope="module")
def url(clickhouse_server: ClickHouseServer) -> str:
    address = clickhouse_server.database()
    clickhouse_server.store(EVENTS, "events", address)
    return address


@pytest.fixture(scope="module")
def wanted(url: str) -> list[object]:
    """What questions find under no profile."""
    with ClickHouseEngine(url, "events", salts=lambda: 7) as engine:
        return told(engine)


def told(engine: ClickHouseEngine) -> list[object]:
    """Everything that questions find, under a salt that is always the same."""
    found: list[object] = []
    for question in QUESTIONS:
        histogram, top = engine.histogram(question), engine.top(question, 3)
        found += [as_dict(histogram.labels, histogram.counts), list(zip(top.labels, top.counts.tolist(), strict=True))]
    table = engine.statistics(Aggregation(user="who", item="word", contributions=3, measures=MEASURES))
    found += [as_dict(table.users.labels, table.users.counts), table.totals, table.numbers]
    found.append({label: counts.tolist() for label, counts in table.cells[2].items()})
    return found


PROFILES: dict[str, dict[str, object]] = {
    "nothing": {},
    "limits": {"limit": 1},
    "results cut off": {"max_result_rows": 1, "result_overflow_mode": "break", "max_block_size": 1},
    "reading cut off": {"max_rows_to_read": 1, "read_overflow_mode": "break", "max_block_size": 10},
    "groups cut off": {
        "max_rows_to_group_by": 1,
        "group_by_overflow_mode": "any",
        "max_threads": 1,
        "max_block_size": 10,
    },
    "time cut off": {"max_execution_time": 1000, "timeout_overflow_mode": "break"},
    "sets cut off": {"max_rows_in_set": 1, "set_overflow_mode": "break"},
    "sorts cut off": {"max_rows_to_sort": 1, "sort_overflow_mode": "break"},
    "rows filtered": {"additional_table_filters": "{'events': 'who = 1'}"},
    "nulls otherwise": {"aggregate_functions_null_for_empty": 1, "transform_null_in": 1, "group_by_use_nulls": 1},
    "no short circuits": {"short_circuit_function_evaluation": "disable"},
    "aliases": {"prefer_column_name_to_alias": 0, "cast_keep_nullable": 0},
    "another time": {"session_timezone": "America/New_York", "compatibility": "22.3"},
    "a cache": {
        "use_query_cache": 1,
        "query_cache_nondeterministic_function_handling": "save",
        "query_cache_system_table_handling": "save",
    },
    "what statements do not name": {"max_columns_to_read": 3, "max_subquery_depth": 1},
    "read only, with settings": {"readonly": 2, "limit": 2},
}


@pytest.mark.parametrize("name", list(PROFILES))
def test_no_profile_changes_an_answer(clickhouse_server: ClickHouseServer, url: str, wanted: list[object], name: str):
    login = name.replace(" ", "_").replace(",", "")
    clickhouse_server.login(login, **PROFILES[name])
    with ClickHouseEngine(url.replace("default:", f"{login}:"), "events", salts=lambda: 7) as engine:
        assert told(engine) == wanted


@pytest.mark.parametrize("name", ["limits", "results cut off", "rows filtered"])
def test_the_profiles_do_change_what_others_ask(clickhouse_server: ClickHouseServer, url: str, name: str):
    login = clickhouse_server.login(f"plain_{name.replace(' ', '_')}", **PROFILES[name])
    statement = "SELECT word AS g0, count() FROM events GROUP BY g0 ORDER BY g0"
    of_login = url.replace("default:", f"{login.partition('//')[2].partition(':')[0]}:")
    assert clickhouse_server.run(statement, of_login) != clickhouse_server.run(statement, url)


def test_a_login_that_may_not_change_settings_is_refused(clickhouse_server: ClickHouseServer, url: str):
    clickhouse_server.login("bound", limit=3, readonly=1)
    with pytest.raises(UnsuitableTable, match="may not change settings, so that its profile could change answers"):
        ClickHouseEngine(url.replace("default:", "bound:"), "events")


def test_final_does_not_let_one_user_replace_another(clickhouse_server: ClickHouseServer, url: str):
    clickhouse_server.run("CREATE TABLE seats (seat String, who Int64) ENGINE = ReplacingMergeTree ORDER BY seat", url)
    clickhouse_server.run("SYSTEM STOP MERGES seats", url)
    for who in (1, 2):
        clickhouse_server.run(f"INSERT INTO seats VALUES ('a', {who})", url)
    clickhouse_server.login("final", final=1)
    of_login = url.replace("default:", "final:")
    assert clickhouse_server.run("SELECT count() FROM seats", of_login) == [(1,)]
    with ClickHouseEngine(of_login, "seats") as engine:
        assert engine.histogram(Aggregation(user="who", item="seat")).counts.tolist() == [2]


TYPED = """
    CREATE TABLE typed (
        u UInt64, low LowCardinality(Nullable(String)), fixed FixedString(4), chosen Enum8('red' = 1, 'blue' = 2),
        big UInt64, wide Int128, id UUID, flag Nullable(Bool), day Date, clock DateTime('Asia/Tokyo'),
        exact DateTime64(3), finest DateTime64(9, 'UTC'), half BFloat16, price Nullable(Decimal(40, 3)),
        many Array(Int8), raw String, computed Int64 ALIAS toInt64(raw),
        written String MATERIALIZED concat('m', toString(u)), later String MATERIALIZED concat('l', toString(u))
    ) ENGINE = MergeTree ORDER BY (u, written)
"""
ROWS = """
    INSERT INTO typed VALUES
    (1, 'a', 'ab', 'red', 18446744073709551615, 170141183460469231731687303715884105727,
     '00000000-0000-0000-0000-000000000001', true, '2024-12-31', '2025-01-01 08:30:00', '2024-12-31 23:30:00.250',
     '2024-12-31 23:30:00.250000001', 1.5, 1.25, [1], 'x'),
    (2, NULL, 'abcd', 'blue', 5, -1, '00000000-0000-0000-0000-000000000002', NULL, '1970-01-01', 0, 0, 0, nan, NULL, [],
     '\\xff'),
    (3, 'a', '', 'red', 5, -1, '00000000-0000-0000-0000-000000000002', false, '2149-06-06', 4294967295,
     '9999-12-31 23:59:59.999', '2261-01-01', inf, -9999999999999999999999999999999999999.999, [], '\\xfe\\xff')
"""
KINDS = {
    **dict.fromkeys(("u", "big"), Kind.INTEGER),
    **dict.fromkeys(("low", "fixed", "chosen", "raw", "written"), Kind.TEXT),
    **dict.fromkeys(("wide", "id"), Kind.IDENTIFIER),
    **dict.fromkeys(("clock", "exact", "finest"), Kind.INSTANT),
    "flag": Kind.BOOLEAN,
    "day": Kind.DATE,
    "half": Kind.FLOAT,
    "price": Kind.DECIMAL,
    "many": Kind.OTHER,
}


@pytest.fixture(scope="module")
def typed(clickhouse_server: ClickHouseServer, url: str) -> ClickHouseEngine:
    clickhouse_server.run(TYPED, url)
    clickhouse_server.run(ROWS, url)
    with ClickHouseEngine(url, "typed") as engine:
        yield engine


def test_types_have_kinds_and_computed_columns_are_left_out(typed: ClickHouseEngine):
    schema = typed.describe()
    assert {column.name: column.kind for column in schema} == KINDS
    assert (schema.column("price").precision, schema.column("price").scale) == (40, 3)
    assert schema.column("chosen").native == "Enum8"  # its values are data


@pytest.mark.parametrize(
    ("item", "wanted"),
    [
        ("low", {"a": 2}),
        ("fixed", {"ab": 1, "abcd": 1, "": 1}),
        ("chosen", {"red": 2, "blue": 1}),
        ("big", {2**64 - 1: 1, 5: 2}),
        ("flag", {"true": 1, "false": 1}),
        ("day", {"2024-12-31": 1, "1970-01-01": 1, "2149-06-06": 1}),
        ("raw", {"x": 1}),  # the others are not UTF-8
        ("written", {"m1": 1, "m2": 1, "m3": 1}),
        ("clock by day", {"2024-12-31": 1, "1970-01-01": 1, "2106-02-07": 1}),  # in UTC
        ("hour of clock", {23: 1, 0: 1, 6: 1}),
        ("exact by year", {"2024": 1, "1970": 1, "9999": 1}),
        ("finest by hour", {"2024-12-31 23:00": 1, "1970-01-01 00:00": 1, "2261-01-01 00:00": 1}),
        ("big by 10", {0: 2}),  # beyond 2^53 there is no bin
        ("half by 1", {1: 1}),
        ("price by 0.5", {"1.0": 1}),
    ],
)
def test_labels_of_every_type(typed: ClickHouseEngine, item: str, wanted: dict[str | int, int]):
    found = typed.histogram(Aggregation(user="u", item=parse_group(item)))
    assert as_dict(found.labels, found.counts) == wanted


@pytest.mark.parametrize(
    ("condition", "users"),
    [
        ("UPPER(raw) = 'X'", 1),
        ("LOWER(raw) IS NOT NULL", 1),
        ("TRIM(raw) IS NULL", 2),
        ("SUBSTR(raw, 1, 1) <> 'y'", 1),
        ("LENGTH(raw) >= 0", 1),
        ("raw || 'a' = 'xa'", 1),
        ("COALESCE(raw, 'none') = 'none'", 2),
    ],
)
def test_functions_of_text_that_is_no_text_are_null(typed: ClickHouseEngine, url: str, condition: str, users: int):
    assert typed.describe().column("raw").kind is Kind.TEXT
    with setwise.open("typed", engine=url, user="u") as session:
        answer = session.sql(f"SELECT COUNT(DISTINCT u) AS n FROM typed WHERE {condition}", epsilon=100.0)
    assert answer.rows[0]["n"]["value"] == users  # noise of 1 has a chance of about e**-100


def test_text_that_is_no_text_still_tells_users_apart(typed: ClickHouseEngine):
    assert typed.histogram(Aggregation(user="raw")).counts.tolist() == [3]
    for user in ("wide", "id"):
        assert typed.histogram(Aggregation(user=user)).counts.tolist() == [2]


@pytest.mark.parametrize(
    ("item", "domain", "missing", "wanted"),
    [
        ("big", (5, 17, -1), None, {5: 2}),
        ("low", ("a", "b"), None, {"a": 2}),
        ("low", ("a", "none"), "none", {"a": 2, "none": 1}),
        ("chosen", ("red",), None, {"red": 2}),
        ("big by 10", (0, -7), -7, {0: 2, -7: 1}),
    ],
)
def test_domains_and_missing_labels(typed: ClickHouseEngine, item: str, domain, missing, wanted):
    found = typed.histogram(Aggregation(user="u", item=parse_group(item), domain=domain, null_item=missing))
    assert as_dict(found.labels, found.counts) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("exact >= '2024-12-31 23:30:00.250001'", {3}),
        ("exact <= '2024-12-31 23:30:00.250'", {1, 2}),
        ("finest > '2024-12-31 23:30:00.250'", {1, 3}),
        ("finest < '9999-12-31 23:59:59'", {1, 2, 3}),
        ("finest > '0001-01-01'", {1, 2, 3}),
        ("clock = '2024-12-31 23:30:00Z'", {1}),
        ("half > 1e308", {3}),
        ("NOT half < 1", {1, 3}),
        ("price < 0", {3}),
        ("fixed = 'ab'", {1}),
        ("chosen in ('blue', 'green')", {2}),
        ("low <> 'b'", {1, 3}),
        ("big > 9223372036854775807", {1}),
        ("big in (5, -1)", {2, 3}),
        ("flag = false", {3}),
        ("day > '2100-01-01'", {3}),
        ("raw LIKE '_'", {1}),
    ],
)
def test_filters_of_every_type(typed: ClickHouseEngine, text: str, wanted: set[int]):
    where = parse_filter(text, typed.describe())
    assert set(typed.histogram(Aggregation(user="u", item="u", where=where)).labels) == wanted


def test_bytes_beyond_a_zero_tell_users_apart(clickhouse_server: ClickHouseServer, url: str):
    clickhouse_server.run("CREATE TABLE zeros (who FixedString(4), name String) ENGINE = Memory", url)
    clickhouse_server.run("INSERT INTO zeros VALUES ('a\\0b', 'a'), ('a\\0c', 'a\\0'), ('a', 'a\\0\\0')", url)
    with ClickHouseEngine(url, "zeros") as engine:
        for user in ("who", "name"):
            assert engine.histogram(Aggregation(user=user)).counts.tolist() == [3]
        assert len(engine.histogram(Aggregation(user="name", item="who"))) == 3


@pytest.mark.parametrize("scale", [9, *(pytest.param(each, marks=pytest.mark.slow) for each in (0, 3, 6))])
def test_no_time_is_too_far_for_bins_and_filters(clickhouse_server: ClickHouseServer, url: str, scale: int):
    """Whatever 64 bits a time is made of; others are where they were."""
    name, kind = f"far_{scale}", f"DateTime64({scale})"
    clickhouse_server.run(f"CREATE TABLE {name} (u Int64, t {kind}) ENGINE = Memory", url)
    clickhouse_server.run(f"INSERT INTO {name} VALUES (0, '2024-02-29 12:34:56')", url)
    for user, bits in enumerate((2**63 - 1, -(2**63), 2**62, -(2**62), 253402300800000, -62135596800001), 1):
        clickhouse_server.run(f"INSERT INTO {name} SELECT {user}, reinterpret(toInt64({bits}), '{kind}')", url)
    with ClickHouseEngine(url, name) as engine:
        where = parse_filter("t >= '2024-02-29' AND t < '2024-03-01' AND u = 0", engine.describe())
        for unit in TimeUnit:
            kinds = [f"{unit} of t"] if unit is TimeUnit.WEEKDAY else [f"{unit} of t", f"t by {unit}"]
            for group in map(parse_group, kinds):
                everyone = engine.histogram(Aggregation(user="u", item=group))
                assert int(everyone.counts.sum()) <= 7
                [label] = engine.histogram(Aggregation(user="u", item=group, where=where)).labels
                assert label in everyone.labels


def test_keys_of_different_types_meet(typed: ClickHouseEngine, clickhouse_server: ClickHouseServer, url: str):
    """Unsigned and signed integers, fixed and enumerated text, and times of different precision."""
    names = pa.table(
        {
            "number": [5, -1, 2**63 - 1],
            "text": ["red", "ab", "x"],
            "time": pa.array([1735687800250000, 0, 1], pa.timestamp("us")),
            "met": ["one", "two", "three"],
        }
    )
    clickhouse_server.store(names, "names_of", url)
    for left, right, wanted in (
        ("big", "number", {"one": 2}),
        ("chosen", "text", {"one": 2}),
        ("fixed", "text", {"two": 1}),
        ("exact", "time", {"one": 1, "two": 1}),
        ("clock", "time", {"two": 1}),
    ):
        joinable = JoinableTables(public={"names_of": "names_of"})
        join = Join(table="names_of", keys=(Key(column=left, joined=right),))
        joined = Joined(joins=[join], name="typed", user="u", joinable=joinable)
        with open_engine("typed", url, joined=joined) as engine:
            found = engine.histogram(Aggregation(user="u", item="met"))
            assert as_dict(found.labels, found.counts) == wanted, left


def test_rows_that_meet_none_have_nulls(clickhouse_server: ClickHouseServer, url: str):
    """Where the columns of the other table cannot hold one, ClickHouse would fill in empty text."""
    plain = {"who": "Int64", "key": "Int64", "label": "String", "word": "String"}
    clickhouse_server.store(pa.table({"who": [1, 2, 3], "key": [1, 1, 2]}), "met", url, plain)
    clickhouse_server.store(pa.table({"key": [1], "label": ["one"]}), "meets", url, plain)
    join = Join(table="meets", keys=(Key(column="key", joined="key"),), keeps_all=True)
    joined = Joined(joins=[join], name="met", user="who", joinable=JoinableTables(public={"meets": "meets"}))
    with open_engine("met", url, joined=joined) as engine:
        found = engine.histogram(Aggregation(user="who", item="label"))
        assert as_dict(found.labels, found.counts) == {"one": 2}


def test_conversions_cannot_fail(clickhouse_server: ClickHouseServer, url: str):
    """Not even of what stands under a null where both sides of a CASE are computed."""
    dialect = ClickHouseDialect()
    clickhouse_server.run("CREATE TABLE reals (x Nullable(Float64), n UInt64) ENGINE = Memory", url)
    clickhouse_server.run(
        "INSERT INTO reals VALUES (nan, 0), (inf, 1), (1e30, 9223372036854775808), (NULL, 3), (5, 5)", url
    )
    real, whole = (
        Column(name="x", kind=Kind.FLOAT, native="Float64"),
        Column(name="n", kind=Kind.INTEGER, native="UInt64"),
    )
    columns = [
        dialect.int64("CASE WHEN x <> x THEN NULL ELSE x END"),
        dialect.int64(f"FLOOR({dialect.number(real, '-9.0', '9.0')})"),
        dialect.integer(whole),
    ]
    found = clickhouse_server.run(
        f"SELECT {', '.join(columns)} FROM reals SETTINGS short_circuit_function_evaluation = 'disable'", url
    )
    assert found == [(None, None, 0), (None, 9, 1), (None, 9, None), (None, None, 3), (5, 5, 5)]


def test_sums_do_not_wrap_around(clickhouse_server: ClickHouseServer, url: str):
    large = 2**63 - 1
    table = pa.table({"u": [1, 1, 2, 2], "x": [large, large, -large, -large]})
    clickhouse_server.store(table, "large", url)
    assert clickhouse_server.run("SELECT sum(x) FROM large WHERE u = 1", url) == [(-2,)]
    with ClickHouseEngine(url, "large") as engine:
        found = engine.histogram(Aggregation(user="u", value="x", per_item=7))
        assert found.counts.tolist() == [7]
        measure = Measure(column="x", least=-5, most=9)
        assert engine.statistics(Aggregation(user="u", measures=(measure,))).totals[0] == {"all": 4}


def test_columns_may_have_the_names_that_statements_use(clickhouse_server: ClickHouseServer, url: str):
    names = [
        "g0",
        "u",
        "v",
        "n",
        "rank",
        "count",
        "w0",
        "item",
        "users",
        "cell",
        "measure",
        "all",
        "setting s {p1:Int8}",
    ]
    columns = {name: [f"{name} {n % 3}" for n in range(12)] for name in names}
    columns["v0"] = list(range(12))
    clickhouse_server.store(pa.table(columns), "names", url)
    with ClickHouseEngine(url, "names") as engine:
        for user, item in zip(names, [*names[1:], names[0]], strict=True):
            aggregation = Aggregation(
                user=user, item=item, contributions=2, value="v0", per_item=5, measures=(Measure(column="v0", most=9),)
            )
            found = engine.histogram(aggregation)
            assert as_dict(found.labels, found.counts) == {f"{item} {n}": 5 for n in range(3)}
            assert engine.statistics(aggregation).totals[0] == {f"{item} {n}": 9 for n in range(3)}


def test_large_domains_go_in_several_parameters(clickhouse_server: ClickHouseServer, url: str):
    domain = tuple(f"item {n} {'x' * 40}" for n in range(6000))
    clickhouse_server.store(pa.table({"u": list(range(6000)), "i": domain}), "wide", url)
    with ClickHouseEngine(url, "wide") as engine:
        found = engine.histogram(Aggregation(user="u", item="i", domain=domain[:5990]))
        assert len(found) == 5990


def test_tables_that_convert_rows_when_they_are_read_are_refused(clickhouse_server: ClickHouseServer, url: str):
    clickhouse_server.run("CREATE TABLE lines (x Int64) ENGINE = File(CSV)", url)
    with pytest.raises(UnsuitableTable, match="of the engine File, whose rows are converted as they are read"):
        open_engine("lines", url)
    clickhouse_server.run("CREATE VIEW seen AS SELECT who, word FROM events", url)
    with open_engine("seen", url) as engine:
        assert engine.describe().names == ("who", "word")
        assert len(engine.histogram(Aggregation(user="who", item="word"))) == 7


def test_addresses_passwords_and_missing_tables(
    clickhouse_server: ClickHouseServer, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    bare = url.replace(":secret", "")
    with pytest.raises(EngineFailed, match="cannot be reached or refuses the login") as refused:
        open_engine("events", bare)
    assert refused.value.__context__ is None
    monkeypatch.setenv("CLICKHOUSE_PASSWORD", "secret")
    with open_engine("events", bare) as engine:
        assert engine.rows() == 400
    monkeypatch.setenv("CLICKHOUSE_PASSWORD", "wrong")
    (tmp_path / "password").write_text("secret\n")
    monkeypatch.setenv("CLICKHOUSE_PASSWORD_FILE", str(tmp_path / "password"))
    database = url.rpartition("/")[2]
    with open_engine(f"{database}.events", bare.replace(database, "default")) as engine:
        assert engine.rows() == 400
    with pytest.raises(SetwiseError, match="ClickHouse has no table 'nothing' that this login may see"):
        open_engine("nothing", url)
    with pytest.raises(InvalidParameter, match=r"takes secure, verify, .*, not 'ssl'"):
        open_engine("events", url + "?ssl=1")
    for unreadable in ("clickhouse://127.0.0.1:http/default", "clickhouse://[::1/default"):
        with pytest.raises(InvalidParameter, match="cannot be read: write clickhouse://user@host:8123/database"):
            open_engine("events", unreadable)
    monkeypatch.setenv("CLICKHOUSE_USER", "nobody")
    for refusing in (url.replace("default:secret@", ""), url + "?secure=true"):
        with pytest.raises(EngineFailed, match="cannot be reached or refuses the login"):
            open_engine("events", refusing)
    with pytest.raises(InvalidParameter, match="types are for columns of text in files"):
        open_engine("events", url, types={"who": Kind.TEXT})
    with pytest.raises(InvalidParameter, match="is no folder of a chDB database"):
        open_engine("events", f"chdb://{tmp_path}/missing")
    assert location_of("shop.events", url).name == "events"


def test_the_server_draws_the_salt(url: str, monkeypatch: pytest.MonkeyPatch):
    with ClickHouseEngine(url, "events") as engine:
        statements: list[str] = []
        query = engine._connection._client.query

        def seen(statement, **options):
            statements.append(f"{statement} {options.get('parameters')}")
            return query(statement, **options)

        monkeypatch.setattr(engine._connection._client, "query", seen)
        assert len(engine.histogram(Aggregation(user="who", item="word", contributions=1)))
    asked = [statement for statement in statements if "sipHash64Keyed" in statement]
    assert len(asked) == 1
    assert "(SELECT rand64())" in asked[0]
    assert asked[0].endswith(" {}")


@pytest.fixture(scope="module")
def pairs(clickhouse_server: ClickHouseServer, url: str) -> list[tuple[int, int]]:
    """Store pairs of a user and an item as table `pairs`, and each pair twice as table `repeated`; return them."""
    generator = np.random.default_rng(8)
    drawn = sorted({(int(user), int(number)) for user, number in generator.integers([40, 30], size=(600, 2))})
    drawn += [(99, number) for number in range(2_000)]  # one user with far more items than the others
    table = pa.table(
        {
            "who": [user for user, _ in drawn],
            "word": [f"word {number}" for _, number in drawn],
            "number": [number - 3 for _, number in drawn],
        }
    )
    clickhouse_server.store(table, "pairs", url)
    clickhouse_server.store(pa.concat_tables([table, table]), "repeated", url)
    return drawn


@pytest.mark.parametrize("item", ["word", "number", ("word", "number")])
@pytest.mark.parametrize("kept", [1, 40])
def test_sets_keep_the_items_that_windows_keep(pairs: list[tuple[int, int]], url: str, item, kept: int):
    found = {}
    for name in ("pairs", "repeated"):
        with ClickHouseEngine(url, name, salts=lambda: 77) as engine:
            for per_item in (1, 2):
                asked = Aggregation(user="who", item=item, contributions=kept, per_item=per_item)
                histogram = engine.histogram(asked)
                found[name, per_item] = as_dict(histogram.labels, histogram.counts)
    # Each pair has one row in the first table, so a limit of 2 rows, which takes a window, counts as a limit of 1 does.
    assert found["pairs", 1] == found["pairs", 2] == found["repeated", 1]
    assert found["repeated", 2] == {label: 2 * count for label, count in found["pairs", 1].items()}
    items = Counter(user for user, _ in pairs)
    assert sum(found["pairs", 1].values()) == sum(min(kept, number) for number in items.values())


def test_only_the_items_of_users_with_many_are_sorted(url: str, monkeypatch: pytest.MonkeyPatch):
    statements: list[str] = []
    with ClickHouseEngine(url, "events") as engine:
        run = engine._run

        def seen(statement, parameters):
            statements.append(statement)
            return run(statement, parameters)

        monkeypatch.setattr(engine, "_run", seen)
        engine.histogram(Aggregation(user="who", item="word", contributions=2))
        with engine.group_weights(Aggregation(user="who", item="word", contributions=2)) as weights:
            weights.read([])
    ranked = [statement for statement in statements if "sipHash64Keyed" in statement]
    assert len(ranked) == 2
    assert not any("ROW_NUMBER" in statement for statement in ranked)
    assert all("length(items) > 2" in statement for statement in ranked)


EMBEDDED = """
import sys
import tempfile
import threading

import chdb

from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.connect import open_engine
from setwise.cli.main import main
from setwise.errors import EngineFailed

connection = chdb.connect(sys.argv[1])
connection.query("CREATE TABLE events (who Int64, word String) ENGINE = MergeTree ORDER BY who")
connection.query("INSERT INTO events SELECT number, concat('w', toString(number % 3)) FROM numbers(3000)")
connection.close()
with tempfile.TemporaryDirectory() as other, open_engine("events", f"chdb://{sys.argv[1]}") as engine:
    assert engine.describe().names == ("who", "word")
    assert engine.relations() == ("default.events",), engine.relations()
    try:
        open_engine("events", f"chdb://{other}")
    except EngineFailed as error:
        assert "a process has one at a time" in str(error), error
    else:
        raise AssertionError("two folders at once")
connection = chdb.connect(sys.argv[1])
connection.query("CREATE TABLE long (who Int64, word Int64) ENGINE = MergeTree ORDER BY tuple()")
connection.query("INSERT INTO long SELECT number, sipHash64(number) FROM numbers(20000000)")
connection.close()
with open_engine("long", f"chdb://{sys.argv[1]}") as engine:
    said = []

    def ask():
        try:
            engine.histogram(Aggregation(user="who", item="word"))
        except EngineFailed as error:
            said.append(str(error))

    asking = threading.Thread(target=ask)
    asking.start()
    while asking.is_alive():
        engine.cancel()
        asking.join(0.2)
    assert said == ["the query was cancelled"], said
words = ["top-k", "events", "--user", "who", "--item", "word", "-k", "3", "--epsilon", "5", "--delta", "1e-6"]
sys.argv = ["setwise", *words, "--engine", f"chdb://{sys.argv[1]}"]
main()
"""


def test_a_folder_of_chdb_is_read_in_this_process(tmp_path: Path, clickhouse_server: ClickHouseServer):
    ran = subprocess.run(
        [sys.executable, "-c", EMBEDDED, str(tmp_path / "data")],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr == ""
    assert {word for word in ("w0", "w1", "w2") if word in ran.stdout} == {"w0", "w1", "w2"}
