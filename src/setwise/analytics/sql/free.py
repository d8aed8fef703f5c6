"""The free part of a statement: a SELECT over released rows and public tables, which costs no budget.

Released rows are the noisy answers of the statement's private queries. The function calls of the free part are checked
against a list of allowed functions, and it is written in DuckDB's SQL. `engines/duckdb/free_sql.py` runs it in memory,
where it can neither open a file nor read a private table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from setwise.analytics.sql.aggregates import has_aggregate
from setwise.analytics.sql.clauses import own_nodes
from setwise.analytics.sql.syntax import construct_of, unsupported
from setwise.analytics.sql.time_units import FORMATS, format_released

FUNCTIONS = frozenset(
    """
    ABS ACOS ASIN ATAN ATAN2 AVG BOOL_AND BOOL_OR CEIL CEILING CHAR_LENGTH COALESCE CONCAT CONCAT_WS CONTAINS CORR COS
    COUNT COUNTIF COUNT_IF COVAR_POP COVAR_SAMP CUME_DIST DATE DATE_FORMAT DATE_PART DATE_TRUNC DAY DAYNAME DAYOFWEEK
    DEGREES DENSE_RANK DIV ENDS_WITH EXP FIRST_VALUE FLOOR FORMAT_DATE FORMAT_DATETIME FORMAT_TIMESTAMP GREATEST HOUR
    IF IFF IFNULL IIF INITCAP ISNULL LAG LAST_DAY LAST_VALUE LEAD LEAST LEFT LEN LENGTH LN LOG LOG10 LOG2 LOGICAL_AND
    LOGICAL_OR LOWER LPAD LTRIM MAX MEAN MEDIAN MIN MOD MODE MONTH MONTHNAME NTH_VALUE NTILE NULLIF NVL PERCENT_RANK PI
    POW POWER QUANTILE_CONT QUANTILE_DISC QUARTER RADIANS RANK REPLACE REVERSE RIGHT ROUND ROW_NUMBER RPAD RTRIM
    SAFE_DIVIDE SIGN SIN SPLIT_PART SQRT STARTS_WITH STDDEV STDDEV_POP STDDEV_SAMP STRFTIME STRING_AGG STRPOS SUBSTR
    SUBSTRING SUM TAN TO_CHAR TRIM TRUNC UPPER VARIANCE VAR_POP VAR_SAMP WEEK YEAR ZEROIFNULL
    """.split()  # noqa: SIM905 - a list literal of a hundred names is harder to read
)
"""The functions that the free part may call. They compute with values and released rows, and read nothing else."""

_RENAMED = {
    "IFNULL": "COALESCE", "NVL": "COALESCE", "COUNTIF": "COUNT_IF", "LOGICAL_AND": "BOOL_AND", "LOGICAL_OR": "BOOL_OR",
    "POWER": "POW", "LEN": "LENGTH", "CHAR_LENGTH": "LENGTH", "MEAN": "AVG",
}  # fmt: skip
"""Functions that DuckDB knows by another name."""

_LONGEST_PADDED = 10_000
"""The most characters to which LPAD and RPAD pad a text.

DuckDB computes a constant such as RPAD('x', 900000000, 'y') while it plans, where neither its time nor its memory is
limited: that took 73 s and 1.9 GB.
"""

_LARGEST_OPERANDS = 600
"""The most syntax nodes in the ends of two intervals that are multiplied or divided; a larger product has no interval.

The ends of a product have six times as many nodes as those of its factors, because each end is the least or greatest of
four products. Without a limit the SQL of a product of six counts would have 700,000 characters.
"""

_MOST_PRODUCTS = 40
"""The most products and quotients of two numbers in a statement with intervals; with more, no column has an interval.

