"""Caps by wallet: accounts hold slices, pay from them, and together never pass the cap; on both stores."""

import io
import json
import math
import random
import threading
import time
from collections import Counter
from datetime import timedelta
from fractions import Fraction

import pytest

from setwise import parse_use
from setwise.accounting import prices
from setwise.errors import BudgetExhausted, InvalidParameter
from setwise.ledger import slices
from setwise.ledger.amounts import FAILURE, SUM, UNITS, WALLET
from setwise.ledger.ledger import Ledger
from setwise.ledger.records import write_amounts
from setwise.ledger.slices import CapTotals, Rule
from tests import sizes
from tests.accounting.admission import AdmittingWallet
from tests.ledger.auditor import audit
from tests.ledger.processes import CONTEXT, charge_until_killed
from tests.ledger.raw import raw_connection
from tests.ledger.test_accounts import uses
from tests.ledger.test_tampering import intrusion
from tests.ledger.test_triggers import REFUSALS
from tests.ledger.test_verification import KEY, redo_hashes, single_row_changes
from tests.ledger.test_wallets import OtherMath

ACCOUNTS = ("ada", "bob", "eve")


def open_accounts(ledger, *, names=ACCOUNTS, epsilon=2.0, failure_share=0.0, **terms):
    ledger.set_cap("visits", epsilon=epsilon, delta=1e-6, failure_share=failure_share)
    for name in names:
        ledger.open_filter(name, epsilon=20.0, delta=1e-5, dataset="visits", failure_share=0.5, **terms)
    return [ledger.account(name) for name in names]


def grants(accounts, mech, most=200, keys=""):
    """Charge the accounts in turn until one is refused; return how many charges there were."""
    for number in range(most):
        try:
            accounts[number % len(accounts)].charge(uses(mech), key=f"{keys}{number}", request="q")
        except BudgetExhausted:
            return number
    return most


def line(url, what):
    with raw_connection(url) as run:
        return run("SELECT holder, spent FROM ledger_balances WHERE what = ? ORDER BY holder", what)


@pytest.mark.parametrize(
    ("mech", "alone", "least"),
    [
        ("pure:0.4", 5, 5),
        ("pure:0.1", 20, 20),
        ("pure:0.05", 79, 77),
        ("bounded-range:0.1", 79, 77),
        ("gaussian:20", 80, 80),
    ],
)
def test_accounts_together_are_admitted_hardly_less_than_one_wallet(sqlite_ledger, mech, alone, least):
    """A filter of this promise admits `alone` of these to one account."""
    accounts = open_accounts(sqlite_ledger)
    assert least <= grants(accounts, mech) <= alone
    assert not sqlite_ledger.verify().faults


def test_a_cap_is_never_more_generous_than_one_wallet(ledger, store_url):
    accounts = open_accounts(ledger, failure_share=0.02)
    wallet, order = AdmittingWallet.for_promise(epsilon=2.0, delta=1e-6), random.Random(3)
    draws = ["pure:0.1", "gaussian:30", "bounded-range:0.2x2", "approx:0.05,1e-9", "laplace:8", "pure:0.02x10"]
    granted = 0
    for number in range(60):
        draw, account = order.choice(draws), order.choice(accounts)
        try:
            account.charge(uses(draw), key=str(number), request="q")
        except BudgetExhausted:
            continue
        wallet = wallet.admit(parse_use(draw))  # raises when the cap was more generous
        granted += 1
    assert granted > 15
    assert not ledger.verify().faults
    audit(store_url)


def test_most_charges_touch_no_row_of_the_cap(ledger, store_url):
    accounts = open_accounts(ledger, epsilon=4.0)
    for number in range(100):
        accounts[number % 3].charge(uses("gaussian:100"), key=str(number), request="q")
    with raw_connection(store_url) as run:
        ((cap, moved),) = run("SELECT holder, count(*) FROM ledger_movements WHERE holder = 1 GROUP BY holder")
        kinds = dict(run("SELECT kind, count(*) FROM ledger_entries GROUP BY kind"))
    assert kinds["charge"] == 100
    assert moved <= kinds["slice"] * 2 <= 20
    assert cap == 1


