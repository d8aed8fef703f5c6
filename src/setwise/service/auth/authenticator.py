"""Who asks, by a bearer token or the pages' cookie, and whether the table of routes admits them.

A browser exchanges a token for a session: a cookie that leads to the same person and ends with the token.
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
from setwise.service.shares import Threads
from setwise.service.storage import schema
from setwise.service.storage.database import Database
from setwise.service.storage.schema import Clock

COOKIE = "setwise_session"
CSRF_HEADER = "X-CSRF-Token"
_SAFE_METHODS = {"GET", "HEAD", "OPTIONS"}
_MOST_REMEMBERED = 10_000
_BYTES_PER_REQUEST = 16 * 1024
"""Bytes of a body that count as one request: checking 16 KiB of labels takes about a millisecond."""

_MOST_PEOPLE = 1_000_000
"""Stewards add people, strangers cannot: their rates are kept apart from those of addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A browser session that has just begun: the secret for its cookie, and when it ends in seconds since 1970."""

    secret: str = field(repr=False)
    expires_at: float


class Authenticator:
    """Identifies people and admits them to routes.

    Whoever was recognised is remembered for `cache_seconds`, so that most requests do not ask the database. A
    revocation on this replica takes effect at once, on the others within that time.
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
                identity = await self._recognise("token", secret.strip())
            elif cookie:
                identity = await self._recognise("cookie", cookie)
                self._check_csrf(request, identity)
            else:
                raise NotSignedIn("give a token in the header Authorization: Bearer TOKEN")
        except NotSignedIn:
            self.count_attempt(request)
            raise
        self._people_rates.take(identity.person.name)
        return identity

    async def identify_token(self, token: str, address: str) -> Identity:
        """Return whose token this is, and count the request against their rate; a wrong one counts for its address.

        Raises: `NotSignedIn`, or `TooManyRequests`.
        """
        try:
            identity = await self._recognise("token", token.strip())
        except NotSignedIn:
            self._address_rates.take(network_of(address))
            raise
        self._people_rates.take(identity.person.name)
        return identity

    async def sign_in(self, request: Request, token: str) -> NewSession:
        """Exchange a token for a browser session; a wrong one counts against the address it came from."""
        try:
            return await self._threads.run(self.start_session, token)
        except NotSignedIn:
            self.count_attempt(request)
            raise

    async def sign_out(self, secret: str) -> None:
        """End a browser session, at once on this replica."""
        await self._threads.run(self.end_session, secret)
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

    def check_token(self, secret: str) -> Identity:
        """Return whose token this is, or raise `NotSignedIn` for one that is unknown, expired or revoked."""
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
        """Return whose session this is, or raise `NotSignedIn` for one that is unknown or has ended."""
        tokens, sessions = schema.tokens.c, schema.sessions.c
        query = (
            select(sessions.expires_at, tokens.id, tokens.person, schema.people.c.role)
            .join(schema.tokens, tokens.id == sessions.token)
            .join(schema.people, schema.people.c.name == tokens.person)
            .where(sessions.digest == digest(secret), tokens.revoked_at.is_(None), PRESENT)
        )
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        if row is None or self._clock() >= row.expires_at:  # no session outlives its token
            raise NotSignedIn("the session has ended; sign in again")
        person = Person(name=row.person, role=Role(row.role))
        return Identity(person=person, token=row.id, expires_at=row.expires_at, csrf=csrf_value(secret))

    def start_session(self, token: str) -> NewSession:
        """Exchange a token for a session, or raise `NotSignedIn`."""
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
        """End a session; one that is gone already stays gone."""
        with self._database.writing() as connection:
            connection.execute(delete(schema.sessions).where(schema.sessions.c.digest == digest(secret)))

    async def _recognise(self, kind: Literal["token", "cookie"], secret: str) -> Identity:
        key = f"{kind} {digest(secret)}"  # a cookie that is remembered is still no token
        kept = self._remembered.get(key)
        now = self._clock()
        if kept is not None and now < kept[0] and (kept[1].expires_at is None or now < kept[1].expires_at):
            return kept[1]
        before = self._forgotten
        identity = await self._threads.run(self.check_token if kind == "token" else self.check_cookie, secret)
        if before == self._forgotten:  # else this may be what was revoked meanwhile
            if len(self._remembered) >= _MOST_REMEMBERED:
                self._remembered = {}
            self._remembered[key] = (now + self._cache_seconds, identity)
        return identity

    def count_body(self, identity: Identity, size: int) -> None:
        """Count a body of `size` bytes against the rate of its sender, or raise `TooManyRequests`.

        Each 16 KiB count as one more request: reading and checking a large body takes as long as many small requests.
        """
        if size >= _BYTES_PER_REQUEST:
            self._people_rates.take(identity.person.name, size // _BYTES_PER_REQUEST)

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


def csrf_value(secret: str) -> str:
    """Return the value that proves a form was served to the holder of the cookie: a one-way function of its secret."""
    return hashlib.sha256(b"csrf:" + secret.encode()).hexdigest()


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
