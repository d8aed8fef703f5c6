"""Questions to one table, one after the other, and what they cost together."""

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, Unpack

from setwise.accounting.brackets import CertifiedBound, Interaction, Progress, quiet, up
from setwise.accounting.checks import check_delta
from setwise.accounting.filters import ZcdpOdometer, filter_parameters
from setwise.accounting.guarantees import Use, merged
from setwise.analytics.accuracy import plan_within
from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.askable import Askable, SqlWords, parted
from setwise.analytics.bins import group_of
from setwise.analytics.bounds_search import SearchMemory
from setwise.analytics.budget import AskedBudget, Budget, BudgetWords, Draws, Within, budget_of
from setwise.analytics.catalog import NOTHING_DECLARED, Catalog, Declaration, read_catalog
from setwise.analytics.engines.base import Engine
from setwise.analytics.engines.connect import (
    IN_MEMORY,
    Beside,
    Joined,
    Location,
    Source,
    location_of,
    open_engine,
    pin_version,
)
from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.engines.joins import Join, Key
from setwise.analytics.engines.prepared import TAKES_NO_FILTER
from setwise.analytics.execute import StatementPart, execute, execute_parts
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.identity import TableIdentity, identify_source, request_text
from setwise.analytics.payer import AccountPayer, OneOff, what_fits
from setwise.analytics.planning import ExecutablePlan, Plan, plan_query
from setwise.analytics.query import Columns, Domain, Query
from setwise.analytics.rows.derivation import NOT_DERIVED, Derivation
from setwise.analytics.schema import Kind, Schema
from setwise.analytics.tables.domain import fitted_null_item, read_domain
from setwise.analytics.units import USER, check_unit, unit_column, unit_derivation
from setwise.errors import BudgetExhausted, InvalidFilter, InvalidParameter, UnknownColumn, UnsuitableTable
from setwise.ledger.records import check_text
from setwise.ledger.status import AccountStatus
from setwise.mechanisms.labels import Cell, Label
from setwise.mechanisms.planning.cost import certified_price
from setwise.mechanisms.planning.request import Total
from setwise.mechanisms.randomness import Randomness, SystemRandomness

if TYPE_CHECKING:
    import pyarrow

    from setwise.analytics.sql.core import Source as SqlSource
    from setwise.analytics.sql.parser import Statement
    from setwise.analytics.sql.result import SqlAnswer
    from setwise.analytics.sql_question import SqlQuestion


NOTHING_BESIDE = Beside()

IN_MEMORY_NAME = "source"
"""The name of a table in memory that was opened without one."""

MOST_PUBLIC_ROWS = 1_000_000
"""The most rows of a public table that is joined to released rows: it is held in memory."""

JoinedOpener: TypeAlias = Callable[[str, Sequence[Join], Derivation], Engine]
"""Opens a table, under a name, with others joined to it, and with what is derived of the joined rows."""


