"""Accounts: stewards open them, their analysts see what is left and what was charged."""

from itertools import islice
from typing import Annotated, Literal, assert_never

from fastapi import APIRouter, Path, Query, Request
from fastapi import Body as JsonBody
from pydantic import Field

from setwise.errors import AccountExists
from setwise.ledger.status import AccountStatus
from setwise.service.api.schemas import MOST_USES, Body, Delta, Epsilon, FailureShare, Name, Rule, ShortText, Use
from setwise.service.api.views import AccountView, EntryView
from setwise.service.auth.permissions import API
from setwise.service.problems import at_field
from setwise.service.replica import Service
from setwise.service.route import GuardedRoute, caller, service_of

router = APIRouter(prefix=API, tags=["accounts"], route_class=GuardedRoute)

AccountName = Annotated[Name, Path(examples=["ada-events"])]
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


@router.get("/accounts")
async def list_accounts(request: Request) -> list[AccountView]:
    """List one's own accounts; a steward sees all."""
    service = service_of(request)
    return await service.threads.run(lambda: AccountView.listed(service.accounts.all_visible(caller(request))))


@router.post("/accounts", status_code=201)
async def open_account(request: Request, body: AccountBody) -> AccountView:
    """Open an account for an analyst on a data set; its overall guarantee is certified now and never changes."""
    return await service_of(request).threads.run(_opened, service_of(request), body, caller(request).person.name)


@router.get("/accounts/{account}")
async def show_account(request: Request, account: AccountName) -> AccountView:
    """Show the status of an account."""
    service, identity = service_of(request), caller(request)
    return await service.threads.run(lambda: AccountView.of(service.accounts.visible(identity, account).status()))


@router.get("/accounts/{account}/history")
async def history(
    request: Request,
    account: AccountName,
    after: Annotated[int, Query(ge=0, le=2**53, examples=[0], description="the last entry already seen")] = 0,
    most: Annotated[int, Query(ge=1, le=1000, examples=[100])] = 100,
) -> list[EntryView]:
    """List the charges of an account and what each bought, in order."""
    service, identity = service_of(request), caller(request)

    def entries() -> list[EntryView]:
        service.accounts.visible(identity, account)
        return [EntryView.of(entry) for entry in islice(service.ledger.history(account, after=after), most)]

    return await service.threads.run(entries)


class StateBody(Body):
    """What an account may do: `open`, `frozen` (pays for nothing until it is opened again) or `closed` (for good)."""

    state: Literal["open", "frozen", "closed"]
    reason: ShortText = ""


@router.put("/accounts/{account}/state")
async def set_state(
    request: Request,
    account: AccountName,
    body: Annotated[StateBody, JsonBody(examples=[{"state": "frozen", "reason": "the contract has ended"}])],
) -> AccountView:
    """Freeze an account, open it again, or close it for good; what was charged before may still be answered."""
    service, identity = service_of(request), caller(request)

    def changed() -> AccountView:
        found = service.accounts.visible(identity, account)
        ledger = service.ledger
        act = {"open": ledger.thaw, "frozen": ledger.freeze, "closed": ledger.close_account}[body.state]
        if found.status().state != body.state:
            with at_field("state"):
                act(account, by=identity.person.name, reason=body.reason)
        return AccountView.of(found.status())

    return await service.threads.run(changed)


def _opened(service: Service, body: SetwiseAccountBody | FilterAccountBody, by: str) -> AccountView:
    with at_field("analyst"):
        service.people.person(body.analyst)
    with at_field("dataset"):
        service.datasets.get(body.dataset)
    try:
        opened = AccountView.of(_status(service, body))
    except AccountExists:
        with at_field("name"):
            raise
    service.ledger.record("account.opened", by=by, subject=body.name)
    return opened


def _status(service: Service, body: SetwiseAccountBody | FilterAccountBody) -> AccountStatus:
    match body:
        case SetwiseAccountBody():
            with at_field("uses"):
                return service.ledger.open_setwise(
                    body.name,
                    body.uses,
                    delta=body.delta,
                    analyst=body.analyst,
                    dataset=body.dataset,
                    period=body.every,
                    wallet=body.wallet,
                    failure=body.failure,
                )
        case FilterAccountBody():
            with at_field("epsilon"):
                return service.ledger.open_filter(
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
