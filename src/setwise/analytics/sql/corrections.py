"""Suggestions of accepted statements in place of a statement that is refused, the most similar one first.

Each suggestion rewrites constructs that are known to be refused: MAX becomes a quantile, a window over rows is dropped,
and GROUP BY the user column becomes a count of users. The parser tries the suggestions and shows the first one that it
accepts.
"""

import re
from collections.abc import Iterator

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from setwise.analytics.sql.aggregates import has_aggregate
from setwise.analytics.sql.row_values import TRUNCATIONS
from setwise.analytics.sql.syntax import parse
from setwise.analytics.sql.time_units import FORMATS, format_released
from setwise.errors import InvalidParameter

_QUANTILES = {"MIN": "0.01", "MAX": "0.99", **dict.fromkeys(("ANY_VALUE", "MODE", "FIRST_VALUE", "LAST_VALUE"), "0.5")}
_SETS = ("rollup", "cube", "grouping_sets")
_SET_NODES = (exp.Rollup, exp.Cube, exp.GroupingSets)
_CONDITIONS = ("BOOL_OR", "BOOL_AND", "LOGICAL_OR", "LOGICAL_AND")


def corrections(text: str, user: str) -> Iterator[str]:
    """Yield SQL texts that could replace the refused statement `text`; the caller checks which of them is accepted.

    `user` is the user column. If the text cannot be parsed, a shorter text that can be parsed is tried instead (see
    `_without_clauses`).
    """
    try:
        tree, _, _ = parse(text)
    except InvalidParameter:
        yield from _without_clauses(text, user)
        return
    if not isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery):
        yield from _simplest(tree, user)
        return
    about_users = tree.copy()
    for select in list(about_users.find_all(exp.Select)):
        _compare_users(select, user)
    if about_users != tree:
        yield from _sql_text(about_users)
    rewritten = tree.copy()
    for node in list(rewritten.find_all(exp.Anonymous)):
        _rewrite_call(node)
    for select in list(rewritten.find_all(exp.Select)):
        _rewrite_select(select, user)
    yield from _sql_text(rewritten)
    for select in list(rewritten.find_all(exp.Select)):
        _keep_countable(select)
    yield from _sql_text(rewritten)
    yield from _simplest(tree, user)


_CLAUSE = re.compile(r"\bSELECT\s+WITH\s+\w+(\s+OPTIONS\s*\([^()]*\))?", re.IGNORECASE)
_ANALYZE = re.compile(r"^\s*EXPLAIN\s+ANALYZE\b", re.IGNORECASE)


def _without_clauses(text: str, user: str) -> Iterator[str]:
    """Yield texts that could replace a statement which could not be parsed.

    The first is the text without a clause such as WITH DIFFERENTIAL_PRIVACY OPTIONS (..), without ANALYZE, and without
    the statements after the first. The others are corrections of that text; `user` is the user column. Yields nothing
    if that text cannot be parsed, or equals the given text.
    """
    shorter = _ANALYZE.sub("EXPLAIN", _CLAUSE.sub("SELECT", text.partition(";")[0])).strip()
    if shorter == text.strip():
        return
    try:
        parse(shorter)
    except InvalidParameter:
        return
    yield " ".join(shorter.split())
    yield from corrections(shorter, user)


