"""Data sets: stewards register tables, everybody sees what may be asked of them."""

from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request
from fastapi import Body as JsonBody
from pydantic import BaseModel, BeforeValidator, Field, StringConstraints

from setwise.accounting.brackets import Interaction
from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.schema import Column as TableColumn
from setwise.analytics.schema import Kind
from setwise.errors import InvalidParameter
from setwise.service.api.accounts import AccountView
from setwise.service.api.schemas import (
    PLAIN_TEXT,
    Body,
    Bound,
    BracketView,
    Column,
    Delta,
    Epsilon,
    FailureShare,
    Name,
    Rule,
    ShortText,
)
from setwise.service.auth.permissions import API
from setwise.service.problems import at_field
from setwise.service.reconciliation import record_sources
from setwise.service.replica import Service
from setwise.service.route import GuardedRoute, caller, service_of
from setwise.service.settings import EngineKind
from setwise.service.storage.datasets import Dataset
from setwise.service.workers.tasks import JointPromise

router = APIRouter(prefix=API, tags=["data sets"], route_class=GuardedRoute)

DatasetName = Annotated[Name, Path(examples=["events"])]


class CsvBody(Body):
    """How CSV files are written, where their names and first lines do not tell: the options of `setwise.open`."""

    separator: Annotated[str, StringConstraints(min_length=1, max_length=1)] | None = None
    encoding: Annotated[str, StringConstraints(min_length=1, max_length=40), PLAIN_TEXT] = "utf-8"
    header: bool | None = None
    columns: Annotated[list[Column], Field(min_length=1, max_length=1000)] | None = None
    skip_lines: Annotated[int, Field(ge=0, le=10_000)] = 0
    format: Annotated[str, StringConstraints(min_length=1, max_length=20), PLAIN_TEXT] | None = None
    decimal: Annotated[str, StringConstraints(min_length=1, max_length=1)] = "."
    thousands: Annotated[str, StringConstraints(max_length=1)] = ""
    date_format: Annotated[str, StringConstraints(min_length=6, max_length=20), PLAIN_TEXT] | None = None
    null: Annotated[
        list[Annotated[str, StringConstraints(min_length=1, max_length=40), PLAIN_TEXT]],
        Field(max_length=20, default_factory=list),
    ]


def _check_size(given: object) -> object:
    """Return an object of at most 100 fields, or raise before each of the fields of a larger one is looked at."""
    if isinstance(given, dict) and len(given) > 100:
        raise InvalidParameter("should have at most 100 fields")
    return given


class DatasetBody(Body):
    """A table to register. For DuckDB `table` is a path in the service's data folder, else the table's name.

    What `setwise prepare` made is a table too, and repeated questions to it run much quicker. Data sets that read the
    same table share its cap and joint promise, unless `apart` says why not.
    """

    name: Name
    engine: Annotated[EngineKind, Field(strict=False)] = EngineKind.DUCKDB
    table: Annotated[str, StringConstraints(min_length=1, max_length=500), PLAIN_TEXT]
    user: Column
    items: Annotated[list[Column], Field(min_length=1, max_length=100)]
    values: Annotated[list[Column], Field(max_length=100, default_factory=list)]
    filters: Annotated[list[Column], Field(max_length=100, default_factory=list)]
    contributions: Bound | None = None
    per_item: Bound = 1
    apart: ShortText = ""
    types: Annotated[
        dict[Column, Annotated[Kind, Field(strict=False)]],
        BeforeValidator(_check_size),
        Field(max_length=100, default_factory=dict),
    ]
    public: Annotated[
        dict[Name, Annotated[str, StringConstraints(min_length=1, max_length=500), PLAIN_TEXT]],
        BeforeValidator(_check_size),
        Field(max_length=20, default_factory=dict, description="tables without users that SQL may join, by name"),
    ]
    csv: CsvBody | None = None


