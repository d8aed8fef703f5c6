"""Entries of an account: timestamps, hashes and canonical JSON, and which names, labels and texts are allowed.

There are four kinds of entries: a charge, a settlement (the answer of a charge), a release (the answer of a part of a
charge), and a slice entry. A slice entry moves budget between a dataset's cap (the joint budget of its accounts) and
the part of the cap that is reserved for the account. Each entry contains the hash of the entry before it, so that an
account is a hash chain that starts at its opening.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Literal, Protocol

from setwise.accounting.guarantees import Use
from setwise.accounting.notation import format_use, parse_use
from setwise.errors import InvalidParameter

if TYPE_CHECKING:
    from setwise.contract import EntryRecord

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Clock(Protocol):
    """A source of the present time; tests pass a clock whose time they control."""

    def now(self) -> datetime:
        """Return the present time as a datetime with a time zone."""
        ...


class SystemClock:
    """The clock of this machine."""

    def now(self) -> datetime:
        """Return the present time in UTC."""
        return datetime.now(UTC)


def microseconds(moment: datetime) -> int:
    """Return the datetime `moment` as whole microseconds since 1970 in UTC, which is how entries are timestamped.

    Raises `InvalidParameter` for a datetime without a time zone.

    >>> microseconds(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))
    1000000
    """
    if moment.tzinfo is None:
        raise InvalidParameter(f"a clock must tell its time zone, and {moment.isoformat()} has none")
    return (moment - _EPOCH) // _MICROSECOND


def moment_of(stamp: int) -> datetime:
    """Return the UTC datetime of the timestamp `stamp`, an integer number of microseconds since 1970."""
    return _EPOCH + stamp * _MICROSECOND


NOTHING_BEFORE = "0" * 64
"""The previous hash that the first record of the register has: 64 zeros."""


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
"""The encoder of `canonical`; `json.dumps` would make a new one at every call."""


def canonical(record: object) -> str:
    """Return a record as JSON with sorted keys and no spaces, so that equal records have equal text.

    >>> canonical({"b": 1, "a": [2]})
    '{"a":[2],"b":1}'
    """
    return _CANONICAL.encode(record)


def digest(text: str) -> str:
    """Return the SHA-256 digest of a text in UTF-8, in hexadecimal."""
    return hashlib.sha256(text.encode()).hexdigest()


EntryKind = Literal["charge", "settle", "slice", "release"]
"""The kinds of entries.

A charge pays for uses, a settlement stores the answer of a charge, a slice moves units between a cap and the account's
slice of it, and a release stores one more answer that an earlier charge has paid for, so it charges nothing.
"""


def write_uses(uses: Iterable[Use]) -> str:
    """Return `uses`, guarantees and how often each is used, as the JSON text of a list of their written forms.

    `["pure:0.1x3"]`, for example, is three uses of a mechanism that is 0.1-DP.
    """
    return json.dumps([format_use(use) for use in uses], separators=(",", ":"))


def read_uses(text: str) -> tuple[Use, ...]:
    """Return the privacy guarantees and their numbers of uses in `text`, a JSON list such as `["pure:0.1x3"]`.

    "pure:0.1x3", for example, is three uses of a mechanism that is 0.1-DP.
    """
    return tuple(parse_use(use) for use in json.loads(text))


def write_amounts(amounts: Mapping[str, int]) -> str:
    """Return `amounts` as JSON text, for an entry that moves budget between a dataset's cap and one account's slice.

    The cap is the joint budget of all accounts on the dataset, and a slice the part of it that is reserved for one
    account. `amounts` maps balances of the cap to the units to move; a full balance has 2^60 units. A positive number
    moves units into the slice, a negative number moves them back to the cap.

    >>> write_amounts({"wallet": 5, "failure": -2})
    '{"failure":-2,"wallet":5}'
    """
    return canonical(amounts)


def read_amounts(text: str) -> dict[str, int]:
    """Return how many units of each balance a ledger entry moves between a dataset's cap and an account's slice.

    The cap is the joint budget of all accounts on the dataset, and a slice the part of it that is reserved for one
    account. A positive number moves units into the slice, a negative number moves them back to the cap; a full balance
    has 2^60 units. `text` is the JSON text that `write_amounts` returned. Raises `ValueError` for JSON of another form,
    or for an amount of 0.

    >>> read_amounts('{"failure":-2,"wallet":5}')
    {'failure': -2, 'wallet': 5}
    """
    amounts = json.loads(text)
    if not isinstance(amounts, dict) or not all(type(units) is int and units for units in amounts.values()):
        raise ValueError("not the units of a slice")
    return amounts


def record_hash(previous: str, holder: int, at: int, body: str) -> str:
    """Return the hash of a record (the opening of an account or joint budget, or an audit event) in its hash chain.

    The hash covers all arguments: `previous` is the hash of the record before, `holder` the record's number, `at` its
    timestamp in microseconds since 1970, and `body` its text.
    """
    return digest(f"{previous}\n{holder}\n{at}\n{digest(body)}")


def link(previous: str, position: int, at: int, contents: str) -> str:
    """Return the hash of an entry in its account's hash chain.

    The hash covers all arguments: `previous` is the hash of the entry before, `position` the entry's place in the
    chain, `at` its timestamp in microseconds since 1970, and `contents` the digest of the entry's contents.
    """
    # A trigger in PostgreSQL computes this hash, too.
    return digest(f"{previous}\n{position}\n{at}\n{contents}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The contents of an entry, such as a charge, without its position in its account's hash chain.

    - `account` is the account's name, `kind` is "charge", for example, and `key` is the idempotency key.
    - `period` is the budget period, or "" for an account without periods.
    - `uses` is a JSON list of privacy guarantees and how often each is used, such as `["pure:0.1x3"]`. For a charge,
      these are the guarantees that it pays for; for a settlement (the entry with the answer of a charge), those that
      are refunded.
    - `text` is the request of a charge, or the answer of a settlement or release. For a slice entry, it has the units
      that move between a dataset's joint budget and the part reserved for the account.
    - `moves` is a JSON list of balance changes. Each is a list of the number of the record that opened the account or
      cap (joint budget), the period, the name of the balance, and the units: `[[7, "2026-11", "wallet", 5]]` takes 5
      units.
    """

    account: str
    kind: EntryKind
    key: str
    period: str
    uses: str
    text: str
    moves: str = "[]"

    def digest(self) -> str:
        """Return the SHA-256 digest of all fields of the entry's contents, in hexadecimal.

        The entry's hash covers this digest, so a later change of any field, balance changes included, is found.
        """
        return digest(canonical({name: getattr(self, name) for name in Contents.__slots__}))

    def digest_without_moves(self) -> str:
        """Return the SHA-256 digest, in hexadecimal, of all fields except `moves`, the balance changes of the entry.

        Entries that were written before version 5 of the database schema were hashed in this way. Verification
        recomputes their hashes with it.
        """
        names = [name for name in Contents.__slots__ if name != "moves"]
        return digest(canonical({name: getattr(self, name) for name in names}))


