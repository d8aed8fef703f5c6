"""Hostile table definitions for every engine: tables whose columns or rows the database computes as it reads them.

A definition is built twice, with and without the row of one user that its expression fails on. The two tables must be
indistinguishable to an analyst: both refused with the same kind of error, or both answered with the same schema and the
same rows of the others. Every question is also asked with a filter on a user who is not the hostile one.
"""

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.schema import Kind

Run: TypeAlias = Callable[[str], object]
"""Runs one statement where the table is built."""

OTHERS = [("u1", "1", 1), ("u2", "2", 2), ("u3", "30", 3), ("u3", "4", 4)]
"""Rows (u, s, n) that no expression fails on."""
HOSTILE = {
    "text": ("zz", "x", 5),
    "zero": ("zz", "6", 0),
    "large": ("zz", "6", 2**62),
    "nothing": ("zz", "", 5),
}
"""Rows of the hostile user, by what is wrong with them."""


@dataclass(frozen=True)
class Definition:
    """A way to define the table `t`: statements of which `{rows}` is where the rows of the base table are inserted."""

    name: str
    statements: tuple[str, ...]
    row: str
    """The key in HOSTILE of the row that the definition fails on."""
    table: str = "t"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Seen:
    """What an analyst can tell: the kind of an error, the schema, and the answers about users other than `zz`."""

    error: str = ""
    schema: tuple[tuple[str, str], ...] = ()
    answers: tuple[object, ...] = ()


def build(definition: Definition, run: Run, hostile: bool) -> None:
    """Run the definition's statements, with or without the hostile user's row."""
    rows = [*OTHERS, HOSTILE[definition.row]] if hostile else OTHERS
    values = ", ".join(f"('{u}', '{s}', {n})" for u, s, n in rows)
    for statement in definition.statements:
        run(statement.replace("{rows}", values))


def seen(source: str, engine: str) -> Seen:
    """Open a table, ask about each of its columns with and without a filter, and return what an analyst can tell."""
    schema: tuple[tuple[str, str], ...] = ()
    answers: list[object] = []
    try:
        with open_engine(source, engine) as opened:
            described = opened.describe()
            schema = tuple((column.name, str(column.kind)) for column in described)
            one_user = parse_filter("u = 'u1'", described)
            for column in described:
                if column.kind in (Kind.OTHER, Kind.FLOAT):
                    continue
                for where in (None, one_user):
                    found = opened.histogram(Aggregation(user="u", item=column.name, where=where, per_item=9))
                    if column.name == "u":
                        counts = zip(found.labels, map(int, found.counts), strict=True)
                        answers.append(sorted((str(user), count) for user, count in counts if user != "zz"))
                if column.kind is Kind.INTEGER:
                    opened.histogram(Aggregation(user="u", item="u", value=column.name, where=one_user, per_item=9))
                    positive = parse_filter(f"{column.name} >= 1 AND u = 'u1'", described)
                    opened.histogram(Aggregation(user="u", item="u", where=positive))
    except Exception as error:  # its kind is what an analyst sees
        return Seen(error=type(error).__name__, schema=schema)
    return Seen(schema=schema, answers=tuple(map(str, answers)))


