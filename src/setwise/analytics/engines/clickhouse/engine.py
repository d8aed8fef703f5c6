"""ClickHouse: a table of a server, or of a chDB folder read inside this process, bounded and counted there."""

import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Any, Self

import numpy as np

from setwise.analytics.engines.base import Aggregation, check_suitable, label_kind, without_driver_error
from setwise.analytics.engines.bounding import Parameters, SaltSource, StatementBuilder, label_columns
from setwise.analytics.engines.clickhouse.dialect import ClickHouseDialect
from setwise.analytics.engines.clickhouse.settings import CHANGED, settings_clause
from setwise.analytics.engines.prepared import Manifest
from setwise.analytics.engines.results import domain_rows, group_table, joined_labels
from setwise.analytics.schema import Schema
from setwise.errors import EngineFailed, MissingExtra, UnsuitableTable
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.labels import Cell
from setwise.mechanisms.statistics import GroupTable

try:
    from clickhouse_connect.driver.exceptions import ClickHouseError
except ImportError:  # pragma: no cover - said in one sentence instead
    raise MissingExtra("ClickHouse needs clickhouse-connect: pip install 'setwise[clickhouse]'") from None

from setwise.analytics.engines.clickhouse.connection import UNREACHABLE, connected
from setwise.analytics.engines.clickhouse.prepared import check_replaceable, storing
from setwise.analytics.engines.clickhouse.tables import ClickHouseSource, ClickHouseTable, Columns

_SERVER_SALT = "assumeNotNull((SELECT rand64()))"
"""A salt that the server draws itself, once for a statement, so that no log of statements can hold it."""

_KILL = "KILL QUERY WHERE user = currentUser() AND Settings['log_comment'] = {comment:String} ASYNC"

_CHUNK = 50_000
"""Characters of a domain in one parameter; a server takes no more than 131,072 bytes."""

_CANCELLED, _DENIED, _READ_ONLY, _CONSTRAINED = 394, 497, 164, 452
"""Codes of ClickHouse's errors."""


