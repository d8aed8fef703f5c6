"""By accuracy: the least epsilon whose planned intervals are narrow enough, or what it would take."""

import re
from fractions import Fraction

import pyarrow as pa
import pytest

import setwise
from setwise.analytics.budget import Within
from setwise.analytics.planning.within import widest_radius
from setwise.analytics.query import Count, Mean, Quantile, Query, Sum
from setwise.analytics.statistics import Distinct, Variance
from setwise.errors import InvalidParameter, Unattainable
from setwise.ledger.ledger import Ledger
from setwise.mechanisms.planning.request import Total

TABLE = pa.table(
    {"who": list(range(2000)) * 2, "page": ["home", "help"] * 2000, "minutes": [n % 60 for n in range(4000)]}
)


@pytest.fixture
def session():
    with setwise.open(TABLE, user="who", name="t") as opened:
        yield opened


@pytest.mark.parametrize(
    ("query", "within"),
    [
        (Query.count(), 3),
        (Query.count(), 250),
        (Query.count(per_user=5), 40),
        (Query.sum(value="minutes", clip=60), 500),
        (Query.sum(value="minutes", low=-5, high=60), 1234.5),
        (Query.histogram(item="page", contributions=2), 20),
        (Query.top_k(item="page", k=2, contributions=2), 15),
        (
            Query(
                item="page", contributions=2, statistics=(Sum(column="minutes", low=0, high=60), Count(most=2), Count())
            ),
            900,
        ),
        (Query.mean(value="minutes", low=0, high=60), 0.5),
        (Query.mean(value="minutes", low=0, high=60, per_user=3), 2),
        (Query.mean(item="page", value="minutes", low=0, high=60, contributions=2), 5),
        (Query.quantile(value="minutes", low=0, high=60), 12),
        (Query.quantile(item="page", value="minutes", low=0, high=60, at=0.9, contributions=2), 300),
        (Query(item="page", contributions=2, statistics=(Mean(column="minutes", low=0, high=60), Count())), 30),
    ],
)
def test_the_least_epsilon_is_found(session, query, within):
    accuracy = Within(within=within, delta=1e-6, epsilon=100)
    found = session.plan(query, accuracy)
    assert widest_radius(found) <= within
    less = found.total.epsilon / Fraction(106, 100)
    try:
        narrow = session.plan(query, accuracy.total(less))
    except Unattainable:
        return
    assert widest_radius(narrow) > within


def test_the_interval_of_the_answer_is_as_narrow_as_asked_for(session):
    answer = session.count(within=10)
    low, high = answer.items[0].interval
    assert high - low <= 20
    assert 0.2 < answer.epsilon.upper < 0.4
    sql = session.sql("SELECT COUNT(DISTINCT who) AS n FROM t", within=10)
    assert sql.answer.epsilon == answer.epsilon
    assert session.explain("SELECT COUNT(DISTINCT who) AS n FROM t", within=10).epsilon == answer.epsilon


PRICES = pa.table(
    {
        "who": [f"u{n % 500}" for n in range(4000)],
        "page": [("home", "help")[n % 2] for n in range(4000)],
        "price": [n % 97 / 7 for n in range(4000)],
        "age": [n % 60 for n in range(4000)],
    }
)
FLOATS, INTEGERS = Sum(column="price", low=0, high=200), Sum(column="age", low=-5, high=60)


