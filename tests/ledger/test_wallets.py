"""Wallets: prices that fall with what is left, charged atomically, verified in order, on both stores."""

import io
import json
import math
import threading

import pytest

from setwise import Use, compose, parse_use
from setwise.accounting import prices
from setwise.accounting.wallet import gaussian_of
from setwise.errors import BudgetExhausted, InvalidParameter
from setwise.ledger import amounts
from setwise.ledger.amounts import UNITS, WALLET
from setwise.ledger.ledger import Ledger
from tests.accounting.admission import AdmittingWallet
from tests.ledger.raw import without_triggers
from tests.ledger.test_accounts import uses, written
from tests.ledger.test_transfer import written_export
from tests.ledger.test_verification import redo_hashes

ADMITTED = [("pure:0.4", 5), ("pure:0.1", 20), ("pure:0.05", 79), ("bounded-range:0.1", 79), ("gaussian:20", 80)]


@pytest.mark.parametrize(("mech", "count"), ADMITTED)
def test_a_wallet_admits_more_than_zcdp(sqlite_ledger, mech, count):
    """A filter of (2, 1e-6): zCDP admits 1, 16, 66, 66 and 66 of these."""
    sqlite_ledger.open_filter("ada", epsilon=2.0, delta=1e-6, failure_share=0.0, rule="wallet")
    account = sqlite_ledger.account("ada")
    for number in range(count):
        account.charge(uses(mech), key=str(number), request="q")
    assert account.shortage(uses(mech)) is not None
    assert not sqlite_ledger.verify().faults


def test_the_wallet_of_the_ledger_is_never_more_generous(ledger):
    ledger.open_filter("ada", epsilon=2.0, delta=1e-6, rule="wallet")
    account, wallet = ledger.account("ada"), AdmittingWallet.for_promise(epsilon=2.0, delta=1e-6)
    draws = ["pure:0.1x3", "gaussian:20", "bounded-range:0.2x4", "approx:0.05,1e-9", "laplace:8"] * 9
    granted = 0
    for number, draw in enumerate(draws):
        try:
            account.charge(uses(draw), key=str(number), request="q")
        except BudgetExhausted:
            continue
        wallet = wallet.admit(parse_use(draw))  # raises when the ledger was more generous
        granted += 1
    assert 10 < granted < 45
    assert not ledger.verify().faults


def test_a_refusal_names_the_epsilon_that_is_left_though_the_wallet_is_empty(ledger):
    """It said that nothing was left, while the status of the account had epsilon 0.4 of 2."""
    ledger.open_filter("ada", epsilon=2.0, delta=1e-6, rule="wallet")
    account = ledger.account("ada")
    for number in range(2):
        account.charge(uses("pure:0.8"), key=str(number), request="q")
    assert account.status().epsilon_left == pytest.approx(0.4, abs=1e-6)
    told = account.shortage(uses("pure:0.8"))
    assert told.endswith("cannot pay for this: it needs epsilon 0.8, and epsilon 0.4 is left")
    assert account.shortage(uses("pure:0.39")) is None
    assert account.shortage(uses("gaussian:100")).endswith("epsilon 0.4 is left, but not for Gaussian noise")
    account.charge(uses("pure:0.4"), key="last", request="q")
    assert account.shortage(uses("pure:0.1")).endswith("nothing is left")


def test_what_is_left_can_be_paid_and_a_little_more_cannot(ledger):
    ledger.open_filter("ada", epsilon=1.0, delta=1e-6, rule="wallet")
    account = ledger.account("ada")
    account.charge(uses("pure:0.1x2", "bounded-range:0.05x3"), key="1", request="q")
    noise, failure = account.status().left
    assert account.shortage([noise, failure]) is None
    less = parse_use(f"gaussian:{noise.guarantee.sigma * 0.999!r}")
    assert "it costs more than is left; Gaussian noise of sigma" in account.shortage([less])
    account.charge([noise, failure], key="2", request="q")
    assert account.status().share_left < 1e-9
    assert not ledger.verify().faults


def test_the_order_inside_a_charge_does_not_matter_and_is_not_relied_on(sqlite_ledger):
    """Each use is priced with what is left after all of them, so a charge costs at least what any order would."""
    for name in ("one", "two", "apart"):
        sqlite_ledger.open_filter(name, epsilon=2.0, delta=1e-6, rule="wallet")
    both = ["pure:0.2x4", "bounded-range:0.3x4"]
    sqlite_ledger.account("one").charge(uses(*both), key="k", request="q")
    sqlite_ledger.account("two").charge(uses(*reversed(both)), key="k", request="q")
    for number, mech in enumerate(both):
        sqlite_ledger.account("apart").charge(uses(mech), key=str(number), request="q")
    one, two, apart = (sqlite_ledger.account(name).status().share_left for name in ("one", "two", "apart"))
    assert one == two <= apart


