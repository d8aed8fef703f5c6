"""A per-user SELECT, read into a derivation: each of its rows is computed of the rows of one user."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlglot import exp

from setwise.analytics.rows.derivation import (
    AddColumns,
    GroupByUser,
    KeepRows,
    NamedExpression,
    SelectColumns,
    Step,
    UserAggregate,
    UserFunction,
    check_names,
)
from setwise.analytics.rows.expression import Branch, Case, ColumnValue, ConstantValue, RowExpression
from setwise.analytics.sql.aggregates import has_aggregate, is_aggregate
from setwise.analytics.sql.core import Problems, Settings, Source
from setwise.analytics.sql.row_values import Released, RowReader
from setwise.analytics.sql.syntax import check_parts, construct_of, number_of, unsupported
from setwise.errors import InvalidParameter

_DEPENDS_ON_OTHERS = {
    "limit": ("LIMIT in a SELECT over the rows of single users", "which rows it keeps depends on other users' rows"),
    "offset": ("OFFSET in a SELECT over the rows of single users", "which rows it keeps depends on other users' rows"),
    "qualify": ("QUALIFY over the rows of single users", "use MIN or MAX of one user's rows"),
    "windows": ("WINDOW over the rows of single users", "use MIN or MAX of one user's rows"),
    "laterals": ("LATERAL", "ask the table itself"),
    "sample": ("TABLESAMPLE", "ask the whole table"),
    "kind": ("SELECT AS", "select columns"),
}


class PerUserReader:
    """Reads one per-user SELECT over a source of private rows."""

    def __init__(
        self, select: exp.Expr, source: Source, settings: Settings, problems: Problems, released: Released
    ) -> None:
        self._select = select
        self._source = source
        self._settings = settings
        self._problems = problems
        self._rows = RowReader(settings.today, released)
        self._aggregates: list[UserAggregate] = []
        self._keys: list[NamedExpression] = []
        self._key_nodes: list[exp.Expr] = []
        self._aliases = {each.alias: each.this for each in select.expressions if type(each) is exp.Alias}

    def read(self) -> Source:
        """Return the rows of the SELECT as a source; what is wrong with the SELECT is among the problems."""
        select = self._select
        for name, (construct, why) in _DEPENDS_ON_OTHERS.items():
            if select.args.get(name):
                with self._problems.collect():
                    raise unsupported(construct, why)
        for window in select.find_all(exp.Window):
            with self._problems.collect(window):
                raise unsupported("OVER (a window function) over the rows of single users", "aggregate by the user")
        steps: list[Step] = []
        where = select.args.get("where")
        if where is not None:
            with self._problems.collect(where):
                steps.append(KeepRows(self._rows.read(where.this)))
        grouped = select.args.get("group") is not None or bool(select.args.get("distinct"))
        if grouped or any(has_aggregate(each) for each in select.expressions):
            steps += self._grouped()
        else:
            steps += self._projected()
        columns = self._names(steps)
        return Source(
            table=self._source.table,
            joins=self._source.joins,
            derivation=self._source.derivation.then(*steps),
            columns=columns,
        )

    def _names(self, steps: Sequence[Step]) -> tuple[str, ...] | None:
        last = steps[-1] if steps else None
        if isinstance(last, SelectColumns):
            return tuple(each.name for each in last.columns)
        known = self._source.columns
        if known is not None and isinstance(last, AddColumns):
            return (*known, *(each.name for each in last.columns))
        return known

    def _projected(self) -> list[Step]:
        """Return the steps of SELECT a, b AS c, .. or SELECT *, .. over rows."""
        user = self._settings.user
        stars = [each for each in self._select.expressions if _is_star(each)]
        named = []
        for each in self._select.expressions:
            if each in stars:
                continue
            with self._problems.collect(each):
                named.append(self._named(each, self._rows.read))
        with self._problems.collect():
            check_names([each.name for each in named])
        if stars:
            return [AddColumns(tuple(named))] if named else []
        return [SelectColumns(user, self._with_user(named))]

    def _with_user(self, named: Sequence[NamedExpression]) -> tuple[NamedExpression, ...]:
        """Return the columns with the user column, which every derived table keeps under its own name."""
        user = self._settings.user
        kept = [each for each in named if each.name.lower() != user.lower()]
        for each in named:
            renamed = each.expression == ColumnValue(user) and each.name != user
            if renamed or (each.name.lower() == user.lower() and each.expression != ColumnValue(user)):
                raise InvalidParameter(f"the user column {user!r} keeps its name in subqueries: leave out its alias")
        return (NamedExpression(user, ColumnValue(user)), *kept)

    def _grouped(self) -> list[Step]:
        """Return the steps of SELECT .. GROUP BY user, .. with HAVING."""
        user = self._settings.user
        self._read_keys()
        outputs = []
        for each in self._select.expressions:
            with self._problems.collect(each):
                if _is_star(each):
                    raise unsupported("* with GROUP BY", "name the columns")
                outputs.append(self._named(each, self._over_groups))
        having = self._select.args.get("having")
        condition = None
        if having is not None:
            with self._problems.collect(having):
                condition = self._over_groups(having.this)
        steps: list[Step] = [GroupByUser(user, tuple(self._keys), tuple(self._aggregates))]
        if condition is not None:
            steps.append(KeepRows(condition))
        with self._problems.collect():
            check_names([each.name for each in outputs])
            steps.append(SelectColumns(user, self._with_user(outputs)))
        return steps

    def _read_keys(self) -> None:
        group = self._select.args.get("group")
        selected = [each.this if type(each) is exp.Alias else each for each in self._select.expressions]
        if group is None or group.args.get("all"):
            nodes = [each for each in selected if not has_aggregate(each)]
        else:
            with self._problems.collect():
                check_parts(group, "expressions")
            nodes = [self._meant(each, selected) for each in group.expressions]
        for node in nodes:
            with self._problems.collect(node):
                expression = self._rows.read(node)
                if expression != ColumnValue(self._settings.user) and node not in self._key_nodes:
                    self._keys.append(NamedExpression(f"key_{len(self._keys)}", expression))
                    self._key_nodes.append(node)

    def _meant(self, node: exp.Expr, selected: Sequence[Any]) -> Any:  # noqa: ANN401 - nodes of sqlglot
        if type(node) is exp.Literal and not node.is_string:
            place = number_of(node, "GROUP BY")
            if isinstance(place, int) and 1 <= place <= len(selected):
                return selected[place - 1]
            self._problems.found.append(f"GROUP BY {node.this} names no column of the SELECT")
            return exp.column(self._settings.user)
        known = self._source.columns or ()
        if type(node) is exp.Column and node.name in self._aliases and node.name not in known:
            return self._aliases[node.name]
        return node

    def _named(self, node: exp.Expr, read: Callable[[exp.Expr], RowExpression]) -> NamedExpression:
        inner, alias = (node.this, node.alias) if type(node) is exp.Alias else (node, None)
        expression = read(inner)
        if alias is None:
            plain = type(inner.unnest()) is exp.Column
            alias = inner.unnest().name if plain else str(getattr(inner, "this", "value")).lower()
            alias = alias if plain or alias.isidentifier() else "value"
        return NamedExpression(alias, expression)

    def _over_groups(self, node: exp.Expr) -> RowExpression:
        """Return an expression over the row of a user's group: its keys and aggregates."""
        return self._rows.read(self._replaced(node.copy()))

    def _replaced(self, node: exp.Expr) -> exp.Expr:
        if node in self._key_nodes:
            return exp.column(f"key_{self._key_nodes.index(node)}", quoted=True)
        if type(node) is exp.Column:
            if node.name == self._settings.user:
                return node
            if node.name in self._aliases:
                return self._replaced(self._aliases[node.name].copy())
            raise InvalidParameter(f"the column {node.name!r} is not grouped: add it to GROUP BY, or aggregate it")
        if is_aggregate(node):
            return exp.column(self._aggregate(node), quoted=True)
        for each in list(node.iter_expressions()):
            each.replace(self._replaced(each))
        return node

    def _aggregate(self, node: exp.Expr) -> str:
        """Return the name of the column of an aggregate of one user's rows."""
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
        for each in self._aggregates:
            if (each.function, each.argument) == (function, argument):
                return each.name
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


def _is_star(node: exp.Expr) -> bool:
    return type(node) is exp.Star or (type(node) is exp.Column and type(node.this) is exp.Star)
