"""Errors as application/problem+json: one status and one type per error of the tree.

A response says nothing that the caller did not need; what the operator should know of an error is logged.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from setwise import errors
from setwise.analytics.query import SHAPES
from setwise.errors import FIELD_NOTE, PROBLEM_TYPE, BadRequest, NotSignedIn, SetwiseError, StoreFailed, TooManyRequests

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

ONE, SEVERAL = "one", "several"
"""What tells a value from a list of them."""

_TAGS = {
    ONE, SEVERAL, *SHAPES, "sql", "draws", "total", "setwise", "filter", "constrained-str", "constrained-int",
}  # fmt: skip
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


class ProblemView(BaseModel):
    """application/problem+json: what went wrong and how to mend it."""

    type: str = Field(examples=["urn:setwise:problem:invalid-parameter"])
    title: str = Field(examples=["Invalid parameter"])
    status: int = Field(examples=[422])
    detail: str = Field(examples=["k: Input should be greater than or equal to 1"])
    field: str | None = Field(default=None, examples=["query.k"], description="the part of the request at fault")


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


_log = logging.getLogger("setwise.service")

_LONGEST_FIELD = 200
"""Characters of the longest name of a field that is repeated: an unknown one may have a megabyte."""

_UNREADABLE = "the body cannot be read; send one JSON object in UTF-8"

_NAMES = {404: "NotFound", 405: "MethodNotAllowed", 408: "TooSlow", 413: "TooLarge", 415: "UnsupportedMediaType"}
_DETAILS = {
    404: "there is nothing at this address; see /api/v1/openapi.json",
    405: "this address does not take this method; see the header Allow",
}


def error_response(error: Exception) -> JSONResponse:
    """Return the response for an error; what the operator should know of it is logged."""
    headers: dict[str, str] = {}
    match error:
        case SetwiseError():
            problem = problem_of(error)
            if isinstance(error, NotSignedIn):
                headers = {"WWW-Authenticate": "Bearer"}
            elif isinstance(error, TooManyRequests):
                headers = {"Retry-After": str(error.seconds)}
            elif isinstance(error, StoreFailed):
                log_store_failure(error)
        case RequestValidationError():
            problem = _invalid(error)
        case HTTPException():
            problem, headers = _refused(error), dict(error.headers or {})
        case _:
            problem = defect(error)
    return JSONResponse(problem.document(), problem.status, headers, MEDIA_TYPE)


def log_store_failure(error: StoreFailed) -> None:
    """Tell the operator what a database said, which the caller is not told; passwords in addresses are left out."""
    said = re.sub(r"(://[^/@\s:]*):[^@\s]*@", r"\1:***@", " ".join(str(error).split()))
    _log.error("%s", re.sub(r"(password=)\S+", r"\1***", said, flags=re.IGNORECASE))


def defect(error: Exception) -> Problem:
    """Return the problem of a defect of ours; the log names its kind and place, not its words, which may be data."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f"{place.tb_frame.f_code.co_name}:{place.tb_lineno}" if place is not None else "unknown"
    _log.error("unexpected %s in %s", type(error).__name__, where)
    detail = "the service failed to answer; the log of the service names the place"
    return Problem(name="InternalError", status=500, detail=detail)


def _invalid(error: RequestValidationError) -> Problem:
    """Return the problem of a malformed request: the first field at fault and what it should be.

    What was given is never repeated: it may be a secret in the wrong place.
    """
    first = error.errors()[0]
    field = field_of(tuple(first["loc"]))[:_LONGEST_FIELD] or "body"
    says = first["msg"].removeprefix("Value error, ")
    if first["type"] == "union_tag_invalid":
        says = f"{first['ctx']['discriminator']} should be one of {first['ctx']['expected_tags']}"
    if first["type"] == "json_invalid" or (field == "body" and first["type"].startswith(("model_", "missing"))):
        field, says = "body", "send one JSON object in UTF-8 with Content-Type: application/json"
    return Problem(name="InvalidParameter", status=422, detail=f"{field}: {says}", field=field)


def _refused(error: HTTPException) -> Problem:
    """Return the problem of what the framework itself refuses: an unknown address or method, or a body."""
    if error.status_code == 400:
        return Problem(name="InvalidParameter", status=422, detail=_UNREADABLE, field="body")
    detail = error.detail if error.status_code in {408, 413} else _DETAILS.get(error.status_code, _UNREADABLE)
    return Problem(name=_NAMES.get(error.status_code, "BadRequest"), status=error.status_code, detail=detail)
