"""What a worker process is and what it can be asked for: each task is a record that computes its own result.

A calculation that takes too long is ended with its process, which a thread could not be.
"""

import math
import resource
from dataclasses import dataclass, replace
from enum import StrEnum
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol, TypeVar, assert_never

from setwise.accounting.brackets import Interaction
from setwise.accounting.calibrate import FIND, parse_plan
from setwise.accounting.compose import Composition, compose
from setwise.accounting.methods.moments import subgaussian_sum
from setwise.accounting.notation import as_uses, format_use, use_in_words
from setwise.analytics.accuracy import plan_within
from setwise.analytics.budget import AskedBudget, Budget, Within
from setwise.analytics.planning import ExecutablePlan, plan_query
from setwise.analytics.query import Query
from setwise.analytics.schema import Schema
from setwise.errors import SetwiseError, Unattainable
from setwise.ledger.status import AccountStatus, joint_of, status_of
from setwise.ledger.terms import WHOLE_LIFE, Terms, setwise_terms

Result_co = TypeVar("Result_co", covariant=True)


class Task(Protocol[Result_co]):
    """A calculation that may take long; equal tasks have equal results."""

    def __hash__(self) -> int: ...

    def result(self) -> Result_co:
        """Compute the result, or raise what is wrong with the task."""
        ...


def work(file_number: int, memory: int) -> None:
    """Say that everything is loaded, then compute task after task that the replica sends, until it goes.

    The file number is that of our end of a socket pair; `memory` is what tasks may allocate, in bytes.
    """
    most = _allocated() + memory
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    connection = Connection(file_number)
    connection.send("ready")
    while True:
        try:
            task: Task[object] = connection.recv()
        except EOFError:
            return
        try:
            reply = task.result()
        except SetwiseError as error:
            reply = error
        except MemoryError:
            reply = MemoryError()  # without the words and the frames of what was allocated
        except (ArithmeticError, ValueError) as error:
            reply = Unattainable(f"the calculation cannot be done ({type(error).__name__})")
        connection.send(reply)