def test_a_use_of_unknown_pair_has_no_price(ledger):
    ledger.open_filter("ada", epsilon=1.0, delta=1e-6, rule="wallet")
    with pytest.raises(BudgetExhausted, match="adds up zCDP"):
        ledger.account("ada").charge(uses("zcdp:0.001"), key="k", request="q")


def test_a_sum_admits_what_the_wallet_cannot_pay_and_then_only_the_sum(ledger, store_url):
    ledger.open_filter("ada", epsilon=2.0, delta=1e-6, rule="wallet")
    account = ledger.account("ada")
    for number in range(5):
        account.charge(uses("pure:0.4"), key=str(number), request="q")
    for mech in ("pure:0.001", "gaussian:1000"):
        with pytest.raises(BudgetExhausted):
            account.charge(uses(mech), key="more", request="q")
    status = account.status()  # no Gaussian of the wallet's size covers what was drawn
    assert [use.guarantee.kind for use in status.spent] == ["pure"]
    assert status.spent[0].guarantee.epsilon == pytest.approx(2.0)
    ledger.open_filter("bob", epsilon=2.0, delta=1e-6, rule="wallet")
    account = ledger.account("bob")
    account.charge(uses("gaussian:1000"), key="0", request="q")  # its loss is unbounded: no sum any more
    assert [use.guarantee.kind for use in account.status().spent] == ["gaussian"]
    assert account.shortage(uses("pure:0.3")) is None
    assert account.shortage(uses("pure:0.3x2")) is not None
    assert not ledger.verify().faults


