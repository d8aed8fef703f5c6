"""Records about a SELECT that aggregates private rows: the rows that it reads, its private query, and its bounds."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date

from sqlglot import exp

from setwise.analytics.bins import ConsecutiveTime, Width, parse_group
from setwise.analytics.engines.joins import Join
from setwise.analytics.filter.expression import Operator
from setwise.analytics.query import FEWEST_SEARCHED, Contributions, Query, Statistic
from setwise.analytics.rows.derivation import Derivation
from setwise.analytics.rows.expression import AllOf, ColumnValue, Compared, ConstantValue, RowExpression
from setwise.analytics.schema import NUMBER_KINDS, TIME_KINDS, Kind, Schema
from setwise.analytics.sql.aggregates import DeclaredBounds
from setwise.analytics.sql.result import StatedBounds
from setwise.errors import BadRequest, InvalidParameter, UnknownColumn
from setwise.mechanisms.labels import NULL_TEXT, Label


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectSource:
    """The private rows that one SELECT reads, and how they are computed from tables.

    - `table` is the private table, and `joins` are the tables joined to it.
    - `derivation` are the steps, such as filters, that compute the rows from these tables.
    - `schema` has the columns of the resulting rows with their types, and `columns` has their names. Each is None if
      not known.
    - `unique_by` is a set of columns that together tell the rows of one user apart: two rows of a user always differ in
      at least one of the columns. If the SELECT groups by all of them, a user has at most one row in a group. The set
      is empty if every user has at most one row, and None if no such columns are known.
    """

    table: str
    joins: tuple[Join, ...] = ()
    derivation: Derivation = field(default_factory=Derivation)
    schema: Schema | None = None
    columns: tuple[str, ...] | None = None
    unique_by: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """One SELECT that aggregates private rows: its private `query`, which costs budget, and the rows read (`source`).

    - `name` is the name under which other SELECTs of the statement read the noisy answer of this one, as a table.
    - `says_nothing_of_contributions` is True if neither the statement nor the catalog states the most groups in which
      one user counts. The catalog is the data holder's file of declared tables.
    - `contributions_source` says where the most groups of one user are stated: "statement" or "catalog".
    - `cataloged` are the statistics whose clipping bounds come from the catalog.
    - `advice` has sentences about ratios that may mislead, and what to ask instead; "" if there are no such ratios.
    - `has_null_groups` is True if rows with a null in a group column form groups, as in SQL.
    - `nulls_left_out` has the SQL of the group columns that may be null, if rows with a null are in no group.
    - `times` says for each group column whether its keys are periods of time.
    - `arguments` has pairs (name of a column that was computed for an aggregate, SQL text from which it comes).
    """

    name: str
    query: Query
    source: SelectSource
    says_nothing_of_contributions: bool = False
    cataloged: tuple[Statistic, ...] = ()
    contributions_source: str = "statement"
    advice: str = ""
    nulls_left_out: tuple[str, ...] = ()
    has_null_groups: bool = False
    times: tuple[bool, ...] = ()
    arguments: tuple[tuple[str, str], ...] = field(default=(), compare=False)  # as written: the same query either way

    @property
    def fits_kinds(self) -> bool:
        """Whether the query's columns have types with which it can be answered; True if the types are not known.

        Sums, means, quantiles and variances need numbers, periods need times, and other groups need text, integers,
        dates or booleans. If a statement is refused, the error message proposes a corrected statement; this check keeps
        it from proposing one whose queries do not fit.
        """
        schema = self.source.schema
        names = {each.column for each in self.query.statistics if each.kind not in ("count", "distinct")}
        read = [] if schema is None else [each for each in schema.columns if each.name in names]
        periods = {
            group.column for group in map(parse_group, self.query.groups) if isinstance(group.bin, ConsecutiveTime)
        }
        times = [] if schema is None else [each for each in schema.columns if each.name in periods]
        plain = {group.column for group in map(parse_group, self.query.groups) if group.bin is None}
        keys = [] if schema is None else [each for each in schema.columns if each.name in plain]
        if any(each.kind not in (Kind.TEXT, Kind.INTEGER, Kind.DATE, Kind.BOOLEAN) for each in keys):
            return False
        return all(each.kind in NUMBER_KINDS for each in read) and all(each.kind in TIME_KINDS for each in times)

    def has_fractions(self, place: int) -> bool:
        """Return whether the keys of the group column with index `place` must be converted from text to floats.

        The SQL that runs over the noisy answer needs numbers as keys. But the answer has text if the keys are the
        starts of ranges (bins) whose width is not an integer, such as 12.5; then the result is True. It is False if the
        SELECT gives null keys a label, such as 'none', because the column then has text as well.
        """
        bins = parse_group(self.query.groups[place]).bin
        return isinstance(bins, Width) and bins.width.denominator != 1 and self.query.null_item in (None, NULL_TEXT)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table of released (noisy) rows: g0, g1, .. for group keys, and four for each statistic.

        The columns of the first statistic are s0 (its value), s0_lower and s0_upper (the ends of its confidence
        interval) and s0_unreliable (whether noise may dominate the value).
        """
        groups = [f"g{place}" for place in range(len(self.query.groups))]
        statistics = [f"s{place}{end}" for place in range(len(self.query.statistics)) for end in ENDS]
        return (*groups, *statistics)


