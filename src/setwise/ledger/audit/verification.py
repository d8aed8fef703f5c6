"""Verification: every chain and every balance recomputed and compared with what the store holds.

Two things show what the store alone cannot: an anchor, kept outside it, and signed heads (heads.py).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from sqlalchemy import Connection, Table, and_, select

from setwise.errors import InvalidParameter, SetwiseError
from setwise.ledger.amounts import Totals
from setwise.ledger.audit.chain import Chain, ChainCheck, Fault, Tally
from setwise.ledger.audit.heads import KeptHead, check_kept, check_signatures
from setwise.ledger.records import NOTHING_BEFORE, digest, record_hash
from setwise.ledger.register import (
    AUDIT_EVENT_KINDS,
    AuditEvent,
    Record,
    State,
    account_row,
    next_state,
    records_of,
)
from setwise.ledger.slices import RULE, CapTotals
from setwise.ledger.stores.migrations import schema_faults
from setwise.ledger.stores.schema import accounts, balances, entries, lines, movements, openings
from setwise.ledger.terms import WHOLE_LIFE, Terms


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """The number and hash of the last opening, and of each account's last entry.

    Kept outside the store, it shows whether the past was rewritten, even by someone who owns the database.
    """

    openings: tuple[int, str]
    accounts: Mapping[str, tuple[int, str]]

    @property
    def head(self) -> str:
        """One digest over all of it."""
        lines = [f"{self.openings[0]} {self.openings[1]}"]
        lines += [f"{digest(name)} {count} {head}" for name, (count, head) in sorted(self.accounts.items())]
        return digest("\n".join(lines))

    def to_dict(self) -> dict[str, object]:
        """Return the JSON object that `parse` reads."""
        return {"openings": list(self.openings), "accounts": {name: list(at) for name, at in self.accounts.items()}}

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the anchor in what an earlier `setwise ledger verify --json` printed."""
        try:
            record = json.loads(text)["anchor"]
            number, hashed = record["openings"]
            chains = {str(name): (int(count), str(head)) for name, (count, head) in record["accounts"].items()}
            return cls(openings=(int(number), str(hashed)), accounts=chains)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise InvalidParameter("this is not what setwise ledger verify --json printed") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of a verification: the ledger is sound if there are no `faults`."""

    anchor: Anchor
    entries: int
    faults: tuple[Fault, ...]

    def to_dict(self) -> dict[str, object]:
        """Return the JSON object that `setwise ledger verify --json` prints."""
        return {
            "verified": not self.faults,
            "accounts": len(self.anchor.accounts),
            "entries": self.entries,
            "head": self.anchor.head,
            "faults": [{"account": fault.account, "entry": fault.entry, "what": fault.what} for fault in self.faults],
            "anchor": self.anchor.to_dict(),
        }


def verify(
    connection: Connection,
    *,
    head: str | None = None,
    since: Anchor | None = None,
    key: bytes | None = None,
    oldest_head: int | None = None,
    latest_head: int | None = None,
    kept: KeptHead | None = None,
) -> Verification:
    """Recompute every chain, price and balance in one consistent view, and return the faults.

    With `head`, the digest of an earlier anchor, nothing may have changed since; with `since`, an earlier anchor,
    entries may have been added, and nothing else. With `key`, every signed head must be signed with it, and with
    `oldest_head`, a timestamp, one of them no earlier than that and no later than `latest_head`. The register must
    still have the head `kept` outside the database.
    """
    faults = [Fault(None, None, what) for what in schema_faults(connection) + _store_faults(connection)]
    known = records_of(connection)
    faults += _check_register(connection, known)
    terms = {record.holder: found for record in known if (found := _terms(record)) is not None}
    heads = [record for record in known if record.kind == "head" and _event(record) is not None]
    witnessed = _witnesses(heads, since)
    states = _States(known)
    seal, seal_faults = _read_seal(known)
    faults += seal_faults
    tally: Tally = {}
    chains: dict[str, Chain] = {}
    for record in known:
        own = terms.get(record.holder)
        if own is not None and own.kind != "cap":
            shared = terms[own.cap].totals if own.cap in terms else None
            cap = shared if isinstance(shared, Totals | CapTotals) else None
            sealed = seal.get(own.name, (0, ""))
            check = ChainCheck(record, cap, tally, witnessed.pop(own.name, {}), states.shut(own.name), sealed)
            chain = check.run(connection)
            chains[own.name] = chain
            faults += [*chain.faults, *_check_account(connection, record, chain, states.now(own.name))]
    faults += _check_rules(terms, tally, chains)
    faults += _check_caps(terms)
    faults += [*states.faults, *_check_balances(connection, tally, terms), *_check_strays(connection, terms)]
    faults += [Fault(name, None, "of an anchor or a signed head is no longer there") for name in witnessed]
    last = (known[-1].holder, known[-1].hash) if known else (0, NOTHING_BEFORE)
    anchor = Anchor(openings=last, accounts={name: (chain.count, chain.head) for name, chain in chains.items()})
    if head is not None and head != anchor.head:
        faults.append(Fault(None, None, f"has the head {anchor.head}, not {head}"))
    if since is not None and (number := since.openings[0]):
        hashes = {record.holder: record.hash for record in known}
        if hashes.get(number) != since.openings[1]:
            faults.append(Fault(None, None, f"no longer has record {number} of the anchor"))
    if key is not None:
        faults += check_signatures(heads, key, oldest=oldest_head, latest=latest_head)
    faults += check_kept(known, kept)
    return Verification(anchor=anchor, entries=sum(chain.count for chain in chains.values()), faults=tuple(faults))


def _store_faults(connection: Connection) -> list[str]:
    """Return the faults that SQLite's own check of pages, indexes and keys finds; PostgreSQL checks as it reads."""
    if connection.dialect.name != "sqlite":
        return []
    said = connection.exec_driver_sql("PRAGMA integrity_check(5)").scalars().all()
    faults = [f"is damaged: {text}" for text in said if text != "ok"]
    lost = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    return faults + [f"has a row in {row[0]} without its row in {row[2]}" for row in lost[:5]]


