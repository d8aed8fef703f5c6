"""Dataset caps and the joint promise: analysts who collude are covered."""

from fractions import Fraction

import pytest

from setwise import compose
from setwise.accounting.zcdp_filter import Spent
from setwise.errors import BudgetExhausted, InvalidParameter, Unattainable
from setwise.ledger.register import write_opening
from setwise.ledger.terms import filter_terms
from tests.accounting.admission import AdmittingFilter
from tests.ledger.auditor import audit
from tests.ledger.test_accounts import uses


def test_an_account_that_was_opened_past_the_cap_is_found(ledger):
    """Whoever may write to the register could leave out the cap; verification names such an account."""
    ledger.set_cap("visits", epsilon=1.0, delta=1e-6)
    terms = filter_terms("eve", epsilon=9.0, delta=1e-6, dataset="visits")
    with ledger._store.writing() as connection:
        write_opening(connection, terms, 0)
    ledger.account("eve").charge(uses("gaussian:1"), key="k", request="q")
    (fault,) = ledger.verify().faults
    assert str(fault) == "the account 'eve' does not draw on the cap of its dataset 'visits'"


def test_all_accounts_on_a_dataset_share_its_cap(ledger, store_url):
    ledger.set_cap("visits", epsilon=1.0, delta=1e-6, rule="zcdp")
    ledger.open_setwise("ada", ["gaussian:20x100"], delta=1e-6, dataset="visits")
    ledger.open_filter("bob", epsilon=5.0, delta=1e-5, dataset="visits", rule="zcdp")
    ledger.open_setwise("eve", ["gaussian:20x100"], delta=1e-6, dataset="other")
    promise = AdmittingFilter(epsilon=1.0, delta=1e-6)
    granted = 0
    for number in range(40):
        account = ledger.account("ada" if number % 2 else "bob")
        if promise.admits(*uses("gaussian:20")):
            account.charge(uses("gaussian:20"), key=str(number), request="q")
            promise = promise.admit(*uses("gaussian:20"))
            granted += 1
        else:
            with pytest.raises(BudgetExhausted, match="cap of the dataset 'visits'"):
                account.charge(uses("gaussian:20"), key=str(number), request="q")
    assert granted == 18  # 18 draws of 1/800 fit in a rho of 0.0229
    ledger.account("eve").charge(uses("gaussian:20x100"), key="k", request="q")
    cap = ledger.cap("visits")
    assert (cap.charges, cap.epsilon.upper, cap.delta) == (18, 1.0, 1e-6)
    assert cap.share_left == pytest.approx(1 - 18 / 800 / promise.rho_budget, rel=1e-9)
    assert ledger.cap("other") is None
    books = audit(store_url)
    assert books["ada"].rho[""] + books["bob"].rho[""] <= Fraction(promise.rho_budget)


def test_a_refused_cap_leaves_the_account_untouched(ledger, store_url):
    ledger.set_cap("visits", epsilon=0.1, delta=1e-6)
    ledger.open_setwise("ada", ["gaussian:2x3"], delta=1e-6, dataset="visits")
    with pytest.raises(BudgetExhausted, match="cap"):
        ledger.account("ada").charge(uses("gaussian:2"), key="k", request="q")
    assert ledger.account("ada").entries() == 0
    assert ledger.account("ada").status().spent == ()
    audit(store_url)


def test_returns_do_not_touch_the_cap(ledger, store_url):
    ledger.set_cap("visits", epsilon=1.0, delta=1e-6)
    ledger.open_setwise("ada", ["bounded-range:0.1x10"], delta=1e-6, dataset="visits")
    account = ledger.account("ada")
    receipt = account.charge(uses("bounded-range:0.1x10"), key="k", request="q")
    before = ledger.cap("visits")
    account.settle(receipt, answer="a", returned=uses("bounded-range:0.1x9"))
    after = ledger.cap("visits")
    assert (after.left, after.spent, after.share_left) == (before.left, before.spent, before.share_left)
    audit(store_url)


