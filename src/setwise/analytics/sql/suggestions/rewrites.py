"""Statements close to a refused one: each replaces a refused construct by a similar construct that is answered.

Each function takes the syntax tree of a statement, and returns a new tree, or None if the construct does not occur. The
caller checks whether the new statement is accepted.
"""

from collections.abc import Iterator, Sequence

from sqlglot import exp

from setwise.analytics.sql.aggregates import has_aggregate, is_aggregate
from setwise.analytics.sql.clauses import conjunction, set_where
from setwise.analytics.sql.suggestions.public_joins import left_join_of_released, not_exists_for_not_in
from setwise.analytics.statistics.statistic import GROUP_BOUNDS

_TEXT_AGGREGATES = (
    "ANY_VALUE", "MODE", "STRING_AGG", "LISTAGG", "GROUP_CONCAT", "ARRAY_AGG", "FIRST_VALUE", "LAST_VALUE", "MIN",
    "MAX", "FIRST", "LAST", "ARBITRARY", "LIST", "HISTOGRAM", "APPROX_TOP_COUNT", "APPROX_TOP_K", "MAX_BY", "MIN_BY",
    "ARG_MAX", "ARG_MIN",
)  # fmt: skip
"""Aggregates that show values of single users; the values themselves can be counted instead."""

_SPLITS = ("STRING_SPLIT", "STRING_TO_ARRAY", "STR_SPLIT", "SPLIT", "REGEXP_SPLIT_TO_TABLE")


