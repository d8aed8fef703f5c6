"""The ledger against a plain in-memory model: whatever is done in whatever order, they agree."""

from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from setwise import parse_use
from setwise.accounting.notation import format_use
from setwise.errors import AccountExists, BudgetExhausted, InvalidParameter, KeyConflict
from setwise.ledger.ledger import Ledger
from tests.accounting.admission import AdmittingFilter
from tests.ledger.auditor import audit, counted, price
from tests.ledger.clocks import ManualClock
from tests.sizes import examples

REGISTERED = {"pure:0.1": 4, "bounded-range:0.2": 6, "gaussian:10.0": 3}
EPSILON, DELTA = 1.0, 1e-6
CAP = 1.4
KEYS = ["a", "b", "c", "d", "e", "f"]
DRAWS = [
    ["pure:0.1"],
    ["bounded-range:0.2x3"],
    ["gaussian:10.0", "pure:0.1x2"],
    ["gaussian:10.0x2", "bounded-range:0.2"],
    ["bounded-range:0.2x5", "pure:0.1"],
    ["laplace:10.0"],
]


@dataclass
class ModelAccount:
    """What an account should be."""

    kind: str
    monthly: bool
    capped: bool
    drawn: Counter = field(default_factory=Counter)  # (month, mech) -> count
    rho: Counter = field(default_factory=Counter)  # month -> exact rho
    charges: dict = field(default_factory=dict)  # key -> (month, request, draw)
    answers: dict = field(default_factory=dict)  # key -> answer


