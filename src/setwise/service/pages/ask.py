"""Pages to ask a question and see its answer, with curl and Python snippets, and to explore composed privacy loss.

The scripts of these pages send previews and questions to the API. An answer is shown as bars with intervals, with its
guarantee in words, downloads, and programs that ask the same question.
"""

import json
import re
import shlex
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from setwise.accounting.guarantees import Use
from setwise.accounting.notation import format_use, kind_in_words
from setwise.analytics.budget import DEFAULT_DELTA, default_delta, drawn_for
from setwise.analytics.present.text import charge_in_words, question_in_words
from setwise.analytics.query import LARGEST_K, SHAPES, STATISTICS, parameters_of
from setwise.analytics.schema import Kind
from setwise.analytics.sql.statement import Statement
from setwise.analytics.sql.suggestions.hint_clauses import with_options_clause
from setwise.contract import IDEMPOTENCY_HEADER, ColumnRecord, DatasetRecord
from setwise.errors import UnknownName
from setwise.ledger.status import AccountStatus
from setwise.ledger.terms import ACCOUNT_FAILURE_SHARE
from setwise.service.api.datasets import dataset_record
from setwise.service.api.queries import QueryId
from setwise.service.auth.people import Identity
from setwise.service.auth.permissions import API
from setwise.service.pages.rendering import render
from setwise.service.queries.jobs import Job
from setwise.service.replica import Service
from setwise.service.route import GuardedRoute, caller, paced, service_of
from setwise.service.workers.answers import BARS, ROWS, AnswerParts, ShowAnswer, WriteCsv, WriteJson, make
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
"""For each kind of column, an example of a filter condition after the name of the column."""

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)


@router.get("/ask")
async def ask_page(request: Request, account: str = "") -> Response:
    """Show the form to ask a question, with the datasets and accounts that the person may choose.

    The account named `account` is selected at first.
    """
    service, identity = service_of(request), caller(request)
    choices = await service.threads.run(_choices, service, identity)
    return render(
        request,
        "ask.html",
        charts=True,
        choices=choices,
        delta=f"{DEFAULT_DELTA:g}",
        chosen=account,
        csrf=identity.csrf or "",
        kinds=_kinds_of_questions(),
        fields=_kinds_with_fields(),
        largest_k=LARGEST_K,
    )


def _kinds_of_questions() -> list[tuple[str, str]]:
    """Return (kind, title) of each kind of question that the form offers, such as ("top-k", "Top k")."""
    statistics = [(kind, statistic.heading()) for kind, statistic in STATISTICS.items()]
    return [("top-k", "Top k"), ("histogram", "Histogram"), *statistics, ("sql", "SQL")]


def _kinds_with_fields() -> dict[str, str]:
    """Return which fields the question form shows for which kinds of questions.

    The result is a dict from names to texts. A name stands for one form field, or for several fields that are shown
    together. The text lists the kinds of questions that need these fields, such as "top-k histogram". The names are:

    - `ranked`: the fields item and value, for a top k or a histogram
    - `measured`: the column that a statistic aggregates
    - `bounded`: the clipping bounds low and high
    - `rows`: per_user, the most rows of a user that count
    - `grouped`: bins (value ranges to group by), domain and contributions
    - `picked`: the registered guarantee that pays for each pick of the exponential mechanism
    - `clip`, `k`, `at`, `where`: the single field of this name
    """
    parameters = {kind: set(parameters_of(SHAPES[kind])) for kind in SHAPES if kind != "query"}
    clipped = [kind for kind in parameters if "clip" in parameters[kind]]
    by_picks = [kind for kind, statistic in STATISTICS.items() if statistic.by_picks]
    with_k = [kind for kind in parameters if "k" in parameters[kind]]
    fields = {
        "ranked": [kind for kind in parameters if kind not in STATISTICS],
        "measured": [kind for kind in STATISTICS if "value" in parameters[kind]],
        "bounded": [kind for kind in parameters if "low" in parameters[kind] and kind not in clipped],
        "clip": clipped,
        "rows": ["count", *(kind for kind, statistic in STATISTICS.items() if statistic.over_rows)],
        "grouped": [kind for kind in parameters if "contributions" in parameters[kind]],
        "picked": [*with_k, *by_picks],
        "k": with_k,
        "at": [kind for kind in parameters if "at" in parameters[kind]],
        "where": [kind for kind in parameters if "where" in parameters[kind]],
    }
    return {name: " ".join(dict.fromkeys(kinds)) for name, kinds in fields.items()}


