"""What a composition answers: a bracket, and what it rests on."""

from dataclasses import dataclass

from setwise.accounting.bracket import Bracket
from setwise.accounting.interaction import Interaction


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
