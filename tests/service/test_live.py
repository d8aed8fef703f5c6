"""Live series over the API, the client and the pages: opened once, updated, shown, seen by their own people."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import setwise
from setwise.client.client import Client
from setwise.errors import BudgetExhausted, InvalidParameter, NameTaken, UnknownColumn, UnknownName
from setwise.service.settings import Settings
from tests.service.conftest import SETTINGS
from tests.service.replica import running
from tests.service.team import Registered, Team, gather

VISITS = Registered(
    body={
        "name": "visits",
        "table": "visits.parquet",
        "user": "user_id",
        "items": ["page"],
        "filters": ["at", "country"],
        "contributions": 3,
    },
    uses=["gaussian:5.0x2", "approx:0,1e-7x2"],
    total=5.0,
)
WORDS = {
    "item": "page",
    "at": "at",
    "every": "day",
    "start": "2026-01-01",
    "periods": 10,
    "epsilon": 1.0,
    "delta": 1e-7,
}


@pytest.fixture(scope="module")
def visitors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    folder = tmp_path_factory.mktemp("visits")
    random = np.random.default_rng(3)
    rows = 6000
    moments = [datetime(2026, 1, 1) + timedelta(days=int(day)) for day in random.integers(0, 10, rows)]
    table = {
        "user_id": random.integers(0, 2000, rows),
        "page": np.array(["home", "help", "shop"])[random.integers(0, 3, rows)],
        "country": np.array(["NO", "SE"])[random.integers(0, 2, rows)],
        "at": pa.array(moments, pa.timestamp("us")),
    }
    pq.write_table(pa.table(table), folder / "visits.parquet")
    settings = Settings(
        ledger=str(folder / "setwise.db"),
        data_dir=folder,
        live_dir=folder / "states",
        **{**SETTINGS, "answer_step": 0.0},
    )
    with running(settings) as replica:
        yield gather(replica, VISITS)


@pytest.fixture
def ada(visitors: Team) -> Iterator[Client]:
    with setwise.connect(visitors.replica.url, token=visitors.ada_token) as client:
        yield client


def test_the_life_of_a_series_over_the_client(visitors: Team, ada):
    visits = ada.dataset("visits", account="ada-total")
    series = visits.open_live("reach", **WORDS)
    left = visits.standing()["share_left"]
    visits.open_live("reach", **WORDS)
    assert visits.standing()["share_left"] == left, "opening it again is free"
    (record,) = ada.live()
    assert (record["name"], record["dataset"], record["contributions"]) == ("reach", "visits", 3)
    assert series.update("2026-01-06") == [f"2026-01-0{day}" for day in range(1, 6)]
    assert series.update("2026-01-06") == []
    assert len(series.update()) == 5
    view = series.view()
    assert {"name", "periods", "series", "epsilon", "delta", "spent"} <= set(view)
    assert len(view["periods"]) == 10
    assert {line["item"] for line in view["series"]} == {"home", "help", "shop"}
    assert series.view(items=["home"], window=7)["series"][0]["item"] == "home"
    assert visits.standing()["share_left"] == left, "updates and views are free"
    history = visitors.steward.get("/accounts/ada-total/history").json()
    assert [entry["kind"] for entry in history].count("release") == 10
    browser = visitors.signed_in("ada")
    page = browser.get("/live/reach")
    assert page.status_code == 200
    assert "home" in page.text
    assert "Each user is protected" in page.text
    assert browser.get("/live").text.count("/live/reach") >= 1
    assert browser.get("/live/reach/series.csv").text.startswith("period,item,value,low,high\n")
    picture = browser.get("/live/reach/series.svg?window=7")
    assert (picture.status_code, picture.headers["content-type"]) == (200, "image/svg+xml")
    assert browser.get("/accounts/ada-total").status_code == 200
    assert series.close()["closed"]
    with pytest.raises(InvalidParameter, match="closed"):
        series.update()
    assert series.view() == view


def test_somebody_elses_series_and_a_missing_one_look_the_same(visitors: Team, ada):
    ada.dataset("visits", account="ada-total").open_live("mine", **{**WORDS, "epsilon": 0.1, "domain": ["home"]})
    for call in (
        lambda name: visitors.bob.get(f"/live/{name}"),
        lambda name: visitors.bob.post(f"/live/{name}/update", json={}),
        lambda name: visitors.bob.delete(f"/live/{name}"),
    ):
        theirs, missing = call("mine"), call("none")
        assert theirs.status_code == missing.status_code == 404
        assert theirs.json()["detail"].replace("mine", "none") == missing.json()["detail"]
    assert visitors.bob.get("/live").json() == []
    assert [each["name"] for each in visitors.steward.get("/live").json()] == ["reach", "mine"]
    assert visitors.signed_in("bob").get("/live/mine").status_code == 404


def test_registered_draws_pay_too(ada):
    visits = ada.dataset("visits", account="ada-visits")
    words = {**WORDS, "epsilon": None, "delta": 1e-7, "counts": "gaussian:5.0"}
    visits.open_live("drawn", **words)
    visits.open_live("drawn-again", **words)
    with pytest.raises(BudgetExhausted):
        visits.open_live("drawn-too-often", **words)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"item": "user_id"}, UnknownColumn),
        ({"item": "country"}, UnknownColumn),
        ({"at": "page"}, UnknownColumn),
        ({"at": "country"}, setwise.BadRequest),
        ({"contributions": 4}, InvalidParameter),
        ({"where": "user_id = 7"}, setwise.BadRequest),
        ({"every": "year"}, setwise.BadRequest),
        ({"start": "soon"}, setwise.BadRequest),
        ({"periods": 0}, setwise.BadRequest),
        ({"epsilon": None}, InvalidParameter),
        ({"unit": "week"}, setwise.BadRequest),
    ],
)
def test_what_is_wrong_is_refused_and_costs_nothing(ada, wrong, error):
    visits = ada.dataset("visits", account="ada-total")
    before = visits.standing()
    with pytest.raises(error):
        visits.open_live("wrong", **{**WORDS, **wrong})
    assert visits.standing() == before


def test_a_name_is_taken_once(ada):
    visits = ada.dataset("visits", account="ada-total")
    visits.open_live("taken", **{**WORDS, "epsilon": 0.1, "domain": ["home"]})
    with pytest.raises(NameTaken):
        visits.open_live("taken", **{**WORDS, "epsilon": 0.2, "domain": ["home"]})
    with pytest.raises(UnknownName):
        ada.series("unheard-of").view()


def test_the_folder_of_states_is_for_its_owner_alone(visitors: Team):
    folder = Path(visitors.replica.service.settings.live_dir)
    assert folder.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())
