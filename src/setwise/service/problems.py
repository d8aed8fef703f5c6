"""Errors as application/problem+json: one status and one type per error of the tree."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from setwise import errors
from setwise.errors import FIELD_NOTE, PROBLEM_TYPE, BadRequest, SetwiseError

MEDIA_TYPE = "application/problem+json"

STATUS: dict[type[SetwiseError], int] = {
    errors.SetwiseError: 500,
    errors.BadRequest: 422,
    errors.NotSignedIn: 401,
    errors.BudgetExhausted: 402,
    errors.Forbidden: 403,
    errors.UnknownAccount: 404,
    errors.UnknownName: 404,
    errors.AccountExists: 409,
    errors.NameTaken: 409,
    errors.KeyConflict: 409,
    errors.TooManyRequests: 429,
    errors.Unavailable: 503,
}
"""The status of an error is that of its nearest ancestor here."""

_NO_DATABASE = "a database of the service did not answer; try again in a moment"
"""Said for every `StoreFailed`: the ledger's own words name its address and what its driver said."""

_TAGS = {
    "top-k",
    "histogram",
    "count",
    "sum",
    "mean",
    "quantile",
    "query",
    "sql",
    "draws",
    "total",
    "setwise",
    "filter",
    "constrained-str",
    "constrained-int",
}
"""What tells the kinds of a part apart; validators put these into the place, but no request has them as names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One problem document. `name` is the error's class in the tree; `field` the part of the request at fault."""

    name: str
    status: int
    detail: str
    field: str | None = None

    def document(self) -> dict[str, Any]:
        """Return the JSON object.

        >>> Problem(name="KeyConflict", status=409, detail="the key was used before").document()["type"]
        'urn:setwise:problem:key-conflict'
        """
        words = re.findall("[A-Z][a-z]*", self.name)
        found: dict[str, Any] = {
            "type": PROBLEM_TYPE + "-".join(words).lower(),
            "title": " ".join(words).capitalize(),
            "status": self.status,
            "detail": self.detail,
        }
        return found if self.field is None else found | {"field": self.field}


def problem_of(error: SetwiseError) -> Problem:
    """Return the problem document of an error of the tree."""
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    notes: list[str] = getattr(error, "__notes__", [])
    named = [note.removeprefix(FIELD_NOTE) for note in notes if note.startswith(FIELD_NOTE)]
    says = _NO_DATABASE if isinstance(error, errors.StoreFailed) else " ".join(str(error).split())
    return Problem(name=type(error).__name__, status=status, detail=says, field=named[0] if named else None)


@contextmanager
def at_field(field: str) -> Iterator[None]:
    """Name the part of the request that is at fault when the block refuses it; the innermost name stays."""
    try:
        yield
    except BadRequest as error:
        if not getattr(error, "__notes__", []):
            error.add_note(FIELD_NOTE + field)
        raise


def field_of(location: tuple[int | str, ...]) -> str:
    """Return the name of a part of a request from where a validator found it.

    >>> field_of(("body", "uses", 0))
    'uses.0'
    >>> field_of(("body", "query", "top-k", "k"))
    'query.k'
    >>> field_of(("body", "query", "query", "k"))
    'query.k'
    >>> field_of(("header", "Idempotency-Key"))
    'Idempotency-Key'
    """
    places = {"body", "query", "path", "header", "cookie"}
    parts = location[1:] if location and location[0] in places and len(location) > 1 else location
    # A kind stands in the location after the field it decides; the field `query` has a kind of the same name.
    named = [part for part in parts[:1] if part == "query"]
    return ".".join(map(str, [*named, *(part for part in parts if part not in _TAGS and "[" not in str(part))]))
