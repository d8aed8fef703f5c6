"""The clauses of a SELECT over private rows: FROM and JOIN as tables, WHERE as a filter, bins of columns as groups.

Every node that has a meaning here is written anew, and every other is refused.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sqlglot import exp

from setwise.analytics.bins import Group, Part, Period, TimeUnit, Width
from setwise.analytics.engines.joins import Join, Key
from setwise.analytics.filter.parser import ALLOWED, KEYWORDS
from setwise.analytics.sql.row_values import TRUNCATIONS, check_zone, time_column, truncation_parts
from setwise.analytics.sql.syntax import check_parts, column_name, construct_of, number_of, unsupported
from setwise.errors import InvalidParameter
from setwise.mechanisms.labels import Cell

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


def own_nodes(node: exp.Expr) -> Iterator[exp.Expr]:
    """Return the nodes of a SELECT without those of the SELECTs inside it."""
    for each in node.iter_expressions():
        if not isinstance(each, exp.Select | exp.SetOperation | exp.Subquery | exp.With):
            yield each
            yield from own_nodes(each)


def unqualify(select: exp.Expr, tables: dict[str, str], columns: Sequence[str] | None) -> None:
    """Write every column of a SELECT by its name in the join alone.

    `columns` are those of the join, where they are known: one that several tables have is TABLE.COLUMN there. A name
    that differs from that of one column in upper and lower case alone is the name of that column, as in DuckDB and
    PostgreSQL. A name in double quotes that no column has is text where it is compared with a column, as in GoogleSQL.
    """
    for node in list(own_nodes(select)):
        if type(node) is not exp.Column:
            continue
        table, schema = node.args.get("table"), node.args.get("db")
        if node.args.get("catalog") is not None or type(node.this) is not exp.Identifier:
            continue  # refused where it is read
        if table is not None:
            alias = table.name if schema is None else f"{schema.name}.{table.name}"
            qualified = f"{_known(alias, tables)}.{node.name}"
            node.set("db", None)
            node.meta[WRITTEN] = node.name
            if columns is not None and _column_of(qualified, columns) is not None:
                node.set("this", exp.to_identifier(_column_of(qualified, columns), quoted=True))
            node.set("table", None)
        if columns is None or node.name in columns:
            continue
        several = [f"{name}.{node.name}" for name in tables.values() if f"{name}.{node.name}" in columns]
        if several and table is None:
            raise InvalidParameter(f"several tables have the column {node.name!r}: write {' or '.join(several)}")
        found = _column_of(node.name, columns)
        if found is not None:
            node.meta.setdefault(WRITTEN, found)
            node.set("this", exp.to_identifier(found, quoted=True))
        elif node.this.quoted and table is None and _beside_column(node, columns):
            node.replace(exp.Literal.string(node.name))


def _beside_column(node: exp.Expr, columns: Sequence[str]) -> bool:
    """Whether a node is compared with a column of the table, so that it may stand for text."""
    parent = node.parent
    if isinstance(parent, exp.In):
        other = parent.this
    elif isinstance(parent, exp.Binary):
        other = parent.args["expression"] if parent.this is node else parent.this
    else:
        return False
    return other is not node and type(other) is exp.Column and _column_of(other.name, columns) is not None


def _column_of(name: str, columns: Sequence[str]) -> str | None:
    """Return the column of that name, in whichever case; None where there is none, or several."""
    if name in columns:
        return name
    found = [column for column in columns if column.lower() == name.lower()]
    return found[0] if len(found) == 1 else None


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


_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}

_LABELS = {exp.DType.DATE: "DATE ", exp.DType.TIMESTAMP: "TIMESTAMP ", exp.DType.TIMESTAMPTZ: "TIMESTAMP "}

_PLAIN = re.compile(r"[^\W\d]\w*")


def filter_text(node: exp.Expr) -> str:
    """Return the filter that a condition states, in the filter language.

    The kinds of columns and constants are checked when the filter is read for its table.
    """
    match type(node):
        case exp.Paren:
            check_parts(node, "this")
            return filter_text(node.this)
        case exp.And | exp.Or:
            check_parts(node, "this", "expression")
            return f" {node.key.upper()} ".join(_parenthesized(each, type(node)) for each in node.flatten())
        case exp.Not:
            check_parts(node, "this")
            return _negated(node.this.unnest())
        case _:
            return _comparison(node, negated=False)


def _parenthesized(node: exp.Expr, outer: type[exp.Expr]) -> str:
    inner = node.unnest()
    written = filter_text(inner)
    return f"({written})" if type(inner) in (exp.And, exp.Or) and type(inner) is not outer else written


def _negated(node: exp.Expr) -> str:
    match type(node):
        case exp.In | exp.Between | exp.Like | exp.Is:
            return _comparison(node, negated=True)
        case exp.And | exp.Or:
            return f"NOT ({filter_text(node)})"
        case _:
            return f"NOT {filter_text(node)}"


def _comparison(node: exp.Expr, *, negated: bool) -> str:
    """Return a comparison of a column with constants, or its negation; some nodes also say `negate` themselves."""
    kind = type(node)
    negation = "NOT " if negated != bool(node.args.get("negate")) else ""
    if kind in _COMPARISONS:
        check_parts(node, "this", "expression")
        return f"{_operand(node.this)} {_COMPARISONS[kind]} {_operand(node.args['expression'])}"
    match kind:
        case exp.In:
            check_parts(node, "this", "expressions")
            return f"{_column(node.this)} {negation}IN ({', '.join(_constant(each) for each in node.expressions)})"
        case exp.Between:
            check_parts(node, "this", "low", "high")
            low, high = (_constant(node.args[end]) for end in ("low", "high"))
            return f"{_column(node.this)} {negation}BETWEEN {low} AND {high}"
        case exp.Like:
            check_parts(node, "this", "expression", "negate")
            pattern = node.args["expression"]
            if type(pattern) is exp.Literal and "\\" in pattern.this:
                raise unsupported("an escape (\\) in LIKE", "use % and _ alone")
            return f"{_column(node.this)} {negation}LIKE {_constant(pattern)}"
        case exp.Is if type(node.args["expression"]) is exp.Null:
            check_parts(node, "this", "expression", "negate")
            return f"{_column(node.this)} IS {negation}NULL"
        case exp.Is:
            raise unsupported(f"IS {node.args['expression'].sql()}", "write = TRUE or = FALSE")
        case exp.Column:
            raise unsupported(f"{construct_of(node)} as a condition", "write = TRUE after it")
        case _:
            raise unsupported(f"{construct_of(node)} in WHERE", ALLOWED)


def _operand(node: exp.Expr) -> str:
    return _column(node) if type(node) is exp.Column else _constant(node)


def _column(node: exp.Expr) -> str:
    name = column_name(node, "WHERE")
    if _PLAIN.fullmatch(name) and name.lower() not in KEYWORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def _constant(node: exp.Expr) -> str:
    match type(node):
        case exp.Literal if node.is_string:
            return "'" + str(node.this).replace("'", "''") + "'"
        case exp.Literal:
            return str(node.this)
        case exp.Neg if type(node.this) is exp.Literal and not node.this.is_string:
            return f"-{node.this.this}"
        case exp.Boolean:
            return "TRUE" if node.this else "FALSE"
        case exp.Cast if type(node.this) is exp.Literal and node.this.is_string and node.args["to"].this in _LABELS:
            check_parts(node, "this", "to")
            return _LABELS[node.args["to"].this] + _constant(node.this)
        case exp.Null:
            raise unsupported("a comparison with NULL", "write IS NULL or IS NOT NULL")
        case _:
            raise unsupported(f"{construct_of(node)} in WHERE", ALLOWED)


_UNITS = {
    "YEAR": TimeUnit.YEAR,
    "QUARTER": TimeUnit.QUARTER,
    "MONTH": TimeUnit.MONTH,
    "ISOWEEK": TimeUnit.WEEK,
    "DAY": TimeUnit.DAY,
    "HOUR": TimeUnit.HOUR,
}
"""SQL's names of units of time that bins have. The WEEK that begins on Sunday is computed of rows instead."""

