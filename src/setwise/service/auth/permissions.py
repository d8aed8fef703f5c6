"""Authorization: the table of all routes with the roles that each admits, and the accounts that a person may see.

The table also has the error statuses that each route can return. Analysts see their own accounts, and stewards see all
accounts.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from setwise.errors import AccountExists, UnknownAccount
from setwise.ledger.account import Account
from setwise.ledger.ledger import Ledger
from setwise.ledger.status import AccountStatus
from setwise.service.auth.people import Identity

API = "/api/v1"


class Access(StrEnum):
    """Whom a route of the service admits, from everybody to stewards only."""

    ANYONE = "anyone"
    """No token is needed; the route reveals nothing about data or people."""
    HOLDER = "holder"
    """Anybody with a valid token, including monitors."""
    PERSON = "person"
    """Analysts and stewards; analysts see only their own accounts, queries and series."""
    STEWARD = "steward"
    """Stewards only."""


@dataclass(frozen=True, slots=True)
class Permission:
    """Whom a route admits (`access`), and with which HTTP error statuses it may respond (`problems`).

    `problems` lists only the statuses that are special to the route, such as 409 for a name that is taken. Statuses of
    failed authentication and of malformed input are left out, because they follow from the access and the parameters.
    """

    access: Access
    problems: tuple[int, ...] = ()


_ANYONE, _HOLDER = Permission(Access.ANYONE), Permission(Access.HOLDER)
_PERSON, _STEWARD = Permission(Access.PERSON), Permission(Access.STEWARD)
_ONE_OF_MINE = Permission(Access.PERSON, (404,))
_ONE_OF_ALL = Permission(Access.STEWARD, (404,))

ROUTES: dict[tuple[str, str], Permission] = {
    ("GET", f"{API}/health"): _ANYONE,
    ("GET", f"{API}/metrics"): _HOLDER,
    ("GET", f"{API}/me"): _HOLDER,
    ("GET", f"{API}/datasets"): _PERSON,
    ("POST", f"{API}/datasets"): Permission(Access.STEWARD, (409,)),
    ("GET", f"{API}/datasets/{{dataset}}"): _ONE_OF_MINE,
    ("PUT", f"{API}/datasets/{{dataset}}/cap"): _ONE_OF_ALL,
    ("POST", f"{API}/datasets/{{dataset}}/cap/reclaim"): _ONE_OF_ALL,
    ("GET", f"{API}/datasets/{{dataset}}/joint"): _ONE_OF_ALL,
    ("GET", f"{API}/catalog"): _STEWARD,
    ("PUT", f"{API}/catalog"): Permission(Access.STEWARD, (409,)),
    ("GET", f"{API}/accounts"): _PERSON,
    ("POST", f"{API}/accounts"): Permission(Access.STEWARD, (404, 409)),
    ("GET", f"{API}/accounts/{{account}}"): _ONE_OF_MINE,
    ("GET", f"{API}/accounts/{{account}}/history"): _ONE_OF_MINE,
    ("PUT", f"{API}/accounts/{{account}}/state"): _ONE_OF_ALL,
    ("GET", f"{API}/accounts/{{account}}/question-budget"): _ONE_OF_MINE,
    ("PUT", f"{API}/accounts/{{account}}/question-budget"): _ONE_OF_ALL,
    ("GET", f"{API}/audit"): _STEWARD,
    ("GET", f"{API}/trail"): _STEWARD,
    ("POST", f"{API}/preview"): _ONE_OF_MINE,
    ("GET", f"{API}/queries"): _ONE_OF_MINE,
    ("POST", f"{API}/queries"): Permission(Access.PERSON, (402, 404, 409)),
    ("GET", f"{API}/queries/{{query}}"): _ONE_OF_MINE,
    ("DELETE", f"{API}/queries/{{query}}"): _ONE_OF_MINE,
    ("GET", f"{API}/live"): _PERSON,
    ("POST", f"{API}/live"): Permission(Access.PERSON, (402, 404, 409)),
    ("GET", f"{API}/live/{{series}}"): _ONE_OF_MINE,
    ("POST", f"{API}/live/{{series}}/update"): Permission(Access.PERSON, (402, 404)),
    ("DELETE", f"{API}/live/{{series}}/update"): _ONE_OF_MINE,
    ("DELETE", f"{API}/live/{{series}}"): _ONE_OF_MINE,
    ("POST", f"{API}/compose"): _PERSON,
    ("POST", f"{API}/calibrate"): _PERSON,
    ("GET", f"{API}/people"): _STEWARD,
    ("POST", f"{API}/people"): Permission(Access.STEWARD, (409,)),
    ("DELETE", f"{API}/people/{{person}}"): _ONE_OF_ALL,
    ("PUT", f"{API}/people/{{person}}/subject"): Permission(Access.STEWARD, (404, 409)),
    ("GET", f"{API}/people/{{person}}/tokens"): _ONE_OF_ALL,
    ("POST", f"{API}/people/{{person}}/tokens"): _ONE_OF_ALL,
    ("DELETE", f"{API}/people/{{person}}/tokens/{{token}}"): _ONE_OF_ALL,
    ("GET", "/static/{version}/{name}"): _ANYONE,
    ("GET", "/charts/{version}/plotly.min.js"): _ANYONE,
    ("GET", "/login"): _ANYONE,
    ("POST", "/login"): _ANYONE,
    ("POST", "/logout"): _ANYONE,
    ("GET", "/sign-on"): _ANYONE,
    ("GET", "/sign-on/callback"): _ANYONE,
    ("GET", "/"): _PERSON,
    ("GET", "/explore"): _PERSON,
    ("GET", "/explore/curve"): _PERSON,
    ("GET", "/accounts"): _PERSON,
    ("GET", "/accounts/{account}"): _PERSON,
    ("GET", "/ask"): _PERSON,
    ("GET", "/answers/{query}"): _PERSON,
    ("GET", "/answers/{query}/panel"): _PERSON,
    ("GET", "/answers/{query}/answer.csv"): _PERSON,
    ("GET", "/answers/{query}/answer.json"): _PERSON,
    ("GET", "/live"): _PERSON,
    ("GET", "/live/{series}"): _PERSON,
    ("GET", "/live/{series}/series.svg"): _PERSON,
    ("GET", "/live/{series}/series.csv"): _PERSON,
    ("GET", "/reference"): _PERSON,
    ("GET", "/steward"): _STEWARD,
    ("GET", "/steward/tables"): _STEWARD,
    ("GET", "/steward/columns"): _STEWARD,
    ("GET", "/steward/audit"): _STEWARD,
    ("GET", "/steward/verify"): _STEWARD,
    ("GET", "/steward/trail"): _STEWARD,
}

API_ROUTES = {route: permission for route, permission in ROUTES.items() if route[1].startswith(API)}
PAGES = {route: permission for route, permission in ROUTES.items() if route not in API_ROUTES}


def methods_at(address: str) -> set[str]:
    """Return the HTTP methods of the API routes that the path `address` matches; an empty set if none does.

    >>> sorted(methods_at("/api/v1/queries/5f2b"))
    ['DELETE', 'GET']
    """
    return {method for method, path in API_ROUTES if re.fullmatch(re.sub(r"{\w+}", "[^/]+", path), address)}


def check_routes(served: Iterable[tuple[str, str]]) -> None:
    """Raise `LookupError` if the table of permissions (`ROUTES`) names a route that does not exist.

    `served` are the (method, path) pairs of all routes that exist. The reverse fault, a route without an entry in the
    table, is not looked for here, because the class of routes refuses to create such a route.
    """
    if missing := ROUTES.keys() - set(served):
        raise LookupError(f"permissions are declared for routes that do not exist: {sorted(missing)}")


class Accounts:
    """The ledger's accounts, restricted to those that a person may see.

    An account of another person and an account that does not exist are refused with the same message, so that nobody
    learns which accounts exist.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known: dict[str, Account] = {}

    def visible(self, identity: Identity, name: str) -> Account:
        """Return the account called `name` if the person of `identity` may see it: an analyst their own, a steward any.

        Raises `UnknownAccount` otherwise.
        """
        account = self._find(name)
        if not identity.is_steward and account.terms.analyst != identity.person.name:
            raise _unknown_account(name)
        return account

    def own(self, identity: Identity, name: str) -> Account:
        """Return the account called `name` if the person of `identity` may spend from it, because it is their own.

        Raises `UnknownAccount` otherwise, also for a steward.
        """
        account = self._find(name)
        if account.terms.analyst != identity.person.name:
            raise _unknown_account(name)
        return account

    def all_visible(self, identity: Identity, *, after: str = "", most: int | None = None) -> tuple[AccountStatus, ...]:
        """Return the status of each account that the person of `identity` may see, in the order of names.

        Only accounts whose names come after `after` are returned, and at most `most` accounts; with None there is no
        limit.
        """
        analyst = None if identity.is_steward else identity.person.name
        return self._ledger.accounts(analyst=analyst, after=after, most=most)

    def check_free(self, name: str) -> None:
        """Raise `AccountExists` if an account called `name` exists, so that a new one cannot have this name."""
        try:
            self._find(name)
        except UnknownAccount:
            return
        raise AccountExists(f"an account {name!r} is open already; choose another name")

    def all_own(self, identity: Identity) -> tuple[AccountStatus, ...]:
        """Return the status of each account that the person of `identity` may spend from, in the order of names."""
        return self._ledger.accounts(analyst=identity.person.name)

    def account(self, name: str) -> Account:
        """Return the account `name` regardless of who asks, for lookups by the service itself.

        Raises `UnknownAccount` if there is none.
        """
        return self._find(name)

    def _find(self, name: str) -> Account:
        """Return the account called `name`, cached after the first call; raise `UnknownAccount` if there is none."""
        if name not in self._known:
            try:
                self._known[name] = self._ledger.account(name)
            except UnknownAccount:  # replaced, because its message names the ledger's address
                raise _unknown_account(name) from None
        return self._known[name]


def _unknown_account(name: str) -> UnknownAccount:
    """Return the `UnknownAccount` error for the account `name`, which does not exist or is not the person's own."""
    return UnknownAccount(f"there is no account named {name!r} among yours; ask a steward to open one")
