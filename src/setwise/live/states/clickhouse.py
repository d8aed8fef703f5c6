"""The private state of a live series (counted users and noise) in tables of the ClickHouse database with the data.

A live series is a set of noisy user counts that is charged once and released period by period. ClickHouse has no
transactions over several tables, so updates become valid by markers (`markers.py`). A marker is one row, which
ClickHouse inserts as a whole. Every insertion of a marker has a deduplication token with the number of the marker:
ClickHouse ignores a second insertion with the same token. So the first one wins, and reading the row back tells whose
it was. Rows are synced to disk before an insertion returns.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from setwise.errors import MissingExtra
from setwise.live.states.base import SELECTION
from setwise.live.states.markers import TOKEN, MarkedState
from setwise.mechanisms.running_totals import MOST_PERIODS

try:
    from setwise.analytics.engines.clickhouse.connection import ClickHouseConnection, Columns
except ImportError:  # pragma: no cover - tests install clickhouse-connect
    raise MissingExtra("ClickHouse needs clickhouse-connect: pip install 'setwise[clickhouse]'") from None

if TYPE_CHECKING:
    import pyarrow as pa

_REMEMBERED = 2 * MOST_PERIODS
"""Insertions whose deduplication tokens ClickHouse keeps; a series has a marker for each period and one more."""

_DURABLE = "fsync_after_insert = 1, fsync_part_directory = 1"
"""Settings of a table with which an insertion returns only after its rows are on disk."""

_UNSEEN = "LEFT ANTI JOIN {pairs} AS p ON p.u = c.u AND p.g = c.g"
"""SQL text that leaves out the candidates that were counted; ClickHouse has no correlated NOT EXISTS."""

_PIECE = 50_000
"""Candidates in one insertion, so that the text of an insertion has a few megabytes."""


class ClickHouseState(MarkedState):
    """The private state (counted users and noise) of one live series in two tables of the ClickHouse database at `url`.

    A digest of the series' `name` is part of the tables' names. Anybody who may read the whole database may read the
    two tables.
    """

    def __init__(self, url: str, name: str) -> None:
        super().__init__(name)
        self._url = url
        self._opened: ClickHouseConnection | None = None
        prefix = f"setwise_live_{hashlib.sha256(name.encode()).hexdigest()[:16]}"
        self._prefix, self._pairs, self._marked = prefix, f"{prefix}_pairs", f"{prefix}_markers"

    def destroy(self) -> None:
        for table in self._tables():
            self._connection.command(f"DROP TABLE IF EXISTS {table} SYNC")

    def close(self) -> None:
        connection, self._opened = self._opened, None
        if connection is not None:
            connection.close()

    def _prepare(self) -> None:
        self._connection.command(
            f"CREATE TABLE IF NOT EXISTS {self._pairs} (attempt String, u String, g String, period Int32) "
            f"ENGINE = MergeTree ORDER BY (u, g) SETTINGS {_DURABLE}"
        )
        self._connection.command(
            f"CREATE TABLE IF NOT EXISTS {self._marked} (number Int32, body String) ENGINE = MergeTree ORDER BY number "
            f"SETTINGS non_replicated_deduplication_window = {_REMEMBERED}, {_DURABLE}"
        )

    def _markers(self) -> dict[int, str]:
        if self._marked not in self._tables():
            return {}
        rows = self._ask(f"SELECT number, body FROM {self._marked} ORDER BY number")
        return {int(number): str(body) for number, body in zip(rows["number"], rows["body"], strict=True)}

    def _write_marker(self, number: int, text: str) -> bool:
        record = json.dumps({"number": number, "body": text})
        self._connection.insert_json(self._marked, ["number", "body"], [record], token=f"marker {number}")
        return self._markers().get(number) == text

    def _store_pairs(
        self, candidates: "pa.Table", attempt: str, valid: Sequence[str], contributions: int
    ) -> list[tuple[str, int, int]]:
        columns = ["u", "g", "day", "period"]
        scratch = f"{self._prefix}_new_{attempt}"
        counted = f"(SELECT u, g FROM {self._pairs} WHERE attempt IN ({_texts(valid)}))"
        new = SELECTION.format(
            candidates=scratch,
            pairs=counted,
            unseen=_UNSEEN.format(pairs=counted),
            order=f"MD5(concat((SELECT any(body) FROM {self._marked} WHERE number = {TOKEN}), "
            "fresh.u, char(10), fresh.g))",
            contributions=int(contributions),
        )
        self._connection.command(
            f"CREATE TABLE {scratch} (u String, g String, day String, period Int32) ENGINE = MergeTree ORDER BY u"
        )
        try:
            for piece in candidates.select(columns).to_batches(max_chunksize=_PIECE):
                if piece.num_rows:
                    self._connection.insert_json(scratch, columns, [json.dumps(row) for row in piece.to_pylist()])
            self._ask(
                f"INSERT INTO {self._pairs} (attempt, u, g, period) "
                f"SELECT '{attempt}', n.u, n.g, n.period FROM ({new}) AS n"
            )
        finally:
            self._connection.command(f"DROP TABLE IF EXISTS {scratch} SYNC")
        rows = self._ask(
            f"SELECT g, period, COUNT(*) AS n FROM {self._pairs} WHERE attempt = '{attempt}' GROUP BY g, period"
        )
        triples = zip(rows.get("g", ()), rows.get("period", ()), rows.get("n", ()), strict=True)
        return [(str(group), int(period), int(count)) for group, period, count in triples]

    @property
    def _connection(self) -> ClickHouseConnection:
        """The connection to ClickHouse, which is opened when it is first needed."""
        if self._opened is None:
            self._opened = ClickHouseConnection(self._url)
        return self._opened

    def _ask(self, statement: str) -> Columns:
        """Run a SQL `statement` and return its result as columns by name.

        The statement is sent with fixed settings, so that the settings of the database login do not change the result.
        """
        return self._connection.ask(statement, {}, "setwise live")

    def _tables(self) -> list[str]:
        """Return the names of this series' tables that exist, including tables that an interrupted update has left."""
        rows = self._ask(
            f"SELECT name FROM system.tables WHERE database = currentDatabase() AND startsWith(name, '{self._prefix}_')"
        )
        return [str(name) for name in rows.get("name", ())]


def _texts(values: Sequence[str]) -> str:
    """Return `values`, attempt numbers of updates in hexadecimal, as a comma-separated list of SQL text literals.

    The list goes into the SQL text IN (...), which needs at least one value. If `values` is empty, the list has only
    the empty text, which equals no attempt number.
    """
    return ", ".join(f"'{value}'" for value in values) or "''"
