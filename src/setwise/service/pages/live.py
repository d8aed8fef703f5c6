"""Pages of live series: the list of those that the person may see, and a page with a chart and the counts for each.

A live series is a set of noisy user counts that is charged once and released period by period.
"""

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from setwise.live.view import SeriesView
from setwise.service.api.live import SeriesName, series_record
from setwise.service.pages.rendering import render
from setwise.service.route import GuardedRoute, caller, service_of

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)

_MOST_ROWS = 50
"""The most items in the table of a series, the largest first."""

_MOST_LINES = 5
"""The most items in the chart of a series: as many colours as the pages have."""

Window = Annotated[int | None, Query(ge=1, le=4000)]
On = Annotated[str | None, Query(max_length=10)]
"""The first day of the period whose largest items the table shows; the last period if it is left out or empty."""


@router.get("/live")
async def live_page(request: Request) -> Response:
    """Show the list of live series that the person may see, with what each counts and how accurate the counts are.

    A live series is a set of noisy user counts that is charged once and released period by period.
    """
    service, identity = service_of(request), caller(request)
    series = await service.threads.run(
        lambda: [series_record(service, series) for series in service.series.all_visible(identity)]
    )
    return render(request, "live.html", series=series)


@router.get("/live/{series}")
async def series_page(request: Request, series: SeriesName, window: Window = None, on: On = None) -> Response:
    """Show one live series (noisy user counts, released period by period): its chart, largest items and guarantee.

    An item is a group of rows whose users are counted. Items are ranked by their noisy counts in the period that begins
    on the day `on` or, if `on` is left out, in the last released period. With `window`, a count is over that many
    periods, and otherwise it is a running total.
    """
    service, identity = service_of(request), caller(request)
    view = await _view(request, series, window)
    record = await service.threads.run(lambda: series_record(service, service.series.visible(identity, series)))
    lines = view.top(_MOST_ROWS, on or None)
    place = view.periods.index(on) if on and view.periods else -1
    rows = [
        {
            "item": line.item,
            "value": line.values[place],
            "low": line.intervals[place][0],
            "high": line.intervals[place][1],
        }
        for line in lines
    ]
    return render(
        request,
        "series.html",
        series=record,
        rows=rows,
        lines=[
            {"item": str(line.item), "values": line.values, "intervals": line.intervals} for line in lines[:_MOST_LINES]
        ],
        drawn=_MOST_LINES,
        unit="users" if view.unit == "user" else "user-days",
        charts=True,
        hidden=len(view.lines) - len(rows),
        window=window,
        last=view.periods[place] if view.periods else None,
        periods=view.periods,
        released=len(view.periods),
        view={
            "measure": view.measure,
            "left_out": view.left_out,
            "confidence": view.confidence_note("band"),
            "promise": view.promise(),
        },
    )


@router.get("/live/{series}/series.svg")
async def series_picture(request: Request, series: SeriesName, window: Window = None) -> Response:
    """Return the chart of a live series as SVG: a line for each item, with a band for its intervals.

    A live series is a set of noisy user counts of items (groups of rows) that is released period by period. With
    `window`, a count is over that many periods, and otherwise it is a running total.
    """
    view = await _view(request, series, window)
    svg = await asyncio.to_thread(lambda: view.picture().svg())
    return Response(svg, media_type="image/svg+xml")


@router.get("/live/{series}/series.csv")
async def series_csv(request: Request, series: SeriesName, window: Window = None) -> Response:
    """Return every released noisy count of a live series as CSV, for a spreadsheet.

    A live series is a set of noisy user counts that is released period by period. With `window`, a count is over that
    many periods, and otherwise it is a running total.
    """
    view = await _view(request, series, window)
    headers = {"Content-Disposition": f'attachment; filename="{series}.csv"'}
    return Response(view.to_csv(), media_type="text/csv", headers=headers)


async def _view(request: Request, series: str, window: int | None) -> SeriesView:
    """Return the released noisy counts of the live series called `series`, as the sender of `request` may see them.

    A live series is a set of noisy user counts that is released period by period. The result has running totals if
    `window` is None, and otherwise counts over windows of that many periods. Raises `UnknownName` if the person may not
    see the series.
    """
    service, identity = service_of(request), caller(request)
    return await asyncio.to_thread(lambda: service.series.view(identity, series, window, []))
