"""The free part of a statement: a SELECT over released rows and public tables, which costs nothing.

It is checked against a list of functions and written in DuckDB's SQL. `engines/duckdb/shell.py` runs it in memory,
where it can open no file and read no private table.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from setwise.analytics.sql.clauses import own_nodes
from setwise.analytics.sql.syntax import construct_of, unsupported

FUNCTIONS = frozenset(
    """
    ABS ACOS ASIN ATAN ATAN2 AVG BOOL_AND BOOL_OR CEIL CEILING CHAR_LENGTH COALESCE CONCAT CONCAT_WS CONTAINS CORR COS
    COUNT COUNT_IF COUNTIF COVAR_POP COVAR_SAMP CUME_DIST DATE DATE_PART DATE_TRUNC DAY DAYOFWEEK DEGREES DENSE_RANK
    DIV ENDS_WITH EXP FIRST_VALUE FLOOR GREATEST HOUR IF IFF IFNULL IIF INITCAP ISNULL LAG LAST_VALUE LEAD LEAST LEFT
    LEN LENGTH LN LOG LOG10 LOG2 LOGICAL_AND LOGICAL_OR LOWER LPAD LTRIM MAX MEAN MEDIAN MIN MOD MODE MONTH NTH_VALUE
    NTILE NULLIF NVL PERCENT_RANK PI POW POWER QUANTILE_CONT QUANTILE_DISC QUARTER RADIANS RANK REPLACE REVERSE RIGHT
    ROUND ROW_NUMBER RPAD RTRIM SAFE_DIVIDE SIGN SIN SPLIT_PART SQRT STARTS_WITH STDDEV STDDEV_POP STDDEV_SAMP STRFTIME
    STRING_AGG STRPOS SUBSTR SUBSTRING SUM TAN TO_CHAR TRIM TRUNC UPPER VARIANCE VAR_POP VAR_SAMP WEEK YEAR ZEROIFNULL
    """.split()  # noqa: SIM905 - a list literal of a hundred names is harder to read
)
"""The functions that the free part may call: of values and of released rows, none of which reads anything else."""

_RENAMED = {
    "IFNULL": "COALESCE", "NVL": "COALESCE", "COUNTIF": "COUNT_IF", "LOGICAL_AND": "BOOL_AND", "LOGICAL_OR": "BOOL_OR",
    "POWER": "POW", "LEN": "LENGTH", "CHAR_LENGTH": "LENGTH", "MEAN": "AVG",
}  # fmt: skip

_NOT_FREE = (
    exp.Unnest, exp.Lateral, exp.Parameter, exp.Placeholder, exp.TableSample, exp.Command, exp.Pivot, exp.Into,
    exp.Lock, exp.SessionParameter,
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellColumn:
    """A column of the result: its name, and the columns that hold the ends of its interval, where it has one."""

    name: str
    lower: str | None = None
    upper: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """A SELECT over released rows in DuckDB's SQL.

    `columns` are those of the result, None where only running it tells. `public` are the public tables that it reads.
    """

    sql: str
    columns: tuple[ShellColumn, ...] | None = None
    public: tuple[str, ...] = ()


def check_free(select: exp.Expr) -> None:
    """Raise unless a SELECT over released rows calls nothing but the functions of the list, and write those alike."""
    for node in list(own_nodes(select)):
        if isinstance(node, _NOT_FREE):
            raise unsupported(construct_of(node), "select columns of released rows")
        if isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):
            raise unsupported(f"{construct_of(node.this)} in FROM", "name a table")
        if isinstance(node, exp.Anonymous):
            _check_call(node)
        elif isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
            node.replace(exp.TryCast(this=node.this, to=node.args["to"]))


def _check_call(node: exp.Expr) -> None:
    name = str(node.this).upper()
    if name not in FUNCTIONS:
        raise unsupported(name, "it is not among the functions of released rows")
    arguments = node.expressions
    if name == "SAFE_DIVIDE" and len(arguments) == 2:
        zero = exp.Anonymous(this="NULLIF", expressions=[arguments[1], exp.Literal.number(0)])
        node.replace(exp.paren(exp.Div(this=exp.paren(arguments[0]), expression=zero)))
    elif name == "DATE_TRUNC" and len(arguments) == 2 and not arguments[0].is_string:
        unit = exp.Literal.string(arguments[1].name.lower())
        node.set("expressions", [unit, arguments[0]])
    elif name == "DIV" and len(arguments) == 2:
        node.replace(exp.Anonymous(this="FDIV", expressions=arguments))
    elif name in ("IFF", "IIF") and len(arguments) == 3:
        node.replace(exp.If(this=arguments[0], true=arguments[1], false=arguments[2]))
    elif name in _RENAMED:
        node.set("this", _RENAMED[name])


def shell_of(tree: exp.Expr, public: Mapping[str, str]) -> Shell:
    """Return the statement as DuckDB runs it; `public` maps the names of its public tables to those they have there.

    Where the statement is one SELECT from released rows, hidden columns hold the ends of the intervals of its columns.
    """
    columns = None
    if isinstance(tree, exp.Select) and not any(_is_star(each) for each in tree.expressions):
        columns = _with_ends(tree)
    return Shell(sql=tree.sql(dialect="duckdb", identify=True), columns=columns, public=tuple(public))


def _is_star(node: exp.Expr) -> bool:
    return type(node) is exp.Star or (type(node) is exp.Column and type(node.this) is exp.Star)


def _with_ends(select: exp.Expr) -> tuple[ShellColumn, ...]:
    """Add the ends of intervals to a SELECT, and return the columns of the result."""
    plain = not (select.args.get("group") or select.args.get("distinct") or select.args.get("joins"))
    source = select.args.get("from_")
    table = None if source is None else source.this
    direct = plain and isinstance(table, exp.Table) and table.name.startswith("core_")
    columns, hidden = [], []
    for place, each in enumerate(list(select.expressions)):
        ends = interval_ends(each.this) if direct and isinstance(each, exp.Alias) else None
        name = each.alias_or_name or str(each.sql(dialect="duckdb"))
        if ends is None:
            columns.append(ShellColumn(name=name))
            continue
        lower, upper = f"lower {place}", f"upper {place}"
        hidden += [exp.alias_(ends[0], lower, quoted=True), exp.alias_(ends[1], upper, quoted=True)]
        columns.append(ShellColumn(name=name, lower=lower, upper=upper))
    select.set("expressions", [*select.expressions, *hidden])
    return tuple(columns)


_INCREASING = ("ROUND", "FLOOR", "CEIL", "CEILING")


def interval_ends(node: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the lower and the upper end of an expression's interval; None where it has none.

    A statistic has its own ends. Rounding, a cast, and sums or products with a constant keep the order of numbers or
    turn it round, so they map an interval of the statistic to one of the result, which holds it as surely.
    """
    match node:
        case exp.Paren():
            return interval_ends(node.this)
        case exp.Column() if node.name.startswith("s") and node.name[1:].isdecimal():
            return exp.column(f"{node.name}_lower"), exp.column(f"{node.name}_upper")
        case exp.Anonymous() if str(node.this).upper() in _INCREASING and node.expressions:
            first, *more = node.expressions
            return _applied(first, lambda end: exp.Anonymous(this=node.this, expressions=[end, *_copies(more)]))
        case exp.Floor() | exp.Ceil():
            return _applied(node.this, lambda end: type(node)(this=end))
        case exp.TryCast() if node.args["to"].this in _NUMBERS:
            return _applied(node.this, lambda end: exp.TryCast(this=end, to=node.args["to"].copy()))
        case exp.Neg():
            return _turned(_applied(node.this, lambda end: exp.Neg(this=exp.paren(end))))
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div():
            return _with_constant(node)
        case _:
            return None


