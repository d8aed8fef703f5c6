"""An isolated DuckDB, with limits of time and memory, that runs the free part of a SQL statement over released rows.

The free part costs no privacy budget, because it reads only rows that were released already (noisy results of other
parts) and public tables.
"""

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

import duckdb

from setwise.analytics.engines.duckdb.dialect import quoted
from setwise.analytics.engines.duckdb.instances import KeptInstances, connect_isolated, lock
from setwise.errors import InvalidParameter

if TYPE_CHECKING:
    import pyarrow as pa

ShellCell: TypeAlias = str | int | float | bool | None

_TYPES = {str: "VARCHAR", int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN", date: "DATE", datetime: "TIMESTAMP"}
"""DuckDB's types of the columns of released rows, by their Python types."""

MEMORY = "256MiB"
"""DuckDB's memory limit for post-processing."""
SECONDS = 10.0
"""Time limit of post-processing in seconds.

Released rows are few, so a statement that takes longer multiplies them needlessly.
"""

MOST_ROWS = 100_000
"""The most rows of a result: a join of released rows with themselves could have billions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedTable:
    """A table of released rows (`rows`), which are noisy and no longer private.

    `columns` maps each column name to the Python type of its values.
    """

    columns: Mapping[str, type]
    rows: Sequence[Sequence[object]] = ()


@dataclass(frozen=True, slots=True)
class ShellResult:
    """The result of SQL over released (noisy) rows: the `names` of its columns, and its `rows`."""

    names: tuple[str, ...]
    rows: list[tuple[ShellCell, ...]]


@dataclass(frozen=True, slots=True)
class ShellValue:
    """The only value of a SELECT: its Python `value`, None for NULL, and DuckDB's name of its `type`, such as DATE."""

    value: object
    type: str


def run_shell(
    statement: str, tables: Mapping[str, ReleasedTable], public: "Mapping[str, pa.Table] | None" = None
) -> ShellResult:
    """Run the free part of a SQL statement (its shell): SQL over released (noisy) rows and public tables.

    `statement` is that SQL. `tables` has the released rows, and `public` the public tables (None: none), by the names
    in the statement.

    Raises: `InvalidParameter`, with DuckDB's own message, if the statement fails, takes more than `SECONDS` seconds or
    `MEMORY` of memory, or has more than `MOST_ROWS` rows.
    """
    # DuckDB has no access to files, extensions or settings, and sees only released and public rows. So its message
    # reveals nothing.
    with _INSTANCES.borrow() as cursor:
        for name, table in tables.items():
            _create(cursor, name, table)
        return _shell_result(cursor, statement, public or {})


def check_shell(
    statement: str, tables: Mapping[str, Mapping[str, type]], public: "Mapping[str, pa.Table] | None" = None
) -> None:
    """Raise `InvalidParameter` if the SQL `statement` fails over empty tables, because `run_shell` would also fail.

    So a statement with a mistake is refused before privacy budget is spent on its rows. `tables` maps the names of the
    empty tables to their columns, and each column to its Python type. `public` has the public tables, with their rows,
    by the names that the statement uses; None means no public tables.
    """
    with _INSTANCES.borrow() as cursor:
        for name, columns in tables.items():
            described = ", ".join(f"{quoted(column)} {_TYPES[kind]}" for column, kind in columns.items())
            cursor.execute(f"CREATE TEMP TABLE {name} ({described or 'nothing BIGINT'})")
        _shell_result(cursor, statement, public or {})


def run_scalar(statement: str, public: "Mapping[str, pa.Table]") -> ShellValue:
    """Run the SQL `statement`, a SELECT of one column over the `public` tables, and return the value of its only row.

    The value is NULL if there is no row, as in SQL.
    Raises: `InvalidParameter`, with DuckDB's own message, if the statement fails, takes too long or has several rows.
    """
    with _INSTANCES.borrow() as cursor:
        ((_, kind),), rows = _run(cursor, statement, public, 2, "a subquery over public tables")
    if len(rows) > 1:
        raise InvalidParameter("a subquery over public tables has several rows: compare with one value, such as MAX(x)")
    return ShellValue(rows[0][0] if rows else None, kind)


def _shell_result(
    connection: duckdb.DuckDBPyConnection, statement: str, public: "Mapping[str, pa.Table]"
) -> ShellResult:
    """Run the SQL `statement` on `connection` and return its result.

    `connection` has the tables of released (noisy) rows, and `public` are the public tables by name.
    Raises: `InvalidParameter`, with DuckDB's own message, if the statement fails, takes too long or has too many rows.
    """
    part = "the part over released rows"
    columns, rows = _run(connection, statement, public, MOST_ROWS + 1, part)
    if len(rows) > MOST_ROWS:
        raise InvalidParameter(f"{part} has more than {MOST_ROWS:,} rows: add LIMIT")
    return ShellResult(tuple(name for name, _ in columns), [tuple(map(_json_cell, row)) for row in rows])


def _run(
    connection: duckdb.DuckDBPyConnection, statement: str, public: "Mapping[str, pa.Table]", most: int, part: str
) -> tuple[list[tuple[str, str]], list[tuple[object, ...]]]:
    """Run the SQL `statement`, and return the (name, type) of each column, and its first `most` rows.

    `connection` has the tables of released (noisy) rows. `public` are the public tables by name. `part` is the name
    that error messages give the statement, such as "a subquery over public tables".
    Raises: `InvalidParameter` if the statement fails or takes too long.
    """
    try:
        for name, frame in public.items():
            connection.register(name, frame)
        timer = threading.Timer(SECONDS, connection.interrupt)
        timer.start()
        try:
            cursor = connection.execute(statement)
            columns = [(str(column[0]), str(column[1])) for column in cursor.description or ()]
            return columns, cursor.fetchmany(most)
        finally:
            timer.cancel()
            timer.join()
    except duckdb.InterruptException:
        raise InvalidParameter(f"{part} takes longer than {SECONDS:g} seconds") from None
    except duckdb.Error as error:
        raise InvalidParameter(f"{part} cannot be computed: {_sentence(error)}") from None


def connect_shell() -> duckdb.DuckDBPyConnection:
    """Return an in-memory DuckDB connection that can open no files and whose settings cannot be changed."""
    connection = connect_isolated(MEMORY)
    lock(connection)
    return connection


_INSTANCES = KeptInstances(connect_shell)
"""DuckDB instances that have no access to files, for the statements of this module."""


def _create(connection: duckdb.DuckDBPyConnection, name: str, table: ReleasedTable) -> None:
    """Create the table `name` on `connection` from `table`, released (noisy) rows.

    An integer column that holds a float, or an integer beyond 64 bits, becomes a column of floats.
    """
    import pyarrow as pa

    kinds = {
        str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_(),
        date: pa.date32(), datetime: pa.timestamp("us"),
    }  # fmt: skip
    columns = {}
    for place, (column, declared) in enumerate(table.columns.items()):
        cells = [row[place] for row in table.rows]
        wide = any(isinstance(cell, float) or (isinstance(cell, int) and abs(cell) >= 2**63) for cell in cells)
        kind = float if declared is int and wide else declared
        if kind is float:
            cells = [None if cell is None else float(cell) for cell in cells]  # type: ignore[arg-type]
        columns[column] = pa.array(cells, kinds[kind])
    frame = pa.table(columns) if columns else pa.table({"nothing": pa.array([], pa.int64())})
    connection.register(f"{name}_rows", frame)
    connection.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM {name}_rows")
    connection.unregister(f"{name}_rows")


def _json_cell(value: object) -> ShellCell:
    """Return a cell of a result as a JSON value.

    Infinities and NaN become None. Decimals become numbers. Dates and values of other types become text.
    """
    match value:
        case bool() | int() | str() | None:
            return value
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return int(value) if value == value.to_integral_value() and value.as_tuple().exponent == 0 else float(value)
        case datetime():
            return value.isoformat(sep=" ")
        case date() | time():
            return value.isoformat()
        case _:
            return str(value)


def _sentence(error: duckdb.Error) -> str:
    """Return the first line of DuckDB's message in `error`, without its prefix, such as "Binder Error: ".

    If nothing is left, return "DuckDB refuses it".
    """
    return str(error).strip().splitlines()[0].partition("Error: ")[2] or "DuckDB refuses it"
