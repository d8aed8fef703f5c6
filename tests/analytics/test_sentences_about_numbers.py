"""The line below a table says what the numbers are: how users weigh, what was fitted or chosen, and one promise."""

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import setwise
from setwise.accounting.promises import promise_in_words
from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.present.text import brief_bounds_note, found_shares_notes, interval_note
from setwise.analytics.query import Count, Query
from setwise.analytics.statistics import Distinct
from setwise.ledger.ledger import Ledger
from setwise.mechanisms.contribution_bound import FoundContributions, LeftOutShare
from setwise.mechanisms.noise.discrete import LaplaceNoise
from setwise.mechanisms.release import FITTED, Item, Release

PLANES = 2000
TABLE = pa.table(
    {
        "plane": np.repeat(np.arange(PLANES), 2),
        "carrier": ["AA" if plane % 4 else "YV" for plane in range(PLANES) for _ in range(2)],
        "dest": [f"D{(plane + trip) % 3}" for plane in range(PLANES) for trip in range(2)],
        "delay": [plane % 100 for plane in range(PLANES) for _ in range(2)],
    }
)


@pytest.fixture(scope="module")
def flights():
    with setwise.open(TABLE, user="plane", name="flights") as session:
        yield session


def test_the_line_below_says_that_means_and_quantiles_weigh_users_and_what_to_ask_for_rows(flights):
    mean = flights.sql("SELECT AVG(delay) AS m FROM flights", epsilon=5)
    assert mean.summary.startswith("AVG is the mean over users of each user's own mean; for the mean over rows ask SUM")
    middle = flights.sql("SELECT MEDIAN(delay) AS m FROM flights", epsilon=5)
    assert "In quantiles of delay all rows of a user together have one vote; to count rows alike" in middle.summary


def test_what_the_line_says_to_ask_for_rows_is_a_statement_that_runs(flights):
    (ratio,) = re.findall(
        r"ask (SUM.*?) with wide", flights.sql("SELECT AVG(delay) AS m FROM flights", epsilon=5).summary
    )
    assert flights.sql(f"SELECT {ratio} AS m FROM flights", epsilon=50).value == pytest.approx(49.5, abs=5)
    summary = flights.sql("SELECT MEDIAN(delay) AS m FROM flights", epsilon=5).summary
    ((count, group),) = re.findall(r"ask (COUNT\(\*\)) by bins, (GROUP BY FLOOR\(delay / 10\))\.", summary)
    key = group.removeprefix("GROUP BY ")
    bins = flights.sql(f"SELECT {key} AS bin, {count} AS n FROM flights {group}", epsilon=50, delta=1e-6)
    assert {row["bin"]: row["n"]["value"] for row in bins} == pytest.approx(dict.fromkeys(range(10), 400), abs=60)


def share(estimate, lower, upper):
    return LeftOutShare(share=estimate, lower=lower, upper=upper, of_first=8)


def test_a_share_that_is_mostly_noise_is_stated_by_its_interval_alone():
    """ "About 0.2% [0%, 14%] left out" was read as nothing, and 7.1% was left out."""
    query = Query.histogram(item="dest", contributions=4)
    vague, precise = share(0.002, 0.0, 0.14), share(0.07, 0.05, 0.09)
    assert "(at most 14% left out if none has more than 8)" in brief_bounds_note(query, "plane", vague)
    assert "(about 7% [5%, 9%] left out if none has more than 8)" in brief_bounds_note(query, "plane", precise)
    (note,) = found_shares_notes(query, query, "plane", vague, (), {})
    assert note.startswith("If none has more than 8, at most 14% of the values of dest")


