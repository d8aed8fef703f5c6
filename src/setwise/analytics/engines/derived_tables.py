"""SQL of derived tables: columns, filters, groups, window functions and joins computed from each user's rows alone."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import assert_never

from setwise.analytics.engines.dialect import Dialect, expanded_length, joined_text, one_zero, real_constant
from setwise.analytics.engines.row_sql import LARGEST_INTEGER, Value, check_condition, compile_expression
from setwise.analytics.rows.derivation import (
    NUMBERING_FUNCTIONS,
    USER_FUNCTIONS,
    AddColumns,
    AddWindows,
    Derivation,
    GroupByUser,
    JoinUserRows,
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
    names_added,
    window_expressions,
)
from setwise.analytics.rows.expression import ColumnValue, RowExpression, columns_of
from setwise.analytics.rows.type_errors import not_a_number
from setwise.analytics.schema import NUMBER_KINDS, TIME_KINDS, Column, Kind, Schema
from setwise.errors import InvalidParameter

_UNITS = 2**20
"""Units per 1 in which numbers that are not integers are summed exactly.

A sum of integers does not depend on the order in which rows are read, which may depend on the rows of other users.
"""


_LARGEST_SUMMED = 2**42
"""The absolute value to which numbers of a user's sum are clipped, so that each fits into 62 bits as units."""


