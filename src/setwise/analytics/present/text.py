"""Sentences about queries and answers: what was asked, counted and left out by bounds, and what intervals promise.

cli/output.py prints these sentences below the table of an answer.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from setwise.accounting.promises import USER, in_unit_nouns, unit_nouns
from setwise.analytics.query import Query
from setwise.analytics.schema import Column, Kind
from setwise.analytics.statistics import STATISTICS, Statistic
from setwise.mechanisms.contribution_bound import FoundContributions, LeftOutShare
from setwise.mechanisms.doubling_bounds import ClippedShare
from setwise.mechanisms.intervals import Interval
from setwise.mechanisms.release import EXACT_NUMBER, FITTED, NUMBER_COUNTED, ErrorEstimate, Release, noise_may_dominate

if TYPE_CHECKING:
    from setwise.analytics.answer import PrivateAnswer


_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ufffe\uffff]")
"""Pattern of characters that a terminal or a reader obeys instead of showing: controls, and changes of direction."""


def visible_text(text: str) -> str:
    """Return `text` with each control character replaced by the replacement character U+FFFD.

    Blanks, line feeds and tabs stay; characters that change the direction of writing are replaced, too. Labels come
    from the data: a label with a control character could change a terminal's title or colours, write over other lines,
    or make an SVG file unreadable.

    >>> len(visible_text(chr(27) + "[31m")), visible_text("green tea")
    (5, 'green tea')
    """
    return _CONTROLS.sub("\ufffd", text)


def counted_number(query: Query) -> str:
    """Return a phrase that names the number that the confidence intervals of the query's answer contain.

    The phrase is "the exact number" if the answer is about the whole table. If bounds leave out rows or groups, or clip
    values, the number in the whole table may differ, and the phrase is "the exact number of what is counted".
    """
    return NUMBER_COUNTED if left_out_note(query, "user") else EXACT_NUMBER


def left_out_note(query: Query, user: str) -> str:
    """Return sentences that say why the numbers of the query's answer may differ from numbers about the whole table.

    Reasons are rows and groups of a user that are left out, values that are clipped, and users that have equal weights.
    Returns "" if there is no reason. `user` is the name of the user column.
    """
    bounds = []
    if _limits_groups(query, user):
        bounds.append(_groups_in_words(query))
    where = " in each group" if query.item is not None else ""
    row_bounds = dict.fromkeys(statistic.kept_of_user for statistic in query.statistics if statistic.kept_of_user)
    bounds += [f"{most}{where}" for most in row_bounds]
    clipped = dict.fromkeys(statistic.clipped_values for statistic in query.statistics if statistic.clipped_values)
    weighted = dict.fromkeys(statistic.user_weight_note for statistic in query.statistics)
    limits = dict.fromkeys(statistic.search_limit_note for statistic in query.statistics)
    sentences = [sentence for sentence in (*weighted, *limits) if sentence]
    if bounds:
        verb = "is" if len(bounds) == 1 and bounds[0].startswith("1 ") else "are"
        sentences.append(f"At most {' and '.join(bounds)} {verb} counted for each {user}; others are left out")
    if clipped:
        values = "; ".join(clipped)
        sentences.append(values[:1].upper() + values[1:])
    if not sentences:
        return ""
    shared = _shared_values_note(query, user)
    return f"{'. '.join(sentences)}, so {_difference(query.statistics)}.{f' {shared}.' if shared else ''}"


def brief_bounds_note(
    query: Query,
    user: str,
    left_out: LeftOutShare | None = None,
    rows: Mapping[int, FoundContributions] | None = None,
    clipped: Mapping[str, ClippedShare] | None = None,
) -> str:
    """Return sentences, for the lines below an answer, about the bounds of `query` and how much they leave out.

    The function `left_out_note` says the same at length. If 10% or more of the rows or groups of a count may be left
    out, the sentences begin with a warning that the table's own number can be larger; or that it is larger, if the
    whole interval of the share is above 10%. The result is "" if nothing is bounded. `user` is the name of the user
    column. The other arguments are noisy shares, which are known only for bounds that a private search found:
    - `left_out` is the share of (user, group) pairs that the limit on groups per user leaves out; None if the limit was
      stated.
    - `rows` has the share of rows that each found limit on a user's rows leaves out, by the index of the statistic;
      None if no such limit was found.
    - `clipped` has the share of users whose values are clipped, by the name of a statistic; None if no clipping bounds
      were found.
    """
    bounds = []
    if _limits_groups(query, user):
        bounds.append(f"{_groups_in_words(query)}{_share_in_brief(left_out)}")
    where = " in each group" if query.item is not None else ""
    found = {query.statistics[place].kept_of_user: of_rows.left_out for place, of_rows in (rows or {}).items()}
    row_bounds = dict.fromkeys(statistic.kept_of_user for statistic in query.statistics if statistic.kept_of_user)
    for statistic in query.statistics:
        if statistic.kind == "distinct":  # the share of users' values says little about the number of distinct values
            found.pop(statistic.kept_of_user, None)
    bounds += [f"{most}{where}{_share_in_brief(found.get(most))}" for most in row_bounds]
    weights = dict.fromkeys(statistic.user_weight_note for statistic in query.statistics)
    ends = dict.fromkeys(statistic.search_limit_note for statistic in query.statistics)
    weighted = [f"{note}." for note in (*weights, *ends) if note]
    clauses = []
    if bounds:
        verb = "is" if len(bounds) == 1 and bounds[0].startswith("1 ") else "are"
        limited = f"t most {' and '.join(bounds)} {verb} counted for each {user}"
        if left_out is None and not found:  # nothing is known of how much the stated bounds leave out
            limited += f", others are left out{_larger_with_stated_bounds(query)}"
        warning = _warn_of_larger_numbers(query, left_out, rows or {})
        clauses.append(f"{warning}a{limited}" if warning else f"A{limited}")
    for statistic in query.statistics:
        if statistic.clipped_values:
            clauses.append(statistic.clipped_values + _clipped_in_brief((clipped or {}).get(statistic.name)))
    limits = [f"{_capitalize('; '.join(dict.fromkeys(clauses)))}."] if clauses else []
    shared = _shared_values_note(query, user)
    below = [f"{shared}; the number can be below the table's own."] if shared else []
    return " ".join((*weighted, *limits, *below))


def _shared_values_note(query: Query, user: str) -> str:
    """Return a sentence, without its full stop, on values that are left out for one user and counted for another.

    It is about the counts of distinct values in `query`, and "" if there are none. `user` is the name of the user
    column.
    """
    columns = dict.fromkeys(str(statistic.column) for statistic in query.statistics if statistic.kind == "distinct")
    if not columns:
        return ""
    return f"A value of {' or '.join(columns)} that is left out for one {user} still counts if it is kept for another"


def utc_note(columns: Sequence[str]) -> str:
    """Return a sentence which says that periods of `columns` are computed in UTC; "" if there are no columns."""
    return f"Periods of {' and '.join(columns)} are those of UTC." if columns else ""


def _limits_groups(query: Query, user: str) -> bool:
    """Return whether the contribution bound of `query`, the most groups in which a user counts, can leave out groups.

    It cannot if the groups are the users themselves, because a user is then in one group, or if the bound is at least
    the number of public groups. `user` is the name of the user column.
    """
    if query.item is None or query.contributions is None or query.groups == (user,) or query.in_one_group:
        return False
    return query.domain is None or query.contributions < len(query.domain)


def _warn_of_larger_numbers(query: Query, left_out: LeftOutShare | None, rows: Mapping[int, FoundContributions]) -> str:
    """Return the beginning of a sentence: "the table's own numbers can be larger where rows are left out: ", or "".

    If surely a tenth or more is left out of each count, it is "the table's own numbers are larger, because ". The
    sentence continues with the bounds of `query`. Only counts of users and rows get the warning, because bounds only
    lower these; they can move a mean either way, and a distinct value that is left out for one user still counts if
    another user has it. The result is "" for other statistics, and if surely less than a tenth is left out. `left_out`
    is the noisy share of users' groups that the bound on groups leaves out, or None; `rows` has the found limits on
    rows, with such shares, by the statistic's index.
    """
    counts = _counts(query)
    shares = [
        [share for share in (left_out, rows[place].left_out if place in rows else None) if share is not None]
        for place in counts
    ]
    if not any(share.upper >= _MANY_LEFT_OUT for of_count in shares for share in of_count):
        return ""
    is_sure = all(any(share.lower >= _MANY_LEFT_OUT for share in of_count) for of_count in shares)
    noun = _counts_noun(query)
    if is_sure:
        be = "are" if noun.endswith("s") else "is"
        order = "" if query.item is None else " on the whole, and may stand in another order"
        return f"the table's own {noun} {be} larger{order}, because "
    order = "" if query.item is None else ", and in another order,"
    return f"the table's own {noun} can be larger{order} where rows are left out: "


def _larger_with_stated_bounds(query: Query) -> str:
    """Return ", so the table's own numbers can be larger" if `query` has counts that its stated bounds may lower."""
    return f", so the table's own {_counts_noun(query)} can be larger" if _counts(query) else ""


def _counts(query: Query) -> list[int]:
    """Return the indexes of the statistics of `query` that count users or rows and that its bounds may lower."""
    return [
        place
        for place, statistic in enumerate(query.statistics)
        if statistic.kind == "count" and (query.item is not None or statistic.kept_of_user)
    ]


def _counts_noun(query: Query) -> str:
    """Return the noun that sentences use for the counts of `query`, such as "numbers" or, beside means, "counts".

    The noun is "number" if `query` asks for counts only. If it has other statistics too, the noun is "count", because
    the sentences are not about the other numbers. It is plural if the query has groups or several counts.
    """
    counts = _counts(query)
    noun = "number" if len(counts) == len(query.statistics) else "count"
    return f"{noun}s" if query.item is not None or len(counts) > 1 else noun


def _share_in_brief(left_out: LeftOutShare | None) -> str:
    """Return, in parentheses, the noisy share of users' rows or groups that a bound found by a search leaves out.

    Returns "" if `left_out` is None, which stands for a bound that the analyst stated. If noise makes the share too
    uncertain, the text says so.
    """
    if left_out is None:
        return ""
    if left_out.upper - left_out.lower > _UNKNOWN_SHARE:
        # Without this text, readers took a bound that left out four of five rows for one that leaves out little.
        return " (how many are left out cannot be told at this epsilon)"
    return f" ({_left_out_interval(left_out)} left out if none has more than {left_out.of_first:,})"


_MANY_LEFT_OUT = 0.1
"""The share of rows or groups left out from which an answer begins with a warning.

