"""What one use of a mechanism satisfies: each kind of guarantee is one class, with all that is known about it.

Neighbours differ by one user added or removed. A *class* of mechanisms (pure DP, bounded range, concentrated DP) is
known only by what it satisfies; *known noise* (Laplace, Gaussian and their integer versions) has a known privacy loss,
which composes better than the class it belongs to. To add a kind, write its class and list it in `KINDS`: notation,
REST patterns, help texts, page words, conversions and composition all read the class.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import ClassVar, Literal, Protocol

from setwise.accounting import prices
from setwise.accounting.brackets import cover_rounding, down, float_above, up
from setwise.accounting.checks import (
    LARGEST_EPSILON,
    LARGEST_RHO,
    LARGEST_SCALE,
    SMALLEST_EPSILON,
    SMALLEST_SIGMA,
    check_count,
    check_epsilon,
    check_failure,
    check_number,
    check_positive_integer,
    check_within,
)
from setwise.errors import InvalidParameter

MOST_NOISE_VALUES = 4_000_000
"""Integer noise that takes more values than this is composed by its zCDP, not tabulated."""


class Guarantee(ABC):
    """What one use of a mechanism satisfies. A subclass describes one kind; its fields are the parameters, in order."""

    __slots__ = ()

    kind: ClassVar[str]
    """Its name in the notation KIND:PARAMETERS[xCOUNT]."""

    example: ClassVar[str]
    """Parameters and count as a help text shows them."""

    words: ClassVar[tuple[str, str]]
    """The noun for one use and the format of its parameters, unless `in_words` has more to say."""

    calibrates: ClassVar[Literal["noise", "epsilon"] | None] = None
    """What a ? in place of its one parameter asks for: the smallest noise or the largest epsilon."""

    price_varies: ClassVar[bool] = False
    """Whether its price needs functions that machines round differently; such a price covers what they differ by."""

    def _set(self, **checked: float) -> None:
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def parameters(self) -> list[float]:
        """Return the parameters as the notation writes them."""
        return [getattr(self, field.name) for field in fields(self)]  # type: ignore[arg-type]  # every kind is one

    def in_words(self) -> tuple[str, str]:
        """Return the noun for one use and its parameters, as pages show them to people."""
        noun, shown = self.words
        return noun, shown.format(**{field.name: getattr(self, field.name) for field in fields(self)})  # type: ignore[arg-type]

    @abstractmethod
    def zero_concentrated(self) -> "ZeroConcentratedDP":
        """Return the approximate zCDP it implies; every guarantee implies one."""

    def pure(self) -> "PureDP | None":
        """Return the pure DP that it is converted and priced by; None for a kind with conversions of its own."""
        return None

    def concentrated(self) -> "ConcentratedDP | None":
        """Return the (mu, tau)-CDP it implies apart from outright failure, or None where none is known."""
        pure = self.pure()
        return None if pure is None else pure.concentrated()

    def largest_loss(self) -> Fraction | None:
        """Return a bound on the privacy loss apart from outright failure, as a rational; None when it is unbounded.

        Noise reaches it; of a class, no mechanism of it loses more.
        """
        return None

    def price(self, left: float) -> float:
        """Return what a use costs a Gaussian wallet with `left` behind it, failures aside; infinite without a pair."""
        pure = self.pure()
        return math.inf if pure is None else pure.price(left)

    def split_off_failure(self) -> "tuple[Guarantee | None, float]":
        """Return the guarantee that composes in its place when nothing fails, None for nothing, and P[failure]."""
        return self, 0.0

    def worst_known_example(self) -> "Guarantee | None":
        """Return known noise that satisfies the guarantee, as bad as we know some to be, or None.

        What such mechanisms compose to is a lower bound on what the guarantees alone can promise.
        """
        return self


@dataclass(frozen=True, slots=True)
class PureDP(Guarantee):
    """epsilon-differential privacy: every outcome's likelihood ratio lies within exp(±epsilon)."""

    kind = "pure"
    example = "0.1x25"
    words = "count", "ε {epsilon:.4g}"
    price_varies = True
    calibrates = "epsilon"

    epsilon: float

    def __post_init__(self) -> None:
        self._set(epsilon=check_epsilon(self.epsilon))

    def zero_concentrated(self) -> "ZeroConcentratedDP":
        """epsilon-DP implies epsilon tanh(epsilon/2)-zCDP, and no less.

        Theorem: docs/optimal-composition.md, "zCDP constants".
        """
        return ZeroConcentratedDP(rho=cover_rounding(self.epsilon * math.tanh(self.epsilon / 2)))

    def concentrated(self) -> "ConcentratedDP":
        """epsilon-DP implies (epsilon tanh(epsilon/2), epsilon)-CDP.

        Theorem: lem:subgaussBounds.
        """
        return ConcentratedDP(mu=cover_rounding(self.epsilon * math.tanh(self.epsilon / 2)), tau=self.epsilon)

    def price(self, left: float) -> float:
        return prices.pure_price(self.epsilon, left)

    def largest_loss(self) -> Fraction:
        return Fraction(self.epsilon)


