"""Where a private table is: the files it is made of, and the name it is known by."""

from dataclasses import dataclass
from pathlib import Path

from setwise.analytics.files import files_of
from setwise.analytics.prepared import read_prepared
from setwise.analytics.source import Source
from setwise.errors import UnsuitableTable

_WILDCARDS = frozenset("*?[")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The local files of a table, with those it was `prepared` from, and its name: empty for a table in memory."""

    name: str
    files: tuple[Path, ...] = ()
    prepared: bool = False

    def holds(self, path: Path) -> bool:
        """Return whether a path leads to one of the files, by whatever name or link."""
        return any(_same(path, file) for file in self.files)


NOWHERE = Place(name="")
"""The place of a table in memory, or of one that only a service can see."""


def place_of(source: Source, engine: str = "duckdb", table: str | None = None) -> Place:
    """Return the place of what `open_engine` would open.

    A table of a database is known by its own name, a file by its name without endings, a folder or glob by the name of
    the folder, and what was prepared by the name of what it was prepared from.

    >>> place_of("shop.duckdb::main.visits").name, place_of("logs/visits.csv.gz").name, place_of("visits/*.csv").name
    ('visits', 'visits', 'visits')
    """
    if not isinstance(source, str | Path):
        return NOWHERE
    path, separator, named = str(source).partition("::")
    table = named if separator else table
    if engine.startswith(("postgresql://", "postgres://")):
        return Place(name=_last_part(table or path))
    files = _files(path)
    prepared = read_prepared(Path(path)) if Path(path).is_dir() else None
    if prepared is not None:
        origin = place_of(prepared.origin)
        return Place(name=origin.name, files=files + origin.files, prepared=True)
    return Place(name=_last_part(table) if table else _name_of(path, engine), files=files)


def _files(path: str) -> tuple[Path, ...]:
    try:
        return files_of(path)
    except UnsuitableTable:
        return ()


def _name_of(path: str, engine: str) -> str:
    place = Path(path)
    if wild := [index for index, part in enumerate(place.parts) if _WILDCARDS & set(part)]:
        return Path(*place.parts[: wild[0]]).absolute().name
    if place.is_dir():
        return place.absolute().name
    if engine != "duckdb" and not place.exists() and "/" not in path:
        return _last_part(path)
    return Path(place.name.removesuffix(".gz")).stem


def _last_part(table: str) -> str:
    return table.rpartition(".")[2].strip('"`')


def _same(path: Path, file: Path) -> bool:
    try:
        return path.samefile(file)
    except OSError:
        return False
