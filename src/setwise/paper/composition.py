"""What figures and claims compose: mixtures of pure DP and bounded range, and brackets as narrow as can be had."""

from collections.abc import Callable

from setwise.accounting.brackets import Bracket
from setwise.accounting.guarantees import Use
from setwise.accounting.methods.moments import subgaussian_sum
from setwise.accounting.notation import as_uses
from setwise.errors import Unattainable

_WIDTHS = (1e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3)


def mixture(epsilon: float, uses: int, pure: int) -> tuple[Use, ...]:
    """Return `pure` uses of epsilon-DP and the rest of epsilon-BR, m and k - m in the paper's letters."""
    written = []
    if pure:
        written.append(f"pure:{epsilon!r}x{pure}")
    if pure < uses:
        written.append(f"bounded-range:{epsilon!r}x{uses - pure}")
    return as_uses(written)


def paper_epsilon(uses: tuple[Use, ...], delta: float) -> float:
    """Return the paper's set-wise bound.

    Theorem: eq:setWiseCompEps2.
    """
    total = subgaussian_sum(uses)
    assert total is not None  # pure DP and bounded range have known means and spreads
    return total.paper_epsilon(delta)


def narrow(ask: Callable[[float | None], Bracket], widths: tuple[float, ...] = _WIDTHS) -> Bracket:
    """Return the bracket for the first relative width that can be reached, else the one got without asking."""
    for width in widths:
        try:
            return ask(width)
        except Unattainable:
            continue
    return ask(None)
