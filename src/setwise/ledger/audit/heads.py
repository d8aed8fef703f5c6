"""Signed heads: where every account's chain ended at some time, signed with a key that the database does not have.

A head is a record of the register, the ledger's chain of openings and audit events. Somebody who cuts off the end of a
ledger, or replaces it by an older copy, also removes the last heads, and cannot make new ones without the key. To
notice that, the last head is also kept in a file outside the database. A ledger that lacks the head in this file gets
no further signature.
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
from setwise.ledger.audit.chain_check import Fault
from setwise.ledger.records import NOTHING_BEFORE, canonical, link, moment_of, record_hash
from setwise.ledger.register import AuditEvent, Record, records_of, write_event
from setwise.ledger.stores.read_queries import entry_rows, read_entry
from setwise.ledger.stores.schema import accounts, entries

SHORTEST_KEY = 16
"""The smallest allowed length of the key that signs heads, in bytes."""

CLOCK_SLACK = timedelta(hours=1)
"""How far after the present, one hour, a signed head may be timestamped and still count as recent.

A head with a later timestamp comes from a clock that was wrong. It does not count as recent, but does not prevent
signing either.
"""


def read_key(path: Path) -> bytes:
    """Return the key that signs heads, read from the file `path` as bytes without the line end.

    A head is a record of where every account's chain of entries ended at some time. Because heads are signed, it is
    noticed if somebody without the key cuts off or replaces entries.

    Raises `InvalidParameter` for a file that cannot be read, or a key of fewer than 16 bytes.
    """
    try:
        key = path.read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise InvalidParameter(f"the key {path} cannot be read: {error.strerror}") from None
    if len(key) < SHORTEST_KEY:
        raise InvalidParameter(f"the key {path} must have at least {SHORTEST_KEY} bytes, not {len(key)}")
    return key


@dataclass(frozen=True, slots=True)
class KeptHead:
    """The identity of a signed head: its number among the ledger's records, its timestamp `at`, and its hash.

    A signed head is a record of where every account's chain of entries ended, signed with a secret key. Its identity is
    stored outside the database, to notice if an older copy of the database is put back. `at` is in microseconds since
    1970.
    """

    number: int
    at: int
    hash: str

    @classmethod
    def of(cls, record: Record) -> "KeptHead":
        """Return the number, timestamp and hash of `record`, which is a signed head of the ledger.

        A signed head is a record of where every account's chain of entries ended, signed with a secret key.
        """
        return cls(record.holder, record.at, record.hash)


class HeadFile:
    """The file at `path`, outside the database, that keeps the number, the time and the hash of the last signed head.

    A signed head is a record inside the ledger of where every account's chain of entries ended, signed with a secret
    key. If somebody puts an older copy of the database back, the ledger lacks the head that this file names, and
    verification notices.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def beside(cls, key: Path) -> "HeadFile":
        """Return the default file that keeps the last signed head: the file beside the signing key's file.

        A signed head is a record of where every account's chain of entries ended, signed with a secret key. The file's
        path is `key`, the path of the signing key, with `.head` added.
        """
        return cls(key.with_name(f"{key.name}.head"))

    def read(self) -> KeptHead | None:
        """Return the number, time and hash of the last signed head, which this file keeps; None if there is no file.

        A signed head is a record of where every account's chain of entries ended, signed with a secret key. The file
        does not contain the signature, which is therefore not checked here.

        Raises `InvalidParameter` if the file cannot be read, or lacks the number, the time or the hash.
        """
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
        """Raise `InvalidParameter` if the file's folder cannot be written.

        The service calls this when it starts, so that it does not fail only at its first signature.
        """
        if not os.access(self.path.parent, os.W_OK):
            raise InvalidParameter(
                f"the last signed head cannot be kept in {self.path}, because its folder cannot be written: name "
                "another file with SETWISE_HEAD_FILE"
            )

    def keep(self, head: KeptHead) -> None:
        """Replace the content of this file by `head`, the last signed head, unless the file has a later one.

        A signed head is a record of where every account's chain of entries ended, signed with a secret key. Only the
        file's owner can read the file. Raises `InvalidParameter` if the file cannot be written.
        """
        earlier_head = self.read()
        if earlier_head is not None and earlier_head.number > head.number:
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
    """Append a signed head, a record of where each account's chain of entries ends now, signed with `key`; return it.

    The head lists only accounts with new entries since the last head. `at` is its timestamp in microseconds since 1970.
    Raises `StoreFailed`, without signing, if entries that an earlier head covers are missing or were changed.
    """
    records = records_of(connection)
    # A signature over a ledger that was changed would confirm the change, so check first.
    signed = check_heads(connection, records, key)
    rows = connection.execute(select(accounts.c.name, accounts.c.entries, accounts.c.head))
    moved = {row.name: [row.entries, row.head] for row in rows if row.entries}
    details: dict[str, object] = {"accounts": {name: end for name, end in moved.items() if signed.get(name) != end}}
    previous = records[-1].hash if records else NOTHING_BEFORE
    details["signature"] = _signature(key, previous, at, details)
    return write_event(connection, AuditEvent(kind="head", action="head", by="", subject="", details=details), at)


