"""The private search for bounds that a query leaves open: clipping bounds, and limits on a user's groups and rows.

A query leaves bounds open by `bounds="auto"` or `contributions="auto"`. The search spends a tenth of the question's
epsilon. The query is then planned again with the bounds that the search found, and answered within the remaining
budget. This second plan must not fail, because by then the question has been charged and private rows have been read.
Therefore the query is also planned before the charge, with bounds that cost at least as much as any that can be found
(`budgeted_query`).
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.brackets import float_below
from setwise.accounting.guarantees import ApproxDP, PureDP, Use, merged
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.measure import Measure
from setwise.analytics.planning.limits_choice import READ_GROUPS, ExpectedError, LikelyUsers, choose_limits
from setwise.analytics.query import EVERYTHING, Query
from setwise.analytics.schema import Kind, Schema
from setwise.analytics.statistics.mean import Mean
from setwise.analytics.statistics.search_measures import overlap_measure
from setwise.analytics.statistics.statistic import GROUP_BOUNDS, BoundedStatistic, Statistic
from setwise.analytics.statistics.sum import Sum
from setwise.ledger.account import Receipt
from setwise.mechanisms.contribution_bound import (
    LARGEST_BOUND,
    MOST_GROUPS,
    MOST_ROWS,
    ContributionSearch,
    FoundContributions,
    LeftOutShare,
    row_search,
)
from setwise.mechanisms.doubling_bounds import DOUBLINGS, ClippedShare, DoublingBounds, FoundRange
from setwise.mechanisms.intervals import CONFIDENCE
from setwise.mechanisms.planning.request import Total
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.statistic_release import GroupTable
from setwise.mechanisms.value_overlap import KEPT, RANK_BINS, OverlapMeasurement, ValueGrowth

SHARE = Fraction(1, 10)
"""The share of the question's epsilon that the search spends."""

OVERLAP_SHARE = Fraction(1, 2)
"""What the measurement of the values that users have in common spends, as a part of what one search for a limit spends.
"""

CLIPPED_WEIGHT = 3
"""How many times as much the clipped part of a mean weighs as the expected noise when its bounds are chosen. The
interval of the mean allows for noise of three times the expected size, but not for values that are clipped."""

FINE_STEPS, COARSE_STEPS = 2**16, 2**10
"""How many steps the larger bound of a sum may have: `FINE_STEPS` for integers if the budget allows, else
`COARSE_STEPS`.

A sum of integers is exact while its bound is at most that many steps of 1; a larger bound takes larger steps. The noise
scale, in steps, grows with this number and must stay below the largest noise scale that can be sampled.
"""

