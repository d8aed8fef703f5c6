"""Pages for stewards: datasets with their joint guarantee, accounts, people, tokens, ledger entries and audit log."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request
from pydantic import ValidationError
from starlette.responses import JSONResponse, Response

from setwise.accounting.notation import format_use
from setwise.analytics.engines.files import CSV_SEPARATORS, FORMATS, PARQUET_SUFFIXES, CsvOptions
from setwise.analytics.present.text import charge_in_words
from setwise.analytics.schema import Kind
from setwise.errors import InvalidParameter
from setwise.ledger.records import Entry
from setwise.ledger.slices import CapTotals
from setwise.ledger.terms import ACCOUNT_FAILURE_SHARE
from setwise.service.api.datasets import CsvBody
from setwise.service.api.operations import audit_record
from setwise.service.pages.rendering import render
from setwise.service.problems import at_field
from setwise.service.replica import Service
from setwise.service.route import GuardedRoute, caller, service_of
from setwise.service.settings import EngineKind
from setwise.service.storage.datasets import Dataset

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)


_ROWS = 50
"""The most accounts, and the most people, on one page of their lists."""

Name = Annotated[str, Query(max_length=64)]


@router.get("/steward")
async def steward_page(request: Request, account: Name = "", person: Name = "") -> Response:
    """Show the page of a steward: all datasets, up to 50 accounts and up to 50 people, in the order of names.

    The list of accounts begins after the name `account`, and the list of people after the name `person`.
    """
    return await service_of(request).rendering.run(_steward_page, request, account, person)


def _steward_page(request: Request, account: str, person: str) -> Response:
    """Return the page of a steward: all datasets, up to 50 accounts and up to 50 people, in the order of names.

    The list of accounts begins after the name `account`, and the list of people after the name `person`.
    """
    service, identity = service_of(request), caller(request)
    statuses = service.accounts.all_visible(identity, after=account, most=_ROWS + 1)
    people = service.people.page(after=person, most=_ROWS + 1)
    counts = service.ledger.count_accounts()
    return render(
        request,
        "steward.html",
        accounts=[status.summary() for status in statuses[:_ROWS]],
        count=sum(counts.values()),
        first_account=account,
        next_account=statuses[_ROWS - 1].name if len(statuses) > _ROWS else "",
        datasets=_dataset_rows(service, counts),
        people=[{"person": each, "tokens": service.people.tokens(each.name)} for each in people[:_ROWS]],
        first_person=person,
        next_person=people[_ROWS - 1].name if len(people) > _ROWS else "",
        now=service.authenticator.now(),
        engines=[each.partition(":")[0] for each in service.settings.engine],
        failure_share=ACCOUNT_FAILURE_SHARE,
        formats=FORMATS,
        kinds=[str(kind) for kind in Kind if kind is not Kind.OTHER],
        csrf=identity.csrf or "",
    )


_MOST_FILES = 500
"""The most files that are offered for a dataset; the path of any other can be typed."""

_FILE_ENDINGS = (*PARQUET_SUFFIXES, *CSV_SEPARATORS, ".gz", ".zst", ".db", ".duckdb", ".sqlite", ".dat", ".txt")
"""Endings of the files in the data folder that can be tables."""


@router.get("/steward/tables")
async def tables(request: Request) -> Response:
    """List the files in the service's data folder that can be registered as datasets, as paths in that folder."""
    service = service_of(request)
    return JSONResponse(await service.threads.run(_files_in, service.settings.data_dir))


def _files_in(folder: Path) -> list[str]:
    """Return the paths of at most 500 files in the folder whose endings show that they may be tables, sorted.

    A folder with the metadata of a Delta or Iceberg table counts as one table. Hidden files are left out.
    """
    relative_names: list[str] = []
    for place, folders, names in os.walk(folder):
        inside = Path(place).relative_to(folder)
        if {"_delta_log", "metadata"} & set(folders) and inside.parts:
            relative_names.append(inside.as_posix())
            folders.clear()
            continue
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files = (name for name in names if name.lower().endswith(_FILE_ENDINGS) and not name.startswith("."))
        relative_names += [(inside / name).as_posix() for name in files]
        if len(relative_names) >= _MOST_FILES:
            break
    return sorted(relative_names)[:_MOST_FILES]


