"""dp-accounting: its events as uses, and a composition of ours as one of its privacy loss distributions."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.compose import Composition
from setwise.accounting.guarantees import (
    DiscreteLaplace,
    Gaussian,
    Guarantee,
    Laplace,
    PureDP,
    Use,
    ZeroConcentratedDP,
    merged,
)
from setwise.errors import InvalidParameter

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

Floats = NDArray[np.float64]

_ROUNDED = 1e-15
"""Relative: more than one or two operations on floats may lose."""

_SAMPLED = (
    "PoissonSampledDpEvent",
    "SampledWithReplacementDpEvent",
    "SampledWithoutReplacementDpEvent",
    "TruncatedSubsampledGaussianDpEvent",
    "MixtureOfGaussiansDpEvent",
)


def from_event(event: "DpEvent") -> tuple[Use, ...]:
    """Return the uses that a dp-accounting event consists of, to be composed here.

    The event's sensitivities are taken as they are: if they hold for replacing a user, so does the composition.
    Sampled events have no place in a set-wise composition and are refused; dp-accounting composes them itself, and
    `to_pld` brings our part there.
    """
    return merged(Use(guarantee, count) for guarantee, count in _parts(event, 1))


def _parts(event: "DpEvent", count: int) -> Iterator[tuple[Guarantee, int]]:
    match type(event).__name__:
        case "NoOpDpEvent":
            return
        case "ComposedDpEvent":
            for each in event.events:
                yield from _parts(each, count)
        case "SelfComposedDpEvent":
            yield from _parts(event.event, count * event.count)
        case _:
            yield _guarantee(event), count


def _guarantee(event: "DpEvent") -> Guarantee:
    match type(event).__name__:
        case "GaussianDpEvent":
            return Gaussian(sigma=event.noise_multiplier)
        case "LaplaceDpEvent":
            return Laplace(scale=event.noise_multiplier)
        case "DiscreteLaplaceDpEvent":
            return DiscreteLaplace(scale=(1.0 - _ROUNDED) / event.noise_parameter, sensitivity=event.sensitivity)
        case "ZCDpEvent":
            return ZeroConcentratedDP(rho=event.rho, xi=event.xi)
        case "RandomizedResponseDpEvent":
            noise, buckets = event.noise_parameter, event.num_buckets
            if not 0.0 < noise <= 1.0:
                raise InvalidParameter(f"noise_parameter must be above 0 and at most 1, not {noise!r}")
            return PureDP(epsilon=math.log1p(buckets * (1.0 - noise) / noise) * (1.0 + 8 * _ROUNDED))
        case name if name in _SAMPLED:
            raise InvalidParameter(
                f"{name}: sampling is not composed here; compose it in dp-accounting and add setwise's part there, "
                "with setwise.adapters.dp_accounting.to_pld"
            )
        case name:
            raise InvalidParameter(
                f"{name} has no counterpart here; describe it by what it satisfies, e.g. "
                "setwise.ZeroConcentratedDP(rho=0.02)"
            )


def to_pld(
    composition: Composition, *, discretization: float = 1e-4, points: int = 60, tail: float = 1e-12
) -> "PrivacyLossDistribution":
    """Return a dp-accounting privacy loss distribution that dominates the composition, set-wise optimum and all.

    Its hockey-stick divergence is our certified delta at `points` epsilons, and runs along chords in exp(epsilon)
    between them, which lie above. `tail` is the delta at the last of them; it becomes mass at infinity. It may be
    composed with the distributions of other mechanisms, in any order and adaptively (docs/adapters.md).
    """
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    if points < 2:
        raise InvalidParameter(f"points must be at least 2, not {points}")
    if not 0.0 < discretization <= 1.0:
        raise InvalidParameter(f"discretization must be above 0 and at most 1, not {discretization!r}")
    end = max(composition.epsilon(tail).upper, discretization)
    # log delta falls faster and faster, and a chord is the better the less it falls from end to end
    spread = np.linspace(0.0, 1.0, points) ** 0.65
    knots = np.unique(np.ceil(end * spread / discretization).astype(np.int64))
    epsilons = knots * discretization
    deltas = np.array([composition.quick_delta(float(x)).upper for x in epsilons])
    deltas = _convex(np.exp(epsilons), deltas)
    mirrored = -np.expm1(-epsilons) + np.exp(-epsilons) * deltas
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(
        discretization,
        np.concatenate([-knots[:0:-1], knots]),
        np.concatenate([mirrored[:0:-1], deltas]),
    )
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def _convex(u: Floats, values: Floats) -> Floats:
    """Return the largest convex function of u below the values; a convex function below the values is below it."""
    hull: list[int] = []
    for i in range(u.size):
        while len(hull) > 1:
            a, b = hull[-2:]
            if (values[b] - values[a]) * (u[i] - u[a]) < (values[i] - values[a]) * (u[b] - u[a]):
                break
            hull.pop()
        hull.append(i)
    below: Floats = np.interp(u, u[hull], values[hull]) * (1.0 + 4 * _ROUNDED)
    return np.minimum(values, np.minimum.accumulate(below))
