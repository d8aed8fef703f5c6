"""Tasks of worker processes: each is a record with the inputs of a calculation, and a method that computes its result.

A calculation that takes too long is stopped by killing its process; a thread could not be stopped.
"""

import math
import resource
from dataclasses import dataclass, field, replace
from enum import StrEnum
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol, TypeVar, assert_never

from setwise.accounting.brackets import Interaction
from setwise.accounting.calibrate import FIND, parse_plan
from setwise.accounting.compose import Composition, compose
from setwise.accounting.methods.moments import subgaussian_sum
from setwise.accounting.notation import as_uses, format_use, use_in_words
from setwise.analytics.budget import AskedBudget, Budget, Within
from setwise.analytics.filter.expression import Filter
from setwise.analytics.planning.joint_pricing import JointPlan, plan_together
from setwise.analytics.planning.plan import ExecutablePlan, plan_query
from setwise.analytics.planning.within import plan_within
from setwise.analytics.query import Query
from setwise.analytics.schema import Schema
from setwise.contract import AccountRecord, CalibrationRecord, CompositionRecord, JointRecord
from setwise.errors import SetwiseError, Unattainable
from setwise.ledger.status import AccountStatus, joint_of, status_of
from setwise.ledger.terms import WHOLE_LIFE, Terms, filter_terms, setwise_terms

Result_co = TypeVar("Result_co", covariant=True)


class Task(Protocol[Result_co]):
    """A calculation for a worker process: a record of its inputs, with a method that computes the result.

    Equal tasks have equal results, so that results can be cached by task.
    """

    def __hash__(self) -> int: ...

    def result(self) -> Result_co:
        """Compute and return the result of the task; raise a `SetwiseError` if it cannot be computed."""
        ...


def work(file_number: int, memory: int) -> None:
    """Run as a worker process: report that all modules are loaded, then compute each task that the service sends.

    `file_number` is the file descriptor of this process's end of the socket pair by which it talks with the service,
    and `memory` the number of bytes that tasks may allocate. Returns when the service closes its end.
    """
    most = _allocated_bytes() + memory
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
            reply = MemoryError()  # a new error, because the original refers to the frames that hold the memory
        except (ArithmeticError, ValueError) as error:
            reply = Unattainable(f"the calculation cannot be done ({type(error).__name__})")
        connection.send(reply)


def _allocated_bytes() -> int:
    """Return the bytes of data and stacks that this process has mapped, the quantity that RLIMIT_DATA limits."""
    return int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()


