"""One entry of an account: a charge or its settlement, linked to the entry before it."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from setwise.accounting.notation import format_use, parse_use
from setwise.accounting.use import Use
from setwise.ledger.canonical import canonical, digest
from setwise.ledger.clock import moment_of

EntryKind = Literal["charge", "settle"]


def write_uses(uses: Iterable[Use]) -> str:
    """Return uses as a JSON list of MECH."""
    return json.dumps([format_use(use) for use in uses], separators=(",", ":"))


def link(previous: str, position: int, at: int, contents: str) -> str:
    """Return the hash of an entry: over the hash before it, its place, its stamp and the digest of its contents.

    PostgreSQL computes the same in its trigger.
    """
    return digest(f"{previous}\n{position}\n{at}\n{contents}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What an entry says, before it has a place in the chain: `text` is the request of a charge, or the answer."""

    account: str
    kind: EntryKind
    key: str
    period: str
    uses: str
    text: str

    def digest(self) -> str:
        """Return the digest of the canonical text."""
        return digest(
            canonical(
                {
                    "account": self.account,
                    "kind": self.kind,
                    "key": self.key,
                    "period": self.period,
                    "uses": self.uses,
                    "text": self.text,
                }
            )
        )


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
        return tuple(parse_use(text) for text in json.loads(self.contents.uses))
