"""Smaller moves of a count, and moves of several counts, are dominated by one largest move: exact small cases.

docs/optimal-composition.md, Lemmas 3a and 3b. Laws and divergences are in whole fractions.
"""

import itertools
from fractions import Fraction

import pytest

from setwise.accounting.compose import compose

FACTORS = [Fraction(n, 12) for n in (3, 6, 9, 12, 13, 15, 18, 24, 36, 60, 120)]
"""Values of e^x at which profiles are compared."""


def normalised(weights):
    return [Fraction(weight, sum(weights)) for weight in weights]


def moved(law, by):
    """The pair of a law that moved and the law in its place, on all points that either reaches."""
    return [Fraction(0)] * by + law, law + [Fraction(0)] * by


def profile(first, second, factor):
    return sum(max(p - factor * q, Fraction(0)) for p, q in zip(first, second, strict=True))


LOG_CONCAVE = [
    normalised([1, 4, 6, 4, 1]),
    normalised([1, 1, 1, 1, 1]),
    normalised([1, 2, 4, 8, 4, 2, 1]),
    normalised([3, 12, 20, 24, 20, 12, 3]),
    normalised([1, 30, 200, 400, 400, 200, 30, 1]),
]


@pytest.mark.parametrize("law", LOG_CONCAVE, ids=len)
def test_the_profile_rises_with_the_move(law):
    for factor in FACTORS:
        values = [profile(*moved(law, by), factor) for by in range(len(law) + 2)]
        assert values == sorted(values)
        mirrored = [profile(*reversed(moved(law, by)), factor) for by in range(len(law) + 2)]
        assert values == mirrored


def test_a_law_with_two_bumps_does_not_obey():
    """The lemma asks for a log-concave law: without it a small move can betray more than a large one."""
    law = normalised([10, 1, 10])
    small, large = (profile(*moved(law, by), Fraction(1)) for by in (1, 2))
    assert small > large


@pytest.mark.parametrize("law", LOG_CONCAVE, ids=len)
def test_upper_tails_are_the_best_events(law):
    """The proof's first step, against every set of outcomes."""
    first, second = moved(law, 1)
    for factor in FACTORS[::3]:
        gains = [p - factor * q for p, q in zip(first, second, strict=True)]
        best = max(sum(chosen) for size in range(len(gains) + 1) for chosen in itertools.combinations(gains, size))
        assert best == max(sum(gains[start:], Fraction(0)) for start in range(len(gains) + 1))


@pytest.mark.parametrize("law", LOG_CONCAVE, ids=len)
def test_bounded_noise_is_a_failure_and_the_rest(law):
    """f = d + (1 - d) g, with d the mass that moved out of reach and g the profile given that it did not."""
    for by in range(1, len(law)):
        first, second = moved(law, by)
        lost = sum(law[len(law) - by :])
        assert lost == sum(law[:by])
        rest = slice(by, len(law))
        kept = [[p / (1 - lost) for p in each[rest]] for each in (first, second)]
        for factor in FACTORS:
            assert profile(first, second, factor) == lost + (1 - lost) * profile(*kept, factor)


def laplace_losses(ratio, by):
    """The pairs of probabilities of the losses of integer Laplace noise that moves by so much; ratio is e^(-1/scale).

    Beyond the two ends all values have the same loss, so they are one outcome each.
    """
    head, inside = 1 / (1 + ratio), (1 - ratio) / (1 + ratio)
    first = [head * ratio**by, *(inside * ratio ** (by - k) for k in range(1, by)), head]
    return first, first[::-1]


def together(*moves):
    """The joint law of independent pairs."""
    firsts, seconds = zip(*moves, strict=True)

    def product(laws):
        found = [Fraction(1)]
        for law in laws:
            found = [p * q for p in found for q in law]
        return found

    return product(firsts), product(seconds)


@pytest.mark.parametrize("ratio", [Fraction(1, 10), Fraction(1, 2), Fraction(9, 10)], ids=str)
def test_several_moves_of_integer_laplace_are_dominated_by_one_of_their_sum(ratio):
    for moves in [(1, 1), (1, 2), (2, 2), (1, 4), (3, 2), (1, 1, 1), (2, 1, 3)]:
        several = together(*(laplace_losses(ratio, by) for by in moves))
        one = laplace_losses(ratio, sum(moves))
        assert sum(several[0]) == sum(one[0]) == 1
        for factor in FACTORS:
            assert profile(*several, factor) <= profile(*one, factor)
    # and it is a comparison of laws, not of largest losses: two moves of 2 are not dominated by one of 3
    assert any(
        profile(*together(laplace_losses(ratio, 2), laplace_losses(ratio, 2)), factor)
        > profile(*laplace_losses(ratio, 3), factor)
        for factor in [*FACTORS, 1 / ratio**3]
    )


@pytest.mark.parametrize("shares", [(0.5, 0.5), (0.9, 0.1), (0.25, 0.25, 0.5)], ids=str)
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_several_moves_of_laplace_are_dominated_by_one_of_their_sum(shares, epsilon):
    several = compose([f"laplace:{1 / (epsilon * share)}" for share in shares])
    one = compose([f"laplace:{1 / epsilon}"])
    for x in (0.0, 0.2 * epsilon, 0.5 * epsilon, 0.9 * epsilon):
        assert several.delta(x).lower <= one.delta(x).upper
