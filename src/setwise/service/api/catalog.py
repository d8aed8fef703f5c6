"""Routes for the catalog: stewards register the tables of a catalog file as datasets, and get the file back."""

from dataclasses import asdict, replace
from itertools import chain, count
from typing import Annotated, Any

from fastapi import APIRouter, Request
from fastapi import Body as JsonBody
from pydantic import Field, StringConstraints

from setwise.analytics.catalog import Catalog, CatalogTable, Declaration, parse_catalog
from setwise.analytics.engines.files import CsvOptions
from setwise.analytics.schema import NUMBER_KINDS
from setwise.contract import CatalogRecord
from setwise.errors import InvalidParameter, NameTaken, UnknownName
from setwise.service.api.datasets import register
from setwise.service.api.schemas import Body
from setwise.service.auth.permissions import API
from setwise.service.problems import at_field
from setwise.service.replica import Service
from setwise.service.route import GuardedRoute, caller, service_of
from setwise.service.settings import EngineKind
from setwise.service.storage.datasets import Dataset

router = APIRouter(prefix=API, tags=["datasets"], route_class=GuardedRoute)

_CSV = tuple(asdict(CsvOptions()))

_EXAMPLE = '[tables.ratings]\nsource = "ratings.parquet"\nuser = "user_id"\nbounds = { rating = [1, 5] }\n'


class CatalogBody(Body):
    """A catalog to import: `text` is TOML text that lists tables with their bounds and public group keys.

    The bounds limit how much one user contributes, and the values of columns. A table is a path in the service's data
    folder, or the name of a table on a database server. `apart` is the reason why the datasets of this catalog do not
    share the cap (joint budget) of other datasets on the same tables; "" if they share the cap.
    """

    text: Annotated[str, StringConstraints(min_length=1, max_length=200_000)]
    apart: Annotated[str, Field(max_length=500)] = ""


@router.get("/catalog")
async def export_catalog(request: Request) -> CatalogRecord:
    """Return all datasets as a catalog: the TOML text that `setwise sql --catalog` and `setwise.open` read."""
    service = service_of(request)
    return await service.threads.run(lambda: _catalog_record(service.datasets.all()))


@router.put("/catalog")
async def import_catalog(
    request: Request, body: Annotated[CatalogBody, JsonBody(examples=[{"text": _EXAMPLE}])]
) -> CatalogRecord:
    """Register each table of a catalog (a TOML text) as a dataset, with its declared bounds and public group keys.

    Questions may then group and filter by every column except the user column, and aggregate every numeric column. A
    table that is already registered with the same definition is skipped. All tables are checked before the first of
    them is registered.
    """
    service, steward = service_of(request), caller(request).person.name
    return await service.threads.run(_import, service, body, steward)


def _import(service: Service, body: CatalogBody, steward: str) -> CatalogRecord:
    """Register the tables of the catalog in `body` that are not registered yet; return the catalog of all datasets.

    `steward` is the person who registers them. All tables are checked before the first is registered. The check raises
    `InvalidParameter`, `UnsuitableTable` or `UnknownColumn` for a table that cannot be registered, and `NameTaken` if a
    dataset of that name has another definition.

    Registering a table raises `BadRequest` if datasets on the same table would then have different caps (joint
    budgets). Tables that were registered before it stay registered.
    """
    with at_field("text"):
        catalog = parse_catalog(body.text, reads_files=False)
        datasets = [_dataset(service, catalog, name) for name in catalog.tables]
        missing = []
        for dataset in datasets:
            try:
                known = service.datasets.get(dataset.name)
            except UnknownName:
                service.engines.check(dataset)
                missing.append(dataset)
                continue
            if not _declares_same(known, dataset):
                raise NameTaken(f"the dataset {dataset.name!r} has another definition: give the table another name")
    for dataset in missing:
        register(service, dataset, steward, body.apart)
    return _catalog_record(service.datasets.all())


