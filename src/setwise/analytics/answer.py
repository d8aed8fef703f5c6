"""The answer to a question: items, intervals and promise, the JSON that is stored, and numbers as text (rounding)."""

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from setwise.accounting.brackets import Bracket, Interaction
from setwise.accounting.guarantees import Use
from setwise.accounting.notation import format_use, parse_use, shown_by
from setwise.accounting.promises import (
    COVERS,
    USER,
    epsilon_at_delta,
    in_unit_nouns,
    promise_for_unit,
    promise_in_words,
    promised_pair,
    rounded_down,
    rounded_up,
    unit_nouns,
)
from setwise.contract import AnswerItemRecord
from setwise.errors import InvalidParameter, MissingExtra
from setwise.ledger.records import canonical
from setwise.mechanisms.labels import Label, cell_of
from setwise.mechanisms.release import FITTED, NUMBER_COUNTED, Estimate, Item, mark_reasons, shown_count

if TYPE_CHECKING:
    import numpy as np
    import pandas  # type: ignore[import-untyped]
    import polars
    import pyarrow
    from numpy.typing import NDArray

    from setwise.analytics.present.plot import Picture


class Exportable(ABC):
    """An answer that converts to Arrow, pandas and Polars tables, and can be written as CSV or JSON."""

    __slots__ = ()

    @abstractmethod
    def to_dict(self) -> dict[str, object]:
        """Return the answer as the dictionary that `--json` prints; its keys never change, as scripts read them."""

    @abstractmethod
    def _export_content(self) -> tuple[dict[str, list[Any]], Sequence[str], str]:
        """Return what an export to a table or file contains: (columns, key names, description).

        The columns are lists of cells by column name. The key names are the names of the columns with group keys. The
        description is a text that says what the numbers measure, such as "users".
        """

    @property
    @abstractmethod
    def summary(self) -> str:
        """Sentences on what the numbers and intervals mean, and on the mark "unreliable" if a number has it."""

    @abstractmethod
    def unreliable_columns(self) -> list[list[str]]:
        """Return, for each row of the answer, the names of the columns whose number in that row may be mostly noise.

        Rows and names are in the order of the answer. A row in which no number may be mostly noise has an empty list.
        """

    def unreliable_cells(self) -> list[tuple[int, str]]:
        """Return a pair (row, column) for each number that may be mostly noise, with rows counted from 0."""
        return [(row, name) for row, names in enumerate(self.unreliable_columns()) for name in names]

    def row_measures(self) -> list[str]:
        """Return a text for each row of the answer: what its numbers measure, and which of them may be mostly noise."""
        measure = self._export_content()[2]
        return [
            f"{measure}; {' and '.join(names)} of this row {'is' if len(names) == 1 else 'are'} unreliable: noise may "
            "dominate"
            if names
            else measure
            for names in self.unreliable_columns()
        ]

    def to_json(self) -> str:
        """Return the answer as JSON text, with the same keys as `to_dict`."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    def to_arrow(self) -> "pyarrow.Table":
        """Return the answer's columns as an Arrow table.

        A column without any value becomes text if it is a column of group keys, and int64 if it is a column of numbers.
        """
        import pyarrow as pa

        columns, labels, _ = self._export_content()
        kinds = {
            name: _arrow_kind(values, pa.string() if name in labels else pa.int64()) for name, values in columns.items()
        }
        return pa.table({name: pa.array(columns[name], kind) for name, kind in kinds.items()})

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the answer's columns as a pandas frame, or raise `MissingExtra` if pandas is not installed.

        `frame.attrs["unreliable"]` has the places of the numbers that may be mostly noise, each as a pair (row, column)
        such as (3, "mean_age"), with rows counted from 0; `frame.attrs["notes"]` has the sentences about the numbers.
        """
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtra("pandas is not installed: pip install 'setwise[frames]'") from None
        frame = pd.DataFrame(self.to_arrow().to_pandas())
        frame.attrs["unreliable"] = self.unreliable_cells()
        frame.attrs["notes"] = self.summary
        return frame

    def to_polars(self) -> "polars.DataFrame":
        """Return the answer's columns as a Polars frame, or raise `MissingExtra` if Polars is not installed.

        Polars frames have no place for marks: `unreliable_cells` says which numbers may be mostly noise.
        """
        try:
            import polars as pl
        except ImportError:
            raise MissingExtra("Polars is not installed: pip install 'setwise[frames]'") from None
        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return the answer's columns as CSV text with a header line; also write it to the file `path`, unless None.

        One more column, `measure`, says in every row what was counted, bounded and clipped, and which numbers of the
        row may be mostly noise.
        Raises: `InvalidParameter` if the file cannot be written.
        """
        import csv
        import io

        columns, _, _ = self._export_content()
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*columns, "measure"])
        lines = zip(zip(*columns.values(), strict=True), self.row_measures(), strict=True)
        writer.writerows([*cells, measure] for cells, measure in lines)
        if path is not None:
            try:
                Path(path).write_text(text.getvalue(), encoding="utf-8", newline="")
            except OSError:
                raise InvalidParameter(f"{str(path)!r} cannot be written") from None
        return text.getvalue()


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateAnswer(Exportable):
    """A private answer: released items with their numbers, and what is promised about their privacy.

    An answer shows as a table in a notebook and converts to Arrow, pandas and Polars.

    - `kind` is the shape of the query, such as "top-k", and `measure` says what the numbers measure.
    - `items` are the released groups, each with its group key (`label`) and its numbers.
    - `mechanism` names the mechanism that released them, and `why` says how it was chosen.
    - `epsilon` is a certified interval (lower, upper) for the privacy cost at `delta`. The upper end is the promise;
      `interaction` says what analysts may choose after seeing answers without breaking it.
    - `method` names the computation of `epsilon`, and `statement` the theorem behind it.
    - `spent` lists the mechanisms that really ran, each as a privacy guarantee and a number of runs.
    - `complete` is True if no item that the question asked for can be missing.
    - `reason` says why the list of items ends where it does, and `hint` which parameters would have shown more items.
    - `confidence` is the probability of the intervals, and `interval_note` says in words what they promise.
    - `alone` is the cost of this answer by itself, as (epsilon, delta), if an account pays and the question states an
      epsilon; `epsilon` and `delta` then are the cost at the account's delta. Otherwise `alone` is None.
    - `groups` names the group columns if there are several; otherwise empty.
    - `statistics` names the estimates of each item; empty if an item has a single count.
    - `found` has what private searches found, such as the clipping bounds [0, 120] under the column name "age".
    - `left_out` says which rows the numbers leave out because one user may add only so much.
    - `brief` is a shorter version of `left_out`, in one sentence.
    - `hidden` says which groups may be missing.
    - `axes` says for each group column whether its values are names, numbers or times.
    - `parts` are the answers of the SELECTs of a SQL statement, if several aggregate private rows; otherwise empty.
    - `unit` is the unit of privacy: "user", or a part of a user such as "user,day".
    - `replayed` is True if the answer was stored before, so that nothing was charged for it now.
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
    brief: str = ""
    hidden: str = ""
    axes: tuple[str, ...] = ()
    parts: "tuple[PrivateAnswer, ...]" = ()
    unit: str = field(default="user", compare=False)
    replayed: bool = field(default=False, compare=False)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def __str__(self) -> str:
        lines = [f"{in_words(each.label)}{_describe_numbers(each, self.statistics)}" for each in self.items]
        return "\n".join([*lines, *self.closing_lines()])

    def closing_lines(self) -> list[str]:
        """Return the lines below a printed answer.

        The first line says which rows and groups of a user the numbers leave out, if any, or that there are no numbers.
        The last line says why the list of items ends where it does, and what the answer cost as an (epsilon, delta).
        """
        bounds = [self.brief or self.left_out] if self.left_out else []
        if not self.items:
            bounds = [self.number_sentences()]
        return [*bounds, f"({self.reason}; {epsilon_at_delta(*self.cost)})"]

    @property
    def summary(self) -> str:
        """Sentences on what the numbers and intervals mean, and on the mark "unreliable" if a number has it."""
        marked = mark_reasons(self.interval_note) if any(self.unreliable_columns()) else ""
        return " ".join(filter(None, (self.number_sentences(), marked)))

    def number_sentences(self) -> str:
        """Return short sentences on the answer's numbers: what they count, what they leave out, what intervals promise.

        They are shown in place of the fields `measure`, `left_out` and `interval_note`, which say the same at more
        length. What is left out is taken from the one-sentence field `brief`. An answer that an earlier version of the
        program stored has no `brief`, so its `left_out` is shown whole. An answer without items has no numbers, so the
        sentences say only this, and how large hidden groups may be.
        """
        if not self.items:
            version = f"Version {self.version} of the table." if self.version else ""
            return " ".join(filter(None, ("No group was shown.", self.hidden, version)))
        if self.parts and self.brief:  # which then has the sentences of every part
            return self.brief
        counted = "" if self.statistics else self.heading
        if self.brief:
            counted = counted.partition(",")[0]
        bounds = (self.brief, self.hidden) if self.brief or self.hidden else (self.left_out,)
        version = f"Version {self.version} of the table." if self.version else ""
        intervals = self.interval_note.partition(". ")[0].rstrip(".").replace(NUMBER_COUNTED, "the number counted")
        fitted = FITTED if FITTED in self.interval_note else ""
        named = f"{counted[:1].upper()}{counted[1:]}." if counted else ""
        return " ".join(filter(None, [named, version, *bounds, intervals and f"{intervals}.", fitted]))

    @property
    def heading(self) -> str:
        """A short column heading, such as "users": what the numbers measure (`measure`), up to the first semicolon.

        The text after the semicolon, about bounds and cells that could not be parsed, is left out.
        """
        return self.measure.partition("; ")[0]

    @property
    def version(self) -> str:
        """The version of the table that was read, such as "7"; "" if the table has no versions.

        Lake tables (Delta, Iceberg) and files in object storage have versions. The version is read from the field
        `measure`, the text that says what the answer counts.
        """
        return version_in(self.measure)

    @property
    def labels(self) -> tuple[Label, ...]:
        """The group keys (labels) of the answer's items, in the order of the items."""
        return tuple(each.label for each in self.items)

    @property
    def value(self) -> float:
        """The number of an answer that has exactly one item with one number: a count, a sum, a mean or a quantile.

        Raises: `InvalidParameter` if the number of items, or of numbers in the item, is not 1.
        """
        return self._only().value

    @property
    def interval(self) -> tuple[float, float] | None:
        """The confidence interval (lower, upper) of an answer that is one number; None if that number has no interval.

        Raises: `InvalidParameter` if the answer does not have exactly one item with one number.
        """
        return self._only().interval

    def _only(self) -> Estimate:
        """Return the only number of the answer, with its interval.

        Raises: `InvalidParameter` if the answer does not have exactly one item with exactly one number.
        """
        rows = [each.estimates or (Estimate(value=each.count or 0, interval=each.interval),) for each in self.items]
        if len(rows) != 1 or len(rows[0]) != 1:
            several = f"{len(rows)} items" if len(rows) != 1 else f"{len(rows[0])} statistics"
            raise InvalidParameter(f"this answer is no single number: it has {several}; read `items` or `columns()`")
        return rows[0][0]

    def error_bars(self) -> "NDArray[np.float64]":
        """Return the error bars of each item's first number as an array of two rows: lengths below and above it.

        The lengths are the distances from the number to the lower and the upper end of its interval, or 0 without
        interval.
        pandas and matplotlib take the array as it is: ``frame["count"].plot.barh(xerr=answer.error_bars())``.
        """
        import numpy as np

        bars = np.zeros((2, len(self.items)))
        for place, item in enumerate(self.items):
            estimate = item.estimates[0] if item.estimates else Estimate(value=item.count or 0, interval=item.interval)
            if estimate.interval is not None:
                bars[:, place] = estimate.value - estimate.interval[0], estimate.interval[1] - estimate.value
        return bars

    def to_dict(self) -> dict[str, object]:
        """Return the answer as the dictionary that `--json` prints; its keys never change, as scripts read them."""
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

    def _item(self, each: Item) -> AnswerItemRecord:
        label = dict(zip(self.groups, each.label, strict=True)) if isinstance(each.label, tuple) else each.label
        if not self.statistics:
            interval = None if each.interval is None else [*each.interval]
            record: AnswerItemRecord = {"item": label, "count": each.count, "interval": interval, "noisy": each.noisy}
            if each.unreliable:
                record["unreliable"] = True
            return record
        fields = {
            name: {"value": estimate.value}
            | ({} if estimate.interval is None else {"interval": [*estimate.interval]})
            | ({"unreliable": True} if estimate.unreliable else {})
            for name, estimate in zip(self.statistics, each.estimates, strict=True)
        }
        return cast(AnswerItemRecord, {"item": label, **fields})  # its fields are named by statistics

    def stored(self) -> str:
        """Return the answer as the JSON text that a ledger stores; `from_stored` returns an equal answer from it."""
        more = {name: getattr(self, name) for name in _STORED_FIELDS}
        alone = {} if self.alone is None else {"alone": [*self.alone]}
        named = {name: list(names) for name in ("groups", "statistics", "axes") if (names := getattr(self, name))}
        parts = {"parts": [json.loads(each.stored()) for each in self.parts]} if self.parts else {}
        short = {name: text for name in ("brief", "hidden") if (text := getattr(self, name))}
        record = {**self.to_dict(), **more, **alone, **named, **parts, **short}
        return "{" + ",".join(f'"{name}":{_in_pieces(record[name])}' for name in sorted(record)) + "}"  # plain names

    @classmethod
    def from_stored(cls, text: str) -> "PrivateAnswer":
        """Return the answer that `stored` wrote as `text`; also reads texts that earlier versions stored."""
        return cls.from_record(json.loads(text))

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "PrivateAnswer":
        """Return the answer in the JSON object `record`, as `stored` writes it and as a service returns it."""
        return cls(
            items=tuple(_item(each, record) for each in record["items"]),
            groups=tuple(record.get("groups", ())),
            statistics=tuple(record.get("statistics", ())),
            found=record.get("found", {}),
            left_out=record.get("left_out", ""),
            brief=record.get("brief", ""),
            hidden=record.get("hidden", ""),
            axes=tuple(record.get("axes", ())),
            parts=tuple(cls.from_record(part) for part in record.get("parts", ())),
            mechanism=record["mechanism"],
            interaction=Interaction.parse(record["interaction"]),
            epsilon=Bracket(record["epsilon"]["lower"], record["epsilon"]["upper"]),
            delta=record["delta"],
            spent=tuple(parse_use(use) for use in record["spent"]),
            complete=record["complete"],
            interval_note=record.get("interval_note", EARLIER_NOTE),
            hint=record.get("hint", ""),
            unit=record.get("unit", "user"),
            alone=None if record.get("alone") is None else (record["alone"][0], record["alone"][1]),
            **{name: record[name] for name in _STORED_FIELDS},
        )

    def in_units(self, unit: str, names: Collection[str] = ()) -> "PrivateAnswer":
        """Return this answer with the unit of privacy `unit`; its texts then are about units, such as user-days.

        For example, if `unit` is "user,day" and 50 users have rows on each of 20 days, the table has 1,000 units.
        `names` are the names of the columns that the question reads, which stay as they are.
        """
        if unit == USER:
            return self
        _, several = unit_nouns(unit)
        texts = ("measure", "left_out", "brief", "hidden", "interval_note", "why", "reason", "hint")
        in_units: dict[str, Any] = {name: in_unit_nouns(getattr(self, name), unit, names) for name in texts}
        is_count = self.kind == "count" and [item.label for item in self.items] == ["users"]
        return replace(
            self,
            unit=unit,
            parts=tuple(part.in_units(unit, names) for part in self.parts),
            items=(replace(self.items[0], label=several),) if is_count else self.items,
            **in_units,
        )

    def columns(self) -> dict[str, list[Any]]:
        """Return the answer's items as columns by name, each a list with one cell for each item.

        - If each item has a single count, the columns are item, count, lower, upper and noisy. `noisy` is the exact
          count plus noise, which may be negative. `count` is the number to show, and lower and upper are the ends of
          its interval.
        - If items have statistics, the columns are item, and for each statistic NAME, NAME_lower and NAME_upper.
        - If there are several group columns, they take the place of item.

        The ends of an interval are None for a number without interval.
        """
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

    def _export_content(self) -> tuple[dict[str, list[Any]], Sequence[str], str]:
        return self.columns(), self.groups or ("item",), self.measure

    def unreliable_columns(self) -> list[list[str]]:
        """Return, for each row of the answer, the names of the statistics that are marked unreliable.

        The mark means that noise may be as large as the value.
        """
        if not self.statistics:
            return [["count"] * item.unreliable for item in self.items]
        return [
            [name for name, estimate in zip(self.statistics, item.estimates, strict=False) if estimate.unreliable]
            for item in self.items
        ]

    def plot(self, path: str | Path | None = None, *, title: str = "", groups: Sequence[str] = ()) -> "Picture":
        """Return a picture of the items as bars with their intervals, or as a line if their labels are times.

        Notebooks show the picture. Unless `path` is None, it is also written to the file `path` (.png or .svg). If
        `title` is empty, the title says what the numbers measure. `groups` has names for the group columns, to be shown
        at their axis; if it is empty, the answer's own names are shown.
        """
        from setwise.analytics.present.plot import Caption, plot_answer

        caption = Caption(title=title, groups=tuple(groups) or self.groups)
        return plot_answer(self, None if path is None else str(path), caption)

    @property
    def cost(self) -> tuple[float, float]:
        """The (epsilon, delta) of this answer by itself, which every text states as its cost and its promise.

        If an account pays and the question states an epsilon, it is `alone`, the cost at the question's own delta.
        Otherwise it is the upper end of `epsilon`, the certified interval for the cost, and `delta`.
        """
        return self.alone or (self.epsilon.upper, self.delta)

    @property
    def promise(self) -> str:
        """The privacy promise of this answer in plain words, for people who do not know what epsilon means."""
        return promise_in_words(*self.cost) if self.unit == "user" else promise_for_unit(self.unit, *self.cost)

    @property
    def guarantee(self) -> str:
        """The text of the privacy promise: an (epsilon, delta), whom it protects, and the theorem that it rests on."""
        protected = "everything one user has" if self.unit == "user" else f"each unit {self.unit!r} of a user"
        private = f"The answer is {promised_pair(*self.cost)}-differentially private for {protected} in the table"
        proof = (
            f"(no proof could promise less than {rounded_down(self.epsilon.lower, 4)}; {self.method}, "
            f"{shown_by(self.statement)})"
        )
        if self.alone is None:
            return f"{private}, {COVERS[self.interaction]} {proof}."
        counted = f"epsilon {rounded_up(self.epsilon.upper, 4)} at the account's delta of {rounded_up(self.delta, 3)}"
        return f"{private}. Its account counts it as {counted}, {COVERS[self.interaction]} {proof}."

    def _repr_html_(self) -> str:
        from setwise.analytics.present.html import answer_html

        return answer_html(self)


