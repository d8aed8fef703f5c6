"""Paper's `fig:GM_oneshot`, `fig:GM_comp`: the overall epsilon of histograms with Laplace and with Gaussian noise.

Both noises have the same variance. The first figure has one histogram and the l0-sensitivity, the number of counts that
one user changes, on its x axis; the second has several histograms, each of l0-sensitivity 10.
"""

import math
from collections.abc import Callable, Sequence

from setwise.accounting.brackets import Progress
from setwise.accounting.compose import compose
from setwise.accounting.conversions import gaussian_to_approx
from setwise.accounting.guarantees import ApproxDP, Gaussian, Use
from setwise.accounting.methods.moments import zero_concentrated_sum
from setwise.paper import chart
from setwise.paper.chart import Stroke
from setwise.paper.figure import Cell, Claim, ClaimRelation, Figure, Table
from setwise.paper.formulas import (
    gaussian_histogram,
    gaussian_histogram_epsilon_by_paper,
    laplace_histogram,
    laplace_histogram_as_pure,
)

DELTA = 1e-6
EPSILONS = (0.1, 1.0)
"""The paper does not say which epsilon it drew; these two show both of the cases that its text mentions."""


def equal_sigma(epsilon: float) -> float:
    """Return the standard deviation of Laplace noise of scale 1/epsilon, which is sqrt(2)/epsilon.

    The figures compare Laplace noise with Gaussian noise of this standard deviation, so that both are equally accurate.
    """
    return math.sqrt(2.0) / epsilon


def laplace_by_paper(epsilon: float, counts: int) -> float:
    """Return the overall epsilon at delta = 1e-6 of a histogram with Laplace noise, by the paper's bound.

    The noise has the scale 1/epsilon. `counts` is the largest number of counts that one user changes; each noisy count
    is composed as if it were the worst epsilon-DP mechanism.

    Theorem: lem:peeling_lap.
    """
    return compose([laplace_histogram_as_pure(epsilon=epsilon, contributions=counts)]).epsilon(DELTA).upper


def laplace_exact(epsilon: float, counts: int) -> float:
    """Return the overall epsilon at delta = 1e-6 of a histogram with Laplace noise, by its exact privacy loss.

    The noise has the scale 1/epsilon. `counts` is the largest number of counts that one user changes.
    """
    return compose([laplace_histogram(scale=1.0 / epsilon, contributions=counts)]).epsilon(DELTA).upper


def gaussian_by_paper(epsilon: float, counts: int) -> float:
    """Return the overall epsilon at delta = 1e-6 of a histogram with Gaussian noise, by the paper's bound through zCDP.

    The noise has the variance of Laplace noise of scale 1/epsilon. `counts` is the largest number of counts that one
    user changes.

    Theorem: lem:GM.
    """
    return gaussian_histogram_epsilon_by_paper(sigma=equal_sigma(epsilon), contributions=counts, delta=DELTA)


def gaussian_exact(epsilon: float, counts: int) -> float:
    """Return the overall epsilon at delta = 1e-6 of a histogram with Gaussian noise, by its exact privacy profile.

    The noise has the variance of Laplace noise of scale 1/epsilon. `counts` is the largest number of counts that one
    user changes, so the histogram is one Gaussian mechanism of l2-sensitivity sqrt(counts).

    Theorem: lem:AGM.
    """
    return compose([gaussian_histogram(sigma=equal_sigma(epsilon), contributions=counts)]).epsilon(DELTA).upper


def gaussian_composed(epsilon: float, contributions: int, histograms: int) -> float:
    """Return the overall epsilon at delta = 1e-6 of several Gaussian histograms, composed as (epsilon_i, delta_i)-DP.

    The noise has the variance of Laplace noise of scale 1/`epsilon`. One user changes at most `contributions` counts of
    each histogram. The best delta_i are found by search.

    Theorem: lem:AGM, MurtaghVa16.
    """
    once = Gaussian(sigma=equal_sigma(epsilon) / math.sqrt(contributions))

    def overall(log_share: float) -> float:
        """Return the overall epsilon of the histograms if their own deltas take the share exp(`log_share`) of delta.

        Each histogram is (epsilon_i, delta_i)-DP, and all delta_i are equal. For n histograms, delta_i is chosen so
        that 1 - (1 - delta_i)^n is the share times delta. The rest of delta is spent on composing the histograms. The
        function around this one searches for the best share.
        """
        spent = DELTA * math.exp(log_share)
        histogram = gaussian_to_approx(once, -math.expm1(math.log1p(-spent) / histograms))
        use = Use(ApproxDP(epsilon=histogram.epsilon, delta=histogram.delta), histograms)
        return compose([use]).epsilon(DELTA).upper

    return _smallest(overall, math.log(1e-4), math.log(1.0 - 1e-6))


