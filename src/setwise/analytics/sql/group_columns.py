"""The group columns of a SELECT that aggregates private rows."""

from dataclasses import dataclass

from sqlglot import exp

from setwise.analytics.bins import ConsecutiveTime
from setwise.analytics.engines.duckdb.dialect import DuckDBDialect
from setwise.analytics.engines.row_sql import compile_expression
from setwise.analytics.rows.expression import RowExpression
from setwise.analytics.schema import Kind, Schema
from setwise.analytics.sql.clauses import SelectedGroup
from setwise.analytics.sql.syntax import short_text
from setwise.errors import InvalidParameter


@dataclass(slots=True)
class GroupColumn:
    """A group column of a SELECT: its syntax node, its text in the query (`item`), and its name in the result.

    `selected` is the column, or the bins of a column, by which rows are grouped. It is None if the key is computed from
    each row by an expression, such as UPPER(x).
    """

    node: exp.Expr
    item: str
    name: str
    selected: SelectedGroup | None = None


def may_be_null(group: GroupColumn) -> bool:
    """Return whether the key of the group column `group` may be null.

    The key cannot be null if COALESCE or a similar function, or the ELSE of a CASE, gives a value for nulls.
    """
    if group.selected is not None:
        return group.selected.null_item is None
    node = group.node.unnest()
    if isinstance(node, exp.Case):
        return node.args.get("default") is None or isinstance(node.args["default"], exp.Null)
    return not (isinstance(node, exp.Anonymous) and str(node.this).upper() in ("COALESCE", "IFNULL", "NVL"))


def check_no_fractions(group: GroupColumn, expression: RowExpression, schema: Schema) -> None:
    """Raise `InvalidParameter` if the keys of `group` are numbers with fractions, such as those of x / 2.

    `expression` computes the keys from the columns of `schema`. Its kind is the same on every engine.
    """
    if compile_expression(expression, schema, DuckDBDialect()).kind is Kind.FLOAT:
        text = short_text(group.node)
        raise InvalidParameter(
            f"GROUP BY {text} would make a group of every number with its fraction: group by bins, as in "
            f"FLOOR({text} / 0.5) * 0.5"
        )


def holds_times(group: GroupColumn) -> bool:
    """Return whether the keys of the group column `group` are periods of time, such as months.

    False if the SELECT gives null keys a label, because the column then holds text.
    """
    selected = group.selected
    return selected is not None and isinstance(selected.group.bin, ConsecutiveTime) and selected.null_item is None
