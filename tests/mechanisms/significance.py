"""How sure a statistical test must be before it fails, stated once for the whole room.

Every statistical test is an exact binomial tail: a union bound over its events keeps its false-alarm probability
below SIGNIFICANCE. Fewer than MOST_TESTS such tests run, so one run of the suite raises a false alarm with
probability below 1e-5.
"""

import numpy as np
from scipy.stats import beta, binom

SIGNIFICANCE = 1e-9
MOST_TESTS = 9_000


def assert_frequencies(observed, probabilities, trials):
    """Fail when some event's count is too far in the tail of its binomial law to be chance."""
    observed, probabilities = np.asarray(observed), np.clip(np.asarray(probabilities, dtype=float), 0.0, 1.0)
    level = SIGNIFICANCE / (2 * len(observed))
    low = binom.cdf(observed, trials, probabilities)
    high = binom.sf(observed - 1, trials, probabilities)
    worst = np.argmin(np.minimum(low, high))
    assert min(low[worst], high[worst]) >= level, (
        f"event {worst}: {observed[worst]} of {trials} where {trials * probabilities[worst]:.1f} are expected"
    )


def upper_limit(hits, trials):
    """The Clopper-Pearson upper limit of a probability, wrong with probability at most SIGNIFICANCE / 2."""
    return 1.0 if hits == trials else float(beta.isf(SIGNIFICANCE / 2, hits + 1, trials - hits))


def lower_limit(hits, trials):
    """The Clopper-Pearson lower limit of a probability, wrong with probability at most SIGNIFICANCE / 2."""
    return 0.0 if hits == 0 else float(beta.ppf(SIGNIFICANCE / 2, hits, trials - hits + 1))
