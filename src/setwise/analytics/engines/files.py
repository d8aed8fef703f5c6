"""The files of a table: which ones a path names, their fingerprint, how they are written, and the columns they share.

How a file is written may be kept beside it: `ratings.dat.toml` describes `ratings.dat`. Its holder writes it, by hand
or with `setwise check --save`, so it is no part of the data and may decide how that is read. Options that are given
where the file is opened take its place.

    separator = "::"
    columns = ["user", "movie", "rating", "time"]
    encoding = "latin-1"
    types = { rating = "integer" }
"""

import glob
import hashlib
import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias

from setwise.analytics.engines.cells import CellGrammar
from setwise.analytics.engines.csv_format import COMPRESSIONS, CsvFormat
from setwise.analytics.engines.csv_reader import CsvFile, OpenFile, UnreadableHeader
from setwise.analytics.schema import Kind
from setwise.errors import InvalidParameter, UnsuitableTable

PARQUET_SUFFIXES = (".parquet", ".pq")
CSV_SEPARATORS = {".csv": ",", ".tsv": "\t"}
FORMATS = ("parquet", *(f"{suffix[1:]}{ending}" for suffix in CSV_SEPARATORS for ending in ("", *COMPRESSIONS)))
"""What files can be said to be: the endings that tell it."""
TAIL_BYTES = 65536
"""How much of a file's end is read for its fingerprint: a Parquet file keeps its metadata there."""


def files_of(path: str) -> tuple[Path, ...]:
    """Return the files that a path, a glob or a directory names, sorted, or raise `UnsuitableTable`.

    Of the folder of a lake table these are all files in it; which of them are read, its metadata tells.
    """
    lake = lake_folder(path)
    if lake is not None:
        return tuple(sorted(file for suffix in PARQUET_SUFFIXES for file in lake.path.rglob(f"*{suffix}")))
    place = Path(path)
    if place.is_dir():
        found = sorted(file for suffix in PARQUET_SUFFIXES for file in place.rglob(f"*{suffix}"))
        if not found:
            found = sorted(file for file in place.rglob("*") if suffix_of(file) in CSV_SEPARATORS and file.is_file())
        if not found:
            raise UnsuitableTable(f"the directory {path} holds no Parquet or CSV files")
        _check_no_lake(path, found)
    elif place.is_file():
        found = [place]
    else:
        found = sorted(Path(name) for name in glob.glob(path, recursive=True) if Path(name).is_file())
        if not found:
            raise UnsuitableTable(f"there is no file {path}")
        _check_no_lake(path, found)
    return tuple(file.absolute() for file in found)


_REMEDIES = {
    "JSON": "python -c \"import pandas; pandas.read_json('{file}', lines=True).to_parquet('{stem}.parquet')\"",
    "a spreadsheet": 'save the sheet as CSV UTF-8, or python -c "import pandas; '
    "pandas.read_excel('{file}').to_parquet('{stem}.parquet')\"",
    "ORC": "python -c \"import pandas; pandas.read_orc('{file}').to_parquet('{stem}.parquet')\"",
    "Arrow": "python -c \"import pandas; pandas.read_feather('{file}').to_parquet('{stem}.parquet')\"",
    "Avro": "duckdb -c \"COPY (FROM read_avro('{file}')) TO '{stem}.parquet'\"",
    "a zip archive": "unzip it, and give the files that were in it",
}
"""How files of formats that are not read become files that are."""
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


