"""Account: what is left of each kind, the odometer over time, and each charge with what it bought."""

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from setwise.accounting.guarantees import Use
from setwise.accounting.notation import format_use, parse_use
from setwise.service.api.views import AccountView
from setwise.service.auth.people import Identity
from setwise.service.pages.rendering import render
from setwise.service.pages.statement import Charge, Reading, charges_of, odometer_readings
from setwise.service.replica import Service
from setwise.service.route import GuardedRoute, caller, service_of

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)


@router.get("/accounts")
async def accounts(request: Request) -> Response:
    """Show one's accounts; whoever has only one is led to it."""
    service, identity = service_of(request), caller(request)
    statuses = await service.threads.run(service.accounts.all_visible, identity)
    if len(statuses) == 1 and not identity.is_steward:
        return RedirectResponse(f"/accounts/{statuses[0].name}", 303)
    return render(request, "accounts.html", accounts=AccountView.listed(statuses))


@router.get("/accounts/{account}")
async def account_page(request: Request, account: str, most: Annotated[int, Query(ge=1, le=10_000)] = 50) -> Response:
    """Show how an account stands and how it came to that."""
    service, identity = service_of(request), caller(request)
    view, charges, readings, ids = await service.threads.run(_statement, service, identity, account)
    return render(
        request,
        "account.html",
        charts=True,
        account=view,
        kinds=_kinds(view),
        charges=charges[::-1][:most],
        count=len(charges),
        readings=[(each.charge, each.at, each.bought, each.epsilon) for each in readings],
        after={each.charge: each.epsilon for each in readings},
        answers=ids,
    )


def _statement(
    service: Service, identity: Identity, name: str
) -> tuple[AccountView, list[Charge], list[Reading], dict[str, str]]:
    account = service.accounts.visible(identity, name)
    status = account.status()
    charges = charges_of(service.ledger.history(name))
    readings = odometer_readings(account, charges, status.period)
    return AccountView.of(status), charges, readings, service.jobs.ids_on(name)


def _kinds(view: AccountView) -> list[dict[str, object]]:
    """Return each kind of a set-wise account with what is left of what there was."""
    if view.kind == "filter":
        return []
    left = {_bare(text): parse_use(text).count for text in view.left}
    spent = {_bare(text): parse_use(text).count for text in view.spent}
    return [
        {"kind": kind, "left": left.get(kind, 0), "total": left.get(kind, 0) + spent.get(kind, 0)}
        for kind in dict.fromkeys([*left, *spent])
    ]


def _bare(text: str) -> str:
    return format_use(Use(parse_use(text).guarantee))
