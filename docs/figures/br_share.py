"""Draw br-share.svg and br-share.png: overall epsilon against the share of bounded-range mechanisms.

Fifty uses of epsilon = 0.1 at delta = 1e-6, of which a share are bounded range and the rest pure DP. Run it from the
repository with the `paper` extra installed: python docs/figures/br_share.py
"""

import math
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt

from setwise.accounting.compose import compose
from setwise.accounting.methods.moments import subgaussian_sum
from setwise.accounting.notation import as_uses

USES, EPSILON, DELTA = 50, 0.1, 1e-6
SETWISE, BATCH = "setwise", "batch"
WIDTH = 1e-4
"""Narrow enough for the right-hand picture, which shows the brackets themselves."""


def mixture(ranges: int) -> list[str]:
    """Return the uses: `ranges` bounded-range ones, the rest pure DP."""
    pure = [f"pure:{EPSILON}x{USES - ranges}"] if ranges < USES else []
    return [*pure, *([f"bounded-range:{EPSILON}x{ranges}"] if ranges else [])]


def paper_bound(ranges: int) -> float:
    """Return eq:setWiseCompEps2."""
    total = subgaussian_sum(as_uses(mixture(ranges)))
    return total.paper_epsilon(DELTA) if total is not None else math.nan


def draw(folder: Path) -> None:
    """Write both pictures."""
    # A fixed salt and no date: the same picture is the same file.
    mpl.rcParams.update(
        {"font.size": 10, "svg.hashsalt": "setwise", "axes.spines.top": False, "axes.spines.right": False}
    )
    counts = list(range(USES + 1))
    share = [100 * count / USES for count in counts]
    brackets = [compose(mixture(count), SETWISE).epsilon(DELTA, width=WIDTH) for count in counts]
    setwise = [bracket.upper for bracket in brackets]
    batch = [compose(mixture(count), BATCH).epsilon(DELTA).upper for count in counts]
    pure = compose(mixture(0), SETWISE).epsilon(DELTA).upper

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 4.1), width_ratios=(3, 2), layout="constrained")
    # The palette of Okabe and Ito; line styles tell the curves apart without colour.
    left.plot(
        share,
        [paper_bound(count) for count in counts],
        color="#D55E00",
        linestyle="-.",
        label="paper, eq:setWiseCompEps2",
    )
    left.axhline(pure, color="#666666", linestyle=":", label="all pure DP, optimum (thm:opt_DPCOMP)")
    left.plot(share, setwise, color="#0072B2", label="set-wise optimum, certified upper end")
    left.plot(share, batch, color="#009E73", linestyle="--", label="batch optimum (thm:opt_nonadaptive)")
    left.set(xlim=(0, 100), ylim=(1.25, 4.1), ylabel="overall epsilon")
    left.legend(frameon=False, loc="lower left", fontsize=8.5)
    left.set_title(f"{USES} uses of epsilon = {EPSILON} at delta = 1e-6", fontsize=10, loc="left")

    lowest = [max(0.0, bracket.lower - b) for bracket, b in zip(brackets, batch, strict=True)]
    highest = [bracket.upper - b for bracket, b in zip(brackets, batch, strict=True)]
    right.fill_between(share, lowest, highest, color="#0072B2", linewidth=0.8)
    right.set(xlim=(0, 100), ylim=(0, None), ylabel="epsilon, set-wise bracket less batch")
    right.set_title("What adaptivity and order cost", fontsize=10, loc="left")
    for axes in (left, right):
        axes.set_xlabel("bounded-range mechanisms, % of uses")
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
    figure.savefig(folder / "br-share.svg", metadata={"Date": None})
    figure.savefig(folder / "br-share.png", dpi=150)


if __name__ == "__main__":
    draw(Path(__file__).parent)
