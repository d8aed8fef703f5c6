"""Conversion of aggregate functions, such as AVG, of a SELECT over private rows into the statistics of a query."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any

from sqlglot import exp

from setwise.analytics.query import AUTO, Count, Statistic
from setwise.analytics.rows.expression import (
    AllOf,
    AnyOf,
    Branch,
    Call,
    Case,
    ColumnValue,
    Compared,
    ConstantValue,
    Function,
    IsNull,
    Matched,
    Negated,
    RowExpression,
)
from setwise.analytics.schema import Kind, Schema
from setwise.analytics.sql.row_values import RowReader
from setwise.analytics.sql.syntax import check_parts, column_name, construct_of, number_of, unsupported
from setwise.analytics.statistics import STATISTICS, Distinct
from setwise.analytics.statistics.statistic import GROUP_BOUNDS, ROWS, SqlFunction
from setwise.errors import InvalidParameter

MOST_PARTS = 16
"""The most parts into which APPROX_QUANTILES may divide the values. Each inner boundary is a quantile of its own."""

_USERS = ("COUNT_USERS", "APPROX_COUNT_DISTINCT", "HLL_COUNT", "APPROX_DISTINCT")
"""Functions that count distinct values approximately elsewhere; here they mean COUNT(DISTINCT ..)."""

_SHARES = (
    "PERCENTILE_CONT",
    "PERCENTILE_DISC",
    "QUANTILE",
    "QUANTILE_CONT",
    "QUANTILE_DISC",
    "APPROX_PERCENTILE",
    "APPROX_QUANTILE",
)
"""Functions of a column and a quantile level, such as 0.5. Here each of them is a quantile on a grid."""

_INSTEAD_OF = {
    "MIN": ("one user decides it: PRIVATE_MIN is the quantile 0.01", "PRIVATE_MIN({})"),
    "MAX": ("one user decides it: PRIVATE_MAX is the quantile 0.99", "PRIVATE_MAX({})"),
    "ANY_VALUE": ("it shows the value of one user", None),
    "ARRAY_AGG": ("it shows the values of single users", None),
    "STRING_AGG": ("it shows the values of single users", None),
    "LISTAGG": ("it shows the values of single users", None),
    "GROUP_CONCAT": ("it shows the values of single users", None),
    "MODE": ("one user may decide it", None),
    "BOOL_OR": ("one user decides it", "COUNTIF({})"),
    "BOOL_AND": ("one user decides it", "COUNTIF({})"),
    "LOGICAL_OR": ("one user decides it", "COUNTIF({})"),
    "LOGICAL_AND": ("one user decides it", "COUNTIF({})"),
    "FIRST_VALUE": ("it shows the value of one user", None),
    "LAST_VALUE": ("it shows the value of one user", None),
    "CORR": ("it has no private form here", None),
    "COVAR_POP": ("it has no private form here", None),
    "COVAR_SAMP": ("it has no private form here", None),
}
"""Aggregates that are refused: the reason, and what may be written instead (None if nothing)."""

AGGREGATES = frozenset(
    {
        "COUNT", "MEAN", "COUNTIF", "COUNT_IF", "APPROX_QUANTILES", *_SHARES, *_USERS, *_INSTEAD_OF,
        *(name for statistic in STATISTICS.values() for name in statistic.sql),
    }
)  # fmt: skip
"""The names of all functions that aggregate rows, including those that are refused."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredBounds:
    """The bounds that the catalog (the data holder's file of declared tables) declares for a table.

    - `columns` maps column names to the clipping bounds (low, high) of their values.
    - `rows_per_user` is the most rows of one user that count in a group; None if the catalog declares no such number.
    """

    columns: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    rows_per_user: int | None = None


def is_aggregate(node: exp.Expr) -> bool:
    """Return whether the syntax node `node` is a call of an aggregate function, such as COUNT(*).

    The call may have FILTER or WITHIN GROUP, and may be followed by an index, as in APPROX_QUANTILES(x, 4)[OFFSET(1)].
    """
    match node:
        case exp.Anonymous():
            return str(node.this).upper() in AGGREGATES
        case exp.Filter() | exp.WithinGroup():
            return True
        case exp.Bracket():
            return is_aggregate(node.this)
        case _:
            return False


