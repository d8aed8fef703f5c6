"""An open account: charges before data is read, settlements with the answer, and the words of a refusal.

The SQL that writes a charge is in `append_in` of stores/sqlite.py and stores/postgresql.py.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from setwise.accounting.filters import filter_parameters
from setwise.accounting.guarantees import Guarantee, Use, largest_loss, merged
from setwise.accounting.notation import as_uses, format_use, rounded_up
from setwise.errors import BudgetExhausted, InvalidParameter, KeyConflict, StoreFailed
from setwise.ledger.amounts import Totals
from setwise.ledger.cap import CapBalance, SharedCap
from setwise.ledger.records import (
    Clock,
    Contents,
    Entry,
    EntryKind,
    check_name,
    check_text,
    microseconds,
    release_key,
    write_uses,
)
from setwise.ledger.register import check_pays
from setwise.ledger.slices import Rule
from setwise.ledger.status import AccountStatus, status_of, stopping_bound
from setwise.ledger.stores.base import Draft, Movement, Refused, Store
from setwise.ledger.stores.read_queries import account_counters, entries_of, entry_under, pricing_state, spent_of
from setwise.ledger.terms import (
    WHOLE_LIFE,
    Terms,
    account_movements,
    charge_movements,
    line_of,
    period_id,
    refund_movements,
    slice_balances,
    slice_payment,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """A charge that is on disk: entry number `entry` of `account`, made under `key`, for `uses`.

    `answer` is the stored answer when the request was answered before, and None when it has still to be answered.
    """

    account: str
    key: str
    entry: int
    period: str
    uses: tuple[Use, ...]
    answer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Balances:
    """What decides whether a charge can be paid: the account's state, the units it has spent, and those of its cap."""

    state: str
    period: str
    spent: Mapping[str, int]
    cap: CapBalance | dict[str, int] | None


def lacking_draws(uses: Sequence[Use], spent: Mapping[str, int], left: Sequence[Use], lines: Mapping[str, int]) -> str:
    """Return in words which uses exceed the registered draws that remain; an empty text if none does.

    `spent` and `lines` are counts per registered use, and `left` what is said to remain.
    """
    lacking = [format_use(use) for use in uses if use.count > lines[line_of(use)] - spent.get(line_of(use), 0)]
    remaining = ", ".join(format_use(use) for use in left) or "nothing"
    return f"it needs {', '.join(lacking)}, and {remaining} is left" if lacking else ""


_MOST_COUNTED = 2**20
"""Further charges that are counted one by one; an account that can pay for more is as good as new."""


def _asked_delta(request: str) -> float | None:
    """Return the delta of the budget that a request was asked with; None if the text does not tell."""
    try:
        delta = float(json.loads(request)["spending"]["delta"])
    except (ValueError, TypeError, KeyError):
        return None
    return delta if 0.0 < delta < 1.0 else None


def _without(uses: Sequence[Use], returned: Sequence[Use]) -> tuple[Use, ...]:
    """Return the uses of a charge that were not returned."""
    back = {use.guarantee: use.count for use in returned}
    kept = [(use.guarantee, use.count - back.get(use.guarantee, 0)) for use in uses]
    return tuple(Use(guarantee, count) for guarantee, count in kept if count > 0)


_ENDED = {
    Rule.WALLET: ("Gaussian noise", "ask with Gaussian noise or a smaller epsilon instead, or ask a steward"),
    Rule.SUM: ("paying by the sum of epsilons", "Gaussian noise and small epsilons are still paid"),
}
"""What ends when a rule of a cap ends, and what an analyst can do."""

_ATTEMPTS = 50
"""How many times a charge is tried.

The database may refuse a charge that the balances can pay for: a concurrent charge was in the way, or other accounts
hold slices of the cap that have to be collected first.
"""


