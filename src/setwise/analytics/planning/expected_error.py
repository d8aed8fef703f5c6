"""The expected error of a query's statistics, as shown by a preview, and sentences about intervals and reliability."""

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from setwise.analytics.query import Quantile, Query
from setwise.analytics.statistics import Count, Statistic
from setwise.analytics.statistics.parameters import radius_text, whole_or_float
from setwise.mechanisms.intervals import CONFIDENCE
from setwise.mechanisms.planning.statistics import StatisticsChoice
from setwise.mechanisms.release import AT_BOUND, FEW_USERS, UNRELIABLE, ErrorEstimate, Estimate, Item
from setwise.mechanisms.statistic_release import StatisticRelease
from setwise.mechanisms.statistics import GroupRelease, GroupStatistics, UsersFound


def releases_of(statistics: Sequence[Statistic]) -> list[StatisticRelease]:
    """Return, for each of `statistics` in order, the mechanism that releases it; its noise scale is chosen later."""
    return [statistic.release(statistics) for statistic in statistics]


def main_statistic(query: Query) -> int:
    """Return the index of the statistic of `query` that a plan's error is about: the first count, or else the first."""
    return next((place for place, statistic in enumerate(query.statistics) if isinstance(statistic, Count)), 0)


def statistics_error(query: Query, choice: StatisticsChoice) -> ErrorEstimate:
    """Return the expected error of the mechanism `choice` that was planned for `query`, without reading rows.

    Two fields of the result are about the query's main statistic (`main_statistic`), in its own unit, and None if they
    depend on the rows:
    - `expected_error` is its mean error.
    - `radius` is the half-width of its intervals.

    Three fields are about finding private groups, and None if no private group has to be found:
    - `detectable` is the count that a group needs to be found. If `above_rank` is not None, only the groups with the
      highest counts can be found, and `detectable` is a difference: by how much the group's count must be above that
      of the group of the rank `above_rank`.
    - `shortfall` is for groups that are selected because of high noisy counts: by how much the exact count of such a
      group may be below that of a group that was not selected.
    """
    discovery = choice.mechanism.discovery
    discovery_error = None if discovery is None else discovery.preview()
    main = main_statistic(query)
    unit = query.statistics[main].error_unit
    radius, error = choice.mechanism.statistics[main].error(discovery_error, CONFIDENCE)
    return ErrorEstimate(
        confidence=CONFIDENCE,
        expected_error=None if error is None else float(unit) * error,
        radius=None if radius is None else whole_or_float(unit * Fraction(radius)),
        detectable=None if discovery_error is None else discovery_error.detectable,
        above_rank=None if discovery_error is None else discovery_error.above_rank,
        shortfall=None if discovery_error is None else discovery_error.shortfall,
    )


def ranks_note(query: Query, choice: GroupStatistics, release: GroupRelease) -> str:
    """Return a phrase that says by how many users the ranks of the quantiles of `query` may be off.

    `choice` is the mechanism that released the estimates in `release`. The phrase is "" if `query` asks for no
    quantile. It also helps a reader to judge the error in rank. If noisy numbers of users were released, it states how
    many users the groups have. Otherwise it states the size below which a group is so small that its quantile may be
    noise alone.
    """
    pairs = zip(query.statistics, choice.statistics, strict=True)
    ranks = [
        int(statistic.planned_radius(release) or 0) for statistic, release in pairs if isinstance(statistic, Quantile)
    ]
    if not ranks:
        return ""
    sure = f"{float(CONFIDENCE):.0%}"
    off = f"its rank is off by up to {max(ranks):,} users (with probability {sure})"
    users = _users_of_groups(query, release)
    is_estimated = query.domain is None and choice.discovery is None  # from weights of rounds, off by a factor of 2
    known = [] if is_estimated else [max(0, round(number)) for number in users if number is not None]
    if len(known) == len(users) > 0:
        few, many = f"{min(known):,}", f"{max(known):,}"
        groups = "groups here have" if query.item is not None else "the table has"
        return f"{off}; {groups} about {few if few == many else f'{few} to {many}'} users"
    least = min(min(each.at, 1 - each.at) for each in query.statistics if isinstance(each, Quantile))
    where = "a group" if query.item is not None else "a table"
    return f"{off}; in {where} of fewer than {math.ceil(max(ranks) / least):,} users it may be noise alone"


def statistics_note(
    query: Query, confidence: Fraction, number: str, *, in_rounds: bool = False, ranks: str = ""
) -> str:
    """Return sentences about what the intervals in an answer to `query` promise, and which statistics have none.

    - `number` is the phrase for what an interval is about, such as "the exact number", and `confidence` is the
      probability with which an interval contains this number.
    - `in_rounds` is True if the groups were chosen in separate noisy passes over the table. If it is False, the groups
      may have been chosen because their noisy numbers of users, which the answer also shows, are high. The intervals of
      these numbers then contain the exact numbers with probability `confidence` only on average over all groups, and
      the sentences say so.
    - `ranks` is a phrase about the ranks of quantiles, made by `ranks_note`.
    """
    sure = f"{float(confidence):.0%}"
    sentences = []
    selected = query.item is not None and (query.domain is None or query.k is not None) and not in_rounds
    by_discovery = [selected and isinstance(release, UsersFound) for release in releases_of(query.statistics)]
    if any(by_discovery):
        sentences.append(f"On average {sure} of the intervals of users hold {number}.")
    others = [statistic for statistic, discovered in zip(query.statistics, by_discovery, strict=True) if not discovered]
    if any(statistic.has_interval for statistic in others):
        which = "other interval holds it" if sentences else f"interval holds {number}"
        sentences.append(f"Each {which} with probability {sure}.")
    sentences += [note for statistic in query.statistics if (note := statistic.interval_note)]
    if not all(statistic.has_interval for statistic in query.statistics):
        clips = [each.clip for each in query.statistics if isinstance(each, Quantile)]
        steps = sorted({float(clip.step) for clip in clips if clip is not None and clip.step is not None})
        grid = f"; its value is rounded to steps of {' or '.join(f'{step:.3g}' for step in steps)}" if steps else ""
        moved = ranks or "what noise moves is its rank"
        # One sentence with the promise of the intervals, because short forms of an answer show only the first.
        first = sentences.pop(0).removesuffix(".") + "; a" if sentences else "A"
        sentences.insert(0, f"{first} quantile has no interval of values: {moved}{grid}.")
    return " ".join(sentences)


