"""Parsing of the clauses of a SELECT over private rows: WHERE, and bins in GROUP BY.

Only syntax nodes with a known meaning are converted. Every other node is refused, so that nothing is silently ignored.
FROM and JOIN are parsed in from_clause/; HAVING, ORDER BY and LIMIT in core_builder.py.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sqlglot import exp

from setwise.analytics.bins import ConsecutiveTime, Group, RecurringTime, TimeUnit, Width
from setwise.analytics.filter.parser import ALLOWED, KEYWORDS
from setwise.analytics.sql.row_values import TRUNCATIONS, is_time_cast, time_column, truncation_parts
from setwise.analytics.sql.syntax import (
    COMPARISONS,
    check_parts,
    column_name,
    construct_of,
    like_pattern,
    number_of,
    unsupported,
)
from setwise.analytics.sql.time_units import WEEK_STARTS
from setwise.errors import InvalidParameter
from setwise.mechanisms.labels import Cell

WRITTEN = "written"
"""The key of a column node's metadata that holds the column's name without its table, which names it in the result."""

MOST_NODES = 2_000
"""The most syntax nodes of an expression after aliases in it are replaced; a chain of aliases could double it often."""


def with_earlier_aliases(node: exp.Expr, earlier: Mapping[str, exp.Expr], columns: Sequence[str] | None) -> exp.Expr:
    """Return a copy of `node`, a column of a SELECT list, with aliases of earlier columns replaced by their expression.

    In SELECT COUNT(*) AS n, n * 2 AS twice, the n of the second column becomes (COUNT(*)).
    - `earlier` maps the aliases of the earlier columns, in lower case, to their expressions.
    - `columns` are the column names of the rows. An alias that is also such a name means the column, and is not
      replaced. If the names are not known (None), nothing is replaced.
    Raises: `InvalidParameter` if the result has more than `MOST_NODES` (2,000) syntax nodes, because every alias in a
    chain of aliases could double the length.
    """
    holder = exp.Paren(this=node.copy())
    taken = {name.lower() for name in columns or ()}
    for column in list(own_nodes(holder)) if columns is not None else ():
        name = column.name.lower() if type(column) is exp.Column and not column.table else ""
        if name in earlier and name not in taken:
            column.replace(exp.paren(earlier[name]))
    if sum(1 for _ in holder.walk()) > MOST_NODES:
        raise InvalidParameter("aliases in the SELECT list repeat too much: write a subquery for the inner values")
    replaced: exp.Expr = holder.this
    return replaced


def own_nodes(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield all syntax nodes below `node`, a SELECT or a part of one, except subqueries and the nodes inside them."""
    for child in node.iter_expressions():
        if not isinstance(child, exp.Select | exp.SetOperation | exp.Subquery | exp.With):
            yield child
            yield from own_nodes(child)


def subqueries_of(select: exp.Expr) -> Iterator[exp.Expr]:
    """Yield the subqueries in the expressions of `select`: EXISTS, IN with a subquery, and scalar subqueries.

    Tables in FROM and JOIN, and subqueries inside other subqueries, are left out.
    """
    for name, value in select.args.items():
        if name in ("from_", "joins", "with_"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, exp.Expr):
                yield from _subqueries(child)


def _subqueries(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.Exists | exp.Subquery) or (isinstance(node, exp.In) and node.args.get("query") is not None):
        yield node
    elif not isinstance(node, exp.Select):
        for child in node.iter_expressions():
            yield from _subqueries(child)


def conjunction(where: exp.Expr | None) -> list[exp.Expr]:
    """Return the conditions that the WHERE clause `where` joins with AND; an empty list if `where` is None."""
    if where is None:
        return []
    condition = where.this.unnest()
    return list(condition.flatten()) if type(condition) is exp.And else [condition]


def set_where(select: exp.Expr, conditions: Sequence[exp.Expr]) -> None:
    """Make all `conditions`, joined with AND, the WHERE clause of `select`, in place.

    If `conditions` is empty, the WHERE clause is removed.
    """
    select.set("where", exp.Where(this=exp.and_(*conditions, copy=False)) if conditions else None)


def add_to_where(select: exp.Expr, conditions: Sequence[exp.Expr]) -> None:
    """Put `conditions` before the condition in the WHERE clause of `select`, joined with AND, in place."""
    where = select.args.get("where")
    set_where(select, [*conditions, *([] if where is None else [exp.paren(where.this, copy=False)])])


