"""What stewards do: freeze, thaw and close accounts, register datasets, and a trail that keeps it."""

import pytest

from setwise.errors import BadRequest, BudgetExhausted, InvalidParameter, UnknownAccount
from tests.ledger.auditor import audit
from tests.ledger.raw import raw_connection, without_triggers
from tests.ledger.test_accounts import uses
from tests.ledger.test_triggers import REFUSALS


@pytest.fixture
def account(ledger):
    ledger.open_setwise("ada", ["pure:0.1x5"], delta=1e-6, analyst="Ada")
    return ledger.account("ada")


def test_a_frozen_account_pays_for_nothing_until_it_is_thawed(ledger, account, store_url):
    receipt = account.charge(uses("pure:0.1"), key="k", request="q")
    ledger.freeze("ada", by="eve", reason="an odd question")
    assert account.status().state == "frozen"
    assert "frozen" in account.shortage(uses("pure:0.1"))
    with pytest.raises(BudgetExhausted, match="frozen"):
        account.charge(uses("pure:0.1"), key="l", request="q")
    assert account.settle(receipt, answer="a") == "a"
    assert account.charge(uses("pure:0.1"), key="k", request="q").answer == "a"
    ledger.thaw("ada", by="eve")
    account.charge(uses("pure:0.1"), key="l", request="q")
    assert account.status().state == "open"
    audit(store_url)
    assert not ledger.verify().faults


def test_a_closed_account_is_closed_for_good(ledger, account):
    ledger.close_account("ada", by="eve")
    with pytest.raises(BudgetExhausted, match="closed"):
        account.charge(uses("pure:0.1"), key="k", request="q")
    for act in (ledger.freeze, ledger.thaw, ledger.close_account):
        with pytest.raises(InvalidParameter, match="closed"):
            act("ada")
    ledger.open_filter("bob", epsilon=1.0, delta=1e-6, rule="zcdp")
    with pytest.raises(InvalidParameter, match="open, so thaw"):
        ledger.thaw("bob")
    with pytest.raises(UnknownAccount):
        ledger.freeze("nobody")
    assert not ledger.verify().faults


def test_the_database_itself_keeps_a_frozen_account_frozen(ledger, account, store_url):
    ledger.freeze("ada")
    with raw_connection(store_url) as run:
        for change in ("state = 'open'", "state = 'closed'", "analyst = 'Eve'"):
            with pytest.raises(REFUSALS):
                run(f"UPDATE ledger_accounts SET {change}")


def test_a_charge_while_frozen_is_found(ledger, account, store_url):
    account.charge(uses("pure:0.1"), key="k", request="q")
    ledger.freeze("ada")
    with without_triggers(store_url) as run:
        run("UPDATE ledger_accounts SET state = 'open'")
    account.charge(uses("pure:0.1"), key="l", request="q")
    with without_triggers(store_url) as run:
        run("UPDATE ledger_accounts SET state = 'frozen'")
    (fault,) = ledger.verify().faults
    assert str(fault) == "entry 2 of the account 'ada' was charged while the account was frozen or closed"


def test_acts_are_kept_in_order(ledger, account):
    ledger.record("person.added", by="root", subject="Ada", details={"role": "analyst"})
    ledger.freeze("ada", by="eve", reason="away")
    told = [record.to_dict() for record in ledger.acts()]
    assert [(act["action"], act["by"], act["subject"]) for act in told] == [
        ("person.added", "root", "Ada"),
        ("freeze", "eve", "ada"),
    ]
    assert told[0]["details"] == {"role": "analyst"}
    assert [record.holder for record in ledger.acts(after=told[0]["number"])] == [told[1]["number"]]
    assert [record.holder for record in ledger.acts(actions=["person.added", "none"])] == [told[0]["number"]]
    assert ledger.acts(actions=["freeze"]) == (), "freezing is a change of state, not an act"
    assert not ledger.verify().faults


@pytest.mark.parametrize("change", ["body = replace(body, 'root', 'joe')", "name = 'person.removed'", "lines = 1"])
def test_a_changed_act_is_found(ledger, account, store_url, change):
    ledger.record("person.added", by="root", subject="Ada")
    with without_triggers(store_url) as run:
        run(f"UPDATE ledger_openings SET {change} WHERE kind = 'act'")
    assert ledger.verify().faults


