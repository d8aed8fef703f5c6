"""Exact counts of the filled and readable cells of each column; without noise, so only for the data holder."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from setwise.analytics.engines.duckdb.dialect import quoted, sql_text
from setwise.analytics.engines.duckdb.instances import scanning
from setwise.analytics.engines.duckdb.tables import DuckDBTable, converted_cell, filled_cell
from setwise.analytics.engines.typed_cells import BLANKS, CONVERTIBLE, PLAIN_CELLS, CellGrammar
from setwise.analytics.schema import Kind, Schema

if TYPE_CHECKING:
    import duckdb

_ENOUGH = 0.9
"""Share of the sampled non-null cells that must be readable as a kind for the column to be guessed as that kind."""
_SAMPLE_ROWS = 20_000
_SAMPLE_CELLS = 2_000
"""Most distinct cells per column that are sampled to guess how cells are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellCount:
    """Exact counts (no noise) of the cells of the column `name`, which is read as the type `kind`.

    - `from_text` says whether the source stores the column as text.
    - `filled` is the number of cells that are neither null nor a word that stands for an empty cell, such as NA.
    - `readable` is the number of cells that can be read as `kind`.
    - `line_feeds` is the number of line feed characters in all cells.
    """

    name: str
    kind: Kind
    from_text: bool
    filled: int
    readable: int
    line_feeds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCount:
    """Exact counts (no noise) of a table: its number of `rows`, and the counts of its `columns`.

    `users` is the number of distinct values of the user column, converted to the type as which the column is read. It
    is None if no user column was given.
    """

    rows: int
    columns: tuple[CellCount, ...]
    users: int | None


def column_names(table: DuckDBTable) -> tuple[str, ...]:
    """Return the names of the columns of `table`; no row is read."""
    with scanning(table) as connection, connection.cursor() as cursor:
        return table.describe(cursor).names


def text_samples(table: DuckDBTable, most: int = _SAMPLE_CELLS) -> dict[str, list[str]]:
    """Return at most `most` distinct non-null cells for each text column of `table`, from its first 20,000 rows.

    They show how the cells are written, for example with a decimal comma.
    """
    with scanning(table) as connection:
        with connection.cursor() as cursor:
            texts = [column.name for column in table.describe(cursor) if column.kind is Kind.TEXT]
        if not texts:
            return {}
        expressions = [f"list_slice(list(DISTINCT {quoted(name)}), 1, {most})" for name in texts]
        samples = _aggregate_row(table, connection, expressions, limit=_SAMPLE_ROWS, columns=texts)
    return {
        name: [cell for cell in cells or () if cell is not None] for name, cells in zip(texts, samples, strict=True)
    }


def count_repeated_headers(table: DuckDBTable) -> int:
    """Return the number of rows of a CSV table in which every cell is the name of its column.

    Such rows are headers that stand in the file again, as after two files were joined with cat.
    """
    with scanning(table) as connection:
        with connection.cursor() as cursor:
            names = table.describe(cursor).names
        equal = " AND ".join(f"trim({quoted(name)}, {sql_text(BLANKS)}) = {sql_text(name)}" for name in names)
        return int(_aggregate_row(table, connection, [f"COUNT(*) FILTER ({equal})"])[0])


def typical_numbers(table: DuckDBTable, names: Collection[str]) -> dict[str, int]:
    """Return, by name, the median of each integer column of `table` among `names`, over its first 20,000 rows.

    The median shows the data holder whether a column is, for example, in seconds or milliseconds. A column without
    values is left out.
    """
    with scanning(table) as connection:
        with connection.cursor() as cursor:
            columns = [each.name for each in table.describe(cursor) if each.kind is Kind.INTEGER and each.name in names]
        if not columns:
            return {}
        expressions = [f"quantile_disc({quoted(name)}, 0.5)" for name in columns]
        medians = _aggregate_row(table, connection, expressions, limit=_SAMPLE_ROWS, columns=columns)
    return {name: int(number) for name, number in zip(columns, medians, strict=True) if number is not None}


