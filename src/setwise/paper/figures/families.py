"""Paper's `fig:AdvancedCompBRDP`, `fig:opt_nonadaptive`: the overall epsilon and delta of k uses, m of them pure DP.

The other uses have bounded range (BR). The first figure has the paper's set-wise bound on epsilon against the optimal
pure-DP bound, the second the optimal delta of a batch (uses chosen up front); both figures show Setwise's optimum for
set-wise uses too.
"""

from setwise.accounting.brackets import Progress
from setwise.accounting.compose import compose
from setwise.paper import chart, formulas
from setwise.paper.chart import Stroke
from setwise.paper.figure import Cell, Claim, ClaimRelation, Figure, Table
from setwise.paper.formulas import mixture, paper_epsilon

DELTA = 1e-6
EPSILONS = (0.1, 0.5)
SHARES = (0, 25, 50, 75, 100)
"""The drawn shares of pure-DP uses, in percent."""

OURS = (0, 50)
"""The shares of pure-DP uses, in percent, for which our own optimum is drawn."""


def compute_setwise(progress: Progress, most: int = 100) -> Table:
    """Return the table of overall epsilons at delta = 1e-6 of pure-DP and bounded-range mechanisms, by several bounds.

    There is one row for each epsilon of a single mechanism and each number of mechanisms: 4, 8, 12 and so on up to
    `most`. The mechanisms are set-wise: the analyst may run them in any order. The columns are:

    - the paper's set-wise bound if 0, 25, 50, 75 or 100% of the mechanisms are pure DP; the others have bounded range
    - the smallest overall epsilon if all mechanisms are pure DP
    - certified lower and upper bounds on the smallest overall epsilon, if 0 or 50% are pure DP

    `progress` is called with the share of rows done.
    """
    rows: list[dict[str, Cell]] = []
    # The paper does not say for which epsilon and delta its figure is drawn, so two epsilons are computed.
    places = [(epsilon, uses) for epsilon in EPSILONS for uses in range(4, most + 1, 4)]
    for done, (epsilon, uses) in enumerate(places):
        row: dict[str, Cell] = {"epsilon": epsilon, "uses": uses}
        for share in SHARES:
            row[f"paper_{share}"] = paper_epsilon(mixture(epsilon, uses, uses * share // 100), DELTA)
        row["optimal_pure"] = compose(mixture(epsilon, uses, uses)).epsilon(DELTA).upper
        for share in OURS:
            optimum = compose(mixture(epsilon, uses, uses * share // 100)).epsilon(DELTA)
            row[f"ours_{share}_lower"], row[f"ours_{share}_upper"] = optimum.lower, optimum.upper
        rows.append(row)
        progress((done + 1) / len(places))
    return Table.of_rows(rows)


def claims_setwise(table: Table) -> tuple[Claim, ...]:
    """Return checks of what the paper's text says about its set-wise bound (fig:AdvancedCompBRDP).

    The set-wise bound is on the overall epsilon if the analyst may run the mechanisms in any order. The text compares
    it with the smallest epsilon that holds if all mechanisms are pure DP. It says that the two are almost equal if half
    of the mechanisms have bounded range, and that the set-wise bound is lower if all mechanisms have bounded range.
    `table` is a result of `compute_setwise`.
    """
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
            relation=ClaimRelation.BELOW,
        ),
        Claim(
            label="fig:AdvancedCompBRDP",
            says="all BR, the set-wise bound beats the optimal bound for pure DP (100 uses of 0.1; paper: pure DP)",
            paper=small.at(last, "optimal_pure"),
            ours=small.at(last, "paper_0"),
            relation=ClaimRelation.BELOW,
        ),
        Claim(
            label="fig:AdvancedCompBRDP",
            says="the set-wise bound is loose (largest ratio of the certified optimum to it; paper: 1, were it tight)",
            paper=1.0,
            ours=max(ratios),
            relation=ClaimRelation.BELOW,
        ),
    )


def draw_setwise(table: Table) -> "chart.Picture":
    """Return a picture of the overall epsilon against the number of mechanisms, one panel per epsilon of one mechanism.

    `table` is a result of `compute_setwise`.
    """
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


SETWISE = Figure(
    label="fig:AdvancedCompBRDP",
    file="setwise-family",
    title="The set-wise bound for m pure-DP uses of k, against the optimum",
    compute=compute_setwise,
    draw=draw_setwise,
    claims=claims_setwise,
)


EPSILON = 0.1
COUNTS = (20, 100)
_FARTHEST = {20: 1.95, 100: 5.0}
_SMALLEST = 1e-12
"""The smallest delta on the y axis of the picture."""


def compute_batch(progress: Progress, points: int = 27) -> Table:
    """Return the table of optimal deltas of pure-DP and bounded-range mechanisms.

    There is one row for each number of mechanisms at each of `points` overall epsilons. The columns are:

    - the optimum of a batch (mechanisms chosen up front), if 0, 25, 50, 75 or 100% of the mechanisms are pure DP
    - if 0 or 50% are pure DP, also our certified lower and upper bounds on the optimum for mechanisms whose order the
      analyst chooses on the fly

    `progress` is called with the share of rows done.
    """
    rows: list[dict[str, Cell]] = []
    places = [(uses, i * _FARTHEST[uses] / (points - 1)) for uses in COUNTS for i in range(points)]
    for done, (uses, g) in enumerate(places):
        row: dict[str, Cell] = {"uses": uses, "overall_epsilon": g}
        for share in SHARES:
            row[f"batch_{share}"] = compose(mixture(EPSILON, uses, uses * share // 100), "batch").delta(g).upper
        for share in OURS:
            optimum = compose(mixture(EPSILON, uses, uses * share // 100)).delta(g)
            row[f"ours_{share}_lower"], row[f"ours_{share}_upper"] = optimum.lower, optimum.upper
        rows.append(row)
        progress((done + 1) / len(places))
    return Table.of_rows(rows)


def claims_batch(table: Table) -> tuple[Claim, ...]:
    """Return checks that the optimum of a batch agrees with two earlier theorems, and with the paper's printed formula.

    A batch is a set of mechanisms that are chosen up front. The earlier theorems are thm:opt_DPCOMP, for pure-DP
    mechanisms, and thm:non-adaptive, for bounded-range mechanisms. `table` is a result of `compute_batch`.
    """
    part = table.where("uses", 20.0)
    places = [(g, row) for row, g in enumerate(part.numbers("overall_epsilon")) if g < 1.0]

    def apart(share: int, formula: "list[float]") -> float:
        """Return the largest relative distance between two computations of the same optimal deltas.

        The deltas are of 20 mechanisms that are chosen up front; `share` percent of them are pure DP. There is one
        delta for each overall epsilon below 1 in the table. One computation is a column of the table. The other is
        `formula`, a list of deltas by the paper's formula, in the order of the overall epsilons.
        """
        values = part.numbers(f"batch_{share}")
        return max(abs(values[row] / truth - 1) for (_, row), truth in zip(places, formula, strict=True))

    says = "20 uses of 0.1, overall epsilon below 1; largest relative distance"
    return (
        Claim(
            label="thm:opt_DPCOMP",
            says=f"the batch optimum with m = k is the optimal pure-DP bound ({says})",
            paper=0.0,
            ours=apart(100, [formulas.pure_delta(20, EPSILON, g) for g, _ in places]),
            tolerance=1e-9,
        ),
        Claim(
            label="thm:non-adaptive",
            says=f"the batch optimum with m = 0 is the optimal batch BR bound ({says})",
            paper=0.0,
            ours=apart(0, [formulas.batch_range_delta(20, EPSILON, g) for g, _ in places]),
            tolerance=1e-9,
        ),
        Claim(
            label="thm:opt_nonadaptive",
            says=f"the maximum over k + m + 1 candidates is the batch optimum, m = 10 ({says})",
            paper=0.0,
            ours=apart(50, [formulas.batch_delta(20, 10, EPSILON, g) for g, _ in places]),
            tolerance=1e-9,
        ),
    )


def draw_batch(table: Table) -> "chart.Picture":
    """Return a picture of the optimal delta of a batch (mechanisms chosen up front) against the overall epsilon.

    Delta is on a logarithmic axis, and there is one panel per number of mechanisms. `table` is a result of
    `compute_batch`.
    """
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


BATCH = Figure(
    label="fig:opt_nonadaptive",
    file="batch-family",
    title="The optimal batch bound for m pure-DP uses of k, and the set-wise optimum",
    compute=compute_batch,
    draw=draw_batch,
    claims=claims_batch,
)
