"""Accounts and caps protect one unit of privacy each, and all of a dataset's protect the same one."""

import io

import pytest

from setwise.errors import BadRequest, InvalidParameter
from setwise.ledger.ledger import Ledger
from setwise.ledger.terms import Terms, filter_terms

DAY = "user,day"


@pytest.fixture
def ledger(tmp_path):
    with Ledger.open(str(tmp_path / "ledger.db")) as opened:
        yield opened


def open_account(ledger, name, **words):
    return ledger.open_filter(name, epsilon=1.0, delta=1e-6, **words)


def test_an_account_says_which_unit_it_protects(ledger):
    status = open_account(ledger, "days", dataset="visits", unit=DAY)
    assert status.unit == ledger.account("days").unit == status.to_dict()["unit"] == DAY
    assert status.to_dict()["promise"].startswith("Each single day of a user is protected, but not the user")
    assert open_account(ledger, "whole", dataset="sales").to_dict()["unit"] == "user"
    assert ledger.joint("visits").to_dict()["unit"] == DAY
    assert ledger.joint("visits").promise.startswith("Each single day of a user is protected, but not the user")


@pytest.mark.parametrize(("first", "second"), [("user", DAY), (DAY, "user"), (DAY, "user,at by week")])
def test_accounts_with_two_units_do_not_share_a_data_set(ledger, first, second):
    open_account(ledger, "first", dataset="visits", unit=first)
    with pytest.raises(InvalidParameter, match="promises about two units do not add up"):
        open_account(ledger, "second", dataset="visits", unit=second)
    ledger.close_account("first")
    with pytest.raises(InvalidParameter, match="promises about two units do not add up"):
        ledger.open_setwise("second", ["pure:0.1"], delta=1e-6, dataset="visits", unit=second)
    open_account(ledger, "other", dataset="", unit=second)


def test_a_cap_pays_for_one_unit(ledger):
    ledger.set_cap("visits", epsilon=2.0, delta=1e-6, unit=DAY)
    with pytest.raises(InvalidParameter, match="'visits' protect the unit 'user,day', and 'user' is another"):
        open_account(ledger, "whole", dataset="visits")
    open_account(ledger, "days", dataset="visits", unit=DAY)
    cap = ledger.cap("visits")
    assert cap is not None
    assert cap.unit == DAY


def test_names_of_the_same_data_protect_one_unit_unless_they_are_apart(ledger):
    ledger.register_dataset("visits", reads="file 1")
    with pytest.raises(BadRequest, match="promises about two units do not add up"):
        ledger.register_dataset("days", reads="file 1", unit=DAY)
    assert not ledger.registrations("days")
    ledger.register_dataset("days", reads="file 1", unit=DAY, apart="another promise")
    open_account(ledger, "by day", dataset="days", unit=DAY)
    open_account(ledger, "by user", dataset="visits")
    with pytest.raises(InvalidParameter, match="two units"):
        open_account(ledger, "mixed", dataset="days")
    with pytest.raises(InvalidParameter, match="two units"):
        ledger.set_cap("days", epsilon=1.0, delta=1e-6)


def test_accounts_of_users_are_written_as_before():
    """Otherwise the hashes of ledgers that earlier versions wrote would no longer match."""
    terms = filter_terms("a", epsilon=1.0, delta=1e-6)
    assert "unit" not in terms.body()
    assert Terms.read(terms.body()) == terms
    days = filter_terms("a", epsilon=1.0, delta=1e-6, unit=DAY)
    assert Terms.read(days.body()) == days


def test_a_unit_survives_export_and_restoration(ledger, tmp_path):
    open_account(ledger, "days", dataset="visits", unit=DAY)
    ledger.account("days").charge(["pure:0.1"], key="k", request="{}")
    copy = io.StringIO()
    ledger.export(copy)
    with Ledger.open(str(tmp_path / "copy.db")) as restored:
        restored.restore(io.StringIO(copy.getvalue()))
        assert restored.account("days").unit == DAY
        assert not restored.verify().faults


@pytest.mark.parametrize("unit", ["", "day", "user,", "person"])
def test_what_is_no_unit_is_refused(ledger, unit):
    with pytest.raises(InvalidParameter, match="unit is user, or user and a column"):
        open_account(ledger, "wrong", unit=unit)
