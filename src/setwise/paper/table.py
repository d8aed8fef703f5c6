"""The numbers behind a figure: named columns, written and read as CSV."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from setwise.errors import InvalidParameter

Cell = float | str

_DIGITS = 12
"""Significant digits in the files: enough to draw and compare, few enough to be the same on every machine."""


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of equal length, in order; an empty cell is NaN.

    >>> table = Table.of({"uses": [1, 2], "epsilon": [0.1, 0.2]})
    >>> table.where("uses", 2).numbers("epsilon")
    [0.2]
    >>> Table.read(table.text()) == table
    True
    """

    columns: tuple[tuple[str, tuple[Cell, ...]], ...]

    @classmethod
    def of(cls, columns: Mapping[str, Sequence[Cell]]) -> "Table":
        """Return a table of these columns, rounded as in its file."""
        if len({len(cells) for cells in columns.values()}) != 1:
            sizes = {name: len(cells) for name, cells in columns.items()}
            raise InvalidParameter(f"columns must have one length, not {sizes}")
        return cls(tuple((name, tuple(_parsed(_written(cell)) for cell in cells)) for name, cells in columns.items()))

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Cell]]) -> "Table":
        """Return a table with one row for each mapping; all have the keys of the first."""
        return cls.of({name: [row[name] for row in rows] for name in rows[0]})

    @classmethod
    def read(cls, text: str) -> "Table":
        """Return the table that `text` wrote."""
        head, *rows = csv.reader(io.StringIO(text))
        return cls(tuple((name, tuple(_parsed(row[place]) for row in rows)) for place, name in enumerate(head)))

    def text(self) -> str:
        """Return the table as CSV."""
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(self.names)
        writer.writerows(zip(*([_written(cell) for cell in cells] for _, cells in self.columns), strict=True))
        return lines.getvalue()

    @property
    def names(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _ in self.columns]

    def cells(self, name: str) -> tuple[Cell, ...]:
        """Return a column."""
        for known, cells in self.columns:
            if known == name:
                return cells
        raise InvalidParameter(f"the table has no column {name!r}; it has {', '.join(self.names)}")

    def numbers(self, name: str) -> list[float]:
        """Return a column of numbers."""
        return [float(cell) for cell in self.cells(name)]

    def where(self, name: str, value: Cell) -> "Table":
        """Return the rows whose cell in a column is `value`."""
        keep = [cell == value for cell in self.cells(name)]
        return Table(
            tuple(
                (known, tuple(cell for cell, kept in zip(cells, keep, strict=True) if kept))
                for known, cells in self.columns
            )
        )

    def at(self, place: Mapping[str, Cell], name: str) -> float:
        """Return the number in a column at the one row with the cells of `place`."""
        rows = self
        for column, value in place.items():
            rows = rows.where(column, value)
        (number,) = rows.numbers(name)
        return number


def _written(cell: Cell) -> str:
    if isinstance(cell, str):
        return cell
    return "" if math.isnan(cell) else f"{cell:.{_DIGITS}g}"


def _parsed(text: str) -> Cell:
    if text == "":
        return math.nan
    try:
        return float(text)
    except ValueError:
        return text
