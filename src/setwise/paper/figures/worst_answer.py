"""Setwise's figure `new:worst-answer`: the worst first one of two or three adaptive bounded-range mechanisms.

The worst bounded-range mechanism is generalized randomized response with some parameter t: its losses are t and t -
epsilon. For the first of two mechanisms the worst t is a weighted sum of epsilon and the overall epsilon, as the paper
found. The paper asks whether this continues. It does not (docs/paper/open-questions.md): for the first of three,
exp(t/3) is a root of a quartic. The figure is computed in plain floats, as evidence; certified numerics are in
`setwise.accounting.adaptive`.
"""

import math
from collections.abc import Callable

from scipy.optimize import brentq, minimize_scalar

from setwise.accounting.brackets import Progress
from setwise.accounting.compose import compose
from setwise.accounting.methods.closed_forms import ThreeMechanisms
from setwise.analytics.present.palette import BLACK
from setwise.paper import chart
from setwise.paper.figure import Cell, Claim, ClaimRelation, Figure, Table
from setwise.paper.formulas import mixture

EPSILON = 1.0
_PIECES = 64


def one_left(x: float, epsilon: float = EPSILON) -> float:
    """Return the optimal delta of one epsilon-bounded-range mechanism at overall epsilon `x`.

    docs/closed-forms.md has the formula.
    """
    if abs(x) >= epsilon:
        return max(0.0, -math.expm1(x))
    return math.expm1((x - epsilon) / 2) ** 2 / -math.expm1(-epsilon)


def two_left(x: float, epsilon: float = EPSILON) -> float:
    """Return the optimal delta of two epsilon-bounded-range mechanisms at overall epsilon `x`, in closed form.

    For a negative `x`, delta is computed as 1 - exp(x) + exp(x) times the delta at -x (docs/paper/open-questions.md).
    """
    if x < 0.0:
        return -math.expm1(x) + math.exp(x) * two_left(-x, epsilon)
    if x >= 2 * epsilon:
        return 0.0
    s = math.exp(-epsilon)
    if x > epsilon / 2:
        return float(-(math.expm1((x - 2 * epsilon) / 3) ** 3) / (1 - s) ** 2)
    return float((1 - s) * (1 + s * math.exp(x)) - 4 * s**0.75 * math.exp(x / 2) * (1 - math.sqrt(s))) / (1 - s) ** 2


def objective(remaining_delta: Callable[[float, float], float], x: float, t: float, epsilon: float = EPSILON) -> float:
    """Return the delta at overall epsilon `x` if the first of several bounded-range mechanisms has the parameter `t`.

    This mechanism is the paper's generalized randomized response, whose privacy loss is either t or t - epsilon.
    `remaining_delta(y, epsilon)` is the optimal delta, at overall epsilon y, of the bounded-range mechanisms after it.

    Theorem: lem:adap_recursion_hetero.
    """
    q = math.expm1(t - epsilon) / math.expm1(-epsilon)
    return q * remaining_delta(x - t, epsilon) + (1 - q) * remaining_delta(x + epsilon - t, epsilon)


