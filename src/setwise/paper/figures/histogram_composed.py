"""`fig:GM_comp`: the same noise on k histograms of l0-sensitivity 10."""

from typing import TYPE_CHECKING

from setwise.accounting.brackets import Progress
from setwise.accounting.compose import compose
from setwise.accounting.methods.moments import zero_concentrated_sum
from setwise.paper import chart
from setwise.paper.composition import (
    DELTA,
    EPSILONS,
    equal_sigma,
    gaussian_by_paper,
    gaussian_composed,
    gaussian_exact,
    gaussian_histogram,
    laplace_by_paper,
    laplace_exact,
    laplace_histogram_as_pure,
)
from setwise.paper.figure import Cell, Claim, Figure, Relation, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

CONTRIBUTIONS = 10
HISTOGRAMS = tuple(range(2, 11))


def compute(progress: Progress, histograms: tuple[int, ...] = HISTOGRAMS) -> Table:
    """Return the overall epsilon at delta = 1e-6 of every curve."""
    rows: list[dict[str, Cell]] = []
    places = [(epsilon, count) for epsilon in EPSILONS for count in histograms]
    for done, (epsilon, count) in enumerate(places):
        together = count * CONTRIBUTIONS
        rows.append(
            {
                "epsilon": epsilon,
                "histograms": count,
                "laplace": laplace_by_paper(epsilon, together),
                "gaussian_composed": gaussian_composed(epsilon, CONTRIBUTIONS, count),
                "gaussian_zcdp": gaussian_by_paper(epsilon, together),
                "ours_gaussian": gaussian_exact(epsilon, together),
                "ours_laplace": laplace_exact(epsilon, together),
            }
        )
        progress((done + 1) / len(places))
    return Table.of_rows(rows)


def claims(table: Table) -> tuple[Claim, ...]:
    """Return what the text says about the figure."""
    small, large = EPSILONS
    first, last = {"epsilon": large, "histograms": 2.0}, {"epsilon": small, "histograms": 10.0}
    noise = gaussian_histogram(sigma=equal_sigma(small), contributions=CONTRIBUTIONS)
    lead = max(a / b for a, b in zip(table.numbers("laplace"), table.numbers("gaussian_composed"), strict=True))
    return (
        Claim(
            label="fig:GM_comp",
            says="for a reasonable number of histograms Laplace is below Gaussian noise (two, epsilon = 1; paper: the "
            "better of its two Gaussian bounds)",
            paper=min(table.at(first, "gaussian_composed"), table.at(first, "gaussian_zcdp")),
            ours=table.at(first, "laplace"),
            relation=Relation.BELOW,
        ),
        Claim(
            label="fig:GM_comp",
            says="Laplace is below the composed optimal Gaussian throughout (largest ratio; paper: 1)",
            paper=1.0,
            ours=lead,
            relation=Relation.BELOW,
        ),
        Claim(
            label="fig:GM_comp",
            says="the best one-shot bound composes badly: (epsilon, delta) by (epsilon, delta) is above zCDP for ten "
            "histograms (epsilon = 0.1; paper: zCDP)",
            paper=table.at(last, "gaussian_zcdp"),
            ours=table.at(last, "gaussian_composed"),
            relation=Relation.ABOVE,
        ),
        Claim(
            label="fig:GM_comp",
            says="after enough histograms Gaussian noise is below Laplace (ten, epsilon = 0.1; paper: Laplace, ours: "
            "zCDP)",
            paper=table.at(last, "laplace"),
            ours=table.at(last, "gaussian_zcdp"),
            relation=Relation.BELOW,
        ),
        Claim(
            label="fig:GM_comp",
            says="the Laplace bound does not change from fig:GM_oneshot: ten histograms cost one of l0-sensitivity 100 "
            "(epsilon = 0.1; ours: ten histograms composed)",
            paper=table.at(last, "laplace"),
            ours=compose([laplace_histogram_as_pure(epsilon=small, contributions=10)] * 10).epsilon(DELTA).upper,
            tolerance=1e-9,
        ),
        Claim(
            label="fig:GM_comp",
            says="nor does the zCDP bound (ours: the zCDP parameters of ten histograms added up)",
            paper=table.at(last, "gaussian_zcdp"),
            ours=zero_concentrated_sum([noise] * 10).paper_epsilon(DELTA),
            tolerance=1e-9,
        ),
        Claim(
            label="lem:AGM",
            says="exactly, ten Gaussian histograms are one Gaussian, far below composing them one by one (epsilon = "
            "0.1; paper: composed)",
            paper=table.at(last, "gaussian_composed"),
            ours=table.at(last, "ours_gaussian"),
            relation=Relation.BELOW,
        ),
    )


def draw(table: Table) -> "Picture":
    """Draw one panel per epsilon."""
    picture, axes = chart.panels(2, (9.4, 4.9))
    for panel, epsilon in zip(axes, EPSILONS, strict=True):
        part = table.where("epsilon", epsilon)
        x = part.numbers("histograms")
        chart.line(panel, x, part.numbers("laplace"), chart.PAPER, "Laplace noise (lem:peeling_lap)")
        chart.line(panel, x, part.numbers("gaussian_zcdp"), chart.PAPER_TOO, "Gaussian noise with zCDP (lem:GM)")
        label = "optimal Gaussian (lem:AGM), composed as (epsilon, delta)"
        chart.line(panel, x, part.numbers("gaussian_composed"), chart.BATCH, label)
        chart.line(panel, x, part.numbers("ours_gaussian"), chart.OURS, "ours: one Gaussian, exactly")
        chart.line(panel, x, part.numbers("ours_laplace"), chart.OURS_TOO, "ours: Laplace noise by its own loss")
        panel.set(xlim=(2, 10), ylim=(0, None), xlabel="histograms k, each of l0-sensitivity 10")
        panel.set(ylabel="overall epsilon, delta = 1e-6")
        panel.set_title(f"Laplace scale {1 / epsilon:g}, Gaussian sigma {equal_sigma(epsilon):.3g}", loc="left")
    chart.legend_below(picture, axes[0], 2)
    return picture


FIGURE = Figure(
    label="fig:GM_comp",
    file="histogram-composed",
    title="Laplace against Gaussian noise of equal variance on k histograms",
    compute=compute,
    draw=draw,
    claims=claims,
)
