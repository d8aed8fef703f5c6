"""What is read of ClickHouse: a table or view by its name, or several of them joined."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from setwise.analytics.engines.clickhouse.dialect import ClickHouseDialect, clickhouse_column, quoted
from setwise.analytics.engines.clickhouse.prepared import stored_manifest, table_fingerprint
from setwise.analytics.engines.joins import Join, NamedTable, Relation, joined_relations, refuse_to_prepare
from setwise.analytics.schema import Schema
from setwise.errors import UnsuitableTable

Columns: TypeAlias = Mapping[str, Sequence[Any]]
Ask: TypeAlias = Callable[[str, Mapping[str, object]], Columns]
"""Runs a statement with parameters and returns its columns by name; none when there are no rows."""

_TABLE = """
    SELECT engine, total_rows, comment FROM system.tables
    WHERE database = if(empty({database:String}), currentDatabase(), {database:String}) AND name = {table:String}
"""
_COLUMNS = """
    SELECT name, type FROM system.columns
    WHERE database = if(empty({database:String}), currentDatabase(), {database:String}) AND table = {table:String}
        AND default_kind NOT IN ('ALIAS', 'EPHEMERAL')
    ORDER BY position
"""
_STORED = ("Memory", "Log", "TinyLog", "StripeLog", "Buffer", "Dictionary")
_OF_OTHERS = ("Distributed", "Merge", "View", "MaterializedView")


class ClickHouseSource(Protocol):
    """What an engine can be opened on."""

    def found(self, ask: Ask) -> Relation:
        """Look up the source in the catalogue, or raise `UnsuitableTable`."""
        ...

    def origin(self, ask: Ask) -> tuple[str, str]:
        """Return its name and the fingerprint of its parts, or raise `UnsuitableTable`."""
        ...


@dataclass(frozen=True, slots=True)
class ClickHouseTable:
    """A table or view by its name, with or without a database.

    Computed columns (ALIAS) are left out, because a row could make their expressions fail.
    """

    name: str

    @property
    def text(self) -> str:
        """The name in quotes."""
        return ".".join(quoted(part) for part in self.parts.values() if part)

    @property
    def parts(self) -> dict[str, str]:
        """The database, empty for that of the connection, and the name in it, as parameters."""
        database, _, name = self.name.rpartition(".")
        return {"database": database, "table": name}

    def comment(self, ask: Ask) -> str | None:
        """Return the table's comment, or None where there is no such table."""
        found = ask(_TABLE, self.parts)
        return str(found["comment"][0]) if found else None

    def found(self, ask: Ask) -> Relation:
        """Look up the table in the catalogue."""
        found = ask(_TABLE, self.parts)
        if not found:
            raise UnsuitableTable(f"ClickHouse has no table {self.name!r} that this login may see")
        engine, rows = str(found["engine"][0]), found["total_rows"][0]
        if not engine.endswith("MergeTree") and engine not in (*_STORED, *_OF_OTHERS):
            raise UnsuitableTable(
                f"{self.name!r} is a table of the engine {engine}, whose rows are converted when they are read: "
                "copy it to a MergeTree table"
            )
        columns = ask(_COLUMNS, self.parts)
        return Relation(
            text=self.text,
            schema=Schema(tuple(map(clickhouse_column, columns["name"], columns["type"]))),
            rows=None if rows is None else int(rows),
            manifest=stored_manifest(str(found["comment"][0])),
        )

    def origin(self, ask: Ask) -> tuple[str, str]:
        """Return the table's name and the fingerprint of its parts."""
        return self.name, table_fingerprint(ask, self.name, self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClickHouseJoin:
    """Tables of one server, the first of them private, that are joined by it."""

    tables: Sequence[NamedTable[ClickHouseTable]]
    joins: Sequence[Join]
    user: str

    def found(self, ask: Ask) -> Relation:
        """Look up every table in the catalogue, and see that the join is one."""
        relations = [each.table.found(ask) for each in self.tables]
        joined = joined_relations(self.tables, relations, self.joins, self.user)
        text = joined.statement([relation.text for relation in relations], ClickHouseDialect())
        return Relation(text=text, schema=joined.schema, rows=relations[0].rows)

    def origin(self, ask: Ask) -> tuple[str, str]:
        """Refuse: a prepared dataset is made of one table."""
        del ask
        refuse_to_prepare()