def clickhouse_definitions() -> Iterator[Definition]:
    """Yield definitions of ClickHouse tables."""
    base = "CREATE TABLE {} (u String, s String, n Int64{}) ENGINE = {} "
    plain = base.format("t", "", "MergeTree") + "ORDER BY tuple()"
    insert = "INSERT INTO {} (u, s, n) VALUES {{rows}}"
    expressions = {
        "cast": ("Int64", "toInt64(s)", "text"),
        "unsigned": ("UInt64", "toUInt64(s)", "text"),
        "empty": ("Int64", "toInt64(s)", "nothing"),
        "date": ("Date", "toDate(concat('2024-01-0', s))", "text"),
        "moment": ("DateTime", "parseDateTime(concat('2024-01-0', left(s, 1)), '%Y-%m-%d')", "text"),
        "division": ("Int64", "intDiv(6, n)", "zero"),
        "remainder": ("Int64", "6 % n", "zero"),
        "exact cast": ("Int32", "accurateCast(n, 'Int32')", "large"),
        "decimal": ("Decimal(9, 2)", "toDecimal32(n, 2)", "large"),
        "thrown": ("UInt8", "throwIf(s = 'x')", "text"),
        "enumeration": ("Enum8('1' = 1, '2' = 2, '30' = 3, '4' = 4)", "s", "text"),
        "null": ("Int64", "toInt64OrNull(s)", "text"),
        "uuid": ("UUID", "toUUID(concat('00000000-0000-0000-0000-0000000000', leftPad(s, 2, '0')))", "text"),
        "address": ("IPv4", "toIPv4(concat('10.0.0.', s))", "text"),
    }
    for name, (native, expression, row) in expressions.items():
        for kind in ("DEFAULT", "MATERIALIZED", "ALIAS"):
            added = f"ALTER TABLE t ADD COLUMN c {native} {kind} {expression}"
            yield Definition(f"{kind} {name} added", (plain, insert.format("t"), added), row)
        chained = (f"ALTER TABLE t ADD COLUMN b {native} DEFAULT {expression}",)
        chained += ("ALTER TABLE t ADD COLUMN c String DEFAULT toString(b)",)
        yield Definition(f"DEFAULT of DEFAULT {name}", (plain, insert.format("t"), *chained), row)
        sorting = ("ALTER TABLE t ADD COLUMN c Int64, MODIFY ORDER BY (c)",)
        if native == "Int64":
            sorting += (f"ALTER TABLE t MODIFY COLUMN c Int64 DEFAULT {expression}",)
            yield Definition(f"DEFAULT {name} in the sorting key", (plain, insert.format("t"), *sorting), row)
        if name in ("enumeration", "null"):  # only converting what they give to the type of the column fails
            continue
        on_base = (plain.replace("TABLE t", "TABLE b"), insert.format("b"))
        view = f"CREATE VIEW t AS SELECT u, n, {expression} AS c FROM b"
        yield Definition(f"view {name}", (*on_base, view), row)
        over = (view.replace("VIEW t", "VIEW v"), "CREATE VIEW t AS SELECT u, n, c FROM v")
        yield Definition(f"view over view {name}", (*on_base, *over), row)
        chosen = f"CREATE VIEW t AS SELECT u, s, n FROM b WHERE toString({expression}) <> ''"
        yield Definition(f"view where {name}", (*on_base, chosen), row)
    for native in ("Int64", "UInt8", "Date", "Float64", "UUID"):
        typed = f"(u String, s {native}, n Int64)"
        on_base = (plain.replace("TABLE t", "TABLE b"), insert.format("b").replace("'30'", "'3'"))
        row = "text"
        others = {
            "Merge": f"CREATE TABLE t {typed} ENGINE = Merge(currentDatabase(), '^b$')",
            "Buffer": f"CREATE TABLE t {typed} ENGINE = Buffer(currentDatabase(), b, 1, 1e6, 1e6, 1e9, 1e9, 1e9, 1e9)",
            "typed view": f"CREATE VIEW t {typed} AS SELECT u, s, n FROM b",
            "materialized view": f"CREATE MATERIALIZED VIEW t TO b {typed} AS SELECT u, s, n FROM e",
        }
        for name, statement in others.items():
            empty = plain.replace("TABLE t", "TABLE e") if name == "materialized view" else ""
            if native in ("Int64", "UInt8") or name == "Merge":
                made = (*on_base, *([empty] if empty else []), statement)
                yield Definition(f"{name} {native}", made, row)
        if native != "UUID":
            stopped = ("SYSTEM STOP MERGES t",)
            changed = (f"ALTER TABLE t MODIFY COLUMN s {native} SETTINGS mutations_sync = 0, alter_sync = 0",)
            yield Definition(f"stopped MODIFY COLUMN {native}", (plain, insert.format("t"), *stopped, *changed), row)


