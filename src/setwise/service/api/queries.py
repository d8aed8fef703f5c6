"""Routes for queries: preview a question, ask it under an idempotency key, poll for its answer, cancel it."""

import json
import re
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from setwise.accounting.notation import format_use, use_in_words
from setwise.contract import IDEMPOTENCY_HEADER, PreviewRecord, QueryRecord
from setwise.service.api.schemas import EXAMPLES, QuestionBody
from setwise.service.auth.people import Identity
from setwise.service.auth.permissions import API
from setwise.service.problems import MEDIA_TYPE
from setwise.service.queries.jobs import Job, JobState
from setwise.service.queries.runner import Question
from setwise.service.replica import Service
from setwise.service.route import GuardedRoute, caller, paced, service_of

router = APIRouter(prefix=API, tags=["queries"], route_class=GuardedRoute)

Key = Annotated[
    str,
    Header(
        alias=IDEMPOTENCY_HEADER,
        pattern=r"^[A-Za-z0-9._:-]{1,128}$",
        description="1 to 128 letters, digits, dots, colons, dashes or underscores; asking again under the same key "
        "gives the same answer and costs nothing",
        examples=["monday-top-ten"],
    ),
]
_QUERY_ID, _EXAMPLE_ID = "^[0-9a-f]{32}$", "5f2b8c1e9a7d4c3b8e6f0a1b2c3d4e5f"
QueryId = Annotated[str, Path(pattern=_QUERY_ID, examples=[_EXAMPLE_ID])]
"""The id of a query in the path of a route, 32 hexadecimal digits; pages use it too."""
QUESTION_IN_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/QuestionBody", "examples": EXAMPLES}}
        },
    }
}
"""The body of a question in the OpenAPI document. The routes parse the body themselves, large bodies in a thread."""

_LARGE = 64 * 1024
"""Characters of a request with its answer above which the response is rendered in a thread."""

_ID = {"query": "$response.body#/id"}
_LINKS = {
    "poll": {"operationId": "show_query", "parameters": _ID},
    "cancel": {"operationId": "cancel_query", "parameters": _ID},
}


def parse_question(content: bytes | str) -> Question:
    """Return the question in `content`, the JSON body of a request.

    Raises `RequestValidationError` with the names of fields that are missing or have the wrong type, and
    `InvalidParameter` if the query or the budget is not valid.
    """
    try:
        body = QuestionBody.model_validate_json(content)
    except ValidationError as error:
        errors = error.errors(include_url=False, include_input=False)
        raise RequestValidationError([{**each, "loc": ("body", *each["loc"])} for each in errors]) from None
    return body.question()


