"""The answer to a SQL statement: its columns, rows, charts, JSON and unique column names."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from setwise.analytics.answer import UNRELIABLE_MARK, Exportable, PrivateAnswer
from setwise.analytics.bins import period_start
from setwise.analytics.result_texts import in_sql_words
from setwise.mechanisms.labels import Cell, shown_cell
from setwise.mechanisms.release import UNRELIABLE, Item, mark_reasons

if TYPE_CHECKING:
    from setwise.analytics.present.plot import Chart, Picture


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A column of the result of a SQL statement, with the name `name`.

    - `group` is the index of the group column that it shows; None if it shows no group column.
    - `statistic` is the index of the statistic that it shows; None if it shows no statistic.
    - `interval` is True if its numbers were computed by SQL over released (noisy) rows, and have confidence intervals.
    - `time` is True if it shows a group column of periods of time, each as the time at which the period begins.
    - `is_key` is True if its values were computed from group keys alone.
    """

    name: str
    group: int | None = None
    statistic: int | None = None
    interval: bool = False
    time: bool = False
    is_key: bool = False

    @property
    def is_label(self) -> bool:
        """Whether the column says which group a row is about: a group column, or one computed from group keys."""
        return self.group is not None or self.is_key


class Estimated(TypedDict):
    """A noisy number in a row of an answer: its `value` (None for NULL) and its confidence `interval` [low, high].

    `interval` is left out if the number has none. `unreliable` is True if noise may dominate the value, and is left out
    otherwise.
    """

    value: float | None
    interval: NotRequired[list[float]]
    unreliable: NotRequired[bool]


class StatedBounds(TypedDict):
    """Bounds with which a statement was answered, and where they came from.

    `of` says what is bounded by `low` and `high`:
    - The name of a statistic: its clipping bounds. For a count of rows or distinct values, `low` is 0 and `high` is the
      most that one user adds.
    - "contributions": the number of groups in which one user counts, with 1 in `low` and the most groups in `high`.
    - "rows of NAME": the number of one user's rows in a group that the statistic NAME reads, with 0 in `low` and the
      most rows in `high`.

    `source` is "statement", "catalog" (the data holder's file of declared bounds), or "found" (by a private search).
    """

    of: str
    low: float
    high: float
    source: str


