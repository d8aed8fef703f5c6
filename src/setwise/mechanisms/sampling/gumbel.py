"""The order of the k highest scores under Gumbel noise, drawn exactly: the exponential mechanism applied k times."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial

import numpy as np
from numpy.typing import NDArray

from setwise.mechanisms.randomness import WORD, Randomness
from setwise.mechanisms.sampling.fixed_point import NONE, FixedInterval, exp_minus, ln

_FEW = np.uint64(1 << 24)
"""A 64-bit word starts the uniform number V that makes the noise. If the word is within this distance of 0 or of 2^64,
floats bound the noise too loosely; one word in 2^39 is.
"""

_NEAR_ONE = np.uint64((1 << 64) - (1 << 44))
"""From this 64-bit word on, 1 - V is computed from the word's complement, because 1 - V in floats would cancel.

V is the uniform number, starting with the word, that makes the noise.
"""


def float_keys(shortfalls: NDArray[np.float64], words: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return approximate noisy scores of candidates (score plus Gumbel noise) as floats, in units of the noise scale.

    The candidates are ranked by these floats where they are certain enough, because exact scores take long to compute.

    - `shortfalls` has for each candidate the score minus the highest score, in units of the noise scale, so at most 0.
      If the candidate is a run of scores (see `Runs`), the logarithm of the run's weight is added.
    - `words` has for each candidate the first 64 bits of the random number from which its noise is computed.
    """
    # A candidate's Gumbel noise is -ln(-ln(1 - V)), where V is uniform in [0, 1] and starts with the candidate's word.
    # The further bits are not drawn yet, so the noisy score is computed for the middle of all V that start with the
    # word.
    with np.errstate(divide="ignore"):  # words that round to V = 1 are recomputed in the next two lines
        exponentials = -np.log1p((words + 0.5) * -(2.0**-64))
    high = np.flatnonzero(words >= _NEAR_ONE)
    exponentials[high] = -np.log((~words[high] + 0.5) * 2.0**-64)
    return np.asarray(shortfalls - np.log(exponentials))


