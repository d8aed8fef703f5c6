"""The ledger: open accounts, find them, report their status, verify, export and restore."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Self, TextIO

from sqlalchemy import Connection, Select, Table, func, select

from setwise.accounting.brackets import up
from setwise.accounting.filters import Spent
from setwise.accounting.guarantees import Guarantee, Use
from setwise.errors import AccountExists, InvalidParameter, UnknownAccount
from setwise.ledger.account import Account
from setwise.ledger.amounts import Totals, zcdp_totals
from setwise.ledger.audit.export import Restoration, export
from setwise.ledger.audit.heads import CLOCK_SLACK, HeadFile, KeptHead, adopt_head, sign
from setwise.ledger.audit.verification import Anchor, Verification, verify
from setwise.ledger.cap import SharedCap
from setwise.ledger.records import Clock, Entry, SystemClock, check_name, microseconds
from setwise.ledger.register import (
    AuditEvent,
    AuditEventKind,
    Record,
    cap_of,
    change_state,
    check_pays,
    events_of,
    register_dataset,
    registrations_of,
    same_data,
    write_event,
    write_opening,
)
from setwise.ledger.slices import RULE, CapTotals, Keep, Rule
from setwise.ledger.status import AccountStatus, Joint, joint_of, status_of
from setwise.ledger.stores.base import Store
from setwise.ledger.stores.connect import connect, connect_to_read
from setwise.ledger.stores.read_queries import entries_of, spent_by, spent_of
from setwise.ledger.stores.schema import accounts, openings
from setwise.ledger.terms import (
    WHOLE_LIFE,
    Period,
    Terms,
    failure_share_of,
    filter_promise,
    filter_terms,
    period_id,
    setwise_terms,
)


class Ledger:
    """Accounts, charges and stored answers, kept in one database.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Ledger.open(f"{folder.name}/ledger.db") as ledger:
    ...     status = ledger.open_filter("ada", epsilon=1.0, delta=1e-6, dataset="visits")
    >>> status.kind, status.epsilon.upper, status.charges
    ('filter', 1.0, 0)
    >>> folder.cleanup()
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock

    @classmethod
    def open(cls, url: str, *, clock: Clock | None = None) -> Self:
        """Open a ledger, and make it or bring it up to date when needed.

        `url` is the path of a SQLite file, or ``postgresql://user@host/database``. `clock` is the machine's unless
        given.
        """
        clock = SystemClock() if clock is None else clock
        return cls(connect(url, microseconds(clock.now())), clock)

    @classmethod
    def inspect(cls, url: str, *, clock: Clock | None = None) -> Self:
        """Open a ledger to look at it: nothing is changed, and it may be on a read-only disk or damaged."""
        return cls(connect_to_read(url), SystemClock() if clock is None else clock)

    def __repr__(self) -> str:
        return f"<setwise ledger {self._store.address}>"

    def close(self) -> None:
        """Close every connection."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open_setwise(
        self,
        name: str,
        uses: Iterable[Use | Guarantee | str],
        *,
        delta: float,
        analyst: str = "",
        dataset: str = "",
        period: str | Period | None = None,
        wallet: float = 0.0,
        failure: float = 0.0,
    ) -> AccountStatus:
        """Open an account that draws, in any order and without replacement, from the uses registered here.

        The overall epsilon at `delta` is certified now, by the set-wise optimum. With `period` ("month", say), each
        calendar period (UTC) has all the uses anew, and the promise is per period. With `wallet`, a mu, uses of any
        parameters are paid besides from a Gaussian wallet of that mu, and may fail outright with probability `failure`
        in all: the promise is that of the registered uses with one Gaussian mechanism of that mu.

        Theorem: docs/optimal-composition.md, Theorem 7, for the wallet.
        """
        terms = setwise_terms(
            name,
            uses,
            delta=delta,
            analyst=analyst,
            dataset=dataset,
            period=period,
            wallet=wallet,
            failure=failure,
        )
        return self.open_account(terms)

    def open_filter(
        self,
        name: str,
        *,
        epsilon: float,
        delta: float,
        analyst: str = "",
        dataset: str = "",
        period: str | Period | None = None,
        failure_share: float | None = None,
        rule: str = "wallet",
    ) -> AccountStatus:
        """Open an account that takes uses of any parameters, chosen on the fly, up to a total (epsilon, delta).

        `failure_share` of delta is set aside for outright failures (approx uses, thresholds). With `period`, each
        calendar period (UTC) has the total anew, and the promise is per period. By the `rule` "wallet" uses are paid
        from the Gaussian wallet of the total, or their largest losses add up to at most epsilon. By the rule "zcdp"
        they add up their zCDP: it admits fewer, but also uses of which only their zCDP is known.

        Theorem: WhitehouseRaRoWu23 for zCDP, docs/optimal-composition.md, Theorem 7, for wallets.
        """
        terms = filter_terms(
            name,
            epsilon=epsilon,
            delta=delta,
            analyst=analyst,
            dataset=dataset,
            period=period,
            failure_share=failure_share,
            rule=rule,
        )
        return self.open_account(terms)

    def set_cap(
        self,
        dataset: str,
        *,
        epsilon: float,
        delta: float,
        failure_share: float | None = None,
        rule: str = "wallet",
        keep: Keep = "either",
    ) -> None:
        """Limit all accounts on a dataset together, whoever holds them, to a total (epsilon, delta) for good.

        A cap is set once, before the first account on the dataset is opened. Every charge to such an account is paid
        from the cap too, by the same `rule` as in a filter account, and the cap gets nothing of it back. By the rule
        "wallet" accounts hold slices of the cap and pay from these; by the rule "zcdp" each charge draws on the cap
        itself.

        A cap by wallet can be paid in two ways: from a Gaussian wallet, which pays for any noise, or by the sum of
        epsilons, which pays for pure noise and can be larger. Every use so far must have been paid in the way that is
        used. With `keep` "either" both are paid until a use fits one of them only; one large pure use can then end
        Gaussian noise for everybody. With "wallet" or "sum" the cap keeps that way from the start.

        Theorem: docs/optimal-composition.md, "Slices", for wallets, WhitehouseRaRoWu23 for zCDP.
        """
        share = failure_share_of(rule, failure_share)
        totals: Totals | CapTotals
        if rule == "wallet":
            totals = CapTotals.for_promise(epsilon=epsilon, delta=delta, failure_share=share, keep=keep)
        elif keep != "either":
            raise InvalidParameter(f"keep = {keep!r} belongs to a cap by the rule wallet, not {rule}")
        else:
            totals = zcdp_totals(epsilon=epsilon, delta=delta, failure_share=share)
        terms = Terms(
            kind="cap",
            name=check_name(dataset, "dataset"),
            analyst="",
            dataset=dataset,
            period=None,
            epsilon=filter_promise(rule, epsilon),
            delta=float(delta),
            failure_share=float(share),
            totals=totals,
        )
        with self._store.writing() as connection:
            if cap_of(connection, dataset) is not None:
                raise InvalidParameter(f"the dataset {dataset!r} has a cap already, and a cap is set once")
            if connection.execute(_on(connection, dataset).limit(1)).first():
                raise InvalidParameter(
                    f"the dataset {dataset!r} has accounts already; a cap is set before the first is opened"
                )
            write_opening(connection, terms, microseconds(self._clock.now()))

    def account(self, name: str) -> Account:
        """Return the account of that name, or raise `UnknownAccount`."""
        holder, terms = self._find(name)
        cap: Totals | SharedCap | None = None
        if terms.cap is not None:
            with self._store.reading() as connection:
                totals = _terms_of(connection, terms.cap).totals
            assert isinstance(totals, Totals | CapTotals)
            cap = SharedCap(self._store, terms.cap, totals) if isinstance(totals, CapTotals) else totals
        return Account(self._store, self._clock, holder, terms, cap)

    def accounts(
        self, *, analyst: str | None = None, dataset: str | None = None, after: str = "", most: int | None = None
    ) -> tuple[AccountStatus, ...]:
        """Return the status of every account (of one analyst, on one dataset), in the order of their names.

        With `most`, at most that many whose names follow `after`: one page of a list.
        """
        chosen = select(accounts.c.holder).where(accounts.c.name > after)
        if analyst is not None:
            chosen = chosen.where(accounts.c.analyst == analyst)
        if dataset is not None:
            chosen = chosen.where(accounts.c.dataset == dataset)
        if most is not None:
            chosen = chosen.order_by(accounts.c.name).limit(most)
        columns = (accounts.c.holder, accounts.c.charges, accounts.c.state, openings.c.body)
        found = select(*columns).join(openings, accounts.c.holder == openings.c.holder)
        now = self._clock.now()
        periods = {period_id(period, now) for period in (None, *Period)}
        with self._store.reading() as connection:
            rows = connection.execute(found.where(accounts.c.holder.in_(chosen)).order_by(accounts.c.name)).all()
            spent = spent_by(connection, chosen, periods)
        terms = [Terms.read(row.body) for row in rows]
        return tuple(
            status_of(own, period, spent.get((row.holder, period), {}), row.charges, row.state)
            for row, own, period in zip(rows, terms, (period_id(own.period, now) for own in terms), strict=True)
        )

    def count_accounts(self) -> dict[str, int]:
        """Return how many accounts there are on each dataset."""
        counted = select(accounts.c.dataset, func.count()).group_by(accounts.c.dataset)
        with self._store.reading() as connection:
            return {row[0]: row[1] for row in connection.execute(counted)}

    def freeze(self, name: str, *, by: str = "", reason: str = "") -> None:
        """Freeze an account: it pays for no charge until it is thawed. Charges made before may still be settled."""
        self._change_state(name, "freeze", by, reason)

    def thaw(self, name: str, *, by: str = "", reason: str = "") -> None:
        """Thaw a frozen account, so that it pays for charges again."""
        self._change_state(name, "thaw", by, reason)

    def close_account(self, name: str, *, by: str = "", reason: str = "") -> None:
        """Close an account for good: it pays for no further charge. Its entries stay, and its slice is returned."""
        self._change_state(name, "close", by, reason)
        self.account(name).give_back()

    def check_pays(self, *, account: str, dataset: str, known_as: str) -> None:
        """Raise `InvalidParameter` unless an account yet to be opened on `dataset` may pay for what is `known_as`."""
        with self._store.reading() as connection:
            check_pays(connection, account=account, dataset=dataset, known_as=known_as)

    def register_dataset(
        self,
        name: str,
        *,
        reads: str | Collection[str],
        within: Collection[str] = (),
        definition: str = "",
        by: str = "",
        apart: str = "",
    ) -> None:
        """Record what a dataset reads: names that read the same data share a cap and a joint promise.

        `reads` are texts that identify the data, such as resolved paths, inodes and folders, or a server with a table.
        `within` are the folders that the data lies in: a name that reads one of these folders reads this data too.
        `definition` is the text by which questions find the data, so that verification can tell whether it was changed.
        Digests of these are kept. `apart` says why this name is not joined with others that read the same data.
        Repeating a registration changes nothing.
        """
        with self._store.writing() as connection:
            register_dataset(
                connection,
                name,
                reads,
                within=within,
                definition=definition,
                by=by,
                apart=apart,
                at=microseconds(self._clock.now()),
            )

    def registrations(self, name: str) -> tuple[AuditEvent, ...]:
        """Return what was recorded about a dataset by `register_dataset`, in order."""
        with self._store.reading() as connection:
            return tuple(registrations_of(connection, name))

    def record(
        self, action: str, *, by: str = "", subject: str = "", details: Mapping[str, object] | None = None
    ) -> None:
        """Append an audit event about something outside the ledger, such as "person.added". It cannot be removed."""
        check_name(action, "action")
        event = AuditEvent(kind="act", action=action, by=by, subject=subject, details=dict(details or {}))
        with self._store.writing() as connection:
            write_event(connection, event, microseconds(self._clock.now()))

    def acts(self, *, after: int = 0) -> tuple[Record, ...]:
        """Return the audit events with a number in the register above `after`, in order."""
        with self._store.reading() as connection:
            return tuple(events_of(connection, after))

    def history(self, name: str, *, after: int = 0) -> Iterator[Entry]:
        """Yield the entries of an account in order, from the one after number `after` on."""
        holder, terms = self._find(name)
        with self._store.reading() as connection:
            yield from entries_of(connection, holder, terms.name, after)

    def verify(
        self,
        *,
        head: str | None = None,
        since: Anchor | None = None,
        key: bytes | None = None,
        within: timedelta | None = None,
        last_head: HeadFile | None = None,
    ) -> Verification:
        """Recompute every chain and every balance, and name each entry that is not as it was written.

        With `head`, the digest of an earlier anchor, nothing may have changed since; with `since`, an earlier anchor,
        entries may have been added, and nothing else. With `key`, every signed head must be signed with it, and one of
        them `within` that time, so that a ledger whose end was cut off is found. With `last_head`, the ledger must
        still have the head in that file, so that an older copy is found.
        """
        now = self._clock.now()
        oldest = None if within is None else microseconds(now - within)
        kept = None if last_head is None else last_head.read()
        with self._store.reading() as connection:
            return verify(
                connection,
                head=head,
                since=since,
                key=key,
                oldest_head=oldest,
                latest_head=microseconds(now + CLOCK_SLACK),
                kept=kept,
            )

    def sign(
        self, key: bytes, *, last_head: HeadFile | None = None, within: timedelta | None = None, anew: bool = False
    ) -> Record:
        """Append a signed head: where each chain ends now, signed with a key that is kept outside the database.

        The ledger is checked before it is signed: its register and signatures, the entries at which earlier heads saw
        the accounts end, and all entries since. With `last_head` it must also have the head in that file, which then
        keeps the new one. If there is no such file yet, the last head in the ledger must be `within` that time; `anew`
        skips this comparison, for an operator who knows that the ledger is the right one.

        Raises `StoreFailed`, without signing, for a ledger that does not fit.
        """
        if last_head is not None and not anew:
            self.keep_head(key, last_head, within=within)
        with self._store.writing() as connection:
            record = sign(connection, key, microseconds(self._clock.now()))
        if last_head is not None:
            if anew:
                last_head.path.unlink(missing_ok=True)
            last_head.keep(KeptHead.of(record))
        return record

    def keep_head(self, key: bytes, last_head: HeadFile, *, within: timedelta | None = None) -> None:
        """Check the ledger against the head kept in a file, and keep its last head there, which others may have signed.

        Without a file yet, the last head in the ledger is kept if it was signed `within` that time.
        """
        now = self._clock.now()
        oldest = None if within is None else microseconds(now - within)
        with self._store.reading() as connection:
            head = adopt_head(connection, key, last_head.read(), oldest, microseconds(now + CLOCK_SLACK))
        if head is not None:
            last_head.keep(head)

    def export(self, stream: TextIO, *, tables: Sequence[Table] = ()) -> int:
        """Write the whole ledger as JSON lines, with other tables of its database if asked; return their number."""
        with self._store.reading() as connection:
            return export(connection, stream, tables)

    def restore(self, stream: TextIO, *, tables: Sequence[Table] = ()) -> int:
        """Read an export into this ledger, which must be empty; all of it or nothing. Return the number of entries.

        On PostgreSQL this takes the owner of the tables, because triggers are dropped and created again.
        """
        with self._store.writing() as connection:
            at = microseconds(self._clock.now())
            return Restoration(connection, self._store.address, tables, at).run(stream)

    def cap(self, dataset: str) -> AccountStatus | None:
        """Return the status of a dataset's cap, or None if it has none."""
        with self._store.reading() as connection:
            holder = cap_of(connection, dataset)
            if holder is None:
                return None
            terms = _terms_of(connection, holder)
            charged = select(func.coalesce(func.sum(accounts.c.charges), 0)).where(accounts.c.cap == holder)
            charges = int(connection.execute(charged).scalar_one())
            if not isinstance(terms.totals, CapTotals):
                return status_of(terms, WHOLE_LIFE, spent_of(connection, holder, WHOLE_LIFE), charges)
            left = SharedCap(self._store, holder, terms.totals).balance(connection)
            spent = {what: terms.totals.lines()[what] - units for what, units in left.total().items()}
            spent[RULE] = int(left.rule)
            status = status_of(terms, WHOLE_LIFE, spent, charges)
            return replace(status, worth=Spent(_rho_drawn(connection, holder), status.worth.failure_sum))

    def keep_rule(self, dataset: str, keep: Keep, *, by: str = "") -> None:
        """Let the cap of a dataset, which could be paid in either way, be paid by "wallet" or by "sum" from now on.

        Raises `InvalidParameter` if the cap keeps one way already, or has no open account whose chain can say so.
        """
        if keep not in ("wallet", "sum"):
            raise InvalidParameter(f"keep must be wallet or sum, not {keep!r}")
        with self._store.reading() as connection:
            holder = cap_of(connection, check_name(dataset, "dataset"))
            totals = None if holder is None else _terms_of(connection, holder).totals
            if holder is None or not isinstance(totals, CapTotals) or totals.keep != "either":
                raise InvalidParameter(f"the dataset {dataset!r} has no cap that could be paid in either way")
            under = select(accounts.c.holder, accounts.c.name).where(accounts.c.cap == holder)
            account = connection.execute(under.where(accounts.c.state == "open").limit(1)).one_or_none()
        if account is None:
            raise InvalidParameter(f"the cap of the dataset {dataset!r} has no open account; open one first")
        rule = Rule.WALLET if keep == "wallet" else Rule.SUM
        cap = SharedCap(self._store, holder, totals)
        if not cap.keep_rule(account.holder, account.name, rule, microseconds(self._clock.now())):
            raise InvalidParameter(f"the cap of the dataset {dataset!r} is paid in one way already")
        self.record("cap.kept", by=by, subject=dataset, details={"keep": keep})

    def reclaim(self, dataset: str, *, idle: timedelta = timedelta(0)) -> int:
        """Return the slices of accounts without an entry for the time `idle` to a dataset's cap; return their number.

        A cap that runs short collects slices by itself. This is for a steward who wants to see the unallocated balance.
        """
        latest = microseconds(self._clock.now() - idle)
        with self._store.reading() as connection:
            holder = cap_of(connection, check_name(dataset, "dataset"))
            totals = None if holder is None else _terms_of(connection, holder).totals
            if holder is None or not isinstance(totals, CapTotals):
                raise InvalidParameter(f"the dataset {dataset!r} has no cap of which accounts hold slices")
            cap = SharedCap(self._store, holder, totals)
            left = cap.balance(connection)
        at = microseconds(self._clock.now())
        return sum(
            cap.give_back(account, left.names[account], at) for account in left.held if left.at[account] <= latest
        )

    def joint(self, dataset: str, *, delta: float | None = None, periods: int = 1) -> Joint:
        """Return the joint promise of all accounts on a dataset, which holds even if their analysts collude.

        `delta` is the sum of the accounts' deltas unless given. Accounts with periods count for `periods` of them.
        """
        return joint_of(dataset, self.terms_on(dataset), self.cap(dataset), delta=delta, periods=periods)

    def terms_on(self, dataset: str) -> tuple[Terms, ...]:
        """Return the terms of every account on the data that a dataset reads, under whatever name."""
        with self._store.reading() as connection:
            found = (
                select(openings.c.body)
                .join(accounts, accounts.c.holder == openings.c.holder)
                .where(accounts.c.holder.in_(_on(connection, check_name(dataset, "dataset"))))
            )
            return tuple(Terms.read(body) for body in connection.execute(found).scalars())

    def _find(self, name: str) -> tuple[int, Terms]:
        with self._store.reading() as connection:
            found = (
                select(openings.c.holder, openings.c.body)
                .join(accounts, accounts.c.holder == openings.c.holder)
                .where(accounts.c.name == check_name(name, "an account's name"))
            )
            row = connection.execute(found).one_or_none()
        if row is None:
            raise UnknownAccount(
                f"there is no account {name!r} in the ledger {self._store.address}; setwise ledger open makes one"
            )
        return row.holder, Terms.read(row.body)

    def _change_state(self, name: str, event: AuditEventKind, by: str, reason: str) -> None:
        self._find(name)
        with self._store.writing() as connection:
            change_state(connection, name, event, by=by, reason=reason, at=microseconds(self._clock.now()))

    def open_account(self, terms: Terms) -> AccountStatus:
        """Open an account on terms that `setwise_terms` has certified; raise `AccountExists` if the name is taken."""
        with self._store.writing() as connection:
            if connection.execute(select(accounts.c.holder).where(accounts.c.name == terms.name)).first():
                raise AccountExists(f"an account {terms.name!r} is open already; choose another name")
            cap = cap_of(connection, terms.dataset)
            slices = cap is not None and isinstance(_terms_of(connection, cap).totals, CapTotals)
            terms = replace(terms, cap=cap, slices=slices)
            write_opening(connection, terms, microseconds(self._clock.now()))
        return self.account(terms.name).status()


def _on(connection: Connection, dataset: str) -> Select[tuple[int]]:
    """Return the SELECT of the accounts on a dataset, or on another name of the same data."""
    return select(accounts.c.holder).where(accounts.c.dataset.in_(same_data(connection, dataset)))


def _terms_of(connection: Connection, holder: int) -> Terms:
    """Return the terms of an account or a cap."""
    return Terms.read(connection.execute(select(openings.c.body).where(openings.c.holder == holder)).scalar_one())


def _rho_drawn(connection: Connection, cap: int) -> float:
    """Return the zCDP rho of all draws of the accounts under a cap, rounded up."""
    under = select(accounts.c.holder).where(accounts.c.cap == cap)
    bodies = select(openings.c.holder, openings.c.body).where(openings.c.holder.in_(under))
    terms = {row.holder: Terms.read(row.body) for row in connection.execute(bodies)}
    spent = spent_by(connection, under)
    total = math.fsum(status_of(terms[holder], period, own).worth.rho for (holder, period), own in spent.items())
    return up(total) if total else 0.0
