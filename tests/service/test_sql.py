"""SQL over the API and from the client: the query and the rows of a local session, refused in the same words."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import setwise
from setwise.client.client import Client
from setwise.errors import InvalidFilter, InvalidParameter, UnknownColumn
from tests.service.team import Team, ask, asked, made

TOTAL = {"kind": "total", "epsilon": 0.2, "delta": 1e-9}
TOP = "SELECT word, COUNT(DISTINCT user_id) AS n FROM events GROUP BY word ORDER BY n DESC LIMIT 3"
MEAN = "SELECT AVG(minutes, contribution_bounds_per_group => (0, 60)) AS mean FROM events WHERE country = 'NO'"


def body(text: str, **more: object) -> dict[str, object]:
    given = {"dataset": "events", "account": "ada-total", "query": {"kind": "sql", "text": text}, "spend": TOTAL}
    return {name: value for name, value in (given | more).items() if value is not None}


@pytest.fixture(scope="module")
def client(team: Team) -> Iterator[Client]:
    with setwise.connect(team.replica.url, token=team.ada_token) as connected:
        yield connected


def test_sql_and_the_words_it_stands_for_are_one_request(team: Team):
    structured = body("") | {"query": {"kind": "top-k", "item": "word", "k": 3, "per_item": 1}}
    previews = [team.ada.post("/preview", json=each).json() for each in (body(TOP), structured)]
    assert previews[0] == previews[1]
    found = asked(team.ada, "sql-top", body(TOP))
    assert [each["name"] for each in found["columns"]] == ["word", "n"]
    assert found["rows"] == [
        {"word": each["item"], "n": {"value": each["count"], "interval": each["interval"]}}
        for each in found["answer"]["items"]
    ]
    charged = json.loads(team.ada.get("/accounts/ada-total/history").json()[-2]["text"])
    assert charged["query"] == {"kind": "top-k", "item": "word", "k": 3, "per_item": 1, "contributions": 5}
    again = asked(team.ada, "sql-top", body(TOP))
    assert again["rows"] == found["rows"]
    assert team.ada.get(f"/queries/{found['id']}").json()["rows"] == found["rows"]
    assert asked(team.ada, "words", structured)["rows"] is None


def test_the_clause_may_say_what_to_spend_but_nobody_says_it_twice(team: Team):
    clause = TOP.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 0.2, delta = 1e-9)")
    inside, beside = (team.ada.post("/preview", json=each) for each in (body(clause, spend=None), body(TOP)))
    assert inside.json() == beside.json()
    for wrong, field in ((body(clause), "spend"), (body(TOP, spend=None), "spend")):
        refused = team.ada.post("/preview", json=wrong)
        assert (refused.status_code, refused.json()["field"]) == (422, field), refused.text


@pytest.mark.parametrize(
    ("text", "field", "says"),
    [
        (TOP.replace("FROM events", "FROM elsewhere"), "query.text", "'events', not 'elsewhere'"),
        (TOP.replace("word", "country"), "query.item", "'word'"),
        (TOP.replace("GROUP", "WHERE minutes > 3 GROUP"), "query.where", "minutes"),
        (TOP.replace("GROUP", "WHERE minutes + 0 > 3 GROUP"), "query.text", "not with 'minutes'"),
        ("SELECT MAX(minutes) FROM events", "query.text", "write: SELECT PERCENTILE_CONT(minutes, 0.99) FROM events"),
        ("SELECT COUNT(*) FROM events UNION ALL SELECT COUNT(*) FROM events", "query.text", "one SELECT"),
        ("SELECT 1; DROP TABLE events", "query.text", "2 statements"),
        ("EXPLAIN " + TOP, "query.text", "EXPLAIN"),
        ("SELECT \x00", "query.text", "control characters"),
        ("x" * 10_001, "query.text", "10000"),
        (MEAN.replace("0, 60", "60, 0"), "query.text", "low must be below high"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_its_field(team: Team, text: str, field: str, says: str):
    before = team.ada.get("/accounts/ada-total").json()["charges"]
    refused = ask(team.ada, "refused", body(text))
    assert (refused.status_code, refused.json()["field"]) == (422, field), refused.text
    assert says in refused.json()["detail"]
    assert team.ada.get("/accounts/ada-total").json()["charges"] == before


def test_the_client_has_the_calls_and_rows_of_a_session(client: Client, data_dir: Path):
    remote = client.dataset("events", account="ada-total")
    plan = remote.explain("EXPLAIN " + TOP, epsilon=0.2, delta=1e-9)
    assert plan == remote.explain(TOP, epsilon=0.2, delta=1e-9)
    there = remote.sql(MEAN, epsilon=0.5, delta=1e-9, key="client-mean")
    with setwise.open(data_dir / "events.parquet", user="user_id") as local:
        here = local.sql(MEAN, epsilon=0.5, delta=1e-9)
    assert (there.columns, here.columns) == (("mean",), ("mean",))
    assert type(there) is type(here)
    assert 25 < there.rows[0]["mean"]["value"] < 35
    assert remote.sql(MEAN, epsilon=0.5, delta=1e-9, key="client-mean").rows == there.rows
    only = remote.sql(TOP.replace("LIMIT 3", "LIMIT 2"), domain=["w1", "w2"], contributions=2, epsilon=0.1)
    assert {row["word"] for row in only} == {"w1", "w2"}


def test_the_client_refuses_in_the_words_of_a_session(client: Client, data_dir: Path):
    remote = client.dataset("events", account="ada-total")
    with setwise.open(data_dir / "events.parquet", user="user_id") as local:
        for text in ("SELECT * FROM events", "SELECT MAX(minutes) FROM events", "EXPLAIN nonsense", "'"):
            told = []
            for table in (remote, local):
                with pytest.raises(InvalidParameter) as refused:
                    table.sql(text, epsilon=0.1, delta=1e-9)
                told.append(str(refused.value).removeprefix("query.text: "))
            assert told[0] == told[1]
    with pytest.raises(UnknownColumn):
        remote.sql(TOP.replace("word", "country"), epsilon=0.1, delta=1e-9)
    with pytest.raises(InvalidFilter):
        remote.sql(MEAN.replace("country", "minutes").replace("'NO'", "3"), epsilon=0.1, delta=1e-9)


def test_public_tables_that_a_steward_registers_are_joined(team: Team, data_dir: Path):
    (data_dir / "countries.csv").write_text("country,region,word\nNO,north,x\nSE,north,y\nFR,south,z\n")
    (data_dir / "users.csv").write_text("user_id,word\n1,a\n")
    dataset = {
        "name": "located",
        "table": "events.parquet",
        "user": "user_id",
        "items": ["word"],
        "values": ["minutes"],
        "filters": ["country"],
        "apart": "tests",
    }
    refused = team.steward.post("/datasets", json=dataset | {"public": {"users": "users.csv"}})
    assert (refused.status_code, refused.json()["field"]) == (422, "public")
    outside = team.steward.post("/datasets", json=dataset | {"public": {"users": "../users.csv"}})
    assert outside.status_code == 422
    made(team.steward.post("/datasets", json=dataset | {"public": {"countries": "countries.csv"}}))
    account = {"kind": "filter", "name": "ada-located", "analyst": "ada", "dataset": "located"}
    made(team.steward.post("/accounts", json=account | {"delta": 1e-6, "epsilon": 5.0}))
    text = (
        "SELECT c.region, COUNT(DISTINCT user_id) AS n FROM located JOIN countries c USING (country) GROUP BY c.region"
    )
    given = body(text, dataset="located", account="ada-located")
    given["query"] = {"kind": "sql", "text": text, "contributions": 1}
    found = asked(team.ada, "joined", given)
    assert [row["region"] for row in found["rows"]] == ["north"]
    assert team.ada.get("/datasets/located").json()["public"]["countries"][1] == {"name": "region", "kind": "text"}
    for wrong, field in (
        (text.replace("USING (country)", "ON c.region = located.minutes"), "query.text"),  # not to be filtered by
        (text.replace("countries c", "elsewhere c"), "query.text"),
        (text.replace("c.region", "country"), "query.item"),
        (text.replace("c.region", "word"), "query.text"),  # of both tables
        (text.replace("USING (country)", "ON c.country = located.user_id"), "query.text"),
    ):
        response = ask(team.ada, "wrong", given | {"query": {"kind": "sql", "text": wrong, "contributions": 1}})
        assert (response.status_code, response.json()["field"]) == (422, field), response.text


def test_an_accuracy_takes_the_place_of_epsilon(team: Team, client: Client):
    counted = {"kind": "count"}
    close = {"dataset": "events", "account": "ada-total", "query": counted, "spend": {"kind": "total", "delta": 0.0}}
    found = team.ada.post("/preview", json=close | {"spend": {"kind": "total", "delta": 0.0, "within": 50}}).json()
    assert found["radius"] <= 50
    assert found["alone"]["epsilon"] < 0.1
    answer = asked(team.ada, "close", close | {"spend": {"kind": "total", "delta": 0.0, "within": 50}})["answer"]
    assert answer["alone"][0] == found["alone"]["epsilon"]
    neither = team.ada.post("/preview", json=close)
    assert (neither.status_code, neither.json()["field"]) == (422, "spend")
    wide = {"kind": "total", "delta": 0.0, "within": 50, "epsilon": 0.01}
    refused = team.ada.post("/preview", json=close | {"spend": wide})
    assert (refused.status_code, refused.json()["field"]) == (422, "spend")
    assert "take epsilon" in refused.json()["detail"]
    remote = client.dataset("events", account="ada-total")
    assert remote.explain("SELECT COUNT(DISTINCT user_id) FROM events", within=50).error.radius <= 50
    clause = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (within = 50) COUNT(DISTINCT user_id) FROM events"
    assert remote.explain(clause).error.radius <= 50
    in_sql = {"query": {"kind": "sql", "text": clause}}
    assert team.ada.post("/preview", json=close | in_sql).json()["field"] == "spend"  # it is said twice


def test_computed_columns_and_free_parts_are_answered_with_rows(team: Team, client: Client):
    text = (
        "SELECT UPPER(word) AS w, COUNT(*) AS n, ROUND(AVG(minutes * 2), 1) AS m, COUNT(*) / 2 AS half FROM events "
        "WHERE LOWER(country) = 'no' GROUP BY w HAVING COUNT(*) > 0 ORDER BY n DESC"
    )
    total = {"kind": "total", "epsilon": 1.0, "delta": 1e-9}
    found = asked(team.ada, "computed", body(text, spend=total))
    assert [each["name"] for each in found["columns"]] == ["w", "n", "m", "half"]
    assert found["rows"]
    for row in found["rows"]:
        assert row["w"].isupper()
        assert row["n"]["interval"][0] <= row["n"]["value"] <= row["n"]["interval"][1]
        assert row["half"]["value"] == row["n"]["value"] / 2
    assert found["answer"]["found"]["contributions"] >= 1
    assert [row["n"]["value"] for row in found["rows"]] == sorted(
        (row["n"]["value"] for row in found["rows"]), reverse=True
    )
    remote = client.dataset("events", account="ada-total").sql(text, epsilon=1.0, delta=1e-9, key="computed")
    assert remote.rows == found["rows"]
    users = "SELECT AVG(n) AS mean FROM (SELECT user_id, COUNT(*) AS n FROM events GROUP BY user_id) AS per_user"
    assert asked(team.ada, "per-user", body(users, spend=total))["rows"][0]["mean"]["value"] > 0
