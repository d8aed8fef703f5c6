"""Something in the ledger that is not as it was written."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, and with which entry of which account; None where it is not about one."""

    account: str | None
    entry: int | None
    what: str

    def __str__(self) -> str:
        if self.account is None:
            return f"the ledger {self.what}"
        if self.entry is None:
            return f"the account {self.account!r} {self.what}"
        return f"entry {self.entry} of the account {self.account!r} {self.what}"