def _smallest(value: Callable[[float], float], low: float, high: float, points: int = 25) -> float:
    """Return about the smallest value of the function `value` between `low` and `high`, by search on grids.

    The function is evaluated at `points` points, and twice more on finer grids around the best point.
    """
    best = math.inf
    for _ in range(3):
        step = (high - low) / (points - 1)
        places = [low + step * i for i in range(points)]
        values = [value(place) for place in places]
        best = min(best, *values)
        middle = places[values.index(min(values))]
        low, high = max(low, middle - step), min(high, middle + step)
    return best


SENSITIVITIES = (1, 2, 3, 5, 8, 10, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100)


def compute_once(progress: Progress, sensitivities: tuple[int, ...] = SENSITIVITIES) -> Table:
    """Return the table of overall epsilons at delta = 1e-6 for one histogram.

    `sensitivities` lists how many counts one user changes. There is one row for each of these numbers and each epsilon
    in `EPSILONS`. The Laplace noise of a row has the scale 1/epsilon on every count, and its Gaussian noise has the
    same variance. There are four columns of overall epsilons: by the paper's bound and exact, for Laplace noise and for
    Gaussian noise. `progress` is called with the share of rows done.
    """
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


def claims_once(table: Table) -> tuple[Claim, ...]:
    """Return checks of what the paper's text says about one histogram (fig:GM_oneshot).

    The text says that Laplace noise has the smaller epsilon if one user changes few counts, and Gaussian noise if one
    user changes many. `table` is a result of `compute_once`.
    """
    comparisons = []
    for epsilon in EPSILONS:
        few, many = {"epsilon": epsilon, "sensitivity": 1.0}, {"epsilon": epsilon, "sensitivity": 100.0}
        comparisons += [
            Claim(
                label="fig:GM_oneshot",
                says=f"small l0-sensitivity: Laplace is below optimal Gaussian (1, epsilon = {epsilon:g}; "
                "paper: Gaussian)",
                paper=table.at(few, "gaussian"),
                ours=table.at(few, "laplace"),
                relation=ClaimRelation.BELOW,
            ),
            Claim(
                label="fig:GM_oneshot",
                says=f"large l0-sensitivity: optimal Gaussian wins (100, epsilon = {epsilon:g}; paper: Laplace)",
                paper=table.at(many, "laplace"),
                ours=table.at(many, "gaussian"),
                relation=ClaimRelation.BELOW,
            ),
        ]
    worst = max(b / a for a, b in zip(table.numbers("laplace"), table.numbers("ours_laplace"), strict=True))
    return (
        *comparisons,
        Claim(
            label="lem:peeling_lap",
            says="Laplace noise costs at most as much as the worst pure DP (largest ratio; paper: 1)",
            paper=1.0,
            ours=worst,
            relation=ClaimRelation.BELOW,
        ),
    )


_PUBLISHED = (
    ("laplace", chart.PAPER, "Laplace noise (lem:peeling_lap)"),
    ("gaussian_zcdp", chart.PAPER_TOO, "Gaussian noise with zCDP (lem:GM)"),
)
"""The curves that both figures have: column of the table, stroke, and label."""


