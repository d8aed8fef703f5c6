"""Comparison of the service's own tables with the ledger: answers shown, roles of people, where data sets point.

Whoever can write to the database could change these tables. What they should hold is recorded in the ledger, under its
hashes: the answer of each query, each change of a role, and each registration of a data set.
"""

import logging
from collections.abc import Iterator

from sqlalchemy import select

from setwise.errors import SetwiseError, UnknownAccount
from setwise.ledger.audit.chain import Fault
from setwise.ledger.ledger import Ledger
from setwise.ledger.records import digest
from setwise.service.queries.engine_pool import Engines
from setwise.service.storage import schema
from setwise.service.storage.database import Database
from setwise.service.storage.datasets import Dataset, Datasets

_log = logging.getLogger("setwise.service")

_FIRST_STEWARD = "steward"
"""The person whom the first start makes; no record of the ledger names a role for them."""


def table_faults(ledger: Ledger, database: Database, datasets: Datasets) -> Iterator[Fault]:
    """Yield what the service's tables hold that the ledger does not bear out."""
    yield from _answer_faults(ledger, database)
    yield from _role_faults(ledger, database)
    yield from _dataset_faults(ledger, datasets)


def _answer_faults(ledger: Ledger, database: Database) -> Iterator[Fault]:
    """Compare every answer that a query shows with the one that its account stored under the query's key."""
    columns = (schema.jobs.c.account, schema.jobs.c.key, schema.jobs.c.answer)
    shown = select(*columns).where(schema.jobs.c.answer.is_not(None)).order_by(schema.jobs.c.account)
    with database.reading() as connection:
        rows = connection.execute(shown).all()
    for account in dict.fromkeys(row.account for row in rows):
        try:
            stored = {
                entry.contents.key: entry.contents.text
                for entry in ledger.history(account)
                if entry.contents.kind == "settle"
            }
        except UnknownAccount:
            stored = {}
        for row in rows:
            if row.account == account and stored.get(row.key) != row.answer:
                yield Fault(account, None, f"shows another answer under the key {row.key!r} than the ledger stores")


def _role_faults(ledger: Ledger, database: Database) -> Iterator[Fault]:
    """Compare every person's role, and whether they were removed, with the events that gave and took it."""
    roles: dict[str, str | None] = {_FIRST_STEWARD: "steward"}
    for record in ledger.acts():
        event = record.event
        if event.action in ("person.added", "person.role"):
            # Somebody who has lost all groups of the provider is recorded without a role, and is an analyst.
            roles[event.subject] = str(event.details.get("role", "")) or "analyst"
        elif event.action == "person.removed":
            roles[event.subject] = None
    with database.reading() as connection:
        people = connection.execute(select(schema.people)).all()
    for person in people:
        role = None if person.removed_at is not None else person.role
        if roles.get(person.name) != role:
            recorded = roles.get(person.name) or "nobody"
            yield Fault(None, None, f"records {person.name!r} as {recorded}, and the service has {role or 'nobody'}")


def _dataset_faults(ledger: Ledger, datasets: Datasets) -> Iterator[Fault]:
    """Compare the definition of every data set with the one that was recorded when it was registered."""
    for name, definition in datasets.definitions().items():
        recorded = _recorded_definitions(ledger, name)
        if not recorded:
            yield Fault(None, None, f"has no record of what the data set {name!r} reads")
        elif digest(definition) != recorded[-1]:
            yield Fault(None, None, f"records another definition of the data set {name!r}")


def has_definition(ledger: Ledger, name: str) -> bool:
    """Return whether the ledger records what a data set reads, and by which definition."""
    return bool(_recorded_definitions(ledger, name))


def _recorded_definitions(ledger: Ledger, name: str) -> list[str]:
    """Return the digests of the definitions that were recorded for a data set, oldest first."""
    events = ledger.registrations(name)
    return [str(event.details["definition"]) for event in events if "definition" in event.details]


def record_sources(ledger: Ledger, datasets: Datasets, engines: Engines, *, names: set[str] | None = None) -> None:
    """Record in the ledger what every data set reads, or those of these `names`; what is recorded already stays.

    Data sets that an earlier version registered have no such record, and a folder may hold other files by now. One
    that cannot be recorded, because its table is gone or because it reads what is under another cap, is logged, and
    verification names it.
    """
    for name, definition in datasets.definitions().items():
        if names is not None and name not in names:
            continue
        records, recorded = ledger.registrations(name), _recorded_definitions(ledger, name)
        if recorded and recorded[-1] != digest(definition):
            continue  # the definition was changed since: recording it would attest the change
        apart = str(records[-1].details["apart"]) if records else ""
        try:
            source = engines.source(Dataset.read(definition))
            ledger.register_dataset(name, reads=source.reads, within=source.within, definition=definition, apart=apart)
        except (SetwiseError, OSError, ValueError, TypeError) as error:
            _log.error("what the data set %s reads cannot be recorded: %s", name, type(error).__name__)