Together with `_LARGEST_OPERANDS` it limits the SQL of a statement of 10,000 characters to about 300,000 characters.
"""

_NOT_FREE = (
    exp.Unnest, exp.Lateral, exp.Parameter, exp.Placeholder, exp.TableSample, exp.Command, exp.Pivot, exp.Into,
    exp.Lock, exp.SessionParameter,
)  # fmt: skip
"""Syntax nodes that are refused in the free part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellColumn:
    """A result column of a `Shell`, the SELECT over released (noisy) rows.

    `lower` and `upper` are the names of hidden columns with the ends of its interval; both are None if it has no
    interval. `unreliable` is the name of a hidden column that is true in rows where noise may dominate the value; None
    if the column depends on no statistic. `sources` is the number of released statistics from which the interval is
    computed. `is_key` is True if the column is computed from group keys alone, so that its values are labels.
    """

    name: str
    lower: str | None = None
    upper: str | None = None
    unreliable: str | None = None
    sources: int = 0
    is_key: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Shell:
    """A SELECT over released (noisy) rows and public tables: `sql` is its DuckDB SQL text. It costs no budget.

    `columns` are the columns of the result; None if they are known only after the SQL has run. `public` are the names
    of the public tables that it reads. `chooses_rows` is True if a WHERE, HAVING, QUALIFY or LIMIT leaves out rows.
    """

    sql: str
    columns: tuple[ShellColumn, ...] | None = None
    public: tuple[str, ...] = ()
    chooses_rows: bool = False


def check_free(select: exp.Expr) -> None:
    """Check a SELECT over released (noisy) rows, and rewrite its calls in place so that DuckDB understands them.

    Casts are rewritten so that a value that cannot be cast becomes null.
    Raises: `InvalidParameter` for a construct or function that is not allowed.
    """
    for node in list(own_nodes(select)):
        if isinstance(node, _NOT_FREE):
            raise unsupported(construct_of(node), "select columns of released rows")
        # A SELECT in parentheses is checked by itself. EXISTS, ARRAY and ALL hold a SELECT that nobody would check.
        if any(isinstance(child, exp.Select | exp.SetOperation) for child in node.iter_expressions()):
            raise unsupported(f"{construct_of(node)} of a SELECT over released rows", "join the released rows instead")
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
    elif name in ("LPAD", "RPAD") and len(arguments) > 1:
        length = _number(arguments[1].unnest())
        if length is None or length > _LONGEST_PADDED:
            raise unsupported(
                f"{name} to {arguments[1].sql()} characters", f"write a number of at most {_LONGEST_PADDED:,}"
            )
    elif name in ("IFF", "IIF") and len(arguments) == 3:
        node.replace(exp.If(this=arguments[0], true=arguments[1], false=arguments[2]))
    elif name in FORMATS and name != "STRFTIME":
        node.replace(format_released(name, arguments))
    elif name in _RENAMED:
        node.set("this", _RENAMED[name])


def check_aggregate(node: exp.Expr) -> None:
    """Raise `InvalidParameter` if `node` calls an unknown function, such as STRING_AGG, with columns as arguments.

    A function is known if free SQL allows it. The error lists the aggregates of private rows. Without this check, the
    error would ask for the columns in the call to be grouped, which would not help.
    """
    function = "STRING_AGG" if isinstance(node, exp.GroupConcat) else ""
    if isinstance(node, exp.Anonymous) and str(node.this).upper() not in FUNCTIONS and node.find(exp.Column):
        function = str(node.this).upper()
    if function:
        known = "COUNT, COUNTIF, SUM, AVG, MEDIAN, PERCENTILE_CONT, VARIANCE and STDDEV"
        raise unsupported(function, f"the aggregates of private rows are {known}")


def shell_of(tree: exp.Expr, public: Mapping[str, str]) -> Shell:
    """Return the part of a statement that runs over released (noisy) rows, as DuckDB SQL text in a `Shell`.

    `tree` is the syntax tree of this part, and the keys of `public` are the names of the public tables that it reads.
    If `tree` is one SELECT, or several united with UNION ALL, hidden columns are added for each result column that
    depends on a statistic: whether noise may dominate the value and, if it has an interval, the two ends. Other
    statements, and those with more than `_MOST_PRODUCTS` products and quotients, get no hidden columns.
    """
    columns = None
    selects = _united_selects(tree)
    if selects and _count_products(tree) <= _MOST_PRODUCTS:
        for select in selects:
            _expand_stars(select, tree)
        if _have_equal_columns(selects):
            columns = _with_ends(selects, tree)
    chooses = tree.find(exp.Where, exp.Having, exp.Qualify, exp.Limit, exp.Offset) is not None
    text = tree.sql(dialect="duckdb", identify=True)
    return Shell(sql=text, columns=columns, public=tuple(public), chooses_rows=chooses)


