"""Plans made in processes that can be ended, so that no question holds up a replica."""

import asyncio
import contextlib
from collections.abc import Iterator

from setwise.analytics.planned import Planned
from setwise.errors import InvalidParameter, Unattainable
from setwise.service.calculator import Calculator
from setwise.service.pace import Pace
from setwise.service.plan_request import PlanRequest, packed, unpacked
from setwise.service.problems import at_field

_LOOK_AGAIN = 0.05


class Planner:
    """Plans questions in the processes of a calculator, within its time limit."""

    def __init__(self, calculator: Calculator) -> None:
        self._calculator = calculator

    async def plan(self, request: PlanRequest) -> Planned:
        """Return the plan, or raise what is wrong with the request; `Unattainable` after the time limit."""
        with _at_plan():
            answer = await self._calculator.calculate({"what": "plan", "request": packed(request)})
        planned = unpacked(answer["planned"])
        assert isinstance(planned, Planned)
        return planned

    def plan_for(self, request: PlanRequest, pace: Pace, loop: asyncio.AbstractEventLoop) -> Planned:
        """Return the plan from a thread beside the event loop; a query that is stopped stops its plan."""
        future = asyncio.run_coroutine_threadsafe(self.plan(request), loop)
        while True:
            try:
                return future.result(_LOOK_AGAIN)
            except TimeoutError:
                try:
                    pace.check()
                except BaseException:
                    future.cancel()
                    raise

    async def close(self) -> None:
        """End every process."""
        await self._calculator.close()


@contextlib.contextmanager
def _at_plan() -> Iterator[None]:
    """Name the part that a plan refuses: what to spend where a number is at fault, else the query."""
    with at_field("query"):
        try:
            yield
        except (InvalidParameter, Unattainable):
            with at_field("spend"):
                raise
