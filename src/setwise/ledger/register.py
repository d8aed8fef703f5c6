"""The register: one hash chain of records, each of which opens an account or a cap, or is an audit event.

A cap is the joint budget of a dataset's accounts. Each record has a number, `holder`. All other tables identify an
account or cap by the number of the record that opened it.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args
from weakref import WeakKeyDictionary

from sqlalchemy import ColumnElement, Connection, Engine, Select, bindparam, func, insert, select, update

from setwise.accounting.promises import USER, check_unit
from setwise.contract import State
from setwise.errors import BadRequest, InvalidParameter
from setwise.ledger.records import NOTHING_BEFORE, canonical, check_label, check_name, digest, moment_of, record_hash
from setwise.ledger.stores.read_queries import any_is_known
from setwise.ledger.stores.schema import accounts, lines, openings
from setwise.ledger.terms import WHOLE_LIFE, Terms

if TYPE_CHECKING:
    from setwise.contract import ActRecord

AuditEventKind = Literal["dataset", "freeze", "thaw", "close", "act", "head", "seal"]
AUDIT_EVENT_KINDS: tuple[AuditEventKind, ...] = get_args(AuditEventKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEvent:
    """One audit event, such as the freezing of an account: the person `by` did `action` to the `subject`.

    - `kind` is "act" if a caller of `Ledger.record` named the `action` freely, as in "person.added". For the ledger's
      own events, `kind` and `action` are the same: "freeze", "thaw", "close", "dataset" (a registration), "head" (a
      signed record of where all hash chains of the ledger ended) or "seal" (a digest of balance changes that early
      hashes do not cover).
    - `details` has further JSON values.
    """

    kind: AuditEventKind
    action: str
    by: str
    subject: str
    details: Mapping[str, Any]

    def body(self) -> str:
        """Return the audit event as canonical JSON, the text that the ledger stores and hashes."""
        return canonical({name: getattr(self, name) for name in AuditEvent.__slots__})

    @classmethod
    def read(cls, body: str) -> "AuditEvent":
        """Return the audit event from `body`, the canonical JSON text that the method `body` returned."""
        return cls(**json.loads(body))


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A numbered record of the ledger: the opening of an account or a cap (a joint budget), or an audit event.

    - `holder` is the record's number. Other tables use it as the identifier of the account or cap that the record
      opens.
    - `kind` is "setwise", "filter" or "cap" for an opening, or the kind of the audit event.
    - `name` is the name of the account, dataset or action.
    - `at` is the timestamp in microseconds since 1970.
    - `body` is the JSON text of the opened account's terms (promise and budget), or of the audit event.
    - `previous` is the hash of the record before, and `hash` the hash of this record.
    """

    holder: int
    kind: str
    name: str
    at: int
    body: str
    previous: str
    hash: str

    @property
    def moment(self) -> datetime:
        """The UTC time at which this record was made."""
        return moment_of(self.at)

    @property
    def terms(self) -> Terms:
        """The terms (promise and budget) of the account or joint budget that this record opens.

        Only for a record that opens one: the record of an audit event has no terms.
        """
        return Terms.read(self.body)

    @property
    def event(self) -> AuditEvent:
        """The audit event in this record, which must not be the record of an opened account or cap (joint budget)."""
        return AuditEvent.read(self.body)

    def to_dict(self) -> "ActRecord":
        """Return the audit event in this record as the JSON object that the command line prints."""
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


# Statements that are run for each of many accounts are built once: building one takes longer than the database takes.
_LAST_RECORD = select(openings.c.holder, openings.c.hash).order_by(openings.c.holder.desc()).limit(1)
_INSERT_RECORD, _INSERT_LINES, _INSERT_ACCOUNT = insert(openings), insert(lines), insert(accounts)


