"""Accounts: what is registered is drawn without replacement, and what is promised is certified."""

import math
import re
from fractions import Fraction

import pytest
from scipy.stats import binom

from setwise import compose, parse_use
from setwise.accounting.notation import format_use
from setwise.errors import (
    AccountExists,
    BudgetExhausted,
    InvalidParameter,
    KeyConflict,
    UnknownAccount,
)
from tests.accounting.admission import AdmittingFilter
from tests.ledger.auditor import audit

REGISTERED = ["bounded-range:0.1x10", "pure:0.1x5"]


def uses(*written):
    return [parse_use(text) for text in written]


def written(found):
    return [format_use(use) for use in found]


def test_opening_certifies_the_set_wise_optimum(ledger):
    status = ledger.open_setwise("ada", REGISTERED, delta=1e-6, analyst="Ada", dataset="visits")
    assert status.epsilon == compose(REGISTERED, "setwise").epsilon(1e-6)
    assert (status.analyst, status.dataset, status.kind) == ("Ada", "visits", "setwise")
    assert written(status.left) == REGISTERED
    assert status.spent == ()
    assert (status.odometer.lower, status.odometer.upper) == (0.0, 0.0)


def test_draws_in_any_order_until_nothing_is_left(ledger, store_url):
    ledger.open_setwise("ada", REGISTERED, delta=1e-6)
    account = ledger.account("ada")
    for number, draw in enumerate(["pure:0.1x2", "bounded-range:0.1x7", "pure:0.1x3", "bounded-range:0.1x3"]):
        account.charge(uses(draw), key=str(number), request="q")
    status = account.status()
    assert status.left == ()
    assert written(status.spent) == REGISTERED
    assert status.charges == 4
    for draw in ("pure:0.1", "bounded-range:0.1"):
        with pytest.raises(BudgetExhausted, match="nothing is left"):
            account.charge(uses(draw), key="more", request="q")
    audit(store_url)


def test_a_charge_of_several_uses_is_all_or_nothing(ledger, store_url):
    ledger.open_setwise("ada", REGISTERED, delta=1e-6)
    account = ledger.account("ada")
    with pytest.raises(BudgetExhausted, match=r"bounded-range:0.1x10, pure:0.1x5 is left"):
        account.charge(uses("bounded-range:0.1x10", "pure:0.1x6"), key="k", request="q")
    assert written(account.status().left) == REGISTERED
    assert account.entries() == 0
    account.charge(uses("bounded-range:0.1x10", "pure:0.1x2", "pure:0.1x3"), key="k", request="q")
    assert account.status().left == ()
    audit(store_url)


@pytest.mark.parametrize("draw", ["bounded-range:0.2", "pure:0.10000000000000002", "gaussian:20", "laplace:10"])
def test_only_what_is_registered_can_be_drawn(ledger, draw):
    ledger.open_setwise("ada", REGISTERED, delta=1e-6)
    with pytest.raises(InvalidParameter, match=r"is not registered.*bounded-range:0.1x10, pure:0.1x5"):
        ledger.account("ada").charge(uses(draw), key="k", request="q")


def test_a_filter_takes_any_parameters_up_to_its_total(ledger, store_url):
    ledger.open_filter("bob", epsilon=1.0, delta=1e-6, rule="zcdp")
    account = ledger.account("bob")
    promise = AdmittingFilter(epsilon=1.0, delta=1e-6)
    granted = 0
    for number, draw in enumerate(["gaussian:20x3", "approx:0,1e-8", "pure:0.05", "bounded-range:0.1x3"] * 9):
        admitted = all(promise.admits(use) for use in uses(draw))
        try:
            account.charge(uses(draw), key=str(number), request="q")
        except BudgetExhausted:
            assert not admitted
        else:
            promise = promise.admit(parse_use(draw))  # raises when the ledger was more generous
            granted += 1
    assert 0 < granted < 36
    status = account.status()
    assert status.charges == granted
    assert status.epsilon.upper == 1.0
    assert 0.8 < status.odometer.upper < 1.5
    audit(store_url)


