"""The private state of a series: which pairs of user and group were counted, and the noise of every release.

The state belongs to the data holder. It is as private as the table: it never enters the ledger or an answer. Its pairs
keep a user from being counted twice, and its noise lets an update that was stopped release the same numbers again.
"""

import base64
import json
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from setwise.errors import EngineFailed

if TYPE_CHECKING:
    import pyarrow as pa

LOST = (
    "the state of the series {name!r} is lost or older than its releases, so that users would be counted twice: the "
    "series ends here; what was released stays, and setwise live show shows it"
)
"""What is said when a series cannot go on. The state cannot be rebuilt from a table that may have changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Periods first to until - 1 of a series, counted together: new users, and noise, of every group known by then.

    `labels` are the groups that are new in this batch; they follow those of earlier batches. `counts` and `noise` have
    a row for each group known by then and a column for each period of the batch. `earlier` is the noise of the new
    groups in the periods before the batch.
    """

    first: int
    until: int
    labels: tuple[str | int, ...]
    counts: NDArray[np.int64]
    noise: NDArray[np.int64]
    earlier: NDArray[np.int64]

    def written(self) -> str:
        """Return the batch as text that every database can hold."""
        arrays = {name: _packed(getattr(self, name)) for name in ("counts", "noise", "earlier")}
        return json.dumps({"first": self.first, "until": self.until, "labels": self.labels, **arrays})

    @classmethod
    def read(cls, text: str) -> "Batch":
        """Return the batch that `written` wrote."""
        found: dict[str, Any] = json.loads(text)
        arrays = {name: _unpacked(found[name]) for name in ("counts", "noise", "earlier")}
        return cls(first=found["first"], until=found["until"], labels=tuple(found["labels"]), **arrays)


def _packed(array: NDArray[np.int64]) -> dict[str, Any]:
    bytes_ = zlib.compress(np.ascontiguousarray(array, dtype="<i8").tobytes(), 1)
    return {"shape": array.shape, "data": base64.b64encode(bytes_).decode()}


def _unpacked(written: dict[str, Any]) -> NDArray[np.int64]:
    raw = zlib.decompress(base64.b64decode(written["data"]))
    return np.frombuffer(raw, dtype="<i8").astype(np.int64).reshape(written["shape"])


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """All batches of a series together: groups in rows, periods in columns."""

    labels: tuple[str | int, ...]
    counts: NDArray[np.int64]
    noise: NDArray[np.int64]

    @property
    def periods(self) -> int:
        """How many periods were counted."""
        return int(self.counts.shape[1])


def joined(batches: Iterable[Batch]) -> History:
    """Return the history that batches, in order, make up."""
    every = list(batches)
    labels = tuple(label for batch in every for label in batch.labels)
    periods = every[-1].until if every else 0
    counts = np.zeros((len(labels), periods), dtype=np.int64)
    noise = np.zeros((len(labels), periods), dtype=np.int64)
    known = 0
    for batch in every:
        new, known = known, known + len(batch.labels)
        counts[:known, batch.first : batch.until] = batch.counts
        noise[:known, batch.first : batch.until] = batch.noise
        noise[new:known, : batch.first] = batch.earlier
    return History(labels=labels, counts=counts, noise=noise)


Draw = Callable[[int], NDArray[np.int64]]
"""Draws that many independent noises of the series."""


def counted_batch(
    before: History,
    found: Sequence[tuple[str | int, int, int]],
    first: int,
    until: int,
    draw: Draw,
    public: Sequence[str | int] = (),
) -> Batch:
    """Return the batch of periods first to until - 1 with noise for every group; `found` has group, period and count.

    `public` are groups that belong to the first batch whether anybody has them or not.

    Noise is independent of the data, so that a group which appears for the first time gets that of all earlier periods
    now: nothing of it was shown, and whether it was drawn before makes no difference.
    """
    listed = () if before.labels else tuple(public)
    known = {*before.labels, *listed}
    added = (*listed, *sorted({label for label, _, _ in found if label not in known}, key=str))
    places = {label: place for place, label in enumerate((*before.labels, *added))}
    counts = np.zeros((len(places), until - first), dtype=np.int64)
    for label, period, count in found:
        counts[places[label], period - first] = count
    noise = draw(counts.size).reshape(counts.shape)
    earlier = draw(len(added) * first).reshape(len(added), first)
    return Batch(first=first, until=until, labels=added, counts=counts, noise=noise, earlier=earlier)


class SeriesState(ABC):
    """The state of one series in one database; every method that writes is one transaction."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def token(self) -> str | None:
        """Return the token that ties the state to the charge of its series; None where there is no state."""

    @abstractmethod
    def create(self, token: str) -> None:
        """Make an empty state; the token of one that is there stays."""

    @abstractmethod
    def batches(self) -> list[Batch]:
        """Return what was counted, in order."""

    @abstractmethod
    def count(
        self,
        candidates: "pa.Table",
        *,
        contributions: int,
        first: int,
        until: int,
        before: History,
        draw: Draw,
        public: Sequence[str | int],
    ) -> Batch:
        """Count the pairs of `candidates` that were not counted before, and store the batch, in one transaction.

        `candidates` has the columns u (text), g (the group), day and period. Of each user the first `contributions`
        groups in order of days are kept, those counted before included. `public` are groups that belong to the first
        batch whether anybody has them or not.

        Ensures: when this returns, the pairs and the batch are durable; when it raises, neither is there.
        """

    @abstractmethod
    def destroy(self) -> None:
        """Remove the state for good."""

    @abstractmethod
    def close(self) -> None:
        """Let go of connections."""


SELECTION = """
    SELECT u, g, period FROM (
        SELECT fresh.u, fresh.g, fresh.period, COALESCE(counted.n, 0)
            + ROW_NUMBER() OVER (PARTITION BY fresh.u ORDER BY fresh.day, {order}) AS place
        FROM (
            SELECT c.u, c.g, MIN(c.day) AS day, MIN(c.period) AS period FROM {candidates} AS c
            WHERE NOT EXISTS (SELECT 1 FROM {pairs} AS p WHERE p.u = c.u AND p.g = c.g) GROUP BY c.u, c.g
        ) AS fresh
        LEFT JOIN (
            SELECT p.u, COUNT(*) AS n FROM {pairs} AS p WHERE p.u IN (SELECT u FROM {candidates}) GROUP BY p.u
        ) AS counted ON counted.u = fresh.u
    ) AS ranked WHERE place <= {contributions}
"""
"""The pairs that are new: not counted before, and among the first `contributions` groups of their user.

Groups of one day are taken in the order of a hash with the token of the series, so that no label is preferred. Which
groups a user keeps depends on that user's own rows alone, which the sensitivity rests on.
"""


def text_candidates(candidates: "pa.Table") -> "tuple[pa.Table, Callable[[str], str | int]]":
    """Return the candidates with groups as text, and what turns the text of a group back into its label."""
    import pyarrow as pa

    groups = candidates.column("g")
    reader: Callable[[str], str | int] = int if pa.types.is_integer(groups.type) else str
    place = candidates.schema.get_field_index("g")
    return candidates.set_column(place, "g", groups.cast(pa.string())), reader


def busy(name: str) -> EngineFailed:
    """Return the error of a state that another process has open."""
    return EngineFailed(f"another update of the series {name!r} is running; try again when it is done")
