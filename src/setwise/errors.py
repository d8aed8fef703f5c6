"""The whole tree of errors, and the exit status each gives the command line.

    SetwiseError
    ├── BadRequest                     exit 2: the caller can mend it
    │   ├── InvalidParameter           a value that cannot be (negative, NaN, out of range, malformed)
    │   ├── Unattainable               a target no parameter in range can meet, or a width that cannot be reached
    │   ├── InvalidFilter              a filter expression that is not plain comparisons of allowed columns
    │   ├── UnknownColumn              a column the table does not have
    │   ├── UnsuitableTable            a table that cannot be read as users and items
    │   ├── UnknownAccount             no account of that name in the ledger
    │   ├── AccountExists              an account of that name is open already
    │   ├── KeyConflict                an idempotency key used before for a different request
    │   ├── NotSignedIn                no token, or one that is unknown, expired or revoked
    │   ├── Forbidden                  a person without the right to do this
    │   ├── UnknownName                no data set, query, token or person of that name
    │   ├── NameTaken                  a data set or person of that name is there already
    │   ├── TooManyRequests            more requests than a person may make at once
    │   └── MissingExtra               an optional dependency that is not installed
    ├── BudgetExhausted                exit 3: the account cannot pay for this
    ├── AnswerWithheld                 exit 4: a charged question that could not be answered; its stored outcome
    └── Unavailable                    exit 4: something outside the request failed
        ├── EngineFailed               the database engine that reads the data
        └── StoreFailed                the database that keeps the ledger

Messages are one sentence that names the offending value and, where there is one, the remedy. They never
contain anything computed from private data.
"""

from collections.abc import Mapping
from typing import Any, ClassVar


class SetwiseError(Exception):
    """Anything Setwise raises on purpose."""

    exit_code: ClassVar[int] = 4


class BadRequest(SetwiseError):
    """The request cannot be served as it stands; the caller can mend it."""

    exit_code = 2


class InvalidParameter(BadRequest, ValueError):
    """A value that cannot be: negative, NaN, out of range, or malformed."""


class Unattainable(BadRequest):
    """A target that no parameter in range can meet, or an accuracy that cannot be reached."""


class InvalidFilter(BadRequest):
    """A filter expression that is not plain comparisons of allowed columns."""


class UnknownColumn(BadRequest):
    """A column the table does not have."""


class UnsuitableTable(BadRequest):
    """A table that cannot be read as users and items."""


class UnknownAccount(BadRequest):
    """No account of that name in the ledger."""


class AccountExists(BadRequest):
    """An account of that name is open already."""


class KeyConflict(BadRequest):
    """An idempotency key used before for a different request."""


class NotSignedIn(BadRequest):
    """No token, or one that is unknown, expired or revoked."""


class Forbidden(BadRequest):
    """A person without the right to do this."""


class UnknownName(BadRequest):
    """No data set, query, token or person of that name."""


class NameTaken(BadRequest):
    """A data set or person of that name is there already."""


class TooManyRequests(BadRequest):
    """More requests than a person may make at once; `seconds` says when to try again."""

    def __init__(self, message: str, seconds: int = 1) -> None:
        super().__init__(message)
        self.seconds = seconds


class MissingExtra(BadRequest):
    """An optional dependency that is not installed."""


class BudgetExhausted(SetwiseError):
    """The account cannot pay for this."""

    exit_code = 3


class AnswerWithheld(SetwiseError):
    """A question that was charged and could not be answered: its stored outcome, which a retry returns again."""

    exit_code = 4


class Unavailable(SetwiseError):
    """Something outside the request failed."""

    exit_code = 4


class EngineFailed(Unavailable):
    """The database engine that reads the data failed."""


class StoreFailed(Unavailable):
    """The database that keeps the ledger failed."""


PROBLEM_TYPE = "urn:setwise:problem:"
"""How the type of a problem document begins; the error's name in lower case, with dashes, follows."""

FIELD_NOTE = "field: "
"""How a note on an error begins that names the part of the request at fault."""


def error_of(problem: Mapping[str, Any]) -> SetwiseError:
    """Return the error that a problem document of the service stands for.

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
