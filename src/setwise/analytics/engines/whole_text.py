"""Text of Arrow tables in which every cell is text: Arrow itself takes any bytes for it."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa


def whole_text(table: "pa.Table") -> "pa.Table":
    """Return the table with null where a cell of text is not UTF-8.

    DuckDB sorts text in a form that only UTF-8 survives: a broken cell would come out as a label that nobody has.
    """
    for place, field in enumerate(table.schema):
        column = table.column(place)
        if _is_text(field.type) and not _is_whole(column):
            table = table.set_column(place, field.name, _mended(column))
    return table


def _is_text(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(inner) or pa.types.is_large_string(inner) or pa.types.is_string_view(inner))


def _is_whole(column: "pa.ChunkedArray") -> bool:
    import pyarrow as pa

    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _mended(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    import pyarrow as pa

    chunks = []
    for chunk in column.chunks:
        coded = pa.types.is_dictionary(chunk.type)
        cells = (chunk.dictionary if coded else chunk).cast(pa.large_binary()).to_pylist()
        texts = pa.array([_decoded(cell) for cell in cells], pa.large_string())
        chunks.append(texts.take(chunk.indices) if coded else texts)
    return pa.chunked_array(chunks, pa.large_string())


def _decoded(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None
