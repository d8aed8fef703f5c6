"""The group columns of a SELECT that aggregates private rows."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from setwise.analytics.bins import ConsecutiveTime, group_of, parse_group
from setwise.analytics.engines.duckdb.dialect import DuckDBDialect
from setwise.analytics.engines.row_sql import compile_expression
from setwise.analytics.rows.expression import RowExpression
from setwise.analytics.schema import Kind, Schema
from setwise.analytics.sql.clauses import SelectedGroup
from setwise.analytics.sql.syntax import short_text
from setwise.errors import InvalidParameter


@dataclass(slots=True)
class GroupColumn:
    """A group column of a SELECT.

    - `node` is the syntax node of its key.
    - `item` is the group in the words of the private query (`Query.item`), such as "at by month".
    - `name` is the name of the result column.
    - `selected` is the column, or the column in ranges such as months, by which rows are grouped. This field is None if
      the key is computed from each row by an expression, such as UPPER(x).
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


def check_group(group: GroupColumn, computed: Mapping[str, RowExpression], schema: Schema) -> None:
    """Raise an error unless rows can be grouped by `group`, whose column is in `schema` or in `computed`.

    `computed` has the expressions that the SELECT computes from the columns of the table, by name.
    Raises: `UnknownColumn` for a missing column. `InvalidParameter` if the group keys are numbers with fractions, such
    as those of x / 2, because almost every row would be a group of its own.
    """
    column, bins = parse_group(group.item).column, parse_group(group.item).bin
    if column not in computed:
        schema.column(group_of(group.item, schema).column)
    elif bins is None and compile_expression(computed[column], schema, DuckDBDialect()).kind is Kind.FLOAT:
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
