"""A releasing SELECT split in two: the query that is charged and released, and a SELECT over the released rows.

Aggregates and columns of GROUP BY become statistics and groups of a `Query`. Everything around them (HAVING, ORDER BY,
arithmetic, ROUND, window functions, LIMIT) stays in a SELECT from a table of released rows, whose columns are g0, g1,
.. for groups and s0, s0_lower, s0_upper, .. for statistics with the ends of their intervals.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from itertools import product
from typing import Any

from sqlglot import exp

from setwise.analytics.bins import group_of
from setwise.analytics.engines.joins import Join
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.query import AUTO, Contributions, Count, Query, Statistic, statistic_name
from setwise.analytics.rows.derivation import AddColumns, Derivation, KeepRows, NamedExpression
from setwise.analytics.rows.expression import RowExpression
from setwise.analytics.schema import Schema
from setwise.analytics.sql.aggregates import AggregateReader, DeclaredBounds, has_aggregate, is_aggregate
from setwise.analytics.sql.clauses import WRITTEN, SelectedGroup, filter_text, read_group
from setwise.analytics.sql.result import Output, StatedBounds
from setwise.analytics.sql.row_values import Released, RowReader
from setwise.analytics.sql.syntax import SqlDialect, check_parts, construct_of, number_of, unsupported
from setwise.errors import InvalidFilter, InvalidParameter, UnknownColumn
from setwise.mechanisms.labels import Label

MOST_LABELS = 10_000
"""The most groups that declared domains of several columns may make together."""

_PLAIN = re.compile(r"[A-Za-z_]\w{0,59}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The private rows that a SELECT reads: a table, what is joined to it, and what is derived of it.

    `schema` are the columns where they are known, `columns` their names.
    """

    table: str
    joins: tuple[Join, ...] = ()
    derivation: Derivation = field(default_factory=Derivation)
    schema: Schema | None = None
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """A releasing SELECT: its query, the rows it reads, and the name of the table of its released rows."""

    name: str
    query: Query
    source: Source
    says_nothing_of_contributions: bool = False
    cataloged: tuple[Statistic, ...] = ()
    """The statistics whose bounds the catalog declares."""
    contributions_source: str = "statement"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table of released rows."""
        groups = [f"g{place}" for place in range(len(self.query.groups))]
        statistics = [f"s{place}{end}" for place in range(len(self.query.statistics)) for end in ENDS]
        return (*groups, *statistics)


ENDS = ("", "_lower", "_upper")
"""A statistic has its value in one column, and the ends of its interval in two more."""


@dataclass(slots=True)
class Problems:
    """What is wrong with a statement: every problem is found before one refusal names them all."""

    found: list[str] = field(default_factory=list)

    @contextmanager
    def collect(self, node: exp.Expr | None = None) -> Iterator[None]:
        """Note what is wrong inside the block, and go on; `node` is what may be left out or written otherwise."""
        try:
            yield
        except (InvalidParameter, UnknownColumn) as error:
            if str(error) not in self.found:
                self.found.append(str(error))
            if node is not None:
                node.meta.setdefault("refused", True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What is known of a statement beside its text."""

    user: str
    contributions: Contributions | None = None
    contributions_source: str = "statement"
    domain: tuple[Label, ...] | None = None
    declared: DeclaredBounds = field(default_factory=DeclaredBounds)
    domains: dict[str, tuple[Label, ...]] = field(default_factory=dict)
    today: date = date(1970, 1, 1)


@dataclass(slots=True)
class _GroupColumn:
    """A group: the expression that it is in the statement, its name in the query, and its name in the result."""

    node: exp.Expr
    item: str
    name: str
    selected: SelectedGroup | None = None


