"""The functions and constructs that the free part of a statement may use, over released rows and public tables.

Released rows are the noisy answers of the statement's private queries. Calls are checked against a list of allowed
functions, and rewritten as DuckDB writes them. `engines/duckdb/free_sql.py` runs the free part in memory, where it can
neither open a file nor read a private table.
"""

from collections.abc import Sequence

from sqlglot import exp

from setwise.analytics.sql.clauses import own_nodes
from setwise.analytics.sql.free.intervals import constant_number
from setwise.analytics.sql.syntax import construct_of, like_pattern, unsupported
from setwise.analytics.sql.time_units import (
    EPOCH_FUNCTIONS,
    FORMATS,
    WEEK_STARTS,
    check_part,
    format_released,
    week_of_released,
    week_unit,
)

FUNCTIONS = frozenset(
    """
    ABS ACOS ANY_VALUE ASIN ATAN ATAN2 AVG BOOL_AND BOOL_OR CEIL CEILING CHAR_LENGTH COALESCE CONCAT CONCAT_WS CONTAINS
    CORR COS COUNT COUNTIF COUNT_IF COVAR_POP COVAR_SAMP CUME_DIST DATE DATE_FORMAT DATE_PART DATE_TRUNC DAY DAYNAME
    DAYOFWEEK DEGREES DENSE_RANK DIV ENDS_WITH EXP FIRST_VALUE FLOOR FORMAT_DATE FORMAT_DATETIME FORMAT_TIMESTAMP
    FROM_UNIXTIME GREATEST HOUR IF IFF IFNULL IIF INITCAP ISNULL LAG LAST_DAY LAST_VALUE LEAD LEAST LEFT LEN LENGTH LN
    LOG LOG10 LOG2 LOGICAL_AND LOGICAL_OR LOWER LPAD LTRIM MAX MEAN MEDIAN MIN MOD MODE MONTH MONTHNAME NTH_VALUE NTILE
    NULLIF NVL PERCENT_RANK PI POW POWER QUANTILE_CONT QUANTILE_DISC QUARTER RADIANS RANK REPLACE REVERSE RIGHT ROUND
    ROW_NUMBER RPAD RTRIM SAFE_DIVIDE SIGN SIN SPLIT_PART SQRT STARTS_WITH STDDEV STDDEV_POP STDDEV_SAMP STRFTIME
    STRING_AGG STRPOS SUBSTR SUBSTRING SUM TAN TIMESTAMP_SECONDS TO_CHAR TO_TIMESTAMP TRIM TRUNC UPPER VARIANCE VAR_POP
    VAR_SAMP WEEK YEAR ZEROIFNULL
    """.split()  # noqa: SIM905 - a list literal of a hundred names is harder to read
)
"""The functions that the free part may call. They compute with values and released rows, and read nothing else."""

_RENAMED = {
    "IFNULL": "COALESCE", "NVL": "COALESCE", "COUNTIF": "COUNT_IF", "LOGICAL_AND": "BOOL_AND", "LOGICAL_OR": "BOOL_OR",
    "POWER": "POW", "LEN": "LENGTH", "CHAR_LENGTH": "LENGTH", "MEAN": "AVG",
    "ANY_VALUE": "MIN",
}  # fmt: skip
"""Functions that DuckDB knows by another name. ANY_VALUE becomes MIN, so that equal rows have equal results."""

_LONGEST_PADDED = 10_000
"""The most characters to which LPAD and RPAD pad a text.

DuckDB computes a constant such as RPAD('x', 900000000, 'y') while it plans, where neither its time nor its memory is
limited: that took 73 s and 1.9 GB.
"""

_NOT_FREE = (
    exp.Unnest, exp.Lateral, exp.Parameter, exp.Placeholder, exp.TableSample, exp.Command, exp.Pivot, exp.Into,
    exp.Lock, exp.SessionParameter,
)  # fmt: skip
"""Syntax nodes that are refused in the free part."""


