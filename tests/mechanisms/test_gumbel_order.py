"""The Gumbel order is Plackett-Luce: certain intervals, one answer from floats and integers, right frequencies."""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from exact_laws import ExhaustedError, Script
from significance import assert_frequencies
from tests.sizes import cases, draws

from setwise.errors import InvalidParameter
from setwise.mechanisms.known_domain import Exponential
from setwise.mechanisms.randomness import SystemRandomness
from setwise.mechanisms.sampling.gumbel import ExactKey, Runs, _resolve, float_bounds, float_keys, gumbel_order

RANDOMNESS = SystemRandomness()
EDGES = [0, 1, 2, 2**24 - 1, 2**24, 2**44, 2**63, 2**64 - 1, 2**64 - 2, 2**64 - 2**24, 2**64 - 2**24 - 1]
EDGES += [2**64 - 2**44 - 1, 2**64 - 2**44, 2**64 - 2**44 + 1, 2**64 - 2**30]


def plackett_luce(scores, rate, k):
    """The probability of every ordered k-tuple, by peeling exponential mechanisms."""
    weights = np.exp(float(rate) * (np.array(scores, dtype=float) - max(scores)))
    law = {}
    for order in itertools.permutations(range(len(scores)), k):
        chance, left = 1.0, weights.sum()
        for place in order:
            chance, left = chance * weights[place] / left, left - weights[place]
        law[order] = chance
    return law


@pytest.mark.parametrize("largest", [0, 10, 10**6, 2**62])
def test_float_intervals_hold_the_exact_key(largest):
    source = np.random.default_rng(largest % 1009)
    spread = source.integers(0, 2**64, 400, dtype=np.uint64) >> source.integers(0, 60, 400, dtype=np.uint64)
    words = np.concatenate((np.array(EDGES, dtype=np.uint64), spread, ~spread))
    behind = -source.integers(0, largest + 1, len(words))
    rate = Fraction(1, 7)
    shortfalls = behind * float(rate)
    keys = float_keys(shortfalls, words)
    lower, upper = float_bounds(shortfalls, words, keys)
    for place, word in enumerate(words.tolist()):
        low, high = ExactKey(place, rate * int(behind[place]), word, 64).bounds()
        assert lower[place] == -np.inf or Fraction(lower[place]) <= low
        assert upper[place] == np.inf or Fraction(upper[place]) >= high


def test_exact_bounds_narrow_as_bits_are_appended():
    key = ExactKey(0, Fraction(0), 37, 6)
    low, high = key.bounds()
    for _ in range(5):
        key.extend(RANDOMNESS, 6)
        assert low <= key.bounds()[0] < key.bounds()[1] <= high
        low, high = key.bounds()
    assert ExactKey(0, Fraction(0), 0, 6).bounds()[1] is None
    assert ExactKey(0, Fraction(0), 63, 6).bounds()[0] is None


@pytest.mark.parametrize("seed", range(cases(20)))
def test_floats_and_integers_give_the_same_order(seed):
    source = np.random.default_rng(seed)
    scores = source.integers(0, 50, 300)
    words = [int(word) for word in source.integers(0, 2**64, 300, dtype=np.uint64)]
    rate = Fraction(1, 3)
    fast = gumbel_order(scores, rate, 40, Script(words))
    keys = [ExactKey(i, rate * int(scores[i] - scores.max()), word, 64) for i, word in enumerate(words)]
    assert fast.tolist() == _resolve(keys, 40, Script([]), 64).tolist()


def test_equal_words_at_equal_scores_need_more_bits():
    scores = np.array([5, 5])
    with pytest.raises(ExhaustedError):
        gumbel_order(scores, Fraction(1), 2, Script([2**63, 2**63]))
    later = [int(gumbel_order(scores, Fraction(1), 1, Script([2**63, 2**63, *more]))[0]) for more in ((0, 9), (9, 0))]
    assert sorted(later) == [0, 1]


def test_scores_too_large_for_floats_are_still_ordered_exactly():
    """At 2^62 a float cannot tell neighbours apart; the integers are subtracted before anything is rounded."""
    base, trials = 2**62, draws(20_000)
    scores = np.array([base, base - 2])
    wins = sum(int(gumbel_order(scores, Fraction(1), 1, RANDOMNESS)[0]) == 0 for _ in range(trials))
    assert_frequencies([wins], [1 / (1 + np.exp(-2.0))], trials)
    assert gumbel_order(np.array([-base, base]), Fraction(1), 2, RANDOMNESS).tolist() == [1, 0]