def test_threads_race_for_a_wallet_without_passing_it(ledger):
    ledger.open_filter("ada", epsilon=1.0, delta=1e-6, failure_share=0.0, rule="wallet")
    granted = []

    def spend(place):
        account = ledger.account("ada")
        for number in range(12):
            try:
                account.charge(uses("pure:0.1"), key=f"{place}-{number}", request="q")
                granted.append(1)
            except BudgetExhausted:
                return

    threads = [threading.Thread(target=spend, args=(place,)) for place in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wallet, alone = AdmittingWallet.for_promise(epsilon=1.0, delta=1e-6, failure_share=0.0), 0
    while wallet.admits(parse_use("pure:0.1")):
        wallet, alone = wallet.admit(parse_use("pure:0.1")), alone + 1
    assert len(granted) == alone
    assert not ledger.verify().faults


def test_an_understated_price_is_found(ledger, store_url):
    ledger.open_filter("ada", epsilon=1.0, delta=1e-6, rule="wallet")
    for number in range(4):
        ledger.account("ada").charge(uses("pure:0.1"), key=str(number), request="q")
    with without_triggers(store_url) as run:
        ((amount, number),) = run("SELECT amount, number FROM ledger_movements WHERE what = 'wallet' AND position = 3")
        run("UPDATE ledger_movements SET amount = ? WHERE number = ?", amount - 2**21, number)
        run("UPDATE ledger_balances SET spent = spent - ? WHERE what = 'wallet'", 2**21)
        redo_hashes(run)
    assert ("ada", 3) in {(fault.account, fault.entry) for fault in ledger.verify().faults}


class OtherMath:
    """The functions of `math`, some rounded to the next float."""

    def __getattr__(self, name):
        function = getattr(math, name)
        if name not in ("exp", "expm1", "erf", "sinh"):
            return function
        return lambda x: math.nextafter(function(x), math.inf if hash(x) % 3 else -math.inf)


def test_prices_verify_where_functions_round_otherwise(sqlite_ledger, monkeypatch):
    """Another C library may round exp or erf to the next float: what was charged is still what it says."""
    sqlite_ledger.open_filter("ada", epsilon=2.0, delta=1e-6, rule="wallet")
    account = sqlite_ledger.account("ada")
    for number in range(8):
        account.charge(uses("pure:0.3" if number % 2 else "bounded-range:0.2"), key=str(number), request="q")
    before, totals = prices.pure_price(0.3, 0.1), account.terms.totals
    left = [totals.price(uses("pure:0.3"), {WALLET: UNITS * part // 32}) for part in range(16)]
    monkeypatch.setattr(prices, "math", OtherMath())
    assert left != [totals.price(uses("pure:0.3"), {WALLET: UNITS * part // 32}) for part in range(16)]
    assert prices.pure_price(0.3, 0.1) == pytest.approx(before, rel=1e-12)
    assert not sqlite_ledger.verify().faults


@pytest.fixture(params=["sqlite", "postgresql"])
def other_url(request, tmp_path):
    if request.param == "sqlite":
        return str(tmp_path / "other.db")
    return request.getfixturevalue("postgresql_server").schema()


def test_wallets_are_exported_and_restored(ledger, other_url, clock):
    ledger.open_filter("ada", epsilon=1.0, delta=1e-6, rule="wallet", period="month")
    ledger.open_setwise("bob", ["pure:0.1x5"], delta=1e-6, wallet=0.1, failure=1e-8)
    for number in range(4):
        ledger.account("ada").charge(uses("pure:0.1", "approx:0,1e-10"), key=str(number), request="q")
        ledger.account("bob").charge(uses("pure:0.1", "gaussian:50"), key=str(number), request="q")
        clock.move(days=10)
    stream = io.StringIO()
    ledger.export(stream)
    with Ledger.open(other_url, clock=clock) as other:
        other.restore(io.StringIO(stream.getvalue()))
        assert other.verify() == ledger.verify()
        assert other.accounts() == ledger.accounts()
        other.account("ada").charge(uses("pure:0.1"), key="more", request="q")
        assert not other.verify().faults


def test_what_covers_a_payment_does_not_depend_on_the_last_unit(sqlite_ledger):
    sqlite_ledger.open_filter("ada", epsilon=1.0, delta=1e-6, rule="wallet")
    totals = sqlite_ledger.account("ada").terms.totals
    for mechs in (["pure:0.1"], ["pure:0.05x3", "gaussian:50"], ["bounded-range:0.1x2", "laplace:20"]):
        left = UNITS // 2
        paid = totals.price(uses(*mechs), {WALLET: UNITS - left})[WALLET]
        assert totals.covers(uses(*mechs), left, paid)
        assert totals.covers(uses(*mechs), left, paid - 2**10)
        assert not totals.covers(uses(*mechs), left, paid - 2**21)


def test_an_old_export_restores_to_the_last_unit(sqlite_ledger, tmp_path, clock, monkeypatch):
    """Exports of format 2 do not say what was paid. Where prices come out a little higher, what is left is enough."""
    sqlite_ledger.open_filter("ada", epsilon=1.0, delta=1e-6, failure_share=0.0, rule="wallet")
    account = sqlite_ledger.account("ada")
    account.charge(uses("gaussian:50", "pure:0.05x3"), key="0", request="q")
    totals = account.terms.totals
    left = UNITS - spent_units(sqlite_ledger)
    low, high = 0.001, 0.3  # the largest pure use that is still paid
    for _ in range(60):
        middle = 0.5 * (low + high)
        fits = totals.price(uses(f"pure:{middle!r}", "gaussian:1000"), {WALLET: UNITS - left, "sum": UNITS})[WALLET]
        low, high = (middle, high) if fits <= left else (low, middle)
    account.charge(uses(f"pure:{low!r}", "gaussian:1000"), key="1", request="q")
    old = io.StringIO()
    sqlite_ledger.export(old)
    real = amounts.after_paying
    monkeypatch.setattr(amounts, "after_paying", lambda price, count, wallet: real(price, count, wallet * (1 - 1e-14)))
    with Ledger.open(str(tmp_path / "third.db"), clock=clock) as other:
        other.restore(io.StringIO(format_2(old.getvalue())))
        assert other.account("ada").status().charges == 2


def spent_units(ledger):
    with ledger._store.reading() as connection:
        return connection.exec_driver_sql("SELECT spent FROM ledger_balances WHERE what = 'wallet'").scalar_one()


def format_2(export):
    """Return an export as it was written before it said what was paid."""
    lines = [json.loads(line) for line in export.splitlines()[:-1]]
    lines[0]["format"] = "setwise-ledger-2"
    for line in lines:
        line.pop("moves", None)
    return written_export(lines)


def test_registered_draws_and_a_wallet_in_one_account(ledger):
    status = ledger.open_setwise("ada", ["bounded-range:0.1x10", "pure:0.1x5"], delta=1e-6, wallet=0.2, failure=1e-8)
    registered = ["bounded-range:0.1x10", "pure:0.1x5", Use(gaussian_of(0.2**2)), "approx:0,1e-8"]
    assert status.epsilon.upper == pytest.approx(compose(registered).epsilon(1e-6).upper)
    account = ledger.account("ada")
    receipt = account.charge(uses("bounded-range:0.1x4", "gaussian:20x2", "pure:0.05"), key="k", request="q")
    assert account.settle(receipt, answer="a", returned=uses("bounded-range:0.1", "gaussian:20")) == "a"
    assert written(account.status().left)[:2] == ["bounded-range:0.1x7", "pure:0.1x5"]
    with ledger._store.reading() as connection:
        wallet = connection.exec_driver_sql("SELECT spent FROM ledger_balances WHERE what = 'wallet'").scalar_one()
    assert (2 / 400 + 0.05**2) / 0.2**2 < wallet / UNITS < 0.3  # nothing of the wallet came back
    with pytest.raises(BudgetExhausted, match="it costs more than is left; Gaussian noise of sigma"):
        account.charge(uses("gaussian:2"), key="l", request="q")
    with pytest.raises(BudgetExhausted, match="it needs bounded-range"):
        account.charge(uses("bounded-range:0.1x8"), key="l", request="q")
    assert 0.0 < account.status().odometer.upper < 10.0
    assert not ledger.verify().faults


def test_the_odometer_of_both_counts_what_the_wallet_paid(sqlite_ledger):
    """Beside registered uses a wallet has no sum of losses, which is not a sum of nothing."""
    sqlite_ledger.open_setwise("ada", ["pure:0.1x5"], delta=1e-6, wallet=1.0)
    account = sqlite_ledger.account("ada")
    account.charge(uses("gaussian:2"), key="k", request="q")
    assert account.status().odometer.upper > 1.0


def test_draws_that_came_back_are_not_in_the_odometer_by_entries(ledger):
    ledger.open_setwise("ada", ["pure:0.5x10"], delta=1e-6, wallet=0.3)
    account = ledger.account("ada")
    receipt = account.charge(uses("pure:0.5x10"), key="k", request="q")
    account.settle(receipt, answer="a", returned=uses("pure:0.5x9"))
    assert account.status_by_entries().odometer.upper == pytest.approx(0.5)


def test_joint_promises_with_wallets(ledger):
    ledger.open_setwise("ada", ["pure:0.1x5"], delta=1e-6, dataset="d", wallet=0.2)
    ledger.open_setwise("bob", ["pure:0.1x5"], delta=1e-6, dataset="d")
    together = compose(["pure:0.1x10", Use(gaussian_of(0.2**2))]).epsilon(2e-6)
    assert ledger.joint("d").epsilon.upper == pytest.approx(together.upper)
    ledger.open_filter("eve", epsilon=1.0, delta=1e-6, dataset="d", rule="wallet")
    joint, promises = ledger.joint("d"), sum(status.epsilon.upper for status in ledger.accounts())
    assert 1.0 < joint.epsilon.upper <= promises * (1 + 1e-9)
    beside = compose(["pure:0.1x10", Use(gaussian_of(0.2**2)), "approx:1,1e-6"]).epsilon(3e-6)
    assert joint.epsilon.upper == pytest.approx(beside.upper)
    by_promises = [f"approx:{status.epsilon.upper!r},{status.delta!r}" for status in ledger.accounts()]
    assert joint.epsilon.upper < compose(by_promises).epsilon(3e-6).upper


def test_terms_that_cannot_be(ledger):
    with pytest.raises(InvalidParameter, match="rule"):
        ledger.open_filter("ada", epsilon=1.0, delta=1e-6, rule="renyi")
    with pytest.raises(InvalidParameter, match="wallet"):
        ledger.open_setwise("ada", ["pure:0.1"], delta=1e-6, wallet=-1.0)
    with pytest.raises(InvalidParameter, match="give a wallet"):
        ledger.open_setwise("ada", ["pure:0.1"], delta=1e-6, failure=1e-9)
    assert WALLET not in ledger.open_setwise("ada", ["pure:0.1"], delta=1e-6).terms.lines()


def test_what_the_sum_of_epsilons_leaves_is_left(ledger):
    """One large pure use takes most of the wallet, and a quarter of the epsilons."""
    ledger.open_filter("ada", epsilon=2.0, delta=1e-6, rule="wallet")
    account = ledger.account("ada")
    account.charge(uses("pure:0.5"), key="1", request="q")
    status = account.status()
    assert status.share_left == pytest.approx(0.75)
    assert status.odometer.upper == pytest.approx(0.5)
    for key in "234":
        account.charge(uses("pure:0.5"), key=key, request="q")
    assert account.status().share_left < 1e-9
    assert account.status().loss_so_far == pytest.approx(2.0)


def test_what_was_drawn_so_far_is_never_told_to_be_more_than_the_promise(sqlite_ledger):
    sqlite_ledger.open_setwise("ada", ["bounded-range:0.03x10", "gaussian:96x10", "pure:0.2x3"], delta=1e-6)
    account = sqlite_ledger.account("ada")
    account.charge(uses("bounded-range:0.03x10", "gaussian:96x10", "pure:0.2x3"), key="1", request="q")
    status = account.status()
    assert status.odometer.upper > status.epsilon.upper
    assert status.loss_so_far == status.epsilon.upper


def test_a_spent_budget_has_nothing_left(ledger):
    """`epsilon 8.8e-15 of 3 left` was what rounding left of six questions of epsilon 0.5."""
    ledger.open_filter("ada", epsilon=3.0, delta=1e-6, rule="wallet")
    account = ledger.account("ada")
    for number in range(6):
        account.charge(uses("pure:0.5"), key=str(number), request="q")
    assert account.status().epsilon_left == 0
