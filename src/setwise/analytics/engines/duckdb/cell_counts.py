"""Exact counts of the filled and readable cells of each column; without noise, so only for the data holder."""

from collections.abc import Callable, Collection, Mapping, Sequence
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
_FREQUENT_CELLS = 30
"""How many of the most frequent cells of a column are always sampled."""
_COLUMNS_AT_ONCE = 100
"""Most columns that one statement reads. DuckDB's time grows faster than the number of aggregates in a statement, and
with 10,000 of them the process ends with a segmentation fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellCount:
    """Exact counts (no noise), for the data holder only, of the cells of the column `name`, read as the type `kind`.

    - `from_text` says whether the source stores the column as text.
    - `filled` is the number of cells that are neither null nor a word that stands for an empty cell, such as NA.
    - `readable` is the number of cells that can be read as `kind`. NaN cannot be read, and neither can a cell of SQLite
      that does not fit the declared type of its column.
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
    """Exact counts (no noise), for the data holder only, of a table: its number of `rows`, and counts of its `columns`.

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


def text_samples(
    table: DuckDBTable, most: int = _SAMPLE_CELLS, *, wanted: Callable[[str], bool] | None = None
) -> dict[str, list[str]]:
    """Return about `most` distinct non-null cells for each text column of `table`, from its first 20,000 rows.

    The most frequent cells are among them, so that a word such as NULL is not missed among many numbers.

    The cells show the data holder how a column is written, for example with a decimal comma. In a table of many text
    columns the function `wanted` limits the work: after the first 100 text columns, only those whose names it accepts
    are read. None reads all.
    """
    with scanning(table) as connection:
        with connection.cursor() as cursor:
            texts = [column.name for column in table.describe(cursor) if column.kind is Kind.TEXT]
        if wanted is not None:
            first = set(texts[:_COLUMNS_AT_ONCE])
            texts = [name for name in texts if name in first or wanted(name)]
        samples = aggregate_columns(
            table,
            connection,
            texts,
            lambda _: [f"approx_top_k(cell, {_FREQUENT_CELLS})", f"list_slice(list_distinct(list(cell)), 1, {most})"],
            _SAMPLE_ROWS,
        )
    return {name: [*dict.fromkeys([*(frequent or ()), *(cells or ())])] for name, (frequent, cells) in samples.items()}


def count_repeated_headers(table: DuckDBTable) -> int:
    """Return the number of rows of a CSV table in which every cell is the name of its column, in upper or lower case.

    Such a row is the header of a second file: it stands among the rows if two files were joined with cat. A byte order
    mark before it is ignored. The number has no noise, so it is for the data holder only.
    """
    with scanning(table) as connection:
        with connection.cursor() as cursor:
            names = table.describe(cursor).names
        plain = f"lower(trim(replace({{}}, chr(65279), ''), {sql_text(BLANKS)}))"
        equal = " AND ".join(f"{plain.format(quoted(name))} = lower({sql_text(name)})" for name in names)
        return int(_aggregate_row(table, connection, [f"COUNT(*) FILTER ({equal})"])[0])


def typical_numbers(
    table: DuckDBTable, names: Collection[str], kinds: Mapping[str, Kind], grammar: CellGrammar = PLAIN_CELLS
) -> dict[str, int]:
    """Return, by name, the median of each integer column of `table` among `names`, over its first 20,000 rows.

    The median shows the data holder whether a column is, for example, in seconds or milliseconds. A column without
    values is left out. `kinds` has the types as which columns of text are read, by name, and `grammar` says how their
    cells are written.
    """
    with scanning(table) as connection:
        with connection.cursor() as cursor:
            found = [each for each in table.describe(cursor) if each.name in names]
        columns = [each.name for each in found if each.kind is Kind.INTEGER]
        texts = [each.name for each in found if each.kind is Kind.TEXT and kinds.get(each.name) is Kind.INTEGER]
        medians = _aggregate_columns(table, connection, columns, "quantile_disc({}, 0.5)", _SAMPLE_ROWS)
        median = f"quantile_disc({converted_cell('cell', Kind.INTEGER, grammar)}, 0.5)"
        read = aggregate_columns(table, connection, texts, lambda _: [median], _SAMPLE_ROWS)
        medians |= {name: number for name, (number,) in read.items()}
    return {name: int(number) for name, number in medians.items() if number is not None}


def count_cells(
    table: DuckDBTable,
    types: Mapping[str, Kind],
    user: str | None,
    grammar: CellGrammar = PLAIN_CELLS,
    columns: Collection[str] | None = None,
) -> TableCount:
    """Return exact counts (no noise) of the rows, of the filled cells and of the readable cells of `table`.

    The counts are for the data holder only.

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
        texts = {column.name for column in schema if column.kind is Kind.TEXT}

        wanted = [name for name in schema.names if name in texts]
        counts_of = {
            kind: [
                f"COUNT({filled_cell('cell', grammar)})",
                f"COUNT({_read('cell', kind, grammar)})",
                "COALESCE(SUM(length(cell) - length(replace(cell, chr(10), ''))), 0)",
            ]
            for kind in {kinds.get(name, Kind.TEXT) for name in wanted}
        }
        counted = aggregate_columns(table, connection, wanted, lambda name: counts_of[kinds.get(name, Kind.TEXT)])
        if columns is None:
            fractions = _integers_with_fractions(table, connection, counted, kinds, types, grammar)
            kinds |= dict.fromkeys(fractions, Kind.FLOAT)
            counted |= {name: (counted[name][0], readable, counted[name][2]) for name, readable in fractions.items()}
        others = [name for name in schema.names if name not in texts]
        floats = [name for name in others if schema.column(name).kind is Kind.FLOAT]
        numbers = _aggregate_columns(table, connection, others, "COUNT({})")
        nans = _aggregate_columns(table, connection, floats, "COUNT(*) FILTER (isnan({}))")
        unfit = {name: found.cells for name, found in table.unfit_cells(others).items()}
        for name, number in numbers.items():
            counted[name] = (number + unfit.get(name, 0), number - nans.get(name, 0), 0)
        totals = ["COUNT(*)", "NULL" if user is None else f"COUNT(DISTINCT {person})"]
        rows, users = _aggregate_row(table, connection, totals, columns=[user or schema.names[0]] if schema else None)
    counts = tuple(
        CellCount(
            name=column.name,
            kind=kinds.get(column.name, column.kind),
            from_text=column.name in texts,
            filled=int(filled),
            readable=int(readable),
            line_feeds=int(line_feeds),
        )
        for column, (filled, readable, line_feeds) in ((column, counted[column.name]) for column in schema)
    )
    return TableCount(rows=int(rows), columns=counts, users=None if user is None else int(users))


