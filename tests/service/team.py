"""A small team on a replica: a steward, two analysts, a table, and an account of each kind."""

from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.service.replica import Replica

USES = ["bounded-range:0.1x50", "pure:0.1x50", "approx:0,1e-9x10"]
SPEND = {"kind": "draws", "discover": "bounded-range:0.1", "counts": "pure:0.1", "threshold_delta": 1e-9}
TOP_3 = {
    "dataset": "events",
    "account": "ada-events",
    "query": {"kind": "top-k", "item": "word", "k": 3},
    "spend": SPEND,
}


def write_events(path: Path, *, rows: int = 20_000, users: int = 3_000) -> Path:
    """Write a table of events whose words are Zipf-distributed."""
    random = np.random.default_rng(7)
    words = np.minimum(random.zipf(1.5, rows), 200)
    table = {
        "user_id": random.integers(0, users, rows),
        "word": [f"w{number}" for number in words],
        "country": np.array(["NO", "SE"])[random.integers(0, 2, rows)],
        "minutes": random.integers(0, 60, rows),
    }
    pq.write_table(pa.table(table), path)
    return path


@dataclass
class Team:
    replica: Replica
    steward: httpx.Client
    ada: httpx.Client
    bob: httpx.Client
    nobody: httpx.Client
    ada_token: str


def gather(replica: Replica) -> Team:
    """Make the team; the folder of the replica has events.parquet."""
    steward = replica.as_holder(replica.steward)
    tokens = {}
    for name in ("ada", "bob"):
        _made(steward.post("/people", json={"name": name, "role": "analyst"}))
        tokens[name] = _made(steward.post(f"/people/{name}/tokens", json={"label": "tests"}))["secret"]
    dataset = {
        "name": "events",
        "table": "events.parquet",
        "user": "user_id",
        "items": ["word"],
        "values": ["minutes"],
        "filters": ["country"],
        "contributions": 5,
    }
    _made(steward.post("/datasets", json=dataset))
    for name in ("ada", "bob"):
        open_account(steward, f"{name}-events", name)
    total = {
        "kind": "filter",
        "name": "ada-total",
        "analyst": "ada",
        "dataset": "events",
        "epsilon": 5.0,
        "delta": 1e-6,
    }
    _made(steward.post("/accounts", json=total))
    return Team(
        replica=replica,
        steward=steward,
        ada=replica.as_holder(tokens["ada"]),
        bob=replica.as_holder(tokens["bob"]),
        nobody=replica.as_holder(None),
        ada_token=tokens["ada"],
    )


def open_account(steward: httpx.Client, name: str, analyst: str, uses: list[str] | None = None) -> None:
    """Open a set-wise account on the events."""
    account = {"kind": "setwise", "name": name, "analyst": analyst, "dataset": "events", "delta": 1e-6}
    _made(steward.post("/accounts", json=account | {"uses": uses or USES}))


def ask(client: httpx.Client, key: str, body: dict[str, object] = TOP_3) -> httpx.Response:
    """Ask a question under a key."""
    return client.post("/queries", json=body, headers={"Idempotency-Key": key})


def _made(response: httpx.Response) -> dict[str, str]:
    assert response.status_code == 201, response.text
    found: dict[str, str] = response.json()
    return found
