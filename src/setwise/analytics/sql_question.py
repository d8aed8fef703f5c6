"""A SQL statement on open tables, as a `SqlQuestion` that can be previewed and asked."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.askable import SqlWords
from setwise.analytics.budget import AskedBudget, Budget, Draws, Within
from setwise.analytics.engines.connect import Source, open_engine
from setwise.analytics.execute import Reader, StatementPart
from setwise.analytics.payer import first_payable, payable_plan
from setwise.analytics.planning.joint_pricing import JointPlan, plan_together
from setwise.analytics.planning.plan import ExecutablePlan, Plan
from setwise.analytics.query import Query
from setwise.analytics.schema import Kind, Schema
from setwise.analytics.sql.core import Core, SelectSource
from setwise.analytics.sql.free.public_values import PublicValue, public_value
from setwise.analytics.sql.result import SqlAnswer
from setwise.analytics.sql.statement import Statement
from setwise.analytics.sql.suggestions.example_bounds import states_option, with_example_bounds, with_option
from setwise.errors import BadRequest, BudgetExhausted, InvalidParameter, Unattainable
from setwise.ledger.status import AccountStatus
from setwise.mechanisms.planning.request import Total

if TYPE_CHECKING:
    import pyarrow as pa


MOST_PUBLIC_ROWS = 1_000_000
"""The most rows of a public table that is joined to released rows, because the table is held in memory."""


class QuerySession(Protocol):
    """A session on the private rows that one SELECT of a SQL statement aggregates."""

    @property
    def schema(self) -> Schema:
        """The columns of the private rows that the SELECT reads."""
        ...

    @property
    def reader(self) -> Reader:
        """The engine that reads the private rows of the SELECT."""
        ...

    def plan(self, query: Query, budget: AskedBudget) -> ExecutablePlan:
        """Return the plan of `query` within `budget`, ready to be run; nothing is charged."""
        ...

    def preview(self, query: Query, budget: AskedBudget) -> Plan:
        """Return the plan by which `query` would be answered within `budget`; nothing is charged.

        If the account cannot pay for the noise that the planner prefers, the plan is one with noise that it can pay
        for, if there is any.
        """
        ...

    def can_pay(self, plan: Plan) -> bool:
        """Return whether the account can pay for `plan`; True if no account pays."""
        ...

    def shortage(self, query: Query, budget: AskedBudget, plan: Plan) -> str | None:
        """Return a text that says what the account lacks to pay for `plan`; None if it can pay, or if no account pays.

        `plan` is the plan of `query` within `budget`.
        """
        ...

    def request(self, query: Query, budget: Total | Draws) -> str:
        """Return the text that identifies a request for `query` within `budget`; equal requests have equal texts.

        A ledger stores this text with the charge, to tell a retry from another question.
        """
        ...

    def ask(self, query: Query, budget: AskedBudget, *, key: str | None = None) -> PrivateAnswer:
        """Plan `query`, charge it to `budget` under `key`, read the rows, and return the noisy answer.

        Asking again under the same `key` returns the stored answer at no cost; None makes a new key.
        """
        ...


class StatementSession(Protocol):
    """A session on the table of a SQL statement; its account, or the statement's own budget, pays for the statement."""

    def account_status(self) -> AccountStatus | None:
        """Return the status of the account that pays; None if questions bring their own budget."""
        ...

    def derived_session(self, source: SelectSource) -> QuerySession:
        """Return the session on `source`, the private rows that a SELECT reads (a table, joins, derived columns)."""
        ...

    def shortage_of(self, plan: Plan, budget: AskedBudget, replan: Callable[[Total], Plan]) -> str | None:
        """Return a text that says what the account lacks to pay for `plan`; None if it can pay, or if no account pays.

        `plan` is a plan within `budget`, and `replan` returns the plan of the same statement within another budget.
        """
        ...

    def exhausted(
        self, shortage: str, budget: AskedBudget, plan: Plan, replan: Callable[[Total], Plan]
    ) -> BudgetExhausted:
        """Return the error that refuses `plan` with the sentence `shortage`, and suggests a budget if one would fit.

        `plan` is a plan within `budget`, and `replan` returns the plan of the same statement within another budget.
        """
        ...

    def ask_parts(self, parts: Sequence[StatementPart], whole: Plan, *, key: str | None, request: str) -> PrivateAnswer:
        """Run the SELECTs `parts` of a statement, charged once under `key`, and return their answers as one answer.

        `key` is None for a new key. `whole` is the plan of the statement, which has the cost of all parts, and
        `request` the text that identifies the statement.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlQuestion:
    """A SQL statement (`statement`) with the `budget` that may be spent on it.

    - `session` is the session on the table of the statement, and `user` its user column.
    - `sessions` has, for each SELECT that aggregates private rows, a session on the rows that it reads.
    - `public` are the public tables, by name, that are joined to released (noisy) rows.
    - `types` maps text columns to kinds of values, such as integers; their cells are parsed as this kind.
    """

    statement: Statement
    session: StatementSession
    sessions: tuple[QuerySession, ...]
    budget: AskedBudget
    user: str
    public: "Mapping[str, pa.Table]" = field(default_factory=dict)
    types: Mapping[str, Kind] = field(default_factory=dict)

    def plan(self) -> Plan:
        """Return how the SQL statement would be answered and what it would cost; nothing is charged."""
        if len(self.sessions) == 1:
            return self.sessions[0].preview(self.statement.query, self.budget)
        return payable_plan(
            self.budget,
            lambda tried: self._joint_plan(tried).plan,
            self.sessions[-1].can_pay,
            self.session.account_status,
            lambda plan: plan.uses,
        )

    def shortage(self, plan: Plan) -> str | None:
        """Return a text that says what the account lacks to pay for `plan`; None if it can pay or no account pays."""
        if len(self.sessions) == 1:
            return self.sessions[0].shortage(self.statement.query, self.budget, plan)
        return self.session.shortage_of(plan, self.budget, lambda other: self._joint_plan(other).plan)

    def ask(self, key: str | None = None) -> SqlAnswer:
        """Charge and run the SELECTs that aggregate private rows, and return the result.

        Asking again under the same `key` returns the stored answer at no cost; None makes a new key.
        """
        if len(self.sessions) == 1:
            answer = self.sessions[0].ask(self.statement.query, self.budget, key=key)
        else:
            try:
                answer = first_payable(
                    self.budget,
                    lambda tried: self._ask_within(tried, key),
                    self.session.account_status,
                    lambda tried: self._joint_plan(tried).plan.uses,
                )
            except BudgetExhausted as refused:
                plan = self._joint_plan(self.budget).plan
                raise self.session.exhausted(
                    str(refused), self.budget, plan, lambda other: self._joint_plan(other).plan
                ) from None
        return self.statement.result(answer, self.public)

    def _ask_within(self, budget: AskedBudget, key: str | None) -> PrivateAnswer:
        """Run all SELECTs that aggregate private rows, charged once to `budget` under `key`; return one answer.

        With a `key` of None a new key is made, so that nothing is replayed.
        """
        joint = self._joint_plan(budget)
        cores = zip(self.statement.cores, joint.parts, strict=True)
        parts = [StatementPart(planned=planned, reader=self._reader(core)) for core, planned in cores]
        return self.session.ask_parts(parts, joint.plan, key=key, request=self._request(joint.budgets))

    def _joint_plan(self, budget: AskedBudget) -> JointPlan:
        """Return the plans of the SELECTs over private rows within `budget`, and one plan with their joint cost."""
        queries = [core.query for core in self.statement.cores]
        return plan_together(
            queries,
            [session.schema for session in self.sessions],
            user=self.user,
            budget=budget,
            status=self.session.account_status(),
            plan=lambda place, budget: self.sessions[place].plan(queries[place], budget),
        )

    def _request(self, budgets: Sequence[Budget]) -> str:
        """Return the canonical text that identifies the statement in a ledger, so that a retry can be recognised.

        `budgets` has the budget of each SELECT that aggregates private rows, in order.
        """
        cores = zip(self.sessions, self.statement.cores, budgets, strict=True)
        return self.statement.request_text([session.request(core.query, budget) for session, core, budget in cores])

    def _reader(self, core: Core) -> Callable[[Sequence[PrivateAnswer]], Reader]:
        def reader(answers: Sequence[PrivateAnswer]) -> Reader:
            source = replace(
                core.source, derivation=self.statement.with_released(core.source.derivation, answers, self.public)
            )
            return self.session.derived_session(source).reader

        return reader


def refuse_open_bounds(text: str, words: SqlWords, read: Callable[[str, SqlWords], SqlQuestion]) -> None:
    """Raise the error for a statement that asks for an accuracy although some of its bounds are still to be found.

    The error ends with the statement to write instead, which has example bounds: 0 and 100 for values, 5 rows of a
    user, and 1 group of a user. If no epsilon that may be spent reaches the accuracy with these bounds, the error names
    an accuracy that it reaches. Nothing is raised if all bounds are known.

    `text` is the statement, `words` are its keyword arguments, and `read` returns the question for other ones.
    """
    question = read(text, words)
    if not isinstance(question.budget, Within) or not _open_bounds(question, with_groups=True):
        return
    try:
        question.plan()
    except InvalidParameter as error:
        proposed: dict[str, str] = {}
        if error.needs_bounds:
            with suppress(BadRequest):  # as of a statement that says itself that a bound is to be found
                proposed = _with_example_bounds(text, words, read)
        if not proposed:
            raise
        beside = [f"{name} = {value}" for name, value in proposed.items() if name != "statement"]
        asked = f", with {' and '.join(beside)}" if beside else ""
        raise InvalidParameter(
            "how close an answer is depends on the bounds found: state them, or leave within out; this example has "
            f"bounds to be replaced by what is known of the table{asked}; write: {proposed['statement']}"
        ).proposing(proposed) from None


def _with_example_bounds(text: str, words: SqlWords, read: Callable[[str, SqlWords], SqlQuestion]) -> dict[str, str]:
    """Return what to ask in place of a statement whose bounds are open, by name; empty if nothing can be proposed.

    - "statement" is the statement with example bounds in its calls, and "contributions" the most groups of a user, if
      that is open.
    - "within" is a wider accuracy, if the stated one cannot be reached with the example bounds.

    The arguments are those of `refuse_open_bounds`.
    """

    def open_bounds_of(other: str) -> int | None:
        try:
            return _open_bounds(read(other, words), with_groups=False)
        except BadRequest:
            return None

    statement = with_example_bounds(text, open_bounds_of) if open_bounds_of(text) else text
    if not statement:
        return {}
    proposed: dict[str, str] = {"statement": statement}
    if any(core.query.auto_contributions for core in read(statement, words).statement.cores):
        proposed["contributions"], words = "1", {**words, "contributions": 1}
    within = (question := read(statement, words)).budget
    assert isinstance(within, Within)
    half_width = float(within.within)
    for _ in range(_MOST_WIDTHS):
        try:
            question.plan()
        except Unattainable as error:
            half_width = float(error.proposed.get("within") or 2 * half_width)
            if states_option(statement, "within"):
                proposed["statement"] = with_option(statement, "within", f"{half_width:g}")
            else:
                proposed["within"], words = f"{half_width:g}", {**words, "within": half_width}
            question = read(proposed["statement"], words)
        except BadRequest:
            return {}
        else:
            return proposed
    return {}


_MOST_WIDTHS = 12
"""The most accuracies that are tried for a proposal, each at most twice as wide as the one before it."""


def _open_bounds(question: SqlQuestion, *, with_groups: bool) -> int:
    """Return how many bounds of `question` are still to be found; `with_groups` adds the most groups of a user."""
    queries = [core.query for core in question.statement.cores]
    in_calls = sum(statistic.finds_clip + statistic.finds_rows for query in queries for statistic in query.statistics)
    return in_calls + with_groups * sum(query.auto_contributions for query in queries)


def public_values(sources: Mapping[str, Source]) -> PublicValue:
    """Return a function that computes scalar subqueries over public tables.

    The function takes the SQL text of a subquery and the names of the tables that it reads, and returns its value.
    `sources` says where each public table is.
    """
    return lambda text, names: public_value(text, read_public_tables(names, sources))


@contextmanager
def with_fitting_statement(
    text: str, schema_of: Callable[[str], Schema], check: Callable[[str], object]
) -> Iterator[None]:
    """Context manager that adds to an error of its `with` block a statement whose constants fit the column types.

    `text` is the refused statement, `schema_of` returns the columns of a table by its name, and `check` raises an error
    if a statement is refused. Nothing is added if another type of a text column would mend the error, if the error
    already has a statement, or if no constant or time function of `text` can be changed.
    """
    from setwise.analytics.sql.suggestions.fitting_types import fitting_statement

    try:
        yield
    except BadRequest as error:
        if error.needed_types or "; write: " in str(error):
            raise
        try:
            condition, statement = fitting_statement(text, schema_of) or ("", "")
        except RecursionError:  # the statement nests too deep to be changed
            raise error from None
        try:
            if not statement or check(statement) is None:
                raise
        except Unattainable:  # a larger budget answers it
            pass
        except BadRequest:
            raise error from None
        condition = f"{condition}, " if condition else ""
        raise type(error)(f"{error}; {condition}write: {statement}") from None


def check_planned(statement: Statement, session: StatementSession) -> None:
    """Raise an error if some SELECT of `statement` over the private rows of `session` cannot be planned.

    This function is called for a corrected statement before an error message proposes it, so that the analyst can
    really ask what is proposed. Nothing is charged or read. Each SELECT is planned by itself with epsilon = 10, because
    this epsilon is enough for most queries.
    """
    statement = statement.filled(finds_bounds=True)
    for core in statement.cores:
        session.derived_session(core.source).plan(core.query, Total(epsilon=10, delta=_SOME_DELTA))


_SOME_DELTA = Fraction(1, 10**6)
"""The delta with which suggested statements are planned."""


def read_public_tables(names: Collection[str], sources: Mapping[str, Source]) -> "dict[str, pa.Table]":
    """Return the public tables called `names`, by name; `sources` says where they are.

    The tables are read into memory whole, before SQL joins them to released (noisy) rows. So the analyst's SQL runs on
    tables in memory, and opens no file itself.
    Raises: `InvalidParameter` if the table's engine cannot read a whole table; `UnsuitableTable` if a table has more
    than 1,000,000 rows (`MOST_PUBLIC_ROWS`).
    """
    tables = {}
    for name in names:
        with open_engine(sources[name]) as engine:
            if not hasattr(engine, "read_table"):
                raise InvalidParameter(
                    f"{name!r} may be joined to the private table inside a SELECT that aggregates; beside released "
                    "rows, or in a subquery of its own, only public tables of files and memory are read"
                )
            tables[name] = engine.read_table(MOST_PUBLIC_ROWS)
    return tables
