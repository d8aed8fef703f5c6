"""The first questions about ratings made to resemble MovieLens, a line each at epsilon 1; and intervals that hold."""

import sys
from collections import Counter

import numpy as np
import pytest

import setwise
from setwise.mechanisms.planning.request import CountNoise
from tests.docs.pages import ROOT

sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "everyday")]

import films  # noqa: E402 - of the benchmarks

import statistics_coverage  # noqa: E402 - of the benchmarks


@pytest.fixture(scope="module")
def rated():
    table = films.ratings()
    with setwise.open(table, user="who") as session:
        yield session, table.to_pandas()


def test_the_mean_rating_of_every_genre_is_within_a_twentieth(rated):
    session, frame = rated
    own = frame.groupby(["who", "genre"])["stars"].mean().reset_index()
    means = own.groupby("genre")["stars"].mean().to_dict()
    answer = films.QUESTIONS["mean_per_genre"](session)
    off = sorted(abs(each.estimates[0].value - means[each.label]) for each in answer)
    assert len(off) == len(films.GENRES) == 18
    assert off[-2] <= 0.05  # one genre farther off has a chance of some in a thousand, two of one in 100,000
    assert off[-1] <= 0.08
    assert answer.epsilon.upper <= 1


def test_the_median_age_is_within_a_year(rated):
    session, frame = rated
    answer = films.QUESTIONS["median_age"](session)
    assert abs(answer.value - np.median(frame.groupby("who")["age"].first())) <= 1


def test_a_table_by_two_columns_has_all_its_cells(rated):
    session, frame = rated
    users = frame.groupby(["genre", "sex"])["who"].nunique().to_dict()
    answer = films.QUESTIONS["two_columns"](session)
    assert {each.label for each in answer} == set(users)
    assert max(abs(each.count - users[each.label]) for each in answer) <= 120


@pytest.mark.parametrize("noise", [CountNoise.LAPLACE, CountNoise.GAUSSIAN])
def test_intervals_of_every_statistic_hold(noise):
    found, held = Counter(), Counter()
    for name, holds in statistics_coverage.held(noise, rounds=1):
        found[name] += 1
        held[name] += holds
    assert dict(found) == dict.fromkeys(statistics_coverage.NAMES, statistics_coverage.GROUPS)
    # Five deviations below 95% of 400, so that one of ten shares falls below it once in a million runs or less.
    assert all(held[name] / found[name] >= 0.895 for name in found)
