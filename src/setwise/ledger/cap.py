"""The cap of a dataset: how accounts take, give back and collect slices of it.

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
    """The balance of a cap, in units per line: the unallocated part (`free`) and the slices that accounts hold.

    `rule` says which rules still pay. `names` are those of the accounts with slices, and `at` the timestamps of their
    last entries, in microseconds since 1970.
    """

    free: Mapping[str, int]
    held: Mapping[int, Mapping[str, int]]
    names: Mapping[int, str]
    at: Mapping[int, int]
    rule: Rule

    def total(self) -> dict[str, int]:
        """Return the whole balance, unallocated or in slices, per line."""
        return {what: units + sum(own.get(what, 0) for own in self.held.values()) for what, units in self.free.items()}


class SharedCap:
    """A cap of which accounts hold slices: `holder` and `totals` are the cap's."""

    def __init__(self, store: Store, holder: int, totals: CapTotals) -> None:
        self._store = store
        self._lines = totals.lines()
        self.holder = holder
        self.totals = totals

    def balance(self, connection: Connection) -> CapBalance:
        """Return the balance of the cap, read in one consistent view."""
        spent = spent_of(connection, self.holder, WHOLE_LIFE)
        lines = {line: what for what, line in SLICES.items()}
        held: dict[int, dict[str, int]] = {}
        slices = slices_of(connection, self.holder)
        for each in slices:
            held.setdefault(each.holder, {})[lines[each.what]] = each.units
        return CapBalance(
            free=self._free(spent),
            held=held,
            names={each.holder: each.name for each in slices},
            at={each.holder: each.at for each in slices},
            rule=self.totals.rule_of(spent.get(RULE, 0)),
        )

    def refill(
        self, connection: Connection, uses: Sequence[Use], held: Mapping[str, int], rule: Rule
    ) -> dict[str, int]:
        """Return the units to take from the cap for the uses, per line. Locks the cap until the transaction ends."""
        return self.totals.refill(uses, held, self._free(locked_spent_of(connection, self.holder)), rule)

    def slice_entry(self, account: int, name: str, amounts: Mapping[str, int], at: int, position: int) -> Draft:
        """Return the entry, at that place, that moves units between the cap and the slice of an account."""
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
        """Give back an account's slice, or about the `wanted` units per line; return whether it held any.

        At least half of the slice of a wanted line is given back, so that the next use need not collect again.
        """

        def amounts(held: Mapping[str, int]) -> dict[str, int]:
            if wanted is None:
                return dict(held)
            return {what: max(min(units, held[what]), held[what] // 2) for what, units in wanted.items()}

        def drafts(connection: Connection) -> list[Draft]:
            found = pricing_state(connection, account, WHOLE_LIFE)
            back = {what: -units for what, units in amounts(slice_balances(found.spent)).items() if units}
            if not back:
                raise Refused
            return [self.slice_entry(account, name, back, at, found.entries + 1)]

        return self._appended(account, drafts)

    def collect(self, account: int, name: str, uses: Sequence[Use], at: int) -> None:
        """Collect from other accounts' slices the units that the uses need beyond the account's own and the free ones.

        If the whole balance of the cap pays for the uses by one of its rules only, the other rule is dropped first.
        """
        with self._store.reading() as connection:
            left = self.balance(connection)
        rule = self.totals.rule_for(uses, left.total(), left.rule)
        if rule is None:
            return
        if rule is not left.rule:
            self.keep_rule(account, name, rule, at)
        own = left.held.get(account, {})
        for what, units in self.totals.needs(uses, rule).items():
            lacking = units - own.get(what, 0) - left.free[what]
            others = [(held.get(what, 0), other) for other, held in left.held.items() if other != account]
            for held, other in sorted(others, reverse=True):
                if lacking <= 0 or not held:
                    break
                self.give_back(other, left.names[other], at, {what: lacking})
                lacking -= max(min(lacking, held), held // 2)

    def keep_rule(self, account: int, name: str, rule: Rule, at: int) -> bool:
        """Let the cap be paid by `rule` only from now on; return False if a rule was chosen before.

        The entry that says so stands in the chain of an account under the cap.
        """

        def drafts(connection: Connection) -> list[Draft]:
            entries = pricing_state(connection, account, WHOLE_LIFE).entries
            return [self.slice_entry(account, name, {RULE: int(rule)}, at, entries + 1)]

        return self._appended(account, drafts)

    def _appended(self, account: int, drafts: Callable[[Connection], list[Draft]]) -> bool:
        try:
            self._store.append_priced(account, drafts)
        except Refused:
            return False
        return True

    def _free(self, spent: Mapping[str, int]) -> dict[str, int]:
        return {what: self._lines[what] - spent.get(what, 0) for what in SLICES}
