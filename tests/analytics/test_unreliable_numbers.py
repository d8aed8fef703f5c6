"""Numbers that noise can be as large as are marked unreliable: every statistic, by one rule, in every form of answers.

A question about two users at epsilon 0.01 has noise of about 100. Noise beyond the radius of its interval, which would
leave the number unmarked, has a probability of 2.5%: of 20 answers more than 10 are unmarked once in 10^12 runs.
"""

import csv
import io
import json
from dataclasses import replace
from types import SimpleNamespace

import pyarrow as pa
import pytest

import setwise
from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.planning.expected_error import releases_of, reliability_note, with_reliability
from setwise.analytics.result_texts import in_sql_words
from setwise.analytics.sql.parser import parse_sql
from setwise.analytics.statistics import Count, Distinct, Mean, Sum
from setwise.mechanisms.release import AT_BOUND, FEW_USERS, UNCLEAR, UNCLEAR_QUANTILE, UNRELIABLE, Estimate, Item
from setwise.reports.outputs import rows_of

USERS = 4000
TABLE = pa.table(
    {
        "plane": [f"N{plane:05}" for plane in range(USERS)],
        "carrier": ["AA"] * USERS,
        "delay": [plane % 100 for plane in range(USERS)],
    }
)


@pytest.fixture(scope="module")
def flights():
    with setwise.open(TABLE, user="plane", name="flights") as session:
        yield session


@pytest.fixture(scope="module")
def few():
    with setwise.open(TABLE.slice(0, 2), user="plane", name="flights") as session:
        yield session


