"""The audit: whether the ledger is what it was, what a data set's accounts promise together, and what happened."""

from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query, Request

from setwise.service.api.accounts import AccountName
from setwise.service.api.datasets import DatasetName
from setwise.service.api.views import AuditView, EntryView, JointView
from setwise.service.auth.permissions import API
from setwise.service.auth.route import GuardedRoute, caller, service_of

router = APIRouter(prefix=API, tags=["audit"], route_class=GuardedRoute)


@router.get("/audit")
async def audit(request: Request) -> AuditView:
    """Recompute every chain and every balance of the ledger, and name each entry that is not as it was written."""
    service = service_of(request)
    return AuditView.of(await service.pool.run(service.ledger.verify))


@router.get("/datasets/{dataset}/joint")
async def joint(
    request: Request,
    dataset: DatasetName,
    periods: Annotated[int, Query(ge=1, le=1000, examples=[1], description="calendar periods to cover")] = 1,
) -> JointView:
    """Say what all accounts on a data set promise together, should their analysts collude."""
    service = service_of(request)
    await service.pool.run(service.datasets.get, dataset)
    return JointView.of(await service.pool.run(service.ledger.joint, dataset, periods=periods))


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

    return await service.pool.run(entries)