class CapBody(Body):
    """A total for all accounts on the data set together."""

    epsilon: Epsilon
    delta: Delta
    rule: Rule = "wallet"
    failure_share: FailureShare | None = None
    keep: Literal["either", "wallet", "sum"] = Field(
        "either",
        description="which way to pay the cap keeps: `wallet` (any noise), `sum` (of epsilons, pure noise only), or "
        "`either`, until a question fits one of them only and ends the other for everybody",
    )


class ColumnView(BaseModel):
    """A column that may be named in questions."""

    name: str = Field(examples=["word"])
    kind: Kind = Field(examples=["text"])


class DatasetView(BaseModel):
    """What may be asked of a data set; where its table is remains with the stewards."""

    name: str = Field(examples=["events"])
    engine: EngineKind = Field(examples=["duckdb"])
    user: str = Field(examples=["user_id"])
    items: list[ColumnView]
    values: list[ColumnView]
    filters: list[ColumnView]
    contributions: int | None = Field(examples=[10])
    per_item: int = Field(examples=[1])
    public: dict[str, list[ColumnView]] = Field(
        default={},
        examples=[{"countries": [{"name": "region", "kind": "text"}]}],
        description="tables without users that SQL may join",
    )


class CapView(BaseModel):
    """The cap of a data set."""

    dataset: str = Field(examples=["events"])
    epsilon: float = Field(examples=[10.0])
    delta: float = Field(examples=[1e-5])


class ReclaimBody(Body):
    """From which accounts to take back what they hold of a cap: those without a charge for `idle_hours`."""

    idle_hours: Annotated[float, Field(ge=0.0, le=24.0 * 366.0 * 100.0)] = 0.0


class ReclaimedView(BaseModel):
    """How many accounts gave back what they held of a cap."""

    dataset: str = Field(examples=["events"])
    accounts: int = Field(examples=[3])


class JointView(BaseModel):
    """What the accounts on a data set promise together, over some periods of each."""

    dataset: str = Field(examples=["events"])
    accounts: list[str] = Field(examples=[["ada-events", "bob-events"]])
    periods: int = Field(examples=[1])
    epsilon: BracketView
    delta: float = Field(examples=[2e-6])
    interaction: Interaction = Field(examples=["setwise"])
    method: str = Field(examples=["certified-optimum"])
    statement: str = Field(examples=["docs/optimal-composition.md, the set-wise optimum"])
    cap: AccountView | None = Field(description="the data set's cap, if it has one")


@router.get("/datasets", response_model=list[DatasetView])
async def list_datasets(request: Request) -> list[dict[str, Any]]:
    """List what can be asked about."""
    service = service_of(request)
    return await service.threads.run(lambda: [shown(service, dataset) for dataset in service.datasets.all()])


@router.post("/datasets", status_code=201, response_model=DatasetView)
async def register_dataset(
    request: Request,
    body: Annotated[
        DatasetBody,
        JsonBody(
            examples=[
                {
                    "name": "events",
                    "engine": "duckdb",
                    "table": "events.parquet",
                    "user": "user_id",
                    "items": ["word"],
                    "filters": ["country"],
                    "contributions": 10,
                }
            ]
        ),
    ],
) -> dict[str, Any]:
    """Register a table; its columns are looked up now, its rows are not read."""
    service = service_of(request)
    return await service.threads.run(_registered, service, body, caller(request).person.name)


@router.get("/datasets/{dataset}", response_model=DatasetView)
async def show_dataset(request: Request, dataset: DatasetName) -> dict[str, Any]:
    """Show what may be asked of a data set."""
    service = service_of(request)
    return await service.threads.run(lambda: shown(service, service.datasets.get(dataset)))


