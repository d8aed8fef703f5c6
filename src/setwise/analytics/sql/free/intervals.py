"""SQL for the confidence intervals of values that other SQL computes from released (noisy) statistics.

For a value such as s0 / s1, where s0 and s1 are released, this module writes further SQL expressions: for the lower and
the upper end of the value's interval, computed from the ends of the intervals of s0 and s1, and for a condition that is
true if noise may dominate the value. Their columns are hidden: the result shows them as intervals and notes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from setwise.analytics.sql.aggregates import has_aggregate

_LARGEST_OPERANDS = 600
"""The most syntax nodes in the ends of two intervals that are multiplied or divided; a larger product has no interval.

The ends of a product have six times as many nodes as those of its factors, because each end is the least or greatest of
four products. Without a limit the SQL of a product of six counts would have 700,000 characters.
"""


@dataclass(frozen=True, slots=True)
class HiddenColumns:
    """Where a SELECT over noisy results finds how precise a noisy column c is: hidden columns, and their table.

    Hidden columns are computed with the result, but the result does not show them.

    - `lower` and `upper` name the columns with the ends of the confidence interval of c; both are None if there is
      none.
    - `unreliable` names the column that is true in rows where noise may dominate c.
    - `sources` is the number of released statistics from which c is computed. The more there are, the less sure it is
      that all their intervals hold.
    - `table` is the table in the SELECT's FROM that has these columns; None if FROM has only one table.
    """

    lower: str | None
    upper: str | None
    unreliable: str
    sources: int = 1
    table: str | None = None

    def column(self, name: str) -> exp.Column:
        """Return a syntax node for the hidden column `name`, with its table before it if FROM has several tables.

        A hidden column, which the result does not show, has an end of a confidence interval, for example.
        """
        return exp.column(name, table=self.table, quoted=True)


ColumnEnds: TypeAlias = Callable[[exp.Column], HiddenColumns | None]
"""A function from a column to its hidden columns; None if the column depends on no statistic."""


def statistics_in(node: exp.Expr, ends_of: ColumnEnds) -> list[HiddenColumns]:
    """Return the hidden columns of each distinct statistic in `node`, an expression over released (noisy) rows.

    Hidden columns, which the result does not show, have the ends of a statistic's confidence interval and say whether
    noise may dominate it. `ends_of` maps a column to its hidden columns, or to None if it depends on no statistic.
    """
    columns = [column for column in _outside_subqueries(node) if type(column) is exp.Column]
    return list(dict.fromkeys(hidden for column in columns if (hidden := ends_of(column)) is not None))


def count_sources(node: exp.Expr, ends_of: ColumnEnds) -> int:
    """Return how many released statistics `node`, an expression over released (noisy) rows, is computed from.

    The result is 2 for s0 / s1, for example. The interval of `node` contains the exact value if the confidence
    intervals of all these statistics contain theirs. This is less likely the more statistics there are, so a note on
    the result says how likely it is. Statistics that scalar subqueries read are included. `ends_of` maps a column to
    its `HiddenColumns`, the columns with the ends of its interval, or to None if the column depends on no statistic.
    """
    inner = [count_sources(select.expressions[0], statistic_ends) for select in _scalar_selects(node) or ()]
    return sum(statistic.sources for statistic in statistics_in(node, ends_of)) + sum(inner)


def statistic_ends(column: exp.Column) -> HiddenColumns | None:
    """Return the hidden columns of `column`, a column of released (noisy) rows; None if it is not a statistic.

    Statistics are called s0, s1, .. The hidden columns of s0 are s0_lower and s0_upper, the ends of its confidence
    interval, and s0_unreliable, which is true where noise may dominate the value.
    """
    name = column.name
    if not (name.startswith("s") and name[1:].isdecimal()):
        return None
    return HiddenColumns(f"{name}_lower", f"{name}_upper", f"{name}_unreliable")


_RELEASED = "released"
"""The key in `meta` that marks a table of released rows; its name does not, as a public table may be called core_1."""


def released_table(name: str) -> exp.Table:
    """Return the node of a table of released (noisy) rows called `name`, for a FROM clause."""
    table = exp.to_table(name)
    table.meta[_RELEASED] = True
    return table


def is_released(node: exp.Expr | None) -> bool:
    """Return whether `node`, an entry of FROM, is a table of released (noisy) rows, as `released_table` makes them."""
    return isinstance(node, exp.Table) and bool(node.meta.get(_RELEASED))


def _outside_subqueries(node: exp.Expr) -> Iterator[exp.Expr]:
    """Yield `node` and the syntax nodes below it, except those inside subqueries; subqueries themselves are yielded."""
    yield node
    if not isinstance(node, exp.Subquery | exp.Select):
        for child in node.iter_expressions():
            yield from _outside_subqueries(child)


def _scalar_select(node: exp.Expr) -> exp.Expr | None:
    """Return the SELECT of `node` if it is a scalar subquery such as (SELECT s0 FROM core_1); None for other nodes.

    The SELECT has one column, reads one table of released (noisy) rows, and has no clause but FROM.
    """
    inner = node.this if isinstance(node, exp.Subquery) else node
    if not isinstance(inner, exp.Select) or len(inner.expressions) != 1:
        return None
    clauses = {name for name, value in inner.args.items() if value} - {"expressions", "from_"}
    table = inner.args["from_"].this if inner.args.get("from_") else None
    return inner if not clauses and is_released(table) else None


def _scalar_selects(node: exp.Expr) -> list[exp.Expr] | None:
    """Return the SELECTs of the scalar subqueries in `node`; None if a subquery does more than read one statistic.

    `node` is an expression over released (noisy) rows, and a statistic is one of their columns. The list is empty if
    there are no subqueries.
    """
    subqueries = [each for each in _outside_subqueries(node) if isinstance(each, exp.Subquery | exp.Select)]
    selects = [select for each in subqueries if (select := _scalar_select(each)) is not None]
    return selects if len(selects) == len(subqueries) else None


def _scalar(select: exp.Expr, value: exp.Expr) -> exp.Expr:
    """Return a copy of the SELECT `select` as a scalar subquery, in which `value` replaces the only column."""
    scalar = select.copy()
    scalar.set("expressions", [value])
    return exp.Subquery(this=scalar)


def unreliable_condition(node: exp.Expr, ends_of: ColumnEnds) -> exp.Expr | None:
    """Return a condition, as a syntax node, that is true in rows where noise may dominate the value of `node`.

    `ends_of` maps a column to its hidden columns (the ends of its confidence interval, and whether noise may dominate
    it). The result is None if `node` depends on no statistic. It is also None if `node` has an aggregate, a window
    function, or a subquery that does more than read one number: such a value comes from several rows, while the
    condition is tested on one row.
    """
    scalars = _scalar_selects(node)
    if has_aggregate(node) or node.find(exp.Window) is not None or scalars is None:
        return None
    # Noise may dominate if a statistic in the value is unreliable, or if a quotient has a divisor whose interval
    # contains 0 or an interval at least twice as wide as the quotient is large.
    flags: list[exp.Expr] = [hidden.column(hidden.unreliable) for hidden in statistics_in(node, ends_of)]
    for select in scalars:
        flag = unreliable_condition(select.expressions[0].unalias(), statistic_ends)
        flags += [] if flag is None else [_scalar(select, flag)]
    if not flags:
        return None
    for quotient in [each for each in _outside_subqueries(node) if isinstance(each, exp.Div)]:
        divisor = _ends_or_constant(quotient.args["expression"], ends_of)
        if divisor is None or constant_number(quotient.args["expression"].unnest()) is not None:
            continue
        flags.append(exp.not_(_without_zero(divisor)))
        ends = interval_ends(quotient, ends_of)
        if ends is not None:
            width = exp.Sub(this=exp.paren(ends[1]), expression=exp.paren(ends[0]))
            size = exp.Anonymous(this="ABS", expressions=[quotient.copy()])
            flags.append(
                exp.GTE(this=exp.paren(width), expression=exp.Mul(this=exp.Literal.number(2), expression=size))
            )
    known = [exp.Coalesce(this=exp.paren(flag), expressions=[exp.false()]) for flag in flags]
    return exp.or_(*known)


_INCREASING = ("ROUND", "FLOOR", "CEIL", "CEILING")


def interval_ends(node: exp.Expr, ends_of: ColumnEnds) -> tuple[exp.Expr, exp.Expr] | None:
    """Return syntax nodes for the lower and upper end of a confidence interval for `node`; None if there is none.

    `node` is an expression over released (noisy) rows. Its interval is computed from the intervals of the statistics in
    `node`. `ends_of` maps a column to the hidden columns with the ends of its interval. In rows where the interval of a
    divisor contains 0, both ends are null, because the quotient could be any number.
    """
    match node:
        case exp.Paren():
            return interval_ends(node.this, ends_of)
        case exp.Subquery() | exp.Select():
            select = _scalar_select(node)
            ends = None if select is None else interval_ends(select.expressions[0].unalias(), statistic_ends)
            return None if select is None or ends is None else (_scalar(select, ends[0]), _scalar(select, ends[1]))
        case exp.Column():
            hidden = ends_of(node)
            if hidden is None or hidden.lower is None or hidden.upper is None:
                return None
            return hidden.column(hidden.lower), hidden.column(hidden.upper)
        case exp.Anonymous() if str(node.this).upper() in _INCREASING and node.expressions:
            first, *more = node.expressions
            return _apply_to_ends(
                first, ends_of, lambda end: exp.Anonymous(this=node.this, expressions=[end, *_copies(more)])
            )
        case exp.Anonymous() if _divisor_of_nullif(node) is not None or _is_default(node):
            return interval_ends(node.expressions[0].unnest(), ends_of)
        case exp.Floor() | exp.Ceil():
            return _apply_to_ends(node.this, ends_of, lambda end: type(node)(this=end))
        case exp.TryCast() if node.args["to"].this in _NUMBERS:
            return _apply_to_ends(node.this, ends_of, lambda end: exp.TryCast(this=end, to=node.args["to"].copy()))
        case exp.Neg():
            return _swap_ends(_apply_to_ends(node.this, ends_of, lambda end: exp.Neg(this=exp.Paren(this=end))))
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            return _with_constant(node, ends_of) or _of_two_intervals(node, ends_of)
        case _:
            return None


_NUMBERS = (exp.DType.BIGINT, exp.DType.INT, exp.DType.DOUBLE, exp.DType.FLOAT, exp.DType.DECIMAL)


def _divisor_of_nullif(node: exp.Expr) -> exp.Expr | None:
    """Return x if `node` is NULLIF(x, 0), as statements write a divisor that may be 0; None for anything else."""
    if not (isinstance(node, exp.Anonymous) and str(node.this).upper() == "NULLIF" and len(node.expressions) == 2):
        return None
    return node.expressions[0] if constant_number(node.expressions[1].unnest()) == 0 else None


def _is_default(node: exp.Expr) -> bool:
    """Return whether the call `node` is COALESCE(x, c), IFNULL(x, c) or NVL(x, c) with a constant number c.

    Such a call gets the confidence interval of x. In rows where x is null, the result shows c without an interval.
    """
    is_call = str(node.this).upper() in ("COALESCE", "IFNULL", "NVL") and len(node.expressions) == 2
    return is_call and constant_number(node.expressions[1].unnest()) is not None


def _with_constant(node: exp.Expr, ends_of: ColumnEnds) -> tuple[exp.Expr, exp.Expr] | None:
    left, right = node.this.unnest(), node.args["expression"].unnest()
    value = constant_number(right)
    if value is not None:
        ends = _apply_to_ends(left, ends_of, lambda end: type(node)(this=exp.Paren(this=end), expression=right.copy()))
        if isinstance(node, exp.Add | exp.Sub):
            return ends
        return None if value == 0 else ends if value > 0 else _swap_ends(ends)
    value = constant_number(left)
    if value is None or isinstance(node, exp.Div):
        return None
    ends = _apply_to_ends(right, ends_of, lambda end: type(node)(this=left.copy(), expression=exp.Paren(this=end)))
    if isinstance(node, exp.Add):
        return ends
    if isinstance(node, exp.Sub):
        return _swap_ends(ends)
    return None if value == 0 else ends if value > 0 else _swap_ends(ends)


Ends: TypeAlias = tuple[exp.Expr, exp.Expr]
"""Syntax nodes for the lower and the upper end of an interval."""


def _ends_or_constant(node: exp.Expr, ends_of: ColumnEnds) -> Ends | None:
    """Return syntax nodes for the lower and upper end of a confidence interval for `node`; None if there is none.

    For a constant number both ends are the number. `ends_of` maps a column to the hidden columns with the ends of its
    interval.
    """
    inner = node.unnest()
    return (inner.copy(), inner.copy()) if constant_number(inner) is not None else interval_ends(inner, ends_of)


def _of_two_intervals(node: exp.Expr, ends_of: ColumnEnds) -> Ends | None:
    """Return syntax nodes for the ends of a confidence interval for `node`, the +, -, * or / of two numbers.

    `ends_of` maps a column to its hidden columns, which have the ends of its interval. Both ends are null in rows where
    the interval of the divisor contains 0. Returns None if one of the numbers has no interval and is no constant, or if
    the SQL would be too long.
    """
    first, second = (_ends_or_constant(side, ends_of) for side in (node.this, node.args["expression"]))
    if first is None or second is None:
        return None
    if isinstance(node, exp.Sub):
        second = second[1], second[0]
    if isinstance(node, exp.Add | exp.Sub):
        lower, upper = (
            type(node)(this=exp.Paren(this=one), expression=exp.Paren(this=other))
            for one, other in zip(first, second, strict=True)
        )
        return lower, upper
    if sum(1 for end in (*first, *second) for _ in end.walk()) > _LARGEST_OPERANDS:
        return None
    corners = [
        type(node)(this=exp.paren(one.copy()), expression=exp.paren(other.copy())) for one in first for other in second
    ]
    known: list[exp.Expr] = [
        exp.Is(this=exp.paren(end.copy()), expression=exp.null()).not_() for end in (*first, *second)
    ]
    if isinstance(node, exp.Div):
        known.append(_without_zero(second))
    ends = []
    for function in ("LEAST", "GREATEST"):
        value = exp.Anonymous(this=function, expressions=[corner.copy() for corner in corners])
        ends.append(exp.Case(ifs=[exp.If(this=exp.and_(*_copies(known)), true=value)]))
    return ends[0], ends[1]


def _without_zero(ends: Ends) -> exp.Expr:
    """Return a condition, as a syntax node, that is true if 0 lies outside the interval from `ends[0]` to `ends[1]`."""
    lower, upper = (exp.paren(end.copy()) for end in ends)
    zero = exp.Literal.number(0)
    return exp.paren(exp.or_(exp.GT(this=lower, expression=zero), exp.LT(this=upper, expression=zero.copy())))


def _apply_to_ends(
    node: exp.Expr, ends_of: ColumnEnds, apply: Callable[[exp.Expr], exp.Expr]
) -> tuple[exp.Expr, exp.Expr] | None:
    ends = interval_ends(node.unnest(), ends_of)
    return None if ends is None else (apply(ends[0]), apply(ends[1]))


def _swap_ends(ends: tuple[exp.Expr, exp.Expr] | None) -> tuple[exp.Expr, exp.Expr] | None:
    return None if ends is None else (ends[1], ends[0])


def _copies(nodes: list[exp.Expr]) -> list[exp.Expr]:
    return [each.copy() for each in nodes]


def constant_number(node: exp.Expr) -> float | None:
    """Return the number, with its sign, that `node` states as a constant; None for any other node."""
    if isinstance(node, exp.Neg):
        inner = constant_number(node.this.unnest())
        return None if inner is None else -inner
    return float(node.this) if type(node) is exp.Literal and not node.is_string else None
