"""A query about a table as one validated record: groups, statistics, bounds, the filter, and the k of a top k.

The budget is stated beside the query (`budget`), and the table and its user column belong to the session. The class
methods `top_k`, `histogram`, `count`, `sum`, `mean` and `quantile` build common queries; Python, the command line and
JSON use their parameters as option names.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from inspect import Parameter, Signature
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, get_type_hints

from setwise.analytics.measure import Measure
from setwise.analytics.statistics import STATISTICS, Count, Mean, Quantile, Statistic, Sum
from setwise.analytics.statistics.parameters import Number, build, check_column, parameters_of, plain, value_text
from setwise.analytics.statistics.quantile import Shares, shares_of
from setwise.analytics.statistics.statistic import AUTO
from setwise.errors import InvalidParameter
from setwise.mechanisms.labels import Cell, Label, distinct_labels
from setwise.mechanisms.parameters import positive_integer
from setwise.mechanisms.planning.request import Bounds
from setwise.records import set_fields

__all__ = [
    "AUTO", "EVERYTHING", "FEWEST_SEARCHED", "LARGEST_K", "SHAPES", "STATISTICS", "Columns", "Contributions", "Count",
    "Domain", "Grouping", "Mean", "Number", "Quantile", "Query", "Reach", "Shares", "Statistic", "Sum",
    "parameters_of", "statistic_name",
]  # fmt: skip

LARGEST_K = 100_000
"""The largest `k` of a top-k query."""

FEWEST_SEARCHED = 5
"""From this many public groups on, the most groups in which one user counts is worth a search.

