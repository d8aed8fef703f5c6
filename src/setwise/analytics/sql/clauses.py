"""The clauses of a SELECT: FROM and JOIN as tables, WHERE as a filter, GROUP BY as columns and bins of columns.

Every node that has a meaning here is written anew, and every other is refused.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sqlglot import exp

from setwise.analytics.bins import Group, Part, Period, TimeUnit, Width
from setwise.analytics.engines.joins import Join, Key
from setwise.analytics.filter.parser import ALLOWED, KEYWORDS
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


_TRUNCATIONS = ("DATE_TRUNC", "DATETIME_TRUNC", "TIMESTAMP_TRUNC")
_UNITS = {
    "YEAR": TimeUnit.YEAR,
    "QUARTER": TimeUnit.QUARTER,
    "MONTH": TimeUnit.MONTH,
    "ISOWEEK": TimeUnit.WEEK,
    "DAY": TimeUnit.DAY,
    "HOUR": TimeUnit.HOUR,
}
"""SQL's names of units of time. Its WEEK begins on Sunday, and its DAYOFWEEK counts from there: no bins do."""

_INSTEAD = "group by columns, DATE_TRUNC(x, MONTH), EXTRACT(MONTH FROM x) or FLOOR(x / 10) * 10"

_NAMING_NULL = ("IFNULL", "COALESCE")


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectedGroup:
    """A column or bins of it, what stands for null in it, and what it is called unless it has an alias."""

    group: Group
    null_item: Cell | None = None
    name: str = field(compare=False)


def null_item_of(groups: Sequence[SelectedGroup]) -> Cell | None:
    """Return what stands for null in all groups; None where rows without a group are dropped."""
    found = {each.null_item for each in groups}
    if len(found) > 1:
        raise InvalidParameter(
            "IFNULL names what is missing in all groups alike: write it around every column of GROUP BY with the same "
            "constant, or around none"
        )
    return next(iter(found), None)


def read_groups(select: exp.Expr) -> tuple[SelectedGroup, ...]:
    """Return what a SELECT groups by: columns and bins, named, by their aliases or by their places in the SELECT."""
    group = select.args.get("group")
    if group is None:
        return ()
    if group.args.get("all"):
        raise unsupported("GROUP BY ALL", "name the columns")
    check_parts(group, "expressions")
    if not group.expressions:
        raise InvalidParameter("GROUP BY names no column: name one, or leave it out")
    selected = [each.this if type(each) is exp.Alias else each for each in select.expressions]
    plain = {each.name for each in selected if type(each) is exp.Column}
    aliases = {
        each.alias: each.this for each in select.expressions if type(each) is exp.Alias and each.alias not in plain
    }
    return tuple(_meant(each, selected, aliases) for each in group.expressions)


def read_group(node: exp.Expr) -> SelectedGroup | None:
    """Return the column or bins that an expression is; None for one that is neither, such as a statistic."""
    if type(node) is exp.Anonymous and str(node.this).upper() in _NAMING_NULL:
        check_parts(node, "this", "expressions")
        if len(node.expressions) != 2:
            raise InvalidParameter(f"{str(node.this).upper()} takes a column and a constant, as in IFNULL(x, 'none')")
        found = read_group(node.expressions[0])
        return None if found is None else replace(found, null_item=_null_item(node.expressions[1]))
    group = _group(node)
    return None if group is None else SelectedGroup(group=group, name=node.meta.get(WRITTEN, str(group)))


def _null_item(node: exp.Expr) -> Cell:
    """Return the constant that stands for null."""
    if type(node) is exp.Literal and node.is_string:
        return str(node.this)
    number = None if type(node.unnest()) not in (exp.Literal, exp.Neg) else number_of(node.unnest(), "IFNULL")
    if not isinstance(number, int):
        raise unsupported(f"{construct_of(node)} in IFNULL", "give text or a whole number for what is missing")
    return number


