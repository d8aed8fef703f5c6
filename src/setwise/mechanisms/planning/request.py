"""What the planner is asked for: a histogram or a top k within bounds, and the total it may cost."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from setwise.accounting.checks import check_choice
from setwise.errors import InvalidParameter
from setwise.mechanisms.labels import Label, distinct_labels
from setwise.mechanisms.parameters import positive_integer, probability, rational

LIMIT = 1000
"""Among how many of the highest labels an unknown domain is searched, unless the bounds say otherwise."""

LARGEST_TOTAL = Fraction(100)


class CountNoise(StrEnum):
    """Whether counts come with the labels, and with which noise."""

    NONE = "none"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"
    BEST = "best"
    """Whichever plan is better."""


class MechanismName(StrEnum):
    """The mechanisms a question can be answered with; the Gumbel ones take counts in a second phase."""

    KNOWN_LAPLACE = "known_laplace"
    KNOWN_GAUSSIAN = "known_gaussian"
    KNOWN_GUMBEL = "known_gumbel"
    UNKNOWN_LAPLACE = "unknown_laplace"
    TRUNCATED_GAUSSIAN = "truncated_gaussian"
    UNKNOWN_GUMBEL = "unknown_gumbel"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """A histogram, or with `k` a top k, and how far one user reaches in it.

    A user counts towards at most `contributions` labels (None: any number) and adds at most `per_item` to each. The
    `domain` lists the labels when they are public; None when they are private, and then only the `limit` highest take
    part. Without a bound on contributions only a top k, or a known domain, can be answered.
    """

    k: int | None = None
    contributions: int | None = None
    per_item: int = 1
    domain: tuple[Label, ...] | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        for name in ("k", "contributions", "per_item", "limit"):
            value = getattr(self, name)
            if value is not None:
                positive_integer(name, value)
        if self.domain is not None:
            object.__setattr__(self, "domain", distinct_labels(self.domain))
            if not self.domain:
                raise InvalidParameter("domain must hold at least one label")
            if self.limit is not None:
                raise InvalidParameter("limit is for unknown domains; leave it out when a domain is given")
            if self.k is not None and self.k > len(self.domain):
                raise InvalidParameter(f"k must be at most {len(self.domain)}, the size of the domain, not {self.k}")
        if self.limit is not None and self.k is not None and self.limit < self.k:
            raise InvalidParameter(f"limit must be at least k = {self.k}, not {self.limit}")

    @property
    def changeable(self) -> int | None:
        """How many counts one user can change: no more than the domain has; None when there is no bound."""
        given = [self.contributions, None if self.domain is None else len(self.domain)]
        return min((bound for bound in given if bound is not None), default=None)

    @property
    def search_limit(self) -> int:
        """Among how many of the highest labels an unknown domain is searched."""
        return self.limit or max(LIMIT, self.k or 1)

    @property
    def rivals(self) -> int:
        """How many labels compete: the domain, or the limit of an unknown one."""
        return self.search_limit if self.domain is None else len(self.domain)


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """A total (epsilon, delta) for one question; the planner splits it between finding labels and counting them.

    `counts` and `mechanism` force what the planner would choose. delta may be 0 where no mechanism needs it: over a
    known domain.
    """

    epsilon: Fraction
    delta: Fraction
    counts: CountNoise = CountNoise.BEST
    mechanism: MechanismName | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", rational("epsilon", self.epsilon, Fraction(1, 10**6), LARGEST_TOTAL))
        delta = Fraction(0) if self.delta == 0 else probability("delta", self.delta)
        object.__setattr__(self, "delta", delta)
        object.__setattr__(self, "counts", check_choice("counts", self.counts, CountNoise))
        if self.mechanism is not None:
            object.__setattr__(self, "mechanism", check_choice("mechanism", self.mechanism, MechanismName))

    def to_dict(self) -> dict[str, object]:
        """Return the total as plain values."""
        forced = {} if self.mechanism is None else {"mechanism": str(self.mechanism)}
        numbers = {"epsilon": float(self.epsilon), "delta": float(self.delta)}
        return {"kind": "total", **numbers, "counts": str(self.counts), **forced}