def _integers_with_fractions(
    table: DuckDBTable,
    connection: "duckdb.DuckDBPyConnection",
    counted: Mapping[str, Sequence[Any]],
    kinds: Mapping[str, Kind],
    types: Mapping[str, Kind],
    grammar: CellGrammar,
) -> dict[str, int]:
    """Return the columns guessed to hold integers of which more cells can be read as fractions, with these cells.

    Rain in inches is 0 in nine of ten hours, so that a sample of the column looks like integers. `counted` has the
    number of filled and of readable cells of each column, `kinds` the guessed types, and `types` the declared ones.
    """
    guessed = [name for name, kind in kinds.items() if kind is Kind.INTEGER and name not in types and name in counted]
    partly = [name for name in guessed if counted[name][1] < counted[name][0]]
    expressions = [f"COUNT({_read('cell', Kind.FLOAT, grammar)})"]
    as_floats = aggregate_columns(table, connection, partly, lambda _: expressions) if partly else {}
    return {name: int(count) for name, (count,) in as_floats.items() if count > counted[name][1]}


def count_partly_filled(table: DuckDBTable, groups: Sequence[Sequence[str]]) -> tuple[int, list[int]]:
    """Return (rows, counts): the rows of `table`, and for each group of columns the rows in which only some are null.

    The numbers are exact (without noise), so they are for the data holder only.
    """
    expressions = ["COUNT(*)"]
    for columns in groups:
        nulls = [f"{quoted(name)} IS NULL" for name in columns]
        expressions.append(f"COUNT(*) FILTER (({' OR '.join(nulls)}) AND NOT ({' AND '.join(nulls)}))")
    names = list(dict.fromkeys(name for columns in groups for name in columns))
    with scanning(table) as connection:
        rows, *counts = map(int, _aggregate_row(table, connection, expressions, columns=names))
    return rows, counts


