"""Explore what uses add up to, ask a question, and see its answer; scripts send previews and questions to the API.

An answer is bars with intervals, the guarantee in words, downloads, and the code that would do the same.
"""

import json
import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import JSONResponse, Response

from setwise.accounting.guarantees import Use
from setwise.accounting.notation import format_use, kind_in_words
from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.budget import drawn_for
from setwise.analytics.present.plot import bars_of, measure_of_bars
from setwise.analytics.present.text import question_in_words
from setwise.analytics.query import SHAPES, STATISTICS, parameters_of
from setwise.analytics.schema import Kind
from setwise.analytics.sql.parser import Statement
from setwise.analytics.sql.result import RowCell
from setwise.errors import UnknownName
from setwise.ledger.status import AccountStatus
from setwise.mechanisms.labels import Label
from setwise.service.api.datasets import shown
from setwise.service.auth.people import Identity
from setwise.service.auth.permissions import API
from setwise.service.pages.rendering import render
from setwise.service.queries.jobs import Job
from setwise.service.replica import Service
from setwise.service.route import GuardedRoute, caller, paced, service_of
from setwise.service.workers.tasks import MOST_USES, Along, Curve, CurvePoints, Mixture

_EXAMPLES = {
    Kind.TEXT: "= 'a'",
    Kind.BOOLEAN: "= TRUE",
    Kind.DATE: "< '2024-01-01'",
    Kind.TIMESTAMP: "< '2024-01-01'",
    Kind.INSTANT: "< '2024-01-01 00:00:00+00:00'",
    Kind.INTEGER: ">= 10",
    Kind.FLOAT: ">= 10",
    Kind.DECIMAL: ">= 10",
    Kind.IDENTIFIER: "IS NOT NULL",
    Kind.OTHER: "IS NOT NULL",
}
"""The rest of a filter on a column of each kind."""

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)


@router.get("/ask")
async def ask_page(request: Request, account: str = "") -> Response:
    """Show the form, with what may be asked and who may pay."""
    service, identity = service_of(request), caller(request)
    choices = await service.threads.run(_choices, service, identity)
    return render(
        request,
        "ask.html",
        charts=True,
        choices=choices,
        chosen=account,
        csrf=identity.csrf or "",
        statistics=_form_of_statistics(),
    )


def _form_of_statistics() -> dict[str, object]:
    """Return the kinds of statistics for the form: their titles, and which of them have a column, bounds or rows."""
    words = {kind: parameters_of(SHAPES[kind]) for kind in STATISTICS}
    return {
        "titles": [(kind, statistic.heading()) for kind, statistic in STATISTICS.items()],
        "measured": " ".join(kind for kind in STATISTICS if "value" in words[kind]),
        "bounded": " ".join(kind for kind in STATISTICS if "low" in words[kind] and "clip" not in words[kind]),
        "rows": " ".join(kind for kind, statistic in STATISTICS.items() if statistic.over_rows),
    }


def _choices(service: Service, identity: Identity) -> dict[str, object]:
    """Return the data sets that this person has an account on, and the accounts."""
    own = service.accounts.all_own(identity)
    names = {each.dataset for each in own}
    datasets = [shown(service, dataset) for dataset in service.datasets.all() if dataset.name in names]
    for dataset in datasets:
        for role in ("items", "values", "filters"):
            for column in dataset[role]:
                column["example"] = _EXAMPLES[Kind(column["kind"])]
    known = {dataset["name"] for dataset in datasets}
    accounts = [each.summary() | {"draws": _draws(each)} for each in own if each.dataset in known]
    return {"datasets": datasets, "accounts": accounts}


def _draws(status: AccountStatus) -> list[dict[str, object]]:
    """Return the registered draws of an account: each as it is written and in words, and what it can be drawn for."""
    return [
        {"use": format_use(Use(use.guarantee)), "words": kind_in_words(use.guarantee), "role": drawn_for(use.guarantee)}
        for use in status.terms.uses
    ]


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


