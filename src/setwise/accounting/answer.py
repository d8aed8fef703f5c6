"""What a composition answers: a bracket, and what it rests on."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from setwise.accounting.brackets import Bracket
from setwise.accounting.checks import check_choice

Progress = Callable[[float], None]
"""A function that a long computation calls with the share done, from 0 to 1."""


def quiet(_: float) -> None:
    """Report no progress."""


class Interaction(StrEnum):
    """What an analyst may decide after seeing earlier answers.

    Each kind allows all that the one before it allows, so a bound for a later kind holds for the earlier ones.
    """

    BATCH = "batch"
    """Every mechanism is chosen up front."""
    ORDERED = "ordered"
    """Parameters come in a fixed order; each mechanism may depend on earlier answers."""
    SETWISE = "setwise"
    """Parameters are drawn from a preregistered multiset in any order; order and mechanisms may depend on answers."""
    ADAPTIVE = "adaptive"
    """Parameters too are chosen on the fly; a filter stops the analyst at the budget."""

    @classmethod
    def parse(cls, value: "str | Interaction") -> "Interaction":
        """Return the interaction of that name or raise `InvalidParameter`."""
        return check_choice("interaction", value, cls)


@dataclass(frozen=True, slots=True)
class Effort:
    """How much work an answer is worth: the relative width that grids aim for when none is asked for.

    A bracket that is no wider than `enough` is not compared with other bounds and weaker interactions. `progress` is
    told the share done.
    """

    width: float = 1e-3
    enough: float = 1e-2
    progress: Progress = quiet


USUAL = Effort()
"""What an answer is worth unless something else is said."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A certified [lower, upper], the interaction it covers, the method that found it and the statement it rests on.

    The upper end is what is promised. The lower end is reached by some analyst, so it says how much could still be
    gained by a better proof.
    """

    lower: float
    upper: float
    interaction: Interaction
    method: str
    statement: str

    @property
    def bracket(self) -> Bracket:
        """The bare bracket."""
        return Bracket(self.lower, self.upper)

    @property
    def width(self) -> float:
        """The distance between the ends."""
        return self.upper - self.lower
