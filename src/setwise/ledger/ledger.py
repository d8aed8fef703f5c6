"""The ledger: open accounts, find them, report their status, verify, export and restore."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import TracebackType
from typing import Self, TextIO

from sqlalchemy import func, select

from setwise.accounting.answer import Answer, Interaction
from setwise.accounting.compose import as_uses, compose
from setwise.accounting.filters import ZcdpFilter
from setwise.accounting.guarantees import Guarantee, Use, merged
from setwise.errors import AccountExists, InvalidParameter, UnknownAccount
from setwise.ledger.account import Account
from setwise.ledger.amounts import totals_of
from setwise.ledger.audit.export import Restoration, export
from setwise.ledger.audit.verification import Anchor, Verification, verify
from setwise.ledger.clock import Clock, SystemClock, microseconds
from setwise.ledger.joint import Joint, joint_of
from setwise.ledger.records import Entry, check_label, check_name
from setwise.ledger.status import AccountStatus, status_of
from setwise.ledger.stores.base import Store
from setwise.ledger.stores.connect import connect
from setwise.ledger.stores.queries import entries_of, openings_of, spent_of, spent_of_all
from setwise.ledger.stores.schema import accounts, openings
from setwise.ledger.terms import WHOLE_LIFE, Period, Terms, cap_of, parse_period, period_id, write_opening


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

    def __repr__(self) -> str:
        return f"<setwise ledger {self._store.address}>"

    def close(self) -> None:
        """Let go of every connection."""
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
    ) -> AccountStatus:
        """Open an account that draws, in any order and without replacement, from the uses registered here.

        The overall epsilon at `delta` is certified now, by the set-wise optimum. With `period` ("month", say), each
        calendar period (UTC) has all the uses anew, and the promise is per period.
        """
        registered = merged(as_uses(uses))
        epsilon = compose(registered, Interaction.SETWISE).epsilon(delta)
        fails = any(use.guarantee.without_failure()[1] for use in registered)
        terms = Terms(
            kind="setwise",
            name=check_name(name, "an account's name"),
            analyst=check_label(analyst, "analyst"),
            dataset=check_label(dataset, "dataset"),
            period=parse_period(period),
            epsilon=epsilon,
            delta=float(delta),
            failure_share=0.5 if fails else 0.0,
            uses=registered,
        )
        return self._open_account(terms)

    def open_filter(
        self,
        name: str,
        *,
        epsilon: float,
        delta: float,
        analyst: str = "",
        dataset: str = "",
        period: str | Period | None = None,
        failure_share: float = 0.5,
    ) -> AccountStatus:
        """Open an account that takes uses of any parameters, chosen on the fly, up to a total (epsilon, delta).

        `failure_share` of delta is set aside for outright failures (approx uses, thresholds); the rest converts zCDP.
        With `period`, each calendar period (UTC) has the total anew, and the promise is per period.
        """
        promise = ZcdpFilter(epsilon=epsilon, delta=delta, failure_share=failure_share)
        terms = Terms(
            kind="filter",
            name=check_name(name, "an account's name"),
            analyst=check_label(analyst, "analyst"),
            dataset=check_label(dataset, "dataset"),
            period=parse_period(period),
            epsilon=_given(promise),
            delta=promise.delta,
            failure_share=promise.failure_share,
            totals=totals_of(promise),
        )
        return self._open_account(terms)

    def set_cap(self, dataset: str, *, epsilon: float, delta: float, failure_share: float = 0.5) -> None:
        """Limit all accounts on a dataset together, whoever holds them, to a total (epsilon, delta) for good.

        A cap is set once, before the first account on the dataset is opened. Every charge to such an account draws on
        it too, as on a zCDP filter, and gets nothing back.
        """
        promise = ZcdpFilter(epsilon=epsilon, delta=delta, failure_share=failure_share)
        terms = Terms(
            kind="cap",
            name=check_name(dataset, "dataset"),
            analyst="",
            dataset=dataset,
            period=None,
            epsilon=_given(promise),
            delta=promise.delta,
            failure_share=promise.failure_share,
            totals=totals_of(promise),
        )
        with self._store.writing() as connection:
            if cap_of(connection, dataset) is not None:
                raise InvalidParameter(f"the dataset {dataset!r} has a cap already, and a cap is set once")
            if connection.execute(select(accounts.c.name).where(accounts.c.dataset == dataset).limit(1)).first():
                raise InvalidParameter(
                    f"the dataset {dataset!r} has accounts already; a cap is set before the first is opened"
                )
            write_opening(connection, terms, microseconds(self._clock.now()))

    def account(self, name: str) -> Account:
        """Return the account of that name, or raise `UnknownAccount`."""
        holder, terms = self._find(name)
        cap = None
        if terms.cap is not None:
            with self._store.reading() as connection:
                body = connection.execute(select(openings.c.body).where(openings.c.holder == terms.cap)).scalar_one()
            cap = Terms.read(body).totals
        return Account(self._store, self._clock, holder, terms, cap)

    def accounts(self, *, analyst: str | None = None) -> tuple[AccountStatus, ...]:
        """Return the status of every account, or of one analyst's, in the order of their names."""
        now = self._clock.now()
        with self._store.reading() as connection:
            found = [(row, Terms.read(row.body)) for row in openings_of(connection, analyst)]
            periods = {row.holder: max(row.period, period_id(terms.period, now)) for row, terms in found}
            spent = spent_of_all(connection, periods)
        return tuple(
            status_of(terms, periods[row.holder], spent.get(row.holder, {}), row.charges) for row, terms in found
        )

    def history(self, name: str, *, after: int = 0) -> Iterator[Entry]:
        """Yield the entries of an account in order, from the one after number `after` on."""
        holder, terms = self._find(name)
        with self._store.reading() as connection:
            yield from entries_of(connection, holder, terms.name, after)

    def verify(self, *, head: str | None = None, since: Anchor | None = None) -> Verification:
        """Recompute every chain and every balance, and name each entry that is not as it was written.

        With `head`, the digest of an earlier anchor, nothing may have changed since; with `since`, an earlier anchor,
        entries may have been added, and nothing else.
        """
        with self._store.reading() as connection:
            return verify(connection, head=head, since=since)

    def export(self, stream: TextIO) -> int:
        """Write the whole ledger as JSON lines; return their number."""
        with self._store.reading() as connection:
            return export(connection, stream)

    def restore(self, stream: TextIO) -> int:
        """Read an export into this ledger, which must be empty; all of it or nothing. Return the number of entries."""
        with self._store.writing() as connection:
            return Restoration(self._store, connection).run(stream)

    def cap(self, dataset: str) -> AccountStatus | None:
        """Return how the cap of a dataset stands, or None when it has none."""
        with self._store.reading() as connection:
            holder = cap_of(connection, dataset)
            if holder is None:
                return None
            body = connection.execute(select(openings.c.body).where(openings.c.holder == holder)).scalar_one()
            charged = select(func.coalesce(func.sum(accounts.c.charges), 0)).where(accounts.c.dataset == dataset)
            charges = int(connection.execute(charged).scalar_one())
            return status_of(Terms.read(body), WHOLE_LIFE, spent_of(connection, holder, WHOLE_LIFE), charges)

    def joint(self, dataset: str, *, delta: float | None = None, periods: int = 1) -> Joint:
        """Return what all accounts on a dataset promise together, should their analysts collude.

        `delta` is the sum of the accounts' deltas unless given. Accounts with periods count for `periods` of them.
        """
        with self._store.reading() as connection:
            found = (
                select(openings.c.body)
                .join(accounts, accounts.c.holder == openings.c.holder)
                .where(accounts.c.dataset == check_name(dataset, "dataset"))
            )
            terms = [Terms.read(body) for body in connection.execute(found).scalars()]
        return joint_of(dataset, terms, self.cap(dataset), delta=delta, periods=periods)

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

    def _open_account(self, terms: Terms) -> AccountStatus:
        with self._store.writing() as connection:
            if connection.execute(select(accounts.c.holder).where(accounts.c.name == terms.name)).first():
                raise AccountExists(f"an account {terms.name!r} is open already; choose another name")
            terms = replace(terms, cap=cap_of(connection, terms.dataset))
            write_opening(connection, terms, microseconds(self._clock.now()))
        return self.account(terms.name).status()


def _given(promise: ZcdpFilter) -> Answer:
    return Answer(
        promise.epsilon, promise.epsilon, Interaction.ADAPTIVE, "zcdp-filter", "WhitehouseRaRoWu23 with CanonneKaSt20"
    )
