"""Operations: whether a replica is well, what it counts, whether the ledger is what it was, and who did what."""

from importlib.metadata import version
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import PlainTextResponse

from setwise.service.api.views import ActView, AuditView, HealthView
from setwise.service.auth.permissions import API
from setwise.service.replica import Service
from setwise.service.route import GuardedRoute, caller, service_of
from setwise.service.telemetry import METRICS_TYPE

router = APIRouter(prefix=API, tags=["operations"], route_class=GuardedRoute)
_VERSION = version("setwise")
_BUDGET_SECONDS = 60.0


@router.get("/health")
async def health(request: Request) -> HealthView:
    """Say that this replica serves; 503 when it cannot reach its database."""
    await service_of(request).probe.check()
    return HealthView(version=_VERSION)


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


@router.get("/audit")
async def audit(request: Request) -> AuditView:
    """Recompute every chain and every balance of the ledger, and name each entry that is not as it was written."""
    service = service_of(request)
    found = await service.threads.run(service.ledger.verify)
    service.metrics.audited(len(found.faults), service.authenticator.now())
    return AuditView.of(found)


@router.get("/trail")
async def trail(
    request: Request,
    after: Annotated[int, Query(ge=0, le=2**53, examples=[0], description="the last act already seen")] = 0,
    most: Annotated[int, Query(ge=1, le=1000, examples=[100])] = 100,
) -> list[ActView]:
    """List what stewards and operators did to people, tokens, data sets and accounts, in order."""
    service = service_of(request)

    def acts() -> list[ActView]:
        return [ActView.model_validate(each.to_dict()) for each in islice(service.ledger.acts(after=after), most)]

    return await service.threads.run(acts)


def _budgets(service: Service) -> str:
    """Return the gauges of budgets, which are read from the ledger at most once a minute."""
    now = service.authenticator.now()
    if now >= service.metrics.budget_at + _BUDGET_SECONDS:
        caps = {dataset.name: service.ledger.cap(dataset.name) for dataset in service.datasets.all()}
        shares = {name: cap.share_left for name, cap in caps.items() if cap is not None}
        statuses = service.ledger.accounts()
        service.metrics.budget(shares, ((each.dataset, each.state, each.share_left) for each in statuses), now)
    return service.metrics.text_of_budgets()
