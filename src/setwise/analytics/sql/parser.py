"""One SELECT read into the query that the structured words would make; nothing of its text reaches an engine."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from sqlglot import exp

from setwise.analytics.budget import BudgetWords
from setwise.analytics.engines.joins import Join
from setwise.analytics.query import AUTO, Contributions, Count, Quantile, Query
from setwise.analytics.sql.clauses import (
    SelectedGroup,
    filter_text,
    null_item_of,
    read_group,
    read_groups,
    read_tables,
    unqualify,
)
from setwise.analytics.sql.result import Output
from setwise.analytics.sql.syntax import (
    SPENDING,
    check_parts,
    column_name,
    construct_of,
    number_in,
    number_of,
    parse,
    unsupported,
)
from setwise.analytics.statistics import STATISTICS, Statistic
from setwise.analytics.statistics.statistic import GROUP_BOUNDS, ROW_BOUNDS, SqlFunction
from setwise.errors import InvalidParameter
from setwise.mechanisms.labels import Label


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A SELECT: its query, the columns of its result, the tables it names, and the options of its clause."""

    query: Query
    outputs: tuple[Output, ...]
    table: str
    user: str
    joins: tuple[Join, ...] = ()
    explain: bool = False
    epsilon: float | None = None
    delta: float | None = None
    within: float | None = None

    @property
    def says_what_to_spend(self) -> bool:
        """Whether the clause does, in part at least."""
        return any(getattr(self, name) is not None for name in SPENDING)

    def paid_by(self, words: BudgetWords) -> BudgetWords:
        """Return the words for what may be spent, with those of the clause; neither is given twice."""
        own: BudgetWords = {name: value for name in SPENDING if (value := getattr(self, name)) is not None}  # type: ignore[assignment]
        for name in own:
            if words.get(name) is not None:
                raise InvalidParameter(f"{name} is given twice, in OPTIONS and beside the query: give it once")
        return {**words, **own}


@contextmanager
def _not_too_deep() -> Iterator[None]:
    try:
        yield
    except RecursionError:
        raise InvalidParameter("the SQL nests too deep: write it with fewer parentheses") from None


@_not_too_deep()
def parse_sql(
    text: str,
    *,
    user: str | None = None,
    contributions: Contributions | None = None,
    domain: tuple[Label, ...] | None = None,
    columns: Sequence[str] | None = None,
) -> Statement:
    """Return what a SELECT asks, or raise `InvalidParameter` naming what it may not say and what to write instead.

    `user` is the column that tells users apart, where the clause names none; `contributions` and `domain` are those of
    the query. `columns` are those of the tables once they are joined, where they are known: TABLE.COLUMN is one that
    several tables have.

    >>> sql = "SELECT page, COUNT(DISTINCT who) AS n FROM visits GROUP BY page ORDER BY n DESC LIMIT 3"
    >>> parse_sql(sql, user="who").query == Query.top_k(item="page", k=3, per_item=1)
    True
    """
    select, options, explain = parse(text)
    if type(select) is not exp.Select:
        raise unsupported(construct_of(select), "ask one SELECT")
    _check_clauses(select)
    tables, joins = read_tables(select)
    unqualify(select, tables, columns)
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
    groups = read_groups(select)
    outputs, statistics = _outputs(select, groups, named)
    k = _limit(select)
    if k is not None and not groups:
        raise unsupported("LIMIT without GROUP BY", "leave it out: there is one row")
    where = select.args.get("where")
    query = Query(
        statistics=statistics,
        item=tuple(str(each.group) for each in groups) or None,
        contributions=contributions if groups else None,  # type: ignore[arg-type]  # auto does as well
        domain=domain,
        where=None if where is None else filter_text(where.this),
        null_item=null_item_of(groups),
        k=k,
    )
    if query.k is not None:
        _check_order(select, query, outputs, named)
    return Statement(
        query=query,
        outputs=outputs,
        table=next(iter(tables.values())),
        user=named,
        joins=joins,
        explain=explain,
        **{name: float(number_in(options[name], name)) for name in SPENDING if name in options},
    )


