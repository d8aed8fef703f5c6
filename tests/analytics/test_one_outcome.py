"""One charge, one outcome: every plan after a search succeeds, and whatever else goes wrong is stored and replayed."""

import functools
import itertools
import logging
import math
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import setwise
from setwise.analytics import execute as execution
from setwise.analytics.engines.base import Engine
from setwise.analytics.planning import mechanism_choice
from setwise.analytics.planning import plan as planning
from setwise.analytics.planning.bounds_search import FoundBounds
from setwise.analytics.query import Count, Mean, Quantile, Query, Sum
from setwise.analytics.schema import Column, Kind, Schema
from setwise.analytics.statistics import STATISTICS as STATISTIC_CLASSES
from setwise.analytics.statistics import Distinct, StandardDeviation, Variance
from setwise.analytics.statistics.parameters import parameters_of
from setwise.errors import (
    AnswerWithheld,
    BadRequest,
    EngineFailed,
    InvalidParameter,
    UnknownColumn,
    UnsuitableTable,
)
from setwise.ledger.ledger import Ledger
from setwise.mechanisms.contribution_bound import MOST_ROWS, FoundContributions, LeftOutShare
from setwise.mechanisms.doubling_bounds import DOUBLINGS, DoublingBounds, ends
from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.noise.discrete import LaplaceNoise
from setwise.mechanisms.planning.request import Total
from setwise.mechanisms.randomness import SystemRandomness
from setwise.mechanisms.statistic_release import GroupTable
from setwise.mechanisms.statistics import GroupStatistics
from tests import sizes
from tests.analytics.recorded import recorded_session, visits


@functools.cache
def pairs_of_bounds():
    """Return every pair that `DoublingBounds.release` can return: the ends of two bins, or (0, 1)."""
    bins = range(1 - DOUBLINGS, DOUBLINGS)  # the last bins of both signs have no outer end
    pairs = {(ends(first)[0], ends(last)[1]) for first, last in itertools.combinations_with_replacement(bins, 2)}
    return sorted({pair for pair in pairs if pair[0] < pair[1]} | {(Fraction(0), Fraction(1))})


def test_these_are_all_pairs_that_a_search_can_find(monkeypatch):
    monkeypatch.setattr(LaplaceNoise, "draw", lambda _, number, __: np.zeros(number, np.int64))
    search = DoublingBounds(scale=Fraction(10))
    found = set()
    for first, last in itertools.combinations_with_replacement(range(2 * DOUBLINGS + 1), 2):
        counts = np.zeros(2 * DOUBLINGS + 1, np.int64)
        counts[[first, last]] = 10**6
        drawn = search.release(counts, SystemRandomness())
        found.add((drawn.low, drawn.high))
    assert found == set(pairs_of_bounds())


SCHEMA = Schema(
    (
        Column(name="who", kind=Kind.INTEGER),
        Column(name="page", kind=Kind.TEXT),
        Column(name="whole", kind=Kind.INTEGER),
        Column(name="float", kind=Kind.FLOAT),
        Column(name="decimal", kind=Kind.DECIMAL, precision=38, scale=10),
    )
)
STATISTICS = [
    pytest.param(make, column, id=f"{name}-{column}")
    for name, make in {
        "sum": lambda column: (Sum(column=column, bounds="auto"),),
        "mean": lambda column: (Mean(column=column, bounds="auto"),),
        "mean-of-rows": lambda column: (Mean(column=column, bounds="auto", per_user=100),),
        "variance": lambda column: (Variance(column=column, bounds="auto"),),
        "stddev": lambda column: (StandardDeviation(column=column, bounds="auto", per_user=100),),
        "stddev-in-bounds": lambda column: (StandardDeviation(column=column, low=-3, high=4),),
        "quantile": lambda column: (Quantile(column=column, bounds="auto", at=0.9),),
        "several": lambda column: (
            Count(),
            Sum(column=column, bounds="auto"),
            Mean(column=column, bounds="auto"),
            Quantile(column=column, bounds="auto"),
        ),
    }.items()
    for column in ("whole", "float", "decimal")
] + [
    pytest.param(lambda _: (Count(bounds="auto"),), "", id="rows"),
    pytest.param(lambda column: (Count(column=column, bounds="auto"),), "whole", id="values"),
    pytest.param(lambda column: (Distinct(column=column),), "whole", id="distinct"),
]


def test_every_statistic_whose_bounds_can_be_found_is_tried():
    tried = {type(statistic) for case in STATISTICS for statistic in case.values[0]("whole") if statistic.is_auto}
    can_be_found = {kind for kind in STATISTIC_CLASSES.values() if kind.over_rows or "bounds" in parameters_of(kind)}
    assert tried == can_be_found


