"""Versions of the schema: old stores are brought up, later ones refused."""

import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import create_engine

from setwise.errors import StoreFailed
from setwise.ledger.ledger import Ledger
from setwise.ledger.stores import migrations
from setwise.ledger.stores.connect import connect
from setwise.ledger.stores.migrations import schema_faults
from tests.ledger.auditor import audit
from tests.ledger.raw import raw_connection, without_triggers
from tests.ledger.test_accounts import uses

TEA = '{"q":"ä 😀"}'
"""The request of the first charge in the kept files of version 3 and of the exports of formats 1 and 2."""


def rows(url, statement):
    with raw_connection(url) as run:
        return run(statement)


def test_a_new_store_has_had_every_migration(ledger, store_url):
    assert rows(store_url, "SELECT version, name FROM ledger_versions ORDER BY version") == [
        (1, "tables"),
        (2, "triggers"),
        (3, "acts"),
        (4, "slices"),
        (5, "moves"),
    ]


def test_a_new_sqlite_store_is_as_if_every_migration_had_run(tmp_path):
    def objects(engine):
        with engine.connect() as connection:
            return connection.exec_driver_sql("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()

    new = create_engine(f"sqlite:///{tmp_path / 'new.db'}")
    with new.begin() as connection:
        migrations.migrate(connection, "new", 0)
    stepwise = create_engine(f"sqlite:///{tmp_path / 'stepwise.db'}")
    with stepwise.begin() as connection:
        migrations.versions.create(connection)
        for _, apply in migrations.MIGRATIONS:
            apply(connection, 0)
    assert set(objects(new)) == set(objects(stepwise))
    new.dispose()
    stepwise.dispose()


@pytest.fixture
def old_url(store_url):
    """A store of version 2 as it was written then: a cap, a set-wise account with three entries, a filter with one."""
    return stored(store_url, 2)


@pytest.fixture
def url_of_version_3(store_url):
    """A store of version 3: a cap by zCDP, four accounts (set-wise, zCDP filter, wallets), acts and a signed head."""
    return stored(store_url, 3)


@pytest.fixture
def url_of_version_4(store_url):
    """A store of version 4: two caps (by wallet, by zCDP), four accounts with 12 entries, two signed heads."""
    return stored(store_url, 4)


def stored(store_url, version):
    """Fill an empty store from the kept file of a version, and return its address."""
    kind = "postgresql" if "://" in store_url else "sqlite"
    script = (Path(__file__).parent / f"version_{version}.{kind}.sql").read_text()
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
    assert rows(old_url, "SELECT max(version) FROM ledger_versions") == [(5,)]
    audit(old_url)


def test_a_store_of_version_3_is_brought_up_with_its_acts(url_of_version_3, clock):
    url, key = url_of_version_3, b"kept outside the database"
    hashes = rows(url, "SELECT holder, position, hash FROM ledger_entries ORDER BY holder, position")
    clock.move(days=21, hours=2)
    with Ledger.open(url, clock=clock) as ledger:
        assert not ledger.verify(key=key).faults
        assert [act.kind for act in ledger.acts()] == ["dataset", "freeze", "thaw", "head", "seal"]
        assert rows(url, "SELECT holder, position, hash FROM ledger_entries ORDER BY holder, position") == hashes
        assert [(status.name, status.charges, status.state) for status in ledger.accounts()] == [
            ("ada", 2, "open"),
            ("bob", 1, "open"),
            ("cyd", 2, "open"),
            ("dot", 1, "open"),
        ]
        assert ledger.account("ada").charge(uses("bounded-range:0.1x10"), key="one", request=TEA).answer == "tea\nmate"
        for name in ("bob", "cyd", "dot"):
            ledger.account(name).charge(uses("gaussian:40"), key="after", request="q")
        ledger.sign(key, anew=True)
        assert not ledger.verify(key=key).faults
    assert rows(url, "SELECT max(version) FROM ledger_versions") == [(5,)]
    audit(url)


def test_a_store_of_version_4_is_brought_up_and_its_movements_are_sealed(url_of_version_4, clock):
    url, key = url_of_version_4, b"kept outside the database"
    hashes = rows(url, "SELECT holder, position, hash FROM ledger_entries ORDER BY holder, position")
    clock.move(hours=2)
    with Ledger.open(url, clock=clock) as ledger:
        assert not ledger.verify(key=key).faults
        assert ledger.acts()[-1].kind == "seal"
        assert rows(url, "SELECT holder, position, hash FROM ledger_entries ORDER BY holder, position") == hashes
        assert ledger.account("ada").charge(uses("gaussian:30"), key="one", request="q").answer == "tea"
        for name, mech in (("ada", "gaussian:30"), ("bob", "pure:0.1"), ("cyd", "gaussian:20")):
            ledger.account(name).charge(uses(mech), key="after", request="q")
        ledger.sign(key)
        assert not ledger.verify(key=key).faults
        # an early payment is deleted with its listing in the entry and its part of the balance
        with without_triggers(url) as run:
            ((account, position),) = run(
                "SELECT account, position FROM ledger_movements WHERE what = 'slice:wallet' AND amount < 0 "
                "ORDER BY number LIMIT 1"
            )
            run(
                "DELETE FROM ledger_movements WHERE account = ? AND position = ? AND what = 'slice:wallet'",
                *(account, position),
            )
            moves = json.loads(
                run("SELECT moves FROM ledger_entries WHERE holder = ? AND position = ?", account, position)[0][0]
            )
            kept = json.dumps([move for move in moves if move[2] != "slice:wallet"], separators=(",", ":"))
            run("UPDATE ledger_entries SET moves = ? WHERE holder = ? AND position = ?", kept, account, position)
        assert any("in the seal" in str(fault) for fault in ledger.verify().faults)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_store_that_was_brought_up_is_like_a_new_one(store_url, tmp_path, version):
    """`schema_faults` compares every table, constraint and trigger with those of a new store."""
    old_url = stored(store_url, version)
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
        run("INSERT INTO ledger_versions VALUES (6, 'more', 0)")
    with pytest.raises(StoreFailed, match=r"version 6.*up to 5.*install a later Setwise"):
        Ledger.open(store_url)


def test_a_migration_that_fails_leaves_nothing(store_url, monkeypatch):
    def broken(connection, at):
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
    assert len(rows(store_url, "SELECT version FROM ledger_versions")) == 5


def test_reopening_changes_nothing(ledger, store_url):
    before = rows(store_url, "SELECT * FROM ledger_versions ORDER BY version")
    Ledger.open(store_url).close()
    assert rows(store_url, "SELECT * FROM ledger_versions ORDER BY version") == before
