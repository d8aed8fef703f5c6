"""Steward: data sets with their joint guarantee, accounts, people and their tokens; the chain of entries and acts."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from setwise.accounting.notation import format_use
from setwise.accounting.wallet import FAILURE_SHARE
from setwise.analytics.present.text import charge_in_words
from setwise.ledger.records import Entry
from setwise.ledger.slices import CapTotals
from setwise.ledger.status import AccountStatus
from setwise.service.api.operations import audited
from setwise.service.pages.rendering import render
from setwise.service.replica import Service
from setwise.service.route import GuardedRoute, caller, service_of

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)


@router.get("/steward")
async def steward_page(request: Request) -> Response:
    """Show everything a steward looks after."""
    service, identity = service_of(request), caller(request)
    statuses = await service.threads.run(service.accounts.all_visible, identity)
    datasets = await service.threads.run(_registered, service, statuses)
    people = await service.threads.run(_members, service)
    return render(
        request,
        "steward.html",
        accounts=[status.summary() for status in statuses],
        datasets=datasets,
        people=people,
        now=service.authenticator.now(),
        engines=[each.partition(":")[0] for each in service.settings.engine],
        failure_share=FAILURE_SHARE,
        csrf=identity.csrf or "",
    )


def _registered(service: Service, statuses: Sequence[AccountStatus]) -> list[dict[str, object]]:
    """Return each data set with its cap, whether accounts hold slices of it, and how many accounts there are."""
    held = Counter(status.dataset for status in statuses)
    found: list[dict[str, object]] = []
    for dataset in service.datasets.all():
        cap = service.ledger.cap(dataset.name)
        sliced = cap is not None and isinstance(cap.terms.totals, CapTotals)
        found.append({"dataset": dataset, "cap": cap, "sliced": sliced, "accounts": held[dataset.name]})
    return found


def _members(service: Service) -> list[dict[str, object]]:
    """Return everybody with what is known of their tokens."""
    return [{"person": each, "tokens": service.people.tokens(each.name)} for each in service.people.all()]


_KINDS = {"charge": "charge", "settle": "answer stored", "slice": "slice of the cap", "release": "part released"}
_ENTRIES = 200
_ACTS = 200


@router.get("/steward/audit")
async def audit_page(request: Request, account: str = "") -> Response:
    """Show the latest entries of an account, newest first."""
    service, identity = service_of(request), caller(request)
    statuses = await service.threads.run(service.accounts.all_visible, identity)
    chosen = account or (statuses[0].name if statuses else "")
    entries = await service.threads.run(_latest, service, chosen) if chosen else []
    return render(
        request,
        "audit.html",
        accounts=[status.name for status in statuses],
        chosen=chosen,
        entries=[_row(entry) for entry in entries],
        most=_ENTRIES,
    )


@router.get("/steward/verify")
async def verify(request: Request, head: Annotated[str, Query(pattern="^([0-9a-f]{64})?$")] = "") -> Response:
    """Recompute every chain and balance of the ledger; with an earlier head, nothing may have changed since."""
    service = service_of(request)
    found = await service.threads.run(service.upkeep.verify, head=head or None)
    if not head:
        service.metrics.audited(len(found.faults), service.authenticator.now())
    return JSONResponse(audited(found))


@router.get("/steward/trail")
async def trail_page(request: Request) -> Response:
    """Show what was done to people, tokens, data sets and accounts, newest first."""
    service = service_of(request)
    acts = await service.threads.run(service.ledger.acts)
    latest = [record.to_dict() | {"at": record.moment.timestamp()} for record in acts[: -_ACTS - 1 : -1]]
    return render(request, "trail.html", acts=latest, most=_ACTS)


def _latest(service: Service, name: str) -> list[Entry]:
    last = service.ledger.account(name).entries()
    return list(service.ledger.history(name, after=max(0, last - _ENTRIES)))[::-1]


def _row(entry: Entry) -> dict[str, object]:
    contents = entry.contents
    charged = contents.kind == "charge"
    return {
        "number": entry.position,
        "at": entry.moment.timestamp(),
        "kind": _KINDS[contents.kind],
        "key": contents.key,
        "says": charge_in_words(contents.text) if charged else "",
        "uses": [format_use(use) for use in entry.uses],
        "previous": entry.previous,
        "hash": entry.hash,
    }
