"""Coins that land heads with probability exp(-gamma), exactly, many at a time.

Floating point decides a coin only where its error radius cannot matter; the rest go to integer arithmetic.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from setwise.mechanisms.randomness import WORD, Randomness
from setwise.mechanisms.sampling.fixed_point import exp_minus

RADIUS = 2.0**-44
"""What the float arithmetic of a coin is trusted to, relative to its probability; its true error is far smaller."""


def heads(
    gammas: NDArray[np.float64],
    exact: Callable[[int], Fraction],
    randomness: Randomness,
    width: int = WORD,
) -> NDArray[np.bool_]:
    """Return for each coin i whether it lands heads, which has probability exp(-exact(i)).

    Requires: |gammas[i] - exact(i)| <= 2^-46 (1 + gammas[i]), exact(i) >= 0.
    """
    words = randomness.words(len(gammas), width)
    uniform = words.astype(np.float64) * 2.0**-width
    chance = np.exp(-gammas)
    slack = RADIUS * (1.0 + gammas) * chance + 2.0**-52
    result = uniform < chance
    undecided = np.flatnonzero(np.abs(uniform - chance) <= slack + 2.0**-width)
    for index in undecided:
        result[index] = _settled(exact(int(index)), int(words[index]), width, randomness)
    return result


def _settled(gamma: Fraction, word: int, width: int, randomness: Randomness) -> bool:
    """Return whether U < exp(-gamma), where U starts with `word`, appending words until that is certain."""
    bits = width
    if gamma == 0:
        return True
    while True:
        low, high = exp_minus(gamma, bits)
        if word + 1 <= low:
            return True
        if word >= high:
            return False
        word = (word << width) | int(randomness.words(1, width)[0])
        bits += width
