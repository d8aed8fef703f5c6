"""Authentication: who makes a request, by bearer token or session cookie (CSRF), and whether the route admits them.

A browser exchanges a token for a session: a cookie that identifies the same person and expires with the token.
"""

import hashlib
import hmac
import ipaddress
import secrets
from dataclasses import dataclass, field
from typing import Literal, assert_never

from sqlalchemy import delete, insert, select
from starlette.requests import Request

from setwise.errors import Forbidden, NotSignedIn
from setwise.service.auth.people import PRESENT, Identity, Person, Role, digest
from setwise.service.auth.permissions import Access
from setwise.service.auth.rate_limit import Buckets
from setwise.service.settings import Settings
from setwise.service.slots import Threads
from setwise.service.storage import schema
from setwise.service.storage.database import Database
from setwise.service.storage.schema import Clock

STEWARDS_ONLY = "only stewards may do this; ask one of them"
MONITORS_EXCLUDED = "a monitor reads the metrics and nothing else"
"""The messages of `Forbidden` for people whose role does not admit them."""

COOKIE = "setwise_session"
CSRF_HEADER = "X-CSRF-Token"
_SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
_MOST_REMEMBERED = 10_000
_BYTES_PER_REQUEST = 16 * 1024
"""Bytes of a request body that count as one request: checking 16 KiB of labels takes about a millisecond."""

_MOST_PEOPLE = 1_000_000
"""The most people whose rate limits are kept.

Only stewards can add people, so this limit is large and apart from the one on addresses, which strangers can fill.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A browser session that was just started.

    `secret` is the value of its cookie, and `expires_at` the time when it ends, in seconds since 1970.
    """

    secret: str = field(repr=False)
    expires_at: float


