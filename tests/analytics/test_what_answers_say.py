"""Answers say which number they hold: what bounding left out, and in which order groups stand."""

import csv
import datetime
import io
import json

import pyarrow as pa
import pytest

import setwise
from setwise.analytics.answer import PrivateAnswer
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


@pytest.fixture
def flights():
    with setwise.open(TABLE, user="tailnum") as session:
        yield session


@pytest.fixture
def bounded(flights):
    return flights.histogram(item="dest", contributions=5, epsilon=5, delta=1e-6)


def test_every_form_of_an_answer_says_what_was_left_out(bounded, tmp_path):
    """The interval holds 5/8 of the exact number: whoever reads it as the table's number is misled without a word."""
    assert bounded.left_out == LEFT_OUT
    assert "the exact number of what is counted" in bounded.interval_note
    assert json.loads(bounded.to_json())["left_out"] == LEFT_OUT
    assert "others are left out" in next(csv.DictReader(io.StringIO(bounded.to_csv())))["measure"]
    assert "others are left out" in rows_of(bounded).to_pylist()[0]["measure"]
    assert "At most 5 values of dest" in bounded._repr_html_()
    bounded.plot(tmp_path / "answer.svg")
    drawn = bounded.plot().figure
    assert "At most 5 values of dest" in drawn.get_supxlabel()
    assert PrivateAnswer.from_stored(bounded.stored()) == bounded


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
