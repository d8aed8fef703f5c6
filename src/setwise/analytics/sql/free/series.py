"""Series of dates and numbers, such as GENERATE_SERIES, written out as constant rows.

The part of a statement that runs over released (noisy) rows may read them. DuckDB would compute a series while it
plans, where neither its time nor its memory is limited. So the rows are computed here, and a long series is refused.
"""

from calendar import monthrange
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from typing import TypeAlias

from sqlglot import exp

from setwise.analytics.sql.syntax import unsupported
from setwise.analytics.sql.time_units import MONTHS_IN
from setwise.errors import InvalidParameter

MOST_STEPS = 10_000
"""The most rows of a series: 27 years of days."""

_INCLUSIVE = {"GENERATE_SERIES": True, "GENERATE_DATE_ARRAY": True, "GENERATE_ARRAY": True, "RANGE": False}
"""The functions that make a series, and whether the end belongs to it."""

_SECONDS = {"SECOND": 1, "MINUTE": 60, "HOUR": 3600, "DAY": 86_400, "WEEK": 604_800}

_Value: TypeAlias = int | date | datetime


def rewrite_series(tree: exp.Expr, today: date) -> exp.Expr:
    """Return the statement `tree` with calls such as GENERATE_SERIES(1, 3) replaced by lists of constant rows (VALUES).

    Only calls in FROM and in UNNEST are replaced. `today` is the value of CURRENT_DATE. The tree is changed in place.
    Raises: `InvalidParameter` for a series with more than `MOST_STEPS` rows, or with an end that is not constant.
    """
    for select in list(tree.find_all(exp.Select)):
        calls = [each for each in select.find_all(exp.Anonymous) if each.parent_select is select]
        unnested = [each for each in calls if _name(each) == "UNNEST" and len(each.expressions) == 1]
        series = [each for each in unnested if _name(each.expressions[0]) in _INCLUSIVE]
        if len(series) == 1 and select.args.get("from_") is None:
            rows = _rows(series[0].expressions[0], today)
            select.set("from_", exp.From(this=_table(rows, "series", "value")))
            series[0].replace(exp.column("value"))
    for node in [each for each in tree.walk() if isinstance(each, exp.Table | exp.Unnest)]:
        inner = node.this if isinstance(node, exp.Table) else (node.expressions or [None])[0]
        if _name(inner) in _INCLUSIVE and (isinstance(node, exp.Table) or len(node.expressions) == 1):
            names = [*node.alias_column_names, node.alias, str(inner.this).lower()]
            column = next(name for name in names if name)
            node.replace(_table(_rows(inner, today), node.alias or column, column))
    return tree


def is_constant_table(node: exp.Expr) -> bool:
    """Return whether `node`, an entry of FROM, is a list of constant rows: (VALUES (1, 'a'), (2, 'b')) AS t(x, y)."""
    values = node.this if isinstance(node, exp.Subquery) else None
    allowed = (
        exp.Tuple, exp.Literal, exp.Null, exp.Boolean, exp.Neg, exp.Cast, exp.DataType, exp.Paren, exp.TableAlias,
        exp.Identifier,
    )  # fmt: skip
    return isinstance(values, exp.Values) and all(
        isinstance(each, allowed) for row in values.expressions for each in row.walk()
    )


def _name(node: exp.Expr | None) -> str:
    return str(node.this).upper() if isinstance(node, exp.Anonymous) else ""


def _table(rows: list[_Value], alias: str, column: str) -> exp.Expr:
    """Return a node for FROM: the table `alias` of constant rows, one for each value in `rows`, in one `column`."""
    tuples = [exp.Tuple(expressions=[_constant(value)]) for value in rows]
    named = exp.TableAlias(this=exp.to_identifier(alias), columns=[exp.to_identifier(column)])
    return exp.Subquery(this=exp.Values(expressions=tuples), alias=named)


def _constant(value: _Value) -> exp.Expr:
    if isinstance(value, int):
        number = exp.Literal.number(abs(value))
        return exp.Neg(this=number) if value < 0 else number
    if isinstance(value, datetime):
        if value.time() != datetime.min.time():
            return exp.cast(exp.Literal.string(value.isoformat(sep=" ")), "TIMESTAMP")
        value = value.date()
    return exp.cast(exp.Literal.string(value.isoformat()), "DATE")


