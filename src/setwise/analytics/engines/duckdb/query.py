"""One aggregation on DuckDB: cut into parts where memory demands it, in the quicker of two equal forms."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from setwise.analytics.engines import bounding
from setwise.analytics.engines.aggregation import Aggregation, label_kind
from setwise.analytics.engines.bounding import Parameters, StatementBuilder, label_columns, within
from setwise.analytics.engines.duckdb.dialect import DuckDBDialect
from setwise.analytics.engines.duckdb.tables import DuckDBTable
from setwise.analytics.engines.duckdb.text_codes import DistinctHashes, TextCodes, text_columns
from setwise.analytics.engines.results import arrow_group_table, arrow_labels, domain_rows
from setwise.analytics.schema import Schema
from setwise.mechanisms.histogram import LARGEST_COUNT, Histogram
from setwise.mechanisms.statistics import GroupTable

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

PROBED_ROWS = 100_000
"""About how many rows are looked at to learn how often a user's items repeat."""
UNPROBED_ROWS = 100_000
"""Tables of no more rows are not probed, nor are their texts hashed: that would take as long as it saves."""
BATCH_ROWS = 250_000


class DuckDBQuery:
    """An aggregation on a cursor of its own, under one salt."""

    def __init__(
        self,
        table: DuckDBTable,
        schema: Schema,
        cursor: "duckdb.DuckDBPyConnection",
        salt: int,
        hashes: DistinctHashes,
    ) -> None:
        self._table = table
        self._hashes = hashes
        self._schema = schema
        self._cursor = cursor
        self._salt = salt
        self._dialect = DuckDBDialect()
        self._codes: TextCodes | None = None

    def run(self, aggregation: Aggregation, most: int | None, rows: int, parts: int) -> Histogram:
        """Return (label, count) pairs, reading about `rows` rows in `parts` parts of the users."""
        number_rows = self._rows_rarely_repeat(aggregation, rows)
        self._choose_codes(aggregation, rows)
        if parts == 1:
            builder = self._builder()
            counts = self._counts(builder, aggregation, number_rows)
            return self._found(builder, aggregation, counts, most)
        for part in range(parts):
            builder = self._builder()
            user = self._dialect.user(self._schema.column(aggregation.user))
            counts = self._counts(builder, aggregation, number_rows, [f"hash({user}) % {parts} = {part}"])
            opening = "CREATE TEMP TABLE part_counts AS" if part == 0 else "INSERT INTO part_counts"
            self._cursor.execute(f"{opening} {counts}", builder.parameters.values)
        summed = f"CAST(LEAST(SUM(count), {LARGEST_COUNT}) AS BIGINT)"
        labels = label_columns(aggregation)
        added = f"SELECT {labels}, {summed} AS count FROM part_counts GROUP BY {labels}"
        return self._found(self._builder(), aggregation, added, most)

    def statistics(self, aggregation: Aggregation, rows: int, parts: int) -> GroupTable:
        """Return the measures of every group, reading about `rows` rows in `parts` parts of the users."""
        number_rows = self._rows_rarely_repeat(aggregation, rows, added=True)
        self._choose_codes(aggregation, rows)
        statement, values = "", {}
        for part in range(parts):
            builder = self._builder()
            user = self._dialect.user(self._schema.column(aggregation.user))
            some = self._coded_rows(builder, aggregation, [f"hash({user}) % {parts} = {part}"] if parts > 1 else [])
            salt = builder.parameters.add(self._salt) if aggregation.needs_salt else None
            statement, values = builder.statistics(aggregation, some, salt, number_rows), builder.parameters.values
            if parts > 1:
                opening = "CREATE TEMP TABLE part_statistics AS" if part == 0 else "INSERT INTO part_statistics"
                self._cursor.execute(f"{opening} {statement}", values)
        if parts > 1:
            places = [place for place, measure in enumerate(aggregation.measures) if not measure.in_cells]
            added = ["users", *(f"{name}{place}" for place in places for name in ("s", "n"))]
            sums = ", ".join(f"{self._dialect.whole(within(f'SUM({name})'))} AS {name}" for name in added)
            by = f"{'g0' if aggregation.pooled else label_columns(aggregation)}, cell, measure"
            statement, values = f"SELECT {by}, {sums} FROM part_statistics GROUP BY {by}", {}
        if self._codes is not None and not aggregation.pooled:
            statement = self._codes.decoded(statement)
        return arrow_group_table(self._cursor.sql(statement, params=values).to_arrow_table(), aggregation)

    def user_groups(self, aggregation: Aggregation) -> "pa.Table":
        """Return one line for every user and group: u (the user as text), g0, g1, .."""
        builder = self._builder()
        statement = builder.user_groups(aggregation, self._rows(builder, aggregation, []))
        return self._cursor.sql(statement, params=builder.parameters.values).to_arrow_table()

    def run_prepared(self, aggregation: Aggregation, most: int | None) -> Histogram:
        """Return (label, count) of a relation that holds ranked contributions."""
        builder = self._builder()
        conditions = [] if aggregation.domain is None else [self._in_domain(aggregation, ["item"])]
        return self._found(builder, aggregation, builder.counts_of_prepared(aggregation, conditions), most)

    def rank(self, aggregation: Aggregation, parts: int) -> "Iterator[pa.RecordBatchReader]":
        """Yield what a prepared dataset holds, (item, n, rank, users), part by part of the users."""
        for part in range(parts):
            builder = self._builder()
            user = self._dialect.user(self._schema.column(aggregation.user))
            rows = self._rows(builder, aggregation, [f"hash({user}) % {parts} = {part}"])
            ranked = builder.ranked(aggregation, builder.pairs(aggregation, rows), builder.parameters.add(self._salt))
            statement = builder.prepared(ranked)
            yield self._cursor.sql(statement, params=builder.parameters.values).to_arrow_reader(BATCH_ROWS)

    def _builder(self) -> StatementBuilder:
        relation = self._table.relation(self._cursor, self._schema.names)
        return StatementBuilder(self._dialect, relation, self._schema, Parameters(self._dialect))

    def _found(self, builder: StatementBuilder, aggregation: Aggregation, counts: str, most: int | None) -> Histogram:
        counts = counts if self._codes is None else self._codes.decoded(counts)
        statement = counts if most is None else builder.highest(aggregation, counts, most)
        values = builder.parameters.values
        if len(aggregation.groups) > 1:
            table = self._cursor.sql(statement, params=values).to_arrow_table()
            return Histogram.of(arrow_labels(table, aggregation), table.column("count").to_numpy())
        columns = self._cursor.execute(statement, values).fetchnumpy()
        return Histogram.of(columns["g0"], columns["count"])

    def _counts(
        self, builder: StatementBuilder, aggregation: Aggregation, number_rows: bool, conditions: Sequence[str] = ()
    ) -> str:
        rows = self._coded_rows(builder, aggregation, conditions)
        if aggregation.items_kept_per_user is None:
            return builder.counts(aggregation, builder.bounded_pairs(aggregation, rows))
        salt = builder.parameters.add(self._salt)
        if number_rows:
            return builder.counts_of_rows(aggregation, rows, salt)
        ranked = builder.ranked(aggregation, builder.bounded_pairs(aggregation, rows), salt)
        return builder.counts(aggregation, builder.kept(aggregation, ranked))

    def _coded_rows(self, builder: StatementBuilder, aggregation: Aggregation, conditions: Sequence[str]) -> str:
        rows = self._rows(builder, aggregation, conditions)
        return rows if self._codes is None else self._codes.encoded(rows)

    def _choose_codes(self, aggregation: Aggregation, rows: int) -> None:
        self._codes = self._text_codes(aggregation, rows)
        if self._codes is None:
            self._dialect = DuckDBDialect(text_columns(aggregation, self._schema))

    def _text_codes(self, aggregation: Aggregation, rows: int) -> TextCodes | None:
        """Return the codes of texts that a window is to sort; None where there are none, or not worth it."""
        if aggregation.items_kept_per_user is None or not self._table.columnar or rows <= UNPROBED_ROWS:
            return None
        columns = text_columns(aggregation, self._schema)
        codes = TextCodes(columns, self._cursor)
        for name in columns:
            builder = self._builder()  # a relation may be good for one reading
            if name == "u":
                user = self._schema.column(aggregation.user)
                users = f"SELECT {self._dialect.user(user)} AS u FROM {builder.relation}"
                differ = self._hashes.of(user.name, partial(codes.users_differ, users))
            else:
                rows_of_it = self._rows(builder, aggregation, [])
                differ = codes.labels_differ(name, rows_of_it, builder.parameters.values)
            if not differ:
                return None
        return codes if columns else None

    def _rows(self, builder: StatementBuilder, aggregation: Aggregation, conditions: Sequence[str]) -> str:
        every = list(conditions)
        if aggregation.domain is not None:
            every.append(self._in_domain(aggregation, builder.labels(aggregation)))
        return builder.rows(aggregation, every)

    def _rows_rarely_repeat(self, aggregation: Aggregation, rows: int, added: bool = False) -> bool:
        """Whether users rarely have several rows for an item; learned from some of the users of a large table."""
        if rows <= UNPROBED_ROWS or not bounding.has_two_forms(aggregation) or not self._table.columnar:
            return False
        builder = self._builder()
        user = self._dialect.user(self._schema.column(aggregation.user))
        some = self._rows(builder, aggregation, [f"hash({user}) % {max(1, rows // PROBED_ROWS)} = 0"])
        statement = bounding.probe(builder, aggregation, some)
        [(found, pairs)] = self._cursor.execute(statement, builder.parameters.values).fetchall()
        return bounding.rows_rarely_repeat(found, pairs, added)

    def _in_domain(self, aggregation: Aggregation, labels: Sequence[str]) -> str:
        import pyarrow as pa

        columns, rows = domain_rows(aggregation, self._schema)
        kinds = [pa.string() if label_kind(column) is str else pa.int64() for column in columns]
        table = {f"c{place}": pa.array([row[place] for row in rows], kind) for place, kind in enumerate(kinds)}
        self._cursor.register("domain_labels", pa.table(table))
        return f"({', '.join(labels)}) IN (SELECT ({', '.join(table)}) FROM domain_labels)"