@dataclass(frozen=True, slots=True)
class BoundedRange(Guarantee):
    """epsilon-bounded range: the log likelihood ratios span at most epsilon (exponential mechanisms)."""

    kind = "bounded-range"
    example = "0.1x25"
    words = "pick", "ε {epsilon:.4g}"
    price_varies = True
    calibrates = "epsilon"

    epsilon: float

    def __post_init__(self) -> None:
        self._set(epsilon=check_epsilon(self.epsilon))

    def mean_loss(self) -> float:
        """Return the largest mean privacy loss: a/(e^a - 1) - 1 - log(a/(e^a - 1)), a = epsilon.

        Theorem: lem:subgaussBounds. A series replaces the formula where it would cancel.
        """
        if self.epsilon < 0.25:
            square = self.epsilon**2  # the next term of this series is below 1e-14 of the sum
            return square / 8 - square**2 / 576 + square**3 / 25920 - square**4 / 1075200 + square**5 / 43545600
        ratio = self.epsilon / math.expm1(self.epsilon)
        return ratio - 1.0 - math.log(ratio)

    def zero_concentrated(self) -> "ZeroConcentratedDP":
        """epsilon-BR implies (mean - epsilon^2/8, epsilon^2/8)-zCDP; the first parameter is never positive.

        Theorem: lem:subgaussBounds with lem:CDPtozCDP.
        """
        converted = self.concentrated().zero_concentrated()
        return ZeroConcentratedDP(rho=converted.rho, xi=min(converted.xi, 0.0))

    def concentrated(self) -> "ConcentratedDP":
        """epsilon-BR implies (mean, epsilon/2)-CDP with the mean of `mean_loss`.

        Theorem: lem:subgaussBounds.
        """
        return ConcentratedDP(mu=self.mean_loss() * (1 + 1e-12), tau=self.epsilon / 2)

    def price(self, left: float) -> float:
        return prices.bounded_range_price(self.epsilon, left)

    def largest_loss(self) -> Fraction:
        """epsilon-BR implies epsilon-DP.

        Theorem: DurfeeRo19.
        """
        return Fraction(self.epsilon)

    def worst_known_example(self) -> PureDP | None:
        """Randomized response of half its epsilon is epsilon-BR: epsilon-DP implies 2 epsilon-BR.

        Theorem: DurfeeRo19.
        """
        return PureDP(epsilon=self.epsilon / 2) if self.epsilon >= 2 * SMALLEST_EPSILON else None


@dataclass(frozen=True, slots=True)
class Laplace(Guarantee):
    """Laplace noise of the given scale over the l1-sensitivity."""

    kind = "laplace"
    example = "10x5"
    words = "Laplace count", "scale {scale:.4g}"
    price_varies = True
    calibrates = "noise"

    scale: float

    def __post_init__(self) -> None:
        self._set(scale=check_within("scale", self.scale, 1 / LARGEST_EPSILON, LARGEST_SCALE))

    def pure(self) -> PureDP:
        """Laplace noise of scale b over the l1-sensitivity is 1/b-DP.

        Theorem: DworkMcNiSm06.
        """
        return PureDP(epsilon=up(1.0 / self.scale))

    def zero_concentrated(self) -> "ZeroConcentratedDP":
        """Laplace noise is (epsilon + e^-epsilon - 1)-zCDP, epsilon = 1/scale, and no less.

        Theorem: docs/optimal-composition.md, "zCDP constants". A series replaces the formula where it would cancel.
        """
        epsilon = self.pure().epsilon
        if epsilon >= 0.25:
            return ZeroConcentratedDP(rho=cover_rounding(epsilon + math.expm1(-epsilon)))
        # the terms alternate and shrink, and the last is positive
        share = math.fsum((-epsilon) ** n / math.factorial(n + 2) for n in range(11))
        return ZeroConcentratedDP(rho=cover_rounding(epsilon**2 * share))

    def price(self, left: float) -> float:
        return prices.laplace_price(self.pure().epsilon, left)

    def largest_loss(self) -> Fraction:
        return 1 / Fraction(self.scale)


