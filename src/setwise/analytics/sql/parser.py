"""A SQL statement read into queries that are charged, and a free part that is computed of their released rows.

Every SELECT of a statement is of one of three kinds. A per-user SELECT computes the rows of one user of that user's
rows alone, so it is again a private table (per_user.py). A releasing SELECT aggregates private rows over users, and
becomes a `Query` (core.py). A free SELECT reads released rows and public tables (shell.py).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from sqlglot import exp
from sqlglot.errors import SqlglotError

from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.bins import group_of
from setwise.analytics.budget import BudgetWords
from setwise.analytics.engines.duckdb.shell import ReleasedTable, ShellResult, run_shell
from setwise.analytics.engines.joins import Join
from setwise.analytics.query import AUTO, Contributions, Count, Query
from setwise.analytics.rows.derivation import Derivation
from setwise.analytics.rows.expression import ReleasedValue
from setwise.analytics.schema import Kind, Schema
from setwise.analytics.sql.aggregates import DeclaredBounds, has_aggregate
from setwise.analytics.sql.clauses import own_nodes, read_tables, unqualify
from setwise.analytics.sql.core import Core, CoreBuilder, Problems, Settings, Source, stated_bounds, with_contributions
from setwise.analytics.sql.corrections import corrections
from setwise.analytics.sql.per_user import PerUserReader
from setwise.analytics.sql.result import Output, RowCell, SqlAnswer, estimated
from setwise.analytics.sql.shell import Shell, check_free, shell_of
from setwise.analytics.sql.syntax import (
    SPENDING,
    construct_of,
    number_in,
    parse,
    unsupported,
)
from setwise.errors import InvalidParameter, UnknownColumn
from setwise.mechanisms.labels import Label, cell_of

if TYPE_CHECKING:
    import pyarrow as pa

LARGEST = 1e150
"""A released value beyond this, either way, is null where it stands in a condition."""

DEFAULT_DELTA = 1e-6
"""The delta of a statement with private groups where none is given."""

SchemaOf: TypeAlias = Callable[[str, tuple[Join, ...]], Schema]
"""Returns the columns of a private table with those that are joined to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A SQL statement: its releasing SELECTs, the free part around them, and the options of its clause.

    `outputs` are the columns of the result, as far as they are known without running the free part. `scalars` are the
    scalar subqueries whose released values stand in conditions of later releasing SELECTs.
    """

    cores: tuple[Core, ...]
    outputs: tuple[Output, ...]
    user: str
    shell: Shell | None = None
    scalars: tuple[Shell, ...] = ()
    explain: bool = False
    epsilon: float | None = None
    delta: float | None = None
    within: float | None = None

    @property
    def query(self) -> Query:
        """The query of the last releasing SELECT: the only one of most statements."""
        return self.cores[-1].query

    @property
    def table(self) -> str:
        """The private table that the statement reads."""
        return self.cores[-1].source.table

    @property
    def joins(self) -> tuple[Join, ...]:
        """The joins of the last releasing SELECT."""
        return self.cores[-1].source.joins

    @property
    def derivation(self) -> Derivation:
        """What the last releasing SELECT derives of its rows."""
        return self.cores[-1].source.derivation

    @property
    def says_what_to_spend(self) -> bool:
        """Whether the clause does, in part at least."""
        return any(getattr(self, name) is not None for name in SPENDING)

    def paid_by(self, words: BudgetWords) -> BudgetWords:
        """Return the words for what may be spent, with those of the clause; neither is given twice.

        Private groups need a delta: where an epsilon is given without one, it is `DEFAULT_DELTA`.
        """
        own: BudgetWords = {name: value for name in SPENDING if (value := getattr(self, name)) is not None}  # type: ignore[assignment]
        for name in own:
            if words.get(name) is not None:
                raise InvalidParameter(f"{name} is given twice, in OPTIONS and beside the query: give it once")
        spent: BudgetWords = {**words, **own}
        total = spent.get("epsilon") is not None or spent.get("within") is not None
        if self.has_private_groups and total and spent.get("delta") is None:
            spent["delta"] = DEFAULT_DELTA
        return spent

    @property
    def has_private_groups(self) -> bool:
        """Whether a releasing SELECT has groups that are not public, which takes a delta to find."""
        return any(core.query.item is not None and core.query.domain is None for core in self.cores)

    def filled(self, *, finds_bounds: bool = True) -> "Statement":
        """Return the statement with contributions that are found where groups are private and nothing was said."""
        if not finds_bounds:
            return self
        cores = tuple(
            replace(core, query=with_contributions(core.query)) if core.says_nothing_of_contributions else core
            for core in self.cores
        )
        return replace(self, cores=cores)

    def check_shell(self, schemas: Sequence[Schema | None], public: "Mapping[str, pa.Table] | None" = None) -> None:
        """Raise what DuckDB says is wrong with the free part, before anything is charged; `schemas` are the cores'."""
        tables = {
            core.name: ReleasedTable(columns=_types(core, schema))
            for core, schema in zip(self.cores, schemas, strict=True)
        }
        for shell in (*self.scalars, *([] if self.shell is None else [self.shell])):
            run_shell(shell.sql, tables, public)

    def released_value(self, place: int, answers: Sequence[PrivateAnswer]) -> float | None:
        """Return the number of a scalar subquery, from the answers of the releasing SELECTs before it."""
        try:
            found = run_shell(self.scalars[place].sql, self._tables(answers))
        except InvalidParameter:
            return None
        value = found.rows[0][0] if len(found.rows) == 1 else None
        return float(value) if isinstance(value, int | float) and abs(value) <= LARGEST else None

    def result(self, answer: PrivateAnswer, public: "Mapping[str, pa.Table] | None" = None) -> SqlAnswer:
        """Return the rows of the statement from its stored answer; what is computed of released rows costs nothing.

        Where the free part fails on what was released, the answer has the released rows, and says why.
        """
        answers = answer.parts or (answer,)
        cores = zip(self.cores, answers, strict=False)
        bounds = tuple(each for core, part in cores for each in stated_bounds(core, part.found))
        return replace(self._rows(answer, answers, public), bounds=bounds)

    def _rows(
        self, answer: PrivateAnswer, answers: Sequence[PrivateAnswer], public: "Mapping[str, pa.Table] | None"
    ) -> SqlAnswer:
        if self.shell is None:
            return SqlAnswer(answer=answer, outputs=self.outputs)
        try:
            found = run_shell(self.shell.sql, self._tables(answers), public)
        except InvalidParameter as error:
            return SqlAnswer(answer=answer, outputs=_released_outputs(self.cores[-1].query), problem=str(error))
        return _computed(answer, self.shell, found)

    def _tables(self, answers: Sequence[PrivateAnswer]) -> dict[str, ReleasedTable]:
        return {core.name: _released(core, answer) for core, answer in zip(self.cores, answers, strict=False)}


