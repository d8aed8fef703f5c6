"""`setwise check`: count the readable cells of a table, and guess with which options its files have to be read.

The counts are exact, without noise, so only the data holder, who owns the files, may see them. The format of a text
file is guessed from its rows. Queries never use these guesses: the data holder declares the format, so that no private
row can change how a file is read. `unread_cells.py` has the scan before a question is charged.
"""

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from statistics import mode
from typing import TYPE_CHECKING, Any, BinaryIO

from setwise.analytics.engines.csv_format import COMPRESSIONS, MARKS, CsvFormat
from setwise.analytics.engines.csv_reader import SEPARATORS, suggested_names, value_among
from setwise.analytics.engines.files import (
    CSV_SEPARATORS,
    CsvOptions,
    apply_description,
    check_format,
    files_of,
    magic_of,
    suffix_of,
    write_description,
)
from setwise.analytics.engines.object_store import TableFile
from setwise.analytics.schema import Kind
from setwise.analytics.tables.writing import (
    KIND_WORDS,
    commas_note,
    grammar_words,
    guess_grammar,
    may_be_thousands,
    signs_note,
    thousands_note,
)
from setwise.errors import InvalidParameter, UnsuitableTable

if TYPE_CHECKING:
    from setwise.analytics.engines.duckdb.cell_counts import TableCount

_SAMPLE_BYTES = 2**20
"""Bytes at the beginning of a file from which its format is guessed."""
_BLOCK = 2**22
"""Bytes that are read at a time."""
_MAGICS = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst", b"BZh": ".bz2"}
"""The first bytes of compressed files, and the endings of their names."""

Row = list[str]
"""The cells of one record of a sample."""


def sniff(file: TableFile, declared: CsvOptions) -> CsvOptions:
    """Return the CSV options with which `file` can be read: those that are `declared`, and guesses for the others.

    The guesses are made from the first lines of the file.
    Raises: `UnsuitableTable` if the file cannot be opened or has no lines of text.
    """
    ending = _compression(file) if declared.format is None else f".{declared.format.partition('.')[2]}"
    if declared.encoding == "utf-8":
        declared = replace(declared, encoding=_encoding(file, CsvFormat(compression=COMPRESSIONS.get(ending, ""))))
    text = _sample(file, CsvFormat(compression=COMPRESSIONS.get(ending, ""), encoding=declared.encoding))
    separator = declared.separator or _separator(text)
    lines = text.splitlines(keepends=True)
    rows = _rows(lines[declared.skip_lines :], separator)
    if not any(any(row) for row, _ in rows):
        raise UnsuitableTable(f"{file} has no lines of text")
    return _with_names(_with_place(declared, file, separator, ending), rows)


def _with_place(declared: CsvOptions, file: TableFile, separator: str, ending: str) -> CsvOptions:
    """Return the options `declared` with the separator and the format, such as "csv.gz", that `file` needs.

    An option that the name of the file or a declared format already implies is left out, so that fewer have to be
    declared. `separator` is the separator between cells, declared or guessed. `ending` is the file name ending of the
    file's compression, such as ".gz", or "" for none.
    """
    suffix = suffix_of(file)
    compressed_as_named = ending == (file.suffix.lower() if file.suffix.lower() in COMPRESSIONS else "")
    if declared.format is not None or (suffix in CSV_SEPARATORS and compressed_as_named):
        usual = CSV_SEPARATORS[suffix_of(Path(f"table.{declared.format}")) if declared.format else suffix]
        return replace(declared, separator=None if separator == usual else separator)
    if compressed_as_named and separator not in CSV_SEPARATORS.values():
        return replace(declared, separator=separator)
    format_name = "tsv" if separator == "\t" else "csv"
    needed = None if separator in CSV_SEPARATORS.values() else separator
    return replace(declared, separator=needed, format=format_name + ending)


