"""A question about a table as one record that cannot be wrong: groups, statistics of each, and bounds.

What may be spent on it is said beside it (`budget`); the table and its user column belong to the session. `top_k`,
`histogram`, `count`, `sum`, `mean` and `quantile` are the common shapes, and their parameters are the words of every
door: Python, the command line and JSON.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from inspect import Parameter, Signature
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, get_type_hints

from setwise.analytics.statistics import STATISTICS, Count, Mean, Quantile, Statistic, Sum
from setwise.analytics.statistics.quantile import Shares, shares_of
from setwise.analytics.statistics.statistic import (
    AUTO,
    Number,
    build,
    check_column,
    parameters_of,
    plain,
    shown,
)
from setwise.errors import InvalidParameter
from setwise.mechanisms.labels import Cell, Label, distinct_labels
from setwise.mechanisms.parameters import positive_integer
from setwise.mechanisms.planning.request import Bounds

__all__ = [
    "AUTO", "EVERYTHING", "LARGEST_K", "SHAPES", "STATISTICS", "Columns", "Contributions", "Count", "Domain",
    "Grouping", "Mean", "Number", "Quantile", "Query", "Reach", "Shares", "Statistic", "Sum", "parameters_of",
    "statistic_name",
]  # fmt: skip

LARGEST_K = 100_000

EVERYTHING = "all"
"""The label of the one group of a query without groups."""

Domain: TypeAlias = str | Path | Iterable[Label]
"""Public labels: a list of them, or a file as `read_domain` takes it."""

Columns: TypeAlias = str | Sequence[str]
"""One column, or several."""

Contributions: TypeAlias = int | Literal["auto"]
"""How many groups one user counts towards, or that it is to be found."""


class Reach(TypedDict, total=False):
    """How far one user reaches, and which groups there are when they are public."""

    contributions: Contributions | None
    domain: Domain | None


class Grouping(Reach, total=False):
    """The words for which groups there are and how far one user reaches.

    `contributions` bounds how many items one user counts towards; leave it out when any number is fine, or write "auto"
    to have it found within a tenth of epsilon. `domain` lists the items when they are public. `where` keeps rows, as in
    ``country = 'NO' AND age >= 18``. Rows without an item are dropped unless `null_item` names them. `limit` is among
    how many of the highest an unknown domain is searched.
    """

    where: str | None
    null_item: Cell | None
    limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question: `statistics` of each group of the column `item`, of several columns, or (None) of all rows together.

    With `k` the k highest groups, without it all of them. A user counts towards at most `contributions` groups; None
    leaves it open. `domain` holds the labels that may come back when they are public; None when the labels themselves
    are private, and then only the `limit` highest take part. Rows whose item is null are dropped unless `null_item`
    names them. `contributions` = "auto" leaves them to be found; a number beside `auto_contributions` is the most.

    >>> Query.top_k(item="word", k=25).contributions is None
    True
    """

    statistics: tuple[Statistic, ...] = (Count(),)
    item: str | tuple[str, ...] | None = None
    k: int | None = None
    contributions: int | None = None
    domain: tuple[Label, ...] | None = None
    limit: int | None = None
    where: str | None = None
    null_item: Cell | None = None
    auto_contributions: bool = False

    def __post_init__(self) -> None:
        given: Any = self.contributions
        if given == AUTO:
            object.__setattr__(self, "contributions", None)
            object.__setattr__(self, "auto_contributions", True)
        self._check_statistics()
        if self.k is not None:
            positive_integer("k", self.k, LARGEST_K)
        if self.where is not None and (not isinstance(self.where, str) or not self.where.strip()):
            raise InvalidParameter(f"where must be text, or left out, not {shown(self.where)}")
        if self.null_item is not None:
            distinct_labels([self.null_item])
        if self.item is not None:
            self._check_item()
        elif self.auto_contributions or (self.k, self.contributions, self.domain, self.limit, self.null_item) != (
            (None,) * 5
        ):
            raise InvalidParameter("k, contributions, domain, limit and null_item are about items: give item")
        if self.domain is not None:
            if isinstance(self.domain, str) or not isinstance(self.domain, Iterable):
                raise InvalidParameter("domain must be a list of labels")
            object.__setattr__(self, "domain", distinct_labels(tuple(self.domain)))
            wide = {len(label) if isinstance(label, tuple) else 1 for label in self.domain}
            if wide != {len(self.groups)}:
                raise InvalidParameter(f"a label of the domain needs {len(self.groups)} value(s), one for each column")
        if self.item is not None:
            self._check_bounds()

    def _check_bounds(self) -> None:
        """Raise `InvalidParameter` for bounds that the planner does not take, such as negative ones."""
        _ = self.bounds  # the planner's record checks itself when it is made

    def _check_statistics(self) -> None:
        if not self.statistics:
            raise InvalidParameter("a query needs at least one statistic")
        names = [statistic.name for statistic in self.statistics]
        for name in names:
            if names.count(name) > 1:
                raise InvalidParameter(f"two statistics are called {name!r}: ask for one of them")

    def _check_item(self) -> None:
        item: Any = self.item
        columns = item if isinstance(item, list | tuple) else (item,)
        for column in columns:
            check_column("item", column)
        if not columns or len(set(columns)) != len(columns):
            raise InvalidParameter("item must be one column, or several different ones")
        object.__setattr__(self, "item", columns[0] if len(columns) == 1 else tuple(columns))

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
        """Return the query for the k items that most users have, or with the most rows or the highest sum."""
        return cls(item=item, k=k, statistics=(_counted(value, per_item),), **grouping)  # type: ignore[arg-type]

    @classmethod
    def histogram(
        cls, *, item: Columns, per_item: int | None = None, value: str | None = None, **grouping: Unpack[Grouping]
    ) -> "Query":
        """Return the query for how many users, rows or units every item has."""
        return cls(item=item, statistics=(_counted(value, per_item),), **grouping)  # type: ignore[arg-type]

    @classmethod
    def count(cls, *, per_user: int | None = None, where: str | None = None) -> "Query":
        """Return the query for how many users there are, or how many rows, at most `per_user` of a user."""
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
        """Return the query for the sum of a column, each user's own clipped to `low` .. `high`, or to 0 .. `clip`."""
        if clip is not None and (low is not None or high is not None):
            raise InvalidParameter("give either clip, or low and high")
        if clip is None and high is None and bounds is None:
            raise InvalidParameter("say how much one user may add: give clip, or low and high, or bounds='auto'")
        most = high if clip is None else positive_integer("clip", clip)
        statistic = Sum(column=value, low=low, high=most, step=step, bounds=bounds)
        return cls(item=item, statistics=(statistic,), **grouping)  # type: ignore[arg-type]

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
        """Return the query for the mean of a column over users, or over rows, at most `per_user` of a user."""
        mean = Mean(column=value, low=low, high=high, step=step, per_user=per_user, bounds=bounds)
        return cls(item=item, statistics=(mean,), **grouping)  # type: ignore[arg-type]

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
        """Return the query for the value that a share of users, or each of several, is below, on a grid.

        >>> [str(each.at) for each in Query.quantile(value="age", low=0, high=99, at=[0.25, 0.5]).statistics]
        ['1/4', '1/2']
        """
        statistics = tuple(
            Quantile(column=value, low=low, high=high, at=share, step=step, bounds=bounds) for share in shares_of(at)
        )
        return cls(item=item, statistics=statistics, **grouping)  # type: ignore[arg-type]

    @property
    def groups(self) -> tuple[str, ...]:
        """The columns whose values are the groups; none when all rows are one."""
        if self.item is None:
            return ()
        return (self.item,) if isinstance(self.item, str) else self.item

    @property
    def values(self) -> tuple[str, ...]:
        """The columns that statistics are taken of."""
        return tuple(dict.fromkeys(each.column for each in self.statistics if each.column is not None))

    @property
    def counted(self) -> Statistic | None:
        """The only statistic, if groups can be ranked by it: it adds whole numbers of 0 or more."""
        only = self.statistics[0]
        return only if len(self.statistics) == 1 and only.per_item is not None else None

    @property
    def per_item(self) -> int:
        """The most that one user adds to a group, in what groups are ranked by: 1 where that is the number of users."""
        return 1 if self.counted is None else self.counted.per_item or 1

    @property
    def bounds(self) -> Bounds:
        """What the planner is asked for: a query without items is a histogram of the one label `EVERYTHING`."""
        if self.item is None:
            return Bounds(contributions=1, per_item=self.per_item, domain=(EVERYTHING,))
        return Bounds(
            k=self.k, contributions=self.contributions, per_item=self.per_item, domain=self.domain, limit=self.limit
        )

    @property
    def kind(self) -> str:
        """The name of the query's shape: top-k, histogram, the kind of its statistic, or query for any other."""
        if self.counted is not None and self.item is not None:
            return "histogram" if self.k is None else "top-k"
        first = self.statistics[0]
        alike = {statistic.alike() for statistic in self.statistics}
        return first.kind if self.k is None and len(alike) == 1 and first.is_plain else "query"

    def filled(self, *, contributions: int | None, per_item: int | None) -> "Query":
        """Return the query with these bounds where it leaves its own out; those without items have none to fill."""
        if self.item is None:
            return self
        return replace(
            self,
            contributions=self.contributions or contributions,
            statistics=tuple(statistic.filled(per_item) for statistic in self.statistics),
        )

    def to_dict(self) -> dict[str, object]:
        """Return the query in the words of its shape; what was left out is left out."""
        words: dict[str, object] = {field.name: getattr(self, field.name) for field in fields(self)}
        del words["statistics"], words["auto_contributions"]
        if self.auto_contributions:
            words["contributions"] = AUTO
        if self.counted is not None:
            words |= self.counted.ranking_words(grouped=self.item is not None)
        elif self.kind != "query":
            words |= self.statistics[0].words()
            words["value"] = words.pop("column")
            if len(self.statistics) > 1:  # one kind with several shares
                words["at"] = [plain(getattr(statistic, "at")) for statistic in self.statistics]  # noqa: B009
        else:
            words["statistics"] = [{"statistic": statistic.kind, **statistic.words()} for statistic in self.statistics]
        return {"kind": self.kind} | {name: plain(value) for name, value in words.items() if value is not None}

    @classmethod
    def from_dict(cls, values: Mapping[str, object]) -> "Query":
        """Return the query that `to_dict` wrote, or raise `InvalidParameter`.

        >>> Query.from_dict({"kind": "count", "per_user": 5}) == Query.count(per_user=5)
        True
        """
        given = dict(values)
        kind = given.pop("kind", None)
        if not isinstance(kind, str) or kind not in SHAPES:
            raise InvalidParameter(f"the kind of a query must be one of {', '.join(SHAPES)}, not {kind!r}")
        query: Query = build(SHAPES[kind], f"a {kind} query", given)
        return query


