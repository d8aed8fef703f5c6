"""Notes for the data holder about cells that are not text in the encoding in which the files of a table are read."""

from collections.abc import Sequence
from dataclasses import replace

from setwise.analytics.engines.csv_format import UTF_16, codec_name
from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.engines.object_store import TableFile
from setwise.analytics.tables.scan_notes import OptionWriter, ScanNote, command_line
from setwise.analytics.tables.text_encodings import is_decodable, scan_encoding


def undecoded_cells(
    source: object,
    table_name: str | None,
    csv: CsvOptions,
    files: Sequence[TableFile],
    columns: Sequence[str],
    write: OptionWriter = command_line,
) -> list[ScanNote]:
    """Return a note for each of the `columns` with cells that are not text in the encoding which `csv` states.

    - `source` is the path of the table, and `files` are the table's files. `table_name` is the table's name if `source`
      is a database file, else None.
    - `csv` says how the files are written.
    - `write` turns an option into text. A note suggests options that name other encodings: those that can read every
      byte of the first file.

    The list is empty if all cells can be decoded. Files in UTF-16 are not checked.
    """
    from setwise.analytics.engines.duckdb.cell_counts import count_cells
    from setwise.analytics.engines.duckdb.opening import untyped_table

    encoding = codec_name(csv.encoding)
    forms = [csv.format_of(csv.suffix_of(file)) for file in files]
    if encoding in UTF_16 or all(is_decodable(file, form) for file, form in zip(files, forms, strict=True)):
        return []
    plain = count_cells(untyped_table(source, table_name, csv), {}, None, columns=columns).columns
    latin_1 = replace(csv, encoding="latin-1")  # decodes every byte
    decoded = count_cells(untyped_table(source, table_name, latin_1), {}, None, columns=columns).columns
    name = "UTF-8" if encoding == "utf-8" else csv.encoding
    remedy = scan_encoding(files[0], forms[0]).choices(write)
    if not remedy:  # another encoding would misread the cells that are UTF-8
        remedy = "most other such cells of the file are UTF-8, so write these in UTF-8 too"
    return [
        ScanNote(
            f"{column.filled - other.filled:,} of {column.filled:,} cells of {column.name!r} are not {name} and will "
            f"be skipped: {remedy}",
            mostly_unreadable=2 * other.filled <= column.filled,
        )
        for column, other in zip(decoded, plain, strict=True)
        if column.filled > other.filled
    ]