UNRELIABLE_MARK = " (unreliable)"
"""The text after a number that noise may dominate."""

_STORED_FIELDS = ("kind", "measure", "method", "statement", "reason", "why", "confidence")
"""The fields that a stored answer holds beside the keys of `to_dict`."""


def version_in(measure: str) -> str:
    """Return the table version that `measure` (the text that says what an answer counts) names; "" if it names none.

    >>> version_in("users; each user counts towards one group, others are left out; version 7 of the table")
    '7'
    """
    match = re.search(r"; version (\S+) of the table(?:;|$)", measure)
    return "" if match is None else match[1]


EARLIER_NOTE = (
    "Stored before intervals accounted for selection: those of items chosen by their noisy counts miss more often."
)


def _item(record: Mapping[str, Any], answer: Mapping[str, Any]) -> Item:
    """Return one item of a stored answer; `record` is its entry in the list `items` of the JSON object `answer`.

    Earlier versions stored counts that were fractions or negative. Such counts are rounded to whole numbers of at least
    0, and their intervals are widened to contain the rounded count.
    """
    label = record["item"]
    if answer.get("groups"):
        label = tuple(label[name] for name in answer["groups"])
    if answer.get("statistics"):
        estimates = tuple(
            Estimate(
                value=record[name]["value"],
                interval=_interval_pair(record[name].get("interval")),  # older answers store null
                unreliable=record[name].get("unreliable", False),
            )
            for name in answer["statistics"]
        )
        return Item(label=label, estimates=estimates)
    interval, count = _interval_pair(record["interval"]), record["count"]
    if isinstance(count, float):
        count = math.floor(count + 0.5)
    if count is not None:
        count = shown_count(count)
    pair = None if interval is None else (min(interval[0], count), max(interval[1], count))
    return Item(label=label, count=count, interval=pair, noisy=record.get("noisy"))