_STEPS_MARGIN = 16
"""The plan that is made before the charge has this many times more steps than any plan that is made after the search.

With the same budget, the noise scales of different mechanisms differ by less than this factor. So whichever mechanism
the second plan chooses, its noise scale is one that can be sampled.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBounds:
    """The bounds that a private search found. They are noisy, so they may be published.

    - `bounds` has clipping bounds (low, high) for each measure of the search (`Search.measures`). A measure is a number
      that is computed for each user, such as the user's sum of a column.
    - `ranges` has, for each entry of `bounds`, the noisy numbers of users in bins of values from which it was chosen.
    - `contributions` is the most groups in which one user counts; None if the query states it.
    - `left_out` is the noisy share of (user, group) pairs that `contributions` leaves out; None if the query states
      `contributions`.
    - `rows` has one entry for each kind of rows that the search was about (`Search.row_measures`): the most rows of one
      user that count in a group, and the noisy share of rows that this limit leaves out.
    - `largest_group` is an estimate of the count of the largest group, made from the noisy numbers; None if there is no
      estimate.
    """

    bounds: tuple[tuple[Fraction, Fraction], ...] = ()
    ranges: tuple[FoundRange, ...] = ()
    contributions: int | None = None
    left_out: LeftOutShare | None = None
    rows: tuple[FoundContributions, ...] = ()
    largest_group: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The private search for the bounds that `query` leaves open. It runs before the mechanism of the answer.

    - `remaining` is the (epsilon, delta) that the search leaves to the answer. Search and answer are charged together,
      before the search runs.
    - `bounds` is the mechanism that finds clipping bounds. It runs once for each of `measures`. A measure is a number
      per user, such as the user's sum of a column.
    - `groups` is the mechanism that finds the limit on the groups in which one user counts; None if the query states
      the limit.
    - `rows` is the mechanism that finds the limit on one user's rows in a group. It runs once for each of
      `row_measures`, which count the rows of each user: all rows, those with a value in some column, or distinct values
      of a column.
    - `overlap` is the mechanism that measures how many values users have in common. It runs once for each of
      `row_measures` that counts distinct values.
    """

    query: Query
    remaining: Total
    bounds: DoublingBounds
    groups: ContributionSearch | None
    rows: ContributionSearch
    overlap: OverlapMeasurement
    measures: tuple[Measure, ...]
    row_measures: tuple[Measure, ...]

    def uses(self) -> tuple[Use, ...]:
        """Return the charge of a question with a search for bounds: privacy guarantees, each with a number of runs.

        The mechanisms of the search come first. The last entry is one (epsilon, delta)-DP guarantee with all the budget
        that remains for the answer, because the answer's mechanism is chosen only after the search.
        """
        epsilon, delta = float_below(self.remaining.epsilon), float_below(self.remaining.delta)
        answer = ApproxDP(epsilon=epsilon, delta=delta) if delta else PureDP(epsilon=epsilon)
        groups = () if self.groups is None else (Use(self.groups.guarantee),)
        bounds = (Use(self.bounds.guarantee, len(self.measures)),) if self.measures else ()
        rows = (Use(self.rows.guarantee, len(self.row_measures)),) if self.row_measures else ()
        overlaps = len(self._overlap_measures)
        overlap = (Use(self.overlap.guarantee, overlaps),) if overlaps else ()
        return merged((*bounds, *groups, *rows, *overlap, Use(answer)))

    @property
    def _overlap_measures(self) -> list[Measure]:
        """The measures by which the engine counts the values that users have in common, one for each counted column."""
        return [overlap_measure(str(measure.column)) for measure in self.row_measures if measure.unique]

    def aggregation(self, query_aggregation: Aggregation) -> Aggregation:
        """Return the request to the engine for the exact counts of users from which this search chooses bounds.

        The search adds noise to the counts before it uses them.

        - For clipping bounds, the engine counts the users in bins of values whose ends are powers of two.
        - For limits on a user's groups or rows, it counts the users with 1, 2, 3, .. groups or rows.
        - For limits on a user's distinct values, it also counts the distinct values by their smallest rank in the
          random orders of users' values. Every user counts in one group here, drawn at random.

        `query_aggregation` is the request for the query itself. Its filter, groups and user column are kept, and its
        counts or sums are replaced by these counts of users, which are added up over all groups.
        """
        measures = [*self.measures, *self.row_measures, *self._overlap_measures]
        if self.groups is not None:
            measures.append(Measure(groups=True, least=1, most=MOST_GROUPS, in_cells=True))
        return replace(
            query_aggregation, value=None, per_item=1, contributions=1, measures=tuple(measures), pooled=True
        )

    def release(self, table: GroupTable, steps: int, randomness: Randomness) -> FoundBounds:
        """Add noise to the counts in `table`, and return the bounds that are chosen from the noisy counts.

        The bounds are those that the query left open: clipping bounds, and limits on the number of a user's groups and
        on a user's rows in a group.

        - `table` has the exact counts of users, which the engine returned for the request that the method `aggregation`
          made.
        - `steps` is the largest limit on a user's rows in a group that may be chosen. Noise grows with this limit, and
          too much noise cannot be sampled.
        - `randomness` is the source of the noise.
        """
        contributions, rows, largest_group = self._release_limits(table, steps, randomness)
        known_contributions = (
            contributions.bound if contributions else self.query.contributions or len(self.query.domain or (1,))
        )
        noise_of_row = self._noise_of_row(known_contributions)
        noise_of_width = noise_of_row / CLIPPED_WEIGHT
        sums, means = (
            {
                measure
                for statistic in self.query.statistics
                if isinstance(statistic, kind) and statistic.is_auto
                for measure in statistic.search_measures()
            }
            for kind in (Sum, Mean)
        )
        ranges = tuple(
            self.bounds.release(
                table.cells_of(number, EVERYTHING, 2 * DOUBLINGS + 1),
                randomness,
                (lambda bound: bound * noise_of_row) if measure in sums else None,
                noise_of_width if measure in means else None,
            )
            for number, measure in enumerate(self.measures)
        )
        return FoundBounds(
            bounds=tuple((bounds.low, bounds.high) for bounds in ranges),
            ranges=ranges,
            contributions=None if contributions is None else contributions.bound,
            left_out=None if contributions is None else contributions.left_out,
            rows=rows,
            largest_group=largest_group,
        )

    def _release_limits(
        self, table: GroupTable, steps: int, randomness: Randomness
    ) -> tuple[FoundContributions | None, tuple[FoundContributions, ...], float | None]:
        """Choose limits on one user from noisy numbers; return (limit on groups, limits on rows, largest count).

        - The limit on a user's groups is None if the query states it.
        - There is one limit on a user's rows in a group for each of `row_measures`, the kinds of rows that the query
          counts.
        - The largest count is a rough estimate of the count that the largest group will have; None if the search is
          about clipping bounds only.

        All limits are chosen together, because each limit affects the noise of the same answer: it is proportional to
        the limit on rows, and grows with the limit on groups.

        - `table` has the exact numbers of users with 1, 2, 3, ... groups or rows, to which this method adds noise.
        - `steps` is the largest limit on rows that may be chosen.
        - `randomness` is the source of the noise.
        """
        # All noise is drawn before the first choice, so the intervals of the shares hold for any way of choosing.
        stated = self.query.contributions or len(self.query.domain or (1,))
        contributions: Sequence[int] = (stated,)
        groups = LikelyUsers(numbers=np.array([(1.0 + min(stated, self._group_count)) / 2]), users=np.ones(1))
        if self.groups is not None:
            noisy_groups = self.groups.draw(table.cells_of(-1, EVERYTHING, MOST_GROUPS), randomness)
            last_group = self.groups.last_occupied(noisy_groups, self._noise_at)
            groups = _likely(self.groups, noisy_groups, last_group)
            contributions = self.groups.bounds
        search = row_search(self.rows.scale, steps)
        first = len(self.measures)
        noisy_rows = [
            search.draw(table.cells_of(number, EVERYTHING, MOST_ROWS + 1)[1:], randomness)
            for number in range(first, first + len(self.row_measures))
        ]
        first += len(self.row_measures)
        overlaps = iter(
            self.overlap.draw(table.cells_of(number, EVERYTHING, RANK_BINS), randomness)
            for number in range(first, first + len(self._overlap_measures))
        )
        noisy_values = [next(overlaps) if measure.unique else None for measure in self.row_measures]
        expected = self._expected_error
        noise_of_row = self._noise_of_row(choose_limits(expected, contributions, groups, (), ()).contributions)
        last_rows = [search.last_occupied(noisy, lambda bound: bound * noise_of_row) for noisy in noisy_rows]
        rows = [
            replace(likely, known=last + 1, growth=None if values is None else self._growth(likely, values))
            for likely, last, values in zip(
                (_likely(search, noisy, last) for noisy, last in zip(noisy_rows, last_rows, strict=True)),
                last_rows,
                noisy_values,
                strict=True,
            )
        ]
        limits = choose_limits(expected, contributions, groups, search.bounds, rows)
        found_rows = zip(noisy_rows, limits.rows, last_rows, strict=True)
        search = replace(search, least=1)  # a limit on distinct values may be 1
        return (
            None if self.groups is None else self.groups.describe(noisy_groups, limits.contributions, last_group),
            tuple(search.describe(noisy, row_limit, last) for noisy, row_limit, last in found_rows),
            limits.largest_group if rows or self.groups is not None else None,
        )

    def _growth(self, likely: LikelyUsers, noisy_values: tuple[int, ...]) -> ValueGrowth:
        """Return how the number of distinct values grows with the number of values that are kept of users.

        `likely` estimates how many users have how many values in a group, and `noisy_values` are the noisy numbers of
        distinct values among the first `KEPT` values of each user.
        """
        pairs = tuple(max(0.0, float(likely.users @ np.minimum(likely.numbers, kept))) for kept in KEPT)
        return self.overlap.fit(noisy_values, pairs, self._group_count)

    @property
    def _expected_error(self) -> ExpectedError:
        """An object that computes the expected error of the answer for any limits on one user's groups and rows.

        The search tries many limits, and chooses those with the smallest error.
        """
        query = self.query
        most = query.k or (None if query.domain is None else len(query.domain))
        is_private = query.item is not None and query.domain is None
        return ExpectedError(
            epsilon=float(self.remaining.epsilon),
            delta=float(self.remaining.delta),
            groups=self._group_count,
            most=most,
            # The groups of several statistics are found in rounds even for few groups of a user.
            is_hidden=is_private and (query.counted is not None or query.k is not None),
        )

    def _noise_of_row(self, contributions: int) -> float:
        """Estimate how much the answer's noise grows, in rows, if one more row of each user counts in a group.

        The caller compares this growth with the number of rows that a limit on a user's rows would leave out. This
        number is known only for one group of each user, the group in which the user has the most rows, while noise is
        added in all groups. So the noise of all groups is divided by the number of groups in which a user has rows that
        are left out. That number is not known; it is taken to be the midpoint between 1 and `contributions`, the limit
        on a user's groups (or between 1 and the number of groups that an analyst is expected to read, if this is less).
        """
        # The rows that a bound leaves out are known in one group only, the one in which a user has the most. In all
        # groups together it leaves out 1 to `contributions` times as many, so the noise is divided by the midpoint.
        groups = (1 + min(contributions, self._group_count)) / 2
        return self._noise_at(contributions) / groups

    @property
    def _group_count(self) -> int:
        """The number of groups whose noise is added up when the search chooses a limit on a user's groups or rows.

        A higher limit leaves fewer rows out, but all counts then need more noise. So the search weighs two numbers: the
        rows that a limit leaves out, and the noise of this many groups.

        - For a top k, the number is `k`.
        - For public groups, it is the number of these groups.
        - For private groups, it is 20 (`READ_GROUPS`), the number of groups that an analyst is expected to read.
        - For a query without groups, it is 1.
        """
        query = self.query
        return 1 if query.item is None else query.k or (READ_GROUPS if query.domain is None else len(query.domain))

    def _noise_at(self, bound: int) -> float:
        """Estimate the total noise of an answer, in users, if a user counts in at most `bound` groups.

        The total is the noise scale of one group's number of users, times the number of groups that an analyst is
        expected to read (`_group_count`). The search for a bound compares the total with the number of (user, group)
        pairs that `bound` leaves out, because each pair is one user missing in one group.
        """
        return self._group_count * self._expected_error.noise_scale(bound)

    def bounded_query(self, found_bounds: FoundBounds, schema: Schema, steps: int) -> Query:
        """Return the search's query with `found_bounds`, the bounds that the private search has found.

        Bounds are the most groups or rows in which a user counts, and the clipping bounds of sums, means and quantiles.
        `schema` describes the table.

        `steps` is a limit for two numbers: how many rows of a user count, and how much one user adds to a sum of
        integers, counted in rounding steps (a user's own sum is rounded to a multiple of the step). The noise is in
        proportion to what one user may add, and larger noise could not be sampled.
        """
        bounds = dict(zip(self.measures, found_bounds.bounds, strict=True))
        rows = dict(zip(self.row_measures, found_bounds.rows, strict=True))
        statistics = list(self.query.statistics)
        for place, statistic in enumerate(self.query.statistics):
            if statistic.finds_clip:  # the outermost of the bounds of the users' least and greatest values
                lows, highs = zip(*(bounds[measure] for measure in statistic.search_measures()), strict=True)
                statistics[place] = _with_clip_found(statistic, min(lows), max(highs), schema, steps)
            if statistic.finds_rows:
                most = min(rows[statistic.row_measure()].bound, steps)
                statistics[place] = statistics[place].with_rows(most, steps)
        query = replace(self.query, statistics=tuple(statistics), auto_contributions=False)
        if found_bounds.contributions is None:
            return query
        return replace(query, contributions=found_bounds.contributions)


