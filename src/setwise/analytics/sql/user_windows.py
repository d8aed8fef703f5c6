"""Conversion of window functions over the rows of one user into `UserWindow` records.

An example is ROW_NUMBER() OVER (PARTITION BY user ORDER BY at).
"""

from collections.abc import Callable
from dataclasses import replace

from sqlglot import exp

from setwise.analytics.rows.derivation import USER_FUNCTIONS, SortKey, UserWindow, WindowFunction
from setwise.analytics.rows.expression import ColumnValue, RowExpression
from setwise.analytics.sql.syntax import check_parts, construct_of, number_of, unsupported
from setwise.errors import InvalidParameter

MOST_ROWS = 1_000_000
"""The largest distance in rows of LAG and LEAD, and the most preceding rows of a window."""

_NUMBERED = (WindowFunction.ROW_NUMBER, WindowFunction.RANK, WindowFunction.DENSE_RANK)
_SHIFTED = (WindowFunction.LAG, WindowFunction.LEAD)
_SUPPORTED = f"write one of {', '.join(WindowFunction)}"
_FRAMES = "write ROWS BETWEEN n PRECEDING AND CURRENT ROW, or leave the frame out"


def read_window(
    node: exp.Expr, name: str, user: str, definitions: dict[str, exp.Expr], read: Callable[[exp.Expr], RowExpression]
) -> UserWindow:
    """Return the window function that `node` states, as a column called `name`.

    `user` is the user column, which PARTITION BY must name. `definitions` are the windows of the WINDOW clause by name,
    in lower case, and `read` converts a syntax node over the rows of the window into a row expression.
    Raises: `InvalidParameter` for a window over the rows of several users, and for unsupported functions and frames.
    """
    check_parts(node, "this", "partition_by", "order", "spec", "alias", "over")
    node = _with_definition(node, definitions)
    keys = [read(each) for each in node.args.get("partition_by") or ()]
    if ColumnValue(user) not in keys:
        raise unsupported(
            f"OVER without PARTITION BY {user} over private rows",
            f"one user's value would depend on the rows of others: write PARTITION BY {user}",
        )
    order = node.args.get("order")
    window = UserWindow(
        name=name,
        function=WindowFunction.COUNT,
        keys=tuple(dict.fromkeys(key for key in keys if key != ColumnValue(user))),
        order=() if order is None else tuple(_sort_key(each, read) for each in order.expressions),
    )
    call = node.this
    condition = None
    if isinstance(call, exp.Filter):
        condition, call = call.args["expression"].this, call.this
    if isinstance(call, exp.IgnoreNulls | exp.RespectNulls) or call.find(exp.IgnoreNulls, exp.RespectNulls):
        raise unsupported("IGNORE NULLS", "filter the nulls out before")
    if not isinstance(call, exp.Anonymous) or str(call.this).upper() not in set(WindowFunction):
        raise unsupported(f"{construct_of(call)} over the rows of one user", _SUPPORTED)
    window = replace(window, function=WindowFunction(str(call.this).upper()), preceding=_preceding(node))
    return _with_arguments(window, call, condition, read)


def _with_definition(node: exp.Expr, definitions: dict[str, exp.Expr]) -> exp.Expr:
    """Return the window `node` with the parts that the WINDOW clause defines for its name.

    `definitions` are the windows of the WINDOW clause by name, in lower case. A window without a name is returned
    unchanged.
    Raises: `InvalidParameter` if the clause does not define the name.
    """
    alias = node.args.get("alias")
    if alias is None:
        return node
    if alias.name.lower() not in definitions:
        raise InvalidParameter(f"no window is called {alias.name!r}: define it in WINDOW, or write it after OVER")
    defined = definitions[alias.name.lower()]
    parts = {part: defined.args.get(part) or node.args.get(part) for part in ("partition_by", "order", "spec")}
    return exp.Window(this=node.this, **parts)


def _sort_key(node: exp.Expr, read: Callable[[exp.Expr], RowExpression]) -> SortKey:
    if not isinstance(node, exp.Ordered):
        return SortKey(read(node))
    check_parts(node, "this", "desc", "nulls_first")
    return SortKey(
        read(node.this), descending=bool(node.args.get("desc")), nulls_first=bool(node.args.get("nulls_first"))
    )


def _preceding(node: exp.Expr) -> int | None:
    """Return how many rows before the current row belong to the frame of the window `node`; None for the default frame.

    Raises: `InvalidParameter` for a frame other than n rows PRECEDING up to the current row.
    """
    frame = node.args.get("spec")
    if frame is None:
        return None
    ends = [str(frame.args.get(part) or "").upper() for part in ("start", "start_side", "end")]
    if ends[0] == "UNBOUNDED" and ends[1] == "PRECEDING" and ends[2] in ("CURRENT ROW", ""):
        return MOST_ROWS if str(frame.args.get("kind")).upper() == "ROWS" else None
    start = frame.args.get("start")
    if str(frame.args.get("kind")).upper() != "ROWS" or ends[1] != "PRECEDING" or ends[2] not in ("CURRENT ROW", ""):
        raise unsupported("this frame of a window", _FRAMES)
    return _rows(start, "a frame")


def _rows(node: exp.Expr | str | None, name: str) -> int:
    rows = number_of(node, name) if isinstance(node, exp.Expr) else None
    if not isinstance(rows, int) or not 0 <= rows <= MOST_ROWS:
        raise InvalidParameter(f"{name} takes a number of rows from 0 to {MOST_ROWS:,}")
    return rows


def _with_arguments(
    window: UserWindow, call: exp.Expr, condition: exp.Expr | None, read: Callable[[exp.Expr], RowExpression]
) -> UserWindow:
    """Return `window` with the arguments of the function call `call`, restricted to rows that satisfy `condition`.

    `condition` is that of FILTER (WHERE ..), or None. `read` converts a syntax node into a row expression.
    Raises: `InvalidParameter` for the wrong number or kind of arguments.
    """
    function, arguments = window.function, call.expressions
    if condition is not None and function not in USER_FUNCTIONS:
        raise unsupported(f"FILTER with {function}", "leave it out")
    if window.preceding is not None and function not in USER_FUNCTIONS:
        window = replace(window, preceding=None)  # numbers and neighbours of rows do not depend on the frame
    if function not in USER_FUNCTIONS and not window.order:
        raise InvalidParameter(f"{function} needs an order: write ORDER BY after PARTITION BY")
    if function in _NUMBERED:
        if arguments:
            raise InvalidParameter(f"{function} takes no arguments")
        return window
    if function in _SHIFTED:
        if not 1 <= len(arguments) <= 2:
            raise unsupported(f"{function} with {len(arguments)} arguments", "write COALESCE around it for a default")
        rows = 1 if len(arguments) == 1 else _rows(arguments[1], str(function))
        return replace(window, argument=read(arguments[0]), offset=rows)
    if len(arguments) != 1:
        raise InvalidParameter(f"{function} takes one argument, not {len(arguments)}")
    (argument,) = arguments
    if isinstance(argument, exp.Distinct):
        raise unsupported("DISTINCT in a window function", "count in a subquery grouped by the user, and join it")
    is_star = function is WindowFunction.COUNT and isinstance(argument, exp.Star | exp.Literal)
    if condition is None:
        return replace(window, argument=None if is_star else read(argument))
    counted = exp.Literal.number(1) if is_star else argument
    only = exp.Case(ifs=[exp.If(this=condition.copy(), true=counted.copy())])
    return replace(window, argument=read(only))
