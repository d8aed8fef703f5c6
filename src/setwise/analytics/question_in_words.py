"""Questions as people say them."""

import json
from collections.abc import Mapping
from typing import Any

_LONGEST = 160


def question_in_words(query: Mapping[str, Any]) -> str:
    """Return a query, as its written form has it, in words.

    >>> question_in_words({"kind": "top-k", "item": "word", "k": 10, "where": "country = 'NO'"})
    "Top 10 of word, where country = 'NO'"
    """
    words = _asked(query)
    if query.get("domain") is not None:
        words += ", from a given list"
    if query.get("where"):
        words += f", where {query['where']}"
    return words


def _asked(query: Mapping[str, Any]) -> str:
    by = f" by the sum of {query['value']}" if query.get("value") else ""
    match query:
        case {"kind": "top-k", "item": item, "k": k}:
            return f"Top {k} of {item}{by}"
        case {"kind": "histogram", "item": item}:
            return f"Histogram of {item}{by}"
        case {"kind": "count"}:
            most = query.get("per_user", 1)
            return "Number of users" if most == 1 else f"Number of events, at most {most} of a user"
        case {"kind": "sum", "value": value, "clip": clip}:
            return f"Sum of {value}, at most {clip} of a user"
        case _:
            return "A question of another kind"


def charge_in_words(request: str) -> str:
    """Return what a charge bought, from the text the ledger keeps of its request.

    >>> charge_in_words('{"query": {"kind": "count"}}'), charge_in_words("by hand")
    ('Number of users', 'by hand')
    """
    try:
        asked = json.loads(request)
        query = asked["query"]
    except (ValueError, TypeError, KeyError):
        return request if len(request) <= _LONGEST else request[:_LONGEST] + " …"
    return question_in_words(query) if isinstance(query, dict) else str(query)[:_LONGEST]
