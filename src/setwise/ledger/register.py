"""The register: one chain of hashes over the openings of accounts and caps, and over audit events.

Each record has a number, `holder`, which identifies the account or cap that it opens in all other tables.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, get_args

from sqlalchemy import Connection, insert, select, update

from setwise.errors import BadRequest, InvalidParameter
from setwise.ledger.records import NOTHING_BEFORE, canonical, check_label, check_name, digest, moment_of, record_hash
from setwise.ledger.stores.read_queries import any_is_known
from setwise.ledger.stores.schema import accounts, lines, openings
from setwise.ledger.terms import WHOLE_LIFE, Terms

State = Literal["open", "frozen", "closed"]
AuditEventKind = Literal["dataset", "freeze", "thaw", "close", "act", "head", "seal"]
AUDIT_EVENT_KINDS: tuple[AuditEventKind, ...] = get_args(AuditEventKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """What somebody did: `by` whom, to which `subject` (an account, a dataset, a person), with what `details`.

    `action` is "freeze", "thaw", "close", "dataset" or "head", or whatever a caller of `Ledger.record` names.
    """

    kind: AuditEventKind
    action: str
    by: str
    subject: str
    details: Mapping[str, Any]

    def body(self) -> str:
        """Return the canonical text of the event."""
        return canonical({name: getattr(self, name) for name in AuditEvent.__slots__})

    @classmethod
    def read(cls, body: str) -> "AuditEvent":
        """Return the event of a canonical text."""
        return cls(**json.loads(body))


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record in its place in the register."""

    holder: int
    kind: str
    name: str
    at: int
    body: str
    previous: str
    hash: str

    @property
    def moment(self) -> datetime:
        """When it was made."""
        return moment_of(self.at)

    @property
    def terms(self) -> Terms:
        """The terms of an account or a cap."""
        return Terms.read(self.body)

    @property
    def event(self) -> AuditEvent:
        """The audit event, of any other record."""
        return AuditEvent.read(self.body)

    def to_dict(self) -> dict[str, object]:
        """Return the JSON object of an event, as the command line prints it."""
        event = self.event
        return {
            "number": self.holder,
            "at": self.moment.isoformat(),
            "action": event.action,
            "by": event.by,
            "subject": event.subject,
            "details": dict(event.details),
            "hash": self.hash,
        }


def _append(connection: Connection, kind: str, name: str, body: str, at: int, totals: Mapping[str, int]) -> Record:
    """Append a record with its lines, inside a transaction that is alone in doing so."""
    last = connection.execute(
        select(openings.c.holder, openings.c.hash).order_by(openings.c.holder.desc()).limit(1)
    ).one_or_none()
    holder, previous = (1, NOTHING_BEFORE) if last is None else (last.holder + 1, last.hash)
    hashed = record_hash(previous, holder, at, body)
    record = {"holder": holder, "kind": kind, "name": name, "at": at, "body": body, "previous": previous}
    connection.execute(insert(openings), {**record, "lines": len(totals), "hash": hashed})
    if totals:
        connection.execute(
            insert(lines),
            [
                {"holder": holder, "what": what, "place": place, "total": total}
                for place, (what, total) in enumerate(totals.items())
            ],
        )
    return Record(holder=holder, kind=kind, name=name, at=at, body=body, previous=previous, hash=hashed)


def write_record(connection: Connection, terms: Terms, at: int) -> Record:
    """Append the opening of an account or a cap to the register alone."""
    return _append(connection, terms.kind, terms.name, terms.body(), at, terms.lines())


def write_opening(connection: Connection, terms: Terms, at: int) -> Record:
    """Append the opening of an account or a cap, with the account's row."""
    record = write_record(connection, terms, at)
    if terms.kind != "cap":
        connection.execute(insert(accounts), account_row(record))
    return record


def write_event(connection: Connection, event: AuditEvent, at: int) -> Record:
    """Append an event."""
    check_label(event.by, "by")
    return _append(connection, event.kind, event.action if event.kind == "act" else event.subject, event.body(), at, {})


def account_row(record: Record) -> dict[str, object]:
    """Return the row of an account without entries."""
    terms = record.terms
    return {
        "holder": record.holder,
        "name": terms.name,
        "kind": terms.kind,
        "dataset": terms.dataset,
        "cap": terms.cap,
        "entries": 0,
        "charges": 0,
        "head": record.hash,
        "at": record.at,
        "period": WHOLE_LIFE,
        "analyst": terms.analyst,
        "state": "open",
    }


def records_of(connection: Connection, after: int = 0) -> list[Record]:
    """Return every record of the register after a number, in order."""
    columns = [openings.c[name] for name in ("holder", "kind", "name", "at", "body", "previous", "hash")]
    rows = connection.execute(select(*columns).where(openings.c.holder > after).order_by(openings.c.holder)).mappings()
    return [Record(**row) for row in rows]


_MOVES: Mapping[AuditEventKind, tuple[tuple[State, ...], State]] = {
    "freeze": (("open",), "frozen"),
    "thaw": (("frozen",), "open"),
    "close": (("open", "frozen"), "closed"),
}
"""From which states an event takes an account, and to which."""


def next_state(state: State, kind: AuditEventKind) -> State | None:
    """Return the state of an account after an event, or None if the event does not apply to its state."""
    before, after = _MOVES[kind]
    return after if state in before else None


