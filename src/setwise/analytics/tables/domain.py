"""Public labels: from a list, a file, or a column of another table."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from setwise.analytics.engines.aggregation import Aggregation, label_kind
from setwise.analytics.engines.base import Engine
from setwise.analytics.engines.connect import IN_MEMORY, Location, Source, open_engine
from setwise.analytics.engines.csv_format import CsvFormat
from setwise.analytics.engines.files import CSV_SEPARATORS, open_csv
from setwise.analytics.engines.prepared import MANIFEST_NAME
from setwise.analytics.schema import Column
from setwise.errors import InvalidParameter, UnsuitableTable
from setwise.mechanisms.labels import Cell, Label, cell_of, distinct_labels

_TABLES = {".csv", ".tsv", ".parquet", ".pq"}


def read_domain(source: str | Path | Iterable[Label], private: Location = IN_MEMORY) -> tuple[Label, ...]:
    """Return the labels of a list, or of a file: one label per line, or a column of a CSV or Parquet file.

    A path may end in a colon and the name of a column, ``cities.csv:name``; a file of one column needs none. Blank
    lines and cells are left out. The file must be public: its labels may be shown, and reading it costs nothing. So
    the files of the `private` table are refused, and so is whatever was prepared.

    >>> read_domain(["tea", "coffee"])
    ('tea', 'coffee')
    """
    if not isinstance(source, str | Path):
        return distinct_labels(source)
    path, column = _path_and_column(str(source))
    if not path.is_file():
        raise InvalidParameter(f"the domain file {str(path)!r} does not exist")
    _check_public(path, private)
    labels = _column_of(path, column) if path.suffix.lower() in _TABLES else _lines_of(path, column)
    found = distinct_labels(dict.fromkeys(label for label in labels if not isinstance(label, str) or label.strip()))
    if not found:
        raise InvalidParameter(f"the domain file {str(path)!r} holds no labels")
    return found


def column_domain(engine: Engine, column: str) -> tuple[Label, ...]:
    """Return the distinct values of a column of a *public* table, in order; nulls are left out.

    Each value counts as its own user, so that any engine can answer.
    """
    return tuple(sorted(engine.histogram(Aggregation(user=column, item=column)).labels))


def labels_of(source: Source, column: str, *, engine: str = "duckdb", table: str | None = None) -> tuple[Label, ...]:
    """Return the distinct values of a column of another table, which must be public, as a domain.

    >>> import pyarrow as pa
    >>> labels_of(pa.table({"city": ["Oslo", "Bergen", "Oslo", None]}), "city")
    ('Bergen', 'Oslo')
    """
    with open_engine(source, engine, table=table) as opened:
        return column_domain(opened, column)


def fitted(domain: tuple[Label, ...], columns: Sequence[Column]) -> tuple[Label, ...]:
    """Return the labels as the columns have them: digits as numbers for an integer column, text for the others."""
    if len(columns) == 1:
        return tuple(_fitted_cell(cell_of(label, 0), columns[0]) for label in domain)
    cells = [[_fitted_cell(cell_of(label, place), column) for label in domain] for place, column in enumerate(columns)]
    return tuple(zip(*cells, strict=True))


def fitted_null_item(null_item: Cell | None, columns: Sequence[Column]) -> Label | None:
    """Return the label of rows that miss every column: the one given, as each column has it."""
    if null_item is None:
        return None
    if isinstance(null_item, tuple):
        raise InvalidParameter("null_item is one label, which stands in every column that is missing")
    cells = tuple(_fitted_cell(null_item, column, "so that null_item has to be one, not") for column in columns)
    return cells[0] if len(cells) == 1 else cells


def _fitted_cell(cell: Cell, column: Column, but: str = "but the domain has") -> Cell:
    if label_kind(column) is str:
        return str(cell)
    try:
        return int(cell)
    except ValueError:
        raise InvalidParameter(f"column {column.name!r} holds whole numbers, {but} {cell!r}") from None


def _path_and_column(source: str) -> tuple[Path, str | None]:
    whole = Path(source)
    before, colon, after = source.rpartition(":")
    if whole.exists() or not colon or not before or not after:
        return whole, None
    return Path(before), after


def _check_public(path: Path, private: Location) -> None:
    if private.holds(path):
        raise InvalidParameter(
            f"the domain file {str(path)!r} is the private table itself, or part of it: labels are public only when "
            "they come from elsewhere; leave the domain out to find the items privately"
        )
    if (path.resolve().parent / MANIFEST_NAME).is_file():
        raise InvalidParameter(
            f"the domain file {str(path)!r} belongs to a prepared dataset, which is as private as its table: "
            "take the labels from a public file"
        )


def _lines_of(path: Path, column: str | None) -> list[str]:
    if column is not None:
        raise InvalidParameter(f"{str(path)!r} holds one label per line and has no column {column!r}")
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise InvalidParameter(f"the domain file {str(path)!r} cannot be read as text") from None


def _column_of(path: Path, column: str | None) -> list[Cell]:
    import pyarrow as pa
    from pyarrow import csv, parquet

    try:
        if path.suffix.lower() in {".parquet", ".pq"}:
            table = parquet.read_table(path)
        else:
            separator = CSV_SEPARATORS[path.suffix.lower()]
            (file,) = open_csv([path], CsvFormat(separator=separator))
            # Text, as every CSV column is unless someone says otherwise: 007 and 7 are different labels. None is lost.
            as_text = csv.ConvertOptions(column_types=dict.fromkeys(file.names, pa.string()))
            table = csv.read_csv(path, parse_options=csv.ParseOptions(delimiter=separator), convert_options=as_text)
    except (OSError, pa.ArrowInvalid, UnsuitableTable):
        raise InvalidParameter(f"the domain file {str(path)!r} cannot be read") from None
    names = table.column_names
    if column is None and len(names) > 1:
        raise InvalidParameter(
            f"the domain file {str(path)!r} has {len(names)} columns: name one, as in {path}:{names[0]}"
        )
    if column is not None and column not in names:
        raise InvalidParameter(f"the domain file {str(path)!r} has no column {column!r}; it has {', '.join(names)}")
    values = table.column(column or names[0])
    if not (
        pa.types.is_integer(values.type) or pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    ):
        values = values.cast(pa.string())
    return [value for value in values.to_pylist() if value is not None]
