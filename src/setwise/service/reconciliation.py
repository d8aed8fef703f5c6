"""Compares the service's own tables with the ledger: stored answers, roles of people, definitions of datasets.

Anybody who can write to the database could change these tables. The ledger has the same facts, protected by its hash
chains: the answer of each query, each change of a role, and each registration of a dataset.
"""

import logging
from collections import defaultdict
from collections.abc import Iterator

from sqlalchemy import select

from setwise.analytics.engines.duckdb.sources import DataIdentity
from setwise.errors import BadRequest, SetwiseError, UnknownAccount
from setwise.ledger.audit.chain_check import Fault
from setwise.ledger.ledger import Ledger
from setwise.ledger.records import digest
from setwise.service.auth.people import FIRST_STEWARD
from setwise.service.queries.engine_pool import Engines
from setwise.service.storage import schema
from setwise.service.storage.database import Database
from setwise.service.storage.datasets import Dataset, Datasets

_log = logging.getLogger("setwise.service")


def table_faults(ledger: Ledger, database: Database, datasets: Datasets) -> Iterator[Fault]:
    """Yield a `Fault` for each answer, role and dataset in the service's tables that differs from `ledger`.

    Answers and roles are read from `database`, and definitions of datasets from the store `datasets`.
    """
    yield from _answer_faults(ledger, database)
    yield from _role_faults(ledger, database)
    yield from _dataset_faults(ledger, datasets)


def _answer_faults(ledger: Ledger, database: Database) -> Iterator[Fault]:
    """Yield a `Fault` for every query whose answer in the service's tables differs from the answer in `ledger`.

    The service's tables are read from `database`.
    """
    columns = (schema.jobs.c.account, schema.jobs.c.key, schema.jobs.c.answer)
    statement = select(*columns).where(schema.jobs.c.answer.is_not(None)).order_by(schema.jobs.c.account)
    with database.reading() as connection:
        rows = connection.execute(statement).all()
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
    """Yield a `Fault` for every person whose role in `database` differs from the role in the audit log of `ledger`.

    A person is also reported if only one of the two says that the person was removed, and if the person's row is gone.
    A row stays when a person is removed, so that nobody else gets the name.
    """
    roles: dict[str, str | None] = {FIRST_STEWARD: "steward"}
    for record in ledger.acts():
        event = record.event
        if event.action in ("person.added", "person.role"):
            # A person who has lost all groups of the provider is recorded with an empty role, which means analyst.
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
    for name in sorted(roles.keys() - {person.name for person in people}):
        yield Fault(None, None, f"records the person {name!r}, and the service has no row of this name")


def _dataset_faults(ledger: Ledger, datasets: Datasets) -> Iterator[Fault]:
    """Yield a `Fault` for every dataset whose definition in the store `datasets` differs from that in `ledger`.

    A dataset without a definition in the ledger is a fault too, and so is one in the ledger that the store does not
    have: datasets are never deleted. If a registration was interrupted between the store and the ledger, there is a
    fault until the registration is repeated.
    """
    registered = {record.event.subject for record in ledger.acts() if record.kind == "dataset"}
    definitions = datasets.definitions()
    for name in sorted(registered - definitions.keys()):
        yield Fault(None, None, f"records the dataset {name!r}, and the service has no row of this name")
    for name, definition in definitions.items():
        recorded = _recorded_definitions(ledger, name)
        if not recorded:
            yield Fault(None, None, f"has no record of what the dataset {name!r} reads")
        elif digest(definition) != recorded[-1]:
            yield Fault(None, None, f"records another definition of the dataset {name!r}")


