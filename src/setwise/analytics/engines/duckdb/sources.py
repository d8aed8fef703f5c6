"""Identities of the data that a table reads, which do not depend on how its name or path is spelled."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from setwise.analytics.engines.files import (
    DUCKDB_MAGIC,
    SQLITE_MAGIC,
    lake_folder,
    local_files,
    magic_of,
    stored_files,
)
from setwise.analytics.engines.object_store import SCHEME, is_stored, split_version
from setwise.analytics.engines.prepared import read_prepared

MOST_FILES = 200
"""The most files of one table that are identified one by one; a larger table is identified by its folders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataIdentity:
    """Texts that identify a table's data, by which two names for the same data are recognised.

    - `reads` identifies the files, objects, folders or database tables that are read.
    - `within` identifies all folders that contain them.

    Two tables share data if a text is in `reads` of both. They also share data if one reads a whole folder (a text in
    its `reads`) and the other reads something inside it (the same text in its `within`).
    """

    reads: tuple[str, ...]
    within: tuple[str, ...] = ()


def file_source(path: str, tables: Collection[str] = ()) -> DataIdentity:
    """Return the identity of the data at `path`: a file, folder, glob, or table of a database file (`FILE::TABLE`).

    A link has the identity of the file that it leads to. All versions of a Delta or Iceberg table have one identity. A
    prepared dataset (a stored random ranking of each user's groups) has the identity of its source; if that is a
    database file, the identity of all its tables, because the table is not stored with the prepared dataset.

    `tables` are the names of all tables and views of a database file that are read, as `Engine.relations` returns them:
    those below a view belong to its identity.

    Raises: `UnsuitableTable` if there is no such file.
    """
    if is_stored(path):
        return _stored_source(path)
    place = Path(path.partition("::")[0])
    prepared = read_prepared(place) if place.is_dir() else None
    if prepared is not None:
        return file_source(prepared.origin)
    place_text, _, table = path.partition("::")
    lake = lake_folder(place_text)
    if lake is not None:  # versions of one table are one table
        place_text = lake.place
    files = [file.resolve() for file in local_files(place_text)]
    if len(files) == 1 and magic_of(files[0]) in (SQLITE_MAGIC, DUCKDB_MAGIC):
        # only database files: readers of other files ignore the table's name
        return _database_source(files[0], (table, *tables), Path(place_text))
    reads: list[str] = []
    if len(files) <= MOST_FILES:
        for file in files:
            reads += _names_of_file(file)
    else:
        reads += [f"folder {folder}" for folder in sorted({file.parent for file in files})[:MOST_FILES]]
    if Path(place_text).is_dir():
        reads.append(f"folder {Path(place_text).resolve()}")
    folders = {folder for file in files for folder in file.parents} if len(files) <= MOST_FILES else ()
    return DataIdentity(
        reads=_without_duplicates(reads), within=_without_duplicates(f"folder {folder}" for folder in sorted(folders))
    )


def _database_source(file: Path, tables: Iterable[str], folder: Path) -> DataIdentity:
    """Return the identity of `tables` of the database file `file`; the table "" stands for all tables of the file.

    `folder` is the path by which the file was found.
    """
    names = dict.fromkeys(table.replace('"', "").lower().removeprefix("main.") for table in tables)
    reads = [f"{text}::{name}" for text in _names_of_file(file) for name in names]
    if folder.is_dir():
        reads.append(f"folder {folder.resolve()}")
    return DataIdentity(reads=tuple(reads), within=tuple(f"{text}::" for text in _names_of_file(file)))


def _names_of_file(file: Path) -> tuple[str, str]:
    """Return two texts that identify `file`, whose links are resolved: by its path, and by its inode."""
    stat = file.stat()
    return f"file {file}", f"inode {stat.st_dev}:{stat.st_ino}"


def _stored_source(address: str) -> DataIdentity:
    """Return the identity of the data at `address`, texts by which two addresses of the same objects are recognised.

    The texts are the addresses of the objects, and of the folders around them. If there are more than `MOST_FILES`
    objects, they are only `address` and the addresses of the objects' own folders. The version in `address` is left
    out, because all versions of a table count as the same table.
    """
    lake = lake_folder(address)
    place = split_version(address)[0].rstrip("/") if lake is None else lake.place
    objects = stored_files(place)
    folders = {parent for each in objects for parent in each.parent.parents} | {each.parent for each in objects}
    prefixes = [f"folder {SCHEME}{folder}" for folder in sorted(folders) if str(folder) != "."]
    reads = [f"object {each}" for each in objects] if len(objects) <= MOST_FILES else []
    is_one = len(objects) == 1 and str(objects[0]) == place
    if not reads:
        reads = [f"folder {SCHEME}{folder}" for folder in sorted({each.parent for each in objects})[:MOST_FILES]]
    if not is_one:
        reads.append(f"folder {place}")
    return DataIdentity(
        reads=_without_duplicates(reads), within=_without_duplicates(prefixes if len(objects) <= MOST_FILES else ())
    )


def _without_duplicates(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts without duplicates, in the order of their first occurrence."""
    return tuple(dict.fromkeys(texts))