def check_format(file: Path, csv: "CsvOptions") -> None:
    """Raise `UnsuitableTable` with the remedy for a file of a format that is not read, by its ending or first bytes."""
    if csv.format is not None or csv.separator is not None:
        return
    try:
        with file.open("rb") as opened:
            start = opened.read(8)
    except OSError:
        raise UnsuitableTable(f"{file} cannot be opened for reading") from None
    found = _OTHER_FORMATS.get(suffix_of(file))
    if found is None:
        found = next((name for magic, name in _OTHER_MAGICS.items() if start.startswith(magic)), None)
    if found is not None:
        remedy = _REMEDIES[found].format(file=file.name, stem=file.stem)
        raise UnsuitableTable(f"{file.name} is {found}, which is not read, as Parquet and CSV are: {remedy}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LakeFolder:
    """The folder of a lake table, its format, and the version that is named; None for the current one."""

    path: Path
    format: str
    version: int | None = None


def lake_folder(path: str) -> LakeFolder | None:
    """Return the lake table that a path is the folder of, as in `events` or `events@7`, or None."""
    place, mark, version = path.rpartition("@")
    if not (mark and version.isdecimal() and Path(place).is_dir()):
        place, version = path, ""
    found = lake_format(Path(place)) if Path(place).is_dir() else None
    if found is None:
        return None
    return LakeFolder(path=Path(place).absolute(), format=found, version=int(version) if version else None)


def lake_format(folder: Path) -> str | None:
    """Return the format of a lake table whose metadata a folder holds, or None."""
    if (folder / "_delta_log").is_dir():
        return "Delta"
    if (folder / ".hoodie").is_dir():
        return "Hudi"
    if any((folder / "metadata").glob("*.metadata.json")):
        return "Iceberg"
    return None


def _check_no_lake(path: str, files: Sequence[Path]) -> None:
    """Raise `UnsuitableTable` for files of a lake table: those that its metadata has removed lie beside the others."""
    folders = {folder for parent in {file.absolute().parent for file in files} for folder in (parent, *parent.parents)}
    for folder in sorted(folders, key=lambda each: len(each.parts), reverse=True):
        found = lake_format(folder)
        if found is not None:
            raise UnsuitableTable(lake_refusal(path, found))


def lake_refusal(path: str, lake: str) -> str:
    """Return what is said about the files of a lake table."""
    return (
        f"{path} holds files of a {lake} table, also those that the table has removed, so they are not read as they "
        "are: give the folder of the table itself, which DuckDB reads by its metadata (Delta and Iceberg), or a table "
        "of Spark's catalogue"
    )


FilesVersion: TypeAlias = tuple[tuple[int, int, int], ...]


def files_version(files: Sequence[Path]) -> FilesVersion:
    """Return what changes when a file is written again, without reading it: inodes, sizes and times of change."""
    try:
        told = [file.stat() for file in files]
    except OSError:
        raise UnsuitableTable("a file of the table is gone or cannot be read") from None
    return tuple((each.st_ino, each.st_size, each.st_mtime_ns) for each in told)


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
    """How the holder of files says they are written.

    `columns` are the names of files without a header, `skip_lines` how many lines stand above the header or the first
    row, and `header` says that the first line is one even if it looks like a row. `format` is the ending that the names
    of the files ought to have, such as csv.gz. Without a separator the ending tells it: a comma for .csv, a tab for
    .tsv. `decimal`, `thousands`, `date_format` and `null` say how cells are written (`CellGrammar` in cells.py).
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "null", tuple(self.null))
        self.cells  # noqa: B018 - raises for what cells cannot be written like
        if self.header is not None and self.header == (self.columns is not None):
            raise InvalidParameter("a file without a header needs the names of its columns, and one with a header none")
        if self.format is not None and self.format not in FORMATS:
            raise InvalidParameter(f"the format must be one of {', '.join(FORMATS)}, not {self.format!r}")

    @property
    def cells(self) -> CellGrammar:
        """How cells are written."""
        return CellGrammar(decimal=self.decimal, thousands=self.thousands, date_format=self.date_format, null=self.null)

    def suffix_of(self, file: Path) -> str:
        """Return the ending that tells a file's format, without that of its compression."""
        return suffix_of(file if self.format is None else Path(f"table.{self.format}"))

    def is_csv(self, suffix: str) -> bool:
        """Return whether files with this ending are CSV: by the ending, or because a separator is named."""
        return suffix in CSV_SEPARATORS or self.separator is not None

    def format_of(self, suffix: str) -> CsvFormat:
        """Return the format of files with this ending, or raise `InvalidParameter`."""
        problem = ""
        try:
            return CsvFormat(
                separator=CSV_SEPARATORS.get(suffix, ",") if self.separator is None else self.separator,
                columns=self.columns,
                encoding=self.encoding,
                skip_lines=self.skip_lines,
                certain=bool(self.header),
                compression=None if self.format is None else COMPRESSIONS.get(f".{self.format.partition('.')[2]}", ""),
            )
        except ValueError as error:
            problem = str(error)
        raise InvalidParameter(problem)


def open_csv(files: Sequence[Path], form: CsvFormat) -> tuple[CsvFile, ...]:
    """Return the files with their headers read, or raise `UnsuitableTable` unless these have the same names.

    The order of the names may differ from file to file. An empty file among others has no rows.
    """
    opened = [_open_csv(file, form) for file in files]
    check_headers(list(map(str, files)), [each if isinstance(each, str) else each.names for each in opened])
    return tuple(each for each in opened if not isinstance(each, str))


def check_headers(files: Sequence[str], headers: Sequence[tuple[str, ...] | str]) -> tuple[str, ...]:
    """Return the columns that files share, in the order of the first, or raise `UnsuitableTable`.

    The header of a file is a text that says why it cannot be read, or has no names where the file is empty.
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
    """Return the names that CSV files share, in the order of the first of them."""
    return next((csv_file.names for csv_file in opened if csv_file.names), ())


def _open_csv(file: Path, form: CsvFormat) -> CsvFile | str:
    """Return the file with its header read, or why that cannot be done."""
    return csv_file(lambda: form.opened(file.open("rb"), file.name), form)


def csv_file(open_file: OpenFile, form: CsvFormat) -> CsvFile | str:
    """Return a CSV file with its header read, or why that cannot be done."""
    try:
        return CsvFile(open_file, form)
    except UnreadableHeader as problem:
        return str(problem)
    except (OSError, EOFError, ValueError):
        return "it cannot be opened and decompressed; --format csv reads one that its name calls compressed and is not"


def suffix_of(file: Path) -> str:
    """Return the ending that tells a file's format, without that of its compression."""
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
    "types": dict,
}