_PASSES_UNKNOWN_AS_FALSE = (exp.And, exp.Or, exp.Paren, exp.Where, exp.If, exp.Case, exp.Filter, exp.Alias)


def check_not_negated(node: exp.Expr) -> None:
    """Raise `InvalidParameter` if `node`, an IN with a subquery, may be negated, as in NOT .. or (..) = FALSE.

    IN with a subquery is computed by a join, which ignores nulls in the subquery. For NOT IN the result would be wrong:
    if the subquery has a null, NOT IN is never true in SQL.
    """
    parent = node.parent
    while parent is not None and not isinstance(parent, exp.Select):
        if not isinstance(parent, (*_PASSES_UNKNOWN_AS_FALSE, exp.Anonymous)):
            raise unsupported("NOT IN with a subquery", "write NOT EXISTS, which nulls do not change")
        parent = parent.parent


def inline_windows(select: exp.Expr) -> None:
    """Write the definitions of the WINDOW clause of `select` into its window functions; remove the clause, in place.

    With WINDOW w AS (PARTITION BY x), SUM(y) OVER w becomes SUM(y) OVER (PARTITION BY x). A window whose name the
    clause does not define is left unchanged, and a later check refuses it.
    """
    definitions = {each.this.name.lower(): each for each in select.args.get("windows") or ()}
    for node in list(own_nodes(select)) if definitions else ():
        defined = definitions.get(str(node.alias).lower()) if isinstance(node, exp.Window) else None
        if defined is None:
            continue
        node.set("alias", None)
        for name in ("partition_by", "order", "spec"):
            value = defined.args.get(name)
            if value and not node.args.get(name):
                node.set(name, [each.copy() for each in value] if isinstance(value, list) else value.copy())
    select.set("windows", None)


_LABELS = {exp.DType.DATE: "DATE ", exp.DType.TIMESTAMP: "TIMESTAMP ", exp.DType.TIMESTAMPTZ: "TIMESTAMP "}

_PLAIN = re.compile(r"[^\W\d]\w*")


def filter_text(node: exp.Expr) -> str:
    """Return the SQL condition `node` in the filter language, the text form in which `Query.where` states conditions.

    The types of columns and constants are checked later, when the query is asked, because the columns may not be known
    yet.
    Raises: `InvalidParameter` if the filter language cannot state the condition.
    """
    match type(node):
        case exp.Paren:
            check_parts(node, "this")
            return filter_text(node.this)
        case exp.And | exp.Or:
            check_parts(node, "this", "expression")
            return f" {node.key.upper()} ".join(_parenthesize(each, type(node)) for each in node.flatten())
        case exp.Not:
            check_parts(node, "this")
            return _negate(node.this.unnest())
        case _:
            return _comparison(node, negated=False)


def _parenthesize(node: exp.Expr, outer: type[exp.Expr]) -> str:
    inner = node.unnest()
    written = filter_text(inner)
    return f"({written})" if type(inner) in (exp.And, exp.Or) and type(inner) is not outer else written


def _negate(node: exp.Expr) -> str:
    match type(node):
        case exp.In | exp.Between | exp.Like | exp.Is:
            return _comparison(node, negated=True)
        case exp.And | exp.Or:
            return f"NOT ({filter_text(node)})"
        case _:
            return f"NOT {filter_text(node)}"


def _comparison(node: exp.Expr, *, negated: bool) -> str:
    """Return the condition `node`, a column compared with constants, in the filter language (see `filter_text`).

    If `negated`, a NOT stands before `node` (an IN, BETWEEN, LIKE or IS NULL), and the text states the opposite of
    `node`: for NOT x IN (1, 2) it is x NOT IN (1, 2).
    """
    kind = type(node)
    negation = "NOT " if negated != bool(node.args.get("negate")) else ""
    if kind in COMPARISONS:
        check_parts(node, "this", "expression")
        if type(node.this) is exp.Column and type(node.args["expression"]) is exp.Column:
            raise unsupported("a comparison of two columns in a filter", ALLOWED)
        return f"{_operand(node.this)} {COMPARISONS[kind]} {_operand(node.args['expression'])}"
    match kind:
        case exp.In:
            check_parts(node, "this", "expressions")
            return f"{_column(node.this)} {negation}IN ({', '.join(_constant(each) for each in node.expressions)})"
        case exp.Between:
            check_parts(node, "this", "low", "high")
            low, high = (_constant(node.args[end]) for end in ("low", "high"))
            return f"{_column(node.this)} {negation}BETWEEN {low} AND {high}"
        case exp.Like:
            check_parts(node, "this", "expression", "negate")
            pattern = node.args["expression"]
            if "\\" in like_pattern(node):
                raise unsupported("an escape (\\) in the LIKE of a filter", "use % and _ alone")
            return f"{_column(node.this)} {negation}LIKE {_constant(pattern)}"
        case exp.Escape:
            raise unsupported(f"the escape in {like_pattern(node)!r}", ALLOWED)
        case exp.Is if type(node.args["expression"]) is exp.Null:
            check_parts(node, "this", "expression", "negate")
            return f"{_column(node.this)} IS {negation}NULL"
        case exp.Is:
            raise unsupported(f"IS {node.args['expression'].sql()}", "write = TRUE or = FALSE")
        case exp.Column:
            raise unsupported(f"{construct_of(node)} as a condition", "write = TRUE after it")
        case _:
            raise unsupported(f"{construct_of(node)} in WHERE", ALLOWED)