def _with_names(declared: CsvOptions, rows: Sequence[tuple[Row, int]]) -> CsvOptions:
    """Return the options `declared` with the lines to skip, whether a header follows, and the names of columns.

    `rows` are the records of a sample of the file, each with the number of its last line. The header is the first
    record that has as many cells as most records. If this record does not look like a header, names are suggested.
    """
    if declared.columns is not None:
        return replace(declared, header=False)
    width = mode(len(row) for row, _ in rows)
    # A line with one filled cell and then empty ones is a title that a spreadsheet wrote, and not the header.
    place = next(place for place, (row, _) in enumerate(rows) if len(row) == width and any(row[1:] or row))
    above = rows[place - 1][1] if place else 0
    first, end = rows[place]
    body = [row for row, _ in rows[place + 1 :] if len(row) == width]
    if declared.header is None and not _is_header(first, body):
        names = tuple(f"column_{number}" for number in range(1, width + 1))
        # Every line but the header may end with a separator, and so with an empty cell without a name.
        short = rows[place - 1][0] if place else []
        is_header = 1 < len(short) < width and all(short) and len({*short}) == len(short) and not value_among(short)
        if is_header and not any(any(row[len(short) :]) for row in (first, *body)):
            names = (*short, *names[len(short) :])
        return replace(declared, skip_lines=declared.skip_lines + above, columns=names, header=False)
    # a header that is not one line of distinct names is skipped, and names are suggested
    if end > above + 1 or not all(first) or len(set(first)) < len(first):
        return replace(
            declared, skip_lines=declared.skip_lines + end, columns=tuple(suggested_names(first)), header=False
        )
    return replace(declared, skip_lines=declared.skip_lines + above, header=True if value_among(first) else None)


def _is_header(first: Row, body: Sequence[Row]) -> bool:
    """Return whether the row `first` looks like the header of the rows `body` below it.

    A cell of `first` is a value if it is a number or date. It is a name if it is neither, and all cells below it are
    numbers or dates. The row is a header if it has at least as many names as values, and no cell occurs again below
    itself.
    """
    names = values = 0
    for place, cell in enumerate(first):
        below = {row[place] for row in body} - {""}
        if cell in below:
            return False
        values += bool(value_among([cell]))
        names += bool(below) and not value_among([cell]) and all(value_among([other]) for other in below)
    return names >= values


def _separator(text: str) -> str:
    """Return the separator between cells that best fits `text`, the first lines of a file.

    It splits the largest share of the lines into equal numbers of cells, at least two. The result is a comma if every
    separator leaves most lines as one cell.
    """
    lines = [line for line in text.splitlines(keepends=True) if line.strip()]

    def agreement(separator: str) -> tuple[float, int]:
        """Return (share, length), a score of how well `separator` splits the `lines` of the enclosing call into cells.

        The share is the fraction of lines that have the most frequent number of cells, or 0 if this number is 1. The
        length of `separator` decides between equal shares.
        """
        widths = Counter(len(row) for row, _ in _rows(lines, separator))
        cells, share = widths.most_common(1)[0] if widths else (1, 0)
        return (share / max(1, sum(widths.values())) if cells > 1 else 0.0, len(separator))

    best = max(SEPARATORS, key=agreement)
    return best if agreement(best)[0] > 0 else ","


def _rows(lines: Sequence[str], separator: str) -> list[tuple[Row, int]]:
    """Return the records of the CSV `lines`, each as (cells, number of the line at which the record ends).

    `separator` is the text between cells. A record with a line break in a quoted cell takes several lines. A blank line
    is a record of one empty cell.
    """
    mark = separator if len(separator) == 1 else "\x1f"
    reader = csv.reader((line.replace(separator, mark) for line in lines), delimiter=mark)
    try:
        records = [(row, reader.line_num) for row in reader]
    except csv.Error:
        records = [(line.split(separator), place) for place, line in enumerate(lines, start=1)]
    return [([cell.strip() for cell in row] or [""], end) for row, end in records]


def _compression(file: TableFile) -> str:
    """Return the file name ending, such as ".gz", of the compression that the first bytes of `file` show.

    Returns "" if the bytes show no known compression.
    """
    with _open(file) as opened:
        start = opened.read(4)
    return next((ending for magic, ending in _MAGICS.items() if start.startswith(magic)), "")


def _sample(file: TableFile, form: CsvFormat) -> str:
    """Return the first whole lines of a file as text, at most about 1 MiB; `form` has its compression and encoding."""
    with form.open_converted(_open(file), file.name) as opened:
        start = b""
        while len(start) < _SAMPLE_BYTES and (read := opened.read(_SAMPLE_BYTES)):
            start += read
    lines = start if len(start) < _SAMPLE_BYTES else start[: start.rfind(b"\n") + 1] or start
    return lines.decode("utf-8-sig", "replace")


