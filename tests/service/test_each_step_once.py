"""A question is parsed, checked and serialised once, from its request to its answer, its polls and its listings."""

import pickle
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import Engine, event

from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.engines import aggregation
from setwise.analytics.filter import parser as filter_parser
from setwise.analytics.query import Query
from setwise.mechanisms.release import Release
from setwise.service.api.schemas import QuestionBody
from setwise.service.queries import parsed_statements
from setwise.service.workers import pool
from tests.service.team import Team, asked

FILTERED = {
    "dataset": "events",
    "account": "ada-total",
    "query": {"kind": "top-k", "item": "word", "k": 3, "where": "country = 'NO'"},
    "spend": {"kind": "total", "epsilon": 0.2, "delta": 1e-9},
}
SQL = FILTERED | {
    "query": {
        "kind": "sql",
        "text": "SELECT word, COUNT(DISTINCT user_id) AS n FROM events WHERE country = 'SE' GROUP BY word "
        "ORDER BY n DESC LIMIT 4",  # not 3, so that the plan of the question above does not serve here
        "contributions": 5,
    }
}


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each step ran; plans are made in this process instead of a worker, so that their steps count too."""
    found: Counter[str] = Counter()

    def count(owner: Any, name: str, step: str) -> None:
        original: Callable[..., Any] = getattr(owner, name)

        def counted(*given: Any, **words: Any) -> Any:
            found[step] += 1
            return original(*given, **words)

        monkeypatch.setattr(owner, name, counted)

    count(QuestionBody, "model_validate_json", "bodies validated")
    count(Query, "from_dict", "queries built")
    count(parsed_statements, "parse_sql", "SELECTs parsed")
    count(filter_parser, "tokens", "filters parsed")
    count(aggregation, "check_user", "suitability checks")
    count(Release, "intervals", "intervals computed")
    count(PrivateAnswer, "stored", "answers written")
    count(PrivateAnswer, "from_stored", "answers read")

    def compute(_: pool.WorkerPool, task: Any, *__: object) -> Any:
        result = pickle.loads(pickle.dumps(task)).result()
        return pool._Reply(pickle.loads(pickle.dumps(result)), 0)

    monkeypatch.setattr(pool.WorkerPool, "_compute", compute)
    return found


def test_a_query_takes_each_step_once(team: Team, counts: Counter[str]):
    found = asked(team.ada, "once", FILTERED)
    for _ in range(3):
        assert team.ada.get(f"/queries/{found['id']}").json() == found
        assert found in team.ada.get("/queries").json()
    assert counts == {
        "bodies validated": 1,
        "queries built": 1,
        "filters parsed": 1,
        "suitability checks": 1,
        "intervals computed": 1,
        "answers written": 1,
    }


def test_sql_takes_each_step_once_however_often_it_is_shown(team: Team, counts: Counter[str]):
    found = asked(team.ada, "once-sql", SQL)
    for _ in range(3):
        assert team.ada.get(f"/queries/{found['id']}").json() == found
        assert found in team.ada.get("/queries").json()
    assert team.signed_in("ada").get(f"/answers/{found['id']}").status_code == 200
    assert counts == {
        "bodies validated": 1,
        "SELECTs parsed": 1,
        "filters parsed": 2,  # the condition, to see whether the filter language states it, and the whole filter
        "suitability checks": 1,
        "intervals computed": 1,
        "answers written": 1,
        "answers read": 2,  # for its rows, and for the page
    }


def test_the_row_of_a_new_question_is_looked_up_once(team: Team):
    reads: list[str] = []
    database = team.replica.service.database

    def count(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        if statement.startswith("SELECT") and "service_jobs.account = " in statement:  # by account and key
            reads.append(statement)

    engines: tuple[Engine, ...] = (database.engine, database.relaxed)
    for engine in engines:
        event.listen(engine, "before_cursor_execute", count)
    try:
        asked(team.ada, "looked-up-once", FILTERED)
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", count)
    assert len(reads) == 1
