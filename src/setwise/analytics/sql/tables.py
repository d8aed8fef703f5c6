"""FROM and JOIN: the tables that a SELECT names, how they are joined, and whose columns are whose."""

from collections.abc import Sequence

from sqlglot import exp

from setwise.analytics.engines.joins import Join, Key
from setwise.analytics.sql.syntax import check_parts, construct_of, unsupported
from setwise.errors import InvalidParameter

_CLAUSES = {"sample": ("TABLESAMPLE", "ask the whole table"), "laterals": ("LATERAL", "ask the table itself")}

WRITTEN = "written"
"""Where a column keeps its name without its table, which is what it is called in the result."""

_ON = "JOIN takes ON a.x = b.y, or USING (x)"


def read_tables(select: exp.Expr) -> tuple[dict[str, str], tuple[Join, ...]]:
    """Return the tables by the names that qualify their columns, the first first, and the joins of the others."""
    source = select.args.get("from_")
    if source is None:
        raise InvalidParameter("the SELECT names no table: write FROM and its name")
    check_parts(source, "this")
    alias, name = _table(source.this)
    tables, joins = {alias: name}, []
    for each in select.args.get("joins") or ():
        alias, name = _table(each.this)
        if alias in tables:
            raise InvalidParameter(f"two tables are called {alias!r}: give one of them another alias")
        joins.append(_join(each, name, alias, tables))
        tables[alias] = name
    return tables, tuple(joins)


def unqualify(select: exp.Expr, tables: dict[str, str], columns: Sequence[str] | None) -> None:
    """Write every column of a SELECT by its name in the join alone.

    `columns` are those of the join, where they are known: one that several tables have is TABLE.COLUMN there.
    """
    for node in select.find_all(exp.Column):
        table = node.args.get("table")
        if node.args.get("db") is not None or type(node.this) is not exp.Identifier:
            continue  # refused where it is read
        if table is not None:
            qualified = f"{_known(table.name, tables)}.{node.name}"
            node.meta[WRITTEN] = node.name
            if columns is not None and qualified in columns:
                node.set("this", exp.to_identifier(qualified))
            node.set("table", None)
        elif columns is not None and node.name not in columns:
            several = [f"{name}.{node.name}" for name in tables.values() if f"{name}.{node.name}" in columns]
            if several:
                raise InvalidParameter(f"several tables have the column {node.name!r}: write {' or '.join(several)}")


def _table(table: exp.Expr) -> tuple[str, str]:
    """Return the alias of a table, which is its own name unless it has another, and its name."""
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


def _join(join: exp.Expr, name: str, alias: str, earlier: dict[str, str]) -> Join:
    side, kind = str(join.args.get("side") or "").upper(), str(join.args.get("kind") or "").upper()
    method = str(join.args.get("method") or "").upper()
    if method or side not in ("", "LEFT") or kind not in ("", "INNER", "OUTER"):
        words = " ".join(word for word in (method, side, kind, "JOIN") if word)
        raise unsupported(words, "write JOIN or LEFT JOIN, with USING or ON")
    check_parts(join, "this", "side", "kind", "on", "using")
    using, condition = join.args.get("using") or (), join.args.get("on")
    if using:
        keys = [Key(column=_name(each), joined=_name(each)) for each in using]
    elif condition is not None:
        equals = list(condition.flatten()) if type(condition) is exp.And else [condition]
        keys = [_equal(each.unnest(), alias, earlier) for each in equals]
    else:
        raise InvalidParameter(f"the table {name!r} has nothing to be joined by: {_ON}")
    return Join(table=name, keys=tuple(keys), keeps_all=side == "LEFT")


def _equal(node: exp.Expr, alias: str, earlier: dict[str, str]) -> Key:
    """Return the key that an equality states, whichever of its columns is the joined table's."""
    if type(node) is not exp.EQ:
        raise unsupported(f"{construct_of(node)} in ON", _ON)
    sides = [node.this, node.args["expression"]]
    if not all(type(side) is exp.Column and side.args.get("table") is not None for side in sides):
        raise unsupported(f"{construct_of(node)} without the tables of both columns", _ON)
    for side in sides:
        check_parts(side, "this", "table")
    mine = [side for side in sides if side.args["table"].name == alias]
    others = [side for side in sides if side.args["table"].name != alias]
    if len(mine) != 1:
        raise unsupported("ON with columns of other tables", f"compare a column of {alias} with an earlier one")
    return Key(column=others[0].name, joined=mine[0].name, earlier=_known(others[0].args["table"].name, earlier))


def _name(node: exp.Expr) -> str:
    if type(node) is exp.Column:
        check_parts(node, "this")
    elif type(node) is not exp.Identifier:
        raise unsupported(f"{construct_of(node)} in USING", "write the names of columns")
    return str(node.name)


def _known(alias: str, tables: dict[str, str]) -> str:
    """Return the table that a qualifier means."""
    if alias not in tables:
        raise InvalidParameter(f"no table is called {alias!r} here: write one of {', '.join(map(repr, tables))}")
    return tables[alias]