def _dataset(service: Service, catalog: Catalog, name: str) -> Dataset:
    """Return the table `name` of the parsed `catalog` as a dataset to register.

    Questions may use all columns of the dataset, which `service` looks up without reading rows. Raises
    `InvalidParameter` if the table is on a kind of engine (system that reads tables) that the service does not know, or
    has an option that the service does not take.
    """
    table = catalog.tables[name]
    engine = EngineKind.of(str(table.options.get("engine", "duckdb")))
    if engine is None:
        raise InvalidParameter(f"the engine of {name!r} is not one of {', '.join(EngineKind)}")
    for option in ("memory", "table"):
        if option in table.options:
            raise InvalidParameter(f"the service has no option {option!r} for the table {name!r}: leave it out")
    options: dict[str, Any] = {word: value for word, value in table.options.items() if word in _CSV}
    if "columns" in options:
        options["columns"] = tuple(options["columns"])
    declared = table.declared
    candidate = Dataset(
        name=name,
        engine=engine,
        table=table.source,
        user=table.user,
        unit=table.unit,
        items=(),
        contributions=declared.contributions if isinstance(declared.contributions, int) else None,
        types=tuple((column, str(kind)) for column, kind in dict(table.options.get("types", {})).items()),
        public=tuple(catalog.public.items()),
        csv=CsvOptions(**options),
    )
    schema = service.engines.describe_candidate(candidate)
    for column in (table.user, *declared.bounds, *declared.domains):
        schema.column(column)
    columns = tuple(column.name for column in schema if column.name != table.user)
    numbers = tuple(column.name for column in schema if column.kind in NUMBER_KINDS and column.name != table.user)
    return Dataset(
        **{
            field: getattr(candidate, field)
            for field in ("name", "engine", "table", "user", "unit", "types", "public", "csv")
        },
        items=columns,
        values=numbers,
        filters=columns,
        contributions=candidate.contributions,
        per_item=declared.rows_per_user,
        rows_per_user=declared.rows_per_user,
        bounds=tuple((column, float(low), float(high)) for column, (low, high) in declared.bounds.items()),
        domains=tuple(declared.domains.items()),
    )


def _declares_same(known: Dataset, imported: Dataset) -> bool:
    """Return whether the registered dataset `known` has the same definition as `imported`, a table of a catalog.

    If so, the caller skips the table. A dataset has two bounds on what one user adds to a group: `rows_per_user` is a
    number of rows, and `per_item` a number of rows or an amount of a summed column. A catalog states only one number,
    which an import takes for both bounds. This number is compared with `rows_per_user` of `known` or, if `known` has
    none, with `per_item`. If neither side has `rows_per_user`, a `per_item` of 1 in `known` counts as no bound, because
    earlier versions stored 1 for it.
    """
    rows = known.rows_per_user or known.per_item
    # Earlier versions stored a `per_item` of 1 for tables that declare no such bound; these keep their 1.
    if rows == 1 and known.rows_per_user is None and imported.rows_per_user is None:
        rows = None
    return replace(known, per_item=rows, rows_per_user=rows) == imported


def _catalog_record(datasets: list[Dataset]) -> CatalogRecord:
    """Return `datasets` as a catalog: its TOML text, and the names of the datasets.

    If two datasets use one name for different public tables (those without users), the second of these tables is
    exported under the name DATASET_TABLE. For example, the table `countries` of the dataset `events` becomes
    `events_countries`, or `events_countries_2` if that name stands for yet another table.
    """
    named = {name for dataset in datasets for name, _ in dataset.public}
    public: dict[str, str] = {}
    for dataset in datasets:
        for name, source in dataset.public:
            if public.setdefault(name, source) != source:
                longer = f"{dataset.name}_{name}"
                names = chain([longer], (f"{longer}_{number}" for number in count(2)))
                public[next(free for free in names if free not in public and free not in named)] = source
    catalog = Catalog(tables={dataset.name: _table(dataset) for dataset in datasets}, public=public)
    return {"text": catalog.to_toml(), "datasets": [dataset.name for dataset in datasets]}


def _table(dataset: Dataset) -> CatalogTable:
    """Return `dataset` as a table of a catalog, a TOML text that lists tables with their bounds and public group keys.

    Options for reading the table, such as the separator of a CSV file, are left out if they have their default values.
    """
    default = asdict(CsvOptions())
    options: dict[str, Any] = {} if dataset.engine is EngineKind.DUCKDB else {"engine": str(dataset.engine)}
    options |= {} if not dataset.types else {"types": dict(dataset.types)}
    options |= {word: value for word, value in asdict(dataset.csv).items() if value != default[word]}
    declared = Declaration(
        bounds={column: (low, high) for column, low, high in dataset.bounds},
        rows_per_user=dataset.rows_per_user or dataset.per_item,
        contributions=dataset.contributions,
        domains=dict(dataset.domains),
    )
    return CatalogTable(source=dataset.table, user=dataset.user, unit=dataset.unit, options=options, declared=declared)