def count_cells(
    table: DuckDBTable,
    types: Mapping[str, Kind],
    user: str | None,
    grammar: CellGrammar = PLAIN_CELLS,
    columns: Collection[str] | None = None,
) -> TableCount:
    """Return the exact numbers (no noise) of rows, of filled cells and of readable cells of `table`.

    - `types` maps text columns to the types as which their cells are to be read. The types of other text columns are
      guessed from the first 20,000 rows.
    - `user` is the column whose distinct values are counted, as they are read by its type and `grammar`, or None.
    - `grammar` says how cells are written.
    - `columns` limits the counts to these columns, and then no types are guessed. None counts all columns.

    Raises: `UnknownColumn` if `user` is not a column.
    """
    with scanning(table) as connection:
        with connection.cursor() as cursor:
            schema = table.describe(cursor)
        user_column = None if user is None else schema.column(user)
        if columns is None:
            kinds = {**_guess_types(table, connection, schema, grammar), **types}
        else:
            schema = Schema(tuple(column for column in schema if column.name in columns))
            kinds = dict(types)
        person = None if user is None else quoted(user)
        if user is not None and user_column is not None and user_column.kind is Kind.TEXT:
            person = _read(quoted(user), kinds.get(user, Kind.TEXT), grammar)
        expressions = ["COUNT(*)"]
        for column in schema:
            name = quoted(column.name)
            text = column.kind is Kind.TEXT
            expressions += [
                f"COUNT({filled_cell(name, grammar)})" if text else f"COUNT({name})",
                f"COUNT({_read(name, kinds.get(column.name, Kind.TEXT), grammar)})" if text else f"COUNT({name})",
                f"COALESCE(SUM(length({name}) - length(replace({name}, chr(10), ''))), 0)" if text else "0",
            ]
        expressions.append("NULL" if user is None else f"COUNT(DISTINCT {person})")
        counted = _aggregate_row(
            table, connection, expressions, columns=None if columns is None else [*columns, *([user] if user else [])]
        )
    counts = tuple(
        CellCount(
            name=column.name,
            kind=kinds.get(column.name, column.kind),
            from_text=column.kind is Kind.TEXT,
            filled=int(counted[3 * place + 1]),
            readable=int(counted[3 * place + 2]),
            line_feeds=int(counted[3 * place + 3]),
        )
        for place, column in enumerate(schema)
    )
    return TableCount(rows=int(counted[0]), columns=counts, users=None if user is None else int(counted[-1]))


def _guess_types(
    table: DuckDBTable, connection: "duckdb.DuckDBPyConnection", schema: Schema, grammar: CellGrammar
) -> dict[str, Kind]:
    """Return a guess of the type of each text column: a type as which at least 90% of its sampled cells can be read.

    The guess is text if there is no such type, for codes such as 00111, and for a column whose truth values are all
    equal, because NO in every cell may be a country code. The sample is the first 20,000 rows of `table`, read through
    `connection`. `schema` has the columns, and `grammar` says how cells are written.
    """
    texts = [column.name for column in schema if column.kind is Kind.TEXT]
    kinds: list[Kind] = [kind for kind in CONVERTIBLE if kind is not Kind.TEXT]
    expressions = [
        f"COUNT({_read(quoted(name), kind, grammar)}), COUNT({filled_cell(quoted(name), grammar)})"
        for name in texts
        for kind in kinds
    ]
    if not expressions:
        return {}
    counted = _aggregate_row(table, connection, expressions, limit=_SAMPLE_ROWS)
    guesses = {}
    for place, name in enumerate(texts):
        counts = counted[2 * len(kinds) * place : 2 * len(kinds) * (place + 1)]
        # The types are tried in the order integer, date or timestamp, float, boolean.
        shares = {kind: counts[2 * order] / max(1, counts[1]) for order, kind in enumerate(kinds)}
        if shares[Kind.DATE] >= _ENOUGH and shares[Kind.INTEGER] < _ENOUGH:
            # A colon means a time of day. The length says nothing: the date "Nov 16, 2026" is longer than 2026-11-16.
            day_only = _aggregate_row(
                table, connection, [f"COUNT(*) FILTER (contains({quoted(name)}, ':'))"], _SAMPLE_ROWS
            )
            guesses[name] = Kind.TIMESTAMP if day_only[0] else Kind.DATE
        else:
            # Cells such as 0 and 1 are taken for numbers rather than for truth values.
            order = (Kind.INTEGER, Kind.FLOAT, Kind.BOOLEAN)
            guesses[name] = next((kind for kind in order if shares[kind] >= _ENOUGH), Kind.TEXT)
            if guesses[name] in (Kind.INTEGER, Kind.FLOAT) and _is_code(table, connection, name, grammar):
                guesses[name] = Kind.TEXT
            if guesses[name] is Kind.BOOLEAN:
                # A column with a single word is text: NO alone could be a truth value or the country code of Norway.
                truth = f"COUNT(DISTINCT {_read(quoted(name), Kind.BOOLEAN, grammar)})"
                if _aggregate_row(table, connection, [truth], _SAMPLE_ROWS)[0] < 2:
                    guesses[name] = Kind.TEXT
    return guesses


