"""CSV files as batches of text: one rule for every engine, under which no line decides about another (`csv_records`).

Empty cells, quoted or not, are null, and so are cells that are not text in the file's encoding.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from setwise.analytics.engines.csv_format import UNIT_SEPARATOR, CsvFormat
from setwise.analytics.engines.csv_header import read_header
from setwise.analytics.engines.csv_records import Layout, Records

OpenFile = Callable[[], BinaryIO]


class CsvFile:
    """One CSV file, whose header is read at once and whose records as often as they are asked for.

    Raises `UnreadableHeader` unless the file begins with a header of distinct names; an empty file has no names.
    """

    def __init__(self, open_file: OpenFile, form: CsvFormat) -> None:
        self._open = open_file
        self._format = form
        with open_file() as file:
            self._header = read_header(file, form)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self._header.names

    def batches(self, columns: Sequence[str], layout: Layout | None = None) -> Iterator[pa.RecordBatch]:
        """Yield the chosen columns as text, in the order of the file."""
        if not self.names:
            return
        layout = layout or Layout(width=len(self.names), separator=ord(self._format.mark), crlf=self._header.crlf)
        records = Records(self._open, self._header.start, layout)
        for block, settled in records.blocks():
            batches = self._parsed(records, block, settled, columns)
            quoted = len(self._format.separator) > 1 and b'"' in block
            yield from map(self._with_separators, batches) if quoted else batches

    def _with_separators(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return cells with the separator as it was written: in quotes it is part of them."""
        cells = [pc.replace_substring(column, UNIT_SEPARATOR, self._format.separator) for column in batch.columns]
        return pa.RecordBatch.from_arrays(cells, names=batch.schema.names)

    def _parsed(self, records: Records, block: bytes, settled: bool, columns: Sequence[str]) -> list[pa.RecordBatch]:
        try:
            return list(self._table(block, columns, pa.string()).to_batches())
        except pa.ArrowInvalid:  # a line of another width, or a cell that is not UTF-8
            kept = block if settled else records.kept(block)[0]
        if not kept:
            return []
        table = self._table(kept, columns, pa.binary())
        texts = [decoded(column) for column in table.columns]
        return list(pa.table(texts, names=list(columns)).to_batches())

    def _table(self, data: bytes, columns: Sequence[str], kind: pa.DataType) -> pa.Table:
        return pa_csv.read_csv(
            pa.py_buffer(data),
            read_options=pa_csv.ReadOptions(column_names=list(self.names), block_size=len(data) + 1),
            parse_options=pa_csv.ParseOptions(
                delimiter=self._format.mark, newlines_in_values=True, ignore_empty_lines=False
            ),
            convert_options=pa_csv.ConvertOptions(
                include_columns=list(columns),
                column_types=dict.fromkeys(columns, kind),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return bytes as text, null where they are not UTF-8."""
    chunks = [pa.array([_text(cell) for cell in chunk.to_pylist()], pa.string()) for chunk in column.chunks]
    return pa.chunked_array(chunks, pa.string())


def _text(cell: bytes | None) -> str | None:
    try:
        return None if cell is None else cell.decode()
    except UnicodeDecodeError:
        return None
