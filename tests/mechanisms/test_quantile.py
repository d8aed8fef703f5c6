"""Quantiles: the range of the score's change is exact, neighbours are close, and so are ranks."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from tests.mechanisms.output_laws import plackett_luce

from setwise.errors import InvalidParameter
from setwise.mechanisms.quantile import GridQuantile, rank_scores, score_range
from setwise.mechanisms.randomness import SystemRandomness

SHARES = [Fraction(1, 2), Fraction(1, 4), Fraction(9, 10), Fraction(1, 3), Fraction(99, 100)]


def changes(share, cells, counted):
    """The range of the score's change for every histogram of a small grid and every value added to it."""
    for counts in product(counted, repeat=cells):
        before = rank_scores(np.array(counts), share)
        for place in range(cells):
            after = np.array(counts)
            after[place] += 1
            change = rank_scores(after, share) - before
            yield int(change.max() - change.min())


@pytest.mark.parametrize("share", SHARES)
def test_the_range_of_the_change_is_exact(share):
    # Extreme shares reach theirs only where many values lie on one side of the value added.
    grids = [(4, range(4)), (3, (0, 1, 2, 3, 10, 11, 98, 99, 100))]
    assert max(max(changes(share, cells, counted)) for cells, counted in grids) == score_range(share)


def test_what_is_inside_the_bars_grows_with_the_cell():
    """The step of the proof: a score that rises below the added value falls everywhere above it."""
    for counts in product(range(4), repeat=4):
        below = np.concatenate(([0], np.cumsum(counts)[:-1]))
        above = sum(counts) - below - np.array(counts)
        for share in SHARES:
            assert (np.diff((1 - share) * below - share * above) >= 0).all()


@pytest.mark.parametrize("share", SHARES[:3])
def test_neighbours_differ_by_a_bounded_range(share):
    epsilon = Fraction(1, 2)
    rate = float(epsilon / score_range(share))
    for counts in ([3, 0, 2, 5], [0, 0, 0, 0], [9, 1, 0, 0]):
        law = plackett_luce(rank_scores(np.array(counts), share).tolist(), rate, 1)
        for place in range(4):
            more = np.array(counts)
            more[place] += 1
            other = plackett_luce(rank_scores(more, share).tolist(), rate, 1)
            ratios = [float(np.log(float(law[cell]) / float(other[cell]))) for cell in law]
            assert max(ratios) - min(ratios) <= float(epsilon) + 1e-9


@pytest.mark.parametrize("share", SHARES[:3])
def test_ranks_are_within_the_stated_error(share):
    values = np.random.default_rng(1).normal(500, 100, 4000).clip(0, 1000).astype(int)
    counts = np.bincount(values, minlength=1001)
    quantile = GridQuantile(at=share, cells=1001, epsilon=Fraction(1, 2))
    most = quantile.rank_error(Fraction(95, 100))
    off = []
    for _ in range(100):
        cell = quantile.pick(counts, SystemRandomness())
        below, above = counts[:cell].sum(), counts[cell + 1 :].sum()
        off.append(abs(float((1 - share) * below - share * above)))
    assert np.mean(np.array(off) <= most + float(rank_of_best(counts, share))) >= 0.95
    assert most < 60


def rank_of_best(counts, share):
    return -rank_scores(counts, share).max() / share.denominator


def test_impossible_quantiles():
    for wrong in ({"at": 0}, {"at": 1}, {"cells": 0}, {"epsilon": 0}, {"at": Fraction(1, 3_000_001)}):
        with pytest.raises(InvalidParameter):
            GridQuantile(**{"at": Fraction(1, 2), "cells": 5, "epsilon": Fraction(1)} | wrong)
    with pytest.raises(InvalidParameter):
        GridQuantile(at=Fraction(1, 2), cells=5, epsilon=Fraction(1)).pick(np.zeros(4, np.int64), SystemRandomness())
