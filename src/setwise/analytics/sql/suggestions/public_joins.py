"""Statements that ask the same as a refused LEFT JOIN from a public table, or as a refused NOT IN over a public list.

Each function takes the syntax tree of a statement, and returns a new tree, or None if the construct does not occur or
the new statement would ask something else. The caller checks whether the new statement is accepted.
"""

from sqlglot import exp

from setwise.analytics.sql.aggregates import has_aggregate


def left_join_of_released(tree: exp.Expr) -> exp.Expr | None:
    """Return a statement that is accepted in place of `tree`, SELECT .. FROM public LEFT JOIN private .. GROUP BY key.

    The new statement aggregates the private rows by key in an inner SELECT, which releases noisy numbers. The outer
    SELECT takes all keys of the public table, and joins them with these numbers by LEFT JOIN. So keys without private
    rows are shown too, with the count 0. Returns None if `tree` has another form, or clauses whose meaning this would
    change.
    """
    joins = tree.args.get("joins") or []
    source = tree.args.get("from_")
    if not isinstance(tree, exp.Select) or source is None or len(joins) != 1 or tree.args.get("group") is None:
        return None
    public, join = source.this, joins[0]
    is_left = str(join.args.get("side") or "").upper() == "LEFT"
    if not is_left or not all(isinstance(table, exp.Table) for table in (public, join.this)):
        return None
    if any(tree.args.get(clause) for clause in ("where", "having", "distinct", "qualify")):
        return None
    if any(has_aggregate(each) for each in tree.find_all(exp.Ordered)):
        return None
    keys = [each for each in tree.expressions if isinstance(each.unalias(), exp.Column)]
    grouped = tree.args["group"].expressions
    if not keys or len(grouped) != len(keys):
        return None
    outer: list[exp.Expr] = []
    inner: list[exp.Expr] = []
    for place, selected in enumerate(tree.expressions):
        node, name = selected.unalias(), selected.alias_or_name if selected in keys else selected.alias
        name = name or f"value_{place}"
        if selected in keys:
            if node.table.lower() not in ("", public.alias_or_name.lower()):
                return None
            outer.append(exp.column(name, table="keys"))
            inner.append(exp.alias_(node.copy(), name))
            continue
        if not has_aggregate(node) or node.find(exp.Star) is not None:
            return None
        value: exp.Expr = exp.column(name, table="released")
        if str(node.this).upper() == "COUNT":
            value = exp.Anonymous(this="COALESCE", expressions=[value, exp.Literal.number(0)])
        outer.append(exp.alias_(value, name))
        inner.append(exp.alias_(node.copy(), name))
    released = exp.Select(expressions=inner, from_=exp.From(this=join.this.copy()))
    condition = {name: [each.copy() for each in columns] for name in ("using",) if (columns := join.args.get(name))}
    on = join.args.get("on")
    released.set("joins", [exp.Join(this=public.copy(), on=None if on is None else on.copy(), **condition)])
    released.set("group", exp.Group(expressions=[each.unalias().copy() for each in keys]))
    labels = exp.Select(
        expressions=[exp.alias_(each.unalias().copy(), each.alias_or_name) for each in keys],
        from_=exp.From(this=public.copy()),
        distinct=exp.Distinct(),
    )
    equal = [
        exp.NullSafeEQ(
            this=exp.column(each.alias_or_name, table="released"), expression=exp.column(each.alias_or_name, "keys")
        )
        for each in keys
    ]
    result = exp.Select(expressions=outer, from_=exp.From(this=_as_table(labels, "keys")))
    result.set("joins", [exp.Join(this=_as_table(released, "released"), side="LEFT", on=exp.and_(*equal))])
    for clause in ("order", "limit"):
        part = tree.args.get(clause)
        result.set(clause, None if part is None else part.copy())
    return result


def not_exists_for_not_in(tree: exp.Expr) -> exp.Expr | None:
    """Return `tree`, changed in place, with x IS NOT NULL AND NOT EXISTS (..) for x NOT IN (SELECT y FROM t WHERE ..).

    The two forms differ if a y is null, or if the SELECT has no rows and x is null. Returns None if `tree` has no such
    NOT IN.
    """
    changed = False
    for node in [each for each in tree.find_all(exp.Not) if isinstance(each.this, exp.In)]:
        column, query = node.this.this, node.this.args.get("query")
        inner = query.this if isinstance(query, exp.Subquery) else query
        outer = node.find_ancestor(exp.Select)
        if not isinstance(inner, exp.Select) or not isinstance(column, exp.Column) or outer is None:
            continue
        table = inner.args["from_"].this if inner.args.get("from_") else None
        clauses = {name for name, value in inner.args.items() if value} - {"expressions", "from_", "where", "distinct"}
        value = inner.expressions[0].unalias()
        source = outer.args.get("from_")
        if clauses or not isinstance(table, exp.Table) or not isinstance(value, exp.Column) or source is None:
            continue
        if not column.table and outer.args.get("joins"):
            continue
        of_row = exp.column(column.name, table=column.table or source.this.alias_or_name)
        match = exp.EQ(this=exp.column(value.name, table=table.alias_or_name), expression=of_row)
        where = inner.args.get("where")
        conditions = [match] if where is None else [where.this.copy(), match]
        listed = exp.Select(expressions=[exp.Literal.number(1)], from_=exp.From(this=table.copy()))
        listed.set("where", exp.Where(this=exp.and_(*conditions)))
        known = exp.Is(this=column.copy(), expression=exp.null()).not_()
        node.replace(exp.paren(exp.and_(known, exp.Exists(this=listed).not_())))
        changed = True
    return tree if changed else None


def _as_table(select: exp.Expr, name: str) -> exp.Expr:
    return exp.Subquery(this=select, alias=exp.TableAlias(this=exp.to_identifier(name)))
