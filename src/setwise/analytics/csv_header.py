"""The names of a CSV file's columns."""

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path

from setwise.errors import UnsuitableTable

LONGEST_HEADER = 1_000_000


def csv_header(files: Sequence[Path], separator: str) -> list[str]:
    """Return the header that all files share, or raise `UnsuitableTable`."""
    headers = [_header(file, separator) for file in files]
    for file, header in zip(files, headers, strict=True):
        if header != headers[0]:
            raise UnsuitableTable(f"{file} has other columns than {files[0]}: files of one table must share a header")
    return headers[0]


def _header(file: Path, separator: str) -> list[str]:
    names: list[str] = []
    try:
        with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as opened:
            line = opened.readline(LONGEST_HEADER).decode("utf-8-sig")
        names = next(csv.reader([line], delimiter=separator), [])
    except (OSError, EOFError, UnicodeDecodeError, csv.Error):
        names = []
    if not names or len(set(names)) != len(names) or not all(names):
        raise UnsuitableTable(
            f"{file} cannot be read as CSV: its first line must be a header of distinct names "
            f"separated by {separator!r}"
        )
    return names
