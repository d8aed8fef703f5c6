"""Reading the rows of a live series: its table, the days that an update reads, and the pairs of user and group.

A live series is a set of noisy user counts that is released period by period.
"""

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Protocol

from setwise.analytics.bins import ConsecutiveTime, Group, TimeUnit, group_of
from setwise.analytics.engines.aggregation import Aggregation, check_suitable
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.filter.expression import Conjunction, Filter
from setwise.analytics.filter.parser import parse_filter
from setwise.analytics.schema import Column, Kind, Schema
from setwise.errors import InvalidParameter
from setwise.live.terms import SeriesTerms, Unit
from setwise.mechanisms.labels import Label

if TYPE_CHECKING:
    import pyarrow as pa

    from setwise.analytics.engines.base import Engine


class UserGroups(Protocol):
    """Protocol of the table that a live series (noisy user counts, released period by period) reads.

    It is an engine, or a wrapper that borrows an engine from a pool.
    """

    def describe(self) -> Schema:
        """Return the columns of the table, each with its kind (text, integer, date, ...)."""
        ...

    def user_groups(self, aggregation: Aggregation) -> "pa.Table":
        """Return a table with one row for each user, group and day that occur together in the table's rows.

        `aggregation` names the columns of user, group and day, and the filter of rows. The user is in the column "u" of
        the result, the group in "g0" and the day in "g1".
        """
        ...


def public_cells(labels: Sequence[Label]) -> tuple[str | int, ...]:
    """Return the public groups in `labels` whose key is a single value, and drop those whose key is a tuple.

    A live series (noisy user counts of periods) groups by one column, so all its group keys are single values and
    nothing is dropped; this function only narrows the type for the type checker.
    """
    return tuple(label for label in labels if not isinstance(label, tuple))


def open_table(source: object, options: Mapping[str, Any], engine: str | None = None) -> "Engine":
    """Return an engine on the table `source` of a live series, opened with the `options` of `setwise.open`.

    A live series is a set of noisy user counts that is released period by period. Its options were recorded without
    passwords. If `engine` is not None, it is the server's address with its password, and replaces the recorded address.
    """
    words = dict(options)
    address = engine or words.pop("engine", "duckdb")
    words.pop("engine", None)
    types = {name: Kind(kind) for name, kind in (words.pop("types", None) or {}).items()}
    table, memory = words.pop("table", None), words.pop("memory", None)
    columns = words.pop("columns", None)
    csv = CsvOptions(**words, columns=None if columns is None else tuple(columns))
    return open_engine(source, address, table=table, types=types, csv=csv, memory=memory)


def first_day_read(terms: SeriesTerms, first: int) -> date:
    """Return the first day whose rows are read by an update that releases the periods from number `first` on.

    Periods are counted from 0. The day lies `terms.late_days` days before period `first`, so that rows which arrived
    late are read too, but never before the start of the series.
    """
    return max(terms.start, terms.calendar.begins(first) - timedelta(days=terms.late_days))


def aggregation_of(terms: SeriesTerms, schema: Schema, first: int, until: int) -> Aggregation:
    """Return the aggregation by which an engine returns every (user, group, day) of the periods `first` to `until` - 1.

    Periods are counted from 0. The `terms.late_days` days before period `first` are included, for rows that arrived
    late. `terms` say what the live series (noisy user counts of periods) counts, and `schema` has the columns of the
    table. Raises an error if the columns or the filter do not fit the schema.
    """
    calendar = terms.calendar
    low = first_day_read(terms, first)
    days = Group(terms.at, ConsecutiveTime(TimeUnit.DAY))
    # Checked before the condition on time, whose refusal of a column without times would not say what `at` needs.
    check_suitable(Aggregation(user=terms.user, item=(group_of(terms.item, schema), days)), schema)
    at = '"' + terms.at.replace('"', '""') + '"'
    row_filter = parse_filter(f"{at} >= '{low.isoformat()}' AND {at} < '{calendar.begins(until).isoformat()}'", schema)
    if terms.where is not None:
        # The user's filter is parsed by itself. Joined as text, a closing parenthesis in it could escape the condition
        # on time and read rows of other periods.
        user_filter = parse_filter(terms.where, schema)
        row_filter = Filter(
            f"{row_filter.text} AND ({user_filter.text})", Conjunction((row_filter.expression, user_filter.expression))
        )
    aggregation = Aggregation(
        user=terms.user,
        item=(group_of(terms.item, schema), days),
        where=row_filter,
    )
    check_suitable(aggregation, schema)
    return aggregation


def read_candidates(terms: SeriesTerms, reader: UserGroups, first: int, until: int) -> "pa.Table":
    """Return the pairs of user and group that an update of the periods `first` to `until` - 1 may have to count.

    `reader` reads the table. The result is an Arrow table with one row for each pair on each day, and the columns

    - u: the user as text; if `terms.unit` is "user,day", the user and the day, because each day counts by itself.
    - g: the group.
    - day: the day of the event.
    - period: the number of the period in which the pair would be counted. A row of an earlier period that arrived late
      has `first`, because the earlier period was released already.

    If `terms` list public groups, the table has only these groups.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    schema = reader.describe()
    _check_user_type(terms, schema)
    pairs = reader.user_groups(aggregation_of(terms, schema, first, until))
    days = pairs.column("g1").cast(pa.string())
    calendar = terms.calendar
    distinct = pc.unique(days).to_pylist()
    # The earlier period of an event that arrived late was released already.
    places = {day: max(first, calendar.place_of(date.fromisoformat(day))) for day in distinct}
    at = pc.index_in(days, pa.array(list(places), pa.string()))
    periods = pa.array(list(places.values()), pa.int32()).take(pa.chunked_array(at).combine_chunks())
    users = pairs.column("u").cast(pa.string())
    if terms.unit == Unit.USER_DAY:
        users = pc.binary_join_element_wise(users, days, "\n")
    table = pa.table({"u": users, "g": pairs.column("g0"), "day": days, "period": periods})
    if terms.domain is not None:
        table = table.filter(pc.is_in(table.column("g"), pa.array(public_cells(terms.domain), table.column("g").type)))
    return table


def user_type_of(column: Column) -> str:
    """Return a text for the type of a user `column`, such as "integer" or "decimal with 2 digits after the point".

    If two columns have the same text, every user is written alike in both. The private state of a live series (counted
    users and noise) stores users as text. If the type of the column changed later, the same user could be written
    differently and be counted twice. So the result is recorded when a series is opened, and compared later.
    """
    # So decimals need the number of digits after the point, and times the engine's own name of the type, which tells
    # how fine they are.
    match column.kind:
        case Kind.DECIMAL:
            return f"{column.kind} with {column.scale} digits after the point"
        case Kind.TIMESTAMP | Kind.INSTANT:
            return f"{column.kind} ({column.native})"
        case _:
            return str(column.kind)


def _check_user_type(terms: SeriesTerms, schema: Schema) -> None:
    """Raise `InvalidParameter` if the user column in `schema` has another type than the series' `terms` recorded."""
    # The private state stores users as text. In another type a user may have another text, and would be counted twice,
    # which the series' charge does not cover.
    present = user_type_of(schema.column(terms.user))
    if terms.user_type not in (None, present):
        raise InvalidParameter(
            f"the column {terms.user!r} was of the type {terms.user_type} when the series was opened and is {present} "
            "now, so that users could be counted twice: give the column its earlier type"
        )
