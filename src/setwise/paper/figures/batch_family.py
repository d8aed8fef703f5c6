"""`fig:opt_nonadaptive`: the optimal delta of a batch of pure-DP and bounded-range uses, and ours for any order."""

from typing import TYPE_CHECKING

from setwise.accounting.brackets import Progress
from setwise.accounting.compose import compose
from setwise.paper import chart, printed
from setwise.paper.chart import Stroke
from setwise.paper.composition import mixture
from setwise.paper.figure import Cell, Claim, Figure, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

EPSILON = 0.1
COUNTS = (20, 100)
SHARES = (0, 25, 50, 75, 100)
OURS = (0, 50)
_FARTHEST = {20: 1.95, 100: 5.0}
_SMALLEST = 1e-12
"""Deltas below this are off the picture."""


def compute(progress: Progress, points: int = 27) -> Table:
    """Return delta against the overall epsilon for every share of pure DP."""
    rows: list[dict[str, Cell]] = []
    places = [(uses, i * _FARTHEST[uses] / (points - 1)) for uses in COUNTS for i in range(points)]
    for done, (uses, g) in enumerate(places):
        row: dict[str, Cell] = {"uses": uses, "overall_epsilon": g}
        for share in SHARES:
            row[f"batch_{share}"] = compose(mixture(EPSILON, uses, uses * share // 100), "batch").delta(g).upper
        for share in OURS:
            found = compose(mixture(EPSILON, uses, uses * share // 100)).delta(g)
            row[f"ours_{share}_lower"], row[f"ours_{share}_upper"] = found.lower, found.upper
        rows.append(row)
        progress((done + 1) / len(places))
    return Table.of_rows(rows)


def claims(table: Table) -> tuple[Claim, ...]:
    """Return the claims that the family has the two earlier theorems at its ends, and the printed formula inside."""
    part = table.where("uses", 20.0)
    places = [(g, row) for row, g in enumerate(part.numbers("overall_epsilon")) if g < 1.0]

    def apart(share: int, formula: "list[float]") -> float:
        values = part.numbers(f"batch_{share}")
        return max(abs(values[row] / truth - 1) for (_, row), truth in zip(places, formula, strict=True))

    says = "20 uses of 0.1, overall epsilon below 1; largest relative distance"
    return (
        Claim(
            label="thm:opt_DPCOMP",
            says=f"the batch optimum with m = k is the optimal pure-DP bound ({says})",
            paper=0.0,
            ours=apart(100, [printed.pure_delta(20, EPSILON, g) for g, _ in places]),
            tolerance=1e-9,
        ),
        Claim(
            label="thm:non-adaptive",
            says=f"the batch optimum with m = 0 is the optimal batch BR bound ({says})",
            paper=0.0,
            ours=apart(0, [printed.batch_range_delta(20, EPSILON, g) for g, _ in places]),
            tolerance=1e-9,
        ),
        Claim(
            label="thm:opt_nonadaptive",
            says=f"the maximum over k + m + 1 candidates is the batch optimum, m = 10 ({says})",
            paper=0.0,
            ours=apart(50, [printed.batch_delta(20, 10, EPSILON, g) for g, _ in places]),
            tolerance=1e-9,
        ),
    )


def draw(table: Table) -> "Picture":
    """Draw one panel per number of uses, delta on a logarithmic axis."""
    picture, axes = chart.panels(2, (9.4, 5.0))
    for panel, uses in zip(axes, COUNTS, strict=True):
        part = table.where("uses", float(uses))
        g = part.numbers("overall_epsilon")
        for share in SHARES:
            stroke = Stroke(chart.BATCH.color, chart.SHARES[share], width=1.3)
            chart.line(panel, g, part.numbers(f"batch_{share}"), stroke, f"thm:opt_nonadaptive, {share}% pure DP")
        for share, marker in zip(OURS, ("o", "s"), strict=True):
            label = f"ours: set-wise optimum, {share}% pure DP"
            chart.dots(panel, g, part.numbers(f"ours_{share}_upper"), chart.OURS, label, marker)
        panel.set_yscale("log")
        panel.set(xlim=(0, g[-1]), ylim=(_SMALLEST, 1), xlabel="overall epsilon", ylabel="delta")
        panel.set_title(f"{uses} uses of epsilon = {EPSILON:g}", loc="left")
    chart.legend_below(picture, axes[0], 3)
    return picture


FIGURE = Figure(
    label="fig:opt_nonadaptive",
    file="batch-family",
    title="The optimal batch bound for m pure-DP uses of k, and the set-wise optimum",
    compute=compute,
    draw=draw,
    claims=claims,
)