def test_what_one_account_holds_and_does_not_use_another_may_spend(ledger, store_url):
    ada, bob, eve = open_accounts(ledger)
    for number in range(3):
        ada.charge(uses("gaussian:40"), key=str(number), request="q")
        eve.charge(uses("gaussian:40"), key=str(number), request="q")
    held = [units for _, units in line(store_url, "slice:wallet")]
    assert len(held) == 2
    assert min(held) > UNITS // 32
    assert grants([bob], "gaussian:20") == 78  # six of gaussian:40 cost a quarter of gaussian:20 each
    assert sum(units for _, units in line(store_url, "slice:wallet")) < UNITS // 80
    assert ada.shortage(uses("gaussian:20")) is not None
    assert not ledger.verify().faults
    audit(store_url)


def test_a_slice_is_given_back(ledger, store_url, clock):
    ada, bob, _ = open_accounts(ledger)
    ada.charge(uses("gaussian:40"), key="k", request="q")
    before = ledger.cap("visits")
    assert ada.give_back()
    assert not ada.give_back()
    assert ledger.cap("visits") == before
    assert line(store_url, "slice:wallet") == [(2, 0)]
    ada.charge(uses("gaussian:40"), key="l", request="q")
    clock.move(days=1)
    bob.charge(uses("gaussian:40"), key="k", request="q")
    assert ledger.reclaim("visits", idle=timedelta(hours=1)) == 1
    assert [units > 0 for _, units in line(store_url, "slice:wallet")] == [False, True]
    ledger.close_account("bob")
    assert [units > 0 for _, units in line(store_url, "slice:wallet")] == [False, False]
    with pytest.raises(InvalidParameter, match="no cap"):
        ledger.reclaim("sales")
    assert not ledger.verify().faults
    audit(store_url)


def test_a_replayed_charge_takes_nothing_even_of_an_empty_cap(ledger, store_url):
    ada, *_ = open_accounts(ledger)
    receipt = ada.charge(uses("gaussian:2.3"), key="k", request="q")
    ada.settle(receipt, answer="tea")
    count = ada.entries()
    assert ada.shortage(uses("gaussian:2.3")) is not None
    assert ada.charge(uses("gaussian:2.3"), key="k", request="q").answer == "tea"
    assert ada.entries() == count


def test_a_frozen_account_takes_no_slice(ledger):
    ada, *_ = open_accounts(ledger)
    ledger.freeze("ada")
    with pytest.raises(BudgetExhausted, match="frozen"):
        ada.charge(uses("gaussian:20"), key="k", request="q")
    assert ada.entries() == 0


def test_accounts_with_periods_share_a_cap_for_good(ledger, clock, store_url):
    ada, bob, _ = open_accounts(ledger, period="month")
    spent = 0
    for month in range(4):
        spent += grants([ada, bob], "gaussian:20", most=30, keys=f"{month}-")
        clock.move(days=31)
        ada, bob = (ledger.account(name) for name in ("ada", "bob"))
        if month < 2:
            assert spent == 30 * (month + 1)
    assert spent <= 80
    assert not ledger.verify().faults
    audit(store_url)


def test_once_a_rule_is_given_up_only_the_other_pays(ledger, store_url):
    ada, bob, _ = open_accounts(ledger)
    for number in range(3):
        ada.charge(uses("pure:0.4"), key=str(number), request="q")  # two are more than the wallet
    assert line(store_url, "rule") == [(1, Rule.SUM)]
    cap = ledger.cap("visits")
    assert [use.guarantee.kind for use in (*cap.spent, *cap.left)] == ["pure", "pure"]
    assert cap.spent[0].guarantee.epsilon == pytest.approx(1.2)
    assert cap.share_left == pytest.approx(0.4)
    assert cap.odometer.upper == pytest.approx(1.2)
    with pytest.raises(BudgetExhausted):
        bob.charge(uses("gaussian:1000"), key="k", request="q")  # its loss is unbounded
    bob.charge(uses("pure:0.8"), key="k", request="q")
    with pytest.raises(BudgetExhausted):
        bob.charge(uses("pure:0.01"), key="l", request="q")
    assert not ledger.verify().faults
    audit(store_url)


