"""The search for bounds that a query leaves open (`bounds="auto"`, `contributions="auto"`).

The search spends a tenth of the question's epsilon. The query is then planned again with the bounds found, and
answered within the remaining budget. That second plan must not fail, because by then the question has been charged and
private rows have been read: `budgeted_query` is as costly as any query that the search can lead to, and is planned
before the charge.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import TypeVar, cast

import numpy as np

from setwise.accounting.brackets import float_below
from setwise.accounting.guarantees import ApproxDP, PureDP, Use, merged
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.measure import Measure
from setwise.analytics.query import EVERYTHING, Query
from setwise.analytics.schema import Kind, Schema
from setwise.analytics.statistics.count import Count
from setwise.analytics.statistics.statistic import Statistic
from setwise.analytics.statistics.sum import Sum
from setwise.ledger.account import Receipt
from setwise.mechanisms.doubling_bounds import DOUBLINGS, DoublingBounds
from setwise.mechanisms.planning.request import Total
from setwise.mechanisms.quantile import GridQuantiles
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.statistics import GroupTable

SHARE = Fraction(1, 10)
"""The share of epsilon that the search spends."""

CONTRIBUTIONS_AT = Fraction(9, 10)
"""The share of users whose groups shall all be within the contribution bound found."""

CONTRIBUTIONS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""The contribution bounds that can be found. A short list makes it likelier that noise picks the right one."""

MOST_CONTRIBUTIONS = CONTRIBUTIONS[-1]

FINE_STEPS, COARSE_STEPS = 2**16, 2**10
"""How many steps the larger bound of a sum may have: `FINE_STEPS` for integers where the budget allows it.

A sum of integers is exact while its bound is at most that many steps of 1; a larger bound takes larger steps. The noise
scale, in steps, grows with this number, and must stay below the largest scale that can be drawn.
"""

_STEPS_MARGIN = 16
"""The plan made before the charge has this many times more steps than any plan made after the search.

The noise scale differs between mechanisms with the same budget by less than this factor, so whichever mechanism the
second plan chooses, its noise scale is within range.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBounds:
    """What a search drew: `bounds` holds (low, high) for each of `Search.measures`, and the contribution bound.

    `contributions` is None if the query did not ask for a contribution bound to be found.
    """

    bounds: tuple[tuple[Fraction, Fraction], ...]
    contributions: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The search for the open bounds of `query`: bounds of statistics, and the contribution bound.

    `remaining` is the budget of the answer. It is charged beforehand as one use of that (epsilon, delta), so that
    whatever is planned for the bounds found is paid for.
    """

    query: Query
    remaining: Total
    bounds: DoublingBounds
    groups: GridQuantiles | None
    measures: tuple[Measure, ...]
    """The values whose bins are counted; statistics of the same values share the bounds found."""

    def uses(self) -> tuple[Use, ...]:
        """Return the uses of the search, and one use for the answer."""
        epsilon, delta = float_below(self.remaining.epsilon), float_below(self.remaining.delta)
        answer = ApproxDP(epsilon=epsilon, delta=delta) if delta else PureDP(epsilon=epsilon)
        groups = () if self.groups is None else (Use(self.groups.guarantee),)
        bounds = (Use(self.bounds.guarantee, len(self.measures)),) if self.measures else ()
        return merged((*bounds, *groups, Use(answer)))

    def aggregation(self, whole: Aggregation) -> Aggregation:
        """Return what the engine reads for the search: one row for each user, from one of their groups at random."""
        measures = list(self.measures)
        if self.groups is not None:
            measures.append(Measure(groups=True, least=1, most=MOST_CONTRIBUTIONS, in_cells=True))
        return replace(whole, value=None, per_item=1, contributions=1, measures=tuple(measures), pooled=True)

    def release(self, table: GroupTable, randomness: Randomness) -> FoundBounds:
        """Return the bounds, drawn with noise from the exact counts of `table`."""
        bounds = tuple(
            self.bounds.release(table.cells_of(number, EVERYTHING, 2 * DOUBLINGS + 1), randomness)
            for number in range(len(self.measures))
        )
        if self.groups is None:
            return FoundBounds(bounds=bounds, contributions=None)
        users = table.cells_of(-1, EVERYTHING, MOST_CONTRIBUTIONS)
        upto = np.searchsorted(CONTRIBUTIONS, np.arange(1, MOST_CONTRIBUTIONS + 1))
        counts = np.bincount(upto, users, len(CONTRIBUTIONS)).astype(np.int64)
        (place,) = self.groups.pick(counts, randomness)
        return FoundBounds(bounds=bounds, contributions=CONTRIBUTIONS[place])

    def bounded_query(self, found: FoundBounds, schema: Schema, steps: int) -> Query:
        """Return the query with the bounds found; sums get a step, `steps` of which reach the larger bound."""
        bounds = dict(zip(self.measures, found.bounds, strict=True))
        statistics = list(self.query.statistics)
        for place, statistic in enumerate(self.query.statistics):
            if statistic.is_auto:  # of a user's least and greatest values, the outermost bounds
                lows, highs = zip(*(bounds[measure] for measure in statistic.search_measures()), strict=True)
                statistics[place] = _bounded(statistic, min(lows), max(highs), schema, steps)
        query = replace(self.query, statistics=tuple(statistics), auto_contributions=False)
        if found.contributions is None:
            return query
        return replace(query, contributions=min(found.contributions, self.query.contributions or found.contributions))


_ROUNDING = Fraction(1, 2**45)
"""The part of the remaining epsilon that is given up, so that the sum of the parts, rounded up as a promise must be,
stays within the budget."""


