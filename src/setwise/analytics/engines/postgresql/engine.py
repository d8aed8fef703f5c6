"""PostgreSQL: a table on a server, bounded and counted there."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import numpy as np

from setwise.analytics.bins import Group
from setwise.analytics.engines import bounding
from setwise.analytics.engines.base import Aggregation, check_suitable, label_kind, without_driver_error
from setwise.analytics.engines.bounding import Parameters, SaltSource, StatementBuilder
from setwise.analytics.engines.postgresql.dialect import PostgresqlDialect
from setwise.analytics.engines.prepared import Manifest
from setwise.analytics.engines.results import domain_rows, group_table, joined_labels
from setwise.analytics.schema import Kind, Schema
from setwise.errors import EngineFailed, MissingExtra, UnsuitableTable
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.statistics import GroupTable

try:
    import psycopg
except ImportError:  # pragma: no cover - said in one sentence instead
    raise MissingExtra("PostgreSQL needs psycopg: pip install 'setwise[postgres]'") from None

from setwise.analytics.engines.postgresql.tables import (
    PostgresqlSource,
    PostgresqlTable,
    quoted_table,
    store_table,
    table_fingerprint,
)

_SERVER_SALT = "hashtextextended(CAST(gen_random_uuid() AS text), 0)"
"""A salt that the server draws itself, so that no log of statements or parameters can hold it."""

_SALT = "(SELECT salt FROM secret)"

PROBED_ROWS = 20_000
"""About how many rows are looked at to learn how often a user's items repeat."""


