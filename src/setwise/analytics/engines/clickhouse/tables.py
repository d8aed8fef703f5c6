"""Lookup of tables and views in ClickHouse's catalogue, and storage of prepared datasets.

A prepared dataset (a stored random ranking of each user's groups) is a MergeTree table; its comment is the manifest.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

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
"""Statement for a table's row in the catalogue and its columns.

`converted` counts unfinished changes of a column's type, and columns of parts that are stored in an earlier type.
"""
_COMMENT = f"SELECT comment FROM system.tables WHERE {_HERE} AND name = {{table:String}}"
_MATCHING = f"SELECT name FROM system.tables WHERE {_HERE} AND match(name, {{table:String}}) ORDER BY name"
_POLICIES = """
    SELECT select_filter AS condition FROM system.row_policies
    WHERE (empty(database) OR database = if(empty({database:String}), currentDatabase(), {database:String}))
        AND (empty(table) OR table = {table:String} OR table LIKE '%*%') AND notEmpty(select_filter)
"""
_STORED = ("Memory", "Log", "TinyLog", "StripeLog")
_OF_OTHERS = re.compile(r"(Merge|Buffer)\('([^'\\\\]+)', '([^'\\\\]+)'[,)]")
"""Pattern of the definition of a table over other tables: its engine, their database, and their name or pattern."""
_TOTAL_OF_TIMES = re.compile(
    r"(to(?:Date|Date32|Year|Quarter|Month|Hour|YYYYMM|YYYYMMDD|Monday|StartOf\w+))\(`?(\w+)`?\)"
)
"""Pattern of a call of one of the functions of a date or time that cannot fail."""
_TIME = re.compile(r"(?:Nullable\()?(?:Date|Date32|DateTime(?:\('[\w/+-]+'\))?)\)?")
"""Pattern of the types that these functions accept with any value."""
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
    """A column of a ClickHouse table: its type `native`, and `computed`, True if reading a row may compute it."""

    native: str
    computed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Definition:
    """A table or view as ClickHouse's catalogue defines it.

    - `engine` is ClickHouse's table engine, such as MergeTree, and `engine_text` is the engine with its arguments.
    - `rows` is the number of rows, or None if unknown.
    - `comment` is the table's comment. In a prepared dataset (a stored random ranking of each user's groups) it holds
      the description of the dataset.
    - `select` is the SELECT statement of a view, or "" for a table.
    - `current_database` is the database in which ClickHouse looks up a table that is named without its database.
    - `columns` maps the name of each column to its type and whether it is computed.
    - `converted` says whether ClickHouse converts rows while it reads them, because they were stored when a column had
      another type.
    - `reads` has the names, with their databases, of this table and of all tables below it. Those below are known only
      after the check of a view, or of a table over other tables.
    """

    engine: str
    rows: int | None
    comment: str
    engine_text: str
    select: str
    current_database: str
    columns: dict[str, _Column]
    converted: bool
    reads: frozenset[str]

    @property
    def stored(self) -> dict[str, _Column]:
        """The columns whose values ClickHouse reads from storage and does not compute while it reads."""
        return {name: column for name, column in self.columns.items() if not column.computed}


class ClickHouseCatalogue:
    """Lookup of tables in ClickHouse's catalogue; a table is refused if the values in one row could make a query fail.

    The failure of a query would reveal these values.
    - `ask` runs a SQL statement and returns the columns of its result.
    - `has_policies` is False for a ClickHouse whose tables cannot have row policies.

    Only the catalogue is read, never rows.
    """

    def __init__(self, ask: Ask, *, has_policies: bool = True) -> None:
        self._ask = ask
        self._has_policies = has_policies
        self._total: dict[tuple[str, str, str], bool] = {}
        """Whether a default expression cannot fail, by its text, the type of its column and that of its argument."""

    def find(self, table: str) -> Relation:
        """Return the `Relation` (SQL text and columns) of a table, or of a view that shows plain columns of a table.

        `table` is its name with or without a database. Columns that ClickHouse may compute while it reads rows are left
        out, because the computation could fail on a row and so reveal that the row exists.

        Raises: `UnsuitableTable` if there is no such table or view, or if one row could make reading it fail.
        """
        definition = self._check_table(table)
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
            reads=definition.reads,
        )

    def _check_table(self, table: str) -> _Definition:
        """Return the catalogue's definition of `table`, with the names of all tables below it.

        Raises: `UnsuitableTable` if the table does not exist, or if reading it could fail because of the values in a
        row.
        """
        definition = self._definition(table)
        if definition.engine == "View":
            definition = replace(definition, reads=definition.reads | self._check_view(table, definition))
        elif definition.engine in ("Merge", "Buffer"):
            definition = replace(definition, reads=definition.reads | self._check_tables_below(table, definition))
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
        """Return the catalogue's definition of `table`, which may be a view.

        Raises: `UnsuitableTable` if this login (the database user) sees no table of this name.
        """
        result = self._ask(_DEFINITION, _parts(table))
        if not result:
            raise UnsuitableTable(f"ClickHouse has no table {table!r} that this login may see")
        row = {name: values[0] for name, values in result.items()}
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
            reads=frozenset({f"{_parts(table)['database'] or row['current']}.{_parts(table)['table']}"}),
        )

    def _is_total(self, expression: str, native: str, natives: Mapping[str, str]) -> bool:
        """Return whether `expression`, the default value of a column of type `native`, cannot fail on any row.

        `natives` maps each column of the table to its ClickHouse type. Only two kinds of expressions are known not to
        fail: constants of the type `native`, and a few functions of a date or time column, if they return `native`.
        """
        # ClickHouse computes the default as it reads parts written before the column was added. Whether there are such
        # parts depends on rows, so it is not checked.
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
            except EngineFailed:  # the expression refers to a column, or fails even without one
                self._total[key] = False
        return self._total[key]

    def _check_view(self, table: str, definition: _Definition) -> frozenset[str]:
        """Return the names, with their databases, of the tables below the view `table`.

        `definition` is the view's entry in the catalogue.
        Raises: `UnsuitableTable` if the view does more than show columns of one table with their types: a view that
        computes or converts values could fail on a row, and so reveal its values.
        """
        database = _parts(table)["database"] or definition.current_database
        below: dict[str, _Column] = {}
        reads: set[str] = set()

        def columns_of(schema: str, name: str) -> dict[str, Kind]:
            """Return {column: type} of the table `name` in the database `schema`, which the checked view reads.

            An empty `schema` means the view's own database. The table's stored columns are also kept, so that the types
            of the view's columns can be compared with theirs afterwards.
            """
            checked = self._check_table(f"{schema or database}.{name}")
            below.update(checked.stored)
            reads.update(checked.reads)
            return _kinds(below)

        view_columns = plain_view(definition.select, "clickhouse", columns_of)
        if view_columns is None or definition.columns != {name: below[source] for name, source in view_columns.items()}:
            raise refuse_view(table, "store its rows in a MergeTree table")
        return frozenset(reads)

    def _check_tables_below(self, table: str, definition: _Definition) -> frozenset[str]:
        """Return the names, with their databases, of the tables below `table`, a Merge or Buffer table.

        Merge and Buffer tables show the rows of other tables. Each of those tables must store all columns of `table`,
        with the same types; it may have more columns. If a type differs, ClickHouse converts values while it reads, and
        a conversion can fail on a value and so reveal the value. `definition` is the entry of `table` in the catalogue.
        Raises: `UnsuitableTable` if a type differs.
        """
        matched = _OF_OTHERS.match(definition.engine_text)
        names = [] if matched is None else [matched[3]]
        if matched is not None and matched[1] == "Merge":
            matches = self._ask(_MATCHING, {"database": matched[2], "table": matched[3]})
            this_table = (_parts(table)["database"] or definition.current_database, _parts(table)["table"])
            names = [str(name) for name in matches.get("name", ()) if (matched[2], name) != this_table]
        alike = bool(names)
        reads: set[str] = set()
        for name in names:
            assert matched is not None
            below = self._check_table(f"{matched[2]}.{name}")
            alike = alike and definition.columns.items() <= below.stored.items()
            reads |= below.reads
        if not alike:
            raise UnsuitableTable(
                f"{table!r} reads tables that have other columns or types, so rows are converted as they are read and "
                "one row could make every question fail: name one of those tables, or give them the same columns"
            )
        return frozenset(reads)

    def _check_policies(self, table: str, definition: _Definition) -> None:
        """Raise `UnsuitableTable` if a row policy (a filter that the server adds to every query) could fail on a row.

        The failure would reveal values of the row. The error is also raised if this login (the database user) may not
        list policies, because they can then not be checked. `table` is the table's name, and `definition` its entry in
        the catalogue.
        """
        # chDB keeps users in its own configuration, which has no policies; nobody can create or list one there.
        if not self._has_policies:
            return
        try:
            # The plan of a query shows the policies only if the table has rows, so the first row would decide a
            # refusal.
            conditions = [str(condition) for condition in self._ask(_POLICIES, _parts(table)).get("condition", ())]
        except EngineFailed:
            raise UnsuitableTable(
                f"the row policies of {table!r} cannot be listed by this login, so one row could make every question "
                "fail unseen: GRANT SHOW ROW POLICIES ON *.* to the login"
            ) from None
        for condition in conditions:
            parsed = parsed_condition(condition, "clickhouse")
            if parsed is None or not cannot_fail(parsed, _kinds(definition.stored)):
                raise UnsuitableTable(
                    f"a row policy of {table!r} computes something, so one row could make every question fail: let the "
                    "policy compare columns with constants, or copy the rows to a table without a policy"
                )


def _kinds(columns: Mapping[str, _Column]) -> dict[str, Kind]:
    """Return the type (`Kind`) of each of `columns`, the columns of a ClickHouse table by name."""
    return {name: clickhouse_column(name, column.native).kind for name, column in columns.items()}


def table_fingerprint(ask: Ask, table: str) -> str:
    """Return a digest that changes when the rows of a ClickHouse table change.

    The function `ask` runs a SQL statement. `table` is the table's name.

    Raises: `UnsuitableTable` if the table is not a MergeTree table, because its changes could not be noticed.
    """
    identity = ask(_UUID, _parts(table))
    if not identity or not identity["parted"][0]:
        raise UnsuitableTable(f"{table!r} is no MergeTree table, so changes of it would not be noticed: prepare one")
    # For each partition: the number of rows, the block numbers and the last mutation. Background merges change none of
    # them.
    partitions = ask(_PARTS, _parts(table))
    facts = [str(identity["uuid"][0]), *(list(map(str, column)) for column in partitions.values())]
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def store_table(ask: Ask, table: str, prepared: str, parameters: dict[str, object], manifest: Manifest) -> None:
    """Create the prepared dataset `table` (a random ranking of each user's groups) from the SQL statement `prepared`.

    An earlier prepared dataset of that name is replaced. `ask` runs a SQL statement, `parameters` are the parameters of
    the statement `prepared`, and `manifest`, the description of the dataset, becomes the table's comment.

    Raises: `InvalidParameter` if `table` exists and is not a prepared dataset.
    """
    existing = ask(_COMMENT, _parts(table))
    if existing and not str(existing["comment"][0]).startswith(MARK):
        raise not_replaceable(table)
    comment = (MARK + manifest.to_text()).replace("\\", "\\\\").replace("'", "\\'")
    creation = f"CREATE OR REPLACE TABLE {_quoted_table(table)} ENGINE = MergeTree ORDER BY rank COMMENT '{comment}'"
    ask(f"{creation} AS {prepared}", parameters)


def _parts(table: str) -> dict[str, str]:
    """Return {"database": ..., "table": ...}, the statement parameters for the name `table`, such as shop.visits.

    The database is "" if the name has none.
    """
    database, _, name = table.rpartition(".")
    return {"database": database, "table": name}


def _quoted_table(table: str) -> str:
    """Return the name of a table, quoted for SQL, with its database if the name has one."""
    return ".".join(quoted(part) for part in _parts(table).values() if part)
