"""The SQL statements that engines run to bound contributions and count groups, each nested in the next.

Each line below outlines one statement, which reads the rows of the statement above it. A group is called an item here.
Some engines rank and keep items in one statement, by an aggregate for the smallest rows (`Dialect.smallest_rows`).
DuckDB sorts a small table only once instead (`OneSortBuilder` in duckdb/query.py).

rows      SELECT user, item, value WHERE user and item are not null, the filter holds, the item is in the domain
pairs     GROUP BY user, item: n, the number of rows or the sum of the value; only pairs with a positive n remain
ranked    ROW_NUMBER() OVER (PARTITION BY user ORDER BY salted hash of user and item)
kept      WHERE rank <= contributions, if contributions are bounded
counts    GROUP BY item: the sum of LEAST(n, per_item) over the users who are kept
"""

import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import TypeAlias, assert_never

from setwise.analytics.bins import Group
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.dialect import Dialect
from setwise.analytics.engines.expressions import Measures, label_sql
from setwise.analytics.filter.expression import (
    Comparison,
    Conjunction,
    Disjunction,
    Expression,
    Membership,
    Missing,
    Not,
    Pattern,
    Value,
)
from setwise.analytics.measure import Measure
from setwise.analytics.query import EVERYTHING
from setwise.analytics.schema import Column, Kind, Schema
from setwise.mechanisms.histogram import LARGEST_COUNT
from setwise.mechanisms.labels import Label, cell_of
from setwise.mechanisms.weighted_rounds import USER_UNIT, WEIGHT_UNIT, user_root, user_share, user_weight

Bound: TypeAlias = str | int | float | bool
"""A parameter value that is sent beside a statement, never as part of its text."""


class Parameters:
    """The values of a SQL statement's parameters, in the field `values`, a dict with the names p1, p2, ... as keys.

    The method `add` names the values in the order in which they are added. `dialect` writes the placeholders that stand
    for the values in the SQL.
    """

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.values: dict[str, object] = {}

    def add(self, value: object) -> str:
        """Store a parameter value and return the SQL placeholder that stands for it."""
        name = f"p{len(self.values) + 1}"
        self.values[name] = value
        return self._dialect.placeholder(name)


def predicate(expression: Expression, dialect: Dialect, parameters: Parameters) -> str:
    """Return a filter's `expression` as SQL of `dialect`, in parentheses; its constants are added to `parameters`."""
    match expression:
        case Comparison(column, operator, value):
            return f"({dialect.operand(column)} {operator} {_constant(column, value, dialect, parameters)})"
        case Membership(column, values):
            operand = dialect.operand(column)
            constants = [_constant(column, value, dialect, parameters) for value in values]
            if column.kind is Kind.FLOAT:  # engines search IN lists by hash and disagree on whether 0.0 = -0.0
                return f"({' OR '.join(f'{operand} = {constant}' for constant in constants)})"
            return f"({operand} IN ({', '.join(constants)}))"
        case Pattern(column):
            return f"({dialect.like(dialect.operand(column), parameters.add(dialect.pattern(expression.escaped)))})"
        case Missing(column):
            return f"({dialect.filled(column)} IS NULL)"
        case Not(part):
            return f"(NOT {predicate(part, dialect, parameters)})"
        case Conjunction(parts):
            return f"({' AND '.join(predicate(part, dialect, parameters) for part in parts)})"
        case Disjunction(parts):
            return f"({' OR '.join(predicate(part, dialect, parameters) for part in parts)})"
        case _:
            assert_never(expression)


def _constant(column: Column, value: Value, dialect: Dialect, parameters: Parameters) -> str:
    """Add the filter constant `value` to `parameters`; return SQL of `dialect` that casts its placeholder.

    The constant is cast to the type of `column`, so that a filter can compare the two.
    """
    return dialect.constant(column, parameters.add(_parameter_value(value)))


def _parameter_value(value: Value) -> Bound:
    """Return the filter constant `value` in a form that drivers accept as a SQL parameter: text, a number or a boolean.

    Dates, times and decimals become text, which the SQL casts to the type of a column.
    """
    match value:
        case datetime():
            return value.isoformat(sep=" ", timespec="microseconds")
        case date():
            return value.isoformat()
        case Decimal():
            return format(value, "f")
        case bool() | int() | float() | str():
            return value
        case _:
            assert_never(value)


def within(number: str) -> str:
    """Return a SQL expression that clips the SQL number `number` to -2^62 .. 2^62.

    This is the range of the counts that a histogram can hold.
    """
    return f"GREATEST(LEAST({number}, {LARGEST_COUNT}), -{LARGEST_COUNT})"


