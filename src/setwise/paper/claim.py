"""A claim of the paper, and whether it holds."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from setwise.errors import InvalidParameter


class Relation(StrEnum):
    """What it means for a claim to pass."""

    SAME = "same"
    """Ours is the paper's value, up to the tolerance."""
    BELOW = "below"
    """Ours is smaller than the paper's value by more than the tolerance."""
    ABOVE = "above"
    """Ours is larger than the paper's value by more than the tolerance."""
    CORRECTED = "corrected"
    """The text as printed is wrong: ours is the independent value up to the tolerance, the paper's is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What the paper says at a label, the number it gives or implies, and ours.

    `independent` is a value found in another way; only a correction has one.

    >>> Claim(label="fig:NoiseCompare", says="sigma = 13.1", paper=13.1, ours=13.0948, tolerance=0.05).passed
    True
    """

    label: str
    says: str
    paper: float
    ours: float
    relation: Relation = Relation.SAME
    tolerance: float = 0.0
    independent: float | None = None

    def __post_init__(self) -> None:
        if self.tolerance < 0.0:
            raise InvalidParameter(f"tolerance must not be negative, not {self.tolerance!r}")
        if (self.independent is None) == (self.relation is Relation.CORRECTED):
            raise InvalidParameter(f"a correction, and nothing else, needs an independent value; see {self.label}")

    @property
    def passed(self) -> bool:
        """Whether the claim holds."""
        match self.relation:
            case Relation.SAME:
                return abs(self.ours - self.paper) <= self.tolerance
            case Relation.BELOW:
                return self.ours < self.paper - self.tolerance
            case Relation.ABOVE:
                return self.ours > self.paper + self.tolerance
            case Relation.CORRECTED:
                assert self.independent is not None
                wrong = abs(self.paper - self.independent) > self.tolerance
                return wrong and abs(self.ours - self.independent) <= self.tolerance
            case _:
                assert_never(self.relation)

    @property
    def verdict(self) -> str:
        """The outcome, as a word: pass or fail."""
        return "pass" if self.passed else "fail"

    @property
    def check(self) -> str:
        """What was compared, in words."""
        match self.relation:
            case Relation.SAME:
                return f"same within {self.tolerance:g}"
            case Relation.BELOW:
                return "ours below" + _by_more_than(self.tolerance)
            case Relation.ABOVE:
                return "ours above" + _by_more_than(self.tolerance)
            case Relation.CORRECTED:
                return f"corrected; independent value {self.independent:.6g}, within {self.tolerance:g}"
            case _:
                assert_never(self.relation)

    def as_json(self) -> dict[str, object]:
        """Return the object that `--json` prints."""
        return {
            "label": self.label,
            "says": self.says,
            "paper": _finite(self.paper),
            "ours": _finite(self.ours),
            "check": self.check,
            "verdict": self.verdict,
        }


def _finite(value: float) -> float | None:
    """Return a number that JSON can hold, or None."""
    return value if math.isfinite(value) else None


def _by_more_than(tolerance: float) -> str:
    return f" by more than {tolerance:g}" if tolerance else ""


def markdown(claims: Iterable[Claim]) -> str:
    """Return the claims as a Markdown table."""
    rows = [
        f"| `{claim.label}` | {claim.says} | {claim.paper:.6g} | {claim.ours:.6g} | {claim.check} | {claim.verdict} |"
        for claim in claims
    ]
    return "\n".join(
        ["| label | what the paper says | paper | ours | check | verdict |", "|---|---|---|---|---|---|", *rows, ""]
    )
