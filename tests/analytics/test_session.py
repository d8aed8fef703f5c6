"""A session charges before it reads, reads no more than it needs, and adds up what it promised."""

import json
import math

import duckdb
import pyarrow as pa
import pytest
from pyarrow import parquet

import setwise
from setwise.accounting.brackets import Interaction
from setwise.accounting.compose import compose
from setwise.accounting.zcdp_filter import ZcdpOdometer, filter_parameters
from setwise.analytics.budget import Draws
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.payer import OneOff
from setwise.analytics.query import Query
from setwise.analytics.session import Session, SessionState
from setwise.errors import (
    BadRequest,
    BudgetExhausted,
    EngineFailed,
    InvalidFilter,
    InvalidParameter,
    KeyConflict,
    UnknownColumn,
    UnsuitableTable,
)
from setwise.ledger.account import Receipt
from setwise.mechanisms.planning.request import Total
from tests.analytics.recorded import RecordedEngine, recorded_session, visits

TOTAL = Total(epsilon=1, delta=1e-6)


class RecordedBudget(OneOff):
    """The one-off budget with a notebook shared with the engine's."""

    def __init__(self, events, refuses=False):
        super().__init__()
        self.events = events
        self.refuses = refuses

    def charge(self, uses, total, *, key, request):
        self.events.append("charge")
        if self.refuses:
            raise BudgetExhausted("nothing is left")
        return super().charge(uses, total, key=key, request=request)

    def settle(self, receipt: Receipt, *, answer):
        self.events.append("settle")
        return super().settle(receipt, answer=answer)


def watched(**budget):
    """A session whose engine and budget write in one notebook."""
    events = []
    engine, session = recorded_session(events=events)
    session._state = SessionState(one_off=RecordedBudget(events, **budget))
    return engine, session, events


QUERIES = [
    Query.top_k(item="page", k=2),
    Query.top_k(item="page", k=2, contributions=2),
    Query.top_k(item="page", k=1, domain=("home", "help")),
    Query.histogram(item="page", contributions=1),
    Query.histogram(item="page", domain=("home", "help", "away")),
    Query.count(),
    Query.count(per_user=3),
    Query.sum(value="minutes", clip=20),
]


@pytest.mark.parametrize("query", QUERIES)
def test_the_charge_comes_before_the_data_and_the_answer_is_stored_before_it_is_shown(query):
    engine, session, events = watched()
    answer = session.ask(query, TOTAL)
    assert [event if isinstance(event, str) else "read" for event in events] == ["charge", "read", "settle"]
    assert len(engine.read) == 1
    assert answer.epsilon.upper <= 1.0
    if answer.delta:
        assert compose(session.spent).epsilon(answer.delta).upper == pytest.approx(answer.epsilon.upper)
    else:  # a pure promise, which the set keeps at every delta
        assert compose(session.spent).epsilon(1e-12).upper <= answer.epsilon.upper == pytest.approx(1.0)


@pytest.mark.parametrize("query", QUERIES)
def test_a_budget_that_refuses_leaves_the_data_untouched(query):
    engine, session, events = watched(refuses=True)
    with pytest.raises(BudgetExhausted):
        session.ask(query, TOTAL)
    assert set(events) == {"charge"}  # once for each kind of noise that an account might pay for
    assert engine.read == []


@pytest.mark.parametrize("query", QUERIES)
def test_an_engine_that_fails_leaves_the_charge(query):
    engine, session, events = watched()
    engine.failing = True
    with pytest.raises(EngineFailed):
        session.ask(query, TOTAL)
    assert events[0] == "charge"
    assert "settle" not in events
    assert session.spent == session.preview(query, TOTAL).uses


@pytest.mark.parametrize("query", QUERIES)
def test_a_preview_reads_and_charges_nothing(query):
    _, session, events = watched()
    planned = session.preview(query, TOTAL)
    assert events == []
    assert planned.epsilon.upper <= 1.0
    assert planned.why.startswith(planned.mechanism)
    assert planned.error.radius is not None


