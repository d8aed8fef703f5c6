"""The tools that an agent is offered, and how they are served: on standard input, or over HTTP behind a token."""

import functools
import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Annotated, Any, ParamSpec, TypeVar

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

from setwise import __version__
from setwise.agents.catalog import Catalog, Told
from setwise.analytics.budget import BudgetWords
from setwise.errors import SetwiseError

P = ParamSpec("P")
R = TypeVar("R")

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

INSTRUCTIONS = """\
Answers are differentially private: each is a noisy number with an interval that holds with the confidence it states.
Every answer spends budget that does not come back. Describe the dataset, preview a question until it is good enough,
then ask it once, under a key of your own. Asking again under the same key returns the same answer for free.
Questions are one SELECT: COUNT(*), COUNT(DISTINCT user), SUM, AVG, MEDIAN, PERCENTILE_CONT, APPROX_QUANTILES with
bounds, GROUP BY, WHERE, ORDER BY .. DESC LIMIT. Several quantiles of a column cost less in one SELECT than one by one.
Groups with few users do not appear.\
"""

Dataset = Annotated[str, Field(description="The name of a dataset, from list_datasets.")]
Sql = Annotated[
    str,
    Field(
        description="One SELECT, e.g. SELECT country, COUNT(DISTINCT user_id) AS users FROM visits GROUP BY country. "
        "Sums and means need bounds: AVG(minutes, contribution_bounds_per_group => (0, 600))."
    ),
]
Key = Annotated[
    str, Field(description="A name for this question, new for each new one; the same key replays its answer.")
]
Epsilon = Annotated[float | None, Field(description="The budget of this question, unless the account has draws.")]
Delta = Annotated[float | None, Field(description="The failure probability of this question, e.g. 1e-9.")]
Discover = Annotated[str | None, Field(description="Registered draw for each group found, e.g. bounded-range:0.1.")]
Counts = Annotated[str | None, Field(description="Registered draw for each count, e.g. pure:0.1.")]

_FREE = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_SPENDS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)


def agent_server(catalog: Catalog) -> MCPServer:
    """Return a server with five tools over a catalog: list_datasets, describe, preview, ask and balance."""
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

    for tool in (list_datasets, describe, preview, balance):
        server.add_tool(_refusing(tool), annotations=_FREE)
    server.add_tool(_refusing(ask), annotations=_SPENDS)
    return server


def _words(epsilon: float | None, delta: float | None, discover: str | None, counts: str | None) -> BudgetWords:
    given = {"epsilon": epsilon, "delta": delta, "discover": discover, "counts": counts}
    return {name: value for name, value in given.items() if value is not None}  # type: ignore[return-value]


def _refusing(tool: Callable[P, R]) -> Callable[P, R]:
    """Return the tool with errors of ours as refusals the agent reads; others are told by name only."""

    @functools.wraps(tool)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return tool(*args, **kwargs)
        except SetwiseError as error:
            raise ToolError(str(error)) from None

    return called


def behind_token(app: App, token: str) -> App:
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
