"""The private state of a live series: which pairs of user and group were counted, and the noise of every release.

A live series is a set of noisy user counts that is charged once and released period by period. The state belongs to the
data holder. It is as private as the table: it never enters the ledger or an answer. Its pairs keep a user from being
counted twice, and its noise lets an update that was stopped release the same numbers again.
"""

import base64
import json
import secrets
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
"""The error message for a series that cannot continue.

Its state cannot be rebuilt from a table that may have changed.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The exact counts of new users, and the noise, that one update stored for the periods `first` to `until` - 1.

    A new user of a group is one who was not counted in this group before.

    - `labels` are the groups that no earlier batch has.
    - `counts` and `noise` have a row for each group known so far and a column for each period of the batch. The rows of
      the groups in `labels` come last.
    - `earlier` has a row for each group in `labels` and a column for each period before the batch. It is noise for
      these earlier periods, because a group that is shown for the first time gets a noisy value for every earlier
      period too.
    - `mark` is a random text that every release from the batch repeats. If the state is copied and both copies are
      updated, their releases differ at least in the mark, so that the ledger notices. It is "" in states of earlier
      versions.
    """

    first: int
    until: int
    labels: tuple[str | int, ...]
    counts: NDArray[np.int64]
    noise: NDArray[np.int64]
    earlier: NDArray[np.int64]
    # If a private state is copied and both copies are updated, their noise differs; the marks tell their releases
    # apart.
    mark: str = ""

    def to_text(self) -> str:
        """Return this batch (the counts and noise of some periods) as JSON text, which every database can store."""
        arrays = {name: _pack(getattr(self, name)) for name in ("counts", "noise", "earlier")}
        return json.dumps(
            {"first": self.first, "until": self.until, "labels": self.labels, "mark": self.mark, **arrays}
        )

    @classmethod
    def read(cls, text: str) -> "Batch":
        """Return the batch (the counts and noise of some periods) from JSON text that `to_text` returned."""
        record: dict[str, Any] = json.loads(text)
        arrays = {name: _unpack(record[name]) for name in ("counts", "noise", "earlier")}
        return cls(
            first=record["first"],
            until=record["until"],
            labels=tuple(record["labels"]),
            mark=record.get("mark", ""),
            **arrays,
        )


def _pack(array: NDArray[np.int64]) -> dict[str, Any]:
    """Return an integer array as a JSON object: its shape, and its compressed bytes in base64."""
    bytes_ = zlib.compress(np.ascontiguousarray(array, dtype="<i8").tobytes(), 1)
    return {"shape": array.shape, "data": base64.b64encode(bytes_).decode()}


def _unpack(packed: dict[str, Any]) -> NDArray[np.int64]:
    """Return the integer array from `packed`, a JSON object that `_pack` returned."""
    raw = zlib.decompress(base64.b64decode(packed["data"]))
    return np.frombuffer(raw, dtype="<i8").astype(np.int64).reshape(packed["shape"])


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The exact counts of new users and the noise that all updates of a live series stored; both are private.

    A new user of a group is one who was not counted in this group before.

    - `labels` are the groups.
    - `counts` and `noise` have a row for each group and a column for each period.
    - `marks` has, for each period, the random text that identifies the update that counted it (`Batch.mark`).
    """

    labels: tuple[str | int, ...]
    counts: NDArray[np.int64]
    noise: NDArray[np.int64]
    marks: tuple[str, ...]

    @property
    def periods(self) -> int:
        """The number of periods of the live series whose new users were counted so far: the columns of `counts`."""
        return int(self.counts.shape[1])


def join_batches(batches: Iterable[Batch]) -> History:
    """Return the counts and noise that all updates of a live series stored, joined from their `batches`.

    A live series is a set of noisy user counts; each update counts some periods and stores one batch. `batches` are in
    the order of the periods, without gaps.
    """
    batch_list = list(batches)
    labels = tuple(label for batch in batch_list for label in batch.labels)
    periods = batch_list[-1].until if batch_list else 0
    counts = np.zeros((len(labels), periods), dtype=np.int64)
    noise = np.zeros((len(labels), periods), dtype=np.int64)
    known = 0
    for batch in batch_list:
        new, known = known, known + len(batch.labels)
        counts[:known, batch.first : batch.until] = batch.counts
        noise[:known, batch.first : batch.until] = batch.noise
        noise[new:known, : batch.first] = batch.earlier
    marks = tuple(batch.mark for batch in batch_list for _ in range(batch.first, batch.until))
    return History(labels=labels, counts=counts, noise=noise, marks=marks)


Draw = Callable[[int], NDArray[np.int64]]
"""A function that returns the given number of independent noise values for the series."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateUpdate:
    """One update of a private state: it counts the periods `first` to `until` - 1 of a live series, with fresh noise.

    - `contributions` is the most groups in which one user counts. Groups in which the user was counted before come
      first, then new groups in the order of days; further groups are left out.
    - `before` has the counts and noise of the earlier periods.
    - `draw(n)` returns n independent noise values as integers. They are stored as they are; their unit is a fraction of
      a user (2^-bits) that the series' noise mechanism chose.
    - `public` are the public groups. The first batch has all of them, also those without users, because all public
      groups are shown.
    """

    contributions: int
    first: int
    until: int
    before: History
    draw: Draw
    public: Sequence[str | int] = ()

    def batch(self, pair_counts: Sequence[tuple[str | int, int, int]]) -> Batch:
        """Return what this update stores in the private state: the counts in `pair_counts`, and fresh noise.

        `pair_counts` lists (group, period, number of new users). A new user is one who was not counted in the group
        before.
        """
        first, until, before = self.first, self.until, self.before
        listed = () if before.labels else tuple(self.public)
        known = {*before.labels, *listed}
        added = (*listed, *sorted({label for label, _, _ in pair_counts if label not in known}, key=str))
        places = {label: place for place, label in enumerate((*before.labels, *added))}
        counts = np.zeros((len(places), until - first), dtype=np.int64)
        for label, period, count in pair_counts:
            counts[places[label], period - first] = count
        noise = self.draw(counts.size).reshape(counts.shape)
        # Noise of a new group for earlier periods can be drawn this late, because noise is independent of the data and
        # no number of the group was shown before.
        earlier = self.draw(len(added) * first).reshape(len(added), first)
        mark = secrets.token_hex(16)
        return Batch(first=first, until=until, labels=added, counts=counts, noise=noise, earlier=earlier, mark=mark)


