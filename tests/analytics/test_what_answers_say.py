"""Answers say which number they hold: what bounding left out, and in which order groups stand."""

import csv
import datetime
import io
import json
import re
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import setwise
from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.planning.plan import Plan
from setwise.analytics.query import Query
from setwise.mechanisms.planning.request import Total
from setwise.reports.outputs import rows_of

AIRCRAFT = 400
TABLE = pa.table(
    {
        "tailnum": [f"N{plane:03}" for plane in range(AIRCRAFT) for _ in range(8)],
        "dest": [f"D{(plane + trip) % 12:02}" for plane in range(AIRCRAFT) for trip in range(8)],
        "minutes": [10 * (trip + 1) for _ in range(AIRCRAFT) for trip in range(8)],
        "day": [datetime.date(2026, 1 + trip, 1 + plane % 28) for plane in range(AIRCRAFT) for trip in range(8)],
    }
)
LEFT_OUT = (
    "At most 5 values of dest are counted for each tailnum; others are left out, so a number can be below the table's "
    "own."
)

BY_DEST = Query.histogram(item="dest", contributions=5)
BUDGET = Total(epsilon=5, delta=Fraction("1e-6"))
with setwise.open(TABLE, user="tailnum") as opened:
    FOUND_FROM = opened.preview(BY_DEST, BUDGET).error.detectable
HIDDEN = f"Groups with fewer than about {FOUND_FROM:,} users may be hidden."


@pytest.fixture
def flights():
    with setwise.open(TABLE, user="tailnum") as session:
        yield session


@pytest.fixture
def bounded(flights):
    return flights.histogram(item="dest", contributions=5, epsilon=5, delta=1e-6)


def test_every_form_of_an_answer_says_what_was_left_out(bounded, tmp_path):
    """The interval holds 5/8 of the exact number: whoever reads it as the table's number is misled without a word."""
    told = f"{LEFT_OUT} {HIDDEN}"
    assert bounded.left_out == told
    assert "the exact number of what is counted" in bounded.interval_note
    assert json.loads(bounded.to_json())["left_out"] == told
    assert "others are left out" in next(csv.DictReader(io.StringIO(bounded.to_csv())))["measure"]
    assert "others are left out" in rows_of(bounded).to_pylist()[0]["measure"]
    assert "At most 5 values of dest" in bounded._repr_html_()
    bounded.plot(tmp_path / "answer.svg")
    drawn = bounded.plot().figure
    assert "At most 5 values of dest" in drawn.get_supxlabel()
    assert PrivateAnswer.from_stored(bounded.stored()) == bounded


def test_a_limit_says_that_groups_must_be_larger_than_the_first_one_that_it_leaves_out(flights):
    """Of twelve equal groups, none is shown among the three highest: the threshold lies above the fourth."""
    asked = {"item": "dest", "contributions": 8, "limit": 3}
    budget = Total(epsilon=5, delta=Fraction("1e-6"), mechanism="unknown_laplace")
    plan = flights.preview(Query.histogram(**asked), budget)
    lead, true = plan.error.detectable, AIRCRAFT * 8 // 12
    assert plan.error.above_rank == 4
    assert lead < true - 50
    assert Plan.from_dict(plan.to_dict()) == plan
    assert f"{lead} (plus that of rank 4, if there are so many groups) are shown" in plan.accuracy.text
    answer = flights.histogram(**asked, epsilon=5, delta=1e-6, mechanism="unknown_laplace")
    assert len(answer) == 0
    said = (
        f"Groups with fewer than about {lead} users (plus those of the group of rank 4, if there is one) may be hidden."
    )
    assert said in answer.left_out
    assert f"if its count is at least {lead} above that of rank 4" in answer.hint
    largest = flights.preview(Query.histogram(item="dest", contributions="auto", limit=3), budget)
    assert re.search(
        r"at least about [\d,]+ \(plus that of rank 4, if there are so many groups\)", largest.accuracy.text
    )


def test_a_sum_and_rows_under_a_limit_say_it_too(flights):
    rows = flights.histogram(
        item="dest", contributions=8, limit=3, per_item=2, epsilon=5, delta=1e-6, mechanism="unknown_laplace"
    )
    assert "rows (plus those of the group of rank 4, if there is one) may be hidden." in rows.left_out
    sums = flights.histogram(
        item="dest",
        value="minutes",
        contributions=8,
        limit=3,
        per_item=90,
        epsilon=5,
        delta=1e-6,
        mechanism="unknown_laplace",
    )
    assert re.search(r"sum of minutes is below about [\d,]+ \(plus that of the group of rank 4, if", sums.left_out)


