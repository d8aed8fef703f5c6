"""Derived tables: tables computed from a private table in which every row still belongs to one user.

A derivation is a list of steps. Each step computes the rows of one user from the rows of that user alone: it adds
columns, filters rows, selects columns, groups by the user column and possibly others, computes window functions over
the rows of one user, or joins other rows of the same user. So removing a user from the table removes exactly the rows
of that user from the derived table.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias, assert_never

from setwise.analytics.rows.expression import (
    Arithmetic,
    Call,
    ColumnValue,
    ConstantValue,
    RowExpression,
    children,
    columns_of,
    expression_text,
    released_places,
    with_released,
)
from setwise.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class NamedExpression:
    """A column of a derived table: its `name`, and the `expression` that computes its value from one row."""

    name: str
    expression: RowExpression


class UserFunction(StrEnum):
    """The aggregate functions, such as COUNT and AVG, that a derived table can compute over the rows of one user."""

    COUNT = "COUNT"
    COUNT_DISTINCT = "COUNT DISTINCT"
    SUM = "SUM"
    AVG = "AVG"
    MIN = "MIN"
    MAX = "MAX"


_COUNTS = (UserFunction.COUNT, UserFunction.COUNT_DISTINCT)


@dataclass(frozen=True, slots=True)
class UserAggregate:
    """A column `name` that aggregates the rows of one user by `function`, such as SUM.

    The column belongs to a derived table, a table computed from a private table. If `argument` is None, the function is
    COUNT and counts all rows. COUNT with an argument counts the rows in which the argument is not null.
    """

    name: str
    function: UserFunction
    argument: RowExpression | None = None


@dataclass(frozen=True, slots=True)
class AddColumns:
    """A derivation step (an operation on the rows of each user) that adds computed `columns` and keeps all others."""

    columns: tuple[NamedExpression, ...]


@dataclass(frozen=True, slots=True)
class KeepRows:
    """A derivation step (an operation on the rows of each user) that keeps the rows for which `condition` is true."""

    condition: RowExpression


@dataclass(frozen=True, slots=True)
class SelectColumns:
    """A derivation step (an operation on the rows of each user) that keeps only `columns`, computed or unchanged.

    The user column `user` must be among `columns`, unchanged.
    """

    user: str
    columns: tuple[NamedExpression, ...]


@dataclass(frozen=True, slots=True)
class GroupByUser:
    """A derivation step (an operation on the rows of each user) that aggregates the rows of each user.

    The result has one row for each user and combination of values of `keys`; if there are no keys, one row for each
    user. Its columns are the user column `user`, the keys, and the `aggregates`.
    """

    user: str
    keys: tuple[NamedExpression, ...]
    aggregates: tuple[UserAggregate, ...]


class WindowFunction(StrEnum):
    """The window functions that can be computed over the rows of one user.

    COUNT, SUM, AVG, MIN and MAX are aggregates too, which `UserFunction` has under the same names.
    """

    ROW_NUMBER = "ROW_NUMBER"
    RANK = "RANK"
    DENSE_RANK = "DENSE_RANK"
    LAG = "LAG"
    LEAD = "LEAD"
    FIRST_VALUE = "FIRST_VALUE"
    COUNT = "COUNT"
    SUM = "SUM"
    AVG = "AVG"
    MIN = "MIN"
    MAX = "MAX"


NUMBERING_FUNCTIONS = (WindowFunction.ROW_NUMBER, WindowFunction.RANK, WindowFunction.DENSE_RANK)
"""The window functions that number the rows of a user, so that they need an order and no argument."""

USER_FUNCTIONS = {
    WindowFunction.COUNT: UserFunction.COUNT,
    WindowFunction.SUM: UserFunction.SUM,
    WindowFunction.AVG: UserFunction.AVG,
    WindowFunction.MIN: UserFunction.MIN,
    WindowFunction.MAX: UserFunction.MAX,
}
"""The window functions that are aggregates, with the aggregate function of one user's rows that each of them is."""


