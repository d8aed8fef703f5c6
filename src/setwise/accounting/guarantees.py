"""What one use of a mechanism satisfies, as values that cannot be wrong.

Neighbours differ by one user added or removed. A *class* (pure DP, bounded range, concentrated DP) says
only what the mechanism satisfies; a *mechanism* (Laplace, Gaussian and their integer versions) has a known
privacy loss, which composes better than the class it belongs to.
"""

import math
import operator
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from setwise.errors import InvalidParameter

LARGEST_EPSILON = 500.0
"""Beyond this a guarantee says nothing and exp(epsilon) leaves the range of floats."""

SMALLEST_EPSILON = 1e-12
"""Below this a parameter is a mistake, and differences of exp(epsilon) drown in round-off."""

LARGEST_RHO = 1e15
"""Enough for the zCDP of the largest epsilon and of the smallest noise."""

LARGEST_TOTAL = 1e6
"""Overall epsilons beyond this are a mistake."""

SMALLEST_SIGMA = 1e-6

LARGEST_SCALE = 1e12
LARGEST_INTEGER = 10**12


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidParameter(f"{name} must be a number, not {value!r}")
    if not math.isfinite(value):
        raise InvalidParameter(f"{name} must be finite, not {value!r}")
    return float(value)


def _within(name: str, value: object, smallest: float, largest: float) -> float:
    number = _number(name, value)
    if not smallest <= number <= largest:
        raise InvalidParameter(f"{name} must lie between {smallest:g} and {largest:g}, not {value!r}")
    return number


def check_epsilon(value: object, name: str = "epsilon") -> float:
    """Return a valid privacy-loss parameter or raise `InvalidParameter`."""
    # Rounding up what was converted may pass the limit by a hair.
    return _within(name, value, SMALLEST_EPSILON, LARGEST_EPSILON * (1 + 1e-12))


def check_total_epsilon(value: object, name: str = "epsilon") -> float:
    """Return a valid overall epsilon (non-negative, finite) or raise `InvalidParameter`."""
    number = _number(name, value)
    if number < 0:
        raise InvalidParameter(f"{name} must not be negative, not {value!r}")
    if number > LARGEST_TOTAL:
        raise InvalidParameter(f"{name} must be at most {LARGEST_TOTAL:g}, not {value!r}")
    return number


def check_delta(value: object, name: str = "delta") -> float:
    """Return a probability strictly between 0 and 1 or raise `InvalidParameter`."""
    number = _number(name, value)
    if not 0.0 < number < 1.0:
        raise InvalidParameter(f"{name} must lie strictly between 0 and 1, not {value!r}")
    return number


