"""Which views and row filters of a database may be read: those whose expressions cannot fail on any row.

A database computes a view, a row policy or a generated column as it reads the table. If such an expression fails on
one row (`CAST(s AS INTEGER)` on 'x', a division by zero), the whole question fails, and whether a question is answered
would reveal whether such a row is there. So a view is read only if it selects plain columns of one table or view, with
a condition that compares columns with constants. Everything else is refused by its definition, before rows are read.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from sqlglot import exp, parse
from sqlglot.errors import SqlglotError

from setwise.analytics.schema import Kind
from setwise.errors import UnsuitableTable

ColumnKinds: TypeAlias = Mapping[str, Kind]
"""The kinds of the columns of a table or view, by name."""

ReadableColumns: TypeAlias = Callable[[str, str], ColumnKinds | None]
"""Returns the columns of the table or view of a schema (empty for the view's own) and name that may be read.

None if there is no such table; raises `UnsuitableTable` if the table may not be read."""

_NUMBERS = frozenset({Kind.INTEGER, Kind.FLOAT, Kind.DECIMAL})
_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE)
_CLAUSES = frozenset({"expressions", "from_", "where"})
"""The clauses that the SELECT of a plain view may have: no joins, grouping, ordering, limits or settings."""


def refuse_view(name: str, remedy: str) -> UnsuitableTable:
    """Return the error for a view that computes something: `remedy` says how to store its rows instead."""
    return UnsuitableTable(
        f"the view {name!r} computes what it shows, so one row could make every question fail: {remedy}, or define the "
        "view by plain columns of one table and comparisons with constants"
    )


def plain_view(statement: str, dialect: str, columns_of: ReadableColumns) -> dict[str, str] | None:
    """Return which column of the table below each column of a view shows, or None if the view computes anything.

    `statement` is the view's SELECT or its CREATE VIEW, in sqlglot's `dialect`.
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
        return None  # a field of a nested column, not a column of the table
    kinds = columns_of(table.db, table.name)
    if kinds is None:
        return None
    where = parsed.args.get("where")
    if where is not None and not cannot_fail(where.this, kinds):
        return None
    shown = _shown_columns(parsed, kinds)
    if shown is None or (named and len(named) != len(shown)):
        return None
    return dict(zip(named, shown.values(), strict=True)) if named else shown


def _shown_columns(select: exp.Select, kinds: ColumnKinds) -> dict[str, str] | None:
    """Return the columns of the table that a SELECT shows, by their new names, or None if it shows anything else."""
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
    """Return a condition as a syntax tree, or None if it cannot be parsed."""
    try:
        statements = parse(f"SELECT 1 WHERE {condition}", read=dialect)
    except (SqlglotError, RecursionError):
        return None
    if len(statements) != 1 or not isinstance(statements[0], exp.Select):
        return None
    where = statements[0].args.get("where")
    return None if where is None else where.this


def cannot_fail(condition: exp.Expression, kinds: ColumnKinds) -> bool:
    """Return whether a condition on the rows of a table gives true, false or null for every row that there could be.

    Text compared with a number is converted to a number first, and fails where it is none, so numbers may be compared
    only with numbers. A constant in quotes is converted to the kind of the column, once for the whole statement.
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
    """Return whether a comparison of a column with a constant converts nothing but the constant."""
    name = _column_name(column, kinds)
    if name is None or kinds[name] is Kind.OTHER:
        return False
    if isinstance(constant, exp.Neg):
        constant = constant.this
    match constant:
        case exp.Literal(is_string=True):
            return True
        case exp.Literal() if constant.this.isdigit():
            return kinds[name] in _NUMBERS
        case exp.Literal():
            # Compared with a fraction, a decimal column is converted to more places, which may overflow.
            return kinds[name] is Kind.FLOAT
        case exp.Boolean():
            return kinds[name] is Kind.BOOLEAN
        case exp.Null():
            return True
        case _:
            return False


def _column_name(expression: exp.Expression, kinds: ColumnKinds) -> str | None:
    """Return the name of the column that an expression is, in the table's spelling, or None if it is anything else."""
    while isinstance(expression, exp.Paren):
        expression = expression.this
    if not isinstance(expression, exp.Column) or not isinstance(expression.this, exp.Identifier):
        return None
    if expression.name in kinds:
        return expression.name
    folded = [name for name in kinds if name.lower() == expression.name.lower()]
    return folded[0] if len(folded) == 1 else None
