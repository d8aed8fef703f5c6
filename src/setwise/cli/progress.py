"""Progress on a terminal, once a computation has taken longer than a person likes to wait without a word."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 2.0
"""Seconds before progress is shown."""


@contextmanager
def progress(what: str) -> Iterator[Callable[[float], None]]:
    """Yield a function to call with the share done; on a terminal a line follows it after `PATIENCE` seconds."""
    started = time.monotonic()
    shown = -1

    def report(share: float) -> None:
        nonlocal shown
        percent = int(100 * share)
        if sys.stderr.isatty() and time.monotonic() - started > PATIENCE and percent != shown:
            shown = percent
            print(f"\r{what}: {percent:3d}%", end="", file=sys.stderr, flush=True)

    try:
        yield report
    finally:
        if shown >= 0:
            print("\r" + " " * (len(what) + 8) + "\r", end="", file=sys.stderr, flush=True)
