"""Signed heads: where every chain ended at a moment, signed with a key that the database does not have.

A signed head is an act in the register. Whoever cuts off the end of a ledger cuts off its last signed heads as well and
cannot make new ones, so that the last one left is too old.
"""

import hashlib
import hmac
from collections.abc import Iterable, Iterator
from pathlib import Path

from sqlalchemy import Connection, select

from setwise.errors import InvalidParameter
from setwise.ledger.audit.chain import Fault
from setwise.ledger.records import NOTHING_BEFORE, canonical
from setwise.ledger.register import Act, Record, records_of, write_act
from setwise.ledger.stores.schema import accounts

SHORTEST_KEY = 16
"""Bytes of the shortest key."""


def read_key(path: Path) -> bytes:
    """Return the key in a file, without the line end; raise `InvalidParameter` for one that is too short."""
    try:
        key = path.read_bytes().rstrip(b"\r\n")
    except OSError as error:
        raise InvalidParameter(f"the key {path} cannot be read: {error.strerror}") from None
    if len(key) < SHORTEST_KEY:
        raise InvalidParameter(f"the key {path} must have at least {SHORTEST_KEY} bytes, not {len(key)}")
    return key


def sign(connection: Connection, key: bytes, at: int) -> Record:
    """Append a signed head: the number and hash of the last entry of each account that moved since the one before."""
    known = records_of(connection)
    signed: dict[str, list[object]] = {}
    for record in known:
        if record.kind == "head":
            signed |= record.act.details["accounts"]
    rows = connection.execute(select(accounts.c.name, accounts.c.entries, accounts.c.head))
    moved = {row.name: [row.entries, row.head] for row in rows if row.entries}
    details: dict[str, object] = {"accounts": {name: end for name, end in moved.items() if signed.get(name) != end}}
    previous = known[-1].hash if known else NOTHING_BEFORE
    details["signature"] = _signature(key, previous, at, details)
    return write_act(connection, Act(kind="head", action="head", by="", subject="", details=details), at)


def witnesses(heads: Iterable[Record]) -> Iterator[tuple[str, int, str, str]]:
    """Yield what signed heads say: the account, the position and the hash of an entry, and which head says so."""
    for record in heads:
        for name, (position, hashed) in record.act.details["accounts"].items():
            yield name, position, hashed, f"the head signed at {record.moment:%Y-%m-%d %H:%M:%S}"


def check_signatures(heads: Iterable[Record], key: bytes, *, oldest: int | None) -> Iterator[Fault]:
    """Check every signature, and that the last head was signed no earlier than the stamp `oldest`."""
    last = None
    for last in heads:
        details = dict(last.act.details)
        signature = details.pop("signature")
        if not hmac.compare_digest(str(signature), _signature(key, last.previous, last.at, details)):
            yield Fault(None, None, f"has a head, number {last.holder}, that was not signed with this key")
    if oldest is not None and (last is None or last.at < oldest):
        when = "none" if last is None else f"the last is of {last.moment:%Y-%m-%d %H:%M:%S}"
        yield Fault(None, None, f"lacks a recent signed head ({when}): its end may have been cut off")


def _signature(key: bytes, previous: str, at: int, details: dict[str, object]) -> str:
    return hmac.new(key, f"{previous}\n{at}\n{canonical(details)}".encode(), hashlib.sha256).hexdigest()
