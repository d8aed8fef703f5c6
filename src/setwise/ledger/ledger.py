"""The ledger: open accounts and caps (datasets' joint budgets), find them, report, verify, sign, export and restore."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from shlex import quote
from types import TracebackType
from typing import Self, TextIO

from sqlalchemy import Table, func, select

from setwise.accounting.guarantees import Guarantee, Use
from setwise.accounting.promises import USER
from setwise.accounting.zcdp_filter import Spent
from setwise.contract import Keep
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
    accounts_on,
    cap_of,
    change_state,
    check_pays,
    check_unit_of,
    events_of,
    register_dataset,
    registrations_of,
    same_data,
    terms_of,
    write_event,
    write_opening,
)
from setwise.ledger.slices import RULE, CapTotals, Rule
from setwise.ledger.status import AccountStatus, Joint, joint_of, rho_drawn, status_of
from setwise.ledger.stores.base import Store
from setwise.ledger.stores.connect import connect, connect_to_read
from setwise.ledger.stores.read_queries import entries_of, spent_by, spent_of
from setwise.ledger.stores.schema import accounts, openings
from setwise.ledger.terms import (
    WHOLE_LIFE,
    BudgetPeriod,
    Terms,
    failure_share_of,
    filter_promise,
    filter_terms,
    period_id,
    setwise_terms,
)


def opening_command(name: str, address: str = "") -> str:
    """Return a shell command that opens the account `name`, for errors about a missing account or ledger.

    The account gets a budget of epsilon 1 and delta 1e-6, which the user can change before running the command.
    `address` is the path of the ledger's SQLite file, or the URL of a database server without its password, or "" for
    the default ledger.

    >>> opening_command("ana", "team.db")
    'setwise ledger open ana --filter --epsilon 1 --delta 1e-6 --ledger team.db'
    """
    place = f" --ledger {quote(address)}" if address else ""
    return f"setwise ledger open {quote(name)} --filter --epsilon 1 --delta 1e-6{place}"


class Ledger:
    """Accounts (privacy budgets), the charges to them and the stored answers, kept in one database.

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
        """Open a ledger; its database is created, or migrated to the present schema, if needed.

        `url` is the path of a SQLite file, or ``postgresql://user@host/database``. `clock` tells the time of new
        entries; the machine's clock is used if None.
        Raises `InvalidParameter` for an address of another form and `StoreFailed` for a database that cannot be used.
        """
        clock = SystemClock() if clock is None else clock
        return cls(connect(url, microseconds(clock.now())), clock)

    @classmethod
    def inspect(cls, url: str, *, clock: Clock | None = None) -> Self:
        """Open the ledger at `url` for reading only. Nothing is written, so the file may be damaged or read-only.

        `clock` tells the time (the machine's if None). Raises `StoreFailed` if its tables have the schema of another
        version of Setwise.
        """
        return cls(connect_to_read(url), SystemClock() if clock is None else clock)

    def __repr__(self) -> str:
        return f"<setwise ledger {self._store.address}>"

    def close(self) -> None:
        """Close every connection to the ledger's database."""
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
        period: str | BudgetPeriod | None = None,
        wallet: float = 0.0,
        failure: float = 0.0,
        unit: str = USER,
    ) -> AccountStatus:
        """Open an account that draws, in any order and without replacement, from the `uses` registered here.

        The overall epsilon at `delta` is certified now, as the optimum of set-wise composition, and is in the returned
        status.
        - `uses` lists the privacy guarantees that the account may pay for, and how often each.
        - `analyst` and `dataset` say whose account this is and which data it may pay for; either may be empty.
        - With `period` ("month", for example; None: never) all the uses are available again in every calendar period
          (UTC), and the promise is per period.
        - `wallet`, if not 0, is a mu: the account then also pays for uses that are not registered, as long as these
          reveal together at most as much as one Gaussian mechanism of this mu.
        - `failure` bounds the probability that any unregistered use fails outright, which may reveal everything.
        - `unit` is what is protected, the same for all accounts on a dataset: "user", or a part such as "user,day".
        Theorem: docs/optimal-composition.md, Theorem 7, for the wallet. Raises `AccountExists` for a taken name, and
        `InvalidParameter` for a wrong argument.
        """
        return self.open_account(
            setwise_terms(
                name,
                uses,
                delta=delta,
                analyst=analyst,
                dataset=dataset,
                period=period,
                wallet=wallet,
                failure=failure,
                unit=unit,
            )
        )

    def open_filter(
        self,
        name: str,
        *,
        epsilon: float,
        delta: float,
        analyst: str = "",
        dataset: str = "",
        period: str | BudgetPeriod | None = None,
        failure_share: float | None = None,
        rule: str = "wallet",
        unit: str = USER,
        menu: Sequence[Use | Guarantee | str] = (),
    ) -> AccountStatus:
        """Open an account that pays for mechanisms, chosen one after the other, up to a budget (epsilon, delta).

        - `rule` says how charges add up. With "wallet", all charges must fit into a Gaussian budget (mu squared), or
          their largest privacy losses must add up to at most epsilon.
        - `rule` "zcdp" adds up zCDP parameters. It pays for less than "wallet", but also for zCDP guarantees.
        - `rule` "menu" pays only for uses that lose no more privacy than one of the guarantees (pure DP or
          bounded-range) in the list `menu`, such as ["pure:0.1"]. For a few known sizes of uses, it pays for more uses
          than "wallet".
        - `failure_share` is the share of delta for outright failures (which may reveal everything); None: a default.
        - `analyst` and `dataset` say whose account this is and which data it may pay for; either may be empty.
        - With `period`, such as "month", the budget starts afresh in each. `unit` is what is protected, such as "user".
        Theorem: WhitehouseRaRoWu23 for zCDP, docs/optimal-composition.md, Theorem 7, for wallets, and "Menu accounts".
        Raises `AccountExists` for a taken name, and `InvalidParameter` for a wrong argument.
        """
        return self.open_account(
            filter_terms(
                name,
                epsilon=epsilon,
                delta=delta,
                analyst=analyst,
                dataset=dataset,
                period=period,
                failure_share=failure_share,
                rule=rule,
                menu=menu,
                unit=unit,
            )
        )

    def set_cap(
        self,
        dataset: str,
        *,
        epsilon: float,
        delta: float,
        failure_share: float | None = None,
        rule: str = "wallet",
        keep: Keep = "either",
        unit: str = USER,
    ) -> None:
        """Set a cap on a dataset, for good: one joint budget (epsilon, delta) for all its accounts, of all analysts.

        A cap is set before the first account on the dataset is opened. Every charge to one of the accounts is also paid
        from the cap. A refund to an account does not go back to the cap.

        - `rule` says in which measure charges add up: "wallet" adds up mu squared (of Gaussian mechanisms that dominate
          the charges) and epsilons, and "zcdp" adds up zCDP parameters.
        - `keep` is for the rule "wallet" only. "wallet" pays from a budget of mu squared, and "sum" from a limit on the
          sum of epsilons. "either" pays from both, until a charge fits only one of them; the other is then dropped for
          good.
        - `failure_share` is the share of `delta` for outright failures (which may reveal everything); None takes a
          default.
        - `unit` is the unit of privacy that the cap protects, such as "user".

        Theorem: docs/optimal-composition.md, "Slices", for wallets, WhitehouseRaRoWu23 for zCDP.
        Raises `InvalidParameter` if the dataset has a cap or accounts already, or was registered with another unit.
        """
        share = failure_share_of(rule, failure_share)
        totals: Totals | CapTotals
        if rule == "wallet":
            totals = CapTotals.for_promise(epsilon=epsilon, delta=delta, failure_share=share, keep=keep)
        elif rule == "menu":
            raise InvalidParameter("a cap has the rule wallet or zcdp, not menu")
        elif keep != "either":
            raise InvalidParameter(f"keep = {keep!r} is only for a cap with the rule wallet, not {rule}: leave it out")
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
            unit=unit,
        )
        with self._store.writing() as connection:
            check_unit_of(connection, dataset, unit)
            if cap_of(connection, dataset) is not None:
                raise InvalidParameter(f"the dataset {dataset!r} has a cap already, and a cap is set once")
            if connection.execute(accounts_on(connection, dataset).limit(1)).first():
                raise InvalidParameter(
                    f"the dataset {dataset!r} has accounts already; a cap is set before the first is opened"
                )
            write_opening(connection, terms, microseconds(self._clock.now()))

    def account(self, name: str) -> Account:
        """Return the account named `name`, ready to be charged; raise `UnknownAccount` if there is none."""
        holder, terms = self._find(name)
        cap: Totals | SharedCap | None = None
        if terms.cap is not None:
            with self._store.reading() as connection:
                totals = terms_of(connection, terms.cap).totals
            assert isinstance(totals, Totals | CapTotals)
            cap = SharedCap(self._store, terms.cap, totals) if isinstance(totals, CapTotals) else totals
        return Account(self._store, self._clock, holder, terms, cap)

    def accounts(
        self, *, analyst: str | None = None, dataset: str | None = None, after: str = "", most: int | None = None
    ) -> tuple[AccountStatus, ...]:
        """Return the status of every account whose name comes after `after`, sorted by name; at most `most` accounts.

        Only accounts of `analyst` and on `dataset` are returned, if these are given. A `most` of None sets no limit.
        """
        chosen = select(accounts.c.holder).where(accounts.c.name > after)
        if analyst is not None:
            chosen = chosen.where(accounts.c.analyst == analyst)
        if dataset is not None:
            chosen = chosen.where(accounts.c.dataset == dataset)
        if most is not None:
            chosen = chosen.order_by(accounts.c.name).limit(most)
        columns = (accounts.c.holder, accounts.c.charges, accounts.c.state, openings.c.body)
        statuses = select(*columns).join(openings, accounts.c.holder == openings.c.holder)
        now = self._clock.now()
        periods = {period_id(period, now) for period in (None, *BudgetPeriod)}
        with self._store.reading() as connection:
            rows = connection.execute(statuses.where(accounts.c.holder.in_(chosen)).order_by(accounts.c.name)).all()
            spent = spent_by(connection, chosen, periods)
        terms = [Terms.read(row.body) for row in rows]
        return tuple(
            status_of(account_terms, period, spent.get((row.holder, period), {}), row.charges, row.state)
            for row, account_terms, period in zip(
                rows, terms, (period_id(account_terms.period, now) for account_terms in terms), strict=True
            )
        )

    def count_accounts(self) -> dict[str, int]:
        """Return the number of accounts on each dataset, keyed by dataset name."""
        counted = select(accounts.c.dataset, func.count()).group_by(accounts.c.dataset)
        with self._store.reading() as connection:
            return {row[0]: row[1] for row in connection.execute(counted)}

    def freeze(self, name: str, *, by: str = "", reason: str = "") -> None:
        """Freeze the account `name`: until it is thawed, it pays for no charge and releases no part of an answer.

        Earlier charges can still be settled. `by` and `reason` are logged. Raises `InvalidParameter` if it is not open.
        """
        self._change_state(name, "freeze", by, reason)

    def thaw(self, name: str, *, by: str = "", reason: str = "") -> None:
        """Let the frozen account `name` pay again; raise `InvalidParameter` if it is not frozen.

        `by` (a person) and `reason` go to the audit log.
        """
        self._change_state(name, "thaw", by, reason)

    def close_account(self, name: str, *, by: str = "", reason: str = "") -> None:
        """Close the account `name` for good: it pays for no further charge. `by` and `reason` go to the audit log.

        What it reserved of the dataset's joint budget returns there. Raises `InvalidParameter` if it is closed already.
        """
        self._change_state(name, "close", by, reason)
        self.account(name).give_back()

    def check_pays(self, *, account: str, dataset: str, known_as: str) -> None:
        """Raise `InvalidParameter` unless an account may pay for questions about the data named `known_as`.

        - `account` is the account's name, only for the message.
        - `dataset` is the dataset that the account was opened for, or "" for none.

        An account opened for a dataset pays for that dataset only, under any name of the same data. An account opened
        for no dataset may not pay for data on which the ledger has accounts or a joint budget. Otherwise the joint
        promise of those accounts would not include the charges of this account.
        """
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
        unit: str = USER,
    ) -> None:
        """Record which data a dataset name reads, so that names of the same data share one budget.

        Names that read the same data share one cap (joint budget) and one joint promise, unless one is set `apart`.

        - `reads` are texts that identify the data, such as resolved paths and inodes, or a server with a table.
        - `within` are the folders that contain the data: a name that reads one of these folders reads this data too.
        - `definition` is the dataset's definition as text, so that a later change can be noticed.
        - `by` is the person who registers the name.
        - `apart`, if not empty, is the reason why this name shares no cap or joint promise with names of the same data.
        - `unit` is the unit of privacy that all accounts on the dataset protect, such as "user" or "user,day".

        Only digests of `reads`, `within` and `definition` are stored. Repeating a registration changes nothing.

        Raises `BadRequest` if the name then shares data with other names, and their accounts pay from different caps,
        or only some of them from a cap. Raises `BadRequest` also if these names protect different units of privacy.
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
                unit=unit,
                at=microseconds(self._clock.now()),
            )

    def names_of_data(self, dataset: str) -> frozenset[str]:
        """Return `dataset` and the names of all datasets that share its data, according to their registrations."""
        with self._store.reading() as connection:
            return same_data(connection, dataset)

    def registrations(self, name: str) -> tuple[AuditEvent, ...]:
        """Return the audit events that `register_dataset` recorded about the dataset `name`, in order."""
        with self._store.reading() as connection:
            return tuple(registrations_of(connection, name))

    def record(
        self, action: str, *, by: str = "", subject: str = "", details: Mapping[str, object] | None = None
    ) -> None:
        """Append an audit event about an `action` outside the ledger, such as "person.added", for good.

        `by` is the person who acted, `subject` the person or thing acted on, and `details` any JSON values, or None.
        """
        check_name(action, "action")
        event = AuditEvent(kind="act", action=action, by=by, subject=subject, details=dict(details or {}))
        with self._store.writing() as connection:
            write_event(connection, event, microseconds(self._clock.now()))

    def acts(self, *, after: int = 0, actions: Sequence[str] = ()) -> tuple[Record, ...]:
        """Return the records of the audit events whose number is above `after`, in the order of their numbers.

        If `actions` is not empty, only events that `record` wrote with one of these actions are returned.
        """
        with self._store.reading() as connection:
            return tuple(events_of(connection, after, actions))

    def history(self, name: str, *, after: int = 0) -> Iterator[Entry]:
        """Yield the entries of the account `name` in order, beginning after the entry at position `after`.

        Positions count from 1, so an `after` of 0 yields all entries.
        """
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
        """Recompute every hash chain and every balance; the result names each entry that is not as it was written.

        An anchor says where all hash chains of the ledger ended at some time; it is kept outside the database. Each
        argument that is not None adds a check:
        - `head` is the digest of an earlier anchor. Nothing may have been added or changed since then.
        - `since` is an earlier anchor. Entries may have been added since then, but no earlier entry may have changed.
        - `key` must have signed every signed head (a record inside the ledger of where all chains ended).
        - `within`, only with `key`: the latest signed heads must not be missing, so one head must be at most this old.
        - `last_head` is a file outside the database with a signed head, which the ledger must still have.
        """
        now = self._clock.now()
        oldest = None if within is None else microseconds(now - within)
        head_outside = None if last_head is None else last_head.read()
        with self._store.reading() as connection:
            return verify(
                connection,
                head=head,
                since=since,
                key=key,
                oldest_head=oldest,
                latest_head=microseconds(now + CLOCK_SLACK),
                kept=head_outside,
            )

    def sign(
        self, key: bytes, *, last_head: HeadFile | None = None, within: timedelta | None = None, anew: bool = False
    ) -> Record:
        """Append a signed head, a record of where each account's entries end now, signed with `key`; return the record.

        The ledger is first checked against the signed heads that it has.
        - `last_head` is a file outside the database that keeps the last signed head, or None for no file. The ledger
          must still have the head in this file. The new head then replaces it.
        - `within` matters only if the file does not exist although the ledger has signed heads, because the ledger may
          then be an old copy. The ledger is signed only if one of its heads is at most this old, and never if `within`
          is None.
        - With `anew`, the file is replaced, whatever it stores; `within` is ignored.
        Raises `StoreFailed`, without signing, if a check fails.
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
        """Check that the ledger has the signed head in the file `last_head`; write the ledger's last head to the file.

        A signed head is a record of where every account's chain of entries ended, signed with `key`. If the file does
        not exist, but the ledger has heads, the ledger may be an old copy. One of its heads must then be at most
        `within` old; with None, the check fails.
        Raises `StoreFailed` if the ledger lacks the head in the file, or fails a check of its signatures and entries.
        """
        now = self._clock.now()
        oldest = None if within is None else microseconds(now - within)
        with self._store.reading() as connection:
            head = adopt_head(connection, key, last_head.read(), oldest, microseconds(now + CLOCK_SLACK))
        if head is not None:
            last_head.keep(head)

    def export(self, stream: TextIO, *, tables: Sequence[Table] = ()) -> int:
        """Write the whole ledger as JSON lines to `stream`, for `restore` to read, and return the number of lines.

        `tables` are other tables in the ledger's database, such as a service's own, whose rows are written too.
        """
        with self._store.reading() as connection:
            return export(connection, stream, tables)

    def restore(self, stream: TextIO, *, tables: Sequence[Table] = ()) -> int:
        """Read an export from `stream` into this ledger, which must be empty, and return its number of entries.

        `tables` are other tables in the ledger's database, such as a service's own, whose exported rows are restored
        too. Everything is one transaction. The triggers of the tables are dropped and created again, which PostgreSQL
        allows only to the owner of the tables.

        Raises: `InvalidParameter` for a ledger that is not empty, or an export that was changed or cut short.
        """
        with self._store.writing() as connection:
            at = microseconds(self._clock.now())
            return Restoration(connection, self._store.address, tables, at).run(stream)

    def cap(self, dataset: str) -> AccountStatus | None:
        """Return the status of a dataset's cap (the joint budget of its accounts), or None if there is no cap."""
        with self._store.reading() as connection:
            holder = cap_of(connection, dataset)
            if holder is None:
                return None
            terms = terms_of(connection, holder)
            charged = select(func.coalesce(func.sum(accounts.c.charges), 0)).where(accounts.c.cap == holder)
            charges = int(connection.execute(charged).scalar_one())
            if not isinstance(terms.totals, CapTotals):
                return status_of(terms, WHOLE_LIFE, spent_of(connection, holder, WHOLE_LIFE), charges)
            balance = SharedCap(self._store, holder, terms.totals).balance(connection)
            spent = {
                balance_name: terms.totals.lines()[balance_name] - units
                for balance_name, units in balance.total().items()
            }
            spent[RULE] = int(balance.rule)
            status = status_of(terms, WHOLE_LIFE, spent, charges)
            return replace(status, worth=Spent(rho_drawn(connection, holder), status.worth.failure_sum))

    def keep_rule(self, dataset: str, keep: Keep, *, by: str = "") -> None:
        """Let the cap (joint budget) of `dataset` pay only from one of its two balances from now on.

        The balances are "wallet" (mu squared) and "sum" (of epsilons). `keep` names the one that goes on paying, and
        `by` is the steward who decides, for the audit log.

        Raises: `InvalidParameter` if the cap does not pay from both balances now, or if none of its accounts is open,
        because the decision is stored as an entry of one of them.
        """
        if keep not in ("wallet", "sum"):
            raise InvalidParameter(f"keep must be wallet or sum, not {keep!r}")
        with self._store.reading() as connection:
            holder = cap_of(connection, check_name(dataset, "dataset"))
            totals = None if holder is None else terms_of(connection, holder).totals
            if holder is None or not isinstance(totals, CapTotals) or totals.keep != "either":
                raise InvalidParameter(f"the dataset {dataset!r} has no cap that was set with keep = either")
            under = select(accounts.c.holder, accounts.c.name).where(accounts.c.cap == holder)
            # The decision is recorded as an entry of some open account.
            account = connection.execute(under.where(accounts.c.state == "open").limit(1)).one_or_none()
        if account is None:
            raise InvalidParameter(f"the cap of the dataset {dataset!r} has no open account; open one first")
        rule = Rule.WALLET if keep == "wallet" else Rule.SUM
        cap = SharedCap(self._store, holder, totals)
        if not cap.keep_rule(account.holder, account.name, rule, microseconds(self._clock.now())):
            raise InvalidParameter(f"the cap of the dataset {dataset!r} is already paid by one rule only")
        self.record("cap.kept", by=by, subject=dataset, details={"keep": keep})

    def reclaim(self, dataset: str, *, idle: timedelta = timedelta(0)) -> int:
        """Move what idle accounts have reserved of a dataset's cap back to the cap; return how many accounts these are.

        A cap is the joint budget of a dataset's accounts. An account is idle if it has no entry in the time `idle`
        before now. Calling this is never necessary: a cap that runs short collects reserved parts by itself. Raises
        `InvalidParameter` if the dataset has no cap, or a zCDP cap, in which nothing is reserved.
        """
        latest = microseconds(self._clock.now() - idle)
        with self._store.reading() as connection:
            holder = cap_of(connection, check_name(dataset, "dataset"))
            totals = None if holder is None else terms_of(connection, holder).totals
            if holder is None or not isinstance(totals, CapTotals):
                raise InvalidParameter(f"the dataset {dataset!r} has no cap of which accounts hold slices")
            cap = SharedCap(self._store, holder, totals)
            balance = cap.balance(connection)
        at = microseconds(self._clock.now())
        return sum(
            cap.give_back(account, balance.names[account], at)
            for account in balance.held
            if balance.at[account] <= latest
        )

    def joint(self, dataset: str, *, delta: float | None = None, periods: int = 1) -> Joint:
        """Return the joint (epsilon, delta) promise of all accounts on a dataset, which holds even if analysts collude.

        `periods` is the number of budget periods that the promise covers, for accounts whose budget starts afresh each
        period. If `delta` is None, it is the sum of the deltas of all accounts and periods, but at most 0.5. Raises
        `InvalidParameter` if the dataset has no account.
        """
        return joint_of(dataset, self.terms_on(dataset), self.cap(dataset), delta=delta, periods=periods)

    def terms_on(self, dataset: str) -> tuple[Terms, ...]:
        """Return the terms of every account on the data that `dataset` reads, under any name of this data."""
        with self._store.reading() as connection:
            bodies = (
                select(openings.c.body)
                .join(accounts, accounts.c.holder == openings.c.holder)
                .where(accounts.c.holder.in_(accounts_on(connection, check_name(dataset, "dataset"))))
            )
            return tuple(Terms.read(body) for body in connection.execute(bodies).scalars())

    def _find(self, name: str) -> tuple[int, Terms]:
        """Return the number of the record that opened the account `name`, and its terms; or raise `UnknownAccount`."""
        with self._store.reading() as connection:
            query = (
                select(openings.c.holder, openings.c.body)
                .join(accounts, accounts.c.holder == openings.c.holder)
                .where(accounts.c.name == check_name(name, "an account's name"))
            )
            row = connection.execute(query).one_or_none()
        if row is None:
            raise UnknownAccount(
                f"there is no account {name!r} in the ledger {self._store.address}; this makes one: "
                f"{opening_command(name, self._store.address)}"
            )
        return row.holder, Terms.read(row.body)

    def _change_state(self, name: str, event: AuditEventKind, by: str, reason: str) -> None:
        """Freeze, thaw or close the account `name`, and record the event with `by` and `reason`."""
        self._find(name)
        with self._store.writing() as connection:
            change_state(connection, name, event, by=by, reason=reason, at=microseconds(self._clock.now()))

    def open_account(self, terms: Terms) -> AccountStatus:
        """Open an account on certified terms (from `setwise_terms` or `filter_terms`) and return its status.

        The dataset's cap (joint budget), if any, is added to the terms. Raises `AccountExists` for a taken name, and
        `InvalidParameter` if the dataset protects another unit of privacy (a user, or a part of a user) than `terms`.
        """
        with self._store.writing() as connection:
            if connection.execute(select(accounts.c.holder).where(accounts.c.name == terms.name)).first():
                raise AccountExists(f"an account {terms.name!r} is open already; choose another name")
            check_unit_of(connection, terms.dataset, terms.unit)
            cap = cap_of(connection, terms.dataset)
            slices = cap is not None and isinstance(terms_of(connection, cap).totals, CapTotals)
            terms = replace(terms, cap=cap, slices=slices)
            write_opening(connection, terms, microseconds(self._clock.now()))
        return self.account(terms.name).status()
