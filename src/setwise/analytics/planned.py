"""A question that is ready to be asked: mechanism, cost and expected error, all known before any data is touched."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from setwise.accounting.answer import Answer
from setwise.accounting.guarantees import Guarantee
from setwise.accounting.notation import format_use
from setwise.accounting.use import Use, merged
from setwise.analytics.aggregation import Aggregation
from setwise.analytics.query import Query
from setwise.mechanisms.known_gaussian import KnownGaussian
from setwise.mechanisms.known_gumbel import KnownGumbel
from setwise.mechanisms.known_laplace import KnownLaplace
from setwise.mechanisms.planner import Mechanism
from setwise.mechanisms.preview import Preview
from setwise.mechanisms.truncated_gaussian import TruncatedGaussian
from setwise.mechanisms.two_phase_top_k import TwoPhaseTopK
from setwise.mechanisms.unknown_gaussian import UnknownGaussian
from setwise.mechanisms.unknown_gumbel import UnknownGumbel
from setwise.mechanisms.unknown_laplace import UnknownLaplace


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """What will be run, what it is charged, and what to expect; `session.preview` returns one, for free.

    `uses` is the most that can be spent. `overall` is the guarantee of this question alone at `delta`, and `why` says
    in a sentence what the choice of mechanism was between. `prices` translates the mechanism's own guarantees into
    what the account registered. `shows_counts` is False when only labels were asked for. `alone` is the
    (epsilon, delta) of this question by itself where it brought a total of its own to an account.
    """

    query: Query
    aggregation: Aggregation
    mechanism: Mechanism
    name: str
    uses: tuple[Use, ...]
    overall: Answer
    delta: float
    preview: Preview
    why: str
    shows_counts: bool
    prices: tuple[tuple[Guarantee, Guarantee], ...] = ()
    alone: tuple[float, float] | None = None

    @property
    def most(self) -> int | None:
        """How many of the highest groups the mechanism reads; None when it reads all."""
        return groups_read(self.mechanism)

    def priced(self, spent: Sequence[Use]) -> tuple[Use, ...]:
        """Return the mechanism's uses in the words of the account."""
        words = dict(self.prices)
        return merged(Use(words.get(use.guarantee, use.guarantee), use.count) for use in spent)

    def unused(self, spent: Sequence[Use]) -> tuple[Use, ...]:
        """Return what was charged and not spent; `spent` is in the words of the account."""
        gone = {use.guarantee: use.count for use in merged(spent)}
        left = ((use.guarantee, use.count - gone.get(use.guarantee, 0)) for use in merged(self.uses))
        return tuple(Use(guarantee, count) for guarantee, count in left if count > 0)

    def __str__(self) -> str:
        uses = "  ".join(format_use(use) for use in self.uses)
        return f"{self.name}, at most {uses}; {self.why}"


def groups_read(mechanism: Mechanism) -> int | None:
    """Return how many of the highest groups a mechanism reads: one past its limit, or None for all."""
    match mechanism:
        case UnknownGumbel(limit=limit) | TwoPhaseTopK(discovery=UnknownGumbel(limit=limit)):
            return limit + 1
        case UnknownLaplace(limit=int() as limit):
            return limit + 1
        case KnownLaplace() | KnownGaussian() | KnownGumbel() | TwoPhaseTopK():
            return None
        case UnknownLaplace() | UnknownGaussian() | TruncatedGaussian():
            return None
        case _:
            assert_never(mechanism)
