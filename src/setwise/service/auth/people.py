"""People and their tokens; a token is stored as its digest and shown once."""

import hashlib
import secrets
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum

from sqlalchemy import Row, Update, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from setwise.errors import Forbidden, InvalidParameter, NameTaken, UnknownName
from setwise.service.problems import at_field
from setwise.service.settings import Settings
from setwise.service.storage import schema
from setwise.service.storage.database import Database
from setwise.service.storage.schema import Clock, check_name


class Role(StrEnum):
    """What a person is trusted with, the most first."""

    STEWARD = "steward"
    """Registers data, opens accounts, manages people, audits."""
    ANALYST = "analyst"
    """Asks questions from accounts of their own."""
    MONITOR = "monitor"
    """Reads the metrics and nothing else: a program that watches the service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A name and a role.

    >>> Person(name="ada", role=Role.ANALYST).role
    <Role.ANALYST: 'analyst'>
    """

    name: str
    role: Role

    def __post_init__(self) -> None:
        check_name(self.name, "the name of a person")
        object.__setattr__(self, "role", Role(self.role))


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A person as recognised by a token or by the session cookie that the token was exchanged for.

    Both ways lead to the same `person`; `csrf` is set for a cookie and must then accompany every change.
    """

    person: Person
    token: str
    expires_at: float | None = None
    csrf: str | None = None

    @property
    def is_steward(self) -> bool:
        """Whether the person is a steward."""
        return self.person.role is Role.STEWARD

    @property
    def is_monitor(self) -> bool:
        """Whether this is a program that only watches the service."""
        return self.person.role is Role.MONITOR


TOKEN_PREFIX = "setwise_"  # noqa: S105 - every token has it
"""What every token begins with, so that one in the wrong place is known for what it is."""

SESSION_LABEL = "single sign-on"
"""The label of a token that stands for one browser session of single sign-on; nobody holds its secret."""

_FIRST_STEWARD = "steward"
PRESENT = schema.people.c.removed_at.is_(None)
"""People who were not removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What is known of a token; never the token itself."""

    id: str
    person: str
    label: str
    created_at: float
    expires_at: float | None
    revoked_at: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A token as it is shown, once, to the person who will use it."""

    token: Token
    secret: str = field(repr=False)


