"""Accounts: stewards open them, their analysts see what is left and what was charged."""

import json
from itertools import islice
from typing import Annotated, Literal, assert_never

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi import Body as JsonBody
from pydantic import BaseModel, Field

from setwise.ledger.status import AccountStatus
from setwise.ledger.terms import Terms, filter_terms
from setwise.service.api.schemas import (
    MOST_USES,
    Body,
    BracketView,
    Delta,
    Epsilon,
    FailureShare,
    Name,
    Rule,
    ShortText,
    Use,
)
from setwise.service.auth.permissions import API
from setwise.service.problems import at_field
from setwise.service.replica import Service
from setwise.service.route import GuardedRoute, caller, paced, service_of
from setwise.service.storage.question_budgets import QuestionBudget
from setwise.service.workers.tasks import CertifyTerms, ShowStatus

router = APIRouter(prefix=API, tags=["accounts"], route_class=GuardedRoute)

AccountName = Annotated[Name, Path(examples=["ada-events"])]
_PAGE_BYTES = 1 << 20
"""Characters after which a page of the history ends: the text of one entry may have ten megabytes."""

Every = Literal["day", "week", "month", "quarter", "year"]


class SetwiseAccountBody(Body):
    """An account that draws from registered uses, in any order."""

    kind: Literal["setwise"]
    name: Name
    analyst: Name
    dataset: Name
    uses: Annotated[list[Use], Field(min_length=1, max_length=MOST_USES)]
    delta: Delta
    every: Every | None = None
    wallet: Annotated[float, Field(ge=0.0, le=100.0, description="mu of a Gaussian wallet beside, for other uses")] = (
        0.0
    )
    failure: Annotated[float, Field(ge=0.0, lt=1.0, description="what the wallet's uses may fail with")] = 0.0


class FilterAccountBody(Body):
    """An account with a total, for uses of any parameters."""

    kind: Literal["filter"]
    name: Name
    analyst: Name
    dataset: Name
    epsilon: Epsilon
    delta: Delta
    every: Every | None = None
    rule: Rule = "wallet"
    failure_share: FailureShare | None = None


AccountBody = Annotated[
    SetwiseAccountBody | FilterAccountBody,
    Field(discriminator="kind"),
    JsonBody(
        examples=[
            {
                "kind": "setwise",
                "name": "ada-events",
                "analyst": "ada",
                "dataset": "events",
                "uses": ["bounded-range:0.1x50", "pure:0.1x50", "approx:0,1e-9x10"],
                "delta": 1e-6,
            },
            {
                "kind": "filter",
                "name": "ada-month",
                "analyst": "ada",
                "dataset": "events",
                "epsilon": 2.0,
                "delta": 1e-6,
                "every": "month",
            },
        ]
    ),
]


class PathView(BaseModel):
    """The odometer on the path; its upper end is null where failures leave nothing of delta for it."""

    lower: float = Field(examples=[0.4])
    upper: float | None = Field(examples=[1.2])


class AccountView(BaseModel):
    """An account's status. The upper end of `epsilon` is the promise at `delta`; `odometer` is what is used of it."""

    account: str = Field(examples=["ada-events"])
    kind: Literal["setwise", "filter", "cap"] = Field(examples=["setwise"])
    analyst: str = Field(examples=["ada"])
    dataset: str = Field(examples=["events"])
    epsilon: BracketView
    delta: float = Field(examples=[1e-6])
    method: str = Field(examples=["certified-optimum"])
    statement: str = Field(examples=["docs/optimal-composition.md, the set-wise optimum"])
    left: list[str] = Field(examples=[["bounded-range:0.1x15", "pure:0.1x15"]])
    spent: list[str] = Field(examples=[["bounded-range:0.1x10", "pure:0.1x10"]])
    share_left: float = Field(examples=[0.6])
    odometer: BracketView | None = Field(
        description="the epsilon so far, as a stopping rule: if no further question is asked, all answers together are "
        "private at its upper end and `delta`; null in lists, where it is not computed"
    )
    path_odometer: PathView | None = Field(
        None, description="what the privacy loss on the path of answers passes only with probability `delta`"
    )
    epsilon_left: float | None = Field(
        None, examples=[2.6], description="the largest epsilon of one further question; null for registered uses"
    )
    more_like_last: int | None = Field(
        None, examples=[14], description="how many more questions like the last one fit; null before the first"
    )
    charges: int = Field(examples=[1])
    state: Literal["open", "frozen", "closed"] = Field(examples=["open"])
    every: str | None = Field(examples=[None], description="the calendar period after which the budget is fresh")
    period: str | None = Field(examples=[None], description="the present period, of an account that has periods")


