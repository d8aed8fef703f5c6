"""Running totals cost one Gaussian use, whatever a user does and when, and their intervals hold the truth."""

import itertools
import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from tests.sizes import FULL, draws

from setwise.accounting.compose import compose
from setwise.accounting.conversions import gaussian_to_approx
from setwise.accounting.guarantees import Gaussian
from setwise.errors import InvalidParameter
from setwise.mechanisms.randomness import SystemRandomness
from setwise.mechanisms.running_totals import (
    Purpose,
    RunningTotals,
    Shape,
    choose_shape,
    noise_units,
    rounded_coefficients,
    squared_sensitivity,
)

RANDOMNESS = SystemRandomness()
ROOT = Shape(exponent=Fraction(1, 2))
SHAPES = [ROOT, Shape(exponent=Fraction(0)), Shape(exponent=Fraction(9, 20), cutoff=2), Shape(exponent=Fraction(1))]


def matrix(coefficients):
    size = len(coefficients)
    return np.array(
        [[coefficients[row - column] if row >= column else 0 for column in range(size)] for row in range(size)],
        dtype=object,
    )


@pytest.mark.parametrize("periods", [4, 6, 8])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_no_pattern_of_periods_moves_the_releases_further_than_the_first_ones(periods, shape):
    coefficients = rounded_coefficients(shape, periods, 20)
    columns = matrix(coefficients)
    for participations in range(1, periods + 1):
        moved = [
            sum(int(entry) ** 2 for entry in columns[:, list(chosen)].sum(axis=1))
            for chosen in itertools.combinations(range(periods), participations)
        ]
        assert max(moved) == squared_sensitivity(coefficients, participations)


@pytest.mark.parametrize("sigma", [0.5, 4.0, 4.123, 1e3])
@pytest.mark.parametrize("contributions", [1, 3, 10])
def test_the_noise_scale_covers_the_charge_without_rounding(sigma, contributions):
    coefficients = rounded_coefficients(ROOT, 365, 10)
    scale = noise_units(coefficients, sigma, contributions, 1)
    cost = Fraction(contributions * squared_sensitivity(coefficients), scale**2)
    assert cost <= 1 / Fraction(sigma) ** 2
    assert Fraction(contributions * squared_sensitivity(coefficients), (scale - 1) ** 2) > 1 / Fraction(sigma) ** 2


def rounded_law(scale):
    """The probabilities of round(N(0, scale^2)) between minus and plus 9 scales."""
    reach = math.ceil(9 * scale)
    ends = (np.arange(-reach, reach + 2) - 0.5) / scale
    return np.diff(ndtr(ends))


def hockey_stick(first, second, epsilon):
    return float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())


def pair_of_laws(law, shift):
    """The law of one release and the same moved by `shift` units, on the same lattice."""
    plain, moved = np.zeros(len(law) + shift), np.zeros(len(law) + shift)
    plain[: len(law)], moved[shift:] = law, law
    return plain, moved


def product_law(laws):
    found = np.ones(1)
    for law in laws:
        found = np.multiply.outer(found, law).ravel()
    return found


@pytest.mark.parametrize(("periods", "participations"), [(1, 1), (2, 1), (3, 1), (2, 2), *([(4, 1)] if FULL else [])])
@pytest.mark.parametrize("shape", SHAPES[:3], ids=str)
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_the_exact_loss_of_every_pattern_is_within_the_gaussian_that_is_charged(
    periods, participations, shape, epsilon
):
    """All outcomes on the lattice are enumerated, for a user who adds on any of the days, in both directions."""
    bits, sigma = (2 if participations == 1 else 1), 1.0
    totals = RunningTotals(
        coefficients=rounded_coefficients(shape, periods, bits),
        bits=bits,
        sigma=sigma,
        contributions=1,
        participations=participations,
    )
    charged = float(_gaussian_delta(sigma, epsilon))
    law = rounded_law(totals.noise_scale)
    worst = 0.0
    patterns = [
        days for count in range(1, participations + 1) for days in itertools.combinations(range(periods), count)
    ]
    for days in patterns:
        shifts = matrix(totals.coefficients)[:, list(days)].sum(axis=1).tolist()
        pairs = [pair_of_laws(law, shift) for shift in shifts if shift]
        plain, moved = product_law([first for first, _ in pairs]), product_law([second for _, second in pairs])
        worst = max(worst, hockey_stick(plain, moved, epsilon), hockey_stick(moved, plain, epsilon))
    assert worst <= charged + 1e-12
    assert worst >= 0.4 * charged, "the charge is not far above what the worst day costs on this coarse lattice"


