"""The one way of writing a record as text, and the hash of a text."""

import hashlib
import json
from collections.abc import Mapping

NOTHING_BEFORE = "0" * 64
"""What the first link of a chain follows."""


def canonical(record: Mapping[str, object]) -> str:
    """Return a record as JSON with sorted names and no spaces.

    >>> canonical({"b": 1, "a": [2]})
    '{"a":[2],"b":1}'
    """
    return json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()
