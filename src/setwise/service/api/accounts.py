"""Routes for accounts: stewards open them, and analysts see their remaining budgets and charges."""

import json
from dataclasses import replace
from itertools import islice
from typing import Annotated, Literal, assert_never

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi import Body as JsonBody
from pydantic import Field

from setwise.contract import AccountRecord, EntryRecord, Every, QuestionBudgetRecord
from setwise.ledger.status import AccountStatus
from setwise.ledger.terms import Terms
from setwise.service.api.schemas import (
    MOST_USES,
    AccountRule,
    Body,
    Delta,
    Epsilon,
    FailureShare,
    Name,
    ShortText,
    Use,
)
from setwise.service.auth.permissions import API
from setwise.service.problems import at_field
from setwise.service.replica import Service
from setwise.service.route import GuardedRoute, caller, paced, service_of
from setwise.service.storage.question_budgets import QuestionBudget
from setwise.service.workers.tasks import CertifyBudget, CertifyTerms, ShowStatus

router = APIRouter(prefix=API, tags=["accounts"], route_class=GuardedRoute)

AccountName = Annotated[Name, Path(examples=["ada-events"])]

_PAGE_CHARACTERS = 1 << 20
"""Characters after which a page of the history ends, because the text of one entry may have ten megabytes."""


class SetwiseAccountBody(Body):
    """Request to open an account for a fixed set of uses of mechanisms, which may be spent in any order.

    - `kind`: always "setwise", which tells this request from a `FilterAccountBody`
    - `name`: the name of the account
    - `analyst`: the person who may ask about `dataset`
    - `uses`: the set, which is registered now; "pure:0.1x25", for example, are 25 uses of a 0.1-DP mechanism
    - `delta`: the delta at which the overall epsilon of all uses is certified
    - `every`: the calendar period after which all registered uses are available again, or None
    - `wallet`: a second budget, which pays for uses that are not registered. It is stated as the mu of one Gaussian
      mechanism (sensitivity over noise scale): all unregistered uses together reveal at most as much as that mechanism.
      0 for no second budget
    - `failure`: the largest sum of the failure probabilities (of revealing everything) of all unregistered uses
    """

    kind: Literal["setwise"]
    name: Name
    analyst: Name
    dataset: Name
    uses: Annotated[list[Use], Field(min_length=1, max_length=MOST_USES)]
    delta: Delta
    every: Every | None = None
    wallet: Annotated[
        float, Field(ge=0.0, le=100.0, description="mu of a Gaussian wallet that pays for uses not registered")
    ] = 0.0
    failure: Annotated[
        float, Field(ge=0.0, lt=1.0, description="the most that failures of the wallet's uses add up to")
    ] = 0.0


class FilterAccountBody(Body):
    """Request to open an account with a budget (`epsilon`, `delta`), which pays for each mechanism when it is used.

    - `kind`: always "filter", which tells this request from a `SetwiseAccountBody`
    - `name`: the name of the account
    - `analyst`: the person who may ask about `dataset`
    - `every`: the calendar period after which the whole budget is available again, or None
    - `rule`: how the account adds up the costs of mechanisms. "wallet" compares each with a Gaussian mechanism that
      reveals at least as much, and adds mu squared of these Gaussian mechanisms; "zcdp" adds zCDP parameters; "menu"
      adds costs that are fixed when the account is opened
    - `failure_share`: the share of delta for outright failures (everything may be revealed); None is the rule's default
    - `menu`: for the rule "menu" only, the mechanisms that have a fixed cost, such as "pure:0.1". The account pays only
      for mechanisms whose guarantee is at least as strong as one on this list
    """

    kind: Literal["filter"]
    name: Name
    analyst: Name
    dataset: Name
    epsilon: Epsilon
    delta: Delta
    every: Every | None = None
    rule: AccountRule = "wallet"
    failure_share: FailureShare | None = None
    menu: Annotated[list[Use], Field(max_length=8, description="the uses that an account of the rule menu takes")] = (
        Field(default_factory=list)
    )


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