def count_stored_cells(table: DuckDBTable, names: Collection[str]) -> tuple[CellCount, ...]:
    """Return exact counts (no noise) of the cells of the columns of `table` among `names` that are not text.

    The counts are for the data holder only.
    """
    with scanning(table) as connection, connection.cursor() as cursor:
        stored = [each.name for each in table.describe(cursor) if each.kind is not Kind.TEXT and each.name in names]
    return count_cells(table, {}, None, columns=stored).columns if stored else ()


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

    readable_counts = [
        f"COUNT({filled_cell('cell', grammar)})",
        *(f"COUNT({_read('cell', kind, grammar)})" for kind in kinds),
    ]
    guesses = dict.fromkeys(texts, Kind.TEXT)
    counts = aggregate_columns(table, connection, texts, lambda _: readable_counts, _SAMPLE_ROWS)
    for name, (filled, *readable) in counts.items():
        # The types are tried in the order integer, date or timestamp, float, boolean.
        shares = {kind: count / max(1, filled) for kind, count in zip(kinds, readable, strict=True)}
        if shares[Kind.DATE] >= _ENOUGH and shares[Kind.INTEGER] < _ENOUGH:
            guesses[name] = Kind.DATE
        else:
            # Cells such as 0 and 1 are taken for numbers rather than for truth values.
            order = (Kind.INTEGER, Kind.FLOAT, Kind.BOOLEAN)
            guesses[name] = next((kind for kind in order if shares[kind] >= _ENOUGH), Kind.TEXT)

    doubts = {
        # A colon means a time of day. The length says nothing: the date "Nov 16, 2026" is longer than 2026-11-16.
        Kind.DATE: ["COUNT(*) FILTER (contains(cell, ':')) > 0"],
        # A column with a single word is text: NO alone could be a truth value or the country code of Norway.
        Kind.BOOLEAN: [f"COUNT(DISTINCT {_read('cell', Kind.BOOLEAN, grammar)}) < 2"],
        Kind.INTEGER: [_is_code(grammar)],
        Kind.FLOAT: [_is_code(grammar)],
    }
    doubtful = [name for name in texts if guesses[name] is not Kind.TEXT]
    for name, (is_other,) in aggregate_columns(
        table, connection, doubtful, lambda name: doubts[guesses[name]], _SAMPLE_ROWS
    ).items():
        if is_other:
            guesses[name] = Kind.TIMESTAMP if guesses[name] is Kind.DATE else Kind.TEXT
    return guesses


def _is_code(grammar: CellGrammar) -> str:
    """Return a SQL aggregate that says whether the digits in the text column `cell` are codes, such as 00111.

    Codes are read as text, because a number would lose the zeros at their beginning. The digits are codes if a cell is
    an integer beyond 64 bits, or if a cell begins with such zeros and no number is written in two ways. If the column
    holds both 7 and 007, they are read as numbers: as texts they would be two values, and one user could be taken for
    two. `grammar` says how cells are written.
    """
    cell, number = filled_cell("cell", grammar), _read("cell", Kind.INTEGER, grammar)
    beyond = f"COUNT(*) FILTER (regexp_full_match({cell}, '\\s*[+-]?[0-9]{{19,}}\\s*') AND {number} IS NULL)"
    zeros = f"COUNT(*) FILTER (regexp_full_match({cell}, '\\s*0[0-9]+\\s*'))"
    texts = f"COUNT(DISTINCT trim({cell})) FILTER ({number} IS NOT NULL)"
    return f"({beyond} > 0 OR ({zeros} > 0 AND {texts} = COUNT(DISTINCT {number})))"


