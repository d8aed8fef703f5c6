"""Tilted transforms against exact convolutions in whole numbers: every single mass is on its safe side."""

from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from setwise.accounting.guarantees import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
from setwise.accounting.losses.dominating_pairs import tabulated
from setwise.accounting.losses.fft import _transformed, sums, window
from setwise.accounting.losses.lattice import LossLattice
from setwise.accounting.losses.tilting import Part, Saddle

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
    ([(whole(tabulated(Gaussian(sigma=4.0), 0.004, 8.0).upper), 3)], 20.0),
    (
        [
            (whole(tabulated(Laplace(scale=5.0), 0.002).upper), 9),
            (whole(tabulated(Laplace(scale=3.0), 0.002).upper), 3),
        ],
        15.0,
    ),
]


@pytest.mark.parametrize(("uses", "tilt"), CASES)
@pytest.mark.parametrize("bulk", [True, False])
def test_every_mass_is_on_its_safe_side(uses, tilt, bulk):
    parts = [Part(lattice, count) for lattice, count in uses]
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
    parts = [Part(lattice, count) for lattice, count in uses]
    exact, bits = exact_sum(parts)
    lowest = sum(part.count * part.lattice.first for part in parts)
    step = parts[0].lattice.step
    tilted, charge = _transformed(parts, tilt, lowest, len(exact))
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


def test_far_from_the_tilt_masses_stay_probabilities():
    """Undoing the tilt magnifies round-off; what is charged there must stay below Chernoff's bound."""
    lattices = [
        (tabulated(DiscreteGaussian(sigma=15.39, sensitivity=1), 0.001).upper, 5),
        (tabulated(DiscreteLaplace(scale=100.0, sensitivity=100), 0.001).upper, 1),
    ]
    parts = [Part(lattice, count) for lattice, count in lattices]
    view = window(Saddle(tuple(parts)), 11.0, whole=True)
    atoms = sums(parts, view, from_above=True)
    assert float(atoms.mass.max()) <= 1.0 + 1e-6
    left = atoms.loss < -3.0
    assert left.any()
    assert float(atoms.mass[left].sum()) < 1e-3
