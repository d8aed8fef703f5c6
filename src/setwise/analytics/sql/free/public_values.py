"""Scalar subqueries over public tables alone: their values are constants in expressions over private rows.

The value is computed when the statement is parsed, before anything is charged, and becomes a part of the text that
identifies the request. If a public table changes after the charge, a retry has another value and so another text. It is
then not taken for the request that was charged.
"""

import math
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, TypeAlias

from sqlglot import exp

from setwise.analytics.engines.duckdb.free_sql import ShellValue, run_scalar
from setwise.analytics.rows.expression import LARGEST_NUMBER, Branch, Case, Constant, ConstantValue, RowExpression
from setwise.errors import InvalidParameter

if TYPE_CHECKING:
    import pyarrow as pa

PublicValue: TypeAlias = Callable[[str, Collection[str]], RowExpression]
"""A function that computes a SELECT over public tables, and returns its value as a constant of expressions over rows.

Its arguments are the SQL text of the SELECT and the names of the public tables that it reads."""


def public_value(statement: str, public: "Mapping[str, pa.Table]") -> RowExpression:
    """Compute `statement`, a SELECT of one value over the `public` tables, and return the value as a row expression.

    A row expression is a value computed from each private row; this one is the same constant in every row.

    Raises: `InvalidParameter` if DuckDB cannot compute it, if it has several rows, or if its value is infinite, too
    large, or of a type that expressions over rows do not have.
    """
    computed = run_scalar(statement, public)
    return _null_of(computed) if computed.value is None else ConstantValue(_constant(computed.value))


def _null_of(computed: ShellValue) -> RowExpression:
    """Return a row expression that is null in every row and has the type of `computed`, a null that DuckDB computed.

    A row expression is a value computed from each row. The type is kept because comparisons check the types of both
    sides, also if one side is null.
    Raises: `InvalidParameter` if the type is a time, because row expressions have no null of that type.
    """
    example: Constant = 0.0
    match computed.type:
        case "VARCHAR":
            example = ""
        case "BOOLEAN":
            example = False
        case "DATE":
            example = date(1970, 1, 1)
        case kind if kind.startswith("TIME"):
            raise InvalidParameter("a subquery over public tables is null, and compared with nothing: leave it out")
        case kind if "INT" in kind:
            example = 0
        case _:
            pass
    return Case((Branch(ConstantValue(False), ConstantValue(example)),))


def _constant(value: object) -> Constant:
    """Return `value`, which DuckDB computed, as a constant for row expressions (values computed from each row).

    A decimal becomes an int or float, and a time with a time zone is converted to UTC.

    Raises: `InvalidParameter` for a number that is infinite or too large, and for a value of another type.
    """
    match value:
        case bool() | str():
            return value
        case Decimal():
            return _constant(int(value) if value == value.to_integral_value() else float(value))
        case int() | float():
            if not math.isfinite(value) or abs(value) > LARGEST_NUMBER:
                raise InvalidParameter(
                    f"a subquery over public tables must be a number below {LARGEST_NUMBER:g}, not {value}"
                )
            return value
        case datetime():
            return value if value.tzinfo is None else value.astimezone(UTC)
        case date():
            return value
        case _:
            raise InvalidParameter(
                f"a subquery over public tables must be a number, text, a date or a time, not {type(value).__name__}"
            )


def with_common_tables(query: exp.Expr, common_tables: Mapping[str, exp.Expr]) -> exp.Expr:
    """Return a copy of `query` with a WITH clause that defines every common table expression that the query reads.

    `common_tables` maps the names of all common table expressions, in lower case, to their SELECTs, in the order in
    which the statement defines them. A SELECT may read common table expressions before it; these are added as well.
    """
    complete = query.copy()
    clause = complete.args.get("with_")
    own = [] if clause is None else list(clause.expressions)
    needed = table_names(complete) - {each.alias.lower() for each in own}
    added: list[exp.Expr] = []
    for name, node in reversed(list(common_tables.items())):
        if name in needed:
            added.insert(0, exp.CTE(this=node.copy(), alias=exp.TableAlias(this=exp.to_identifier(name, quoted=True))))
            needed |= table_names(node)
    if added:
        complete.set("with_", exp.With(expressions=[*added, *own]))
    return complete


def table_names(query: exp.Expr) -> set[str]:
    """Return the names, in lower case, of the tables and common table expressions that `query` reads."""
    return {table.name.lower() for table in query.find_all(exp.Table)}
