"""Input of the planner: a histogram or a top k with its contribution bounds, and its budget."""

from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from setwise.accounting.checks import check_choice
from setwise.errors import InvalidParameter
from setwise.mechanisms.labels import Label, distinct_labels
from setwise.mechanisms.parameters import positive_integer, probability, rational
from setwise.records import set_fields

LIMIT = 1000
"""Number of the highest labels that take part in the search of an unknown domain, unless `Bounds` says otherwise."""

LARGEST_TOTAL = Fraction(100)


class CountNoise(StrEnum):
    """Which noise the released counts get: "none" (no counts are released), "laplace", "gaussian", or "best".

    "best" lets the planner take the better one of Laplace and Gaussian noise.
    """

    NONE = "none"
    LAPLACE = "laplace"
    GAUSSIAN = "gaussian"
    BEST = "best"
    """Laplace or Gaussian noise, whichever gives the better plan."""


class MechanismName(StrEnum):
    """Names of the mechanisms that can answer a histogram or top-k query.

    Gumbel mechanisms pick groups first and then, if counts are wanted, release noisy counts of the picked groups.
    """

    KNOWN_LAPLACE = "known_laplace"
    KNOWN_GAUSSIAN = "known_gaussian"
    KNOWN_GUMBEL = "known_gumbel"
    UNKNOWN_LAPLACE = "unknown_laplace"
    TRUNCATED_GAUSSIAN = "truncated_gaussian"
    UNKNOWN_GUMBEL = "unknown_gumbel"
    WEIGHTED_ROUNDS = "weighted_rounds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """A histogram query, or with `k` a top-k query, and the bounds on what one user contributes to it.

    - `k` is how many groups with the highest counts are wanted; None for a histogram, which wants all groups.
    - `contributions` is the most groups towards which a user counts (None: any number; only for a top k or a known
      domain).
    - `per_item` is the most that a user adds to one group.
    - `domain` lists the groups if they are public; None if they are private.
    - `limit`: only this many private groups, those with the highest exact counts, can be released (None: the default
      number).
    - `weighable` says that the table tells users apart, so that private groups can be found by sums of users' weights.

    Raises: `InvalidParameter` for values out of range, an empty domain, a limit next to a domain, or k above the
    domain's size or the limit.
    """

    k: int | None = None
    contributions: int | None = None
    per_item: int = 1
    domain: tuple[Label, ...] | None = None
    limit: int | None = None
    weighable: bool = False

    def __post_init__(self) -> None:
        for name in ("k", "contributions", "per_item", "limit"):
            value = getattr(self, name)
            if value is not None:
                positive_integer(name, value)
        if self.domain is not None:
            set_fields(self, domain=distinct_labels(self.domain))
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
        """Number of counts that one user can change; None if nothing bounds this number.

        It is the smaller one of the contribution bound (the most groups to which one user adds) and the size of the
        public domain.
        """
        limits = [self.contributions, None if self.domain is None else len(self.domain)]
        return min((bound for bound in limits if bound is not None), default=None)

    @property
    def search_limit(self) -> int:
        """The largest number of private groups that can be released: those with the highest exact counts take part.

        It is the field `limit`, which the query may state. Without it, the number is 1000, or k if k is larger, so that
        the database need not return all counts.
        """
        return self.limit or max(LIMIT, self.k or 1)

    @property
    def rivals(self) -> int:
        """The number of groups that compete to be among the top k.

        The expected error of the ranking is computed from it. It is the number of public groups or, for private groups,
        `search_limit`: only that many groups with the highest exact counts take part.
        """
        return self.search_limit if self.domain is None else len(self.domain)


@dataclass(frozen=True, slots=True, kw_only=True, init=False)
class Total:
    """The (epsilon, delta) budget of one query, which the planner splits between finding groups and counting them.

    - `delta` may be 0 if the groups are public (a known domain) and the mechanism needs no delta.
    - `counts` is the kind of noise on released counts; BEST lets the planner choose it.
    - `mechanism` forces one mechanism; None lets the planner choose it.
    - `from_accuracy` is True if the analyst stated a wanted accuracy of counts, and epsilon was derived from it.
      Counting then gets a larger share of the budget.
    """

    epsilon: Fraction
    delta: Fraction
    counts: CountNoise
    mechanism: MechanismName | None
    from_accuracy: bool

    def __init__(
        self,
        *,
        epsilon: float | Fraction,
        delta: float | Fraction,
        counts: str = CountNoise.BEST,
        mechanism: str | None = None,
        from_accuracy: bool = False,
    ) -> None:
        set_fields(
            self,
            epsilon=rational("epsilon", epsilon, Fraction(1, 10**6), LARGEST_TOTAL),
            delta=Fraction(0) if delta == 0 else probability("delta", delta),
            counts=check_choice("counts", counts, CountNoise),
            mechanism=None if mechanism is None else check_choice("mechanism", mechanism, MechanismName),
            from_accuracy=from_accuracy,
        )

    def to_dict(self) -> dict[str, object]:
        """Return the query's budget as a JSON object with the keys kind (always "total"), epsilon, delta and counts.

        `counts` is the kind of noise on released counts: "none", "laplace", "gaussian" or "best". If the query forces a
        mechanism, the key `mechanism` has its name; otherwise this key is left out.
        """
        forced = {} if self.mechanism is None else {"mechanism": str(self.mechanism)}
        numbers = {"epsilon": float(self.epsilon), "delta": float(self.delta)}
        return {"kind": "total", **numbers, "counts": str(self.counts), **forced}
