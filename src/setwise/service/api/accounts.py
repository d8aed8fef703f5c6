"""Accounts: stewards open them, their analysts see how they stand."""

from typing import Annotated, Literal, assert_never

from fastapi import APIRouter, Path, Request
from fastapi import Body as JsonBody
from pydantic import Field

from setwise.errors import AccountExists
from setwise.ledger.status import AccountStatus
from setwise.service.api.problems import at_field
from setwise.service.api.schemas import MOST_USES, Body, Delta, Epsilon, Name, Use
from setwise.service.api.views import AccountView
from setwise.service.auth.permissions import API
from setwise.service.auth.route import GuardedRoute, caller, service_of
from setwise.service.replica import Service

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


class FilterAccountBody(Body):
    """An account with a total, for uses of any parameters."""

    kind: Literal["filter"]
    name: Name
    analyst: Name
    dataset: Name
    epsilon: Epsilon
    delta: Delta
    every: Every | None = None


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
    standings = await service.pool.run(service.accounts.all_visible, caller(request))
    return [AccountView.of(standing) for standing in standings]


@router.post("/accounts", status_code=201)
async def open_account(request: Request, body: AccountBody) -> AccountView:
    """Open an account for an analyst on a data set; its overall guarantee is certified now and never changes."""
    return await service_of(request).pool.run(_opened, service_of(request), body)


@router.get("/accounts/{account}")
async def show_account(request: Request, account: AccountName) -> AccountView:
    """Show how an account stands."""
    service = service_of(request)
    return AccountView.of(await service.pool.run(service.accounts.standing, caller(request), account))


def _opened(service: Service, body: SetwiseAccountBody | FilterAccountBody) -> AccountView:
    with at_field("analyst"):
        service.people.person(body.analyst)
    with at_field("dataset"):
        service.datasets.get(body.dataset)
    try:
        return AccountView.of(_standing(service, body))
    except AccountExists:
        with at_field("name"):
            raise


def _standing(service: Service, body: SetwiseAccountBody | FilterAccountBody) -> AccountStatus:
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
                )
        case _:
            assert_never(body)
