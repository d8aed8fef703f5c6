"""Routes for operators of the service: health, metrics, verification of the ledger, and the audit log."""

from importlib.metadata import version
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import PlainTextResponse

from setwise.contract import ActRecord, AuditRecord, HealthRecord
from setwise.ledger.audit.verification import Verification
from setwise.service.auth.permissions import API
from setwise.service.replica import Service
from setwise.service.route import GuardedRoute, caller, service_of
from setwise.service.telemetry import METRICS_TYPE

router = APIRouter(prefix=API, tags=["operations"], route_class=GuardedRoute)

_VERSION = version("setwise")

_BUDGET_SECONDS = 60.0
"""Seconds for which the gauges of budgets are kept: computing them reads every account of the ledger."""


@router.get("/health")
async def health(request: Request) -> HealthRecord:
    """Return whether this replica (process of the service) can serve requests, and whether its database is read-only.

    Responds within about 0.1 seconds even if the database hangs; the status is 503 if a test of the database failed, or
    has had no answer for 5 seconds.
    """
    return {"status": str(await service_of(request).probe.check()), "version": _VERSION}


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(request: Request) -> PlainTextResponse:
    """Return the counters and gauges of this replica (process of the service) in the text format of Prometheus.

    Only stewards and monitors get the gauges of remaining budgets, which would tell others what analysts asked.
    """
    service = service_of(request)
    text = service.metrics.text()
    identity = caller(request)
    if identity.is_steward or identity.is_monitor:
        text += await service.threads.run(_budget_gauges, service)
    return PlainTextResponse(text, media_type=METRICS_TYPE)


@router.get("/audit")
async def audit(request: Request) -> AuditRecord:
    """Recompute every hash chain and balance of the ledger, and report each stored hash or balance that differs.

    If the service has a signing key, it is also checked that every head (a record of where the hash chains end) is
    signed with the key, and that the newest head is not older than twice `head_hours`, a setting. Differences between
    the service's own tables (answers, roles, datasets) and the ledger are reported too.
    """
    service = service_of(request)
    verification = await service.threads.run(service.upkeep.verify)
    service.metrics.audited(len(verification.faults), service.authenticator.now())
    return audit_record(verification)


@router.get("/trail")
async def trail(
    request: Request,
    after: Annotated[
        int, Query(ge=0, le=2**53, examples=[0], description="the number of the last event already seen")
    ] = 0,
    most: Annotated[int, Query(ge=1, le=1000, examples=[100])] = 100,
) -> list[ActRecord]:
    """List the audit log in order: changes by stewards and operators to people, tokens, datasets and accounts.

    A page has at most `most` events, which come after the event with the number `after`.
    """
    service = service_of(request)
    events = await service.threads.run(service.ledger.acts, after=after)
    return [event.to_dict() for event in events[:most]]


def audit_record(verification: Verification) -> AuditRecord:
    """Return the result of a verification of the ledger as the JSON object of the API, with each fault as a sentence.

    Each account's ledger entries form a hash chain, so that its last hash covers all entries. The field `head` is one
    digest over the last hashes of all accounts. The hashes themselves are left out, because a list of them would name
    every account.
    """
    return {
        "verified": not verification.faults,
        "accounts": len(verification.anchor.accounts),
        "entries": verification.entries,
        "head": verification.anchor.head,
        "faults": [str(fault) for fault in verification.faults],
    }


def _budget_gauges(service: Service) -> str:
    """Return the gauges of remaining budgets in the text format of Prometheus.

    The gauges are computed from the ledger of `service`. Because the computation reads every account, a result is used
    for a minute.
    """
    now = service.authenticator.now()
    if now >= service.metrics.budget_at + _BUDGET_SECONDS:
        caps = {dataset.name: service.ledger.cap(dataset.name) for dataset in service.datasets.all()}
        shares = {name: cap.share_left for name, cap in caps.items() if cap is not None}
        statuses = service.ledger.accounts()
        accounts = ((status.dataset, status.state, status.share_left) for status in statuses)
        service.metrics.budget(shares, accounts, now)
    return service.metrics.text_of_budgets()