def test_a_cap_that_keeps_its_wallet_is_not_ended_by_a_pure_draw(ledger, store_url):
    """By default one large pure use ends Gaussian noise for everybody; a preview says so before."""
    ada, *_ = open_accounts(ledger)
    assert "ends Gaussian noise for all accounts" in ada.warning(uses("pure:0.9"))
    assert "ends paying by the sum" in ada.warning(uses("gaussian:40"))
    assert ada.warning(uses("pure:0.05")) is None
    ledger.set_cap("sales", epsilon=2.0, delta=1e-6, failure_share=0.0, keep="wallet")
    ledger.open_filter("cyd", epsilon=20.0, delta=1e-5, dataset="sales")
    cyd = ledger.account("cyd")
    assert cyd.warning(uses("pure:0.9")) is None
    assert cyd.shortage(uses("pure:0.9")) is not None
    with pytest.raises(BudgetExhausted):
        cyd.charge(uses("pure:0.9"), key="1", request="q")
    for number in range(3):
        cyd.charge(uses("gaussian:20", "pure:0.05"), key=f"k{number}", request="q")
    cap = ledger.cap("sales")
    assert [use.guarantee.kind for use in (*cap.spent, *cap.left)] == ["gaussian", "gaussian"]
    assert grants([cyd], "gaussian:20") > 70
    ledger.set_cap("visits-2", epsilon=2.0, delta=1e-6, failure_share=0.0, keep="sum")
    ledger.open_filter("dan", epsilon=20.0, delta=1e-5, dataset="visits-2")
    dan = ledger.account("dan")
    assert grants([dan], "pure:0.4") == 5
    with pytest.raises(BudgetExhausted):
        dan.charge(uses("gaussian:1000"), key="g", request="q")
    assert ledger.cap("visits-2").share_left == pytest.approx(0.0, abs=1e-12)
    assert not ledger.verify().faults
    for refused in ({"keep": "both"}, {"keep": "wallet", "rule": "zcdp"}):
        with pytest.raises(InvalidParameter, match="keep"):
            ledger.set_cap("other", epsilon=2.0, delta=1e-6, **refused)


def test_a_cap_that_pays_by_the_sum_names_the_epsilon_that_is_left(sqlite_ledger):
    """It said that nothing was left, of a cap of which nothing was spent."""
    sqlite_ledger.set_cap("visits", epsilon=2.0, delta=1e-6, keep="sum")
    sqlite_ledger.open_filter("dan", epsilon=20.0, delta=1e-5, dataset="visits")
    dan = sqlite_ledger.account("dan")
    assert dan.shortage(uses("gaussian:1000")).endswith("cannot pay: epsilon 2 is left, but not for Gaussian noise")
    dan.charge(uses("pure:0.8x2"), key="1", request="q")
    assert dan.shortage(uses("pure:0.8")).endswith("cannot pay: it needs epsilon 0.8, and epsilon 0.4 is left")


def test_a_steward_chooses_later_which_rule_a_cap_keeps(ledger, store_url):
    ada, bob, _ = open_accounts(ledger)
    ada.charge(uses("pure:0.05"), key="1", request="q")
    ledger.keep_rule("visits", "wallet", by="eve")
    assert line(store_url, "rule") == [(1, Rule.WALLET)]
    assert bob.warning(uses("pure:0.9")) is None
    with pytest.raises(BudgetExhausted):
        bob.charge(uses("pure:0.9"), key="1", request="q")
    bob.charge(uses("gaussian:40"), key="2", request="q")
    assert [record.to_dict()["action"] for record in ledger.acts()] == ["cap.kept"]
    for keep in ("wallet", "sum", "either"):
        with pytest.raises(InvalidParameter):
            ledger.keep_rule("visits", keep)
    with pytest.raises(InvalidParameter, match="no cap"):
        ledger.keep_rule("sales", "wallet")
    assert not ledger.verify().faults
    audit(store_url)


def test_a_sum_that_was_passed_is_never_used(ledger, store_url):
    ada, bob, _ = open_accounts(ledger)
    bob.charge(uses("pure:0.1"), key="k", request="q")  # bob holds a slice of the sum
    ada.charge(uses("gaussian:1000"), key="k", request="q")
    assert line(store_url, "rule") == [(1, Rule.WALLET)]
    with pytest.raises(BudgetExhausted):
        bob.charge(uses("pure:0.4x4"), key="l", request="q")  # the sum alone could pay
    assert not ledger.verify().faults


