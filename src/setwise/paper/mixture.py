"""Uses of one epsilon of which some are pure DP and the rest bounded range: what most figures compose."""

from setwise.accounting.compose import as_uses
from setwise.accounting.guarantees import Use
from setwise.accounting.methods.moments import subgaussian_sum


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
