"""Estimates of the numbers of users in the last bins of a noisy histogram, which are too small to stand out from noise.

Users are sorted into bins by a number, such as their number of rows; each bin ends at about twice the end of the bin
before it. A few users in a late bin may have much of the table: ten users of 1,000 rows have as many rows as a thousand
users of ten. A contribution bound that is chosen as if they did not exist leaves out most of their rows.
"""

import numpy as np
from numpy.typing import NDArray

_DECAY = 0.25
"""Users who are expected in a bin that has some, per user of the bin before it. From bin to bin the numbers of rows
double, so with a fourth of the users a bin has half the rows of the bin before it."""

_OCCUPIED = 0.5
"""The probability, before its noisy number is seen, that a bin has users."""

_STEPS = 512
"""The number of equally likely numbers of users, for a bin that has some, among which their number is estimated."""

_QUANTILES = -np.log1p(-(np.arange(_STEPS) + 0.5) / _STEPS)
"""These numbers of users, as multiples of the expected number: quantiles of the exponential distribution."""


def estimate_tail(noisy: NDArray[np.float64], users_before: float, scale: float) -> NDArray[np.float64]:
    """Return the estimated number of users in each of the bins at the end of a histogram, where noise hides most users.

    A bin is a range of a number, such as rows per user, and each bin ends at about twice the end of the bin before it.

    - `noisy` has the noisy number of users in each bin whose number is estimated.
    - `users_before` is an estimate of the number of users in the bin before the first of these bins.
    - `scale` is the scale of the Laplace noise on each number.

    A bin with users is expected to have about a fourth of the users of the bin before it. The estimates only help to
    choose bounds: confidence intervals do not depend on them.

    With 120 users in the bin before, 30 users would be expected in the first bin. Noise of scale 20 could hide a few of
    them, so the estimate is above 0 although the noisy number is 0:

    >>> estimate_tail(np.array([0.0, 0.0]), 120.0, 20.0).round(1).tolist()
    [3.4, 0.4]

    With 3000 users in the bin before, 750 would be expected. The noisy number 40 is far from 750, so it is probably
    noise in an empty bin:

    >>> estimate_tail(np.array([40.0, 0.0]), 3000.0, 20.0).round(1).tolist()
    [11.2, 1.2]
    """
    # The estimate is the posterior mean of the number of users given the noisy number, for this prior: a bin is empty
    # with probability one half, and otherwise has an exponentially distributed number of users, whose mean is a fourth
    # of the users in the bin before it. Only noisy numbers are read, so the estimates cost no privacy.
    estimates = np.zeros(len(noisy))
    expected = _DECAY * users_before
    for place, number in enumerate(noisy):
        users = expected * _QUANTILES
        # Likelihoods are divided by that of an empty bin, so that no exponential underflows to 0 in both.
        exponents = (abs(number) - np.abs(number - users)) / scale
        largest = max(0.0, float(exponents.max()))
        likelihoods = np.exp(exponents - largest)
        occupied = _OCCUPIED * likelihoods.mean()
        empty = (1 - _OCCUPIED) * np.exp(-largest)
        estimates[place] = _OCCUPIED * (likelihoods * users).mean() / (occupied + empty)
        expected = _DECAY * estimates[place]
    return estimates


def laplace_sums_radius(scales: NDArray[np.float64], numbers: NDArray[np.int64], chance: float) -> NDArray[np.float64]:
    """Return for each row of `scales` a radius r that a sum S of Laplace noises rarely exceeds: P[|S| > r] <= `chance`.

    The private searches for bounds use r to decide whether noise alone can explain a sum of noisy numbers. S is the sum
    of numbers[i] independent noises of scale scales[row, i], over all columns i.
    """
    # By Chernoff's bound, S exceeds r with probability at most exp(-t r) * product over i of (1 - t^2 s_i^2)^-n_i for
    # any t below all 1 / s_i, where s_i are the scales of the row and n_i the `numbers`. The bound also holds for
    # integer Laplace noise of the same scale, whose moment generating function is smaller.
    largest = scales.max(axis=1, where=numbers > 0, initial=1e-12)
    best = np.full(len(scales), np.inf)
    for part in np.linspace(0.02, 0.98, 49):
        rate = part / largest
        squares = np.minimum((rate[:, None] * scales) ** 2, part**2)
        log_moments = -(numbers * np.log1p(-squares)).sum(axis=1)
        best = np.minimum(best, (np.log(2 / chance) + log_moments) / rate)
    return best
