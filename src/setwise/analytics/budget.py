"""What may be spent on a question: a total of its own, or draws from an account."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias, TypedDict

from setwise.accounting.checks import check_choice
from setwise.accounting.guarantees import ApproxDP, BoundedRange, DiscreteLaplace, Gaussian, Guarantee, PureDP, Use
from setwise.accounting.notation import format_use, parse_use
from setwise.errors import InvalidParameter
from setwise.mechanisms.parameters import rational
from setwise.mechanisms.planning.request import CountNoise, MechanismName, Total


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """What a question draws from an account: one `discover` for each pick, one `counts` for each count.

    An unknown domain also draws one approx:0,`threshold_delta`. Written forms such as "bounded-range:0.1" do as well.
    """

    discover: Guarantee | None = None
    counts: Guarantee | None = None
    threshold_delta: float | None = None

    def __post_init__(self) -> None:
        for name in ("discover", "counts"):
            value = getattr(self, name)
            if isinstance(value, str):
                use = parse_use(value)
                if use.count != 1:
                    raise InvalidParameter(f"{name} is what each draw costs, so it has no count: {value!r}")
                object.__setattr__(self, name, use.guarantee)
        if self.discover is None and self.counts is None:
            raise InvalidParameter("say what to draw from the account: discover, counts, or both")

    def to_dict(self) -> dict[str, object]:
        """Return the draws as plain values; what was left out is left out."""
        named = {"discover": self.discover, "counts": self.counts}
        drawn = {name: format_use(Use(guarantee)) for name, guarantee in named.items() if guarantee is not None}
        threshold = {} if self.threshold_delta is None else {"threshold_delta": self.threshold_delta}
        return {"kind": "draws", **drawn, **threshold}


def drawn_for(guarantee: Guarantee) -> Literal["discover", "counts", "threshold"] | None:
    """Return what a question can draw a registered guarantee for; None when questions draw it for nothing."""
    match guarantee:
        case BoundedRange():
            return "discover"
        case PureDP() | Gaussian() | DiscreteLaplace():
            return "counts"
        case ApproxDP(epsilon=0.0):
            return "threshold"
        case _:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """A budget named by accuracy: the largest half-width that a planned 95% interval may have, in its own units.

    The half-width of a mean is that of a group of 1,000 users, and that of a quantile is in users of rank. The least
    epsilon that plans such intervals is spent (accuracy.py). `epsilon` is the most that may be spent, 1 if it is None.
    The other fields are those of `Total`.
    """

    within: Fraction
    delta: Fraction = Fraction(0)
    counts: CountNoise = CountNoise.BEST
    mechanism: MechanismName | None = None
    epsilon: Fraction | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "within", rational("within", self.within, Fraction(1, 10**9), Fraction(10**15)))
        made = self.total(Fraction(1) if self.epsilon is None else self.epsilon)  # which raises what is wrong with it
        for name in ("delta", "counts", "mechanism"):
            object.__setattr__(self, name, getattr(made, name))
        if self.epsilon is not None:
            object.__setattr__(self, "epsilon", made.epsilon)

    def total(self, epsilon: Fraction) -> Total:
        """Return the total with this epsilon."""
        return Total(epsilon=epsilon, delta=self.delta, counts=self.counts, mechanism=self.mechanism)

    def to_dict(self) -> dict[str, object]:
        """Return the accuracy as plain values, a total that says `within`."""
        words = self.total(Fraction(1) if self.epsilon is None else self.epsilon).to_dict()
        if self.epsilon is None:
            del words["epsilon"]
        return words | {"within": float(self.within)}


Budget: TypeAlias = Total | Draws

AskedBudget: TypeAlias = Budget | Within
"""What may be said about spending: a budget, or how close the answer has to be."""


class BudgetWords(TypedDict, total=False):
    """The words for what may be spent.

    `epsilon` and `delta` are the total for this question; then `counts` is "none", "laplace", "gaussian" or "best", and
    `mechanism` forces the planner's choice. On an account, `discover` is what each pick draws ("bounded-range:0.1"),
    `counts` what each count draws ("pure:0.1"), and `delta` that of the threshold of an unknown domain.
    """

    epsilon: float | None
    delta: float | None
    counts: str | Guarantee | None
    mechanism: str | None
    discover: str | Guarantee | None
    within: float | None


def budget_of(words: BudgetWords) -> AskedBudget:
    """Return the budget that the words mean: a total when there is an epsilon or an accuracy, draws otherwise."""
    epsilon, delta, counts = words.get("epsilon"), words.get("delta"), words.get("counts")
    mechanism, discover, within = words.get("mechanism"), words.get("discover"), words.get("within")
    if epsilon is None and within is None:
        if mechanism is not None:
            raise InvalidParameter("a mechanism is chosen for a total only: leave it out, or give an epsilon")
        drawn = None if counts == "none" else counts
        return Draws(discover=discover, counts=drawn, threshold_delta=delta)  # type: ignore[arg-type]
    if discover is not None:
        raise InvalidParameter("discover is for draws from an account: leave it out, or leave epsilon out")
    if counts is not None and not isinstance(counts, str):
        raise InvalidParameter(f"counts must be one of {', '.join(CountNoise)} with an epsilon, not {counts!r}")
    given: dict[str, Any] = {
        "epsilon": epsilon,
        "delta": 0 if delta is None else delta,
        "counts": CountNoise.BEST if counts is None else check_choice("counts", counts, CountNoise),
        "mechanism": mechanism,
    }
    return Total(**given) if within is None else Within(within=within, **given)  # type: ignore[arg-type]
