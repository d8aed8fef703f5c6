"""Statements in place of those that compare or truncate a column as another type than it has.

A comparison of a boolean column with 'yes', or of an integer column with '4', is refused, because texts are no truth
values or numbers. So is DATE_TRUNC of a column of Unix times. The corrected statement has TRUE, 4, or TO_TIMESTAMP.
"""

import calendar
import re
from collections.abc import Callable, Mapping

from sqlglot import exp

from setwise.analytics.schema import Kind, Schema
from setwise.analytics.sql.suggestions.corrections import sql_text, with_paths
from setwise.analytics.sql.syntax import parse
from setwise.errors import InvalidParameter

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_TRUTH = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), exp.true()),
    **dict.fromkeys(("false", "f", "no", "n", "0"), exp.false()),
}
"""The texts, in lower case, that a column of truth values is read from."""
_MONTHS = {
    name.lower(): number
    for names in (calendar.month_name, calendar.month_abbr)
    for number, name in enumerate(names)
    if name
}
_TIME_FUNCTIONS = frozenset(
    {
        *("DATE_TRUNC", "TIMESTAMP_TRUNC", "DATETIME_TRUNC", "DATE_PART", "YEAR", "QUARTER", "MONTH", "WEEK", "DAY"),
        *("HOUR", "MINUTE", "DAYOFWEEK", "DAYNAME", "MONTHNAME", "STRFTIME", "DATE_FORMAT", "TO_CHAR", "FORMAT_DATE"),
    }
)
"""Functions of a date or time, in upper case."""


def fitting_statement(text: str, schema_of: Callable[[str], Schema | None]) -> tuple[str, str] | None:
    """Return (condition, statement); the statement is `text` with constants and times that fit its columns. Or None.

    For example, age = '4' becomes age = 4, and DATE_TRUNC('day', time) becomes DATE_TRUNC('day', TO_TIMESTAMP(time)) if
    the column time has integers.

    `condition` says when the statement is right, as in "if time counts seconds since 1970", or is "" if it always is.
    `schema_of` returns the columns of a table by its name. The result is None if nothing in `text` needs a change, or
    if it cannot be parsed.
    """
    try:
        tree, _, _ = parse(text)
    except InvalidParameter:
        return None
    kinds: dict[str, Kind | None] = {}
    for schema in map(schema_of, {table.name for table in tree.find_all(exp.Table)}):
        for column in schema or ():
            name = column.name.lower()
            kinds[name] = column.kind if kinds.get(name, column.kind) is column.kind else None
    changed = tree.copy()
    has_constants = _replace_constants(changed, kinds)
    times = _replace_times(changed, kinds)
    if not has_constants and not times:
        return None
    statement = next(sql_text(changed), "")
    if not statement:
        return None
    counted = " and ".join(dict.fromkeys(times))
    condition = f"if {counted} counts seconds since 1970 (TIMESTAMP_MILLIS takes milliseconds)" if times else ""
    return condition, with_paths(statement, text)


def _replace_constants(tree: exp.Expr, kinds: Mapping[str, Kind | None]) -> bool:
    """Replace constants in `tree` that are compared with columns of another kind; return whether any was replaced.

    For example, age = '4' becomes age = 4. Columns of numbers get numbers, and columns of truth values TRUE and FALSE.
    `kinds` has the kinds of columns, by name in lower case.
    """
    pairs = [
        pair
        for node in tree.find_all(*_COMPARISONS)
        for pair in ((node.this, node.expression), (node.expression, node.this))
    ]
    pairs += [(node.this, value) for node in tree.find_all(exp.In) for value in node.expressions]
    pairs += [(node.this, node.args[end]) for node in tree.find_all(exp.Between) for end in ("low", "high")]
    replaced = False
    for column, constant in pairs:
        if not isinstance(column, exp.Column) or not isinstance(constant, exp.Literal):
            continue
        fitting = _fitting_constant(column.name, kinds.get(column.name.lower()), constant)
        if fitting is not None:
            constant.replace(fitting)
            replaced = True
    return replaced


def _fitting_constant(name: str, kind: Kind | None, constant: exp.Literal) -> exp.Expr | None:
    """Return the constant that fits the column `name`, whose values are of `kind`, in place of `constant`, or None.

    For example '4' -> 4 for a column of integers, 'yes' -> TRUE for truth values, and 'March' -> 3 for a column of
    numbers whose name contains month. None if no constant is known that fits.
    """
    text = str(constant.this).strip()
    if kind is Kind.BOOLEAN:
        truth = _TRUTH.get(text.lower())
        return None if truth is None else truth.copy()
    if not constant.is_string or kind not in (Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL):
        return None
    if re.fullmatch(r"[0-9]{1,15}" if kind is Kind.INTEGER else r"[0-9]{1,15}([.][0-9]{1,15})?", text):
        return exp.Literal.number(text)
    if "month" in name.lower() and text.lower() in _MONTHS:
        return exp.Literal.number(_MONTHS[text.lower()])
    return None


def _replace_times(tree: exp.Expr, kinds: Mapping[str, Kind | None]) -> list[str]:
    """Write TO_TIMESTAMP around integer columns of `tree` that a function reads as times; return their names.

    `kinds` has the kinds of columns, by name in lower case.
    """
    functions = (node for node in tree.find_all(exp.Anonymous) if node.name.upper() in _TIME_FUNCTIONS)
    arguments = [argument for node in functions for argument in node.expressions]
    arguments += [node.expression for node in tree.find_all(exp.Extract)]
    names = []
    for argument in arguments:
        if isinstance(argument, exp.Column) and kinds.get(argument.name.lower()) is Kind.INTEGER:
            names.append(argument.name)
            argument.replace(exp.Anonymous(this="TO_TIMESTAMP", expressions=[argument.copy()]))
    return names
