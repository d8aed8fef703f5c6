"""The PostgreSQL engine: a table on a server, aggregated by the server itself."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg

from setwise.analytics.bins import Group
from setwise.analytics.engines import bounding
from setwise.analytics.engines.aggregation import Aggregation, label_kind
from setwise.analytics.engines.base import CANCELLED, Engine, SqlEngineQuery, without_driver_error
from setwise.analytics.engines.bounding import Parameters, SaltSource, StatementBuilder, label_columns
from setwise.analytics.engines.joins import Relation, ServerJoin
from setwise.analytics.engines.postgresql.dialect import PostgresqlDialect
from setwise.analytics.engines.postgresql.tables import (
    find_join,
    find_table,
    quoted_table,
    read_relations,
    store_table,
    table_fingerprint,
)
from setwise.analytics.engines.prepared import Manifest
from setwise.analytics.engines.registry import OpenRequest
from setwise.analytics.engines.results import arrow_table, label_names
from setwise.analytics.rows.derivation import Derivation
from setwise.analytics.schema import Column, Kind
from setwise.errors import EngineFailed
from setwise.mechanisms.labels import Cell

if TYPE_CHECKING:
    import pyarrow as pa

_SERVER_SALT = "hashtextextended(CAST(gen_random_uuid() AS text), 0)"
"""SQL expression for a salt that the server draws, so that no log of statements or parameters contains it."""

_PAIRS = "pg_temp.setwise_pairs"
"""The temporary table that holds the pairs of user and group between rounds of discovery."""

_MAY_STORE = "SELECT has_database_privilege(current_database(), 'TEMP') AND NOT pg_is_in_recovery()"
"""Whether this login can make a temporary table on this server."""

PROBED_ROWS = 20_000
"""Approximate number of rows that are sampled to learn how often a user's items repeat."""

Repetition: TypeAlias = dict[tuple[str, tuple[Group, ...]], tuple[int | None, int]]
"""The number of sampled rows and of their (user, item) pairs, by user column and groups."""


