"""The Python client of a service: connection, timeouts and retries, datasets, questions, and live series.

If a connection is lost, the client repeats the request under the same idempotency key, so that nothing is charged
twice.
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
from setwise.analytics.askable import Askable, SqlWords, split_budget
from setwise.analytics.budget import AskedBudget
from setwise.analytics.planning.plan import Plan
from setwise.analytics.query import Domain, Query
from setwise.analytics.sql.result import Output, SqlAnswer
from setwise.analytics.tables.domain import read_domain
from setwise.client.steward import Steward
from setwise.contract import (
    IDEMPOTENCY_HEADER,
    AccountRecord,
    CancelledRecord,
    DatasetRecord,
    PersonRecord,
    PreviewRecord,
    QueryRecord,
    ReleasedRecord,
    SeriesRecord,
    SeriesValuesRecord,
)
from setwise.errors import EngineFailed, InvalidParameter, MissingExtra, Unavailable, error_of
from setwise.mechanisms.labels import Label

if TYPE_CHECKING:
    import httpx

_LOOPBACK = {"127.0.0.1", "::1", "localhost"}
"""Hosts on this machine, to which a token may be sent without encryption."""

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0
"""Seconds before a request or a poll is repeated: the first pause, which doubles each time, and the longest."""

_TRY_AGAIN = {429, 502, 503, 504}
"""Statuses of responses after which a request is repeated: the replica, or a proxy before it, is busy or restarts."""

_PAGE = 1000
"""Accounts that one request asks for, the most that the service returns."""

_REFUSED_PATIENCE = 3.0
"""Seconds for which a request is repeated that no replica has received."""


def connect(url: str | Sequence[str], *, token: str, patience: float = 60.0) -> "Client":
    """Connect to a service with a `token` that a steward has given, and return the client.

    - `url`: the address of the service, or a list of the addresses of its replicas (processes of the service), which
      are tried in turn
    - `patience`: if the connection is lost or the replica is busy, a request is repeated for at most this many seconds,
      always under one idempotency key, so that nothing is charged twice

    Requests raise `Unavailable` after `patience` seconds, or after 3 seconds if no replica accepts the connection.

    Raises `InvalidParameter` for an address that would send the token without encryption, and `MissingExtra` if httpx
    is not installed.

        events = setwise.connect("https://setwise.example", token=...).dataset("events")
        events.top_k(item="word", k=10, discover="bounded-range:0.1", counts="pure:0.1", delta=1e-9)
    """
    return Client([url] if isinstance(url, str) else list(url), token=token, patience=patience)


class Client:
    """A client of a Setwise service, with its address and token; `connect` returns one."""

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
        self._addresses = [_check_address(url) for url in urls]
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
        """Close the HTTP connections to the service."""
        self._client.close()

    @property
    def steward(self) -> Steward:
        """The calls that only a steward may make, about people, tokens, datasets, accounts and the audit log."""
        return Steward(self)

    def me(self) -> PersonRecord:
        """Return the name and role of the person who owns the client's token."""
        return self.request("GET", "/me")

    def datasets(self) -> list[DatasetRecord]:
        """Return the datasets of the service, each with the columns that questions may use."""
        return self.request("GET", "/datasets")

    def accounts(self) -> list[AccountRecord]:
        """Return the status of each account of the person who owns the client's token; a steward gets every account.

        The odometers (bounds on the epsilon of all answers so far) are left out, because they take time to compute.
        """
        accounts: list[AccountRecord] = []
        while True:
            after = f"&after={quote(accounts[-1]['account'])}" if accounts else ""
            page: list[AccountRecord] = self.request("GET", f"/accounts?most={_PAGE}{after}")
            accounts += page
            if len(page) < _PAGE:
                return accounts

    def live(self) -> list[SeriesRecord]:
        """Return the record of each live series that was paid by an account of the person who owns the client's token.

        A live series is a set of noisy user counts that is charged once and released period by period.
        """
        return self.request("GET", "/live")

    def series(self, name: str) -> "RemoteSeries":
        """Return an object to use the live series (user counts that are released period by period) called `name`.

        No request is sent, so an unknown name raises `UnknownName` only at the first use of the object.
        """
        return RemoteSeries(self, name)

    def dataset(self, name: str, *, account: str | None = None) -> "RemoteDataset":
        """Return an object to ask questions of the dataset `name`; the account called `account` pays for the questions.

        If `account` is None, the person who owns the client's token pays with their only account on the dataset. Raises
        `InvalidParameter` if the person has no account on the dataset, or several.
        """
        if account is None:
            names = [record["account"] for record in self.accounts() if record["dataset"] == name]
            if len(names) != 1:
                listed = ", ".join(map(repr, names)) or "none"
                raise InvalidParameter(f"name the account that pays for questions to {name!r}: you have {listed}")
            (account,) = names
        return RemoteDataset(self, name, account)

    def request(self, method: str, path: str, body: object = None, *, key: str | None = None) -> Any:  # noqa: ANN401
        """Send a request to the route `path`, with `body` as JSON, and return the JSON of the response.

        `method` is the HTTP method, and `key` the idempotency key, None for requests without one. If the connection is
        lost or the replica is busy, the request is repeated, for at most the seconds that `connect` was given as
        `patience`. Raises the error of `setwise.errors` that the response names, and `Unavailable` if the service
        cannot be reached.
        """
        headers = {} if key is None else {IDEMPOTENCY_HEADER: key}
        content = None if body is None else json.dumps(body, allow_nan=False).encode()
        if content is not None:
            headers["Content-Type"] = "application/json"
        began, pause, attempts = self._monotonic(), _FIRST_PAUSE, 0
        # A replica has received a query before anybody polls it, so a poll is worth the whole patience.
        patience = self._patience if path.startswith("/queries/") else min(self._patience, _REFUSED_PATIENCE)
        while True:
            attempts += 1
            url = f"{self._addresses[0]}/api/v1{path}"
            try:
                response = self._client.request(method, url, content=content, headers=headers)
            except self._lost as error:
                if not isinstance(error, self._not_sent):
                    patience = self._patience
                if self._monotonic() - began >= patience and attempts >= len(self._addresses):
                    raise Unavailable(f"the service at {self._addresses[0]} cannot be reached; try again") from None
                self._addresses.append(self._addresses.pop(0))
            else:
                patience = self._patience
                if response.status_code not in _TRY_AGAIN or self._monotonic() - began >= patience:
                    return _read_response(response)
            self._sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def wait(self, query: QueryRecord) -> QueryRecord:
        """Ask the service for the record of `query` repeatedly until the query has ended; return the last record.

        If the user interrupts the program meanwhile (`KeyboardInterrupt`), the query is cancelled and the interrupt is
        raised again.
        """
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


