"""Every charge and every rounding points to the safe side, seen where nothing else covers it."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from setwise.accounting.adaptive.operator import BoundedRangeStep
from setwise.accounting.adaptive.profiles import Profile, nothing_to_come
from setwise.accounting.guarantees import BoundedRange, DiscreteLaplace, Gaussian, Laplace, PureDP
from setwise.accounting.losses.dominating_pairs import tabulate_loss
from setwise.accounting.losses.lattice import Atoms, binomial_masses, lattice_tail, two_point_atoms


def test_merged_sigmas_are_rounded_down_and_by_at_most_a_few_units():
    for sigma, count in [(0.3, 7), (20.0, 3), (math.pi, 1000), (1e-6, 2), (1e5, 10**9), (1.7, 1)]:
        merged = Gaussian.merged([(Gaussian(sigma=sigma), count), (Gaussian(sigma=11.1), 1)])
        inverse = count / Fraction(sigma) ** 2 + 1 / Fraction(11.1) ** 2
        assert Fraction(merged.sigma) ** 2 * inverse <= 1
        assert Fraction(merged.sigma * (1 + 1e-15)) ** 2 * inverse > 1


@pytest.mark.parametrize("scale", [3.0, 7.0, 0.7, 10.0, 49.0])
def test_epsilons_of_noise_are_rounded_up(scale):
    assert Fraction(Laplace(scale=scale).pure().epsilon) >= 1 / Fraction(scale)
    assert Fraction(DiscreteLaplace(scale=scale, sensitivity=2).pure().epsilon) >= 2 / Fraction(scale)


@pytest.mark.parametrize("value", [0.1, 0.2, 0.3, 0.7, 1.1, 3.3, 17.9])
def test_converted_parameters_are_rounded_up(value):
    half = Fraction(value) ** 2 / 2
    assert Fraction(Gaussian(sigma=value).zero_concentrated().rho) >= 1 / (2 * Fraction(value) ** 2)
    assert Fraction(BoundedRange(epsilon=value).zero_concentrated().rho) >= half / 4
    with mpmath.workdps(40):
        mean = mpmath.mpf(value) * mpmath.tanh(mpmath.mpf(value) / 2)
        assert PureDP(epsilon=value).concentrated().mu >= mean
        assert PureDP(epsilon=value).zero_concentrated().rho >= mean


def test_masses_left_out_of_a_binomial_are_charged():
    """Cut off a tenth of the mode's height, the charge covers all that is left out."""
    masses = binomial_masses(400, 0.7, smallest_ratio=0.1)
    kept = range(masses.first, masses.first + masses.mass.size)
    p = Fraction(7, 17)  # 0.7 as a double is close enough: the charge is far larger
    left_out = 1 - sum(math.comb(400, i) * p**i * (1 - p) ** (400 - i) for i in kept)
    assert masses.dropped >= left_out > 1e-3


def test_mass_left_out_of_atoms_and_tails_is_charged():
    atoms = two_point_atoms(0.1, -0.1, 400, 1e-5)
    assert 0.0 < atoms.dropped < 1e-2
    nothing = lattice_tail(0.0, 1.0, np.array([1.0]), 0.0, 0.0)
    assert atoms.average(nothing, 50.0).upper >= atoms.dropped
    _, error = lattice_tail(1.0, 0.1, np.array([0.5, 0.4]), 0.0, 0.1).delta(np.array([2.0, 5.0]))
    assert (error >= 0.1).all()


def test_positions_are_read_on_their_safe_side():
    """A loss that falls steeply: what is read a few units too far right would be less than the truth."""

    class Steep:
        def delta(self, x):
            return np.where(x <= 0.3, 1e-3, 0.0), np.zeros_like(x)

    atoms = Atoms(np.array([0.1, 0.2]), np.array([0.5, 0.5]), 0.0, 0.0)
    found = atoms.average(Steep(), 0.1 + 0.3)  # 0.4 - 0.1 is above 0.3 in floats, not in truth
    assert found.upper >= 1e-3
    assert found.lower <= 1e-3
    exact = atoms.average(Steep(), 0.1 + 0.3 + 1e-18)
    assert exact.upper >= 1e-3


def test_lattices_keep_their_side_of_every_tail():
    """At every epsilon the lattice from above has at least the delta of the noise, the one from below at most that."""
    for known, delta in [
        (PureDP(epsilon=0.37), lambda x: (math.exp(0.37) - math.exp(x)) / (1 + math.exp(0.37)) if x < 0.37 else 0.0),
        (PureDP(epsilon=0.39), lambda x: (math.exp(0.39) - math.exp(x)) / (1 + math.exp(0.39)) if x < 0.39 else 0.0),
        (Laplace(scale=2.7), lambda x: 1 - math.exp(0.5 * (x - 1 / 2.7)) if x < 1 / 2.7 else 0.0),
    ]:
        for step in (0.05, 0.11, 0.3):
            pair = tabulate_loss(known, step)
            for x in np.linspace(0.0, 0.5, 23):
                for lattice, above in ((pair.upper, True), (pair.lower, False)):
                    losses = lattice.losses()
                    gains = lattice.mass * np.maximum(0.0, -np.expm1(np.minimum(x - losses, 0.0)))
                    found = float(gains.sum())
                    assert found >= delta(x) * (1 - 1e-9) if above else found <= delta(x) * (1 + 1e-9) + 1e-12


def test_profiles_are_read_on_their_safe_side():
    """Between grid points above by chords, below by their continuation; the error so far is charged."""
    epsilon, cells = 1.0, 10
    step = epsilon / cells
    coarse = nothing_to_come(step)
    fine = nothing_to_come(step / 8)
    for used in range(1, 4):
        coarse = BoundedRangeStep(epsilon, cells, step).apply(coarse, used * cells + 2)
        fine = BoundedRangeStep(epsilon, 8 * cells, step / 8).apply(fine, used * 8 * cells + 2)
    x = np.linspace(-2.0, 3.2, 400)
    assert (coarse.read_upper(x) >= fine.read_lower(x)).all()
    assert (coarse.read_lower(x) <= fine.read_upper(x)).all()
    at_nodes = np.arange(5) * 0.5
    doubtful = Profile(0.5, np.full(5, 0.1), np.full(5, 0.1), rounding=1e-3)
    assert (doubtful.read_upper(at_nodes) >= 0.1 * (1 + 1e-3)).all()
    assert (doubtful.read_lower(at_nodes) <= 0.1 * (1 - 1e-3)).all()
