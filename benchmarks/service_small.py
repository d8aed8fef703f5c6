"""Analysts who ask a small table as fast as they are answered, and the health of the service meanwhile.

    python benchmarks/service_small.py [--clients 16 64] [--kinds repeated filtered] [--replicas 1] [--rounds 2]
    python benchmarks/service_small.py --before CHECKOUT        the same with another checkout of the program, in turns
    python benchmarks/service_small.py --replicas 1 2           one and two replicas on one PostgreSQL

Printed for each kind of question and number of clients: charged answers per second, their times, the slowest answer to
a health request made every tenth of a second, and the processor time that an answer took in the service, its worker
processes and its database: on two free cores no more than two seconds of it, and of the clients', fit into one. A
`repeated` question is the same every time, so that the table is read once for each account; a `filtered` one has a new
filter every time, so that the table is read for each answer. With --json, one object of named numbers.
"""

import argparse
import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import duckdb
import httpx

from service import PATIENCE, Load, load_of, loaded, request

sys.path.insert(0, str(Path(__file__).parents[1]))

ROWS, USERS, ITEMS, DAYS = 20_000, 2_000, 200, 100_000
SECONDS = 6.0
SPEND = {"kind": "draws", "discover": "bounded-range:0.01", "counts": "pure:0.01", "threshold_delta": 1e-12}
USES = ["bounded-range:0.01x90000", "pure:0.01x90000", "approx:0,1e-12x9000"]
KINDS = ("repeated", "filtered")


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One run: what clients saw, the slowest health request in seconds, and processor seconds per answer."""

    load: Load
    health: float
    processor: float


def make_table(folder: Path) -> None:
    """Write a table that is read in milliseconds."""
    query = (
        f"SELECT (hash(i) % {USERS})::BIGINT AS user_id, (hash(i * 3) % {DAYS})::BIGINT AS day, "
        f"'item ' || CAST({ITEMS} * pow((hash(i * 7 + 1) % 1000003) / 1000003.0, 4) AS INTEGER) AS item "
        f"FROM range({ROWS}) made(i)"
    )
    duckdb.execute(f"COPY ({query}) TO '{folder / 'visits.parquet'}' (FORMAT parquet)")


@contextlib.contextmanager
def replicas(folder: Path, ledger: str, source: Path, count: int, step: float) -> Iterator[tuple[list[str], str]]:
    """Run `count` processes of `setwise serve` on one ledger; yield their addresses and the steward's token.

    `source` is the folder of the program's packages, and `step` the answer step in seconds.
    """
    processes: list[subprocess.Popen[str]] = []
    addresses: list[str] = []
    environment = os.environ | {"PYTHONPATH": str(source), "PYTHONUNBUFFERED": "1"}
    try:
        for _ in range(count):
            with socket.create_server(("127.0.0.1", 0)) as probe:
                port = probe.getsockname()[1]
            words = ["serve", "--port", str(port), "--ledger", ledger, "--data-dir", str(folder)]
            words += ["--answer-step", str(step), "--wait-seconds", str(PATIENCE)]
            words += ["--requests-per-second", "1000000"]
            process = subprocess.Popen(
                [sys.executable, "-m", "setwise.cli.main", *words], stdout=subprocess.PIPE, text=True, env=environment
            )
            processes.append(process)
            addresses.append(f"http://127.0.0.1:{port}")
            _wait_until_served(addresses[-1], process)
        token = folder / "token"
        if not token.exists():
            assert processes[0].stdout is not None
            line = next(line for line in processes[0].stdout if "token (" in line)
            token.write_text(line.split()[-1])
        yield addresses, token.read_text()
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(PATIENCE)
            assert process.stdout is not None
            process.stdout.close()


def _wait_until_served(address: str, process: "subprocess.Popen[str]") -> None:
    """Wait until a replica answers health requests; raise `RuntimeError` if it ends or takes too long."""
    deadline = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(httpx.TransportError):
            httpx.get(f"{address}/api/v1/health", timeout=PATIENCE)
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the service did not start")
        time.sleep(0.1)


def gather(url: str, steward: str, clients: int) -> list[str]:
    """Register the table, and an analyst with an account for each client; return their tokens."""
    tokens = []
    with httpx.Client(base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {steward}"}, timeout=60) as client:
        table = {"name": "visits", "table": "visits.parquet", "user": "user_id", "items": ["item"], "filters": ["day"]}
        client.post("/datasets", json=table).raise_for_status()
        for number in range(clients):
            client.post("/people", json={"name": f"ada-{number}", "role": "analyst"}).raise_for_status()
            tokens.append(client.post(f"/people/ada-{number}/tokens", json={}).json()["secret"])
            account = {"kind": "setwise", "name": f"ada-{number}", "analyst": f"ada-{number}", "dataset": "visits"}
            client.post("/accounts", json=account | {"delta": 1e-6, "uses": USES}).raise_for_status()
    return tokens


def slowest_health(url: str, seconds: float) -> float:
    """Ask for the health of the service ten times a second; return the longest wait in seconds."""
    slowest, until = 0.0, time.perf_counter() + seconds
    with httpx.Client(timeout=PATIENCE) as client:
        client.get(f"{url}/api/v1/health")  # connects
        while (started := time.perf_counter()) < until:
            client.get(f"{url}/api/v1/health").raise_for_status()
            slowest = max(slowest, time.perf_counter() - started)
            time.sleep(0.1)
    return slowest


def processor_seconds() -> float:
    """Return the processor time of all processes below this one: replicas, their workers, and the database."""
    parents: dict[int, tuple[int, float]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            ticks = int(fields[11]) + int(fields[12])
            parents[int(stat.parent.name)] = (int(fields[1]), ticks / os.sysconf("SC_CLK_TCK"))

    def below(pid: int) -> float:
        return sum(seconds + below(child) for child, (parent, seconds) in parents.items() if parent == pid)

    return below(os.getpid())


def asking(tokens: list[str], kind: str, run: str) -> Callable[[int, int], bytes]:
    """Return how the clients ask: each with a token and an account of its own, under keys that begin with `run`.

    A filtered question has a filter that its account uses in no other question of any run, because the service keeps
    the exact result of a filter that it has seen, and would not read the table.
    """
    first = zlib.crc32(run.encode())

    def ask(of: int, number: int) -> bytes:
        query: dict[str, object] = {"kind": "top-k", "item": "item", "k": 5, "contributions": 10}
        if kind == "filtered":
            query["where"] = f"day >= {(first + of * 1009 + number * 7) % 1000} AND day < {DAYS - number % 1000}"
        body = {"dataset": "visits", "query": query, "spend": SPEND, "account": f"ada-{of}"}
        return request("POST", "/queries", tokens[of], body, f"{run}-{of}-{number}")

    return ask


async def _load_all(urls: list[str], clients: int, ask: Callable[[int, int], bytes]) -> Load:
    """Put all replicas under load at once, each with its share of the clients, and return what all clients saw."""
    share = clients // len(urls)

    def ask_for(place: int) -> Callable[[int, int], bytes]:
        return lambda of, number: ask(place * share + of, number)

    runs = [load_of(url, share, ask_for(place), SECONDS) for place, url in enumerate(urls)]
    loads = await asyncio.gather(*runs)
    return Load(
        per_second=sum(load.per_second for load in loads),
        median=sorted(load.median for load in loads)[len(loads) // 2],
        p99=max(load.p99 for load in loads),
    )


def measure(
    watcher: ProcessPoolExecutor, urls: list[str], tokens: list[str], kind: str, clients: int, run: str
) -> Measured:
    """Put the service under load and watch its health meanwhile, from a process that the load does not hold up."""
    for url in urls:
        loaded(url, clients // len(urls), asking(tokens, kind, f"warm-{run}-{url[-5:]}"), 1.5)
    health = watcher.submit(slowest_health, urls[0], SECONDS)
    before, started = processor_seconds(), time.perf_counter()
    load = asyncio.run(_load_all(urls, clients, asking(tokens, kind, run)))
    answers = load.per_second * (time.perf_counter() - started)
    processor = processor_seconds() - before
    return Measured(load=load, health=health.result(), processor=processor / answers)


def run_all(given: argparse.Namespace) -> dict[str, Measured]:
    """Measure everything that was asked for, checkouts in turns; return the runs by their names."""
    here = Path(__file__).parents[1]
    checkouts = {"now": here} | ({"before": given.before.resolve()} if given.before else {})
    runs: dict[str, Measured] = {}
    most = max(given.clients)
    with tempfile.TemporaryDirectory() as place, ProcessPoolExecutor(1) as watcher, contextlib.ExitStack() as stack:
        database = None
        if max(given.replicas) > 1 or given.postgresql:
            from tests.servers.postgresql import running_server

            database = stack.enter_context(running_server())
        ledgers: dict[str, tuple[Path, str, list[str]]] = {}
        for name in checkouts:  # each checkout has a ledger of its own, since a newer one may migrate it
            folder = Path(place) / name
            folder.mkdir()
            make_table(folder)
            url = str(folder / "setwise.db") if database is None else stack.enter_context(database.database())
            ledgers[name] = folder, url, []
        for round_ in range(given.rounds):
            for count in given.replicas:
                for name, checkout in checkouts.items():
                    folder, ledger, tokens = ledgers[name]
                    with replicas(folder, ledger, checkout / "src", count, given.answer_step) as (urls, steward):
                        if not tokens:
                            tokens.extend(gather(urls[0], steward, most))
                        for kind in given.kinds:
                            for clients in given.clients:
                                title = f"{name}, {kind}, {clients} clients, {count} replica{'s' * (count > 1)}"
                                key = f"{name}-{kind}-{clients}-{count}-{round_}"
                                found = measure(watcher, urls, tokens, kind, clients, key)
                                print(_row(f"{title}, round {round_ + 1}", found), file=sys.stderr, flush=True)
                                best = runs.get(title)
                                if best is None or found.processor < best.processor:
                                    runs[title] = found
    return runs


def _row(title: str, found: Measured) -> str:
    """Return the line of a run in the table for people."""
    load = found.load
    return (
        f"{title:46}{load.per_second:9.1f}{1000 * load.median:9.0f}{1000 * load.p99:9.0f}"
        f"{1000 * found.health:10.0f}{1000 * found.processor:9.2f}"
    )


def main() -> None:
    """Measure every combination, in turns, and print the run with the least processor time of each."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--clients", type=int, nargs="+", default=[16, 64])
    options.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    options.add_argument("--replicas", type=int, nargs="+", default=[1])
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--answer-step", type=float, default=0.0, help="seconds, as for setwise serve")
    options.add_argument("--before", type=Path, help="another checkout of the program, measured in turns with this one")
    options.add_argument("--postgresql", action="store_true", help="a PostgreSQL ledger for one replica too")
    options.add_argument("--json", action="store_true", help="print one object of named numbers")
    runs = run_all(options.parse_args())
    if options.parse_args().json:
        named = {title.replace(",", "").replace(" ", "_"): found for title, found in runs.items()}
        numbers = {f"{name}_per_s": found.load.per_second for name, found in named.items()}
        numbers |= {f"{name}_p99_ms": 1000 * found.load.p99 for name, found in named.items()}
        numbers |= {f"{name}_cpu_ms": 1000 * found.processor for name, found in named.items()}
        print(json.dumps(numbers))
        return
    print(f"{f'{ROWS:,} rows':46}{'per s':>9}{'p50 ms':>9}{'p99 ms':>9}{'health ms':>10}{'CPU ms':>9}")
    for title, found in runs.items():
        print(_row(title, found))


if __name__ == "__main__":
    main()
