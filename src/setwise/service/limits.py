"""How much may be asked: a bucket of requests per person, and the size of a body."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from setwise.errors import TooManyRequests

_MOST_BUCKETS = 10_000


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


class Buckets:
    """A token bucket per name: `burst` requests at once, `per_second` in the long run.

    >>> now = 0.0
    >>> buckets = Buckets(per_second=1.0, burst=2, monotonic=lambda: now)
    >>> [buckets.take("ada"), buckets.take("ada")]
    [None, None]
    >>> buckets.take("ada")
    Traceback (most recent call last):
    setwise.errors.TooManyRequests: more requests than allowed; try again in 1 s
    """

    def __init__(self, *, per_second: float, burst: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._monotonic = monotonic
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, name: str) -> None:
        """Take one request from a person's bucket, or raise `TooManyRequests`."""
        now = self._monotonic()
        bucket = self._buckets.get(name)
        if bucket is None:
            bucket = self._buckets[name] = _Bucket(self._burst, now)
            if len(self._buckets) > _MOST_BUCKETS:
                self._buckets.popitem(last=False)
        bucket.left = min(self._burst, bucket.left + (now - bucket.at) * self._per_second)
        bucket.at = now
        if bucket.left < 1.0:
            seconds = max(1, math.ceil((1.0 - bucket.left) / self._per_second))
            raise TooManyRequests(f"more requests than allowed; try again in {seconds} s", seconds)
        bucket.left -= 1.0
