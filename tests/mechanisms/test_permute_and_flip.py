"""Permute-and-flip follows its exact law, with exact coins, is epsilon-DP, and misses less than exponential picks."""

import itertools
from collections import Counter
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from exact_laws import Script
from significance import assert_frequencies
from tests.sizes import draws

from setwise.accounting.guarantees import PureDP
from setwise.errors import InvalidParameter
from setwise.mechanisms.known_domain import PermuteAndFlip
from setwise.mechanisms.randomness import SystemRandomness
from setwise.mechanisms.sampling.coins import exponential_coin, uniform_below

RANDOMNESS = SystemRandomness()


def exact_law(scores, rate):
    """The probability of every pick: all outcomes of all coins, and then each head with equal probability."""
    chances = [mpmath.exp(-rate * (max(scores) - score)) for score in scores]
    law = [mpmath.mpf(0)] * len(scores)
    for coins in itertools.product((False, True), repeat=len(scores)):
        if any(coins):
            together = mpmath.fprod(p if coin else 1 - p for p, coin in zip(chances, coins, strict=True))
            for place in range(len(scores)):
                law[place] += together * coins[place] / sum(coins)
    return law


@pytest.mark.parametrize("scores", [[3, 3, 1], [0, 5, 4, 4, 2], [Fraction(1, 2), 0, Fraction(1, 3)], [7]])
def test_picks_follow_the_law_of_all_coins(scores):
    mechanism = PermuteAndFlip(epsilon=Fraction(4, 5), score_range=Fraction(2))
    law = exact_law([mpmath.mpf(s.numerator) / s.denominator for s in map(Fraction, scores)], mpmath.mpf("0.4"))
    picks = Counter(mechanism.pick(scores, RANDOMNESS) for _ in range(draws(40_000)))
    assert_frequencies([picks[i] for i in range(len(scores))], [float(p) for p in law], draws(40_000))
    assert mechanism.guarantees()[0].guarantee == PureDP(epsilon=0.8)


@pytest.mark.parametrize("rate", ["0.1", "1", "3"])
def test_a_user_changes_no_probability_by_more_than_epsilon(rate):
    """Scores that move together: every label's count rises by 0 or 1, at the full rate epsilon."""
    rate, worst = mpmath.mpf(rate), mpmath.mpf(0)
    for scores in itertools.product(range(4), repeat=3):
        law = exact_law(scores, rate)
        for change in itertools.product((0, 1), repeat=3):
            other = exact_law([score + up for score, up in zip(scores, change, strict=True)], rate)
            worst = max(worst, *(abs(mpmath.log(p / q)) for p, q in zip(law, other, strict=True)))
    assert worst <= rate * (1 + mpmath.mpf("1e-12"))
    assert worst >= rate * (1 - mpmath.mpf("1e-12"))


@pytest.mark.parametrize("scores", [[10, 10, 5], list(range(8)), [5] + [0] * 7])
def test_the_exponential_mechanism_misses_more(scores):
    weights = [mpmath.exp(mpmath.mpf("0.5") * (score - max(scores))) for score in scores]
    miss = mpmath.fsum(w * (max(scores) - score) for w, score in zip(weights, scores, strict=True)) / sum(weights)
    law = exact_law(scores, mpmath.mpf("0.5"))
    assert mpmath.fsum(p * (max(scores) - score) for p, score in zip(law, scores, strict=True)) < miss


def test_a_coin_is_decided_by_as_many_bits_as_it_needs():
    """At 6 bits exp(-1/2) lies between 38/64 and 39/64, so only the word 38 needs more bits."""
    for word in range(64):
        further = [2**64 - 1] if word == 38 else []
        heads = exponential_coin(Fraction(1, 2), word, 6, Script(further))
        assert heads == (word < 38)
    assert exponential_coin(Fraction(1, 2), 38, 6, Script([0]))
    with mpmath.workdps(60):
        cut = int(mpmath.floor(mpmath.exp(-mpmath.mpf(1) / 2) * mpmath.mpf(2) ** 70)) - (38 << 64)
    assert exponential_coin(Fraction(1, 2), 38, 6, Script([cut - 1]))
    assert not exponential_coin(Fraction(1, 2), 38, 6, Script([cut + 1]))


def test_the_best_candidate_always_shows_heads():
    for word in (0, 2**64 - 1):
        assert exponential_coin(Fraction(0), word, 64, RANDOMNESS)


def test_a_uniform_choice_is_uniform():
    drawn = Counter(uniform_below(5, RANDOMNESS) for _ in range(draws(20_000)))
    assert_frequencies([drawn[i] for i in range(5)], np.full(5, 0.2), draws(20_000))


def test_what_it_cannot_price_is_refused():
    mechanism = PermuteAndFlip(epsilon=Fraction(1), score_range=Fraction(1))
    for scores in ([], [float("nan")], [2**63], [Fraction(1, 3**40), Fraction(2**61)]):
        with pytest.raises(InvalidParameter):
            mechanism.pick(scores, RANDOMNESS)
    with pytest.raises(InvalidParameter):
        PermuteAndFlip(epsilon=0, score_range=Fraction(1))