def record_shared_data(ledger: Ledger, datasets: Datasets, engines: Engines) -> list[Fault]:
    """Record in `ledger` what is read by datasets that share data at present, unless the ledger knows that already.

    Datasets that read the same data should share a cap (joint budget). A `Fault` is returned for each dataset that
    cannot, as by `record_sources`. Data that only one dataset reads are not recorded, so that the ledger does not grow
    with each new file.

    - `datasets` is the store of all datasets.
    - `engines` finds out what they read.

    Two kinds of datasets are left out: those that a steward has set apart, and those without a definition in the
    ledger. A verification reports the latter as faults, and a record made here would hide such a fault.
    """
    sources: dict[str, DataIdentity] = {}
    for name, definition in datasets.definitions().items():
        if has_definition(ledger, name) and not ledger.registrations(name)[-1].details["apart"]:
            found = _current_source(engines, name, definition)
            if found is not None:
                sources[name] = found[1]
    readers: dict[str, set[str]] = defaultdict(set)
    for name, source in sources.items():
        for text in source.reads:
            readers[text].add(name)
    unknown: set[str] = set()
    for name, source in sources.items():
        sharing = {reader for text in (*source.reads, *source.within) for reader in readers.get(text, ())}
        if not sharing <= ledger.names_of_data(name):
            unknown |= {name, *sharing}
    return record_sources(ledger, datasets, engines, names=unknown)


def _current_source(engines: Engines, name: str, definition: str) -> tuple[Dataset, DataIdentity] | None:
    """Return the dataset that `definition` describes and the identity of the rows that it reads at present.

    Returns None, and logs an error about the dataset `name`, if `engines` cannot open its table.
    """
    try:
        dataset = Dataset.read(definition)
        return dataset, engines.source(dataset)
    except (SetwiseError, OSError, ValueError, TypeError) as error:
        _log.error("what the dataset %s reads cannot be recorded: %s", name, type(error).__name__)
        return None


def has_definition(ledger: Ledger, name: str) -> bool:
    """Return whether the ledger has recorded the definition of the dataset called `name`."""
    return bool(_recorded_definitions(ledger, name))


def _recorded_definitions(ledger: Ledger, name: str) -> list[str]:
    """Return the digests of all definitions that the ledger has recorded for the dataset `name`, oldest first."""
    events = ledger.registrations(name)
    return [str(event.details["definition"]) for event in events if "definition" in event.details]


def record_sources(
    ledger: Ledger, datasets: Datasets, engines: Engines, *, names: set[str] | None = None
) -> list[Fault]:
    """Record in `ledger` which files or tables on servers each dataset reads at present, as `engines` finds out.

    Returns a `Fault` for each dataset that turns out to read the rows of another dataset, and cannot share its cap
    (joint budget) because accounts on the two draw on different caps, or protect different units of privacy. This
    happens if a view was defined anew, or if an earlier version did not see that the two read the same rows.

    `datasets` is the store of all datasets. `names` are the names of the datasets to record, and None means all.
    Earlier records are kept. A dataset is skipped if its definition differs from the definition that the ledger has
    recorded: recording the changed definition would hide the change, which a verification of the ledger reports. If a
    dataset cannot be recorded, for example because its table is gone, an error is logged and the others are recorded.
    """
    faults: list[Fault] = []
    for name, definition in datasets.definitions().items():
        if names is not None and name not in names:
            continue
        records, recorded = ledger.registrations(name), _recorded_definitions(ledger, name)
        if recorded and recorded[-1] != digest(definition):
            continue  # the definition was changed after its registration; recording it would hide the change
        apart = str(records[-1].details["apart"]) if records else ""
        found = _current_source(engines, name, definition)
        if found is None:
            continue
        dataset, source = found
        try:
            ledger.register_dataset(
                name,
                reads=source.reads,
                within=source.within,
                definition=definition,
                apart=apart,
                unit=dataset.unit,
            )
        except BadRequest as error:
            _log.error("what the dataset %s reads cannot be recorded: its rows have another cap or unit", name)
            faults.append(Fault(None, None, f"does not limit all that is spent on one table: {error}"))
        except SetwiseError as error:
            _log.error("what the dataset %s reads cannot be recorded: %s", name, type(error).__name__)
    return faults
