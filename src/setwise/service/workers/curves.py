"""What uses add up to as their number or their mixture changes: one curve at a time, with bounded work."""

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, assert_never

from setwise.accounting.answer import Interaction
from setwise.accounting.compose import compose
from setwise.accounting.methods.moments import subgaussian_sum
from setwise.accounting.notation import as_uses

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
    number, share, epsilon, delta = mixture.number, mixture.share, mixture.epsilon, mixture.delta
    match along:
        case Along.NUMBER:
            numbers = sorted({max(1, round(number * step / _POINTS)) for step in range(1, _POINTS + 1)})
            return [(each, Mixture(number=each, share=share, epsilon=epsilon, delta=delta)) for each in numbers]
        case Along.SHARE:
            spread = {round(number * step / _POINTS) for step in range(_POINTS + 1)} | {mixture.ranges}
            shares = [ranges / number for ranges in sorted(spread)]
            return [(each, Mixture(number=number, share=each, epsilon=epsilon, delta=delta)) for each in shares]
        case _:
            assert_never(along)


def _ends(which: Curve, mixture: Mixture) -> tuple[float, float]:
    scale = 1.0 / mixture.epsilon
    match which:
        case Curve.PAPER:
            moments = subgaussian_sum(as_uses(mixture.uses()))
            assert moments is not None
            return 0.0, moments.paper_epsilon(mixture.delta)
        case Curve.BATCH:
            return _composed(mixture.uses(), Interaction.BATCH, mixture.delta)
        case Curve.ORDERED:
            return _composed(mixture.uses(), Interaction.ORDERED, mixture.delta)
        case Curve.SETWISE:
            return _composed(mixture.uses(), Interaction.SETWISE, mixture.delta)
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
