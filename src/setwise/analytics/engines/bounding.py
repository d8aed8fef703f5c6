"""The query that every engine runs: rows, then one line per user and item, then the items each user keeps, then counts.

rows      SELECT user, item, value WHERE user and item are there, the filter holds, the item is in the domain
pairs     GROUP BY user, item: how many rows, or the sum of the value; only positive ones stay
ranked    ROW_NUMBER() OVER (PARTITION BY user ORDER BY salted hash of user and item)
kept      rank <= contributions, when contributions are bounded at all
counts    GROUP BY item: the sum of LEAST(n, per_item)
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
    Every,
    Expression,
    Membership,
    Missing,
    Not,
    Pattern,
    Some,
    Value,
)
from setwise.analytics.query import EVERYTHING
from setwise.analytics.schema import Column, Kind, Schema
from setwise.mechanisms.histogram import LARGEST_COUNT
from setwise.mechanisms.labels import Label, cell_of

Bound: TypeAlias = str | int | float | bool
"""A value sent beside a statement, never inside it."""


class Parameters:
    """Values that go beside a statement, each under a name of its own."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.values: dict[str, object] = {}

    def add(self, value: object) -> str:
        """Keep a value and return where it stands in the statement."""
        name = f"p{len(self.values) + 1}"
        self.values[name] = value
        return self._dialect.placeholder(name)


def predicate(expression: Expression, dialect: Dialect, parameters: Parameters) -> str:
    """Return the expression as SQL, in parentheses."""
    match expression:
        case Comparison(column, operator, value):
            return f"({dialect.operand(column)} {operator} {_constant(column, value, dialect, parameters)})"
        case Membership(column, values):
            operand = dialect.operand(column)
            constants = [_constant(column, value, dialect, parameters) for value in values]
            if column.kind is Kind.FLOAT:  # engines look lists up by hash, and then disagree on whether 0.0 = -0.0
                return f"({' OR '.join(f'{operand} = {constant}' for constant in constants)})"
            return f"({operand} IN ({', '.join(constants)}))"
        case Pattern(column, pattern):
            return f"({dialect.like(dialect.operand(column), parameters.add(dialect.pattern(pattern)))})"
        case Missing(column):
            return f"({dialect.name(column.name)} IS NULL)"
        case Not(part):
            return f"(NOT {predicate(part, dialect, parameters)})"
        case Every(parts):
            return f"({' AND '.join(predicate(part, dialect, parameters) for part in parts)})"
        case Some(parts):
            return f"({' OR '.join(predicate(part, dialect, parameters) for part in parts)})"
        case _:
            assert_never(expression)


def _constant(column: Column, value: Value, dialect: Dialect, parameters: Parameters) -> str:
    return dialect.constant(column, parameters.add(_sent(value)))


def _sent(value: Value) -> Bound:
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
    """Return SQL for the number moved to the nearest one that a count can be."""
    return f"GREATEST(LEAST({number}, {LARGEST_COUNT}), -{LARGEST_COUNT})"


