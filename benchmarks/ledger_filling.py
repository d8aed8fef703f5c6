"""A million entries at once: written past the triggers, with the hashes and balances they would have had."""

import sqlite3
from collections.abc import Iterator

import psycopg

from setwise.ledger.records import Contents, link
from setwise.ledger.stores import sqlite_triggers
from setwise.ledger.stores.base import Movement, write_moves

_ENTRIES = "holder, position, kind, key, period, at, uses, content, moves, digest, previous, hash"
_MOVEMENTS = "account, position, holder, period, what, amount"
_ACCOUNT = "SELECT holder, head, at FROM ledger_accounts WHERE name = "
_LINE = "pure:0.1"


def _entries(name: str, holder: int, head: str, at: int, count: int) -> Iterator[tuple[object, ...]]:
    said = {"kind": "charge", "period": "", "uses": f'["{_LINE}"]', "text": "count"}
    moves = write_moves([Movement(holder, "", _LINE, 1)])
    for position in range(1, count + 1):
        contents = Contents(account=name, key=f"old-{position}", moves=moves, **said)  # type: ignore[arg-type]
        own = contents.digest()
        hashed = link(head, position, at, own)
        yield (holder, position, "charge", contents.key, "", at, contents.uses, "count", moves, own, head, hashed)
        head = hashed


def fill_sqlite(url: str, name: str, count: int) -> None:
    """Give an account in SQLite many entries."""
    connection = sqlite3.connect(url)
    holder, head, at = connection.execute(_ACCOUNT + "?", (name,)).fetchone()
    for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {trigger}")
    last = ""

    def rows() -> Iterator[tuple[object, ...]]:
        nonlocal last
        for row in _entries(name, holder, head, at, count):
            last = str(row[-1])
            yield row

    connection.executemany(f"INSERT INTO ledger_entries ({_ENTRIES}) VALUES ({', '.join('?' * 12)})", rows())
    connection.executemany(
        f"INSERT INTO ledger_movements ({_MOVEMENTS}) VALUES (?, ?, ?, '', '{_LINE}', 1)",
        ((holder, position, holder) for position in range(1, count + 1)),
    )
    connection.execute(
        "INSERT INTO ledger_balances SELECT holder, '', what, total, ?, (SELECT max(number) FROM ledger_movements) "
        "FROM ledger_lines WHERE holder = ?",
        (count, holder),
    )
    connection.execute(
        "UPDATE ledger_accounts SET entries = ?, charges = ?, head = ? WHERE holder = ?", (count, count, last, holder)
    )
    for statement in sqlite_triggers.statements():
        connection.execute(statement)
    connection.commit()
    connection.close()


def fill_postgresql(url: str, name: str, count: int) -> None:
    """Give an account in PostgreSQL many entries."""
    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")  # no triggers in this session
        found = cursor.execute(_ACCOUNT + "%s", (name,)).fetchone()
        assert found is not None
        holder, head, at = found
        last = ""
        with cursor.copy(f"COPY ledger_entries ({_ENTRIES}) FROM STDIN") as copy:
            for row in _entries(name, holder, head, at, count):
                copy.write_row(row)
                last = str(row[-1])
        cursor.execute(
            f"INSERT INTO ledger_movements ({_MOVEMENTS}) "
            "SELECT %s, position, %s, '', %s, 1 FROM generate_series(1, %s) AS position",
            (holder, holder, _LINE, count),
        )
        cursor.execute(
            "INSERT INTO ledger_balances SELECT holder, '', what, total, %s, (SELECT max(number) FROM ledger_movements)"
            " FROM ledger_lines WHERE holder = %s",
            (count, holder),
        )
        cursor.execute(
            "UPDATE ledger_accounts SET entries = %s, charges = %s, head = %s WHERE holder = %s",
            (count, count, last, holder),
        )
