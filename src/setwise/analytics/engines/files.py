"""The files of a table: which ones a path names, their fingerprint, and the columns that CSV files share."""

import csv
import glob
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from setwise.analytics.engines.csv_reader import COMPRESSIONS, CsvFile, CsvFormat
from setwise.errors import InvalidParameter, UnsuitableTable

PARQUET_SUFFIXES = (".parquet", ".pq")
CSV_SEPARATORS = {".csv": ",", ".tsv": "\t"}
TAIL_BYTES = 65536
"""How much of a file's end is read for its fingerprint: a Parquet file keeps its metadata there."""


def files_of(path: str) -> tuple[Path, ...]:
    """Return the files that a path, a glob or a directory names, sorted, or raise `UnsuitableTable`."""
    place = Path(path)
    if place.is_dir():
        found = sorted(file for suffix in PARQUET_SUFFIXES for file in place.rglob(f"*{suffix}"))
        if not found:
            found = sorted(file for file in place.rglob("*") if suffix_of(file) in CSV_SEPARATORS and file.is_file())
        if not found:
            raise UnsuitableTable(f"the directory {path} holds no Parquet or CSV files")
    elif place.is_file():
        found = [place]
    else:
        found = sorted(Path(name) for name in glob.glob(path, recursive=True) if Path(name).is_file())
        if not found:
            raise UnsuitableTable(f"there is no file {path}")
    return tuple(file.absolute() for file in found)


def files_fingerprint(files: Sequence[Path]) -> str:
    """Return a digest of the files' paths, sizes, times of change and ends."""
    digest = hashlib.sha256()
    for file in files:
        try:
            told = file.stat()
            with file.open("rb") as opened:
                opened.seek(-min(TAIL_BYTES, told.st_size), os.SEEK_END)
                tail = opened.read()
        except OSError:
            raise UnsuitableTable(f"{file} cannot be read") from None
        digest.update(f"{str(file)!r} {told.st_size} {told.st_mtime_ns} ".encode())
        digest.update(hashlib.sha256(tail).digest())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvOptions:
    """How the holder of CSV files says they are written: `columns` are the names of files without a header.

    Without a separator the ending of the files tells it: a comma for .csv, a tab for .tsv.
    """

    separator: str | None = None
    columns: tuple[str, ...] | None = None
    encoding: str = "utf-8"

    def format_of(self, suffix: str) -> CsvFormat:
        """Return the format of files with this ending, or raise `InvalidParameter`."""
        separator = CSV_SEPARATORS.get(suffix, ",") if self.separator is None else self.separator
        problem = ""
        try:
            return CsvFormat(separator=separator, columns=self.columns, encoding=self.encoding)
        except ValueError as error:
            problem = str(error)
        raise InvalidParameter(problem)


def open_csv(files: Sequence[Path], form: CsvFormat) -> tuple[CsvFile, ...]:
    """Return the files with their headers read, or raise `UnsuitableTable` unless these have the same names.

    The order of the names may differ from file to file. An empty file among others has no rows.
    """
    opened = [_open_csv(file, form) for file in files]
    check_headers(list(map(str, files)), [None if each is None else each.names for each in opened], form)
    return tuple(each for each in opened if each is not None)


def check_headers(files: Sequence[str], headers: Sequence[tuple[str, ...] | None], form: CsvFormat) -> tuple[str, ...]:
    """Return the columns that files share, in the order of the first, or raise `UnsuitableTable`.

    The header of a file is None where it cannot be read and has no names where the file is empty.
    """
    named = [(file, header) for file, header in zip(files, headers, strict=True) if header != ()]
    for file, header in named:
        if header is None:
            raise UnsuitableTable(_no_header(file, form))
        if set(header) != set(named[0][1] or ()):
            raise UnsuitableTable(
                f"{file} has other columns than {named[0][0]}: files of one table must share their names"
            )
    if not named:
        raise UnsuitableTable(_no_header(files[0], form))
    return named[0][1] or ()


def columns_of(opened: Sequence[CsvFile]) -> tuple[str, ...]:
    """Return the names that CSV files share, in the order of the first of them."""
    return next((csv_file.names for csv_file in opened if csv_file.names), ())


def _open_csv(file: Path, form: CsvFormat) -> CsvFile | None:
    try:
        return CsvFile(lambda: form.opened(file.open("rb"), COMPRESSIONS.get(file.suffix.lower())), form)
    except (OSError, EOFError, ValueError, csv.Error):
        return None


def _no_header(file: str, form: CsvFormat) -> str:
    return (
        f"{file} cannot be read as CSV: its first line must be a header of distinct names "
        f"separated by {form.separator!r}"
    )


def suffix_of(file: Path) -> str:
    """Return the ending that tells a file's format, without that of its compression."""
    return Path(file.stem).suffix.lower() if file.suffix.lower() in COMPRESSIONS else file.suffix.lower()
