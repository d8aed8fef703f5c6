"""Conversions to and from dp-accounting and OpenDP, Rényi curves, and guarantees for replace-one neighbours.

None of these libraries is needed to import this module; a conversion needs only the library whose values it is given.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from setwise.accounting.compose import Composition
from setwise.accounting.guarantees import (
    ApproxDP,
    BoundedRange,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Guarantee,
    Laplace,
    PureDP,
    TruncatedDiscreteGaussian,
    Use,
    ZeroConcentratedDP,
    merged,
)
from setwise.accounting.promises import rounded_up
from setwise.errors import InvalidParameter, MissingExtra

if TYPE_CHECKING:
    from dp_accounting import DpEvent
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
    from opendp.mod import Measurement

Floats = NDArray[np.float64]

_ROUNDED = 1e-15
"""A relative error larger than a few floating-point operations can cause."""

_SAMPLED = (
    "PoissonSampledDpEvent",
    "SampledWithReplacementDpEvent",
    "SampledWithoutReplacementDpEvent",
    "TruncatedSubsampledGaussianDpEvent",
    "MixtureOfGaussiansDpEvent",
)
"""The names of dp-accounting events with sampling, which cannot be composed here."""


def from_event(event: "DpEvent") -> tuple[Use, ...]:
    """Return the mechanisms in `event` as `Use`s; a `Use` is a guarantee and a number of mechanisms that have it.

    An event describes mechanisms in the library dp-accounting: one mechanism, or several that are composed. If the
    sensitivities in the event are for replacing one user by another, the returned guarantees are for replacing, too.
    Raises: `InvalidParameter` for an event with sampling, or if no guarantee of this library describes the event;
    compose such an event in dp-accounting.
    """
    return merged(Use(guarantee, count) for guarantee, count in _parts(event, 1))


def _parts(event: "DpEvent", count: int) -> Iterator[tuple[Guarantee, int]]:
    match type(event).__name__:
        case "NoOpDpEvent":
            return
        case "ComposedDpEvent":
            for part in event.events:
                yield from _parts(part, count)
        case "SelfComposedDpEvent":
            yield from _parts(event.event, count * event.count)
        case _:
            yield _of_event(event), count


def _of_event(event: "DpEvent") -> Guarantee:
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
                "with setwise.adapters.to_pld"
            )
        case name:
            raise InvalidParameter(
                f"{name} has no counterpart here; describe it by what it satisfies, e.g. "
                "setwise.ZeroConcentratedDP(rho=0.02)"
            )


def to_pld(
    composition: Composition, *, discretization: float = 1e-4, points: int = 60, tail: float = 1e-12
) -> "PrivacyLossDistribution":
    """Return a dp-accounting privacy loss distribution that dominates the composition.

    - `discretization`: the distance between losses on the distribution's grid
    - `points`: the most epsilons at which an upper bound on the composition's delta is computed. At these epsilons, the
      distribution has this bound as its delta. Between two of them, its delta is larger than the composition's; with
      more points, the excess is smaller
    - `tail`: a small delta. The largest of the epsilons is the one that the composition guarantees at this delta. In
      the distribution, a probability of about `tail` has infinite loss

    The result may be composed with distributions of other mechanisms, in any order and adaptively (docs/adapters.md).
    Raises: `InvalidParameter` if `points` or `discretization` is out of range.
    """
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    if points < 2:
        raise InvalidParameter(f"points must be at least 2, not {points}")
    if not 0.0 < discretization <= 1.0:
        raise InvalidParameter(f"discretization must be above 0 and at most 1, not {discretization!r}")
    end = max(composition.epsilon(tail).upper, discretization)
    # log delta decreases ever faster, and a chord is closer to it the less it decreases along the chord, so the knots
    # are closer together at large epsilons.
    shares = np.linspace(0.0, 1.0, points) ** 0.65
    knots = np.unique(np.ceil(end * shares / discretization).astype(np.int64))
    epsilons = knots * discretization
    deltas = np.array([composition.quick_delta(float(x)).upper for x in epsilons])
    # Between knots the distribution's delta is linear in exp(epsilon), and so lies above the true delta, which is
    # convex in it.
    deltas = _convex(np.exp(epsilons), deltas)
    mirrored = -np.expm1(-epsilons) + np.exp(-epsilons) * deltas
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(
        discretization,
        np.concatenate([-knots[:0:-1], knots]),
        np.concatenate([mirrored[:0:-1], deltas]),
    )
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)


def _convex(u: Floats, values: Floats) -> Floats:
    """Return a convex upper bound on delta as a function of exp(epsilon), at each point of `u`, rounded up.

    `u` is exp(epsilon) in rising order, and `values` are upper bounds on delta there. The result is the lower convex
    envelope of the points (`u`, `values`). It is still an upper bound, because the true delta is convex in
    exp(epsilon). dp-accounting needs a convex function to make a distribution from it.
    """
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


def from_measurement(measurement: "Measurement", d_in: float, count: int = 1) -> Use:
    """Return `count` invocations of an OpenDP measurement on inputs at distance `d_in`, as one `Use`.

    `d_in` is the distance between datasets with and without one user: 1 if each user has one row. The guarantee is the
    one that OpenDP states for the measurement, such as zCDP for Gaussian noise. If you know which noise it adds, state
    a `setwise.Gaussian` or `setwise.BoundedRange` instead: they say more, so the overall epsilon is smaller.
    Raises: `InvalidParameter` if the measurement's privacy measure has no counterpart here.
    """
    _require_opendp_016()
    return Use(_of_measure(str(measurement.output_measure), measurement.map(d_in)), count)


def _require_opendp_016() -> None:
    """Raise `MissingExtra` if the installed OpenDP is older than 0.16.

    The privacy map of noisy max in older versions states a quarter of the true rho, which would understate the loss.
    """
    installed = version("opendp")
    if tuple(int(part) for part in installed.split(".")[:2]) < (0, 16):
        raise MissingExtra(
            f"OpenDP {installed} understates the zCDP of noisy max by a factor of 4: pip install 'opendp>=0.16'"
        )


def _of_measure(measure: str, loss: object) -> Guarantee:
    match measure, loss:
        case "MaxDivergence", float(epsilon):
            return PureDP(epsilon=epsilon)
        case "ZeroConcentratedDivergence", float(rho):
            return ZeroConcentratedDP(rho=rho)
        case "Approximate(MaxDivergence)", (float(epsilon), float(delta)):
            return ApproxDP(epsilon=epsilon, delta=delta) if delta else PureDP(epsilon=epsilon)
        case "Approximate(ZeroConcentratedDivergence)", (float(rho), float(delta)):
            return ZeroConcentratedDP(rho=rho, delta=delta)
        case _:
            raise InvalidParameter(
                f"a measurement of {measure} has no counterpart here; fix its delta (make_fix_delta), or use its zCDP"
            )


_RENYI_ROUNDED = 1e-13
"""The relative rounding error that is added to a formula's terms; about thirty floating-point operations lose less."""


