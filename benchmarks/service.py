"""The service under load: requests per second and latencies with 32 connections, and what it adds to a local query.

A table of 10 million rows is made and prepared, `setwise serve` is started on it, and 32 connections ask for health,
for an account, and for charged top-k answers. Times are not padded (--answer-step 0), except where it is said.
"""

import argparse
import asyncio
import contextlib
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import duckdb
import httpx

from setwise.analytics.engines.connect import open_engine
from setwise.analytics.session import Session
from setwise.ledger.ledger import Ledger
from setwise.mechanisms.randomness import SystemRandomness

ROWS, USERS, ITEMS = 10_000_000, 1_000_000, 100_000
CONNECTIONS = 32
SECONDS = 5.0
PATIENCE = 120.0
USES = ["bounded-range:0.01x90000", "pure:0.01x90000", "approx:0,1e-12x9000"]
TOP_10 = {
    "dataset": "events",
    "account": "ada",
    "query": {"kind": "top-k", "item": "item", "k": 10},
    "spend": {"kind": "draws", "discover": "bounded-range:0.01", "counts": "pure:0.01", "threshold_delta": 1e-12},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a number of connections saw: requests per second, and times in seconds."""

    per_second: float
    median: float
    p99: float

    def row(self, name: str) -> str:
        """Return the line of the table for people."""
        return f"{name:38}{self.per_second:12,.1f}{1000 * self.median:12.1f}{1000 * self.p99:12.1f}"


def make_table(folder: Path, rows: int) -> None:
    """Write the events, and prepare them."""
    users, items = rows * USERS // ROWS, ITEMS
    skewed = f"CAST({items} * pow((hash(i * 7 + 1) % 1000003) / 1000003.0, 4) AS INTEGER)"
    query = f"SELECT (hash(i) % {users})::BIGINT AS user_id, 'item ' || {skewed} AS item FROM range({rows}) made(i)"
    duckdb.execute(f"COPY ({query}) TO '{folder / 'events.parquet'}' (FORMAT parquet)")
    with open_engine(folder / "events.parquet") as engine:
        engine.prepare(user="user_id", item="item", destination=folder / "events.prepared")


@contextlib.contextmanager
def served(folder: Path, ledger: str, *, step: float) -> Iterator[tuple[str, str]]:
    """Run `setwise serve`; yield its address and the token it printed, if any."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    words = ["serve", "--port", str(port), "--ledger", ledger, "--data-dir", str(folder), "--answer-step", str(step)]
    words += ["--wait-seconds", str(PATIENCE)]
    process = subprocess.Popen(
        [sys.executable, "-m", "setwise.cli.main", *words, "--requests-per-second", "1000000"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + PATIENCE
    try:
        while True:
            with contextlib.suppress(httpx.TransportError):
                httpx.get(f"{url}/api/v1/health")
                break
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the service did not start")
            time.sleep(0.1)
        first = Path(folder / "token")
        if not first.exists():
            line = next(line for line in process.stdout if "token (" in line)
            first.write_text(line.split()[-1])
        yield url, first.read_text()
    finally:
        process.terminate()
        process.wait(PATIENCE)
        process.stdout.close()


def gather(url: str, steward: str) -> str:
    """Register the table and open an account; return the analyst's token."""
    with httpx.Client(base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {steward}"}, timeout=60) as client:
        client.post("/people", json={"name": "ada", "role": "analyst"}).raise_for_status()
        token: str = client.post("/people/ada/tokens", json={}).json()["secret"]
        table = {"name": "events", "table": "events.prepared", "user": "user_id", "items": ["item"]}
        client.post("/datasets", json=table).raise_for_status()
        account = {"kind": "setwise", "name": "ada", "analyst": "ada", "dataset": "events", "delta": 1e-6}
        client.post("/accounts", json=account | {"uses": USES}).raise_for_status()
    return token


def request(method: str, path: str, token: str, body: object = None, key: str = "") -> bytes:
    """Write one request."""
    content = b"" if body is None else json.dumps(body).encode()
    head = [
        f"{method} /api/v1{path} HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
    ]
    if key:
        head.append(f"Idempotency-Key: {key}")
    return "\r\n".join([*head, "", ""]).encode() + content


async def _connection(port: int, made: Callable[[int], bytes], until: float, times: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    number = 0
    while time.perf_counter() < until:
        started = time.perf_counter()
        writer.write(made(number))
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length"))
        await reader.readexactly(int(length.split(b":")[1]))
        if not head.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(head.decode())
        times.append(time.perf_counter() - started)
        number += 1
    writer.close()
    await writer.wait_closed()


async def load_of(url: str, connections: int, made: Callable[[int, int], bytes], seconds: float) -> Load:
    """Ask with so many connections at once for so many seconds, beside other tasks."""
    port, times = int(url.rsplit(":", 1)[1]), list[float]()
    started = time.perf_counter()
    every = [
        _connection(port, lambda number, of=of: made(of, number), started + seconds, times)  # type: ignore[misc]
        for of in range(connections)
    ]
    await asyncio.gather(*every)
    taken = time.perf_counter() - started
    times.sort()
    return Load(
        per_second=len(times) / taken,
        median=times[len(times) // 2],
        p99=times[min(len(times) - 1, len(times) * 99 // 100)],
    )


def loaded(url: str, connections: int, made: Callable[[int, int], bytes], seconds: float = SECONDS) -> Load:
    """Ask with so many connections at once for so many seconds."""
    return asyncio.run(load_of(url, connections, made, seconds))


def typical(call: Callable[[], object]) -> float:
    """Return the median time of a call, after one to warm up."""
    call()
    times = []
    for _ in range(7):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def local_time(folder: Path) -> float:
    """Return the time of the same question asked of a local session, with an in-memory budget."""
    engine = open_engine(folder / "events.prepared")
    with Session(engine, user="user_id", name="events", randomness=SystemRandomness()) as session:
        return typical(lambda: session.top_k(item="item", k=10, epsilon=0.2, delta=1e-6))


def local_ledger_time(folder: Path) -> float:
    """Return the time of the same draws by a local session on a durable account."""
    with Ledger.open(str(folder / "local.db")) as ledger:
        ledger.open_setwise("ada", USES, delta=1e-6)
        with Session(
            open_engine(folder / "events.prepared"),
            user="user_id",
            name="events",
            randomness=SystemRandomness(),
            account=ledger.account("ada"),
        ) as session:
            draws = {"discover": "bounded-range:0.01", "counts": "pure:0.01", "delta": 1e-12}
            return typical(lambda: session.top_k(item="item", k=10, **draws))  # type: ignore[arg-type]


def engine_time(folder: Path) -> float:
    """Return the time of the engine's part alone."""
    from setwise.analytics.engines.aggregation import Aggregation

    with open_engine(folder / "events.prepared") as engine:
        return typical(lambda: engine.top(Aggregation(user="user_id", item="item"), 1001))


def measure(folder: Path, ledger: str) -> tuple[dict[str, Load], dict[str, float]]:
    """Run everything once."""
    loads: dict[str, Load] = {}
    times = {"engine": engine_time(folder), "one-off": local_time(folder), "ledger": local_ledger_time(folder)}
    run = str(time.time_ns())
    with served(folder, ledger, step=0.0) as (url, steward):
        token = gather(url, steward)
        ask = TOP_10

        def top_k(prefix: str) -> Callable[[int, int], bytes]:
            return lambda of, number: request("POST", "/queries", token, ask, f"{run}-{prefix}-{of}-{number}")

        loaded(url, 1, top_k("warm"), 0.5)
        loads["health"] = loaded(url, CONNECTIONS, lambda *_: request("GET", "/health", token))
        loads["account view"] = loaded(url, CONNECTIONS, lambda *_: request("GET", "/accounts/ada", token))
        loads["charged top-10, 1 connection"] = loaded(url, 1, top_k("one"), 2 * SECONDS)
        loads["charged top-10"] = loaded(url, CONNECTIONS, top_k("all"))
        loads["replayed top-10"] = loaded(url, CONNECTIONS, lambda *_: top_k("one")(0, 0))
    with served(folder, ledger, step=0.25) as (url, _):
        loaded(url, 1, lambda _, number: request("POST", "/queries", token, ask, f"{run}-warm2-{number}"), 0.5)
        padded = "charged top-10, 1 connection, padded"
        loads[padded] = loaded(
            url, 1, lambda _, number: request("POST", "/queries", token, ask, f"{run}-padded-{number}"), 2 * SECONDS
        )
    return loads, times


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--json", action="store_true", help="print one object of named numbers")
    options.add_argument("--rows", type=int, default=ROWS, help="rows of the table")
    options.add_argument("--ledger", help="where the ledger is; a new SQLite file by default")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_table(folder, given.rows)
        loads, times = measure(folder, given.ledger or str(folder / "setwise.db"))
    alone = loads["charged top-10, 1 connection"].median
    if given.json:
        named = {name.replace(",", "").replace(" ", "_"): load for name, load in loads.items()}
        found = {f"{name}_per_s": load.per_second for name, load in named.items()}
        found |= {f"{name}_p50_ms": 1000 * load.median for name, load in named.items()}
        found |= {f"{name}_p99_ms": 1000 * load.p99 for name, load in named.items()}
        found |= {"service_vs_local": alone / times["one-off"], "service_vs_local_ledger": alone / times["ledger"]}
        print(json.dumps(found))
        return
    print(f"{given.rows:,} rows, {CONNECTIONS} connections unless said otherwise")
    print(f"{'':38}{'requests/s':>12}{'p50 ms':>12}{'p99 ms':>12}")
    for name, load in loads.items():
        print(load.row(name))
    print(f"\none top-10 at a time{'':18}{'ms':>12}")
    for name, seconds in {
        "the engine's part": times["engine"],
        "local, one-off budget": times["one-off"],
        "local, durable ledger": times["ledger"],
        "through the service": alone,
    }.items():
        print(f"{name:38}{1000 * seconds:12.1f}")


if __name__ == "__main__":
    main()
