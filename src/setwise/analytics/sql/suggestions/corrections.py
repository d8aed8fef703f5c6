"""Suggestions of accepted statements in place of a statement that is refused, the most similar one first.

Each suggestion rewrites constructs that are known to be refused: MAX becomes a quantile, a window over rows is dropped,
and GROUP BY the user column becomes a count of users. The parser tries the suggestions and shows the first one that it
accepts.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError

from setwise.analytics.sql.aggregates import has_aggregate
from setwise.analytics.sql.clauses import conjunction, set_where
from setwise.analytics.sql.condition_spellings import with_reachable_constants
from setwise.analytics.sql.row_values import TRUNCATIONS
from setwise.analytics.sql.suggestions.rewrites import close_statements, statements_about_values
from setwise.analytics.sql.syntax import SETS_OF_GROUPS, SETS_OF_GROUPS_NODES, parse, quote_reserved_words
from setwise.analytics.sql.time_units import FORMATS, format_released
from setwise.errors import InvalidParameter

_QUANTILES = {"MIN": "0.01", "MAX": "0.99", **dict.fromkeys(("ANY_VALUE", "FIRST_VALUE", "LAST_VALUE"), "0.5")}
_SIMILAR = 0.75
"""How similar a misspelt name must be to a column's name, from 0 to 1, to be replaced by it."""

ColumnsOf = Callable[[str], Sequence[str]]
"""A function that takes the name of a table and returns the names of its columns, none if they are not known."""

_PATTERNS = {
    **dict.fromkeys(("STARTS_WITH", "STARTSWITH", "PREFIX"), "{}%"),
    **dict.fromkeys(("ENDS_WITH", "ENDSWITH", "SUFFIX"), "%{}"),
    **dict.fromkeys(("CONTAINS", "CONTAINS_SUBSTR"), "%{}%"),
}
"""Functions of a text and a part of it, with the pattern of LIKE that asks the same of a constant part."""

_CONDITIONS = ("BOOL_OR", "BOOL_AND", "LOGICAL_OR", "LOGICAL_AND")


_MOST_TABLES = 50
"""The most tables that a statement reads for which corrections are tried: each of them copies and parses it again."""


def corrections(text: str, user: str, columns_of: ColumnsOf = lambda _: ()) -> Iterator[str]:
    """Yield SQL texts that could replace the refused statement `text`; the caller checks which of them is accepted.

    `user` is the user column, and `columns_of` returns the columns of a table by its name. If `text` cannot be parsed,
    clauses that are not supported are removed first. Yields nothing for a statement with more than `_MOST_TABLES`
    tables, which would take too long.
    """
    try:
        tree, _, _ = parse(text)
    except InvalidParameter:
        yield _OPTIONS.sub(r"\1 WITH DIFFERENTIAL_PRIVACY OPTIONS \3 \2", _PATH.sub(r"\1'\2'", text))
        yield from _without_clauses(text, user)
        return
    if not isinstance(tree, exp.Select | exp.SetOperation | exp.Subquery):
        return
    if sum(1 for _ in tree.find_all(exp.Table)) > _MOST_TABLES:
        return
    spelled = _with_known_names(tree, columns_of)
    if spelled is not None:
        yield from sql_text(spelled)
        tree = spelled
    yield from _small_changes(tree, user)
    rewritten = tree.copy()
    for node in list(rewritten.find_all(exp.Anonymous)):
        _rewrite_call(node)
    for table in list(rewritten.find_all(exp.Table)):
        table.set("sample", None)
        if table.alias_column_names:
            table.set("alias", None)
    for select in list(rewritten.find_all(exp.Select)):
        _rewrite_select(select, user)
    yield from sql_text(rewritten)
    for about_values in statements_about_values(tree):
        yield from sql_text(about_values)
    for select in list(rewritten.find_all(exp.Select)):
        if not _is_listed(select, exp.In, exp.Exists):
            _keep_countable(select)
    yield from sql_text(rewritten)