If the upper end of the share's interval is that large, the table's own numbers can be larger; if the lower end is, they
are.

Where half of the flights were left out, readers took the intervals of a top 15 for those of the table's own numbers,
which all lay outside, and the order for the table's own.
"""

_DIRECTION = "too low if most lie above, too high if below"
"""How clipping changes a mean. Which of the two it is cannot be told: few users are clipped, and noise hides them."""


def _clipped_in_brief(clipped: ClippedShare | None) -> str:
    """Return, in parentheses, the noisy share of users whose values are clipped by bounds that a private search found.

    Returns "" if `clipped` is None, which stands for bounds that the analyst stated. If noise makes the share too
    uncertain, the text says so.
    """
    if clipped is None:
        return ""
    if clipped.upper - clipped.lower > _UNKNOWN_CLIPPED:
        return " (how many users this changes cannot be told at this epsilon)"
    return f" (about {_share_interval(clipped)} of users)"


def _left_out_interval(left_out: LeftOutShare) -> str:
    """Return the noisy share that a bound leaves out as text: "about 7% [5%, 9%]", "4% to 14%" or "at most 14%".

    The text is "at most 14%" if the lower end of the interval is 0%, because this end then tells readers nothing.
    """
    text = _share_interval(left_out)
    if text.startswith("0% to "):
        return f"at most {text.removeprefix('0% to ')}"
    return text if noise_may_dominate(left_out.share, (left_out.lower, left_out.upper)) else f"about {text}"


def _share_interval(share: LeftOutShare | ClippedShare) -> str:
    """Return a noisy share and its interval as text, such as "3.2% [2%, 5%]".

    The share is the part of pairs, rows or users that a bound leaves out or clips. If noise may be as large as the
    share, or its interval begins at 0, only the interval is returned, such as "0% to 14%", because the share alone
    would mislead.
    """
    lower, upper = _percent(share.lower, math.floor), _percent(share.upper, math.ceil)
    # A bound is chosen because its noisy share is small, so the share tends to be too low: where the exact share was
    # 7%, readers of "0.2% [0%, 14%]" took the bound to leave out almost nothing.
    if lower == "0%" or noise_may_dominate(share.share, (share.lower, share.upper)):
        return f"{lower} to {upper}"
    return f"{_percent(share.share, round)} [{lower}, {upper}]"


def _groups_in_words(query: Query) -> str:
    """Return the contribution bound of `query` as a phrase, such as "5 values of dest" for the group column dest.

    The contribution bound is the largest number of groups in which one user counts. The query must have group columns
    and a contribution bound.
    """
    groups, most = query.groups, query.contributions
    one = most == 1
    value = "value" if one else "values"
    if len(groups) > 1:
        value = "combination" if one else "combinations"
    return f"{most:,} {value} of {' and '.join(groups)}"


def _difference(statistics: Sequence[Statistic]) -> str:
    """Return a phrase that says in which direction bounds on users can change the numbers of `statistics`.

    Bounds can only lower some numbers, such as counts, and can lower or raise others, such as means. The phrase is, for
    example, "a number can be below the table's own".
    """
    lowered = [statistic.only_lowered for statistic in statistics]
    if all(lowered):
        return "a number can be below the table's own"
    if any(lowered):
        return "a count can be below the table's own, and any other number can differ from it to either side"
    return "a number can differ from the table's own"


def hidden_groups_note(query: Query, error: ErrorEstimate, complete: bool, *, by_users: bool = False) -> str:
    """Return a sentence such as "Groups with fewer than about 40 users may be hidden."; "" if no group is hidden.

    A group whose key is not public is in the answer to `query` only if its noisy count is high enough.

    - `error` is the expected error, whose `detectable` is the least exact count with which a group is likely to be
      found. If it is not known, the result is "". If `error` has an `above_rank`, `detectable` is a difference: the
      group must have that much more than the group of this rank.
    - `complete` is True if the answer has all groups that were asked for.
    - `by_users` is True if groups were found by their numbers of users, so that `detectable` counts users even
      where rows are counted or a column is added up.
    """
    detectable, rank = error.detectable, error.above_rank
    if query.item is None or query.domain is not None or detectable is None or (query.k is not None and complete):
        return ""
    plus = "" if rank is None else f" (plus that of the group of rank {rank:,}, if there is one)"
    counted = query.counted
    if counted is None or query.per_item == 1 or by_users:
        return f"Groups with fewer than about {detectable:,} users{plus.replace('that', 'those')} may be hidden."
    if counted.column is None:
        return f"Groups with fewer than about {detectable:,} rows{plus.replace('that', 'those')} may be hidden."
    return f"Groups whose sum of {counted.column} is below about {detectable:,}{plus} may be hidden."


def in_heading(sentences: Sequence[str]) -> list[str]:
    """Return the `sentences` as phrases for a heading: in lower case at the start, and without a full stop.

    The caller joins the phrases of a heading with semicolons. Empty sentences are left out.
    """
    return [sentence[:1].lower() + sentence[1:].removesuffix(".") for sentence in sentences if sentence]


_MISLED_BY_CLIPPING = ("mean", "quantile", "sum")
"""Kinds of statistics that may be far from the exact value, and show it in no interval, if most values are clipped."""


def unclear_statistics(query: Query, clipped: Mapping[str, ClippedShare]) -> dict[int, str]:
    """Return the means, sums and quantiles whose clipping bounds may be those of noise: a mapping from index to kind.

    The index is that of the statistic in the query, and the kind is "mean", "sum" or "quantile". Only statistics whose
    clipping bounds a private search found are considered. `clipped` has, by the name of a statistic, what the search
    released about the values that they clip.
    """
    return {
        place: statistic.kind
        for place, statistic in enumerate(query.statistics)
        if statistic.kind in _MISLED_BY_CLIPPING and statistic.name in clipped and not clipped[statistic.name].is_clear
    }


_UNKNOWN_SHARE = 0.9
"""Width of an interval of a share from which on the interval says nothing worth reading."""

_UNKNOWN_CLIPPED = 0.5
"""The same for the share of users whose values are clipped: few are clipped as a rule, and an estimate in the middle of
a wide interval would be read as many."""


def found_shares_notes(
    query: Query,
    stated_query: Query,
    user: str,
    left_out: LeftOutShare | None,
    rows: Mapping[int, FoundContributions],
    clipped: Mapping[str, ClippedShare],
) -> list[str]:
    """Return sentences about the shares of groups, rows and users that privately found bounds leave out or clip.

    - `stated_query` is the query as the analyst stated it, and `query` the query with the found bounds.
    - `user` is the name of the user column.
    - `left_out` is the noisy share of (user, group) pairs that the found limit on groups per user leaves out; None if
      the limit was stated.
    - `rows` has the limits on a user's rows that a search found, by the index of the statistic. Each comes with the
      noisy share of rows that the limit leaves out. In a query with groups, only the rows in the largest group of each
      user (the group in which the user has most rows) count for this share.
    - `clipped` has the share of users whose values are clipped, by the name of a statistic.
    """
    groups = query.groups
    values = f"values of {groups[0]}" if len(groups) == 1 else f"combinations of {' and '.join(groups)}"
    notes = [] if left_out is None else [_share_note(f"{values} of each {user}", left_out)]
    where = " in the group where it has most" if groups else ""
    for counted, of_rows in {stated_query.statistics[place].counted_of_user: rows[place] for place in rows}.items():
        notes.append(_share_note(f"{counted} of each {user}{where}", of_rows.left_out))
    drawn = ", each in a group of theirs drawn at random" if groups else ""
    means = {statistic.name for statistic in query.statistics if statistic.kind == "mean"}
    misled = {statistic.name for statistic in query.statistics if statistic.kind in _MISLED_BY_CLIPPING}
    for name, share in clipped.items():
        if share.upper - share.lower > _UNKNOWN_CLIPPED:
            marked = ", so it is marked as unreliable" if name in misled and not share.is_clear else ""
            notes.append(f"How many users the bounds of {name} clip cannot be told within this epsilon{marked}.")
        else:
            effect = f"; {_DIRECTION}" if name in means else ""
            notes.append(f"The bounds of {name} clip about {_share_interval(share)} of users{drawn}{effect}.")
    return notes


def _share_note(counted: str, left_out: LeftOutShare) -> str:
    """Return a sentence on the share of `counted`, such as "rows of each user", that a limit on users leaves out.

    For example: "If none has more than 100, about 7% of the rows of each user are left out." A private search found the
    limit, and `left_out` has its noisy estimate of the share. The estimate considers only the first
    `left_out.of_first` rows (or groups) of each user, here 100. If a user has more, a larger share is left out, so the
    sentence begins with this condition. If the interval of the share is too wide to be useful, the sentence says that
    the share cannot be told.
    """
    if left_out.upper - left_out.lower > _UNKNOWN_SHARE:
        return f"Which share of the {counted} is left out cannot be told within this epsilon."
    share = _left_out_interval(left_out)
    return f"If none has more than {left_out.of_first:,}, {share} of the {counted} are left out."


def _percent(share: float, rounded: Callable[[float], int]) -> str:
    """Return `share` as a percentage: in tenths of a percent below 10%, and in whole percents from 10% on.

    `rounded` is the rounding: `round`, `math.floor` or `math.ceil`.

    >>> _percent(0.032, round), _percent(0.204, math.ceil), _percent(0.0, math.floor)
    ('3.2%', '21%', '0%')
    """
    tenths = rounded(round(1000 * share, 6))
    return f"{tenths / 10:g}%" if tenths < 100 else f"{rounded(round(100 * share, 6))}%"


def interval_note(
    release: Release,
    confidence: Fraction,
    number: str = EXACT_NUMBER,
    intervals: Sequence[Interval | None] | None = None,
    detectable: int | None = None,
) -> str:
    """Return sentences about what the confidence intervals of `release`, a list of noisy counts, promise.

    They also say why some intervals reach further down than the noise alone requires.
    - `number` is the phrase for the exact number that an interval contains with probability `confidence`.
    - `intervals` are the intervals, one for each item; None if they are to be computed here.
    - `detectable` is the least exact count with which an item is listed with probability `confidence`; None if not
      known.

    Returns "" if the release has no counts, or if no count has an interval.
    """
    computed = release.intervals(confidence) if intervals is None else intervals
    present_intervals = [interval for interval in computed if interval is not None]
    if not present_intervals or release.noise is None:
        return ""
    sure = f"{float(confidence):.0%}"
    selection, least = release.selection, release.least
    raw_counts = [item.noisy or 0 for item in release.items]
    if selection is None or (selection.candidates == 1 and selection.threshold is None):
        one = "The" if len(present_intervals) == 1 else "Each"
        sentences = [f"{one} interval holds {number} with probability {sure}."]
    else:
        sentences = [f"On average {sure} of a list's intervals hold {number}."]
        if release.share < 1:
            sentences.append(
                f"These are the {len(raw_counts):,} highest of {selection.candidates:,} noisy counts. The highest are "
                "also the luckiest, so intervals reach further down than up."
            )
        radius = release.noise.radius(1 - (1 - confidence) * release.share)
        plain = (max(noisy - radius, least) for noisy in raw_counts)
        if any(interval.lower < end for interval, end in zip(present_intervals, plain, strict=True)):
            listed = "" if detectable is None else f", as one of {detectable:,} or more does with probability {sure}"
            sentences.append(
                f"An item is listed only when its noisy count passes {selection.threshold:,}{listed}. "
                "Luck may have carried a smaller count over it, so intervals near it reach further down; one that "
                f"starts at {least} cannot tell how small the count may be."
            )
    if any(item.count != max(noisy, least) for item, noisy in zip(release.items, raw_counts, strict=True)):
        sentences.append(FITTED)
    elif min(raw_counts) < least:
        sentences.append(f"Counts drawn below {least} are shown as {least}; `noisy` has them as drawn, for adding up.")
    return " ".join(sentences)


def average_of_all(answer: "PrivateAnswer", displayed_count: int) -> str:
    """Return a sentence that says that the confidence of intervals is an average over all items of `answer`.

    With 95% confidence, for example, about 95% of the intervals of all items contain their exact numbers. A table that
    displays only the first `displayed_count` items needs this sentence, because the share may be lower among these
    items. The result is "" if all items are displayed, if the items have no intervals, or if they have statistics
    instead of one count.
    """
    total = len(answer.items)
    if answer.statistics or total <= displayed_count or answer.items[0].interval is None:
        return ""
    return f"That average is over all {total:,} items, not over the {displayed_count:,} shown."


def measure_text(query: Query, from_text: Sequence[Column] = (), version: str = "", user: str = "") -> str:
    """Return a text that says what the query's answer measures: users, rows or a sum, with the bounds on one user.

    `from_text` are text columns whose cells are parsed as another kind, such as numbers; the text says that cells which
    cannot be parsed are skipped. `version` is the version of a lake table that was read, or "". `user` is the name of
    the user column: if the groups are the users themselves, no group of a user is left out.
    """
    words = "; ".join(_statistics(query.statistics, " per item" if query.item is not None else ""))
    match query.contributions if _limits_groups(query, user) else None:
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
"""What the cells of a column of each kind are called in messages."""


def _statistics(statistics: Sequence[Statistic], where: str) -> list[str]:
    """Return the texts that describe `statistics` in a heading.

    Quantiles of the same column on the same grid of possible values share one text; every other statistic has a text of
    its own. The texts stand in the order of `statistics`. `where` is " per item" if the query has groups, else "".
    """
    together: dict[Statistic, list[Statistic]] = {}
    for statistic in statistics:
        together.setdefault(statistic.alike(), []).append(statistic)
    return [alike[0].description(alike, where) for alike in together.values()]


_PASSED = "every item whose noisy count passed the threshold; rarer ones stay hidden"


def ending(query: Query, item_count: int, complete: bool) -> str:
    """Return a text that says why the list of items in the query's answer has no further items.

    `item_count` is the number of items in the list. `complete` is False if the mechanism stopped at the most items that
    it may list, so that more items might exist.
    """
    if query.item is None:
        return "one number" if len(query.statistics) == 1 else f"{len(query.statistics)} numbers"
    if query.k is not None and item_count == query.k:
        return f"k = {query.k} reached"
    if query.k is None and query.domain is not None:
        return "every item of the domain"
    if query.k is None and not complete:
        return "the limit was reached"
    if item_count == 0:
        return "no item passed the threshold"
    if query.k is None:
        return _PASSED
    passed = "1 item" if item_count == 1 else f"{item_count:,} items"
    return f"only {passed} of the {query.k:,} asked for passed the threshold; rarer ones stay hidden"


_LONGEST = 160
"""The most characters of a request that are shown if it is not a query."""


def question_in_words(query: Mapping[str, Any], unit: str = USER) -> str:
    """Return a query, given in the form of `Query.to_dict`, as a short text for people.

    If `unit` is a part of a user, such as "user,day", the text is about these parts instead of users.

    >>> question_in_words({"kind": "top-k", "item": "word", "k": 10, "where": "country = 'NO'"})
    "Top 10 of word, where country = 'NO'"
    """
    words = in_unit_nouns(_describe_query(query), unit, _names(query))
    if query.get("domain") is not None:
        words += ", from a given list"
    if query.get("where"):
        words += f", where {query['where']}"
    return words


def _describe_query(query: Mapping[str, Any]) -> str:
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
            return _capitalize(STATISTICS[kind].asked_in_words(value, query, _by(query)))
        case {"kind": "query", "statistics": [*statistics]}:
            named = (STATISTICS[each["statistic"]].asked_in_words(each.get("column"), each, "") for each in statistics)
            most = f"top {query['k']}{_by(query, ' of ')}: " if "k" in query else ""
            return _capitalize(most + ", ".join(named) + ("" if most else _by(query)))
        case _:
            return "A question of another kind"


def _names(query: Mapping[str, Any]) -> list[str]:
    """Return the names of the columns in a query that is given in the form of `Query.to_dict`."""
    named = [query.get("value"), *(each.get("column") for each in query.get("statistics", ()))]
    grouped = query.get("item", ())
    return [*filter(None, named), *((grouped,) if isinstance(grouped, str) else grouped)]


def _capitalize(words: str) -> str:
    return words[:1].upper() + words[1:]


def _columns(item: str | list[str]) -> str:
    return item if isinstance(item, str) else " and ".join(item)


def _by(query: Mapping[str, Any], word: str = " by ") -> str:
    return f"{word}{_columns(query['item'])}" if "item" in query else ""


def charge_in_words(request: str, unit: str = USER) -> str:
    """Return a short text for people that says what a charge paid for, about the unit of privacy `unit`.

    `request` is the request text that the ledger stores. If `request` is not the JSON text of a query, the text itself
    is returned, shortened to 160 characters. Bounds that the query left to a search have been found with the charge.

    >>> charge_in_words('{"query": {"kind": "count"}}'), charge_in_words("by hand")
    ('Number of users', 'by hand')
    """
    try:
        body = json.loads(request)
        if isinstance(body, dict) and isinstance(body.get("live"), dict):
            _, counted = unit_nouns(body["live"].get("unit", USER))
            return f"Live series {{name}}: {counted} per {{item}}, every {{every}}".format_map(body["live"])
        if isinstance(body, dict) and isinstance(body.get("statement"), list):
            return "; ".join(dict.fromkeys(charge_in_words(part, unit) for part in body["statement"]))
        query = body["query"]
    except (ValueError, TypeError, KeyError):
        return request if len(request) <= _LONGEST else request[:_LONGEST] + " …"
    if not isinstance(query, dict):
        return str(query)[:_LONGEST]
    words = question_in_words(query, unit)
    searched = ", its bounds to be found"
    return f"{words.replace(searched, '')} (bounds found privately)" if searched in words else words
