"""A SQL statement on open tables: its plan, its price, and its answer."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from setwise.accounting.brackets import Bracket
from setwise.accounting.guarantees import merged
from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.budget import AskedBudget, Draws, Within
from setwise.analytics.execute import Reader, StatementPart
from setwise.analytics.planning import ExecutablePlan, Plan, promise_of
from setwise.analytics.pricing import price
from setwise.analytics.query import Query
from setwise.analytics.schema import Schema
from setwise.analytics.sql.core import Core, Source
from setwise.analytics.sql.parser import Statement
from setwise.analytics.sql.result import SqlAnswer
from setwise.errors import InvalidParameter
from setwise.ledger.records import canonical
from setwise.ledger.status import AccountStatus
from setwise.mechanisms.planning.request import Total

if TYPE_CHECKING:
    import pyarrow as pa


class QuerySession(Protocol):
    """A session on the rows of one releasing SELECT."""

    @property
    def schema(self) -> Schema:
        """The columns of the rows."""
        ...

    @property
    def reader(self) -> Reader:
        """What the rows are read with."""
        ...

    def plan(self, query: Query, budget: AskedBudget) -> ExecutablePlan:
        """Return the plan of a query with what is needed to run it; free."""
        ...

    def shortage(self, query: Query, budget: AskedBudget, plan: Plan) -> str | None:
        """Return in words what the account lacks to pay for a plan."""
        ...

    def request(self, query: Query, budget: Total | Draws) -> str:
        """Return the text that identifies a request for a query."""
        ...

    def ask(self, query: Query, budget: AskedBudget, *, key: str | None = None) -> PrivateAnswer:
        """Plan, charge, run and answer a query."""
        ...


class StatementSession(Protocol):
    """A session on the table of a statement, which pays for it."""

    def account_status(self) -> AccountStatus | None:
        """Return the status of the account that pays; None where questions bring their own budget."""
        ...

    def derived_session(self, source: Source) -> QuerySession:
        """Return the session on the rows that a SELECT reads."""
        ...

    def ask_parts(self, parts: Sequence[StatementPart], whole: Plan, *, key: str | None, request: str) -> PrivateAnswer:
        """Charge the parts of a statement once, and return their answers as one."""
        ...


@dataclass(frozen=True, slots=True)
class _PricedCore:
    """A releasing SELECT among several, each with an equal share of the budget."""

    query: Query
    weight: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlQuestion:
    """A statement with what may be spent on it.

    `session` is on the table of the statement, and `sessions` are those on the rows of each of its releasing SELECTs,
    with 0 for released values that are not known yet.
    """

    statement: Statement
    session: StatementSession
    sessions: tuple[QuerySession, ...]
    budget: AskedBudget
    user: str
    public: "Mapping[str, pa.Table]" = field(default_factory=dict)

    def plan(self) -> Plan:
        """Return how the statement would be answered, and what it would cost; free."""
        if len(self.sessions) == 1:
            return self.sessions[0].plan(self.statement.query, self.budget).plan
        return self._priced()[1]

    def shortage(self, plan: Plan) -> str | None:
        """Return in words what the account lacks to pay for the plan; None when it can pay."""
        return self.sessions[-1].shortage(self.statement.query, self.budget, plan)

    def ask(self, key: str | None = None) -> SqlAnswer:
        """Return the answer: the releasing SELECTs are charged, and the free part is computed of what they release."""
        if len(self.sessions) == 1:
            answer = self.sessions[0].ask(self.statement.query, self.budget, key=key)
        else:
            plans, whole = self._priced()
            cores = zip(self.statement.cores, plans, strict=True)
            parts = [StatementPart(planned=planned, reader=self._reader(core)) for core, planned in cores]
            answer = self.session.ask_parts(parts, whole, key=key, request=self._request())
        return self.statement.result(answer, self.public)

    def _priced(self) -> tuple[tuple[ExecutablePlan, ...], Plan]:
        """Return the plan of each releasing SELECT, and that of the statement: priced together, set-wise."""
        queries = [core.query for core in self.statement.cores]
        status = self.session.account_status()
        match self.budget:
            case Total() as total:
                priced = price(
                    [_PricedCore(query) for query in queries],
                    user=self.user,
                    schemas=[session.schema for session in self.sessions],
                    epsilon=float(total.epsilon),
                    delta=float(total.delta),
                )
                budgets: Sequence[Total | Draws] = priced.totals
            case Draws() as draws:
                budgets = [draws] * len(queries)
            case Within():
                raise InvalidParameter(
                    "within is for one SELECT over private rows, and the statement has several: give an epsilon"
                )
        plans = tuple(
            session.plan(query, budget) for session, query, budget in zip(self.sessions, queries, budgets, strict=True)
        )
        return plans, self._whole(plans, status)

    def _whole(self, plans: Sequence[ExecutablePlan], status: AccountStatus | None) -> Plan:
        uses = merged(use for planned in plans for use in planned.plan.uses)
        assert not isinstance(self.budget, Within), "refused above"
        overall, delta, alone = promise_of(uses, self.budget, status)
        last = plans[-1].plan
        return replace(
            last,
            mechanism=" and ".join(planned.plan.mechanism for planned in plans),
            uses=uses,
            interaction=overall.interaction,
            epsilon=Bracket(overall.lower, overall.upper),
            delta=delta,
            method=overall.method,
            statement=overall.statement,
            why=f"{len(plans)} SELECTs over private rows, priced together: {last.why}",
            alone=alone,
        )

    def _request(self) -> str:
        """Return the text that identifies the statement: its releasing SELECTs, and what stands in their conditions."""
        budget = self.budget
        assert not isinstance(budget, Within)
        cores = zip(self.sessions, self.statement.cores, strict=True)
        texts = [session.request(core.query, budget) for session, core in cores]
        return canonical({"statement": texts, "scalars": [shell.sql for shell in self.statement.scalars]})

    def _reader(self, core: Core) -> Callable[[Sequence[PrivateAnswer]], Reader]:
        def reader(answers: Sequence[PrivateAnswer]) -> Reader:
            source = core.source
            places = source.derivation.released
            if places:
                values = {place: self.statement.released_value(place, answers) for place in places}
                source = replace(source, derivation=source.derivation.with_released(values))
            return self.session.derived_session(source).reader

        return reader
