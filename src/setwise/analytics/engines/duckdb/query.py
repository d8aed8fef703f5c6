"""Runs the SQL of bounding.py on DuckDB, for small tables in a form with one sort, with users split to save memory.

One form groups rows by user and group, and the other numbers the rows of each user by window functions.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

from setwise.analytics.engines import bounding
from setwise.analytics.engines.aggregation import Aggregation, has_two_forms, label_kind
from setwise.analytics.engines.base import SqlEngineQuery
from setwise.analytics.engines.bounding import Parameters, StatementBuilder, label_columns, within
from setwise.analytics.engines.duckdb.dialect import DuckDBDialect
from setwise.analytics.engines.duckdb.tables import DuckDBTable
from setwise.analytics.engines.duckdb.text_codes import DistinctHashes, TextCodes, text_columns
from setwise.analytics.engines.prepared import Manifest
from setwise.analytics.schema import Column, Schema
from setwise.mechanisms.histogram import LARGEST_COUNT, Histogram
from setwise.mechanisms.labels import Cell

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

PROBED_ROWS = 100_000
"""Approximate number of rows that are sampled to learn how often a user's items repeat."""
UNPROBED_ROWS = 100_000
"""Tables of at most this many rows are not sampled, their texts are not hashed, and they are sorted as a whole.

For such tables sampling and hashing would take as long as they save, and dividing the rows by users longer.
"""
BATCH_ROWS = 250_000
"""Rows per Arrow batch when a prepared dataset is written."""

_MOST_PARSED = 256
"""The most statements whose parsed form is kept."""

_LONGEST_PARSED = 1 << 14
"""The most characters of a statement whose parsed form is kept."""

_parsed_statements: "dict[str, duckdb.Statement]" = {}
"""The parsed forms of recent statements, by their texts, which have placeholders where a question has constants."""

_KEPT_PAIRS = "kept_pairs"
"""The temporary table of the (user, group) pairs that users keep, for rounds of discovery."""


class OneSortBuilder(StatementBuilder):
    """Builder of SQL statements for small tables: one sort of all rows chooses the groups in which each user counts.

    The class `StatementBuilder` uses a window function with PARTITION BY instead, which first divides the rows by a
    hash of the user. On a table of 20,000 rows, this division takes DuckDB more time than all other parts of the
    statement.
    """

    def choose_items(self, aggregation: Aggregation, pairs: str, salt: str, columns: str = "n") -> str:
        """Return the text of a SELECT of the groups (items) in which users count, one row per user and group.

        Its columns are g0, g1, ... (the labels) and those named in `columns`, separated by commas. `pairs` is the SQL
        statement of all pairs of a user and a group. A user counts in the first `aggregation.contributions` groups, in
        an order that the SQL expression `salt` makes random.
        """
        if any(measure.groups or measure.peak for measure in aggregation.measures):
            return super().choose_items(aggregation, pairs, salt, columns)  # it needs a window over users anyway
        labels = label_columns(aggregation)
        order = f"u, {self.dialect.rank_hash('u', labels.split(', '), salt)}, {labels}"
        # A pair is among the first k of its user if the pair k places before is of another user.
        kept = f"LAG(u, {aggregation.contributions}) OVER (ORDER BY {order}) IS DISTINCT FROM u"
        marked = f"SELECT *, {kept} AS kept FROM ({pairs}) AS pairs"
        return f"SELECT {labels}, {columns} FROM ({marked}) AS marked WHERE kept"