def test_a_filter_pays_for_exactly_what_it_says_is_left(ledger, store_url):
    ledger.open_filter("bob", epsilon=1.0, delta=1e-6, rule="zcdp")
    account = ledger.account("bob")
    account.charge(uses("gaussian:20x3", "approx:0,1e-8"), key="0", request="q")
    (left,) = account.status().left
    more = f"zcdp:{math.nextafter(left.guarantee.rho, 1) * (1 + 1e-15)!r}"
    with pytest.raises(BudgetExhausted):
        account.charge(uses(more), key="1", request="q")
    account.charge([left], key="1", request="q")
    assert account.status().share_left < 1e-15
    with pytest.raises(BudgetExhausted):
        account.charge(uses("gaussian:1000"), key="2", request="q")
    book = audit(store_url)["bob"]
    assert book.rho[""] <= Fraction(AdmittingFilter(epsilon=1.0, delta=1e-6).rho_budget)
    assert book.failure[""] <= Fraction(5e-7)


def test_a_budget_smaller_than_its_first_draw(ledger):
    ledger.open_filter("bob", epsilon=0.1, delta=1e-6, rule="zcdp")
    for draw in ("gaussian:1", "pure:500x1000000000", "gaussian:0.000001x1000000000"):
        with pytest.raises(BudgetExhausted, match="cannot pay"):
            ledger.account("bob").charge(uses(draw), key="k", request="q")
    assert ledger.account("bob").entries() == 0


def test_failures_need_a_share_of_delta(ledger):
    ledger.open_filter("bob", epsilon=1.0, delta=1e-6, failure_share=0.0, rule="zcdp")
    with pytest.raises(BudgetExhausted):
        ledger.account("bob").charge(uses("approx:0,1e-12"), key="k", request="q")
    ledger.account("bob").charge(uses("gaussian:20"), key="k", request="q")


def test_odometer_brackets_the_draws_so_far(ledger):
    ledger.open_setwise("ada", ["gaussian:20x100", "bounded-range:0.1x100"], delta=1e-6)
    account = ledger.account("ada")
    ends = []
    for number in range(5):
        account.charge(uses("gaussian:20x5", "bounded-range:0.1x2"), key=str(number), request="q")
        status = account.status()
        exact = compose(status.spent, "batch").epsilon(1e-6)
        assert status.odometer.lower <= exact.upper
        assert exact.lower <= status.odometer.upper
        ends.append(status.odometer.upper)
    assert ends == sorted(ends)
    ledger.open_setwise("pure", ["pure:0.1x100"], delta=1e-6)
    ledger.account("pure").charge(uses("pure:0.1x2"), key="0", request="q")
    assert ledger.account("pure").status().odometer.upper == pytest.approx(0.2, rel=1e-12)


@pytest.mark.parametrize("failing", ["", "approx:0,4e-8x10"])
def test_the_loss_passes_the_odometer_with_probability_delta_at_most(sqlite_ledger, failing):
    """Randomized response loses 0.1 or -0.1 at each draw: the loss of all of them is known exactly."""
    sqlite_ledger.open_setwise("ada", ["pure:0.1x25", *filter(None, [failing])], delta=1e-6)
    account = sqlite_ledger.account("ada")
    if failing:
        account.charge(uses(failing), key="thresholds", request="q")
    for drawn in range(1, 26):
        account.charge(uses("pure:0.1"), key=str(drawn), request="q")
        reading = account.status().path_odometer.upper
        heads = [n for n in range(drawn + 1) if 0.1 * (2 * n - drawn) > reading]
        passed = sum(binom.pmf(n, drawn, math.exp(0.1) / (1 + math.exp(0.1))) for n in heads)
        assert passed + (4e-7 if failing else 0.0) <= 1e-6, drawn


def test_no_odometer_where_failures_take_all_of_delta(sqlite_ledger):
    sqlite_ledger.open_setwise("ada", ["pure:0.05x200", "approx:0,1e-6"], delta=1e-6)
    account = sqlite_ledger.account("ada")
    account.charge(uses("pure:0.05x200", "approx:0,1e-6"), key="0", request="q")
    assert account.status().odometer.upper == pytest.approx(10.0, rel=1e-9)  # the sum, which needs no delta
    sqlite_ledger.open_setwise("bob", ["gaussian:20x10", "approx:0,1e-7x10"], delta=1e-6)
    account = sqlite_ledger.account("bob")
    account.charge(uses("gaussian:20x10", "approx:0,1e-7x10"), key="0", request="q")
    assert 1.0 < account.status().odometer.upper < 2.0  # failures fall together: 4.5e-13 of delta is left