def _witnesses(heads: list[Record], since: Anchor | None) -> dict[str, dict[int, list[tuple[str, str]]]]:
    """Return, per account and position, the hashes that an anchor and signed heads say an entry has."""
    found: dict[str, dict[int, list[tuple[str, str]]]] = {}
    for record in heads:
        who = f"the head signed at {record.moment:%Y-%m-%d %H:%M:%S}"
        for name, (position, hashed) in record.event.details["accounts"].items():
            found.setdefault(name, {}).setdefault(position, []).append((hashed, who))
    for name, (position, hashed) in ({} if since is None else since.accounts).items():
        places = found.setdefault(name, {})
        if position:
            places.setdefault(position, []).append((hashed, "the anchor"))
    return found


def _read_seal(known: list[Record]) -> tuple[dict[str, tuple[int, str]], list[Fault]]:
    """Return the seal, per account, and what is wrong with it: there is at most one, and it names accounts."""
    seals = [event for record in known if record.kind == "seal" and (event := _event(record)) is not None]
    if not seals:
        return {}, []
    faults = [Fault(None, None, "has more than one seal of early movements")] if len(seals) > 1 else []
    try:
        return {
            str(name): (int(count), str(end)) for name, (count, end) in seals[0].details["accounts"].items()
        }, faults
    except (ValueError, TypeError, AttributeError):
        return {}, [*faults, Fault(None, None, "has a seal of early movements that cannot be read")]


