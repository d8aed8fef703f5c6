"""How many cells of each column are filled and can be read as a kind: exact figures, for the holder of a table."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from setwise.analytics.engines.cells import CONVERTIBLE, PLAIN_CELLS, CellGrammar
from setwise.analytics.engines.duckdb.dialect import quoted
from setwise.analytics.engines.duckdb.tables import DuckDBTable, converted_cell, filled_cell
from setwise.analytics.schema import Kind, Schema

if TYPE_CHECKING:
    import duckdb

_ENOUGH = 0.9
"""The share of a column's cells of a sample that must be of a kind for the column to be taken for it."""
_SAMPLE_ROWS = 20_000
_SAMPLE_CELLS = 2_000
"""Distinct cells of a column that are looked at to guess how they are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellCount:
    """How many cells of a column are not null, how many of these are of its kind, and how many line feeds they hold."""

    name: str
    kind: Kind
    from_text: bool
    filled: int
    readable: int
    line_feeds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCount:
    """How many rows a table has, and its columns; `users` counts the values of a column if one was named."""

    rows: int
    columns: tuple[CellCount, ...]
    users: int | None


def text_samples(table: DuckDBTable, most: int = _SAMPLE_CELLS) -> dict[str, list[str]]:
    """Return distinct cells of each column of text of a table, at most so many of each column."""
    import duckdb

    with duckdb.connect(":memory:") as connection:
        table.attach(connection)
        with connection.cursor() as cursor:
            texts = [column.name for column in table.described(cursor) if column.kind is Kind.TEXT]
        if not texts:
            return {}
        asked = [f"list_slice(list(DISTINCT {quoted(name)}), 1, {most})" for name in texts]
        found = _one(table, connection, asked, limit=_SAMPLE_ROWS)
    return {name: [cell for cell in cells or () if cell is not None] for name, cells in zip(texts, found, strict=True)}


def count_cells(
    table: DuckDBTable,
    types: Mapping[str, Kind],
    user: str | None,
    grammar: CellGrammar = PLAIN_CELLS,
    columns: Collection[str] | None = None,
) -> TableCount:
    """Return the counts of a table; text columns are of the kind that is given, or that most of a sample is.

    `grammar` says how cells are written. With `columns`, only these are counted, and none is guessed.
    """
    import duckdb

    with duckdb.connect(":memory:") as connection:
        table.attach(connection)
        with connection.cursor() as cursor:
            schema = table.described(cursor)
        if user is not None:
            schema.column(user)
        if columns is None:
            kinds = {**_guessed(table, connection, schema, grammar), **types}
        else:
            schema = Schema(tuple(column for column in schema if column.name in columns))
            kinds = dict(types)
        asked = ["COUNT(*)"]
        for column in schema:
            name = quoted(column.name)
            text = column.kind is Kind.TEXT
            asked += [
                f"COUNT({filled_cell(name, grammar)})" if text else f"COUNT({name})",
                f"COUNT({_read(name, kinds.get(column.name, Kind.TEXT), grammar)})" if text else f"COUNT({name})",
                f"COALESCE(SUM(length({name}) - length(replace({name}, chr(10), ''))), 0)" if text else "0",
            ]
        asked.append("NULL" if user is None else f"COUNT(DISTINCT {quoted(user)})")
        found = _one(
            table, connection, asked, columns=None if columns is None else [*columns, *([user] if user else [])]
        )
    counts = tuple(
        CellCount(
            name=column.name,
            kind=kinds.get(column.name, column.kind),
            from_text=column.kind is Kind.TEXT,
            filled=int(found[3 * place + 1]),
            readable=int(found[3 * place + 2]),
            line_feeds=int(found[3 * place + 3]),
        )
        for place, column in enumerate(schema)
    )
    return TableCount(rows=int(found[0]), columns=counts, users=None if user is None else int(found[-1]))


def _guessed(
    table: DuckDBTable, connection: "duckdb.DuckDBPyConnection", schema: Schema, grammar: CellGrammar
) -> dict[str, Kind]:
    """Return the narrowest kind that most cells of a sample are, for each column of text."""
    texts = [column.name for column in schema if column.kind is Kind.TEXT]
    kinds: list[Kind] = [kind for kind in CONVERTIBLE if kind is not Kind.TEXT]
    asked = [
        f"COUNT({_read(quoted(name), kind, grammar)}), COUNT({filled_cell(quoted(name), grammar)})"
        for name in texts
        for kind in kinds
    ]
    if not asked:
        return {}
    found = _one(table, connection, asked, limit=_SAMPLE_ROWS)
    guesses = {}
    for place, name in enumerate(texts):
        counts = found[2 * len(kinds) * place : 2 * len(kinds) * (place + 1)]
        shares = {kind: counts[2 * order] / max(1, counts[1]) for order, kind in enumerate(kinds)}
        if shares[Kind.DATE] >= _ENOUGH and shares[Kind.INTEGER] < _ENOUGH:
            # A date such as Nov 16, 2026 is longer than ten characters; a time of day has a colon.
            day_only = _one(table, connection, [f"COUNT(*) FILTER (contains({quoted(name)}, ':'))"], _SAMPLE_ROWS)
            guesses[name] = Kind.TIMESTAMP if day_only[0] else Kind.DATE
        else:
            # Text such as 0 and 1 is a number before it is a truth value.
            order = (Kind.INTEGER, Kind.FLOAT, Kind.BOOLEAN)
            guesses[name] = next((kind for kind in order if shares[kind] >= _ENOUGH), Kind.TEXT)
            if guesses[name] is Kind.BOOLEAN:
                # Of one word alone, such as NO, nobody can tell whether it is a truth value or Norway.
                truth = f"COUNT(DISTINCT {_read(quoted(name), Kind.BOOLEAN, grammar)})"
                if _one(table, connection, [truth], _SAMPLE_ROWS)[0] < 2:
                    guesses[name] = Kind.TEXT
    return guesses


def _read(cell: str, kind: Kind, grammar: CellGrammar) -> str:
    return filled_cell(cell, grammar) if kind is Kind.TEXT else converted_cell(cell, kind, grammar)


def _one(
    table: DuckDBTable,
    connection: "duckdb.DuckDBPyConnection",
    asked: Sequence[str],
    limit: int | None = None,
    columns: Sequence[str] | None = None,
) -> tuple[Any, ...]:
    with connection.cursor() as cursor:
        relation = table.relation(cursor, columns)
        source = relation if limit is None else f"(SELECT * FROM {relation} LIMIT {limit})"
        found = cursor.execute(f"SELECT {', '.join(asked)} FROM {source}").fetchone()
    assert found is not None
    return tuple(found)
