"""A small team on a replica: a steward, two analysts, a table, and an account of each kind."""

import re
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.service.replica import PATIENCE, Replica

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


@dataclass(frozen=True, kw_only=True)
class Registered:
    """A table as a steward registers it, and what accounts on it may draw."""

    body: dict[str, object]
    uses: list[str]
    total: float

    @property
    def name(self) -> str:
        return str(self.body["name"])


EVENTS = Registered(
    body={
        "name": "events",
        "table": "events.parquet",
        "user": "user_id",
        "items": ["word"],
        "values": ["minutes"],
        "filters": ["country"],
        "contributions": 5,
    },
    uses=USES,
    total=5.0,
)


@dataclass
class Team:
    """A steward and two analysts, by their clients and their tokens."""

    replica: Replica
    tokens: dict[str, str]
    steward: httpx.Client
    ada: httpx.Client
    bob: httpx.Client
    nobody: httpx.Client

    @property
    def ada_token(self) -> str:
        return self.tokens["ada"]

    @property
    def url(self) -> str:
        return self.replica.url

    def signed_in(self, person: str) -> httpx.Client:
        """Return a browser of a person: cookies, and pages asked for as HTML."""
        browser = self.browser()
        form = browser.get("/login")
        csrf = re.search(r'name="csrf" value="([^"]+)"', form.text)
        assert csrf is not None
        response = browser.post("/login", data={"token": self.tokens[person], "csrf": csrf[1], "next": "/ask"})
        assert response.status_code == 303, response.text
        return browser

    def browser(self) -> httpx.Client:
        """Return a browser that nobody is signed in with; it does not follow where it is led."""
        client = httpx.Client(base_url=self.url, headers={"Accept": "text/html"}, timeout=PATIENCE)
        self.replica.clients.append(client)
        return client


def gather(replica: Replica, table: Registered = EVENTS) -> Team:
    """Make the team; the folder of the replica has the file of the table."""
    steward = replica.as_holder(replica.steward)
    tokens = {"steward": replica.steward}
    for name in ("ada", "bob"):
        made(steward.post("/people", json={"name": name, "role": "analyst"}))
        tokens[name] = made(steward.post(f"/people/{name}/tokens", json={"label": "tests"}))["secret"]
    made(steward.post("/datasets", json=table.body))
    for name in ("ada", "bob"):
        open_account(steward, f"{name}-{table.name}", name, table.uses, table.name)
    total = {"kind": "filter", "name": "ada-total", "analyst": "ada", "dataset": table.name, "delta": 1e-6}
    made(steward.post("/accounts", json=total | {"epsilon": table.total}))
    return Team(
        replica=replica,
        tokens=tokens,
        steward=steward,
        ada=replica.as_holder(tokens["ada"]),
        bob=replica.as_holder(tokens["bob"]),
        nobody=replica.as_holder(None),
    )


def open_account(
    steward: httpx.Client, name: str, analyst: str, uses: list[str] | None = None, dataset: str = EVENTS.name
) -> None:
    """Open a set-wise account on a dataset."""
    account = {"kind": "setwise", "name": name, "analyst": analyst, "dataset": dataset, "delta": 1e-6}
    made(steward.post("/accounts", json=account | {"uses": uses or USES}))


def ask(client: httpx.Client, key: str, body: dict[str, object] = TOP_3) -> httpx.Response:
    """Ask a question under a key."""
    return client.post("/queries", json=body, headers={"Idempotency-Key": key})


def asked(client: httpx.Client, key: str, body: dict[str, object]) -> dict[str, object]:
    """Ask a question that is answered at once, and return the query with its answer."""
    response = ask(client, key, body)
    assert response.status_code == 200, response.text
    found: dict[str, object] = response.json()
    return found


def made(response: httpx.Response) -> dict[str, str]:
    """Return what was made."""
    assert response.status_code == 201, response.text
    found: dict[str, str] = response.json()
    return found