class _States:
    """The states of accounts after all events, and the positions of entries at which each was frozen or closed."""

    def __init__(self, known: list[Record]) -> None:
        self.faults: list[Fault] = []
        self._states: dict[str, State] = {}
        self._shut: dict[str, list[range]] = {}
        for record in known:
            if record.kind in ("freeze", "thaw", "close") and (event := _event(record)) is not None:
                self._change(event)

    def _change(self, event: AuditEvent) -> None:
        name, position = event.subject, int(event.details["entries"]) + 1
        state = next_state(self.now(name), event.kind)
        if state is None:
            self.faults.append(Fault(name, None, f"was {self.now(name)}, and an event says {event.kind}"))
            return
        shut = self._shut.setdefault(name, [])
        if state == "open":
            shut[-1] = range(shut[-1].start, position)
        elif self.now(name) == "open":
            shut.append(range(position, 2**62))
        self._states[name] = state

    def now(self, name: str) -> State:
        """Return the state of an account after all events."""
        return self._states.get(name, "open")

    def shut(self, name: str) -> list[range]:
        """Return the positions in which an account was not open."""
        return self._shut.get(name, [])


def _terms(record: Record) -> Terms | None:
    if record.kind in AUDIT_EVENT_KINDS:
        return None
    try:
        return record.terms
    except (SetwiseError, ValueError, TypeError, KeyError):
        return None


def _event(record: Record) -> AuditEvent | None:
    """Return the event of a record, None when its text is not one of the fields that such an event has."""
    fields = {"head": {"accounts", "signature"}, "dataset": {"reads", "apart"}, "act": None, "seal": {"accounts"}}
    try:
        event = record.event
        names, found = fields.get(event.kind, {"reason", "entries"}), set(event.details)
        if event.kind == "dataset":
            found -= {"within", "definition"}  # which registrations by earlier versions lack
        return event if event.kind == record.kind and (names is None or found == names) else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _check_register(connection: Connection, known: list[Record]) -> Iterator[Fault]:
    previous, count = NOTHING_BEFORE, 0
    counted = {row.holder: row.lines for row in connection.execute(select(openings.c.holder, openings.c.lines))}
    for record in known:
        name = record.name
        if record.holder != count + 1:
            yield Fault(None, None, f"misses record {count + 1}, before that of {name!r}")
            previous = record.previous
        if record.hash != record_hash(record.previous, record.holder, record.at, record.body):
            yield Fault(name, None, "has an opening that was changed: its hash does not fit what it says")
        elif record.previous != previous:
            yield Fault(None, None, f"has a replaced record {count}: that of {name!r} follows another")
        previous, count = record.hash, record.holder
        if record.kind in AUDIT_EVENT_KINDS:
            event = _event(record)
            expected = None if event is None else (event.action if event.kind == "act" else event.subject, event.body())
            if expected != (record.name, record.body) or counted[record.holder]:
                yield Fault(None, None, f"has an event, number {record.holder}, that cannot be read")
            continue
        terms = _terms(record)
        if terms is None or terms.body() != record.body:
            yield Fault(name, None, "has an opening that cannot be read")
            continue
        totals = terms.lines()
        if (record.kind, name, counted[record.holder]) != (terms.kind, terms.name, len(totals)):
            yield Fault(terms.name, None, "has an opening whose columns do not fit what it says")
        found = select(lines.c.what, lines.c.total).where(lines.c.holder == record.holder).order_by(lines.c.place)
        places = select(lines.c.place).where(lines.c.holder == record.holder).order_by(lines.c.place)
        if [tuple(line) for line in connection.execute(found)] != list(totals.items()) or list(
            connection.execute(places).scalars()
        ) != list(range(len(totals))):
            yield Fault(terms.name, None, "has other lines than its opening says")


def _check_account(connection: Connection, record: Record, chain: Chain, state: State) -> Iterator[Fault]:
    """Compare the row of an account with its opening, its chain and the events on it."""
    expected = {**account_row(record), "state": state}
    name = str(expected["name"])
    row = connection.execute(select(accounts).where(accounts.c.holder == record.holder)).mappings().one_or_none()
    if row is None:
        yield Fault(name, None, "was deleted")
        return
    if any(row[column] != expected[column] for column in ("name", "kind", "dataset", "cap", "analyst", "state")):
        yield Fault(name, None, "does not fit its opening and the events on it")
    if row["entries"] > chain.count:
        yield Fault(name, chain.count + 1, f"is missing: the account counts {row['entries']} entries")
    elif row["entries"] < chain.count:
        yield Fault(name, row["entries"] + 1, f"was added: the account counts {row['entries']} entries")
    elif row["head"] != chain.head:
        yield Fault(name, chain.count or None, "was replaced: the account ends with another")
    elif (row["charges"], row["at"], row["period"]) != (chain.charges, chain.at, chain.period):
        yield Fault(name, None, "has a row that does not fit its entries")


