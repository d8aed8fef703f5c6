"""Cache of exact results (counts before noise), so that an unchanged table is not read again for the same aggregation.

Exact results are as private as the table. They stay in the memory of the replica, and every answer adds fresh noise to
them after its own charge.
"""

import threading
from collections.abc import Callable, Hashable
from typing import TypeVar

from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.measure import Measure
from setwise.mechanisms.doubling_bounds import DOUBLINGS
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.statistic_release import GroupTable
from setwise.service.workers.pool import RememberedResults

Exact = TypeVar("Exact", Histogram, GroupTable)

_MOST_NUMBERS = 500_000
"""The most numbers in all cached results; a number takes about 100 bytes, so that all take at most 50 MB."""

_LARGEST_RESULT = 50_000
"""The most numbers in one cached result, so that one result does not displace all others."""


class ExactResults:
    """Cache of exact histograms and statistics (before noise), so that an unchanged table is not read again for them.

    Each account has results of its own, because otherwise the time of an answer would tell what other analysts asked.

    The cache has room for `most` numbers in all, and for at most `largest` numbers of one result. A result is counted
    as the most numbers that it could have (`most_numbers`), and not as the numbers that it does have. Otherwise the
    number of groups in a table would decide which results are cached, and the time of a second answer would reveal that
    number.
    """

    # A contribution bound may make the engine choose at random which contributions of a user count; every answer from a
    # cached result then has the same choice. This changes no guarantee, because every guarantee holds for each fixed
    # choice. If room depended on the rows, the time of a second answer would reveal how many groups a table has.
    def __init__(self, most: int = _MOST_NUMBERS, largest: int = _LARGEST_RESULT) -> None:
        self._results = RememberedResults(most=most, largest=largest)
        self._lock = threading.Lock()

    def read(self, place: Hashable, size: int | None, read: Callable[[], Exact]) -> Exact:
        """Return the result that is cached under the key `place`; if there is none, call `read` and cache its result.

        `size` is the most numbers that the result can have, whatever the rows are (`most_numbers` computes it), or None
        if only the rows limit them. If `size` is None, or too large for the cache, the result is not cached.
        """
        if size is None:
            return read()
        with self._lock:
            kept: Exact | None = self._results.get(place)
        if kept is not None:
            return kept
        exact = read()
        with self._lock:
            self._results.add(place, exact, size)
        return exact


def most_numbers(aggregation: Aggregation, limit: int | None) -> int | None:
    """Return how many numbers an exact result of `aggregation` can have at most, whatever the table's rows are.

    An exact result has the counts and sums of all groups before noise. `limit` is the most groups that are read, or
    None if all groups are read. The result is None if nothing but the table limits the number of groups, as for private
    groups without a `limit`.
    """
    if aggregation.item is None or aggregation.pooled:
        groups = 1
    elif aggregation.domain is not None:
        groups = len(aggregation.domain)
    elif limit is not None:
        groups = limit
    else:
        return None
    cells = sum(_cells(measure) for measure in aggregation.measures)
    return 1 + groups * (1 + cells)


def _cells(measure: Measure) -> int:
    """Return how many numbers one group has at most in the exact result (before noise) for `measure`.

    A measure is a number that each user adds to a group, such as the user's number of rows. The result has in each
    group:

    - usually 2 numbers: the sum of the measure over users, and a count
    - for a histogram of the measure: a count of users for each possible value
    - for the search for clipping bounds: a count of users for each of a fixed list of value ranges
    """
    if measure.doubling:
        return 2 * DOUBLINGS + 1
    return measure.most - measure.least + 1 if measure.in_cells else 2