def test_the_first_screen_says_what_is_left_out_and_hidden_in_one_breath(bounded):
    """The whole text took eight lines under a table of ten rows; the short one still says both."""
    bounds = (
        "At most 5 values of dest are counted for each tailnum, others are left out, so the table's own numbers can be "
        "larger."
    )
    assert bounded.summary.startswith(f"Users. {bounds} {HIDDEN} ")
    assert bounded.summary.endswith("the number counted.")
    assert str(bounded).splitlines()[-2] == bounds
    assert PrivateAnswer.from_stored(bounded.stored()).summary == bounded.summary


def test_the_first_screen_states_the_shares_that_found_bounds_leave_out():
    with setwise.open(TABLE, user="tailnum", name="flights") as session:
        text = "SELECT dest, COUNT(*) AS n, AVG(minutes) AS m FROM flights GROUP BY dest"
        answer = session.sql(text, epsilon=9, delta=1e-6).answer
    share = r"about [\d.]+%( \[[\d.]+%, [\d.]+%\]| to [\d.]+%)"
    of_users = rf"({share} of users|how many users this changes cannot be told at this epsilon)"  # once in 100
    left_out = r"(about [\d.]+% \[[\d.]+%, [\d.]+%\]|at most [\d.]+%|[\d.]+% to [\d.]+%) left out if none has more than"
    larger = "The table's own counts (can be|are) larger.*(where rows are left out:|because)"
    of_groups = rf"(At|{larger} at) most \d+ values of dest \({left_out} \d+\) and "
    of_rows = rf"\d+ rows in each group( \({left_out} \d+\))? are counted for each "
    clipped = rf"tailnum; each user's own mean of minutes is clipped to -?\d+ \.\. \d+ \({of_users}\)\. "
    weight = r"AVG is the mean over users [^.]*\. "
    assert re.match(weight + of_groups + of_rows + clipped + "Groups with fewer than about", answer.summary)
    assert len(answer.summary) < 620 < len(answer.left_out)


def test_an_answer_of_an_earlier_version_is_shown_with_its_whole_text(bounded):
    record = json.loads(bounded.stored())
    del record["brief"], record["hidden"]
    earlier = PrivateAnswer.from_record(record)
    assert f"{LEFT_OUT} {HIDDEN}" in earlier.summary
    assert LEFT_OUT in str(earlier)


def test_every_form_of_an_answer_over_private_groups_says_that_small_groups_may_be_hidden(bounded):
    """Eight of 21 occupations came out, and nothing beside them said that there are others."""
    hidden = HIDDEN[:1].lower() + HIDDEN[1:-1]
    assert hidden in next(csv.DictReader(io.StringIO(bounded.to_csv())))["measure"]
    assert hidden in rows_of(bounded).to_pylist()[0]["measure"]
    assert HIDDEN in bounded._repr_html_()
    assert HIDDEN[:30] in bounded.plot().figure.get_supxlabel().replace("\n", " ")


@pytest.mark.parametrize(
    ("ask", "hidden"),
    [
        (lambda s: s.histogram(item="dest", contributions=1, per_item=2, epsilon=5, delta=1e-6), r"\d+ rows may be"),
        (lambda s: s.histogram(item="dest", contributions=5, per_item=2, epsilon=5, delta=1e-6), r"\d+ users may be"),
        (
            lambda s: s.mean(value="minutes", low=0, high=99, item="dest", contributions=5, epsilon=5, delta=1e-6),
            "users",
        ),
        (lambda s: s.top_k(item="dest", k=30, contributions=5, epsilon=5, delta=1e-6), r"\d+ users may be hidden"),
        (lambda s: s.top_k(item="dest", k=1, contributions=5, epsilon=5, delta=1e-6), ""),
        (lambda s: s.histogram(item="dest", contributions=5, domain=["D01"], epsilon=5, delta=1e-6), ""),
        (lambda s: s.count(epsilon=5), ""),
    ],
)
def test_small_groups_are_said_to_be_hidden_only_where_they_are(flights, ask, hidden):
    told = ask(flights).left_out
    assert ("may be hidden" in told) == bool(hidden)
    assert re.search(hidden, told)


def test_an_answer_that_leaves_nothing_out_holds_the_exact_number(flights):
    domain = [f"D{place:02}" for place in range(12)]
    whole = flights.histogram(item="dest", domain=domain, epsilon=50, delta=1e-6)
    assert whole.left_out == ""
    assert "hold the exact number" in whole.interval_note or "holds the exact number" in whole.interval_note
    assert "of what is counted" not in whole.interval_note


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        (lambda s: s.count(per_user=3, epsilon=1), "At most 3 rows are counted for each tailnum"),
        (
            lambda s: s.histogram(item=["dest", "day by month"], contributions=1, epsilon=1, delta=1e-6),
            "At most 1 combination of dest and day by month is counted for each tailnum",
        ),
        (
            lambda s: s.histogram(item="dest", contributions=2, per_item=4, epsilon=1, delta=1e-6),
            "At most 2 values of dest and 4 rows in each group are counted for each tailnum",
        ),
    ],
)
def test_each_bound_is_told(flights, ask, sentence):
    assert ask(flights).left_out.startswith(sentence)