def _draw(
    table: Table, x: str, curves: Sequence[tuple[str, Stroke, str]], height: float, axis: str, reach: tuple[int, int]
) -> "chart.Picture":
    """Return a picture of overall epsilons of histograms, with one panel for each of two epsilons.

    The epsilon of a panel is that of one count with Laplace noise of scale 1/epsilon. The panel also shows Gaussian
    noise of the same variance.

    - `table` has the column `x`, and a column for each of `curves`: (column, stroke, label).
    - `height` is the height of the picture in inches.
    - `axis` is the name of the horizontal axis, and `reach` its ends.
    """
    picture, axes = chart.panels(2, (9.4, height))
    for panel, epsilon in zip(axes, EPSILONS, strict=True):
        part = table.where("epsilon", epsilon)
        for column, stroke, label in (*_PUBLISHED, *curves):
            chart.line(panel, part.numbers(x), part.numbers(column), stroke, label)
        panel.set(xlim=reach, ylim=(0, None), xlabel=axis, ylabel="overall epsilon, delta = 1e-6")
        panel.set_title(f"Laplace scale {1 / epsilon:g}, Gaussian sigma {equal_sigma(epsilon):.3g}", loc="left")
    chart.legend_below(picture, axes[0], 2)
    return picture


def draw_once(table: Table) -> "chart.Picture":
    """Return a picture of the overall epsilon of a noisy histogram against the number of counts that one user changes.

    `table` is a result of `compute_once`.
    """
    curves = (
        ("gaussian", chart.BATCH, "optimal Gaussian, l2-sensitivity (lem:AGM)"),
        ("ours_laplace", chart.OURS, "ours: Laplace noise by its own loss"),
    )
    return _draw(table, "sensitivity", curves, 4.7, "l0-sensitivity (counts one user changes)", (0, 100))


ONCE = Figure(
    label="fig:GM_oneshot",
    file="histogram-once",
    title="Laplace against Gaussian noise of equal variance on one histogram",
    compute=compute_once,
    draw=draw_once,
    claims=claims_once,
)


CONTRIBUTIONS = 10
HISTOGRAMS = tuple(range(2, 11))


def compute_composed(progress: Progress, histograms: tuple[int, ...] = HISTOGRAMS) -> Table:
    """Return the table of overall epsilons at delta = 1e-6 for several histograms, each with l0-sensitivity 10.

    So one user changes at most 10 counts of each histogram. There is one row for each epsilon of the Laplace noise and
    each number of histograms in `histograms`, and one column per bound on epsilon. `progress` is called with the share
    of rows done.
    """
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


def claims_composed(table: Table) -> tuple[Claim, ...]:
    """Return checks of what the paper's text says about several histograms (fig:GM_comp).

    The text says that Laplace noise has the smaller epsilon for few histograms, and Gaussian noise, through zCDP, for
    many. `table` is a result of `compute_composed`.
    """
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
            relation=ClaimRelation.BELOW,
        ),
        Claim(
            label="fig:GM_comp",
            says="Laplace is below the composed optimal Gaussian throughout (largest ratio; paper: 1)",
            paper=1.0,
            ours=lead,
            relation=ClaimRelation.BELOW,
        ),
        Claim(
            label="fig:GM_comp",
            says="the best one-shot bound composes badly: (epsilon, delta) by (epsilon, delta) is above zCDP for ten "
            "histograms (epsilon = 0.1; paper: zCDP)",
            paper=table.at(last, "gaussian_zcdp"),
            ours=table.at(last, "gaussian_composed"),
            relation=ClaimRelation.ABOVE,
        ),
        Claim(
            label="fig:GM_comp",
            says="after enough histograms Gaussian noise is below Laplace (ten, epsilon = 0.1; paper: Laplace, ours: "
            "zCDP)",
            paper=table.at(last, "laplace"),
            ours=table.at(last, "gaussian_zcdp"),
            relation=ClaimRelation.BELOW,
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
            relation=ClaimRelation.BELOW,
        ),
    )


def draw_composed(table: Table) -> "chart.Picture":
    """Return a picture of the overall epsilon of composed noisy histograms against the number of these histograms.

    `table` is a result of `compute_composed`.
    """
    curves = (
        ("gaussian_composed", chart.BATCH, "optimal Gaussian (lem:AGM), composed as (epsilon, delta)"),
        ("ours_gaussian", chart.OURS, "ours: one Gaussian, exactly"),
        ("ours_laplace", chart.OURS_TOO, "ours: Laplace noise by its own loss"),
    )
    return _draw(table, "histograms", curves, 4.9, "histograms k, each of l0-sensitivity 10", (2, 10))


COMPOSED = Figure(
    label="fig:GM_comp",
    file="histogram-composed",
    title="Laplace against Gaussian noise of equal variance on k histograms",
    compute=compute_composed,
    draw=draw_composed,
    claims=claims_composed,
)