def test_an_answer_that_leaves_many_out_begins_with_what_that_does_to_its_numbers():
    """Of a top 15 that left 47% out, readers took intervals and order for those of the table's own numbers."""
    sure, possible, few = share(0.47, 0.2, 0.61), share(0.1, 0.0, 0.16), share(0.02, 0.01, 0.03)
    top = Query.top_k(item="dest", k=15, contributions=32, per_item=16)
    larger = (
        "The table's own numbers are larger on the whole, and may stand in another order, because at most 32 values"
    )
    assert brief_bounds_note(top, "plane", sure).startswith(larger)
    can_be = "The table's own numbers can be larger, and in another order, where rows are left out: at most 32"
    assert brief_bounds_note(top, "plane", possible).startswith(can_be)
    assert brief_bounds_note(top, "plane", few).startswith("At most 32 values of dest")
    mean = Query.mean(value="delay", low=0, high=60, item="dest", contributions=32)
    assert "larger" not in brief_bounds_note(mean, "plane", sure), "a mean can move to either side"


def test_stated_bounds_say_that_the_numbers_of_the_table_can_be_larger():
    """With 16 rows of a user, 613 came out of 4,040, and only "others are left out" was said."""
    weeks = Query.histogram(item="week", contributions=1, per_item=16)
    assert brief_bounds_note(weeks, "user").endswith(", others are left out, so the table's own numbers can be larger.")
    mean = Query.mean(value="delay", low=0, high=60, item="dest", contributions=32)
    assert "are counted for each plane, others are left out; each" in brief_bounds_note(mean, "plane")


def test_no_number_is_called_larger_that_bounds_may_leave_as_it_is():
    """COUNT(DISTINCT dest) was 249 for a true 105, and "the table's own number is larger" stood below."""
    vague = share(0.1, 0.0, 0.36)
    distinct = Query(statistics=(Distinct(column="dest", per_user=64),))
    found = {0: FoundContributions(bound=64, left_out=vague)}
    assert brief_bounds_note(distinct, "plane", None, found) == (
        "At most 64 distinct values of dest are counted for each plane, others are left out. A value of dest that is "
        "left out for one plane still counts if it is kept for another; the number can be below the table's own."
    )
    assert brief_bounds_note(Query.histogram(item="plane", contributions=1), "plane") == ""
    two_of_two = Query.histogram(item="sex", contributions=2, domain=["f", "m"])
    assert brief_bounds_note(two_of_two, "user") == ""
    both = Query(statistics=(*distinct.statistics, Count(most=16)))
    sure = FoundContributions(bound=16, left_out=share(0.3, 0.2, 0.4))
    assert brief_bounds_note(both, "plane", None, {0: sure, 1: sure}).startswith("The table's own count is larger, bec")


def test_a_ratio_of_counts_is_not_called_smaller_than_that_of_the_table(flights):
    """Of a share of late flights that was above the table's own in 11 of 12 months, the text said the reverse."""
    ratio = "COUNTIF(delay > 50) / COUNT(*)"
    late, counts = (
        flights.sql(f"SELECT carrier, {columns} FROM flights GROUP BY carrier", epsilon=0.05, delta=1e-6).summary
        for columns in (f"{ratio} AS late", f"COUNT(*) AS n, {ratio} AS late")
    )
    assert late.startswith("At most ")
    assert "larger" not in late
    assert counts.startswith("The table's own numbers can be larger, and in another order, where rows are lef")


def test_equal_neighbours_are_explained_in_the_line_below_where_counts_were_fitted():
    noise = LaplaceNoise(scale=Fraction(10))
    drawn = (("a", 100, 101), ("b", 100, 99))
    fitted = Release(
        items=tuple(Item(label=label, count=count, noisy=noisy) for label, count, noisy in drawn),
        spent=(),
        complete=True,
        noise=noise,
    )
    plain = replace(fitted, items=tuple(replace(item, count=item.noisy) for item in fitted.items))
    with setwise.open(TABLE, user="plane") as session:
        answer = session.histogram(item="dest", contributions=2, domain=["D0", "D1", "D2"], epsilon=5)
    for release, is_fitted in ((fitted, True), (plain, False)):
        note = interval_note(release, Fraction(95, 100))
        assert (FITTED in replace(answer, interval_note=note).summary) is is_fitted