def _likely(search: ContributionSearch, noisy: NDArray[np.float64], last: int) -> LikelyUsers:
    """Return an estimate of how many users have how many groups (or rows), from which the limits on a user are chosen.

    The estimate comes from the noisy numbers that a private search released.

    - `search` has the bins. A bin is a range of numbers of groups (or rows) per user.
    - `noisy[i]` is the noisy number of users in the i-th bin.
    - `last` is the index of the last bin whose noisy number shows that it has users. In later bins only a few users,
      whom noise may hide, are estimated.
    """
    return LikelyUsers(numbers=np.array(search.ends, dtype=float), users=search.likely_users(noisy, last))


_ROUNDING = Fraction(1, 2**45)
"""The part of the remaining epsilon that is given up. The epsilons of the search and of the answer are each rounded up
when they are promised, and their sum must stay within the budget."""


def search_for(query: Query, total: Total) -> Search | None:
    """Return the search for the bounds that `query` leaves open; None if the query states all its bounds.

    Bounds are clipping bounds, and the most groups or rows in which one user counts. `total` is the (epsilon, delta) of
    search and answer together. The search spends a tenth of epsilon and no delta.
    """
    every_measure = _searched_measures(query)
    measures = tuple(measure for measure in every_measure if measure.doubling)
    searches = len(every_measure) + query.auto_contributions
    if not searches:
        return None
    overlaps = sum(measure.unique for measure in every_measure)
    share = total.epsilon * SHARE / (searches + OVERLAP_SHARE * overlaps)
    return Search(
        query=query,
        remaining=replace(total, epsilon=total.epsilon * (1 - SHARE) * (1 - _ROUNDING)),
        bounds=DoublingBounds(scale=1 / share),
        groups=ContributionSearch(scale=1 / share, most=min(query.contributions or LARGEST_BOUND, LARGEST_BOUND))
        if query.auto_contributions
        else None,
        rows=row_search(1 / share),
        overlap=OverlapMeasurement(share=OVERLAP_SHARE * share),
        measures=measures,
        row_measures=tuple(measure for measure in every_measure if not measure.doubling),
    )