def _positive_integer(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidParameter(f"{name} must be a whole number, not {value!r}")
    if not 1 <= value <= LARGEST_INTEGER:
        raise InvalidParameter(f"{name} must lie between 1 and {LARGEST_INTEGER:,}, not {value!r}")
    return value


def _failure(name: str, value: object) -> float:
    number = _number(name, value)
    if not 0.0 <= number < 1.0:
        raise InvalidParameter(f"{name} must be at least 0 and below 1, not {value!r}")
    return number


@dataclass(frozen=True, slots=True, kw_only=True)
class PureDP:
    """epsilon-differential privacy: every outcome's likelihood ratio lies within exp(±epsilon)."""

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedRange:
    """epsilon-bounded range: the log likelihood ratios span at most epsilon (exponential mechanisms)."""

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcentratedDP:
    """(mu, tau)-concentrated DP: privacy loss of mean at most mu, tau-subgaussian about its mean."""

    mu: float
    tau: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", _within("mu", self.mu, 0.0, LARGEST_RHO))
        object.__setattr__(self, "tau", _within("tau", self.tau, 0.0, LARGEST_RHO))
        if not (self.mu or self.tau):
            raise InvalidParameter("mu and tau cannot both be 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class ZeroConcentratedDP:
    """delta-approximate (xi, rho)-zCDP: outside an event of probability delta, D_a <= xi + a rho for every a > 1."""

    rho: float
    xi: float = 0.0
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "rho", _within("rho", self.rho, 0.0, LARGEST_RHO))
        object.__setattr__(self, "xi", _within("xi", self.xi, -LARGEST_RHO, LARGEST_RHO))
        object.__setattr__(self, "delta", _failure("delta", self.delta))
        if self.xi < -self.rho:
            raise InvalidParameter(
                f"xi must be at least -rho = {-self.rho:g}, for a divergence is never negative, not {self.xi!r}"
            )
        if not (self.rho or self.xi or self.delta):
            raise InvalidParameter("rho, xi and delta cannot all be 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproxDP:
    """(epsilon, delta)-differential privacy; epsilon may be 0 (a threshold that only fails with probability delta)."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        epsilon = _number("epsilon", self.epsilon)
        object.__setattr__(self, "epsilon", epsilon if epsilon == 0.0 else check_epsilon(epsilon))
        object.__setattr__(self, "delta", _failure("delta", self.delta))
        if not (self.epsilon or self.delta):
            raise InvalidParameter("epsilon and delta cannot both be 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Laplace:
    """Laplace noise of the given scale over the l1-sensitivity."""

    scale: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _within("scale", self.scale, 1 / LARGEST_EPSILON, LARGEST_SCALE))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaussian:
    """Gaussian noise of standard deviation sigma over the l2-sensitivity."""

    sigma: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "sigma", _within("sigma", self.sigma, SMALLEST_SIGMA, LARGEST_SCALE))


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteLaplace:
    """Integer noise, P[z] proportional to exp(-|z| / scale), on an integer that moves by at most `sensitivity`."""

    scale: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "sensitivity", _positive_integer("sensitivity", self.sensitivity))
        smallest = self.sensitivity / LARGEST_EPSILON
        object.__setattr__(self, "scale", _within("scale", self.scale, smallest, LARGEST_SCALE))


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscreteGaussian:
    """Integer noise, P[z] proportional to exp(-z^2 / (2 sigma^2)), on an integer that moves by `sensitivity`."""

    sigma: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "sensitivity", _positive_integer("sensitivity", self.sensitivity))
        smallest = 1e-3 * self.sensitivity
        object.__setattr__(self, "sigma", _within("sigma", self.sigma, smallest, LARGEST_SCALE))


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedDiscreteGaussian:
    """Discrete Gaussian noise restricted by law to {-bound, ..., bound}; what is off the overlap is lost outright."""

    sigma: float
    bound: int
    sensitivity: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "sensitivity", _positive_integer("sensitivity", self.sensitivity))
        object.__setattr__(self, "bound", _positive_integer("bound", self.bound))
        smallest = 1e-3 * self.sensitivity
        object.__setattr__(self, "sigma", _within("sigma", self.sigma, smallest, LARGEST_SCALE))
        if self.bound < self.sensitivity:
            raise InvalidParameter(f"bound must be at least the sensitivity {self.sensitivity}, not {self.bound}")


Guarantee: TypeAlias = (
    PureDP
    | BoundedRange
    | ConcentratedDP
    | ZeroConcentratedDP
    | ApproxDP
    | Laplace
    | Gaussian
    | DiscreteLaplace
    | DiscreteGaussian
    | TruncatedDiscreteGaussian
)


LARGEST_COUNT = 10**9


def check_count(value: object, name: str = "count") -> int:
    """Return a whole number of uses between 1 and a billion or raise `InvalidParameter`."""
    if isinstance(value, bool):
        raise InvalidParameter(f"{name} must be a whole number, not {value!r}")
    try:
        count = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidParameter(f"{name} must be a whole number, not {value!r}") from None
    if not 1 <= count <= LARGEST_COUNT:
        raise InvalidParameter(f"{name} must lie between 1 and {LARGEST_COUNT:,}, not {value!r}")
    return count


@dataclass(frozen=True, slots=True)
class Use:
    """`count` uses of mechanisms that each satisfy `guarantee`.

    >>> from setwise.accounting.guarantees import PureDP
    >>> Use(PureDP(epsilon=0.1), 25).count
    25
    """

    guarantee: Guarantee
    count: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.guarantee, Guarantee):
            raise InvalidParameter(f"a use needs a guarantee such as PureDP(epsilon=0.1), not {self.guarantee!r}")
        object.__setattr__(self, "count", check_count(self.count))


def merged(uses: Iterable[Use]) -> tuple[Use, ...]:
    """Return the multiset: one entry per guarantee, in order of first appearance.

    >>> from setwise.accounting.guarantees import PureDP
    >>> merged([Use(PureDP(epsilon=0.1), 2), Use(PureDP(epsilon=0.1), 3)])
    (Use(guarantee=PureDP(epsilon=0.1), count=5),)
    """
    counts: dict[Guarantee, int] = {}
    for use in uses:
        counts[use.guarantee] = counts.get(use.guarantee, 0) + use.count
    return tuple(Use(guarantee, count) for guarantee, count in counts.items())
