"""Verification: every hash chain and every balance is recomputed and compared with the database.

A database cannot show by itself that its end was cut off, or that its past was rewritten with new hashes. Two records
of where every chain ended can show that: an anchor that is kept outside the database, and signed heads (heads.py).
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from sqlalchemy import Connection, Table, and_, bindparam, select

from setwise.contract import State
from setwise.errors import InvalidParameter, SetwiseError
from setwise.ledger.amounts import Totals
from setwise.ledger.audit.chain_check import Chain, ChainCheck, Fault, Tally
from setwise.ledger.audit.heads import KeptHead, check_kept, check_signatures
from setwise.ledger.records import NOTHING_BEFORE, digest, record_hash
from setwise.ledger.register import (
    AUDIT_EVENT_KINDS,
    AuditEvent,
    Record,
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
    """The ends of all hash chains of a ledger at some time: the last position in each chain, and the hash there.

    `openings` is the end of the chain of openings and audit events. `accounts` has the end of each account's chain, by
    account name. An anchor stored outside the database shows later whether the past was rewritten.
    """

    openings: tuple[int, str]
    accounts: Mapping[str, tuple[int, str]]

    @property
    def head(self) -> str:
        """One SHA-256 digest, in hexadecimal, of this anchor, that is, of the ends of all hash chains of the ledger."""
        lines = [f"{self.openings[0]} {self.openings[1]}"]
        lines += [f"{digest(name)} {count} {head}" for name, (count, head) in sorted(self.accounts.items())]
        return digest("\n".join(lines))

    def to_dict(self) -> dict[str, object]:
        """Return the anchor (the ends of all hash chains) as a JSON object; `parse` reads it under the key "anchor"."""
        return {"openings": list(self.openings), "accounts": {name: list(at) for name, at in self.accounts.items()}}

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the anchor (where every hash chain ended) in the output of an earlier `setwise ledger verify --json`.

        Raises `InvalidParameter` for any other text.
        """
        try:
            record = json.loads(text)["anchor"]
            number, hashed = record["openings"]
            chains = {str(name): (int(count), str(head)) for name, (count, head) in record["accounts"].items()}
            return cls(openings=(int(number), str(hashed)), accounts=chains)
        except (ValueError, TypeError, KeyError, AttributeError):
            raise InvalidParameter(
                "the anchor cannot be read: give what setwise ledger verify --json printed"
            ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of verifying a ledger; the ledger is sound if `faults` is empty.

    `entries` is the number of entries read, and `anchor` says where every hash chain of the ledger ends now.
    """

    anchor: Anchor
    entries: int
    faults: tuple[Fault, ...]

    def to_dict(self) -> dict[str, object]:
        """Return the result of the verification as the JSON object that `setwise ledger verify --json` prints."""
        return {
            "verified": not self.faults,
            "accounts": len(self.anchor.accounts),
            "entries": self.entries,
            "head": self.anchor.head,
            "faults": [
                {"account": fault.account, "entry": fault.entry, "what": fault.message} for fault in self.faults
            ],
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
    """Recompute every hash chain, price and balance of the ledger; return the faults and the ends of all chains.

    `connection` must see one consistent state of the database. Each other argument that is not None adds a check:
    - `head` is the digest of an earlier anchor (the ends of all chains at some time). Nothing may have been added or
      changed since then.
    - `since` is an earlier anchor. Entries may have been added since then, but no earlier entry may have changed.
    - `key` is the key that must have signed every signed head (a record inside the ledger of where all chains ended).
    - `oldest_head` and `latest_head`, only with `key`: some head must have a timestamp between these two (microseconds
      since 1970), so that a ledger whose recent heads were cut off is noticed.
    - `kept` is a signed head stored outside the database, which the ledger must still have.
    """
    faults = [Fault(None, None, message) for message in schema_faults(connection) + _store_faults(connection)]
    records = records_of(connection)
    faults += _check_register(connection, records)
    terms = {record.holder: readable for record in records if (readable := _terms(record)) is not None}
    heads = [record for record in records if record.kind == "head" and _event(record) is not None]
    witnessed = _witnesses(heads, since)
    states = _States(records)
    seal, seal_faults = _read_seal(records)
    faults += seal_faults
    tally: Tally = {}
    chains: dict[str, Chain] = {}
    for record in records:
        account_terms = terms.get(record.holder)
        if account_terms is not None and account_terms.kind != "cap":
            shared = terms[account_terms.cap].totals if account_terms.cap in terms else None
            cap = shared if isinstance(shared, Totals | CapTotals) else None
            sealed = seal.get(account_terms.name, (0, ""))
            check = ChainCheck(
                record, cap, tally, witnessed.pop(account_terms.name, {}), states.shut(account_terms.name), sealed
            )
            chain = check.run(connection)
            chains[account_terms.name] = chain
            faults += [*chain.faults, *_check_account(connection, record, chain, states.now(account_terms.name))]
    faults += _check_rules(terms, tally, chains)
    faults += _check_caps(terms)
    faults += [*states.faults, *_check_balances(connection, tally, terms), *_check_strays(connection, terms)]
    faults += [Fault(name, None, "of an anchor or a signed head is no longer there") for name in witnessed]
    last = (records[-1].holder, records[-1].hash) if records else (0, NOTHING_BEFORE)
    anchor = Anchor(openings=last, accounts={name: (chain.count, chain.head) for name, chain in chains.items()})
    if head is not None and head != anchor.head:
        faults.append(Fault(None, None, f"has the head {anchor.head}, not {head}"))
    if since is not None and (number := since.openings[0]):
        hashes = {record.holder: record.hash for record in records}
        if hashes.get(number) != since.openings[1]:
            faults.append(Fault(None, None, f"no longer has record {number} of the anchor"))
    if key is not None:
        faults += check_signatures(heads, key, oldest=oldest_head, latest=latest_head)
    faults += check_kept(records, kept)
    return Verification(anchor=anchor, entries=sum(chain.count for chain in chains.values()), faults=tuple(faults))


def _store_faults(connection: Connection) -> list[str]:
    """Return the faults that SQLite's own check of pages, indexes and keys finds.

    The list is empty for PostgreSQL, which checks its pages as it reads them.
    """
    if connection.dialect.name != "sqlite":
        return []
    messages = connection.exec_driver_sql("PRAGMA integrity_check(5)").scalars().all()
    faults = [f"is damaged: {text}" for text in messages if text != "ok"]
    lost = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
    return faults + [f"has a row in {row[0]} without its row in {row[2]}" for row in lost[:5]]


def _witnesses(heads: list[Record], since: Anchor | None) -> dict[str, dict[int, list[tuple[str, str]]]]:
    """Return the hashes that certain entries must have: {account name: {position: [(hash, source)]}}.

    The hashes are taken from the signed `heads` and from the anchor `since` (None for none). Both are records of where
    the accounts' chains of entries ended at some time. `source` is the text by which messages name the head or anchor
    with the hash.
    """
    hashes: dict[str, dict[int, list[tuple[str, str]]]] = {}
    for record in heads:
        who = f"the head signed at {record.moment:%Y-%m-%d %H:%M:%S}"
        for name, (position, hashed) in record.event.details["accounts"].items():
            hashes.setdefault(name, {}).setdefault(position, []).append((hashed, who))
    for name, (position, hashed) in ({} if since is None else since.accounts).items():
        places = hashes.setdefault(name, {})
        if position:
            places.setdefault(position, []).append((hashed, "the anchor"))
    return hashes


def _read_seal(records: list[Record]) -> tuple[dict[str, tuple[int, str]], list[Fault]]:
    """Return the contents of the ledger's seal, {account name: (number of early entries, digest)}, and its faults.

    Early versions wrote entries whose hashes do not cover their balance changes. The seal is a record, added later,
    with a digest of these changes for each account. Without a seal, both results are empty. `records` are all openings
    and audit events of the ledger.
    """
    seals = [event for record in records if record.kind == "seal" and (event := _event(record)) is not None]
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
    """The state of each account (open, frozen or closed), and at which of its entries it was frozen or closed.

    Verification uses it to find charges that were made while an account was not open. The states are computed from
    `records`, all openings and audit events of the ledger. Entries are given by their positions: their numbers in the
    account's hash chain. `faults` lists events that were impossible in the account's state at that time, such as
    thawing an open account.
    """

    def __init__(self, records: list[Record]) -> None:
        self.faults: list[Fault] = []
        self._states: dict[str, State] = {}
        self._shut: dict[str, list[range]] = {}
        for record in records:
            if record.kind in ("freeze", "thaw", "close") and (event := _event(record)) is not None:
                self._change(event)

    def _change(self, event: AuditEvent) -> None:
        """Change the state of an account as the audit `event` says, which freezes, thaws or closes it.

        If that is impossible in the account's state, such as thawing an open account, record a fault instead.
        """
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
        """Return the state of the account `name` ("open", "frozen" or "closed") after all audit events so far."""
        return self._states.get(name, "open")

    def shut(self, name: str) -> list[range]:
        """Return when the account `name` was frozen or closed, as ranges of positions in its chain of entries.

        An account's entries have the positions 1, 2, 3, ...: range(4, 7) says that the account was frozen or closed
        when the entries 4, 5 and 6 were written. A charge or a release (the answer to one part of a question) at such a
        position is a fault.
        """
        return self._shut.get(name, [])


def _terms(record: Record) -> Terms | None:
    """Return the terms of the account or cap that a record opens; None for an audit event or unreadable text.

    A cap is the joint budget of a dataset's accounts.
    """
    if record.kind in AUDIT_EVENT_KINDS:
        return None
    try:
        return record.terms
    except (SetwiseError, ValueError, TypeError, KeyError):
        return None


def _event(record: Record) -> AuditEvent | None:
    """Return the audit event in `record`; None if it cannot be read, or if its details are not right for its kind.

    The details of "freeze", for example, must be the reason and the number of entries, and nothing else.
    """
    fields = {"head": {"accounts", "signature"}, "dataset": {"reads", "apart"}, "act": None, "seal": {"accounts"}}
    try:
        event = record.event
        names, present = fields.get(event.kind, {"reason", "entries"}), set(event.details)
        if event.kind == "dataset":
            present -= {"within", "definition"}  # optional, because registrations by earlier versions lack these fields
        return event if event.kind == record.kind and (names is None or present == names) else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


_LINES_OF = (
    select(lines.c.what, lines.c.total, lines.c.place)
    .where(lines.c.holder == bindparam("the_holder"))
    .order_by(lines.c.place)
)
"""The stored balance sizes of one account or cap; built once, because building takes longer than running it."""

_ACCOUNT_OF = select(accounts).where(accounts.c.holder == bindparam("the_holder"))
"""The row of one account, built once as well."""


def _check_register(connection: Connection, records: list[Record]) -> Iterator[Fault]:
    """Yield the faults of `records`, the ledger's openings of accounts and caps (joint budgets) and its audit events.

    Three things are checked: that each record's hash covers the hash before, that its text can be read, and that the
    sizes of balances, which another table stores, are those that the openings state.
    """
    previous, count = NOTHING_BEFORE, 0
    counted = {row.holder: row.lines for row in connection.execute(select(openings.c.holder, openings.c.lines))}
    for record in records:
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
        stored = [tuple(line) for line in connection.execute(_LINES_OF, {"the_holder": record.holder})]
        if stored != [(balance_name, total, place) for place, (balance_name, total) in enumerate(totals.items())]:
            yield Fault(terms.name, None, "has other lines than its opening says")


def _check_account(connection: Connection, record: Record, chain: Chain, state: State) -> Iterator[Fault]:
    """Yield a fault for each way in which an account's row in the database differs from what its history implies.

    The history has three parts: the opening in `record`, the recomputed `chain` of entries, and the `state` (open,
    frozen or closed) in which the audit events leave the account.
    """
    expected = {**account_row(record), "state": state}
    name = str(expected["name"])
    row = connection.execute(_ACCOUNT_OF, {"the_holder": record.holder}).mappings().one_or_none()
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
    """Yield a fault for every account that does not draw on the cap of its dataset, if there was one at its opening.

    A cap is the joint budget of a dataset's accounts. `terms` has the terms of accounts and caps, keyed by the number
    of the record that opened them.
    """
    caps: dict[str, int] = {}
    for number, account_terms in sorted(terms.items()):
        if account_terms.kind == "cap":
            caps.setdefault(account_terms.dataset, number)
        elif account_terms.dataset in caps and account_terms.cap != caps[account_terms.dataset]:
            yield Fault(account_terms.name, None, f"does not draw on the cap of its dataset {account_terms.dataset!r}")


def _check_rules(terms: dict[int, Terms], tally: Tally, chains: dict[str, Chain]) -> Iterator[Fault]:
    """Yield a fault for every charge that was paid from a single balance of a cap without permission.

    A cap, the joint budget of a dataset's accounts, pays each charge from two balances: the Gaussian wallet (an amount
    of mu squared) and the sum of epsilons. A charge may be paid from one of them alone only if the cap has dropped the
    other for good, or was set up without it.

    - `terms` has the terms of accounts and caps, keyed by the number of the record that opened them.
    - `tally` has the units spent from each balance. A cap has a third balance, named "rule", which only records what it
      has dropped: 0 units spent mean nothing, 2 the sum of epsilons, and 3 the wallet.
    - `chains` has the recomputed chains of entries, by account name.
    """
    for account_terms in terms.values():
        if account_terms.slices and account_terms.name in chains:
            cap = terms[account_terms.cap].totals if account_terms.cap in terms else None
            if not isinstance(cap, CapTotals):
                continue
            # Each charge is paid both from the Gaussian wallet and from the sum of epsilons, until only one of them can
            # pay. The cap then pays only from that one for good, so a charge paid from one balance must be paid from
            # the one that is left.
            rule_now = cap.rule_of(tally.get((account_terms.cap or 0, WHOLE_LIFE, RULE), 0))
            for position, rule in chains[account_terms.name].by_one_rule:
                if rule is not rule_now:
                    yield Fault(
                        account_terms.name,
                        position,
                        "pays the cap by a rule that was given up, or was not the only one",
                    )


_PLACE = ("holder", "period", "what")


def _check_balances(connection: Connection, tally: Tally, terms: dict[int, Terms]) -> Iterator[Fault]:
    """Yield a fault for every stored balance that is not the sum of its changes by entries, or is overdrawn.

    `tally` has these sums, in units spent. `terms` has the terms of accounts and caps (joint budgets of accounts),
    keyed by the number of the record that opened them; they say how many units each balance has. A balance is also a
    fault if its stored size is another number of units, or if a negative number was spent from it.
    """
    rows = {(row.holder, row.period, row.what): row for row in connection.execute(select(balances))}
    last = and_(balances.c.movement == movements.c.number, *(balances.c[x] == movements.c[x] for x in _PLACE))
    moved = select(*(balances.c[x] for x in _PLACE)).outerjoin_from(balances, movements, last)
    loose = {tuple(row) for row in connection.execute(moved.where(movements.c.number.is_(None)))}
    for place in sorted(rows.keys() | tally.keys()):
        holder, period, balance_name = place
        row, spent = rows.get(place), tally.get(place, 0)
        name = terms[holder].name if holder in terms else f"number {holder}"
        when = f" in {period}" if period else ""
        if row is None or row.spent != spent:
            stored_text = "no balance" if row is None else f"a balance of {row.spent}"
            yield Fault(name, None, f"has {stored_text} for {balance_name}{when}, and its entries add up to {spent}")
        elif place in loose:
            yield Fault(name, None, f"has a balance for {balance_name}{when} that no movement brought about")
        elif holder in terms and (row.total != terms[holder].lines().get(balance_name) or not 0 <= spent <= row.total):
            yield Fault(name, None, f"has a balance for {balance_name}{when} outside its limits")


def _check_strays(connection: Connection, terms: dict[int, Terms]) -> Iterator[Fault]:
    """Yield a fault for every account or cap (joint budget) that has rows in a table although it was never opened.

    Tables refer to an account or cap by the number of the record that opened it. `terms` has the terms of all opened
    accounts and caps, by this number.
    """
    account_ids = {holder for holder, account_terms in terms.items() if account_terms.kind != "cap"}
    for table, column in ((accounts, "holder"), (entries, "holder"), (movements, "account"), (lines, "holder")):
        records = set(terms) if table is lines else account_ids
        for holder in sorted(_holders(connection, table, column) - records):
            yield Fault(None, None, f"has rows in {table.name} of {holder}, which was never opened")


def _holders(connection: Connection, table: Table, column: str) -> set[int]:
    """Return the distinct numbers in the `column` of a `table`; each number stands for an account or a cap.

    A cap is the joint budget of a dataset's accounts. Each distinct number takes one index lookup, so that the time
    does not grow with the number of rows.
    """
    numbers: set[int] = set()
    place = table.c[column]
    query = select(place).where(place > bindparam("after", type_=place.type)).order_by(place).limit(1)
    after = -(2**62)
    while True:
        following = connection.execute(query, {"after": after}).scalar_one_or_none()
        if following is None:
            return numbers
        numbers.add(following)
        after = following