def _encoding(file: TableFile, form: CsvFormat) -> str:
    """Return the encoding of a text file, guessed from its bytes: "utf-16" or a variant of it, "cp1252" or "utf-8".

    `form` has the file's compression. UTF-16 is recognised by its byte order mark, or by many zero bytes. Otherwise the
    encoding is cp1252 if more than half of the lines with non-ASCII bytes are not valid UTF-8.
    """
    right = wrong = 0
    with form.decompress(_open(file), file.name) as opened:
        block = opened.read(_BLOCK)
        if block[:2] in MARKS:
            return "utf-16"
        if block[:1000].count(b"\0") > len(block[:1000]) // 3:
            return "utf-16-be" if block[:1] == b"\0" else "utf-16-le"
        while block:
            if not block.isascii():
                for line in block.split(b"\n")[1:-1] or [block]:
                    if not line.isascii():
                        valid = _is_utf8(line)
                        right, wrong = right + valid, wrong + (not valid)
            block = opened.read(_BLOCK)
    return "cp1252" if wrong > right else "utf-8"


def _is_utf8(line: bytes) -> bool:
    """Return whether the bytes of a line are valid UTF-8."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _open(file: TableFile) -> BinaryIO:
    """Return the file opened for reading bytes, or raise `UnsuitableTable` if that fails."""
    try:
        return file.open("rb")
    except OSError:
        raise UnsuitableTable(f"{file} cannot be opened for reading") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCheck:
    """The result of checking a table: with which options its files are read, and how many of its cells can be read.

    - `source` is the path that was checked.
    - `csv` has the options that read the text. None for Parquet files and databases.
    - `counts` has the exact counts of rows and cells.
    - `lost_lines` is the number of lines of text that queries skip, because they belong to no well-formed record.
    - `types` has the kinds, by name, of text columns that are to be read as another kind.

    The other fields are doubts for the data holder to decide.

    - `other_dates` are date formats that read as many cells as the chosen format.
    - `thousands` are columns of numbers in which a point may stand between thousands, and `commas` those in which a
      comma may.
    - `doubtful` has, by text column, words that may mean an empty cell or be values, such as NA.
    - `remarks` are sentences about numbers with signs beside them, and about a last line with a total.
    """

    source: str
    csv: CsvOptions | None
    counts: "TableCount"
    lost_lines: int
    types: Mapping[str, Kind]
    other_dates: tuple[str, ...] = ()
    thousands: tuple[str, ...] = ()
    commas: tuple[str, ...] = ()
    doubtful: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    def notes(self) -> list[str]:
        """Return sentences that warn the data holder of ambiguous dates, numbers and words, and of unreadable cells."""
        notes = [*self.remarks, *map(thousands_note, self.thousands), *map(commas_note, self.commas)]
        if self.other_dates and self.csv is not None:
            others = " or ".join(self.other_dates)
            notes.append(
                f"the dates can be read as {self.csv.date_format} and as {others}: the cells do not tell which, so "
                "look where the file comes from, and give the right one with --date-format"
            )
        nulls = () if self.csv is None else self.csv.null
        for name, words in self.doubtful.items():
            for word in words:
                notes.append(
                    f"--null {word} also empties the cells {word!r} of {name!r}: leave it out if they are values there"
                    if word in nulls
                    else f"some cells of {name!r} are {word!r}: add --null {word} if they are empty"
                )
        for column in self.counts.columns:
            lost = column.filled - column.readable
            if lost:
                notes.append(
                    f"{lost:,} of {column.filled:,} cells of {column.name!r} are not {KIND_WORDS[column.kind]} and "
                    f"would be skipped; --type {column.name}=text reads them as text"
                )
        return notes

    @property
    def unchosen(self) -> tuple[str, ...]:
        """The columns for which the data holder must still say whether a point stands between thousands, as in 1.234.

        They are the columns in `thousands`, except those that the check suggests to read as another kind (`types`).
        """
        return tuple(name for name in self.thousands if name not in self.types)

    def readings(self) -> dict[str, tuple[CsvOptions, dict[str, Kind]]]:
        """Return the possible readings of the table, of which the data holder has to choose one.

        The keys are phrases such as "if dates are DATE_FORMAT". The values are the CSV options and column kinds of that
        reading. The result is empty if the cells leave no doubt about dates and numbers.
        """
        if self.csv is None:
            return {}
        if self.commas:
            return {
                "if 1,234 is one and a bit": (replace(self.csv, decimal=","), {}),
                "if it is 1234": (replace(self.csv, thousands=","), {}),
            }
        if self.unchosen:
            return {
                "if 1.234 is one and a bit": (self.csv, dict.fromkeys(self.unchosen, Kind.FLOAT)),
                "if it is 1234": (replace(self.csv, decimal=",", thousands="."), {}),
            }
        formats = [self.csv.date_format, *self.other_dates] if self.other_dates else []
        return {f"if dates are {each}": (replace(self.csv, date_format=each), {}) for each in formats}

    def options(self) -> list[str]:
        """Return the command-line arguments with which the checked table is read, such as ["--separator", ";"]."""
        words: list[str] = []
        if self.csv is not None:
            options, usual = self.csv, CsvOptions()
            values = {field.name: getattr(options, field.name) for field in fields(options)}
            for name in ("format", "separator", "encoding", "skip_lines"):
                if values[name] != getattr(usual, name):
                    words += [f"--{name.replace('_', '-')}", "tab" if values[name] == "\t" else str(values[name])]
            if options.columns is not None:
                words += ["--no-header", "--columns", ",".join(options.columns)]
            elif options.header:
                words.append("--header")
            words += grammar_words(options.cells)
        for name, kind in self.types.items():
            words += ["--type", f"{name}={kind}"]
        return words

    def words(self) -> dict[str, Any]:
        """Return the keyword arguments with which `setwise.open`, or a catalog file, reads the checked table.

        Options that have their default value are left out.
        """
        words: dict[str, Any] = {}
        if self.csv is not None:
            usual = CsvOptions()
            for name in (
                *("format", "separator", "encoding", "skip_lines", "decimal", "thousands", "date_format", "null"),
            ):
                if getattr(self.csv, name) != getattr(usual, name):
                    words[name] = getattr(self.csv, name)
            if self.csv.columns is not None:
                words["columns"] = list(self.csv.columns)
            elif self.csv.header:
                words["header"] = True
        if self.types:
            words["types"] = {name: str(kind) for name, kind in self.types.items()}
        return words

    def save(self) -> Path:
        """Write a description file (column types and CSV options) beside the table's first file, and return its path.

        Raises: `InvalidParameter` if the table is in an object store, if the file cannot be written, or if the cells
        leave a doubt: which number of a date is the day, or whether a comma or point stands between thousands.
        """
        unclear = [*map(commas_note, self.commas), *(thousands_note(name) for name in self.unchosen)]
        if unclear:
            raise InvalidParameter(f"nothing was saved: {'; '.join(unclear)}")
        if self.other_dates and self.csv is not None:
            choices = " or ".join(f"--date-format '{each}'" for each in (self.csv.date_format, *self.other_dates))
            raise InvalidParameter(
                f"the dates can be read in {1 + len(self.other_dates)} ways, and the cells do not tell which: save it "
                f"again with {choices}, as the source of the file writes them"
            )
        file = files_of(self.source.partition("::")[0])[0]
        if not isinstance(file, Path):
            raise InvalidParameter("nothing is written to an object store: give the options where the table is opened")
        return write_description(file, self.csv or CsvOptions(), self.types)

    def how(self) -> str:
        """Return a text that says how the checked table is written: encoding, number of rows, separator and header."""
        if self.csv is None:
            return f"{self.counts.rows:,} rows of {len(self.counts.columns)} columns with types of their own"
        separator = self.csv.format_of(self.csv.suffix_of(Path(self.source))).separator
        above = f", below {self.csv.skip_lines} other line(s)" if self.csv.skip_lines else ""
        header = "no header" if self.csv.columns is not None else "a header"
        return (
            f"text in {self.csv.encoding}, {self.counts.rows:,} rows of {len(self.counts.columns)} cells with "
            f"{SEPARATORS.get(separator, repr(separator))} between them, {header}{above}"
        )

    def to_dict(self) -> dict[str, object]:
        """Return the result of the check as the JSON object that the command prints with `--json`."""
        columns = [
            {
                "name": column.name,
                "kind": str(column.kind),
                "filled": column.filled,
                "unreadable": column.filled - column.readable,
            }
            for column in self.counts.columns
        ]
        return {
            "private": False,
            "how": self.how(),
            "rows": self.counts.rows,
            "users": self.counts.users,
            "lost_lines": self.lost_lines,
            "columns": columns,
            "notes": self.notes(),
            "options": self.options(),
        }


def check_table(source: str, csv: CsvOptions, types: Mapping[str, Kind], user: str | None) -> TableCheck:
    """Return the options with which a table is read, and counts of the cells that can be read, for its data holder.

    - `source` is a file, a glob, a directory or FILE::TABLE in a database. The format of several files is guessed from
      the first.
    - `csv` and `types` are options and column kinds that the data holder states. They are kept.
    - `user` is the user column, whose distinct values are counted, or None.

    Raises: `UnsuitableTable` if the source cannot be read, `UnknownColumn` if `user` is not a column.
    """
    from setwise.analytics.engines.duckdb.cell_counts import count_cells, text_samples
    from setwise.analytics.engines.duckdb.opening import untyped_table

    files = files_of(source.partition("::")[0])
    types, csv = apply_description(source, types, csv)
    options = None
    if files:  # an empty lake table has none
        check_format(files[0], csv)
        options = sniff(files[0], csv) if magic_of(files[0]) is None else None
    other_dates: tuple[str, ...] = ()
    doubtful: Mapping[str, tuple[str, ...]] = {}
    thousands: tuple[str, ...] = ()
    commas: tuple[str, ...] = ()
    remarks: list[str] = []
    if options is not None:
        table = untyped_table(source, None, options)
        samples = text_samples(table)
        guess = guess_grammar(samples, options.cells)
        separator = options.format_of(options.suffix_of(files[0])).separator
        thousands = tuple(name for name in samples if may_be_thousands(samples[name], separator, guess.grammar))
        other_dates, doubtful, commas = guess.other_dates, guess.doubtful, guess.commas
        cells = guess.grammar
        options = replace(
            options, decimal=cells.decimal, thousands=cells.thousands, date_format=cells.date_format, null=cells.null
        )
        counts = count_cells(table, types, user, options.cells)
        options = _drop_unused(options, counts)
        texts_left = [column.name for column in counts.columns if column.kind is Kind.TEXT and column.name in samples]
        remarks += [signs_note(name, samples[name], files[0], options.encoding) for name in texts_left]
        remarks.append(total_line_note(files[-1], options))
    else:
        counts = count_cells(untyped_table(source, None, csv), types, user, csv.cells)
    # Types that the data holder gave, or that a description beside the file states, are kept when it is written again.
    texts: dict[str, Kind] = {name: kind for name, kind in types.items() if kind is not Kind.TEXT}
    guessed = [column for column in counts.columns if column.from_text and column.kind is not Kind.TEXT]
    texts |= {column.name: column.kind for column in guessed if column.name not in thousands}
    lost = 0
    if options is not None:
        form = options.format_of(options.suffix_of(files[0]))
        above = options.skip_lines + (options.columns is None)
        lines = sum(max(0, _lines(file, form) - above) for file in files)
        lost = lines - counts.rows - sum(column.line_feeds for column in counts.columns)
    return TableCheck(
        source=source,
        csv=options,
        counts=counts,
        lost_lines=lost,
        types=texts,
        other_dates=other_dates,
        thousands=thousands,
        commas=commas,
        doubtful=doubtful,
        remarks=tuple(filter(None, remarks)),
    )


_TOTALS = frozenset(
    (
        "total",
        "totals",
        "grand total",
        "subtotal",
        "sum",
        "summe",
        "gesamt",
        "insgesamt",
        "totale",
        "totaal",
        "somme",
        "suma",
    )
)
"""Words, in lower case, that programs and people write into the line with the totals of a table."""
_TAIL = 2**16
"""Bytes at the end of a file in which its last line is looked for."""


def total_line_note(file: TableFile, options: CsvOptions) -> str:
    """Return a sentence if the last line of a text file has a cell such as "Total"; else "".

    A query would count such a line as one more row, of one more user. `options` say how the file is written.
    """
    form = options.format_of(options.suffix_of(file))
    tail = b""
    with form.open_converted(_open(file), file.name) as opened:
        while block := opened.read(_BLOCK):
            tail = (tail + block)[-_TAIL:]
    lines = tail.decode("utf-8", "replace").strip().splitlines(keepends=True)
    cells = _rows(lines[-1:], form.separator)[0][0] if lines else []
    word = next((cell for cell in cells if cell.strip(" :.*").casefold() in _TOTALS), None)
    if word is None:
        return ""
    return f"its last line has the cell {word!r}: if the line is a total and no row, take it out, as it would count"


def _drop_unused(options: CsvOptions, counts: "TableCount") -> CsvOptions:
    """Return the CSV `options` without those that concern no column of the table, so that fewer have to be declared.

    The decimal point and thousands separator are reset to their defaults if no column holds numbers, and the date
    format if no column holds dates. `counts` has the kinds of the columns.
    """
    kinds = {column.kind for column in counts.columns}
    if not kinds & {Kind.INTEGER, Kind.FLOAT}:
        options = replace(options, decimal=".", thousands="")
    return options if kinds & {Kind.DATE, Kind.TIMESTAMP} else replace(options, date_format=None)


def _lines(file: TableFile, form: CsvFormat) -> int:
    """Return the number of lines of a file, including a last line without a line feed; `form` has its compression."""
    lines, last = 0, b""
    with form.open_converted(file.open("rb"), file.name) as opened:
        while block := opened.read(_BLOCK):
            lines, last = lines + block.count(b"\n"), block[-1:]
    return lines + (last not in (b"", b"\n"))