@dataclass(frozen=True, slots=True)
class DerivedTable:
    """A derived table: writes the SQL that applies the steps of `derivation`, such as filters, to a source table.

    A step adds computed columns, filters rows, groups or joins the rows of each user, or adds window functions.

    - `source` has the columns of the source table.
    - `dialect` writes the SQL of the engine.
    - `outputs` names the columns of the derived table that a query reads; None means all columns that the analyst's
      statement names.

    A window function such as ROW_NUMBER needs an order of ties (rows that are equal in its ORDER BY). Ties are sorted
    by every column that its step, a later step or the query (`outputs`) reads. Rows that are equal in all of these
    columns can stand in any order without changing an answer.

    Raises: `InvalidParameter` or `UnknownColumn`, when `schema` is read, for expressions whose types do not fit.
    """

    derivation: Derivation
    source: Schema
    dialect: Dialect
    outputs: frozenset[str] | None = None

    @property
    def schema(self) -> Schema:
        """The columns of the derived table, after all its steps (such as filters and computed columns).

        Raises: `InvalidParameter` or `UnknownColumn` if the types of an expression do not fit, or if the derived
        table's SQL text is too long for an engine.
        """
        schema = self._schema_from(self.source)
        self._statement(_SOURCE_ROWS, self.source, longest=LONGEST_STATEMENT)
        return schema

    def _schema_from(self, source: Schema) -> Schema:
        """Return the columns that the derived table has if its source table has only the columns `source`.

        A query reads only a part of the source table's columns, so the result can lack columns of
        `DerivedTable.schema`.
        """
        schema = source
        for step, observed in zip(self.derivation.steps, self._observed_columns(), strict=True):
            schema = self._schema_after(step, observed, schema, source)
        return schema

    def _schema_after(self, step: Step, observed: set[str], schema: Schema, source: Schema) -> Schema:
        """Return the columns of the derived table after `step`, one of the steps (such as filters) that compute it.

        - `schema` has all columns before `step`.
        - `observed` names the columns that `step`, a later step or the query reads. They matter only for a window
          function whose value depends on the order of ties (rows that are equal in its ORDER BY), such as ROW_NUMBER.
          Such a step sorts ties by the columns `observed`, and drops all other columns of `schema`: nothing reads them,
          and they could differ between rows whose order is left open.
        - `source` has the columns of the source table, before the first step. A step that joins a user's rows reads the
          source table a second time, and so needs them.
        """
        joined = self._second_table(step)._schema_from(source) if isinstance(step, JoinUserRows) else None
        return _step_schema(step, _visible(step, observed, schema), joined, self.dialect)

    def _second_table(self, step: JoinUserRows) -> "DerivedTable":
        """Return the second table of `step`, a join that adds columns of the same user's rows in that second table.

        The second table is a derived table like this one, and is computed from the same source table.
        """
        outputs = {each.column for each in step.columns} | _columns_read(pair.right for pair in step.keys)
        return replace(self, derivation=step.rows, outputs=frozenset({step.user, *outputs}))

    def _observed_columns(self) -> list[set[str]]:
        """Return, for each step (such as a filter), the names of its input columns that this step or a later one reads.

        The columns that the query reads after the last step count as well. These are the columns named in the field
        `outputs` or, if it is None, all that the analyst's statement mentions. The caller needs the names for window
        functions such as ROW_NUMBER: rows that are equal in their ORDER BY are sorted by these columns, so that every
        engine puts them into the same order. A set may have names that the input lacks.
        """
        observed = set(self.outputs) if self.outputs is not None else self._named_columns()
        before = []
        for step in reversed(self.derivation.steps):
            observed = _columns_before(step, observed)
            before.append(observed)
        return before[::-1]

    def _named_columns(self) -> set[str]:
        """Return the names of all columns, of the source table or computed, that the analyst's SQL statement mentions.

        The caller needs the names if it is not known which columns the query reads: window functions then sort ties
        (rows that are equal in an ORDER BY) by these columns.

        Only steps that add window functions record which names the statement mentions (`AddWindows.ties`, in lower
        case); without such a step the result is empty. In a join, a column c that several tables have is called t.c.
        The recorded names lack the table, so if the statement mentions any c, the result has the c of every table.
        """
        names = {*self.source.names, *(name for step in self.derivation.steps for name in names_added(step))}
        ties = {name for step in self.derivation.steps if isinstance(step, AddWindows) for name in step.ties}
        return {name for name in names if any(name.lower() == tie or name.lower().endswith(f".{tie}") for tie in ties)}

    def needed_columns(self, columns: Sequence[str] | None) -> tuple[str, ...] | None:
        """Return the source columns that must be read to compute `columns` of the derived table.

        The source is the table before all filters and computed columns. None means all columns, both as the argument
        and as the result.
        """
        if columns is None:
            return None
        wanted = self._source_columns(set(columns))
        return tuple(name for name in self.source.names if name in wanted)

    def _source_columns(self, columns: set[str]) -> set[str]:
        """Return the names of the source columns from which `columns` of the derived table are computed.

        Columns that joined derived tables need are included. The set may have names that the source lacks.
        """
        wanted, joined = columns, set[str]()
        for step, observed in reversed(list(zip(self.derivation.steps, self._observed_columns(), strict=True))):
            if isinstance(step, JoinUserRows):
                table = self._second_table(step)
                joined |= table._source_columns(set(table.outputs or ()))
            wanted = _columns_before(step, wanted)
            if _sorts_ties(step):
                wanted |= observed  # they decide ties, so that every question keeps the same rows of a user
        return wanted | joined

    def statement(self, relation: str, columns: Sequence[str] | None = None) -> str:
        """Return the SQL text of the derived table as a subquery with an alias, to stand after FROM.

        `relation` is the SQL text of the source table, which must have at least the columns `needed_columns(columns)`.
        `columns` names the columns of the derived table that are read. None means all.
        """
        needed = self.needed_columns(columns)
        source = self.source
        if needed is not None:
            source = Schema(tuple(column for column in source if column.name in needed))
        if not (self.derivation.reads_twice and self.dialect.materializes):
            return self._statement(relation, source)
        listed = ", ".join(self.dialect.name(column.name) for column in source)
        # The source can be a stream, which can be read only once.
        rows = f"WITH {_SOURCE_ROWS} AS MATERIALIZED (SELECT {listed} FROM {relation})"
        return f"({rows} SELECT * FROM {self._statement(_SOURCE_ROWS, source)}) AS derived"

    def _statement(self, relation: str, source: Schema, longest: int | None = None) -> str:
        """Return the SQL text of the derived table as a subquery with an alias, to stand after FROM.

        The text may read the source table more than once. `relation` is the SQL text of the source table, and `source`
        has its columns.
        Raises: `InvalidParameter` if the text is longer than `longest` characters; None allows any length.
        """
        schema, original, lengths = source, relation, dict[str, int]()
        for place, (step, observed) in enumerate(zip(self.derivation.steps, self._observed_columns(), strict=True)):
            if isinstance(step, JoinUserRows):
                joined = self._second_table(step)
                text = joined._statement(original, source, longest)
                select = _join_sql(step, (relation, schema), (text, joined._schema_from(source)), self.dialect)
            else:
                select = _step_sql(step, relation, _visible(step, observed, schema), self.dialect)
            relation = f"({select}) AS derived_{place}"
            if longest is not None and len(relation) > longest:
                raise InvalidParameter(
                    f"the statement becomes more than {longest:,} characters of SQL for the engine: use fewer "
                    "subqueries and joins of a user's rows"
                )
            if longest is not None:
                lengths = _expanded_lengths(step, lengths, schema, self.dialect)
            schema = self._schema_after(step, observed, schema, source)
        return relation


