"""Randomness for the paper's trials: the same words every time, and therefore never for a release."""

import numpy as np
from numpy.typing import NDArray

from setwise.errors import InvalidParameter
from setwise.mechanisms.randomness import WORD


class SeededRandomness:
    """Words of a seeded generator, so that a figure is the same wherever it is drawn.

    Whoever knows the seed can subtract the noise. Only figures over public data may use this; releases take
    `SystemRandomness`.

    >>> bool((SeededRandomness(1).words(4) == SeededRandomness(1).words(4)).all())
    True
    """

    __slots__ = ("_generator",)

    def __init__(self, seed: int) -> None:
        # The bit generator's raw stream is part of its definition; that of the distributions on top of it is not.
        self._generator = np.random.PCG64(seed)

    def words(self, count: int, width: int = WORD) -> NDArray[np.uint64]:
        """Return `count` uniform integers of `width` bits, 1 to 64."""
        if not 1 <= width <= WORD:
            raise InvalidParameter(f"width must lie between 1 and 64 bits, not {width!r}")
        raw = np.atleast_1d(np.asarray(self._generator.random_raw(count), dtype=np.uint64))
        return raw >> np.uint64(WORD - width)
