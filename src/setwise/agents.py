"""A Model Context Protocol server, by which an AI agent asks tables as an analyst does, within an account's budget.

The tables are on this machine, with an account of a ledger, or belong to a service. The agent uses seven tools, over
standard input and output, or over HTTP with a token.
"""

import functools
import hmac
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, ParamSpec, TypeVar

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult, InputRequiredResult, ToolAnnotations
from pydantic import Field, ValidationError
from starlette.types import ASGIApp, Receive, Scope, Send

from setwise import __version__
from setwise.analytics.askable import SqlWords
from setwise.analytics.execute import padded
from setwise.analytics.query import STATISTICS, Contributions
from setwise.analytics.sql.suggestions.hint_clauses import with_calls
from setwise.errors import SetwiseError, UnknownName

if TYPE_CHECKING:
    from setwise.analytics.session import Session
    from setwise.client.client import Client, RemoteDataset
    from setwise.ledger.account import Account
    from setwise.ledger.ledger import Ledger
    from setwise.live.series import LiveSeries

T = TypeVar("T")
P = ParamSpec("P")

ToolResult = Mapping[str, Any]
"""The result of a tool as plain JSON values."""


class LocalTables:
    """Tables on this machine that an agent may ask; one account pays for all questions, which run one at a time.

    - `sessions`: an open session for each table, by the table's name
    - `account`: the account that pays
    - `ledger`: the ledger whose live series (user counts that are released period by period) the agent sees, or None
    - `answer_step`: each answer or refusal is held back until 1, 2, 4, ... times this many seconds after the question.
      The time that reading takes depends on private rows; in this way, little of it is seen
    - `sleep`, `monotonic`: the function that waits a number of seconds, and the clock, which returns seconds
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
        for session in sessions.values():
            session.stop_scan()  # exact counts are for the holder of the tables alone
        self._sessions = sessions
        self._ledger = ledger
        self._account = account
        self._answer_step = answer_step
        self._sleep = sleep
        self._monotonic = monotonic
        self._question_lock = threading.Lock()

    def datasets(self) -> list[ToolResult]:
        """Return one object for each table: its name, its user column, and the account that pays for all tables."""
        return [
            {"name": name, "user": session.user_column, "account": self._account.name}
            for name, session in self._sessions.items()
        ]

    def describe(self, dataset: str) -> ToolResult:
        """Return the name of the table `dataset`, its user column, and the name and kind of each of its columns.

        A kind is text, integer and so on. All of this is public, and no row is read.
        """
        session = self._session(dataset)
        columns = [{"name": column.name, "kind": str(column.kind)} for column in session.schema]
        return {
            "name": dataset,
            "user": session.user_column,
            "unit": session.unit,
            "count_users": f"COUNT(DISTINCT {session.user_column})",
            "columns": columns,
        }

    def preview(self, dataset: str, sql: str, words: SqlWords) -> ToolResult:
        """Return the plan of the SELECT `sql` on the table `dataset` as a JSON object; nothing is charged.

        A plan has the mechanism, its noise and its cost. `words` are keyword arguments of `Session.sql` that state the
        budget and the most groups in which one user counts, such as epsilon=1. The object has two further fields, each
        a sentence or None:

        - `shortage`: what the account lacks to pay for the plan; None if it can pay
        - `warning`: a sentence if, after the charge, the joint budget of the dataset's accounts can be spent in one way
          only. It can be spent as a Gaussian budget (mu squared) and as a sum of epsilons; a charge that fits only one
          of the two ways ends the other way for good. None if the charge ends neither way
        """
        with self._question_lock:
            plan = self._session(dataset).explain(sql, called=dataset, **words)
            uses = plan.uses
            affordability = {"shortage": self._account.shortage(uses), "warning": self._account.warning(uses)}
            return {**plan.to_dict(), **affordability}

    def ask(self, dataset: str, sql: str, words: SqlWords, key: str) -> ToolResult:
        """Charge the account for the SELECT `sql` on `dataset`, run it, and return the answer as a JSON object.

        `dataset` is the name of a table. `words` are keyword arguments of `Session.sql` that state the budget and the
        contribution bound, such as epsilon=1. Asking the same question again under the same idempotency `key` returns
        the stored answer and costs nothing.
        """
        session = self._session(dataset)
        with self._question_lock:
            began = self._monotonic()
            try:
                return session.sql(sql, key=key, called=dataset, **words).to_dict()
            finally:
                seconds = self._monotonic() - began
                self._sleep(padded(seconds, self._answer_step) - seconds)

    def balance(self, dataset: str) -> ToolResult:
        """Return the status of the account that pays for questions to `dataset`: what is spent and what is left."""
        self._session(dataset)
        with self._question_lock:
            return self._account.status().to_dict()

    def series(self) -> list[ToolResult]:
        """Return a description of each live series that the agent may see, as a list of JSON objects.

        A live series is a set of noisy user counts, charged once and released period by period. The agent may see a
        series that was paid for by its own account, or by an account that was opened for this series only.
        """
        return [_describe_series(each) for each in self._series().values()]

    def show_series(
        self, name: str, window: int | None, items: list[str], top: int | None = None, on: str | None = None
    ) -> ToolResult:
        """Return the released numbers of the live series (noisy user counts) called `name`, as a JSON object.

        - `window`: the number of periods that each number covers; None means running totals of users per item
        - `items`: the items (groups) to return; empty means all
        - `top`: how many items to return, the largest in the period that begins on the day `on` (None: the last period)

        Raises: `UnknownName` if the agent may see no such series.
        """
        series = self._series()
        if name not in series:
            raise UnknownName(f"there is no live series {name!r}: {', '.join(series) or 'none'} can be shown")
        return series[name].view(window=window, items=items, top=top, on=on).to_dict()

    def _series(self) -> "dict[str, LiveSeries]":
        from setwise.live.series import list_live

        every = () if self._ledger is None else list_live(self._ledger)
        mine = (each for each in every if each.opening.own_account or each.opening.account == self._account.name)
        return {each.name: each for each in mine}

    def _session(self, dataset: str) -> "Session":
        return _lookup_dataset(self._sessions, dataset)


class ServiceTables:
    """Datasets of a Setwise service that an agent may ask with one person's token.

    - `client`: the connection to the service, with the token
    - `account`: the name of the account that pays; None takes the person's only account on each dataset

    The service enforces budgets and contribution bounds. It also delays each answer until 1, 2, 4, ... times a fixed
    number of seconds after the request. The time that reading takes depends on private rows; in this way, little of it
    is seen.
    """

    def __init__(self, client: "Client", account: str | None = None) -> None:
        self._client = client
        self._account = account

    def datasets(self) -> list[ToolResult]:
        """Return one object for each dataset of the service, also for those on which the person has no account.

        An object has the dataset's `name` and, as `user`, its user column.
        """
        return [{"name": record["name"], "user": record["user"]} for record in self._client.datasets()]

    def describe(self, dataset: str) -> ToolResult:
        """Return the service's record of the dataset called `dataset`: the columns that questions may use, and bounds.

        Its `user` is the user column, and `count_users` the only SQL in which questions may name this column.

        Raises: `UnknownName` if the service has no dataset of that name.
        """
        record = _lookup_dataset({record["name"]: record for record in self._client.datasets()}, dataset)
        return {**record, "count_users": f"COUNT(DISTINCT {record['user']})"}

    def preview(self, dataset: str, sql: str, words: SqlWords) -> ToolResult:
        """Return the plan (cost and accuracy) of the SELECT `sql` on `dataset` as a JSON object; nothing is charged.

        `words` are keyword arguments of `RemoteDataset.sql` that state the budget and the contribution bound, such as
        epsilon=1.
        """
        return self._remote(dataset).explain(sql, **words).to_dict()

    def ask(self, dataset: str, sql: str, words: SqlWords, key: str) -> ToolResult:
        """Charge the account for the SELECT `sql` on `dataset`, run it, and return the answer as a JSON object.

        `dataset` is the name of a dataset of the service. `words` are keyword arguments of `RemoteDataset.sql` that
        state the budget and the contribution bound, such as epsilon=1. Asking the same question again under the same
        idempotency `key` returns the stored answer and costs nothing.
        """
        return self._remote(dataset).sql(sql, key=key, **words).to_dict()

    def balance(self, dataset: str) -> ToolResult:
        """Return the status of the account that pays for questions to `dataset`: what is spent and what is left."""
        return self._remote(dataset).standing()

    def series(self) -> list[ToolResult]:
        """Return the record of each live series that an account of the person who owns the token has paid for.

        A live series is a set of noisy user counts that is charged once and released period by period.
        """
        return [{**each} for each in self._client.live()]

    def show_series(
        self, name: str, window: int | None, items: list[str], top: int | None = None, on: str | None = None
    ) -> ToolResult:
        """Return the released numbers of the live series (noisy user counts) called `name`, as a JSON object.

        - `window`: the number of periods that each number covers; None means running totals of users per item
        - `items`: the items to return; empty means all
        - `top`: how many items to return, the largest in the period that begins on the day `on` (None: the last period)
        """
        return {**self._client.series(name).view(window=window, items=items, top=top, on=on)}

    def _remote(self, dataset: str) -> "RemoteDataset":
        return self._client.dataset(dataset, account=self._account)


def _describe_series(series: "LiveSeries") -> ToolResult:
    terms = series.terms
    return {
        "name": terms.name,
        "item": terms.item,
        "every": terms.every,
        "start": terms.start.isoformat(),
        "periods": terms.periods,
        "unit": terms.unit,
        "closed": series.is_closed,
    }


_TEXTS = ("hint", "interval_note", "left_out", "reason", "why", "advice", "problem")
"""The fields of an answer or a plan that are sentences for people and may name parameters."""

_DECLARING = "whoever holds the data can declare it for the dataset (domains)"
"""How public groups are listed. No tool takes such a list."""


def _in_tool_words(result: ToolResult) -> dict[str, Any]:
    """Return the answer or plan `result` with sentences that name SQL where they name parameters that no tool has."""
    changed: dict[str, Any] = {
        name: with_calls(text, _DECLARING) for name in _TEXTS if isinstance(text := result.get(name), str)
    }
    if notes := result.get("notes"):
        changed["notes"] = [with_calls(note, _DECLARING) for note in notes]
    return {**result, **changed}


Catalog = LocalTables | ServiceTables
"""The tables that an agent may ask, and the account that pays for them."""


def _lookup_dataset(datasets: Mapping[str, T], name: str) -> T:
    if name not in datasets:
        raise UnknownName(f"there is no dataset {name!r}: {', '.join(datasets) or 'none'} can be asked")
    return datasets[name]


_FUNCTIONS = ", ".join(name for statistic in STATISTICS.values() for name in statistic.sql)

INSTRUCTIONS = f"""\
Answers are differentially private: each is a noisy number with an interval that holds with the confidence it states.
Every answer spends budget that does not come back. Describe the dataset, preview a question until it is good enough,
then ask it once, under a key of your own. Asking again under the same key returns the same answer for free.
Questions are one SELECT: COUNT(*), {_FUNCTIONS} and APPROX_QUANTILES,
COUNT(DISTINCT ..) of the user column (list_datasets and describe name it as `user`) for the number of users,
GROUP BY, WHERE, HAVING, ORDER BY, LIMIT. Several quantiles of a column cost less in one SELECT than one by one. Groups
with few users do not appear. `left_out` of an answer says which rows its numbers do not include: repeat it with them.\
"""
"""What the server tells an agent about asking questions."""

Dataset = Annotated[str, Field(description="The name of a dataset, from list_datasets.")]
_SQL_IN_WORDS = (
    "One SELECT on the dataset's name, e.g. where describe says that `user` is user_id: "
    "SELECT country, COUNT(DISTINCT user_id) AS users FROM visits "
    "WHERE year = 2026 GROUP BY country ORDER BY users DESC LIMIT 10. Aggregates: COUNT(*), COUNT(DISTINCT column), "
    "FUNCTIONS, APPROX_QUANTILES(column, n). FILTER (WHERE ..) may follow an aggregate. Rows: arithmetic, CASE, CAST, "
    "DATE_TRUNC('month', column), EXTRACT(HOUR FROM column), JOIN of tables that describe calls public. Released rows: "
    "HAVING, ROUND, window functions, WITH and subqueries over them. Bounds left out are found with a tenth of "
    "epsilon; known ones make answers closer: AVG(minutes, contribution_bounds_per_group => (0, 600)). No SELECT *, "
    "and no single rows."
).replace("FUNCTIONS", _FUNCTIONS)
"""What an agent is told about the SQL of a question."""

Sql = Annotated[
    str,
    Field(description=_SQL_IN_WORDS),
]
Key = Annotated[
    str, Field(description="A name for this question, new for each new one; the same key replays its answer.")
]
Epsilon = Annotated[float | None, Field(description="The budget of this question, unless the account has draws.")]
Delta = Annotated[float | None, Field(description="The failure probability of this question, e.g. 1e-9.")]
ContributionBound = Annotated[
    int | Literal["auto"] | None,
    Field(
        description="In how many groups one user may count; others are left out. Left out or auto, it is found with a "
        "tenth of epsilon."
    ),
]
Discover = Annotated[str | None, Field(description="Registered draw for each group found, e.g. bounded-range:0.1.")]
Counts = Annotated[str | None, Field(description="Registered draw for each count, e.g. pure:0.1.")]

Series = Annotated[str, Field(description="The name of a live series, from list_series.")]
Window = Annotated[int | None, Field(description="New users of the last so many periods, instead of totals.")]
Top = Annotated[int | None, Field(description="Only so many items, the largest first.")]
On = Annotated[str | None, Field(description="The first day of the period by which `top` ranks; the last if left out.")]
Items = Annotated[list[str] | None, Field(description="These items only.")]

_FREE = ToolAnnotations(read_only_hint=True, open_world_hint=False)
_SPENDS = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False)


class _AgentServer(MCPServer):
    """An MCP server that refuses wrong arguments of a tool in one sentence.

    The sentence of the MCP library has several lines, the rejected values and an address of the pydantic library.
    """

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: "Context[Any, Any] | None" = None
    ) -> CallToolResult | InputRequiredResult:
        """Call the tool `name` with `arguments`, and return its result.

        Raises: `ToolError` if the arguments are wrong, or if the tool refuses them.
        """
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(_explain_arguments(name, error.__cause__)) from error.__cause__
            raise


_NAMED_ARGUMENTS = 5
"""The most wrong arguments that an error names."""


def _explain_arguments(tool: str, error: ValidationError) -> str:
    """Return a sentence that says which arguments of `tool` are missing or wrong, and what is expected in their place.

    Values that the agent sent are not repeated.
    """
    problems = error.errors(include_url=False, include_input=False, include_context=False)
    missing = [str(problem["loc"][0]) for problem in problems if problem["type"] == "missing"]
    wrong = {
        str(problem["loc"][0]): problem["msg"][:1].lower() + problem["msg"][1:]
        for problem in problems
        if problem["type"] != "missing" and problem["loc"]
    }
    parts = [f"give {' and '.join(missing[:_NAMED_ARGUMENTS])}"] if missing else []
    parts += [f"{name}: {message}" for name, message in list(wrong.items())[:_NAMED_ARGUMENTS]]
    return f"{tool} cannot be called like this: {'; '.join(parts) or 'its arguments are wrong'}"


def agent_server(catalog: Catalog) -> MCPServer:
    """Return an MCP server with seven tools, by which an agent asks the tables of `catalog`.

    `catalog` has tables on this machine (`LocalTables`) or datasets of a service (`ServiceTables`). The tools are
    list_datasets, describe, preview, ask and balance, and list_series and show_series for live series (user counts that
    are released period by period).

    Agents read the docstrings of the functions in this body as descriptions of the tools, and the annotated types
    above, such as `Dataset` and `Sql`, as descriptions of the arguments. Each tool returns a plain `dict`, because the
    MCP library would wrap any other kind of mapping in a further object.
    """
    server = _AgentServer("setwise", version=__version__, instructions=INSTRUCTIONS, log_level="WARNING")

    def list_datasets() -> list[dict[str, Any]]:
        """List the datasets that can be asked, with the column that tells users apart (`user`). Free."""
        return [dict(each) for each in catalog.datasets()]

    def describe(dataset: Dataset) -> dict[str, Any]:
        """Describe a dataset: its user column (`user`), how users are counted, its columns and their kinds. Free."""
        return dict(catalog.describe(dataset))

    def preview(
        dataset: Dataset,
        sql: Sql,
        epsilon: Epsilon = None,
        delta: Delta = None,
        contributions: ContributionBound = None,
        discover: Discover = None,
        counts: Counts = None,
    ) -> dict[str, Any]:
        """Say what the SELECT `sql` on a dataset would cost and how far off its answer may be. Free: no row is read."""
        return _in_tool_words(catalog.preview(dataset, sql, _words(epsilon, delta, contributions, discover, counts)))

    def ask(
        dataset: Dataset,
        sql: Sql,
        key: Key,
        epsilon: Epsilon = None,
        delta: Delta = None,
        contributions: ContributionBound = None,
        discover: Discover = None,
        counts: Counts = None,
    ) -> dict[str, Any]:
        """Answer the SELECT `sql` on a dataset with noise, and charge the account. Spends budget: preview it first."""
        return _in_tool_words(catalog.ask(dataset, sql, _words(epsilon, delta, contributions, discover, counts), key))

    def balance(dataset: Dataset) -> dict[str, Any]:
        """Say how much budget is left in the account that pays for questions to a dataset. Free."""
        return dict(catalog.balance(dataset))

    def list_series() -> list[dict[str, Any]]:
        """List the live series: numbers over time that were paid for once. Free."""
        return [dict(each) for each in catalog.series()]

    def show_series(
        series: Series, window: Window = None, items: Items = None, top: Top = None, on: On = None
    ) -> dict[str, Any]:
        """Show what a live series has released: totals, or windows, with intervals. Free: look here before you ask.

        A live series is a set of noisy user counts that is charged once and released period by period.
        """
        return dict(catalog.show_series(series, window, items or [], top, on))

    for tool in (list_datasets, describe, preview, balance, list_series, show_series):
        server.add_tool(_with_tool_errors(tool), annotations=_FREE)
    server.add_tool(_with_tool_errors(ask), annotations=_SPENDS)
    return server


def _words(
    epsilon: float | None,
    delta: float | None,
    contributions: Contributions | None,
    discover: str | None,
    counts: str | None,
) -> SqlWords:
    """Return the arguments of an agent's question as keyword arguments of `Session.sql`, without those that are None.

    - `epsilon`, `delta`: the budget of the question
    - `contributions`: the most groups in which one user counts, or "auto" to spend a part of epsilon on finding it
    - `discover`, `counts`: guarantees such as "pure:0.1" that the account registered in advance, which pay for finding
      groups and for counting; only for an account without a budget of its own
    """
    arguments = {
        "epsilon": epsilon,
        "delta": delta,
        "contributions": contributions,
        "discover": discover,
        "counts": counts,
    }
    return {name: value for name, value in arguments.items() if value is not None}  # type: ignore[return-value]


def _with_tool_errors(tool: Callable[P, T]) -> Callable[P, T]:
    """Return the function `tool` wrapped so that a `SetwiseError` becomes a `ToolError`, whose message the agent sees.

    Other errors are left to the MCP library, which does not show their messages.
    """

    @functools.wraps(tool)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return tool(*args, **kwargs)
        except SetwiseError as error:
            raise ToolError(with_calls(" ".join(str(error).split()), _DECLARING)) from None

    return called


def behind_token(app: ASGIApp, token: str) -> ASGIApp:
    """Wrap the ASGI application `app` so that it gets only HTTP requests that have the bearer `token`.

    A request without the token gets status 401.
    """
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
