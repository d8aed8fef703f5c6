"""The kinds of guarantee that one use of a mechanism can satisfy, one class for each kind.

Neighbouring tables differ by one user added or removed. A *class* of mechanisms (pure DP, bounded range, concentrated
DP) is known only by the inequality that it satisfies. *Known noise* (Laplace, Gaussian and their integer versions) has
a known privacy loss, which composes better than the class it belongs to.

To add a kind, write its class and list it in `KINDS`: notation, REST patterns, help texts, words on pages, conversions
and composition all read the class.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cache
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
from setwise.accounting.promises import rounded_down, rounded_up
from setwise.errors import InvalidParameter
from setwise.records import set_fields

MOST_NOISE_VALUES = 4_000_000
"""Integer noise that takes more values than this is composed by its zCDP guarantee instead of being tabulated."""


@cache
def _parameter_names(kind: "type[Guarantee]") -> tuple[str, ...]:
    """Return the names of the parameters of a kind of guarantee, in the order in which its written form lists them.

    Example: in "approx:0.1,1e-6" the parameters are epsilon and delta.
    """
    return tuple(field.name for field in fields(kind))  # type: ignore[arg-type]  # every kind is a dataclass


_NOISE_SCALES = {"sigma", "scale"}
"""The parameters of guarantees that mean more privacy if they are larger."""


class Guarantee(ABC):
    """A guarantee that one use of a mechanism satisfies, such as pure DP, or known noise, such as a Gaussian.

    The fields of a subclass are its parameters, in the order of the notation.

    - `kind` is the name in the notation, such as "pure" in "pure:0.1x25"; `example` is the text after the colon, here
      "0.1x25", for help texts.
    - `words` are the noun for one use and the format of its parameters, for texts that people read.
    - `calibrates` says what a search may look for: the smallest "noise" or the largest "epsilon". None allows no
      search.
    - `price_varies`: whether the price of a use (the mu squared that it costs) is computed with functions that machines
      round differently. A check of a stored price on another machine then allows for a small difference.
    """

    __slots__ = ()

    kind: ClassVar[str]
    """Name of the kind in the notation KIND:PARAMETERS[xCOUNT]."""

    example: ClassVar[str]
    """Parameters and count as a help text shows them."""

    words: ClassVar[tuple[str, str]]
    """The noun for one use and the format of its parameters, for people; `in_words` may override them."""

    calibrates: ClassVar[Literal["noise", "epsilon"] | None] = None
    """What a "?" in place of the kind's one parameter asks for; None if "?" is not allowed."""

    price_varies: ClassVar[bool] = False
    """Whether machines may round the price differently; a margin in the price covers the difference."""

    def parameters(self) -> list[float]:
        """Return the guarantee's parameters in the order in which the notation, such as ``zcdp:0.02``, writes them."""
        return [getattr(self, name) for name in _parameter_names(type(self))]

    def in_words(self) -> tuple[str, str]:
        """Return two texts for pages that people read: the noun for one use, and its parameters.

        Example: ("pick", "ε 0.1"), because a bounded-range use is called a pick on pages. A noise scale is rounded
        down, and every other parameter up, to four digits, so that the text never promises more privacy than the use
        has.
        """
        noun, form = self.words
        digits = {
            field.name: (rounded_down if field.name in _NOISE_SCALES else rounded_up)(getattr(self, field.name), 4)
            for field in fields(self)  # type: ignore[arg-type]
        }
        return noun, form.format(**digits)

    @abstractmethod
    def zero_concentrated(self) -> "ZeroConcentratedDP":
        """Return the approximate (xi, rho)-zCDP guarantee that this guarantee implies; every guarantee implies one."""

    def pure(self) -> "PureDP | None":
        """Return the epsilon-DP that this guarantee implies if it is Laplace noise; else None.

        The noise may be continuous or on integers. Callers use it where Laplace noise has no conversion or price of its
        own. Other kinds of guarantee return None even if they imply pure DP, because they have conversions of their
        own.
        """
        return None

    def concentrated(self) -> "ConcentratedDP | None":
        """Return the (mu, tau)-CDP (concentrated DP) that this guarantee implies; None if no such conversion is known.

        (mu, tau)-CDP says that the privacy loss has a mean of at most mu and is tau-subgaussian about its mean. Here it
        holds only if no outright failure happens, an event in which everything may be revealed. Callers account for the
        probability of that event separately (see `split_off_failure`).
        """
        pure = self.pure()
        return None if pure is None else pure.concentrated()

    def largest_loss(self) -> Fraction | None:
        """Return an exact bound on the privacy loss of one use without outright failure; None if the loss is unbounded.

        An outright failure is an event in which everything may be revealed. No use has a larger loss unless it fails.
        If the guarantee is known noise, such as Laplace noise, some outcome has a loss equal to the bound, or nearly
        so.
        """
        return None

    def price(self, remaining: float) -> float:
        """Return how much one use costs in a budget of mu squared, if `remaining` is left in the budget after it.

        Mu is sensitivity / sigma of a Gaussian mechanism, and a Gaussian of mu^2 = `remaining` stands for all later
        uses. The price c is so large that one Gaussian of mu^2 = `remaining` + c dominates the use followed by that
        Gaussian. The less remains, the higher the price may be. The result is infinite if no price is known. The
        probability of outright failure (in which everything may be revealed) is not included.
        """
        pure = self.pure()
        return math.inf if pure is None else pure.price(remaining)

    def split_off_failure(self) -> "tuple[Guarantee | None, float]":
        """Return (guarantee, probability): the guarantee holds unless the mechanism fails outright.

        The probability is that of such a failure, in which everything may be revealed. For example, (epsilon, delta)-DP
        gives (epsilon-DP, delta). The guarantee may be a weaker one that is quicker to compose. It is None for a
        mechanism that reveals nothing unless it fails, such as a threshold (which hides groups whose noisy count is
        small).
        """
        return self, 0.0

    def worst_known_example(self) -> "Guarantee | None":
        """Return known noise that satisfies this guarantee and has nearly the largest privacy loss that it allows.

        The delta of this noise is a lower bound on the delta that can be promised from the guarantee alone. None if no
        such noise is known.
        """
        return self


