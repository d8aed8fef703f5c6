"""What a figure is made of: a table of numbers, claims of the paper and whether they hold, and how it is drawn."""

import csv
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, assert_never

from setwise.accounting.brackets import Progress
from setwise.errors import InvalidParameter

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture


class Relation(StrEnum):
    """What it means for a claim to pass."""

    SAME = "same"
    """Ours is the paper's value, up to the tolerance."""
    BELOW = "below"
    """Ours is smaller than the paper's value by more than the tolerance."""
    ABOVE = "above"
    """Ours is larger than the paper's value by more than the tolerance."""
    CORRECTED = "corrected"
    """The text as printed is wrong: ours is the independent value up to the tolerance, the paper's is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What the paper says at a label, the number it gives or implies, and ours.

    `independent` is a value found in another way; only a correction has one.

    >>> Claim(label="fig:NoiseCompare", says="sigma = 13.1", paper=13.1, ours=13.0948, tolerance=0.05).passed
    True
    """

    label: str
    says: str
    paper: float
    ours: float
    relation: Relation = Relation.SAME
    tolerance: float = 0.0
    independent: float | None = None

    def __post_init__(self) -> None:
        if self.tolerance < 0.0:
            raise InvalidParameter(f"tolerance must not be negative, not {self.tolerance!r}")
        if (self.independent is None) == (self.relation is Relation.CORRECTED):
            raise InvalidParameter(f"a correction, and nothing else, needs an independent value; see {self.label}")

    @property
    def passed(self) -> bool:
        """Whether the claim holds."""
        match self.relation:
            case Relation.SAME:
                return abs(self.ours - self.paper) <= self.tolerance
            case Relation.BELOW:
                return self.ours < self.paper - self.tolerance
            case Relation.ABOVE:
                return self.ours > self.paper + self.tolerance
            case Relation.CORRECTED:
                assert self.independent is not None
                wrong = abs(self.paper - self.independent) > self.tolerance
                return wrong and abs(self.ours - self.independent) <= self.tolerance
            case _:
                assert_never(self.relation)

    @property
    def verdict(self) -> str:
        """The outcome, as a word: pass or fail."""
        return "pass" if self.passed else "fail"

    @property
    def check(self) -> str:
        """What was compared, in words."""
        match self.relation:
            case Relation.SAME:
                return f"same within {self.tolerance:g}"
            case Relation.BELOW:
                return "ours below" + _by_more_than(self.tolerance)
            case Relation.ABOVE:
                return "ours above" + _by_more_than(self.tolerance)
            case Relation.CORRECTED:
                return f"corrected; independent value {self.independent:.6g}, within {self.tolerance:g}"
            case _:
                assert_never(self.relation)

    def as_json(self) -> dict[str, object]:
        """Return the object that `--json` prints."""
        return {
            "label": self.label,
            "says": self.says,
            "paper": _finite(self.paper),
            "ours": _finite(self.ours),
            "check": self.check,
            "verdict": self.verdict,
        }


def _finite(value: float) -> float | None:
    """Return a number that JSON can hold, or None."""
    return value if math.isfinite(value) else None


def _by_more_than(tolerance: float) -> str:
    return f" by more than {tolerance:g}" if tolerance else ""


def markdown(claims: Iterable[Claim]) -> str:
    """Return the claims as a Markdown table."""
    rows = [
        f"| `{claim.label}` | {claim.says} | {claim.paper:.6g} | {claim.ours:.6g} | {claim.check} | {claim.verdict} |"
        for claim in claims
    ]
    return "\n".join(
        ["| label | what the paper says | paper | ours | check | verdict |", "|---|---|---|---|---|---|", *rows, ""]
    )


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of the paper (`fig:...`) or one of ours (`new:...`).

    `compute` finds the numbers; `draw` and `claims` use only what its table says, so that the CSV file, the picture
    and the verdicts cannot disagree.
    """

    label: str
    file: str
    title: str
    compute: Callable[[Progress], Table]
    draw: Callable[[Table], "Picture"]
    claims: Callable[[Table], tuple[Claim, ...]]
