"""`ClassifiedUses`: the mechanism uses of a composition, sorted by how they compose.

A use is of one of three classes: it has a fixed dominating pair (as noise of a known kind has), it has bounded range,
or only moments of its privacy loss are known (as for zCDP).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from setwise.accounting.adaptive.dynamic_program import Group
from setwise.accounting.brackets import Bracket, any_fails
from setwise.accounting.guarantees import BoundedRange, Gaussian, PureDP, Use
from setwise.accounting.losses.dominating_pairs import KnownNoise


@dataclass(frozen=True, slots=True)
class ClassifiedUses:
    """Mechanism uses (guarantees with counts), sorted by how they compose.

    - `uses` are the uses in their original order.
    - `linear` are the uses with fixed dominating pairs, as pairs (noise, count). All Gaussian uses are merged into one.
    - `ranges` are the bounded-range uses, as pairs (epsilon, count).
    - `failed` has the probabilities of outright failure (in which everything may be revealed) of all uses, as pairs
      (delta, count). `linear`, `ranges` and `classes` describe the uses given that none of them fails.
    - `classes` are all other uses, such as zCDP uses, of which only moments of the privacy loss are known.
    """

    # Failures are split off from `linear`, `ranges` and `classes`. They can be composed separately: a failure of
    # probability d turns a privacy profile f into d + (1 - d) f, and every operator on profiles keeps that form.

    uses: tuple[Use, ...]
    linear: tuple[tuple[KnownNoise, int], ...]
    ranges: tuple[Group, ...]
    failed: tuple[Group, ...]
    classes: tuple[Use, ...]

    @property
    def failure(self) -> Bracket:
        """Bracket for the probability that at least one use fails outright, so that everything may be revealed."""
        return any_fails(self.failed)

    def pure_epsilons(self) -> list[float] | None:
        """Return the epsilons of the uses with fixed dominating pairs if all of these uses are pure DP; None otherwise.

        There is one epsilon for each entry of `linear`, which may count several uses. Callers use closed forms for the
        largest delta, which are known only for pure DP next to bounded range.
        """
        epsilons = [known.epsilon for known, _ in self.linear if isinstance(known, PureDP)]
        return epsilons if len(epsilons) == len(self.linear) else None


def classify(uses: Sequence[Use]) -> ClassifiedUses:
    """Return `uses` sorted into linear uses (with a fixed dominating pair), bounded-range uses and others.

    The counts of equal linear uses, and of bounded-range uses of equal epsilon, are added up. All Gaussian uses become
    one equivalent Gaussian. Probabilities of outright failure (in which everything may be revealed) are listed
    separately, in `failed`.
    """
    linear: dict[KnownNoise, int] = {}
    ranges: dict[float, int] = {}
    failed: list[Group] = []
    classes: list[Use] = []
    gaussians: list[tuple[Gaussian, int]] = []
    for use in uses:
        successful, failure = use.guarantee.split_off_failure()
        if failure:
            failed.append((failure, use.count))
        match successful:
            case None:
                pass
            case BoundedRange(epsilon=epsilon):
                ranges[epsilon] = ranges.get(epsilon, 0) + use.count
            case Gaussian():
                gaussians.append((successful, use.count))
            case _ if isinstance(successful, KnownNoise):
                linear[successful] = linear.get(successful, 0) + use.count
            case _:
                classes.append(Use(successful, use.count))
    if gaussians:
        linear[Gaussian.merged(gaussians)] = 1
    return ClassifiedUses(
        tuple(uses), tuple(linear.items()), tuple(sorted(ranges.items())), tuple(failed), tuple(classes)
    )