def _expanded_lengths(step: Step, lengths: dict[str, int], schema: Schema, dialect: Dialect) -> dict[str, int]:
    """Return {computed column: number of characters of its SQL after expansion} for the columns after `step`.

    Some engines expand SQL: they put the expression of a computed column in place of each use of its name. In nested
    subqueries the text can double again and again, so this function raises an error before an engine gets it. Engines
    do not expand names across an aggregation, window or join, so after such a `step` the result is {}. `lengths` is the
    same dict for the columns before `step`, and `schema` has all columns before `step`. `dialect` writes the SQL.
    Raises: `InvalidParameter` if a text becomes too long for engines.
    """

    def length(expression: RowExpression) -> int:
        """Return how many characters the SQL of `expression` has after an engine has expanded it.

        An engine expands the name of a computed column to the SQL of the column.
        """
        return expanded_length(_column_sql(expression, schema, dialect), lengths, dialect)

    match step:
        case AddColumns(columns):
            return {**lengths, **{column.name: length(column.expression) for column in columns}}
        case SelectColumns(columns=columns):
            return {column.name: length(column.expression) for column in columns}
        case KeepRows(condition):
            length(condition)
            return lengths
        # engines do not expand across an aggregation, window or join
        case _:
            return {}


LONGEST_STATEMENT = 1_000_000
"""The most characters of the SQL text of a derived table, without the text of its source.

Every join of a user's rows repeats the text of the rows that it joins.
"""

_SOURCE_ROWS = "source_rows"
"""The name of the common table expression that holds the rows of a source that is read more than once."""


def _visible(step: Step, observed: set[str], schema: Schema) -> Schema:
    """Return the columns that `step` may read from its input and keep in its result; `schema` has all input columns.

    These are all columns, unless the step has a window function whose values depend on the order of ties (rows that are
    equal in an ORDER BY), such as ROW_NUMBER. Such a step sorts ties by all columns that it may read, so these are only
    the columns `observed`, which this step, a later step or the query reads. Rows that are equal in all of them can
    stand in any order without changing a result, because nothing reads the other columns.
    """
    if not _sorts_ties(step):
        return schema
    # Ties are sorted by these columns. The order of rows that are equal in all of them changes nothing.
    return replace(schema, columns=tuple(column for column in schema if column.name in observed))


def _sorts_ties(step: Step) -> bool:
    """Return whether values that `step` computes depend on the order of ties, rows that are equal in an ORDER BY.

    True only for a step with window functions such as ROW_NUMBER. The caller then sorts ties by further columns.
    """
    return isinstance(step, AddWindows) and any(map(_depends_on_ties, step.windows))