def _is_code(table: DuckDBTable, connection: "duckdb.DuckDBPyConnection", name: str, grammar: CellGrammar) -> bool:
    """Return whether the digits in the text column `name` are codes, such as 00111, rather than numbers.

    Codes are integers beyond 64 bits, or begin with zeros that a number would lose. But a column with both 7 and 007
    has numbers, because as text they would be two values. Only the first 20,000 rows of `table` are read, through
    `connection`. `grammar` says how cells are written.
    """
    cell, number = filled_cell(quoted(name), grammar), _read(quoted(name), Kind.INTEGER, grammar)
    beyond, zeros, texts, numbers = _aggregate_row(
        table,
        connection,
        [
            f"COUNT(*) FILTER (regexp_full_match({cell}, '\\s*[+-]?[0-9]{{19,}}\\s*') AND {number} IS NULL)",
            f"COUNT(*) FILTER (regexp_full_match({cell}, '\\s*0[0-9]+\\s*'))",
            f"COUNT(DISTINCT trim({cell})) FILTER ({number} IS NOT NULL)",
            f"COUNT(DISTINCT {number})",
        ],
        _SAMPLE_ROWS,
    )
    # If 7 and 007 stayed text, they would make two users of one.
    return bool(beyond or (zeros and texts == numbers))


def _read(cell: str, kind: Kind, grammar: CellGrammar) -> str:
    """Return a SQL expression that converts a text cell to `kind`; null if the cell is empty or cannot be read.

    `cell` is the SQL expression of the cell, and `grammar` says how cells are written.
    """
    return filled_cell(cell, grammar) if kind is Kind.TEXT else converted_cell(cell, kind, grammar)


def _aggregate_row(
    table: DuckDBTable,
    connection: "duckdb.DuckDBPyConnection",
    expressions: Sequence[str],
    limit: int | None = None,
    columns: Sequence[str] | None = None,
) -> tuple[Any, ...]:
    """Return the values of the SQL aggregates `expressions` over `table`, or over its first `limit` rows.

    `connection` is the DuckDB connection that reads the table. `columns` are the columns that the expressions read;
    None means all columns. If `limit` is None, all rows are read.
    """
    with connection.cursor() as cursor:
        # Without names, a table is only described, and a cell that DuckDB cannot read would fail.
        relation = table.relation(cursor, table.describe(cursor).names if columns is None else columns)
        source = relation if limit is None else f"(SELECT * FROM {relation} LIMIT {limit})"
        row = cursor.execute(f"SELECT {', '.join(expressions)} FROM {source}").fetchone()
    assert row is not None
    return tuple(row)