def _operand(node: exp.Expr) -> str:
    return _column(node) if type(node) is exp.Column else _constant(node)


def _column(node: exp.Expr) -> str:
    name = column_name(node, "WHERE")
    if _PLAIN.fullmatch(name) and name.lower() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def _constant(node: exp.Expr) -> str:
    match type(node):
        case exp.Literal if node.is_string:
            return "'" + str(node.this).replace("'", "''") + "'"
        case exp.Literal:
            return str(node.this)
        case exp.Neg if type(node.this) is exp.Literal and not node.this.is_string:
            return f"-{node.this.this}"
        case exp.Boolean:
            return "TRUE" if node.this else "FALSE"
        case exp.Cast if type(node.this) is exp.Literal and node.this.is_string and node.args["to"].this in _LABELS:
            check_parts(node, "this", "to")
            return _LABELS[node.args["to"].this] + _constant(node.this)
        case exp.Null:
            raise unsupported("a comparison with NULL", "write IS NULL or IS NOT NULL")
        case _:
            raise unsupported(f"{construct_of(node)} in WHERE", ALLOWED)


_UNITS = {
    "YEAR": TimeUnit.YEAR,
    "QUARTER": TimeUnit.QUARTER,
    "MONTH": TimeUnit.MONTH,
    "ISOWEEK": TimeUnit.WEEK,
    "DAY": TimeUnit.DAY,
    "HOUR": TimeUnit.HOUR,
}
"""SQL's names of the units of time that bins have. A WEEK that begins on Sunday is computed as a row expression
instead."""

_NAMING_NULL = ("IFNULL", "COALESCE")


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedGroup:
    """A group key of a SELECT: the column or ranges by which rows are grouped, and how the result shows the key.

    - `group` is a column, or a column whose values are first put into ranges (bins), such as months of a time.
    - `null_item` is the label for rows whose key is null, as in COALESCE(x, 'none'); None if the SELECT gives no label.
    - `name` is the name of the result column if the SELECT gives it no alias.
    """

    group: Group
    null_item: Cell | None = None
    name: str = field(compare=False)


def read_group(node: exp.Expr) -> SelectedGroup | None:
    """Return the group key that `node`, an expression of GROUP BY or SELECT, states; None if it states no group key.

    A group key is a column, or a column whose values are put into ranges, such as months. IFNULL(x, c) and COALESCE(x,
    c) are the group key x with the label c for nulls.
    """
    if type(node) is exp.Anonymous and str(node.this).upper() in _NAMING_NULL and len(node.expressions) == 2:
        check_parts(node, "this", "expressions")
        inner_group, missing = read_group(node.expressions[0]), _null_item(node.expressions[1])
        return None if inner_group is None or missing is None else replace(inner_group, null_item=missing)
    group = _group(node)
    return None if group is None else SelectedGroup(group=group, name=node.meta.get(WRITTEN, str(group)))


def _null_item(node: exp.Expr) -> Cell | None:
    """Return the label that `node`, the argument c of IFNULL(x, c), gives to rows in which x is null.

    The label is the value of c if this is a text constant or a whole number. Otherwise the result is None.
    """
    if type(node) is exp.Literal and node.is_string:
        return str(node.this)
    number = None if type(node.unnest()) not in (exp.Literal, exp.Neg) else number_of(node.unnest(), "IFNULL")
    return number if isinstance(number, int) else None


