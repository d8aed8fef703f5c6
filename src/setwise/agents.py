"""A Model Context Protocol server: an agent asks tables as an analyst does, within an account's budget.

The tables are of this machine, each on an account of a ledger, or of a service. They are asked by seven tools, on
standard input or over HTTP behind a token.
"""

import functools
import hmac
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field
from starlette.types import ASGIApp, Receive, Scope, Send

from setwise import __version__
from setwise.analytics.budget import BudgetWords
from setwise.analytics.execute import padded
from setwise.analytics.query import STATISTICS
from setwise.errors import SetwiseError, UnknownName

if TYPE_CHECKING:
    from setwise.analytics.session import Session
    from setwise.client.client import Client, RemoteDataset
    from setwise.ledger.account import Account
    from setwise.ledger.ledger import Ledger
    from setwise.live.series import LiveSeries

T = TypeVar("T")
P = ParamSpec("P")

Told = dict[str, Any]
"""What a tool returns: plain values."""


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
        ledger: "Ledger | None" = None,
    ) -> None:
        self._sessions = sessions
        self._ledger = ledger
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

    def preview(self, dataset: str, sql: str, words: BudgetWords) -> Told:
        """Return the plan of a SELECT and, where the account cannot pay, what it lacks."""
        with self._turn:
            plan = self._session(dataset).explain(sql, **words)
            uses = plan.uses
            told = {"shortage": self._account.shortage(uses), "warning": self._account.warning(uses)}
            return {**plan.to_dict(), **told}

    def ask(self, dataset: str, sql: str, words: BudgetWords, key: str) -> Told:
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

    def series(self) -> list[Told]:
        """Return the live series that this account has paid for, or that have brought a budget of their own."""
        return [_series_told(each) for each in self._series().values()]

    def show_series(self, name: str, window: int | None, items: list[str]) -> Told:
        """Return what a live series has released."""
        found = self._series()
        if name not in found:
            raise UnknownName(f"there is no live series {name!r}: {', '.join(found) or 'none'} can be shown")
        return found[name].view(window=window, items=items).to_dict()

    def _series(self) -> "dict[str, LiveSeries]":
        from setwise.live.series import list_live

        every = () if self._ledger is None else list_live(self._ledger)
        mine = (each for each in every if each.opening.own_account or each.opening.account == self._account.name)
        return {each.name: each for each in mine}

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

    def preview(self, dataset: str, sql: str, words: BudgetWords) -> Told:
        """Return the plan of a SELECT."""
        return self._remote(dataset).explain(sql, **words).to_dict()

    def ask(self, dataset: str, sql: str, words: BudgetWords, key: str) -> Told:
        """Ask under a key."""
        return self._remote(dataset).sql(sql, key=key, **words).to_dict()

    def balance(self, dataset: str) -> Told:
        """Return how the account stands."""
        return self._remote(dataset).standing()

    def series(self) -> list[Told]:
        """Return the live series that the person's accounts have paid for."""
        return [{**each} for each in self._client.live()]

    def show_series(self, name: str, window: int | None, items: list[str]) -> Told:
        """Return what a live series has released."""
        return {**self._client.series(name).view(window=window, items=items)}

    def _remote(self, dataset: str) -> "RemoteDataset":
        return self._client.dataset(dataset, account=self._account)


def _series_told(series: "LiveSeries") -> Told:
    terms = series.terms
    told = {"name": terms.name, "item": terms.item, "every": terms.every, "start": terms.start.isoformat()}
    return {**told, "periods": terms.periods, "unit": terms.unit, "closed": series.is_closed}


Catalog = LocalTables | ServiceTables
"""The tables that may be asked, and the account that pays for each."""


def _named(there: Mapping[str, T], name: str) -> T:
    if name not in there:
        raise UnknownName(f"there is no dataset {name!r}: {', '.join(there) or 'none'} can be asked")
    return there[name]


_FUNCTIONS = ", ".join(name for statistic in STATISTICS.values() for name in statistic.sql)

INSTRUCTIONS = f"""\
Answers are differentially private: each is a noisy number with an interval that holds with the confidence it states.
Every answer spends budget that does not come back. Describe the dataset, preview a question until it is good enough,
then ask it once, under a key of your own. Asking again under the same key returns the same answer for free.
Questions are one SELECT: COUNT(*), COUNT(DISTINCT user), {_FUNCTIONS} and APPROX_QUANTILES
with bounds, GROUP BY, WHERE, ORDER BY .. DESC LIMIT. Several quantiles of a column cost less in one SELECT than one by
one. Groups with few users do not appear.\
"""