@router.put("/datasets/{dataset}/cap")
async def set_cap(
    request: Request,
    dataset: DatasetName,
    body: Annotated[CapBody, JsonBody(examples=[{"epsilon": 10.0, "delta": 1e-5}])],
) -> CapView:
    """Limit all accounts on a data set together, for good; set once, before the first account is opened."""
    service, by = service_of(request), caller(request).person.name

    def capped() -> None:
        with at_field("dataset"):
            service.datasets.get(dataset)
            service.ledger.set_cap(
                dataset,
                epsilon=body.epsilon,
                delta=body.delta,
                rule=body.rule,
                failure_share=body.failure_share,
                keep=body.keep,
            )
        details = {"epsilon": body.epsilon, "delta": body.delta, "rule": body.rule, "keep": body.keep}
        service.ledger.record("cap.set", by=by, subject=dataset, details=details)

    await service.threads.run(capped)
    return CapView(dataset=dataset, epsilon=body.epsilon, delta=body.delta)


@router.post("/datasets/{dataset}/cap/reclaim")
async def reclaim(
    request: Request, dataset: DatasetName, body: Annotated[ReclaimBody, JsonBody(examples=[{"idle_hours": 24.0}])]
) -> ReclaimedView:
    """Give back to the cap what accounts hold of it and did not use; they take of it again when they need it."""
    service, by = service_of(request), caller(request).person.name

    def reclaimed() -> ReclaimedView:
        with at_field("dataset"):
            service.datasets.get(dataset)
            count = service.ledger.reclaim(dataset, idle=timedelta(hours=body.idle_hours))
        details = {"idle_hours": body.idle_hours, "accounts": count}
        service.ledger.record("cap.reclaimed", by=by, subject=dataset, details=details)
        return ReclaimedView(dataset=dataset, accounts=count)

    return await service.threads.run(reclaimed)


@router.get("/datasets/{dataset}/joint", response_model=JointView)
async def joint(
    request: Request,
    dataset: DatasetName,
    periods: Annotated[int, Query(ge=1, le=1000, examples=[1], description="calendar periods to cover")] = 1,
) -> dict[str, object]:
    """Say what all accounts on a data set promise together, should their analysts collude."""
    service = service_of(request)

    def opened() -> JointPromise:
        service.datasets.get(dataset)
        ledger = service.ledger
        return JointPromise(dataset=dataset, terms=ledger.terms_on(dataset), cap=ledger.cap(dataset), periods=periods)

    return await service.calculators.run(await service.threads.run(opened))


def _registered(service: Service, body: DatasetBody, by: str) -> dict[str, Any]:
    given: dict[str, Any] = body.model_dump(exclude={"apart", "csv"}) | {
        "types": tuple(body.types.items()),
        "public": tuple(body.public.items()),
    }
    if body.csv is not None:
        columns = None if body.csv.columns is None else tuple(body.csv.columns)
        with at_field("csv"):
            given["csv"] = CsvOptions(**body.csv.model_dump(exclude={"columns"}), columns=columns)
    with at_field("items"):
        dataset = Dataset(**given)
    service.engines.check(dataset)
    with at_field("name"):
        service.datasets.check_free(dataset.name)
    with at_field("apart"):
        record_sources(service.ledger, service.datasets, service.engines)  # folders may hold new files by now
        source = service.engines.source(dataset)
        service.ledger.register_dataset(
            dataset.name,
            reads=source.reads,
            within=source.within,
            definition=dataset.text(),
            by=by,
            apart=body.apart,
        )
    with at_field("name"):
        return shown(service, service.datasets.add(dataset, by=by))


def shown(service: Service, dataset: Dataset) -> dict[str, Any]:
    """Return what a data set is shown as: its bounds, and the columns that may be named, each with its kind."""
    schema = service.engines.schema(dataset)
    public = service.engines.public_schemas(dataset)
    return {
        "name": dataset.name,
        "engine": str(dataset.engine),
        "user": dataset.user,
        "items": _columns(map(schema.column, dataset.items)),
        "values": _columns(map(schema.column, dataset.values)),
        "filters": _columns(map(schema.column, dataset.filters)),
        "contributions": dataset.contributions,
        "per_item": dataset.per_item,
        "public": {name: _columns(columns) for name, columns in public.items()},
    }


def _columns(columns: Iterable[TableColumn]) -> list[dict[str, str]]:
    return [{"name": column.name, "kind": str(column.kind)} for column in columns]