def _check_address(url: str) -> str:
    """Return `url`, the address of a service, without a slash at its end.

    Raises `InvalidParameter` unless the address is https, or http on this machine, because others on the network could
    read the token.
    """
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InvalidParameter(f"the address of a service must be https://..., not {url!r}")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise InvalidParameter(f"a token must not travel unencrypted: use https://, not {url!r}")
    return url.rstrip("/")


def _read_response(response: "httpx.Response") -> Any:  # noqa: ANN401 - JSON
    """Return the JSON of `response` if its status means success.

    Otherwise raises the error that its problem document (a JSON object about an error) names, and `Unavailable` if the
    response is not JSON.
    """
    try:
        content = response.json()
    except ValueError:
        content = None
    if response.is_success and content is not None:
        return content
    if not isinstance(content, dict):
        raise Unavailable(f"the service answered {response.status_code} without saying why; is the address right?")
    raise error_of(content)


class SeriesWords(TypedDict, total=False):
    """The parameters of a live series: noisy counts of users per group, released at the end of each period.

    - `item`, `at`: the columns with the group and with the time of each row
    - `every`, `start`, `periods`: the length of a period ("day", "week" or "month"), the first day of the first period,
      and the number of periods
    - `contributions`: the most groups in which one user counts
    - `epsilon`, `delta`: what an account with a budget pays once for the whole series
    - `counts`: what an account that pays with registered guarantees pays once for the whole series, as "gaussian:20"
      (noise of 20 times the sensitivity). If the groups are private, it also pays `delta`, the probability that a group
      with only one user is shown
    - `purpose`: which numbers shall have the smallest error: running "totals", single "periods", or "windows" of
      `window` periods
    - `where`: a filter; only rows that satisfy it are counted
    - `domain`: the groups, if they are public
    - `late_days`: how late rows may arrive, in days: an update reads again the rows from this many days before the
      first period that it releases

    A parameter with the value None is left out.
    """

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
    """A dataset of a service, and the account that pays for questions to it; `Client.dataset` returns one.

    Its methods for asking are those of a local `Session` that has an account. If a call leaves out a contribution
    bound, the bound that the steward registered for the dataset applies.
    """

    def __init__(self, client: Client, name: str, account: str) -> None:
        self._client = client
        self._name = name
        self._account = account

    def __repr__(self) -> str:
        return f"<setwise dataset {self._name!r}, paid for by {self._account!r}>"

    def open_live(self, name: str, **words: Unpack[SeriesWords]) -> "RemoteSeries":
        """Open the live series `name` on the dataset, and return it. The account is charged once for the whole series.

        `words` are the parameters of the live series (noisy user counts, released period by period). Opening a series
        again under the same name with the same parameters costs nothing.
        """
        parameters: dict[str, Any] = {key: value for key, value in words.items() if value is not None}
        if "domain" in parameters:
            parameters["domain"] = list(self.read_domain(parameters["domain"]))
        if "start" in parameters:
            parameters["start"] = str(parameters["start"])
        body = {"name": name, "dataset": self._name, "account": self._account, **parameters}
        self._client.request("POST", "/live", body)
        return RemoteSeries(self._client, name)

    def standing(self) -> AccountRecord:
        """Return the status of the account that pays, with its odometers: bounds on the privacy loss of its answers."""
        return self._client.request("GET", f"/accounts/{self._account}")

    def read_domain(self, domain: Domain) -> tuple[Label, ...]:
        """Return the public group labels in `domain`: a list of labels, or the path of a local file that lists them."""
        return read_domain(domain)

    def preview(self, query: Query, budget: AskedBudget) -> Plan:
        """Return the plan of `query` under `budget`: its cost, and the expected error of its answer.

        Nothing is charged, and no row is read.
        """
        return Plan.from_dict(self.preview_record(query, budget))

    def preview_record(self, query: Query, budget: AskedBudget) -> PreviewRecord:
        """Return the service's JSON preview of `query` under `budget`.

        The preview has the plan (cost and expected error), and says whether the account can pay for the plan now.
        Nothing is charged.
        """
        record: PreviewRecord = self._client.request("POST", "/preview", self._body(query.to_dict(), budget))
        return record

    def ask(self, query: Query, budget: AskedBudget, *, key: str | None = None) -> PrivateAnswer:
        """Ask the service `query` under `budget`, wait until the query has ended, and return its answer.

        `key` is the idempotency key: asking again under it returns the stored answer and costs nothing. If it is None,
        a new key is made.
        """
        return _read_answer(self._ask_and_wait(self._body(query.to_dict(), budget), key))

    def sql(self, text: str, *, key: str | None = None, **words: Unpack[SqlWords]) -> SqlAnswer:
        """Ask the SELECT `text` of the dataset, and return its answer as columns and rows.

        The budget is given in the clause ``WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = .., delta = ..)`` or in the
        keyword arguments `words`, such as ``epsilon=1``, but not in both. `key` is the idempotency key; if it is None,
        a new key is made.
        """
        ended = self._ask_and_wait(self._sql_body(text, words), key)
        return SqlAnswer(
            answer=_read_answer(ended),
            outputs=tuple(Output(**column) for column in ended["columns"] or ()),
            computed=tuple(ended["rows"] or ()),
            problem=ended["row_problem"] or "",
            notes=tuple(ended.get("row_notes") or ()),
        )

    def explain(self, text: str, **words: Unpack[SqlWords]) -> Plan:
        """Return the plan of the SELECT `text`: its mechanism, cost and accuracy. Costs nothing and reads no data.

        The keyword arguments `words` are the same as those of `sql`: a budget, a contribution bound, or the public
        group labels.
        """
        return Plan.from_dict(self._client.request("POST", "/preview", self._sql_body(text, words)))

    def _ask_and_wait(self, body: dict[str, object], key: str | None) -> QueryRecord:
        """Send a question to the service, wait until its query has ended; return the query's record with the answer.

        `body` is the JSON body of the request, and `key` the idempotency key. If `key` is None, a new key is made.
        Raises the error with which the query failed, and `EngineFailed` if the query was cancelled.
        """
        key = secrets.token_hex(16) if key is None else key
        ended = self._client.wait(self._client.request("POST", "/queries", body, key=key))
        if ended["problem"] is not None:
            raise error_of({**ended["problem"]})
        if ended["answer"] is None:
            raise EngineFailed("the query was cancelled; ask again under the same key")
        return ended

    def _sql_body(self, text: str, words: SqlWords) -> dict[str, object]:
        """Return the JSON body of a request that asks the SQL statement `text`.

        `words` may have a budget, a contribution bound and a domain (the public group labels). Without a budget in
        `words`, the SQL must state one.
        """
        parameters, spent = split_budget(words)
        if parameters.get("domain") is not None:
            parameters["domain"] = self.read_domain(parameters["domain"])
        stated = {name: value for name, value in parameters.items() if value is not None}
        body = self._body({"kind": "sql", "text": text, **stated}, self.budget(spent) if spent else None)
        spend = body.get("spend")
        if isinstance(spend, dict) and spent.get("delta") is None:
            spend.pop("delta", None)  # the service decides: 1e-6 if the statement has private groups, else 0
        return body

    def _body(self, query: dict[str, object], budget: AskedBudget | None) -> dict[str, object]:
        """Return the JSON body of a request that asks `query` (a dict of its parameters) with `budget`.

        A `budget` of None is left out, because the SQL text in the query states the budget.
        """
        spend = {} if budget is None else {"spend": budget.to_dict()}
        return {"dataset": self._name, "account": self._account, "query": query, **spend}