def test_choosing_the_day_after_seeing_releases_costs_no_more():
    """An adversary lets the user enter on day 1 or day 2 by what day 1 released; all strategies are enumerated."""
    totals = RunningTotals(coefficients=rounded_coefficients(ROOT, 2, 2), bits=2, sigma=0.7, contributions=1)
    law = rounded_law(totals.noise_scale)
    first, second = totals.coefficients
    for epsilon in (0.0, 0.5, 1.5):
        # Days before the entry have the same law in both worlds, so that only the present day can be chosen for.
        entered = [pair_of_laws(law, first), pair_of_laws(law, second)]
        both = [product_law([entered[0][world], entered[1][world]]) for world in (0, 1)]
        at_once = hockey_stick(both[0], both[1], epsilon)
        later = hockey_stick(*pair_of_laws(law, first), epsilon)
        assert max(at_once, later) <= float(_gaussian_delta(0.7, epsilon)) + 1e-12


def _gaussian_delta(sigma, epsilon):
    mu = 1.0 / sigma
    return ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)


def test_the_delta_of_these_tests_is_that_of_the_accountant():
    found = gaussian_to_approx(Gaussian(sigma=4.0), 1e-6)
    assert _gaussian_delta(4.0, found.epsilon) == pytest.approx(1e-6, rel=1e-6)


@pytest.mark.parametrize(
    ("periods", "participations"), [(1, 1), (2, 1), (3, 1), (4, 1), (2, 2), (3, 2), (4, 2)]
)  # a user takes part at most once in each period
def test_a_group_of_one_user_is_shown_at_most_with_the_failure_that_is_charged(periods, participations):
    """The exact law of the estimates, on every entry day: the union over periods is within the failure."""
    failure = 0.05
    totals = RunningTotals(
        coefficients=rounded_coefficients(ROOT, periods, 1),
        bits=1,
        sigma=1.0,
        contributions=1,
        participations=participations,
        failure=failure,
    )
    law = rounded_law(totals.noise_scale)
    reach = len(law) // 2
    grids = np.meshgrid(*[np.arange(-reach, reach + 1)] * min(periods, 3), indexing="ij")
    noise = np.stack([grid.ravel() for grid in grids], axis=1).astype(np.int64)
    weights = product_law([law] * noise.shape[1])
    for day in range(noise.shape[1]):
        new = np.zeros_like(noise)
        new[:, day : day + participations] = 1
        shown = totals.estimates(totals.release(new, noise)) > totals.thresholds()[: noise.shape[1]]
        assert weights[shown[:, day:].any(axis=1)].sum() <= failure


def test_thresholds_leave_room_for_the_distance_of_the_gaussian():
    """Composed as an outright failure the threshold must fail less often: by the share that the Gaussian leaves."""
    totals = RunningTotals.plan(periods=10, contributions=3, sigma=0.5, failure=1e-3)
    quantile = (totals.thresholds() - 1) / totals.deviations()
    total_variation = 2 * ndtr(1.0) - 1
    assert ndtr(-quantile[-1]) * 30 <= 1e-3 * (1 - total_variation)
    assert ndtr(-quantile[-1]) * 30 >= 0.99 * 1e-3 * (1 - total_variation)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_estimates_invert_the_releases_exactly(shape):
    """With noise of 0 the estimates are the totals and the windows themselves."""
    totals = RunningTotals.plan(periods=60, contributions=1, sigma=1.0, shape=shape)
    new = np.random.default_rng(5).integers(0, 1000, (3, 60))
    released = totals.release(new, np.zeros_like(new))
    assert np.allclose(totals.estimates(released), new.cumsum(axis=1), atol=1e-6)
    padded = np.concatenate([np.zeros((3, 7), dtype=np.int64), new.cumsum(axis=1)], axis=1)
    assert np.allclose(totals.estimates(released, window=7), padded[:, 7:] - padded[:, :-7], atol=1e-6)
    assert np.allclose(totals.estimates(released[:, :20]), new[:, :20].cumsum(axis=1), atol=1e-6)


def test_releases_are_whole_numbers_and_exact():
    totals = RunningTotals.plan(periods=30, contributions=2, sigma=1.5)
    new = np.random.default_rng(1).integers(0, 10**6, (2, 30))
    noise = totals.draw(60, RANDOMNESS).reshape(2, 30)
    released = totals.release(new, noise)
    exact = matrix(totals.coefficients) @ new.astype(object).T + noise.astype(object).T
    assert released.dtype == np.int64
    assert (released.T.astype(object) == exact).all()


@pytest.mark.parametrize("window", [None, 1, 7])
def test_intervals_hold_the_truth_as_often_as_they_say(window):
    totals = RunningTotals.plan(periods=40, contributions=2, sigma=2.0)
    repeats = draws(20_000)
    noise = totals.draw(40 * repeats, RANDOMNESS).reshape(repeats, 40)
    errors = np.abs(totals.estimates(totals.release(np.zeros_like(noise), noise), window))
    for confidence in (Fraction(1, 2), Fraction(95, 100)):
        inside = (errors <= totals.radii(confidence, window)).mean(axis=0)
        margin = 5 * math.sqrt(float(confidence * (1 - confidence)) / repeats)
        assert inside.min() >= float(confidence) - margin
        assert inside.max() <= float(confidence) + margin + 0.01