def search_for(query: Query, total: Total) -> Search | None:
    """Return the search for the open bounds of a query, or None if it has no open bounds."""
    searched = (statistic.search_measures() for statistic in query.statistics if statistic.is_auto)
    measures = tuple(dict.fromkeys(chain(*searched)))
    searches = len(measures) + query.auto_contributions
    if not searches:
        return None
    share = total.epsilon * SHARE / searches
    return Search(
        query=query,
        remaining=replace(total, epsilon=total.epsilon * (1 - SHARE) * (1 - _ROUNDING)),
        bounds=DoublingBounds(scale=1 / share),
        groups=GridQuantiles(shares=(CONTRIBUTIONS_AT,), cells=len(CONTRIBUTIONS), epsilon=share)
        if query.auto_contributions
        else None,
        measures=measures,
    )


def has_open_bounds(query: Query) -> bool:
    """Return whether a query leaves bounds, or its contribution bound, to be found."""
    return query.auto_contributions or any(statistic.is_auto for statistic in query.statistics)


def budgeted_query(query: Query, steps: int) -> Query:
    """Return the query that is planned before the charge: as costly as any that a search can lead to.

    The contribution bound is the largest that can be found, and the larger bound of a sum has `_STEPS_MARGIN * steps`
    steps; so many rows of a user are counted at most. The steps of means and quantiles are a share of high - low, so
    that their cost is that of any other bounds.
    """
    statistics = tuple(
        _costliest(statistic, _STEPS_MARGIN * steps) if statistic.is_auto else statistic
        for statistic in query.statistics
    )
    if not query.auto_contributions:
        return replace(query, statistics=statistics)
    bound = min(query.contributions or MOST_CONTRIBUTIONS, MOST_CONTRIBUTIONS)
    return replace(query, statistics=statistics, contributions=bound, auto_contributions=False)


def bounds_in_answer(query: Query, asked: Query) -> dict[str, object]:
    """Return the bounds of `query` that `asked` left open, as plain values by column, and the contribution bound."""
    found: dict[str, object] = {}
    if asked.auto_contributions:
        found["contributions"] = query.contributions
    for statistic, open_statistic in zip(query.statistics, asked.statistics, strict=True):
        bounds = statistic.found_bounds()
        if open_statistic.is_auto and bounds is not None:
            counted = statistic.kind == "count" or statistic.column is None
            found[statistic.name if counted else str(statistic.column)] = list(bounds)
    return found


Drawn = TypeVar("Drawn")


class SearchMemory:
    """Remembers what was drawn for a charge, such as bounds, until the outcome of the charge is stored.

    A question may read rows again after a draw, and how it does so may depend on the draw. Without this memory, a
    question whose engine fails in the second read would draw anew with every retry, at no further charge, and an
    analyst could watch how often or how late it fails. With it, all attempts under a charge that run in this process
    use the same draw. Safe to use from several threads.
    """

    _MOST = 10_000
    """Charges kept; the oldest leave first. Pushing one out takes as many charges."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawn: dict[tuple[str, str, int], dict[str, object]] = {}

    def draw_once(self, receipt: Receipt, purpose: str, draw: Callable[[], Drawn]) -> Drawn:
        """Return what was drawn earlier for a purpose under the charge, or draw it.

        Of two concurrent draws the first stays. A purpose names one draw of the question, always of the same type.
        """
        charge = (receipt.account, receipt.key, receipt.entry)
        with self._lock:
            earlier = self._drawn.get(charge, {})
            if purpose in earlier:
                return cast("Drawn", earlier[purpose])
        drawn = draw()
        with self._lock:
            if charge not in self._drawn and len(self._drawn) >= self._MOST:
                del self._drawn[next(iter(self._drawn))]
            return cast("Drawn", self._drawn.setdefault(charge, {}).setdefault(purpose, drawn))

    def forget(self, receipt: Receipt) -> None:
        """Drop everything that was drawn for a charge whose outcome is stored."""
        with self._lock:
            self._drawn.pop((receipt.account, receipt.key, receipt.entry), None)


def _bounded(statistic: Statistic, low: Fraction, high: Fraction, schema: Schema, steps: int) -> Statistic:
    """Return the statistic with the bounds found and, if it is a sum, the step that fits them.

    The larger bound of a sum is at most `steps` steps if the column holds integers, and at most `COARSE_STEPS` steps
    otherwise. The step is 1 where it can be, because sums of integers are then exact. A count has at most `steps` rows
    of a user.
    """
    if isinstance(statistic, Count):
        return statistic.with_bounds(low, min(high, Fraction(steps)))
    assert statistic.column is not None
    widest = max(abs(low), abs(high))
    if schema.column(statistic.column).kind is Kind.INTEGER and widest >= 1:
        step = max(Fraction(1), widest / steps)
    else:
        step = widest / COARSE_STEPS
    return _with_step(statistic.with_bounds(low, high), step)


def _costliest(statistic: Statistic, steps: int) -> Statistic:
    """Return the statistic with bounds that are as costly as any that can be found, `steps` of which are one step."""
    if isinstance(statistic, Count):
        return statistic.with_bounds(Fraction(0), Fraction(steps))
    return _with_step(statistic.with_bounds(Fraction(0), Fraction(1)), Fraction(1, steps))


def _with_step(statistic: Statistic, step: Fraction) -> Statistic:
    """Return a sum with the step; other statistics choose theirs as a share of high - low (`in_steps`)."""
    return statistic.with_clip(replace(statistic.clipped, step=step)) if isinstance(statistic, Sum) else statistic