def close_statements(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Yield syntax trees of statements that ask nearly what `tree` asks; each replaces one construct that is refused.

    `tree` itself is not changed.
    """
    rewrites = (
        left_join_of_released, not_exists_for_not_in, _without_split, _lateral_values, _united_aggregates,
        _grouped_subquery, _grouped_window, _without_time_zones, _whole_groups, _with_limits_on_values,
    )  # fmt: skip
    return (changed for rewrite in rewrites if (changed := rewrite(tree.copy())) is not None)


def statements_about_values(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Yield syntax trees of statements to ask instead of `tree`, a statement that shows values of single users.

    - Instead of MIN and MAX of a time: the first and the last month among the released (noisy) counts by month.
    - Instead of values, as in ANY_VALUE(x) or STRING_AGG(x): the number of rows with each value.

    `tree` itself is not changed.
    """
    rewrites = (_period_of_times, _counted_values)
    return (changed for rewrite in rewrites if (changed := rewrite(tree.copy())) is not None)


def _call(name: str, *arguments: exp.Expr) -> exp.Expr:
    return exp.Anonymous(this=name, expressions=list(arguments))


def _function(node: exp.Expr) -> str:
    if isinstance(node, exp.GroupConcat):
        return "STRING_AGG"
    return str(node.this).upper() if isinstance(node, exp.Anonymous) else ""


def _argument(node: exp.Expr) -> exp.Expr | None:
    """Return the first argument of the aggregate call `node`, without DISTINCT and ORDER BY; None if it has none."""
    first = node.this if isinstance(node, exp.GroupConcat) else next(iter(node.expressions), None)
    while isinstance(first, exp.Distinct | exp.Order):
        first = first.this if isinstance(first, exp.Order) else next(iter(first.expressions), None)
    return first


def _count_of_rows() -> exp.Expr:
    return exp.alias_(_call("COUNT", exp.Star()), "n")


def _group_keys(select: exp.Expr) -> list[exp.Expr]:
    """Return the expressions in GROUP BY of `select`; a number or alias is replaced by the expression it refers to."""
    group = select.args.get("group")
    aliases = {each.alias.lower(): each.this for each in select.expressions if isinstance(each, exp.Alias)}
    keys = []
    for key in [] if group is None else group.expressions:
        place = int(key.name) - 1 if isinstance(key, exp.Literal) and key.name.isdecimal() else -1
        if 0 <= place < len(select.expressions):
            keys.append(select.expressions[place].unalias())
        else:
            keys.append(aliases.get(key.name.lower(), key) if isinstance(key, exp.Column) and not key.table else key)
    return keys


def _with_limits_on_values(tree: exp.Expr) -> exp.Expr | None:
    """Return `tree`, changed in place, with bounds of counts of distinct values that are accepted; None if it has none.

    The call keeps one bound n, the greatest number among its named arguments: contribution_bounds_per_group => (0, n).
    A call whose named arguments have no number keeps none of them, so that a search finds the bound.
    """
    changed = False
    for call in list(tree.find_all(exp.Anonymous)):
        named = [each for each in call.expressions if type(each) is exp.Kwarg]
        plain = [each for each in call.expressions if type(each) is not exp.Kwarg]
        is_distinct = any(isinstance(each, exp.Distinct) for each in plain) or "DISTINCT" in _function(call)
        if named and is_distinct:
            numbers = [each.name for argument in named for each in argument.find_all(exp.Literal)]
            most = max((int(number) for number in numbers if number.isdecimal()), default=0)
            pair = exp.Tuple(expressions=[exp.Literal.number(0), exp.Literal.number(most)])
            bounds = exp.Kwarg(this=exp.Var(this=GROUP_BOUNDS), expression=pair)
            call.set("expressions", [*plain, bounds] if most else plain)
            changed = True
    return tree if changed else None


def _without_time_zones(tree: exp.Expr) -> exp.Expr | None:
    """Return `tree`, changed in place, without AT TIME ZONE, so that times are in UTC; None if it has none."""
    zones = list(tree.find_all(exp.AtTimeZone))
    for zone in zones:
        zone.replace(zone.this.copy())
    return tree if zones else None


def _whole_groups(tree: exp.Expr) -> exp.Expr | None:
    """Return `tree`, changed in place, with FLOOR(x / 10) in place of each quotient such as x / 10 in GROUP BY.

    A quotient is a fraction, so that almost every row would be a group of its own. Equal quotients elsewhere in the
    statement are replaced, too. Returns None if GROUP BY of the statement has no quotient.
    """
    if not isinstance(tree, exp.Select):
        return None
    quotients = [key.copy() for key in _group_keys(tree) if isinstance(key, exp.Div)]
    for node in list(tree.find_all(exp.Div)):
        if node in quotients:
            node.replace(exp.Floor(this=node.copy()))
    return tree if quotients else None


def _without_split(tree: exp.Expr) -> exp.Expr | None:
    """Return `tree`, changed in place, with x instead of UNNEST(STRING_SPLIT(x, ..)) in the SELECT list or in FROM.

    The rewritten query counts each text as a whole, and not its parts. Returns None if `tree` has no such call.
    """
    names: dict[str, exp.Expr] = {}
    for join in [each for each in tree.find_all(exp.Join) if isinstance(each.this, exp.Unnest)]:
        column = join.this.find(exp.Column)
        select = join.parent
        if column is None or select is None:
            return None
        names |= {name.lower(): column for name in (*join.this.alias_column_names, join.this.alias)}
        select.set("joins", [each for each in select.args["joins"] if each is not join] or None)
    for reference in list(tree.find_all(exp.Column)):
        if reference.name.lower() in names:
            reference.replace(names[reference.name.lower()].copy())
    calls = [node for node in tree.find_all(exp.Anonymous) if _function(node) in ("UNNEST", *_SPLITS)]
    for call in calls:
        column = call.find(exp.Column)
        if column is not None and call.parent is not None and _function(call.parent) != "UNNEST":
            call.replace(column.copy())
    return tree if names or calls else None


def _lateral_values(tree: exp.Expr) -> exp.Expr | None:
    """Return a UNION ALL with one SELECT for each row of CROSS JOIN LATERAL (VALUES ..) AS v(k, x) in `tree`.

    For VALUES ('a', y), ('b', z), the first SELECT has 'a' and y in place of k and x, and the second 'b' and z, also in
    GROUP BY. ORDER BY and LIMIT are removed. Returns None unless `tree` is a SELECT with such a join.
    """
    joins = tree.args.get("joins") or []
    lateral = next((each for each in joins if each.find(exp.Values) is not None), None)
    values = None if lateral is None else lateral.find(exp.Values)
    alias = None if lateral is None else lateral.this.args.get("alias")
    if values is None or alias is None or not alias.columns or not isinstance(tree, exp.Select):
        return None
    names = [column.name.lower() for column in alias.columns]
    selects: list[exp.Expr] = []
    for row in values.expressions:
        single = tree.copy()
        single.set("joins", [each.copy() for each in joins if each is not lateral] or None)
        for clause in ("order", "limit"):
            single.set(clause, None)
        cells = dict(zip(names, row.expressions, strict=False))
        kept = [key for key in _group_keys(single) if key.name.lower() not in names]
        single.set("group", exp.Group(expressions=[key.copy() for key in kept]) if kept else None)
        for column in list(single.find_all(exp.Column)):
            if column.name.lower() in cells and column.table.lower() in ("", alias.name.lower()):
                cell = cells[column.name.lower()].copy()
                is_named = isinstance(column.parent, exp.Select)
                column.replace(exp.alias_(cell, column.name) if is_named else cell)
        selects.append(single)
    return _unite(selects)


def _unite(selects: Sequence[exp.Expr]) -> exp.Expr:
    united = selects[0]
    for select in selects[1:]:
        united = exp.Union(this=united, expression=select, distinct=False)
    return united


def _united_aggregates(tree: exp.Expr) -> exp.Expr | None:
    """Return a statement that sums noisy numbers in place of `tree`, a SELECT with COUNT or SUM over a UNION ALL.

    COUNT and SUM are computed over each side of the UNION ALL of private rows, and the outer SELECT adds up these
    released (noisy) numbers. Returns None if `tree` has another form, other aggregates, or a HAVING.
    """
    source = tree.args.get("from_") if isinstance(tree, exp.Select) else None
    union = source.this.this if source is not None and isinstance(source.this, exp.Subquery) else None
    if source is None or not isinstance(union, exp.Union) or tree.args.get("joins") or tree.args.get("having"):
        return None
    if union.args.get("distinct"):  # removes rows that both sides have, which sums of both sides would count twice
        return None
    keys = _group_keys(tree)
    inner: list[exp.Expr] = []
    outer: list[exp.Expr] = []
    for place, selected in enumerate(tree.expressions):
        node, name = selected.unalias(), selected.alias_or_name
        if _function(node) in ("COUNT", "SUM") and not node.find(exp.Distinct):
            name = selected.alias or f"value_{place}"
            inner.append(exp.alias_(node.copy(), name))
            outer.append(exp.alias_(_call("SUM", exp.column(name)), name))
        elif node in keys and name:
            inner.append(exp.alias_(node.copy(), name))
            outer.append(exp.column(name))
        else:
            return None
    grouped = [each for each in outer if isinstance(each, exp.Column)]
    selects: list[exp.Expr] = []
    for side in (union.this, union.args["expression"]):
        single = exp.Select(expressions=[each.copy() for each in inner])
        alias = source.this.args.get("alias") or exp.TableAlias(this=exp.to_identifier("side"))
        single.set("from_", exp.From(this=exp.Subquery(this=side.copy(), alias=alias.copy())))
        where = tree.args.get("where")
        single.set("where", None if where is None else where.copy())
        single.set("group", exp.Group(expressions=[key.copy() for key in keys]) if keys else None)
        selects.append(single)
    rows = exp.Subquery(this=_unite(selects), alias=exp.TableAlias(this=exp.to_identifier("sides")))
    result = exp.Select(expressions=outer, from_=exp.From(this=rows))
    result.set("group", exp.Group(expressions=[each.copy() for each in grouped]) if grouped else None)
    return result


def _grouped_subquery(tree: exp.Expr) -> exp.Expr | None:
    """Return a statement that asks for all groups at once what a correlated subquery of `tree` asks for each outer row.

    For example, (SELECT COUNT(*) FROM t p WHERE p.g = o.g) asks for the count of one group g for each row o of the
    outer table. The result is then SELECT g, COUNT(*) FROM t p GROUP BY g. It is made from the first scalar subquery
    that has an aggregate and compares its columns with the outer table. None if there is no such subquery.
    """
    for subquery in [each for each in tree.find_all(exp.Subquery) if isinstance(each.parent, exp.Select | exp.Alias)]:
        inner = subquery.this
        where = inner.args.get("where") if isinstance(inner, exp.Select) else None
        source = inner.args.get("from_") if isinstance(inner, exp.Select) else None
        if where is None or source is None or not any(map(has_aggregate, inner.expressions)):
            continue
        inner_table = source.this.alias_or_name.lower()
        keys, kept = [], []
        for part in conjunction(where):
            columns = [part.this, part.args.get("expression")] if isinstance(part, exp.EQ) else []
            tables = [each.table.lower() if isinstance(each, exp.Column) else "" for each in columns]
            if inner_table in tables and any(table not in ("", inner_table) for table in tables):
                keys.append(columns[tables.index(inner_table)])
            else:
                kept.append(part)
        if not keys:
            continue
        select: exp.Expr = inner.copy()
        select.set("expressions", [*(key.copy() for key in keys), *select.expressions])
        set_where(select, [part.copy() for part in kept])
        select.set("group", exp.Group(expressions=[key.copy() for key in keys]))
        return select
    return None


def _grouped_window(tree: exp.Expr) -> exp.Expr | None:
    """Return SELECT g, AVG(x) .. GROUP BY g if `tree` selects AVG(x) OVER (PARTITION BY g), which is refused.

    `tree` is changed in place. Of its columns, only aggregates with OVER (without this OVER) and the columns of their
    PARTITION BY remain, and ORDER BY, LIMIT and DISTINCT are removed. Returns None if `tree` selects no aggregate with
    OVER, or has a GROUP BY already.
    """
    if not isinstance(tree, exp.Select) or tree.args.get("group") is not None:
        return None
    windows = [each for each in tree.expressions if isinstance(each.unalias(), exp.Window)]
    aggregates = [each for each in windows if is_aggregate(each.unalias().this)]
    if not aggregates:
        return None
    keys = list(dict.fromkeys(key for each in aggregates for key in each.unalias().args.get("partition_by") or ()))
    calls = [(each.unalias().this.copy(), each.alias) for each in aggregates]
    shown = [exp.alias_(call, alias) if alias else call for call, alias in calls]
    tree.set("expressions", [*(key.copy() for key in keys), *shown])
    tree.set("group", exp.Group(expressions=[key.copy() for key in keys]) if keys else None)
    for clause in ("order", "limit", "offset", "qualify", "distinct"):
        tree.set(clause, None)
    return tree


def _period_of_times(tree: exp.Expr) -> exp.Expr | None:
    """Return a statement with the first and last month that is released, in place of MIN(x) and MAX(x) of a time x.

    The statement counts private rows by month, and takes the least and greatest month of the noisy result. Aggregates
    other than MIN, MAX and COUNT(*) are left out. Returns None if MIN and MAX in `tree` do not all have the same
    argument, or if `tree` has a HAVING or a column that is not grouped.
    """
    if not isinstance(tree, exp.Select) or tree.args.get("having") or tree.args.get("from_") is None:
        return None
    calls = [
        node for each in tree.expressions for node in each.find_all(exp.Anonymous) if _function(node) in ("MIN", "MAX")
    ]
    arguments = list(dict.fromkeys(argument for call in calls if (argument := _argument(call)) is not None))
    if len(arguments) != 1:
        return None
    keys = _group_keys(tree)
    inner: list[exp.Expr] = []
    outer: list[exp.Expr] = []
    for place, selected in enumerate(tree.expressions):
        node, function = selected.unalias(), _function(selected.unalias())
        name = selected.alias or (
            node.name if isinstance(node, exp.Column) else f"{function.lower() or 'value'}_{place}"
        )
        if node in keys:
            inner.append(exp.alias_(node.copy(), name))
            outer.append(exp.column(name))
        elif function in ("MIN", "MAX"):
            outer.append(exp.alias_(_call(function, exp.column("month")), name))
        elif function == "COUNT" and isinstance(_argument(node), exp.Star):
            outer.append(exp.alias_(_call("SUM", exp.column("n")), name))
        elif not has_aggregate(node):
            return None
    groups = [each.copy() for each in outer if isinstance(each, exp.Column)]
    month = exp.alias_(_call("DATE_TRUNC", exp.Literal.string("month"), arguments[0].copy()), "month")
    months = tree.copy()
    months.set("expressions", [*inner, month, _count_of_rows()])
    months.set("group", exp.Group(expressions=[*(key.copy() for key in keys), exp.column("month")]))
    for clause in ("order", "limit", "offset"):
        months.set(clause, None)
    rows = exp.Subquery(this=months, alias=exp.TableAlias(this=exp.to_identifier("months")))
    result = exp.Select(expressions=outer, from_=exp.From(this=rows))
    result.set("group", exp.Group(expressions=groups) if groups else None)
    return result


def _counted_values(tree: exp.Expr) -> exp.Expr | None:
    """Return `tree` with x in place of an aggregate such as STRING_AGG(x) or ANY_VALUE(x), and grouped by x as well.

    COUNT(*) is added if no other aggregate is left. `tree` itself is changed, and its ORDER BY, LIMIT and HAVING are
    removed. Returns None if `tree` is not a SELECT with such an aggregate, or if it has window functions.
    """
    if not isinstance(tree, exp.Select):
        return None
    keys = [key.copy() for key in _group_keys(tree)]
    shown: list[exp.Expr] = []
    added = False
    for selected in tree.expressions:
        node = selected.unalias()
        inner = node.this if isinstance(node, exp.WithinGroup) else node
        argument = _argument(inner) if _function(inner) in _TEXT_AGGREGATES else None
        if argument is None:
            shown.append(selected.copy())
            continue
        added = True
        if argument not in [each.unalias() for each in shown]:
            shown.append(argument.copy())
        keys += [] if argument in keys else [argument.copy()]
    if not added or any(node.find(exp.Window) for node in shown):
        return None
    if not any(map(has_aggregate, shown)):
        shown.append(_count_of_rows())
    tree.set("expressions", shown)
    tree.set("group", exp.Group(expressions=keys))
    for clause in ("order", "limit", "offset", "having"):
        tree.set(clause, None)
    return tree
