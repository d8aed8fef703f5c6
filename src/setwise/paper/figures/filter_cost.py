"""Setwise's figure `new:filter-cost`: how much larger epsilon is if parameters are not registered in advance.

Privacy filters, for parameters chosen on the fly, are compared with the optimum of a preregistered set of uses.
"""

from setwise.accounting.brackets import Progress
from setwise.accounting.compose import compose
from setwise.accounting.notation import as_uses
from setwise.accounting.zcdp_filter import ZcdpOdometer
from setwise.paper import chart
from setwise.paper.figure import Cell, Claim, ClaimRelation, Figure, Table
from setwise.paper.formulas import paper_epsilon

DELTA = 1e-6
KINDS = (("bounded-range", "bounded-range:0.1"), ("pure", "pure:0.1"), ("gaussian", "gaussian:14.1421356"))
"""The kinds of uses: a pick (bounded range), a Laplace count, and a Gaussian count of the same variance."""

COUNTS = tuple(range(4, 101, 4))


def compute(progress: Progress, counts: tuple[int, ...] = COUNTS) -> Table:
    """Return the table of overall epsilons at delta = 1e-6, for parameters fixed in advance and chosen on the fly.

    A parameter is the noise scale or the epsilon of one mechanism. There is one row for each kind of mechanism and each
    number of mechanisms in `counts`. Two columns are for parameters that are fixed in advance, while the order is
    chosen on the fly:

    - the smallest epsilon
    - the paper's bound on it

    Two columns are for parameters that are chosen on the fly:

    - the epsilon of a privacy filter, which has a budget fixed in advance and refuses mechanisms beyond it
    - the epsilon of an odometer, which has no budget and bounds the privacy loss so far

    `progress` is called with the share of rows done.
    """
    rows: list[dict[str, Cell]] = []
    places = [(name, use_text, count) for name, use_text in KINDS for count in counts]
    for done, (name, use_text, count) in enumerate(places):
        uses = as_uses([f"{use_text}x{count}"])
        odometer = ZcdpOdometer(delta=DELTA, failure_share=0.0)
        for use in uses:
            odometer = odometer.record(use)
        rows.append(
            {
                "kind": name,
                "uses": count,
                "setwise": compose(uses).epsilon(DELTA).upper,
                "paper": paper_epsilon(uses, DELTA),
                "filter": compose(uses, "adaptive").epsilon(DELTA).upper,
                "odometer": odometer.epsilon(),
            }
        )
        progress((done + 1) / len(places))
    return Table.of_rows(rows)


def claims(table: Table) -> tuple[Claim, ...]:
    """Return checks of whether epsilon is smaller if the parameters of mechanisms are fixed in advance.

    A parameter is the noise scale or the epsilon of a mechanism. Epsilon must be smaller than with parameters chosen on
    the fly for pure-DP and bounded-range mechanisms, and equal for Gaussian noise. `table` is a result of `compute`.
    """

    def largest_ratio(kind: str) -> float:
        """Return the largest ratio of epsilon with fixed parameters to epsilon with parameters chosen on the fly.

        A parameter is the noise scale or the epsilon of a mechanism; fixed means fixed in advance. Each row of the
        table gives one ratio, for equally many mechanisms, and the largest is taken over the rows for one `kind` of
        mechanism, such as "pure" for pure DP. If the result is below 1, fixing the parameters in advance always costs
        less.
        """
        part = table.where("kind", kind)
        return max(s / f for s, f in zip(part.numbers("setwise"), part.numbers("filter"), strict=True))

    return (
        Claim(
            label="new:filter-cost",
            says="preregistered picks and Laplace counts cost less than those chosen on the fly (largest ratio of "
            "epsilons)",
            paper=1.0,
            ours=max(largest_ratio("bounded-range"), largest_ratio("pure")),
            relation=ClaimRelation.BELOW,
            tolerance=0.0,
        ),
        Claim(
            label="new:filter-cost",
            says="Gaussian counts cost the same on the fly as preregistered (largest ratio of epsilons)",
            paper=1.0,
            ours=largest_ratio("gaussian"),
            tolerance=1e-9,
        ),
    )


def draw(table: Table) -> "chart.Picture":
    """Return a picture of the overall epsilons against the number of mechanisms, one panel per kind of mechanism.

    `table` is a result of `compute`.
    """
    picture, axes = chart.panels(3, (10.4, 4.6))
    titles = ("picks: bounded range 0.1", "Laplace counts: pure DP 0.1", "Gaussian counts: sigma = 14.14")
    for panel, (name, _), title in zip(axes, KINDS, titles, strict=True):
        part = table.where("kind", name)
        x = part.numbers("uses")
        chart.line(panel, x, part.numbers("odometer"), chart.OTHER, "ours: zCDP odometer, valid at any moment", 4)
        chart.line(panel, x, part.numbers("paper"), chart.PAPER, "preregistered set, paper (lem:genbound)")
        chart.line(panel, x, part.numbers("filter"), chart.PAPER_TOO, "ours: Gaussian wallet, parameters on the fly", 4)
        chart.line(panel, x, part.numbers("setwise"), chart.OURS, "ours: preregistered set, set-wise optimum")
        panel.set(xlim=(0, 100), ylim=(0, None), xlabel="number of uses")
        panel.set_title(title, loc="left")
    axes[0].set_ylabel("overall epsilon, delta = 1e-6")
    chart.legend_below(picture, axes[0], 2)
    return picture


FIGURE = Figure(
    label="new:filter-cost",
    file="filter-cost",
    title="The Gaussian wallet against the preregistered set",
    compute=compute,
    draw=draw,
    claims=claims,
)