class CoreBuilder:
    """Splits one releasing SELECT; the nodes of the SELECT are used up on the way."""

    def __init__(
        self,
        select: exp.Expr,
        name: str,
        source: Source,
        settings: Settings,
        problems: Problems,
        released: Released,
    ) -> None:
        self._select = select
        self._name = name
        self._source = source
        self._settings = settings
        self._problems = problems
        self._rows = RowReader(settings.today, released)
        self._aggregates = AggregateReader(settings.user, self._rows, self._compute, settings.declared)
        self._computed: dict[RowExpression, str] = {}
        self._conditions: list[RowExpression] = []
        self._groups: list[_GroupColumn] = []
        self._statistics: list[Statistic] = []
        self._aliases = {each.alias: each.this for each in select.expressions if type(each) is exp.Alias}

    def build(self) -> tuple[Core, exp.Expr, tuple[Output, ...] | None]:
        """Return the core, the SELECT over its rows, and the columns of the result where that SELECT changes nothing.

        The columns are None where the SELECT computes, sorts or leaves out.
        """
        select = self._select
        self._check_clauses()
        where = self._where()
        self._read_groups()
        outputs = self._outputs()
        having = self._filtered("having")
        qualify = self._filtered("qualify")
        order = self._order()
        query_words = self._query_words(where)
        k = None if having is not None or qualify is not None else self._pushed_limit()
        if not self._statistics:
            self._statistics.append(Count(most=1))
        query = None
        with self._problems.collect():
            query = Query(statistics=tuple(self._statistics), k=k, **query_words)  # type: ignore[arg-type]
        if query is None:
            query = Query()
        self._check_columns(query)
        core = Core(
            name=self._name,
            query=query,
            source=self._derived(),
            says_nothing_of_contributions=self._settings.contributions is None,
            cataloged=tuple(self._aggregates.cataloged),
            contributions_source=self._settings.contributions_source,
        )
        sorted_alike = order is None or (k is not None and len(order.expressions) == 1)
        limit, offset = select.args.get("limit"), select.args.get("offset")
        cut = (limit is not None and k is None) or offset is not None
        plain = not (having or qualify or cut or select.args.get("distinct")) and sorted_alike
        direct = _direct(outputs) if plain else None
        shell = exp.Select(expressions=[exp.alias_(node, name, quoted=True) for name, node in outputs])
        shell.set("from_", exp.From(this=exp.to_table(self._name)))
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

    def _check_columns(self, query: Query) -> None:
        """Note every column of the query that the table does not have, where its columns are known."""
        schema = self._source.schema
        if schema is None:
            return
        computed = set(self._computed.values())
        for text in query.groups:
            with self._problems.collect():
                if text not in computed:
                    schema.column(group_of(text, schema).column)
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

    def _where(self) -> str | None:
        """Return the part of WHERE that the filter language states; the rest becomes conditions on rows."""
        where = self._select.args.get("where")
        if where is None:
            return None
        texts = []
        condition = where.this.unnest()
        parts = list(condition.flatten()) if type(condition) is exp.And else [condition]
        for part in parts:
            with self._problems.collect(part):
                text = self._filter_text(part)
                if text is None:
                    self._conditions.append(self._rows.read(part))
                else:
                    texts.append(f"({text})" if type(part.unnest()) is exp.Or and len(parts) > 1 else text)
        return " AND ".join(texts) or None

    def _filter_text(self, node: exp.Expr) -> str | None:
        """Return a condition in the filter language; None where only a row expression states it."""
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
        """Return the name of the column that holds a row expression: the alias where it is free."""
        if expression in self._computed:
            return self._computed[expression]
        taken = {name.lower() for name in (*(self._source.columns or ()), *self._computed.values())}
        names = [alias] if alias is not None and _PLAIN.fullmatch(alias) else []
        names += [f"expression_{place}" for place in range(1, len(taken) + 2)]
        name = next(name for name in names if name.lower() not in taken)
        self._computed[expression] = name
        return name

    def _derived(self) -> Source:
        """Return the source with the conditions and computed columns of this SELECT."""
        source = self._source
        steps: list[KeepRows | AddColumns] = [KeepRows(each) for each in self._conditions]
        if self._computed:
            steps.append(AddColumns(tuple(NamedExpression(name, each) for each, name in self._computed.items())))
        if not steps:
            return source
        return Source(
            table=source.table,
            joins=source.joins,
            derivation=source.derivation.then(*steps),
            columns=source.columns,
        )

    @property
    def _shows_aggregates(self) -> bool:
        return any(has_aggregate(each) for each in self._select.expressions) or bool(self._select.args.get("group"))

    def _read_groups(self) -> None:  # noqa: PLR0912 - one branch for each way to write a group
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
            nodes = [self._meant(each, selected) for each in group.expressions]
            if not group.expressions and not any(group.args.get(name) for name in ("rollup", "cube", "grouping_sets")):
                with self._problems.collect():
                    raise InvalidParameter("GROUP BY names no column: name one, or leave it out")
        found: list[tuple[exp.Expr, SelectedGroup | None]] = []
        for node in nodes:
            with self._problems.collect(node):
                if isinstance(node, exp.Rollup | exp.Cube | exp.GroupingSets):
                    raise unsupported(construct_of(node), "group by columns, and add totals with UNION ALL")
                if has_aggregate(node):
                    raise unsupported(f"{construct_of(node)} in GROUP BY", "group by columns, not by aggregates")
                if type(node.unnest()) is exp.Literal:
                    raise unsupported(f"{construct_of(node)} in GROUP BY", "group by columns")
                if self._is_user(node):
                    raise InvalidParameter(
                        f"GROUP BY {self._settings.user} shows single users: group by users in a subquery, and "
                        "aggregate over them"
                    )
                if node not in [each for each, _ in found]:
                    found.append((node, read_group(node)))
        nulls = {each.null_item for _, each in found if each is not None}
        for node, each in found:
            alone = len(nulls) == 1 and all(other is not None for _, other in found)
            mixed = each is not None and each.null_item is not None and not alone
            with self._problems.collect(node):
                if each is None or mixed:
                    alias = next((name for name, other in self._aliases.items() if other == node), None)
                    item = self._compute(self._rows.read(node), alias)
                    self._groups.append(_GroupColumn(node, item, item))
                else:
                    self._groups.append(_GroupColumn(node, str(each.group), each.name, each))

    def _meant(self, node: exp.Expr, selected: Sequence[Any]) -> Any:  # noqa: ANN401 - nodes of sqlglot
        """Return the expression that one of GROUP BY means: a place, an alias, or itself."""
        if type(node) is exp.Literal and not node.is_string:
            with self._problems.collect():
                place = number_of(node, "GROUP BY")
                if not isinstance(place, int) or not 1 <= place <= len(selected):
                    raise InvalidParameter(
                        f"GROUP BY {node.this} names no column of the SELECT: there are {len(selected)}"
                    )
                return selected[place - 1]
            return exp.column("unknown")
        known = self._source.columns or ()
        if type(node) is exp.Column and node.name in self._aliases and node.name not in known:
            return self._aliases[node.name]
        if type(node) is exp.Column and node.name in self._aliases:
            meant = self._aliases[node.name]  # a column and an alias: the column, unless bins of it are selected
            plain = type(meant) is exp.Column
            return meant if not plain and any(each.name == node.name for each in meant.find_all(exp.Column)) else node
        return node

    def _is_user(self, node: exp.Expr) -> bool:
        return type(node.unnest()) is exp.Column and node.unnest().name == self._settings.user

    def _outputs(self) -> list[tuple[str, exp.Expr]]:
        """Return the columns of the result: their names, and what they are in terms of released rows."""
        outputs: list[tuple[str, exp.Expr]] = []
        if not self._select.expressions:
            self._problems.found.append("the SELECT names no column: name what to show")
        for each in self._select.expressions:
            with self._problems.collect(each):
                node, alias = (each.this, each.alias) if type(each) is exp.Alias else (each, None)
                if type(node) is exp.Star or (type(node) is exp.Column and type(node.this) is exp.Star):
                    raise InvalidParameter(
                        f"SELECT * shows rows of single users: name columns of GROUP BY, and COUNT(*) or "
                        f"COUNT(DISTINCT {self._settings.user})"
                    )
                if is_aggregate(node):
                    for end, statistic in self._aggregates.statistics(node, alias):
                        place = self._place(statistic)
                        name = statistic_name(statistic) if alias is None else alias + end
                        outputs.append((name, exp.column(f"s{place}")))
                    continue
                shown = self._over_released(node.copy(), alias, aliases=False)
                group = self._group_place(node)
                name = alias or (self._groups[group].name if group is not None else _text_of(node))
                outputs.append((name, shown))
        names: list[str] = []
        for name, _ in outputs:
            unique, number = name, 1
            while unique.lower() in [each.lower() for each in names]:
                unique, number = f"{name}_{number}", number + 1
            names.append(unique)
        return [(name, node) for name, (_, node) in zip(names, outputs, strict=True)]

    def _group_place(self, node: exp.Expr) -> int | None:
        inner = node.unnest()
        for place, each in enumerate(self._groups):
            if each.node.unnest() == inner:
                return place
            if each.selected is not None and type(inner) is not exp.Literal and not has_aggregate(inner):
                try:
                    found = read_group(inner)
                except InvalidParameter:
                    continue
                if found is not None and found == each.selected:
                    return place
        return None

    def _place(self, statistic: Statistic) -> int:
        if statistic not in self._statistics:
            self._statistics.append(statistic)
        return self._statistics.index(statistic)

    def _over_released(  # noqa: PLR0912 - one branch for each kind of node
        self, node: exp.Expr, alias: str | None = None, *, aliases: bool = True
    ) -> exp.Expr:
        """Return an expression with groups and aggregates replaced by columns of released rows."""
        if aliases and type(node) is exp.Column and node.args.get("table") is None and node.name in self._aliases:
            return self._over_released(self._aliases[node.name].copy(), node.name, aliases=False)
        place = self._group_place(node)
        if place is not None:
            return exp.column(f"g{place}")
        if is_aggregate(node):
            return exp.column(f"s{self._place(self._aggregates.statistic(node, alias))}")
        if isinstance(node, exp.Window):
            inner = node.this
            if isinstance(inner, exp.Anonymous | exp.Filter):
                for argument in list(inner.iter_expressions()):
                    argument.replace(self._over_released(argument, aliases=aliases))
            for name, value in list(node.args.items()):
                if name != "this":
                    for each in value if isinstance(value, list) else [value]:
                        if isinstance(each, exp.Expr):
                            each.replace(self._over_released(each, aliases=aliases))
            return node
        if type(node) is exp.Column:
            raise InvalidParameter(
                f"the column {node.meta.get(WRITTEN, node.name)!r} is selected but not grouped: add it to GROUP BY, "
                "or aggregate it"
            )
        if isinstance(node, exp.Subquery | exp.Select):
            return node
        for each in list(node.iter_expressions()):
            each.replace(self._over_released(each, aliases=aliases))
        return node

    def _filtered(self, clause: str) -> exp.Expr | None:
        """Return HAVING or QUALIFY over released rows."""
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
        for each in order.expressions:
            with self._problems.collect(each):
                term = each.copy()
                if type(each.this) is exp.Literal:
                    term.set("this", self._at_place(each.this))
                term.set("this", self._over_released(term.this.copy()))
                terms.append(term)
        return exp.Order(expressions=terms) if terms else None

    def _at_place(self, node: exp.Expr) -> Any:  # noqa: ANN401 - a node of sqlglot
        """Return what a number in ORDER BY stands for: the expression of the SELECT at that place."""
        place = number_of(node, "ORDER BY")
        if node.is_string or not isinstance(place, int) or not 1 <= place <= len(self._select.expressions):
            there = len(self._select.expressions)
            raise InvalidParameter(f"ORDER BY {node.this} names no column of the SELECT: there are {there}")
        found = self._select.expressions[place - 1]
        return (found.this if type(found) is exp.Alias else found).copy()

    def _query_words(self, where: str | None) -> dict[str, object]:
        nulls = {each.selected.null_item for each in self._groups if each.selected is not None}
        given = self._settings
        return {
            "item": tuple(each.item for each in self._groups) or None,
            "contributions": given.contributions if self._groups else None,
            "domain": (given.domain or self._declared_domain()) if self._groups else None,
            "where": where,
            "null_item": nulls.pop() if len(nulls) == 1 else None,
        }

    def _declared_domain(self) -> tuple[Label, ...] | None:
        """Return the labels that the catalog declares for all groups; None where it leaves one of them open."""
        found = [self._settings.domains.get(each.item) for each in self._groups]
        if not found or any(each is None for each in found):
            return None
        if len(found) == 1:
            return found[0]
        labels = tuple(product(*(each for each in found if each is not None)))
        return labels if len(labels) <= MOST_LABELS else None  # type: ignore[return-value]

    def _pushed_limit(self) -> int | None:
        """Return the k of ORDER BY a count DESC LIMIT k, which is a private top-k; None for another order or limit."""
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
        skipped = 0 if offset is None else number_of(offset.args["expression"], "OFFSET")
        return k + skipped  # type: ignore[return-value]  # which the query checks


