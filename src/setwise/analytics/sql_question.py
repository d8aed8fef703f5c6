"""A SQL statement on open tables: its plan, its price, and its answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.budget import AskedBudget
from setwise.analytics.planning import Plan
from setwise.analytics.query import Query
from setwise.analytics.schema import Schema
from setwise.analytics.sql.parser import Statement
from setwise.analytics.sql.result import SqlAnswer
from setwise.errors import InvalidParameter

if TYPE_CHECKING:
    import pyarrow as pa


class QuerySession(Protocol):
    """A session on the rows of one releasing SELECT."""

    @property
    def schema(self) -> Schema:
        """The columns of the rows."""
        ...

    def preview(self, query: Query, budget: AskedBudget) -> Plan:
        """Return how a query would be answered; free."""
        ...

    def shortage(self, query: Query, budget: AskedBudget, plan: Plan) -> str | None:
        """Return in words what the account lacks to pay for a plan."""
        ...

    def ask(self, query: Query, budget: AskedBudget, *, key: str | None = None) -> PrivateAnswer:
        """Plan, charge, run and answer a query."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlQuestion:
    """A statement with what may be spent on it; `sessions` are those on the rows of each of its releasing SELECTs."""

    statement: Statement
    sessions: tuple[QuerySession, ...]
    budget: AskedBudget
    public: "Mapping[str, pa.Table]" = field(default_factory=dict)

    def plan(self) -> Plan:
        """Return how the statement would be answered, and what it would cost; free."""
        return self._only().preview(self.statement.query, self.budget)

    def shortage(self, plan: Plan) -> str | None:
        """Return in words what the account lacks to pay for the plan; None when it can pay."""
        return self._only().shortage(self.statement.query, self.budget, plan)

    def ask(self, key: str | None = None) -> SqlAnswer:
        """Return the answer: the releasing SELECTs are charged, and the free part is computed of what they release."""
        answer = self._only().ask(self.statement.query, self.budget, key=key)
        return self.statement.result(answer, self.public)

    def _only(self) -> QuerySession:
        if len(self.sessions) != 1:
            raise InvalidParameter("the statement has several SELECTs over private rows: ask them one by one")
        return self.sessions[0]