def _small_changes(tree: exp.Expr, user: str) -> Iterator[str]:
    """Yield SQL texts that could replace the refused statement `tree`; each changes one kind of construct in it.

    For example, one text adds a GROUP BY that is missing, and another replaces MIN by a quantile. `tree` itself is not
    changed. `user` is the user column.
    """
    for change in (_per_user_rows, _with_group_by, _with_public_joins):
        changed = change(tree.copy(), user)
        if changed is not None:
            yield from sql_text(changed)
    renamed = _with_user_name(tree.copy(), user)
    for close in () if renamed is None else (renamed, *close_statements(renamed)):
        yield from sql_text(close)
    turned = _turned_joins(tree.copy())
    for close in () if turned is None else (turned, *close_statements(turned)):
        yield from sql_text(close)
    if (reachable := with_reachable_constants(tree)) is not None:
        yield from sql_text(reachable)
    yield from _with_known_calls(tree)
    yield from _about_same_users(tree, user)
    yield from _quantiles_first(tree)
    for close in close_statements(tree):
        yield from sql_text(close)


def _about_same_users(tree: exp.Expr, user: str) -> Iterator[str]:
    """Yield one SQL text: the statement `tree` with joins, window functions and subqueries that compare users.

    Over private rows, joins, window functions and subqueries are accepted only if they combine rows of the same user.
    The text has further conditions and PARTITION BY clauses with the user column, `user`. Yields nothing if `tree`
    needs no change for this.
    """
    about_users = tree.copy()
    for select in list(about_users.find_all(exp.Select)):
        _compare_users(select, user)
    if about_users != tree:
        yield from sql_text(about_users)


def simplest_statements(text: str, user: str) -> Iterator[str]:
    """Yield statements that only count users, as the last suggestions for the refused statement `text`.

    `user` is the user column. Yields nothing if the text cannot be parsed.
    """
    try:
        tree, _, _ = parse(text)
    except InvalidParameter:
        return
    yield from _simplest(tree, user)


def _quantiles_first(tree: exp.Expr) -> Iterator[str]:
    """Yield the statement `tree` as SQL text with quantiles in place of MIN and MAX; nothing if it has neither."""
    changed = tree.copy()
    for node in list(changed.find_all(exp.Anonymous)):
        if str(node.this).upper() in ("MIN", "MAX"):
            _rewrite_call(node)
    if changed != tree:
        yield from sql_text(changed)


def _with_known_calls(tree: exp.Expr) -> Iterator[str]:
    """Yield the statement `tree` as SQL text with supported calls in place of refused ones; nothing if none changes.

    - STARTS_WITH(x, 'a') becomes x LIKE 'a%', and so for functions of the end or the middle of a text.
    - AGE(x, y) becomes DATE_DIFF('day', y, x), a number of days.
    - A format of dates that is not supported becomes DATE_TRUNC: TO_CHAR(x, 'WW') becomes DATE_TRUNC('week', x). The
      unit is the week if the format names weeks, and the day otherwise.
    - A format of numbers is left out: TO_CHAR(n, '999,999') becomes n.
    """
    changed = tree.copy()
    for node in list(changed.find_all(exp.Anonymous)):
        if str(node.this).upper() in (*_PATTERNS, *FORMATS, "AGE"):
            _rewrite_call(node)
    if changed != tree:
        yield from sql_text(changed)


