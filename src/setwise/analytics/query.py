"""A question about a table as one record that cannot be wrong: groups, what is counted in each, and the bounds.

What may be spent on it is said beside it (`budget`); the table and its user column belong to the session. `top_k`,
`histogram`, `count` and `sum` are the common shapes, and their parameters are the words of every door: Python, the
command line and JSON.
"""

import inspect
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, Unpack, assert_never, get_args, get_type_hints

from setwise.errors import InvalidParameter
from setwise.mechanisms.labels import Label, distinct_labels
from setwise.mechanisms.parameters import positive_integer
from setwise.mechanisms.planning.request import Bounds

LARGEST_K = 100_000

EVERYTHING = "all"
"""The label of the one group of a query without groups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many users (`most` = 1), or how many rows, at most `most` of a user in a group; None stands for 1."""

    most: int | None = None

    def __post_init__(self) -> None:
        if self.most is not None:
            positive_integer("most", self.most)

    @property
    def per_item(self) -> int:
        """How much one user adds to a group at most."""
        return self.most or 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """The sum of the integer column, each user's own sum in a group clipped to 0 .. `high`; None stands for 1."""

    column: str
    high: int | None = None

    def __post_init__(self) -> None:
        _check_column("value", self.column)
        if self.high is not None:
            positive_integer("high", self.high)

    @property
    def per_item(self) -> int:
        """How much one user adds to a group at most."""
        return self.high or 1


Statistic: TypeAlias = Count | Sum

Domain: TypeAlias = str | Path | Iterable[Label]
"""Public labels: a list of them, or a file as `read_domain` takes it."""


class Grouping(TypedDict, total=False):
    """The words for which groups there are and how far one user reaches.

    `contributions` bounds how many items one user counts towards; leave it out when any number is fine. `domain` lists
    the items when they are public. `where` keeps rows, as in ``country = 'NO' AND age >= 18``. Rows without an item are
    dropped unless `null_item` names them. `limit` is among how many of the highest an unknown domain is searched.
    """

    contributions: int | None
    domain: Domain | None
    where: str | None
    null_item: Label | None
    limit: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A question: `statistic` in each group of the column `item` (None: all rows are one group).

    With `k` the k highest groups, without it all of them. A user counts towards at most `contributions` groups; None
    leaves it open. `domain` holds the labels that may come back when they are public; None when the labels themselves
    are private, and then only the `limit` highest take part. Rows whose item is null are dropped unless `null_item`
    names them.

    >>> Query.top_k(item="word", k=25).contributions is None
    True
    >>> Query.sum(value="minutes", clip=60).kind
    'sum'
    """

    statistic: Statistic = Count()
    item: str | None = None
    k: int | None = None
    contributions: int | None = None
    domain: tuple[Label, ...] | None = None
    limit: int | None = None
    where: str | None = None
    null_item: Label | None = None

    def __post_init__(self) -> None:
        if self.k is not None:
            positive_integer("k", self.k, LARGEST_K)
        if self.where is not None and (not isinstance(self.where, str) or not self.where.strip()):
            raise InvalidParameter(f"where must be text, or left out, not {_shown(self.where)}")
        if self.null_item is not None:
            distinct_labels([self.null_item])
        if self.item is not None:
            _check_column("item", self.item)
        elif (self.k, self.contributions, self.domain, self.limit, self.null_item) != (None,) * 5:
            raise InvalidParameter("k, contributions, domain, limit and null_item are about items: give item")
        if self.domain is not None:
            if isinstance(self.domain, str) or not isinstance(self.domain, Iterable):
                raise InvalidParameter("domain must be a list of labels")
            object.__setattr__(self, "domain", tuple(self.domain))
        object.__setattr__(self, "domain", self.bounds.domain if self.item is not None else None)

    @classmethod
    def top_k(
        cls, *, item: str, k: int, per_item: int | None = None, value: str | None = None, **grouping: Unpack[Grouping]
    ) -> "Query":
        """Return the query for the k items that most users have, or with the most rows or the highest sum."""
        return cls(item=item, k=k, statistic=_counted(value, per_item), **grouping)  # type: ignore[arg-type]

    @classmethod
    def histogram(
        cls, *, item: str, per_item: int | None = None, value: str | None = None, **grouping: Unpack[Grouping]
    ) -> "Query":
        """Return the query for how many users, rows or units every item has."""
        return cls(item=item, statistic=_counted(value, per_item), **grouping)  # type: ignore[arg-type]

    @classmethod
    def count(cls, *, per_user: int | None = None, where: str | None = None) -> "Query":
        """Return the query for how many users there are, or how many rows, at most `per_user` of a user."""
        if per_user is not None:
            positive_integer("per_user", per_user)
        return cls(statistic=Count(most=per_user), where=where)

    @classmethod
    def sum(cls, *, value: str, clip: int, where: str | None = None) -> "Query":
        """Return the query for the sum of an integer column, each user's own sum clipped to 0 .. `clip`."""
        return cls(statistic=Sum(column=value, high=positive_integer("clip", clip)), where=where)

    @property
    def bounds(self) -> Bounds:
        """What the planner is asked for: a query without items is a histogram of the one label `EVERYTHING`."""
        per_item = self.statistic.per_item
        if self.item is None:
            return Bounds(contributions=1, per_item=per_item, domain=(EVERYTHING,))
        return Bounds(
            k=self.k, contributions=self.contributions, per_item=per_item, domain=self.domain, limit=self.limit
        )

    @property
    def value(self) -> str | None:
        """The column that is added up; None when users or rows are counted."""
        match self.statistic:
            case Count():
                return None
            case Sum(column=column):
                return column
            case _:
                assert_never(self.statistic)

    @property
    def kind(self) -> str:
        """The shape's name: top-k, histogram, count or sum."""
        if self.item is None:
            return "count" if self.value is None else "sum"
        return "histogram" if self.k is None else "top-k"

    def filled(self, *, contributions: int | None, per_item: int | None) -> "Query":
        """Return the query with these bounds where it leaves its own out; those without items have none to fill."""
        if self.item is None:
            return self
        statistic: Statistic
        match self.statistic:
            case Count(most=most):
                statistic = Count(most=per_item if most is None else most)
            case Sum(column=column, high=high):
                statistic = Sum(column=column, high=per_item if high is None else high)
            case _:
                assert_never(self.statistic)
        return replace(self, contributions=self.contributions or contributions, statistic=statistic)

    def to_dict(self) -> dict[str, object]:
        """Return the query in the words of its shape; what was left out is left out."""
        reach = self.statistic.most if isinstance(self.statistic, Count) else self.statistic.high
        words = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "statistic"}
        words |= {"value": self.value, {"count": "per_user", "sum": "clip"}.get(self.kind, "per_item"): reach}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in words.items()}
        return {"kind": self.kind, **{name: value for name, value in plain.items() if value is not None}}

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
        known = parameters_of(SHAPES[kind])
        for name in given:
            if name not in known:
                raise InvalidParameter(f"a {kind} query has no {name!r}; it has {', '.join(sorted(known))}")
        needed = [name for name, each in known.items() if each.default is inspect.Parameter.empty]
        if not set(needed) <= set(given):
            raise InvalidParameter(f"a {kind} query needs {' and '.join(map(repr, needed))}")
        return SHAPES[kind](**given)


