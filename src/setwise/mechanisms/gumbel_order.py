"""The order of the k highest scores under Gumbel noise, exactly: the exponential mechanism peeled k times."""

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from setwise.mechanisms.gumbel_key import ExactKey, float_bounds, float_keys, is_loose
from setwise.mechanisms.randomness import WORD, Randomness


def gumbel_order(
    scores: NDArray[np.int64], rate: Fraction, k: int, randomness: Randomness, width: int = WORD
) -> NDArray[np.intp]:
    """Return the positions of the k highest of scores + Gumbel(1/rate), highest first; all of them if there are fewer.

    The law is exactly Plackett-Luce: each next position is drawn among those left with probability proportional
    to exp(rate * score). The noisy values themselves are never formed as numbers that could be released.

    Theorem: DurfeeRo19 (one-shot Gumbel noise is the peeled exponential mechanism).
    Requires: rate > 0, k >= 1, |score| <= 2^62.
    """
    k = min(k, len(scores))
    if k == 0:
        return np.empty(0, dtype=np.intp)
    words = randomness.words(len(scores), width)
    highest = int(scores.max())
    behind = scores - highest  # exact: scores lie within ±2^62
    if width != WORD:  # floats are only prepared for full words
        return _resolved(_exact(np.arange(len(scores)), behind, words, rate, width), k, randomness, width)
    shortfalls = behind.astype(np.float64) * float(rate)
    keys = float_keys(shortfalls, words)
    contenders = _contenders(shortfalls, words, keys, k)
    ranked = contenders[np.argsort(-keys[contenders], kind="stable")]
    lower, upper = float_bounds(shortfalls[ranked], words[ranked], keys[ranked])
    starts, ends = _overlaps(lower, upper, k)
    for start, end in zip(starts, ends, strict=True):
        group = ranked[start:end]
        ranked[start:end] = _resolved(_exact(group, behind, words, rate, width), len(group), randomness, width)
    return ranked[:k]


def _contenders(
    shortfalls: NDArray[np.float64], words: NDArray[np.uint64], keys: NDArray[np.float64], k: int
) -> NDArray[np.intp]:
    """Return every position that may be among the k highest."""
    provisional = np.argpartition(keys, len(keys) - k)[len(keys) - k :]
    lower, _ = float_bounds(shortfalls[provisional], words[provisional], keys[provisional])
    bar = float(lower.min())
    if bar == -np.inf:
        return np.arange(len(keys))
    # Away from the ends a key above the bar has a shortfall within |bar| + 28 of 0, and so a radius below this slack.
    slack = 2.0**-23 + 2.0**-48 * (abs(bar) + 28.0)
    return np.flatnonzero((keys >= bar - slack) | is_loose(words))


def _overlaps(
    lower: NDArray[np.float64], upper: NDArray[np.float64], k: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the maximal runs [start, end) of a ranking whose order is in doubt and matters for the first k."""
    lowest_so_far = np.minimum.accumulate(lower)
    highest_to_come = np.maximum.accumulate(upper[::-1])[::-1]
    breaks = np.flatnonzero(lowest_so_far[:-1] > highest_to_come[1:]) + 1
    starts = np.concatenate(([0], breaks))
    ends = np.concatenate((breaks, [len(lower)]))
    doubtful = (ends - starts > 1) & (starts < k)
    return starts[doubtful], ends[doubtful]


def _exact(
    group: NDArray[np.intp], behind: NDArray[np.int64], words: NDArray[np.uint64], rate: Fraction, width: int
) -> list[ExactKey]:
    return [ExactKey(index, rate * int(behind[index]), int(words[index]), width) for index in group.tolist()]


def _resolved(keys: list[ExactKey], k: int, randomness: Randomness, width: int) -> NDArray[np.intp]:
    """Return the positions of the k highest keys in order, appending words wherever two cannot be told apart."""
    bounds = {key.index: key.bounds() for key in keys}
    while True:
        # Unbounded intervals sort to their open end and overlap whatever they must.
        keys.sort(key=lambda key: (bounds[key.index][1] is None, bounds[key.index][1] or 0), reverse=True)
        doubtful = _doubtful(keys, bounds, k)
        if not doubtful:
            return np.array([key.index for key in keys[:k]], dtype=np.intp)
        for key in doubtful:
            key.extend(randomness, width)
            bounds[key.index] = key.bounds()


def _doubtful(
    keys: list[ExactKey], bounds: dict[int, tuple[Fraction | None, Fraction | None]], k: int
) -> list[ExactKey]:
    """Return the keys whose interval meets that of a neighbour within the first k; `keys` fall by upper end."""
    doubtful: dict[int, ExactKey] = {}
    for place, key in enumerate(keys[:k]):
        lower = bounds[key.index][0]
        for other in keys[place + 1 :]:
            upper = bounds[other.index][1]
            if lower is not None and upper is not None and upper < lower:
                break  # all later ones end lower still
            doubtful[key.index] = key
            doubtful[other.index] = other
    return list(doubtful.values())