@pytest.fixture
def quick_prices(monkeypatch):
    """Plan each set of releases once: the price of a plan does not depend on the bounds beyond its releases."""
    plans, prices = {}, {}
    plan_statistics, certified_price = mechanism_choice.plan_statistics, planning.certified_price

    def planned(bounds, total, releases, *, certified):
        key = (bounds, total, tuple(releases), certified)
        if key not in plans:
            plans[key] = plan_statistics(bounds, total, releases, certified=certified)
        return plans[key]

    def priced(uses, delta, interaction):
        key = (uses, delta, interaction)
        if key not in prices:
            prices[key] = certified_price(uses, delta, interaction)
        return prices[key]

    monkeypatch.setattr(mechanism_choice, "plan_statistics", planned)
    monkeypatch.setattr(planning, "certified_price", priced)


class NobodyThere:
    """A reader of a table without rows."""

    def histogram(self, aggregation):
        return Histogram.of([], np.zeros(0, np.int64))

    def statistics(self, aggregation):
        nothing = tuple({} for _ in aggregation.measures)
        return GroupTable(Histogram.of([], np.zeros(0, np.int64)), nothing, nothing, nothing)


def searched(statistics, total, **words):
    planned = planning.plan_query(Query(statistics=statistics, **words), total, "who", SCHEMA, None)
    assert planned.search is not None
    return planned.search


def plan_pair(search, pair, contributions=None):
    low, high = pair
    measures = len(search.search.measures)
    share = LeftOutShare(share=0.0, lower=0.0, upper=1.0, of_first=MOST_ROWS)
    most = min(max(2, math.ceil(high)), MOST_ROWS)
    rows = (FoundContributions(bound=most, left_out=share),) * len(search.search.row_measures)
    found = FoundBounds(bounds=((low, high),) * measures, contributions=contributions, rows=rows)
    return search.plan_bounded(found)


@pytest.mark.parametrize(("place", "make", "column"), [(place, *case.values) for place, case in enumerate(STATISTICS)])
def test_every_pair_of_bounds_can_be_planned(place, make, column, quick_prices):
    """The small run tries every 47th pair, from another one on for each statistic, and pairs with an extreme end.

    Together its 27 statistics try half of all pairs.
    """
    del quick_prices
    pairs = pairs_of_bounds()
    ends_of_range = {pair for pair in pairs if {abs(end) for end in pair} & {pairs[-1][1], ends(1)[0], ends(1)[1]}}
    tried = pairs if sizes.FULL else sorted({*pairs[2 * place :: 47], *sorted(ends_of_range)[place % 11 :: 11]})
    for epsilon in (Fraction(1, 10), Fraction(100)):
        search = searched(make(column), Total(epsilon=epsilon, delta=0))
        for number, pair in enumerate(tried):
            planned = plan_pair(search, pair)
            if number % 25 == 0:  # the words and units of an answer with these bounds
                assert execution._release_answer(planned, NobodyThere(), SystemRandomness()).stored()