def duckdb_definitions() -> Iterator[Definition]:
    """Yield definitions of tables and views of a DuckDB file."""
    expressions = {
        "cast": ("CAST(s AS BIGINT)", "text"),
        "empty": ("CAST(s AS BIGINT)", "nothing"),
        "short cast": ("CAST(n AS TINYINT)", "large"),
        "product": ("n * 4", "large"),
        "date": ("CAST('2024-01-0' || s[1] AS DATE)", "text"),
        "moment": ("strptime('2024-01-0' || s[1], '%Y-%m-%d')", "text"),
        "raised": ("CASE WHEN s = 'x' THEN error('no') ELSE '1' END", "text"),
        "list": ("CAST('[' || s || ']' AS INTEGER[])", "text"),
        "decimal": ("CAST(n AS DECIMAL(4, 2))", "large"),
        "shift": ("1 << n", "large"),
        "regular expression": ("regexp_matches('a', CASE WHEN s = 'x' THEN '(' ELSE 'a' END)", "text"),
    }
    base = "CREATE TABLE {} (u VARCHAR, s VARCHAR, n BIGINT{})"
    insert = "INSERT INTO {} (u, s, n) VALUES {{rows}}"
    for name, (expression, row) in expressions.items():
        generated = base.format("t", f", c VARCHAR GENERATED ALWAYS AS (CAST({expression} AS VARCHAR))")
        fitting = insert.format("t").replace("{rows}", "('u1', '1', 1), ('u2', '2', 2), ('zz', '3', 3)")
        # The rows are given values that a generated column checks; an UPDATE does not check them.
        _, text, number = HOSTILE[row]
        updated = f"UPDATE t SET s = '{text}', n = {number} WHERE u = 'zz' AND '{{rows}}' LIKE '%zz%'"
        yield Definition(f"generated {name}", (generated, fitting, updated.replace("'{rows}'", "$${rows}$$")), row)
        on_base = (base.format("b", ""), insert.format("b"))
        view = f"CREATE VIEW t AS SELECT u, n, {expression} AS c FROM b"
        yield Definition(f"view {name}", (*on_base, view), row)
        over = (view.replace("VIEW t", "VIEW v"), "CREATE VIEW t AS SELECT u, n, c FROM v")
        yield Definition(f"view over view {name}", (*on_base, *over), row)
        chosen = f"CREATE VIEW t AS SELECT u, s, n FROM b WHERE CAST({expression} AS VARCHAR) <> ''"
        yield Definition(f"view where {name}", (*on_base, chosen), row)
        macro = (f"CREATE MACRO m(s, n) AS {expression}", "CREATE VIEW t AS SELECT u, n, m(s, n) AS c FROM b")
        yield Definition(f"macro {name}", (*on_base, *macro), row)
        if "(" in expression:
            table = f"CREATE MACRO m() AS TABLE SELECT u, n, {expression} AS c FROM b"
            yield Definition(f"table macro {name}", (*on_base, table, "CREATE VIEW t AS SELECT * FROM m()"), row)
    on_base = (base.format("b", ""), insert.format("b"))
    for name, select in {
        "compared with a number": "SELECT u, s, n FROM b WHERE s = 1",
        "among numbers": "SELECT u, s, n FROM b WHERE s IN (1, 2, 3)",
        "union by name": "SELECT u, n AS s, n FROM b UNION ALL BY NAME SELECT u, CAST(s AS BIGINT) AS s, n FROM b",
        "join": "SELECT b.u, b.n FROM b JOIN (SELECT 1 AS k) AS k ON b.s = k.k",
        "limit": "SELECT u, s, n FROM b ORDER BY CAST(s AS BIGINT) LIMIT 3",
        "subquery": "SELECT u, s, n FROM b WHERE (SELECT count(CAST(s AS BIGINT)) FROM b) > 0",
        "scalar subquery": "SELECT u, n, (SELECT o.s FROM b AS o WHERE o.n >= 5 OR o.u = 'u1') AS c FROM b",
        "group": "SELECT u, sum(CAST(s AS BIGINT)) AS n FROM b GROUP BY u",
        "window": "SELECT u, n, sum(CAST(s AS BIGINT)) OVER () AS c FROM b",
        "with": "WITH w AS (SELECT u, CAST(s AS BIGINT) AS n FROM b) SELECT u, n FROM w",
        "recursive": "WITH RECURSIVE w AS (SELECT u, CAST(s AS BIGINT) AS n FROM b) SELECT u, n FROM w",
        "replace": "SELECT * REPLACE (CAST(s AS BIGINT) AS s) FROM b",
        "columns": "SELECT u, n, CAST(COLUMNS('s') AS BIGINT) FROM b",
        "pivot": "SELECT u, n, unnest([CAST(s AS BIGINT)]) AS c FROM b",
    }.items():
        row = "text"
        yield Definition(f"view {name}", (*on_base, f"CREATE VIEW t AS {select}"), row)


