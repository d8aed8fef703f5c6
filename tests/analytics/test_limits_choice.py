"""Limits on a user's groups and rows that are found: they show groups, with a small error, and their words are true."""

import re
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import setwise
from setwise.analytics.planning.limits_choice import ExpectedError, LikelyUsers, choose_limits
from setwise.analytics.planning.mechanism_choice import choose_mechanism
from setwise.analytics.planning.plan import plan_query
from setwise.analytics.planning.suggestions import suggest_parameters
from setwise.analytics.query import Query
from setwise.analytics.schema import Column, Kind, Schema
from setwise.mechanisms.planning.request import MechanismName, Total
from setwise.mechanisms.value_overlap import OverlapMeasurement
from tests import sizes

SCHEMA = Schema((Column(name="user", kind=Kind.INTEGER), Column(name="title", kind=Kind.TEXT)))


def flights(aircraft=3800, mean=0.7, most=109):
    """3,800 aircraft with up to 37 of 102 destinations; few have more than 10 flights to one, one in a thousand 100."""
    random = np.random.default_rng(2013)
    popularity = np.exp(-np.arange(102) / 20)
    groups = np.minimum(1 + random.negative_binomial(1, 0.13, aircraft), 37)
    places = [random.choice(102, size=count, replace=False, p=popularity / popularity.sum()) for count in groups]
    who, dest = np.repeat(np.arange(aircraft), groups), np.concatenate(places)
    rows = np.minimum(np.ceil(random.lognormal(mean, 1.0, len(who))).astype(int), most)
    return pa.table({"tailnum": np.repeat(who, rows), "dest": [f"D{place:03}" for place in np.repeat(dest, rows)]})


TOP = "SELECT dest, COUNT(*) AS n FROM flights GROUP BY dest ORDER BY n DESC LIMIT 10"


@pytest.fixture(scope="module")
def session():
    with setwise.open(flights(), user="tailnum", name="flights") as opened:
        yield opened


def test_a_top_ten_whose_limits_are_found_shows_ten(session, empty_bins_never_stand_out):
    """Limits that covered nearly all rows needed a threshold above every count: the budget was spent on no row."""
    runs = sizes.draws(10)
    shown = [len(session.sql(TOP, epsilon=1, delta=1e-6).rows) for _ in range(min(runs, 10))]
    assert np.mean(shown) > 8


@pytest.mark.parametrize("k", [1, 3, 5])
def test_a_short_list_whose_limits_are_found_has_rows(k):
    """A top 5 kept 128 rows of a user in 256 groups: its threshold of 21,700 was above every count of 17,000."""
    text = TOP.replace("LIMIT 10", f"LIMIT {k}")
    with setwise.open(flights(1500, 2.2, 130), user="tailnum", name="flights") as busy:
        shown = [len(busy.sql(text, epsilon=1, delta=1e-6).rows) for _ in range(sizes.cases(12, 4))]
    assert np.mean(shown) > 0.7 * k


@pytest.mark.parametrize("total", [(0.9, 1e-6), (0.3, 1e-6), (2.7, 1e-6), (0.9, 1e-8)])
def test_groups_are_expected_to_be_shown_about_where_plans_show_them(session, total):
    epsilon, delta = total
    budget, rows = Total(epsilon=epsilon, delta=delta), 100
    for k, contributions in sizes.some([(k, c) for k in (1, 2, 5, 10, 20, 100) for c in (1, 2, 4, 16, 64, 256)], 5):
        error = session.preview(Query.top_k(item="dest", k=k, contributions=contributions, per_item=rows), budget).error
        planned = max(error.detectable or 0, error.shortfall or 0) / rows
        expected = ExpectedError(epsilon=epsilon, delta=delta, groups=k, most=k, is_hidden=True)
        assert 0.7 < expected.shown_from(contributions) / planned < 1.3, (k, contributions)


def test_the_planned_error_of_counts_in_rounds_is_that_of_the_intervals(session):
    """The details said ±1,210 where the intervals were ±488: rounds leave a part of their cost to the counts."""
    text = "SELECT dest, COUNT(*) AS n FROM flights GROUP BY dest"
    answer = session.sql(text, epsilon=1, delta=1e-6).answer
    within = int(re.search(r"off by [\d,]+ on average, within ±([\d,]+)", answer.why)[1].replace(",", ""))
    highest = answer.items[0]
    assert highest.interval[1] - highest.noisy == within


