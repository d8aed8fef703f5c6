"""A table as its holder finds it: exact figures about its rows, and the options to read it with. Nothing is private.

How a text file is written is guessed from its rows. Nothing that answers questions uses this: there the holder says how
a file is written, and no row decides.
"""

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from statistics import mode
from typing import TYPE_CHECKING, Any, BinaryIO

from setwise.analytics.engines.connect import duckdb_table, magic_of
from setwise.analytics.engines.csv_format import COMPRESSIONS, MARKS, CsvFormat
from setwise.analytics.engines.csv_reader import SEPARATORS, suggested_names, value_among
from setwise.analytics.engines.files import (
    CSV_SEPARATORS,
    CsvOptions,
    check_format,
    described,
    files_of,
    suffix_of,
    write_description,
)
from setwise.analytics.schema import Kind
from setwise.analytics.tables.writing import KIND_WORDS, grammar_words, guess_grammar
from setwise.errors import UnsuitableTable

if TYPE_CHECKING:
    from setwise.analytics.engines.duckdb.cell_counts import TableCount

_SAMPLE_BYTES = 2**20
_BLOCK = 2**22
_MAGICS = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst", b"BZh": ".bz2"}

Row = list[str]


def sniff(file: Path, given: CsvOptions) -> CsvOptions:
    """Return the options that read a file: those that are given, and guesses for the others."""
    ending = _compression(file) if given.format is None else f".{given.format.partition('.')[2]}"
    if given.encoding == "utf-8":
        given = replace(given, encoding=_encoding(file, CsvFormat(compression=COMPRESSIONS.get(ending, ""))))
    text = _sample(file, CsvFormat(compression=COMPRESSIONS.get(ending, ""), encoding=given.encoding))
    separator = given.separator or _separator(text)
    lines = text.splitlines(keepends=True)
    rows = _rows(lines[given.skip_lines :], separator)
    if not any(any(row) for row, _ in rows):
        raise UnsuitableTable(f"{file} has no lines of text")
    return _with_names(_with_place(given, file, separator, ending), rows)


def _with_place(given: CsvOptions, file: Path, separator: str, ending: str) -> CsvOptions:
    """Return the options with the separator and the format, as far as the file's name does not tell them."""
    suffix = suffix_of(file)
    compressed_as_named = ending == (file.suffix.lower() if file.suffix.lower() in COMPRESSIONS else "")
    if given.format is not None or (suffix in CSV_SEPARATORS and compressed_as_named):
        told = CSV_SEPARATORS[suffix_of(Path(f"table.{given.format}")) if given.format else suffix]
        return replace(given, separator=None if separator == told else separator)
    if compressed_as_named and separator not in CSV_SEPARATORS.values():
        return replace(given, separator=separator)
    written = "tsv" if separator == "\t" else "csv"
    named = None if separator in CSV_SEPARATORS.values() else separator
    return replace(given, separator=named, format=written + ending)


def _with_names(given: CsvOptions, rows: Sequence[tuple[Row, int]]) -> CsvOptions:
    """Return the options with the lines above the header, and with names where no line has distinct ones."""
    if given.columns is not None:
        return replace(given, header=False)
    width = mode(len(row) for row, _ in rows)
    # A title that a spreadsheet wrote has one cell and then empty ones.
    place = next(place for place, (row, _) in enumerate(rows) if len(row) == width and any(row[1:] or row))
    above = rows[place - 1][1] if place else 0
    first, end = rows[place]
    rest = [row for row, _ in rows[place + 1 :] if len(row) == width]
    if given.header is None and not _is_header(first, rest):
        names = tuple(f"column_{number}" for number in range(1, width + 1))
        return replace(given, skip_lines=given.skip_lines + above, columns=names, header=False)
    if end > above + 1 or not all(first) or len(set(first)) < len(first):
        return replace(given, skip_lines=given.skip_lines + end, columns=tuple(suggested_names(first)), header=False)
    return replace(given, skip_lines=given.skip_lines + above, header=True if value_among(first) else None)


