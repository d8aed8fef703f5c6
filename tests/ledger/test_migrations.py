"""Versions of the schema: old stores are brought up, later ones refused."""

import threading

import pytest

from setwise.errors import StoreFailed
from setwise.ledger.ledger import Ledger
from setwise.ledger.stores import migrations
from setwise.ledger.stores.connect import connect
from tests.ledger.raw import raw_connection
from tests.ledger.test_accounts import uses


def rows(url, statement):
    with raw_connection(url) as run:
        return run(statement)


def test_a_new_store_has_had_every_migration(ledger, store_url):
    assert rows(store_url, "SELECT version, name FROM ledger_versions ORDER BY version") == [
        (1, "tables"),
        (2, "triggers"),
    ]


def test_a_store_of_the_first_version_is_brought_up(store_url, monkeypatch, clock):
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "MIGRATIONS", migrations.MIGRATIONS[:1])
        store = connect(store_url, 0)
        store.close()
    assert rows(store_url, "SELECT version FROM ledger_versions") == [(1,)]
    with raw_connection(store_url) as run:
        run("INSERT INTO ledger_openings VALUES (1, 'cap', 'x', 0, 0, '{}', 'x', 'x')")
        run("DELETE FROM ledger_openings")  # no trigger refuses it yet
    with Ledger.open(store_url, clock=clock) as ledger:
        ledger.open_setwise("ada", ["pure:0.1x3"], delta=1e-6)
        ledger.account("ada").charge(uses("pure:0.1"), key="k", request="q")
        assert not ledger.verify().faults
    assert rows(store_url, "SELECT max(version) FROM ledger_versions") == [(2,)]


def test_a_store_of_a_later_version_is_refused(ledger, store_url):
    with raw_connection(store_url) as run:
        run("INSERT INTO ledger_versions VALUES (3, 'more', 0)")
    with pytest.raises(StoreFailed, match=r"version 3.*up to 2.*install a later Setwise"):
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
    assert len(rows(store_url, "SELECT version FROM ledger_versions")) == 2


def test_reopening_changes_nothing(ledger, store_url):
    before = rows(store_url, "SELECT * FROM ledger_versions ORDER BY version")
    Ledger.open(store_url).close()
    assert rows(store_url, "SELECT * FROM ledger_versions ORDER BY version") == before