def check_heads(connection: Connection, records: list[Record], key: bytes) -> dict[str, list[object]]:
    """Check that the ledger has the entries that signed heads cover; return the last signed entry of each account.

    A signed head is a record of where every account's chain of entries ended, signed with a secret key. The result is
    {account name: [position, hash]}, the number and the hash of the last entry that a head covers. `records` are all
    openings and audit events of the ledger, and `key` is the signing key. Raises `StoreFailed`, naming the first fault.
    """
    # The chain of records, every signature, and the hashes of all entries since the last head are recomputed. Prices
    # and balances are not; `verify` recomputes them.
    previous = NOTHING_BEFORE
    for record in records:
        if (record.previous, record.hash) != (previous, record_hash(previous, record.holder, record.at, record.body)):
            _refuse(f"record {record.holder} of its register does not fit the one before it")
        previous = record.hash
    heads = [record for record in records if record.kind == "head"]
    for fault in check_signatures(heads, key):
        _refuse(f"it {fault.message}")
    signed: dict[str, list[object]] = {}
    for record in heads:
        signed |= record.event.details["accounts"]
    seals = [record.event.details["accounts"] for record in records if record.kind == "seal"]
    sealed = {name: int(count) for name, (count, _) in (seals[0] if seals else {}).items()}
    starts = {record.holder: record.hash for record in records}
    present = set()
    for row in connection.execute(
        select(accounts.c.holder, accounts.c.name, accounts.c.entries, accounts.c.head)
    ).all():
        end = signed.get(row.name, [0, starts.get(row.holder)])
        _check_continues(connection, row, (int(str(end[0])), str(end[1])), sealed.get(row.name, 0))
        present.add(row.name)
    for name in signed.keys() - present:
        _refuse(f"the account {name!r} of a signed head is no longer there")
    return signed


def _check_continues(connection: Connection, account: Any, end: tuple[int, str], sealed: int) -> None:  # noqa: ANN401 - a row
    """Raise `StoreFailed` unless an account's hash chain still has its last signed entry and is unbroken after it.

    Every later entry must contain the hash of the entry before it, and the account's row must name the last entry.

    - `account` is the account's row in the database.
    - `end` is the position and hash of the last signed entry.
    - `sealed` is how many entries at the start of the chain were written by early versions. The hashes of these entries
      do not cover balance changes, so they are recomputed without them.
    """
    position, head = end
    if position:
        signed_hash = select(entries.c.hash).where(entries.c.holder == account.holder, entries.c.position == position)
        if connection.execute(signed_hash).scalar_one_or_none() != head:
            _refuse(f"entry {position} of the account {account.name!r} is not the one that was signed")
    with closing(entry_rows(connection, account.holder, position)) as rows:
        for row in rows:
            entry = read_entry(account.name, row)
            position += 1
            contents_digest = entry.contents.digest_without_moves() if position <= sealed else entry.contents.digest()
            if entry.position != position or entry.hash != link(head, position, entry.at, contents_digest):
                _refuse(f"entry {position} of the account {account.name!r} does not follow the one before it")
            head = entry.hash
    if (position, head) != (account.entries, account.head if account.entries else head):
        _refuse(f"the account {account.name!r} ends with another entry than its row says")