def _allocated() -> int:
    """Return the bytes of data and stacks that this process has mapped, which are what RLIMIT_DATA limits."""
    return int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compose:
    """What uses add up to: exactly one of `delta` and `epsilon` is given, and the other is found.

    >>> task = Compose(uses=("pure:0.1x25",), interaction="setwise", delta=1e-6)
    >>> task.result()["epsilon"]["upper"] < 2.0791
    True
    """

    uses: tuple[str, ...]
    interaction: str
    delta: float | None = None
    epsilon: float | None = None

    def result(self) -> dict[str, Any]:
        """Return both brackets, the method and the statement."""
        composition = compose(self.uses, self.interaction)
        if self.delta is not None:
            answer = composition.epsilon(self.delta)
        else:
            assert self.epsilon is not None
            answer = composition.delta(self.epsilon)
        return answer.to_dict(epsilon=self.epsilon, delta=self.delta) | {"words": _in_words(composition)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrate:
    """The value of the one ? in the uses for which they meet a target."""

    uses: tuple[str, ...]
    interaction: str
    epsilon: float
    delta: float

    def result(self) -> dict[str, Any]:
        """Return the value, the uses with it, and what they add up to."""
        free, plan = parse_plan(self.uses)
        found = FIND[free](plan, epsilon=self.epsilon, delta=self.delta, interaction=self.interaction)
        return found.answer.to_dict(epsilon=self.epsilon) | {
            "free": free,
            "value": found.value,
            "uses": [format_use(use) for use in found.uses],
            "words": _in_words(found.composition),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuestion:
    """The plan of a question: it depends on the columns there are and on what the account was opened with."""

    query: Query
    spending: AskedBudget
    user: str
    schema: Schema
    terms: Terms

    def result(self) -> ExecutablePlan:
        """Return the plan; no row is read. It is the same however much of the account is left."""
        opened = status_of(self.terms, WHOLE_LIFE, {}, 0)

        def planned(budget: Budget) -> ExecutablePlan:
            return plan_query(self.query, budget, self.user, self.schema, opened)

        return plan_within(self.spending, planned) if isinstance(self.spending, Within) else planned(self.spending)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifyTerms:
    """The terms of a set-wise account: what its registered uses promise together."""

    name: str
    analyst: str
    dataset: str
    uses: tuple[str, ...]
    delta: float
    period: str | None
    wallet: float
    failure: float

    def result(self) -> Terms:
        """Return the terms, with the overall epsilon certified."""
        return setwise_terms(
            self.name,
            self.uses,
            delta=self.delta,
            analyst=self.analyst,
            dataset=self.dataset,
            period=self.period,
            wallet=self.wallet,
            failure=self.failure,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JointPromise:
    """What all accounts on a data set promise together, over some periods of each."""

    dataset: str
    terms: tuple[Terms, ...]
    cap: AccountStatus | None
    periods: int

    def result(self) -> dict[str, object]:
        """Return the JSON object that the service sends."""
        return joint_of(self.dataset, self.terms, self.cap, delta=None, periods=self.periods).to_dict()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowStatus:
    """The status of an account with its odometer, which bounds the privacy loss of the draws so far."""

    status: AccountStatus

    def result(self) -> dict[str, object]:
        """Return the JSON object that the service sends."""
        return self.status.to_dict()


def _in_words(composition: Composition) -> list[str]:
    return [use_in_words(use) for use in composition.uses]


MOST_USES = 200
_POINTS = 10


class Curve(StrEnum):
    """Which bound, or which noise."""

    PAPER = "paper"
    """The set-wise bound of the paper, from means and sub-Gaussian parameters."""
    BATCH = "batch"
    """The optimum when everything is chosen up front."""
    ORDERED = "ordered"
    """The optimum when the bounded-range uses come first and the pure ones after them, each chosen on the way."""
    SETWISE = "setwise"
    """The optimum over all adaptive orders."""
    PURE = "pure"
    """Counts of which only the epsilon is known."""
    LAPLACE = "laplace"
    """Counts with Laplace noise of scale 1/epsilon."""
    GAUSSIAN = "gaussian"
    """Counts with Gaussian noise of the same standard deviation as that Laplace noise."""


class Along(StrEnum):
    """What changes along the curve."""

    NUMBER = "number"
    SHARE = "share"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """A number of uses of one epsilon, a share of them bounded-range and the others pure DP."""

    number: int
    share: float
    epsilon: float
    delta: float

    @property
    def ranges(self) -> int:
        """How many are bounded-range."""
        return min(self.number, max(0, math.floor(self.share * self.number + 0.5)))

    def uses(self) -> list[str]:
        """Return them as written uses, the bounded-range ones first."""
        counts = {"bounded-range": self.ranges, "pure": self.number - self.ranges}
        return [f"{kind}:{self.epsilon!r}x{count}" for kind, count in counts.items() if count]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoints:
    """One curve: the certified ends of the overall epsilon at ten places or so along the way.

    >>> mixture = Mixture(number=20, share=0.0, epsilon=0.1, delta=1e-6)
    >>> found = CurvePoints(which=Curve.GAUSSIAN, along=Along.NUMBER, mixture=mixture).result()
    >>> found["x"][-1], round(found["upper"][-1], 4)
    (20, 1.3676)
    """

    which: Curve
    along: Along
    mixture: Mixture

    def result(self) -> dict[str, Any]:
        """Return the places and the two ends at each."""
        places = _places(self.along, self.mixture)
        ends = [_ends(self.which, place) for _, place in places]
        return {
            "x": [x for x, _ in places],
            "lower": [lower for lower, _ in ends],
            "upper": [upper for _, upper in ends],
        }


def _places(along: Along, mixture: Mixture) -> list[tuple[float, Mixture]]:
    match along:
        case Along.NUMBER:
            numbers = sorted({max(1, round(mixture.number * step / _POINTS)) for step in range(1, _POINTS + 1)})
            return [(each, replace(mixture, number=each)) for each in numbers]
        case Along.SHARE:
            spread = {round(mixture.number * step / _POINTS) for step in range(_POINTS + 1)} | {mixture.ranges}
            shares = [ranges / mixture.number for ranges in sorted(spread)]
            return [(each, replace(mixture, share=each)) for each in shares]
        case _:
            assert_never(along)


def _ends(which: Curve, mixture: Mixture) -> tuple[float, float]:
    scale = 1.0 / mixture.epsilon
    match which:
        case Curve.PAPER:
            moments = subgaussian_sum(as_uses(mixture.uses()))
            assert moments is not None
            return 0.0, moments.paper_epsilon(mixture.delta)
        case Curve.BATCH | Curve.ORDERED | Curve.SETWISE:
            return _composed(mixture.uses(), Interaction(str(which)), mixture.delta)
        case Curve.PURE:
            return _composed([f"pure:{mixture.epsilon!r}x{mixture.number}"], Interaction.SETWISE, mixture.delta)
        case Curve.LAPLACE:
            return _composed([f"laplace:{scale!r}x{mixture.number}"], Interaction.SETWISE, mixture.delta)
        case Curve.GAUSSIAN:
            written = f"gaussian:{math.sqrt(2.0) * scale!r}x{mixture.number}"
            return _composed([written], Interaction.SETWISE, mixture.delta)
        case _:
            assert_never(which)


def _composed(uses: list[str], interaction: Interaction, delta: float) -> tuple[float, float]:
    answer = compose(uses, interaction).epsilon(delta)
    return answer.lower, answer.upper