class Authenticator:
    """Identifies people by token or cookie, admits them to routes, and counts their requests against rate limits.

    A recognised token or cookie is cached for `token_cache_seconds` (a setting), so that most requests do not ask the
    database. A token that is revoked on this replica (process of the service) is refused here at once, and on other
    replicas at the latest after `token_cache_seconds`.

    - `database`: the database with people, tokens and sessions
    - `threads`: the threads that read it, so that the event loop is not blocked
    - `settings`: have the rate limits, and how long a session and a cached token last
    - `clock`: returns the time in seconds since 1970
    """

    def __init__(self, database: Database, threads: Threads, settings: Settings, *, clock: Clock) -> None:
        rate, burst = settings.requests_per_second, settings.requests_at_once
        self._people_rates = Buckets(per_second=rate, burst=burst, most=_MOST_PEOPLE)
        self._address_rates = Buckets(per_second=rate, burst=burst)
        self._database = database
        self._threads = threads
        self._session_seconds = 3600.0 * settings.session_hours
        self._cache_seconds = settings.token_cache_seconds
        self._clock = clock
        self._remembered: dict[str, tuple[float, Identity]] = {}
        self._forgotten = 0

    async def admit(self, request: Request, access: Access) -> Identity | None:
        """Return the person who makes the request; None for a route that admits anyone, also without a token.

        `access` says whom the route admits. Raises `NotSignedIn` without a valid token or cookie, `Forbidden` if the
        person's role is not admitted, and `TooManyRequests` above the rate limit.
        """
        match access:
            case Access.ANYONE:
                return None
            case Access.HOLDER:
                return await self.identify(request)
            case Access.PERSON:
                identity = await self.identify(request)
                if identity.is_monitor:
                    raise Forbidden(MONITORS_EXCLUDED)
                return identity
            case Access.STEWARD:
                identity = await self.identify(request)
                if not identity.is_steward:
                    raise Forbidden(STEWARDS_ONLY)
                return identity
            case _:
                assert_never(access)

    async def identify(self, request: Request) -> Identity:
        """Return the person whose token or cookie the request has, and count the request against their rate limit.

        Raises `NotSignedIn` without a valid token or cookie; the request then counts against the rate limit of its IP
        address. Raises `Forbidden` for a request that changes something by cookie without the page's CSRF value, and
        `TooManyRequests` above the rate limit.
        """
        scheme, _, secret = request.headers.get("authorization", "").partition(" ")
        cookie = request.cookies.get(COOKIE)
        try:
            if scheme.lower() == "bearer" and secret.strip():
                identity = await self._identify_secret("token", secret.strip())
            elif cookie:
                identity = await self._identify_secret("cookie", cookie)
                self._check_csrf(request, identity)
            else:
                raise NotSignedIn("give a token in the header Authorization: Bearer TOKEN")
        except NotSignedIn:
            self.count_attempt(request)
            raise
        self._people_rates.take(identity.person.name)
        return identity

    async def identify_token(self, token: str, address: str, *, counted: bool = True) -> Identity:
        """Return the person to whom the `token` belongs.

        If `counted`, count the request against the person's rate limit. An invalid token counts against the rate limit
        of the IP `address` instead.

        Raises `NotSignedIn` for an invalid token, and `TooManyRequests` above either rate limit.
        """
        try:
            identity = await self._identify_secret("token", token.strip())
        except NotSignedIn:
            self._address_rates.take(network_of(address))
            raise
        if counted:
            self._people_rates.take(identity.person.name)
        return identity

    async def sign_in(self, request: Request, token: str) -> NewSession:
        """Exchange a token for a browser session; raise `NotSignedIn` for an invalid token.

        An invalid token counts against the rate limit of the IP address that the request came from.
        """
        try:
            return await self._threads.run(self.start_session, token)
        except NotSignedIn:
            self.count_attempt(request)
            raise

    async def sign_out(self, secret: str) -> None:
        """End the browser session whose cookie holds `secret`.

        This replica (process of the service) refuses the cookie at once; others may accept it until their cached copy
        expires.
        """
        await self._threads.run(self.end_session, secret)
        self._forgotten += 1
        self._remembered.pop(f"cookie {digest(secret)}", None)

    def now(self) -> float:
        """Return the current time in seconds since 1970, by the clock that decides when sessions end."""
        return self._clock()

    def forget(self, token: str) -> None:
        """Drop the revoked token with the id `token` and its sessions from the cache; they are refused from now on."""
        self._forgotten += 1
        self._remembered = {key: kept for key, kept in self._remembered.items() if kept[1].token != token}

    def forget_person(self, name: str) -> None:
        """Drop the person called `name` from the cache, so that their removal or new role takes effect at once."""
        self._forgotten += 1
        self._remembered = {key: kept for key, kept in self._remembered.items() if kept[1].person.name != name}

    def check_token(self, secret: str) -> Identity:
        """Look up in the database, and return, the person to whom the token with this `secret` belongs.

        Raises `NotSignedIn` for a token that is unknown, expired or revoked.
        """
        query = (
            select(schema.tokens, schema.people.c.role)
            .join(schema.people)
            .where(schema.tokens.c.digest == digest(secret), PRESENT)
        )
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        expired = row is not None and row.expires_at is not None and self._clock() >= row.expires_at
        if row is None or row.revoked_at is not None or expired:
            raise NotSignedIn("the token is unknown, expired or revoked; ask a steward for a new one")
        person = Person(name=row.person, role=Role(row.role))
        return Identity(person=person, token=row.id, expires_at=row.expires_at)

    def check_cookie(self, secret: str) -> Identity:
        """Look up in the database, and return, the person whose browser session has a cookie with this `secret`.

        Raises `NotSignedIn` for a session that is unknown or has ended, or whose token was revoked.
        """
        tokens, sessions = schema.tokens.c, schema.sessions.c
        query = (
            select(sessions.expires_at, tokens.id, tokens.person, schema.people.c.role)
            .join(schema.tokens, tokens.id == sessions.token)
            .join(schema.people, schema.people.c.name == tokens.person)
            .where(sessions.digest == digest(secret), tokens.revoked_at.is_(None), PRESENT)
        )
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        if row is None or self._clock() >= row.expires_at:  # a session ends no later than its token
            raise NotSignedIn("the session has ended; sign in again")
        person = Person(name=row.person, role=Role(row.role))
        return Identity(person=person, token=row.id, expires_at=row.expires_at, csrf=csrf_value(secret))

    def start_session(self, token: str) -> NewSession:
        """Exchange a token for a browser session, which ends no later than the token.

        Raises `NotSignedIn` for a token that is unknown, expired or revoked.
        """
        identity = self.check_token(token)
        now = self._clock()
        new = NewSession(
            secret=secrets.token_urlsafe(32),
            expires_at=min(now + self._session_seconds, identity.expires_at or float("inf")),
        )
        row = {"digest": digest(new.secret), "token": identity.token, "created_at": now, "expires_at": new.expires_at}
        with self._database.writing() as connection:
            connection.execute(delete(schema.sessions).where(schema.sessions.c.expires_at <= now))
            connection.execute(insert(schema.sessions).values(row))
        return new

    def end_session(self, secret: str) -> None:
        """Delete the session with this cookie secret from the database; does nothing if there is none."""
        with self._database.writing() as connection:
            connection.execute(delete(schema.sessions).where(schema.sessions.c.digest == digest(secret)))

    async def _identify_secret(self, kind: Literal["token", "cookie"], secret: str) -> Identity:
        """Return the person to whom a token or session cookie belongs, from the cache or else from the database.

        `kind` says whether `secret` is the secret of a token or of a cookie. Raises `NotSignedIn` if the secret is
        unknown, expired or revoked.
        """
        key = f"{kind} {digest(secret)}"  # with the kind, so that a cached cookie cannot be used as a token
        cached = self._remembered.get(key)
        now = self._clock()
        if cached is not None and now < cached[0] and (cached[1].expires_at is None or now < cached[1].expires_at):
            return cached[1]
        forgotten_before = self._forgotten
        identity = await self._threads.run(self.check_token if kind == "token" else self.check_cookie, secret)
        if forgotten_before == self._forgotten:  # otherwise this token may have been revoked since it was looked up
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered = {}
            self._remembered[key] = (now + self._cache_seconds, identity)
        return identity

    def count_body(self, identity: Identity, size: int) -> None:
        """Count a request body of `size` bytes against the rate limit of the sender, who is the person of `identity`.

        Each whole 16 KiB counts as one more request, because reading and checking a large body takes as long as many
        small requests. Raises `TooManyRequests` above the limit.
        """
        if size >= _BYTES_PER_REQUEST:
            self._people_rates.take(identity.person.name, size // _BYTES_PER_REQUEST)

    def count_attempt(self, request: Request) -> None:
        """Count an attempt to sign in against the rate limit of the IP address from which the `request` came.

        Callers count a sign-in with a token only after it has failed. They count a single sign-on when it begins, and
        again when the browser comes back from the provider, before its outcome is known. Raises `TooManyRequests` above
        the limit.
        """
        self._address_rates.take(network_of(request.client.host if request.client else "unknown"))

    def _check_csrf(self, request: Request, identity: Identity) -> None:
        """Raise `Forbidden` if a request that changes something by cookie lacks the page's CSRF value in its header.

        `identity` is the person whom the cookie identifies, with the expected CSRF value. The cookie alone does not
        show that the person wants the change, because a browser also sends it with requests that another site starts.
        """
        if request.method in _SAFE_METHODS:
            return
        header = request.headers.get(CSRF_HEADER, "")
        if identity.csrf is None or not hmac.compare_digest(header.encode(), identity.csrf.encode()):
            raise Forbidden(f"a change made with a cookie needs the header {CSRF_HEADER}; reload the page")


def csrf_value(secret: str) -> str:
    """Return the CSRF value of the session with this cookie `secret`: a one-way hash of the secret.

    The session's pages contain this value, and send it with each request that changes something.
    """
    return hashlib.sha256(b"csrf:" + secret.encode()).hexdigest()


def network_of(address: str) -> str:
    """Return the name under which requests from an IP address are counted for rate limits.

    This is an IPv4 address itself, and the /64 network of an IPv6 address, because one household or server usually has
    a whole /64 network. A text that is not an address is returned unchanged.

    >>> network_of("192.0.2.7"), network_of("2001:db8:1:2:3::4"), network_of("unknown")
    ('192.0.2.7', '2001:db8:1:2::/64', 'unknown')
    """
    try:
        ip_address = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(ipaddress.ip_network((ip_address, 64), strict=False)) if ip_address.version == 6 else str(ip_address)
