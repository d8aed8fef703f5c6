"""Tampering: whatever is edited, deleted or reordered in the database is found by `verify`, and named."""

from contextlib import contextmanager

import pytest

from setwise.errors import InvalidParameter
from setwise.ledger.audit.verification import Anchor
from setwise.ledger.records import Contents, link, record_hash
from tests.ledger.raw import without_triggers
from tests.ledger.test_accounts import uses
from tests.sizes import some

TABLES = ("openings", "lines", "accounts", "entries", "movements", "balances")
COUNT = 7
POSITIONS = some(range(1, COUNT + 1), 2)
"""Of the entries to damage, among them charges, a settlement, the first and the last."""


@pytest.fixture
def filled(ledger, clock):
    """Seven entries in ada's account (five charges, two settlements), one in bob's, one under a cap."""
    ledger.set_cap("visits", epsilon=1.0, delta=1e-6, rule="zcdp")
    ledger.open_setwise("ada", ["bounded-range:0.1x10", "pure:0.1x5"], delta=1e-6, period="month")
    ledger.open_filter("bob", epsilon=1.0, delta=1e-6, dataset="visits", rule="zcdp")
    account = ledger.account("ada")
    for number in range(5):
        receipt = account.charge(uses("pure:0.1", "bounded-range:0.1x2"), key=str(number), request=f"q{number}")
        clock.move(seconds=1)
        if number in (1, 3):
            account.settle(receipt, answer="a", returned=uses("bounded-range:0.1"))
    ledger.account("bob").charge(uses("gaussian:20"), key="k", request="q")
    return ledger


@contextmanager
def intrusion(url):
    """Yield a statement runner and a function that puts everything back."""
    with without_triggers(url) as run:
        saved = {table: run(f"SELECT * FROM ledger_{table}") for table in TABLES}

        def mend():
            for table in reversed(TABLES):
                run(f"DELETE FROM ledger_{table}")
            for table in TABLES:
                for row in saved[table]:
                    run(f"INSERT INTO ledger_{table} VALUES ({', '.join('?' * len(row))})", *row)

        yield run, mend


def found(ledger, **how):
    """Return the faults, but for the triggers that an intruder in SQLite has dropped for a moment."""
    return [fault for fault in ledger.verify(**how).faults if not fault.message.startswith("lacks the trigger")]


def named(ledger, **how):
    return {(fault.account, fault.entry) for fault in found(ledger, **how)}


def test_nothing_is_found_where_nothing_was_done(filled, store_url):
    found = filled.verify()
    assert (found.faults, found.entries) == ((), COUNT + 1)
    with intrusion(store_url) as (_, mend):
        mend()
    assert filled.verify(head=found.anchor.head, since=found.anchor) == found


def test_any_edited_entry_is_named(filled, store_url):
    edits = [
        "content = content || ' '",
        "uses = '[\"pure:0.1\"]'",
        "at = at + 1",
        "key = key || 'x'",
        "period = '2026-10'",
        "kind = CASE kind WHEN 'charge' THEN 'settle' ELSE 'charge' END, key = key || 'x'",
        "hash = previous",
        "previous = hash",
        "digest = hash",
    ]
    with intrusion(store_url) as (run, mend):
        for position in POSITIONS:
            for edit in edits:
                run(f"UPDATE ledger_entries SET {edit} WHERE holder = 2 AND position = {position}")
                assert ("ada", position) in named(filled), (position, edit)
                mend()
    assert not filled.verify().faults


def test_only_the_edited_entry_is_named(filled, store_url):
    with intrusion(store_url) as (run, mend):
        for position in POSITIONS:
            run(f"UPDATE ledger_entries SET content = 'other' WHERE holder = 2 AND position = {position}")
            assert named(filled) == {("ada", position)}
            mend()


def test_any_edited_entry_with_a_new_hash_is_named(filled, store_url):
    with intrusion(store_url) as (run, mend):
        for position in POSITIONS:
            kind, key, period, at, drawn, previous, moves = run(
                "SELECT kind, key, period, at, uses, previous, moves FROM ledger_entries "
                "WHERE holder = 2 AND position = ?",
                position,
            )[0]
            forged = Contents(account="ada", kind=kind, key=key, period=period, uses=drawn, text="forged", moves=moves)
            run(
                "UPDATE ledger_entries SET content = 'forged', digest = ?, hash = ? WHERE holder = 2 AND position = ?",
                forged.digest(),
                link(previous, position, at, forged.digest()),
                position,
            )
            assert named(filled) == {("ada", position)}
            mend()


def test_any_deleted_entry_is_named(filled, store_url):
    with intrusion(store_url) as (run, mend):
        for position in POSITIONS:
            for tables in (["entries"], ["entries", "movements"]):
                for table in tables:
                    column = "holder" if table == "entries" else "account"
                    run(f"DELETE FROM ledger_{table} WHERE {column} = 2 AND position = {position}")
                assert ("ada", position) in named(filled)
                mend()


def test_reordered_entries_are_named(filled, store_url):
    with intrusion(store_url) as (run, mend):
        for first in range(1, COUNT):
            for old, new in ((first, 99), (first + 1, first), (99, first + 1)):
                run(f"UPDATE ledger_entries SET position = {new} WHERE holder = 2 AND position = {old}")
            assert {("ada", first), ("ada", first + 1)} <= named(filled)
            mend()