def _searched_measures(query: Query) -> tuple[Measure, ...]:
    """Return the measures from which a private search finds the bounds that `query` leaves open, without duplicates.

    A measure is a number per user, such as the user's sum of a column.
    """
    clipped = (statistic.search_measures() for statistic in query.statistics if statistic.finds_clip)
    return tuple(dict.fromkeys((*chain(*clipped), *_searched_row_measures(query))))


def _searched_row_measures(query: Query) -> tuple[Measure, ...]:
    """Return the measures from which a private search finds how many rows of a user count, without duplicates.

    A measure is a number that is computed for each user. Each statistic of the query that leaves its limit on a
    user's rows open names one: how many rows, or how many distinct values, a user has in the group where the user
    has the most.
    """
    return tuple(dict.fromkeys(each.row_measure() for each in query.statistics if each.finds_rows))


def has_open_bounds(query: Query) -> bool:
    """Return whether the query leaves some of its bounds to a private search.

    A bound that may be left open is a clipping bound, the most groups in which one user counts, or the most rows of one
    user that count.
    """
    return query.auto_contributions or any(statistic.is_auto for statistic in query.statistics)


def open_bounds(query: Query) -> list[str]:
    """Return phrases that name the bounds which the query leaves to a private search, for error messages.

    Each phrase says how to state the bound, such as "how many groups one user counts in, as in contributions = 1".
    """
    found = ["how many groups one user counts in, as in contributions = 1"] if query.auto_contributions else []
    clipped = dict.fromkeys(call_with_bounds(each, "0", "100") for each in query.statistics if each.finds_clip)
    if clipped:
        found.append(f"the bounds of one user's values, as in low = 0 and high = 100, or in SQL {', '.join(clipped)}")
    counted = {each.counted_of_user: call_with_bounds(each, "0", "5") for each in query.statistics if each.finds_rows}
    return [
        *found,
        *(f"how many {each} of one user count, as in per_user = 5, or in SQL {call}" for each, call in counted.items()),
    ]


