"""Exact random decisions with integers only: a coin that lands heads with probability exp(-x), and a uniform choice."""

from fractions import Fraction

from setwise.mechanisms.randomness import WORD, Randomness
from setwise.mechanisms.sampling.fixed_point import exp_minus


def exponential_coin(x: Fraction, word: int, width: int, randomness: Randomness) -> bool:
    """Return True with probability exactly exp(-x), for a rational `x` >= 0.

    The coin lands heads if a uniform random number in [0, 1) is below exp(-x). `word` has the first `width` bits of the
    uniform number. If they do not decide the comparison, further bits of it are drawn from `randomness`, and exp(-x) is
    computed to as many bits.
    """
    while True:
        bounds = exp_minus(x, width)
        if word + 1 <= bounds.low:
            return True
        if word >= bounds.high:
            return False
        word = word << WORD | int(randomness.words(1)[0])
        width += WORD


def uniform_below(count: int, randomness: Randomness) -> int:
    """Return an integer from 0 to `count` - 1, each with probability exactly 1 / `count`.

    Requires: 1 <= count <= 2^64.
    """
    width = max(1, (count - 1).bit_length())
    while True:
        drawn = int(randomness.words(1, width)[0])
        if drawn < count:
            return drawn
