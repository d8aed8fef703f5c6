"""The chain of entries of one account, recomputed entry by entry."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, RowMapping

from setwise.accounting.guarantees import merged
from setwise.errors import InvalidParameter
from setwise.ledger.amounts import WALLET, Totals, WalletTotals
from setwise.ledger.records import Entry, link, moment_of, read_amounts, read_uses, write_amounts, write_uses
from setwise.ledger.register import Record
from setwise.ledger.slices import RULE, SLICES, CapTotals, Rule
from setwise.ledger.stores.base import Movement, read_moves, write_moves
from setwise.ledger.stores.read_queries import entry_rows, movements_of, read_entry
from setwise.ledger.stores.seal import moves_digest
from setwise.ledger.terms import WHOLE_LIFE, account_movements, entry_movements, period_id, slice_payment


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, and with which entry of which account; None where it is not about one."""

    account: str | None
    entry: int | None
    what: str

    def __str__(self) -> str:
        if self.account is None:
            return f"the ledger {self.what}"
        if self.entry is None:
            return f"the account {self.account!r} {self.what}"
        return f"entry {self.entry} of the account {self.account!r} {self.what}"


Tally = dict[tuple[int, str, str], int]
"""What was spent, per holder, period and line."""

Witnesses = Mapping[int, Sequence[tuple[str, str]]]
"""Per position of an entry, the hashes that it must have, each with who says so."""


@dataclass(slots=True)
class Chain:
    """The result of recomputing a chain: its end, its counts, and its faults.

    `by_one_rule` are the charges that paid the cap by one of its rules only: their positions, and the rule.
    """

    head: str
    at: int
    count: int = 0
    charges: int = 0
    period: str = ""
    faults: list[Fault] = field(default_factory=list)
    by_one_rule: list[tuple[int, Rule]] = field(default_factory=list)