def call_with_bounds(statistic: Statistic, low: str, high: str) -> str:
    """Return the SQL call of `statistic` with the bounds `low` and `high`, for example of AVG."""
    column = statistic.column or "*"
    if statistic.kind in ("count", "distinct"):
        counted = column if statistic.kind == "count" else f"DISTINCT {column}"
        return f"COUNT({counted}, {GROUP_BOUNDS} => ({low}, {high}))"
    name, function = next(iter(statistic.sql.items()))
    if function.takes_rows:  # both bounds are to be found, so that both phrases have the same call
        return f"{name}({column}, {function.bounds} => ({low}, {high}), max_rows_contributed => 5)"
    return f"{name}({column}, {function.bounds} => ({low}, {high}))"


def budgeted_query(query: Query, steps: int) -> Query:
    """Return `query` with the costliest bounds that its private search could find, to plan it before the search.

    The planner plans the returned query before anything is charged. If its plan fits the budget, so does the plan with
    the bounds that the search then finds.

    `steps` limits what the search may find: a user adds at most `steps` rounding steps to a sum, and at most `steps`
    rows to a count. In the returned query these limits are 16 times as large (`_STEPS_MARGIN`). The planner may choose
    another mechanism after the search than before it; with this margin, the noise scale planned before is at least the
    one planned afterwards, whichever mechanism is chosen.
    """
    statistics = tuple(
        # The margin makes this noise scale at least that of any later plan: if it can be sampled, so can the later
        # noise. Means and quantiles have a fixed number of steps, so their cost does not depend on the bounds.
        _costliest(statistic, _STEPS_MARGIN * steps) if statistic.is_auto else statistic
        for statistic in query.statistics
    )
    if not query.auto_contributions:
        return replace(query, statistics=statistics)
    bound = min(query.contributions or LARGEST_BOUND, LARGEST_BOUND)
    return replace(query, statistics=statistics, contributions=bound, auto_contributions=False)


