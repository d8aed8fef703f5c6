"""Setwise's figure `new:unequal-order`: delta by the order of bounded-range mechanisms of different epsilons."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from setwise.accounting.brackets import Bracket, Interaction, Progress
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import BoundedRange
from setwise.analytics.present.palette import BLACK
from setwise.paper import chart
from setwise.paper.figure import Cell, Claim, ClaimRelation, Figure, Table
from setwise.paper.formulas import narrow

Order = tuple[float, ...]


def delta_in_order(order: Sequence[float], g: float) -> Bracket:
    """Return certified lower and upper bounds on the optimal delta of mechanisms in a fixed order.

    The mechanisms have bounded range, and `order` lists their epsilons, first to last. `g` is the overall epsilon.

    Theorem: lem:adap_recursion_hetero.
    """
    return _delta(order, g, Interaction.ORDERED)


def delta_in_any_order(parameters: Sequence[float], g: float) -> Bracket:
    """Return certified lower and upper bounds on the optimal delta of mechanisms in an order chosen on the fly.

    After each answer the analyst decides which of the remaining bounded-range mechanisms, with the epsilons in
    `parameters`, comes next. `g` is the overall epsilon.
    """
    return _delta(parameters, g, Interaction.SETWISE)


def _delta(order: Sequence[float], g: float, interaction: Interaction) -> Bracket:
    """Return certified lower and upper bounds, close together, on the delta of bounded-range mechanisms.

    `order` has the epsilons of the mechanisms, and `g` is the overall epsilon. `interaction` says whether the analyst
    keeps to this order or chooses the order on the fly.
    """
    composed = compose([BoundedRange(epsilon=epsilon) for epsilon in order], interaction)
    return narrow(lambda width: composed.delta(g, width=width).bracket)


@dataclass(frozen=True, slots=True)
class Orders:
    """Certified lower and upper bounds on the delta of some bounded-range mechanisms, in every order.

    - `fixed` maps each fixed order, a tuple of epsilons, to its bounds.
    - `chosen` has the bounds if the analyst chooses the order on the fly.
    """

    fixed: dict[Order, Bracket]
    chosen: Bracket

    @property
    def worst(self) -> Order:
        """The fixed order with the largest delta, by the lower bounds that are certified."""
        return max(self.fixed, key=lambda order: self.fixed[order].lower)

    @property
    def smaller_first(self) -> Order:
        """The fixed order in which the epsilons of the mechanisms ascend, as a tuple of these epsilons."""
        return tuple(sorted(next(iter(self.fixed))))

    @property
    def smaller_first_is_beaten(self) -> bool:
        """Whether some fixed order provably has a larger delta than the order by ascending epsilon."""
        return self.fixed[self.worst].lower > self.fixed[self.smaller_first].upper

    @property
    def choosing_helps(self) -> bool:
        """Whether an order chosen on the fly provably has a larger delta than every fixed order."""
        return self.chosen.lower > max(bracket.upper for bracket in self.fixed.values())


def all_orders(parameters: Sequence[float], g: float) -> Orders:
    """Return bounds on the optimal delta at overall epsilon `g` of bounded-range mechanisms, in all their orders.

    `parameters` are the epsilons of the mechanisms.
    """
    return Orders(
        {order: delta_in_order(order, g) for order in sorted(set(permutations(parameters)))},
        delta_in_any_order(parameters, g),
    )


@dataclass(frozen=True, slots=True)
class Survey:
    """Results over many sets of `size` epsilons: how often the ascending order is not the worst, and by how much.

    A case is a set of epsilons of bounded-range mechanisms, with an overall epsilon.

    - `cases`: the number of cases tried
    - `beaten`: the number of cases in which another fixed order provably has a larger delta than the ascending order
    - `largest_excess`: the largest relative excess of that delta over the delta of the ascending order
    - `choosing_helps`: the number of cases in which an order chosen on the fly provably has a larger delta than every
      fixed order
    """

    size: int
    cases: int
    beaten: int
    largest_excess: float
    choosing_helps: int


def survey(size: int, values: Sequence[float], shares: Sequence[float]) -> Survey:
    """Compare the deltas of all orders of bounded-range mechanisms, for every set of `size` epsilons out of `values`.

    A set stands for mechanisms with these epsilons, which are distinct. The deltas are compared at several overall
    epsilons: the sum of the set's epsilons times each number in `shares`. The result says in how many cases the
    ascending order is not the worst, by how much, and in how many an order chosen on the fly is worse than every fixed
    order.
    """
    cases = [
        all_orders(parameters, share * sum(parameters))
        for parameters in combinations(sorted(values), size)
        for share in shares
    ]
    beaten = [case for case in cases if case.smaller_first_is_beaten]
    return Survey(
        size,
        len(cases),
        len(beaten),
        max(
            (case.fixed[case.worst].lower / case.fixed[case.smaller_first].upper - 1.0 for case in beaten), default=0.0
        ),
        sum(case.choosing_helps for case in cases),
    )


PAIRS = ((0.25, 1.0), (0.5, 1.0), (0.75, 1.0))
FOUR = (0.75, 1.125, 1.375, 1.5)
SWAPPED = (1.125, 0.75, 1.375, 1.5)
"""An order of the same four parameters that is certainly worse than the ascending one for some overall epsilons."""

_FAR = 0.9
"""Share of the sum of the parameters up to which delta is drawn; at 1 it is 0, and near 1 it is hard to bracket."""


def compute(progress: Progress, points: int = 41) -> Table:
    """Return the table of certified bounds on delta, for two fixed orders of mechanisms and an order chosen on the fly.

    There is one row for each set of epsilons of bounded-range mechanisms and each of `points` overall epsilons. The two
    fixed orders are:

    - for two epsilons: the smaller first, and the larger first
    - for four: ascending, and ascending with the first two swapped

    `progress` is called with the share of rows done.
    """
    rows: list[dict[str, Cell]] = []
    sets = [(f"{a:g} and {b:g}", (a, b), (b, a)) for a, b in PAIRS] + [("four", FOUR, SWAPPED)]
    places = [(name, first, second, i) for name, first, second in sets for i in range(points)]
    for done, (name, first, second, i) in enumerate(places):
        g = (_FAR if name != "four" else 0.4) * sum(first) * i / (points - 1)
        one, other, chosen = delta_in_order(first, g), delta_in_order(second, g), delta_in_any_order(first, g)
        rows.append(
            {
                "parameters": name,
                "overall_epsilon": g,
                "ascending_lower": one.lower,
                "ascending_upper": one.upper,
                "other_lower": other.lower,
                "other_upper": other.upper,
                "any_order_lower": chosen.lower,
                "any_order_upper": chosen.upper,
            }
        )
        progress((done + 1) / len(places))
    return Table.of_rows(rows)


def claims(table: Table) -> tuple[Claim, ...]:
    """Return checks about the order of bounded-range mechanisms with unequal epsilons, which the paper leaves open.

    They check that delta depends on the order, and that the order by ascending epsilon is not always the worst. `table`
    is a result of `compute`.
    """
    small, large = delta_in_order((0.5, 1.0), 0.3), delta_in_order((1.0, 0.5), 0.3)
    four = table.where("parameters", "four")
    excess = [b / a - 1.0 for a, b in zip(four.numbers("ascending_upper"), four.numbers("other_lower"), strict=True)]
    return (
        Claim(
            label="new:unequal-order",
            says="BR parameters 0.5 and 1 at overall epsilon 0.3: delta with 0.5 first is 0.155269 (nested "
            "maximisation)",
            paper=0.155269,
            ours=0.5 * (small.lower + small.upper),
            tolerance=1e-6,
        ),
        Claim(
            label="new:unequal-order",
            says="and 0.144068 with 1 first: order matters for unequal BR parameters",
            paper=0.144068,
            ours=0.5 * (large.lower + large.upper),
            tolerance=1e-6,
        ),
        Claim(
            label="new:unequal-order",
            says="smaller first is not always the worst order: for 0.75, 1.125, 1.375, 1.5 swapping the first two is "
            "worse (largest certified relative excess; paper: 0, were it the worst)",
            paper=0.0,
            ours=max(excess),
            relation=ClaimRelation.ABOVE,
        ),
    )


def draw(table: Table) -> "chart.Picture":
    """Return a picture of how the order of bounded-range mechanisms changes delta, against the overall epsilon.

    - On the left, for two mechanisms: by how many percent delta is smaller if the larger epsilon comes first.
    - On the right, for four mechanisms: by how much delta is larger if the first two of the ascending order are
      swapped.

    `table` is a result of `compute`.
    """
    picture, (left, right) = chart.panels(2, (9.8, 4.7))
    for (a, b), stroke in zip(PAIRS, (chart.OTHER, chart.OURS, chart.PAPER_TOO), strict=True):
        part = table.where("parameters", f"{a:g} and {b:g}")
        share = [g / (a + b) for g in part.numbers("overall_epsilon")]
        less = [
            100.0 * max(0.0, 1.0 - other / ascending)
            for other, ascending in zip(part.numbers("other_upper"), part.numbers("ascending_upper"), strict=True)
        ]
        chart.line(left, share, less, stroke, f"{a:g} and {b:g}", every=4)
    left.set(xlim=(0, 1), ylim=(0, None), xlabel="overall epsilon, share of the sum of the two parameters")
    left.set(ylabel="delta saved by larger first, %")
    left.set_title("two mechanisms: larger first against smaller first", loc="left")
    left.legend(title="bounded-range parameters", loc="upper right", title_fontsize=8.5, fontsize=8.5, frameon=False)
    four = table.where("parameters", "four")
    g = four.numbers("overall_epsilon")
    ends = [
        [1e6 * (b / a - 1.0) for a, b in zip(four.numbers(x), four.numbers(y), strict=True)]
        for x, y in (("ascending_upper", "other_lower"), ("ascending_lower", "other_upper"))
    ]
    right.fill_between(g, ends[0], ends[1], color=chart.OURS.color, alpha=0.6, linewidth=0.8, label="certified bracket")
    right.axhline(0.0, color=BLACK, linewidth=0.8)
    right.set(xlim=(0, g[-1]), xlabel="overall epsilon", ylabel="excess of delta over smaller first, millionths")
    right.set_title("order 1.125, 0.75, 1.375, 1.5 against smaller first", loc="left")
    right.legend(loc="lower left", fontsize=8.5, frameon=False)
    return picture


FIGURE = Figure(
    label="new:unequal-order",
    file="unequal-order",
    title="What order costs for unequal bounded-range parameters",
    compute=compute,
    draw=draw,
    claims=claims,
)
