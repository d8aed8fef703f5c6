"""Releases: answers in parts that one charge has paid for, stored in the account's chain at no further charge."""

import io

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
    assert [fault.what for fault in ledger.verify().faults] == ["releases what no charge has paid for"]


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