def _types(core: Core, schema: Schema | None) -> dict[str, type]:
    """Return the types of the columns of a core's released rows."""
    labels: list[type] = []
    for text in core.query.groups:
        known = None if schema is None else group_of(text, schema).labels(schema)
        labels.append(int if known is not None and known.kind is Kind.INTEGER else str)
    numbers = [int if isinstance(each, Count) else float for each in core.query.statistics for _ in range(3)]
    return dict(zip(core.columns, (*labels, *numbers), strict=True))


def _released(core: Core, answer: PrivateAnswer) -> ReleasedTable:
    rows: list[list[object]] = []
    for item in answer.items:
        labels: list[object] = [cell_of(item.label, place) for place in range(len(core.query.groups))]
        numbers: list[object] = []
        if item.estimates:
            for each in item.estimates:
                numbers += [each.value, *(each.interval or (None, None))]
        else:
            numbers += [item.count, *(item.interval or (None, None))]
        rows.append([*labels, *numbers])
    kinds: dict[str, type] = {}
    for place, name in enumerate(core.columns):
        cells = [row[place] for row in rows]
        text = name.startswith("g") and not all(isinstance(cell, int) for cell in cells)
        kinds[name] = str if text else int
        if text:
            for row in rows:
                row[place] = None if row[place] is None else str(row[place])
    return ReleasedTable(columns=kinds, rows=rows)


def _released_outputs(query: Query) -> tuple[Output, ...]:
    from setwise.analytics.query import statistic_name

    groups = [Output(name=name, group=place) for place, name in enumerate(query.groups)]
    statistics = [Output(name=statistic_name(each), statistic=place) for place, each in enumerate(query.statistics)]
    return (*groups, *statistics)