@dataclass(frozen=True, slots=True)
class StatementBuilder:
    """Builder of SQL statements, in the `dialect` of one engine, about one table, view or join.

    `relation` is the SQL text of the table after FROM, and `schema` has its columns. `parameters` collects the values
    of the placeholders in all statements of this builder. In the SQL, u is the user, g0, g1, ... are the labels of a
    row's group (item), and n is what a user adds to a group.
    """

    dialect: Dialect
    relation: str
    schema: Schema
    parameters: Parameters

    def rows(self, aggregation: Aggregation, conditions: Sequence[str] = (), hint: str = "") -> str:
        """Return the text of a SELECT of the rows to aggregate: columns u (the user), g0, g1, ... (labels), and values.

        The values are v, the column to sum, if `aggregation.value` is set, and v0, v1, ..., from which the
        aggregation's measures (integers that users add to groups) are computed. Rows without a user are left out. So
        are rows with a null label, unless `aggregation.null_item` gives them a label. The rows satisfy the
        aggregation's filter, whose constants are added to `parameters`, and the SQL `conditions`. `hint` is text for
        the query optimizer, placed after SELECT.
        """
        user = self.schema.column(aggregation.user)
        all_conditions = [f"{self.dialect.user(user)} IS NOT NULL", *conditions]
        expressions = [self.dialect.user(user), *self.labels(aggregation)]
        names = ["u", *label_columns(aggregation).split(", ")]
        columns = [
            f"{self.dialect.not_null(expression)} AS {name}"
            for expression, name in zip(expressions, names, strict=True)
        ]
        if aggregation.null_item is None:
            all_conditions += [
                f"{label_sql(group, self.schema, self.dialect)} IS NOT NULL" for group in aggregation.groups
            ]
        if aggregation.value is not None:
            columns.append(f"{self.dialect.name(aggregation.value)} AS v")
        columns += [f"{value} AS v{place}" for place, value in enumerate(self._measures(aggregation).row_values())]
        if aggregation.where is not None:
            all_conditions.append(predicate(aggregation.where.expression, self.dialect, self.parameters))
        return f"SELECT {hint}{', '.join(columns)} FROM {self.relation} WHERE {' AND '.join(all_conditions)}"

    def labels(self, aggregation: Aggregation) -> list[str]:
        """Return the SQL expressions of the labels of a row's group, one for each of the columns g0, g1, ...

        `aggregation` names the columns by which rows are grouped. If it names none, all rows have the label
        `EVERYTHING`.
        """
        if aggregation.item is None:
            return [f"'{EVERYTHING}'"]
        return [self._label(group, aggregation.null_item, place) for place, group in enumerate(aggregation.groups)]

    def _label(self, group: Group, null_item: Label | None, place: int) -> str:
        """Return the SQL expression of a row's label for `group`: a column's value, or its range, such as a month.

        `null_item` is the label for rows whose label is null; None lets it be null. With several group columns,
        `null_item` is a tuple with a label for each of them, and `place`, the position of `group`, selects one. The
        label is added to `parameters`, so that it is passed to the engine as a parameter of the statement.
        """
        label = label_sql(group, self.schema, self.dialect)
        if null_item is None:
            return label
        missing = self.parameters.add(cell_of(null_item, place))
        return f"COALESCE({label}, {self.dialect.label_constant(group.labels(self.schema), missing)})"

    def bounded_pairs(self, aggregation: Aggregation, rows: str) -> str:
        """Return the text of a SELECT with one row (u, g0, g1, ..., n) per user and group, for counts with limits.

        Column u is the user, and columns g0, g1, ... are the labels of the group. If `aggregation.value` is set, column
        n is the sum of its values in the user's rows of the group. Otherwise n is the number of these rows, or, if
        `aggregation.per_item` is 1, always 1: a user then adds at most 1, so the rows need not be counted. `rows` is
        the SQL statement of the rows.
        """
        if aggregation.value is None and aggregation.per_item == 1:
            # the engine need not count the rows
            by = f"u, {label_columns(aggregation)}"
            return f"SELECT {by}, 1 AS n FROM ({rows}) AS counted GROUP BY {by}"
        return self.pairs(aggregation, rows)

    def pairs(self, aggregation: Aggregation, rows: str) -> str:
        """Return the text of a SELECT that groups rows by user and group: one row (u, g0, g1, ..., n) per pair of both.

        Column u is the user, and columns g0, g1, ... are the labels of the group. Column n is the number of the user's
        rows in the group. If `aggregation.value` is set, n is instead the sum of that column over these rows, at most
        2^62, and pairs whose sum is 0 or less are left out. `rows` is the SQL statement of the rows.
        """
        by = f"u, {label_columns(aggregation)}"
        if aggregation.value is None:
            return f"SELECT {by}, COUNT(*) AS n FROM ({rows}) AS counted GROUP BY {by}"
        summed = f"SELECT {by}, {self.dialect.total('v', None)} AS n FROM ({rows}) AS counted GROUP BY {by}"
        clipped = self.dialect.int64(f"LEAST(n, {LARGEST_COUNT})")
        return f"SELECT {by}, {clipped} AS n FROM ({summed}) AS summed WHERE n > 0"

    def user_groups(self, aggregation: Aggregation, rows: str) -> str:
        """Return the text of a SELECT of (g0, g1, ..., u): one row for each group and each user who has a row in it.

        Columns g0, g1, ... are the labels of the group, and column u is the user as text. `rows` is the SQL statement
        of the rows of `aggregation`.
        """
        labels = label_columns(aggregation)
        distinct = f"SELECT DISTINCT u, {labels} FROM ({rows}) AS counted"
        return f"SELECT {labels}, {self.dialect.text('u')} AS u FROM ({distinct}) AS pairs"

    def rank_items(self, aggregation: Aggregation, pairs: str, salt: str, columns: str = "n") -> str:
        """Return the text of a SELECT that ranks each user's groups (items) at random, one row per user and group.

        Its columns are g0, g1, ... (the labels in `aggregation`), those named in `columns`, and rank. The rank numbers
        each user's groups from 1, in an order that the SQL expression `salt`, a secret number, makes random. `pairs` is
        the SQL statement with one row per user and group, and `columns` names columns of it, separated by commas.
        """
        labels = label_columns(aggregation)
        order = self.dialect.rank_hash("u", labels.split(", "), salt)
        rank = f"ROW_NUMBER() OVER (PARTITION BY u ORDER BY {order}, {labels})"
        return f"SELECT {labels}, {columns}, {rank} AS rank FROM ({pairs}) AS pairs"

    def keep_items(self, aggregation: Aggregation, ranked: str, columns: str = "n") -> str:
        """Return the text of a SELECT that bounds contributions: it keeps at most N groups of each user, at random.

        N is `aggregation.contributions`. `ranked` is the SQL statement of all groups (items) of each user, whose column
        rank numbers a user's groups in random order; groups of rank N or less are kept. The SELECT has one row per user
        and kept group. Its columns are g0, g1, ... (the labels) and those named in `columns`, separated by commas.
        """
        labels = label_columns(aggregation)
        return f"SELECT {labels}, {columns} FROM ({ranked}) AS ranked WHERE rank <= {aggregation.contributions}"

    def kept_pairs(self, aggregation: Aggregation, pairs: str, salt: str) -> str:
        """Return the text of a SELECT with one row (g0, g1, ..., u) for each user u and each group in which u counts.

        g0, g1, ... are the labels of the group. `pairs` is the SQL statement of all pairs of a user and a group. `salt`
        is the SQL expression of the secret random number that decides in which `aggregation.contributions` groups a
        user counts.
        """
        return self.choose_items(aggregation, pairs, salt, "u")

    def choose_items(self, aggregation: Aggregation, pairs: str, salt: str, columns: str = "n") -> str:
        """Return the text of a SELECT of the groups (items) in which users count, one row per user and group.

        Its columns are g0, g1, ... (the labels) and those named in `columns`, separated by commas. The column n is what
        the user adds to the group. It may be missing in the result if `aggregation.per_item` is 1, because every user
        then adds 1. `pairs` is the SQL statement of all pairs of a user and a group. A user counts in the
        `aggregation.contributions` groups with the smallest hashes. The SQL expression `salt`, a secret number that
        enters the hashes, makes them random.
        """
        labels = label_columns(aggregation)
        hashed = self.dialect.rank_hash("u", labels.split(", "), salt)
        integers = [group.labels(self.schema).kind is Kind.INTEGER for group in aggregation.groups]
        order = hashed if self.dialect.hashes_integers_apart and integers == [True] else f"({hashed}, {labels})"
        needed = labels if columns == "n" and aggregation.per_item == 1 else f"{labels}, {columns}"
        rows = self.dialect.smallest_rows(needed.split(", "), order, aggregation.contributions or 0)
        counted = ", ".join(_counted_groups(aggregation, columns.split(", ")))
        # Without an aggregate for the smallest rows, or for measures over all groups of a user, a window function
        # ranks.
        if rows is None or counted != columns:
            return self.keep_items(aggregation, self.rank_items(aggregation, pairs, salt, counted), columns)
        return f"SELECT {rows} FROM ({pairs}) AS pairs GROUP BY u"

    def weights(self, aggregation: Aggregation, pairs: str) -> str:
        """Return the text of a SELECT of (g0, g1, ..., weight, root, share): three sums over users for each group.

        g0, g1, ... are the labels of the group. A user with k groups adds three integers to each of them: 2^20/sqrt(k)
        to weight, 2^14/sqrt(k) to root and 2^14/k to share, rounded down. They are for the private search for groups
        (partition selection), which adds noise. First it adds up share and root over all groups. The shares of a user
        add up to about 2^14, so their total shows how many users there are. The roots of a user add up to about 2^14
        sqrt(k), so their total then shows how many groups users have. After that, the noisy weights decide which groups
        are found.

        `aggregation` names the group columns, and limits the number k of a user's groups. `pairs` is the SQL statement
        with one row (g0, g1, ..., u) per user u and group.
        """
        labels = label_columns(aggregation)
        counted = f"SELECT {labels}, COUNT(*) OVER (PARTITION BY u) AS n FROM ({pairs}) AS pairs"
        number = self.dialect.int64("COUNT(*)")
        alike = f"SELECT {labels}, n, {number} AS c FROM ({counted}) AS counted GROUP BY {labels}, n"
        numbers = range(1, (aggregation.contributions or 1) + 1)
        sums = {}
        for name, added in (("weight", user_weight), ("root", user_root), ("share", user_share)):
            # These are integers for each k, so that all engines compute equal sums.
            cases = " ".join(f"WHEN {number} THEN {added(number)}" for number in numbers)
            sums[name] = f"c * CASE n {cases} ELSE 0 END"
        largest = max(WEIGHT_UNIT, USER_UNIT)
        columns = [
            f"{self.dialect.int64(self.dialect.total(value, largest))} AS {name}" for name, value in sums.items()
        ]
        return f"SELECT {labels}, {', '.join(columns)} FROM ({alike}) AS alike GROUP BY {labels}"

    def statistics(self, aggregation: Aggregation, rows: str, salt: str | None, number_rows: bool = False) -> str:
        """Return the text of a SELECT of the measures of `aggregation`, the integers that users add to groups.

        Its columns are g0, g1, ... (the labels of a group), cell, measure, users, and s<i> and n<i> for each measure i
        that is summed over users. A row with measure = -1 is about a whole group:

        - users is the number of users of the group.
        - s<i> is the sum of measure i over these users.
        - n<i> is how many of them add to that sum (if `Measure.rows` is set, how many of their values do).

        A row with measure = i is about a measure i that is counted instead of summed. The column users has the count:

        - For quantiles (`Measure.weight` is set): the number of votes for the integer `cell`. Each user has `weight`
          votes in a group, and divides them among the integers that stand for the values of their rows.
        - For distinct values (`Measure.distinct` is set): the number of distinct values in the group; the column cell
          is 0. With `Measure.by_rank`, the number of values in each bin of ranks, whose number is `cell`.
        - Otherwise: the number of users of the group who add the integer `cell`.

        Some engines also return rows with measure = -2, which have no meaning.

        `rows` is the SQL statement of the rows, and `salt` the SQL expression of the secret number for random choices,
        or None. If `number_rows`, the SQL numbers rows by window functions instead of grouping them by user and group.
        The result is the same, but is computed faster if users rarely have several rows of one group.
        """
        labels = label_columns(aggregation)
        measures = self._measures(aggregation)
        values = {f"w{place}": value for place, value in measures.user_values().items()}
        spread = {}
        for place, measure in enumerate(aggregation.measures):
            if measure.in_cells and measure in aggregation.measures[:place]:
                # of equal measures only the first has rows of its cells
                values.pop(f"w{place}", None)
            elif measure.is_spread:
                spread[place] = measure
        if not values:
            values["one"] = "1"
        if spread:
            held_rows, rows = rows, "SELECT * FROM counted_rows"
        values |= {
            f"m{place}": measures.user_rows(measure)
            for place, measure in enumerate(aggregation.measures)
            if measure.rows is not None
        }
        columns = ", ".join(values)
        whole = ", ".join(f"{value} AS {name}" for name, value in values.items())
        ranks = aggregation.items_kept_per_user is not None
        if number_rows and ranks and salt is not None:
            numbered = self._rank_rows(aggregation, rows, salt, measures.user_sums(" OVER alike"))
            first = f"rank <= {aggregation.contributions} AND earlier = 0"
            kept = f"SELECT {labels}, {whole} FROM ({numbered}) AS numbered WHERE {first}"
        else:
            sums = [f"{value} AS {name}" for name, value in measures.user_sums().items()]
            summed = f"SELECT {', '.join(['u', labels, *sums])} FROM ({rows}) AS counted GROUP BY u, {labels}"
            pairs = f"SELECT u, {labels}, {whole} FROM ({summed}) AS summed"
            kept = f"SELECT {labels}, {columns} FROM ({pairs}) AS pairs"
            if ranks and salt is not None:
                kept = self.choose_items(aggregation, pairs, salt, columns)
        if aggregation.pooled:
            kept, labels = f"SELECT '{EVERYTHING}' AS g0, {columns} FROM ({kept}) AS own", "g0"
        # Results for disjoint sets of users can be added up, except for measures that count distinct values.
        added: dict[str, str] = {}
        for place, measure in enumerate(aggregation.measures):
            reach = max(abs(measure.least), abs(measure.most)) * (measure.rows or 1)
            if not measure.in_cells:
                number = f"COUNT(w{place})" if measure.rows is None else self._user_total(f"m{place}", measure.rows)
                added |= {f"s{place}": self._user_total(f"w{place}", reach), f"n{place}": number}
        cell_names = [f"w{place}" for place, measure in enumerate(aggregation.measures) if measure.in_cells]
        tables, lines = self._one_number_parts(kept, labels, added, [name for name in cell_names if name in values])
        if spread:  # materialise the rows, because some relations can be read only once
            tables["counted_rows"] = held_rows
            lines += [self._spread_measure(aggregation, place, salt, list(added)) for place in spread]
        materialized = "MATERIALIZED " if self.dialect.materializes and (cell_names or spread) else ""
        parts = [f"{name} AS {materialized}({tables[name]})" for name in ("counted_rows", "kept") if name in tables]
        return (f"WITH {', '.join(parts)} " if parts else "") + " UNION ALL ".join(lines)

    def _spread_measure(self, aggregation: Aggregation, place: int, salt: str | None, sums: Sequence[str]) -> str:
        """Return the text of a SELECT for a measure by which one user adds to several cells of a group.

        A cell is the value of a row, or an integer that stands for it. `place` is the position of the measure in
        `aggregation`. There are two kinds of such measures:

        - For quantiles, each user has `Measure.weight` votes in a group, and divides them among the cells of their
          rows. A result row says how many votes (column users) one cell (column cell) has.
        - For counts of distinct values, each user keeps at most `Measure.distinct` cells of the group, chosen at
          random. A result row says how many distinct cells (column users) of a group at least one user keeps. Its
          column cell is 0. With `Measure.by_rank`, there is a row for each bin of ranks (column cell) instead.

        The result has all columns of `StatementBuilder.statistics`, so that UNION ALL can join it to the SELECTs of
        other measures. `sums` names the columns of those measures, which are 0 here. `salt` is the SQL expression of
        the secret number for random choices.
        """
        measure = aggregation.measures[place]
        labels, value = label_columns(aggregation), self._measures(aggregation).row_name(measure)
        by = f"u, {labels}"
        number = self.dialect.int64("COUNT(*)")
        cells = f"SELECT {by}, {value} AS cell, {number} AS c FROM counted_rows GROUP BY {by}, {value}"
        kept = f"({cells}) AS cells WHERE cell IS NOT NULL"
        if aggregation.items_kept_per_user is not None and salt is not None:  # keeps the groups of the other measures
            salted = f"PARTITION BY u ORDER BY {self.dialect.rank_hash('u', labels.split(', '), salt)}, {labels}"
            ranked = f"SELECT {by}, cell, c, DENSE_RANK() OVER ({salted}) AS rank FROM ({cells}) AS cells"
            kept = f"({ranked}) AS ranked WHERE rank <= {aggregation.contributions} AND cell IS NOT NULL"
        none = "".join(f", 0 AS {name}" for name in sums)
        if measure.distinct is not None:
            assert salt is not None
            order = f"PARTITION BY {by} ORDER BY {self.dialect.rank_hash('u', ['cell'], salt)}, cell"
            chosen = f"SELECT {labels}, cell, ROW_NUMBER() OVER ({order}) AS place FROM {kept}"
            if measure.by_rank:
                return self._values_by_rank(aggregation, place, chosen, none)
            number = self.dialect.int64("COUNT(DISTINCT cell)")
            return (
                f"SELECT {labels}, {self.dialect.int64('0')} AS cell, {place} AS measure, {number} AS users{none} "
                f"FROM ({chosen}) AS chosen WHERE place <= {measure.distinct} GROUP BY {labels}"
            )
        if self.dialect.materializes:
            return self._divide_units_fast(aggregation, place, salt, none)
        return (
            f"SELECT {labels}, cell, {place} AS measure, users{none} "
            f"FROM ({self._divide_units(labels, kept, measure)}) AS votes"
        )

    def _values_by_rank(self, aggregation: Aggregation, place: int, chosen: str, none: str) -> str:
        """Return the text of a SELECT of how many values have their smallest rank in each bin of ranks.

        The ranks number a user's values in random order; the smallest rank of a value is that among all users of a
        group who have the value. Bin 0 (column cell) is rank 1, and bin i > 0 the ranks above 2^(i-1) and up to 2^i.
        The numbers of values are in the column users.

        - `place` is the position of the measure in `aggregation`. If `aggregation.pooled`, the numbers of all groups
          are added up.
        - `chosen` is the SQL statement with one row (g0, g1, ..., cell, place) per user, group and value; its column
          place is the rank.
        - `none` is the SQL text of the columns of other measures, as in ", 0 AS s0".
        """
        most = aggregation.measures[place].distinct or 1
        labels = label_columns(aggregation)
        smallest = (
            f"SELECT {labels}, cell, MIN(place) AS smallest_rank FROM ({chosen}) AS chosen WHERE place <= {most} "
            f"GROUP BY {labels}, cell"
        )
        ends = [2**power for power in range((most - 1).bit_length())]
        bins = "".join(f" WHEN smallest_rank <= {end} THEN {number}" for number, end in enumerate(ends))
        binned = self.dialect.int64(f"CASE{bins} ELSE {len(ends)} END" if bins else "0")
        released, shown = (f"'{EVERYTHING}' AS g0", "g0") if aggregation.pooled else (labels, labels)
        ranked = f"SELECT {released}, {binned} AS cell FROM ({smallest}) AS smallest"
        return (
            f"SELECT {shown}, cell, {place} AS measure, {self.dialect.int64('COUNT(*)')} AS users{none} "
            f"FROM ({ranked}) AS ranked GROUP BY {shown}, cell"
        )

    def _divide_units_fast(self, aggregation: Aggregation, place: int, salt: str | None, none: str) -> str:
        """Return the text of a SELECT of the votes for each cell of each group, from which a quantile is estimated.

        A cell is an integer that stands for the value of a row. Each user has `Measure.weight` votes in a group, and
        divides them among the cells in proportion to the number of their rows in each cell. Most users have one row in
        a group and give all votes to its cell. Counting these users separately is faster than `_divide_units`, which
        treats all users alike. But the rows are then read twice, so this method is only for engines that can store them
        in between (MATERIALIZED).

        - The columns are the labels, cell, measure (the position `place` of the measure in `aggregation`), users (the
          number of votes), and the columns of other measures, all 0. `none` is the SQL text of these zeros, as in ", 0
          AS s0".
        - `salt` is the SQL expression of the secret number that decides in which groups a user counts; None if users
          count in all of their groups.
        """
        measure = aggregation.measures[place]
        labels, value = label_columns(aggregation), self._measures(aggregation).row_name(measure)
        by = f"u, {labels}"
        columns, condition = "", "cell IS NOT NULL"
        if aggregation.items_kept_per_user is not None and salt is not None:  # keeps the groups of the other measures
            salted = f"PARTITION BY u ORDER BY {self.dialect.rank_hash('u', labels.split(', '), salt)}, {labels}"
            columns = f", DENSE_RANK() OVER ({salted}) AS rank"
            condition += f" AND rank <= {aggregation.contributions}"
        votes, number = f"votes{place}", self.dialect.int64("COUNT(*)")
        rows = f"COUNT({value}) OVER (PARTITION BY {by}) AS r"
        counted = f"SELECT {by}, {value} AS cell, {rows}{columns} FROM counted_rows"
        # Most users have one row in a group, whose cell gets all units. Only the others need three window functions.
        whole = self._user_total(str(measure.weight), measure.weight or 1)
        alone = f"{votes} WHERE r = 1 AND {condition}"
        single = f"SELECT {labels}, cell, {whole} AS users FROM {alone} GROUP BY {labels}, cell"
        cells = f"SELECT {by}, cell, {number} AS c FROM {votes} WHERE r > 1 AND {condition} GROUP BY {by}, cell"
        several = self._divide_units(labels, f"({cells}) AS cells", measure)
        users = self.dialect.int64(within(self.dialect.total("users", None)))
        return (
            f"SELECT {labels}, cell, {place} AS measure, {users} AS users{none} FROM ("
            f"WITH {votes} AS MATERIALIZED ({counted}) {single} UNION ALL {several}) AS divided_{votes} "
            f"GROUP BY {labels}, cell"
        )

    def _divide_units(self, labels: str, cells: str, measure: Measure) -> str:
        """Return the text of a SELECT of (g0, g1, ..., cell, users): the votes (users) for each cell of each group.

        A quantile is later estimated from the votes. A cell is an integer that stands for the value of a row. Each user
        has `measure.weight` votes in a group, and divides them among the cells in proportion to the number of their
        rows in each cell, rounded to whole votes by largest remainders. `labels` names the columns g0, g1, ... of the
        group's labels. `cells` is SQL text, after FROM, of rows (u, g0, g1, ..., cell, c): user u has c rows in that
        cell.
        """
        by = f"u, {labels}"
        per_user = f"OVER (PARTITION BY {by})"
        rows = self.dialect.int64(f"SUM(c) {per_user}")
        shared = f"SELECT {by}, cell, {measure.weight} * c AS units, {rows} AS r FROM {cells}"
        base = self.dialect.int64("(units - MOD(units, r)) / r")
        floored = f"SELECT {by}, cell, {base} AS base, MOD(units, r) AS remainder FROM ({shared}) AS shared"
        more = f"{measure.weight} - {self.dialect.int64(f'SUM(base) {per_user}')}"
        order = f"OVER (PARTITION BY {by} ORDER BY remainder DESC, cell)"
        divided = (
            f"SELECT {labels}, cell, base, ROW_NUMBER() {order} AS place, {more} AS more FROM ({floored}) AS floored"
        )
        units = self._user_total("base + CASE WHEN place <= more THEN 1 ELSE 0 END", measure.weight or 1)
        return f"SELECT {labels}, cell, {units} AS users FROM ({divided}) AS divided GROUP BY {labels}, cell"

    def _one_number_parts(
        self, kept: str, labels: str, sums: Mapping[str, str], cell_names: Sequence[str]
    ) -> tuple[dict[str, str], list[str]]:
        """Return (common tables, selects): SQL for the measures by which a user adds one integer to a group.

        The common tables are a dict from names to SQL statements, which the caller puts into a WITH clause. The selects
        are SELECT statements that read these tables, and the caller joins them by UNION ALL. Their columns are g0, g1,
        ... (the labels), cell, measure, users, and then those of `sums`. There are two kinds of rows:

        - A row with measure = -1 is about a whole group: users is its number of users.
        - A row with measure = i is about the users of a group who add the integer `cell` by measure i: users is how
          many they are, and the columns of `sums` are of no use.

        The arguments are:

        - `kept` is the SQL statement with one row per user and group. Its column w<i> is the integer that the user adds
          to the group by measure i.
        - `labels` names its label columns.
        - `sums` maps result columns to SQL sums over users.
        - `cell_names` names the columns w<i> of `kept` whose users are counted for each integer, instead of summed.
        """
        added = "".join(f", {value} AS {name}" for name, value in sums.items())
        users = self.dialect.int64("COUNT(*)")
        # Reading the materialised rows several times is faster than one SELECT with GROUPING SETS.
        if not cell_names or self.dialect.materializes:
            whole = self.dialect.int64("0")
            lines = [
                f"SELECT {labels}, {whole} AS cell, -1 AS measure, {users} AS users{added} FROM kept GROUP BY {labels}"
            ]
            none = "".join(f", 0 AS {name}" for name in sums)
            lines += [
                f"SELECT {labels}, {name} AS cell, {name[1:]} AS measure, {users} AS users{none} FROM kept "
                f"WHERE {name} IS NOT NULL GROUP BY {labels}, {name}"
                for name in cell_names
            ]
            return {"kept": kept}, lines
        sets = ", ".join(f"({each})" for each in (labels, *(f"{labels}, {name}" for name in cell_names)))
        chosen = f"SELECT {labels}, {_cell_columns(cell_names)}, {users} AS users{added} FROM ({kept}) AS kept"
        return {}, [f"{chosen} GROUP BY GROUPING SETS ({sets})"]

    def _user_total(self, name: str, largest: int) -> str:
        """Return a SQL expression for the sum of the column `name` over users, clipped to -2^62 .. 2^62.

        The sum of no rows is 0. `largest` is the greatest absolute value that the column can have; if it is small
        enough, the SQL sums in 64 bits, and otherwise in a wider type.
        """
        return self.dialect.int64(within(f"COALESCE({self.dialect.total(name, largest)}, 0)"))

    def _measures(self, aggregation: Aggregation) -> Measures:
        """Return the builder of SQL for the measures of `aggregation`, integers that users add to groups."""
        return Measures(aggregation.measures, self.schema, self.dialect)

    def counts_of_rows(self, aggregation: Aggregation, rows: str, salt: str) -> str:
        """Return the text of a SELECT of (g0, g1, ..., count), computed without grouping rows by user.

        There is one row for each group of `aggregation`: its labels and its count. Where users rarely have several rows
        of one group, this statement is faster than one that groups rows by user. It cannot sum a value column. `rows`
        is the SQL statement of the rows, and `salt` the SQL expression of the secret number that makes the order of a
        user's groups random.
        """
        labels = label_columns(aggregation)
        kept = f"rank <= {aggregation.contributions} AND earlier < {aggregation.per_item}"
        # It cannot leave out items whose sum of values is not positive, so it is for counts of rows only.
        numbered = self._rank_rows(aggregation, rows, salt)
        return f"SELECT {labels}, COUNT(*) AS count FROM ({numbered}) AS numbered WHERE {kept} GROUP BY {labels}"

    def _rank_rows(self, aggregation: Aggregation, rows: str, salt: str, sums: Mapping[str, str] | None = None) -> str:
        """Return the text of a SELECT that numbers rows: its columns are g0, g1, ..., rank, earlier, and sums.

        The SELECT has one row for each row of the SQL statement `rows`, with the labels g0, g1, ... of its group in
        `aggregation`. The column rank numbers the groups of the row's user from 1, in an order that the SQL expression
        `salt` makes random; all rows of one group have its number. The column earlier numbers a user's rows in one
        group from 0. `sums` maps names of further columns to SQL aggregates over all rows of the same user and group.
        """
        labels = label_columns(aggregation)
        # In the window's order, rows of one user and item are adjacent. So DENSE_RANK numbers the distinct items, and
        # ROW_NUMBER - RANK numbers the rows of one item from 0.
        numbers = "DENSE_RANK() OVER salted AS rank, ROW_NUMBER() OVER salted - RANK() OVER salted AS earlier"
        added = "".join(f", {value} AS {name}" for name, value in (sums or {}).items())
        salted = f"PARTITION BY u ORDER BY {self.dialect.rank_hash('u', labels.split(', '), salt)}, {labels}"
        # The aggregates in `sums` refer to the window `alike`.
        windows = f"salted AS ({salted}), alike AS ({salted} RANGE BETWEEN CURRENT ROW AND CURRENT ROW)"
        return f"SELECT {labels}, {numbers}{added} FROM ({rows}) AS counted WINDOW {windows}"

    def prepared_rows(self, ranked: str) -> str:
        """Return the text of the SELECT whose rows a prepared dataset stores: (item, n, rank, users), ordered by rank.

        A prepared dataset is a table of users' groups that is ranked once for many later queries. Each user's groups
        are put into a random order. A row says that `users` users have the group `item` at position `rank` of their
        order. Each of them adds n, a number of rows or a sum of values, to that group. `ranked` is the SQL statement
        that ranks the groups at random, with one row (g0, n, rank) per user and group.
        """
        grouped = f"SELECT g0 AS item, n, rank, COUNT(*) AS users FROM ({ranked}) AS ranked GROUP BY g0, n, rank"
        return f"{grouped} ORDER BY rank, item"

    def counts_of_prepared(self, aggregation: Aggregation, conditions: Sequence[str] = ()) -> str:
        """Return the text of a SELECT of (g0, count), the label and count of each group, from a prepared dataset.

        A prepared dataset stores rows (item, n, rank, users): `users` users have the group `item` at position `rank` of
        a random order of their groups, and each adds n to it. If `aggregation.contributions` is k, only rows with a
        rank up to k count. So each user counts in at most k groups, chosen at random, as if the groups were chosen now
        from the original table. `conditions` are further SQL conditions on stored rows.
        """
        all_conditions = list(conditions)
        if aggregation.contributions is not None:
            all_conditions.append(f"rank <= {aggregation.contributions}")
        kept = f"{self.relation} AS kept" + (f" WHERE {' AND '.join(all_conditions)}" if all_conditions else "")
        number = "1" if aggregation.per_item == 1 else f"LEAST(n, {aggregation.per_item})"
        count = self.dialect.int64(f"LEAST({self.dialect.weighted_total(number, 'users')}, {LARGEST_COUNT})")
        return f"SELECT item AS g0, {count} AS count FROM {kept} GROUP BY item"

    def counts(self, aggregation: Aggregation, kept: str) -> str:
        """Return the text of a SELECT of (g0, g1, ..., count): the labels and the count of every group.

        `kept` is the SQL statement with one row (g0, g1, ..., n) per user and group in which the user counts, where n
        is what the user adds to the group: a number of rows, or the sum of a column over them. The count is the sum
        over users of n, clipped to at most `aggregation.per_item` for each user. It is at most 2^62, the most that a
        histogram holds.
        """
        labels = label_columns(aggregation)
        if aggregation.per_item == 1:  # n is positive, so LEAST(n, 1) is 1 for every row
            return f"SELECT {labels}, COUNT(*) AS count FROM ({kept}) AS kept GROUP BY {labels}"
        total = self.dialect.total(f"LEAST(n, {aggregation.per_item})", aggregation.per_item)
        count = self.dialect.int64(f"LEAST({total}, {LARGEST_COUNT})")
        return f"SELECT {labels}, {count} AS count FROM ({kept}) AS kept GROUP BY {labels}"

    def highest(self, aggregation: Aggregation, counts: str, most: int) -> str:
        """Return the text of a SELECT of (g0, g1, ..., count) with the `most` highest counts, highest first.

        `counts` is the SQL statement for (g0, g1, ..., count) of all groups of `aggregation`, where g0, g1, ... are
        labels. Equal counts are in the order of their labels.
        """
        labels = label_columns(aggregation)
        return f"SELECT {labels}, count FROM ({counts}) AS counts ORDER BY count DESC, {labels} LIMIT {most}"