@dataclass(frozen=True, slots=True)
class StatementBuilder:
    """The statements about one relation of an engine, written in its dialect; parameters gather on the way."""

    dialect: Dialect
    relation: str
    schema: Schema
    parameters: Parameters

    def rows(self, aggregation: Aggregation, conditions: Sequence[str] = (), hint: str = "") -> str:
        """Return the rows that count, as columns u, g0, g1, .. and, where there is one, v, or v0, v1, .."""
        user = self.schema.column(aggregation.user)
        every = [f"{self.dialect.user(user)} IS NOT NULL", *conditions]
        found = [self.dialect.user(user), *self.labels(aggregation)]
        names = ["u", *label_columns(aggregation).split(", ")]
        columns = [f"{self.dialect.not_null(each)} AS {name}" for each, name in zip(found, names, strict=True)]
        if aggregation.null_item is None:
            every += [f"{label_sql(group, self.schema, self.dialect)} IS NOT NULL" for group in aggregation.groups]
        if aggregation.value is not None:
            columns.append(f"{self.dialect.name(aggregation.value)} AS v")
        columns += [f"{value} AS v{place}" for place, value in enumerate(self._measures(aggregation).row_values())]
        if aggregation.where is not None:
            every.append(predicate(aggregation.where.expression, self.dialect, self.parameters))
        return f"SELECT {hint}{', '.join(columns)} FROM {self.relation} WHERE {' AND '.join(every)}"

    def labels(self, aggregation: Aggregation) -> list[str]:
        """Return the expressions of the labels of a row, one for each column of `label_columns`."""
        if aggregation.item is None:
            return [f"'{EVERYTHING}'"]
        return [self._label(group, aggregation.null_item, place) for place, group in enumerate(aggregation.groups)]

    def _label(self, group: Group, null_item: Label | None, place: int) -> str:
        label = label_sql(group, self.schema, self.dialect)
        if null_item is None:
            return label
        missing = self.parameters.add(cell_of(null_item, place))
        return f"COALESCE({label}, {self.dialect.label_constant(group.labels(self.schema), missing)})"

    def bounded_pairs(self, aggregation: Aggregation, rows: str) -> str:
        """Return the same as `pairs`, with n as far as the aggregation can tell: 1 where more would not count."""
        if aggregation.value is None and aggregation.per_item == 1:
            by = f"u, {label_columns(aggregation)}"
            return f"SELECT {by}, 1 AS n FROM ({rows}) AS counted GROUP BY {by}"
        return self.pairs(aggregation, rows)

    def pairs(self, aggregation: Aggregation, rows: str) -> str:
        """Return one line (u, labels, n) for every user and item, n positive and at most 2^62."""
        by = f"u, {label_columns(aggregation)}"
        if aggregation.value is None:
            return f"SELECT {by}, COUNT(*) AS n FROM ({rows}) AS counted GROUP BY {by}"
        summed = f"SELECT {by}, {self.dialect.total('v', None)} AS n FROM ({rows}) AS counted GROUP BY {by}"
        clipped = self.dialect.whole(f"LEAST(n, {LARGEST_COUNT})")
        return f"SELECT {by}, {clipped} AS n FROM ({summed}) AS summed WHERE n > 0"

    def user_groups(self, aggregation: Aggregation, rows: str) -> str:
        """Return SQL for one line (labels, u) of every user and group, with the user as text."""
        labels = label_columns(aggregation)
        distinct = f"SELECT DISTINCT u, {labels} FROM ({rows}) AS counted"
        return f"SELECT {labels}, {self.dialect.text('u')} AS u FROM ({distinct}) AS pairs"

    def ranked(self, aggregation: Aggregation, pairs: str, salt: str, columns: str = "n") -> str:
        """Return (labels, n, rank): every user's items in a uniformly random order, numbered from 1."""
        labels = label_columns(aggregation)
        order = self.dialect.rank_hash("u", labels.split(", "), salt)
        rank = f"ROW_NUMBER() OVER (PARTITION BY u ORDER BY {order}, {labels})"
        return f"SELECT {labels}, {columns}, {rank} AS rank FROM ({pairs}) AS pairs"

    def kept(self, aggregation: Aggregation, ranked: str, columns: str = "n") -> str:
        """Return (labels, n) of the items that users keep."""
        labels = label_columns(aggregation)
        return f"SELECT {labels}, {columns} FROM ({ranked}) AS ranked WHERE rank <= {aggregation.contributions}"

    def statistics(self, aggregation: Aggregation, rows: str, salt: str | None, number_rows: bool = False) -> str:
        """Return (labels, cell, measure, users, s0, n0, s1, ..): the measures of every group that users keep.

        A line with measure -1 has the group's users, and for each measure that is added up the sum and how many users
        add something. A line with another measure has how many users add the number `cell` by it. All but labels, cell
        and measure can be added up over parts of the users. Of equal measures in cells, such as those of several
        quantiles of a column, the first stands for all. `number_rows` chooses the form of `counts_of_rows`.
        """
        labels = label_columns(aggregation)
        measures = self._measures(aggregation)
        values = {f"w{place}": value for place, value in measures.user_values().items()}
        spread = {}
        for place, measure in enumerate(aggregation.measures):
            if measure.in_cells and measure in aggregation.measures[:place]:
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
            numbered = self._numbered(aggregation, rows, salt, measures.user_sums(" OVER alike"))
            first = f"rank <= {aggregation.contributions} AND earlier = 0"
            kept = f"SELECT {labels}, {whole} FROM ({numbered}) AS numbered WHERE {first}"
        else:
            sums = [f"{value} AS {name}" for name, value in measures.user_sums().items()]
            summed = f"SELECT {', '.join(['u', labels, *sums])} FROM ({rows}) AS counted GROUP BY u, {labels}"
            pairs = f"SELECT u, {labels}, {whole} FROM ({summed}) AS summed"
            kept = f"SELECT {labels}, {columns} FROM ({pairs}) AS pairs"
            if ranks and salt is not None:
                ranked = ", ".join(_counted_groups(aggregation, values))
                kept = self.kept(aggregation, self.ranked(aggregation, pairs, salt, ranked), columns)
        if aggregation.pooled:
            kept, labels = f"SELECT '{EVERYTHING}' AS g0, {columns} FROM ({kept}) AS own", "g0"
        added: dict[str, str] = {}
        for place, measure in enumerate(aggregation.measures):
            reach = max(abs(measure.least), abs(measure.most)) * (measure.rows or 1)
            if not measure.in_cells:
                number = f"COUNT(w{place})" if measure.rows is None else self._added(f"m{place}", measure.rows)
                added |= {f"s{place}": self._added(f"w{place}", reach), f"n{place}": number}
        celled = [f"w{place}" for place, measure in enumerate(aggregation.measures) if measure.in_cells]
        found, lines = self._added_up(kept, labels, added, [name for name in celled if name in values])
        if spread:  # rows are read once where they can be held: some relations are good for one reading
            found["counted_rows"] = held_rows
            lines += [self._spread(aggregation, place, salt, list(added)) for place in spread]
        held = "MATERIALIZED " if self.dialect.materializes and (celled or spread) else ""
        parts = [f"{name} AS {held}({found[name]})" for name in ("counted_rows", "kept") if name in found]
        return (f"WITH {', '.join(parts)} " if parts else "") + " UNION ALL ".join(lines)

    def _spread(self, aggregation: Aggregation, place: int, salt: str | None, sums: Sequence[str]) -> str:
        """Return the lines of a measure by which one user may add to several cells, or several distinct values."""
        measure = aggregation.measures[place]
        labels, value = label_columns(aggregation), self._measures(aggregation).row_name(measure)
        by = f"u, {labels}"
        number = self.dialect.whole("COUNT(*)")
        cells = f"SELECT {by}, {value} AS cell, {number} AS c FROM counted_rows GROUP BY {by}, {value}"
        kept = f"({cells}) AS cells WHERE cell IS NOT NULL"
        if aggregation.items_kept_per_user is not None and salt is not None:  # the same groups as of the other measures
            salted = f"PARTITION BY u ORDER BY {self.dialect.rank_hash('u', labels.split(', '), salt)}, {labels}"
            ranked = f"SELECT {by}, cell, c, DENSE_RANK() OVER ({salted}) AS rank FROM ({cells}) AS cells"
            kept = f"({ranked}) AS ranked WHERE rank <= {aggregation.contributions} AND cell IS NOT NULL"
        none = "".join(f", 0 AS {name}" for name in sums)
        if measure.distinct is not None:
            assert salt is not None
            order = f"PARTITION BY {by} ORDER BY {self.dialect.rank_hash('u', ['cell'], salt)}, cell"
            chosen = f"SELECT {labels}, cell, ROW_NUMBER() OVER ({order}) AS place FROM {kept}"
            number = self.dialect.whole("COUNT(DISTINCT cell)")
            return (
                f"SELECT {labels}, {self.dialect.whole('0')} AS cell, {place} AS measure, {number} AS users{none} "
                f"FROM ({chosen}) AS chosen WHERE place <= {measure.distinct} GROUP BY {labels}"
            )
        own = f"OVER (PARTITION BY {by})"
        shared = (
            f"SELECT {by}, cell, {measure.weight} * c AS units, {self.dialect.whole(f'SUM(c) {own}')} AS r FROM {kept}"
        )
        base = self.dialect.whole("(units - MOD(units, r)) / r")
        floored = f"SELECT {by}, cell, {base} AS base, MOD(units, r) AS remainder FROM ({shared}) AS shared"
        more = f"{measure.weight} - {self.dialect.whole(f'SUM(base) {own}')}"
        order = f"OVER (PARTITION BY {by} ORDER BY remainder DESC, cell)"
        divided = (
            f"SELECT {labels}, cell, base, ROW_NUMBER() {order} AS place, {more} AS more FROM ({floored}) AS floored"
        )
        units = self._added("base + CASE WHEN place <= more THEN 1 ELSE 0 END", measure.weight or 1)
        return (
            f"SELECT {labels}, cell, {place} AS measure, {units} AS users{none} FROM ({divided}) AS divided "
            f"GROUP BY {labels}, cell"
        )

    def _added_up(
        self, kept: str, labels: str, sums: Mapping[str, str], celled: Sequence[str]
    ) -> tuple[dict[str, str], list[str]]:
        """Return the lines of `statistics` about what users keep, `celled` of it counted in cells, and what they read.

        Grouping by cells is expensive, so sums are aggregated per group in a second pass over the kept rows, where the
        engine supports MATERIALIZED.
        """
        added = "".join(f", {value} AS {name}" for name, value in sums.items())
        users = self.dialect.whole("COUNT(*)")
        if not celled or self.dialect.materializes:
            whole = self.dialect.whole("0")
            lines = [
                f"SELECT {labels}, {whole} AS cell, -1 AS measure, {users} AS users{added} FROM kept GROUP BY {labels}"
            ]
            none = "".join(f", 0 AS {name}" for name in sums)
            lines += [
                f"SELECT {labels}, {name} AS cell, {name[1:]} AS measure, {users} AS users{none} FROM kept "
                f"WHERE {name} IS NOT NULL GROUP BY {labels}, {name}"
                for name in celled
            ]
            return {"kept": kept}, lines
        sets = ", ".join(f"({each})" for each in (labels, *(f"{labels}, {name}" for name in celled)))
        chosen = f"SELECT {labels}, {_cell_columns(celled)}, {users} AS users{added} FROM ({kept}) AS kept"
        return {}, [f"{chosen} GROUP BY GROUPING SETS ({sets})"]

    def _added(self, name: str, largest: int) -> str:
        """Return the sum of what users add, 0 where nobody does."""
        return self.dialect.whole(within(f"COALESCE({self.dialect.total(name, largest)}, 0)"))

    def _measures(self, aggregation: Aggregation) -> Measures:
        return Measures(aggregation.measures, self.schema, self.dialect)

    def counts_of_rows(self, aggregation: Aggregation, rows: str, salt: str) -> str:
        """Return the same as `counts` of `kept` of `ranked` of `pairs`, by numbering rows and grouping none of them.

        A user's equal items stand together in the order, so DENSE_RANK numbers distinct items, and ROW_NUMBER - RANK
        the rows of one item, from 0. It is quicker where rows rarely repeat, and cannot leave out the items whose value
        is not positive: it is for counts of rows only.
        """
        labels = label_columns(aggregation)
        kept = f"rank <= {aggregation.contributions} AND earlier < {aggregation.per_item}"
        numbered = self._numbered(aggregation, rows, salt)
        return f"SELECT {labels}, COUNT(*) AS count FROM ({numbered}) AS numbered WHERE {kept} GROUP BY {labels}"

    def _numbered(self, aggregation: Aggregation, rows: str, salt: str, sums: Mapping[str, str] | None = None) -> str:
        """Return every row as (labels, rank, earlier), with sums over the window `alike`: of the same user and item."""
        labels = label_columns(aggregation)
        numbers = "DENSE_RANK() OVER salted AS rank, ROW_NUMBER() OVER salted - RANK() OVER salted AS earlier"
        added = "".join(f", {value} AS {name}" for name, value in (sums or {}).items())
        salted = f"PARTITION BY u ORDER BY {self.dialect.rank_hash('u', labels.split(', '), salt)}, {labels}"
        windows = f"salted AS ({salted}), alike AS ({salted} RANGE BETWEEN CURRENT ROW AND CURRENT ROW)"
        return f"SELECT {labels}, {numbers}{added} FROM ({rows}) AS counted WINDOW {windows}"

    def prepared(self, ranked: str) -> str:
        """Return (item, n, rank, users): `ranked`, equal lines put together, lowest ranks first."""
        grouped = f"SELECT g0 AS item, n, rank, COUNT(*) AS users FROM ({ranked}) AS ranked GROUP BY g0, n, rank"
        return f"{grouped} ORDER BY rank, item"

    def counts_of_prepared(self, aggregation: Aggregation, conditions: Sequence[str] = ()) -> str:
        """Return the same as `counts` when the relation holds what `prepared` returns."""
        every = list(conditions)
        if aggregation.contributions is not None:
            every.append(f"rank <= {aggregation.contributions}")
        kept = f"{self.relation} AS kept" + (f" WHERE {' AND '.join(every)}" if every else "")
        number = "1" if aggregation.per_item == 1 else f"LEAST(n, {aggregation.per_item})"
        count = self.dialect.whole(f"LEAST({self.dialect.weighted_total(number, 'users')}, {LARGEST_COUNT})")
        return f"SELECT item AS g0, {count} AS count FROM {kept} GROUP BY item"

    def counts(self, aggregation: Aggregation, kept: str) -> str:
        """Return (labels, count) of every item; a count beyond what a histogram holds stops at 2^62."""
        labels = label_columns(aggregation)
        if aggregation.per_item == 1:  # n is positive, so every line counts once and n need not be read
            return f"SELECT {labels}, COUNT(*) AS count FROM ({kept}) AS kept GROUP BY {labels}"
        total = self.dialect.total(f"LEAST(n, {aggregation.per_item})", aggregation.per_item)
        count = self.dialect.whole(f"LEAST({total}, {LARGEST_COUNT})")
        return f"SELECT {labels}, {count} AS count FROM ({kept}) AS kept GROUP BY {labels}"

    def highest(self, aggregation: Aggregation, counts: str, most: int) -> str:
        """Return at most `most` counts, highest first, equal ones by label."""
        labels = label_columns(aggregation)
        return f"SELECT {labels}, count FROM ({counts}) AS counts ORDER BY count DESC, {labels} LIMIT {most}"


