"""A table of a shop's events, with a label that would like to be HTML."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.service.team import Registered

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
    (path.parent / "regions.csv").write_text("country,region\nNO,west\nSE,east\nDK,south\n")
    return path


SHOP = Registered(
    body={
        "name": "shop",
        "table": "shop.parquet",
        "user": "visitor",
        "items": ["product", "country"],
        "values": ["minutes"],
        "filters": ["country"],
        "contributions": 5,
        "public": {"regions": "regions.csv"},
    },
    uses=["bounded-range:0.1x60", "pure:0.1x60", "approx:0,1e-9x20"],
    total=4.0,
)


def top(k: int, account: str = "ada-shop", **query: object) -> dict[str, object]:
    """Return a question for the top k products."""
    spend = {"kind": "draws", "discover": "bounded-range:0.1", "counts": "pure:0.1"}
    threshold = {} if "domain" in query else {"threshold_delta": 1e-9}
    asked = {"kind": "top-k", "item": "product", "k": k, **query}
    return {"dataset": "shop", "account": account, "query": asked, "spend": spend | threshold}