@dataclass(frozen=True, slots=True)
class PureDP(Guarantee):
    """epsilon-differential privacy: every outcome's likelihood ratio lies between exp(-epsilon) and exp(epsilon)."""

    kind = "pure"
    example = "0.1x25"
    words = "count", "ε {epsilon}"
    price_varies = True
    calibrates = "epsilon"

    epsilon: float

    def __post_init__(self) -> None:
        set_fields(self, epsilon=check_epsilon(self.epsilon))

    def zero_concentrated(self) -> "ZeroConcentratedDP":
        """Return epsilon tanh(epsilon/2)-zCDP, which epsilon-DP implies.

        No smaller rho holds for all epsilon-DP mechanisms.

        Theorem: docs/optimal-composition.md, "zCDP constants".
        """
        return ZeroConcentratedDP(rho=cover_rounding(self.epsilon * math.tanh(self.epsilon / 2)))

    def concentrated(self) -> "ConcentratedDP":
        """Return the (mu, tau)-CDP that epsilon-DP implies, with mu = epsilon tanh(epsilon/2) and tau = epsilon.

        (mu, tau)-CDP (concentrated DP) says that the privacy loss has a mean of at most mu and is tau-subgaussian about
        its mean.

        Theorem: the paper's mean and subgaussian parameter of the privacy loss (lem:subgaussBounds).
        """
        return ConcentratedDP(mu=cover_rounding(self.epsilon * math.tanh(self.epsilon / 2)), tau=self.epsilon)

    def price(self, remaining: float) -> float:
        return prices.pure_price(self.epsilon, remaining)

    def largest_loss(self) -> Fraction:
        return Fraction(self.epsilon)