def test_a_preview_of_limits_to_be_found_also_states_the_largest_error(session):
    """It stated a threshold of 1,278 for example limits alone; the run then had one of 7,225."""
    plan = session.explain(TOP, epsilon=1, delta=1e-6)
    example, worst = re.findall(r"if a user counts towards at most ([\d,]+) groups and at most ([\d,]+) rows", plan.why)
    assert example == ("4", "16")
    assert worst == ("256", "32,768")
    needed = [int(number.replace(",", "")) for number in re.findall(r"whose count is ([\d,]+)", plan.why)]
    assert needed[-1] > 1000 * needed[0]


@pytest.mark.parametrize("asked", ["SELECT SUM(distance) AS s FROM flights", TOP])
def test_a_preview_of_bounds_to_be_found_says_that_it_is_an_example(asked):
    """Sums were "at worst within 17,945" and came within 6,185,128: the example of values was taken for the worst."""
    table = pa.table({"tailnum": [1, 2], "distance": [1000.0, 2000.0], "dest": ["A", "B"]})
    with setwise.open(table, user="tailnum", name="flights") as opened:
        text = opened.explain(asked, epsilon=1, delta=1e-6).accuracy.text
    assert text.startswith("If ")
    assert "worst" not in text
    assert "This is an example: the bounds are found first" in text


def test_a_hint_names_only_parameters_that_would_show_a_group():
    """5,029 with 20 contributions was said to do where the largest group had 5,000 rows at most."""
    query, total = Query.top_k(item="dest", k=10, contributions=256, per_item=32), Total(epsilon=1, delta=1e-6)
    anything = suggest_parameters(query, total)
    lead, *remedies = (int(number.replace(",", "")) for number in re.findall(r"at least ([\d,]*\d)", anything))
    condition = f"if its count is at least {lead:,} above that of rank 1,001, or "
    assert anything.startswith(f"an item is shown with probability 95% {condition}")
    named = (
        "with per_item = 16, or in SQL COUNT(*, contribution_bounds_per_group => (0, 16)) (at most 16 rows of a user"
    )
    assert named in anything, "the hint named neither an option nor a clause"
    assert "so its count may be lower" in anything, "a lower limit lowers the counts as well"
    assert "contributions =" not in anything, "how much lower counts become with fewer groups of a user is not known"
    assert len(remedies) == 2
    assert all(remedy < lead for remedy in remedies)
    reachable = suggest_parameters(query, total, largest=min(remedies))
    assert f"{min(remedies):,} with" in reachable
    assert f"{max(remedies):,} with" not in reachable
    nothing = suggest_parameters(query, total, largest=10)
    assert "domain" not in nothing, "10 random groups at 0 would be shown"
    public = "; if the list of groups is public, state it as the domain: the 10 with the highest noisy counts"
    assert f"{public} are then shown" in suggest_parameters(query, total, largest=10_000)
    every = suggest_parameters(Query.histogram(item="dest", contributions=2), total)
    assert every.endswith("state it as the domain: every group is then shown")
    assert " with " not in nothing.partition(" if its count")[2]


def test_a_hint_for_counts_of_users_names_no_limit_on_rows():
    """It said "contributions = 8 and per_item = 1, in SQL COUNT(*, contribution_bounds_per_group => (0, 1))"."""
    query = Query.top_k(item="title", k=10, contributions=2, per_item=1)
    hint = suggest_parameters(query, Total(epsilon=1, delta=1e-6), found=True)
    assert "contributions = 2" in hint
    assert "per_item" not in hint


@pytest.mark.parametrize("found", [False, True])
def test_a_larger_epsilon_is_suggested_with_the_limits_that_its_forecast_is_for(found):
    """A limit that was found at epsilon 1 became a wider one at 5, whose threshold was ten times the forecast."""
    query, total = Query.histogram(item="title", contributions=2, per_item=2), Total(epsilon=1, delta=1e-6)
    hint = suggest_parameters(query, total, found=found)
    limits = "with epsilon = 2, contributions = 2 and per_item = 2, or in SQL COUNT(*, contribution_bounds_per_group"
    assert (limits in hint) == found
    forecast = int(re.search(r"at least (\d+) with epsilon = 2", hint)[1])
    planned = plan_query(query, replace(total, epsilon=2), "user", SCHEMA, None).plan.error
    assert forecast == max(planned.detectable, planned.shortfall or 0)


