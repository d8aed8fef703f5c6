"""Private groups found in rounds: when they are, one charge and one outcome, and what an answer says of them."""

import importlib.util
import json
import re
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from setwise.accounting.compose import compose
from setwise.accounting.guarantees import Gaussian
from setwise.analytics.budget import Draws
from setwise.analytics.planning import remembered
from setwise.analytics.query import Count, Mean, Query
from setwise.analytics.session import Session
from setwise.errors import AnswerWithheld, EngineFailed, InvalidParameter
from setwise.ledger.ledger import Ledger
from setwise.mechanisms import contribution_bound
from setwise.mechanisms.planning.request import Bounds, CountNoise, MechanismName, Total
from setwise.mechanisms.planning.rounds import FEWEST_CONTRIBUTIONS, plan_counts, prefers_rounds
from setwise.mechanisms.randomness import SystemRandomness
from setwise.mechanisms.weighted_rounds import DiscoveredCounts, WeightedRounds
from tests.analytics.recorded import RecordedEngine, recorded_session, visits

TOTAL = Total(epsilon=1, delta=1e-6)
PAGES = Query.histogram(item="page", contributions=6)


def crowd(users: int = 4000) -> pa.Table:
    """Every user has "home", half of them "help", and one of 40 pages that 100 users share."""
    rows = [(user, "home", 5) for user in range(users)]
    rows += [(user, "help", 1) for user in range(0, users, 2)]
    rows += [(user, f"shared {user % 40}", 3) for user in range(users)]
    rows += [(user, f"own {user}", 9) for user in range(0, users, 3)]
    who, page, minutes = zip(*rows, strict=True)
    return pa.table({"who": who, "page": page, "minutes": minutes})


class TestWhenGroupsAreFoundInRounds:
    def plan(self, query: Query, **words) -> str:
        _, session = recorded_session(crowd(50))
        return session.preview(query, Total(**{"epsilon": 1, "delta": 1e-6, **words})).mechanism

    def test_histograms_with_several_contributions(self):
        assert self.plan(PAGES) == "weighted_rounds"
        assert self.plan(Query.histogram(item="page", contributions=6, per_item=3)) == "weighted_rounds"
        assert (
            self.plan(Query.histogram(item="page", contributions=6, per_item=9, value="minutes")) == "weighted_rounds"
        )

    @pytest.mark.parametrize(
        "query",
        [
            Query.histogram(item="page", contributions=FEWEST_CONTRIBUTIONS - 1),
            Query.histogram(item="page", contributions=6, limit=500),
            Query.histogram(item="page", contributions=6, domain=("home", "help")),
            Query.top_k(item="page", contributions=6, k=3),
        ],
    )
    def test_other_histograms_take_one_pass(self, query):
        assert "rounds" not in self.plan(query)

    def test_laplace_noise_takes_one_pass(self):
        assert "rounds" not in self.plan(PAGES, counts=CountNoise.LAPLACE)

    def test_a_mechanism_can_be_chosen_by_hand(self):
        few = Query.histogram(item="page", contributions=2)
        assert self.plan(few, mechanism=MechanismName.WEIGHTED_ROUNDS) == "weighted_rounds"
        assert self.plan(PAGES, mechanism=MechanismName.TRUNCATED_GAUSSIAN) == "truncated_gaussian"
        with pytest.raises(InvalidParameter, match="weighted_rounds finds groups that are private"):
            self.plan(Query.top_k(item="page", contributions=6, k=3), mechanism=MechanismName.WEIGHTED_ROUNDS)

    def test_statistics_that_count_no_users_take_rounds_from_two_contributions_on(self):
        means = (Mean(column="minutes", low=0, high=10),)
        assert self.plan(Query(statistics=means, item="page", contributions=2)).startswith("weighted_rounds+")
        assert "rounds" not in self.plan(Query(statistics=means, item="page", contributions=1))
        both = (Count(), *means)
        assert "rounds" not in self.plan(Query(statistics=both, item="page", contributions=3))
        assert self.plan(Query(statistics=both, item="page", contributions=6)).startswith("weighted_rounds+")

    def test_draws_from_an_account_take_one_pass(self, tmp_path):
        with Ledger.open(str(tmp_path / "ledger.db")) as ledger:
            ledger.open_setwise("ada", ["gaussian:20x10", "approx:0,1e-7x3"], delta=1e-5)
            _, session = recorded_session(account=ledger.account("ada"))
            assert "rounds" not in session.preview(PAGES, Draws(counts="gaussian:20")).mechanism

    def test_a_prepared_dataset_takes_one_pass(self, tmp_path):
        from setwise.analytics.engines.connect import open_engine

        path = tmp_path / "visits.parquet"
        pq.write_table(visits(500), path)
        with open_engine(path) as engine:
            engine.prepare(user="who", item="page", destination=tmp_path / "prepared")
        with open_engine(tmp_path / "prepared") as engine:
            session = Session(engine, user="who", name="visits", randomness=SystemRandomness())
            assert "rounds" not in session.histogram(item="page", contributions=6, epsilon=1, delta=1e-6).mechanism

    def test_labels_that_cannot_be_listed_take_one_pass(self):
        table = pa.table({"who": range(100), "page": pa.array([2**63 + n % 3 for n in range(100)], pa.uint64())})
        _, session = recorded_session(table)
        assert "rounds" not in session.histogram(item="page", contributions=6, epsilon=1, delta=1e-6).mechanism


