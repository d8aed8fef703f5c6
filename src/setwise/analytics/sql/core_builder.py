"""A SELECT that aggregates private rows, split in two: a query that is charged, and a SELECT over its released rows.

Aggregates and columns of GROUP BY become statistics and groups of a `Query`. Everything around them (HAVING, ORDER BY,
arithmetic, ROUND, window functions, LIMIT) stays in a SELECT from a table of released rows, the noisy results of the
query. Its columns are called g0, g1, .. for groups and s0, s1, .. for statistics (see `Core.columns`).
"""

import re
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from sqlglot import exp

from setwise.analytics.bins import Group, Width
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.query import Contributions, Count, Query, Statistic, statistic_name
from setwise.analytics.rows.derivation import AddColumns, KeepRows, NamedExpression
from setwise.analytics.rows.expression import RowExpression
from setwise.analytics.sql.aggregates import AggregateReader, has_aggregate, is_aggregate
from setwise.analytics.sql.clauses import (
    WRITTEN,
    SelectedGroup,
    binned_value,
    conjunction,
    filter_text,
    inline_windows,
    read_group,
    with_earlier_aliases,
)
from setwise.analytics.sql.core import LARGEST_TOP, Core, Problems, SelectSource, StatementSettings, unique_after
from setwise.analytics.sql.free.functions import check_aggregate
from setwise.analytics.sql.free.intervals import released_table
from setwise.analytics.sql.group_columns import GroupColumn, check_group, holds_times, may_be_null
from setwise.analytics.sql.ratios import argument_of, argument_text, ratio_advice, released_column
from setwise.analytics.sql.result import Output, unique_names
from setwise.analytics.sql.row_values import Released, RowReader
from setwise.analytics.sql.syntax import check_parts, construct_of, number_of, short_text, unsupported
from setwise.analytics.sql.time_units import seconds_of
from setwise.errors import InvalidFilter, InvalidParameter, UnknownColumn
from setwise.mechanisms.labels import Label

MOST_LABELS = 10_000
"""The most combinations of group keys that the declared domains of several columns may form together."""

_PLAIN = re.compile(r"[A-Za-z_]\w{0,59}")
_UNSAFE = re.compile(r"[^\w .,()<>=+*/'-]+", re.ASCII)
"""Characters that the name of a computed column may not have: drivers read some of them as placeholders."""

_LONGEST_NAME = 60
"""The most characters of the name of a computed column; PostgreSQL cuts names after 63 bytes."""


