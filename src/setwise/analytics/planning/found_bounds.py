"""Adds to an answer what a private search found: bounds, costs and left-out shares (in words: present/text.py).

If a question leaves bounds open, such as clipping bounds, a private search finds them before the answer is computed.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace

from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.planning.bounds_search import (
    FoundBounds,
    bounds_in_answer,
    bounds_in_words,
    call_with_bounds,
    clipped_shares,
    rows_found,
)
from setwise.analytics.planning.plan import ExecutablePlan
from setwise.analytics.present.text import (
    brief_bounds_note,
    found_shares_notes,
    in_heading,
    unclear_statistics,
    utc_note,
)
from setwise.analytics.query import Query
from setwise.mechanisms.doubling_bounds import ClippedShare
from setwise.mechanisms.release import UNCLEAR, UNCLEAR_QUANTILE, Item


def with_found_bounds(
    answer: PrivateAnswer, planned: ExecutablePlan, bounded: Query, drawn: FoundBounds
) -> PrivateAnswer:
    """Return `answer` with the bounds `drawn` that a search found, and with the cost of search and answer together.

    - `planned` is the plan of the query as it was asked, which left bounds (such as the most rows of a user) to the
      search.
    - `bounded` is the same query with the bounds that the search found.

    The texts of the result say how much these bounds leave out.
    """
    shown_bounds = bounds_in_answer(bounded, planned.query, drawn)
    clipped = clipped_shares(bounded, planned.query, drawn)
    user, rows = planned.aggregation.user, rows_found(planned.query, drawn)
    notes = found_shares_notes(bounded, planned.query, user, drawn.left_out, rows, clipped)
    is_lowered = "kept_contributions" in answer.found  # the share is that of the found bound, which is not in force
    unclear = unclear_statistics(bounded, clipped) if answer.items else {}
    sentences = (("mean", UNCLEAR), ("sum", UNCLEAR), ("quantile", UNCLEAR_QUANTILE))
    reasons = dict.fromkeys(sentence for kind, sentence in sentences if kind in unclear.values())
    brief = brief_bounds_note(bounded, user, drawn.left_out, rows, clipped)
    return replace(
        answer,
        items=tuple(_with_marks(item, unclear) for item in answer.items) if unclear else answer.items,
        interval_note=" ".join(filter(None, (answer.interval_note, *reasons))),
        brief=answer.brief if is_lowered else " ".join(filter(None, (brief, utc_note(planned.in_utc)))),
        interaction=planned.plan.interaction,
        epsilon=planned.plan.epsilon,
        delta=planned.plan.delta,
        method=planned.plan.method,
        statement=planned.plan.statement,
        mechanism=planned.plan.mechanism,
        spent=planned.plan.uses,
        alone=planned.plan.alone,
        why=f"found within a tenth of epsilon: {bounds_in_words(shown_bounds)}; {answer.why}",
        found={**answer.found, **shown_bounds},
        measure="; ".join(filter(None, (answer.measure, *in_heading(notes)))),
        hint="; ".join(filter(None, (_state_bounds(planned.query, clipped) if answer.items else "", answer.hint))),
        left_out=" ".join(filter(None, (answer.left_out, *notes))),
    )


_WIDE_SHARE = 0.25
"""Width of the interval of the share of clipped users from which on stated bounds are suggested: few users stood out
from noise, so the bounds that were found are rough."""


def _state_bounds(query: Query, clipped: Mapping[str, ClippedShare]) -> str:
    """Return a sentence that suggests to state clipping bounds which were found from few users; "" if there are none.

    Ratings are from 1 to 5, and bounds of -8 and 16 were found for them: with stated bounds the interval of a mean was
    twelve times as narrow. `query` is the query as it was asked, and `clipped` has the share of users that the bounds
    of each statistic clip.
    """
    rough = [
        statistic
        for statistic in query.statistics
        if statistic.finds_clip
        and (share := clipped.get(statistic.name)) is not None
        and share.upper - share.lower > _WIDE_SHARE
    ]
    calls = dict.fromkeys(call_with_bounds(statistic, "low", "high") for statistic in rough)
    if not calls:
        return ""
    columns = " and ".join(dict.fromkeys(str(statistic.column) for statistic in rough))
    calls_in_words = ", ".join(calls)
    return (
        f"if bounds of {columns} are known, state low and high, or in SQL {calls_in_words}: intervals are then narrower"
    )


def _with_marks(item: Item, places: Collection[int]) -> Item:
    """Return `item`, a released group, with some of its estimates marked as unreliable.

    `places` are the indexes of these estimates: means, sums and quantiles whose clipping bounds may be those of noise.
    """
    estimates = (
        replace(estimate, unreliable=True) if place in places else estimate
        for place, estimate in enumerate(item.estimates)
    )
    return replace(item, estimates=tuple(estimates))
