"""Read-only queries, each served by an index; writes are in sqlite.py and postgresql.py."""

from collections.abc import Collection, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, select, text, tuple_

from setwise.ledger.records import Contents, Entry, EntryKind
from setwise.ledger.stores.base import Movement, write_moves
from setwise.ledger.stores.schema import accounts, balances, entries, movements, openings

_PAGE = 5000
"""Rows, or holders, of one statement."""

_ENTRIES_HELD = 2
"""Entries held in memory while an account is read: the text of one answer may have ten megabytes."""


@dataclass(frozen=True, slots=True)
class AccountCounters:
    """How many entries an account has, how many of them are charges, and whether it is open."""

    entries: int
    charges: int
    state: str


def account_counters(connection: Connection, holder: int) -> AccountCounters:
    """Return the present row of an account."""
    columns = (accounts.c.entries, accounts.c.charges, accounts.c.state)
    return AccountCounters(*connection.execute(select(*columns).where(accounts.c.holder == holder)).one())


def spent_of(connection: Connection, holder: int, period: str) -> dict[str, int]:
    """Return what was spent of each line in a period; lines without movements are left out."""
    found = select(balances.c.what, balances.c.spent).where(balances.c.holder == holder, balances.c.period == period)
    return {row.what: row.spent for row in connection.execute(found)}


@dataclass(frozen=True, slots=True)
class PricingState:
    """What prices depend on, read in one statement: the number of entries, the balances, and the cap's rule.

    `spent` are the units spent per line of the account; for a line of a slice, the units that it holds. `given_up` are
    the units spent of the cap's line `rule`.
    """

    entries: int
    spent: Mapping[str, int]
    given_up: int


_PRICED = text(
    "SELECT a.entries, 1 AS own, b.what, b.spent FROM ledger_accounts a LEFT JOIN ledger_balances b "
    "ON b.holder = a.holder AND b.period IN (:period, '') WHERE a.holder = :holder "
    "UNION ALL SELECT a.entries, 0, b.what, b.spent FROM ledger_accounts a JOIN ledger_balances b "
    "ON b.holder = a.cap AND b.period = '' AND b.what = 'rule' WHERE a.holder = :holder"
)


def pricing_state(connection: Connection, holder: int, period: str) -> PricingState:
    """Return what the prices of an account's uses depend on."""
    rows = connection.execute(_PRICED, {"holder": holder, "period": period}).all()
    return PricingState(
        entries=rows[0].entries,
        spent={row.what: row.spent for row in rows if row.own and row.what is not None},
        given_up=sum(row.spent for row in rows if not row.own),
    )


def locked_spent_of(connection: Connection, holder: int) -> dict[str, int]:
    """Return what was spent of each line without periods, and let nobody else change it in this transaction."""
    found = select(balances.c.what, balances.c.spent).where(balances.c.holder == holder, balances.c.period == "")
    return {row.what: row.spent for row in connection.execute(found.order_by(balances.c.what).with_for_update())}


@dataclass(frozen=True, slots=True)
class Slice:
    """What an account holds of a line of its cap: `what` is the account's line, `at` the stamp of its last entry."""

    holder: int
    name: str
    what: str
    units: int
    at: int


def slices_of(connection: Connection, cap: int) -> list[Slice]:
    """Return what is held of a cap."""
    columns = (accounts.c.holder, accounts.c.name, balances.c.what, balances.c.spent, accounts.c.at)
    found = (
        select(*columns)
        .join(balances, balances.c.holder == accounts.c.holder)
        .where(accounts.c.cap == cap, balances.c.period == "", balances.c.what.startswith("slice:"))
        .where(balances.c.spent > 0)
    )
    return [Slice(*row) for row in connection.execute(found)]


def spent_by(
    connection: Connection, holders: Select[tuple[int]], periods: Collection[str] | None = None
) -> dict[tuple[int, str], dict[str, int]]:
    """Return what each of the holders spent of each line in each of the periods, or in each that there was."""
    found: dict[tuple[int, str], dict[str, int]] = {}
    columns = (balances.c.holder, balances.c.period, balances.c.what, balances.c.spent)
    chosen = select(*columns).where(balances.c.holder.in_(holders))
    if periods is not None:
        chosen = chosen.where(balances.c.period.in_(periods))
    for holder, period, what, spent in connection.execute(chosen):
        found.setdefault((holder, period), {})[what] = spent
    return found


def any_is_known(connection: Connection, datasets: Collection[str]) -> bool:
    """Return whether one of the datasets has an account or a cap."""
    opened = select(accounts.c.holder).where(accounts.c.dataset.in_(datasets))
    capped = select(openings.c.holder).where(openings.c.kind == "cap", openings.c.name.in_(datasets))
    return connection.execute(opened.union_all(capped).limit(1)).first() is not None


def entry_under(connection: Connection, holder: int, account: str, kind: EntryKind, key: str) -> Entry | None:
    """Return the charge or settlement under a key, if there is one."""
    found = select(entries).where(entries.c.holder == holder, entries.c.key == key, entries.c.kind == kind)
    row = connection.execute(found).mappings().one_or_none()
    return None if row is None else read_entry(account, row)


def entries_of(connection: Connection, holder: int, account: str, after: int = 0) -> Iterator[Entry]:
    """Return the entries of an account in order, from the one after a position on."""
    return (read_entry(account, row) for row in entry_rows(connection, holder, after))


def entry_rows(connection: Connection, holder: int, after: int) -> Generator[RowMapping, None, None]:
    """Yield the rows of the entries of an account in order, from the one after a position on.

    Close the generator if it is not read to its end: rows come from a cursor of the server.
    """
    while True:
        following = entries.c.holder == holder, entries.c.position > after
        found = select(entries).where(*following).order_by(entries.c.position).limit(_PAGE)
        count = 0
        with connection.execute(found, execution_options={"yield_per": _ENTRIES_HELD}) as result:
            for row in result.mappings():
                count, after = count + 1, row["position"]
                yield row
        if count < _PAGE:
            return


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


def moves_of(connection: Connection, holder: int) -> list[str]:
    """Return what each entry of an account moved, as the text that new entries store, in the order of the entries."""
    moved: dict[int, list[Movement]] = {}
    columns = (movements.c.position, movements.c.holder, movements.c.period, movements.c.what, movements.c.amount)
    found = select(*columns).where(movements.c.account == holder).order_by(movements.c.number)
    for row in connection.execute(found):
        moved.setdefault(row.position, []).append(Movement(row.holder, row.period, row.what, row.amount))
    places = select(entries.c.position).where(entries.c.holder == holder).order_by(entries.c.position)
    return [write_moves(moved.get(position, ())) for position in connection.execute(places).scalars()]


def read_entry(account: str, row: Mapping[Any, Any]) -> Entry:
    """Return an entry from its row."""
    contents = Contents(
        account=account,
        kind=row["kind"],
        key=row["key"],
        period=row["period"],
        uses=row["uses"],
        text=row["content"],
        moves=row["moves"],
    )
    return Entry(contents=contents, position=row["position"], at=row["at"], previous=row["previous"], hash=row["hash"])