Without a bound, a user is taken to be in every group. Of 21 occupations, of which every user has one, intervals were
five times as wide as with the bound that a tenth of epsilon finds.
"""

EVERYTHING = "all"
"""The label of the only group of a query without group columns."""

Domain: TypeAlias = str | Path | Iterable[Label]
"""Public labels: a list of labels, or a file as `read_domain` takes it."""

Columns: TypeAlias = str | Sequence[str]
"""The name of one column, or the names of several."""

Contributions: TypeAlias = int | Literal["auto"]
"""The most groups that one user counts towards, or "auto" to have that bound found privately."""


class Reach(TypedDict, total=False):
    """Keyword arguments that limit the groups of a query; None is the same as leaving the argument out.

    `contributions` is the most groups that one user counts towards, and `domain` lists the group keys if they are
    public.
    """

    contributions: Contributions | None
    domain: Domain | None


class Grouping(Reach, total=False):
    """Keyword arguments about the groups and rows of a query; None is the same as leaving the argument out.

    An item is the key of a group: a value of the column, or a combination of values of the columns, by which the query
    groups rows.
    - `contributions` is the most items that one user counts towards; "auto" finds it privately with a tenth of epsilon.
    - `domain` lists the items if they are public.
    - `where` is a condition on the rows to be read, as in ``country = 'NO' AND age >= 18``.
    - `null_item` is the label that replaces a null in a group column; if it is left out, rows with such a null are
      dropped.
    - `limit`: if the items are not public, only the `limit` items with the highest exact counts over all users can be
      in the answer. The engine returns just these items, so that a table with very many items is answered faster.
    """

    where: str | None
    null_item: Cell | None
    limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class Query:
    """A query: `statistics` of each group of rows with equal values in the column or columns `item`.

    - `item` is None if all rows form one group.
    - `k` asks for the k highest groups; None asks for all groups.
    - `contributions` is the most groups that a user counts towards; None sets no bound.
    - `domain` has the group keys if they are public; None if they are private.
    - `limit`: if the groups are private, only the `limit` groups with the highest exact counts over all users can be in
      the answer. None lets the mechanism that answers the query choose the number, or admit all groups.
    - `where` is a condition on the rows to be read, or None.
    - `null_item` is the label of rows whose item is null; None drops these rows.
    - `auto_contributions` is True if a private search finds the bound; `contributions` is then an upper limit for it.
    - `in_one_group` is True if the rows are known to put every user in at most one group, so that a bound of one group
      leaves nothing out. Only texts about the answer depend on it.

    Raises: `InvalidParameter` if the parameters contradict each other or are out of range.

    >>> Query.top_k(item="word", k=25).contributions is None
    True
    """

    statistics: tuple[Statistic, ...]
    item: str | tuple[str, ...] | None
    k: int | None
    contributions: int | None
    domain: tuple[Label, ...] | None
    limit: int | None
    where: str | None
    null_item: Cell | None
    auto_contributions: bool
    in_one_group: bool

    def __init__(
        self,
        *,
        statistics: tuple[Statistic, ...] = (Count(),),
        item: Columns | None = None,
        k: int | None = None,
        contributions: Contributions | None = None,
        domain: Domain | None = None,
        limit: int | None = None,
        where: str | None = None,
        null_item: Cell | None = None,
        auto_contributions: bool = False,
        in_one_group: bool = False,
    ) -> None:
        _check_statistics(statistics)
        if k is not None:
            positive_integer("k", k, LARGEST_K)
        if where is not None and (not isinstance(where, str) or not where.strip()):
            raise InvalidParameter(f"where must be text, or left out, not {value_text(where)}")
        if null_item is not None:
            distinct_labels([null_item])
        groups = () if item is None else _group_columns(item)
        if item is None and (auto_contributions or any(map(_is_given, (k, contributions, domain, limit, null_item)))):
            raise InvalidParameter("k, contributions, domain, limit and null_item are about items: give item")
        set_fields(
            self,
            statistics=statistics,
            item=groups[0] if len(groups) == 1 else groups or None,
            k=k,
            contributions=None if contributions == AUTO else contributions,
            domain=None if domain is None else _public_labels(domain, len(groups)),
            limit=limit,
            where=where,
            null_item=null_item,
            auto_contributions=auto_contributions or contributions == AUTO,
            in_one_group=in_one_group,
        )
        if groups:
            _ = self.bounds  # building the planner's record validates the bounds on what one user adds

    @classmethod
    def top_k(
        cls,
        *,
        item: Columns,
        k: int,
        per_item: int | None = None,
        value: str | None = None,
        **grouping: Unpack[Grouping],
    ) -> "Query":
        """Return the query for the `k` items with the most users, the most rows, or the highest sum.

        - `item` is the column whose values are the items, or several columns.
        - Items are ranked by users if `per_item` and `value` are None. With `per_item` alone they are ranked by rows,
          at most `per_item` of each user.
        - `value` is an integer column to rank by its sum. One user adds at least 0 and at most `per_item`, or 1 if
          `per_item` is None.
        - A service may later replace a `per_item` of None by the limit that its dataset states (see the method
          `filled`).
        - `grouping` are the keyword arguments of `Grouping`.
        """
        statistics = (_ranking_statistic(value, per_item),)
        return cls(item=item, k=k, statistics=statistics, **_check_grouping("top-k", grouping))

    @classmethod
    def histogram(
        cls, *, item: Columns, per_item: int | None = None, value: str | None = None, **grouping: Unpack[Grouping]
    ) -> "Query":
        """Return the query for the number of users of each value of `item`, or its number of rows, or its sum.

        - `item` is a column or several columns.
        - Users are counted if `per_item` and `value` are None. With `per_item` alone rows are counted, at most
          `per_item` of each user.
        - `value` is an integer column to be summed. One user adds at least 0 and at most `per_item`, or 1 if `per_item`
          is None.
        - A service may later replace a `per_item` of None by the limit that its dataset states (see the method
          `filled`).
        - `grouping` are the keyword arguments of `Grouping`.
        """
        statistics = (_ranking_statistic(value, per_item),)
        return cls(item=item, statistics=statistics, **_check_grouping("histogram", grouping))

    @classmethod
    def count(cls, *, per_user: int | None = None, where: str | None = None) -> "Query":
        """Return the query for the number of users or, with `per_user`, of rows: at most `per_user` of each user.

        `where` is a condition on the rows that are counted; None counts all rows.
        """
        if per_user is not None:
            positive_integer("per_user", per_user)
        return cls(statistics=(Count(most=per_user),), where=where)

    @classmethod
    def sum(
        cls,
        *,
        value: str,
        clip: int | None = None,
        low: Number | None = None,
        high: Number | None = None,
        step: Number | None = None,
        bounds: str | None = None,
        item: Columns | None = None,
        **grouping: Unpack[Grouping],
    ) -> "Query":
        """Return the query for the sum of the column `value`, where each user adds their own sum, clipped to bounds.

        - The bounds are `low` .. `high`, or 0 .. `clip`, or are found privately with `bounds="auto"`.
        - `step`: a user's own sum is rounded to a multiple of it. If it is None, the step is 1 for a column of
          integers, and a thousandth of the distance between the bounds for other columns.
        - `item` asks for one sum for each value of a column, or of several columns.
        - `grouping` are the keyword arguments of `Grouping`.
        Raises: `InvalidParameter` if no bounds are given, or both `clip` and `low` or `high`.
        """
        if clip is not None and (low is not None or high is not None):
            raise InvalidParameter("give either clip, or low and high")
        if clip is None and low is None and high is None and bounds is None:
            raise InvalidParameter("say how much one user may add: give clip, or low and high, or auto for bounds")
        if clip is not None:
            low, high = 0, positive_integer("clip", clip)
        statistic = Sum(column=value, low=low, high=high, step=step, bounds=bounds)
        return cls(item=item, statistics=(statistic,), **_check_grouping("sum", grouping))

    @classmethod
    def mean(
        cls,
        *,
        value: str,
        low: Number | None = None,
        high: Number | None = None,
        step: Number | None = None,
        per_user: int | None = None,
        bounds: str | None = None,
        item: Columns | None = None,
        **grouping: Unpack[Grouping],
    ) -> "Query":
        """Return the query for the mean over users of each user's own mean of the column `value`.

        - The users' means are clipped to `low` .. `high`, or to bounds that are found privately with `bounds="auto"`.
        - `step` is the rounding step: each user's mean is rounded to a multiple of it. None is a thousandth of the
          distance between the bounds.
        - `per_user` asks for the mean over rows instead. Each value is then clipped, and a user with more than
          `per_user` rows has the weight of `per_user` rows.
        - `item` asks for one mean for each value of a column, or of several columns.
        - `grouping` are the keyword arguments of `Grouping`.
        """
        mean = Mean(column=value, low=low, high=high, step=step, per_user=per_user, bounds=bounds)
        return cls(item=item, statistics=(mean,), **_check_grouping("mean", grouping))

    @classmethod
    def quantile(
        cls,
        *,
        value: str,
        low: Number | None = None,
        high: Number | None = None,
        at: Shares = 0.5,
        step: Number | None = None,
        bounds: str | None = None,
        item: Columns | None = None,
        **grouping: Unpack[Grouping],
    ) -> "Query":
        """Return the query for quantiles of the column `value` at the levels `at`, such as 0.5 for the median.

        All users have equal weight; the weight of a user is divided evenly among the user's rows.
        - A quantile is selected from low, low + step, .., high. With `bounds="auto"` a private search finds `low` and
          `high` when the query runs. A `step` of None is chosen when the query is planned, from the kind of the column.
        - `item` is a column, or several, to group rows by, for quantiles of each group; None: of all rows.
        - `grouping` are the keyword arguments of `Grouping`.

        >>> [str(each.at) for each in Query.quantile(value="age", low=0, high=99, at=[0.25, 0.5]).statistics]
        ['1/4', '1/2']
        """
        statistics = tuple(
            Quantile(column=value, low=low, high=high, at=share, step=step, bounds=bounds) for share in shares_of(at)
        )
        return cls(item=item, statistics=statistics, **_check_grouping("quantile", grouping))

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the query's group columns, with their bins ("age by 10"); empty if all rows form one group."""
        if self.item is None:
            return ()
        return (self.item,) if isinstance(self.item, str) else self.item

    @property
    def values(self) -> tuple[str, ...]:
        """The names of the columns that the query's statistics are computed from, without duplicates."""
        return tuple(dict.fromkeys(each.column for each in self.statistics if each.column is not None))

    @property
    def columns(self) -> tuple[str, ...]:
        """The group columns (or bins of columns) and the columns that the statistics read."""
        return (*self.groups, *self.values)

    @property
    def counted(self) -> Statistic | None:
        """The query's only statistic if groups can be ranked by it; None if they cannot, or if there are several.

        Groups can be ranked by a statistic to which each user adds a whole number of 0 or more, such as a count of
        rows.
        """
        only = self.statistics[0]
        return only if len(self.statistics) == 1 and only.per_item is not None else None

    @property
    def per_item(self) -> int:
        """The most that one user adds to the number by which groups are ranked; 1 if groups are ranked by users."""
        return 1 if self.counted is None else self.counted.per_item or 1

    @property
    def measures(self) -> tuple[Measure, ...]:
        """What the engine computes for the statistics: the whole numbers that each user adds to a group, in order."""
        return tuple(chain(*(statistic.measures() for statistic in self.statistics)))

    @property
    def bounds(self) -> Bounds:
        """What the planner must know of the query: to how many groups a user adds, how much, and which groups it wants.

        A query without groups is planned like a histogram with one public group, which holds all rows.
        """
        if self.item is None:
            return Bounds(contributions=1, per_item=self.per_item, domain=(EVERYTHING,))
        return Bounds(
            k=self.k, contributions=self.contributions, per_item=self.per_item, domain=self.domain, limit=self.limit
        )

    @property
    def kind(self) -> str:
        """The name of the query's shape, which tells `from_dict` how to read the other parameters.

        The name is "top-k", "histogram", the kind of the only statistic (such as "mean"), or else "query".
        """
        if self.counted is not None and self.item is not None:
            return "histogram" if self.k is None else "top-k"
        first = self.statistics[0]
        alike = {statistic.alike() for statistic in self.statistics}
        return first.kind if self.k is None and len(alike) == 1 and first.is_plain else "query"

    def filled(self, *, contributions: int | None, per_item: int | None) -> "Query":
        """Return the query with bounds of its dataset filled in where the query itself states no bound.

        A service states such bounds for a dataset. `contributions` is the most groups in which one user counts, and
        `per_item` the most that one user adds to a group; None if the dataset has no such bound. A `per_item` above 1
        turns a count of users into a count of rows. A query without groups is returned unchanged.
        """
        if self.item is None:
            return self
        return replace(
            self,
            contributions=self.contributions or contributions,
            statistics=tuple(statistic.with_dataset_bound(per_item) for statistic in self.statistics),
        )

    def with_declared_rows(self, most: int | None) -> "Query":
        """Return the query with `most` as the limit on a user's rows in statistics that need a limit and state none.

        These are variances, standard deviations and numbers of distinct values. The data holder declares `most` for the
        dataset, so that no budget is spent on a private search for the limit; None if nothing is declared.
        """
        return replace(self, statistics=tuple(statistic.with_declared_rows(most) for statistic in self.statistics))

    def to_dict(self) -> dict[str, object]:
        """Return the query as a dictionary for JSON: `kind`, the name of its shape, and the parameters of that shape.

        Parameters that are None are left out.
        """
        words: dict[str, object] = {field.name: getattr(self, field.name) for field in fields(self)}
        del words["statistics"], words["auto_contributions"], words["in_one_group"]
        if self.auto_contributions:
            words["contributions"] = AUTO
        if self.counted is not None:
            words |= self.counted.ranking_words(grouped=self.item is not None)
        elif self.kind != "query":
            words |= self.statistics[0].words()
            words["value"] = words.pop("column")
            if len(self.statistics) > 1:  # several quantiles of one column
                words["at"] = [plain(getattr(statistic, "at")) for statistic in self.statistics]  # noqa: B009
        else:
            words["statistics"] = [{"statistic": statistic.kind, **statistic.words()} for statistic in self.statistics]
        return {"kind": self.kind} | {name: plain(value) for name, value in words.items() if value is not None}

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> "Query":
        """Return the query that `to_dict` wrote, or raise `InvalidParameter` if `values` do not state a query.

        >>> Query.from_dict({"kind": "count", "per_user": 5}) == Query.count(per_user=5)
        True
        """
        parameters = dict(values)
        kind = parameters.pop("kind", None)
        if not isinstance(kind, str) or kind not in SHAPES:
            raise InvalidParameter(f"the kind of a query must be one of {', '.join(SHAPES)}, not {kind!r}")
        query: Query = build(SHAPES[kind], f"a {kind} query", parameters)
        return query


