"""Conversion of Arrow tables to columns that DuckDB can read without failing on any cell.

A text cell that is not UTF-8 and a timestamp out of range become null. DuckDB fails on some of these cells. It would
also sort text that is not UTF-8 wrongly, and return labels that the table does not have. Timestamps become
microseconds, the only unit in which DuckDB can compare all of them. Queries test lists, records and durations only for
null, so their contents are dropped.
"""

import decimal
from datetime import date, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from setwise.analytics.engines.csv_reader import utf8_text
from setwise.errors import UnsuitableTable

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]

PER_MICROSECOND = {"s": 1_000_000, "ms": 1_000}
"""Microseconds per unit, for the Arrow timestamp units whose 64-bit range exceeds that of microseconds."""
_THERE = pa.list_(pa.null())
"""The Arrow type that replaces types of which only nullness is read: an empty list for a value, null for null."""


def sound_schema(schema: pa.Schema) -> pa.Schema:
    """Return the Arrow schema of a table after `sound_table` has converted it to types that DuckDB can hold.

    `schema` is the Arrow schema of the table before the conversion. No cell is read.
    Raises: `UnsuitableTable` for decimals of more than 38 digits, which DuckDB cannot hold.
    """
    return pa.schema([pa.field(cell.name, _sound_type(cell.name, cell.type)) for cell in schema])


def sound_table(table: pa.Table) -> pa.Table:
    """Return `table` converted to types that DuckDB can hold; a cell that DuckDB cannot hold becomes null.

    The types of the result depend only on the types of `table`, never on its cells.

    Raises: `UnsuitableTable` for decimals of more than 38 digits.
    """
    schema = sound_schema(table.schema)
    columns = [_sound_column(column, cell.type) for column, cell in zip(table.columns, schema, strict=True)]
    return pa.table(columns, schema=schema)


def is_text(kind: pa.DataType) -> bool:
    """Return whether the Arrow type `kind` is text: string, large string, string view, or a dictionary of these."""
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner) or pa.types.is_string_view(inner))


def reaches_beyond_microseconds(kind: pa.DataType) -> bool:
    """Return whether the Arrow type `kind` is a timestamp in seconds or milliseconds.

    Such a timestamp may be too large for 64-bit microseconds, to which all timestamps are converted.
    """
    return bool(pa.types.is_timestamp(kind)) and kind.unit in PER_MICROSECOND


def is_instant_in_nanoseconds(kind: pa.DataType) -> bool:
    """Return whether the Arrow type `kind` is a timestamp with a time zone in nanoseconds.

    DuckDB has few functions for such timestamps, so they are read in microseconds. Digits beyond these are dropped.
    """
    return bool(pa.types.is_timestamp(kind)) and kind.unit == "ns" and kind.tz is not None


def is_only_looked_at_for_null(kind: pa.DataType) -> bool:
    """Return whether queries only test values of the Arrow type `kind` for null, and never read them.

    True for lists, records, durations and JSON.
    """
    inner = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    return bool(pa.types.is_nested(inner) or pa.types.is_duration(inner) or (inner is not kind and is_text(inner)))


