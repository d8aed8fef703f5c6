"""Uses sorted by how they compose: linear, bounded range, or by moments only."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from setwise.accounting.conversions import truncation_failure
from setwise.accounting.guarantees import (
    ApproxDP,
    BoundedRange,
    ConcentratedDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Guarantee,
    Laplace,
    PureDP,
    TruncatedDiscreteGaussian,
    Use,
    ZeroConcentratedDP,
)
from setwise.accounting.intervals import Bracket, failures, up
from setwise.accounting.losses.dominating_pairs import MOST_NOISE_VALUES, Known
from setwise.accounting.methods.exact import LinearParts

Group = tuple[float, int]


@dataclass(frozen=True, slots=True)
class Sorted:
    """A multiset of uses: `linear` have fixed dominating pairs, `ranges` are bounded-range, `classes` the rest.

    `failed` lists (delta, count) of outright failures: they separate from everything else, for a profile that is raised
    by a constant share stays so under every operator.
    """

    linear: tuple[tuple[Known, int], ...]
    ranges: tuple[Group, ...]
    failed: tuple[Group, ...]
    classes: tuple[Use, ...]

    @property
    def failure(self) -> Bracket:
        """The chance that any use fails outright."""
        return failures(list(self.failed))

    def structured(self) -> LinearParts | None:
        """Return the linear uses by structure when they are only pure DP and Gaussian, else None."""
        responses: dict[float, int] = {}
        inverse_variance = 0.0
        for known, count in self.linear:
            match known:
                case PureDP(epsilon=epsilon):
                    responses[epsilon] = responses.get(epsilon, 0) + count
                case Gaussian(sigma=sigma):
                    inverse_variance += count / sigma**2
                case _:
                    return None
        return LinearParts(tuple(responses.items()), inverse_variance, self.failed)


def sort_uses(uses: Sequence[Use]) -> Sorted:
    """Sort the uses, merging equal ones and all Gaussians."""
    linear: dict[Known, int] = {}
    ranges: dict[float, int] = {}
    failed: list[Group] = []
    classes: list[Use] = []
    inverse_variance: list[float] = []
    for use in uses:
        known, failure = _split(use.guarantee)
        if failure:
            failed.append((failure, use.count))
        match known:
            case None:
                pass
            case BoundedRange(epsilon=epsilon):
                ranges[epsilon] = ranges.get(epsilon, 0) + use.count
            case ConcentratedDP() | ZeroConcentratedDP():
                classes.append(Use(known, use.count))
            case Gaussian(sigma=sigma):
                inverse_variance.append(use.count / sigma**2)
            case _:
                linear[known] = linear.get(known, 0) + use.count
    if inverse_variance:
        # Gaussian losses are Gaussian and add; the rounding of the merged sigma is charged with its loss.
        linear[Gaussian(sigma=1.0 / math.sqrt(math.fsum(inverse_variance)))] = 1
    return Sorted(tuple(linear.items()), tuple(sorted(ranges.items())), tuple(failed), tuple(classes))


Whole = Known | BoundedRange | ConcentratedDP | ZeroConcentratedDP
"""A guarantee that does not fail outright."""


def _split(guarantee: Guarantee) -> tuple[Whole | None, float]:
    """Return what a guarantee is apart from its outright failure, and the chance of that."""
    match guarantee:
        case ApproxDP(epsilon=epsilon, delta=delta):
            return (PureDP(epsilon=epsilon) if epsilon else None), delta
        case ZeroConcentratedDP(rho=rho, xi=xi, delta=delta):
            rest = ZeroConcentratedDP(rho=rho, xi=xi) if rho or xi else None
            return rest, delta
        case DiscreteGaussian(sigma=sigma, sensitivity=s) if 80 * sigma > MOST_NOISE_VALUES:
            return ZeroConcentratedDP(rho=0.5 * (s / sigma) ** 2 * (1 + 1e-14)), 0.0
        case TruncatedDiscreteGaussian(sigma=sigma, sensitivity=s) if 80 * sigma > MOST_NOISE_VALUES:
            return ZeroConcentratedDP(rho=0.5 * (s / sigma) ** 2 * (1 + 1e-14)), truncation_failure(guarantee)
        case TruncatedDiscreteGaussian():
            return guarantee, truncation_failure(guarantee)
        case DiscreteLaplace(scale=scale, sensitivity=s) if s > MOST_NOISE_VALUES:
            return ZeroConcentratedDP(rho=0.5 * (s / scale) ** 2 * (1 + 1e-14)), 0.0
        case DiscreteLaplace(scale=scale, sensitivity=1):
            return PureDP(epsilon=up(1.0 / scale)), 0.0  # its loss takes two values: it is randomized response
        case (
            PureDP()
            | BoundedRange()
            | ConcentratedDP()
            | Laplace()
            | Gaussian()
            | DiscreteLaplace()
            | DiscreteGaussian()
        ):
            return guarantee, 0.0
        case _:
            assert_never(guarantee)


def witness(guarantee: Guarantee) -> Guarantee | None:
    """Return a mechanism with known loss that satisfies the guarantee, as bad as we know one to be, or None.

    What such mechanisms compose to is a lower bound on what the guarantees alone can promise.
    """
    match guarantee:
        case BoundedRange(epsilon=epsilon):
            return PureDP(epsilon=max(epsilon / 2, 1e-12))
        case ConcentratedDP(mu=mu, tau=tau):
            return Gaussian(sigma=1 / tau * (1 + 1e-14)) if tau and mu >= tau**2 / 2 and 1e-12 < tau < 999 else None
        case ZeroConcentratedDP(rho=rho, xi=xi, delta=delta):
            if xi < 0.0 or not 1e-23 < rho < 4e5:
                return ApproxDP(epsilon=0.0, delta=delta) if delta else None
            return Gaussian(sigma=1 / math.sqrt(2 * rho) * (1 + 1e-14))
        case _:
            return guarantee
