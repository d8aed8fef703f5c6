"""What identifies the data of a table, whatever spelling of its name or path leads to it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from setwise.analytics.engines.files import files_of, lake_folder
from setwise.analytics.engines.prepared import read_prepared

MOST_FILES = 200
"""Files of one table that are identified one by one. Of larger tables the folders that hold files stand for them."""

_DATABASE_MAGICS = (b"SQLite format 3\0", b"DUCK")
"""How files of SQLite begin (at byte 0) and of DuckDB (at byte 8)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The identities of a table's data, as texts to compare.

    Two tables share data if they have an identity of `reads` in common, or if one reads a folder that the other lies
    `within`.
    """

    reads: tuple[str, ...]
    within: tuple[str, ...] = ()


def file_source(path: str) -> Source:
    """Return the identities of a file, a folder, a glob, or a table of a database file (`FILE::TABLE`).

    A file is identified by its resolved path, so that symbolic links do not matter, and by its inode, so that hard
    links do not. What stands after `::` counts for databases only, because other readers ignore it. A prepared
    dataset is the data that it was prepared from. Raises `UnsuitableTable` if there is no such file.
    """
    place = Path(path.partition("::")[0])
    prepared = read_prepared(place) if place.is_dir() else None
    if prepared is not None:
        return file_source(prepared.origin)
    place_text, _, table = path.partition("::")
    lake = lake_folder(place_text)
    if lake is not None:  # versions of one table are one table
        place_text = str(lake.path)
    files = [file.resolve() for file in files_of(place_text)]
    if len(files) == 1 and _is_database(files[0]):
        suffix = "::" + table.replace('"', "").lower().removeprefix("main.")
    else:
        suffix = ""
    reads: list[str] = []
    if len(files) <= MOST_FILES:
        for file in files:
            found = file.stat()
            reads += [f"file {file}{suffix}", f"inode {found.st_dev}:{found.st_ino}{suffix}"]
    else:
        reads += [f"folder {folder}" for folder in sorted({file.parent for file in files})[:MOST_FILES]]
    if Path(place_text).is_dir():
        reads.append(f"folder {Path(place_text).resolve()}")
    folders = {folder for file in files for folder in file.parents} if len(files) <= MOST_FILES and not suffix else ()
    return Source(reads=_in_order(reads), within=_in_order(f"folder {folder}" for folder in sorted(folders)))


def _in_order(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts without repetitions, in their order."""
    return tuple(dict.fromkeys(texts))


def _is_database(file: Path) -> bool:
    with file.open("rb") as opened:
        start = opened.read(16)
    return start == _DATABASE_MAGICS[0] or start[8:12] == _DATABASE_MAGICS[1]
