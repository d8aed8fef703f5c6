"""Noise that is the same in every run of `make test`, so that a run that passes passes again on the same code.

Hundreds of tests draw noise, and each may fail once in thousands of runs although the code is right. Under
`make test` the operating system's generator is replaced by a generator that starts anew at every test, from the name of
the test. `make test-all` keeps the operating system's generator, so that its runs see other noise every time.
Processes that a test starts draw from the operating system in both.
"""

import hashlib
from types import SimpleNamespace

import numpy as np
import pytest

from setwise.analytics.engines import bounding
from setwise.mechanisms import randomness
from tests.sizes import FULL

REAL = ("test_randomness.py",)
"""Files whose tests are about the operating system's generator itself, and keep it."""


class RepeatableBytes:
    """A generator of random bytes that gives the same bytes again after `start` with the same name."""

    def __init__(self) -> None:
        self.start("collection")

    def start(self, name: str) -> None:
        """Start anew from `name`."""
        self._generator = np.random.Generator(np.random.PCG64(list(hashlib.sha256(name.encode()).digest())))

    def urandom(self, size: int) -> bytes:
        """Return `size` random bytes."""
        return self._generator.bytes(size)

    def randbits(self, bits: int) -> int:
        """Return a random integer of `bits` bits."""
        return int.from_bytes(self.urandom(bits // 8 + 1)) >> (8 - bits % 8)


_BYTES = RepeatableBytes()
_SYSTEM = (randomness.os, bounding.secrets)


def start_noise(item: pytest.Item) -> None:
    """Choose the source of noise for the test `item` and the fixtures that it is the first to need."""
    if FULL or item.path.name in REAL:
        randomness.os, bounding.secrets = _SYSTEM
        return
    _BYTES.start(item.nodeid)
    replaced = SimpleNamespace(urandom=_BYTES.urandom, randbits=_BYTES.randbits)
    randomness.os = bounding.secrets = replaced