class RemoteSeries:
    """A live series of a service; `Client.series` and `RemoteDataset.open_live` return one.

    A live series is a set of noisy user counts that is charged once and released period by period.
    """

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = name

    def __repr__(self) -> str:
        return f"<setwise live series {self.name!r} of a service>"

    def update(self, until: str | date | None = None) -> list[str]:
        """Release every period that has ended and was not released before; return the first days of these periods.

        Nothing is charged. A period has ended if its last day is before the day `until`; None means today (UTC).
        """
        body = {} if until is None else {"until": str(until)}
        released: ReleasedRecord = self._client.request("POST", f"/live/{quote(self.name)}/update", body)
        return released["released"]

    def cancel_update(self) -> bool:
        """Stop the running update of this live series; return whether an update was stopped.

        A live series is a set of noisy user counts that is released period by period. A later update releases the
        periods that the stopped update would have released. The result is False if the replica (process of the service)
        that gets the request runs no update of the series.
        """
        stopped: CancelledRecord = self._client.request("DELETE", f"/live/{quote(self.name)}/update")
        return stopped["cancelled"]

    def view(
        self,
        *,
        window: int | None = None,
        items: Sequence[str | int] = (),
        top: int | None = None,
        on: str | date | None = None,
    ) -> SeriesValuesRecord:
        """Return the released numbers (noisy user counts) of the live series. Nothing is charged.

        - `items`: the groups to return; empty means every group
        - `window`: None for running totals of users. Otherwise each number covers this many periods, and counts the
          users who were first counted in one of them
        - `top`: how many groups to return, the largest in the period that begins on the day `on` (None: the last
          period)
        """
        parameters = [("item", str(item)) for item in items]
        for name, value in (("window", window), ("top", top), ("on", on)):
            parameters += [] if value is None else [(name, str(value))]
        selection = f"?{urlencode(parameters)}" if parameters else ""
        return self._client.request("GET", f"/live/{quote(self.name)}{selection}")

    def close(self) -> SeriesRecord:
        """End this live series of noisy user counts for good, and return its record.

        Numbers that were released can still be viewed.
        """
        return self._client.request("DELETE", f"/live/{quote(self.name)}")


def _read_answer(ended: QueryRecord) -> PrivateAnswer:
    """Return the answer in `ended`, the service's record of a query that ended with an answer."""
    assert ended["answer"] is not None, "a query without an answer was refused before"
    return PrivateAnswer.from_record(ended["answer"])
