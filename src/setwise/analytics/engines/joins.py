"""Joins: tables beside a private one, such that every row of the result belongs to one user.

A public table may be joined on any column: each of its rows goes to the user of the row it meets. Another private table
has users of its own, so it may be joined on the user column alone. What one user adds is bounded after the join, so it
does not matter how many rows a key meets.

What is allowed, how columns are called and the SQL are here, for every engine. An engine opens the tables one by one,
describes each as a `Part` (its public tables of text read as `types_of_keys` says, where it can convert text so that no
cell fails), and asks about `JoinedTables.statement` as it asks about a table. Its dialect gives its quotes, and
the forms in which keys are compared: `user` for users, `label` for text, `operand` for others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from setwise.analytics.engines.dialect import Dialect
from setwise.analytics.engines.prepared import Manifest
from setwise.analytics.engines.row_sql import DerivedTable
from setwise.analytics.rows.derivation import Derivation
from setwise.analytics.schema import Column, Kind, Schema
from setwise.errors import InvalidParameter, UnknownColumn, UnsuitableTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A column of an earlier table and one of the joined table that must be equal; null equals nothing.

    `earlier` names the earlier table; None is whichever has the column.
    """

    column: str
    joined: str
    earlier: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """A table by its name, and the keys by which its rows are found; `keeps_all` keeps rows that find none."""

    table: str
    keys: tuple[Key, ...]
    keeps_all: bool = False

    def __post_init__(self) -> None:
        if not self.keys:
            raise InvalidParameter(f"say by which columns {self.table!r} is joined: USING (column)")

    def __str__(self) -> str:
        keys = " AND ".join(
            f"{f'{key.earlier}.' if key.earlier else ''}{key.column} = {self.table}.{key.joined}" for key in self.keys
        )
        return f"{'LEFT JOIN' if self.keeps_all else 'JOIN'} {self.table} ON {keys}"


