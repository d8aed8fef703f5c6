"""The paper's comparison: at equal privacy, ordered least squares has the smaller error on the smaller counts."""

import numpy as np
import pytest
from scipy.stats import norm

from setwise.errors import InvalidParameter
from setwise.mechanisms.randomness import SystemRandomness
from setwise.paper.figures.macbeth_noise import SIGMA, compare, macbeth_words


def test_the_table_of_words():
    words = macbeth_words()
    assert len(words) == 3368
    top = words.ranked(25)
    assert top.labels[:5] == ("the", "and", "to", "of", "i")
    assert top.counts[:5].tolist() == [691, 566, 379, 343, 338]


def test_least_squares_wins_on_the_smaller_counts():
    """Laplace's mean error there is 10 and its standard error 1 per word over 100 trials: half as much is no chance."""
    result = compare(SystemRandomness())
    small = slice(15, 25)
    laplace, squares = np.mean(result.laplace_error[small]), np.mean(result.least_squares_error[small])
    assert len(result.words) == 25
    assert squares < 0.85 * laplace
    assert all(b >= a for a, b in zip(result.least_squares_mean[1:], result.least_squares_mean, strict=False))


def test_sigma_matches_the_privacy_of_the_laplace_noise():
    """25 counts: the paper's conversion gives epsilon 2.08 at delta 1e-6; the exact Gaussian is smaller still."""
    sigma, k, delta = float(SIGMA), 25, 1e-6
    assert k / (2 * sigma**2) + np.sqrt(2 * k * np.log(1 / delta)) / sigma == pytest.approx(2.08, abs=5e-3)
    mu = np.sqrt(k) / sigma
    assert norm.cdf(mu / 2 - 2.08 / mu) - np.exp(2.08) * norm.cdf(-mu / 2 - 2.08 / mu) < delta


def test_a_comparison_needs_trials():
    with pytest.raises(InvalidParameter):
        compare(SystemRandomness(), trials=1)
