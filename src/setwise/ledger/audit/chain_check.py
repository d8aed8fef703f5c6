"""Verification of one account's chain of entries: every hash, price and balance change is recomputed."""

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
from setwise.ledger.terms import (
    WHOLE_LIFE,
    account_movements,
    entry_movements,
    period_id,
    slice_payment,
    uses_priced_by_balance,
)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault that verification found: the text `message` says what is wrong with entry number `entry` of `account`.

    `entry` is None if the account as a whole is at fault. Both `entry` and `account` are None if the whole ledger is at
    fault.
    """

    account: str | None
    entry: int | None
    message: str

    def __str__(self) -> str:
        if self.account is None:
            return f"the ledger {self.message}"
        if self.entry is None:
            return f"the account {self.account!r} {self.message}"
        return f"entry {self.entry} of the account {self.account!r} {self.message}"


Tally = dict[tuple[int, str, str], int]
"""The units spent according to the entries, keyed by register number of the account or cap, period and balance name."""

Witnesses = Mapping[int, Sequence[tuple[str, str]]]
"""Per position of an entry: the hashes that it must have, each with a text that names the anchor or head it is from."""


@dataclass(slots=True)
class Chain:
    """The result of recomputing the hash chain of one account's entries.

    - `head` is the hash of the last entry, and `at` its timestamp in microseconds since 1970.
    - `count` is the number of entries, and `charges` the number of charges among them.
    - `period` is the latest budget period of an entry.
    - `faults` are the faults that were found.
    - `by_one_rule` is about charges that were also paid from the dataset's joint budget. Most are paid from two
      balances of it: the Gaussian wallet (an amount of mu squared) and the sum of epsilons. For each charge that was
      paid from only one of the two, the list has (position of the charge, the balance that paid).
    """

    head: str
    at: int
    count: int = 0
    charges: int = 0
    period: str = ""
    faults: list[Fault] = field(default_factory=list)
    by_one_rule: list[tuple[int, Rule]] = field(default_factory=list)


class ChainCheck:
    """Verifier of one account: recomputes the hash chain of its entries, and the units that each entry should spend.

    - `record` is the account's opening, and `cap` the joint budget of the dataset's accounts, or None.
    - `tally` sums up, over all accounts, the units spent from each balance, such as "wallet"; most full balances have
      2^60 units. The verifier adds to it the units that each entry should have spent. Its caller then compares the sums
      with the stored balances.
    - `witnesses` has, for some positions of entries, the hash that the entry must have, because it was signed or stored
      outside the database.
    - `shut` are the ranges of positions at which the account was frozen or closed.
    - `sealed` is (number, digest). An early version of Setwise wrote the first `number` entries, with hashes that do
      not cover their balance changes; `digest` is one digest of all these changes. It is (0, "") if there are no such
      entries.
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
        self._account_id = record.holder
        self._terms = record.terms
        self._cap = cap
        self._direct = cap if isinstance(cap, Totals) else None
        self._tally = tally
        self._witnesses = witnesses
        self._shut = shut
        self._sealed, self._sealed_digest = sealed
        self._sealed_moves: list[str] = []
        self._charged: dict[str, tuple[str, str]] = {}  # the period and uses of every charge, by its key
        self._released: set[str] = set()  # the keys of charges of which a part was released
        self._refunded: set[str] = set()  # the keys of charges whose settlement returned uses
        self._priced: dict[tuple[str, str, str], list[Movement]] = {}
        self._unsettled: dict[str, tuple[str, str]] = {}  # the period and uses of each unsettled charge, by its key
        self._chain = Chain(head=record.hash, at=record.at)

    def run(self, connection: Connection) -> Chain:
        """Check every entry of the account in order, and return the end, counts and faults of its hash chain."""
        chain = self._chain
        moved = itertools.groupby(movements_of(connection, self._account_id), key=lambda pair: pair[0])
        ahead = next(moved, None)
        for row in entry_rows(connection, self._account_id, after=-(2**62)):
            entry_movements: list[Movement] = []
            while ahead is not None and ahead[0] <= row["position"]:
                movements = [movement for _, movement in ahead[1]]
                if ahead[0] == row["position"]:
                    entry_movements = movements
                else:
                    self._fault(ahead[0], "has movements, but is missing")
                ahead = next(moved, None)
            self._check(row, entry_movements)
        if ahead is not None:
            self._fault(ahead[0], "has movements, but is missing")
        for position, witnesses in self._witnesses.items():
            if position > chain.count:
                self._fault(position, f"is missing, and {witnesses[0][1]} has it")
        if self._sealed and moves_digest(self._sealed_moves) != self._sealed_digest:
            chain.faults.append(Fault(self._terms.name, None, "has early movements other than those in the seal"))
        return chain

    def _check(self, row: RowMapping, movements: list[Movement]) -> None:
        """Check one entry's position, hash, link to the entry before it, and contents; record the faults found.

        `row` is the entry's row in the database. `movements` are the changes of budget balances that the database has
        for the entry.
        """
        chain, terms = self._chain, self._terms
        entry = read_entry(terms.name, row)
        gap = entry.position != chain.count + 1
        if gap:
            self._fault(chain.count + 1, f"is missing: entry {entry.position} comes after entry {chain.count}")
        if entry.position <= self._sealed:
            computed = entry.contents.digest_without_moves()
            self._sealed_moves.append(entry.contents.moves)
        else:
            computed = entry.contents.digest()
        if computed != row["digest"] or entry.hash != link(entry.previous, entry.position, entry.at, computed):
            self._fault(entry.position, "was changed: its hash does not fit what it says")
        elif not gap and entry.previous != chain.head:
            if entry.position == 1:
                self._fault(1, "does not follow the opening of the account")
            elif not any(fault.entry == entry.position - 1 for fault in chain.faults[-2:]):
                self._fault(entry.position - 1, f"was replaced: entry {entry.position} follows another")
        for expected, who in self._witnesses.get(entry.position, ()):
            if entry.hash != expected:
                self._fault(entry.position, f"is not the one of {who}")
        self._check_sense(entry, movements)
        chain.head, chain.at, chain.count = entry.hash, entry.at, entry.position
        chain.charges += entry.contents.kind == "charge"
        chain.period = max(chain.period, entry.contents.period)

    def _check_sense(self, entry: Entry, movements: list[Movement]) -> None:
        """Check that the contents of `entry` are allowed for its kind, and that its balance changes are right.

        The kinds are charges, settlements (answers of charges), releases (answers to one part of a question) and moves
        of reserved budget. `movements` are the balance changes that the database has for the entry. These changes must
        equal those that follow from the contents of `entry`, such as the price of a charge. Faults are recorded. The
        units that the entry should have spent are added to the tally, which has the sum of units spent per balance.
        """
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
            listed = {_place(movement): movement.amount for movement in read_moves(contents.moves)}
            moved = {_place(movement): movement.amount for movement in movements}
            if listed != moved or write_moves(read_moves(contents.moves)) != contents.moves:
                self._fault(entry.position, "has movements other than those under its hash")
            if write_uses(merged(entry.uses)) != contents.uses:
                self._fault(entry.position, "lists its uses in another form than the ledger writes")
            expected = self._expected_movements(entry, movements)
        except (InvalidParameter, ValueError, TypeError):
            self._fault(entry.position, "draws uses that are not registered")
            return
        if self._matches_expected(entry, movements, expected):
            expected = movements
        else:
            self._fault(entry.position, "moved other amounts than it says")
        for movement in expected:
            self._tally[_place(movement)] = self._tally.get(_place(movement), 0) + movement.amount
        if any(self._spent_units(WHOLE_LIFE, line) < 0 for line in SLICES.values()):
            self._fault(entry.position, "takes more of the account's slice of the cap than it held")

    def _check_charge(self, entry: Entry) -> None:
        """Record a fault if the timestamp of the charge `entry` lies outside the budget period that the charge states.

        Also record a fault if the account was frozen or closed at the time of the charge.
        """
        self._unsettled[entry.contents.key] = entry.contents.period, entry.contents.uses
        self._charged[entry.contents.key] = entry.contents.period, entry.contents.uses
        if entry.contents.period != period_id(self._terms.period, moment_of(entry.at)):
            self._fault(entry.position, f"is not in the period {entry.contents.period!r}")
        if any(entry.position in positions for positions in self._shut):
            self._fault(entry.position, "was charged while the account was frozen or closed")

    def _check_settlement(self, entry: Entry) -> None:
        """Record a fault unless the settlement `entry` (the answer of a charge) fits an unanswered charge.

        The charge must be in the same budget period. The settlement may give back only what the charge drew, only
        guarantees that were registered at the account's opening, and nothing if a part of the answer was released
        before.
        """
        period, uses = self._unsettled.pop(entry.contents.key, (None, ""))
        if period != entry.contents.period:
            self._fault(entry.position, "settles a charge that is missing")
            return
        charged = {use.guarantee: use.count for use in read_uses(uses)}
        if any(use.count > charged.get(use.guarantee, 0) for use in entry.uses):
            self._fault(entry.position, "returns more than its charge drew")
        if entry.uses and entry.contents.key in self._released:
            self._fault(entry.position, "returns uses although parts of its charge were released")
        if entry.uses:
            self._refunded.add(entry.contents.key)
        if not {use.guarantee for use in entry.uses} <= {use.guarantee for use in self._terms.uses}:
            self._fault(
                entry.position, "returns draws that are not registered, although only registered draws can be returned"
            )

    def _check_release(self, entry: Entry) -> None:
        """Record a fault unless a charge paid for the release `entry`: a stored answer to one part of a question.

        - The charge must be in the same budget period as the release, and must have no refund.
        - The charge's price must also be right for a question that is chosen after the charge, because a part of a
          question may be chosen later (see `uses_priced_by_balance`).
        - The release itself must not pay for anything or return anything.
        - The account must not be frozen or closed when the release is made.
        """
        charge_key, mark, part = entry.contents.key.partition("\n")
        period, uses = self._charged.get(charge_key, (None, "[]"))
        if period != entry.contents.period or not (mark and part) or entry.uses:
            self._fault(entry.position, "releases what no charge has paid for")
        if charge_key in self._refunded:
            self._fault(entry.position, "releases a part of a charge that returned uses")
        if uses_priced_by_balance(read_uses(uses), self._terms, has_slice=isinstance(self._cap, CapTotals)):
            self._fault(entry.position, "releases a part of a charge that was priced for one answer")
        self._released.add(charge_key)
        if any(entry.position in positions for positions in self._shut):
            self._fault(entry.position, "was released while the account was frozen or closed")

    def _check_slice(self, entry: Entry) -> None:
        """Record a fault unless the slice entry `entry` has the form in which the ledger writes slice entries.

        A slice entry moves units between the cap (the joint budget of the dataset's accounts) and the account's slice
        (the part of the cap that is reserved for the account). A slice entry may also record that the cap has dropped
        one of the balances from which it pays: the Gaussian wallet (an amount of mu squared) or the sum of epsilons.
        Whether the cap has enough units is checked when its balances are compared with their limits.
        """
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

    def _expected_movements(self, entry: Entry, movements: Sequence[Movement]) -> list[Movement]:
        """Return the balance changes that `entry` should make, computed again from the entries before it.

        `movements` are the changes that the database has. They matter only for a charge of an account with a slice (its
        reserved part of the dataset's joint budget). The joint budget has a balance in mu squared and one that sums
        epsilons, and it may pay from one or both; `movements` show which of them paid.
        """
        contents = entry.contents
        if contents.kind == "charge" and isinstance(self._cap, CapTotals):
            return self._expected_from_slice(entry, self._cap, movements)
        totals = self._terms.totals
        spent = self._account_spent(contents.period) if totals is not None and totals.price_depends_on_balance else {}
        price_key = None if spent or contents.kind == "slice" else (contents.kind, contents.uses, contents.period)
        if price_key in self._priced:
            return self._priced[price_key]
        moves = entry_movements(self._account_id, self._terms, self._direct, contents, spent)
        if price_key is not None:
            self._priced[price_key] = moves
        return moves

    def _expected_from_slice(self, entry: Entry, cap: CapTotals, movements: Sequence[Movement]) -> list[Movement]:
        """Return the balance changes that a charge should have if its account pays from a slice of the `cap`.

        The caller compares the result with `movements`, the changes that the database has for the charge `entry`. The
        cap is the joint budget of the dataset's accounts, and the slice the part of it that is reserved for this
        account.

        A slice may pay in mu squared, in epsilons, or in both. So the units that it paid are taken from `movements`,
        and it is checked that they are a right price for the uses. If they are not, a fault is recorded, and the result
        lacks the changes of the slice.
        """
        period = entry.contents.period
        account_side = account_movements(self._account_id, self._terms, entry.uses, period, self._account_spent(period))
        slice_units = {
            balance_name: self._spent_units(WHOLE_LIFE, slice_name) for balance_name, slice_name in SLICES.items()
        }
        moved = {move.balance_name: -move.amount for move in movements if move.holder == self._account_id}
        paid = {balance_name: moved[slice_name] for balance_name, slice_name in SLICES.items() if slice_name in moved}
        # The payment may be the price from the Gaussian wallet, from the sum of epsilons, or from both.
        rule = next((rule for rule in Rule if cap.accepts(entry.uses, slice_units, paid, rule)), None)
        if rule is None:
            self._fault(entry.position, "does not pay the cap what its uses cost")
            return account_side
        if rule is not Rule.BOTH:
            self._chain.by_one_rule.append((entry.position, rule))
        return account_side + slice_payment(self._account_id, paid)

    def _account_spent(self, period: str) -> dict[str, int]:
        """Return what the account has spent so far of each balance in the budget period `period`.

        The result maps names to units. A full balance such as "wallet" (mu squared) has 2^60 units; the balance of a
        guarantee that was registered at the account's opening, such as "pure:0.1", counts its uses.
        """
        return {balance_name: self._spent_units(period, balance_name) for balance_name in self._terms.lines()}

    def _spent_units(self, period: str, balance_name: str) -> int:
        """Return how many units the account has spent so far of one balance in the budget period `period`.

        `balance_name` is the balance's name, such as "wallet" (mu squared), of which a full balance has 2^60 units.
        """
        return self._tally.get((self._account_id, period, balance_name), 0)

    def _matches_expected(self, entry: Entry, movements: Sequence[Movement], expected: Sequence[Movement]) -> bool:
        """Return whether the changes of the entry in the database, `movements`, are the changes that it should have.

        `expected` are the balance changes that verification has computed. A price paid from a Gaussian wallet (an
        amount of mu squared) may differ by rounding, because math libraries differ between platforms.
        """
        ours, theirs = (
            {_place(movement): movement.amount for movement in changes} for changes in (expected, movements)
        )
        if len(movements) != len(expected) or ours.keys() != theirs.keys():
            return False
        return all(
            amount == theirs[at] or self._still_pays(entry, at, amount, theirs[at]) for at, amount in ours.items()
        )

    def _still_pays(self, entry: Entry, at: tuple[int, str, str], expected: int, amount: int) -> bool:
        """Return whether `amount` units from the account's Gaussian wallet are a valid price of the charge `entry`.

        The ledger may come from another machine, whose math library rounds otherwise. So a price need not equal
        `expected`, the units that this machine computes. It is valid if it differs by at most 2^20 units (`_ROUNDING`),
        and if this machine finds that it is enough to pay for the charge (`WalletTotals.covers`). A full wallet has
        2^60 units, which stand for its mu squared.

        `at` identifies the balance that paid: (number of the account, period, balance name). The result is False for
        any other balance than the wallet, because only prices in the wallet are rounded.
        """
        _, period, balance_name = at
        totals = self._terms.totals
        if balance_name != WALLET or not isinstance(totals, WalletTotals) or abs(amount - expected) > _ROUNDING:
            return False
        _, uses = self._terms.split(entry.uses)
        return totals.covers(uses, totals.lines()[WALLET] - self._spent_units(period, WALLET), amount)

    def _fault(self, position: int, message: str) -> None:
        """Record a fault of the account's entry at `position`; the text `message` says what is wrong with the entry."""
        self._chain.faults.append(Fault(self._terms.name, position, message))


_ROUNDING = 2**20
"""Units by which a price may differ between platforms, whose math libraries round differently: 1e-12 of a wallet.

The payment must still be enough at the prices of this platform.
"""


def _place(movement: Movement) -> tuple[int, str, str]:
    """Return the key under which the balance that `movement` changes is found: (number, period, balance name).

    A balance is an amount of budget of an account, or of a cap (a dataset's joint budget).

    - The number is that of the ledger's record that opened the account or cap.
    - The period is the budget period, such as "2026-11", or "" for a balance that never starts afresh.
    - The name is, for example, "wallet" (mu squared).
    """
    return movement.holder, movement.period, movement.balance_name
