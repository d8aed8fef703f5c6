"""A tamperer who owns the database: rows, movements and pairs of them changed or deleted, with hashes redone."""

import itertools
from contextlib import contextmanager
from datetime import timedelta

import pytest
from sqlalchemy import create_engine
from sqlalchemy.engine import make_url

from setwise.ledger.audit.verification import verify
from setwise.ledger.ledger import Ledger
from setwise.ledger.records import microseconds
from setwise.ledger.stores.migrations import drop_triggers
from tests import sizes
from tests.ledger.test_accounts import uses
from tests.ledger.test_verification import COLUMNS, KEY, redo_hashes, rewrite_moves, single_row_changes

OF_THE_SCHEMA = ("lacks the trigger", "lacks the function", "lacks the constraint")
"""Faults that every tamperer leaves here, because the triggers are dropped until the transaction is rolled back."""


def fill(url, clock):
    """Return a ledger with a cap by wallet, two accounts under it, and entries of every kind; nothing is signed yet."""
    ledger = Ledger.open(url, clock=clock)
    ledger.set_cap("visits", epsilon=2.0, delta=1e-6)
    ledger.open_filter("ada", epsilon=20.0, delta=1e-5, dataset="visits", failure_share=0.5)
    ledger.open_setwise("bob", ["pure:0.1x5"], delta=1e-6, dataset="visits")
    ada, bob = ledger.account("ada"), ledger.account("bob")
    ada.charge(uses("pure:0.1", "approx:0,1e-9"), key="1", request="q")
    released = ada.charge(uses("approx:0,1e-9"), key="2", request="q")  # a use that may be answered in parts
    ada.release(released, part="monday", answer="tea")
    ada.charge(uses("pure:0.05"), key="3", request="q")
    charged = bob.charge(uses("pure:0.1x2"), key="1", request="q")
    bob.settle(charged, answer="milk", returned=uses("pure:0.1"))
    bob.give_back()
    ledger.freeze("bob", by="eve")
    return ledger


