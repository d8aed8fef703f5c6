"""Compose and calibrate: free, and about no data."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Request
from fastapi import Body as JsonBody
from pydantic import BaseModel, Field, model_validator

from setwise.accounting.brackets import Interaction
from setwise.errors import InvalidParameter
from setwise.service.api.schemas import MOST_USES, Body, BracketView, Delta, Epsilon, PlannedUse, Use
from setwise.service.auth.permissions import API
from setwise.service.problems import at_field
from setwise.service.route import GuardedRoute, service_of
from setwise.service.workers.tasks import Calibrate, Compose

router = APIRouter(prefix=API, tags=["calculators"], route_class=GuardedRoute)


class ComposeBody(Body):
    """Uses, the interaction, and one of delta and epsilon; the other is found."""

    uses: Annotated[list[Use], Field(min_length=1, max_length=MOST_USES)]
    interaction: Annotated[Interaction, Field(strict=False)] = Interaction.SETWISE
    delta: Delta | None = None
    epsilon: Epsilon | None = None

    @model_validator(mode="after")
    def _one_is_given(self) -> "ComposeBody":
        if (self.delta is None) == (self.epsilon is None):
            raise InvalidParameter("give either delta or epsilon, and the other is found")
        return self


class CalibrateBody(Body):
    """Uses with one ? in them, and the target."""

    uses: Annotated[list[PlannedUse], Field(min_length=1, max_length=MOST_USES)]
    epsilon: Epsilon
    delta: Delta
    interaction: Annotated[Interaction, Field(strict=False)] = Interaction.SETWISE


class CompositionView(BaseModel):
    """What uses add up to, and the statement it rests on."""

    interaction: Interaction = Field(examples=["setwise"])
    epsilon: BracketView
    delta: BracketView
    method: str = Field(examples=["certified-optimum"])
    statement: str = Field(examples=["docs/optimal-composition.md, the set-wise optimum"])
    words: list[str] = Field(examples=[["25 counts at ε 0.1"]], description="the uses as pages show them, in order")


class CalibrationView(CompositionView):
    """The value found for the ? and what the uses then add up to."""

    free: Literal["noise", "epsilon", "count"] = Field(examples=["noise"])
    value: float = Field(examples=[21.12])
    uses: list[str] = Field(examples=[["gaussian:21.12x25"]])


@router.post("/compose", response_model=CompositionView)
async def compose(
    request: Request,
    body: Annotated[
        ComposeBody,
        JsonBody(examples=[{"uses": ["pure:0.1x25", "bounded-range:0.1x25"], "delta": 1e-6}]),
    ],
) -> dict[str, Any]:
    """Say what uses add up to: a certified (epsilon, delta) for the interaction."""
    task = Compose(uses=tuple(body.uses), interaction=str(body.interaction), delta=body.delta, epsilon=body.epsilon)
    with at_field("uses"):
        return await service_of(request).calculators.run(task)


@router.post("/calibrate", response_model=CalibrationView)
async def calibrate(
    request: Request,
    body: Annotated[CalibrateBody, JsonBody(examples=[{"uses": ["gaussian:?x25"], "epsilon": 1.0, "delta": 1e-6}])],
) -> dict[str, Any]:
    """Find the noise, epsilon or count for which planned uses meet a target."""
    task = Calibrate(uses=tuple(body.uses), interaction=str(body.interaction), epsilon=body.epsilon, delta=body.delta)
    with at_field("uses"):
        return await service_of(request).calculators.run(task)
