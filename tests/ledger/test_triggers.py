"""The database itself refuses to overspend and to rewrite history, whoever asks."""

import sqlite3

import psycopg
import pytest

from setwise.ledger.records import Contents
from setwise.ledger.stores.base import Draft, Movement, Refused
from tests.ledger.auditor import audit
from tests.ledger.raw import raw_connection
from tests.ledger.test_accounts import uses

REFUSALS = (sqlite3.IntegrityError, psycopg.IntegrityError)


@pytest.fixture
def spent(ledger, store_url):
    """A ledger with something in every table."""
    ledger.set_cap("visits", epsilon=1.0, delta=1e-6, rule="zcdp")
    ledger.open_setwise("ada", ["bounded-range:0.1x10", "pure:0.1x5"], delta=1e-6, dataset="visits")
    ledger.open_filter("bob", epsilon=1.0, delta=1e-6, rule="zcdp")
    account = ledger.account("ada")
    account.settle(account.charge(uses("pure:0.1x3"), key="k", request="q"), answer="a", returned=uses("pure:0.1"))
    ledger.account("bob").charge(uses("gaussian:20"), key="k", request="q")
    yield store_url
    audit(store_url)
    assert not ledger.verify().faults


HISTORY = ["openings", "lines", "entries", "movements", "versions", "accounts", "balances"]


def test_no_row_is_deleted(spent):
    with raw_connection(spent) as run:
        for table in HISTORY:
            assert run(f"SELECT count(*) FROM ledger_{table}")[0][0] > 0
            with pytest.raises(REFUSALS):
                run(f"DELETE FROM ledger_{table}")


CHANGES = [
    "ledger_openings SET body = body || ' '",
    "ledger_openings SET name = 'eve'",
    "ledger_lines SET total = total + 1",
    "ledger_entries SET content = 'other'",
    "ledger_entries SET uses = '[]'",
    "ledger_entries SET position = position + 100",
    "ledger_movements SET amount = 1",
    "ledger_versions SET version = version + 7",
    "ledger_accounts SET name = name || 'x'",
    "ledger_accounts SET entries = entries + 1",
    "ledger_accounts SET entries = 0, charges = 0",
    "ledger_accounts SET head = 'x'",
    "ledger_accounts SET cap = NULL, kind = 'filter'",
    "ledger_accounts SET at = 0",
    "ledger_balances SET spent = 0",
    "ledger_balances SET spent = spent - 1",
    "ledger_balances SET spent = spent + 1, movement = movement + 1",
    "ledger_balances SET total = total + 1",
    "ledger_balances SET period = '2030-01'",
    "ledger_balances SET spent = spent - 1, movement = 0",
]


def test_no_row_is_changed(spent):
    with raw_connection(spent) as run:
        for change in CHANGES:
            with pytest.raises(REFUSALS):
                run(f"UPDATE {change}")


def test_no_return_counts_twice(ledger, spent):
    returned = "(SELECT number FROM ledger_movements WHERE amount = -1)"
    again = f"UPDATE ledger_balances SET spent = spent - 1, movement = {returned} WHERE what = 'pure:0.1'"
    with raw_connection(spent) as run:
        with pytest.raises(REFUSALS):
            run(again)
        ledger.account("ada").charge(uses("pure:0.1"), key="later", request="q")
        with pytest.raises(REFUSALS):
            run(again)


def test_no_row_is_replaced(spent):
    replace = (
        "TRUNCATE ledger_{0} CASCADE"
        if "://" in spent
        else ("INSERT OR REPLACE INTO ledger_{0} SELECT * FROM ledger_{0}")
    )
    with raw_connection(spent) as run:
        for table in HISTORY:
            with pytest.raises(REFUSALS):
                run(replace.format(table))


def test_no_balance_passes_its_line(spent):
    with raw_connection(spent) as run:
        for spent_now in ("total + 1", "-1"):
            with pytest.raises(REFUSALS):
                run(
                    "INSERT INTO ledger_balances SELECT holder, '2030-01', what, total, "
                    f"{spent_now}, 0 FROM ledger_lines"
                )


def test_no_line_is_added_to_what_is_open(spent):
    with raw_connection(spent) as run, pytest.raises(REFUSALS):
        run("INSERT INTO ledger_lines (holder, what, place, total) VALUES (2, 'pure:0.5', 9, 100)")


ENTRY = (
    "INSERT INTO ledger_entries "
    "(holder, position, kind, key, period, at, uses, content, digest, previous, hash, moves) "
    "VALUES (2, {position}, '{kind}', '{key}', '{period}', {at}, '[]', 'x', 'x', {previous}, 'x', '{moves}')"
)


