"""ClickHouse: a table of a server, or of a chDB folder read inside this process, bounded and counted there."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from setwise.analytics.engines.aggregation import Aggregation, label_kind
from setwise.analytics.engines.base import Engine, SqlQuestion, without_driver_error
from setwise.analytics.engines.bounding import Parameters, SaltSource
from setwise.analytics.engines.clickhouse.connection import Ask, Columns, Connection
from setwise.analytics.engines.clickhouse.dialect import ClickHouseDialect
from setwise.analytics.engines.clickhouse.tables import ClickHouseCatalogue, store_table, table_fingerprint
from setwise.analytics.engines.joins import Relation, ServerJoin
from setwise.analytics.engines.prepared import Manifest
from setwise.analytics.engines.results import arrow_table, label_names
from setwise.analytics.rows.derivation import Derivation
from setwise.analytics.schema import Column
from setwise.mechanisms.labels import Cell

if TYPE_CHECKING:
    import pyarrow as pa

_SERVER_SALT = "assumeNotNull((SELECT rand64()))"
"""A salt that the server draws itself, once for a statement, so that no log of statements can hold it."""

_CHUNK = 50_000
"""Characters of a domain in one parameter; a server takes no more than 131,072 bytes."""


class ClickHouseEngine(Engine):
    """A table of ClickHouse, or a join; `source` is the name of a table or view, or a join of several.

    `salts` is for tests: without it the server draws the salt.
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
        self._connection = Connection(url)
        self._source = source
        self._catalogue = ClickHouseCatalogue(self._asked)
        try:
            self._base = self._looked_up()
            self._relation = self._base.derived(derivation, ClickHouseDialect())
        except BaseException:
            self.close()
            raise
        self._schema, self._manifest = self._relation.schema, self._relation.manifest
        self._origin = self._relation.origin

    def rows(self) -> int | None:
        """Return how many rows there are, where the table knows."""
        return self._relation.rows

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()

    @contextmanager
    def _question(self, aggregation: Aggregation) -> Iterator["ClickHouseQuestion"]:
        yield ClickHouseQuestion(aggregation, self._relation, self._asked, self._salts)

    def _check_definition(self) -> None:
        self._base.check_same(self._looked_up())

    def _looked_up(self) -> Relation:
        """Return the table or join as the server's catalogue defines it now."""
        find = self._catalogue.find
        return find(self._source) if isinstance(self._source, str) else self._source.found(find, ClickHouseDialect())

    def _fingerprint(self, origin: str) -> str:
        return table_fingerprint(self._asked, origin)

    def _store(self, aggregation: Aggregation, manifest: Manifest, destination: str) -> None:
        with self._question(aggregation) as question:
            store_table(self._asked, destination, *question.prepared(), manifest)

    def _asked(self, statement: str, parameters: Mapping[str, object]) -> Columns:
        comment = f"setwise-{uuid.uuid4().hex}"
        with self._cancellable(partial(self._connection.kill, comment)):
            return self._connection.ask(statement, parameters, comment)


class ClickHouseQuestion(SqlQuestion):
    """One aggregation on the connection."""

    def __init__(self, aggregation: Aggregation, relation: Relation, ask: Ask, salts: SaltSource | None) -> None:
        super().__init__(aggregation, ClickHouseDialect(), relation.text, relation.schema, relation.manifest)
        self._ask = ask
        self._salts = salts

    def _salt(self) -> str:
        return _SERVER_SALT if self._salts is None else f"toUInt64({self._builder.parameters.add(self._salts())})"

    def _membership(self, labels: Sequence[str], columns: Sequence[Column], rows: Sequence[tuple[Cell, ...]]) -> str:
        arrays = []
        for place, column in enumerate(columns):
            native = "Int64" if label_kind(column) is int else "String"
            arrays.append(_array([row[place] for row in rows], f"d{place}", native, self._builder.parameters))
        wide = [column.native == "UInt64" for column in columns]  # a domain may hold negative numbers
        sought = [f"toInt128({label})" if each else label for each, label in zip(wide, labels, strict=True)]
        listed = arrays[0] if len(arrays) == 1 else f"arrayZip({', '.join(arrays)})"
        return f"({', '.join(sought)}) IN (SELECT arrayJoin({listed}))"

    def _fetched(self, statement: str, numbers: Sequence[str]) -> "pa.Table":
        found = self._ask(statement, self._builder.parameters.values)
        return arrow_table({name: found.get(name, ()) for name in (*label_names(self._aggregation), *numbers)})


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
