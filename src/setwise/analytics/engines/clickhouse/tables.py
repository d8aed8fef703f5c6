"""Tables and views of ClickHouse in its catalogue, and prepared datasets.

A prepared dataset is a MergeTree table whose comment is the manifest.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass

from setwise.analytics.engines.clickhouse.connection import Ask
from setwise.analytics.engines.clickhouse.dialect import clickhouse_column, quoted
from setwise.analytics.engines.definitions import cannot_fail, parsed_condition, plain_view, refuse_view
from setwise.analytics.engines.joins import Relation
from setwise.analytics.engines.prepared import MARK, Manifest, not_replaceable
from setwise.analytics.schema import Kind, Schema
from setwise.errors import EngineFailed, UnsuitableTable

_HERE = "database = if(empty({database:String}), currentDatabase(), {database:String})"
_DEFINITION = f"""
    SELECT engine, total_rows, comment, engine_full, as_select, currentDatabase() AS current,
        (SELECT groupArray((name, type, default_kind, default_expression, stored)) FROM (
            SELECT name, type, default_kind, default_expression, is_in_partition_key OR is_in_primary_key AS stored
            FROM system.columns WHERE {_HERE} AND table = {{table:String}} ORDER BY position
        )) AS columns,
        (SELECT count() FROM system.mutations
            WHERE {_HERE} AND table = {{table:String}} AND NOT is_done AND command LIKE '%MODIFY COLUMN%'
        ) + (SELECT count() FROM system.parts_columns
            WHERE active AND {_HERE} AND table = {{table:String}} AND (column, type) NOT IN (
                SELECT name, type FROM system.columns WHERE {_HERE} AND table = {{table:String}}
            ) AND column IN (SELECT name FROM system.columns WHERE {_HERE} AND table = {{table:String}})
        ) AS converted
    FROM system.tables WHERE {_HERE} AND name = {{table:String}}
"""
"""A table's row in the catalogue, its columns, and `converted`: the number of unfinished changes of a column's type and
of columns of parts that are stored in an earlier type."""
_COMMENT = f"SELECT comment FROM system.tables WHERE {_HERE} AND name = {{table:String}}"
_MATCHING = f"SELECT name FROM system.tables WHERE {_HERE} AND match(name, {{table:String}}) ORDER BY name"
_POLICIES = """
    SELECT select_filter AS condition FROM system.row_policies
    WHERE (empty(database) OR database = if(empty({database:String}), currentDatabase(), {database:String}))
        AND (empty(table) OR table = {table:String} OR table LIKE '%*%') AND notEmpty(select_filter)
"""
_STORED = ("Memory", "Log", "TinyLog", "StripeLog")
_OF_OTHERS = re.compile(r"(Merge|Buffer)\('([^'\\\\]+)', '([^'\\\\]+)'[,)]")
"""The definition of a table over other tables: its engine, their database, and their name or a pattern of names."""
_TOTAL_OF_TIMES = re.compile(
    r"(to(?:Date|Date32|Year|Quarter|Month|Hour|YYYYMM|YYYYMMDD|Monday|StartOf\w+))\(`?(\w+)`?\)"
)
"""Functions of a date or time that cannot fail."""
_TIME = re.compile(r"(?:Nullable\()?(?:Date|Date32|DateTime(?:\('[\w/+-]+'\))?)\)?")
"""Types of times that these functions take whatever they hold."""
_PARTS = f"""
    SELECT partition_id, sum(rows) AS held, min(min_block_number) AS first, max(max_block_number) AS last,
        maxIf(data_version, data_version > max_block_number) AS mutated
    FROM system.parts
    WHERE active AND {_HERE} AND table = {{table:String}}
    GROUP BY partition_id ORDER BY partition_id