def release_key(charge_key: str, part: str) -> str:
    """Return the key of the ledger entry that stores the answer of one part of a charged question: two lines of text.

    The first line is `charge_key`, the idempotency key of the charge, and the second line is `part`, the part's name.

    >>> release_key("first", "top 3").splitlines()
    ['first', 'top 3']
    """
    # Names are printable, so neither contains a line break, and the database finds the charge by the first line.
    return f"{charge_key}\n{part}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of the ledger in its place in an account's hash chain.

    - `contents` says what the entry records, such as a charge or its answer.
    - `position` is the entry's number in the chain, from 1.
    - `at` is the timestamp in microseconds since 1970.
    - `previous` is the hash of the entry before, and `hash` the hash of this entry.
    """

    contents: Contents
    position: int
    at: int
    previous: str
    hash: str

    @property
    def moment(self) -> datetime:
        """The UTC time at which the entry was made."""
        return moment_of(self.at)

    @property
    def uses(self) -> tuple[Use, ...]:
        """The guarantees that this entry pays for or, if it answers a charge, gives back, and how often each."""
        return read_uses(self.contents.uses)

    def to_dict(self) -> "EntryRecord":
        """Return the entry as the JSON object that the command line prints and the service sends."""
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


def check_name(value: object, description: str) -> str:
    """Return `value` if it is a name of 1 to 200 printable characters without spaces around it.

    Raises `InvalidParameter` otherwise; the message calls the value `description`.
    """
    if not isinstance(value, str):
        raise InvalidParameter(f"{description} must be text, not {value!r}")
    if not 1 <= len(value) <= LONGEST_NAME:
        raise InvalidParameter(f"{description} must have 1 to {LONGEST_NAME} characters, not {len(value)}")
    if not value.isprintable() or value != value.strip():
        raise InvalidParameter(f"{description} must be printable, without spaces around it, not {value!r}")
    return value


def check_label(value: object, description: str) -> str:
    """Return `value` if it is a valid name or the empty text, which stands for no name.

    Raises `InvalidParameter` otherwise; the message calls the value `description`.
    """
    return "" if value == "" else check_name(value, description)


def check_text(value: object, description: str) -> str:
    """Return `value` if it is a text without NUL that UTF-8 can encode, which SQLite and PostgreSQL can store.

    Raises `InvalidParameter` otherwise; the message calls the value `description`.
    """
    if not isinstance(value, str):
        raise InvalidParameter(f"{description} must be text, not {type(value).__name__}")
    if "\0" in value:
        raise InvalidParameter(f"{description} must not contain the character NUL")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidParameter(f"{description} must be text that UTF-8 can write") from None
    return value
