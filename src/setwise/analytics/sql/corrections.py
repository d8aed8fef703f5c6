"""Statements to write in place of one that is refused, nearest to it first.

Each correction rewrites what is known to be refused: MAX becomes a quantile, a window over rows is left out, GROUP BY a
user column becomes a count of users. The parser tries the candidates and shows the first that it accepts.
"""

from collections.abc import Iterator

from sqlglot import exp
from sqlglot.errors import SqlglotError

from setwise.analytics.sql.aggregates import has_aggregate
from setwise.analytics.sql.row_values import TRUNCATIONS
from setwise.analytics.sql.syntax import parse
from setwise.errors import InvalidParameter

_QUANTILES = {"MIN": "0.01", "MAX": "0.99", **dict.fromkeys(("ANY_VALUE", "MODE", "FIRST_VALUE", "LAST_VALUE"), "0.5")}
_SETS = ("rollup", "cube", "grouping_sets")
_SET_NODES = (exp.Rollup, exp.Cube, exp.GroupingSets)
_CONDITIONS = ("BOOL_OR", "BOOL_AND", "LOGICAL_OR", "LOGICAL_AND")


def corrections(text: str, user: str) -> Iterator[str]:
    """Return statements to write instead; the parser decides which of them is accepted."""
    try:
        tree, _, _ = parse(text)
    except InvalidParameter:
        return
    if not isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery):
        return
    rewritten = tree.copy()
    for node in list(rewritten.find_all(exp.Anonymous)):
        _rewrite_call(node, user)
    for select in list(rewritten.find_all(exp.Select)):
        _rewrite_select(select, user)
    yield from _written(rewritten)
    for select in list(rewritten.find_all(exp.Select)):
        _keep_countable(select)
    yield from _written(rewritten)
    yield from _simplest(tree, user)


def _written(tree: exp.Expr) -> Iterator[str]:
    try:
        yield " ".join(tree.sql(dialect="postgres").split())
    except (SqlglotError, ValueError):
        return


def _rewrite_call(node: exp.Expr, user: str) -> None:
    """Write a refused function as one that is accepted."""
    function = str(node.this).upper()
    arguments = node.expressions
    if function in _QUANTILES and arguments:
        share = exp.Literal.number(_QUANTILES[function])
        node.replace(exp.Anonymous(this="PERCENTILE_CONT", expressions=[arguments[0].copy(), share]))
    elif function in _CONDITIONS and len(arguments) == 1:
        node.replace(exp.Anonymous(this="COUNTIF", expressions=[arguments[0].copy()]))
    elif function in ("COUNT", "SUM", "AVG") and arguments and isinstance(arguments[0], exp.Distinct):
        plain = exp.Anonymous(this=function, expressions=[each.copy() for each in arguments[0].expressions[:1]])
        own = [each.name.lower() for each in arguments[0].expressions]
        if function != "COUNT" or own != [user.lower()]:
            node.replace(plain)
    elif function in TRUNCATIONS and len(arguments) == 3:
        node.set("expressions", arguments[:2])


def _rewrite_select(select: exp.Expr, user: str) -> None:
    """Leave out what a SELECT over private rows may not have, and count users where it would show them."""
    for name in ("laterals", "windows", "sample", "kind", "qualify"):
        select.set(name, None)
    for join in select.args.get("joins") or []:
        if join.args.get("side") in ("RIGHT", "FULL"):
            join.set("side", "LEFT")
        join.set("method", None)
    inner = select.parent_select is not None
    if inner:
        for name in ("limit", "offset", "order"):
            select.set(name, None)
    group = select.args.get("group")
    if group is not None:
        flat: list[exp.Expr] = []
        for each in [*group.expressions, *(each for name in _SETS for each in group.args.get(name) or [])]:
            flat += list(each.find_all(exp.Column)) if isinstance(each, _SET_NODES) else [each]
        kept = [each for each in flat if inner or each.name.lower() != user.lower()]
        select.set("group", exp.Group(expressions=kept) if kept else None)
        if not inner and len(kept) < len(flat):
            _count_users(select, user)
    elif not inner and not any(has_aggregate(each) for each in select.expressions):
        _count_users(select, user)


def _count_users(select: exp.Expr, user: str) -> None:
    """Select the columns of GROUP BY, and the number of users, in place of columns of single users."""
    group = select.args.get("group")
    columns = [] if group is None else [each.copy() for each in group.expressions]
    counted = exp.Anonymous(this="COUNT", expressions=[exp.Distinct(expressions=[exp.column(user)])])
    aggregates = [each.copy() for each in select.expressions if has_aggregate(each)]
    select.set("expressions", [*columns, *(aggregates or [exp.alias_(counted, "users")])])
    for name in ("order", "limit", "offset", "distinct"):
        select.set(name, None)


def _keep_countable(select: exp.Expr) -> None:
    """Keep the columns of GROUP BY and plain aggregates of columns, and leave out the rest."""
    group = select.args.get("group")
    kept = []
    for each in select.expressions:
        node = each.this if isinstance(each, exp.Alias) else each
        grouped = group is not None and any(node == other for other in group.expressions)
        plain = isinstance(node, exp.Anonymous) and str(node.this).upper() in ("COUNT", "SUM", "AVG", "PERCENTILE_CONT")
        if grouped or plain:
            kept.append(each)
    if kept:
        select.set("expressions", kept)
    for name in ("having", "order", "limit", "offset"):
        select.set(name, None)


def _simplest(tree: exp.Expr, user: str) -> Iterator[str]:
    """Return the number of users of the table, by the plain columns that the statement groups by."""
    table = tree.find(exp.Table)
    if table is None or not all(isinstance(part, exp.Identifier) for part in table.parts):
        return
    bare = exp.Table(**{name: table.args[name].copy() for name in ("this", "db", "catalog") if table.args.get(name)})
    group = tree.find(exp.Group)
    columns = [] if group is None else [each for each in group.expressions if isinstance(each, exp.Column)]
    names = [each.name for each in columns if each.name.lower() != user.lower()]
    counted = exp.Anonymous(this="COUNT", expressions=[exp.Distinct(expressions=[exp.column(user)])])
    for chosen in ([names] if names else []) + [[]]:
        select = exp.Select(expressions=[*map(exp.column, chosen), exp.alias_(counted.copy(), "users")])
        select.set("from_", exp.From(this=bare.copy()))
        if chosen:
            select.set("group", exp.Group(expressions=[exp.column(name) for name in chosen]))
        yield from _written(select)