@pytest.mark.parametrize(
    ("statistics", "item", "about"),
    [
        ((FLOATS,), None, "sums of price"),
        ((FLOATS,), "page", "sums of price"),
        ((Sum(column="price", low=-3, high=40, step=0.5),), None, "sums of price"),
        ((Sum(column="age", low=0, high=60, step=5),), "page", "sums of age"),
        ((INTEGERS,), None, "sums of age"),
        ((Sum(column="age", low=0, high=60),), "page", "sums of age"),
        ((Sum(column="age", low=0, high=2**45),), None, "sums of age"),
        ((FLOATS, Count(most=5)), None, "counts"),
        ((FLOATS, Count()), "page", "counts"),
        ((Mean(column="price", low=0, high=20), FLOATS), None, "means of price"),
        ((FLOATS, Mean(column="price", low=0, high=20)), "page", "sums of price"),
        ((INTEGERS, Quantile(column="price", low=0, high=20)), None, "sums of age"),
        ((Variance(column="age", low=0, high=60, per_user=3), FLOATS), None, "variances of age"),
        ((Distinct(column="age", per_user=6),), None, "distinct values of age"),
    ],
)
def test_a_preview_is_as_wide_as_the_intervals_of_its_answer(statistics, item, about):
    """The radius of a sum was in rounding steps: 10,632 where the intervals of the answer were within 531.6."""
    query = Query(statistics=statistics, item=item, contributions=None if item is None else 2)
    with setwise.open(PRICES, user="who", name="t") as opened:
        budget = Total(epsilon=Fraction(2), delta=Fraction(1, 10**6))
        plan = opened.preview(query, budget)
        answer = opened.ask(query, budget)
    assert (plan.accuracy.about, plan.to_dict()["about"]) == (about, about)
    place = [statistic.subject for statistic in statistics].index(about)
    if isinstance(statistics[place], Mean | Variance):  # whose intervals depend on the group
        assert (plan.error.radius, plan.error.expected_error) == (None, None)
        return
    assert 0 < plan.error.expected_error < plan.error.radius
    for group in answer.items:
        _, high = group.estimates[place].interval if group.estimates else group.interval
        value = group.estimates[place].value if group.estimates else group.count
        assert high - value == pytest.approx(plan.error.radius), "a lower end below 0 is raised to 0"
    text = plan.accuracy.text.lower()
    assert all(f"{statistic.subject} within" in text for statistic in statistics if isinstance(statistic, Sum))
    assert (f"groups with a {plan.accuracy.threshold} of at least about" in text) == (item is not None)


def test_the_interval_of_a_mean_is_as_narrow_as_asked_for_in_groups_of_a_thousand(session):
    """Of 2,000 users it is half as wide; the rounding of each user's own mean stays."""
    query = Query.mean(value="minutes", low=0, high=60)
    found = session.plan(query, Within(within=2, delta=1e-6))
    assert "a mean of minutes over 1,000 users within ±" in found.plan.why
    for answer in (session.mean(value="minutes", low=0, high=60, within=2, delta=1e-6) for _ in range(5)):
        (item,) = answer.items
        low, high = item.estimates[0].interval
        assert max(high - item.estimates[0].value, item.estimates[0].value - low) < 1.2  # and 10% for the noisy number
    assert 0.05 < float(found.total.epsilon) < 0.5


def test_a_quantile_is_as_close_in_rank_as_asked_for(session):
    answer = session.quantile(value="minutes", low=0, high=60, within=200, delta=1e-6)
    ranks = int(re.search(r"a quantile of minutes within (\d+) users in rank", answer.why)[1])
    assert 190 < ranks <= 200
    sql = "SELECT MEDIAN(minutes, contribution_bounds_per_row => (0, 60)) AS m FROM t"
    assert session.explain(sql, within=200, delta=1e-6).epsilon == answer.epsilon


def test_an_epsilon_beside_it_is_the_most_that_is_spent(session):
    assert 0.2 < session.count(epsilon=1.0, within=10).epsilon.upper < 0.4
    with pytest.raises(
        Unattainable,
        match=r"within ±10 take epsilon 0\.\d+, and epsilon 0\.1 is the most that this question may spend; give "
        r"epsilon 0\.\d+ as well, or an accuracy of ±[23]\d",
    ):
        session.count(epsilon=0.1, within=10)
    with pytest.raises(
        Unattainable, match=r"an accuracy of ±\S+ \(that of means over 1,000 users\), which epsilon 0.1"
    ):
        session.mean(value="minutes", low=0, high=60, epsilon=0.1, within=0.5)


def test_no_more_than_epsilon_one_is_spent_unless_the_request_allows_it(session):
    """An accuracy of 2 on a sum of minutes once spent epsilon 65 without a word."""
    with pytest.raises(
        Unattainable, match=r"take epsilon [\d.]+, and epsilon 1 is the most .* unless it names an epsilon"
    ):
        session.sum(value="minutes", clip=60, within=50)
    assert session.spent == ()
    allowed = session.sum(value="minutes", clip=60, within=50, epsilon=20)
    assert 1 < allowed.epsilon.upper < 20
    refused = session.explain("SELECT COUNT(DISTINCT who) AS n FROM t", within=10)
    assert refused.epsilon.upper < 1
    with pytest.raises(Unattainable, match="take epsilon"):
        session.sql("SELECT COUNT(DISTINCT who) AS n FROM t", within=1)


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda s: s.count(within=0), "within must lie"),
        (lambda s: s.count(within=-3), "within must lie"),
        (lambda s: s.count(within="3"), "within must be"),
        (
            lambda s: s.mean(value="minutes", low=0, high=60, within=0.03),
            r"at that it is ±0\.0\d+ \(that of means over",
        ),
        (lambda s: s.mean(value="minutes", bounds="auto", within=1, delta=1e-6), "depends on the bounds found"),
        (lambda s: s.top_k(item="page", k=1, counts="none", delta=1e-6, within=5), "only labels"),
        (lambda s: s.count(per_user=10**9, within=1), "no epsilon up to 100"),
        (lambda s: s.count(within=5, discover="bounded-range:0.1"), "discover"),
    ],
)
def test_what_cannot_be_planned_is_refused_before_anything_is_charged(session, ask, says):
    with pytest.raises((InvalidParameter, Unattainable), match=says):
        ask(session)
    assert session.spent == ()