def sqlite_definitions() -> Iterator[Definition]:
    """Yield definitions of tables and views of a SQLite file."""
    expressions = {
        "overflow": ("abs(CASE n WHEN 4611686018427387904 THEN -9223372036854775807 - 1 ELSE n END)", "large"),
        "json": ("json_extract(s, '$')", "text"),
        "json array": ("json_array_length(s)", "text"),
        "pattern": ("s LIKE 'x' ESCAPE CASE s WHEN 'x' THEN 'ab' ELSE 'a' END", "text"),
        "length": ("zeroblob(n)", "large"),
    }
    base = "CREATE TABLE {} (u TEXT, s TEXT, n INTEGER{})"
    insert = "INSERT INTO {} (u, s, n) VALUES {{rows}}"
    for name, (expression, row) in expressions.items():
        added = f"ALTER TABLE t ADD COLUMN c AS ({expression}) VIRTUAL"  # an INSERT would compute the column
        yield Definition(f"generated {name}", (base.format("t", ""), insert.format("t"), added), row)
        on_base = (base.format("b", ""), insert.format("b"))
        view = f"CREATE VIEW t AS SELECT u, n, {expression} AS c FROM b"
        yield Definition(f"view {name}", (*on_base, view), row)
        over = (view.replace("VIEW t", "VIEW v"), "CREATE VIEW t AS SELECT u, n, c FROM v")
        yield Definition(f"view over view {name}", (*on_base, *over), row)
        chosen = f"CREATE VIEW t AS SELECT u, s, n FROM b WHERE {expression} IS NOT NULL"
        yield Definition(f"view where {name}", (*on_base, chosen), row)