class People:
    """The store of people and tokens."""

    def __init__(self, database: Database, settings: Settings, *, clock: Clock) -> None:
        self._database = database
        self._token_seconds = settings.token_days * 86400.0
        self._session_seconds = settings.session_hours * 3600.0
        self._clock = clock

    def first_steward(self) -> NewToken | None:
        """Create the first steward and return a token, when there is nobody yet; else None."""
        with self._database.reading() as connection:
            if connection.scalar(select(func.count()).select_from(schema.people)):
                return None
        now = self._clock()
        first = {"name": _FIRST_STEWARD, "role": str(Role.STEWARD), "created_at": now}
        new = _made(_FIRST_STEWARD, "first start", now, now + self._token_seconds)
        try:
            with self._database.writing() as connection:  # both or neither: a steward without a token could do nothing
                connection.execute(insert(schema.people).values(first))
                connection.execute(insert(schema.tokens).values(_row(new)))
        except IntegrityError:  # another replica was quicker
            return None
        return new

    def another_steward_token(self) -> NewToken:
        """Return a new token of the first steward, for an operator whose stewards have lost theirs."""
        return self.issue(_FIRST_STEWARD, label="from the command line")

    def add(self, person: Person) -> Person:
        """Add a person; raise `NameTaken` when there is one of that name."""
        row = {"name": person.name, "role": str(person.role), "created_at": self._clock()}
        try:
            with self._database.writing() as connection:
                connection.execute(insert(schema.people).values(row))
        except IntegrityError:
            raise NameTaken(f"there is a person named {person.name!r} already; choose another name") from None
        return person

    def person(self, name: str) -> Person:
        """Return the person of that name or raise `UnknownName`."""
        with self._database.reading() as connection:
            row = connection.execute(select(schema.people).where(schema.people.c.name == name, PRESENT)).first()
        if row is None:
            raise UnknownName(f"there is no person named {name!r}")
        return Person(name=row.name, role=Role(row.role))

    def remove(self, name: str) -> Person:
        """Remove a person and end their tokens; the name stays taken, because accounts and histories carry it."""
        person = self.person(name)
        now = self._clock()
        with self._database.writing() as connection:
            connection.execute(update(schema.people).where(schema.people.c.name == name).values(removed_at=now))
            connection.execute(_revocation(name, now))
        return person

    def signed_on(self, subject: str, *, name: str, role: Role) -> tuple[Person, Role | None]:
        """Return the person whom a provider knows by `subject`, with the role given, and the role before.

        Somebody new gets the name, and None for the role before; raise `NameTaken` when another person has the name,
        and `Forbidden` for a person who was removed.
        """
        ours = schema.people.c.subject == subject
        with self._database.writing() as connection:
            row = connection.execute(select(schema.people).where(ours)).first()
            if row is not None and row.removed_at is not None:
                raise Forbidden("you were removed from this service; ask a steward")
            if row is not None:
                connection.execute(update(schema.people).where(ours).values(role=str(role)))
                return Person(name=row.name, role=role), Role(row.role)
        new = {"name": name, "role": str(role), "created_at": self._clock(), "subject": subject}
        try:
            with self._database.writing() as connection:
                connection.execute(insert(schema.people).values(new))
        except IntegrityError:
            if self._is_known(subject):  # by another sign-on at the same moment
                return self.signed_on(subject, name=name, role=role)
            raise NameTaken(
                f"there is a person named {name!r} already who does not sign on this way; ask a steward to join the two"
            ) from None
        return Person(name=name, role=role), None

    def _is_known(self, subject: str) -> bool:
        with self._database.reading() as connection:
            return (
                connection.execute(select(schema.people).where(schema.people.c.subject == subject)).first() is not None
            )

    def lost_groups(self, subject: str) -> Person | None:
        """End every token of the person whom a provider knows by `subject`, and make them an analyst.

        Return the person, or None when there is nobody.
        """
        ours = (schema.people.c.subject == subject) & PRESENT
        with self._database.writing() as connection:
            row = connection.execute(select(schema.people).where(ours)).first()
            if row is None:
                return None
            connection.execute(update(schema.people).where(ours).values(role=str(Role.ANALYST)))
            connection.execute(_revocation(row.name, self._clock()))
        return Person(name=row.name, role=Role.ANALYST)

    def join(self, name: str, subject: str) -> Person:
        """Let a person sign on whom a provider knows by `subject`; raise `NameTaken` when that is somebody else.

        The first steward is left out: were groups to take that role away, no operator could make a steward's token.
        """
        person = self.person(name)
        if name == _FIRST_STEWARD:
            raise Forbidden("the first steward signs in with a token, so that there always is a way in")
        try:
            with self._database.writing() as connection:
                connection.execute(update(schema.people).where(schema.people.c.name == name).values(subject=subject))
        except IntegrityError:
            raise NameTaken("this subject is another person's; each signs on as one") from None
        return person

    def issue_for_session(self, person: str) -> NewToken:
        """Make a token for one browser session, and drop those of the person's earlier sessions that have ended."""
        ended = (
            (schema.tokens.c.person == person)
            & (schema.tokens.c.label == SESSION_LABEL)
            & (schema.tokens.c.expires_at <= self._clock())
        )
        with self._database.writing() as connection:
            theirs = select(schema.tokens.c.id).where(ended)
            connection.execute(delete(schema.sessions).where(schema.sessions.c.token.in_(theirs)))
            connection.execute(delete(schema.tokens).where(ended))
        return self.issue(person, label=SESSION_LABEL, expires_at=self._clock() + self._session_seconds)

    def all(self) -> list[Person]:
        """Return everybody, by name."""
        with self._database.reading() as connection:
            rows = connection.execute(select(schema.people).where(PRESENT).order_by(schema.people.c.name)).all()
        return [Person(name=row.name, role=Role(row.role)) for row in rows]

    def page(self, *, after: str, most: int) -> list[Person]:
        """Return at most `most` people whose names follow `after`, by name."""
        following = schema.people.c.name > after
        query = select(schema.people).where(PRESENT, following).order_by(schema.people.c.name).limit(most)
        with self._database.reading() as connection:
            return [Person(name=row.name, role=Role(row.role)) for row in connection.execute(query)]

    def issue(self, person: str, *, label: str = "", expires_at: float | None = None) -> NewToken:
        """Make a token for a person, for the usual number of days unless told otherwise; its secret is nowhere else."""
        with at_field("person"):
            self.person(person)
        now = self._clock()
        expires_at = now + self._token_seconds if expires_at is None else expires_at
        if not expires_at > now:
            raise InvalidParameter("a token must expire in the future")
        new = _made(person, label, now, expires_at)
        with self._database.writing() as connection:
            connection.execute(insert(schema.tokens).values(_row(new)))
        return new

    def tokens(self, person: str) -> list[Token]:
        """Return what is known of a person's tokens, oldest first."""
        self.person(person)
        query = select(schema.tokens).where(schema.tokens.c.person == person).order_by(schema.tokens.c.created_at, "id")
        with self._database.reading() as connection:
            return [_token(row) for row in connection.execute(query)]

    def revoke(self, person: str, token: str) -> Token:
        """End a token, and with it the browser sessions it began; revoking twice keeps the first time."""
        ours = (schema.tokens.c.id == token) & (schema.tokens.c.person == person)
        with self._database.writing() as connection:
            connection.execute(
                update(schema.tokens).where(ours, schema.tokens.c.revoked_at.is_(None)).values(revoked_at=self._clock())
            )
            row = connection.execute(select(schema.tokens).where(ours)).first()
        if row is None:
            raise UnknownName(f"{person!r} has no token {token!r}")
        return _token(row)


def digest(secret: str) -> str:
    """A secret of 256 random bits needs no slow hash: it cannot be guessed from its digest."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _revocation(person: str, now: float) -> Update:
    theirs = (schema.tokens.c.person == person) & schema.tokens.c.revoked_at.is_(None)
    return update(schema.tokens).where(theirs).values(revoked_at=now)


def _token(row: Row[tuple[object, ...]]) -> Token:
    return Token(**{each.name: getattr(row, each.name) for each in fields(Token)})


def _made(person: str, label: str, now: float, expires_at: float | None) -> NewToken:
    token = Token(
        id=secrets.token_hex(8), person=person, label=label, created_at=now, expires_at=expires_at, revoked_at=None
    )
    return NewToken(token=token, secret=f"{TOKEN_PREFIX}{secrets.token_urlsafe(32)}")


def _row(new: NewToken) -> dict[str, object]:
    return asdict(new.token) | {"digest": digest(new.secret)}
