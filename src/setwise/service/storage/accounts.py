"""Accounts as people may see them: analysts their own, stewards all."""

from dataclasses import dataclass

from setwise.errors import UnknownAccount
from setwise.ledger.account import Account
from setwise.ledger.ledger import Ledger
from setwise.ledger.status import AccountStatus
from setwise.service.auth.people import Identity


@dataclass(frozen=True, slots=True, kw_only=True)
class Holding:
    """An account, whose it is and on which data set: fixed when it was opened."""

    account: Account
    analyst: str
    dataset: str


class Accounts:
    """The ledger's accounts behind the question of who may see them.

    An account that is somebody else's and one that does not exist are refused in the same words.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._holdings: dict[str, Holding] = {}

    def visible(self, identity: Identity, name: str) -> Holding:
        """Return an account that this person may see, or raise `UnknownAccount`."""
        holding = self._holding(name)
        if not identity.is_steward and holding.analyst != identity.person.name:
            raise _unknown(name)
        return holding

    def standing(self, identity: Identity, name: str) -> AccountStatus:
        """Return how an account stands that this person may see, or raise `UnknownAccount`."""
        return self.visible(identity, name).account.status()

    def own(self, identity: Identity, name: str) -> Holding:
        """Return an account that this person may draw from, or raise `UnknownAccount`."""
        holding = self._holding(name)
        if holding.analyst != identity.person.name:
            raise _unknown(name)
        return holding

    def all_visible(self, identity: Identity) -> list[AccountStatus]:
        """Return how the accounts that this person may see stand, by name."""
        return [
            standing
            for standing in self._ledger.accounts()
            if identity.is_steward or standing.analyst == identity.person.name
        ]

    def _holding(self, name: str) -> Holding:
        if name not in self._holdings:
            try:
                account = self._ledger.account(name)
            except UnknownAccount:  # its words name the ledger's address
                raise _unknown(name) from None
            standing = account.status()
            self._holdings[name] = Holding(account=account, analyst=standing.analyst, dataset=standing.dataset)
        return self._holdings[name]


def _unknown(name: str) -> UnknownAccount:
    return UnknownAccount(f"there is no account named {name!r} among yours; ask a steward to open one")