def _columns_before(step: Step, wanted: set[str]) -> set[str]:
    """Return the names of the input columns of `step` that must be read to get the columns `wanted` of its output.

    A step is a filter, for example, or adds computed columns. The result has the columns that the step itself reads,
    and the columns in `wanted` that come from its input because the step does not compute them.
    """
    match step:
        case AddColumns(columns):
            computed = {column.name for column in columns}
            return (wanted - computed) | _columns_read(column.expression for column in columns)
        case KeepRows(condition):
            return wanted | _columns_read([condition])
        case SelectColumns(user, columns):
            return {user} | _columns_read(column.expression for column in columns)
        case GroupByUser(user, keys, aggregates):
            arguments = [column.argument for column in aggregates if column.argument is not None]
            return {user} | _columns_read([*(column.expression for column in keys), *arguments])
        case AddWindows(user, windows):
            computed = {window.name for window in windows}
            return (
                (wanted - computed)
                | {user}
                | _columns_read(part for window in windows for part in window_expressions(window))
            )
        case JoinUserRows(user, keys=keys, columns=joined):
            return (wanted - {each.name for each in joined}) | {user} | _columns_read(pair.left for pair in keys)
        case _:
            assert_never(step)


def _columns_read(expressions: Iterable[RowExpression]) -> set[str]:
    """Return the names of all columns that occur in `expressions`, values computed from each row."""
    return {name for expression in expressions for name in columns_of(expression)}


def _step_schema(step: Step, schema: Schema, joined: Schema | None, dialect: Dialect) -> Schema:
    """Return the columns of a table after `step`, such as a filter; `schema` has the columns before the step.

    If `step` is a `JoinUserRows`, `joined` has the columns of the rows that it joins; otherwise it is None. `dialect`
    has the SQL types of computed columns.
    Raises: `InvalidParameter` or `UnknownColumn` if types do not fit, or two columns have the same name.
    """
    match step:
        case AddColumns(columns):
            columns_after = (*schema.columns, *(_column(each, schema, dialect) for each in columns))
        case KeepRows(condition):
            check_condition(condition, compile_expression(condition, schema, dialect))
            columns_after = schema.columns
        case SelectColumns(columns=columns):
            columns_after = tuple(_column(each, schema, dialect) for each in columns)
        case GroupByUser(user, keys, aggregates):
            kept = [_exact_column(_column(each, schema, dialect), dialect) for each in keys]
            computed = [_aggregate_column(each, schema, dialect) for each in aggregates]
            columns_after = (_exact_column(schema.column(user), dialect), *kept, *computed)
        case AddWindows(user, windows):
            values = [_window(each, schema.column(user), (), schema, dialect) for each in windows]
            added = [
                _value_column(window.name, window.argument, value, schema, dialect)
                for window, value in zip(windows, values, strict=True)
            ]
            columns_after = (*schema.columns, *added)
        case JoinUserRows(keys=keys, columns=chosen):
            assert joined is not None, "the caller computes the schema of joined rows"
            for pair in keys:
                _check_comparable(pair.left, schema, pair.right, joined, dialect)
            columns_after = (
                *schema.columns,
                *(replace(joined.column(each.column), name=each.name) for each in chosen),
            )
        case _:
            assert_never(step)
    check_names([column.name for column in columns_after])
    return Schema(columns_after)


