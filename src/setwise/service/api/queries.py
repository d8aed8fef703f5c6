"""Previews and queries: ask under a key, wait or poll, cancel."""

import json
import re
from dataclasses import asdict, dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from setwise.accounting.brackets import Interaction
from setwise.accounting.notation import format_use, use_in_words
from setwise.analytics.answer import EARLIER_NOTE
from setwise.service.api.schemas import EXAMPLES, BracketView, QuestionBody
from setwise.service.auth.people import Identity
from setwise.service.auth.permissions import API
from setwise.service.problems import MEDIA_TYPE, ProblemView
from setwise.service.queries.jobs import Job, JobState
from setwise.service.queries.runner import QueryRequest, Question, RunningQuery
from setwise.service.replica import Service
from setwise.service.route import GuardedRoute, caller, paced, service_of
from setwise.service.workers.answers import StoredAnswer, WriteRows, make

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
QUESTION_IN_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"$ref": "#/components/schemas/QuestionBody", "examples": EXAMPLES}}
        },
    }
}
"""How the API's description shows the body of a question, which the routes read themselves."""

_LARGE = 64 * 1024
"""Characters of a request and its answer beyond which they are written in a thread of their own."""

_ID = {"query": "$response.body#/id"}
_LINKS = {
    "poll": {"operationId": "show_query", "parameters": _ID},
    "cancel": {"operationId": "cancel_query", "parameters": _ID},
}


class PreviewView(BaseModel):
    """What a question would cost at most, and how far off its answer may be. Free; no data was touched.

    With probability `confidence`: a count is off by at most `radius`, an item that leads by `detectable` is found, and
    no pick misses the best item left by more than `shortfall`. null where the mechanism has no such number.
    """

    mechanism: str = Field(examples=["unknown_gumbel"])
    why: str = Field(examples=["unknown_gumbel: given by what is drawn from the account"])
    uses: list[str] = Field(examples=[["bounded-range:0.1x10", "pure:0.1x10", "approx:0.0,1e-09"]])
    interaction: Interaction = Field(examples=["setwise"])
    epsilon: BracketView
    delta: float = Field(examples=[1e-6])
    method: str = Field(examples=["certified-optimum"])
    statement: str = Field(examples=["docs/optimal-composition.md, the set-wise optimum"])
    expected_error: float | None = Field(examples=[9.99])
    radius: int | None = Field(examples=[30])
    detectable: int | None = Field(examples=[None])
    shortfall: int | None = Field(examples=[214])
    confidence: float = Field(examples=[0.95])
    alone: dict[str, float] | None = Field(examples=[None], description="epsilon and delta of the question by itself")
    left: list[str] = Field(examples=[["bounded-range:0.1x50", "pure:0.1x50"]])
    words: list[str] = Field(examples=[["10 picks at ε 0.1"]], description="`uses` as pages show them, in order")


class AnswerItemView(BaseModel):
    """One item, the whole number to report, an interval around it, and the noisy count as it was drawn.

    `interval_note` of the answer says what its intervals promise. `noisy` may be negative and is there to be added up.
    Answers about other statistics have, under the name of each, its `value` and `interval` instead.
    """

    model_config = ConfigDict(extra="allow")

    item: str | int | dict[str, str | int] = Field(examples=["the"], description="by column where there are several")
    count: int | None = Field(default=None, examples=[731])
    interval: tuple[int, int] | None = Field(default=None, examples=[[701, 761]])
    noisy: int | None = Field(default=None, examples=[731])


