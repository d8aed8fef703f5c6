"""Questions in words: what was asked, what is counted, and why a list ends where it does."""

import json
from collections.abc import Mapping
from typing import Any, assert_never

from setwise.analytics.query import Count, Query, Sum

FITTED = (
    "fitted to the order of the list by least squares, so they need not be whole; "
    "each interval is around the noisy count as it was drawn"
)
"""What to say of counts that were adjusted to the order in which their items were found."""


def measured(query: Query) -> str:
    """Return what is counted, for headings: users, events, or a sum, and how a user's part in it is bounded.

    Intervals are about this, not about what an unbounded count would be.
    """
    where = "" if query.item is None else " per item"
    most = f"at most {query.statistic.per_item:,} of a user{where}"
    match query.statistic:
        case Count(per_item=1):
            words = "users"
        case Count():
            words = f"events, {most}"
        case Sum(column=column):
            words = f"sum of {column}, {most}"
        case _:
            assert_never(query.statistic)
    match query.contributions:
        case None:
            return words
        case 1:
            return f"{words}, each under one item"
        case bound:
            return f"{words}, each under at most {bound:,} items"


def ending(query: Query, found: int, complete: bool) -> str:
    """Return why the list ends where it does."""
    if query.item is None:
        return "one number"
    if query.k is not None and found == query.k:
        return f"k = {query.k} reached"
    if query.k is None and query.domain is not None:
        return "every item of the domain"
    if query.k is None and not complete:
        return "the limit was reached"
    if found == 0:
        return "no item passed the threshold"
    return "the threshold was reached before k" if query.k else "every item whose noisy count passed the threshold"


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
