"""The Python client: a connection to a service, and its data sets with the calls and results of a local session.

It asks again under the same key when a connection is lost, so that nothing is paid for twice.
"""

import json
import secrets
import time
from collections.abc import Callable, Sequence
from datetime import date
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict, Unpack
from urllib.parse import quote, urlencode, urlsplit

from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.askable import Askable, SqlWords, parted
from setwise.analytics.budget import AskedBudget
from setwise.analytics.planning import Plan
from setwise.analytics.query import Domain, Query
from setwise.analytics.sql.result import Output, SqlAnswer
from setwise.analytics.tables.domain import read_domain
from setwise.client.steward import (
    AccountRecord,
    DatasetRecord,
    PersonRecord,
    SeriesRecord,
    SeriesValuesRecord,
    Steward,
)
from setwise.errors import EngineFailed, InvalidParameter, MissingExtra, Unavailable, error_of
from setwise.ledger.records import canonical
from setwise.mechanisms.labels import Label

if TYPE_CHECKING:
    import httpx

_LOOPBACK = {"127.0.0.1", "::1", "localhost"}
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0
_TRY_AGAIN = {429, 502, 503, 504}
_PAGE = 1000
"""Accounts that are asked for at a time, the most that the service lists."""

_REFUSED_PATIENCE = 3.0
"""How long a request is tried that no replica has received."""


def connect(url: str | Sequence[str], *, token: str, patience: float = 60.0) -> "Client":
    """Connect to a service with a token that a steward has given.

    `url` is the service's address, or those of several replicas, which are tried in turn. For `patience` seconds lost
    connections and busy replicas are tried again, always under the same idempotency key. A request that could not be
    sent at all, because nobody accepts the connection, is given up after 3 seconds: nothing is under way. Queries that
    are, ride out a replica's restart.

        events = setwise.connect("https://setwise.example", token=...).dataset("events")
        events.top_k(item="word", k=10, discover="bounded-range:0.1", counts="pure:0.1", delta=1e-9)
    """
    return Client([url] if isinstance(url, str) else list(url), token=token, patience=patience)


