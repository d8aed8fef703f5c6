"""An open account: charge it before data is read, settle the charge with the answer, or learn why it cannot pay.

A dataset may have a cap, a joint budget of its accounts, which a charge is also paid from; `_pay_cap` computes how
much. The SQL that writes a charge is in `append_in` of stores/sqlite.py and stores/postgresql.py.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from setwise.accounting.guarantees import Guarantee, Use, largest_loss, merged
from setwise.accounting.notation import as_uses, format_use
from setwise.accounting.promises import epsilon_at_delta
from setwise.accounting.zcdp_filter import filter_parameters
from setwise.errors import BudgetExhausted, InvalidParameter, KeyConflict, StoreFailed
from setwise.ledger.amounts import Totals
from setwise.ledger.cap import CapBalance, SharedCap
from setwise.ledger.menus import MenuTotals
from setwise.ledger.odometer import delta_of_request, stopping_bound
from setwise.ledger.records import (
    Clock,
    Contents,
    Entry,
    EntryKind,
    check_name,
    check_text,
    microseconds,
    read_uses,
    release_key,
    write_uses,
)
from setwise.ledger.refunds import check_refund, lacking_draws, subtract_returned
from setwise.ledger.register import check_pays
from setwise.ledger.reservations import reserved_uses
from setwise.ledger.slices import Rule
from setwise.ledger.status import AccountStatus, status_of
from setwise.ledger.stores.base import Draft, Movement, Refused, Store
from setwise.ledger.stores.read_queries import (
    account_counters,
    entries_of,
    entry_under,
    pricing_state,
    settlement_state,
    spent_of,
)
from setwise.ledger.terms import (
    WHOLE_LIFE,
    Terms,
    account_movements,
    charge_movements,
    period_id,
    refund_movements,
    slice_balances,
    slice_payment,
    uses_priced_by_balance,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Proof that a charge is on disk.

    - `account` is the account's name, and `key` the idempotency key of the charge.
    - `entry` is the number of the charge in the account's chain of hashed entries.
    - `period` is the budget period that paid, or "" for an account without periods.
    - `uses` lists the privacy guarantees that were charged, and how often each.
    - `answer` is the stored answer, or None if none is stored yet.
    """

    account: str
    key: str
    entry: int
    period: str
    uses: tuple[Use, ...]
    answer: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Balances:
    """The balances that decide whether an account can pay for a charge, all read in one transaction.

    - `state` is "open", "frozen" or "closed".
    - `spent` maps each balance of the account to the units spent from it in the budget period `period`. A full balance
      such as "wallet" has 2^60 units. The balance of a guarantee that was registered at the account's opening, such as
      "pure:0.1", counts how often it was used.
    - `cap` is about the cap, the joint budget of the dataset's accounts. It is a `CapBalance`, which says what remains,
      if accounts reserve parts of the cap. It is a dict from each balance of the cap to the units spent from it if the
      cap adds up zCDP parameters. It is None if the dataset has no cap.
    """

    state: str
    period: str
    spent: Mapping[str, int]
    cap: CapBalance | dict[str, int] | None


_MOST_COUNTED = 2**20
"""`Account.count_more` stops counting at 2^20 further charges; a larger number would tell nobody anything."""


_RULE_ENDS = {
    Rule.WALLET: ("Gaussian noise", "ask with Gaussian noise or a smaller epsilon instead, or ask a steward"),
    Rule.SUM: ("paying by the sum of epsilons", "Gaussian noise and small epsilons are still paid"),
}
"""Per balance of a cap: what analysts can no longer do once the cap has dropped it, and what they can do instead."""

_ATTEMPTS = 50
"""How many times a charge is tried before `StoreFailed` is raised.

The database may refuse a charge that the balances can pay for: a concurrent charge was in the way, or other accounts
hold slices of the cap that have to be collected first.
"""