class ClickHouseEngine:
    """A table of ClickHouse, or a join; `source` is the name of a table or view, or a join of several.

    `salts` is for tests: without it the server draws the salt.
    """

    @without_driver_error
    def __init__(self, url: str, source: str | ClickHouseSource, *, salts: SaltSource | None = None) -> None:
        self._url = url
        self._source = ClickHouseTable(source) if isinstance(source, str) else source
        self._salts = salts
        self._running: set[str] = set()
        self._lock = threading.Lock()
        with _failures(UNREACHABLE[url.partition(":")[0]]):
            self._client = connected(url)
        try:
            self._relation = self._source.found(self._asked)
        except BaseException:
            self.close()
            raise

    def describe(self) -> Schema:
        """Return the columns and their kinds, from the catalogue."""
        return self._relation.schema if self._manifest is None else self._manifest.schema()

    def rows(self) -> int | None:
        """Return how many rows there are, where the table knows."""
        return self._relation.rows

    @without_driver_error
    def check(self, aggregation: Aggregation) -> None:
        """Raise what metadata tells is wrong with an aggregation."""
        if self._manifest is None:
            check_suitable(aggregation, self._relation.schema)
            return
        self._manifest.check(aggregation)
        _, fingerprint = ClickHouseTable(self._manifest.origin).origin(self._asked)
        self._manifest.check_fresh(fingerprint)

    @without_driver_error
    def histogram(self, aggregation: Aggregation) -> Histogram:
        """Return every positive group with its exact bounded count."""
        return self._run(aggregation, None)

    @without_driver_error
    def top(self, aggregation: Aggregation, most: int) -> Histogram:
        """Return the `most` highest groups, highest first; equal counts by label in code point order."""
        return self._run(aggregation, most)

    @without_driver_error
    def statistics(self, aggregation: Aggregation) -> GroupTable:
        """Return the exact measures of every group."""
        self.check(aggregation)
        builder = self._builder()
        rows = builder.rows(aggregation, self._in_domain(aggregation, builder, builder.labels(aggregation)))
        salt = None if aggregation.items_kept_per_user is None else self._salt(builder)
        found = self._asked(builder.statistics(aggregation, rows, salt), builder.parameters.values)
        names = ["cell", "measure", "users"]
        for place, measure in enumerate(aggregation.measures):
            names += [] if measure.in_cells else [f"s{place}", f"n{place}"]
        columns = {name: np.array(found.get(name, ()), dtype=np.int64) for name in names}
        return group_table(_labels(found, aggregation.label_width), columns, aggregation)

    @without_driver_error
    def origin(self) -> tuple[str, str]:
        """Return the table's name and the fingerprint of its parts."""
        if self._manifest is not None:
            raise UnsuitableTable("a prepared dataset cannot be prepared again: prepare its source")
        return self._source.origin(self._asked)

    @without_driver_error
    def store(self, aggregation: Aggregation, manifest: Manifest, destination: str) -> None:
        """Write a table with the ranked contributions, and the manifest as its comment."""
        check_suitable(aggregation, self._relation.schema)
        builder = self._builder()
        pairs = builder.pairs(aggregation, builder.rows(aggregation))
        prepared = builder.prepared(builder.ranked(aggregation, pairs, self._salt(builder)))
        table = ClickHouseTable(destination)
        check_replaceable(destination, table.comment(self._asked))
        self._asked(storing(table.text, prepared, manifest), builder.parameters.values)

    def cancel(self) -> None:
        """Stop what runs, from any thread; the calls that were running raise `EngineFailed`."""
        with self._lock:
            running = list(self._running)
        self._kill(running)

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, aggregation: Aggregation, most: int | None) -> Histogram:
        self.check(aggregation)
        builder = self._builder()
        if self._manifest is None:
            counts = self._counts(aggregation, builder)
        else:
            counts = builder.counts_of_prepared(aggregation, self._in_domain(aggregation, builder, ["item"]))
        statement = counts if most is None else builder.highest(aggregation, counts, most)
        found = self._asked(statement, builder.parameters.values)
        width = len(label_columns(aggregation).split(", "))
        return Histogram.of(_labels(found, width), np.array(found.get("count", ()), dtype=np.int64))

    def _counts(self, aggregation: Aggregation, builder: StatementBuilder) -> str:
        conditions = self._in_domain(aggregation, builder, builder.labels(aggregation))
        kept = builder.bounded_pairs(aggregation, builder.rows(aggregation, conditions))
        if aggregation.items_kept_per_user is not None:
            kept = builder.kept(aggregation, builder.ranked(aggregation, kept, self._salt(builder)))
        return builder.counts(aggregation, kept)

    @property
    def _manifest(self) -> Manifest | None:
        return self._relation.manifest

    def _builder(self) -> StatementBuilder:
        dialect = ClickHouseDialect()
        return StatementBuilder(dialect, self._relation.text, self._relation.schema, Parameters(dialect))

    def _salt(self, builder: StatementBuilder) -> str:
        return _SERVER_SALT if self._salts is None else f"toUInt64({builder.parameters.add(self._salts())})"

    def _in_domain(self, aggregation: Aggregation, builder: StatementBuilder, labels: Sequence[str]) -> list[str]:
        if aggregation.domain is None or not aggregation.groups:
            return []
        columns, rows = domain_rows(aggregation, self.describe())
        arrays = []
        for place, column in enumerate(columns):
            native = "Int64" if label_kind(column) is int else "String"
            arrays.append(_array([row[place] for row in rows], f"d{place}", native, builder.parameters))
        wide = [column.native == "UInt64" for column in columns]  # a domain may hold negative numbers
        sought = [f"toInt128({label})" if each else label for each, label in zip(wide, labels, strict=True)]
        listed = arrays[0] if len(arrays) == 1 else f"arrayZip({', '.join(arrays)})"
        return [f"({', '.join(sought)}) IN (SELECT arrayJoin({listed}))"]

    def _asked(self, statement: str, parameters: Mapping[str, object]) -> Columns:
        """Run a statement under settings of its own, and return its columns by name; none when there are no rows."""
        comment = f"setwise-{uuid.uuid4().hex}"
        sent = {name: _sent(value) for name, value in parameters.items()}
        with self._lock:
            self._running.add(comment)
        worker = ThreadPoolExecutor(1, "setwise-clickhouse")  # chDB hears no interrupt in the thread that it works in
        try:
            with _failures("ClickHouse could not answer the query"):
                changed = self._client.query(CHANGED, column_oriented=True)
                clause = settings_clause(dict(zip(*changed.result_set, strict=True)), comment)
                asked = partial(self._client.query, f"{statement} {clause}", parameters=sent, column_oriented=True)
                found = worker.submit(asked).result()
                return dict(zip(found.column_names, found.result_set, strict=False))
        except (KeyboardInterrupt, SystemExit):
            self._kill([comment])
            raise
        finally:
            worker.shutdown()
            with self._lock:
                self._running.discard(comment)

    def _kill(self, comments: Sequence[str]) -> None:
        """Stop statements by their comments, on a connection of its own: this one waits for them."""
        if comments:
            with suppress(ClickHouseError), closing(connected(self._url)) as client:
                for comment in comments:
                    client.query(_KILL, parameters={"comment": comment})


def _labels(found: Columns, width: int) -> list[Any]:
    return joined_labels([list(found.get(f"g{place}", ())) for place in range(width)])


def _sent(value: object) -> object:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case _:
            return value


def _array(cells: Sequence[Cell], name: str, native: str, parameters: Parameters) -> str:
    """Return an array of cells, in as many parameters as it takes."""
    chunks: list[list[Cell]] = [[]]
    size = 0
    for cell in cells:
        size += len(str(cell)) + 4
        if size > _CHUNK and chunks[-1]:
            chunks.append([])
            size = len(str(cell)) + 4
        chunks[-1].append(cell)
    named = {f"{name}_{number}": chunk for number, chunk in enumerate(chunks)}
    parameters.values.update(named)
    listed = ", ".join(f"{{{each}:Array({native})}}" for each in named)
    return f"arrayConcat({listed})" if len(chunks) > 1 else listed


@contextmanager
def _failures(sentence: str) -> Iterator[None]:
    """Turn the driver's errors into ours with fixed sentences: its own quote rows, statements and addresses."""
    try:
        yield
    except (ClickHouseError, UnicodeError) as error:
        match getattr(error, "code", None):
            case int(code) if code == _CANCELLED:
                raise EngineFailed("the query was cancelled") from None
            case int(code) if code == _DENIED:
                raise EngineFailed("ClickHouse does not let this login read the table") from None
            case int(code) if code in (_READ_ONLY, _CONSTRAINED):
                raise UnsuitableTable(
                    "this ClickHouse login may not change settings, so that its profile could change answers: "
                    "give it readonly = 2, and no constraints on settings"
                ) from None
            case _:
                raise EngineFailed(sentence) from None
