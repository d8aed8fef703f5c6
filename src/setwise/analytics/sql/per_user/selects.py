"""Conversion of a per-user SELECT, in which each row is computed from the rows of one user, into derivation steps.

A derivation step is an operation such as keeping some rows, grouping rows, or adding a column. Together, the steps say
how an engine computes the rows of the SELECT from the rows of the private table.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from setwise.analytics.rows.derivation import (
    NUMBERING_FUNCTIONS,
    USER_FUNCTIONS,
    AddColumns,
    AddWindows,
    GroupByUser,
    KeepRows,
    NamedExpression,
    SelectColumns,
    SortKey,
    Step,
    UserAggregate,
    UserFunction,
    UserWindow,
    WindowFunction,
    check_names,
)
from setwise.analytics.rows.expression import Branch, Case, ColumnValue, ConstantValue, RowExpression
from setwise.analytics.sql.aggregates import has_aggregate, is_aggregate
from setwise.analytics.sql.clauses import WRITTEN
from setwise.analytics.sql.core import Problems, SelectSource, StatementSettings, unique_after
from setwise.analytics.sql.row_values import Released, RowReader
from setwise.analytics.sql.syntax import check_parts, construct_of, number_of, unsupported
from setwise.errors import InvalidParameter

_DEPENDS_ON_OTHERS = {
    "limit": ("LIMIT in a SELECT over the rows of single users", "which rows it keeps depends on other users' rows"),
    "offset": ("OFFSET in a SELECT over the rows of single users", "which rows it keeps depends on other users' rows"),
    "laterals": ("LATERAL", "ask the table itself"),
    "sample": ("TABLESAMPLE", "ask the whole table"),
    "kind": ("SELECT AS", "select columns"),
}
"""Clauses that are refused in a per-user SELECT: the name for messages, and the reason or what to write instead."""


class PerUserReader:
    """Converts a per-user SELECT into the table of private rows that it computes (the derived table).

    In a per-user SELECT, each row of the result is computed from the rows of one user.
    - `select` is the syntax node of this SELECT.
    - `source` are the private rows that it reads.
    - `settings` has the user column.
    - `problems` collects the errors.
    - `released` returns a stand-in for the noisy value of a scalar subquery in the SELECT. The stand-in becomes a
      constant once that value is released.
    - `ties` are the names of all columns that the statement names, in lower case. If several rows of a user are equal
      in the ORDER BY of a window function (ties), they are sorted by these columns, so that the result does not depend
      on how the table is stored (`AddWindows.ties`).
    """

    def __init__(
        self,
        select: exp.Expr,
        source: SelectSource,
        settings: StatementSettings,
        problems: Problems,
        released: Released,
        ties: tuple[str, ...] = (),
    ) -> None:
        self._select = select
        self._source = source
        self._settings = settings
        self._problems = problems
        self._rows = RowReader(settings.today, released)
        self._aggregates: list[UserAggregate] = []
        self._keys: list[NamedExpression] = []
        self._key_nodes: list[exp.Expr] = []
        self._open_aliases: list[str] = []
        self._aliases = {each.alias: each.this for each in select.expressions if type(each) is exp.Alias}
        self._ties = ties
        self._windows: list[UserWindow] = []
        self._definitions = {each.this.name.lower(): each for each in select.args.get("windows") or ()}

    def read(self) -> SelectSource:
        """Return the rows that the SELECT computes: a private table, and the steps that compute the rows from it.

        A step keeps some rows, groups them by user, or adds columns, for example. Errors in the SELECT are added to
        `problems` and not raised, so that one refusal can name all of them.
        """
        select = self._select
        for name, (construct, why) in _DEPENDS_ON_OTHERS.items():
            if select.args.get(name):
                with self._problems.collect():
                    raise unsupported(construct, why)
        with self._problems.collect():
            check_parts(
                select, "expressions", "from_", "joins", "where", "group", "having", "qualify", "windows", "distinct",
                "with_", "order", "limit", "offset",
            )  # fmt: skip
            if isinstance(select.args.get("distinct"), exp.Distinct):
                check_parts(select.args["distinct"], "expressions")
            for star in [
                selected if type(selected) is exp.Star else selected.this
                for selected in select.expressions
                if _is_star(selected)
            ]:
                check_parts(star, "this")
        steps: list[Step] = []
        where = select.args.get("where")
        if where is not None:
            with self._problems.collect(where):
                steps.append(KeepRows(self._rows.read(where.this)))
        distinct = bool(select.args.get("distinct"))
        # DISTINCT without windows is computed as GROUP BY all columns; windows read the rows before DISTINCT.
        grouped = select.args.get("group") is not None or (distinct and not self._has_windows())
        if grouped or any(has_aggregate(each) for each in select.expressions):
            steps += self._group_steps()
        else:
            steps += self._projection_steps()
        if distinct:
            with self._problems.collect():
                steps += self._distinct_steps(steps)
        columns = self._names(steps)
        return SelectSource(
            table=self._source.table,
            joins=self._source.joins,
            derivation=self._source.derivation.then(*steps),
            columns=columns,
            unique_by=self._unique_by(steps),
        )

    def _unique_by(self, steps: Sequence[Step]) -> frozenset[str] | None:
        """Return columns of the derived table that together tell one user's rows apart; None if none are known.

        Two rows of a user always differ in at least one of these columns: after GROUP BY user, a, b, for example, in a
        or b. An empty set says that every user has at most one row. The derived table is what the SELECT computes, and
        `steps` are the operations that compute it from the private rows.
        """
        unique = self._source.unique_by
        for step in steps:
            if isinstance(step, GroupByUser):
                unique = frozenset(key.name for key in step.keys)
            elif isinstance(step, AddWindows) and unique is None:
                unique = _numbered_by(step)
            elif isinstance(step, KeepRows):
                unique = unique_after(unique, step.condition)
            elif isinstance(step, AddColumns | SelectColumns) and unique is not None:
                shown = {
                    each.expression.name: each.name for each in step.columns if isinstance(each.expression, ColumnValue)
                }
                if isinstance(step, AddColumns):
                    shown = {name: name for name in unique} | shown
                unique = frozenset(shown[name] for name in unique) if unique <= set(shown) else None
        return unique

    def _names(self, steps: Sequence[Step]) -> tuple[str, ...] | None:
        last = steps[-1] if steps else None
        if isinstance(last, SelectColumns):
            return tuple(each.name for each in last.columns)
        known = self._source.columns
        if known is not None and isinstance(last, AddColumns):
            return (*known, *(each.name for each in last.columns))
        return known

    def _projection_steps(self) -> list[Step]:
        """Return the steps that compute the rows of a SELECT without aggregates, such as SELECT a, b AS c.

        A step is an operation that an engine applies to private rows, such as keeping some rows or adding a column.
        """
        user = self._settings.user
        stars = [each for each in self._select.expressions if _is_star(each)]
        named = []
        for selected in self._select.expressions:
            if selected in stars:
                continue
            with self._problems.collect(selected):
                named.append(self._name_expression(selected, self._over_rows))
        steps = self._window_steps(self._over_rows)
        with self._problems.collect():
            check_names([each.name for each in named])
        if stars:
            return [*steps, AddColumns(tuple(named))] if named else steps
        with self._problems.collect():
            steps.append(SelectColumns(user, self._with_user(named)))
        return steps

    def _over_rows(self, node: exp.Expr) -> RowExpression:
        """Return the row expression (a value computed from each row) for `node`, part of a SELECT without GROUP BY.

        `node` may contain window functions.
        """
        return self._rows.read(self._replace_windows(node.copy(), self._rows.read))

    def _replace_windows(self, node: exp.Expr, read: Callable[[exp.Expr], RowExpression]) -> exp.Expr:
        """Return `node`, changed in place, with each window function in it replaced by the column that holds its value.

        `read` converts the arguments of the window functions into row expressions (values computed from each row).
        """
        if isinstance(node, exp.Window):
            return exp.column(self._window(node, read), quoted=True)
        if isinstance(node, exp.Subquery | exp.Select):
            return node
        for child in list(node.iter_expressions()):
            child.replace(self._replace_windows(child, read))
        return node

    def _window(self, node: exp.Expr, read: Callable[[exp.Expr], RowExpression]) -> str:
        """Return the name of the derived table's column that holds the values of the window function `node`.

        The column is added if there is none yet. `read` converts the function's arguments into row expressions (values
        computed from each row).
        """
        name = f"window_{len(self._source.derivation.steps)}_{len(self._windows)}"
        window = _read_window(node, name, self._settings.user, self._definitions, read)
        for known_window in self._windows:
            if replace(known_window, name=name) == window:
                return known_window.name
        self._windows.append(window)
        return name

    def _window_steps(self, read: Callable[[exp.Expr], RowExpression]) -> list[Step]:
        """Return the steps that compute the window functions of the SELECT, and then keep the rows as QUALIFY says.

        A step is an operation that an engine applies to private rows. `read` converts a condition into a row expression
        (a value computed from each row).
        Requires: the columns of the SELECT were converted before, because their conversion collects their window
        functions.
        """
        qualify = self._select.args.get("qualify")
        condition = None
        if qualify is not None:
            with self._problems.collect(qualify):
                condition = read(self._replace_aliases(qualify.this.copy()))
        steps: list[Step] = []
        if self._windows:
            steps.append(AddWindows(self._settings.user, tuple(self._windows), self._ties))
        if condition is not None:
            steps.append(KeepRows(condition))
        return steps

    def _replace_aliases(self, node: exp.Expr) -> exp.Expr:
        """Return `node`, changed in place, with each alias of the SELECT replaced by the expression that it stands for.

        A name that is also a column of the private rows means that column, and is not replaced.
        """
        if type(node) is exp.Column and node.name in self._aliases and node.name not in (self._source.columns or ()):
            expression: exp.Expr = self._aliases[node.name].copy()
            return expression
        for child in list(node.iter_expressions()):
            child.replace(self._replace_aliases(child))
        return node

    def _with_user(self, named: Sequence[NamedExpression]) -> tuple[NamedExpression, ...]:
        """Return the columns `named` with the user column first, because later SELECTs need it to tell users apart.

        Raises: `InvalidParameter` if the SELECT renames the user column, or gives its name to another column.
        """
        user = self._settings.user
        kept = [each for each in named if each.name.lower() != user.lower()]
        for expression in named:
            renamed = expression.expression == ColumnValue(user) and expression.name != user
            if renamed or (expression.name.lower() == user.lower() and expression.expression != ColumnValue(user)):
                raise InvalidParameter(f"the user column {user!r} keeps its name in subqueries: leave out its alias")
        return (NamedExpression(user, ColumnValue(user)), *kept)

    def _group_steps(self) -> list[Step]:
        """Return the steps that compute the rows of SELECT .. GROUP BY user, ..

        A step is an operation that an engine applies to private rows. The steps are, in this order: group the rows of
        each user, filter by HAVING, compute the window functions, and select the columns.
        """
        user = self._settings.user
        self._read_keys()
        outputs = []
        for selected in self._select.expressions:
            with self._problems.collect(selected):
                if _is_star(selected):
                    raise unsupported("* with GROUP BY", "name the columns")
                outputs.append(self._name_expression(selected, self._over_groups))
        having = self._select.args.get("having")
        condition = None
        if having is not None:
            with self._problems.collect(having):
                condition = self._over_groups(having.this)
        window_steps = self._window_steps(self._over_groups)
        steps: list[Step] = [GroupByUser(user, tuple(self._keys), tuple(self._aggregates))]
        if condition is not None:
            steps.append(KeepRows(condition))
        steps += window_steps
        with self._problems.collect():
            check_names([each.name for each in outputs])
            steps.append(SelectColumns(user, self._with_user(outputs)))
        return steps

    def _has_windows(self) -> bool:
        """Return whether the SELECT has window functions or QUALIFY."""
        select = self._select
        return select.args.get("qualify") is not None or any(each.find(exp.Window) for each in select.expressions)

    def _distinct_steps(self, steps: Sequence[Step]) -> list[Step]:
        """Return the steps that remove duplicates as SELECT DISTINCT says; [] if no user has two equal rows.

        `steps` are the operations that compute the rows, from which the duplicates are removed.
        Raises: `InvalidParameter` if the SELECT selects *, or does not select the user column: DISTINCT would then drop
        a row of one user because another user has an equal row.
        """
        user = self._settings.user
        selected = [each.unalias().unnest() for each in self._select.expressions]
        if not any(type(each) is exp.Column and each.name.lower() == user.lower() for each in selected):
            raise unsupported(
                f"SELECT DISTINCT with GROUP BY {user}, but without the column {user},", f"add {user} after DISTINCT"
            )
        if self._unique_by(steps) is not None:
            return []
        if any(map(_is_star, self._select.expressions)):
            raise unsupported("DISTINCT with *", "name the columns")
        last = steps[-1] if steps else None
        if not isinstance(last, SelectColumns):
            return []  # a column was refused
        names = [each.name for each in last.columns if each.name != user]
        keys = [NamedExpression(f"key_{place}", ColumnValue(name)) for place, name in enumerate(names)]
        shown = [NamedExpression(name, ColumnValue(key.name)) for name, key in zip(names, keys, strict=True)]
        return [GroupByUser(user, tuple(keys), ()), SelectColumns(user, self._with_user(shown))]

    def _read_keys(self) -> None:
        group = self._select.args.get("group")
        selected = [each.this if type(each) is exp.Alias else each for each in self._select.expressions]
        if group is None or group.args.get("all"):
            nodes = [each for each in selected if not has_aggregate(each)]
        else:
            with self._problems.collect():
                check_parts(group, "expressions")
            nodes = [self._resolve_group(each, selected) for each in group.expressions]
        for node in nodes:
            with self._problems.collect(node):
                expression = self._rows.read(node)
                if expression != ColumnValue(self._settings.user) and node not in self._key_nodes:
                    self._keys.append(NamedExpression(f"key_{len(self._keys)}", expression))
                    self._key_nodes.append(node)

    def _resolve_group(self, node: exp.Expr, selected: Sequence[Any]) -> Any:  # noqa: ANN401 - nodes of sqlglot
        if type(node) is exp.Literal and not node.is_string:
            place = number_of(node, "GROUP BY")
            if isinstance(place, int) and 1 <= place <= len(selected):
                return selected[place - 1]
            self._problems.messages.append(f"GROUP BY {node.this} names no column of the SELECT")
            return exp.column(self._settings.user)
        known = self._source.columns or ()
        if type(node) is exp.Column and node.name in self._aliases and node.name not in known:
            return self._aliases[node.name]
        return node

    def _name_expression(self, node: exp.Expr, read: Callable[[exp.Expr], RowExpression]) -> NamedExpression:
        inner, alias = (node.this, node.alias) if type(node) is exp.Alias else (node, None)
        expression = read(inner)
        if alias is None:
            column = inner.unnest()
            plain = type(column) is exp.Column
            written = column.meta.get(WRITTEN, column.name)
            alias = str(written) if plain else str(getattr(inner, "this", "value")).lower()
            alias = alias if plain or alias.isidentifier() else "value"
        return NamedExpression(alias, expression)

    def _over_groups(self, node: exp.Expr) -> RowExpression:
        """Return the row expression for `node`, part of the SELECT list or HAVING of a SELECT with GROUP BY user.

        A row expression is a value computed from each row. Here a row is one group of one user: it has the values of
        the group columns, and the aggregates over the rows of this group.
        """
        return self._rows.read(self._rewrite_node(node.copy()))

    def _rewrite_node(self, node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Window):
            return exp.column(self._window(node, self._over_groups), quoted=True)
        if node in self._key_nodes:
            return exp.column(f"key_{self._key_nodes.index(node)}", quoted=True)
        if type(node) is exp.Column:
            if node.name == self._settings.user:
                return node
            if node.name in self._open_aliases:
                raise InvalidParameter(f"the alias {node.name!r} is defined by itself: give it another name")
            if node.name in self._aliases:
                self._open_aliases.append(node.name)
                replaced = self._rewrite_node(self._aliases[node.name].copy())
                self._open_aliases.pop()
                return replaced
            raise InvalidParameter(f"the column {node.name!r} is not grouped: add it to GROUP BY, or aggregate it")
        if is_aggregate(node):
            return exp.column(self._aggregate(node), quoted=True)
        for child in list(node.iter_expressions()):
            child.replace(self._rewrite_node(child))
        return node

    def _aggregate(self, node: exp.Expr) -> str:
        """Return the name of the column with the value of the aggregate call `node` over one user's rows in a group.

        Equal calls in this SELECT share a column, which the first of them adds.
        Raises: `InvalidParameter` for a call that is not supported.
        """
        condition: RowExpression | None = None
        call = node
        if isinstance(node, exp.Filter):
            condition = self._rows.read(node.args["expression"].this)
            call = node.this
        if not isinstance(call, exp.Anonymous):
            raise unsupported(f"{construct_of(call)} over the rows of one user", _PER_USER)
        function = str(call.this).upper()
        arguments = [each for each in call.expressions if type(each) is not exp.Kwarg]
        if function in ("COUNTIF", "COUNT_IF") and len(arguments) == 1:
            counted = self._rows.read(arguments[0])
            return self._add(UserFunction.COUNT, Case((Branch(counted, ConstantValue(1)),)), condition)
        if function not in _FUNCTIONS or len(arguments) != 1:
            raise unsupported(f"{function} over the rows of one user", _PER_USER)
        (argument,) = arguments
        if isinstance(argument, exp.Distinct):
            if function != "COUNT" or len(argument.expressions) != 1:
                raise unsupported(f"DISTINCT in {function}", "leave it out")
            return self._add(UserFunction.COUNT_DISTINCT, self._rows.read(argument.expressions[0]), condition)
        if function == "COUNT" and isinstance(argument, exp.Star | exp.Literal):
            return self._add(UserFunction.COUNT, None, condition)
        return self._add(_FUNCTIONS[function], self._rows.read(argument), condition)

    def _add(self, function: UserFunction, argument: RowExpression | None, condition: RowExpression | None) -> str:
        if condition is not None:
            argument = Case((Branch(condition, ConstantValue(1) if argument is None else argument),))
        for aggregate in self._aggregates:
            if (aggregate.function, aggregate.argument) == (function, argument):
                return aggregate.name
        name = f"aggregate_{len(self._aggregates)}"
        self._aggregates.append(UserAggregate(name, function, argument))
        return name


_FUNCTIONS = {
    "COUNT": UserFunction.COUNT,
    "SUM": UserFunction.SUM,
    "AVG": UserFunction.AVG,
    "MIN": UserFunction.MIN,
    "MAX": UserFunction.MAX,
}
_PER_USER = "write COUNT, COUNT(DISTINCT x), COUNTIF, SUM, AVG, MIN or MAX"


def _numbered_by(step: AddWindows) -> frozenset[str] | None:
    """Return columns that tell one user's rows apart because `step` numbers these rows; None if `step` numbers no rows.

    `step` computes window functions over the rows of each user. For ROW_NUMBER() OVER (PARTITION BY user, a ORDER BY b)
    AS n, the result is a and n: two rows of a user always differ in at least one of them. If there are several calls of
    ROW_NUMBER, the result belongs to the first one that is partitioned by plain columns only.
    """
    for window in step.windows:
        keys = [key.name for key in window.keys if isinstance(key, ColumnValue)]
        if window.function is WindowFunction.ROW_NUMBER and len(keys) == len(window.keys):
            return frozenset((*keys, window.name))
    return None


def _is_star(node: exp.Expr) -> bool:
    return type(node) is exp.Star or (type(node) is exp.Column and type(node.this) is exp.Star)


MOST_ROWS = 1_000_000
"""The largest distance in rows of LAG and LEAD, and the most preceding rows of a window."""

_SHIFTED = (WindowFunction.LAG, WindowFunction.LEAD)
_WINDOW_FUNCTIONS = f"write one of {', '.join(WindowFunction)}"
_FRAMES = "write ROWS BETWEEN n PRECEDING AND CURRENT ROW, or leave the frame out"


def _read_window(
    node: exp.Expr, name: str, user: str, definitions: dict[str, exp.Expr], read: Callable[[exp.Expr], RowExpression]
) -> UserWindow:
    """Return the window function that `node` states, as a column called `name`.

    - `user` is the user column, which PARTITION BY must name.
    - `definitions` are the windows of the WINDOW clause by name, in lower case.
    - `read` converts a syntax node into a row expression (a value computed from each row).
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
        raise unsupported(f"{construct_of(call)} over the rows of one user", _WINDOW_FUNCTIONS)
    window = replace(window, function=WindowFunction(str(call.this).upper()), preceding=_preceding(node))
    return _with_arguments(window, call, condition, read)