def _append(connection: Connection, kind: str, name: str, body: str, at: int, totals: Mapping[str, int]) -> Record:
    """Append a record to the ledger's openings and audit events, and return the record.

    - `kind`, `name`, `body` and `at` (microseconds since 1970) are fields of the record.
    - `totals` has the size of each balance of the opened account or joint budget, in units, by balance name. Most
      balances have 2^60 units. An audit event has no balances.

    Requires: runs inside `Store.writing`, the transaction that alone may append records.
    """
    # Without the lock of `Store.writing`, two transactions would give two records one number.
    last = connection.execute(_LAST_RECORD).one_or_none()
    holder, previous = (1, NOTHING_BEFORE) if last is None else (last.holder + 1, last.hash)
    hashed = record_hash(previous, holder, at, body)
    record = {"holder": holder, "kind": kind, "name": name, "at": at, "body": body, "previous": previous}
    connection.execute(_INSERT_RECORD, {**record, "lines": len(totals), "hash": hashed})
    if totals:
        connection.execute(
            _INSERT_LINES,
            [
                {"holder": holder, "what": balance_name, "place": place, "total": total}
                for place, (balance_name, total) in enumerate(totals.items())
            ],
        )
    return Record(holder=holder, kind=kind, name=name, at=at, body=body, previous=previous, hash=hashed)


def write_record(connection: Connection, terms: Terms, at: int) -> Record:
    """Append the record that opens an account or cap (joint budget) with these `terms`, and return the record.

    `at` is the time of the opening, in microseconds since 1970. No row is inserted into the table of accounts. When an
    export is restored, the caller inserts that row later, with the number and hash of the account's last entry. To open
    a new account, call `write_opening`.
    """
    return _append(connection, terms.kind, terms.name, terms.body(), at, terms.lines())


def write_opening(connection: Connection, terms: Terms, at: int) -> Record:
    """Open an account, or a cap (the joint budget of a dataset's accounts), with these `terms`; return its new record.

    An account also gets a row in the table of accounts. `at` is the time of the opening, in microseconds since 1970.
    """
    record = write_record(connection, terms, at)
    if terms.kind != "cap":
        connection.execute(_INSERT_ACCOUNT, account_row(record))
    return record


def write_event(connection: Connection, event: AuditEvent, at: int) -> Record:
    """Append an audit event to the ledger's records, and return its record.

    `at` is the timestamp in microseconds since 1970.
    """
    check_label(event.by, "by")
    return _append(connection, event.kind, event.action if event.kind == "act" else event.subject, event.body(), at, {})


def account_row(record: Record) -> dict[str, object]:
    """Return the row of the accounts table, as a dict, for an account that `record` has just opened."""
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


def records_of(connection: Connection, after: int = 0, *conditions: ColumnElement[bool]) -> list[Record]:
    """Return the ledger's records with a number above `after`, in the order of their numbers.

    A record is the opening of an account or a joint budget, or an audit event. `conditions` are SQL expressions on the
    table `openings`; only records that satisfy all of them are returned.
    """
    columns = [openings.c[name] for name in ("holder", "kind", "name", "at", "body", "previous", "hash")]
    chosen = select(*columns).where(openings.c.holder > after, *conditions).order_by(openings.c.holder)
    return [Record(**row) for row in connection.execute(chosen).mappings()]


_MOVES: Mapping[AuditEventKind, tuple[tuple[State, ...], State]] = {
    "freeze": (("open",), "frozen"),
    "thaw": (("frozen",), "open"),
    "close": (("open", "frozen"), "closed"),
}
"""Per kind of audit event: the account states in which it is allowed, and the state that it leads to."""


def next_state(state: State, kind: AuditEventKind) -> State | None:
    """Return the state of an account after an audit event of `kind` "freeze", "thaw" or "close".

    `state` is the account's state before the event. The result is None if the event is impossible in that state, such
    as the thawing of an account that is not frozen.
    """
    before, after = _MOVES[kind]
    return after if state in before else None