class TestPlan:
    @pytest.mark.parametrize("epsilon", ["0.1", "1", "8"])
    @pytest.mark.parametrize("contributions", [1, 20, 256])
    @pytest.mark.parametrize(("from_accuracy", "finding"), [(False, 0.75), (True, 0.6)])
    def test_finding_and_counting_share_the_budget(self, epsilon, contributions, from_accuracy, finding):
        """Counts whose accuracy was asked for get a larger share."""
        bounds = Bounds(contributions=contributions, per_item=3, weighable=True)
        total = Total(
            epsilon=Fraction(epsilon),
            delta=Fraction("1e-6"),
            mechanism=MechanismName.WEIGHTED_ROUNDS,
            from_accuracy=from_accuracy,
        )
        mechanism, certified = plan_counts(bounds, total)
        assert isinstance(mechanism, DiscoveredCounts)
        bound = compose(mechanism.guarantees()).epsilon(1e-6)
        assert bound.upper <= certified * (1 + 1e-9)
        assert 0.99 * float(epsilon) <= certified <= float(epsilon)
        gaussians = [use for use in mechanism.guarantees() if isinstance(use.guarantee, Gaussian)]
        costs = [use.count / use.guarantee.sigma**2 for use in gaussians]
        assert sum(costs[:-1]) / sum(costs) == pytest.approx(finding, abs=0.001)

    def test_noise_out_of_range_takes_one_pass(self):
        bounds = Bounds(contributions=20, weighable=True)
        tiny = Total(epsilon=Fraction(1, 1000), delta=Fraction("1e-9"))
        assert prefers_rounds(bounds, tiny, counts_users=True)
        assert plan_counts(bounds, tiny) is None
        _, session = recorded_session(crowd(50))
        assert "rounds" not in session.preview(Query.histogram(item="page", contributions=20), tiny).mechanism