_EXAMPLE_GROUPS, _EXAMPLE_ROWS, _EXAMPLE_HIGH = 4, 16, 100
"""The contribution bound, the most rows of a user in a group, and the upper bound of values (the lower one is 0) for
which a preview states the error of an answer whose bounds are still to be found."""


def example_queries(query: Query, steps: int) -> list[tuple[Query, str]]:
    """Return at most two pairs (`query` with example bounds, a phrase that states these bounds), for a preview.

    The query leaves some bounds, such as the most rows of a user, to a private search, which runs only after the
    charge. So a preview states the expected error for example bounds. The first pair has typical bounds (4 groups and
    16 rows of a user). The second has the largest limits on a user's groups and rows that the search can find, and so
    the largest error; it is left out if the query states both limits. A limit on rows that can be found is at most
    `steps`.
    """
    likely = _with_bounds(query, _EXAMPLE_GROUPS, _EXAMPLE_ROWS)
    worst = _with_bounds(query, LARGEST_BOUND, min(MOST_ROWS, steps))
    phrases = [f"for example, {likely[1]}", f"with the largest limits that may be found, {worst[1]}"]
    return list(zip((likely[0], worst[0]), phrases, strict=True))[: 1 if likely[1] == worst[1] else 2]


def _with_bounds(query: Query, groups: int, rows: int) -> tuple[Query, str]:
    """Return (`query` with example limits in place of those that a private search is to find, a phrase about them).

    The preview of the query states its error with these limits, such as "if amount is between 0 and 100 and at most 16
    rows of a user count".

    - `groups` takes the place of a limit on a user's groups, and `rows` that of a limit on a user's rows in a group.
    - 0 and 100 (`_EXAMPLE_HIGH`) take the place of clipping bounds.
    """
    assumed = []
    statistics = list(query.statistics)
    for place, statistic in enumerate(query.statistics):
        if statistic.finds_clip:
            statistics[place] = statistics[place].with_bounds(Fraction(0), Fraction(_EXAMPLE_HIGH))
            assumed.append(f"{statistic.column} is between 0 and {_EXAMPLE_HIGH}")
        if statistic.finds_rows:
            statistics[place] = statistics[place].with_rows(rows, COARSE_STEPS)
            assumed.append(f"at most {rows:,} {statistic.counted_of_user} of a user count")
    query = replace(query, statistics=tuple(statistics))
    if query.auto_contributions:
        most = min(query.contributions or groups, groups)
        query = replace(query, contributions=most, auto_contributions=False)
        assumed.insert(0, f"a user counts towards at most {most:,} groups")
    return query, f"if {' and '.join(dict.fromkeys(assumed))}"


