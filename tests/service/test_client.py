"""The client: the calls and results of a local session, and no second charge when a connection is lost."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

import setwise
from setwise.analytics.budget import Draws
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.query import Count, Mean, Query
from setwise.analytics.session import Session
from setwise.client.client import Client
from setwise.errors import (
    BudgetExhausted,
    InvalidFilter,
    InvalidParameter,
    KeyConflict,
    NotSignedIn,
    Unavailable,
    UnknownAccount,
    UnknownColumn,
)
from setwise.ledger.ledger import Ledger
from setwise.mechanisms.planning.request import Total
from setwise.mechanisms.randomness import SystemRandomness
from tests.service.replica import Replica
from tests.service.team import USES, Team, gather

DRAWS = {"discover": "bounded-range:0.1", "counts": "pure:0.1", "delta": 1e-9}


@pytest.fixture(scope="module")
def client(team: Team):
    with setwise.connect(team.replica.url, token=team.ada_token) as connected:
        yield connected


def test_results_are_those_of_a_local_session(client: Client, data_dir: Path, tmp_path: Path):
    remote = client.dataset("events", account="ada-events")
    with Ledger.open(str(tmp_path / "local.db")) as ledger:
        ledger.open_setwise("ada", USES, delta=1e-6)
        local = Session(
            open_engine(data_dir / "events.parquet"),
            user="user_id",
            name="events",
            randomness=SystemRandomness(),
            account=ledger.account("ada"),
        )
        with local:
            for ask in (
                lambda session: session.top_k(item="word", k=3, contributions=5, **DRAWS),
                lambda session: session.top_k(
                    item="word", k=2, contributions=5, discover="bounded-range:0.1", delta=1e-9
                ),
                lambda session: session.histogram(item="word", contributions=1, domain=["w1", "w2"], counts="pure:0.1"),
                lambda session: session.count(counts="pure:0.1", where="country = 'NO'"),
                lambda session: session.sum(value="minutes", clip=100, counts="pure:0.1"),
            ):
                here, there = ask(local), ask(remote)
                assert type(here) is type(there)
                assert (here.kind, here.measure, here.mechanism, here.spent) == (
                    there.kind,
                    there.measure,
                    there.mechanism,
                    there.spent,
                )
                assert (here.epsilon, here.delta, here.complete, here.why) == (
                    there.epsilon,
                    there.delta,
                    there.complete,
                    there.why,
                )
                assert len(here) == len(there)
                assert there.to_arrow().schema == here.to_arrow().schema
            query = Query.top_k(item="word", k=3, contributions=5)
            spending = Draws(discover="bounded-range:0.1", counts="pure:0.1", threshold_delta=1e-9)
            here, there = local.preview(query, spending), remote.preview(query, spending)
            assert here == there


def test_bounds_left_out_are_the_stewards(client: Client):
    answer = client.dataset("events", account="ada-total").histogram(item="word", epsilon=0.5, delta=1e-9)
    assert len(answer) > 3
    assert answer.alone is not None
    assert 0.0 < answer.alone[0] <= 0.5
    assert answer.alone[1] == 1e-9


def test_statistics_of_groups_come_back_as_they_are(client: Client):
    events = client.dataset("events", account="ada-total")
    mean = events.mean(value="minutes", low=0, high=60, item="word", contributions=1, epsilon=0.2, delta=1e-9)
    assert mean.statistics == ("mean_minutes",)
    assert all(15 < item.estimates[0].value < 45 for item in mean)
    median = events.quantile(value="minutes", low=0, high=60, epsilon=0.2)
    assert 15 < median.items[0].estimates[0].value < 45
    quartiles = events.quantile(value="minutes", low=0, high=60, at=[0.25, 0.5, 0.75], epsilon=0.3)
    assert quartiles.statistics == ("quantile_0.25_minutes", "median_minutes", "quantile_0.75_minutes")
    assert quartiles.spent[0].count == 2
    thirds = events.quantile(value="minutes", low=0, high=60, at=[1 / 3, 2 / 3], epsilon=0.3)
    assert thirds.kind == "quantile"
    both = Query(item="word", k=2, contributions=1, statistics=(Count(), Mean(column="minutes", low=0, high=60)))
    asked = events.ask(both, Total(epsilon=0.3, delta=1e-9), key="both")
    assert asked.statistics == ("users", "mean_minutes")
    assert asked == events.ask(both, Total(epsilon=0.3, delta=1e-9), key="both")
    with pytest.raises(UnknownColumn):
        events.mean(value="user_id", low=0, high=60, epsilon=0.1)


def test_labels_of_missing_values_may_be_numbers_there_as_here(client: Client, team: Team, data_dir: Path):
    with setwise.open(data_dir / "events.parquet", user="user_id") as local:
        remote = client.dataset("events", account="ada-total")
        query = Query.top_k(item="word", k=3, contributions=5, null_item=-1)
        budget = Total(epsilon=0.1, delta=1e-9)
        assert remote.preview(query, budget).uses == local.preview(query, budget).uses
    body = {"dataset": "events", "account": "ada-total", "query": {"kind": "median"}}
    refused = team.ada.post("/preview", json=body).json()
    assert refused["detail"].startswith("query: 'kind' should be one of 'top-k', 'histogram'")


def test_bounds_that_are_found_and_means_over_rows_come_back(client: Client):
    events = client.dataset("events", account="ada-total")
    found = events.mean(value="minutes", bounds="auto", epsilon=0.5)
    assert found.found["minutes"][1] > 15
    assert found.items[0].estimates[0].value > 5
    rows = events.mean(value="minutes", low=0, high=60, per_user=3, epsilon=0.3)
    assert 15 < rows.items[0].estimates[0].value < 45
    assert "over events" in rows.measure


def test_the_only_account_is_found_and_one_of_several_must_be_named(team: Team, client: Client):
    with pytest.raises(InvalidParameter, match="'ada-events', 'ada-total'"):
        client.dataset("events")
    bob = team.steward.post("/people/bob/tokens", json={}).json()["secret"]
    with setwise.connect(team.replica.url, token=bob) as his:
        assert "bob-events" in repr(his.dataset("events"))
        assert his.dataset("events").standing()["charges"] == 0


def test_a_key_replays_and_conflicts(client: Client):
    events = client.dataset("events", account="ada-events")
    first = events.top_k(item="word", k=2, key="again", **DRAWS)
    charges = events.standing()["charges"]
    assert events.top_k(item="word", k=2, key="again", **DRAWS) == first
    assert events.standing()["charges"] == charges
    with pytest.raises(KeyConflict):
        events.top_k(item="word", k=3, key="again", **DRAWS)


def test_errors_come_back_as_they_were(team: Team, client: Client):
    events = client.dataset("events", account="ada-events")
    with pytest.raises(UnknownColumn):
        events.top_k(item="user_id", k=2, **DRAWS)
    with pytest.raises(InvalidFilter):
        events.top_k(item="word", k=2, where="1 = 1", **DRAWS)
    with pytest.raises(BudgetExhausted):
        events.top_k(item="word", k=51, **DRAWS)  # one more than there ever were
    with pytest.raises(UnknownAccount):
        client.dataset("events", account="bob-events").count(counts="pure:0.1")
    with pytest.raises(InvalidParameter):
        events.count(epsilon=1.0, counts="pure:0.1")
    with setwise.connect(team.replica.url, token="nonsense") as stranger, pytest.raises(NotSignedIn):
        stranger.accounts()


def test_long_queries_are_polled(start: Callable[..., Replica]):
    team = gather(start(wait_seconds=0.0, answer_step=0.4))
    with setwise.connect(team.replica.url, token=team.ada_token) as client:
        answer = client.dataset("events", account="ada-events").top_k(item="word", k=3, **DRAWS)
    assert len(answer) == 3


class LosingTransport(httpx.BaseTransport):
    """A real connection that loses the answer to the first few requests, after the service has had them."""

    def __init__(self, losses: int) -> None:
        self.losses = losses
        self.real = httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        response = self.real.handle_request(request)
        if self.losses > 0:
            self.losses -= 1
            response.read()
            raise httpx.ReadError("lost", request=request)
        return response

    def close(self) -> None:
        self.real.close()


def test_a_lost_answer_is_asked_for_again_and_paid_for_once(start: Callable[..., Replica]):
    team = gather(start())
    with setwise.connect(team.replica.url, token=team.ada_token) as client:
        events = client.dataset("events", account="ada-events")
        client._client._transport.close()
        client._client._transport = LosingTransport(3)
        answer = events.top_k(item="word", k=3, **DRAWS)
        assert events.standing()["charges"] == 1
        history = client.request("GET", "/accounts/ada-events/history")
        assert [item["item"] for item in json.loads(history[1]["text"])["items"]] == list(answer.labels)


def test_replicas_are_tried_in_turn_and_patience_ends(team: Team):
    dead = "http://127.0.0.1:9"
    with setwise.connect([dead, team.replica.url], token=team.ada_token) as client:
        assert client.accounts()
    with (
        setwise.connect(dead, token="x", patience=0.0) as client,
        pytest.raises(Unavailable, match="cannot be reached"),
    ):
        client.accounts()


def at_a_closed_port(patience: float) -> tuple[Client, list[float]]:
    """A client whose pauses take no time, and the pauses it made."""
    pauses: list[float] = []
    client = Client(
        ["http://127.0.0.1:9"], token="x", patience=patience, monotonic=lambda: sum(pauses), sleep=pauses.append
    )
    return client, pauses


def test_what_nobody_received_is_given_up_soon_and_what_is_under_way_is_not():
    client, pauses = at_a_closed_port(60.0)
    with client, pytest.raises(Unavailable, match="cannot be reached"):
        client.request("POST", "/queries", {}, key="new")
    assert 3.0 <= sum(pauses) < 6.0
    client, pauses = at_a_closed_port(60.0)
    with client, pytest.raises(Unavailable):
        client.wait({"id": "0" * 32, "state": "running"})
    assert 60.0 <= sum(pauses) < 63.0


def test_a_restart_after_the_request_was_sent_is_ridden_out(team: Team):
    client, pauses = at_a_closed_port(60.0)
    client._client._transport.close()
    client._client._transport = LosingTransport(1)
    client._addresses = [team.replica.url, *["http://127.0.0.1:9"] * 4]
    client._client.headers["Authorization"] = f"Bearer {team.ada_token}"
    with client:
        assert client.request("GET", "/me")["name"] == "ada"
    assert len(pauses) == 5  # the answer lost, four refusals, and there it was
    assert sum(pauses) > 3.0


@pytest.mark.parametrize("url", ["http://setwise.example", "ftp://127.0.0.1", "setwise.example", ""])
def test_addresses_that_would_show_the_token_are_refused(url: str):
    with pytest.raises(InvalidParameter):
        setwise.connect(url, token="secret")


def test_the_client_shows_no_token(client: Client, team: Team):
    assert team.ada_token not in repr(client) + repr(vars(client)) + repr(client.dataset("events", account="x"))


def test_the_client_needs_nothing_of_the_server():
    code = "import sys, setwise.client.client; print('fastapi' in sys.modules, 'uvicorn' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "False False"