class PostgresqlEngine:
    """A table of a PostgreSQL server, or a join; every question runs on a connection of its own, for reading only.

    `source` is the name of a table or view, or a join of several. `salts` is for tests: without it the server draws the
    salt.
    """

    @without_driver_error
    def __init__(self, url: str, source: str | PostgresqlSource, *, salts: SaltSource | None = None) -> None:
        self._url = url
        self._source = PostgresqlTable(source) if isinstance(source, str) else source
        self._salts = salts
        self._repetition: dict[tuple[str, tuple[Group, ...]], tuple[int | None, int]] = {}
        self._running: set[psycopg.Connection[Any]] = set()
        self._lock = threading.Lock()
        with self._connected() as connection:
            self._relation = self._source.found(connection)

    def describe(self) -> Schema:
        """Return the columns and their kinds, from the catalogue."""
        return self._relation.schema if self._manifest is None else self._manifest.schema()

    @without_driver_error
    def rows(self) -> int | None:
        """Return the planner's estimate of how many rows there are."""
        return self._relation.rows

    @without_driver_error
    def check(self, aggregation: Aggregation) -> None:
        """Raise what metadata tells is wrong with an aggregation."""
        if self._manifest is None:
            check_suitable(aggregation, self._relation.schema)
            return
        self._manifest.check(aggregation)
        origin = self._manifest.origin
        with self._connected() as connection:
            self._manifest.check_fresh(table_fingerprint(connection, origin, quoted_table(origin)))

    @without_driver_error
    def histogram(self, aggregation: Aggregation) -> Histogram:
        """Return every positive group with its exact bounded count."""
        return self._run(aggregation, None)

    @without_driver_error
    def top(self, aggregation: Aggregation, most: int) -> Histogram:
        """Return the `most` highest groups, highest first; equal counts by label in code point order."""
        return self._run(aggregation, most)

    @without_driver_error
    def origin(self) -> tuple[str, str]:
        """Return the table's name and the fingerprint of what the server counts about it."""
        if self._manifest is not None:
            raise UnsuitableTable("a prepared dataset cannot be prepared again: prepare its source")
        with self._connected() as connection:
            return self._source.origin(connection)

    @without_driver_error
    def store(self, aggregation: Aggregation, manifest: Manifest, destination: str) -> None:
        """Write a table with the ranked contributions, and the manifest as its comment, in one transaction."""
        check_suitable(aggregation, self._relation.schema)
        builder = self._builder()
        pairs = builder.pairs(aggregation, builder.rows(aggregation))
        # Drawn in a CTE and not in a parameter, like the salt of a question.
        ranked = builder.ranked(aggregation, pairs, _SALT)
        prepared = f"{self._secret(builder)} {builder.prepared(ranked)}"
        with self._connected(read_only=False) as connection:
            store_table(connection, quoted_table(destination), prepared, builder.parameters.values, manifest)

    @without_driver_error
    def statistics(self, aggregation: Aggregation) -> GroupTable:
        """Return the exact measures of every group."""
        self.check(aggregation)
        builder = self._builder()
        rows = builder.rows(aggregation, self._in_domain(aggregation, builder, builder.labels(aggregation)))
        sampled = aggregation.items_kept_per_user is not None
        statement = builder.statistics(aggregation, rows, _SALT if sampled else None)
        with self._connected() as connection:
            found_in = f"{self._secret(builder)} SELECT * FROM ({statement}) AS found"
            cursor = connection.execute(found_in, builder.parameters.values)
            names = [each.name for each in cursor.description or ()]
            found = dict(zip(names, zip(*cursor.fetchall(), strict=True), strict=False)) or dict.fromkeys(names, ())
        wide = aggregation.label_width
        labels = joined_labels([list(found[name]) for name in names[:wide]])
        columns = {name: np.array(found[name], dtype=np.int64) for name in names[wide:]}
        return group_table(labels, columns, aggregation)

    def cancel(self) -> None:
        """Stop what runs, from any thread; the calls that were running raise `EngineFailed`."""
        with self._lock:
            running = list(self._running)
        for connection in running:
            connection.cancel_safe(timeout=5)

    def close(self) -> None:
        """Nothing to let go of: connections end with their questions."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, aggregation: Aggregation, most: int | None) -> Histogram:
        self.check(aggregation)
        builder = self._builder()
        with self._connected() as connection:
            if self._manifest is None:
                counts = self._counts(aggregation, builder, self._rows_rarely_repeat(aggregation, connection))
            else:
                counts = builder.counts_of_prepared(aggregation, self._in_domain(aggregation, builder, ["item"]))
            statement = counts if most is None else builder.highest(aggregation, counts, most)
            statement = f"{self._secret(builder)} {statement}"
            found = connection.execute(statement, builder.parameters.values).fetchall()
        labels = [row[0] if len(row) == 2 else row[:-1] for row in found]
        return Histogram.of(labels, [row[-1] for row in found])

    @property
    def _manifest(self) -> Manifest | None:
        return self._relation.manifest

    def _builder(self) -> StatementBuilder:
        dialect = PostgresqlDialect()
        return StatementBuilder(dialect, self._relation.text, self._relation.schema, Parameters(dialect))

    def _secret(self, builder: StatementBuilder) -> str:
        salt = _SERVER_SALT if self._salts is None else f"CAST({builder.parameters.add(self._salts())} AS bigint)"
        return f"WITH secret AS MATERIALIZED (SELECT {salt} AS salt)"

    def _counts(self, aggregation: Aggregation, builder: StatementBuilder, number_rows: bool) -> str:
        rows = builder.rows(aggregation, self._in_domain(aggregation, builder, builder.labels(aggregation)))
        if number_rows:
            return builder.counts_of_rows(aggregation, rows, _SALT)
        kept = builder.bounded_pairs(aggregation, rows)
        if aggregation.items_kept_per_user is not None:
            kept = builder.kept(aggregation, builder.ranked(aggregation, kept, _SALT))
        return builder.counts(aggregation, kept)

    def _rows_rarely_repeat(self, aggregation: Aggregation, connection: "psycopg.Connection[Any]") -> bool:
        """Whether users rarely have several rows for an item; learned once, from some users of a table of known size.

        Either form gives the same histogram, so what was learned may be old, or about rows that a filter leaves out.
        """
        if not bounding.has_two_forms(aggregation) or self._relation.rows is None:
            return False
        key = aggregation.user, aggregation.groups
        if key not in self._repetition:
            builder = self._builder()
            column = self._relation.schema.column(aggregation.user)
            user = builder.dialect.user(column)
            hashed = f"hashtextextended(CAST({user} AS text), 0)"
            if column.kind is Kind.INTEGER:  # in half the time
                hashed = f"hashint8extended(CAST({user} AS bigint), 0)"
            conditions = self._in_domain(aggregation, builder, builder.labels(aggregation))
            conditions.append(f"MOD({hashed}, {max(1, self._relation.rows // PROBED_ROWS)}) = 0")
            statement = bounding.probe(builder, aggregation, builder.rows(aggregation, conditions))
            [self._repetition[key]] = connection.execute(statement, builder.parameters.values).fetchall()
        return bounding.rows_rarely_repeat(*self._repetition[key])

    def _in_domain(self, aggregation: Aggregation, builder: StatementBuilder, labels: Sequence[str]) -> list[str]:
        if aggregation.domain is None or not aggregation.groups:
            return []
        columns, rows = domain_rows(aggregation, self.describe())
        possible = [row for row in rows if not any("\0" in cell for cell in row if isinstance(cell, str))]
        arrays = []
        for place, column in enumerate(columns):
            native = "bigint" if label_kind(column) is int else "text"
            arrays.append(f"CAST({builder.parameters.add([row[place] for row in possible])} AS {native}[])")
        return [f"({', '.join(labels)}) IN (SELECT * FROM unnest({', '.join(arrays)}))"]

    @contextmanager
    def _connected(self, *, read_only: bool = True) -> Iterator["psycopg.Connection[Any]"]:
        """Give a connection of its own to a question, known to `cancel`."""
        with _failures("the PostgreSQL server cannot be reached or refuses the login"):
            connection = psycopg.connect(
                self._url, connect_timeout=10, application_name="setwise", client_encoding="UTF8"
            )
        with self._lock:
            self._running.add(connection)
        try:
            with _failures("PostgreSQL could not answer the query"), connection:
                connection.read_only = read_only
                connection.execute("SET LOCAL datestyle = 'ISO'")
                yield connection
        finally:
            with self._lock:
                self._running.discard(connection)
            connection.close()


@contextmanager
def _failures(sentence: str) -> Iterator[None]:
    """Turn the driver's errors into ours with fixed sentences: its own quote rows, statements and addresses."""
    try:
        yield
    except psycopg.errors.QueryCanceled:
        raise EngineFailed("the query was cancelled") from None
    except psycopg.errors.InsufficientPrivilege:
        raise EngineFailed("PostgreSQL does not let this login read the table") from None
    except (psycopg.Error, UnicodeEncodeError):
        raise EngineFailed(sentence) from None
