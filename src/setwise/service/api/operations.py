"""Operations: whether a replica is well, what it counts, and whether the ledger is what it was."""

from importlib.metadata import version

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse

from setwise.service.api.views import AuditView, HealthView
from setwise.service.auth.permissions import API
from setwise.service.metrics import CONTENT_TYPE
from setwise.service.route import GuardedRoute, service_of

router = APIRouter(prefix=API, tags=["operations"], route_class=GuardedRoute)
_VERSION = version("setwise")


@router.get("/health")
async def health(request: Request) -> HealthView:
    """Say that this replica serves; 503 when it cannot reach its database."""
    await service_of(request).probe.check()
    return HealthView(version=_VERSION)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> PlainTextResponse:
    """Give the counters and gauges of this replica in the text format of Prometheus."""
    return PlainTextResponse(service_of(request).metrics.text(), media_type=CONTENT_TYPE)


@router.get("/audit")
async def audit(request: Request) -> AuditView:
    """Recompute every chain and every balance of the ledger, and name each entry that is not as it was written."""
    service = service_of(request)
    found = await service.threads.run(service.ledger.verify)
    if not found.faults:
        service.metrics.verified.set_to_current_time()
    return AuditView.of(found)
