"""One aggregation on DuckDB: cut into parts where memory demands it, in the quicker of two equal forms."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from setwise.analytics.engines import sql
from setwise.analytics.engines.base import Aggregation, label_kind
from setwise.analytics.engines.duckdb.dialect import DuckDBDialect
from setwise.analytics.engines.duckdb.tables import DuckDBTable
from setwise.analytics.engines.sql import Parameters, StatementBuilder, within
from setwise.analytics.schema import Schema
from setwise.mechanisms.histogram import LARGEST_COUNT, Histogram
from setwise.mechanisms.labels import Label, cell_of
from setwise.mechanisms.statistics import GroupTable

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

PROBED_ROWS = 100_000
"""About how many rows are looked at to learn how often a user's items repeat."""
BATCH_ROWS = 250_000


class DuckDBQuery:
    """An aggregation on a cursor of its own, under one salt."""

    def __init__(self, table: DuckDBTable, schema: Schema, cursor: "duckdb.DuckDBPyConnection", salt: int) -> None:
        self._table = table
        self._schema = schema
        self._cursor = cursor
        self._salt = salt
        self._dialect = DuckDBDialect()

    def run(self, aggregation: Aggregation, most: int | None, rows: int, parts: int) -> Histogram:
        """Return (label, count) pairs, reading about `rows` rows in `parts` parts of the users."""
        number_rows = self._rows_rarely_repeat(aggregation, rows)
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
        return self._found(
            self._builder(), aggregation, f"SELECT label, {summed} AS count FROM part_counts GROUP BY label", most
        )

    def statistics(self, aggregation: Aggregation, parts: int) -> GroupTable:
        """Return the measures of every group, from so many parts of the users."""
        statement, values = "", {}
        for part in range(parts):
            builder = self._builder()
            user = self._dialect.user(self._schema.column(aggregation.user))
            rows = self._rows(builder, aggregation, [f"hash({user}) % {parts} = {part}"] if parts > 1 else [])
            salt = None if aggregation.items_kept_per_user is None else builder.parameters.add(self._salt)
            statement, values = builder.statistics(aggregation, rows, salt), builder.parameters.values
            if parts > 1:
                opening = "CREATE TEMP TABLE part_statistics AS" if part == 0 else "INSERT INTO part_statistics"
                self._cursor.execute(f"{opening} {statement}", values)
        if parts > 1:
            places = range(len(aggregation.measures))
            added = ["users", *(f"{name}{place}" for place in places for name in ("s", "n"))]
            sums = ", ".join(f"{self._dialect.whole(within(f'SUM({name})'))} AS {name}" for name in added)
            statement, values = f"SELECT label, cell, measure, {sums} FROM part_statistics GROUP BY ALL", {}
        return group_table(self._cursor.sql(statement, params=values).to_arrow_table(), aggregation)

    def run_prepared(self, aggregation: Aggregation, most: int | None) -> Histogram:
        """Return (label, count) of a relation that holds ranked contributions."""
        builder = self._builder()
        conditions = [] if aggregation.domain is None else [self._in_domain(aggregation, "item")]
        return self._found(builder, aggregation, builder.counts_of_prepared(aggregation, conditions), most)

    def rank(self, aggregation: Aggregation, parts: int) -> "Iterator[pa.RecordBatchReader]":
        """Yield what a prepared dataset holds, (item, n, rank, users), part by part of the users."""
        for part in range(parts):
            builder = self._builder()
            user = self._dialect.user(self._schema.column(aggregation.user))
            rows = self._rows(builder, aggregation, [f"hash({user}) % {parts} = {part}"])
            ranked = builder.ranked(builder.pairs(aggregation, rows), builder.parameters.add(self._salt))
            statement = builder.prepared(ranked)
            yield self._cursor.sql(statement, params=builder.parameters.values).to_arrow_reader(BATCH_ROWS)

    def _builder(self) -> StatementBuilder:
        relation = self._table.relation(self._cursor, self._schema.names)
        return StatementBuilder(self._dialect, relation, self._schema, Parameters(self._dialect))

    def _found(self, builder: StatementBuilder, aggregation: Aggregation, counts: str, most: int | None) -> Histogram:
        statement = counts if most is None else builder.highest(counts, most)
        found = self._cursor.sql(statement, params=builder.parameters.values)
        if len(aggregation.groups) > 1:
            table = found.to_arrow_table()
            return Histogram.of(_labels(table.column("label")), table.column("count").to_numpy())
        columns = found.fetchnumpy()
        return Histogram.of(columns["label"], columns["count"])

    def _counts(
        self, builder: StatementBuilder, aggregation: Aggregation, number_rows: bool, conditions: Sequence[str] = ()
    ) -> str:
        rows = self._rows(builder, aggregation, conditions)
        if aggregation.items_kept_per_user is None:
            return builder.counts(aggregation, builder.bounded_pairs(aggregation, rows))
        salt = builder.parameters.add(self._salt)
        if number_rows:
            return builder.counts_of_rows(aggregation, rows, salt)
        kept = builder.kept(aggregation, builder.ranked(builder.bounded_pairs(aggregation, rows), salt))
        return builder.counts(aggregation, kept)

    def _rows(self, builder: StatementBuilder, aggregation: Aggregation, conditions: Sequence[str]) -> str:
        every = list(conditions)
        if aggregation.domain is not None:
            every.append(self._in_domain(aggregation, builder.item(aggregation)))
        return builder.rows(aggregation, every)

    def _rows_rarely_repeat(self, aggregation: Aggregation, rows: int) -> bool:
        """Whether users rarely have several rows for an item; learned from some of the users."""
        if not sql.has_two_forms(aggregation) or not self._table.columnar:
            return False
        builder = self._builder()
        user = self._dialect.user(self._schema.column(aggregation.user))
        some = self._rows(builder, aggregation, [f"hash({user}) % {max(1, rows // PROBED_ROWS)} = 0"])
        statement = sql.probe(builder, aggregation, some)
        [(found, pairs)] = self._cursor.execute(statement, builder.parameters.values).fetchall()
        return sql.rows_rarely_repeat(found, pairs)

    def _in_domain(self, aggregation: Aggregation, item: str) -> str:
        import pyarrow as pa

        columns = {}
        for place, name in enumerate(aggregation.groups):
            kind = label_kind(self._schema.column(name))
            cells = [cell_of(label, place) for label in aggregation.domain or ()]
            held = [cell if kind is str or -(2**63) <= int(cell) < 2**63 else None for cell in cells]
            columns[f"c{place}"] = pa.array(held, pa.string() if kind is str else pa.int64())
        self._cursor.register("domain_labels", pa.table(columns))
        label = "c0" if len(columns) == 1 else self._dialect.row(list(columns))
        whole = " AND ".join(f"{name} IS NOT NULL" for name in columns)
        return f"{item} IN (SELECT {label} FROM domain_labels WHERE {whole})"


