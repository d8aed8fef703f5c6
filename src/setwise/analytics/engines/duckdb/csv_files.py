"""CSV files as DuckDB reads them: through `csv_reader`, in batches of the columns that a question needs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from setwise.analytics.engines.csv_format import CsvFormat
from setwise.analytics.engines.files import columns_of, open_csv

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class CsvFiles:
    """One table in one or several CSV files; every column is text.

    Types guessed from some of the rows would make the schema, and errors, depend on the data.
    """

    files: tuple[Path, ...]
    origin: str
    form: CsvFormat = field(default_factory=CsvFormat)

    @property
    def columnar(self) -> bool:
        """Every pass reads every line."""
        return False

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Nothing to make ready."""

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = "source_table"
    ) -> str:
        """Make a stream of the files known to the cursor, good for one pass, and return its name there."""
        import pyarrow as pa

        opened = open_csv(self.files, self.form)
        names = columns_of(opened) if columns is None else tuple(columns)

        def batches() -> "Iterator[pa.RecordBatch]":
            for csv_file in opened:
                yield from csv_file.batches(names)

        schema = pa.schema([(each, pa.string()) for each in names])
        cursor.register(name, pa.RecordBatchReader.from_batches(schema, batches()))
        return name

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return None: nothing but reading tells."""
        del cursor
        return None