def _compare_users(select: exp.Expr, user: str) -> None:
    """Change a SELECT in place so that its joins, windows and correlated conditions compare rows of the same user only.

    An equality of the user column `user` is added to the conditions of joins of a table with itself or with a subquery.
    In a subquery, the user column is also added to PARTITION BY of window functions and to a correlated condition.
    """
    source = select.args.get("from_")
    if source is None:
        return
    first = source.this.alias or source.this.name
    for join in select.args.get("joins") or []:
        joined = join.this
        same = isinstance(joined, exp.Table) and isinstance(source.this, exp.Table) and joined.name == source.this.name
        if (same or isinstance(joined, exp.Subquery)) and joined.alias and first:
            _add_condition(join, "on", _equal_users(first, joined.alias, user))
    outer = select.parent_select
    if outer is None:
        return
    for part in (*select.expressions, *(select.args[name] for name in ("qualify",) if select.args.get(name))):
        for window in part.find_all(exp.Window):
            keys = window.args.get("partition_by") or []
            if not window.args.get("alias") and all(key.name.lower() != user.lower() for key in keys):
                window.set("partition_by", [exp.column(user), *keys])
    around = outer.args.get("from_")
    where = select.args.get("where")
    name = "" if around is None else around.this.alias or around.this.name
    if where is not None and any(column.table == name for column in where.find_all(exp.Column)) and name and first:
        _add_condition(select, "where", _equal_users(first, name, user))


def _equal_users(one: str, other: str, user: str) -> exp.Expr:
    return exp.EQ(this=exp.column(user, table=one), expression=exp.column(user, table=other))


def _add_condition(node: exp.Expr, clause: str, condition: exp.Expr) -> None:
    """Add the equality `condition` to a clause of `node` with AND, in place.

    `clause` is "where", and `node` a SELECT, or `clause` is "on", and `node` a join. Nothing changes if the clause has
    this equality already (in either direction), or if the join has no ON.
    """
    known = node.args.get(clause)
    if clause == "on" and known is None:
        return
    old_condition = known.this if isinstance(known, exp.Where) else known
    turned = exp.EQ(this=condition.args["expression"].copy(), expression=condition.this.copy())
    if old_condition is not None and any(each in (condition, turned) for each in old_condition.find_all(exp.EQ)):
        return
    both = condition if old_condition is None else exp.and_(old_condition.copy(), condition)
    node.set(clause, exp.Where(this=both) if clause == "where" else both)


def _sql_text(tree: exp.Expr) -> Iterator[str]:
    try:
        yield " ".join(tree.sql(dialect="postgres", unsupported_level=ErrorLevel.IGNORE).split())
    except (SqlglotError, ValueError):
        return


def _rewrite_call(node: exp.Expr) -> None:
    """Replace the function call `node`, if its function is refused, by the nearest accepted call, in place."""
    function = str(node.this).upper()
    arguments = node.expressions
    if function in _QUANTILES and arguments:
        share = exp.Literal.number(_QUANTILES[function])
        node.replace(exp.Anonymous(this="PERCENTILE_CONT", expressions=[arguments[0].copy(), share]))
    elif function in _CONDITIONS and len(arguments) == 1:
        node.replace(exp.Anonymous(this="COUNTIF", expressions=[arguments[0].copy()]))
    elif function in ("SUM", "AVG") and arguments and isinstance(arguments[0], exp.Distinct):
        plain = exp.Anonymous(this=function, expressions=[each.copy() for each in arguments[0].expressions[:1]])
        node.replace(plain)
    elif function in FORMATS and not _is_format(function, arguments):
        times = [each for each in arguments if type(each) is not exp.Literal]
        if times:
            node.replace(times[0].copy())
    elif function in TRUNCATIONS and len(arguments) == 3:
        node.set("expressions", arguments[:2])


def _is_format(function: str, arguments: list[exp.Expr]) -> bool:
    """Return whether the call of `function`, such as TO_CHAR, with these `arguments` has a format that is supported."""
    try:
        format_released(function, arguments)
    except InvalidParameter:
        return False
    return True


