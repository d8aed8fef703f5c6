"""Routes that compose privacy guarantees and calibrate their parameters. They charge no account and read no data."""

from typing import Annotated

from fastapi import APIRouter, Request
from fastapi import Body as JsonBody
from pydantic import Field, model_validator

from setwise.accounting.brackets import Interaction
from setwise.contract import CalibrationRecord, CompositionRecord
from setwise.errors import InvalidParameter
from setwise.service.api.schemas import MOST_USES, Body, Delta, Epsilon, PlannedUse, Use
from setwise.service.auth.permissions import API
from setwise.service.problems import at_field
from setwise.service.route import GuardedRoute, service_of
from setwise.service.workers.tasks import Calibrate, Compose

router = APIRouter(prefix=API, tags=["calculators"], route_class=GuardedRoute)


class ComposeBody(Body):
    """The uses of mechanisms to compose, and either `delta` or `epsilon`; the service computes the other of the two.

    - `uses`: text such as "pure:0.1x25", 25 uses of a 0.1-DP mechanism
    - `interaction`: what may be chosen after earlier answers were seen. "batch": nothing, because all mechanisms are
      fixed up front. "ordered": each next mechanism, while the mechanisms' parameters (such as epsilons) come in an
      order fixed up front. "setwise": also the order of these parameters. "adaptive": also the parameters themselves
    - `delta`, `epsilon`: one of the two is a number; the other one is None, and the service computes it
    """

    uses: Annotated[list[Use], Field(min_length=1, max_length=MOST_USES)]
    interaction: Annotated[Interaction, Field(strict=False)] = Interaction.SETWISE
    delta: Delta | None = None
    epsilon: Epsilon | None = None

    @model_validator(mode="after")
    def _check_one_is_given(self) -> "ComposeBody":
        """Return the request body, or raise `InvalidParameter` unless exactly one of `delta` and `epsilon` is given."""
        if (self.delta is None) == (self.epsilon is None):
            raise InvalidParameter("give either delta or epsilon, and the other is found")
        return self


class CalibrateBody(Body):
    """Uses of mechanisms, one with a "?" for a parameter, and the (epsilon, delta) that they must meet together.

    - `uses`: text such as "gaussian:?x25", 25 uses of a Gaussian mechanism; the service computes the value of the "?"
    - `epsilon`, `delta`: the guarantee of all uses together
    - `interaction`: what may be chosen after earlier answers were seen. "batch": nothing, because all mechanisms are
      fixed up front. "ordered": each next mechanism, while the mechanisms' parameters (such as epsilons) come in an
      order fixed up front. "setwise": also the order of these parameters. "adaptive": also the parameters themselves
    """

    uses: Annotated[list[PlannedUse], Field(min_length=1, max_length=MOST_USES)]
    epsilon: Epsilon
    delta: Delta
    interaction: Annotated[Interaction, Field(strict=False)] = Interaction.SETWISE


@router.post("/compose")
async def compose(
    request: Request,
    body: Annotated[
        ComposeBody,
        JsonBody(examples=[{"uses": ["pure:0.1x25", "bounded-range:0.1x25"], "delta": 1e-6}]),
    ],
) -> CompositionRecord:
    """Return certified bounds on the epsilon or the delta of all uses of mechanisms in the request together.

    A use is text such as "pure:0.1x25", 25 uses of a 0.1-DP mechanism. If the request states a delta, the bounds are on
    the epsilon at that delta; if it states an epsilon, they are on the delta. The field `interaction` of the request
    says what may be chosen after answers were seen.
    """
    task = Compose(uses=tuple(body.uses), interaction=str(body.interaction), delta=body.delta, epsilon=body.epsilon)
    with at_field("uses"):
        return await service_of(request).calculators.run(task)


@router.post("/calibrate")
async def calibrate(
    request: Request,
    body: Annotated[CalibrateBody, JsonBody(examples=[{"uses": ["gaussian:?x25"], "epsilon": 1.0, "delta": 1e-6}])],
) -> CalibrationRecord:
    """Return a value for the "?" in uses of mechanisms such as "gaussian:?x25", so that all are (epsilon, delta)-DP.

    The "?" stands for a noise scale, an epsilon or a count. With the returned value, all uses of the request together
    have the epsilon and delta that the request states.
    """
    task = Calibrate(uses=tuple(body.uses), interaction=str(body.interaction), epsilon=body.epsilon, delta=body.delta)
    with at_field("uses"):
        return await service_of(request).calculators.run(task)
