"""A question about a table as one record that cannot be wrong: groups, statistics of each, and bounds.

What may be spent on it is said beside it (`budget`); the table and its user column belong to the session. `top_k`,
`histogram`, `count`, `sum`, `mean` and `quantile` are the common shapes, and their parameters are the words of every
door: Python, the command line and JSON.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, assert_never, get_args, get_type_hints

from setwise.errors import InvalidParameter
from setwise.mechanisms.labels import Cell, Label, distinct_labels
from setwise.mechanisms.parameters import FINEST_RANK, positive_integer, probability
from setwise.mechanisms.planning.request import Bounds

LARGEST_K = 100_000

EVERYTHING = "all"
"""The label of the one group of a query without groups."""

AUTO, FOUND = "auto", "found"
"""Stand for bounds that are to be found privately, and that were."""

LARGEST_NUMBER = 10**90
"""The largest bound, either way; 1 over it is the least step."""

Number: TypeAlias = int | float | Fraction | Decimal
"""Any finite number; floats are taken as the shortest decimal that gives them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many users (`most` = 1), or how many rows, at most `most` of a user in a group; None stands for 1.

    With a column, rows where it is not null, and users who have one.
    """

    most: int | None = None
    column: str | None = None

    def __post_init__(self) -> None:
        if self.most is not None:
            positive_integer("most", self.most)
        if self.column is not None:
            _check_column("column", self.column)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """The sum of the column, each user's own sum in a group clipped to `low` .. `high` (None stands for 1).

    `bounds` = "auto" leaves low and high to be found, here and for means and quantiles. It is added
    up in whole steps: of 1 for a column of integers, of a thousandth of high - low for others.
    """

    column: str
    low: Fraction = Fraction(0)
    high: Fraction | None = None
    step: Fraction | None = None
    bounds: str | None = None

    def __post_init__(self) -> None:
        _check_measured(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """The mean over users of their own mean of the column in a group, clipped to `low` .. `high`.

    With `per_user` the mean over rows, each clipped: a user who has more than `per_user` in a group weighs as much as
    that many rows of their own mean, which is what a random choice among them would give on average.
    """

    column: str
    low: Fraction = None  # type: ignore[assignment]  # `_check_measured` has it
    high: Fraction = None  # type: ignore[assignment]
    step: Fraction | None = None
    per_user: int | None = None
    bounds: str | None = None

    def __post_init__(self) -> None:
        _check_measured(self)
        if self.per_user is not None:
            positive_integer("per_user", self.per_user)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantile:
    """The value below which the share `at` of users have their own mean of the column in a group.

    It is found on the grid low, low + step, .., high.
    """

    column: str
    low: Fraction = None  # type: ignore[assignment]  # `_check_measured` has it
    high: Fraction = None  # type: ignore[assignment]
    at: Fraction = Fraction(1, 2)
    step: Fraction | None = None
    bounds: str | None = None

    def __post_init__(self) -> None:
        share = probability("at", exact_number("at", self.at))
        near = share.limit_denominator(FINEST_RANK)  # a third as a float is meant as a third
        if abs(share - near) > 1e-12:
            raise InvalidParameter(f"at must be a share of at most six decimals, not {float(share)!r}")
        object.__setattr__(self, "at", near)
        _check_measured(self)


Statistic: TypeAlias = Count | Sum | Mean | Quantile

Domain: TypeAlias = str | Path | Iterable[Label]
"""Public labels: a list of them, or a file as `read_domain` takes it."""

Columns: TypeAlias = str | Sequence[str]
"""One column, or several."""

Shares: TypeAlias = Number | Sequence[Number]
"""One share of users, or several."""

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
            raise InvalidParameter(f"where must be text, or left out, not {_shown(self.where)}")
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
            object.__setattr__(self, "domain", tuple(self.domain))
            object.__setattr__(self, "domain", self.bounds.domain)
            wide = {len(label) if isinstance(label, tuple) else 1 for label in self.domain}
            if wide != {len(self.groups)}:
                raise InvalidParameter(f"a label of the domain needs {len(self.groups)} value(s), one for each column")
        elif self.item is not None:
            assert self.bounds  # which raises what is wrong with it

    def _check_statistics(self) -> None:
        if not self.statistics:
            raise InvalidParameter("a query needs at least one statistic")
        names = [statistic_name(each) for each in self.statistics]
        for name in names:
            if names.count(name) > 1:
                raise InvalidParameter(f"two statistics are called {name!r}: ask for one of them")

    def _check_item(self) -> None:
        item: Any = self.item
        columns = item if isinstance(item, list | tuple) else (item,)
        for column in columns:
            _check_column("item", column)
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
        least = Fraction(0) if low is None else low
        statistic = Sum(column=value, low=least, high=most, step=step, bounds=bounds)  # type: ignore[arg-type]
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
        mean = Mean(column=value, low=low, high=high, step=step, per_user=per_user, bounds=bounds)  # type: ignore[arg-type]
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
            Quantile(column=value, low=low, high=high, at=share, step=step, bounds=bounds)  # type: ignore[arg-type]
            for share in _shares(at)
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
    def counted(self) -> Count | Sum | None:
        """The only statistic, when it adds whole numbers of 0 or more: such groups are ranked by it."""
        match self.statistics:
            case (Count(column=None) as counted,):
                return counted
            case (
                Sum(
                    bounds=None,
                    low=0,
                    high=None | Fraction(denominator=1),
                    step=None | Fraction(numerator=1, denominator=1),
                ) as one,
            ):
                return one
            case _:
                return None

    @property
    def per_item(self) -> int:
        """How much one user adds to a group at most, in what groups are ranked by."""
        match self.counted:
            case Count(most=int() as most):
                return most
            case Sum(high=Fraction() as high):
                return positive_integer("high", int(high))
            case _:
                return 1

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
        """The shape's name: top-k, histogram, count, sum, mean or quantile, and query for any other."""
        if self.counted is not None and self.item is not None:
            return "histogram" if self.k is None else "top-k"
        first = self.statistics[0]
        alike = {replace(each, at=Fraction(1, 2)) if isinstance(each, Quantile) else each for each in self.statistics}
        named = self.k is None and len(alike) == 1 and not (isinstance(first, Count) and first.column is not None)
        return type(first).__name__.lower() if named else "query"

    def filled(self, *, contributions: int | None, per_item: int | None) -> "Query":
        """Return the query with these bounds where it leaves its own out; those without items have none to fill."""
        if self.item is None:
            return self
        return replace(
            self,
            contributions=self.contributions or contributions,
            statistics=tuple(_filled(each, per_item) for each in self.statistics),
        )

    def to_dict(self) -> dict[str, object]:
        """Return the query in the words of its shape; what was left out is left out."""
        words: dict[str, object] = {field.name: getattr(self, field.name) for field in fields(self)}
        del words["statistics"], words["auto_contributions"]
        if self.auto_contributions:
            words["contributions"] = AUTO
        match self.counted, self.statistics:
            case Count(most=most), _:
                words["per_user" if self.item is None else "per_item"] = most
            case Sum(column=column, high=high), _:
                words |= {"value": column, "clip" if self.item is None else "per_item": high}
            case None, (first, *more) if self.kind != "query":
                words |= _words_of(first)
                words["value"] = words.pop("column")
                if more:
                    words["at"] = tuple(each.at for each in self.statistics if isinstance(each, Quantile))
            case _:
                words["statistics"] = [
                    {"statistic": type(each).__name__.lower(), **_words_of(each)} for each in self.statistics
                ]
        return {"kind": self.kind} | {name: _plain(value) for name, value in words.items() if value is not None}

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
        query: Query = _built(SHAPES[kind], f"a {kind} query", given)
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
            raise InvalidParameter(f"a statistic must be one of {', '.join(STATISTICS)}, not {_shown(name)}")
        several = [words | {"at": share} for share in _shares(words["at"])] if "at" in words else [words]
        made += [_built(STATISTICS[name], f"a {name}", one) for one in several]
    return Query(statistics=tuple(made), item=item, k=k, **grouping)  # type: ignore[arg-type]


