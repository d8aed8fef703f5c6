"""Token buckets: authenticator.py takes from one per person for requests, one per address for failed sign-ins."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from setwise.errors import TooManyRequests


@dataclass(slots=True)
class _Bucket:
    """One token bucket: at the time `at`, it allowed `left` more requests; it has been refilling since then.

    The time is in seconds of the monotonic clock.
    """

    left: float
    at: float


class Buckets:
    """Rate limits for names (people or addresses): `burst` requests at once, and then `per_second` in each second.

    Each name has a bucket: the number of requests that it may still send now, which grows by `per_second` in each
    second, up to `burst`. At most `most` names have a bucket. Only a bucket that is full again is dropped to make room
    for a new name. If no bucket is full, the new name is refused.

    >>> now = 0.0
    >>> buckets = Buckets(per_second=1.0, burst=2, monotonic=lambda: now)
    >>> [buckets.take("ada"), buckets.take("ada")]
    [None, None]
    >>> buckets.take("ada")
    Traceback (most recent call last):
    setwise.errors.TooManyRequests: more requests than allowed; try again in 1 s
    """

    def __init__(
        self,
        *,
        per_second: float,
        burst: int,
        most: int = 10_000,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._most = most
        self._monotonic = monotonic
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, name: str, requests: float = 1.0) -> None:
        """Count `requests` requests of `name`; raise `TooManyRequests`, with the seconds to wait, if too many.

        `requests` is 1 for a request itself. A larger number is the extra charge for a large body, after the request
        itself was counted as 1. The extra charge is at most the burst (the most requests that a name may make at once)
        minus 1; otherwise a very large body could never be sent.
        """
        requests = requests if requests <= 1.0 else min(requests, self._burst - 1.0)
        now = self._monotonic()
        bucket = self._buckets.get(name)
        if bucket is None:
            self._make_room(now)
            bucket = self._buckets[name] = _Bucket(self._burst, now)
        self._buckets.move_to_end(name)
        bucket.left = min(self._burst, bucket.left + (now - bucket.at) * self._per_second)
        bucket.at = now
        if bucket.left < requests:
            seconds = max(1, math.ceil((requests - bucket.left) / self._per_second))
            raise TooManyRequests(f"more requests than allowed; try again in {seconds} s", seconds)
        bucket.left -= requests

    def _make_room(self, now: float) -> None:
        """Drop buckets that are full again, and raise `TooManyRequests` if there is still no room for one more bucket.

        A bucket that is not full is kept. Otherwise a caller could fill the table with names and so get a fresh bucket.
        `now` is the time in seconds of the monotonic clock.
        """
        # A bucket that is not full is never dropped; otherwise a caller could fill the table with names and so get a
        # fresh bucket.
        refilled = self._burst / self._per_second
        while self._buckets and next(iter(self._buckets.values())).at + refilled <= now:
            self._buckets.popitem(last=False)
        if len(self._buckets) >= self._most:
            raise TooManyRequests("more requests than allowed; try again in 1 s")
