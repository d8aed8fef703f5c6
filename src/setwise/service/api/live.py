"""Routes for live series, which are sets of noisy user counts that are released period by period.

A series is opened and charged once, updated as periods end, and shown as often as anybody likes.
"""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi import Body as JsonBody
from pydantic import Field, StringConstraints

from setwise.accounting.notation import format_use
from setwise.contract import CancelledRecord, ReleasedRecord, SeriesRecord, SeriesValuesRecord
from setwise.live.series import LiveSeries
from setwise.mechanisms.intervals import CONFIDENCE
from setwise.service.api.schemas import (
    PLAIN_TEXT,
    Body,
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
    """A live series to open: the running number of users in each group of the column `item`, at the end of each period.

    - `name`, `dataset`, `account`: the name of the series, the dataset to count in, and the account that pays
    - `at`: the column with the time of each row
    - `every`, `start`, `periods`: the length of a period, the first day of the first period, and the number of periods
    - `contributions`: the most groups in which one user counts
    - `epsilon`, `delta`: what an account with an (epsilon, delta) budget pays once for the whole series
    - `counts`: what an account pays once for the whole series if it registered, when it was opened, which mechanisms it
      may use: one of these, such as "gaussian:20" (noise of 20 times the sensitivity). If the groups are private, such
      an account also pays `delta`, the probability that a group with only one user is shown
    - `purpose`: which counts shall have the smallest error: running totals, counts of single periods, or counts over
      windows of `window` periods
    - `where`: a filter; only rows that satisfy it are counted
    - `domain`: the groups, if they are public
    - `late_days`: how late rows may arrive, in days: an update reads again the rows from this many days before the
      first period that it releases
    """

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
    """Request to release the periods of a live series that have ended before the day `until`; None means today (UTC).

    A live series is a set of noisy user counts that is charged once and released period by period.
    """

    until: Day | None = None


@router.get("/live")
async def list_series(request: Request) -> list[SeriesRecord]:
    """List the live series that the caller's accounts have paid for; a steward sees every series.

    A live series is a set of noisy user counts that is charged once and released period by period.
    """
    service, identity = service_of(request), caller(request)
    return await service.threads.run(
        lambda: [series_record(service, series) for series in service.series.all_visible(identity)]
    )


@router.post("/live", status_code=201)
async def open_series(request: Request, body: Annotated[SeriesBody, JsonBody(examples=[_EXAMPLE])]) -> SeriesRecord:
    """Open a live series, and charge its account once for all of its periods.

    A live series is a set of noisy user counts that is charged once and released period by period. Repeating the
    request with the same body is free.
    """
    service, identity = service_of(request), caller(request)
    words: dict[str, Any] = body.model_dump()
    return await service.threads.run(lambda: series_record(service, service.series.open(identity, words)))


@router.get("/live/{series}")
async def show_series(
    request: Request,
    series: SeriesName,
    window: Annotated[
        int | None,
        Query(ge=1, le=4000, examples=[7], description="new users over this many periods, instead of totals"),
    ] = None,
    item: Annotated[
        list[Annotated[str, StringConstraints(max_length=1000), PLAIN_TEXT]] | None,
        Query(max_length=100, examples=[["tea"]], description="these items only"),
    ] = None,
    top: Annotated[
        int | None, Query(ge=1, le=100_000, examples=[3], description="only this many items, the largest first")
    ] = None,
    on: Annotated[
        Day | None, Query(examples=["2026-01-15"], description="the first day of the period by which `top` ranks")
    ] = None,
) -> SeriesValuesRecord:
    """Return the released noisy counts of a live series. Nothing is charged, and no row is read.

    A live series counts with noise, period by period, the users of each item (a group of rows, such as a page).

    - `window`: with 7, for example, each count is of the users who first appeared within the 7 periods up to its own.
      Left out, each count is of all users since the start
    - `item`: the items to return; left out, all
    - `top`: how many items to return, the largest in the period that begins on the day `on` (left out: the last period)
    """
    service, identity = service_of(request), caller(request)
    view = await service.threads.run(lambda: service.series.view(identity, series, window, item or [], top, on))
    return view.to_dict()


@router.post("/live/{series}/update")
async def update_series(
    request: Request, series: SeriesName, body: Annotated[UpdateBody, JsonBody(examples=[{"until": "2026-02-01"}])]
) -> ReleasedRecord:
    """Release the noisy counts of every period that has ended and was not released before.

    Nothing is charged, so the request may be repeated. Only one update of a live series (noisy user counts, released
    period by period) runs at a time.
    """
    service, identity = service_of(request), caller(request)
    released = await service.series.update(identity, series, body.until, service.threads)
    return {"name": series, "released": list(released)}


@router.delete("/live/{series}/update")
async def cancel_update(request: Request, series: SeriesName) -> CancelledRecord:
    """Stop the update of a live series that this replica runs; the next update releases the same periods instead.

    A replica is one process of the service. A live series is a set of noisy user counts that is charged once and
    released period by period.
    """
    service, identity = service_of(request), caller(request)
    return {"name": series, "cancelled": await service.series.cancel_update(identity, series, service.threads)}


@router.delete("/live/{series}")
async def close_series(request: Request, series: SeriesName) -> SeriesRecord:
    """End a live series for good and delete its private state. The counts that were released can still be shown.

    A live series is a set of noisy user counts that is charged once and released period by period. The private state
    has the counted users and the noise.
    """
    service, identity = service_of(request), caller(request)
    return await service.threads.run(lambda: series_record(service, service.series.close(identity, series)))


def series_record(service: Service, series: LiveSeries) -> SeriesRecord:
    """Return the JSON record of a live `series`: what it counts, what it cost, and how precise its noisy counts are.

    Two fields are about the running totals of users at the end of the last period. `within` is the half-width of the
    95% interval of a total. `shown_from` is the noisy total above which a private group is shown, or None if the groups
    are public. The name of the dataset is looked up in the ledger of `service`.
    """
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
