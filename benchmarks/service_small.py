"""Sixteen analysts who ask a small table as fast as they are answered, and the health of the service meanwhile.

    python benchmarks/service_small.py

For each --answer-step: charged answers per second, their times, the slowest answer to a health request made every tenth
of a second, and the processor time that an answer took in the service and its workers: on two free cores no more than
two seconds of it fit into one.
"""

import contextlib
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import duckdb
import httpx

from service import PATIENCE, Load, loaded, request, served

ROWS, USERS, ITEMS = 20_000, 2_000, 200
CLIENTS = 16
SECONDS = 8.0
STEPS = (0.0, 0.1, 0.25)
QUESTION = {
    "dataset": "visits",
    "query": {"kind": "top-k", "item": "item", "k": 5, "contributions": 10},
    "spend": {"kind": "draws", "discover": "bounded-range:0.01", "counts": "pure:0.01", "threshold_delta": 1e-12},
}


def make_table(folder: Path) -> None:
    """Write a table that is read in milliseconds."""
    query = (
        f"SELECT (hash(i) % {USERS})::BIGINT AS user_id, "
        f"'item ' || CAST({ITEMS} * pow((hash(i * 7 + 1) % 1000003) / 1000003.0, 4) AS INTEGER) AS item "
        f"FROM range({ROWS}) made(i)"
    )
    duckdb.execute(f"COPY ({query}) TO '{folder / 'visits.parquet'}' (FORMAT parquet)")


def gather(url: str, steward: str) -> list[str]:
    """Register the table, and an analyst with an account for each client; return their tokens."""
    tokens = []
    with httpx.Client(base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {steward}"}, timeout=60) as client:
        table = {"name": "visits", "table": "visits.parquet", "user": "user_id", "items": ["item"]}
        client.post("/datasets", json=table).raise_for_status()
        for number in range(CLIENTS):
            client.post("/people", json={"name": f"ada-{number}", "role": "analyst"}).raise_for_status()
            tokens.append(client.post(f"/people/ada-{number}/tokens", json={}).json()["secret"])
            account = {"kind": "setwise", "name": f"ada-{number}", "analyst": f"ada-{number}", "dataset": "visits"}
            uses = ["bounded-range:0.01x90000", "pure:0.01x90000", "approx:0,1e-12x9000"]
            client.post("/accounts", json=account | {"delta": 1e-6, "uses": uses}).raise_for_status()
    return tokens


def slowest_health(url: str, seconds: float) -> float:
    """Ask for the health of the service ten times a second; return the longest wait."""
    slowest, until = 0.0, time.perf_counter() + seconds
    with httpx.Client(timeout=PATIENCE) as client:
        client.get(f"{url}/api/v1/health")  # connects
        while (started := time.perf_counter()) < until:
            client.get(f"{url}/api/v1/health").raise_for_status()
            slowest = max(slowest, time.perf_counter() - started)
            time.sleep(0.1)
    return slowest


def processor_seconds() -> float:
    """Return the processor time of all processes below this one: the service with its workers, and who watches."""
    parents: dict[int, tuple[int, float]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            ticks = int(fields[11]) + int(fields[12])
            parents[int(stat.parent.name)] = (int(fields[1]), ticks / os.sysconf("SC_CLK_TCK"))

    def below(pid: int) -> float:
        return sum(seconds + below(child) for child, (parent, seconds) in parents.items() if parent == pid)

    return below(os.getpid())


def asking(tokens: list[str], run: str) -> Callable[[int, int], bytes]:
    """Return how the clients ask: each with a token and an account of its own."""

    def ask(of: int, number: int) -> bytes:
        return request("POST", "/queries", tokens[of], QUESTION | {"account": f"ada-{of}"}, f"{run}-{of}-{number}")

    return ask


def together(watcher: ProcessPoolExecutor, url: str, ask: Callable[[int, int], bytes]) -> tuple[Load, float]:
    """Put the service under load and watch its health meanwhile, from a process that the load does not hold up."""
    health = watcher.submit(slowest_health, url, SECONDS)
    return loaded(url, CLIENTS, ask, SECONDS), health.result()


def main() -> None:
    """Measure every step and print the table."""
    print(
        f"{CLIENTS} clients, {ROWS:,} rows{'answers/s':>14}{'p50 ms':>10}{'p99 ms':>10}{'health ms':>12}{'CPU ms':>10}"
    )
    with tempfile.TemporaryDirectory() as place, ProcessPoolExecutor(1) as watcher:
        folder = Path(place)
        make_table(folder)
        tokens: list[str] = []
        for step in STEPS:
            with served(folder, str(folder / "setwise.db"), step=step) as (url, steward):
                tokens = tokens or gather(url, steward)
                loaded(url, CLIENTS, asking(tokens, f"warm-{step}"), 1.0)
                before = processor_seconds()
                load, health = together(watcher, url, asking(tokens, f"{step}"))
                each = 1000 * (processor_seconds() - before) / (load.per_second * SECONDS)
            print(
                f"--answer-step {step:<12g}{load.per_second:12.1f}{1000 * load.median:10.0f}{1000 * load.p99:10.0f}"
                f"{1000 * health:12.0f}{each:10.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
