"""Quantiles: the range of the score's change is exact, a level of halving costs one use, and ranks are close."""

import math
from collections import defaultdict
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from tests.mechanisms.output_laws import hockey_stick, plackett_luce

from setwise.accounting.compose import compose
from setwise.accounting.guarantees import Use
from setwise.errors import InvalidParameter
from setwise.mechanisms import quantile
from setwise.mechanisms.quantile import GridQuantiles, rank_scores, score_range, sum_quantile
from setwise.mechanisms.randomness import SystemRandomness

SHARES = [Fraction(1, 2), Fraction(1, 4), Fraction(9, 10), Fraction(1, 3), Fraction(99, 100)]
QUARTILES = tuple(Fraction(number, 4) for number in (1, 2, 3))
DECILES = tuple(Fraction(number, 10) for number in range(1, 10))


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
    grids = [(4, range(4)), (3, (0, 1, 2, 3, 10, 11, 98, 99, 100)), (5, (0, 1, 4))]
    assert max(max(changes(share, cells, counted)) for cells, counted in grids) == score_range(share)


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


def votes(cells, weight):
    """Every way to divide up to `weight` units among cells."""
    return [added for added in product(range(weight + 1), repeat=cells) if 0 < sum(added) <= weight]


@pytest.mark.parametrize("share", SHARES)
def test_a_vote_divided_among_cells_moves_scores_no_farther_than_one_value(share):
    """In units of 1/3 of a vote; the bound is still reached by a vote that is not divided."""
    weight, largest = 3, 0
    for counts in product((0, 1, 3, 7), repeat=4):
        before = rank_scores(np.array(counts), share)
        for added in votes(4, weight):
            change = rank_scores(np.array(counts) + np.array(added), share) - before
            largest = max(largest, int(change.max() - change.min()))
    assert largest <= weight * score_range(share)
    if share == Fraction(1, 2):
        assert largest == weight * score_range(share)


@pytest.mark.parametrize(("bands", "median"), [({18: 22, 25: 35, 35: 43}, 25), ({0: 60, 500: 1, 900: 39}, 0)])
def test_the_cell_that_holds_the_quantile_beats_empty_ones_beside_it(bands, median):
    """Many people of one age: the median is that age, and not one that nobody has between it and the next."""
    counts = np.zeros(1001, np.int64)
    for place, share in bands.items():
        counts[place] = 60 * share
    picks = GridQuantiles(shares=(Fraction(1, 2),), cells=1001, epsilon=Fraction(1))
    assert {picks.pick(counts, SystemRandomness()) for _ in range(20)} == {(median,)}


class Every:
    """Stands in for the Gumbel order: takes every way in turn, and remembers the probability of the one it is on."""

    def __init__(self):
        self.script, self.sizes, self.step, self.chance = [], [], 0, 1.0

    def __call__(self, scores, rate, k, randomness, runs=None):
        weights = np.exp(float(rate) * (scores - scores.max()).astype(float))
        if runs is not None:
            weights *= [
                np.exp(-float(rate) * int(slope) * np.arange(length)).sum()
                for slope, length in zip(runs.slopes, runs.lengths, strict=True)
            ]
        if self.step == len(self.script):
            self.script.append(0)
            self.sizes.append(len(scores))
        taken = self.script[self.step]
        self.step += 1
        self.chance *= weights[taken] / weights.sum()
        return np.array([taken])

    def next_way(self):
        while self.script and self.script[-1] + 1 == self.sizes[-1]:
            self.script.pop()
            self.sizes.pop()
        if self.script:
            self.script[-1] += 1
        self.step, self.chance = 0, 1.0
        return bool(self.script)


def law(quantiles, counts):
    """The probability of every sequence of cuts and cells, by the mechanism's own code."""
    every, seen, found = Every(), [], defaultdict(float)
    pick_cut = quantile._Slice.pick_cut
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(quantile, "gumbel_order", every)
        patched.setattr(quantile._Slice, "pick_cut", lambda *given: seen.append(pick_cut(*given)) or seen[-1])
        more = True
        while more:
            seen.clear()
            cells = quantiles.pick(np.array(counts), None)
            found[tuple(seen), cells] += every.chance
            more = every.next_way()
    return dict(found)


