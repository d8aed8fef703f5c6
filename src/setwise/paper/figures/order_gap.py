"""Paper's figure `fig:gap`: how the order of one pure-DP and two bounded-range mechanisms changes delta.

The bounded-range mechanisms stand either both after the pure-DP mechanism, or one before and one after it.
"""

import math

from setwise.accounting.adaptive.optimum import Optimum
from setwise.accounting.adaptive.stages import LinearStage, RangeStage, Stage
from setwise.accounting.brackets import Bracket, Progress
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import PureDP
from setwise.accounting.methods.closed_forms import ThreeMechanisms
from setwise.paper import chart
from setwise.paper.figure import Cell, Claim, ClaimRelation, Figure, Table
from setwise.paper.formulas import mixture, narrow

EPSILON = 1.0
_SLACK = 1e-11
"""Allowed difference between numbers of the table, which is rounded to twelve digits."""

_PURE: Stage = LinearStage(((PureDP(epsilon=EPSILON), 1),))
_RANGE: Stage = RangeStage(((EPSILON, 1),))


def recursion(order: str, g: float) -> Bracket:
    """Return certified lower and upper bounds on the optimal delta of mechanisms in an order such as "DBB".

    "D" is pure DP and "B" bounded range, both with epsilon = 1; `g` is the overall epsilon. The bounds are computed on
    a grid, by the paper's recursion over the mechanisms, as a check of the closed forms.

    Theorem: lem:adap_recursion_hetero.
    """
    stages = tuple(_PURE if letter == "D" else _RANGE for letter in order)
    return narrow(lambda width: Optimum(stages, Bracket(0.0, 0.0)).delta(g, width))


def compute(progress: Progress, points: int = 61) -> Table:
    """Return the table of the optimal delta of one pure-DP and two bounded-range mechanisms, in each order.

    In an order the mechanisms run one after the other, each chosen after the answers before it; the table also has the
    delta of a batch, in which all are chosen before any answer. The delta of each order is computed by closed form and
    by recursion.
    There is one row for each of `points` overall epsilons from 0 to 1.2. `progress` is called with the share of rows
    done.
    """
    three = ThreeMechanisms(EPSILON)
    rows: list[dict[str, Cell]] = []
    for place in range(points):
        g = 1.2 * place / (points - 1)
        first, between = three.pure_first(g).upper, three.bounded_range_first(g).upper
        row: dict[str, Cell] = {
            "overall_epsilon": g,
            "dp_br_br": first,
            "br_dp_br": between,
            "difference": max(0.0, first - between),
            "ratio": between / first,
            "batch": compose(mixture(EPSILON, 3, 1), "batch").delta(g).upper,
        }
        for order in ("DBB", "BDB", "BBD"):
            bracket = recursion(order, g)
            row[f"recursion_{order}_lower"], row[f"recursion_{order}_upper"] = bracket.lower, bracket.upper
        rows.append(row)
        progress((place + 1) / points)
    return Table.of_rows(rows)