QUESTIONS = {
    "users": lambda session, epsilon: session.count(epsilon=epsilon),
    "rows": lambda session, epsilon: session.count(per_user=3, epsilon=epsilon),
    "sum": lambda session, epsilon: session.sum(value="delay", low=0, high=99, epsilon=epsilon),
    "mean": lambda session, epsilon: session.mean(value="delay", low=0, high=99, epsilon=epsilon),
    "distinct": lambda session, epsilon: session.distinct(value="delay", per_user=1, epsilon=epsilon),
    "histogram": lambda session, epsilon: session.histogram(
        item="carrier", contributions=1, domain=["AA"], epsilon=epsilon
    ),
    "SQL": lambda session, epsilon: (
        session.sql("SELECT COUNT(DISTINCT delay) AS n FROM flights", epsilon=epsilon).answer
    ),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_number_that_is_mostly_noise_is_marked_and_a_precise_one_is_not(flights, few, name):
    noisy = [QUESTIONS[name](few, 0.01) for _ in range(20)]
    assert sum(any(answer.unreliable_columns()) for answer in noisy) >= 10
    precise = QUESTIONS[name](flights, 20)
    assert not any(precise.unreliable_columns())
    assert UNRELIABLE not in precise.summary


@pytest.mark.parametrize(
    "statistic",
    [
        Count(),
        Count(most=3),
        Sum(column="delay", low=0, high=9),
        Distinct(column="delay", per_user=10),
        Mean(column="delay", low=0, high=1000),
    ],
    ids=lambda statistic: statistic.name,
)
def test_one_rule_marks_every_statistic(statistic):
    """The interval is at least twice as wide as the number."""
    release = statistic.release([statistic])

    def is_unreliable(value, interval):
        return statistic.is_unreliable(Estimate(value=value, interval=interval), release, None)

    assert is_unreliable(0, (0, 90))
    assert is_unreliable(45, (0, 90))
    assert not is_unreliable(46, (0, 90))
    assert not is_unreliable(45, None)


@pytest.mark.parametrize(
    ("count", "interval", "noisy", "is_marked"),
    [
        (54, (0, 54), 20, True),  # noise of 30 around a draw of 20, fitted up to its neighbours
        (37, (0, 38), 6, True),
        (27, (27, 102), 64, False),  # noise of 38 around a draw of 64, fitted down
        (100, (74, 126), 100, False),
        (35, (0, 65), 35, True),  # the lower end, which allows for a choice of the highest, is cut at 0
        (30, (1, 38), 8, True),  # of a private list, whose counts are at least 1
        (0, (0, 0), 0, False),
    ],
)
def test_a_listed_count_is_marked_by_its_noise_as_drawn_and_not_by_what_cutting_and_fitting_left(
    count, interval, noisy, is_marked
):
    assert Item(label="a", count=count, interval=interval, noisy=noisy).unreliable is is_marked


def test_a_mean_between_bounds_of_both_signs_may_be_near_zero_and_precise():
    delay = Mean(column="delay", low=-60, high=60)
    release = delay.release([delay])
    assert not delay.is_unreliable(Estimate(value=0.1, interval=(-0.2, 0.4)), release, None)
    assert delay.is_unreliable(Estimate(value=20, interval=(-10, 50)), release, None)


def test_a_distinct_count_never_claims_to_be_exactly_zero():
    """Noise below its radius gave 0 with the interval 0 to 0, which reads as: there is no value at all."""
    shown = Distinct(column="page").in_units(Estimate(value=-40, interval=(-70, -10)))
    assert (shown.value, shown.interval) == (0, (0, 30))
    shown = Distinct(column="page").in_units(Estimate(value=12, interval=(-18, 42)))
    assert (shown.value, shown.interval) == (12, (0, 42))


@pytest.fixture
def marked(flights):
    """A histogram with one precise and one noisy count."""
    answer = flights.histogram(item="carrier", contributions=1, domain=["AA", "YV"], epsilon=4)
    items = (
        Item(label="AA", count=4000, interval=(3990, 4010), noisy=4000),
        Item(label="YV", count=5, interval=(0, 20), noisy=5),
    )
    return replace(answer, items=items)


def test_a_quantile_whose_found_bounds_are_noise_is_marked(flights):
    """The median delay of a carrier without flights was -39,307,390,980, without a mark."""
    for text in (
        "SELECT COUNT(*), MEDIAN(delay) AS m FROM flights WHERE carrier = 'ZZ'",
        "SELECT APPROX_QUANTILES(delay, 4) AS m FROM flights WHERE carrier = 'ZZ'",
    ):
        answer = flights.sql(text, epsilon=1)
        names = [name for name in answer.columns if name.startswith("m")]
        assert set(names) <= set(answer.unreliable_columns()[0]), str(answer)
        assert in_sql_words(UNCLEAR_QUANTILE) in answer.summary
    quantile = flights.quantile(value="delay", at=0.5, epsilon=20)
    assert not any(quantile.unreliable_columns())
    assert UNCLEAR_QUANTILE not in quantile.summary


def test_a_count_is_marked_in_every_form_of_an_answer(marked):
    assert marked.unreliable_columns() == [[], ["count"]]
    assert "5 in [0, 20] (unreliable)" in str(marked)
    assert str(marked).count("(unreliable)") == 1
    items = json.loads(marked.to_json())["items"]
    assert items[1]["unreliable"] is True
    assert "unreliable" not in items[0]
    measures = [row["measure"] for row in csv.DictReader(io.StringIO(marked.to_csv()))]
    assert ["unreliable" in measure for measure in measures] == [False, True]
    assert ["unreliable" in row["measure"] for row in rows_of(marked).to_pylist()] == [False, True]
    assert marked._repr_html_().count("(unreliable)") == 1
    labels = [text.get_text() for text in marked.plot().figure.axes[0].get_yticklabels()]
    assert labels == ["AA", "YV (unreliable)"]
    assert UNRELIABLE in marked.summary
    assert PrivateAnswer.from_stored(marked.stored()) == marked


def test_each_mark_has_its_own_reason(flights, few):
    """With 2 users at epsilon 0.1 the interval of the share that is clipped is as wide as it can be."""
    for ask in (
        lambda session, **words: session.mean(value="delay", **words),
        lambda session, **words: session.sql("SELECT AVG(delay) AS m FROM flights", **words),
    ):
        unclear = ask(few, epsilon=0.1)
        assert any(unclear.unreliable_columns())
        assert UNCLEAR in unclear.summary or in_sql_words(UNCLEAR) in unclear.summary
        assert UNCLEAR not in ask(flights, epsilon=20).summary
    precise = flights.mean(value="delay", epsilon=20)
    marked_item = replace(precise.items[0], estimates=(replace(precise.items[0].estimates[0], unreliable=True),))
    answer = replace(precise, items=(marked_item,), interval_note=f"{precise.interval_note} {UNCLEAR}")
    assert UNCLEAR in answer.summary
    assert UNRELIABLE not in answer.summary
    assert "low and high" in UNCLEAR
    assert "contribution_bounds_per_group => (low, high)" in UNCLEAR


@pytest.mark.parametrize(
    ("value", "interval", "is_marked"),
    [
        (10.08, (-32, 44.8), True),  # listed third by its mean
        (3.3, (-4.2, 10), True),  # the ratio of the sum and the count was marked
        (2.65, (-0.9, 6), False),  # near 0, and known to a 20th of what it can be
        (10.8, (4, 17), False),
        (-10.08, (-25, 15), True),
    ],
)
def test_a_mean_that_may_be_zero_or_twice_itself_is_marked_unless_it_is_precise(value, interval, is_marked):
    """A mean delay of 10 minutes within -32 and 44.8 was listed above others, without a mark."""
    delay = Mean(column="delay", low=-32, high=128)
    release = delay.release([delay])
    assert delay.is_unreliable(Estimate(value=value, interval=interval), release, None) is is_marked


def test_a_list_of_means_of_both_signs_marks_the_groups_of_few_users():
    """A group of 40 users is listed among groups of 2,000 by its mean, so a reader needs the mark.

    The mark is missing once in 75 answers, where noise has made the mean large: in 8 of 20 once in 10^10 runs.
    """
    users = [*(("big", plane) for plane in range(2000)), *(("small", plane) for plane in range(2000, 2040))]
    table = pa.table(
        {
            "plane": [f"N{plane}" for _, plane in users],
            "carrier": [carrier for carrier, _ in users],
            "delay": [10 + plane % 5 for _, plane in users],
        }
    )
    text = (
        "SELECT carrier, AVG(delay, contribution_bounds_per_group => (-32, 128)) AS d FROM flights "
        "GROUP BY carrier ORDER BY d DESC"
    )
    with setwise.open(table, user="plane", name="flights") as session:
        answers = [session.sql(text, epsilon=0.5, domain=["big", "small"], contributions=1) for _ in range(20)]
    marks = [
        row["carrier"]
        for answer in answers
        for row, names in zip(answer.rows, answer.unreliable_columns(), strict=True)
        if names == ["d"]
    ]
    assert marks.count("small") > 12
    assert "big" not in marks


@pytest.mark.parametrize(("low", "high", "bound"), [(0, 5, 5), (200, 900, 200)])
def test_a_mean_at_a_bound_of_its_clipping_is_marked_and_explained(flights, low, high, bound):
    """A list by descending means began with 512, the upper bound, four times and without a mark."""
    answer = flights.mean(value="delay", low=low, high=high, epsilon=20, where="delay > 5")
    (estimate,) = answer.items[0].estimates
    assert (estimate.value, estimate.unreliable) == (pytest.approx(bound, abs=0.5), True)
    assert AT_BOUND in answer.summary
    assert UNRELIABLE not in answer.summary
    statement = f"SELECT carrier, AVG(delay, contribution_bounds_per_group => ({low}, {high})) AS m FROM flights"
    by_sql = flights.sql(f"{statement} WHERE delay > 5 GROUP BY carrier ORDER BY m", epsilon=20, delta=1e-6)
    assert by_sql.rows[0]["m"]["unreliable"]
    assert by_sql.summary.count(AT_BOUND) == 1
    assert UNRELIABLE not in by_sql.summary


def test_a_precise_share_of_all_rows_is_not_marked(flights):
    answer = flights.sql("SELECT AVG(CASE WHEN delay >= 0 THEN 1 ELSE 0 END) AS m FROM flights", epsilon=20)
    assert answer.value > 0.99
    assert "unreliable" not in answer.summary


def test_counts_and_sums_of_positive_numbers_are_never_negative():
    """A carrier's miles were -4,662,888, within -8,157,528 and -1,168,248, and a count's interval began at -3,516."""
    table = pa.table({"who": list(range(100)), "page": ["a", "b"] * 50, "x": [1.0] * 100})
    count, total = (f"{name}(x, contribution_bounds_per_group => (0, 500))" for name in ("COUNT", "SUM"))
    asked = f"SELECT page, {count} AS n, {total} AS s FROM t GROUP BY page"
    with setwise.open(table, user="who", name="t") as session:
        answers = [session.sql(asked, epsilon=0.1, domain=["a", "b", "c"]) for _ in range(5)]
    cells = [row[name] for answer in answers for row in answer.rows for name in ("n", "s")]
    assert min(cell["value"] for cell in cells) == 0
    for cell in cells:
        lower, upper = cell["interval"]
        assert 0 <= lower <= cell["value"] <= upper
        assert upper > 500, "an interval 0 .. 0 would state that the exact number is 0"


def test_the_statistics_of_a_group_that_may_have_one_user_are_marked():
    """YV: 60 planes in [1, 72], and a mean delay of 121.49 in [60.12, 180] without a mark."""
    asked = "SELECT carrier, COUNT(DISTINCT plane) AS n, AVG(delay, contribution_bounds_per_group => (0, 200)) AS m"
    query = parse_sql(f"{asked} FROM flights GROUP BY carrier", user="plane").cores[0].query
    kinds = [statistic.kind for statistic in query.statistics]
    drawn = {"count": Estimate(value=60, interval=(1, 72)), "mean": Estimate(value=60.5, interval=(50, 70))}
    clear = {**drawn, "count": Estimate(value=60, interval=(48, 72))}
    choice = SimpleNamespace(statistics=releases_of(query.statistics))
    rows = [tuple(each[kind] for kind in kinds) for each in (drawn, clear)]
    groups = with_reliability(query, choice, SimpleNamespace(estimates=rows, users=[None, None]))
    marks = [dict(zip(kinds, (estimate.unreliable for estimate in group), strict=True)) for group in groups]
    assert marks == [{"count": False, "mean": True}, {"count": False, "mean": False}]
    items = [Item(label=name, estimates=group) for name, group in zip("YA", groups, strict=True)]
    assert reliability_note(query, items) == FEW_USERS
    assert reliability_note(query, items[1:]) == ""


def test_frames_carry_the_marks_beside_unchanged_columns(marked, few):
    frame = marked.to_pandas()
    assert list(frame.columns) == ["item", "count", "lower", "upper", "noisy"]
    assert frame.attrs["unreliable"] == [(1, "count")]
    assert frame[["item", "count"]].attrs["unreliable"] == [(1, "count")]
    assert UNRELIABLE in frame.attrs["notes"]
    answer = few.sql("SELECT COUNT(*) AS n FROM flights", epsilon=0.01)
    marks = [(row, name) for row, names in enumerate(answer.unreliable_columns()) for name in names]
    assert answer.to_pandas().attrs["unreliable"] == answer.unreliable_cells() == marks
