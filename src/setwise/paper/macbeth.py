"""The paper's comparison on the words of Macbeth: ordered least squares against plain Laplace noise."""

import csv
from dataclasses import dataclass
from fractions import Fraction
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from setwise.errors import InvalidParameter
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.known_domain import KnownLaplace
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.randomness import WORD, Randomness
from setwise.mechanisms.release import with_noise
from setwise.mechanisms.two_phase import non_increasing

SIGMA = Fraction(131, 10)
"""Gaussian noise of the same overall privacy, (2.08, 1e-6), as Laplace noise of epsilon 0.1 on 25 counts."""

EPSILON = Fraction(1, 10)


def macbeth_words() -> Histogram:
    """Return how often each word of Macbeth occurs.

    >>> macbeth_words().ranked(3).labels
    ('the', 'and', 'to')
    """
    text = files("setwise.paper").joinpath("data/macbeth_word_counts.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(text.splitlines()))
    return Histogram.of([row["word"] for row in rows], [int(row["count"]) for row in rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Per word, the mean and deviation of each mechanism's answers over the trials, and their mean absolute errors."""

    words: tuple[str, ...]
    counts: tuple[int, ...]
    laplace_mean: tuple[float, ...]
    laplace_deviation: tuple[float, ...]
    laplace_error: tuple[float, ...]
    least_squares_mean: tuple[float, ...]
    least_squares_deviation: tuple[float, ...]
    least_squares_error: tuple[float, ...]


def compare(randomness: Randomness, k: int = 25, trials: int = 100, sigma: Fraction = SIGMA) -> Comparison:
    """Run both mechanisms `trials` times on the k most frequent words, given in their true order.

    Both are the paper's: least squares takes independent noise and is not rounded to whole numbers.

    Theorem: fig:NoiseCompare.
    """
    if trials < 2:
        raise InvalidParameter(f"trials must be at least 2, not {trials}")
    top = macbeth_words().ranked(k)
    order = tuple(str(label) for label in top.labels)
    laplace = KnownLaplace(domain=order, contributions=k, scale=1 / EPSILON)
    gaussian = RoundedGaussianNoise(sigma=sigma)
    place = {word: index for index, word in enumerate(order)}
    answers = np.empty((2, trials, k))
    for trial in range(trials):
        for item in laplace.release(top, randomness).items:
            answers[0, trial, place[str(item.label)]] = item.noisy
        drawn = with_noise(top.counts, gaussian, randomness).tolist()
        answers[1, trial] = [float(value) for value in non_increasing(drawn)]
    means, deviations = answers.mean(axis=1), answers.std(axis=1)
    errors = np.abs(answers - top.counts).mean(axis=1)
    return Comparison(
        words=order,
        counts=tuple(top.counts.tolist()),
        laplace_mean=tuple(means[0].tolist()),
        laplace_deviation=tuple(deviations[0].tolist()),
        laplace_error=tuple(errors[0].tolist()),
        least_squares_mean=tuple(means[1].tolist()),
        least_squares_deviation=tuple(deviations[1].tolist()),
        least_squares_error=tuple(errors[1].tolist()),
    )


class SeededRandomness:
    """Words of a seeded generator, so that a figure is the same wherever it is drawn.

    Whoever knows the seed can subtract the noise. Only figures over public data may use this; releases take
    `SystemRandomness`.

    >>> bool((SeededRandomness(1).words(4) == SeededRandomness(1).words(4)).all())
    True
    """

    __slots__ = ("_generator",)

    def __init__(self, seed: int) -> None:
        # The bit generator's raw stream is part of its definition; that of the distributions on top of it is not.
        self._generator = np.random.PCG64(seed)

    def words(self, count: int, width: int = WORD) -> NDArray[np.uint64]:
        """Return `count` uniform integers of `width` bits, 1 to 64."""
        if not 1 <= width <= WORD:
            raise InvalidParameter(f"width must lie between 1 and 64 bits, not {width!r}")
        raw = np.atleast_1d(np.asarray(self._generator.random_raw(count), dtype=np.uint64))
        return raw >> np.uint64(WORD - width)
