"""Answers per second over PostgreSQL's protocol beside REST, in one run: new questions, and replays of a stored one.

    python benchmarks/postgres_door.py [--json]

Eight clients ask a small table, each with a person and an account of its own, over REST and through the door in turns,
after a question of each that is not counted. The ratio is the door's answers per second over REST's, so above 1 the
door is faster.
"""

import argparse
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import psycopg

from service_small import make_table

CLIENTS, SECONDS, ROUNDS = 8, 4.0, 4
SQL = "SELECT item, COUNT(DISTINCT user_id) AS users FROM visits WHERE item <> '{}' GROUP BY item"


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


Ask = Callable[[int, int], None]
"""Asks one question; it takes the number of the client and a running number."""


def answers_per_second(*doors: Ask) -> tuple[float, ...]:
    """Return for each door how often the clients together were answered in a second.

    The doors take turns in rounds of some seconds, so that a machine which is busy with other things slows all alike.
    """
    counts = [[0] * CLIENTS for _ in doors]
    spent = [0.0] * len(doors)

    def client(door: int, place: int, until: float) -> None:
        while time.perf_counter() < until:
            doors[door](place, counts[door][place])
            counts[door][place] += 1

    for _ in range(ROUNDS):
        for door in range(len(doors)):
            start = time.perf_counter()
            threads = [threading.Thread(target=client, args=(door, n, start + SECONDS)) for n in range(CLIENTS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            spent[door] += time.perf_counter() - start
    return tuple(sum(answered) / seconds for answered, seconds in zip(counts, spent, strict=True))


def main() -> None:
    """Measure both doors and print the table, or with --json the ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", action="store_true")
    as_json = parser.parse_args().json
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_table(folder)
        port, door = free_port(), free_port()
        command = [sys.executable, "-m", "setwise.cli.main", "serve", "--port", str(port), "--data-dir", place]
        command += ["--ledger", str(folder / "s.db"), "--postgres", f"127.0.0.1:{door}", "--answer-step", "0"]
        command += ["--requests-per-second", "10000", "--wait-seconds", "30"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            process.stdout.readline()
            steward = process.stdout.readline().rpartition(" ")[2].strip()
            found = _measure(f"http://127.0.0.1:{port}", door, steward)
        finally:
            process.terminate()
            process.wait(30)
    if as_json:
        print(json.dumps({name: door_rate / rest for name, (rest, door_rate) in found.items()}))
        return
    print(f"{CLIENTS} clients{'REST /s':>14}{'door /s':>12}{'ratio':>8}")
    for name, (rest, through) in found.items():
        print(f"{name:<12}{rest:>11.1f}{through:>12.1f}{through / rest:>8.2f}")


def _measure(url: str, door: int, steward: str) -> dict[str, tuple[float, ...]]:
    tokens = []
    with httpx.Client(base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {steward}"}, timeout=60) as client:
        body = {"name": "visits", "table": "visits.parquet", "user": "user_id", "items": ["item"], "filters": ["item"]}
        client.post("/datasets", json=body | {"contributions": 10}).raise_for_status()
        for number in range(CLIENTS):
            name = f"ada-{number}"
            client.post("/people", json={"name": name, "role": "analyst"}).raise_for_status()
            tokens.append(client.post(f"/people/{name}/tokens", json={}).json()["secret"])
            account = {"kind": "filter", "name": name, "analyst": name, "dataset": "visits", "epsilon": 90.0}
            client.post("/accounts", json=account | {"delta": 1e-3}).raise_for_status()
            client.put(
                f"/accounts/{name}/question-budget", json={"epsilon": 0.001, "delta": 1e-9, "fresh_hours": 24}
            ).raise_for_status()
    clients = [
        httpx.Client(base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {t}"}, timeout=60) for t in tokens
    ]
    connections = [
        psycopg.connect(f"postgresql://ada-{n}:{token}@127.0.0.1:{door}/ada-{n}", autocommit=True)
        for n, token in enumerate(tokens)
    ]

    def over_rest(of: int, words: str, key: str) -> None:
        question = {"kind": "sql", "text": SQL.format(words)}
        spend = {"kind": "total", "epsilon": 0.001, "delta": 1e-9}
        body = {"dataset": "visits", "account": f"ada-{of}", "query": question, "spend": spend}
        clients[of].post("/queries", json=body, headers={"Idempotency-Key": key}).raise_for_status()

    def through_door(of: int, words: str) -> None:
        connections[of].execute(SQL.format(words)).fetchall()

    for of in range(CLIENTS):  # the first plan of each worker, and the first answer of each account, take longer
        over_rest(of, "warm", "warm")
        through_door(of, "warm")
    new = answers_per_second(
        lambda of, number: over_rest(of, f"rest {number}", f"new-{number}"),
        lambda of, number: through_door(of, f"door {number}"),
    )
    replays = answers_per_second(lambda of, _: over_rest(of, "same", "same"), lambda of, _: through_door(of, "same"))
    for client in clients:
        client.close()
    for connection in connections:
        connection.close()
    return {"new": new, "replayed": replays}


if __name__ == "__main__":
    main()