class Session(Askable):
    """A table that answers privately; `setwise.open` returns one.

    Each question is planned, charged, run and answered in that order. It is paid for by a total (`epsilon` and `delta`)
    of its own, or, when the session was opened on an `account`, by draws from that account (`discover`, `counts`).
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
        beside: Beside = NOTHING_BESIDE,
        declared: Declaration = NOTHING_DECLARED,
        open_joined: JoinedOpener | None = None,
        identity: TableIdentity | None = None,
        unit: str = USER,
        person: str | None = None,
    ) -> None:
        self._engine = engine
        self._beside = beside
        self._declared = declared
        self._open_joined = open_joined
        self._joins: dict[tuple[str, tuple[Join, ...], Derivation], Session] = {}
        self._joined_from: tuple[Session, str, tuple[Join, ...]] | None = None
        self._location = location
        self._advice = advice  # what to try when a column is not there
        self._user = user
        self._unit = unit
        self._person = person  # the user column, where the unit of privacy is a part of a user
        self._name = name
        self._randomness = randomness
        self._account = account
        self._identity = TableIdentity(name=name, user=user) if identity is None else identity
        self._one_off = OneOff()
        self._searches = SearchMemory()

    def __repr__(self) -> str:
        return f"<setwise session on {self._name!r}, users in {self._user!r}, {len(self._one_off.charges)} question(s)>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def paid_by(self, account: AccountPayer) -> "Session":
        """Return a session on the same table whose questions an account pays for."""
        return Session(
            self._engine,
            user=self._user,
            name=self._name,
            randomness=self._randomness,
            account=account,
            location=self._location,
            identity=self._identity,
            unit=self._unit,
            person=self._person,
        )

    def close(self) -> None:
        """Let go of the table, and of those that were joined to it."""
        for joined in self._joins.values():
            joined.close()
        self._engine.close()

    def cancel(self) -> None:
        """Stop what runs, from another thread; what was charged stays charged."""
        for joined in list(self._joins.values()):
            joined.cancel()
        self._engine.cancel()

    @property
    def schema(self) -> Schema:
        """The columns of the table and their kinds."""
        return self._engine.describe()

    def rows(self) -> int | None:
        """Return about how many rows the table has, where metadata tells; not private, so for its holder only."""
        return self._engine.rows()

    def read_domain(self, domain: Domain) -> tuple[Label, ...]:
        """Return public labels from a list or a file; the private table's own files are refused."""
        return read_domain(domain, self._location)

    def budget(self, words: BudgetWords) -> AskedBudget:
        """Return the budget that the words mean, when someone pays for it."""
        if words.get("epsilon") is None and words.get("within") is None and self._account is None:
            raise InvalidParameter("say what may be spent: give epsilon and delta, or open the table on an account")
        return budget_of(words)

    def preview(self, query: Query, budget: AskedBudget) -> Plan:
        """Return how the question would be answered: mechanism, cost and expected error. No row is read: it is free."""
        return self.plan(query, budget).plan

    def plan(self, query: Query, budget: AskedBudget) -> ExecutablePlan:
        """Return the plan with what is needed to run it, or raise what is wrong with the question."""
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
        return planned

    def _check_person(self, query: Query) -> None:
        """Raise for a question about single users where only parts of users are protected: it would single them out."""
        if self._person is None:
            return
        schema = self._engine.describe()
        read = {group_of(text, schema).column for text in query.groups} | set(query.values)
        if query.where is not None:
            read |= {column.name for column in parse_filter(query.where, schema).columns()}
        if read & {self._person, self._user}:
            raise InvalidParameter(
                f"with the unit {self._unit!r} users themselves are not protected, so that a question may not name the "
                f"user column {self._person!r}: leave it out, or protect users"
            )

    def ask(self, query: Query, budget: AskedBudget, *, key: str | None = None) -> PrivateAnswer:
        """Plan, charge, run and answer a question given as records.

        Ensures: whatever is wrong with the request is raised before anything is charged. After the charge there is one
            outcome, the answer or `AnswerWithheld`, which asking again under the same key returns.
        """
        planned = self.plan(query, budget)
        paid = planned.total if isinstance(budget, Within) else budget
        assert paid is not None, "an accuracy is bought with a total"
        key = secrets.token_hex(16) if key is None else check_text(key, "key")
        payer = self._account or self._one_off.of_budget(planned.plan.epsilon.upper, planned.plan.delta)
        try:
            stored, replayed = execute(
                planned,
                self._engine,
                payer,
                key=key,
                request=self.request(query, paid),
                randomness=self._randomness,
                searches=self._searches,
            )
        except BudgetExhausted as refused:
            fitting = self._fitting(query, paid, planned.plan)
            if fitting is None:
                raise
            raise BudgetExhausted(f"{refused}; {fitting}") from None
        return replace(PrivateAnswer.from_stored(stored), replayed=replayed, unit=self._unit)

    def join(self, table: str, *, using: Columns, keeps_all: bool = False) -> "Session":
        """Return the session on this table with another one beside it, that was given as `public` or `private`.

        `using` are the columns that both have and that must be equal; `keeps_all` keeps rows that find no row there. A
        private table is joined on the user column alone. What one user adds is bounded after the join, however many
        rows a key meets, and the questions of both sessions add up together.
        """
        columns = (using,) if isinstance(using, str) else tuple(using)
        keys = tuple(Key(column=column, joined=column) for column in columns)
        session, name, joins = self._joined_from or (self, self._location.name or self._name, ())
        return session._joined(name, (*joins, Join(table=table, keys=keys, keeps_all=keeps_all)))

    def _joined(self, name: str, joins: tuple[Join, ...], derivation: Derivation = NOT_DERIVED) -> "Session":
        """Return the session on this table, called `name`, with others joined to it and columns computed of its rows.

        Its name says what is joined and derived, so that requests to it differ from requests to the table itself.
        """
        if not joins and not derivation:
            return self
        if (name, joins, derivation) not in self._joins:
            self._beside.check(joins)
            if self._open_joined is None or self._location.prepared:
                raise UnsuitableTable("what was prepared cannot be joined or computed with: ask its source")
            derived = [f"({derivation})"] if derivation else []
            other = Session(
                self._open_joined(name, joins, derivation),
                user=self._user,
                name=" ".join([self._name, *map(str, joins), *derived]),
                randomness=self._randomness,
                account=self._account,
                location=self._location,
                identity=replace(self._identity, joins=joins, derivation=str(derivation)),
                unit=self._unit,
                person=self._person,
            )
            other._one_off, other._searches, other._joined_from = self._one_off, self._searches, (self, name, joins)
            self._joins[name, joins, derivation] = other
        return self._joins[name, joins, derivation]

    def sql(self, text: str, *, key: str | None = None, **words: Unpack[SqlWords]) -> "SqlAnswer":
        """Return the answer to one SQL statement, as columns and rows.

        FROM names the file without its endings, or as it was opened. A table in memory has the name that it was opened
        with (`name` or `dataset`), or else "source". The budget stands in the clause
        ``WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = .., delta = ..)`` or in the words, and so does the contribution
        bound (`max_groups_contributed`). Bounds that are not given are found within a tenth of epsilon, and a delta
        that is needed and not given is 1e-6. What is not supported is refused by name.
        """
        question = self.ask_sql(text, words)
        if question.statement.explain:
            raise InvalidParameter("EXPLAIN has a plan and no rows: call session.explain with the SELECT")
        return question.ask(key)

    def explain(self, text: str, **words: Unpack[SqlWords]) -> Plan:
        """Return how a SELECT would be answered, and what it would cost; EXPLAIN before it may be left out. Free."""
        return self.ask_sql(text, words).plan()

    def ask_sql(self, text: str, words: SqlWords, called: str | None = None) -> "SqlQuestion":
        """Return a statement with the sessions on what it joins and derives, and what may be spent on it.

        `called` is one more name that the table may have after FROM. Everything that is wrong with the statement is
        raised here, before anything is charged.
        """
        from setwise.analytics.sql.aggregates import DeclaredBounds
        from setwise.analytics.sql.parser import TableFacts, parse_sql
        from setwise.analytics.sql_question import SqlQuestion

        check_text(text, "a SELECT")
        given, spent = parted(words)
        if given.get("domain") is not None:
            given["domain"] = self.read_domain(given["domain"])
        names = {self._name, self._location.name, called}

        def schema_of(table: str, joins: tuple[Join, ...]) -> Schema:
            if table not in names and table.rpartition(".")[2] not in names:
                own = self._location.name or self._name
                remedy = "" if self._location.name else ", or give the table that name when it is opened"
                raise InvalidParameter(
                    f"this session is on the table {own!r}, not {table!r}: write {own} after FROM{remedy}"
                )
            return self._joined(table, joins).schema

        declared = self._declared
        facts = TableFacts(
            public=tuple(self._beside.public),
            declared=DeclaredBounds(columns=declared.bounds, rows_per_user=declared.rows_per_user),
            domains=declared.domains,
            contributions=declared.contributions,
            schema_of=schema_of,
        )
        statement = parse_sql(text, user=self._user, **given, facts=facts)
        budget = self.budget(statement.paid_by(spent))
        statement = statement.filled(finds_bounds=not isinstance(budget, Draws))
        sessions = tuple(self.derived_session(core.source) for core in statement.cores)
        public = self.public_tables(statement)
        if statement.shell is not None:
            statement.check_shell([session.schema for session in sessions], public)
        return SqlQuestion(
            statement=statement, session=self, sessions=sessions, budget=budget, user=self._user, public=public
        )

    def account_status(self) -> AccountStatus | None:
        """Return the status of the account that pays; None where questions bring their own budget."""
        return None if self._account is None else self._account.status()

    @property
    def reader(self) -> Engine:
        """The engine that reads the rows."""
        return self._engine

    def ask_parts(self, parts: Sequence[StatementPart], whole: Plan, *, key: str | None, request: str) -> PrivateAnswer:
        """Charge the releasing SELECTs of one statement once, and return their answers as one."""
        stored, replayed = execute_parts(
            parts,
            whole,
            self._account or self._one_off.of_budget(whole.epsilon.upper, whole.delta),
            key=secrets.token_hex(16) if key is None else check_text(key, "key"),
            request=request,
            randomness=self._randomness,
            searches=self._searches,
        )
        return replace(PrivateAnswer.from_stored(stored), replayed=replayed, unit=self._unit)

    def derived_session(self, source: "SqlSource") -> "Session":
        """Return the session on the rows that a SELECT reads: with what is joined to the table and derived of it."""
        return self._joined(source.table, source.joins, source.derivation)

    def public_tables(self, statement: "Statement") -> "dict[str, pyarrow.Table]":
        """Return the public tables that the free part of a statement reads, by name.

        They are read here, whole, before the free part runs: the free part itself opens nothing.
        """
        names = () if statement.shell is None else statement.shell.public
        tables = {}
        for name in names:
            with open_engine(self._beside.public[name]) as engine:
                if not hasattr(engine, "read_table"):
                    raise InvalidParameter(f"{name!r} is joined to the private table itself, not to released rows")
                tables[name] = engine.read_table(MOST_PUBLIC_ROWS)
        return tables

    def prepare(
        self,
        destination: str | Path,
        *,
        item: str,
        value: str | None = None,
        where: str | None = None,
        null_item: Cell | None = None,
    ) -> None:
        """Rank every user's items once and store the result, for quick questions with any bound on contributions.

        `destination` is a directory for files, or the name of a table for other engines; `setwise.open` opens
        it like any other source, until the original changes. Nothing is shown, so nothing is charged; what is stored is
        as private as the table.
        """
        schema = self._engine.describe()
        kept = None if where is None else parse_filter(where, schema)
        self._engine.prepare(
            user=self._user,
            item=item,
            destination=destination,
            value=value,
            where=kept,
            null_item=fitted_null_item(null_item, [schema.column(item)]),
        )

    def request(self, query: Query, budget: Budget) -> str:
        """Return the canonical text of a request: two requests are the same when their texts are."""
        return request_text(self._identity, query, budget, self._engine.describe())

    def shortage(self, query: Query, budget: AskedBudget, plan: Plan) -> str | None:
        """Return in words what the account lacks to pay for a plan, and what would fit; None when it can pay."""
        lacking = None if self._account is None else self._account.shortage(plan.uses)
        fitting = None if lacking is None else self._fitting(query, budget, plan)
        return lacking if fitting is None else f"{lacking}; {fitting}"

    def warning(self, plan: Plan) -> str | None:
        """Return in words what a plan would end for other accounts under the dataset's cap, or None."""
        return None if self._account is None else self._account.warning(plan.uses)

    def _fitting(self, query: Query, budget: AskedBudget, plan: Plan) -> str | None:
        account = self._account
        if account is None or not isinstance(budget, Total):
            return None
        return what_fits(
            budget,
            plan.uses,
            account,
            lambda other: account.shortage(self.preview(query, other).uses) is None,
        )

    @property
    def spent(self) -> tuple[Use, ...]:
        """What all questions so far were charged, or have drawn from the account."""
        if self._account is not None:
            return self._account.status().spent
        return merged(use for charge in self._one_off.charges for use in charge)

    def guarantee(self, delta: float, interaction: str | None = None) -> CertifiedBound:
        """Return what all questions so far are promised to cost together, at the overall `delta`.

        Questions that were chosen after seeing answers, with parameters chosen on the fly, are covered by an odometer
        (`adaptive`). Whoever fixed all of them before the first answer may claim `batch`, `ordered` or `setwise`, which
        promise more. The plain sum of the questions' totals holds for all of these and is taken where it is less;
        beside an odometer it has half of delta. On an account the promise is the account's own, set-wise if its draws
        were registered.
        """
        if self._account is not None:
            return self._account.status().epsilon
        uses = self.spent
        if not uses:
            raise InvalidParameter("nothing was asked yet, so there is nothing to add up")
        claimed = Interaction.ADAPTIVE if interaction is None else Interaction.parse(interaction)
        if claimed is Interaction.ADAPTIVE:
            return self._on_the_fly(uses, check_delta(delta))
        return min(certified_price(uses, delta, claimed), self._added_up(claimed, delta), key=lambda each: each.upper)

    def _on_the_fly(self, uses: tuple[Use, ...], delta: float) -> CertifiedBound:
        """Return the lesser of an odometer and the sum of the totals, each at half of delta.

        Which of the two is less depends on the answers, so each is passed with its own probability and both have to
        fit in delta. Where the first question alone has more than a tenth of delta, the sum has all of it and there is
        no odometer: that choice is made before the first answer, so it may be made.
        """
        first = self._one_off.totals[0][1]
        if 10 * first > delta:
            return self._added_up(Interaction.ADAPTIVE, delta)
        odometer = ZcdpOdometer(delta=delta / 2, spent=filter_parameters(uses)).answer()
        return min(odometer, self._added_up(Interaction.ADAPTIVE, delta / 2), key=lambda each: each.upper)

    def _added_up(self, claimed: Interaction, delta: float) -> CertifiedBound:
        """Return the sum of the questions' epsilons, when the sum of their deltas is at most delta.

        Theorem: DworkKeMcMiNa06 (basic composition); it also holds when parameters are chosen on the fly.
        """
        epsilon, failed = (sum(map(Fraction, part)) for part in zip(*self._one_off.totals, strict=True))
        upper = up(float(epsilon)) if failed <= Fraction(delta) else math.inf
        return CertifiedBound(0.0, upper, claimed, "basic-composition", "DworkKeMcMiNa06")


