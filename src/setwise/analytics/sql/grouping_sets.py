"""ROLLUP, CUBE and GROUPING SETS over private rows: one SELECT for each set of group columns, united with UNION ALL.

Each SELECT becomes a private query of its own, and all of them are charged together. In the SELECT of a set, NULL
replaces the group columns that the set leaves out, and a constant number replaces each GROUPING(..).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

from sqlglot import exp

from setwise.analytics.sql.aggregates import has_aggregate, is_aggregate
from setwise.analytics.sql.syntax import SETS_OF_GROUPS, SETS_OF_GROUPS_NODES, short_text, unsupported
from setwise.errors import InvalidParameter

MOST_SETS = 16
"""The most grouping sets of a SELECT: those of CUBE over four columns. Each is a release that shares the budget."""

_GROUPING = ("GROUPING", "GROUPING_ID")


@dataclass(frozen=True, slots=True)
class GroupedSelects:
    """The SELECTs into which a SELECT with grouping sets is split, and how their united rows are sorted and limited.

    - `selects` has one SELECT for each grouping set.
    - `shown` is the number of result columns; further columns of the SELECTs are only there for sorting.
    - `order` is the ORDER BY, which names columns by position, as in ORDER BY 2; None if the statement has none.
    - `limit` and `offset` are the clauses LIMIT and OFFSET, or None.
    """

    selects: tuple[exp.Expr, ...]
    shown: int
    order: exp.Expr | None
    limit: exp.Expr | None
    offset: exp.Expr | None

    def unite(self, nodes: Sequence[exp.Expr]) -> exp.Expr:
        """Return the UNION ALL of `nodes`, sorted and limited, with only the columns of the result.

        There is one node for each grouping set, in the order of `selects`: a SELECT over the released (noisy) rows of
        the grouping set's own private query.
        """
        united = nodes[0]
        for node in nodes[1:]:
            united = exp.Union(this=united, expression=node, distinct=False)
        for name, clause in (("order", self.order), ("limit", self.limit), ("offset", self.offset)):
            if clause is not None:
                united.set(name, clause)
        names = [each.alias_or_name for each in nodes[0].expressions]
        if len(names) == self.shown:
            return united
        columns = [exp.column(name, quoted=True) for name in names[: self.shown]]
        rows = exp.Subquery(this=united, alias=exp.TableAlias(this=exp.to_identifier("united")))
        return exp.Select(expressions=columns, from_=exp.From(this=rows))


def has_grouping_sets(select: exp.Expr) -> bool:
    """Return whether the GROUP BY of `select` has ROLLUP, CUBE or GROUPING SETS."""
    group = select.args.get("group")
    if group is None:
        return False
    nodes = [each for name in SETS_OF_GROUPS for each in group.args.get(name) or ()]
    return bool(nodes) or any(isinstance(each, SETS_OF_GROUPS_NODES) for each in group.expressions)


def split_grouping_sets(select: exp.Expr) -> GroupedSelects:
    """Return the SELECTs, one for each grouping set, that together answer `select`, and how to unite them.

    `select` has ROLLUP, CUBE or GROUPING SETS. The sets with the most columns come first.
    Raises: `InvalidParameter` for more than `MOST_SETS` sets, and for window functions, which would have to read the
    rows of all sets.
    """
    group = select.args["group"]
    if select.args.get("qualify") or any(each.find(exp.Window) for each in select.expressions):
        raise unsupported(
            "a window function beside ROLLUP, CUBE or GROUPING SETS", "compute it in a SELECT around this one"
        )
    sets = _sets_of_group(group, select)
    if len(sets) > MOST_SETS:
        raise InvalidParameter(f"GROUP BY has {len(sets)} grouping sets, and at most {MOST_SETS} are answered")
    sets.sort(key=len, reverse=True)
    columns = _distinct([column for members in sets for column in members])
    sorting, order = _sorting(select)
    selects = []
    for members in sets:
        absent = [column for column in columns if column not in members]
        single = select.copy()
        for name in ("order", "limit", "offset", "with_"):
            single.set(name, None)
        single.set("group", exp.Group(expressions=[each.copy() for each in members]) if members else None)
        shown = [_with_name(each, _in_set(each.copy(), columns, absent)) for each in select.expressions]
        hidden = [
            exp.alias_(_in_set(sort_key.copy(), columns, absent), f"order {place}", quoted=True)
            for place, sort_key in enumerate(sorting)
        ]
        single.set("expressions", [*shown, *hidden])
        having = select.args.get("having")
        if having is not None:
            single.set("having", exp.Having(this=_in_set(having.this.copy(), columns, absent)))
        selects.append(single)
    return GroupedSelects(
        tuple(selects), len(select.expressions), order, select.args.get("limit"), select.args.get("offset")
    )


def _with_name(written: exp.Expr, node: exp.Expr) -> exp.Expr:
    """Return `node`, a column of a SELECT rewritten for one grouping set, with the name that the result shows for it.

    `written` is the column before the rewriting, which gives the name. The name is added as an alias, unless `node` has
    it already.
    """
    if isinstance(written, exp.Alias) or node == written:
        return node
    return exp.alias_(node, written.name if type(written) is exp.Column else short_text(written), quoted=True)


def _sorting(select: exp.Expr) -> tuple[list[exp.Expr], exp.Expr | None]:
    """Return (hidden expressions, ORDER BY) of `select`; the ORDER BY names every column by its position.

    Position 1 is the first result column. Hidden expressions are those in ORDER BY that no result column shows. The
    caller adds them as columns after the last result column. The ORDER BY is None if `select` has none.
    """
    order = select.args.get("order")
    if order is None:
        return [], None
    written = [each.this if isinstance(each, exp.Alias) else each for each in select.expressions]
    names = [each.alias_or_name.lower() for each in select.expressions]
    hidden: list[exp.Expr] = []
    terms = []
    for sort_key in order.expressions:
        term, node = sort_key.copy(), sort_key.this
        if type(node) is exp.Literal:
            terms.append(term)
            continue
        if type(node) is exp.Column and not node.table and node.name.lower() in names:
            place = names.index(node.name.lower())
        elif node in written:
            place = written.index(node)
        else:
            hidden.append(_without_aliases(node.copy(), select))
            place = len(written) + len(hidden) - 1
        term.set("this", exp.Literal.number(place + 1))
        terms.append(term)
    return hidden, exp.Order(expressions=terms)


def _without_aliases(node: exp.Expr, select: exp.Expr) -> exp.Expr:
    """Return `node`, an expression of ORDER BY, with aliases of result columns replaced by their expressions.

    `select` is the SELECT that defines the aliases.
    """
    aliases = {each.alias.lower(): each.this for each in select.expressions if isinstance(each, exp.Alias)}

    def expression_of(inner: exp.Expr) -> exp.Expr:
        if type(inner) is exp.Column and not inner.table and inner.name.lower() in aliases:
            expression: exp.Expr = aliases[inner.name.lower()].copy()
            return expression
        return inner

    return node.transform(expression_of)


def _sets_of_group(group: exp.Expr, select: exp.Expr) -> list[list[exp.Expr]]:
    """Return the grouping sets of `group`, a whole GROUP BY, each as a list of group columns.

    GROUP BY a, ROLLUP (b) has the sets (a, b) and (a). `select` is the SELECT of the clause, because an entry may name
    one of its columns by number or alias.
    """
    plain = [each for each in group.expressions if not isinstance(each, SETS_OF_GROUPS_NODES)]
    parts: list[list[list[exp.Expr]]] = []
    for name in SETS_OF_GROUPS:
        for node in group.args.get(name) or ():
            if isinstance(node, exp.Rollup | exp.Cube) and not node.expressions:  # GROUP BY a, b WITH ROLLUP
                parts.append(_sets_of(type(node)(expressions=plain), select))
                plain = []
            else:
                parts.append(_sets_of(node, select))
    parts += [_sets_of(node, select) for node in group.expressions if isinstance(node, SETS_OF_GROUPS_NODES)]
    parts.insert(0, [[resolve_group_column(each, select) for each in plain]])
    return [_distinct([column for members in chosen for column in members]) for chosen in product(*parts)]


def _sets_of(node: exp.Expr, select: exp.Expr) -> list[list[exp.Expr]]:
    """Return the grouping sets of `node`, one entry of GROUP BY: a ROLLUP, a CUBE, GROUPING SETS, or a set of columns.

    Each set is a list of group columns. `select` is the SELECT of the clause, because an entry may name one of its
    columns by number or alias.
    """
    if isinstance(node, exp.GroupingSets):
        return [members for each in node.expressions for members in _sets_of(each, select)]
    if not isinstance(node, exp.Rollup | exp.Cube):
        return [_members(node, select)]
    entries = [_members(each, select) for each in node.expressions]
    if isinstance(node, exp.Rollup):
        chosen: list[tuple[list[exp.Expr], ...]] = [tuple(entries[:count]) for count in range(len(entries), -1, -1)]
    elif len(entries) > MOST_SETS.bit_length():
        raise InvalidParameter(f"CUBE over {len(entries)} columns has more than {MOST_SETS} grouping sets")
    else:
        chosen = [kept for count in range(len(entries), -1, -1) for kept in combinations(entries, count)]
    return [[column for entry in kept for column in entry] for kept in chosen]


def _members(node: exp.Expr, select: exp.Expr) -> list[exp.Expr]:
    """Return the group columns of `node`, one set of columns in GROUP BY, written (a, b), (a), a or ().

    `select` is the SELECT of the clause, because an entry may name one of its columns by number or alias.
    """
    if isinstance(node, exp.Tuple):
        return [resolve_group_column(each, select) for each in node.expressions]
    return [resolve_group_column(node.unnest(), select)]


def resolve_group_column(node: exp.Expr, select: exp.Expr) -> exp.Expr:
    """Return the expression that `node`, an entry of GROUP BY in `select`, groups by.

    An entry may be the number or the alias of a column of the SELECT list, and then groups by that column's expression.
    Any other entry is returned itself. In SELECT COALESCE(x, 'all') AS x .. GROUP BY ROLLUP (x), the entry x is
    returned itself too: rows are grouped by the column x, and COALESCE only gives a label to the subtotal over all
    values of x, in which x is null.
    """
    if type(node) is exp.Literal and str(node.this).isdecimal() and 1 <= int(node.this) <= len(select.expressions):
        selected: exp.Expr = select.expressions[int(node.this) - 1].unalias()
        return selected
    if type(node) is exp.Column and not node.table:
        for selected in select.expressions:
            if isinstance(selected, exp.Alias) and selected.alias.lower() == node.name.lower():
                expression: exp.Expr = selected.this
                # In COALESCE(x, 'all') AS x .. GROUP BY ROLLUP (x), rows are grouped by the column x, and the subtotal,
                # in which x is null, is called 'all'.
                return node if _names_subtotals(expression, node.name) else expression
    return node


def _names_subtotals(node: exp.Expr, name: str) -> bool:
    """Return whether the expression `node` gives a label to subtotals over the column `name`, as COALESCE(x, 'all').

    A subtotal is a result row over all values of x, in which x is null. IFNULL and NVL can also give it a label, and so
    can a CASE or IF that tests GROUPING(x) or x IS NULL. If the expression has the alias x, the caller takes x in GROUP
    BY to mean the column x itself, and not the expression.
    """
    if not any(column.name.lower() == name.lower() for column in node.find_all(exp.Column)):
        return False
    names = {str(call.this).upper() for call in node.find_all(exp.Anonymous)}
    return not names.isdisjoint(("COALESCE", "IFNULL", "NVL", *_GROUPING)) or node.find(exp.Is) is not None


def _distinct(nodes: Sequence[exp.Expr]) -> list[exp.Expr]:
    distinct: list[exp.Expr] = []
    for node in nodes:
        if node not in distinct:
            distinct.append(node)
    return distinct


def _in_set(node: exp.Expr, columns: Sequence[exp.Expr], absent: Sequence[exp.Expr]) -> exp.Expr:
    """Return `node`, an expression of a SELECT, rewritten in place for one grouping set.

    `columns` are the group columns of all sets, and `absent` are the ones that this set does not have. NULL replaces
    each absent column, and a constant number replaces each call GROUPING(..).
    Raises: `InvalidParameter` if an argument of GROUPING is not a group column.
    """
    if any(_same(node, column) for column in absent):
        return exp.null()
    if isinstance(node, exp.Anonymous) and str(node.this).upper() in _GROUPING:
        # One bit for each argument, 1 if this set leaves it out; the last argument has the lowest bit.
        bits = 0
        for argument in node.expressions:
            if not any(_same(argument, column) for column in columns):
                raise InvalidParameter(f"{argument.sql()} in GROUPING is no column of GROUP BY: name one of those")
            bits = 2 * bits + any(_same(argument, column) for column in absent)
        return exp.Literal.number(bits)
    if is_aggregate(node) or not (has_aggregate(node) or node.find(exp.Column, exp.Anonymous)):
        return node
    for child in list(node.iter_expressions()):
        if not isinstance(child, exp.Identifier | exp.Subquery | exp.Select):
            child.replace(_in_set(child, columns, absent))
    return node


def _same(node: exp.Expr, column: exp.Expr) -> bool:
    """Return whether the expressions `node` and `column` are equal, where x also equals t.x."""
    inner, other = node.unnest(), column.unnest()
    if type(inner) is exp.Column and type(other) is exp.Column:
        tables = {inner.table.lower(), other.table.lower()}
        return inner.name.lower() == other.name.lower() and (len(tables) == 1 or "" in tables)
    return inner == other
