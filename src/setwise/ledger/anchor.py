"""Where the chains of a ledger stood at some moment."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from setwise.errors import InvalidParameter
from setwise.ledger.canonical import digest


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

    def as_json(self) -> dict[str, object]:
        """Return it as `setwise ledger verify --json` prints it."""
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
