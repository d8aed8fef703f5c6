"""Routes for datasets: stewards register tables and set caps; everybody sees the columns that questions may use.

A cap is the joint budget of a dataset's accounts.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request
from fastapi import Body as JsonBody
from pydantic import BeforeValidator, Field, StringConstraints

from setwise.accounting.promises import check_unit
from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.schema import Column as TableColumn
from setwise.analytics.schema import Kind
from setwise.contract import CapRecord, ColumnRecord, DatasetRecord, JointRecord, Keep, ReclaimedRecord
from setwise.errors import InvalidParameter
from setwise.service.api.schemas import (
    PLAIN_TEXT,
    Body,
    Bound,
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

router = APIRouter(prefix=API, tags=["datasets"], route_class=GuardedRoute)

DatasetName = Annotated[Name, Path(examples=["events"])]


class CsvBody(Body):
    """How the CSV files of a table are written. `setwise.open` has the same options.

    - `separator`, `format` (such as csv.gz): None takes them from the endings of the files' names
    - `quote`: the character around cells with separators or line ends in them; "none" if no cell stands in quotes
    - `encoding`: the character encoding, such as utf-8 or cp1252
    - `header`: true if the first line is a header although it looks like a row, and false if there is no header. With
      None the first line is a header unless `columns` is given, and a header that looks like a row is refused
    - `columns`: the names of the columns, for files without a header
    - `skip_lines`: the number of lines above the header or the first row
    - `decimal`, `thousands`: the decimal point, and the separator of thousands ("" for none)
    - `date_format`: the format of dates, such as `%d.%m.%Y`
    - `null`: words that mean an empty cell, such as NA
    """

    separator: Annotated[str, StringConstraints(min_length=1, max_length=8)] | None = None
    quote: Annotated[str, StringConstraints(min_length=1, max_length=4)] = '"'
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


_MOST_FIELDS = 100
"""The most fields of the JSON objects `types` and `public` in a request."""


def _check_size(value: object) -> object:
    """Return `value`, a field of a request body, unchanged if it is small enough to be validated.

    Raises `InvalidParameter` for a JSON object of more than 100 fields. Pydantic calls this before it validates the
    object's fields, so that a body of many thousand fields is refused at once.
    """
    if isinstance(value, dict) and len(value) > _MOST_FIELDS:
        raise InvalidParameter(f"should have at most {_MOST_FIELDS} fields")
    return value


class DatasetBody(Body):
    """A table to register: where it is, whose privacy it protects, and the columns and bounds that questions may use.

    - `name`, `engine`, `table`: the dataset's name, and where its rows are: for DuckDB a path in the service's data
      folder, for other engines the name of a table
    - `user`: the column that identifies users
    - `items`, `values`, `filters`: the columns to group by, to aggregate and to filter by
    - `contributions`: the most groups in which one user counts
    - `per_item`: the most that a user adds to one group: a number of rows for a count of rows, and an amount of the
      summed column for a sum. Without it, counts of rows in SQL spend a tenth of their epsilon on finding a bound
    - `apart`: why the dataset does not share the cap (joint budget) of other datasets on the same table; "" if it does
    - `unit`: whom an answer protects: "user", or a part of a user; datasets that share a cap have the same unit
    - `types`: the kinds (integer, date, ...) of CSV columns that are not text
    - `public`: the tables without users that SQL may join: for each name, the path or table name, written as in `table`
    - `csv`: how the CSV files are written

    A question may state smaller bounds, but no larger ones.
    """

    name: Name
    engine: Annotated[EngineKind, Field(strict=False)] = EngineKind.DUCKDB
    table: Annotated[str, StringConstraints(min_length=1, max_length=500), PLAIN_TEXT]
    user: Column
    items: Annotated[list[Column], Field(min_length=1, max_length=100)]
    values: Annotated[list[Column], Field(max_length=100, default_factory=list)]
    filters: Annotated[list[Column], Field(max_length=100, default_factory=list)]
    contributions: Bound | None = None
    per_item: Bound | None = None
    apart: ShortText = ""
    unit: Annotated[
        str,
        StringConstraints(min_length=4, max_length=200),
        PLAIN_TEXT,
        Field(description="the unit of privacy: `user`, or a part of a user such as `user,day`, a far weaker promise"),
    ] = "user"
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
    """A cap: the joint budget (epsilon, delta) of all accounts on a dataset.

    - `rule`: how the costs of mechanisms add up: "zcdp" adds zCDP parameters, and "wallet" adds what `keep` says
    - `failure_share`: the share of delta for outright failures (everything may be revealed); None is the rule's default
    - `keep`: what the rule "wallet" adds. "wallet" compares each mechanism with a Gaussian mechanism that reveals at
      least as much, and adds mu squared of these, which works for any noise. "sum" adds epsilons, which works only for
      mechanisms with a pure-DP guarantee. "either" keeps both sums until a question fits only one of them; from then on
      all accounts are charged by that sum alone
    """

    epsilon: Epsilon
    delta: Delta
    rule: Rule = "wallet"
    failure_share: FailureShare | None = None
    keep: Keep = Field(
        "either",
        description="by which rule the cap is paid: `wallet` (any noise), `sum` (of epsilons, pure noise only), or "
        "`either`, until a question fits one of them only and ends the other for everybody",
    )


class ReclaimBody(Body):
    """Request to take back the unspent parts of a dataset's cap (joint budget) that idle accounts have reserved.

    An account is idle if it has had no ledger entry, such as a charge, for `idle_hours` hours.
    """

    idle_hours: Annotated[float, Field(ge=0.0, le=24.0 * 366.0 * 100.0)] = 0.0


@router.get("/datasets")
async def list_datasets(request: Request) -> list[DatasetRecord]:
    """List the datasets, each with the columns that questions may use."""
    service = service_of(request)
    return await service.threads.run(lambda: [dataset_record(service, dataset) for dataset in service.datasets.all()])


@router.post("/datasets", status_code=201)
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
) -> DatasetRecord:
    """Register a table as a dataset. The names and types of its columns are looked up now; no row is read."""
    service = service_of(request)
    return await service.threads.run(_register, service, body, caller(request).person.name)


@router.get("/datasets/{dataset}")
async def show_dataset(request: Request, dataset: DatasetName) -> DatasetRecord:
    """Return a dataset: its contribution bounds, and the columns that questions may use."""
    service = service_of(request)
    return await service.threads.run(lambda: dataset_record(service, service.datasets.get(dataset)))


@router.put("/datasets/{dataset}/cap")
async def set_cap(
    request: Request,
    dataset: DatasetName,
    body: Annotated[CapBody, JsonBody(examples=[{"epsilon": 10.0, "delta": 1e-5}])],
) -> CapRecord:
    """Set the cap of a dataset: the (epsilon, delta) that all accounts on the dataset may spend together.

    A cap is set once, before the first account is opened, and cannot be changed or removed.
    """
    service, steward = service_of(request), caller(request).person.name

    def set_cap_of_dataset() -> None:
        with at_field("dataset"):
            service.datasets.get(dataset)
            service.ledger.set_cap(
                dataset,
                epsilon=body.epsilon,
                delta=body.delta,
                rule=body.rule,
                failure_share=body.failure_share,
                keep=body.keep,
                unit=service.datasets.get(dataset).unit,
            )
        details = {"epsilon": body.epsilon, "delta": body.delta, "rule": body.rule, "keep": body.keep}
        service.ledger.record("cap.set", by=steward, subject=dataset, details=details)

    await service.threads.run(set_cap_of_dataset)
    return {"dataset": dataset, "epsilon": body.epsilon, "delta": body.delta}


@router.post("/datasets/{dataset}/cap/reclaim")
async def reclaim(
    request: Request, dataset: DatasetName, body: Annotated[ReclaimBody, JsonBody(examples=[{"idle_hours": 24.0}])]
) -> ReclaimedRecord:
    """Take back the unspent parts of a dataset's cap (joint budget of its accounts) that idle accounts have reserved.

    An account is idle if it has had no ledger entry for `idle_hours` hours. The response has the number of accounts
    whose parts were taken back; each of these accounts reserves a part again when a charge needs one.
    """
    service, steward = service_of(request), caller(request).person.name

    def reclaim_shares() -> ReclaimedRecord:
        with at_field("dataset"):
            service.datasets.get(dataset)
            count = service.ledger.reclaim(dataset, idle=timedelta(hours=body.idle_hours))
        details = {"idle_hours": body.idle_hours, "accounts": count}
        service.ledger.record("cap.reclaimed", by=steward, subject=dataset, details=details)
        return {"dataset": dataset, "accounts": count}

    return await service.threads.run(reclaim_shares)


@router.get("/datasets/{dataset}/joint")
async def joint(
    request: Request,
    dataset: DatasetName,
    periods: Annotated[int, Query(ge=1, le=1000, examples=[1], description="calendar periods to cover")] = 1,
) -> JointRecord:
    """Return the (epsilon, delta) that holds for all accounts on a dataset together, even if their analysts collude.

    If an account's budget is renewed in each calendar period, the budgets of `periods` periods are counted.
    """
    service = service_of(request)

    def read_terms() -> JointPromise:
        service.datasets.get(dataset)
        ledger = service.ledger
        return JointPromise(dataset=dataset, terms=ledger.terms_on(dataset), cap=ledger.cap(dataset), periods=periods)

    return await service.calculators.run(await service.threads.run(read_terms))


def _register(service: Service, body: DatasetBody, steward: str) -> DatasetRecord:
    """Register the table that `body` describes as a dataset, and return the dataset's JSON record.

    The registration is stored in the ledger and in the store of datasets; `steward` is the person who registers. Raises
    `InvalidParameter`, `UnknownColumn` or `UnsuitableTable` with the name of the field at fault, and `NameTaken` if
    there is a dataset of that name.
    """
    fields: dict[str, Any] = body.model_dump(exclude={"apart", "csv"}) | {
        "types": tuple(body.types.items()),
        "public": tuple(body.public.items()),
    }
    if body.csv is not None:
        columns = None if body.csv.columns is None else tuple(body.csv.columns)
        with at_field("csv"):
            fields["csv"] = CsvOptions(**body.csv.model_dump(exclude={"columns"}), columns=columns)
    with at_field("unit"):
        check_unit(body.unit)
    with at_field("items"):
        dataset = Dataset(**fields)
    service.engines.check(dataset)
    return register(service, dataset, steward, body.apart)


def register(service: Service, dataset: Dataset, steward: str, apart: str) -> DatasetRecord:
    """Register `dataset` in the ledger and in the store of datasets of `service`; return its JSON record.

    `steward` is the person who registers. `apart` is the reason why `dataset` does not share the cap (joint budget) of
    other datasets on the same table; "" if it does.

    Requires: `Engines.check` has accepted the dataset.

    Raises `NameTaken` if there is a dataset of that name, and `BadRequest` if datasets on the same table would then
    have different caps or different units of privacy (a user, or a part of a user such as a user's day).
    """
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
            by=steward,
            apart=apart,
            unit=dataset.unit,
        )
    with at_field("name"):
        return dataset_record(service, service.datasets.add(dataset, by=steward))


def dataset_record(service: Service, dataset: Dataset) -> DatasetRecord:
    """Return the JSON record of `dataset`: its contribution bounds, and the columns that questions may use.

    Each column has its name and its kind, such as text or integer, which `service` looks up in the table.
    """
    schema = service.engines.schema(dataset)
    public = service.engines.public_schemas(dataset)
    return {
        "name": dataset.name,
        "engine": str(dataset.engine),
        "user": dataset.user,
        "unit": dataset.unit,
        "items": _columns(map(schema.column, dataset.items)),
        "values": _columns(map(schema.column, dataset.values)),
        "filters": _columns(map(schema.column, dataset.filters)),
        "contributions": dataset.contributions,
        "per_item": dataset.per_item,
        "public": {name: _columns(columns) for name, columns in public.items()},
    }


def _columns(columns: Iterable[TableColumn]) -> list[ColumnRecord]:
    """Return the JSON records of columns: the name and the kind (text, integer, ...) of each."""
    return [{"name": column.name, "kind": str(column.kind)} for column in columns]
