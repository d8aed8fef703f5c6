"""An answer: bars with intervals, the guarantee in words, downloads, and the code that would do the same."""

import json
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from setwise.analytics.private_answer import PrivateAnswer
from setwise.analytics.question_in_words import question_in_words
from setwise.errors import UnknownName
from setwise.service.guard import caller, service_of
from setwise.service.job import Job
from setwise.service.pages.page_route import PageRoute
from setwise.service.pages.rendering import render
from setwise.service.pages.snippets import curl_snippet, python_snippet
from setwise.service.pages.spreadsheet import to_spreadsheet

router = APIRouter(route_class=PageRoute, include_in_schema=False)

QueryId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]
_BARS = 50
_ROWS = 1000


@router.get("/answers/{query}")
async def answer_page(request: Request, query: QueryId) -> Response:
    """Show an answer on a page of its own, which can be kept and passed on to whoever may see it."""
    return await _shown(request, query, "answer.html", charts=True)


@router.get("/answers/{query}/panel")
async def answer_panel(request: Request, query: QueryId) -> Response:
    """Show an answer as a part of the page that asked."""
    return await _shown(request, query, "answer_panel.html", charts=False)


@router.get("/answers/{query}/answer.csv")
async def answer_csv(request: Request, query: QueryId) -> Response:
    """Give the items as CSV, for a spreadsheet."""
    answer = _answer(await _job(request, query))
    return _download(to_spreadsheet(answer), "text/csv", f"{query[:8]}.csv")


@router.get("/answers/{query}/answer.json")
async def answer_json(request: Request, query: QueryId) -> Response:
    """Give the answer as the command line prints it."""
    answer = _answer(await _job(request, query))
    return _download(answer.to_json() + "\n", "application/json", f"{query[:8]}.json")


async def _shown(request: Request, query: str, template: str, *, charts: bool) -> Response:
    job = await _job(request, query)
    asked = json.loads(job.request)
    url = str(request.base_url).rstrip("/")
    return render(
        request,
        template,
        charts=charts,
        job=job,
        asked=asked,
        question=question_in_words(asked["query"]),
        answer=None if job.answer is None else PrivateAnswer.from_stored(job.answer),
        problem=None if job.problem is None else json.loads(job.problem),
        bars=_BARS,
        rows=_ROWS,
        python=python_snippet(url, asked, job.key),
        curl=curl_snippet(url, asked, job.key),
    )


async def _job(request: Request, query: str) -> Job:
    service, identity = service_of(request), caller(request)
    job = await service.pool.run(service.jobs.get, query)
    if job.person != identity.person.name and not identity.is_steward:
        raise UnknownName("there is no such query, or it is not yours")
    return job


def _answer(job: Job) -> PrivateAnswer:
    if job.answer is None:
        raise UnknownName("this query has no answer yet")
    return PrivateAnswer.from_stored(job.answer)


def _download(text: str, kind: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="setwise-{name}"'}
    return Response(text, media_type=f"{kind}; charset=utf-8", headers=headers)