def label_columns(aggregation: Aggregation) -> str:
    """Return the names of the columns that hold the labels of groups, in every statement."""
    return ", ".join(f"g{place}" for place in range(max(1, len(aggregation.groups))))


def _counted_groups(aggregation: Aggregation, columns: Iterable[str]) -> list[str]:
    """Return the columns of users and groups, with the number of a user's groups in place of those that ask for it."""
    most = {f"w{place}": measure.most for place, measure in enumerate(aggregation.measures) if measure.groups}
    own = "COUNT(*) OVER (PARTITION BY u)"
    return [f"LEAST({own}, {most[name]}) AS {name}" if name in most else name for name in columns]


def _cell_columns(celled: Sequence[str]) -> str:
    """Return the cell of a line and the place of its measure: -1 for all users of a group, -2 for who adds nothing."""
    cell = " ".join(f"WHEN GROUPING({name}) = 0 THEN COALESCE({name}, 0)" for name in celled)
    places = [(name, f"CASE WHEN {name} IS NULL THEN -2 ELSE {name[1:]} END") for name in celled]
    measure = " ".join(f"WHEN GROUPING({name}) = 0 THEN {place}" for name, place in places)
    return f"CASE {cell} ELSE 0 END AS cell, CASE {measure} ELSE -1 END AS measure"


