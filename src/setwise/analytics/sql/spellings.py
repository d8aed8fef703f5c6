"""Rewriting of constructs of other SQL dialects into equal forms that the other modules of this package read.

The rewriting happens right after the text is parsed, before anything is decided about privacy. So a construct is
refused whenever its rewritten form is refused.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from fractions import Fraction

from sqlglot import exp

from setwise.analytics.sql.aggregates import has_aggregate
from setwise.analytics.sql.clauses import conjunction, own_nodes, set_where
from setwise.analytics.sql.condition_spellings import plain_condition, search_cases, with_letter_cases
from setwise.analytics.sql.syntax import COMPARISONS, short_text

_LARGEST_POWER = 6
"""The largest exponent of POWER(x, n) over a row, which becomes a product of n factors."""

_UNIT_SECONDS = {"s": 1, "second": 1, "m": 60, "minute": 60, "h": 3600, "hour": 3600, "d": 86_400, "day": 86_400}
_TRUNCATED = {3600: "hour", 86_400: "day"}
_CALENDAR = ("week", "month", "quarter", "year")
_WEEK = 7 * 86_400
_BUCKET_START = 946_857_600
"""2000-01-03 in seconds since 1970, a Monday, at which a bin of TIME_BUCKET begins in DuckDB and TimescaleDB."""
_WIDTH = re.compile(r"(\d+)(?:\.0+)?\s*([A-Za-z]+?)s?")


def rewrite_spellings(tree: exp.Expr) -> exp.Expr:
    """Return the syntax tree `tree` with constructs of other SQL dialects replaced by equal ones that can be converted.

    For example, x // 2 becomes SIGN(x / 2) * FLOOR(ABS(x / 2)). The tree is changed in place where possible. A result
    column without an alias keeps the name that it would have without rewriting.
    """
    search_cases(tree)
    for select in list(tree.find_all(exp.Select)):
        _join_by_where(select)
        _turn_right_join(select)
        _order_by_all(select)
        _first_of_groups(select)
        for column in list(select.expressions):
            written = column.copy()
            changed = _rewritten(column)
            if changed != written and type(changed) is not exp.Alias:
                changed = exp.alias_(changed, short_text(written), quoted=True)
            column.replace(changed)
    return _rewritten(tree)


def _rewritten(node: exp.Expr) -> exp.Expr:
    return node.transform(_plain_form, copy=False)


def _plain_form(node: exp.Expr) -> exp.Expr:
    """Return an equal form of the syntax node `node` that can be converted; `node` itself if it needs no rewriting."""
    match node:
        case exp.Window() if _name(node.this) == "RATIO_TO_REPORT" and len(node.this.expressions) == 1:
            return _ratio_to_report(node)
        case exp.Anonymous() if _name(node) == "COUNT_BIG":
            return exp.Anonymous(this="COUNT", expressions=node.expressions)
        case exp.Anonymous() if _name(node) in _CALLS:
            return _CALLS[_name(node)](node)
        case exp.IntDiv() if not has_aggregate(node):
            return _whole_quotient(node.this, node.args["expression"])
        case exp.Add() | exp.Mul():
            return _bins(node)
        case _ if type(node) in COMPARISONS:
            return with_letter_cases(plain_condition(_compared_times(node)))
        case _:
            return with_letter_cases(plain_condition(node))


def _name(node: exp.Expr) -> str:
    return str(node.this).upper() if isinstance(node, exp.Anonymous) else ""


def _integer(node: exp.Expr) -> int | None:
    """Return the whole number that the constant `node` states, such as 250 for 250.0; None for any other node."""
    inner = node.unnest()
    if type(inner) is exp.Neg:
        number = _integer(inner.this)
        return None if number is None else -number
    if type(inner) is not exp.Literal or inner.is_string or re.fullmatch(r"\d{1,15}(\.0*)?", str(inner.this)) is None:
        return None
    return int(str(inner.this).partition(".")[0])


def _positive_number(node: exp.Expr) -> Fraction | None:
    """Return the number above 0 that the constant `node` states, such as 12.5; None for any other node."""
    inner = node.unnest()
    if type(inner) is not exp.Literal or inner.is_string or not re.fullmatch(r"\d{1,15}(\.\d{0,15})?", str(inner.this)):
        return None
    return Fraction(str(inner.this)) or None


def _integer_node(number: int) -> exp.Expr:
    literal = exp.Literal.number(abs(number))
    return exp.Neg(this=literal) if number < 0 else literal


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=[each.copy() for each in arguments])


def _binary(kind: type[exp.Expr], left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.paren(kind(this=exp.paren(left.copy()), expression=exp.paren(right.copy())), copy=False)


def _ratio_to_report(node: exp.Expr) -> exp.Expr:
    """Return x / NULLIF(SUM(x) OVER (..), 0), which equals `node`, the window function RATIO_TO_REPORT(x) OVER (..)."""
    (value,) = node.this.expressions
    total = node.copy()
    total.set("this", _call("SUM", value))
    return _binary(exp.Div, value, _call("NULLIF", total, exp.Literal.number(0)))


def _power(node: exp.Expr) -> exp.Expr:
    """Return the product x * x * .. of n factors if `node` is POWER(x, n) over the columns of a row.

    n must be a constant whole number from 1 to `_LARGEST_POWER`. Other calls, and POWER of an aggregate, are returned
    unchanged.
    """
    if len(node.expressions) != 2 or has_aggregate(node):
        return node
    base, exponent = node.expressions
    number = _integer(exponent)
    if number is None or not 1 <= number <= _LARGEST_POWER:
        return node
    product: exp.Expr = exp.paren(base.copy())
    for _ in range(number - 1):
        product = _binary(exp.Mul, product, base)
    return product


def _whole_quotient(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    """Return a syntax node for `left` / `right` rounded towards 0, as DIV and // compute it: -7 // 2 is -3."""
    quotient = _binary(exp.Div, left, right)
    return _binary(exp.Mul, _call("SIGN", quotient), exp.Floor(this=_call("ABS", quotient)))