@dataclass(frozen=True, slots=True, kw_only=True)
class Compose:
    """Task: compose `uses` of mechanisms, such as "pure:0.1x25" (25 uses of a 0.1-DP one), to bound epsilon or delta.

    - `interaction`: what may be chosen after earlier answers were seen. With "batch", nothing. With "ordered", each
      next mechanism, but the guarantees in `uses` come in the order in which they are listed. With "setwise", also the
      order of these guarantees. With "adaptive", also the parameters
    - `delta`, `epsilon`: the caller states one of the two; the other one is None, and the task computes bounds on it

    >>> task = Compose(uses=("pure:0.1x25",), interaction="setwise", delta=1e-6)
    >>> task.result()["epsilon"]["upper"] < 2.0791
    True
    """

    uses: tuple[str, ...]
    interaction: str
    delta: float | None = None
    epsilon: float | None = None

    def result(self) -> CompositionRecord:
        """Return certified bounds on the epsilon or delta of all `uses` of mechanisms in this task together.

        The bounds are on epsilon if the task has a `delta`, and otherwise on delta. In the result, `method` names the
        computation of the bounds, `statement` the theorem behind the bounds, and `words` describes each use for people.
        """
        composition = compose(self.uses, self.interaction)
        if self.delta is not None:
            answer = composition.epsilon(self.delta)
        else:
            assert self.epsilon is not None
            answer = composition.delta(self.epsilon)
        return {**answer.to_dict(epsilon=self.epsilon, delta=self.delta), "words": _in_words(composition)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrate:
    """Task: find the value of the single "?" in `uses` with which all uses together are (epsilon, delta)-DP.

    The "?" stands for a parameter, as in "gaussian:?x25" (25 uses of a Gaussian mechanism).

    `interaction` is what may be chosen after earlier answers were seen. "batch": nothing, because all mechanisms are
    fixed up front. "ordered": each next mechanism, while the mechanisms' parameters (such as epsilons) come in an order
    fixed up front. "setwise": also the order of these parameters. "adaptive": also the parameters themselves.
    """

    uses: tuple[str, ...]
    interaction: str
    epsilon: float
    delta: float

    def result(self) -> CalibrationRecord:
        """Return the value found for the "?", the uses of mechanisms with this value, and certified bounds.

        The "?" stands for one parameter, as in "gaussian:?x25" (25 uses of a Gaussian mechanism). The bounds are lower
        and upper bounds on the epsilon and the delta of all uses together.
        """
        free, plan = parse_plan(self.uses)
        calibration = FIND[free](plan, epsilon=self.epsilon, delta=self.delta, interaction=self.interaction)
        return {
            **calibration.answer.to_dict(epsilon=self.epsilon),
            "free": free,
            "value": calibration.value,
            "uses": [format_use(use) for use in calibration.uses],
            "words": _in_words(calibration.composition),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuestion:
    """Task for a worker process: choose the mechanism, noise and cost of `query` within the budget `spending`.

    - `user`: the column that identifies users in the table that the query reads
    - `schema`: the columns of that table
    - `terms`: what the account that pays has promised, and its whole budget before anything is spent
    - `where`: the query's filter, parsed for the schema, or None if the query has no filter
    """

    query: Query
    spending: AskedBudget
    user: str
    schema: Schema
    terms: Terms
    where: Filter | None = field(default=None, compare=False)

    def result(self) -> ExecutablePlan:
        """Return the plan of the query: its mechanism, its noise and its cost.

        No row is read. The plan depends on the account's whole budget, and not on its remaining budget, so that the
        plan can be cached.
        """
        opened = status_of(self.terms, WHOLE_LIFE, {}, 0)

        def plan_for(budget: Budget) -> ExecutablePlan:
            return plan_query(self.query, budget, self.user, self.schema, opened, self.where)

        return plan_within(self.spending, plan_for) if isinstance(self.spending, Within) else plan_for(self.spending)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStatement:
    """Task for a worker process: plan a SQL statement with several SELECTs that aggregate private rows.

    `parts` has a planning task for each SELECT, all with the same user column and account. Each of these tasks states
    the budget of the whole statement, which the plan divides among the SELECTs.
    """

    parts: tuple[PlanQuestion, ...]

    def result(self) -> JointPlan:
        """Return a plan (mechanism, noise and cost) of each SELECT; together they stay within the statement's budget.

        No row is read.
        """
        first, parts = self.parts[0], self.parts
        return plan_together(
            [part.query for part in parts],
            [part.schema for part in parts],
            user=first.user,
            budget=first.spending,
            status=status_of(first.terms, WHOLE_LIFE, {}, 0),
            plan=lambda place, budget: replace(parts[place], spending=budget).result(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifyTerms:
    """Task: certify the epsilon of an account with registered uses of mechanisms, and return the account's `Terms`.

    - `name`, `analyst`, `dataset`: the account's name, the person who may spend from it, and the dataset to ask about
    - `uses`: the registered uses, such as "pure:0.1x25" (25 uses of a 0.1-DP mechanism)
    - `delta`: the delta at which the overall epsilon of all uses is certified
    - `period`: the calendar period after which the uses are renewed, or None
    - `wallet`: a second budget, which pays for uses that are not registered: all unregistered uses together reveal at
      most as much as one Gaussian mechanism whose mu (sensitivity over noise scale) is `wallet`. 0 for no second budget
    - `failure`: the largest sum of the failure probabilities (of revealing everything) of all unregistered uses
    """

    name: str
    analyst: str
    dataset: str
    uses: tuple[str, ...]
    delta: float
    period: str | None
    wallet: float
    failure: float

    def result(self) -> Terms:
        """Return the account's terms, with certified bounds on the epsilon of all its registered `uses` together.

        The terms state what the account promises and may spend. The bounds are at the `delta` of this task.
        """
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
class CertifyBudget:
    """Task: compute what an account that promises (`epsilon`, `delta`) may spend, and return the account's `Terms`.

    - `name`, `analyst`, `dataset`: the account's name, the person who may spend from it, and the dataset to ask about
    - `period`: the calendar period after which the budget is renewed, or None
    - `rule`: how the account adds up the costs of mechanisms. "wallet" compares each with a Gaussian mechanism that
      reveals at least as much, and adds mu squared of these Gaussian mechanisms; the rule for zCDP adds parameters of
      zCDP; "menu" adds fixed costs, which are whole numbers
    - `menu`: for the rule "menu" only, the mechanisms that have a fixed cost, such as "pure:0.1". The account pays only
      for mechanisms whose guarantee is at least as strong as one on this list. Empty for the other two rules
    - `failure_share`: the share of delta for outright failures, in which everything may be revealed; None is the rule's
      default
    """

    name: str
    analyst: str
    dataset: str
    epsilon: float
    delta: float
    period: str | None
    rule: str
    failure_share: float | None
    menu: tuple[str, ...]

    def result(self) -> Terms:
        """Return the terms of the account: its promise (epsilon, delta), and the budget that it may spend.

        The budget is a number whose unit depends on the account's rule for adding up costs; for the rule "wallet" it is
        mu squared, for example. For the rule "menu" (a fixed list of mechanisms that the account accepts), computing
        the budget may take seconds.
        """
        return filter_terms(
            self.name,
            epsilon=self.epsilon,
            delta=self.delta,
            analyst=self.analyst,
            dataset=self.dataset,
            period=self.period,
            rule=self.rule,
            failure_share=self.failure_share,
            menu=self.menu,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JointPromise:
    """Task: compute the (epsilon, delta) of all accounts on `dataset` together, even if their analysts collude.

    - `terms`: the promise and budget of each account
    - `cap`: the status of the joint budget of all accounts on the dataset, or None if there is no joint budget
    - `periods`: the number of calendar periods that the result covers, for each account whose budget is renewed
    """

    dataset: str
    terms: tuple[Terms, ...]
    cap: AccountStatus | None
    periods: int

    def result(self) -> JointRecord:
        """Return the joint (epsilon, delta) guarantee of the dataset's accounts as JSON, as the service sends it."""
        return joint_of(self.dataset, self.terms, self.cap, delta=None, periods=self.periods).to_dict()


@dataclass(frozen=True, slots=True, kw_only=True)
class ShowStatus:
    """Task: compute the odometers of an account: bounds on the privacy loss of all its answers so far.

    `status` is the account's status from the ledger.
    """

    status: AccountStatus

    def result(self) -> AccountRecord:
        """Return the account's status, with its odometers, as the JSON object that the service sends.

        An odometer is a bound on the epsilon of all answers so far.
        """
        return self.status.to_dict()


def _in_words(composition: Composition) -> list[str]:
    """Return a description for people of each mechanism use in `composition`, such as "25 counts at ε 0.1".

    A use is a number of runs of a mechanism with the same guarantee. A page shows these descriptions beside the epsilon
    of all uses together.
    """
    return [use_in_words(use) for use in composition.uses]


MOST_USES = 200
_POINTS = 10


class Curve(StrEnum):
    """The curves of overall epsilon on the page that compares composition bounds.

    Four curves are about bounded-range and pure-DP mechanisms together: "paper" is the upper bound of the paper
    CesarRo21, and the other three are optimal (least) epsilons. In "batch" all mechanisms are chosen in advance. In
    "ordered" the bounded-range mechanisms come first and the pure-DP ones after them, each chosen after seeing the
    answers before it. In "setwise" their order, too, is chosen while answers are seen.

    Three curves are about the same number of noisy counts instead: counts of which only the pure-DP epsilon is known
    (`PURE`), with Laplace noise (`LAPLACE`), or with Gaussian noise of the same standard deviation (`GAUSSIAN`).
    """

    PAPER = "paper"
    """The set-wise bound of the paper CesarRo21, from means and sub-Gaussian parameters."""
    BATCH = "batch"
    """The optimum if all uses are chosen up front."""
    ORDERED = "ordered"
    """The optimum if the bounded-range uses come first and the pure ones after them, each chosen adaptively."""
    SETWISE = "setwise"
    """The optimum over all adaptive orders."""
    PURE = "pure"
    """Counts of which only the pure-DP epsilon is known."""
    LAPLACE = "laplace"
    """Counts with Laplace noise of scale 1/epsilon."""
    GAUSSIAN = "gaussian"
    """Counts with Gaussian noise of the same standard deviation as that Laplace noise."""


class Along(StrEnum):
    """The quantity on the x axis of the comparison charts: how many mechanisms, or the share that is bounded-range."""

    NUMBER = "number"
    SHARE = "share"


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixture:
    """The mechanisms to compose for one point of a chart: `number` mechanisms with the same `epsilon`.

    The share `share` of them (from 0 to 1) is bounded-range, and all others are pure DP. The overall epsilon of all
    mechanisms together is computed at `delta`.
    """

    number: int
    share: float
    epsilon: float
    delta: float

    @property
    def ranges(self) -> int:
        """How many of the `number` mechanisms are bounded-range: `number` times `share`, rounded to an integer."""
        return min(self.number, max(0, math.floor(self.share * self.number + 0.5)))

    def uses(self) -> list[str]:
        """Return the mechanisms as texts such as "bounded-range:0.1x10" (ten of epsilon 0.1), with pure DP last."""
        counts = {"bounded-range": self.ranges, "pure": self.number - self.ranges}
        return [f"{kind}:{self.epsilon!r}x{count}" for kind, count in counts.items() if count]


@dataclass(frozen=True, slots=True, kw_only=True)
class CurvePoints:
    """Task: compute one curve of the page that compares composition bounds: lower and upper bounds on overall epsilons.

    - `which`: the name of the curve, which has about ten points
    - `along`: the quantity on the x axis: the number of mechanisms, or the share of them that is bounded-range
    - `mixture`: the mechanisms to compose. At each point, the value x on the x axis replaces either their number or
      their share that is bounded-range

    >>> mixture = Mixture(number=20, share=0.0, epsilon=0.1, delta=1e-6)
    >>> found = CurvePoints(which=Curve.GAUSSIAN, along=Along.NUMBER, mixture=mixture).result()
    >>> found["x"][-1], round(found["upper"][-1], 4)
    (20, 1.3676)
    """

    which: Curve
    along: Along
    mixture: Mixture

    def result(self) -> dict[str, Any]:
        """Return the points of the curve as three lists: `x`, and the `lower` and `upper` bound on epsilon at each x.

        x is a number of mechanisms, or the share of the mechanisms that have bounded range (see `Along`). The bounds
        are certified bounds on the overall epsilon of these mechanisms.
        """
        places = _points_along(self.along, self.mixture)
        ends = [_epsilon_bracket(self.which, place) for _, place in places]
        return {
            "x": [x for x, _ in places],
            "lower": [lower for lower, _ in ends],
            "upper": [upper for _, upper in ends],
        }


def _points_along(along: Along, mixture: Mixture) -> list[tuple[float, Mixture]]:
    """Return about ten points of a curve, as pairs of the value x on the x axis and the mechanisms to compose there.

    `along` says what x is: the number of mechanisms, from a tenth of the number in `mixture` to all of them, or the
    share of bounded-range mechanisms, from 0 to 1. The mechanisms of a point are those of `mixture`, except that x
    replaces their number or their share.
    """
    match along:
        case Along.NUMBER:
            numbers = sorted({max(1, round(mixture.number * step / _POINTS)) for step in range(1, _POINTS + 1)})
            return [(x, replace(mixture, number=x)) for x in numbers]
        case Along.SHARE:
            spread = {round(mixture.number * step / _POINTS) for step in range(_POINTS + 1)} | {mixture.ranges}
            shares = [ranges / mixture.number for ranges in sorted(spread)]
            return [(x, replace(mixture, share=x)) for x in shares]
        case _:
            assert_never(along)


def _epsilon_bracket(which: Curve, mixture: Mixture) -> tuple[float, float]:
    """Return certified (lower, upper) bounds on the overall epsilon of one point of a curve, at the delta of `mixture`.

    `which` names the curve on the page that compares composition bounds:

    - "batch", "ordered" and "setwise" are the least epsilon of the mechanisms in `mixture`. In "batch" all mechanisms
      are chosen in advance. In "ordered" the bounded-range mechanisms come first and the pure-DP ones after them, each
      chosen after seeing the answers before it. In "setwise" their order, too, is chosen while answers are seen.
    - "paper" is the bound of the paper CesarRo21 on the same mechanisms. It is an upper bound only, so the lower number
      is 0.
    - "pure", "laplace" and "gaussian" are the least epsilon of as many noisy counts instead: with noise of which only
      the pure-DP epsilon is known, with Laplace noise, and with Gaussian noise of the same standard deviation.
    """
    scale = 1.0 / mixture.epsilon
    match which:
        case Curve.PAPER:
            moments = subgaussian_sum(as_uses(mixture.uses()))
            assert moments is not None
            return 0.0, moments.paper_epsilon(mixture.delta)
        case Curve.BATCH | Curve.ORDERED | Curve.SETWISE:
            return _compose_epsilon(mixture.uses(), Interaction(str(which)), mixture.delta)
        case Curve.PURE:
            return _compose_epsilon([f"pure:{mixture.epsilon!r}x{mixture.number}"], Interaction.SETWISE, mixture.delta)
        case Curve.LAPLACE:
            return _compose_epsilon([f"laplace:{scale!r}x{mixture.number}"], Interaction.SETWISE, mixture.delta)
        case Curve.GAUSSIAN:
            use_text = f"gaussian:{math.sqrt(2.0) * scale!r}x{mixture.number}"
            return _compose_epsilon([use_text], Interaction.SETWISE, mixture.delta)
        case _:
            assert_never(which)


def _compose_epsilon(uses: list[str], interaction: Interaction, delta: float) -> tuple[float, float]:
    """Return certified (lower, upper) bounds on the overall epsilon at `delta` of all `uses` together.

    `uses` are written as in "pure:0.1x25" (25 uses of a 0.1-DP mechanism). `interaction` is what may be chosen after
    answers were seen, from nothing ("batch") to all mechanisms and their parameters ("adaptive").
    """
    answer = compose(uses, interaction).epsilon(delta)
    return answer.lower, answer.upper