_CLAUSES = {
    "with_": ("WITH (a common table expression)", "ask the table itself"),
    "laterals": ("LATERAL", "ask the table itself"),
    "having": ("HAVING", "write ORDER BY a count DESC LIMIT k, or filter the answer, which costs nothing"),
    "qualify": ("QUALIFY", "write ORDER BY a count DESC LIMIT k"),
    "windows": ("WINDOW", "group by columns instead"),
    "distinct": ("SELECT DISTINCT", "write GROUP BY with COUNT(DISTINCT the user column)"),
    "offset": ("OFFSET", "ask for the first k"),
    "sample": ("TABLESAMPLE", "ask the whole table"),
    "kind": ("SELECT AS", "select columns"),
}


def _check_clauses(select: exp.Expr) -> None:
    for name, (construct, instead) in _CLAUSES.items():
        if select.args.get(name):
            raise unsupported(construct, instead)
    check_parts(select, "expressions", "from_", "joins", "where", "group", "order", "limit")


def _outputs(
    select: exp.Expr, groups: tuple[SelectedGroup, ...], user: str
) -> tuple[tuple[Output, ...], tuple[Statistic, ...]]:
    """Return the columns of the result and the statistics among them."""
    outputs: list[Output] = []
    statistics: list[Statistic] = []
    for each in select.expressions:
        node, alias = each, None
        if type(each) is exp.Alias:
            check_parts(each, "this", "alias")
            node, alias = each.this, each.alias
        found = read_group(node)
        if found is not None:
            if found not in groups:
                group = found.group
                what = f"the column {group.column!r} is" if group.bin is None else f"the bins {str(group)!r} are"
                raise InvalidParameter(f"{what} selected but not grouped: add it to GROUP BY, written alike")
            outputs.append(Output(name=alias or found.name, group=groups.index(found)))
            continue
        for end, statistic in _statistics(node, user):
            name = statistic.name if alias is None else alias + end
            outputs.append(Output(name=name, statistic=len(statistics)))
            statistics.append(statistic)
    if not statistics:
        raise InvalidParameter("the SELECT has no statistic: add COUNT(DISTINCT the user column)")
    shown = {each.group for each in outputs}
    left_out = [str(each.group) for place, each in enumerate(groups) if place not in shown]
    if left_out:
        raise InvalidParameter(f"the column {left_out[0]!r} is grouped but not selected: add it to SELECT")
    names = [each.name + end for each in outputs for end in (_ENDS if each.group is None else ("",))]
    _check_different("columns of the result", names, "give them different aliases")
    _check_different("statistics", [each.name for each in statistics], "ask for one of them")
    return tuple(outputs), tuple(statistics)


_ENDS = ("", "_lower", "_upper")
"""A statistic has its value in one column of a frame, and the ends of its interval in two more."""


def _check_different(what: str, names: list[str], instead: str) -> None:
    for name in names:
        if names.count(name) > 1:
            raise InvalidParameter(f"two {what} are called {name!r}: {instead}")


def _statistics(node: exp.Expr, user: str) -> list[tuple[str, Statistic]]:
    """Return the statistics that an expression of the SELECT is, with what is added to its alias for each."""
    if type(node) is not exp.Anonymous or str(node.this).upper() != "APPROX_QUANTILES":
        return [("", _statistic(node, user))]
    check_parts(node, "this", "expressions")
    arguments = [each for each in node.expressions if type(each) is not exp.Kwarg]
    named = [each for each in node.expressions if type(each) is exp.Kwarg]
    if len(arguments) != 2:
        raise InvalidParameter(f"APPROX_QUANTILES takes a column, a number and its bounds, not {len(arguments)} values")
    parts = number_of(arguments[1], "the number of APPROX_QUANTILES")
    if not isinstance(parts, int) or not 2 <= parts <= _MOST_PARTS:
        raise InvalidParameter(f"the number of APPROX_QUANTILES must be 2 to {_MOST_PARTS}, not {parts}")
    bounds = _bounds(named, "APPROX_QUANTILES", ROW_BOUNDS, Quantile.sql["MEDIAN"].missing)
    column = column_name(arguments[0], "APPROX_QUANTILES")
    return [(f"_{place}", Quantile(column=column, at=Fraction(place, parts), **bounds)) for place in range(1, parts)]


