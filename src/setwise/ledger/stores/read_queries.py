"""Read-only queries on the ledger's tables, each served by an index; writes are in sqlite.py and postgresql.py."""

from collections.abc import Collection, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, bindparam, select, text, tuple_

from setwise.ledger.records import Contents, Entry, EntryKind
from setwise.ledger.stores.base import Movement, write_moves
from setwise.ledger.stores.schema import accounts, balances, entries, movements, openings

_PAGE = 5000
"""Rows that one SELECT reads at most; longer results are read page by page."""

_ENTRIES_HELD = 2
"""Entries held in memory while an account is read: the text of one answer may have ten megabytes."""


@dataclass(frozen=True, slots=True)
class AccountCounters:
    """The number of an account's `entries`, how many of these entries are `charges`, and the account's `state`.

    The state is "open", "frozen" or "closed".
    """

    entries: int
    charges: int
    state: str


def account_counters(connection: Connection, holder: int) -> AccountCounters:
    """Return the number of entries, the number of charges, and the state of an account.

    `holder` is the number of the ledger record that opened the account.
    """
    columns = (accounts.c.entries, accounts.c.charges, accounts.c.state)
    return AccountCounters(*connection.execute(select(*columns).where(accounts.c.holder == holder)).one())


def spent_of(connection: Connection, holder: int, period: str) -> dict[str, int]:
    """Return how many units of each balance an account or cap has spent in the budget period `period`.

    `holder` is the number of the ledger record that opened the account or cap (a dataset's joint budget). For example,
    {"wallet": 2^58} is a quarter of the wallet (a budget of mu squared), because a full wallet has 2^60 units. The
    balance of a guarantee that was registered at the account's opening, such as "pure:0.1", counts its uses. Balances
    that no entry of the ledger has changed in the period are left out.
    """
    query = select(balances.c.what, balances.c.spent).where(balances.c.holder == holder, balances.c.period == period)
    return {row.what: row.spent for row in connection.execute(query)}


