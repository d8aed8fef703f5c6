"""Steward: data sets with their joint guarantee, accounts, people and their tokens; the chain of entries and acts."""

from collections.abc import Mapping
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from setwise.accounting.notation import format_use
from setwise.analytics.present.text import charge_in_words
from setwise.ledger.records import Entry
from setwise.ledger.slices import CapTotals
from setwise.ledger.terms import ACCOUNT_FAILURE_SHARE
from setwise.service.api.operations import audited
from setwise.service.pages.rendering import render
from setwise.service.replica import Service
from setwise.service.route import GuardedRoute, caller, service_of

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)


_ROWS = 50
"""Accounts, or people, on one page of the lists."""

Name = Annotated[str, Query(max_length=64)]


@router.get("/steward")
async def steward_page(request: Request, account: Name = "", person: Name = "") -> Response:
    """Show everything a steward looks after: the accounts and the people whose names follow those given."""
    return await service_of(request).rendering.run(_steward_page, request, account, person)


def _steward_page(request: Request, account: str, person: str) -> Response:
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
        datasets=_registered(service, counts),
        people=[{"person": each, "tokens": service.people.tokens(each.name)} for each in people[:_ROWS]],
        first_person=person,
        next_person=people[_ROWS - 1].name if len(people) > _ROWS else "",
        now=service.authenticator.now(),
        engines=[each.partition(":")[0] for each in service.settings.engine],
        failure_share=ACCOUNT_FAILURE_SHARE,
        csrf=identity.csrf or "",
    )


def _registered(service: Service, counts: Mapping[str, int]) -> list[dict[str, object]]:
    """Return each data set with its cap, whether accounts hold slices of it, and how many accounts there are."""
    found: list[dict[str, object]] = []
    for dataset in service.datasets.all():
        cap = service.ledger.cap(dataset.name)
        sliced = cap is not None and isinstance(cap.terms.totals, CapTotals)
        found.append({"dataset": dataset, "cap": cap, "sliced": sliced, "accounts": counts.get(dataset.name, 0)})
    return found


_KINDS = {"charge": "charge", "settle": "answer stored", "slice": "slice of the cap", "release": "part released"}
_ENTRIES = 200
_CHOICES = 200
"""Accounts that are suggested for the audit; the name of any other can be typed."""

_ACTS = 200


@router.get("/steward/audit")
async def audit_page(request: Request, account: str = "") -> Response:
    """Show the latest entries of an account, newest first."""
    return await service_of(request).rendering.run(_audit_page, request, account)


def _audit_page(request: Request, account: str) -> Response:
    service, identity = service_of(request), caller(request)
    statuses = service.accounts.all_visible(identity, most=_CHOICES)
    chosen = account or (statuses[0].name if statuses else "")
    entries = _latest(service, chosen) if chosen else []
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
