"""Notes for the data holder about lines of CSV files that are no records, and about cells that are not text.

Such lines are mended by a shell command, and cells in another encoding are read by an option.
"""

from collections.abc import Sequence
from dataclasses import replace

from setwise.analytics.engines.csv_format import UTF_16, codec_name
from setwise.analytics.engines.files import CsvOptions, open_csv
from setwise.analytics.engines.object_store import TableFile
from setwise.analytics.tables.clean_copies import (
    UNWRAPPED,
    with_doubled_quotes,
    with_full_lines,
    with_line_feeds,
    with_mended_quotes,
    with_unwrapped_lines,
)
from setwise.analytics.tables.scan_notes import OptionWriter, ScanNote, command_line
from setwise.analytics.tables.sniffing import sniff
from setwise.analytics.tables.text_encodings import is_decodable, scan_encoding

MOST_LOST = 0.1
"""The share of a file's lines, or of a column's cells, from which on a question that would not read them is refused."""


def lost_lines(files: Sequence[TableFile], csv: CsvOptions, write: OptionWriter) -> list[ScanNote]:
    """Return a note about lines of CSV files that are left out because they are malformed records, in a list.

    The note says how many there are; blank lines are not counted. The list is empty if all lines can be read. `csv`
    says how the files are written, and `write` turns the options that the note suggests into text.
    """
    opened = open_csv(files, csv.format_of(csv.suffix_of(files[0])))
    counts = [file.count_lines() for file in opened]
    total, kept = sum(lines for lines, _ in counts), sum(lines for _, lines in counts)
    if kept == total:
        return []
    width = len(opened[0].names)
    malformed = f"of {width} cells (a cell too many or too few, or a stray quote)"
    if kept:
        is_much = total - kept >= MOST_LOST * total
        lost = f"{total - kept:,} of {total:,} lines are not records {malformed} and will be left out"
        copy = with_doubled_quotes(files[0], csv) if len(files) == 1 else ""
        if copy:
            escaped = "quotes within cells are escaped by a backslash, and not doubled as CSV has them"
            return [ScanNote(f"{lost}: {escaped}; a copy that is read: {copy}", is_much, copy_command=copy)]
        if len(files) == 1 and (copy := with_line_feeds(files[0], csv)):
            lost += ": some lines end in carriage returns alone"
            return [ScanNote(f"{lost}; a copy that is read: {copy}", is_much, copy_command=copy)]
        if len(files) == 1 and (copy := with_mended_quotes(files[0], csv)):
            lost += ": quotes within cells are not doubled"
            return [ScanNote(f"{lost}; a copy that is read: {copy}", is_much, copy_command=copy)]
        if len(files) == 1 and (copy := with_full_lines(files[0], csv)):
            lost += (
                ": a copy in which a line with too few cells ends in empty ones, and cells too many are one with the "
                f"last: {copy}"
            )
            return [ScanNote(lost, is_much, copy_command=copy)]
        advice = "mend them in the file; setwise check shows how it is written"
        return [ScanNote(f"{lost}: {advice}", is_much, is_unsolved=is_much)]
    if len(files) == 1 and (copy := with_unwrapped_lines(files[0], csv)):
        return [ScanNote(f"{UNWRAPPED}{copy}", mostly_unreadable=True, copy_command=copy)]
    remedy, is_unsolved = "setwise check shows how the file is written", True
    guess = sniff(files[0], csv) if csv.columns is None else csv
    if guess is not csv and guess.columns is not None and guess.separator == csv.separator:
        names = opened[0].names[: len(guess.columns)] + guess.columns[width:]
        columns = write(["--skip-lines", str(csv.skip_lines + 1), "--no-header", "--columns", ",".join(names)])
        remedy, is_unsolved = f"{columns} reads lines of {len(names)} cells", False
    if guess.separator is not None and guess.separator != csv.separator and guess.columns is None:
        remedy, is_unsolved = f"{write(['--separator', guess.separator])} reads them", False
    elif len(files) == 1 and (copy := with_mended_quotes(files[0], csv)):
        text = f"none of its {total:,} lines is a record {malformed}: quotes within cells are not doubled"
        return [ScanNote(f"{text}; a copy that is read: {copy}", mostly_unreadable=True, copy_command=copy)]
    text = f"none of its {total:,} lines is a record {malformed}: {remedy}"
    return [ScanNote(text, mostly_unreadable=True, is_unsolved=is_unsolved)]


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
