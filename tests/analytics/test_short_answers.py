"""An answer that came out short says what would have shown more, and that does."""

import re

import numpy as np
import pyarrow as pa

import setwise
from setwise.analytics.query import Query
from setwise.mechanisms.planning.request import Total

ASKED = {"item": "destination", "k": 10}
LITTLE = {"epsilon": 0.1, "delta": 1e-6}


def flights():
    """4,043 aircraft and 105 destinations; each flew to 10 on average, and 1,000 to 1,300 to each of the first ten."""
    random, place = np.random.default_rng(2013), np.arange(105)
    chance = np.where(place < 10, 0.323 - 0.0085 * place, 0.245 * np.exp(-(place - 10) / 31))
    busy = random.gamma(3, 1 / 3, (4043, 1))
    aircraft, destination = np.nonzero(random.random((4043, 105)) < busy * chance)
    return pa.table({"aircraft": aircraft, "destination": [f"D{place:03}" for place in destination]})


def test_a_top_ten_without_a_bound_names_the_bound_that_shows_all_ten():
    with setwise.open(flights(), user="aircraft", name="flights") as session:
        short = session.top_k(**ASKED, **LITTLE)
        assert len(short) <= 3
        assert "with contributions = 20 (at most 20 items of a user then count, so counts may be lower)" in short.hint
        assert "with epsilon = 1; if the list of groups is public" in short.hint
        needed, bounded, larger = (
            int(each.replace(",", "")) for each in re.findall(r"at least ([\d,]*\d)", short.hint)
        )
        assert f"at least {needed:,} above that of rank 1,001, or at least" in short.hint
        planned = session.preview(Query.top_k(**ASKED, contributions=20), Total(**LITTLE)).error
        assert bounded == max(planned.detectable, planned.shortfall)
        assert larger < bounded < 0.75 * needed
        shown = session.top_k(**ASKED, contributions=20, **LITTLE)
        assert len(shown) >= 9
        assert len({int(label[1:]) for label in shown.labels} & set(range(30))) >= 8
        if len(shown) == 10:
            assert shown.hint == ""
        assert len(session.top_k(**ASKED, epsilon=1, delta=1e-6)) == 10


def test_users_who_are_in_one_group_by_construction_are_not_said_to_be_left_out():
    """Users by their number of flights were "counted in at most 1 value each, so the table's numbers are larger"."""
    users = "SELECT aircraft, FLOOR(COUNT(*) / 5) * 5 AS n FROM flights GROUP BY aircraft"
    every = "SELECT destination, COUNT(*) AS n FROM flights GROUP BY destination"
    with setwise.open(flights(), user="aircraft", name="flights") as session:
        answer = session.sql(f"SELECT n, COUNT(*) AS users FROM ({users}) GROUP BY n", epsilon=1, delta=1e-6)
        bounded = session.sql(every, epsilon=1, delta=1e-6, contributions=1)
    for text in (answer.answer.brief, answer.answer.left_out, answer.answer.measure):
        assert "left out" not in text
    assert "left out" in bounded.answer.brief
    assert re.search(r"groups of about \d+ users are shown with epsilon = 2", answer.answer.hint)