@router.get("/steward/columns")
async def columns(
    request: Request,
    table: Annotated[str, Query(min_length=1, max_length=500)],
    engine: EngineKind = EngineKind.DUCKDB,
    csv: Annotated[str, Query(max_length=5000)] = "{}",
) -> Response:
    """Return the names and kinds of the columns of a table that a steward may register, as JSON; no row is read.

    `table` is a path in the service's data folder or, for an `engine` other than DuckDB, a table's name. `csv` says as
    JSON text how CSV files are written (see `POST /api/v1/datasets`).
    """
    service = service_of(request)
    try:
        options = CsvBody.model_validate_json(csv)
    except ValidationError:
        raise InvalidParameter("the file options are not valid: look at those that are marked") from None

    def describe() -> list[dict[str, str]]:
        names = None if options.columns is None else tuple(options.columns)
        with at_field("csv"):
            csv_options = CsvOptions(**options.model_dump(exclude={"columns"}), columns=names)
        candidate = Dataset(name="candidate", engine=engine, table=table, user="", items=(), csv=csv_options)
        schema = service.engines.describe_candidate(candidate)
        return [{"name": column.name, "kind": str(column.kind)} for column in schema]

    return JSONResponse(await service.threads.run(describe))


def _dataset_rows(service: Service, counts: Mapping[str, int]) -> list[dict[str, object]]:
    """Return a row of the steward's page for each dataset of `service`, as a dict.

    A row has these entries:

    - `dataset`: the dataset
    - `cap`: the status of the joint budget of the dataset's accounts, or None if there is no joint budget
    - `sliced`: True if each account reserves parts of that joint budget before it spends them, so that a steward can
      take back what idle accounts have reserved
    - `accounts`: the number of accounts on the dataset, from `counts`, which maps names of datasets to these numbers
    """
    rows: list[dict[str, object]] = []
    for dataset in service.datasets.all():
        cap = service.ledger.cap(dataset.name)
        sliced = cap is not None and isinstance(cap.terms.totals, CapTotals)
        rows.append({"dataset": dataset, "cap": cap, "sliced": sliced, "accounts": counts.get(dataset.name, 0)})
    return rows


_KIND_NAMES = {"charge": "charge", "settle": "answer stored", "slice": "slice of the cap", "release": "part released"}
_ENTRIES = 200
"""The most ledger entries of an account on the audit page."""

_CHOICES = 200
"""The most accounts that the audit page suggests; the name of any other account can be typed."""

_EVENTS = 200
"""The most events on the page of the audit log."""


@router.get("/steward/audit")
async def audit_page(request: Request, account: str = "") -> Response:
    """Show the latest ledger entries of the account called `account`, newest first.

    If `account` is "", the first account is shown.
    """
    return await service_of(request).rendering.run(_audit_page, request, account)


def _audit_page(request: Request, account: str) -> Response:
    """Return the audit page with the latest ledger entries of `account`, or of the first account if it is ""."""
    service, identity = service_of(request), caller(request)
    statuses = service.accounts.all_visible(identity, most=_CHOICES)
    chosen = account or (statuses[0].name if statuses else "")
    entries = _latest_entries(service, chosen) if chosen else []
    return render(
        request,
        "audit.html",
        accounts=[status.name for status in statuses],
        chosen=chosen,
        entries=[_entry_row(entry) for entry in entries],
        most=_ENTRIES,
    )


@router.get("/steward/verify")
async def verify(request: Request, head: Annotated[str, Query(pattern="^([0-9a-f]{64})?$")] = "") -> Response:
    """Verify every hash chain and balance of the ledger, and return the result as JSON.

    `head` is the digest that an earlier verification returned. If it is given, the result has a fault if anything in
    the ledger was changed or added since then. An empty `head` skips this comparison.
    """
    service = service_of(request)
    verification = await service.threads.run(service.upkeep.verify, head=head or None)
    if not head:
        service.metrics.audited(len(verification.faults), service.authenticator.now())
    return JSONResponse(audit_record(verification))


@router.get("/steward/trail")
async def trail_page(request: Request) -> Response:
    """Show the latest events of the audit log, newest first: changes of people, tokens, datasets and accounts."""
    service = service_of(request)
    events = await service.threads.run(service.ledger.acts)
    latest = [{**event.to_dict(), "at": event.moment.timestamp()} for event in events[: -_EVENTS - 1 : -1]]
    return render(request, "trail.html", acts=latest, most=_EVENTS)


def _latest_entries(service: Service, name: str) -> list[Entry]:
    """Return the latest entries (at most 200) of the account called `name` in the ledger of `service`, newest first."""
    last = service.ledger.account(name).entries()
    return list(service.ledger.history(name, after=max(0, last - _ENTRIES)))[::-1]


def _entry_row(entry: Entry) -> dict[str, object]:
    """Return the row of the audit page's table that shows the ledger entry `entry`: a dict from columns to cells.

    The column `description` describes the question of a charge; it is "" for other entries.
    """
    contents = entry.contents
    is_charge = contents.kind == "charge"
    return {
        "number": entry.position,
        "at": entry.moment.timestamp(),
        "kind": _KIND_NAMES[contents.kind],
        "key": contents.key,
        "description": charge_in_words(contents.text) if is_charge else "",
        "uses": [format_use(use) for use in entry.uses],
        "previous": entry.previous,
        "hash": entry.hash,
    }
