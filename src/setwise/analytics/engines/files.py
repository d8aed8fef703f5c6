"""The files of a table: which files a path names, their fingerprint, and what `setwise check --save` wrote of them.

A description of how a file is written can be kept beside it: `ratings.dat.toml` describes `ratings.dat`. The data
holder writes it, by hand or with `setwise check --save`, so it is not private data and may decide how the file is read.
Options that are given when the file is opened replace the whole description.

    separator = "::"
    columns = ["user", "movie", "rating", "time"]
    encoding = "latin-1"
    types = { rating = "integer" }
"""

import glob
import hashlib
import json
import os
import re
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

from setwise.analytics.engines.csv_format import COMPRESSIONS, QUOTES, CsvFormat
from setwise.analytics.engines.csv_reader import CsvFile, OpenFile, UnreadableHeader
from setwise.analytics.engines.object_store import (
    SCHEME,
    StoredObject,
    TableFile,
    describe_objects,
    is_stored,
    list_keys,
    list_names,
    objects_version,
    split_version,
)
from setwise.analytics.engines.typed_cells import CellGrammar
from setwise.analytics.schema import Kind
from setwise.errors import InvalidParameter, UnsuitableTable
from setwise.records import set_fields

PARQUET_SUFFIXES = (".parquet", ".pq")
CSV_SEPARATORS = {".csv": ",", ".tsv": "\t"}
FORMATS = ("parquet", *(f"{suffix[1:]}{ending}" for suffix in CSV_SEPARATORS for ending in ("", *COMPRESSIONS)))
"""The formats that files can be declared to have, named by their file endings."""
PARQUET_MAGIC, SQLITE_MAGIC, DUCKDB_MAGIC = b"PAR1", b"SQLite format 3\0", b"DUCK"
"""The bytes that mark Parquet and SQLite files (at byte 0) and DuckDB files (at byte 8)."""
TAIL_BYTES = 65536
"""Bytes at the end of a file that enter its fingerprint: a Parquet file keeps its metadata there."""


def files_of(path: str) -> tuple[TableFile, ...]:
    """Return the files that a path, a glob, a directory or an address in an object store names, sorted.

    A directory or prefix gives its Parquet files, or its CSV files if it has no Parquet files. An address may name a
    version, as in `s3://lake/events@0123456789abcdef`. The folder of a lake table (Delta, Iceberg or Hudi) gives all
    its Parquet files, also those that the table has removed.

    Raises: `UnsuitableTable` if there is no such file, if the path names files inside a lake table's folder instead of
    the folder, or if the objects no longer have the named version.
    """
    # The folder of a lake table gives all its Parquet files. The table's metadata decides which of them are read.
    return stored_files(path) if is_stored(path) else local_files(path)


def local_files(path: str) -> tuple[Path, ...]:
    """Return the absolute paths of the local files that a path, a glob or a directory names, sorted.

    A directory gives its Parquet files, or its CSV files if it has no Parquet files.
    Raises: `UnsuitableTable` if there is no such file, or if a glob or directory names files inside the folder of a
    lake table (Delta, Iceberg or Hudi) instead of that folder.
    """
    lake = lake_folder(path)
    if lake is not None:
        return tuple(sorted(file for suffix in PARQUET_SUFFIXES for file in lake.path.rglob(f"*{suffix}")))
    place = Path(path)
    if place.is_dir():
        files = sorted(file for suffix in PARQUET_SUFFIXES for file in place.rglob(f"*{suffix}"))
        if not files:
            files = sorted(file for file in place.rglob("*") if suffix_of(file) in CSV_SEPARATORS and file.is_file())
        if not files:
            raise UnsuitableTable(f"the directory {path} holds no Parquet or CSV files")
        _check_no_lake(path, files)
    elif place.is_file():
        files = [place]
    else:
        files = sorted(Path(name) for name in glob.glob(path, recursive=True) if Path(name).is_file())
        if not files:
            raise UnsuitableTable(f"there is no file {path}")
        _check_no_lake(path, files)
    return tuple(file.absolute() for file in files)


