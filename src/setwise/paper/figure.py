"""The parts of a figure: a table of numbers, claims of the paper that the table checks, and how the table is drawn."""

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


class ClaimRelation(StrEnum):
    """How our number must compare with the paper's for a claim to pass: the same, below, above, or a correction.

    A correction is for a number that the paper has wrong. It passes if a third number, computed independently, agrees
    with ours and not with the paper's.
    """

    SAME = "same"
    """Our value equals the paper's, up to the tolerance."""
    BELOW = "below"
    """Our value is smaller than the paper's by more than the tolerance."""
    ABOVE = "above"
    """Our value is larger than the paper's by more than the tolerance."""
    CORRECTED = "corrected"
    """The printed text is wrong: our value equals the independent one up to the tolerance, and the paper's does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim of the paper and its check: `paper` is the number that the paper gives or implies, `ours` our number.

    - `label`: the statement or figure in the paper
    - `says`: the claim in words
    - `relation`: how the two numbers must compare: the same, ours below, ours above, or a correction of the paper
    - `tolerance`: an absolute difference; numbers count as the same up to it, and as below or above only beyond it
    - `independent`: the number computed in a third way; only a correction of the paper has one

    Raises `InvalidParameter` for a negative tolerance, for a correction without an independent value, and for any other
    claim with one.

    >>> Claim(label="fig:NoiseCompare", says="sigma = 13.1", paper=13.1, ours=13.0948, tolerance=0.05).passed
    True
    """

    label: str
    says: str
    paper: float
    ours: float
    relation: ClaimRelation = ClaimRelation.SAME
    tolerance: float = 0.0
    independent: float | None = None

    def __post_init__(self) -> None:
        if self.tolerance < 0.0:
            raise InvalidParameter(f"tolerance must not be negative, not {self.tolerance!r}")
        if (self.independent is None) == (self.relation is ClaimRelation.CORRECTED):
            raise InvalidParameter(f"a correction, and nothing else, needs an independent value; see {self.label}")

    @property
    def passed(self) -> bool:
        """Whether our number compares with the paper's as `relation` requires.

        For the relation "same", the numbers may differ by `tolerance`. For "below" and "above", they must differ by
        more. A correction of the paper requires that the independent number agrees with ours up to `tolerance`, and not
        with the paper's.
        """
        match self.relation:
            case ClaimRelation.SAME:
                return abs(self.ours - self.paper) <= self.tolerance
            case ClaimRelation.BELOW:
                return self.ours < self.paper - self.tolerance
            case ClaimRelation.ABOVE:
                return self.ours > self.paper + self.tolerance
            case ClaimRelation.CORRECTED:
                assert self.independent is not None
                wrong = abs(self.paper - self.independent) > self.tolerance
                return wrong and abs(self.ours - self.independent) <= self.tolerance
            case _:
                assert_never(self.relation)

    @property
    def verdict(self) -> str:
        """The outcome as a word: "pass" or "fail"."""
        return "pass" if self.passed else "fail"

    @property
    def check(self) -> str:
        """A phrase that says how the two numbers were compared, such as "same within 0.05"."""
        match self.relation:
            case ClaimRelation.SAME:
                return f"same within {self.tolerance:g}"
            case ClaimRelation.BELOW:
                return "ours below" + _by_more_than(self.tolerance)
            case ClaimRelation.ABOVE:
                return "ours above" + _by_more_than(self.tolerance)
            case ClaimRelation.CORRECTED:
                return f"corrected; independent value {self.independent:.6g}, within {self.tolerance:g}"
            case _:
                assert_never(self.relation)

    def as_json(self) -> dict[str, object]:
        """Return the claim as the JSON object that `--json` prints; a number that is not finite becomes None."""
        return {
            "label": self.label,
            "says": self.says,
            "paper": _finite(self.paper),
            "ours": _finite(self.ours),
            "check": self.check,
            "verdict": self.verdict,
        }


def _finite(value: float) -> float | None:
    """Return the number `value`, or None if it is infinite or NaN, which JSON cannot represent."""
    return value if math.isfinite(value) else None


def _by_more_than(tolerance: float) -> str:
    """Return the phrase " by more than TOLERANCE" for the text of a claim; "" if the tolerance is 0."""
    return f" by more than {tolerance:g}" if tolerance else ""