def _choices(service: Service, identity: Identity) -> dict[str, object]:
    """Return the `datasets` and `accounts` that a person may choose in the question form, as lists of JSON records.

    The form offers the accounts from which the person of `identity` may spend, and the datasets of these accounts. They
    are looked up in the stores of `service`.
    """
    statuses = service.accounts.all_own(identity)
    names = {status.dataset for status in statuses}
    records = [dataset_record(service, dataset) for dataset in service.datasets.all() if dataset.name in names]
    known = {record["name"] for record in records}
    return {
        "datasets": [_with_examples(record) for record in records],
        "accounts": [
            {**status.summary(), "draws": _draws(status), "question_delta": f"{default_delta(status.terms):g}"}
            for status in statuses
            if status.dataset in known
        ],
    }


def _with_examples(record: DatasetRecord) -> dict[str, object]:
    """Return a dataset's `record` in which each column also has an `example` of a filter, such as ">= 10"."""

    def with_example(columns: list[ColumnRecord]) -> list[dict[str, object]]:
        return [{**column, "example": _EXAMPLES[Kind(column["kind"])]} for column in columns]

    return {
        **record,
        "items": with_example(record["items"]),
        "values": with_example(record["values"]),
        "filters": with_example(record["filters"]),
    }


def _draws(status: AccountStatus) -> list[dict[str, object]]:
    """Return a dict for each guarantee that was registered when the account with this `status` was opened.

    Such an account pays for single mechanisms with these guarantees, so the question form offers them to choose from.

    - `use`: the notation, such as "pure:0.1"
    - `words`: a description for people
    - `role`: the mechanism of a question for which the guarantee can pay, or None if it can pay for none. "discover" is
      a pick of a group by the exponential mechanism, "counts" a noisy count, and "threshold" the threshold that hides
      groups with few users
    """
    return [
        {"use": format_use(Use(use.guarantee)), "words": kind_in_words(use.guarantee), "role": drawn_for(use.guarantee)}
        for use in status.terms.uses
    ]


def python_snippet(url: str, body: dict[str, Any], key: str) -> str:
    """Return a Python program that uses the client library to send the request `body` to the service at `url` again.

    The program uses the same idempotency `key`, so that it gets the stored answer and is not charged again.
    """
    query, spend = dict(body["query"]), dict(body.get("spend") or {})
    kind = query.pop("kind")
    if spend.pop("kind", None) == "draws" and "threshold_delta" in spend:
        spend["delta"] = spend.pop("threshold_delta")
    arguments = {**query, **spend, "key": key}
    call = kind.replace("-", "_")
    if kind == "sql":
        text = arguments.pop("text")
        words = f"    {text!r},\n" + "".join(f"    {name}={value!r},\n" for name, value in arguments.items())
    elif kind == "query":
        budget = ", ".join(f"{name}={value!r}" for name, value in spend.items())
        call = "ask"
        words = f"    setwise.Query.from_dict({body['query']!r}),\n    setwise.Total({budget}),\n    key={key!r},\n"
    else:
        words = "".join(f"    {name}={value!r},\n" for name, value in arguments.items() if value is not None)
    return (
        "import os\n\nimport setwise\n\n"
        f'client = setwise.connect(\n    {url!r},\n    token=os.environ["SETWISE_TOKEN"],\n)\n'
        f"dataset = client.dataset({body['dataset']!r}, account={body['account']!r})\n"
        f"answer = dataset.{call}(\n{words})\n"
        "print(answer.to_csv())\n"
    )


def curl_snippet(url: str, request_body: dict[str, Any], key: str) -> str:
    """Return a curl command that sends the stored request `request_body` to the service at `url` again.

    The command uses the same idempotency `key`, so that the service returns the stored answer. The shell variable
    SETWISE_TOKEN must hold a token.
    """
    body = json.dumps(request_body, indent=2, ensure_ascii=False)
    return (
        f"curl --silent --show-error {shlex.quote(f'{url}{API}/queries')} \\\n"
        '  --header "Authorization: Bearer $SETWISE_TOKEN" \\\n'
        f"  --header {shlex.quote(f'{IDEMPOTENCY_HEADER}: {key}')} \\\n"
        "  --header 'Content-Type: application/json' \\\n"
        f"  --data {shlex.quote(body)}\n"
    )


@router.get("/answers/{query}")
async def answer_page(request: Request, query: QueryId) -> Response:
    """Show the answer of the query with the id `query` on a page of its own.

    The address of the page can be kept, or sent to others who may see the answer.
    """
    return await _render_answer(request, query, "answer.html", charts=True)


@router.get("/answers/{query}/panel")
async def answer_panel(request: Request, query: QueryId) -> Response:
    """Return the answer of the query with the id `query` as a fragment of HTML, for the page with the form."""
    return await _render_answer(request, query, "answer_panel.html", charts=False)


@router.get("/answers/{query}/answer.csv")
async def answer_csv(request: Request, query: QueryId) -> Response:
    """Return the answer of the query with the id `query` as CSV for a spreadsheet: its groups with their noisy values.

    For a question in SQL, the CSV has the rows of the SQL's result.
    """
    return await _download(request, query, WriteCsv, "text/csv", "csv")