class TestAnswers:
    def test_groups_are_found_and_counted(self):
        engine, session = recorded_session(crowd())
        answer = session.histogram(item="page", contributions=6, epsilon=3, delta=1e-6)
        counts = {item.label: item.count for item in answer.items}
        assert counts["home"] == pytest.approx(4000, abs=60)
        assert counts["help"] == pytest.approx(2000, abs=60)
        assert not [label for label in counts if str(label).startswith("own")]
        assert [event for event, _ in engine.events] == [*["round"] * len(answer.found["rounds"]), "histogram"]
        assert sum(each["groups"] for each in answer.found["rounds"]) == len(counts)
        assert answer.found["users"] == pytest.approx(4000, rel=0.2)
        for item in answer.items:
            assert item.interval[0] <= item.count <= item.interval[1]

    def test_groups_that_are_not_found_take_no_place_from_those_that_are(self):
        """One pass that keeps 6 of a user's 31 groups would count a fifth of the users of "home"."""
        rows = [(user, page) for user in range(3000) for page in ("home", *(f"own {user} {n}" for n in range(30)))]
        who, page = zip(*rows, strict=True)
        _, session = recorded_session(pa.table({"who": who, "page": page}))
        answer = session.histogram(item="page", contributions=6, epsilon=3, delta=1e-6)
        [home] = answer.items
        assert home.count == pytest.approx(3000, abs=60)

    def test_counts_are_bounded_by_what_users_have_where_the_bound_is_larger(self, monkeypatch):
        """Users have three pages at most. The survey's numbers are within six deviations except once in 10^8 runs."""
        bounds = []
        read = RecordedEngine.histogram
        monkeypatch.setattr(
            RecordedEngine, "histogram", lambda self, asked, *rest: bounds.append(asked) or read(self, asked, *rest)
        )
        _, session = recorded_session(crowd(20_000))
        answer = session.histogram(item="page", contributions=60, epsilon=1, delta=1e-6)
        kept = answer.found["kept_contributions"]
        assert 5 <= kept <= 12
        assert f"at most {kept} groups" in answer.measure
        told = f"he stated bound of 60 was lowered to {kept}, twice the number of groups that users have"
        assert f"T{told}, so that" in answer.left_out
        assert f"T{told}, so that" in answer.brief, "the sentences below the answer said nothing of it"
        assert f"t{told}" in answer.measure
        assert [asked.contributions for asked in bounds] == [kept]
        wide = session.preview(Query.histogram(item="page", contributions=60), TOTAL)
        counts = {item.label: item for item in answer.items}
        lower, upper = counts["home"].interval
        assert upper - lower < 0.6 * 2 * wide.error.radius
        assert answer.epsilon.upper <= 1.0

    def test_words_and_json_say_how_groups_were_found(self):
        _, session = recorded_session(crowd())
        answer = session.histogram(item="page", contributions=6, epsilon=3, delta=1e-6)
        found = [each["groups"] for each in json.loads(answer.stored())["found"]["rounds"]]
        assert len(found) in (1, 2, 3)
        words = f"found in {len(found)} rounds" if len(found) > 1 else "found in one round"
        assert words in answer.why
        assert f"{found[-1]} groups were" in answer.why
        assert "weighted_rounds" in answer.mechanism

    def test_the_size_of_hidden_groups_is_in_users_where_rows_are_counted(self):
        """The rounds find groups by the weights of users, and the plan states how many users that takes."""
        _, session = recorded_session(crowd())
        rows = session.ask(Query.histogram(item="page", contributions=6, per_item=3), TOTAL)
        assert rows.mechanism == "weighted_rounds"
        (number,) = re.findall(r"Groups with fewer than about ([\d,]+) users may be hidden\.", rows.hidden)
        assert f"about {number} users" in rows.why

    def test_what_is_spent_is_what_was_planned(self):
        _, session = recorded_session(crowd())
        planned = session.preview(PAGES, TOTAL)
        answer = session.ask(PAGES, TOTAL)
        assert set(answer.spent) == set(planned.uses)
        assert compose(answer.spent).epsilon(1e-6).upper <= 1.0

    def test_statistics_of_groups_that_rounds_find(self):
        engine, session = recorded_session(crowd())
        query = Query(statistics=(Count(), Mean(column="minutes", low=0, high=10)), item="page", contributions=6)
        answer = session.ask(query, Total(epsilon=4, delta=1e-6))
        values = {item.label: [estimate.value for estimate in item.estimates] for item in answer.items}
        assert values["home"][0] == pytest.approx(4000, abs=100)
        assert values["home"][1] == pytest.approx(5.0, abs=0.5)
        assert [event for event, _ in engine.events][-1] == "statistics"
        assert answer.found["rounds"]
        assert compose(answer.spent).epsilon(1e-6).upper <= 4.0
        assert "Each interval holds" in answer.interval_note

    def test_sql_over_private_groups(self):
        _, session = recorded_session(crowd())
        options = "WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 4, delta = 1e-6, max_groups_contributed = 6)"
        answer = session.sql(f"SELECT {options} page, COUNT(DISTINCT who) AS users FROM visits GROUP BY page")
        users = {row["page"]: row["users"] for row in answer.rows}
        assert answer.to_dict()["mechanism"].startswith("weighted_rounds")
        assert answer.to_dict()["found"]["rounds"]
        assert {"home", "help"} <= set(users)

    def test_a_table_without_groups_has_an_empty_answer(self):
        table = pa.table({"who": pa.array([], pa.int64()), "page": pa.array([], pa.string())})
        engine, session = recorded_session(table)
        answer = session.histogram(item="page", contributions=6, epsilon=1, delta=1e-6)
        assert answer.items == ()
        assert {event for event, _ in engine.events} == {"round"}
        assert compose(answer.spent).epsilon(1e-6).upper <= 1.0

    def test_contributions_that_are_found_first_take_rounds_too(self, monkeypatch):
        monkeypatch.setattr(contribution_bound, "_MISTAKEN", Fraction(1, 10**9))  # an empty bin may not stand out here
        _, session = recorded_session(crowd())
        answer = session.histogram(item="page", contributions="auto", epsilon=6, delta=1e-6)
        assert answer.found["contributions"] in (3, 4, 6, 8)
        assert ("rounds" in answer.found) == (answer.found["contributions"] >= FEWEST_CONTRIBUTIONS)


