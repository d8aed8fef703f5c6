"""Live series: opened once, updated as periods end, shown as often as anybody likes."""

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi import Body as JsonBody
from pydantic import BaseModel, Field, StringConstraints

from setwise.accounting.notation import format_use
from setwise.live.series import LiveSeries
from setwise.live.view import CONFIDENCE
from setwise.service.api.schemas import (
    PLAIN_TEXT,
    Body,
    BracketView,
    Column,
    Delta,
    Epsilon,
    Name,
    ShortText,
    Use,
)
from setwise.service.auth.permissions import API
from setwise.service.replica import Service
from setwise.service.route import GuardedRoute, caller, service_of

router = APIRouter(prefix=API, tags=["live series"], route_class=GuardedRoute)

SeriesName = Annotated[Name, Path(examples=["reach"])]
Day = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d{2}-\d{2}$")]


class SeriesBody(Body):
    """A series to open. The account pays `epsilon` and `delta`, or draws `counts` and, for private items, `delta`."""

    name: Name
    dataset: Name
    account: Name
    item: Column
    at: Column
    every: Literal["day", "week", "month"]
    start: Day
    periods: Annotated[int, Field(ge=1, le=4000)]
    contributions: Annotated[int, Field(ge=1, le=10**6)] | None = None
    epsilon: Epsilon | None = None
    delta: Delta | None = None
    counts: Use | None = None
    purpose: Literal["totals", "periods", "windows"] = "totals"
    window: Annotated[int, Field(ge=1, le=4000)] | None = None
    where: Annotated[str, StringConstraints(max_length=10_000)] | None = None
    domain: Annotated[list[ShortText] | list[int], Field(min_length=1, max_length=100_000)] | None = None
    late_days: Annotated[int, Field(ge=0, le=4000)] = 7


_EXAMPLE = {
    "name": "reach",
    "dataset": "events",
    "account": "ada-events",
    "item": "word",
    "at": "at",
    "every": "day",
    "start": "2026-01-01",
    "periods": 365,
    "contributions": 5,
    "epsilon": 1.0,
    "delta": 1e-6,
}


class UpdateBody(Body):
    """Up to which day to release; today (UTC) if left out."""

    until: Day | None = None


class SeriesSummaryView(BaseModel):
    """A series: what it counts, what it cost, and how close its numbers are."""

    name: str = Field(examples=["reach"])
    dataset: str = Field(examples=["events"])
    account: str = Field(examples=["ada-events"])
    item: str = Field(examples=["word"])
    every: str = Field(examples=["day"])
    start: str = Field(examples=["2026-01-01"])
    periods: int = Field(examples=[365])
    unit: str = Field(examples=["user"], description="what is protected: each user")
    contributions: int = Field(examples=[5])
    spent: list[str] = Field(examples=[["gaussian:4.3", "approx:0.0,3e-07"]])
    within: float = Field(examples=[54.2], description="how far a total may be off, 95 times in 100")
    shown_from: float | None = Field(examples=[170.4], description="from how many users on a private item is shown")
    matrix: str = Field(examples=["the square root of the prefix sums"])
    closed: bool = Field(examples=[False])


class LineView(BaseModel):
    """One item over time."""

    item: str | int = Field(examples=["tea"])
    values: list[int] = Field(examples=[[120, 180]])
    intervals: list[tuple[int, int]] = Field(examples=[[(90, 150), (140, 220)]])


class SeriesValuesView(BaseModel):
    """The released numbers of a series, as totals or as windows."""

    name: str = Field(examples=["reach"])
    every: str = Field(examples=["day"])
    unit: str = Field(examples=["user"])
    measure: str = Field(examples=["users from the first period up to each period"])
    left_out: str = Field(examples=["Of each user at most 5 items count, the first in order of time."])
    periods: list[str] = Field(examples=[["2026-01-01", "2026-01-02"]])
    remaining: int = Field(examples=[363])
    series: list[LineView]
    epsilon: BracketView
    delta: float = Field(examples=[1e-6])
    spent: list[str] = Field(examples=[["gaussian:4.3", "approx:0.0,3e-07"]])
    promise: str = Field(examples=["Each user is protected, with all of their rows."])


class ReleasedView(BaseModel):
    """The periods that an update has released, by their first days."""

    name: str = Field(examples=["reach"])
    released: list[str] = Field(examples=[["2026-01-01", "2026-01-02"]])


@router.get("/live", response_model=list[SeriesSummaryView])
async def list_series(request: Request) -> list[dict[str, object]]:
    """List the series that one's own accounts have paid for; a steward sees all."""
    service, identity = service_of(request), caller(request)
    return await service.threads.run(
        lambda: [summary(service, series) for series in service.series.all_visible(identity)]
    )


@router.post("/live", response_model=SeriesSummaryView, status_code=201)
async def open_series(
    request: Request, body: Annotated[SeriesBody, JsonBody(examples=[_EXAMPLE])]
) -> dict[str, object]:
    """Open a series and charge it, once for all of its periods; opening it again with the same words is free."""
    service, identity = service_of(request), caller(request)
    words: dict[str, Any] = body.model_dump()
    return await asyncio.to_thread(lambda: summary(service, service.series.open(identity, words)))


@router.get("/live/{series}", response_model=SeriesValuesView)
async def show_series(
    request: Request,
    series: SeriesName,
    window: Annotated[
        int | None, Query(ge=1, le=4000, examples=[7], description="new users of so many periods instead of totals")
    ] = None,
    item: Annotated[
        list[Annotated[str, StringConstraints(max_length=1000), PLAIN_TEXT]] | None,
        Query(max_length=100, examples=[["tea"]], description="these items only"),
    ] = None,
) -> dict[str, object]:
    """Show what was released: nothing is charged, and no data is touched."""
    service, identity = service_of(request), caller(request)
    view = await asyncio.to_thread(lambda: service.series.view(identity, series, window, item or []))
    return view.to_dict()


@router.post("/live/{series}/update", response_model=ReleasedView)
async def update_series(
    request: Request, series: SeriesName, body: Annotated[UpdateBody, JsonBody(examples=[{"until": "2026-02-01"}])]
) -> dict[str, object]:
    """Release every period that has ended and was not released; nothing is charged, and repeating changes nothing."""
    service, identity = service_of(request), caller(request)
    released = await asyncio.to_thread(lambda: service.series.update(identity, series, body.until))
    return {"name": series, "released": list(released)}


@router.delete("/live/{series}", response_model=SeriesSummaryView)
async def close_series(request: Request, series: SeriesName) -> dict[str, object]:
    """End a series for good and remove its private state; what was released stays."""
    service, identity = service_of(request), caller(request)
    return await asyncio.to_thread(lambda: summary(service, service.series.close(identity, series)))


def summary(service: Service, series: LiveSeries) -> dict[str, object]:
    """Return what a list of series shows of one."""
    terms, totals = series.terms, series.totals
    return {
        "name": terms.name,
        "dataset": service.series.dataset_of(series),
        "account": series.opening.account,
        "item": terms.item,
        "every": terms.every,
        "start": terms.start.isoformat(),
        "periods": terms.periods,
        "unit": terms.unit,
        "contributions": terms.contributions,
        "spent": [format_use(use) for use in totals.uses()],
        "within": round(float(totals.radii(CONFIDENCE)[-1]), 1),
        "shown_from": None if totals.failure is None else round(float(totals.thresholds()[-1]), 1),
        "matrix": str(terms.shape()),
        "closed": series.is_closed,
    }
