"""The service's own tables, beside the ledger's in one database."""

from sqlalchemy import Column, Double, ForeignKey, Index, Integer, MetaData, String, Table, Text, UniqueConstraint

metadata = MetaData()

versions = Table("service_schema", metadata, Column("version", Integer, primary_key=True))

people = Table(
    "service_people",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("role", String(16), nullable=False),
    Column("created_at", Double, nullable=False),
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
