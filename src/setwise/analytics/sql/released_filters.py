"""Conditions on private rows that compare with released (noisy) groups, as BI tools write to limit a chart's series.

For example, `WHERE x IN (SELECT x .. GROUP BY x ORDER BY COUNT(*) DESC LIMIT 10)` keeps only rows whose x is in the
noisy top 10. `JOIN (SELECT x, COUNT(*) .. LIMIT 10) t ON a.x = t.x` does the same. In WHERE, such a condition would
make one private query depend on the answer of another. But all queries of a statement are charged together, before any
has an answer. If the SELECT around the condition groups by x, there is a way out: all groups x are released, and groups
outside of the top 10 are then dropped. So this module moves the condition to HAVING, which is applied to released rows.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from setwise.analytics.sql.clauses import conjunction, set_where
from setwise.analytics.sql.grouping_sets import has_grouping_sets, resolve_group_column


@dataclass(frozen=True, slots=True)
class ReleasedColumns:
    """The columns of a table of released (noisy) rows.

    - `names` are the names of all columns.
    - `keys` are the names of the columns with group keys. Two rows always differ in at least one of these columns, so
      that a join that compares all of them matches at most one row. The set is empty if the table lacks one of its
      group keys, or if its group keys are not known.
    """

    names: tuple[str, ...]
    keys: frozenset[str] = frozenset()


ReleasedNames = Callable[[exp.Expr], ReleasedColumns | None]
"""A function that returns the columns of a node in FROM or IN if it stands for released rows, and None if not."""


def grouped_columns(select: exp.Expr) -> ReleasedColumns:
    """Return the result columns of `select`, which has GROUP BY over private rows: all names, and the group keys.

    The rows of its result are released (noisy) rows, with one row per group.
    """
    names = tuple(each.alias_or_name for each in select.expressions)
    selected = [each.unalias().unnest() for each in select.expressions]
    group = select.args["group"]
    columns = [resolve_group_column(each, select).unnest() for each in group.expressions]
    if has_grouping_sets(select) or not columns or any(column not in selected for column in columns):
        return ReleasedColumns(names)
    return ReleasedColumns(names, frozenset(names[selected.index(column)] for column in columns))


def move_released_conditions(select: exp.Expr, released_names: ReleasedNames) -> None:
    """Move conditions and joins that compare with released groups to HAVING of `select`, in place.

    Released groups are groups in the noisy result of another private query of the statement, such as the ten largest
    cities in WHERE city IN (SELECT city FROM top). In WHERE, the condition would make the private query of `select`
    depend on that result. But both queries are charged together, before either has a result. HAVING is applied to noisy
    results, when both are known.

    Only joins and conditions that compare group columns of `select` are moved. `released_names(node)` returns the
    columns of a syntax node that stands for released groups, and None for other nodes.
    """
    group = select.args.get("group")
    if group is None:
        return
    groups = [resolve_group_column(each, select).unnest() for each in group.expressions]
    conditions = _from_where(select, groups, released_names) + _from_joins(select, groups, released_names)
    if conditions:
        having = select.args.get("having")
        known = [] if having is None else [exp.paren(having.this)]
        select.set("having", exp.Having(this=exp.and_(*known, *conditions, copy=False)))


def _from_where(select: exp.Expr, groups: Sequence[exp.Expr], released_names: ReleasedNames) -> list[exp.Expr]:
    """Remove the conditions of WHERE that compare group columns with released rows, in place; return the conditions.

    `groups` are the group columns of `select`. Released rows are noisy results of a private query.
    `released_names(node)` returns the columns of a syntax node that stands for released rows, and None for other nodes.
    """
    parts = conjunction(select.args.get("where"))
    moved = [part for part in parts if _compares_groups(part, groups, released_names)]
    kept = [part for part in parts if all(part is not other for other in moved)]
    if moved:
        set_where(select, kept)
    return moved


def _compares_groups(node: exp.Expr, groups: Sequence[exp.Expr], released_names: ReleasedNames) -> bool:
    """Return whether the condition `node` is x IN (SELECT ..), or NOT IN, where the SELECT reads released (noisy) rows.

    In a SELECT with GROUP BY city, for example, this holds for city IN (SELECT city FROM top), where top is a private
    query with a LIMIT. x must be one of the group columns `groups`, or a tuple of them. `released_names(node)` returns
    the columns of a syntax node that stands for released rows, and None for other nodes.
    """
    inner = node.unnest()
    if type(inner) is exp.Not:
        return _compares_groups(inner.this, groups, released_names)
    if type(inner) is not exp.In or inner.args.get("query") is None:
        return False
    compared = inner.this.expressions if isinstance(inner.this, exp.Tuple) else [inner.this]
    return all(each.unnest() in groups for each in compared) and released_names(inner.args["query"]) is not None


def _from_joins(select: exp.Expr, groups: Sequence[exp.Expr], released_names: ReleasedNames) -> list[exp.Expr]:
    """Remove inner joins that compare group columns with released rows, in place; return each as a condition x IN (..).

    A join is not removed if the SELECT reads other columns of the released rows, or if a private row could match
    several released rows. `groups` are the group columns of `select`. Released rows are noisy results of a private
    query. `released_names(node)` returns the columns of a syntax node that stands for released rows, and None for other
    nodes.
    """
    conditions: list[exp.Expr] = []
    for join in list(select.args.get("joins") or ()):
        released = released_names(join.this)
        if released is None or join.args.get("side") or join.args.get("kind") in ("CROSS", "SEMI", "ANTI"):
            continue
        keys = _join_keys(join, released.names)
        if not released.keys or not released.keys <= {name for _, name in keys}:
            continue  # a private row may meet several released rows, and would count several times
        alias = join.this.alias_or_name.lower()
        read = [each for each in select.find_all(exp.Column) if each.find_ancestor(exp.Join) is not join]
        if not keys or any(each.table.lower() == alias for each in read if alias):
            continue
        places = [next((other for other in groups if _is_column(other, key)), None) for key, _ in keys]
        if any(place is None for place in places):
            continue
        compared = [place.copy() for place in places if place is not None]
        columns = [exp.column(name, quoted=True) for _, name in keys]
        rows = exp.Select(expressions=columns, from_=exp.From(this=join.this))
        this = compared[0] if len(compared) == 1 else exp.Tuple(expressions=compared)
        conditions.append(exp.In(this=this, query=exp.Subquery(this=rows)))
        kept = [each for each in select.args["joins"] if each is not join]
        select.set("joins", kept or None)
    return conditions


def _is_column(node: exp.Expr, column: exp.Expr) -> bool:
    """Return whether the group column `node` is the column `column`; each may be written with or without its table."""
    if not isinstance(node, exp.Column) or not isinstance(column, exp.Column):
        return False
    tables = {node.table.lower(), column.table.lower()}
    return node.name.lower() == column.name.lower() and (len(tables) == 1 or "" in tables)


def _join_keys(join: exp.Expr, names: Sequence[str]) -> list[tuple[exp.Expr, str]]:
    """Return the pairs (column of private rows, name of a released column) that `join` compares for equality.

    `names` are the columns of the released (noisy) rows. The list is empty if `join` has any condition of another
    form.
    """
    known = {name.lower(): name for name in names}
    using = join.args.get("using")
    if using:
        shared = [each.name for each in using if each.name.lower() in known]
        return [(exp.column(name), known[name.lower()]) for name in shared] if len(shared) == len(using) else []
    alias = join.this.alias_or_name.lower()
    condition = join.args.get("on")
    keys = []
    if condition is None:
        return []
    inner = condition.unnest()
    for part in inner.flatten() if type(inner) is exp.And else [inner]:
        equal = part.unnest()
        if type(equal) is not exp.EQ:
            return []
        sides = [equal.this.unnest(), equal.expression.unnest()]
        if not all(type(side) is exp.Column for side in sides):
            return []
        inside = [side.table.lower() == alias if side.table else side.name.lower() in known for side in sides]
        if inside.count(True) != 1:
            return []
        released, private = sides[inside.index(True)], sides[inside.index(False)]
        if released.name.lower() not in known:
            return []
        keys.append((private, known[released.name.lower()]))
    return keys
