"""The budget of one question: an (epsilon, delta), the least epsilon for an accuracy, or guarantees of an account.

An account may have registered guarantees in advance, each with a number of uses; a question then names the guarantees
that it takes from the account.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

from setwise.accounting.guarantees import ApproxDP, BoundedRange, DiscreteLaplace, Gaussian, Guarantee, PureDP, Use
from setwise.accounting.notation import format_use, parse_use
from setwise.accounting.promises import rounded_down
from setwise.errors import InvalidParameter
from setwise.mechanisms.parameters import rational
from setwise.mechanisms.planning.request import CountNoise, MechanismName, Total
from setwise.records import set_fields

if TYPE_CHECKING:
    from setwise.ledger.terms import Terms

LARGEST_WITHIN = Fraction(10**15)
"""The largest half-width that may be asked of an interval, in the units of the interval."""


NOTHING_DRAWN = "say what to draw from the account: discover, counts, or both"
NO_ACCOUNT_TO_DRAW_FROM = "draws need an account to draw from: give an account, or an epsilon and a delta"
"""The messages of `InvalidParameter` for draws that name no guarantee, and for draws without an account."""

DEFAULT_DELTA = 1e-6
"""The delta of a question with private groups if it gives an epsilon and no delta."""

_DEFAULT_QUESTIONS = 10
"""How many questions with the default delta fit into what an account sets aside for outright failures."""


def default_delta(terms: "Terms | None") -> float:
    """Return the delta of a question that needs a delta and states none.

    Mechanisms may fail outright (reveal everything) with a small probability, which an account limits. The delta is
    1e-6 (`DEFAULT_DELTA`), or a tenth of this limit if that is less, so that the account can pay for ten such
    questions. `terms` has the budget and the limits of the account that pays; None if no account pays.
    """
    if terms is None or terms.totals is None or not terms.totals.failure:
        return DEFAULT_DELTA
    # The terms never change, so a retry of a question gets the same delta.
    return min(DEFAULT_DELTA, float(rounded_down(terms.totals.failure / _DEFAULT_QUESTIONS, 1)))


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class Draws:
    """The registered guarantees with which an account pays for a question, one for each kind of mechanism that runs.

    - `discover` pays for each selection of a group or quantile by the exponential mechanism; None if nothing is
      selected.
    - `counts` pays for each noisy number; None if no number is released.
    - `threshold_delta` is the delta of the threshold that hides groups with few users, if group keys are not public;
      None takes the delta of the threshold guarantee that the account registered.

    The constructor also takes guarantees as text, such as "bounded-range:0.1".
    Raises: `InvalidParameter` if both `discover` and `counts` are None, or if a text states how often the guarantee is
    used, as in "pure:0.1x3".
    """

    discover: Guarantee | None
    counts: Guarantee | None
    threshold_delta: float | None

    def __init__(
        self,
        *,
        discover: Guarantee | str | None = None,
        counts: Guarantee | str | None = None,
        threshold_delta: float | None = None,
    ) -> None:
        if discover is None and counts is None:
            raise InvalidParameter(NOTHING_DRAWN)
        set_fields(
            self,
            discover=_guarantee_of_one_draw("discover", discover),
            counts=_guarantee_of_one_draw("counts", counts),
            threshold_delta=threshold_delta,
        )

    def to_dict(self) -> dict[str, object]:
        """Return these guarantees as a dictionary for JSON, without the fields that are None.

        >>> Draws(counts="gaussian:20").to_dict()
        {'kind': 'draws', 'counts': 'gaussian:20.0'}
        """
        named = {"discover": self.discover, "counts": self.counts}
        guarantee_texts = {
            name: format_use(Use(guarantee)) for name, guarantee in named.items() if guarantee is not None
        }
        threshold = {} if self.threshold_delta is None else {"threshold_delta": self.threshold_delta}
        return {"kind": "draws", **guarantee_texts, **threshold}


def _guarantee_of_one_draw(name: str, written: Guarantee | str | None) -> Guarantee | None:
    """Return the guarantee of a single mechanism that `written` states as text, such as "bounded-range:0.1".

    A value that is not a text is returned unchanged. `name` is the parameter's name in an error message.
    Raises: `InvalidParameter` if the text states no guarantee, or a guarantee with a count, such as "pure:0.1x3".
    """
    if not isinstance(written, str):
        return written
    use = parse_use(written)
    if use.count != 1:
        raise InvalidParameter(f"{name} is what each draw costs, so it has no count: {written!r}")
    return use.guarantee


def drawn_for(guarantee: Guarantee) -> Literal["discover", "counts", "threshold"] | None:
    """Return what a question uses `guarantee` for, if the account that pays registered it in advance.

    - "discover": to select groups by the exponential mechanism.
    - "counts": to add noise to counts.
    - "threshold": to hide groups with few users.

    None if no question can use this guarantee.
    """
    match guarantee:
        case BoundedRange():
            return "discover"
        case PureDP() | Gaussian() | DiscreteLaplace():
            return "counts"
        case ApproxDP(epsilon=0.0):
            return "threshold"
        case _:
            return None


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class Within:
    """A budget stated as an accuracy: the question spends the smallest epsilon that makes its intervals narrow enough.

    The intervals are 95% confidence intervals, whose width is planned before any row is read.

    - `within` is the largest allowed half-width of an interval, in the unit of the statistic. For a mean, the
      half-width depends on the number of users, which is not known before rows are read, so 1,000 users are assumed.
      For a quantile, `within` is the number of users by which its rank may be off.
    - `delta` is the question's delta.
    - `counts` is the kind of noise that is added to counts, such as Laplace noise.
    - `mechanism` names the mechanism to use; None lets the planner choose.
    - `epsilon` is the most that may be spent; None means 1.
    """

    within: Fraction
    delta: Fraction
    counts: CountNoise
    mechanism: MechanismName | None
    epsilon: Fraction | None

    def __init__(
        self,
        *,
        within: float | Fraction,
        delta: float | Fraction = 0,
        counts: str = CountNoise.BEST,
        mechanism: str | None = None,
        epsilon: float | Fraction | None = None,
    ) -> None:
        total = Total(epsilon=1 if epsilon is None else epsilon, delta=delta, counts=counts, mechanism=mechanism)
        set_fields(
            self,
            within=rational("within", within, Fraction(1, 10**9), LARGEST_WITHIN),
            delta=total.delta,
            counts=total.counts,
            mechanism=total.mechanism,
            epsilon=None if epsilon is None else total.epsilon,
        )

    def total(self, epsilon: Fraction) -> Total:
        """Return the budget with the given `epsilon` and this record's delta, noise of counts and mechanism.

        A `Within` states a wanted accuracy instead of an epsilon. The planner looks for the smallest epsilon that
        reaches the accuracy, and plans with the budget for each epsilon that it tries.
        """
        return Total(
            epsilon=epsilon, delta=self.delta, counts=self.counts, mechanism=self.mechanism, from_accuracy=True
        )

    def to_dict(self) -> dict[str, object]:
        """Return this budget as a dictionary for JSON: the wanted accuracy `within`, delta, kind of noise and so on.

        The key "epsilon" is left out if the question states no limit on epsilon.

        >>> Within(within=10).to_dict()
        {'kind': 'total', 'delta': 0.0, 'counts': 'best', 'within': 10.0}
        """
        words = self.total(Fraction(1) if self.epsilon is None else self.epsilon).to_dict()
        if self.epsilon is None:
            del words["epsilon"]
        return words | {"within": float(self.within)}


Budget: TypeAlias = Total | Draws
"""What is charged for a question: an (epsilon, delta) of its own, or draws from an account."""

AskedBudget: TypeAlias = Budget | Within
"""What a question may state about its budget: the budget itself, or the accuracy that the answer has to reach."""


class BudgetWords(TypedDict, total=False):
    """Keyword arguments that state what a question may spend; None is the same as leaving the argument out.

    With `epsilon` or `within`, the question has a budget of its own:
    - `epsilon` and `delta` are the budget of this question.
    - `counts` is the noise of released counts: "none", "laplace", "gaussian" or "best".
    - `mechanism` names a mechanism that replaces the planner's choice.
    - `within` asks for an accuracy (see `Within`).

    Without them, an account pays for each mechanism with a guarantee that it registered in advance. The arguments then
    name these guarantees:
    - `discover` is the guarantee of each random selection of a group by the exponential mechanism, such as
      "bounded-range:0.1".
    - `counts` is the guarantee of each noisy count, such as "pure:0.1".
    - `delta` is the delta of the threshold that hides groups with few users.
    """

    epsilon: float | None
    delta: float | None
    counts: str | Guarantee | None
    mechanism: str | None
    discover: str | Guarantee | None
    within: float | None


def budget_of(words: BudgetWords) -> AskedBudget:
    """Return the budget that the keyword arguments `words` describe, as one of three records.

    - `Within`, an accuracy, if `within` is given.
    - `Total`, an (epsilon, delta), if `epsilon` is given and `within` is not.
    - `Draws`, guarantees that the account that pays registered in advance, if neither is given.
    Raises: `InvalidParameter` if the arguments contradict each other.
    """
    epsilon, mechanism, within = words.get("epsilon"), words.get("mechanism"), words.get("within")
    if within is not None:
        delta, noise = _delta_and_noise(words)
        return Within(within=within, delta=delta, counts=noise, mechanism=mechanism, epsilon=epsilon)
    if epsilon is not None:
        delta, noise = _delta_and_noise(words)
        return Total(epsilon=epsilon, delta=delta, counts=noise, mechanism=mechanism)
    if mechanism is not None:
        raise InvalidParameter("a mechanism can be chosen only with an epsilon: leave it out, or give an epsilon")
    counts = words.get("counts")
    return Draws(
        discover=words.get("discover"), counts=None if counts == "none" else counts, threshold_delta=words.get("delta")
    )


def _delta_and_noise(words: BudgetWords) -> tuple[float, str]:
    """Return (delta, name of the noise of counts) of a question that states an epsilon or an accuracy.

    The delta is 0.0 and the noise is "best" if `words`, the question's keyword arguments, leave them out.

    Raises: `InvalidParameter` if `words` state "discover", or if "counts" is no text. Under "discover", a question
    names a guarantee that its account registered in advance; it is paid either with such guarantees or from an epsilon.
    """
    delta, counts = words.get("delta"), words.get("counts")
    if words.get("discover") is not None:
        raise InvalidParameter("discover is for draws from an account: leave it out, or leave epsilon out")
    if counts is not None and not isinstance(counts, str):
        raise InvalidParameter(f"counts must be one of {', '.join(CountNoise)} with an epsilon, not {counts!r}")
    return 0.0 if delta is None else delta, CountNoise.BEST if counts is None else counts