@router.get("/accounts", response_model=list[AccountRecord])
async def list_accounts(
    request: Request,
    after: Annotated[
        str, Query(max_length=64, examples=["ada-events"], description="the name of the last account already seen")
    ] = "",
    most: Annotated[int, Query(ge=1, le=1000, examples=[100])] = 1000,
) -> Response:
    """List the caller's own accounts by name; a steward sees every account.

    A page has at most `most` accounts whose names come after `after`. Without `after` it begins with the first account.
    """
    service, identity = service_of(request), caller(request)

    def render() -> str:
        statuses = service.accounts.all_visible(identity, after=after, most=most)
        return json.dumps([{**status.summary(), "odometer": None} for status in statuses], ensure_ascii=False)

    return paced(request, await service.rendering.run(render))


@router.post("/accounts", status_code=201)
async def open_account(request: Request, body: AccountBody) -> AccountRecord:
    """Open an account for an analyst on a dataset, and return its status.

    The (epsilon, delta) that the account guarantees is certified now and never changes. It holds over the account's
    life or, if the budget is renewed after each calendar period, in each period by itself.
    """
    service, steward = service_of(request), caller(request).person.name
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
            with at_field("menu" if body.menu or body.rule == "menu" else "epsilon"):
                terms = await service.calculators.run(
                    CertifyBudget(
                        name=body.name,
                        analyst=body.analyst,
                        dataset=body.dataset,
                        epsilon=body.epsilon,
                        delta=body.delta,
                        period=body.every,
                        rule=body.rule,
                        failure_share=body.failure_share,
                        menu=tuple(body.menu),
                    )
                )
        case _:
            assert_never(body)
    return await show_status(service, await service.threads.run(_open, service, terms, steward))


@router.get("/accounts/{account}")
async def show_account(request: Request, account: AccountName) -> AccountRecord:
    """Return the status of an account, with its odometers: bounds on the epsilon of all its answers so far."""
    service, identity = service_of(request), caller(request)
    return await show_status(
        service, await service.threads.run(lambda: service.accounts.visible(identity, account).status_by_entries())
    )


async def show_status(service: Service, status: AccountStatus) -> AccountRecord:
    """Return an account's `status` as the JSON object of the API.

    If the account was ever charged, its odometers (bounds on the epsilon of all answers so far) are added. A worker
    process of `service` computes them, because the computation would block the event loop.
    """
    return await service.calculators.run(ShowStatus(status=status)) if status.charges else status.to_dict()


@router.get("/accounts/{account}/history", response_model=list[EntryRecord])
async def history(
    request: Request,
    account: AccountName,
    after: Annotated[
        int, Query(ge=0, le=2**53, examples=[0], description="the number of the last entry already seen")
    ] = 0,
    most: Annotated[int, Query(ge=1, le=1000, examples=[100])] = 100,
) -> Response:
    """List the ledger entries of an account, such as charges and settlements, in the order of their numbers.

    A settlement is the entry that stores the answer of a charge. A page of the list begins after the entry number
    `after`, and ends after `most` entries or as soon as its JSON text has a million characters.
    """
    service, identity = service_of(request), caller(request)

    def render() -> str:
        service.accounts.visible(identity, account)
        entries: list[str] = []
        size = 0
        for entry in islice(service.ledger.history(account, after=after), most):
            entries.append(json.dumps(entry.to_dict(), ensure_ascii=False))
            size += len(entries[-1])
            if size >= _PAGE_CHARACTERS:
                break
        return f"[{','.join(entries)}]"

    return paced(request, await service.rendering.run(render))


class StateBody(Body):
    """The new state of an account: `open`, `frozen` (not charged until it is opened again) or `closed` (for good).

    `reason` is recorded in the audit log.
    """

    state: Literal["open", "frozen", "closed"]
    reason: ShortText = ""


