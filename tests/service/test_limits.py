"""Rates, sizes, waiting lines and time limits: refused in words, and nothing else suffers."""

import socket
import time
from collections.abc import Callable

import pytest

from setwise.analytics.execute import padded
from setwise.errors import TooManyRequests
from setwise.service.auth.rate_limit import Buckets
from tests.servers.postgresql import PostgresqlServer
from tests.service.replica import PATIENCE, Replica
from tests.service.team import TOP_3, ask, gather


def test_a_person_is_held_to_their_rate_and_others_are_not(start: Callable[..., Replica]):
    replica = start(requests_per_second=0.001, burst=40)
    team = gather(replica)
    found = [team.ada.get("/me") for _ in range(41)]
    assert [response.status_code for response in found] == [200] * 40 + [429]
    assert int(found[-1].headers["retry-after"]) >= 1
    assert found[-1].json()["type"] == "urn:setwise:problem:too-many-requests"
    assert team.bob.get("/me").status_code == 200
    assert team.nobody.get("/health").status_code == 200


def test_guessing_tokens_is_slowed_down_too(start: Callable[..., Replica]):
    replica = start(requests_per_second=0.001, burst=5)
    found = [replica.as_holder(f"guess-{number}").get("/me").status_code for number in range(7)]
    assert found == [401] * 5 + [429] * 2
    assert replica.as_holder(replica.steward).get("/me").status_code == 200


def test_no_crowd_of_names_gives_a_fresh_bucket():
    now = 0.0
    buckets = Buckets(per_second=1.0, burst=2, most=100, monotonic=lambda: now)
    for _ in range(2):
        buckets.take("mallory")
    turned_away = 0
    for number in range(1000):
        try:
            buckets.take(f"crowd-{number}")
        except TooManyRequests:
            turned_away += 1
    assert turned_away == 901
    with pytest.raises(TooManyRequests):
        buckets.take("mallory")
    now = 2.0  # everything is full again, and may go
    buckets.take("late")
    buckets.take("mallory")
    assert len(buckets._buckets) <= 2


def test_a_crowd_of_addresses_does_not_turn_people_away(start: Callable[..., Replica]):
    replica = start(requests_per_second=0.001)
    rates = replica.service.authenticator._address_rates
    rates._most = 3
    for address in ("192.0.2.1", "192.0.2.2", "192.0.2.3"):
        rates.take(address)
    assert replica.as_holder("a-guess").get("/me").status_code == 429
    assert replica.as_holder(replica.steward).get("/me").status_code == 200


def test_a_body_may_be_so_large_and_no_larger(start: Callable[..., Replica]):
    replica = start(body_bytes=1000)
    client = replica.as_holder(replica.steward)
    for content in (b"x" * 1001, iter([b"x" * 600, b"x" * 600])):  # by its header, and as it arrives
        refused = client.post("/compose", content=content)
        assert refused.status_code == 413
        assert refused.headers["content-type"] == "application/problem+json"
        assert "1000 bytes" in refused.json()["detail"]
    assert client.post("/compose", json={"uses": ["pure:0.1"], "delta": 1e-6}).status_code == 200


@pytest.mark.parametrize("path", ["/api/v1/compose", "/login"])
def test_a_body_that_does_not_arrive_is_not_waited_for(start: Callable[..., Replica], path: str):
    replica = start(body_seconds=0.2)
    host, port = replica.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        kind = "application/x-www-form-urlencoded" if path == "/login" else "application/json"
        connection.sendall(
            f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {replica.steward}\r\n"
            f"Content-Type: {kind}\r\nContent-Length: 100\r\n\r\n{{".encode()
        )
        told = connection.recv(65536)
    assert told.startswith(b"HTTP/1.1 408")
    assert replica.as_holder(replica.steward).get("/me").status_code == 200


def test_a_calculation_is_stopped_in_time_and_the_next_one_served(start: Callable[..., Replica]):
    replica = start(calculator_seconds=2.0, calculators=1)
    client = replica.as_holder(replica.steward)
    # A dozen different sizes, each drawn a few times, beside noise of two kinds: five seconds of a free machine.
    sizes = [f"bounded-range:{0.5 + 0.13 * size}x4" for size in range(12)]
    long = {"uses": [*sizes, "gaussian:3x5", "laplace:5x20"], "delta": 1e-9}
    refused = client.post("/compose", json=long)
    assert refused.status_code == 422
    assert "longer than 2 s" in refused.json()["detail"]
    assert client.post("/compose", json={"uses": ["pure:0.1"], "delta": 1e-6}).status_code == 200


def test_a_full_waiting_line_turns_queries_away_and_charges_nothing(start: Callable[..., Replica]):
    replica = start(waiting=1, workers=1, wait_seconds=0.1)
    team = gather(replica)
    replica.service.runner._slots.acquire()
    try:
        assert ask(team.ada, "first").status_code == 202
        refused = ask(team.bob, "second", TOP_3 | {"account": "bob-events"})
        assert refused.status_code == 429
        assert "retry-after" in refused.headers
        assert team.bob.get("/accounts/bob-events").json()["charges"] == 0
    finally:
        replica.service.runner._slots.release()


@pytest.mark.parametrize("step", [0.25, 0.1, 3.0])
def test_padded_moments_are_few_and_never_early(step: float):
    times = [step * n / 97 for n in range(1, 5000)]
    moments = {padded(seconds, step) for seconds in times}
    assert all(padded(seconds, step) >= seconds for seconds in times)
    assert moments == {step * 2**n for n in range(7)}
    assert padded(1.5, 0.0) == 1.5


def test_the_counters_tell_what_was_answered(start: Callable[..., Replica]):
    replica = start()
    team = gather(replica)
    ask(team.ada, "counted")
    team.nobody.get("/me")
    text = team.ada.get("/metrics").text
    assert 'setwise_requests_total{method="GET",route="/api/v1/me",status="401"} 1' in text
    assert 'setwise_queries_total{outcome="done"} 1' in text
    assert "ada" not in text
    assert all(line.startswith("#") or len(line.rsplit(" ", 1)) == 2 for line in text.splitlines())


def test_health_says_when_the_database_is_gone(start: Callable[..., Replica], postgresql_server: PostgresqlServer):
    with postgresql_server.database() as url:
        replica = start(ledger=url)
        client = replica.as_holder(replica.steward)
        assert client.get("/health").json()["status"] == "ok"
    # The database was dropped; the last good answer is remembered for a second.
    deadline = time.monotonic() + 30.0
    while (response := client.get("/health")).status_code == 200:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    for refused in (response, client.get("/people")):
        assert refused.status_code == 503
        assert refused.json()["type"] == "urn:setwise:problem:store-failed"
        assert url not in refused.text