class ChainCheck:
    """Recomputes the chain of an account, and adds what it should have spent to a tally.

    `shut` are the positions, from the first to before the second, in which the account was frozen or closed. `sealed`
    is how many entries were hashed without their movements, and the digest of these movements in the seal.
    """

    def __init__(
        self,
        record: Record,
        cap: Totals | CapTotals | None,
        tally: Tally,
        witnesses: Witnesses,
        shut: Sequence[range],
        sealed: tuple[int, str] = (0, ""),
    ) -> None:
        self._holder = record.holder
        self._terms = record.terms
        self._cap = cap
        self._direct = cap if isinstance(cap, Totals) else None
        self._tally = tally
        self._witnesses = witnesses
        self._shut = shut
        self._sealed, self._sealed_digest = sealed
        self._sealed_moves: list[str] = []
        self._charged: dict[str, str] = {}  # by key, the period of every charge
        self._priced: dict[tuple[str, str, str], list[Movement]] = {}
        self._unsettled: dict[str, tuple[str, str]] = {}  # by key, the period and uses of a charge
        self._chain = Chain(head=record.hash, at=record.at)

    def run(self, connection: Connection) -> Chain:
        """Walk the chain."""
        chain = self._chain
        moved = itertools.groupby(movements_of(connection, self._holder), key=lambda pair: pair[0])
        ahead = next(moved, None)
        for row in entry_rows(connection, self._holder, after=-(2**62)):
            found: list[Movement] = []
            while ahead is not None and ahead[0] <= row["position"]:
                movements = [movement for _, movement in ahead[1]]
                if ahead[0] == row["position"]:
                    found = movements
                else:
                    self._fault(ahead[0], "has movements, but is missing")
                ahead = next(moved, None)
            self._check(row, found)
        if ahead is not None:
            self._fault(ahead[0], "has movements, but is missing")
        for position, said in self._witnesses.items():
            if position > chain.count:
                self._fault(position, f"is missing, and {said[0][1]} has it")
        if self._sealed and moves_digest(self._sealed_moves) != self._sealed_digest:
            chain.faults.append(Fault(self._terms.name, None, "has early movements other than those in the seal"))
        return chain

    def _check(self, row: RowMapping, found: list[Movement]) -> None:
        chain, terms = self._chain, self._terms
        entry = read_entry(terms.name, row)
        gap = entry.position != chain.count + 1
        if gap:
            self._fault(chain.count + 1, f"is missing: entry {entry.position} comes after entry {chain.count}")
        if entry.position <= self._sealed:
            own = entry.contents.digest_without_moves()
            self._sealed_moves.append(entry.contents.moves)
        else:
            own = entry.contents.digest()
        if own != row["digest"] or entry.hash != link(entry.previous, entry.position, entry.at, own):
            self._fault(entry.position, "was changed: its hash does not fit what it says")
        elif not gap and entry.previous != chain.head:
            if entry.position == 1:
                self._fault(1, "does not follow the opening of the account")
            elif not any(fault.entry == entry.position - 1 for fault in chain.faults[-2:]):
                self._fault(entry.position - 1, f"was replaced: entry {entry.position} follows another")
        for expected, who in self._witnesses.get(entry.position, ()):
            if entry.hash != expected:
                self._fault(entry.position, f"is not the one of {who}")
        self._check_sense(entry, found)
        chain.head, chain.at, chain.count = entry.hash, entry.at, entry.position
        chain.charges += entry.contents.kind == "charge"
        chain.period = max(chain.period, entry.contents.period)

    def _check_sense(self, entry: Entry, found: list[Movement]) -> None:
        """Check what an entry means: its kind's own rules, its list of movements, and its prices."""
        contents = entry.contents
        try:
            if contents.kind == "charge":
                self._check_charge(entry)
            elif contents.kind == "settle":
                self._check_settlement(entry)
            elif contents.kind == "release":
                self._check_release(entry)
            else:
                self._check_slice(entry)
            said = {_place(movement): movement.amount for movement in read_moves(contents.moves)}
            moved = {_place(movement): movement.amount for movement in found}
            if said != moved or write_moves(read_moves(contents.moves)) != contents.moves:
                self._fault(entry.position, "has movements other than those under its hash")
            if write_uses(merged(entry.uses)) != contents.uses:
                self._fault(entry.position, "lists its uses in another form than the ledger writes")
            expected = self._expected(entry, found)
        except (InvalidParameter, ValueError, TypeError):
            self._fault(entry.position, "draws what is not registered")
            return
        if self._agree(entry, found, expected):
            expected = found
        else:
            self._fault(entry.position, "moved other amounts than it says")
        for movement in expected:
            self._tally[_place(movement)] = self._tally.get(_place(movement), 0) + movement.amount
        if any(self._spent(WHOLE_LIFE, line) < 0 for line in SLICES.values()):
            self._fault(entry.position, "takes more of the account's slice of the cap than it held")

    def _check_charge(self, entry: Entry) -> None:
        self._unsettled[entry.contents.key] = entry.contents.period, entry.contents.uses
        self._charged[entry.contents.key] = entry.contents.period
        if entry.contents.period != period_id(self._terms.period, moment_of(entry.at)):
            self._fault(entry.position, f"is not in the period {entry.contents.period!r}")
        if any(entry.position in positions for positions in self._shut):
            self._fault(entry.position, "was charged while the account was frozen or closed")

    def _check_settlement(self, entry: Entry) -> None:
        period, uses = self._unsettled.pop(entry.contents.key, (None, ""))
        if period != entry.contents.period:
            self._fault(entry.position, "settles a charge that is missing")
            return
        charged = {use.guarantee: use.count for use in read_uses(uses)}
        if any(use.count > charged.get(use.guarantee, 0) for use in entry.uses):
            self._fault(entry.position, "returns more than its charge drew")
        if not {use.guarantee for use in entry.uses} <= {use.guarantee for use in self._terms.uses}:
            self._fault(entry.position, "returns draws that are not registered, and nothing else comes back")

    def _check_release(self, entry: Entry) -> None:
        """Check that a release has a charge of its period and charges nothing, and that the account was open."""
        charge_key, mark, part = entry.contents.key.partition("\n")
        if self._charged.get(charge_key) != entry.contents.period or not (mark and part) or entry.uses:
            self._fault(entry.position, "releases what no charge has paid for")
        if any(entry.position in positions for positions in self._shut):
            self._fault(entry.position, "was released while the account was frozen or closed")

    def _check_slice(self, entry: Entry) -> None:
        """Check that a slice moves units of the cap's lines, and gives up at most one rule."""
        amounts = read_amounts(entry.contents.text)
        rule = amounts.get(RULE, Rule.WALLET)
        if (
            not self._terms.slices
            or entry.uses
            or entry.contents.period
            or not amounts.keys() <= {*SLICES, RULE}
            or rule not in (Rule.WALLET, Rule.SUM)
            or write_amounts(amounts) != entry.contents.text
        ):
            self._fault(entry.position, "moves between cap and slice what no slice has")

    def _expected(self, entry: Entry, found: Sequence[Movement]) -> list[Movement]:
        contents = entry.contents
        if contents.kind == "charge" and isinstance(self._cap, CapTotals):
            return self._expected_from_slice(entry, self._cap, found)
        totals = self._terms.totals
        spent = self._own(contents.period) if totals is not None and totals.price_depends_on_balance else {}
        known = None if spent or contents.kind == "slice" else (contents.kind, contents.uses, contents.period)
        if known in self._priced:
            return self._priced[known]
        moves = entry_movements(self._holder, self._terms, self._direct, contents, spent)
        if known is not None:
            self._priced[known] = moves
        return moves

    def _expected_from_slice(self, entry: Entry, cap: CapTotals, found: Sequence[Movement]) -> list[Movement]:
        """Return the movements that a charge should have, paid by whichever rules its own movements show."""
        period = entry.contents.period
        own = account_movements(self._holder, self._terms, entry.uses, period, self._own(period))
        held = {what: self._spent(WHOLE_LIFE, line) for what, line in SLICES.items()}
        moved = {move.what: -move.amount for move in found if move.holder == self._holder}
        paid = {what: moved[line] for what, line in SLICES.items() if line in moved}
        rule = next((rule for rule in Rule if cap.accepts(entry.uses, held, paid, rule)), None)
        if rule is None:
            self._fault(entry.position, "does not pay the cap what its uses cost")
            return own
        if rule is not Rule.BOTH:
            self._chain.by_one_rule.append((entry.position, rule))
        return own + slice_payment(self._holder, paid)

    def _own(self, period: str) -> dict[str, int]:
        """Return the units spent so far, per line of the account."""
        return {what: self._spent(period, what) for what in self._terms.lines()}

    def _spent(self, period: str, what: str) -> int:
        return self._tally.get((self._holder, period, what), 0)

    def _agree(self, entry: Entry, found: Sequence[Movement], expected: Sequence[Movement]) -> bool:
        """Return whether an entry moved what it should; a wallet's price may differ by rounding if it still pays."""
        ours, theirs = ({_place(movement): movement.amount for movement in each} for each in (expected, found))
        if len(found) != len(expected) or ours.keys() != theirs.keys():
            return False
        return all(
            amount == theirs[at] or self._still_pays(entry, at, amount, theirs[at]) for at, amount in ours.items()
        )

    def _still_pays(self, entry: Entry, at: tuple[int, str, str], expected: int, found: int) -> bool:
        _, period, what = at
        totals = self._terms.totals
        if what != WALLET or not isinstance(totals, WalletTotals) or abs(found - expected) > _ROUNDING:
            return False
        _, uses = self._terms.split(entry.uses)
        return totals.covers(uses, totals.lines()[WALLET] - self._spent(period, WALLET), found)

    def _fault(self, position: int, what: str) -> None:
        self._chain.faults.append(Fault(self._terms.name, position, what))


_ROUNDING = 2**20
"""Units by which a price may differ between platforms, whose math libraries round differently: 1e-12 of a wallet.

The payment must still be enough by the prices of this platform.
"""


def _place(movement: Movement) -> tuple[int, str, str]:
    return movement.holder, movement.period, movement.what