def _step_sql(
    step: AddColumns | KeepRows | SelectColumns | GroupByUser | AddWindows,
    relation: str,
    schema: Schema,
    dialect: Dialect,
) -> str:
    """Return a SELECT statement in `dialect` that applies `step` (a filter, computed columns, ...) to `relation`.

    `relation` is the SQL text of the step's input, to stand after FROM, and `schema` has the input's columns. The
    columns of the SELECT are those that the table has after `step`, under their names.
    """

    def select_list(columns: Sequence[NamedExpression]) -> str:
        """Return the SQL text of a SELECT list: the SQL of each of `columns` AS its name, with commas."""
        return joined_text(
            f"{_column_sql(column.expression, schema, dialect)} AS {dialect.name(column.name)}" for column in columns
        )

    match step:
        case AddColumns(columns):
            return f"SELECT *, {select_list(columns)} FROM {relation}"
        case KeepRows(condition):
            return f"SELECT * FROM {relation} WHERE {compile_expression(condition, schema, dialect).sql}"
        case SelectColumns(columns=columns):
            return f"SELECT {select_list(columns)} FROM {relation}"
        case GroupByUser(user, keys, aggregates):
            column = schema.column(user)
            chosen = chain(
                [f"{dialect.user(column)} AS {dialect.name(user)}"],
                (f"{_group_sql(each.expression, schema, dialect)} AS {dialect.name(each.name)}" for each in keys),
                (f"{_aggregate(each, schema, dialect).sql} AS {dialect.name(each.name)}" for each in aggregates),
            )
            places = ", ".join(str(place + 1) for place in range(1 + len(keys)))
            has_user = f"{dialect.user(column)} IS NOT NULL"
            return f"SELECT {joined_text(chosen)} FROM {relation} WHERE {has_user} GROUP BY {places}"
        case AddWindows():
            return _windows_sql(step, relation, schema, dialect)
        case _:
            assert_never(step)


def _windows_sql(step: AddWindows, relation: str, schema: Schema, dialect: Dialect) -> str:
    """Return a SELECT statement in `dialect` that adds the columns of the window functions of `step` to a table.

    `relation` is the SQL text of the table, to stand after FROM, and `schema` has its columns, which the SELECT keeps.
    Ties (rows that are equal in a window's ORDER BY) are sorted by all columns, in order of the columns' names, so that
    all engines compute the same values.
    """
    user = schema.column(step.user)
    by_content = {(each.keys, each.order) for each in step.windows if _depends_on_ties(each)}
    tied = sorted((column for column in schema if column.name != user.name), key=lambda column: column.name)
    ties = [part for column in tied for part in dialect.tie_order(column)]
    # Rows that are equal in all columns may have any order, but one for all functions: so they are numbered first.
    if len(by_content) > 1:
        number = next(name for place in range(len(schema.names) + 1) if (name := f"row_{place}") not in schema.names)
        order = f" ORDER BY {', '.join(ties)}" if ties else ""
        numbered = f"ROW_NUMBER() OVER (PARTITION BY {dialect.user(user)}{order}) AS {dialect.name(number)}"
        relation = f"(SELECT *, {numbered} FROM {relation}) AS numbered"
        ties = [dialect.name(number)]
    columns = ", ".join(dialect.name(name) for name in schema.names)
    windows = (
        f"{_window(window, user, ties, schema, dialect).sql} AS {dialect.name(window.name)}" for window in step.windows
    )
    return f"SELECT {columns}, {joined_text(windows)} FROM {relation}"


def _depends_on_ties(window: UserWindow) -> bool:
    """Return whether the values of the window function `window` depend on the order of ties.

    Ties are rows that are equal in the ORDER BY of the function. True for ROW_NUMBER, LAG, LEAD, FIRST_VALUE, and an
    aggregate over the current row and n rows before it. The caller then sorts ties by further columns, so that all
    engines compute the same values.
    """
    return window.function in _SORTED_BY_CONTENT or window.preceding is not None


