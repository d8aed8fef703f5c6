"""Operations: whether a replica is well, what it counts, whether the ledger is what it was, and who did what."""

from importlib.metadata import version
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import PlainTextResponse
from pydantic import BaseModel, Field

from setwise.ledger.audit.verification import Verification
from setwise.service.auth.permissions import API
from setwise.service.replica import Service
from setwise.service.route import GuardedRoute, caller, service_of
from setwise.service.storage.database import DatabaseState
from setwise.service.telemetry import METRICS_TYPE

router = APIRouter(prefix=API, tags=["operations"], route_class=GuardedRoute)
_VERSION = version("setwise")
_BUDGET_SECONDS = 60.0


class HealthView(BaseModel):
    """Whether this replica serves and reaches its database; with a read-only one it gives stored answers alone."""

    status: DatabaseState = Field(examples=["ok"])
    version: str = Field(examples=["0.1.0"])


class ActView(BaseModel):
    """What somebody did, in its place in the ledger's register, which nothing can be removed from."""

    number: int = Field(examples=[7])
    at: str = Field(examples=["2026-11-15T12:00:00+00:00"])
    action: str = Field(examples=["person.added"])
    by: str = Field(examples=["steward"])
    subject: str = Field(examples=["ada"])
    details: dict[str, Any] = Field(examples=[{"role": "analyst"}])
    hash: str = Field(examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"])


class AuditView(BaseModel):
    """What verifying the ledger found: nothing is wrong when there are no faults. Keep `head` to compare later."""

    verified: bool = Field(examples=[True])
    accounts: int = Field(examples=[7])
    entries: int = Field(examples=[42])
    head: str = Field(examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"])
    faults: list[str] = Field(examples=[[]])


@router.get("/health")
async def health(request: Request) -> HealthView:
    """Say that this replica serves, at once even if its database hangs; 503 when the database does not answer."""
    return HealthView(status=await service_of(request).probe.check(), version=_VERSION)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> PlainTextResponse:
    """Give the counters and gauges of this replica in the text format of Prometheus.

    Stewards and monitors get budgets too: these depend on what analysts asked.
    """
    service = service_of(request)
    text = service.metrics.text()
    identity = caller(request)
    if identity.is_steward or identity.is_monitor:
        text += await service.threads.run(_budgets, service)
    return PlainTextResponse(text, media_type=METRICS_TYPE)


@router.get("/audit", response_model=AuditView)
async def audit(request: Request) -> dict[str, object]:
    """Recompute every chain and every balance of the ledger, and name each entry that is not as it was written.

    With a signing key, heads must be signed with it and be recent. The service's own tables must fit the ledger.
    """
    service = service_of(request)
    found = await service.threads.run(service.upkeep.verify)
    service.metrics.audited(len(found.faults), service.authenticator.now())
    return audited(found)


@router.get("/trail", response_model=list[ActView])
async def trail(
    request: Request,
    after: Annotated[int, Query(ge=0, le=2**53, examples=[0], description="the last act already seen")] = 0,
    most: Annotated[int, Query(ge=1, le=1000, examples=[100])] = 100,
) -> list[dict[str, object]]:
    """List what stewards and operators did to people, tokens, data sets and accounts, in order."""
    service = service_of(request)

    acts = await service.threads.run(service.ledger.acts, after=after)
    return [each.to_dict() for each in acts[:most]]


def audited(found: Verification) -> dict[str, object]:
    """Return what an audit found, each fault in words, without the anchor, which names every account."""
    shown = found.to_dict() | {"faults": [str(fault) for fault in found.faults]}
    del shown["anchor"]
    return shown


def _budgets(service: Service) -> str:
    """Return the gauges of budgets, which are read from the ledger at most once a minute."""
    now = service.authenticator.now()
    if now >= service.metrics.budget_at + _BUDGET_SECONDS:
        caps = {dataset.name: service.ledger.cap(dataset.name) for dataset in service.datasets.all()}
        shares = {name: cap.share_left for name, cap in caps.items() if cap is not None}
        statuses = service.ledger.accounts()
        service.metrics.budget(shares, ((each.dataset, each.state, each.share_left) for each in statuses), now)
    return service.metrics.text_of_budgets()
