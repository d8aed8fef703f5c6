"""Cut-point tables equal the floors of the true distribution function, and inversion reproduces the law exactly."""

import itertools
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from exact_laws import ExhaustedError, Script, probabilities

from setwise.mechanisms.noise.discrete import GaussianNoise, LaplaceNoise, gaussian_law
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.noise.truncated_gaussian import TruncatedGaussianNoise
from setwise.mechanisms.sampling import inverse_cdf
from setwise.mechanisms.sampling.fixed_point import FixedInterval
from setwise.mechanisms.sampling.inverse_cdf import (
    OneSided,
    RoundedGaussian,
    TwoSided,
    _integral,
    _Series,
    cut_points,
    draw,
    rounded_weights,
    weights,
)

LAWS = [
    *(LaplaceNoise(scale=Fraction(s)) for s in ("0.1", "0.7", "1", "2", "3", "10", "12.3")),
    *(GaussianNoise(sigma=Fraction(s)) for s in ("0.1", "0.7", "1", "2", "3", "10", "12.3")),
    *(RoundedGaussianNoise(sigma=Fraction(s)) for s in ("0.25", "0.7", "1", "2", "3", "10", "12.3")),
    *(TruncatedGaussianNoise(sigma=Fraction(s), bound=t) for s, t in (("2", 4), ("0.5", 1), ("10", 70), ("100", 3))),
]


def law_of(noise):
    match noise:
        case LaplaceNoise(scale=scale):
            return TwoSided(first=1 / scale)
        case GaussianNoise(sigma=sigma):
            return gaussian_law(sigma, None)
        case RoundedGaussianNoise(sigma=sigma):
            return RoundedGaussian(variance=sigma * sigma)
        case TruncatedGaussianNoise(sigma=sigma, bound=bound):
            return gaussian_law(sigma, bound)