def _computed(answer: PrivateAnswer, shell: Shell, found: ShellResult) -> SqlAnswer:
    ends = {name: place for place, name in enumerate(found.names)}
    shown: list[tuple[str, int, tuple[int, int] | None]] = []
    if shell.columns is None:
        for place, name in enumerate(_unique(found.names)):
            shown.append((name, place, None))
    else:
        for place, each in enumerate(shell.columns):
            pair = None if each.lower is None or each.upper is None else (ends[each.lower], ends[each.upper])
            shown.append((each.name, place, pair))
    rows: list[dict[str, RowCell]] = []
    for row in found.rows:
        cells: dict[str, RowCell] = {}
        for name, place, pair in shown:
            value = row[place]
            if pair is not None and (value is None or isinstance(value, int | float)):
                lower, upper = (row[end] for end in pair)
                interval = [lower, upper] if isinstance(lower, int | float) and isinstance(upper, int | float) else None
                cells[name] = estimated(value, interval)
            else:
                cells[name] = value
        rows.append(cells)
    outputs = tuple(Output(name=name, interval=pair is not None) for name, _, pair in shown)
    return SqlAnswer(answer=answer, outputs=outputs, computed=tuple(rows))


def _unique(names: Sequence[str]) -> list[str]:
    unique: list[str] = []
    for name in names:
        other, number = name, 1
        while other in unique:
            other, number = f"{name}_{number}", number + 1
        unique.append(other)
    return unique


@contextmanager
def _not_too_deep() -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise InvalidParameter("the SQL nests too deep: write it with fewer parentheses") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """What is known of the tables of a statement beside its text.

    `public` are the names of public tables; `declared`, `domains` and `contributions` are what the catalog declares of
    the private one.
    `schema_of` returns the columns of the private table with what is joined to it; None where it is not open yet.
    """

    public: Collection[str] = ()
    declared: DeclaredBounds = field(default_factory=DeclaredBounds)
    domains: Mapping[str, tuple[Label, ...]] = field(default_factory=dict)
    contributions: Contributions | None = None
    schema_of: SchemaOf | None = None


NOTHING_KNOWN = TableFacts()


@_not_too_deep()
def parse_sql(
    text: str,
    *,
    user: str | None = None,
    contributions: Contributions | None = None,
    domain: tuple[Label, ...] | None = None,
    columns: Sequence[str] | None = None,
    facts: TableFacts = NOTHING_KNOWN,
    today: date | None = None,
) -> Statement:
    """Return what a statement asks, or raise `InvalidParameter` naming all that it may not say and what to write.

    `user` is the column that tells users apart, where the clause names none; `contributions` and `domain` are those of
    the queries. `columns` are those of the tables once they are joined, where they are known and `facts` has no
    schema: TABLE.COLUMN is one that several tables have. `today` is what CURRENT_DATE is, by default the day in UTC.

    >>> sql = "SELECT page, COUNT(DISTINCT who) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 3"
    >>> parse_sql(sql, user="who").query == Query.top_k(item="page", k=3, per_item=1)
    True
    """
    tree, options, explain = parse(text)
    if not isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery):
        raise unsupported(construct_of(tree), "ask one SELECT")
    named = options.get("privacy_unit_column", user)
    if named is None:
        raise InvalidParameter("name the user column: as privacy_unit_column in OPTIONS, or beside the query")
    if user is not None and named != user:
        raise InvalidParameter(
            f"the user column of this table is {user!r}, not {named!r}: leave out privacy_unit_column"
        )
    if "max_groups_contributed" in options:
        if contributions is not None:
            raise InvalidParameter("contributions are given twice: leave out max_groups_contributed")
        given = options["max_groups_contributed"]
        contributions = AUTO if given == AUTO else number_in(given, "max_groups_contributed")  # type: ignore[assignment]
    settings = Settings(
        user=named,
        contributions=facts.contributions if contributions is None else contributions,
        contributions_source="catalog" if contributions is None and facts.contributions is not None else "statement",
        domain=domain,
        declared=facts.declared,
        domains=dict(facts.domains),
        today=datetime.now(UTC).date() if today is None else today,
    )
    reader = _StatementReader(settings, facts, columns)
    try:
        statement = reader.read(tree)
    except InvalidParameter as error:
        reader.problems.found.append(str(error))
        statement = None
    if reader.problems.found or statement is None:
        raise InvalidParameter(_refusal(text, settings, facts, columns, reader.problems.found))
    spending: dict[str, Any] = {name: float(number_in(options[name], name)) for name in SPENDING if name in options}
    return replace(statement, explain=explain, **spending)