def bounds_in_answer(query: Query, stated_query: Query, found_bounds: FoundBounds) -> dict[str, object]:
    """Return the bounds that a private search found, and how much they leave out, for `PrivateAnswer.found`.

    For example {"amount": [0.0, 512.0], "contributions": 8, "left_out": {...}}. `stated_query` is the query as the
    analyst stated it, and `query` the query with the bounds in `found_bounds`. Only bounds that the analyst left open
    are listed. The keys are:
    - The name of a column: its clipping bounds [low, high]. If statistics of one column have different bounds, the name
      of each statistic takes the column's place.
    - The name of a count of rows or of distinct values: [0, the most rows or values of a user that count in a group].
    - "rows of" and the name of a variance, such as "rows of variance_age": [0, the most rows of a user that count].
    - "contributions": the most groups in which one user counts.
    - "left_out": the estimated share of (user, group) pairs that this limit leaves out.
    - "left_out_rows": for each statistic, by name, the share of rows that the found limit on a user's rows leaves out.
    - "clipped_users": for each statistic, by name, the share of users whose values are clipped.
    """
    record: dict[str, object] = {}
    if stated_query.auto_contributions:
        record["contributions"] = query.contributions
    if found_bounds.left_out is not None:
        record["left_out"] = found_bounds.left_out.to_dict()
    rows = rows_found(stated_query, found_bounds)
    if rows:
        record["left_out_rows"] = {
            query.statistics[place].name: of_rows.left_out.to_dict() for place, of_rows in rows.items()
        }
    clipped = clipped_shares(query, stated_query, found_bounds)
    if clipped:
        record["clipped_users"] = {name: share.to_dict() for name, share in clipped.items()}
    opened = [each for each, of in zip(query.statistics, stated_query.statistics, strict=True) if of.finds_clip]
    for statistic in opened:
        bounds = {each.clip_range() for each in opened if each.column == statistic.column}
        ends = statistic.clip_range()
        if ends is not None:
            record[statistic.name if len(bounds) > 1 else str(statistic.column)] = list(ends)
    for place in rows:
        statistic = query.statistics[place]
        record[statistic.rows_name] = [0.0, float(statistic.most_rows or 1)]
    return record


def bounds_in_words(record: Mapping[str, object]) -> str:
    """Return, as text, the bounds that a private search found, such as "age between 0 and 64".

    `record` is a result of `bounds_in_answer`. It also has the shares of what the bounds leave out, which are
    dictionaries and not part of the text.

    >>> bounds_in_words({"age": [0.0, 64.0]})
    'age between 0 and 64'
    """
    bounds = {name: value for name, value in record.items() if not isinstance(value, dict)}
    return ", ".join(
        f"{name} between {value[0]:g} and {value[1]:g}" if isinstance(value, list) else f"{name} {value}"
        for name, value in bounds.items()
    )


def rows_found(stated_query: Query, found_bounds: FoundBounds) -> dict[int, FoundContributions]:
    """Return the limit on one user's rows that a search found, for each statistic of the query that had left it open.

    The keys are the indexes of these statistics in the query. A value has the most rows of one user that count in a
    group, and the noisy share of rows that this limit leaves out. `stated_query` is the query as the analyst stated it,
    and `found_bounds` are the results of its search.
    """
    found = dict(zip(_searched_row_measures(stated_query), found_bounds.rows, strict=True))
    statistics = enumerate(stated_query.statistics)
    return {place: found[statistic.row_measure()] for place, statistic in statistics if statistic.finds_rows}


def clipped_shares(query: Query, stated_query: Query, found_bounds: FoundBounds) -> dict[str, ClippedShare]:
    """Return, for each statistic with bounds that a search found, the share of users whose values they clip, by name.

    A share is estimated from the noisy numbers that the private search released, and shown beside the answer. Its
    interval contains the exact share with probability 95%.

    - `stated_query` is the query as the analyst stated it, without these bounds.
    - `query` is the query with the bounds in `found_bounds`.
    """
    measures = [measure for measure in _searched_measures(stated_query) if measure.doubling]
    ranges = dict(zip(measures, found_bounds.ranges, strict=True)) if found_bounds.ranges else {}
    clipped = {}
    for statistic, before in zip(query.statistics, stated_query.statistics, strict=True):
        if ranges and before.finds_clip and isinstance(statistic, BoundedStatistic):
            low, high = statistic.clip_bounds.low, statistic.clip_bounds.high
            measures_of_statistic = before.search_measures()
            confidence = 1 - (1 - CONFIDENCE) / len(measures_of_statistic)
            shares = [ranges[measure].clipped_share(low, high, confidence) for measure in measures_of_statistic]
            clipped[statistic.name] = ClippedShare(
                # One share is of users whose least value is clipped, one of users whose greatest is. Users may be in
                # both, so the share of clipped users is between the larger share and the sum.
                share=max(share.share for share in shares),
                lower=max(share.lower for share in shares),
                upper=min(1.0, sum(share.upper for share in shares)),
                is_clear=all(share.is_clear for share in shares),
            )
    return clipped