DOMAINS = {"found": None, "public": ("home", "help")}
WITH_DOMAINS = [
    pytest.param(*case.values, domain, id=f"{name}-{case.id}")
    for shift, (name, domain) in enumerate(DOMAINS.items())
    for place, case in enumerate(STATISTICS)
    if sizes.FULL or (place + place // 3 + shift) % 3 == 0 or place >= 24
]
"""The small run tries every statistic with groups that are found and with public ones, on one kind of column each."""


@pytest.mark.parametrize(("make", "column", "domain"), WITH_DOMAINS)
def test_every_contribution_bound_can_be_planned(make, column, domain, quick_prices):
    """With the widest and narrowest bounds, of one sign and of both, within a small budget and a large one."""
    del quick_prices
    pairs = pairs_of_bounds()
    widest = [pairs[0], pairs[-1], min(pairs, key=lambda pair: pair[1] - pair[0]), (Fraction(-1024), Fraction(1024))]
    for epsilon in (Fraction(1, 10), Fraction(10)):
        total = Total(epsilon=epsilon, delta=Fraction("1e-6"))
        for k in sizes.some((2, None), 2):
            search = searched(make(column), total, item="page", contributions="auto", domain=domain, k=k)
            for contributions in sizes.some(search.search.groups.bounds, 4):
                for pair in sizes.some(widest, 3):
                    plan_pair(search, pair, contributions)


def test_a_budget_too_small_for_some_bounds_is_refused_before_the_charge():
    """At the least epsilon that is planned at all, every pair of bounds has noise that can be drawn."""
    pairs = pairs_of_bounds()
    refused, planned = 0, 0
    for exponent in range(-6, 1):
        total = Total(epsilon=Fraction(10) ** exponent, delta=0)
        try:
            search = searched((Sum(column="whole", bounds="auto"),), total)
        except BadRequest:
            refused += 1
            continue
        planned += 1
        for pair in (pairs[0], pairs[-1], *pairs[::997]):
            plan_pair(search, pair)
    assert refused
    assert planned


@pytest.mark.parametrize(
    ("low", "high", "step"),
    [
        (Fraction(0), Fraction(2**10), 1),
        (Fraction(-(2**16)), Fraction(8), 1),
        (Fraction(0), Fraction(2**17), 2),
        (Fraction(0), Fraction(2**40), 2**24),
        (Fraction(0), Fraction(1, 4), Fraction(1, 4096)),
    ],
)
def test_the_step_of_a_sum_of_integers_follows_its_bound(low, high, step):
    search = searched((Sum(column="whole", bounds="auto"),), Total(epsilon=1, delta=0))
    (statistic,) = plan_pair(search, (low, high)).query.statistics
    assert statistic.step == step


def hostile(value=2**33):
    """A table whose values make the search find a bound of 2^30 or more, or a fraction for a column of integers."""
    users = 500
    return pa.table(
        {
            "who": np.arange(users),
            "large": pa.array([value] * users, pa.int64()),
            "zero": pa.array([0] * users, pa.int64()),
        }
    )


def outcome_of(ask):
    """Return what a caller can see of a question: its whole answer, or the error."""
    try:
        return ask().to_json()
    except setwise.SetwiseError as error:
        return f"{type(error).__name__}: {error}"


ATTACKS = [
    lambda session, key: session.sum(value="large", bounds="auto", epsilon=0.5, key=key),
    lambda session, key: session.sum(value="zero", bounds="auto", epsilon=0.01, key=key),
    lambda session, key: session.sql(
        "SELECT SUM(large, contribution_bounds_per_group => AUTO) FROM visits", epsilon=0.5, key=key
    ),
]


@pytest.mark.parametrize(("attack", "attempts"), list(zip(ATTACKS, (sizes.ATTEMPTS, 60, 60), strict=True)))
def test_hundreds_of_attempts_under_one_key_are_one_outcome(attack, attempts, tmp_path):
    with Ledger.open(str(tmp_path / "ledger.db")) as ledger:
        ledger.open_filter("ada", epsilon=10.0, delta=1e-6, dataset="visits")
        account = ledger.account("ada")
        for paid in ({"name": "visits"}, {"dataset": "visits", "account": account}):
            with setwise.open(hostile(), user="who", **paid) as session:
                seen = {outcome_of(lambda: attack(session, "one")) for _ in range(attempts)}
                assert len(seen) == 1
                assert '"items"' in seen.copy().pop() or '"columns"' in seen.pop()
        assert account.status().charges == 1


SECRET = "the largest value is 8589934592"


@pytest.fixture(params=["second plan", "conversion", "storing"])
def defect(request, monkeypatch):
    """Make a question fail, after its rows were read, with an error that quotes what was read; count the draws."""
    draws = []
    release = DoublingBounds.release
    monkeypatch.setattr(DoublingBounds, "release", lambda *given: draws.append(1) or release(*given))

    def fail(*_, **__):
        raise InvalidParameter(SECRET)

    match request.param:
        case "second plan":
            monkeypatch.setattr(planning.BoundsSearch, "plan_bounded", fail)
        case "conversion":
            monkeypatch.setattr(Sum, "in_units", fail)
        case "storing":
            monkeypatch.setattr(execution.PrivateAnswer, "stored", fail)
    return draws


def test_a_defect_after_the_first_read_is_the_stored_outcome(defect, tmp_path, caplog):
    with Ledger.open(str(tmp_path / "ledger.db")) as ledger:
        ledger.open_filter("ada", epsilon=10.0, delta=1e-6, dataset="visits")
        for paid in ({"name": "visits"}, {"dataset": "visits", "account": ledger.account("ada")}):
            defect.clear()
            with setwise.open(hostile(), user="who", **paid) as session, caplog.at_level(logging.DEBUG):
                seen = set()
                for _ in range(20):
                    with pytest.raises(AnswerWithheld) as raised:
                        session.sum(value="large", bounds="auto", epsilon=1, key="one")
                    seen.add(str(raised.value))
                    assert raised.value.__cause__ is raised.value.__context__ is None
            assert seen == {execution.WITHHELD_REASON}
            assert len(defect) == 1
        assert [entry.contents.kind for entry in ledger.history("ada")] == ["charge", "settle"]
    assert SECRET not in caplog.text
    assert "InvalidParameter" in caplog.text


def test_an_outcome_that_the_ledger_cannot_store_is_a_stored_refusal(monkeypatch):
    """An answer whose text a store refuses must not be drawn again."""
    _, session = recorded_session()
    texts = []
    stored = session._state.one_off.settle

    def particular(receipt, *, answer):
        texts.append(answer)
        if "items" in answer:
            raise InvalidParameter("answer must be text that UTF-8 can write")
        return stored(receipt, answer=answer)

    monkeypatch.setattr(
        type(session._state.one_off), "settle", lambda _, receipt, *, answer: particular(receipt, answer=answer)
    )
    for _ in range(3):
        with pytest.raises(AnswerWithheld):
            session.count(epsilon=1, key="one")
    assert len(texts) == 2


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, EngineFailed])
def test_an_engine_that_fails_after_the_search_does_not_make_it_draw_again(interruption, monkeypatch):
    """Otherwise an analyst could watch, at no charge, how failures depend on fresh draws of the bounds."""
    engine, session = recorded_session()
    draws, reads = [], []
    release = DoublingBounds.release
    monkeypatch.setattr(DoublingBounds, "release", lambda *given: draws.append(1) or release(*given))
    read = type(engine).statistics

    def failing(self, aggregation):
        reads.append(aggregation.pooled)
        if not aggregation.pooled and len(reads) < 12:
            raise interruption("the disk is full")
        return read(self, aggregation)

    monkeypatch.setattr(type(engine), "statistics", failing)
    for _ in range(10):
        with pytest.raises(interruption):
            session.mean(value="minutes", bounds="auto", epsilon=1, key="one")
    answer = session.mean(value="minutes", bounds="auto", epsilon=1, key="one")
    assert len(draws) == 1
    assert reads == [True] + [False] * 11
    assert session.mean(value="minutes", bounds="auto", epsilon=1, key="one") == answer
    assert not session._state.searches._drawn  # an outcome is stored, so that the draw is not kept
    session.mean(value="minutes", bounds="auto", epsilon=1, key="two")
    assert len(draws) == 2


