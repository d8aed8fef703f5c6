"""Explore what uses add up to, ask a question, and see its answer; scripts send previews and questions to the API.

An answer is bars with intervals, the guarantee in words, downloads, and the code that would do the same.
"""

import json
import shlex
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from starlette.responses import JSONResponse, Response

from setwise.accounting.guarantees import Use
from setwise.accounting.notation import format_use, kind_in_words
from setwise.analytics.budget import drawn_for
from setwise.analytics.present.text import question_in_words
from setwise.analytics.query import SHAPES, STATISTICS, parameters_of
from setwise.analytics.schema import Kind
from setwise.analytics.sql.parser import Statement
from setwise.errors import UnknownName
from setwise.ledger.status import AccountStatus
from setwise.service.api.datasets import shown
from setwise.service.auth.people import Identity
from setwise.service.auth.permissions import API
from setwise.service.pages.rendering import render
from setwise.service.queries.jobs import Job
from setwise.service.replica import Service
from setwise.service.route import GuardedRoute, caller, paced, service_of
from setwise.service.workers.answers import BARS, ROWS, AnswerParts, ShowAnswer, StoredAnswer, WriteCsv, WriteJson, make
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


QueryId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]


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
    return await _download(request, query, WriteCsv, "text/csv", "csv")


@router.get("/answers/{query}/answer.json")
async def answer_json(request: Request, query: QueryId) -> Response:
    """Give the answer as the command line prints it."""
    return await _download(request, query, WriteJson, "application/json", "json")


async def _shown(request: Request, query: str, template: str, *, charts: bool) -> Response:
    """Return a page of an answer, rendered in a thread: it may have many rows."""
    return await service_of(request).rendering.run(_answer_page, request, query, template, charts)


def _answer_page(request: Request, query: str, template: str, charts: bool) -> Response:
    job, statement = _asked(service_of(request), caller(request), query)
    asked = json.loads(job.request)
    url = service_of(request).settings.public_url.rstrip("/") or str(request.base_url).rstrip("/")
    meant = asked["query"] if statement is None else statement.query.to_dict()
    parts: AnswerParts | None = None
    if job.answer is not None:
        stored = StoredAnswer(text=job.answer, statement=statement)
        parts = make(ShowAnswer(stored), stored, service_of(request).renderers)
    return render(
        request,
        template,
        charts=charts,
        job=job,
        asked=asked,
        question=question_in_words(meant),
        sql=asked["query"].get("text"),
        is_one=parts is not None and parts.bar_count == 1 and meant.get("item") is None and meant["kind"] != "sql",
        table=None if parts is None else parts.table,
        row_count=0 if parts is None else parts.row_count,
        answer=None if parts is None else parts.answer,
        drawn=[] if parts is None else parts.bars,
        bar_count=0 if parts is None else parts.bar_count,
        measure="" if parts is None else parts.measure,
        problem=None if job.problem is None else json.loads(job.problem),
        bars=BARS,
        rows=ROWS,
        python=python_snippet(url, asked, job.key),
        curl=curl_snippet(url, asked, job.key),
    )


def _asked(service: Service, identity: Identity, query: str) -> tuple[Job, Statement | None]:
    """Return a query that a person may see, and its parsed SQL, if it was asked in SQL."""
    job = service.jobs.visible(identity, query)
    return job, service.questions.statement(json.loads(job.request))


async def _download(
    request: Request, query: str, kind_of_file: type[WriteCsv] | type[WriteJson], media_type: str, ending: str
) -> Response:
    """Return an answer as a file."""
    service, identity = service_of(request), caller(request)

    def write() -> str:
        job, statement = _asked(service, identity, query)
        if job.answer is None:
            raise UnknownName("this query has no answer yet")
        stored = StoredAnswer(text=job.answer, statement=statement)
        return make(kind_of_file(stored), stored, service.renderers)

    response = paced(request, await service.rendering.run(write), f"{media_type}; charset=utf-8")
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