@dataclass(frozen=True, slots=True)
class Gaussian(Guarantee):
    """Gaussian noise of standard deviation sigma over the l2-sensitivity."""

    kind = "gaussian"
    example = "20x3"
    words = "Gaussian count", "σ {sigma:.4g}"
    calibrates = "noise"

    sigma: float

    def __post_init__(self) -> None:
        self._set(sigma=check_within("sigma", self.sigma, SMALLEST_SIGMA, LARGEST_SCALE))

    @classmethod
    def merged(cls, uses: "Iterable[tuple[Gaussian, int]]") -> "Gaussian":
        """Return the one Gaussian that several compose to, its sigma rounded down.

        Theorem: Gaussian losses are Gaussian and add: sigma = (sum of 1/sigma_i^2)^(-1/2), exactly.
        """
        inverse_variance = sum((count / Fraction(each.sigma) ** 2 for each, count in uses), Fraction(0))
        sigma = 1.0 / math.sqrt(inverse_variance) * (1 + 4e-16)
        while Fraction(sigma) ** 2 * inverse_variance > 1:
            sigma = down(sigma)
        together = cls(sigma=1.0)
        together._set(sigma=sigma)  # many may have less noise together than one may be given
        return together

    def zero_concentrated(self) -> "ZeroConcentratedDP":
        """Gaussian noise is 1/(2 sigma^2)-zCDP.

        Theorem: BunSt16.
        """
        return ZeroConcentratedDP(rho=cover_rounding(0.5 / self.sigma**2))

    def concentrated(self) -> "ConcentratedDP":
        """Gaussian noise is (1/(2 sigma^2), 1/sigma)-CDP.

        Theorem: DworkRo16.
        """
        return ConcentratedDP(mu=cover_rounding(0.5 / self.sigma**2), tau=cover_rounding(1.0 / self.sigma))

    def price(self, left: float) -> float:  # noqa: ARG002 - it is the same whatever is left
        return prices.gaussian_price(self.sigma)


@dataclass(frozen=True, slots=True)
class ZeroConcentratedDP(Guarantee):
    """delta-approximate (xi, rho)-zCDP: outside an event of probability delta, D_a <= xi + a rho for every a > 1."""

    kind = "zcdp"
    example = "0.02x10"

    rho: float
    xi: float = 0.0
    delta: float = 0.0

    def __post_init__(self) -> None:
        self._set(
            rho=check_within("rho", self.rho, 0.0, LARGEST_RHO),
            xi=check_within("xi", self.xi, -LARGEST_RHO, LARGEST_RHO),
            delta=check_failure("delta", self.delta),
        )
        if self.xi < -self.rho:
            raise InvalidParameter(
                f"xi must be at least -rho = {-self.rho:g}, because a divergence is never negative, not {self.xi!r}"
            )
        if not (self.rho or self.xi or self.delta):
            raise InvalidParameter("rho, xi and delta cannot all be 0")

    def parameters(self) -> list[float]:
        return [self.rho, self.xi, self.delta] if self.delta else [self.rho, self.xi] if self.xi else [self.rho]

    def in_words(self) -> tuple[str, str]:
        return "zCDP use", f"ρ {self.rho:.4g}" + (f", δ {self.delta:.3g}" if self.delta else "")

    def zero_concentrated(self) -> "ZeroConcentratedDP":
        return self

    def split_off_failure(self) -> tuple[Guarantee | None, float]:
        return (ZeroConcentratedDP(rho=self.rho, xi=self.xi) if self.rho or self.xi else None), self.delta

    def worst_known_example(self) -> Guarantee | None:
        """Gaussian noise: alpha (rho + xi) is at most xi + alpha rho where xi is negative."""
        rho = self.rho + min(self.xi, 0.0)
        if not 1e-23 < rho < 4e5:
            return ApproxDP(epsilon=0.0, delta=self.delta) if self.delta else None
        return Gaussian(sigma=1 / math.sqrt(2 * rho) * (1 + 1e-14))


