"""Uses classified by how they compose: linear (a fixed dominating pair), bounded range, or by moments only."""

from collections.abc import Sequence
from dataclasses import dataclass

from setwise.accounting.guarantees import BoundedRange, Gaussian, PureDP, Use
from setwise.accounting.intervals import Bracket, failures
from setwise.accounting.losses.dominating_pairs import KnownNoise

Group = tuple[float, int]
"""A parameter and how often it occurs."""


@dataclass(frozen=True, slots=True)
class ClassifiedUses:
    """A multiset of uses: `linear` have fixed dominating pairs, `ranges` are bounded-range, `classes` the rest.

    `failed` lists (delta, count) of outright failures. They separate from everything else, because a profile that is
    raised by a constant share stays so under every operator.
    """

    linear: tuple[tuple[KnownNoise, int], ...]
    ranges: tuple[Group, ...]
    failed: tuple[Group, ...]
    classes: tuple[Use, ...]

    @property
    def failure(self) -> Bracket:
        """The chance that any use fails outright."""
        return failures(list(self.failed))

    def pure_epsilons(self) -> list[float] | None:
        """Return the epsilons of the linear uses when all are pure DP, else None."""
        epsilons = [known.epsilon for known, _ in self.linear if isinstance(known, PureDP)]
        return epsilons if len(epsilons) == len(self.linear) else None


def classify(uses: Sequence[Use]) -> ClassifiedUses:
    """Classify the uses, merging equal ones and all Gaussians."""
    linear: dict[KnownNoise, int] = {}
    ranges: dict[float, int] = {}
    failed: list[Group] = []
    classes: list[Use] = []
    gaussians: list[tuple[Gaussian, int]] = []
    for use in uses:
        rest, failure = use.guarantee.without_failure()
        if failure:
            failed.append((failure, use.count))
        match rest:
            case None:
                pass
            case BoundedRange(epsilon=epsilon):
                ranges[epsilon] = ranges.get(epsilon, 0) + use.count
            case Gaussian():
                gaussians.append((rest, use.count))
            case _ if isinstance(rest, KnownNoise):
                linear[rest] = linear.get(rest, 0) + use.count
            case _:
                classes.append(Use(rest, use.count))
    if gaussians:
        linear[Gaussian.merged(gaussians)] = 1
    return ClassifiedUses(tuple(linear.items()), tuple(sorted(ranges.items())), tuple(failed), tuple(classes))
