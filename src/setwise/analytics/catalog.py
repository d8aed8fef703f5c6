"""The catalog: one TOML file in which a data holder declares tables, their bounds and their public group keys.

    [tables.ratings]
    source = "ml/u.data"
    user = "user_id"
    bounds = { rating = [1, 5] }
    rows_per_user = 200
    contributions = 20
    [tables.ratings.domains]
    genre = ["Action", "Comedy"]
    [public.movies]
    source = "ml/movies.csv"

Everything that is declared is public and was fixed before any data is read. Paths are relative to the file. Python, the
command line and the service read the same catalog.
"""

import math
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from setwise.accounting.promises import USER, check_unit
from setwise.analytics.query import Contributions
from setwise.analytics.schema import Kind
from setwise.analytics.tables.domain import read_domain
from setwise.errors import InvalidParameter
from setwise.mechanisms.labels import Label, distinct_labels
from setwise.mechanisms.parameters import positive_integer

READING = (
    *("engine", "table", "types", "separator", "header", "columns", "encoding", "skip_lines", "format", "memory"),
    *("quote", "decimal", "thousands", "date_format", "null"),
)
"""The arguments of `setwise.open` that say how a table is read."""

_TABLE = ("source", "user", "unit", "bounds", "rows_per_user", "contributions", "domains", *READING)
_PUBLIC = ("source",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declaration:
    """The public facts that a catalog (the data holder's file of tables) declares about a private table.

    - `bounds` maps a column to the clipping bounds (low, high) of its values.
    - `rows_per_user` is the most rows of a user that count in a group; None if it is not declared.
    - `contributions` is the most groups in which a user counts; None if it is not declared. The value "auto" leaves
      this number to a private search.
    - `domains` maps a column to its public group keys.
    """

    bounds: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    rows_per_user: int | None = None
    contributions: Contributions | None = None
    domains: Mapping[str, tuple[Label, ...]] = field(default_factory=dict)


NOTHING_DECLARED = Declaration()
"""The declaration of a table about which a catalog declares nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogTable:
    """A private table in a catalog, the data holder's file of tables: its place, user column and unit of privacy.

    - `source` is the place, such as a path.
    - `user` is the user column, and `unit` what is protected, such as "user" or "user,day".
    - `options` are keyword arguments of `setwise.open` for reading the table.
    - `declared` has the public facts about the table, such as clipping bounds.
    """

    source: str
    user: str
    unit: str = USER
    options: Mapping[str, Any] = field(default_factory=dict)
    declared: Declaration = NOTHING_DECLARED


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """A catalog, the data holder's file of declared tables.

    - `tables` are the private tables by name.
    - `public` maps the names of public tables (tables without users) to where they are, such as "ml/movies.csv".
    """

    tables: Mapping[str, CatalogTable] = field(default_factory=dict)
    public: Mapping[str, str] = field(default_factory=dict)

    def table(self, name: str) -> CatalogTable:
        """Return the private table called `name`, or raise `InvalidParameter` with the names that exist."""
        if name not in self.tables:
            names = ", ".join(map(repr, self.tables)) or "none"
            raise InvalidParameter(f"the catalog has no table {name!r}; it has {names}")
        return self.tables[name]

    def private_beside(self, name: str) -> dict[str, str]:
        """Return the private tables that SQL may join to the table `name`: a dictionary from their names to places.

        A place is a path, an address, or the name of an engine's table, as in {"ratings": "ml/u.data"}. These are the
        other private tables of the catalog with the same user column and the same engine. Private tables are joined on
        the user column, and one engine reads all tables of a statement.
        """
        base = self.table(name)
        return {
            other: table.source
            for other, table in self.tables.items()
            if other != name
            and table.user == base.user
            and table.options.get("engine", "duckdb") == base.options.get("engine", "duckdb")
        }

    def to_toml(self) -> str:
        """Return the catalog as TOML text that `parse_catalog` reads back."""
        lines: list[str] = []
        for name, table in self.tables.items():
            lines += table_toml(name, table)
        for name, source in self.public.items():
            lines += [f"[public.{_key(name)}]", f"source = {_text(source)}", ""]
        return "\n".join(lines)


def read_catalog(path: str | Path) -> Catalog:
    """Return the catalog in the TOML file `path`; no table is opened.

    Raises: `InvalidParameter`, saying what is wrong, if the file cannot be read or is not a catalog.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidParameter(f"the catalog cannot be read from {str(path)!r}: {error}") from None
    return parse_catalog(text, Path(path).absolute().parent)


def parse_catalog(text: str, folder: Path | None = None, *, reads_files: bool = True) -> Catalog:
    """Return the catalog that the TOML text `text` states.

    A table's source is its path, its address, or the name of a table of an engine. Relative paths are taken from
    `folder` unless it is None. With `reads_files` False, public group keys must be listed in `text` itself. A service
    passes False, because a catalog that was sent to it must not make it open files.

    Raises: `InvalidParameter`, saying what is wrong, if the text is not a catalog.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidParameter(f"the catalog is not TOML: {error}") from None
    _check_words(document, ("tables", "public"), "a catalog")
    tables = {
        name: _table(name, words, folder, reads_files=reads_files)
        for name, words in _tables(document, "tables").items()
    }
    public = {}
    for name, words in _tables(document, "public").items():
        _check_words(words, _PUBLIC, f"the public table {name!r}")
        public[name] = _resolve_source(_source(name, words), folder)
        if name in tables:
            raise InvalidParameter(f"the table {name!r} cannot be public and private: say which it is")
    return Catalog(tables=tables, public=public)


def _tables(document: Mapping[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    tables = document.get(kind, {})
    if not isinstance(tables, dict) or not all(isinstance(words, dict) for words in tables.values()):
        raise InvalidParameter(f"{kind} of a catalog are tables: write [{kind}.NAME] above the entries of each")
    return tables


def _table(name: str, words: Mapping[str, Any], folder: Path | None, *, reads_files: bool) -> CatalogTable:
    _check_words(words, _TABLE, f"the table {name!r}")
    user = words.get("user")
    if not isinstance(user, str) or not user:
        raise InvalidParameter(f'the table {name!r} names no user column: write user = "COLUMN"')
    options = {word: words[word] for word in READING if word in words}
    if "types" in options:
        options["types"] = _kinds(name, options["types"])
    declared = Declaration(
        bounds={column: _pair(name, column, pair) for column, pair in _columns(name, words, "bounds").items()},
        rows_per_user=_positive(name, "rows_per_user", words.get("rows_per_user")),
        contributions="auto"
        if words.get("contributions") == "auto"
        else _positive(name, "contributions", words.get("contributions")),
        domains={
            column: _labels(name, column, labels, folder, reads_files=reads_files)
            for column, labels in _columns(name, words, "domains").items()
        },
    )
    source = _source(name, words)
    local = options.get("engine", "duckdb") in ("duckdb", "spark")
    return CatalogTable(
        source=_resolve_source(source, folder) if local else source,
        user=user,
        unit=check_unit(words.get("unit", USER)),
        options=options,
        declared=declared,
    )


def _columns(name: str, words: Mapping[str, Any], word: str) -> dict[str, Any]:
    columns = words.get(word, {})
    if not isinstance(columns, dict):
        raise InvalidParameter(f"{word} of the table {name!r} are by column, as in {word} = {{ age = .. }}")
    return columns


def _pair(name: str, column: str, pair: object) -> tuple[float, float]:
    numbers = pair if isinstance(pair, list) else []
    plain = all(isinstance(end, int | float) and not isinstance(end, bool) and math.isfinite(end) for end in numbers)
    if len(numbers) != 2 or not plain or not numbers[0] < numbers[1]:
        raise InvalidParameter(f"the bounds of {name}.{column} are two numbers, the lower first, not {pair!r}")
    return numbers[0], numbers[1]


def _labels(name: str, column: str, labels: object, folder: Path | None, *, reads_files: bool) -> tuple[Label, ...]:
    if isinstance(labels, str) and reads_files:
        return read_domain(_resolve_source(labels, folder))
    if not isinstance(labels, list) or not all(isinstance(each, str | int) for each in labels):
        raise InvalidParameter(f"the domain of {name}.{column} is a list of text or whole numbers, or a file")
    return distinct_labels(labels)


def _positive(name: str, word: str, value: object) -> int | None:
    return None if value is None else positive_integer(f"{word} of {name!r}", value)


def _kinds(name: str, types: object) -> dict[str, Kind]:
    if not isinstance(types, dict) or not all(kind in set(Kind) for kind in types.values()):
        raise InvalidParameter(f"types of {name!r} are by column, each a kind of {', '.join(Kind)}, not {types!r}")
    return {column: Kind(kind) for column, kind in types.items()}


def _source(name: str, words: Mapping[str, Any]) -> str:
    source = words.get("source")
    if not isinstance(source, str) or not source:
        raise InvalidParameter(f'the table {name!r} has no source: write source = "FILE", or a table of its engine')
    return source


def _resolve_source(source: str, folder: Path | None) -> str:
    """Return the relative path `source` as a path below `folder`, the folder of the catalog file.

    An address or an absolute path is returned unchanged, and so is any `source` if `folder` is None.
    """
    if folder is None or "://" in source or Path(source).is_absolute():
        return source
    path, mark, table = source.partition("::")
    return f"{folder / path}{mark}{table}"


def _check_words(entry: Mapping[str, Any], known: Iterable[str], place: str) -> None:
    """Raise `InvalidParameter` if the TOML table `entry` has a key that is not in `known`.

    `place` is the name of that TOML table in the error message.
    """
    listed = tuple(known)
    for word in entry:
        if word not in listed:
            raise InvalidParameter(f"{place} has the unknown entry {word!r}; it may have {', '.join(listed)}")


def table_toml(name: str, table: CatalogTable) -> list[str]:
    """Return the lines of TOML text that declare the private table `name` in a catalog; the last line is empty."""
    declared = table.declared
    lines = [f"[tables.{_key(name)}]", f"source = {_text(table.source)}", f"user = {_text(table.user)}"]
    if table.unit != USER:
        lines.append(f"unit = {_text(table.unit)}")
    for word, value in table.options.items():
        lines.append(f"{word} = {_toml_value(value)}")
    if declared.bounds:
        pairs = ", ".join(f"{_key(column)} = [{low!r}, {high!r}]" for column, (low, high) in declared.bounds.items())
        lines.append(f"bounds = {{ {pairs} }}")
    for word in ("rows_per_user", "contributions"):
        if getattr(declared, word) is not None:
            lines.append(f"{word} = {_toml_value(getattr(declared, word))}")
    if declared.domains:
        lines.append(f"[tables.{_key(name)}.domains]")
        lines += [f"{_key(column)} = {_toml_value(list(labels))}" for column, labels in declared.domains.items()]
    return [*lines, ""]


def _toml_value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case dict():
            return "{ " + ", ".join(f"{_key(str(name))} = {_toml_value(each)}" for name, each in value.items()) + " }"
        case list() | tuple():
            return "[" + ", ".join(map(_toml_value, value)) + "]"
        case _:
            return _text(str(value))


def _key(name: str) -> str:
    plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if plain else _text(name)


def _text(value: str) -> str:
    escaped = "".join(
        f"\\u{ord(character):04x}" if ord(character) < 32 or ord(character) == 127 else character
        for character in value.replace("\\", "\\\\").replace('"', '\\"')
    )
    return f'"{escaped}"'
