"""Parsing of a SQL statement into private queries, which are charged, and a free part over their released rows.

Every SELECT of a statement is of one of three kinds. A per-user SELECT computes each of its rows from the rows of one
user, so its result is again a private table (per_user.py). A releasing SELECT aggregates private rows over users and
becomes a `Query`, whose noisy answer is released (releasing.py). A free SELECT reads released rows and public tables
(free.py).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import count
from typing import Any, TypeAlias

from sqlglot import exp
from sqlglot.errors import SqlglotError

from setwise.analytics.engines.joins import Join
from setwise.analytics.query import AUTO, Contributions, Query
from setwise.analytics.rows.expression import ReleasedValue
from setwise.analytics.schema import Schema
from setwise.analytics.sql.aggregates import DeclaredBounds, has_aggregate
from setwise.analytics.sql.clauses import own_nodes, private_first, read_tables
from setwise.analytics.sql.core import Core, Problems, SelectSource, StatementSettings
from setwise.analytics.sql.corrections import corrections, with_paths
from setwise.analytics.sql.free import Shell, check_free, shell_of
from setwise.analytics.sql.grouping_sets import has_grouping_sets, split_grouping_sets
from setwise.analytics.sql.per_user import PerUserReader
from setwise.analytics.sql.released_filters import ReleasedColumns, grouped_columns, move_released_conditions
from setwise.analytics.sql.releasing import CoreBuilder
from setwise.analytics.sql.result import Output
from setwise.analytics.sql.row_values import RowReader
from setwise.analytics.sql.spellings import rewrite_spellings
from setwise.analytics.sql.statement import Statement, computed_output
from setwise.analytics.sql.syntax import SPENDING, construct_of, number_in, parse, unsupported
from setwise.analytics.sql.time_units import check_epochs
from setwise.analytics.sql.user_rows import Scope, join_rows, subqueries_of, user_subquery, with_subquery
from setwise.errors import InvalidParameter, UnknownColumn, UnsuitableTable
from setwise.mechanisms.labels import Label

SchemaOf: TypeAlias = Callable[[str, tuple[Join, ...]], Schema]
"""A function that returns the columns of a private table together with the tables joined to it."""


@contextmanager
def _not_too_deep() -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise InvalidParameter("the SQL nests too deep: write it with fewer parentheses") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """Facts about the tables of a statement that its text does not state.

    `public` are the names of public tables. `declared`, `domains` and `contributions` are the clipping bounds, public
    group keys and contribution bound that the catalog declares for the private table. `schema_of` is a function that
    takes the name of the private table and its joins, and returns the columns; it is None if the table is not open yet.
    """

    public: Collection[str] = ()
    declared: DeclaredBounds = field(default_factory=DeclaredBounds)
    domains: Mapping[str, tuple[Label, ...]] = field(default_factory=dict)
    contributions: Contributions | None = None
    schema_of: SchemaOf | None = None


NOTHING_KNOWN = TableFacts()
"""The facts about a statement of whose tables nothing is known."""


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
    """Parse the SQL `text` and return the statement, with the private queries that it consists of.

    `user` is the user column, unless the OPTIONS clause names it. `contributions` (the contribution bound) and `domain`
    (the public group keys) apply to all its queries. `columns` are the columns of the joined tables, or None; they are
    needed only if `facts` has no schema. In `columns`, a column that several tables have is called TABLE.COLUMN.
    `today` is the value of CURRENT_DATE, by default the current day in UTC.
    Raises: `InvalidParameter`, naming everything that is not supported and, if possible, a statement to write instead.

    >>> sql = "SELECT page, COUNT(DISTINCT who) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 3"
    >>> parse_sql(sql, user="who").query == Query.top_k(item="page", k=3, per_item=1)
    True
    """
    try:
        tree, options, explain = parse(text)
        tree = rewrite_spellings(tree)
        if not isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery):
            raise unsupported(construct_of(tree), "ask one SELECT")
    except InvalidParameter as error:
        if user is None:
            raise
        refusal = _refusal(text, StatementSettings(user=user), facts, columns, [str(error)])
        raise InvalidParameter(refusal) from None
    named = options.get("privacy_unit_column", user)
    if named is None:
        raise InvalidParameter(
            "say which column tells users apart: add --user COL (`user` in Python), or privacy_unit_column in OPTIONS"
        )
    if user is not None and named != user:
        raise InvalidParameter(
            f"the user column of this table is {user!r}, not {named!r}: leave out privacy_unit_column"
        )
    if "max_groups_contributed" in options:
        if contributions is not None:
            raise InvalidParameter("contributions are given twice: leave out max_groups_contributed")
        bound = options["max_groups_contributed"]
        contributions = AUTO if bound == AUTO else number_in(bound, "max_groups_contributed")  # type: ignore[assignment]
    settings = StatementSettings(
        user=named,
        contributions=facts.contributions if contributions is None else contributions,
        contributions_source="catalog" if contributions is None and facts.contributions is not None else "statement",
        domain=domain,
        declared=facts.declared,
        domains=dict(facts.domains),
        today=datetime.now(UTC).date() if today is None else today,
    )
    check_epochs(tree)
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
    text: str, settings: StatementSettings, facts: TableFacts, columns: Sequence[str] | None, problems: Sequence[str]
) -> str:
    """Return the error message for the refused statement `text`: all its `problems`, and a statement to write instead.

    The suggestion is the first of `corrections` that is accepted; if none is, the message has only the problems.
    `settings`, `facts` and `columns` (or None) are those with which `text` was parsed.
    """
    message = "; ".join(problems)
    if any(problem.startswith("the table has no column") for problem in problems):
        message += "; a column of another file comes in by JOIN, with --table NAME=FILE or --public NAME=FILE for it"

    def columns_of(table: str) -> Sequence[str]:
        with suppress(InvalidParameter, UnknownColumn, UnsuitableTable):
            return (columns or ()) if facts.schema_of is None else facts.schema_of(table, ()).names
        return ()

    for candidate in corrections(text, settings.user, columns_of):
        reader = _StatementReader(settings, facts, columns)
        try:
            statement = reader.read(rewrite_spellings(parse(candidate)[0]))
        except (InvalidParameter, UnknownColumn, RecursionError):
            continue
        if statement is not None and not reader.problems.found and all(core.has_numbers for core in statement.cores):
            return f"{message}; write: {with_paths(candidate, text)}"
    return message


@dataclass(frozen=True, slots=True)
class _Free:
    """A SELECT over released (noisy) rows and public tables, which costs no budget, as the syntax node `node`.

    A SELECT that aggregates private rows is split in two: `core` is its aggregation, which is charged, and `node` is
    the remaining SELECT over the released rows. If a SELECT reads no private rows itself, `core` is None. `outputs` are
    the result columns if this is the outermost SELECT and `node` computes nothing from released columns, else None.
    """

    node: exp.Expr
    core: Core | None = None
    outputs: tuple[Output, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Public:
    """The public table called `name`, which FROM or JOIN of a statement names."""

    name: str


_Result: TypeAlias = SelectSource | _Free | _Public


class _StatementReader:
    """Converts the syntax tree of a SQL statement to a `Statement`, innermost SELECT first.

    The SELECTs that aggregate private rows are numbered in the order in which they are run. Errors are collected in
    `problems`, so that one refusal can name them all.
    """

    def __init__(self, settings: StatementSettings, facts: TableFacts, columns: Sequence[str] | None) -> None:
        self._settings = settings
        self._facts = facts
        self._columns = None if columns is None else tuple(columns)
        self._public: dict[str, str] = {}
        self._cores: list[Core] = []
        self._finished: list[Core] = []
        self._scalars: list[Shell] = []
        self._ties: tuple[str, ...] = ()
        self._numbers = count()
        self.problems = Problems()

    def read(self, tree: exp.Expr) -> Statement | None:
        """Return the `Statement` for the syntax tree `tree`, or None if errors were added to `problems`.

        Raises: `InvalidParameter` if the statement reads no private table.
        """
        self._ties = tuple(sorted({each.name.lower() for each in tree.find_all(exp.Identifier)}))
        result = self._query(tree, {}, top=True)
        if isinstance(result, SelectSource):
            self.problems.found.append(
                "the statement shows rows of single users: aggregate over them, as in SELECT COUNT(*) FROM (..)"
            )
        if self.problems.found or not isinstance(result, _Free):
            return None
        if not self._cores:
            raise InvalidParameter("the statement reads no private table: ask DuckDB or any other database")
        if result.outputs is not None and len(self._cores) == 1:
            return Statement(cores=tuple(self._cores), outputs=result.outputs, user=self._settings.user)
        try:
            shell = shell_of(result.node, self._public)
        except (SqlglotError, ValueError):
            raise InvalidParameter("the part over released rows cannot be written for DuckDB") from None
        outputs = tuple(map(computed_output, shell.columns or ()))
        scalars = tuple(self._scalars)
        return Statement(
            cores=tuple(self._cores), outputs=outputs, user=self._settings.user, shell=shell, scalars=scalars
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
            result = self._query(node.args[side], known)
            if isinstance(result, _Free):
                node.set(side, result.node)
            elif result is not None:
                with self.problems.collect():
                    raise unsupported(
                        f"{construct_of(node)} of private rows", "aggregate each side first, and unite the results"
                    )
        with self.problems.collect():
            check_free(node)
        return _Free(node)

    def _with(self, node: exp.Expr, known: Mapping[str, _Result]) -> dict[str, _Result]:
        """Return `known` together with the common table expressions, by name, that the WITH clause of `node` defines.

        In the syntax tree, common table expressions over private rows are removed from WITH; the others stay.
        """
        names = dict(known)
        clause = node.args.get("with_")
        if clause is None:
            return names
        if clause.args.get("recursive"):
            with self.problems.collect():
                raise unsupported("WITH RECURSIVE", "write WITH")
        kept = []
        for common_table in clause.expressions:
            result = self._query(common_table.this, names)
            if result is None:
                names[common_table.alias.lower()] = _Free(common_table.this)
                continue
            if isinstance(result, _Free):
                common_table.set("this", result.node)
                kept.append(common_table)
            elif common_table.args["alias"].args.get("columns"):
                self.problems.found.append("a common table expression over private rows takes aliases in its SELECT")
            names[common_table.alias.lower()] = result
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
        if not self._is_per_user(select, top=top):
            move_released_conditions(select, lambda node: self._released_columns(node, known))
        whole = select.copy() if has_grouping_sets(select) else None
        joins = select.args.get("joins") or []
        tables = [source.this, *(join.this for join in joins)]
        results: list[_Result | None] = [self._table(each, known) for each in tables]
        if any(each is None for each in results):
            return None
        private = [isinstance(each, SelectSource) for each in results]
        if not any(private):
            return self._free(select, tables, results, known)
        if any(isinstance(each, _Free) for each in results):
            raise InvalidParameter(
                "released rows are joined to private rows: aggregate the private table in a subquery of its own, and "
                "join the two results"
            )
        if whole is not None and not self._is_per_user(select, top=top):
            return self._grouping_sets(whole, known)
        if not private[0]:
            place = private.index(True)
            private_first(select, place)
            results[0], results[place] = results[place], results[0]
        released = self._released(known)
        rows = self._source(select, results, known)
        if self._is_per_user(select, top=top):
            return PerUserReader(select, rows, self._settings, self.problems, released, self._ties).read()
        name = f"core_{len(self._cores)}"
        self._cores.append(Core(name=name, query=Query(), source=rows))
        place = len(self._cores) - 1
        scalars = len(self._cores)
        free = self._free_subqueries(known)
        core, shell, outputs = CoreBuilder(select, name, rows, self._settings, self.problems, released, free).build()
        twin = next((each for each in self._finished if replace(each, name=name, advice=core.advice) == core), None)
        if twin is not None and len(self._cores) == scalars:  # an equal SELECT is released once, and read twice
            self._cores.pop()
            shell.set("from_", exp.From(this=exp.to_table(twin.name)))
            core = twin
        else:  # scalar subqueries run before the SELECT whose condition holds them
            self._cores[place:] = [*self._cores[place + 1 :], core]
            self._finished.append(core)
        with self.problems.collect():
            check_free(shell)
        clause = select.args.get("with_")
        if clause is not None:
            shell.set("with_", clause)
        return _Free(shell, core, outputs if top else None)

    def _released_columns(self, node: exp.Expr, known: Mapping[str, _Result]) -> ReleasedColumns | None:
        """Return the columns of `node`, an entry of FROM or IN, if it stands for released groups; None for other nodes.

        Released groups are a common table expression of `known` over released rows, or a subquery that groups by
        columns other than the user column. A subquery that reads released groups, without joins, has released groups
        too.
        """
        if self._is_known(node, known):
            result = known[node.name.lower()]
            if not isinstance(result, _Free) or not isinstance(result.node, exp.Select):
                return None
            names = {each.unalias().name: each.alias_or_name for each in result.node.expressions}
            groups = 0 if result.core is None else len(result.core.query.groups)
            keys = [names[f"g{place}"] for place in range(groups) if f"g{place}" in names]
            return ReleasedColumns(tuple(names.values()), frozenset(keys) if len(keys) == groups else frozenset())
        inner = node.this if isinstance(node, exp.Subquery) else None
        if not isinstance(inner, exp.Select):
            return None
        if inner.args.get("group") is not None:
            return None if self._is_per_user(inner, top=False) else grouped_columns(inner)
        source = inner.args.get("from_")
        if source is None or inner.args.get("joins") or self._released_columns(source.this, known) is None:
            return None
        return ReleasedColumns(tuple(each.alias_or_name for each in inner.expressions))

    def _grouping_sets(self, select: exp.Expr, known: Mapping[str, _Result]) -> _Free | None:
        """Return the SQL over released rows of a SELECT with grouping sets, each of which is a release of its own.

        `known` are common table expressions by name. Returns None if an error was recorded.
        """
        clause = select.args.get("with_")
        grouped = split_grouping_sets(select)
        results = [self._read_select(each, known, top=True) for each in grouped.selects]
        nodes = [each.node for each in results if isinstance(each, _Free)]
        if len(nodes) < len(results):
            return None
        united = grouped.united(nodes)
        if clause is not None:
            united.set("with_", clause)
        return _Free(united)

    def _table(self, node: exp.Expr, known: Mapping[str, _Result]) -> _Result | None:
        """Return the table that a node in FROM or JOIN stands for: private rows, released rows, or a public table.

        `known` are common table expressions by name. Returns None if the node is a subquery with an error, which was
        recorded.
        """
        if node.args.get("pivots"):
            raise unsupported("PIVOT", "write SUM(CASE WHEN c = 'a' THEN x END) AS a for each column of the result")
        if isinstance(node, exp.Subquery):
            result = self._query(node.this, known)
            if isinstance(result, _Free):
                node.set("this", result.node)
            elif node.alias_column_names:
                raise InvalidParameter("a subquery over private rows takes the aliases of its columns in its SELECT")
            return result
        if not isinstance(node, exp.Table) or not all(type(part) is exp.Identifier for part in node.parts):
            inner = node.this if isinstance(node, exp.Table) else node
            raise unsupported(f"{construct_of(inner)} in FROM", "name one table")
        name = ".".join(part.name for part in node.parts)
        if len(node.parts) == 1 and name.lower() in known:
            return known[name.lower()]
        if name in self._facts.public:
            return _Public(name)
        return SelectSource(table=name)

    def _free(
        self,
        select: exp.Expr,
        tables: Sequence[exp.Expr],
        results: Sequence[_Result | None],
        known: Mapping[str, _Result],
    ) -> _Free:
        """Return `select`, which reads no private rows, after converting its subqueries to SELECTs over released rows.

        `tables` are the nodes of its FROM and JOIN, `results` the table that each stands for (None after an error), and
        `known` the common table expressions by name. Converted here are the subqueries in expressions.
        """
        for node, result in zip(tables, results, strict=True):
            if isinstance(result, _Public):
                self._public[result.name] = result.name
                if not node.alias and "." in result.name:
                    node.set("alias", exp.TableAlias(this=exp.to_identifier(result.name.rpartition(".")[2])))
                node.set("this", exp.to_identifier(result.name, quoted=True))
                node.set("db", None)
                node.set("catalog", None)
        for inner in [each for each in select.find_all(exp.Subquery) if each.parent_select is select]:
            if inner in tables:
                continue
            result = self._query(inner.this, known)
            if result is not None and not isinstance(result, _Free):
                raise InvalidParameter("a subquery over private rows is aggregated before it is compared with")
            inner.set("this", inner.this if result is None else result.node)
        check_free(select)
        return _Free(select)

    def _source(self, select: exp.Expr, tables: Sequence[_Result | None], known: Mapping[str, _Result]) -> SelectSource:
        """Return the private rows that `select` reads: those of its first table, with columns joined to them.

        Joined are tables, per-user subqueries in JOIN, and subqueries in expressions about the user of the row.
        `tables` are the tables of FROM and JOIN (None after an error), and `known` the common table expressions by
        name. Also removes qualifiers such as t. from the column references of `select`, in place.
        """
        first, joins = select.args["from_"].this, list(select.args.get("joins") or ())
        base = tables[0]
        assert isinstance(base, SelectSource), "the private table comes first"
        user_joins = [
            (join, rows)
            for join, rows in zip(joins, tables[1:], strict=True)
            if isinstance(rows, SelectSource) and (rows.table == base.table or self._is_derived(join.this, known))
        ]
        if user_joins:
            kept = [join for join in joins if all(join is not other for other, _ in user_joins)]
            select.set("joins", kept or None)
        rows, scope = self._base(select, first, base, known)
        reader = RowReader(self._settings.today)
        for join, joined in user_joins:
            rows = join_rows(select, join, joined, rows, scope, self._settings.user, reader.read)
        for node in list(subqueries_of(select)):
            refused = len(self.problems.found)
            with self.problems.collect(node):
                rows = self._with_subquery(node, rows, scope, known, reader)
            if len(self.problems.found) > refused:  # a constant, so that only other problems are found after this one
                node.replace(exp.Literal.number(0) if isinstance(node, exp.Subquery) else exp.true())
        scope.resolve(select)
        return rows

    def _with_subquery(
        self, node: exp.Expr, rows: SelectSource, scope: Scope, known: Mapping[str, _Result], reader: RowReader
    ) -> SelectSource:
        """Return `rows` with added columns that hold, in each row, the subquery `node`'s result for the row's user.

        In the SELECT, an expression over these columns replaces `node`. Returns `rows` unchanged if the subquery is not
        correlated by the user. `scope` has the names of the SELECT, `known` its common table expressions, and `reader`
        converts expressions.
        """
        subquery = user_subquery(node, scope, self._settings.user)
        if subquery is None:
            return rows
        refused = len(self.problems.found)
        result = self._select(subquery.select, known, top=False)
        number = next(self._numbers)
        if isinstance(result, SelectSource):
            rows, replaced = with_subquery(subquery, result, rows, scope, self._settings.user, number, reader.read)
            node.replace(replaced)
        elif len(self.problems.found) == refused:
            raise unsupported("a correlated subquery over released rows or public tables", "join the table instead")
        return rows

    def _base(
        self, select: exp.Expr, first: exp.Expr, base: SelectSource, known: Mapping[str, _Result]
    ) -> tuple[SelectSource, Scope]:
        """Return the private rows of a SELECT's first table and the plain tables joined to it, with their `Scope`.

        `first` is the syntax node of the first table, `base` the rows that it stands for, and `known` the common table
        expressions by name.
        """
        alias = first.alias or first.name
        if self._is_derived(first, known):
            if select.args.get("joins"):
                raise unsupported("JOIN with a subquery over private rows", "join the tables inside the subquery")
            return base, Scope({alias: alias} if alias else {}, base.columns)
        names, joins = read_tables(select)
        table = next(iter(names.values()))
        schema = None if self._facts.schema_of is None else self._facts.schema_of(table, joins)
        columns = self._columns if schema is None else schema.names
        source = SelectSource(table=table, joins=joins, schema=schema, columns=columns)
        return source, Scope(names, columns)

    def _is_derived(self, node: exp.Expr, known: Mapping[str, _Result]) -> bool:
        """Return whether a node of FROM or JOIN is a subquery or names one of `known`, the common table expressions."""
        return isinstance(node, exp.Subquery) or self._is_known(node, known)

    def _is_known(self, node: exp.Expr, known: Mapping[str, _Result]) -> bool:
        return isinstance(node, exp.Table) and len(node.parts) == 1 and node.name.lower() in known

    def _is_per_user(self, select: exp.Expr, *, top: bool) -> bool:
        """Return whether every row of a SELECT over private rows is about one user, so that its result stays private.

        Every row is about one user if the SELECT is grouped by the user column or has no aggregates. Returns False for
        the outermost SELECT (`top`), because its rows would be shown.
        """
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
        for key in group.expressions:
            resolved_key = key
            if type(key) is exp.Literal and str(key.this).isdecimal() and 1 <= int(key.this) <= len(selected):
                resolved_key = selected[int(key.this) - 1]
            if _is_column(resolved_key, user):
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
            result = self._query(inner, known)
            if not isinstance(result, _Free):
                raise InvalidParameter("a subquery in a condition must be one number, as in (SELECT AVG(x) FROM t)")
            self._scalars.append(Shell(sql=result.node.sql(dialect="duckdb", identify=True)))
            return ReleasedValue(len(self._scalars) - 1)

        return released

    def _free_subqueries(self, known: Mapping[str, _Result]) -> Callable[[exp.Expr], exp.Expr]:
        """Return a function that converts a scalar subquery in the SELECT list, HAVING or ORDER BY of a SELECT.

        The SELECT aggregates private rows. The converted subquery reads released rows only: if it aggregates private
        rows, this is a private query of its own, charged together with the statement. `known` are common table
        expressions by name.
        """

        def converted(node: exp.Expr) -> exp.Expr:
            result = self._query(node.this, known)
            if isinstance(result, _Free):
                node.set("this", result.node)
            elif result is not None:
                raise InvalidParameter(
                    "a subquery beside aggregates must be aggregated itself, as in (SELECT COUNT(*) FROM t)"
                )
            return node

        return converted


def _is_column(node: exp.Expr, name: str) -> bool:
    inner = node.unnest()
    return type(inner) is exp.Column and inner.name.lower() == name.lower()
