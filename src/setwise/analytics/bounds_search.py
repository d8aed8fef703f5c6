"""Bounds that a question leaves to be found: a tenth of its epsilon finds them first, and the rest answers it."""

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from setwise.accounting.brackets import float_below
from setwise.accounting.guarantees import ApproxDP, PureDP, Use, merged
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.measure import Measure
from setwise.analytics.query import EVERYTHING, Query
from setwise.mechanisms.planning.request import Total
from setwise.mechanisms.quantile import GridQuantiles
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.statistics import DOUBLINGS, DoublingBounds, GroupTable

SHARE = Fraction(1, 10)
"""The share of epsilon that finds bounds."""

CONTRIBUTIONS_AT = Fraction(9, 10)
"""The share of users who are to count towards every group they have."""

CONTRIBUTIONS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""The numbers of groups of a user that can be found: the fewer there are, the surer is the right one."""

MOST_CONTRIBUTIONS = CONTRIBUTIONS[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """What is found before a question is answered: bounds of statistics, and groups per user, within `share`.

    `rest` is the total of what answers the question then, charged beforehand as one use: whatever is planned for the
    bounds found is within it.
    """

    query: Query
    rest: Total
    bounds: DoublingBounds
    groups: GridQuantiles | None
    places: tuple[int, ...]
    """Which statistics have bounds to be found: of those that look at the same values, the first."""

    def uses(self) -> tuple[Use, ...]:
        """Return what finding the bounds costs, and what is set aside for the answer."""
        epsilon, delta = float_below(self.rest.epsilon), float_below(self.rest.delta)
        answer = ApproxDP(epsilon=epsilon, delta=delta) if delta else PureDP(epsilon=epsilon)
        found = () if self.groups is None else (Use(self.groups.guarantee),)
        bounds = (Use(self.bounds.guarantee, len(self.places)),) if self.places else ()
        return merged((*bounds, *found, Use(answer)))

    def aggregation(self, whole: Aggregation) -> Aggregation:
        """Return what the engine is asked for first: one line for every user, from one of their groups at random."""
        measures = [self.query.statistics[place].search_measure() for place in self.places]
        if self.groups is not None:
            measures.append(Measure(groups=True, least=1, most=MOST_CONTRIBUTIONS, in_cells=True))
        return replace(whole, value=None, per_item=1, contributions=1, measures=tuple(measures), pooled=True)

    def release(self, table: GroupTable, randomness: Randomness) -> Query:
        """Return the query with the bounds found."""
        statistics = list(self.query.statistics)
        for place, number in enumerate(self.places):
            low, high = self.bounds.release(table.cells_of(place, EVERYTHING, 2 * DOUBLINGS + 1), randomness)
            looked_for = self.query.statistics[number].search_measure()
            for other, each in enumerate(self.query.statistics):
                if each.is_auto and each.search_measure() == looked_for:
                    statistics[other] = each.with_bounds(low, high)
        query = replace(self.query, statistics=tuple(statistics), auto_contributions=False)
        if self.groups is None:
            return query
        users = table.cells_of(-1, EVERYTHING, MOST_CONTRIBUTIONS)
        upto = np.searchsorted(CONTRIBUTIONS, np.arange(1, MOST_CONTRIBUTIONS + 1))
        counts = np.bincount(upto, users, len(CONTRIBUTIONS)).astype(np.int64)
        (place,) = self.groups.pick(counts, randomness)
        picked = CONTRIBUTIONS[place]
        return replace(query, contributions=min(picked, self.query.contributions or picked))


def search_for(query: Query, total: Total) -> Search | None:
    """Return what is to be found for a query, or None where it has all its bounds."""
    firsts: dict[Measure, int] = {}
    for place, each in enumerate(query.statistics):
        if each.is_auto:
            firsts.setdefault(each.search_measure(), place)
    places = tuple(firsts.values())
    searches = len(places) + query.auto_contributions
    if not searches:
        return None
    share = total.epsilon * SHARE / searches
    return Search(
        query=query,
        rest=replace(total, epsilon=total.epsilon * (1 - SHARE)),
        bounds=DoublingBounds(scale=1 / share),
        groups=GridQuantiles(shares=(CONTRIBUTIONS_AT,), cells=len(CONTRIBUTIONS), epsilon=share)
        if query.auto_contributions
        else None,
        places=places,
    )


def with_any_bounds(query: Query) -> Query:
    """Return the query as costly as it can become: every bound to be found is there, contributions at their most."""
    unit = Fraction(0), Fraction(1)
    statistics = tuple(each.with_bounds(*unit) if each.is_auto else each for each in query.statistics)
    bound = query.contributions or MOST_CONTRIBUTIONS
    if not query.auto_contributions:
        return replace(query, statistics=statistics)
    return replace(query, statistics=statistics, contributions=bound, auto_contributions=False)


def found_in(query: Query, asked: Query) -> dict[str, object]:
    """Return what was found for a query, as plain values."""
    found: dict[str, object] = {}
    if asked.auto_contributions:
        found["contributions"] = query.contributions
    for each, before in zip(query.statistics, asked.statistics, strict=True):
        bounds = each.found_bounds()
        if before.is_auto and bounds is not None and each.column is not None:
            found[each.column] = list(bounds)
    return found