def claims(table: Table) -> tuple[Claim, ...]:
    """Return checks of statements about the order of one pure-DP (DP) and two bounded-range (BR) mechanisms.

    All three have the same epsilon, and `table` is a result of `compute`. If the overall epsilon is below this epsilon,
    the order DP, BR, BR has a larger delta than BR, DP, BR (lem:ordbrdp2, with closed forms). Otherwise all orders have
    the same delta (lem:xyz).
    """
    g, difference = table.numbers("overall_epsilon"), table.numbers("difference")
    below = [value for x, value in zip(g, difference, strict=True) if x < EPSILON - 1e-9]
    beyond = [value for x, value in zip(g, difference, strict=True) if x >= EPSILON]

    def apart(order: str, closed: str) -> float:
        """Return the largest relative distance, over all rows of the table, between two computations of the same delta.

        One computation is a closed form, in the column `closed`. The other is the recursion over the mechanisms in the
        `order`, such as "DBB" ("D" is pure DP, "B" is bounded range). It gives a certified bracket, and both ends of
        the bracket are compared with the closed form. The result is infinite if the closed form is outside of the
        bracket.
        """
        ends = zip(
            table.numbers(f"recursion_{order}_lower"),
            table.numbers(f"recursion_{order}_upper"),
            table.numbers(closed),
            strict=True,
        )
        return max(
            max(value - low, high - value) / value if low - _SLACK <= value <= high + _SLACK else math.inf
            for low, high, value in ends
        )

    says = "epsilon = 1; relative distance from the ends of the recursion's certified bracket, which holds it"
    return (
        Claim(
            label="lem:ordbrdp2",
            says="DP, BR, BR costs strictly more than BR, DP, BR below epsilon (smallest difference; paper: above 0)",
            paper=0.0,
            ours=min(below),
            relation=ClaimRelation.ABOVE,
        ),
        Claim(
            label="lem:xyz",
            says="from epsilon on all orders agree (largest difference, overall epsilon 1 to 1.2)",
            paper=0.0,
            ours=max(beyond),
            tolerance=1e-12,
        ),
        Claim(
            label="lem:ordbrdp2",
            says=f"closed form of DP, BR, BR ({says})",
            paper=0.0,
            ours=apart("DBB", "dp_br_br"),
            tolerance=5e-4,
        ),
        Claim(
            label="lem:ordbrdp2",
            says=f"closed form of BR, DP, BR ({says})",
            paper=0.0,
            ours=apart("BDB", "br_dp_br"),
            tolerance=5e-4,
        ),
        Claim(
            label="lem:xyz",
            says=f"BR, BR, DP has the value of BR, DP, BR ({says})",
            paper=0.0,
            ours=apart("BBD", "br_dp_br"),
            tolerance=5e-4,
        ),
    )


def draw(table: Table) -> "chart.Picture":
    """Return a picture of how much delta depends on the order of three mechanisms, as a difference and as a ratio.

    The order pure DP, bounded range, bounded range is compared with the order in which the pure-DP mechanism is second.
    `table` is a result of `compute`.
    """
    picture, (left, right) = chart.panels(2, (9.4, 4.4))
    g = table.numbers("overall_epsilon")
    first = table.numbers("dp_br_br")
    chart.line(left, g, table.numbers("difference"), chart.PAPER, "BR, DP, BR against DP, BR, BR (lem:ordbrdp2)")
    batch = [value - other for value, other in zip(first, table.numbers("batch"), strict=True)]
    chart.line(left, g, batch, chart.BATCH, "a batch (thm:opt_nonadaptive) against DP, BR, BR")
    low = [
        a - b for a, b in zip(table.numbers("recursion_DBB_lower"), table.numbers("recursion_BDB_upper"), strict=True)
    ]
    high = [
        a - b for a, b in zip(table.numbers("recursion_DBB_upper"), table.numbers("recursion_BDB_lower"), strict=True)
    ]
    middle = [0.5 * (a + b) for a, b in zip(low, high, strict=True)]
    chart.dots(left, g[::3], middle[::3], chart.OURS, "ours: certified recursion (lem:adap_recursion_hetero)")
    left.set(ylabel="difference in delta", ylim=(0, None))
    chart.line(right, g, table.numbers("ratio"), chart.PAPER, "")
    chart.line(right, g, [b / a for a, b in zip(first, table.numbers("batch"), strict=True)], chart.BATCH, "")
    ratio = [
        b / a for a, b in zip(table.numbers("recursion_DBB_upper"), table.numbers("recursion_BDB_upper"), strict=True)
    ]
    chart.dots(right, g[::3], ratio[::3], chart.OURS, "")
    right.set(ylabel="ratio of delta to that of DP, BR, BR", ylim=(None, 1.002))
    for panel in (left, right):
        panel.axvline(EPSILON, color="#999999", linewidth=0.8)
        panel.set(xlim=(0, g[-1]), xlabel="overall epsilon (epsilon = 1 per mechanism)")
    left.text(EPSILON + 0.01, 0.0148, "lem:xyz:\nall orders\nagree", fontsize=8, color="#555555", va="top")
    chart.legend_below(picture, left, 1)
    return picture


FIGURE = Figure(
    label="fig:gap",
    file="order-gap",
    title="What the order of one pure-DP and two bounded-range mechanisms costs",
    compute=compute,
    draw=draw,
    claims=claims,
)
