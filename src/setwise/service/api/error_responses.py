"""Every error as an HTTP response with a problem document; never a word that the caller did not need."""

import logging
import re
from typing import Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from setwise.errors import NotSignedIn, SetwiseError, StoreFailed, TooManyRequests
from setwise.service.api.problems import MEDIA_TYPE, Problem, field_of, problem_of
from setwise.service.api.schemas import PATTERNS_IN_WORDS

_log = logging.getLogger("setwise.service")

_UNREADABLE = "the body cannot be read; send one JSON object in UTF-8"

_NAMES = {404: "NotFound", 405: "MethodNotAllowed", 408: "TooSlow", 413: "TooLarge", 415: "UnsupportedMediaType"}


def to_problem(problem: Problem, headers: dict[str, str] | None = None) -> JSONResponse:
    """Return the response for a problem document."""
    return JSONResponse(problem.document(), problem.status, headers, MEDIA_TYPE)


def to_document(document: dict[str, Any]) -> JSONResponse:
    """Return the response for a problem document that was stored."""
    return JSONResponse(document, document["status"], media_type=MEDIA_TYPE)


def to_setwise_error(error: SetwiseError) -> JSONResponse:
    """Return the response for an error of the tree."""
    headers = {}
    match error:
        case NotSignedIn():
            headers = {"WWW-Authenticate": "Bearer"}
        case TooManyRequests(seconds=seconds):
            headers = {"Retry-After": str(seconds)}
        case StoreFailed():
            log_store_failure(error)
    return to_problem(problem_of(error), headers)


def log_store_failure(error: StoreFailed) -> None:
    """Tell the operator what a database said, which the caller is not told; passwords in addresses are left out."""
    said = re.sub(r"(://[^/@\s:]*):[^@\s]*@", r"\1:***@", " ".join(str(error).split()))
    _log.error("%s", re.sub(r"(password=)\S+", r"\1***", said, flags=re.IGNORECASE))


def to_validation_error(error: RequestValidationError) -> JSONResponse:
    """Return the response for a malformed request: the first field at fault and what it should be.

    What was given is never repeated: it may be a secret in the wrong place.
    """
    first = error.errors()[0]
    field = field_of(tuple(first["loc"])) or "body"
    says = first["msg"].removeprefix("Value error, ")
    if first["type"] == "string_pattern_mismatch":
        wanted = PATTERNS_IN_WORDS.get(first["ctx"]["pattern"])
        says = says if wanted is None else f"should be {wanted}"
    if first["type"] == "json_invalid" or (field == "body" and first["type"].startswith(("model_", "missing"))):
        field, says = "body", "send one JSON object in UTF-8 with Content-Type: application/json"
    return to_problem(Problem(name="InvalidParameter", status=422, detail=f"{field}: {says}", field=field))


def to_http_exception(error: HTTPException) -> JSONResponse:
    """Return the response for what the framework itself refuses: an unknown address or method."""
    if error.status_code == 400:
        return to_problem(Problem(name="InvalidParameter", status=422, detail=_UNREADABLE, field="body"))
    details = {
        404: "there is nothing at this address; see /api/v1/openapi.json",
        405: "this address has other methods; see the header Allow",
        408: error.detail,
        413: error.detail,
    }
    problem = Problem(
        name=_NAMES.get(error.status_code, "BadRequest"),
        status=error.status_code,
        detail=details.get(error.status_code, _UNREADABLE),
    )
    return to_problem(problem, dict(error.headers or {}))


def to_defect(error: Exception) -> JSONResponse:
    """Return the response for a defect of the service; the log names its kind and place, not its words."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f"{place.tb_frame.f_code.co_name}:{place.tb_lineno}" if place is not None else "unknown"
    _log.error("unexpected %s in %s", type(error).__name__, where)
    detail = "the service failed to answer; the log of the service names the place"
    return to_problem(Problem(name="InternalError", status=500, detail=detail))