def change_state(connection: Connection, name: str, event: AuditEventKind, *, by: str, reason: str, at: int) -> None:
    """Freeze, thaw or close the account `name`, as `event` says, and record this as an audit event.

    `by` is the person who acts, `reason` a text for the audit log, and `at` the timestamp in microseconds since 1970.
    Raises `InvalidParameter` if the event is impossible in the account's state, such as thawing an open account.
    """
    row = connection.execute(
        select(accounts.c.holder, accounts.c.state, accounts.c.entries).where(accounts.c.name == name).with_for_update()
    ).one()
    if (state := next_state(row.state, event)) is None:
        raise InvalidParameter(f"the account {name!r} is {row.state}, so {event} does not apply to it")
    # The number of entries lets verification find a charge that was made after the event.
    details = {"reason": reason, "entries": row.entries}
    write_event(connection, AuditEvent(kind=event, action=event, by=by, subject=name, details=details), at)
    connection.execute(update(accounts).where(accounts.c.holder == row.holder).values(state=state))


class _KnownSources(NamedTuple):
    """A cache of the registrations of datasets in one ledger, so that each registration is read only once.

    - `holder` is the number of the last record of the ledger that was read, and `hash` is that record's hash. Later
      calls read only records with larger numbers. If the ledger has another hash at this number, it was exchanged or
      rolled back, and the cache is not used.
    - `sources` has a triple for each registration: the dataset's name, digests that identify the dataset's data, and
      digests of the folders that contain the data. Left out are registrations that a steward has set apart: their
      dataset names share no budget with other names of the same data.
    """

    holder: int
    hash: str
    sources: tuple[tuple[str, set[str], set[str]], ...]


_known_sources: "WeakKeyDictionary[Engine, _KnownSources]" = WeakKeyDictionary()
"""For each database, the registrations of datasets that were read from it last."""

_HASH_OF = select(openings.c.hash).where(openings.c.holder == bindparam("the_holder"))
_REGISTRATIONS = (
    select(openings.c.body)
    .where(openings.c.kind == "dataset", openings.c.holder > bindparam("after"), openings.c.holder <= bindparam("last"))
    .order_by(openings.c.holder)
)


def _registered_sources(connection: Connection) -> tuple[tuple[str, set[str], set[str]], ...]:
    """Return what each registered dataset reads: triples (dataset name, digests of its data, digests of its folders).

    The folders are those that contain the data. The result tells which names read the same data. Left out are
    registrations that a steward has set apart: their dataset names share no budget with other names of the same data.
    """
    last = connection.execute(_LAST_RECORD).one_or_none()
    if last is None:
        return ()
    # Only records appended since the last call are read, because otherwise opening the n-th account would read n
    # records.
    cache = _known_sources.get(connection.engine, _KnownSources(0, NOTHING_BEFORE, ()))
    # Another hash means that records were rolled back, or that the database was exchanged for another.
    if cache.holder and connection.execute(_HASH_OF, {"the_holder": cache.holder}).scalar_one_or_none() != cache.hash:
        cache = _KnownSources(0, NOTHING_BEFORE, ())
    if cache.holder < last.holder:
        rows = connection.execute(_REGISTRATIONS, {"after": cache.holder, "last": last.holder}).scalars()
        events = [event for event in map(AuditEvent.read, rows) if not event.details["apart"]]
        sources = tuple((event.subject, *_source_of(event)) for event in events)
        cache = _KnownSources(last.holder, last.hash, cache.sources + sources)
        _known_sources[connection.engine] = cache
    return cache.sources


def same_data(connection: Connection, dataset: str) -> frozenset[str]:
    """Return `dataset` and the names of all datasets that share data with it, directly or through other names.

    Two names share data if they were ever registered to read the same file, folder or table, or if one reads a folder
    that contains the data of the other. A registration does not count if a steward gave a reason to keep it apart.
    """
    sources = _registered_sources(connection)
    names = {dataset}
    while True:
        reads = {source for name, reads_of_name, _ in sources if name in names for source in reads_of_name}
        within = {folder for name, _, folders in sources if name in names for folder in folders}
        joined = {
            name for name, reads_of_name, folders in sources if reads_of_name & (reads | within) or folders & reads
        }
        if joined <= names:
            return frozenset(names)
        names |= joined


def _source_of(event: AuditEvent) -> tuple[set[str], set[str]]:
    """Return (digests of the data, digests of the folders around it) from `event`, which registered a dataset name.

    Two names read the same data if they have a digest of the data in common, or if one name reads a folder that is
    around the data of the other. The ledger stores only digests of paths and tables.
    """
    reads = event.details["reads"]
    return {reads} if isinstance(reads, str) else set(reads), set(event.details.get("within", ()))


