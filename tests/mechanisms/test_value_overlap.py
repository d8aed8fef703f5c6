"""The measurement of shared values: its price covers every neighbouring table, and its curves follow known tables."""

from fractions import Fraction

import numpy as np
import pytest
from exact_laws import probabilities

from setwise.errors import InvalidParameter
from setwise.mechanisms import value_overlap
from setwise.mechanisms.noise.discrete import LaplaceNoise
from setwise.mechanisms.randomness import SystemRandomness
from setwise.mechanisms.value_overlap import KEPT, RANK_BINS, OverlapMeasurement, ValueGrowth

MEASUREMENT = OverlapMeasurement(share=Fraction(4))


def values_by_rank(users):
    """The input of the measurement for users with these values, each in their random order."""
    smallest = {}
    for ranked in users:
        for rank, value in enumerate(ranked[: KEPT[-1]], 1):
            smallest[value] = min(rank, smallest.get(value, rank))
    ends = [2**power for power in range(RANK_BINS)]
    return np.bincount(np.searchsorted(ends, sorted(smallest.values())), minlength=RANK_BINS).astype(np.int64)


def exact_numbers(users, monkeypatch):
    """The numbers to which the measurement adds noise, taken from its own code."""
    with monkeypatch.context() as patched:
        patched.setattr(LaplaceNoise, "draw", lambda self, count, randomness: np.zeros(count, dtype=np.int64))
        return MEASUREMENT.draw(values_by_rank(users), SystemRandomness())


def largest_loss(noise, distance):
    """The largest privacy loss, over every output, of integer noise on numbers that are `distance` apart."""
    law = [float(probability) for probability in probabilities(noise, tail=30)]
    moved = law[abs(distance) :]
    return float(np.abs(np.log(moved) - np.log(law[: len(moved)])).max())


def loss(users, more, monkeypatch):
    pairs = zip(exact_numbers(users, monkeypatch), exact_numbers(more, monkeypatch), strict=True)
    return sum(largest_loss(noise, other - one) for (one, other), noise in zip(pairs, MEASUREMENT._noises, strict=True))


def tables():
    """Tables, and a user who is added: no value new, every value new, and low ranks of values that others rank high."""
    draw = np.random.default_rng(1)
    yield [], list(range(20))
    yield [[*range(8, 16), *range(8)]], list(range(8))
    yield [[*range(1, 9), 0]] * 3, list(range(9))
    for _ in range(150):
        universe = int(draw.integers(2, 30))
        lists = [list(draw.permutation(universe)[: draw.integers(1, universe + 1)]) for _ in range(draw.integers(1, 6))]
        yield lists[1:], lists[0]


def test_no_neighbouring_table_loses_more_than_is_paid_and_one_loses_just_that(monkeypatch):
    losses = [loss(users, [*users, user], monkeypatch) for users, user in tables()]
    paid = MEASUREMENT.guarantee.epsilon
    assert max(losses) == pytest.approx(paid, rel=1e-6)
    assert paid <= float(MEASUREMENT.share) * (1 + 1e-12)


def test_the_numbers_are_those_of_the_values_that_are_kept(monkeypatch):
    for users, _ in tables():
        kept = tuple(len({value for ranked in users for value in ranked[:most]}) for most in KEPT)
        assert exact_numbers(users, monkeypatch) == kept


def test_noise_that_cannot_be_drawn_is_refused_when_the_measurement_is_made():
    with pytest.raises(InvalidParameter):
        OverlapMeasurement(share=Fraction(1, 10**10))


@pytest.mark.parametrize(
    ("numbers", "pairs", "at", "expected"),
    [
        ((97, 104), (4043, 25_000), 90_000, (90, 150)),  # flights: 104 airports
        ((494, 1231), (943, 7544), 100_000, (1400, 3500)),  # 943 users and 1,669 films
        ((1000, 6654), (1000, 6654), 20_000, (15_000, 20_000)),  # orders, which no two users share
    ],
)
def test_the_curves_follow_known_tables(numbers, pairs, at, expected):
    growth = OverlapMeasurement(share=Fraction(10)).fit(numbers, pairs, 1)
    assert expected[0] <= growth.distinct_values(np.array([float(at)]))[0] <= expected[1]


def test_curves_start_with_a_new_value_and_never_fall():
    pairs = np.array([0.0, 1e-6, 1, 10, 1e3, 1e6, 1e9])
    for curve in range(len(value_overlap._CURVES)):
        values = ValueGrowth(np.eye(len(value_overlap._CURVES))[curve]).distinct_values(pairs)
        assert values[0] == 0
        assert values[1] == pytest.approx(1e-6, rel=1e-4)
        assert (np.diff(values) >= 0).all()
        assert (values <= pairs * (1 + 1e-9)).all()
