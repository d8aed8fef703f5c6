"""Versions of the schema: old stores are brought up, later ones refused."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from setwise.errors import StoreFailed
from setwise.ledger.ledger import Ledger
from setwise.ledger.stores import migrations
from setwise.ledger.stores.connect import connect
from setwise.ledger.stores.migrations import schema_faults
from tests.ledger.auditor import audit
from tests.ledger.raw import raw_connection
from tests.ledger.test_accounts import uses


def rows(url, statement):
    with raw_connection(url) as run:
        return run(statement)


def test_a_new_store_has_had_every_migration(ledger, store_url):
    assert rows(store_url, "SELECT version, name FROM ledger_versions ORDER BY version") == [
        (1, "tables"),
        (2, "triggers"),
        (3, "acts"),
        (4, "slices"),
    ]


@pytest.fixture
def old_url(store_url):
    """A store of version 2 as it was written then: a cap, a set-wise account with three entries, a filter with one."""
    kind = "postgresql" if "://" in store_url else "sqlite"
    script = (Path(__file__).parent / f"version_2.{kind}.sql").read_text()
    if kind == "postgresql":
        with psycopg.connect(store_url, autocommit=True) as connection:
            connection.execute(script)
    else:
        with closing(sqlite3.connect(store_url)) as connection:
            connection.executescript(script)
    return store_url


def test_a_store_of_version_2_is_brought_up(old_url, clock, tmp_path):
    with Ledger.open(old_url, clock=clock) as ledger:
        assert not ledger.verify().faults
        assert [(status.name, status.analyst, status.charges, status.state) for status in ledger.accounts()] == [
            ("ada", "Ada", 2, "open"),
            ("bob", "Bob", 1, "open"),
        ]
        account = ledger.account("ada")
        assert account.charge(uses("bounded-range:0.1x3", "pure:0.1"), key="one", request="q").answer == "tea"
        account.charge(uses("pure:0.1"), key="three", request="q")
        ledger.account("bob").charge(uses("gaussian:20"), key="l", request="q")
        ledger.freeze("ada", by="eve")
        assert (ledger.cap("visits").epsilon.method, ledger.cap("visits").charges) == ("zcdp-filter", 2)
        assert not ledger.verify().faults
    assert rows(old_url, "SELECT max(version) FROM ledger_versions") == [(4,)]
    audit(old_url)


def test_a_store_that_was_brought_up_is_like_a_new_one(old_url, tmp_path):
    """`schema_faults` compares every table, constraint and trigger with those of a new store."""
    Ledger.open(old_url).close()
    if "://" not in old_url:
        fresh = str(tmp_path / "fresh.db")
        Ledger.open(fresh).close()
        schema = "SELECT name, sql FROM sqlite_master WHERE sql NOT NULL AND name LIKE 'ledger_%' ORDER BY name"
        assert rows(old_url, schema) == rows(fresh, schema)
        assert rows(old_url, "PRAGMA integrity_check") == [("ok",)]
    store = connect(old_url, 0)
    with store.reading() as connection:
        assert schema_faults(connection) == []
    store.close()


def test_a_store_of_a_later_version_is_refused(ledger, store_url):
    with raw_connection(store_url) as run:
        run("INSERT INTO ledger_versions VALUES (5, 'more', 0)")
    with pytest.raises(StoreFailed, match=r"version 5.*up to 4.*install a later Setwise"):
        Ledger.open(store_url)


def test_a_migration_that_fails_leaves_nothing(store_url, monkeypatch):
    def broken(connection):
        connection.exec_driver_sql("CREATE TABLE ledger_half (number INTEGER)")
        connection.exec_driver_sql("CREATE TABLE ledger_half (number INTEGER)")

    with monkeypatch.context() as patch:
        patch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, ("broken", broken)))
        patch.setattr("setwise.ledger.stores.connect.MIGRATIONS", migrations.MIGRATIONS)
        with pytest.raises(StoreFailed):
            Ledger.open(store_url)
    with Ledger.open(store_url) as ledger:
        assert ledger.accounts() == ()


def test_many_may_open_a_new_store_at_once(store_url):
    failures = []

    def open_it():
        try:
            Ledger.open(store_url).close()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=open_it) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(rows(store_url, "SELECT version FROM ledger_versions")) == 4


def test_reopening_changes_nothing(ledger, store_url):
    before = rows(store_url, "SELECT * FROM ledger_versions ORDER BY version")
    Ledger.open(store_url).close()
    assert rows(store_url, "SELECT * FROM ledger_versions ORDER BY version") == before
