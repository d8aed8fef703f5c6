"""Drawing from a law on the integers by inversion: one word per draw, more bits only where the word cannot decide."""

from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from setwise.mechanisms.cut_points import Law, cut_points
from setwise.mechanisms.randomness import WORD, Randomness

_CHUNK = 1 << 15
"""Draws handled at a time, so that words and results stay in the processor's cache."""

_SCAN = 1 << 18
"""Up to this many comparisons, every word is compared with every floor, so that no draw differs in its steps."""

_FEWEST_GUIDE_BITS = 14
_MOST_GUIDE_BITS = 18
"""Leading bits of a word that index the guide: enough that few buckets hold a floor, few enough to stay in cache."""


def draw(law: Law, count: int, randomness: Randomness, width: int = WORD) -> NDArray[np.int64]:
    """Return `count` independent exact draws from `law`.

    Ensures: the law of each draw is `law` itself, whatever the `width` of the words it starts from; a narrow
    word only sends more draws to the refinement.
    """
    lookup = _lookup(law, width)
    values = np.empty(count, dtype=np.int64)
    for start in range(0, count, _CHUNK):
        words = randomness.words(min(_CHUNK, count - start), width)
        chunk = values[start : start + len(words)]
        undecided = lookup.invert(words, chunk)
        for index in undecided:
            chunk[index] = _refined(law, int(words[index]), width, randomness)
    return values


def _refined(law: Law, word: int, width: int, randomness: Randomness) -> int:
    """Return the draw a word that equals a cut point leads to, appending words until it equals none."""
    bits = width
    while True:
        word = (word << width) | int(randomness.words(1, width)[0])
        bits += width
        table = cut_points(law, bits)
        passed = bisect_right(table.floors, word)
        if passed == 0 or table.floors[passed - 1] != word:
            return table.smallest + passed


@dataclass(frozen=True, slots=True, eq=False)
class _Lookup:
    """A table ready for vectorised inversion.

    `guide` gives the number of floors at or below a word by its leading bits, or -1 where they do not tell.
    """

    smallest: int
    floors: NDArray[np.uint64]
    guide: NDArray[np.int32]
    shift: np.uint64

    def invert(self, words: NDArray[np.uint64], values: NDArray[np.int64]) -> NDArray[np.intp]:
        """Write the draws that `words` decide into `values` and return where a word equals a floor.

        A few draws could be timed one by one, so their steps and the memory they touch are the same whatever the
        words are. Among many, only sums of times show, and the guide is faster.
        """
        if len(words) * len(self.floors) <= _SCAN:
            return self._scan(words, values)
        passed = self.guide[(words >> self.shift).view(np.int64)]
        unclear = np.flatnonzero(passed < 0)
        searched = np.searchsorted(self.floors, words[unclear], side="right")
        passed[unclear] = searched
        np.add(passed, self.smallest, out=values)
        equal = (searched > 0) & (self.floors[searched - 1] == words[unclear])
        return np.asarray(unclear[equal], dtype=np.intp)

    def _scan(self, words: NDArray[np.uint64], values: NDArray[np.int64]) -> NDArray[np.intp]:
        column = words[:, np.newaxis]
        np.add(np.count_nonzero(self.floors <= column, axis=1), self.smallest, out=values)
        return np.flatnonzero(np.count_nonzero(self.floors == column, axis=1))


@lru_cache(maxsize=32)
def _lookup(law: Law, width: int) -> _Lookup:
    table = cut_points(law, width)
    floors = np.array(table.floors, dtype=np.uint64)
    bits = min(width, max(_FEWEST_GUIDE_BITS, min(_MOST_GUIDE_BITS, len(floors).bit_length() + 4)))
    shift = np.uint64(width - bits)
    starts = np.arange(1 << bits, dtype=np.uint64) << shift
    before = np.searchsorted(floors, starts, side="left")
    through = np.searchsorted(floors, starts | ((np.uint64(1) << shift) - np.uint64(1)), side="right")
    guide = np.where(before == through, before, -1).astype(np.int32)
    return _Lookup(table.smallest, floors, guide, shift)
