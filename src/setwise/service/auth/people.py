"""The stores of people and their tokens: who has which role, and when a token or browser session expires.

A token's secret is shown once; only a digest of it is stored. The lifetimes are the settings `token_days` and
`session_hours` (service/settings.py); `_create_token` computes the time of expiry.
"""

import hashlib
import secrets
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum

from sqlalchemy import Row, Update, delete, func, insert, select, update
from sqlalchemy.exc import IntegrityError

from setwise.contract import PersonRecord, TokenRecord
from setwise.errors import Forbidden, InvalidParameter, NameTaken, UnknownName
from setwise.records import set_fields
from setwise.service.problems import at_field
from setwise.service.settings import Settings
from setwise.service.storage import schema
from setwise.service.storage.database import Database
from setwise.service.storage.schema import Clock, check_name


class Role(StrEnum):
    """The roles that a person can have, from the most to the least trusted.

    A steward manages datasets, accounts and people, an analyst asks questions, and a monitor is a program that reads
    metrics only.
    """

    STEWARD = "steward"
    """Registers datasets, opens accounts, manages people and audits."""
    ANALYST = "analyst"
    """Asks questions from accounts of their own."""
    MONITOR = "monitor"
    """Reads the metrics and nothing else; for a program that watches the service."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A person's name and role; raises `InvalidParameter` for a name that is not allowed.

    >>> Person(name="ada", role=Role.ANALYST).role
    <Role.ANALYST: 'analyst'>
    """

    name: str
    role: Role

    def __post_init__(self) -> None:
        check_name(self.name, "the name of a person")
        set_fields(self, role=Role(self.role))

    def to_dict(self) -> PersonRecord:
        """Return the person's name and role as the JSON object of the API."""
        return {"name": self.name, "role": str(self.role)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A person as identified by a token, or by the session cookie that the token was exchanged for.

    - `token`: the id of the token
    - `expires_at`: the end of the token or session in seconds since 1970, or None for never
    - `csrf`: for a cookie, a value that must be in the header of each request that changes something, to show that the
      request comes from our own page; None for a token
    """

    person: Person
    token: str
    expires_at: float | None = None
    csrf: str | None = None

    @property
    def is_steward(self) -> bool:
        """Whether the identified person is a steward, who manages datasets, accounts and people."""
        return self.person.role is Role.STEWARD

    @property
    def is_monitor(self) -> bool:
        """Whether the identified person is a monitor: a program that only reads the metrics."""
        return self.person.role is Role.MONITOR


TOKEN_PREFIX = "setwise_"  # noqa: S105 - every token has it
"""The first characters of every token, so that one in a wrong place (a log, a repository) is recognised."""

SESSION_LABEL = "single sign-on"
"""The label of a token that stands for one browser session of single sign-on; its secret is not kept anywhere."""

FIRST_STEWARD = "steward"
"""The steward whom the first start creates; the ledger has no record of their role."""

PRESENT = schema.people.c.removed_at.is_(None)
"""The SQL condition for people who were not removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """The record of a token: everything but its secret. Times are in seconds since 1970.

    - `id`: the name of the token in the API
    - `person`: the name of the person to whom the token belongs
    - `label`: what the token is for
    - `expires_at`: None if the token never ends
    - `revoked_at`: None if the token was not revoked
    """

    id: str
    person: str
    label: str
    created_at: float
    expires_at: float | None
    revoked_at: float | None

    def to_dict(self) -> TokenRecord:
        """Return the token without its secret as the JSON object of the API; times are seconds since 1970."""
        return {
            "id": self.id,
            "person": self.person,
            "label": self.label,
            "created_at": self.created_at,
            "expires_at": self.expires_at,
            "revoked_at": self.revoked_at,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A new token together with its secret, which is shown once to the person who will use the token."""

    token: Token
    secret: str = field(repr=False)


class People:
    """The store of people and their tokens, in the service's `database`.

    `settings` say how long a token and a browser session last. `clock` returns the time in seconds since 1970.
    """

    def __init__(self, database: Database, settings: Settings, *, clock: Clock) -> None:
        self._database = database
        self._token_seconds = settings.token_days * 86400.0
        self._session_seconds = settings.session_hours * 3600.0
        self._clock = clock

    def first_steward(self) -> NewToken | None:
        """Create the first steward (who manages datasets, accounts and people) and a token for them.

        Returns the new token with its secret. If the service has people already, nothing is done and None is returned.
        """
        with self._database.reading() as connection:
            if connection.scalar(select(func.count()).select_from(schema.people)):
                return None
        now = self._clock()
        first = {"name": FIRST_STEWARD, "role": str(Role.STEWARD), "created_at": now}
        new = _create_token(FIRST_STEWARD, "first start", now, now + self._token_seconds)
        try:
            with self._database.writing() as connection:  # in one transaction: a steward without a token is useless
                connection.execute(insert(schema.people).values(first))
                connection.execute(insert(schema.tokens).values(_row(new)))
        except IntegrityError:  # another replica created the first steward at the same time
            return None
        return new

    def another_steward_token(self) -> NewToken:
        """Create and return a new token of the first steward, for an operator whose stewards have lost their tokens."""
        return self.issue(FIRST_STEWARD, label="from the command line")

    def add(self, person: Person) -> Person:
        """Store a new person, and return the person.

        Raises `NameTaken` if there is a person of that name, or was one who has been removed.
        """
        row = {"name": person.name, "role": str(person.role), "created_at": self._clock()}
        try:
            with self._database.writing() as connection:
                connection.execute(insert(schema.people).values(row))
        except IntegrityError:
            raise NameTaken(f"there is a person named {person.name!r} already; choose another name") from None
        return person

    def person(self, name: str) -> Person:
        """Return the person called `name`; raise `UnknownName` if there is none."""
        with self._database.reading() as connection:
            row = connection.execute(select(schema.people).where(schema.people.c.name == name, PRESENT)).first()
        if row is None:
            raise UnknownName(f"there is no person named {name!r}")
        return Person(name=row.name, role=Role(row.role))

    def remove(self, name: str) -> Person:
        """Mark a person as removed and revoke their tokens; return the person.

        The name stays taken, because accounts and histories refer to it. Raises `UnknownName` if there is no such
        person.
        """
        person = self.person(name)
        now = self._clock()
        with self._database.writing() as connection:
            connection.execute(update(schema.people).where(schema.people.c.name == name).values(removed_at=now))
            connection.execute(_revocation(name, now))
        return person

    def signed_on(self, subject: str, *, name: str, role: Role) -> tuple[Person, Role | None]:
        """Record a single sign-on: store `role` as the person's role, and return the person and their previous role.

        `subject` identifies the person at the provider. At the first sign-on the person is created under `name`, and
        the previous role is None.

        Raises `NameTaken` if another person has that name, and `Forbidden` for a person who was removed.
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
            if self._is_known(subject):  # a concurrent sign-on of the same person was first
                return self.signed_on(subject, name=name, role=role)
            raise NameTaken(
                f"there is a person named {name!r} already who does not sign on this way; ask a steward to join the two"
            ) from None
        return Person(name=name, role=role), None

    def _is_known(self, subject: str) -> bool:
        """Return whether a person with the provider's id `subject` is stored; True also for a removed person."""
        with self._database.reading() as connection:
            return (
                connection.execute(select(schema.people).where(schema.people.c.subject == subject)).first() is not None
            )

    def lost_groups(self, subject: str) -> Person | None:
        """Make a person an analyst, whatever their role was, and revoke all of the person's tokens.

        Called when none of the person's groups at the single sign-on provider has a role any more, so that a former
        steward keeps no rights. `subject` is the provider's id of the person. Returns the person, or None if nobody has
        that id or the person was removed.
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
        """Let the existing person `name` sign on as the provider's user `subject`, and return the person.

        `subject` is the user's id at the single sign-on provider. Raises `NameTaken` if another person has that id, and
        `UnknownName` if there is no such person. Raises `Forbidden` for the first steward: the provider's groups could
        take the role of steward away, and the operator could then no longer create a steward's token.
        """
        person = self.person(name)
        if name == FIRST_STEWARD:
            raise Forbidden("the first steward signs in with a token, so that there always is a way in")
        try:
            with self._database.writing() as connection:
                connection.execute(update(schema.people).where(schema.people.c.name == name).values(subject=subject))
        except IntegrityError:
            raise NameTaken("this subject is another person's; each signs on as one") from None
        return person

    def issue_for_session(self, person: str) -> NewToken:
        """Create a token for one browser session of `person`, which expires with the session.

        Also deletes the person's earlier session tokens that have expired.
        """
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
        """Return all people who were not removed, in the order of names."""
        with self._database.reading() as connection:
            rows = connection.execute(select(schema.people).where(PRESENT).order_by(schema.people.c.name)).all()
        return [Person(name=row.name, role=Role(row.role)) for row in rows]

    def page(self, *, after: str, most: int) -> list[Person]:
        """Return at most `most` people whose names come after `after`, in the order of names."""
        following = schema.people.c.name > after
        query = select(schema.people).where(PRESENT, following).order_by(schema.people.c.name).limit(most)
        with self._database.reading() as connection:
            return [Person(name=row.name, role=Role(row.role)) for row in connection.execute(query)]

    def issue(self, person: str, *, label: str = "", expires_at: float | None = None) -> NewToken:
        """Create a token for a person and return it with its secret, which cannot be read again.

        `label` says what the token is for. `expires_at` is in seconds since 1970; with None the token ends after the
        number of days in the settings. Raises `UnknownName` if there is no such person, and `InvalidParameter` for an
        expiry in the past.
        """
        with at_field("person"):
            self.person(person)
        now = self._clock()
        expires_at = now + self._token_seconds if expires_at is None else expires_at
        if not expires_at > now:
            raise InvalidParameter("a token must expire in the future")
        new = _create_token(person, label, now, expires_at)
        with self._database.writing() as connection:
            connection.execute(insert(schema.tokens).values(_row(new)))
        return new

    def tokens(self, person: str) -> list[Token]:
        """Return the records of a person's tokens, oldest first; raise `UnknownName` if there is no such person."""
        self.person(person)
        query = select(schema.tokens).where(schema.tokens.c.person == person).order_by(schema.tokens.c.created_at, "id")
        with self._database.reading() as connection:
            return [_token(row) for row in connection.execute(query)]

    def revoke(self, person: str, token: str) -> Token:
        """Revoke a token, and with it the browser sessions that were opened with it; return its record.

        If the token was revoked before, the time of the first revocation stays. Raises `UnknownName` if the person has
        no such token.
        """
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
    """Return the SHA-256 digest, in hexadecimal, that is stored instead of `secret`.

    A secret of 256 random bits needs no slow hash, because it cannot be guessed.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


def _revocation(person: str, now: float) -> Update:
    """Return the SQL statement that revokes all tokens of `person` that were not revoked yet.

    `now` is the time to record, in seconds since 1970.
    """
    theirs = (schema.tokens.c.person == person) & schema.tokens.c.revoked_at.is_(None)
    return update(schema.tokens).where(theirs).values(revoked_at=now)


def _token(row: Row[tuple[object, ...]]) -> Token:
    """Return the record of the token that a row of the database describes."""
    return Token(**{column.name: getattr(row, column.name) for column in fields(Token)})


def _create_token(person: str, label: str, now: float, expires_at: float | None) -> NewToken:
    """Return a new token of `person` with a random id and secret, which is not stored yet.

    `label` says what the token is for. `now` is the time of its creation. `expires_at` is the time from which on it is
    refused; None: it never expires. Both times are in seconds since 1970.
    """
    token = Token(
        id=secrets.token_hex(8), person=person, label=label, created_at=now, expires_at=expires_at, revoked_at=None
    )
    return NewToken(token=token, secret=f"{TOKEN_PREFIX}{secrets.token_urlsafe(32)}")


def _row(new: NewToken) -> dict[str, object]:
    """Return the row to store for the token `new`: the fields of its record, and the digest of its secret."""
    return asdict(new.token) | {"digest": digest(new.secret)}