RowCell = Cell | Estimated | float | bool | None
"""A cell of a row: a group key, a statistic, or a value computed from released rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlAnswer(Exportable):
    """The rows of a SQL statement, and the `answer` from which they come, with its cost and its privacy promise.

    - `outputs` are the columns.
    - `computed` are rows computed from released (noisy) rows; None if the released rows are the result.
    - `problem` says why rows could not be computed, so that the released rows are the result; "" if there was no
      problem.
    - `bounds` has the clipping bounds of statistics, the most groups in which a user counts, and where each came from.
    - `notes` are sentences about the rows, such as the probability with which confidence intervals hold, or that rows
      with a null are in no group.
    - `advice` says how ratios can mislead, and what to ask instead; "" if the statement has no such ratios.
    """

    answer: PrivateAnswer
    outputs: tuple[Output, ...]
    computed: tuple[dict[str, RowCell], ...] | None = None
    problem: str = ""
    bounds: tuple[StatedBounds, ...] = ()
    notes: tuple[str, ...] = ()
    advice: str = ""

    def __len__(self) -> int:
        return len(self.answer) if self.computed is None else len(self.computed)

    def __iter__(self) -> Iterator[dict[str, RowCell]]:
        return iter(self.rows)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of the SQL result, in the order of the SELECT."""
        return tuple(each.name for each in self.outputs)

    @property
    def rows(self) -> list[dict[str, RowCell]]:
        """The rows, each a mapping from column name to cell.

        The cell of a statistic is itself a mapping, with its `value` and `interval` (see `Estimated`).
        """
        if self.computed is not None:
            return list(self.computed)
        return [{each.name: _cell(each, item) for each in self.outputs} for item in self.answer.items]

    def by_column(self) -> dict[str, list[Any]]:
        """Return the result as a mapping from column names to lists of cells, for data frames.

        The ends of a statistic's confidence interval are in the columns `NAME_lower` and `NAME_upper`.
        """
        columns: dict[str, list[Any]] = {}
        rows = self.rows
        for output in self.outputs:
            cells = [row[output.name] for row in rows]
            columns[output.name] = [cell["value"] if isinstance(cell, dict) else cell for cell in cells]
            if output.statistic is not None or output.interval:
                for place, end in enumerate(("lower", "upper")):
                    columns[f"{output.name}_{end}"] = [
                        cell["interval"][place] if isinstance(cell, dict) and "interval" in cell else None
                        for cell in cells
                    ]
        return columns

    @property
    def value(self) -> float:
        """The number in the result of a statement that asks for one number.

        If the result's rows were computed from released (noisy) rows and have exactly one cell, with a number, it is
        that number. Otherwise it is the only number of the released rows.
        Raises: `InvalidParameter` if there are several numbers or none.
        """
        if self.computed is None:
            return self.answer.value
        cells = [cell for row in self.computed for cell in row.values()]
        (cell,) = cells if len(cells) == 1 else (None,)
        number = cell["value"] if isinstance(cell, dict) else cell
        return number if isinstance(number, int | float) else self.answer.value

    @property
    def summary(self) -> str:
        """A few sentences about the numbers in the rows, and about the mark "unreliable" if a cell has this mark."""
        if not self.rows:
            kept = f"The statement keeps none of the {len(self.answer):,} released groups."
            return (
                " ".join(filter(None, (kept, self.answer.hidden)))
                if len(self.answer)
                else self.answer.number_sentences()
            )
        explained = UNRELIABLE in self.notes or not any(self.unreliable_columns())
        reasons = "" if explained else mark_reasons(self.answer.interval_note)
        return in_sql_words(" ".join(filter(None, (self.answer.number_sentences(), reasons, *self.notes))))

    def _export_content(self) -> tuple[dict[str, list[Any]], Sequence[str], str]:
        labels = [each.name for each in self.outputs if each.is_label]
        return self.by_column(), labels, self.answer.measure

    def unreliable_columns(self) -> list[list[str]]:
        """Return, for each row, the names of the columns whose value in that row may be mostly noise."""
        return [
            [name for name, cell in row.items() if isinstance(cell, dict) and cell.get("unreliable")]
            for row in self.rows
        ]

    def plot(self, path: str | Path | None = None, *, title: str = "", groups: Sequence[str] = ()) -> "Picture":
        """Return a picture of the result's rows: a panel for each column of numbers, as bars with confidence intervals.

        The bars are in the order of the rows. If the groups are times, the picture is a line in the order of time
        instead.
        - `path` is a file (.png or .svg) to which the picture is also written, or None.
        - `title` is the title; "" takes a title that says what was measured.
        - `groups` are titles for the columns of labels; if it is empty, they have the names that SELECT gives them.
        """
        from setwise.analytics.present.plot import Caption, plot_charts

        labels = tuple(groups) or tuple(output.name for output in self.outputs if output.is_label)
        written = None if path is None else str(path)
        caption = Caption(title=title, groups=labels)
        return plot_charts(self.charts(), self.answer, written, self.notes, caption=caption)

    def charts(self) -> "list[Chart]":
        """Return the charts that show the result's rows, one for each column of numbers; quantiles share one chart.

        Bars are in the order of the rows, unless their labels are times, which are put in the order of time. If no
        column has numbers, a single chart shows the labels alone.
        """
        from setwise.analytics.present.plot import Bar, Chart, is_over_time, measure_of_bars

        rows = self.rows
        labels = self._label_columns()
        names = self._number_columns(labels)
        texts = [tuple("null" if row[name] is None else str(row[name]) for name in labels) for row in rows]
        if not labels and len(rows) > 1:
            texts = [(str(place),) for place in range(1, len(rows) + 1)]
        over_time = is_over_time([Bar(cells=cells, value=None, interval=None) for cells in texts])

        def bar(cells: tuple[str, ...], cell: RowCell, name: str) -> Bar:
            value, interval = _number_of(cell)
            unreliable = isinstance(cell, dict) and cell.get("unreliable", False)
            return Bar(cells=cells or (name,), value=value, interval=interval, unreliable=unreliable)

        lines = list(zip(texts, rows, strict=True))
        if over_time:
            lines.sort(key=lambda line: line[0])  # text order of dates is their order in time
        if not names:
            bars = [Bar(cells=cells, value=None, interval=None) for cells in texts]
            return [Chart(name=self.answer.heading, bars=bars, over_time=False)]
        if self.answer.kind == "quantile" and len(names) == len(self.answer.statistics) > 1:
            bars = [bar((*cells, name), row[name], name) for cells, row in lines for name in names]
            return [Chart(name=measure_of_bars(self.answer), bars=bars, over_time=False)]
        is_heading = self.computed is None and len(names) == 1
        return [
            Chart(
                name=self.answer.heading if is_heading else name,
                bars=[bar(cells, row[name], name) for cells, row in lines],
                over_time=over_time,
            )
            for name in names
        ]

    def _label_columns(self) -> list[str]:
        """Return the names of the columns that label the rows: group columns or, if none, the first text column."""
        keys = [output.name for output in self.outputs if output.is_label]
        rows = self.rows
        other = [name for name in self.columns if any(isinstance(row[name], str | bool) for row in rows)]
        return keys or other[:1]

    def _number_columns(self, labels: Sequence[str]) -> list[str]:
        """Return the names of the columns that hold numbers: statistics and columns with confidence intervals first.

        `labels` are the columns that label the rows; they are left out.
        """
        rows = self.rows
        numbers = [
            output
            for output in self.outputs
            if output.name not in labels and any(_number_of(row[output.name])[0] is not None for row in rows)
        ]
        estimates = [output.name for output in numbers if output.statistic is not None or output.interval]
        return [*estimates, *(output.name for output in numbers if output.name not in estimates)]

    def _repr_html_(self) -> str:
        from setwise.analytics.present.html import columns_html

        keys = [output.name for output in self.outputs if output.is_label]
        notes = self.notes if self.rows else (self.summary,)
        return columns_html(self.by_column(), self.answer, self.unreliable_columns(), keys, notes)

    def __str__(self) -> str:
        notes = [*self.notes, *filter(None, [self.advice])]
        if self.computed is None:
            return "\n".join([str(self.answer), *notes])
        if not self.computed:
            return "\n".join([self.summary, *self.answer.closing_lines()[-1:]])
        lines = [", ".join(f"{name} {_cell_text(cell)}" for name, cell in row.items()) for row in self.computed]
        return "\n".join([*lines, *self.answer.closing_lines(), *notes])

    def to_dict(self) -> dict[str, object]:
        """Return the JSON object that `setwise sql --json` prints. Scripts read its keys, so they must not change."""
        promise = self.answer.to_dict()
        del promise["items"]
        problem = {"problem": self.problem} if self.problem else {}
        bounds = {"bounds": list(self.bounds)} if self.bounds else {}
        notes = {"notes": list(self.notes)} if self.notes else {}
        advice = {"advice": self.advice} if self.advice else {}
        return {"columns": list(self.columns), "rows": self.rows, **promise, **bounds, **notes, **advice, **problem}


