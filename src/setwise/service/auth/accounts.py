"""Accounts as people may see them: analysts their own, stewards all."""

from setwise.errors import UnknownAccount
from setwise.ledger.account import Account
from setwise.ledger.ledger import Ledger
from setwise.ledger.status import AccountStatus
from setwise.service.auth.people import Identity


class Accounts:
    """The ledger's accounts behind the question of who may see them.

    An account that is somebody else's and one that does not exist are refused in the same words.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: dict[str, Account] = {}

    def visible(self, identity: Identity, name: str) -> Account:
        """Return an account that this person may see, or raise `UnknownAccount`."""
        found = self._find(name)
        if not identity.is_steward and found.terms.analyst != identity.person.name:
            raise _unknown(name)
        return found

    def own(self, identity: Identity, name: str) -> Account:
        """Return an account that this person may draw from, or raise `UnknownAccount`."""
        found = self._find(name)
        if found.terms.analyst != identity.person.name:
            raise _unknown(name)
        return found

    def all_visible(self, identity: Identity) -> tuple[AccountStatus, ...]:
        """Return the status of each account that this person may see, by name."""
        return self._ledger.accounts(analyst=None if identity.is_steward else identity.person.name)

    def all_own(self, identity: Identity) -> tuple[AccountStatus, ...]:
        """Return the status of each account that this person may draw from, by name."""
        return self._ledger.accounts(analyst=identity.person.name)

    def _find(self, name: str) -> Account:
        if name not in self._known:
            try:
                self._known[name] = self._ledger.account(name)
            except UnknownAccount:  # its words name the ledger's address
                raise _unknown(name) from None
        return self._known[name]


def _unknown(name: str) -> UnknownAccount:
    return UnknownAccount(f"there is no account named {name!r} among yours; ask a steward to open one")