def test_a_filters_odometer_by_its_entries_is_the_least_statement(ledger):
    ledger.open_filter("bob", epsilon=2.0, delta=1e-6, period="year", rule="zcdp")
    account = ledger.account("bob")
    assert account.status_by_entries().odometer == account.status().odometer
    account.charge(uses("pure:0.1x2", "bounded-range:0.05"), key="0", request="q")
    found = account.status_by_entries()
    assert found.odometer.upper == pytest.approx(0.25)
    assert found.odometer.method == "basic-composition"
    assert account.status().odometer.upper > 0.3
    account.charge(uses("gaussian:20x5"), key="1", request="q")
    assert account.status_by_entries().odometer.upper <= account.status().odometer.upper
    assert 0.0 == account.status().odometer.lower < account.status_by_entries().odometer.lower


def test_a_filter_half_spent_reads_well_below_its_promise(ledger):
    ledger.open_filter("bob", epsilon=2.0, delta=1e-6, rule="zcdp")
    account = ledger.account("bob")
    (left,) = account.status().left
    account.charge(uses(f"zcdp:{left.guarantee.rho / 2!r}"), key="0", request="q")
    assert account.status().path_odometer.upper < 1.7
    assert account.status().odometer.upper < 1.75  # at three quarters of delta; the sum of charges has the rest


def test_what_is_missing_is_told_before_and_when_it_is_refused(ledger):
    ledger.set_cap("visits", epsilon=1.0, delta=1e-6, rule="zcdp")
    ledger.open_filter("bob", epsilon=5.0, delta=1e-6, dataset="visits", period="year", rule="zcdp")
    ledger.open_setwise("ada", REGISTERED, delta=1e-6, dataset="visits")
    for name, draw, told in (
        (
            "bob",
            ["pure:5"],
            r"'bob' \(epsilon 5 at delta 1e-06\).*until year.*a rho of 12.5, and 0.44\d+ is left; "
            r"the cap of the dataset 'visits', .*a rho of 12.5, and 0.02\d+ is left$",
        ),
        (
            "bob",
            ["approx:0,1e-6"],
            r"a failure probability of 1e-06, and 5e-07 is left; the cap .* of 1e-06, and 5e-07 is left$",
        ),
        ("bob", ["gaussian:1.2"], r"cap of the dataset 'visits'.*a rho of 0.3473, and 0.02\d+ is left$"),
        (
            "ada",
            ["pure:0.1x6"],
            r"'ada'.*it needs pure:0.1x6, and bounded-range:0.1x10, pure:0.1x5 is left; "
            r"the cap .* a rho of 0.03, and 0.02\d+ is left$",
        ),
    ):
        account = ledger.account(name)
        missing = account.shortage(draw)
        assert re.search(told, missing), missing
        with pytest.raises(BudgetExhausted) as refused:
            account.charge(uses(*draw), key="k", request="q")
        assert str(refused.value) == missing
        assert account.status().charges == 0
    assert ledger.account("bob").shortage(["gaussian:50"]) is None
    with pytest.raises(InvalidParameter, match="not registered"):
        ledger.account("ada").shortage(["pure:0.2"])


def test_two_amounts_that_look_the_same_are_told_apart(sqlite_ledger):
    """Amounts are drawn in units and rounded up, so that the last of five equal parts does not fit."""
    sqlite_ledger.open_filter("bob", epsilon=4.0, delta=1e-6, failure_share=0.02)
    bob = sqlite_ledger.account("bob")
    for number in range(4):
        bob.charge(uses("approx:0,4e-9"), key=str(number), request="q")
    told = bob.shortage(["approx:0,4e-9"])
    assert "it needs a failure probability of 4e-09, and a little less than 4e-09 is left" in told
    assert told.endswith("use an account that was opened with a larger failure share")


