"""An answer: bars with intervals, the guarantee in words, downloads, and the code that would do the same."""

import json
import shlex
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.present.plot import bars_of, measure_of_bars
from setwise.analytics.present.text import question_in_words
from setwise.analytics.sql.parser import Statement
from setwise.analytics.sql.result import Output, SqlAnswer
from setwise.errors import UnknownName
from setwise.mechanisms.labels import Label
from setwise.service.auth.permissions import API
from setwise.service.pages.rendering import render
from setwise.service.queries.jobs import Job
from setwise.service.route import GuardedRoute, caller, service_of


def python_snippet(url: str, asked: dict[str, Any], key: str) -> str:
    """Return a program for the Python client; under the same key it gets the same answer and pays nothing."""
    query, spend = dict(asked["query"]), dict(asked.get("spend") or {})
    kind = query.pop("kind")
    if spend.pop("kind", None) == "draws" and "threshold_delta" in spend:
        spend["delta"] = spend.pop("threshold_delta")
    given = {**query, **spend, "key": key}
    call = kind.replace("-", "_")
    if kind == "sql":
        text = given.pop("text")
        words = f"    {text!r},\n" + "".join(f"    {name}={value!r},\n" for name, value in given.items())
    elif kind == "query":
        budget = ", ".join(f"{name}={value!r}" for name, value in spend.items())
        call = "ask"
        words = f"    setwise.Query.from_dict({asked['query']!r}),\n    setwise.Total({budget}),\n    key={key!r},\n"
    else:
        words = "".join(f"    {name}={value!r},\n" for name, value in given.items() if value is not None)
    return (
        "import os\n\nimport setwise\n\n"
        f'client = setwise.connect(\n    {url!r},\n    token=os.environ["SETWISE_TOKEN"],\n)\n'
        f"dataset = client.dataset({asked['dataset']!r}, account={asked['account']!r})\n"
        f"answer = dataset.{call}(\n{words})\n"
        "print(answer.to_csv())\n"
    )


def curl_snippet(url: str, asked: dict[str, Any], key: str) -> str:
    """Return a command for a shell that has the token in SETWISE_TOKEN."""
    body = json.dumps(asked, indent=2, ensure_ascii=False)
    return (
        f"curl --silent --show-error {shlex.quote(f'{url}{API}/queries')} \\\n"
        '  --header "Authorization: Bearer $SETWISE_TOKEN" \\\n'
        f"  --header {shlex.quote(f'Idempotency-Key: {key}')} \\\n"
        "  --header 'Content-Type: application/json' \\\n"
        f"  --data {shlex.quote(body)}\n"
    )


_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
_QUOTE = "'"


def to_spreadsheet(answer: PrivateAnswer, outputs: tuple[Output, ...] | None = None) -> str:
    """Return the items as CSV in which no label is a formula; leaving out a first apostrophe gives each label back.

    `outputs` are the columns that SQL selected.
    """
    quoted = replace(answer, items=tuple(replace(each, label=_quoted(each.label)) for each in answer.items))
    return quoted.to_csv() if outputs is None else SqlAnswer(answer=quoted, outputs=outputs).to_csv()


def _quoted(label: Label) -> Label:
    """Return a label as text: with an apostrophe before what might be a formula, and before an apostrophe.

    >>> _quoted("=1+1"), _quoted("'x"), _quoted("a=b"), _quoted(-5)
    ("'=1+1", "''x", 'a=b', -5)
    """
    if isinstance(label, tuple):
        return tuple(cell if isinstance(cell, int) else _quoted_text(cell) for cell in label)
    return label if isinstance(label, int) else _quoted_text(label)


def _quoted_text(text: str) -> str:
    return _QUOTE + text if text.startswith((*_FORMULA, _QUOTE)) else text


def bars(answer: PrivateAnswer, statement: Statement | None) -> list[dict[str, object]]:
    """Return the bars to draw, with the names that SQL gave to statistics."""
    named = {} if statement is None else {each.statistic: each.name for each in statement.outputs}
    names = [named.get(place, name) for place, name in enumerate(answer.statistics)]
    return [
        {"item": each.label, "cells": each.cells, "count": each.value, "interval": each.interval}
        for each in bars_of(answer, names)
    ]


router = APIRouter(route_class=GuardedRoute, include_in_schema=False)

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
    job = await _job(request, query)
    statement = await _statement(request, json.loads(job.request))
    text = to_spreadsheet(_answer(job), None if statement is None else statement.outputs)
    return _download(text, "text/csv", f"{query[:8]}.csv")


@router.get("/answers/{query}/answer.json")
async def answer_json(request: Request, query: QueryId) -> Response:
    """Give the answer as the command line prints it."""
    job = await _job(request, query)
    statement = await _statement(request, json.loads(job.request))
    answer = _answer(job)
    shown = answer if statement is None else SqlAnswer(answer=answer, outputs=statement.outputs)
    return _download(shown.to_json() + "\n", "application/json", f"{query[:8]}.json")


async def _shown(request: Request, query: str, template: str, *, charts: bool) -> Response:
    job = await _job(request, query)
    asked = json.loads(job.request)
    url = str(request.base_url).rstrip("/")
    answer = None if job.answer is None else PrivateAnswer.from_stored(job.answer)
    statement = await _statement(request, asked)
    meant = asked["query"] if statement is None else statement.query.to_dict()
    drawn = [] if answer is None else bars(answer, statement)
    return render(
        request,
        template,
        charts=charts,
        job=job,
        asked=asked,
        question=question_in_words(meant),
        sql=asked["query"].get("text"),
        is_one=len(drawn) == 1 and meant.get("item") is None and meant["kind"] != "sql",
        table=None if answer is None else _columns(answer, statement),
        answer=answer,
        drawn=drawn,
        measure="" if answer is None else measure_of_bars(answer),
        problem=None if job.problem is None else json.loads(job.problem),
        bars=_BARS,
        rows=_ROWS,
        python=python_snippet(url, asked, job.key),
        curl=curl_snippet(url, asked, job.key),
    )


async def _job(request: Request, query: str) -> Job:
    service, identity = service_of(request), caller(request)
    job = await service.threads.run(service.jobs.get, query)
    if job.person != identity.person.name and not identity.is_steward:
        raise UnknownName("there is no such query, or it is not yours")
    return job


async def _statement(request: Request, asked: dict[str, Any]) -> Statement | None:
    """Return what the SQL of a request asks; None for one in words, or that only another version could read."""
    if asked["query"]["kind"] != "sql":
        return None
    service = service_of(request)
    return await service.threads.run(service.questions.statement, asked)


def _columns(answer: PrivateAnswer, statement: Statement | None) -> dict[str, list[Any]] | None:
    """Return what the table shows where an item is more than a name and a count; no column that is empty."""
    if statement is None and not answer.statistics and not answer.groups:
        return None
    found = answer.columns() if statement is None else SqlAnswer(answer=answer, outputs=statement.outputs).by_column()
    return {name: values for name, values in found.items() if any(value is not None for value in values)}


def _answer(job: Job) -> PrivateAnswer:
    if job.answer is None:
        raise UnknownName("this query has no answer yet")
    return PrivateAnswer.from_stored(job.answer)


def _download(text: str, kind: str, name: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="setwise-{name}"'}
    return Response(text, media_type=f"{kind}; charset=utf-8", headers=headers)