DrawnValue = TypeVar("DrawnValue")


class SearchMemory:
    """Remembers values drawn at random for a charge, such as found bounds, until the charge's outcome is stored.

    If a question is retried under one charge, it uses the remembered values instead of drawing new ones. New values
    would be one more noisy look at private rows: from whether each retry fails, an analyst could learn more than was
    charged for. Of more than 10,000 charges, the oldest is forgotten. Safe to use from several threads.
    """

    _MOST = 10_000
    """The number of charges that are remembered. The oldest is forgotten first, so forcing one out takes as many new
    charges."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drawn: dict[tuple[str, str, int], dict[str, object]] = {}

    def draw_once(self, receipt: Receipt, purpose: str, draw: Callable[[], DrawnValue]) -> DrawnValue:
        """Return the value remembered for this charge and `purpose`; if there is none, call `draw` and remember it.

        So a question that is retried under one charge does not draw random values again. `receipt` identifies the
        charge. `purpose` names one random draw of the question, such as its bounds; all values of one purpose have the
        same type. If two threads draw at the same time, both get the value that was remembered first.
        """
        charge = (receipt.account, receipt.key, receipt.entry)
        with self._lock:
            earlier = self._drawn.get(charge, {})
            if purpose in earlier:
                return cast("DrawnValue", earlier[purpose])
        value = draw()
        with self._lock:
            if charge not in self._drawn and len(self._drawn) >= self._MOST:
                del self._drawn[next(iter(self._drawn))]
            return cast("DrawnValue", self._drawn.setdefault(charge, {}).setdefault(purpose, value))

    def forget(self, receipt: Receipt) -> None:
        """Forget all values drawn for the charge of `receipt`.

        The caller does this when the outcome of the charge is stored: a retry then gets the stored outcome, and draws
        nothing.
        """
        with self._lock:
            self._drawn.pop((receipt.account, receipt.key, receipt.entry), None)


def _with_clip_found(statistic: Statistic, low: Fraction, high: Fraction, schema: Schema, steps: int) -> Statistic:
    """Return `statistic` with the clipping bounds `low` and `high` that a private search found.

    A sum also gets a rounding step, because users' sums are rounded to multiples of a step. The step depends on the
    larger of |low| and |high|:

    - If `schema` says that the column holds integers, and the larger bound is at least 1, the step is the larger of two
      numbers: 1, and the larger bound divided by `steps`.
    - Otherwise the step is the larger bound divided by 1,024 (`COARSE_STEPS`).
    """
    assert statistic.column is not None
    widest = max(abs(low), abs(high))
    if schema.column(statistic.column).kind is Kind.INTEGER and widest >= 1:
        step = max(Fraction(1), widest / steps)
    else:
        step = widest / COARSE_STEPS
    return _with_step(statistic.with_bounds(low, high), step)


def _costliest(statistic: Statistic, steps: int) -> Statistic:
    """Return `statistic` with bounds that cost at least as much as any bounds that a private search can find for it.

    The result is planned before the charge. If its plan fits the budget, so does the plan with the bounds that the
    search then finds.

    - A limit on one user's rows that the search is to find becomes `steps` rows.
    - Clipping bounds that the search is to find become 0 and 1, and a sum gets the rounding step 1 / `steps`. One user
      then adds up to `steps` rounding steps to the sum, and the noise of a sum grows with this number. For other
      statistics, the cost does not depend on the clipping bounds.
    """
    if statistic.finds_clip:
        statistic = _with_step(statistic.with_bounds(Fraction(0), Fraction(1)), Fraction(1, steps))
    return statistic.with_rows(steps, steps) if statistic.finds_rows else statistic


def _with_step(statistic: Statistic, step: Fraction) -> Statistic:
    """Return `statistic` with the rounding step `step` if it is a sum, and unchanged otherwise.

    Each user's sum is rounded to a multiple of the rounding step before the sums are added up. Other statistics
    compute their own rounding step, in the method `in_steps`.
    """
    return statistic.with_clip(replace(statistic.clip_bounds, step=step)) if isinstance(statistic, Sum) else statistic
