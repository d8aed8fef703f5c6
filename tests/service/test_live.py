"""Live series over the API, the client and the pages: opened once, updated, shown, seen by their own people."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import setwise
from setwise.client.client import Client
from setwise.errors import BudgetExhausted, EngineFailed, InvalidParameter, NameTaken, UnknownColumn, UnknownName
from setwise.live.states.base import join_batches
from setwise.live.states.connect import open_state
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
    day, place = "2026-01-03", 2
    (first,) = series.view(top=1, on=day)["series"]
    assert first["values"][place] == max(line["values"][place] for line in view["series"])
    assert series.view(top=3, on=day)["series"][0]["item"] == first["item"]
    with pytest.raises(UnknownName, match="2025-12-31"):
        series.view(top=1, on="2025-12-31")
    with pytest.raises(InvalidParameter, match="say how many, with top"):
        series.view(on=day)
    assert visits.standing()["share_left"] == left, "updates and views are free"
    history = visitors.steward.get("/accounts/ada-total/history").json()
    assert [entry["kind"] for entry in history].count("release") == 10
    browser = visitors.signed_in("ada")
    page = browser.get("/live/reach")
    assert page.status_code == 200
    assert "home" in page.text
    assert "Each user is protected" in page.text
    assert f"<caption>{day}</caption>" in browser.get(f"/live/reach?on={day}").text
    assert browser.get("/live/reach?on=2025-12-31").status_code == 404
    assert browser.get("/live").text.count("/live/reach") >= 1
    assert browser.get("/live/reach/series.csv").text.startswith("period,item,value,low,high,measure\n")
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


@pytest.fixture
def padded(tmp_path: Path) -> Iterator[Team]:
    """A team on a replica whose answers leave after two seconds or later, and which reads one table at a time."""
    moments = [datetime(2026, 1, 1) + timedelta(days=row % 10) for row in range(500)]
    table = {"user_id": range(500), "page": ["home"] * 500, "country": ["NO"] * 500, "at": moments}
    pq.write_table(pa.table(table), tmp_path / "visits.parquet")
    settings = Settings(
        ledger=str(tmp_path / "setwise.db"),
        data_dir=tmp_path,
        live_dir=tmp_path / "states",
        **{**SETTINGS, "answer_step": 2.0, "workers": 1},
    )
    with running(settings) as replica:
        yield gather(replica, VISITS)


def test_updates_are_padded_cancelled_and_block_nobody(padded: Team):
    service = padded.replica.service
    words = {**WORDS, "dataset": "visits", "account": "ada-total", "domain": ["home"], "name": "reach"}
    assert padded.ada.post("/live", json=words).status_code == 201
    with ThreadPoolExecutor(50) as threads:
        service.series._slots.acquire()
        waiting = [threads.submit(padded.ada.post, "/live/reach/update", json={}) for _ in range(40)]
        time.sleep(1.0)
        began = time.monotonic()
        assert padded.ada.get("/live/reach").json()["periods"] == []
        assert padded.bob.get("/live").status_code == 200
        assert time.monotonic() - began < 20, "forty updates that wait keep nobody from reading"
        other = padded.ada.post("/live/reach/update", json={"until": "2026-01-03"})
        assert (other.status_code, "another update" in other.json()["detail"]) == (429, True)
        assert padded.bob.delete("/live/reach/update").status_code == 404
        assert padded.ada.delete("/live/reach/update").json() == {"name": "reach", "cancelled": True}
        stopped = [response.result() for response in waiting]
        assert {response.status_code for response in stopped} == {503}
        assert all("cancelled" in response.json()["detail"] for response in stopped)
        service.series._slots.release()
        assert padded.ada.delete("/live/reach/update").json() == {"name": "reach", "cancelled": False}

        began = time.monotonic()
        update = threads.submit(padded.ada.post, "/live/reach/update", json={"until": "2026-01-06"})
        while not padded.ada.get("/live/reach").json()["periods"]:
            assert time.monotonic() - began < 60
            time.sleep(0.05)
        assert time.monotonic() - began >= 2.0, "releases are not seen before the padded time"
        assert len(update.result().json()["released"]) == 5

        update = threads.submit(padded.ada.post, "/live/reach/update", json={})
        while not _is_counted(service, periods=10):
            time.sleep(0.05)
        assert padded.ada.delete("/live/reach/update").json()["cancelled"], "after reading, until the padded time"
        assert update.result().status_code == 503
        assert len(padded.ada.get("/live/reach").json()["periods"]) == 5
        assert len(padded.ada.post("/live/reach/update", json={}).json()["released"]) == 5


def test_updates_and_queries_share_the_engine_slots(padded: Team):
    """A replica that reads one table at a time reads none for a series while a query holds its only slot."""
    service = padded.replica.service
    words = {**WORDS, "dataset": "visits", "account": "ada-total", "domain": ["home"], "name": "reach"}
    assert padded.ada.post("/live", json=words).status_code == 201
    service.runner._slots.acquire()
    with ThreadPoolExecutor(1) as threads:
        try:
            update = threads.submit(padded.ada.post, "/live/reach/update", json={})
            time.sleep(2.0)
            assert not _is_counted(service, periods=10)
        finally:
            service.runner._slots.release()
        assert len(update.result().json()["released"]) == 10


def _is_counted(service, periods: int) -> bool:
    """Return whether the private state has the counts of so many periods."""
    try:
        with open_state(str(Path(service.settings.live_dir) / "reach.live.db"), "reach") as state:
            return join_batches(state.batches()).periods == periods
    except EngineFailed:  # the update has the file open
        return False
