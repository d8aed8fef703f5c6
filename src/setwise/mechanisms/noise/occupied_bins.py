"""Estimates of which neighbouring bins of a noisy histogram have values, from the noisy numbers of all bins together.

A private search puts values into 171 bins, intervals whose ends are powers of two, and adds Laplace noise to the number
of values in each. Of a few hundred values in six bins, no single bin stands out from noise: the highest of 171 noisy
numbers is then often that of an empty bin, whose values would be 2^40 times as large. Six such bins in a row stand out
together. Only noisy numbers are read, so the estimates cost no privacy.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_LEAST_MEAN = 1.0
"""The least mean number of values in an occupied bin that is considered, in units of the noise scale. Means of 1, 2, 4,
.. noise scales, up to the highest noisy number, are taken to be equally likely."""

_COST_OF_BIN = 0.5
"""What each bin of a range lowers its evidence by, so that a range gains nothing from bins that noise explains."""

_USUAL_ENDS = (18, 45)
"""Bins in which most columns have their largest values: those up to 2^-3 and up to 2^24 in absolute value."""

_COST_OF_UNUSUAL_END = 0.15
"""What each bin between the usual ones and the outer end of a range lowers its evidence by. A range that ends at 2^40
must be about ten times as likely by its noisy numbers as one that ends at 2^24."""


@dataclass(frozen=True, slots=True)
class OccupiedRange:
    """The bins `first` to `last` of one sign, numbered by their distance from 0, that most probably have all values.

    `evidence` is the logarithm of how many times as likely the noisy numbers are if these bins have values as if no bin
    has, less the costs of the range.
    """

    first: int
    last: int
    evidence: float


def most_probable_range(noisy: NDArray[np.float64], scale: float) -> OccupiedRange:
    """Return the range of neighbouring bins that most probably has all values of one sign.

    - `noisy[i]` is the noisy number of values in bin i + 1 of this sign; bins are numbered from 1 outwards from 0.
    - `scale` is the scale of the Laplace noise on each number.

    >>> numbers = np.array([3.0, -20, 50, 48, 61, 40, 5, 90, -13, 2])  # four bins in a row, or one higher bin
    >>> found = most_probable_range(numbers, 20.0)
    >>> found.first, found.last
    (3, 8)
    >>> most_probable_range(np.where(np.arange(85) == 80, 100.0, 0.0), 20.0).evidence < 1
    True
    """
    gains = np.concatenate([[0.0], np.cumsum(_log_odds(noisy / scale) - _COST_OF_BIN)])
    places = np.arange(1, len(noisy) + 1)
    least, most = _USUAL_ENDS
    costs = _COST_OF_UNUSUAL_END * np.maximum(0, np.maximum(places - most, least - places))
    # For each last bin, the best first bin is the one before which the sum of gains is smallest.
    lowest = np.minimum.accumulate(gains[:-1])
    evidence = gains[1:] - lowest - costs
    last = int(np.argmax(evidence))
    first = int(np.argmin(gains[: last + 1]))
    return OccupiedRange(first=first + 1, last=last + 1, evidence=float(evidence[last]))


def _log_odds(heights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return, for each bin, the logarithm of how likely its noisy number is if the bin has values, relative to none.

    `heights` are the noisy numbers in units of the noise scale. If a bin has values, their number is taken to be
    exponentially distributed, with one of several means.
    """
    # With y the height, k the mean and c the number of values, all in noise scales, the ratio of likelihoods is
    # exp(|y| - |y - c|), averaged over c. For y <= 0 that is 1 / (1 + k). For y > 0 it is
    # exp(y (1 - 1/k)) (1 / (k - 1) + 1 / (k + 1)) - 1 / (k - 1); k = 1 is replaced by a number near 1.
    highest = max(_LEAST_MEAN, float(heights.max()))
    means = 1.0001 * _LEAST_MEAN * 2.0 ** np.arange(math.floor(math.log2(highest / _LEAST_MEAN)) + 1)
    logs = []
    for mean in means.tolist():
        above = np.maximum(heights, 0.0)
        growth = above * (1 - 1 / mean)
        factor = 1 / (mean - 1) + 1 / (mean + 1)
        # log(e^g f - 1/(k-1)), without overflow for large g
        ratio = np.log(factor - np.exp(-growth) / (mean - 1)) + growth
        logs.append(ratio)
    stacked = np.array(logs)
    largest = stacked.max(axis=0)
    averages: NDArray[np.float64] = largest + np.log(np.exp(stacked - largest).mean(axis=0))
    return averages
