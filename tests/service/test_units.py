"""Datasets whose unit of privacy is a day of a user: every question, account, cap and series protects that unit."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import setwise
from setwise.client.client import Client, RemoteDataset
from setwise.client.steward import Steward
from setwise.errors import BadRequest, InvalidParameter, UnknownColumn
from setwise.service.settings import Settings
from tests.service.conftest import SETTINGS
from tests.service.replica import free_port, running
from tests.service.team import Registered, Team, gather

USERS, DAYS = 50, 20
"""Every user is there on every day, so that there are 50 users, 1,000 user-days and 2,000 rows."""

FIRST_WORDS = "Each single day of a user is protected, but not the user: whoever has n of them"

DAYS_OF_USERS = Registered(
    body={
        "name": "days",
        "table": "visits.parquet",
        "user": "user_id",
        "unit": "user,day",
        "items": ["page"],
        "values": ["minutes"],
        "filters": ["at", "country"],
        "contributions": 2,
    },
    uses=["gaussian:0.5x4", "approx:0,1e-7x4"],
    total=90.0,
)


def write_visits(path: Path) -> Path:
    rows = [(user, day, turn) for user in range(USERS) for day in range(DAYS) for turn in range(2)]
    moments = [datetime(2026, 1, 1, 9 + turn) + timedelta(days=day) for _, day, turn in rows]
    table = {
        "user_id": np.array([user for user, _, _ in rows]),
        "page": np.array(["home" if turn == 0 else "help" for _, _, turn in rows]),
        "country": np.array(["NO" if user % 2 == 0 else "SE" for user, _, _ in rows]),
        "minutes": np.full(len(rows), 10),
        "at": pa.array(moments, pa.timestamp("us")),
    }
    pq.write_table(pa.table(table), path)
    return path


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    folder = tmp_path_factory.mktemp("units")
    write_visits(folder / "visits.parquet")
    write_visits(folder / "others.parquet")
    settings = Settings(
        ledger=str(folder / "setwise.db"),
        data_dir=folder,
        live_dir=folder / "states",
        postgres=f"127.0.0.1:{free_port()}",
        **{**SETTINGS, "answer_step": 0.0},
    )
    with running(settings) as replica:
        yield gather(replica, DAYS_OF_USERS)


@pytest.fixture
def ada(team: Team) -> Iterator[Client]:
    with setwise.connect(team.replica.url, token=team.ada_token) as client:
        yield client


@pytest.fixture
def steward(team: Team) -> Iterator[Steward]:
    with setwise.connect(team.replica.url, token=team.tokens["steward"]) as client:
        yield Steward(client)


@pytest.fixture
def days(ada: Client, steward: Steward, request: pytest.FixtureRequest) -> RemoteDataset:
    """The dataset, paid for by an account of the test's own."""
    account = f"ada-{abs(hash(request.node.name))}"
    steward.open_filter(account, analyst="ada", dataset="days", epsilon=90.0, delta=1e-6)
    return ada.dataset("days", account=account)


def test_questions_count_and_protect_days_of_users_and_say_so(days: RemoteDataset):
    """At epsilon 20 a count is off by more than 5 with probability exp(-100)."""
    answer = days.count(epsilon=20.0)
    assert abs(answer.items[0].count - USERS * DAYS) <= 5
    assert answer.unit == "user,day"
    assert answer.promise.startswith(FIRST_WORDS)
    assert "each unit 'user,day' of a user" in answer.guarantee
    found = days.histogram(item="page", epsilon=20.0, delta=1e-7, contributions=1, domain=["home", "help"])
    assert abs(sum(item.count for item in found.items) - USERS * DAYS) <= 20, "each day of a user keeps one page"
    summed = days.sum(value="minutes", low=0, high=20, epsilon=20.0)
    assert summed.promise.startswith(FIRST_WORDS)
    assert days.standing()["unit"] == "user,day"
    assert days.standing()["promise"].startswith(FIRST_WORDS)


def test_sql_counts_days_of_users(days: RemoteDataset):
    text = "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 20) COUNT(*) AS visits FROM days"
    answer = days.sql(text, contributions=1)
    assert answer.answer.unit == "user,day"
    assert answer.answer.promise.startswith(FIRST_WORDS)


@pytest.mark.parametrize("where", ["user_id = 3", "\"user_id and day\" = '3'"])
def test_a_question_cannot_name_users_whom_nothing_protects(days: RemoteDataset, where):
    with pytest.raises(setwise.errors.SetwiseError, match=r"user_id"):
        days.count(epsilon=0.1, where=where)


def test_sql_cannot_group_rows_by_users_whom_nothing_protects(days: RemoteDataset):
    text = (
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) AS n FROM days "
        "WHERE CASE WHEN user_id = 3 THEN 1 ELSE 0 END = 1"
    )
    with pytest.raises((UnknownColumn, InvalidParameter)):
        days.sql(text, contributions=1)


