"""The tables of the ledger, the same in every database. A cap is the joint budget of a dataset's accounts.

    openings     the register: accounts and dataset caps that were opened, and audit events (datasets registered,
                 accounts frozen and closed, heads signed, other acts of stewards), in order, chained by hashes;
                 never changed. `holder` is the number of a record; other tables refer to accounts and caps by it
    lines        the named balances of each account and cap, and how much each can pay in a period: for a registered
                 use, the number of times that it may be charged; for any other budget, a number of units
    accounts     the last position and hash of each account's chain of entries, and whether the account is open
    entries      charges, settlements, slices and releases, per account in order, chained by hashes; never changed
    movements    the balance changes of each entry: amounts drawn, or returned if negative; never changed
    balances     the sum of the movements per balance and period, which the database keeps between 0 and its size. A
                 balance named "slice:..." is the part of a cap that the account holds: a slice entry adds to it and
                 a charge takes from it

Triggers (`sqlite_triggers`, `postgresql_triggers`) refuse every change of the past, and apply movements to balances.
"""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    text,
)

SCHEMA = MetaData()

_LONG = BigInteger().with_variant(Integer(), "sqlite")
_PLAIN = Text().with_variant(Text(collation="C"), "postgresql")
"""Text that sorts by code point, so that the names of periods sort in time order on every server."""

OVERSPENT = "ledger_never_overspent"
"""The name of the CHECK constraint that refuses to overdraw a balance."""

openings = Table(
    "ledger_openings",
    SCHEMA,
    Column("holder", _LONG, primary_key=True, autoincrement=False),
    Column(
        "kind",
        _PLAIN,
        CheckConstraint(
            "kind IN ('setwise', 'filter', 'cap', 'dataset', 'freeze', 'thaw', 'close', 'act', 'head', 'seal')",
            name="ledger_kind_of_opening",
        ),
        nullable=False,
    ),
    Column("name", _PLAIN, nullable=False),
    Column("lines", Integer, nullable=False),
    Column("at", _LONG, nullable=False),
    Column("body", _PLAIN, nullable=False),
    Column("previous", _PLAIN, nullable=False),
    Column("hash", _PLAIN, nullable=False, unique=True),
    CheckConstraint("holder > 0"),
)
Index(
    "ledger_one_cap",
    openings.c.name,
    unique=True,
    sqlite_where=text("kind = 'cap'"),
    postgresql_where=text("kind = 'cap'"),
)

lines = Table(
    "ledger_lines",
    SCHEMA,
    Column("holder", _LONG, ForeignKey(openings.c.holder), nullable=False),
    Column("what", _PLAIN, nullable=False),
    Column("place", Integer, nullable=False),
    Column("total", _LONG, CheckConstraint("total >= 0"), nullable=False),
    PrimaryKeyConstraint("holder", "what"),
    UniqueConstraint("holder", "what", "total"),
)

accounts = Table(
    "ledger_accounts",
    SCHEMA,
    Column("holder", _LONG, ForeignKey(openings.c.holder), primary_key=True, autoincrement=False),
    Column("name", _PLAIN, nullable=False, unique=True),
    Column("kind", _PLAIN, CheckConstraint("kind IN ('setwise', 'filter')"), nullable=False),
    Column("dataset", _PLAIN, nullable=False),
    Column("cap", _LONG, ForeignKey(openings.c.holder), nullable=True),
    Column("entries", _LONG, nullable=False),
    Column("charges", _LONG, nullable=False),
    Column("head", _PLAIN, nullable=False),
    Column("at", _LONG, nullable=False),
    Column("period", _PLAIN, nullable=False),
    Column("analyst", _PLAIN, nullable=False, server_default=""),
    Column(
        "state",
        _PLAIN,
        CheckConstraint("state IN ('open', 'frozen', 'closed')", name="ledger_state_of_account"),
        nullable=False,
        server_default="open",
    ),
)
Index("ledger_accounts_by_dataset", accounts.c.dataset)
Index("ledger_accounts_by_analyst", accounts.c.analyst)

entries = Table(
    "ledger_entries",
    SCHEMA,
    Column("holder", _LONG, ForeignKey(accounts.c.holder), nullable=False),
    Column("position", _LONG, nullable=False),
    Column(
        "kind",
        _PLAIN,
        CheckConstraint("kind IN ('charge', 'settle', 'slice', 'release')", name="ledger_kind_of_entry"),
        nullable=False,
    ),
    Column("key", _PLAIN, nullable=False),
    Column("period", _PLAIN, nullable=False),
    Column("at", _LONG, nullable=False),
    Column("uses", _PLAIN, nullable=False),
    Column("content", _PLAIN, nullable=False),
    Column("digest", _PLAIN, nullable=False),
    Column("previous", _PLAIN, nullable=False),
    Column("hash", _PLAIN, nullable=False),
    Column("moves", _PLAIN, nullable=False, server_default=""),
    PrimaryKeyConstraint("holder", "position"),
    UniqueConstraint("holder", "key", "kind", name="ledger_one_entry_per_key"),
    CheckConstraint("position > 0"),
)

movements = Table(
    "ledger_movements",
    SCHEMA,
    Column("number", _LONG, primary_key=True, autoincrement=True),
    Column("account", _LONG, nullable=False),
    Column("position", _LONG, nullable=False),
    Column("holder", _LONG, nullable=False),
    Column("period", _PLAIN, nullable=False),
    Column("what", _PLAIN, nullable=False),
    Column("amount", _LONG, CheckConstraint("amount <> 0"), nullable=False),
    ForeignKeyConstraint(["account", "position"], [entries.c.holder, entries.c.position]),
    ForeignKeyConstraint(["holder", "what"], [lines.c.holder, lines.c.what], name="ledger_registered"),
    UniqueConstraint("account", "position", "holder", "what"),
    sqlite_autoincrement=True,
)

balances = Table(
    "ledger_balances",
    SCHEMA,
    Column("holder", _LONG, nullable=False),
    Column("period", _PLAIN, nullable=False),
    Column("what", _PLAIN, nullable=False),
    Column("total", _LONG, nullable=False),
    Column("spent", _LONG, nullable=False),
    Column("movement", _LONG, nullable=False),
    PrimaryKeyConstraint("holder", "period", "what"),
    ForeignKeyConstraint(["holder", "what", "total"], [lines.c.holder, lines.c.what, lines.c.total]),
    CheckConstraint("0 <= spent AND spent <= total", name=OVERSPENT),
)

versions = Table(
    "ledger_versions",
    MetaData(),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("name", _PLAIN, nullable=False),
    Column("at", _LONG, nullable=False),
)
"""The migrations that the store has had; outside `SCHEMA`, because the table exists before the others."""

APPEND_ONLY = (openings, lines, entries, movements)