def _count_products(tree: exp.Expr) -> int:
    """Return the number of products and quotients of two non-constant numbers in the syntax tree `tree`."""
    return sum(
        _number(node.this.unnest()) is None and _number(node.args["expression"].unnest()) is None
        for node in tree.find_all(exp.Mul, exp.Div)
    )


def _is_star(node: exp.Expr) -> bool:
    return type(node) is exp.Star or (type(node) is exp.Column and type(node.this) is exp.Star)


def _united_selects(tree: exp.Expr) -> list[exp.Expr]:
    """Return the SELECTs whose rows `tree` unites with UNION ALL, in order; `tree` itself if it is a SELECT.

    Returns an empty list for other set operations, which compare whole rows.
    """
    if isinstance(tree, exp.Select):
        return [tree]
    if isinstance(tree, exp.Subquery) and not tree.alias:
        return _united_selects(tree.this)
    if not isinstance(tree, exp.Union) or tree.args.get("distinct") or tree.args.get("by_name"):
        return []
    sides = [_united_selects(tree.args[side]) for side in ("this", "expression")]
    return [*sides[0], *sides[1]] if all(sides) else []


def _have_equal_columns(selects: Sequence[exp.Expr]) -> bool:
    """Return whether `selects` have equal numbers of result columns, and no result column is a *."""
    columns = [each for select in selects for each in select.expressions]
    return len({len(select.expressions) for select in selects}) == 1 and not any(map(_is_star, columns))


def _passed_selects(select: exp.Expr, tree: exp.Expr) -> list[exp.Expr]:
    """Return the inner SELECTs that `select` reads row by row: each of its rows comes from one row of an inner SELECT.

    They are a subquery in the FROM of `select`, or a common table expression of the statement `tree` that FROM names:
    one SELECT, or several united with UNION ALL. The list is empty if `select` joins, groups or removes duplicates, or
    if an inner SELECT removes duplicates. It is also empty if the common table expression is read in several places,
    where hidden columns that are added for one place would show up in another.
    """
    source = select.args.get("from_")
    if source is None or any(select.args.get(clause) for clause in ("group", "distinct", "joins")):
        return []
    table = source.this
    inner = None
    if isinstance(table, exp.Subquery) and not table.alias_column_names:
        inner = table.this
    elif isinstance(table, exp.Table) and not isinstance(table.this, exp.Func) and not table.alias_column_names:
        name = table.name.lower()
        defined = [each for each in tree.find_all(exp.CTE) if each.alias.lower() == name]
        reads = [each for each in tree.find_all(exp.Table) if each.name.lower() == name]
        if len(defined) == len(reads) == 1 and not defined[0].args["alias"].args.get("columns"):
            inner = defined[0].this
    selects = [] if inner is None else _united_selects(inner)
    return [] if any(each.args.get("distinct") for each in selects) else selects


def _expand_stars(select: exp.Expr, tree: exp.Expr) -> None:
    """Replace each * of `select` by the columns of the inner SELECTs that it reads row by row, in place.

    `tree` is the whole statement. A * stays if there is no such inner SELECT (see `_passed_selects`), or if a column of
    the inner SELECT has no name, or two have the same name.
    """
    passed = _passed_selects(select, tree)
    for inner in passed:
        _expand_stars(inner, tree)
    if not passed or not _have_equal_columns(passed):
        return
    names = [each.alias_or_name for each in passed[0].expressions]
    if not all(names) or len({*map(str.lower, names)}) < len(names):
        return
    columns: list[exp.Expr] = []
    for selected in select.expressions:
        plain = _is_star(selected) and not any(
            (selected if type(selected) is exp.Star else selected.this).args.values()
        )
        columns += [exp.column(name, quoted=True) for name in names] if plain else [selected]
    select.set("expressions", columns)


