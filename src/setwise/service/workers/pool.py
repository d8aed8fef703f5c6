"""Calculations with a time limit, in processes that can be ended; recent answers are remembered."""

import asyncio
import base64
import contextlib
import json
import os
import pickle
import sys
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from setwise import errors
from setwise.analytics.budget import Spending
from setwise.analytics.planning import Planned, plan_query
from setwise.analytics.query import Query
from setwise.analytics.schema import Schema
from setwise.errors import InvalidParameter, SetwiseError, TooManyRequests, Unattainable
from setwise.ledger.status import AccountStatus
from setwise.service.api.problems import at_field
from setwise.service.queries.timing import Pace

_MOST_REMEMBERED = 2048
_MOST_WAITING = 64
_LINE_BYTES = 1 << 26
_REMEMBERED_BYTES = 1 << 16
"""The longest request that is remembered: one with a large domain is not worth the memory."""


class Calculator:
    """A few processes of `setwise.service.workers.main`, started when first needed."""

    def __init__(self, *, processes: int, seconds: float, remedy: str) -> None:
        self._places = asyncio.Semaphore(processes)
        self._seconds = seconds
        self._remedy = remedy
        self._idle: list[asyncio.subprocess.Process] = []
        self._remembered: OrderedDict[str, dict[str, Any]] = OrderedDict()
        self._waiting = 0

    async def calculate(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer, or raise the error the calculation ended in; `Unattainable` after the time limit."""
        line = json.dumps(request, sort_keys=True, allow_nan=False)
        if line in self._remembered:
            self._remembered.move_to_end(line)
            return self._remembered[line]
        if self._waiting >= _MOST_WAITING:
            raise TooManyRequests("too many calculations are waiting; try again in 1 s")
        self._waiting += 1
        try:
            async with self._places:
                reply = await self._reply(line)
        finally:
            self._waiting -= 1
        if "error" in reply:
            raise _error(reply["error"])
        answer: dict[str, Any] = reply["answer"]
        if len(line) <= _REMEMBERED_BYTES:
            self._remembered[line] = answer
        if len(self._remembered) > _MOST_REMEMBERED:
            self._remembered.popitem(last=False)
        return answer

    async def _reply(self, line: str) -> dict[str, Any]:
        process = self._idle.pop() if self._idle else await _started()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(self._seconds):
                process.stdin.write(line.encode() + b"\n")
                await process.stdin.drain()
                answered = await process.stdout.readline()
            reply: dict[str, Any] = json.loads(answered)
        except TimeoutError:
            await _ended(process)
            raise Unattainable(f"the calculation takes longer than {self._seconds:g} s; {self._remedy}") from None
        except (OSError, ValueError):  # the process died or was never well
            await _ended(process)
            raise Unattainable(f"the calculation failed; {self._remedy}") from None
        except BaseException:  # whoever asked has gone: the process is busy with what nobody waits for
            await _ended(process)
            raise
        self._idle.append(process)
        return reply

    async def close(self) -> None:
        """End every process."""
        while self._idle:
            await _ended(self._idle.pop())


async def _started() -> asyncio.subprocess.Process:
    """Start a process and wait until it has loaded everything: that is no part of the time of a calculation."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SETWISE_")}
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "setwise.service.workers.main",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=kept,
        limit=_LINE_BYTES,
    )
    assert process.stdout is not None
    try:
        await process.stdout.readline()  # empty also when it died, which the first calculation finds out
    except BaseException:
        await _ended(process)
        raise
    return process


async def _ended(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    assert process.stdin is not None
    process.stdin.close()
    await process.wait()


def _error(found: dict[str, str]) -> SetwiseError:
    kind = getattr(errors, found["name"], Unattainable)
    error: SetwiseError = kind(found["detail"])
    return error


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What a plan depends on: the question, the columns there are, and how the account stands."""

    query: Query
    spending: Spending
    user: str
    schema: Schema
    standing: AccountStatus

    def planned(self) -> Planned:
        """Return the plan; no row is read."""
        return plan_query(self.query, self.spending, self.user, self.schema, self.standing)


def packed(value: object) -> str:
    """Return records as text, for a pipe between processes of one replica; nobody else writes to it."""
    return base64.b64encode(pickle.dumps(value)).decode("ascii")


def unpacked(text: str) -> object:
    """Return the records that `packed` made into text."""
    return pickle.loads(base64.b64decode(text))  # noqa: S301 - from our own process, through a pipe that is ours


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