def _check_caps(terms: dict[int, Terms]) -> Iterator[Fault]:
    """Check that every account on a dataset that had a cap when the account was opened draws on this cap."""
    caps: dict[str, int] = {}
    for number, own in sorted(terms.items()):
        if own.kind == "cap":
            caps.setdefault(own.dataset, number)
        elif own.dataset in caps and own.cap != caps[own.dataset]:
            yield Fault(own.name, None, f"does not draw on the cap of its dataset {own.dataset!r}")


def _check_rules(terms: dict[int, Terms], tally: Tally, chains: dict[str, Chain]) -> Iterator[Fault]:
    """Check that charges that paid a cap by one rule only paid by the rule that the cap keeps."""
    for own in terms.values():
        if own.slices and own.name in chains:
            cap = terms[own.cap].totals if own.cap in terms else None
            if not isinstance(cap, CapTotals):
                continue
            kept = cap.rule_of(tally.get((own.cap or 0, WHOLE_LIFE, RULE), 0))
            for position, rule in chains[own.name].by_one_rule:
                if rule is not kept:
                    yield Fault(own.name, position, "pays the cap by a rule that was given up, or was not the only one")


_PLACE = ("holder", "period", "what")


def _check_balances(connection: Connection, tally: Tally, terms: dict[int, Terms]) -> Iterator[Fault]:
    """Compare every balance with the sum of what the entries drew and returned."""
    rows = {(row.holder, row.period, row.what): row for row in connection.execute(select(balances))}
    last = and_(balances.c.movement == movements.c.number, *(balances.c[x] == movements.c[x] for x in _PLACE))
    moved = select(*(balances.c[x] for x in _PLACE)).outerjoin_from(balances, movements, last)
    loose = {tuple(row) for row in connection.execute(moved.where(movements.c.number.is_(None)))}
    for place in sorted(rows.keys() | tally.keys()):
        holder, period, what = place
        row, spent = rows.get(place), tally.get(place, 0)
        name = terms[holder].name if holder in terms else f"number {holder}"
        when = f" in {period}" if period else ""
        if row is None or row.spent != spent:
            shown = "no balance" if row is None else f"a balance of {row.spent}"
            yield Fault(name, None, f"has {shown} for {what}{when}, and its entries add up to {spent}")
        elif place in loose:
            yield Fault(name, None, f"has a balance for {what}{when} that no movement brought about")
        elif holder in terms and (row.total != terms[holder].lines().get(what) or not 0 <= spent <= row.total):
            yield Fault(name, None, f"has a balance for {what}{when} outside its line")


def _check_strays(connection: Connection, terms: dict[int, Terms]) -> Iterator[Fault]:
    """Report rows of accounts or caps that were never opened."""
    held = {holder for holder, own in terms.items() if own.kind != "cap"}
    for table, column in ((accounts, "holder"), (entries, "holder"), (movements, "account"), (lines, "holder")):
        known = set(terms) if table is lines else held
        for holder in sorted(_holders(connection, table, column) - known):
            yield Fault(None, None, f"has rows in {table.name} of {holder}, which was never opened")


def _holders(connection: Connection, table: Table, column: str) -> set[int]:
    """Return the distinct holders in a table, one index step each."""
    found: set[int] = set()
    place = table.c[column]
    after = -(2**62)
    while True:
        following = connection.execute(select(place).where(place > after).order_by(place).limit(1)).scalar_one_or_none()
        if following is None:
            return found
        found.add(following)
        after = following
