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
    """The change of one balance by an entry: `amount` units are spent from the balance or, if negative, returned to it.

    A balance is an amount of budget of an account or of a cap (a dataset's joint budget).

    - `holder` is the number of the ledger record that opened the account or cap.
    - `period` is the budget period, such as "2026-11", or "" for a balance that never starts afresh.
    - `balance_name` is "wallet" (mu squared), for example, or the written form of a registered guarantee, such as
      "pure:0.1".
    """

    holder: int
    period: str
    balance_name: str
    amount: int


def write_moves(movements: Iterable[Movement]) -> str:
    """Return `movements`, the changes of budget balances by an entry, as JSON: a list of [holder, period, name, units].

    The order is kept. `holder` is the number of the ledger record that opened the account or cap (a dataset's joint
    budget), and the name is that of the balance, such as "wallet" (mu squared).
    """
    return canonical([[move.holder, move.period, move.balance_name, move.amount] for move in movements])


def read_moves(text: str) -> list[Movement]:
    """Return the changes of budget balances by an entry, from the JSON `text` that `write_moves` wrote.

    Raises `ValueError` for any other text.
    """
    rows = json.loads(text)
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == 4 for row in rows):
        raise ValueError("not a list of movements")
    return [Movement(*row) for row in rows]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """An entry to append to an account's hash chain, with its balance changes; the store assigns its position and hash.

    - `holder` is the number of the ledger record that opened the account, `contents` is, for example, a charge.
    - `at` is the timestamp in microseconds since 1970.
    - `movements` are the balance changes that the entry makes.
    - `position` is the position in the chain for which the entry's price was computed. If another entry has taken it,
      the entry is not appended. None means that the price is valid anywhere: the entry goes to the end of the chain.
    """

    holder: int
    at: int
    contents: Contents
    movements: Sequence[Movement]
    # A price is valid only for the balance after the preceding entry.
    position: int | None = None

    def contents_with_moves(self) -> Contents:
        """Return `contents` with the field `moves` set to the entry's balance changes as JSON.

        The result is hashed and stored, so that the hash covers the balance changes too.
        """
        return replace(self.contents, moves=write_moves(self.movements))


class Refused(Exception):
    """Raised if the database refuses an entry; nothing was changed.

    An entry is refused if its idempotency key is taken, it overdraws a balance, or its account is not open.
    """


class Overtaken(Exception):
    """Raised if an entry is not appended because another entry of the account came first; nothing changed.

    The price of the entry is valid at one position of the account's chain only, which the other entry has taken. The
    caller then computes the price again, from the balances that the other entry has left.
    """


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
        """Return a context manager for a transaction that alone may write the register (openings and audit events).

        The transaction is committed when the block ends without an exception.
        """
        ...

    def append(self, draft: Draft) -> Entry:
        """Append the entry `draft` with its balance changes durably, and return the entry with its position and hash.

        An entry is, for example, a charge or an answer in an account's hash chain. Raises `Refused` if a constraint of
        the database forbids the entry, and `Overtaken` if another entry has the position that `draft` asks for.
        """
        ...

    def append_priced(self, holder: int, drafts: Callable[[Connection], Sequence[Draft]]) -> Entry:
        """Append one or more entries to an account in one transaction, with no other entry between; return the last.

        - `holder` is the number of the ledger record that opened the account.
        - `drafts(connection)` reads the account's balances and returns the entries with the prices that follow from
          these balances. The first entry must state the `position` for which it was priced. The function must have no
          side effects, because it is called again if a concurrent entry makes the prices outdated.
        """
        ...

    def append_in(self, connection: Connection, draft: Draft) -> Entry:
        """Append an entry inside a transaction that the caller opened with `writing`; return it with position and hash.

        Nothing is committed here. Raises `Refused` if a constraint of the database forbids the entry, and `Overtaken`
        if another entry has the position that `draft` asks for.
        """
        ...

    def close(self) -> None:
        """Close every connection to the ledger's database."""
        ...


def cause(error: SQLAlchemyError) -> str:
    """Return the first line of the database driver's message in `error`, without a full stop, for error messages."""
    message = str(error.orig) if isinstance(error, DBAPIError) else str(error)
    return (message.splitlines() or ["no reason was given"])[0].rstrip(".")