def canonical(value: object) -> str:
    """Return JSON text with sorted keys and no spaces: equal values have equal text.

    >>> canonical({"b": 1, "a": [True, None]})
    '{"a":[true,null],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


SHAPES: dict[str, Callable[..., Query]] = {
    "top-k": Query.top_k,
    "histogram": Query.histogram,
    "count": Query.count,
    "sum": Query.sum,
}
"""The common shapes of a query and what makes one from its words."""


def parameters_of(call: Callable[..., object]) -> dict[str, inspect.Parameter]:
    """Return the parameters of a call by name, with those that a typed dictionary adds written out.

    >>> list(parameters_of(Query.histogram))[:4]
    ['item', 'per_item', 'value', 'contributions']
    """
    found: dict[str, inspect.Parameter] = {}
    kinds = get_type_hints(call)
    for parameter in inspect.signature(call).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            (words,) = get_args(kinds[parameter.name])
            for name, kind in get_type_hints(words).items():
                found[name] = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        elif parameter.name != "self":
            found[parameter.name] = parameter.replace(annotation=kinds[parameter.name])
    return found


def _counted(value: str | None, per_item: int | None) -> Statistic:
    if per_item is not None:
        positive_integer("per_item", per_item)
    return Count(most=per_item) if value is None else Sum(column=value, high=per_item)


def _check_column(name: str, value: Any) -> None:  # noqa: ANN401 - whatever was given
    if not isinstance(value, str) or not value:
        raise InvalidParameter(f"{name} must be the name of a column, not {_shown(value)}")


def _shown(value: object) -> str:
    """Return a value as an error may show it: a frame or column given by mistake holds private data."""
    return repr(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"
