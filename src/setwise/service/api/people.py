"""People and tokens: for stewards; and what anybody may know of themselves."""

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi import Body as JsonBody
from pydantic import BaseModel, Field, StringConstraints

from setwise.errors import Forbidden, InvalidParameter
from setwise.service.api.schemas import PLAIN_TEXT, Body, Name, ShortText
from setwise.service.auth.people import Person, Role, Token
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
    """A new token: what it is for, and when it ends in seconds since 1970; if left out, after the usual days."""

    label: ShortText = ""
    expires_at: Annotated[float, Field(gt=0.0, le=_LATEST)] | None = None


class PersonView(BaseModel):
    """A person."""

    name: str = Field(examples=["ada"])
    role: Role = Field(examples=["analyst"])


class TokenView(BaseModel):
    """A token without its secret. Times are seconds since 1970."""

    id: str = Field(examples=["9f86d081884c7d65"])
    person: str = Field(examples=["ada"])
    label: str = Field(examples=["laptop"])
    created_at: float = Field(examples=[1760000000.0])
    expires_at: float | None = Field(examples=[1767776000.0])
    revoked_at: float | None = Field(examples=[None])


class NewTokenView(TokenView):
    """A token that was just made; `secret` is shown here and never again."""

    secret: str = Field(examples=["setwise_..."])


@router.get("/me", response_model=PersonView)
async def me(request: Request) -> Person:
    """Say whose token this is."""
    return caller(request).person


@router.get("/people", response_model=list[PersonView])
async def list_people(request: Request) -> list[Person]:
    """List everybody."""
    service = service_of(request)
    return await service.threads.run(service.people.all)


@router.post("/people", status_code=201, response_model=PersonView)
async def add_person(
    request: Request, body: Annotated[PersonBody, JsonBody(examples=[{"name": "ada", "role": "analyst"}])]
) -> Person:
    """Add a person; they can do nothing until they have a token."""
    service, by = service_of(request), caller(request).person.name

    def added() -> Person:
        person = service.people.add(Person(name=body.name, role=body.role))
        service.ledger.record("person.added", by=by, subject=person.name, details={"role": str(person.role)})
        return person

    return await service.threads.run(added)


@router.delete("/people/{person}", response_model=PersonView)
async def remove_person(request: Request, person: PersonName) -> Person:
    """Remove a person: their tokens end, their accounts and answers stay; the name stays taken."""
    service, by = service_of(request), caller(request).person.name
    if person == by:
        raise Forbidden("stewards cannot remove themselves; ask another steward")

    def removed() -> Person:
        found = service.people.remove(person)
        service.ledger.record("person.removed", by=by, subject=person)
        return found

    found = await service.threads.run(removed)
    service.authenticator.forget_person(person)
    return found


class SubjectBody(Body):
    """What the provider of single sign-on identifies a person by: the claim `sub` of its ID tokens."""

    subject: Annotated[str, StringConstraints(min_length=1, max_length=255), PLAIN_TEXT]


@router.put("/people/{person}/subject", response_model=PersonView)
async def join_subject(
    request: Request, person: PersonName, body: Annotated[SubjectBody, JsonBody(examples=[{"subject": "248289761001"}])]
) -> Person:
    """Let a person who was added by hand use single sign-on; from then on groups decide their role."""
    service, by = service_of(request), caller(request).person.name
    sign_on = service.sign_on
    if sign_on is None:
        raise InvalidParameter("this service has no single sign-on; set oidc_issuer")

    def joined() -> Person:
        found = service.people.join(person, sign_on.subject(body.subject))
        service.ledger.record("person.joined", by=by, subject=person)
        return found

    return await service.threads.run(joined)


@router.get("/people/{person}/tokens", response_model=list[TokenView])
async def list_tokens(request: Request, person: PersonName) -> list[Token]:
    """List a person's tokens, without their secrets."""
    service = service_of(request)
    return await service.threads.run(service.people.tokens, person)


@router.post("/people/{person}/tokens", status_code=201, response_model=NewTokenView)
async def issue_token(
    request: Request,
    person: PersonName,
    body: Annotated[TokenBody, JsonBody(examples=[{"label": "laptop", "expires_at": 4102444800.0}])],
) -> dict[str, object]:
    """Make a token; its secret is in this answer and nowhere else."""
    service, by = service_of(request), caller(request).person.name

    def issued() -> dict[str, object]:
        new = service.people.issue(person, label=body.label, expires_at=body.expires_at)
        service.ledger.record("token.issued", by=by, subject=person, details={"token": new.token.id})
        return {**asdict(new.token), "secret": new.secret}

    with at_field("expires_at"):
        return await service.threads.run(issued)


@router.delete("/people/{person}/tokens/{token}", response_model=TokenView)
async def revoke_token(
    request: Request,
    person: PersonName,
    token: Annotated[str, Path(pattern="^[0-9a-f]{16}$", examples=["9f86d081884c7d65"])],
) -> Token:
    """End a token, and the browser sessions that began with it."""
    service, by = service_of(request), caller(request).person.name

    def revoked() -> Token:
        found = service.people.revoke(person, token)
        service.ledger.record("token.revoked", by=by, subject=person, details={"token": token})
        return found

    found = await service.threads.run(revoked)
    service.authenticator.forget(token)
    return found