@pytest.mark.parametrize(
    ("query", "spending", "error"),
    [
        (Query.top_k(item="pages", k=2), TOTAL, UnknownColumn),
        (Query.top_k(item="share", k=2), TOTAL, UnsuitableTable),
        (Query.sum(value="page", clip=2), TOTAL, UnsuitableTable),
        (Query.top_k(item="page", k=2, where="page = 'a'; DROP TABLE visits"), TOTAL, InvalidFilter),
        (Query.top_k(item="page", k=2, where="page IN (SELECT page FROM visits)"), TOTAL, InvalidFilter),
        (Query.top_k(item="page", k=2, where="town = 'a'"), TOTAL, UnknownColumn),
        (Query.top_k(item="page", k=2), Total(epsilon=1, delta=0), InvalidParameter),
        (Query.histogram(item="page", contributions=1), Total(epsilon=1, delta=0), InvalidParameter),
        (Query.count(), Total(epsilon=1, delta=0, counts="gaussian"), InvalidParameter),
        (Query.count(), Total(epsilon=1, delta=1e-6, mechanism="unknown_gumbel"), InvalidParameter),
        (Query.top_k(item="minutes", k=1, domain=("five",)), TOTAL, InvalidParameter),
        (Query.top_k(item="page", k=2), Draws(discover="bounded-range:0.1"), InvalidParameter),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_charged(query, spending, error):
    _, session, events = watched()
    with pytest.raises(error) as raised:
        session.ask(query, spending)
    assert isinstance(raised.value, BadRequest)
    assert events == []
    assert session.spent == ()


def test_only_the_top_is_read_where_that_is_enough():
    engine, session, events = watched()
    session.top_k(item="page", k=2, limit=7, epsilon=1.0, delta=1e-6)
    assert ("top", 8) in events
    assert len(engine.read[0]) == 8
    session.top_k(item="page", k=2, epsilon=1.0, delta=1e-6, mechanism="unknown_gumbel")
    assert ("top", 1001) in events
    session.histogram(item="page", contributions=1, epsilon=1.0, delta=1e-6)
    assert events.count(("histogram", None)) == 1


def test_the_answers_are_right_up_to_noise():
    _, session = recorded_session()
    top = session.top_k(item="page", k=2, epsilon=5.0, delta=1e-6)
    assert top.labels == ("home", "help")
    assert top.complete
    assert top.reason == "k = 2 reached"
    assert abs(top.items[0].count - 2000) < 100
    more = session.top_k(item="page", k=5, epsilon=5.0, delta=1e-6)
    assert set(more.labels) == {"home", "help"}
    assert not more.complete
    assert more.reason == "only 2 items of the 5 asked for passed the threshold; rarer ones stay hidden"
    forced = {"mechanism": "unknown_laplace", "contributions": 2}  # it gives every item, so the list must be cut
    assert session.top_k(item="page", k=1, epsilon=5.0, delta=1e-6, **forced).labels == ("home",)
    (users,) = session.count(epsilon=5.0)
    assert abs(users.count - 2000) < 20
    (events,) = session.count(epsilon=5.0, per_user=2)
    # Everyone has two rows or more but those who only saw "home".
    assert abs(events.count - (2 * 2000 - 800)) < 40
    (minutes,) = session.sum(value="minutes", clip=10, epsilon=5.0)
    assert abs(minutes.count - (10 * 1200 + 5 * 800)) < 200
    for bound in (None, 1):
        labels = session.top_k(item="page", k=2, contributions=bound, counts="none", epsilon=5.0, delta=1e-6)
        assert [(each.count, each.interval) for each in labels] == [(None, None)] * 2
    only = session.count(epsilon=5.0, where="page = 'help'")
    assert abs(only.items[0].count - 1000) < 20


@pytest.mark.parametrize("users", [0, 1])
def test_tables_without_a_crowd_are_answered_like_any_other(users):
    """An error, or an answer of another shape, would tell that nobody is there."""
    _, session = recorded_session(visits(users) if users else visits(1).slice(0, 0))
    answer = session.top_k(item="page", k=2, epsilon=1.0, delta=1e-6)
    assert answer.items == ()
    assert answer.reason == "no item passed the threshold"
    assert not answer.complete
    assert len(session.count(epsilon=1.0)) == 1
    assert len(session.histogram(item="page", domain=["home", "help"], epsilon=1.0)) == 2


def test_users_that_are_all_null_are_answered_too():
    table = visits(50)
    nobody = table.set_column(0, "who", [[None] * len(table)]).cast(table.schema)
    _, session = recorded_session(nobody)
    assert session.top_k(item="page", k=2, epsilon=1.0, delta=1e-6).items == ()


def test_a_key_is_answered_once():
    engine, session, _ = watched()
    first = session.count(epsilon=1.0, key="a")
    assert session.count(epsilon=1.0, key="a") == first
    assert len(engine.read) == 1
    with pytest.raises(KeyConflict):
        session.count(epsilon=2.0, key="a")
    assert session.guarantee(1e-6).upper == pytest.approx(1.0)


def test_a_session_adds_up_what_was_asked():
    _, session = recorded_session()
    with pytest.raises(InvalidParameter, match="nothing"):
        session.guarantee(1e-5)
    for _ in range(3):
        session.top_k(item="page", k=2, epsilon=0.5, delta=1e-6)
    seen, fixed = session.guarantee(1e-5), session.guarantee(1e-5, "setwise")
    assert seen.interaction is Interaction.ADAPTIVE
    assert fixed.interaction is Interaction.SETWISE
    assert 0.5 < fixed.upper <= seen.upper <= 1.5 * (1 + 1e-12)
    assert fixed.upper == pytest.approx(compose(session.spent).epsilon(1e-5).upper)
    assert session.guarantee(2e-6).upper == math.inf  # the three questions alone may fail with more than that


def test_one_question_is_promised_at_its_own_delta():
    _, session = recorded_session()
    session.histogram(item="page", epsilon=1.0, delta=1e-6, contributions=2)
    assert session.guarantee(1e-6).upper == pytest.approx(1.0)
    assert session.guarantee(0.99e-6).upper == math.inf


def test_two_bounds_that_depend_on_the_answers_share_delta():
    """Either may be the lesser on some path, so the odometer and the sum cannot both have all of delta."""
    _, session = recorded_session()
    for _ in range(60):
        session.count(epsilon=0.05)
    spent = filter_parameters(session.spent)
    assert session.guarantee(1e-6).upper >= ZcdpOdometer(delta=0.5e-6, spent=spent).epsilon()
    for _ in range(2):
        session.top_k(item="page", k=2, epsilon=0.5, delta=1e-6)
    assert session.guarantee(2e-6).upper > 4.0  # 2e-6 for the sum would leave nothing for the odometer


def test_many_small_questions_are_cheaper_than_their_sum():
    _, session = recorded_session()
    for _ in range(60):
        session.count(epsilon=0.05)
    assert session.guarantee(1e-6, "setwise").upper < session.guarantee(1e-6).upper <= 3.0 * (1 + 1e-12)


def test_a_request_names_everything_that_matters():
    _, session = recorded_session()
    query = Query.top_k(item="page", k=2, domain=("home", "help"))
    texts = {
        session.request(query, TOTAL),
        session.request(Query.top_k(item="page", k=2, domain=("home", "away")), TOTAL),
        session.request(Query.top_k(item="page", k=1, domain=("home", "help")), TOTAL),
        session.request(query, Total(epsilon=2, delta=1e-6)),
        session.request(query, Draws(discover="bounded-range:0.1")),
    }
    assert len(texts) == 5
    assert "help" not in session.request(query, TOTAL)  # long domains are told apart by their digest


def test_questions_say_who_pays():
    _, session = recorded_session()
    for words in ({}, {"delta": 1e-6}, {"epsilon": 1.0, "delta": 1e-6, "discover": "bounded-range:0.1"}):
        with pytest.raises(InvalidParameter):
            session.top_k(item="page", k=2, **words)


def test_a_session_closes_its_engine():
    engine = RecordedEngine(open_engine(visits(10)))
    with Session(engine, user="who", name="visits", randomness=None) as session:
        assert "visits" in repr(session)
        assert session.schema.column("page")
    with pytest.raises(EngineFailed):
        engine.rows()


def test_a_prepared_dataset_is_checked_before_the_charge(tmp_path):
    source, ready = tmp_path / "visits.parquet", tmp_path / "ready"
    parquet.write_table(visits(), source)
    with setwise.open(source, user="who") as session:
        session.prepare(ready, item="page")
        assert session.spent == ()
    with setwise.open(ready, user="who") as session:
        answer = session.top_k(item="page", k=1, contributions=2, epsilon=5.0, delta=1e-6)
        assert answer.labels == ("home",)
        before = session.spent
        with pytest.raises(InvalidFilter, match="prepar"):
            session.top_k(item="page", k=1, where="page = 'home'", epsilon=5.0, delta=1e-6)
        with pytest.raises(BadRequest):
            session.count(epsilon=1.0)
        parquet.write_table(visits(10), source)
        with pytest.raises(UnsuitableTable, match="changed"):
            session.top_k(item="page", k=1, contributions=2, epsilon=5.0, delta=1e-6)
        assert session.spent == before


def test_missing_items_are_an_item_only_if_asked():
    table = visits(400)
    holes = table.set_column(
        1, "page", pa.array([None if n % 4 == 0 else n % 3 for n in range(len(table))], pa.int64())
    )
    _, session = recorded_session(holes)
    assert session.top_k(item="page", k=9, epsilon=9.0, delta=1e-6, contributions=3).labels.count(-1) == 0
    assert -1 in session.top_k(item="page", k=9, epsilon=9.0, delta=1e-6, contributions=3, null_item="-1").labels


@pytest.mark.parametrize(("source", "table"), [("shop.duckdb", "visits"), ("shop.duckdb::visits", None)])
def test_a_table_of_a_database_is_named_once_in_the_recorded_request(tmp_path, source, table):
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as database:
        database.execute("CREATE TABLE visits AS SELECT 1 AS who, 'home' AS page")
    with setwise.open(str(tmp_path / source), user="who", table=table) as session:
        recorded = json.loads(session.request(Query.count(), TOTAL))["table"]
    assert recorded == f"{tmp_path}/shop.duckdb::visits"
