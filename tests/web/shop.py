"""A table of a shop's events, with a label that would like to be HTML."""

from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HOSTILE = "<b>bold</b><img src=x onerror=alert(1)> & \"quoted\" 'twice'"
PRODUCTS = [
    "running shoes",
    HOSTILE,
    "rain jacket",
    "tent",
    "backpack",
    "water bottle",
    "headlamp",
    "sleeping bag",
    "camp stove",
    "trail map",
    "wool socks",
    "climbing rope",
    "gloves",
    "compass",
]


def write_shop(path: Path, *, rows: int = 40_000, users: int = 8_000) -> Path:
    """Write the events: products after Zipf, three countries, minutes spent."""
    random = np.random.default_rng(11)
    place = (random.zipf(1.35, rows) - 1) % len(PRODUCTS)
    table = {
        "visitor": random.integers(0, users, rows),
        "product": [PRODUCTS[each] for each in place],
        "country": np.array(["NO", "SE", "DK"])[random.integers(0, 3, rows)],
        "minutes": random.integers(0, 60, rows),
    }
    pq.write_table(pa.table(table), path)
    return path


SHOP = {
    "name": "shop",
    "table": "shop.parquet",
    "user": "visitor",
    "items": ["product"],
    "values": ["minutes"],
    "filters": ["country"],
    "contributions": 5,
}


def open_shop(steward: httpx.Client) -> dict[str, str]:
    """Register the shop and open accounts for ada and bob; return everybody's tokens."""
    tokens = {}
    for name in ("ada", "bob"):
        made(steward.post("/people", json={"name": name, "role": "analyst"}))
        tokens[name] = made(steward.post(f"/people/{name}/tokens", json={"label": "laptop"}))["secret"]
    made(steward.post("/datasets", json=SHOP))
    for name in ("ada", "bob"):
        open_account(steward, f"{name}-shop", name, ["bounded-range:0.1x60", "pure:0.1x60", "approx:0,1e-9x20"])
    total = {"kind": "filter", "name": "ada-total", "analyst": "ada", "dataset": "shop", "epsilon": 4.0, "delta": 1e-6}
    made(steward.post("/accounts", json=total))
    return tokens


def open_account(steward: httpx.Client, name: str, analyst: str, uses: list[str]) -> None:
    """Open a set-wise account on the shop."""
    account = {"kind": "setwise", "name": name, "analyst": analyst, "dataset": "shop", "delta": 1e-6, "uses": uses}
    made(steward.post("/accounts", json=account))


def top(k: int, account: str = "ada-shop", **query: object) -> dict[str, object]:
    """Return a question for the top k products."""
    spend = {"kind": "draws", "discover": "bounded-range:0.1", "counts": "pure:0.1"}
    threshold = {} if "domain" in query else {"threshold_delta": 1e-9}
    asked = {"kind": "top-k", "item": "product", "k": k, **query}
    return {"dataset": "shop", "account": account, "query": asked, "spend": spend | threshold}


def asked(client: httpx.Client, key: str, body: dict[str, object]) -> dict[str, object]:
    """Ask over the API and return the query with its answer."""
    response = client.post("/queries", json=body, headers={"Idempotency-Key": key})
    assert response.status_code == 200, response.text
    found: dict[str, object] = response.json()
    return found


def made(response: httpx.Response) -> dict[str, str]:
    """Return what was made."""
    assert response.status_code == 201, response.text
    found: dict[str, str] = response.json()
    return found