def _general(
    *,
    statistics: Sequence[Mapping[str, object]],
    item: Columns | None = None,
    k: int | None = None,
    **grouping: Unpack[Grouping],
) -> Query:
    """Return the query of any statistics, each written as its name and its words."""
    if not isinstance(statistics, list | tuple):
        raise InvalidParameter("statistics must be a list")
    made: list[Statistic] = []
    for each in statistics:
        words = dict(each) if isinstance(each, Mapping) else {}
        name = words.pop("statistic", None)
        if not isinstance(name, str) or name not in STATISTICS:
            raise InvalidParameter(f"a statistic must be one of {', '.join(STATISTICS)}, not {shown(name)}")
        made += STATISTICS[name].read(words)
    return Query(statistics=tuple(made), item=item, k=k, **grouping)  # type: ignore[arg-type]


def _shape_of(statistic: type[Statistic]) -> Callable[..., Query]:
    """Return the call that makes a query of one statistic from its words and those of its groups.

    Its parameters are those of the statistic, with `value` for its column, then `item` and those of `Grouping`.
    """
    own = {"value" if name == "column" else name: word for name, word in parameters_of(statistic).items()}
    grouped: dict[str, Any] = {"item": Columns | None, **get_type_hints(Grouping)}
    keywords = [word.replace(name=name, kind=word.KEYWORD_ONLY) for name, word in own.items()]
    keywords += [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind) for name, kind in grouped.items()
    ]

    def make(**words: Any) -> Query:  # noqa: ANN401 - checked by the statistic and the query
        """Return the query for one statistic of a column."""
        given = {name: words.pop(name) for name in own if name in words}
        given["column"] = given.pop("value")
        made = statistic.read({name: value for name, value in given.items() if value is not None})
        return Query(statistics=tuple(made), **words)

    make.__signature__ = Signature(keywords)  # type: ignore[attr-defined]
    make.__annotations__ = {word.name: word.annotation for word in keywords}
    return make


SHAPES: dict[str, Callable[..., Query]] = {
    "top-k": Query.top_k,
    "histogram": Query.histogram,
    **{kind: getattr(Query, kind, None) or _shape_of(statistic) for kind, statistic in STATISTICS.items()},
    "query": _general,
}
"""The shapes of a query and what makes one from its words."""


def statistic_name(statistic: Statistic) -> str:
    """Return the name of a statistic's column in an answer.

    >>> statistic_name(Count()), statistic_name(Quantile(column="age", low=0, high=99, at=0.9))
    ('users', 'quantile_0.9_age')
    """
    return statistic.name


def _counted(value: str | None, per_item: int | None) -> Statistic:
    if per_item is not None:
        positive_integer("per_item", per_item)
    return Count(most=per_item) if value is None else Sum(column=value, high=per_item)