def label_columns(aggregation: Aggregation) -> str:
    """Return the names of the SQL columns that hold a group's labels, as one text "g0, g1, ..."; at least "g0".

    There is one for each column by which `aggregation` groups rows.
    """
    return ", ".join(f"g{place}" for place in range(max(1, len(aggregation.groups))))


def _counted_groups(aggregation: Aggregation, columns: Iterable[str]) -> list[str]:
    """Return SQL text for each of the names `columns`, to be listed in a SELECT that has one row per user and group.

    The column w<i> holds the integer that a user adds to the group by measure i of `aggregation`. For most columns the
    text is the name itself. Two kinds of integers depend on all groups of the user: their number of groups, and the
    greatest integer that they add to any of their groups. For these, the text computes the column by a window function,
    as in MAX(w1) OVER (PARTITION BY u) AS w1.
    """
    spanning = {}
    for place, measure in enumerate(aggregation.measures):
        if measure.groups:
            spanning[f"w{place}"] = f"LEAST(COUNT(*) OVER (PARTITION BY u), {measure.most})"
        elif measure.peak:
            spanning[f"w{place}"] = f"MAX(w{place}) OVER (PARTITION BY u)"
    return [f"{spanning[name]} AS {name}" if name in spanning else name for name in columns]


def _cell_columns(cell_names: Sequence[str]) -> str:
    """Return SQL text for the columns cell and measure of a SELECT with GROUPING SETS, which say what a row counts.

    The SELECT has a row for each group, which counts its users. For each column w<i> in `cell_names`, which holds the
    integer that a user adds to a group by measure i, it also has a row for each group and integer. So there are three
    kinds of rows:

    - A row with measure -1 and cell 0 counts all users of a group.
    - A row with measure i and cell c counts the users of a group who add the integer c by measure i.
    - A row with measure -2 counts the users of a group who add nothing (null) by some measure; it is ignored later.
    """
    cell = " ".join(f"WHEN GROUPING({name}) = 0 THEN COALESCE({name}, 0)" for name in cell_names)
    places = [(name, f"CASE WHEN {name} IS NULL THEN -2 ELSE {name[1:]} END") for name in cell_names]
    measure = " ".join(f"WHEN GROUPING({name}) = 0 THEN {place}" for name, place in places)
    return f"CASE {cell} ELSE 0 END AS cell, CASE {measure} ELSE -1 END AS measure"