def stored_files(address: str) -> tuple[StoredObject, ...]:
    """Return the objects of an object store that `address` names, sorted: one object, or all objects of a folder.

    A folder gives its Parquet objects, or its CSV objects if it has no Parquet objects. An address may name a version.
    Raises: `UnsuitableTable` if there is no such object, if the address names objects inside the folder of a lake table
    (Delta, Iceberg or Hudi) instead of that folder, or if the objects no longer have the named version.
    """
    lake = lake_folder(address)
    if lake is not None:
        bucket, keys = list_keys(lake.place)
        return describe_objects(bucket, [key for key in keys if key.lower().endswith(PARQUET_SUFFIXES)])
    place, version = split_version(address)
    if version is not None and version.isdecimal() and len(version) != len("0123456789abcdef"):
        place, version = address, None  # only lake tables have versions that are plain numbers
    bucket, keys = list_keys(place)
    if not keys:
        raise UnsuitableTable(f"there is no object {place}, and none under it as a prefix")
    if f"{SCHEME}{bucket}/{keys[0]}" != place.rstrip("/"):
        chosen = [key for key in keys if key.lower().endswith(PARQUET_SUFFIXES)]
        chosen = chosen or [key for key in keys if suffix_of(Path(key)) in CSV_SEPARATORS]
        if not chosen:
            raise UnsuitableTable(f"the prefix {place} holds no Parquet or CSV objects")
        _check_no_stored_lake(place, bucket, chosen)
        keys = tuple(chosen)
    objects = describe_objects(bucket, keys)
    if version is not None and objects_version(objects) != version:
        raise UnsuitableTable(f"the objects of {place} were written since the version {version} was read: ask again")
    return objects


_REMEDIES = {
    # The columns of nested objects get names such as user_id, because a question reads nothing of a struct.
    "JSON": 'python -c "import duckdb; q=chr(34); f=lambda p,n,t: [x for a,b in t.children for x in '
    "f(p+'.'+q+a+q,n+'_'+a,b)] if t.id=='struct' else [p+' AS '+q+n+q]; r=duckdb.read_json('{file}'); "
    "r.project(','.join(x for c,t in zip(r.columns,r.types) for x in f(q+c+q,c,t)))"
    ".write_parquet('{stem}.parquet')\"",
    "a spreadsheet": "save the sheet as CSV UTF-8, or (with the numbers of the sheet and of the line of names, both "
    'from 0) pip install pandas openpyxl and python -c "import pandas; '
    "pandas.read_excel('{file}', sheet_name=0, header=0).to_parquet('{stem}.parquet')\"",
    "ORC": "python -c \"import pandas; pandas.read_orc('{file}').to_parquet('{stem}.parquet')\"",
    "Arrow": "python -c \"import pandas; pandas.read_feather('{file}').to_parquet('{stem}.parquet')\"",
    "Avro": "duckdb -c \"COPY (FROM read_avro('{file}')) TO '{stem}.parquet'\"",
    "a zip archive": "unzip it, and give the files that were in it",
    "a web page": 'save the table as CSV UTF-8, or pip install pandas lxml and python -c "import pandas; '
    "pandas.read_html('{file}')[0].to_parquet('{stem}.parquet')\"",
}
"""For each format that is not read, a command or an instruction that converts the file."""
_FIRST_BYTES = 64
"""The bytes at the beginning of a file by which other formats are recognised."""
_OTHER_FORMATS = {
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), "JSON"),
    **dict.fromkeys((".xlsx", ".xls", ".xlsm", ".ods"), "a spreadsheet"),
    **dict.fromkeys((".feather", ".arrow", ".ipc"), "Arrow"),
    ".orc": "ORC",
    ".avro": "Avro",
    ".zip": "a zip archive",
}
_OTHER_MAGICS = {b"PK\x03\x04": "a spreadsheet", b"\xd0\xcf\x11\xe0": "a spreadsheet", b"ORC": "ORC"}
_OTHER_MAGICS |= {b"Obj\x01": "Avro", b"ARROW1": "Arrow"}
_OTHER_TEXTS = {
    "JSON": re.compile(rb'(\xef\xbb\xbf)?\s*(\{\s*"|\[\s*[\[{])'),
    "a web page": re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype|html|head|table|\?xml)\b", re.IGNORECASE),
}
"""How the text of a file begins that is not CSV, whatever its name says."""


