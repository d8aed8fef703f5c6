"""Tilted transforms against exact convolutions in whole numbers: every single mass is on its safe side."""

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy.fft

from setwise.accounting.guarantees import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, PureDP
from setwise.accounting.losses.dominating_pairs import tabulate_loss
from setwise.accounting.losses.fft import Window, _transform, sums, window
from setwise.accounting.losses.lattice import LossLattice
from setwise.accounting.losses.tilting import EqualLosses, Saddle
from tests.sizes import crossed

_BITS = 80
"""Masses are made whole multiples of 2^-80, which doubles below 1 can hold unless they are tiny."""


def whole(lattice):
    """The lattice with masses that are whole multiples of 2^-80."""
    return replace(lattice, mass=np.ldexp(np.rint(np.ldexp(lattice.mass, _BITS)), -_BITS))


def exact_sum(parts):
    """Return the masses of the sum exactly, in units of 2^-bits: polynomials are multiplied as whole numbers."""
    uses = sum(part.count for part in parts)
    size = sum(part.count * (part.lattice.mass.size - 1) for part in parts) + 1
    slot = (_BITS * uses) // 8 + 4  # bytes for each mass: all of them sum to about 2^(_BITS uses)
    product = 1
    for part in parts:
        masses = [int(Fraction(float(mass)) * 2**_BITS) for mass in part.lattice.mass]
        product *= int.from_bytes(b"".join(mass.to_bytes(slot, "little") for mass in masses), "little") ** part.count
    packed = product.to_bytes(slot * (size + 1), "little")
    return [int.from_bytes(packed[index * slot : (index + 1) * slot], "little") for index in range(size)], _BITS * uses


