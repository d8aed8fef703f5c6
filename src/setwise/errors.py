"""All error classes, with the exit status that each gives the command line; the service maps them in problems.py.

    SetwiseError
    ├── BadRequest                     exit 2: the caller can correct the request
    │   ├── InvalidParameter           a value that is not allowed (negative, NaN, out of range, malformed)
    │   ├── Unattainable               a target that no parameter in range meets, or a width that cannot be reached
    │   ├── InvalidFilter              a filter expression that is not plain comparisons of allowed columns
    │   ├── UnknownColumn              a column that the table does not have
    │   ├── UnsuitableTable            a table that cannot be read as users and items
    │   ├── UnknownAccount             no account of that name in the ledger
    │   ├── AccountExists              an account of that name exists already
    │   ├── KeyConflict                an idempotency key that was used for a different request
    │   ├── NotSignedIn                no token, or one that is unknown, expired or revoked
    │   ├── Forbidden                  a person without the permission that the request needs
    │   ├── UnknownName                no dataset, query, token or person of that name
    │   ├── NameTaken                  a dataset or person of that name exists already
    │   ├── TooManyRequests            more requests than a person may make at once
    │   └── MissingExtra               an optional dependency that is not installed
    ├── BudgetExhausted                exit 3: the account cannot pay for the question
    ├── AnswerWithheld                 exit 4: a charged question that could not be answered; its stored outcome
    └── Unavailable                    exit 4: something outside the request failed
        ├── EngineFailed               the database engine that reads the data
        └── StoreFailed                the database that keeps the ledger

A message is one sentence that names the offending value and, if there is one, the remedy. Messages never contain
anything that was computed from private data.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Self


class SetwiseError(Exception):
    """Base class of all errors that Setwise raises deliberately.

    `exit_code` is the exit status of the command line if a command fails with the error. `proposed` has parameters with
    which the request would be accepted, as text by name, such as {"epsilon": "0.1"}; None stands for a parameter to
    leave out. It is empty if no such parameters are known. The command line writes them as a command to paste.
    """

    exit_code: ClassVar[int] = 4
    proposed: Mapping[str, str | None] = MappingProxyType({})

    def proposing(self, parameters: Mapping[str, str | None]) -> Self:
        """Set `proposed` of this error to `parameters` and return the error, so that it can be raised in one line."""
        self.proposed = dict(parameters)  # a plain dict, because worker processes send errors as pickles
        return self


class BadRequest(SetwiseError):
    """The request cannot be served as it is, but the caller can correct it.

    `needed_types` maps names of text columns to types such as "float", if the request would succeed once these columns
    are declared to have these types. Otherwise it is empty. `needed_dataset` is the name of a dataset if the request
    would succeed with an account that was opened for this dataset; otherwise it is "". `needs_bounds` is True if the
    request asks for an accuracy that cannot be planned before its bounds are known.
    """

    exit_code = 2
    needed_types: Mapping[str, str] = MappingProxyType({})
    needed_dataset: str = ""
    needs_bounds: bool = False

    def needing(self, types: Mapping[str, str]) -> Self:
        """Set `needed_types` of this error to `types` and return the error, so that it can be raised in one line."""
        self.needed_types = dict(types)  # a plain dict, because worker processes send errors as pickles
        return self


class InvalidParameter(BadRequest, ValueError):
    """A parameter has a value that is not allowed: negative, NaN, out of range, or malformed."""


class Unattainable(BadRequest):
    """No parameter in range meets the target that was asked for, or a calculation exceeds its limit of time or memory.

    The target is, for example, an (epsilon, delta), or an accuracy of the answer.
    """


class InvalidFilter(BadRequest):
    """A filter expression is not made of plain comparisons of allowed columns."""


class UnknownColumn(BadRequest):
    """The table has no column of that name, or the request may not use it."""


class UnsuitableTable(BadRequest):
    """The table cannot be used for the request, for example because of its format or the type of a column."""


class UnknownAccount(BadRequest):
    """The ledger has no account of that name."""


class AccountExists(BadRequest):
    """An account of that name exists already."""


class KeyConflict(BadRequest):
    """An idempotency key was used before for a different request."""

    @classmethod
    def used_before(cls, key: str, account: str | None = None) -> Self:
        """Return the error to raise if another request used the idempotency `key` before.

        `account` is the name of the account on which the key was used; None if no account pays.
        """
        where = "" if account is None else f" of the account {account!r}"
        return cls(f"the key {key!r}{where} was used before for a different request; ask under another key")


class NotSignedIn(BadRequest):
    """The request has no token, or one that is unknown, expired or revoked."""


class Forbidden(BadRequest):
    """The person does not have the permission that the request needs."""


class UnknownName(BadRequest):
    """There is no dataset, query, live series, token or person of that name, or the caller may not see it."""


class NameTaken(BadRequest):
    """A dataset or person of that name exists already."""


class TooManyRequests(BadRequest):
    """A person made more requests than allowed, or too many requests wait or run already.

    `seconds` is the number of seconds to wait before trying again.
    """

    def __init__(self, message: str, seconds: int = 1) -> None:
        super().__init__(message)
        self.seconds = seconds


class MissingExtra(BadRequest):
    """An optional dependency is not installed."""


class BudgetExhausted(SetwiseError):
    """The account cannot pay for the question."""

    exit_code = 3


class AnswerWithheld(SetwiseError):
    """The question was charged but could not be answered. This outcome is stored, and a retry returns it again."""

    exit_code = 4


class Unavailable(SetwiseError):
    """Something that the request needs failed: the service, a database, or the provider of single sign-on."""

    exit_code = 4


class EngineFailed(Unavailable):
    """The database engine that reads the data failed, or its query was cancelled or took too long."""


class StoreFailed(Unavailable):
    """The database that keeps the ledger failed."""


PROBLEM_TYPE = "urn:setwise:problem:"
"""The prefix of the type of a problem document; the name of the error follows in lower case, with dashes."""

FIELD_NOTE = "field: "
"""The prefix of a note on an error that names the part of the request at fault."""


def error_of(problem: Mapping[str, Any]) -> SetwiseError:
    """Return the error that a problem document (the JSON body of the service's error responses) describes.

    An unknown type gives `Unavailable` for a status of 500 or more, and `BadRequest` otherwise.

    >>> error_of({"type": "urn:setwise:problem:key-conflict", "detail": "the key was used before"})
    KeyConflict('the key was used before')
    """
    name = "".join(word.capitalize() for word in str(problem.get("type", "")).removeprefix(PROBLEM_TYPE).split("-"))
    status, field = problem.get("status"), problem.get("field")
    otherwise = Unavailable if isinstance(status, int) and status >= 500 else BadRequest
    kind = globals().get(name)
    if not (isinstance(kind, type) and issubclass(kind, SetwiseError)):
        kind = otherwise
    error = kind(str(problem.get("detail", "the service gave no reason")))
    if field is not None:
        error.add_note(f"{FIELD_NOTE}{field}")
    return error