def test_rules_race_and_one_wins(ledger, store_url):
    """Half of the accounts need the wallet and half the sum: never is one use paid by each."""
    names = [f"account {number}" for number in range(6)]
    accounts = open_accounts(ledger, names=names)
    paid = Counter()

    def spend(place):
        mech = "gaussian:30" if place % 2 else "pure:0.7"
        for number in range(3):
            try:
                accounts[place].charge(uses(mech), key=str(number), request="q")
                paid[mech] += 1
            except BudgetExhausted:
                return

    run_together(spend, 6)
    ((_, rule),) = line(store_url, "rule")
    assert paid["pure:0.7"] <= 2
    assert rule == Rule.WALLET or not paid["gaussian:30"]
    assert not ledger.verify().faults
    audit(store_url)


def run_together(work, count):
    threads = [threading.Thread(target=work, args=(place,)) for place in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_slice_is_never_paid_by_a_stale_price(ledger, store_url):
    """Another charge comes between the pricing of a charge and its entry: the price is found anew."""
    ada, *_ = open_accounts(ledger)
    ada.charge(uses("pure:0.05"), key="first", request="q")  # ada holds a slice that pays for more
    rival, between = ledger.account("ada"), ["bounded-range:0.1x8"]
    pay_cap = ada._pay_cap

    def overtaken(connection, cap, wanted, held, rule):
        taken, paid = pay_cap(connection, cap, wanted, held, rule)
        if between and not taken:
            rival.charge(uses(between.pop()), key="rival", request="q")
        return taken, paid

    ada._pay_cap = overtaken
    ada.charge(uses("pure:0.05"), key="second", request="q")
    assert not between
    keys = [entry.contents.key for entry in ledger.history("ada") if entry.contents.kind == "charge"]
    assert keys == ["first", "rival", "second"]
    assert not ledger.verify().faults
    audit(store_url)


def test_accounts_race_for_the_rest_of_a_cap(ledger, store_url):
    accounts = open_accounts(ledger, names=[f"account {number}" for number in range(6)], epsilon=1.0)
    granted, errors = [], []

    def draw(place):
        for number in range(8):
            try:
                accounts[place].charge(uses("gaussian:20"), key=str(number), request="q")
                granted.append(place)
            except BudgetExhausted:
                continue
            except Exception as error:
                errors.append(error)

    run_together(draw, 6)
    assert errors == []
    assert len(granted) == math.floor(
        AdmittingWallet.for_promise(epsilon=1.0, delta=1e-6, failure_share=0.0).size * 400
    )
    assert not ledger.verify().faults
    audit(store_url)


def test_kills_under_a_cap_lose_and_overspend_nothing(store_url):
    order, names = random.Random(5), [f"account {number}" for number in range(4)]
    with Ledger.open(store_url) as ledger:
        open_accounts(ledger, names=names, epsilon=8.0)
        start, running = time.monotonic(), []
        for number in range(min(sizes.KILLS // 2, 40)):
            process = CONTEXT.Process(daemon=True, target=charge_until_killed, args=(store_url, names, number))
            process.start()
            running.append(process)
            if len(running) < 4:
                continue
            before = charges(ledger)
            while charges(ledger) < min(before + 2, 200) and time.monotonic() < start + 120:
                time.sleep(order.uniform(0.0, 0.02))
            victim = running.pop(order.randrange(len(running)))
            victim.kill()
            victim.join(60)
        for victim in running:
            victim.kill()
            victim.join(60)
        assert charges(ledger) > 10
        assert not ledger.verify().faults
    audit(store_url)


def charges(ledger):
    return sum(status.charges for status in ledger.accounts())


PAID = "UPDATE ledger_movements SET amount = amount {} WHERE what = 'slice:wallet' AND amount < 0 AND position = 3"
HELD = "UPDATE ledger_balances SET spent = spent {} WHERE what = 'slice:wallet' AND holder = 2"
TAKEN = "UPDATE ledger_movements SET amount = amount + 5 WHERE what = 'slice:wallet' AND amount > 0 AND position = 2"
SAID = "UPDATE ledger_entries SET content = {} WHERE kind = 'slice'"
TAMPERED = [
    (PAID.format("+ 1048576"), HELD.format("+ 1048576")),
    (PAID.format("- 1048576"), HELD.format("- 1048576")),
    (TAKEN, HELD.format("+ 5")),
    (SAID.format("'{}'"),),
    (SAID.format("""replace(content, '"wallet":', '"wallet": ')"""),),
    (
        "UPDATE ledger_movements SET amount = 3 WHERE what = 'rule'",
        "UPDATE ledger_balances SET spent = 3 WHERE what = 'rule'",
        SAID.format("""replace(content, '"rule":2', '"rule":3')"""),
    ),
]


def test_tampered_slices_are_found(ledger, store_url):
    ada, *_ = open_accounts(ledger)
    for number in range(3):
        ada.charge(uses("gaussian:40"), key=str(number), request="q")
    with intrusion(store_url) as (run, mend):
        for statements in TAMPERED:
            for statement in statements:
                run(statement)
            redo_hashes(run)
            assert "ada" in {fault.account for fault in ledger.verify().faults}, statements
            mend()
    assert not ledger.verify().faults


def test_a_tamperer_who_redoes_all_hashes_is_found(ledger, store_url):
    """Every single-row change and deletion of rows that slices made, hashes made to fit again."""
    ada, bob, _ = open_accounts(ledger)
    ada.charge(uses("pure:0.1", "gaussian:40"), key="k", request="q")
    bob.charge(uses("gaussian:40"), key="k", request="q")
    ledger.sign(KEY)
    with intrusion(store_url) as (run, mend):
        drop_constraints(run, store_url)
        for table, column, statement, values in list(single_row_changes(run))[:: sizes.TAMPERED]:
            run(statement, *values)
            redo_hashes(run)
            faults = [fault for fault in ledger.verify(key=KEY).faults if not fault.message.startswith("lacks the")]
            assert faults, (table, column, values)
            mend()
    assert [fault for fault in ledger.verify().faults if not fault.message.startswith("lacks the")] == []


def test_a_slice_that_gives_back_more_than_it_held_is_found(ledger, store_url):
    """The cap would have more to give than was left of it: movements, balances and hashes all agree."""
    ada, *_ = open_accounts(ledger)
    ada.charge(uses("gaussian:40"), key="k", request="q")
    assert ada.give_back()
    with intrusion(store_url) as (run, mend):
        drop_constraints(run, store_url)
        ((position, content),) = run(
            "SELECT position, content FROM ledger_entries WHERE kind = 'slice' ORDER BY position DESC LIMIT 1"
        )
        said = json.loads(content)
        said["wallet"] -= 5
        run("UPDATE ledger_entries SET content = ? WHERE position = ?", write_amounts(said), position)
        for what in ("slice:wallet", "wallet"):
            run("UPDATE ledger_movements SET amount = amount - 5 WHERE what = ? AND position = ?", what, position)
            run("UPDATE ledger_balances SET spent = spent - 5 WHERE what = ? AND holder <= 2", what)
        redo_hashes(run)
        assert any("than it held" in fault.message for fault in ledger.verify().faults)
        mend()


def drop_constraints(run, store_url):
    if "://" in store_url:
        for constraint in run(
            "SELECT 'ALTER TABLE ' || conrelid::regclass || ' DROP CONSTRAINT ' || conname FROM pg_constraint "
            "WHERE connamespace = current_schema()::regnamespace AND contype = 'c'"
        ):
            run(*constraint)


def insert_entry(run, kind, moves, *, account=2, key="hand"):
    """Insert the next entry of an account by hand, with the movements that it lists."""
    ((count, head),) = run("SELECT entries, head FROM ledger_accounts WHERE holder = ?", account)
    said = json.dumps([[holder, "", what, amount] for holder, what, amount in moves])
    values = (account, count + 1, kind, key, "", 1, "[]", "x", "x", head, f"{count}{kind}", said)
    run(f"INSERT INTO ledger_entries VALUES ({', '.join('?' * len(values))})", *values)


REFUSED = [
    ("slice", [(2, "slice:wallet", 5)]),  # a slice that the cap did not give
    ("slice", [(1, "wallet", -5)]),  # given back by nobody
    ("slice", [(1, "wallet", 5), (2, "slice:wallet", 6)]),
    ("slice", [(1, "sum", 5), (2, "slice:wallet", 5)]),
    ("slice", [(2, "slice:wallet", -5), (1, "wallet", -6)]),
    ("slice", [(1, "rule", 2), (1, "wallet", 2**61)]),
    ("charge", [(2, "slice:wallet", 5)]),
    ("charge", [(2, "slice:wallet", -(2**60))]),
    ("charge", [(1, "wallet", -5)]),
    ("charge", [(2, "wallet", 5), (1, "wallet", -5), (2, "slice:wallet", -5)]),
    ("charge", [(2, "wallet", 5)]),  # nothing of the slice
    ("charge", [(2, "slice:wallet", -5)]),  # nothing of the account
    ("charge", []),
    ("slice", []),
]


def test_the_database_itself_refuses_what_no_slice_may_move(ledger, store_url):
    ada, *_ = open_accounts(ledger)
    ada.charge(uses("gaussian:40"), key="k", request="q")
    with raw_connection(store_url) as run:
        for kind, moves in REFUSED:
            run("BEGIN")
            with pytest.raises(REFUSALS):
                insert_entry(run, kind, moves)
            run("ROLLBACK")
    assert not ledger.verify().faults


@pytest.fixture
def other_url(store_url, tmp_path, postgresql_server):
    """The address of a store of the other kind."""
    return str(tmp_path / "other.db") if "://" in store_url else postgresql_server.schema()


def test_slices_are_exported_and_restored(ledger, other_url, clock, monkeypatch):
    """Also where mathematical functions round otherwise, when no unit is to spare."""
    ada, bob, eve = open_accounts(ledger)
    for number in range(4):
        ada.charge(uses("pure:0.05", "gaussian:40"), key=str(number), request="q")
        bob.charge(uses("bounded-range:0.1x2"), key=str(number), request="q")
    grants([eve], "pure:0.05")
    eve.give_back()
    stream = io.StringIO()
    ledger.export(stream)
    monkeypatch.setattr(prices, "math", OtherMath())
    slices._costs_of.cache_clear()
    with Ledger.open(other_url, clock=clock) as other:
        other.restore(io.StringIO(stream.getvalue()))
        assert not other.verify().faults
        assert other.verify() == ledger.verify()
        assert other.accounts() == ledger.accounts()
        assert other.cap("visits") == ledger.cap("visits")
    slices._costs_of.cache_clear()


def test_prices_of_a_slice_cover_what_is_left_of_it():
    """Whatever is held, the units paid are at least the exact sum of the prices with what is left behind them."""
    cap = CapTotals.for_promise(epsilon=2.0, delta=1e-6, failure_share=0.02)
    order = random.Random(1)
    for _ in range(300):
        wanted = uses(
            *order.sample(["pure:0.1x3", "gaussian:30", "bounded-range:0.2", "laplace:9", "approx:0.1,1e-10"], 2)
        )
        held = {WALLET: order.randrange(UNITS // order.choice([1, 10, 100])), SUM: UNITS, FAILURE: UNITS}
        paid = cap.pay(wanted, held, Rule.BOTH)
        if paid is None:
            continue
        left = float(Fraction(cap.wallet) * (held[WALLET] - paid[WALLET]) / UNITS)
        needed = sum(use.count * Fraction(use.guarantee.price(left)) for use in wanted)
        assert needed <= Fraction(cap.wallet) * paid[WALLET] / UNITS
        assert cap.accepts(wanted, held, paid, Rule.BOTH)
        assert not cap.accepts(wanted, held, {**paid, WALLET: paid[WALLET] - 2**20}, Rule.BOTH)
        least = cap.needs(wanted, Rule.BOTH)
        assert least[WALLET] <= held[WALLET]
        assert cap.pay(wanted, least, Rule.BOTH) is not None
        assert cap.pay(wanted, {**least, WALLET: least[WALLET] - 1}, Rule.BOTH) is None


def test_a_use_without_a_price_needs_another_cap(ledger):
    open_accounts(ledger)
    ledger.open_filter("zoe", epsilon=1.0, delta=1e-6, dataset="visits", rule="zcdp")
    with pytest.raises(BudgetExhausted, match=r"cap .* adds up zCDP"):
        ledger.account("zoe").charge(uses("zcdp:0.001"), key="k", request="q")
    with pytest.raises(InvalidParameter, match="rule"):
        ledger.set_cap("sales", epsilon=1.0, delta=1e-6, rule="renyi")


def test_the_odometer_of_a_cap_counts_what_accounts_drew(ledger):
    ada, bob, _ = open_accounts(ledger)
    assert ledger.cap("visits").odometer.upper == 0.0
    ada.charge(uses("gaussian:40x2"), key="k", request="q")
    one = ledger.cap("visits")
    bob.charge(uses("gaussian:40x2"), key="k", request="q")
    two = ledger.cap("visits")
    assert 0.0 < one.odometer.upper < two.odometer.upper < 2.5
    assert two.worth.rho == pytest.approx(4 / 3200)
    assert two.share_left == pytest.approx(1 - 4 / 1600 / two.terms.totals.wallet)