class EntryView(BaseModel):
    """An entry of an account.

    A charge with what was asked, a settlement with the answer and the draws returned, a slice (units taken of the data
    set's cap or given back), or a release: a part, such as a day of a live series, that an earlier charge has paid for.
    """

    entry: int = Field(examples=[1], description="its number in the account")
    at: str = Field(examples=["2026-11-15T12:00:00+00:00"])
    kind: Literal["charge", "settle", "slice", "release"] = Field(examples=["charge"])
    key: str = Field(examples=["monday-top-ten"])
    period: str | None = Field(examples=[None])
    uses: list[str] = Field(
        examples=[["bounded-range:0.1x10"]], description="drawn by a charge, returned by a settlement"
    )
    text: str = Field(
        examples=['{"query":{"kind":"top-k"}}'],
        description="as it was written: what was asked, what was answered, or the units of a slice; JSON",
    )
    hash: str = Field(examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"])


@router.get("/accounts", response_model=list[AccountView])
async def list_accounts(
    request: Request,
    after: Annotated[
        str, Query(max_length=64, examples=["ada-events"], description="the name of the last account already seen")
    ] = "",
    most: Annotated[int, Query(ge=1, le=1000, examples=[100])] = 1000,
) -> Response:
    """List one's own accounts by name; a steward sees all."""
    service, identity = service_of(request), caller(request)

    def rendered() -> str:
        statuses = service.accounts.all_visible(identity, after=after, most=most)
        return json.dumps([status.summary() | {"odometer": None} for status in statuses], ensure_ascii=False)

    return paced(request, await service.rendering.run(rendered))


@router.post("/accounts", status_code=201, response_model=AccountView)
async def open_account(request: Request, body: AccountBody) -> dict[str, object]:
    """Open an account for an analyst on a data set; its overall guarantee is certified now and never changes."""
    service, by = service_of(request), caller(request).person.name
    await service.threads.run(_check_names, service, body)
    match body:
        case SetwiseAccountBody():
            with at_field("uses"):
                terms = await service.calculators.run(
                    CertifyTerms(
                        name=body.name,
                        analyst=body.analyst,
                        dataset=body.dataset,
                        uses=tuple(body.uses),
                        delta=body.delta,
                        period=body.every,
                        wallet=body.wallet,
                        failure=body.failure,
                    )
                )
        case FilterAccountBody():
            with at_field("epsilon"):
                terms = filter_terms(
                    body.name,
                    epsilon=body.epsilon,
                    delta=body.delta,
                    analyst=body.analyst,
                    dataset=body.dataset,
                    period=body.every,
                    rule=body.rule,
                    failure_share=body.failure_share,
                )
        case _:
            assert_never(body)
    return await show_status(service, await service.threads.run(_open, service, terms, by))


@router.get("/accounts/{account}", response_model=AccountView)
async def show_account(request: Request, account: AccountName) -> dict[str, object]:
    """Show the status of an account."""
    service, identity = service_of(request), caller(request)
    return await show_status(
        service, await service.threads.run(lambda: service.accounts.visible(identity, account).status_by_entries())
    )


async def show_status(service: Service, status: AccountStatus) -> dict[str, object]:
    """Return the status of an account; a worker process computes the odometers of one that was charged."""
    return await service.calculators.run(ShowStatus(status=status)) if status.charges else status.to_dict()


@router.get("/accounts/{account}/history", response_model=list[EntryView])
async def history(
    request: Request,
    account: AccountName,
    after: Annotated[int, Query(ge=0, le=2**53, examples=[0], description="the last entry already seen")] = 0,
    most: Annotated[int, Query(ge=1, le=1000, examples=[100])] = 100,
) -> Response:
    """List the charges of an account and what each bought, in order; fewer than `most` where answers are large."""
    service, identity = service_of(request), caller(request)

    def rendered() -> str:
        service.accounts.visible(identity, account)
        entries: list[str] = []
        size = 0
        for entry in islice(service.ledger.history(account, after=after), most):
            entries.append(json.dumps(entry.to_dict(), ensure_ascii=False))
            size += len(entries[-1])
            if size >= _PAGE_BYTES:
                break
        return f"[{','.join(entries)}]"

    return paced(request, await service.rendering.run(rendered))


class StateBody(Body):
    """What an account may do: `open`, `frozen` (pays for nothing until it is opened again) or `closed` (for good)."""

    state: Literal["open", "frozen", "closed"]
    reason: ShortText = ""


@router.put("/accounts/{account}/state", response_model=AccountView)
async def set_state(
    request: Request,
    account: AccountName,
    body: Annotated[StateBody, JsonBody(examples=[{"state": "frozen", "reason": "the contract has ended"}])],
) -> dict[str, object]:
    """Freeze an account, open it again, or close it for good; what was charged before may still be answered."""
    service, identity = service_of(request), caller(request)

    def changed() -> AccountStatus:
        found = service.accounts.visible(identity, account)
        ledger = service.ledger
        act = {"open": ledger.thaw, "frozen": ledger.freeze, "closed": ledger.close_account}[body.state]
        if found.status().state != body.state:
            with at_field("state"):
                act(account, by=identity.person.name, reason=body.reason)
        return found.status()

    return await show_status(service, await service.threads.run(changed))


class QuestionBudgetBody(Body):
    """What a statement without a budget of its own costs, and after how many hours it is a new question."""

    epsilon: Epsilon
    delta: Delta = 1e-9
    fresh_hours: Annotated[float, Field(gt=0.0, le=8784.0, description="at most a year")] = 24.0


class QuestionBudgetView(BaseModel):
    """The question budget of an account, for statements over PostgreSQL's protocol."""

    epsilon: float = Field(examples=[0.1])
    delta: float = Field(examples=[1e-9])
    fresh_hours: float = Field(examples=[24.0])


@router.get("/accounts/{account}/question-budget", response_model=QuestionBudgetView)
async def show_question_budget(request: Request, account: AccountName) -> dict[str, float]:
    """Show what a statement costs that names no budget, and after how long it is a new question."""
    service, identity = service_of(request), caller(request)
    await service.threads.run(service.accounts.visible, identity, account)
    return (await service.threads.run(service.question_budgets.of, account)).to_dict()


@router.put("/accounts/{account}/question-budget", response_model=QuestionBudgetView)
async def set_question_budget(
    request: Request,
    account: AccountName,
    body: Annotated[QuestionBudgetBody, JsonBody(examples=[{"epsilon": 0.1, "delta": 1e-9, "fresh_hours": 24}])],
) -> dict[str, float]:
    """Set what a statement costs that names no budget; it holds for statements from now on."""
    service, identity = service_of(request), caller(request)
    await service.threads.run(service.accounts.visible, identity, account)
    budget = QuestionBudget(**body.model_dump())
    await service.threads.run(service.question_budgets.put, account, budget)
    return budget.to_dict()


def _check_names(service: Service, body: SetwiseAccountBody | FilterAccountBody) -> None:
    """Raise `UnknownName` or `AccountExists` before anything is computed."""
    with at_field("analyst"):
        service.people.person(body.analyst)
    with at_field("dataset"):
        service.datasets.get(body.dataset)
    with at_field("name"):
        service.accounts.check_free(body.name)


def _open(service: Service, terms: Terms, by: str) -> AccountStatus:
    """Open an account on its terms, and record who did."""
    with at_field("name"):
        status = service.ledger.open_account(terms)
    service.ledger.record("account.opened", by=by, subject=terms.name)
    return status
