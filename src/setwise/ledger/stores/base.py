"""The interface to a database that keeps a ledger: consistent reads, exclusive writes, and appending entries.

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
    """A movement: the change of one balance by `amount` units, drawn from it or, if negative, returned to it.

    - `holder` is the register number (the number of the opening record) of the account or cap that has the balance. A
      cap is the joint budget of a dataset's accounts.
    - `period` is the budget period, empty if the budget has none.
    - `balance_name` is the name of the balance, such as "wallet" (2^60 units when full). A use that was registered when
      the account was opened has a balance of its own, named by the use's written form, such as "pure:0.1"; one unit of
      it is one use.
    """

    holder: int
    period: str
    balance_name: str
    amount: int


def write_moves(movements: Iterable[Movement]) -> str:
    """Return the balance changes `movements` as a JSON list of [register number, period, balance name, amount].

    The list has the order of `movements`. A register number is the number of the record that opened an account or a cap
    (the joint budget of a dataset's accounts).
    """
    return canonical([[move.holder, move.period, move.balance_name, move.amount] for move in movements])


def read_moves(text: str) -> list[Movement]:
    """Return the balance changes in `text`, a JSON list that `write_moves` wrote; raise `ValueError` for other text."""
    rows = json.loads(text)
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 4 for row in rows):
        raise ValueError("not a list of movements")
    return [Movement(*row) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An entry to append to an account, with its balance changes; the store assigns its position and hash.

    `holder` is the register number of the account (the number of its opening record), `at` the timestamp in
    microseconds since 1970, `contents` the contents of the entry, and `movements` its balance changes. If `position` is
    not None, the entry may be appended at that position only, because its price was computed from the balance after the
    preceding entry.
    """

    holder: int
    at: int
    contents: Contents
    movements: Sequence[Movement]
    position: int | None = None

    def contents_with_moves(self) -> Contents:
        """Return the entry's contents with its balance changes written into them as JSON, to be hashed and stored."""
        return replace(self.contents, moves=write_moves(self.movements))


class Refused(Exception):
    """Raised if the database refuses an entry: its key is taken, it overdraws a balance, or its account is not open.

    Nothing was changed.
    """


class Overtaken(Exception):
    """Raised if another entry took the position that a draft (an entry to append) was priced for; nothing changed."""


OPTIMISTIC_ATTEMPTS = 5
"""How many times an entry is priced and appended without a lock on its account, before the account is locked.

Without a lock, another entry can take the position meanwhile, and the entry must be priced again.
"""


class Store(Protocol):
    """Protocol of a database that keeps a ledger: consistent reads, exclusive writes, and appending entries."""

    @property
    def address(self) -> str:
        """The path or URL of the database, without any password."""
        ...

    def reading(self) -> AbstractContextManager[Connection]:
        """Return a context manager whose connection sees one consistent state of the database."""
        ...

    def writing(self) -> AbstractContextManager[Connection]:
        """Return a context manager for a transaction that alone may write the register of openings and audit events.

        The transaction is committed when the block ends without an exception.
        """
        ...

    def append(self, draft: Draft) -> Entry:
        """Append the entry `draft` with its balance changes durably, and return it with its position and hash.

        Raises `Refused` if a constraint of the database forbids it.
        """
        ...

    def append_priced(self, holder: int, drafts: Callable[[Connection], Sequence[Draft]]) -> Entry:
        """Append one or several entries in one transaction, with no other entry between them; return the last one.

        `holder` is the register number of the account (the number of its opening record). `drafts(connection)` reads
        the balances and returns the entries with their prices; the first must have its `position`. The function is
        called again if another transaction appends to the account first, which changes the balances, so it must have no
        side effects.
        """
        ...

    def append_in(self, connection: Connection, draft: Draft) -> Entry:
        """Append the entry `draft` inside a transaction that the caller opened with `writing`, and return the entry.

        A draft is an entry to append, still without its hash.
        """
        ...

    def close(self) -> None:
        """Close every connection to the ledger's database."""
        ...


def cause(error: SQLAlchemyError) -> str:
    """Return the first line of the database driver's message in `error`, without a full stop, for error messages."""
    message = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    return (message.splitlines() or ["no reason was given"])[0].rstrip(".")
