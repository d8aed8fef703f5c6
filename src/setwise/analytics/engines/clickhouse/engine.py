"""The ClickHouse engine, which aggregates a table of a server, or of a chDB folder in this process, in ClickHouse."""

import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from setwise.analytics.engines.aggregation import Aggregation, label_kind
from setwise.analytics.engines.base import CANCELLED, Engine, SqlEngineQuery, without_driver_error
from setwise.analytics.engines.bounding import Parameters, SaltSource, label_columns
from setwise.analytics.engines.clickhouse.connection import Ask, ClickHouseConnection, Columns
from setwise.analytics.engines.clickhouse.dialect import ClickHouseDialect
from setwise.analytics.engines.clickhouse.tables import ClickHouseCatalogue, store_table, table_fingerprint
from setwise.analytics.engines.joins import Relation, ServerJoin
from setwise.analytics.engines.prepared import Manifest
from setwise.analytics.engines.registry import OpenRequest
from setwise.analytics.engines.results import arrow_table, label_names
from setwise.analytics.rows.derivation import Derivation
from setwise.analytics.schema import Column
from setwise.errors import EngineFailed, UnsuitableTable
from setwise.mechanisms.labels import Cell

if TYPE_CHECKING:
    import pyarrow as pa

_SERVER_SALT = "assumeNotNull((SELECT rand64()))"
"""SQL expression for a salt that the server draws once per statement, so that no log of statements contains it."""

_CHUNK = 50_000
"""Characters of a domain's labels per parameter; a server accepts at most 131,072 bytes."""


