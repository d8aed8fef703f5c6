"""Reading the tables, each by an index."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import JSON, ColumnElement, Connection, Row, cast, func, select, tuple_

from setwise.ledger.records import Contents, Entry, EntryKind
from setwise.ledger.stores.base import Movement
from setwise.ledger.stores.schema import accounts, balances, entries, movements, openings

_PAGE = 5000
"""Rows, or holders, of one statement."""


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


def openings_of(connection: Connection, analyst: str | None) -> Sequence[Row[Any, Any, Any, Any]]:
    """Return holder, terms, latest period and charges of every account, or of one analyst's, by name."""
    found = (
        select(accounts.c.holder, openings.c.body, accounts.c.period, accounts.c.charges)
        .join(openings, openings.c.holder == accounts.c.holder)
        .order_by(accounts.c.name)
    )
    if analyst is not None:
        held_by: ColumnElement[str]
        if connection.dialect.name == "sqlite":
            held_by = func.json_extract(openings.c.body, "$.analyst")
        else:
            held_by = func.json_extract_path_text(cast(openings.c.body, JSON), "analyst")
        found = found.where(held_by == analyst)
    return connection.execute(found).all()


def spent_of_all(connection: Connection, periods: Mapping[int, str]) -> dict[int, dict[str, int]]:
    """Return what was spent of each line by each holder in its period; those without movements are left out."""
    found: dict[int, dict[str, int]] = {}
    for period in set(periods.values()):
        held = [holder for holder, its in periods.items() if its == period]
        for start in range(0, len(held), _PAGE):
            rows = select(balances.c.holder, balances.c.what, balances.c.spent).where(
                balances.c.period == period, balances.c.holder.in_(held[start : start + _PAGE])
            )
            for row in connection.execute(rows):
                found.setdefault(row.holder, {})[row.what] = row.spent
    return found


def dataset_is_known(connection: Connection, dataset: str) -> bool:
    """Return whether a dataset has an account or a cap."""
    opened = select(accounts.c.holder).where(accounts.c.dataset == dataset)
    capped = select(openings.c.holder).where(openings.c.kind == "cap", openings.c.name == dataset)
    return connection.execute(opened.union_all(capped).limit(1)).first() is not None


def entry_under(connection: Connection, holder: int, account: str, kind: EntryKind, key: str) -> Entry | None:
    """Return the charge or settlement under a key, if there is one."""
    found = select(entries).where(entries.c.holder == holder, entries.c.key == key, entries.c.kind == kind)
    row = connection.execute(found).mappings().one_or_none()
    return None if row is None else read_entry(account, row)


def entries_of(connection: Connection, holder: int, account: str, after: int = 0) -> Iterator[Entry]:
    """Yield the entries of an account in order, from the one after a position on."""
    while True:
        found = (
            select(entries)
            .where(entries.c.holder == holder, entries.c.position > after)
            .order_by(entries.c.position)
            .limit(_PAGE)
        )
        page = [read_entry(account, row) for row in connection.execute(found).mappings()]
        yield from page
        if len(page) < _PAGE:
            return
        after = page[-1].position


def movements_of(connection: Connection, holder: int) -> Iterator[tuple[int, Movement]]:
    """Yield the movements of an account's entries in order, each with the position of its entry."""
    columns = (movements.c.position, movements.c.holder, movements.c.period, movements.c.what, movements.c.amount)
    place = tuple_(movements.c.position, movements.c.holder, movements.c.what)
    after: tuple[int, int, str] = (-1, 0, "")
    while True:
        found = (
            select(*columns)
            .where(movements.c.account == holder, place > tuple_(*after))
            .order_by(movements.c.position, movements.c.holder, movements.c.what)
            .limit(_PAGE)
        )
        page = connection.execute(found).all()
        for row in page:
            yield row.position, Movement(row.holder, row.period, row.what, row.amount)
        if len(page) < _PAGE:
            return
        after = (page[-1].position, page[-1].holder, page[-1].what)


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
