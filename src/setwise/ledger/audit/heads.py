"""Signed heads: where every chain ended at some time, signed with a key that the database does not have.

A head is a record of the register. Whoever cuts off the end of a ledger, or puts an older copy of it back, takes its
last heads away as well and cannot make new ones. The last head is therefore also kept in a file outside the database,
and a ledger that no longer has the head in this file gets no further signature.
"""

import hashlib
import hmac
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select

from setwise.errors import InvalidParameter, StoreFailed
from setwise.ledger.audit.chain import Fault
from setwise.ledger.records import NOTHING_BEFORE, canonical, link, moment_of, record_hash
from setwise.ledger.register import AuditEvent, Record, records_of, write_event
from setwise.ledger.stores.read_queries import entry_rows, read_entry
from setwise.ledger.stores.schema import accounts, entries

SHORTEST_KEY = 16
"""Bytes of the shortest key."""

CLOCK_SLACK = timedelta(hours=1)
"""How far a head may be stamped ahead of the present and still count as recent.

A head that is stamped further ahead, by a clock that was wrong, is neither recent nor a reason not to sign.
"""


def read_key(path: Path) -> bytes:
    """Return the key in a file, without the line end; raise `InvalidParameter` for a key that is too short."""
    try:
        key = path.read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise InvalidParameter(f"the key {path} cannot be read: {error.strerror}") from None
    if len(key) < SHORTEST_KEY:
        raise InvalidParameter(f"the key {path} must have at least {SHORTEST_KEY} bytes, not {len(key)}")
    return key


@dataclass(frozen=True, slots=True)
class KeptHead:
    """A signed head as it is kept outside the database: its number in the register, its timestamp and its hash."""

    number: int
    at: int
    hash: str

    @classmethod
    def of(cls, record: Record) -> "KeptHead":
        """Return what is kept of a record."""
        return cls(record.holder, record.at, record.hash)


