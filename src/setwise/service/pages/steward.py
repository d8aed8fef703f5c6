"""Steward: data sets with their joint guarantee, accounts, people and their tokens."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import APIRouter, Request
from starlette.responses import Response

from setwise.accounting.wallet import FAILURE_SHARE
from setwise.ledger.status import AccountStatus
from setwise.service.api.views import AccountView
from setwise.service.auth.people import Person, Token
from setwise.service.pages.rendering import render
from setwise.service.replica import Service
from setwise.service.route import GuardedRoute, caller, service_of
from setwise.service.storage.datasets import Dataset

router = APIRouter(route_class=GuardedRoute, include_in_schema=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Registered:
    """A data set, its cap, and how many accounts are on it."""

    dataset: Dataset
    cap: AccountStatus | None
    accounts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    """A person and what is known of their tokens."""

    person: Person
    tokens: list[Token]


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
        accounts=AccountView.listed(statuses),
        datasets=datasets,
        people=people,
        now=service.authenticator.now(),
        engines=[each.partition(":")[0] for each in service.settings.engine],
        failure_share=FAILURE_SHARE,
        csrf=identity.csrf or "",
    )


def _registered(service: Service, statuses: Sequence[AccountStatus]) -> list[_Registered]:
    held = Counter(status.dataset for status in statuses)
    return [
        _Registered(
            dataset=dataset,
            cap=service.ledger.cap(dataset.name),
            accounts=held[dataset.name],
        )
        for dataset in service.datasets.all()
    ]


def _members(service: Service) -> list[_Member]:
    return [_Member(person=person, tokens=service.people.tokens(person.name)) for person in service.people.all()]
