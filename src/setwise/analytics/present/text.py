"""Questions and answers in words: what was asked, what is counted, why a list ends, and what its intervals promise."""

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from setwise.analytics.query import Query
from setwise.analytics.schema import Column, Kind
from setwise.analytics.statistics import STATISTICS, Statistic
from setwise.mechanisms.release import Release

if TYPE_CHECKING:
    from setwise.analytics.answer import PrivateAnswer


EXACT_NUMBER = "the exact number"


def counted_number(query: Query) -> str:
    """Return which number the intervals of an answer hold: the table's own, or that of what is counted.

    If contributions are bounded, rows and groups beyond the bound are left out, and the table's own number is larger.
    """
    return f"{EXACT_NUMBER} of what is counted" if left_out_note(query, "user") else EXACT_NUMBER


def left_out_note(query: Query, user: str) -> str:
    """Return which rows the numbers of an answer leave out, as one sentence; "" if every row is counted.

    `user` is the name of the column that tells users apart.
    """
    bounds = []
    if query.item is not None and query.contributions is not None:
        groups = query.groups
        one = query.contributions == 1
        value = "value" if one else "values"
        if len(groups) > 1:
            value = "combination" if one else "combinations"
        bounds.append(f"{query.contributions:,} {value} of {' and '.join(groups)}")
    where = " in each group" if query.item is not None else ""
    kept = dict.fromkeys(statistic.kept_of_user for statistic in query.statistics if statistic.kept_of_user)
    bounds += [f"{most}{where}" for most in kept]
    if not bounds:
        return ""
    verb = "is" if len(bounds) == 1 and bounds[0].startswith("1 ") else "are"
    return (
        f"At most {' and '.join(bounds)} {verb} counted for each {user}; others are left out, so a number can be below "
        "the table's own."
    )


def interval_note(release: Release, confidence: Fraction, number: str = EXACT_NUMBER) -> str:
    """Return what a release's intervals promise, and why some reach further than the noise; "" without counts.

    `number` says which number the intervals hold.

    Every sentence is about what is released.
    """
    intervals = [interval for interval in release.intervals(confidence) if interval is not None]
    if not intervals or release.noise is None:
        return ""
    sure = f"{float(confidence):.0%}"
    selection, least = release.selection, release.least
    drawn = [item.noisy or 0 for item in release.items]
    if selection is None or (selection.candidates == 1 and selection.threshold is None):
        one = "The" if len(intervals) == 1 else "Each"
        sentences = [f"{one} interval holds {number} with probability {sure}."]
    else:
        sentences = [f"On average {sure} of a list's intervals hold {number}."]
        if release.share < 1:
            sentences.append(
                f"These are the {len(drawn):,} highest of {selection.candidates:,} noisy counts. The highest are also "
                "the luckiest, so intervals reach further down than up."
            )
        radius = release.noise.radius(1 - (1 - confidence) * release.share)
        plain = (max(noisy - radius, least) for noisy in drawn)
        if any(interval.lower < end for interval, end in zip(intervals, plain, strict=True)):
            sentences.append(
                f"An item is listed only when its noisy count passes {selection.threshold:,}. Luck may have carried a "
                f"smaller count over it, so intervals near it reach further down; one that starts at {least} cannot "
                "tell how small the count may be."
            )
    if any(item.count != max(noisy, least) for item, noisy in zip(release.items, drawn, strict=True)):
        sentences.append(
            "Counts follow the order of the list by least squares, rounded; each interval is around the count as drawn "
            "and reaches to the fitted one."
        )
    elif min(drawn) < least:
        sentences.append(f"Counts drawn below {least} are shown as {least}; `noisy` has them as drawn, for adding up.")
    return " ".join(sentences)


def average_of_all(answer: "PrivateAnswer", shown: int) -> str:
    """Return what to add where only the highest items of a longer answer are shown with intervals; "" elsewhere."""
    total = len(answer.items)
    if answer.statistics or total <= shown or answer.items[0].interval is None:
        return ""
    return f"That average is over all {total:,} items, not over the {shown:,} shown."


