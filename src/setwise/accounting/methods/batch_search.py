"""Search for the batch with the largest delta: one parameter t for the bounded-range mechanisms of each epsilon.

In a batch all mechanisms are chosen up front. The worst epsilon-bounded-range mechanism is a randomized response with a
parameter t between 0 and epsilon: it has two outcomes, with the privacy losses t and t - epsilon. Mechanisms of equal
epsilon have the same t, so a choice is a tuple with one t for each distinct epsilon. The search only proposes choices.
A function that the caller passes in returns the certified delta of each choice, so no proof depends on this search.
"""

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from setwise.accounting.adaptive.dynamic_program import Group
from setwise.accounting.brackets import Bracket, epsilon_at
from setwise.accounting.losses.lattice import worst_t

Choice = tuple[float, ...]
"""One parameter t for each distinct epsilon."""


@dataclass(frozen=True, slots=True)
class BatchSearchConfig:
    """Constants of the search for the worst batch, in which bounded-range mechanisms are randomized responses.

    A batch is a set of mechanisms that are all chosen up front. The worst epsilon-bounded-range mechanism is a
    randomized response, whose privacy loss is t or t - epsilon. Mechanisms of equal epsilon have the same t, and the
    search looks for the t of each epsilon with which the batch has the largest delta. The texts below the constants use
    these words:

    - A choice has one t for each distinct epsilon.
    - A climb changes one t after the other, as long as delta rises. The steps by which it changes t are shares of
      epsilon.
    - An outcome says, for each distinct epsilon, how many responses had the loss t.
    """

    most_outcomes: int = 20_000
    """If there are more outcomes than this, the search returns its start, because each evaluation would take too
    long."""
    most_scanned: int = 256
    most_scanned_work: int = 50_000
    """The search starts with a scan of at most `most_scanned` evenly spaced choices; this is the largest number of
    choices times outcomes. The scan matters for few mechanisms, whose delta has several local maxima."""
    margin: float = 1e-6
    """A t stays at least this share of epsilon away from 0 and from epsilon, because there the mechanism reveals
    nothing."""
    first_step: float = 0.1
    last_step: float = 1e-3
    smallest_step: float = 1e-6
    """Steps of a climb halve from `first_step` to `last_step`, and on to `smallest_step` while they still gain, as they
    do for epsilons near the largest total loss."""
    flat: float = 1e-5
    """A relative gain in delta below this counts as none."""
    settled: float = 1e-7
    """A relative gain in epsilon below this counts as none."""
    most_climbs: int = 12
    """For a wanted delta, the search alternates: it climbs at a fixed overall epsilon, and then computes the epsilon at
    which the choice reached has the wanted delta. This is the largest number of such rounds."""
    most_tried: int = 800
    """Largest number of choices that one climb evaluates; proportionally fewer if there are more outcomes than
    `few_outcomes`."""
    few_outcomes: int = 8_000
    slowest: float = 1e-3
    """Smallest rate at which log delta is assumed to fall with epsilon."""


CONFIG = BatchSearchConfig()


def outcome_count(groups: tuple[Group, ...]) -> float:
    """Return approximately how many joint outcomes a batch has, without outcomes of negligible probability.

    `groups` are bounded-range mechanisms as (epsilon, count), each replaced by a randomized response with two outcomes.
    A joint outcome says, for each group, how many mechanisms had the first of the two outcomes. With 3 and 4 mechanisms
    there are 4 * 5 of them:

    >>> outcome_count(((0.1, 3), (0.2, 4)))
    20
    """
    return math.prod(min(count + 1, 200 + 30 * math.sqrt(count)) for _, count in groups)


