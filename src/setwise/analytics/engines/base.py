"""The base classes of every engine: `Engine`, an open table, and `SqlEngineQuery`, the SQL of one aggregation of it.

An engine bounds the contributions of users where the data is stored and returns exact (not yet private) results. Its
queries can be cancelled, and report their progress. A new engine subclasses both classes and is listed in `ENGINES` in
registry.py.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property, wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, ParamSpec, Protocol, Self, TypeVar

from setwise.analytics.engines import bounding
from setwise.analytics.engines.aggregation import Aggregation, check_suitable, has_two_forms
from setwise.analytics.engines.bounding import Parameters, StatementBuilder, label_columns
from setwise.analytics.engines.dialect import Dialect
from setwise.analytics.engines.prepared import Manifest
from setwise.analytics.engines.results import (
    WEIGHT_COLUMNS,
    arrow_group_table,
    arrow_group_weights,
    arrow_labels,
    domain_rows,
    measure_names,
)
from setwise.analytics.filter.expression import Filter
from setwise.analytics.schema import Column, Schema
from setwise.errors import SetwiseError, UnsuitableTable
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.labels import Cell, Label
from setwise.mechanisms.statistic_release import GroupTable
from setwise.mechanisms.weighted_rounds import GroupWeights

if TYPE_CHECKING:
    import pyarrow as pa

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def without_driver_error(call: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorate `call` so that a `SetwiseError` it raises carries no `__cause__` and no `__context__`.

    The driver's own exception, which would otherwise be linked there, may quote private rows. Exceptions that are not a
    `SetwiseError` pass through unchanged.
    """

    @wraps(call)
    def wrapper(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        try:
            return call(*arguments, **named)
        except SetwiseError as error:
            failure = error
        # Raised outside the handler: `from None` would only hide the context, and a logger could still print it.
        failure.__cause__ = failure.__context__ = None
        raise failure

    return wrapper


class EngineQuery(Protocol):
    """The query of one aggregation of one open table; its methods return exact counts or statistics, without noise.

    An aggregation says which rows are counted, in which groups, and how much one user may add to them.
    """

    def histogram(self, most: int | None) -> Histogram:
        """Return the exact count (no noise) of every group whose count is positive.

        One user adds to at most `contributions` groups, and at most `per_item` to each (fields of the `Aggregation`).
        If `most` is not None, return only the `most` groups with the highest counts, highest first.
        """
        ...

    def statistics(self) -> GroupTable:
        """Return the exact value, without noise, of every measure of this query's aggregation, for every group.

        A measure is an integer that each user adds to a group, such as a sum of a column; its value is the sum over
        users.
        """
        ...

    def user_groups(self) -> "pa.Table":
        """Return an Arrow table with one row for each pair of a user and a group in which the user has a row.

        Column u is the user as text; columns g0, g1, ... are the group's labels. A user may be in any number of groups.
        """
        ...

    def group_weights(self, found_labels: Sequence[Label]) -> GroupWeights:
        """Return the exact weight of each group: a sum over users, to which the private search for groups adds noise.

        The search (partition selection) finds groups whose labels may be shown, in up to three rounds. `found_labels`
        are the groups that earlier rounds found; the result has all other groups. A user who counts in n of these other
        groups adds the integer 2^20/sqrt(n), rounded down, to the weight of each. So all that one user adds has an l2
        norm of at most 2^20.
        Raises: `EngineFailed` or `UnsuitableTable` with a fixed message, because the driver's may quote private rows.
        """
        # A query may store the (user, group) pairs in the first round instead of reading the table in each.
        ...


class WeightReader:
    """Context manager that reads the exact weights of groups, to which the private search for groups adds noise.

    The search (partition selection) finds groups whose labels may be shown, in up to three rounds. The weight of a
    group is a sum over users: a user who counts in n groups adds the integer 2^20/sqrt(n), rounded down, to the weight
    of each. `aggregation` names the user and group columns of `engine`'s table. The rounds share one database query
    object and the temporary tables that it stores, so that an engine need not read the rows in every round.
    """

    def __init__(self, engine: "Engine", aggregation: Aggregation) -> None:
        self._engine = engine
        self._aggregation = aggregation

    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.__exit__(kind, error, trace)

    @without_driver_error
    def _enter(self) -> None:
        self._engine.check(self._aggregation)
        self._opened = self._engine._weights_query(self._aggregation)
        self._query = self._opened.__enter__()

    @without_driver_error
    def read(self, found_labels: Sequence[Label]) -> GroupWeights:
        """Return the exact weights, without noise, of all groups that are not in `found_labels`.

        `found_labels` are the groups that earlier rounds of the private search for groups (partition selection) have
        found. The weight of a group is a sum over users: a user who counts in n groups that are not found yet adds the
        integer 2^20/sqrt(n), rounded down, to the weight of each.
        """
        return self._query.group_weights(found_labels)


class Engine(ABC):
    """One open table (or join) of a database engine; computes exact counts, with a limit on what one user adds to them.

    - `_schema` has the columns of the table, as they are stored.
    - `_manifest` describes a prepared dataset (a stored random ranking of each user's groups). None for other tables.
    - `_origin` is the path or table name of which a digest is kept, to notice later changes of the rows. None if
      changes cannot be noticed, as for joins and tables in memory.

    Methods raise `UnknownColumn` or `UnsuitableTable` for problems that the metadata shows, and `EngineFailed` if the
    engine fails while it runs. No value in the table decides whether an error is raised, because the error would reveal
    that the value is there.
    """

    _schema: Schema
    _manifest: Manifest | None = None
    _origin: str | None = None

    def __init__(self) -> None:
        self._running: set[Callable[[], object]] = set()
        self._lock = threading.Lock()

    def describe(self) -> Schema:
        """Return the table's columns (name, kind and SQL type), read from the engine's metadata and never from rows.

        A prepared dataset stores ranks of users' groups and no rows of users. For such a dataset, the result has the
        user, item (group) and value columns of the table that it was made from.
        """
        return self._schema if self._manifest is None else self._manifest.schema()

    def rows(self) -> int | None:
        """Return the approximate number of rows of the table if metadata states it, otherwise None.

        The number is private: show it only to the data holder.
        """
        return None

    @without_driver_error
    def check(self, aggregation: Aggregation) -> None:
        """Raise if the table's metadata shows that `aggregation` cannot be answered; called before budget is charged.

        Raises: `UnknownColumn` or `UnsuitableTable` if a column is missing or has the wrong type, or if the table was
        redefined after it was opened. `InvalidParameter` if a public label has another type than its column. For a
        prepared dataset (a stored random ranking of each user's groups), also `UnsuitableTable` if its source has
        changed or it was made for other columns, and `InvalidFilter` if `aggregation` has a filter.
        """
        self._check_definition()
        if self._manifest is None:
            check_suitable(aggregation, self._schema)
        else:
            self._manifest.check(aggregation)
            self._manifest.check_fresh(self._fingerprint(self._manifest.origin))

    @without_driver_error
    def histogram(self, aggregation: Aggregation) -> Histogram:
        """Return the exact count, without noise, of every group whose count is positive.

        `aggregation` names the user and group columns. It also says to how many groups one user adds, and how much to
        each.
        """
        self.check(aggregation)
        with self._engine_query(aggregation) as query:
            return query.histogram(None)

    @without_driver_error
    def top(self, aggregation: Aggregation, most: int) -> Histogram:
        """Return the groups with the highest exact counts, highest first; as many groups as `most` says.

        Exact counts stay inside Setwise: a mechanism adds noise to them before an analyst sees anything.
        `aggregation` says which rows are counted by which columns, and limits how much one user adds to the counts.
        Groups with equal counts are in the order of their labels, by code point.
        """
        self.check(aggregation)
        with self._engine_query(aggregation) as query:
            return query.histogram(most)

    @without_driver_error
    def statistics(self, aggregation: Aggregation) -> GroupTable:
        """Return the exact value, without noise, of every measure of `aggregation`, for every group.

        A measure is an integer that each user adds to a group, such as the user's sum of a column after rounding and
        clipping. Its value for the group is the sum over users.
        """
        self.check(aggregation)
        with self._engine_query(aggregation) as query:
            return query.statistics()

    def group_weights(self, aggregation: Aggregation) -> WeightReader:
        """Return a context manager whose `read` returns the exact weights of groups, for the private search for groups.

        The search (partition selection) adds noise to the weights to find groups whose labels may be shown. The weight
        of a group is a sum over users: a user who counts in n groups adds the integer 2^20/sqrt(n), rounded down, to
        the weight of each. `aggregation`, made by `Aggregation.for_discovery`, names the user and group columns.
        Raises: on entering, `UnsuitableTable` for a prepared dataset, which stores how many users have a group at each
        rank, but not which users.
        """
        return WeightReader(self, aggregation)

    def relations(self) -> tuple[str, ...]:
        """Return the names, with their schemas, of the tables of a server or database file that this engine reads.

        A view gives its own name and the names of the tables below it, and so does a table that shows the rows of other
        tables. If the names of two engines overlap, both read the same data, even if one of them reads it through a
        view. The result is empty for files that are no databases, for a table in memory, a join and a derived table.
        """
        return ()

    @without_driver_error
    def user_groups(self, aggregation: Aggregation) -> "pa.Table":
        """Return an Arrow table with one row for each user and each group of `aggregation` in which the user has a row.

        Columns are u (the user as text), g0, g1, ... (the labels of the group). A user may be in any number of groups.
        The rows are as private as the table itself.

        Raises: `UnsuitableTable` for a prepared dataset, which stores how many users have a group, but not which users.
        """
        self.check(aggregation)
        self._check_has_users()
        with self._engine_query(aggregation) as query:
            return query.user_groups()

    @without_driver_error
    def origin(self) -> tuple[str, str]:
        """Return (name, fingerprint) of the file or table that this engine reads, to be stored with a prepared dataset.

        A prepared dataset stores a random ranking of each user's groups. The fingerprint changes when rows change.
        Raises: `UnsuitableTable` for a prepared dataset, a join or a table in memory.
        """
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
        """Store a random order of each user's groups (items) as a prepared dataset, and return its description.

        A later histogram with at most k groups per user reads only the ranks 1 to k, and so fewer rows.

        - `user` and `item` name columns.
        - `value` names the column that is summed per user and item. None counts rows.
        - `destination` is a directory for DuckDB, and a table name for other engines.
        - `where` filters the rows. None reads all rows.
        - `null_item` is the label of rows without an item. None leaves them out.
        """
        aggregation = Aggregation(user=user, item=item, value=value, where=where, null_item=null_item)
        check_suitable(aggregation, self.describe())
        # Queries of the dataset are refused once the fingerprint of its source has changed.
        origin, fingerprint = self.origin()
        manifest = Manifest(
            user=self._schema.column(user),
            item=self._schema.column(item),
            value=None if value is None else self._schema.column(value),
            where=None if where is None else where.text,
            null_item=null_item,
            origin=origin,
            fingerprint=fingerprint,
            source_version=self._schema.version,
        )
        self._store(aggregation, manifest, str(destination))
        return manifest

    def cancel(self) -> None:
        """Stop every query that is running on this engine; may be called from any thread.

        The calls that are stopped raise `EngineFailed`.
        """
        with self._lock:  # without the lock, a query could end and close its connection while it is being stopped
            for stop in self._running:
                stop()

    def _check_has_users(self) -> None:
        """Raise `UnsuitableTable` if this engine reads a prepared dataset, because that has no rows of users.

        A prepared dataset stores how many users have a group, but not which users.
        """
        if self._manifest is not None:
            raise UnsuitableTable("a prepared dataset does not tell users apart: name the table it was prepared from")

    @abstractmethod
    def close(self) -> None:
        """Close the engine's connections and delete its temporary files."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _cancellable(self, stop: Callable[[], object]) -> Iterator[None]:
        """Context manager: while its `with` block runs, `Engine.cancel` calls `stop`.

        `stop` must stop the statement that runs in the block. Any thread may call `Engine.cancel`.
        """
        with self._lock:
            self._running.add(stop)
        try:
            yield
        finally:
            with self._lock:
                self._running.discard(stop)

    def _check_definition(self) -> None:  # noqa: B027 - nothing to check by default
        """Raise `UnsuitableTable` if the table was redefined since it was opened. By default nothing is checked.

        A table is opened only if no row can make a query fail. Under a new definition some row could, and the failure
        would reveal a private value.
        """

    @abstractmethod
    def _engine_query(self, aggregation: Aggregation) -> AbstractContextManager[EngineQuery]:
        """Return a context manager that yields the query of `aggregation`, which runs on a connection of its own.

        While the context is open, `Engine.cancel` stops the query, and errors of the driver are replaced by errors with
        fixed messages, because the driver's messages may quote private rows.
        """

    def _weights_query(self, aggregation: Aggregation) -> AbstractContextManager[EngineQuery]:
        """Return a context manager that yields the query of `aggregation` for the private search for groups.

        The search (partition selection) adds noise to sums over users to find groups whose labels may be shown, in
        several rounds. By default the query is that of `_engine_query`. An engine that must prepare the rounds, as by a
        temporary table, overrides this method.
        Raises: on entering, `UnsuitableTable` for a prepared dataset, which stores how many users have a group, but not
        which users.
        """
        self._check_has_users()
        return self._engine_query(aggregation)

    @abstractmethod
    def _fingerprint(self, origin: str) -> str:
        """Return a digest of the table or file `origin` (name or path) that changes whenever its rows change.

        A prepared dataset (a stored random ranking of each user's groups) keeps the digest of its source, and is
        refused once the source has another digest.
        """

    @abstractmethod
    def _store(self, aggregation: Aggregation, manifest: Manifest, destination: str) -> None:
        """Rank each user's groups in `aggregation` at random, and store the ranks and `manifest` at `destination`.

        `manifest` describes the stored dataset. A prepared dataset that is at `destination` already is replaced.
        """


class SqlEngineQuery(ABC):
    """One `aggregation` in the SQL of one engine: builds the statements, runs them and converts the results.

    - `aggregation` says which rows are counted, in which groups, and how much one user may add to them.
    - `dialect` writes the SQL of the engine.
    - `relation` is the SQL text, in `dialect`, of the table to read, to stand after FROM.
    - `schema` has the columns of the table.
    - `manifest` describes a prepared dataset (a stored random ranking of each user's groups). None for other tables.
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
        """Return the exact count, without noise, of each group; only the `most` highest counts unless `most` is None.

        One user adds to a limited number of groups, and a limited amount to each, as the query's aggregation says.
        """
        if self._manifest is None:
            statement = self._decode(self._all_counts())
        else:
            statement = self._builder.counts_of_prepared(self._aggregation, self._in_domain)
        if most is not None:
            statement = self._builder.highest(self._aggregation, statement, most)
        return self._fetch_counts(statement)

    def statistics(self) -> GroupTable:
        """Return the exact value, without noise, of every measure of this query's aggregation, for every group.

        A measure is an integer that each user adds to a group, such as a sum of a column; its value is the sum over
        users.
        """
        statement = self._all_statistics()
        if not self._aggregation.pooled:
            statement = self._decode(statement)
        return arrow_group_table(self._fetch(statement, measure_names(self._aggregation)), self._aggregation)

    def user_groups(self) -> "pa.Table":
        """Return an Arrow table of all pairs of a user and a group: columns u (user as text), g0, g1, ... (labels)."""
        return self._fetch(self._builder.user_groups(self._aggregation, self._rows()), ["u"])

    def group_weights(self, found_labels: Sequence[Label]) -> GroupWeights:
        """Return the exact weight of each group that is not in `found_labels`, to which the private search adds noise.

        The private search for groups (partition selection) has found `found_labels` so far. The weight of a group is a
        sum over users: a user who counts in n groups that are not in `found_labels` adds the integer 2^20/sqrt(n),
        rounded down, to the weight of each.
        """
        with self._fixed_errors():
            columns = label_columns(self._aggregation)
            pairs_table = self._keep_pairs()
            if pairs_table is None:
                labels = self._builder.labels(self._aggregation)
                rows = self._rows(*self._not_found_before(labels, found_labels), hint=self._hint())
                pairs = self._kept_pairs(rows)
            else:
                conditions = self._not_found_before(columns.split(", "), found_labels)
                pairs = f"SELECT u, {columns} FROM {pairs_table} AS kept"
                pairs += f" WHERE {' AND '.join(conditions)}" if conditions else ""
            statement = self._decode(self._builder.weights(self._aggregation, pairs))
            return arrow_group_weights(self._fetch(statement, WEIGHT_COLUMNS), self._aggregation)

    def _kept_pairs(self, rows: str) -> str:
        """Return the text of a SELECT with one row (g0, g1, ..., u) for each user u and each group in which u counts.

        g0, g1, ... are the labels of the group. A user counts in at most `contributions` groups (a field of the query's
        aggregation), which are chosen at random. `rows` is the SQL statement of the rows to aggregate.
        """
        pairs = self._builder.bounded_pairs(self._aggregation, rows)
        return self._builder.kept_pairs(self._aggregation, pairs, self._salt())

    def _not_found_before(self, labels: Sequence[str], found_labels: Sequence[Label]) -> list[str]:
        """Return a list with one SQL condition, that a row's group is not in `found_labels`; [] if no group was found.

        A round of the private search for groups (partition selection) leaves out the groups that earlier rounds found,
        `found_labels`. `labels` are the SQL expressions of the labels of a row's group.
        """
        if not found_labels:
            return []
        columns, rows = domain_rows(replace(self._aggregation, domain=tuple(found_labels)), self._builder.schema)
        return [f"NOT ({self._membership(labels, columns, rows)})"]

    def _keep_pairs(self) -> str | None:
        """Return the SQL name of a temporary table (u, g0, g1, ...) of each user u with each group in which u counts.

        g0, g1, ... are the labels of the group. The first call stores the table, so that later rounds of the private
        search for groups (partition selection) need not read the rows again. None, the default, means that the engine
        stores no such table.
        """
        return None

    def _fixed_errors(self) -> AbstractContextManager[object]:
        """Return a context manager that replaces the driver's errors by `EngineFailed` or `UnsuitableTable`.

        The new errors have fixed messages, because the driver's may quote private rows. The default changes no error.
        """
        return nullcontext()

    def prepared_statement(self) -> tuple[str, dict[str, object]]:
        """Return (SQL, parameters): the SELECT whose rows (item, n, rank, users) a prepared dataset stores.

        Each user's groups are put into a random order. A row says that `users` users have the group `item` at position
        `rank` of their order. Each of them adds n, a number of rows or a sum of values, to that group. The parameters
        are the values of the SQL's placeholders, by name.
        """
        pairs = self._builder.pairs(self._aggregation, self._rows(hint=self._hint()))
        ranked = self._builder.rank_items(self._aggregation, pairs, self._salt())
        return self._builder.prepared_rows(ranked), self._builder.parameters.values

    def _all_counts(self) -> str:
        """Return the text of a SELECT of (g0, g1, ..., count): the labels and the count of every group.

        It reads rows of users, and not a prepared dataset (stored random ranks of users' groups). One statement counts
        all users here; an engine that counts them in parts, to save memory, overrides this method.
        """
        return self._counts()

    def _all_statistics(self) -> str:
        """Return the text of a SELECT of the measures (integers that users add to groups, such as sums) of every group.

        Its columns are those of `StatementBuilder.statistics`: g0, g1, ... (the labels of a group), cell, measure,
        users, and s<i> and n<i> for each summed measure i. There are two kinds of rows:

        - A row with measure = -1 is about a whole group: users is its number of users, s<i> the sum of measure i over
          them, and n<i> how many users (or values) are summed.
        - Any other row is a count for measure number `measure` (for most, how many users add the integer `cell`). The
          count is in the column users.

        One statement reads all users here; an engine that reads them in parts, to save memory, overrides this method.
        """
        return self._statistics()

    def _decode(self, statement: str) -> str:
        """Return the SQL `statement` changed so that its result has the texts of labels, not codes in place of texts.

        An engine that groups rows by hashes of the texts, for speed, overrides this method. Here `statement` has no
        codes and is returned unchanged.
        """
        return statement

    def _statistics(self, *, number_rows: bool = False) -> str:
        """Return the text of a SELECT of the measures (integers that users add to groups, such as sums) of every group.

        Its columns are g0, g1, ... (the labels of a group), cell, measure, users, and s<i> and n<i> for each summed
        measure i. There are two kinds of rows:

        - A row with measure = -1 is about a whole group: users is its number of users, s<i> the sum of measure i over
          them, and n<i> how many users (or values) are summed.
        - Any other row is a count for measure number `measure` (for most, how many users add the integer `cell`). The
          count is in the column users.

        If `number_rows`, the statement numbers each user's rows by window functions. Otherwise it groups rows by user
        and group. The result is the same; only the speed differs.
        """
        salt = self._salt() if self._aggregation.needs_salt else None
        return self._builder.statistics(self._aggregation, self._rows(hint=self._hint()), salt, number_rows)

    def _counts(self) -> str:
        """Return the text of a SELECT of (g0, g1, ..., count): the labels and the count of every group.

        As the query's aggregation says, a user adds to at most `contributions` groups, and at most `per_item` to each.
        Of several statements with this result, the one that is expected to be fastest is returned.
        """
        if self._aggregation.items_kept_per_user is None:
            return self._builder.counts(self._aggregation, self._builder.bounded_pairs(self._aggregation, self._rows()))
        if self._builder.dialect.collects_sets and self._aggregation.per_item == 1:
            return self._builder.counts(self._aggregation, self._kept_pairs(self._rows()))
        rows = self._rows(hint=self._hint())
        if has_two_forms(self._aggregation) and self._rows_rarely_repeat():
            return self._builder.counts_of_rows(self._aggregation, rows, self._salt())
        pairs = self._builder.bounded_pairs(self._aggregation, rows)
        items = self._builder.choose_items(self._aggregation, pairs, self._salt())
        return self._builder.counts(self._aggregation, items)

    def _rows(self, *conditions: str, hint: str = "") -> str:
        """Return the text of a SELECT of the rows to aggregate: columns u (the user), g0, g1, ... (labels), and values.

        The value columns are v, if a column is summed per user and group, and v0, v1, ..., from which the measures
        (integers that users add to groups) are computed. The SELECT keeps the rows that satisfy the aggregation's
        filter and all SQL `conditions`. If the group labels are public, it keeps only rows with one of these labels.
        `hint` is text for the query optimizer, placed before the columns of the SELECT.
        """
        return self._builder.rows(self._aggregation, [*self._in_domain, *conditions], hint)

    def _probe(self, some_users: str) -> str:
        """Return a SQL statement that counts, in a sample of users, the rows and the distinct (user, group) pairs.

        The result is one row: `found` counts the rows of these users, and `pairs` the distinct (user, group) pairs in
        them. From their ratio the caller chooses the faster of two statements. `some_users` is the SQL condition that
        selects the users of the sample.
        """
        return bounding.probe(self._builder, self._aggregation, self._rows(some_users))

    @cached_property
    def _in_domain(self) -> list[str]:
        """A list with the SQL condition that a row's label is among the public labels; [] if labels are not public."""
        if self._aggregation.domain is None:
            return []
        if self._manifest is None:
            labels, schema = self._builder.labels(self._aggregation), self._builder.schema
        else:
            labels, schema = ["item"], self._manifest.schema()
        return [self._membership(labels, *domain_rows(self._aggregation, schema))]

    def _hint(self) -> str:
        """Return text for the query optimizer, for a SELECT whose rows are ranked per user; "" by default.

        The caller places the text after the word SELECT.
        """
        return ""

    def _rows_rarely_repeat(self) -> bool:
        """Return whether this query is faster if it numbers rows by window functions than if it groups them by user.

        Numbering is faster if few users have several rows of one group. By default the result is False; an engine that
        can estimate how often rows repeat a (user, group) pair overrides this method.
        """
        return False

    @abstractmethod
    def _salt(self) -> str:
        """Return SQL text of a new secret random number (salt), which decides in which of their groups users count.

        The number has the same value throughout a statement.
        """

    @abstractmethod
    def _membership(self, labels: Sequence[str], columns: Sequence[Column], rows: Sequence[tuple[Cell, ...]]) -> str:
        """Return a SQL condition that a table row's labels are equal to one of the tuples in `rows`.

        `labels` are the SQL expressions of the table row's labels, and `columns` the columns from which the labels
        come. Each tuple in `rows`, such as a public label, has one value for each of `labels`.
        """

    @abstractmethod
    def _fetch(self, statement: str, numbers: Sequence[str]) -> "pa.Table":
        """Run the SQL `statement`; return an Arrow table of its label columns and of the columns named in `numbers`."""

    def _fetch_counts(self, statement: str) -> Histogram:
        """Run the SQL `statement`, whose rows are (g0, g1, ..., count), and return the counts as a histogram."""
        fetched = self._fetch(statement, ["count"])
        return Histogram.of(arrow_labels(fetched, self._aggregation), fetched.column("count").to_numpy())


CANCELLED = "the query was cancelled"
"""The message of `EngineFailed` for a statement that `Engine.cancel` stopped."""

INTERVAL = 0.1
"""Seconds between two checks of a running query: short enough that progress looks smooth to a person."""


class Poller:
    """Context manager: a thread calls the function `look` every 0.1 s, until it returns True or the `with` block ends.

    Engines use it to follow the progress of a query that runs in the block.
    """

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
        # Wait for the thread here: DuckDB's Python binding raises if the thread is still alive at interpreter exit.
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(INTERVAL) and not self._look():
            pass
