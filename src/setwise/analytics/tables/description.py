"""How a file is written, kept beside it: `ratings.dat.toml` describes `ratings.dat`.

Its holder writes it, by hand or with `setwise check --save`, so it is no part of the data and may decide how that is
read. Options that are given where the file is opened take its place.

separator = "::"
columns = ["user", "movie", "rating", "time"]
encoding = "latin-1"
types = { rating = "integer" }
"""

import json
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from setwise.analytics.engines.files import CsvOptions, files_of
from setwise.analytics.schema import Kind
from setwise.errors import InvalidParameter, UnsuitableTable

_WORDS: dict[str, type] = {
    "separator": str,
    "columns": list,
    "encoding": str,
    "skip_lines": int,
    "header": bool,
    "format": str,
    "types": dict,
}


def described(source: object, types: Mapping[str, Kind], csv: CsvOptions) -> tuple[Mapping[str, Kind], CsvOptions]:
    """Return types and options as given, or where no options are as the description beside the first file says."""
    if csv != CsvOptions() or not isinstance(source, str | Path) or "://" in str(source):
        return types, csv
    try:
        file = files_of(str(source).partition("::")[0])[0]
    except UnsuitableTable:
        return types, csv
    place = description_of(file)
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
    if "columns" in found:
        found["columns"] = tuple(map(str, found["columns"]))
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
