"""What a question gets: items with intervals, what was spent, and what is promised."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from setwise.accounting.answer import Interaction
from setwise.accounting.guarantees import Use
from setwise.accounting.intervals import Bracket
from setwise.accounting.notation import format_use, parse_use, rounded_up
from setwise.analytics.query import canonical
from setwise.errors import InvalidParameter, MissingExtra
from setwise.mechanisms.labels import Label

if TYPE_CHECKING:
    import pandas  # type: ignore[import-untyped]
    import polars
    import pyarrow


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerItem:
    """One item; with counts, the whole number to report, an interval around it, and the noisy count as it was drawn.

    `noisy` may be negative and is unbiased before selection: add up these.
    """

    item: Label
    count: int | None = None
    interval: tuple[int, int] | None = None
    noisy: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateAnswer:
    """A private answer. It shows as a table in a notebook and converts to Arrow, pandas and Polars.

    `epsilon` brackets what this question is promised to cost at most, at `delta`; `spent` lists the uses it really
    made. `complete` says whether all that was asked for is there, and `reason` why the list ends where it does.
    `why` says how the mechanism was chosen. `interval_note` says what the intervals promise at `confidence`, and why
    some reach further than others. `alone` is the (epsilon, delta) of this answer by itself, where an account states
    its promises at another delta. `replayed` says that the answer was stored before and nothing was charged for it now.
    """

    kind: str
    measure: str
    items: tuple[AnswerItem, ...]
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
    alone: tuple[float, float] | None = None
    replayed: bool = field(default=False, compare=False)

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[AnswerItem]:
        return iter(self.items)

    def __str__(self) -> str:
        lines = [
            str(each.item)
            if each.interval is None or each.count is None
            else f"{each.item}: {each.count:,} in [{each.interval[0]:,}, {each.interval[1]:,}]"
            for each in self.items
        ]
        return "\n".join([*lines, f"({self.reason}; epsilon {rounded_up(self.epsilon.upper)} at delta {self.delta:g})"])

    @property
    def labels(self) -> tuple[Label, ...]:
        """The items, highest first."""
        return tuple(each.item for each in self.items)

    def to_dict(self) -> dict[str, object]:
        """Return the object that `--json` prints: a contract."""
        return {
            "items": [
                {
                    "item": each.item,
                    "count": each.count,
                    "interval": None if each.interval is None else [*each.interval],
                    "noisy": each.noisy,
                }
                for each in self.items
            ],
            "mechanism": self.mechanism,
            "interaction": str(self.interaction),
            "epsilon": {"lower": self.epsilon.lower, "upper": self.epsilon.upper},
            "delta": self.delta,
            "spent": [format_use(use) for use in self.spent],
            "complete": self.complete,
            "interval_note": self.interval_note,
        }

    def to_json(self) -> str:
        """Return the contract as JSON text."""
        return json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)

    def stored(self) -> str:
        """Return the text a ledger keeps: everything, so that a replay is the same answer."""
        more = {name: getattr(self, name) for name in _BESIDE_THE_CONTRACT}
        alone = {} if self.alone is None else {"alone": [*self.alone]}
        return canonical({**self.to_dict(), **more, **alone})

    @classmethod
    def from_stored(cls, text: str) -> "PrivateAnswer":
        """Return the answer that `stored` wrote."""
        found = json.loads(text)
        return cls(
            items=tuple(_item(each) for each in found["items"]),
            mechanism=found["mechanism"],
            interaction=Interaction.parse(found["interaction"]),
            epsilon=Bracket(found["epsilon"]["lower"], found["epsilon"]["upper"]),
            delta=found["delta"],
            spent=tuple(parse_use(use) for use in found["spent"]),
            complete=found["complete"],
            interval_note=found.get("interval_note", _EARLIER_NOTE),
            alone=None if found.get("alone") is None else (found["alone"][0], found["alone"][1]),
            **{name: found[name] for name in _BESIDE_THE_CONTRACT},
        )

    def columns(self) -> dict[str, list[Any]]:
        """Return the items as columns: item, count, lower, upper, noisy."""
        return {
            "item": [each.item for each in self.items],
            "count": [each.count for each in self.items],
            "lower": [None if each.interval is None else each.interval[0] for each in self.items],
            "upper": [None if each.interval is None else each.interval[1] for each in self.items],
            "noisy": [each.noisy for each in self.items],
        }

    def to_arrow(self) -> "pyarrow.Table":
        """Return the items as an Arrow table with columns item, count, lower, upper, noisy."""
        import pyarrow as pa

        columns = self.columns()
        items = pa.int64() if columns["item"] and isinstance(columns["item"][0], int) else pa.string()
        kinds = {name: items if name == "item" else pa.int64() for name in columns}
        return pa.table({name: pa.array(columns[name], kind) for name, kind in kinds.items()})

    def to_pandas(self) -> "pandas.DataFrame":
        """Return the items as a pandas frame."""
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtra("pandas is not installed: pip install 'setwise[frames]'") from None
        return pd.DataFrame(self.to_arrow().to_pandas())

    def to_polars(self) -> "polars.DataFrame":
        """Return the items as a Polars frame."""
        try:
            import polars as pl
        except ImportError:
            raise MissingExtra("Polars is not installed: pip install 'setwise[frames]'") from None
        frame = pl.from_arrow(self.to_arrow())
        assert isinstance(frame, pl.DataFrame)
        return frame

    def to_csv(self) -> str:
        """Return the items as CSV text with a heading."""
        import csv
        import io

        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        columns = self.columns()
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
        return text.getvalue()

    def plot(self, path: str) -> None:
        """Draw the items as bars with their intervals into a .png or .svg file."""
        from setwise.analytics.present.plot import plot_answer

        plot_answer(self, path)

    @property
    def guarantee(self) -> str:
        """The promise as a sentence or two that a person can check."""
        alone = "" if self.alone is None else f" By itself it is {_pair(*self.alone)}-differentially private."
        return (
            f"Whether any one user is in the table or not, this answer is {_pair(self.epsilon.upper, self.delta)}-"
            f"differentially private, {_COVERS[self.interaction]} (no proof could promise less than "
            f"{self.epsilon.lower:.4g}; {self.method}, {self.statement}).{alone}"
        )

    def _repr_html_(self) -> str:
        from setwise.analytics.present.html import answer_html

        return answer_html(self)


_BESIDE_THE_CONTRACT = ("kind", "measure", "method", "statement", "reason", "why", "confidence")


_EARLIER_NOTE = (
    "Stored before intervals accounted for selection: those of items chosen by their noisy counts miss more often."
)


def _item(found: Mapping[str, Any]) -> AnswerItem:
    """Return a stored item; a count stored before all were whole and none negative becomes so, in its interval."""
    interval, count = found["interval"], found["count"]
    if interval is not None and len(interval) != 2:
        raise InvalidParameter("a stored answer has an interval that is not a pair")
    if isinstance(count, float):
        count = math.floor(count + 0.5)
    if count is not None:
        count = max(0, count)
    pair = None if interval is None else (min(interval[0], count), max(interval[1], count))
    return AnswerItem(item=found["item"], count=count, interval=pair, noisy=found.get("noisy"))


_COVERS = {
    Interaction.BATCH: "whatever else was chosen up front",
    Interaction.ORDERED: "parameters in a fixed order",
    Interaction.SETWISE: "within a budget fixed before any answer was seen",
    Interaction.ADAPTIVE: "within an account whose questions and parameters are chosen on the fly",
}


def _pair(epsilon: float, delta: float) -> str:
    return f"({rounded_up(epsilon, 4)}, {rounded_up(delta, 3)})"