def unique_after(unique_by: frozenset[str] | None, condition: RowExpression) -> frozenset[str] | None:
    """Return columns that tell one user's rows apart after a filter by `condition`; None if none are known.

    Columns tell rows apart if two rows of a user always differ in at least one of them. `unique_by` are such columns
    before the filter (None: not known). With the condition x = 1, the column x has the same value in all rows that are
    kept, so the other columns must tell them apart. Therefore x is left out of the result.
    """
    if unique_by is None:
        return None
    parts = condition.conditions if isinstance(condition, AllOf) else (condition,)
    fixed = set()
    for part in parts:
        if isinstance(part, Compared) and part.operator is Operator.EQUAL:
            sides = (part.left, part.right)
            if any(isinstance(side, ConstantValue) for side in sides):
                fixed |= {side.name for side in sides if isinstance(side, ColumnValue)}
    return unique_by - fixed


CORE_PREFIX = "core_"
"""The beginning of the names of tables of released rows; underscores are added if the statement uses such a name."""

ENDS = ("", "_lower", "_upper", "_unreliable")
"""The suffixes of a statistic's four columns: its value, the lower and the upper end of its interval, and whether noise
may dominate the value."""


@dataclass(slots=True)
class Problems:
    """The errors in a statement, collected so that one refusal can name them all.

    - `messages` has the error messages.
    - `needed_types` maps names of text columns to types, such as "float". Some of the errors would not occur if these
      columns were read as these types, as the columns of a CSV file can be.
    """

    messages: list[str] = field(default_factory=list)
    needed_types: dict[str, str] = field(default_factory=dict)

    def add(self, error: BadRequest) -> None:
        """Record the message of `error`, and the types of columns that would avoid the error.

        A message is recorded once. Messages that say of the same construct that it is not supported, such as "ROLLUP is
        not supported in SQL here: ..", count as the same message, whatever follows the colon.
        """
        construct, unsupported, _ = str(error).partition(" is not supported in SQL here")
        start = construct + unsupported if unsupported else str(error)
        if not any(message.startswith(start) if unsupported else message == start for message in self.messages):
            self.messages.append(str(error))
        self.needed_types.update(error.needed_types)

    @contextmanager
    def collect(self, node: exp.Expr | None = None) -> Iterator[None]:
        """Return a context manager that records an error raised inside its block, and then continues after the block.

        Only errors in the statement (`InvalidParameter`, `UnknownColumn`) are recorded; others are raised. `node` is
        the syntax node that the block converts. After an error its metadata has "refused": True. None marks no node.
        """
        try:
            yield
        except (InvalidParameter, UnknownColumn) as error:
            self.add(error)
            if node is not None:
                node.meta.setdefault("refused", True)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementSettings:
    """What is needed to convert a statement, beside its SQL text: facts from the caller or from the catalog.

    The catalog is the data holder's file of declared tables.
    - `user` is the user column, and `today` the value of CURRENT_DATE.
    - `contributions` is the most groups in which one user counts; None if it is not stated.
    - `contributions_source` says where `contributions` is stated: "statement" or "catalog".
    - `domain` are the public group keys that the caller states, or None.
    - `domains` maps columns to the public group keys that the catalog declares for them.
    - `declared` has the catalog's clipping bounds.
    """

    user: str
    contributions: Contributions | None = None
    contributions_source: str = "statement"
    domain: tuple[Label, ...] | None = None
    declared: DeclaredBounds = field(default_factory=DeclaredBounds)
    domains: dict[str, tuple[Label, ...]] = field(default_factory=dict)
    today: date = date(1970, 1, 1)