def _labels(column: "pa.ChunkedArray") -> list[Label]:
    """Return the labels of an Arrow column, those of several columns as tuples."""
    import pyarrow as pa

    if not pa.types.is_struct(column.type):
        plain: list[Label] = column.to_pylist()
        return plain
    return list(zip(*(part.to_pylist() for part in column.combine_chunks().flatten()), strict=True))


def group_table(found: "pa.Table", aggregation: Aggregation) -> GroupTable:
    """Return what `StatementBuilder.statistics` found."""
    labels = _labels(found.column("label"))
    kinds, cells, users = (found.column(name).to_numpy() for name in ("measure", "cell", "users"))
    groups = np.flatnonzero(kinds == -1)
    names = [labels[place] for place in groups]
    totals, numbers, held = [], [], []
    for place, measure in enumerate(aggregation.measures):
        sums, adding = (found.column(f"{name}{place}").to_numpy()[groups].tolist() for name in ("s", "n"))
        totals.append(dict(zip(names, sums, strict=True)))
        numbers.append(dict(zip(names, adding, strict=True)))
        counts: dict[Label, NDArray[np.int64]] = {}
        for line in np.flatnonzero(kinds == place):
            row = counts.setdefault(labels[line], np.zeros(measure.most - measure.least + 1, dtype=np.int64))
            row[cells[line] - measure.least] = users[line]
        held.append(counts)
    return GroupTable(Histogram.of(names, users[groups]), tuple(totals), tuple(numbers), tuple(held))
