"""The contribution bound that is found: one user moves the bins by one, and the stated share holds its truth."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from tests import sizes

from setwise.errors import InvalidParameter
from setwise.mechanisms.contribution_bound import (
    CONFIDENCE,
    LARGEST_BOUND,
    MOST_GROUPS,
    MOST_ROWS,
    UNITS,
    ContributionSearch,
    LeftOutShare,
    divide_users,
    laplace_sum_radius,
    row_search,
)
from setwise.mechanisms.randomness import SystemRandomness

TABLES = {
    "alike": np.full(3000, 4),
    "long tail": np.minimum(np.random.default_rng(1).zipf(2.0, 4000), 900),
    "raters": np.minimum(np.random.default_rng(2).lognormal(4.3, 0.8, 943).astype(int) + 20, 737),
    "few": np.random.default_rng(3).integers(1, 5, 40),
}


def users_of(groups):
    return np.bincount(np.minimum(groups, MOST_GROUPS) - 1, minlength=MOST_GROUPS).astype(np.int64)


def noise_at(bound):
    return 20 * min(bound, (28 * bound) ** 0.5)


@settings(max_examples=sizes.examples(200))
@given(st.integers(1, LARGEST_BOUND), st.integers(1, MOST_GROUPS))
def test_one_user_moves_all_bins_together_by_one(most, groups):
    """Neighbouring tables: the bins with and without a user of any number of groups, for any limit of the steward."""
    search = ContributionSearch(scale=Fraction(1), most=most)
    others = users_of(TABLES["long tail"])
    without, beside = (
        divide_users(others, search.ends),
        divide_users(others + users_of(np.array([groups])), search.ends),
    )
    assert np.abs(beside - without).sum() == UNITS
    assert (beside >= without).all()


@settings(max_examples=sizes.examples(100))
@given(st.lists(st.integers(1, MOST_GROUPS), min_size=1, max_size=30), st.sampled_from([1, 2, 4, 64, 256]))
def test_pairs_and_pairs_beyond_a_bound_are_exact_sums_over_the_bins(groups, bound):
    search = ContributionSearch(scale=Fraction(1))
    bins, ends, numbers = divide_users(users_of(np.array(groups)), search.ends), np.array(search.ends), np.array(groups)
    assert (bins * ends).sum() == UNITS * numbers.sum()
    assert (bins * np.maximum(ends - bound, 0)).sum() == UNITS * np.maximum(numbers - bound, 0).sum()


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(10), Fraction(100, 7)])
def test_the_guarantee_covers_a_unit_of_the_noise_that_is_drawn(scale):
    search = ContributionSearch(scale=scale)
    assert search.guarantee.epsilon >= UNITS / search._noise.scale
    assert search.guarantee.epsilon == pytest.approx(1 / float(scale))


def test_noise_that_cannot_be_drawn_is_refused_when_the_search_is_made():
    with pytest.raises(InvalidParameter, match="scale"):
        ContributionSearch(scale=Fraction(10**7))


@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize(("epsilon", "most"), [(1, 256), (Fraction(1, 5), 5)])
def test_the_share_left_out_is_in_its_interval(table, epsilon, most):
    groups, search = TABLES[table], ContributionSearch(scale=10 / Fraction(epsilon), most=most)
    users, randomness = users_of(groups), SystemRandomness()
    runs, held = sizes.draws(400), 0
    for _ in range(runs):
        found = search.release(users, noise_at, randomness)
        seen = np.minimum(groups, found.left_out.of_first)
        share = np.maximum(seen - found.bound, 0).sum() / seen.sum()
        held += found.left_out.lower <= share <= found.left_out.upper
        assert found.bound <= most
        assert found.left_out.lower <= found.left_out.share <= found.left_out.upper
    assert binom.cdf(held, runs, float(CONFIDENCE)) > 1e-6, f"{held} of {runs}"


def test_little_is_left_out_where_there_are_many_users():
    search = ContributionSearch(scale=Fraction(10))
    groups = np.random.default_rng(4).integers(1, 90, 20_000)
    for _ in range(20):
        found = search.release(users_of(groups), noise_at, SystemRandomness())
        assert found.bound >= 64
        assert found.left_out.upper < 0.15


def test_the_tail_of_a_sum_of_laplace_noises_is_as_measured():
    random = np.random.default_rng(6)
    scales = np.array([[1.0, 2.0, 2.0, 7.0]])
    draws = np.abs(random.laplace(0, scales, (200_000, 4)).sum(axis=1))
    for chance in (0.05, 0.01):
        radius = laplace_sum_radius(scales, chance)[0]
        assert np.quantile(draws, 1 - chance) == pytest.approx(radius, rel=0.03)


def test_users_who_have_one_group_each_hardly_ever_get_a_large_bound(monkeypatch):
    """With a chance of 1 in 100 per table for a mistaken bin, about 1 table in 200 got a bound of up to 256."""
    share = LeftOutShare(share=0.0, lower=0.0, upper=0.0, of_first=MOST_GROUPS)
    monkeypatch.setattr(ContributionSearch, "_share", lambda *_: share)
    users, search = users_of(np.ones(3000, dtype=np.int64)), ContributionSearch(scale=Fraction(20))
    tables = sizes.draws(20_000)
    large = sum(search.release(users, noise_at, SystemRandomness()).bound > 4 for _ in range(tables))
    assert binom.sf(large - 1, tables, 1 / 10_000) > 1e-6, f"{large} of {tables}"


RATINGS = np.minimum(20 + np.random.default_rng(1).lognormal(3.95, 1.05, 943).astype(int), 737)
FLIGHTS = np.minimum(1 + np.random.default_rng(2).gamma(0.8, 105, 4040).astype(int), 575)


def mean_left_out(search, numbers, noise_at):
    """Return the mean, over 60 searches, of the share of `numbers` (groups or rows of each user) that is left out."""
    most = MOST_GROUPS if search.counted == MOST_GROUPS else MOST_ROWS
    users = np.bincount(numbers, minlength=most + 1)[1:].astype(np.int64)
    bounds = [search.release(users, noise_at, SystemRandomness()).bound for _ in range(60)]
    return np.mean([np.maximum(numbers - bound, 0).sum() for bound in bounds]) / numbers.sum()


@pytest.fixture
def without_shares(monkeypatch):
    """Leave out the computation of the stated share, which takes most of the time of a search."""
    share = LeftOutShare(share=0.0, lower=0.0, upper=0.0, of_first=MOST_GROUPS)
    monkeypatch.setattr(ContributionSearch, "_share", lambda *_: share)


@pytest.mark.parametrize(
    ("rows", "epsilon", "searches", "groups", "most"),
    [
        (RATINGS, Fraction(1, 2), 1, 1, 0.05),  # 0.127 was left out, and 0.013 now
        (RATINGS, Fraction(1), 1, 1, 0.015),  # 0.032 and 0.003
        (FLIGHTS, Fraction(1, 2), 2, 20, 0.045),  # 0.068 and 0.018
    ],
)
def test_few_rows_are_left_out_where_few_users_have_many(without_shares, rows, epsilon, searches, groups, most):
    """Users whom the noise of their bin hides were taken for none, and most of their rows were left out."""
    search = row_search(10 * searches / epsilon)
    noise_of_row = groups / (0.9 * float(epsilon))
    assert mean_left_out(search, rows, lambda bound: noise_of_row * bound) < most


def test_few_pairs_are_left_out_where_few_users_have_many_groups(without_shares):
    """Of 943 users who rate up to 737 films, a bound of at most 256 leaves out a tenth; a quarter was left out."""
    search = ContributionSearch(scale=Fraction(20))
    assert mean_left_out(search, RATINGS, lambda bound: 10 * min(bound, (28 * bound) ** 0.5) / 0.9) < 0.15
