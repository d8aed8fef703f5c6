"""PostgreSQL: a table on a server, bounded and counted there."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from setwise.analytics.bins import Group
from setwise.analytics.engines import bounding
from setwise.analytics.engines.aggregation import Aggregation, label_kind
from setwise.analytics.engines.base import Engine, SqlQuestion, without_driver_error
from setwise.analytics.engines.bounding import SaltSource
from setwise.analytics.engines.joins import Relation, ServerJoin
from setwise.analytics.engines.postgresql.dialect import PostgresqlDialect
from setwise.analytics.engines.prepared import Manifest
from setwise.analytics.engines.results import arrow_table, label_names
from setwise.analytics.rows.derivation import Derivation
from setwise.analytics.schema import Column, Kind
from setwise.errors import EngineFailed, MissingExtra
from setwise.mechanisms.labels import Cell

try:
    import psycopg
except ImportError:  # pragma: no cover - said in one sentence instead
    raise MissingExtra("PostgreSQL needs psycopg: pip install 'setwise[postgres]'") from None

from setwise.analytics.engines.postgresql.tables import (
    found_join,
    found_table,
    quoted_table,
    read_relations,
    store_table,
    table_fingerprint,
)

if TYPE_CHECKING:
    import pyarrow as pa

_SERVER_SALT = "hashtextextended(CAST(gen_random_uuid() AS text), 0)"
"""A salt that the server draws itself, so that no log of statements or parameters can hold it."""

PROBED_ROWS = 20_000
"""About how many rows are looked at to learn how often a user's items repeat."""

Repetition: TypeAlias = dict[tuple[str, tuple[Group, ...]], tuple[int | None, int]]
"""How many rows and how many pairs of user and item were seen, by user column and groups."""


class PostgresqlEngine(Engine):
    """A table of a PostgreSQL server, or a join; every question runs on a connection of its own, for reading only.

    `source` is the name of a table or view, or a join of several. `salts` is for tests: without it the server draws the
    salt.
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
        with self._connected() as connection:
            self._base = self._looked_up(connection)
        self._relation = self._base.derived(derivation, PostgresqlDialect())
        self._schema, self._manifest = self._relation.schema, self._relation.manifest
        self._origin = self._relation.origin

    def rows(self) -> int | None:
        """Return the planner's estimate of how many rows there are."""
        return self._relation.rows

    @without_driver_error
    def relations(self) -> tuple[str, ...]:
        """Return the tables that are read, a view with the tables under it, each with its schema."""
        origin = self._origin if self._manifest is None else self._manifest.origin
        if origin is None:
            return ()
        with self._connected() as connection:
            return read_relations(connection, origin)

    def close(self) -> None:
        """Nothing to let go of: connections end with their questions."""

    @contextmanager
    def _question(self, aggregation: Aggregation) -> Iterator["PostgresqlQuestion"]:
        with self._connected() as connection:
            # Takes locks on every table below, so that none is redefined before the question is answered.
            # The empty list of parameters makes the driver read %% in the quoted name as a percent sign.
            connection.execute(f"SELECT FROM {self._base.text} LIMIT 0", [])
            self._base.check_same(self._looked_up(connection))
            yield PostgresqlQuestion(aggregation, self._relation, connection, self._salts, self._repetition)

    def _check_definition(self) -> None:
        with self._connected() as connection:
            self._base.check_same(self._looked_up(connection))

    def _looked_up(self, connection: "psycopg.Connection[Any]") -> Relation:
        """Return the table or join as the server's catalogue defines it now."""
        if isinstance(self._source, str):
            return found_table(connection, self._source)
        return found_join(connection, self._source)

    def _fingerprint(self, origin: str) -> str:
        with self._connected() as connection:
            return table_fingerprint(connection, origin, quoted_table(origin))

    def _store(self, aggregation: Aggregation, manifest: Manifest, destination: str) -> None:
        """Write a table with the ranked contributions, and the manifest as its comment, in one transaction."""
        with self._connected(read_only=False) as connection:
            question = PostgresqlQuestion(aggregation, self._relation, connection, self._salts, self._repetition)
            store_table(connection, quoted_table(destination), *question.prepared(), manifest)

    @contextmanager
    def _connected(self, *, read_only: bool = True) -> Iterator["psycopg.Connection[Any]"]:
        """Give a connection of its own to a question, known to `cancel`."""
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


class PostgresqlQuestion(SqlQuestion):
    """One aggregation on a connection of its own."""

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
        salt = _SERVER_SALT if salts is None else f"CAST({self._builder.parameters.add(salts())} AS bigint)"
        self._secret = f"WITH secret AS MATERIALIZED (SELECT {salt} AS salt)"

    def prepared(self) -> tuple[str, dict[str, object]]:
        """Return the statement of what a prepared dataset holds, under a salt that is drawn in it."""
        statement, values = super().prepared()
        return f"{self._secret} {statement}", values

    def _salt(self) -> str:
        return "(SELECT salt FROM secret)"

    def _rows_rarely_repeat(self) -> bool:
        """Whether users rarely have several rows for an item; learned once, from some users of a table of known size.

        Either form gives the same histogram, so what was learned may be old, or about rows that a filter leaves out.
        """
        if self._table_rows is None:
            return False
        key = self._aggregation.user, self._aggregation.groups
        if key not in self._repetition:
            column = self._builder.schema.column(self._aggregation.user)
            user = self._builder.dialect.user(column)
            hashed = f"hashtextextended(CAST({user} AS text), 0)"
            if column.kind is Kind.INTEGER:  # in half the time
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

    def _fetched(self, statement: str, numbers: Sequence[str]) -> "pa.Table":
        after = f", {statement[5:]}" if statement.startswith("WITH ") else f" {statement}"  # one WITH is allowed
        found = self._connection.execute(f"{self._secret}{after}", self._builder.parameters.values).fetchall()
        names = [*label_names(self._aggregation), *numbers]
        return arrow_table(dict(zip(names, zip(*found, strict=True) if found else [()] * len(names), strict=True)))


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