_READ_BY_DEFAULT: dict[str, object] = {"engine": "duckdb", "encoding": "utf-8", "skip_lines": 0, "decimal": "."}
"""The words of `open` that have a default other than None."""


def open(  # noqa: A001 - it is called as setwise.open
    source: Source,
    *,
    user: str | None = None,
    engine: str = "duckdb",
    table: str | None = None,
    types: Mapping[str, Kind] | None = None,
    unit: str = USER,
    separator: str | None = None,
    columns: Sequence[str] | None = None,
    encoding: str = "utf-8",
    skip_lines: int = 0,
    header: bool | None = None,
    format: str | None = None,  # noqa: A002 - the word of the command line
    decimal: str = ".",
    thousands: str = "",
    date_format: str | None = None,
    null: Sequence[str] = (),
    public: Mapping[str, Source] | None = None,
    private: Mapping[str, Source] | None = None,
    account: AccountPayer | None = None,
    memory: str | None = None,
    dataset: str | None = None,
    name: str | None = None,
    progress: Progress = quiet,
    randomness: Randomness | None = None,
    catalog: str | Path | Catalog | None = None,
) -> Session:
    """Return a session on a table whose column `user` tells users apart.

    With a `catalog` the source is the name of one of its tables, which says where the table is, its user column, how it
    is read and what SQL may take as its bounds; words that are given beside it count instead of those of the catalog.

    `unit` is what is protected: "user" (everything that one user has), or only parts of users such as "user,day" or
    "user,at by week": each day or week of a user by itself, which promises far less.

    `source` is a file (Parquet, CSV, a DuckDB or SQLite database), a glob or directory of files, an Arrow table, a
    pandas or Polars frame, a Polars LazyFrame or DuckDB relation (computed once, now), or, with another `engine`
    ("spark", or a server's address), a table it knows. `types` says which columns of text, as all of a CSV file are,
    hold something else. For CSV files `separator` is what stands between cells, `columns` are the names of files
    without a header, `encoding` is UTF-8, UTF-16 or one of a byte per character such as cp1252, `skip_lines` counts
    the lines above the header, `header=True` says that the first line is one even if it looks like a row, and
    `format` is the ending that the name of the file ought to have, such as "csv.gz". `decimal`, `thousands`,
    `date_format` (as in "%d.%m.%Y") and `null` (words for empty cells) say how numbers, dates and empty cells are
    written. `public` and `private` are other
    tables by name on the same engine, which SQL and `join` may put beside this one: public ones say nothing about
    users, private ones have the same user column. With an `account` of a ledger, questions draw on that account. An
    account that was opened for a dataset pays only for that one: `dataset` says that the table is it, and without it
    the name of the file or table must say so. `name` says which table it is in requests that a ledger keeps, and is a
    name of the table after FROM: sessions with the same name replay each other's answers under the same key of an
    account. Without it the table is known by what `source` resolves to; one in memory has the name of its
    `dataset`, or else "source". `randomness` is the operating system's unless a test brings its own.

    >>> import pyarrow as pa
    >>> visits = pa.table({"who": [n // 2 for n in range(2000)], "page": ["home", "help"] * 1000})
    >>> with open(visits, user="who") as session:
    ...     answer = session.top_k(item="page", k=1, epsilon=1.0, delta=1e-6, contributions=2)
    >>> len(answer), answer.complete, answer.epsilon.upper <= 1.0
    (1, True, True)
    """
    declared = NOTHING_DECLARED
    if catalog is not None:
        found = catalog if isinstance(catalog, Catalog) else read_catalog(catalog)
        entry = found.table(str(source))
        words: dict[str, Any] = {**entry.options}
        given: dict[str, Any] = {"engine": engine, "table": table, "types": types, "separator": separator}
        given |= {"columns": columns, "encoding": encoding, "skip_lines": skip_lines, "header": header}
        given |= {"format": format, "memory": memory, "decimal": decimal, "thousands": thousands}
        given |= {"date_format": date_format, "null": null}
        words |= {word: value for word, value in given.items() if value and value != _READ_BY_DEFAULT.get(word)}
        with_catalog = open(
            entry.source,
            user=entry.user if user is None else user,
            **words,
            public={**found.public, **(public or {})},
            private={**found.private_beside(str(source)), **(private or {})},
            account=account,
            dataset=dataset,
            name=str(source) if name is None else name,
            progress=progress,
            randomness=randomness,
            unit=unit,
        )
        with_catalog._declared = entry.declared
        return with_catalog
    if user is None:
        raise InvalidParameter("name the column that tells users apart: give user, or a catalog that names it")
    location = location_of(source, engine, table)
    called = str(source) if isinstance(source, str | Path) else dataset or IN_MEMORY_NAME
    source = pin_version(source, engine)
    beside = Beside(
        public={other: pin_version(at, engine) for other, at in (public or {}).items()},
        private={other: pin_version(at, engine) for other, at in (private or {}).items()},
    )
    if account is not None:
        account.check_dataset(location.name if dataset is None else dataset)
        for called, other in beside.private.items():
            account.check_dataset(location_of(other, engine).name or called)
    elif dataset is not None:
        raise InvalidParameter("a dataset is named to say that an account may pay for it: give an account too")
    csv = CsvOptions(
        separator=separator,
        columns=None if columns is None else tuple(columns),
        encoding=encoding,
        skip_lines=skip_lines,
        header=header,
        format=format,
        decimal=decimal,
        thousands=thousands,
        date_format=date_format,
        null=tuple(null),
    )

    composite = check_unit(unit) != USER
    if composite and account is not None:
        raise InvalidParameter(f"accounts promise to protect users, and the unit {unit!r} protects less: give epsilon")
    if composite and beside.private:
        raise InvalidParameter(f"private tables are joined by users, which the unit {unit!r} does not protect")
    units = NOT_DERIVED

    def opened(called: str = "", joins: Sequence[Join] = (), derivation: Derivation = NOT_DERIVED) -> Engine:
        steps = units.then(*derivation.steps)
        joined = Joined(joins=joins, name=called, user=user, beside=beside, derivation=steps)
        return open_engine(
            source, engine, table=table, types=types, csv=csv, memory=memory, progress=progress, joined=joined
        )

    if composite:
        if location.prepared:
            raise UnsuitableTable("what was prepared is bounded by users: open its source for another unit")
        with opened() as plain:
            units = unit_derivation(user, unit, plain.describe())
    protected = unit_column(user, unit) if composite else user
    by_header = columns is None and location.files and csv.is_csv(csv.suffix_of(location.files[0]))
    if table and "::" not in called:
        called = f"{called}::{table}"
    called = called if name is None else name
    own_source = identify_source(source, engine, table) if name is None else "named"
    return Session(
        opened(),
        user=protected,
        unit=unit,
        person=user if composite else None,
        name=called,
        identity=TableIdentity(
            name=called,
            user=protected,
            sources={called: own_source} | {other: identify_source(at, engine) for other, at in beside.all.items()},
        ),
        randomness=SystemRandomness() if randomness is None else randomness,
        account=account,
        declared=declared,
        location=location.with_files(location_of(each, engine) for each in beside.private.values()),
        beside=beside,
        open_joined=opened,
        advice=f"; if these are no names, setwise check {location.files[0].name} says how to read it"
        if by_header
        else "",
    )