def has_aggregate(node: exp.Expr) -> bool:
    """Return whether the syntax node `node` is, or contains, a call of an aggregate function over rows.

    A window function such as SUM(x) OVER () is not such a call, but an aggregate in its arguments is. Subqueries are
    not searched.
    """
    if isinstance(node, exp.Subquery | exp.Select):
        return False
    if isinstance(node, exp.Window):
        inner = list(node.this.iter_expressions()) + [
            inner_node for name, value in node.args.items() if name != "this" for inner_node in _nodes(value)
        ]
        return any(has_aggregate(each) for each in inner)
    return is_aggregate(node) or any(has_aggregate(each) for each in node.iter_expressions())


def _nodes(value: object) -> list[exp.Expr]:
    listed = value if isinstance(value, list) else [value]
    return [each for each in listed if isinstance(each, exp.Expr)]


@dataclass(frozen=True, slots=True)
class _AggregateCall:
    """The parts of a call of an aggregate function, such as SUM(x, contribution_bounds_per_group => (0, 9)).

    - `function` is the name of the function in capitals.
    - `arguments` are its plain arguments, and `named` are those with a name, such as bounds.
    - `condition` is the condition of FILTER, and `alias` the name of the result column; both may be None.
    """

    function: str
    arguments: Sequence[exp.Expr]
    named: Sequence[exp.Expr] = ()
    condition: RowExpression | None = None
    alias: str | None = None