@router.put("/accounts/{account}/state")
async def set_state(
    request: Request,
    account: AccountName,
    body: Annotated[StateBody, JsonBody(examples=[{"state": "frozen", "reason": "the contract has ended"}])],
) -> AccountRecord:
    """Freeze an account, open a frozen account again, or close an account for good.

    A question that was charged before the change may still be answered.
    """
    service, identity = service_of(request), caller(request)

    def change_state() -> AccountStatus:
        changed = service.accounts.visible(identity, account)
        ledger = service.ledger
        change = {"open": ledger.thaw, "frozen": ledger.freeze, "closed": ledger.close_account}[body.state]
        if changed.status().state != body.state:
            with at_field("state"):
                change(account, by=identity.person.name, reason=body.reason)
        return changed.status()

    return await show_status(service, await service.threads.run(change_state))


class QuestionBudgetBody(Body):
    """The default budget of an account for SQL statements that arrive over PostgreSQL's protocol and state no budget.

    Each of these statements spends `epsilon` and `delta`. If the same statement is sent again within `fresh_hours`
    hours, and the table is not known to have changed, it gets the stored answer and is not charged again.
    """

    epsilon: Epsilon
    delta: Delta = 1e-9
    fresh_hours: Annotated[float, Field(gt=0.0, le=8784.0, description="at most a year")] = 24.0


@router.get("/accounts/{account}/question-budget")
async def show_question_budget(request: Request, account: AccountName) -> QuestionBudgetRecord:
    """Return the default budget of an account for SQL statements over PostgreSQL's protocol that state no budget.

    Each of these statements spends the default epsilon and delta. If the same statement is sent again within
    `fresh_hours` hours, and the table is not known to have changed, it gets the stored answer and is not charged again.
    """
    service, identity = service_of(request), caller(request)
    await service.threads.run(service.accounts.visible, identity, account)
    return (await service.threads.run(service.question_budgets.of, account)).to_dict()


@router.put("/accounts/{account}/question-budget")
async def set_question_budget(
    request: Request,
    account: AccountName,
    body: Annotated[QuestionBudgetBody, JsonBody(examples=[{"epsilon": 0.1, "delta": 1e-9, "fresh_hours": 24}])],
) -> QuestionBudgetRecord:
    """Set the default budget of an account for SQL statements over PostgreSQL's protocol that state no budget.

    Each of these statements spends the default epsilon and delta from now on.
    """
    service, identity = service_of(request), caller(request)
    await service.threads.run(service.accounts.visible, identity, account)
    budget = QuestionBudget(**body.model_dump())
    await service.threads.run(service.question_budgets.put, account, budget)
    return budget.to_dict()


def _check_names(service: Service, body: SetwiseAccountBody | FilterAccountBody) -> None:
    """Raise an error unless the analyst and the dataset in `body` exist, and the name of the account to open is free.

    The names are looked up in the stores of `service`. Raises `UnknownName` for an unknown analyst or dataset, and
    `AccountExists` if there is an account of that name.
    """
    with at_field("analyst"):
        service.people.person(body.analyst)
    with at_field("dataset"):
        service.datasets.get(body.dataset)
    with at_field("name"):
        service.accounts.check_free(body.name)


def _open(service: Service, terms: Terms, steward: str) -> AccountStatus:
    """Open the account that `terms` describe in the ledger of `service`, and return its status.

    `terms` are the account's name, analyst, dataset, promised (epsilon, delta) and budget. Their unit of privacy (a
    user, or a part of a user such as a user's day) is replaced by the unit of the dataset. `steward` is the name of the
    person who opens the account, for the audit log.
    """
    protecting = replace(terms, unit=service.datasets.get(terms.dataset).unit)
    with at_field("name"):
        status = service.ledger.open_account(protecting)
    service.ledger.record("account.opened", by=steward, subject=terms.name)
    return status
