"""Errors as application/problem+json (RFC 9457): the HTTP status, the problem type and the field of each error.

A response contains only what the caller needs; other details of an error are logged for the operator.
"""

import logging
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from setwise import errors
from setwise.analytics.query import SHAPES
from setwise.contract import ProblemRecord
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
"""HTTP status per error class; a class that is missing has the status of its nearest ancestor here."""

_NO_DATABASE = "a database of the service did not answer; try again in a moment"
"""The message for every `StoreFailed`: the error's own message has the database's address and its driver's text."""

ONE, SEVERAL = "one", "several"
"""Tags that tell a single value (`ONE`) from a list of values (`SEVERAL`) in a request body."""

_TAGS = {
    ONE, SEVERAL, *SHAPES, "sql", "draws", "total", "setwise", "filter", "constrained-str", "constrained-int",
}  # fmt: skip
"""Tags by which validators choose among several forms of a field.

Validators include the tags in the location of an error, but no request has fields of these names.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem document (RFC 9457): the JSON body of an error response.

    `name` is the class of the error, `status` the HTTP status, `detail` a sentence, and `field` the field of the
    request that is at fault, or None.
    """

    name: str
    status: int
    detail: str
    field: str | None = None

    def document(self) -> ProblemRecord:
        """Return the problem document as a JSON object.

        >>> Problem(name="KeyConflict", status=409, detail="the key was used before").document()["type"]
        'urn:setwise:problem:key-conflict'
        """
        words = re.findall("[A-Z][a-z]*", self.name)
        document: ProblemRecord = {
            "type": PROBLEM_TYPE + "-".join(words).lower(),
            "title": " ".join(words).capitalize(),
            "status": self.status,
            "detail": self.detail,
        }
        if self.field is not None:
            document["field"] = self.field
        return document


def problem_of(error: SetwiseError) -> Problem:
    """Return the problem document of `error`.

    The document's `field` is the request field that `at_field` noted on the error, or None. The message of a
    `StoreFailed` is replaced, because it names the database's address.
    """
    status = next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)
    notes: list[str] = getattr(error, "__notes__", [])
    fields = [note.removeprefix(FIELD_NOTE) for note in notes if note.startswith(FIELD_NOTE)]
    detail = _NO_DATABASE if isinstance(error, errors.StoreFailed) else " ".join(str(error).split())
    return Problem(name=type(error).__name__, status=status, detail=detail, field=fields[0] if fields else None)


@contextmanager
def at_field(field: str) -> Iterator[None]:
    """Context manager that adds the name of a request field to errors, so that the caller learns what is at fault.

    A `BadRequest` that is raised in the `with` block gets `field` as a note. If `at_field` blocks are nested, the error
    keeps only the note of the innermost block, which names the field most exactly.
    """
    try:
        yield
    except BadRequest as error:
        if not getattr(error, "__notes__", []):
            error.add_note(FIELD_NOTE + field)
        raise


def each_of(*checks: Callable[[], Any]) -> list[Any]:
    """Return the results of all `checks`, functions that each check a part of a request.

    Raises: the error of the check that fails. If several fail, one error has the messages of all of them, and the class
    and the request field of the first, so that the caller can mend everything at once.
    """
    results, refusals = [], []
    for check in checks:
        try:
            results.append(check())
        except BadRequest as error:
            refusals.append(error)
    if len(refusals) == 1:
        raise refusals[0]
    if refusals:
        refusal = type(refusals[0])("; ".join(dict.fromkeys(map(str, refusals))))
        for note in getattr(refusals[0], "__notes__", []):
            refusal.add_note(note)
        raise refusal
    return results


def field_of(location: tuple[int | str, ...]) -> str:
    """Return the name of the request's field at fault, given the `location` that a validator's error states.

    `location` lists the names on the way to the field. Two names are left out: the first, which says where the field is
    (body, header, ...), and the kind of an object that has several kinds, such as "top-k" for a query.

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
    # A tag comes after the field whose form it selects. The field `query` has a tag of the same name, so the field
    # is kept here and the tag dropped below.
    named = [part for part in parts[:1] if part == "query"]
    return ".".join(map(str, [*named, *(part for part in parts if part not in _TAGS and "[" not in str(part))]))


_log = logging.getLogger("setwise.service")

_LONGEST_FIELD = 200
"""Characters after which the name of a field is cut in an error: an unknown field's name may have a megabyte."""

_UNREADABLE = "the body cannot be read; send one JSON object in UTF-8"

