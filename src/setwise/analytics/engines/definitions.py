"""Checks that the expressions of a view or row filter cannot fail on any row, so that a table may be read through it.

A database evaluates a view, a row policy or a generated column while it reads the table. If the expression fails on one
row (`CAST(s AS INTEGER)` on 'x', a division by zero), the whole query fails, so that the failure would reveal that such
a row exists. Therefore a view is read only if it selects plain columns of one table or view, with a condition that
compares columns with constants. Every other view is refused by its definition, before rows are read.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from sqlglot import exp, parse
from sqlglot.errors import SqlglotError

from setwise.analytics.schema import NUMBER_KINDS, Kind
from setwise.errors import UnsuitableTable

ColumnKinds: TypeAlias = Mapping[str, Kind]
"""The kinds of the columns of a table or view, by name."""

ReadableColumns: TypeAlias = Callable[[str, str], ColumnKinds | None]
"""Function that returns the columns of a table or view, given its schema and its name.

An empty schema means the schema of the view that refers to the table. The function returns None if there is no such
table, and raises `UnsuitableTable` if the table may not be read.
"""

_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_CLAUSES = frozenset({"expressions", "from_", "where"})
"""The clauses that the SELECT of a plain view may have: no joins, grouping, ordering, limits or settings."""


def refuse_view(name: str, remedy: str) -> UnsuitableTable:
    """Return the error that refuses the view `name`, because the view computes values.

    A computation could fail on one row, and the failure of a query would reveal this row. `remedy` is the part of the
    message that says how to store the view's rows in a table instead.
    """
    return UnsuitableTable(
        f"the view {name!r} computes what it shows, so one row could make every question fail: {remedy}, or define the "
        "view by plain columns of one table and comparisons with constants"
    )


def plain_view(statement: str, dialect: str, columns_of: ReadableColumns) -> dict[str, str] | None:
    """Return {name of a view's column: name of the table's column that it shows}; None if the view must be refused.

    A view is refused if reading it could fail on one row, because the failure would reveal this row: if it computes
    anything, or if its WHERE condition could fail. It is also refused if its table is unknown. `statement` is the
    view's SELECT or CREATE VIEW in sqlglot's `dialect`. `columns_of` is a function that returns the types of a table's
    columns.
    """
    try:
        statements = parse(statement, read=dialect)
    except (SqlglotError, RecursionError):
        return None
    parsed = statements[0] if len(statements) == 1 else None
    named: list[str] = []
    if isinstance(parsed, exp.Create):
        if isinstance(parsed.this, exp.Schema):
            named = [column.name for column in parsed.this.expressions]
        parsed = parsed.expression
    if not isinstance(parsed, exp.Select):
        return None
    if any(value for key, value in parsed.args.items() if key not in _CLAUSES):
        return None
    source = parsed.find(exp.From)
    table = source.this if source is not None else None
    if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
        return None
    if any(value for key, value in table.args.items() if key not in ("this", "db", "catalog", "alias")):
        return None
    alias = table.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return None
    qualifiers = {"", table.name.lower(), table.alias.lower()}
    if any(column.args.get("db") or column.table.lower() not in qualifiers for column in parsed.find_all(exp.Column)):
        return None  # the qualifier is not the table, so this is a field of a nested column
    kinds = columns_of(table.db, table.name)
    if kinds is None:
        return None
    where = parsed.args.get("where")
    if where is not None and not cannot_fail(where.this, kinds):
        return None
    columns = _shown_columns(parsed, kinds)
    if columns is None or (named and len(named) != len(columns)):
        return None
    return dict(zip(named, columns.values(), strict=True)) if named else columns


def _shown_columns(select: exp.Select, kinds: ColumnKinds) -> dict[str, str] | None:
    """Return {name of a view's column: name of the table's column that it shows}; None if any column is computed.

    A view that computes a column is refused, because the computation could fail on one row and so reveal the row.
    `select` is the view's SELECT, and `kinds` maps the table's columns to their types.
    """
    shown: dict[str, str] = {}
    for item in select.expressions:
        if isinstance(item, exp.Star):
            if any(item.args.values()):
                return None
            shown.update({name: name for name in kinds})
            continue
        column = item.this if isinstance(item, exp.Alias) else item
        name = _column_name(column, kinds)
        if name is None:
            return None
        shown[item.alias_or_name] = name
    return shown


def parsed_condition(condition: str, dialect: str) -> exp.Expression | None:
    """Return the syntax tree of a SQL `condition` in sqlglot's `dialect`, or None if it cannot be parsed."""
    try:
        statements = parse(f"SELECT 1 WHERE {condition}", read=dialect)
    except (SqlglotError, RecursionError):
        return None
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        return None
    where = statements[0].args.get("where")
    return None if where is None else where.this


