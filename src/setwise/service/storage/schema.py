"""The service's own tables, in the database of the ledger, and the pattern that the names in them must match."""

import re
from collections.abc import Callable

from sqlalchemy import (
    Column,
    Connection,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    inspect,
    text,
)

from setwise.errors import InvalidParameter

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
"""The pattern of names of people, datasets and accounts, which is safe in addresses, file names and log lines."""

NAME_IN_WORDS = "1 to 64 letters, digits, dots, dashes or underscores, the first a letter or digit"

Clock = Callable[[], float]
"""A function that returns the time in seconds since 1970."""


def check_name(name: str, description: str) -> str:
    """Return `name` if it has 1 to 64 letters, digits, dots, dashes or underscores, the first a letter or digit.

    Raises `InvalidParameter` otherwise. The message calls the name by the words `description`, as in "the name of a
    person".
    """
    if not re.fullmatch(NAME, name):
        raise InvalidParameter(f"{description} must be {NAME_IN_WORDS}")
    return name


metadata = MetaData()

versions = Table("service_schema", metadata, Column("version", Integer, primary_key=True))

people = Table(
    "service_people",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("role", String(16), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("removed_at", Double),
    Column("subject", String(64), unique=True),
)

tokens = Table(
    "service_tokens",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("person", ForeignKey("service_people.name"), nullable=False, index=True),
    Column("digest", String(64), nullable=False, unique=True),
    Column("label", String(100), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double),
    Column("revoked_at", Double),
)

sessions = Table(
    "service_sessions",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("token", ForeignKey("service_tokens.id"), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double, nullable=False),
)

datasets = Table(
    "service_datasets",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("definition", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("created_by", String(64), nullable=False),
)


question_budgets = Table(
    "service_question_budgets",
    metadata,
    Column("account", String(200), primary_key=True),
    Column("epsilon", Double, nullable=False),
    Column("delta", Double, nullable=False),
    Column("fresh_hours", Double, nullable=False),
)


def add_question_budgets(connection: Connection) -> None:
    """Migrate the database of `connection`: create the table of accounts' default budgets for SQL, unless it exists."""
    question_budgets.create(connection, checkfirst=True)


def add_removal_of_people(connection: Connection) -> None:
    """Migrate the database of `connection`: add the column with the time of a person's removal, unless it exists."""
    if "removed_at" not in _columns(connection, people):
        connection.execute(text(f"ALTER TABLE {people.name} ADD COLUMN removed_at DOUBLE PRECISION"))


def add_sign_on(connection: Connection) -> None:
    """Migrate the database of `connection`: add the column with a person's id at the single sign-on provider.

    Does nothing if the column exists.
    """
    if "subject" not in _columns(connection, people):
        connection.execute(text(f"ALTER TABLE {people.name} ADD COLUMN subject VARCHAR(64)"))
        connection.execute(text(f"CREATE UNIQUE INDEX service_people_subject ON {people.name} (subject)"))


def _columns(connection: Connection, table: Table) -> set[str]:
    """Return the names of the columns that `table` has in the database, so that a migration adds only missing ones."""
    return {column["name"] for column in inspect(connection).get_columns(table.name)}


jobs = Table(
    "service_jobs",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("person", String(64), nullable=False),
    Column("account", String(200), nullable=False),
    Column("key", String(128), nullable=False),
    Column("request", Text, nullable=False),
    Column("state", String(16), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("replica", String(32), nullable=False),
    Column("heartbeat_at", Double, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("progress", Double, nullable=False),
    Column("cancelled_by", String(64)),
    Column("answer", Text),
    Column("problem", Text),
    UniqueConstraint("account", "key"),
    Index("service_jobs_by_person", "person", "created_at"),
)