def _shares(at: object) -> Sequence[object]:
    plain = at.tolist() if hasattr(at, "tolist") else at  # of NumPy
    if isinstance(plain, list | tuple) and not plain:
        raise InvalidParameter("at needs at least one share")
    return plain if isinstance(plain, list | tuple) else (plain,)


STATISTICS: dict[str, Callable[..., Statistic]] = {"count": Count, "sum": Sum, "mean": Mean, "quantile": Quantile}

SHAPES: dict[str, Callable[..., Query]] = {
    "top-k": Query.top_k,
    "histogram": Query.histogram,
    "count": Query.count,
    "sum": Query.sum,
    "mean": Query.mean,
    "quantile": Query.quantile,
    "query": _general,
}
"""The shapes of a query and what makes one from its words."""


def statistic_name(statistic: Statistic) -> str:
    """Return the name of a statistic's column in an answer.

    >>> statistic_name(Count()), statistic_name(Quantile(column="age", low=0, high=99, at=0.9))
    ('users', 'quantile_0.9_age')
    """
    match statistic:
        case Count(most=None | 1, column=None):
            return "users"
        case Count(column=None):
            return "rows"
        case Count(column=column):
            return f"count_{column}"
        case Quantile(column=column, at=at):
            return f"median_{column}" if at == Fraction(1, 2) else f"quantile_{float(at):g}_{column}"
        case Sum(column=column) | Mean(column=column):
            return f"{type(statistic).__name__.lower()}_{column}"
        case _:
            assert_never(statistic)