def _with_definition(node: exp.Expr, definitions: dict[str, exp.Expr]) -> exp.Expr:
    """Return the window function `node` with its OVER w replaced by the definition of w in the WINDOW clause.

    `definitions` maps the names of the WINDOW clause, in lower case, to their definitions. A function whose OVER names
    no window is returned unchanged.
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
    """Return n if the frame of the window `node` consists of the current row and the n rows before it.

    - ROWS UNBOUNDED PRECEDING gives 1,000,000 (`MOST_ROWS`).
    - No frame, and RANGE UNBOUNDED PRECEDING, which is SQL's default with ORDER BY, give None. The frame then has all
      rows up to the current row, or the whole partition without ORDER BY.
    Raises: `InvalidParameter` for any other frame.
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
    """Return `window` with the arguments of the function call `call`; only rows that satisfy `condition` count.

    `condition` is the condition of FILTER (WHERE ..); None counts all rows. `read` converts a syntax node into a row
    expression (a value computed from each row).
    Raises: `InvalidParameter` for the wrong number or kind of arguments.
    """
    function, arguments = window.function, call.expressions
    if condition is not None and function not in USER_FUNCTIONS:
        raise unsupported(f"FILTER with {function}", "leave it out")
    if window.preceding is not None and function not in USER_FUNCTIONS:
        window = replace(window, preceding=None)  # numbers and neighbours of rows do not depend on the frame
    if function not in USER_FUNCTIONS and not window.order:
        raise InvalidParameter(f"{function} needs an order: write ORDER BY after PARTITION BY")
    if function in NUMBERING_FUNCTIONS:
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
