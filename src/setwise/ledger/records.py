"""Entries of an account (charges, settlements, slices): when they are stamped, how they are hashed, what they may hold.

Each entry has the hash of the one before it, so that an account is a chain from its opening on.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, Protocol

from setwise.accounting.guarantees import Use
from setwise.accounting.notation import format_use, parse_use
from setwise.errors import InvalidParameter

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    """Anything that tells the time."""

    def now(self) -> datetime:
        """Return the present moment, with its time zone."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """Return the present moment in UTC."""
        return datetime.now(UTC)


def microseconds(moment: datetime) -> int:
    """Return a moment as whole microseconds since 1970, UTC: how entries are stamped.

    >>> microseconds(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    1000000
    """
    if moment.tzinfo is None:
        raise InvalidParameter(f"a clock must tell its time zone, and {moment.isoformat()} has none")
    return (moment - _EPOCH) // _MICROSECOND


def moment_of(stamp: int) -> datetime:
    """Return the moment of a stamp, in UTC."""
    return _EPOCH + stamp * _MICROSECOND


NOTHING_BEFORE = "0" * 64
"""What the first link of a chain follows."""


def canonical(record: object) -> str:
    """Return a record as JSON with sorted names and no spaces: equal ones have equal text.

    >>> canonical({"b": 1, "a": [2]})
    '{"a":[2],"b":1}'
    """
    return json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


EntryKind = Literal["charge", "settle", "slice", "release"]
"""The kinds of entries.

A charge pays for uses, a settlement stores the answer of a charge, a slice moves units between a cap and the account's
slice of it, and a release stores one more answer that an earlier charge has paid for, so it charges nothing.
"""


def write_uses(uses: Iterable[Use]) -> str:
    """Return uses as a JSON list of MECH."""
    return json.dumps([format_use(use) for use in uses], separators=(",", ":"))


def read_uses(text: str) -> tuple[Use, ...]:
    """Return the uses of a JSON list of MECH."""
    return tuple(parse_use(use) for use in json.loads(text))


def write_amounts(amounts: Mapping[str, int]) -> str:
    """Return the units that move between a cap and a slice, per line of the cap, as a JSON object."""
    return canonical(amounts)


def read_amounts(text: str) -> dict[str, int]:
    """Return the units of a JSON object, or raise `ValueError`."""
    found = json.loads(text)
    if not isinstance(found, dict) or not all(type(units) is int and units for units in found.values()):
        raise ValueError("not the units of a slice")
    return found


def record_hash(previous: str, holder: int, at: int, body: str) -> str:
    """Return the hash of a record of the register, over the hash of the record before it."""
    return digest(f"{previous}\n{holder}\n{at}\n{digest(body)}")


def link(previous: str, position: int, at: int, contents: str) -> str:
    """Return the hash of an entry: over the hash before it, its place, its stamp and the digest of its contents.

    PostgreSQL computes the same in its trigger.
    """
    return digest(f"{previous}\n{position}\n{at}\n{contents}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What an entry says, before it has a place in the chain.

    `text` is the request of a charge, the answer of a settlement or a release, or the units that move between cap and
    slice. `moves` lists the entry's movements: JSON rows of holder, period, balance name and amount.
    """

    account: str
    kind: EntryKind
    key: str
    period: str
    uses: str
    text: str
    moves: str = "[]"

    def digest(self) -> str:
        """Return the digest of all fields: the hash of the entry covers it, and so covers the movements."""
        return digest(canonical({name: getattr(self, name) for name in Contents.__slots__}))

    def digest_without_moves(self) -> str:
        """Return the digest of an entry from before version 5 of the schema, when hashes did not cover movements."""
        names = [name for name in Contents.__slots__ if name != "moves"]
        return digest(canonical({name: getattr(self, name) for name in names}))


def release_key(charge_key: str, part: str) -> str:
    """Return the key of a release: the key of its charge and the part that is released, on two lines.

    Names are printable, so neither contains a line break, and the database finds the charge by the first line.
    """
    return f"{charge_key}\n{part}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry in its place: `uses` were drawn by a charge, or returned by a settlement."""

    contents: Contents
    position: int
    at: int
    previous: str
    hash: str

    @property
    def moment(self) -> datetime:
        """When it was made."""
        return moment_of(self.at)

    @property
    def uses(self) -> tuple[Use, ...]:
        """The uses drawn or returned."""
        return read_uses(self.contents.uses)

    def to_dict(self) -> dict[str, object]:
        """Return the JSON object of the command line and the service; `text` is what was asked or answered."""
        contents = self.contents
        return {
            "entry": self.position,
            "at": self.moment.isoformat(),
            "kind": contents.kind,
            "key": contents.key,
            "period": contents.period or None,
            "uses": json.loads(contents.uses),
            "text": contents.text,
            "hash": self.hash,
        }


LONGEST_NAME = 200


def check_name(value: object, what: str) -> str:
    """Return a name of 1 to 200 printable characters, or raise `InvalidParameter`."""
    if not isinstance(value, str):
        raise InvalidParameter(f"{what} must be text, not {value!r}")
    if not 1 <= len(value) <= LONGEST_NAME:
        raise InvalidParameter(f"{what} must have 1 to {LONGEST_NAME} characters, not {len(value)}")
    if not value.isprintable() or value != value.strip():
        raise InvalidParameter(f"{what} must be printable, without spaces around it, not {value!r}")
    return value


def check_label(value: object, what: str) -> str:
    """Return a name, or the empty text for none."""
    return "" if value == "" else check_name(value, what)


def check_text(value: object, what: str) -> str:
    """Return a text that UTF-8 and both databases can hold, or raise `InvalidParameter`."""
    if not isinstance(value, str):
        raise InvalidParameter(f"{what} must be text, not {type(value).__name__}")
    if "\0" in value:
        raise InvalidParameter(f"{what} must not contain the character NUL")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidParameter(f"{what} must be text that UTF-8 can write") from None
    return value