def test_no_entry_out_of_line(spent):
    wrongs = [
        {"kind": "settle", "key": "unknown"},
        {"kind": "settle", "key": "k"},
        {"kind": "charge", "key": "k"},
        {"kind": "refund"},
        {"moves": ""},
        {"moves": "[]"},  # a charge that pays nothing
        {"moves": '[[2,"","pure:0.1",1]]'},  # nothing of the cap
        {"moves": '[[1,"","rho",1]]'},  # nothing of the account
        {"kind": "release", "key": "k", "moves": "[]"},  # no part
        {"kind": "release", "key": "l\n1", "moves": "[]"},  # no such charge
        {"kind": "release", "key": "k\n1"},  # a release that moves something
    ]
    if "://" not in spent:  # PostgreSQL gives every entry its place itself
        wrongs += [{"position": 7}, {"previous": "'x'"}]
    with raw_connection(spent) as run:
        (at, head, count), *_ = run("SELECT at, head, entries FROM ledger_accounts WHERE holder = 2")
        right = {"position": count + 1, "kind": "charge", "key": "new", "period": "", "at": at, "previous": f"'{head}'"}
        right["moves"] = '[[2,"","pure:0.1",1],[1,"","rho",1]]'
        for wrong in wrongs:
            with pytest.raises(REFUSALS):
                run(ENTRY.format(**{**right, **wrong}))


def test_no_answer_is_replaced(ledger, spent):
    account = ledger.account("ada")
    account.settle(account.charge(uses("bounded-range:0.1"), key="l", request="q"), answer="first")
    with raw_connection(spent) as run:
        (at, head, count), *_ = run("SELECT at, head, entries FROM ledger_accounts WHERE holder = 2")
        again = {"position": count + 1, "kind": "settle", "key": "l", "period": "", "at": at, "previous": f"'{head}'"}
        again["moves"] = "[]"
        insert = ENTRY if "://" in spent else ENTRY.replace("INSERT", "INSERT OR REPLACE")
        with pytest.raises(REFUSALS):
            run(insert.format(**again))
    assert account.charge(uses("bounded-range:0.1"), key="l", request="q").answer == "first"


MOVEMENTS = [
    (1, 2, "bounded-range:0.1", 1),  # not the last entry
    (2, 2, "pure:0.1", -1),  # returned once already
    (2, 2, "bounded-range:0.1", -1),  # never drawn
    (2, 2, "bounded-range:0.1", 1),  # a settlement draws nothing
    (2, 1, "rho", -1),  # a cap gets nothing back
    (2, 3, "rho", 1),  # another's account
    (2, 2, "pure:0.7", 1),  # not registered
    (3, 2, "pure:0.1", 1),  # no such entry
]


def test_no_movement_without_its_entry(spent):
    with raw_connection(spent) as run:
        for position, holder, what, amount in MOVEMENTS:
            with pytest.raises(REFUSALS):
                run(
                    "INSERT INTO ledger_movements (account, position, holder, period, what, amount) "
                    f"VALUES (2, {position}, {holder}, '', '{what}', {amount})"
                )


def settlement_of_bob(*movements):
    contents = Contents(account="bob", kind="settle", key="k", period="", uses="[]", text="a")
    return Draft(holder=3, at=0, contents=contents, movements=movements)


def test_a_filter_and_a_cap_get_nothing_back_whatever_the_code_says(ledger, spent):
    with raw_connection(spent) as run:
        drawn = dict(run("SELECT what, amount FROM ledger_movements WHERE account = 3 AND position = 1"))
    assert drawn
    for what in drawn:
        with pytest.raises(Refused):
            ledger._store.append(settlement_of_bob(Movement(3, "", what, -1)))
    with pytest.raises(Refused):
        ledger._store.append(settlement_of_bob(Movement(2, "", "pure:0.1", -1)))
    assert ledger.account("bob").entries() == 1


def test_no_settlement_returns_more_than_its_charge_drew_whatever_the_code_says(ledger, spent):
    account = ledger.account("ada")
    account.charge(uses("bounded-range:0.1x3"), key="three", request="q")
    account.charge(uses("bounded-range:0.1"), key="one", request="q")
    contents = Contents(account="ada", kind="settle", key="one", period="", uses="[]", text="a")
    too_much = Draft(holder=2, at=0, contents=contents, movements=[Movement(2, "", "bounded-range:0.1", -2)])
    with pytest.raises(Refused):
        ledger._store.append(too_much)
    assert account.entries() == 4


def test_every_commit_is_flushed(ledger, store_url):
    """Whatever the defaults of the database are."""
    with ledger._store.reading() as connection:
        if "://" in store_url:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar_one() == "on"
        else:
            settings = {name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one() for name in PRAGMAS}
            assert settings == PRAGMAS


PRAGMAS = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 60_000}