def with_other_aliases(text: str, columns_of: ColumnsOf) -> Iterator[str]:
    """Yield the statement `text` with new names for the aliases of its SELECT list that are also columns of a table.

    For example, SELECT f(x) AS month .. GROUP BY month groups by the table's column month, if there is one, and not by
    f(x). So the alias is renamed to month_1, also in GROUP BY and ORDER BY. `columns_of` returns the columns of a table
    by its name. Yields nothing if GROUP BY and ORDER BY use no such alias, or if the text cannot be parsed.
    """
    try:
        tree = parse(text)[0]
    except InvalidParameter:
        return
    known = {name.lower() for table in tree.find_all(exp.Table) for name in columns_of(table.name)}
    changed = False
    for select in tree.find_all(exp.Select):
        clauses = [select.args[name] for name in ("group", "order") if select.args.get(name) is not None]
        taken = known | {each.alias_or_name.lower() for each in select.expressions}
        for selected in select.expressions:
            alias = selected.alias.lower() if isinstance(selected, exp.Alias) else ""
            if alias not in known or selected.this.name.lower() == alias or has_aggregate(selected):
                continue
            numbers = (number for number in range(1, len(taken) + 2) if f"{alias}_{number}" not in taken)
            name = f"{selected.alias}_{next(numbers)}"
            for clause in clauses:
                for column in list(clause.find_all(exp.Column)):
                    if column.name.lower() == alias and not column.table:
                        column.set("this", exp.to_identifier(name))
                        changed = True
            selected.set("alias", exp.to_identifier(name))
            taken.add(name.lower())
    if changed:
        yield from sql_text(tree)


def _with_known_names(tree: exp.Expr, columns_of: ColumnsOf) -> exp.Expr | None:
    """Return a copy of the statement `tree` in which the most similar known name replaces each misspelt column name.

    `columns_of` returns the known columns of a table by its name. Returns None if no unknown name is similar to a known
    one.
    """
    tree = tree.copy()
    known = [name for table in tree.find_all(exp.Table) for name in columns_of(table.name)]
    lower = {name.lower(): name for name in known}
    aliases = {each.alias.lower() for each in tree.find_all(exp.Alias)}
    changed = False
    for column in list(tree.find_all(exp.Column)) if known else ():
        name = column.name.lower()
        close = get_close_matches(name, lower, n=1, cutoff=_SIMILAR)
        if name not in lower and name not in aliases and close:
            column.set("this", exp.to_identifier(lower[close[0]]))
            changed = True
    return tree if changed else None


def _per_user_rows(tree: exp.Expr, user: str) -> exp.Expr | None:
    """Return SELECT COUNT(*), AVG(..) FROM (`tree`): the number of its rows, and the mean of each aggregate in `tree`.

    The result shows no single users, but only numbers about all of them. None if `tree` is not a SELECT that groups by
    the user column `user`. `tree` is changed in place.
    """
    group = tree.args.get("group") if isinstance(tree, exp.Select) else None
    if group is None or all(each.name.lower() != user.lower() for each in group.expressions):
        return None
    columns: list[exp.Expr] = [exp.alias_(exp.Anonymous(this="COUNT", expressions=[exp.Star()]), "users")]
    selected: list[exp.Expr] = []
    for place, expression in enumerate(tree.expressions):
        if not has_aggregate(expression):
            selected.append(expression)
            continue
        name = expression.alias or f"value_{place}"
        selected.append(exp.alias_(expression.unalias(), name))
        columns.append(exp.alias_(exp.Anonymous(this="AVG", expressions=[exp.column(name)]), f"mean_{name}"))
    tree.set("expressions", selected)
    for clause in ("order", "limit", "offset"):
        tree.set(clause, None)
    alias = exp.TableAlias(this=exp.to_identifier("per_user"))
    return exp.Select(expressions=columns, from_=exp.From(this=exp.Subquery(this=tree, alias=alias)))


def _with_user_name(tree: exp.Expr, user: str) -> exp.Expr | None:
    """Return the statement `tree` with the user column under its own name where a subquery gives it an alias.

    `user` is the user column. `tree` is changed in place. Returns None if no subquery renames the user column.
    """
    aliases = set[str]()
    for select in tree.find_all(exp.Select):
        for selected in select.expressions if select is not tree else ():
            column = selected.this if type(selected) is exp.Alias else None
            if type(column) is exp.Column and column.name.lower() == user.lower() != selected.alias.lower():
                aliases.add(selected.alias.lower())
                selected.replace(column.copy())
    for column in list(tree.find_all(exp.Column)):
        if column.name.lower() in aliases:
            column.set("this", exp.to_identifier(user))
    return tree if aliases else None


