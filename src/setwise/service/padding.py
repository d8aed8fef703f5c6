"""When an answer may leave: at coarse steps after it was asked, so that its time says little about the data."""

import math


def padded(elapsed: float, step: float) -> float:
    """Return the least of step, 2 step, 4 step, 8 step, ... that is no less than `elapsed`; with step 0, `elapsed`.

    An observer of one answer learns which power of two its time lay under, and no more.

    >>> [padded(seconds, 0.25) for seconds in (0.01, 0.25, 0.26, 3.0)]
    [0.25, 0.25, 0.5, 4.0]
    """
    if step <= 0.0:
        return elapsed
    if elapsed <= step:
        return step
    power = math.ceil(math.log2(elapsed / step))
    return float(step * 2**power) if step * 2**power >= elapsed else float(step * 2 ** (power + 1))