def check_free(select: exp.Expr) -> None:
    """Check `select`, which reads released (noisy) rows, and rewrite its calls in place as DuckDB writes them.

    Casts are rewritten so that a value that cannot be cast becomes null.
    Raises: `InvalidParameter` for a construct or function that is not allowed.
    """
    for column in select.expressions if isinstance(select, exp.Select) else ():
        if isinstance(column, exp.Anonymous) and str(column.this).upper() in (
            *_RENAMED,
            "CONCAT",
        ):  # keep the name as written
            column.replace(exp.alias_(column.copy(), column.sql(dialect="duckdb"), quoted=True))
    for node in list(own_nodes(select)):
        if isinstance(node, _NOT_FREE):
            raise unsupported(construct_of(node), "select columns of released rows")
        # A SELECT in parentheses is checked by itself. EXISTS, ARRAY and ALL hold a SELECT that nobody would check.
        if any(isinstance(child, exp.Select | exp.SetOperation) for child in node.iter_expressions()):
            raise unsupported(f"{construct_of(node)} of a SELECT over released rows", "join the released rows instead")
        if isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):
            raise unsupported(f"{construct_of(node.this)} in FROM", "name a table")
        if isinstance(node, exp.Like | exp.ILike):
            _escape_pattern(node)
        if isinstance(node, exp.Extract):
            check_part(node.this)
            if node.this.name.upper() == "DAYOFWEEK":
                node.replace(_from_sunday(exp.Anonymous(this="DAYOFWEEK", expressions=[node.args["expression"]])))
        if isinstance(node, exp.Anonymous):
            _check_call(node)
        elif isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
            node.replace(exp.TryCast(this=node.this, to=node.args["to"]))


def _escape_pattern(node: exp.Expr) -> None:
    r"""Rewrite the pattern of `node`, a LIKE or ILIKE, in place, so that a backslash escapes %, _ and backslash in it.

    ESCAPE '\' is added around `node` if the pattern has a backslash, because LIKE of DuckDB has no escape character
    without ESCAPE. A pattern that is not a text constant is not rewritten.
    """
    around = node.parent if isinstance(node.parent, exp.Escape) else None
    if type(node.args["expression"]) is not exp.Literal:
        return
    pattern = like_pattern(node if around is None else around)
    node.set("expression", exp.Literal.string(pattern))
    if around is not None:
        around.set("expression", exp.Literal.string("\\"))
    elif "\\" in pattern:
        node.replace(exp.Escape(this=node.copy(), expression=exp.Literal.string("\\")))


def _check_call(node: exp.Expr) -> None:  # noqa: PLR0912 - one branch for each kind of call
    name = str(node.this).upper()
    if name not in FUNCTIONS:
        raise unsupported(name, "it is not among the functions of released rows")
    arguments = node.expressions
    if name == "SAFE_DIVIDE" and len(arguments) == 2:
        zero = exp.Anonymous(this="NULLIF", expressions=[arguments[1], exp.Literal.number(0)])
        node.replace(exp.paren(exp.Div(this=exp.paren(arguments[0]), expression=zero)))
    elif name == "DATE_TRUNC" and len(arguments) == 2 and not arguments[0].is_string:
        _truncate(node, *arguments)
    elif name == "DAYOFWEEK" and len(arguments) == 1:
        node.replace(_from_sunday(node))
    elif name == "DATE_PART" and len(arguments) == 2 and arguments[0].name.upper() == "DAYOFWEEK":
        node.replace(_from_sunday(exp.Anonymous(this="DAYOFWEEK", expressions=[arguments[1]])))
    elif name == "CONCAT" and arguments:
        node.replace(_concatenation(arguments))
    elif name == "DIV" and len(arguments) == 2:
        node.replace(exp.Anonymous(this="FDIV", expressions=arguments))
    elif name in ("LPAD", "RPAD") and len(arguments) > 1:
        length = constant_number(arguments[1].unnest())
        if length is None or length > _LONGEST_PADDED:
            raise unsupported(
                f"{name} to {arguments[1].sql()} characters", f"write a number of at most {_LONGEST_PADDED:,}"
            )
    elif name in ("IFF", "IIF") and len(arguments) == 3:
        node.replace(exp.If(this=arguments[0], true=arguments[1], false=arguments[2]))
    elif name in FORMATS and name != "STRFTIME":
        node.replace(format_released(name, arguments))
    elif name in EPOCH_FUNCTIONS and len(arguments) == 1:
        node.replace(_time_of_seconds(arguments[0]))
    elif name in _RENAMED:
        node.set("this", _RENAMED[name])


