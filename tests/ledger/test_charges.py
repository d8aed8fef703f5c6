"""Charges and settlements: once per key, the first answer stays, and only unused draws come back."""

import pytest

from setwise import parse_use
from setwise.errors import BudgetExhausted, InvalidParameter, KeyConflict
from setwise.ledger.account import Receipt
from setwise.ledger.ledger import Ledger
from tests.ledger.auditor import audit
from tests.ledger.test_accounts import uses, written


@pytest.fixture
def account(ledger):
    ledger.open_setwise("ada", ["bounded-range:0.1x10", "pure:0.1x5"], delta=1e-6)
    return ledger.account("ada")


def test_a_charge_is_there_for_everyone_before_it_returns(account, store_url):
    account.charge(uses("pure:0.1"), key="k", request="q")
    with Ledger.open(store_url) as other:
        assert other.account("ada").status().charges == 1


def test_same_key_and_request_charges_once_and_replays_the_answer(account, store_url):
    first = account.charge(uses("pure:0.1"), key="k", request="q")
    assert first.answer is None
    resumed = account.charge(uses("pure:0.1"), key="k", request="q")
    assert resumed == first
    assert account.settle(first, answer="söme\nänswer 'with' \"quotes\" 😀") == "söme\nänswer 'with' \"quotes\" 😀"
    with Ledger.open(store_url) as other:
        replayed = other.account("ada").charge(uses("pure:0.1"), key="k", request="q")
    assert replayed.answer == "söme\nänswer 'with' \"quotes\" 😀"
    assert account.status().charges == 1
    audit(store_url)


@pytest.mark.parametrize(("draw", "text"), [("pure:0.1", "other"), ("pure:0.1x2", "q"), ("bounded-range:0.1", "q")])
def test_a_used_key_with_another_request_is_a_conflict(account, draw, text):
    account.charge(uses("pure:0.1"), key="k", request="q")
    with pytest.raises(KeyConflict, match="'k'"):
        account.charge(uses(draw), key="k", request=text)
    assert account.status().charges == 1


def test_an_answered_key_replays_even_when_the_budget_is_gone(account):
    account.settle(account.charge(uses("pure:0.1x5"), key="k", request="q"), answer="a")
    with pytest.raises(BudgetExhausted):
        account.charge(uses("pure:0.1"), key="l", request="q")
    assert account.charge(uses("pure:0.1x5"), key="k", request="q").answer == "a"


def test_a_refused_key_may_be_used_again(account):
    with pytest.raises(BudgetExhausted):
        account.charge(uses("pure:0.1x6"), key="k", request="big")
    assert account.charge(uses("pure:0.1x5"), key="k", request="smaller").entry == 1


def test_the_first_answer_stays(account, store_url):
    receipt = account.charge(uses("bounded-range:0.1x3"), key="k", request="q")
    assert account.settle(receipt, answer="first", returned=uses("bounded-range:0.1")) == "first"
    assert account.settle(receipt, answer="second", returned=uses("bounded-range:0.1x2")) == "first"
    assert written(account.status().left) == ["bounded-range:0.1x8", "pure:0.1x5"]
    assert audit(store_url)["ada"].answers == {"k": "first"}


def test_unused_draws_come_back_and_can_be_drawn_again(account, store_url):
    receipt = account.charge(uses("bounded-range:0.1x10", "pure:0.1x5"), key="k", request="q")
    with pytest.raises(BudgetExhausted):
        account.charge(uses("bounded-range:0.1"), key="l", request="q")
    account.settle(receipt, answer="a", returned=uses("bounded-range:0.1x4", "pure:0.1x5"))
    assert written(account.status().left) == ["bounded-range:0.1x4", "pure:0.1x5"]
    account.charge(uses("bounded-range:0.1x4", "pure:0.1x5"), key="l", request="q")
    assert account.status().left == ()
    audit(store_url)


@pytest.mark.parametrize("back", ["bounded-range:0.1x4", "pure:0.1", "gaussian:20"])
def test_no_more_comes_back_than_was_drawn(account, back):
    receipt = account.charge(uses("bounded-range:0.1x3"), key="k", request="q")
    with pytest.raises(InvalidParameter, match="cannot be returned"):
        account.settle(receipt, answer="a", returned=uses(back))
    assert account.charge(uses("bounded-range:0.1x3"), key="k", request="q").answer is None


def test_a_forged_receipt_returns_nothing(account, store_url):
    account.charge(uses("bounded-range:0.1x3"), key="k", request="q")
    forged = Receipt(account="ada", key="k", entry=1, period="", uses=tuple(uses("bounded-range:0.1x9")))
    with pytest.raises(InvalidParameter):
        account.settle(forged, answer="a", returned=uses("bounded-range:0.1x9"))
    unknown = Receipt(account="ada", key="zzz", entry=7, period="", uses=tuple(uses("pure:0.1")))
    with pytest.raises(InvalidParameter, match="'zzz'"):
        account.settle(unknown, answer="a")
    other = Receipt(account="bob", key="k", entry=1, period="", uses=tuple(uses("bounded-range:0.1x3")))
    with pytest.raises(InvalidParameter, match="'bob'"):
        account.settle(other, answer="a")
    audit(store_url)


def test_a_filter_gets_nothing_back(ledger):
    ledger.open_filter("bob", epsilon=1.0, delta=1e-6, rule="zcdp")
    account = ledger.account("bob")
    receipt = account.charge(uses("bounded-range:0.1x3"), key="k", request="q")
    before = account.status()
    assert account.settle(receipt, answer="a", returned=uses("bounded-range:0.1x2")) == "a"
    assert account.status() == before


def test_history_has_charges_answers_and_returns(ledger, account):
    receipt = account.charge([parse_use("bounded-range:0.1x3")], key="k", request="q")
    account.settle(receipt, answer="a", returned=[parse_use("bounded-range:0.1")])
    charge, settle = ledger.history("ada")
    assert (charge.contents.kind, charge.contents.text, written(charge.uses)) == (
        "charge",
        "q",
        ["bounded-range:0.1x3"],
    )
    assert (settle.contents.kind, settle.contents.text, written(settle.uses)) == ("settle", "a", ["bounded-range:0.1"])
    assert settle.previous == charge.hash
    assert [entry.position for entry in ledger.history("ada", after=1)] == [2]
