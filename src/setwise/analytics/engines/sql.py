"""The query that every engine runs: rows, then one line per user and item, then the items each user keeps, then counts.

rows      SELECT user, item, value WHERE user and item are there, the filter holds, the item is in the domain
pairs     GROUP BY user, item: how many rows, or the sum of the value; only positive ones stay
ranked    ROW_NUMBER() OVER (PARTITION BY user ORDER BY salted hash of user and item)
kept      rank <= contributions, when contributions are bounded at all
counts    GROUP BY item: the sum of LEAST(n, per_item)
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Protocol, TypeAlias, assert_never

from setwise.analytics.engines.base import Aggregation, Measure
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
from setwise.mechanisms.labels import Cell

Bound: TypeAlias = str | int | float | bool
"""A value sent beside a statement, never inside it."""


class Dialect(Protocol):
    """The words of one engine's SQL; all expressions are given and returned as SQL text."""

    def name(self, identifier: str) -> str:
        """Return an identifier in quotes."""
        ...

    def placeholder(self, parameter: str) -> str:
        """Return where the parameter of that name stands."""
        ...

    def user(self, column: Column) -> str:
        """Return the column such that equal means the same user."""
        ...

    def label(self, column: Column) -> str:
        """Return the column as text or integer, compared by code points."""
        ...

    def label_constant(self, column: Column, placeholder: str) -> str:
        """Return a parameter as a label of the column."""
        ...

    def row(self, labels: Sequence[str]) -> str:
        """Return several labels as one value that can be grouped, ordered and hashed."""
        ...

    def number(self, column: Column) -> str:
        """Return a column of numbers such that no sum can fail: null where it is none, and none beyond 1e100."""
        ...

    def operand(self, column: Column) -> str:
        """Return the column as it is compared with `constant`, such that no row can fail to convert."""
        ...

    def constant(self, column: Column, placeholder: str) -> str:
        """Return a parameter as a value of the column's type."""
        ...

    def like(self, operand: str, placeholder: str) -> str:
        """Return whether text matches a pattern in which a backslash stands for the next character itself."""
        ...

    def total(self, number: str, largest: int | None) -> str:
        """Return the exact sum of whole numbers, none greater than `largest`; None is the range of 64 bits."""
        ...

    def weighted_total(self, number: str, weight: str) -> str:
        """Return the exact sum of whole numbers of at most 2^62, each taken `weight` times; a row count is the most."""
        ...

    def whole(self, number: str) -> str:
        """Return a number that is known to fit as a 64-bit integer."""
        ...

    def rank_hash(self, user: str, item: str, salt: str) -> str:
        """Return the salted hash of a user's item by which it is ranked among that user's items."""
        ...


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
            escaped = pattern.replace("\\", "\\\\")
            return f"({dialect.like(dialect.operand(column), parameters.add(escaped))})"
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
        """Return the rows that count, as columns u, item and, where there is one, v."""
        user = self.schema.column(aggregation.user)
        every = [f"{self.dialect.user(user)} IS NOT NULL", *conditions]
        columns = [f"{self.dialect.user(user)} AS u", f"{self.item(aggregation)} AS item"]
        if aggregation.null_item is None:
            every += [f"{self.dialect.label(self.schema.column(name))} IS NOT NULL" for name in aggregation.groups]
        if aggregation.value is not None:
            columns.append(f"{self.dialect.name(aggregation.value)} AS v")
        for place, column in enumerate(aggregation.measured):
            columns.append(f"{self.dialect.number(self.schema.column(column))} AS v{place}")
        if aggregation.where is not None:
            every.append(predicate(aggregation.where.expression, self.dialect, self.parameters))
        return f"SELECT {hint}{', '.join(columns)} FROM {self.relation} WHERE {' AND '.join(every)}"

    def item(self, aggregation: Aggregation) -> str:
        """Return the expression of the label of a row."""
        if aggregation.item is None:
            return f"'{EVERYTHING}'"
        labels = [self._label(name, aggregation.null_item) for name in aggregation.groups]
        return labels[0] if len(labels) == 1 else self.dialect.row(labels)

    def _label(self, name: str, null_item: Cell | None) -> str:
        column = self.schema.column(name)
        label = self.dialect.label(column)
        if null_item is None:
            return label
        missing = self.dialect.label_constant(column, self.parameters.add(null_item))
        return f"COALESCE({label}, {missing})"

    def bounded_pairs(self, aggregation: Aggregation, rows: str) -> str:
        """Return the same as `pairs`, with n as far as the aggregation can tell: 1 where more would not count."""
        if aggregation.value is None and aggregation.per_item == 1:
            return f"SELECT u, item, 1 AS n FROM ({rows}) AS counted GROUP BY u, item"
        return self.pairs(aggregation, rows)

    def pairs(self, aggregation: Aggregation, rows: str) -> str:
        """Return one line (u, item, n) for every user and item, n positive and at most 2^62."""
        if aggregation.value is None:
            return f"SELECT u, item, COUNT(*) AS n FROM ({rows}) AS counted GROUP BY u, item"
        summed = f"SELECT u, item, {self.dialect.total('v', None)} AS n FROM ({rows}) AS counted GROUP BY u, item"
        clipped = self.dialect.whole(f"LEAST(n, {LARGEST_COUNT})")
        return f"SELECT u, item, {clipped} AS n FROM ({summed}) AS summed WHERE n > 0"

    def ranked(self, pairs: str, salt: str, columns: str = "n") -> str:
        """Return (item, n, rank): every user's items in a uniformly random order, numbered from 1."""
        order = self.dialect.rank_hash("u", "item", salt)
        rank = f"ROW_NUMBER() OVER (PARTITION BY u ORDER BY {order}, item)"
        return f"SELECT item, {columns}, {rank} AS rank FROM ({pairs}) AS pairs"

    def kept(self, aggregation: Aggregation, ranked: str, columns: str = "n") -> str:
        """Return (item, n) of the items that users keep."""
        return f"SELECT item, {columns} FROM ({ranked}) AS ranked WHERE rank <= {aggregation.contributions}"

    def statistics(self, aggregation: Aggregation, rows: str, salt: str | None) -> str:
        """Return (label, cell, measure, users, s0, n0, s1, ..): the measures of every group that users keep.

        A line with measure -1 has the group's users, and for each measure the sum of what they add and how many add
        something. A line with another measure has how many users add the number `cell` by it. All but label, cell and
        measure can be added up over parts of the users.
        """
        numbered = list(enumerate(aggregation.measures))
        read = {column: f"v{place}" for place, column in enumerate(aggregation.measured)}
        whole = ", ".join(f"{self._whole(measure, read)} AS w{place}" for place, measure in numbered)
        columns = ", ".join(f"w{place}" for place, _ in numbered)
        pairs = f"SELECT u, item, {whole} FROM ({rows}) AS counted GROUP BY u, item"
        kept = f"SELECT item, {columns} FROM ({pairs}) AS pairs"
        if salt is not None:
            kept = self.kept(aggregation, self.ranked(pairs, salt, columns), columns)
        added = [self.dialect.whole(within(f"COALESCE(SUM(w{place}), 0)")) for place, _ in numbered]
        sums = [f"{total} AS s{place}, COUNT(w{place}) AS n{place}" for place, total in enumerate(added)]
        first = f"item AS label, {self.dialect.whole('0')} AS cell, -1 AS measure, COUNT(*) AS users"
        lines = [f"SELECT {', '.join([first, *sums])} FROM kept GROUP BY item"]
        none = ", ".join(f"0 AS s{place}, 0 AS n{place}" for place, _ in numbered)
        lines += [
            f"SELECT item AS label, w{place} AS cell, {place} AS measure, COUNT(*) AS users, {none} "
            f"FROM kept WHERE w{place} IS NOT NULL GROUP BY item, w{place}"
            for place, measure in numbered
            if measure.in_cells
        ]
        return f"WITH kept AS MATERIALIZED ({kept}) {' UNION ALL '.join(lines)}"

    def _whole(self, measure: Measure, read: Mapping[str, str]) -> str:
        """Return what one user adds to a group; null when no value of the column is a number."""
        if measure.column is None:
            return self.dialect.whole(f"LEAST(COUNT(*), {measure.most})")
        column, whole = read[measure.column], self.schema.column(measure.column).kind is Kind.INTEGER
        if whole and not measure.averaged and measure.step == 1:
            found = number = self.dialect.total(column, None)
        else:
            origin, step = (repr(float(each)) for each in (measure.origin, measure.step))
            found = f"{'AVG' if measure.averaged else 'SUM'}(CAST({column} AS DOUBLE))"
            number = f"ROUND(({found} - ({origin})) / {step})"
        clipped = self.dialect.whole(f"GREATEST(LEAST({number}, {measure.most}), {measure.least})")
        return f"CASE WHEN {found} IS NOT NULL THEN {clipped} END"

    def counts_of_rows(self, aggregation: Aggregation, rows: str, salt: str) -> str:
        """Return the same as `counts` of `kept` of `ranked` of `pairs`, by numbering rows and grouping none of them.

        A user's equal items stand together in the order, so DENSE_RANK numbers distinct items, and ROW_NUMBER - RANK
        the rows of one item, from 0. It is quicker where rows rarely repeat, and cannot leave out the items whose value
        is not positive: it is for counts of rows only.
        """
        numbers = "DENSE_RANK() OVER salted AS rank, ROW_NUMBER() OVER salted - RANK() OVER salted AS earlier"
        salted = f"WINDOW salted AS (PARTITION BY u ORDER BY {self.dialect.rank_hash('u', 'item', salt)}, item)"
        numbered = f"SELECT item, {numbers} FROM ({rows}) AS counted {salted}"
        kept = f"rank <= {aggregation.contributions} AND earlier < {aggregation.per_item}"
        return f"SELECT item AS label, COUNT(*) AS count FROM ({numbered}) AS numbered WHERE {kept} GROUP BY item"

    def prepared(self, ranked: str) -> str:
        """Return (item, n, rank, users): `ranked`, equal lines put together, lowest ranks first."""
        grouped = f"SELECT item, n, rank, COUNT(*) AS users FROM ({ranked}) AS ranked GROUP BY item, n, rank"
        return f"{grouped} ORDER BY rank, item"

    def counts_of_prepared(self, aggregation: Aggregation, conditions: Sequence[str] = ()) -> str:
        """Return the same as `counts` when the relation holds what `prepared` returns."""
        every = list(conditions)
        if aggregation.contributions is not None:
            every.append(f"rank <= {aggregation.contributions}")
        kept = f"{self.relation} AS kept" + (f" WHERE {' AND '.join(every)}" if every else "")
        number = "1" if aggregation.per_item == 1 else f"LEAST(n, {aggregation.per_item})"
        count = self.dialect.whole(f"LEAST({self.dialect.weighted_total(number, 'users')}, {LARGEST_COUNT})")
        return f"SELECT item AS label, {count} AS count FROM {kept} GROUP BY item"

    def counts(self, aggregation: Aggregation, kept: str) -> str:
        """Return (label, count) of every item; a count beyond what a histogram holds stops at 2^62."""
        if aggregation.per_item == 1:  # n is positive, so every line counts once and n need not be read
            return f"SELECT item AS label, COUNT(*) AS count FROM ({kept}) AS kept GROUP BY item"
        total = self.dialect.total(f"LEAST(n, {aggregation.per_item})", aggregation.per_item)
        count = self.dialect.whole(f"LEAST({total}, {LARGEST_COUNT})")
        return f"SELECT item AS label, {count} AS count FROM ({kept}) AS kept GROUP BY item"

    def highest(self, counts: str, most: int) -> str:
        """Return at most `most` counts, highest first, equal ones by label."""
        return f"SELECT label, count FROM ({counts}) AS counts ORDER BY count DESC, label ASC LIMIT {most}"


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


def has_two_forms(aggregation: Aggregation) -> bool:
    """Whether there is a choice: sums must be grouped, and without a bound nothing is ranked."""
    return aggregation.items_kept_per_user is not None and aggregation.value is None


def probe(builder: StatementBuilder, aggregation: Aggregation, some: str) -> str:
    """Return how many rows, and how many pairs of user and item, all rows of some of the users are."""
    return f"SELECT SUM(n) AS found, COUNT(*) AS pairs FROM ({builder.pairs(aggregation, some)}) AS pairs"


def rows_rarely_repeat(found: int | None, pairs: int) -> bool:
    """Whether rows should be numbered as they are; either form gives the same histogram, sooner or later."""
    return found is not None and found <= MOST_ROWS_PER_PAIR * pairs