class CoreBuilder:
    """Splits `select`, which aggregates private rows, in two: a private query, and a SELECT over its noisy results.

    The private query costs budget; the SELECT over the released (noisy) rows costs nothing.
    - `name` is the table name under which the SELECT reads the released rows.
    - `select` cannot be used afterwards, because its nodes are modified and moved.
    - `source` are the private rows, `settings` has the user column and bounds, and `problems` collects the errors.
    - `released(subquery)` returns a stand-in for the noisy value of a scalar subquery in an expression over private
      rows. The stand-in becomes a constant once that value is released.
    - `free_subquery` rewrites a scalar subquery beside aggregates, as in COUNT(*) / (SELECT COUNT(*) FROM t), so that
      it reads released rows only.
    """

    def __init__(
        self,
        select: exp.Expr,
        name: str,
        source: SelectSource,
        settings: StatementSettings,
        problems: Problems,
        released: Released,
        free_subquery: Callable[[exp.Expr], exp.Expr],
    ) -> None:
        self._select = select
        self._free_subquery = free_subquery
        self._name = name
        self._source = source
        self._settings = settings
        self._problems = problems
        self._rows = RowReader(settings.today, released)
        self._aggregates = AggregateReader(settings.user, self._rows, self._compute, settings.declared, source.schema)
        self._computed: dict[RowExpression, str] = {}
        self._arguments: dict[str, str] = {}
        self._conditions: list[RowExpression] = []
        self._groups: list[GroupColumn] = []
        self._lacks_groups = False
        self._statistics: list[Statistic] = []
        self._aliases = {each.alias: each.this for each in select.expressions if type(each) is exp.Alias}
        self._unique_by = source.unique_by
        self.advice: list[str] = []
        """Sentences that say how ratios can mislead, and what to ask instead; filled by `build`."""

    def build(self) -> tuple[Core, exp.Expr, tuple[Output, ...] | None]:
        """Return (private query, SELECT over its released rows, result columns); errors are added to `problems`.

        The query is returned as a `Core`: the query and the private rows that it reads. Released rows are its noisy
        results. The result columns are None if the SELECT does more than show released columns, for example if it
        computes a value or sorts. Its SQL must then run over the released rows.
        """
        select = self._select
        inline_windows(select)
        self._check_clauses()
        where = self._where()
        self._read_groups()
        plain_groups = {each.node.unnest().name for each in self._groups if type(each.node.unnest()) is exp.Column}
        self._aggregates.has_one_row = self._unique_by is not None and self._unique_by <= plain_groups
        outputs = self._outputs()
        having = self._read_condition("having")
        qualify = self._read_condition("qualify")
        order = self._order()
        query_words = self._query_words(where)
        k = None if having is not None or qualify is not None else self._private_top_k()
        if not self._statistics:
            self._statistics.append(Count(most=1))
        query = None
        with self._problems.collect():
            query = Query(statistics=tuple(self._statistics), k=k, **query_words)  # type: ignore[arg-type]
        if query is None:
            query = Query()
        self._check_columns(query)
        nullable = tuple(short_text(each.node) for each in self._groups if may_be_null(each))
        null_groups = bool(nullable) and self._takes_null_groups(query)
        core = Core(
            name=self._name,
            query=query,
            source=self._derived_rows(),
            says_nothing_of_contributions=self._contributions is None,
            cataloged=tuple(self._aggregates.cataloged),
            contributions_source=self._settings.contributions_source,
            advice=" ".join(dict.fromkeys(self.advice)),
            nulls_left_out=() if null_groups else nullable,
            has_null_groups=null_groups,
            times=tuple(map(holds_times, self._groups)),
            arguments=tuple(self._arguments.items()),
        )
        sorted_alike = order is None or (k is not None and len(order.expressions) == 1)
        limit, offset = select.args.get("limit"), select.args.get("offset")
        cut = (limit is not None and k is None) or offset is not None
        plain = not (having or qualify or cut or select.args.get("distinct")) and sorted_alike
        fractions = any(map(core.has_fractions, range(len(core.query.groups))))
        direct = _direct(outputs, core.times) if plain and not fractions else None
        shell = exp.Select(expressions=[exp.alias_(node, name, quoted=True) for name, node in outputs])
        shell.set("from_", exp.From(this=released_table(self._name)))
        if having is not None:
            shell.set("where", exp.Where(this=having))
        if qualify is not None:
            shell.set("qualify", exp.Qualify(this=qualify))
        for name, node in (("order", order), ("limit", limit), ("offset", offset)):
            if node is not None:
                shell.set(name, node)
        if select.args.get("distinct") and self._shows_aggregates:
            shell.set("distinct", exp.Distinct())
        return core, shell, direct

    def _takes_null_groups(self, query: Query) -> bool:
        """Return whether rows in which a group column is null can form groups of the query.

        Such rows form no group in three cases: the group keys are public, because the list of keys has no null; the
        table is a dataset that `Session.prepare` stored, because its rows all have a key; the SELECT gives null keys a
        label of its own.
        """
        prepared = self._source.schema is not None and self._source.schema.prepared
        return query.domain is None and query.null_item is None and not prepared

    @property
    def _contributions(self) -> Contributions | None:
        """The most groups in which one user counts: 1 if every user has at most one row, otherwise the stated number.

        It is "auto" if a private search is to find it, and None if nothing is stated.
        """
        return 1 if self._unique_by == frozenset() else self._settings.contributions

    def _check_columns(self, query: Query) -> None:
        """Record a problem for every column of the query that the table lacks, if the table's columns are known."""
        schema = self._source.schema
        if schema is None:
            return
        computed = {name: expression for expression, name in self._computed.items()}
        for group in self._groups:
            with self._problems.collect():
                check_group(group, computed, schema)
        for name in query.values:
            with self._problems.collect():
                if name not in computed:
                    schema.column(name)

    def _check_clauses(self) -> None:
        for name, (construct, instead) in _CLAUSES.items():
            if self._select.args.get(name):
                with self._problems.collect():
                    self._select.set(name, None)
                    raise unsupported(construct, instead)
        with self._problems.collect():
            check_parts(
                self._select, "expressions", "from_", "joins", "where", "group", "order", "limit", "offset", "having",
                "qualify", "distinct", "with_",
            )  # fmt: skip
            if isinstance(self._select.args.get("distinct"), exp.Distinct):
                check_parts(self._select.args["distinct"], "expressions")

    def _where(self) -> str | None:
        """Return the conditions of WHERE that the filter language can state, as one text; None if it can state none.

        The filter language compares columns with constants. Every other condition becomes a row expression (a value
        computed from each row), which is applied later, in `_derived_rows`.
        """
        texts = []
        parts = conjunction(self._select.args.get("where"))
        for part in parts:
            with self._problems.collect(part):
                if type(part.unnest()) is exp.EQ and part.find(exp.Subquery) is None:
                    self._unique_by = unique_after(self._unique_by, self._rows.read(part.copy()))
                text = self._filter_text(part)
                if text is None:
                    self._conditions.append(self._rows.read(part))
                else:
                    texts.append(f"({text})" if type(part.unnest()) is exp.Or and len(parts) > 1 else text)
        return " AND ".join(texts) or None

    def _filter_text(self, node: exp.Expr) -> str | None:
        """Return the condition `node` as text of the filter language; None if only a row expression can state it.

        The filter language compares columns with constants; a row expression is a value computed from each row.
        Raises: `InvalidParameter` or `InvalidFilter` if neither can state it, `UnknownColumn` for a missing column.
        """
        if node.find(exp.Subquery) is not None:
            return None
        try:
            text = filter_text(node)
            if self._source.schema is not None:
                parse_filter(text, self._source.schema)
        except UnknownColumn:
            raise
        except (InvalidParameter, InvalidFilter) as refused:
            try:
                self._rows.read(node.copy())
            except InvalidParameter:
                raise refused from None
            return None
        return text

    def _compute(self, expression: RowExpression, alias: str | None) -> str:
        """Return the name of the column with the values of `expression` in the private rows; add the column if needed.

        A new column is named after `alias`, or "expression" if that is None, shortened and numbered if needed.
        """
        if expression in self._computed:
            return self._computed[expression]
        names_in_use = {name.lower() for name in (*(self._source.columns or ()), *self._computed.values())}
        text = " ".join(_UNSAFE.sub(" ", alias or "").split())[:_LONGEST_NAME].strip() or "expression"
        names = [alias] if alias is not None and _PLAIN.fullmatch(alias) else [text]
        names += [f"{text[: _LONGEST_NAME - 4]}_{place}" for place in range(1, len(names_in_use) + 2)]
        name = next(name for name in names if name.lower() not in names_in_use)
        self._computed[expression] = name
        return name

    def _note_argument(self, statistic: Statistic, node: exp.Expr) -> None:
        """Remember the SQL text of the argument of the aggregate call `node`, if a column was computed for it.

        AVG(x + y), for example, reads a computed column with the values of x + y. The explanations of the answer then
        show x + y instead of the column's name. `statistic` is the private statistic for the call, which names the
        column.
        """
        if statistic.column in self._computed.values() and (argument := argument_of(node)) is not None:
            self._arguments.setdefault(str(statistic.column), argument)

    def _derived_rows(self) -> SelectSource:
        """Return the private rows that the query aggregates: `source` with further conditions and computed columns.

        The conditions are those of WHERE that the filter language (comparisons of columns with constants) cannot state.
        The columns are arguments of aggregates and group keys that are expressions, such as x + y.
        """
        source = self._source
        steps: list[KeepRows | AddColumns] = [KeepRows(each) for each in self._conditions]
        if self._computed:
            steps.append(AddColumns(tuple(NamedExpression(name, each) for each, name in self._computed.items())))
        if not steps:
            return source
        return SelectSource(
            table=source.table,
            joins=source.joins,
            derivation=source.derivation.then(*steps),
            columns=source.columns,
        )

    @property
    def _shows_aggregates(self) -> bool:
        return any(has_aggregate(each) for each in self._select.expressions) or bool(self._select.args.get("group"))

    def _read_groups(self) -> None:  # noqa: PLR0912 - one branch for each way to write a group
        known = len(self._problems.messages)
        group = self._select.args.get("group")
        selected = [each.this if type(each) is exp.Alias else each for each in self._select.expressions]
        if group is None:
            if not self._select.args.get("distinct") or self._shows_aggregates:
                return
            nodes: list[exp.Expr] = list(selected)  # SELECT DISTINCT a, b is GROUP BY a, b
        elif group.args.get("all"):
            nodes = [each for each in selected if not has_aggregate(each)]
        else:
            with self._problems.collect():
                check_parts(group, "expressions")
            nodes = [node for each in group.expressions if (node := self._resolve_group(each, selected)) is not None]
            if not group.expressions:
                with self._problems.collect():
                    raise InvalidParameter("GROUP BY names no column: name one, or leave it out")
        group_nodes: list[tuple[exp.Expr, SelectedGroup | None]] = []
        for node in map(seconds_of, nodes):
            with self._problems.collect(node):
                if has_aggregate(node):
                    raise unsupported(f"{construct_of(node)} in GROUP BY", "group by columns, not by aggregates")
                if type(node.unnest()) is exp.Literal:
                    raise unsupported(f"{construct_of(node)} in GROUP BY", "group by columns")
                if self._is_user(node):
                    raise InvalidParameter(
                        f"GROUP BY {self._settings.user} shows single users: group by users in a subquery, and "
                        "aggregate over them"
                    )
                if node not in [each for each, _ in group_nodes]:
                    group_nodes.append((node, read_group(node)))
        nulls = {each.null_item for _, each in group_nodes if each is not None}
        for node, selected_group in group_nodes:
            alone = len(nulls) == 1 and all(other is not None for _, other in group_nodes)
            mixed = selected_group is not None and selected_group.null_item is not None and not alone
            with self._problems.collect(node):
                if selected_group is None or mixed:
                    alias = next((name for name, other in self._aliases.items() if seconds_of(other) == node), None)
                    bins = binned_value(node.unnest())
                    binned = bins is not None and bins[1].denominator != 1
                    value, width = bins if bins is not None and binned else (node, None)
                    column = self._compute(self._rows.read(value), alias or short_text(node))
                    item = Group(column, None if width is None else Width(width))
                    self._groups.append(GroupColumn(node, str(item), alias or short_text(node)))
                else:
                    self._groups.append(
                        GroupColumn(node, str(selected_group.group), selected_group.name, selected_group)
                    )
        self._lacks_groups = len(self._problems.messages) > known

    def _resolve_group(self, node: exp.Expr, selected: Sequence[Any]) -> Any:  # noqa: ANN401 - nodes of sqlglot
        """Return the expression that `node`, an entry of GROUP BY, names by number or alias; otherwise `node` itself.

        `selected` is the SELECT list. A number out of range is recorded as a problem, and None is returned.
        """
        if type(node) is exp.Literal and not node.is_string:
            with self._problems.collect():
                place = number_of(node, "GROUP BY")
                if not isinstance(place, int) or not 1 <= place <= len(selected):
                    raise InvalidParameter(
                        f"GROUP BY {node.this} names no column of the SELECT: there are {len(selected)}"
                    )
                return selected[place - 1]
            return None
        known = self._source.columns or ()
        if type(node) is exp.Column and node.name in self._aliases and node.name not in known:
            return self._aliases[node.name]
        if type(node) is exp.Column and node.name in self._aliases:
            # The name is both a column and an alias: it means the column, unless the alias is for bins of that column.
            expression = self._aliases[node.name]
            plain = type(expression) is exp.Column
            return (
                expression
                if not plain and any(each.name == node.name for each in expression.find_all(exp.Column))
                else node
            )
        return node

    def _ambiguous_alias(self) -> str:
        """Return a hint for an error message if a name in GROUP BY is both a column of the table and an alias; else "".

        The hint says that rows are grouped by the table's column.
        """
        for group in self._groups:
            if group.node.name in self._aliases and self._aliases[group.node.name] != group.node:
                name = group.node.name
                return f" (GROUP BY {name} means the table's own column {name!r}: give what you select another name)"
        return ""

    def _is_user(self, node: exp.Expr) -> bool:
        return type(node.unnest()) is exp.Column and node.unnest().name == self._settings.user

    def _outputs(self) -> list[tuple[str, exp.Expr]]:
        """Return (unique name, syntax node over the released, noisy rows) for each column of the SELECT's result.

        Also adds the SELECT list's aggregates to the statistics of the query, and advice about ratios to `advice`.
        """
        outputs: list[tuple[str, exp.Expr]] = []
        earlier: dict[str, exp.Expr] = {}
        if not self._select.expressions:
            self._problems.messages.append("the SELECT names no column: name what to show")
        for selected in self._select.expressions:
            with self._problems.collect(selected):
                node, alias = (selected.this, selected.alias) if type(selected) is exp.Alias else (selected, None)
                if not is_aggregate(node) and self._group_place(node) is None:
                    node = with_earlier_aliases(node, earlier, self._source.columns)
                if alias is not None:
                    earlier[alias.lower()] = self._aliases[alias] = node
                if type(node) is exp.Star or (type(node) is exp.Column and type(node.this) is exp.Star):
                    raise InvalidParameter(
                        f"SELECT * shows rows of single users: name columns of GROUP BY, and COUNT(*) or "
                        f"COUNT(DISTINCT {self._settings.user})"
                    )
                if is_aggregate(node):
                    for end, statistic in self._aggregates.statistics(node, alias or argument_text(node)):
                        self._note_argument(statistic, node)
                        place = self._place(statistic)
                        computed = statistic.column in self._computed.values()
                        name = short_text(node) if computed else statistic_name(statistic)
                        column = released_column(node, statistic, place, self._aggregates, self._name)
                        outputs.append((name if alias is None else alias + end, column))
                    continue
                shown = self._over_released(node.copy(), alias, aliases=False)
                self.advice += ratio_advice(node, alias, self._settings.user, self._aggregates)
                group = self._group_place(node)
                name = alias or (self._groups[group].name if group is not None else short_text(node))
                outputs.append((name, shown))
        names = unique_names([name for name, _ in outputs])
        return [(name, node) for name, (_, node) in zip(names, outputs, strict=True)]

    def _group_place(self, node: exp.Expr) -> int | None:
        inner = node.unnest()
        for place, built_group in enumerate(self._groups):
            if built_group.node.unnest() == inner:
                return place
            if built_group.selected is not None and type(inner) is not exp.Literal and not has_aggregate(inner):
                try:
                    group = read_group(inner)
                except InvalidParameter:
                    continue
                if group is not None and group == built_group.selected:
                    return place
        return None

    def _place(self, statistic: Statistic) -> int:
        if statistic not in self._statistics:
            self._statistics.append(statistic)
        return self._statistics.index(statistic)

    def _over_released(  # noqa: PLR0912 - one branch for each kind of node
        self, node: exp.Expr, alias: str | None = None, *, aliases: bool = True
    ) -> exp.Expr:
        """Return `node` with its groups and aggregates replaced by columns (g0, s0, ..) of released (noisy) rows.

        An aggregate that the query lacks is added to the query's statistics.
        - `alias` is the name of the column that is computed if the argument of an aggregate is an expression such as
          x + y. If it is None, the column is named after the SQL text of the argument.
        - If `aliases` is True, a name in `node` that is an alias of the SELECT list is replaced by its expression
          first.
        Raises: `InvalidParameter` for a column that is neither grouped nor aggregated.
        """
        if aliases and type(node) is exp.Column and node.args.get("table") is None and node.name in self._aliases:
            return self._over_released(self._aliases[node.name].copy(), node.name, aliases=False)
        place = self._group_place(node)
        if place is not None:
            return exp.column(f"g{place}")
        if is_aggregate(node):
            statistic = self._aggregates.statistic(node, alias or argument_text(node))
            self._note_argument(statistic, node)
            return released_column(node, statistic, self._place(statistic), self._aggregates, self._name)
        if isinstance(node, exp.Window):
            inner = node.this
            if isinstance(inner, exp.Anonymous | exp.Filter):
                for argument in list(inner.iter_expressions()):
                    argument.replace(self._over_released(argument, aliases=aliases))
            for name, value in list(node.args.items()):
                if name != "this":
                    for child in value if isinstance(value, list) else [value]:
                        if isinstance(child, exp.Expr):
                            child.replace(self._over_released(child, aliases=aliases))
            return node
        if type(node) is exp.Column and self._lacks_groups:
            return exp.null()  # of a group that is refused, which was said before
        if type(node) is exp.Column:
            raise InvalidParameter(
                f"the column {node.meta.get(WRITTEN, node.name)!r} is selected but not grouped: add it to GROUP BY, "
                f"or aggregate it{self._ambiguous_alias()}"
            )
        if isinstance(node, exp.Subquery):
            return self._free_subquery(node)
        if isinstance(node, exp.Select):
            return node
        check_aggregate(node)
        for child in list(node.iter_expressions()):
            child.replace(self._over_released(child, aliases=aliases))
        return node

    def _read_condition(self, clause: str) -> exp.Expr | None:
        """Return the condition of HAVING or QUALIFY (`clause`) as a syntax node over the released, noisy rows.

        The result is None if there is no such clause. It is also None if the condition is not supported; the error is
        then recorded in `problems`.
        """
        node = self._select.args.get(clause)
        if node is None:
            return None
        with self._problems.collect(node):
            return self._over_released(node.this.copy())
        return None

    def _order(self) -> exp.Expr | None:
        order = self._select.args.get("order")
        if order is None:
            return None
        terms = []
        for sort_key in order.expressions:
            with self._problems.collect(sort_key):
                term = sort_key.copy()
                if type(sort_key.this) is exp.Literal:
                    term.set("this", self._at_place(sort_key.this))
                term.set("this", self._over_released(term.this.copy()))
                terms.append(term)
        return exp.Order(expressions=terms) if terms else None

    def _at_place(self, node: exp.Expr) -> Any:  # noqa: ANN401 - a node of sqlglot
        """Return a copy of the expression in the SELECT list to which `node`, such as the 2 in ORDER BY 2, refers.

        Raises: `InvalidParameter` if there is no result column with that number.
        """
        place = number_of(node, "ORDER BY")
        if node.is_string or not isinstance(place, int) or not 1 <= place <= len(self._select.expressions):
            count = len(self._select.expressions)
            raise InvalidParameter(f"ORDER BY {node.this} names no column of the SELECT: there are {count}")
        column = self._select.expressions[place - 1]
        return (column.this if type(column) is exp.Alias else column).copy()

    def _query_words(self, where: str | None) -> dict[str, object]:
        nulls = {each.selected.null_item for each in self._groups if each.selected is not None}
        settings = self._settings
        return {
            "item": tuple(each.item for each in self._groups) or None,
            "contributions": self._contributions if self._groups else None,
            "in_one_group": bool(self._groups) and self._unique_by == frozenset(),
            "domain": (settings.domain or self._declared_domain()) if self._groups else None,
            "where": where,
            "null_item": nulls.pop() if len(nulls) == 1 else None,
        }

    def _declared_domain(self) -> tuple[Label, ...] | None:
        """Return the public group keys of the query if the catalog (the data holder's file) declares them; else None.

        Every group column needs declared keys. Several columns give all combinations of their keys; the result is None
        if these are more than `MOST_LABELS`.
        """
        domains = [self._settings.domains.get(each.item) for each in self._groups]
        if not domains or any(each is None for each in domains):
            return None
        if len(domains) == 1:
            return domains[0]
        labels = tuple(product(*(each for each in domains if each is not None)))
        return labels if len(labels) <= MOST_LABELS else None  # type: ignore[return-value]

    def _private_top_k(self) -> int | None:
        """Return k = LIMIT + OFFSET if the query can be answered as a private top k of its groups; None if it cannot.

        A private top k releases only the k groups with the highest counts. So ORDER BY must begin with the count by
        which the groups are ranked, in descending order. If the SELECT has only one statistic, this is the statistic,
        which must count all rows or all users. If it has several statistics, groups are ranked by their number of
        users. The result is None also if k is above 100 (`LARGEST_TOP`).
        """
        order, limit, offset = (self._select.args.get(name) for name in ("order", "limit", "offset"))
        if order is None or limit is None or not self._groups or self._select.args.get("distinct"):
            return None
        if type(limit) is not exp.Limit or type(limit.args["expression"]) is not exp.Literal:
            return None
        first = order.expressions[0]
        if not first.args.get("desc"):
            return None
        try:
            by = self._at_place(first.this) if type(first.this) is exp.Literal else first.this
            if type(by) is exp.Column and by.name in self._aliases:
                by = self._aliases[by.name]
            chosen = self._aggregates.statistic(by) if is_aggregate(by) else None
        except InvalidParameter:
            return None
        ranked = self._statistics[0] if len(self._statistics) == 1 else Count(most=1)
        if not isinstance(ranked, Count) or ranked.column is not None or chosen != ranked:
            return None
        k = number_of(limit.args["expression"], "LIMIT")
        k += 0 if offset is None else number_of(offset.args["expression"], "OFFSET")
        return None if k > LARGEST_TOP else k  # type: ignore[return-value]  # the query checks its type


_CLAUSES = {
    "laterals": ("LATERAL", "ask the table itself"),
    "sample": ("TABLESAMPLE", "ask the whole table"),
    "kind": ("SELECT AS", "select columns"),
}
"""Clauses of a SELECT that are refused: the name for messages, and what to write instead."""


def _direct(outputs: Sequence[tuple[str, exp.Expr]], times: Sequence[bool]) -> tuple[Output, ...] | None:
    """Return the result columns of a SELECT that only shows columns of released (noisy) rows; None for another SELECT.

    If the SELECT computes no value, the released rows are already its result, and the caller runs no SQL over them.
    `outputs` has (name, syntax node over the released rows) for each result column, and `times` says for each group
    column whether its keys are periods of time.
    """
    direct = []
    for name, node in outputs:
        if type(node) is not exp.Column:
            return None
        place = int(node.name[1:])
        if node.name.startswith("g"):
            direct.append(Output(name=name, group=place, time=times[place]))
        else:
            direct.append(Output(name=name, statistic=place))
    return tuple(direct)