def test_an_account_pays_for_what_was_found_and_a_key_replays_it(tmp_path):
    with Ledger.open(str(tmp_path / "l.db")) as ledger:
        ledger.open_filter("ada", epsilon=1.0, delta=1e-6)
        with setwise.open(TABLE, user="who", name="t", account=ledger.account("ada")) as session:
            first = session.count(within=20, key="k")
            again = session.count(within=20, key="k")
            assert (again.replayed, again.items) == (True, first.items)
            with pytest.raises(setwise.BudgetExhausted):
                session.count(within=0.5, epsilon=10)
        ledger.open_setwise("bob", ["pure:0.1x5"], delta=1e-6)
        with (
            setwise.open(TABLE, user="who", name="t", account=ledger.account("bob")) as session,
            pytest.raises(InvalidParameter, match="registered draws"),
        ):
            session.count(within=20)


def test_every_interval_of_several_statistics_is_as_narrow_as_asked_for(session):
    """The widest decides, wherever it stands: a sum of up to 60 is 60 times as wide as a count of users."""
    sums, users = Sum(column="minutes", low=0, high=60), Count()
    for statistics in ((sums, users), (users, sums)):
        query = Query(item="page", contributions=2, domain=("home", "help"), statistics=statistics)
        answer = session.ask(query, Within(within=300, delta=1e-6, epsilon=100))
        widths = [(high - low) / 2 for item in answer for low, high in (each.interval for each in item.estimates)]
        assert 250 <= max(widths) <= 300
        assert answer.epsilon.upper >= 1


REFUSAL = re.compile(r"give epsilon ([\d.e+-]+) as well, or an accuracy of ±([\d.e+-]+)")


@pytest.mark.parametrize("epsilon", [0.3, 1.49, 3.0])
@pytest.mark.parametrize(
    "words",
    [
        {"kind": "sum", "value": "minutes", "low": 0, "high": 60, "within": 20},
        {"kind": "quantile", "value": "minutes", "low": 0, "high": 60, "within": 20},
        {"kind": "distinct", "value": "page", "per_user": 2, "within": 0.5},
        {"kind": "mean", "value": "minutes", "low": 0, "high": 60, "within": 0.37},
        {"kind": "histogram", "item": "page", "contributions": 2, "delta": 1e-6, "within": 1.5},
    ],
)
def test_what_a_refused_accuracy_proposes_is_answered(session, words, epsilon):
    """Epsilon 1.49 was refused because "epsilon 1.49 is the most", and ±0 was proposed for ±0.5."""
    words = dict(words)
    ask, said = getattr(session, words.pop("kind")), ""
    try:
        ask(**words, epsilon=epsilon)
    except Unattainable as refused:
        said = str(refused)
    if said:
        proposed = REFUSAL.search(said)
        assert float(proposed[2]) > words["within"]
        assert len(ask(**words, epsilon=float(proposed[1]))) >= 1
        assert len(ask(**{**words, "within": float(proposed[2])}, epsilon=epsilon)) >= 1