@dataclass(frozen=True, slots=True)
class ConcentratedDP(Guarantee):
    """(mu, tau)-concentrated DP: privacy loss of mean at most mu, tau-subgaussian about its mean."""

    kind = "cdp"
    example = "0.005,0.1x5"
    words = "concentrated use", "μ {mu:.4g}, τ {tau:.4g}"

    mu: float
    tau: float

    def __post_init__(self) -> None:
        self._set(mu=check_within("mu", self.mu, 0.0, LARGEST_RHO), tau=check_within("tau", self.tau, 0.0, LARGEST_RHO))
        if not (self.mu or self.tau):
            raise InvalidParameter("mu and tau cannot both be 0")

    def zero_concentrated(self) -> ZeroConcentratedDP:
        """(mu, tau)-CDP implies (mu - tau^2/2, tau^2/2)-zCDP.

        Theorem: lem:CDPtozCDP.
        """
        rho = cover_rounding(0.5 * self.tau**2)
        xi = float(Fraction(self.mu) - Fraction(self.tau) ** 2 / 2)
        return ZeroConcentratedDP(rho=rho, xi=max(up(xi), -rho))

    def concentrated(self) -> "ConcentratedDP":
        return self

    def worst_known_example(self) -> Guarantee | None:
        """Gaussian noise whose loss has a mean of at most mu, and a deviation of at most tau."""
        deviation = min(self.tau, math.sqrt(2 * self.mu))
        return Gaussian(sigma=1 / deviation * (1 + 1e-14)) if 1e-12 < deviation < 999 else None


@dataclass(frozen=True, slots=True)
class ApproxDP(Guarantee):
    """(epsilon, delta)-differential privacy; epsilon may be 0 (a threshold that only fails with probability delta)."""

    kind = "approx"
    example = "0.1,1e-9x3"
    price_varies = True

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        epsilon = check_number("epsilon", self.epsilon)
        self._set(epsilon=check_epsilon(epsilon) if epsilon else epsilon, delta=check_failure("delta", self.delta))
        if not (self.epsilon or self.delta):
            raise InvalidParameter("epsilon and delta cannot both be 0")

    def in_words(self) -> tuple[str, str]:
        if self.epsilon == 0.0:
            return "threshold", f"δ {self.delta:.3g}"
        return "approximate use", f"ε {self.epsilon:.4g}, δ {self.delta:.3g}"

    def zero_concentrated(self) -> ZeroConcentratedDP:
        return ZeroConcentratedDP(rho=cover_rounding(self.epsilon * math.tanh(self.epsilon / 2)), delta=self.delta)

    def concentrated(self) -> ConcentratedDP | None:
        return PureDP(epsilon=self.epsilon).concentrated() if self.epsilon else None

    def price(self, left: float) -> float:
        return prices.pure_price(self.epsilon, left) if self.epsilon else 0.0

    def largest_loss(self) -> Fraction:
        return Fraction(self.epsilon)

    def split_off_failure(self) -> tuple[Guarantee | None, float]:
        """(epsilon, delta)-DP is epsilon-DP outside an event of probability delta.

        Theorem: MurtaghVa16.
        """
        return (PureDP(epsilon=self.epsilon) if self.epsilon else None), self.delta


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(Guarantee):
    """Integer noise, P[z] proportional to exp(-|z| / scale), on an integer that moves by at most `sensitivity`."""

    kind = "discrete-laplace"
    example = "10,1"
    words = "integer Laplace count", "scale {scale:.4g}"
    price_varies = True

    scale: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        self._set(sensitivity=check_positive_integer("sensitivity", self.sensitivity))
        self._set(scale=check_within("scale", self.scale, self.sensitivity / LARGEST_EPSILON, LARGEST_SCALE))

    def pure(self) -> PureDP:
        """Integer Laplace noise of scale b on an integer of sensitivity s is s/b-DP.

        Theorem: GhoshRoSu12.
        """
        return PureDP(epsilon=up(self.sensitivity / self.scale))

    def zero_concentrated(self) -> ZeroConcentratedDP:
        return self.pure().zero_concentrated()

    def largest_loss(self) -> Fraction:
        return self.sensitivity / Fraction(self.scale)

    def split_off_failure(self) -> tuple[Guarantee, float]:
        if self.sensitivity == 1:
            return self.pure(), 0.0  # its loss takes two values: it is randomized response
        return (self if self.sensitivity <= MOST_NOISE_VALUES else self.zero_concentrated()), 0.0


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(Guarantee):
    """Integer noise, P[z] proportional to exp(-z^2 / (2 sigma^2)), on an integer that moves by `sensitivity`."""

    kind = "discrete-gaussian"
    example = "20,1"
    words = "integer Gaussian count", "σ {sigma:.4g}"

    sigma: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        self._set(sensitivity=check_positive_integer("sensitivity", self.sensitivity))
        self._set(sigma=check_within("sigma", self.sigma, 1e-3 * self.sensitivity, LARGEST_SCALE))

    def zero_concentrated(self) -> ZeroConcentratedDP:
        """Integer Gaussian noise on an integer of sensitivity s is s^2/(2 sigma^2)-zCDP.

        Theorem: CanonneKaSt20.
        """
        return ZeroConcentratedDP(rho=cover_rounding(0.5 * (self.sensitivity / self.sigma) ** 2))

    def price(self, left: float) -> float:
        return prices.integer_gaussian_price(self.sigma, self.sensitivity, left)

    def split_off_failure(self) -> tuple[Guarantee, float]:
        return (self if 80 * self.sigma <= MOST_NOISE_VALUES else self.zero_concentrated()), 0.0


