"""The cap of a dataset as its accounts meet it: slices are taken, given back and collected.

Every transaction here locks one account first and the cap after it, so that none waits for another in a circle.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from setwise.accounting.guarantees import Use
from setwise.ledger.records import Contents, write_amounts, write_uses
from setwise.ledger.slices import RULE, SLICES, CapTotals, Rule
from setwise.ledger.stores.base import Draft, Refused, Store
from setwise.ledger.stores.read_queries import locked_spent_of, priced_by, slices_of, spent_of
from setwise.ledger.terms import WHOLE_LIFE, held_in, sliced


@dataclass(frozen=True, slots=True, kw_only=True)
class CapBalance:
    """What is left of a cap: units that nobody holds (`free`) and that accounts hold, per line, and its `rule`.

    `names` are those of the accounts that hold something, and `at` the stamps of their last entries.
    """

    free: Mapping[str, int]
    held: Mapping[int, Mapping[str, int]]
    names: Mapping[int, str]
    at: Mapping[int, int]
    rule: Rule

    def total(self) -> dict[str, int]:
        """Return all that is left, held or not, per line."""
        return {what: units + sum(own.get(what, 0) for own in self.held.values()) for what, units in self.free.items()}


class SharedCap:
    """A cap of which accounts hold slices: `holder` and `totals` are the cap's."""

    def __init__(self, store: Store, holder: int, totals: CapTotals) -> None:
        self._store = store
        self._lines = totals.lines()
        self.holder = holder
        self.totals = totals

    def balance(self, connection: Connection) -> CapBalance:
        """Return what is left, from a consistent view."""
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
        """Return what to take of the cap for the uses, per line; the cap stays locked until the transaction ends."""
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
        moves = sliced(account, self.holder, amounts)
        return Draft(holder=account, at=at, contents=contents, movements=moves, position=position)

    def give_back(self, account: int, name: str, at: int, wanted: Mapping[str, int] | None = None) -> bool:
        """Give back what an account holds, or about as much as is wanted per line; return whether there was anything.

        At least half of what is held of a wanted line goes, so that nobody has to come again for the next use.
        """

        def amounts(held: Mapping[str, int]) -> dict[str, int]:
            if wanted is None:
                return dict(held)
            return {what: max(min(units, held[what]), held[what] // 2) for what, units in wanted.items()}

        def drafts(connection: Connection) -> list[Draft]:
            found = priced_by(connection, account, WHOLE_LIFE)
            back = {what: -units for what, units in amounts(held_in(found.spent)).items() if units}
            if not back:
                raise Refused
            return [self.slice_entry(account, name, back, at, found.entries + 1)]

        return self._appended(account, drafts)

    def collect(self, account: int, name: str, uses: Sequence[Use], at: int) -> None:
        """Collect from other accounts what the uses need beyond one's own slice and what nobody holds.

        Where all that is left of the cap pays by one of its rules only, the other is given up.
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
            entries = priced_by(connection, account, WHOLE_LIFE).entries
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
