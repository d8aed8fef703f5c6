"""A search for the worst batch over one t for each distinct epsilon. Nothing found here is trusted.

What a choice of t reaches is certified by whoever evaluates it; the search only proposes choices.
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
"""One t for each distinct epsilon."""


@dataclass(frozen=True, slots=True)
class BatchSearchConfig:
    """Step sizes are shares of epsilon; outcomes are those of all bounded-range mechanisms, equal ones counted once."""

    most_outcomes: int = 20_000
    """Beyond this many the search stays where it starts."""
    most_scanned: int = 256
    most_scanned_work: int = 50_000
    """Choices of the first scan, and outcomes times choices: few mechanisms have several local maxima."""
    margin: float = 1e-6
    """A t lies at least this far inside its range: at the ends the mechanism reveals nothing."""
    first_step: float = 0.1
    last_step: float = 1e-3
    smallest_step: float = 1e-6
    """Steps halve from the first to the last; while they still gain, as near the largest loss, to the smallest."""
    flat: float = 1e-5
    """A relative gain of delta below this is none."""
    settled: float = 1e-7
    """The same for epsilon."""
    most_climbs: int = 12
    """Alternations between climbing at an epsilon and moving to the epsilon reached."""
    most_tried: int = 800
    """Choices evaluated in one climb, fewer in proportion where there are more outcomes than the next number."""
    few_outcomes: int = 8_000
    slowest: float = 1e-3
    """The least rate at which log delta is taken to fall with epsilon."""


CONFIG = BatchSearchConfig()


def outcome_count(groups: tuple[Group, ...]) -> float:
    """Return about how many outcomes the groups have, those of negligible probability left out."""
    return math.prod(min(count + 1, 200 + 30 * math.sqrt(count)) for _, count in groups)


@dataclass(frozen=True, slots=True)
class BatchSearch:
    """A search for the choice with the largest delta; `at` certifies the delta of a choice at an overall epsilon.

    `largest` is the largest loss of everything.
    """

    groups: tuple[Group, ...]
    at: Callable[[Choice, float], Bracket]
    largest: float

    def start(self, x: float, tilt: float) -> Choice:
        """Return the choice that is worst when what stands beside falls like exp(-tilt x), or the best of a scan.

        Next to the largest loss only that counts: there each is short of its epsilon by the same, and x by as much.
        """
        usual = tuple(worst_t(epsilon, max(tilt, 1e-9)) for epsilon, _ in self.groups)
        short = (self.largest - x) / (1 + sum(count for _, count in self.groups))
        last = tuple(max(epsilon - short, CONFIG.margin * epsilon) for epsilon, _ in self.groups)
        return max([usual, last, *self._scan()], key=lambda choice: self.at(choice, x).lower)

    def hill_climb(self, x: float, choice: Choice) -> Choice:
        """Return the best choice found from this one on."""
        if outcome_count(self.groups) > CONFIG.most_outcomes:
            return choice
        best, before = self.at(choice, x).lower, 0.0
        step = CONFIG.first_step
        left = CONFIG.most_tried / max(1.0, outcome_count(self.groups) / CONFIG.few_outcomes)
        while step > CONFIG.smallest_step and (step > CONFIG.last_step or best > before * (1 + CONFIG.flat)):
            before = best
            while left > 0.0 and (better := self._neighbour(x, choice, step, best)) is not None:
                choice, best = better
                left -= len(self.groups)
            left -= 2 * len(self.groups)
            if left <= 0.0:
                break
            step /= 2.0
        return choice

    def _scan(self) -> list[Choice]:
        most = min(CONFIG.most_scanned, CONFIG.most_scanned_work / outcome_count(self.groups))
        number = int(most ** (1.0 / len(self.groups)))
        if number < 3:
            return []
        shares = [(index + 0.5) / number for index in range(number)]
        return list(itertools.product(*([share * epsilon for share in shares] for epsilon, _ in self.groups)))

    def _neighbour(self, x: float, choice: Choice, step: float, best: float) -> tuple[Choice, float] | None:
        """Return a choice better than `best` a step away, and its delta, if there is one."""
        for index, (epsilon, _) in enumerate(self.groups):
            for move in (-step * epsilon, step * epsilon):
                t = min(max(choice[index] + move, CONFIG.margin * epsilon), (1 - CONFIG.margin) * epsilon)
                other = (*choice[:index], t, *choice[index + 1 :])
                value = self.at(other, x).lower
                if value > best:
                    return other, value
        return None

    def epsilon(self, delta: float, guess: float, tilt: float) -> tuple[Bracket, Choice]:
        """Return about the largest epsilon at which some choice reaches delta, and that choice."""
        choice = self.start(guess, tilt)
        best = epsilon_at(delta, partial(self.at, choice), guess)
        for _ in range(CONFIG.most_climbs):
            climbed = self.hill_climb(best.lower, choice)
            found = epsilon_at(delta, partial(self.at, climbed), max(best.upper, 1e-9))
            if found.lower <= best.lower * (1 + CONFIG.settled):
                break
            best, choice = found, climbed
        return best, choice

    def decay_rate(self, x: float, further: float, choice: Choice) -> float:
        """Return about how fast log delta falls between two epsilons."""
        here, there = self.at(choice, x).upper, self.at(choice, further).upper
        return max(math.log(here / there) / (further - x), CONFIG.slowest) if 0.0 < there < here else CONFIG.slowest