def _div(node: exp.Expr) -> exp.Expr:
    return node if len(node.expressions) != 2 or has_aggregate(node) else _whole_quotient(*node.expressions)


def _width_bucket(node: exp.Expr) -> exp.Expr:
    """Return a CASE expression that equals `node`, WIDTH_BUCKET(x, low, high, n), the number of the bucket of x.

    The number is 0 for x below low, n + 1 for x at or above high, and 1 to n in between. A call with other arguments,
    or whose n is not a constant, is returned unchanged.
    """
    if len(node.expressions) != 4:
        return node
    value, low, high, count = node.expressions
    buckets = _integer(count)
    if buckets is None or buckets < 1:
        return node
    share = _binary(exp.Div, _binary(exp.Mul, _binary(exp.Sub, value, low), count), _binary(exp.Sub, high, low))
    place = exp.Add(this=exp.Floor(this=share), expression=exp.Literal.number(1))
    below = exp.If(this=exp.LT(this=value.copy(), expression=low.copy()), true=exp.Literal.number(0))
    above = exp.If(this=exp.GTE(this=value.copy(), expression=high.copy()), true=exp.Literal.number(buckets + 1))
    within = exp.If(this=exp.LT(this=value.copy(), expression=high.copy()), true=place)
    return exp.Case(ifs=[below, above, within])


def _time_bucket(node: exp.Expr) -> exp.Expr:
    """Return a supported expression that equals `node`, a call such as TIME_BUCKET(width, x).

    The value of such a call is the start of the period that contains the time x, where all periods are `width` long.
    DATE_BIN(width, x, start), TIMESTAMP_BUCKET and TIME_SLICE are rewritten, too. If each period is an hour, day, week,
    month, quarter or year of the calendar, the call becomes DATE_TRUNC. If `width` is another number of seconds, it
    becomes a calculation with seconds since 1970. Other calls are returned unchanged.
    """
    name, arguments = _name(node), list(node.expressions)
    start = _BUCKET_START
    if name == "TIME_SLICE" and len(arguments) == 3:
        value, width, start = arguments[0], f"{arguments[1].name} {arguments[2].name}", 0
    elif name == "DATE_BIN" and len(arguments) == 3:
        width, value = _width_text(arguments[0]), arguments[1]
        first_start = _seconds(arguments[2])
        if first_start is None:
            return node
        start = first_start
    elif name in ("TIME_BUCKET", "TIMESTAMP_BUCKET") and len(arguments) == 2:
        value, bin_width = arguments if name == "TIMESTAMP_BUCKET" else reversed(arguments)
        width = _width_text(bin_width)
    else:
        return node
    width_parts = _WIDTH.fullmatch(width.strip().lower())
    if width_parts is None:
        return node
    number, unit = int(width_parts[1]), width_parts[2]
    months = {("1", "month"): "month", ("3", "month"): "quarter", ("12", "month"): "year"}.get((width_parts[1], unit))
    if name != "DATE_BIN" and (months or (number == 1 and unit in _CALENDAR)):
        return _call("DATE_TRUNC", exp.Literal.string(months or unit), value)
    seconds = number * {**_UNIT_SECONDS, "w": _WEEK, "week": _WEEK}.get(unit, 0)
    if seconds in _TRUNCATED and start % seconds == 0:
        return _call("DATE_TRUNC", exp.Literal.string(_TRUNCATED[seconds]), value)
    return node if seconds == 0 else _call("TO_TIMESTAMP", _bin_of_seconds(value, seconds, start % seconds))