class AggregateReader:
    """Converts aggregate calls of a SQL syntax tree, such as AVG(x), into the `Statistic` objects of a private query.

    - `user` is the name of the user column.
    - `rows` converts the arguments of a call into row expressions (values computed from each private row).
    - `compute(expression, alias)` adds a column with the values of a row expression, and returns its name. `alias` is
      the alias of the result column, or None.
    - `declared` has clipping bounds from the catalog (the data holder's file of declared tables). These bounds are used
      for a call that states no bounds itself.
    - `schema` describes the columns of the private rows; None if they are not known.
    """

    def __init__(
        self,
        user: str,
        rows: RowReader,
        compute: Callable[[RowExpression, str | None], str],
        declared: DeclaredBounds,
        schema: Schema | None = None,
    ) -> None:
        self._schema = schema
        self._user = user
        self._rows = rows
        self._compute = compute
        self._declared = declared
        self.cataloged: list[Statistic] = []
        """The statistics whose bounds the catalog declares."""
        self.has_one_row = False
        """Whether every user has at most one row in each group, so that no bound on rows is declared or searched."""

    def statistics(self, node: exp.Expr, alias: str | None = None) -> list[tuple[str, Statistic]]:
        """Return the statistics of the aggregate call `node` as pairs (suffix, statistic), one for each result column.

        The caller adds the suffix to the column's name. APPROX_QUANTILES(x, n) has n - 1 statistics, its inner
        quantiles, with the suffixes _1, _2, .. Any other call has one statistic, with the suffix "". `alias` is the
        alias of the call in the SELECT, or None.
        """
        if isinstance(node, exp.Anonymous) and str(node.this).upper() == "APPROX_QUANTILES":
            parts, make = self._quantiles(node)
            return [(f"_{place}", make(Fraction(place, parts))) for place in range(1, parts)]
        return [("", self.statistic(node, alias))]

    def statistic(self, node: exp.Expr, alias: str | None = None) -> Statistic:
        """Return the statistic that the aggregate call `node` stands for, such as COUNT(*) or a call with FILTER.

        `alias` is the name of the result column, or None if the SELECT gives none.
        Raises: `InvalidParameter` if the call is not supported.
        """
        match node:
            case exp.Filter():
                check_parts(node, "this", "expression")
                return self._aggregate(node.this, self._rows.read(node.args["expression"].this), alias)
            case exp.WithinGroup():
                return self._within_group(node, alias)
            case exp.Bracket():
                return self._element(node)
            case _:
                return self._aggregate(node, None, alias)

    def _aggregate(self, node: exp.Expr, condition: RowExpression | None, alias: str | None) -> Statistic:
        if not isinstance(node, exp.Anonymous):
            raise unsupported(f"{construct_of(node)} with FILTER", "put FILTER after an aggregate")
        check_parts(node, "this", "expressions")
        function = str(node.this).upper()
        arguments = [each for each in node.expressions if type(each) is not exp.Kwarg]
        named = [each for each in node.expressions if type(each) is exp.Kwarg]
        call = _AggregateCall(function, arguments, named, condition, alias)
        if function in _INSTEAD_OF:
            why, instead = _INSTEAD_OF[function]
            if instead is not None and arguments:
                node.meta["instead"] = instead.format(arguments[0].sql(dialect="postgres"))
            raise unsupported(function, why)
        if function in ("COUNTIF", "COUNT_IF"):
            if len(arguments) != 1:
                raise InvalidParameter(f"{function} takes one condition, not {len(arguments)} values")
            return self._count_where(self._rows.read(arguments[0]), call)
        if function in _USERS and len(arguments) == 1:
            return self._distinct([arguments[0]], call)
        if function == "COUNT":
            return self._count(call)
        if any(type(each) is exp.Distinct for each in arguments):
            raise unsupported(f"DISTINCT in {function}", "leave it out")
        if function in _SHARES:
            return self._share(call)
        return self._column_statistic(call)

    def _column_statistic(self, call: _AggregateCall, **more: Any) -> Statistic:  # noqa: ANN401 - words of the statistic
        """Return the statistic that `call`, an aggregate of one column or expression such as AVG(x), stands for.

        Its bounds are those that the call states, or else those that the catalog (the data holder's file) declares.
        Otherwise a private search finds them, unless the argument is a CASE of constants, whose bounds are known.
        `more` are further parameters of the statistic, such as the level of a quantile.
        """
        function, arguments, named = _SYNONYMS.get(call.function, call.function), call.arguments, call.named
        if function not in _MEASURES:
            raise unsupported(function, f"write one of COUNT, COUNTIF, {', '.join(_MEASURES)}")
        make, written = _MEASURES[function]
        if len(arguments) != 1:
            raise InvalidParameter(f"{function} takes one column and its bounds, not {len(arguments)} values")
        expression = self._rows.read(arguments[0])
        if function in ("SUM", "AVG") and self._is_condition(expression):
            ifs = Branch(expression, ConstantValue(1)), Branch(Negated(expression), ConstantValue(0))
            expression = Case(ifs[:1], ConstantValue(0)) if function == "SUM" else Case(ifs)
        if function == "SUM" and not named and (counted := _counted_condition(expression)) is not None:
            return self._count_where(counted, replace(call, function=function))
        column = self._column(expression, call)
        rows = [each for each in named if written.takes_rows and each.this.name.lower() == ROWS]
        words = self._bounds([each for each in named if each not in rows], function, written.bounds)
        declared = None if words else self._declared_bounds(function, column)
        if not words:
            words = declared or _constant_bounds(function, expression) or {"bounds": AUTO}
        if len(rows) > 1:
            raise InvalidParameter(f"{ROWS} is given twice in {function}: give it once")
        if rows:
            words["per_user"] = number_of(rows[0].args["expression"], ROWS)
        elif written.takes_rows and self.has_one_row:
            words["per_user"] = 1
        elif written.takes_rows and self._declared.rows_per_user is not None:
            words["per_user"] = self._declared.rows_per_user
        if written.share is not None:
            words["at"] = written.share
        (statistic,) = make.read({"column": column, **words, **more})
        if declared is not None:
            self.cataloged.append(statistic)
        return statistic

    def _is_condition(self, expression: RowExpression) -> bool:
        """Return whether `expression` has boolean values, as x > 1 has; SUM and AVG count true as 1, false as 0."""
        if not isinstance(expression, ColumnValue):
            return isinstance(expression, Compared | AllOf | AnyOf | Negated | IsNull | Matched)
        known = [] if self._schema is None else [each for each in self._schema.columns if each.name == expression.name]
        return any(each.kind is Kind.BOOLEAN for each in known)

    def _declared_bounds(self, function: str, column: str) -> dict[str, Any] | None:
        bounds = self._declared.columns.get(column)
        if bounds is None:
            return None
        low, high = bounds
        if function != "SUM":
            return {"low": low, "high": high}
        rows = self._declared.rows_per_user
        return None if rows is None else {"low": min(0, low * rows), "high": max(0, high * rows)}

    def _share(self, call: _AggregateCall) -> Statistic:
        """Return the quantile for `call`, such as PERCENTILE_CONT(x, 0.5), whose second argument is the level."""
        if len(call.arguments) != 2:
            raise InvalidParameter(f"{call.function} takes a column and a share, as in {call.function}(x, 0.5)")
        share = number_of(call.arguments[1], f"the share of {call.function}")
        return self._column_statistic(replace(call, function="PERCENTILE_CONT", arguments=call.arguments[:1]), at=share)

    def _within_group(self, node: exp.Expr, alias: str | None) -> Statistic:
        check_parts(node, "this", "expression")
        call, order = node.this, node.args["expression"]
        function = str(call.this).upper() if isinstance(call, exp.Anonymous) else construct_of(call)
        if function not in ("PERCENTILE_CONT", "PERCENTILE_DISC") or len(call.expressions) != 1:
            raise unsupported(f"{function} WITHIN GROUP", "write PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY x)")
        if not isinstance(order, exp.Order) or len(order.expressions) != 1:
            raise unsupported("WITHIN GROUP over several columns", "order by one column")
        ordered = order.expressions[0]
        share = number_of(call.expressions[0], f"the share of {function}")
        if ordered.args.get("desc"):
            share = 1 - Fraction(str(share))  # type: ignore[assignment]
        return self._column_statistic(_AggregateCall("PERCENTILE_CONT", [ordered.this], alias=alias), at=share)

    def _quantiles(self, node: exp.Expr) -> tuple[int, Callable[[Fraction], Statistic]]:
        """Return (n, make) for `node`, the call APPROX_QUANTILES(x, n), which divides the values of x into n parts.

        `make(level)` returns the statistic "quantile of x at the level `level`", where 0 < `level` < 1.
        APPROX_QUANTILES itself has the levels 1/n, 2/n and so on.
        Raises: `InvalidParameter` if the call has other arguments, or n is out of range.
        """
        check_parts(node, "this", "expressions")
        arguments = [each for each in node.expressions if type(each) is not exp.Kwarg]
        named = [each for each in node.expressions if type(each) is exp.Kwarg]
        if len(arguments) != 2:
            raise InvalidParameter(
                f"APPROX_QUANTILES takes a column, a number and its bounds, not {len(arguments)} values"
            )
        parts = number_of(arguments[1], "the number of APPROX_QUANTILES")
        most = MOST_PARTS if not isinstance(node.parent, exp.Bracket) else 1000
        if not isinstance(parts, int) or not 2 <= parts <= most:
            raise InvalidParameter(f"the number of APPROX_QUANTILES must be 2 to {most}, not {parts}")
        quantile = _AggregateCall("PERCENTILE_CONT", arguments[:1], named)
        return parts, lambda share: self._column_statistic(quantile, at=share)

    def _element(self, node: exp.Expr) -> Statistic:
        """Return the quantile that `node`, one element of the array APPROX_QUANTILES(x, n), stands for.

        For example, APPROX_QUANTILES(x, 100)[OFFSET(50)] is the median of x.
        Raises: `InvalidParameter` for the first and the last element, because they are the least and the greatest
        value, which a single user decides.
        """
        call = node.this
        if not (isinstance(call, exp.Anonymous) and str(call.this).upper() == "APPROX_QUANTILES"):
            raise unsupported("an element of an array", "select the whole")
        check_parts(node, "this", "expressions", "offset", "safe")
        parts, make = self._quantiles(call)
        (place,) = node.expressions
        number = number_of(place, "the element")
        offset = 1 if node.args.get("offset") == 1 else 0
        share = Fraction(int(number) - offset, parts)
        if not 0 < share < 1:
            raise unsupported("the least or greatest value", "one user decides it: take an inner element")
        return make(share)

    def _count(self, call: _AggregateCall) -> Statistic:
        """Return the statistic for `call`, a COUNT: a number of rows, of non-null cells or of distinct values."""
        match call.arguments:
            case [exp.Distinct() as distinct]:
                check_parts(distinct, "expressions")
                return self._distinct(distinct.expressions, call)
            case [exp.Star() | exp.Literal()] if call.condition is not None:
                return self._count_where(call.condition, replace(call, function="COUNT(*)", condition=None))
            case [exp.Star() as star]:
                check_parts(star)
                return self._row_count(None, call.named, "COUNT(*)")
            case [exp.Literal() | exp.Boolean()]:
                return self._row_count(None, call.named, "COUNT(*)")
            case [counted]:
                column = self._column(self._rows.read(counted), call)
                return self._row_count(column, call.named, f"COUNT({column})")
            case _:
                many = len(call.arguments)
                raise InvalidParameter(f"COUNT takes * or one column, and its bounds, not {many} values")

    def _distinct(self, expressions: Sequence[exp.Expr], call: _AggregateCall) -> Statistic:
        """Return the statistic for `call`, a count of the distinct values of `expressions`, as in COUNT(DISTINCT x).

        It is a count of users if x is the user column, or a CASE that gives the user column in some rows.
        """
        named = call.named
        written = f"COUNT(DISTINCT {', '.join(each.name or construct_of(each) for each in expressions)})"
        is_tuple = bool(expressions) and isinstance(expressions[0], exp.Tuple)
        columns = expressions[0].expressions if is_tuple else list(expressions)
        if not columns:
            raise InvalidParameter("COUNT(DISTINCT) names no column: write COUNT(DISTINCT x)")
        values = [self._rows.read(each) for each in columns]
        if is_tuple:  # a row value with a null is counted, unlike COUNT(DISTINCT x, y), which leaves it out
            texts = [Call(Function.CONCAT, (ConstantValue("v"), each)) for each in values]
            values = [Call(Function.COALESCE, (text, ConstantValue("n"))) for text in texts]
        if len(values) > 1:  # a control character between the values, so that ('a', 'bc') and ('ab', 'c') differ
            parts = [part for each in values for part in (each, ConstantValue("\x1f"))][:-1]
            values = [Call(Function.CONCAT, tuple(parts))]
            call = replace(call, alias=", ".join(each.sql(dialect="duckdb") for each in columns))
        only = _of_user(values[0], self._user)
        if only is None:
            stated = self._most_values(named, written)
            column = self._column(values[0], call)
            if stated is not None or self.has_one_row:
                return Distinct(column=column, per_user=1 if stated is None else stated)
            statistic = Distinct(column=column, per_user=self._declared.rows_per_user)
            if not statistic.finds_rows:
                self.cataloged.append(statistic)
            return statistic
        if named:
            raise unsupported(f"{named[0].this.name} in COUNT(DISTINCT ..)", "leave it out: a user counts once")
        chosen = _conjunction(only if only is not True else None, call.condition)
        if chosen is None:
            return Count(most=1)
        # Text, and not the 1 of COUNTIF, so that the two conditions are two columns and their counts have two names.
        return Count(most=1, column=self._compute(Case((Branch(chosen, ConstantValue("counted")),)), call.alias))

    def _most_values(self, named: Sequence[exp.Expr], written: str) -> Any:  # noqa: ANN401 - checked by `Distinct`
        """Return the limit on one user's distinct values that a call states; None if a search is to find it.

        `named` are the named arguments of the call, and `written` is its text for messages. The limit n is stated as
        `contribution_bounds_per_group => (0, n)` or `max_rows_contributed => n`.
        """
        if len(named) == 1 and named[0].this.name.lower() == ROWS:
            return number_of(named[0].args["expression"], ROWS)
        words = self._bounds(named, written, GROUP_BOUNDS)
        if words.get("low", 0) != 0:
            raise InvalidParameter(
                f"the bounds of {written} are (0, the most distinct values of one user), or AUTO to have it found"
            )
        return words.get("high")

    def _count_where(self, condition: RowExpression, call: _AggregateCall) -> Statistic:
        """Return the statistic that counts the rows for which `condition` is true.

        If `call` has a FILTER, its condition must be true as well.
        """
        both = _conjunction(condition, call.condition)
        assert both is not None
        column = self._compute(Case((Branch(both, ConstantValue(1)),)), call.alias)
        return self._row_count(column, call.named, call.function)

    def _row_count(self, column: str | None, named: Sequence[exp.Expr], function: str) -> Statistic:
        words = self._bounds(named, function, GROUP_BOUNDS)
        if words.get("bounds") == AUTO or not words:
            if self.has_one_row:
                return Count(most=1, column=column)
            most = self._declared.rows_per_user
            if most is None:
                return Count(bounds=AUTO, column=column)
            self.cataloged.append(Count(most=most, column=column))
            return self.cataloged[-1]
        if words["low"] != 0:
            raise InvalidParameter(f"the lower bound of {function} must be 0, not {words['low']}")
        return Count(most=words["high"], column=column)

    def _column(self, expression: RowExpression, call: _AggregateCall) -> str:
        """Return the name of the column that an aggregate reads: the values of `expression`, the argument of `call`.

        If `call` has a FILTER, the column is null in the rows that do not satisfy it, because aggregates skip nulls. If
        the argument is not simply a column of the table, a computed column is added to the query.
        """
        if call.condition is not None:
            return self._compute(Case((Branch(call.condition, expression),)), call.alias)
        return expression.name if isinstance(expression, ColumnValue) else self._compute(expression, call.alias)

    def _bounds(self, named: Sequence[exp.Expr], function: str, wanted: str) -> dict[str, Any]:
        """Return the clipping bounds that a call of the aggregate `function` states, as arguments for a `Statistic`.

        `named` are the named arguments of the call, of which only the name `wanted` is allowed.
        - `wanted => (low, high)` gives {"low": low, "high": high}.
        - `wanted => AUTO` gives {"bounds": "auto"}, so that a private search finds the bounds.
        - No named argument gives {}.
        Raises: `InvalidParameter` for any other named argument.
        """
        for argument in named:
            if argument.this.name.lower() != wanted:
                raise unsupported(f"{argument.this.name} in {function}", f"it takes {wanted} => (low, high)")
        if not named:
            return {}
        if len(named) != 1:
            raise InvalidParameter(f"{wanted} => (low, high) is given twice in {function}: give it once")
        pair = named[0].args["expression"]
        if type(pair) is exp.Column and pair.name.lower() == AUTO:
            check_parts(pair, "this")
            return {"bounds": AUTO}
        if type(pair) is not exp.Tuple or len(pair.expressions) != 2:
            raise unsupported(f"{construct_of(pair)} as {wanted}", "write (low, high)")
        low, high = (number_of(end, wanted) for end in pair.expressions)
        return {"low": low, "high": high}


