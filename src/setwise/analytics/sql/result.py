"""The answer to a SELECT: the columns it names, and a row for each group."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from setwise.analytics.answer import Exportable, PrivateAnswer
from setwise.mechanisms.labels import Cell, cell_of
from setwise.mechanisms.release import Item

if TYPE_CHECKING:
    from setwise.analytics.present.plot import Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A column of the result: its name, and the place of its group or statistic in the query."""

    name: str
    group: int | None = None
    statistic: int | None = None


class Estimated(TypedDict):
    """A statistic of a row: its value, and its interval where it has one."""

    value: float | None
    interval: list[float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlAnswer(Exportable):
    """The rows that a SELECT gets, and the `answer` they are of: what was spent, what is promised, and why it ends."""

    answer: PrivateAnswer
    outputs: tuple[Output, ...]

    def __len__(self) -> int:
        return len(self.answer)

    def __iter__(self) -> Iterator[dict[str, Cell | Estimated]]:
        return iter(self.rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in the order of the SELECT."""
        return tuple(each.name for each in self.outputs)

    @property
    def rows(self) -> list[dict[str, Cell | Estimated]]:
        """The rows by column: the cells of the group, and value and interval of each statistic."""
        return [{each.name: _cell(each, item) for each in self.outputs} for item in self.answer.items]

    def by_column(self) -> dict[str, list[Any]]:
        """Return the rows as columns; a statistic has its ends in `NAME_lower` and `NAME_upper`."""
        columns: dict[str, list[Any]] = {}
        for each in self.outputs:
            cells = [_cell(each, item) for item in self.answer.items]
            if each.group is not None:
                columns[each.name] = cells
                continue
            found = [cell for cell in cells if isinstance(cell, dict)]
            columns[each.name] = [cell["value"] for cell in found]
            for place, end in enumerate(("lower", "upper")):
                columns[f"{each.name}_{end}"] = [
                    None if cell["interval"] is None else cell["interval"][place] for cell in found
                ]
        return columns

    @property
    def value(self) -> float:
        """The number of a SELECT that gets a single one."""
        return self.answer.value

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
        return str(self.answer)

    def to_dict(self) -> dict[str, object]:
        """Return the object that `setwise sql --json` prints: a contract."""
        told = self.answer.to_dict()
        del told["items"]
        return {"columns": list(self.columns), "rows": self.rows, **told}


def _cell(output: Output, item: Item) -> Cell | Estimated:
    if output.group is not None:
        return cell_of(item.label, output.group)
    if not item.estimates:
        return {"value": item.count, "interval": None if item.interval is None else list(item.interval)}
    found = item.estimates[output.statistic or 0]
    return {"value": found.value, "interval": None if found.interval is None else list(found.interval)}