def _group(node: exp.Expr) -> Group | None:
    match node:
        case exp.Column():
            return Group(column_name(node, "GROUP BY"))
        case exp.Paren():
            return _group(node.this)
        case exp.Cast() if type(node.this.unnest()) is exp.Mul and node.args["to"].this is exp.DType.BIGINT:
            return _group(node.this)
        case exp.Cast() | exp.TryCast() if is_time_cast(node):
            return _time_cast(node.this.unnest(), node.args["to"].this is exp.DType.DATE)
        case exp.Mul():
            return _width(node)
        case exp.Extract():
            return _part(node)
        case exp.Anonymous() if str(node.this).upper() in TRUNCATIONS:
            return _period(node)
        case exp.Anonymous() if str(node.this).upper() == "DATE" and len(node.expressions) == 1:
            return _time_cast(node.expressions[0].unnest(), is_date=True)
        case _:
            return None


def _time_cast(node: exp.Expr, is_date: bool) -> Group | None:
    """Return the group key for a cast of `node` to DATE (if `is_date`) or to TIMESTAMP (if not).

    The result is None if the cast does not group rows by periods of time.
    - A column that is cast to DATE is grouped by days.
    - A column that is cast to TIMESTAMP gives None, because every moment would be a group of its own.
    - The start of an hour that is cast to DATE is grouped by days.
    - The start of any other period, such as DATE_TRUNC(x, MONTH), is grouped by that period. So is the start of an hour
      that is cast to TIMESTAMP.
    """
    if (column := time_column(node)) is not None:
        return Group(column, ConsecutiveTime(TimeUnit.DAY)) if is_date else None
    is_call = type(node) is exp.Anonymous and str(node.this).upper() in (*TRUNCATIONS, "DATE")
    group = _group(node) if is_call or is_time_cast(node) else None
    if is_date and group is not None and group.bin == ConsecutiveTime(TimeUnit.HOUR):
        return Group(group.column, ConsecutiveTime(TimeUnit.DAY))
    return group


def _width(node: exp.Expr) -> Group | None:
    """Return the group key "column x in ranges of width w" if the product `node` is FLOOR(x / w) * w with a column x.

    The width w must be the same constant number in both places. Returns None for any other product.
    """
    bins = binned_value(node)
    if bins is None or type(bins[0]) is not exp.Column:
        return None
    return Group(column_name(bins[0], "FLOOR"), Width(bins[1]))


def binned_value(node: exp.Expr) -> tuple[exp.Expr, Fraction] | None:
    """Return (x, w) if `node` is FLOOR(x / w) * w with an expression x and a constant number w; None if it is not."""
    if type(node) is not exp.Mul:
        return None
    check_parts(node, "this", "expression")
    sides = [node.this.unnest(), node.args["expression"].unnest()]
    floors = [side for side in sides if type(side) is exp.Floor]
    others = [side for side in sides if type(side) is exp.Literal]
    if len(floors) != 1 or len(others) != 1 or type(floors[0].this.unnest()) is not exp.Div:
        return None
    check_parts(floors[0], "this")
    divided = floors[0].this.unnest()
    check_parts(divided, "this", "expression", "typed", "safe")
    value, divisor = divided.this.unnest(), divided.args["expression"].unnest()
    if type(divisor) is not exp.Literal:
        return None
    width, again = (number_of(each, "the width of bins") for each in (divisor, others[0]))
    return (value, Fraction(str(width))) if width == again else None


def _period(node: exp.Expr) -> Group | None:
    """Return the group key for `node`, a call such as DATE_TRUNC(x, MONTH): the column x, grouped by periods of time.

    Returns None if x is not a column. Also returns None for weeks that begin on another day than Monday, because the
    query language has no such groups; the caller computes their starts from each row instead.
    Raises: `InvalidParameter` for an unknown unit.
    """
    check_parts(node, "this", "expressions")
    function = str(node.this).upper()
    column, unit = truncation_parts(function, node.expressions)
    name = time_column(column)
    if unit == "WEEK" or unit in WEEK_STARTS or name is None:
        return None
    if unit not in _UNITS:
        raise unsupported(f"the unit {unit}", f"write one of {', '.join(_UNITS)}")
    return Group(name, ConsecutiveTime(_UNITS[unit]))


def _part(node: exp.Expr) -> Group | None:
    """Return the group key for `node`, such as EXTRACT(MONTH FROM x): the column x grouped by a recurring part of time.

    For MONTH, the keys are 1 to 12. Returns None if x is not a column, or if the query language cannot group by the
    part.
    """
    check_parts(node, "this", "expression")
    unit = node.this.name.upper()
    column = time_column(node.args["expression"])
    return Group(column, RecurringTime(_UNITS[unit])) if unit in _UNITS and column is not None else None