def test_a_short_top_k_of_rows_is_advised_to_count_users():
    """Pasted as forecast, "at least 19 with epsilon = 2" and the limits found came back empty again."""
    query, total = Query.top_k(item="title", k=10, contributions=1, per_item=2), Total(epsilon=1, delta=1e-6)
    hint = suggest_parameters(query, total, found=True, largest=20)
    users = choose_mechanism(Query.top_k(item="title", k=10), Query.top_k(item="title", k=10).bounds, total).error
    assert f"or at least {max(users.detectable, users.shortfall)} above" in hint
    assert "if users are counted in place of rows, in SQL by COUNT(DISTINCT ..) of the user column" in hint
    assert "per_item = 2" not in hint


def test_groups_of_counted_rows_are_found_by_their_users():
    """At most 512 rows of a user counted, a group was shown from 9,817 rows on: 3 of 21 occupations were."""
    total = Total(epsilon=Fraction("0.9"), delta=1e-6)
    few, many = (Query.histogram(item="title", contributions=1, per_item=rows) for rows in (2, 512))
    by_rows, by_users = (plan_query(query, total, "user", SCHEMA, None) for query in (few, many))
    assert by_rows.plan.accuracy.threshold == "count"
    assert by_users.plan.accuracy.threshold == "number of users"
    assert by_users.plan.error.detectable <= by_rows.plan.error.detectable
    named = plan_query(many, replace(total, mechanism=MechanismName.UNKNOWN_LAPLACE), "user", SCHEMA, None)
    assert named.plan.error.detectable > 200 * by_users.plan.error.detectable
    assert by_users.plan.error.radius <= 2.1 * named.plan.error.radius, "half of the budget counts"


def likely(numbers, users):
    return LikelyUsers(numbers=np.array(numbers, dtype=float), users=np.array(users, dtype=float))


def test_wider_limits_are_chosen_where_noise_is_smaller():
    groups, rows = likely([1, 2, 4, 8, 16], [500, 700, 900, 900, 500]), likely([2, 8, 32, 128], [900, 1500, 600, 60])
    chosen = [
        choose_limits(
            ExpectedError(epsilon=epsilon, delta=1e-6, groups=10, most=10, is_hidden=True),
            (1, 2, 4, 8, 16),
            groups,
            (2, 4, 8, 16, 32, 64, 128),
            [rows],
        )
        for epsilon in (0.05, 0.5, 5, 500)
    ]
    limits = [each.rows[0] for each in chosen]
    assert limits == sorted(limits)
    assert limits[0] < limits[-1] == 128
    assert [each.error for each in chosen] == sorted((each.error for each in chosen), reverse=True)


def test_no_limit_is_chosen_whose_threshold_is_above_every_group_if_another_shows_some():
    expected = ExpectedError(epsilon=0.9, delta=1e-6, groups=10, most=10, is_hidden=True)
    users = likely([1, 2, 4, 8, 16, 32], [400, 600, 900, 900, 700, 300])
    rows = likely([2, 4, 8, 16, 32, 64], [900, 900, 900, 700, 300, 100])
    limits = choose_limits(expected, (16, 32, 64), users, (2, 4, 8, 16, 32, 64), [rows])
    assert expected._shown_share(10 * limits.largest_group, users.count, limits.contributions, limits.rows[0]) > 0
    assert Fraction(limits.rows[0]) < 32


def growth(numbers, pairs):
    """The growth curve for these noisy numbers of distinct values, and these numbers of pairs of a user and a value."""
    return OverlapMeasurement(share=Fraction(1, 30)).fit(numbers, pairs, 1)


POWERS = tuple(2**power for power in range(16))


def kept_values(users, expected=None):
    alone = LikelyUsers(numbers=np.ones(1), users=np.array([users.count]))
    one = ExpectedError(epsilon=0.9, delta=0.0, groups=1, most=1, is_hidden=False)
    (kept,) = choose_limits(expected or one, (1,), alone, POWERS, [users]).rows
    return kept


