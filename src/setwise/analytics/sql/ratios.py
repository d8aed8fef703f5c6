"""Advice on ratios of aggregates in a SELECT, such as SUM(x) / COUNT(x), whose two numbers are bounded separately.

What one user adds to each number is limited by bounds of this number. The bounds may leave out a larger share of one
number than of the other, so that their ratio may be far from the exact ratio in the table.
"""

from collections.abc import Iterator

from sqlglot import exp

from setwise.analytics.query import Count, Statistic, Sum
from setwise.analytics.sql.aggregates import AggregateReader, is_aggregate
from setwise.analytics.sql.clauses import own_nodes
from setwise.analytics.sql.syntax import short_text
from setwise.analytics.statistics import Distinct


def ratio_advice(node: exp.Expr, alias: str | None, user: str, aggregates: AggregateReader) -> list[str]:
    """Return sentences of advice about each ratio of two aggregate calls in `node`, an expression of the SELECT list.

    The sentences warn of a ratio that may be far from the exact ratio, or suggest an AVG in its place. `alias` is the
    name of the result column, or None if the SELECT gives none. `user` is the user column, and `aggregates` reads the
    aggregate calls.
    """
    advice = []
    for part, whole in _ratios(node):
        statistics = [aggregates.statistic(each, alias or argument_text(each)) for each in (part, whole)]
        instead = _average_advice(part, whole, user)
        if all(_cuts_users(each, has_one_row=aggregates.has_one_row) for each in statistics):
            ratio = f"{short_text(part)} / {short_text(whole)}" if alias is None else alias
            advice.append(
                f"Caution: {ratio} divides two numbers that are bounded separately for each {user}, so it can be far "
                "from the table's own ratio in either direction, and its interval does not allow for that."
            )
            instead = instead or (
                "State contribution_bounds_per_group => (low, high) for both numbers so wide that hardly any "
                f"{user} exceeds them{_distinct_advice(statistics[0], part) or _distinct_advice(statistics[1], whole)}."
            )
        if instead:
            advice.append(instead)
    return advice


def _distinct_advice(statistic: Statistic, node: exp.Expr) -> str:
    """Return "; for distinct values, write APPROX_COUNT_DISTINCT(..)" if `statistic` counts these; "" otherwise.

    The caller adds the text to a sentence that advises to state contribution bounds in both calls of a ratio. `node` is
    the call that `statistic` stands for. COUNT(DISTINCT x) takes no bounds, so the text names the call that does:
    APPROX_COUNT_DISTINCT(x, contribution_bounds_per_group => (0, N)).
    """
    if not isinstance(statistic, Distinct):
        return ""
    return (
        f"; for distinct values, write APPROX_COUNT_DISTINCT({argument_of(node)}, contribution_bounds_per_group => "
        "(0, N))"
    )


def argument_text(node: exp.Expr) -> str:
    """Return the SQL text of the argument of the aggregate call `node`, cut off after 60 characters.

    For COUNT(*) FILTER (WHERE condition) the result is the condition, and for any other call without an argument it is
    the whole call.
    """
    if isinstance(node, exp.Filter) and not _argument(node.this):
        return short_text(node.args["expression"].this)
    argument = _argument(node)
    return short_text(node if argument is None else argument)


def argument_of(node: exp.Expr) -> str | None:
    """Return the SQL text of the values that the aggregate call `node` reads; None for COUNT(*) or a constant argument.

    For SUM(x) the text is x. For SUM(x) FILTER (WHERE c) it is CASE WHEN c THEN x END, which is null in other rows.
    """
    if isinstance(node, exp.Filter):
        value = _argument(node.this)
        if value is None:
            return None
        condition = node.args["expression"].this
        return f"CASE WHEN {condition.sql(dialect='duckdb')} THEN {value.sql(dialect='duckdb')} END"
    value = _argument(node)
    return None if value is None else str(value.sql(dialect="duckdb"))


def _argument(node: exp.Expr) -> exp.Expr | None:
    """Return the first argument of a function call, without DISTINCT.

    None if that argument is * or a constant, if the call has no argument, or if `node` is not a function call.
    """
    if not isinstance(node, exp.Anonymous) or not node.expressions:
        return None
    first = node.expressions[0]
    if isinstance(first, exp.Distinct) and first.expressions:
        first = first.expressions[0]
    return None if isinstance(first, exp.Star | exp.Literal | exp.Boolean | exp.Kwarg) else first