def check_kept(records: Iterable[Record], kept: KeptHead | None) -> Iterator[Fault]:
    """Yield a fault if `records`, all openings and audit events of the ledger, lack the signed head `kept`.

    `kept` was stored outside the database. It is a record of where every account's chain of entries ended, signed with
    a secret key. Yields nothing if `kept` is None.
    """
    if kept is not None and kept.hash not in {record.hash for record in records if record.holder == kept.number}:
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
    """Check the ledger against `kept`, the signed head stored outside the database; return the head to store next.

    A head is a record of where every account's chain of entries ended, signed with a secret key. The result is the last
    head in the ledger, or None if the ledger has no head.
    - `key` is the signing key.
    - `kept` is None if no head is stored outside the database yet. If the ledger has heads, one of them must be recent
      in this case, because somebody may have put back an old copy of the database, which has only old heads.
    - `oldest` and `latest` are the first and the last timestamp (microseconds since 1970) of a recent head. If `oldest`
      is None, no head counts as recent, so that the check fails.

    Raises `StoreFailed` if a check fails.
    """
    records = records_of(connection)
    for fault in check_kept(records, kept):
        _refuse(f"it {fault.message}")
    check_heads(connection, records, key)
    heads = [record for record in records if record.kind == "head"]
    # An old copy of the database has only older heads.
    if kept is None and heads and (oldest is None or not any(oldest <= head.at <= latest for head in heads)):
        _refuse(
            "it has signed heads, the last of them not recent, and none is kept outside the database: make sure that "
            "this is the latest copy, then run setwise ledger sign --anew"
        )
    return KeptHead.of(heads[-1]) if heads else None


def _refuse(fault: str) -> None:
    """Raise `StoreFailed`, always; the message says that the ledger was not signed because of `fault`."""
    raise StoreFailed(f"the ledger was not signed: {fault}")


def check_signatures(
    heads: Iterable[Record], key: bytes, *, oldest: int | None = None, latest: int | None = None
) -> Iterator[Fault]:
    """Yield a fault for each of the `heads` that was not signed with `key`, and a fault if no head is recent.

    A head is a record of where every account's chain of entries ended, signed with a secret key. Without a recent head,
    somebody may have cut off the end of the ledger together with the latest heads.

    Whether a head is recent is checked only if `oldest` is not None: some head must then have a timestamp (microseconds
    since 1970) of at least `oldest` and, if `latest` is not None, of at most `latest`.
    """
    stamps: list[int] = []
    for record in heads:
        details = dict(record.event.details)
        signature = details.pop("signature")
        if not hmac.compare_digest(str(signature), _signature(key, record.previous, record.at, details)):
            yield Fault(None, None, f"has a head, number {record.holder}, that was not signed with this key")
        # A later timestamp comes from a clock that was wrong.
        if latest is None or record.at <= latest:
            stamps.append(record.at)
    if oldest is not None and max(stamps, default=oldest - 1) < oldest:
        when = f"the last is of {moment_of(max(stamps)):%Y-%m-%d %H:%M:%S}" if stamps else "none"
        yield Fault(None, None, f"lacks a recent signed head ({when}): its end may have been cut off")


def _signature(key: bytes, previous: str, at: int, details: dict[str, object]) -> str:
    """Return the signature of a head, which records where every account's chain of entries ended.

    It is the HMAC-SHA-256 under `key`, in hexadecimal, of the record's timestamp `at` (microseconds since 1970), its
    `details` and `previous`, the hash of the record before it.
    """
    return hmac.new(key, f"{previous}\n{at}\n{canonical(details)}".encode(), hashlib.sha256).hexdigest()