class DuckDBEngineQuery(SqlEngineQuery):
    """One `aggregation` of `table`, which has about `rows` rows, on a DuckDB `cursor` of its own.

    - `schema` has the table's columns.
    - `manifest` describes a prepared dataset (a stored random ranking of each user's groups). None for other tables.
    - `parts` is the number of parts into which the users are split, so that the statement of each part fits in memory.
    - `salt` is the secret number by which users' groups are chosen at random.
    - `hashes` is a cache, shared by the queries of an engine, that says in which text columns all texts have different
      hashes, so that hashes can replace the texts.
    - `errors()` returns a context manager that replaces DuckDB's errors, which may quote rows, by Setwise's own.
    """

    def __init__(
        self,
        aggregation: Aggregation,
        table: DuckDBTable,
        schema: Schema,
        cursor: "duckdb.DuckDBPyConnection",
        *,
        salt: int,
        hashes: DistinctHashes,
        rows: int,
        parts: int = 1,
        manifest: Manifest | None = None,
        errors: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self._dialect = DuckDBDialect()
        self._columns = schema.names if manifest is None else table.describe(cursor).names
        """The columns that statements read. The names of a prepared dataset's columns are not those of its rows."""
        self._unread: str | None = table.relation(cursor, self._columns)
        """The relation that was registered at first, until a statement reads it."""
        super().__init__(aggregation, self._dialect, self._unread, schema, manifest)
        self._table = table
        self._schema = schema
        self._cursor = cursor
        self._salt_value = salt
        self._hashes = hashes
        self._table_rows = rows
        self._parts = parts
        self._errors = errors
        self._part: int | None = None
        self._codes: TextCodes | None = None
        self._numbers_rows = False
        self._pairs_stored = False

    def rank(self) -> "Iterator[pa.RecordBatchReader]":
        """Yield the rows (item, n, rank, users) of a prepared dataset: one Arrow reader for each part of the users.

        A prepared dataset stores a random ranking of each user's groups. A row says that `users` users have the group
        `item` at position `rank` of their ranking. Each of them adds n, a number of rows or a sum of values, to that
        group. Users are split into parts to save memory.
        """
        for part in range(self._parts):
            self._begin_statement(part)
            statement, values = self.prepared_statement()
            yield self._cursor.sql(statement, params=values).to_arrow_reader(BATCH_ROWS)

    def _all_counts(self) -> str:
        self._choose_form(summed=False)
        labels = label_columns(self._aggregation)
        total = f"CAST(LEAST(SUM(count), {LARGEST_COUNT}) AS BIGINT)"
        merged = f"SELECT {labels}, {total} AS count FROM part_counts GROUP BY {labels}"
        return self._run_parts("part_counts", self._counts, merged)

    def _all_statistics(self) -> str:
        self._choose_form(summed=True)
        measures = self._aggregation.measures
        places = [place for place, measure in enumerate(measures) if not measure.in_cells]
        names = ["users", *(f"{name}{place}" for place in places for name in ("s", "n"))]
        sums = ", ".join(f"{self._dialect.int64(within(f'SUM({name})'))} AS {name}" for name in names)
        by = f"{'g0' if self._aggregation.pooled else label_columns(self._aggregation)}, cell, measure"
        merged = f"SELECT {by}, {sums} FROM part_statistics GROUP BY {by}"
        return self._run_parts("part_statistics", partial(self._statistics, number_rows=self._numbers_rows), merged)

    def _run_parts(self, name: str, build: Callable[[], str], merged: str) -> str:
        """Return a SQL statement for the result over all users, who may be split into parts to save memory.

        - `build` is a function without arguments that returns the statement for the part of the users that is counted
          next.
        - `name` is the temporary table for the results of several parts.
        - `merged` is the statement that adds up the rows of this table.

        If there is one part, its statement is returned. If there are several, their statements are run now, and
        `merged` is returned.
        """
        if self._parts == 1:
            self._begin_statement()
            return build()
        self._store_parts(name, build)
        self._builder = self._new_builder(name)
        return merged

    def _store_parts(self, name: str, build: Callable[[], str]) -> None:
        """Run the SQL that `build` returns for each part of the users; store all rows in the temporary table `name`.

        Users may be split into parts, which are counted one after the other to save memory.
        """
        for part in range(self._parts):
            self._begin_statement(part)
            opening = f"CREATE TEMP TABLE {name} AS" if part == 0 else f"INSERT INTO {name}"
            self._cursor.execute(f"{opening} {build()}", self._builder.parameters.values)

    def _keep_pairs(self) -> str | None:
        if not self._pairs_stored:
            self._choose_codes()
            self._store_parts(_KEPT_PAIRS, lambda: self._kept_pairs(self._rows()))
            self._pairs_stored = True
        self._builder = self._new_builder(_KEPT_PAIRS)
        return _KEPT_PAIRS

    def _fixed_errors(self) -> AbstractContextManager[object]:
        return self._errors()

    def _begin_statement(self, part: int | None = None) -> None:
        """Start a new SQL statement, about part number `part` of the users or, if `part` is None, about all users.

        Users may be split into parts, which are counted one after the other to save memory. The table is registered
        again with DuckDB, because a streamed table can be read only once. The statement begins without parameters,
        because DuckDB refuses parameters that a statement does not use.
        """
        self._part = part
        relation = self._table.relation(self._cursor, self._columns) if self._unread is None else self._unread
        self._unread = None
        self._builder = self._new_builder(relation)
        self.__dict__.pop("_in_domain", None)  # the cached condition refers to parameters of the earlier builder

    def _new_builder(self, relation: str) -> StatementBuilder:
        """Return a new statement builder, without parameter values, that reads `relation`, the SQL text after FROM."""
        maker = OneSortBuilder if self._table_rows <= UNPROBED_ROWS else StatementBuilder
        return maker(self._dialect, relation, self._schema, Parameters(self._dialect))

    def _rows(self, *conditions: str, hint: str = "") -> str:
        """Return the text of a SELECT of the rows to aggregate, of the current part of the users.

        Its columns are u (the user), g0, g1, ... (labels), and values. The rows satisfy the SQL `conditions`. If the
        query sorts hashes in place of texts, the texts are replaced by hashes. `hint` is text for the query optimizer,
        placed before the columns of the SELECT.
        """
        if self._part is not None and self._parts > 1:
            conditions = (*conditions, f"hash({self._user()}) % {self._parts} = {self._part}")
        rows = super()._rows(*conditions, hint=hint)
        return rows if self._codes is None else self._codes.encode(rows)

    def _user(self) -> str:
        """Return the SQL expression of the user column, whose values tell users apart."""
        return self._dialect.user(self._schema.column(self._aggregation.user))

    def _salt(self) -> str:
        return self._builder.parameters.add(self._salt_value)

    def _decode(self, statement: str) -> str:
        return statement if self._codes is None else self._codes.decode(statement)

    def _choose_form(self, *, summed: bool) -> None:
        """Choose the fastest form of this query's SQL; all forms give the same result.

        Two choices are made. First, rows are either numbered by window functions, or grouped by user and group; a
        sample of the users decides. Second, texts are either sorted as they are, or replaced by hashes, which sort
        faster. `summed` says that the query also sums values of rows, which makes numbering slower.
        """
        # Numbering (window functions) is faster if few rows repeat a pair of user and item.
        self._numbers_rows = self._sample_rarely_repeats(summed=summed)
        self._choose_codes()

    def _choose_codes(self) -> None:
        """Decide whether this query sorts hashes in place of texts, which is faster, and store the result in `_codes`.

        `_codes` is the `TextCodes` that replaces texts by hashes; None if the query sorts the texts themselves. The
        decision does not change which groups are chosen at random for a user, because in both cases they are ranked by
        the hashes of their texts.
        """
        self._codes = None
        self._codes = self._text_codes()
        if self._codes is None:
            self._dialect = DuckDBDialect(text_columns(self._aggregation, self._schema))

    def _text_codes(self) -> TextCodes | None:
        """Return the `TextCodes` that replaces texts by hashes while a window function sorts rows, or None.

        None means that no text is replaced by a hash, for one of four reasons:

        - Users count in all their groups, so that nothing is sorted.
        - No column is text.
        - Two distinct texts have the same hash.
        - The table is small, or is read from files such as CSV. Checking the hashes of one column of such files would
          not be cheap, because all columns would be read.
        """
        ranks = self._aggregation.items_kept_per_user is not None
        if not ranks or not self._table.columnar or self._table_rows <= UNPROBED_ROWS:
            return None
        columns = text_columns(self._aggregation, self._schema)
        codes = TextCodes(columns, self._cursor)
        for name in columns:
            self._begin_statement()
            if name == "u":
                user = self._schema.column(self._aggregation.user)
                users = f"SELECT {self._user()} AS u FROM {self._builder.relation}"
                differ = self._hashes.of(user.name, partial(codes.users_differ, users))
            else:
                rows = self._rows()
                differ = codes.labels_differ(name, rows, self._builder.parameters.values)
            if not differ:
                return None
        return codes if columns else None

    def _rows_rarely_repeat(self) -> bool:
        """Return the decision of `_choose_form`: whether this query numbers rows instead of grouping them by user.

        True means that users rarely have several rows of one group, so that numbering is faster.
        """
        return self._numbers_rows

    def _sample_rarely_repeats(self, *, summed: bool) -> bool:
        """Return whether this query is faster if it numbers rows by window functions than if it groups them by user.

        Numbering is faster if few rows in a sample of the users repeat a (user, group) pair. `summed` says that the
        query also sums values of rows, which makes numbering slower. The result is False, without a sample, for small
        tables, for files such as CSV, of which single columns cannot be read cheaply, and for aggregations that
        numbering cannot compute.
        """
        rows = self._table_rows
        if rows <= UNPROBED_ROWS or not has_two_forms(self._aggregation) or not self._table.columnar:
            return False
        self._begin_statement()
        statement = self._probe(f"hash({self._user()}) % {max(1, rows // PROBED_ROWS)} = 0")
        [(sampled, pairs)] = self._cursor.execute(statement, self._builder.parameters.values).fetchall()
        return bounding.rows_rarely_repeat(sampled, pairs, summed)

    def _membership(self, labels: Sequence[str], columns: Sequence[Column], rows: Sequence[tuple[Cell, ...]]) -> str:
        """Return a SQL condition that a table row's labels are equal to one of the tuples in `rows`.

        The tuples, such as the public labels, are registered with the cursor as a table, which the condition reads.
        `labels` are the SQL expressions of a row's labels, and `columns` the columns from which the labels come. If the
        query has put hashes in place of texts in a label column, the hashes of the texts in `rows` are compared with
        them.
        """
        import pyarrow as pa

        kinds = [pa.string() if label_kind(column) is str else pa.int64() for column in columns]
        table = {f"c{place}": pa.array([row[place] for row in rows], kind) for place, kind in enumerate(kinds)}
        self._cursor.register("domain_labels", pa.table(table))
        coded = [] if self._codes is None else text_columns(self._aggregation, self._schema)
        cells = [f"hash({name})" if label in coded else name for name, label in zip(table, labels, strict=True)]
        return f"({', '.join(labels)}) IN (SELECT ({', '.join(cells)}) FROM domain_labels)"

    def _fetch(self, statement: str, numbers: Sequence[str]) -> "pa.Table":
        del numbers  # the result names its columns itself
        return self._cursor.sql(self._parse(statement), params=self._builder.parameters.values).to_arrow_table()

    def _fetch_counts(self, statement: str) -> Histogram:
        if len(self._aggregation.groups) > 1:
            return super()._fetch_counts(statement)
        columns = self._cursor.execute(self._parse(statement), self._builder.parameters.values).fetchnumpy()
        return Histogram.of(columns["g0"], columns["count"])

    def _parse(self, statement: str) -> "str | duckdb.Statement":
        """Return the SQL `statement` as DuckDB has parsed it, from a cache, or unchanged if it is too long to cache.

        On a table of 20,000 rows parsing takes an eighth of a statement's time. Statements recur, because constants,
        such as the constants of a filter, are parameters.
        """
        if len(statement) > _LONGEST_PARSED:
            return statement
        parsed = _parsed_statements.get(statement)
        if parsed is None:
            (parsed,) = self._cursor.extract_statements(statement)
            if len(_parsed_statements) >= _MOST_PARSED:
                _parsed_statements.clear()
            _parsed_statements[statement] = parsed
        return parsed