def _is_archive_of_files(file: TableFile) -> bool:
    """Return whether the zip archive `file` holds a file of data, such as a CSV file; False if it cannot be read.

    The caller's error message depends on the result: it is True for an archive of data files, and False for a
    spreadsheet, which is a zip archive, too, but holds only its sheets.
    """
    endings = (*CSV_SEPARATORS, ".txt", ".json", ".jsonl", *PARQUET_SUFFIXES)
    try:
        with file.open("rb") as opened, zipfile.ZipFile(opened) as archive:
            return any(name.lower().endswith(endings) for name in archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def check_format(file: TableFile, csv: "CsvOptions") -> None:
    """Raise `UnsuitableTable` if the ending or the first bytes of `file` show a format that is not supported.

    The message says how to convert the file. If the options `csv` state a format or a separator, the data holder has
    said how the file is written, so nothing is checked.
    """
    if csv.format is not None or csv.separator is not None:
        return
    start = _first_bytes(file, _FIRST_BYTES)
    format_name = _OTHER_FORMATS.get(suffix_of(file))
    if format_name is None:
        format_name = next((name for magic, name in _OTHER_MAGICS.items() if start.startswith(magic)), None)
        if start.startswith(b"PK\x03\x04") and _is_archive_of_files(file):
            format_name = "a zip archive"
    if format_name is None and csv.columns is None and not csv.skip_lines:  # only a header may decide, and no row
        format_name = next((name for name, text in _OTHER_TEXTS.items() if text.match(start)), None)
    if format_name is not None:
        whole = str(file)
        remedy = _REMEDIES[format_name].format(file=whole, stem=whole.removesuffix(file.suffix))
        raise UnsuitableTable(f"{file.name} is {format_name}, which is not read, as Parquet and CSV are: {remedy}")


def unreadable_file(file: TableFile) -> UnsuitableTable:
    """Return the error to raise for a file that cannot be opened."""
    return UnsuitableTable(f"{file} cannot be opened for reading")


def _first_bytes(file: TableFile, count: int) -> bytes:
    """Return the first `count` bytes of a file, or raise `UnsuitableTable` if it cannot be opened."""
    try:
        with file.open("rb") as opened:
            return opened.read(count)
    except OSError:
        raise unreadable_file(file) from None


def magic_of(file: TableFile) -> bytes | None:
    """Return the magic bytes of a Parquet, SQLite or DuckDB file, a constant near its start that shows the format.

    The result is None for any other file.
    Raises: `UnsuitableTable` if the file cannot be opened.
    """
    start = _first_bytes(file, 16)
    places = {PARQUET_MAGIC: start[:4], SQLITE_MAGIC: start, DUCKDB_MAGIC: start[8:12]}
    return next((magic for magic, stored in places.items() if stored == magic), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFolder:
    """The folder of a lake table, its `format` (Delta, Iceberg or Hudi), and the `version` of the table to read.

    `place` is the absolute path of the folder, or its address in an object store without a slash at the end. If
    `version` is None, the current version is read.
    """

    place: str
    format: str
    version: int | None = None

    @property
    def name(self) -> str:
        """The name of the Delta, Iceberg or Hudi table: the last part of its folder's path or address."""
        return self.place.rstrip("/").rpartition("/")[2]

    @property
    def path(self) -> Path:
        """The path of the folder of the Delta, Iceberg or Hudi table, which must be on this machine."""
        return Path(self.place)


def lake_folder(path: str) -> LakeFolder | None:
    """Return the folder, format and version of the lake table at a path or address, such as `events` or `events@7`.

    The number after @ is the version; without it the field `version` is None. The result is None if no lake table
    (Delta, Iceberg or Hudi) is at this path.
    """
    if is_stored(path):
        place, named = split_version(path)
        place = place.rstrip("/")
        version = named if named is not None and named.isdecimal() else ""
        format_name = _stored_lake_format(place)
    else:
        place, mark, version = path.rpartition("@")
        if not (mark and version.isdecimal() and Path(place).is_dir()):
            place, version = path, ""
        format_name = lake_format(Path(place)) if Path(place).is_dir() else None
        place = str(Path(place).absolute())
    if format_name is None:
        return None
    return LakeFolder(place=place, format=format_name, version=int(version) if version else None)


def lake_format(folder: Path) -> str | None:
    """Return "Delta", "Hudi" or "Iceberg" if `folder` holds the metadata of such a lake table, otherwise None."""
    if (folder / "_delta_log").is_dir():
        return "Delta"
    if (folder / ".hoodie").is_dir():
        return "Hudi"
    if any((folder / "metadata").glob("*.metadata.json")):
        return "Iceberg"
    return None


def _stored_lake_format(prefix: str) -> str | None:
    """Return the format of the lake table under the address `prefix` of an object store; None if there is no table.

    The format is "Delta", "Hudi" or "Iceberg". It is recognised by the names of the objects that hold the metadata.
    """
    names = list_names(prefix)
    if "_delta_log" in names:
        return "Delta"
    if ".hoodie" in names:
        return "Hudi"
    if "metadata" in names and any(name.endswith(".metadata.json") for name in list_names(f"{prefix}/metadata")):
        return "Iceberg"
    return None


def _check_no_lake(path: str, files: Sequence[Path]) -> None:
    """Raise `UnsuitableTable` if any of `files` belongs to a lake table (Delta, Iceberg or Hudi).

    The message names `path`. Files that the lake table has removed still lie in its folder, so reading the files
    directly gives wrong rows.
    """
    folders = {folder for parent in {file.absolute().parent for file in files} for folder in (parent, *parent.parents)}
    for folder in sorted(folders, key=lambda each: len(each.parts), reverse=True):
        format_name = lake_format(folder)
        if format_name is not None:
            raise UnsuitableTable(lake_refusal(path, format_name))


def _check_no_stored_lake(place: str, bucket: str, keys: Sequence[str]) -> None:
    """Raise `UnsuitableTable` if any object with one of `keys` in `bucket` belongs to a Delta, Iceberg or Hudi table.

    Files that such a table has removed are still stored, so reading its objects directly gives wrong rows. `place` is
    the address that the caller named, for the message.
    """
    folders = {str(folder) for key in keys for folder in PurePosixPath(key).parents} - {"."}
    for folder in sorted(folders, key=len, reverse=True):
        format_name = _stored_lake_format(f"{SCHEME}{bucket}/{folder}")
        if format_name is not None:
            raise UnsuitableTable(lake_refusal(place, format_name))


def lake_refusal(path: str, lake: str) -> str:
    """Return the error message for an attempt to read single files of a lake table instead of the table's folder.

    `path` is the path that the caller named, and `lake` the format of the table, such as Delta.
    """
    return (
        f"{path} holds files of a {lake} table, also those that the table has removed, so they are not read as they "
        "are: give the folder of the table itself, which DuckDB reads by its metadata (Delta and Iceberg), or a table "
        "of Spark's catalogue"
    )


FilesVersion: TypeAlias = tuple[tuple[int, int, int], ...]
"""For each file its inode, its size in bytes and its time of modification in nanoseconds."""


def files_version(files: Sequence[TableFile]) -> FilesVersion:
    """Return (inode, size, modification time) of each of `files`; the result changes when a file is written again.

    The result is the key of a cache of facts about the files. The sizes also serve to estimate the number of rows. A
    size is in bytes and a time in nanoseconds. For an object of a store, a number made of its ETag replaces the inode.

    Raises: `UnsuitableTable` if a file is gone or cannot be read.
    """
    try:
        stats = [file.stat() for file in files]
    except OSError:
        raise UnsuitableTable("a file of the table is gone or cannot be read") from None
    return tuple((stat.st_ino, stat.st_size, stat.st_mtime_ns) for stat in stats)


def files_fingerprint(files: Sequence[TableFile]) -> str:
    """Return a SHA-256 digest, in hexadecimal, of the files' paths, sizes, modification times and last 64 KiB.

    A prepared dataset (a stored random ranking of each user's groups) keeps the digest of its source, so that later
    changes of the source are noticed. For an object in a store, the digest covers its address, size, ETag and version
    id instead.

    Raises: `UnsuitableTable` if a file cannot be read.
    """
    digest = hashlib.sha256()
    for file in files:
        if isinstance(file, StoredObject):
            digest.update(repr((str(file), *file.identity)).encode())
            continue
        try:
            stat = file.stat()
            with file.open("rb") as opened:
                opened.seek(-min(TAIL_BYTES, stat.st_size), os.SEEK_END)
                tail = opened.read()
        except OSError:
            raise UnsuitableTable(f"{file} cannot be read") from None
        digest.update(f"{str(file)!r} {stat.st_size} {stat.st_mtime_ns} ".encode())
        digest.update(hashlib.sha256(tail).digest())
    return digest.hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvOptions:
    """How CSV files are written, as the data holder declares it.

    - `separator` is the text between cells. None means a comma for .csv and a tab for .tsv.
    - `quote` is the character around cells with separators or line ends in them: a double quote, or a single one. With
      "none", no cell stands in quotes, and a quote is part of the text.
    - `columns` names the columns of files without a header. None means that the files have a header.
    - `encoding` is the encoding of the files.
    - `skip_lines` is the number of lines above the header or the first row.
    - `header` is True if the first line is a header even if it looks like a row, and False if there is none, so that
      `columns` must be given. With None, a header that looks like a row is refused.
    - `format` is the format of the files, such as csv.gz. None means that the endings of their names show it.
    - `decimal` is the decimal point, and `thousands` the character between groups of three digits ("" for none).
    - `date_format` is the format of dates, such as %d.%m.%Y. None means that dates begin with the year.
    - `null` are words that stand for an empty cell, such as NA.

    Raises: `InvalidParameter` for bad values.
    """

    separator: str | None = None
    columns: tuple[str, ...] | None = None
    encoding: str = "utf-8"
    skip_lines: int = 0
    header: bool | None = None
    format: str | None = None
    decimal: str = "."
    thousands: str = ""
    date_format: str | None = None
    null: tuple[str, ...] = ()
    quote: str = '"'

    def __post_init__(self) -> None:
        set_fields(self, null=tuple(self.null))
        self.cells  # noqa: B018 - evaluated because it raises for bad options of cells
        if self.header is not None and self.header == (self.columns is not None):
            raise InvalidParameter("a file without a header needs the names of its columns, and one with a header none")
        if self.quote not in QUOTES:
            raise InvalidParameter(f"the quote around cells must be \", ' (single) or none, not {self.quote!r}")
        if self.format is not None and self.format not in FORMATS:
            raise InvalidParameter(f"the format must be one of {', '.join(FORMATS)}, not {self.format!r}")

    @property
    def cells(self) -> CellGrammar:
        """The options about cells (how numbers, dates and empty cells are written) as a `CellGrammar`."""
        return CellGrammar(decimal=self.decimal, thousands=self.thousands, date_format=self.date_format, null=self.null)

    def suffix_of(self, file: TableFile) -> str:
        """Return the ending that decides the format of `file`, such as ".csv", in lower case, without .gz or .zst.

        It is taken from the option `format` if that is set, and otherwise from the file's name.
        """
        return suffix_of(file if self.format is None else Path(f"table.{self.format}"))

    def is_csv(self, suffix: str) -> bool:
        """Return whether files with the ending `suffix`, such as ".csv", are read as CSV.

        Files that end in .csv or .tsv are. If the option `separator` is set, files with any ending are.
        """
        return suffix in CSV_SEPARATORS or self.separator is not None

    def format_of(self, suffix: str) -> CsvFormat:
        """Return the `CsvFormat` for files with the ending `suffix`, such as ".csv", by these options.

        Raises: `InvalidParameter` for options that cannot be used.
        """
        problem = ""
        try:
            return CsvFormat(
                separator=CSV_SEPARATORS.get(suffix, ",") if self.separator is None else self.separator,
                quote=self.quote,
                columns=self.columns,
                encoding=self.encoding,
                skip_lines=self.skip_lines,
                certain=bool(self.header),
                compression=None if self.format is None else COMPRESSIONS.get(f".{self.format.partition('.')[2]}", ""),
            )
        except ValueError as error:
            problem = str(error)
        raise InvalidParameter(problem)


def open_csv(files: Sequence[TableFile], form: CsvFormat) -> tuple[CsvFile, ...]:
    """Return the CSV files `files`, written as `form` says, with their headers read.

    The order of the columns may differ from file to file. An empty file among others contributes no rows.

    Raises: `UnsuitableTable` if a header cannot be read, or if headers have different names.
    """
    opened = [_open_csv(file, form) for file in files]
    check_headers(list(map(str, files)), [each if isinstance(each, str) else each.names for each in opened])
    return tuple(each for each in opened if not isinstance(each, str))


def check_headers(files: Sequence[str], headers: Sequence[tuple[str, ...] | str]) -> tuple[str, ...]:
    """Return the column names that all files share, in the order of the first file that is not empty.

    `files` are the names of the files, for messages. `headers` has one entry per file: its column names, () if the file
    is empty, or a text that says why its header cannot be read.
    Raises: `UnsuitableTable` if a header cannot be read, headers have different names, or all files are empty.
    """
    named = [(file, header) for file, header in zip(files, headers, strict=True) if header != ()]
    for file, header in named:
        if isinstance(header, str):
            raise UnsuitableTable(f"{file} cannot be read as CSV: {header}")
        if set(header) != set(named[0][1]):
            raise UnsuitableTable(
                f"{file} has other columns than {named[0][0]}: files of one table must share their names"
            )
    if not named:
        raise UnsuitableTable(f"{files[0]} cannot be read as CSV: it is empty, where a header of names is needed")
    return tuple(named[0][1])


def columns_of(opened: Sequence[CsvFile]) -> tuple[str, ...]:
    """Return the column names of `opened`, the CSV files of one table, in the order of the first non-empty file.

    The result is empty if all files are empty.
    """
    return next((csv_file.names for csv_file in opened if csv_file.names), ())


def _open_csv(file: TableFile, form: CsvFormat) -> CsvFile | str:
    """Return `file` as a CSV file with its header read, or a text that says why the header cannot be read.

    `form` is the CSV format of the file.
    """
    return csv_file(lambda: form.open_converted(file.open("rb"), file.name), form)


def csv_file(open_file: OpenFile, form: CsvFormat) -> CsvFile | str:
    """Return a CSV file with its header read, or a text that says why the header cannot be read.

    The function `open_file` opens the file from its beginning, decompressed and in UTF-8. `form` is the file's CSV
    format.
    """
    try:
        return CsvFile(open_file, form)
    except UnreadableHeader as problem:
        return str(problem)
    except (OSError, EOFError, ValueError):
        return "it cannot be opened and decompressed; --format csv reads one that its name calls compressed and is not"


def suffix_of(file: TableFile) -> str:
    """Return the ending of a file's name in lower case, without a compression ending: ".csv" for visits.csv.gz."""
    return Path(file.stem).suffix.lower() if file.suffix.lower() in COMPRESSIONS else file.suffix.lower()


_WORDS: dict[str, type] = {
    "separator": str,
    "columns": list,
    "encoding": str,
    "skip_lines": int,
    "header": bool,
    "format": str,
    "decimal": str,
    "thousands": str,
    "date_format": str,
    "null": list,
    "quote": str,
    "types": dict,
}
"""The keys that a description may have, with the types of their values."""


def apply_description(
    source: object, types: Mapping[str, Kind], csv: CsvOptions
) -> tuple[Mapping[str, Kind], CsvOptions]:
    """Return (types, options): the column types and CSV options with which `source` is to be read.

    If `csv` sets any option, or there is no description file (FILE.toml beside the first file or the lake folder of
    `source`), these are `types` and `csv`, unchanged. Otherwise the options are those of the file, and the types are
    those of the file and of `types`, which takes precedence.
    Raises: `InvalidParameter` if the description file cannot be read, or has an unknown key or a wrong value.
    """
    if csv != CsvOptions() or not isinstance(source, str | Path) or "://" in str(source):
        return types, csv
    path = str(source).partition("::")[0]
    lake = lake_folder(path)
    try:
        place = description_of(local_files(path)[0] if lake is None else lake.path)
    except UnsuitableTable:
        return types, csv
    if not place.is_file():
        return types, csv
    description_types, description_options = read_description(place)
    return {**description_types, **types}, description_options


def description_of(file: Path) -> Path:
    """Return the path of the description file of `file`, FILE.toml beside it, whether it exists or not.

    A description file states column types and CSV options.
    """
    return file.with_name(f"{file.name}.toml")


def read_description(place: Path) -> tuple[dict[str, Kind], CsvOptions]:
    """Return (column types by name, CSV options) that the description file at `place` states.

    A description file is a TOML file that says how a table's files are written, such as separator = ";".
    Raises: `InvalidParameter` if the file cannot be read, or has an unknown key or a value of the wrong type.
    """
    try:
        settings: dict[str, Any] = tomllib.loads(place.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidParameter(f"the description {place.name} cannot be read: {error}") from None
    for name, value in settings.items():
        if name not in _WORDS:
            raise InvalidParameter(f"the description {place.name} may have {', '.join(_WORDS)}, not {name!r}")
        if not isinstance(value, _WORDS[name]):
            raise InvalidParameter(f"{name} in the description {place.name} cannot be {value!r}")
    types = settings.pop("types", {})
    unknown = next((kind for kind in types.values() if kind not in list(Kind)), None)
    if unknown is not None:
        raise InvalidParameter(
            f"a type in the description {place.name} must be one of {', '.join(Kind)}, not {unknown!r}"
        )
    for name in ("columns", "null"):
        if name in settings:
            settings[name] = tuple(map(str, settings[name]))
    return {name: Kind(kind) for name, kind in types.items()}, CsvOptions(**settings)


def write_description(file: Path, csv: CsvOptions, types: Mapping[str, Kind]) -> Path:
    """Write a description file (`types` of columns and CSV options `csv`) beside `file`, and return its path.

    An earlier description is replaced.
    Raises: `InvalidParameter` if the description cannot be written.
    """
    lines = [f"# How Setwise reads {file.name}."]
    for field in fields(csv):
        value = getattr(csv, field.name)
        if value != field.default and not (field.name == "header" and value is False):
            lines.append(f"{field.name} = {json.dumps(value)}")  # TOML writes text, numbers and lists as JSON does
    if types:
        lines += ["", "[types]", *(f"{json.dumps(name)} = {json.dumps(str(kind))}" for name, kind in types.items())]
    place = description_of(file)
    try:
        place.write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError:
        raise InvalidParameter(f"{str(place)!r} cannot be written") from None
    return place
