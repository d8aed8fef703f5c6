"""The errors for row expressions (values computed from each row) that read columns of unsuitable types.

All columns of a CSV file are text unless a type is declared for them. An error therefore says, in `needed_types`, which
type a text column would need, so that a session can read the column as that type and try again.
"""

from collections.abc import Sequence

from setwise.analytics.rows.expression import ColumnValue, RowExpression
from setwise.analytics.schema import Kind, type_argument
from setwise.errors import InvalidParameter


def not_a_number(statement: str, argument: RowExpression, kind: Kind) -> InvalidParameter:
    """Return the error for `argument`, whose values are of `kind`, where only a number is allowed.

    `statement` is the beginning of the message and says where the number is needed, as in "ROUND takes a number".
    """
    return InvalidParameter(f"{statement}, not {kind} values{_advice(argument, kind, Kind.FLOAT)}").needing(
        _declarable_types(argument, kind, Kind.FLOAT)
    )


def not_comparable(left: tuple[RowExpression, Kind], right: tuple[RowExpression, Kind]) -> InvalidParameter:
    """Return the error for a comparison of values of different types.

    `left` and `right` are the two sides, each as a pair (expression, kind of its values). If a side is a column of
    text, the message advises to declare its type.
    """
    message = f"{left[1]} and {right[1]} values cannot be compared: convert one of them"
    for (side, kind), (_, other) in ((left, right), (right, left)):
        wanted = Kind.FLOAT if other is Kind.INTEGER else other
        if needed := _declarable_types(side, kind, wanted):
            return InvalidParameter(message + _advice(side, kind, wanted)).needing(needed)
    return InvalidParameter(message)


def not_one_kind(construct: str, values: Sequence[tuple[RowExpression, Kind]]) -> InvalidParameter:
    """Return the error for `values` of several types where one is needed, such as those of CASE, the `construct`.

    `values` are pairs (expression, kind of its values). If one is a column of text among numbers, or among values of
    another type, the message advises to declare its type.
    """
    kinds = sorted({kind for _, kind in values})
    message = f"the values of {construct} must be of one kind, not {' and '.join(kinds)}"
    others = {kind for _, kind in values} - {Kind.TEXT}
    if len(others) == 1 or others == {Kind.INTEGER, Kind.FLOAT}:
        wanted = Kind.FLOAT if Kind.INTEGER in others else next(iter(others))
        needed = [(each, kind) for each, kind in values if _declarable_types(each, kind, wanted)]
        if needed and len(needed) == sum(kind is Kind.TEXT for _, kind in values):
            types = {
                name: found for each, kind in needed for name, found in _declarable_types(each, kind, wanted).items()
            }
            return InvalidParameter(message + _advice(*needed[0], wanted)).needing(types)
    return InvalidParameter(message)


def not_a_condition(expression: RowExpression, kind: Kind) -> InvalidParameter:
    """Return the error for `expression`, whose values are of `kind`, where only a condition is allowed."""
    return InvalidParameter(
        f"a condition must be true or false, and {kind} values are not{_advice(expression, kind, Kind.BOOLEAN)}"
    ).needing(_declarable_types(expression, kind, Kind.BOOLEAN))


def _declarable_types(expression: RowExpression, kind: Kind, wanted: Kind) -> dict[str, str]:
    """Return {column name: `wanted`} if `expression` is a text column, because a declared type would mend the error.

    `expression` was refused because its values are of `kind`, while `wanted` is needed in its place. Only the cells of
    a text column can be declared to be of another kind, so the result is empty for any other expression.
    """
    return {expression.name: wanted} if isinstance(expression, ColumnValue) and kind is Kind.TEXT else {}


def _advice(expression: RowExpression, kind: Kind, wanted: Kind) -> str:
    """Return the end of an error message that advises to declare the type `wanted` of a column of text.

    `expression` was refused because its values are of `kind`, while `wanted` is needed in its place. The result is ""
    unless `expression` is a column and `kind` is text.
    """
    needed = _declarable_types(expression, kind, wanted)
    return "".join(
        f"; if {name!r} is of a file, give its type, as in {type_argument({name: wanted})}" for name in needed
    )