_NAMING_NULL = ("IFNULL", "COALESCE")


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedGroup:
    """A column or bins of it, what stands for null in it, and what it is called unless it has an alias."""

    group: Group
    null_item: Cell | None = None
    name: str = field(compare=False)


def read_group(node: exp.Expr) -> SelectedGroup | None:
    """Return the column or bins that an expression is; None for one that is neither."""
    if type(node) is exp.Anonymous and str(node.this).upper() in _NAMING_NULL and len(node.expressions) == 2:
        check_parts(node, "this", "expressions")
        found, missing = read_group(node.expressions[0]), _null_item(node.expressions[1])
        return None if found is None or missing is None else replace(found, null_item=missing)
    group = _group(node)
    return None if group is None else SelectedGroup(group=group, name=node.meta.get(WRITTEN, str(group)))


def _null_item(node: exp.Expr) -> Cell | None:
    """Return the constant that stands for null; None where it is neither text nor a whole number."""
    if type(node) is exp.Literal and node.is_string:
        return str(node.this)
    number = None if type(node.unnest()) not in (exp.Literal, exp.Neg) else number_of(node.unnest(), "IFNULL")
    return number if isinstance(number, int) else None


def _group(node: exp.Expr) -> Group | None:
    match node:
        case exp.Column():
            return Group(column_name(node, "GROUP BY"))
        case exp.Paren():
            return _group(node.this)
        case exp.Cast() if type(node.this.unnest()) is exp.Mul and node.args["to"].this is exp.DType.BIGINT:
            return _group(node.this)
        case exp.Cast() if node.args["to"].this is exp.DType.DATE and type(node.this.unnest()) is exp.Column:
            return Group(time_column(node.this, "CAST"), Period(TimeUnit.DAY))
        case exp.Mul():
            return _width(node)
        case exp.Extract():
            return _part(node)
        case exp.Anonymous() if str(node.this).upper() in TRUNCATIONS:
            return _period(node)
        case exp.Anonymous() if str(node.this).upper() == "DATE" and len(node.expressions) == 1:
            return Group(time_column(node.expressions[0], "DATE"), Period(TimeUnit.DAY))
        case _:
            return None


