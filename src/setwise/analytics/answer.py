"""What a question gets: items with intervals, what was spent, and what is promised."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from setwise.accounting.brackets import Bracket, Interaction
from setwise.accounting.guarantees import Use
from setwise.accounting.notation import format_use, parse_use, promise_for_unit, promise_in_words, rounded_up, shown_by
from setwise.errors import InvalidParameter, MissingExtra
from setwise.ledger.records import canonical
from setwise.mechanisms.labels import Label, cell_of
from setwise.mechanisms.release import Estimate, Item

if TYPE_CHECKING:
    import numpy as np
    import pandas  # type: ignore[import-untyped]
    import polars
    import pyarrow
    from numpy.typing import NDArray

    from setwise.analytics.present.plot import Picture


class Exportable(ABC):
    """An answer that converts to Arrow, pandas and Polars, and is written as CSV and JSON."""

    __slots__ = ()

    @abstractmethod
    def to_dict(self) -> dict[str, object]:
        """Return the object that `--json` prints: a contract."""

    @abstractmethod
    def _exported(self) -> tuple[dict[str, list[Any]], Sequence[str], str]:
        """Return the columns, the names of those that hold labels, and what is measured."""

    def to_json(self) -> str:
        """Return the contract as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    def to_arrow(self) -> "pyarrow.Table":
        """Return the columns as an Arrow table; those of labels are text where nothing tells their type."""
        import pyarrow as pa

        columns, labels, _ = self._exported()
        kinds = {
            name: _arrow_kind(values, pa.string() if name in labels else pa.int64()) for name, values in columns.items()
        }
        return pa.table({name: pa.array(columns[name], kind) for name, kind in kinds.items()})

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the columns as a pandas frame."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtra("pandas is not installed: pip install 'setwise[frames]'") from None
        return pd.DataFrame(self.to_arrow().to_pandas())

    def to_polars(self) -> "polars.DataFrame":
        """Return the columns as a Polars frame."""
        try:
            import polars as pl
        except ImportError:
            raise MissingExtra("Polars is not installed: pip install 'setwise[frames]'") from None
        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return the columns as CSV text with a heading, and write it to a file if one is named.

        One more column, `measure`, says what was counted, bounded and clipped.
        """
        import csv
        import io

        columns, _, measure = self._exported()
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*columns, "measure"])
        writer.writerows([*cells, measure] for cells in zip(*columns.values(), strict=True))
        if path is not None:
            try:
                Path(path).write_text(text.getvalue(), encoding="utf-8", newline="")
            except OSError:
                raise InvalidParameter(f"{str(path)!r} cannot be written") from None
        return text.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateAnswer(Exportable):
    """A private answer. It shows as a table in a notebook and converts to Arrow, pandas and Polars.

    `epsilon` brackets what this question is promised to cost at most, at `delta`; `spent` lists the uses it really
    made. `complete` says that nothing that was asked for can be missing, `reason` why the list ends where it does, and
    `hint` what would have shown more. `why` says how the mechanism was chosen. `interval_note` says what the intervals
    promise at `confidence`, and why some reach further than others. `alone` is the (epsilon, delta) of this answer by
    itself, where an account states its promises at another delta. `replayed` says that the answer was stored before and
    nothing was charged for it now. `groups` names the columns of items that are several, and `statistics` what the
    estimates of each item are, where it is more than one count. `found` holds the bounds
    that were left to be found, by column, and the contributions. `left_out` says which rows the numbers do not include
    because contributions are bounded, and `axes` of each group column whether its labels are names, numbers or times.
    `parts` are the answers of the releasing SELECTs of one SQL statement, where it has several; the items are then
    those of the last. `unit` is the unit of privacy that the promise protects: "user", or "user,day".
    """

    kind: str
    measure: str
    items: tuple[Item, ...]
    mechanism: str
    interaction: Interaction
    epsilon: Bracket
    delta: float
    method: str
    statement: str
    spent: tuple[Use, ...]
    complete: bool
    reason: str
    why: str
    confidence: float
    interval_note: str = ""
    hint: str = ""
    alone: tuple[float, float] | None = None
    groups: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()
    found: Mapping[str, object] = field(default_factory=dict)
    left_out: str = ""
    axes: tuple[str, ...] = ()
    parts: "tuple[PrivateAnswer, ...]" = ()
    unit: str = field(default="user", compare=False)
    replayed: bool = field(default=False, compare=False)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def __str__(self) -> str:
        lines = [f"{in_words(each.label)}{_said(each, self.statistics)}" for each in self.items]
        return "\n".join([*lines, f"({self.reason}; epsilon {rounded_up(self.epsilon.upper)} at delta {self.delta:g})"])

    @property
    def heading(self) -> str:
        """A short column heading: what is measured, without its bounds and the cells that are skipped."""
        return self.measure.partition("; ")[0]

    @property
    def labels(self) -> tuple[Label, ...]:
        """The items, highest first."""
        return tuple(each.label for each in self.items)

    @property
    def value(self) -> float:
        """The number of an answer that is one number: a count, a sum, a mean or a quantile."""
        return self._only().value

    @property
    def interval(self) -> tuple[float, float] | None:
        """The interval of an answer that is one number."""
        return self._only().interval

    def _only(self) -> Estimate:
        found = [each.estimates or (Estimate(value=each.count or 0, interval=each.interval),) for each in self.items]
        if len(found) != 1 or len(found[0]) != 1:
            several = f"{len(found)} items" if len(found) != 1 else f"{len(found[0])} statistics"
            raise InvalidParameter(f"this answer is no single number: it has {several}; read `items` or `columns()`")
        return found[0][0]

    def error_bars(self) -> "NDArray[np.float64]":
        """Return how far the intervals reach below and above the first number of each item, as two rows.

        pandas and matplotlib take them as they are: ``frame["count"].plot.barh(xerr=answer.error_bars())``.
        """
        import numpy as np

        bars = np.zeros((2, len(self.items)))
        for place, each in enumerate(self.items):
            found = each.estimates[0] if each.estimates else Estimate(value=each.count or 0, interval=each.interval)
            if found.interval is not None:
                bars[:, place] = found.value - found.interval[0], found.interval[1] - found.value
        return bars

    def to_dict(self) -> dict[str, object]:
        """Return the object that `--json` prints: a contract."""
        return {
            "items": [self._item(each) for each in self.items],
            "measure": self.measure,
            "mechanism": self.mechanism,
            "interaction": str(self.interaction),
            "epsilon": {"lower": self.epsilon.lower, "upper": self.epsilon.upper},
            "delta": self.delta,
            "spent": [format_use(use) for use in self.spent],
            "complete": self.complete,
            "interval_note": self.interval_note,
            "left_out": self.left_out,
            "hint": self.hint,
            **({"found": dict(self.found)} if self.found else {}),
            **({"unit": self.unit, "promise": self.promise} if self.unit != "user" else {}),
        }

    def _item(self, each: Item) -> dict[str, object]:
        label = dict(zip(self.groups, each.label, strict=True)) if isinstance(each.label, tuple) else each.label
        if not self.statistics:
            return {"item": label, "count": each.count, "interval": _listed(each.interval), "noisy": each.noisy}
        found = {
            name: {"value": estimate.value, "interval": _listed(estimate.interval)}
            | ({"unreliable": True} if estimate.unreliable else {})
            for name, estimate in zip(self.statistics, each.estimates, strict=True)
        }
        return {"item": label, **found}

    def stored(self) -> str:
        """Return the text a ledger keeps: everything, so that a replay is the same answer."""
        more = {name: getattr(self, name) for name in _BESIDE_THE_CONTRACT}
        alone = {} if self.alone is None else {"alone": [*self.alone]}
        named = {name: list(names) for name in ("groups", "statistics", "axes") if (names := getattr(self, name))}
        parts = {"parts": [json.loads(each.stored()) for each in self.parts]} if self.parts else {}
        record = {**self.to_dict(), **more, **alone, **named, **parts}
        return "{" + ",".join(f"{canonical(name)}:{_in_pieces(record[name])}" for name in sorted(record)) + "}"

    @classmethod
    def from_stored(cls, text: str) -> "PrivateAnswer":
        """Return the answer that `stored` wrote."""
        found = json.loads(text)
        return cls(
            items=tuple(_item(each, found) for each in found["items"]),
            groups=tuple(found.get("groups", ())),
            statistics=tuple(found.get("statistics", ())),
            found=found.get("found", {}),
            left_out=found.get("left_out", ""),
            axes=tuple(found.get("axes", ())),
            parts=tuple(cls.from_stored(canonical(part)) for part in found.get("parts", ())),
            mechanism=found["mechanism"],
            interaction=Interaction.parse(found["interaction"]),
            epsilon=Bracket(found["epsilon"]["lower"], found["epsilon"]["upper"]),
            delta=found["delta"],
            spent=tuple(parse_use(use) for use in found["spent"]),
            complete=found["complete"],
            interval_note=found.get("interval_note", EARLIER_NOTE),
            hint=found.get("hint", ""),
            alone=None if found.get("alone") is None else (found["alone"][0], found["alone"][1]),
            **{name: found[name] for name in _BESIDE_THE_CONTRACT},
        )

    def columns(self) -> dict[str, list[Any]]:
        """Return the items as columns: item, count, lower, upper, noisy; several columns and statistics as several."""
        columns: dict[str, list[Any]] = {"item": [each.label for each in self.items]}
        if self.groups:
            labels = [[cell_of(each.label, place) for each in self.items] for place in range(len(self.groups))]
            columns = dict(zip(self.groups, labels, strict=True))
        if not self.statistics:
            columns["count"] = [each.count for each in self.items]
            columns |= _ends("lower", "upper", [each.interval for each in self.items])
            return columns | {"noisy": [each.noisy for each in self.items]}
        for place, name in enumerate(self.statistics):
            columns[name] = [each.estimates[place].value for each in self.items]
            columns |= _ends(f"{name}_lower", f"{name}_upper", [each.estimates[place].interval for each in self.items])
        return columns

    def _exported(self) -> tuple[dict[str, list[Any]], Sequence[str], str]:
        return self.columns(), self.groups or ("item",), self.measure

    def plot(self, path: str | Path | None = None) -> "Picture":
        """Return the items as bars with their intervals, which notebooks show, and write a .png or .svg file if named.

        `picture.figure` is the matplotlib figure.
        """
        from setwise.analytics.present.plot import plot_answer

        return plot_answer(self, None if path is None else str(path))

    @property
    def promise(self) -> str:
        """The promise in plain words."""
        if self.unit == "user":
            return promise_in_words(self.epsilon.upper, self.delta)
        return promise_for_unit(self.unit, self.epsilon.upper, self.delta)

    @property
    def guarantee(self) -> str:
        """The promise as a sentence or two that a person can check."""
        alone = "" if self.alone is None else f" By itself it is {_pair(*self.alone)}-differentially private."
        protected = "everything one user has" if self.unit == "user" else f"each unit {self.unit!r} of a user"
        return (
            f"The answer is {_pair(self.epsilon.upper, self.delta)}-differentially private for {protected} "
            f"in the table, {_COVERS[self.interaction]} (no proof could promise less than {self.epsilon.lower:.4g}; "
            f"{self.method}, {shown_by(self.statement)}).{alone}"
        )

    def _repr_html_(self) -> str:
        from setwise.analytics.present.html import answer_html

        return answer_html(self)


_BESIDE_THE_CONTRACT = ("kind", "measure", "method", "statement", "reason", "why", "confidence")


EARLIER_NOTE = (
    "Stored before intervals accounted for selection: those of items chosen by their noisy counts miss more often."
)


def _item(found: Mapping[str, Any], answer: Mapping[str, Any]) -> Item:
    """Return a stored item; a count stored before all were whole and none negative becomes so, in its interval."""
    label = found["item"]
    if answer.get("groups"):
        label = tuple(label[name] for name in answer["groups"])
    if answer.get("statistics"):
        told = (found[name] for name in answer["statistics"])
        estimates = tuple(
            Estimate(value=each["value"], interval=_two(each["interval"]), unreliable=each.get("unreliable", False))
            for each in told
        )
        return Item(label=label, estimates=estimates)
    interval, count = _two(found["interval"]), found["count"]
    if isinstance(count, float):
        count = math.floor(count + 0.5)
    if count is not None:
        count = max(0, count)
    pair = None if interval is None else (min(interval[0], count), max(interval[1], count))
    return Item(label=label, count=count, interval=pair, noisy=found.get("noisy"))


def _two(interval: Sequence[Any] | None) -> tuple[Any, Any] | None:
    if interval is None:
        return None
    if len(interval) != 2:
        raise InvalidParameter("a stored answer has an interval that is not a pair")
    return interval[0], interval[1]


_PIECE = 1000
"""Items that are written as JSON at a time."""


def _in_pieces(value: object) -> str:
    """Return the canonical text of a value, a long list written piece by piece.

    Writing JSON holds the interpreter: 100,000 items at once would keep every thread of a service waiting for 0.2 s.
    """
    if not isinstance(value, list):
        return canonical(value)
    pieces = (canonical(value[begin : begin + _PIECE])[1:-1] for begin in range(0, len(value), _PIECE))
    return f"[{','.join(pieces)}]"


def _listed(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else [*interval]


def _ends(lower: str, upper: str, intervals: Sequence[tuple[float, float] | None]) -> dict[str, list[Any]]:
    return {
        name: [None if interval is None else interval[place] for interval in intervals]
        for place, name in enumerate((lower, upper))
    }


def _arrow_kind(values: Sequence[Any], otherwise: "pyarrow.DataType") -> "pyarrow.DataType":
    """Return the type of a column: floats as soon as one value is one, integers or text by the first."""
    import pyarrow as pa

    if any(isinstance(value, float) for value in values):
        return pa.float64()
    first = next((value for value in values if value is not None), None)
    return otherwise if first is None else pa.int64() if isinstance(first, int) else pa.string()


def in_words(label: Label) -> str:
    """Return a label as people read it, that of several columns with commas."""
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def number(value: float) -> str:
    """Write a number: whole ones as they are, others with four digits, or with one decimal from 1,000 on.

    >>> number(1234567), number(12.0), number(1234.25), number(3.14159), number(2**60 + 1)
    ('1,234,567', '12', '1,234.2', '3.142', '1,152,921,504,606,846,977')
    """
    if isinstance(value, int):
        return f"{value:,}"
    if value.is_integer():
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"


def _said(each: Item, statistics: Sequence[str]) -> str:
    if each.count is not None:
        return f": {_in_interval(each.count, each.interval)}"
    parts = zip(statistics, each.estimates, strict=True)
    told = ", ".join(
        f"{name} {_in_interval(found.value, found.interval)}{' (unreliable)' * found.unreliable}"
        for name, found in parts
    )
    return f": {told}" if told else ""


def _in_interval(value: float, interval: tuple[float, float] | None) -> str:
    return number(value) + ("" if interval is None else f" in [{number(interval[0])}, {number(interval[1])}]")


_COVERS = {
    Interaction.BATCH: "whatever else was chosen up front",
    Interaction.ORDERED: "parameters in a fixed order",
    Interaction.SETWISE: "within a budget fixed before any answer was seen",
    Interaction.ADAPTIVE: "within an account whose questions and parameters are chosen on the fly",
}


def _pair(epsilon: float, delta: float) -> str:
    return f"({rounded_up(epsilon, 4)}, {rounded_up(delta, 3)})"
