"""The port to whatever reads the data."""

from collections.abc import Callable
from types import TracebackType
from typing import Protocol, Self, TypeAlias

from setwise.analytics.aggregation import Aggregation
from setwise.analytics.schema import Schema
from setwise.mechanisms.histogram import Histogram

Progress: TypeAlias = Callable[[float], None]
"""Called now and then from another thread with the share of the work that is done, between 0 and 1."""


def silent(_: float) -> None:
    """Take no notice of progress."""


class Engine(Protocol):
    """A table that bounds contributions where the data is.

    Errors are `UnknownColumn` and `UnsuitableTable` for what metadata tells and `EngineFailed` for what breaks on the
    way; none depends on a value in the table, and an empty table is answered like any other.
    """

    def describe(self) -> Schema:
        """Return the columns and their kinds, from metadata alone."""
        ...

    def rows(self) -> int | None:
        """Return about how many rows there are where metadata tells; private, so only for whoever holds the table."""
        ...

    def check(self, aggregation: Aggregation) -> None:
        """Raise what metadata tells is wrong with an aggregation, so that it can be said before anything is charged.

        Columns that are missing or of the wrong kind; for a prepared dataset also what it was not prepared for, and a
        source that has changed since.
        """
        ...

    def histogram(self, aggregation: Aggregation) -> Histogram:
        """Return every positive group with its exact bounded count."""
        ...

    def top(self, aggregation: Aggregation, most: int) -> Histogram:
        """Return the `most` highest groups, highest first; equal counts by label in code point order."""
        ...

    def cancel(self) -> None:
        """Stop what runs, from any thread; the calls that were running raise `EngineFailed`."""
        ...

    def close(self) -> None:
        """Let go of connections and scratch files."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
