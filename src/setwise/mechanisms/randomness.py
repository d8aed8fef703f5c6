"""The port through which noise reaches the mechanisms, and the operating system behind it."""

import os
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from setwise.errors import InvalidParameter

WORD = 64
"""Bits in the word each draw starts from."""

_CONTAINERS: tuple[tuple[int, type[np.unsignedinteger]], ...] = (
    (8, np.uint8),
    (16, np.uint16),
    (32, np.uint32),
    (64, np.uint64),
)


class Randomness(Protocol):
    """A source of independent uniform words."""

    def words(self, count: int, width: int = WORD) -> NDArray[np.uint64]:
        """Return `count` independent uniform integers of `width` bits, 1 to 64."""
        ...


class SystemRandomness:
    """The operating system's generator, read anew at every call.

    Nothing is buffered between calls, so a forked child never repeats what its parent drew.

    >>> SystemRandomness().words(3, width=8).max() < 256
    np.True_
    """

    __slots__ = ()

    def words(self, count: int, width: int = WORD) -> NDArray[np.uint64]:
        """Return `count` independent uniform integers of `width` bits, 1 to 64."""
        for bits, kind in _CONTAINERS:
            if 1 <= width <= bits:
                raw = np.frombuffer(os.urandom(count * bits // 8), dtype=kind)
                # A container's top bits are as uniform as any; at full width this is free.
                return (raw if bits == width else raw >> kind(bits - width)).astype(np.uint64, copy=False)
        raise InvalidParameter(f"width must lie between 1 and 64 bits, not {width!r}")
