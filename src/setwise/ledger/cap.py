"""The cap of a dataset, the joint budget of all its accounts: moving reserved units back from accounts to the cap.

A cap has several balances, such as "wallet" (mu squared), which are counted in units; an account's slice is the part of
them that is reserved for this account. `SharedCap.give_back` moves units from one account's slice back to the cap. If
the cap has too few free units for a charge, `SharedCap.collect` does so with the slices of other accounts. Units move
the other way, from the cap into a slice, together with the charge that needs them (`Account._pay_cap` in account.py).

Every transaction here locks one account before it locks the cap, so that transactions cannot deadlock.
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
    """What remains of a dataset's cap, the joint budget of all its accounts.

    The cap has several balances, such as "wallet" (mu squared); a full balance of the cap has 2^60 units. An account is
    identified by the number of the record that opened it.

    - `free` maps each balance to the units that are reserved for no account.
    - `held` maps the number of each account with reserved units to a dict: balance name to units reserved for it.
    - `names` maps the number of each of these accounts to its name.
    - `at` maps the number of each of these accounts to the timestamp of its last entry, in microseconds since 1970.
    - `rule` says which balances still pay: the Gaussian wallet (mu squared), the sum of epsilons, or both.
    """

    free: Mapping[str, int]
    held: Mapping[int, Mapping[str, int]]
    names: Mapping[int, str]
    at: Mapping[int, int]
    rule: Rule

    def total(self) -> dict[str, int]:
        """Return how many units of each balance of the cap remain, whether reserved for accounts or not.

        The cap is the joint budget of a dataset's accounts. A full balance, such as "wallet" (a budget in mu squared),
        has 2^60 units, so 2^59 units are half of this budget.
        """
        return {
            balance_name: units + sum(slice_units.get(balance_name, 0) for slice_units in self.held.values())
            for balance_name, units in self.free.items()
        }


class SharedCap:
    """The cap of a dataset: one joint budget that limits all accounts on the dataset together.

    Each account reserves a part of the cap, its slice, and pays from the slice. A charge then changes only balances of
    its own account, and need not wait for charges of other accounts. `store` is the database of the ledger, `holder`
    the number of the record that opened the cap, and `totals` the cap's budget.
    """

    def __init__(self, store: Store, holder: int, totals: CapTotals) -> None:
        self._store = store
        self._balance_sizes = totals.lines()
        self.holder = holder
        self.totals = totals

    def balance(self, connection: Connection) -> CapBalance:
        """Return what remains of the cap: the units that no account has reserved, and the units that each account has.

        The cap is the joint budget of a dataset's accounts; a full balance of the cap has 2^60 units. Everything is
        read through `connection`, which must see one consistent state of the database.
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

    def refill_amounts(
        self, connection: Connection, uses: Sequence[Use], slice_units: Mapping[str, int], rule: Rule
    ) -> dict[str, int]:
        """Return how many units of each balance of the cap to move into an account's slice to pay for `uses`.

        The cap is a dataset's joint budget, and a slice is the part of the cap that is reserved for one account. A full
        balance of the cap has 2^60 units.

        - `uses` lists privacy guarantees and how often each is used.
        - `slice_units` maps each balance to its units in the slice now.
        - `rule` says which of the cap's balances pay: the Gaussian wallet (mu squared), the sum of epsilons, or both.

        Nothing is moved here; the caller moves the units. The cap's row is locked until the transaction of `connection`
        ends, so that no other account takes the units before.
        """
        return self.totals.refill_amounts(uses, slice_units, self._free(locked_spent_of(connection, self.holder)), rule)

    def slice_entry(self, account: int, name: str, amounts: Mapping[str, int], at: int, position: int) -> Draft:
        """Return a new entry, not yet appended, that moves units between the cap and an account's slice.

        The cap is the joint budget of a dataset's accounts, and the slice a part of it that is reserved for one
        account.

        - `account` is the number of the ledger record that opened the account, and `name` the account's name.
        - `amounts` maps each balance to the units to move; a full balance of the cap has 2^60 units. For example,
          {"wallet": 5} moves five units of mu squared into the slice, and {"wallet": -5} back to the cap.
        - `at` is the timestamp in microseconds since 1970, and `position` the entry's number among the account's
          entries.
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
        """Move units from an account's slice back to the cap; return whether units were moved.

        The cap is the joint budget of a dataset's accounts, and the slice the part of it that is reserved for one
        account. Nothing is moved if the slice is empty.

        - `account` is the number of the ledger record that opened the account, and `name` the account's name.
        - `at` is the timestamp of the entry, in microseconds since 1970.
        - `wanted` maps balances to the units that the cap needs; a full balance of the cap has 2^60 units. At least
          half of the slice's units of a wanted balance are moved even if the cap needs fewer, so that the next charge
          of another account need not move units again. None moves the whole slice.
        """

        def amounts(slice_units: Mapping[str, int]) -> dict[str, int]:
            if wanted is None:
                return dict(slice_units)
            return {
                # Half is returned so that the cap need not collect again for the next charge of another account.
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
        """Move units from the slices of other accounts back to the cap, so that one account can pay for `uses`.

        The cap is the joint budget of a dataset's accounts; an account's slice is the part of it that is reserved for
        the account. Units are moved from the largest slices first, until the paying account's slice and the unreserved
        part of the cap are enough together. Nothing happens if all slices together would not be enough.

        The cap pays from two balances, a Gaussian wallet (mu squared) and a sum of epsilons. If only one of them can
        pay for `uses`, the other balance is first dropped for good.

        - `account` is the number of the ledger record that opened the paying account, and `name` its name.
        - `uses` lists privacy guarantees and how often each is used.
        - `at` is the timestamp of the new entries, in microseconds since 1970.
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
            # Collect only what the account's own slice and the unreserved part of the cap lack.
            lacking = units - own_slice.get(balance_name, 0) - balance.free[balance_name]
            others = [(held.get(balance_name, 0), other) for other, held in balance.held.items() if other != account]
            for held, other in sorted(others, reverse=True):
                if lacking <= 0 or not held:
                    break
                self.give_back(other, balance.names[other], at, {balance_name: lacking})
                lacking -= max(min(lacking, held), held // 2)

    def keep_rule(self, account: int, name: str, rule: Rule, at: int) -> bool:
        """Drop one of the cap's two balances, so that only `rule` pays from now on; return whether this was done.

        The cap is the joint budget of a dataset's accounts. It may pay from a Gaussian wallet (mu squared) and from a
        sum of epsilons. When a charge fits only one of the two, the other is dropped for good.

        - `rule` is the balance that still pays.
        - `account` is the number of the ledger record that opened the account which makes the charge, and `name` the
          account's name. The decision is recorded as an entry of this account.
        - `at` is the timestamp of the entry, in microseconds since 1970.

        The result is False, and nothing changes, if a balance was dropped before, if the cap was set up to pay from one
        only, or if the account is not open.
        """

        def drafts(connection: Connection) -> list[Draft]:
            entries = pricing_state(connection, account, WHOLE_LIFE).entries
            return [self.slice_entry(account, name, {RULE: int(rule)}, at, entries + 1)]

        return self._try_append(account, drafts)

    def _try_append(self, account: int, drafts: Callable[[Connection], list[Draft]]) -> bool:
        """Append entries to an account in one transaction; return whether the database accepted them.

        - `account` is the number of the ledger record that opened the account.
        - `drafts(connection)` returns the entries to append.

        The database refuses entries that overdraw a balance, or that take units of the cap (the dataset's joint budget)
        for an account that is not open. Another transaction may have changed a balance just before, so a refusal is no
        error.
        """
        try:
            self._store.append_priced(account, drafts)
        except Refused:
            return False
        return True

    def _free(self, spent: Mapping[str, int]) -> dict[str, int]:
        """Return the units of each balance of the cap (a dataset's joint budget) that are reserved for no account.

        `spent` maps each balance to the units that accounts have reserved; a full balance of the cap has 2^60 units.
        """
        return {balance_name: self._balance_sizes[balance_name] - spent.get(balance_name, 0) for balance_name in SLICES}