def with_reliability(query: Query, choice: GroupStatistics, release: GroupRelease) -> list[tuple[Estimate, ...]]:
    """Return the estimates of each group in the units of their columns, and mark those that may be mostly noise.

    `release` has the estimates as the mechanism `choice` released them, one for each group and statistic of `query`.
    They are in rounding steps: values were rounded to multiples of a step and added up as whole numbers of steps. The
    mark is the field `unreliable` of an estimate. Where the number of a group's users may be as small as 1, its means,
    quantiles and variances are marked as well. Counts and sums have noise of their own, which their intervals show.
    """
    groups = []
    for users, row in zip(_users_of_groups(query, release), release.estimates, strict=True):
        estimates = [statistic.in_units(estimate) for statistic, estimate in zip(query.statistics, row, strict=True)]
        judged = zip(query.statistics, choice.statistics, estimates, strict=True)
        few = _may_be_few(query, estimates)
        groups.append(
            tuple(
                replace(estimate, unreliable=True)
                if (few and _divides(statistic)) or statistic.is_unreliable(estimate, way, users)
                else estimate
                for statistic, way, estimate in judged
            )
        )
    return groups


def _may_be_few(query: Query, estimates: Sequence[Estimate]) -> bool:
    """Return whether a group may have only one user or none, by the interval of its number of users.

    `estimates` are those of the group, one for each statistic of `query`. The result is False if the query has no group
    columns, or does not ask for the number of users.
    """
    pairs = zip(query.statistics, estimates, strict=False)
    counts = [estimate.interval for statistic, estimate in pairs if statistic.name == "users"]
    return query.item is not None and any(interval is not None and interval[0] <= 1 for interval in counts)


def _divides(statistic: Statistic) -> bool:
    """Return whether `statistic` describes a typical user or row, as a mean does, instead of adding all up."""
    return statistic.kind not in ("count", "distinct", "sum")


def _users_of_groups(query: Query, release: GroupRelease) -> list[float | None]:
    """Return the noisy number of users of each group in `release`; None for groups whose number was not released.

    If `query` asks for the number of users, these are the estimates in the answer. Otherwise they are the noisy numbers
    that the search for private groups released when it found the groups.
    """
    counts = [place for place, statistic in enumerate(query.statistics) if statistic.name == "users"]
    return [row[counts[0]].value for row in release.estimates] if counts else list(release.users)


def reliability_note(query: Query, items: Sequence[Item]) -> str:
    """Return sentences that explain the mark of numbers that are not to be relied on; "" if there is no mark.

    The mark is the field `unreliable` of the `items` of an answer to `query` (for their counts), and of their
    estimates. One sentence is about numbers that may be mostly noise, one about groups whose users may be few, and one
    about means at a clipping bound.
    """
    few, at_bound, noisy = False, False, any(item.unreliable for item in items if not item.estimates)
    for item in items:
        has_few = bool(item.estimates) and _may_be_few(query, item.estimates)
        for statistic, estimate in zip(query.statistics, item.estimates, strict=False):
            if has_few and _divides(statistic):
                few = True
                continue
            at_bound = at_bound or (estimate.unreliable and statistic.is_at_bound(estimate))
            noisy = noisy or (estimate.unreliable and not statistic.is_at_bound(estimate))
    return " ".join(
        sentence for sentence, is_needed in ((UNRELIABLE, noisy), (FEW_USERS, few), (AT_BOUND, at_bound)) if is_needed
    )


def _found_within(choice: StatisticsChoice) -> str:
    """Return a phrase such as " within ±12" about the numbers of users from the search for groups; "" if not known.

    `choice` is the planned mechanism.
    """
    discovery = choice.mechanism.discovery
    radius = None if discovery is None else discovery.preview().radius
    return "" if radius is None else f" within ±{radius_text(Fraction(radius))}"


def statistics_in_words(query: Query, choice: StatisticsChoice) -> str:
    """Return a text that says how close each statistic of `query` will be to its exact value; no row is read.

    `choice` is the planned mechanism, with its noise scales.
    """
    parts: list[str] = []
    together: dict[object, tuple[Statistic, list[Fraction]]] = {}
    for statistic, release in zip(query.statistics, choice.mechanism.statistics, strict=True):
        radius = statistic.planned_radius(release)
        if radius is None:
            parts.append(f"users{_found_within(choice)} as the groups were found")
        elif (key := statistic.planned_together()) is None:
            parts.append(statistic.planned_words([radius]))
        else:
            together.setdefault(key, (statistic, []))[1].append(radius)
    parts += [statistic.planned_words(radii) for statistic, radii in together.values()]
    return f"{', '.join(parts)} (with probability {float(CONFIDENCE):.0%} each)"
