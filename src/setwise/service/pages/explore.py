"""Explore: what uses add up to under each bound as the numbers move; and the reference of the API, to try it."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from setwise.service.pages.rendering import render
from setwise.service.route import GuardedRoute, caller, service_of
from setwise.service.workers.tasks import MOST_USES, Along, Curve, CurvePoints, Mixture

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)

_KEPT = {"Cache-Control": "private, max-age=3600"}
_LARGEST_EPSILON = 2.0


@router.get("/explore")
async def explore(request: Request) -> Response:
    """Show the controls and the charts, which a script fills."""
    return render(request, "explore.html", charts=True, most=MOST_USES)


@router.get("/reference")
async def reference(request: Request) -> Response:
    """Show the routes of the API, which a script fills from their description and sends requests to."""
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
    """Give one curve: a calculation with a time limit, remembered by the service and by the browser."""
    mixture = Mixture(number=k, share=share, epsilon=epsilon, delta=delta)
    points = CurvePoints(which=which, along=along, mixture=mixture)
    return JSONResponse(await service_of(request).calculators.run(points), headers=_KEPT)
