"""A certified interval around a number that cannot be computed exactly."""

from dataclasses import dataclass

from setwise.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class Bracket:
    """A certified [lower, upper]: the truth is inside.

    The upper end is what is promised; the lower end says how much could still be gained.

    >>> Bracket(0.25, 0.5).width
    0.25
    >>> 0.3 in Bracket(0.25, 0.5)
    True
    """

    lower: float
    upper: float

    def __post_init__(self) -> None:
        if not self.lower <= self.upper:
            raise InvalidParameter(f"a bracket needs lower <= upper, not [{self.lower}, {self.upper}]")

    def __contains__(self, value: float) -> bool:
        return self.lower <= value <= self.upper

    @property
    def width(self) -> float:
        """The distance between the ends."""
        return self.upper - self.lower

    @property
    def relative_width(self) -> float:
        """The width over the upper end; 0 when both ends are 0."""
        return self.width / self.upper if self.upper else 0.0

    def overlaps(self, other: "Bracket") -> bool:
        """Whether some number lies in both."""
        return self.lower <= other.upper and other.lower <= self.upper