def _interval_pair(interval: Sequence[Any] | None) -> tuple[Any, Any] | None:
    if interval is None:
        return None
    if len(interval) != 2:
        raise InvalidParameter("a stored answer has an interval that is not a pair")
    return interval[0], interval[1]


_PIECE = 1000
"""The number of items that are written as JSON at a time."""


def _in_pieces(value: object) -> str:
    """Return the canonical JSON text of `value`; a list is encoded in pieces of 1,000 items (`_PIECE`), one by one.

    Other threads can run only between two pieces; one piece of 100,000 items would block a service for 0.2 s.
    """
    if not isinstance(value, list):
        return canonical(value)
    pieces = (canonical(value[begin : begin + _PIECE])[1:-1] for begin in range(0, len(value), _PIECE))
    return f"[{','.join(pieces)}]"


def _ends(lower: str, upper: str, intervals: Sequence[tuple[float, float] | None]) -> dict[str, list[Any]]:
    return {
        name: [None if interval is None else interval[place] for interval in intervals]
        for place, name in enumerate((lower, upper))
    }


def _arrow_kind(values: Sequence[Any], otherwise: "pyarrow.DataType") -> "pyarrow.DataType":
    """Return the Arrow type of a column with the given `values`: float if one is a float, else integer or text.

    If no value is a float, the first value that is not None decides. Returns `otherwise` if all values are None.
    """
    import pyarrow as pa

    if any(isinstance(value, float) for value in values):
        return pa.float64()
    first = next((value for value in values if value is not None), None)
    return otherwise if first is None else pa.int64() if isinstance(first, int) else pa.string()


