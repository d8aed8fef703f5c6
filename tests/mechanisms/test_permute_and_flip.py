"""Permute-and-flip follows its exact law, with exact coins, is epsilon-DP, and misses less than exponential picks."""

import itertools
import re
from collections import Counter
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest
from exact_laws import Script
from significance import assert_frequencies
from tests.sizes import draws

from setwise.accounting.compose import compose
from setwise.accounting.guarantees import BoundedRange, PureDP, Use
from setwise.accounting.prices import bounded_range_price, pure_price
from setwise.errors import InvalidParameter
from setwise.mechanisms import known_domain
from setwise.mechanisms.known_domain import Exponential, PermuteAndFlip
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


def test_a_pick_has_no_bounded_range_and_is_not_charged_as_one():
    """One label may gain e^epsilon while another loses e^epsilon, so the log ratios span twice what is charged for."""
    rate = mpmath.mpf(1)
    law, other = exact_law([5, 0, 5, 5], rate), exact_law([5, 1, 6, 5], rate)
    ratios = [mpmath.log(q / p) for p, q in zip(law, other, strict=True)]
    assert max(ratios) - min(ratios) > 1.4 * rate
    assert PermuteAndFlip(epsilon=Fraction(1), score_range=Fraction(1)).guarantees() == (Use(PureDP(epsilon=1.0)),)


@pytest.mark.parametrize("score_range", [1, 3])
def test_the_exponent_of_a_coin_moves_by_no_more_than_epsilon(score_range, monkeypatch):
    """All scores may move, but the same way and by at most the range."""
    exponents = []

    def heads(exponent, _word, _width, _randomness):
        exponents.append(exponent)
        return True

    monkeypatch.setattr(known_domain, "exponential_coin", heads)
    mechanism = PermuteAndFlip(epsilon=Fraction(2, 7), score_range=Fraction(score_range))
    scores, moves = [4, 9, 9, 0, 6], list(itertools.product((0, score_range), repeat=5))
    for move in moves:
        mechanism.pick([score + up for score, up in zip(scores, move, strict=True)], RANDOMNESS)
    rows = [exponents[5 * turn : 5 * turn + 5] for turn in range(len(moves))]
    shifts = [abs(after - before) for row in rows for after, before in zip(row, rows[0], strict=True)]
    assert max(shifts) == Fraction(2, 7) == Fraction(mechanism.guarantees()[0].guarantee.epsilon).limit_denominator(99)
    assert all(min(row) == 0 for row in rows)


@pytest.mark.parametrize("scores", [[10, 10, 5], list(range(8)), [5] + [0] * 7])
def test_the_exponential_mechanism_misses_more(scores):
    weights = [mpmath.exp(mpmath.mpf("0.5") * (score - max(scores))) for score in scores]
    miss = mpmath.fsum(w * (max(scores) - score) for w, score in zip(weights, scores, strict=True)) / sum(weights)
    law = exact_law(scores, mpmath.mpf("0.5"))
    assert mpmath.fsum(p * (max(scores) - score) for p, score in zip(law, scores, strict=True)) < miss


PAGE = (Path(__file__).parents[2] / "docs" / "mechanisms.md").read_text(encoding="utf-8")


def expected_misses(scores, rate):
    """The expected distance of the picked score from the highest: of the exponential mechanism, and of this one."""
    gaps = [max(scores) - score for score in scores]
    weights = [mpmath.exp(-rate * gap) for gap in gaps]

    def chance(place):  # the integral over what is left of the coins, as in the proof on the page
        others = weights[:place] + weights[place + 1 :]
        return weights[place] * mpmath.quad(lambda t: mpmath.fprod(1 - t * weight for weight in others), [0, 1])

    law = {gap: chance(gaps.index(gap)) for gap in set(gaps)}
    assert mpmath.almosteq(sum(law[gap] for gap in gaps), 1, 1e-12)
    exponential = mpmath.fsum(w * gap for w, gap in zip(weights, gaps, strict=True)) / mpmath.fsum(weights)
    return exponential, mpmath.fsum(law[gap] * gap for gap in gaps)


@pytest.mark.parametrize(
    ("row", "scores", "rate"),
    [
        ("0, 1, .., 9 | 0.5", list(range(10)), "0.5"),
        ("5, then nine of 0 | 0.5", [5] + [0] * 9, "0.5"),
        ("10, then ninety-nine of 0 | 1", [10] + [0] * 99, "1"),
    ],
)
def test_the_page_states_the_exact_misses(row, scores, rate):
    (stated,) = re.findall(rf"^\| {re.escape(row)} \| ([\d.]+) \| ([\d.]+) \|$", PAGE, re.MULTILINE)
    assert stated == tuple(f"{float(miss):.3f}" for miss in expected_misses(scores, mpmath.mpf(rate)))


def test_the_page_states_what_many_picks_cost():
    (stated,) = re.findall(r"25 picks of 0\.1 cost ([\d.]+) at delta 1e-6 \(exponential picks ([\d.]+)\)", PAGE)
    uses = [
        kind(epsilon=Fraction("0.1"), score_range=Fraction(1)).guarantees()[0].guarantee
        for kind in (PermuteAndFlip, Exponential)
    ]
    assert stated == tuple(f"{compose([Use(use, 25)]).epsilon(1e-6).upper:.3f}" for use in uses)
    assert uses == [PureDP(epsilon=0.1), BoundedRange(epsilon=0.1)]
    assert "in a wallet a pick costs about four times the mu squared" in PAGE
    assert pure_price(0.1, 0.05) / bounded_range_price(0.1, 0.05) == pytest.approx(4, rel=0.05)


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