def to_spreadsheet(answer: PrivateAnswer, statement: Statement | None = None) -> str:
    """Return the items as CSV in which no label is a formula; leaving out a first apostrophe gives each label back.

    `statement` is the SQL that the answer is of.
    """
    if statement is not None and statement.shell is not None:
        result = statement.result(answer)
        cells = tuple({name: _quoted_cell(cell) for name, cell in row.items()} for row in result.rows)
        return replace(result, computed=cells).to_csv()
    quoted = replace(answer, items=tuple(replace(each, label=_quoted(each.label)) for each in answer.items))
    return quoted.to_csv() if statement is None else statement.result(quoted).to_csv()


def _quoted_cell(cell: RowCell) -> RowCell:
    return _quoted_text(cell) if isinstance(cell, str) else cell


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

    def written(job: Job, statement: Statement | None) -> str:
        return to_spreadsheet(_answer(job), statement)

    return await _download(request, query, written, "text/csv", "csv")


@router.get("/answers/{query}/answer.json")
async def answer_json(request: Request, query: QueryId) -> Response:
    """Give the answer as the command line prints it."""

    def written(job: Job, statement: Statement | None) -> str:
        answer = _answer(job)
        result = answer if statement is None else statement.result(answer)
        return result.to_json() + "\n"

    return await _download(request, query, written, "application/json", "json")


async def _shown(request: Request, query: str, template: str, *, charts: bool) -> Response:
    """Return a page of an answer, rendered in a thread: it may have many rows."""
    return await service_of(request).rendering.run(_answer_page, request, query, template, charts)


def _answer_page(request: Request, query: str, template: str, charts: bool) -> Response:
    job, statement = _asked(service_of(request), caller(request), query)
    asked = json.loads(job.request)
    url = service_of(request).settings.public_url.rstrip("/") or str(request.base_url).rstrip("/")
    answer = None if job.answer is None else PrivateAnswer.from_stored(job.answer)
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


def _asked(service: Service, identity: Identity, query: str) -> tuple[Job, Statement | None]:
    """Return a query that a person may see, and its parsed SQL, if it was asked in SQL."""
    job = service.jobs.visible(identity, query)
    return job, service.questions.statement(json.loads(job.request))


def _columns(answer: PrivateAnswer, statement: Statement | None) -> dict[str, list[Any]] | None:
    """Return what the table shows where an item is more than a name and a count; no column that is empty."""
    if statement is None and not answer.statistics and not answer.groups:
        return None
    found = answer.columns() if statement is None else statement.result(answer).by_column()
    return {name: values for name, values in found.items() if any(value is not None for value in values)}


def _answer(job: Job) -> PrivateAnswer:
    if job.answer is None:
        raise UnknownName("this query has no answer yet")
    return PrivateAnswer.from_stored(job.answer)


async def _download(
    request: Request, query: str, written: Callable[[Job, Statement | None], str], kind: str, ending: str
) -> Response:
    """Return an answer as a file, written in a thread: it may have many items."""
    service, identity = service_of(request), caller(request)
    text = await service.rendering.run(lambda: written(*_asked(service, identity, query)))
    response = paced(request, text, f"{kind}; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="setwise-{query[:8]}.{ending}"'
    return response


_KEPT = {"Cache-Control": "private, max-age=3600"}
_LARGEST_EPSILON = 2.0


@router.get("/explore")
async def explore(request: Request) -> Response:
    """Show the controls and the charts, which a script fills."""
    return render(request, "explore.html", charts=True, most=MOST_USES)


@router.get("/reference")
async def reference(request: Request) -> Response:
    """Show the routes of the API, which a script fills from their description and sends requests to."""
    return render(request, "reference.html", csrf=caller(request).csrf or "")


@router.get("/explore/curve")
async def explore_curve(
    request: Request,
    which: Curve,
    k: Annotated[int, Query(ge=1, le=MOST_USES)],
    epsilon: Annotated[float, Query(ge=0.001, le=_LARGEST_EPSILON)],
    delta: Annotated[float, Query(ge=1e-15, le=0.1)],
    share: Annotated[float, Query(ge=0.0, le=1.0)] = 0.5,
    along: Along = Along.NUMBER,
) -> Response:
    """Give one curve: a calculation with a time limit, remembered by the service and by the browser."""
    mixture = Mixture(number=k, share=share, epsilon=epsilon, delta=delta)
    points = CurvePoints(which=which, along=along, mixture=mixture)
    return JSONResponse(await service_of(request).calculators.run(points), headers=_KEPT)
