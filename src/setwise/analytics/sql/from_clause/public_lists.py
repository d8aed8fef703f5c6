"""Conditions on membership in a public table: x IN (SELECT y FROM p ..), and EXISTS (SELECT .. FROM p WHERE p.y = t.x).

Each condition becomes a join with the public table, which matches every row at most once. The join adds one column,
which says whether there is a match, so it neither drops nor repeats rows.
"""

from collections.abc import Callable, Mapping

from sqlglot import exp

from setwise.analytics.engines.joins import Join, Key
from setwise.analytics.sql.clauses import check_not_negated, conjunction, subqueries_of
from setwise.analytics.sql.from_clause.names import known_table, qualifier_of
from setwise.analytics.sql.from_clause.tables import ReadExpression, all_of, without_qualifiers
from setwise.analytics.sql.syntax import construct_of, unsupported
from setwise.errors import InvalidParameter

_NEEDLESS = ("distinct", "order")
_UNDERSTOOD = ("expressions", "from_", "where", "kind", *_NEEDLESS)


def join_public_lists(
    select: exp.Expr,
    tables: Mapping[str, str],
    public_name: Callable[[exp.Expr], str | None],
    read: ReadExpression,
) -> list[Join]:
    """Replace each IN or EXISTS over a public table in `select`, in place, by a condition on a column that a join adds.

    Returns these joins, one for each IN or EXISTS. The column says whether a row has a match in the public table.
    - `tables` maps the aliases of `select` to names of tables.
    - `public_name(node)` returns the name of the public table that an entry of FROM stands for, or None.
    - `read` converts a condition on the public table's rows into a row expression (a value computed from each row).
    Raises: `InvalidParameter` for a subquery over a public table that is not supported.
    """
    joins: list[Join] = []
    for node in list(subqueries_of(select)):
        inner = _inner_select(node)
        source = None if inner is None else inner.args.get("from_")
        table = public_name(source.this) if source is not None and isinstance(source.this, exp.Table) else None
        if table is None:
            continue
        if isinstance(node, exp.In):
            check_not_negated(node)
        join, condition = _public_list(node, table, tables, len(joins), read)
        node.replace(condition)
        joins.append(join)
    return joins


def _inner_select(node: exp.Expr) -> exp.Expr | None:
    """Return the SELECT inside `node` if `node` is an IN or EXISTS with a SELECT; None otherwise."""
    if isinstance(node, exp.Exists):
        inner = node.this.unnest() if isinstance(node.this, exp.Subquery) else node.this
    elif isinstance(node, exp.In):
        inner = node.args["query"].this
    else:
        return None
    return inner if isinstance(inner, exp.Select) else None


def _public_list(
    node: exp.Expr, table: str, tables: Mapping[str, str], number: int, read: ReadExpression
) -> tuple[Join, exp.Expr]:
    """Return (join, condition) that together replace `node`, an IN or EXISTS over the public table `table`.

    - The join adds a column that says whether a row has a match; the condition reads that column.
    - `tables` maps the aliases of the SELECT around `node` to names of tables.
    - `number` makes the name of the added column unique.
    - `read` converts a condition on the public table's rows into a row expression (a value computed from each row).
    Raises: `InvalidParameter` for a subquery that is not supported.
    """
    inner = _inner_select(node)
    assert inner is not None, "the caller asks for IN and EXISTS alone"
    for clause, value in inner.args.items():
        if value and clause not in _UNDERSTOOD:
            raise unsupported(f"{clause.upper().rstrip('_')} in a subquery over a public table", "leave it out")
    source = inner.args["from_"].this
    alias = source.alias or table
    keys = _in_keys(node, inner, tables) if isinstance(node, exp.In) else []
    conditions = []
    for part in conjunction(inner.args.get("where")):
        key = _read_correlation(part.unnest(), alias, tables)
        if key is not None:
            keys.append(key)
        elif all(_is_inner(column, alias, tables) for column in part.find_all(exp.Column)):
            conditions.append(read(without_qualifiers(part)))
        else:
            raise unsupported(
                f"{construct_of(part.unnest())} with columns of both tables", f"compare {alias}.x = t.y for equality"
            )
    if not keys:
        raise unsupported(
            "EXISTS over a public table without an equality", f"compare a column of {alias} with one of the outer table"
        )
    list_name = f"in {table} {number}"
    join = Join(
        table=table,
        keys=tuple(keys),
        keeps_all=True,
        where=all_of(conditions),
        match_column=list_name,
        once=True,
        alias=list_name,
    )
    present = exp.Not(this=exp.Is(this=exp.column(list_name, quoted=True), expression=exp.Null()))
    return join, exp.paren(present, copy=False)


def _in_keys(node: exp.Expr, inner: exp.Expr, tables: Mapping[str, str]) -> list[Key]:
    """Return the pairs of columns that the IN `node` compares: columns on its left with columns that `inner` selects.

    `tables` maps the aliases of the SELECT around `node` to names of tables.
    Raises: `InvalidParameter` if a side is not a column, or the sides have different numbers of columns.
    """
    left = node.this.unnest()
    sides = [each.unnest() for each in left.expressions] if isinstance(left, exp.Tuple) else [left]
    selected = [(each.this if type(each) is exp.Alias else each).unnest() for each in inner.expressions]
    if len(sides) != len(selected):
        raise InvalidParameter(f"IN compares {len(sides)} columns with {len(selected)} columns of its subquery")
    for side in [*sides, *selected]:
        if type(side) is not exp.Column or type(side.this) is not exp.Identifier:
            raise unsupported(
                f"{construct_of(side)} in IN with a public table", "compare columns, as in x IN (SELECT y FROM t)"
            )
    return [
        Key(column=side.name, joined=inner_side.name, earlier=_earlier(side, tables))
        for side, inner_side in zip(sides, selected, strict=True)
    ]


def _read_correlation(node: exp.Expr, alias: str, tables: Mapping[str, str]) -> Key | None:
    """Return the pair of columns that the equality `node` compares: one of a public table, one of the outer SELECT.

    `alias` is the alias of the public table. `tables` maps the aliases of the outer SELECT to names of tables. Returns
    None for any other condition.
    """
    if type(node) is not exp.EQ:
        return None
    sides = [node.this.unnest(), node.args["expression"].unnest()]
    if not all(type(side) is exp.Column for side in sides):
        return None
    mine = [side for side in sides if _is_inner(side, alias, tables)]
    others = [side for side in sides if not _is_inner(side, alias, tables)]
    if len(mine) != 1:
        return None
    return Key(column=others[0].name, joined=mine[0].name, earlier=_earlier(others[0], tables))


def _is_inner(column: exp.Expr, alias: str, tables: Mapping[str, str]) -> bool:
    """Return whether `column`, in a subquery, belongs to the public table `alias` and not to the outer SELECT.

    A column without a qualifier belongs to the public table. `tables` maps the aliases of the outer SELECT to names of
    tables.
    """
    if column.args.get("table") is None:
        return True
    return qualifier_of(column, [alias]) is not None or qualifier_of(column, tables) is None


def _earlier(column: exp.Expr, tables: Mapping[str, str]) -> str | None:
    return None if column.args.get("table") is None else known_table(column, tables)
