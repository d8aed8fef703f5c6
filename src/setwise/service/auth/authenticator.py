"""Who asks, by a bearer token or the pages' cookie, and whether the table of routes admits them.

A token is looked up, and checked to be neither expired nor revoked, by `People.recognise` in people.py.
"""

import hmac
import ipaddress
import time
from typing import assert_never

from starlette.requests import Request

from setwise.errors import Forbidden, NotSignedIn
from setwise.service.auth.browser_sessions import BrowserSessions, NewSession
from setwise.service.auth.people import Identity, People, digest
from setwise.service.auth.permissions import Access
from setwise.service.auth.rate_limit import Buckets
from setwise.service.storage.database import Threads
from setwise.service.storage.schema import Clock

COOKIE = "setwise_session"
CSRF_HEADER = "X-CSRF-Token"
_SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
_MOST_REMEMBERED = 10_000


class Authenticator:
    """Identifies people and admits them to routes.

    Whoever was recognised is remembered for `cache_seconds`, so that most requests do not ask the database. A
    revocation on this replica takes effect at once, on the others within that time.
    """

    def __init__(
        self,
        people: People,
        sessions: BrowserSessions,
        people_rates: Buckets,
        address_rates: Buckets,
        threads: Threads,
        *,
        cache_seconds: float,
        clock: Clock = time.time,
    ) -> None:
        self._people = people
        self._sessions = sessions
        self._people_rates = people_rates
        self._address_rates = address_rates
        self._threads = threads
        self._cache_seconds = cache_seconds
        self._clock = clock
        self._remembered: dict[str, tuple[float, Identity]] = {}
        self._forgotten = 0

    async def admit(self, request: Request, access: Access) -> Identity | None:
        """Return who asks, None for a route open to anyone, or raise `NotSignedIn`, `Forbidden`, `TooManyRequests`."""
        match access:
            case Access.ANYONE:
                return None
            case Access.HOLDER:
                return await self.identify(request)
            case Access.PERSON:
                identity = await self.identify(request)
                if identity.is_monitor:
                    raise Forbidden("a monitor reads the metrics and nothing else")
                return identity
            case Access.STEWARD:
                identity = await self.identify(request)
                if not identity.is_steward:
                    raise Forbidden("only stewards may do this; ask one of them")
                return identity
            case _:
                assert_never(access)

    async def identify(self, request: Request) -> Identity:
        """Return who asks, by token or cookie, and count the request against their rate."""
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        cookie = request.cookies.get(COOKIE)
        try:
            if scheme.lower() == "bearer" and secret.strip():
                identity = await self._recognised("token", secret.strip())
            elif cookie:
                identity = await self._recognised("cookie", cookie)
                self._check_csrf(request, identity)
            else:
                raise NotSignedIn("give a token in the header Authorization: Bearer TOKEN")
        except NotSignedIn:
            self.count_attempt(request)
            raise
        self._people_rates.take(identity.person.name)
        return identity

    async def sign_in(self, request: Request, token: str) -> NewSession:
        """Exchange a token for a browser session; a wrong one counts against the address it came from."""
        try:
            return await self._threads.run(self._sessions.start, token)
        except NotSignedIn:
            self.count_attempt(request)
            raise

    async def sign_out(self, secret: str) -> None:
        """End a browser session, at once on this replica."""
        await self._threads.run(self._sessions.end, secret)
        self._forgotten += 1
        self._remembered.pop(f"cookie {digest(secret)}", None)

    def now(self) -> float:
        """Return the time by which sessions end."""
        return self._clock()

    def forget(self, token: str) -> None:
        """Forget whoever was recognised by this token: it was revoked."""
        self._forgotten += 1
        self._remembered = {key: kept for key, kept in self._remembered.items() if kept[1].token != token}

    def forget_person(self, name: str) -> None:
        """Forget a person who was removed."""
        self._forgotten += 1
        self._remembered = {key: kept for key, kept in self._remembered.items() if kept[1].person.name != name}

    async def _recognised(self, kind: str, secret: str) -> Identity:
        key = f"{kind} {digest(secret)}"
        kept = self._remembered.get(key)
        now = self._clock()
        if kept is not None and now < kept[0] and (kept[1].expires_at is None or now < kept[1].expires_at):
            return kept[1]
        recognise = self._people.recognise if kind == "token" else self._sessions.recognise
        before = self._forgotten
        identity = await self._threads.run(recognise, secret)
        if before == self._forgotten:  # else this may be what was revoked meanwhile
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered = {}
            self._remembered[key] = (now + self._cache_seconds, identity)
        return identity

    def count_attempt(self, request: Request) -> None:
        """Count a failed sign-in, or one that may fail, against its address, or raise `TooManyRequests`."""
        self._address_rates.take(network_of(request.client.host if request.client else "unknown"))

    def _check_csrf(self, request: Request, identity: Identity) -> None:
        """Raise unless a change made with a cookie repeats the page's token: browsers send cookies for any page."""
        if request.method in _SAFE_METHODS:
            return
        given = request.headers.get(CSRF_HEADER, "")
        if identity.csrf is None or not hmac.compare_digest(given.encode(), identity.csrf.encode()):
            raise Forbidden(f"a change made with a cookie needs the header {CSRF_HEADER}; reload the page")


def network_of(address: str) -> str:
    """Return whose address this is: that of IPv4 itself, and of IPv6 the network of 64 bits that one house has.

    >>> network_of("192.0.2.7"), network_of("2001:db8:1:2:3::4"), network_of("unknown")
    ('192.0.2.7', '2001:db8:1:2::/64', 'unknown')
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(ipaddress.ip_network((found, 64), strict=False)) if found.version == 6 else str(found)