@pytest.mark.parametrize(
    "text",
    [
        *(
            f"SELECT page, {call} AS m FROM t GROUP BY page"
            for call in ("AVG(minutes)", "SUM(minutes)", "STDDEV(minutes)", "MEDIAN(minutes)", "COUNT(*)")
        ),
        "SELECT COUNT(DISTINCT minutes) AS n FROM t",
        "EXPLAIN SELECT AVG(minutes) AS n FROM t",
        "SELECT page, AVG(minutes) FROM t GROUP BY page HAVING AVG(minutes) > 3 ORDER BY 2",
        "SELECT AVG(n) FROM (SELECT who, COUNT(*) AS n FROM t GROUP BY who)",
        "SELECT page, COUNT(DISTINCT who) FROM t GROUP BY page",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (within = 2) SUM(minutes) FROM t",
        "SELECT 'a' AS name, SUM(minutes) FROM t UNION ALL SELECT 'b', AVG(minutes) FROM t WHERE page <> 'AVG(1)'",
    ],
)
@pytest.mark.parametrize("within", [2, 1000])
def test_a_refusal_without_bounds_ends_with_a_statement_that_is_answered(session, text, within):
    """It asked for --low and --high, which `setwise sql` does not have, and had no statement to paste."""
    words = {} if "OPTIONS" in text else {"within": within}
    with pytest.raises(InvalidParameter, match="depends on the bounds found") as refused:
        session.explain(text, **words, delta=1e-6)
    proposed = dict(refused.value.proposed)
    statement = proposed.pop("statement")
    assert str(refused.value).endswith(f"; write: {statement}")
    assert all(f"{name} = {value}" in str(refused.value) for name, value in proposed.items())
    words |= {name: float(value) if name == "within" else int(value) for name, value in proposed.items()}
    assert session.explain(statement, **words, delta=1e-6).epsilon.upper <= 1.001
    assert "COUNT(*)" in statement or "FROM (SELECT" not in text  # nothing is written into the subquery of each user


def test_a_statement_that_leaves_a_bound_to_be_found_itself_is_refused_as_before(session):
    text = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (max_groups_contributed = AUTO) page, COUNT(*) FROM t GROUP BY page"
    )
    with pytest.raises(InvalidParameter, match=r"leave within out$"):
        session.explain(text, within=3)


SIZES = {"large": 3000, "small": 200, "tiny": 20}
GROUPS = pa.table(
    {
        "who": list(range(sum(SIZES.values()))),
        "page": [name for name, size in SIZES.items() for _ in range(size)],
        "minutes": [n % 60 for n in range(sum(SIZES.values()))],
    }
)
MISSED = re.compile(r"(\d) of (\d) intervals (?:is|are) wider than the ±3 asked for: the accuracy is planned for means")


def half_widths(answer):
    return [
        max(each.value - each.interval[0], each.interval[1] - each.value) for item in answer for each in item.estimates
    ]


def test_an_answer_says_which_intervals_missed_the_accuracy_and_which_epsilon_would_do():
    """Groups of 200 users got intervals of ±11 for --within 3, without a word."""
    words = {"item": "page", "value": "minutes", "low": 0, "high": 60, "contributions": 1}
    with setwise.open(GROUPS, user="who", name="t") as session:
        answer = session.mean(**words, within=3, delta=1e-6, domain=("large", "small"))
        assert MISSED.search(answer.left_out).groups() == ("1", "2")
        assert MISSED.search(answer.summary)
        assert MISSED.search(answer.measure)
        assert MISSED.search(str(answer))
        assert MISSED.search(answer.to_csv())
        assert MISSED.search(str(answer.to_dict()["left_out"]))
        epsilon = float(re.search(r"About epsilon = (\S+) in place of within = 3 would do for it\.", answer.brief)[1])
        assert answer.epsilon.upper < epsilon <= 5
        again = session.mean(**words, epsilon=epsilon, delta=1e-6, domain=("large", "small"))
        assert 1 < half_widths(again)[1] < 4.5 < half_widths(answer)[1]
        met = session.mean(**words, within=3, delta=1e-6, domain=("large",))
        assert "wider" not in met.summary + met.measure + met.left_out
        tiny = session.mean(**words, within=3, delta=1e-6, domain=("tiny",))
        assert "No epsilon up to 5 would do: ask for larger groups" in tiny.brief


def test_sql_says_which_intervals_missed_the_accuracy():
    text = "SELECT page, AVG(minutes, contribution_bounds_per_group => (0, 60)) AS m FROM t GROUP BY page"
    with setwise.open(GROUPS, user="who", name="t") as session:
        found = session.sql(text, within=3, contributions=1)
        assert MISSED.search(found.summary)
        assert MISSED.search(str(found.to_dict()["left_out"]))
        other = text.replace("60)", "59)")
        both = session.sql(f"{text} UNION ALL {other}", within=3, contributions=1, epsilon=5)
        assert MISSED.search(both.summary)
        assert "in place of within" not in both.summary


def test_an_interval_that_reaches_further_down_is_told_from_one_of_a_small_group():
    with setwise.open(GROUPS, user="who", name="t") as session:
        answer = session.top_k(item="page", k=1, within=10, contributions=1, delta=1e-6)
        wide = answer.items[0].count - answer.items[0].interval[0] > 10
        assert ("reach further down" in answer.left_out) == wide
        assert "1,000 users" not in answer.left_out
        assert "asked for" not in session.count(within=10).summary