class LedgerMachine(RuleBasedStateMachine):
    """Do anything to a ledger and to a model of it."""

    def __init__(self):
        super().__init__()
        self.clock = ManualClock()
        self.address = self.fresh_address()
        self.ledger = Ledger.open(self.address, clock=self.clock)
        self.ledger.set_cap("visits", epsilon=CAP, delta=DELTA, rule="zcdp")
        self.model = {}
        self.touched = set()
        self.cap_rho = Fraction(0)
        self.budget = Fraction(AdmittingFilter(epsilon=EPSILON, delta=DELTA).rho_budget)
        self.cap_budget = Fraction(AdmittingFilter(epsilon=CAP, delta=DELTA).rho_budget)

    names = Bundle("names")
    receipts = Bundle("receipts")

    @rule(
        target=names,
        name=st.sampled_from(["ada", "bob", "eve", "joe"]),
        kind=st.sampled_from(["setwise", "filter"]),
        monthly=st.booleans(),
        capped=st.booleans(),
    )
    def open_account(self, name, kind, monthly, capped):
        terms = {"delta": DELTA, "dataset": "visits" if capped else "", "period": "month" if monthly else None}

        def opening():
            if kind == "filter":
                return self.ledger.open_filter(name, epsilon=EPSILON, **terms, rule="zcdp")
            return self.ledger.open_setwise(name, [f"{mech}x{count}" for mech, count in REGISTERED.items()], **terms)

        if name in self.model:
            with pytest.raises(AccountExists):
                opening()
        else:
            opening()
            self.model[name] = ModelAccount(kind, monthly, capped)
        self.touched.add(name)
        return name

    @rule(
        target=receipts,
        name=names,
        key=st.sampled_from(KEYS),
        request=st.sampled_from(["q", "r"]),
        draw=st.sampled_from(DRAWS),
    )
    def charge(self, name, key, request, draw):
        model, account = self.model[name], self.ledger.account(name)
        month = f"{self.clock.now():%Y-%m}" if model.monthly else ""
        uses = [parse_use(text) for text in draw]
        self.touched.add(name)

        def charging():
            return account.charge(uses, key=key, request=request)

        expected = self.expected(model, key, request, draw, month)
        if expected is not None:
            with pytest.raises(expected):
                charging()
            return None
        receipt = charging()
        if key in model.charges:
            assert receipt.answer == model.answers.get(key)
            assert receipt.period == model.charges[key][0]
        else:
            assert receipt.answer is None
            model.charges[key] = (month, request, draw)
            for mech, count in map(counted, draw):
                model.drawn[month, mech] += count
            model.rho[month] += self.cost(draw)
            self.cap_rho += self.cost(draw) if model.capped else 0
        assert [format_use(use) for use in receipt.uses] == draw
        return name, receipt

    def expected(self, model, key, request, draw, month):
        """Return the error a charge should meet, or None."""
        registered = all(mech in REGISTERED for mech, _ in map(counted, draw))
        if model.kind == "setwise" and not registered:
            return InvalidParameter
        if key in model.charges:
            return None if model.charges[key][1:] == (request, draw) else KeyConflict
        if model.capped and self.passes(self.cap_rho + self.cost(draw), self.cap_budget):
            return BudgetExhausted
        if model.kind == "filter":
            return BudgetExhausted if self.passes(model.rho[month] + self.cost(draw), self.budget) else None
        over = any(model.drawn[month, mech] + count > REGISTERED[mech] for mech, count in map(counted, draw))
        return BudgetExhausted if over else None

    @staticmethod
    def passes(total, budget):
        assert abs(total - budget) > budget / 10**9, "choose draws that do not end within a hair of a budget"
        return total > budget

    @staticmethod
    def cost(draw):
        """Return the exact rho of a draw."""
        return sum(count * price(mech)[0] for mech, count in map(counted, draw))

    @rule(given=receipts, answer=st.sampled_from(["x", "y", ""]), back=st.integers(0, 3))
    def settle(self, given, answer, back):
        if given is None:
            return
        name, receipt = given
        model = self.model[name]
        self.touched.add(name)
        month, _, draw = model.charges[receipt.key]
        returned = [(mech, min(count, back)) for mech, count in map(counted, draw) if back]
        stored = self.ledger.account(name).settle(
            receipt, answer=answer, returned=[parse_use(f"{mech}x{count}") for mech, count in returned]
        )
        if receipt.key not in model.answers:
            model.answers[receipt.key] = answer
            if model.kind == "setwise":
                for mech, count in returned:
                    model.drawn[month, mech] -= count
        assert stored == model.answers[receipt.key]

    @rule(given=consumes(receipts))
    def lose_a_receipt(self, given):
        """A run that died after charging."""

    @rule(days=st.integers(0, 20))
    def wait(self, days):
        self.clock.move(days=days)

    @rule()
    def reopen(self):
        self.ledger.close()
        self.ledger = Ledger.open(self.address, clock=self.clock)

    @invariant()
    @precondition(lambda self: self.touched)
    def accounts_stand_as_they_should(self):
        self.compare({name: self.ledger.account(name).status() for name in self.touched})
        self.touched.clear()

    def compare(self, found):
        for name, status in found.items():
            model = self.model[name]
            month = f"{self.clock.now():%Y-%m}" if model.monthly else ""
            assert (status.charges, status.period) == (len(model.charges), month)
            if model.kind == "setwise":
                left = {format_use(parse_use(f"{mech}x1")): 0 for mech in REGISTERED}
                left.update({counted(format_use(use))[0]: use.count for use in status.left})
                assert left == {mech: total - model.drawn[month, mech] for mech, total in REGISTERED.items()}
            else:
                assert status.share_left == pytest.approx(float(1 - model.rho[month] / self.budget), abs=1e-9)

    def teardown(self):
        found = {status.name: status for status in self.ledger.accounts()}
        assert set(found) == set(self.model)
        self.compare(found)
        books = audit(self.address)
        for name, model in self.model.items():
            assert books[name].answers == model.answers
        assert not self.ledger.verify().faults
        self.ledger.close()


def machine(address):
    return type("Machine", (LedgerMachine,), {"fresh_address": staticmethod(address)})


STEPS = settings(
    max_examples=examples(12),
    stateful_step_count=20,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)


def test_model_on_sqlite(tmp_path):
    numbers = iter(range(10**6))
    run_state_machine_as_test(machine(lambda: str(tmp_path / f"{next(numbers)}.db")), settings=STEPS)


def test_model_on_postgresql(postgresql_server):
    run_state_machine_as_test(machine(postgresql_server.schema), settings=STEPS)