def _group(node: exp.Expr) -> Group | None:
    match node:
        case exp.Column():
            return Group(column_name(node, "SELECT"))
        case exp.Paren():
            return _group(node.this)
        case exp.Cast() if type(node.this.unnest()) is exp.Mul and node.args["to"].this is exp.DType.BIGINT:
            return _group(node.this)
        case exp.Mul():
            return _width(node)
        case exp.Extract():
            return _part(node)
        case exp.Anonymous() if str(node.this).upper() in _TRUNCATIONS:
            return _period(node)
        case exp.Anonymous() if str(node.this).upper() == "DATE" and len(node.expressions) == 1:
            return Group(_time(node.expressions[0], "DATE"), Period(TimeUnit.DAY))
        case _:
            return None


def _meant(node: exp.Expr, selected: list[exp.Expr], aliases: Mapping[str, exp.Expr]) -> SelectedGroup:
    """Return the group that an expression of GROUP BY means."""
    if type(node) is exp.Literal and not node.is_string:
        place = number_of(node, "GROUP BY")
        if not isinstance(place, int) or not 1 <= place <= len(selected):
            raise InvalidParameter(f"GROUP BY {node.this} names no column of the SELECT: there are {len(selected)}")
        node = selected[place - 1]
    elif type(node) is exp.Column and node.name in aliases:
        meant = aliases[node.name]
        if any(column.name == node.name for column in meant.find_all(exp.Column)):
            raise InvalidParameter(f"{node.name!r} is a column and an alias of its bins: give these another alias")
        node = meant
    found = read_group(node)
    if found is None:
        raise unsupported(f"{construct_of(node)} in GROUP BY", _INSTEAD)
    return found


def _width(node: exp.Expr) -> Group | None:
    """Return the bins that FLOOR(x / w) * w is."""
    check_parts(node, "this", "expression")
    sides = [node.this.unnest(), node.args["expression"].unnest()]
    floors = [side for side in sides if type(side) is exp.Floor]
    others = [side for side in sides if type(side) is not exp.Floor]
    if len(floors) != 1 or type(floors[0].this.unnest()) is not exp.Div:
        return None
    check_parts(floors[0], "this")
    divided = floors[0].this.unnest()
    check_parts(divided, "this", "expression", "typed", "safe")
    width, again = (number_of(each, "the width of bins") for each in (divided.args["expression"].unnest(), others[0]))
    if width != again:
        raise InvalidParameter(f"bins are FLOOR(x / {width}) * {width}, with one width: not {width} and {again}")
    return Group(column_name(divided.this.unnest(), "FLOOR"), Width(Fraction(str(width))))


def _period(node: exp.Expr) -> Group:
    """Return the bins that DATE_TRUNC(x, MONTH) is."""
    check_parts(node, "this", "expressions")
    function = str(node.this).upper()
    if len(node.expressions) not in (2, 3):
        raise InvalidParameter(f"{function} takes a column and a unit, as in {function}(x, MONTH)")
    column, unit, *zone = node.expressions
    if column.name.upper() in _UNITS and unit.name.upper() not in _UNITS:
        raise InvalidParameter(f"{function} takes the column first: {function}({unit.name}, {column.name.upper()})")
    for each in zone:
        _check_zone(each)
    if type(unit) is exp.Anonymous and [each.name.upper() for each in unit.expressions] == ["MONDAY"]:
        return Group(_time(column, function), Period(_unit("ISOWEEK" if unit.name.upper() == "WEEK" else unit.name)))
    return Group(_time(column, function), Period(_unit(unit.name)))


def _part(node: exp.Expr) -> Group:
    """Return the bins that EXTRACT(MONTH FROM x) is."""
    check_parts(node, "this", "expression")
    column = node.args["expression"]
    if type(column) is exp.AtTimeZone:
        check_parts(column, "this", "zone")
        _check_zone(column.args["zone"])
        column = column.this
    return Group(_time(column, "EXTRACT"), Part(_unit(node.this.name)))


def _time(node: exp.Expr, function: str) -> str:
    return column_name(node.unnest(), function)


def _unit(name: str) -> TimeUnit:
    unit = _UNITS.get(name.upper())
    if unit is None:
        raise unsupported(f"the unit {name.upper()}", f"write one of {', '.join(_UNITS)}")
    return unit


def _check_zone(node: exp.Expr) -> None:
    if type(node) is not exp.Literal or str(node.this).upper() != "UTC":
        raise unsupported(f"{construct_of(node)} as a time zone", "times are grouped in UTC: leave it out")