def test_bins_of_numbers_and_times_stand_in_their_own_order(flights):
    ages = flights.histogram(item="minutes by 20", contributions=8, epsilon=20, delta=1e-6)
    assert len(ages) == 5
    assert list(ages.labels) == sorted(ages.labels)
    assert ages.axes == ("numbers",)
    months = flights.histogram(item="day by month", contributions=8, epsilon=20, delta=1e-6)
    assert list(months.labels) == sorted(months.labels)
    assert months.to_pandas()["item"].tolist() == sorted(months.labels)
    assert months.axes == ("time",)
    assert months.plot().figure.axes[0].lines, "times are drawn as a line"
    assert not flights.top_k(item="dest", k=3, epsilon=5, delta=1e-6).plot().figure.axes[0].get_ylabel()


def test_a_top_k_stays_in_the_order_of_its_ranks(flights):
    top = flights.top_k(item="day by month", k=4, epsilon=5, delta=1e-6)
    counts = [item.count for item in top]
    assert counts == sorted(counts, reverse=True)


@pytest.mark.parametrize(
    ("ask", "sentence"),
    [
        ("SELECT SUM(minutes) AS n FROM flights", "Each user's own sum of minutes is clipped to 0 .. 512"),
        ("SELECT AVG(minutes) AS n FROM flights", "Each user's own mean of minutes is clipped to "),
        ("SELECT STDDEV(minutes) AS n FROM flights", "Each row's minutes is clipped to "),
    ],
)
def test_an_answer_whose_values_are_clipped_says_so(ask, sentence, empty_bins_never_stand_out):
    """Bounds that are found may lie inside of the values, and then the interval holds the clipped number alone."""
    with setwise.open(TABLE, user="tailnum", name="flights") as session:
        answer = session.sql(ask, epsilon=5).answer
    assert sentence in answer.left_out
    known = r"The bounds of \w+ clip about [\d.]+%( \[[\d.]+%, [\d.]+%\]| to [\d.]+%) of users\."
    unknown = r"How many users the bounds of \w+ clip cannot be told within this epsilon\."
    if "AVG" in ask:  # a mean also says in which direction it may be off
        known = known.replace("users", "users; too low if most lie above, too high if below")
        unknown = unknown.replace("epsilon", "epsilon, so it is marked as unreliable")
    rows = ""
    if "STDDEV" in ask:  # its limit on the rows of a user is found too
        share = r"(about [\d.]+% \[[\d.]+%, [\d.]+%\]|at most [\d.]+%|[\d.]+% to [\d.]+%)"
        rows = rf"If none has more than \d+, {share} of the rows that have minutes of each tailnum are left out\. "
    assert re.search(rf"so a number can differ from the table's own\. {rows}({known}|{unknown})$", answer.left_out)
    assert "holds the exact number with" not in answer.interval_note
    assert "the exact number of what is counted" in answer.interval_note


def skewed():
    """900 users with one row of 1,000 each, and 100 users with 100 rows of 10 each: the mean over users is larger."""
    amounts = np.concatenate([np.full(900, 1000), np.full(10_000, 10)])
    return pa.table({"who": np.concatenate([np.arange(900), 900 + np.repeat(np.arange(100), 100)]), "amount": amounts})


def test_a_mean_says_that_every_user_counts_once_and_how_to_ask_for_the_mean_over_rows():
    with setwise.open(skewed(), user="who", name="sales") as session:
        mean = session.sql("SELECT AVG(amount) AS n FROM sales", epsilon=5).answer
        median = session.sql("SELECT MEDIAN(amount) AS n FROM sales", epsilon=5).answer
        total = session.sql("SELECT SUM(amount) AS n FROM sales", epsilon=5).answer
    sentence = (
        "AVG is the mean over users of each user's own mean; for the mean over rows ask SUM(amount) / COUNT(amount) "
        "with wide bounds stated for both."
    )
    assert sentence in mean.left_out
    assert "In quantiles of amount all rows of a user together have one vote; " in median.left_out
    assert "mean over" not in total.left_out