def _bin_of_seconds(value: exp.Expr, width: int, start: int) -> exp.Expr:
    """Return a SQL expression for the start, in seconds since 1970, of the period that contains the time `value`.

    `value` is a syntax node. All periods are `width` seconds long, and one of them begins `start` seconds after the
    beginning of 1970.
    """
    epoch: exp.Expr = exp.Extract(this=exp.var("EPOCH"), expression=value.copy())
    if start == 0:
        return exp.Mul(
            this=exp.Floor(this=exp.Div(this=epoch, expression=_integer_node(width))), expression=_integer_node(width)
        )
    moved = exp.Div(
        this=exp.paren(exp.Sub(this=epoch, expression=_integer_node(start))), expression=_integer_node(width)
    )
    rounded = exp.Mul(this=exp.Floor(this=moved), expression=_integer_node(width))
    return exp.Add(this=exp.paren(rounded), expression=_integer_node(start))


def _width_text(node: exp.Expr) -> str:
    """Return the length of a period that the syntax node `node` states, as text: "6 HOUR" for INTERVAL 6 HOUR.

    A text constant, as in CAST('6 hours' AS INTERVAL), is returned as it is written.
    """
    if isinstance(node, exp.Cast):
        return _width_text(node.this)
    text = node.this.name if isinstance(node, exp.Interval) and node.this is not None else node.name
    unit = node.args.get("unit") if isinstance(node, exp.Interval) else None
    return text if unit is None else f"{text} {unit.name}"


def _seconds(node: exp.Expr) -> int | None:
    """Return the seconds since 1970, in UTC, of the date or time that `node` states as text; None for other nodes."""
    written = node.this if isinstance(node, exp.Cast) else node
    if type(written) is not exp.Literal or not written.is_string:
        return None
    try:
        moment = datetime.fromisoformat(str(written.this))
    except ValueError:
        return None
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())


def _months_since_zero(node: exp.Expr) -> exp.Expr:
    """Return DATE_TRUNC('u', x) if `node` is DATEADD(u, DATEDIFF(u, 0, x), 0) with a unit u of time, such as month.

    Statements for SQL Server write the start of the month of a date x in this way. Every other call of DATEADD is
    returned unchanged.
    """
    if len(node.expressions) != 3 or _name(node.expressions[1]) != "DATEDIFF":
        return node
    unit, difference, zero = node.expressions
    inner = difference.expressions
    if len(inner) != 3 or _integer(zero) != 0 or _integer(inner[1]) != 0 or inner[0].name.lower() != unit.name.lower():
        return node
    return _call("DATE_TRUNC", exp.Literal.string(unit.name.lower()), inner[2])