def _is_header(first: Row, rest: Sequence[Row]) -> bool:
    """Return whether a line is a header: none of its cells stands below it, and few are values as those below are."""
    names = values = 0
    for place, cell in enumerate(first):
        below = {row[place] for row in rest} - {""}
        if cell in below:
            return False
        values += bool(value_among([cell]))
        names += bool(below) and not value_among([cell]) and all(value_among([other]) for other in below)
    return names >= values


def _separator(text: str) -> str:
    """Return the separator that cuts the most lines of a sample into the same number of cells."""
    lines = [line for line in text.splitlines(keepends=True) if line.strip()]

    def agreement(separator: str) -> tuple[float, int]:
        widths = Counter(len(row) for row, _ in _rows(lines, separator))
        cells, share = widths.most_common(1)[0] if widths else (1, 0)
        return (share / max(1, sum(widths.values())) if cells > 1 else 0.0, len(separator))

    found = max(SEPARATORS, key=agreement)
    return found if agreement(found)[0] > 0 else ","


def _rows(lines: Sequence[str], separator: str) -> list[tuple[Row, int]]:
    """Return the records of a sample, each with the number of lines up to its end; a blank line is one empty cell."""
    mark = separator if len(separator) == 1 else "\x1f"
    reader = csv.reader((line.replace(separator, mark) for line in lines), delimiter=mark)
    try:
        found = [(row, reader.line_num) for row in reader]
    except csv.Error:
        found = [(line.split(separator), place) for place, line in enumerate(lines, start=1)]
    return [([cell.strip() for cell in row] or [""], end) for row, end in found]


def _compression(file: Path) -> str:
    with _opened(file) as opened:
        start = opened.read(4)
    return next((ending for magic, ending in _MAGICS.items() if start.startswith(magic)), "")


def _sample(file: Path, form: CsvFormat) -> str:
    """Return the first whole lines of a file."""
    with form.opened(_opened(file), file.name) as opened:
        start = b""
        while len(start) < _SAMPLE_BYTES and (read := opened.read(_SAMPLE_BYTES)):
            start += read
    whole = start if len(start) < _SAMPLE_BYTES else start[: start.rfind(b"\n") + 1] or start
    return whole.decode("utf-8-sig", "replace")


def _encoding(file: Path, form: CsvFormat) -> str:
    """Return the encoding of a file: UTF-16 by its mark or its zeros, else UTF-8 or cp1252 by the lines that are it."""
    right = wrong = 0
    with form.decompressed(_opened(file), file.name) as opened:
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
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _opened(file: Path) -> BinaryIO:
    try:
        return file.open("rb")
    except OSError:
        raise UnsuitableTable(f"{file} cannot be opened for reading") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCheck:
    """What was found in a table: how it is written, its cells, and the lines of text that are no record."""

    source: str
    csv: CsvOptions | None
    """How to read text; None for Parquet files and databases."""
    found: "TableCount"
    lost_lines: int
    types: Mapping[str, Kind]
    """The kinds of columns of text that are not text."""
    other_dates: tuple[str, ...] = ()
    """Date formats that read as many cells as the one that was chosen."""

    def notes(self) -> list[str]:
        """Return what the holder has to decide or to know, in words."""
        notes = []
        if self.other_dates and self.csv is not None:
            others = " or ".join(self.other_dates)
            notes.append(
                f"the dates can be read as {self.csv.date_format} and as {others}: the cells do not tell which, so "
                "look where the file comes from, and give the right one with --date-format"
            )
        for each in self.found.columns:
            lost = each.filled - each.readable
            if lost:
                notes.append(
                    f"{lost:,} of {each.filled:,} cells of {each.name!r} are not {KIND_WORDS[each.kind]} and would be "
                    f"skipped; --type {each.name}=text reads them as text"
                )
        return notes

    def options(self) -> list[str]:
        """Return the words of the command line that read the table."""
        words: list[str] = []
        if self.csv is not None:
            given, usual = self.csv, CsvOptions()
            values = {field.name: getattr(given, field.name) for field in fields(given)}
            for name in ("format", "separator", "encoding", "skip_lines"):
                if values[name] != getattr(usual, name):
                    words += [f"--{name.replace('_', '-')}", "tab" if values[name] == "\t" else str(values[name])]
            if given.columns is not None:
                words += ["--no-header", "--columns", ",".join(given.columns)]
            elif given.header:
                words.append("--header")
            words += grammar_words(given.cells)
        for name, kind in self.types.items():
            words += ["--type", f"{name}={kind}"]
        return words

    def words(self) -> dict[str, Any]:
        """Return the words of `setwise.open`, and of a catalog, that read the table."""
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
        """Write the description of the first file beside it, so that questions need no options, and return where."""
        return write_description(files_of(self.source.partition("::")[0])[0], self.csv or CsvOptions(), self.types)

    def how(self) -> str:
        """Return how the table is written, in words."""
        if self.csv is None:
            return f"{self.found.rows:,} rows of {len(self.found.columns)} columns with types of their own"
        separator = self.csv.format_of(self.csv.suffix_of(Path(self.source))).separator
        above = f", below {self.csv.skip_lines} other line(s)" if self.csv.skip_lines else ""
        header = "no header" if self.csv.columns is not None else "a header"
        return (
            f"text in {self.csv.encoding}, {self.found.rows:,} rows of {len(self.found.columns)} cells with "
            f"{SEPARATORS.get(separator, repr(separator))} between them, {header}{above}"
        )

    def to_dict(self) -> dict[str, object]:
        """Return the object that `--json` prints."""
        columns = [
            {
                "name": each.name,
                "kind": str(each.kind),
                "filled": each.filled,
                "unreadable": each.filled - each.readable,
            }
            for each in self.found.columns
        ]
        return {
            "private": False,
            "how": self.how(),
            "rows": self.found.rows,
            "users": self.found.users,
            "lost_lines": self.lost_lines,
            "columns": columns,
            "notes": self.notes(),
            "options": self.options(),
        }