def _join_sql(step: JoinUserRows, left: tuple[str, Schema], right: tuple[str, Schema], dialect: Dialect) -> str:
    """Return a SELECT statement in `dialect` that joins the rows of each user in two derived tables, as `step` says.

    `left` and `right` are the two tables, each as (its SQL text after FROM, its columns). Rows match if their users and
    the keys of `step` are equal. The SELECT has all columns of `left`, and those of `right` that `step` names.
    """
    sides = []
    for place, (relation, schema) in enumerate((left, right)):
        expressions = [(pair.left, pair.right)[place] for pair in step.keys]
        keys = [dialect.user(schema.column(step.user))]
        keys += [_key_sql(compile_expression(each, schema, dialect)) for each in expressions]
        names = schema.names if place == 0 else tuple(each.column for each in step.columns)
        # columns are renamed, so that equal names in both tables cannot clash
        cells = [f"{dialect.name(name)} AS c{number}" for number, name in enumerate(names)]
        listed = ", ".join([*cells, *(f"{key} AS k{number}" for number, key in enumerate(keys))])
        sides.append(f"(SELECT {listed} FROM {relation}) AS side_{place}")
    chosen = [f"side_0.c{number} AS {dialect.name(name)}" for number, name in enumerate(left[1].names)]
    chosen += [f"side_1.c{number} AS {dialect.name(each.name)}" for number, each in enumerate(step.columns)]
    equal = " AND ".join(f"side_0.k{number} = side_1.k{number}" for number in range(1 + len(step.keys)))
    word = "LEFT JOIN" if step.keeps_all else "JOIN"
    return f"SELECT {', '.join(chosen)} FROM {sides[0]} {word} {sides[1]} ON {equal}"


def _check_comparable(
    left: RowExpression, left_schema: Schema, right: RowExpression, right_schema: Schema, dialect: Dialect
) -> None:
    """Raise `InvalidParameter` unless the values of the join keys `left` and `right` have the same type.

    `left` is an expression over the columns of one table, `left_schema`, and `right` over those of the other,
    `right_schema`. `dialect` compiles both to SQL, which decides their types.
    """
    kinds = [
        compile_expression(left, left_schema, dialect).kind,
        compile_expression(right, right_schema, dialect).kind,
    ]
    if kinds[0] is not kinds[1]:
        raise InvalidParameter(f"{kinds[0]} and {kinds[1]} values cannot be compared in a join: convert one of them")


_SORTED_BY_CONTENT = (
    WindowFunction.ROW_NUMBER,
    WindowFunction.LAG,
    WindowFunction.LEAD,
    WindowFunction.FIRST_VALUE,
)
"""The window functions whose values depend on the order of rows that are equal in ORDER BY."""


def _window(window: UserWindow, user: Column, ties: Sequence[str], schema: Schema, dialect: Dialect) -> Value:
    """Return the SQL, in `dialect`, of the window function `window` over one user's rows, and the type of its values.

    `schema` has the columns of the rows, and `user` is the user column, by which rows are partitioned. `ties` are
    further SQL sort keys, which decide the order of rows that are equal in the function's ORDER BY.
    Raises: `InvalidParameter` if the type of the argument does not fit the function.
    """
    parts = [dialect.user(user), *(_key_sql(compile_expression(each, schema, dialect)) for each in window.keys)]
    order = [part for key in window.order for part in _sort_sql(key, schema, dialect)]
    function = window.function
    if _depends_on_ties(window):
        order += ties
    ordered = f" ORDER BY {', '.join(order)}" if order else ""
    frame = ""
    if window.preceding is not None:
        frame = f" ROWS BETWEEN {window.preceding} PRECEDING AND CURRENT ROW"
    over = f" OVER (PARTITION BY {', '.join(parts)}{ordered}{frame})"
    if function in USER_FUNCTIONS:
        aggregate = UserAggregate(window.name, USER_FUNCTIONS[function], window.argument)
        return _aggregate(aggregate, schema, dialect, over)
    if function in NUMBERING_FUNCTIONS:
        return Value(dialect.int64(f"{function}(){over}"), Kind.INTEGER)
    assert window.argument is not None, "the parser gives LAG, LEAD and FIRST_VALUE an argument"
    value = compile_expression(window.argument, schema, dialect)
    argument = dialect.truth(value.sql) if value.kind is Kind.BOOLEAN else value.sql
    return Value(f"{dialect.value_in_row(function, argument, window.offset)}{over}", value.kind, value.tiny)