class ClickHouseEngine(Engine):
    """Engine for a table, a view or a join of tables in ClickHouse.

    - `url` is the address of the server, or of a chDB folder, which a ClickHouse in this process reads.
    - `source` is the name of a table or view, or a join.
    - `derivation` has the steps (computing columns, filtering rows, grouping each user's rows) that are applied to the
      rows before they are counted.
    - `salts`, for tests, returns the secret numbers by which users' groups are chosen at random. None lets the server
      draw them.
    """

    @without_driver_error
    def __init__(
        self,
        url: str,
        source: str | ServerJoin,
        *,
        salts: SaltSource | None = None,
        derivation: Derivation = Derivation(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__()
        self._salts = salts
        self._connection = ClickHouseConnection(url)
        self._source = source
        self._catalogue = ClickHouseCatalogue(self._run, has_policies=not self._connection.is_embedded)
        try:
            self._base = self._look_up_relation()
            self._relation = self._base.derive(derivation, ClickHouseDialect())
        except BaseException:
            self.close()
            raise
        self._schema, self._manifest = self._relation.schema, self._relation.manifest
        self._origin = self._relation.origin

    def rows(self) -> int | None:
        """Return the number of rows that ClickHouse's metadata states for the table; None if it states none."""
        return self._relation.rows

    @without_driver_error
    def relations(self) -> tuple[str, ...]:
        """Return the names, with their databases, of the tables that this engine reads, and of those below them.

        Tables are below a view, and below a Merge or Buffer table. If the names of two engines overlap, both read the
        same data. A prepared dataset (a stored random ranking of each user's groups) has the names of the table that it
        was prepared from, too. The result is empty for a join and for a derived table.
        """
        reads = self._relation.reads
        if self._manifest is not None:
            try:
                reads |= self._catalogue.find(self._manifest.origin).reads
            except UnsuitableTable:  # the table is gone, so only its name is left
                reads |= {self._manifest.origin}
        return tuple(sorted(reads))

    def close(self) -> None:
        """Close the engine's connection to ClickHouse."""
        self._connection.close()

    @contextmanager
    def _engine_query(self, aggregation: Aggregation) -> Iterator["ClickHouseEngineQuery"]:
        yield ClickHouseEngineQuery(aggregation, self._relation, self._run, self._salts)

    def _check_definition(self) -> None:
        self._base.check_same(self._look_up_relation())

    def _look_up_relation(self) -> Relation:
        """Return the SQL text and the columns of the table or join, as the server's catalogue defines them now."""
        find = self._catalogue.find
        return find(self._source) if isinstance(self._source, str) else self._source.look_up(find, ClickHouseDialect())

    def _fingerprint(self, origin: str) -> str:
        return table_fingerprint(self._run, origin)

    def _store(self, aggregation: Aggregation, manifest: Manifest, destination: str) -> None:
        with self._engine_query(aggregation) as query:
            store_table(self._run, destination, *query.prepared_statement(), manifest)

    def _run(self, statement: str, parameters: Mapping[str, object]) -> Columns:
        """Run the SQL `statement` with `parameters`; return the result's columns by name.

        While the statement runs, `Engine.cancel` stops it.
        Raises: `EngineFailed` if the statement was cancelled. `EngineFailed` or `UnsuitableTable` if ClickHouse raises
        an error; their messages are Setwise's own, because ClickHouse's messages quote rows.
        """
        comment = f"setwise-{uuid.uuid4().hex}"
        cancelled = threading.Event()

        def stop() -> None:
            cancelled.set()
            self._connection.kill(comment)

        try:
            with self._cancellable(stop):
                return self._connection.ask(statement, parameters, comment)
        except EngineFailed:
            if cancelled.is_set():
                raise EngineFailed(CANCELLED) from None
            raise


def open_tables(request: OpenRequest) -> ClickHouseEngine:
    """Return a ClickHouse engine that reads the server's tables that `request` names.

    As `request` says, the tables are joined, and the joined rows are filtered, grouped per user or given computed
    columns.
    """
    return ClickHouseEngine(request.address, request.server_source(), derivation=request.derivation)


class ClickHouseEngineQuery(SqlEngineQuery):
    """One `aggregation` of `relation`, a table or join on ClickHouse, as SQL statements.

    - `ask` runs a SQL statement and returns the columns of its result.
    - `salts`, for tests, returns the secret numbers by which users' groups are chosen at random. None lets the server
      draw them.
    """

    def __init__(self, aggregation: Aggregation, relation: Relation, ask: Ask, salts: SaltSource | None) -> None:
        super().__init__(aggregation, ClickHouseDialect(), relation.text, relation.schema, relation.manifest)
        self._ask = ask
        self._salts = salts

    def _salt(self) -> str:
        return _SERVER_SALT if self._salts is None else f"toUInt64({self._builder.parameters.add(self._salts())})"

    def _kept_pairs(self, rows: str) -> str:
        """Return the text of a SELECT with one row (g0, g1, ..., u) for each user u and each group in which u counts.

        g0, g1, ... are the labels of the group. `rows` is the SQL statement of the rows to aggregate. The rows of the
        result are the same as those of `StatementBuilder.kept_pairs`, which ranks groups by a window function. Here
        ClickHouse collects each user's groups in an array and sorts only arrays that are too long, in half the
        processor time. If a value column is summed, the window function is used.
        """
        aggregation = self._aggregation
        if aggregation.value is not None:
            # Only the window function leaves out pairs whose sum is not positive.
            return super()._kept_pairs(rows)
        labels = label_columns(aggregation).split(", ")
        if len(labels) == 1:
            collected, elements = labels[0], ["item"]
        else:
            collected = f"tuple({', '.join(labels)})"
            elements = [f"tupleElement(item, {place})" for place in range(1, len(labels) + 1)]
        bound = aggregation.contributions
        # The window function sorts the pairs of all users. This sorts only the arrays of users who have too many
        # groups.
        order = self._builder.dialect.rank_hash("u", elements, self._salt())
        chosen = f"arraySlice(arrayPartialSort(item -> ({order}, item), {bound}, items), 1, {bound})"
        sets = f"SELECT u, groupUniqArray({collected}) AS items FROM ({rows}) AS counted GROUP BY u"
        pairs = f"SELECT u, arrayJoin(if(length(items) > {bound}, {chosen}, items)) AS item FROM ({sets}) AS sets"
        columns = ", ".join(f"{element} AS {label}" for element, label in zip(elements, labels, strict=True))
        return f"SELECT {columns}, u FROM ({pairs}) AS pairs"

    def _membership(self, labels: Sequence[str], columns: Sequence[Column], rows: Sequence[tuple[Cell, ...]]) -> str:
        arrays = []
        for place, column in enumerate(columns):
            native = "Int64" if label_kind(column) is int else "String"
            arrays.append(_array([row[place] for row in rows], f"d{place}", native, self._builder.parameters))
        unsigned = [column.native == "UInt64" for column in columns]  # 128 bits, as a domain may hold negative labels
        sought = [f"toInt128({label})" if wide else label for wide, label in zip(unsigned, labels, strict=True)]
        listed = arrays[0] if len(arrays) == 1 else f"arrayZip({', '.join(arrays)})"
        return f"({', '.join(sought)}) IN (SELECT arrayJoin({listed}))"

    def _fetch(self, statement: str, numbers: Sequence[str]) -> "pa.Table":
        columns = self._ask(statement, self._builder.parameters.values)
        return arrow_table({name: columns.get(name, ()) for name in (*label_names(self._aggregation), *numbers)})


def _array(cells: Sequence[Cell], name: str, native: str, parameters: Parameters) -> str:
    """Return a SQL expression for the array of `cells`, and add the cells to `parameters`.

    The cells are divided among several parameters, because ClickHouse limits the size of a parameter. The parameters
    are named `name`_0, `name`_1, ..., and `native` is ClickHouse's type of a cell, Int64 or String.
    """
    chunks: list[list[Cell]] = [[]]
    size = 0
    for cell in cells:
        size += len(str(cell)) + 4
        if size > _CHUNK and chunks[-1]:
            chunks.append([])
            size = len(str(cell)) + 4
        chunks[-1].append(cell)
    chunk_parameters = {f"{name}_{number}": chunk for number, chunk in enumerate(chunks)}
    parameters.values.update(chunk_parameters)
    listed = ", ".join(f"{{{parameter}:Array({native})}}" for parameter in chunk_parameters)
    return f"arrayConcat({listed})" if len(chunks) > 1 else listed