def _read(cell: str, kind: Kind, grammar: CellGrammar) -> str:
    """Return a SQL expression that converts a text cell to `kind`; null if the cell is empty or cannot be read.

    `cell` is the SQL expression of the cell, and `grammar` says how cells are written.
    """
    return filled_cell(cell, grammar) if kind is Kind.TEXT else converted_cell(cell, kind, grammar)


def aggregate_columns(
    table: DuckDBTable,
    connection: "duckdb.DuckDBPyConnection",
    names: Sequence[str],
    expressions_of: Callable[[str], Sequence[str]],
    limit: int | None = None,
) -> dict[str, tuple[Any, ...]]:
    """Return {column: values of its SQL aggregates}, for the text columns of `table` that `names` lists.

    - `connection` is the DuckDB connection that reads the table.
    - `expressions_of` returns the SQL aggregates of a column. In them, the SQL name `cell` stands for a cell that is
      not null.
    - `limit` is the number of rows to read, from the beginning of the table. None reads all rows.

    Each statement reads at most 100 columns, which have the same aggregates: it puts their cells into one SQL column,
    and groups them by the column that they come from. So DuckDB plans an aggregate once for up to 100 columns, and not
    once for each of them. It takes 5 ms to plan an expression that reads dates, however few rows there are, and a table
    can have 2,000 columns.
    """
    alike: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        alike.setdefault(tuple(expressions_of(name)), []).append(name)
    values: dict[str, tuple[Any, ...]] = {}
    for expressions, columns in alike.items():
        aggregates = ", ".join(expressions)
        with connection.cursor() as cursor:
            without_cells = cursor.execute(f"SELECT {aggregates} FROM (SELECT '' AS cell) WHERE false").fetchone()
        assert without_cells is not None, "an aggregate without groups has a row"
        values |= dict.fromkeys(columns, without_cells)
        for first in range(0, len(columns), _COLUMNS_AT_ONCE):
            some = columns[first : first + _COLUMNS_AT_ONCE]
            with connection.cursor() as cursor:
                source = _first_rows(table, cursor, some, limit)
                stacked = (
                    f"SELECT unnest(range({len(some)})) AS place, unnest([{', '.join(map(quoted, some))}]) AS cell "
                    f"FROM {source}"
                )
                rows = cursor.execute(
                    f"SELECT place, {aggregates} FROM ({stacked}) WHERE cell IS NOT NULL GROUP BY place"
                ).fetchall()
            values |= {some[place]: tuple(row) for place, *row in rows}
    return {name: values[name] for name in names}


def _aggregate_columns(
    table: DuckDBTable,
    connection: "duckdb.DuckDBPyConnection",
    names: Sequence[str],
    template: str,
    limit: int | None = None,
) -> dict[str, Any]:
    """Return {column: value of one SQL aggregate}, for the columns of `table` in `names`, of any type.

    - `connection` is the DuckDB connection that reads the table.
    - `template` is the SQL of the aggregate, with {} for the column.
    - `limit` is the number of rows to read, from the beginning of the table. None reads all rows.

    Each statement reads at most 100 columns.
    """
    values: dict[str, Any] = {}
    for first in range(0, len(names), _COLUMNS_AT_ONCE):
        some = names[first : first + _COLUMNS_AT_ONCE]
        row = _aggregate_row(table, connection, [template.format(quoted(name)) for name in some], limit, some)
        values |= zip(some, row, strict=True)
    return values


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
        read = table.describe(cursor).names if columns is None else columns
        source = _first_rows(table, cursor, read, limit)
        row = cursor.execute(f"SELECT {', '.join(expressions)} FROM {source}").fetchone()
    assert row is not None
    return tuple(row)


def _first_rows(
    table: DuckDBTable, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str], limit: int | None
) -> str:
    """Return SQL text, to stand after FROM, that reads the columns `columns` of `table`.

    Only the first `limit` rows are read, or all rows if `limit` is None. The caller executes the SQL on `cursor`, with
    which the table is registered.
    """
    relation = table.relation(cursor, columns)
    return relation if limit is None else f"(SELECT * FROM {relation} LIMIT {limit})"