@cache
def parameters_of(call: Callable[..., object]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a call by name, with those that a typed dictionary adds written out.

    >>> list(parameters_of(Query.histogram))[:4]
    ['item', 'per_item', 'value', 'contributions']
    """
    found: dict[str, inspect.Parameter] = {}
    kinds = get_type_hints(getattr(call, "__init__") if isinstance(call, type) else call)  # noqa: B009
    for parameter in inspect.signature(call).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            (words,) = get_args(kinds[parameter.name])
            for name, kind in get_type_hints(words).items():
                found[name] = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        else:
            found[parameter.name] = parameter.replace(annotation=kinds[parameter.name])
    return found


def exact_number(name: str, value: object) -> Fraction:
    """Return a finite number as the rational it stands for, or raise `InvalidParameter`.

    >>> exact_number("low", 0.1)
    Fraction(1, 10)
    """
    if isinstance(value, bool) or not isinstance(value, int | float | Fraction | Decimal):
        raise InvalidParameter(f"{name} must be a number, not {_shown(value)}")
    if not isinstance(value, Fraction) and not math.isfinite(value):
        raise InvalidParameter(f"{name} must be finite, not {value!r}")
    return Fraction(str(value)) if isinstance(value, float) else Fraction(value)


def _built(make: Callable[..., Any], what: str, given: dict[str, object]) -> Any:  # noqa: ANN401 - what `make` makes
    """Return what the words make, or raise `InvalidParameter` for words that are unknown or missing."""
    known = parameters_of(make)
    for name in given:
        if name not in known:
            raise InvalidParameter(f"{what} has no {name!r}; it has {', '.join(sorted(known))}")
    needed = [name for name, each in known.items() if each.default is inspect.Parameter.empty]
    if not set(needed) <= set(given):
        raise InvalidParameter(f"{what} needs {' and '.join(map(repr, needed))}")
    return make(**given)


def _counted(value: str | None, per_item: int | None) -> Statistic:
    if per_item is not None:
        positive_integer("per_item", per_item)
    return Count(most=per_item) if value is None else Sum(column=value, high=per_item)  # type: ignore[arg-type]


def _filled(statistic: Statistic, per_item: int | None) -> Statistic:
    match statistic:
        case Count(most=None):
            return replace(statistic, most=per_item)
        case Sum(column=column, low=0, high=None, step=None):
            return _counted(column, per_item)
        case _:
            return statistic


def _words_of(statistic: Statistic) -> dict[str, object]:
    """Return the words of a statistic that say more than their defaults."""
    left_out = ("low", "high") if getattr(statistic, "bounds", None) == AUTO else ()
    words = {field: getattr(statistic, field.name) for field in fields(statistic) if field.name not in left_out}
    return {field.name: _plain(value) for field, value in words.items() if value not in (None, field.default)}


def _plain(value: object) -> object:
    """Return a value as JSON has it."""
    match value:
        case Fraction(denominator=1):
            return int(value)
        case Fraction():
            return float(value)
        case tuple():
            return [_plain(each) for each in value]
        case _:
            return value


def _check_measured(statistic: Sum | Mean | Quantile) -> None:
    _check_column("value", statistic.column)
    if statistic.bounds not in (None, FOUND):
        if statistic.bounds != AUTO:
            raise InvalidParameter(f"bounds must be {AUTO!r}, or left out, not {_shown(statistic.bounds)}")
        for name, stands_for in (("low", Fraction(0)), ("high", Fraction(1)), ("step", None)):
            given = getattr(statistic, name)
            if given is not None and not (isinstance(given, Fraction) and given == stands_for):
                raise InvalidParameter("low, high and step are found with bounds='auto': leave them out")
            object.__setattr__(statistic, name, stands_for)
        return
    if statistic.low is None or (statistic.high is None and not isinstance(statistic, Sum)):
        raise InvalidParameter("say between which values one user counts: give low and high, or bounds='auto'")
    for name in ("low", "high", "step"):
        given = getattr(statistic, name)
        if given is not None:
            object.__setattr__(statistic, name, exact_number(name, given))
            if abs(getattr(statistic, name)) > LARGEST_NUMBER:
                raise InvalidParameter(f"{name} must be at most {LARGEST_NUMBER:g} either way, not {given!r}")
    low, step, high = statistic.low, statistic.step, statistic.high
    if high is not None and not low < high:
        raise InvalidParameter(f"low must be below high, not {float(low):g} and {float(high):g}")
    if step is not None and step < 1 / Fraction(LARGEST_NUMBER):
        raise InvalidParameter(f"step must be above 0, not {float(step):g}")
    widest = max(abs(low), abs(high or Fraction(1))) if isinstance(statistic, Sum) else statistic.high - low
    if step is not None and step > widest:
        raise InvalidParameter(f"step must be at most {float(widest):g}, not {float(step):g}")


def _check_column(name: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidParameter(f"{name} must be the name of a column, not {_shown(value)}")


def _shown(value: object) -> str:
    """Return a value as an error may show it: a frame or column given by mistake holds private data."""
    return repr(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
