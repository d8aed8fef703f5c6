"""A number of uses of one guarantee: where counting lives."""

import operator
from collections.abc import Iterable
from dataclasses import dataclass

from setwise.accounting.guarantees import Guarantee
from setwise.errors import InvalidParameter

LARGEST_COUNT = 10**9


def check_count(value: object, name: str = "count") -> int:
    """Return a whole number of uses between 1 and a billion or raise `InvalidParameter`."""
    if isinstance(value, bool):
        raise InvalidParameter(f"{name} must be a whole number, not {value!r}")
    try:
        count = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise InvalidParameter(f"{name} must be a whole number, not {value!r}") from None
    if not 1 <= count <= LARGEST_COUNT:
        raise InvalidParameter(f"{name} must lie between 1 and {LARGEST_COUNT:,}, not {value!r}")
    return count


@dataclass(frozen=True, slots=True)
class Use:
    """`count` uses of mechanisms that each satisfy `guarantee`.

    >>> from setwise.accounting.guarantees import PureDP
    >>> Use(PureDP(epsilon=0.1), 25).count
    25
    """

    guarantee: Guarantee
    count: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.guarantee, Guarantee):
            raise InvalidParameter(f"a use needs a guarantee such as PureDP(epsilon=0.1), not {self.guarantee!r}")
        object.__setattr__(self, "count", check_count(self.count))


def merged(uses: Iterable[Use]) -> tuple[Use, ...]:
    """Return the multiset: one entry per guarantee, in order of first appearance.

    >>> from setwise.accounting.guarantees import PureDP
    >>> merged([Use(PureDP(epsilon=0.1), 2), Use(PureDP(epsilon=0.1), 3)])
    (Use(guarantee=PureDP(epsilon=0.1), count=5),)
    """
    counts: dict[Guarantee, int] = {}
    for use in uses:
        counts[use.guarantee] = counts.get(use.guarantee, 0) + use.count
    return tuple(Use(guarantee, count) for guarantee, count in counts.items())