SALT_BITS = 63

SaltSource: TypeAlias = Callable[[], int]
"""Gives a new salt at every call: a whole number of `SALT_BITS` bits."""


def secret_salt() -> int:
    """Return a salt from the operating system's randomness.

    One bit of 64 is left out so that every engine can hold it as a signed integer.
    """
    return secrets.randbits(SALT_BITS)


MOST_ROWS_PER_PAIR = 2.0
"""Up to this many rows for every user and item, numbering rows beats grouping them first."""
MOST_ADDED_ROWS_PER_PAIR = 4 / 3
"""The same where values of rows are added up, which a window does more slowly than a grouping."""


def has_two_forms(aggregation: Aggregation) -> bool:
    """Whether there is a choice: sums that must be positive and numbers of groups need pairs; some need no ranks."""
    pairs_needed = aggregation.value is not None or any(
        measure.groups or measure.is_spread for measure in aggregation.measures
    )
    return aggregation.items_kept_per_user is not None and not pairs_needed


def probe(builder: StatementBuilder, aggregation: Aggregation, some: str) -> str:
    """Return how many rows, and how many pairs of user and item, all rows of some of the users are."""
    return f"SELECT SUM(n) AS found, COUNT(*) AS pairs FROM ({builder.pairs(aggregation, some)}) AS pairs"


def rows_rarely_repeat(found: int | None, pairs: int, added: bool = False) -> bool:
    """Whether rows should be numbered as they are; either form gives the same answer, sooner or later."""
    return found is not None and found <= (MOST_ADDED_ROWS_PER_PAIR if added else MOST_ROWS_PER_PAIR) * pairs