def _null_call(node: exp.Expr) -> exp.Expr:
    """Return the plain form of the call `node` of a function about nulls or about division by zero.

    ZEROIFNULL(x) is COALESCE(x, 0), for example. A call with another number of arguments is returned unchanged.
    """
    arguments = [argument.copy() for argument in node.expressions]
    match _name(node), arguments:
        case "ZEROIFNULL", [value]:
            return _call("COALESCE", value, _integer_node(0))
        case "NULLIFZERO", [value]:
            return _call("NULLIF", value, _integer_node(0))
        case "ISNULL", [value, default]:
            return _call("COALESCE", value, default)
        case "NVL2", [value, filled, empty]:
            is_null = exp.Is(this=value, expression=exp.Null())
            return exp.Case(ifs=[exp.If(this=is_null, true=empty)], default=filled)
        case "TRY_DIVIDE", [dividend, divisor]:
            return _call("SAFE_DIVIDE", dividend, divisor)
        case "DIV0", [dividend, divisor]:
            is_zero = exp.EQ(this=divisor.copy(), expression=_integer_node(0))
            return exp.Case(
                ifs=[exp.If(this=is_zero, true=_integer_node(0))], default=_call("SAFE_DIVIDE", dividend, divisor)
            )
    return node


_CALLS: dict[str, Callable[[exp.Expr], exp.Expr]] = {
    "POWER": _power,
    "POW": _power,
    "DIV": _div,
    "WIDTH_BUCKET": _width_bucket,
    "TIME_BUCKET": _time_bucket,
    "TIMESTAMP_BUCKET": _time_bucket,
    "TIME_SLICE": _time_bucket,
    "DATE_BIN": _time_bucket,
    "DATEADD": _months_since_zero,
    **dict.fromkeys(("ZEROIFNULL", "NULLIFZERO", "ISNULL", "NVL2", "TRY_DIVIDE", "DIV0"), _null_call),
}
"""The functions of other dialects, each with the rewriting of its calls."""


def _bins(node: exp.Expr) -> exp.Expr:
    """Return FLOOR((x - s) / w) * w + s for `node`, a sum or product by which a BI tool puts x into ranges of width w.

    The constant s is where one of the ranges begins; FLOOR(x / w) * w is returned if s is 0. An example is
    (CAST(FLOOR((x - 0.0) / 250.0) AS INTEGER) * 250.0) + 0.0, as Metabase writes, which becomes FLOOR(x / 250) * 250.
    Other sums and products are returned unchanged.
    """
    product, start = (node.this.unnest(), _integer(node.args["expression"])) if type(node) is exp.Add else (node, 0)
    if start is None or type(product) is not exp.Mul or isinstance(node.parent, exp.Add):
        return node
    floor = product.this.unnest()
    if isinstance(floor, exp.Cast) and floor.args["to"].this in (exp.DType.INT, exp.DType.BIGINT):
        floor = floor.this.unnest()
    width = _positive_number(product.args["expression"])
    divided = floor.this.unnest() if type(floor) is exp.Floor else None
    if width is None or type(divided) is not exp.Div or _positive_number(divided.args["expression"]) != width:
        return node
    if width.denominator != 1 and start != 0:
        return node
    value = divided.this.unnest()
    if type(value) is exp.Sub and _integer(value.args["expression"]) == start:
        value = value.this.unnest()
    elif start != 0:
        return node
    if start != 0:
        value = _binary(exp.Sub, value, _integer_node(start))
    written = _integer_node(int(width)) if width.denominator == 1 else product.args["expression"].unnest()
    floored = exp.Floor(this=exp.Div(this=value.copy(), expression=written.copy()))
    binned = exp.Mul(this=floored, expression=written.copy())
    return binned if start == 0 else exp.Add(this=exp.paren(binned), expression=_integer_node(start))


def _compared_times(node: exp.Expr) -> exp.Expr:
    """Return a > b + INTERVAL .. if the comparison `node` is a - b > INTERVAL .., with times a and b.

    Engines compare times here, but not intervals. Other comparison operators, and a difference on the right-hand side,
    are rewritten in the same way. Any other comparison is returned unchanged.
    """
    left, right = node.this.unnest(), node.args["expression"].unnest()
    if type(left) is exp.Sub and type(right) is exp.Interval:
        later = exp.Add(this=left.args["expression"].copy(), expression=right.copy())
        return type(node)(this=left.this.copy(), expression=later)
    if type(right) is exp.Sub and type(left) is exp.Interval:
        later = exp.Add(this=right.args["expression"].copy(), expression=left.copy())
        return type(node)(this=later, expression=right.this.copy())
    return node