_NAMES = {404: "NotFound", 405: "MethodNotAllowed", 408: "TooSlow", 413: "TooLarge", 415: "UnsupportedMediaType"}
_DETAILS = {
    404: "there is nothing at this address; see /api/v1/openapi.json",
    405: "this address does not take this method; see the header Allow",
}


def error_response(error: Exception, example: str = "") -> JSONResponse:
    """Return the HTTP response for `error`: a JSON problem document (RFC 9457) with the status of the error's class.

    Details that only operators should see, such as the address of a database, go to the log. `example` is a body that
    the route takes, as JSON text, to show where the body of the request is malformed; "" if none is known.
    """
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
            problem = _validation_problem(error, example)
        case HTTPException():
            problem, headers = _framework_problem(error), dict(error.headers or {})
        case _:
            problem = defect(error)
    return JSONResponse(problem.document(), problem.status, headers, MEDIA_TYPE)


def log_store_failure(error: StoreFailed) -> None:
    """Log the message of a database error for the operator, without passwords. The caller never sees this message."""
    message = re.sub(r"(://[^/@\s:]*):[^@\s]*@", r"\1:***@", " ".join(str(error).split()))
    _log.error("%s", re.sub(r"(password=)\S+", r"\1***", message, flags=re.IGNORECASE))


def defect(error: Exception) -> Problem:
    """Return the problem document of an unexpected error, with status 500, and log the error.

    The log gets the type of the error and the place in the code, but not its message, which may contain private data.
    """
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f"{place.tb_frame.f_code.co_name}:{place.tb_lineno}" if place is not None else "unknown"
    _log.error("unexpected %s in %s", type(error).__name__, where)
    detail = "the service failed to answer; the log of the service names the place"
    return Problem(name="InternalError", status=500, detail=detail)


def _validation_problem(error: RequestValidationError, example: str) -> Problem:
    """Return the problem document of a malformed request: the first field at fault in `error`, and the expected value.

    If the body is no JSON object or lacks a field, the document shows the body `example`, unless that is "".

    The value that was sent is never repeated, because it may be a secret in the wrong place.
    """
    first = error.errors()[0]
    field = field_of(tuple(first["loc"]))[:_LONGEST_FIELD] or "body"
    detail = first["msg"].removeprefix("Value error, ")
    if first["type"] == "union_tag_invalid":
        detail = f"{first['ctx']['discriminator']} should be one of {first['ctx']['expected_tags']}"
    if first["type"] == "union_tag_not_found":
        detail = _missing_form(field, first["ctx"]["discriminator"])
    if first["type"] == "json_invalid" or (field == "body" and first["type"].startswith(("model_", "missing"))):
        field, detail = "body", "send one JSON object in UTF-8 with Content-Type: application/json"
    if example and (field == "body" or first["type"] == "missing"):
        detail = f"{detail}, such as {example}"
    return Problem(name="InvalidParameter", status=422, detail=f"{field}: {detail}", field=field)


_FORMS = {
    "query": (", ".join(f"'{kind}'" for kind in (*SHAPES, "sql")), '{"kind": "count"}'),
    "spend": ("'total', 'draws'", '{"kind": "total", "epsilon": 0.5}'),
    "body": ("'filter', 'setwise'", '{"kind": "filter", "name": "ada", "epsilon": 3, "delta": 1e-6}'),
}
"""For each field of a request that has several forms: the values of `kind` that tell the forms apart, and an example.

The body itself has several forms only where an account is opened.
"""


def _missing_form(field: str, discriminator: str) -> str:
    """Return an error sentence for a JSON object in `field` that lacks the entry which says of what kind it is.

    `discriminator` is the name of this entry, such as "'kind'", in quotes. The sentence lists the possible kinds if
    they are known for `field`; otherwise it refers to the API's description.
    """
    kinds, example = _FORMS.get(field.rpartition(".")[2], ("", ""))
    if not kinds:
        return f"{discriminator} is missing; see /api/v1/openapi.json"
    return f"{discriminator} is missing: it is one of {kinds}, as in {example}"


def _framework_problem(error: HTTPException) -> Problem:
    """Return the problem document of `error`, which the web framework or the middleware that limits bodies raised.

    The error is about an unknown path or method, or about a body that is too large, too slow or not readable.
    """
    if error.status_code == 400:
        return Problem(name="InvalidParameter", status=422, detail=_UNREADABLE, field="body")
    detail = error.detail if error.status_code in {408, 413} else _DETAILS.get(error.status_code, _UNREADABLE)
    return Problem(name=_NAMES.get(error.status_code, "BadRequest"), status=error.status_code, detail=detail)