@dataclass(frozen=True, slots=True)
class SortKey:
    """An expression by which the rows of one user are sorted, in ascending order unless `descending`.

    `nulls_first` says whether nulls come before all other values.
    """

    expression: RowExpression
    descending: bool = False
    nulls_first: bool = True


@dataclass(frozen=True, slots=True)
class UserWindow:
    """A column, called `name`, that a window function computes over the rows of one user.

    - `function` is the window function, and `argument` its argument: None for COUNT(*) and functions without one.
    - `keys` are the expressions of PARTITION BY, and `order` are the expressions of ORDER BY.
    - `offset` is the distance in rows of LAG and LEAD.
    - `preceding` is n if an aggregate covers the current row and the n rows before it. If it is None, the aggregate
      covers the whole partition or, if there is an `order`, the rows up to the current row and all rows that are equal
      to the current row in `order`.
    """

    name: str
    function: WindowFunction
    argument: RowExpression | None = None
    keys: tuple[RowExpression, ...] = ()
    order: tuple[SortKey, ...] = ()
    offset: int = 1
    preceding: int | None = None


@dataclass(frozen=True, slots=True)
class AddWindows:
    """A derivation step (an operation on the rows of each user) that adds columns computed by window functions.

    - `user` is the user column.
    - `windows` are the columns that are added.
    - `ties` are all names in the analyst's SQL statement, in lower case. Those that are columns of the table serve to
      sort ties, which are rows that are equal in the ORDER BY of a window; the others are ignored.

    The values of some window functions, such as ROW_NUMBER, depend on the order of ties. Ties are then sorted by every
    column that this step or a later step reads and, if it is not known which columns are read after the last step, by
    the columns named in `ties`. So the values do not depend on the order in which the table is stored. The step then
    keeps only these columns and the user column. Without such a function it keeps all columns.
    """

    user: str
    windows: tuple[UserWindow, ...]
    ties: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A condition of a join: the value of `left` in a row of one table equals that of `right` in a row of the other."""

    left: RowExpression
    right: RowExpression


@dataclass(frozen=True, slots=True)
class JoinedValue:
    """A column that a join takes from another table.

    `column` is the name of the column in that table, and `name` its name in the rows after the join.
    """

    name: str
    column: str


@dataclass(frozen=True, slots=True)
class JoinUserRows:
    """A derivation step (an operation on the rows of each user) that joins each row with other rows of the same user.

    - `user` is the user column.
    - `rows` are the steps that compute the other rows from the same private table.
    - `keys` are pairs of expressions. Two rows match if the values in every pair are equal; a null equals nothing.
    - `columns` are the columns that the join adds.
    - `keeps_all` says whether rows without a match are kept, with nulls in `columns`, as by LEFT JOIN.
    """

    user: str
    rows: "Derivation"
    keys: tuple[KeyPair, ...]
    columns: tuple[JoinedValue, ...]
    keeps_all: bool = False


MOST_STEPS = 300
"""The most steps of a derivation. Without it, n joins of a table to itself in turn would take 2^n steps."""

MOST_ROWS_JOINED = 4
"""The most rows of one user that joins may put into one row. A user with n rows then has at most n^4 joined rows.
Without this limit, five joins of a table to itself in turn make 2^32 rows of two, and their failure reveals the two."""

Step: TypeAlias = AddColumns | KeepRows | SelectColumns | GroupByUser | AddWindows | JoinUserRows
"""One step of a derivation."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """The operations (`steps`), in order, that compute a derived table from a private table, such as filters.

    Each step computes the rows of a user from rows of the same user, for example by grouping them. Without steps the
    derived table is the private table itself.
    """

    steps: tuple[Step, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.steps)

    def then(self, *steps: Step) -> "Derivation":
        """Return a new derivation: the steps of this derivation, followed by `steps`.

        A step is an operation on the rows of each user, such as a filter.

        Raises: `InvalidParameter` if the result has more steps than the limit `MOST_STEPS`, where the steps of joined
        tables count too, or if its joins combine more rows of a user into one than the limit `MOST_ROWS_JOINED`.
        """
        longer = Derivation((*self.steps, *steps))
        if longer.size > MOST_STEPS:
            raise InvalidParameter(
                f"the statement takes more than {MOST_STEPS} steps to compute the rows of a user: use fewer joins of a "
                "user's rows, and do not join a common table expression to itself again and again"
            )
        if longer.rows_joined > MOST_ROWS_JOINED:
            raise InvalidParameter(
                f"the statement joins more than {MOST_ROWS_JOINED} rows of a user into one: group the joined rows by "
                "the user first, or use window functions"
            )
        return longer

    @property
    def rows_joined(self) -> int:
        """The most rows of the private table that joins combine into one row of the derived table; 1 without joins.

        The caller limits this number: if k rows of a user are combined into one, a user with n rows has up to n^k rows
        in the derived table. A join with a table that has at most one row per user does not raise the number. Grouping
        the rows by the user alone makes it 1 again.
        """
        number = 1
        for step in self.steps:
            match step:
                case GroupByUser(keys=()):
                    number = 1
                case JoinUserRows(rows=rows):
                    number += 0 if rows.has_one_row else rows.rows_joined
                case _:
                    pass
        return number

    @property
    def has_one_row(self) -> bool:
        """Whether each user certainly has at most one row in the derived table (the rows that the steps compute).

        True if the last step that joins or groups rows is one that groups them by the user alone. A step is an
        operation on the rows of each user.
        """
        last = [step for step in self.steps if isinstance(step, GroupByUser | JoinUserRows)][-1:]
        return any(isinstance(step, GroupByUser) and not step.keys for step in last)

    @property
    def size(self) -> int:
        """The number of steps (operations on the rows of each user, such as filters) that the derivation takes.

        If a step joins another derived table, the steps that compute that table count too.
        """
        return sum(1 + (step.rows.size if isinstance(step, JoinUserRows) else 0) for step in self.steps)

    def after(self, prefix: "Derivation") -> "Derivation":
        """Return a new derivation that first takes the steps of `prefix`, and then the steps of this derivation.

        A step is an operation on the rows of each user, such as a filter. A step of this derivation may join another
        derived table, which is computed from the same private table; `prefix` is then put before the steps of that
        table, too.
        """
        if not prefix:
            return self
        steps = [
            replace(step, rows=step.rows.after(prefix)) if isinstance(step, JoinUserRows) else step
            for step in self.steps
        ]
        return Derivation((*prefix.steps, *steps))

    @property
    def reads_twice(self) -> bool:
        """Whether a step (an operation on the rows of each user) joins rows with other rows of the same private table.

        Engines then read the table more than once.
        """
        return any(isinstance(step, JoinUserRows) for step in self.steps)

    @property
    def released(self) -> frozenset[int]:
        """The indexes of the scalar subqueries whose released (noisy) values the steps, such as filters, use.

        The filter amount > (SELECT AVG(amount) FROM t), for example, uses the value of one scalar subquery. The index
        counts the scalar subqueries of the statement from 0. They must be released before the steps can be applied.
        """
        return frozenset(place for step in self.steps for part in _expressions(step) for place in released_places(part))

    @property
    def read(self) -> frozenset[str]:
        """The names of all columns that the steps read, including columns that an earlier step adds.

        The steps are the operations, such as filters, that compute the derived table.
        """
        return frozenset(name for step in self.steps for part in _expressions(step) for name in columns_of(part))

    def with_released(self, values: Mapping[int, float | None]) -> "Derivation":
        """Return the derivation with noisy numbers in place of its placeholders for scalar subqueries.

        The filter amount > (SELECT AVG(amount) FROM t), for example, has one placeholder (`ReleasedValue`). `values`
        maps the index of each scalar subquery, which was released before with noise, to its released number, or to None
        for null.
        """
        return Derivation(tuple(_replace_released(step, values) for step in self.steps))

    def __str__(self) -> str:
        return "; ".join(map(_step_text, self.steps))


NOT_DERIVED = Derivation()
"""The derivation without steps."""


def _expressions(step: Step) -> Iterator[RowExpression]:
    """Yield every row expression (a value computed from each row) in `step`, an operation such as a filter.

    The user column is yielded too if the step reads it, and so are the expressions of the derived table that a join
    reads.
    """
    match step:
        case AddColumns(columns) | SelectColumns(columns=columns):
            yield from (column.expression for column in columns)
        case KeepRows(condition):
            yield condition
        case GroupByUser(user, keys, aggregates):
            yield ColumnValue(user)
            yield from (column.expression for column in keys)
            yield from (column.argument for column in aggregates if column.argument is not None)
        case AddWindows(user, windows):
            yield ColumnValue(user)
            for window in windows:
                yield from window_expressions(window)
        case JoinUserRows(user, rows, keys):
            yield ColumnValue(user)
            yield from (side for pair in keys for side in (pair.left, pair.right))
            yield from (part for inner in rows.steps for part in _expressions(inner))
        case _:
            assert_never(step)


def window_expressions(window: UserWindow) -> Iterator[RowExpression]:
    """Yield the expressions in the window function `window`: its argument, and those of PARTITION BY and ORDER BY."""
    if window.argument is not None:
        yield window.argument
    yield from window.keys
    yield from (key.expression for key in window.order)


def _replace_released(step: Step, values: Mapping[int, float | None]) -> Step:
    """Return `step` with noisy numbers in place of its placeholders for scalar subqueries.

    A step is an operation on private rows, such as the filter amount > (SELECT AVG(amount) FROM t). The scalar subquery
    in it is a private query of its own, whose answer is released with noise before the step is applied. `values` maps
    the index of each scalar subquery to its released number, or to None for null.
    """

    def named(columns: tuple[NamedExpression, ...]) -> tuple[NamedExpression, ...]:
        """Return the expressions `columns` with released noisy numbers in place of the scalar subqueries."""
        return tuple(NamedExpression(each.name, with_released(each.expression, values)) for each in columns)

    match step:
        case AddColumns(columns):
            return AddColumns(named(columns))
        case SelectColumns(columns=columns):
            return replace(step, columns=named(columns))
        case KeepRows(condition):
            return KeepRows(with_released(condition, values))
        case GroupByUser(keys=keys, aggregates=aggregates):
            return replace(
                step,
                keys=named(keys),
                aggregates=tuple(
                    aggregate
                    if aggregate.argument is None
                    else replace(aggregate, argument=with_released(aggregate.argument, values))
                    for aggregate in aggregates
                ),
            )
        case AddWindows(windows=windows):
            return replace(step, windows=tuple(_window_with_released(each, values) for each in windows))
        case JoinUserRows(rows=rows, keys=keys):
            pairs = tuple(KeyPair(with_released(each.left, values), with_released(each.right, values)) for each in keys)
            return replace(step, rows=rows.with_released(values), keys=pairs)
        case _:
            assert_never(step)


def _window_with_released(window: UserWindow, values: Mapping[int, float | None]) -> UserWindow:
    """Return the window function `window` with noisy numbers in place of its placeholders for scalar subqueries.

    In MAX(amount - (SELECT AVG(amount) FROM t)) OVER (..), for example, the scalar subquery is a private query of its
    own, whose answer is released with noise first. `values` maps the index of each scalar subquery to its released
    number, or to None for null.
    """
    return replace(
        window,
        argument=None if window.argument is None else with_released(window.argument, values),
        keys=tuple(with_released(each, values) for each in window.keys),
        order=tuple(replace(each, expression=with_released(each.expression, values)) for each in window.order),
    )


def _step_text(step: Step) -> str:
    """Return `step`, an operation such as a filter on private rows, as text; different steps have different texts.

    The text becomes a part of the text by which a charged query is recognised when it is asked again.
    """

    def named(columns: tuple[NamedExpression, ...]) -> str:
        """Return the named expressions `columns` as text, separated by commas: each expression AS its name."""
        return ", ".join(f"{expression_text(each.expression)} AS {each.name!r}" for each in columns)

    match step:
        case AddColumns(columns):
            return f"add {named(columns)}"
        case KeepRows(condition):
            return f"where {expression_text(condition)}"
        case SelectColumns(columns=columns):
            return f"select {named(columns)}"
        case GroupByUser(user, keys, aggregates):
            computed = ", ".join(
                f"{aggregate.function} {'*' if aggregate.argument is None else expression_text(aggregate.argument)}"
                f" AS {aggregate.name!r}"
                for aggregate in aggregates
            )
            return f"by {user!r}, {named(keys)}: {computed}"
        case AddWindows(user, windows, ties):
            return f"over {user!r}, ties {list(ties)}: {', '.join(map(_window_text, windows))}"
        case JoinUserRows(user, rows, keys, columns, keeps_all):
            pairs = ", ".join(f"{expression_text(each.left)} = {expression_text(each.right)}" for each in keys)
            added = ", ".join(f"{each.column!r} AS {each.name!r}" for each in columns)
            return f"{'left join' if keeps_all else 'join'} by {user!r}, {pairs}: {added} of ({rows})"
        case _:
            assert_never(step)


def _window_text(window: UserWindow) -> str:
    """Return the window function `window` as text; different window functions have different texts.

    The text becomes a part of the text by which a charged query is recognised when it is asked again.
    """
    argument = "*" if window.argument is None else expression_text(window.argument)
    keys = ", ".join(map(expression_text, window.keys))
    order = ", ".join(
        f"{expression_text(key.expression)} {'desc' if key.descending else 'asc'} "
        f"nulls {'first' if key.nulls_first else 'last'}"
        for key in window.order
    )
    return (
        f"{window.function} {argument} {window.offset} by [{keys}] order [{order}] rows {window.preceding} "
        f"AS {window.name!r}"
    )


def columns_computed_with(derivation: Derivation) -> Iterator[tuple[str, bool]]:
    """Yield (column name, flag) for each place where the derivation reads a column, to check permissions for columns.

    The flag is True if the column is used only as a number there: in arithmetic, or as the argument of an aggregate. It
    is False in filters, groups, joins and other places. The flag matters for columns with which people may compute
    (flag True) but by which they may not filter or group (flag False).

    Two kinds of places are left out: where a step passes a column on under the same name, and where only the user
    column stands to keep users apart, as in the join condition a.user = b.user, in COUNT(user) and in PARTITION BY
    user.
    """
    # The use of a passed column in a later step is yielded there. The user column compares rows of one user by itself
    # in PARTITION BY or ORDER BY of a window, in COUNT, and on both sides of a join condition.
    for step in derivation.steps:
        if isinstance(step, JoinUserRows):
            yield from columns_computed_with(step.rows)
            # A column that the join renames could be used under its new name without a check of the old one.
            yield from ((each.column, False) for each in step.columns if each.name != each.column)
        for expression, is_number in _uses(step):
            yield from _computed_with(expression, is_number=is_number)


def _uses(step: Step) -> Iterator[tuple[RowExpression, bool]]:
    """Yield (expression, flag) for each expression in which `step` reads columns, to check permissions for columns.

    `step` is an operation on the rows of each user, such as a filter. The flag is True if the expression serves as a
    number: as the argument of an aggregate, or as the value of a computed column. It is False for conditions, for keys
    of groups and joins, and for columns that are only renamed. The caller needs the flag because people may be allowed
    to compute with a column but not to filter or group by it. Columns that the step passes on under the same name are
    left out.
    """
    match step:
        case AddColumns(columns) | SelectColumns(columns=columns):
            for column in columns:
                if column.expression != ColumnValue(column.name):
                    yield column.expression, not isinstance(column.expression, ColumnValue)
        case KeepRows(condition):
            yield condition, False
        case GroupByUser(user, keys, aggregates):
            yield from ((key.expression, False) for key in keys)
            for aggregate in aggregates:
                argument, counts = aggregate.argument, aggregate.function in _COUNTS
                if argument is not None and not (counts and argument == ColumnValue(user)):
                    yield argument, True
        case AddWindows(user, windows):
            yield from (use for window in windows for use in _window_uses(window, user))
        case JoinUserRows(user, keys=pairs):
            by_user = KeyPair(ColumnValue(user), ColumnValue(user))
            yield from ((side, False) for pair in pairs if pair != by_user for side in (pair.left, pair.right))
        case _:
            assert_never(step)


def _window_uses(window: UserWindow, user: str) -> Iterator[tuple[RowExpression, bool]]:
    """Yield (expression, flag) for each expression of the window function `window`, to check permissions for columns.

    The flag is True if the expression is the argument of an aggregate, such as SUM, and so serves as a number. It is
    False for the argument of another function, such as LAG, and for expressions of PARTITION BY and ORDER BY. An
    expression that is just the user column `user` is left out in COUNT, PARTITION BY and ORDER BY: all rows of a window
    are of one user, so it has the same value in all of them and tells nothing.
    """
    counts = window.function is WindowFunction.COUNT and window.argument == ColumnValue(user)
    if window.argument is not None and not counts:
        yield window.argument, window.function in USER_FUNCTIONS
    parts = (*window.keys, *(key.expression for key in window.order))
    yield from ((part, False) for part in parts if part != ColumnValue(user))


def _computed_with(expression: RowExpression, *, is_number: bool) -> Iterator[tuple[str, bool]]:
    """Yield (column name, flag) for each place in `expression` where a column stands.

    The flag is True if the column is used only as a number there. People may be allowed to compute with a column but
    not to filter or group by it; the caller needs the flag to tell the two apart. The flag is True if two things hold:
    the value of the whole `expression` serves as a number (`is_number`), and the column is the expression itself or
    stands only inside arithmetic and function calls. So it is False inside a condition or CASE.
    """
    number = is_number and isinstance(expression, ColumnValue | Arithmetic | ConstantValue | Call)
    if isinstance(expression, ColumnValue):
        yield expression.name, number
    for child in children(expression):
        yield from _computed_with(child, is_number=number)


def names_added(step: Step) -> Iterator[str]:
    """Yield the names of the columns that `step`, an operation on the rows of each user, adds to a table or selects.

    For a step that groups rows, these are its keys and aggregates. The user column is left out, because every table
    that such steps compute has it.
    """
    match step:
        case AddColumns(columns) | SelectColumns(columns=columns):
            yield from (column.name for column in columns)
        case JoinUserRows(columns=joined):
            yield from (column.name for column in joined)
        case AddWindows(windows=windows):
            yield from (window.name for window in windows)
        case GroupByUser(keys=keys, aggregates=aggregates):
            yield from (key.name for key in keys)
            yield from (aggregate.name for aggregate in aggregates)
        case KeepRows():
            return
        case _:
            assert_never(step)


def check_names(names: list[str]) -> None:
    """Raise `InvalidParameter` if two of `names`, the column names of a derived table, are equal, ignoring case.

    A derived table is computed from a private table.
    """
    lower = [name.lower() for name in names]
    for name in names:
        if lower.count(name.lower()) > 1:
            raise InvalidParameter(f"two columns are called {name!r}: give them different aliases")
