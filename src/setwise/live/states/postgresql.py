"""The private state of a live series (counted users and noise) in tables of the PostgreSQL database with the data.

A live series is a set of noisy user counts that is charged once and released period by period.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from setwise.errors import EngineFailed, MissingExtra
from setwise.live.states.base import (
    SELECTION,
    UNSEEN,
    Batch,
    SeriesState,
    StateUpdate,
    busy,
    text_candidates,
)

try:
    import psycopg
except ImportError:  # pragma: no cover - tests install psycopg
    raise MissingExtra("PostgreSQL needs psycopg: pip install 'setwise[postgres]'") from None

if TYPE_CHECKING:
    import pyarrow as pa

_TABLES = (
    "CREATE TABLE IF NOT EXISTS setwise_live_series (series text PRIMARY KEY, token text NOT NULL)",
    """CREATE TABLE IF NOT EXISTS setwise_live_pairs (
        series text NOT NULL, u text COLLATE "C" NOT NULL, g text COLLATE "C" NOT NULL, period integer NOT NULL)""",
    # A hash index takes texts of any length. A B-tree refuses those above about 2,700 bytes, so that a single row with
    # a long text would make every update fail.
    "CREATE INDEX IF NOT EXISTS setwise_live_pairs_user ON setwise_live_pairs USING hash (u)",
    """CREATE TABLE IF NOT EXISTS setwise_live_batches (
        series text NOT NULL, start integer NOT NULL, body text NOT NULL, PRIMARY KEY (series, start))""",
)

_HAS_KEY = """
    SELECT 1 FROM pg_constraint WHERE conname = 'setwise_live_pairs_pkey' AND conrelid = 'setwise_live_pairs'::regclass
"""
"""Query that finds the B-tree key which earlier versions put on the pairs."""

_DIGEST = "\x01sha256:"

_OTHERS_WITH_RIGHTS = """
    SELECT DISTINCT CASE grantee WHEN 0 THEN 'PUBLIC' ELSE grantee::regrole::text END
    FROM pg_class CROSS JOIN aclexplode(relacl)
    WHERE grantee <> relowner AND oid IN (
        'setwise_live_series'::regclass, 'setwise_live_pairs'::regclass, 'setwise_live_batches'::regclass)
"""
"""Query for the roles, quoted where needed, that have rights on the tables without owning them.