class Account:
    """An account of the ledger (open, frozen or closed), which pays for questions. Get one from `Ledger.account`.

    In the example, the account may pay for ten mechanisms that are 0.1-bounded-range, written "bounded-range:0.1x10". A
    question is charged for three of them and needs two. `settle` stores the answer and gives the third mechanism back,
    so eight of the ten remain. A second charge under the same key costs nothing; its receipt has the stored answer.

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
        self._account_id = holder
        self._terms = terms
        self._cap = cap
        self._balance_sizes = terms.lines()

    @property
    def name(self) -> str:
        """The account's name, unique in its ledger."""
        return self._terms.name

    @property
    def terms(self) -> Terms:
        """The terms of the account (its budget and promise), which were fixed when it was opened and never change."""
        return self._terms

    @property
    def unit(self) -> str:
        """The unit of privacy that the account protects: "user", or a part of a user such as "user,day"."""
        return self._terms.unit

    def check_dataset(self, known_as: str) -> None:
        """Raise `InvalidParameter` unless this account may pay for questions about the dataset named `known_as`.

        An account that was opened for a dataset pays for the data of this dataset only, under any name of these data.
        An account that was opened for no dataset pays only for data on which the ledger has neither accounts nor a cap
        (joint budget). Otherwise the joint promise of those accounts would not include the charges of this account.
        """
        with self._store.reading() as connection:
            check_pays(connection, account=self.name, dataset=self._terms.dataset, known_as=known_as)

    def charge(self, uses: Iterable[Use | Guarantee | str], *, key: str, request: str) -> Receipt:
        """Charge the account for `uses`, durably, and return the receipt.

        `uses` lists privacy guarantees and how often each is used. `key` is the idempotency key: a second call with the
        same arguments charges nothing more. Its receipt has the stored answer, or None if there is none; the question
        may then be run again.

        Requires: `request` is a text that identifies the whole question: what is run, and on which data. The question
        is chosen before the charge; pay with `reserve` for a question that is chosen later. The reason: the price is
        computed from what the account has left now, and could be too low after further charges and answers
        (docs/optimal-composition.md, Theorem 7).

        Raises `KeyConflict` for another request or other uses under a used key, `InvalidParameter` for a kind of use
        that the account never pays for, `BudgetExhausted` if the account or its cap (the joint budget of a dataset's
        accounts) cannot pay, and `StoreFailed` if the database refuses the charge 50 times although both can pay.
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
                    if (charged := entry_under(connection, self._account_id, self.name, "charge", key)) is not None:
                        return self._replay(connection, charged, contents)
                    if missing := self._explain_shortage(self._balances(connection, period), wanted):
                        raise BudgetExhausted(missing) from None
                if isinstance(self._cap, SharedCap):
                    self._cap.collect(self._account_id, self.name, wanted, microseconds(now))
            else:
                return Receipt(account=self.name, key=key, entry=entry.position, period=period, uses=wanted)
        raise StoreFailed(f"the ledger {self._store.address} refused a charge to {self.name!r} {_ATTEMPTS} times")

    def reserve(self, uses: Iterable[Use | Guarantee | str], *, key: str, request: str) -> Receipt:
        """Charge for `uses` whose questions are chosen only after later answers are seen; return the receipt.

        `uses` lists privacy guarantees and how often each is used. `key` is the idempotency key, and `request` the text
        of the question. In a Gaussian wallet (a budget in mu squared), a use costs more if less remains after it. The
        question may be asked when nothing remains, so the use is charged the highest price: that of a use that empties
        the wallet. Gaussian uses, registered uses, and uses of a zCDP account cost the same as by `charge`.
        Theorem: docs/optimal-composition.md, Theorem 7, "Reservations".
        Raises the errors that `charge` raises. Raises `InvalidParameter` also for a use that a wallet cannot pay at any
        price, such as a zCDP use, and for an account with a menu (a fixed list of uses).
        """
        wanted = merged(as_uses(uses))
        early = self._priced_by_balance(wanted)
        if early and isinstance(self._terms.totals, MenuTotals):
            raise InvalidParameter(
                f"{format_use(early[0])} cannot be reserved from the menu of {self.name!r}: charge it with its question"
            )
        # In a Gaussian wallet, a use costs more the less remains after it. So each early use is charged as a Gaussian
        # use, at the price of a use that empties the wallet, and its failure probability as another use.
        others = [use for use in wanted if use not in early]
        return self.charge([*others, *reserved_uses(early)], key=key, request=request)

    def _priced_by_balance(self, uses: Sequence[Use]) -> list[Use]:
        """Return those of the `uses` whose price at `charge` is right only for a question chosen before the charge.

        `uses` lists guarantees and how often each is used. The result is empty unless the account pays from a Gaussian
        wallet (a budget in mu squared), from a menu (a fixed list of guarantees with costs), or from a slice (its
        reserved part of the dataset's joint budget). If the question of a returned use is chosen later, after other
        answers were seen, the caller refuses the use, or charges it at a higher price (`reserve`).
        """
        return uses_priced_by_balance(uses, self._terms, has_slice=isinstance(self._cap, SharedCap))

    def _append(self, contents: Contents, at: int, wanted: tuple[Use, ...]) -> Entry:
        """Append a charge for `wanted` to the account at the time `at` (microseconds since 1970); return its entry.

        `wanted` lists privacy guarantees and how often each is used. `contents` is the entry without its balance
        changes, which are computed here. Raises `Refused` if the database refuses the charge.
        """
        cap = self._cap

        def draft(movements: Sequence[Movement], position: int | None = None) -> Draft:
            return Draft(holder=self._account_id, at=at, contents=contents, movements=movements, position=position)

        def price_charge(connection: Connection) -> list[Draft]:
            state = pricing_state(connection, self._account_id, contents.period)
            spent, position = state.spent, state.entries + 1
            if not isinstance(cap, SharedCap):
                moves = charge_movements(self._account_id, self._terms, cap, wanted, contents.period, spent)
                return [draft(moves, position)]
            account_side = account_movements(self._account_id, self._terms, wanted, contents.period, spent)
            if any(
                spent.get(move.balance_name, 0) + move.amount > self._balance_sizes[move.balance_name]
                for move in account_side
            ):
                raise Refused
            refill, slice_price = self._pay_cap(
                connection, cap, wanted, slice_balances(spent), cap.totals.rule_of(state.given_up)
            )
            charged = account_side + slice_payment(self._account_id, slice_price)
            if not refill:
                return [draft(charged, position)]
            return [cap.slice_entry(self._account_id, self.name, refill, at, position), draft(charged)]

        if isinstance(cap, SharedCap):
            # Fill the price cache now, so that prices are not computed while this transaction holds locks.
            cap.totals.needs(wanted, Rule.BOTH)
        elif self._terms.totals is None or not self._terms.totals.price_depends_on_balance:
            return self._store.append(
                draft(charge_movements(self._account_id, self._terms, cap, wanted, contents.period, {}))
            )
        # Prices that depend on the balance are valid only if no other entry is appended to the account meanwhile. If
        # one is, `append_priced` prices the charge again.
        return self._store.append_priced(self._account_id, price_charge)

    @staticmethod
    def _pay_cap(
        connection: Connection, cap: SharedCap, uses: tuple[Use, ...], slice_units: dict[str, int], rule: Rule
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Return (refill, price): the units that an account's slice first gets from the cap, and then pays for `uses`.

        The cap is the joint budget of a dataset's accounts, and a slice the part of it reserved for one account.
        `refill`, `price` and `slice_units` map balances of the cap to units, as in `{"wallet": 5}`; a full balance has
        2^60 units.

        - `refill` is empty if the slice can pay by itself at nearly the lowest price. In the wallet, `uses` cost more
          from a small slice than from the whole cap; up to 2% more is accepted.
        - `slice_units` has the units that are in the slice now.
        - `rule` says which balances pay: the Gaussian wallet (a sum of mu squared), the sum of epsilons, or both.

        Raises `Refused` if even the refilled slice cannot pay.
        """
        slice_price = cap.totals.pay(uses, slice_units, rule)
        # A use costs more from a smaller slice. A refill locks the cap's row, so the slice is refilled only if it
        # cannot pay, or if it pays over 2% more than the whole cap would.
        if slice_price is not None and cap.totals.pays_well(uses, slice_price):
            return {}, slice_price
        refill = cap.refill_amounts(connection, uses, slice_units, rule)
        refilled = {name: units + refill.get(name, 0) for name, units in slice_units.items()}
        slice_price = cap.totals.pay(uses, refilled, rule)
        if slice_price is None:
            raise Refused
        return refill, slice_price

    def settle(self, receipt: Receipt, *, answer: str, returned: Sequence[Use | Guarantee | str] = ()) -> str:
        """Store the answer of a charge and refund what was not needed, in one transaction; return the stored answer.

        - `receipt` is the receipt of the charge.
        - `answer` is the answer as text. If the charge has a stored answer already, that answer is kept and returned.
          Show people only the returned text, because the charge pays for one answer.
        - `returned` lists those of the charged guarantees that were not needed, and how often each. Only guarantees
          that were registered at the account's opening are refunded; all others are ignored.

        Raises `InvalidParameter` if the receipt is of another account, if the account has no such charge, if `returned`
        has more than was charged, or if there is something to refund although `release` has stored a part of the answer
        before.
        """
        check_text(answer, "answer")
        if receipt.account != self.name:
            raise InvalidParameter(f"the receipt is of the account {receipt.account!r}, not of {self.name!r}")
        refund = merged(as_uses(returned)) if returned else ()
        check_refund(refund, receipt.uses)
        registered = {use.guarantee for use in self._terms.uses}
        refund = tuple(use for use in refund if use.guarantee in registered)
        draft = Draft(
            holder=self._account_id,
            at=microseconds(self._clock.now()),
            contents=self._contents("settle", receipt.key, receipt.period, refund, answer),
            movements=refund_movements(self._account_id, refund, receipt.period),
        )

        def check_settlement(connection: Connection) -> list[Draft]:
            """Check that the answer may be stored for its charge; return a list with the entry to append.

            The entry has the answer and the refund. The charge is that of `receipt`, an argument of the function around
            this one.

            Raises: `Refused` if the account has no such charge, or if the charge has an answer already.
            `InvalidParameter` if the refund exceeds the charge, or if a part of the answer was released before, which
            forbids a refund.
            """
            state = settlement_state(connection, self._account_id, receipt.key)
            if state.charged is None or state.is_settled:
                raise Refused
            check_refund(refund, read_uses(state.charged))
            if state.has_releases:
                raise InvalidParameter(
                    f"the charge under the key {receipt.key!r} returns nothing, because parts of it were released"
                )
            return [replace(draft, position=state.entries + 1)]

        try:
            if refund:
                self._store.append_priced(self._account_id, check_settlement)
            else:
                self._store.append(draft)
        except Refused:
            with self._store.reading() as connection:
                settled = entry_under(connection, self._account_id, self.name, "settle", receipt.key)
            if settled is None:
                raise InvalidParameter(f"{self.name!r} has no such charge under the key {receipt.key!r}") from None
            return settled.contents.text
        return answer

    def release(self, receipt: Receipt, *, part: str, answer: str) -> str:
        """Store the answer to one part, named `part`, of a question that was paid as a whole; return the stored answer.

        `receipt` is the receipt of the question's charge. Nothing is charged here. A series of running totals, for
        example, is paid once and answered in parts. If the part has an answer already, that answer is returned: show
        people only the returned text.

        A part may be answered long after the charge. By then less may be left in the account, and some uses would cost
        more. So the charge must have a price that is right for later answers, too: either the charge was made by
        `reserve`, or all its uses have such a price at any time, as Gaussian noise has.

        Raises `BudgetExhausted` for a new part if the account is not open. Raises `InvalidParameter` if the account
        lacks the charge, if a part of the charge was refunded, or if its price was right only at the time of the
        charge.
        """
        check_text(answer, "answer")
        if receipt.account != self.name:
            raise InvalidParameter(f"the receipt is of the account {receipt.account!r}, not of {self.name!r}")
        key = release_key(receipt.key, check_name(part, "part"))
        draft = Draft(
            holder=self._account_id,
            at=microseconds(self._clock.now()),
            contents=self._contents("release", key, receipt.period, (), answer),
            movements=(),
        )

        def check_release(connection: Connection) -> list[Draft]:
            """Check that one part of a charged question may be answered; return, as a list, the entry with its answer.

            A question such as a live series is charged once, by the charge in `receipt`, and answered in parts. The
            caller appends the entry in the same transaction. The entry states its position in the account's chain, so
            that no other entry can come between the check and the append.

            Raises `Refused` if the charge is missing, or if the part has an answer already. Raises `InvalidParameter`
            if some uses of the charge were refunded, or if its price was right only for a question that is answered at
            once.
            """
            position = account_counters(connection, self._account_id).entries + 1
            charge = entry_under(connection, self._account_id, self.name, "charge", receipt.key)
            if charge is None or entry_under(connection, self._account_id, self.name, "release", key):
                raise Refused
            if early := self._priced_by_balance(charge.uses):
                raise InvalidParameter(
                    f"{format_use(early[0])} was charged at a price for one question that is answered at once; "
                    "pay with reserve for what is answered in parts"
                )
            settled = entry_under(connection, self._account_id, self.name, "settle", receipt.key)
            if settled is not None and settled.uses:
                raise InvalidParameter(
                    f"the charge under the key {receipt.key!r} has returned uses, so it pays for no further part"
                )
            return [replace(draft, position=position)]

        try:
            self._store.append_priced(self._account_id, check_release)
        except Refused:
            with self._store.reading() as connection:
                released = entry_under(connection, self._account_id, self.name, "release", key)
                state = account_counters(connection, self._account_id).state
            if released is not None:
                return released.contents.text
            if state != "open":
                raise BudgetExhausted(
                    f"the account {self.name!r} is {state} and releases nothing; ask a steward"
                ) from None
            raise InvalidParameter(f"{self.name!r} has no such charge under the key {receipt.key!r}") from None
        return answer

    def charged_request(self, key: str) -> str | None:
        """Return the request text that was charged under the idempotency key `key`, or None if the key was not used."""
        with self._store.reading() as connection:
            entry = entry_under(connection, self._account_id, self.name, "charge", key)
        return None if entry is None else entry.contents.text

    def released(self, receipt: Receipt, *, part: str) -> str | None:
        """Return the answer to one part of a charged question, which `release` stored earlier; None if there is none.

        `receipt` is the receipt of the question's charge, and `part` the name of the part.
        """
        with self._store.reading() as connection:
            key = release_key(receipt.key, check_name(part, "part"))
            entry = entry_under(connection, self._account_id, self.name, "release", key)
        return None if entry is None else entry.contents.text

    def give_back(self) -> bool:
        """Move the account's slice (its reserved part of the dataset's joint budget) back to the joint budget.

        The result is True if units were moved. The next charge reserves a new slice. Calling this is never necessary,
        because a joint budget that runs short collects slices by itself.
        """
        if not isinstance(self._cap, SharedCap):
            return False
        return self._cap.give_back(self._account_id, self.name, microseconds(self._clock.now()))

    def entries(self) -> int:
        """Return the number of the account's ledger entries of all kinds, such as charges and stored answers."""
        with self._store.reading() as connection:
            return account_counters(connection, self._account_id).entries

    def status(self) -> AccountStatus:
        """Return the account's promise, remaining budget, spent amounts and state in its present period.

        Reads stored balances only, so the time that it takes does not grow with the number of charges.
        """
        with self._store.reading() as connection:
            last = account_counters(connection, self._account_id)
            period = period_id(self._terms.period, self._clock.now())
            spent = spent_of(connection, self._account_id, period)
        return status_of(self._terms, period, spent, last.charges, last.state)

    def status_by_entries(self) -> AccountStatus:
        """Return the account's status, computed from all its entries, which takes time proportional to their number.

        The result says more than the result of `status`. Its odometer (the bound on the epsilon spent so far) can be
        smaller, because the guarantees of every charge are known. And it has two fields that `status` leaves at None:
        `charge_uses` (the guarantees of each charge), and `more_like_last` (how many more charges like the last one the
        account can pay; None if nothing was charged).
        """
        status = self.status()
        charges: dict[str, tuple[tuple[Use, ...], float | None]] = {}
        uses_kept: dict[str, tuple[Use, ...]] = {}
        with self._store.reading() as connection:
            for entry in entries_of(connection, self._account_id, self.name):
                contents = entry.contents
                if contents.period != status.period:
                    continue
                if contents.kind == "charge":
                    charges[contents.key] = entry.uses, delta_of_request(contents.text)
                    uses_kept[contents.key] = entry.uses
                elif contents.kind == "settle" and entry.uses:
                    uses_kept[contents.key] = subtract_returned(uses_kept[contents.key], entry.uses)
        known = merged(use for uses in uses_kept.values() for use in uses)
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
        """Return how many more charges of `uses` the account and its cap (joint budget) can surely pay, at most 2^20.

        `uses` lists the guarantees of one charge, and how often each is used. Several charges are priced as one large
        charge, which never costs less than they do one by one. So the account may be able to pay for more charges than
        the result says.
        """
        period = self.status().period
        with self._store.reading() as connection:
            balances = self._balances(connection, period)

        def fits(count: int) -> bool:
            # One large charge is never cheaper than the single charges that it replaces.
            many = merged(Use(use.guarantee, use.count * count) for use in uses)
            return self._explain_shortage(balances, many) is None

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
        """Return a sentence about what is missing to pay for `uses` now, or None if the account and its cap can pay.

        `uses` lists privacy guarantees and how often each is used; a cap is the joint budget of a dataset's accounts.
        If the account pays for registered uses only, raises `InvalidParameter` for any other use.
        """
        wanted = merged(as_uses(uses))
        period = self.status().period
        account_movements(self._account_id, self._terms, wanted, period, {})  # raises for a use that is not registered
        with self._store.reading() as connection:
            return self._explain_shortage(self._balances(connection, period), wanted)

    def warning(self, uses: Iterable[Use | Guarantee | str]) -> str | None:
        """Return a warning if, after a charge of `uses`, the dataset's joint budget can be spent in one way only.

        All accounts on a dataset share its joint budget. It can be spent in two ways: as a Gaussian budget (mu squared)
        and as a sum of epsilons. A charge that fits only one of the two ways ends the other way for good, for all these
        accounts. The result is None if the charge ends neither way, if the joint budget cannot pay for the charge at
        all, or if the dataset has no joint budget of this kind.
        """
        if not isinstance(self._cap, SharedCap):
            return None
        with self._store.reading() as connection:
            balance = self._cap.balance(connection)
        ended = self._cap.totals.rule_ended_by(merged(as_uses(uses)), balance.total(), balance.rule)
        if ended is None:
            return None
        lost, remedy = _RULE_ENDS[ended]
        return (
            f"this ends {lost} for all accounts under the cap of the dataset {self._terms.dataset!r}, because the cap "
            f"can pay for it in one way only; {remedy}"
        )

    def __repr__(self) -> str:
        dataset = f" on {self._terms.dataset!r}" if self._terms.dataset else ""
        promise = epsilon_at_delta(self._terms.epsilon.upper, self._terms.delta)
        every = f" per {self._terms.period}" if self._terms.period else ""
        return f"<setwise {self._terms.kind} account {self.name!r}{dataset}, {promise}{every}>"

    def odometer_after(self, uses: Sequence[Use]) -> float:
        """Return an upper bound on the epsilon of an account that has paid for `uses` and nothing else; 0 without uses.

        `uses` lists privacy guarantees and how often each is used. The bound holds at the account's delta. To draw how
        the bound grew, the account's page calls this with the uses of the first charge, of the first two charges, and
        so on. The bound in `status` may be larger, because the ledger rounds up what is spent.
        """
        merged_uses = merged(uses)
        largest = largest_loss((use.guarantee, use.count) for use in merged_uses)
        return stopping_bound(self._terms, filter_parameters(merged_uses), largest, None).upper if merged_uses else 0.0

    def _contents(self, kind: EntryKind, key: str, period: str, uses: Sequence[Use], text: str) -> Contents:
        """Return the contents of a new entry of this account; the store assigns its position later.

        - `kind` is the kind of the entry, such as "charge", and `key` the key that is unique among entries of this
          kind.
        - `uses` lists the guarantees that the entry pays for or gives back in the budget period `period`, and how often
          each.
        - `text` is the request of a charge, or the answer that the entry stores.
        """
        return Contents(account=self.name, kind=kind, key=key, period=period, uses=write_uses(uses), text=text)

    def _replay(self, connection: Connection, charged: Entry, contents: Contents) -> Receipt:
        """Return the receipt of `charged`, an earlier charge under the same key, with its answer if there is one.

        Raises `KeyConflict` if the request or the uses of the earlier charge differ from those in `contents`.
        """
        if (charged.contents.text, charged.contents.uses) != (contents.text, contents.uses):
            raise KeyConflict.used_before(contents.key, self.name)
        settled = entry_under(connection, self._account_id, self.name, "settle", contents.key)
        return Receipt(
            account=self.name,
            key=contents.key,
            entry=charged.position,
            period=charged.contents.period,
            uses=charged.uses,
            answer=None if settled is None else settled.contents.text,
        )

    def _balances(self, connection: Connection, period: str) -> _Balances:
        """Return what the account has spent in the budget period `period`, its state, and what remains of its cap.

        The cap is the joint budget of the dataset's accounts. All is read through `connection`.
        """
        cap: CapBalance | dict[str, int] | None = None
        if isinstance(self._cap, SharedCap):
            cap = self._cap.balance(connection)
        elif self._cap is not None and self._terms.cap is not None:
            cap = spent_of(connection, self._terms.cap, WHOLE_LIFE)
        state = account_counters(connection, self._account_id).state
        return _Balances(state=state, period=period, spent=spent_of(connection, self._account_id, period), cap=cap)

    def _explain_shortage(self, balances: _Balances, uses: tuple[Use, ...]) -> str | None:
        """Return text that gives all reasons why the account or its cap cannot pay for `uses`; None if both can.

        `uses` lists privacy guarantees and how often each is used. The cap is the joint budget of the dataset's
        accounts. `balances` has the units that the account and the cap have spent, and whether the account is open.
        """
        if balances.state != "open":
            return f"the account {self.name!r} is {balances.state} and pays for nothing; ask a steward"
        terms, spent, period = self._terms, balances.spent, balances.period
        draws, others = terms.split(uses)
        reasons = [lacking_draws(draws, spent, status_of(terms, period, spent).left, self._balance_sizes)]
        if others and terms.totals is not None:
            reasons.append(terms.account_totals.shortage(others, spent) or "")
        lacking = []
        if any(reasons):
            promise = f" ({epsilon_at_delta(terms.epsilon.upper, terms.delta)})" if terms.totals is not None else ""
            until = f" until {terms.period} {period} ends" if period else ""
            reason = "; ".join(filter(None, reasons))
            lacking.append(f"the account {self.name!r}{promise} cannot pay for this{until}: {reason}")
        shared = None
        if isinstance(self._cap, SharedCap) and isinstance(balances.cap, CapBalance):
            shared = self._cap.totals.shortage(uses, balances.cap.total(), balances.cap.rule)
        elif isinstance(self._cap, Totals) and isinstance(balances.cap, dict):
            shared = self._cap.shortage(uses, balances.cap)
        if shared is not None:
            lacking.append(
                f"the cap of the dataset {terms.dataset!r}, which all its accounts share, cannot pay: {shared}"
            )
        return "; ".join(lacking) or None
