"""Brackets as narrow as the numerics can make them."""

from collections.abc import Callable

from setwise.accounting.bracket import Bracket
from setwise.errors import Unattainable

_WIDTHS = (1e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3)


def narrow(ask: Callable[[float | None], Bracket], widths: tuple[float, ...] = _WIDTHS) -> Bracket:
    """Return the bracket for the first relative width that can be reached, else the one got without asking."""
    for width in widths:
        try:
            return ask(width)
        except Unattainable:
            continue
    return ask(None)