def renyi_curve(uses: Iterable[Use], orders: Sequence[float]) -> list[float]:
    """Return upper bounds on the Rényi divergence of all `uses` together, one for each of the `orders` (above 1).

    A `Use` is a guarantee and a number of mechanisms that have it. The bounds hold also if the mechanisms are chosen
    adaptively (Mironov17). They serve accountants that need Rényi curves: an epsilon computed from them is never below
    the best epsilon for composing the mechanisms set-wise (a fixed collection in any order).
    """
    curve = [0.0] * len(orders)
    for use in uses:
        for i, order in enumerate(orders):
            curve[i] += use.count * renyi_divergence(use.guarantee, order)
    return [value * (1.0 + _RENYI_ROUNDED) for value in curve]


def renyi_divergence(guarantee: Guarantee, order: float) -> float:
    """Return an upper bound on the Rényi divergence of the given `order` of one mechanism with this `guarantee`.

    For pure DP, Laplace noise, bounded range and Gaussian noise, the bound is exact up to rounding; for other
    guarantees it follows from their zCDP.
    Raises: `InvalidParameter` if the order is not between 1 and 1e6, or if the guarantee has a failure probability.
    """
    if not 1.0 < order < 1e6:
        raise InvalidParameter(f"an order must be above 1 and below 1e6, not {order!r}")
    implied = guarantee.zero_concentrated()
    if implied.delta:
        raise InvalidParameter(
            "a use that may fail outright has no Rényi divergence; leave it out of the curve, and add its failure "
            f"probability {rounded_up(implied.delta)} to delta"
        )
    bound = implied.xi + order * implied.rho
    match guarantee:
        case PureDP(epsilon=epsilon):
            return min(bound, _of_pure(epsilon, order))
        case Laplace():
            return min(bound, _of_laplace(guarantee.pure().epsilon, order))
        case BoundedRange(epsilon=epsilon):
            return min(bound, _of_bounded_range(epsilon, order))
        case _:
            return bound


def _of_pure(epsilon: float, order: float) -> float:
    """Return the largest Rényi divergence of order a (`order`) that `epsilon`-DP allows, rounded up.

    This divergence is log[cosh((a - 1/2) epsilon) / cosh(epsilon/2)] / (a - 1). Randomized response attains it.
    """
    large, small = _log_cosh((order - 0.5) * epsilon), _log_cosh(0.5 * epsilon)
    return (large - small + _RENYI_ROUNDED * (large + small)) / (order - 1.0)


def _log_cosh(x: float) -> float:
    """Return log cosh x for x >= 0 without overflow, and with a small relative error near 0.

    The Rényi divergence of pure DP is computed from it.
    """
    if x < 1.0:
        return 0.5 * math.log1p(math.sinh(x) ** 2)
    return x + math.log1p(math.exp(-2.0 * x)) - math.log(2.0)


