"""The source of random bits for the mechanisms: its interface, and the operating system's generator."""

import os
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from setwise.errors import InvalidParameter

WORD = 64
"""Number of random bits from which each draw starts."""

_CONTAINERS: tuple[tuple[int, type[np.unsignedinteger]], ...] = (
    (8, np.uint8),
    (16, np.uint16),
    (32, np.uint32),
    (64, np.uint64),
)


class Randomness(Protocol):
    """A source of independent, uniformly distributed integers of 1 to 64 bits, from which all noise is drawn."""

    def words(self, count: int, width: int = WORD) -> NDArray[np.uint64]:
        """Return `count` independent uniform integers of `width` bits each; `width` is from 1 to 64."""
        ...


class SystemRandomness:
    """Random numbers from the operating system's generator, which is read at every call.

    Nothing is buffered between calls, so a forked child process never repeats the draws of its parent.

    >>> SystemRandomness().words(3, width=8).max() < 256
    np.True_
    """

    __slots__ = ()

    def words(self, count: int, width: int = WORD) -> NDArray[np.uint64]:
        """Return `count` independent uniform integers of `width` bits.

        Raises: `InvalidParameter` unless `width` lies between 1 and 64.
        """
        for bits, kind in _CONTAINERS:
            if 1 <= width <= bits:
                raw = np.frombuffer(os.urandom(count * bits // 8), dtype=kind)
                # Keep the top bits, which are as uniform as any others. At full width no shift is needed.
                return (raw if bits == width else raw >> kind(bits - width)).astype(np.uint64, copy=False)
        raise InvalidParameter(f"width must lie between 1 and 64 bits, not {width!r}")
