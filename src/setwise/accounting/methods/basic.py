"""Basic composition: the largest privacy losses of the uses add up, whatever the interaction."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from setwise.accounting.answer import Answer, Interaction
from setwise.accounting.guarantees import Use, largest_loss, total_loss
from setwise.accounting.intervals import Bracket, down

METHOD, STATEMENT = "basic-composition", "DworkKeMcMiNa06"


@dataclass(frozen=True, slots=True)
class BasicSum:
    """Uses that lose at most `total` together, except with the chance `failure`."""

    total: float
    failure: Bracket

    def delta(self, epsilon: float) -> Bracket:
        """Return the chance of failure beyond the sum of the epsilons, 1 below it.

        Theorem: DworkKeMcMiNa06 (basic composition); it also holds when parameters are chosen on the fly.
        """
        return Bracket(0.0, self.failure.upper if epsilon >= self.total else 1.0)


def pure_sum(uses: Iterable[Use], interaction: Interaction) -> Answer:
    """Return the epsilon of the uses together at delta = 0; infinite when some use has an unbounded loss or fails.

    The largest losses of known noise are reached together, so their sum is the optimum. A class reaches at least the
    sum over the known noise that attains it.

    >>> from setwise.accounting.guarantees import PureDP
    >>> pure_sum([Use(PureDP(epsilon=0.25), 4)], Interaction.SETWISE).upper
    1.0
    """
    pairs = [(use.guarantee, use.count) for use in uses]
    upper = total_loss(pairs)
    if upper is None or any(guarantee.without_failure()[1] for guarantee, _ in pairs):
        return Answer(0.0, math.inf, interaction, METHOD, STATEMENT)
    lower = total_loss((known, count) for guarantee, count in pairs if (known := guarantee.attained_by()) is not None)
    assert lower is not None  # noise that satisfies a bounded guarantee is bounded
    below = float(lower)
    return Answer(
        below if Fraction(below) <= lower else down(below), largest_loss(pairs), interaction, METHOD, STATEMENT
    )