def _sort_sql(key: SortKey, schema: Schema, dialect: Dialect) -> tuple[str, str]:
    """Return two SQL sort keys, in `dialect`, for the ORDER BY key `key`, which is computed from columns of `schema`.

    The first key places nulls before or after the other values, as `key` says. The second sorts the values. For x DESC
    with nulls last, the keys are (CASE WHEN x IS NULL THEN 1 ELSE 0 END, x DESC).
    """
    value = compile_expression(key.expression, schema, dialect)
    null, other = (0, 1) if key.nulls_first else (1, 0)
    direction = " DESC" if key.descending else ""
    return f"CASE WHEN {value.sql} IS NULL THEN {null} ELSE {other} END", f"{_key_sql(value)}{direction}"


def _key_sql(value: Value) -> str:
    """Return SQL for `value`, a sort key, group key or join key, with -0.0 replaced by 0.0.

    MIN, MAX and arithmetic can return either of the two, depending on the order in which rows are read. Some engines
    treat -0.0 and 0.0 as different keys, so the order of rows could change the result of a query.
    """
    return one_zero(value.sql) if value.kind is Kind.FLOAT else value.sql


def _column_sql(expression: RowExpression, schema: Schema, dialect: Dialect) -> str:
    """Return the SQL, in `dialect`, of `expression`, a value of each row that becomes a column of a derived table.

    `schema` has the columns from which the value is computed. The SQL of a plain column is its quoted name. A condition
    becomes a value of the engine's boolean type.
    """
    if isinstance(expression, ColumnValue):
        return dialect.name(schema.column(expression.name).name)
    value = compile_expression(expression, schema, dialect)
    return dialect.truth(value.sql) if value.kind is Kind.BOOLEAN else value.sql


def _column(named: NamedExpression, schema: Schema, dialect: Dialect) -> Column:
    """Return the `Column` (name, kind and SQL type) that `named`, an expression with a name, adds to a derived table.

    `schema` has the columns from which the expression is computed; `dialect` has the SQL types. A plain column keeps
    its type.
    """
    if isinstance(named.expression, ColumnValue):
        column = schema.column(named.expression.name)
        return Column(
            name=named.name,
            kind=column.kind,
            native=column.native,
            precision=column.precision,
            scale=column.scale,
            from_text=column.from_text,
        )
    kind = compile_expression(named.expression, schema, dialect).kind
    return Column(name=named.name, kind=kind, native=dialect.types[kind][0])


def _group_sql(expression: RowExpression, schema: Schema, dialect: Dialect) -> str:
    """Return the SQL, in `dialect`, of the group key `expression`, which is computed from columns of `schema`.

    Values that are equal but written differently, such as 7.0 and 7.00, or -0.0 and 0.0, become identical. Texts are
    compared by their bytes and not by the column's collation.
    """
    if not isinstance(expression, ColumnValue):
        value = compile_expression(expression, schema, dialect)
        return dialect.truth(value.sql) if value.kind is Kind.BOOLEAN else _key_sql(value)
    # Engines return any one of the equal values of a group, and the order of rows may decide which one.
    column = schema.column(expression.name)
    match column.kind:
        case Kind.TEXT | Kind.DECIMAL:
            return dialect.user(column)
        case Kind.FLOAT:
            return one_zero(dialect.name(column.name))
        case _:
            return dialect.name(column.name)


def _exact_column(column: Column, dialect: Dialect) -> Column:
    """Return the `Column` that the key `column`, such as the user column, becomes after rows are grouped by it.

    Grouping casts texts to the standard text type of `dialect`, so a text column gets this type. Other columns keep
    theirs.
    """
    if column.kind is not Kind.TEXT:
        return column
    return Column(name=column.name, kind=Kind.TEXT, native=dialect.types[Kind.TEXT][0])


def _aggregate_column(aggregate: UserAggregate, schema: Schema, dialect: Dialect) -> Column:
    """Return the `Column` (name and type in `dialect`) of the results of `aggregate`, a function of one user's rows.

    The function's argument is computed from columns of `schema`.
    """
    value = _aggregate(aggregate, schema, dialect)
    return _value_column(aggregate.name, aggregate.argument, value, schema, dialect)