def _with_group_by(tree: exp.Expr, user: str) -> exp.Expr | None:
    """Return the statement `tree` with a GROUP BY of the columns that it selects, and COUNT(*) if it has no aggregate.

    `tree` is changed in place, and the user column `user` is no longer selected. Returns None if `tree` has a GROUP BY
    already, if it selects other expressions than columns and aggregates, or if it selects no column but the user
    column.
    """
    if not isinstance(tree, exp.Select) or tree.args.get("group") is not None:
        return None
    plain = [each for each in tree.expressions if not has_aggregate(each)]
    if not plain or not all(type(each.unalias()) is exp.Column and each.find(exp.Star) is None for each in plain):
        return None
    groups = [each.unalias() for each in plain if each.unalias().name.lower() != user.lower()]
    if not groups:
        return None
    kept = [each for each in tree.expressions if each.unalias().name.lower() != user.lower() or has_aggregate(each)]
    if len(plain) == len(tree.expressions):
        kept.append(exp.alias_(exp.Anonymous(this="COUNT", expressions=[exp.Star()]), "n"))
        tree.set("order", None)
        tree.set("limit", None)
        tree.set("distinct", None)
    tree.set("expressions", kept)
    tree.set("group", exp.Group(expressions=[each.copy() for each in groups]))
    return tree


def _with_public_joins(tree: exp.Expr, _user: str) -> exp.Expr | None:
    """Return the statement `tree` with a JOIN instead of each condition x IN (SELECT y FROM t WHERE ..) in its WHERE.

    Both forms give equal results only if every y occurs in at most one row of t. `tree` is changed in place. None if
    there is no such condition. `_user` is not used.
    """
    where = tree.args.get("where") if isinstance(tree, exp.Select) else None
    source = tree.args.get("from_")
    if where is None or source is None or not isinstance(source.this, exp.Table):
        return None
    first = source.this.alias_or_name
    kept: list[exp.Expr] = []
    joins: list[exp.Expr] = []
    for part in conjunction(where):
        node = part.unnest()
        inner = node.args["query"].this if type(node) is exp.In and node.args.get("query") is not None else None
        source = inner.args.get("from_") if isinstance(inner, exp.Select) else None
        table = None if source is None else source.this
        is_plain = isinstance(table, exp.Table) and type(node.this) is exp.Column
        clauses = {name for name, value in (inner.args if inner is not None else {}).items() if value}
        if inner is None or table is None or not is_plain or clauses - {"expressions", "from_", "where", "distinct"}:
            kept.append(part)
            continue
        name = table.alias_or_name
        for column in inner.find_all(exp.Column):
            column.set("table", exp.to_identifier(name))
        key = exp.column(node.this.name, table=node.this.table or first)
        joins.append(exp.Join(this=table.copy(), on=exp.EQ(this=key, expression=inner.expressions[0].unalias().copy())))
        kept += [] if inner.args.get("where") is None else [inner.args["where"].this.copy()]
    if not joins:
        return None
    tree.set("joins", [*(tree.args.get("joins") or []), *joins])
    set_where(tree, kept)
    return tree


def with_paths(candidate: str, text: str) -> str:
    """Return the SQL text `candidate` with file paths written as in `text`, the statement that it replaces.

    The parser reads a path in quotes as a qualified name, so that FROM 'users.csv' became FROM "users"."csv" in
    `candidate`; this is undone.
    """
    for path in re.findall(r"""(?<=['"])[^'"]+\.[^'"]+(?=['"])""", text):
        candidate = candidate.replace(".".join(f'"{part}"' for part in path.split(".")), f"'{path}'")
    return candidate


