"""How many cells of each column are filled and can be read as a kind: exact figures, for the holder of a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from setwise.analytics.engines.cells import CONVERTIBLE
from setwise.analytics.engines.duckdb.dialect import quoted
from setwise.analytics.engines.duckdb.tables import DuckDBTable, converted_cell
from setwise.analytics.schema import Kind, Schema

if TYPE_CHECKING:
    import duckdb

_ENOUGH = 0.9
"""The share of a column's cells of a sample that must be of a kind for the column to be taken for it."""
_SAMPLE_ROWS = 20_000


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


def count_cells(table: DuckDBTable, types: Mapping[str, Kind], user: str | None) -> TableCount:
    """Return the counts of a table; text columns are of the kind that is given, or that most of a sample is."""
    import duckdb

    with duckdb.connect(":memory:") as connection:
        table.attach(connection)
        with connection.cursor() as cursor:
            schema = table.described(cursor)
        if user is not None:
            schema.column(user)
        kinds = {**_guessed(table, connection, schema), **types}
        asked = ["COUNT(*)"]
        for column in schema:
            name = quoted(column.name)
            text = column.kind is Kind.TEXT
            asked += [
                f"COUNT({name})",
                f"COUNT({_read(name, kinds.get(column.name, Kind.TEXT))})" if text else f"COUNT({name})",
                f"COALESCE(SUM(length({name}) - length(replace({name}, chr(10), ''))), 0)" if text else "0",
            ]
        asked.append("NULL" if user is None else f"COUNT(DISTINCT {quoted(user)})")
        found = _one(table, connection, asked)
    columns = tuple(
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
    return TableCount(rows=int(found[0]), columns=columns, users=None if user is None else int(found[-1]))


def _guessed(table: DuckDBTable, connection: "duckdb.DuckDBPyConnection", schema: Schema) -> dict[str, Kind]:
    """Return the narrowest kind that most cells of a sample are, for each column of text."""
    texts = [column.name for column in schema if column.kind is Kind.TEXT]
    kinds: list[Kind] = [kind for kind in CONVERTIBLE if kind is not Kind.TEXT]
    asked = [f"COUNT({_read(quoted(name), kind)}), COUNT({quoted(name)})" for name in texts for kind in kinds]
    if not asked:
        return {}
    found = _one(table, connection, asked, limit=_SAMPLE_ROWS)
    guesses = {}
    for place, name in enumerate(texts):
        counts = found[2 * len(kinds) * place : 2 * len(kinds) * (place + 1)]
        shares = {kind: counts[2 * order] / max(1, counts[1]) for order, kind in enumerate(kinds)}
        if shares[Kind.DATE] >= _ENOUGH and shares[Kind.INTEGER] < _ENOUGH:
            day_only = _one(table, connection, [f"COUNT(*) FILTER (length(trim({quoted(name)})) > 10)"], _SAMPLE_ROWS)
            guesses[name] = Kind.TIMESTAMP if day_only[0] else Kind.DATE
        else:
            # Text such as 0 and 1 is a number before it is a truth value.
            order = (Kind.INTEGER, Kind.FLOAT, Kind.BOOLEAN)
            guesses[name] = next((kind for kind in order if shares[kind] >= _ENOUGH), Kind.TEXT)
    return guesses


def _read(cell: str, kind: Kind) -> str:
    return cell if kind is Kind.TEXT else converted_cell(cell, kind)


def _one(
    table: DuckDBTable, connection: "duckdb.DuckDBPyConnection", asked: Sequence[str], limit: int | None = None
) -> tuple[int, ...]:
    with connection.cursor() as cursor:
        relation = table.relation(cursor)
        source = relation if limit is None else f"(SELECT * FROM {relation} LIMIT {limit})"
        found = cursor.execute(f"SELECT {', '.join(asked)} FROM {source}").fetchone()
    assert found is not None
    return tuple(found)