def test_users_with_values_in_common_keep_fewer_of_them():
    """943 users with up to 737 of 1,682 films each; 4,043 planes with up to 47 of 105 airports each."""
    films = LikelyUsers(
        numbers=np.array([16.0, 64, 256, 1024]),
        users=np.array([100.0, 500, 300, 43]),
        growth=growth((494, 1231), (943.0, 7544.0)),
    )
    assert 16 <= kept_values(films) <= 128
    assert kept_values(replace(films, growth=None)) == 1024
    planes = LikelyUsers(numbers=np.array([8.0, 16, 64]), users=np.array([1000.0, 2000, 1043]))
    assert kept_values(replace(planes, growth=growth((97, 104), (4043.0, 32344.0)))) <= 8


def test_users_without_values_in_common_keep_theirs():
    """Every second of 2,000 users has 40 orders, the others one: numbers of orders are never the same."""
    orders = LikelyUsers(
        numbers=np.array([1.0, 64]), users=np.array([1000.0, 1000]), growth=growth((2000, 9000), (2000.0, 9000.0))
    )
    assert kept_values(orders) == 64


def test_no_limit_is_chosen_whose_noise_exceeds_a_share_of_the_values_that_users_surely_have():
    """Fifty users with 8 values each: those who may have 1,000 are a guess, and do not raise the limit."""
    few = LikelyUsers(
        numbers=np.array([8.0, 1024]), users=np.array([50.0, 40]), growth=growth((50, 400), (50.0, 400.0)), known=1
    )
    assert 4 <= kept_values(few) <= 16
    assert kept_values(replace(few, known=2)) > kept_values(few)
    empty = LikelyUsers(numbers=np.array([1.0]), users=np.zeros(1), growth=growth((0, 0), (0.0, 0.0)), known=1)
    assert kept_values(empty) == 1


def occupations(users=943):
    """Ratings of `users` people in 21 occupations, one each; a person has 20 ratings at least and 100 on average."""
    random = np.random.default_rng(5)
    rows = 20 + random.geometric(1 / 80, users)
    occupation = random.choice(21, users, p=np.arange(21, 0, -1) / 231)
    names = [f"job {number:02}" for number in np.repeat(occupation, rows)]
    return pa.table({"user": np.repeat(np.arange(users), rows), "occupation": names})


def test_groups_of_few_users_with_many_rows_are_shown_and_their_intervals_hold():
    table = occupations()
    exact = dict(zip(*np.unique(table["occupation"].to_numpy(), return_counts=True), strict=True))
    kept, hits, wide = 0, 0, {"contributions": 1, "per_item": 1000}
    with setwise.open(table, user="user", name="ratings") as ratings:
        for _ in range(20):
            answer = ratings.histogram(item="occupation", **wide, epsilon=1, delta=1e-6)
            assert len(answer) > 8, "by their rows, groups of 19,000 rows would be shown, and none has so many"
            assert "Groups with fewer than about" in answer.left_out
            assert "users may be hidden" in answer.left_out
            assert all(item.interval[0] <= item.count <= item.interval[1] for item in answer)
            kept += len(answer)
            hits += sum(item.interval[0] <= exact[item.label] <= item.interval[1] for item in answer)
    assert hits >= 0.9 * kept


def test_public_groups_of_sql_count_a_user_in_as_many_as_users_have():
    """Without a bound, a user is taken to be in all 21: intervals were five times as wide as with one."""
    names = tuple(f"job {number:02}" for number in range(21))
    asked = "SELECT occupation, COUNT(DISTINCT user) AS users FROM ratings GROUP BY occupation"
    with setwise.open(occupations(), user="user", name="ratings") as ratings:
        answer = ratings.sql(asked, epsilon=1, domain=names)
        few = ratings.sql(asked, epsilon=1, domain=names[:4])
        wide = ratings.histogram(item="occupation", domain=names, epsilon=1)
    assert len(answer.rows) == 21
    assert answer.answer.found["contributions"] <= 2
    ends = [row["users"]["interval"] for row in answer.rows]
    assert max(upper - lower for lower, upper in ends) < 20
    assert "contributions" not in few.answer.found
    assert "contributions = auto finds in how many" in wide.hint