_MEASURES: dict[str, tuple[type[Statistic], SqlFunction]] = {
    name: (statistic, written) for statistic in STATISTICS.values() for name, written in statistic.sql.items()
}
"""The SQL functions of a column that are statistics, by name: the statistic's class, and how SQL writes it."""

_SYNONYMS = {"MEAN": "AVG"}


def _counted_condition(expression: RowExpression) -> RowExpression | None:
    """Return the condition c if `expression`, the argument of SUM, is CASE WHEN c THEN 1 ELSE 0 END; otherwise None.

    SUM of this CASE is the number of rows that satisfy c, so it is answered as a count.
    """
    if not isinstance(expression, Case) or len(expression.branches) != 1:
        return None
    (branch,) = expression.branches
    return branch.condition if _is(branch.value, 1) and _is(expression.otherwise, 0) else None


def _constant_bounds(function: str, expression: RowExpression) -> dict[str, Any] | None:
    """Return clipping bounds {"low": .., "high": ..} for an aggregate over a CASE whose values are constant numbers.

    `function` is the name of the aggregate, and `expression` is its argument. The bounds are the least and the greatest
    of the constants. So no value is clipped, and no budget is spent on a private search for bounds. Returns None in
    these cases:
    - `function` is SUM: the bounds of SUM limit the sum over all rows of a user, for which single values give no limit.
    - `expression` is not a CASE, or a value in it is not a constant number.
    - All constants are equal, because the lower bound must be below the upper one.
    """
    if function == "SUM" or not isinstance(expression, Case):
        return None
    parts = [branch.value for branch in expression.branches]
    parts += [] if expression.otherwise is None else [expression.otherwise]
    values = [part.value for part in parts if isinstance(part, ConstantValue)]
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    if len(numbers) < len(parts) or min(numbers) == max(numbers):
        return None
    return {"low": min(numbers), "high": max(numbers)}


def _is(expression: RowExpression | None, number: int) -> bool:
    if expression is None:
        return number == 0
    return isinstance(expression, ConstantValue) and expression.value is not True and expression.value == number


def _of_user(expression: RowExpression, user: str) -> "RowExpression | bool | None":
    """Return which users the call COUNT(DISTINCT `expression`) counts; `user` is the name of the user column.

    - True if the expression is the user column, because the call then counts all users.
    - The condition c if the expression is CASE WHEN c THEN user END, because the call then counts the users with a row
      that satisfies c.
    - None for any other expression, because the call then counts distinct values and not users.
    """
    if expression == ColumnValue(user):
        return True
    if isinstance(expression, Case) and len(expression.branches) == 1 and expression.otherwise is None:
        (branch,) = expression.branches
        return branch.condition if branch.value == ColumnValue(user) else None
    return None


def _conjunction(first: "RowExpression | bool | None", second: RowExpression | None) -> RowExpression | None:
    known = [each for each in (first, second) if each is not None and not isinstance(each, bool)]
    return AllOf(tuple(known)) if len(known) > 1 else (known[0] if known else None)


__all__ = ["AGGREGATES", "AggregateReader", "DeclaredBounds", "column_name", "has_aggregate", "is_aggregate"]