@pytest.mark.parametrize(
    ("rule", "needed", "told"),
    [
        (
            {},
            "approx:0.9,4e-7",
            r"it needs a failure probability of 4e-07, and 1e-07 .* share; it costs more than is left",
        ),
        (
            {"rule": "menu", "menu": ["pure:0.5"]},
            "pure:0.5x9, approx:0,4e-7",
            r"it needs a failure probability of 4e-07, and 1e-07 .* share; it costs .* of the menu, and",
        ),
        ({"rule": "zcdp"}, "pure:5, approx:0,4e-7", r"a rho of 12.5, and .*; it needs a failure probability of 4e-07"),
    ],
)
def test_a_refusal_names_all_that_an_account_lacks(rule, needed, told, ledger):
    """A refusal named the delta alone, and who asked with a smaller delta was refused for the epsilon."""
    ledger.open_filter("bob", epsilon=0.5, delta=1e-6, failure_share=0.1, **rule)
    account = ledger.account("bob")
    missing = account.shortage(needed.split(", "))
    assert re.search(told, missing), missing
    with pytest.raises(BudgetExhausted) as refused:
        account.charge(uses(*needed.split(", ")), key="k", request="q")
    assert str(refused.value) == missing


def test_a_refusal_names_all_that_a_cap_and_an_account_lack(ledger):
    ledger.set_cap("visits", epsilon=0.4, delta=1e-6, failure_share=0.1)
    ledger.open_filter("bob", epsilon=0.5, delta=1e-6, failure_share=0.1, dataset="visits")
    missing = ledger.account("bob").shortage(["approx:0.9,4e-7"])
    of_account, of_cap = missing.split("; the cap of the dataset 'visits', which all its accounts share, cannot pay: ")
    for text in (of_account, of_cap):
        assert re.search("a failure probability of 4e-07, and 1e-07 .* share; it costs more than is left", text), text


def test_a_refusal_of_a_cap_names_all_that_it_lacks_and_no_more(ledger):
    ledger.set_cap("visits", epsilon=0.5, delta=1e-6, failure_share=0.1)
    ledger.open_filter("bob", epsilon=5, delta=1e-5, dataset="visits")
    account = ledger.account("bob")
    assert account.shortage(["approx:0.4,4e-8"]) is None
    assert "failure" not in account.shortage(["approx:0.9,4e-8"])
    assert "epsilon" not in account.shortage(["approx:0.4,4e-7"])


def test_an_account_shows_what_it_is(ledger):
    ledger.open_filter("bob", epsilon=5.0, delta=1e-6, dataset="visits", period="year", rule="zcdp")
    assert repr(ledger.account("bob")) == (
        "<setwise filter account 'bob' on 'visits', epsilon 5 at delta 1e-06 per year>"
    )


def test_accounts_are_found_by_name(ledger):
    ledger.open_setwise("ada", REGISTERED, delta=1e-6)
    ledger.open_filter("bob", epsilon=1.0, delta=1e-6, rule="zcdp")
    assert [status.name for status in ledger.accounts()] == ["ada", "bob"]
    with pytest.raises(UnknownAccount, match="'eve'"):
        ledger.account("eve")
    with pytest.raises(UnknownAccount, match="'eve'"):
        list(ledger.history("eve"))


def test_an_account_is_opened_once(ledger):
    ledger.open_setwise("ada", REGISTERED, delta=1e-6)
    for again in (
        lambda: ledger.open_setwise("ada", REGISTERED, delta=1e-6),
        lambda: ledger.open_filter("ada", epsilon=1.0, delta=1e-6, rule="zcdp"),
    ):
        with pytest.raises(AccountExists, match="'ada'"):
            again()


def test_same_key_in_two_accounts_is_two_charges(ledger, store_url):
    for name in ("ada", "bob"):
        ledger.open_setwise(name, REGISTERED, delta=1e-6)
        ledger.account(name).charge(uses("pure:0.1"), key="k", request=name)
    with pytest.raises(KeyConflict):
        ledger.account("ada").charge(uses("pure:0.1"), key="k", request="bob")
    assert {name: len(book.charges) for name, book in audit(store_url).items()} == {"ada": 1, "bob": 1}
