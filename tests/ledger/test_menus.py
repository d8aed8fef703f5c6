"""Menu accounts of a ledger: what they admit, refuse and promise, on every store."""

import json

import pytest

from setwise.accounting.guarantees import PureDP
from setwise.accounting.notation import parse_use
from setwise.errors import BudgetExhausted, InvalidParameter, Unattainable
from setwise.ledger.ledger import Ledger
from setwise.ledger.menus import MENU, MenuTotals
from tests.accounting.test_menu import best_analyst
from tests.command_line import process


def charged_until_refused(account, use):
    """Return how many charges of `use`, one after the other, the account pays for."""
    count = 0
    while True:
        try:
            account.charge([use], key=f"{use}-{count}", request=f"{use} {count}")
        except BudgetExhausted:
            return count
        count += 1


@pytest.mark.parametrize(("use", "by_menu", "by_wallet"), [("pure:0.1", 24, 20), ("pure:0.05", 84, 79)])
def test_a_menu_of_one_use_admits_what_preregistration_admits(sqlite_ledger, use, by_menu, by_wallet):
    options = {"epsilon": 2.0, "delta": 1e-6, "failure_share": 0.0}
    sqlite_ledger.open_filter("menu", rule="menu", menu=[use], **options)
    sqlite_ledger.open_filter("wallet", **options)
    counts = {name: charged_until_refused(sqlite_ledger.account(name), use) for name in ("menu", "wallet")}
    assert counts["menu"] == by_menu
    assert abs(counts["wallet"] - by_wallet) <= 1
    assert not sqlite_ledger.verify().faults


def test_the_best_analyst_on_a_lattice_stays_within_the_promise_of_the_account(ledger):
    """The costs and the budget that the ledger stored are attacked, not those of the code that made them."""
    ledger.open_filter(
        "ada", epsilon=1.0, delta=1e-2, failure_share=0.0, rule="menu", menu=["pure:0.1", "bounded-range:0.4"]
    )
    record = json.loads(ledger.account("ada").terms.body())["totals"]
    items = [(parse_use(written).guarantee, cost) for written, cost in record["items"]]
    reached = best_analyst(items, record["budget"], 1.0, 0.05)
    assert 0.5 * 1e-2 < reached <= 1e-2
    assert best_analyst(items, record["budget"] + max(cost for _, cost in items), 1.0, 0.05) > 1e-2


def test_charges_of_both_kinds_take_their_units_and_verify(ledger):
    ledger.open_filter("ada", epsilon=2.0, delta=1e-6, rule="menu", menu=["pure:0.1", "bounded-range:0.2"])
    account = ledger.account("ada")
    totals = account.terms.totals
    assert isinstance(totals, MenuTotals)
    costs = dict(totals.items)
    account.charge(["pure:0.1x2", "bounded-range:0.15", "approx:0,1e-9"], key="one", request="a top 1 with counts")
    account.charge(["laplace:10"], key="two", request="a count")
    spent = totals.budget - (totals.budget - 3 * costs["pure:0.1"] - costs["bounded-range:0.2"])
    assert account.status().share_left == 1 - spent / totals.budget
    assert not ledger.verify().faults


@pytest.mark.parametrize("use", ["gaussian:20", "pure:0.3", "bounded-range:0.5", "zcdp:0.001"])
def test_uses_that_are_not_on_the_menu_are_refused_and_cost_nothing(sqlite_ledger, use):
    sqlite_ledger.open_filter("ada", epsilon=2.0, delta=1e-6, rule="menu", menu=["pure:0.1", "bounded-range:0.2"])
    account = sqlite_ledger.account("ada")
    with pytest.raises(InvalidParameter, match="not on the menu"):
        account.charge([use], key="one", request="a count")
    assert account.status().share_left == 1.0


def test_a_refusal_says_what_the_menu_still_offers(sqlite_ledger):
    sqlite_ledger.open_filter("ada", epsilon=2.0, delta=1e-6, rule="menu", menu=["pure:0.1"])
    account = sqlite_ledger.account("ada")
    with pytest.raises(BudgetExhausted, match=r"units of the menu.*of pure:0\.1"):
        account.charge(["pure:0.1x100"], key="one", request="a count")
    with pytest.raises(BudgetExhausted, match="failure probability"):
        account.charge(["pure:0.1", "approx:0,1e-6"], key="two", request="a count")


