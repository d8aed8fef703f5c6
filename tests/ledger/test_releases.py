"""Releases: answers in parts that one charge has paid for, stored in the account's chain at no further charge."""

import io
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from setwise.errors import BudgetExhausted, InvalidParameter
from setwise.ledger.ledger import Ledger
from tests.ledger.auditor import audit
from tests.ledger.raw import raw_connection, without_triggers
from tests.ledger.test_accounts import uses
from tests.ledger.test_verification import KEY, redo_hashes


@pytest.fixture
def series(ledger):
    """An account that has charged for a series of running totals, and the receipt."""
    ledger.open_filter("ada", epsilon=2.0, delta=1e-6)
    account = ledger.account("ada")
    return account, account.charge(uses("gaussian:20", "approx:0,1e-9"), key="visitors", request="series")


def test_parts_are_released_for_nothing_and_the_first_answer_of_each_stays(ledger, series, store_url):
    account, receipt = series
    before = account.status()
    assert account.released(receipt, part="2026-01") is None
    assert account.release(receipt, part="2026-01", answer="12") == "12"
    assert account.release(receipt, part="2026-01", answer="13") == "12"
    assert account.release(receipt, part="2026-02", answer="29") == "29"
    assert [account.released(receipt, part=part) for part in ("2026-01", "2026-02", "2026-03")] == ["12", "29", None]
    after = account.status_by_entries()
    assert (after.spent, after.left, after.charges) == (before.spent, before.left, 1)
    assert account.settle(receipt, answer="opened") == "opened"
    assert [(entry.contents.kind, entry.contents.key) for entry in ledger.history("ada")] == [
        ("charge", "visitors"),
        ("release", "visitors\n2026-01"),
        ("release", "visitors\n2026-02"),
        ("settle", "visitors"),
    ]
    ledger.sign(KEY)
    assert not ledger.verify(key=KEY).faults
    audit(store_url)


def test_a_release_needs_its_charge_and_an_open_account(ledger, series):
    account, receipt = series
    account.release(receipt, part="1", answer="12")
    ledger.open_filter("bob", epsilon=2.0, delta=1e-6)
    with pytest.raises(InvalidParameter, match="receipt is of"):
        ledger.account("bob").release(receipt, part="1", answer="12")
    ledger.freeze("ada")
    assert account.release(receipt, part="1", answer="13") == "12"
    with pytest.raises(BudgetExhausted, match="frozen"):
        account.release(receipt, part="2", answer="13")
    ledger.thaw("ada")
    assert account.release(receipt, part="2", answer="13") == "13"
    with pytest.raises(InvalidParameter, match="part"):
        account.release(receipt, part="a\nb", answer="13")
    assert not ledger.verify().faults


def test_a_release_without_its_charge_is_found(ledger, series, store_url):
    account, receipt = series
    account.release(receipt, part="1", answer="12")
    with without_triggers(store_url) as run:
        run("UPDATE ledger_entries SET key = 'other' || substr(key, 9) WHERE kind = 'release'")
        redo_hashes(run)
    assert [fault.message for fault in ledger.verify().faults] == ["releases what no charge has paid for"]


def test_releases_are_kept_in_exports(ledger, series, store_url, tmp_path):
    account, receipt = series
    account.release(receipt, part="1", answer="12")
    stream = io.StringIO()
    ledger.export(stream)
    with Ledger.open(str(tmp_path / "other.db")) as other:
        other.restore(io.StringIO(stream.getvalue()))
        assert other.account("ada").released(receipt, part="1") == "12"
    with raw_connection(store_url) as run:
        assert run("SELECT moves FROM ledger_entries WHERE kind = 'release'") == [("[]",)]


@pytest.fixture
def registered(ledger):
    """An account with ten registered uses that has charged for all of them, and the receipt."""
    ledger.open_setwise("ada", uses("gaussian:20x10"), delta=1e-6)
    account = ledger.account("ada")
    return account, account.charge(uses("gaussian:20x10"), key="visitors", request="series")


