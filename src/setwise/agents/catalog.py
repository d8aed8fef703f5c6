"""The tables that an agent may ask: of this machine, each on an account of a ledger, or of a service."""

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from setwise.analytics.execute import padded
from setwise.errors import UnknownName

if TYPE_CHECKING:
    from setwise.analytics.budget import BudgetWords
    from setwise.analytics.session import Session
    from setwise.client.client import Client, RemoteDataset
    from setwise.ledger.account import Account

T = TypeVar("T")

Told = dict[str, Any]
"""What a tool returns: plain values."""


class Catalog(Protocol):
    """The tables that may be asked, and the account that pays for each."""

    def datasets(self) -> list[Told]:
        """Return the tables by name."""
        ...

    def describe(self, dataset: str) -> Told:
        """Return the columns of a table and their kinds."""
        ...

    def preview(self, dataset: str, sql: str, words: "BudgetWords") -> Told:
        """Return what a SELECT would cost and how far off it would be; free, no row is read."""
        ...

    def ask(self, dataset: str, sql: str, words: "BudgetWords", key: str) -> Told:
        """Charge the account, and return the rows."""
        ...

    def balance(self, dataset: str) -> Told:
        """Return how the account stands that pays for a table."""
        ...


class LocalTables:
    """Tables of this machine, each a session on an account.

    One question runs at a time. Its answer or refusal leaves `answer_step` seconds times a power of two after it came,
    so that its time tells little about the rows.
    """

    def __init__(
        self,
        sessions: "Mapping[str, Session]",
        account: "Account",
        *,
        answer_step: float = 0.1,
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sessions = sessions
        self._account = account
        self._answer_step = answer_step
        self._sleep = sleep
        self._monotonic = monotonic
        self._turn = threading.Lock()

    def datasets(self) -> list[Told]:
        """Return the names; all are paid for by the same account."""
        return [{"name": name, "account": self._account.name} for name in self._sessions]

    def describe(self, dataset: str) -> Told:
        """Return the columns and their kinds, which are public."""
        schema = self._session(dataset).schema
        return {"name": dataset, "columns": [{"name": each.name, "kind": str(each.kind)} for each in schema]}

    def preview(self, dataset: str, sql: str, words: "BudgetWords") -> Told:
        """Return the plan of a SELECT and, where the account cannot pay, what it lacks."""
        with self._turn:
            plan = self._session(dataset).explain(sql, **words)
            return {**plan.to_dict(), "shortage": self._account.shortage(plan.uses)}

    def ask(self, dataset: str, sql: str, words: "BudgetWords", key: str) -> Told:
        """Ask under a key; the same question under the same key is the same answer, for free."""
        session = self._session(dataset)
        with self._turn:
            began = self._monotonic()
            try:
                return session.sql(sql, key=key, **words).to_dict()
            finally:
                taken = self._monotonic() - began
                self._sleep(padded(taken, self._answer_step) - taken)

    def balance(self, dataset: str) -> Told:
        """Return how the account stands."""
        self._session(dataset)
        with self._turn:
            return self._account.status().to_dict()

    def _session(self, dataset: str) -> "Session":
        return _named(self._sessions, dataset)


class ServiceTables:
    """Tables of a service, asked with one person's token; the service keeps accounts, bounds and times of answers."""

    def __init__(self, client: "Client", account: str | None = None) -> None:
        self._client = client
        self._account = account

    def datasets(self) -> list[Told]:
        """Return the names of what the person may ask."""
        return [{"name": each["name"]} for each in self._client.datasets()]

    def describe(self, dataset: str) -> Told:
        """Return what the service says of a data set."""
        return _named({each["name"]: {**each} for each in self._client.datasets()}, dataset)

    def preview(self, dataset: str, sql: str, words: "BudgetWords") -> Told:
        """Return the plan of a SELECT."""
        return self._remote(dataset).explain(sql, **words).to_dict()

    def ask(self, dataset: str, sql: str, words: "BudgetWords", key: str) -> Told:
        """Ask under a key."""
        return self._remote(dataset).sql(sql, key=key, **words).to_dict()

    def balance(self, dataset: str) -> Told:
        """Return how the account stands."""
        return self._remote(dataset).standing()

    def _remote(self, dataset: str) -> "RemoteDataset":
        return self._client.dataset(dataset, account=self._account)


def _named(there: Mapping[str, T], name: str) -> T:
    if name not in there:
        raise UnknownName(f"there is no dataset {name!r}: {', '.join(there) or 'none'} can be asked")
    return there[name]