def test_an_account_survives_export_and_restore(ledger, tmp_path, clock):
    ledger.open_filter("ada", epsilon=2.0, delta=1e-6, rule="menu", menu=["pure:0.1"], period="month")
    ledger.account("ada").charge(["pure:0.1x3"], key="one", request="a count")
    with open(tmp_path / "export.jsonl", "w", encoding="utf-8") as file:
        ledger.export(file)
    with Ledger.open(str(tmp_path / "restored.db"), clock=clock) as restored:
        with open(tmp_path / "export.jsonl", encoding="utf-8") as file:
            restored.restore(file)
        assert restored.account("ada").status() == ledger.account("ada").status()
        assert not restored.verify().faults


def test_a_menu_account_pays_from_its_slice_of_a_cap_too(ledger):
    ledger.set_cap("visits", epsilon=3.0, delta=1e-5)
    ledger.open_filter("ada", epsilon=2.0, delta=1e-6, rule="menu", menu=["pure:0.1"], dataset="visits")
    ledger.account("ada").charge(["pure:0.1x3"], key="one", request="a count")
    cap = ledger.cap("visits")
    assert cap is not None
    assert cap.share_left < 1.0
    assert not ledger.verify().faults


def test_the_joint_promise_counts_a_menu_account_by_its_promise(sqlite_ledger):
    for name in ("ada", "bob"):
        sqlite_ledger.open_filter(name, epsilon=1.0, delta=1e-6, rule="menu", menu=["pure:0.1"], dataset="visits")
    joint = sqlite_ledger.joint("visits")
    assert joint.delta == 2e-6
    assert 1.0 < joint.epsilon.upper <= 2.0 * (1 + 1e-9)


def test_nothing_on_a_menu_is_reserved(sqlite_ledger):
    sqlite_ledger.open_filter("ada", epsilon=2.0, delta=1e-6, rule="menu", menu=["pure:0.1"])
    account = sqlite_ledger.account("ada")
    with pytest.raises(InvalidParameter, match="cannot be reserved"):
        account.reserve(["pure:0.1"], key="one", request="to be decided")
    receipt = account.charge(["pure:0.1"], key="two", request="a series")
    with pytest.raises(InvalidParameter, match="answered at once"):
        account.release(receipt, part="january", answer="1")


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"rule": "menu"}, InvalidParameter, "needs a menu"),
        ({"menu": ["pure:0.1"]}, InvalidParameter, "belongs to the rule menu"),
        ({"rule": "menu", "menu": ["gaussian:20"]}, InvalidParameter, "bounded losses"),
        ({"rule": "menu", "menu": ["pure:5"]}, Unattainable, "smaller uses"),
        ({"rule": "menu", "menu": ["pure:0.1"], "failure_share": 1.0}, InvalidParameter, "failure_share"),
    ],
)
def test_a_menu_that_cannot_be_is_refused_at_the_opening(sqlite_ledger, options, error, says):
    with pytest.raises(error, match=says):
        sqlite_ledger.open_filter("ada", epsilon=2.0, delta=1e-6, **options)


def test_a_cap_has_no_menu(sqlite_ledger):
    with pytest.raises(InvalidParameter, match="not menu"):
        sqlite_ledger.set_cap("visits", epsilon=1.0, delta=1e-6, rule="menu")


def test_the_odometer_and_what_is_left_are_those_of_the_charges(sqlite_ledger):
    sqlite_ledger.open_filter("ada", epsilon=2.0, delta=1e-6, rule="menu", menu=["pure:0.1", "pure:0.05"])
    account = sqlite_ledger.account("ada")
    account.charge(["pure:0.1x3"], key="one", request="a count")
    status = account.status()
    assert 0.0 < status.odometer.upper <= 0.3 * (1 + 1e-6)
    assert status.left[0].guarantee == PureDP(epsilon=0.1)
    assert status.left[0].count >= 15
    assert account.count_more(account.status_by_entries().charge_uses[0][0]) == status.left[0].count // 3
    assert account.terms.lines()[MENU] > 20


def test_the_command_line_opens_and_shows_a_menu(tmp_path):
    ledger = str(tmp_path / "ledger.db")
    opened = process("ledger", "open", "ada", "--filter", "--epsilon", "2", "--delta", "1e-6", "--rule", "menu")
    assert opened.returncode == 2
    options = ("--rule", "menu", "--menu", "pure:0.1", "--menu", "bounded-range:0.2", "--ledger", ledger, "--json")
    opened = process("ledger", "open", "ada", "--filter", "--epsilon", "2", "--delta", "1e-6", *options)
    assert opened.returncode == 0
    shown = json.loads(process("ledger", "show", "ada", "--ledger", ledger, "--json").stdout)
    assert shown["kind"] == "filter"
    assert shown["method"] == "menu"
    assert shown["left"][0].startswith("bounded-range:0.2x")