LARGEST_TOP = 100
"""The largest LIMIT, with its OFFSET added, that becomes a private top k; a larger one cuts the released groups.

Business tools write LIMIT 1000 or LIMIT 50000 to mean all groups. Bounds are found for as many groups as are asked for:
of 31 days in a top 50,000, 2 of each user were kept, and a day of 930 rows was answered as 263.
"""


def with_contributions(query: Query) -> Query:
    """Return `query`, with `contributions="auto"` added if the query needs a contribution bound but does not state one.

    The contribution bound is the most groups in which one user counts; "auto" leaves the bound to a private search. A
    query with private groups needs the bound, and one with `FEWEST_SEARCHED` public groups or more is answered with
    less noise if it has one. The only exception is a top k by one count or sum, whose mechanism works without the
    bound.
    """
    if query.item is None or query.contributions is not None or query.auto_contributions:
        return query
    if query.domain is not None and len(query.domain) < FEWEST_SEARCHED:
        return query
    if query.k is not None and query.counted is not None:
        return query  # a top-k alone needs no bound
    return replace(query, auto_contributions=True)


def with_null_groups(query: Query) -> Query:
    """Return `query` with the label `NULL_TEXT` for rows with a null group column, so that they form groups, as in SQL.

    Answers show this label as NULL. Without a label the rows would be in no group.
    """
    return replace(query, null_item=NULL_TEXT)


def stated_bounds(core: Core, found_bounds: Mapping[str, object]) -> list[StatedBounds]:
    """Return the bounds with which `core`, a SELECT over private rows, was answered, and where each bound came from.

    The result has the clipping bounds of its statistics, the limits on a user's rows that a private search found, and
    the most groups in which one user counts. The bounds that a private search found are in `found_bounds`, by the name
    of a statistic or column: {"mean_age": [0.0, 90.0], "contributions": 5} gives the entries {"of": "mean_age", "low":
    0.0, "high": 90.0, "source": "found"} and {"of": "contributions", "low": 1, "high": 5, "source": "found"}.
    """
    stated: list[StatedBounds] = []
    for statistic in core.query.statistics:
        counts_rows = statistic.kind in ("count", "distinct")
        is_found = statistic.finds_rows if counts_rows else statistic.finds_clip
        by_column = None if counts_rows else found_bounds.get(str(statistic.column))
        pair = found_bounds.get(statistic.name, by_column) if is_found else None
        source = "found" if is_found else "catalog" if statistic in core.cataloged else "statement"
        ends = pair if isinstance(pair, list) else statistic.clip_range()
        if ends is not None and statistic.name != "users":
            stated.append({"of": statistic.name, "low": ends[0], "high": ends[1], "source": source})
        rows = found_bounds.get(statistic.rows_name) if statistic.finds_rows and not counts_rows else None
        if isinstance(rows, list):
            stated.append({"of": statistic.rows_name, "low": rows[0], "high": rows[1], "source": "found"})
    bound = found_bounds.get("contributions") or core.query.contributions
    if core.query.item is not None and isinstance(bound, int):
        source = "found" if "contributions" in found_bounds else core.contributions_source
        stated.append({"of": "contributions", "low": 1, "high": bound, "source": source})
    return stated