@router.get("/answers/{query}/answer.json")
async def answer_json(request: Request, query: QueryId) -> Response:
    """Return the answer of the query with the id `query` as the JSON that the command line prints."""
    return await _download(request, query, WriteJson, "application/json", "json")


async def _render_answer(request: Request, query: str, template: str, *, charts: bool) -> Response:
    """Return an HTML response that shows the answer of the query with the id `query` in the page `template`.

    With `charts` the page loads the chart library. The page is rendered in a thread, because an answer may have many
    rows.
    """
    return await service_of(request).rendering.run(_answer_page, request, query, template, charts)


def _answer_page(request: Request, query: str, template: str, charts: bool) -> Response:
    """Return an HTML response that shows the answer of the query with the id `query` in the page `template`.

    With `charts` the page loads the chart library. Raises `UnknownName` if the person who sent `request` may not see
    the query.
    """
    job, statement = _find_query(service_of(request), caller(request), query)
    request_body = json.loads(job.request)
    url = service_of(request).settings.public_url.rstrip("/") or str(request.base_url).rstrip("/")
    stated_query = request_body["query"] if statement is None else statement.query.to_dict()
    is_sql = statement is not None
    parts: AnswerParts | None = None
    if job.answer is not None:
        stored = service_of(request).questions.stored_answer(job, statement)
        parts = make(ShowAnswer(stored), stored, service_of(request).renderers)
        parts = parts if is_sql else _in_form_words(parts, stated_query)
    return render(
        request,
        template,
        charts=charts,
        job=job,
        asked=request_body,
        question=_describe_question(service_of(request), job, stated_query),
        sql=request_body["query"].get("text"),
        is_one=parts is not None
        and parts.bar_count == 1
        and stated_query.get("item") is None
        and stated_query["kind"] != "sql",
        columns=[] if parts is None else parts.columns,
        chart_data={} if parts is None else _chart_data(parts),
        row_count=0 if parts is None else parts.row_count,
        notes=() if parts is None else parts.notes,
        answer=None if parts is None else parts.answer,
        hint="" if parts is None else _page_hint(parts.answer.hint, is_sql=is_sql),
        drawn=[] if parts is None else parts.bars,
        bar_count=0 if parts is None else parts.bar_count,
        measure="" if parts is None else parts.measure,
        problem=None if job.problem is None else json.loads(job.problem),
        bars=BARS,
        rows=ROWS,
        python=python_snippet(url, request_body, job.key),
        curl=curl_snippet(url, request_body, job.key),
    )


_FIELDS = {
    "epsilon": "ε for this question",
    "contributions": "Items one user may count towards",
    "per_item": "Most of one user in one item",
}
"""For each parameter that a hint may name, the label of its field in the form of a question."""

_DECLARING = "a steward can declare it for the dataset (domains)"
"""How public groups are listed for a question in SQL, whose form has no field for them."""


def _page_hint(hint: str, *, is_sql: bool) -> str:
    """Return the `hint` of an answer in the words of the form, or of SQL if the question was asked in SQL."""
    if is_sql:
        return with_options_clause(hint, _DECLARING)
    hint = re.sub(r"(per_item = \d+), (?:or )?in SQL COUNT\([^()]*\([^()]*\)\)", r"\1", hint)
    hint = hint.replace("state it as the domain", "write it under “Labels that may come back”")
    return re.sub(rf"\b({'|'.join(_FIELDS)}) = ", lambda match: f"“{_FIELDS[match[1]]}” = ", hint)


def _in_form_words(parts: AnswerParts, query: dict[str, Any]) -> AnswerParts:
    """Return the parts of a page about an answer to `query`, which the form asked, without names of columns in SQL.

    The column of labels is headed by the columns that the question groups by, and "mean_age" becomes "mean of age". The
    sentences about the numbers say "the mean" where they say AVG.
    """
    item, value = query.get("item"), query.get("value")
    headings = {"item": item if isinstance(item, str) else "measured"}
    for column in parts.columns:
        name = str(column["name"])
        if value and name.endswith(f"_{value}") and not column["interval"]:
            headings[name] = f"{name.removesuffix(f'_{value}').replace('_', ' ')} of {value}"
    columns = [{**column, "name": headings.get(str(column["name"]), column["name"])} for column in parts.columns]
    charts = [{**chart, "name": headings.get(str(chart["name"]), chart["name"])} for chart in parts.charts]
    if item is None:  # the bars are then labelled by the statistics
        charts = [{**chart, "items": [_with_label(bar, headings) for bar in _bars_of(chart)]} for chart in charts]
    brief, left_out = (
        text.replace("AVG is the mean", "This is the mean").replace(" ask SUM(", " ask in SQL SUM(")
        for text in (parts.answer.brief, parts.answer.left_out)
    )
    return replace(
        parts,
        columns=columns,
        charts=charts,
        measure=headings.get(parts.measure, parts.measure),
        answer=replace(parts.answer, brief=brief, left_out=left_out),
    )