class TestOneOutcome:
    @pytest.fixture
    def account(self, tmp_path):
        with Ledger.open(str(tmp_path / "ledger.db")) as ledger:
            ledger.open_filter("ada", epsilon=9.0, delta=1e-5)
            yield ledger.account("ada")

    def test_a_replay_reads_nothing_and_is_identical(self, account):
        engine, session = recorded_session(crowd(), account=account)
        first = session.histogram(item="page", contributions=6, epsilon=1, delta=1e-6, key="k")
        reads = len(engine.events)
        again = session.histogram(item="page", contributions=6, epsilon=1, delta=1e-6, key="k")
        assert again.replayed
        assert (again.items, again.found, again.why) == (first.items, first.found, first.why)
        assert len(engine.events) == reads

    @pytest.mark.parametrize("broken", [1, 2, 3])
    def test_a_retry_does_not_draw_a_round_again(self, account, monkeypatch, broken):
        """Whichever read fails, a retry goes on with what earlier rounds of the same charge found."""
        _, session = recorded_session(crowd(), account=account)
        drawn = []
        run_round = WeightedRounds.run_round

        def counted(mechanism, before, exact, randomness):
            drawn.append(before)
            return run_round(mechanism, before, exact, randomness)

        monkeypatch.setattr(WeightedRounds, "run_round", counted)
        noted, reads = RecordedEngine._noted, []

        def failing(self, event, work):
            reads.append(event)
            if len(reads) == broken:
                raise EngineFailed("the disk is full")
            return noted(self, event, work)

        monkeypatch.setattr(RecordedEngine, "_noted", failing)
        with pytest.raises(EngineFailed):
            session.histogram(item="page", contributions=6, epsilon=4, delta=1e-6, key="k")
        drawn_before = len(drawn)
        assert drawn_before == broken - 1 or reads[broken - 1][0] == "histogram"
        answer = session.histogram(item="page", contributions=6, epsilon=4, delta=1e-6, key="k")
        assert len(drawn) == len(answer.found["rounds"])
        assert [len(before.found) for before in drawn] == list(range(len(drawn)))
        assert len(account.status().spent) > 0

    def test_rows_are_read_after_the_charge(self, account, monkeypatch):
        _, session = recorded_session(crowd(), account=account)
        charged = []
        read = RecordedEngine._noted

        def after_charge(self, event, work):
            charged.append(bool(account.status().spent))
            return read(self, event, work)

        monkeypatch.setattr(RecordedEngine, "_noted", after_charge)
        session.histogram(item="page", contributions=6, epsilon=1, delta=1e-6, key="k")
        assert charged
        assert all(charged)

    def test_a_defect_in_a_round_is_the_outcome(self, account, monkeypatch):
        _, session = recorded_session(crowd(), account=account)
        monkeypatch.setattr(WeightedRounds, "run_round", lambda *_: 1 / 0)
        for _ in range(2):
            with pytest.raises(AnswerWithheld):
                session.histogram(item="page", contributions=6, epsilon=1, delta=1e-6, key="k")


def test_the_benchmark_plans_each_method_anew(tmp_path, monkeypatch):
    """The plan of the first method was remembered, and the numbers of rounds were those of one pass."""
    path = Path(__file__).parents[2] / "benchmarks" / "discovery.py"
    spec = importlib.util.spec_from_file_location("discovery_benchmark", path)
    benchmark = importlib.util.module_from_spec(spec)
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec.loader.exec_module(benchmark)
    users = np.repeat(np.arange(3000), 6)
    table = pa.table({"user_id": users, "item": np.tile(np.arange(6), 3000)})
    pq.write_table(table, tmp_path / "table.parquet")
    names = []
    plan = remembered.planner.plan

    def recorded(bounds, total):
        names.append(plan(bounds, total).name)
        return plan(bounds, total)

    monkeypatch.setattr(remembered.planner, "plan", recorded)
    for method in ("one pass", "rounds"):
        benchmark.measured(tmp_path / "table.parquet", 6, 1.0, method, 1)
    assert names[-1] == "weighted_rounds"
    assert names[0] != "weighted_rounds"
