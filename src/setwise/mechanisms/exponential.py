"""The exponential mechanism over any finite score whose range is known."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from setwise.accounting.guarantees import BoundedRange
from setwise.accounting.use import Use
from setwise.errors import InvalidParameter
from setwise.mechanisms.gumbel_order import gumbel_order
from setwise.mechanisms.randomness import Randomness
from setwise.mechanisms.rational import float_above, rational

LARGEST_SCORE = 2**62
SMALLEST_RATE = Fraction(1, 10**9)
LARGEST_PICK_EPSILON = Fraction(100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential:
    """Pick one candidate with probability proportional to exp(epsilon * score / score_range): epsilon-bounded range.

    `score_range` bounds max_i (u_i(x) - u_i(x')) - min_i (u_i(x) - u_i(x')) over neighbours x, x'. A monotone score
    that moves by at most s has range s; one that may move either way has range 2s.

    Theorem: DongDuRo19.
    """

    epsilon: Fraction
    score_range: Fraction

    def __post_init__(self) -> None:
        epsilon = rational("epsilon", self.epsilon, SMALLEST_RATE, LARGEST_PICK_EPSILON)
        object.__setattr__(self, "epsilon", epsilon)
        score_range = rational("score_range", self.score_range, SMALLEST_RATE, Fraction(LARGEST_SCORE))
        object.__setattr__(self, "score_range", score_range)

    def guarantees(self) -> tuple[Use, ...]:
        """Return what one pick costs."""
        return (Use(BoundedRange(epsilon=float_above(self.epsilon))),)

    def pick(self, scores: Sequence[int | Fraction], randomness: Randomness) -> int:
        """Return the position of the candidate picked.

        Requires: scores are integers or rationals whose common denominator keeps them within ±2^62.
        """
        if not len(scores):
            raise InvalidParameter("scores must name at least one candidate")
        try:
            exact = [rational("score", score, Fraction(-LARGEST_SCORE), Fraction(LARGEST_SCORE)) for score in scores]
        except InvalidParameter:  # whose message would quote a private score
            raise InvalidParameter("scores must be integers or rationals within ±2^62") from None
        denominator = math.lcm(*(score.denominator for score in exact))
        whole = [int(score * denominator) for score in exact]
        if max(map(abs, whole)) > LARGEST_SCORE:
            raise InvalidParameter("scores need a common denominator that keeps them within ±2^62")
        rate = self.epsilon / (self.score_range * denominator)
        return int(gumbel_order(np.array(whole, dtype=np.int64), rate, 1, randomness)[0])