Table = TypeVar("Table")


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedTable(Generic[Table]):
    """A table as an engine opens it, by the name it has in joins, and whether its rows are about users."""

    name: str
    table: Table
    private: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """What a server reads: what stands after FROM, its columns, and about how many rows it has.

    A prepared dataset has a `manifest`; `origin` is the name of a table, by which it is found again.
    """

    text: str
    schema: Schema
    rows: int | None
    manifest: Manifest | None = None
    origin: str | None = None

    def derived(self, derivation: Derivation, dialect: Dialect) -> "Relation":
        """Return the table that is derived from this one; what was prepared has no rows to derive it from."""
        if not derivation:
            return self
        if self.manifest is not None:
            raise UnsuitableTable("what was prepared cannot be computed with: ask its source")
        table = DerivedTable(derivation, self.schema, dialect)
        return Relation(text=table.statement(self.text), schema=table.schema, rows=self.rows)

    def check_same(self, now: "Relation") -> None:
        """Raise `UnsuitableTable` if the relation, looked up again as `now`, has other columns or is another table."""
        if (self.text, self.schema, self.manifest) != (now.text, now.schema, now.manifest):
            raise UnsuitableTable("the table was redefined since it was opened: open it again")


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedColumn:
    """A column of the result: its name there, and which column of which table it is."""

    name: str
    table: int
    column: Column


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A table of a join: its name, its columns, and whether its rows are about users."""

    name: str
    schema: Schema
    private: bool


class JoinedTables:
    """The tables of a join, the first of them private, and the columns of the result, from metadata alone.

    Raise `InvalidParameter` or `UnknownColumn` for a join whose rows would belong to two users, or whose keys cannot be
    compared. A name that several tables have, in upper or lower case, is TABLE.COLUMN in the result; keys of one name
    are one column.
    """

    def __init__(self, parts: Sequence[Part], joins: Sequence[Join], user: str) -> None:
        self._parts = parts
        self._joins = joins
        names = [part.name for part in parts]
        for name in names:
            if names.count(name) > 1:
                raise InvalidParameter(f"the table {name!r} is joined twice: join it once")
        self.keys = tuple(self._key_columns(place + 1, join, user) for place, join in enumerate(joins))
        self.columns = self._named()

    @property
    def schema(self) -> Schema:
        """The columns of the result."""
        return Schema(tuple(replace(each.column, name=each.name) for each in self.columns))

    def statement(self, relations: Sequence[str], dialect: Dialect, columns: Sequence[str] | None = None) -> str:
        """Return the SELECT of these columns of the result, by default all, from the relations, one for each table.

        Keys are compared in a form in which no cell can fail to convert, and columns by names that cannot clash.
        """
        chosen = list(enumerate(self._chosen(columns)))
        compared: list[list[tuple[str, str]]] = [[] for _ in self._parts]
        conditions = []
        for number, keys in enumerate(self.keys):
            equal = []
            private = self._parts[number + 1].private
            for place, (earlier, left, right) in enumerate(keys):
                name = f"k{number}_{place}"
                compared[earlier].append((name, _compared(left, dialect, private)))
                compared[number + 1].append((name, _compared(right, dialect, private)))
                equal.append(f"t{earlier}.{name} = t{number + 1}.{name}")
            conditions.append(" AND ".join(equal))
        text = ""
        for place, relation in enumerate(relations):
            cells = [(f"c{number}", dialect.name(each.column.name)) for number, each in chosen if each.table == place]
            listed = ", ".join(f"{value} AS {name}" for name, value in [*cells, *compared[place]])
            table = f"(SELECT {listed} FROM {relation}) AS t{place}"
            if place == 0:
                text = table
            else:
                word = "LEFT JOIN" if self._joins[place - 1].keeps_all else "JOIN"
                text += f" {word} {table} ON {conditions[place - 1]}"
        listed = ", ".join(f"t{each.table}.c{number} AS {dialect.name(each.name)}" for number, each in chosen)
        return f"(SELECT {listed} FROM {text}) AS joined"

    def needed(self, place: int, columns: Sequence[str] | None) -> tuple[str, ...]:
        """Return the columns of a table that the keys, and these columns of the result, need; by default all."""
        keys = [
            column.name
            for number, key in enumerate(self.keys)
            for table, left, right in key
            for at, column in ((table, left), (number + 1, right))
            if at == place
        ]
        chosen = [each.column.name for each in self._chosen(columns) if each.table == place]
        return tuple(dict.fromkeys([*chosen, *keys]))

    def _chosen(self, columns: Sequence[str] | None) -> list[JoinedColumn]:
        return [each for each in self.columns if columns is None or each.name in columns]

    def _key_columns(self, place: int, join: Join, user: str) -> tuple[tuple[int, Column, Column], ...]:
        """Return the table and column of each earlier key with the joined one, or raise what is wrong with them."""
        part = self._parts[place]
        if not part.private and user.lower() in map(str.lower, part.schema.names):
            raise InvalidParameter(
                f"the table {part.name!r} has the user column {user!r}, so it is not public: leave the column out"
            )
        if part.private and [(key.column, key.joined) for key in join.keys] != [(user, user)]:
            raise InvalidParameter(
                f"the private table {part.name!r} is joined on the user column alone, USING ({user}): on any other "
                "column a row would belong to two users"
            )
        found = []
        for key in join.keys:
            table, left = self._earlier(key, place)
            right = column_of(part.name, part.schema, key.joined)
            check_comparable(left, right, key, part)
            found.append((table, left, right))
        return tuple(found)

    def _earlier(self, key: Key, place: int) -> tuple[int, Column]:
        """Return the earlier table that has a key, and its column."""
        merged = {
            (number, each.joined)
            for number, join in enumerate(self._joins, 1)
            for each in join.keys
            if each.column == each.joined
        }
        found = [
            (number, part.schema.column(key.column))
            for number, part in enumerate(self._parts[:place])
            if key.column in part.schema.names
            and key.earlier in (None, part.name)
            and not (key.earlier is None and (number, key.column) in merged)
        ]
        if not found:
            where = "no earlier table" if key.earlier is None else f"the table {key.earlier!r}"
            raise UnknownColumn(f"{where} has {'a' if key.earlier is None else 'no'} column {key.column!r} to join on")
        if len(found) > 1:
            raise InvalidParameter(f"several tables have the column {key.column!r}: write which, as in ON a.x = b.y")
        return found[0]

    def _named(self) -> tuple[JoinedColumn, ...]:
        merged = {
            (number + 1, right.name)
            for number, keys in enumerate(self.keys)
            for _, left, right in keys
            if left.name == right.name
        }
        kept = [
            (place, column)
            for place, part in enumerate(self._parts)
            for column in part.schema
            if (place, column.name) not in merged
        ]
        # DuckDB and Spark find a column in either case.
        plain = [column.name.lower() for _, column in kept]
        named = []
        for place, column in kept:
            alone = plain.count(column.name.lower()) == 1
            name = column.name if alone else f"{self._parts[place].name}.{column.name}"
            named.append(JoinedColumn(name=name, table=place, column=column))
        for each in named:
            if sum(other.name.lower() == each.name.lower() for other in named) > 1:
                raise InvalidParameter(f"two columns of the join would be called {each.name!r}: rename one of them")
        return tuple(named)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerJoin:
    """Tables of one server by their names there, the first of them private, that it joins."""

    tables: Sequence[NamedTable[str]]
    joins: Sequence[Join]
    user: str

    def found(self, look_up: Callable[[str], Relation], dialect: Dialect) -> Relation:
        """Look up every table, and return the join as a relation."""
        relations = [look_up(each.table) for each in self.tables]
        if any(each.manifest is not None for each in relations):
            raise UnsuitableTable("what was prepared cannot be joined: join its source")
        parts = [
            Part(name=each.name, schema=relation.schema, private=each.private)
            for each, relation in zip(self.tables, relations, strict=True)
        ]
        joined = JoinedTables(parts, self.joins, self.user)
        text = joined.statement([relation.text for relation in relations], dialect)
        return Relation(text=text, schema=joined.schema, rows=relations[0].rows)


def _compared(column: Column, dialect: Dialect, private: bool) -> str:
    """Return a key as it is compared: users as they are told apart, text where it is UTF-8, the rest as in filters."""
    if private:
        return dialect.user(column)
    return dialect.label(column) if column.kind is Kind.TEXT else dialect.operand(column)


def types_of_keys(join: Join, earlier: Sequence[Part], schema: Schema) -> dict[str, Kind]:
    """Return as which kinds the keys of a public table are read that are text there, as all of a CSV file is."""
    found: dict[str, Kind] = {}
    for key in join.keys:
        kinds = {
            part.schema.column(key.column).kind
            for part in earlier
            if key.column in part.schema.names and key.earlier in (None, part.name)
        }
        text = key.joined in schema.names and schema.column(key.joined).kind is Kind.TEXT
        if text and len(kinds) == 1 and (kind := kinds.pop()) in (Kind.INTEGER, Kind.DATE, Kind.TIMESTAMP):
            found[key.joined] = kind
    return found


def column_of(table: str, schema: Schema, name: str) -> Column:
    """Return a column of a table, or raise `UnknownColumn` naming both."""
    if name not in schema.names:
        raise UnknownColumn(f"the table {table!r} has no column {name!r}; it has {schema.listing()}")
    return schema.column(name)


def check_comparable(left: Column, right: Column, key: Key, part: Part) -> None:
    """Raise unless two columns can be compared exactly whatever they hold."""
    if left.kind is not right.kind:
        raise InvalidParameter(
            f"{key.column!r} holds {left.kind} values and {key.joined!r} of {part.name!r} {right.kind} values, which "
            "are not compared: convert one of them, or, if it is text of a CSV file, give its type"
        )
    of_one_type = {Kind.DECIMAL, Kind.IDENTIFIER} | ({Kind.TIMESTAMP, Kind.INSTANT} if part.private else set())
    exact = left.kind not in of_one_type or left.native == right.native
    if left.kind in (Kind.FLOAT, Kind.OTHER) or not exact:
        raise InvalidParameter(
            f"{key.column!r} ({left.native or left.kind}) and {key.joined!r} of {part.name!r} "
            f"({right.native or right.kind}) cannot be compared exactly: join on integers, text or dates"
        )
