"""Units of privacy: whole users, or parts of users such as each of their days, which protects far less.

Parts of users are the values of a column that is derived from the user column and another column, before contributions
are bounded. Queries then bound and protect these units in the same way as users.
"""

from setwise.accounting.promises import USER, check_unit
from setwise.analytics.bins import ConsecutiveTime, Group, TimeUnit, group_of
from setwise.analytics.rows.derivation import AddColumns, Derivation, NamedExpression
from setwise.analytics.rows.expression import ColumnValue, PeriodStart, RowExpression, Start, UnitKey
from setwise.analytics.schema import TIME_KINDS, Column, Kind, Schema
from setwise.errors import InvalidParameter, UnknownColumn

_STARTS = {TimeUnit.DAY: Start.DAY, TimeUnit.WEEK: Start.WEEK, TimeUnit.MONTH: Start.MONTH}


def unit_column(user: str, unit: str) -> str:
    """Return the name of the computed column that says to which unit of privacy a row belongs.

    A unit of privacy is what the promise protects: a user, or a part of a user, such as one day of a user. `user` is
    the name of the user column, and `unit` the unit of privacy.

    >>> unit_column("who", "user,at by day")
    'who and at by day'
    """
    return f"{user} and{unit.removeprefix(USER).replace(',', ' ')}"


def unit_derivation(user: str, unit: str, schema: Schema) -> Derivation:
    """Return the operations that add a key column to a table, so that parts of users can be protected like users.

    For the unit of privacy "user,day", two rows have the same key exactly if they belong to the same user and the same
    day. Queries then use the key column in place of the user column.

    - `user` is the user column.
    - `unit` is "user,COLUMN", or "user,day", "user,week" or "user,month" for the table's only column of times. A
      column of times may be named too, as in "user,at by week".
    - `schema` describes the table.

    Raises: `UnknownColumn` if the table lacks a column. `InvalidParameter` if COLUMN is the user column, if its values
    are neither text, whole numbers, dates nor truth values, or if times are grouped by another unit than day, week or
    month.
    """
    part = check_unit(unit).partition(",")[2].strip()
    schema.column(user)
    group = _group(part, schema)
    expression: RowExpression = ColumnValue(group.column)
    if isinstance(group.bin, ConsecutiveTime) and group.bin.unit in _STARTS:
        expression = PeriodStart(_STARTS[group.bin.unit], expression)
    elif group.bin is not None or group.labels(schema).kind not in (Kind.TEXT, Kind.INTEGER, Kind.DATE, Kind.BOOLEAN):
        raise InvalidParameter(
            f"a unit is told apart by text, whole numbers, dates, or the day, week or month of a time, not {part!r}"
        )
    if group.column == user:
        raise InvalidParameter("a unit needs a column beside the user column to be told apart by")
    return Derivation((AddColumns((NamedExpression(unit_column(user, unit), UnitKey(user, expression)),)),))


def is_same_unit(first: str, second: str, schema: Schema) -> bool:
    """Return whether the texts `first` and `second` name the same unit of privacy in a table with this `schema`.

    In a table whose only column of times is "at", "user,day" and "user,at by day" are the same unit.
    """
    if first == second:
        return True
    if USER in (first, second):
        return False
    try:
        groups = [_group(check_unit(unit).partition(",")[2].strip(), schema) for unit in (first, second)]
    except (InvalidParameter, UnknownColumn):
        return False
    return groups[0] == groups[1]


def check_payer_unit(protects: str, unit: str, schema: Schema) -> None:
    """Raise `InvalidParameter` if an account that protects one unit of privacy is to pay for questions about another.

    `protects` is the unit of the account, such as a user or a user's day, and `unit` is the unit of the questions, in a
    table with this `schema`. Epsilons of two different units cannot be added up.
    """
    if not is_same_unit(protects, unit, schema):
        raise InvalidParameter(
            f"the account protects the unit {protects!r}, and the question the unit {unit!r}: promises about two "
            f"units do not add up. Take an account that was opened with the unit {unit!r}, or none and give epsilon"
        )


def _group(part: str, schema: Schema) -> Group:
    """Return the column, or its bins, that tells the parts of a user apart, as in "day" or "at by week".

    `part` is the text after "user," in a unit of privacy, and `schema` describes the table. A lone "day", "week" or
    "month" refers to the table's only column of times.
    Raises: `InvalidParameter` if the table has no column of times, or several.
    """
    if part in schema.names or part not in set(_STARTS):
        return group_of(part, schema)
    times: list[Column] = [column for column in schema if column.kind in TIME_KINDS]
    if len(times) != 1:
        raise InvalidParameter(
            f"the table has {len(times)} columns of times, so that 'user,{part}' does not tell which is meant: write "
            f"'user,COLUMN by {part}'"
        )
    return Group(times[0].name, ConsecutiveTime(TimeUnit(part)))