_PATH = re.compile(r"(?i)(\b(?:FROM|JOIN)\s+)((?:[\w.~:-]*[/\\])+[\w.-]+|[\w.]*-[\w.-]*[.]\w+)")
"""A path without quotes after FROM or JOIN: the words before it, and the path."""
_OPTIONS = re.compile(
    r"^\s*((?:EXPLAIN\s+)?SELECT)\s+(.*?)\s+(?:WITH\s+DIFFERENTIAL_PRIVACY\s+)?OPTIONS\s*(\([^()]*\))\s*;?\s*$",
    re.IGNORECASE | re.DOTALL,
)
"""A statement that ends with OPTIONS (..): its word SELECT, what stands between the two, and the options."""
_CLAUSE = re.compile(r"\bSELECT\s+WITH\s+\w+(\s+OPTIONS\s*\([^()]*\))?", re.IGNORECASE)
_TOP = re.compile(r"\b(TOP\s+\(?\d+\)?)\s+(PERCENT|WITH\s+TIES)\b", re.IGNORECASE)
_ANALYZE = re.compile(r"^\s*EXPLAIN\s+ANALYZE\b", re.IGNORECASE)


def _without_clauses(text: str, user: str) -> Iterator[str]:
    """Yield SQL texts that could replace the statement `text`, which cannot be parsed; `user` is the user column.

    Two repairs are tried, and the result of each is followed by its `corrections`:
    - double quotes around column names that are reserved words;
    - removal of clauses that are not supported, such as PERCENT after TOP n, and of all statements but the first.

    A repair is left out if it changes nothing, or if its result cannot be parsed either.
    """
    quoted, words = quote_reserved_words(text)
    if words:
        yield quoted
        yield from corrections(quoted, user)
    shorter = _TOP.sub(r"\1", _ANALYZE.sub("EXPLAIN", _CLAUSE.sub("SELECT", text.partition(";")[0]))).strip()
    if shorter == text.strip():
        return
    try:
        parse(shorter)
    except InvalidParameter:
        return
    yield " ".join(shorter.split())
    yield from corrections(shorter, user)