@dataclass(frozen=True, slots=True)
class TruncatedDiscreteGaussian(Guarantee):
    """Discrete Gaussian noise restricted by law to {-bound, ..., bound}; what is off the overlap is lost outright."""

    kind = "truncated-gaussian"
    example = "20,80,1"
    words = "truncated Gaussian count", "σ {sigma:.4g}"

    sigma: float
    bound: int
    sensitivity: int = 1

    def __post_init__(self) -> None:
        self._set(
            sensitivity=check_positive_integer("sensitivity", self.sensitivity),
            bound=check_positive_integer("bound", self.bound),
        )
        self._set(sigma=check_within("sigma", self.sigma, 1e-3 * self.sensitivity, LARGEST_SCALE))
        if self.bound < self.sensitivity:
            raise InvalidParameter(f"bound must be at least the sensitivity {self.sensitivity}, not {self.bound}")

    def zero_concentrated(self) -> ZeroConcentratedDP:
        """Truncated integer Gaussian noise is delta-approximately s^2/(2 sigma^2)-zCDP, delta the mass off the overlap.

        Theorem: algo:truncGauss, on the integers (docs/truncated-gaussian-on-the-lattice.md).
        """
        rho = cover_rounding(0.5 * (self.sensitivity / self.sigma) ** 2)
        return ZeroConcentratedDP(rho=rho, delta=self.failure())

    def failure(self) -> float:
        """Return an upper bound on the chance of an outright failure: the mass off the overlap."""
        return prices.off_the_overlap(self.sigma, self.bound, self.sensitivity)

    def price(self, left: float) -> float:
        missing = prices.missing_mass(self.sigma, self.bound, self.sensitivity)
        return prices.integer_gaussian_price(self.sigma, self.sensitivity, left, missing)

    def largest_loss(self) -> Fraction:
        """Return the loss (2 T s - s^2)/(2 sigma^2) at the edge of the overlap."""
        return Fraction((2 * self.bound - self.sensitivity) * self.sensitivity) / (2 * Fraction(self.sigma) ** 2)

    def split_off_failure(self) -> tuple[Guarantee, float]:
        if 80 * self.sigma <= MOST_NOISE_VALUES:
            return self, self.failure()
        whole = self.zero_concentrated()
        return ZeroConcentratedDP(rho=whole.rho), whole.delta


_CLASSES_AND_NOISE = (PureDP, BoundedRange, Laplace, Gaussian, ZeroConcentratedDP, ConcentratedDP, ApproxDP)
_INTEGER_NOISE = (DiscreteLaplace, DiscreteGaussian, TruncatedDiscreteGaussian)

KINDS: dict[str, type[Guarantee]] = {each.kind: each for each in (*_CLASSES_AND_NOISE, *_INTEGER_NOISE)}
"""Every kind of guarantee, by its name in the notation."""


@dataclass(frozen=True, slots=True)
class Use:
    """`count` uses of mechanisms that each satisfy `guarantee`.

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

    >>> merged([Use(PureDP(epsilon=0.1), 2), Use(PureDP(epsilon=0.1), 3)])
    (Use(guarantee=PureDP(epsilon=0.1), count=5),)
    """
    counts: dict[Guarantee, int] = {}
    for use in uses:
        counts[use.guarantee] = counts.get(use.guarantee, 0) + use.count
    return tuple(Use(guarantee, count) for guarantee, count in counts.items())


class BoundedLoss(Protocol):
    """A guarantee or a law of which the largest privacy loss may be known."""

    def largest_loss(self) -> Fraction | None:
        """Return a bound on the privacy loss apart from outright failure, as a rational; None when it is unbounded."""
        ...


def total_loss(uses: Iterable[tuple[BoundedLoss, int]]) -> Fraction | None:
    """Return a bound on the loss of all uses together, failures aside, as a rational; None when it is unbounded.

    Theorem: DworkKeMcMiNa06 (basic composition).
    """
    total = Fraction(0)
    for guarantee, count in uses:
        loss = guarantee.largest_loss()
        if loss is None:
            return None
        total += count * loss
    return total


def largest_loss(uses: Iterable[tuple[BoundedLoss, int]]) -> float:
    """Return `total_loss` rounded up; infinite when it is unbounded."""
    total = total_loss(uses)
    return math.inf if total is None else float_above(total)
