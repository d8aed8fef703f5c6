"""The kind of a SELECT over private rows: whether each of its rows is again about one user."""

from sqlglot import exp

from setwise.analytics.sql.aggregates import has_aggregate


def is_per_user(select: exp.Expr, user: str, *, top: bool) -> bool:
    """Return whether the result of `select`, over private rows, is again a table of private rows of single users.

    This is so in two cases:
    - GROUP BY or SELECT DISTINCT has the user column `user`.
    - The SELECT has no GROUP BY, DISTINCT or aggregate, so that each row of the result comes from one row.

    Returns False for the outermost SELECT (`top`), because its rows would be shown.
    """
    group = select.args.get("group")
    selected = [each.this if type(each) is exp.Alias else each for each in select.expressions]
    aggregated = any(has_aggregate(each) for each in select.expressions) or select.args.get("having") is not None
    if group is None:
        if select.args.get("distinct") and not aggregated:
            return not top and any(_is_column(each, user) for each in selected)
        return not aggregated and not top
    if top:
        return False
    if group.args.get("all"):
        return any(_is_column(each, user) for each in selected)
    for key in group.expressions:
        resolved_key = key
        if type(key) is exp.Literal and str(key.this).isdecimal() and 1 <= int(key.this) <= len(selected):
            resolved_key = selected[int(key.this) - 1]
        if _is_column(resolved_key, user):
            return True
    return False


def _is_column(node: exp.Expr, name: str) -> bool:
    inner = node.unnest()
    return type(inner) is exp.Column and inner.name.lower() == name.lower()