@pytest.mark.parametrize("noise", LAWS, ids=str)
@pytest.mark.parametrize("width", [6, 16, 64])
def test_floors_are_those_of_the_distribution_function(noise, width):
    with mpmath.workprec(600):
        masses = probabilities(noise, tail=140)
        start = -(len(masses) // 2)
        table = cut_points(law_of(noise), width)
        cumulative = mpmath.mpf(0)
        expected = {}
        for offset, mass in enumerate(masses):
            cumulative += mass
            expected[start + offset] = int(mpmath.floor(cumulative * mpmath.mpf(2) ** width))
        for place, floor in enumerate(table.floors):
            assert floor == expected[table.smallest + place]
        # What the table leaves out shares a floor of 0 or 2^width - 1 with what it holds.
        if table.smallest - 1 in expected:
            assert expected[table.smallest - 1] == 0 == table.floors[0]
        last = table.smallest + len(table.floors)
        if last in expected and last != -start:
            assert expected[last] == 2**width - 1 == table.floors[-1]


def true_weight(law, z):
    """Return the weight of z, to the precision of mpmath's context."""
    if isinstance(law, RoundedGaussian):
        return true_weight_from(law, z) - true_weight_from(law, z + 1)
    return mpmath.exp(-(law.first * z + law.second * z * (z - 1) / 2))


def true_weight_from(law, z):
    """Return the weight of z and all larger numbers under a rounded Gaussian."""
    return mpmath.sqrt(mpmath.pi * law.variance / 2) * mpmath.erfc((2 * z - 1) / mpmath.sqrt(8 * law.variance))


@pytest.mark.parametrize("noise", LAWS, ids=str)
@pytest.mark.parametrize("precision", [24, 60])
def test_bounds_hold_the_true_weights_and_are_close(noise, precision):
    """With so few bits every rounding shows, which wider tables hide."""
    law = law_of(noise)
    gaussian = isinstance(law, RoundedGaussian)
    found, beyond = (rounded_weights if gaussian else weights)(law, precision, negligible=1 << precision // 2)
    with mpmath.workprec(200):
        for z, (low, high) in enumerate(found):
            assert low <= true_weight(law, z) * 2**precision <= high
            assert high - low <= 40 + 6 * z
        later = 0
        if gaussian:
            later = true_weight_from(law, len(found))
        elif law.bound is None:
            later = sum(true_weight(law, z) for z in range(len(found), len(found) + 600))
        assert later * 2**precision <= beyond


def series_by_intervals(variance, z, precision):
    """The series of `_Series.at` in interval arithmetic, in which every operation rounds outwards."""
    a = FixedInterval.of(Fraction(z * z) / (4 * variance * variance), precision)
    power, total = FixedInterval.of(Fraction(1), precision), FixedInterval(0, 0)
    m = 0
    while True:
        total = total.plus(power.times(_integral(m, variance, precision), precision))
        grow = (2 * m + 1) * (2 * m + 2)
        if 2 * a.high <= grow << precision and power.high <= 1:
            return total.raised(1)
        power = power.times(a, precision).over(grow)
        m += 1


@pytest.mark.parametrize("variance", [Fraction(1, 16), Fraction(1, 2), Fraction(3), Fraction(1000, 7)], ids=str)
def test_bare_integers_are_rounded_as_intervals_are(variance):
    for precision, z in itertools.product((6, 20, 70), range(0, 24, 3)):
        assert _Series(variance, precision).at(z) == series_by_intervals(variance, z, precision)


def test_a_digit_has_its_geometric_law():
    table = cut_points(OneSided(first=Fraction(1, 500), bound=2047), 64)
    with mpmath.workprec(300):
        q = mpmath.exp(-mpmath.mpf(1) / 500)
        for x in (0, 1, 1000, 2046):
            assert table.floors[x] == int(mpmath.floor((1 - q ** (x + 1)) / (1 - q**2048) * 2**64))
    assert len(table.floors) == 2047


@pytest.mark.parametrize("noise", LAWS, ids=str)
def test_every_pair_of_tiny_words_gives_the_law(noise):
    """Run all 2^12 scripts of two 6-bit words: what they decide brackets every probability."""
    law, counts, undecided = law_of(noise), {}, 0
    for first, second in itertools.product(range(64), repeat=2):
        try:
            value = int(draw(law, 1, Script([first, second]), width=6)[0])
        except ExhaustedError:
            undecided += 1
        else:
            counts[value] = counts.get(value, 0) + 1
    masses = probabilities(noise)
    middle = len(masses) // 2
    for z in range(-middle, middle + 1):
        mass = float(masses[z + middle]) * 4096
        assert counts.get(z, 0) - 1e-6 <= mass <= counts.get(z, 0) + undecided + 1e-6
    assert undecided < 4096 // 4


@pytest.mark.parametrize("noise", LAWS[:21:3], ids=str)
def test_a_full_word_agrees_with_the_distribution_function(noise):
    """Just below a cut point the draw is one value, just above it the next: the vectorised path is the table."""
    law = law_of(noise)
    table = cut_points(law, 64)
    for place, floor in enumerate(table.floors):
        value = table.smallest + place
        if floor > 0 and (place == 0 or table.floors[place - 1] < floor - 1):
            assert draw(law, 1, Script([floor - 1]))[0] == value
        if floor < 2**64 - 1 and (place + 1 == len(table.floors) or table.floors[place + 1] > floor + 1):
            assert draw(law, 1, Script([floor + 1]))[0] == value + 1
        with pytest.raises(ExhaustedError):
            draw(law, 1, Script([floor]))


def test_equal_words_are_settled_by_more_bits():
    law = law_of(GaussianNoise(sigma=Fraction(2)))
    table = cut_points(law, 64)
    floor = table.floors[5]
    values = {int(draw(law, 1, Script([floor, word]))[0]) for word in (0, 2**64 - 1)}
    assert values == {table.smallest + 5, table.smallest + 6}


@pytest.mark.parametrize("noise", LAWS, ids=str)
def test_draws_do_not_depend_on_how_they_are_batched(noise):
    """Many draws go through the guide, few through a scan of the table; every cut point is met from both sides."""
    law = law_of(noise)
    floors = cut_points(law, 64).floors
    source = np.random.default_rng(5)
    words = [floor + step for floor in floors for step in (-1, 1) if 0 < floor + step < 2**64 - 1]
    words = [word for word in words if word not in floors] * 3
    words += [int(word) for word in source.integers(1, 2**64 - 1, 2**18 - len(words), dtype=np.uint64)]
    together = draw(law, len(words), Script(words))
    few = words[:2000]
    apart = np.concatenate([draw(law, 100, Script(few[start : start + 100])) for start in range(0, 2000, 100)])
    assert (together[:2000] == apart).all()


@pytest.mark.parametrize("law", [TwoSided(first=Fraction(1, 2)), OneSided(first=Fraction(1, 2), bound=40)])
def test_with_few_extra_bits_a_table_is_right_or_refused(law):
    """Floors that rounding leaves open are never taken for certain; with enough bits none is left open."""
    right = cut_points(law, 32)
    tables = [inverse_cdf._attempt(law, 32, guard) for guard in range(10, 40)]
    assert all(table in (None, right) for table in tables)
    assert None in tables
    assert right in tables