def _refusal(
    text: str, settings: Settings, facts: TableFacts, columns: Sequence[str] | None, problems: Sequence[str]
) -> str:
    """Return all problems of a statement, and a statement to write instead where one is found that is accepted."""
    told = "; ".join(problems)
    for candidate in corrections(text, settings.user):
        reader = _StatementReader(settings, facts, columns)
        try:
            accepted = reader.read(parse(candidate)[0]) is not None and not reader.problems.found
        except (InvalidParameter, UnknownColumn, RecursionError):
            continue
        if accepted:
            return f"{told}; write: {candidate}"
    return told


@dataclass(frozen=True, slots=True)
class _Free:
    """A SELECT over released rows and public tables; `core` is the releasing SELECT that it is a part of."""

    node: exp.Expr
    core: Core | None = None
    outputs: tuple[Output, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Public:
    """A public table by its name."""

    name: str


_Result: TypeAlias = Source | _Free | _Public


class _StatementReader:
    """Reads a tree of SELECTs, innermost first; cores are numbered in the order in which they are answered."""

    def __init__(self, settings: Settings, facts: TableFacts, columns: Sequence[str] | None) -> None:
        self._settings = settings
        self._facts = facts
        self._columns = None if columns is None else tuple(columns)
        self._public: dict[str, str] = {}
        self._cores: list[Core] = []
        self._scalars: list[Shell] = []
        self.problems = Problems()

    def read(self, tree: exp.Expr) -> Statement | None:
        """Return the statement; None where problems were found."""
        found = self._query(tree, {}, top=True)
        if isinstance(found, Source):
            self.problems.found.append(
                "the statement shows rows of single users: aggregate over them, as in SELECT COUNT(*) FROM (..)"
            )
        if self.problems.found or not isinstance(found, _Free):
            return None
        if not self._cores:
            raise InvalidParameter("the statement reads no private table: ask DuckDB or any other database")
        if found.outputs is not None and len(self._cores) == 1:
            return Statement(cores=tuple(self._cores), outputs=found.outputs, user=self._settings.user)
        try:
            shell = shell_of(found.node, self._public)
        except (SqlglotError, ValueError):
            raise InvalidParameter("the part over released rows cannot be written for DuckDB") from None
        named = () if shell.columns is None else shell.columns
        outputs = tuple(Output(name=each.name, interval=each.lower is not None) for each in named)
        return Statement(
            cores=tuple(self._cores),
            outputs=outputs,
            user=self._settings.user,
            shell=shell,
            scalars=tuple(self._scalars),
        )

    def _query(self, node: exp.Expr, known: Mapping[str, _Result], *, top: bool = False) -> _Result | None:
        match node:
            case exp.Subquery():
                if node.args.get("with_") is not None:
                    node.this.set("with_", node.args["with_"])
                return self._query(node.this, known, top=top)
            case exp.SetOperation():
                return self._set_operation(node, known)
            case exp.Select():
                return self._select(node, known, top=top)
            case _:
                with self.problems.collect():
                    raise unsupported(construct_of(node), "write a SELECT")
                return None

    def _set_operation(self, node: exp.Expr, known: Mapping[str, _Result]) -> _Result | None:
        known = self._with(node, known)
        for side in ("this", "expression"):
            found = self._query(node.args[side], known)
            if isinstance(found, _Free):
                node.set(side, found.node)
            elif found is not None:
                with self.problems.collect():
                    raise unsupported(
                        f"{construct_of(node)} of private rows", "aggregate each side first, and unite the results"
                    )
        with self.problems.collect():
            check_free(node)
        return _Free(node)

    def _with(self, node: exp.Expr, known: Mapping[str, _Result]) -> dict[str, _Result]:
        """Return what names stand for, with those of WITH; free common table expressions stay in the statement."""
        names = dict(known)
        clause = node.args.get("with_")
        if clause is None:
            return names
        if clause.args.get("recursive"):
            with self.problems.collect():
                raise unsupported("WITH RECURSIVE", "write WITH")
        kept = []
        for each in clause.expressions:
            found = self._query(each.this, names)
            if found is None:
                names[each.alias.lower()] = _Free(each.this)
                continue
            if isinstance(found, _Free):
                each.set("this", found.node)
                kept.append(each)
            elif each.args["alias"].args.get("columns"):
                self.problems.found.append("a common table expression over private rows takes aliases in its SELECT")
            names[each.alias.lower()] = found
        node.set("with_", exp.With(expressions=kept) if kept else None)
        return names

    def _select(self, select: exp.Expr, known: Mapping[str, _Result], *, top: bool) -> _Result | None:
        known = self._with(select, known)
        with self.problems.collect():
            return self._read_select(select, known, top=top)
        return None

    def _read_select(self, select: exp.Expr, known: Mapping[str, _Result], *, top: bool) -> _Result | None:
        source = select.args.get("from_")
        if source is None:
            if has_aggregate(select) or any(type(each) is exp.Column for each in own_nodes(select)):
                raise InvalidParameter("the SELECT names no table: write FROM and its name")
            check_free(select)
            return _Free(select)
        joins = select.args.get("joins") or []
        tables = [source.this, *(join.this for join in joins)]
        found = [self._table(each, known) for each in tables]
        if any(each is None for each in found):
            return None
        private = [isinstance(each, Source) for each in found]
        if not any(private):
            return self._free(select, tables, found, known)
        if any(isinstance(each, _Free) for each in found):
            raise InvalidParameter(
                "released rows are joined to private rows: aggregate the private table in a subquery of its own, and "
                "join the two results"
            )
        if not private[0]:
            _private_first(select, private.index(True))
            tables = [select.args["from_"].this, *(join.this for join in select.args["joins"])]
        rows = self._source(select, tables, known)
        released = self._released(known)
        if self._is_per_user(select, top=top):
            return PerUserReader(select, rows, self._settings, self.problems, released).read()
        name = f"core_{len(self._cores)}"
        self._cores.append(Core(name=name, query=Query(), source=rows))
        place = len(self._cores) - 1
        scalars = len(self._cores)
        core, shell, outputs = CoreBuilder(select, name, rows, self._settings, self.problems, released).build()
        if len(self._cores) > scalars:  # scalar subqueries are answered before the SELECT that they stand in
            others = self._cores[place + 1 :]
            self._cores[place:] = [*others, core]
        else:
            self._cores[place] = core
        with self.problems.collect():
            check_free(shell)
        clause = select.args.get("with_")
        if clause is not None:
            shell.set("with_", clause)
        return _Free(shell, core, outputs if top else None)

    def _table(self, node: exp.Expr, known: Mapping[str, _Result]) -> _Result | None:
        """Return what a table of FROM or JOIN is: private rows, released rows, or a public table."""
        if isinstance(node, exp.Subquery):
            found = self._query(node.this, known)
            if isinstance(found, _Free):
                node.set("this", found.node)
            return found
        if not isinstance(node, exp.Table) or not all(type(part) is exp.Identifier for part in node.parts):
            inner = node.this if isinstance(node, exp.Table) else node
            raise unsupported(f"{construct_of(inner)} in FROM", "name one table")
        name = ".".join(part.name for part in node.parts)
        if len(node.parts) == 1 and name.lower() in known:
            return known[name.lower()]
        if name in self._facts.public:
            return _Public(name)
        return Source(table=name)

    def _free(
        self,
        select: exp.Expr,
        tables: Sequence[exp.Expr],
        found: Sequence[_Result | None],
        known: Mapping[str, _Result],
    ) -> _Free:
        """Return a SELECT over released rows and public tables, with the SELECTs inside it."""
        for node, each in zip(tables, found, strict=True):
            if isinstance(each, _Public):
                self._public[each.name] = each.name
                if not node.alias and "." in each.name:
                    node.set("alias", exp.TableAlias(this=exp.to_identifier(each.name.rpartition(".")[2])))
                node.set("this", exp.to_identifier(each.name, quoted=True))
                node.set("db", None)
                node.set("catalog", None)
        for inner in [each for each in select.find_all(exp.Subquery) if each.parent_select is select]:
            if inner in tables:
                continue
            result = self._query(inner.this, known)
            if isinstance(result, _Free):
                inner.set("this", result.node)
            elif result is not None:
                raise InvalidParameter("a subquery over private rows is aggregated before it is compared with")
        check_free(select)
        return _Free(select)

    def _source(self, select: exp.Expr, tables: Sequence[exp.Expr], known: Mapping[str, _Result]) -> Source:
        """Return the private rows that a SELECT reads, its columns written by their names alone."""
        first = tables[0]
        derived = self._table(first, known) if isinstance(first, exp.Subquery) or self._is_known(first, known) else None
        if isinstance(derived, Source) and (derived.derivation or isinstance(first, exp.Subquery)):
            if len(tables) > 1:
                raise unsupported("JOIN with a subquery over private rows", "join the tables inside the subquery")
            alias = first.alias or first.name
            unqualify(select, {alias: alias} if alias else {}, derived.columns)
            return derived
        if isinstance(derived, Source):  # SELECT * FROM t as a common table expression
            alias = first.alias or first.name
            unqualify(select, {alias: alias}, derived.columns)
            return derived
        names, joins = read_tables(select)
        table = next(iter(names.values()))
        schema = None if self._facts.schema_of is None else self._facts.schema_of(table, joins)
        columns = self._columns if schema is None else schema.names
        unqualify(select, names, columns)
        return Source(table=table, joins=joins, schema=schema, columns=columns)

    def _is_known(self, node: exp.Expr, known: Mapping[str, _Result]) -> bool:
        return isinstance(node, exp.Table) and len(node.parts) == 1 and node.name.lower() in known

    def _is_per_user(self, select: exp.Expr, *, top: bool) -> bool:
        """Whether a SELECT over private rows is about single users: grouped by the user column, or not aggregated."""
        user = self._settings.user
        group = select.args.get("group")
        selected = [each.this if type(each) is exp.Alias else each for each in select.expressions]
        aggregated = any(has_aggregate(each) for each in select.expressions) or select.args.get("having") is not None
        if group is None:
            if select.args.get("distinct") and not aggregated:
                return not top and any(_is_column(each, user) for each in selected)
            return not aggregated and not top
        if top:
            return False
        if group.args.get("all"):
            return any(_is_column(each, user) for each in selected)
        for each in group.expressions:
            meant = each
            if type(each) is exp.Literal and str(each.this).isdecimal() and 1 <= int(each.this) <= len(selected):
                meant = selected[int(each.this) - 1]
            if _is_column(meant, user):
                return True
        return False

    def _released(self, known: Mapping[str, _Result]) -> Callable[[exp.Expr], ReleasedValue]:
        def released(node: exp.Expr) -> ReleasedValue:
            inner = node.this
            aggregated = any(has_aggregate(each) for each in inner.expressions)
            if isinstance(inner, exp.Select) and (inner.args.get("group") or not aggregated):
                raise unsupported(
                    "a subquery of several rows in a condition", "compare with one number, as in (SELECT AVG(x) FROM t)"
                )
            found = self._query(inner, known)
            if not isinstance(found, _Free):
                raise InvalidParameter("a subquery in a condition must be one number, as in (SELECT AVG(x) FROM t)")
            self._scalars.append(Shell(sql=found.node.sql(dialect="duckdb", identify=True)))
            return ReleasedValue(len(self._scalars) - 1)

        return released


def _is_column(node: exp.Expr, name: str) -> bool:
    inner = node.unnest()
    return type(inner) is exp.Column and inner.name.lower() == name.lower()


def _private_first(select: exp.Expr, place: int) -> None:
    """Put the private table of inner joins first: FROM public JOIN private is FROM private JOIN public."""
    joins = select.args["joins"]
    if any(join.args.get("side") for join in joins[:place]):
        raise unsupported("LEFT JOIN from a public table", "begin FROM with the private table")
    source = select.args["from_"]
    first, private = source.this, joins[place - 1].this
    joins[place - 1].set("this", first)
    source.set("this", private)
