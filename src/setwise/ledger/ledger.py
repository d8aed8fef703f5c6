"""The front door: open accounts, find them, see how they stand."""

from collections.abc import Iterable
from dataclasses import replace
from types import TracebackType
from typing import Self

from sqlalchemy import Connection, insert, select

from setwise.accounting.answer import Answer
from setwise.accounting.compose import as_uses, compose
from setwise.accounting.filter import ZcdpFilter
from setwise.accounting.guarantees import Guarantee
from setwise.accounting.interaction import Interaction
from setwise.accounting.moments import zero_concentrated
from setwise.accounting.use import Use, merged
from setwise.errors import AccountExists, InvalidParameter, UnknownAccount
from setwise.ledger.account import Account
from setwise.ledger.address import connect
from setwise.ledger.canonical import NOTHING_BEFORE
from setwise.ledger.clock import Clock, SystemClock, microseconds
from setwise.ledger.parts import totals_of
from setwise.ledger.period import WHOLE_LIFE, Period, parse_period
from setwise.ledger.standing import Standing
from setwise.ledger.store import Store
from setwise.ledger.tables import accounts, lines, openings
from setwise.ledger.terms import Terms, opening_hash
from setwise.ledger.text import check_label, check_name


class Ledger:
    """Accounts, charges and stored answers, kept in one database.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Ledger.open(f"{folder.name}/ledger.db") as ledger:
    ...     standing = ledger.open_filter("ada", epsilon=1.0, delta=1e-6, dataset="visits")
    >>> standing.kind, standing.epsilon.upper, standing.charges
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
    ) -> Standing:
        """Open an account that draws, in any order and without replacement, from the uses registered here.

        The overall epsilon at `delta` is certified now, by the set-wise optimum. With `period` ("month", say), each
        calendar period (UTC) has all the uses anew, and the promise is per period.
        """
        registered = merged(as_uses(uses))
        epsilon = compose(registered, Interaction.SETWISE).epsilon(delta)
        fails = any(zero_concentrated(use.guarantee).delta for use in registered)
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
    ) -> Standing:
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
            if _cap_of(connection, dataset) is not None:
                raise InvalidParameter(f"the dataset {dataset!r} has a cap already, and a cap is set once")
            if connection.execute(select(accounts.c.name).where(accounts.c.dataset == dataset).limit(1)).first():
                raise InvalidParameter(
                    f"the dataset {dataset!r} has accounts already; a cap is set before the first is opened"
                )
            self._write_opening(connection, terms)

    def account(self, name: str) -> Account:
        """Return the account of that name, or raise `UnknownAccount`."""
        with self._store.reading() as connection:
            found = (
                select(openings.c.holder, openings.c.body)
                .join(accounts, accounts.c.holder == openings.c.holder)
                .where(accounts.c.name == name)
            )
            row = connection.execute(found).one_or_none()
            if row is None:
                raise UnknownAccount(
                    f"there is no account {name!r} in the ledger {self._store.address}; setwise ledger open makes one"
                )
            terms = Terms.read(row.body)
            cap = None
            if terms.cap is not None:
                body = connection.execute(select(openings.c.body).where(openings.c.holder == terms.cap)).scalar_one()
                cap = Terms.read(body).totals
        return Account(self._store, self._clock, row.holder, terms, cap)

    def accounts(self) -> tuple[Standing, ...]:
        """Return how every account stands, in the order of their names."""
        with self._store.reading() as connection:
            names = connection.execute(select(accounts.c.name).order_by(accounts.c.name)).scalars().all()
        return tuple(self.account(name).standing() for name in names)

    def _open_account(self, terms: Terms) -> Standing:
        with self._store.writing() as connection:
            if connection.execute(select(accounts.c.holder).where(accounts.c.name == terms.name)).first():
                raise AccountExists(f"an account {terms.name!r} is open already; choose another name")
            terms = replace(terms, cap=_cap_of(connection, terms.dataset))
            holder, at, hashed = self._write_opening(connection, terms)
            connection.execute(
                insert(accounts),
                {
                    "holder": holder,
                    "name": terms.name,
                    "kind": terms.kind,
                    "dataset": terms.dataset,
                    "cap": terms.cap,
                    "entries": 0,
                    "charges": 0,
                    "head": hashed,
                    "at": at,
                    "period": WHOLE_LIFE,
                },
            )
        return self.account(terms.name).standing()

    def _write_opening(self, connection: Connection, terms: Terms) -> tuple[int, int, str]:
        """Append to the chain of openings; return the holder, the stamp and the hash."""
        last = connection.execute(
            select(openings.c.holder, openings.c.hash, openings.c.at).order_by(openings.c.holder.desc()).limit(1)
        ).one_or_none()
        holder, previous = (1, NOTHING_BEFORE) if last is None else (last.holder + 1, last.hash)
        at, body = microseconds(self._clock.now()), terms.body()
        hashed = opening_hash(previous, holder, at, body)
        record = {"holder": holder, "kind": terms.kind, "name": terms.name, "at": at, "body": body}
        totals = terms.lines()
        connection.execute(insert(openings), {**record, "lines": len(totals), "previous": previous, "hash": hashed})
        connection.execute(
            insert(lines),
            [
                {"holder": holder, "what": what, "place": place, "total": total}
                for place, (what, total) in enumerate(totals.items())
            ],
        )
        return holder, at, hashed


def _given(promise: ZcdpFilter) -> Answer:
    return Answer(
        promise.epsilon, promise.epsilon, Interaction.ADAPTIVE, "zcdp-filter", "WhitehouseRaRoWu23 with CanonneKaSt20"
    )


def _cap_of(connection: Connection, dataset: str) -> int | None:
    found = select(openings.c.holder).where(openings.c.kind == "cap", openings.c.name == dataset)
    return connection.execute(found).scalar_one_or_none()