@dataclass(frozen=True, slots=True)
class PricingState:
    """The values that the price of an account's next charge depends on, read in one statement.

    - `entries` is the number of the account's entries. A price is valid only while no further entry is appended.
    - `spent` maps each balance, such as "wallet", to the units that the account has spent from it. Under names such as
      "slice:wallet" it has the units of a dataset's joint budget (cap) that are reserved for the account.
    - `given_up` has the units spent from the cap's balance "rule", which record whether the cap has dropped one of the
      two balances from which it pays: 0 for none, 2 for the sum of epsilons, 3 for the Gaussian wallet (mu squared).
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
    """Return the values that the price of an account's next charge depends on, read in one statement.

    They are the units that the account has spent in the budget period `period`, the number of its entries, and whether
    the dataset's joint budget has dropped one of its two balances. `holder` is the number of the ledger record that
    opened the account.
    """
    rows = connection.execute(_PRICED, {"holder": holder, "period": period}).all()
    return PricingState(
        entries=rows[0].entries,
        spent={row.what: row.spent for row in rows if row.own and row.what is not None},
        given_up=sum(row.spent for row in rows if not row.own),
    )


def locked_spent_of(connection: Connection, holder: int) -> dict[str, int]:
    """Return what an account or cap has spent of each balance that never starts afresh, and lock these balances.

    The result maps names of balances to units. A full balance such as "wallet" (mu squared) has 2^60 units; the balance
    of a guarantee that was registered at the account's opening, such as "pure:0.1", counts its uses. No other
    transaction can change the locked balances before this transaction ends. (SQLite locks no rows, because it has only
    one writer at a time.) `holder` is the number of the ledger record that opened the account or the cap (the joint
    budget of a dataset's accounts).
    """
    query = select(balances.c.what, balances.c.spent).where(balances.c.holder == holder, balances.c.period == "")
    return {row.what: row.spent for row in connection.execute(query.order_by(balances.c.what).with_for_update())}


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of one balance of a cap (the joint budget of a dataset's accounts) that is reserved for one account.

    - `holder` is the number of the ledger record that opened the account, and `name` the account's name.
    - `balance_name` is "slice:wallet" for units of the cap's balance "wallet", for example.
    - `units` is the number of reserved units.
    - `at` is the timestamp of the account's last entry, in microseconds since 1970.
    """

    holder: int
    name: str
    balance_name: str
    units: int
    at: int


def slices_of(connection: Connection, cap: int) -> list[Slice]:
    """Return a `Slice` for every part of the cap that is reserved for one account.

    `cap` is the number of the ledger record that opened the cap, the joint budget of a dataset's accounts. A cap has
    several balances, such as "wallet" (mu squared); each `Slice` is a part of one balance.
    """
    columns = (accounts.c.holder, accounts.c.name, balances.c.what, balances.c.spent, accounts.c.at)
    query = (
        select(*columns)
        .join(balances, balances.c.holder == accounts.c.holder)
        .where(accounts.c.cap == cap, balances.c.period == "", balances.c.what.startswith("slice:"))
        .where(balances.c.spent > 0)
    )
    return [Slice(*row) for row in connection.execute(query)]


def spent_by(
    connection: Connection, holders: Select[tuple[int]], periods: Collection[str] | None = None
) -> dict[tuple[int, str], dict[str, int]]:
    """Return the budget that accounts have spent: {(account number, period): {balance name: units}}.

    `holders` is a SELECT of account numbers (the numbers of the records that opened the accounts). A period is
    "2026-11", for example, or "" for an account without periods. Only the given `periods` are read; None reads all.
    """
    spent_units: dict[tuple[int, str], dict[str, int]] = {}
    columns = (balances.c.holder, balances.c.period, balances.c.what, balances.c.spent)
    chosen = select(*columns).where(balances.c.holder.in_(holders))
    if periods is not None:
        chosen = chosen.where(balances.c.period.in_(periods))
    for holder, period, balance_name, spent in connection.execute(chosen):
        spent_units.setdefault((holder, period), {})[balance_name] = spent
    return spent_units


def any_is_known(connection: Connection, datasets: Collection[str]) -> bool:
    """Return whether the ledger has an account or a cap (a joint budget of accounts) on any of the named `datasets`."""
    opened = select(accounts.c.holder).where(accounts.c.dataset.in_(datasets))
    capped = select(openings.c.holder).where(openings.c.kind == "cap", openings.c.name.in_(datasets))
    return connection.execute(opened.union_all(capped).limit(1)).first() is not None


def entry_under(connection: Connection, holder: int, account: str, kind: EntryKind, key: str) -> Entry | None:
    """Return the account's entry of this `kind` under the idempotency `key`, or None if there is no such entry.

    `holder` is the number of the ledger record that opened the account, and `account` the account's name.
    """
    query = select(entries).where(entries.c.holder == holder, entries.c.key == key, entries.c.kind == kind)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else read_entry(account, row)


@dataclass(frozen=True, slots=True)
class SettlementState:
    """The facts about a charge that decide whether an answer with a refund can be stored for it, read in one statement.

    - `entries` is the number of the account's entries.
    - `charged` has the guarantees that the charge paid for, and how often each, as JSON text such as `["pure:0.1x3"]`;
      None if there is no such charge.
    - `is_settled` says whether the charge has its answer already.
    - `has_releases` says whether parts of the answer were released before, which forbids a refund.
    """

    entries: int
    charged: str | None
    is_settled: bool
    has_releases: bool


# Keys are compared by their bytes. The key of a release is the charge's key, a line break and the name of the part.
_SETTLEMENT = text(
    "SELECT a.entries, c.uses, "
    "EXISTS (SELECT 1 FROM ledger_entries s WHERE s.holder = a.holder AND s.key = :key AND s.kind = 'settle'), "
    "EXISTS (SELECT 1 FROM ledger_entries r WHERE r.holder = a.holder AND r.kind = 'release' "
    "AND r.key > :begins AND r.key < :ends) "
    "FROM ledger_accounts a LEFT JOIN ledger_entries c "
    "ON c.holder = a.holder AND c.key = :key AND c.kind = 'charge' WHERE a.holder = :holder"
)


def settlement_state(connection: Connection, holder: int, charge_key: str) -> SettlementState:
    """Return the facts that decide whether an answer with a refund can be stored for a charge.

    The facts are what was charged, whether the charge has its answer already, whether parts of the answer were
    released, and how many entries the account has.

    `charge_key` is the idempotency key of the charge. `holder` is the number of the ledger record that opened the
    account.
    """
    values = {"holder": holder, "key": charge_key, "begins": f"{charge_key}\n", "ends": f"{charge_key}\x0b"}
    entry_count, charged, settled, released = connection.execute(_SETTLEMENT, values).one()
    return SettlementState(entry_count, charged, bool(settled), bool(released))


# Statements that are run for each of many accounts are built once: building one takes longer than the database takes.
_ENTRIES_AFTER = (
    select(entries)
    .where(entries.c.holder == bindparam("the_holder"), entries.c.position > bindparam("after"))
    .order_by(entries.c.position)
    .limit(_PAGE)
)
_MOVEMENTS_AFTER = (
    select(movements.c.position, movements.c.holder, movements.c.period, movements.c.what, movements.c.amount)
    .where(
        movements.c.account == bindparam("the_account"),
        tuple_(movements.c.position, movements.c.holder, movements.c.what)
        > tuple_(
            bindparam("after_position", type_=movements.c.position.type),
            bindparam("after_holder", type_=movements.c.holder.type),
            bindparam("after_what", type_=movements.c.what.type),
        ),
    )
    .order_by(movements.c.position, movements.c.holder, movements.c.what)
    .limit(_PAGE)
)


def entries_of(connection: Connection, holder: int, account: str, after: int = 0) -> Iterator[Entry]:
    """Yield the entries of an account in order, beginning after the entry at position `after` (0: from the first).

    `holder` is the number of the ledger record that opened the account, and `account` the account's name.
    """
    return (read_entry(account, row) for row in entry_rows(connection, holder, after))


def entry_rows(connection: Connection, holder: int, after: int) -> Generator[RowMapping, None, None]:
    """Yield the rows of an account's entries in order, beginning after the position `after` (0: from the first).

    `holder` is the number of the ledger record that opened the account. Close the generator if it is not read to its
    end: otherwise the database keeps a cursor open, from which the rows come.
    """
    while True:
        count, place = 0, {"the_holder": holder, "after": after}
        with connection.execute(_ENTRIES_AFTER, place, execution_options={"yield_per": _ENTRIES_HELD}) as result:
            for row in result.mappings():
                count, after = count + 1, row["position"]
                yield row
        if count < _PAGE:
            return


def movements_of(connection: Connection, holder: int) -> Iterator[tuple[int, Movement]]:
    """Yield a pair (position, change) for every change that an account's entries made to a budget balance, in order.

    `position` is the number of the entry in the account's hash chain, from 1. `holder` is the number of the ledger
    record that opened the account.
    """
    after: tuple[int, int, str] = (-1, 0, "")
    while True:
        place = dict(zip(("after_position", "after_holder", "after_what"), after, strict=True))
        page = connection.execute(_MOVEMENTS_AFTER, place | {"the_account": holder}).all()
        for row in page:
            yield row.position, Movement(row.holder, row.period, row.what, row.amount)
        if len(page) < _PAGE:
            return
        after = (page[-1].position, page[-1].holder, page[-1].what)


def moves_of(connection: Connection, holder: int) -> list[str]:
    """Return one JSON text for each entry of an account, with the changes of budget balances that the entry made.

    The texts are in the order of the entries. `holder` is the number of the ledger record that opened the account.
    """
    moved: dict[int, list[Movement]] = {}
    columns = (movements.c.position, movements.c.holder, movements.c.period, movements.c.what, movements.c.amount)
    query = select(*columns).where(movements.c.account == holder).order_by(movements.c.number)
    for row in connection.execute(query):
        moved.setdefault(row.position, []).append(Movement(row.holder, row.period, row.what, row.amount))
    places = select(entries.c.position).where(entries.c.holder == holder).order_by(entries.c.position)
    return [write_moves(moved.get(position, ())) for position in connection.execute(places).scalars()]


def read_entry(account: str, row: Mapping[Any, Any]) -> Entry:
    """Return the entry in a row of the entries table; `account` is the name of its account."""
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