def check_pays(connection: Connection, *, account: str, dataset: str, known_as: str) -> None:
    """Raise `InvalidParameter` unless an account may pay for questions about the data named `known_as`.

    - `account` is the account's name, only for the message.
    - `dataset` is the dataset that the account was opened for, or "" for none.

    An account opened for a dataset pays for that dataset only, under any name of the same data. An account opened for
    no dataset may not pay for data on which the ledger has accounts or a joint budget. Otherwise the joint promise of
    those accounts would not include the charges of this account.
    """
    names = same_data(connection, known_as) if known_as else frozenset({known_as})
    if dataset and dataset not in names:
        naming = f"is known as {known_as!r}" if known_as else "has no name"
        raise InvalidParameter(
            f"the account {account!r} is for the dataset {dataset!r}, and this table {naming}: take another account, "
            f"or give the dataset {dataset!r} if this table is it"
        ).proposing({"dataset": dataset})
    # Its charges would be missing from the joint promise of the accounts on that data.
    if not dataset and known_as and any_is_known(connection, names):
        error = InvalidParameter(
            f"the ledger keeps accounts or a cap for the dataset {known_as!r}, and {account!r} is not one of them: "
            "take one that is, or give another dataset if this table is not it"
        )
        error.needed_dataset = known_as
        raise error


def cap_of(connection: Connection, dataset: str) -> int | None:
    """Return the record number of the cap on the data that `dataset` reads, or None if there is no cap on this data.

    A cap is the joint budget of a dataset's accounts. It is identified by the number of the record that opened it.
    """
    names = same_data(connection, dataset)
    caps = select(openings.c.holder).where(openings.c.kind == "cap", openings.c.name.in_(names))
    return connection.execute(caps.order_by(openings.c.holder).limit(1)).scalar_one_or_none()


def units_on(connection: Connection, dataset: str) -> set[str]:
    """Return the units of privacy that are protected for the data of `dataset`, such as {"user"}; empty if unknown.

    A unit of privacy is what neighbouring tables differ in: a user, or a part of a user such as "user,day". The result
    has the units of privacy that registrations, joint budgets and accounts on the data state, under any name of the
    data.
    """
    # Closed accounts are included, because their answers stay in the joint promise.
    names = same_data(connection, dataset)
    registered = select(openings.c.body).where(openings.c.kind == "dataset", openings.c.name.in_(names))
    units = {str(AuditEvent.read(body).details.get("unit", USER)) for body in connection.execute(registered).scalars()}
    caps = select(openings.c.body).where(openings.c.kind == "cap", openings.c.name.in_(names))
    # All accounts under one name of a dataset have one unit, because each is compared with the earlier ones when it is
    # opened. Reading all of them would make the opening of n accounts take the square of n.
    first_of_each_name = select(func.min(accounts.c.holder)).where(accounts.c.dataset.in_(names))
    opened = select(openings.c.body).where(openings.c.holder.in_(first_of_each_name.group_by(accounts.c.dataset)))
    bodies = (*connection.execute(caps).scalars(), *connection.execute(opened).scalars())
    return units | {Terms.read(body).unit for body in bodies}