@pytest.mark.parametrize("window", [None, 4])
@pytest.mark.parametrize("users", [25, 60, 90, 200])
def test_intervals_of_groups_that_are_shown_hold_the_truth_as_often_as_they_say(users, window):
    """Also of groups that are shown only because their noise is high, and in periods before they were shown."""
    totals = RunningTotals.plan(periods=12, contributions=1, sigma=5.0, failure=0.1)
    repeats = draws(100_000)
    new = np.zeros((repeats, 12), dtype=np.int64)
    new[:, :10] = np.diff(np.linspace(0, users, 11).astype(np.int64))
    noise = totals.draw(12 * repeats, RANDOMNESS).reshape(repeats, 12)
    released = totals.release(new, noise)
    passes = totals.estimates(released) > totals.thresholds()
    shown = passes.any(axis=1)
    first = passes.argmax(axis=1)[shown]
    lower, upper = totals.intervals(released[shown], Fraction(95, 100), window, first)
    truth = new.cumsum(axis=1)[0]
    if window is not None:
        truth = truth - np.concatenate([np.zeros(window, dtype=np.int64), truth[:-window]])
    inside = ((lower <= truth) & (truth <= upper)).mean(axis=0)
    # Shown by the last period; a statement about those shown by an earlier one is about fewer of them.
    assert shown.sum() > 20
    assert inside.min() >= 0.95 - 5 * math.sqrt(0.95 * 0.05 / shown.sum())


@pytest.mark.parametrize("bits", [1, 5, 20])
def test_coefficients_are_rounded_to_the_nearest_unit_and_never_increase(bits):
    for shape in (ROOT, Shape(exponent=Fraction(9, 20), cutoff=7), Shape(exponent=Fraction(1))):
        rounded = rounded_coefficients(shape, 40, bits)
        assert rounded[0] == 2**bits
        assert all(later <= earlier for earlier, later in itertools.pairwise(rounded))
        assert np.abs(np.array(rounded) - shape.coefficients(40) * 2**bits).max() <= 0.5