def check_table(source: str, csv: CsvOptions, types: Mapping[str, Kind], user: str | None) -> TableCheck:
    """Return what a file, a glob, a directory or FILE::TABLE holds; the first file tells how all are written."""
    from setwise.analytics.engines.duckdb.cell_counts import count_cells, text_samples

    files = files_of(source.partition("::")[0])
    types, csv = described(source, types, csv)
    how = None
    if files:  # an empty lake table has none
        check_format(files[0], csv)
        how = sniff(files[0], csv) if magic_of(files[0]) is None else None
    other_dates: tuple[str, ...] = ()
    if how is not None:
        plain = replace(how, decimal=".", thousands="", date_format=None, null=())
        guess = guess_grammar(text_samples(duckdb_table(source, None, {}, plain)), how.cells)
        other_dates = guess.other_dates
        cells = guess.grammar
        how = replace(
            how, decimal=cells.decimal, thousands=cells.thousands, date_format=cells.date_format, null=cells.null
        )
        found = count_cells(duckdb_table(source, None, {}, plain), types, user, how.cells)
        how = _needed(how, found)
    else:
        found = count_cells(duckdb_table(source, None, {}, csv), types, user)
    texts = {each.name: each.kind for each in found.columns if each.from_text and each.kind is not Kind.TEXT}
    lost = 0
    if how is not None:
        form = how.format_of(how.suffix_of(files[0]))
        above = how.skip_lines + (how.columns is None)
        lines = sum(max(0, _lines(file, form) - above) for file in files)
        lost = lines - found.rows - sum(each.line_feeds for each in found.columns)
    return TableCheck(source=source, csv=how, found=found, lost_lines=lost, types=texts, other_dates=other_dates)


def _needed(how: CsvOptions, found: "TableCount") -> CsvOptions:
    """Return the options without those about numbers or dates where no column is one."""
    kinds = {each.kind for each in found.columns}
    if not kinds & {Kind.INTEGER, Kind.FLOAT}:
        how = replace(how, decimal=".", thousands="")
    return how if kinds & {Kind.DATE, Kind.TIMESTAMP} else replace(how, date_format=None)


def _lines(file: Path, form: CsvFormat) -> int:
    lines, last = 0, b""
    with form.opened(file.open("rb"), file.name) as opened:
        while block := opened.read(_BLOCK):
            lines, last = lines + block.count(b"\n"), block[-1:]
    return lines + (last not in (b"", b"\n"))