@dataclass(frozen=True, slots=True)
class BoundedRange(Guarantee):
    """epsilon-bounded range: the log likelihood ratios of any two outcomes differ by at most epsilon.

    Exponential mechanisms have bounded range.
    """

    kind = "bounded-range"
    example = "0.1x25"
    words = "pick", "ε {epsilon}"
    price_varies = True
    calibrates = "epsilon"

    epsilon: float

    def __post_init__(self) -> None:
        set_fields(self, epsilon=check_epsilon(self.epsilon))

    def mean_loss(self) -> float:
        """Return the largest mean privacy loss of a mechanism with this guarantee.

        With a the guarantee's epsilon, the result is a/(e^a - 1) - 1 - log(a/(e^a - 1)). For small a it is computed by
        a series, because the formula would lose digits.

        Theorem: the paper's mean and subgaussian parameter of the privacy loss (lem:subgaussBounds).
        """
        if self.epsilon < 0.25:
            square = self.epsilon**2  # the next term of this series is below 1e-14 of the sum
            return square / 8 - square**2 / 576 + square**3 / 25920 - square**4 / 1075200 + square**5 / 43545600
        ratio = self.epsilon / math.expm1(self.epsilon)
        return ratio - 1.0 - math.log(ratio)

    def zero_concentrated(self) -> "ZeroConcentratedDP":
        """Return (mean - epsilon^2/8, epsilon^2/8)-zCDP, which epsilon-bounded range implies.

        The mean is the largest mean privacy loss of a use (`mean_loss`). The first parameter, xi, is never positive.

        Theorem: the paper's lem:subgaussBounds, converted by lem:CDPtozCDP.
        """
        converted = self.concentrated().zero_concentrated()
        return ZeroConcentratedDP(rho=converted.rho, xi=min(converted.xi, 0.0))

    def concentrated(self) -> "ConcentratedDP":
        """Return the (mu, tau)-CDP that epsilon-bounded range implies, with mu = `mean_loss` and tau = epsilon/2.

        (mu, tau)-CDP (concentrated DP) says that the privacy loss has a mean of at most mu and is tau-subgaussian about
        its mean. `mean_loss` returns the largest mean privacy loss of a use.

        Theorem: the paper's mean and subgaussian parameter of the privacy loss (lem:subgaussBounds).
        """
        return ConcentratedDP(mu=self.mean_loss() * (1 + 1e-12), tau=self.epsilon / 2)

    def price(self, remaining: float) -> float:
        return prices.bounded_range_price(self.epsilon, remaining)

    def largest_loss(self) -> Fraction:
        """Return epsilon as the largest privacy loss, because epsilon-bounded range implies epsilon-DP.

        Theorem: DurfeeRo19.
        """
        return Fraction(self.epsilon)

    def worst_known_example(self) -> PureDP | None:
        """Return epsilon/2-DP randomized response, a known mechanism that has epsilon-bounded range.

        The delta of this mechanism is a lower bound on the delta that can be promised from bounded range alone. The
        result is None if epsilon/2 is below 1e-12, the least epsilon allowed.

        Theorem: epsilon-DP implies 2 epsilon-bounded range (DurfeeRo19).
        """
        return PureDP(epsilon=self.epsilon / 2) if self.epsilon >= 2 * SMALLEST_EPSILON else None