class Account:
    """An open account: get one from `Ledger.account`.

    >>> from setwise.ledger.ledger import Ledger
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.open(f"{folder.name}/ledger.db")
    >>> _ = ledger.open_setwise("ada", ["bounded-range:0.1x10"], delta=1e-6)
    >>> account = ledger.account("ada")
    >>> receipt = account.charge(["bounded-range:0.1x3"], key="first", request="top 3")
    >>> account.settle(receipt, answer="tea", returned=["bounded-range:0.1"])
    'tea'
    >>> account.charge(["bounded-range:0.1x3"], key="first", request="top 3").answer
    'tea'
    >>> [format_use(use) for use in account.status().left]
    ['bounded-range:0.1x8']
    >>> ledger.close(); folder.cleanup()
    """

    def __init__(self, store: Store, clock: Clock, holder: int, terms: Terms, cap: Totals | SharedCap | None) -> None:
        self._store = store
        self._clock = clock
        self._holder = holder
        self._terms = terms
        self._cap = cap
        self._lines = terms.lines()

    @property
    def name(self) -> str:
        """The account's name."""
        return self._terms.name

    @property
    def terms(self) -> Terms:
        """The terms of the account, fixed at its opening."""
        return self._terms

    def check_dataset(self, known_as: str) -> None:
        """Raise `InvalidParameter` unless the account may pay for questions about a dataset known by that name."""
        with self._store.reading() as connection:
            check_pays(connection, account=self.name, dataset=self._terms.dataset, known_as=known_as)

    def charge(self, uses: Iterable[Use | Guarantee | str], *, key: str, request: str) -> Receipt:
        """Charge the uses, durably: when this returns, the charge is on disk.

        The same key with the same request charges nothing more; the receipt then has the stored answer, or None when
        the earlier run stopped before it stored one, and the request may be run again under that charge.

        Requires: `request` names the whole question, that is what is run on which data. The price of a use assumes that
        its question is fixed now, before later answers are seen (docs/optimal-composition.md, Theorem 7); a use that is
        charged first and chosen last can cost more. Only Gaussian uses cost the same either way, so that a series which
        is paid when it opens may answer later.

        Raise `KeyConflict` for another request under a used key, `InvalidParameter` for a use that is not registered,
        and `BudgetExhausted` when too little is left.
        """
        check_name(key, "key")
        check_text(request, "request")
        wanted = merged(as_uses(uses))
        for _ in range(_ATTEMPTS):
            now = self._clock.now()
            period = period_id(self._terms.period, now)
            contents = self._contents("charge", key, period, wanted, request)
            try:
                entry = self._append(contents, microseconds(now), wanted)
            except Refused:
                with self._store.reading() as connection:
                    if (charged := entry_under(connection, self._holder, self.name, "charge", key)) is not None:
                        return self._resume(connection, charged, contents)
                    if missing := self._missing(self._balances(connection, period), wanted):
                        raise BudgetExhausted(missing) from None
                if isinstance(self._cap, SharedCap):
                    self._cap.collect(self._holder, self.name, wanted, microseconds(now))
            else:
                return Receipt(account=self.name, key=key, entry=entry.position, period=period, uses=wanted)
        raise StoreFailed(f"the ledger {self._store.address} refused a charge to {self.name!r} that it can pay for")

    def _append(self, contents: Contents, at: int, wanted: tuple[Use, ...]) -> Entry:
        """Append a charge and return its entry.

        A price that depends on the balance is computed for one position in the chain. If another entry takes that
        position first, the charge is priced again.
        """
        cap = self._cap

        def draft(movements: Sequence[Movement], position: int | None = None) -> Draft:
            return Draft(holder=self._holder, at=at, contents=contents, movements=movements, position=position)

        def priced(connection: Connection) -> list[Draft]:
            found = pricing_state(connection, self._holder, contents.period)
            spent, position = found.spent, found.entries + 1
            if not isinstance(cap, SharedCap):
                return [
                    draft(charge_movements(self._holder, self._terms, cap, wanted, contents.period, spent), position)
                ]
            own = account_movements(self._holder, self._terms, wanted, contents.period, spent)
            if any(spent.get(move.what, 0) + move.amount > self._lines[move.what] for move in own):
                raise Refused
            taken, paid = self._pay_cap(
                connection, cap, wanted, slice_balances(spent), cap.totals.rule_of(found.given_up)
            )
            charged = own + slice_payment(self._holder, paid)
            if not taken:
                return [draft(charged, position)]
            return [cap.slice_entry(self._holder, self.name, taken, at, position), draft(charged)]

        if isinstance(cap, SharedCap):
            cap.totals.needs(wanted, Rule.BOTH)  # prices are computed once, and not while others wait
        elif self._terms.totals is None or not self._terms.totals.price_depends_on_balance:
            return self._store.append(
                draft(charge_movements(self._holder, self._terms, cap, wanted, contents.period, {}))
            )
        return self._store.append_priced(self._holder, priced)

    @staticmethod
    def _pay_cap(
        connection: Connection, cap: SharedCap, uses: tuple[Use, ...], held: dict[str, int], rule: Rule
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Return the units to take from the cap and the units that the slice then pays, both per line.

        The cap's row is locked only if the slice cannot pay for the uses, or would pay over 2% more than the whole cap.

        Raises `Refused` if the slice cannot pay even then.
        """
        paid = cap.totals.pay(uses, held, rule)
        if paid is not None and cap.totals.pays_well(uses, paid):
            return {}, paid
        taken = cap.refill(connection, uses, held, rule)
        paid = cap.totals.pay(uses, {what: units + taken.get(what, 0) for what, units in held.items()}, rule)
        if paid is None:
            raise Refused
        return taken, paid

    def settle(self, receipt: Receipt, *, answer: str, returned: Sequence[Use | Guarantee | str] = ()) -> str:
        """Store the answer of a charge, and give `returned` draws back to a set-wise account, in one transaction.

        The first answer stored under a charge stays. Return the one that is stored: only that may be shown. A filter
        account gets nothing back.
        """
        check_text(answer, "answer")
        if receipt.account != self.name:
            raise InvalidParameter(f"the receipt is of the account {receipt.account!r}, not of {self.name!r}")
        back = merged(as_uses(returned)) if returned else ()
        charged = {use.guarantee: use.count for use in receipt.uses}
        for use in back:
            if use.count > charged.get(use.guarantee, 0):
                raise InvalidParameter(f"{format_use(use)} cannot be returned, because the charge drew less")
        registered = {use.guarantee for use in self._terms.uses}
        back = tuple(use for use in back if use.guarantee in registered)
        draft = Draft(
            holder=self._holder,
            at=microseconds(self._clock.now()),
            contents=self._contents("settle", receipt.key, receipt.period, back, answer),
            movements=refund_movements(self._holder, back, receipt.period),
        )
        try:
            self._store.append(draft)
        except Refused:
            with self._store.reading() as connection:
                settled = entry_under(connection, self._holder, self.name, "settle", receipt.key)
            if settled is None:
                raise InvalidParameter(f"{self.name!r} has no such charge under the key {receipt.key!r}") from None
            return settled.contents.text
        return answer

    def release(self, receipt: Receipt, *, part: str, answer: str) -> str:
        """Store one more answer that an earlier charge has paid for; return the answer that is stored.

        This is for a question that is paid once and answered in parts, such as running totals whose whole series was
        charged at the opening. A release charges nothing. Its key is the key of the charge with `part`, the name of the
        part. The first answer under a part stays, so repeating a release changes nothing; show only what is returned.

        Raises `BudgetExhausted` if the account is frozen or closed and the part was not released before.
        """
        check_text(answer, "answer")
        if receipt.account != self.name:
            raise InvalidParameter(f"the receipt is of the account {receipt.account!r}, not of {self.name!r}")
        key = release_key(receipt.key, check_name(part, "part"))
        draft = Draft(
            holder=self._holder,
            at=microseconds(self._clock.now()),
            contents=self._contents("release", key, receipt.period, (), answer),
            movements=(),
        )
        try:
            self._store.append(draft)
        except Refused:
            with self._store.reading() as connection:
                released = entry_under(connection, self._holder, self.name, "release", key)
                state = account_counters(connection, self._holder).state
            if released is not None:
                return released.contents.text
            if state != "open":
                raise BudgetExhausted(
                    f"the account {self.name!r} is {state} and releases nothing; ask a steward"
                ) from None
            raise InvalidParameter(f"{self.name!r} has no such charge under the key {receipt.key!r}") from None
        return answer

    def released(self, receipt: Receipt, *, part: str) -> str | None:
        """Return the answer that was released for a part of a charge, or None if there is none yet."""
        with self._store.reading() as connection:
            key = release_key(receipt.key, check_name(part, "part"))
            entry = entry_under(connection, self._holder, self.name, "release", key)
        return None if entry is None else entry.contents.text

    def give_back(self) -> bool:
        """Return the account's slice to the cap; return whether it held any units.

        The next charge takes a new slice. A cap that runs short collects slices by itself.
        """
        if not isinstance(self._cap, SharedCap):
            return False
        return self._cap.give_back(self._holder, self.name, microseconds(self._clock.now()))

    def entries(self) -> int:
        """Return how many entries the account has, of all kinds."""
        with self._store.reading() as connection:
            return account_counters(connection, self._holder).entries

    def status(self) -> AccountStatus:
        """Return the account's status in its present period."""
        with self._store.reading() as connection:
            last = account_counters(connection, self._holder)
            period = period_id(self._terms.period, self._clock.now())
            spent = spent_of(connection, self._holder, period)
        return status_of(self._terms, period, spent, last.charges, last.state)

    def status_by_entries(self) -> AccountStatus:
        """Return the status with the least odometer that the account's entries prove, and how many charges still fit.

        Entries list the uses of every charge, of which the balances of a filter keep only sums. The time it takes grows
        with the number of entries, which that of `status` does not.
        """
        status = self.status()
        charges: dict[str, tuple[tuple[Use, ...], float | None]] = {}
        kept: dict[str, tuple[Use, ...]] = {}
        with self._store.reading() as connection:
            for entry in entries_of(connection, self._holder, self.name):
                contents = entry.contents
                if contents.period != status.period:
                    continue
                if contents.kind == "charge":
                    charges[contents.key] = entry.uses, _asked_delta(contents.text)
                    kept[contents.key] = entry.uses
                elif contents.kind == "settle" and entry.uses:
                    kept[contents.key] = _without(kept[contents.key], entry.uses)
        known = merged(use for uses in kept.values() for use in uses)
        last = next(reversed(charges.values()), ((), None))[0]
        status = replace(
            status,
            charge_uses=tuple(charges.values()),
            more_like_last=self.count_more(last) if last else None,
        )
        if status.drawn is not None:
            return status
        largest = largest_loss((use.guarantee, use.count) for use in known)
        return replace(status, drawn=known, worth=filter_parameters(known), largest=largest)

    def count_more(self, uses: Sequence[Use]) -> int:
        """Return how many more charges of these uses the account, and its cap, could pay one after another.

        Counted as one charge of many such uses, so never more than fit. At most 2^20.
        """
        period = self.status().period
        with self._store.reading() as connection:
            balances = self._balances(connection, period)

        def fits(count: int) -> bool:
            many = merged(Use(use.guarantee, use.count * count) for use in uses)
            return self._missing(balances, many) is None

        if not fits(1):
            return 0
        low = 1
        while low < _MOST_COUNTED and fits(2 * low):
            low *= 2
        high = 2 * low
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if fits(middle) else (low, middle)
        return min(low, _MOST_COUNTED)

    def shortage(self, uses: Iterable[Use | Guarantee | str]) -> str | None:
        """Return in words what is missing to pay for the uses now, or None if they fit. Charges nothing."""
        wanted = merged(as_uses(uses))
        period = self.status().period
        account_movements(self._holder, self._terms, wanted, period, {})  # raises for a use that is not registered
        with self._store.reading() as connection:
            return self._missing(self._balances(connection, period), wanted)

    def warning(self, uses: Iterable[Use | Guarantee | str]) -> str | None:
        """Return in words what the uses would end for all accounts under the dataset's cap, or None.

        A cap that keeps either rule is paid by both until a use fits one of them only, which ends the other.
        """
        if not isinstance(self._cap, SharedCap):
            return None
        with self._store.reading() as connection:
            left = self._cap.balance(connection)
        ended = self._cap.totals.rule_ended_by(merged(as_uses(uses)), left.total(), left.rule)
        if ended is None:
            return None
        lost, remedy = _ENDED[ended]
        return (
            f"this ends {lost} for all accounts under the cap of the dataset {self._terms.dataset!r}, because the cap "
            f"can pay for it in one way only; {remedy}"
        )

    def __repr__(self) -> str:
        dataset = f" on {self._terms.dataset!r}" if self._terms.dataset else ""
        promise = f"epsilon {rounded_up(self._terms.epsilon.upper)} at delta {self._terms.delta:g}"
        every = f" per {self._terms.period}" if self._terms.period else ""
        return f"<setwise {self._terms.kind} account {self.name!r}{dataset}, {promise}{every}>"

    def odometer_after(self, uses: Sequence[Use]) -> float:
        """Return an upper bound of the odometer's reading after just these uses, which takes no composition.

        For a filter it may be below the odometer of `status`, which knows only sums.
        """
        found = merged(uses)
        largest = largest_loss((use.guarantee, use.count) for use in found)
        return stopping_bound(self._terms, filter_parameters(found), largest, None).upper if found else 0.0

    def _contents(self, kind: EntryKind, key: str, period: str, uses: Sequence[Use], text: str) -> Contents:
        return Contents(account=self.name, kind=kind, key=key, period=period, uses=write_uses(uses), text=text)

    def _resume(self, connection: Connection, charged: Entry, contents: Contents) -> Receipt:
        """Return the receipt of an earlier charge under the same key."""
        if (charged.contents.text, charged.contents.uses) != (contents.text, contents.uses):
            raise KeyConflict(
                f"the key {contents.key!r} of the account {self.name!r} was used before for a different request; "
                "take a new key"
            )
        settled = entry_under(connection, self._holder, self.name, "settle", contents.key)
        return Receipt(
            account=self.name,
            key=contents.key,
            entry=charged.position,
            period=charged.contents.period,
            uses=charged.uses,
            answer=None if settled is None else settled.contents.text,
        )

    def _balances(self, connection: Connection, period: str) -> _Balances:
        """Return what a refusal depends on, read in one consistent view."""
        cap: CapBalance | dict[str, int] | None = None
        if isinstance(self._cap, SharedCap):
            cap = self._cap.balance(connection)
        elif self._cap is not None and self._terms.cap is not None:
            cap = spent_of(connection, self._terms.cap, WHOLE_LIFE)
        state = account_counters(connection, self._holder).state
        return _Balances(state=state, period=period, spent=spent_of(connection, self._holder, period), cap=cap)

    def _missing(self, balances: _Balances, uses: tuple[Use, ...]) -> str | None:
        """Return in words why the account or its cap cannot pay for the uses; None if both can."""
        if balances.state != "open":
            return f"the account {self.name!r} is {balances.state} and pays for nothing; ask a steward"
        terms, spent, period = self._terms, balances.spent, balances.period
        draws, others = terms.split(uses)
        own = lacking_draws(draws, spent, status_of(terms, period, spent).left, self._lines)
        if not own and others and terms.totals is not None:
            own = terms.account_totals.shortage(others, spent) or ""
        if own:
            promise = f" (epsilon {terms.epsilon.upper:g} at delta {terms.delta:g})" if terms.totals is not None else ""
            until = f" until {terms.period} {period} ends" if period else ""
            return f"the account {self.name!r}{promise} cannot pay for this{until}: {own}"
        shared = None
        if isinstance(self._cap, SharedCap) and isinstance(balances.cap, CapBalance):
            shared = self._cap.totals.shortage(uses, balances.cap.total(), balances.cap.rule)
        elif isinstance(self._cap, Totals) and isinstance(balances.cap, dict):
            shared = self._cap.shortage(uses, balances.cap)
        if shared is None:
            return None
        return f"the cap of the dataset {terms.dataset!r}, which all its accounts share, cannot pay: {shared}"