class AnswerView(BaseModel):
    """A private answer, as it is stored; `alone` is the epsilon and delta of a question to a filter, by itself."""

    kind: str = Field(examples=["top-k"])
    measure: str = Field(examples=["users"])
    items: list[AnswerItemView]
    mechanism: str = Field(examples=["unknown_gumbel"])
    interaction: Interaction = Field(examples=["setwise"])
    epsilon: BracketView
    delta: float = Field(examples=[1e-6])
    method: str = Field(examples=["certified-optimum"])
    statement: str = Field(examples=["docs/optimal-composition.md, the set-wise optimum"])
    spent: list[str] = Field(examples=[["bounded-range:0.1x10", "pure:0.1x10"]])
    complete: bool = Field(examples=[True])
    reason: str = Field(examples=["all 10 items were found"])
    why: str = Field(examples=["unknown_gumbel: given by what is drawn from the account"])
    confidence: float = Field(examples=[0.95])
    interval_note: str = Field(
        default=EARLIER_NOTE, examples=["Each interval holds the exact number with probability 95%."]
    )
    left_out: str = Field(
        default="", examples=[""], description="which rows the numbers do not include because contributions are bounded"
    )
    axes: list[str] = Field(
        default=[],
        examples=[["time"]],
        description="whether the labels of each group column are names, numbers or time",
    )
    hint: str = Field(
        default="", examples=[""], description="what would have shown more, where an answer came out short"
    )
    alone: tuple[float, float] | None = Field(default=None, examples=[[0.5, 1e-7]])
    groups: list[str] = Field(default=[], examples=[[]], description="the columns of items that have several")
    statistics: list[str] = Field(default=[], examples=[[]], description="the names of statistics other than one count")
    found: dict[str, Any] = Field(default={}, examples=[{}], description="bounds that were left to be found, by column")


class OutputView(BaseModel):
    """A column that SQL selects: its name, and which group or statistic of the answer it is."""

    name: str = Field(examples=["users"])
    group: int | None = Field(default=None, examples=[None])
    statistic: int | None = Field(default=None, examples=[0])
    interval: bool = Field(
        default=False, examples=[False], description="whether a column that is computed of released rows has intervals"
    )


class QueryView(BaseModel):
    """A query: poll it while it is running; `answer` is there when it is done, `problem` when it failed.

    A question in SQL has its `columns`, and its answer in `rows` as well: by column the cell of a group, or the value
    and interval of a statistic.
    """

    id: str = Field(examples=["5f2b8c1e9a7d4c3b8e6f0a1b2c3d4e5f"])
    account: str = Field(examples=["ada-events"])
    key: str = Field(examples=["monday-top-ten"])
    state: JobState = Field(examples=["done"])
    progress: float = Field(examples=[1.0])
    created_at: float = Field(examples=[1760000000.0])
    asked: dict[str, Any] = Field(examples=[{"dataset": "events", "query": {"kind": "top-k", "item": "word", "k": 10}}])
    answer: AnswerView | None = None
    problem: ProblemView | None = None
    columns: list[OutputView] | None = None
    rows: list[dict[str, Any]] | None = Field(
        default=None, examples=[[{"word": "the", "users": {"value": 731, "interval": [701, 761]}}]]
    )
    row_problem: str | None = Field(
        default=None,
        examples=[None],
        description="why SQL could not be computed of released rows, which `rows` then are",
    )


@dataclass(frozen=True, slots=True)
class ReadQuestion:
    """A question as its body states it, and the text under which it is stored: the given fields alone, as JSON."""

    question: Question
    text: str

    @staticmethod
    def parse(content: bytes | str) -> "ReadQuestion":
        """Return the question of a body, or raise `RequestValidationError` with the place of what is wrong."""
        try:
            body = QuestionBody.model_validate_json(content)
        except ValidationError as error:
            errors = error.errors(include_url=False, include_input=False)
            raise RequestValidationError([{**each, "loc": ("body", *each["loc"])} for each in errors]) from None
        return ReadQuestion(body.question(), body.model_dump_json(exclude_none=True))


