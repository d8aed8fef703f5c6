"""Questions about a table, as records that cannot be wrong.

A query says what is asked; what may be spent on it is said beside it (`spending`), and the table and its user column
belong to the session.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TypeAlias, assert_never

from setwise.errors import InvalidParameter
from setwise.mechanisms.histogram import Label, distinct_labels
from setwise.mechanisms.parameters import positive_integer

LARGEST_K = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopK:
    """The k items that most users have, or with the most events or the highest sum, highest first.

    `contributions` is how many items one user may count towards; None leaves it open, and then only the top k can be
    answered. `per_item` is how much one user may add to one item: rows, or units of the integer column `value`.
    `domain` holds the labels that may come back when they are public; None when the labels themselves are private, and
    then only the `limit` highest of them take part. Rows whose item is null are dropped unless `null_item` names them.

    >>> TopK(item="word", k=25).contributions is None
    True
    """

    item: str
    k: int
    contributions: int | None = None
    per_item: int = 1
    value: str | None = None
    domain: tuple[Label, ...] | None = None
    where: str | None = None
    null_item: Label | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        _column("item", self.item)
        positive_integer("k", self.k, LARGEST_K)
        _check_grouping(self)
        if self.domain is not None and self.k > len(self.domain):
            raise InvalidParameter(f"k must be at most {len(self.domain)}, the size of the domain, not {self.k}")
        if self.limit is not None and self.limit < self.k:
            raise InvalidParameter(f"limit must be at least k = {self.k}, not {self.limit}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramQuery:
    """How many users, events or units every item has; the words are those of `TopK`.

    Over an unknown domain contributions must be bounded. Over a known one, None stands for every item of the domain.
    """

    item: str
    contributions: int | None = None
    per_item: int = 1
    value: str | None = None
    domain: tuple[Label, ...] | None = None
    where: str | None = None
    null_item: Label | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        _column("item", self.item)
        _check_grouping(self)
        if self.domain is None and self.contributions is None:
            raise InvalidParameter(
                "a histogram of an unknown domain needs a bound on contributions, or ask for a top k"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """How many users there are (`per_user` = 1), or how many events, each user counted `per_user` times at most."""

    per_user: int = 1
    where: str | None = None

    def __post_init__(self) -> None:
        positive_integer("per_user", self.per_user)
        _optional("where", self.where)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sum:
    """The sum of the integer column `value`, each user's own sum clipped to between 0 and `clip`."""

    value: str
    clip: int
    where: str | None = None

    def __post_init__(self) -> None:
        _column("value", self.value)
        positive_integer("clip", self.clip)
        _optional("where", self.where)


Query: TypeAlias = TopK | HistogramQuery | Count | Sum


def _check_grouping(query: TopK | HistogramQuery) -> None:
    for name in ("contributions", "limit"):
        number = getattr(query, name)
        if number is not None:
            positive_integer(name, number)
    positive_integer("per_item", query.per_item)
    if query.value is not None:
        _column("value", query.value)
    _optional("where", query.where)
    if query.null_item is not None:
        distinct_labels([query.null_item])
    if query.domain is not None:
        labels = distinct_labels(query.domain)
        if not labels:
            raise InvalidParameter("domain must hold at least one label")
        object.__setattr__(query, "domain", labels)
        if query.limit is not None:
            raise InvalidParameter("limit is for unknown domains; leave it out when a domain is given")


def _shown(value: object) -> str:
    """Return a value as an error may show it: a frame or column given by mistake holds private data."""
    return repr(value) if isinstance(value, str | int | float | None) else f"a {type(value).__name__}"


def _column(name: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidParameter(f"{name} must be the name of a column, not {_shown(value)}")


def _optional(name: str, value: object) -> None:
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise InvalidParameter(f"{name} must be text, or left out, not {_shown(value)}")


_KINDS: dict[str, type[TopK] | type[HistogramQuery] | type[Count] | type[Sum]] = {
    "top-k": TopK,
    "histogram": HistogramQuery,
    "count": Count,
    "sum": Sum,
}


def query_kind(query: Query) -> str:
    """Return the query's name: top-k, histogram, count or sum."""
    match query:
        case TopK():
            return "top-k"
        case HistogramQuery():
            return "histogram"
        case Count():
            return "count"
        case Sum():
            return "sum"
        case _:
            assert_never(query)


def query_to_dict(query: Query) -> dict[str, object]:
    """Return the query as plain values; what was left out is left out."""
    given = {field.name: getattr(query, field.name) for field in fields(query)}
    written = {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}
    return {"kind": query_kind(query), **{name: value for name, value in written.items() if value is not None}}


def query_from_dict(values: Mapping[str, object]) -> Query:
    """Return the query that `query_to_dict` wrote, or raise `InvalidParameter`."""
    given = dict(values)
    kind = given.pop("kind", None)
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidParameter(f"the kind of a query must be one of {', '.join(_KINDS)}, not {kind!r}")
    made = _KINDS[kind]
    known = {field.name for field in fields(made)}
    for name in given:
        if name not in known:
            raise InvalidParameter(f"a {kind} query has no {name!r}; it has {', '.join(sorted(known))}")
    domain = given.get("domain")
    if domain is not None:
        if not isinstance(domain, list | tuple):
            raise InvalidParameter("domain must be a list of labels")
        given["domain"] = tuple(domain)
    try:
        return made(**given)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidParameter(f"a {kind} query needs {_needed(made)}") from None


def canonical(value: object) -> str:
    """Return JSON text with sorted keys and no spaces: equal values have equal text.

    >>> canonical({"b": 1, "a": [True, None]})
    '{"a":[true,null],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def query_to_json(query: Query) -> str:
    """Return the query as canonical JSON.

    >>> query_to_json(Count(per_user=5))
    '{"kind":"count","per_user":5}'
    """
    return canonical(query_to_dict(query))


def query_from_json(text: str) -> Query:
    """Return the query in JSON text, or raise `InvalidParameter`.

    >>> query_from_json('{"kind": "sum", "value": "minutes", "clip": 60}')
    Sum(value='minutes', clip=60, where=None)
    """
    try:
        values = json.loads(text)
    except ValueError:
        raise InvalidParameter("the query is not JSON") from None
    if not isinstance(values, dict):
        raise InvalidParameter("the query must be one JSON object")
    return query_from_dict(values)


def _needed(made: type[TopK] | type[HistogramQuery] | type[Count] | type[Sum]) -> str:
    from dataclasses import MISSING

    return " and ".join(repr(field.name) for field in fields(made) if field.default is MISSING)
