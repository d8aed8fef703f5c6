"""Setwise's figure `new:adaptive-cost`: the gain of choosing bounded-range mechanisms after earlier answers."""

from setwise.accounting.brackets import Bracket, Progress
from setwise.accounting.compose import compose
from setwise.paper import chart
from setwise.paper.figure import Cell, Claim, ClaimRelation, Figure, Table
from setwise.paper.formulas import mixture, narrow

DELTA = 1e-6
EPSILONS = (0.1, 0.5, 1.0)
_WIDTHS = (3e-4, 5e-4, 1e-3)
"""Relative widths of the brackets to try: a small part of the differences that are drawn."""

COUNTS = (5, 6, 7, 8, 9, 10, 11, 12, 14, 16, 18, 20, 24, 28, 34, 40, 48, 56, 68, 80, 96, 112, 136, 160)


def compute(progress: Progress, counts: tuple[int, ...] = COUNTS) -> Table:
    """Return the table of overall epsilons at delta = 1e-6 of bounded-range mechanisms, chosen adaptively or up front.

    There is one row for each epsilon of a single mechanism and each number of mechanisms in `counts`. For adaptive
    choices, the smallest possible epsilon is not known exactly, so the row has certified lower and upper bounds on it.
    `progress` is called with the share of rows done.

    Theorem: lem:adap_recursion_hetero against thm:non-adaptive.
    """
    rows: list[dict[str, Cell]] = []
    places = [(epsilon, count) for epsilon in EPSILONS for count in counts]
    for done, (epsilon, count) in enumerate(places):
        bracket = _adaptive(epsilon, count)
        rows.append(
            {
                "epsilon": epsilon,
                "uses": count,
                "batch": compose(mixture(epsilon, count, 0), "batch").epsilon(DELTA).upper,
                "adaptive_lower": bracket.lower,
                "adaptive_upper": bracket.upper,
            }
        )
        progress((done + 1) / len(places))
    return Table.of_rows(rows)


def _adaptive(epsilon: float, count: int) -> Bracket:
    """Return certified lower and upper bounds, close together, on the epsilon of `count` adaptively chosen mechanisms.

    The mechanisms have bounded range with the given `epsilon`. The result is their overall epsilon at delta = 1e-6.
    """
    composed = compose(mixture(epsilon, count, 0))
    return narrow(lambda width: composed.epsilon(DELTA, width=width).bracket, _WIDTHS)


def extra(table: Table, end: str) -> list[float]:
    """Return, for each row of `table`, by how many percent epsilon is larger if mechanisms are chosen adaptively.

    Epsilon is compared with the epsilon of the same mechanisms chosen up front. For adaptive choices, the smallest
    possible epsilon is only known to lie between a certified lower and upper bound; `end`, "lower" or "upper", says
    which bound is compared. `table` is a result of `compute`.
    """
    ends = zip(table.numbers(f"adaptive_{end}"), table.numbers("batch"), strict=True)
    return [100.0 * (adaptive / batch - 1.0) for adaptive, batch in ends]


def claims(table: Table) -> tuple[Claim, ...]:
    """Return the check of the paper's statement that choosing mechanisms after earlier answers can cost more privacy.

    The check passes if, in at least one row of `table` (a result of `compute`), the epsilon of mechanisms chosen after
    earlier answers is provably larger than the epsilon of as many mechanisms chosen up front.
    """
    return (
        Claim(
            label="lem:adap_recursion_hetero",
            says="choosing BR mechanisms adaptively can strictly increase the privacy loss (largest certified "
            "increase of epsilon at delta = 1e-6, in percent; paper: above 0)",
            paper=0.0,
            ours=max(extra(table, "lower")),
            relation=ClaimRelation.ABOVE,
        ),
    )


def draw(table: Table) -> "chart.Picture":
    """Return a picture of the smallest overall epsilon of mechanisms that are chosen adaptively or up front.

    The horizontal axis is the number of mechanisms. A second panel shows by how many percent the adaptive epsilon is
    larger. `table` is a result of `compute`.
    """
    picture, (left, right) = chart.panels(2, (9.4, 4.8))
    strokes = (chart.OURS, chart.OTHER, chart.PAPER_TOO)
    for epsilon, stroke in zip(EPSILONS, strokes, strict=True):
        part = table.where("epsilon", epsilon)
        uses = part.numbers("uses")
        chart.line(
            left, uses, part.numbers("adaptive_upper"), stroke, f"ours: adaptive optimum, epsilon = {epsilon:g}", 3
        )
        right.fill_between(
            uses, extra(part, "lower"), extra(part, "upper"), color=stroke.color, alpha=0.35, linewidth=0
        )
        chart.line(right, uses, extra(part, "upper"), stroke, "", 3)
    for epsilon in EPSILONS:
        part = table.where("epsilon", epsilon)
        label = "batch optimum (thm:non-adaptive)" if epsilon == EPSILONS[0] else ""
        chart.dots(left, part.numbers("uses")[1::3], part.numbers("batch")[1::3], chart.BATCH, label)
    left.set_yscale("log")
    left.set(ylabel="overall epsilon, delta = 1e-6")
    right.set(ylabel="adaptive above batch, % of epsilon", ylim=(0, None))
    right.set_title("what adaptivity buys the analyst (certified bracket)", loc="left")
    for panel in (left, right):
        panel.set_xscale("log")
        panel.set_xticks([5, 10, 20, 40, 80, 160], ["5", "10", "20", "40", "80", "160"])
        panel.minorticks_off()
        panel.set(xlabel="number of bounded-range uses")
    left.set_yticks([0.5, 1, 2, 5, 10, 20, 50], ["0.5", "1", "2", "5", "10", "20", "50"])
    chart.legend_below(picture, left, 2)
    return picture


FIGURE = Figure(
    label="new:adaptive-cost",
    file="adaptive-cost",
    title="The adaptive optimum against the batch optimum",
    compute=compute,
    draw=draw,
    claims=claims,
)
