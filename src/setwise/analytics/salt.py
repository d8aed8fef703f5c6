"""The secret that decides which items a user keeps."""

import secrets
from collections.abc import Callable
from typing import TypeAlias

SALT_BITS = 63

SaltSource: TypeAlias = Callable[[], int]
"""Gives a new salt at every call: a whole number of `SALT_BITS` bits."""


def secret_salt() -> int:
    """Return a salt from the operating system's randomness.

    One bit of 64 is left out so that every engine can hold it as a signed integer.
    """
    return secrets.randbits(SALT_BITS)
