"""How long a call takes: the best of a few runs, which a busy machine disturbs least."""

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def best_of(runs: int, call: Callable[[], Result]) -> tuple[float, Result]:
    """Return the shortest time over several runs, in seconds, and what the call returned."""
    shortest = float("inf")
    result = call()  # the first run warms up
    for _ in range(runs):
        started = time.perf_counter()
        result = call()
        shortest = min(shortest, time.perf_counter() - started)
    return shortest, result


def milliseconds(seconds: float) -> str:
    """Write a time in milliseconds."""
    return f"{1000 * seconds:10.3f} ms"