def _rewrite_select(select: exp.Expr, user: str) -> None:
    """Change a refused SELECT in place: remove or replace the clauses that are not accepted over private rows.

    `user` is the user column. An outermost SELECT that would return rows of single users is changed so that it counts
    users (`_count_users`).
    """
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
        for key in [*group.expressions, *(key for name in _SETS for key in group.args.get(name) or [])]:
            columns = list(key.find_all(exp.Column))
            refused = inner or any(column.name.lower() == user.lower() for column in columns)
            flat += columns if isinstance(key, _SET_NODES) and refused else [key]
        kept = [each for each in flat if inner or each.name.lower() != user.lower()]
        select.set("group", exp.Group(expressions=kept) if kept else None)
        if not inner and len(kept) < len(flat):
            _count_users(select, user)
    elif not inner and not any(has_aggregate(each) for each in select.expressions) and not _reads_aggregates(select):
        _count_users(select, user)


def _reads_aggregates(select: exp.Expr) -> bool:
    """Return whether FROM of `select` is a subquery with aggregates; its rows then have no user column to count."""
    source = select.args.get("from_")
    inner = None if source is None else source.this
    return isinstance(inner, exp.Subquery) and any(map(has_aggregate, inner.this.expressions))


def _count_users(select: exp.Expr, user: str) -> None:
    """Change the SELECT in place so that it returns its group columns and its aggregates, and nothing else.

    If it has no aggregates, it returns the number of distinct users of each group; `user` is the user column. ORDER BY,
    LIMIT, OFFSET and DISTINCT are removed.
    """
    group = select.args.get("group")
    columns = [] if group is None else [each.copy() for each in group.expressions]
    counted = exp.Anonymous(this="COUNT", expressions=[exp.Distinct(expressions=[exp.column(user)])])
    aggregates = [each.copy() for each in select.expressions if has_aggregate(each)]
    select.set("expressions", [*columns, *(aggregates or [exp.alias_(counted, "users")])])
    for name in ("order", "limit", "offset", "distinct"):
        select.set(name, None)


def _keep_countable(select: exp.Expr) -> None:
    """Keep in a SELECT only columns of GROUP BY and plain calls such as COUNT and SUM, in place.

    HAVING, ORDER BY, LIMIT and OFFSET are removed too, because they may refer to removed columns.
    """
    group = select.args.get("group")
    kept = []
    for selected in select.expressions:
        node = selected.this if isinstance(selected, exp.Alias) else selected
        grouped = group is not None and any(node in (entry, *entry.expressions) for entry in group.expressions)
        plain = isinstance(node, exp.Anonymous) and str(node.this).upper() in ("COUNT", "SUM", "AVG", "PERCENTILE_CONT")
        if grouped or plain:
            kept.append(selected)
    if kept:
        select.set("expressions", kept)
    for name in ("having", "order", "limit", "offset"):
        select.set(name, None)


def _simplest(tree: exp.Expr, user: str) -> Iterator[str]:
    """Yield the simplest suggestions: SQL texts that return the number of users of a table that the statement reads.

    `tree` is the syntax tree of the statement, and `user` the user column. For each table, the first text counts users
    by the plain columns of the statement's GROUP BY, if it has any, and the last text counts them without groups.
    """
    common = {each.alias.lower() for each in tree.find_all(exp.CTE)}
    tables = [each for each in tree.find_all(exp.Table) if each.name.lower() not in common]
    group = tree.find(exp.Group)
    columns = [] if group is None else [each for each in group.expressions if isinstance(each, exp.Column)]
    names = [each.name for each in columns if each.name.lower() != user.lower()]
    counted = exp.Anonymous(this="COUNT", expressions=[exp.Distinct(expressions=[exp.column(user)])])
    for table in tables:
        if not all(isinstance(part, exp.Identifier) for part in table.parts):
            continue
        parts = {name: table.args[name].copy() for name in ("this", "db", "catalog") if table.args.get(name)}
        for chosen in ([names] if names else []) + [[]]:
            select = exp.Select(expressions=[*map(exp.column, chosen), exp.alias_(counted.copy(), "users")])
            select.set("from_", exp.From(this=exp.Table(**{name: part.copy() for name, part in parts.items()})))
            if chosen:
                select.set("group", exp.Group(expressions=[exp.column(name) for name in chosen]))
            yield from _sql_text(select)