def _rows(call: exp.Expr, today: date) -> list[_Value]:
    """Return all values that `call`, such as GENERATE_SERIES(1, 3), lists; `today` is the value of CURRENT_DATE.

    Raises: `InvalidParameter` if an argument is not constant, or if there are more than `MOST_STEPS` values.
    """
    name, arguments = _name(call), call.expressions
    if not 2 <= len(arguments) <= 3:
        raise InvalidParameter(f"{name} takes a start, an end and a step, not {len(arguments)} values")
    start, end = (_end(each, name, today) for each in arguments[:2])
    if isinstance(start, int) and isinstance(end, int):
        step = 1 if len(arguments) == 2 else _end(arguments[2], name, today)
        if not isinstance(step, int) or step == 0:
            raise unsupported(f"{arguments[-1].sql()} as the step of {name}", "write a whole number")
        last = end + (1 if step > 0 else -1) if _INCLUSIVE[name] else end
        values: Iterator[_Value] = iter(range(start, last, step))
    elif isinstance(start, int) or isinstance(end, int):
        raise InvalidParameter(f"{name} goes from one date to another, or from one number to another")
    else:
        values = _times(start, end, _interval(arguments[2:], name), is_inclusive=_INCLUSIVE[name])
    rows = [value for value, _ in zip(values, range(MOST_STEPS + 1), strict=False)]
    if len(rows) > MOST_STEPS:
        raise InvalidParameter(f"{name} has more than {MOST_STEPS:,} values: make its step longer")
    return rows


def _end(node: exp.Expr, name: str, today: date) -> _Value:
    """Return the constant that `node`, an argument of a call such as GENERATE_SERIES(1, 3), states.

    `node` is the start or the end of the series, or the number from one value to the next (the step). `name` is the
    function's name, for the error message, and `today` is the value of CURRENT_DATE.
    Raises: `InvalidParameter` if `node` is not a constant.
    """
    inner = node.unnest()
    if isinstance(inner, exp.Cast):
        inner = inner.this.unnest()
    if isinstance(inner, exp.CurrentDate) or _name(inner) == "CURRENT_DATE":
        return today
    negative = isinstance(inner, exp.Neg)
    literal = inner.this if negative else inner
    if isinstance(literal, exp.Literal):
        try:
            number = datetime.fromisoformat(str(literal.this)) if literal.is_string else int(str(literal.this))
        except ValueError:
            pass
        else:
            return -number if negative and isinstance(number, int) else number
    raise unsupported(f"{node.sql()} in {name}", "write a constant date such as DATE '2026-01-01', or a whole number")


def _interval(arguments: list[exp.Expr], name: str) -> tuple[int, int]:
    """Return the step of a series of times as (months, seconds): a step in months has 0 seconds, any other 0 months.

    `arguments` are the arguments of the call after start and end: the SQL expression of the step, such as INTERVAL '1
    day', or nothing for a step of one day. `name` is the name of the SQL function, such as GENERATE_SERIES, for the
    error message.
    Raises: `InvalidParameter` for any other expression.
    """
    if not arguments:
        return 0, _SECONDS["DAY"]
    node = arguments[0].unnest()
    node = node.this if isinstance(node, exp.Cast) else node
    words = (
        f"{node.this.name} {node.args['unit'].name}"
        if isinstance(node, exp.Interval) and node.args.get("unit")
        else node.name
    )
    number, _, unit = words.strip().partition(" ")
    unit = unit.strip().upper().removesuffix("S")
    if number.isdecimal() and int(number) > 0 and (unit in MONTHS_IN or unit in _SECONDS):
        return int(number) * MONTHS_IN.get(unit, 0), int(number) * _SECONDS.get(unit, 0)
    raise unsupported(f"{node.sql()} as the step of {name}", "write INTERVAL '1 day', or another number and unit")


def _times(start: date, end: date, step: tuple[int, int], *, is_inclusive: bool) -> Iterator[_Value]:
    """Yield the time `start`, the time one `step` later, the time one step after that and so on, up to `end`.

    `step` is (months, 0) or (0, seconds). In steps of a month from January 31, the times are January 31, February 28,
    March 28 and so on. A time equal to `end` is yielded only if `is_inclusive`. At most `MOST_STEPS` + 1 times are
    yielded, so that the caller sees when there are too many.
    """
    months, seconds = step
    first, last = (datetime.fromisoformat(each.isoformat()) for each in (start, end))
    day = first.day
    for count in range(MOST_STEPS + 1):
        if months:
            year, month = divmod(first.year * 12 + first.month - 1 + count * months, 12)
            if year > 9999:
                return
            day = min(day, monthrange(year, month + 1)[1])  # a month later than January 31 is February 28
            current = first.replace(year=year, month=month + 1, day=day)
        else:
            current = first + timedelta(seconds=count * seconds)
        if current > last or (current == last and not is_inclusive):
            return
        yield current