def test_two_names_of_one_table_share_a_cap_and_a_joint_promise(ledger, store_url):
    ledger.register_dataset("visits", reads="file:/data/visits.parquet")
    ledger.register_dataset("sales", reads="file:/data/visits.parquet")
    ledger.set_cap("visits", epsilon=1.0, delta=1e-6, rule="zcdp")
    ledger.open_filter("ada", epsilon=1.0, delta=1e-6, dataset="visits", rule="zcdp")
    ledger.open_filter("bob", epsilon=1.0, delta=1e-6, dataset="sales", rule="zcdp")
    (left,) = ledger.account("ada").status().left
    ledger.account("ada").charge([left], key="k", request="q")
    with pytest.raises(BudgetExhausted, match="cap"):
        ledger.account("bob").charge(uses("gaussian:20"), key="k", request="q")
    assert ledger.joint("sales").accounts == ledger.joint("visits").accounts == ("ada", "bob")
    assert ledger.cap("sales") == ledger.cap("visits")
    with pytest.raises(InvalidParameter, match="cap already"):
        ledger.set_cap("sales", epsilon=1.0, delta=1e-6)
    ledger.account("bob").check_dataset("visits")
    audit(store_url)


def test_a_second_name_cannot_evade_a_cap(ledger):
    ledger.set_cap("visits", epsilon=1.0, delta=1e-6)
    ledger.register_dataset("visits", reads="table")
    ledger.open_filter("bob", epsilon=1.0, delta=1e-6, dataset="sales", rule="zcdp")
    with pytest.raises(BadRequest, match="one cap"):
        ledger.register_dataset("sales", reads="table")
    assert len(ledger.acts()) == 1
    ledger.register_dataset("sales", reads="table", apart="a copy with other people")
    assert ledger.joint("sales").accounts == ("bob",)
    ledger.close_account("bob")
    ledger.register_dataset("sales", reads="table")
    ledger.open_filter("joe", epsilon=1.0, delta=1e-6, dataset="sales", rule="zcdp")
    assert ledger.account("joe")._terms.cap == 1


def test_an_account_for_no_dataset_cannot_pay_under_a_second_name(ledger):
    """The account and the cap are known by one name of the table, and the question comes by the other."""
    ledger.register_dataset("visits", reads="table")
    ledger.register_dataset("sales", reads="table")
    ledger.open_filter("free", epsilon=1.0, delta=1e-6, rule="zcdp")
    ledger.account("free").check_dataset("sales")
    ledger.open_filter("ada", epsilon=1.0, delta=1e-6, dataset="visits", rule="zcdp")
    with pytest.raises(InvalidParameter, match="is not one of them"):
        ledger.account("free").check_dataset("sales")
    with pytest.raises(InvalidParameter, match="is not one of them"):
        ledger.check_pays(account="new", dataset="", known_as="sales")


def test_registering_again_changes_nothing(ledger):
    for _ in range(3):
        ledger.register_dataset("visits", reads="table", by="eve")
    assert len(ledger.acts()) == 1


def test_accounts_of_one_analyst_or_dataset(ledger, clock):
    ledger.open_setwise("ada-1", ["pure:0.1x5"], delta=1e-6, analyst="Ada", dataset="visits", period="month")
    ledger.open_filter("bob-1", epsilon=1.0, delta=1e-6, analyst="Bob", dataset="visits", rule="zcdp")
    ledger.open_filter("ada-2", epsilon=1.0, delta=1e-6, analyst="Ada", rule="zcdp")
    ledger.account("ada-1").charge(uses("pure:0.1"), key="k", request="q")
    ledger.account("bob-1").charge(uses("gaussian:20"), key="k", request="q")
    clock.move(days=20)
    every = tuple(ledger.account(name).status() for name in ("ada-1", "ada-2", "bob-1"))
    assert ledger.accounts() == every
    assert ledger.accounts(analyst="Ada") == every[:2]
    assert ledger.accounts(dataset="visits") == (every[0], every[2])
    assert ledger.accounts(analyst="Ada", dataset="visits") == every[:1]