def test_a_cap_is_set_once_and_first(ledger):
    ledger.set_cap("visits", epsilon=1.0, delta=1e-6)
    with pytest.raises(InvalidParameter, match="set once"):
        ledger.set_cap("visits", epsilon=2.0, delta=1e-6)
    ledger.open_setwise("ada", ["gaussian:20x100"], delta=1e-6, dataset="other")
    with pytest.raises(InvalidParameter, match="before the first"):
        ledger.set_cap("other", epsilon=1.0, delta=1e-6)
    for wrong in ({"epsilon": 0.0}, {"delta": 0.0}, {"dataset": ""}):
        with pytest.raises(InvalidParameter):
            ledger.set_cap(**{"dataset": "third", "epsilon": 1.0, "delta": 1e-6, **wrong})


def test_a_name_may_be_both_a_dataset_and_an_account(ledger):
    ledger.set_cap("visits", epsilon=1.0, delta=1e-6)
    ledger.open_filter("visits", epsilon=1.0, delta=1e-6, dataset="visits", rule="zcdp")
    ledger.account("visits").charge(uses("gaussian:20"), key="k", request="q")
    assert ledger.cap("visits").charges == 1
    assert not ledger.verify().faults


def test_set_wise_accounts_together_are_one_set_wise_interaction(ledger):
    ledger.open_setwise("ada", ["bounded-range:0.1x10", "pure:0.1x5"], delta=1e-6, dataset="visits")
    ledger.open_setwise("bob", ["bounded-range:0.1x20"], delta=2e-6, dataset="visits")
    ledger.open_setwise("eve", ["pure:0.1x20"], delta=2e-6, dataset="other")
    joint = ledger.joint("visits")
    assert joint.accounts == ("ada", "bob")
    assert joint.delta == pytest.approx(3e-6)
    assert joint.epsilon == compose(["bounded-range:0.1x30", "pure:0.1x5"], "setwise").epsilon(joint.delta)
    for name in ("ada", "bob"):
        assert ledger.account(name).status().epsilon.upper <= ledger.joint("visits", delta=1e-6).epsilon.upper


def test_filters_join_with_their_totals(ledger):
    ledger.open_filter("bob", epsilon=1.0, delta=1e-6, dataset="visits", rule="zcdp")
    assert ledger.joint("visits").epsilon.upper == pytest.approx(1.0, rel=1e-6)
    ledger.open_setwise("ada", ["gaussian:20x10"], delta=1e-6, dataset="visits")
    joint = ledger.joint("visits", delta=1e-6)
    rho = AdmittingFilter(epsilon=1.0, delta=1e-6).rho_budget + 10 / 800
    assert Spent(rho * (1 + 1e-12), 5e-7).delta(joint.epsilon.upper).upper == pytest.approx(1e-6, rel=1e-6)
    assert joint.epsilon.upper > 1.0


def test_periods_are_counted(ledger):
    ledger.open_setwise("ada", ["pure:0.1x5"], delta=1e-6, dataset="visits", period="month")
    ledger.open_setwise("bob", ["pure:0.2x3"], delta=1e-6, dataset="visits")
    joint = ledger.joint("visits", delta=1e-6, periods=12)
    assert joint.epsilon == compose(["pure:0.1x60", "pure:0.2x3"]).epsilon(1e-6)
    with pytest.raises(InvalidParameter, match="periods"):
        ledger.joint("visits", periods=0)


def test_the_promise_of_an_account_on_a_dataset_names_the_promises_that_cover_tables_that_react(ledger):
    ledger.set_cap("visits", epsilon=1.0, delta=1e-6)
    ledger.open_filter("bob", epsilon=0.5, delta=1e-6, dataset="visits")
    ledger.open_filter("ada", epsilon=0.5, delta=1e-6)
    covered = "only the dataset's cap or joint promise covers that."
    assert ledger.account("bob").status().promise.endswith(covered)
    joint = ledger.joint("visits")
    for promise in (ledger.account("ada").status().promise, joint.promise, joint.cap.promise):
        assert covered not in promise


def test_the_cap_bounds_the_joint_promise(ledger):
    ledger.set_cap("visits", epsilon=1.0, delta=1e-6)
    ledger.open_filter("bob", epsilon=5.0, delta=1e-5, dataset="visits", rule="zcdp")
    joint = ledger.joint("visits")
    assert joint.epsilon.upper == 1.0
    assert joint.cap == ledger.cap("visits")
    assert ledger.joint("visits", delta=1e-6).epsilon.upper == 1.0
    with pytest.raises(Unattainable):  # below the cap's delta its promise says nothing
        ledger.joint("visits", delta=9e-7)
    with pytest.raises(InvalidParameter, match="no account"):
        ledger.joint("nothing")
