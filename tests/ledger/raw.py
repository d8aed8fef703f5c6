"""The tables of a ledger by the bare driver, past everything that Setwise does."""

import sqlite3
from contextlib import contextmanager

import psycopg


@contextmanager
def raw_connection(url):
    """Yield a function that runs a statement and returns its rows; statements are kept at the end."""
    if "://" in url:
        with psycopg.connect(url, autocommit=True) as connection:
            yield lambda statement, *values: _rows(connection.execute(statement.replace("?", "%s"), values or None))
    else:
        connection = sqlite3.connect(url, isolation_level=None, timeout=60)
        try:
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA synchronous = OFF")  # a flush for each of thousands of statements takes seconds
            yield lambda statement, *values: _rows(connection.execute(statement, values))
        finally:
            connection.close()


def _rows(cursor):
    return cursor.fetchall() if cursor.description else []


@contextmanager
def without_triggers(url):
    """The same, as an intruder who owns the database: no trigger and no foreign key is in the way."""
    with raw_connection(url) as run:
        if "://" in url:
            run("SET session_replication_role = replica")
            yield run
        else:
            run("PRAGMA foreign_keys = OFF")
            run("PRAGMA ignore_check_constraints = ON")
            triggers = run("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'")
            for name, _ in triggers:
                run(f"DROP TRIGGER {name}")
            yield run
            for _, statement in triggers:
                run(statement)
