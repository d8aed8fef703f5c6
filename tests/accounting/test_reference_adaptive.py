import pytest

from setwise.accounting.adaptive.optimum import Optimum
from setwise.accounting.adaptive.stages import LinearStage, RangeStage
from setwise.accounting.brackets import Bracket
from setwise.accounting.compose import compose
from setwise.accounting.guarantees import BoundedRange, PureDP
from tests.accounting.reference_rows import rows

EVERY = rows("adaptive.csv")
NO_FAILURE = Bracket(0.0, 0.0)


def guarantees(row):
    epsilon = row.parameters["eps"]
    return [
        PureDP(epsilon=epsilon) if kind == "D" else BoundedRange(epsilon=epsilon) for kind in row.parameters["order"]
    ]


def given(row):
    return Bracket(*(float(end) for end in row.value.split()))


@pytest.mark.parametrize("row", EVERY, ids=str)
def test_bracket_overlaps_the_given_one(row):
    answer = compose(guarantees(row), "ordered").delta(row.parameters["g"])
    assert answer.bracket.overlaps(given(row))


@pytest.mark.parametrize("row", EVERY, ids=str)
def test_narrow_on_request(row):
    answer = compose(guarantees(row), "ordered").delta(row.parameters["g"], width=1e-4)
    assert answer.width <= 1e-4 * answer.upper
    assert answer.bracket.overlaps(given(row))


def stages(order, epsilon):
    return tuple(
        LinearStage(((PureDP(epsilon=epsilon), 1),)) if kind == "D" else RangeStage(((epsilon, 1),)) for kind in order
    )


CLOSED = [("DBB", 0.440662042719804), ("BDB", 0.435920229087277), ("BBD", 0.435920229087277)]


@pytest.mark.parametrize(("order", "truth"), CLOSED)
def test_closed_forms_of_three(order, truth):
    every = [PureDP(epsilon=1.0) if kind == "D" else BoundedRange(epsilon=1.0) for kind in order]
    answer = compose(every, "ordered").delta(0.2)
    assert answer.statement == "lem:ordbrdp2"
    assert answer.lower <= truth * (1 + 1e-14)
    assert answer.upper >= truth * (1 - 1e-14)
    assert answer.upper == pytest.approx(truth, rel=1e-9, abs=0)
    assert answer.lower == pytest.approx(truth, rel=1e-9, abs=0)


@pytest.mark.parametrize(("order", "truth"), CLOSED)
def test_closed_forms_of_three_inside_the_numerical_optimum(order, truth):
    found = Optimum(stages(order, 1.0), NO_FAILURE).delta(0.2, 1e-6)
    assert found.lower <= truth * (1 + 1e-12)
    assert found.upper >= truth * (1 - 1e-12)
    assert found.relative_width <= 1e-6


@pytest.mark.parametrize(
    ("uses", "delta", "least", "most"),
    [
        (["bounded-range:0.1x50"], 1e-6, 1.53, 1.55),
        (["pure:0.1x25", "bounded-range:0.1x25"], 1e-6, 2.4320, 2.4330),
        (["bounded-range:0.1x100", "pure:0.05x100", "gaussian:20x20"], 1e-6, 3.4, 3.55),
        (["bounded-range:0.1x1000"], 1e-6, 8.25, 8.35),
        (["bounded-range:0.15x3000"], 1e-9, 32.43, 32.46),
        (["bounded-range:0.1x20"], 1e-6, 0.93, 0.94),
        (["bounded-range:0.1x50", "pure:0.1x50"], 1e-6, 3.65, 3.66),
    ],
)
def test_epsilon_within_a_thousandth(uses, delta, least, most):
    answer = compose(uses, "setwise").epsilon(delta, width=1e-3)
    assert answer.width <= 1e-3 * answer.upper
    assert least < answer.lower <= answer.upper < most


@pytest.mark.slow  # the same is asked of the README for readers of the paper
def test_published_deployment():
    answer = compose(["bounded-range:0.15x3000"], "setwise").epsilon(1e-9, width=2e-4)
    assert answer.bracket.overlaps(Bracket(32.438, 32.446))


def test_unequal_ranges_depend_on_their_order():
    small_first = compose(["bounded-range:0.5", "bounded-range:1.0"], "ordered").delta(0.3, width=1e-6)
    large_first = compose(["bounded-range:1.0", "bounded-range:0.5"], "ordered").delta(0.3, width=1e-6)
    either = compose(["bounded-range:1.0", "bounded-range:0.5"], "setwise").delta(0.3, width=1e-6)
    assert small_first.upper == pytest.approx(0.155269, abs=1e-6)
    assert large_first.upper == pytest.approx(0.144068, abs=1e-6)
    assert either.bracket.overlaps(small_first.bracket)
