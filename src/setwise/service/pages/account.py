"""Pages of accounts: the remaining budget, the odometer over time, and each charge with the question it paid for.

An odometer is a bound on the epsilon of all answers so far.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from setwise.accounting.guarantees import Use, merged
from setwise.accounting.notation import format_use
from setwise.analytics.present.text import charge_in_words
from setwise.contract import AccountRecord
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
"""The number of points, at most, in the chart of the odometer."""

_ACCOUNTS = 60
"""The most accounts on one page of the list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """One charge of an account, as the account's page shows it.

    - `number`: the number of the charge in the account, from 1
    - `at`: the time of the charge, in seconds since 1970
    - `key`: the idempotency key of the question that the charge paid for
    - `period`: the calendar period whose budget paid, such as "2026-11"; "" if the account has no periods
    - `bought`: the question, described for people
    - `drawn`: what the charge took from the account: guarantees, each with the number of mechanisms that have it
    - `returned`: those of the guarantees in `drawn` that were not needed, and were given back when the answer was
      stored
    - `answered`: whether an answer was stored
    """

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
        """The guarantees (with counts) that the charge took from the account and that were not given back."""
        back = {use.guarantee: use.count for use in self.returned}
        counts = [(use.guarantee, use.count - back.get(use.guarantee, 0)) for use in self.drawn]
        return tuple(Use(guarantee, count) for guarantee, count in counts if count > 0)

    @property
    def uses(self) -> list[str]:
        """The guarantees that the charge took and that were not given back, as texts such as "pure:0.1x25".

        "pure:0.1x25" stands for 25 mechanisms that are 0.1-DP.
        """
        return list(map(format_use, self.kept))

    @property
    def came_back(self) -> list[str]:
        """The guarantees of the charge that were given back to the account, as texts such as "pure:0.1x25".

        "pure:0.1x25" stands for 25 mechanisms that are 0.1-DP.
        """
        return [format_use(use) for use in self.returned]