@pytest.mark.parametrize("failure", [None, 1e-4])
def test_the_intervals_of_every_day_hold_in_95_of_100_runs(failure):
    """The worst day of a series, with public and with private groups, not only the mean of all days."""
    periods, runs = (365 if FULL else 60), draws(10_000)
    totals = RunningTotals.plan(periods=periods, contributions=3, sigma=3.0, failure=failure)
    top = 0.0 if failure is None else totals.thresholds()[-1]
    daily = np.full(periods, math.ceil(2.0 * top / periods) + 1, dtype=np.int64)  # passes the threshold half-way
    truth = daily.cumsum()
    held, seen = np.zeros(periods, dtype=np.int64), np.zeros(periods, dtype=np.int64)
    for _ in range(runs // 500):
        noise = totals.draw(500 * periods, RANDOMNESS).reshape(500, periods)
        released = totals.release(np.broadcast_to(daily, noise.shape), noise)
        if failure is None:
            shown = np.ones((500, periods), dtype=bool)
            lower, upper = totals.intervals(released, Fraction(95, 100))
        else:
            passes = totals.estimates(released) > totals.thresholds()
            first = np.where(passes.any(axis=1), passes.argmax(axis=1), periods)
            shown = np.arange(periods) >= first[:, np.newaxis]
            lower, upper = totals.intervals(released, Fraction(95, 100), None, first)
        held += ((lower <= truth) & (truth <= upper) & shown).sum(axis=0)
        seen += shown.sum(axis=0)
    assert seen[-1] == runs
    # Days on which few runs show the group are left to the others: of 20 runs one may be outside by chance.
    often = seen >= 200
    scatter = 5 * np.sqrt(0.95 * 0.05 / np.maximum(seen, 1))
    assert often.sum() > periods // 3
    assert (held / np.maximum(seen, 1) >= 0.95 - scatter)[often].all()


def test_intervals_of_groups_far_above_their_threshold_are_the_usual_ones():
    totals = RunningTotals.plan(periods=12, contributions=1, sigma=5.0, failure=0.1)
    new = np.full((1, 12), 10_000, dtype=np.int64)
    released = totals.release(new, totals.draw(12, RANDOMNESS).reshape(1, 12))
    lower, upper = totals.intervals(released, Fraction(95, 100), None, np.array([0]))
    radii = totals.radii(Fraction(95, 100))
    assert np.allclose((upper - lower)[0], 2 * radii, rtol=1e-4, atol=1e-2)


def test_the_noise_drawn_has_the_deviation_that_is_charged():
    totals = RunningTotals.plan(periods=365, contributions=10, sigma=4.0)
    drawn = totals.draw(draws(200_000), RANDOMNESS) / 2.0**totals.bits
    norm = np.linalg.norm(ROOT.coefficients(365))
    assert totals.deviation == pytest.approx(4.0 * math.sqrt(10) * norm, rel=1e-5)
    assert drawn.std() == pytest.approx(totals.deviation, rel=0.02)


def test_errors_are_those_of_the_page():
    """The table of docs/running-totals.md, recomputed."""
    page = (Path(__file__).parents[2] / "docs/running-totals.md").read_text(encoding="utf-8")
    row = r"^\| (total|single period|window of \d+) \| (\d+) \| ([\d.]+) \| ([\d.]+) \| (.+) \|$"
    rows = re.findall(row, page, re.M)
    assert len(rows) == 6
    for wanted, periods, independent, best, taken in rows:
        length = {"total": None, "single period": 1}.get(wanted, int(wanted.split()[-1]) if wanted[-1].isdigit() else 0)
        purpose = {None: Purpose.TOTALS, 1: Purpose.PERIODS}.get(length, Purpose.WINDOWS)
        shape = choose_shape(int(periods), purpose, length if purpose is Purpose.WINDOWS else None)
        for chosen, printed in ((shape, best), (Shape(exponent=Fraction(0)), independent)):
            totals = RunningTotals.plan(periods=int(periods), contributions=1, sigma=1.0, shape=chosen)
            assert f"{totals.deviations(length)[-1]:.2f}" == printed
        words = "identity" if not shape.exponent else f"a = {float(shape.exponent):g}"
        assert taken == (words if shape.cutoff is None else f"{words}, cut off after {shape.cutoff}")


@pytest.mark.parametrize("participations", [1, 2, 7, 30])
@pytest.mark.parametrize(("purpose", "window"), [(Purpose.TOTALS, None), (Purpose.PERIODS, 1), (Purpose.WINDOWS, 7)])
def test_no_other_candidate_serves_the_purpose_better(purpose, window, participations):
    """Also for users who add to a group in several periods, where noise that is shared by periods costs more."""

    def error(shape):
        totals = RunningTotals.plan(periods=30, contributions=1, sigma=4.0, shape=shape, participations=participations)
        return totals.deviations(window)[-1]

    given = window if purpose is Purpose.WINDOWS else None
    chosen = choose_shape(30, purpose, given, participations)
    others = [Shape(exponent=Fraction(step, 20), cutoff=cutoff) for step in range(21) for cutoff in (None, 7, 14, 28)]
    if purpose is not Purpose.WINDOWS:
        others = [shape for shape in others if shape.cutoff is None]
    assert error(chosen) <= min(map(error, others)) * (1 + 1e-6)


def test_the_choice_depends_on_how_often_a_user_takes_part():
    once, always = choose_shape(30, Purpose.TOTALS), choose_shape(30, Purpose.TOTALS, participations=30)
    assert once == ROOT
    assert always != once
    plan = RunningTotals.plan(periods=30, contributions=1, sigma=4.0, participations=30)
    assert plan.coefficients == rounded_coefficients(always, 30, plan.bits)


def test_a_year_of_ten_groups_is_within_eighty_users():
    """At (1, 1e-6) with ten groups of a user, every day of the year is within about 80 users, 95 times in 100."""
    sigma = 4.1
    while compose([Gaussian(sigma=sigma)]).epsilon(1e-6).upper > 1.0:
        sigma += 0.01
    totals = RunningTotals.plan(periods=365, contributions=10, sigma=sigma)
    assert 70 < totals.radii(Fraction(95, 100)).max() < 85
    fresh = sigma * math.sqrt(10 * 365) * -ndtri(0.025)
    assert 450 < fresh < 520


def test_wide_noise_takes_a_coarser_lattice():
    totals = RunningTotals.plan(periods=365, contributions=100, sigma=400.0)
    assert totals.bits < 20
    assert totals.noise_scale <= 10**9
    assert totals.deviation == pytest.approx(400.0 * 10 * np.linalg.norm(ROOT.coefficients(365)), rel=1e-4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"coefficients": (4, 5)},
        {"coefficients": (3, 2)},
        {"coefficients": (4, -1)},
        {"coefficients": ()},
        {"contributions": 0},
        {"participations": 3},
        {"sigma": 0.0},
        {"failure": 0.0},
        {"failure": 1.5},
    ],
)
def test_impossible_series_cannot_be_built(wrong):
    right = {"coefficients": (4, 2), "bits": 2, "sigma": 1.0, "contributions": 1}
    RunningTotals(**right)
    with pytest.raises(InvalidParameter):
        RunningTotals(**{**right, **wrong})