class SeriesState(ABC):
    """The private state of one live series (counted pairs of user and group, and noise), stored in one database.

    A live series releases noisy user counts period by period. Every method that writes is one transaction.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def token(self) -> str | None:
        """Return the random token that identifies this private state; None if no state exists.

        A private state stores which users a live series has counted, and the noise.
        """

    @abstractmethod
    def create(self, token: str) -> None:
        """Create an empty private state, identified by the random text `token`; do nothing if a state exists.

        A private state stores which users a live series has counted, and the noise.
        """

    @abstractmethod
    def batches(self) -> list[Batch]:
        """Return the batches of the series so far, in order; each has the counts and noise that one update stored."""

    @abstractmethod
    def count(self, candidates: "pa.Table", update: StateUpdate) -> Batch:
        """Count the pairs of user and group in `candidates` that were not counted before; store and return the counts.

        `candidates` has the columns u (the user, as text), g (the group), day and period. `update` says which periods
        are counted, and makes the noise.

        Ensures: the whole call is one transaction. When it returns, the pairs and the batch are durable; when it
        raises, neither is stored.
        """

    @abstractmethod
    def destroy(self) -> None:
        """Delete the private state of the live series (its counted users, and the noise) for good."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections to the database that stores the private state of the series.

        The private state has the counted users and the noise; it stays as it is.
        """


SELECTION = """
    SELECT u, g, period FROM (
        SELECT fresh.u, fresh.g, fresh.period, COALESCE(counted.n, 0)
            + ROW_NUMBER() OVER (PARTITION BY fresh.u ORDER BY fresh.day, {order}) AS place
        FROM (
            SELECT c.u, c.g, MIN(c.day) AS day, MIN(c.period) AS period FROM {candidates} AS c
            {unseen} GROUP BY c.u, c.g
        ) AS fresh
        LEFT JOIN (
            SELECT p.u, COUNT(*) AS n FROM {pairs} AS p WHERE p.u IN (SELECT u FROM {candidates}) GROUP BY p.u
        ) AS counted ON counted.u = fresh.u
    ) AS ranked WHERE place <= {contributions}
"""
"""SQL text that selects the new pairs: not counted before, and among the first `contributions` groups of their user.

Groups of one day are ordered by a hash that includes the token of the series, so that no label is preferred. Which
groups a user keeps depends only on that user's own rows; the sensitivity bound relies on this. `unseen` leaves out the
candidates c that were counted before.
"""

UNSEEN = "WHERE NOT EXISTS (SELECT 1 FROM {pairs} AS p WHERE p.u = c.u AND p.g = c.g)"
"""SQL text for `unseen` in `SELECTION`, for databases with correlated subqueries."""


def text_candidates(candidates: "pa.Table") -> "tuple[pa.Table, Callable[[str], str | int]]":
    """Return `candidates` with its group column as text, and a function that turns these texts back into labels.

    `candidates` is an Arrow table of pairs of user and group that may be counted. Private states store every group as
    text, so the function restores what the caller expects: integers if the column had integers, and otherwise the
    texts.
    """
    import pyarrow as pa

    groups = candidates.column("g")
    reader: Callable[[str], str | int] = int if pa.types.is_integer(groups.type) else str
    place = candidates.schema.get_field_index("g")
    return candidates.set_column(place, "g", groups.cast(pa.string())), reader


def busy(name: str) -> EngineFailed:
    """Return the `EngineFailed` error to raise if another process is updating the series `name`."""
    return EngineFailed(f"another update of the series {name!r} is running; try again when it is done")