A database may give rights on new tables to other roles by default (ALTER DEFAULT PRIVILEGES).
"""


class PostgresqlState(SeriesState):
    """The private state of the live series `name`: its rows in tables that all series of a PostgreSQL database share.

    The private state stores which users were counted, and the noise. The database is at `url`, and only the owner of
    the tables can read them.
    """

    def __init__(self, url: str, name: str) -> None:
        self._url = url
        self._name = name

    def token(self) -> str | None:
        with self._transaction() as connection:
            if connection.execute("SELECT to_regclass('setwise_live_series')").fetchone() == (None,):
                return None
            row = connection.execute(
                "SELECT token FROM setwise_live_series WHERE series = %s", (self._name,)
            ).fetchone()
            return None if row is None else str(row[0])

    def create(self, token: str) -> None:
        with self._transaction() as connection:
            # CREATE TABLE IF NOT EXISTS fails if two sessions run it at once, so a lock lets one go first.
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended('setwise_live', 0))")
            for statement in _TABLES:
                connection.execute(statement)
            _drop_earlier_key(connection)
            for (role,) in connection.execute(_OTHERS_WITH_RIGHTS).fetchall():
                connection.execute(
                    f"REVOKE ALL ON setwise_live_series, setwise_live_pairs, setwise_live_batches FROM {role}"
                )
            connection.execute(
                "INSERT INTO setwise_live_series VALUES (%s, %s) ON CONFLICT DO NOTHING", (self._name, token)
            )

    def batches(self) -> list[Batch]:
        with self._transaction() as connection:
            rows = connection.execute(
                "SELECT body FROM setwise_live_batches WHERE series = %s ORDER BY start", (self._name,)
            ).fetchall()
        return [Batch.read(body) for (body,) in rows]

    def count(self, candidates: "pa.Table", update: StateUpdate) -> Batch:
        rows, label_of = text_candidates(candidates)
        labels = {_storable(group): group for group in rows.column("g").unique().to_pylist()}
        with self._transaction() as connection:
            locked = connection.execute(
                "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 1))", (self._name,)
            ).fetchone()
            if locked != (True,):
                raise busy(self._name)
            _drop_earlier_key(connection)
            connection.execute(
                'CREATE TEMPORARY TABLE candidates (u text COLLATE "C", g text COLLATE "C", day text COLLATE "C", '
                "period integer) ON COMMIT DROP"
            )
            with connection.cursor().copy("COPY candidates (u, g, day, period) FROM STDIN") as copy:
                for record in rows.select(["u", "g", "day", "period"]).to_batches():
                    for user, group, *rest in zip(*(column.to_pylist() for column in record.columns), strict=True):
                        copy.write_row((_storable(user), _storable(group), *rest))
            own_pairs = "(SELECT u, g FROM setwise_live_pairs WHERE series = %(series)s)"
            new = SELECTION.format(
                candidates="candidates",
                pairs=own_pairs,
                unseen=UNSEEN.format(pairs=own_pairs),
                order="md5(concat((SELECT token FROM setwise_live_series WHERE series = %(series)s), "
                "fresh.u, chr(10), fresh.g))",
                contributions=int(update.contributions),
            )
            named = {"series": self._name, "first": update.first}
            connection.execute(f"INSERT INTO setwise_live_pairs SELECT %(series)s, n.* FROM ({new}) AS n", named)
            counted = connection.execute(
                "SELECT g, period, COUNT(*) FROM setwise_live_pairs WHERE series = %(series)s AND period >= %(first)s "
                "GROUP BY g, period",
                named,
            ).fetchall()
            counts = [(label_of(labels[group]), int(period), int(count)) for group, period, count in counted]
            batch = update.batch(counts)
            connection.execute(
                "INSERT INTO setwise_live_batches VALUES (%s, %s, %s)", (self._name, update.first, batch.to_text())
            )
        return batch

    def destroy(self) -> None:
        with self._transaction() as connection:
            for table in ("pairs", "batches", "series"):
                connection.execute(f"DELETE FROM setwise_live_{table} WHERE series = %s", (self._name,))

    def close(self) -> None:
        """Do nothing: connections are closed at the end of each transaction."""

    @contextmanager
    def _transaction(self) -> "Iterator[psycopg.Connection[Any]]":
        """Yield a connection to the private state of a live series, in one transaction.

        Raises: `EngineFailed` in place of every error of the driver, whose own messages may quote users.
        """
        engine_error = EngineFailed(
            "the PostgreSQL server cannot be reached, or the state of the series cannot be written"
        )
        try:
            with psycopg.connect(
                self._url, connect_timeout=10, application_name="setwise", client_encoding="UTF8"
            ) as connection:
                yield connection
                return
        except psycopg.errors.InsufficientPrivilege:
            engine_error = EngineFailed(
                "PostgreSQL does not let this login keep the state of the series in tables of its own"
            )
        except psycopg.errors.UniqueViolation:
            engine_error = busy(self._name)
        except psycopg.Error:
            pass
        raise engine_error


def _storable(text: str) -> str:
    """Return the text under which a user or a group called `text` is stored: usually `text` itself.

    PostgreSQL cannot store the character NUL, so a text with NUL is stored as its SHA-256 digest with a mark before it.
    A text that begins with this mark is stored as a digest too, so that different texts stay different.
    """
    if "\0" not in text and not text.startswith(_DIGEST):
        return text
    return _DIGEST + hashlib.sha256(text.encode()).hexdigest()


def _drop_earlier_key(connection: "psycopg.Connection[Any]") -> None:
    """Replace the primary key of the table of counted pairs by a hash index, if an earlier version created the table.

    The index of the key refuses texts above about 2,700 bytes, so that one long user name would make every update fail.
    The key itself is not needed, because a lock lets only one update of a series run at a time. `connection` is in an
    open transaction.
    """
    if connection.execute(_HAS_KEY).fetchone() is not None:
        # Nothing relies on the key: an advisory lock lets one update of a series run at a time, and the key of the
        # table of batches refuses a second count of a period.
        connection.execute("ALTER TABLE setwise_live_pairs DROP CONSTRAINT IF EXISTS setwise_live_pairs_pkey")
        connection.execute(_TABLES[2])
