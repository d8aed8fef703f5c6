"""What every engine is: a table that bounds contributions where the data is, and one question about it.

A new engine is an `Engine`, whose questions are `SqlQuestion`s, and is chosen by `open_engine` in connect.py.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ParamSpec, Protocol, Self, TypeVar

from setwise.analytics.engines import bounding
from setwise.analytics.engines.aggregation import Aggregation, check_suitable
from setwise.analytics.engines.bounding import Parameters, StatementBuilder
from setwise.analytics.engines.dialect import Dialect
from setwise.analytics.engines.prepared import Manifest
from setwise.analytics.engines.results import arrow_group_table, arrow_labels, domain_rows, measure_names
from setwise.analytics.filter.expression import Filter
from setwise.analytics.schema import Column, Schema
from setwise.errors import SetwiseError, UnsuitableTable
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.labels import Cell, Label
from setwise.mechanisms.statistics import GroupTable

if TYPE_CHECKING:
    import pyarrow as pa

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def without_driver_error(call: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Drop the driver's error from the chain of errors that the call raises, because it may quote private rows."""

    @wraps(call)
    def called(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        try:
            return call(*arguments, **named)
        except SetwiseError as error:
            failure = error
        # Outside the handler: `from None` would only hide the context, and whoever logs it would find it.
        failure.__cause__ = failure.__context__ = None
        raise failure

    return called


class Question(Protocol):
    """One aggregation, ready to run where the table is."""

    def histogram(self, most: int | None) -> Histogram:
        """Return every positive group with its exact bounded count, or the `most` highest, highest first."""
        ...

    def statistics(self) -> GroupTable:
        """Return the exact measures of every group."""
        ...

    def user_groups(self) -> "pa.Table":
        """Return one line for every user and group: u (the user as text), g0, g1, .."""
        ...


class Engine(ABC):
    """A table that bounds contributions where the data is.

    Errors are `UnknownColumn` and `UnsuitableTable` for what metadata tells and `EngineFailed` for what breaks on the
    way; none depends on a value in the table, and an empty table is answered like any other.
    """

    _schema: Schema
    """The columns of what is read."""
    _manifest: Manifest | None = None
    """What a prepared dataset was made of."""
    _origin: str | None = None
    """The path or table by which the source is found again; None where its changes would not be noticed."""

    def __init__(self) -> None:
        self._running: set[Callable[[], object]] = set()
        self._lock = threading.Lock()

    def describe(self) -> Schema:
        """Return the columns and their kinds, from metadata alone."""
        return self._schema if self._manifest is None else self._manifest.schema()

    def rows(self) -> int | None:
        """Return about how many rows there are where metadata tells; private, so only for whoever holds the table."""
        return None

    @without_driver_error
    def check(self, aggregation: Aggregation) -> None:
        """Raise what metadata tells is wrong with an aggregation, so that it can be said before anything is charged.

        Columns that are missing or of the wrong kind; a table that was redefined since it was opened; for a prepared
        dataset also what it was not prepared for, and a source that has changed since.
        """
        self._check_definition()
        if self._manifest is None:
            check_suitable(aggregation, self._schema)
        else:
            self._manifest.check(aggregation)
            self._manifest.check_fresh(self._fingerprint(self._manifest.origin))

    @without_driver_error
    def histogram(self, aggregation: Aggregation) -> Histogram:
        """Return every positive group with its exact bounded count."""
        self.check(aggregation)
        with self._question(aggregation) as question:
            return question.histogram(None)

    @without_driver_error
    def top(self, aggregation: Aggregation, most: int) -> Histogram:
        """Return the `most` highest groups, highest first; equal counts by label in code point order."""
        self.check(aggregation)
        with self._question(aggregation) as question:
            return question.histogram(most)

    @without_driver_error
    def statistics(self, aggregation: Aggregation) -> GroupTable:
        """Return the exact measures of every group: what users add is bounded, rounded and then added up."""
        self.check(aggregation)
        with self._question(aggregation) as question:
            return question.statistics()

    def relations(self) -> tuple[str, ...]:
        """Return the names of the tables that a server reads for this table, with their schemas; empty for files.

        A view is listed with the tables under it, so that two names of one table can be told to be the same.
        """
        return ()

    @without_driver_error
    def user_groups(self, aggregation: Aggregation) -> "pa.Table":
        """Return one line for every user and group: u (the user as text), g0, g1, .. (the labels).

        The lines are as private as the table. Only the state of a live series, which belongs to the data holder, keeps
        them.
        """
        self.check(aggregation)
        if self._manifest is not None:
            raise UnsuitableTable("a prepared dataset does not tell users apart: name the table it was prepared from")
        with self._question(aggregation) as question:
            return question.user_groups()

    @without_driver_error
    def origin(self) -> tuple[str, str]:
        """Return the source's name and fingerprint, or raise `UnsuitableTable` when changes would not be noticed."""
        if self._manifest is not None:
            raise UnsuitableTable("a prepared dataset cannot be prepared again: prepare its source")
        if self._origin is None:
            raise UnsuitableTable(
                "a join or a table in memory cannot be prepared, because its changes would go unseen: "
                "write it to a file or a table, and prepare that"
            )
        return self._origin, self._fingerprint(self._origin)

    @without_driver_error
    def prepare(
        self,
        *,
        user: str,
        item: str,
        destination: str | Path,
        value: str | None = None,
        where: Filter | None = None,
        null_item: Label | None = None,
    ) -> Manifest:
        """Rank every user's items once and store the result, and return what was stored.

        `destination` is a directory for DuckDB, and the name of a table for the other engines. `open_engine` opens
        it like any other source, and refuses it once the original source has changed.
        """
        aggregation = Aggregation(user=user, item=item, value=value, where=where, null_item=null_item)
        check_suitable(aggregation, self.describe())
        origin, fingerprint = self.origin()
        manifest = Manifest(
            user=self._schema.column(user),
            item=self._schema.column(item),
            value=None if value is None else self._schema.column(value),
            where=None if where is None else where.text,
            null_item=null_item,
            origin=origin,
            fingerprint=fingerprint,
        )
        self._store(aggregation, manifest, str(destination))
        return manifest

    def cancel(self) -> None:
        """Stop what runs, from any thread; the calls that were running raise `EngineFailed`."""
        with self._lock:  # so that no question ends, and closes what is being stopped
            for stop in self._running:
                stop()

    @abstractmethod
    def close(self) -> None:
        """Let go of connections and scratch files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _cancellable(self, stop: Callable[[], object]) -> Iterator[None]:
        """Have `cancel` call `stop` while the block runs."""
        with self._lock:
            self._running.add(stop)
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(stop)

    def _check_definition(self) -> None:  # noqa: B027 - nothing to check by default
        """Raise `UnsuitableTable` if the table is no longer defined as it was when the engine was opened.

        The statements rely on the types of columns, and on views and policies that cannot fail. The default is for
        engines whose tables cannot be redefined while they are open.
        """

    @abstractmethod
    def _question(self, aggregation: Aggregation) -> AbstractContextManager[Question]:
        """Give an aggregation what it runs on, known to `cancel`, and turn the driver's errors into fixed sentences."""

    @abstractmethod
    def _fingerprint(self, origin: str) -> str:
        """Return a digest of the source of that name that changes with its rows."""

    @abstractmethod
    def _store(self, aggregation: Aggregation, manifest: Manifest, destination: str) -> None:
        """Rank contributions and store them with the manifest, in place of what was prepared there before."""


class SqlQuestion(ABC):
    """The statements of one aggregation in an engine's SQL, from the rows to what is found.

    `manifest` is that of a relation which holds a prepared dataset.
    """

    def __init__(
        self,
        aggregation: Aggregation,
        dialect: Dialect,
        relation: str,
        schema: Schema,
        manifest: Manifest | None = None,
    ) -> None:
        self._aggregation = aggregation
        self._manifest = manifest
        self._builder = StatementBuilder(dialect, relation, schema, Parameters(dialect))

    def histogram(self, most: int | None) -> Histogram:
        """Return every positive group with its exact bounded count, or the `most` highest, highest first."""
        if self._manifest is None:
            statement = self._counts()
        else:
            statement = self._builder.counts_of_prepared(self._aggregation, self._in_domain)
        if most is not None:
            statement = self._builder.highest(self._aggregation, statement, most)
        found = self._fetched(statement, ["count"])
        return Histogram.of(arrow_labels(found, self._aggregation), found.column("count").to_numpy())

    def statistics(self) -> GroupTable:
        """Return the exact measures of every group."""
        salt = self._salt() if self._aggregation.needs_salt else None
        statement = self._builder.statistics(self._aggregation, self._rows(hint=self._hint()), salt)
        return arrow_group_table(self._fetched(statement, measure_names(self._aggregation)), self._aggregation)

    def user_groups(self) -> "pa.Table":
        """Return one line for every user and group: u (the user as text), g0, g1, .."""
        return self._fetched(self._builder.user_groups(self._aggregation, self._rows()), ["u"])

    def prepared(self) -> tuple[str, dict[str, object]]:
        """Return the statement of what a prepared dataset holds, and the values that go beside it."""
        pairs = self._builder.pairs(self._aggregation, self._rows(hint=self._hint()))
        ranked = self._builder.ranked(self._aggregation, pairs, self._salt())
        return self._builder.prepared(ranked), self._builder.parameters.values

    def _counts(self) -> str:
        if self._aggregation.items_kept_per_user is None:
            return self._builder.counts(self._aggregation, self._builder.bounded_pairs(self._aggregation, self._rows()))
        rows = self._rows(hint=self._hint())
        if bounding.has_two_forms(self._aggregation) and self._rows_rarely_repeat():
            return self._builder.counts_of_rows(self._aggregation, rows, self._salt())
        pairs = self._builder.bounded_pairs(self._aggregation, rows)
        ranked = self._builder.ranked(self._aggregation, pairs, self._salt())
        return self._builder.counts(self._aggregation, self._builder.kept(self._aggregation, ranked))

    def _rows(self, *conditions: str, hint: str = "") -> str:
        return self._builder.rows(self._aggregation, [*self._in_domain, *conditions], hint)

    def _probe(self, some_users: str) -> str:
        """Return the statement that counts rows, and pairs of user and item, of the users that a condition picks."""
        return bounding.probe(self._builder, self._aggregation, self._rows(some_users))

    @cached_property
    def _in_domain(self) -> list[str]:
        if self._aggregation.domain is None:
            return []
        if self._manifest is None:
            labels, schema = self._builder.labels(self._aggregation), self._builder.schema
        else:
            labels, schema = ["item"], self._manifest.schema()
        return [self._membership(labels, *domain_rows(self._aggregation, schema))]

    def _hint(self) -> str:
        """Return what is to stand before the columns of rows that are ranked."""
        return ""

    def _rows_rarely_repeat(self) -> bool:
        """Whether users rarely have several rows for an item, so that numbering rows beats grouping them."""
        return False

    @abstractmethod
    def _salt(self) -> str:
        """Return SQL for a new secret salt, equal wherever it stands in the statement."""

    @abstractmethod
    def _membership(self, labels: Sequence[str], columns: Sequence[Column], rows: Sequence[tuple[Cell, ...]]) -> str:
        """Return SQL for whether the labels of a row are among those of a domain."""

    @abstractmethod
    def _fetched(self, statement: str, numbers: Sequence[str]) -> "pa.Table":
        """Run a statement, and return the columns of labels and of these numbers that it found."""


INTERVAL = 0.1
"""Seconds between two looks at a running query."""


class Poller:
    """Calls `look` every tenth of a second while the block runs, until it returns True."""

    def __init__(self, look: Callable[[], bool]) -> None:
        self._look = look
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="setwise-watch", daemon=True)

    def __enter__(self) -> "Poller":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Joined before anything else: a thread still alive at exit makes DuckDB's binding complain.
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(INTERVAL) and not self._look():
            pass
