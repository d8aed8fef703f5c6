"""Reading of the tables of a SELECT over private rows: FROM, JOIN and LEFT JOIN with USING or ON."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from setwise.analytics.engines.joins import Join, Key
from setwise.analytics.rows.derivation import Derivation
from setwise.analytics.rows.expression import AllOf, RowExpression
from setwise.analytics.sql.clauses import add_to_where, own_nodes
from setwise.analytics.sql.from_clause.names import LeftKey, known_table, qualifier_of
from setwise.analytics.sql.syntax import check_parts, construct_of, unsupported
from setwise.errors import InvalidParameter

_CLAUSES = {"sample": ("TABLESAMPLE", "ask the whole table"), "laterals": ("LATERAL", "ask the table itself")}
_ON = "JOIN takes ON a.x = b.y, or USING (x)"

ROWS = "rows"
"""The key of a table node's metadata with the steps that compute the rows to join from the rows of that table."""

ReadExpression = Callable[[exp.Expr], RowExpression]
"""A function that converts a syntax node, whose columns have no qualifiers, into a row expression."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FromClause:
    """The tables that a SELECT reads, and how they are joined.

    - `tables` maps each table's alias (its name if it has no alias) to its name, in the order of FROM.
    - `joins` has one join for each table but the first.
    - `left_keys` has the key columns that the SELECT reads from tables joined by LEFT JOIN. The mapping leads from
      (alias, column), in lower case, to how the column is computed. In SQL such a column is null in rows without a
      match, while the key column of the joined rows is not.
    """

    tables: dict[str, str]
    joins: tuple[Join, ...]
    left_keys: dict[tuple[str, str], LeftKey]


def read_tables(select: exp.Expr, read: ReadExpression) -> FromClause:
    """Return the tables that `select` reads, and their joins.

    Conditions in ON that are not equalities are treated by the kind of join. In an inner join, they are moved to WHERE
    of `select`, in place. In a LEFT JOIN, `read` converts them into row expressions (values computed from each row),
    which become a part of the join.
    Raises: `InvalidParameter` if FROM is missing or a join is not supported.
    """
    source = select.args.get("from_")
    if source is None:
        raise InvalidParameter("the SELECT names no table: write FROM and its name")
    check_parts(source, "this")
    alias, name = _table(source.this)
    tables, joins = {alias: name}, list[Join]()
    left_keys: dict[tuple[str, str], LeftKey] = {}
    moved: list[exp.Expr] = []
    for node in select.args.get("joins") or ():
        alias, name = _table(node.this)
        if alias in tables:
            raise InvalidParameter(f"two tables are called {alias!r}: give one of them another alias")
        join = _join(node, name, alias, tables, read, moved)
        rows = node.this.meta.get(ROWS)
        if name in tables.values() or rows is not None:
            join = _change_join(join, alias=alias, rows=rows)
        merged = {key.joined.lower(): key.column for key in join.keys if key.column == key.joined}
        aliases = [*tables, alias]
        if join.keeps_all and any(_reads_key(each, alias, aliases, merged) for each in own_nodes(select)):
            join = _change_join(join, match_column=f"{join.name} found")
            left_keys |= {
                (alias.lower(), key): LeftKey(column, str(join.match_column)) for key, column in merged.items()
            }
        joins.append(join)
        tables[alias] = join.name
    if moved:
        add_to_where(select, moved)
    return FromClause(tables=tables, joins=tuple(joins), left_keys=left_keys)


def _change_join(
    join: Join, *, alias: str | None = None, match_column: str | None = None, rows: Derivation | None = None
) -> Join:
    """Return a copy of `join` with other values for some fields; an argument that is None leaves its field unchanged.

    - `alias` is the name of the joined table in the result.
    - `match_column` is the name of a column that is 1 in rows with a match and null in rows without.
    - `rows` are the steps that compute the rows to join from the rows of the table.
    """
    return Join(
        table=join.table,
        keys=join.keys,
        keeps_all=join.keeps_all,
        where=join.where,
        match_column=match_column or join.match_column,
        alias=alias or join.alias,
        rows=join.rows if rows is None else rows,
    )


def _reads_key(node: exp.Expr, alias: str, aliases: Sequence[str], keys: Mapping[str, str]) -> bool:
    """Return whether `node` reads a key column of the table with the alias `alias`, outside of ON.

    The caller asks this about a table joined by LEFT JOIN. In SQL, its key columns are null in rows without a match. If
    one of them is read, the caller adds a column to the join that says which rows have a match, and computes the key
    column from it.

    - `keys` has the names of the table's key columns, in lower case, as keys; its values are not used.
    - `aliases` are the aliases of this table and of all tables before it. The qualifier of `node`, such as t in t.x, is
      looked up among them.
    """
    if type(node) is not exp.Column or node.name.lower() not in keys or node.find_ancestor(exp.Join) is not None:
        return False
    return qualifier_of(node, aliases) == alias


def private_first(select: exp.Expr, place: int) -> None:
    """Swap the public table in FROM of `select` with the private table of a JOIN, in place; the rows stay the same.

    The private table must come first, because public tables are joined to it. `place` says which JOIN it is: 1 for the
    first one.
    Raises: `InvalidParameter` if the swap would change the rows, because a LEFT or RIGHT JOIN keeps all rows of a
    public table.
    """
    joins = select.args["joins"]
    if place == 1 and str(joins[0].args.get("side") or "").upper() == "RIGHT":
        joins[0].set("side", "LEFT")
    elif any(join.args.get("side") for join in joins[:place]):
        join = "a LEFT or RIGHT JOIN that keeps all rows of a public table"
        raise unsupported(join, "begin FROM with the private table")
    source = select.args["from_"]
    first, private = source.this, joins[place - 1].this
    joins[place - 1].set("this", first)
    source.set("this", private)


def _table(table: exp.Expr) -> tuple[str, str]:
    """Return (alias, name) of a table in FROM or JOIN; without an alias both are the table's name.

    Raises: `InvalidParameter` for anything but a plain table.
    """
    if type(table) is not exp.Table:
        raise unsupported(f"{construct_of(table)} in FROM", "name one table")
    for name, (construct, instead) in _CLAUSES.items():
        if table.args.get(name):
            raise unsupported(construct, instead)
    check_parts(table, "this", "db", "catalog", "alias")
    if not all(type(part) is exp.Identifier for part in table.parts):
        raise unsupported(f"{construct_of(table.this)} in FROM", "name one table")
    alias = table.args.get("alias")
    if alias is not None:
        check_parts(alias, "this")
    name = ".".join(part.name for part in table.parts)
    return (name if alias is None else str(alias.name)), name


def _join(
    join: exp.Expr, name: str, alias: str, earlier: dict[str, str], read: ReadExpression, moved: list[exp.Expr]
) -> Join:
    """Return the `Join` for the syntax node `join`, which joins the table `name` under the alias `alias`.

    - `earlier` maps the alias of each table to the left of the join to the table's name.
    - `read` converts a condition in ON of a LEFT JOIN that is no equality into a row expression (a value computed from
      each row).
    - `moved` is a list. The conditions in ON of an inner join that are no equalities are appended to the list, and the
      caller adds the list to WHERE, where the conditions have the same effect.
    Raises: `InvalidParameter` unless the join is an inner join or a LEFT JOIN, with a condition that is supported.
    """
    side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
    method = str(join.args.get("method") or "").upper()
    if method or side not in ("", "LEFT") or kind not in ("", "INNER", "OUTER"):
        words = " ".join(word for word in (method, side, kind, "JOIN") if word)
        raise unsupported(words, "write JOIN or LEFT JOIN, with USING or ON")
    check_parts(join, "this", "side", "kind", "on", "using")
    using, condition = join.args.get("using") or (), join.args.get("on")
    if using:
        keys = [Key(column=_name(each), joined=_name(each)) for each in using]
        return Join(table=name, keys=tuple(keys), keeps_all=side == "LEFT")
    if condition is None:
        raise InvalidParameter(f"the table {name!r} has nothing to be joined by: {_ON}")
    plain = condition.unnest()
    keys, others = [], []
    for part in plain.flatten() if type(plain) is exp.And else [plain]:
        key = _equal(part.unnest(), alias, earlier)
        if key is None:
            others.append(part)
        else:
            keys.append(key)
    if not keys and type(others[0].unnest()) is exp.EQ:
        raise unsupported("ON with columns of other tables", f"compare a column of {alias} with an earlier one")
    if not keys:
        raise unsupported(f"{construct_of(others[0].unnest())} in ON", _ON)
    if side != "LEFT":
        moved += others
        return Join(table=name, keys=tuple(keys))
    return Join(table=name, keys=tuple(keys), keeps_all=True, where=_own_condition(others, alias, earlier, read))


def _own_condition(
    parts: Sequence[exp.Expr], alias: str, earlier: Mapping[str, str], read: ReadExpression
) -> RowExpression | None:
    """Return conditions on a joined table alone, from the ON of its LEFT JOIN, as one row expression.

    A row expression is a value computed from each row. `parts` are the conditions, `alias` is the alias of the joined
    table, and `earlier` maps the aliases of earlier tables to their names. `read` converts a syntax node into a row
    expression. Returns None if `parts` is empty.
    Raises: `InvalidParameter` if a condition names a column of another table than `alias`.
    """
    for column in [column for part in parts for column in part.find_all(exp.Column)]:
        if qualifier_of(column, [*earlier, alias]) != alias:
            raise unsupported(
                f"{column.sql()} in ON of a LEFT JOIN beside its equalities",
                f"put only columns of {alias} there, with {alias}. before them",
            )
    return all_of([read(without_qualifiers(part)) for part in parts])


def all_of(conditions: Sequence[RowExpression]) -> RowExpression | None:
    """Return one row expression (a value computed from each row) that joins `conditions` with AND; None if empty."""
    return AllOf(tuple(conditions)) if len(conditions) > 1 else next(iter(conditions), None)


def without_qualifiers(node: exp.Expr) -> exp.Expr:
    """Return a copy of `node`, in parentheses, in which column references such as t.x are written without t."""
    holder = exp.Paren(this=node.copy())
    for column in list(holder.find_all(exp.Column)):
        for part in ("table", "db", "catalog"):
            column.set(part, None)
    return holder


def _equal(node: exp.Expr, alias: str, earlier: dict[str, str]) -> Key | None:
    """Return the pair of columns (a `Key`) that the equality `node` in ON compares; None for another condition.

    The first column belongs to an earlier table, and the second to the joined table `alias`. `earlier` maps the aliases
    of earlier tables to their names.
    Raises: `InvalidParameter` if one of the two columns has no qualifier, or the qualifier of an unknown table.
    """
    if type(node) is not exp.EQ:
        return None
    sides = [node.this.unnest(), node.args["expression"].unnest()]
    if not all(type(side) is exp.Column for side in sides):
        return None
    if not all(side.args.get("table") is not None for side in sides):
        raise unsupported(f"{construct_of(node)} without the tables of both columns", _ON)
    mine = [side for side in sides if qualifier_of(side, [*earlier, alias]) == alias]
    others = [side for side in sides if qualifier_of(side, [*earlier, alias]) != alias]
    if len(mine) != 1:
        return None
    return Key(column=others[0].name, joined=mine[0].name, earlier=known_table(others[0], earlier))


def _name(node: exp.Expr) -> str:
    if type(node) is exp.Column:
        check_parts(node, "this")
    elif type(node) is not exp.Identifier:
        raise unsupported(f"{construct_of(node)} in USING", "write the names of columns")
    return str(node.name)
