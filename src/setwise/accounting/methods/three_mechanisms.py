"""Three adaptive mechanisms, one epsilon-DP and two epsilon-BR: the closed forms of the paper.

They show that order matters: two BR mechanisms after the DP one can cost more than around it.
"""

import math
from collections.abc import Callable, Sequence

from setwise.accounting.brackets import UNIT, Bracket, probability
from setwise.accounting.guarantees import BoundedRange, PureDP, Use
from setwise.errors import InvalidParameter

_RELATIVE_ERROR = 1e-13


class ThreeMechanisms:
    """One epsilon-DP and two epsilon-BR mechanisms, adaptively, in a fixed order.

    Theorem: lem:xyz, lem:ordbrdp2. For overall epsilon at least `epsilon` all orders agree; the paper leaves their
    common value open, and `_any_order` gives it (docs/closed-forms.md).
    """

    def __init__(self, epsilon: float) -> None:
        self.epsilon = epsilon
        self._keep = 1.0 / (1.0 + math.exp(-epsilon))  # q_{2e,e}: chance that randomized response keeps its bit

    def _q(self, t: float) -> float:
        """Return q_{epsilon,t} of defn:gen_rr."""
        return math.expm1(t - self.epsilon) / math.expm1(-self.epsilon)

    def _one_left(self, t: float) -> float:
        """Return the best a single remaining BR mechanism can do: q_t^2 (1 - exp(-epsilon))."""
        return self._q(t) ** 2 * -math.expm1(-self.epsilon)

    def x(self, t: float, g: float) -> float:
        """Return x(t) of lem:xyz."""
        q, e = self._q(t), self.epsilon
        return self._keep * (q * self._one_left((g - t) / 2) + (1 - q) * self._one_left((g + e - t) / 2))

    def y(self, t: float, g: float) -> float:
        """Return y(t) of lem:xyz."""
        q, e = self._q(t), self.epsilon
        return self._keep * (q * -math.expm1(g - e - t) + (1 - q) * self._one_left((g + e - t) / 2))

    def z(self, t: float, g: float) -> float:
        """Return z(t) of lem:xyz."""
        return (1 - self._keep) * self._q(t) * self._one_left(self.epsilon + (g - t) / 2)

    def pure_first(self, g: float) -> Bracket:
        """Return the optimal delta of (DP, BR, BR) at overall epsilon g >= 0."""
        _check(g)
        if g >= self.epsilon:
            return self._any_order(g)
        e = self.epsilon
        first = self.x(e / 2, g) if g >= e / 2 else self.y((e + g) / 3, g)
        return self._bracket(first + self.z((2 * e + g) / 3, g), g)

    def bounded_range_first(self, g: float) -> Bracket:
        """Return the optimal delta of (BR, DP, BR) at overall epsilon g; (BR, BR, DP) has the same."""
        _check(g)
        if g >= self.epsilon:
            return self._any_order(g)
        e = self.epsilon
        if g >= e / 2:
            value = max(self.x(e / 2, g), self.y(g, g) + self.z(g, g))
        else:
            value = max(self.x(g, g), self.y(e / 2, g) + self.z(e / 2, g))
        return self._bracket(value, g)

    def _any_order(self, g: float) -> Bracket:
        """Return the common value for g >= epsilon: the best t is epsilon/2 up to g = 3 epsilon/2, then g/3."""
        if g >= 3 * self.epsilon:
            return Bracket(0.0, 0.0)
        e = self.epsilon
        t = max(e / 2, g / 3)
        value = self.x(t, g) if g <= 1.5 * e else self._keep * self._q(t) * self._one_left((g - t) / 2)
        return self._bracket(value, g)

    def _bracket(self, value: float, g: float) -> Bracket:
        """Return the bracket of a value; arguments that come close to epsilon cancel in q, up to three times over."""
        nearest = max(self.epsilon - g / 3, 1e-300)
        return probability(value, value * (_RELATIVE_ERROR + 24 * UNIT * (self.epsilon + g) / nearest))


def _check(g: float) -> None:
    if not g >= 0:
        raise InvalidParameter(f"the closed forms need epsilon >= 0, not {g!r}")


def three_in_order(uses: Sequence[Use]) -> Callable[[float], Bracket] | None:
    """Return delta as a function of epsilon when the uses are one pure DP and two BR with one epsilon, else None."""
    kinds = [use.guarantee for use in uses for _ in range(min(use.count, 4))]
    epsilons = {g.epsilon for g in kinds if isinstance(g, PureDP | BoundedRange)}
    pure = [index for index, g in enumerate(kinds) if isinstance(g, PureDP)]
    ranges = [g for g in kinds if isinstance(g, BoundedRange)]
    if len(kinds) != 3 or len(pure) != 1 or len(ranges) != 2 or len(epsilons) != 1:
        return None
    three = ThreeMechanisms(epsilons.pop())
    return three.pure_first if pure[0] == 0 else three.bounded_range_first