@dataclass(frozen=True, slots=True)
class _ColumnPrecision:
    """How precise a result column of one SELECT over released rows is.

    `flag` is a condition that is true in rows in which noise may dominate the value; None if the column depends on no
    statistic. `ends` are the two ends of the column's interval, None if it has none. `sources` is the number of
    released statistics from which the interval is computed.
    """

    flag: exp.Expr | None
    ends: "_Ends | None"
    sources: int


def _with_ends(selects: Sequence[exp.Expr], tree: exp.Expr) -> tuple[ShellColumn, ...]:
    """Add hidden columns to SELECTs that are united with UNION ALL, in place; return the visible columns.

    The hidden columns hold the ends of intervals, and whether noise may dominate a value; they are null in a SELECT
    whose column has no interval, or depends on no statistic. `selects` have equal numbers of columns, and the first
    SELECT names them. `tree` is the whole statement, whose common table expressions the SELECTs may read.
    """
    precisions = [_precisions(select, tree) for select in selects]
    columns = []
    hidden: list[list[exp.Expr]] = [[] for _ in selects]
    for place, first in enumerate(list(selects[0].expressions)):
        name = first.alias_or_name or str(first.sql(dialect="duckdb"))
        branches = [each[place] for each in precisions]
        if all(each.flag is None for each in branches):
            columns.append(ShellColumn(name=name, is_key=_holds_keys(selects, place, tree)))
            continue
        unreliable = f"unreliable {place}"
        bounded = any(each.ends is not None for each in branches)
        lower, upper = (f"lower {place}", f"upper {place}") if bounded else (None, None)
        for added, branch in zip(hidden, branches, strict=True):
            added.append(exp.alias_(branch.flag or exp.null(), unreliable, quoted=True))
            if lower is not None and upper is not None:
                ends = branch.ends or (exp.null(), exp.null())
                added += [exp.alias_(ends[0], lower, quoted=True), exp.alias_(ends[1], upper, quoted=True)]
        sources = max(each.sources for each in branches)
        columns.append(ShellColumn(name=name, lower=lower, upper=upper, unreliable=unreliable, sources=sources))
    for select, added in zip(selects, hidden, strict=True):
        select.set("expressions", [*select.expressions, *added])
    return tuple(columns)


def _precisions(select: exp.Expr, tree: exp.Expr) -> list[_ColumnPrecision]:
    """Return for each result column of a SELECT over released rows how precise it is; `tree` is the whole statement."""
    hidden_of = _hidden_columns(select, tree)
    columns_precision = []
    for selected in select.expressions:
        node = selected.unalias()
        flag = _unreliable(node, hidden_of)
        ends = None if flag is None else interval_ends(node, hidden_of)
        sources = 0 if ends is None else sum(statistic.sources for statistic in _statistics(node, hidden_of))
        columns_precision.append(_ColumnPrecision(flag, ends, sources))
    return columns_precision


def _is_key(node: exp.Expr, select: exp.Expr, tree: exp.Expr) -> bool:
    """Return whether the expression `node` of `select` is computed from group keys of released rows alone.

    `tree` is the whole statement, whose common table expressions `select` may read.
    """
    if has_aggregate(node) or node.find(exp.Window, exp.Subquery, exp.Select) is not None:
        return False
    columns = list(node.find_all(exp.Column))
    return bool(columns) and all(_names_key(column, select, tree) for column in columns)


def _names_key(column: exp.Column, select: exp.Expr, tree: exp.Expr) -> bool:
    """Return whether `column`, which `select` reads, is a group key (g0, g1, ..) of a table of released rows.

    If `select` joins tables, the column must name the released table, because a public table may have a column g0, too.
    `tree` is the whole statement, whose common table expressions `select` may read.
    """
    source = select.args.get("from_")
    table = None if source is None else source.this
    if isinstance(table, exp.Table) and table.name.startswith("core_"):
        is_released = column.table == table.alias_or_name or not (column.table or select.args.get("joins"))
        return is_released and column.name.startswith("g") and column.name[1:].isdecimal()
    passed = _passed_selects(select, tree)
    names = [each.alias_or_name.lower() for each in passed[0].expressions] if passed else []
    if column.name.lower() not in names or not _have_equal_columns(passed):
        return False
    place = names.index(column.name.lower())
    return _holds_keys(passed, place, tree)