def charges_of(entries: Iterable[Entry]) -> list[Charge]:
    """Return the charges among an account's ledger `entries`, oldest first, each with what was given back later.

    When the answer of a charge is stored, the ledger gets a further entry (a settlement). This entry states which
    guarantees (with counts of mechanisms) were charged but not needed and are given back.
    """
    charges: dict[str, Charge] = {}
    for entry in entries:
        contents = entry.contents
        charged = charges.get(contents.key)
        if contents.kind == "charge":
            charges[contents.key] = Charge(
                number=len(charges) + 1,
                at=entry.moment.timestamp(),
                key=contents.key,
                period=contents.period,
                bought=charge_in_words(contents.text),
                drawn=entry.uses,
                returned=(),
                answered=False,
            )
        elif contents.kind == "settle" and charged is not None:
            charges[contents.key] = replace(charged, returned=entry.uses, answered=True)
    return list(charges.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The odometer of an account after one charge: `epsilon` bounds the privacy loss of all answers up to this charge.

    If the budget is renewed in each calendar period, these are the answers of the charge's period. `epsilon` is at most
    the epsilon that the account guarantees. `charge` is the number of the charge, `at` its time in seconds since 1970,
    and `bought` describes the question that the charge paid for.
    """

    charge: int
    at: float
    bought: str
    epsilon: float


def odometer_readings(account: Account, charges: Iterable[Charge], period: str, last: float) -> list[Reading]:
    """Return how the odometer of `account`, the bound on the epsilon of all answers so far, grew with its charges.

    The page draws these values as a chart. There is one value after each charge of the calendar period `period` or, if
    the period has more than 60 charges, after about 60 charges at equal distances, and always after the last charge.

    - `charges`: all charges of the account
    - `period`: the name of the period, such as "2026-11"; "" if the account has no periods
    - `last`: the odometer now, after all charges. A value above `last` is lowered to `last`, because an odometer never
      falls
    """
    present = [charge for charge in charges if charge.period == period]
    step = max(1, -(-len(present) // _POINTS))
    readings = []
    uses: list[Use] = []
    for place, charge in enumerate(present, 1):
        uses = list(merged((*uses, *charge.kept)))
        if place % step == 0 or place == len(present):
            # An odometer never falls, so no earlier reading may be above the last one.
            loss = min(account.odometer_after(uses), last)
            readings.append(Reading(charge=charge.number, at=charge.at, bought=charge.bought, epsilon=loss))
    return readings


@router.get("/accounts")
async def accounts(request: Request, after: Annotated[str, Query(max_length=64)] = "") -> Response:
    """Show the page that lists the accounts of the signed-in person, in the order of names.

    The list begins with the first name after `after`, because a page shows only some accounts. An analyst with only one
    account is redirected to the page of this account.
    """
    return await service_of(request).rendering.run(_accounts_page, request, after)


def _accounts_page(request: Request, after: str) -> Response:
    """Return the page that lists accounts of the person who sent `request`, in the order of names.

    The list begins with the first name after `after`, because a page shows only some accounts. An analyst with only one
    account gets a redirect to the page of this account instead.
    """
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
    """Show the page of one account: its remaining budget, its odometer over time, and its latest `most` charges.

    An odometer is a bound on the epsilon of all answers so far.
    """
    service, identity = service_of(request), caller(request)
    status = await service.threads.run(lambda: service.accounts.visible(identity, account).status_by_entries())
    record = await show_status(service, status)
    return await service.rendering.run(_account_page, request, status, record, most)


def _account_page(request: Request, status: AccountStatus, record: AccountRecord, most: int) -> Response:
    """Return the page of an account with its latest `most` charges, as the response to `request`.

    `status` is the account's status from the ledger, and `record` is this status as JSON with the odometers (bounds on
    the epsilon so far), which a worker process has computed.
    """
    odometer = status.odometer.upper if record["odometer"] is None else record["odometer"]["upper"]
    last = min(odometer, status.epsilon.upper)
    charges, readings, ids = _statement(service_of(request), caller(request), status, last)
    return render(
        request,
        "account.html",
        charts=True,
        account=record,
        kinds=registered_kinds(status),
        largest=largest_single_use(status),
        charges=charges[::-1][:most],
        count=len(charges),
        readings=[(each.charge, each.at, each.bought, each.epsilon) for each in readings],
        after={each.charge: each.epsilon for each in readings},
        answers=ids,
    )


def _statement(
    service: Service, identity: Identity, status: AccountStatus, last: float
) -> tuple[list[Charge], list[Reading], dict[str, str]]:
    """Return (charges, readings, query ids) for the page of the account with this `status`.

    - charges: all charges of the account
    - readings: the odometer (the bound on the epsilon of all answers so far) after each charge of the current calendar
      period, or after about 60 of its charges if it has more than 60
    - query ids: a dict from the idempotency key of each query of the account to the query's id

    `identity` is the signed-in person, who must be allowed to see the account. `last` is the odometer now, which no
    earlier reading may exceed.
    """
    account = service.accounts.visible(identity, status.name)
    charges = charges_of(service.ledger.history(status.name))
    readings = odometer_readings(account, charges, status.period, last)
    return charges, readings, service.jobs.ids_on(status.name)


def registered_kinds(status: AccountStatus) -> list[dict[str, object]]:
    """Return a dict for each guarantee that was registered when the account was opened, to show how much of it is left.

    - `kind`: the notation of the guarantee, such as "pure:0.1"
    - `left`: for how many mechanisms with this guarantee the account can still pay
    - `total`: for how many it could pay when it was opened

    The list is empty for an account with an (epsilon, delta) budget, which has no registered guarantees. `status` is
    the account's status.
    """
    left = {use.guarantee: use.count for use in status.left}
    return [
        {
            "kind": format_use(Use(use.guarantee)),
            "left": min(use.count, left.get(use.guarantee, 0)),
            "total": use.count,
        }
        for use in status.terms.uses
    ]


def largest_single_use(status: AccountStatus) -> list[str]:
    """Return the largest guarantee that an account's budget can still pay for, as texts for the account's page.

    - The first text is the guarantee in its written form, such as "gaussian:20.0" (Gaussian noise of 20 times the
      sensitivity), with a count if the budget can pay for it several times.
    - There may be a second, such as "approx:0.0,1e-06", a (0, delta)-DP guarantee. Its delta is the remaining
      probability of outright failure (which may reveal everything), and the budget can pay for it in addition.

    The list is empty if nothing is left, or if the account with this `status` has only registered guarantees and no
    budget.
    """
    if status.terms.totals is None:
        return []
    registered = {use.guarantee for use in status.terms.uses}
    return [format_use(use) for use in status.left if use.guarantee not in registered]
