"""What the API shows of people, tokens and calculations; the schemas of its answers."""

from typing import Literal

from pydantic import BaseModel, Field

from setwise.accounting.interaction import Interaction
from setwise.service.people import NewToken, Token
from setwise.service.person import Person, Role


class ProblemView(BaseModel):
    """application/problem+json: what went wrong and how to mend it."""

    type: str = Field(examples=["urn:setwise:problem:invalid-parameter"])
    title: str = Field(examples=["Invalid parameter"])
    status: int = Field(examples=[422])
    detail: str = Field(examples=["k: Input should be greater than or equal to 1"])
    field: str | None = Field(default=None, examples=["query.k"], description="the part of the request at fault")


class PersonView(BaseModel):
    """A person."""

    name: str = Field(examples=["ada"])
    role: Role = Field(examples=["analyst"])

    @staticmethod
    def of(person: Person) -> "PersonView":
        """Show a person."""
        return PersonView(name=person.name, role=person.role)


class TokenView(BaseModel):
    """A token without its secret. Times are seconds since 1970."""

    id: str = Field(examples=["9f86d081884c7d65"])
    person: str = Field(examples=["ada"])
    label: str = Field(examples=["laptop"])
    created_at: float = Field(examples=[1760000000.0])
    expires_at: float | None = Field(examples=[1767776000.0])
    revoked_at: float | None = Field(examples=[None])

    @staticmethod
    def of(token: Token) -> "TokenView":
        """Show a token."""
        return TokenView(
            id=token.id,
            person=token.person,
            label=token.label,
            created_at=token.created_at,
            expires_at=token.expires_at,
            revoked_at=token.revoked_at,
        )


class NewTokenView(TokenView):
    """A token that was just made; `secret` is shown here and never again."""

    secret: str = Field(examples=["setwise_..."])

    @staticmethod
    def made(new: NewToken) -> "NewTokenView":
        """Show a new token, this once."""
        return NewTokenView(**TokenView.of(new.token).model_dump(), secret=new.secret)


class BracketView(BaseModel):
    """A certified [lower, upper]; the upper end is promised."""

    lower: float = Field(examples=[2.4319])
    upper: float = Field(examples=[2.4326])


class CompositionView(BaseModel):
    """What uses add up to, and the statement it rests on."""

    interaction: Interaction = Field(examples=["setwise"])
    epsilon: BracketView
    delta: BracketView
    method: str = Field(examples=["certified-optimum"])
    statement: str = Field(examples=["docs/optimal-composition.md, the set-wise optimum"])


class CalibrationView(CompositionView):
    """The value found for the ? and what the uses then add up to."""

    free: Literal["noise", "epsilon", "count"] = Field(examples=["noise"])
    value: float = Field(examples=[21.12])
    uses: list[str] = Field(examples=[["gaussian:21.12x25"]])


class HealthView(BaseModel):
    """Whether this replica serves and reaches its database."""

    status: Literal["ok"] = "ok"
    version: str = Field(examples=["0.1.0"])