def measured(query: Query, from_text: Sequence[Column] = (), version: str = "") -> str:
    """Return what is counted, for headings: users, events, or a sum, and how a user's part in it is bounded.

    Intervals are about this, not about what an unbounded count would be. Columns of text that are read as another kind
    are named, whether or not a cell could not be read: whether one could is private. `version` is that of a lake table.
    """
    words = "; ".join(_statistics(query.statistics, " per item" if query.item is not None else ""))
    match query.contributions:
        case None:
            pass
        case 1:
            words += "; each user counts towards one group, others are left out"
        case bound:
            words += f"; each user counts towards at most {bound:,} groups, others are left out"
    unreadable = (f"; cells of {each.name} that are not {_KINDS[each.kind]} are skipped" for each in from_text)
    return words + "".join(unreadable) + (f"; version {version} of the table" if version else "")


_KINDS = {
    Kind.TEXT: "text",
    Kind.INTEGER: "whole numbers",
    Kind.FLOAT: "numbers",
    Kind.DECIMAL: "decimal numbers",
    Kind.BOOLEAN: "true or false",
    Kind.DATE: "dates",
    Kind.TIMESTAMP: "dates with a time",
    Kind.INSTANT: "dates with a time and a time zone",
    Kind.IDENTIFIER: "identifiers",
    Kind.OTHER: "of a known type",
}
"""What the cells of a column of each kind are called."""


def _statistics(statistics: Sequence[Statistic], where: str) -> list[str]:
    """Return each statistic in words; those that are alike are described once, where the first of them stands."""
    together: dict[Statistic, list[Statistic]] = {}
    for statistic in statistics:
        together.setdefault(statistic.alike(), []).append(statistic)
    return [alike[0].described(alike, where) for alike in together.values()]


_PASSED = "every item whose noisy count passed the threshold; rarer ones stay hidden"


def ending(query: Query, found: int, complete: bool) -> str:
    """Return why the list ends where it does."""
    if query.item is None:
        return "one number" if len(query.statistics) == 1 else f"{len(query.statistics)} numbers"
    if query.k is not None and found == query.k:
        return f"k = {query.k} reached"
    if query.k is None and query.domain is not None:
        return "every item of the domain"
    if query.k is None and not complete:
        return "the limit was reached"
    if found == 0:
        return "no item passed the threshold"
    return "the threshold was reached before k" if query.k else _PASSED


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
            return f"Top {k} of {_columns(item)}{by}"
        case {"kind": "histogram", "item": item}:
            return f"Histogram of {_columns(item)}{by}"
        case {"kind": "count"}:
            most = query.get("per_user", 1)
            return "Number of users" if most == 1 else f"Number of events, at most {most} of a user"
        case {"kind": str() as kind, "value": value} if kind in STATISTICS:
            return _capitalized(STATISTICS[kind].asked_in_words(value, query, _by(query)))
        case {"kind": "query", "statistics": [*statistics]}:
            named = (STATISTICS[each["statistic"]].asked_in_words(each.get("column"), each, "") for each in statistics)
            most = f"top {query['k']}{_by(query, ' of ')}: " if "k" in query else ""
            return _capitalized(most + ", ".join(named) + ("" if most else _by(query)))
        case _:
            return "A question of another kind"


def _capitalized(words: str) -> str:
    return words[:1].upper() + words[1:]


def _columns(item: str | list[str]) -> str:
    return item if isinstance(item, str) else " and ".join(item)


def _by(query: Mapping[str, Any], word: str = " by ") -> str:
    return f"{word}{_columns(query['item'])}" if "item" in query else ""


def charge_in_words(request: str) -> str:
    """Return what a charge bought, from the text the ledger keeps of its request.

    >>> charge_in_words('{"query": {"kind": "count"}}'), charge_in_words("by hand")
    ('Number of users', 'by hand')
    """
    try:
        asked = json.loads(request)
        if isinstance(asked, dict) and isinstance(asked.get("live"), dict):
            return "Live series {name}: users per {item}, every {every}".format_map(asked["live"])
        query = asked["query"]
    except (ValueError, TypeError, KeyError):
        return request if len(request) <= _LONGEST else request[:_LONGEST] + " …"
    return question_in_words(query) if isinstance(query, dict) else str(query)[:_LONGEST]
