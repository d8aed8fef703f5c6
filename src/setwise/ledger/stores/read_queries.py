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
    """How many entries an account has, how many of them are charges, and its state: open, frozen or closed."""

    entries: int
    charges: int
    state: str


def account_counters(connection: Connection, holder: int) -> AccountCounters:
    """Return the number of entries and charges, and the state, of the account with the register number `holder`.

    A register number is the number of the record that opened an account or a cap.
    """
    columns = (accounts.c.entries, accounts.c.charges, accounts.c.state)
    return AccountCounters(*connection.execute(select(*columns).where(accounts.c.holder == holder)).one())


def spent_of(connection: Connection, holder: int, period: str) -> dict[str, int]:
    """Return the units of each balance that an account or cap has spent in the budget period named `period`.

    The keys are balance names (such as "wallet": mu squared, 2^60 units when full); balances that were never touched
    are left out. `holder` is the register number of the account or cap (a joint budget of accounts), that is, the
    number of the record that opened it.
    """
    query = select(balances.c.what, balances.c.spent).where(balances.c.holder == holder, balances.c.period == period)
    return {row.what: row.spent for row in connection.execute(query)}


@dataclass(frozen=True, slots=True)
class PricingState:
    """The values that the prices of an account's mechanism uses depend on, read in one statement.

    - `entries` is the number of the account's entries.
    - `spent` has units per balance name of the account (such as "wallet", 2^60 units when full): the units that the
      account has spent. Under a name such as "slice:wallet" it has instead the units in the account's slice, its
      reserved part of the dataset's cap (the joint budget of its accounts).
    - `given_up` are the units spent of the cap's balance "rule". They tell which payment rule of the cap was dropped,
      if any: the Gaussian wallet (a budget in mu squared) or the sum of epsilons.
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
    """Return the values on which the prices of an account's mechanism uses depend, in the budget period `period`.

    `holder` is the account's register number (the number of its opening record).
    """
    rows = connection.execute(_PRICED, {"holder": holder, "period": period}).all()
    return PricingState(
        entries=rows[0].entries,
        spent={row.what: row.spent for row in rows if row.own and row.what is not None},
        given_up=sum(row.spent for row in rows if not row.own),
    )


def locked_spent_of(connection: Connection, holder: int) -> dict[str, int]:
    """Return the units spent of each balance without periods; lock the rows of these balances.

    The rows stay locked until the transaction ends. `holder` is the register number (the number of the opening record)
    of the account or cap that has the balances. The keys are balance names (such as "wallet": mu squared, 2^60 units
    when full).
    """
    query = select(balances.c.what, balances.c.spent).where(balances.c.holder == holder, balances.c.period == "")
    return {row.what: row.spent for row in connection.execute(query.order_by(balances.c.what).with_for_update())}


@dataclass(frozen=True, slots=True)
class Slice:
    """The part of one balance of a cap that is reserved for one account: `units` units of the balance.

    A cap is the joint budget of all accounts on a dataset. The reserved units are kept as a balance of the account,
    whose name is `balance_name`: "slice:wallet" for units of the cap's balance "wallet" (mu squared, 2^60 units when
    full). `holder` is the number of the record that opened the account, `name` the account's name, and `at` the
    timestamp of the account's last entry, in microseconds since 1970.
    """

    holder: int
    name: str
    balance_name: str
    units: int
    at: int


def slices_of(connection: Connection, cap: int) -> list[Slice]:
    """Return the slices of a cap that have at least one unit, where `cap` is the number of the record that opened it.

    A cap is the joint budget of a dataset's accounts. A slice is the part of one of its balances, such as "wallet",
    that is reserved for one account.
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
    """Return the budget that accounts have spent: {(register number, period): {balance name: units}}.

    A register number is the number of the record that opened an account, and `holders` is a SELECT of the register
    numbers of the accounts to read. A period is a calendar period, such as "2026-11", or "" for an account whose budget
    is never renewed. Only the given `periods` are read; if None, all periods in which something was spent. A balance is
    a named part of a budget, such as "wallet" (2^60 units when full).
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
    """Return whether the ledger has an account or a cap on any of `datasets`, given by name.

    A cap is the joint budget of a dataset's accounts.
    """
    opened = select(accounts.c.holder).where(accounts.c.dataset.in_(datasets))
    capped = select(openings.c.holder).where(openings.c.kind == "cap", openings.c.name.in_(datasets))
    return connection.execute(opened.union_all(capped).limit(1)).first() is not None


def entry_under(connection: Connection, holder: int, account: str, kind: EntryKind, key: str) -> Entry | None:
    """Return the account's entry of this `kind` under the idempotency `key`, or None if there is no such entry.

    `kind` is "charge", "settle", "release" or "slice". A "settle" entry stores the answer of a charge, and a "release"
    the answer of one part of it. A "slice" entry moves budget between a cap (the joint budget of a dataset's accounts)
    and the account. `holder` is the register number of the account (the number of its opening record), and `account`
    its name.
    """
    query = select(entries).where(entries.c.holder == holder, entries.c.key == key, entries.c.kind == kind)
    row = connection.execute(query).mappings().one_or_none()
    return None if row is None else read_entry(account, row)


@dataclass(frozen=True, slots=True)
class SettlementState:
    """The facts that decide whether a charge can be settled with a refund, read in one statement.

    A settlement is the entry that stores the answer of a charge. `entries` is the number of the account's entries.
    `charged` is the stored text of the mechanism uses that the charge drew, as `read_uses` reads it; None if the
    account has no such charge. `is_settled` says whether the charge has its answer, and `has_releases` whether parts of
    its answer were released.
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
    """Return the facts that decide whether the charge under `charge_key` can be settled with a refund.

    A settlement is the entry that stores the answer of a charge. `holder` is the register number (the number of the
    opening record) of the account that was charged.
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
    """Yield the entries of an account in order, from the one after the position `after` on.

    `holder` is the account's register number (the number of its opening record) and `account` its name.
    """
    return (read_entry(account, row) for row in entry_rows(connection, holder, after))


def entry_rows(connection: Connection, holder: int, after: int) -> Generator[RowMapping, None, None]:
    """Yield the rows of an account's entries in order, beginning with the entry after the position `after`.

    `connection` is a connection to the ledger's database, and `holder` is the account's register number (the number of
    its opening record). Close the generator if it is not read to its end, because its rows come from a cursor on the
    server.
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
    """Yield (position, balance change) for every balance change of one account's entries, in the order of the entries.

    An entry has no, one or several balance changes; `position` is the entry's place in the account's chain of entries.
    `holder` is the account's register number (the number of its opening record).
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
    """Return one JSON text for each entry of an account, in the order of the entries: the entry's balance changes.

    `holder` is the account's register number (the number of its opening record).
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
