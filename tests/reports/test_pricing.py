import pytest

from setwise import compose
from setwise.analytics.planning.joint_pricing import _BudgetCandidates, _uses, price
from setwise.analytics.query import Query
from setwise.analytics.schema import Column, Kind, Schema
from setwise.errors import BadRequest
from setwise.mechanisms.planning.cost import searched_price
from setwise.mechanisms.planning.request import CountNoise
from setwise.reports.report import ReportQuestion

SCHEMA = Schema(
    (
        Column(name="who", kind=Kind.INTEGER),
        Column(name="page", kind=Kind.TEXT),
        Column(name="minutes", kind=Kind.INTEGER),
    )
)


def counts(number, weights=None):
    return [
        ReportQuestion(
            name=f"q{place}",
            query=Query.count(where=f"minutes > {place}"),
            weight=1.0 if weights is None else weights[place],
            to=(),
        )
        for place in range(number)
    ]


def priced(questions, epsilon=1.0, delta=1e-6):
    return price(questions, user="who", schemas=[SCHEMA] * len(questions), epsilon=epsilon, delta=delta)


@pytest.mark.parametrize("number", [1, 2, 5, 20])
def test_questions_priced_together_keep_the_promise_and_take_nearly_all_of_it(number):
    found = priced(counts(number))
    together = compose(found.uses).epsilon(1e-6)
    assert together.upper <= 1.0
    assert found.promise.upper >= 0.98
    assert float(sum(total.delta for total in found.totals)) <= 1e-6


def test_a_set_is_answered_better_than_its_questions_one_by_one():
    found = priced(counts(20))
    alone = priced(counts(1), epsilon=1.0 / 20, delta=1e-6 / 20)
    assert found.plans[0].error.expected_error < 0.8 * alone.plans[0].error.expected_error
    assert found.plans[0].error.radius < 0.7 * alone.plans[0].error.radius


def test_weights_are_shares():
    totals = priced(counts(3, [1.0, 2.0, 5.0])).totals
    assert [float(total.epsilon / totals[0].epsilon) for total in totals] == pytest.approx([1, 2, 5])


def test_a_report_is_priced_the_same_each_time():
    assert priced(counts(4)) == priced(counts(4))


def test_picks_and_counts_compose_with_one_another():
    questions = counts(2)
    top = Query.top_k(item="page", k=5)
    questions.append(ReportQuestion(name="top", query=top, weight=2.0, to=()))
    found = priced(questions)
    assert compose(found.uses).epsilon(1e-6).upper <= 1.0
    assert len(found.uses) >= 4


def test_a_question_that_cannot_be_planned_is_refused():
    missing = ReportQuestion(name="x", query=Query.histogram(item="colour", contributions=1), weight=1.0, to=())
    with pytest.raises(BadRequest, match="colour"):
        priced([missing])


@pytest.mark.parametrize("above", [1.001, 1.005, 1.008])
def test_a_price_just_above_epsilon_is_not_accepted(above):
    """The search starts where the questions take so much of epsilon, which is close enough but too much."""
    drafts = _BudgetCandidates(counts(3), CountNoise.BEST, "who", [SCHEMA] * 3, 1e-6)
    low, high = 0.1, 2.0
    for _ in range(30):  # the price rises with the scale
        middle = (low + high) / 2
        low, high = (low, middle) if searched_price(_uses(drafts.at(middle).plans), 1e-6) > above else (middle, high)
    first = high
    assert 1.0 < searched_price(_uses(drafts.at(first).plans), 1e-6) < 1.01
    found = drafts.largest(searched_price, 1.0, first)
    assert 0.99 <= searched_price(_uses(found.plans), 1e-6) <= 1.0