def _truncate(node: exp.Expr, moment: exp.Expr, written: exp.Expr) -> None:
    """Rewrite `node`, the call DATE_TRUNC(moment, unit) of GoogleSQL, in place as DuckDB writes it.

    `moment` is the date or time, and `written` the unit, such as MONTH. A WEEK begins on Sunday and WEEK(SATURDAY) on
    Saturday, as in expressions over private rows.
    Raises: `InvalidParameter` if the unit is an unknown call, such as WEEK(x).
    """
    unit = week_unit(written) if isinstance(written, exp.Anonymous) else written.name.upper()
    if unit == "WEEK" and not written.is_string:
        node.replace(week_of_released(moment, -1))
    elif unit in WEEK_STARTS:
        node.replace(week_of_released(moment, WEEK_STARTS[unit]))
    elif isinstance(written, exp.Anonymous) and unit != "ISOWEEK":
        raise unsupported(f"DATE_TRUNC to {unit}", "write WEEK(MONDAY), or another day of the week")
    else:
        name = "week" if unit == "ISOWEEK" else unit.lower()
        node.set("expressions", [exp.Literal.string(name), moment])


def _concatenation(arguments: Sequence[exp.Expr]) -> exp.Expr:
    """Return a SQL expression that joins the texts of all `arguments`, for CONCAT; null if one of them is null.

    CONCAT of DuckDB would ignore nulls, but CONCAT over private rows does not.
    """
    texts = [exp.TryCast(this=each, to=exp.DataType.build("VARCHAR", dialect="duckdb")) for each in arguments]
    joined: exp.Expr = texts[0]
    for text in texts[1:]:
        joined = exp.DPipe(this=joined, expression=text)
    return exp.paren(joined, copy=False)


def _from_sunday(weekday: exp.Expr) -> exp.Expr:
    """Return a SQL expression for the day of the week as a number from 1 (Sunday) to 7 (Saturday).

    `weekday` is DuckDB's expression for the day, which is 0 on Sunday. Expressions over private rows number the days
    from 1 to 7, too.
    """
    return exp.paren(exp.Add(this=weekday.copy(), expression=exp.Literal.number(1)))


def _time_of_seconds(seconds: exp.Expr) -> exp.Expr:
    """Return DuckDB's SQL expression for the time, in UTC, that is `seconds` seconds after the start of 1970.

    `seconds` is a syntax node. A value that is not a number gives null.
    """
    real, whole = (exp.DataType.build(name, dialect="duckdb") for name in ("DOUBLE", "BIGINT"))
    number = exp.Mul(this=exp.TryCast(this=seconds, to=real), expression=exp.Literal.number(1_000_000))
    return exp.Anonymous(this="MAKE_TIMESTAMP", expressions=[exp.TryCast(this=number, to=whole)])


def check_aggregate(node: exp.Expr) -> None:
    """Raise `InvalidParameter` if `node` calls an unknown function of a column, such as STRING_AGG(x).

    The message lists the aggregates that are allowed over private rows. Without this check, the error would come later
    and ask the analyst to group by x, which would not help.
    """
    function = "STRING_AGG" if isinstance(node, exp.GroupConcat) else ""
    if isinstance(node, exp.Anonymous) and str(node.this).upper() not in FUNCTIONS and node.find(exp.Column):
        function = str(node.this).upper()
    if function:
        known = "COUNT, COUNTIF, SUM, AVG, MEDIAN, PERCENTILE_CONT, VARIANCE and STDDEV"
        raise unsupported(function, f"the aggregates of private rows are {known}")