def best_answer(remaining_delta: Callable[[float, float], float], x: float, epsilon: float = EPSILON) -> float:
    """Return the worst parameter t in [0, epsilon] of the first mechanism: the t with the largest delta at `x`.

    The function `objective` computes this delta, where `x` is the overall epsilon. `remaining_delta(y, epsilon)` is the
    optimal delta, at overall epsilon y, of the mechanisms that follow. The t is accurate only to about 1e-8, because
    the maximum is flat.
    """
    step = epsilon / _PIECES
    middle = max((i * step for i in range(_PIECES + 1)), key=lambda t: objective(remaining_delta, x, t, epsilon))
    maximum = minimize_scalar(
        lambda t: -objective(remaining_delta, x, t, epsilon),
        bounds=(max(0.0, middle - step), min(epsilon, middle + step)),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return float(maximum.x)


def quartic(w: float, x: float, epsilon: float = EPSILON) -> float:
    """Return the value at `w` of a polynomial of degree four, from whose root the worst parameter t is computed.

    t is the parameter of the first of three mechanisms of `epsilon`-bounded range, and the worst t gives the largest
    delta at the overall epsilon `x`. For the worst t, w = exp(t/3) is a root. With r = exp(-epsilon/3), the polynomial
    is (1 + r) w - 2 r^2 w^4 - r^2 e^(x/3) (2 - r (1 + r) w^3).
    """
    r = math.exp(-epsilon / 3)
    return (1 + r) * w - 2 * r**2 * w**4 - r**2 * math.exp(x / 3) * (2 - r * (1 + r) * w**3)


def quartic_answer(x: float, epsilon: float = EPSILON) -> float:
    """Return the worst parameter t of the first of three bounded-range mechanisms: the t for which delta is largest.

    The worst t is computed from a root of `quartic`. `x` is the overall epsilon.

    Requires: x - t >= epsilon/2 and x + epsilon - t <= 2 epsilon for the worst t.
    """
    low, high = max(x - epsilon, 0.0), min(x - epsilon / 2, epsilon)
    root = brentq(lambda w: quartic(w, x, epsilon), math.exp(low / 3), math.exp(high / 3), xtol=1e-15, rtol=1e-15)
    return 3.0 * math.log(float(root))


def compute(progress: Progress, points: int = 121) -> Table:
    """Return the table of the worst parameter t of the first bounded-range mechanism, of two and of three mechanisms.

    The privacy loss of the first mechanism is t or t - epsilon. The worst t is the one that gives the largest delta if
    the mechanisms after it are the worst possible. There is one row for each of `points` overall epsilons. `progress`
    is called with the share of rows done.
    """
    rows: list[dict[str, Cell]] = []
    for i in range(points):
        g = 2.98 * EPSILON * i / (points - 1)
        between = 1.09 * EPSILON <= g <= 5.0 / 3.0 * EPSILON
        rows.append(
            {
                "overall_epsilon": g,
                "two_left": best_answer(one_left, g) if g < 1.98 * EPSILON else math.nan,
                "three_left": best_answer(two_left, g),
                "three_left_quartic": quartic_answer(g) if between else math.nan,
            }
        )
        progress((i + 1) / points)
    return Table.of_rows(rows)


def bend(low: float, middle: float, high: float) -> float:
    """Return how far the worst t at overall epsilon `middle` is from the line through the worst t at `low` and `high`.

    t is the parameter of the first of three bounded-range mechanisms of one epsilon, and the worst t gives the largest
    delta at the overall epsilon. If the worst t were a weighted sum of the mechanisms' epsilon and the overall epsilon,
    it would be on the line, and the distance would be 0. A distance above 0 shows that the worst t is no such sum.
    """
    share = (middle - low) / (high - low)
    chord = (1 - share) * quartic_answer(low) + share * quartic_answer(high)
    return abs(quartic_answer(middle) - chord)


def claims(table: Table) -> tuple[Claim, ...]:
    """Return checks of the paper's observation about the worst parameter t, and of our answer to its open question.

    t is the parameter of the first of several bounded-range mechanisms, and the worst t gives the largest delta. The
    paper asks about more than two mechanisms. With two mechanisms the worst t is a weighted sum of epsilon and the
    overall epsilon; the checks show that with three it is not. `table` is a result of `compute`.
    """
    g, two = table.numbers("overall_epsilon"), table.numbers("two_left")
    sums = [max(EPSILON / 2, (x + EPSILON) / 3) for x in g]
    apart = max(abs(a - b) for a, b in zip(two, sums, strict=True) if not math.isnan(a))
    three = ThreeMechanisms(EPSILON)

    def argmax(function: Callable[[float, float], float], x: float) -> float:
        """Return the t between `x` and epsilon at which `function(t, x)` is largest.

        `x` is the overall epsilon, and t the parameter of the first of two bounded-range mechanisms, next to one
        pure-DP mechanism. All three have the epsilon `EPSILON`. `function` is y or z, two of the summands by which the
        paper's lem:xyz writes their delta.
        """
        return float(
            minimize_scalar(
                lambda t: -function(t, x), bounds=(x, EPSILON), method="bounded", options={"xatol": 1e-12}
            ).x
        )

    quartics = zip(table.numbers("three_left"), table.numbers("three_left_quartic"), strict=True)
    solved = max(abs(a - b) for a, b in quartics if not math.isnan(b))
    bracket = compose(mixture(EPSILON, 3, 0)).delta(1.4, width=1e-4)
    return (
        Claim(
            label="lem:ordbrdp2",
            says="the worst answers are weighted sums of epsilon and the overall epsilon: y is largest at (1 + 0.2)/3",
            paper=1.2 / 3,
            ours=argmax(three.y, 0.2),
            tolerance=1e-7,
        ),
        Claim(
            label="lem:ordbrdp2",
            says="and z at (2 + 0.2)/3",
            paper=2.2 / 3,
            ours=argmax(three.z, 0.2),
            tolerance=1e-7,
        ),
        Claim(
            label="new:worst-answer",
            says="with two BR left the worst t is max(epsilon/2, (epsilon + g)/3), a weighted sum (largest distance)",
            paper=0.0,
            ours=apart,
            tolerance=1e-6,
        ),
        Claim(
            label="new:worst-answer",
            says="does this go on beyond k = 3? No: with three BR left the worst t bends (distance from its chord at "
            "1.4, between 1.15 and 1.65; 0 for a weighted sum)",
            paper=0.0,
            ours=bend(1.15, 1.4, 1.65),
            relation=ClaimRelation.ABOVE,
            tolerance=1e-3,
        ),
        Claim(
            label="new:worst-answer",
            says="there exp(t/3) solves the quartic of the open questions (largest distance from the maximiser)",
            paper=0.0,
            ours=solved,
            tolerance=1e-6,
        ),
        Claim(
            label="new:worst-answer",
            says="the value at that t is the certified optimum of three BR (overall epsilon 1.4; paper: middle of "
            "the bracket)",
            paper=0.5 * (bracket.lower + bracket.upper),
            ours=objective(two_left, 1.4, quartic_answer(1.4)),
            tolerance=0.5 * (bracket.upper - bracket.lower),
        ),
    )


def draw(table: Table) -> "chart.Picture":
    """Return a picture of the worst t of the first of two and of three mechanisms, against the overall epsilon g.

    The worst t is the parameter with the largest delta. The picture also has the t that follows from the root of
    `quartic`, and (epsilon + g)/4, the answer for three mechanisms chosen up front. `table` is a result of `compute`.
    """
    picture, (panel,) = chart.panels(1, (7.8, 4.8))
    g = table.numbers("overall_epsilon")
    chart.line(
        panel, g, table.numbers("two_left"), chart.PAPER, "two BR left: max(epsilon/2, (epsilon + g)/3), lem:ordbrdp2"
    )
    chart.line(panel, g, table.numbers("three_left"), chart.OURS, "ours: three BR left")
    panel.plot(
        g[::3],
        table.numbers("three_left_quartic")[::3],
        "o",
        color=BLACK,
        markerfacecolor="none",
        markersize=4.5,
        label="ours: root of the quartic, no weighted sum",
    )
    start = [(x + EPSILON) / 4 for x in g]
    chart.line(panel, g, start, chart.PURE, "(epsilon + g)/4, the batch answer")
    panel.set(xlim=(0, 3), ylim=(0.2, 1.02), xlabel="overall epsilon g (epsilon = 1 per mechanism)")
    panel.set(ylabel="worst t of the first mechanism")
    panel.legend(loc="upper left", fontsize=8.5, frameon=False)
    return picture


FIGURE = Figure(
    label="new:worst-answer",
    file="worst-answer",
    title="The worst first answer with two and three bounded-range mechanisms left",
    compute=compute,
    draw=draw,
    claims=claims,
)