@dataclass(frozen=True, slots=True)
class BatchSearch:
    """Search for the largest delta of a batch, that is, of mechanisms that are all chosen up front.

    Among the mechanisms that satisfy epsilon-bounded range, some randomized response with the two losses t and t -
    epsilon is the worst, for a t in (0, epsilon). So the search has one unknown t for each distinct epsilon. A tuple of
    these t is called a choice.

    - `groups` are the bounded-range mechanisms as (epsilon, count), one pair for each distinct epsilon.
    - `at(choice, x)` computes delta at the overall epsilon x for one choice, as a bracket (a certified interval). The
      entries of the choice are in the order of `groups`.
    - `largest` is the largest total privacy loss that all mechanisms of the batch can have together.
    """

    groups: tuple[Group, ...]
    at: Callable[[Choice, float], Bracket]
    largest: float

    def start(self, x: float, tilt: float) -> Choice:
        """Return parameters t from which the search for the largest delta at the overall epsilon `x` starts to climb.

        The batch (mechanisms all chosen up front) has randomized responses with the losses t and t - epsilon, and one t
        for each distinct epsilon. Several candidates for these t are compared, and the candidate with the largest delta
        is returned. One candidate is the worst t if log delta falls with the overall epsilon at the rate `tilt`, which
        is the caller's estimate.
        """
        # The returned choice has the largest delta among an evenly spaced scan and two further candidates. The first
        # candidate has the t that are worst if delta falls with the overall epsilon y like exp(-`tilt` y). In the
        # second candidate every t is its group's epsilon minus one common amount; this is good if x is close to the
        # largest loss of all mechanisms together.
        usual = tuple(worst_t(epsilon, max(tilt, 1e-9)) for epsilon, _ in self.groups)
        short = (self.largest - x) / (1 + sum(count for _, count in self.groups))
        last = tuple(max(epsilon - short, CONFIG.margin * epsilon) for epsilon, _ in self.groups)
        return max([usual, last, *self._scan()], key=lambda choice: self.at(choice, x).lower)

    def hill_climb(self, x: float, choice: Choice) -> Choice:
        """Return a choice of parameters t whose delta is at least the delta of `choice`, by climbing from `choice`.

        A choice has one t for the randomized responses of each epsilon, whose losses are t and t - epsilon. Delta is
        taken at the overall epsilon `x`. The search moves one t at a time, as long as delta rises. If the responses
        have too many joint outcomes, `choice` is returned unchanged.
        """
        # If the responses have too many joint outcomes, `choice` is returned unchanged.
        if outcome_count(self.groups) > CONFIG.most_outcomes:
            return choice
        best, before = self.at(choice, x).lower, 0.0
        step = CONFIG.first_step
        remaining_tries = CONFIG.most_tried / max(1.0, outcome_count(self.groups) / CONFIG.few_outcomes)
        while step > CONFIG.smallest_step and (step > CONFIG.last_step or best > before * (1 + CONFIG.flat)):
            before = best
            while remaining_tries > 0.0 and (better := self._neighbour(x, choice, step, best)) is not None:
                choice, best = better
                remaining_tries -= len(self.groups)
            remaining_tries -= 2 * len(self.groups)
            if remaining_tries <= 0.0:
                break
            step /= 2.0
        return choice

    def _scan(self) -> list[Choice]:
        """Return evenly spaced choices of the parameters t, among which the search for the worst choice starts.

        The worst choice has the largest delta. A choice is a tuple with one t for the randomized responses of each
        epsilon, whose losses are t and t - epsilon. The values of t cover (0, epsilon). The list is empty if the
        allowed work is not enough for three values per epsilon.
        """
        most = min(CONFIG.most_scanned, CONFIG.most_scanned_work / outcome_count(self.groups))
        number = int(most ** (1.0 / len(self.groups)))
        if number < 3:
            return []
        shares = [(index + 0.5) / number for index in range(number)]
        return list(itertools.product(*([share * epsilon for share in shares] for epsilon, _ in self.groups)))

    def _neighbour(self, x: float, choice: Choice, step: float, best: float) -> tuple[Choice, float] | None:
        """Return a better choice of parameters than `choice`, and its delta; None if there is none.

        `choice` has one parameter t for the randomized responses of each epsilon, and delta is at the overall epsilon
        `x`. A neighbour of `choice` has one t moved up or down by the share `step` of its epsilon. The first neighbour
        whose delta is above `best` is returned.
        """
        for index, (epsilon, _) in enumerate(self.groups):
            for move in (-step * epsilon, step * epsilon):
                t = min(max(choice[index] + move, CONFIG.margin * epsilon), (1 - CONFIG.margin) * epsilon)
                other = (*choice[:index], t, *choice[index + 1 :])
                value = self.at(other, x).lower
                if value > best:
                    return other, value
        return None

    def epsilon(self, delta: float, guess: float, tilt: float) -> tuple[Bracket, Choice]:
        """Return (bracket, choice): a large overall epsilon at `delta`, and the choice of parameters that has it.

        The mechanisms of the batch, all chosen up front, are randomized responses. `choice` has one parameter t for
        each distinct epsilon of the mechanisms: all mechanisms of this epsilon have the two privacy losses t and t -
        epsilon. Every choice has a smallest overall epsilon at which its delta is at most `delta`. The search climbs to
        a choice for which this overall epsilon is large, and `bracket` is a certified interval for it.

        - `guess` is the overall epsilon at which the search starts.
        - `tilt` is the rate at which log delta is expected to fall with the overall epsilon.
        """
        # A group has the responses of one epsilon; their losses are t and t - epsilon. The first parameters are those
        # that are worst if delta falls like exp(-`tilt` y).
        choice = self.start(guess, tilt)
        best = epsilon_at(delta, partial(self.at, choice), guess)
        for _ in range(CONFIG.most_climbs):
            climbed = self.hill_climb(best.lower, choice)
            bracket = epsilon_at(delta, partial(self.at, climbed), max(best.upper, 1e-9))
            if bracket.lower <= best.lower * (1 + CONFIG.settled):
                break
            best, choice = bracket, climbed
        return best, choice

    def decay_rate(self, x: float, further: float, choice: Choice) -> float:
        """Return about how fast log delta falls between the overall epsilons `x` and `further`, per unit of epsilon.

        Delta is that of a batch, mechanisms that are all chosen up front; `further` is larger than `x`. `choice` has
        the parameters t of the batch's randomized responses, one for each distinct epsilon; their losses are t and t -
        epsilon. The caller divides by the rate to estimate at which epsilon delta has a wanted value. So that the
        caller never divides by 0, the rate is at least `CONFIG.slowest`, a positive number, even where delta does not
        fall or is 0.
        """
        delta_here, delta_further = self.at(choice, x).upper, self.at(choice, further).upper
        return (
            max(math.log(delta_here / delta_further) / (further - x), CONFIG.slowest)
            if 0.0 < delta_further < delta_here
            else CONFIG.slowest
        )