class HeadFile:
    """The file outside the database that keeps the last signed head."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def beside(cls, key: Path) -> "HeadFile":
        """Return the file that is used unless another is named: that of the key, with `.head` added to its name."""
        return cls(key.with_name(f"{key.name}.head"))

    def read(self) -> KeptHead | None:
        """Return the kept head, or None if there is no file yet; raise `InvalidParameter` for another file."""
        try:
            record = json.loads(self.path.read_text(encoding="utf-8"))
            return KeptHead(int(record["number"]), int(record["at"]), str(record["hash"]))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InvalidParameter(f"the last signed head in {self.path} cannot be read: {error.strerror}") from None
        except (ValueError, TypeError, KeyError):
            raise InvalidParameter(f"the file {self.path} does not hold a signed head") from None

    def check_writable(self) -> None:
        """Raise `InvalidParameter` if a head could not be kept here, so that a replica says so when it starts."""
        if not os.access(self.path.parent, os.W_OK):
            raise InvalidParameter(
                f"the last signed head cannot be kept in {self.path}, because its folder cannot be written: name "
                "another file with SETWISE_HEAD_FILE"
            )

    def keep(self, head: KeptHead) -> None:
        """Replace the kept head, unless a later one is kept already; the file is readable for its owner alone."""
        kept = self.read()
        if kept is not None and kept.number > head.number:
            return
        partial = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        try:
            with os.fdopen(os.open(partial, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as stream:
                stream.write(canonical({"number": head.number, "at": head.at, "hash": head.hash}) + "\n")
                stream.flush()
                os.fsync(stream.fileno())
            partial.replace(self.path)
        except OSError as error:
            raise InvalidParameter(f"the last signed head cannot be kept in {self.path}: {error.strerror}") from None


def sign(connection: Connection, key: bytes, at: int) -> Record:
    """Append a signed head: the number and hash of the last entry of each account that has new entries.

    Raises `StoreFailed` if the ledger does not fit its earlier heads, because signing would attest what is there.
    """
    known = records_of(connection)
    signed = check_heads(connection, known, key)
    rows = connection.execute(select(accounts.c.name, accounts.c.entries, accounts.c.head))
    moved = {row.name: [row.entries, row.head] for row in rows if row.entries}
    details: dict[str, object] = {"accounts": {name: end for name, end in moved.items() if signed.get(name) != end}}
    previous = known[-1].hash if known else NOTHING_BEFORE
    details["signature"] = _signature(key, previous, at, details)
    return write_event(connection, AuditEvent(kind="head", action="head", by="", subject="", details=details), at)


def check_heads(connection: Connection, known: list[Record], key: bytes) -> dict[str, list[object]]:
    """Check that the ledger continues what its heads say; return per account the last signed position and hash.

    Recomputes the register's chain, every signature, and the hashes of all entries since the last head, but not
    prices or balances: full verification does that. Raises `StoreFailed`, naming the first fault.
    """
    previous = NOTHING_BEFORE
    for record in known:
        if (record.previous, record.hash) != (previous, record_hash(previous, record.holder, record.at, record.body)):
            _refuse(f"record {record.holder} of its register does not fit the one before it")
        previous = record.hash
    heads = [record for record in known if record.kind == "head"]
    for fault in check_signatures(heads, key):
        _refuse(f"it {fault.what}")
    signed: dict[str, list[object]] = {}
    for record in heads:
        signed |= record.event.details["accounts"]
    seals = [record.event.details["accounts"] for record in known if record.kind == "seal"]
    sealed = {name: int(count) for name, (count, _) in (seals[0] if seals else {}).items()}
    starts = {record.holder: record.hash for record in known}
    found = set()
    for row in connection.execute(
        select(accounts.c.holder, accounts.c.name, accounts.c.entries, accounts.c.head)
    ).all():
        end = signed.get(row.name, [0, starts.get(row.holder)])
        _check_continues(connection, row, (int(str(end[0])), str(end[1])), sealed.get(row.name, 0))
        found.add(row.name)
    for name in signed.keys() - found:
        _refuse(f"the account {name!r} of a signed head is no longer there")
    return signed


def _check_continues(connection: Connection, account: Any, end: tuple[int, str], sealed: int) -> None:  # noqa: ANN401 - a row
    """Check that an account has the entry at which a head saw it end, and that later entries follow it."""
    position, head = end
    if position:
        there = select(entries.c.hash).where(entries.c.holder == account.holder, entries.c.position == position)
        if connection.execute(there).scalar_one_or_none() != head:
            _refuse(f"entry {position} of the account {account.name!r} is not the one that was signed")
    with closing(entry_rows(connection, account.holder, position)) as rows:
        for row in rows:
            entry = read_entry(account.name, row)
            position += 1
            said = entry.contents.digest_without_moves() if position <= sealed else entry.contents.digest()
            if entry.position != position or entry.hash != link(head, position, entry.at, said):
                _refuse(f"entry {position} of the account {account.name!r} does not follow the one before it")
            head = entry.hash
    if (position, head) != (account.entries, account.head if account.entries else head):
        _refuse(f"the account {account.name!r} ends with another entry than its row says")


def check_kept(known: Iterable[Record], kept: KeptHead | None) -> Iterator[Fault]:
    """Check that the register still has the head that is kept outside the database."""
    if kept is not None and kept.hash not in {record.hash for record in known if record.holder == kept.number}:
        when = f"{moment_of(kept.at):%Y-%m-%d %H:%M:%S}"
        yield Fault(
            None,
            None,
            f"no longer has the head, number {kept.number} signed at {when}, that is kept outside the database: "
            "an older copy may have been put back",
        )


def adopt_head(
    connection: Connection, key: bytes, kept: KeptHead | None, oldest: int | None, latest: int
) -> KeptHead | None:
    """Check the ledger against the head kept outside, and return the head to keep from now on; None without heads.

    Where no head is kept outside yet, the last one in the ledger is taken if it was signed between the timestamps
    `oldest` and `latest`. An older one is refused, because it may come with an old copy of the database.
    """
    known = records_of(connection)
    for fault in check_kept(known, kept):
        _refuse(f"it {fault.what}")
    check_heads(connection, known, key)
    heads = [record for record in known if record.kind == "head"]
    if kept is None and heads and (oldest is None or not any(oldest <= head.at <= latest for head in heads)):
        _refuse(
            "it has signed heads, the last of them not recent, and none is kept outside the database: make sure that "
            "this is the latest copy, then run setwise ledger sign --anew"
        )
    return KeptHead.of(heads[-1]) if heads else None


def _refuse(fault: str) -> None:
    raise StoreFailed(f"the ledger was not signed: {fault}")


def check_signatures(
    heads: Iterable[Record], key: bytes, *, oldest: int | None = None, latest: int | None = None
) -> Iterator[Fault]:
    """Check every signature and, with `oldest`, that a head is stamped between `oldest` and `latest`.

    Both are in microseconds since 1970. Heads stamped after `latest` come from a clock that was wrong and do not count.
    """
    stamps: list[int] = []
    for record in heads:
        details = dict(record.event.details)
        signature = details.pop("signature")
        if not hmac.compare_digest(str(signature), _signature(key, record.previous, record.at, details)):
            yield Fault(None, None, f"has a head, number {record.holder}, that was not signed with this key")
        if latest is None or record.at <= latest:
            stamps.append(record.at)
    if oldest is not None and max(stamps, default=oldest - 1) < oldest:
        when = f"the last is of {moment_of(max(stamps)):%Y-%m-%d %H:%M:%S}" if stamps else "none"
        yield Fault(None, None, f"lacks a recent signed head ({when}): its end may have been cut off")


def _signature(key: bytes, previous: str, at: int, details: dict[str, object]) -> str:
    return hmac.new(key, f"{previous}\n{at}\n{canonical(details)}".encode(), hashlib.sha256).hexdigest()