"""
_UUID = f"""
    SELECT uuid, engine LIKE '%MergeTree' AS parted FROM system.tables
    WHERE {_HERE} AND name = {{table:String}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """A column of the catalogue: its type as ClickHouse writes it, and whether reading it may compute it."""

    native: str
    computed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Definition:
    """A table as the catalogue defines it, with its columns by name."""

    engine: str
    rows: int | None
    comment: str
    engine_text: str
    """The engine with its arguments."""
    select: str
    """The SELECT of a view."""
    current_database: str
    columns: dict[str, _Column]
    converted: bool
    """Whether rows of an earlier type of a column are converted as they are read."""

    @property
    def stored(self) -> dict[str, _Column]:
        """The columns that are read as they are stored."""
        return {name: column for name, column in self.columns.items() if not column.computed}


class ClickHouseCatalogue:
    """Looks tables up and refuses those that one row could make fail, from the catalogue alone."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._total: dict[tuple[str, str, str], bool] = {}
        """Whether a default expression has a value for every row, by its text, its column's type and its argument's."""
        self._sees_policies = True

    def find(self, table: str) -> Relation:
        """Look up a table or plain view by its name, with or without a database.

        Raises `UnsuitableTable` for a table that converts or computes rows as it reads them, so that one row could make
        every question fail. Columns that ClickHouse may compute as it reads are left out.
        """
        definition = self._checked(table)
        columns = tuple(clickhouse_column(name, column.native) for name, column in definition.stored.items())
        reason = (
            "ClickHouse computes it from other columns as it reads old rows, so one row could make every question "
            "fail: run ALTER TABLE ... MATERIALIZE COLUMN and then MODIFY COLUMN ... REMOVE DEFAULT, or copy the table"
        )
        return Relation(
            text=_quoted_table(table),
            schema=Schema(
                columns, left_out=dict.fromkeys(definition.columns.keys() - definition.stored.keys(), reason)
            ),
            rows=definition.rows,
            manifest=Manifest.in_comment(definition.comment),
            origin=table,
        )

    def _checked(self, table: str) -> _Definition:
        """Return the definition of a table, or raise `UnsuitableTable` unless no row can make reading it fail."""
        definition = self._definition(table)
        if definition.engine == "View":
            self._check_view(table, definition)
        elif definition.engine in ("Merge", "Buffer"):
            self._check_tables_below(table, definition)
        elif not definition.engine.endswith("MergeTree") and definition.engine not in _STORED:
            raise UnsuitableTable(
                f"{table!r} is a table of the engine {definition.engine}, whose rows are converted as they are read or "
                "are read from other tables: name the table that stores the rows, or copy them to a MergeTree table"
            )
        if definition.converted:
            raise UnsuitableTable(
                f"the type of a column of {table!r} is being changed, and old rows are converted as they are read: "
                "wait until ALTER TABLE ... MODIFY COLUMN has finished, or stop it with KILL MUTATION"
            )
        self._check_policies(table, definition)
        return definition

    def _definition(self, table: str) -> _Definition:
        found = self._ask(_DEFINITION, _parts(table))
        if not found:
            raise UnsuitableTable(f"ClickHouse has no table {table!r} that this login may see")
        row = {name: values[0] for name, values in found.items()}
        natives = {str(name): str(native) for name, native, *_ in row["columns"]}
        return _Definition(
            engine=str(row["engine"]),
            rows=None if row["total_rows"] is None else int(row["total_rows"]),
            comment=str(row["comment"]),
            engine_text=str(row["engine_full"]),
            select=str(row["as_select"]),
            current_database=str(row["current"]),
            columns={
                str(name): _Column(
                    native=str(native),
                    computed=bool(kind and not stored and not self._is_total(str(text), str(native), natives))
                    or kind in ("ALIAS", "EPHEMERAL"),
                )
                for name, native, kind, text, stored in row["columns"]
            },
            converted=bool(row["converted"]),
        )

    def _is_total(self, expression: str, native: str, natives: Mapping[str, str]) -> bool:
        """Return whether the default expression of a column of type `native` has a value for every row.

        A part of a MergeTree table that was written before a column was added lacks the column, and ClickHouse computes
        the column's DEFAULT or MATERIALIZED expression as it reads the part. Only the definition counts here, not the
        parts, for whether there is such a part depends on rows. Constants cannot fail, nor can a few functions of
        times. `natives` are the types of all columns of the table, by name.
        """
        of_time = _TOTAL_OF_TIMES.fullmatch(expression)
        source = "" if of_time is None else natives.get(of_time[2], "")
        key = (expression, native, source)
        if key not in self._total:
            if of_time is not None:
                known = bool(_TIME.fullmatch(source))
                statement = f"SELECT toTypeName({of_time[1]}(x)) = {{native:String}} AS fits "
                statement += f"FROM (SELECT CAST(0 AS {source}) AS x)"
            else:
                known = True
                statement = f"SELECT isConstant(CAST({expression} AS {native})) AS fits"
            try:
                self._total[key] = known and list(self._ask(statement, {"native": native})["fits"]) == [1]
            except EngineFailed:  # the expression names a column, or fails by itself
                self._total[key] = False
        return self._total[key]

    def _check_view(self, table: str, definition: _Definition) -> None:
        """Raise `UnsuitableTable` unless a view shows plain columns, in the types that the table below has."""
        database = _parts(table)["database"] or definition.current_database
        below: dict[str, _Column] = {}

        def columns_of(schema: str, name: str) -> dict[str, Kind]:
            below.update(self._checked(f"{schema or database}.{name}").stored)
            return _kinds(below)

        shown = plain_view(definition.select, "clickhouse", columns_of)
        if shown is None or definition.columns != {name: below[source] for name, source in shown.items()}:
            raise refuse_view(table, "store its rows in a MergeTree table")

    def _check_tables_below(self, table: str, definition: _Definition) -> None:
        """Raise `UnsuitableTable` unless all tables below a Merge or Buffer table store its columns in its types."""
        matched = _OF_OTHERS.match(definition.engine_text)
        names = [] if matched is None else [matched[3]]
        if matched is not None and matched[1] == "Merge":
            found = self._ask(_MATCHING, {"database": matched[2], "table": matched[3]})
            own = (_parts(table)["database"] or definition.current_database, _parts(table)["table"])
            names = [str(name) for name in found.get("name", ()) if (matched[2], name) != own]
        alike = bool(names)
        for name in names:
            assert matched is not None
            below = self._checked(f"{matched[2]}.{name}").stored
            alike = alike and definition.columns.items() <= below.items()
        if not alike:
            raise UnsuitableTable(
                f"{table!r} reads tables that have other columns or types, so rows are converted as they are read and "
                "one row could make every question fail: name one of those tables, or give them the same columns"
            )

    def _check_policies(self, table: str, definition: _Definition) -> None:
        """Raise `UnsuitableTable` if a row policy of a table could fail on a row.

        A login that may not list the policies learns from the plan of a query whether there is one, and then the table
        is refused. The plan for an empty table does not tell.
        """
        conditions: list[str] = []
        if self._sees_policies:
            try:
                conditions = [str(each) for each in self._ask(_POLICIES, _parts(table)).get("condition", ())]
            except EngineFailed:
                self._sees_policies = False
        if not self._sees_policies:
            plan = self._ask(f"EXPLAIN actions = 1 SELECT * FROM {_quoted_table(table)}", {})
            lines = [str(line).strip(" │└─").lower() for line in next(iter(plan.values()), ())]
            conditions = [line for line in lines if line.startswith(("row level filter", "filter (row-level"))]
        for condition in conditions:
            parsed = parsed_condition(condition, "clickhouse")
            if parsed is None or not cannot_fail(parsed, _kinds(definition.stored)):
                raise UnsuitableTable(
                    f"a row policy of {table!r} computes something or cannot be seen by this login, so one row could "
                    "make every question fail: let the policy compare columns with constants and GRANT SHOW ROW "
                    "POLICIES ON *.*, or copy the rows to a table without a policy"
                )


def _kinds(columns: Mapping[str, _Column]) -> dict[str, Kind]:
    return {name: clickhouse_column(name, column.native).kind for name, column in columns.items()}


def table_fingerprint(ask: Ask, table: str) -> str:
    """Return a digest of which table it is, and of the rows, block numbers and last mutation of its partitions.

    Merges in the background leave all of them as they are.
    """
    found = ask(_UUID, _parts(table))
    if not found or not found["parted"][0]:
        raise UnsuitableTable(f"{table!r} is no MergeTree table, so changes of it would not be noticed: prepare one")
    held = ask(_PARTS, _parts(table))
    told = [str(found["uuid"][0]), *(list(map(str, column)) for column in held.values())]
    return hashlib.sha256(repr(told).encode()).hexdigest()


def store_table(ask: Ask, table: str, prepared: str, parameters: dict[str, object], manifest: Manifest) -> None:
    """Make the table with the manifest as its comment, in place of a prepared dataset of that name."""
    there = ask(_COMMENT, _parts(table))
    if there and not str(there["comment"][0]).startswith(MARK):
        raise not_replaceable(table)
    told = (MARK + manifest.written()).replace("\\", "\\\\").replace("'", "\\'")
    made = f"CREATE OR REPLACE TABLE {_quoted_table(table)} ENGINE = MergeTree ORDER BY rank COMMENT '{told}'"
    ask(f"{made} AS {prepared}", parameters)


def _parts(table: str) -> dict[str, str]:
    """Return the database, empty for that of the connection, and the name in it, as parameters."""
    database, _, name = table.rpartition(".")
    return {"database": database, "table": name}


def _quoted_table(table: str) -> str:
    return ".".join(quoted(part) for part in _parts(table).values() if part)
