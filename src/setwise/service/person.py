"""Who asks: a person with a role, and how the person was recognised."""

import re
from dataclasses import dataclass
from enum import StrEnum

from setwise.errors import InvalidParameter

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
"""The names of people, data sets and accounts: safe in addresses, file names and log lines."""


class Role(StrEnum):
    """What a person is trusted with."""

    STEWARD = "steward"
    """Registers data, opens accounts, manages people, audits."""
    ANALYST = "analyst"
    """Asks questions from accounts of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Person:
    """A name and a role.

    >>> Person(name="ada", role=Role.ANALYST).role
    <Role.ANALYST: 'analyst'>
    """

    name: str
    role: Role

    def __post_init__(self) -> None:
        check_name("the name of a person", self.name)
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


def check_name(what: str, name: str) -> str:
    """Return the name, or raise `InvalidParameter`."""
    if not re.fullmatch(NAME, name):
        raise InvalidParameter(
            f"{what} must be 1 to 64 letters, digits, dots, dashes or underscores and begin with a letter or digit"
        )
    return name