@pytest.mark.parametrize(("width", "trials"), [(1, 1500), (6, 4000), (64, 40_000)])
@pytest.mark.parametrize(("scores", "rate", "k"), [([3, 1, 0], "1/2", 2), ([7, 7, 7, 6], "2", 3)])
def test_frequencies_are_plackett_luce(scores, rate, k, width, trials):
    trials = draws(trials)
    law = plackett_luce(scores, Fraction(rate), k)
    array = np.array(scores)
    seen = Counter(tuple(gumbel_order(array, Fraction(rate), k, RANDOMNESS, width).tolist()) for _ in range(trials))
    assert set(seen) <= set(law)
    assert_frequencies([seen[order] for order in law], list(law.values()), trials)


RUNS = Runs(slopes=np.array([0, 3, 1, 40]), lengths=np.array([5, 4, 1000, 2]))
RUN_SCORES = np.array([-6, 0, -2, -1])


def run_law(rate):
    falls = [np.exp(-float(rate) * slope * np.arange(n)) for slope, n in zip(RUNS.slopes, RUNS.lengths, strict=True)]
    weights = np.exp(float(rate) * RUN_SCORES) * [each.sum() for each in falls]
    return weights / weights.sum()


@pytest.mark.parametrize(("width", "trials"), [(1, 800), (6, 2000), (64, 40_000)])
@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(1, 1000), Fraction(1, 10**12)])
def test_runs_are_drawn_by_the_sum_of_their_weights(rate, width, trials):
    trials = draws(trials)
    seen = Counter(int(gumbel_order(RUN_SCORES, rate, 1, RANDOMNESS, width, RUNS)[0]) for _ in range(trials))
    assert_frequencies([seen[place] for place in range(4)], run_law(rate), trials)


@pytest.mark.parametrize("rate", [Fraction(1, 2), Fraction(7, 1000), Fraction(1, 10**12)])
def test_floats_of_runs_are_within_what_their_bounds_allow(rate):
    for place, found in enumerate(RUNS.float_logarithms(float(rate)).tolist()):
        low, high = (Fraction(end, 1 << 200) for end in RUNS.logarithm(place, rate, 200))
        assert high - low < Fraction(1, 2**190)
        assert low - Fraction(1, 2**46) <= Fraction(found) <= high + Fraction(1, 2**46)


def test_many_candidates():
    """Among equals every candidate is as likely; with one ahead by s/rate it leads with odds e^s to n - 1."""
    n, rate = 20_000, Fraction(1, 10)
    scores = np.zeros(n, dtype=np.int64)
    scores[7] = 100  # e^10 = 22026
    first = [gumbel_order(scores, rate, 5, RANDOMNESS) for _ in range(draws(2_000))]
    assert all(len(set(order.tolist())) == 5 for order in first)
    leads = sum(int(order[0]) == 7 for order in first)
    halves = sum(int(order[0]) < n // 2 for order in first if order[0] != 7)
    assert_frequencies([leads], [np.exp(10) / (np.exp(10) + n - 1)], draws(2_000))
    assert_frequencies([halves], [(n // 2 - 1) / (n - 1)], draws(2_000) - leads)


def test_more_asked_for_than_there_are():
    assert sorted(gumbel_order(np.array([1, 2]), Fraction(1), 9, RANDOMNESS).tolist()) == [0, 1]
    assert gumbel_order(np.array([], dtype=np.int64), Fraction(1), 3, RANDOMNESS).tolist() == []


def test_exponential_mechanism_uses_the_range_of_the_score():
    mechanism = Exponential(epsilon=Fraction(1), score_range=Fraction(1, 2))
    scores = [Fraction(0), Fraction(1, 3), Fraction(-1, 4)]
    weights = np.exp([2 * float(score) for score in scores])
    picks = Counter(mechanism.pick(scores, RANDOMNESS) for _ in range(draws(40_000)))
    assert_frequencies([picks[i] for i in range(3)], weights / weights.sum(), draws(40_000))
    assert mechanism.guarantees()[0].guarantee.epsilon == 1.0


def test_exponential_mechanism_refuses_what_it_cannot_price():
    mechanism = Exponential(epsilon=Fraction(1), score_range=Fraction(1))
    for scores in ([], [float("nan")], [2**63], [Fraction(1, 3**40), Fraction(2**61)]):
        with pytest.raises(InvalidParameter):
            mechanism.pick(scores, RANDOMNESS)
    for bad in (0, -1, float("inf")):
        with pytest.raises(InvalidParameter):
            Exponential(epsilon=bad, score_range=Fraction(1))
        with pytest.raises(InvalidParameter):
            Exponential(epsilon=Fraction(1), score_range=bad)
