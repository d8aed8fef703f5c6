"""Reading the tables, each by an index."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from setwise.ledger.entry import Contents, Entry, EntryKind
from setwise.ledger.tables import accounts, balances, entries


@dataclass(frozen=True, slots=True)
class Last:
    """The head of an account's chain: the stamp, period, hash and number of its last entry, and its charges."""

    at: int
    period: str
    head: str
    entries: int
    charges: int


def last_of(connection: Connection, holder: int) -> Last:
    """Return the head of an account's chain."""
    columns = (accounts.c.at, accounts.c.period, accounts.c.head, accounts.c.entries, accounts.c.charges)
    return Last(*connection.execute(select(*columns).where(accounts.c.holder == holder)).one())


def spent_of(connection: Connection, holder: int, period: str) -> dict[str, int]:
    """Return what was spent of each line in a period; lines without movements are left out."""
    found = select(balances.c.what, balances.c.spent).where(balances.c.holder == holder, balances.c.period == period)
    return {row.what: row.spent for row in connection.execute(found)}


def entry_under(connection: Connection, holder: int, account: str, kind: EntryKind, key: str) -> Entry | None:
    """Return the charge or settlement under a key, if there is one."""
    found = select(entries).where(entries.c.holder == holder, entries.c.key == key, entries.c.kind == kind)
    row = connection.execute(found).mappings().one_or_none()
    return None if row is None else read_entry(account, row)


def read_entry(account: str, row: Mapping[Any, Any]) -> Entry:
    """Return an entry from its row."""
    contents = Contents(
        account=account,
        kind=row["kind"],
        key=row["key"],
        period=row["period"],
        uses=row["uses"],
        text=row["content"],
    )
    return Entry(contents=contents, position=row["position"], at=row["at"], previous=row["previous"], hash=row["hash"])