def test_closing_the_gap_of_a_deleted_entry_does_not_hide_it(filled, store_url):
    with intrusion(store_url) as (run, mend):
        for position in range(1, COUNT):
            run(f"DELETE FROM ledger_entries WHERE holder = 2 AND position = {position}")
            for later in range(position + 1, COUNT + 1):
                run(f"UPDATE ledger_entries SET position = {later - 1} WHERE holder = 2 AND position = {later}")
            run(f"UPDATE ledger_accounts SET entries = {COUNT - 1} WHERE holder = 2")
            assert ("ada", position) in named(filled)
            mend()


def test_an_entry_moved_to_another_account_is_named(filled, store_url):
    with intrusion(store_url) as (run, _):
        run("UPDATE ledger_entries SET holder = 3, position = 2 WHERE holder = 2 AND position = 7")
        assert {("ada", 7), ("bob", 2)} <= named(filled)


CHANGES = [
    ("UPDATE ledger_movements SET amount = 1 WHERE account = 2 AND position = 1 AND amount = 2", "ada", 1),
    ("DELETE FROM ledger_movements WHERE account = 3 AND holder = 1", "bob", 1),
    ("UPDATE ledger_balances SET spent = 0 WHERE holder = 2", "ada", None),
    ("UPDATE ledger_balances SET spent = 0 WHERE holder = 1", "visits", None),
    ("DELETE FROM ledger_balances WHERE holder = 3", "bob", None),
    ("UPDATE ledger_lines SET total = total + 5 WHERE holder = 2", "ada", None),
    ("UPDATE ledger_openings SET body = replace(body, '0.1x10', '0.1x99') WHERE holder = 2", "ada", None),
    ("UPDATE ledger_openings SET body = '{}' WHERE holder = 2", "ada", None),
    ("UPDATE ledger_openings SET kind = 'cap' WHERE holder = 3", "bob", None),
    ("UPDATE ledger_accounts SET cap = NULL WHERE holder = 3", "bob", None),
    ("UPDATE ledger_accounts SET period = '2020-01' WHERE holder = 2", "ada", None),
    ("UPDATE ledger_accounts SET charges = 0 WHERE holder = 2", "ada", None),
    ("UPDATE ledger_accounts SET head = 'x' WHERE holder = 3", "bob", 1),
    ("DELETE FROM ledger_accounts WHERE holder = 2", "ada", None),
    ("DELETE FROM ledger_openings WHERE holder = 2", None, None),
    ("UPDATE ledger_movements SET position = 9 WHERE account = 3", "bob", 9),
]


def test_whatever_else_is_changed_is_named(filled, store_url):
    with intrusion(store_url) as (run, mend):
        for change, account, entry in CHANGES:
            run(change)
            assert (account, entry) in named(filled), change
            mend()
    assert not filled.verify().faults


def test_a_replaced_opening_is_told_by_the_one_after_it(filled, store_url):
    with intrusion(store_url) as (run, _):
        at, body, previous = run("SELECT at, body, previous FROM ledger_openings WHERE holder = 1")[0]
        forged = body.replace('"upper":1.0', '"upper":9.0')
        assert forged != body
        run(
            "UPDATE ledger_openings SET body = ?, hash = ? WHERE holder = 1",
            forged,
            record_hash(previous, 1, at, forged),
        )
        assert named(filled) == {(None, None)}


def test_a_ledger_rewritten_throughout_is_told_by_its_anchor(filled, store_url):
    """An owner of the database can recompute everything; only what is kept elsewhere tells."""
    kept = filled.verify().anchor
    with intrusion(store_url) as (run, _):
        run("DELETE FROM ledger_movements WHERE account = 3")
        run("DELETE FROM ledger_entries WHERE holder = 3")
        run("DELETE FROM ledger_balances WHERE holder IN (1, 3)")
        run(
            "UPDATE ledger_accounts SET entries = 0, charges = 0, "
            "head = (SELECT hash FROM ledger_openings WHERE holder = 3), "
            "at = (SELECT at FROM ledger_openings WHERE holder = 3) WHERE holder = 3"
        )
        assert named(filled) == set()
        assert named(filled, since=kept) == {("bob", 1)}
        assert named(filled, head=kept.head) == {(None, None)}


def test_a_removed_last_account_is_told_by_the_anchor(filled, store_url):
    kept = filled.verify().anchor
    with intrusion(store_url) as (run, _):
        for table, column in (("movements", "account"), ("entries", "holder"), ("accounts", "holder")):
            run(f"DELETE FROM ledger_{table} WHERE {column} = 3")
        for table in ("balances", "lines", "openings"):
            run(f"DELETE FROM ledger_{table} WHERE holder = 3")
        run("DELETE FROM ledger_balances WHERE holder = 1")
        assert named(filled) == set()
        assert named(filled, since=kept) == {(None, None), ("bob", None)}


def test_an_anchor_allows_for_what_is_added(filled):
    kept = filled.verify().anchor
    filled.account("bob").charge(uses("gaussian:20"), key="l", request="q")
    filled.open_filter("eve", epsilon=1.0, delta=1e-6, rule="zcdp")
    assert not filled.verify(since=kept).faults
    assert named(filled, head=kept.head) == {(None, None)}


def test_anchors_that_cannot_be_read():
    for text in ("", "[]", "{}", '{"anchor": {"openings": [1], "accounts": {}}}', '{"anchor": null}'):
        with pytest.raises(InvalidParameter, match="verify"):
            Anchor.parse(text)