def check_unit_of(connection: Connection, dataset: str, unit: str) -> None:
    """Raise `InvalidParameter` if the ledger protects another unit of privacy than `unit` for the data of `dataset`.

    A unit of privacy is what neighbouring tables differ in: a user, or a part of a user such as "user,day". Nothing is
    checked if `dataset` is empty.
    """
    # Epsilons of two units do not add up, so a joint promise or a cap is about one unit. Accounts without a dataset
    # have neither.
    others = units_on(connection, dataset) - {unit} if dataset else set()
    if others:
        raise InvalidParameter(
            f"the accounts on the dataset {dataset!r} protect the unit {min(others)!r}, and {unit!r} is another: "
            f"promises about two units do not add up. Take {min(others)!r}, or another name for the dataset, for "
            "a promise apart from theirs"
        )


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
    unit: str = USER,
) -> None:
    """Append an audit event that records which data the dataset `name` reads, unless an equal one was recorded before.

    - `reads` are texts that identify the data, and `within` are the folders that contain the data.
    - `definition` is the dataset's definition as text, or empty.
    - `by` is the person who registers, and `at` the timestamp in microseconds since 1970.
    - `apart`, if not empty, is the reason why accounts on this name share no cap (joint budget) and no joint promise
      with accounts on other names of the same data.
    - `unit` is the unit of privacy that all accounts on the dataset protect, such as "user" or "user,day".

    Raises `BadRequest` if the name then shares data with other names, and their accounts pay from different caps, or
    only some of them from a cap. Raises `BadRequest` also if these names protect different units of privacy.
    """
    check_name(name, "dataset")
    details: dict[str, object] = {"apart": apart}
    details["reads"] = digest(reads) if isinstance(reads, str) else sorted(map(digest, reads))
    if within:
        details["within"] = sorted(map(digest, within))
    if definition:
        details["definition"] = digest(definition)
    if check_unit(unit) != USER:
        details["unit"] = unit
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
    if len(units := units_on(connection, name)) > 1:
        raise BadRequest(
            f"the dataset {name!r} reads what another dataset reads, and protects the unit {unit!r} instead of "
            f"{min(units - {unit})!r}: promises about two units do not add up, so that the two cannot share a cap or a "
            "joint promise. Take the same unit, or say why the two are apart"
        )


def registrations_of(connection: Connection, name: str) -> list[AuditEvent]:
    """Return the audit events that registered the dataset `name`, from the oldest to the latest."""
    statement = select(openings.c.body).where(openings.c.kind == "dataset", openings.c.name == name)
    return [AuditEvent.read(body) for body in connection.execute(statement.order_by(openings.c.holder)).scalars()]


def _caps_drawn_on(connection: Connection, names: frozenset[str]) -> set[int | None]:
    """Return the caps (joint budgets) of the datasets `names`, each as the number of the record that opened it.

    The result is a union of two sets: the caps of the datasets themselves, and the caps from which the datasets'
    accounts pay. It also contains None if some account pays from no cap. Closed accounts are ignored.

    Names of the same data should share one cap, or all have none, so that the result has at most one element. The
    caller compares the results before and after it registers a name. It refuses the registration if this has changed
    the result, and the result then has several elements.
    """
    caps_of_accounts = (
        select(accounts.c.cap).where(accounts.c.dataset.in_(names), accounts.c.state != "closed").distinct()
    )
    caps = select(openings.c.holder).where(openings.c.kind == "cap", openings.c.name.in_(names))
    return {*connection.execute(caps_of_accounts).scalars(), *connection.execute(caps).scalars()}


def events_of(connection: Connection, after: int = 0, actions: Sequence[str] = ()) -> Iterator[Record]:
    """Yield the records of audit events whose number is above `after`, in the order of their numbers.

    If `actions` is not empty, only events of the kind "act" (recorded by callers of `Ledger.record`) with one of these
    actions are yielded. The ledger's own events, such as "freeze", are then left out.
    """
    acts = (openings.c.kind == "act", openings.c.name.in_(actions)) if actions else ()
    return (record for record in records_of(connection, after, *acts) if record.kind in AUDIT_EVENT_KINDS)


def accounts_on(connection: Connection, dataset: str) -> Select[tuple[int]]:
    """Return a SELECT statement that finds the numbers of all accounts on the data of `dataset`, under any name.

    An account's number is that of the record that opened the account. `connection` is used now, to find all names of
    the data; the caller executes the statement.
    """
    return select(accounts.c.holder).where(accounts.c.dataset.in_(same_data(connection, dataset)))


def terms_of(connection: Connection, holder: int) -> Terms:
    """Return the terms (promise and budget) of the account or joint budget that the record numbered `holder` opened."""
    return Terms.read(connection.execute(select(openings.c.body).where(openings.c.holder == holder)).scalar_one())