def _holds_keys(selects: Sequence[exp.Expr], place: int, tree: exp.Expr) -> bool:
    """Return whether the result column with the index `place` of SELECTs united with UNION ALL holds group keys.

    The column holds group keys if it is computed from group keys in at least one of `selects`, and is constant in the
    other SELECTs. `tree` is the whole statement.
    """
    nodes = [select.expressions[place].unalias() for select in selects]
    keys = [_is_key(node, select, tree) for node, select in zip(nodes, selects, strict=True)]
    constant = [node.find(exp.Column, exp.Window, exp.Select) is None and not has_aggregate(node) for node in nodes]
    return any(keys) and all(key or known for key, known in zip(keys, constant, strict=True))


@dataclass(frozen=True, slots=True)
class HiddenColumns:
    """The names of the hidden columns that say how precise a released column c is.

    `lower` and `upper` are the columns with the ends of the interval of c, both None if c has no interval. `unreliable`
    is the column that is true where noise may dominate c. `sources` is the number of released statistics from which c
    is computed.
    """

    lower: str | None
    upper: str | None
    unreliable: str
    sources: int = 1


ColumnEnds: TypeAlias = Callable[[str], HiddenColumns | None]
"""A function from the name of a column to its hidden columns; None if the column depends on no statistic."""


def _hidden_columns(select: exp.Expr, tree: exp.Expr) -> ColumnEnds:
    """Return a function that maps the name of a column that `select` reads to its hidden columns (`HiddenColumns`).

    The function returns None for a column that depends on no statistic. `tree` is the whole statement. If `select`
    passes on the rows of an inner SELECT, hidden columns are added to that SELECT, in place.
    """
    source = select.args.get("from_")
    table = None if source is None else source.this
    if isinstance(table, exp.Table) and table.name.startswith("core_"):
        grouped = any(select.args.get(clause) for clause in ("group", "distinct", "joins"))
        return (lambda _: None) if grouped else _statistic_ends
    passed = _passed_selects(select, tree)
    if not passed or not _have_equal_columns(passed) or any(map(_is_star, select.expressions)):
        return lambda _: None
    known = {
        column.name.lower(): HiddenColumns(column.lower, column.upper, column.unreliable, column.sources)
        for column in _with_ends(passed, tree)
        if column.unreliable is not None
    }
    return lambda name: known.get(name.lower())


def _statistic_ends(name: str) -> HiddenColumns | None:
    """Return the hidden columns of the released column `name`: s0_lower, s0_upper and s0_unreliable for s0.

    None for a column that is not a statistic (s0, s1, ..), such as a group key.
    """
    if not (name.startswith("s") and name[1:].isdecimal()):
        return None
    return HiddenColumns(f"{name}_lower", f"{name}_upper", f"{name}_unreliable")


def _statistics(node: exp.Expr, ends_of: ColumnEnds) -> list[HiddenColumns]:
    """Return the hidden columns of the distinct statistics that `node`, an expression over released rows, names.

    `ends_of` maps the name of a column to its hidden columns, or to None.
    """
    names = [column.name for column in node.find_all(exp.Column)]
    return list(dict.fromkeys(hidden for name in names if (hidden := ends_of(name)) is not None))


