"""Setwise's figure `new:deployment`: a published deployment, 3,000 bounded-range uses of epsilon 0.15, delta = 1e-9."""

import math

from setwise.accounting.brackets import Progress
from setwise.accounting.compose import compose
from setwise.analytics.present.palette import BLACK
from setwise.paper import chart
from setwise.paper.figure import Cell, Claim, ClaimRelation, Figure, Table
from setwise.paper.formulas import mixture, paper_epsilon

EPSILON = 0.15
DELTA = 1e-9
USES = 3000
PUBLISHED = 34.9
COUNTS = (50, 100, 200, 300, 500, 750, 1000, 1250, 1500, 1750, 2000, 2250, 2500, 2750, 3000)


def compute(progress: Progress, counts: tuple[int, ...] = COUNTS) -> Table:
    """Return the table of overall epsilons at delta = 1e-9 of bounded-range mechanisms, one row per number in `counts`.

    Each mechanism has the epsilon 0.15. The columns are:

    - the paper's set-wise bound (the analyst may run the mechanisms in any order)
    - the smallest overall epsilon of as many pure-DP mechanisms of the same epsilon
    - the smallest overall epsilon if all bounded-range mechanisms are run at once, before any answer is seen
    - certified lower and upper bounds on the smallest overall epsilon if the analyst chooses the next mechanism after
      each answer

    `progress` is called with the share of rows done.
    """
    rows: list[dict[str, Cell]] = []
    for done, count in enumerate(counts):
        uses = mixture(EPSILON, count, 0)
        optimum = compose(uses).epsilon(DELTA, width=2e-4 if count == USES else None)
        rows.append(
            {
                "uses": count,
                "paper": paper_epsilon(uses, DELTA),
                "as_pure": compose(mixture(EPSILON, count, count)).epsilon(DELTA).upper,
                "batch": compose(uses, "batch").epsilon(DELTA).upper,
                "ours_lower": optimum.lower,
                "ours_upper": optimum.upper,
            }
        )
        progress((done + 1) / len(counts))
    return Table.of_rows(rows)


def claims(table: Table) -> tuple[Claim, ...]:
    """Return checks of the overall epsilon 34.9 that a deployment published for 3,000 bounded-range mechanisms.

    One check is that the paper's bound gives 34.9. The others are that the upper bound which `compute` certifies is
    below 34.9, and that the smallest possible epsilon is at most 0.01 below this upper bound. `table` is a result of
    `compute`.
    """
    last = {"uses": float(USES)}
    return (
        Claim(
            label="eq:setWiseCompEps2",
            says="a published deployment states (34.9, 1e-9) for 3,000 BR uses of 0.15: the set-wise bound",
            paper=PUBLISHED,
            ours=table.at(last, "paper"),
            tolerance=0.05,
        ),
        Claim(
            label="new:deployment",
            says="the certified set-wise optimum of the same uses is below 34.9 (upper end of our bracket)",
            paper=PUBLISHED,
            ours=table.at(last, "ours_upper"),
            relation=ClaimRelation.BELOW,
        ),
        Claim(
            label="new:deployment",
            says="our bracket is narrow: no proof can promise less than its lower end (paper: upper end; ours: "
            "lower end)",
            paper=table.at(last, "ours_upper"),
            ours=table.at(last, "ours_lower"),
            tolerance=0.01,
        ),
    )


def draw(table: Table) -> "chart.Picture":
    """Return a picture with two panels: the overall epsilon against the number of mechanisms, by several bounds.

    The second panel shows by how many percent the paper's bound is above the upper bound that `compute` certifies.
    `table` is a result of `compute`.
    """
    picture, (left, right) = chart.panels(2, (9.4, 4.7), (3, 2))
    uses = table.numbers("uses")
    low, high = table.numbers("ours_lower"), table.numbers("ours_upper")
    chart.line(left, uses, table.numbers("as_pure"), chart.PURE, "as if pure DP (thm:opt_DPCOMP)")
    chart.line(left, uses, table.numbers("paper"), chart.PAPER, "set-wise bound (eq:setWiseCompEps2)")
    chart.band(left, uses, low, high, chart.OURS, "ours: set-wise optimum, certified bracket")
    left.plot([USES], [PUBLISHED], "*", color=BLACK, markersize=11, clip_on=False, label="published: 34.9")
    left.annotate(
        f"[{math.floor(1000 * low[-1]) / 1000:.3f}, {math.ceil(1000 * high[-1]) / 1000:.3f}]",
        (uses[-1], high[-1]),
        (-8, -40),
        textcoords="offset points",
        ha="right",
        fontsize=8.5,
        color=chart.OURS.color,
        arrowprops={"arrowstyle": "-", "color": chart.OURS.color, "linewidth": 0.8},
    )
    left.set(xlim=(0, USES), ylim=(0, None), ylabel="overall epsilon, delta = 1e-9")
    above = [100.0 * (paper / upper - 1.0) for paper, upper in zip(table.numbers("paper"), high, strict=True)]
    chart.line(right, uses, above, chart.PAPER, "")
    right.set(xlim=(0, USES), ylim=(0, None), ylabel="eq:setWiseCompEps2 above our upper end, %")
    for panel in (left, right):
        panel.set_xlabel("bounded-range uses of epsilon = 0.15")
    chart.legend_below(picture, left, 2)
    return picture


FIGURE = Figure(
    label="new:deployment",
    file="deployment",
    title="A published deployment: 3,000 bounded-range uses of 0.15",
    compute=compute,
    draw=draw,
    claims=claims,
)
