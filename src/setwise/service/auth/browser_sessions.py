"""Browser sessions: a token exchanged for a cookie that leads to the same person and ends with the token."""

import hashlib
import secrets
import time
from dataclasses import dataclass, field

from sqlalchemy import delete, insert, select

from setwise.errors import NotSignedIn
from setwise.service.auth.people import Identity, People, Person, Role, digest
from setwise.service.storage import schema
from setwise.service.storage.database import Database
from setwise.service.storage.schema import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """The secret for the cookie, when it ends, and who signed in (with the value that forms must repeat)."""

    identity: Identity
    expires_at: float
    secret: str = field(repr=False)


class BrowserSessions:
    """The store of browser sessions."""

    def __init__(self, database: Database, people: People, *, hours: float, clock: Clock = time.time) -> None:
        self._database = database
        self._people = people
        self._seconds = hours * 3600.0
        self._clock = clock

    def start(self, token: str) -> NewSession:
        """Exchange a token for a session, or raise `NotSignedIn`."""
        identity = self._people.recognise(token)
        secret = secrets.token_urlsafe(32)
        now = self._clock()
        expires_at = min(now + self._seconds, identity.expires_at or float("inf"))
        with self._database.writing() as connection:
            connection.execute(delete(schema.sessions).where(schema.sessions.c.expires_at <= now))
            connection.execute(
                insert(schema.sessions).values(
                    digest=digest(secret), token=identity.token, created_at=now, expires_at=expires_at
                )
            )
        return NewSession(
            identity=Identity(
                person=identity.person, token=identity.token, expires_at=expires_at, csrf=csrf_value(secret)
            ),
            expires_at=expires_at,
            secret=secret,
        )

    def recognise(self, secret: str) -> Identity:
        """Return whose cookie this is, or raise `NotSignedIn`."""
        query = (
            select(
                schema.sessions.c.expires_at,
                schema.tokens.c.id,
                schema.tokens.c.person,
                schema.tokens.c.expires_at.label("token_expires_at"),
                schema.tokens.c.revoked_at,
                schema.people.c.role,
            )
            .join(schema.tokens, schema.tokens.c.id == schema.sessions.c.token)
            .join(schema.people, schema.people.c.name == schema.tokens.c.person)
            .where(schema.sessions.c.digest == digest(secret), schema.people.c.removed_at.is_(None))
        )
        with self._database.reading() as connection:
            row = connection.execute(query).first()
        now = self._clock()
        if (
            row is None
            or row.revoked_at is not None
            or now >= min(row.expires_at, row.token_expires_at or row.expires_at)
        ):
            raise NotSignedIn("the session has ended; sign in again")
        person = Person(name=row.person, role=Role(row.role))
        return Identity(person=person, token=row.id, expires_at=row.expires_at, csrf=csrf_value(secret))

    def end(self, secret: str) -> None:
        """Sign out; a session that is gone already stays gone."""
        with self._database.writing() as connection:
            connection.execute(delete(schema.sessions).where(schema.sessions.c.digest == digest(secret)))


def csrf_value(secret: str) -> str:
    """Return the value that proves a form was served to the holder of the cookie: a one-way function of its secret."""
    return hashlib.sha256(b"csrf:" + secret.encode()).hexdigest()
