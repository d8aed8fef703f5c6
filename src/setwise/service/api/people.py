"""Routes for people and their tokens, which only stewards may use, and the route `/me`, which anybody may use."""

from typing import Annotated

from fastapi import APIRouter, Path, Request
from fastapi import Body as JsonBody
from pydantic import Field, StringConstraints

from setwise.contract import NewTokenRecord, PersonRecord, TokenRecord
from setwise.errors import Forbidden, InvalidParameter
from setwise.service.api.schemas import PLAIN_TEXT, Body, Name, ShortText
from setwise.service.auth.people import Person, Role, Token
from setwise.service.auth.permissions import API
from setwise.service.problems import at_field
from setwise.service.route import GuardedRoute, caller, service_of

router = APIRouter(prefix=API, tags=["people"], route_class=GuardedRoute)

PersonName = Annotated[Name, Path(examples=["ada"])]

_LATEST_EXPIRY = 253402300799.0
"""The latest time at which a token may end, in seconds since 1970: the last second of the year 9999."""


class PersonBody(Body):
    """A person to add: the `name` and the `role` (steward, analyst or monitor)."""

    name: Name
    role: Annotated[Role, Field(strict=False)]


class TokenBody(Body):
    """A token to make: `label` says what the token is for, and `expires_at` is its end in seconds since 1970.

    If `expires_at` is None, the token ends after the number of days that the operator has set.
    """

    label: ShortText = ""
    expires_at: Annotated[float, Field(gt=0.0, le=_LATEST_EXPIRY)] | None = None


class SubjectBody(Body):
    """The id (`subject`) under which the single sign-on provider knows a person: the claim `sub` of its ID tokens."""

    subject: Annotated[str, StringConstraints(min_length=1, max_length=255), PLAIN_TEXT]


@router.get("/me")
async def me(request: Request) -> PersonRecord:
    """Return the person whose token or session made the request."""
    return caller(request).person.to_dict()


@router.get("/people")
async def list_people(request: Request) -> list[PersonRecord]:
    """List all people of the service."""
    service = service_of(request)
    return [person.to_dict() for person in await service.threads.run(service.people.all)]


@router.post("/people", status_code=201)
async def add_person(
    request: Request, body: Annotated[PersonBody, JsonBody(examples=[{"name": "ada", "role": "analyst"}])]
) -> PersonRecord:
    """Add a person. Until the person has a token or uses single sign-on, the service refuses their requests."""
    service, steward = service_of(request), caller(request).person.name

    def add() -> Person:
        person = service.people.add(Person(name=body.name, role=body.role))
        service.ledger.record("person.added", by=steward, subject=person.name, details={"role": str(person.role)})
        return person

    return (await service.threads.run(add)).to_dict()


@router.delete("/people/{person}")
async def remove_person(request: Request, person: PersonName) -> PersonRecord:
    """Remove a person and revoke their tokens.

    The person's accounts and answers stay, and the name is never given to anybody else.
    """
    service, steward = service_of(request), caller(request).person.name
    if person == steward:
        raise Forbidden("stewards cannot remove themselves; ask another steward")

    def remove() -> Person:
        removed = service.people.remove(person)
        service.ledger.record("person.removed", by=steward, subject=person)
        return removed

    removed = await service.threads.run(remove)
    service.authenticator.forget_person(person)
    return removed.to_dict()


@router.put("/people/{person}/subject")
async def join_subject(
    request: Request, person: PersonName, body: Annotated[SubjectBody, JsonBody(examples=[{"subject": "248289761001"}])]
) -> PersonRecord:
    """Let a person whom a steward added use single sign-on: store the provider's id of the person.

    From then on the provider's groups decide the person's role.
    """
    service, steward = service_of(request), caller(request).person.name
    sign_on = service.sign_on
    if sign_on is None:
        raise InvalidParameter("this service has no single sign-on; set oidc_issuer")

    def join() -> Person:
        joined = service.people.join(person, sign_on.subject(body.subject))
        service.ledger.record("person.joined", by=steward, subject=person)
        return joined

    return (await service.threads.run(join)).to_dict()


@router.get("/people/{person}/tokens")
async def list_tokens(request: Request, person: PersonName) -> list[TokenRecord]:
    """List the tokens of a person, without their secrets."""
    service = service_of(request)
    return [token.to_dict() for token in await service.threads.run(service.people.tokens, person)]


@router.post("/people/{person}/tokens", status_code=201)
async def issue_token(
    request: Request,
    person: PersonName,
    body: Annotated[TokenBody, JsonBody(examples=[{"label": "laptop", "expires_at": 4102444800.0}])],
) -> NewTokenRecord:
    """Make a token for a person. Its secret is in this response and cannot be read again."""
    service, steward = service_of(request), caller(request).person.name

    def issue() -> NewTokenRecord:
        issued = service.people.issue(person, label=body.label, expires_at=body.expires_at)
        service.ledger.record("token.issued", by=steward, subject=person, details={"token": issued.token.id})
        return {**issued.token.to_dict(), "secret": issued.secret}

    with at_field("expires_at"):
        return await service.threads.run(issue)


@router.delete("/people/{person}/tokens/{token}")
async def revoke_token(
    request: Request,
    person: PersonName,
    token: Annotated[str, Path(pattern="^[0-9a-f]{16}$", examples=["9f86d081884c7d65"])],
) -> TokenRecord:
    """Revoke a token, and end the browser sessions that were opened with it."""
    service, steward = service_of(request), caller(request).person.name

    def revoke() -> Token:
        revoked = service.people.revoke(person, token)
        service.ledger.record("token.revoked", by=steward, subject=person, details={"token": token})
        return revoked

    revoked = await service.threads.run(revoke)
    service.authenticator.forget(token)
    return revoked.to_dict()