async def _read_question(request: Request) -> ReadQuestion:
    """Return the question of a request; a large body is read in a thread, because 100,000 labels take 0.1 s."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if not re.fullmatch(r"application/([\w.-]+\+)?json", kind):
        raise RequestValidationError([{"type": "missing", "loc": ("body",), "msg": "", "input": None}])
    content = await request.body()
    if len(content) <= _LARGE:
        return ReadQuestion.parse(content)
    return await service_of(request).rendering.run(ReadQuestion.parse, content)


@router.post("/preview", response_model=PreviewView, openapi_extra=QUESTION_IN_BODY)
async def preview(request: Request) -> dict[str, object]:
    """Say what a question would cost and how far off its answer may be; free, and no data is touched."""
    service = service_of(request)
    read = await _read_question(request)
    plan, left = await service.questions.preview(caller(request), read.question, service.threads)
    return plan.to_dict() | {
        "left": [format_use(use) for use in left],
        "words": [use_in_words(use) for use in plan.uses],
    }


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
    openapi_extra=QUESTION_IN_BODY,
)
async def ask(request: Request, idempotency_key: Key) -> Response:
    """Ask a question. Quick ones are answered here; others are accepted with a location to poll."""
    service, identity = service_of(request), caller(request)
    job = await service.runner.answered(start_query(service, identity, await _read_question(request), idempotency_key))
    if job.state is JobState.FAILED:
        assert job.problem is not None
        return Response(job.problem, json.loads(job.problem)["status"], media_type=MEDIA_TYPE)
    response = await _response(request, job)
    if job.state is JobState.RUNNING:
        response.status_code = 202
        response.headers["Location"] = f"{API}/queries/{job.id}"
    return response


@router.get("/queries", response_model=list[QueryView])
async def list_queries(
    request: Request,
    most: Annotated[int, Query(ge=1, le=200, examples=[50])] = 50,
    after: Annotated[
        str | None,
        Query(
            pattern="^[0-9a-f]{32}$",
            examples=["5f2b8c1e9a7d4c3b8e6f0a1b2c3d4e5f"],
            description="the id of the last query already seen",
        ),
    ] = None,
) -> Response:
    """List one's own latest queries, newest first; fewer than `most` where their answers are large."""
    service, identity = service_of(request), caller(request)

    def rendered() -> str:
        seen = None if after is None else service.jobs.visible(identity, after)
        jobs = service.jobs.of(identity.person.name, most, after=seen)
        return f"[{','.join(render_query(service, job) for job in jobs)}]"

    return paced(request, await service.rendering.run(rendered))


@router.get("/queries/{query}", operation_id="show_query", response_model=QueryView)
async def show_query(request: Request, query: QueryId) -> Response:
    """Show a query; one whose replica has died is taken up again."""
    service = service_of(request)
    job = await service.threads.run(service.jobs.visible, caller(request), query)
    if service.jobs.is_lost(job):  # run it as the person who asked it
        person = await service.threads.run(service.people.person, job.person)
        start_query(service, Identity(person=person, token=""), ReadQuestion.parse(job.request), job.key)
    return await _response(request, job)


@router.delete("/queries/{query}", operation_id="cancel_query", response_model=QueryView)
async def cancel_query(request: Request, query: QueryId) -> Response:
    """Stop a query that runs; what it was charged stays, and the same key runs it again at no further charge."""
    service, identity = service_of(request), caller(request)
    job = await service.threads.run(service.jobs.visible, identity, query)
    job = await service.threads.run(service.jobs.cancel, job, by=identity.person.name)
    await service.runner.cancel(job.id)
    return await _response(request, job)


def start_query(service: Service, identity: Identity, read: ReadQuestion, key: str) -> RunningQuery:
    """Start a query under a key, or return the one that runs under it; every door of the service asks through this."""
    return service.runner.start(QueryRequest(identity=identity, question=read.question, key=key, text=read.text))


async def _response(request: Request, job: Job) -> Response:
    """Return a query as JSON, written in a thread if that takes time: for SQL, which is parsed, and large answers."""
    service = service_of(request)
    large = len(job.request) + len(job.answer or "") > _LARGE
    if large or _is_sql(job):
        return paced(request, await service.rendering.run(render_query, service, job))
    return paced(request, render_query(service, job))


def _is_sql(job: Job) -> bool:
    return '"kind":"sql"' in job.request


def render_query(service: Service, job: Job) -> str:
    """Return the JSON text of a query, around the texts of its request and answer, which are stored as JSON.

    Columns and rows are added where it was asked in SQL.
    """
    shown = {"id": job.id, "account": job.account, "key": job.key, "state": job.state, "progress": job.progress}
    parts = {
        **{name: json.dumps(value) for name, value in shown.items()},
        "created_at": json.dumps(job.created_at),
        "asked": job.request,
        "answer": job.answer or "null",
        "problem": job.problem or "null",
    }
    statement = service.questions.statement(json.loads(job.request)) if _is_sql(job) else None
    if statement is not None and job.answer is not None:
        stored = StoredAnswer(text=job.answer, statement=statement)
        parts |= make(WriteRows(stored), stored, service.renderers)
    elif statement is not None:
        parts["columns"] = json.dumps([asdict(output) for output in statement.outputs], ensure_ascii=False)
    for name in ("columns", "rows", "row_problem"):
        parts.setdefault(name, "null")
    return "{" + ",".join(f'"{name}":{text}' for name, text in parts.items()) + "}"