def _is_given(parameter: object) -> bool:
    return parameter is not None


def _check_statistics(statistics: Sequence[Statistic]) -> None:
    """Raise `InvalidParameter` if there are no `statistics`, or if two of them have the same name in the answer."""
    if not statistics:
        raise InvalidParameter("a query needs at least one statistic")
    names = [statistic.name for statistic in statistics]
    for name in names:
        if names.count(name) > 1:
            raise InvalidParameter(f"two statistics are called {name!r}: ask for one of them")


def _group_columns(item: Columns) -> tuple[str, ...]:
    """Return the group columns that `item` names: one column, or several different ones.

    Raises: `InvalidParameter` for anything else.
    """
    columns = tuple(item) if isinstance(item, list | tuple) else (item,)
    for column in columns:
        check_column("item", column)
    if not columns or len(set(columns)) != len(columns):
        raise InvalidParameter("item must be one column, or several different ones")
    return columns


def _public_labels(domain: Domain, width: int) -> tuple[Label, ...]:
    """Return the public group keys (labels) that `domain` lists, each once, as a tuple.

    A label has `width` values, one for each group column.
    Raises: `InvalidParameter` if `domain` is no list of such labels.
    """
    if isinstance(domain, str | Path) or not isinstance(domain, Iterable):
        raise InvalidParameter("domain must be a list of labels")
    labels = distinct_labels(tuple(domain))
    if {len(label) if isinstance(label, tuple) else 1 for label in labels} != {width}:
        raise InvalidParameter(f"a label of the domain needs {width} value(s), one for each column")
    return labels