_MOST_PARTS = 16
"""The most parts that APPROX_QUANTILES may cut into: each inner boundary is a quantile of its own."""


def _statistic(node: exp.Expr, user: str) -> Statistic:
    if type(node) is not exp.Anonymous:
        construct = construct_of(node)
        raise unsupported(f"{construct} in SELECT", _INSTEAD_OF.get(construct, _INSTEAD))
    check_parts(node, "this", "expressions")
    function = str(node.this).upper()
    arguments = [each for each in node.expressions if type(each) is not exp.Kwarg]
    named = [each for each in node.expressions if type(each) is exp.Kwarg]
    if function == "COUNT":
        return _count(arguments, named, user)
    if function not in _MEASURES:
        raise unsupported(function, _INSTEAD_OF.get(function, _INSTEAD))
    if any(type(each) is exp.Distinct for each in arguments):
        raise unsupported(f"DISTINCT in {function}", "leave it out")
    statistic, written = _MEASURES[function]
    if len(arguments) != 1 + written.takes_share:
        takes = "a column and a share" if written.takes_share else "one column"
        raise InvalidParameter(f"{function} takes {takes} and its bounds, not {len(arguments)} values")
    words = {"column": column_name(arguments[0], function), **_bounds(named, function, written.bounds, written.missing)}
    if written.takes_share:
        words["at"] = number_of(arguments[1], f"the share of {function}")
    (found,) = statistic.read(words)
    return found


_INSTEAD = "select columns of GROUP BY, and COUNT, SUM, AVG, PERCENTILE_CONT, MEDIAN or APPROX_QUANTILES of columns"

_COMPUTE = "select its parts, and compute with the answer, which costs nothing"
_CONDITION = "write the condition after WHERE, in a SELECT of its own"
_SPREAD = "ask for quantiles of the column, which show how far it spreads"
_EXTREME = "one user decides it: ask for a quantile near the end, such as PERCENTILE_CONT(x, 0.99, ..)"
_SHARE = "write PERCENTILE_CONT(x, share, contribution_bounds_per_row => (low, high))"

_INSTEAD_OF = {
    "MEAN": "write AVG",
    **dict.fromkeys(("PERCENTILE_DISC", "WITHIN GROUP", "QUANTILE", "QUANTILE_CONT", "APPROX_PERCENTILE"), _SHARE),
    **dict.fromkeys(("MIN", "MAX"), _EXTREME),
    **dict.fromkeys(("STDDEV", "STDDEV_SAMP", "STDDEV_POP", "VARIANCE", "VAR_SAMP", "VAR_POP"), _SPREAD),
    **dict.fromkeys(("COUNTIF", "COUNT_IF", "FILTER", "IF", "CASE"), _CONDITION),
    **dict.fromkeys(("ROUND", "CAST", "FLOOR", "CEIL", "ABS", "SAFE_DIVIDE", "arithmetic"), _COMPUTE),
}
"""What to write in place of a statistic that is none here, where it is known what was meant."""

_MEASURES: dict[str, tuple[type[Statistic], SqlFunction]] = {
    name: (statistic, written) for statistic in STATISTICS.values() for name, written in statistic.sql.items()
}
"""The functions of a column that are statistics, and how each is written."""


def _count(arguments: Sequence[exp.Expr], named: Sequence[exp.Expr], user: str) -> Count:
    match arguments:
        case [exp.Distinct() as distinct]:
            check_parts(distinct, "expressions")
            columns = [column_name(each, "COUNT(DISTINCT ..)") for each in distinct.expressions]
            if columns != [user]:
                raise unsupported(f"COUNT(DISTINCT {', '.join(columns)})", f"count users, COUNT(DISTINCT {user})")
            if named:
                raise unsupported(f"{named[0].this.name} in COUNT(DISTINCT ..)", "leave it out: a user counts once")
            return Count(most=1)
        case [counted]:
            if type(counted) is exp.Star:
                check_parts(counted)
                column, function = None, "COUNT(*)"
            else:
                column = column_name(counted, "COUNT")
                function = f"COUNT({column})"
            adds = f"say what one user may add, or count users, COUNT(DISTINCT {user})"
            found = _bounds(named, function, GROUP_BOUNDS, adds)
            if AUTO in found.values():
                raise unsupported(f"AUTO in {function}", "write (0, N)")
            if found["low"] != 0:
                raise InvalidParameter(f"the lower bound of {function} must be 0, not {found['low']}")
            return Count(most=found["high"], column=column)
        case _:
            raise InvalidParameter(f"COUNT takes * or one column, and its bounds, not {len(arguments)} values")


