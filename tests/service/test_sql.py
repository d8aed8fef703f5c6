"""SQL over the API and from the client: the query and the rows of a local session, refused in the same words."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import setwise
from setwise.analytics.catalog import parse_catalog
from setwise.analytics.sql.statement import Statement
from setwise.client.client import Client
from setwise.errors import InvalidFilter, InvalidParameter, NameTaken, UnknownColumn, UnsuitableTable
from setwise.mechanisms.labels import NULL_TEXT
from setwise.service.api.catalog import _catalog_record
from setwise.service.storage.datasets import Dataset
from tests.service.team import EVENTS, Team, ask, asked, made

TOTAL = {"kind": "total", "epsilon": 0.2, "delta": 1e-9}
TOP = "SELECT word, COUNT(DISTINCT user_id) AS n FROM events GROUP BY word ORDER BY n DESC LIMIT 3"
UNION = "SELECT COUNT(*) AS n FROM events UNION ALL SELECT COUNT(*) FROM events WHERE country = 'NO'"
PUBLIC_LENGTH = "SELECT MAX(LENGTH(word)) FROM words"
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
    words = {"kind": "top-k", "item": "word", "k": 3, "per_item": 1, "contributions": 5}
    assert charged["query"] == words | {"null_item": NULL_TEXT}  # rows without a word are a group in SQL
    again = asked(team.ada, "sql-top", body(TOP))
    assert again["rows"] == found["rows"]
    assert team.ada.get(f"/queries/{found['id']}").json()["rows"] == found["rows"]
    assert asked(team.ada, "words", structured)["rows"] is None


ROWS = "SELECT word, COUNT(*) AS n FROM events GROUP BY word"


def register_with(team: Team, name: str, **bounds: int | None) -> dict[str, object]:
    """Register the events as the dataset `name` with other bounds, and return a question about it for `asked`."""
    made(team.steward.post("/datasets", json=EVENTS.body | {"name": name, "apart": "a test"} | bounds))
    account = {"kind": "filter", "name": f"ada-{name}", "analyst": "ada", "dataset": name, "delta": 1e-6}
    made(team.steward.post("/accounts", json=account | {"epsilon": 12.0}))
    spend = {"kind": "total", "epsilon": 2.0, "delta": 1e-8}
    return body(ROWS.replace("FROM events", f"FROM {name}"), dataset=name, account=f"ada-{name}", spend=spend)


def test_a_count_of_rows_on_a_dataset_with_one_row_of_a_user_says_that_it_counts_users(team: Team, client: Client):
    found = asked(team.ada, "sql-rows", register_with(team, "single", per_item=1))
    assert any("count each user_id at most once in a group" in note for note in found["row_notes"]), found
    text = ROWS.replace("FROM events", "FROM single")
    again = client.dataset("single", account="ada-single").sql(text, key="sql-rows", epsilon=2.0, delta=1e-8)
    assert again.rows == found["rows"]
    for note in found["row_notes"]:
        assert note in str(again)


def test_a_dataset_that_declares_no_rows_of_a_user_counts_rows(team: Team, data_dir: Path):
    assert team.ada.get("/datasets/events").json()["per_item"] is None
    exact = Counter(pq.read_table(data_dir / "events.parquet").column("word").to_pylist())
    found = asked(team.ada, "undeclared", register_with(team, "undeclared", contributions=30))
    assert not any("at most once" in note for note in found.get("row_notes") or ())
    (most,) = (row for row in found["rows"] if row["word"] == "w1")
    assert abs(most["n"]["value"] - exact["w1"]) < 0.2 * exact["w1"]  # 20,000 rows of 3,000 users
    assert most["n"]["value"] > 2 * 3_000
    ranked = {"query": {"kind": "top-k", "item": "word", "k": 1}, "dataset": "undeclared", "account": "ada-undeclared"}
    first = asked(team.ada, "undeclared-users", body("") | ranked)["answer"]
    assert first["items"][0]["count"] <= 3_500  # a ranking that names no bound counts users, as ever
    assert first["measure"].startswith("users")


def test_declared_rows_of_a_user_are_the_default_and_the_most(team: Team):
    question = register_with(team, "threefold", per_item=3)
    found = asked(team.ada, "threefold", question)
    assert "at most 3 of a user" in found["answer"]["measure"]
    assert not (found["answer"].get("found") or {}).get("rows")
    text = question["query"]["text"].replace("COUNT(*)", "COUNT(*, contribution_bounds_per_group => (0, 4))")
    refused = ask(team.ada, "fourfold", question | {"query": {"kind": "sql", "text": text}})
    assert (refused.status_code, refused.json()["field"]) == (422, "query.per_item"), refused.text
    with setwise.connect(team.url, token=team.tokens["steward"]) as connected:
        exported = parse_catalog(connected.steward.export_catalog()["text"]).tables
    assert exported["threefold"].declared.rows_per_user == 3
    assert exported["events"].declared.rows_per_user is None


def test_a_dataset_that_an_earlier_version_stored_keeps_its_one_row_of_a_user(team: Team):
    """Earlier versions stored a `per_item` of 1 whether it was declared or left out: it still bounds every question."""
    stored = json.loads(Dataset(name="old", engine="duckdb", table="t", user="u", items=("i",), per_item=1).text())
    assert Dataset.read(json.dumps(stored)).per_item == 1
    declares_nothing = '[tables.imported]\nsource = "events.parquet"\nuser = "user_id"\n'
    with setwise.connect(team.url, token=team.tokens["steward"]) as connected:
        columns = ["word", "country", "minutes"]
        connected.steward.register_dataset(
            "imported", table="events.parquet", user="user_id", items=columns, values=["minutes"], filters=columns,
            per_item=1, apart="a test",
        )  # fmt: skip
        assert "imported" in connected.steward.import_catalog(declares_nothing)["datasets"]  # skipped, not refused
    assert team.ada.get("/datasets/imported").json()["per_item"] == 1


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
        (f"SELECT COUNT(*) FROM events WHERE minutes + 0 > 3 UNION ALL {UNION}", "query.text", "not with 'minutes'"),
        (f"{UNION} UNION ALL SELECT COUNT(*) FROM events WHERE minutes > 3", "query.where", "minutes"),
        (f"{UNION} UNION ALL SELECT COUNT(*) FROM events GROUP BY country", "query.item", "'word'"),
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


@pytest.mark.parametrize(
    "text",
    [
        "SELECT COUNT(DISTINCT user_id) AS n FROM events WHERE user_id % 10 = 7",
        "SELECT COUNT(DISTINCT user_id) AS n FROM events WHERE user_id + 0 = 7",
        "SELECT user_id % 3 AS m, COUNT(DISTINCT user_id) AS n FROM events GROUP BY m",
        "SELECT COUNT(*) AS n FROM (SELECT user_id, MAX(user_id) AS m FROM events GROUP BY user_id) AS o WHERE m = 7",
    ],
)
def test_sql_does_not_compute_with_the_user_column(client: Client, text):
    """A filter on the user column is refused, so that an expression in place of the column must be refused, too."""
    remote = client.dataset("events", account="ada-total")
    with pytest.raises(UnknownColumn, match="not with 'user_id'"):
        remote.sql(text, epsilon=0.1, delta=1e-9, contributions=1)


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


def test_several_selects_are_charged_once_and_public_tables_are_joined_to_their_rows(
    team: Team, client: Client, data_dir: Path
):
    (data_dir / "words.csv").write_text("word,meaning\nw1,one\nw2,two\n")
    dataset = {"name": "worded", "table": "events.parquet", "user": "user_id", "items": ["word", "country"]}
    more = {"values": ["minutes"], "filters": ["country"], "apart": "tests", "public": {"words": "words.csv"}}
    made(team.steward.post("/datasets", json=dataset | more))
    account = {"kind": "filter", "name": "ada-worded", "analyst": "ada", "dataset": "worded"}
    made(team.steward.post("/accounts", json=account | {"delta": 1e-5, "epsilon": 50.0}))
    text = (
        "WITH a AS (SELECT word, COUNT(DISTINCT user_id) AS n FROM worded GROUP BY word), "
        "t AS (SELECT COUNT(DISTINCT user_id) AS all_users FROM worded) "
        "SELECT m.meaning, a.n, ROUND(a.n / t.all_users, 2) AS share FROM a JOIN words m ON m.word = a.word, t "
        "ORDER BY n DESC"
    )
    given = body(text, dataset="worded", account="ada-worded", spend={"kind": "total", "epsilon": 4.0})
    preview = team.ada.post("/preview", json=given).json()
    assert preview.get("alone", {}).get("delta") == 2e-7, preview  # the default that fits the account, shown
    assert preview["alone"]["epsilon"] <= 4.0
    found = asked(team.ada, "several", given)
    assert [row["meaning"] for row in found["rows"]] == ["one", "two"]
    for row in found["rows"]:
        low, high = row["share"]["interval"]
        assert 0 < low <= row["share"]["value"] <= high <= 1.1
        assert row["n"]["interval"][0] <= row["n"]["value"] <= row["n"]["interval"][1]
    assert found["answer"]["alone"] == [preview["alone"]["epsilon"], preview["alone"]["delta"]]
    history = team.ada.get("/accounts/ada-worded/history").json()
    assert [entry["kind"] for entry in history].count("charge") == 1
    assert asked(team.ada, "several", given)["rows"] == found["rows"]
    browser = team.signed_in("ada")
    assert "one" in browser.get(f"/answers/{found['id']}").text
    assert "meaning" in browser.get(f"/answers/{found['id']}/answer.csv").text
    remote = client.dataset("worded", account="ada-worded")
    again = remote.sql(text, epsilon=4.0, key="from-the-client")
    assert [row["meaning"] for row in again.rows] == ["one", "two"]
    assert again.answer.alone[1] == 2e-7
    scalar = "SELECT COUNT(DISTINCT user_id) AS n FROM worded WHERE 0 * (SELECT COUNT(*) FROM worded) = 0"
    (row,) = remote.sql(scalar, epsilon=4.0).rows
    assert 2000 < row["n"]["value"] < 4000
    longest = f"SELECT COUNT(DISTINCT user_id) AS n FROM worded WHERE LENGTH(word) > ({PUBLIC_LENGTH})"
    (row,) = remote.sql(longest, epsilon=4.0, key="by-length").rows
    (shortest,) = remote.sql(longest.replace("MAX", "MIN").replace(">", ">="), epsilon=4.0).rows
    assert row["n"]["value"] + 500 < shortest["n"]["value"]
    mixed = f"{longest} AND 0 * (SELECT COUNT(*) + ({PUBLIC_LENGTH}) FROM worded) = 0"
    assert remote.sql(mixed, epsilon=4.0).rows[0]["n"]["value"] == pytest.approx(row["n"]["value"], abs=50)
    (data_dir / "words.csv").write_text("word,meaning\nw1,one\nw2000,two\n")
    assert remote.sql(longest, epsilon=4.0).rows[0]["n"]["value"] < row["n"]["value"] - 500
    assert remote.sql(longest, epsilon=4.0, key="by-length").rows == [row]
    close = {"kind": "total", "within": 200, "epsilon": 4.0}
    united = "SELECT COUNT(DISTINCT user_id) FROM worded"
    both = f"{united} UNION ALL {united} WHERE country <> 'FR'"
    planned = team.ada.post("/preview", json=given | {"query": {"kind": "sql", "text": both}, "spend": close}).json()
    assert planned["radius"] <= 200
    assert planned["alone"]["epsilon"] < 0.5
    dear = team.ada.post(
        "/preview",
        json=given | {"query": {"kind": "sql", "text": both}, "spend": close | {"within": 2, "epsilon": 1.0}},
    )
    assert (dear.status_code, dear.json()["field"]) == (422, "spend")
    assert "together" in dear.json()["detail"]


CATALOG = """
[tables.cataloged]
source = "events.parquet"
user = "user_id"
bounds = { minutes = [0, 60] }
rows_per_user = 50
contributions = 2
[tables.cataloged.domains]
country = ["NO", "SE", "FR"]
[public.named]
source = "named.csv"
"""


def test_a_catalog_is_imported_as_data_sets_and_exported_again(team: Team, data_dir: Path):
    (data_dir / "named.csv").write_text("country,name\nNO,Norway\nSE,Sweden\nFR,France\n")
    with setwise.connect(team.url, token=team.tokens["steward"]) as connected:
        steward = connected.steward
        for wrong, says in (
            (CATALOG.replace("events.parquet", "../events.parquet"), "data folder"),
            (CATALOG.replace('["NO", "SE", "FR"]', '"/etc/hostname"'), "list of text"),
            (CATALOG.replace("minutes =", "hours ="), "hours"),
            (CATALOG.replace("[public", "[elsewhere"), "elsewhere"),
        ):
            with pytest.raises((InvalidParameter, UnknownColumn, UnsuitableTable), match=says):
                steward.import_catalog(wrong)
        assert "cataloged" not in steward.export_catalog()["datasets"]
        assert "cataloged" in steward.import_catalog(CATALOG, apart="tests")["datasets"]
        assert "cataloged" in steward.import_catalog(CATALOG)["datasets"]  # once more changes nothing
        with pytest.raises(NameTaken):
            steward.import_catalog(CATALOG.replace("60", "61"))
        exported = parse_catalog(steward.export_catalog()["text"])
        assert exported.tables["cataloged"] == parse_catalog(CATALOG).tables["cataloged"]
        assert exported.public["named"] == "named.csv"
        steward.open_filter("ada-cataloged", analyst="ada", dataset="cataloged", epsilon=20.0, delta=1e-6)
    assert team.steward.get("/audit").json()["faults"] == []
    text = (
        "SELECT n.name, a.m, a.rows FROM (SELECT country, AVG(minutes) AS m, COUNT(*) AS rows FROM cataloged "
        "GROUP BY country) a JOIN named n ON n.country = a.country ORDER BY name"
    )
    given = body(text, dataset="cataloged", account="ada-cataloged", spend={"kind": "total", "epsilon": 4.0})
    found = asked(team.ada, "cataloged", given)
    assert [row["name"] for row in found["rows"]] == ["France", "Norway", "Sweden"]  # public keys, also empty ones
    assert found["answer"]["alone"][1] == 0.0  # no delta is needed, and none is spent
    assert not found["answer"].get("found")  # nor a search for bounds


def test_only_sql_may_leave_delta_out(team: Team):
    plain = body("") | {"query": {"kind": "count"}, "spend": {"kind": "total", "epsilon": 0.1}}
    refused = team.ada.post("/preview", json=plain)
    assert (refused.status_code, refused.json()["field"]) == (422, "spend.delta")


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
    assert (
        "contributions" not in found["answer"]["found"]
    )  # the dataset declares them, so nothing is spent to find them
    assert any("At most 5 values of w" in str(value) for value in found["answer"].values()), found["answer"]
    assert [row["n"]["value"] for row in found["rows"]] == sorted(
        (row["n"]["value"] for row in found["rows"]), reverse=True
    )
    remote = client.dataset("events", account="ada-total").sql(text, epsilon=1.0, delta=1e-9, key="computed")
    assert remote.rows == found["rows"]
    users = "SELECT AVG(n) AS mean FROM (SELECT user_id, COUNT(*) AS n FROM events GROUP BY user_id) AS per_user"
    assert asked(team.ada, "per-user", body(users, spend=total))["rows"][0]["mean"]["value"] > 0


def test_rows_of_statistics_have_one_shape_without_null_twins(team: Team):
    """Through REST every statistic is {"value", "interval"}, and a key without a value is left out, not null."""
    text = (
        "SELECT word, COUNT(*, contribution_bounds_per_group => (0, 1)) AS n, AVG(minutes, "
        "contribution_bounds_per_group => (0, 60)) AS mean, MEDIAN(minutes, contribution_bounds_per_row => (0, 60)) "
        "AS middle, COUNT(*, contribution_bounds_per_group => (0, 1)) * 2 AS twice FROM events GROUP BY word"
    )
    spend = {"kind": "total", "epsilon": 0.5, "delta": 1e-9}
    found = asked(team.ada, "one-shape", body(text, spend=spend))
    assert found["rows"]
    for row in found["rows"]:
        assert isinstance(row["word"], str)
        assert set(row["n"]) == set(row["twice"]) == {"value", "interval"}
        assert {"value", "interval"} <= set(row["mean"]) <= {"value", "interval", "unreliable"}
        assert {"value"} <= set(row["middle"]) <= {"value", "unreliable"}
        statistics = [row[name] for name in ("n", "mean", "middle", "twice")]
        assert all(value is not None for statistic in statistics for value in statistic.values())
    for item in found["answer"]["items"]:
        for name, statistic in item.items():
            assert statistic is not None, (name, item)
            if isinstance(statistic, dict) and "value" in statistic:
                assert all(value is not None for value in statistic.values())


def test_the_free_part_is_checked_in_a_worker_process(team: Team, monkeypatch: pytest.MonkeyPatch):
    """DuckDB computes constants while it plans, so a check may take any time and memory before the charge."""

    def check_here(*_: object) -> None:
        raise AssertionError("the free part was checked in the replica's own process")

    monkeypatch.setattr(Statement, "check_shell", check_here)
    checked = team.ada.post("/preview", json=body("SELECT COUNT(*) * 2 + 71 AS n FROM events"))
    assert checked.status_code == 200, checked.text
    refused = team.ada.post("/preview", json=body("SELECT LENGTH(COUNT(*), 2, 3) AS n FROM events"))
    assert (refused.status_code, refused.json()["field"]) == (422, "query.text"), refused.text


def test_the_pages_of_an_answer_and_of_its_account_name_a_question_alike(team: Team):
    """The answer's page named the question as it was asked, and the account's page with the bounds of the dataset."""
    question = register_with(team, "named-alike", per_item=2)
    united = 'SELECT COUNT(DISTINCT user_id) FROM "named-alike" UNION ALL SELECT COUNT(*) FROM "named-alike"'
    text = ROWS.replace("FROM events", 'FROM "named-alike"')
    browser = team.signed_in("ada")
    for key, sql in (("alike", text), ("alike-united", united)):
        found = asked(team.ada, key, question | {"query": {"kind": "sql", "text": sql}})
        title = re.search(r"<h2 [^>]*>([^<]+)</h2>", browser.get(f"/answers/{found['id']}").text)
        assert title is not None
        assert "{" not in title[1]
        assert f">{title[1]}<" in browser.get("/accounts/ada-named-alike").text


def test_public_tables_of_one_name_are_all_exported():
    """A third table whose longer name was taken replaced the table of that name without a word."""

    def dataset(name: str, **public: str) -> Dataset:
        return Dataset(
            name=name, engine="duckdb", table=f"{name}.csv", user="u", items=("i",), public=tuple(public.items())
        )

    datasets = [
        dataset("first", places="a.csv", second_places="b.csv"),
        dataset("second", places="c.csv"),
        dataset("third", places="a.csv", third_places="d.csv"),
    ]
    public = parse_catalog(_catalog_record(datasets)["text"]).public
    assert sorted(public.values()) == ["a.csv", "b.csv", "c.csv", "d.csv"]
    assert (public["places"], public["second_places"], public["second_places_2"]) == ("a.csv", "b.csv", "c.csv")