def _check_grouping(kind: str, grouping: Grouping) -> Grouping:
    """Return `grouping`, keyword arguments about the groups of a query, if all are keys of `Grouping`.

    `kind` names the shape of the query in the message.
    Raises: `InvalidParameter` for any other argument.
    """
    for word in grouping:
        if word not in Grouping.__annotations__:
            known = ", ".join(sorted(parameters_of(SHAPES[kind])))
            raise InvalidParameter(f"a {kind} query has no {word!r}; it has {known}")
    return grouping


def _general(
    *,
    statistics: Sequence[Mapping[str, object]],
    item: Columns | None = None,
    k: int | None = None,
    **grouping: Unpack[Grouping],
) -> Query:
    """Return the query for a list of statistics of each group of rows with equal values in `item`.

    - Each of `statistics` is a dictionary with the kind and the parameters of one statistic, such as {"statistic":
      "mean", "column": "age", "low": 0, "high": 100}.
    - `item` is a column or several columns; None if all rows form one group.
    - `k` asks for the k highest groups; None asks for all groups.
    - `grouping` are the keyword arguments of `Grouping`.
    Raises: `InvalidParameter` if `statistics` is not a list or names an unknown statistic.
    """
    if not isinstance(statistics, list | tuple):
        raise InvalidParameter("statistics must be a list")
    built: list[Statistic] = []
    for statistic in statistics:
        words = dict(statistic) if isinstance(statistic, Mapping) else {}
        name = words.pop("statistic", None)
        if not isinstance(name, str) or name not in STATISTICS:
            raise InvalidParameter(f"a statistic must be one of {', '.join(STATISTICS)}, not {value_text(name)}")
        built += STATISTICS[name].read(words)
    return Query(statistics=tuple(built), item=item, k=k, **_check_grouping("query", grouping))


