"""GROUP BY: columns, and the bins of columns that SQL writes as functions."""

from collections.abc import Mapping
from fractions import Fraction

from sqlglot import exp

from setwise.analytics.bins import Group, Part, Period, TimeUnit, Width
from setwise.analytics.sql.syntax import check_parts, column_name, construct_of, number_of, unsupported
from setwise.errors import InvalidParameter

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


def read_groups(select: exp.Expr) -> tuple[Group, ...]:
    """Return what a SELECT groups by: columns and bins, named, by their aliases or by their places in the SELECT."""
    group = select.args.get("group")
    if group is None:
        return ()
    check_parts(group, "expressions")
    selected = [each.this if type(each) is exp.Alias else each for each in select.expressions]
    plain = {each.name for each in selected if type(each) is exp.Column}
    aliases = {
        each.alias: each.this for each in select.expressions if type(each) is exp.Alias and each.alias not in plain
    }
    return tuple(_meant(each, selected, aliases) for each in group.expressions)


def read_group(node: exp.Expr) -> Group | None:
    """Return the column or bins that an expression is; None for one that is neither, such as a statistic."""
    match node:
        case exp.Column():
            return Group(column_name(node, "SELECT"))
        case exp.Paren():
            return read_group(node.this)
        case exp.Cast() if type(node.this.unnest()) is exp.Mul and node.args["to"].this is exp.DType.BIGINT:
            return read_group(node.this)
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


def _meant(node: exp.Expr, selected: list[exp.Expr], aliases: Mapping[str, exp.Expr]) -> Group:
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