def _turn_right_join(select: exp.Expr) -> None:
    """Change FROM a RIGHT JOIN b in `select` to FROM b LEFT JOIN a, in place, if it is the only join.

    Nothing changes if the SELECT has a *, whose columns would change their order.
    """
    source, joins = select.args.get("from_"), select.args.get("joins") or []
    if source is None or len(joins) != 1 or str(joins[0].args.get("side") or "").upper() != "RIGHT":
        return
    if any(each.find(exp.Star) and not each.find(exp.Anonymous) for each in select.expressions):
        return
    first, second = source.this, joins[0].this
    source.set("this", second)
    joins[0].set("this", first)
    joins[0].set("side", "LEFT")


def _order_by_all(select: exp.Expr) -> None:
    """Replace ORDER BY ALL in `select`, in place, by the positions 1, 2, .. of all result columns."""
    order = select.args.get("order")
    if order is None or len(order.expressions) != 1:
        return
    (term,) = order.expressions
    column = term.this
    if type(column) is not exp.Column or column.name.upper() != "ALL" or column.table or column.this.quoted:
        return
    terms = []
    for place in range(1, len(select.expressions) + 1):
        numbered = term.copy()
        numbered.set("this", exp.Literal.number(place))
        terms.append(numbered)
    order.set("expressions", terms)


def _first_of_groups(select: exp.Expr) -> None:
    """Replace DISTINCT ON in `select`, in place, by a QUALIFY ROW_NUMBER() .. = 1 that chooses the same rows.

    Only a SELECT with GROUP BY is changed, in which DISTINCT ON chooses among groups. Without GROUP BY it chooses among
    private rows. That is allowed only among the rows of each user, as with DISTINCT ON (user, ..), which
    `rewrite_user_sets` replaces.
    """
    if select.args.get("group") is not None:
        _replace_distinct_on(select)


def _distinct_on_keys(select: exp.Expr) -> list[exp.Expr]:
    """Return the columns of DISTINCT ON in `select`; [] if it has no DISTINCT ON."""
    distinct = select.args.get("distinct")
    keys = distinct.args.get("on") if isinstance(distinct, exp.Distinct) else None
    if keys is None:
        return []
    return list(keys.expressions) if isinstance(keys, exp.Tuple) else [keys.unnest()]


def _replace_distinct_on(select: exp.Expr) -> None:
    """Replace DISTINCT ON in `select`, if it has one and no QUALIFY, by a QUALIFY that chooses the same rows, in place.

    SELECT DISTINCT ON (a) .. ORDER BY a, n DESC becomes QUALIFY ROW_NUMBER() OVER (PARTITION BY a ORDER BY a, n DESC)
    = 1.
    """
    keys = _distinct_on_keys(select)
    if not keys or select.args.get("qualify") is not None:
        return
    order = select.args.get("order")
    terms = [] if order is None else [term.copy() for term in order.expressions]
    for term in terms:
        place = _integer(term.this)
        if place is not None and 1 <= place <= len(select.expressions):
            term.set("this", select.expressions[place - 1].unalias().copy())
    number = exp.Window(
        this=_call("ROW_NUMBER"),
        partition_by=[key.copy() for key in keys],
        order=exp.Order(expressions=terms) if terms else None,
    )
    select.set("distinct", None)
    select.set("qualify", exp.Qualify(this=exp.EQ(this=number, expression=_integer_node(1))))


def rewrite_user_sets(tree: exp.Expr, user: str) -> exp.Expr:
    """Return the statement `tree` with a single SELECT in place of each set operation that conditions can express.

    - INTERSECT of two lists of users becomes SELECT DISTINCT user FROM a WHERE user IN (SELECT user FROM b).
    - EXCEPT of two lists of users becomes the same with NOT IN.
    - UNION of two SELECTs that differ only in WHERE becomes one SELECT DISTINCT with the two conditions joined by OR.

    In subqueries, DISTINCT ON (user, ..) becomes QUALIFY ROW_NUMBER() OVER (PARTITION BY user, ..) = 1.

    `user` is the user column. Other set operations are left as they are.
    """
    for select in tree.find_all(exp.Select):
        names = {key.name.lower() for key in _distinct_on_keys(select) if type(key) is exp.Column}
        if select is not tree and user.lower() in names:
            _replace_distinct_on(select)
    return tree.transform(_user_set, user)