def _ratios(node: exp.Expr) -> Iterator[tuple[exp.Expr, exp.Expr]]:
    """Yield (dividend, divisor), two aggregate calls, for each ratio in `node`, written with / or SAFE_DIVIDE."""
    for inner_node in (node, *own_nodes(node)):
        sides: list[exp.Expr] = []
        if isinstance(inner_node, exp.Div):
            sides = [inner_node.this, inner_node.args["expression"]]
        elif isinstance(inner_node, exp.Anonymous) and str(inner_node.this).upper() == "SAFE_DIVIDE":
            sides = inner_node.expressions
        calls = [call for call in map(_aggregate_within, sides) if call is not None]
        if len(sides) == len(calls) == 2:
            yield calls[0], calls[1]


def _cuts_users(statistic: Statistic, *, has_one_row: bool) -> bool:
    """Return whether clipping bounds or limits on a user's rows may reduce what a user adds to `statistic`.

    If this is so for both numbers of a ratio, the ratio may be far from the exact one. The result is True for sums, and
    for counts of rows or of distinct values, but not for counts of users. If every user has at most one row in a group
    (`has_one_row`), it is False for distinct values, and for a sum whose bounds are found by a private search: such
    bounds clip only the few largest values, and the answer states which fraction they are.
    """
    if isinstance(statistic, Sum):
        return not (has_one_row and statistic.is_auto)
    if isinstance(statistic, Distinct):
        return not has_one_row
    return isinstance(statistic, Count) and statistic.most != 1


def _average_advice(part: exp.Expr, whole: exp.Expr, user: str) -> str:
    """Return a sentence that suggests an AVG instead of `part` / `whole`, the ratio of two aggregate calls.

    The sentence says that AVG gives all users equal weight; `user` is the user column. Returns "" unless the ratio is a
    sum divided by a count, or a count of some rows divided by the count of all rows.
    """
    # AVG has less noise than two numbers, and its interval stays within its bounds.
    counted = _condition_as_case(part) if _counts_all(whole) else None
    if counted is not None:
        return (
            f"AVG({counted}) asks for this share itself, with less noise than a ratio of two counts: it is the mean of "
            f"each {user}'s own share."
        )
    summed, divisor = _argument(part), _argument(whole)
    functions = [str(each.this).upper() if isinstance(each, exp.Anonymous) else "" for each in (part, whole)]
    plain = not any(isinstance(each.expressions[0], exp.Distinct) for each in (part, whole) if each.expressions)
    if functions != ["SUM", "COUNT"] or summed is None or not plain or divisor not in (None, summed):
        return ""
    return f"AVG({short_text(summed)}) asks for a mean itself: it is the mean of each {user}'s own mean."


def _aggregate_within(node: exp.Expr) -> exp.Expr | None:
    """Return the aggregate call in `node`, such as COUNT(*) in 100 * COUNT(*); None if there is more in `node`.

    Around the call there may be only parentheses, casts, NULLIF(.., 0) and constant factors.
    """
    match node:
        case exp.Paren() | exp.Cast():
            return _aggregate_within(node.this)
        case exp.Mul() if isinstance(node.this.unnest(), exp.Literal):
            return _aggregate_within(node.args["expression"])
        case exp.Mul() if isinstance(node.args["expression"].unnest(), exp.Literal):
            return _aggregate_within(node.this)
        case exp.Anonymous() if str(node.this).upper() == "NULLIF" and node.expressions:
            return _aggregate_within(node.expressions[0])
        case _:
            return node if is_aggregate(node) else None


def _counts_all(node: exp.Expr) -> bool:
    """Return whether the aggregate call `node` is COUNT(*), or COUNT of a constant, which counts all rows too."""
    return isinstance(node, exp.Anonymous) and str(node.this).upper() == "COUNT" and _argument(node) is None


def _condition_as_case(node: exp.Expr) -> str | None:
    """Return the SQL text CASE WHEN c THEN 1 ELSE 0 END if the call `node` counts the rows with the condition c.

    Such calls are COUNTIF(c), COUNT(*) FILTER (WHERE c), COUNT(x) for "x is not null", and COUNT or SUM of a CASE with
    one branch. Returns None for other calls.
    """
    condition: exp.Expr | None = None
    if isinstance(node, exp.Filter) and _counts_all(node.this):
        condition = node.args["expression"].this
    elif isinstance(node, exp.Anonymous):
        function, argument = str(node.this).upper(), _argument(node)
        if argument is None or isinstance(node.expressions[0], exp.Distinct):
            return None
        branches = argument.args["ifs"] if isinstance(argument, exp.Case) and argument.this is None else []
        if function in ("COUNTIF", "COUNT_IF"):
            condition = argument
        elif function == "COUNT" and isinstance(argument, exp.Column):
            condition = exp.Is(this=argument.copy(), expression=exp.null()).not_()
        elif function in ("COUNT", "SUM") and len(branches) == 1:
            condition = branches[0].this
    return None if condition is None else f"CASE WHEN {condition.sql(dialect='duckdb')} THEN 1 ELSE 0 END"