def _shape_of(statistic: type[Statistic]) -> Callable[..., Query]:
    """Return a function that builds a query for one statistic of the class `statistic` from keyword arguments.

    The keyword arguments are the parameters of the statistic, with `value` in place of `column`, then `item` and the
    keys of `Grouping`. The signature of the returned function lists these arguments, so that messages and forms can
    name them.
    """
    parameters = {"value" if name == "column" else name: word for name, word in parameters_of(statistic).items()}
    grouped: dict[str, Any] = {"item": Columns | None, **get_type_hints(Grouping)}
    keywords = [word.replace(name=name, kind=word.KEYWORD_ONLY) for name, word in parameters.items()]
    keywords += [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind) for name, kind in grouped.items()
    ]

    def make(**words: Any) -> Query:  # noqa: ANN401 - checked by the statistic and the query
        """Return the query for one statistic, of the class `statistic` that was passed to the function around this one.

        `words` has the statistic's parameters by name, but its column under the name "value". It also has `item` and
        the parameters of `Grouping`, if the query has groups. For a mean, for example, `words` may be {"value": "age",
        "low": 0, "high": 100, "item": "city"}.
        """
        statistic_words = {name: words.pop(name) for name in parameters if name in words}
        statistic_words["column"] = statistic_words.pop("value")
        built = statistic.read({name: value for name, value in statistic_words.items() if value is not None})
        return Query(statistics=tuple(built), **words)

    make.__signature__ = Signature(keywords)  # type: ignore[attr-defined]
    make.__annotations__ = {word.name: word.annotation for word in keywords}
    return make


SHAPES: dict[str, Callable[..., Query]] = {
    "top-k": Query.top_k,
    "histogram": Query.histogram,
    **{kind: getattr(Query, kind, None) or _shape_of(statistic) for kind, statistic in STATISTICS.items()},
    "query": _general,
}
"""The functions that build a query from the parameters of its shape, by the name of the shape."""


def statistic_name(statistic: Statistic) -> str:
    """Return the name of the answer's column that holds `statistic`.

    >>> statistic_name(Count()), statistic_name(Quantile(column="age", low=0, high=99, at=0.9))
    ('users', 'quantile_0.9_age')
    """
    return statistic.name


def _ranking_statistic(value: str | None, per_item: int | None) -> Statistic:
    if per_item is not None:
        positive_integer("per_item", per_item)
    if value is None:
        return Count(most=per_item)
    return Sum(column=value) if per_item is None else Sum(column=value, low=0, high=per_item)