def _number_of(cell: RowCell) -> tuple[float | None, tuple[float, float] | None]:
    """Return (number, interval) of `cell`, a cell of a result; (None, None) if the cell holds no number.

    The interval is (lower, upper), the ends of the number's confidence interval, or None if it has none.
    """
    value = cell["value"] if isinstance(cell, dict) else cell
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None, None
    ends = cell.get("interval") if isinstance(cell, dict) else None
    return value, None if ends is None else (ends[0], ends[1])


def _cell_text(cell: RowCell) -> str:
    if not isinstance(cell, dict):
        return str(cell)
    interval = cell.get("interval")
    mark = UNRELIABLE_MARK if cell.get("unreliable") else ""
    return f"{cell['value']}" + ("" if interval is None else f" in [{interval[0]}, {interval[1]}]") + mark


def estimated(value: float | None, interval: Sequence[float] | None, *, unreliable: bool = False) -> Estimated:
    """Return `value`, a noisy number, as a cell of a SQL result: {"value": 5, "interval": [3, 7], "unreliable": True}.

    `interval` has the ends of the number's confidence interval; the key is left out if it is None. The key
    "unreliable", which says that noise may dominate the number, is left out unless `unreliable` is True.
    """
    cell: Estimated = {"value": value} if interval is None else {"value": value, "interval": list(interval)}
    if unreliable:
        cell["unreliable"] = True
    return cell


def _cell(output: Output, item: Item) -> RowCell:
    if output.group is not None:
        key = shown_cell(item.label, output.group)
        return str(period_start(key)) if output.time and isinstance(key, str) else key
    if not item.estimates:
        return estimated(item.count, item.interval, unreliable=item.unreliable)
    estimate = item.estimates[output.statistic or 0]
    return estimated(estimate.value, estimate.interval, unreliable=estimate.unreliable)


def unique_names(names: Sequence[str]) -> list[str]:
    """Return the column names `names` with _1, _2, .. added to each repeated name: n, N becomes n, N_1.

    Names that differ only in upper and lower case count as repeated.
    """
    unique: list[str] = []
    for name in names:
        candidate, number = name, 1
        while candidate.lower() in [each.lower() for each in unique]:
            candidate, number = f"{name}_{number}", number + 1
        unique.append(candidate)
    return unique