def change_state(connection: Connection, name: str, event: AuditEventKind, *, by: str, reason: str, at: int) -> None:
    """Freeze, thaw or close an account. The event records its number of entries, so that later charges are found."""
    row = connection.execute(
        select(accounts.c.holder, accounts.c.state, accounts.c.entries).where(accounts.c.name == name).with_for_update()
    ).one()
    if (state := next_state(row.state, event)) is None:
        raise InvalidParameter(f"the account {name!r} is {row.state}, so {event} does not apply to it")
    details = {"reason": reason, "entries": row.entries}
    write_event(connection, AuditEvent(kind=event, action=event, by=by, subject=name, details=details), at)
    connection.execute(update(accounts).where(accounts.c.holder == row.holder).values(state=state))


def same_data(connection: Connection, dataset: str) -> frozenset[str]:
    """Return the names of all datasets that share data with one, by their registrations, and its own name.

    Two names share data if they were ever registered to read the same file, folder or table, unless a steward has said
    why they are apart.
    """
    rows = connection.execute(select(openings.c.body).where(openings.c.kind == "dataset")).scalars()
    sources = [
        (event.subject, *_source_of(event)) for event in map(AuditEvent.read, rows) if not event.details["apart"]
    ]
    names = {dataset}
    while True:
        reads = {source for name, own, _ in sources if name in names for source in own}
        within = {folder for name, _, folders in sources if name in names for folder in folders}
        joined = {name for name, own, folders in sources if own & (reads | within) or folders & reads}
        if joined <= names:
            return frozenset(names)
        names |= joined


def _source_of(event: AuditEvent) -> tuple[set[str], set[str]]:
    """Return the digests of what a registered dataset reads, and of the folders that it lies in."""
    reads = event.details["reads"]
    return {reads} if isinstance(reads, str) else set(reads), set(event.details.get("within", ()))


def check_pays(connection: Connection, *, account: str, dataset: str, known_as: str) -> None:
    """Raise `InvalidParameter` unless an account on `dataset` may pay for questions about what is known as another.

    An account opened for a dataset pays for that one only. One opened for none pays for any dataset that the ledger
    has neither a cap nor accounts for: its draws would be missing from what those promise together.
    """
    names = same_data(connection, known_as) if known_as else frozenset({known_as})
    if dataset and dataset not in names:
        known = f"is known as {known_as!r}" if known_as else "has no name"
        raise InvalidParameter(
            f"the account {account!r} is for the dataset {dataset!r}, and this table {known}: take another account, "
            f"or give the dataset {dataset!r} if this table is it"
        )
    if not dataset and known_as and any_is_known(connection, names):
        raise InvalidParameter(
            f"the ledger keeps accounts or a cap for the dataset {known_as!r}, and {account!r} is not one of them: "
            "take one that is, or give another dataset if this table is not it"
        )


def cap_of(connection: Connection, dataset: str) -> int | None:
    """Return the holder of the cap on what a dataset reads, if there is one."""
    names = same_data(connection, dataset)
    found = select(openings.c.holder).where(openings.c.kind == "cap", openings.c.name.in_(names))
    return connection.execute(found.order_by(openings.c.holder).limit(1)).scalar_one_or_none()


def register_dataset(
    connection: Connection,
    name: str,
    reads: str | Collection[str],
    *,
    within: Collection[str] = (),
    definition: str = "",
    by: str,
    apart: str,
    at: int,
) -> None:
    """Record what a dataset reads; refuse a second name for data whose cap its accounts would not draw on."""
    check_name(name, "dataset")
    details: dict[str, object] = {"apart": apart}
    details["reads"] = digest(reads) if isinstance(reads, str) else sorted(map(digest, reads))
    if within:
        details["within"] = sorted(map(digest, within))
    if definition:
        details["definition"] = digest(definition)
    if any(event.details == details for event in registrations_of(connection, name)):
        return
    before = _caps_drawn_on(connection, same_data(connection, name))
    write_event(connection, AuditEvent(kind="dataset", action="dataset", by=by, subject=name, details=details), at)
    after = _caps_drawn_on(connection, same_data(connection, name))
    if len(after) > 1 and after != before:
        raise BadRequest(
            f"the dataset {name!r} reads what another dataset reads, and their accounts do not draw on one cap: close "
            "these accounts and open new ones under one name, or say why the two are apart"
        )


def registrations_of(connection: Connection, name: str) -> list[AuditEvent]:
    """Return what was recorded about a dataset, in order."""
    known = select(openings.c.body).where(openings.c.kind == "dataset", openings.c.name == name)
    return [AuditEvent.read(body) for body in connection.execute(known.order_by(openings.c.holder)).scalars()]


def _caps_drawn_on(connection: Connection, names: frozenset[str]) -> set[int | None]:
    """Return the numbers of the caps that datasets have or that their open accounts draw on; None stands for no cap."""
    drawn = select(accounts.c.cap).where(accounts.c.dataset.in_(names), accounts.c.state != "closed").distinct()
    caps = select(openings.c.holder).where(openings.c.kind == "cap", openings.c.name.in_(names))
    return {*connection.execute(drawn).scalars(), *connection.execute(caps).scalars()}


def events_of(connection: Connection, after: int = 0) -> Iterator[Record]:
    """Yield the events after a number, in order."""
    return (record for record in records_of(connection, after) if record.kind in AUDIT_EVENT_KINDS)