def _bars_of(chart: dict[str, object]) -> list[dict[str, Any]]:
    bars = chart["items"]
    assert isinstance(bars, list)
    return bars


def _with_label(bar: dict[str, Any], headings: dict[str, str]) -> dict[str, Any]:
    label = headings.get(bar["item"], bar["item"])
    return {**bar, "item": label, "cells": [headings.get(cell, cell) for cell in bar["cells"]]}


def _describe_question(service: Service, job: Job, stated_query: dict[str, Any]) -> str:
    """Return a short text for people that says what the query `job` asks, such as which column it groups by.

    If the query was answered, the text is made from the request that the ledger stores with the charge, in which bounds
    that the person left out are filled in. Otherwise the text is made from `stated_query`, the JSON object of the query
    as the person asked it. The account that paid is looked up in `service`.
    """
    account = service.accounts.account(job.account)
    charged = None if job.answer is None else account.charged_request(job.key)
    unit = account.unit
    return question_in_words(stated_query, unit) if charged is None else charge_in_words(charged, unit)


def _chart_data(parts: AnswerParts) -> dict[str, object]:
    """Return the data from which the answer page's script draws charts: a dict with the keys `charts` and `line`.

    - `charts`: a list with a dict for each statistic of the answer `parts`: its name, and its first 50 groups as bars
    - `line`: True if the groups are times, so that the script shows a line chart first; otherwise it shows bars first
    """
    return {"charts": parts.charts, "line": parts.over_time}


def _find_query(service: Service, identity: Identity, query: str) -> tuple[Job, Statement | None]:
    """Return the stored query with the id `query`, and its parsed SQL statement (None if it was not asked in SQL).

    `service` has the stored queries. Raises `UnknownName` if the person of `identity` may not see the query.
    """
    job = service.jobs.visible(identity, query)
    return job, service.questions.statement(job)


async def _download(
    request: Request, query: str, kind_of_file: type[WriteCsv] | type[WriteJson], media_type: str, ending: str
) -> Response:
    """Return the answer of the query with the id `query` as a file to download, in the format of `kind_of_file`.

    - `kind_of_file`: the task that writes the file; a large answer is written in a worker process
    - `media_type`: the file's type, such as "text/csv"
    - `ending`: the ending of the file's name, such as "csv"

    Raises `UnknownName` if the query has no answer yet, or if the person who sent `request` may not see the query.
    """
    service, identity = service_of(request), caller(request)

    def write() -> str:
        job, statement = _find_query(service, identity, query)
        if job.answer is None:
            raise UnknownName("this query has no answer yet")
        stored = service.questions.stored_answer(job, statement)
        return make(kind_of_file(stored), stored, service.renderers)

    response = paced(request, await service.rendering.run(write), f"{media_type}; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="setwise-{query[:8]}.{ending}"'
    return response


_CACHED = {"Cache-Control": "private, max-age=3600"}
"""Lets a browser keep a curve for an hour: equal parameters always give the same curve."""

_LARGEST_EPSILON = 2.0
"""The largest epsilon of one use on the page; larger ones take longer to compose than a page may wait."""


@router.get("/explore")
async def explore(request: Request) -> Response:
    """Show the page with the budget calculator and the charts that compare composition bounds.

    The page's script fetches the bounds from the service.
    """
    return render(
        request,
        "explore.html",
        charts=True,
        most=MOST_USES,
        csrf=caller(request).csrf or "",
        failure_share=ACCOUNT_FAILURE_SHARE,
    )


@router.get("/reference")
async def reference(request: Request) -> Response:
    """Show the reference of the API.

    A script lists the routes from the OpenAPI document, and can send requests to them.
    """
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
    """Return one curve of the page that compares composition bounds, as JSON: overall epsilons at about ten x values.

    - `k`: how many mechanisms are composed, each with this `epsilon`
    - `share`: the share of bounded-range mechanisms among these, from 0 to 1; all others are pure DP
    - `which`: the name of the curve: one of the bounds for these mechanisms, or the overall epsilon of `k` noisy counts
      that are released instead of them
    - `delta`: the delta of the overall epsilon
    - `along`: the quantity on the x axis, which replaces `k` or `share`: the number of mechanisms, or the share that is
      bounded-range
    """
    mixture = Mixture(number=k, share=share, epsilon=epsilon, delta=delta)
    points = CurvePoints(which=which, along=along, mixture=mixture)
    return JSONResponse(await service_of(request).calculators.run(points), headers=_CACHED)
