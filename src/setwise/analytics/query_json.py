"""The written form of a query: one JSON object, the same text for the same query."""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import assert_never

from setwise.analytics.query import Count, HistogramQuery, Query, Sum, TopK
from setwise.errors import InvalidParameter

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
