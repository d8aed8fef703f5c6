"""The files of a table: which ones a path names, their fingerprint, and the header that CSV files share."""

import csv
import glob
import gzip
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from setwise.errors import UnsuitableTable

LONGEST_HEADER = 1_000_000
"""Bytes of a CSV file within which its header must end."""
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
            found = sorted(file for suffix in CSV_SEPARATORS for file in place.rglob(f"*{suffix}"))
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