def cannot_fail(condition: exp.Expression, kinds: ColumnKinds) -> bool:
    """Return whether `condition` gives true, false or null, and never an error, on every possible row.

    Only simple conditions are known not to fail: a boolean column, a comparison of a column with a constant for which
    the database need not convert the column's values, and combinations of these by AND, OR and NOT. `kinds` maps the
    table's columns to their types.
    """
    match condition:
        case exp.And() | exp.Or():
            return cannot_fail(condition.this, kinds) and cannot_fail(condition.expression, kinds)
        case exp.Not() | exp.Paren():
            return cannot_fail(condition.this, kinds)
        case exp.Is():
            column = _column_name(condition.this, kinds)
            return column is not None and isinstance(condition.expression, exp.Null | exp.Boolean)
        case exp.In():
            if condition.args.get("query") or condition.args.get("unnest") or condition.args.get("field"):
                return False
            return bool(condition.expressions) and all(
                _comparable(condition.this, constant, kinds) for constant in condition.expressions
            )
        case exp.Between():
            return _comparable(condition.this, condition.args["low"], kinds) and _comparable(
                condition.this, condition.args["high"], kinds
            )
        case exp.Boolean():
            return True
        case exp.Column():
            name = _column_name(condition, kinds)
            return name is not None and kinds[name] is Kind.BOOLEAN
        case _ if isinstance(condition, _COMPARISONS):
            left, right = condition.this, condition.expression
            return _comparable(left, right, kinds) or _comparable(right, left, kinds)
        case _:
            return False


def _comparable(column: exp.Expression, constant: exp.Expression, kinds: ColumnKinds) -> bool:
    """Return whether the database can compare `column` with `constant` without converting the column's values.

    `kinds` maps the table's columns to their types. The constant may be converted, because its conversion does not
    depend on rows.
    """
    name = _column_name(column, kinds)
    if name is None or kinds[name] is Kind.OTHER:
        return False
    if isinstance(constant, exp.Neg):
        constant = constant.this
    match constant:
        case exp.Literal(is_string=True):
            return True
        case exp.Literal() if constant.this.isdigit():
            return kinds[name] in NUMBER_KINDS
        case exp.Literal():
            # A decimal column compared with a fraction is converted to more decimal places, which can overflow.
            return kinds[name] is Kind.FLOAT
        case exp.Boolean():
            return kinds[name] is Kind.BOOLEAN
        case exp.Null():
            return True
        case _:
            return False


def _column_name(expression: exp.Expression, kinds: ColumnKinds) -> str | None:
    """Return the name, as the table spells it, of the column that `expression` names; None if it names none.

    `kinds` maps the table's columns to their types. Case is ignored, unless a column has exactly the spelling in
    `expression`. If several columns match, the result is None, too.
    """
    while isinstance(expression, exp.Paren):
        expression = expression.this
    if not isinstance(expression, exp.Column) or not isinstance(expression.this, exp.Identifier):
        return None
    if expression.name in kinds:
        return expression.name
    folded = [name for name in kinds if name.lower() == expression.name.lower()]
    return folded[0] if len(folded) == 1 else None
