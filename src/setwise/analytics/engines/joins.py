"""Joins of a private table with others, such that every row of the result belongs to exactly one user.

A public table may be joined on any column: each of its rows then belongs to the user of the private row that it
matches. Another private table has users of its own, so it is joined on the user column, and on other columns only in
addition. Contributions are bounded after the join, so the number of rows that match a key does not matter for privacy.

The rules, the names of the result's columns and the SQL are here, for every engine. An engine opens the tables one by
one, and describes the columns of each as a `JoinInput`. Then it reads the SQL of `JoinedTables.statement`, a subquery,
as if it were one table.

Keys are compared only if they have the same type. In a CSV file every column is text. So DuckDB and Spark, which read
files, first convert a text key of a public table to the type of the other key: the text 07 -> 7 beside an integer, and
text that is no integer -> null, as TRY_CAST does (`types_of_keys` says which keys). Then the SQL brings keys into a
form in which equal values are equal on every engine: users by `Dialect.user`, text by `Dialect.label`, and other types
by `Dialect.operand`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from setwise.analytics.engines.derived_tables import DerivedTable
from setwise.analytics.engines.dialect import Dialect
from setwise.analytics.engines.prepared import PREPARED_DERIVED, PREPARED_JOINED, Manifest
from setwise.analytics.engines.row_sql import check_condition, compile_expression
from setwise.analytics.rows.derivation import NOT_DERIVED, Derivation
from setwise.analytics.rows.expression import RowExpression, columns_of, expression_text
from setwise.analytics.schema import Column, Kind, Schema
from setwise.errors import InvalidParameter, UnknownColumn, UnsuitableTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One condition of a join: `column` of an earlier table must equal `joined`, a column of the added table.

    Earlier tables are those that the join already has. Null equals nothing, so rows with null in a key have no match.
    `earlier` names the table that has `column`. It may be None if exactly one of the earlier tables of the join has a
    column of that name.
    """

    column: str
    joined: str
    earlier: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """One join: the name of the table to join (`table`), and the `keys` by which its rows match rows of earlier tables.

    - `keeps_all` makes a LEFT JOIN: rows of the earlier tables without a match are kept.
    - `where` is a condition over the columns of the joined table. Only rows that satisfy it are joined.
    - `match_column` names a column of the result that is 1 in rows with a match, and null in others. None adds no such
      column.
    - `once` joins every earlier row at most once, even if several rows match, and adds no column but `match_column`. So
      the join only tests whether a match exists.
    - `alias` is the name of the joined table in the result, if it is not `table`.
    - `rows` are steps that compute the rows to join from the rows of `table`, such as one row per user. Each computed
      row comes from the rows of one user, so only a private table has such steps.

    Raises: `InvalidParameter` if there are no keys.
    """

    table: str
    keys: tuple[Key, ...]
    keeps_all: bool = False
    where: RowExpression | None = None
    match_column: str | None = None
    once: bool = False
    alias: str | None = None
    rows: Derivation = NOT_DERIVED

    def __post_init__(self) -> None:
        if not self.keys:
            raise InvalidParameter(f"say by which columns {self.table!r} is joined: USING (column)")

    @property
    def name(self) -> str:
        """The name of the joined table in the join's result."""
        return self.table if self.alias is None else self.alias

    def to_record(self) -> dict[str, object]:
        """Return the join as a dictionary, which becomes part of the text that identifies a request.

        By this text a repeated request is recognised, so that it is charged only once. Equal joins have equal
        dictionaries. Optional fields that are not set are left out, so that the texts that older versions stored stay
        valid.
        """
        keys = [{"column": key.column, "joined": key.joined, "earlier": key.earlier} for key in self.keys]
        more = {
            "where": None if self.where is None else expression_text(self.where),
            "found": self.match_column,
            "once": self.once or None,
            "called": self.alias,
            "rows": str(self.rows) or None,
        }
        added = {name: value for name, value in more.items() if value is not None}
        return {"table": self.table, "keeps_all": self.keeps_all, "keys": keys, **added}

    def __str__(self) -> str:
        keys = " AND ".join(
            f"{f'{key.earlier}.' if key.earlier else ''}{key.column} = {self.name}.{key.joined}" for key in self.keys
        )
        rows = f"({self.rows} of {self.table})" if self.rows else self.table
        table = rows if self.alias is None else f"{rows} AS {self.alias}"
        where = "" if self.where is None else f" AND {expression_text(self.where)}"
        once = " ONCE" if self.once else ""
        return f"{'LEFT JOIN' if self.keeps_all else 'JOIN'}{once} {table} ON {keys}{where}"