def test_two_statistics_of_one_column_state_the_bounds_that_each_was_computed_with():
    """Users' sums reach 1,000 and their means 10: both were listed with the bounds of the one that came last."""
    rows = pa.table({"who": np.repeat(np.arange(2000), 100), "amount": np.full(200_000, 10)})
    with setwise.open(rows, user="who", name="sales") as session:
        result = session.sql("SELECT SUM(amount) AS s, AVG(amount) AS a FROM sales", epsilon=5)
    stated = {each["of"]: each["high"] for each in result.bounds}
    assert stated["sum_amount"] >= 1024
    assert stated["mean_amount"] <= 64
    assert f"sum of amount is clipped to 0 .. {stated['sum_amount']:,.0f}" in result.answer.left_out


def test_an_answer_says_where_the_search_for_bounds_ends():
    """Values beyond the largest bound were averaged to it, with a narrow interval, and 0% to 2% called clipped."""
    rows = pa.table({"who": np.arange(2000), "mass": np.full(2000, 6e24)})
    with setwise.open(rows, user="who", name="events") as session:
        for sign in ("", "-"):
            answer = session.sql(f"SELECT AVG({sign}mass) AS a FROM events", epsilon=5).answer
            assert "No bounds beyond 1.845e+19 are found: if " in answer.left_out
            assert "has larger values, state their bounds, or divide " in answer.summary
            (clipped,) = answer.found["clipped_users"].values()
            assert clipped["interval"][0] > 0.95
        small = session.sql("SELECT AVG(mass / 1000000) AS a FROM events", epsilon=5).answer
    assert "No bounds beyond" not in small.left_out


@pytest.mark.parametrize(("column", "truth"), [("ms", 1.7e12), ("-ms", -1.7e12), ("real", 3e12), ("ns", 1.7e18)])
@pytest.mark.parametrize("function", ["AVG({})", "SUM({}) / 2000", "MEDIAN({})"])
def test_bounds_are_found_for_times_in_milliseconds_and_nanoseconds(column, truth, function):
    """Every value beyond 2^40 was read as 2^40, and the answer said that at most 2.2% of users were clipped."""
    users = np.arange(2000)
    rows = {
        "who": users,
        "ms": np.full(2000, 17 * 10**11),
        "real": np.full(2000, 3e12),
        "ns": np.full(2000, 17 * 10**17),
    }
    with setwise.open(pa.table(rows), user="who", name="events") as session:
        result = session.sql(f"SELECT {function.format(column)} AS a FROM events", epsilon=10)
    assert result.rows[0]["a"]["value"] == pytest.approx(truth, rel=0.05)
    (clipped,) = result.answer.found["clipped_users"].values()
    assert clipped["interval"][0] == 0


def test_a_sum_takes_bounds_beyond_two_to_the_forty():
    """Such bounds were refused: "high must lie between 1 and 1,099,511,627,776"."""
    rows = pa.table({"who": np.arange(2000), "ms": np.full(2000, 17 * 10**11)})
    with setwise.open(rows, user="who", name="events") as session:
        for low in (0, -5):
            bounds = f"contribution_bounds_per_group => ({low}, 3000000000000)"
            result = session.sql(f"SELECT SUM(ms, {bounds}) AS a FROM events", epsilon=10)
            assert result.rows[0]["a"]["value"] == pytest.approx(2000 * 17e11, rel=0.01)


@pytest.mark.parametrize(
    ("columns", "difference"),
    [
        ("COUNT(*) AS n", "a number can be below the table's own"),
        ("MEDIAN(minutes) AS n", "a number can differ from the table's own"),
        (
            "COUNT(*) AS n, MEDIAN(minutes) AS m",
            "a count can be below the table's own, and any other number can differ from it to either side",
        ),
    ],
)
def test_leaving_rows_out_lowers_counts_and_moves_other_numbers_to_either_side(columns, difference):
    with setwise.open(TABLE, user="tailnum", name="flights") as session:
        answer = session.sql(f"SELECT dest, {columns} FROM flights GROUP BY dest", epsilon=5, contributions=5).answer
    assert f", so {difference}." in answer.left_out


def test_the_line_below_says_where_the_share_left_out_cannot_be_told():
    """A bound of 8 rows left out four of five rows, and only --details said that the share was unknown."""
    few = pa.table({"who": [n % 40 for n in range(4000)], "x": [float(n % 7) for n in range(4000)]})
    with setwise.open(few, user="who", name="sales") as session:
        rows = session.sql("SELECT COUNT(*) AS n FROM sales", epsilon=0.1).answer
        given = session.sql("SELECT COUNT(*, contribution_bounds_per_group => (0, 5)) FROM sales", epsilon=0.1).answer
    assert "(how many are left out cannot be told at this epsilon)" in rows.summary
    assert "cannot be told" not in given.summary