def _bounds(named: Sequence[exp.Expr], function: str, wanted: str, missing: str) -> dict[str, Any]:
    """Return the bounds given as `wanted => (low, high)`, or as AUTO: the only named argument there may be."""
    for each in named:
        if each.this.name.lower() != wanted:
            raise unsupported(f"{each.this.name} in {function}", f"it takes {wanted} => (low, high)")
    if len(named) != 1:
        instead = f"is needed in {function}: {missing}" if not named else f"is given twice in {function}: give it once"
        raise InvalidParameter(f"{wanted} => (low, high) {instead}")
    pair = named[0].args["expression"]
    if type(pair) is exp.Column and pair.name.lower() == AUTO:
        check_parts(pair, "this")
        return {"bounds": AUTO}
    if type(pair) is not exp.Tuple or len(pair.expressions) != 2:
        raise unsupported(f"{construct_of(pair)} as {wanted}", "write (low, high)")
    low, high = (number_of(end, wanted) for end in pair.expressions)
    return {"low": low, "high": high}


def _limit(select: exp.Expr) -> int | None:
    """Return the k of ORDER BY .. DESC LIMIT k; neither is there without the other."""
    order, limit = select.args.get("order"), select.args.get("limit")
    if order is None and limit is None:
        return None
    if limit is None:
        raise unsupported("ORDER BY without LIMIT", "add LIMIT k for the k highest, or sort the answer")
    if order is None:
        raise unsupported("LIMIT without ORDER BY", "add ORDER BY a count DESC")
    if type(limit) is not exp.Limit:
        raise unsupported(construct_of(limit), "write LIMIT k")
    check_parts(limit, "expression")
    return number_of(limit.args["expression"], "LIMIT")  # type: ignore[return-value]  # which the query checks


def _check_order(select: exp.Expr, query: Query, outputs: tuple[Output, ...], user: str) -> None:
    """Raise unless groups are ordered by what a top-k ranks them by.

    That is the only statistic where it is a count, and users where there are several or others.
    """
    order = select.args["order"]
    check_parts(order, "expressions")
    if len(order.expressions) != 1:
        raise unsupported("ORDER BY several columns", "order by one count")
    (ordered,) = order.expressions
    check_parts(ordered, "this", "desc", "nulls_first")
    if not ordered.args.get("desc"):
        raise unsupported("ascending ORDER BY", "a top-k is of the highest: write DESC")
    ranked = Count(most=1) if query.counted is None else query.counted
    if not isinstance(ranked, Count):
        raise unsupported("ORDER BY beside a sum alone", f"select COUNT(DISTINCT {user}) too and order by it")
    by = _at_place(ordered.this, select)
    names = {each.name: each for each in outputs}
    if type(by) is exp.Column:
        found = names.get(column_name(by, "ORDER BY"))
        chosen = None if found is None or found.statistic is None else query.statistics[found.statistic]
    else:
        chosen = _statistic(by, user) if type(by) is exp.Anonymous else None
    if chosen != ranked:
        what = f"COUNT(DISTINCT {user})" if ranked.most == 1 else "the COUNT(*) that is selected"
        raise unsupported(
            f"ORDER BY {construct_of(by)}", f"groups are ranked by a count: order by {what}, or its alias"
        )


def _at_place(node: exp.Expr, select: exp.Expr) -> exp.Expr:
    """Return what a number in ORDER BY stands for: the expression of the SELECT at that place."""
    if type(node) is not exp.Literal or node.is_string:
        return node
    place = number_of(node, "ORDER BY")
    if not isinstance(place, int) or not 1 <= place <= len(select.expressions):
        there = len(select.expressions)
        raise InvalidParameter(f"ORDER BY {node.this} names no column of the SELECT: there are {there}")
    found: exp.Expr = select.expressions[place - 1]
    return found.this if type(found) is exp.Alias else found
