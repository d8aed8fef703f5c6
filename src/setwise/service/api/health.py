"""Whether a replica is well, and its counters."""

from importlib.metadata import version

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse

from setwise.service.api.views import HealthView
from setwise.service.auth.permissions import API
from setwise.service.auth.route import GuardedRoute, service_of

router = APIRouter(prefix=API, tags=["health"], route_class=GuardedRoute)
_VERSION = version("setwise")


@router.get("/health")
async def health(request: Request) -> HealthView:
    """Say that this replica serves; 503 when it cannot reach its database."""
    await service_of(request).pulse.check()
    return HealthView(version=_VERSION)


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> PlainTextResponse:
    """Give the counters of this replica in the text format of Prometheus."""
    return PlainTextResponse(service_of(request).metrics.text(), media_type="text/plain; version=0.0.4")