def markdown(claims: Iterable[Claim]) -> str:
    """Return `claims`, the checks of the paper's numbers, as a Markdown table with a row for each."""
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
    """A table of named columns of equal length, with numbers or texts as cells; an empty cell is NaN.

    >>> table = Table.of({"uses": [1, 2], "epsilon": [0.1, 0.2]})
    >>> table.where("uses", 2).numbers("epsilon")
    [0.2]
    >>> Table.read(table.text()) == table
    True
    """

    columns: tuple[tuple[str, tuple[Cell, ...]], ...]

    @classmethod
    def of(cls, columns: Mapping[str, Sequence[Cell]]) -> "Table":
        """Return a table of these columns, with numbers rounded to the 12 significant digits that its CSV text has.

        Raises `InvalidParameter` if the columns have different lengths.
        """
        if len({len(cells) for cells in columns.values()}) != 1:
            sizes = {name: len(cells) for name, cells in columns.items()}
            raise InvalidParameter(f"columns must have one length, not {sizes}")
        return cls(
            tuple((name, tuple(_parse_cell(_format_cell(cell)) for cell in cells)) for name, cells in columns.items())
        )

    @classmethod
    def of_rows(cls, rows: Sequence[Mapping[str, Cell]]) -> "Table":
        """Return a table with one row for each of `rows`, a mapping from column to cell.

        The columns are the keys of the first mapping.
        """
        return cls.of({name: [row[name] for row in rows] for name in rows[0]})

    @classmethod
    def read(cls, text: str) -> "Table":
        """Return the table in a CSV text that `Table.text` wrote."""
        head, *rows = csv.reader(io.StringIO(text))
        return cls(tuple((name, tuple(_parse_cell(row[place]) for row in rows)) for place, name in enumerate(head)))

    def text(self) -> str:
        """Return the table as CSV text with a header line, which `Table.read` reads back."""
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(self.names)
        writer.writerows(zip(*([_format_cell(cell) for cell in cells] for _, cells in self.columns), strict=True))
        return lines.getvalue()

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
        return [name for name, _ in self.columns]

    def cells(self, name: str) -> tuple[Cell, ...]:
        """Return the cells of the column `name`; raise `InvalidParameter` if there is no such column."""
        for known, cells in self.columns:
            if known == name:
                return cells
        raise InvalidParameter(f"the table has no column {name!r}; it has {', '.join(self.names)}")

    def numbers(self, name: str) -> list[float]:
        """Return the cells of the column `name` as floats."""
        return [float(cell) for cell in self.cells(name)]

    def where(self, name: str, value: Cell) -> "Table":
        """Return a table with only the rows whose cell in the column `name` equals `value`."""
        keep = [cell == value for cell in self.cells(name)]
        return Table(
            tuple(
                (known, tuple(cell for cell, kept in zip(cells, keep, strict=True) if kept))
                for known, cells in self.columns
            )
        )

    def at(self, place: Mapping[str, Cell], name: str) -> float:
        """Return the number in the column `name` of the only row that has the given cells in other columns.

        `place` maps the names of these other columns to the cells that the row must have.
        """
        rows = self
        for column, value in place.items():
            rows = rows.where(column, value)
        (number,) = rows.numbers(name)
        return number


def _format_cell(cell: Cell) -> str:
    """Return a cell as text: a number with 12 significant digits, NaN as an empty text."""
    if isinstance(cell, str):
        return cell
    return "" if math.isnan(cell) else f"{cell:.{_DIGITS}g}"


def _parse_cell(text: str) -> Cell:
    """Return the cell in a text: a float if it reads as one, NaN if it is empty, else the text."""
    if text == "":
        return math.nan
    try:
        return float(text)
    except ValueError:
        return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A figure of the paper (label `fig:...`) or one of Setwise's own (`new:...`).

    `file` is the name of its files without an ending, and `title` its title. `compute` returns the table of numbers.
    `draw` and `claims` use only this table, so that the CSV file, the picture and the verdicts cannot disagree.
    """

    label: str
    file: str
    title: str
    compute: Callable[[Progress], Table]
    draw: Callable[[Table], "Picture"]
    claims: Callable[[Table], tuple[Claim, ...]]
