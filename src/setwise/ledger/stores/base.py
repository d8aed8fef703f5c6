"""What the ledger needs of a database: consistent reading, exclusive writing, and appending an entry.

A new store implements `Store` here, brings triggers of its own, and is chosen by its address in connect.py.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from setwise.ledger.records import Contents, Entry, canonical


@dataclass(frozen=True, slots=True)
class Movement:
    """`amount` drawn from (or, when negative, returned to) a line of a holder in a period."""

    holder: int
    period: str
    what: str
    amount: int


def write_moves(movements: Iterable[Movement]) -> str:
    """Return movements as a JSON list of [holder, period, what, amount], in their order."""
    return canonical([[move.holder, move.period, move.what, move.amount] for move in movements])


def read_moves(text: str) -> list[Movement]:
    """Return the movements of a JSON list, or raise `ValueError`."""
    rows = json.loads(text)
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 4 for row in rows):
        raise ValueError("not a list of movements")
    return [Movement(*row) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An entry to append to an account, with its movements; the store assigns its position and hash.

    If `position` is given, the entry must get that position, because its amounts were priced for it.
    """

    holder: int
    at: int
    contents: Contents
    movements: Sequence[Movement]
    position: int | None = None

    def contents_with_moves(self) -> Contents:
        """Return the contents with the movements written into them, as they are hashed and stored."""
        return replace(self.contents, moves=write_moves(self.movements))


class Refused(Exception):
    """Raised if the database refuses an entry: its key is taken, it overdraws a balance, or its account is not open.

    Nothing was changed.
    """


class Overtaken(Exception):
    """Raised if another entry took the position that a draft was priced for. Nothing was changed."""


OPTIMISTIC_ATTEMPTS = 5
"""How many times an entry is priced and written without a lock on its account, before the account is locked."""


class Store(Protocol):
    """A database that keeps a ledger."""

    @property
    def address(self) -> str:
        """Where the store is, without any password."""
        ...

    def reading(self) -> AbstractContextManager[Connection]:
        """Open a consistent view."""
        ...

    def writing(self) -> AbstractContextManager[Connection]:
        """Open a transaction that is alone in changing what is opened; it is committed when the block ends well."""
        ...

    def append(self, draft: Draft) -> Entry:
        """Append an entry with its movements, durably; raise `Refused` when a constraint forbids it."""
        ...

    def append_priced(self, holder: int, drafts: Callable[[Connection], Sequence[Draft]]) -> Entry:
        """Append drafts in one transaction, with no entry of others between them; return the last entry.

        `drafts` prices them from a connection. It is called again if another entry came first, so it must not have
        side effects. The first draft has its `position`.
        """
        ...

    def append_in(self, connection: Connection, draft: Draft) -> Entry:
        """Append an entry inside a transaction of `writing`."""
        ...

    def close(self) -> None:
        """Close every connection."""
        ...


def cause(error: SQLAlchemyError) -> str:
    """Return the first line of what the driver said."""
    said = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    return (said.splitlines() or ["no reason was given"])[0].rstrip(".")