def _compare_users(select: exp.Expr, user: str) -> None:
    """Change `select`, in place, where it may combine rows of different users; `user` is the user column.

    - A join of the first table with itself or with a subquery also requires equal users, if the joined table or
      subquery has an alias. A join that compares users with <, >, <=, >= or <> is left as it is.
    - If `select` is a subquery, its windows are partitioned by user. If its WHERE also names the first table of the
      SELECT around it (a correlated subquery), that WHERE requires equal users too.
    """
    source = select.args.get("from_")
    if source is None:
        return
    first = source.this.alias or source.this.name
    for join in select.args.get("joins") or []:
        joined = join.this
        same = isinstance(joined, exp.Table) and isinstance(source.this, exp.Table) and joined.name == source.this.name
        pairs = join.find_all(exp.NEQ, exp.LT, exp.GT, exp.LTE, exp.GTE)  # of different users, never of one
        if any(column.name.lower() == user.lower() for pair in pairs for column in pair.find_all(exp.Column)):
            continue
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
    """Add the equality `condition` with AND to WHERE of a SELECT, or to ON of a join, in place.

    `node` is the SELECT if `clause` is "where", and the join if `clause` is "on". Nothing changes if the clause has
    this equality already (with its sides in any order), or if the join has no ON.
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


def sql_text(tree: exp.Expr) -> Iterator[str]:
    """Yield the SQL text of the syntax tree `tree` in one line; nothing if it cannot be written."""
    try:
        yield " ".join(tree.sql(dialect="postgres", unsupported_level=ErrorLevel.IGNORE).split())
    except (SqlglotError, ValueError):
        return


def _rewrite_call(node: exp.Expr) -> None:
    """Replace the refused function call `node`, in place, by a similar call that is supported.

    For example, MIN becomes a quantile, and BOOL_OR becomes COUNTIF. A call without a known replacement is not changed.
    """
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
        written = "".join(str(each.this) for each in arguments if type(each) is exp.Literal)
        unit = "week" if re.search(r"W|%[UuVW]", written) else "day"
        if times and re.search("[09]", written):
            node.replace(times[0].copy())  # the format of a number, as in TO_CHAR(n, '999,999')
        elif times:
            start = [exp.Literal.string(unit), times[0].copy()]
            node.replace(exp.Anonymous(this="DATE_TRUNC", expressions=start))
    elif function in _PATTERNS and len(arguments) == 2 and arguments[1].is_string:
        text = re.sub(r"([%_\\])", r"\\\1", str(arguments[1].this))
        node.replace(
            exp.Like(this=arguments[0].copy(), expression=exp.Literal.string(_PATTERNS[function].format(text)))
        )
    elif function == "AGE" and len(arguments) in (1, 2):
        until = exp.CurrentDate() if len(arguments) == 1 else arguments[0].copy()
        days = [exp.Literal.string("day"), arguments[-1].copy(), until]
        node.replace(exp.Anonymous(this="DATE_DIFF", expressions=days))
    elif function in TRUNCATIONS and len(arguments) == 3:
        node.set("expressions", arguments[:2])


def _is_format(function: str, arguments: list[exp.Expr]) -> bool:
    """Return whether a call of `function`, such as TO_CHAR, with `arguments` writes dates in a supported format."""
    try:
        format_released(function, arguments)
    except InvalidParameter:
        return False
    return True


def _rewrite_select(select: exp.Expr, user: str) -> None:
    """Remove or replace, in place, the clauses of `select` that are not accepted over private rows.

    If `select` is the outermost SELECT and would return rows of single users, it counts users instead. `user` is the
    user column.
    """
    for name in ("laterals", "windows", "sample", "kind", "qualify"):
        select.set(name, None)
    for join in select.args.get("joins") or []:
        join.set("method", None)
    inner = select.parent_select is not None
    if inner and not _is_listed(select, exp.In):
        for name in ("limit", "offset", "order"):
            select.set(name, None)
    group = select.args.get("group")
    if group is not None:
        flat: list[exp.Expr] = []
        for key in [*group.expressions, *(key for name in SETS_OF_GROUPS for key in group.args.get(name) or [])]:
            columns = list(key.find_all(exp.Column))
            refused = inner or any(column.name.lower() == user.lower() for column in columns)
            flat += columns if isinstance(key, SETS_OF_GROUPS_NODES) and refused else [key]
        kept = [each for each in flat if inner or each.name.lower() != user.lower()]
        select.set("group", exp.Group(expressions=kept) if kept else None)
        if not inner and len(kept) < len(flat):
            _count_users(select, user)
    elif not inner and not any(has_aggregate(each) for each in select.expressions) and not _reads_aggregates(select):
        _count_users(select, user)


def _is_listed(select: exp.Expr, *kinds: type[exp.Expr]) -> bool:
    """Return whether `select` is the subquery of a condition of one of these `kinds`, such as IN and EXISTS.

    Callers change less in such a subquery than in other ones, because its condition needs it as it is: they keep the
    columns of a subquery of IN or EXISTS, and the ORDER BY and LIMIT of a subquery of IN.
    """
    parent = select.parent.parent if isinstance(select.parent, exp.Subquery) else select.parent
    return isinstance(parent, kinds)


def _turned_joins(tree: exp.Expr) -> exp.Expr | None:
    """Return `tree`, changed in place, with its FROM a RIGHT JOIN b written as FROM b LEFT JOIN a, which is equal.

    Further corrections are then tried on the result, because they know LEFT JOIN only. Returns None unless `tree` has
    exactly one join, a RIGHT JOIN. Also returns None if the SELECT has a *, whose columns would change their order.
    """
    joins = tree.args.get("joins") or []
    source = tree.args.get("from_")
    if source is None or len(joins) != 1 or str(joins[0].args.get("side") or "").upper() != "RIGHT":
        return None
    if any(isinstance(each, exp.Star) for each in tree.expressions):
        return None
    first, second = source.this.copy(), joins[0].this.copy()
    source.set("this", second)
    joins[0].set("this", first)
    joins[0].set("side", "LEFT")
    return tree


def _reads_aggregates(select: exp.Expr) -> bool:
    """Return whether FROM of `select` is a subquery with aggregates.

    Such a subquery may have no user column in its result, so that the correction cannot count users in its rows.
    """
    source = select.args.get("from_")
    inner = None if source is None else source.this
    return isinstance(inner, exp.Subquery) and any(map(has_aggregate, inner.this.expressions))


def _count_users(select: exp.Expr, user: str) -> None:
    """Change `select` in place so that it returns only its group columns and its aggregates, and no single users.

    If it has no aggregates, the number of distinct users in each group is added; `user` is the user column. ORDER BY,
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
    """Remove all columns of `select`, in place, except columns of GROUP BY and calls of COUNT, SUM, AVG or a quantile.

    If no column would be left, all columns stay. HAVING, ORDER BY, LIMIT and OFFSET are removed too, because they may
    refer to removed columns.
    """
    group = select.args.get("group")
    kept = []
    for place, selected in enumerate(select.expressions, start=1):
        node = selected.this if isinstance(selected, exp.Alias) else selected
        names = [] if group is None else [entry.name.lower() for entry in group.expressions]
        grouped = group is not None and any(node in (entry, *entry.expressions) for entry in group.expressions)
        grouped = grouped or selected.alias_or_name.lower() in names or str(place) in names
        plain = isinstance(node, exp.Anonymous) and str(node.this).upper() in ("COUNT", "SUM", "AVG", "PERCENTILE_CONT")
        if grouped or plain:
            kept.append(selected)
    if kept:
        select.set("expressions", kept)
    for name in ("having", "order", "limit", "offset"):
        select.set(name, None)