async def _read_question(request: Request) -> Question:
    """Return the question in the JSON body of a request.

    A body of more than 64 KiB is parsed in a thread, so that it does not block the event loop. Raises
    `RequestValidationError` if the Content-Type is not JSON, and the errors of `parse_question`.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not re.fullmatch(r"application/([\w.-]+\+)?json", kind):
        raise RequestValidationError([{"type": "missing", "loc": ("body",), "msg": "", "input": None}])
    content = await request.body()
    if len(content) <= _LARGE:
        return parse_question(content)
    return await service_of(request).rendering.run(parse_question, content)


@router.post("/preview", openapi_extra=QUESTION_IN_BODY)
async def preview(request: Request) -> PreviewRecord:
    """Return the cost of a question, the planned error of its answer, and whether its account can pay for it.

    A preview charges nothing and reads no rows.
    """
    service = service_of(request)
    preview_of_question = await service.questions.preview(
        caller(request), await _read_question(request), service.threads
    )
    return {
        **preview_of_question.plan.to_dict(),
        "left": [format_use(use) for use in preview_of_question.left],
        "words": [use_in_words(use) for use in preview_of_question.plan.uses],
        "shortage": preview_of_question.shortage,
        "warning": preview_of_question.warning,
    }


@router.post(
    "/queries",
    response_model=QueryRecord,
    responses={
        200: {"links": _LINKS},
        202: {
            "links": _LINKS,
            "model": QueryRecord,
            "description": "Accepted; poll the address in Location.",
            "headers": {"Location": {"description": "where to poll", "schema": {"type": "string"}}},
        },
    },
    openapi_extra=QUESTION_IN_BODY,
)
async def ask(request: Request, idempotency_key: Key) -> Response:
    """Ask a question under an idempotency key.

    The response has the answer if it is ready soon. Otherwise it has status 202, and the address to poll in the header
    Location. Repeating the request under the same key returns the same answer and is not charged again.
    """
    service, question = service_of(request), await _read_question(request)
    job = await service.runner.answered(service.runner.start(caller(request), question, idempotency_key))
    if job.state is JobState.FAILED:
        assert job.problem is not None
        return Response(job.problem, json.loads(job.problem)["status"], media_type=MEDIA_TYPE)
    response = await _response(request, job)
    if job.state is JobState.RUNNING:
        response.status_code = 202
        response.headers["Location"] = f"{API}/queries/{job.id}"
    return response


@router.get("/queries", response_model=list[QueryRecord])
async def list_queries(
    request: Request,
    most: Annotated[int, Query(ge=1, le=200, examples=[50])] = 50,
    after: Annotated[
        str | None,
        Query(
            pattern=_QUERY_ID,
            examples=[_EXAMPLE_ID],
            description="the id of the last query already seen",
        ),
    ] = None,
) -> Response:
    """List the caller's queries, newest first.

    The response has at most `most` queries, and fewer if their answers are large. With `after`, the id of a query, it
    has only queries that are older than that query; without `after` it begins with the newest.
    """
    service, identity = service_of(request), caller(request)

    def render() -> str:
        seen = None if after is None else service.jobs.visible(identity, after)
        jobs = service.jobs.of(identity.person.name, most, after=seen)
        return f"[{','.join(render_query(service, job) for job in jobs)}]"

    return paced(request, await service.rendering.run(render))


@router.get("/queries/{query}", operation_id="show_query", response_model=QueryRecord)
async def show_query(request: Request, query: QueryId) -> Response:
    """Return a query with its state and, if it is ready, its answer.

    If the replica (process of the service) that ran the query has died, this replica runs it again, at no further
    charge.
    """
    service = service_of(request)
    job = await service.threads.run(service.jobs.visible, caller(request), query)
    if service.jobs.is_lost(job):  # run it as the person who asked it
        person = await service.threads.run(service.people.person, job.person)
        service.runner.start(Identity(person=person, token=""), parse_question(job.request), job.key)
    return await _response(request, job)


@router.delete("/queries/{query}", operation_id="cancel_query", response_model=QueryRecord)
async def cancel_query(request: Request, query: QueryId) -> Response:
    """Stop a running query.

    The charge is not returned. Asking again under the same idempotency key runs the query without a further charge.
    """
    service, identity = service_of(request), caller(request)
    job = await service.threads.run(service.jobs.visible, identity, query)
    job = await service.threads.run(service.jobs.cancel, job, by=identity.person.name)
    await service.runner.cancel(job.id)
    return await _response(request, job)


async def _response(request: Request, job: Job) -> Response:
    """Return the query `job` as a JSON response.

    A thread makes the JSON of questions in SQL and of large answers, so that they do not block the event loop.
    """
    service = service_of(request)
    is_large = len(job.request) + len(job.answer or "") > _LARGE
    if is_large or _is_sql(job):
        return paced(request, await service.rendering.run(render_query, service, job))
    return paced(request, render_query(service, job))


def _is_sql(job: Job) -> bool:
    """Return whether the question of the stored query `job` was asked in SQL.

    The JSON text of its request is not parsed, but searched for `"kind":"sql"`. The search finds the kind and nothing
    else, because stored JSON has no spaces between tokens, and quotes within a string are escaped.
    """
    return '"kind":"sql"' in job.request


def render_query(service: Service, job: Job) -> str:
    """Return the query `job` as the JSON text of a `QueryRecord`.

    The request, the answer and the error are stored as JSON texts and are inserted unchanged. For a question in SQL,
    `service` computes the columns and rows of its result from the stored answer.
    """
    parts = {
        "id": json.dumps(job.id),
        "account": json.dumps(job.account),
        "key": json.dumps(job.key),
        "state": json.dumps(job.state),
        "progress": json.dumps(job.progress),
        "created_at": json.dumps(job.created_at),
        "asked": job.request,
        "answer": job.answer or "null",
        "problem": job.problem or "null",
        **(service.questions.render_rows(job, service.renderers) if _is_sql(job) else {}),
    }
    for name in ("columns", "rows", "row_problem", "row_notes"):
        parts.setdefault(name, "null")
    return "{" + ",".join(f'"{name}":{text}' for name, text in parts.items()) + "}"