def law_by_hand(quantiles, counts):
    """The same by its definition: every value spread evenly over its cell, a weight for every cut and every cell."""
    units = quantile._UNITS
    spread = [Fraction(count, units) for count in counts for _ in range(units)]

    def picked(low, high, first, last):
        if first == last:
            return {((), ()): 1.0}
        middle = (first + last) // 2
        ends = (Fraction(0), *quantiles.shares, Fraction(1))
        share = (quantiles.shares[middle] - ends[first]) / (ends[last + 1] - ends[first])
        rate = float(quantiles.epsilon) / (2 * max(share, 1 - share))

        def off(place):
            return sum(spread[low:place], Fraction(0)) - share * sum(spread[low:high], Fraction(0))

        if last - first == 1:
            cells = range(low // units, max(low, high - 1) // units + 1)
            edges = [(off(max(low, cell * units)), off(min(high, (cell + 1) * units))) for cell in cells]
            weights = [np.exp(-float(rate * max(0, left, -right))) for left, right in edges]
            return {((), (cell,)): weight / sum(weights) for cell, weight in zip(cells, weights, strict=True)}
        cuts = [place for place in range(low, high + 1) if place % 2]
        weights = [np.exp(-float(rate * abs(off(place)))) for place in cuts]
        found = defaultdict(float)
        for cut, weight in zip(cuts, weights, strict=True):
            sides = picked(low, cut, first, middle).items(), picked(cut, high, middle + 1, last).items()
            for ((cuts_a, a), p), ((cuts_b, b), q) in product(*sides):
                path = (cut, *cuts_a, *cuts_b), (*a, cut // units, *b)
                found[path] += p * q * weight / sum(weights)
        return found

    return dict(picked(0, units * len(counts), 0, len(quantiles.shares)))


TINY = ([0, 0, 0], [1, 0, 2], [4, 0, 0], [0, 3, 1], [2, 5, 2])


@pytest.fixture
def few_parts(monkeypatch):
    monkeypatch.setattr(quantile, "PARTS", 2)
    monkeypatch.setattr(quantile, "_UNITS", 4)
    monkeypatch.setattr(quantile, "_DIVIDED_UNITS", 4)


@pytest.mark.usefixtures("few_parts")
@pytest.mark.parametrize("shares", [QUARTILES, (Fraction(1, 3), Fraction(9, 10))])
@pytest.mark.parametrize("counts", TINY)
def test_the_law_of_halving_is_its_definition(shares, counts):
    quantiles = GridQuantiles(shares=shares, cells=3, epsilon=Fraction(3, 4))
    found, expected = law(quantiles, counts), law_by_hand(quantiles, counts)
    assert found.keys() == expected.keys()
    assert sum(expected.values()) == pytest.approx(1)
    assert all(found[path] == pytest.approx(expected[path]) for path in found)
    assert all(list(cells) == sorted(cells) for _, cells in found)


def log_ratios(one, other):
    return [float(np.log(one[path] / other[path])) for path in one]


def ranges_of_levels(before, after):
    """Return the ranges of the privacy losses of the first cut, and of both slices given each first cut."""
    firsts = []
    for found in (before, after):
        first = defaultdict(float)
        for (cuts, _), chance in found.items():
            first[cuts] += chance
        firsts.append(first)
    losses = [log_ratios(*firsts)]
    for cut in firsts[0]:
        given = [
            {path: chance / first[cut] for path, chance in found.items() if path[0] == cut}
            for found, first in zip((before, after), firsts, strict=True)
        ]
        losses.append(log_ratios(*given))
    return [max(ratios) - min(ratios) for ratios in losses]


@pytest.mark.usefixtures("few_parts")
@pytest.mark.parametrize("counts", TINY)
def test_a_level_is_one_use_whatever_is_equal_to_a_cut(counts):
    """The first cut, and then both slices together given the cut, have a range of at most epsilon each."""
    quantiles = GridQuantiles(shares=QUARTILES, cells=3, epsilon=Fraction(3, 4))
    before, ranges = law(quantiles, counts), []
    for place in range(3):
        after = law(quantiles, [count + (place == cell) for cell, count in enumerate(counts)])
        ranges += ranges_of_levels(before, after)
    assert max(ranges) <= 0.75 + 1e-9
    assert max(ranges) > 0.3


@pytest.mark.usefixtures("few_parts")
@pytest.mark.parametrize("counts", TINY)
def test_a_level_is_one_use_of_a_vote_that_is_divided_among_slices(counts):
    """A user has up to two units in any cells, so that they weigh in several slices of one level."""
    quantiles = GridQuantiles(shares=QUARTILES, cells=3, epsilon=Fraction(3, 4), weight=2)
    before, ranges = law(quantiles, counts), []
    for added in votes(3, 2):
        after = law(quantiles, [count + more for count, more in zip(counts, added, strict=True)])
        ranges += ranges_of_levels(before, after)
    assert max(ranges) <= 0.75 + 1e-9
    assert max(ranges) > 0.3


@pytest.mark.parametrize("shares", [(Fraction(1, 2),), (Fraction(9, 10),), QUARTILES])
def test_units_of_weight_pick_as_whole_values_do(shares):
    """A thousand units of every user are the same law as one value of every user."""
    counts = [3, 1, 4]
    one = GridQuantiles(shares=shares, cells=3, epsilon=Fraction(3, 4))
    divided = GridQuantiles(shares=shares, cells=3, epsilon=Fraction(3, 4), weight=1000)
    if len(shares) == 1:
        found, expected = law(divided, [1000 * count for count in counts]), law(one, counts)
        assert all(found[path] == pytest.approx(expected[path]) for path in expected)
    assert (one.guarantee, one.levels) == (divided.guarantee, divided.levels)
    if len(shares) == 1:
        assert one.rank_error(0, Fraction(19, 20)) == divided.rank_error(0, Fraction(19, 20))


def test_two_billion_users_with_divided_votes_are_scored_exactly():
    counts = np.array([2**30, 2**30 - 1, 0], np.int64) * 1000
    for shares in ((Fraction(99999, 100000),), (Fraction(1, 3), Fraction(3, 4))):
        picked = GridQuantiles(shares=shares, cells=3, epsilon=Fraction(1), weight=1000).pick(
            counts, SystemRandomness()
        )
        assert picked[-1] == 1
    with pytest.raises(InvalidParameter, match="more values than the limit"):
        GridQuantiles(shares=(Fraction(1, 2),), cells=3, epsilon=Fraction(1), weight=1000).pick(
            counts * 2, SystemRandomness()
        )


@pytest.mark.usefixtures("few_parts")
@pytest.mark.parametrize("shares", [QUARTILES, (Fraction(1, 4), Fraction(3, 4))])
def test_halving_costs_no_more_than_its_levels_composed(shares):
    quantiles = GridQuantiles(shares=shares, cells=3, epsilon=Fraction(3, 4))
    promise = compose([Use(quantiles.guarantee, quantiles.levels)])
    worst = defaultdict(float)
    for counts in TINY:
        before = law(quantiles, counts)
        for place in range(3):
            after = law(quantiles, [count + (place == cell) for cell, count in enumerate(counts)])
            for epsilon in (0.0, 0.1, 0.3, 0.6):
                found = max(hockey_stick(before, after, epsilon), hockey_stick(after, before, epsilon))
                worst[epsilon] = max(worst[epsilon], found)
    assert all(found <= promise.delta(epsilon).upper + 1e-12 for epsilon, found in worst.items())
    assert worst[0.0] > 0.4 * promise.delta(0.0).upper


@pytest.mark.parametrize(("number", "levels"), [(1, 1), (2, 2), (3, 2), (4, 3), (7, 3), (8, 4), (15, 4)])
def test_the_levels_are_those_of_halving(number, levels):
    shares = tuple(Fraction(place, number + 1) for place in range(1, number + 1))
    assert GridQuantiles(shares=shares, cells=5, epsilon=Fraction(1)).levels == levels


def columns():
    """Values that many people share, few share, or none has: by name."""
    random = np.random.default_rng(6)
    ages = np.where(random.random(6040) < 0.3, random.normal(19, 4, 6040), random.normal(36, 12, 6040))
    spent = np.where(random.random(3000) < 0.6, 0, random.lognormal(4, 1, 3000))
    return {
        "ages": np.bincount(ages.round().clip(13, 90).astype(int), minlength=101),
        "spent": np.bincount(spent.clip(0, 1000).astype(int), minlength=1001),
        "normal": np.bincount(random.normal(500, 100, 4000).clip(0, 1000).astype(int), minlength=1001),
    }


def ranks_off(counts, shares, cells):
    """By how many values each quantile is off: 0 where its cell holds the rank."""
    return [-rank_scores(counts, share)[cell] / share.denominator for share, cell in zip(shares, cells, strict=True)]


@pytest.mark.parametrize("shares", [QUARTILES, DECILES])
@pytest.mark.parametrize("column", ["ages", "spent", "normal"])
def test_halving_is_closer_than_picks_one_by_one_at_the_same_cost(column, shares):
    counts, randomness = columns()[column], SystemRandomness()
    levels = len(shares).bit_length()
    together = GridQuantiles(shares=shares, cells=len(counts), epsilon=Fraction(1, levels))
    apart = [GridQuantiles(shares=(share,), cells=len(counts), epsilon=Fraction(1, len(shares))) for share in shares]
    halved = [ranks_off(counts, shares, together.pick(counts, randomness)) for _ in range(60)]
    singly = [ranks_off(counts, shares, sorted(each.pick(counts, randomness)[0] for each in apart)) for _ in range(60)]
    assert np.mean(halved) <= 0.8 * np.mean(singly) + 0.1


@pytest.mark.parametrize("shares", [(share,) for share in SHARES[:3]] + [QUARTILES, DECILES])
def test_ranks_are_within_the_stated_error(shares):
    counts = columns()["normal"]
    quantiles = GridQuantiles(shares=shares, cells=1001, epsilon=Fraction(1, 2))
    most = [quantiles.rank_error(number, Fraction(95, 100)) for number in range(len(shares))]
    off = np.array([ranks_off(counts, shares, quantiles.pick(counts, SystemRandomness())) for _ in range(100)])
    assert (np.mean(off <= most, axis=0) >= 0.95).all()
    assert max(most) < 60 * quantiles.levels


def test_an_error_of_a_cut_moves_the_quantiles_of_its_slices_by_half():
    quartiles = GridQuantiles(shares=QUARTILES, cells=1001, epsilon=Fraction(1, 2))
    cut, cell = 2 * math.log(1001 * 1024), 2 * math.log(1001)
    stated = [quartiles.rank_error(number, Fraction(95, 100)) for number in range(3)]
    beyond = 2 * -math.log(1 - math.sqrt(0.95))  # P[2 X + Y > x] = 1 - (1 - exp(-x/2))^2 for exponentials X and Y
    assert stated == [
        math.ceil(cell + cut / 2 + beyond),
        math.ceil(cut - 2 * math.log(0.05)),
        math.ceil(cell + cut / 2 + beyond),
    ]


@pytest.mark.parametrize("scales", [[1.0], [2.0, 1.0], [1.0, 1.0, 1.0], [3.0, 2.9, 0.7, 0.7, 0.1], [1.0] * 7])
@pytest.mark.parametrize("chance", [0.05, 0.001])
def test_sums_of_exponentials_exceed_what_is_stated_at_most_as_often(scales, chance):
    drawn = np.random.default_rng(7).exponential(scales, (400_000, len(scales))).sum(axis=1)
    stated = sum_quantile(scales, chance)
    assert np.mean(drawn > stated) < chance + 5 * math.sqrt(chance / len(drawn))
    assert stated < 1.08 * np.quantile(drawn, 1 - chance)


@pytest.mark.parametrize("users", [20, 36, 60])
def test_ranks_are_within_the_stated_error_where_all_values_are_equal(users):
    """Every other cell is as far off as it can be, and there are a thousand of them."""
    quantiles, counts = GridQuantiles(shares=QUARTILES, cells=1001, epsilon=Fraction(1)), np.zeros(1001, np.int64)
    counts[500] = users
    most = [quantiles.rank_error(number, Fraction(95, 100)) for number in range(3)]
    off = np.array([ranks_off(counts, QUARTILES, quantiles.pick(counts, SystemRandomness())) for _ in range(50)])
    assert np.mean(off <= most) >= 0.95


def test_scores_of_as_many_values_as_there_are_people_stay_exact():
    """Every step of halving at the largest numbers: no score wraps around, so the quantiles are the middles."""
    shares = (Fraction(1, 99_991), Fraction(1, 3), Fraction(99_990, 99_991))
    quantiles = GridQuantiles(shares=shares, cells=3, epsilon=Fraction(1))
    counts = np.array([2, 2**33, 2**33 - 2])
    assert quantiles.pick(counts, SystemRandomness()) == (1, 1, 2)
    with pytest.raises(InvalidParameter, match="more values than the limit"):
        quantiles.pick(counts + 1, SystemRandomness())


def test_impossible_quantiles():
    for wrong in ({"shares": (0,)}, {"shares": ()}, {"shares": (0.5, 0.5)}, {"shares": (0.5, 0.2)}, {"cells": 0}):
        with pytest.raises(InvalidParameter):
            GridQuantiles(**{"shares": (Fraction(1, 2),), "cells": 5, "epsilon": Fraction(1)} | wrong)
    for wrong in ({"epsilon": 0}, {"shares": (Fraction(1, 3_000_001),)}):
        with pytest.raises(InvalidParameter):
            GridQuantiles(**{"shares": (Fraction(1, 2),), "cells": 5, "epsilon": Fraction(1)} | wrong)
    with pytest.raises(InvalidParameter):
        GridQuantiles(shares=(0.5,), cells=5, epsilon=Fraction(1)).pick(np.zeros(4, np.int64), SystemRandomness())


def test_an_error_of_a_cut_moves_a_quantile_near_it_by_nearly_all_of_it():
    """A slice of half the values, whose quantile at 49 of 50 is next to the cut, moves with it by 0.98 of its error."""
    shares = (Fraction(49, 100), Fraction(1, 2), Fraction(51, 100))
    near = GridQuantiles(shares=shares, cells=1001, epsilon=Fraction(1, 10))
    cut, cell = 10.0, 19.6  # ranks for one unit of an exponential: score ranges of 1 and 2 * 49/50, over epsilon
    certain = cell * math.log(1001) + 0.98 * cut * math.log(1001 * 1024)
    stated = [near.rank_error(number, Fraction(95, 100)) for number in range(3)]
    assert stated[0] == stated[2] == math.ceil(certain + sum_quantile([0.98 * cut, cell], 0.05))
    assert stated[1] == math.ceil(cut * math.log(1001 * 1024) + sum_quantile([cut], 0.05))
    # Far from the cut, the same error moves a quantile little.
    far = GridQuantiles(
        shares=(Fraction(1, 100), Fraction(1, 2), Fraction(99, 100)), cells=1001, epsilon=Fraction(1, 10)
    )
    certain = cell * math.log(1001) + 0.02 * cut * math.log(1001 * 1024)
    assert far.rank_error(0, Fraction(95, 100)) == math.ceil(certain + sum_quantile([0.02 * cut, cell], 0.05))