def test_a_charge_with_released_parts_returns_nothing(ledger, registered, store_url):
    account, receipt = registered
    account.release(receipt, part="1", answer="12")
    with pytest.raises(InvalidParameter, match="parts of it were released"):
        account.settle(receipt, answer="x", returned=uses("gaussian:20x10"))
    assert account.status().left == ()
    assert account.settle(receipt, answer="x") == "x"
    assert account.release(receipt, part="2", answer="13") == "13"
    assert not ledger.verify().faults
    audit(store_url)


def test_a_charge_that_returned_uses_releases_nothing(ledger, registered, store_url):
    account, receipt = registered
    account.settle(receipt, answer="x", returned=uses("gaussian:20x10"))
    with pytest.raises(InvalidParameter, match="has returned uses"):
        account.release(receipt, part="1", answer="12")
    assert account.settle(receipt, answer="y", returned=uses("gaussian:20x10")) == "x"
    assert account.status().left == tuple(uses("gaussian:20x10"))
    assert not ledger.verify().faults
    audit(store_url)


def test_one_of_a_release_and_a_return_at_the_same_time_is_refused(ledger, registered):
    account, receipt = registered
    calls = [
        lambda: account.settle(receipt, answer="x", returned=uses("gaussian:20x10")),
        lambda: account.release(receipt, part="1", answer="12"),
    ]
    with ThreadPoolExecutor(2) as threads:
        errors = [future.exception() for future in [threads.submit(call) for call in calls]]
    assert sorted(map(bool, errors)) == [False, True]
    assert isinstance(next(filter(None, errors)), InvalidParameter)
    assert not ledger.verify().faults


def test_the_charge_and_not_the_receipt_says_what_was_drawn(ledger):
    ledger.open_setwise("ada", uses("gaussian:20x10"), delta=1e-6)
    account = ledger.account("ada")
    account.charge(uses("gaussian:20x9"), key="first", request="one")
    receipt = account.charge(uses("gaussian:20"), key="second", request="two")
    with pytest.raises(InvalidParameter, match="the charge drew less"):
        account.settle(replace(receipt, uses=tuple(uses("gaussian:20x10"))), answer="x", returned=uses("gaussian:20x5"))
    assert account.status().left == ()
    ledger.open_filter("bob", epsilon=2.0, delta=1e-6)
    other = ledger.account("bob")
    early = other.charge(uses("pure:0.5"), key="first", request="one")
    with pytest.raises(InvalidParameter, match="answered at once"):
        other.release(replace(early, uses=()), part="1", answer="12")
    with pytest.raises(InvalidParameter, match="no such charge"):
        other.release(replace(early, key="unknown"), part="1", answer="12")
    assert not ledger.verify().faults


def test_forged_releases_are_found(ledger, store_url):
    """A release that is moved to another charge: one that returned its uses, or that was priced for one answer."""
    ledger.open_setwise("ada", uses("gaussian:20x10"), delta=1e-6)
    ledger.open_filter("bob", epsilon=20.0, delta=1e-6)
    for name, drawn in (("ada", "gaussian:20x5"), ("bob", "pure:0.5")):
        account = ledger.account(name)
        first = account.charge(uses(drawn), key="first", request="one")
        second = account.charge(uses("gaussian:20x5"), key="second", request="two")
        account.settle(first, answer="x", returned=uses("gaussian:20x5") if name == "ada" else ())
        account.release(second, part="1", answer="12")
    with without_triggers(store_url) as run:
        run("UPDATE ledger_entries SET key = 'first' || substr(key, 7) WHERE kind = 'release'")
        redo_hashes(run)
    assert [(fault.account, fault.message) for fault in ledger.verify().faults] == [
        ("ada", "releases a part of a charge that returned uses"),
        ("bob", "releases a part of a charge that was priced for one answer"),
    ]


def test_a_forged_return_beside_a_release_is_found(ledger, registered, store_url):
    account, receipt = registered
    account.release(receipt, part="1", answer="12")
    account.settle(receipt, answer="x")
    with without_triggers(store_url) as run:
        run("""UPDATE ledger_entries SET uses = '["gaussian:20.0x10"]' WHERE kind = 'settle'""")
        redo_hashes(run)
    assert "returns uses although parts of its charge were released" in [
        fault.message for fault in ledger.verify().faults
    ]