SALT_BITS = 63
"""Bits of a salt: one less than 64, so that every engine can hold a salt as a signed 64-bit integer."""

SaltSource: TypeAlias = Callable[[], int]
"""A function that returns a new salt, an integer of `SALT_BITS` bits, at every call."""


def secret_salt() -> int:
    """Return a secret random integer of 63 bits from the operating system, to be used as a salt.

    The salt seeds the hashes by which the groups in which a user counts are chosen at random.
    """
    return secrets.randbits(SALT_BITS)


MOST_ROWS_PER_PAIR = 2.0
"""Up to this many rows per (user, item) pair, numbering rows is faster than grouping them first."""
MOST_ADDED_ROWS_PER_PAIR = 4 / 3
"""The limit of rows per pair if values of rows are summed, which a window does more slowly than a grouping."""


def probe(builder: StatementBuilder, aggregation: Aggregation, sample_rows: str) -> str:
    """Return SQL of `builder` that counts, in a sample of users, the rows and the distinct (user, group) pairs.

    The result is one row (found, pairs): found is the number of rows in the sample, and pairs the number of distinct
    (user, group) pairs in them. From their ratio the caller chooses the faster of two statements. `sample_rows` is the
    SQL statement of all rows of the users in the sample, and `aggregation` names the user and group columns.
    """
    return f"SELECT SUM(n) AS found, COUNT(*) AS pairs FROM ({builder.pairs(aggregation, sample_rows)}) AS pairs"


def rows_rarely_repeat(row_count: int | None, pairs: int, sums_values: bool = False) -> bool:
    """Return whether a query is faster if it numbers rows by window functions than if it groups them by user and group.

    Both forms of the query have the same result. Numbering is faster if users rarely have several rows of one group: if
    the sample has at most 2 rows per (user, group) pair, or at most 4/3 if `sums_values`. `row_count` is the number of
    rows of the sample, or None for an empty sample, and `pairs` the number of distinct pairs in it. `sums_values` says
    that the query also sums values of the rows.
    """
    return (
        row_count is not None and row_count <= (MOST_ADDED_ROWS_PER_PAIR if sums_values else MOST_ROWS_PER_PAIR) * pairs
    )
