"""Conversion of the syntax tree of a SQL statement into private queries, and SQL over their noisy results.

The private queries are charged. The SQL over their noisy results (the released rows) costs no budget. The docstring of
parser.py describes the three kinds of SELECTs: per-user, releasing and free.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeAlias

from sqlglot import exp
from sqlglot.errors import SqlglotError

from setwise.analytics.engines.joins import Join
from setwise.analytics.query import Contributions, Query
from setwise.analytics.rows.expression import ReleasedValue, RowExpression
from setwise.analytics.schema import Schema
from setwise.analytics.sql.aggregates import DeclaredBounds, has_aggregate
from setwise.analytics.sql.clauses import own_nodes, subqueries_of
from setwise.analytics.sql.core import CORE_PREFIX, Core, Problems, SelectSource, StatementSettings
from setwise.analytics.sql.core_builder import CoreBuilder
from setwise.analytics.sql.free.functions import check_free
from setwise.analytics.sql.free.intervals import released_table
from setwise.analytics.sql.free.public_values import PublicValue, table_names, with_common_tables
from setwise.analytics.sql.free.series import is_constant_table, rewrite_series
from setwise.analytics.sql.free.shell import Shell, shell_of
from setwise.analytics.sql.from_clause.names import Scope, use_known_names
from setwise.analytics.sql.from_clause.public_lists import join_public_lists
from setwise.analytics.sql.from_clause.tables import private_first, read_tables
from setwise.analytics.sql.grouping_sets import has_grouping_sets, split_grouping_sets
from setwise.analytics.sql.per_user import other_tables
from setwise.analytics.sql.per_user.joined_rows import check_exists, join_rows, user_subquery, with_subquery
from setwise.analytics.sql.per_user.selects import PerUserReader
from setwise.analytics.sql.ratios import released_ratio_advice
from setwise.analytics.sql.released_filters import ReleasedColumns, grouped_columns, move_released_conditions
from setwise.analytics.sql.result import Output
from setwise.analytics.sql.row_values import RowReader
from setwise.analytics.sql.select_kinds import is_per_user
from setwise.analytics.sql.spellings import rewrite_user_sets
from setwise.analytics.sql.statement import Statement, computed_output
from setwise.analytics.sql.syntax import check_parts, construct_of, only_column, unsupported
from setwise.errors import InvalidParameter
from setwise.mechanisms.labels import Label

SchemaOf: TypeAlias = Callable[[str, tuple[Join, ...]], Schema]
"""A function that returns the columns of a private table together with the tables joined to it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFacts:
    """Facts about the tables of a statement that its text does not state.

    A statement is about one private table, here called its main table.
    - `public` are the names of the public tables (tables without users).
    - `private` are the names of the other private tables, which the statement may join to its main table.
    - `declared` has the clipping bounds, and `domains` the public group keys by column, that the catalog (the data
      holder's file) declares for the main table. `contributions` is the most groups in which one user counts, as
      declared there; None if it is not declared.

    The next three are functions that need open tables; they are None if no table is open yet.
    - `schema_of(table, joins)` returns the columns of the private table `table` joined with other tables.
    - `public_value(text, names)` computes a scalar subquery, given as SQL text, over the public tables `names`.
    - `check(statement)` raises an error if the statement cannot be planned. If a statement is refused, the message
      suggests another one only if `check` accepts it.
    """

    public: Collection[str] = ()
    private: Collection[str] = ()
    declared: DeclaredBounds = field(default_factory=DeclaredBounds)
    domains: Mapping[str, tuple[Label, ...]] = field(default_factory=dict)
    contributions: Contributions | None = None
    schema_of: SchemaOf | None = None
    public_value: PublicValue | None = None
    check: Callable[[Statement], None] | None = None


