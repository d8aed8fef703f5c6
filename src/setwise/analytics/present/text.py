"""Questions in words: what was asked, what is counted, and why a list ends where it does."""

import json
from collections.abc import Mapping
from typing import Any, assert_never

from setwise.analytics.query import Count, HistogramQuery, Query, Sum, TopK

FITTED = (
    "fitted to the order of the list by least squares, so they need not be whole; "
    "each interval is around the noisy count as it was drawn"
)
"""What to say of counts that were adjusted to the order in which their items were found."""


def measured(query: Query) -> str:
    """Return what is counted, for headings: users, events, or a sum, and how a user's part in it is bounded.

    Intervals are about this, not about what an unbounded count would be.
    """
    match query:
        case Count(per_user=1):
            return "users"
        case Count(per_user=most):
            return f"events, at most {most:,} of a user"
        case Sum(value=value, clip=clip):
            return f"sum of {value}, at most {clip:,} of a user"
        case TopK(value=None, per_item=1) | HistogramQuery(value=None, per_item=1):
            return "users" + _kept(query)
        case TopK(value=None, per_item=most) | HistogramQuery(value=None, per_item=most):
            return f"events, at most {most:,} of a user per item" + _kept(query)
        case TopK(value=value, per_item=most) | HistogramQuery(value=value, per_item=most):
            return f"sum of {value}, at most {most:,} of a user per item" + _kept(query)
        case _:
            raise AssertionError(query)


def _kept(query: TopK | HistogramQuery) -> str:
    match query.contributions:
        case None:
            return ""
        case 1:
            return ", each under one item"
        case most:
            return f", each under at most {most:,} items"


def ending(query: Query, found: int, complete: bool) -> str:
    """Return why the list ends where it does."""
    match query:
        case TopK(k=k):
            if found == k:
                return f"k = {k} reached"
            return "no item passed the threshold" if found == 0 else "the threshold was reached before k"
        case HistogramQuery(domain=None):
            if not complete:
                return "the limit was reached"
            return "no item passed the threshold" if found == 0 else "every item whose noisy count passed the threshold"
        case HistogramQuery():
            return "every item of the domain"
        case Count() | Sum():
            return "one number"
        case _:
            assert_never(query)


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
