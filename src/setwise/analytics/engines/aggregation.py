"""Description of the exact histogram that an engine computes (`Aggregation`), and checks that its columns are suitable.

An aggregation can also describe exact statistics of groups, such as sums of a column.
"""

from dataclasses import dataclass, field, replace
from typing import assert_never

from setwise.analytics.bins import Group
from setwise.analytics.filter.expression import Filter
from setwise.analytics.measure import Measure
from setwise.analytics.schema import NUMBER_KINDS, Column, Kind, Schema
from setwise.errors import InvalidParameter, UnsuitableTable
from setwise.mechanisms.labels import Cell, Label, cell_of, distinct_labels
from setwise.mechanisms.parameters import positive_integer
from setwise.mechanisms.weighted_rounds import MOST_GROUPS
from setwise.records import set_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation:
    """Description of an exact histogram (no noise): the rows to count, their groups, and the limits on each user.

    - `user` is the column that identifies users. Rows without a user are not counted.
    - `item` is the column that gives the group of a row, or a `Group`, which puts a column into ranges such as months.
      A tuple groups by several of them. None makes all rows one group, labelled `EVERYTHING`.
    - `value` is a column whose values are summed per user and group; a sum of 0 or less is left out. None counts rows.
    - `contributions` is the most groups in which a user is counted. If a user has more groups, some are chosen at
      random. None counts users in all their groups.
    - `per_item` is the most that one user adds to the count (or sum of `value`) of one group.
    - `where` filters the rows. None reads all rows.
    - `domain` lists public labels, the only groups that are counted. None counts every group.
    - `null_item` is the label of rows whose group is null. None leaves these rows out.
    - `measures` are for the method `Engine.statistics`, which returns each of them for every group instead of a count.
      A measure is an integer computed from a user's rows in the group, such as the sum of a column, and added up over
      users. The method ignores `value` and `per_item`.
    - `pooled` adds up the measures of all groups under the one label `EVERYTHING`.
    - `suitable_for` is the schema for which `check_suitable` has passed, or None.

    Raises: `InvalidParameter` for limits out of range, column names that are no text, and labels without an `item`.

    >>> Aggregation(user="user_id", item="word", contributions=0)
    Traceback (most recent call last):
        ...
    setwise.errors.InvalidParameter: contributions must lie between 1 and 1,099,511,627,776, not 0
    """

    user: str
    item: str | Group | tuple[str | Group, ...] | None = None
    value: str | None = None
    contributions: int | None = None
    per_item: int = 1
    where: Filter | None = None
    domain: tuple[Label, ...] | None = None
    null_item: Label | None = None
    measures: tuple[Measure, ...] = ()
    pooled: bool = False
    suitable_for: Schema | None = field(default=None, init=False, compare=False, repr=False)
    """The schema against which `check_suitable` has checked this aggregation; None before the first check.

    A copy made with `replace` begins with None, because its columns may be others.
    """

    def __post_init__(self) -> None:
        if self.contributions is not None:
            positive_integer("contributions", self.contributions)
        positive_integer("per_item", self.per_item)
        grouped = [group.column for group in self.groups]
        for name, columns in (("user", [self.user]), ("item", grouped), ("value", [self.value])):
            for column in columns:
                if not isinstance(column, str | None) or column == "" or (column is None and name == "user"):
                    raise InvalidParameter(f"{name} must be the name of a column, not {column!r}")
        if self.domain is not None:
            set_fields(self, domain=distinct_labels(self.domain))
        if self.null_item is not None:
            distinct_labels([self.null_item])
        if self.item is None and (self.domain is not None or self.null_item is not None):
            raise InvalidParameter("a domain or a label for missing items needs an item column: give item")

    def for_discovery(self) -> "Aggregation":
        """Return the aggregation by which the private search for groups finds labels that occur in the table.

        The search (partition selection) is for labels that are not public. The result has the same user, group columns
        and filter as this aggregation, but no measures (integers that users add) and no domain (public labels). A user
        counts in at most 200 (`MOST_GROUPS`) groups, and at most once in each.
        """
        return replace(self, contributions=MOST_GROUPS, per_item=1, measures=(), domain=None)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The columns by which rows are grouped, perhaps in ranges such as months; empty if all rows form one group."""
        if self.item is None:
            return ()
        items = self.item if isinstance(self.item, tuple) else (self.item,)
        return tuple(item if isinstance(item, Group) else Group(item) for item in items)

    @property
    def label_width(self) -> int:
        """The number of columns that hold a group's labels in the result of this aggregation.

        It is the number of group columns in `item`. It is 1 if all rows form one group (`item` is None), or if the
        measures of all groups are added up (`pooled`).
        """
        return 1 if self.pooled else max(1, len(self.groups))

    @property
    def needs_salt(self) -> bool:
        """Whether the SQL needs a secret salt, a random number that decides which groups or values of a user count.

        True if each user is counted only in some of their groups, or if a measure (an integer that each user adds to a
        group) counts only some of the user's distinct values.
        """
        return self.items_kept_per_user is not None or any(measure.distinct for measure in self.measures)

    @property
    def items_kept_per_user(self) -> int | None:
        """The most groups (items) in which a user counts; None means no limit.

        Which of a user's groups count is decided at random.
        """
        return None if self.item is None else self.contributions


def check_suitable(aggregation: Aggregation, schema: Schema) -> None:
    """Raise unless the columns that `aggregation` names exist in `schema` and have types that can be counted exactly.

    Only types are checked, never values, so an error reveals nothing about the rows. A successful check is stored in
    `aggregation.suitable_for`, so that further checks with the same `schema` take no time.

    Raises: `UnknownColumn` for a missing column, `UnsuitableTable` for a column of the wrong type, `InvalidParameter`
    for labels whose type differs from their column's.
    """
    if aggregation.suitable_for == schema:
        return
    check_user(schema.column(aggregation.user))
    for place, group in enumerate(aggregation.groups):
        check_item(group.labels(schema), aggregation, place)
    if aggregation.value is not None:
        check_value(schema.column(aggregation.value))
    for measure in aggregation.measures:
        if measure.column is not None:
            column = schema.column(measure.column)
            if measure.distinct is not None or measure.unique:
                check_distinct(column)
            elif not measure.counted:
                check_measured(column)
    if aggregation.where is not None:
        aggregation.where.check(schema)
    # The planner, the charge and the engine all call this function; only the first call checks.
    set_fields(aggregation, suitable_for=schema)


def with_filter(aggregation: Aggregation, where: Filter | None, schema: Schema) -> Aggregation:
    """Return a copy of `aggregation` with the filter `where` in place of its own; None means no filter.

    The copy is checked against `schema`, the columns of the table. If `aggregation` itself has passed `check_suitable`
    for this schema, only a new filter is checked, because nothing else has changed.

    Raises: `UnknownColumn`, `UnsuitableTable` or `InvalidParameter` if the copy does not suit the columns.
    """
    filtered = replace(aggregation, where=where)
    if where is not None and aggregation.suitable_for == schema:
        where.check(schema)
        set_fields(filtered, suitable_for=schema)
    check_suitable(filtered, schema)
    return filtered


def columns_read(aggregation: Aggregation) -> set[str]:
    """Return the names of all columns that `aggregation` reads: for the user, the groups, the values and the filter."""
    measured = [measure.column for measure in aggregation.measures]
    filtered = () if aggregation.where is None else aggregation.where.columns()
    grouped = [group.column for group in aggregation.groups]
    named = {aggregation.user, *grouped, aggregation.value, *measured, *(column.name for column in filtered)}
    return {name for name in named if name is not None}


def check_user(column: Column) -> None:
    """Raise `UnsuitableTable` unless the values of `column` can identify users.

    Equal values must mean the same user. Floating-point numbers, and values of a SQL type that Setwise does not know,
    do not ensure this, so columns of these types are refused.
    """
    match column.kind:
        case Kind.FLOAT:
            raise UnsuitableTable(
                f"column {column.name!r} cannot tell users apart, because it holds floating-point numbers: "
                f"convert it to integers or text"
            )
        case Kind.OTHER:
            raise UnsuitableTable(
                f"column {column.name!r} cannot tell users apart, because its type is {column.native or 'unknown'}: "
                f"convert it to integers or text"
            )
        case (
            Kind.TEXT | Kind.INTEGER | Kind.DECIMAL | Kind.BOOLEAN | Kind.DATE | Kind.TIMESTAMP | Kind.INSTANT
        ) | Kind.IDENTIFIER:
            return
        case _:
            assert_never(column.kind)


_ROUNDING = "group by its integers or bins: in SQL, GROUP BY CAST(ROUND({0}) AS INT64) or FLOOR({0} / 0.5) * 0.5"
_PERIODS = "group by its periods: in SQL, GROUP BY DATE_TRUNC('day', {0}) or TO_CHAR({0}, 'YYYY-MM-DD HH24:MI')"
_GROUPING = {
    Kind.FLOAT: _ROUNDING,
    Kind.DECIMAL: _ROUNDING,
    Kind.TIMESTAMP: _PERIODS,
    Kind.INSTANT: _PERIODS,
}
"""What to group by in place of a column of a kind that has no labels; {0} stands for the name of the column."""


def check_item(column: Column, aggregation: Aggregation, place: int = 0) -> None:
    """Raise if rows cannot be grouped by `column`, which must hold text, integers, dates or booleans.

    `aggregation` may state labels: public labels, or a label for null. With several group columns a label is a tuple,
    and `place` is the position of `column` among them. The part of each stated label at this position must have the
    type of the column's labels.

    Raises: `UnsuitableTable` for a column of another type, `InvalidParameter` for a label of another type.
    """
    match column.kind:
        # values of these types become the same labels on all engines
        case Kind.TEXT | Kind.INTEGER | Kind.DATE | Kind.BOOLEAN:
            _check_labels(column, aggregation, place)
        case Kind.FLOAT | Kind.DECIMAL | Kind.TIMESTAMP | Kind.INSTANT | Kind.IDENTIFIER | Kind.OTHER:
            raise UnsuitableTable(
                f"column {column.name!r} cannot be grouped by, because it holds {_type_name(column)} values: "
                + _GROUPING.get(column.kind, "convert it to text, integers or dates").format(column.name)
            ).needing(_integers_from_text(column))
        case _:
            assert_never(column.kind)


def check_value(column: Column) -> None:
    """Raise `UnsuitableTable` unless `column` holds integers, so that its sums are exact integers."""
    if column.kind is Kind.TEXT:
        raise UnsuitableTable(
            f"column {column.name!r} cannot be summed, because it holds text: convert it to integers, or, if it is of "
            f"a file, give its type, as in --type {column.name}=integer"
        ).needing({column.name: Kind.INTEGER})
    if column.kind is not Kind.INTEGER:
        raise UnsuitableTable(
            f"column {column.name!r} cannot be summed exactly, because it holds {_type_name(column)} values: "
            f"round or scale it to an integer column"
        ).needing(_integers_from_text(column))


def check_measured(column: Column) -> None:
    """Raise `UnsuitableTable` unless `column`, to be summed or averaged, holds integers, decimals or floats."""
    if column.kind is Kind.TEXT:
        raise UnsuitableTable(
            f"column {column.name!r} holds text, not numbers: convert it, or, if it is of a file, give its type, "
            f"as in --type {column.name}=integer or {column.name}=float; for yes and no, --type {column.name}=boolean "
            f"and AVG(CASE WHEN {column.name} THEN 1 ELSE 0 END)"
        ).needing({column.name: Kind.FLOAT})
    if column.kind not in NUMBER_KINDS:
        instead = f": count users where {column.name} = TRUE" if column.kind is Kind.BOOLEAN else ""
        instead = long_integer_advice(column) or instead
        needed = {column.name: Kind.INTEGER} if column.has_long_integers else {}
        message = f"column {column.name!r} holds {_type_name(column)} values, not numbers{instead}"
        raise UnsuitableTable(message).needing(needed)


def long_integer_advice(column: Column) -> str:
    """Return the end of a refusal that says how integers of 128 bits are read; "" for a column of another type."""
    if not column.has_long_integers:
        return ""
    return f": --type {column.name}=integer reads those that fit 64 bits, and the others as null"


def check_distinct(column: Column) -> None:
    """Raise `UnsuitableTable` if two engines could disagree on how many distinct values `column` has.

    Engines disagree on which floating-point numbers are equal, and may disagree on a SQL type that Setwise does not
    know.
    """
    if column.kind in (Kind.FLOAT, Kind.OTHER):
        values = "floating-point numbers" if column.kind is Kind.FLOAT else f"{column.native or 'unknown'} values"
        raise UnsuitableTable(
            f"distinct values of column {column.name!r} cannot be counted, because it holds {values}: convert it to "
            "integers, decimals or text"
        ).needing(_integers_from_text(column))


def _integers_from_text(column: Column) -> dict[str, str]:
    """Return {name of `column`: integer} if the column holds text cells that are read as floats; otherwise {}.

    The result goes into an error message, which suggests to read the cells as integers instead: integers can be grouped
    by, counted and summed exactly.
    """
    return {column.name: Kind.INTEGER} if column.kind is Kind.FLOAT and column.from_text else {}


def label_kind(column: Column) -> type[str] | type[int]:
    """Return the Python type of the labels of groups by `column`: int for an integer column, otherwise str."""
    return int if column.kind is Kind.INTEGER else str


def _check_labels(column: Column, aggregation: Aggregation, place: int) -> None:
    """Raise `InvalidParameter` if a label that `aggregation` states has another type than the labels of `column`.

    Stated labels are the public labels (`domain`) and the label for null (`null_item`). `place` is the position of
    `column` among the group columns. If a label is a tuple, only its part at this position is checked.
    """
    # `distinct_labels` has checked that all labels of the domain have one type, so the first one is enough.
    labels: list[tuple[str, Cell]] = [("the domain", cell_of(label, place)) for label in (aggregation.domain or ())[:1]]
    if aggregation.null_item is not None:
        labels.append(("the label of missing items", cell_of(aggregation.null_item, place)))
    for source, label in labels:
        if not isinstance(label, label_kind(column)):
            wanted = "whole numbers" if label_kind(column) is int else "text"
            raise InvalidParameter(f"column {column.name!r} has labels that are {wanted}, but {source} has {label!r}")


def _type_name(column: Column) -> str:
    """Return the name of the type of `column` for an error message: its kind, such as text.

    If the kind says too little, because Setwise knows no kind for the type or only that its values are identifiers, the
    name is that of the SQL type.
    """
    # the kinds OTHER and IDENTIFIER say too little
    return f"{column.native or 'unknown'}" if column.kind in (Kind.OTHER, Kind.IDENTIFIER) else column.kind


def has_two_forms(aggregation: Aggregation) -> bool:
    """Return whether two different SQL statements can compute `aggregation`, so that an engine can take the faster one.

    The first groups rows by user and group, and can compute every aggregation. The second numbers the rows of each user
    by window functions, without grouping them (see `StatementBuilder.counts_of_rows`). The result is False if only the
    first can be used.
    """
    # The second statement cannot sum a column, see all groups of a user, or add several integers to a group.
    pairs_needed = aggregation.value is not None or any(
        measure.spans_groups or measure.is_spread for measure in aggregation.measures
    )
    return aggregation.items_kept_per_user is not None and not pairs_needed