@pytest.mark.parametrize(
    "select",
    [
        'SUBSTR("user_id and day", 12, 2) AS person, COUNT(*) AS n FROM days GROUP BY person',
        "COUNT(*) AS n FROM days WHERE SUBSTR(\"user_id and day\", 12, 2) = '3'",
        "COUNT(*) AS n FROM (SELECT *, LOWER(\"user_id and day\") AS w FROM days) AS x WHERE w LIKE '%3'",
    ],
)
def test_sql_computes_nothing_with_the_units_whose_text_holds_the_user(days: RemoteDataset, select):
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1, delta = 1e-7) {select}"
    with pytest.raises(UnknownColumn, match="SQL may compute with the columns allowed here"):
        days.sql(text, contributions=1)


def test_sql_groups_the_rows_of_each_unit(days: RemoteDataset):
    inner = 'SELECT "user_id and day", COUNT(*) AS n FROM days GROUP BY "user_id and day"'
    text = f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) COUNT(*) AS n FROM ({inner}) AS o WHERE n = 2"
    assert days.sql(text, contributions=1).rows


def test_a_stored_answer_keeps_its_unit(days: RemoteDataset, team: Team):
    days.count(epsilon=1.0, key="kept")
    again = days.count(epsilon=1.0, key="kept")
    assert again.promise.startswith(FIRST_WORDS)
    (shown,) = [query for query in team.ada.get("/queries").json() if query["key"] == "kept"]
    answer = team.ada.get(f"/queries/{shown['id']}").json()["answer"]
    assert (answer["unit"], answer["promise"]) == ("user,day", again.promise)


def test_a_data_set_tells_its_unit_to_everybody(team: Team):
    record = team.ada.get("/datasets/days").json()
    assert (record["unit"], record["user"]) == ("user,day", "user_id")
    assert "unit = " in team.steward.get("/catalog").json()["text"]


def test_data_sets_with_two_units_do_not_share_a_table_unless_they_are_apart(steward: Steward):
    words = {"table": "visits.parquet", "user": "user_id", "items": ["page"]}
    with pytest.raises(BadRequest, match="promises about two units do not add up"):
        steward.register_dataset("whole", **words)
    with pytest.raises(BadRequest, match="promises about two units do not add up"):
        steward.register_dataset("weeks", **words, unit="user,at by week")
    record = steward.register_dataset("whole", **words, apart="another promise, to another team")
    assert record["unit"] == "user"


def test_a_cap_and_its_accounts_protect_the_unit_of_the_data_set(steward: Steward, team: Team):
    words = {"table": "others.parquet", "user": "user_id", "items": ["page"]}
    steward.register_dataset("capped", **words, unit="user,day")
    steward.set_cap("capped", epsilon=3.0, delta=1e-6)
    record = steward.open_filter("ada-capped", analyst="ada", dataset="capped", epsilon=2.0, delta=1e-7)
    assert record["unit"] == "user,day"
    joint = steward.joint("capped")
    assert joint["unit"] == "user,day"
    assert joint["promise"].startswith(FIRST_WORDS)
    assert joint["cap"]["unit"] == "user,day"


@pytest.mark.parametrize(
    ("unit", "said"),
    [
        ("daily", "unit is user"),
        ("user,", "unit is user"),
        ("user,nothing", "nothing"),
        ("user,user_id", "beside the user column"),
        ("user,at by hour", "day, week or month"),
    ],
)
def test_a_unit_that_the_table_does_not_have_is_refused(steward: Steward, unit, said):
    with pytest.raises(BadRequest, match=said):
        steward.register_dataset("wrong", table="others.parquet", user="user_id", items=["page"], unit=unit)


def test_a_series_on_the_data_set_counts_days_of_users(days: RemoteDataset):
    """Gaussian noise of epsilon 20 over ten periods: off by more than 40 with probability below 1e-6."""
    series = days.open_live(
        "reach", item="page", at="at", every="day", start="2026-01-01", periods=10, epsilon=20.0, delta=1e-7,
        domain=["home", "help"],
    )  # fmt: skip
    series.update("2026-01-11")
    view = series.view()
    assert (view["unit"], view["measure"].partition(" ")[0]) == ("user,day", "user-days")
    assert view["promise"].startswith(FIRST_WORDS)
    assert all(abs(line["values"][-1] - USERS * 10) <= 40 for line in view["series"])


def test_pages_say_which_unit_is_protected(team: Team):
    steward, analyst = team.signed_in("steward"), team.signed_in("ada")
    assert "Protects the unit user,day, not users" in steward.get("/steward").text
    account = analyst.get("/accounts/ada-total").text
    assert "Protected unit" in account
    assert FIRST_WORDS in account


def test_notices_of_postgresqls_protocol_say_which_unit_is_protected(team: Team):
    address = team.replica.service.settings.postgres
    notices: list[str] = []
    with psycopg.connect(f"postgresql://ada:{team.ada_token}@{address}/ada-total", autocommit=True) as connection:
        connection.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
        connection.execute("SELECT COUNT(*) AS visits FROM days").fetchall()
    assert notices[0].startswith(FIRST_WORDS)
