"""Two replicas on one PostgreSQL under load, one of them killed: nothing overspent, nothing lost, clients recover."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

import setwise
from setwise.analytics.answer import PrivateAnswer
from setwise.errors import BudgetExhausted
from setwise.ledger.ledger import Ledger
from tests.service.replica import Clock, Replica
from tests.service.served import Served, serving
from tests.service.team import gather
from tests.sizes import ASKED

PAID_FOR = ASKED * 2 // 3
KILL_AFTER = ASKED // 6
OPTIONS = ("--answer-step", "0.05", "--requests-per-second", "10000", "--heartbeat-seconds", "0.2")


@pytest.fixture
def replicas(tmp_path: Path, data_dir: Path, postgresql_url: str) -> Iterator[tuple[Served, Served]]:
    options = ("--ledger", postgresql_url, "--data-dir", str(data_dir), *OPTIONS)
    with serving(tmp_path, "first", *options) as first, serving(tmp_path, "second", *options) as second:
        yield first.ready(), second.ready()


def test_a_killed_replica_costs_nothing_and_loses_nothing(replicas: tuple[Served, Served], postgresql_url: str):
    first, second = replicas
    (told,) = (text for served in replicas if "steward token" in (text := served.printed.read_text()))
    token = told.split()[-1]
    reached = Replica(first.url, None, Clock(), token)  # type: ignore[arg-type]
    team = gather(reached)
    account = {"kind": "setwise", "name": "ada-load", "analyst": "ada", "dataset": "events", "delta": 1e-6}
    made = team.steward.post("/accounts", json=account | {"uses": [f"pure:0.1x{PAID_FOR}"]})
    assert made.status_code == 201
    for client in reached.clients:
        client.close()
    answered: dict[str, PrivateAnswer] = {}
    refused: set[str] = set()
    enough = threading.Event()

    def ask(number: int) -> None:
        urls = [first.url, second.url] if number % 2 else [second.url, first.url]
        with setwise.connect(urls, token=team.ada_token, patience=60.0) as client:
            key = f"load-{number}"
            try:
                answered[key] = client.dataset("events", account="ada-load").count(counts="pure:0.1", key=key)
            except BudgetExhausted:
                refused.add(key)
        if len(answered) >= KILL_AFTER:
            enough.set()

    with ThreadPoolExecutor(8) as analysts:
        asking = [analysts.submit(ask, number) for number in range(ASKED)]
        assert enough.wait(60.0)
        first.kill()
        for each in asking:
            each.result(120.0)

    assert len(answered) + len(refused) == ASKED
    with Ledger.open(postgresql_url) as ledger:
        assert ledger.verify().faults == ()
        standing = ledger.account("ada-load").status()
        history = list(ledger.history("ada-load"))
    assert (standing.charges, standing.left) == (PAID_FOR, ())
    charged = [entry.contents.key for entry in history if entry.contents.kind == "charge"]
    stored = {entry.contents.key: entry.contents.text for entry in history if entry.contents.kind == "settle"}
    assert len(charged) == len(set(charged)) == PAID_FOR
    assert set(charged) == set(stored) == set(answered)
    assert all(PrivateAnswer.from_stored(stored[key]) == answer for key, answer in answered.items())

    headers = {"Authorization": f"Bearer {team.ada_token}"}
    listed = httpx.get(f"{second.url}/api/v1/queries?most=200", headers=headers).json()
    assert {query["key"] for query in listed if query["state"] == "done"} >= set(answered)