Table = TypeVar("Table")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTable(Generic[Table]):
    """A table of a join: its `name` in the SQL statement, and the object by which an engine reads it (`table`).

    `private` says that its rows belong to users.
    """

    name: str
    table: Table
    private: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A table or join on a database server: its SQL `text` after FROM, and its columns (`schema`).

    - `rows` is the approximate number of rows, or None if metadata does not state it.
    - `manifest` describes a prepared dataset (a stored random ranking of each user's groups). None for other tables.
    - `origin` is the name of the table, by which a fingerprint of it can be computed again later, to notice changes of
      its rows. None for joins and derived tables, whose changes cannot be noticed.
    - `reads` has the names, with their databases, of the table and of all tables below it, if the engine's lookup finds
      them. It is empty for joins and derived tables.
    """

    text: str
    schema: Schema
    rows: int | None
    manifest: Manifest | None = None
    origin: str | None = None
    reads: frozenset[str] = frozenset()

    def derive(self, derivation: Derivation, dialect: Dialect) -> "Relation":
        """Return the relation that results if the steps of `derivation` are applied to this relation.

        A step adds computed columns, for example, or filters rows, or replaces the rows of each user by aggregates of
        them. If there are no steps, this relation is returned. `dialect` writes the SQL of the engine.
        Raises: `UnsuitableTable` for a prepared dataset, which has ranks of users' groups and no rows to derive from.
        """
        if not derivation:
            return self
        if self.manifest is not None:
            raise UnsuitableTable(PREPARED_DERIVED)
        table = DerivedTable(derivation, self.schema, dialect)
        return Relation(text=table.statement(self.text), schema=table.schema, rows=self.rows)

    def check_same(self, now: "Relation") -> None:
        """Raise `UnsuitableTable` if the table was redefined since it was opened.

        `now` is the same table, looked up just now. The table was redefined if its SQL text or its columns differ. A
        prepared dataset (a stored random ranking of each user's groups) was also redefined if its description, the
        manifest, differs.
        """
        if (self.text, self.schema, self.manifest) != (now.text, now.schema, now.manifest):
            raise UnsuitableTable("the table was redefined since it was opened: open it again")


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedColumn:
    """A column of a join's result: its `name` in the result, and the table and column that it comes from.

    `table` is the position of that table in the join, and `column` the `Column` there. If `is_match`, the table has no
    such column: the value is 1 in rows with a match in the table, and null in other rows.
    """

    name: str
    table: int
    column: Column
    is_match: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinInput:
    """One table of a join: its `name`, its columns (`schema`), and whether its rows belong to users (`private`)."""

    name: str
    schema: Schema
    private: bool


class JoinedTables:
    """A join that was checked: its tables, of which the first is private, and the columns of its result.

    - `parts` are the tables, each with its name and columns.
    - `joins` has one join for each table but the first.
    - `user` is the user column.

    In the result, a column whose name occurs in several tables is called TABLE.COLUMN. But if a join compares two
    columns of the same name, as USING does, the result has them as one column.

    Raises: `InvalidParameter` or `UnknownColumn` for a join whose rows would belong to two users, or whose keys cannot
    be compared.
    """

    def __init__(self, parts: Sequence[JoinInput], joins: Sequence[Join], user: str) -> None:
        self._parts = parts
        self._joins = joins
        self._user = user
        names = [part.name for part in parts]
        for name in names:
            if names.count(name) > 1:
                raise InvalidParameter(f"two joined tables are called {name!r}: give one of them an alias, AS other")
        self.keys = tuple(self._key_columns(place + 1, join, user) for place, join in enumerate(joins))
        self.columns = self._name_columns()

    @property
    def schema(self) -> Schema:
        """The columns of the join's result, under the names that they have in the result."""
        return Schema(tuple(replace(each.column, name=each.name) for each in self.columns))

    def statement(self, relations: Sequence[str], dialect: Dialect, columns: Sequence[str] | None = None) -> str:
        """Return the SQL text of the join, in `dialect`, to stand after FROM.

        `relations` are the SQL texts of the tables, in the order of the join, each to stand after FROM. `columns` names
        the columns of the result that are read; None means all. No cell can make the comparison of keys fail.
        """
        # Inside the text, columns get new names, so that equal names cannot clash.
        chosen = list(enumerate(self._select_columns(columns)))
        compared: list[list[tuple[str, str]]] = [[] for _ in self._parts]
        conditions = []
        for number, keys in enumerate(self.keys):
            equal = []
            private = self._parts[number + 1].private
            for place, (earlier, left, right) in enumerate(keys):
                name = f"k{number}_{place}"
                by_user = private and right.name == self._user
                compared[earlier].append((name, _key_sql(left, dialect, by_user)))
                compared[number + 1].append((name, _key_sql(right, dialect, by_user)))
                equal.append(f"t{earlier}.{name} = t{number + 1}.{name}")
            conditions.append(" AND ".join(equal))
        text = ""
        for place, relation in enumerate(relations):
            cells = [
                (f"c{number}", dialect.int64("1") if each.is_match else dialect.name(each.column.name))
                for number, each in chosen
                if each.table == place
            ]
            listed = ", ".join(f"{value} AS {name}" for name, value in [*cells, *compared[place]])
            if place == 0:
                text = f"(SELECT {listed} FROM {relation}) AS t0"
                continue
            join = self._joins[place - 1]
            distinct = "DISTINCT " if join.once else ""
            where = "" if join.where is None else f" WHERE {self._condition_sql(place, join.where, dialect)}"
            word = "LEFT JOIN" if join.keeps_all else "JOIN"
            text += f" {word} (SELECT {distinct}{listed} FROM {relation}{where}) AS t{place} ON {conditions[place - 1]}"
        listed = ", ".join(f"t{each.table}.c{number} AS {dialect.name(each.name)}" for number, each in chosen)
        return f"(SELECT {listed} FROM {text}) AS joined"

    def check_conditions(self, dialect: Dialect) -> None:
        """Raise `InvalidParameter` unless the condition on each joined table's rows (`Join.where`) is well formed.

        That is so if its values are true, false or null, and the types in it fit. `dialect` writes the engine's SQL,
        which decides the type of an expression.
        """
        for place, join in enumerate(self._joins, 1):
            if join.where is not None:
                self._condition_sql(place, join.where, dialect)

    def _condition_sql(self, place: int, condition: RowExpression, dialect: Dialect) -> str:
        """Return the SQL, in `dialect`, of `condition`, which says which rows of table number `place` are joined.

        Tables are numbered from 0 in the order of the join.
        Raises: `InvalidParameter` or `UnknownColumn` if the types of its columns do not fit, or a column is missing.
        """
        value = compile_expression(condition, self._parts[place].schema, dialect)
        check_condition(condition, value)
        return value.sql

    def needed_columns(self, place: int, columns: Sequence[str] | None) -> tuple[str, ...]:
        """Return the names of the columns of table number `place` that must be read for `columns` of the join's result.

        Tables are numbered from 0 in the order of the join. The keys by which the table is joined with others, and the
        columns of the condition on its rows, are included. None for `columns` means all columns of the result.
        """
        keys = [
            column.name
            for number, key in enumerate(self.keys)
            for table, left, right in key
            for at, column in ((table, left), (number + 1, right))
            if at == place
        ]
        where = None if place == 0 else self._joins[place - 1].where
        compared = [] if where is None else list(columns_of(where))
        cells = [each for each in self._select_columns(columns) if each.table == place and not each.is_match]
        return tuple(dict.fromkeys([*(each.column.name for each in cells), *keys, *compared]))

    def _select_columns(self, columns: Sequence[str] | None) -> list[JoinedColumn]:
        """Return the columns of the join's result whose names are in `columns`, or all if `columns` is None."""
        return [each for each in self.columns if columns is None or each.name in columns]

    def _key_columns(self, place: int, join: Join, user: str) -> tuple[tuple[int, Column, Column], ...]:
        """Return (earlier table, its key column, key column of the joined table) for each key of `join`.

        The earlier table is given by its position. `place` is the position of the joined table, and `user` the name of
        the user column.
        Raises: `InvalidParameter` or `UnknownColumn` if a joined row could belong to two users, a key cannot be
        compared with its other side, or a column is missing.
        """
        part = self._parts[place]
        if not part.private and user.lower() in map(str.lower, part.schema.names):
            raise InvalidParameter(
                f"the table {part.name!r} has the user column {user!r}, so it is not public: give it as private "
                f"(on the command line --table {part.name}=FILE), or leave the column out"
            )
        if not part.private and any(key.column.lower() == user.lower() for key in join.keys):
            raise InvalidParameter(
                f"the table {part.name!r} is joined on the user column {user!r}, so its rows are about users and it is "
                f"not public: call its column {user!r} as well and give the table as private (on the command line "
                f"--table {part.name}=FILE), joined USING ({user})"
            )
        # The keys compare the users once, and the user column with no other column: `dialect.user` writes both sides.
        by_user = [(key.column, key.joined) for key in join.keys if user in (key.column, key.joined)]
        if part.private and by_user != [(user, user)]:
            raise InvalidParameter(
                f"the private table {part.name!r} is joined on the user column alone or with others, as in "
                f"USING ({user}): on other columns alone a row would belong to two users"
            )
        columns = []
        for key in join.keys:
            table, left = self._earlier(key, place)
            right = column_of(part.name, part.schema, key.joined)
            check_comparable(left, right, key, part)
            columns.append((table, left, right))
        for name in () if join.where is None else columns_of(join.where):
            column_of(part.name, part.schema, name)
        return tuple(columns)

    def _earlier(self, key: Key, place: int) -> tuple[int, Column]:
        """Return (position, column): the earlier table of the join that `key` refers to, and the key's column in it.

        `place` is the position of the table that is joined; earlier tables have lower positions.
        Raises: `UnknownColumn` if no earlier table has the column, `InvalidParameter` if several have it.
        """
        merged = {
            (number, key.joined)
            for number, join in enumerate(self._joins, 1)
            for key in join.keys
            if key.column == key.joined
        }
        candidates = [
            (number, part.schema.column(key.column))
            for number, part in enumerate(self._parts[:place])
            if key.column in part.schema.names
            and key.earlier in (None, part.name)
            and not (key.earlier is None and (number, key.column) in merged)
        ]
        if not candidates:
            where = "no earlier table" if key.earlier is None else f"the table {key.earlier!r}"
            raise UnknownColumn(f"{where} has {'a' if key.earlier is None else 'no'} column {key.column!r} to join on")
        if len(candidates) > 1:
            raise InvalidParameter(f"several tables have the column {key.column!r}: write which, as in ON a.x = b.y")
        return candidates[0]

    def _name_columns(self) -> tuple[JoinedColumn, ...]:
        """Return all columns of the join's result, with names that are distinct even if case is ignored.

        A column whose name occurs in several tables is called TABLE.COLUMN.
        Raises: `InvalidParameter` if two columns would still have the same name.
        """
        merged = {
            (number + 1, right.name)
            for number, keys in enumerate(self.keys)
            for _, left, right in keys
            if left.name == right.name
        }
        once = {place for place, join in enumerate(self._joins, 1) if join.once}
        kept = [
            (place, column)
            for place, part in enumerate(self._parts)
            for column in part.schema
            if (place, column.name) not in merged and place not in once
        ]
        # Names are compared without case, because DuckDB and Spark ignore case when they look up a column.
        plain = [column.name.lower() for _, column in kept]
        named = []
        for place, column in kept:
            alone = plain.count(column.name.lower()) == 1
            name = column.name if alone else f"{self._parts[place].name}.{column.name}"
            named.append(JoinedColumn(name=name, table=place, column=column))
        for place, join in enumerate(self._joins, 1):
            if join.match_column is not None:
                column = Column(name=join.match_column, kind=Kind.INTEGER)
                named.append(JoinedColumn(name=join.match_column, table=place, column=column, is_match=True))
        for joined in named:
            if sum(other.name.lower() == joined.name.lower() for other in named) > 1:
                raise InvalidParameter(f"two columns of the join would be called {joined.name!r}: rename one of them")
        return tuple(named)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerJoin:
    """A join of `tables` of one database server, each given by its name on the server; the first one is private.

    `joins` are the joins of the other tables, in order, and `user` is the user column of the private tables.
    """

    tables: Sequence[NamedTable[str]]
    joins: Sequence[Join]
    user: str

    def look_up(self, find_table: Callable[[str], Relation], dialect: Dialect) -> Relation:
        """Look up every table on the server, and return the join as one relation.

        `find_table` returns the relation of a table by its name, and `dialect` writes the SQL of the server.
        Raises: `UnsuitableTable` if one of the tables is a prepared dataset, which has a random ranking of users'
        groups but no rows of users; `InvalidParameter` or `UnknownColumn` if a joined row could belong to two users, or
        if keys cannot be compared.
        """
        relations = [find_table(each.table) for each in self.tables]
        if any(each.manifest is not None for each in relations):
            raise UnsuitableTable(PREPARED_JOINED)
        for place, join in enumerate(self.joins, 1):
            relations[place] = relations[place].derive(join.rows, dialect)
        parts = [
            JoinInput(name=table.name, schema=relation.schema, private=table.private)
            for table, relation in zip(self.tables, relations, strict=True)
        ]
        joined = JoinedTables(parts, self.joins, self.user)
        text = joined.statement([relation.text for relation in relations], dialect)
        return Relation(text=text, schema=joined.schema, rows=relations[0].rows)


def _key_sql(column: Column, dialect: Dialect, by_user: bool) -> str:
    """Return the SQL, in `dialect`, of the value by which a join compares the key `column` with the other table's key.

    `by_user` says that the join compares the user columns of two private tables, of which `column` is one. Two values
    are then equal only for the same user.
    """
    if by_user:
        return dialect.user(column)
    return dialect.label(column) if column.kind is Kind.TEXT else dialect.operand(column)


def types_of_keys(join: Join, earlier: Sequence[JoinInput], schema: Schema) -> dict[str, Kind]:
    """Return {key column: type to which it is to be converted}, for text keys of the public table that `join` adds.

    In a CSV file every column is text, and text cannot be compared with an integer. So a text key gets the type of the
    earlier table's column with which it is compared, if that is integer, date or timestamp: the key id of films.csv,
    compared with an integer column film, gives {"id": INTEGER}. Other keys are left out. `earlier` are the tables
    before the joined one, and `schema` has the columns of the joined table.
    """
    types: dict[str, Kind] = {}
    for key in join.keys:
        kinds = {
            part.schema.column(key.column).kind
            for part in earlier
            if key.column in part.schema.names and key.earlier in (None, part.name)
        }
        text = key.joined in schema.names and schema.column(key.joined).kind is Kind.TEXT
        if text and len(kinds) == 1 and (kind := kinds.pop()) in (Kind.INTEGER, Kind.DATE, Kind.TIMESTAMP):
            types[key.joined] = kind
    return types


def column_of(table: str, schema: Schema, name: str) -> Column:
    """Return the column `name` of `schema`, which has the columns of the table `table`.

    Raises: `UnknownColumn` if there is no such column; the message names the table.
    """
    if name not in schema.names:
        raise UnknownColumn(f"the table {table!r} has no column {name!r}; it has {schema.listing()}")
    return schema.column(name)


def check_comparable(left: Column, right: Column, key: Key, part: JoinInput) -> None:
    """Raise `InvalidParameter` unless values of the two key columns `left` and `right` can be compared exactly.

    Only the types of the columns decide. The error message names the two columns as in `key`, the condition of the
    join, and the joined table `part`.
    """
    table = re.sub(r"in (.+) \d+", r"\1", part.name)  # the table of a list after IN
    if left.kind is not right.kind:
        raise InvalidParameter(
            f"{key.column!r} holds {left.kind} values and {key.joined!r} of {table!r} {right.kind} values, which "
            "are not compared: convert one of them, or, if it is text of a file, give its type"
        )
    of_one_type = {Kind.DECIMAL, Kind.IDENTIFIER} | ({Kind.TIMESTAMP, Kind.INSTANT} if part.private else set())
    exact = left.kind not in of_one_type or left.native == right.native
    if left.kind in (Kind.FLOAT, Kind.OTHER) or not exact:
        raise InvalidParameter(
            f"{key.column!r} ({left.native or left.kind}) and {key.joined!r} of {table!r} "
            f"({right.native or right.kind}) cannot be compared exactly: join on integers, text or dates"
        )
