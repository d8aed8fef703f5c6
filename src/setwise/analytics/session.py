"""A session: questions to one table, one after the other, and what they cost together."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, Unpack, cast

from setwise.accounting.brackets import CertifiedBound, Interaction
from setwise.accounting.checks import check_delta
from setwise.accounting.guarantees import Use
from setwise.accounting.promises import USER
from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.askable import Askable, Asked, SqlWords, split_budget, with_defaults
from setwise.analytics.bins import group_of
from setwise.analytics.budget import AskedBudget, Budget, BudgetWords, Draws, Within, budget_of, default_delta
from setwise.analytics.catalog import NOTHING_DECLARED, Declaration
from setwise.analytics.engines.base import Engine
from setwise.analytics.engines.connect import IN_MEMORY, JoinableTables, Location, open_engine
from setwise.analytics.engines.joins import Join, Key
from setwise.analytics.engines.prepared import TAKES_NO_FILTER
from setwise.analytics.execute import StatementPart, execute, execute_parts
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.payer import (
    AccountPayer,
    exhausted,
    first_payable,
    payable_plan,
    refuse_without_epsilon,
    suggest_budget,
)
from setwise.analytics.planning.plan import ExecutablePlan, Plan, plan_query
from setwise.analytics.planning.within import plan_within
from setwise.analytics.query import Columns, Domain, Query
from setwise.analytics.request_identity import TableIdentity, request_text
from setwise.analytics.rows.derivation import NOT_DERIVED, Derivation, columns_computed_with
from setwise.analytics.schema import Kind, Schema
from setwise.analytics.session_state import SessionState
from setwise.analytics.tables.domain import fit_null_item, read_domain
from setwise.analytics.units import check_payer_unit
from setwise.errors import BudgetExhausted, InvalidFilter, InvalidParameter, UnknownColumn, UnsuitableTable
from setwise.ledger.records import check_text
from setwise.ledger.status import AccountStatus
from setwise.mechanisms.labels import Cell, Label
from setwise.mechanisms.planning.request import Total
from setwise.mechanisms.randomness import Randomness

if TYPE_CHECKING:
    from setwise.analytics.sql.core import SelectSource
    from setwise.analytics.sql.result import SqlAnswer
    from setwise.analytics.sql_question import SqlQuestion


NOTHING_BESIDE = JoinableTables()
"""The tables that may be joined to a table if none were declared."""

JoinedOpener: TypeAlias = Callable[[str, Sequence[Join], Derivation], Engine]
"""A function that opens a table under a name, with other tables joined to it and with what is derived from the rows."""


@dataclass(frozen=True, slots=True)
class JoinOrigin:
    """How a session on joined tables was made, so that another table can be joined to it.

    `session` is the session on the first table, `name` the name of that table after FROM, and `joins` the tables that
    were joined to it, in order.
    """

    session: "Session"
    name: str
    joins: tuple[Join, ...]


class Session(Askable):
    """A table that answers questions privately; `setwise.open` returns one.

    Each question states its budget, `epsilon` and `delta`. If the session has an `account`, a question may instead
    state a guarantee for each mechanism that it runs, and the account pays for these: `discover` for each private
    choice of a group to show, `counts` for each noisy count.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        user: str,
        name: str,
        randomness: Randomness,
        account: AccountPayer | None = None,
        location: Location = IN_MEMORY,
        advice: str = "",
        beside: JoinableTables = NOTHING_BESIDE,
        declared: Declaration = NOTHING_DECLARED,
        open_joined: JoinedOpener | None = None,
        identity: TableIdentity | None = None,
        unit: str = USER,
        person: str | None = None,
        state: SessionState | None = None,
        origin: JoinOrigin | None = None,
        types: Mapping[str, Kind] | None = None,
        known_as: tuple[str, ...] = ("",),
    ) -> None:
        self.types = types or {}  # the types as which columns of text are read, such as all columns of a CSV file
        self._engine = engine
        self._beside = beside
        self._declared = declared
        self._open_joined = open_joined
        self._joins: dict[tuple[str, tuple[Join, ...], Derivation], Session] = {}
        self._origin = origin
        self._location = location
        self._advice = advice  # added to the message about an unknown column
        self._user = user
        self._unit = unit
        self._person = person  # the user column, where the unit of privacy is a part of a user
        self._name = name
        self._randomness = randomness
        self._account = account
        self._known_as = known_as  # the names of the private tables by which a ledger knows them, this table's first
        self._identity = TableIdentity(name=name, user=user) if identity is None else identity
        self._state = SessionState() if state is None else state

    def __repr__(self) -> str:
        count = len(self._state.one_off.charges)
        return f"<setwise session on {self._name!r}, users in {self._user!r}, {count} question(s)>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def paid_by(self, account: AccountPayer, *, dataset: str | None = None) -> Self:
        """Return a session like this one whose questions are charged to `account`.

        The new session reads the table with the engines of this session, so closing this session closes both.
        `dataset` says that this table is the dataset for which the account was opened, as in `setwise.open`. If it is
        left out, this table must have the name of the dataset.

        Raises `InvalidParameter` if the account's unit of privacy (a user, or a part of a user) is not the session's,
        or if the account may not pay for this table or for a private table that may be joined to it.
        """
        check_payer_unit(account.unit, self._unit, self.schema)
        own, *joined = self._known_as
        for name in (own if dataset is None else dataset, *joined):
            account.check_dataset(name)
        return self._with_payer(account, SessionState())

    def _with_payer(self, account: AccountPayer, state: SessionState) -> Self:
        """Return a copy of this session that `account` pays for.

        The copy takes its state from `state`, which the caller has newly made, and from this session only the scan of
        unread cells. The state of this session is not used, because it remembers what private searches drew under the
        names of accounts and charges, and the ledger of `account` may use the same names for others.
        """
        paid = copy(self)
        paid._account = account
        paid._state = replace(state, scan=self._state.scan)
        paid._joins = {}
        if self._open_joined is not None:  # this session opens the joined tables, so that it also closes them
            paid._open_joined = lambda *join: self._joined_session(*join)._engine
        if self._origin is not None:
            paid._origin = replace(self._origin, session=self._origin.session._with_payer(account, state))
        return paid

    def stop_scan(self) -> None:
        """Stop the warnings about cells that questions will not read, in this session and in all that share its tables.

        The warnings have exact counts of rows, so only the data holder may see them. A program that lets other people
        ask questions calls this method first.
        """
        if self._state.scan is not None:
            self._state.scan.stop()

    def close(self) -> None:
        """Close the session's engine, and the engines of sessions that join other tables to the session's table."""
        for joined in self._joins.values():
            joined.close()
        self._engine.close()

    def cancel(self) -> None:
        """Stop the question that is running, from another thread; what was charged for it stays charged."""
        for joined in list(self._joins.values()):
            joined.cancel()
        self._engine.cancel()

    @property
    def unit(self) -> str:
        """The unit of privacy that the session's answers protect: "user", or a part of a user such as "user,day"."""
        return self._unit

    @property
    def user_column(self) -> str:
        """The name of the column that tells users apart."""
        return self._person or self._user

    @property
    def protected_column(self) -> str:
        """The name of the column that tells the protected units apart: users, or parts of users such as days.

        If users are protected, this is the user column. Otherwise it is a column that is computed from the user column.
        The privacy promise is that removing all rows with one value of this column hardly changes the probability of
        any answer.
        """
        return self._user

    @property
    def schema(self) -> Schema:
        """The columns of the session's table, with the kind of values that each holds."""
        return self._engine.describe()

    def rows(self) -> int | None:
        """Return the number of rows that the table's metadata states, which may be inexact; None if it states none.

        No noise is added to the number, so it may be shown to the data holder only.
        """
        return self._engine.rows()

    def read_domain(self, domain: Domain) -> tuple[Label, ...]:
        """Return the public group keys that `domain` states: a list, or the path of a public file that lists them.

        Raises: `InvalidParameter` if the file is part of this session's private table.
        """
        return read_domain(domain, self._location)

    def budget(self, words: BudgetWords) -> AskedBudget:
        """Return the budget that the keyword arguments `words` of a question state, in one of three forms.

        It is an (epsilon, delta), an accuracy (`Within`), or `Draws`. `Draws` name guarantees of single mechanisms that
        the session's account registered when it was opened; with them, `words` need not state an epsilon.
        Raises: `InvalidParameter` if `words` state no budget and no account pays for the session's questions.
        """
        if words.get("epsilon") is None and words.get("within") is None and self._account is None:
            raise InvalidParameter("say what may be spent: give epsilon and delta, or open the table on an account")
        stated = ("epsilon", "within", "discover", "counts", "mechanism")
        if self._account is not None and all(words.get(name) is None for name in stated):
            refuse_without_epsilon(self._account.status())
        return budget_of(words)

    def with_defaults(self, kind: str, parameters: dict[str, Any], spent: BudgetWords) -> Asked:
        """Return (parameters, budget) of a question, with what the caller left out filled in by defaults.

        `kind` is the name of the question's shape, such as "mean"; `parameters` and `spent` are its parameters and its
        budget. Bounds on one user come from the table's declaration or are left to a private search. A question that
        needs a delta gets the default one, which depends on the session's account. What the caller stated is not
        changed.
        """
        terms = None if self._account is None else self._account.status().terms
        return with_defaults(kind, parameters, spent, self._declared, terms)

    def preview(self, query: Query, budget: AskedBudget) -> Plan:
        """Return how `query` would be answered within `budget`: mechanism, cost and expected error.

        A preview reads no row and costs nothing.
        """
        return payable_plan(
            budget,
            lambda tried: self.plan(query, tried).plan,
            self.can_pay,
            self.account_status,
            lambda plan: plan.uses,
        )

    def can_pay(self, plan: Plan) -> bool:
        """Return whether the account can pay for `plan`; True if no account pays."""
        return self._account is None or self._account.shortage(plan.uses) is None

    def plan(self, query: Query, budget: AskedBudget) -> ExecutablePlan:
        """Return the plan of `query` within `budget`, ready to be run; no row is read.

        Raises an error that says what is wrong with the question, such as `UnknownColumn` or `InvalidFilter`.
        """
        if isinstance(budget, Within):
            return plan_within(budget, lambda total: self.plan(query, total))
        if self._location.prepared and query.where is not None:
            raise InvalidFilter(TAKES_NO_FILTER)
        self._check_person(query)
        status = None if self._account is None else self._account.status()
        try:
            planned = plan_query(query, budget, self._user, self._engine.describe(), status)
            self._engine.check(planned.aggregation)
            if planned.search is not None:
                self._engine.check(planned.search.aggregation)
        except UnknownColumn as error:
            raise UnknownColumn(f"{error}{self._advice}") from None
        return planned.in_units(self._unit)

    def for_question(self, query: Query, budget: AskedBudget) -> "Session":  # noqa: ARG002 - `FileSession` uses them
        """Return the session that plans and answers `query` within `budget`, which is this session itself.

        Sessions on CSV files override this method: they return a session that reads columns of the file as the types
        that `query` needs.
        """
        return self

    def _check_person(self, query: Query) -> None:
        """Raise `InvalidParameter` if `query` reads the user column while the unit of privacy is a part of a user.

        With a unit such as "user,day", each day of a user is protected, but not the user as a whole. A query that reads
        the user column could then single out a user.
        """
        if self._person is None:
            return
        schema = self._engine.describe()
        read = {group_of(text, schema).column for text in query.groups} | set(query.values)
        if query.where is not None:
            read |= {column.name for column in parse_filter(query.where, schema).columns()}
        if read & {self._person, self._user}:
            raise self._names_person()

    def _check_person_in(self, joins: Sequence[Join], derivation: Derivation) -> None:
        """Raise `InvalidParameter` if only parts of users are protected, but a join or a column reads the user column.

        With a unit of privacy such as one day of a user, users as a whole are not protected; a computed column, or a
        table joined on the user column, could then single out a user. `joins` are the tables that are joined to the
        session's table, and `derivation` are the steps of SQL, such as computed columns, that are applied to its rows.
        """
        if self._person is None:
            return
        read = {name for name, _ in columns_computed_with(derivation)}
        read |= {key.column for join in joins for key in join.keys}
        users = (self._person, self._user)
        if any(name == user or name.endswith(f".{user}") for name in read for user in users):
            raise self._names_person()

    def _names_person(self) -> InvalidParameter:
        """Return the error for a question that names the user column while the unit of privacy is a part of a user."""
        return InvalidParameter(
            f"with the unit {self._unit!r} users themselves are not protected, so that a question may not name the "
            f"user column {self._person!r}, nor compute with {self._user!r}: leave it out, or protect users"
        )

    def ask(self, query: Query, budget: AskedBudget, *, key: str | None = None) -> PrivateAnswer:
        """Plan `query`, charge it to `budget`, read the table, and return the noisy answer.

        Asking again under the same `key` returns the stored answer at no cost; None makes a new key.

        Ensures: every error in the request is raised before anything is charged. After the charge there is one outcome,
        the answer or `AnswerWithheld`, and asking again under the same key returns that outcome.
        Raises: `BudgetExhausted` if the account cannot pay; the message suggests a smaller budget if there is one.
        """
        key = secrets.token_hex(16) if key is None else check_text(key, "key")
        try:
            return first_payable(
                budget,
                lambda tried: self._ask_within(query, tried, key),
                self.account_status,
                lambda tried: self.plan(query, tried).plan.uses,
            )
        except BudgetExhausted as refused:
            planned = self.plan(query, budget)
            raise self.exhausted(
                str(refused), planned.total or budget, planned.plan, lambda other: self.plan(query, other).plan
            ) from None

    def _ask_within(self, query: Query, budget: AskedBudget, key: str) -> PrivateAnswer:
        """Plan `query` within `budget`, charge the payer under the idempotency `key`, and return the noisy answer.

        The noise is of the kind that `budget` names, or else of the kind that the planner chooses. Unlike `ask`, this
        method does not try other kinds of noise if the account cannot pay.
        """
        planned = self.plan(query, budget)
        budget_to_pay = planned.total if isinstance(budget, Within) else budget
        assert budget_to_pay is not None, "an accuracy is bought with a total"
        self._state.warn_of_query(query, self._identity.joins)
        stored, replayed = execute(
            planned,
            self._engine,
            self._account or self._state.one_off.of_budget(planned.plan.epsilon.upper, planned.plan.delta),
            key=key,
            request=self.request(query, budget_to_pay),
            randomness=self._randomness,
            searches=self._state.searches,
            unit=self._unit,
        )
        return replace(PrivateAnswer.from_stored(stored), replayed=replayed, unit=self._unit)

    def join(self, table: str, *, using: Columns, keeps_all: bool = False) -> "Session":
        """Return a session on the rows of this table joined to `table`, another table that `setwise.open` was given.

        - `using` names the columns that must be equal in both tables; for a private table, only the user column.
        - `keeps_all` also keeps rows of this table without a match, with nulls, as LEFT JOIN does.
        The two sessions add up what they spend: the method `guarantee` of each returns the cost of both together.
        """
        columns = (using,) if isinstance(using, str) else tuple(using)
        keys = tuple(Key(column=column, joined=column) for column in columns)
        origin = self._origin or JoinOrigin(self, self._location.name or self._name, ())
        join = Join(table=table, keys=keys, keeps_all=keeps_all)
        return origin.session._joined_session(origin.name, (*origin.joins, join))

    def _joined_session(self, name: str, joins: tuple[Join, ...], derivation: Derivation = NOT_DERIVED) -> "Session":
        """Return the session for SQL that joins other tables to this table, or computes with its rows beforehand.

        - `name` is the name of this table after FROM in the SQL.
        - `joins` are the tables to join.
        - `derivation` are the steps that filter rows or compute columns before anything is aggregated.

        Equal arguments return the same session. Without joins and steps, this session itself is returned.
        Raises: `UnsuitableTable` if this session's rows cannot be joined or computed with, such as the rows of a table
        that `Session.prepare` wrote, which do not name users.
        """
        if not joins and not derivation:
            return self
        if (name, joins, derivation) not in self._joins:
            self._check_person_in(joins, derivation)
            self._beside.check(joins)
            if self._open_joined is None or self._location.prepared:
                raise UnsuitableTable("what was prepared cannot be joined or computed with: ask its source")
            derived = [f"({derivation})"] if derivation else []
            # A ledger stores the name, so no answer about the table itself is replayed for a question about the joined
            # rows.
            self._joins[name, joins, derivation] = Session(
                self._open_joined(name, joins, derivation),
                user=self._user,
                name=" ".join([self._name, *map(str, joins), *derived]),
                randomness=self._randomness,
                account=self._account,
                location=self._location,
                identity=replace(self._identity, joins=joins, derivation=str(derivation)),
                unit=self._unit,
                person=self._person,
                state=self._state,
                origin=JoinOrigin(self, name, joins),
                known_as=self._known_as,
            )
        return self._joins[name, joins, derivation]

    def sql(
        self, text: str, *, key: str | None = None, called: str | None = None, **words: Unpack[SqlWords]
    ) -> "SqlAnswer":
        """Return the answer to the SQL statement `text`, as columns and rows.

        - `called` is one more name by which `text` may refer to the table, or None. Without it, the table is called by
          its path or the name of its file without endings; a table in memory has the name that it was opened with (or
          else "source").
        - `words` state the budget and `contributions` (the most groups in which one user counts), unless the clause
          ``WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = .., delta = .., max_groups_contributed = ..)`` does.
        - Bounds that are not given are found with a tenth of epsilon. A delta that is needed and not given is 1e-6, or
          less if the account that pays allows only less.
        - `key`: asking again under the same key returns the stored answer at no cost. None makes a new key.
        Raises: `InvalidParameter`, naming everything that is not supported.
        """
        question = self.ask_sql(text, words, called)
        if question.statement.explain:
            raise InvalidParameter("EXPLAIN has a plan and no rows: ask for a preview, in Python with session.explain")
        joins = [core.source.joins for core in question.statement.cores]
        cast("Session", question.session)._state.warn_of_text(text, joins, question.statement.null_sums)
        return question.ask(key)

    def explain(self, text: str, *, called: str | None = None, **words: Unpack[SqlWords]) -> Plan:
        """Return how a SQL SELECT, `text`, would be answered and what it would cost; nothing is charged.

        The keyword EXPLAIN before the SELECT may be left out. `called` is one more name that the table may have after
        FROM, or None, and `words` are keyword arguments such as epsilon=.
        """
        return self.ask_sql(text, words, called).plan()

    def ask_sql(self, text: str, words: SqlWords, called: str | None = None) -> "SqlQuestion":
        """Return the SQL statement `text`, parsed, with its budget and a session for each SELECT over private rows.

        `words` are keyword arguments such as epsilon= and contributions=, and `called` is one more name that the table
        may have after FROM, or None. Everything that is wrong with the statement is raised here, before anything is
        charged.
        """
        from setwise.analytics.sql_question import refuse_open_bounds, with_fitting_statement

        def schema_of(table: str) -> Schema:
            if table not in self._beside.all:
                return self.schema
            with open_engine(self._beside.all[table]) as engine:
                return engine.describe()

        with with_fitting_statement(text, schema_of, lambda other: self.ask_sql(other, words, called).plan()):
            question = self._sql_question(text, words, called)
            if not all(core.fits_kinds for core in question.statement.cores):
                question.plan()  # which names the column and its type
            refuse_open_bounds(text, words, lambda other, beside: self._sql_question(other, beside, called))
            return question

    def _sql_question(self, text: str, words: SqlWords, called: str | None) -> "SqlQuestion":
        """Return the SQL statement `text` as `ask_sql` does, or raise its first error without a statement instead."""
        from setwise.analytics.sql.aggregates import DeclaredBounds
        from setwise.analytics.sql.parser import TableFacts, parse_sql
        from setwise.analytics.sql_question import SqlQuestion, check_planned, public_values, read_public_tables

        check_text(text, "a SELECT")
        for word in words:
            if word not in SqlWords.__annotations__:
                known = ", ".join(sorted(SqlWords.__annotations__))
                raise InvalidParameter(f"a SQL query has no {word!r} beside it; it may have {known}")
        parameters, spent = split_budget(words)
        if parameters.get("domain") is not None:
            parameters["domain"] = self.read_domain(parameters["domain"])
        names = {name.lower() for name in (self._name, self._location.name, called) if name}

        def schema_of(table: str, joins: tuple[Join, ...]) -> Schema:
            if table.lower() not in names and table.rpartition(".")[2].lower() not in names:
                expected = self._location.name or self._name
                remedy = "" if self._location.name else f", or open(..., name={table!r})"
                raise InvalidParameter(
                    f"this session is on the table {expected!r}, not {table!r}: write FROM {expected}{remedy}"
                )
            return self._joined_session(table, joins).schema

        declared = self._declared
        facts = TableFacts(
            public=tuple(self._beside.public),
            private=tuple(self._beside.private),
            declared=DeclaredBounds(columns=declared.bounds, rows_per_user=declared.rows_per_user),
            domains=declared.domains,
            contributions=declared.contributions,
            schema_of=schema_of,
            public_value=public_values(self._beside.public),
            check=lambda statement: check_planned(statement, self),
        )
        statement = parse_sql(text, user=self._user, **parameters, facts=facts)
        terms = None if self._account is None else self._account.status().terms
        budget = self.budget(statement.paid_by(spent, default_delta(terms)))
        statement = statement.filled(finds_bounds=not isinstance(budget, Draws))
        sessions = tuple(self.derived_session(core.source) for core in statement.cores)
        public = read_public_tables(statement.public, self._beside.public)
        statement.check_shell([session.schema for session in sessions], public)
        return SqlQuestion(
            statement=statement,
            session=self,
            sessions=sessions,
            budget=budget,
            user=self._user,
            public=public,
            types=self.types,
        )

    def account_status(self) -> AccountStatus | None:
        """Return the status of the account that pays for this session; None if questions bring their own budget."""
        return None if self._account is None else self._account.status()

    @property
    def reader(self) -> Engine:
        """The engine that reads the rows of this session's table."""
        return self._engine

    def ask_parts(self, parts: Sequence[StatementPart], whole: Plan, *, key: str | None, request: str) -> PrivateAnswer:
        """Run the SELECTs of a statement that aggregate private rows (`parts`), and return one answer for all of them.

        All parts are charged once, at the cost of `whole`, which is the plan of all parts together. `key` is the
        idempotency key of the charge: a retry with the same key returns the stored answer and charges nothing. None
        makes a new key. `request` is the text that identifies the statement.
        """
        stored, replayed = execute_parts(
            parts,
            whole,
            self._account or self._state.one_off.of_budget(whole.epsilon.upper, whole.delta),
            key=secrets.token_hex(16) if key is None else check_text(key, "key"),
            request=request,
            randomness=self._randomness,
            searches=self._state.searches,
            unit=self._unit,
        )
        return replace(PrivateAnswer.from_stored(stored), replayed=replayed, unit=self._unit)

    def derived_session(self, source: "SelectSource") -> "Session":
        """Return the session on `source`, the private rows that a SELECT reads (a table, joins, derived columns)."""
        return self._joined_session(source.table, source.joins, source.derivation)

    def prepare(
        self,
        destination: str | Path,
        *,
        item: str,
        value: str | None = None,
        where: str | None = None,
        null_item: Cell | None = None,
    ) -> None:
        """Store each user's items in a random order, so that questions with a limit on a user's items read fewer rows.

        A question that counts each user in at most 5 items, for example, reads only the first 5 items of each user; on
        the original table, it reads all items and chooses 5 at random.

        - `destination` is a directory for files, or a table's name for other engines. `setwise.open` opens it like any
          source, until the original table changes.
        - `item` is the column whose values are the items.
        - `value` is a column that later questions may sum, or None.
        - `where` is a condition on the rows that are stored; None stores all rows.
        - `null_item` is the label for rows without an item; None leaves these rows out.

        Nothing is released or charged; the stored table is as private as the original.
        """
        schema = self._engine.describe()
        row_filter = None if where is None else parse_filter(where, schema)
        self._engine.prepare(
            user=self._user,
            item=item,
            destination=destination,
            value=value,
            where=row_filter,
            null_item=fit_null_item(null_item, [schema.column(item)]),
        )

    def request(self, query: Query, budget: Budget) -> str:
        """Return the canonical text of a request for `query` within `budget`; equal texts mean the same request.

        The text is stored with the charge, so that a retry is told from another question under the same key.
        """
        return request_text(self._identity, query, budget, self._engine.describe())

    def shortage(self, query: Query, budget: AskedBudget, plan: Plan) -> str | None:
        """Return a text that says what the account lacks to pay for `plan`, and suggests a budget if one would fit.

        `plan` is the plan of `query` within `budget`. Returns None if the account can pay, or if no account pays.
        """
        return self.shortage_of(plan, budget, lambda other: self.plan(query, other).plan)

    def shortage_of(self, plan: Plan, budget: AskedBudget, replan: Callable[[Total], Plan]) -> str | None:
        """Return a text that says what the account lacks to pay for `plan`, or None, as `shortage` does.

        `plan` is a plan within `budget`, and `replan` returns the plan of the same question within another budget.
        """
        shortage = None if self._account is None else self._account.shortage(plan.uses)
        return None if shortage is None else str(self.exhausted(shortage, budget, plan, replan))

    def exhausted(
        self, shortage: str, budget: AskedBudget, plan: Plan, replan: Callable[[Total], Plan]
    ) -> BudgetExhausted:
        """Return the error that refuses `plan` because of `shortage`, and suggests a budget if one would fit.

        `shortage` is a sentence on what the account lacks. `plan` is a plan within `budget`, and `replan` returns the
        plan of the same question within another budget.
        """
        account = self._account
        if account is None or not isinstance(budget, Total):
            return exhausted(shortage, None)
        suggestion = suggest_budget(budget, plan.uses, account, lambda other: self.can_pay(replan(other)))
        return exhausted(shortage, suggestion)

    def warning(self, plan: Plan) -> str | None:
        """Return a warning if, after a charge for `plan`, the dataset's joint budget can be spent in one way only.

        The accounts on a dataset share a joint budget, which can be spent in two ways: as a Gaussian budget (all
        charges together reveal no more than one Gaussian mechanism) or as a sum of epsilons. A charge that fits only
        one way ends the other way for good. Returns None if the charge ends neither way, or if the session has no
        account.
        """
        return None if self._account is None else self._account.warning(plan.uses)

    @property
    def spent(self) -> tuple[Use, ...]:
        """The mechanisms that all questions so far were charged for, as privacy guarantees and numbers of runs.

        If an account pays, these are all charges to the account in its budget period, also charges by other sessions.
        For an account with an (epsilon, delta) budget, the mechanisms are not listed; one or two guarantees bound what
        all of them reveal together.
        """
        if self._account is not None:
            return self._account.status().spent
        return self._state.one_off.spent

    def guarantee(self, delta: float, interaction: str | None = None) -> CertifiedBound:
        """Return the certified cost, as an epsilon at the overall `delta`, of all questions so far together.

        If an account pays, the result is the account's own promise, and both arguments are ignored. Otherwise
        `interaction` says what the analyst chose after seeing answers:
        - None or "adaptive": the questions and their budgets.
        - "setwise": the questions and their order; all mechanisms and parameters (such as epsilon) were fixed before.
        - "ordered": the questions; the order of the mechanisms was fixed, too.
        - "batch": nothing.
        Raises: `InvalidParameter` if nothing was asked yet.
        """
        if self._account is not None:
            return self._account.status().epsilon
        if not self.spent:
            raise InvalidParameter("nothing was asked yet, so there is nothing to add up")
        claimed = Interaction.ADAPTIVE if interaction is None else Interaction.parse(interaction)
        return self._state.one_off.guarantee(check_delta(delta), claimed)
