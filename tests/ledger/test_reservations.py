"""Uses that are charged before their question is known: the promise holds although they are chosen last."""

import pytest

from setwise.accounting.compose import compose
from setwise.accounting.guarantees import Gaussian, Use
from setwise.errors import InvalidParameter


def reached_when_chosen_last(account, use, epsilon):
    """Return the delta of an analyst who spends the rest of the wallet on Gaussian counts and then chooses `use`.

    Gaussian counts add up exactly, so one count with all that is left stands for any number of them. The lower end of
    the bracket is reached by an adversary.
    """
    counts = [left for left in account.status().left if isinstance(left.guarantee, Gaussian)]
    return compose([*counts, use], "ordered").delta(epsilon).lower


@pytest.fixture
def account(sqlite_ledger):
    sqlite_ledger.open_filter("ada", epsilon=1.0, delta=0.01, failure_share=0.0)
    return sqlite_ledger.account("ada")


def test_a_charge_that_is_chosen_last_breaks_the_premise_and_the_promise(account):
    """This is why a charge must name its question: the price counts on what is left behind the use."""
    account.charge(["bounded-range:0.6"], key="early", request="to be decided")
    assert reached_when_chosen_last(account, "bounded-range:0.6", 1.0) > 1.10 * 0.01


@pytest.mark.parametrize("use", ["bounded-range:0.6", "pure:0.3", "laplace:4", "bounded-range:0.2x3"])
def test_a_reservation_that_is_chosen_last_keeps_the_promise(account, use):
    receipt = account.reserve([use], key="early", request="to be decided")
    assert all(isinstance(paid.guarantee, Gaussian) for paid in receipt.uses)
    assert 0.3 * 0.01 < reached_when_chosen_last(account, use, 1.0) <= 0.01


def test_a_reservation_is_repeated_under_its_key_without_a_second_charge(account):
    first = account.reserve(["bounded-range:0.6"], key="early", request="to be decided")
    left = account.status().left
    assert account.reserve(["bounded-range:0.6"], key="early", request="to be decided").entry == first.entry
    assert account.status().left == left


def test_gaussian_uses_cost_the_same_reserved_or_not(sqlite_ledger):
    left = []
    for name in ("charged", "reserved"):
        sqlite_ledger.open_filter(name, epsilon=1.0, delta=1e-6)
        account = sqlite_ledger.account(name)
        pay = account.charge if name == "charged" else account.reserve
        receipt = pay(["gaussian:30x2", "approx:0,1e-9"], key="series", request="a year of totals")
        account.release(receipt, part="january", answer="12")
        left.append(account.status().left)
    assert left[0] == left[1]


def test_the_failures_of_a_reserved_use_are_reserved_too(sqlite_ledger):
    sqlite_ledger.open_filter("ada", epsilon=1.0, delta=1e-6)
    receipt = sqlite_ledger.account("ada").reserve(["approx:0.1,1e-9"], key="early", request="to be decided")
    assert {use.guarantee.kind for use in receipt.uses} == {"gaussian", "approx"}


def test_an_answer_in_parts_needs_a_reservation(account):
    charged = account.charge(["pure:0.1"], key="charged", request="a year of totals")
    with pytest.raises(InvalidParameter, match="reserve"):
        account.release(charged, part="january", answer="12")
    reserved = account.reserve(["pure:0.1"], key="reserved", request="a year of totals")
    assert account.release(reserved, part="january", answer="12") == "12"


def test_registered_uses_and_zcdp_are_reserved_as_they_are(sqlite_ledger):
    sqlite_ledger.open_setwise("drawn", ["bounded-range:0.1x3"], delta=1e-6)
    sqlite_ledger.open_filter("added", epsilon=2.0, delta=1e-6, rule="zcdp")
    for name in ("drawn", "added"):
        account = sqlite_ledger.account(name)
        receipt = account.reserve(["bounded-range:0.1"], key="early", request="to be decided")
        assert receipt.uses == (Use(receipt.uses[0].guarantee),)
        assert receipt.uses[0].guarantee.kind == "bounded-range"
        assert account.release(receipt, part="one", answer="3") == "3"


def test_under_a_cap_a_reservation_is_priced_for_the_slice_too(sqlite_ledger):
    sqlite_ledger.set_cap("visits", epsilon=1.0, delta=0.01, failure_share=0.0)
    sqlite_ledger.open_setwise("ada", ["bounded-range:0.6"], delta=0.01, dataset="visits")
    account = sqlite_ledger.account("ada")
    with pytest.raises(InvalidParameter, match="not registered"):
        account.reserve(["bounded-range:0.6"], key="early", request="to be decided")


def test_zcdp_alone_cannot_be_reserved_from_a_wallet(account):
    with pytest.raises(InvalidParameter, match="no price"):
        account.reserve(["zcdp:0.001"], key="early", request="to be decided")


def test_a_ledger_with_reservations_verifies(sqlite_ledger):
    sqlite_ledger.open_filter("ada", epsilon=1.0, delta=1e-6)
    sqlite_ledger.account("ada").reserve(["bounded-range:0.1x3"], key="early", request="to be decided")
    assert not sqlite_ledger.verify().faults