def postgresql_definitions(version: int) -> Iterator[Definition]:
    """Yield definitions of tables and views of PostgreSQL; they expect the role `reader` to ask."""
    expressions = {
        "cast": ("CAST(s AS bigint)", "text"),
        "empty": ("CAST(s AS bigint)", "nothing"),
        "short cast": ("CAST(n AS smallint)", "large"),
        "division": ("6 / n", "zero"),
        "remainder": ("6 % n", "zero"),
        "product": ("n * 4", "large"),
        "date": ("CAST('2024-01-0' || left(s, 1) AS date)", "text"),
        "moment": ("to_timestamp(n::float8 * 1e300)", "large"),
        "raised": ("raised(s)", "text"),
        "inlined": ("inlined(s)", "text"),
        "json": ("CAST(s AS json) ->> 0", "text"),
        "numeric": ("CAST(n AS numeric(4, 2))", "large"),
        "logarithm": ("ln(n::numeric)", "zero"),
        "repeated": ("repeat('a', CAST(n / 4 AS int))", "large"),
        "regular expression": ("'a' ~ CASE WHEN s = 'x' THEN '(' ELSE 'a' END", "text"),
        "like": ("s || 'y' LIKE CASE WHEN s = 'x' THEN 'x' || chr(92) ELSE 'a' END", "text"),
        "array": ("(string_to_array(s, ','))[CAST(n AS int)]", "large"),
        "domain": ("CAST(s AS digits)", "text"),
        "enumeration": ("CAST(s AS listed)", "text"),
        "subquery": ("(SELECT o.s FROM b AS o WHERE o.n >= 5 OR o.u = 'u1')", "text"),
    }
    helpers = (
        "CREATE FUNCTION raised(s text) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS "
        "$f$ BEGIN IF s = 'x' THEN RAISE 'no'; END IF; RETURN true; END $f$",
        "CREATE FUNCTION inlined(s text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $f$ SELECT CAST(s AS bigint) $f$",
        "CREATE DOMAIN digits AS text CHECK (VALUE ~ '^[0-9]+$')",
        "CREATE TYPE listed AS ENUM ('1', '2', '30', '4')",
        "CREATE FUNCTION compared(a text, b bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS "
        "$f$ SELECT CAST(a AS bigint) = b $f$",
        "CREATE OPERATOR = (LEFTARG = text, RIGHTARG = bigint, FUNCTION = compared)",
    )
    base = (*helpers, "CREATE TABLE b (u text, s text, n bigint)", "INSERT INTO b VALUES {rows}")
    for name, (expression, row) in expressions.items():
        view = f"CREATE VIEW t AS SELECT u, n, {expression} AS c FROM b"
        yield Definition(f"view {name}", (*base, view), row)
        over = (view.replace("VIEW t", "VIEW v"), "CREATE VIEW t AS SELECT u, n, c FROM v")
        yield Definition(f"view over view {name}", (*base, *over), row)
        unseen = (view.replace("VIEW t", "VIEW v").replace("SELECT u", "SELECT u, s"),)
        over = (*unseen, "CREATE VIEW t AS SELECT u, s, n FROM v WHERE c IS NOT NULL")
        yield Definition(f"view that filters a view {name}", (*base, *over), row)
        chosen = f"CREATE VIEW t AS SELECT u, s, n FROM b WHERE ({expression}) IS NOT NULL"
        yield Definition(f"view where {name}", (*base, chosen), row)
        if name != "subquery":
            table = tuple(each.replace("TABLE b", "TABLE t").replace("INTO b", "INTO t") for each in base)
            secured = ("ALTER TABLE t ENABLE ROW LEVEL SECURITY", "GRANT SELECT ON t TO reader")
            policy = f"CREATE POLICY p ON t USING (({expression}) IS NOT NULL)"
            yield Definition(f"policy {name}", (*table, *secured, policy), row)
            barrier = f"CREATE VIEW t WITH (security_barrier) AS SELECT u, s, n FROM b WHERE ({expression}) IS NOT NULL"
            yield Definition(f"security barrier {name}", (*base, barrier), row)
        immutable = name in ("cast", "empty", "short cast", "division", "remainder", "product", "numeric", "logarithm")
        if version >= 180000 and immutable:
            column = f", c text GENERATED ALWAYS AS (CAST({expression} AS text)) VIRTUAL)"
            made = (
                base[-2].replace("TABLE b", "TABLE t")[:-1] + column,
                base[-1].replace("INTO b", "INTO t (u, s, n)"),
            )
            yield Definition(f"generated {name}", made, row)
            view = "CREATE VIEW t AS SELECT u, s, n, c FROM g"
            made = (
                base[-2].replace("TABLE b", "TABLE g")[:-1] + column,
                base[-1].replace("INTO b", "INTO g (u, s, n)"),
            )
            yield Definition(f"view of a generated column {name}", (*made, view), row)
    for name, select in {
        "own operator": "SELECT u, s, n FROM b WHERE s = n",
        "union": "SELECT u, CAST(s AS bigint) AS c, n FROM b UNION ALL SELECT 'u9', 1, 2",
        "join": "SELECT b.u, b.n FROM b JOIN (SELECT 1 AS k) AS k ON CAST(b.s AS bigint) = k.k",
        "limit": "SELECT u, s, n FROM b ORDER BY CAST(s AS bigint) LIMIT 3",
        "subquery": "SELECT u, s, n FROM b WHERE (SELECT count(CAST(s AS bigint)) FROM b) > 0",
        "exists": "SELECT u, s, n FROM b WHERE NOT EXISTS (SELECT FROM b AS o WHERE o.s::int < 0)",
        "group": "SELECT u, sum(CAST(s AS bigint))::bigint AS n FROM b GROUP BY u",
        "having": "SELECT u, count(*) AS n FROM b GROUP BY u HAVING sum(CAST(s AS bigint)) > 0",
        "window": "SELECT u, n, sum(CAST(s AS bigint)) OVER () AS c FROM b",
        "with": "WITH w AS MATERIALIZED (SELECT u, CAST(s AS bigint) AS n FROM b) SELECT u, n FROM w",
        "lateral": "SELECT u, n, c FROM b, LATERAL (SELECT CAST(s AS bigint) AS c) AS x",
        "series": "SELECT u, n, c FROM b, generate_series(1, CAST(s AS bigint)) AS c",
        "case": "SELECT u, n, CASE WHEN n > 0 THEN CAST(s AS bigint) END AS c FROM b",
        "coalesce": "SELECT u, n, COALESCE(CAST(s AS bigint), 0) AS c FROM b",
        "array": "SELECT u, n, ARRAY[CAST(s AS bigint)] AS c FROM b",
    }.items():
        row = "text"
        yield Definition(f"view {name}", (*base, f"CREATE VIEW t AS {select}"), row)


