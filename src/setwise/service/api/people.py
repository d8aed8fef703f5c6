"""People and tokens: for stewards; and what anybody may know of themselves."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi import Body as JsonBody
from pydantic import Field

from setwise.service.api.schemas import Body, Name, ShortText
from setwise.service.api.views import NewTokenView, PersonView, TokenView
from setwise.service.auth.people import Person, Role
from setwise.service.auth.permissions import API
from setwise.service.problems import at_field
from setwise.service.route import GuardedRoute, caller, service_of

router = APIRouter(prefix=API, tags=["people"], route_class=GuardedRoute)

PersonName = Annotated[Name, Path(examples=["ada"])]
_LATEST = 253402300799.0
"""The end of the year 9999."""


class PersonBody(Body):
    """A new person."""

    name: Name
    role: Annotated[Role, Field(strict=False)]


class TokenBody(Body):
    """A new token: what it is for, and when it ends (seconds since 1970)."""

    label: ShortText = ""
    expires_at: Annotated[float, Field(gt=0.0, le=_LATEST)] | None = None


@router.get("/me")
async def me(request: Request) -> PersonView:
    """Say whose token this is."""
    return PersonView.of(caller(request).person)


@router.get("/people")
async def list_people(request: Request) -> list[PersonView]:
    """List everybody."""
    service = service_of(request)
    return [PersonView.of(person) for person in await service.threads.run(service.people.all)]


@router.post("/people", status_code=201)
async def add_person(
    request: Request, body: Annotated[PersonBody, JsonBody(examples=[{"name": "ada", "role": "analyst"}])]
) -> PersonView:
    """Add a person; they can do nothing until they have a token."""
    service = service_of(request)
    return PersonView.of(await service.threads.run(service.people.add, Person(name=body.name, role=body.role)))


@router.get("/people/{person}/tokens")
async def list_tokens(request: Request, person: PersonName) -> list[TokenView]:
    """List a person's tokens, without their secrets."""
    service = service_of(request)
    return [TokenView.of(token) for token in await service.threads.run(service.people.tokens, person)]


@router.post("/people/{person}/tokens", status_code=201)
async def issue_token(
    request: Request,
    person: PersonName,
    body: Annotated[TokenBody, JsonBody(examples=[{"label": "laptop", "expires_at": 4102444800.0}])],
) -> NewTokenView:
    """Make a token; its secret is in this answer and nowhere else."""
    service = service_of(request)
    issue = service.people.issue
    with at_field("expires_at"):
        new = await service.threads.run(issue, person, label=body.label, expires_at=body.expires_at)
    return NewTokenView.made(new)


@router.delete("/people/{person}/tokens/{token}")
async def revoke_token(
    request: Request,
    person: PersonName,
    token: Annotated[str, Path(pattern="^[0-9a-f]{16}$", examples=["9f86d081884c7d65"])],
) -> TokenView:
    """End a token, and the browser sessions that began with it."""
    service = service_of(request)
    revoked = await service.threads.run(service.people.revoke, person, token)
    service.authenticator.forget(token)
    return TokenView.of(revoked)