class Client:
    """A connection to a service; `connect` makes one."""

    def __init__(
        self,
        urls: Sequence[str],
        *,
        token: str,
        patience: float,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        try:
            import httpx
        except ModuleNotFoundError:
            raise MissingExtra("the client needs httpx: pip install 'setwise[client]'") from None
        if not urls:
            raise InvalidParameter("give the address of the service, such as https://setwise.example")
        self._addresses = [_checked(url) for url in urls]
        self._client: httpx.Client = httpx.Client(
            headers={"Authorization": f"Bearer {token}"}, timeout=httpx.Timeout(30.0, connect=5.0)
        )
        self._lost: type[Exception] = httpx.TransportError
        self._not_sent: tuple[type[Exception], ...] = (httpx.ConnectError, httpx.ConnectTimeout)
        self._patience = patience
        self._monotonic = monotonic
        self._sleep = sleep

    def __repr__(self) -> str:
        return f"<setwise client of {self._addresses[0]}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    @property
    def steward(self) -> Steward:
        """What stewards do: people, tokens, data sets, accounts, audit and trail."""
        return Steward(self)

    def me(self) -> PersonRecord:
        """Return whose token this is."""
        return self.request("GET", "/me")

    def datasets(self) -> list[DatasetRecord]:
        """Return what can be asked about."""
        return self.request("GET", "/datasets")

    def accounts(self) -> list[AccountRecord]:
        """Return how one's accounts stand, without their odometers; a steward gets everybody's."""
        found: list[AccountRecord] = []
        while True:
            after = f"&after={quote(found[-1]['account'])}" if found else ""
            page: list[AccountRecord] = self.request("GET", f"/accounts?most={_PAGE}{after}")
            found += page
            if len(page) < _PAGE:
                return found

    def live(self) -> list[SeriesRecord]:
        """Return the live series that one's accounts have paid for."""
        return self.request("GET", "/live")

    def series(self, name: str) -> "RemoteSeries":
        """Return a live series by its name."""
        return RemoteSeries(self, name)

    def dataset(self, name: str, *, account: str | None = None) -> "RemoteDataset":
        """Return a data set to ask, paid for by an account: the named one, or the only one there is for it."""
        if account is None:
            mine = [each["account"] for each in self.accounts() if each["dataset"] == name]
            if len(mine) != 1:
                there = ", ".join(map(repr, mine)) or "none"
                raise InvalidParameter(f"name the account that pays for questions to {name!r}: you have {there}")
            (account,) = mine
        return RemoteDataset(self, name, account)

    def request(self, method: str, path: str, body: object = None, *, key: str | None = None) -> Any:  # noqa: ANN401
        """Return the JSON that a route answers with, or raise the error of the tree that its problem stands for.

        Lost connections and busy replicas are tried again for as long as `patience` allows, and less long while no
        replica has received the request, unless it asks after a query that one of them has.
        """
        headers = {} if key is None else {"Idempotency-Key": key}
        content = None if body is None else json.dumps(body, allow_nan=False).encode()
        if content is not None:
            headers["Content-Type"] = "application/json"
        began, pause, tried = self._monotonic(), _FIRST_PAUSE, 0
        patience = self._patience if path.startswith("/queries/") else min(self._patience, _REFUSED_PATIENCE)
        while True:
            tried += 1
            url = f"{self._addresses[0]}/api/v1{path}"
            try:
                response = self._client.request(method, url, content=content, headers=headers)
            except self._lost as error:
                if not isinstance(error, self._not_sent):
                    patience = self._patience
                if self._monotonic() - began >= patience and tried >= len(self._addresses):
                    raise Unavailable(f"the service at {self._addresses[0]} cannot be reached; try again") from None
                self._addresses.append(self._addresses.pop(0))
            else:
                patience = self._patience
                if response.status_code not in _TRY_AGAIN or self._monotonic() - began >= patience:
                    return _read(response)
            self._sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def wait(self, query: dict[str, Any]) -> dict[str, Any]:
        """Return a query when it has ended; interrupting the wait cancels it."""
        pause = _FIRST_PAUSE
        path = f"/queries/{query['id']}"
        try:
            while query["state"] == "running":
                self._sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                query = self.request("GET", path)
        except KeyboardInterrupt:
            self.request("DELETE", path)
            raise
        return query


def _checked(url: str) -> str:
    """Return an address without its last slash, or raise `InvalidParameter` for one that would show the token."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InvalidParameter(f"the address of a service must be https://..., not {url!r}")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise InvalidParameter(f"a token must not travel unencrypted: use https://, not {url!r}")
    return url.rstrip("/")


def _read(response: "httpx.Response") -> Any:  # noqa: ANN401 - JSON
    try:
        found = response.json()
    except ValueError:
        found = None
    if response.is_success and found is not None:
        return found
    if not isinstance(found, dict):
        raise Unavailable(f"the service answered {response.status_code} without saying why; is the address right?")
    raise error_of(found)


class SeriesWords(TypedDict, total=False):
    """The words of a live series: those of `setwise.live.open_live`."""

    item: str
    at: str
    every: str
    start: str | date
    periods: int
    contributions: int | None
    epsilon: float | None
    delta: float | None
    counts: str | None
    purpose: str
    window: int | None
    where: str | None
    domain: Domain | None
    late_days: int


class RemoteDataset(Askable):
    """A data set of a service and the account that pays; `Client.dataset` returns one.

    The calls are those of a local session on an account. Bounds that are left out are those that the steward has
    registered.
    """

    def __init__(self, client: Client, name: str, account: str) -> None:
        self._client = client
        self._name = name
        self._account = account

    def __repr__(self) -> str:
        return f"<setwise data set {self._name!r}, paid for by {self._account!r}>"

    def open_live(self, name: str, **words: Unpack[SeriesWords]) -> "RemoteSeries":
        """Open a live series on the data set, paid for once by the account; again with the same words it is free."""
        given: dict[str, Any] = {key: value for key, value in words.items() if value is not None}
        if "domain" in given:
            given["domain"] = list(self.read_domain(given["domain"]))
        if "start" in given:
            given["start"] = str(given["start"])
        body = {"name": name, "dataset": self._name, "account": self._account, **given}
        self._client.request("POST", "/live", body)
        return RemoteSeries(self._client, name)

    def standing(self) -> dict[str, Any]:
        """Return how the account stands."""
        return self._client.request("GET", f"/accounts/{self._account}")

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
        return SqlAnswer(
            answer=_answer(ended),
            outputs=tuple(Output(**each) for each in ended["columns"]),
            computed=tuple(ended["rows"]),
            problem=ended.get("row_problem", ""),
        )

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


class RemoteSeries:
    """A live series of a service; `Client.series` and `RemoteDataset.open_live` return one."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = name

    def __repr__(self) -> str:
        return f"<setwise live series {self.name!r} of a service>"

    def update(self, until: str | date | None = None) -> list[str]:
        """Release every period that has ended, and return their first days; nothing is charged."""
        body = {} if until is None else {"until": str(until)}
        released: list[str] = self._client.request("POST", f"/live/{quote(self.name)}/update", body)["released"]
        return released

    def view(self, *, window: int | None = None, items: Sequence[str | int] = ()) -> SeriesValuesRecord:
        """Return what was released, as totals or as windows of so many periods; free."""
        words = [("item", str(item)) for item in items] + ([] if window is None else [("window", str(window))])
        asked = f"?{urlencode(words)}" if words else ""
        return self._client.request("GET", f"/live/{quote(self.name)}{asked}")

    def close(self) -> SeriesRecord:
        """End the series for good; what was released stays."""
        return self._client.request("DELETE", f"/live/{quote(self.name)}")


def _answer(ended: dict[str, Any]) -> PrivateAnswer:
    return PrivateAnswer.from_stored(canonical(ended["answer"]))