def spark_definitions() -> Iterator[Definition]:
    """Yield definitions of tables and views of Spark's catalogue; `{folder}` is a folder of their own."""
    expressions = {
        "cast": ("CAST(s AS BIGINT)", "text"),
        "empty": ("CAST(s AS BIGINT)", "nothing"),
        "short cast": ("CAST(n AS INT)", "large"),
        "division": ("6 / n", "zero"),
        "remainder": ("6 % n", "zero"),
        "product": ("n * 4", "large"),
        "date": ("CAST(concat('2024-01-0', left(s, 1)) AS DATE)", "text"),
        "moment": ("to_timestamp(concat('2024-01-0', left(s, 1)), 'yyyy-MM-dd')", "text"),
        "raised": ("CASE WHEN s = 'x' THEN raise_error('no') ELSE 1 END", "text"),
        "asserted": ("assert_true(s <> 'x')", "text"),
        "decimal": ("CAST(n AS DECIMAL(4, 2))", "large"),
        "element": ("element_at(array(s, s, s, s, s), CAST(n % 6 AS INT))", "zero"),
        "regular expression": ("'a' RLIKE CASE WHEN s = 'x' THEN '(' ELSE 'a' END", "text"),
        "number": ("to_number(s, '99')", "text"),
    }
    base = ("CREATE TABLE {b} (u STRING, s STRING, n BIGINT) USING parquet", "INSERT INTO {b} VALUES {rows}")
    for name, (expression, row) in expressions.items():
        for kind in ("VIEW", "TEMPORARY VIEW"):
            view = f"CREATE {kind} {{t}} AS SELECT u, n, {expression} AS c FROM {{b}}"
            yield Definition(f"{kind} {name}", (*base, view), row)
        view = f"CREATE VIEW {{v}} AS SELECT u, n, {expression} AS c FROM {{b}}"
        yield Definition(f"view over view {name}", (*base, view, "CREATE VIEW {t} AS SELECT u, n, c FROM {v}"), row)
        if name != "asserted":
            chosen = f"CREATE VIEW {{t}} AS SELECT u, s, n FROM {{b}} WHERE CAST({expression} AS STRING) <> ''"
            yield Definition(f"view where {name}", (*base, chosen), row)
    for name, select in {
        "compared with a number": "SELECT u, s, n FROM {b} WHERE s = 1",
        "union": "SELECT u, s, n FROM {b} UNION ALL SELECT 'u9', 5, 6",
        "join": "SELECT b.u, b.n FROM {b} AS b JOIN (SELECT 1 AS k) AS k ON b.s = k.k",
        "limit": "SELECT u, s, n FROM {b} ORDER BY CAST(s AS BIGINT) LIMIT 3",
        "subquery": "SELECT u, s, n FROM {b} WHERE (SELECT count(CAST(s AS BIGINT)) FROM {b}) > 0",
        "group": "SELECT u, sum(CAST(s AS BIGINT)) AS n FROM {b} GROUP BY u",
        "window": "SELECT u, n, sum(CAST(s AS BIGINT)) OVER () AS c FROM {b}",
        "exploded": "SELECT u, n, explode(array(CAST(s AS BIGINT))) AS c FROM {b}",
        "lateral": "SELECT u, n, c FROM {b} LATERAL VIEW explode(array(CAST(s AS BIGINT))) AS c",
        "with": "WITH w AS (SELECT u, CAST(s AS BIGINT) AS n FROM {b}) SELECT u, n FROM w",
        "transform": "SELECT u, n, transform(array(s), x -> CAST(x AS BIGINT)) AS c FROM {b}",
    }.items():
        row = "text"
        yield Definition(f"view {name}", (*base, f"CREATE VIEW {{t}} AS {select}"), row)
    for native in ("BIGINT", "INT", "DATE", "DOUBLE"):
        # The files have another type than the table: an unrelated table was stored in its folder.
        stored = ("CREATE TABLE {b} (u STRING, s STRING, n BIGINT) USING parquet LOCATION '{folder}'",)
        declared = f"CREATE TABLE {{t}} (u STRING, s {native}, n BIGINT) USING parquet LOCATION '{{folder}}'"
        yield Definition(f"files of another type than {native}", (*stored, base[1], declared), "text")
    for form, options in {"csv": ", mode 'FAILFAST'", "json": ", mode 'FAILFAST'"}.items():
        stored = (f"CREATE TABLE {{b}} (u STRING, s STRING, n BIGINT) USING {form} LOCATION '{{folder}}'",)
        declared = (
            f"CREATE TABLE {{t}} (u STRING, s BIGINT, n BIGINT) USING {form} OPTIONS (path '{{folder}}'{options})"
        )
        yield Definition(f"{form} that fails fast", (*stored, base[1], declared), "text")


def write_duckdb(definition: Definition, folder: Path, hostile: bool) -> str:
    """Build a definition in a DuckDB file, and return its source."""
    import duckdb

    path = folder / f"{hostile}.duckdb"
    with duckdb.connect(path) as connection:
        build(definition, connection.execute, hostile)
    return f"{path}::{definition.table}"


def write_sqlite(definition: Definition, folder: Path, hostile: bool) -> str:
    """Build a definition in a SQLite file, and return its source."""
    path = folder / f"{hostile}.sqlite"
    connection: Any = sqlite3.connect(path)
    with connection:
        build(definition, connection.execute, hostile)
    connection.close()
    return f"{path}::{definition.table}"