def _value_column(name: str, argument: RowExpression | None, value: Value, schema: Schema, dialect: Dialect) -> Column:
    """Return the `Column` called `name`, typed for `dialect`, of the results of an aggregate or window function.

    `argument` is the function's argument (None if it has none). `value` has the function's SQL and the type of its
    result. If the results are dates or times of a column of `schema`, as with MAX, they keep its exact type.
    """
    if isinstance(argument, ColumnValue):
        column = schema.column(argument.name)
        if column.kind is value.kind and column.kind in TIME_KINDS:
            return replace(column, name=name)
    return Column(name=name, kind=value.kind, native=dialect.types[value.kind][0])


def _aggregate(aggregate: UserAggregate, schema: Schema, dialect: Dialect, over: str = "") -> Value:
    """Return the SQL, in `dialect`, of `aggregate`, such as a COUNT, over one user's rows, and the type of its result.

    `schema` has the columns of the rows. `over` is the SQL text of an OVER clause, which makes the aggregate a window
    function, or "" for a plain aggregate.
    Raises: `InvalidParameter` if the type of the argument does not fit the function.
    """
    if aggregate.argument is None:
        return Value(dialect.int64(f"COUNT(*){over}"), Kind.INTEGER)
    value = compile_expression(aggregate.argument, schema, dialect)
    match aggregate.function:
        case UserFunction.COUNT:
            return Value(dialect.int64(f"COUNT({value.sql}){over}"), Kind.INTEGER)
        case UserFunction.COUNT_DISTINCT:
            return Value(dialect.int64(f"COUNT(DISTINCT {_key_sql(value)}){over}"), Kind.INTEGER)
        case UserFunction.MIN | UserFunction.MAX:
            if value.kind is Kind.BOOLEAN:
                raise InvalidParameter(f"{aggregate.function} takes numbers, text or times, not a condition")
            return Value(f"{aggregate.function}({value.sql}){over}", value.kind, value.tiny)
        case UserFunction.SUM | UserFunction.AVG:
            if value.kind not in NUMBER_KINDS:
                raise not_a_number(f"{aggregate.function} takes numbers", aggregate.argument, value.kind)
            return _user_sum(aggregate.function, value, dialect, over)
        case _:
            assert_never(aggregate.function)


def _user_sum(function: UserFunction, value: Value, dialect: Dialect, over: str) -> Value:
    """Return the SQL, in `dialect`, of `function`, SUM or AVG, over the rows of one user, and the type of its result.

    `value` has the SQL and the type of the argument. `over` is the SQL text of an OVER clause, which makes the
    aggregate a window function, or "". Integers are summed exactly, but a SUM whose absolute value is 2^53 or more is
    null. Other numbers are clipped to -2^42 .. 2^42 and rounded to multiples of 2^-20, so that their sum is exact and
    does not depend on the order of rows.
    """
    if value.kind is Kind.INTEGER:
        total, unit = f"{dialect.total(value.sql, None)}{over}", ""
    else:
        ends = real_constant(_LARGEST_SUMMED), real_constant(-_LARGEST_SUMMED)
        clipped = f"CASE WHEN {value.sql} IS NOT NULL THEN GREATEST(LEAST({value.sql}, {ends[0]}), {ends[1]}) END"
        total = dialect.total(dialect.int64(f"FLOOR({clipped} * {real_constant(_UNITS)} + 0.5)"), None) + over
        unit = f" / {real_constant(_UNITS)}"
    if function is UserFunction.AVG:
        number = f"COUNT({value.sql}){over}"
        return Value(f"{dialect.real(total)}{unit} / NULLIF({number}, 0)", Kind.FLOAT, tiny=True)
    if value.kind is not Kind.INTEGER:
        return Value(f"{dialect.real(total)}{unit}", Kind.FLOAT)
    return Value(dialect.int64(dialect.null_beyond(dialect.real(total), LARGEST_INTEGER)), Kind.INTEGER)
