"""Arrow columns as DuckDB can hold them: null for a cell of text that is not UTF-8 or a timestamp out of range.

DuckDB fails on some such cells, and sorts text in a form that only UTF-8 survives: a broken cell would come out as a
label that nobody has. Timestamps become microseconds, the only unit in which DuckDB compares all of them. Of lists,
records and durations nothing but whether they are null is ever asked, so nothing else of them is handed over.
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
"""Microseconds in the units that reach beyond them."""
_THERE = pa.list_(pa.null())
"""What stands for types of which only null is asked."""


def sound_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema of `sound_table`, or raise `UnsuitableTable` for a type that DuckDB does not have."""
    return pa.schema([pa.field(cell.name, _sound_type(cell.name, cell.type)) for cell in schema])


def sound_table(table: pa.Table) -> pa.Table:
    """Return the table with cells that DuckDB could not hold as null, in columns whose types do not depend on cells."""
    schema = sound_schema(table.schema)
    columns = [_sound_column(column, cell.type) for column, cell in zip(table.columns, schema, strict=True)]
    return pa.table(columns, schema=schema)


def is_text(kind: pa.DataType) -> bool:
    """Whether a type is text, plain or in a dictionary."""
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner) or pa.types.is_string_view(inner))


def reaches_beyond_microseconds(kind: pa.DataType) -> bool:
    """Whether a type has timestamps that microseconds in 64 bits cannot hold."""
    return bool(pa.types.is_timestamp(kind)) and kind.unit in PER_MICROSECOND


def is_only_looked_at_for_null(kind: pa.DataType) -> bool:
    """Whether no question compares, adds up or groups by values of a type: lists, records, durations, JSON."""
    inner = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    return bool(pa.types.is_nested(inner) or pa.types.is_duration(inner) or (inner is not kind and is_text(inner)))


def is_sound_text(column: pa.Array | pa.ChunkedArray) -> bool:
    """Whether every cell is UTF-8."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _sound_type(name: str, kind: pa.DataType) -> pa.DataType:
    if is_text(kind):
        return pa.large_string()
    if is_only_looked_at_for_null(kind):
        return _THERE
    if reaches_beyond_microseconds(kind):
        return pa.timestamp("us", kind.tz)
    if pa.types.is_float16(kind):
        return pa.float32()
    if pa.types.is_decimal256(kind):
        raise UnsuitableTable(f"column {name!r} has decimals of more than 38 digits: convert it to fewer, or to text")
    return kind


def _sound_column(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if kind == _THERE:
        return pa.chunked_array([_empty_lists(chunk) for chunk in column.chunks], kind)
    if is_text(column.type):
        return column.cast(kind) if is_sound_text(column) else _decoded(column)
    if reaches_beyond_microseconds(column.type):
        factor = PER_MICROSECOND[column.type.unit]
        number, most = column.cast(pa.int64()), (2**63 - 1) // factor
        within = pc.and_(pc.greater_equal(number, -most), pc.less_equal(number, most))
        return pc.multiply(pc.if_else(within, number, pa.scalar(None, pa.int64())), factor).cast(kind)
    return column.cast(kind) if pa.types.is_float16(column.type) else column


def _empty_lists(chunk: pa.Array) -> pa.Array:
    """Return an empty list where there is a value, and null where there is none."""
    starts = pa.repeat(pa.scalar(0, pa.int32()), len(chunk) + 1)
    return pa.ListArray.from_arrays(starts, pa.nulls(0), mask=chunk.is_null())


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    chunks = []
    for chunk in column.chunks:
        coded = pa.types.is_dictionary(chunk.type)
        cells = (chunk.dictionary if coded else chunk).cast(pa.large_binary()).to_pylist()
        texts = pa.array([utf8_text(cell) for cell in cells], pa.large_string())
        chunks.append(texts.take(chunk.indices) if coded else texts)
    return pa.chunked_array(chunks, pa.large_string())


def from_pandas(frame: "pd.DataFrame") -> pa.Table:
    """Return a frame of pandas as Arrow; a column of Python's objects is text, cell by cell, whatever they are."""
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


def _holds_objects(kind: object) -> bool:
    """Whether cells, or the categories that they are of, are objects of Python, of which each may be anything."""
    inner = getattr(getattr(kind, "categories", None), "dtype", kind)
    return bool(inner == "object" or getattr(inner, "storage", None) == "python")


def _object_text(cell: object) -> str | None:
    """Return an object as text where there is one way to write it; everything else is null."""
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
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