def laplace_like(size, rate):
    mass = np.exp(-rate * np.abs(np.arange(size) - size // 3))
    return whole(LossLattice(0.01, -(size // 2), mass / mass.sum()))


CASES = [
    ([(laplace_like(160, 0.2), 16)], 0.0),
    ([(laplace_like(160, 0.2), 16)], 8.0),
    ([(laplace_like(700, 0.05), 4)], 3.0),
    ([(laplace_like(90, 0.3), 12), (laplace_like(150, 0.1), 9)], 12.0),
    ([(laplace_like(90, 0.3), 7), (laplace_like(150, 0.1), 7), (laplace_like(70, 0.2), 7)], 10.0),
    ([(whole(tabulate_loss(Gaussian(sigma=4.0), 0.004, 8.0).upper), 3)], 20.0),
    (
        [
            (whole(tabulate_loss(Laplace(scale=5.0), 0.002).upper), 9),
            (whole(tabulate_loss(Laplace(scale=3.0), 0.002).upper), 3),
        ],
        15.0,
    ),
]


@pytest.mark.parametrize(("case", "bulk"), crossed(CASES, [True, False]))
def test_every_mass_is_on_its_safe_side(case, bulk):
    uses, tilt = case
    parts = [EqualLosses(lattice, count) for lattice, count in uses]
    view = window(Saddle(tuple(parts)), tilt, whole=bulk)
    exact, bits = exact_sum(parts)
    lowest = sum(part.count * part.lattice.first for part in parts)
    step = parts[0].lattice.step
    checked = 0
    for from_above in (True, False):
        atoms = sums(parts, view, from_above=from_above)
        assert atoms.size < len(exact) + 1
        for loss, mass in zip(atoms.loss, atoms.mass, strict=True):
            truth = exact[round(loss / step) - lowest]
            found = Fraction(float(mass)) * 2**bits
            slack = truth * Fraction(atoms.relative_error)
            assert found + slack >= truth if from_above else found - slack <= truth
            checked += found != truth
    assert checked > 500


@pytest.mark.parametrize(("uses", "tilt"), CASES[:4])
def test_the_charge_covers_the_error_of_the_transform_and_is_no_guess(uses, tilt):
    """Where the transform errs most, it errs by less than its charge, and by more than a ten-thousandth of it."""
    parts = [EqualLosses(lattice, count) for lattice, count in uses]
    exact, bits = exact_sum(parts)
    lowest = sum(part.count * part.lattice.first for part in parts)
    step = parts[0].lattice.step
    tilted, charge, _, _ = _transform(parts, tilt, lowest, len(exact))
    with mpmath.workdps(60):
        weights = [
            mpmath.mpf(mass)
            / mpmath.mpf(2) ** bits
            * mpmath.exp(mpmath.mpf(tilt) * mpmath.mpf(step) * (lowest + index))
            for index, mass in enumerate(exact)
        ]
        total = mpmath.fsum(weights)
        worst = max(abs(weight / total - float(value)) for weight, value in zip(weights, tilted, strict=True))
    assert 1e-4 * charge < worst <= charge


@pytest.mark.parametrize(("epsilon", "count"), [(0.1, 40), (0.1, 4000), (1.0, 300)])
def test_the_charge_covers_the_worst_transform_that_the_assumption_allows(epsilon, count, monkeypatch):
    """A transform may err by a share of the Euclidean norm, all of it where the other factors pass most of it on."""
    lattice = tabulate_loss(PureDP(epsilon=epsilon), epsilon / 4).upper
    parts = [EqualLosses(lattice, count)]
    size = scipy.fft.next_fast_len(count * (lattice.mass.size - 1) + 1, real=True)
    lowest = count * lattice.first
    plain, charge, _, _ = _transform(parts, 0.0, lowest, size)
    place = int(plain.argmax())
    share = (8 * (math.log2(size) + 4)) * 2.0**-53
    honest = scipy.fft.rfft

    def perturbed(weight, n):
        spectrum = honest(weight, n=n)
        passed_on = spectrum ** (count - 1) * np.exp(2j * np.pi * np.arange(spectrum.size) * place / n)
        full = honest(weight, n=n)
        direction = np.conj(passed_on)
        ends = np.full(spectrum.size, 2.0)
        ends[0] = 1.0
        if n % 2 == 0:
            ends[-1] = 1.0
        norm = math.sqrt((ends * np.abs(direction) ** 2).sum())
        allowed = share * math.sqrt((ends * np.abs(full) ** 2).sum())
        return spectrum + allowed * direction / norm

    monkeypatch.setattr(scipy.fft, "rfft", perturbed)
    worst, *_ = _transform(parts, 0.0, lowest, size)
    assert abs(worst[place] - plain[place]) <= charge
    assert abs(worst[place] - plain[place]) >= 1e-2 * charge


@pytest.mark.parametrize("deviations", [0.0, 2.0, 4.0])
def test_what_lies_beyond_the_window_is_charged(deviations):
    """From above, all probability is kept: right of the window as dropped mass, left of it on the first loss kept."""
    parts = [EqualLosses(laplace_like(160, 0.2), 16)]
    saddle = Saddle(tuple(parts))
    _, mean, variance = saddle.at(0.0)
    reach = deviations * math.sqrt(variance)
    right = Window((0.0,), mean - 40 * math.sqrt(variance), mean + reach, -1.0, saddle.for_loss(mean + reach))
    left = Window((0.0,), mean - reach, mean + 40 * math.sqrt(variance), saddle.for_loss(mean - reach), 1.0)
    exact, bits = exact_sum(parts)
    total = Fraction(sum(exact), 2**bits)
    lowest, step = parts[0].count * parts[0].lattice.first, parts[0].lattice.step
    for view in (right, left):
        above = sums(parts, view, from_above=True)
        kept = math.fsum(above.mass) * (1 + above.relative_error)
        assert kept + above.dropped >= total
        beyond = sum(exact[round(float(above.loss[-1]) / step) - lowest + 1 :])
        assert above.dropped >= Fraction(beyond, 2**bits)
        before = sum(exact[: round(float(above.loss[0]) / step) - lowest + 1])
        assert above.mass[0] * (1 + above.relative_error) >= Fraction(before, 2**bits)
        below = sums(parts, view, from_above=False)
        for loss, mass in zip(below.loss, below.mass, strict=True):
            truth = Fraction(exact[round(loss / step) - lowest], 2**bits)
            assert mass * (1 - below.relative_error) <= truth


def test_far_from_the_tilt_masses_stay_probabilities():
    """Undoing the tilt magnifies round-off; what is charged there must stay below Chernoff's bound."""
    lattices = [
        (tabulate_loss(DiscreteGaussian(sigma=15.39, sensitivity=1), 0.001).upper, 5),
        (tabulate_loss(DiscreteLaplace(scale=100.0, sensitivity=100), 0.001).upper, 1),
    ]
    parts = [EqualLosses(lattice, count) for lattice, count in lattices]
    view = window(Saddle(tuple(parts)), 11.0, whole=True)
    atoms = sums(parts, view, from_above=True)
    assert float(atoms.mass.max()) <= 1.0 + 1e-6
    left = atoms.loss < -3.0
    assert left.any()
    assert float(atoms.mass[left].sum()) < 1e-3