@dataclass(frozen=True, slots=True)
class _Free:
    """A SELECT over released (noisy) rows and public tables, which costs no budget.

    - `node` is its syntax node.
    - `core` is the private query whose result `node` reads, if a SELECT that aggregates private rows was split into a
      private query and `node`; otherwise None.
    - `outputs` are the result columns if this is the outermost SELECT and `node` computes nothing; otherwise None.
    """

    node: exp.Expr
    core: Core | None = None
    outputs: tuple[Output, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Public:
    """A public table (a table without users) that FROM or JOIN of a statement reads; `name` is its name."""

    name: str


_Result: TypeAlias = SelectSource | _Free | _Public


class StatementReader:
    """Converts the syntax tree of a SQL statement to a `Statement`; inner SELECTs are converted before outer ones.

    - `settings` has the user column, and the bounds that the caller or the catalog (the data holder's file) states.
    - `facts` has the names of the tables and, if they are known, functions that return their columns.
    - `columns` are the columns of the private rows, for the case that `facts` has no such function; None if not known.

    SELECTs that aggregate private rows are numbered in the order in which they run. Errors are collected in `problems`,
    so that one refusal can name them all.
    """

    def __init__(self, settings: StatementSettings, facts: TableFacts, columns: Sequence[str] | None) -> None:
        self._settings = settings
        self._facts = facts
        self._columns = None if columns is None else tuple(columns)
        self._public: dict[str, str] = {}
        self._cores: list[Core] = []
        self._finished: list[Core] = []
        self._scalars: list[Shell] = []
        self._values: dict[str, RowExpression] = {}
        self._ties: tuple[str, ...] = ()
        self._numbers = count()
        self._core_prefix = CORE_PREFIX
        self._main: str | None = None
        self.problems = Problems()

    def read(self, tree: exp.Expr) -> Statement | None:
        """Return the `Statement` of the syntax tree `tree`, its private queries and free SQL; None if it is refused.

        If the result is None, `problems` has the error messages, so that one refusal can name all of them.
        Raises: `InvalidParameter` if the statement reads no private table.
        """
        use_known_names(tree, (*self._facts.public, *self._facts.private))
        self._main = other_tables.main_table(tree, (*self._facts.public, *self._facts.private))
        self._ties = tuple(sorted({each.name.lower() for each in tree.find_all(exp.Identifier)}))
        while any(name.startswith(self._core_prefix) for name in self._ties):
            self._core_prefix += "_"  # a table that the statement calls core_0 would hide the released rows
        tree = rewrite_user_sets(rewrite_series(tree, self._settings.today), self._settings.user)
        result = self._query(tree, {}, top=True)
        if isinstance(result, SelectSource):
            self.problems.messages.append(
                "the statement shows rows of single users: aggregate over them, as in SELECT COUNT(*) FROM (..)"
            )
        if self.problems.messages or not isinstance(result, _Free):
            return None
        if not self._cores:
            raise InvalidParameter("the statement reads no private table: ask DuckDB or any other database")
        last = self._cores[-1]
        advice = [last.advice, *released_ratio_advice(result.node, self._settings.user)]
        self._cores[-1] = replace(last, advice=" ".join(filter(None, dict.fromkeys(advice))))
        statement = Statement(
            cores=tuple(self._cores),
            outputs=result.outputs or (),
            user=self._settings.user,
            has_public_values=bool(self._values),
        )
        if result.outputs is not None and len(self._cores) == 1:
            return statement
        try:
            most_keys = max(len(core.query.groups) for core in self._cores)
            shell = shell_of(result.node, self._public_in(result.node), most_keys)
        except (SqlglotError, ValueError):
            raise InvalidParameter("the part over released rows cannot be written for DuckDB") from None
        outputs = tuple(map(computed_output, shell.columns or ()))
        return replace(statement, outputs=outputs, shell=shell, scalars=tuple(self._scalars))

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
        known = self._read_common_tables(node, known)
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

    def _read_common_tables(self, node: exp.Expr, known: Mapping[str, _Result]) -> dict[str, _Result]:
        """Return `known` together with the common table expressions that the WITH clause of `node` defines, by name.

        The clause is changed in place, because it becomes a part of the SQL that runs over released (noisy) rows. A
        table that aggregates private rows stays in the clause, and now reads the released rows of its private query. A
        table with rows of single users is removed from the clause.
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
                self.problems.messages.append("a common table expression over private rows takes aliases in its SELECT")
            names[common_table.alias.lower()] = result
        node.set("with_", exp.With(expressions=kept) if kept else None)
        return names

    def _select(self, select: exp.Expr, known: Mapping[str, _Result], *, top: bool) -> _Result | None:
        known = self._read_common_tables(select, known)
        with self.problems.collect():
            return self._read_select(select, known, top=top)
        return None

    def _read_select(self, select: exp.Expr, known: Mapping[str, _Result], *, top: bool) -> _Result | None:
        source = select.args.get("from_")
        if source is None:
            if has_aggregate(select) or any(type(each) is exp.Column for each in own_nodes(select)):
                raise InvalidParameter("the SELECT names no table: write FROM and its name")
            return self._free(select, (), (), known)
        if not is_per_user(select, self._settings.user, top=top):
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
        if whole is not None and not is_per_user(select, self._settings.user, top=top):
            return self._grouping_sets(whole, known)
        place = self._first_table(select, results, known)
        if place:
            private_first(select, place)
            results[0], results[place] = results[place], results[0]
        released = self._scalar_converter(known)
        rows = self._source(select, results, known)
        if is_per_user(select, self._settings.user, top=top):
            return PerUserReader(select, rows, self._settings, self.problems, released, self._ties).read()
        self._schema(rows.table, rows.joins)  # which refuses rows of another private table
        name = f"{self._core_prefix}{len(self._cores)}"
        self._cores.append(Core(name=name, query=Query(), source=rows))
        place = len(self._cores) - 1
        scalars = len(self._cores)
        free = self._free_subqueries(known)
        core, shell, outputs = CoreBuilder(select, name, rows, self._settings, self.problems, released, free).build()
        twin = next((each for each in self._finished if replace(each, name=name, advice=core.advice) == core), None)
        if twin is not None and len(self._cores) == scalars:  # an equal SELECT is released once, and read twice
            self._cores.pop()
            shell.set("from_", exp.From(this=released_table(twin.name)))
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

    def _first_table(self, select: exp.Expr, results: Sequence[_Result | None], known: Mapping[str, _Result]) -> int:
        """Return the index in `results` of the private table to which the other tables of FROM and JOIN are joined.

        `results` are the tables of FROM and JOIN in `select`, in order (None after an error). `known` has the common
        table expressions by name. The result is usually the index of the first private table. The exception avoids
        that several rows of a user are joined to one row: if a subquery S over a private table stands in FROM, and an
        inner JOIN with another private table T follows, then S is joined to T, so that the result is 1, in two cases:

        - T is a table and not a subquery. A table is read row by row, and S adds columns to its rows.
        - T is a subquery, S is known to have at most one row per user, and T is not.
        """
        source, joins = select.args["from_"].this, select.args.get("joins") or []
        place = next(index for index, each in enumerate(results) if isinstance(each, SelectSource))
        first, second = (*results, None)[:2]
        if place or not isinstance(first, SelectSource) or not isinstance(second, SelectSource):
            return place
        if first.table == second.table or joins[0].args.get("side") or not self._is_derived(source, known):
            return place
        is_table = not self._is_derived(joins[0].this, known)
        return int(is_table or (first.unique_by == frozenset() and second.unique_by != frozenset()))

    def _released_columns(self, node: exp.Expr, known: Mapping[str, _Result]) -> ReleasedColumns | None:
        """Return the columns of `node`, an entry of FROM or IN, if it stands for released groups; None for other nodes.

        Released groups are groups in the noisy answer of a private query. `known` has the common table expressions by
        name.
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
            return None if is_per_user(inner, self._settings.user, top=False) else grouped_columns(inner)
        source = inner.args.get("from_")
        if source is None or inner.args.get("joins") or self._released_columns(source.this, known) is None:
            return None
        return ReleasedColumns(tuple(each.alias_or_name for each in inner.expressions))

    def _grouping_sets(self, select: exp.Expr, known: Mapping[str, _Result]) -> _Free | None:
        """Return a UNION ALL over the released (noisy) rows of `select`, which has ROLLUP, CUBE or GROUPING SETS.

        Each grouping set becomes a private query of its own, which costs budget. `known` are common table expressions
        by name. Returns None if an error was recorded.
        """
        clause = select.args.get("with_")
        grouped = split_grouping_sets(select)
        results = [self._read_select(each, known, top=True) for each in grouped.selects]
        nodes = [each.node for each in results if isinstance(each, _Free)]
        if len(nodes) < len(results):
            return None
        united = grouped.unite(nodes)
        if clause is not None:
            united.set("with_", clause)
        return _Free(united)

    def _table(self, node: exp.Expr, known: Mapping[str, _Result]) -> _Result | None:
        """Return the table that a node in FROM or JOIN means: private rows, released (noisy) rows, or a public table.

        `known` are common table expressions by name. Returns None if the node is a subquery with an error, which was
        recorded.
        """
        if node.args.get("pivots"):
            raise unsupported("PIVOT", "write SUM(CASE WHEN c = 'a' THEN x END) AS a for each column of the result")
        if is_constant_table(node):
            return _Free(node)
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
        """Return `select`, which reads only released (noisy) rows and public tables, rewritten as DuckDB can run it.

        The rewriting is done in place. Public tables and function calls get the names that DuckDB knows. A subquery in
        an expression that aggregates private rows becomes a private query, which is charged; its place is taken by a
        SELECT over the noisy rows that the private query releases.
        - `tables` are the nodes of FROM and JOIN, whose subqueries were converted before.
        - `results` are the tables that these nodes stand for (None after an error).
        - `known` has the common table expressions by name.
        Raises: `InvalidParameter` for a construct that is not allowed, or a subquery with rows of single users.
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
        """Return the private rows that `select` reads: the rows of its first table, joined with its other tables.

        A subquery in an expression is joined, too, if it is about the user of a row, that is, if it compares its user
        column with that of the row. `tables` are the tables of FROM and JOIN (None after an error), and `known` has the
        common table expressions by name. Column references in `select` lose their qualifiers, such as t., in place.
        """
        first, joins = select.args["from_"].this, list(select.args.get("joins") or ())
        check_exists(select)
        base = tables[0]
        assert isinstance(base, SelectSource), "the private table comes first"
        user_joins: list[tuple[exp.Expr, SelectSource]] = []
        for join, joined in zip(joins, tables[1:], strict=True):
            if not isinstance(joined, SelectSource):
                continue
            if joined.table == base.table:
                user_joins.append((join, joined))
            elif self._is_derived(join.this, known) and self._is_derived(first, known):
                base, same_rows = other_tables.beside(base, joined, self._settings.user, next(self._numbers))
                user_joins.append((join, same_rows))
            elif self._is_derived(join.this, known):
                other_tables.name_table(join, joined)
        if user_joins:
            kept = [join for join in joins if all(join is not other for other, _ in user_joins)]
            select.set("joins", kept or None)
        rows, scope = self._base(select, first, base, known)
        reader = RowReader(self._settings.today)
        for join, joined in user_joins:
            rows = join_rows(select, join, joined, rows, scope, self._settings.user, reader.read)
        for node in list(subqueries_of(select)):
            with other_tables.replacing_refused(node, self.problems):
                rows = self._with_subquery(node, rows, scope, known, reader)
        scope.resolve(select)
        return rows

    def _with_subquery(
        self, node: exp.Expr, rows: SelectSource, scope: Scope, known: Mapping[str, _Result], reader: RowReader
    ) -> SelectSource:
        """Return `rows` with added columns that give the value of the subquery `node` for the user of each row.

        In the syntax tree, an expression over these columns replaces `node`. A subquery that does not depend on the
        user of the row is not changed, and `rows` is then returned as it is. `scope` has the names that the SELECT may
        use, `known` the common table expressions by name, and `reader` converts expressions.
        """
        subquery = user_subquery(node, scope, self._settings.user)
        if subquery is None:
            return rows
        refused = len(self.problems.messages)
        result = self._select(subquery.select, known, top=False)
        number = next(self._numbers)
        if isinstance(result, SelectSource):
            if result.table != rows.table:
                rows, result = other_tables.beside(rows, result, self._settings.user, number)
            rows, replaced = with_subquery(subquery, result, rows, scope, self._settings.user, number, reader.read)
            node.replace(replaced)
        elif len(self.problems.messages) == refused:
            raise unsupported("a correlated subquery over released rows or public tables", "join the table instead")
        return rows

    def _base(
        self, select: exp.Expr, first: exp.Expr, base: SelectSource, known: Mapping[str, _Result]
    ) -> tuple[SelectSource, Scope]:
        """Return (rows, scope) of `select`: the rows of its first table, joined with other tables, and its names.

        Joined are public tables, and other private tables, which are joined by user. Subqueries over the same private
        table are joined later, by the caller. The `Scope` has the names of tables and columns that the SELECT may use.
        `first` is the syntax node of the first table, `base` has the private rows that it stands for, and `known` has
        the common table expressions by name.
        """
        alias = first.alias or first.name
        if self._is_derived(first, known):
            if select.args.get("joins"):
                raise unsupported("JOIN with a subquery over private rows", "join the tables inside the subquery")
            return base, Scope({alias: alias} if alias else {}, base.columns)
        reader = RowReader(self._settings.today)
        clause = read_tables(select, reader.read)
        table = next(iter(clause.tables.values()))
        lists = join_public_lists(select, clause.tables, lambda node: self._public_name(node, known), reader.read)
        others = self._joins_of_subqueries(select, Scope(clause.tables, None, left_keys=clause.left_keys), table, known)
        joins = (*clause.joins, *lists, *others)
        schema = self._schema(table, joins, per_user=is_per_user(select, self._settings.user, top=False))
        columns = self._columns if schema is None else schema.names
        source = SelectSource(table=table, joins=joins, schema=schema, columns=columns)
        return source, Scope(clause.tables, columns, left_keys=clause.left_keys)

    def _schema(self, table: str, joins: tuple[Join, ...], *, per_user: bool = False) -> Schema | None:
        """Return the columns of the private table `table` with `joins`; None if they are not known.

        `per_user` is True if the caller's SELECT computes rows of single users. Only such a SELECT may read another
        private table than the one that the statement's answer is about. If it does, the columns are looked up by
        joining the two tables.
        """
        schema_of = self._facts.schema_of
        if schema_of is None:
            return None
        if per_user and table in self._facts.private and self._main not in (None, table):
            return None if joins else other_tables.schema_beside(schema_of, str(self._main), table, self._settings.user)
        return schema_of(table, joins)

    def _joins_of_subqueries(
        self, select: exp.Expr, scope: Scope, table: str, known: Mapping[str, _Result]
    ) -> list[Join]:
        """Replace subqueries in `select` over other private tables by joins, and return these joins.

        Only a subquery about the user of each row is replaced. With the private table users, for example, (SELECT
        COUNT(*) FROM orders o WHERE o.user_id = users.user_id) becomes a join that adds a column with each user's
        number of orders. In the syntax tree, an expression over the added columns replaces the subquery. A subquery
        that cannot be replaced is recorded as an error.

        - `table` is the private table that `select` reads. Subqueries over this table, or over public tables alone,
          stay.
        - `scope` has the names of the tables in `select`.
        - `known` has the common table expressions by name.
        """
        joins: list[Join] = []
        for node in list(subqueries_of(select)):
            inner = node.this if isinstance(node, exp.Exists | exp.Subquery) else node.args["query"]
            if self._private_table(inner, known) in (None, table):
                continue
            with other_tables.replacing_refused(node, self.problems):
                subquery = user_subquery(node, scope, self._settings.user)
                result = None if subquery is None else self._select(subquery.select, known, top=False)
                if subquery is not None and isinstance(result, SelectSource):
                    named = (self._settings.user, next(self._numbers))
                    join, value = other_tables.join_subquery(subquery, result, scope.tables, *named)
                    joins.append(join)
                    node.replace(value)
        return joins

    def _private_table(self, node: exp.Expr, known: Mapping[str, _Result]) -> str | None:
        """Return the name of the first private table whose rows the subquery `node` reads; None if it reads none.

        `known` are common table expressions by name.
        """
        results = [self._table(table, known) for table in other_tables.tables_read(node)]
        return next((each.table for each in results if isinstance(each, SelectSource)), None)

    def _public_name(self, node: exp.Expr, known: Mapping[str, _Result]) -> str | None:
        """Return the name of the public table that `node` in FROM stands for; None for other tables.

        `known` are common table expressions by name.
        """
        table = None if self._is_known(node, known) else self._table(node, known)
        return table.name if isinstance(table, _Public) else None

    def _is_derived(self, node: exp.Expr, known: Mapping[str, _Result]) -> bool:
        """Return whether `node`, an entry of FROM or JOIN, is a subquery or a common table expression in `known`."""
        return isinstance(node, exp.Subquery) or self._is_known(node, known)

    def _is_known(self, node: exp.Expr, known: Mapping[str, _Result]) -> bool:
        return isinstance(node, exp.Table) and len(node.parts) == 1 and node.name.lower() in known

    def _scalar_converter(self, known: Mapping[str, _Result]) -> Callable[[exp.Expr], RowExpression]:
        """Return a function that converts a scalar subquery in an expression over private rows into a row expression.

        A subquery over private rows becomes a stand-in for its noisy value (`ReleasedValue`), which is released first.
        A subquery over public tables becomes a constant. `known` are common table expressions by name.
        """

        def convert(node: exp.Expr) -> RowExpression:
            inner = node.unnest()
            columns = inner.expressions if isinstance(inner, exp.Select) else []
            if columns and inner.args.get("from_") is None and not any(map(has_aggregate, columns)):
                check_parts(inner, "expressions")
                return RowReader(self._settings.today).read(only_column(columns).unalias())
            if not columns or inner.args.get("group") or not any(map(has_aggregate, columns)):
                raise unsupported(
                    "a subquery of several rows in a condition", "compare with one number, as in (SELECT AVG(x) FROM t)"
                )
            only_column(columns)
            result = self._query(inner, known)
            if not isinstance(result, _Free):
                raise InvalidParameter("a subquery in a condition must be one number, as in (SELECT AVG(x) FROM t)")
            common_tables = {name: each.node for name, each in known.items() if isinstance(each, _Free)}
            return self._scalar(with_common_tables(result.node, common_tables))

        return convert

    def _scalar(self, query: exp.Expr) -> RowExpression:
        """Return a row expression for the value of `query`, a SELECT of one value over released rows and public tables.

        If `query` reads public tables alone, the value is computed now and becomes a constant. Otherwise the result is
        a stand-in (`ReleasedValue`) for the noisy value, which is known only after a private query has run.
        """
        text = query.sql(dialect="duckdb", identify=True)
        public = self._public_in(query)
        is_public = not any(name.startswith(self._core_prefix) for name in table_names(query))
        if is_public and self._facts.public_value is not None:
            if text not in self._values:
                self._values[text] = self._facts.public_value(text, public)
            return self._values[text]
        if is_public and self._facts.schema_of is not None:
            raise unsupported("a subquery over public tables in an expression over rows", "write its value")
        self._scalars.append(Shell(sql=text, public=public))
        return ReleasedValue(len(self._scalars) - 1)

    def _public_in(self, query: exp.Expr) -> tuple[str, ...]:
        """Return the names of the public tables that `query` reads."""
        return tuple(name for name in self._public if name.lower() in table_names(query))

    def _free_subqueries(self, known: Mapping[str, _Result]) -> Callable[[exp.Expr], exp.Expr]:
        """Return a function that rewrites a scalar subquery beside aggregates so that it reads only released rows.

        An example is the subquery in SELECT COUNT(*) / (SELECT COUNT(*) FROM t). Released rows are noisy results. If
        the subquery aggregates private rows, it becomes a private query that is charged with the statement. `known` are
        common table expressions by name.
        """

        def convert(node: exp.Expr) -> exp.Expr:
            result = self._query(node.this, known)
            if isinstance(result, _Free):
                node.set("this", result.node)
            elif result is not None:
                raise InvalidParameter(
                    "a subquery beside aggregates must be aggregated itself, as in (SELECT COUNT(*) FROM t)"
                )
            return node

        return convert
