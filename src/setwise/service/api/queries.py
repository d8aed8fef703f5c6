"""Previews and queries: ask under a key, wait or poll, cancel."""

import json
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi import Body as JsonBody
from fastapi.responses import JSONResponse

from setwise.errors import UnknownName
from setwise.service.api.schemas import EXAMPLES, QuestionBody
from setwise.service.api.views import PreviewView, QueryView
from setwise.service.auth.people import Identity
from setwise.service.auth.permissions import API
from setwise.service.problems import MEDIA_TYPE
from setwise.service.queries.jobs import Job, JobState
from setwise.service.queries.runner import Asked, RunningQuery
from setwise.service.replica import Service
from setwise.service.route import GuardedRoute, caller, service_of

router = APIRouter(prefix=API, tags=["queries"], route_class=GuardedRoute)

Key = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        pattern=r"^[A-Za-z0-9._:-]{1,128}$",
        description="1 to 128 letters, digits, dots, colons, dashes or underscores; asking again under the same key "
        "gives the same answer and costs nothing",
        examples=["monday-top-ten"],
    ),
]
QueryId = Annotated[str, Path(pattern="^[0-9a-f]{32}$", examples=["5f2b8c1e9a7d4c3b8e6f0a1b2c3d4e5f"])]
Question = Annotated[QuestionBody, JsonBody(examples=EXAMPLES)]
_ID = {"query": "$response.body#/id"}
_LINKS = {
    "poll": {"operationId": "show_query", "parameters": _ID},
    "cancel": {"operationId": "cancel_query", "parameters": _ID},
}


@router.post("/preview")
async def preview(request: Request, body: Question) -> PreviewView:
    """Say what a question would cost and how far off its answer may be; free, and no data is touched."""
    service = service_of(request)
    planned, left = await service.questions.preview(caller(request), body.raw_question(), service.threads)
    return PreviewView.of(planned, left)


@router.post(
    "/queries",
    response_model=QueryView,
    responses={
        200: {"links": _LINKS},
        202: {
            "links": _LINKS,
            "model": QueryView,
            "description": "Accepted; poll the address in Location.",
            "headers": {"Location": {"description": "where to poll", "schema": {"type": "string"}}},
        },
    },
)
async def ask(request: Request, response: Response, body: Question, idempotency_key: Key) -> QueryView | Response:
    """Ask a question. Quick ones are answered here; others are accepted with a location to poll."""
    service, identity = service_of(request), caller(request)
    job = await service.runner.answered(_started(service, identity, body, idempotency_key))
    match job.state:
        case JobState.FAILED:
            assert job.problem is not None
            problem = json.loads(job.problem)
            return JSONResponse(problem, problem["status"], media_type=MEDIA_TYPE)
        case JobState.RUNNING:
            response.status_code = 202
            response.headers["Location"] = f"{API}/queries/{job.id}"
    return await _view(service, job)


@router.get("/queries")
async def list_queries(
    request: Request, most: Annotated[int, Query(ge=1, le=200, examples=[50])] = 50
) -> list[QueryView]:
    """List one's own latest queries, newest first."""
    service = service_of(request)
    jobs = await service.threads.run(service.jobs.of, caller(request).person.name, most)
    return [await _view(service, job) for job in jobs]


@router.get("/queries/{query}", operation_id="show_query")
async def show_query(request: Request, query: QueryId) -> QueryView:
    """Show a query; one whose replica has died is taken up again."""
    service = service_of(request)
    job = await _visible(service, caller(request), query)
    if service.jobs.is_lost(job):  # run it as the person who asked it
        person = await service.threads.run(service.people.person, job.person)
        body = QuestionBody.model_validate_json(job.request)
        _started(service, Identity(person=person, token=""), body, job.key)
    return await _view(service, job)


@router.delete("/queries/{query}", operation_id="cancel_query")
async def cancel_query(request: Request, query: QueryId) -> QueryView:
    """Stop a query that runs; what it was charged stays, and the same key runs it again at no further charge."""
    service, identity = service_of(request), caller(request)
    job = await _visible(service, identity, query)
    job = await service.threads.run(service.jobs.cancel, job, by=identity.person.name)
    await service.runner.cancel(job.id)
    return await _view(service, job)


def _started(service: Service, identity: Identity, body: QuestionBody, key: str) -> RunningQuery:
    text = body.model_dump_json(exclude_none=True)
    asked = Asked(person=identity.person.name, account=body.account, key=key, request=text)
    return service.runner.start(asked, service.questions.work(identity, body.raw_question()))


async def _view(service: Service, job: Job) -> QueryView:
    """Show a query, with columns and rows where it was asked in SQL."""
    asked = json.loads(job.request)
    if asked["query"]["kind"] != "sql":
        return QueryView.of(job)
    statement = await service.threads.run(service.questions.statement, asked)
    return QueryView.of(job, None if statement is None else statement.outputs)


async def _visible(service: Service, identity: Identity, id_: str) -> Job:
    job = await service.threads.run(service.jobs.get, id_)
    if job.person != identity.person.name and not identity.is_steward:
        raise UnknownName("there is no such query, or it is not yours")
    return job
