"""Every error as an HTTP response with a problem document; never a word that the caller did not need."""

import logging
import re

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

from setwise.errors import NotSignedIn, SetwiseError, StoreFailed, TooManyRequests
from setwise.service.problems import MEDIA_TYPE, Problem, field_of, problem_of

_log = logging.getLogger("setwise.service")

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
    field = field_of(tuple(first["loc"])) or "body"
    says = first["msg"].removeprefix("Value error, ")
    if first["type"] == "json_invalid" or (field == "body" and first["type"].startswith(("model_", "missing"))):
        field, says = "body", "send one JSON object in UTF-8 with Content-Type: application/json"
    return Problem(name="InvalidParameter", status=422, detail=f"{field}: {says}", field=field)


def _refused(error: HTTPException) -> Problem:
    """Return the problem of what the framework itself refuses: an unknown address or method, or a body."""
    if error.status_code == 400:
        return Problem(name="InvalidParameter", status=422, detail=_UNREADABLE, field="body")
    detail = error.detail if error.status_code in {408, 413} else _DETAILS.get(error.status_code, _UNREADABLE)
    return Problem(name=_NAMES.get(error.status_code, "BadRequest"), status=error.status_code, detail=detail)