def test_a_pure_answer_makes_no_exception_for_delta(flights):
    """A mean with Laplace noise promised "except with a chance of about one in a million"."""
    answer = flights.count(epsilon=0.1, delta=1e-6)
    assert answer.delta == 0.0
    assert "except" not in answer.promise
    assert " 0)-differentially private" in answer.guarantee


@pytest.mark.parametrize(
    "statement", ["SELECT COUNT(*) AS n FROM flights", "SELECT dest, COUNT(*) AS n FROM flights GROUP BY dest"]
)
def test_an_answer_of_an_account_states_one_epsilon_and_one_delta(tmp_path, statement):
    """The promise named the account's delta of 1e-6, and the cost the question's own."""
    with Ledger.open(str(tmp_path / "ledger.db")) as ledger:
        ledger.open_filter("team", epsilon=9, delta=1e-6)
        with setwise.open(TABLE, user="plane", name="flights", account=ledger.account("team")) as session:
            answer = session.sql(statement, epsilon=2).answer
    epsilon, delta = answer.cost
    assert (epsilon, delta) == answer.alone
    assert answer.delta == pytest.approx(1e-6)
    assert delta < 1e-6
    assert answer.promise == promise_in_words(epsilon, delta)
    assert ("except" in answer.promise) is (delta > 0)
    assert "at the account's delta of 1e-06" in answer.guarantee


CHOSEN = (
    "The statement chose these rows by their noisy numbers, so a row may be here, or missing, by noise alone; that "
    "favours high noise, so fewer than 95%"
)


def test_rows_chosen_by_their_numbers_have_one_true_sentence_on_their_intervals(flights):
    text = "SELECT dest, COUNT(*, contribution_bounds_per_group => (0, 1)) AS n FROM flights GROUP BY dest{}"
    words = {"epsilon": 5, "contributions": 2, "domain": ["D0", "D1", "D2"]}
    chosen = flights.sql(text.format(" HAVING n > 999999"), **words)
    assert chosen.summary == "The statement keeps none of the 3 released groups."
    assert CHOSEN in chosen.to_dict()["interval_note"]
    for wording in (chosen.summary, chosen.to_dict()["interval_note"], chosen._repr_html_()):
        assert "with probability 95%" not in wording
        assert "On average 95%" not in wording
    every = flights.sql(text.format(" HAVING n > -999999"), **words)
    assert CHOSEN not in every.summary
    assert "95%" in every.summary


def test_each_release_of_a_rollup_is_described(flights):
    result = flights.sql(
        "SELECT carrier, dest, COUNT(*) AS n FROM flights GROUP BY ROLLUP (carrier, dest)", epsilon=9, delta=1e-6
    )
    assert len(result.answer.parts) == 3
    for name in ("By carrier and dest: ", "By carrier: ", "In all: "):
        assert name in result.summary
        assert name in result.answer.left_out
    assert "combinations of carrier and dest" in result.summary
    alone = flights.sql("SELECT dest, COUNT(*) AS n FROM flights GROUP BY dest", epsilon=9, delta=1e-6)
    assert "By dest: " not in alone.summary
    assert PrivateAnswer.from_stored(result.answer.stored()).summary in result.summary


def test_columns_of_numbers_without_an_interval_are_named(flights):
    text = "SELECT dest, COUNT(*) AS n, RANK() OVER (ORDER BY COUNT(*) DESC) AS place FROM flights GROUP BY dest"
    result = flights.sql(text, epsilon=9, delta=1e-6)
    assert "The number in place comes without an interval." in result.notes
    assert "The number in place comes without an interval." in result._repr_html_()
    plain = flights.sql(
        "SELECT dest, COUNT(*) + 1 AS n FROM flights GROUP BY dest ORDER BY dest", epsilon=9, delta=1e-6
    )
    assert not [note for note in plain.notes if "without an interval" in note]