_CLAUSES = {
    "laterals": ("LATERAL", "ask the table itself"),
    "windows": ("WINDOW", "write the window after OVER"),
    "sample": ("TABLESAMPLE", "ask the whole table"),
    "kind": ("SELECT AS", "select columns"),
}


def _direct(outputs: Sequence[tuple[str, exp.Expr]]) -> tuple[Output, ...] | None:
    """Return the columns of the result where each is a group or a statistic as it was released; None otherwise."""
    found = []
    for name, node in outputs:
        if type(node) is not exp.Column:
            return None
        place = int(node.name[1:])
        group = node.name.startswith("g")
        found.append(Output(name=name, group=place if group else None, statistic=None if group else place))
    return tuple(found)


def _text_of(node: exp.Expr) -> str:
    return str(node.sql(dialect=SqlDialect))[:60]


def with_contributions(query: Query) -> Query:
    """Return a query that leaves contributions open with contributions that are found, where groups are private."""
    from dataclasses import replace

    if query.item is None or query.domain is not None or query.contributions is not None or query.auto_contributions:
        return query
    if query.k is not None and query.counted is not None:
        return query  # a top-k alone needs no bound
    return replace(query, contributions=AUTO)  # type: ignore[arg-type]


def stated_bounds(core: Core, found: Mapping[str, object]) -> list[StatedBounds]:
    """Return the bounds of a core's statistics and its contribution bound; `found` are those of its answer."""
    stated: list[StatedBounds] = []
    for statistic in core.query.statistics:
        counted = statistic.kind == "count" or statistic.column is None
        pair = found.get(statistic.name if counted else str(statistic.column)) if statistic.is_auto else None
        source = "found" if statistic.is_auto else "catalog" if statistic in core.cataloged else "statement"
        ends = pair if isinstance(pair, list) else statistic.found_bounds()
        if ends is not None and statistic.name != "users":
            stated.append({"of": statistic.name, "low": ends[0], "high": ends[1], "source": source})
    bound = found.get("contributions") or core.query.contributions
    if core.query.item is not None and isinstance(bound, int):
        source = "found" if "contributions" in found else core.contributions_source
        stated.append({"of": "contributions", "low": 1, "high": bound, "source": source})
    return stated
