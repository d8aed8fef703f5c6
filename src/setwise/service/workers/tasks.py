"""What a worker process can be asked for: each task is a record that computes its own result."""

from dataclasses import dataclass
from typing import Any, Protocol

from setwise.accounting import calibrate as calibration
from setwise.accounting.answer import Answer
from setwise.accounting.compose import Composition, compose
from setwise.accounting.notation import format_use, use_in_words
from setwise.analytics.accuracy import plan_within
from setwise.analytics.budget import AskedBudget, Budget, Within
from setwise.analytics.planning import ExecutablePlan, plan_query
from setwise.analytics.query import Query
from setwise.analytics.schema import Schema
from setwise.ledger.status import status_of
from setwise.ledger.terms import WHOLE_LIFE, Terms


class Task(Protocol):
    """A calculation that may take long; equal tasks have equal results."""

    def __hash__(self) -> int: ...

    def result(self) -> Any:  # noqa: ANN401 - each task's own
        """Compute the result, or raise what is wrong with the task."""
        ...


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
            return _answered(composition, answer, (answer.lower, answer.upper), (self.delta, self.delta))
        assert self.epsilon is not None
        answer = composition.delta(self.epsilon)
        return _answered(composition, answer, (self.epsilon, self.epsilon), (answer.lower, answer.upper))


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrate:
    """The value of the one ? in the uses for which they meet a target."""

    uses: tuple[str, ...]
    interaction: str
    epsilon: float
    delta: float

    def result(self) -> dict[str, Any]:
        """Return the value, the uses with it, and what they add up to."""
        free, plan = calibration.parse_plan(self.uses)
        find = {
            "noise": calibration.smallest_noise,
            "epsilon": calibration.largest_epsilon,
            "count": calibration.largest_count,
        }[free]
        found = find(plan, epsilon=self.epsilon, delta=self.delta, interaction=self.interaction)
        answer = found.answer
        ends = _answered(found.composition, answer, (self.epsilon, self.epsilon), (answer.lower, answer.upper))
        return {"free": free, "value": found.value, "uses": [format_use(use) for use in found.uses], **ends}


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


def _answered(
    composition: Composition, answer: Answer, epsilon: tuple[float, float], delta: tuple[float, float]
) -> dict[str, Any]:
    return {
        "interaction": str(answer.interaction),
        "epsilon": {"lower": epsilon[0], "upper": epsilon[1]},
        "delta": {"lower": delta[0], "upper": delta[1]},
        "method": answer.method,
        "statement": answer.statement,
        "words": [use_in_words(use) for use in composition.uses],
    }
