"""Tasks for worker processes that take memory or time; in a module of their own, because workers import it."""

import time


class Allocate:
    """A task that needs memory. No two are equal, so that none is remembered."""

    def __init__(self, *, megabytes: int) -> None:
        self.megabytes = megabytes

    def result(self) -> int:
        return len(bytearray(self.megabytes << 20)) >> 20


class Sleep:
    """A task that takes time. No two are equal, so that none is remembered."""

    def __init__(self, *, seconds: float) -> None:
        self.seconds = seconds

    def result(self) -> float:
        time.sleep(self.seconds)
        return self.seconds