class PostgresqlEngine(Engine):
    """Engine for a table, a view or a join of tables on a PostgreSQL server; each query has a read-only connection.

    - `url` is the address of the server.
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
        self._url = url
        self._salts = salts
        self._repetition: Repetition = {}
        self._source = source
        with self._connect() as connection:
            self._base = self._look_up_relation(connection)
        self._relation = self._base.derive(derivation, PostgresqlDialect())
        self._schema, self._manifest = self._relation.schema, self._relation.manifest
        self._origin = self._relation.origin

    def rows(self) -> int | None:
        """Return PostgreSQL's estimate of the table's number of rows, or None if the table was never analysed.

        For a join it is the estimate for the private table.
        """
        return self._relation.rows

    @without_driver_error
    def relations(self) -> tuple[str, ...]:
        """Return the schema-qualified names of the tables that this engine reads, and of those below them.

        Tables are below a view, and partitions are below their table. If the names of two engines overlap, both read
        the same data. A prepared dataset (a stored random ranking of each user's groups) has the names of the table
        that it was prepared from. For a join and for a derived table no names are found: the result is empty.
        """
        origin = self._origin if self._manifest is None else self._manifest.origin
        if origin is None:
            return ()
        with self._connect() as connection:
            return read_relations(connection, origin)

    def close(self) -> None:
        """Do nothing: every connection is closed at the end of its query."""

    @contextmanager
    def _engine_query(self, aggregation: Aggregation) -> Iterator["PostgresqlEngineQuery"]:
        with self._connect() as connection:
            # This statement locks every underlying table, so that none is redefined before the query has run.
            # The empty list of parameters makes the driver read %% in the quoted name as a percent sign.
            connection.execute(f"SELECT FROM {self._base.text} LIMIT 0", [])
            self._base.check_same(self._look_up_relation(connection))
            yield PostgresqlEngineQuery(aggregation, self._relation, connection, self._salts, self._repetition)

    @contextmanager
    def _weights_query(self, aggregation: Aggregation) -> Iterator["PostgresqlEngineQuery"]:
        """Return a context manager that yields the query of `aggregation` for the private search for groups.

        If the login (the database user) may create temporary tables, the (user, group) pairs are stored in one.
        Otherwise every round of the search (partition selection) reads the rows again. Rows are read in a transaction
        that is read-only except for temporary tables.
        Raises: on entering, `UnsuitableTable` for a prepared dataset, which stores how many users have a group, but not
        which users.
        """
        self._check_has_users()
        with self._connect(read_only=False) as connection:
            query = PostgresqlEngineQuery(aggregation, self._relation, connection, self._salts, self._repetition)
            allowed = connection.execute(_MAY_STORE).fetchone() == (True,)
            if allowed:
                # created in a transaction of its own: the next one, which reads rows, is read-only
                query.make_pairs_table()
            connection.commit()
            connection.read_only = True
            connection.execute("SET LOCAL datestyle = 'ISO'")
            connection.execute(f"SELECT FROM {self._base.text} LIMIT 0", [])
            self._base.check_same(self._look_up_relation(connection))
            yield query

    def _check_definition(self) -> None:
        with self._connect() as connection:
            self._base.check_same(self._look_up_relation(connection))

    def _look_up_relation(self, connection: "psycopg.Connection[Any]") -> Relation:
        """Return the SQL text and columns of the table or join, as `connection` finds them in the catalogue now."""
        if isinstance(self._source, str):
            return find_table(connection, self._source)
        return find_join(connection, self._source)

    def _fingerprint(self, origin: str) -> str:
        with self._connect() as connection:
            return table_fingerprint(connection, origin, quoted_table(origin))

    def _store(self, aggregation: Aggregation, manifest: Manifest, destination: str) -> None:
        """Rank at random each user's groups in `aggregation`; write the ranks to the table `destination`.

        A later query that counts a user in at most k groups reads the ranks 1 to k. `manifest`, the description of the
        dataset, becomes the table's comment. The rows and the comment are written in one transaction.
        """
        with self._connect(read_only=False) as connection:
            query = PostgresqlEngineQuery(aggregation, self._relation, connection, self._salts, self._repetition)
            store_table(connection, quoted_table(destination), *query.prepared_statement(), manifest)

    @contextmanager
    def _connect(self, *, read_only: bool = True) -> Iterator["psycopg.Connection[Any]"]:
        """Context manager that yields a new connection in one transaction, which is read-only if `read_only`.

        `Engine.cancel` stops the statement that runs on the connection.

        Raises: `EngineFailed`, with fixed messages, if the server cannot be reached or a statement fails.
        """
        with _failures("the PostgreSQL server cannot be reached or refuses the login"):
            connection = psycopg.connect(
                self._url, connect_timeout=10, application_name="setwise", client_encoding="UTF8"
            )
        try:
            stop = partial(connection.cancel_safe, timeout=5)
            with self._cancellable(stop), _failures("PostgreSQL could not answer the query"), connection:
                connection.read_only = read_only
                connection.execute("SET LOCAL datestyle = 'ISO'")
                yield connection
        finally:
            connection.close()


def open_tables(request: OpenRequest) -> PostgresqlEngine:
    """Return a PostgreSQL engine that reads the server's tables that `request` names.

    As `request` says, the tables are joined, and the joined rows are filtered, grouped per user or given computed
    columns.
    """
    return PostgresqlEngine(request.address, request.server_source(), derivation=request.derivation)


class PostgresqlEngineQuery(SqlEngineQuery):
    """One `aggregation` of `relation`, a PostgreSQL table or join, as SQL statements on a `connection` of its own.

    - `salts`, for tests, returns the secret numbers by which users' groups are chosen at random. None lets the server
      draw them.
    - `repetition` is a cache that all queries of the engine share. Its keys are (user column, group columns). Its
      values are two counts in a sample of the users: of rows, and of distinct (user, group) pairs. From their ratio the
      query chooses the faster of two equivalent SQL statements.
    """

    def __init__(
        self,
        aggregation: Aggregation,
        relation: Relation,
        connection: "psycopg.Connection[Any]",
        salts: SaltSource | None,
        repetition: Repetition,
    ) -> None:
        super().__init__(aggregation, PostgresqlDialect(), relation.text, relation.schema, relation.manifest)
        self._connection = connection
        self._table_rows = relation.rows
        self._repetition = repetition
        self._stores_pairs = False
        self._pairs_stored = False
        salt = _SERVER_SALT if salts is None else f"CAST({self._builder.parameters.add(salts())} AS bigint)"
        self._secret = f"WITH secret AS MATERIALIZED (SELECT {salt} AS salt)"

    def prepared_statement(self) -> tuple[str, dict[str, object]]:
        """Return (SQL, parameters): the SELECT whose rows (item, n, rank, users) a prepared dataset stores.

        A prepared dataset stores each user's groups in a random order, so that a later question can keep the first N
        groups of each user, whatever its N is. A row says that `users` users have the group `item` at position
        `rank` of their order. Each of them adds n, a number of rows or a sum of values, to that group. The parameters
        are the values of the SQL's placeholders, by name. The statement draws its secret salt (the random number that
        decides the order) itself, unless the salt is given for tests.
        """
        statement, values = super().prepared_statement()
        return f"{self._secret} {statement}", values

    def make_pairs_table(self) -> None:
        """Create an empty temporary table (g0, g1, ..., u) for pairs of a group and a user u who counts in it.

        Columns g0, g1, ... are the labels of the group. The first round of the private search for groups (partition
        selection) fills the table, and later rounds read it.
        """
        # CREATE TABLE takes no parameters, and constants of a filter must not become part of its text. So the columns
        # come from a SELECT without the filter, which is not run.
        plain = replace(self._aggregation, where=None, null_item=None)
        rows = StatementBuilder(
            self._builder.dialect, self._builder.relation, self._builder.schema, Parameters(self._builder.dialect)
        ).rows(plain)
        columns = f"{label_columns(plain)}, u"
        statement = f"CREATE TEMP TABLE {_PAIRS} AS SELECT {columns} FROM ({rows}) AS counted WITH NO DATA"
        self._connection.execute(statement, [])
        self._stores_pairs = True

    def _keep_pairs(self) -> str | None:
        if self._stores_pairs and not self._pairs_stored:
            statement = f"INSERT INTO {_PAIRS} {self._secret} {self._kept_pairs(self._rows())}"
            self._connection.execute(statement, self._builder.parameters.values)
            self._pairs_stored = True
        return _PAIRS if self._stores_pairs else None

    def _fixed_errors(self) -> AbstractContextManager[object]:
        return _failures("PostgreSQL could not answer the query")

    def _salt(self) -> str:
        return "(SELECT salt FROM secret)"

    def _rows_rarely_repeat(self) -> bool:
        """Return whether this query is faster if it numbers rows by window functions than if it groups them by user.

        Numbering is faster if few users have several rows of one group, as a sample of the users shows. The first query
        with a user column and groups makes the estimate, and later ones reuse it. The result is False if the size of
        the table is not known.
        """
        if self._table_rows is None:
            return False
        # An old estimate, or one with another filter, does no harm: it decides only between equivalent SQL forms.
        key = self._aggregation.user, self._aggregation.groups
        if key not in self._repetition:
            column = self._builder.schema.column(self._aggregation.user)
            user = self._builder.dialect.user(column)
            hashed = f"hashtextextended(CAST({user} AS text), 0)"
            if column.kind is Kind.INTEGER:  # hashing integers takes half the time of hashing text
                hashed = f"hashint8extended(CAST({user} AS bigint), 0)"
            statement = self._probe(f"MOD({hashed}, {max(1, self._table_rows // PROBED_ROWS)}) = 0")
            [self._repetition[key]] = self._connection.execute(statement, self._builder.parameters.values).fetchall()
        return bounding.rows_rarely_repeat(*self._repetition[key])

    def _membership(self, labels: Sequence[str], columns: Sequence[Column], rows: Sequence[tuple[Cell, ...]]) -> str:
        possible = [row for row in rows if not any("\0" in cell for cell in row if isinstance(cell, str))]
        arrays = []
        for place, column in enumerate(columns):
            native = "bigint" if label_kind(column) is int else "text"
            arrays.append(f"CAST({self._builder.parameters.add([row[place] for row in possible])} AS {native}[])")
        return f"({', '.join(labels)}) IN (SELECT * FROM unnest({', '.join(arrays)}))"

    def _fetch(self, statement: str, numbers: Sequence[str]) -> "pa.Table":
        after = f", {statement[5:]}" if statement.startswith("WITH ") else f" {statement}"  # SQL allows only one WITH
        rows = self._connection.execute(f"{self._secret}{after}", self._builder.parameters.values).fetchall()
        names = [*label_names(self._aggregation), *numbers]
        return arrow_table(dict(zip(names, zip(*rows, strict=True) if rows else [()] * len(names), strict=True)))


@contextmanager
def _failures(sentence: str) -> Iterator[None]:
    """Context manager that replaces psycopg's errors, which quote rows, statements and addresses, by `EngineFailed`.

    The new errors have fixed messages: one for a cancelled query, one for a missing privilege, and `sentence` for all
    other errors.
    """
    try:
        yield
    except psycopg.errors.QueryCanceled:
        raise EngineFailed(CANCELLED) from None
    except psycopg.errors.InsufficientPrivilege:
        raise EngineFailed("PostgreSQL does not let this login read the table") from None
    except (psycopg.Error, UnicodeEncodeError):
        raise EngineFailed(sentence) from None
