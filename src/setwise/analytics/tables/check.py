"""A table as its holder finds it: exact figures about its rows, and the options to read it with. Nothing is private."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from setwise.analytics.engines.csv_format import CsvFormat
from setwise.analytics.engines.csv_header import SEPARATORS
from setwise.analytics.engines.files import CsvOptions, files_of
from setwise.analytics.schema import Kind
from setwise.analytics.tables.description import described, write_description
from setwise.analytics.tables.sniff import sniff
from setwise.analytics.tables.source import duckdb_table, magic_of

if TYPE_CHECKING:
    from setwise.analytics.engines.duckdb.cell_counts import TableCount

_BLOCK = 2**22


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
        for name, kind in self.types.items():
            words += ["--type", f"{name}={kind}"]
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
            "options": self.options(),
        }


def check_table(source: str, csv: CsvOptions, types: Mapping[str, Kind], user: str | None) -> TableCheck:
    """Return what a file, a glob, a directory or FILE::TABLE holds; the first file tells how all are written."""
    from setwise.analytics.engines.duckdb.cell_counts import count_cells

    files = files_of(source.partition("::")[0])
    types, csv = described(source, types, csv)
    how = sniff(files[0], csv) if magic_of(files[0]) is None else None
    found = count_cells(duckdb_table(source, None, {}, how or csv), types, user)
    texts = {each.name: each.kind for each in found.columns if each.from_text and each.kind is not Kind.TEXT}
    lost = 0
    if how is not None:
        form = how.format_of(how.suffix_of(files[0]))
        above = how.skip_lines + (how.columns is None)
        lines = sum(max(0, _lines(file, form) - above) for file in files)
        lost = lines - found.rows - sum(each.line_feeds for each in found.columns)
    return TableCheck(source=source, csv=how, found=found, lost_lines=lost, types=texts)


def _lines(file: Path, form: CsvFormat) -> int:
    lines, last = 0, b""
    with form.opened(file.open("rb"), file.name) as opened:
        while block := opened.read(_BLOCK):
            lines, last = lines + block.count(b"\n"), block[-1:]
    return lines + (last not in (b"", b"\n"))