def _width(node: exp.Expr) -> Group | None:
    """Return the bins that FLOOR(x / w) * w is; None for another product."""
    check_parts(node, "this", "expression")
    sides = [node.this.unnest(), node.args["expression"].unnest()]
    floors = [side for side in sides if type(side) is exp.Floor]
    others = [side for side in sides if type(side) is exp.Literal]
    if len(floors) != 1 or len(others) != 1 or type(floors[0].this.unnest()) is not exp.Div:
        return None
    check_parts(floors[0], "this")
    divided = floors[0].this.unnest()
    check_parts(divided, "this", "expression", "typed", "safe")
    column, divisor = divided.this.unnest(), divided.args["expression"].unnest()
    if type(column) is not exp.Column or type(divisor) is not exp.Literal:
        return None
    width, again = (number_of(each, "the width of bins") for each in (divisor, others[0]))
    if width != again:
        return None
    return Group(column_name(column, "FLOOR"), Width(Fraction(str(width))))


def _period(node: exp.Expr) -> Group | None:
    """Return the bins that DATE_TRUNC(x, MONTH) is; None for weeks from Sunday."""
    check_parts(node, "this", "expressions")
    function = str(node.this).upper()
    column, unit = truncation_parts(function, node.expressions)
    if unit == "WEEK":
        return None
    if unit not in _UNITS:
        raise unsupported(f"the unit {unit}", f"write one of {', '.join(_UNITS)}")
    return Group(time_column(column, function), Period(_UNITS[unit]))


def _part(node: exp.Expr) -> Group | None:
    """Return the bins that EXTRACT(MONTH FROM x) is; None for a part that bins do not have."""
    check_parts(node, "this", "expression")
    unit = node.this.name.upper()
    column = node.args["expression"]
    if type(column) is exp.AtTimeZone:
        check_zone(column.args["zone"])
    return Group(time_column(column, "EXTRACT"), Part(_UNITS[unit])) if unit in _UNITS else None
