"""Tables that DuckDB joins as it reads them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from setwise.analytics.engines.duckdb.dialect import SOURCE, DuckDBDialect
from setwise.analytics.engines.duckdb.tables import DuckDBTable, TypedTable, described
from setwise.analytics.engines.joins import Join, JoinedTables, NamedTable, Part, types_of_keys
from setwise.analytics.schema import Schema

if TYPE_CHECKING:
    import duckdb


class JoinedTable:
    """A private table with the tables that are joined to it.

    A key that is text in a public table, as all of a CSV file is, is read as the kind that it is joined with.
    """

    def __init__(self, tables: Sequence[NamedTable[DuckDBTable]], joins: Sequence[Join], user: str) -> None:
        self._tables = list(tables)
        self._joins = tuple(joins)
        self._user = user
        self._joined: JoinedTables | None = None
        self.files: tuple[Path, ...] = tuple(file for each in tables for file in each.table.files)
        self.origin: str | None = None
        self.columnar = all(each.table.columnar for each in tables)

    def attach(self, connection: "duckdb.DuckDBPyConnection") -> None:
        """Make every table ready, and see that the join is one."""
        parts: list[Part] = []
        for place, each in enumerate(self._tables):
            each.table.attach(connection)
            schema = _described(each.table, connection)
            types = {} if each.private or not parts else types_of_keys(self._joins[place - 1], parts, schema)
            if types:
                typed = TypedTable(each.table, types)
                typed.attach(connection)
                self._tables[place] = NamedTable(name=each.name, table=typed)
                schema = _described(typed, connection)
            parts.append(Part(name=each.name, schema=schema, private=each.private))
        self._joined = JoinedTables(parts, self._joins, self._user)

    def described(self, schema: Schema) -> Schema:
        """Return the columns of the join, those marked that are read from text."""
        del schema
        return self._found.schema

    def relation(
        self, cursor: "duckdb.DuckDBPyConnection", columns: Sequence[str] | None = None, name: str = SOURCE
    ) -> str:
        """Return the join as a relation."""
        relations = [
            each.table.relation(cursor, self._found.needed(place, columns), f"{name}_{place}")
            for place, each in enumerate(self._tables)
        ]
        return self._found.statement(relations, DuckDBDialect(), columns)

    def rows(self, cursor: "duckdb.DuckDBPyConnection") -> int | None:
        """Return how many rows the first table has: how many the join has, only reading tells."""
        return self._tables[0].table.rows(cursor)

    @property
    def _found(self) -> JoinedTables:
        assert self._joined is not None, "attach comes first"
        return self._joined


def _described(table: DuckDBTable, connection: "duckdb.DuckDBPyConnection") -> Schema:
    schema = described(table, connection)
    return table.described(schema) if isinstance(table, TypedTable) else schema
