"""The cap of a dataset, the joint budget of all its accounts: how accounts take, return and collect slices of it.

A slice is the part of a cap's balances that is reserved for one account. Every transaction here locks one account
before it locks the cap, so that transactions cannot deadlock.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from setwise.accounting.guarantees import Use
from setwise.ledger.records import Contents, write_amounts, write_uses
from setwise.ledger.slices import RULE, SLICES, CapTotals, Rule
from setwise.ledger.stores.base import Draft, Refused, Store
from setwise.ledger.stores.read_queries import locked_spent_of, pricing_state, slices_of, spent_of
from setwise.ledger.terms import WHOLE_LIFE, slice_balances, slice_movements


@dataclass(frozen=True, slots=True, kw_only=True)
class CapBalance:
    """The remaining balance of a dataset's cap: the unallocated part `free`, and the slices reserved for accounts.

    A cap is the joint budget of all accounts on a dataset.
    - `free` has units per balance name (such as "wallet", 2^60 units when full).
    - `held` has the slice of each account in units per balance name, `names` the name of each account, and `at` the
      timestamp of its last entry in microseconds since 1970. The keys of these three are register numbers (the number
      of the record that opened the account).
    - `rule` says which payment rules the cap still has: the Gaussian wallet (a budget in mu squared), the sum of
      epsilons, or both.
    """

    free: Mapping[str, int]
    held: Mapping[int, Mapping[str, int]]
    names: Mapping[int, str]
    at: Mapping[int, int]
    rule: Rule

    def total(self) -> dict[str, int]:
        """Return the whole remaining balance of the cap, unallocated and in slices, in units per balance name.

        A cap is the joint budget of a dataset's accounts, and a slice the part of it that is reserved for one account.
        Most full balances have 2^60 units.
        """
        return {
            balance_name: units + sum(slice_units.get(balance_name, 0) for slice_units in self.held.values())
            for balance_name, units in self.free.items()
        }


class SharedCap:
    """The cap of a dataset: one budget that limits all accounts on the dataset together.

    Each account reserves a part of the cap, its slice, and pays its charges from the slice, so that charges of
    different accounts need not wait for each other. `holder` is the number of the record that opened the cap, `totals`
    is the cap's budget, and `store` the ledger's database.
    """

    def __init__(self, store: Store, holder: int, totals: CapTotals) -> None:
        self._store = store
        self._balance_sizes = totals.lines()
        self.holder = holder
        self.totals = totals

    def balance(self, connection: Connection) -> CapBalance:
        """Return the remaining balance of the cap: its unallocated part, and the slices that accounts have reserved.

        All is read through `connection`, in one consistent view.
        """
        spent = spent_of(connection, self.holder, WHOLE_LIFE)
        balance_of_slice = {slice_name: balance_name for balance_name, slice_name in SLICES.items()}
        slice_units: dict[int, dict[str, int]] = {}
        slices = slices_of(connection, self.holder)
        for slice_row in slices:
            slice_units.setdefault(slice_row.holder, {})[balance_of_slice[slice_row.balance_name]] = slice_row.units
        return CapBalance(
            free=self._free(spent),
            held=slice_units,
            names={slice_row.holder: slice_row.name for slice_row in slices},
            at={slice_row.holder: slice_row.at for slice_row in slices},
            rule=self.totals.rule_of(spent.get(RULE, 0)),
        )

    def refill(
        self, connection: Connection, uses: Sequence[Use], slice_units: Mapping[str, int], rule: Rule
    ) -> dict[str, int]:
        """Return the units to move from the cap into an account's slice (its part of the cap) to pay for `uses`.

        `uses` are mechanism uses (guarantees with counts). The result, and `slice_units`, the units in the slice now,
        are keyed by balance name (such as "wallet", 2^60 units when full). `rule` says whether the Gaussian wallet (a
        budget in mu squared) pays, the sum of epsilons, or both. The cap's row is locked until the transaction of
        `connection` ends.
        """
        return self.totals.refill(uses, slice_units, self._free(locked_spent_of(connection, self.holder)), rule)

    def slice_entry(self, account: int, name: str, amounts: Mapping[str, int], at: int, position: int) -> Draft:
        """Return an entry, not yet appended, that moves units between the cap and an account's slice.

        A slice is the part of the cap that is reserved for one account.
        - `account` is the account's register number (the number of its opening record), and `name` its name.
        - `amounts` are units per balance name (such as "wallet", 2^60 units when full). Positive ones move into the
          slice, negative ones return to the cap.
        - `at` is the timestamp in microseconds since 1970, and `position` the entry's place in the account's chain.
        """
        contents = Contents(
            account=name,
            kind="slice",
            key=str(position),
            period=WHOLE_LIFE,
            uses=write_uses(()),
            text=write_amounts(amounts),
        )
        moves = slice_movements(account, self.holder, amounts)
        return Draft(holder=account, at=at, contents=contents, movements=moves, position=position)

    def give_back(self, account: int, name: str, at: int, wanted: Mapping[str, int] | None = None) -> bool:
        """Move units from an account's slice (its part of the cap) back to the cap; return False if the slice has none.

        - `account` is the account's register number (the number of its opening record), and `name` its name.
        - `at` is the timestamp in microseconds since 1970.
        - `wanted` has the units that the cap needs, per balance name (such as "wallet", 2^60 units when full); None
          returns the whole slice. Of each balance in `wanted`, the wanted units or half of the slice are returned,
          whichever is more. Half is returned so that the cap need not collect again for the next charge of another
          account.
        """

        def amounts(slice_units: Mapping[str, int]) -> dict[str, int]:
            if wanted is None:
                return dict(slice_units)
            return {
                balance_name: max(min(units, slice_units[balance_name]), slice_units[balance_name] // 2)
                for balance_name, units in wanted.items()
            }

        def drafts(connection: Connection) -> list[Draft]:
            state = pricing_state(connection, account, WHOLE_LIFE)
            back = {
                balance_name: -units for balance_name, units in amounts(slice_balances(state.spent)).items() if units
            }
            if not back:
                raise Refused
            return [self.slice_entry(account, name, back, at, state.entries + 1)]

        return self._try_append(account, drafts)

    def collect(self, account: int, name: str, uses: Sequence[Use], at: int) -> None:
        """Move units from other accounts' slices back to the cap, so that it can refill one account's slice for `uses`.

        A slice is the part of the cap that is reserved for one account.
        - `account` is the register number (the number of the opening record) of the account that wants to pay, and
          `name` its name.
        - `uses` are the mechanism uses to be paid. Only the units that they need beyond the account's own slice and the
          unallocated part of the cap are collected.
        - `at` is the timestamp of the entries, in microseconds since 1970.
        The cap has two payment rules, a Gaussian wallet (a budget in mu squared) and the sum of epsilons. If only one
        of them can pay for the uses, the other rule is dropped first. Nothing happens if even the whole cap cannot pay.
        """
        with self._store.reading() as connection:
            balance = self.balance(connection)
        rule = self.totals.rule_for(uses, balance.total(), balance.rule)
        if rule is None:
            return
        if rule is not balance.rule:
            self.keep_rule(account, name, rule, at)
        own_slice = balance.held.get(account, {})
        for balance_name, units in self.totals.needs(uses, rule).items():
            lacking = units - own_slice.get(balance_name, 0) - balance.free[balance_name]
            others = [(held.get(balance_name, 0), other) for other, held in balance.held.items() if other != account]
            for held, other in sorted(others, reverse=True):
                if lacking <= 0 or not held:
                    break
                self.give_back(other, balance.names[other], at, {balance_name: lacking})
                lacking -= max(min(lacking, held), held // 2)

    def keep_rule(self, account: int, name: str, rule: Rule, at: int) -> bool:
        """Drop the cap's other payment rule, so that only `rule` pays from now on; return whether the rule was dropped.

        The rules are the Gaussian wallet (a budget in mu squared) and the sum of epsilons. Returns False if a rule was
        dropped before, or if the account is not open. The decision is recorded as an entry of an account under the cap:
        `account` is its register number (the number of its opening record), `name` its name, and `at` the timestamp in
        microseconds since 1970.
        """

        def drafts(connection: Connection) -> list[Draft]:
            entries = pricing_state(connection, account, WHOLE_LIFE).entries
            return [self.slice_entry(account, name, {RULE: int(rule)}, at, entries + 1)]

        return self._try_append(account, drafts)

    def _try_append(self, account: int, drafts: Callable[[Connection], list[Draft]]) -> bool:
        """Append entries to the chain of an account in one transaction; return False if the database refuses them.

        `account` is the account's register number (the number of its opening record). The function `drafts` takes a
        connection, and returns the entries to append with their balance changes. The database refuses entries that
        overdraw a balance, or whose account is not open.
        """
        try:
            self._store.append_priced(account, drafts)
        except Refused:
            return False
        return True

    def _free(self, spent: Mapping[str, int]) -> dict[str, int]:
        """Return the units of the cap that are not reserved in any account's slice, per balance name.

        `spent` has the units that were moved from the cap into slices, per balance name (such as "wallet", 2^60 units
        when full).
        """
        return {balance_name: self._balance_sizes[balance_name] - spent.get(balance_name, 0) for balance_name in SLICES}
