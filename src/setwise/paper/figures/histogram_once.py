"""`fig:GM_oneshot`: Laplace against Gaussian noise of equal variance on one histogram, by l0-sensitivity."""

from typing import TYPE_CHECKING

from setwise.accounting.brackets import Progress
from setwise.paper import chart
from setwise.paper.composition import (
    EPSILONS,
    equal_sigma,
    gaussian_by_paper,
    gaussian_exact,
    laplace_by_paper,
    laplace_exact,
)
from setwise.paper.figure import Cell, Claim, Figure, Relation, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

SENSITIVITIES = (1, 2, 3, 5, 8, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100)


def compute(progress: Progress, sensitivities: tuple[int, ...] = SENSITIVITIES) -> Table:
    """Return the overall epsilon at delta = 1e-6 of every curve."""
    rows: list[dict[str, Cell]] = []
    places = [(epsilon, count) for epsilon in EPSILONS for count in sensitivities]
    for done, (epsilon, count) in enumerate(places):
        rows.append(
            {
                "epsilon": epsilon,
                "sensitivity": count,
                "laplace": laplace_by_paper(epsilon, count),
                "gaussian": gaussian_exact(epsilon, count),
                "gaussian_zcdp": gaussian_by_paper(epsilon, count),
                "ours_laplace": laplace_exact(epsilon, count),
            }
        )
        progress((done + 1) / len(places))
    return Table.of_rows(rows)


def claims(table: Table) -> tuple[Claim, ...]:
    """Return what the text says about the figure."""
    found = []
    for epsilon in EPSILONS:
        few, many = {"epsilon": epsilon, "sensitivity": 1.0}, {"epsilon": epsilon, "sensitivity": 100.0}
        found += [
            Claim(
                label="fig:GM_oneshot",
                says=f"small l0-sensitivity: Laplace is below optimal Gaussian (1, epsilon = {epsilon:g}; "
                "paper: Gaussian)",
                paper=table.at(few, "gaussian"),
                ours=table.at(few, "laplace"),
                relation=Relation.BELOW,
            ),
            Claim(
                label="fig:GM_oneshot",
                says=f"large l0-sensitivity: optimal Gaussian wins (100, epsilon = {epsilon:g}; paper: Laplace)",
                paper=table.at(many, "laplace"),
                ours=table.at(many, "gaussian"),
                relation=Relation.BELOW,
            ),
        ]
    worst = max(b / a for a, b in zip(table.numbers("laplace"), table.numbers("ours_laplace"), strict=True))
    return (
        *found,
        Claim(
            label="lem:peeling_lap",
            says="Laplace noise costs at most as much as the worst pure DP (largest ratio; paper: 1)",
            paper=1.0,
            ours=worst,
            relation=Relation.BELOW,
        ),
    )


def draw(table: Table) -> "Picture":
    """Draw one panel per epsilon."""
    picture, axes = chart.panels(2, (9.4, 4.7))
    for panel, epsilon in zip(axes, EPSILONS, strict=True):
        part = table.where("epsilon", epsilon)
        x = part.numbers("sensitivity")
        chart.line(panel, x, part.numbers("laplace"), chart.PAPER, "Laplace noise (lem:peeling_lap)")
        chart.line(panel, x, part.numbers("gaussian_zcdp"), chart.PAPER_TOO, "Gaussian noise with zCDP (lem:GM)")
        chart.line(panel, x, part.numbers("gaussian"), chart.BATCH, "optimal Gaussian, l2-sensitivity (lem:AGM)")
        chart.line(panel, x, part.numbers("ours_laplace"), chart.OURS, "ours: Laplace noise by its own loss")
        panel.set(xlim=(0, 100), ylim=(0, None), xlabel="l0-sensitivity (counts one user changes)")
        panel.set(ylabel="overall epsilon, delta = 1e-6")
        panel.set_title(f"Laplace scale {1 / epsilon:g}, Gaussian sigma {equal_sigma(epsilon):.3g}", loc="left")
    chart.legend_below(picture, axes[0], 2)
    return picture


FIGURE = Figure(
    label="fig:GM_oneshot",
    file="histogram-once",
    title="Laplace against Gaussian noise of equal variance on one histogram",
    compute=compute,
    draw=draw,
    claims=claims,
)