_NUMBERS = (exp.DType.BIGINT, exp.DType.INT, exp.DType.DOUBLE, exp.DType.FLOAT, exp.DType.DECIMAL)


def _with_constant(node: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    left, right = node.this.unnest(), node.args["expression"].unnest()
    value = _number(right)
    if value is not None:
        ends = _applied(left, lambda end: type(node)(this=exp.paren(end), expression=right.copy()))
        if isinstance(node, exp.Add | exp.Sub):
            return ends
        return None if value == 0 else ends if value > 0 else _turned(ends)
    value = _number(left)
    if value is None or isinstance(node, exp.Div):
        return None
    ends = _applied(right, lambda end: type(node)(this=left.copy(), expression=exp.paren(end)))
    if isinstance(node, exp.Add):
        return ends
    if isinstance(node, exp.Sub):
        return _turned(ends)
    return None if value == 0 else ends if value > 0 else _turned(ends)


def _applied(node: exp.Expr, apply: Callable[[exp.Expr], exp.Expr]) -> tuple[exp.Expr, exp.Expr] | None:
    ends = interval_ends(node.unnest())
    return None if ends is None else (apply(ends[0]), apply(ends[1]))


def _turned(ends: tuple[exp.Expr, exp.Expr] | None) -> tuple[exp.Expr, exp.Expr] | None:
    return None if ends is None else (ends[1], ends[0])


def _copies(nodes: list[exp.Expr]) -> list[exp.Expr]:
    return [each.copy() for each in nodes]


def _number(node: exp.Expr) -> float | None:
    if isinstance(node, exp.Neg):
        inner = _number(node.this.unnest())
        return None if inner is None else -inner
    return float(node.this) if type(node) is exp.Literal and not node.is_string else None
