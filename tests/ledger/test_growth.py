"""Opening an account reads a bounded number of records, however many accounts the ledger has."""

import contextlib
from pathlib import Path

import pytest
from sqlalchemy import event

from setwise.accounting.notation import parse_use
from setwise.ledger import register
from setwise.ledger.ledger import Ledger
from setwise.ledger.records import microseconds
from setwise.ledger.register import AuditEvent, same_data, write_opening
from setwise.ledger.terms import filter_terms


def rows_read_by_an_opening(folder: Path, accounts: int) -> int:
    """Return how many records of the register one more opening parses in a ledger with so many accounts."""
    parsed = 0
    with Ledger.open(str(folder / f"{accounts}.db")) as ledger:
        at = microseconds(ledger._clock.now())
        with ledger._store.writing() as connection:
            for number in range(accounts):
                terms = filter_terms(f"account-{number}", epsilon=1.0, delta=1e-6, dataset="events")
                write_opening(connection, terms, at)
        ledger.open_filter("one-more", epsilon=1.0, delta=1e-6, dataset="events")

        def count(connection, cursor, statement, parameters, context, executemany):
            nonlocal parsed
            if "ledger_openings" in statement and statement.lstrip().upper().startswith("SELECT"):
                again = connection.connection.driver_connection.execute(statement, parameters)
                parsed += len(again.fetchall())

        event.listen(ledger._store._engine, "before_cursor_execute", count)
        ledger.open_filter("another", epsilon=1.0, delta=1e-6, dataset="events")
    return parsed


def test_opening_an_account_reads_as_many_records_in_a_large_ledger_as_in_a_small_one(tmp_path: Path):
    assert rows_read_by_an_opening(tmp_path, 60) == rows_read_by_an_opening(tmp_path, 10)


def test_registrations_are_read_once_and_those_that_were_rolled_back_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    read: list[str] = []
    parse = AuditEvent.read
    monkeypatch.setattr(register.AuditEvent, "read", lambda body: read.append(body) or parse(body))
    with Ledger.open(str(tmp_path / "ledger.db")) as ledger:
        for name in ("first", "second", "third"):
            ledger.register_dataset(name, reads=f"file {name}", by="steward")
        with ledger._store.reading() as connection:
            assert same_data(connection, "first") == {"first"}
        read.clear()
        with ledger._store.reading() as connection:
            assert same_data(connection, "second") == {"second"}
        assert read == []
        at = microseconds(ledger._clock.now())
        with contextlib.suppress(ZeroDivisionError), ledger._store.writing() as connection:
            register.register_dataset(connection, "other", "file first", by="steward", apart="", at=at)
            assert same_data(connection, "first") == {"first", "other"}
            raise ZeroDivisionError  # so that the transaction is rolled back
        with ledger._store.reading() as connection:
            assert same_data(connection, "first") == {"first"}
        ledger.register_dataset("another", reads="file second", by="steward")  # takes the number that was rolled back
        with ledger._store.reading() as connection:
            assert same_data(connection, "first") == {"first"}
            assert same_data(connection, "second") == {"second", "another"}


def test_a_settlement_with_a_refund_reads_the_ledger_in_one_statement(ledger: Ledger):
    ledger.open_setwise("ada", ["pure:0.1x9"], delta=1e-6)
    account = ledger.account("ada")
    receipt = account.charge(["pure:0.1x3"], key="monday", request="q")
    reads: list[str] = []

    def record(connection, cursor, statement, parameters, context, executemany):
        if statement.lstrip().upper().startswith("SELECT"):
            reads.append(statement)

    event.listen(ledger._store._engine, "before_cursor_execute", record)
    account.settle(receipt, answer="seven", returned=["pure:0.1x2"])
    assert len(reads) == 1
    assert account.status().left == (parse_use("pure:0.1x8"),)
