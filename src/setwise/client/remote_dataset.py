"""A data set of a service, asked as a local session is."""

import secrets
from typing import Any, Protocol, Unpack

from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.askable import Askable, SqlWords, parted
from setwise.analytics.budget import AskedBudget
from setwise.analytics.planning import Plan
from setwise.analytics.query import Domain, Query
from setwise.analytics.sql.result import Output, SqlAnswer
from setwise.analytics.tables.domain import read_domain
from setwise.errors import EngineFailed, error_of
from setwise.ledger.records import canonical
from setwise.mechanisms.labels import Label


class Connection(Protocol):
    """What is needed of a client: requests that are tried again, and waiting for a query to end."""

    def request(self, method: str, path: str, body: object = None, *, key: str | None = None) -> Any:  # noqa: ANN401
        """Return the JSON that a route answers with, or raise the error that its problem stands for."""
        ...

    def wait(self, query: dict[str, Any]) -> dict[str, Any]:
        """Return a query when it has ended."""
        ...


class RemoteDataset(Askable):
    """A data set of a service and the account that pays; `Client.dataset` returns one.

    The calls are those of a local session on an account. Bounds that are left out are those that the steward has
    registered.
    """

    def __init__(self, client: Connection, name: str, account: str) -> None:
        self._client = client
        self._name = name
        self._account = account

    def __repr__(self) -> str:
        return f"<setwise data set {self._name!r}, paid for by {self._account!r}>"

    def standing(self) -> dict[str, Any]:
        """Return how the account stands."""
        found: dict[str, Any] = self._client.request("GET", f"/accounts/{self._account}")
        return found

    def read_domain(self, domain: Domain) -> tuple[Label, ...]:
        """Return public labels from a list or a file on this machine."""
        return read_domain(domain)

    def preview(self, query: Query, budget: AskedBudget) -> Plan:
        """Return what a question would cost and how far off its answer may be; free, and no data is touched."""
        return Plan.from_dict(self._client.request("POST", "/preview", self._body(query.to_dict(), budget)))

    def ask(self, query: Query, budget: AskedBudget, *, key: str | None = None) -> PrivateAnswer:
        """Ask a question given as records, under a key of its own unless one is given, and wait for its answer."""
        return _answer(self._ended(self._body(query.to_dict(), budget), key))

    def sql(self, text: str, *, key: str | None = None, **words: Unpack[SqlWords]) -> SqlAnswer:
        """Return the answer to one SELECT from the data set, as columns and rows.

        What may be spent stands in the clause ``WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = .., delta = ..)`` or in
        the words, not in both.
        """
        ended = self._ended(self._sql_body(text, words), key)
        return SqlAnswer(answer=_answer(ended), outputs=tuple(Output(**each) for each in ended["columns"]))

    def explain(self, text: str, **words: Unpack[SqlWords]) -> Plan:
        """Return how a SELECT would be answered, and what it would cost; free, and no data is touched."""
        return Plan.from_dict(self._client.request("POST", "/preview", self._sql_body(text, words)))

    def _ended(self, body: dict[str, object], key: str | None) -> dict[str, Any]:
        """Ask, wait, and return the query with its answer, or raise what it ended in."""
        key = secrets.token_hex(16) if key is None else key
        ended = self._client.wait(self._client.request("POST", "/queries", body, key=key))
        if ended["problem"] is not None:
            raise error_of(ended["problem"])
        if ended["answer"] is None:
            raise EngineFailed("the query was cancelled; ask again under the same key")
        return ended

    def _sql_body(self, text: str, words: SqlWords) -> dict[str, object]:
        given, spent = parted(words)
        if given.get("domain") is not None:
            given["domain"] = self.read_domain(given["domain"])
        stated = {name: value for name, value in given.items() if value is not None}
        return self._body({"kind": "sql", "text": text, **stated}, self.budget(spent) if spent else None)

    def _body(self, query: dict[str, object], budget: AskedBudget | None) -> dict[str, object]:
        spend = {} if budget is None else {"spend": budget.to_dict()}
        return {"dataset": self._name, "account": self._account, "query": query, **spend}


def _answer(ended: dict[str, Any]) -> PrivateAnswer:
    return PrivateAnswer.from_stored(canonical(ended["answer"]))
