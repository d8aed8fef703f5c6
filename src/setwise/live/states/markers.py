"""Private states in databases without transactions over several tables: an update becomes valid by one marker.

A private state stores which pairs of user and group a live series (noisy user counts by period) has counted, and the
noise. An update writes its pairs under a random attempt number. They are valid only if a marker names that attempt. A
marker is one record under the number of the update's first period, and has the attempt, the counts and the noise. A
marker appears whole or not at all, and is never replaced: the first attempt that writes the marker of a period wins.

Theorem: every number that is ever released contains the noise of a marker, and each pair of user and group is counted
at most once, whichever updates are killed or run at the same time. The comment below has the proof.
"""

# Proof. (1) The markers form one sequence. An update begins with the period after the last one that a marker covers.
# Only one marker can be written for a first period, so of two updates that start from the same markers only one adds a
# marker.
#
# (2) Whoever releases a period uses the noise of the same marker. Numbers are released after `count` has returned, so
# after the marker is durable. `count` returns the batch of a marker that this update has written, and `batches` returns
# the batches of markers.
#
# (3) An update that is killed loses nothing and repeats nothing. If it is killed before it has written its marker, it
# has released nothing: its noise was only in its memory, its pairs are ignored because no marker names them, and the
# next update draws new noise. If it is killed afterwards, its noise is stored, and the next update releases the same
# numbers.
#
# (4) Each pair is counted at most once. The pairs of an attempt are durable before the marker that names them, so a
# valid batch has all its pairs. The pairs of an update are selected against the attempts of all earlier markers, and by
# (1) no other marker comes between. QED.

import json
import uuid
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from setwise.live.states.base import Batch, SeriesState, StateUpdate, busy, text_candidates

if TYPE_CHECKING:
    import pyarrow as pa

TOKEN = -1
"""The number under which the token of the series is stored, among the markers, whose numbers are periods from 0 on."""


class MarkedState(SeriesState):
    """A private state in a database without transactions over several tables.

    A private state stores which users a live series has counted, and the noise. An update first stores its pairs of
    user and group under a random attempt number. Then it writes one record, the marker, which names the attempt number
    and makes the pairs valid. Without the marker, the pairs are ignored. Subclasses store pairs and markers.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def token(self) -> str | None:
        return self._markers().get(TOKEN)

    def create(self, token: str) -> None:
        self._prepare()
        self._write_marker(TOKEN, token)

    def batches(self) -> list[Batch]:
        return [batch for _, batch in self._valid_batches()]

    def count(self, candidates: "pa.Table", update: StateUpdate) -> Batch:
        rows, label_of = text_candidates(candidates)
        valid = self._valid_batches()
        if (valid[-1][1].until if valid else 0) != update.first:
            raise busy(self._name)
        attempt = uuid.uuid4().hex
        rows_of_pairs = self._store_pairs(rows, attempt, [number for number, _ in valid], update.contributions)
        counts = [(label_of(group), period, count) for group, period, count in rows_of_pairs]
        batch = update.batch(counts)
        if not self._write_marker(update.first, json.dumps({"attempt": attempt, "batch": batch.to_text()})):
            raise busy(self._name)
        return batch

    def _valid_batches(self) -> list[tuple[str, Batch]]:
        """Return (attempt number, batch) for each valid update, in the order of the updates' periods.

        An update stores its pairs of user and group under a random attempt number. The update is valid if a marker, a
        record that is written last, names its attempt number. A batch has the counts and noise of one update.
        """
        markers = sorted((number, text) for number, text in self._markers().items() if number != TOKEN)
        records = [json.loads(text) for _, text in markers]
        return [(record["attempt"], Batch.read(record["batch"])) for record in records]

    @abstractmethod
    def _prepare(self) -> None:
        """Create the places in which the private state is stored, tables or a folder, unless they exist.

        The state has counted pairs (a user and a group in which the user was counted) and markers. A marker is the
        record that makes one update valid.
        """

    @abstractmethod
    def _markers(self) -> dict[int, str]:
        """Return the text of every marker, keyed by the number (from 0) of the first period of its update.

        A marker is the record that makes one update valid. In addition, the key `TOKEN`, which is no period, has the
        text that identifies the state. The dict is empty if the state was not created yet.
        """

    @abstractmethod
    def _write_marker(self, number: int, text: str) -> bool:
        """Write `text` as the marker with this `number`, unless it exists; return whether this call wrote it.

        A marker is the record that makes one update valid. Its number is that of the update's first period (from 0).
        The number `TOKEN` stands for the text that identifies the state.

        Ensures: the marker is durable when this returns True, and no reader ever sees a part of it.
        """

    @abstractmethod
    def _store_pairs(
        self, candidates: "pa.Table", attempt: str, valid: Sequence[str], contributions: int
    ) -> list[tuple[str, int, int]]:
        """Store the pairs of user and group in `candidates` that are new, and return how many are new.

        The result has triples (group, period, number of new pairs of the group in this period); these numbers are what
        the live series counts. A pair is new if the user counts in the group, and no earlier, valid update has stored
        the pair.

        - `candidates` is an Arrow table of the pairs that were read, with their days and periods.
        - `attempt` is the random number of this update, under which the new pairs are stored. The update becomes valid
          only when a marker, a record that is written last, names this number.
        - `valid` are the numbers of all updates that are valid already. Pairs under other numbers are left over from
          interrupted updates, and are ignored.
        - `contributions` is the most groups in which one user counts. They are filled first by the groups in which the
          user was counted before, and then by new groups in the order of days.

        Ensures: the pairs are durable when this returns.
        """