def _user_set(node: exp.Expr, user: str) -> exp.Expr:
    """Return the single SELECT that replaces the set operation `node`; any other node is returned unchanged.

    INTERSECT and EXCEPT of two lists of users become IN and NOT IN; UNION of two SELECTs that differ only in WHERE
    becomes an OR. Other set operations are returned unchanged. `user` is the user column.
    """
    if not isinstance(node, exp.SetOperation):
        return node
    sides = [_user_set(node.args[side].unnest(), user) for side in ("this", "expression")]
    left, right = sides
    clauses = ("order", "limit", "offset", "with_", "by_name")
    if not all(type(side) is exp.Select for side in sides) or any(node.args.get(clause) for clause in clauses):
        return node
    if not node.args.get("distinct") or any(side.args.get(clause) for side in sides for clause in clauses):
        return node
    chosen = left.copy()
    chosen.set("distinct", chosen.args.get("distinct") or exp.Distinct())
    where = [side.args["where"].this.copy() for side in sides if side.args.get("where") is not None]
    if type(node) is exp.Union:
        same = [{**side.args, "where": None, "distinct": None} for side in sides]
        if same[0] != same[1] or any(map(_depends_on_other_rows, sides)):
            return node
        chosen.set("where", exp.Where(this=exp.or_(*where)) if len(where) == 2 else None)
        return chosen
    if not all(len(side.expressions) == 1 and side.expressions[0].unalias().name == user for side in sides):
        return node
    column = chosen.expressions[0].unalias().copy()
    member: exp.Expr = exp.In(this=column, query=exp.Subquery(this=right.copy()))
    conditions = [*([] if left.args.get("where") is None else [left.args["where"].this.copy()]), member]
    if type(node) is exp.Except:
        conditions[-1] = exp.Not(this=member)
    set_where(chosen, conditions)
    return chosen


def _depends_on_other_rows(select: exp.Expr) -> bool:
    """Return whether a row of the result of `select` may be computed from several rows of its tables.

    A row may be computed from several rows if the SELECT has aggregates, GROUP BY or window functions. The UNION of two
    such SELECTs with the conditions a and b cannot be written as one SELECT with the condition a OR b, which would
    compute a row from the rows of both.
    """
    if any(select.args.get(clause) for clause in ("group", "having", "qualify")):
        return True
    has_window = any(isinstance(node, exp.Window) for node in own_nodes(select))
    return has_window or any(map(has_aggregate, select.expressions))


def _join_by_where(select: exp.Expr) -> None:
    """Change FROM a, b WHERE a.x = b.y in `select` to FROM a JOIN b ON a.x = b.y, in place.

    A table that no equality connects with a table before it remains a CROSS JOIN. Nothing changes if `select` has a
    join of another kind, or no WHERE.
    """
    source, where = select.args.get("from_"), select.args.get("where")
    joins = list(select.args.get("joins") or ())
    if source is None or where is None or not joins or not all(_is_cross(join) for join in joins):
        return
    parts = conjunction(where)
    placed = {source.this.alias_or_name.lower()}
    ordered: list[exp.Expr] = []
    while joins:
        for join in joins:
            alias = join.this.alias_or_name.lower()
            keys = [part for part in parts if _connects(part, alias, placed)]
            if keys:
                join.set("kind", None)
                join.set("on", exp.and_(*(key.unnest().copy() for key in keys), copy=False))
                parts = [part for part in parts if all(part is not key for key in keys)]
                break
        else:
            join = joins[0]
        placed.add(join.this.alias_or_name.lower())
        ordered.append(join)
        joins = [each for each in joins if each is not join]
    select.set("joins", ordered)
    set_where(select, parts)


def _is_cross(join: exp.Expr) -> bool:
    others = [name for name, value in join.args.items() if name not in ("this", "kind") and value]
    return not others and str(join.args.get("kind") or "").upper() in ("", "CROSS")


def _connects(node: exp.Expr, alias: str, placed: set[str]) -> bool:
    """Return whether `node` is an equality of a column of the table `alias` with a column of a table in `placed`.

    `placed` are the aliases, in lower case, of the tables that stand before this table in the chain of joins.
    """
    equal = node.unnest()
    if type(equal) is not exp.EQ:
        return False
    sides = [equal.this.unnest(), equal.args["expression"].unnest()]
    if not all(type(side) is exp.Column and side.table for side in sides):
        return False
    tables = [side.table.lower() for side in sides]
    return alias in tables and any(table in placed for table in tables if table != alias)
