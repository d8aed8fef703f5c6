"""Units of privacy: users, or parts of users such as each of their days, which protects far less.

A composite unit is a column that is derived of the user column and another one before contributions are bounded: every
statement then bounds and protects the derived units as it does users.
"""

from setwise.analytics.bins import Group, Period, TimeUnit, group_of
from setwise.analytics.rows.derivation import AddColumns, Derivation, NamedExpression
from setwise.analytics.rows.expression import ColumnValue, PeriodStart, RowExpression, Start, UnitKey
from setwise.analytics.schema import Column, Kind, Schema
from setwise.errors import InvalidParameter

USER = "user"
"""The unit of privacy unless a question says otherwise: everything that one user has in the table."""

_TIMES = (Kind.DATE, Kind.TIMESTAMP, Kind.INSTANT)
_STARTS = {TimeUnit.DAY: Start.DAY, TimeUnit.WEEK: Start.WEEK, TimeUnit.MONTH: Start.MONTH}


def check_unit(unit: str) -> str:
    """Return a unit of privacy: "user", or "user," and a column or its bins by day, week or month."""
    kind, _, part = unit.partition(",") if isinstance(unit, str) else ("", "", "")
    if kind != USER or (unit != USER and not part.strip()):
        raise InvalidParameter(f"unit is user, or user and a column, as in 'user,at by day', not {unit!r}")
    return unit


def unit_column(user: str, unit: str) -> str:
    """Return the name of the derived column that tells the units of a table apart."""
    return f"{user} and{unit.removeprefix(USER).replace(',', ' ')}"


def unit_derivation(user: str, unit: str, schema: Schema) -> Derivation:
    """Return the derivation that adds the column of a composite unit, or raise what is wrong with the unit."""
    part = check_unit(unit).partition(",")[2].strip()
    schema.column(user)
    group = _group(part, schema)
    expression: RowExpression = ColumnValue(group.column)
    if isinstance(group.bin, Period) and group.bin.unit in _STARTS:
        expression = PeriodStart(_STARTS[group.bin.unit], group.column)
    elif group.bin is not None or group.labels(schema).kind not in (Kind.TEXT, Kind.INTEGER, Kind.DATE, Kind.BOOLEAN):
        raise InvalidParameter(
            f"a unit is told apart by text, whole numbers, dates, or the day, week or month of a time, not {part!r}"
        )
    if group.column == user:
        raise InvalidParameter("a unit needs a column beside the user column to be told apart by")
    return Derivation((AddColumns((NamedExpression(unit_column(user, unit), UnitKey(user, expression)),)),))


def _group(part: str, schema: Schema) -> Group:
    """Return the column or bins that a unit names; a lone day, week or month is that of the table's only time."""
    if part in schema.names or part not in set(_STARTS):
        return group_of(part, schema)
    times: list[Column] = [column for column in schema if column.kind in _TIMES]
    if len(times) != 1:
        raise InvalidParameter(
            f"the table has {len(times)} columns of times, so that 'user,{part}' does not tell which is meant: write "
            f"'user,COLUMN by {part}'"
        )
    return Group(times[0].name, Period(TimeUnit(part)))