@pytest.mark.parametrize("error", [EngineFailed, UnsuitableTable, UnknownColumn])
def test_what_the_engine_says_is_raised_and_leaves_no_outcome(error, monkeypatch):
    """A table may change after it was checked: the engine's words are about its definition alone."""
    engine, session = recorded_session()
    with monkeypatch.context() as broken:
        broken.setattr(type(engine), "histogram", lambda *_: (_ for _ in ()).throw(error("the column is gone")))
        for _ in range(2):
            with pytest.raises(error, match="the column is gone"):
                session.count(epsilon=1, key="one")
    assert session.count(epsilon=1, key="one").value == session.count(epsilon=1, key="one").value


@pytest.mark.parametrize("error", [InvalidParameter, KeyError, OverflowError, MemoryError])
def test_what_else_a_reader_raises_is_withheld(error, monkeypatch):
    """Such as a value that does not fit: it says something about the rows."""
    engine, session = recorded_session()
    with monkeypatch.context() as broken:
        broken.setattr(type(engine), "histogram", lambda *_: (_ for _ in ()).throw(error("8589934592")))
        with pytest.raises(AnswerWithheld):
            session.count(epsilon=1, key="one")
    with pytest.raises(AnswerWithheld, match="the same key returns this outcome"):
        session.count(epsilon=1, key="one")


def test_an_engine_that_fails_in_a_later_part_does_not_make_earlier_parts_draw_again(monkeypatch):
    """What the later part reads depends on the number that the earlier one released."""
    sql = (
        "SELECT COUNT(DISTINCT who) AS n FROM visits WHERE minutes >= "
        "(SELECT AVG(minutes, contribution_bounds_per_group => (0, 10)) FROM visits)"
    )
    words = {"epsilon": 1, "delta": 1e-6, "key": "one"}
    draws = []
    release = GroupStatistics.release
    monkeypatch.setattr(GroupStatistics, "release", lambda *given: draws.append(1) or release(*given))

    def failing(*_):
        raise EngineFailed("the disk is full")

    with setwise.open(visits(), user="who", name="visits") as session:
        with monkeypatch.context() as broken:
            broken.setattr(Engine, "histogram", failing)
            for _ in range(5):
                with pytest.raises(EngineFailed):
                    session.sql(sql, **words)
        assert len(draws) == 1
        assert session.sql(sql, **words).rows == session.sql(sql, **words).rows
        assert len(draws) == 1
        assert not session._state.searches._drawn
