"""One analyst repeats an expensive request at the default rate limits; the service must stay well for everybody else.

    python benchmarks/service_attacks.py [--seconds 5] [--only NAME ...] [--json]

For each request: the slowest answer of `/health`, asked twenty times a second; the slowest charged answer of another
analyst, who asks every half second; the largest resident memory of the replica and of its largest worker process; and
how the service answered the expensive request itself. Everything runs on this machine, over the loopback interface,
with four connections, for a bounded number of seconds.
"""

import argparse
import contextlib
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import httpx

PATIENCE = 60.0
CONNECTIONS = 4
ITEMS = 100_000
USES = ["bounded-range:0.01x9000", "pure:0.01x9000", "approx:0,1e-12x900"]
TOP_5 = {
    "dataset": "visits",
    "account": "bob",
    "query": {"kind": "top-k", "item": "item", "k": 5, "contributions": 10},
    "spend": {"kind": "draws", "discover": "bounded-range:0.01", "counts": "pure:0.01", "threshold_delta": 1e-12},
}
MIXED = (
    [f"{kind}:{0.05 + 0.001 * number:.3f}x{7 + number}" for number in range(12) for kind in ("pure", "bounded-range")]
    + [f"laplace:{10 + number}x3" for number in range(13)]
    + [f"gaussian:{20 + number}x3" for number in range(13)]
)
"""Fifty uses of different kinds and sizes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """An expensive request: who sends it, and how its number makes it."""

    name: str
    person: str
    method: str
    path: str
    content: Callable[[int], bytes] = field(default=lambda _: b"")
    headers: Callable[[int], dict[str, str]] = field(default=lambda _: {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """What others saw while a request was repeated: times in seconds, memory in bytes, and its own statuses."""

    name: str
    health: float
    other: float
    refused: int
    replica: int
    worker: int
    statuses: dict[str, int]
    median: float

    def row(self) -> str:
        """Return the line of the table for people."""
        statuses = ", ".join(f"{count} x {status}" for status, count in sorted(self.statuses.items()))
        return (
            f"{self.name:36}{1000 * self.health:10.0f}{1000 * self.other:10.0f}{self.refused:9}"
            f"{self.replica / 2**20:10.0f}{self.worker / 2**20:10.0f}{1000 * self.median:10.0f}  {statuses}"
        )


def question(domain: object, account: str = "mallory-total") -> dict[str, object]:
    """Return a histogram over public labels, paid for by a total."""
    query = {"kind": "histogram", "item": "item", "contributions": 1, "domain": domain}
    spend = {"kind": "total", "epsilon": 0.01, "delta": 1e-9}
    return {"dataset": "visits", "account": account, "query": query, "spend": spend}


def as_json(body: object) -> bytes:
    """Write a body without spaces."""
    return json.dumps(body, separators=(",", ":")).encode()


def attacks(answer: str) -> list[Attack]:
    """Return the expensive requests; `answer` is the id of a query with 100,000 items."""
    bad = as_json(question([])).replace(b'"domain":[]', b'"domain":[[' + b"{}," * 345_000 + b"{}]]")
    extra = b'{"uses":["pure:0.1"],"delta":1e-6,' + b",".join(b'"%x":0' % n for n in range(90_000)) + b"}"
    longest = as_json(question([f"{number:06d}" for number in range(100_000)]))

    def many_accounts(number: int) -> bytes:
        kind = {"kind": "setwise", "name": f"many-{time.time_ns()}-{number}", "analyst": "mallory", "dataset": "visits"}
        return as_json(kind | {"uses": MIXED, "delta": 1e-6})

    def new_domain(number: int) -> bytes:
        return as_json(question([f"{number}-{time.time_ns()}-{label:04d}" + "x" * 900 for label in range(1000)]))

    return [
        Attack(
            name="345,000 labels that are none", person="mallory", method="POST", path="/preview", content=lambda _: bad
        ),
        Attack(name="90,000 unknown fields", person="mallory", method="POST", path="/compose", content=lambda _: extra),
        Attack(
            name="a composition of 50 mixed uses",
            person="mallory",
            method="POST",
            path="/compose",
            content=lambda number: as_json({"uses": MIXED, "delta": 1e-6 / (1 + number)}),
        ),
        Attack(name="plans of ever new domains", person="mallory", method="POST", path="/preview", content=new_domain),
        Attack(
            name="previews of 100,000 labels",
            person="mallory",
            method="POST",
            path="/preview",
            content=lambda _: longest,
        ),
        Attack(
            name="questions with 100,000 labels",
            person="mallory",
            method="POST",
            path="/queries",
            content=lambda _: longest,
            headers=lambda number: {"Idempotency-Key": f"{time.time_ns()}-{number}"},
        ),
        Attack(name="the list of queries", person="mallory", method="GET", path="/queries?most=200"),
        Attack(name="a query with 100,000 items", person="mallory", method="GET", path=f"/queries/{answer}"),
        Attack(name="a CSV of 100,000 items", person="mallory", method="GET", path=f"!/answers/{answer}/answer.csv"),
        Attack(name="a JSON of 100,000 items", person="mallory", method="GET", path=f"!/answers/{answer}/answer.json"),
        Attack(name="the page of 100,000 items", person="mallory", method="GET", path=f"!/answers/{answer}"),
        Attack(
            name="the history of an account", person="mallory", method="GET", path="/accounts/mallory-total/history"
        ),
        Attack(
            name="the page of an account", person="mallory", method="GET", path="!/accounts/mallory-total?most=10000"
        ),
        Attack(
            name="an account with 50 kinds of uses",
            person="steward",
            method="POST",
            path="/accounts",
            content=many_accounts,
        ),
        Attack(
            name="a joint promise of 999 periods",
            person="steward",
            method="GET",
            path="/datasets/visits/joint?periods=999",
        ),
        Attack(
            name="a login form of separators",
            person="",
            method="POST",
            path="!/login",
            content=lambda _: b"&" * (1 << 20),
            headers=lambda _: {"Content-Type": "application/x-www-form-urlencoded"},
        ),
    ]


@contextlib.contextmanager
def served(folder: Path) -> Iterator[tuple[str, str, int]]:
    """Run `setwise serve` as it comes; yield its address, the first steward's token and its process id."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    words = ["serve", "--port", str(port), "--ledger", str(folder / "setwise.db"), "--data-dir", str(folder)]
    process = subprocess.Popen([sys.executable, "-m", "setwise.cli.main", *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + PATIENCE
    try:
        line = next(line for line in process.stdout if "token (" in line)
        while True:
            with contextlib.suppress(httpx.TransportError):
                httpx.get(f"{url}/api/v1/health")
                break
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the service did not start")
            time.sleep(0.1)
        yield url, line.split()[-1], process.pid
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def gather(url: str, folder: Path, steward: str) -> tuple[dict[str, str], str]:
    """Register a table, two analysts and their accounts; return tokens, and the id of a query with a large answer."""
    made = (
        "SELECT (hash(i) % 2000)::BIGINT AS user_id, printf('%06d', (hash(i * 7 + 1) % 200)::INTEGER) AS item "
        "FROM range(20000) made(i)"
    )
    duckdb.execute(f"COPY ({made}) TO '{folder / 'visits.parquet'}' (FORMAT parquet)")
    tokens = {"steward": steward}
    with httpx.Client(base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {steward}"}, timeout=60) as client:
        table = {"name": "visits", "table": "visits.parquet", "user": "user_id", "items": ["item"]}
        client.post("/datasets", json=table).raise_for_status()
        for name in ("mallory", "bob"):
            client.post("/people", json={"name": name, "role": "analyst"}).raise_for_status()
            tokens[name] = client.post(f"/people/{name}/tokens", json={}).json()["secret"]
        bob = {"kind": "setwise", "name": "bob", "analyst": "bob", "dataset": "visits", "uses": USES, "delta": 1e-6}
        client.post("/accounts", json=bob).raise_for_status()
        total = {"kind": "filter", "name": "mallory-total", "analyst": "mallory", "dataset": "visits", "delta": 1e-5}
        client.post("/accounts", json=total | {"epsilon": 50.0, "every": "month"}).raise_for_status()
        client.headers["Authorization"] = f"Bearer {tokens['mallory']}"
        body = question([f"{number:06d}" for number in range(ITEMS)])
        found = client.post("/queries", json=body, headers={"Idempotency-Key": "large"}).json()
        deadline = time.monotonic() + PATIENCE
        while (found := client.get(f"/queries/{found['id']}").json())["state"] == "running":
            if time.monotonic() > deadline:
                raise RuntimeError("the large question was not answered")
            time.sleep(0.5)
        for number in range(4):
            client.post("/queries", json=body, headers={"Idempotency-Key": f"large-{number}"})
            time.sleep(2.0)
    return tokens, str(found["id"])


def slowest_health(url: str, seconds: float) -> float:
    """Ask for the health of the service twenty times a second; return the longest wait in seconds."""
    slowest, until = 0.0, time.perf_counter() + seconds
    with httpx.Client(timeout=PATIENCE) as client:
        while (started := time.perf_counter()) < until:
            with contextlib.suppress(httpx.HTTPError):  # one that is never answered counts as PATIENCE
                client.get(f"{url}/api/v1/health").raise_for_status()
            slowest = max(slowest, time.perf_counter() - started)
            time.sleep(0.05)
    return slowest


def slowest_answer(url: str, token: str, seconds: float) -> tuple[float, int]:
    """Ask charged questions every half second; return the longest wait in seconds, and how many were refused."""
    slowest, refused, until = 0.0, 0, time.perf_counter() + seconds
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=f"{url}/api/v1", headers=headers, timeout=PATIENCE) as client:
        while (started := time.perf_counter()) < until:
            try:
                found = client.post("/queries", json=TOP_5, headers={"Idempotency-Key": str(time.time_ns())})
                while found.is_success and found.json()["state"] == "running":
                    time.sleep(0.05)
                    found = client.get(f"/queries/{found.json()['id']}")
                refused += not found.is_success
            except httpx.HTTPError:
                refused += 1
            slowest = max(slowest, time.perf_counter() - started)
            time.sleep(0.5)
    return slowest, refused


def resident(pid: int) -> int:
    """Return the resident memory of a process in bytes, 0 for one that has gone."""
    with contextlib.suppress(OSError, ValueError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
    return found


def repeated(attack: Attack, url: str, token: str, cookie: str, until: float) -> tuple[Counter[str], list[float]]:
    """Send a request again and again over one connection, until a time; return statuses and times."""
    statuses: Counter[str] = Counter()
    times: list[float] = []
    path = attack.path[1:] if attack.path.startswith("!") else f"/api/v1{attack.path}"
    headers = {"Content-Type": "application/json"}
    if attack.path.startswith("!") and attack.person:
        headers["Cookie"] = f"setwise_session={cookie}"
    elif attack.person:
        headers["Authorization"] = f"Bearer {token}"
    number = threading.get_ident() % 1000 * 1_000_000
    with httpx.Client(base_url=url, headers=headers, timeout=PATIENCE) as client:
        while (started := time.perf_counter()) < until:
            number += 1
            try:
                made = client.request(
                    attack.method, path, content=attack.content(number), headers=attack.headers(number)
                )
            except httpx.HTTPError as error:
                statuses[type(error).__name__] += 1
            else:
                statuses[str(made.status_code)] += 1
                times.append(time.perf_counter() - started)
                if made.status_code == 429:
                    time.sleep(0.05)
    return statuses, times


def session(url: str, token: str) -> str:
    """Sign a browser in; return the secret of its cookie."""
    with httpx.Client(base_url=url, timeout=PATIENCE) as client:
        csrf = re.search(r'name="csrf" value="([^"]+)"', client.get("/login").text)
        assert csrf is not None
        client.post("/login", data={"token": token, "csrf": csrf[1], "next": "/ask"})
        return str(client.cookies["setwise_session"])


def measure(
    attack: Attack, url: str, pid: int, tokens: dict[str, str], watchers: ProcessPoolExecutor, seconds: float
) -> Effect:
    """Repeat a request over some connections for some seconds, and watch what others see meanwhile."""
    token = tokens.get(attack.person, "")
    cookie = session(url, token) if token else ""
    health = watchers.submit(slowest_health, url, seconds)
    other = watchers.submit(slowest_answer, url, tokens["bob"], seconds)
    statuses: Counter[str] = Counter()
    times: list[float] = []
    until = time.perf_counter() + seconds

    def send() -> None:
        made, taken = repeated(attack, url, token, cookie, until)
        statuses.update(made)
        times.extend(taken)

    threads = [threading.Thread(target=send) for _ in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    replica = worker = 0
    while any(thread.is_alive() for thread in threads) or not (health.done() and other.done()):
        replica = max(replica, resident(pid))
        worker = max([worker, *map(resident, children(pid))])
        time.sleep(0.05)
    (slowest, refused) = other.result()
    return Effect(
        name=attack.name,
        health=health.result(),
        other=slowest,
        refused=refused,
        replica=replica,
        worker=worker,
        statuses=dict(statuses),
        median=statistics.median(times) if times else float("nan"),
    )


def main() -> None:
    """Repeat each request and print the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=5.0, help="how long each request is repeated")
    options.add_argument("--only", nargs="*", help="parts of the names of the requests to repeat")
    options.add_argument("--json", action="store_true", help="print one object of named numbers")
    given = options.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as place, ProcessPoolExecutor(2) as watchers:
        folder = Path(place)
        with served(folder) as (url, steward, pid):
            tokens, answer = gather(url, folder, steward)
            if not given.json:
                print(
                    f"{'':36}{'health ms':>10}{'other ms':>10}{'refused':>9}{'replica':>10}{'worker':>10}{'own ms':>10}"
                    "  answers to the request itself (memory in MiB)",
                    flush=True,
                )
            for attack in attacks(answer):
                if given.only and not any(part in attack.name for part in given.only):
                    continue
                found.append(measure(attack, url, pid, tokens, watchers, given.seconds))
                if not given.json:
                    print(found[-1].row(), flush=True)
                time.sleep(2.0)  # buckets fill up again
    if given.json:
        print(
            json.dumps(
                {
                    each.name: {
                        "health_ms": 1000 * each.health,
                        "other_ms": 1000 * each.other,
                        "replica_mib": each.replica / 2**20,
                        "worker_mib": each.worker / 2**20,
                    }
                    for each in found
                }
            )
        )


if __name__ == "__main__":
    main()
