"""Live: the series that one may see, and each of them as a picture with the latest numbers."""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from setwise.live.view import SeriesView
from setwise.service.api.live import SeriesName, summary
from setwise.service.pages.rendering import render
from setwise.service.route import GuardedRoute, caller, service_of

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)

_MOST_ROWS = 50

Window = Annotated[int | None, Query(ge=1, le=4000)]


@router.get("/live")
async def live_page(request: Request) -> Response:
    """Show every series with what it counts and how close its numbers are."""
    service, identity = service_of(request), caller(request)
    series = await service.threads.run(
        lambda: [summary(service, each) for each in service.series.all_visible(identity)]
    )
    return render(request, "live.html", series=series)


@router.get("/live/{series}")
async def series_page(request: Request, series: SeriesName, window: Window = None) -> Response:
    """Show one series: its picture, the latest numbers of its largest items, and its promise."""
    service, identity = service_of(request), caller(request)
    view = await _view(request, series, window)
    found = await service.threads.run(lambda: summary(service, service.series.visible(identity, series)))
    rows = [
        {"item": line.item, "value": line.values[-1], "low": line.intervals[-1][0], "high": line.intervals[-1][1]}
        for line in view.top(_MOST_ROWS)
    ]
    return render(
        request,
        "series.html",
        series=found,
        rows=rows,
        hidden=len(view.lines) - len(rows),
        window=window,
        last=view.periods[-1] if view.periods else None,
        released=len(view.periods),
        view={"measure": view.measure, "left_out": view.left_out, "promise": view.promise()},
    )


@router.get("/live/{series}/series.svg")
async def series_picture(request: Request, series: SeriesName, window: Window = None) -> Response:
    """Give the picture of a series: lines with their bands."""
    view = await _view(request, series, window)
    drawn = await asyncio.to_thread(lambda: view.picture().svg())
    return Response(drawn, media_type="image/svg+xml")


@router.get("/live/{series}/series.csv")
async def series_csv(request: Request, series: SeriesName, window: Window = None) -> Response:
    """Give every number of a series as CSV, for a spreadsheet."""
    view = await _view(request, series, window)
    headers = {"Content-Disposition": f'attachment; filename="{series}.csv"'}
    return Response(view.to_csv(), media_type="text/csv", headers=headers)


async def _view(request: Request, series: str, window: int | None) -> SeriesView:
    service, identity = service_of(request), caller(request)
    return await asyncio.to_thread(lambda: service.series.view(identity, series, window, []))