def _unreliable(node: exp.Expr, ends_of: ColumnEnds) -> exp.Expr | None:
    """Return a condition, as a syntax node, that is true in rows where noise may dominate the value of `node`.

    The value is unreliable if a statistic from which it is computed is marked unreliable. It is also unreliable if it
    contains a quotient whose divisor has an interval that contains 0, or a quotient whose interval is at least twice as
    wide as the absolute value of the quotient. `ends_of` maps the name of a column to its hidden columns. Returns None
    if `node` depends on no statistic, and also for aggregates and window functions, which read other rows.
    """
    if has_aggregate(node) or node.find(exp.Window, exp.Subquery, exp.Select) is not None:
        return None
    flags: list[exp.Expr] = [exp.column(hidden.unreliable, quoted=True) for hidden in _statistics(node, ends_of)]
    if not flags:
        return None
    for quotient in node.find_all(exp.Div):
        divisor = _ends_or_constant(quotient.args["expression"], ends_of)
        if divisor is None or _number(quotient.args["expression"].unnest()) is not None:
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
    """Return syntax nodes for the lower and upper end of the interval of `node`; None if `node` has no interval.

    `node` is an expression over released rows, and `ends_of` maps the name of a column to the columns with the ends of
    its interval. A statistic has its own interval. Rounding, a cast, and sums or products with a constant are monotone,
    so they map an interval to an interval of the result with the same confidence. A sum, difference, product or
    quotient of two numbers with intervals gets its interval by interval arithmetic: it contains the result whenever
    both intervals contain their numbers. A quotient has no interval in rows where the divisor's interval contains 0,
    and a product or quotient has no interval if the ends of its two numbers have more than `_LARGEST_OPERANDS` syntax
    nodes.
    """
    match node:
        case exp.Paren():
            return interval_ends(node.this, ends_of)
        case exp.Column():
            hidden = ends_of(node.name)
            if hidden is None or hidden.lower is None or hidden.upper is None:
                return None
            return exp.column(hidden.lower, quoted=True), exp.column(hidden.upper, quoted=True)
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
    """Return x if `node` is NULLIF(x, 0), which guards a division; None for anything else."""
    if not (isinstance(node, exp.Anonymous) and str(node.this).upper() == "NULLIF" and len(node.expressions) == 2):
        return None
    return node.expressions[0] if _number(node.expressions[1].unnest()) == 0 else None


def _is_default(node: exp.Expr) -> bool:
    """Return whether `node` is COALESCE(x, c) with a constant number c; it has no interval in rows where x is null."""
    is_call = str(node.this).upper() in ("COALESCE", "IFNULL", "NVL") and len(node.expressions) == 2
    return is_call and _number(node.expressions[1].unnest()) is not None


def _with_constant(node: exp.Expr, ends_of: ColumnEnds) -> tuple[exp.Expr, exp.Expr] | None:
    left, right = node.this.unnest(), node.args["expression"].unnest()
    value = _number(right)
    if value is not None:
        ends = _apply_to_ends(left, ends_of, lambda end: type(node)(this=exp.Paren(this=end), expression=right.copy()))
        if isinstance(node, exp.Add | exp.Sub):
            return ends
        return None if value == 0 else ends if value > 0 else _swap_ends(ends)
    value = _number(left)
    if value is None or isinstance(node, exp.Div):
        return None
    ends = _apply_to_ends(right, ends_of, lambda end: type(node)(this=left.copy(), expression=exp.Paren(this=end)))
    if isinstance(node, exp.Add):
        return ends
    if isinstance(node, exp.Sub):
        return _swap_ends(ends)
    return None if value == 0 else ends if value > 0 else _swap_ends(ends)


_Ends: TypeAlias = tuple[exp.Expr, exp.Expr]
"""Syntax nodes for the lower and the upper end of an interval."""


def _ends_or_constant(node: exp.Expr, ends_of: ColumnEnds) -> _Ends | None:
    """Return the ends of the interval of `node`; both ends of a constant are the constant itself.

    None if `node` has no interval. `ends_of` maps the name of a column to its hidden columns.
    """
    inner = node.unnest()
    return (inner.copy(), inner.copy()) if _number(inner) is not None else interval_ends(inner, ends_of)


def _of_two_intervals(node: exp.Expr, ends_of: ColumnEnds) -> _Ends | None:
    """Return the interval of `node`, a sum, difference, product or quotient of two numbers that have intervals.

    The interval contains every result that numbers from the two intervals can have (interval arithmetic). `ends_of`
    maps the name of a column to its hidden columns, which have the ends of its interval. Returns None if one of the
    numbers has no interval, or if the SQL of a product or quotient would be too long. The ends are null in a row in
    which an end of the two intervals is null, or in which the interval of a divisor contains 0.
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


def _without_zero(ends: _Ends) -> exp.Expr:
    """Return a condition, as a syntax node, that is true if 0 is not in the interval with the given `ends`."""
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


def _number(node: exp.Expr) -> float | None:
    if isinstance(node, exp.Neg):
        inner = _number(node.this.unnest())
        return None if inner is None else -inner
    return float(node.this) if type(node) is exp.Literal and not node.is_string else None
