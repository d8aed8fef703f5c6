"""A question to plan for: what is asked, what it may cost, and which cell of the table it falls in."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from setwise.errors import InvalidParameter
from setwise.mechanisms.histogram import Label, distinct_labels
from setwise.mechanisms.parameters import positive_integer, probability, rational

LIMIT = 1000
"""Among how many of the highest labels an unknown domain is searched, unless the question says otherwise."""


class CountNoise(StrEnum):
    """Whether counts come with the labels, and with which noise."""

    NONE = "none"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"
    BEST = "best"
    """Whichever plan is better."""

    @classmethod
    def parse(cls, value: "str | CountNoise") -> "CountNoise":
        """Return the noise of that name or raise `InvalidParameter`."""
        try:
            return cls(value)
        except ValueError:
            raise InvalidParameter(f"counts must be one of {', '.join(cls)}, not {value!r}") from None


class MechanismName(StrEnum):
    """The mechanisms a question can be answered with; the Gumbel ones take counts in a second phase."""

    KNOWN_LAPLACE = "known_laplace"
    KNOWN_GAUSSIAN = "known_gaussian"
    KNOWN_GUMBEL = "known_gumbel"
    UNKNOWN_LAPLACE = "unknown_laplace"
    TRUNCATED_GAUSSIAN = "truncated_gaussian"
    UNKNOWN_GUMBEL = "unknown_gumbel"

    @classmethod
    def parse(cls, value: "str | MechanismName") -> "MechanismName":
        """Return the mechanism of that name or raise `InvalidParameter`."""
        try:
            return cls(value)
        except ValueError:
            raise InvalidParameter(f"mechanism must be one of {', '.join(cls)}, not {value!r}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A histogram or a top k, the privacy it may cost, and which cell of the table applies.

    `domain` is None when the labels themselves are private; `contributions` is None when a user may appear under
    any number of labels, and then only a top k, or a known domain, can be answered. delta may be 0 over a known domain.
    `mechanism` forces the planner's choice.
    """

    epsilon: Fraction
    delta: Fraction
    k: int | None = None
    contributions: int | None = None
    per_item: int = 1
    domain: tuple[Label, ...] | None = None
    counts: CountNoise = CountNoise.BEST
    limit: int | None = None
    mechanism: MechanismName | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", rational("epsilon", self.epsilon, Fraction(1, 10**6), Fraction(100)))
        if self.domain is None and self.delta == 0:
            raise InvalidParameter("delta must be above 0 over an unknown domain: give a delta, or the domain")
        if self.delta != 0:
            object.__setattr__(self, "delta", probability("delta", self.delta))
        for name in ("k", "contributions", "limit"):
            value = getattr(self, name)
            if value is not None:
                positive_integer(name, value)
        positive_integer("per_item", self.per_item)
        if self.domain is not None:
            object.__setattr__(self, "domain", distinct_labels(self.domain))
        object.__setattr__(self, "counts", CountNoise.parse(self.counts))
        if self.mechanism is not None:
            object.__setattr__(self, "mechanism", MechanismName.parse(self.mechanism))
        if self.contributions is None and self.k is None and self.domain is None:
            raise InvalidParameter(
                "without a bound on contributions only a top k or a known domain can be answered: give one of them"
            )
        if self.counts is CountNoise.NONE and self.k is None:
            raise InvalidParameter("a histogram without counts says nothing: give k, or ask for counts")