Dataset = Annotated[str, Field(description="The name of a dataset, from list_datasets.")]
Sql = Annotated[
    str,
    Field(
        description="One SELECT, e.g. SELECT country, COUNT(DISTINCT user_id) AS users FROM visits GROUP BY country. "
        "Sums and means need bounds: AVG(minutes, contribution_bounds_per_group => (0, 600)), or AUTO to find them."
    ),
]
Key = Annotated[
    str, Field(description="A name for this question, new for each new one; the same key replays its answer.")
]
Epsilon = Annotated[float | None, Field(description="The budget of this question, unless the account has draws.")]
Delta = Annotated[float | None, Field(description="The failure probability of this question, e.g. 1e-9.")]
Discover = Annotated[str | None, Field(description="Registered draw for each group found, e.g. bounded-range:0.1.")]
Counts = Annotated[str | None, Field(description="Registered draw for each count, e.g. pure:0.1.")]

Series = Annotated[str, Field(description="The name of a live series, from list_series.")]
Window = Annotated[int | None, Field(description="New users of the last so many periods, instead of totals.")]
Items = Annotated[list[str] | None, Field(description="These items only.")]

_FREE = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_SPENDS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)


def agent_server(catalog: Catalog) -> MCPServer:
    """Return a server with seven tools over a catalog.

    They are list_datasets, describe, preview, ask and balance, and list_series and show_series for live series.
    """
    server = MCPServer("setwise", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING")

    def list_datasets() -> list[Told]:
        """List the datasets that can be asked."""
        return catalog.datasets()

    def describe(dataset: Dataset) -> Told:
        """Describe a dataset: its columns and their kinds. Free."""
        return catalog.describe(dataset)

    def preview(
        dataset: Dataset,
        sql: Sql,
        epsilon: Epsilon = None,
        delta: Delta = None,
        discover: Discover = None,
        counts: Counts = None,
    ) -> Told:
        """Say what a question would cost and how far off its answer may be. Free: no row is read."""
        return catalog.preview(dataset, sql, _words(epsilon, delta, discover, counts))

    def ask(
        dataset: Dataset,
        sql: Sql,
        key: Key,
        epsilon: Epsilon = None,
        delta: Delta = None,
        discover: Discover = None,
        counts: Counts = None,
    ) -> Told:
        """Answer a question with noise, and charge the account. Spends budget: preview it first."""
        return catalog.ask(dataset, sql, _words(epsilon, delta, discover, counts), key)

    def balance(dataset: Dataset) -> Told:
        """Say what is left in the account that pays for a dataset. Free."""
        return catalog.balance(dataset)

    def list_series() -> list[Told]:
        """List the live series: numbers over time that were paid for once. Free."""
        return catalog.series()

    def show_series(series: Series, window: Window = None, items: Items = None) -> Told:
        """Show what a live series has released: totals, or windows, with intervals. Free: look here before you ask."""
        return catalog.show_series(series, window, items or [])

    for tool in (list_datasets, describe, preview, balance, list_series, show_series):
        server.add_tool(_refusing(tool), annotations=_FREE)
    server.add_tool(_refusing(ask), annotations=_SPENDS)
    return server


def _words(epsilon: float | None, delta: float | None, discover: str | None, counts: str | None) -> BudgetWords:
    given = {"epsilon": epsilon, "delta": delta, "discover": discover, "counts": counts}
    return {name: value for name, value in given.items() if value is not None}  # type: ignore[return-value]


def _refusing(tool: Callable[P, T]) -> Callable[P, T]:
    """Return the tool with errors of ours as refusals the agent reads; others are told by name only."""

    @functools.wraps(tool)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return tool(*args, **kwargs)
        except SetwiseError as error:
            raise ToolError(str(error)) from None

    return called


def behind_token(app: ASGIApp, token: str) -> ASGIApp:
    """Return the application for those who bring the token: others are answered 401, and reach nothing."""
    wanted = f"Bearer {token}".encode()

    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
            return
        brought = dict(scope["headers"]).get(b"authorization", b"")
        if scope["type"] == "http" and hmac.compare_digest(brought, wanted):
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 401, "headers": [(b"www-authenticate", b"Bearer")]})
        await send({"type": "http.response.body", "body": b""})

    return guarded