def _simplest(tree: exp.Expr, user: str) -> Iterator[str]:
    """Yield the simplest suggestions: SQL texts that count the distinct users of one table that the statement reads.

    There is one such text for every table, a count of all its users. If the statement groups by columns of the table, a
    count of users per group is yielded before it. `tree` is the syntax tree of the statement, and `user` the user
    column.
    """
    common = {each.alias.lower() for each in tree.find_all(exp.CTE)}
    tables = [each for each in tree.find_all(exp.Table) if each.name.lower() not in common]
    group = tree.find(exp.Group)
    columns = [] if group is None else [each for each in group.expressions if isinstance(each, exp.Column)]
    columns = [each for each in columns if each.name.lower() != user.lower()]
    counted = exp.Anonymous(this="COUNT", expressions=[exp.Distinct(expressions=[exp.column(user)])])
    seen = set[tuple[object, ...]]()
    for table in tables:
        if not all(isinstance(part, exp.Identifier) for part in table.parts):
            continue
        parts = {name: table.args[name].copy() for name in ("this", "db", "catalog") if table.args.get(name)}
        # A column of another table would make a statement that fails.
        names = [each.name for each in columns if each.table.lower() in ("", table.alias_or_name.lower())]
        key = (*(part.name for part in table.parts), *names)
        if key in seen:
            continue
        seen.add(key)
        for chosen in ([names] if names else []) + [[]]:
            select = exp.Select(expressions=[*map(exp.column, chosen), exp.alias_(counted.copy(), "users")])
            select.set("from_", exp.From(this=exp.Table(**{name: part.copy() for name, part in parts.items()})))
            if chosen:
                select.set("group", exp.Group(expressions=[exp.column(name) for name in chosen]))
            yield from sql_text(select)