def float_bounds(
    shortfalls: NDArray[np.float64], words: NDArray[np.uint64], keys: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return (lower bounds, upper bounds) on the exact noisy scores of candidates; the candidate with the highest wins.

    `keys` has the noisy scores computed in floats. The bounds are certified: they cover the rounding errors of the
    floats. Where the bounds of two candidates overlap, the caller computes the scores exactly, with further random
    bits.

    - `shortfalls` has (score - highest score) / (noise scale) for each candidate. If a candidate stands for a run of
      scores (see `Runs`), the logarithm of the run's weight is added.
    - `words` has, for each candidate, the first 64 bits of a uniform random number between 0 and 1, from which its
      noise is made. If this number is very close to 0 or 1, a bound is infinite or far from the score.
    """
    # Why they hold: a key was computed for the middle of all V that start with the word, which is within 2^-65 of the
    # true V. The float of V is off by at most 2^-53 V, or by 2^-53 (1 - V) for words of at least `_NEAR_ONE`. If V
    # changes by dV, a noisy score changes by dV / ((1 - V) E), with E = -ln(1 - V). Each float operation is assumed to
    # have a relative error of 2^-50, many times its true error, and the logarithm of a run's weight one of 2^-46.
    near_one = words >= _NEAR_ONE
    below = (words + 0.5) * 2.0**-64
    above = (~words + 0.5) * 2.0**-64
    exponentials = np.where(near_one, -np.log(above), -np.log1p(-np.where(near_one, 0.5, below)))
    absolute = 2.0**-65 + 2.0**-52 * np.where(near_one, above, below)
    rounding = 2.0**-49 * (16.0 + np.abs(shortfalls) + np.abs(np.log(exponentials)))
    radius = 1.25 * absolute / (above * exponentials)
    # Near V = 0 the middle is within ln 2 of the lower end; near V = 1 it is within 1 of the upper end.
    low, high = words < _FEW, ~words < _FEW
    lower = keys - rounding - np.where(high, np.inf, np.where(low, 1.0, radius))
    upper = keys + rounding + np.where(low, np.inf, np.where(high, 1.0, radius))
    return lower, upper


def is_loose(words: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return for each 64-bit random word whether floats bound the noisy score made from it only loosely.

    That is the case for words very close to 0 or to 2^64. The caller must compare their scores by exact arithmetic.
    """
    return np.asarray((words < _FEW) | (~words < _FEW))


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """Sequences (runs) of evenly falling scores; each run gets only one draw of Gumbel noise, to save time.

    A run takes part in the draw as one candidate. Run i has lengths[i] scores, each lower by slopes[i] than the score
    before it. The weight of a run is the sum of exp(-rate * slope * j) over j from 0 to its length - 1, where rate is
    the inverse of the Gumbel noise scale. With this weight, a run is picked as often as all its scores together would
    be.
    """

    # A run's first score is the score of its candidate in the draw. The run is picked with a probability proportional
    # to exp(rate * first score) times its weight.

    slopes: NDArray[np.int64]
    lengths: NDArray[np.int64]

    def float_logarithms(self, rate: float) -> NDArray[np.float64]:
        """Return the logarithm of each run's weight as a float, with an error of a few units in the last place.

        A run is a sequence of evenly falling scores, which a draw picks as a whole. Its weight is the sum of exp(-rate
        * slope * j) over j from 0 to its length - 1, where `rate` is the inverse of the noise scale and slope the
          distance of neighbouring scores.
        """
        # A relative error e of rate * slope changes the logarithm by at most e, so errors do not grow.
        falls = self.slopes * rate
        with np.errstate(invalid="ignore"):
            ratios = np.expm1(-falls * self.lengths) / np.expm1(-falls)
        return np.asarray(np.log(np.where(self.slopes == 0, self.lengths, ratios)))

    def logarithm(self, index: int, rate: Fraction, precision: int) -> FixedInterval:
        """Return certified bounds on the logarithm of the weight of the run with this `index`, at `precision` bits.

        A run is a sequence of scores that fall by the same slope from one to the next. A whole run is drawn first and
        then a score in it, so a run has a weight: the sum of exp(-rate * slope * j) for j = 0, 1, ... up to its length
        - 1. `rate` is the inverse of the noise scale.
        """
        fall, length = rate * int(self.slopes[index]), int(self.lengths[index])
        if fall == 0:
            return ln(Fraction(length), precision)
        bits = precision + 8 + fall.denominator.bit_length()  # 1 - exp(-fall) is at least about 1 / denominator
        one = 1 << bits
        whole, step = exp_minus(fall * length, bits), exp_minus(fall, bits)
        return FixedInterval(
            ln(Fraction(one - whole.high, one - step.low), precision).low,
            ln(Fraction(one - whole.low, one - step.high), precision).high,
        )


@dataclass(slots=True)
class ExactKey:
    """The noisy score of one candidate, known as exactly as the random bits drawn so far allow.

    The noisy score is shortfall + noise, where noise = -ln(-ln(1 - V)) for a uniform random number V. Candidates are
    ranked by it.

    - `index` is the candidate's index.
    - `shortfall` is (score - highest score) / noise scale.
    - `word` and `bits` are what is known of V: its first `bits` bits are `word`, so V lies between word / 2^bits and
      (word + 1) / 2^bits. More bits are drawn if a comparison needs them (`extend`).
    - `weight` is a function. It matters if the candidate stands for a run: a sequence of scores (see `Runs`), whose
      noisy score has the logarithm of the run's weight added. Given a number of bits, the function returns bounds on
      this logarithm with that many bits. By default the weight is 1, and its logarithm 0.
    """

    # The object is mutable, because further bits are drawn only when a comparison needs them.

    index: int
    shortfall: Fraction
    word: int
    bits: int
    weight: Callable[[int], FixedInterval] = field(default=lambda _: NONE)

    def extend(self, randomness: Randomness, width: int) -> None:
        """Draw `width` more random bits of V, the uniform number from which the candidate's noise is computed.

        V is known by its first bits only. The caller asks for more if these do not decide a comparison of two
        candidates. `randomness` is the source of random words.
        """
        self.word = (self.word << width) | int(randomness.words(1, width)[0])
        self.bits += width

    def bounds(self) -> tuple[Fraction | None, Fraction | None]:
        """Return certified lower and upper bounds on the candidate's noisy score, from the bits drawn so far.

        The noise grows from minus to plus infinity as the uniform number V, of which the bits are known, falls from 1
        to 0. So the lower bound is None (no bound) if V may still be 1, and the upper bound is None if V may still be
        0.
        """
        precision = 2 * self.bits + 64
        whole, unit = 1 << self.bits, 1 << precision
        weight = self.weight(precision)
        most_bits, least_bits = whole - self.word, whole - self.word - 1
        lower = upper = None
        if least_bits:  # the largest V gives the largest E and the smallest key
            largest = -ln(Fraction(least_bits, whole), precision)[0]
            lower = self.shortfall + Fraction(weight.low - ln(Fraction(largest, unit), precision).high, unit)
        if self.word:
            smallest = -ln(Fraction(most_bits, whole), precision)[1]
            upper = self.shortfall + Fraction(weight.high - ln(Fraction(smallest, unit), precision).low, unit)
        return lower, upper


def gumbel_order(
    scores: NDArray[np.int64],
    rate: Fraction,
    k: int,
    randomness: Randomness,
    width: int = WORD,
    runs: Runs | None = None,
) -> NDArray[np.intp]:
    """Return the indices of the k highest of scores + Gumbel(1/rate) noise, highest first (all if there are at most k).

    - `rate` is the inverse of the scale of the Gumbel noise. The result is exactly that of k picks of the exponential
      mechanism, each with probability proportional to exp(rate * score), without repetition.
    - `runs`: if not None, each entry of `scores` stands for a run, a sequence of scores that begins with this entry and
      falls evenly. The runs are then ranked instead of single scores: each is picked as often as all its scores
      together would be.
    - `width` is the number of bits of each random word that is drawn from `randomness`; it affects only the speed.

    Theorem: DurfeeRo19 (one-shot Gumbel noise is the peeled exponential mechanism).
    Requires: rate > 0, k >= 1, |score| <= 2^62.
    """
    # The law is exactly Plackett-Luce: each next index is drawn among the remaining ones with probability proportional
    # to exp(rate * score), or to the sum over the run. The noisy scores themselves are never returned.
    k = min(k, len(scores))
    if k == 0:
        return np.empty(0, dtype=np.intp)
    words = randomness.words(len(scores), width)
    highest = int(scores.max())
    gaps = scores - highest  # exact: scores lie within ±2^62
    if width != WORD:  # the float bounds hold only for full words
        return _resolve(_exact(np.arange(len(scores)), gaps, words, rate, width, runs), k, randomness, width)
    shortfalls = gaps.astype(np.float64) * float(rate)
    if runs is not None:
        shortfalls += runs.float_logarithms(float(rate))
    keys = float_keys(shortfalls, words)
    contenders = _contenders(shortfalls, words, keys, k)
    ranked = contenders[np.argsort(-keys[contenders], kind="stable")]
    lower, upper = float_bounds(shortfalls[ranked], words[ranked], keys[ranked])
    starts, ends = _overlaps(lower, upper, k)
    for start, end in zip(starts, ends, strict=True):
        group = ranked[start:end]
        ranked[start:end] = _resolve(_exact(group, gaps, words, rate, width, runs), len(group), randomness, width)
    return ranked[:k]


def _contenders(
    shortfalls: NDArray[np.float64], words: NDArray[np.uint64], keys: NDArray[np.float64], k: int
) -> NDArray[np.intp]:
    """Return the indices of the candidates that may be among the k with the highest exact noisy scores.

    Exact scores take long to compute, so they are computed and compared for these candidates only. The other candidates
    are ruled out by approximate scores, whose errors are bounded.

    - `shortfalls` has rate * (score - highest score) for each candidate, where rate is the inverse of the noise scale.
    - `words` are the random 64-bit words from which the noise is made.
    - `keys` are the approximate noisy scores that `float_keys` computes from these two arrays.
    """
    provisional = np.argpartition(keys, len(keys) - k)[len(keys) - k :]
    lower, _ = float_bounds(shortfalls[provisional], words[provisional], keys[provisional])
    bar = float(lower.min())
    if bar == -np.inf:
        return np.arange(len(keys))
    # Away from the ends, a key above the bar has a shortfall within |bar| + 28 of 0 (the logarithm of a run's weight is
    # less than that), so its error is below this slack.
    slack = 2.0**-23 + 2.0**-48 * (abs(bar) + 28.0)
    return np.flatnonzero((keys >= bar - slack) | is_loose(words))


def _overlaps(
    lower: NDArray[np.float64], upper: NDArray[np.float64], k: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return (starts, ends) of the ranges of a ranking within which the order of candidates is still uncertain.

    The candidates are ranked by floats that approximate their noisy scores. `lower` and `upper` are certified bounds on
    these scores, in the order of the ranking; where the bounds of candidates overlap, the caller computes the scores
    exactly. A range [start, end) holds positions of the ranking. Ranges that begin after the first `k` positions do not
    matter and are left out.
    """
    lowest_so_far = np.minimum.accumulate(lower)
    highest_to_come = np.maximum.accumulate(upper[::-1])[::-1]
    breaks = np.flatnonzero(lowest_so_far[:-1] > highest_to_come[1:]) + 1
    starts = np.concatenate(([0], breaks))
    ends = np.concatenate((breaks, [len(lower)]))
    doubtful = (ends - starts > 1) & (starts < k)
    return starts[doubtful], ends[doubtful]


def _exact(
    group: NDArray[np.intp],
    gaps: NDArray[np.int64],
    words: NDArray[np.uint64],
    rate: Fraction,
    width: int,
    runs: Runs | None,
) -> list[ExactKey]:
    """Return an `ExactKey`, the exact noisy score, for each candidate whose index is in `group`.

    Floating-point scores could not tell these candidates apart. The arrays `gaps` and `words` have an entry for every
    candidate, not only for those in `group`:

    - `gaps` has the candidate's score minus the highest score, a number of at most 0.
    - `words` has the first `width` bits of the random number from which the candidate's noise is computed.

    The other arguments are for all candidates alike:

    - `rate` is the inverse of the noise scale.
    - `runs`: None if each candidate has one score. Otherwise each candidate stands for a run, a sequence of evenly
      falling scores that is picked as a whole, and `runs` has the runs of all candidates.
    """
    keys = [ExactKey(index, rate * int(gaps[index]), int(words[index]), width) for index in group.tolist()]
    if runs is not None:
        for key in keys:
            key.weight = partial(runs.logarithm, key.index, rate)
    return keys


def _resolve(keys: list[ExactKey], k: int, randomness: Randomness, width: int) -> NDArray[np.intp]:
    """Return the indices of the candidates with the k highest noisy scores, highest first.

    `keys` are the exact noisy scores. Further random words of `width` bits are drawn for candidates whose scores cannot
    be told apart yet. `randomness` is the source of random words.
    """
    bounds = {key.index: key.bounds() for key in keys}
    while True:
        # A key without an upper bound sorts first, so that it is compared with every key that it may exceed.
        keys.sort(key=lambda key: (bounds[key.index][1] is None, bounds[key.index][1] or 0), reverse=True)
        doubtful = _doubtful(keys, bounds, k)
        if not doubtful:
            return np.array([key.index for key in keys[:k]], dtype=np.intp)
        for key in doubtful:
            key.extend(randomness, width)
            bounds[key.index] = key.bounds()


def _doubtful(
    keys: list[ExactKey], bounds: dict[int, tuple[Fraction | None, Fraction | None]], k: int
) -> list[ExactKey]:
    """Return the candidates whose noisy scores must be computed from more random bits, to rank the first `k` correctly.

    These are candidates whose order is undecided, because the bounds on their noisy scores overlap, and of which at
    least one may be among the first `k`. `keys` are the candidates' noisy scores, sorted by upper bound, highest first.
    `bounds` maps a candidate's index to its (lower, upper) bounds; a None is an infinite bound.
    """
    doubtful: dict[int, ExactKey] = {}
    for place, key in enumerate(keys[:k]):
        lower = bounds[key.index][0]
        for other in keys[place + 1 :]:
            upper = bounds[other.index][1]
            if lower is not None and upper is not None and upper < lower:
                break  # all later keys have even smaller upper ends
            doubtful[key.index] = key
            doubtful[other.index] = other
    return list(doubtful.values())