@dataclass(frozen=True, slots=True)
class Laplace(Guarantee):
    """Laplace noise; `scale` is the scale of the noise divided by the l1-sensitivity."""

    kind = "laplace"
    example = "10x5"
    words = "Laplace count", "scale {scale}"
    price_varies = True
    calibrates = "noise"

    scale: float

    def __post_init__(self) -> None:
        set_fields(self, scale=check_within("scale", self.scale, 1 / LARGEST_EPSILON, LARGEST_SCALE))

    def pure(self) -> PureDP:
        """Return 1/b-DP, which Laplace noise satisfies; b is its scale divided by the l1-sensitivity.

        Theorem: DworkMcNiSm06.
        """
        return PureDP(epsilon=up(1.0 / self.scale))

    def zero_concentrated(self) -> "ZeroConcentratedDP":
        """Return (epsilon + e^-epsilon - 1)-zCDP with epsilon = 1/scale, which Laplace noise satisfies.

        No smaller rho holds for Laplace noise. For small epsilon the result is computed by a series, because the
        formula would lose digits.

        Theorem: docs/optimal-composition.md, "zCDP constants".
        """
        epsilon = self.pure().epsilon
        if epsilon >= 0.25:
            return ZeroConcentratedDP(rho=cover_rounding(epsilon + math.expm1(-epsilon)))
        # The terms alternate and shrink, and the last one is positive, so the partial sum is an upper bound.
        share = math.fsum((-epsilon) ** n / math.factorial(n + 2) for n in range(11))
        return ZeroConcentratedDP(rho=cover_rounding(epsilon**2 * share))

    def price(self, remaining: float) -> float:
        return prices.laplace_price(self.pure().epsilon, remaining)

    def largest_loss(self) -> Fraction:
        return 1 / Fraction(self.scale)


@dataclass(frozen=True, slots=True)
class Gaussian(Guarantee):
    """Gaussian noise; `sigma` is its standard deviation divided by the l2-sensitivity."""

    kind = "gaussian"
    example = "20x3"
    words = "Gaussian count", "σ {sigma}"
    calibrates = "noise"

    sigma: float

    def __post_init__(self) -> None:
        set_fields(self, sigma=check_within("sigma", self.sigma, SMALLEST_SIGMA, LARGEST_SCALE))

    @classmethod
    def merged(cls, uses: "Iterable[tuple[Gaussian, int]]") -> "Gaussian":
        """Return the one Gaussian mechanism that has the same privacy loss as all of `uses`, pairs (Gaussian, count).

        Its sigma is rounded down: less noise reveals more, so bounds computed for the one mechanism hold for the uses.

        Theorem: Gaussian losses are Gaussian and add up, so sigma = (sum of 1/sigma_i^2)^(-1/2) exactly.
        """
        inverse_variance = sum((count / Fraction(gaussian.sigma) ** 2 for gaussian, count in uses), Fraction(0))
        sigma = 1.0 / math.sqrt(inverse_variance) * (1 + 4e-16)
        while Fraction(sigma) ** 2 * inverse_variance > 1:
            sigma = down(sigma)
        together = cls(sigma=1.0)
        set_fields(together, sigma=sigma)  # the sigma of many uses may be below the smallest that one use may have
        return together

    def zero_concentrated(self) -> "ZeroConcentratedDP":
        """Return 1/(2 sigma^2)-zCDP, which Gaussian noise satisfies.

        Theorem: BunSt16.
        """
        return ZeroConcentratedDP(rho=cover_rounding(0.5 / self.sigma**2))

    def concentrated(self) -> "ConcentratedDP":
        """Return the (mu, tau)-CDP that Gaussian noise satisfies, with mu = 1/(2 sigma^2) and tau = 1/sigma.

        (mu, tau)-CDP (concentrated DP) says that the privacy loss has a mean of at most mu and is tau-subgaussian about
        its mean.

        Theorem: DworkRo16.
        """
        return ConcentratedDP(mu=cover_rounding(0.5 / self.sigma**2), tau=cover_rounding(1.0 / self.sigma))

    def price(self, remaining: float) -> float:  # noqa: ARG002 - the price of a Gaussian does not depend on the balance
        return prices.gaussian_price(self.sigma)


