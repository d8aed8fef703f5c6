"""Account: what is left of each kind, the odometer over time, and each charge with what it bought."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from setwise.accounting.guarantees import Use, merged
from setwise.accounting.notation import format_use
from setwise.analytics.present.text import charge_in_words
from setwise.ledger.account import Account
from setwise.ledger.records import Entry
from setwise.ledger.status import AccountStatus
from setwise.service.api.accounts import show_status
from setwise.service.auth.people import Identity
from setwise.service.pages.rendering import render
from setwise.service.replica import Service
from setwise.service.route import GuardedRoute, caller, service_of

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)

_POINTS = 60
_ACCOUNTS = 60
"""Accounts on one page of the list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """One charge: when (seconds since 1970), what it bought, and what it drew after what came back."""

    number: int
    at: float
    key: str
    period: str
    bought: str
    drawn: tuple[Use, ...]
    returned: tuple[Use, ...]
    answered: bool

    @property
    def kept(self) -> tuple[Use, ...]:
        """The draws that did not come back."""
        back = {use.guarantee: use.count for use in self.returned}
        counts = [(use.guarantee, use.count - back.get(use.guarantee, 0)) for use in self.drawn]
        return tuple(Use(guarantee, count) for guarantee, count in counts if count > 0)

    @property
    def uses(self) -> list[str]:
        """The draws that did not come back, as text."""
        return list(map(format_use, self.kept))

    @property
    def came_back(self) -> list[str]:
        """What came back of the draws, written."""
        return [format_use(use) for use in self.returned]


def charges_of(entries: Iterable[Entry]) -> list[Charge]:
    """Return the charges of an account, oldest first, each with what its settlement gave back."""
    found: dict[str, Charge] = {}
    for entry in entries:
        contents = entry.contents
        charged = found.get(contents.key)
        if contents.kind == "charge":
            found[contents.key] = Charge(
                number=len(found) + 1,
                at=entry.moment.timestamp(),
                key=contents.key,
                period=contents.period,
                bought=charge_in_words(contents.text),
                drawn=entry.uses,
                returned=(),
                answered=False,
            )
        elif contents.kind == "settle" and charged is not None:
            found[contents.key] = replace(charged, returned=entry.uses, answered=True)
    return list(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the odometer showed after a charge, at most the promise."""

    charge: int
    at: float
    bought: str
    epsilon: float


def odometer_readings(account: Account, charges: Iterable[Charge], period: str, last: float) -> list[Reading]:
    """Return the odometer after each charge of a period; of many charges, some spread evenly with the last.

    `last` is the reading after all of them. Readings only grow, so no earlier one is above it.
    """
    present = [charge for charge in charges if charge.period == period]
    step = max(1, -(-len(present) // _POINTS))
    readings = []
    kept: list[Use] = []
    for place, charge in enumerate(present, 1):
        kept = list(merged((*kept, *charge.kept)))
        if place % step == 0 or place == len(present):
            loss = min(account.odometer_after(kept), last)
            readings.append(Reading(charge=charge.number, at=charge.at, bought=charge.bought, epsilon=loss))
    return readings


@router.get("/accounts")
async def accounts(request: Request, after: Annotated[str, Query(max_length=64)] = "") -> Response:
    """Show one's accounts, those whose names follow `after`; an analyst who has only one is led to it."""
    return await service_of(request).rendering.run(_accounts_page, request, after)


def _accounts_page(request: Request, after: str) -> Response:
    service, identity = service_of(request), caller(request)
    statuses = service.accounts.all_visible(identity, after=after, most=_ACCOUNTS + 1)
    if len(statuses) == 1 and not after and not identity.is_steward:
        return RedirectResponse(f"/accounts/{statuses[0].name}", 303)
    return render(
        request,
        "accounts.html",
        accounts=[status.summary() for status in statuses[:_ACCOUNTS]],
        first=after,
        next=statuses[_ACCOUNTS - 1].name if len(statuses) > _ACCOUNTS else "",
    )


@router.get("/accounts/{account}")
async def account_page(request: Request, account: str, most: Annotated[int, Query(ge=1, le=10_000)] = 50) -> Response:
    """Show how an account stands and how it came to that."""
    service, identity = service_of(request), caller(request)
    status = await service.threads.run(lambda: service.accounts.visible(identity, account).status_by_entries())
    shown = await show_status(service, status)
    return await service.rendering.run(_account_page, request, status, shown, most)


def _account_page(request: Request, status: AccountStatus, shown: dict[str, object], most: int) -> Response:
    odometer = status.odometer.upper if shown["odometer"] is None else shown["odometer"]["upper"]  # type: ignore[index]
    last = min(odometer, status.epsilon.upper)
    charges, readings, ids = _statement(service_of(request), caller(request), status, last)
    return render(
        request,
        "account.html",
        charts=True,
        account=shown,
        kinds=_kinds(status),
        charges=charges[::-1][:most],
        count=len(charges),
        readings=[(each.charge, each.at, each.bought, each.epsilon) for each in readings],
        after={each.charge: each.epsilon for each in readings},
        answers=ids,
    )


def _statement(
    service: Service, identity: Identity, status: AccountStatus, last: float
) -> tuple[list[Charge], list[Reading], dict[str, str]]:
    """Return the charges of an account, the odometer after them, and the ids of their queries by key."""
    account = service.accounts.visible(identity, status.name)
    charges = charges_of(service.ledger.history(status.name))
    readings = odometer_readings(account, charges, status.period, last)
    return charges, readings, service.jobs.ids_on(status.name)


def _kinds(status: AccountStatus) -> list[dict[str, object]]:
    """Return each kind of a set-wise account with what is left of what there was."""
    if status.kind == "filter":
        return []
    left = {use.guarantee: use.count for use in status.left}
    spent = {use.guarantee: use.count for use in status.spent}
    return [
        {
            "kind": format_use(Use(guarantee)),
            "left": left.get(guarantee, 0),
            "total": left.get(guarantee, 0) + spent.get(guarantee, 0),
        }
        for guarantee in {**left, **spent}
    ]
