"""`fig:AdvancedCompBRDP`: the set-wise bound for m pure-DP uses of k, against the optimal pure-DP bound and ours."""

from typing import TYPE_CHECKING

from setwise.accounting.brackets import Progress
from setwise.accounting.compose import compose
from setwise.paper import chart
from setwise.paper.chart import Stroke
from setwise.paper.composition import mixture, paper_epsilon
from setwise.paper.figure import Cell, Claim, Figure, Relation, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

DELTA = 1e-6
EPSILONS = (0.1, 0.5)
SHARES = (0, 25, 50, 75, 100)
"""Pure-DP uses, in percent."""

OURS = (0, 50)


def compute(progress: Progress, most: int = 100) -> Table:
    """Return the overall epsilon of every curve; the paper does not say which epsilon and delta it drew."""
    rows: list[dict[str, Cell]] = []
    places = [(epsilon, uses) for epsilon in EPSILONS for uses in range(4, most + 1, 4)]
    for done, (epsilon, uses) in enumerate(places):
        row: dict[str, Cell] = {"epsilon": epsilon, "uses": uses}
        for share in SHARES:
            row[f"paper_{share}"] = paper_epsilon(mixture(epsilon, uses, uses * share // 100), DELTA)
        row["optimal_pure"] = compose(mixture(epsilon, uses, uses)).epsilon(DELTA).upper
        for share in OURS:
            found = compose(mixture(epsilon, uses, uses * share // 100)).epsilon(DELTA)
            row[f"ours_{share}_lower"], row[f"ours_{share}_upper"] = found.lower, found.upper
        rows.append(row)
        progress((done + 1) / len(places))
    return Table.of_rows(rows)


def claims(table: Table) -> tuple[Claim, ...]:
    """Return what the text says about the figure."""
    small = table.where("epsilon", EPSILONS[0])
    half, pure = small.numbers("paper_50"), small.numbers("optimal_pure")
    apart = [abs(p / o - 1) for k, p, o in zip(small.numbers("uses"), half, pure, strict=True) if k >= 20]
    last = {"epsilon": EPSILONS[0], "uses": 100.0}
    ratios = [
        upper / paper
        for share in OURS
        for upper, paper in zip(table.numbers(f"ours_{share}_upper"), table.numbers(f"paper_{share}"), strict=True)
    ]
    return (
        Claim(
            label="fig:AdvancedCompBRDP",
            says="with half the uses BR the set-wise bound is almost the optimal pure-DP bound (largest relative "
            "distance, 20 to 100 uses of 0.1; almost: below a tenth)",
            paper=0.1,
            ours=max(apart),
            relation=Relation.BELOW,
        ),
        Claim(
            label="fig:AdvancedCompBRDP",
            says="all BR, the set-wise bound beats the optimal bound for pure DP (100 uses of 0.1; paper: pure DP)",
            paper=small.at(last, "optimal_pure"),
            ours=small.at(last, "paper_0"),
            relation=Relation.BELOW,
        ),
        Claim(
            label="fig:AdvancedCompBRDP",
            says="the set-wise bound is loose (largest ratio of the certified optimum to it; paper: 1, were it tight)",
            paper=1.0,
            ours=max(ratios),
            relation=Relation.BELOW,
        ),
    )


def draw(table: Table) -> "Picture":
    """Draw one panel per epsilon."""
    picture, axes = chart.panels(2, (9.4, 5.0))
    for panel, epsilon in zip(axes, EPSILONS, strict=True):
        part = table.where("epsilon", epsilon)
        uses = part.numbers("uses")
        for share in SHARES:
            stroke = Stroke(chart.PAPER.color, chart.SHARES[share], width=1.3)
            chart.line(panel, uses, part.numbers(f"paper_{share}"), stroke, f"eq:setWiseCompEps2, {share}% pure DP")
        chart.line(panel, uses, part.numbers("optimal_pure"), chart.PURE, "thm:opt_DPCOMP, all as pure DP")
        for share in OURS:
            low, high = part.numbers(f"ours_{share}_lower"), part.numbers(f"ours_{share}_upper")
            stroke = Stroke(chart.OURS.color, chart.SHARES[share], "o" if share == 0 else "s", 1.8)
            chart.band(panel, uses, low, high, stroke, f"ours: set-wise optimum, {share}% pure DP", 4)
        panel.set(xlim=(0, uses[-1]), ylim=(0, None), xlabel="number of uses k", ylabel="overall epsilon")
        panel.set_title(f"uses of epsilon = {epsilon:g}, delta = 1e-6", loc="left")
    chart.legend_below(picture, axes[0], 3)
    return picture


FIGURE = Figure(
    label="fig:AdvancedCompBRDP",
    file="setwise-family",
    title="The set-wise bound for m pure-DP uses of k, against the optimum",
    compute=compute,
    draw=draw,
    claims=claims,
)