@contextmanager
def tampering(url):
    """Yield a function that runs a statement and one that verifies, inside a transaction that is rolled back."""
    postgresql = "://" in url
    address = make_url(url).set(drivername="postgresql+psycopg") if postgresql else f"sqlite:///{url}"
    engine = create_engine(address, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        if not postgresql:
            connection.exec_driver_sql("PRAGMA foreign_keys = OFF")
            connection.exec_driver_sql("PRAGMA ignore_check_constraints = ON")

        def run(statement, *values):
            rows = connection.exec_driver_sql(statement.replace("?", "%s") if postgresql else statement, values)
            return [tuple(row) for row in rows] if rows.returns_rows else []

        def faults(**how):
            found = verify(connection, **how).faults
            return [str(fault) for fault in found if not fault.message.startswith(OF_THE_SCHEMA)]

        connection.exec_driver_sql("BEGIN")
        if postgresql:
            connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
            for (statement,) in run(
                "SELECT 'ALTER TABLE ' || conrelid::regclass || ' DROP CONSTRAINT ' || conname FROM pg_constraint "
                "WHERE connamespace = current_schema()::regnamespace AND contype IN ('c', 'f')"
            ):
                run(statement)
        else:
            drop_triggers(connection)
        yield (
            run,
            faults,
            lambda: connection.exec_driver_sql("SAVEPOINT tried"),
            lambda: connection.exec_driver_sql("ROLLBACK TO SAVEPOINT tried"),
        )
        connection.exec_driver_sql("ROLLBACK")
    engine.dispose()


def redo_balances(run):
    """Let every balance be the sum of its movements, and delete those without movements."""
    run(
        "UPDATE ledger_balances SET spent = coalesce((SELECT sum(m.amount) FROM ledger_movements m "
        "WHERE m.holder = ledger_balances.holder AND m.period = ledger_balances.period "
        "AND m.what = ledger_balances.what), 0), movement = coalesce((SELECT max(m.number) FROM ledger_movements m "
        "WHERE m.holder = ledger_balances.holder AND m.period = ledger_balances.period "
        "AND m.what = ledger_balances.what), 0)"
    )
    run("DELETE FROM ledger_balances WHERE movement = 0")


def redo_accounts(run):
    """Let the row of every account fit its entries."""
    last = "SELECT max(position) FROM ledger_entries e WHERE e.holder = ledger_accounts.holder"
    run(
        "UPDATE ledger_accounts SET entries = (SELECT count(*) FROM ledger_entries e "
        "WHERE e.holder = ledger_accounts.holder), charges = (SELECT count(*) FROM ledger_entries e "
        "WHERE e.holder = ledger_accounts.holder AND e.kind = 'charge'), "
        f"at = coalesce((SELECT at FROM ledger_entries e WHERE e.holder = ledger_accounts.holder "
        f"AND position = ({last})), at)"
    )


def close_gaps(run):
    """Number the entries of every account from 1 on, and their movements with them."""
    for holder, position in run("SELECT holder, position FROM ledger_entries ORDER BY holder, position"):
        ((place,),) = run("SELECT count(*) FROM ledger_entries WHERE holder = ? AND position <= ?", *(holder, position))
        if place != position:
            run("UPDATE ledger_entries SET position = ? WHERE holder = ? AND position = ?", place, holder, position)
            run("UPDATE ledger_movements SET position = ? WHERE account = ? AND position = ?", place, holder, position)


def redo_everything(run):
    """Make the whole ledger fit its entries and movements again, as its owner could."""
    close_gaps(run)
    rewrite_moves(run)
    redo_balances(run)
    redo_accounts(run)
    redo_hashes(run)


def consistent_changes(run):
    """Return the statements for every entry and movement: its deletion, and each amount one smaller or larger."""
    found = []
    for (number,) in run("SELECT number FROM ledger_movements ORDER BY number"):
        found.append([("DELETE FROM ledger_movements WHERE number = ?", number)])
        found += [
            [(f"UPDATE ledger_movements SET amount = amount {change} WHERE number = ?", number)]
            for change in ("+ 1", "- 1", "/ 2")
        ]
    for holder, position in run("SELECT holder, position FROM ledger_entries ORDER BY holder, position"):
        found.append(
            [
                ("DELETE FROM ledger_movements WHERE account = ? AND position = ?", holder, position),
                ("DELETE FROM ledger_entries WHERE holder = ? AND position = ?", holder, position),
            ]
        )
    return found


def paid_slices(run):
    return run("SELECT number FROM ledger_movements WHERE substr(what, 1, 6) = 'slice:' AND amount < 0 AND account = 2")


def test_a_charge_that_never_paid_its_slice_is_found(store_url, clock):
    """Payments to the cap are deleted; balances, listings, chains and hashes all agree; nothing was signed."""
    fill(store_url, clock).close()
    with tampering(store_url) as (run, faults, start, undo):
        assert not faults()
        start()
        for (number,) in paid_slices(run):
            run("DELETE FROM ledger_movements WHERE number = ?", number)
        redo_everything(run)
        found = faults()
        undo()
    assert [fault for fault in found if "does not pay the cap" in fault] == [
        f"entry {position} of the account 'ada' does not pay the cap what its uses cost"
        for position in (2, 3, 5)  # its three charges
    ]


def test_a_charge_paid_by_one_rule_while_both_stand_is_found(store_url, clock):
    fill(store_url, clock).close()
    with tampering(store_url) as (run, faults, start, undo):
        assert run("SELECT spent FROM ledger_balances WHERE what = 'rule'") == []
        for line in ("slice:wallet", "slice:sum"):
            start()
            run("DELETE FROM ledger_movements WHERE what = ? AND amount < 0 AND account = 2 AND position = 5", line)
            redo_everything(run)
            assert any("was not the only one" in fault for fault in faults()), line
            undo()


def test_every_row_movement_and_pair_that_is_changed_is_found(store_url, clock):
    """With a signed head, whatever is changed or deleted, alone or in pairs, with everything made to fit again."""
    ledger = fill(store_url, clock)
    ledger.sign(KEY)
    ledger.close()
    within = microseconds(clock.now() - timedelta(hours=1))
    tried = alone = 0
    with tampering(store_url) as (run, faults, start, undo):
        assert not faults(key=KEY, oldest_head=within)
        rows = [[(statement, *values)] for _, _, statement, values in single_row_changes(run)]
        changes = consistent_changes(run)
        assert len(rows) > 200
        assert len(changes) > 80
        pairs = [
            [*one, *other]
            for one, other in itertools.combinations(changes, 2)
            if one[-1][1:] != other[-1][1:]  # two changes of one amount may undo each other
        ]
        chosen = [
            *((change, redo_hashes) for change in rows[:: sizes.TAMPERED]),
            *((change, redo_everything) for change in changes[:: sizes.TAMPERED]),
            *((change, redo_everything) for change in pairs[:: sizes.TAMPERED_PAIRS]),
        ]
        for change, redo in chosen:
            start()
            try:
                for statement, *values in change:
                    run(statement, *values)
                redo(run)
                found = faults(key=KEY, oldest_head=within)
                assert found, change
                tried += 1
                alone += any("signed" not in fault for fault in found)
            finally:
                undo()
    assert tried == len(chosen)
    assert alone > 0.9 * tried, f"of {tried} changes, only {alone} are found without the signed head"


@pytest.mark.parametrize("change", ["amount = amount + 1", "amount = amount - 1"])
def test_a_movement_that_is_not_the_one_under_the_hash_is_found(store_url, clock, change):
    """Hashes stay as they are; the balance fits the movement."""
    fill(store_url, clock).close()
    with tampering(store_url) as (run, faults, start, undo):
        for (number,) in run("SELECT number FROM ledger_movements"):
            start()
            run(f"UPDATE ledger_movements SET {change} WHERE number = ?", number)
            redo_balances(run)
            assert any("other than those under its hash" in fault for fault in faults()), number
            undo()
    assert COLUMNS["movements"]