def is_sound_text(column: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether every cell of a text column is valid UTF-8; DuckDB fails on other cells or sorts them wrongly."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _sound_type(name: str, kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type that `sound_table` gives the column `name`, whose Arrow type is `kind`.

    Raises: `UnsuitableTable` for decimals of more than 38 digits, which DuckDB cannot hold.
    """
    if is_text(kind):
        return pa.large_string()
    if is_only_looked_at_for_null(kind):
        return _THERE
    if reaches_beyond_microseconds(kind) or is_instant_in_nanoseconds(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_decimal256(kind):
        raise UnsuitableTable(f"column {name!r} has decimals of more than 38 digits: convert it to fewer, or to text")
    return kind


def _sound_column(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    """Return `column` converted to the Arrow type `kind`, with null for cells that DuckDB cannot hold.

    `kind` is the type that DuckDB is to read in place of the column's own. A column of lists, records or another type
    that queries only test for null becomes a column of empty lists, which DuckDB can always hold.
    """
    if kind == _THERE:
        return pa.chunked_array([_empty_lists(chunk) for chunk in column.chunks], kind)
    if is_text(column.type):
        return column.cast(kind) if is_sound_text(column) else _decode_text(column)
    if reaches_beyond_microseconds(column.type):
        factor = PER_MICROSECOND[column.type.unit]
        number, most = column.cast(pa.int64()), (2**63 - 1) // factor
        within = pc.and_(pc.greater_equal(number, -most), pc.less_equal(number, most))
        return pc.multiply(pc.if_else(within, number, pa.scalar(None, pa.int64())), factor).cast(kind)
    if is_instant_in_nanoseconds(column.type):
        return column.cast(kind, safe=False)
    return column.cast(kind) if pa.types.is_float16(column.type) else column


def _empty_lists(chunk: pa.Array) -> pa.Array:
    """Return an Arrow array with an empty list for each non-null value of `chunk`, and null for each null.

    It replaces values that queries test only for null, so that DuckDB need not read them.
    """
    starts = pa.repeat(pa.scalar(0, pa.int32()), len(chunk) + 1)
    return pa.ListArray.from_arrays(starts, pa.nulls(0), mask=chunk.is_null())


def _decode_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return an Arrow column of text as large strings, with null for every cell that is not valid UTF-8."""
    chunks = []
    for chunk in column.chunks:
        coded = pa.types.is_dictionary(chunk.type)
        cells = (chunk.dictionary if coded else chunk).cast(pa.large_binary()).to_pylist()
        texts = pa.array([utf8_text(cell) for cell in cells], pa.large_string())
        chunks.append(texts.take(chunk.indices) if coded else texts)
    return pa.chunked_array(chunks, pa.large_string())


def from_pandas(frame: "pd.DataFrame") -> pa.Table:
    """Return a pandas data frame as an Arrow table.

    A column of dtype object becomes text: str, bool, int, Decimal and date cells are written as text, and all other
    objects (floats, datetimes, lists, text with lone surrogates, numbers of more than 1000 digits) become null.

    Raises: `UnsuitableTable` if two columns have the same name.
    """
    columns = {}
    for place, name in enumerate(frame.columns):
        series = frame.iloc[:, place]
        if _holds_objects(series.dtype):
            columns[str(name)] = pa.array([_object_text(cell) for cell in series], pa.large_string())
        else:
            columns[str(name)] = pa.array(series, from_pandas=True)
    if len(columns) != frame.shape[1]:
        raise UnsuitableTable("the frame has two columns of one name: give every column a name of its own")
    return pa.table(columns)


def count_skipped_objects(frame: object) -> dict[str, tuple[int, int]]:
    """Return {column name: (skipped, present)}, two exact counts of cells, for the object columns of `frame`.

    The counts are for the data holder only. `skipped` is the number of cells that `from_pandas` makes null, and
    `present` the number of cells that are not missing. The result is empty if `frame` is not a pandas data frame.
    """
    if type(frame).__module__.partition(".")[0] != "pandas":
        return {}
    counts = {}
    for place, name in enumerate(frame.columns):  # type: ignore[attr-defined]
        series = frame.iloc[:, place]  # type: ignore[attr-defined]
        if _holds_objects(series.dtype):
            cells = series[series.notna()]
            counts[str(name)] = (sum(_object_text(cell) is None for cell in cells), len(cells))
    return counts


def _holds_objects(kind: object) -> bool:
    """Return whether the pandas dtype `kind` stores Python objects: objects of any type, or Python strings.

    For a categorical dtype, the objects are its categories; otherwise they are the cells.
    """
    inner = getattr(getattr(kind, "categories", None), "dtype", kind)
    return bool(inner == "object" or getattr(inner, "storage", None) == "python")


def _object_text(cell: object) -> str | None:
    """Return `cell`, a str, bool, int, Decimal or date, as text; equal values give equal texts.

    None for objects of other types, for text with lone surrogates, and for numbers of more than 1000 digits.
    """
    match cell:
        case str():
            return cell if _is_unicode(cell) else None
        case bool():
            return str(cell).lower()
        case int():
            return str(cell) if abs(cell) < 10**1000 else None
        case decimal.Decimal():
            return format(cell, "f") if cell.is_finite() and abs(cell.adjusted()) < 1000 else None
        case date() if not isinstance(cell, datetime):
            return cell.isoformat()
        case _:
            return None


def _is_unicode(text: str) -> bool:
    """Return whether `text` can be encoded as UTF-8, which fails for lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