def _of_laplace(epsilon: float, order: float) -> float:
    """Return the Rényi divergence of order a (`order`) of Laplace noise with scale 1/`epsilon`, rounded up.

    For sensitivity 1 it is log[(a e^((a-1) epsilon) + (a-1) e^(-a epsilon)) / (2a-1)] / (a-1).
    """
    second_term = (order - 1.0) / order * math.exp(-(2.0 * order - 1.0) * epsilon)
    main = (order - 1.0) * epsilon
    share = math.log(order / (2.0 * order - 1.0))
    return (main + share + math.log1p(second_term) + _RENYI_ROUNDED * (1.0 + main - share)) / (order - 1.0)


def _of_bounded_range(epsilon: float, order: float) -> float:
    """Return the largest Rényi divergence of order a (`order`) that bounded range `epsilon` allows, rounded up.

    With b = e^-epsilon, A = (1 - b^a)/(1 - b), B = (b - b^a)/(1 - b) and s = (a-1) A / (a B), this divergence is
    log(s^(a-1) A / a)/(a - 1).
    Theorem: DongDuRo19.
    """
    # The worst mechanism has two outcomes, with privacy losses t and t - epsilon for some t. With s = e^t the
    # divergence is log(s^(a-1) A - s^a B)/(a - 1), which is largest at s = (a-1) A / (a B).
    numerator_a = -math.expm1(-order * epsilon)
    numerator_b = math.exp(-epsilon) * -math.expm1(-(order - 1.0) * epsilon)
    step = -math.expm1(-epsilon)
    log_s = math.log((order - 1.0) / order) + math.log(numerator_a / numerator_b)
    terms = abs(math.log(numerator_a / step / order)) + (order - 1.0) * (abs(log_s) + 1.0)
    return ((order - 1.0) * log_s + math.log(numerator_a / step / order) + _RENYI_ROUNDED * terms) / (order - 1.0)


def replace_one(uses: Iterable[Use]) -> tuple[Use, ...]:
    """Return `uses` with the guarantees that hold if one user is replaced by another, instead of added or removed.

    The guarantees are weaker, because a replacement is a removal followed by an addition.

    >>> from setwise import Gaussian, PureDP, Use
    >>> replace_one([Use(PureDP(epsilon=0.1), 5), Use(Gaussian(sigma=20))])
    (Use(guarantee=PureDP(epsilon=0.2), count=5), Use(guarantee=Gaussian(sigma=10.0), count=1))
    """
    return tuple(Use(replaced(use.guarantee), use.count) for use in uses)


def replaced(guarantee: Guarantee) -> Guarantee:
    """Return the guarantee of one mechanism if one user is replaced by another, instead of added or removed.

    A replacement is a removal and an addition. So the epsilon of pure DP and bounded range doubles, and so does the
    sensitivity of additive noise; other guarantees become the guarantees of group privacy for two users.

    The sensitivity of a mechanism under replacement may be less than twice its sensitivity under addition. In a
    histogram in which each user is in one cell, for example, the l2 sensitivity is 1 under addition and sqrt(2) under
    replacement. Then state the guarantee for this smaller sensitivity instead of calling this function.
    """
    match guarantee:
        case PureDP(epsilon=epsilon):
            return PureDP(epsilon=2.0 * epsilon)
        case BoundedRange(epsilon=epsilon):
            return BoundedRange(epsilon=2.0 * epsilon)
        case Laplace(scale=scale):
            return Laplace(scale=scale / 2.0)
        case Gaussian(sigma=sigma):
            return Gaussian(sigma=sigma / 2.0)
        case DiscreteLaplace() | DiscreteGaussian() | TruncatedDiscreteGaussian():
            return replace(guarantee, sensitivity=2 * guarantee.sensitivity)
        case ApproxDP(epsilon=epsilon, delta=delta):
            # P <= e^epsilon R + delta and R <= e^epsilon Q + delta
            return ApproxDP(epsilon=2.0 * epsilon, delta=delta * (1.0 + math.exp(epsilon)) * (1.0 + 4 * _ROUNDED))
        case _:
            return _zcdp_under_replacement(guarantee.zero_concentrated())


def _zcdp_under_replacement(zcdp: ZeroConcentratedDP) -> ZeroConcentratedDP:
    """Return the zCDP that a mechanism with the guarantee `zcdp` has if a user is replaced, not added or removed.

    (xi, rho)-zCDP means that the Rényi divergence of each order a is at most xi + rho a. It becomes (3 xi, 4 rho)-zCDP,
    or (2 xi, 4 rho)-zCDP if xi is negative.
    Theorem: BunSt16 (group privacy for two): D_a(P|Q) <= 2a/(2a-1) D_(2a-1)(P|R) + D_2a(R|Q), where D_a is the Rényi
        divergence of order a, P and Q are the outputs before and after replacing, and R those without the user.
    Raises: `InvalidParameter` if the guarantee has a failure probability.
    """
    if zcdp.delta:
        raise InvalidParameter(
            "zCDP with a failure probability is not known to hold under replacement; state the mechanism's own"
        )
    return ZeroConcentratedDP(rho=4.0 * zcdp.rho, xi=(3.0 if zcdp.xi > 0.0 else 2.0) * zcdp.xi)