@dataclass(frozen=True, slots=True)
class ZeroConcentratedDP(Guarantee):
    """delta-approximate (xi, rho)-zCDP, zero-concentrated differential privacy.

    Outside of an event of probability delta, the Renyi divergence of order a is at most xi + a rho for every a > 1.
    """

    kind = "zcdp"
    example = "0.02x10"

    rho: float
    xi: float = 0.0
    delta: float = 0.0

    def __post_init__(self) -> None:
        set_fields(
            self,
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
        return "zCDP use", f"ρ {rounded_up(self.rho, 4)}" + (f", δ {rounded_up(self.delta, 3)}" if self.delta else "")

    def zero_concentrated(self) -> "ZeroConcentratedDP":
        return self

    def split_off_failure(self) -> tuple[Guarantee | None, float]:
        return (ZeroConcentratedDP(rho=self.rho, xi=self.xi) if self.rho or self.xi else None), self.delta

    def worst_known_example(self) -> Guarantee | None:
        """Return Gaussian noise that is (rho + min(xi, 0))-zCDP, and hence satisfies this (xi, rho)-zCDP guarantee.

        If the noise would need a sigma out of range, the result is a mechanism that reveals nothing except when it
        fails with probability delta, or None if delta is 0.
        """
        # For a negative xi this holds because alpha (rho + xi) <= xi + alpha rho at every order alpha > 1.
        rho = self.rho + min(self.xi, 0.0)
        if not 1e-23 < rho < 4e5:
            return ApproxDP(epsilon=0.0, delta=self.delta) if self.delta else None
        return Gaussian(sigma=1 / math.sqrt(2 * rho) * (1 + 1e-14))


@dataclass(frozen=True, slots=True)
class ConcentratedDP(Guarantee):
    """(mu, tau)-concentrated DP: the privacy loss has a mean of at most mu and is tau-subgaussian about its mean."""

    kind = "cdp"
    example = "0.005,0.1x5"
    words = "concentrated use", "μ {mu}, τ {tau}"

    mu: float
    tau: float

    def __post_init__(self) -> None:
        set_fields(
            self, mu=check_within("mu", self.mu, 0.0, LARGEST_RHO), tau=check_within("tau", self.tau, 0.0, LARGEST_RHO)
        )
        if not (self.mu or self.tau):
            raise InvalidParameter("mu and tau cannot both be 0")

    def zero_concentrated(self) -> ZeroConcentratedDP:
        """Return (mu - tau^2/2, tau^2/2)-zCDP, which (mu, tau)-CDP implies.

        Theorem: the paper's conversion of CDP to zCDP (lem:CDPtozCDP).
        """
        rho = cover_rounding(0.5 * self.tau**2)
        xi = float(Fraction(self.mu) - Fraction(self.tau) ** 2 / 2)
        return ZeroConcentratedDP(rho=rho, xi=max(up(xi), -rho))

    def concentrated(self) -> "ConcentratedDP":
        return self

    def worst_known_example(self) -> Guarantee | None:
        """Return Gaussian noise that satisfies this (mu, tau)-CDP guarantee.

        The privacy loss of the noise has a mean of at most mu and a standard deviation of at most tau. None if the
        noise would need a sigma out of range.
        """
        deviation = min(self.tau, math.sqrt(2 * self.mu))
        return Gaussian(sigma=1 / deviation * (1 + 1e-14)) if 1e-12 < deviation < 999 else None


@dataclass(frozen=True, slots=True)
class ApproxDP(Guarantee):
    """(epsilon, delta)-differential privacy.

    An `epsilon` of 0 is for a threshold (which hides groups whose noisy count is small): it reveals nothing except when
    it fails, with probability `delta`.
    """

    kind = "approx"
    example = "0.1,1e-9x3"
    price_varies = True

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        epsilon = check_number("epsilon", self.epsilon)
        set_fields(
            self, epsilon=check_epsilon(epsilon) if epsilon else epsilon, delta=check_failure("delta", self.delta)
        )
        if not (self.epsilon or self.delta):
            raise InvalidParameter("epsilon and delta cannot both be 0")

    def in_words(self) -> tuple[str, str]:
        if self.epsilon == 0.0:
            return "threshold", f"δ {rounded_up(self.delta, 3)}"
        return "approximate use", f"ε {rounded_up(self.epsilon, 4)}, δ {rounded_up(self.delta, 3)}"

    def zero_concentrated(self) -> ZeroConcentratedDP:
        return ZeroConcentratedDP(rho=cover_rounding(self.epsilon * math.tanh(self.epsilon / 2)), delta=self.delta)

    def concentrated(self) -> ConcentratedDP | None:
        return PureDP(epsilon=self.epsilon).concentrated() if self.epsilon else None

    def price(self, remaining: float) -> float:
        return prices.pure_price(self.epsilon, remaining) if self.epsilon else 0.0

    def largest_loss(self) -> Fraction:
        return Fraction(self.epsilon)

    def split_off_failure(self) -> tuple[Guarantee | None, float]:
        """Return (epsilon-DP, delta): the guarantee without outright failure, and the probability of such a failure.

        In an outright failure everything may be revealed. The first member is None if epsilon is 0, because the
        mechanism then reveals nothing unless it fails.

        Theorem: (epsilon, delta)-DP is epsilon-DP outside of an event of probability delta (MurtaghVa16).
        """
        return (PureDP(epsilon=self.epsilon) if self.epsilon else None), self.delta


@dataclass(frozen=True, slots=True)
class DiscreteLaplace(Guarantee):
    """Integer Laplace noise: P[noise = z] is proportional to exp(-|z| / scale) for every integer z.

    The noise is added to an integer that one user changes by at most `sensitivity`.
    """

    kind = "discrete-laplace"
    example = "10,1"
    words = "integer Laplace count", "scale {scale}"
    price_varies = True

    scale: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        set_fields(self, sensitivity=check_positive_integer("sensitivity", self.sensitivity))
        set_fields(self, scale=check_within("scale", self.scale, self.sensitivity / LARGEST_EPSILON, LARGEST_SCALE))

    def pure(self) -> PureDP:
        """Return s/b-DP, which integer Laplace noise of scale b on an integer of sensitivity s satisfies.

        Theorem: GhoshRoSu12.
        """
        return PureDP(epsilon=up(self.sensitivity / self.scale))

    def zero_concentrated(self) -> ZeroConcentratedDP:
        return self.pure().zero_concentrated()

    def largest_loss(self) -> Fraction:
        return self.sensitivity / Fraction(self.scale)

    def split_off_failure(self) -> tuple[Guarantee, float]:
        if self.sensitivity == 1:
            return self.pure(), 0.0  # with sensitivity 1 the loss takes two values, as that of randomized response
        return (self if self.sensitivity <= MOST_NOISE_VALUES else self.zero_concentrated()), 0.0


@dataclass(frozen=True, slots=True)
class DiscreteGaussian(Guarantee):
    """Integer Gaussian noise: P[noise = z] is proportional to exp(-z^2 / (2 sigma^2)) for every integer z.

    The noise is added to an integer that one user changes by at most `sensitivity`.
    """

    kind = "discrete-gaussian"
    example = "20,1"
    words = "integer Gaussian count", "σ {sigma}"

    sigma: float
    sensitivity: int = 1

    def __post_init__(self) -> None:
        set_fields(self, sensitivity=check_positive_integer("sensitivity", self.sensitivity))
        set_fields(self, sigma=check_within("sigma", self.sigma, 1e-3 * self.sensitivity, LARGEST_SCALE))

    def zero_concentrated(self) -> ZeroConcentratedDP:
        """Return the zCDP of this noise: rho = s^2 / (2 sigma^2), where s is the sensitivity; xi is 0.

        Theorem: CanonneKaSt20.
        """
        return ZeroConcentratedDP(rho=cover_rounding(0.5 * (self.sensitivity / self.sigma) ** 2))

    def price(self, remaining: float) -> float:
        return prices.integer_gaussian_price(self.sigma, self.sensitivity, remaining)

    def split_off_failure(self) -> tuple[Guarantee, float]:
        return (self if 80 * self.sigma <= MOST_NOISE_VALUES else self.zero_concentrated()), 0.0


@dataclass(frozen=True, slots=True)
class TruncatedDiscreteGaussian(Guarantee):
    """Integer Gaussian noise of parameter `sigma`, conditioned on the values {-bound, ..., bound}.

    The noise is added to an integer that one user changes by at most `sensitivity`. An outcome that only one of two
    neighbouring tables can produce reveals which table it was; it counts as an outright failure.
    """

    kind = "truncated-gaussian"
    example = "20,80,1"
    words = "truncated Gaussian count", "σ {sigma}"

    sigma: float
    bound: int
    sensitivity: int = 1

    def __post_init__(self) -> None:
        set_fields(
            self,
            sensitivity=check_positive_integer("sensitivity", self.sensitivity),
            bound=check_positive_integer("bound", self.bound),
        )
        set_fields(self, sigma=check_within("sigma", self.sigma, 1e-3 * self.sensitivity, LARGEST_SCALE))
        if self.bound < self.sensitivity:
            raise InvalidParameter(f"bound must be at least the sensitivity {self.sensitivity}, not {self.bound}")

    def zero_concentrated(self) -> ZeroConcentratedDP:
        """Return delta-approximate s^2/(2 sigma^2)-zCDP, which truncated integer Gaussian noise satisfies.

        sigma is the noise scale, and s the sensitivity. delta is the probability of an outcome that only one of two
        neighbouring tables can produce; such an outcome may reveal everything.

        Theorem: the paper's truncated Gaussian (algo:truncGauss), on the integers
        (docs/truncated-gaussian-on-the-lattice.md).
        """
        rho = cover_rounding(0.5 * (self.sensitivity / self.sigma) ** 2)
        return ZeroConcentratedDP(rho=rho, delta=self.failure())

    def failure(self) -> float:
        """Return an upper bound on the probability that truncated integer Gaussian noise fails outright.

        The noise fails if the outcome is one that only one of two neighbouring tables can produce, because such an
        outcome reveals which table it is.
        """
        return prices.off_the_overlap(self.sigma, self.bound, self.sensitivity)

    def price(self, remaining: float) -> float:
        missing = prices.missing_mass(self.sigma, self.bound, self.sensitivity)
        return prices.integer_gaussian_price(self.sigma, self.sensitivity, remaining, missing)

    def largest_loss(self) -> Fraction:
        """Return the largest privacy loss of truncated integer Gaussian noise: (2 T s - s^2)/(2 sigma^2).

        T is the bound at which noise is truncated, s the sensitivity, and sigma the noise parameter. The loss occurs at
        the edge of the outcomes that both of two neighbouring tables can produce.
        """
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
        set_fields(self, count=check_count(self.count))


def merged(uses: Iterable[Use]) -> tuple[Use, ...]:
    """Return `uses` with the counts of equal guarantees added up, in the order in which guarantees first appear.

    >>> merged([Use(PureDP(epsilon=0.1), 2), Use(PureDP(epsilon=0.1), 3)])
    (Use(guarantee=PureDP(epsilon=0.1), count=5),)
    """
    counts: dict[Guarantee, int] = {}
    for use in uses:
        counts[use.guarantee] = counts.get(use.guarantee, 0) + use.count
    return tuple(Use(guarantee, count) for guarantee, count in counts.items())


class BoundedLoss(Protocol):
    """Protocol of an object that can state the largest privacy loss of one use: a guarantee or a loss distribution."""

    def largest_loss(self) -> Fraction | None:
        """Return an exact bound on the privacy loss of one use, unless it fails outright; None if there is no bound.

        An outright failure is an event in which everything may be revealed.
        """
        ...


def total_loss(uses: Iterable[tuple[BoundedLoss, int]]) -> Fraction | None:
    """Return an exact bound on the privacy loss of all `uses` together without outright failure; None if unbounded.

    `uses` are pairs (guarantee or loss distribution, count). An outright failure is an event in which everything may be
    revealed. The bound is the sum of the largest losses.

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
    """Return the largest privacy loss that all `uses` together can have, rounded up; infinite if it is unbounded.

    `uses` are pairs (guarantee or loss distribution, count). Outright failures (events in which everything may be
    revealed) are excluded.
    """
    total = total_loss(uses)
    return math.inf if total is None else float_above(total)