def in_words(label: Label) -> str:
    """Return a group's `label` as text for people; the values of several group columns are separated by commas."""
    return ", ".join(map(str, label)) if isinstance(label, tuple) else str(label)


def number(value: float) -> str:
    """Return `value` as text for people.

    A whole number is written in full. Another number has four significant digits, but one decimal from 1,000 on.

    >>> number(1234567), number(12.0), number(1234.25), number(3.14159), number(2**60 + 1)
    ('1,234,567', '12', '1,234.2', '3.142', '1,152,921,504,606,846,977')
    """
    if isinstance(value, int):
        return f"{value:,}"
    if value.is_integer():
        return f"{value:,.0f}"
    return f"{value:,.1f}" if abs(value) >= 1000 else f"{value:.4g}"


def _describe_numbers(each: Item, statistics: Sequence[str]) -> str:
    if each.count is not None:
        return f": {_in_interval(each.count, each.interval)}{UNRELIABLE_MARK * each.unreliable}"
    numbers = ", ".join(
        f"{name} {_in_interval(estimate.value, estimate.interval)}{UNRELIABLE_MARK * estimate.unreliable}"
        for name, estimate in zip(statistics, each.estimates, strict=True)
    )
    return f": {numbers}" if numbers else ""


def _in_interval(value: float, interval: tuple[float, float] | None) -> str:
    return number(value) + ("" if interval is None else f" in [{number(interval[0])}, {number(interval[1])}]")
