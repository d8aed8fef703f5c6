"""Public domains: lists of group labels that are not secret, read from a Python list, a file or a public table."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import quote

from setwise.analytics.engines.aggregation import Aggregation, label_kind
from setwise.analytics.engines.base import Engine
from setwise.analytics.engines.connect import IN_MEMORY, Location, Source, open_engine
from setwise.analytics.engines.csv_format import CsvFormat
from setwise.analytics.engines.files import (
    CSV_SEPARATORS,
    PARQUET_SUFFIXES,
    description_of,
    open_csv,
    read_description,
)
from setwise.analytics.engines.prepared import MANIFEST_NAME
from setwise.analytics.schema import Column
from setwise.errors import InvalidParameter, UnsuitableTable
from setwise.mechanisms.labels import NULL_INTEGER, NULL_TEXT, Cell, Label, cell_of, distinct_labels

_TABLES = {".csv", ".tsv", ".parquet", ".pq"}
"""Endings of domain files that are tables; other files hold one label per line."""


def read_domain(source: str | Path | Iterable[Label], private: Location = IN_MEMORY) -> tuple[Label, ...]:
    """Return the distinct labels of a public domain (group keys that are not secret), in their order in `source`.

    `source` is a list of labels, or the path of a text file with one label per line, or of a CSV or Parquet file. The
    path of a CSV or Parquet file may end in a colon and the name of a column, ``cities.csv:name``. A file with a
    description beside it, which `setwise check --save` writes, is read as the description says. Blank lines and cells
    are left out.

    Raises: `InvalidParameter` if the file does not exist, cannot be read, holds no labels, or is private. A file is
    private if it belongs to the table at `private`, or to a dataset that `Session.prepare` wrote.

    >>> read_domain(["tea", "coffee"])
    ('tea', 'coffee')
    """
    if not isinstance(source, str | Path):
        return distinct_labels(source)
    path, column = _path_and_column(str(source))
    if not path.is_file():
        raise InvalidParameter(f"the domain file {str(path)!r} does not exist")
    _check_public(path, private)
    if description_of(path).is_file() and path.suffix.lower() not in PARQUET_SUFFIXES:
        labels: Sequence[Cell] = _described_column(path, column)
    else:
        labels = _column_of(path, column) if path.suffix.lower() in _TABLES else _lines_of(path, column)
    distinct = distinct_labels(dict.fromkeys(label for label in labels if not isinstance(label, str) or label.strip()))
    if not distinct:
        raise InvalidParameter(f"the domain file {str(path)!r} holds no labels")
    return distinct


def header_of_domain(source: str) -> str:
    """Return the first line of the CSV file `source` of one column, which is its header and no label; else "".

    The person who named the file is told, because a list without a header would lose its first label.
    """
    path, column = _path_and_column(source)
    is_csv = path.suffix.lower() in CSV_SEPARATORS and path.is_file() and not description_of(path).is_file()
    if column is not None or not is_csv:
        return ""
    try:
        (file,) = open_csv([path], CsvFormat(separator=CSV_SEPARATORS[path.suffix.lower()]))
    except (OSError, UnsuitableTable):
        return ""
    return file.names[0] if len(file.names) == 1 else ""


def column_domain(engine: Engine, column: str) -> tuple[Label, ...]:
    """Return the distinct values of `column`, sorted and without nulls; the table of `engine` must be public."""
    # A histogram needs a user column, too. Any column serves, because only the labels are used.
    return tuple(sorted(engine.histogram(Aggregation(user=column, item=column)).labels))


def labels_of(source: Source, column: str, *, engine: str = "duckdb", table: str | None = None) -> tuple[Label, ...]:
    """Return the distinct values of `column` of a public table, sorted and without nulls, for `domain=` of a question.

    `source`, `engine` and `table` say where the public table is, like the arguments of `setwise.open`.

    >>> import pyarrow as pa
    >>> labels_of(pa.table({"city": ["Oslo", "Bergen", "Oslo", None]}), "city")
    ('Bergen', 'Oslo')
    """
    with open_engine(source, engine, table=table) as opened:
        return column_domain(opened, column)


def fit_labels(domain: tuple[Label, ...], columns: Sequence[Column]) -> tuple[Label, ...]:
    """Return the labels of `domain`, converted to the types of the columns that rows are grouped by.

    Labels are integers for integer columns and text for others. With several `columns`, a label is a tuple with one
    cell for each.

    Raises: `InvalidParameter` if a label of an integer column is not an integer.
    """
    if len(columns) == 1:
        return tuple(_fit_cell(cell_of(label, 0), columns[0]) for label in domain)
    cells = [[_fit_cell(cell_of(label, place), column) for label in domain] for place, column in enumerate(columns)]
    return tuple(zip(*cells, strict=True))


def fit_null_item(null_item: Cell | None, columns: Sequence[Column]) -> Label | None:
    """Return `null_item`, the label of rows whose group is null, converted to the types of the group `columns`.

    - If `null_item` is None, the result is None.
    - For one column, the result is an integer if the column holds integers, and otherwise a text. The text "NULL",
      which SQL uses as the label in every column, becomes `NULL_INTEGER` (an integer near -2^63) for integers.
    - For several columns, the result is a tuple with the converted label of each column.

    Raises: `InvalidParameter` if `null_item` is a tuple, or if a column holds integers and `null_item` is neither an
    integer nor "NULL".
    """
    if null_item is None:
        return None
    if isinstance(null_item, tuple):
        raise InvalidParameter("null_item is one label, which stands in every column that is missing")
    cells = tuple(
        NULL_INTEGER
        # SQL writes NULL for the NULL group of every column
        if null_item == NULL_TEXT and label_kind(column) is int
        else _fit_cell(null_item, column, "so that null_item has to be one, not")
        for column in columns
    )
    return cells[0] if len(cells) == 1 else cells


def _fit_cell(cell: Cell, column: Column, complaint: str = "but the domain has") -> Cell:
    """Return one cell of a label (group key), converted to the type of `column`: int for integer columns, else str.

    `complaint` stands in the error message before the cell, as in "column 'n' holds whole numbers, but the domain has
    'x'".
    Raises: `InvalidParameter` if the column holds integers and `cell` is not one.
    """
    if label_kind(column) is str:
        return str(cell)
    try:
        return int(cell)
    except ValueError:
        raise InvalidParameter(f"column {column.name!r} holds whole numbers, {complaint} {cell!r}") from None


def _path_and_column(source: str) -> tuple[Path, str | None]:
    """Return (path, column) of a text such as ``cities.csv:name``, which says where public labels are stored.

    The column is None if the text has no column, or if a file with the whole text as its name exists.
    """
    whole_path = Path(source)
    before, colon, after = source.rpartition(":")
    if whole_path.exists() or not colon or not before or not after:
        return whole_path, None
    return Path(before), after


def _check_public(path: Path, private: Location) -> None:
    """Raise `InvalidParameter` if the file at `path` is part of the table at `private` or of a prepared dataset.

    A prepared dataset has users' groups, ranked and stored in advance, and is as private as its table.
    """
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
    """Return the lines of the text file `path`, each of which is a label.

    Raises: `InvalidParameter` if the file cannot be read as UTF-8, or if `column` is not None, since text has no
    columns.
    """
    if column is not None:
        raise InvalidParameter(
            f"{str(path)!r} is read as one label per line, and has no column {column!r}; if it is a table, a "
            f"description beside it names its columns: setwise check {quote(str(path))} --save"
        )
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except OSError:
        raise InvalidParameter(f"the domain file {str(path)!r} cannot be read as text") from None
    except UnicodeDecodeError:
        copy = quote(str(path.with_name(f"{path.stem}.utf8{path.suffix}")))
        raise InvalidParameter(
            f"the domain file {str(path)!r} is not UTF-8: convert it from its encoding, as in "
            f"iconv -f cp1252 -t utf-8 {quote(str(path))} > {copy}"
        ) from None


def _described_column(path: Path, column: str | None) -> list[Cell]:
    """Return the filled cells of the column `column` of the text file `path`, read as the description beside it says.

    If `column` is None, the file must have only one column. Its first line is then a label like the others, unless the
    file is called .csv or .tsv: `setwise check` cannot tell a header from the first of many words.
    Raises: `InvalidParameter` if the file or its description cannot be read, if the file has no such column, or if it
    has several and `column` is None.
    """
    _, options = read_description(description_of(path))
    try:
        (file,) = open_csv([path], options.format_of(options.suffix_of(path)))
        name = _named_column(path, column, file.names)
        cells = [cell for batch in file.batches([name]) for cell in batch.column(0).to_pylist()]
        if column is None and options.columns is None and path.suffix.lower() not in _TABLES:
            cells.insert(0, name)
    except (OSError, UnsuitableTable) as error:
        raise InvalidParameter(f"the domain file {str(path)!r} cannot be read: {error}") from None
    return [cell for cell in cells if cell is not None and cell.strip() not in options.null]


def _named_column(path: Path, column: str | None, names: Sequence[str]) -> str:
    """Return the column of the file `path` that has its labels: `column`, or the only one of `names` if that is None.

    Raises: `InvalidParameter` if the file has no such column, or has several and `column` is None.
    """
    if column is None and len(names) != 1:
        raise InvalidParameter(
            f"the domain file {str(path)!r} has {len(names)} columns: name one, as in {path}:{[*names, 'name'][0]}"
        )
    if column is not None and column not in names:
        raise InvalidParameter(f"the domain file {str(path)!r} has no column {column!r}; it has {', '.join(names)}")
    return names[0] if column is None else column


def _column_of(path: Path, column: str | None) -> list[Cell]:
    """Return the values, without nulls, of the column `column` of the CSV or Parquet file `path`.

    If `column` is None, the file must have only one column.
    Raises: `InvalidParameter` if the file cannot be read, has no such column, or has several and `column` is None.
    """
    import pyarrow as pa
    from pyarrow import csv, parquet

    try:
        if path.suffix.lower() in {".parquet", ".pq"}:
            table = parquet.read_table(path)
        else:
            separator = CSV_SEPARATORS[path.suffix.lower()]
            (file,) = open_csv([path], CsvFormat(separator=separator))
            # Every CSV column is text by default, so that 007 and 7 are different labels and no label is lost.
            as_text = csv.ConvertOptions(column_types=dict.fromkeys(file.names, pa.string()))
            table = csv.read_csv(path, parse_options=csv.ParseOptions(delimiter=separator), convert_options=as_text)
    except (OSError, pa.ArrowInvalid, UnsuitableTable):
        raise InvalidParameter(f"the domain file {str(path)!r} cannot be read") from None
    values = table.column(_named_column(path, column, table.column_names))
    if not (
        pa.types.is_integer(values.type) or pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    ):
        values = values.cast(pa.string())
    return [value for value in values.to_pylist() if value is not None]
