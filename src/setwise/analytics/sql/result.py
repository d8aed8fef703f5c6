"""The answer to a SQL statement: the columns it names, and its rows."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from setwise.analytics.answer import Exportable, PrivateAnswer
from setwise.mechanisms.labels import Cell, cell_of
from setwise.mechanisms.release import Item

if TYPE_CHECKING:
    from setwise.analytics.present.plot import Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A column of the result: its name, and the place of its group or statistic in the query.

    A column that is computed of released rows has neither place. `interval` says that it has intervals nevertheless.
    """

    name: str
    group: int | None = None
    statistic: int | None = None
    interval: bool = False


class Estimated(TypedDict):
    """A statistic of a row: its value, and its interval where it has one."""

    value: float | None
    interval: NotRequired[list[float]]
    unreliable: NotRequired[bool]


class StatedBounds(TypedDict):
    """The bounds of a statistic, or the contribution bound, and where they came from."""

    of: str
    low: float
    high: float
    source: str


RowCell = Cell | Estimated | float | bool | None
"""A cell of a row: a group's, a statistic, or what was computed of released rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlAnswer(Exportable):
    """The rows that a statement gets, and the `answer` they are of: what was spent, what is promised, and why it ends.

    `computed` are the rows that were computed of released rows; None where the rows are those of the answer. `problem`
    says why they could not be computed. Then the rows are the released ones: they were paid for. `bounds` are those of
    every statistic, with where each came from: the statement, the catalog, or a search within a tenth of epsilon.
    """

    answer: PrivateAnswer
    outputs: tuple[Output, ...]
    computed: tuple[dict[str, RowCell], ...] | None = None
    problem: str = ""
    bounds: tuple[StatedBounds, ...] = ()

    def __len__(self) -> int:
        return len(self.answer) if self.computed is None else len(self.computed)

    def __iter__(self) -> Iterator[dict[str, RowCell]]:
        return iter(self.rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in the order of the SELECT."""
        return tuple(each.name for each in self.outputs)

    @property
    def rows(self) -> list[dict[str, RowCell]]:
        """The rows by column: the cells of the group, and value and interval of each statistic."""
        if self.computed is not None:
            return list(self.computed)
        return [{each.name: _cell(each, item) for each in self.outputs} for item in self.answer.items]

    def by_column(self) -> dict[str, list[Any]]:
        """Return the rows as columns; a statistic has its ends in `NAME_lower` and `NAME_upper`."""
        columns: dict[str, list[Any]] = {}
        rows = self.rows
        for each in self.outputs:
            cells = [row[each.name] for row in rows]
            columns[each.name] = [cell["value"] if isinstance(cell, dict) else cell for cell in cells]
            if each.statistic is not None or each.interval:
                for place, end in enumerate(("lower", "upper")):
                    columns[f"{each.name}_{end}"] = [
                        cell["interval"][place] if isinstance(cell, dict) and "interval" in cell else None
                        for cell in cells
                    ]
        return columns

    @property
    def value(self) -> float:
        """The number of a statement that gets a single one."""
        if self.computed is None:
            return self.answer.value
        cells = [cell for row in self.computed for cell in row.values()]
        (cell,) = cells if len(cells) == 1 else (None,)
        number = cell["value"] if isinstance(cell, dict) else cell
        return number if isinstance(number, int | float) else self.answer.value

    def _exported(self) -> tuple[dict[str, list[Any]], Sequence[str], str]:
        labels = [each.name for each in self.outputs if each.group is not None]
        return self.by_column(), labels, self.answer.measure

    def plot(self, path: str | Path | None = None) -> "Picture":
        """Return the rows as bars of their first statistic with its intervals, as `PrivateAnswer.plot` does."""
        return self.answer.plot(path)

    def _repr_html_(self) -> str:
        from setwise.analytics.present.html import columns_html

        return columns_html(self.by_column(), self.answer)

    def __str__(self) -> str:
        if self.computed is None:
            return str(self.answer)
        lines = [", ".join(f"{name} {_said(cell)}" for name, cell in row.items()) for row in self.computed]
        return "\n".join([*lines, str(self.answer).splitlines()[-1]])

    def to_dict(self) -> dict[str, object]:
        """Return the object that `setwise sql --json` prints: a contract."""
        told = self.answer.to_dict()
        del told["items"]
        problem = {"problem": self.problem} if self.problem else {}
        bounds = {"bounds": list(self.bounds)} if self.bounds else {}
        return {"columns": list(self.columns), "rows": self.rows, **told, **bounds, **problem}


def _said(cell: RowCell) -> str:
    if not isinstance(cell, dict):
        return str(cell)
    interval = cell.get("interval")
    return f"{cell['value']}" + ("" if interval is None else f" in [{interval[0]}, {interval[1]}]")


def estimated(value: float | None, interval: Sequence[float] | None) -> Estimated:
    """Return a statistic as rows show it; one without an interval has no word for it."""
    return {"value": value} if interval is None else {"value": value, "interval": list(interval)}


def _cell(output: Output, item: Item) -> RowCell:
    if output.group is not None:
        return cell_of(item.label, output.group)
    if not item.estimates:
        return estimated(item.count, item.interval)
    found = item.estimates[output.statistic or 0]
    cell = estimated(found.value, found.interval)
    if found.unreliable:
        cell["unreliable"] = True
    return cell
