"""Advice on ratios of aggregates in a SELECT, such as SUM(x) / COUNT(x), whose two numbers are bounded separately.

What one user adds to each number is limited by bounds of this number. The bounds may leave out a larger share of one
number than of the other, so that their ratio may be far from the exact ratio in the table.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, product

from sqlglot import exp

from setwise.analytics.query import Count, Statistic, Sum
from setwise.analytics.sql.aggregates import AggregateReader, is_aggregate
from setwise.analytics.sql.clauses import own_nodes
from setwise.analytics.sql.syntax import short_text
from setwise.analytics.statistics import Distinct

_CALL = "aggregate call"
"""The key in `meta` of a column of released (noisy) rows under which the `_ReleasedCall` that it shows is kept."""


_MOST_PAIRS = 100
"""The most pairs of aggregate calls that are compared for one ratio, so that long UNIONs do not take long."""


@dataclass(frozen=True, slots=True)
class _ReleasedCall:
    """An aggregate call of a private query, whose noisy result is a column of released rows.

    - `node` is the call as it is written, and `statistic` what it asks for.
    - `has_one_row` is True if every user has at most one row in a group.
    - `core` is the name of the private query.
    """

    node: exp.Expr
    statistic: Statistic
    has_one_row: bool
    core: str


def released_column(
    node: exp.Expr, statistic: Statistic, place: int, aggregates: AggregateReader, core: str
) -> exp.Column:
    """Return the column of released (noisy) rows that shows the aggregate call `node`, and remember the call at it.

    `statistic` is the statistic that the call asks for, at the index `place` of the private query named `core`.
    `aggregates` has read the call.
    """
    column = exp.column(f"s{place}")
    column.meta[_CALL] = _ReleasedCall(node, statistic, aggregates.has_one_row, core)
    return column


def ratio_advice(node: exp.Expr, alias: str | None, user: str, aggregates: AggregateReader) -> list[str]:
    """Return sentences of advice about each ratio of two aggregate calls in `node`, an expression of the SELECT list.

    The sentences warn of a ratio that may be far from the exact ratio, or suggest an AVG in its place. `alias` is the
    name of the result column, or None if the SELECT gives none. `user` is the user column, and `aggregates` reads the
    aggregate calls.
    """
    advice = []
    for sides in _ratios(node):
        part, whole = (_without_wrappers(side) for side in sides)
        if is_aggregate(part) and is_aggregate(whole):
            calls = [
                _ReleasedCall(
                    each, aggregates.statistic(each, alias or argument_text(each)), aggregates.has_one_row, ""
                )
                for each in (part, whole)
            ]
            name = f"{short_text(part)} / {short_text(whole)}" if alias is None else alias
            advice += _advice_of(calls[0], calls[1], name, user)
    return advice


def released_ratio_advice(tree: exp.Expr, user: str) -> list[str]:
    """Return sentences of advice about ratios of released (noisy) numbers that come from subqueries of `tree`.

    An example is s / n over a common table expression with the columns SUM(x) AS s and COUNT(x) AS n. `tree` is the
    part of a statement that runs over released rows, and `user` the user column. Ratios of two aggregate calls of one
    SELECT are left out, because `ratio_advice` has told of them.
    """
    advice: list[str] = []
    for select in tree.find_all(exp.Select):
        for selected in select.expressions:
            for part, whole in _ratios(selected.unalias()):
                if all(_CALL in _without_wrappers(side).meta for side in (part, whole)):
                    continue
                name = selected.alias or f"{short_text(part)} / {short_text(whole)}"
                pairs = product(_calls_behind(part, select, set()), _calls_behind(whole, select, set()))
                found = (
                    _advice_of(*calls, name, user)
                    for calls in islice(pairs, _MOST_PAIRS)
                    if calls[0].node != calls[1].node  # a share of a total has the same bounds in both numbers
                )
                advice += next(filter(None, found), [])
    return advice


def _advice_of(part: _ReleasedCall, whole: _ReleasedCall, name: str, user: str) -> list[str]:
    """Return sentences of advice about the ratio of the calls `part` and `whole`; [] if it cannot mislead.

    `name` is the name of the ratio in the result, and `user` the user column.
    """
    advice = []
    instead = _average_advice(part.node, whole.node, user) if part.core == whole.core else ""
    if all(_cuts_users(each.statistic, has_one_row=each.has_one_row) for each in (part, whole)):
        advice.append(
            f"Caution: {name} divides two numbers that are bounded separately for each {user}, so it can be far "
            "from the table's own ratio in either direction, and its interval does not allow for that."
        )
        distinct = _distinct_advice(part.statistic, part.node) or _distinct_advice(whole.statistic, whole.node)
        instead = instead or (
            "State contribution_bounds_per_group => (low, high) for both numbers so wide that hardly any "
            f"{user} exceeds them{distinct}."
        )
    return [*advice, instead] if instead else advice


def _calls_behind(node: exp.Expr, select: exp.Expr, seen: set[tuple[int, str]]) -> list[_ReleasedCall]:
    """Return the aggregate calls of which `node`, an expression of `select` over released rows, shows the results.

    The calls are those of subqueries and common table expressions, at any depth; UNION gives several. The list is empty
    if `node` computes anything else. `seen` are the columns that were looked up; new ones are added. Each is looked up
    once, because unions of unions would otherwise take time that doubles with each level.
    """
    column = _without_wrappers(node, sums=True)
    if _CALL in column.meta:
        return [column.meta[_CALL]]
    step = (id(select), column.name.lower())
    if type(column) is not exp.Column or step in seen:
        return []
    seen.add(step)
    source = select.args.get("from_")
    tables = [] if source is None else [source.this, *(join.this for join in select.args.get("joins") or ())]
    calls: list[_ReleasedCall] = []
    for table in tables:
        if column.table and table.alias_or_name.lower() != column.table.lower():
            continue
        for inner, names in _inner_selects(table):
            shown = [each.alias_or_name.lower() for each in inner.expressions]
            for name, each in zip([*names, *shown[len(names) :]], inner.expressions, strict=True):
                if name == column.name.lower():
                    calls += _calls_behind(each.unalias(), inner, seen)
                elif each.is_star:
                    calls += _calls_behind(exp.column(column.name), inner, seen)
    if not calls and not column.table:  # DuckDB lets a column of the SELECT list read an earlier one
        own = [each.this for each in select.expressions if each.alias.lower() == column.name.lower()]
        calls = [call for each in own if each is not node for call in _calls_behind(each, select, seen)]
    return calls


def _inner_selects(table: exp.Expr) -> list[tuple[exp.Select, list[str]]]:
    """Return the SELECTs whose rows `table`, an entry of FROM, unites, each with the names that an alias gives columns.

    `table` is a subquery, or the name of a common table expression of any query around it. The list is empty for other
    tables.
    """
    names = [name.lower() for name in table.alias_column_names]
    if isinstance(table, exp.Subquery):
        return [(select, names) for select in _united(table.this)]
    ancestor = table.parent if isinstance(table, exp.Table) else None
    while ancestor is not None:
        clause = ancestor.args.get("with_")
        for common in [] if clause is None else clause.expressions:
            if common.alias.lower() == table.name.lower():
                names = names or [name.lower() for name in common.alias_column_names]
                return [(select, names) for select in _united(common.this)]
        ancestor = ancestor.parent
    return []


def _united(query: exp.Expr) -> list[exp.Select]:
    """Return the SELECTs that `query` unites with UNION, INTERSECT or EXCEPT; only itself if it is a SELECT."""
    if isinstance(query, exp.SetOperation):
        return [*_united(query.this), *_united(query.expression)]
    inner = query.unnest() if isinstance(query, exp.Subquery) else query
    if isinstance(inner, exp.SetOperation):
        return _united(inner)
    return [inner] if isinstance(inner, exp.Select) else []


def _distinct_advice(statistic: Statistic, node: exp.Expr) -> str:
    """Return "; for distinct values, write COUNT(DISTINCT ..)" if `statistic` counts these; "" otherwise.

    The caller adds the text to a sentence that advises to state contribution bounds in both calls of a ratio. `node` is
    the call that `statistic` stands for. The text names it with bounds: COUNT(DISTINCT x,
    contribution_bounds_per_group => (0, N)).
    """
    if not isinstance(statistic, Distinct):
        return ""
    return f"; for distinct values, write COUNT(DISTINCT {argument_of(node)}, contribution_bounds_per_group => (0, N))"


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
    """Yield (dividend, divisor) for each ratio in `node`, written with / or SAFE_DIVIDE."""
    for inner_node in (node, *own_nodes(node)):
        if isinstance(inner_node, exp.Div):
            yield inner_node.this, inner_node.args["expression"]
        elif _function_name(inner_node) == "SAFE_DIVIDE" and len(inner_node.expressions) == 2:
            yield inner_node.expressions[0], inner_node.expressions[1]


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
    counted = _condition_as_case(part) if _counts_all(whole) else None
    if counted is not None:
        return (
            f"AVG({counted}) asks for a share itself: it is the mean of each {user}'s own share, and not the share of "
            "all rows."
        )
    summed, divisor = _argument(part), _argument(whole)
    functions = [_function_name(each) for each in (part, whole)]
    plain = not any(isinstance(each.expressions[0], exp.Distinct) for each in (part, whole) if each.expressions)
    if functions != ["SUM", "COUNT"] or summed is None or not plain or divisor not in (None, summed):
        return ""
    return f"AVG({short_text(summed)}) asks for a mean itself: it is the mean of each {user}'s own mean."


_WRAPPERS = frozenset({"NULLIF", "COALESCE", "IFNULL", "ROUND", "ABS", "GREATEST", "LEAST"})
"""Functions whose result is in general their first argument that is not constant."""


def _without_wrappers(node: exp.Expr, *, sums: bool = False) -> exp.Expr:
    """Return the expression in `node` that decides its value, such as COUNT(*) in 100 * NULLIF(COUNT(*), 0).

    Parentheses, casts, constant factors and functions such as NULLIF(.., 0) are removed around it, and with `sums` also
    SUM(..), which adds up released (noisy) numbers there.
    """
    match node:
        case exp.Paren() | exp.Cast():
            return _without_wrappers(node.this, sums=sums)
        case exp.Mul() if isinstance(node.this.unnest(), exp.Literal):
            return _without_wrappers(node.args["expression"], sums=sums)
        case exp.Mul() if isinstance(node.args["expression"].unnest(), exp.Literal):
            return _without_wrappers(node.this, sums=sums)
        case exp.Anonymous() if _function_name(node) in _WRAPPERS or (sums and _function_name(node) == "SUM"):
            variable = [each for each in node.expressions if not isinstance(each.unnest(), exp.Literal)]
            return _without_wrappers(variable[0], sums=sums) if variable else node
        case _:
            return node


def _function_name(node: exp.Expr) -> str:
    """Return the name of the function that `node` calls, in capitals; "" if it is no call of a function."""
    return str(node.this).upper() if isinstance(node, exp.Anonymous) else ""


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