def described(source: object, types: Mapping[str, Kind], csv: CsvOptions) -> tuple[Mapping[str, Kind], CsvOptions]:
    """Return types and options as given, or where no options are as the description beside the first file says."""
    if csv != CsvOptions() or not isinstance(source, str | Path) or "://" in str(source):
        return types, csv
    path = str(source).partition("::")[0]
    lake = lake_folder(path)
    try:
        place = description_of(files_of(path)[0] if lake is None else lake.path)
    except UnsuitableTable:
        return types, csv
    if not place.is_file():
        return types, csv
    told_types, told = read_description(place)
    return {**told_types, **types}, told


def description_of(file: Path) -> Path:
    """Return where the description of a file is."""
    return file.with_name(f"{file.name}.toml")


def read_description(place: Path) -> tuple[dict[str, Kind], CsvOptions]:
    """Return the types and options in a description, or raise `InvalidParameter`."""
    try:
        found: dict[str, Any] = tomllib.loads(place.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidParameter(f"the description {place.name} cannot be read: {error}") from None
    for name, value in found.items():
        if name not in _WORDS:
            raise InvalidParameter(f"the description {place.name} may have {', '.join(_WORDS)}, not {name!r}")
        if not isinstance(value, _WORDS[name]):
            raise InvalidParameter(f"{name} in the description {place.name} cannot be {value!r}")
    types = found.pop("types", {})
    unknown = next((kind for kind in types.values() if kind not in list(Kind)), None)
    if unknown is not None:
        raise InvalidParameter(
            f"a type in the description {place.name} must be one of {', '.join(Kind)}, not {unknown!r}"
        )
    for name in ("columns", "null"):
        if name in found:
            found[name] = tuple(map(str, found[name]))
    return {name: Kind(kind) for name, kind in types.items()}, CsvOptions(**found)


def write_description(file: Path, csv: CsvOptions, types: Mapping[str, Kind]) -> Path:
    """Write the description of a file beside it, and return where; one that is there is replaced."""
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
