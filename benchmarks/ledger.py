"""How many durable charges a second the ledger takes, with eight writer processes over sixteen accounts.

    python benchmarks/ledger.py            a table for people
    python benchmarks/ledger.py --json     one object

sqlite_charges_per_s, postgresql_charges_per_s: charges that are on disk, per second (more is better), of accounts
without a cap; with _under_a_cap or _under_a_zcdp_cap, of accounts that share one, by slices or row by row.
million_entries_ratio: the median time of a charge to an account with a million entries over that of an empty one, the
worse of the two stores. PostgreSQL is started here, on loopback, with its default settings (every commit is flushed).
"""

import argparse
import json
import multiprocessing
import random
import sys
import tempfile
import time
from bisect import bisect
from collections.abc import Callable
from pathlib import Path
from statistics import median

from setwise.accounting.notation import parse_use
from setwise.ledger.ledger import Ledger

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.servers.postgresql import running_server

from ledger_filling import fill_postgresql, fill_sqlite

WRITERS = 8
ACCOUNTS = 16
SECONDS = 6.0
DRAW = parse_use("bounded-range:0.001")
CAPS = {"no cap": None, "a zcdp cap": "zcdp", "a cap": "wallet"}
ENTRIES = 10**6


def write(
    url: str, number: int, start: "multiprocessing.synchronize.Barrier", times: "multiprocessing.Queue[object]"
) -> None:
    """Charge one account after another for a while, and tell how long each charge took."""
    with Ledger.open(url) as ledger:
        accounts = [ledger.account(f"account {place}") for place in range(ACCOUNTS)]
        order = random.Random(number)
        taken: list[tuple[float, float]] = []
        start.wait()
        end = time.perf_counter() + SECONDS
        while (began := time.perf_counter()) < end:
            key = f"{number}-{len(taken)}"
            order.choice(accounts).charge([DRAW], key=key, request="top 1")
            taken.append((time.perf_counter(), time.perf_counter() - began))
    times.put(taken)


def throughput(url: str, rule: str | None) -> tuple[float, float, float, float]:
    """Return charges per second, in the best second, and the median and 99th percentile of their times in ms."""
    with Ledger.open(url) as ledger:
        if rule is not None:
            ledger.set_cap("visits", epsilon=100.0, delta=1e-6, rule=rule)
        for place in range(ACCOUNTS):
            ledger.open_setwise(f"account {place}", ["bounded-range:0.001x1000000"], delta=1e-6, dataset="visits")
    context = multiprocessing.get_context("spawn")
    start, times = context.Barrier(WRITERS), context.Queue()
    writers = [context.Process(target=write, args=(url, number, start, times)) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    ended, taken = (sorted(each) for each in zip(*(pair for _ in writers for pair in times.get()), strict=True))
    for writer in writers:
        writer.join()
    with Ledger.open(url) as ledger:
        found = ledger.verify()
    assert found.entries >= len(taken)
    assert not found.faults
    best = max(
        bisect(ended, ended[0] + second + 1) - bisect(ended, ended[0] + second) for second in range(int(SECONDS))
    )
    return len(taken) / SECONDS, best, 1000 * taken[len(taken) // 2], 1000 * taken[int(0.99 * len(taken))]


def ageing(url: str, fill: Callable[[str, str, int], None], rounds: int = 400) -> tuple[float, float]:
    """Return the median time of a charge to an empty account and to one with a million entries, in milliseconds."""
    with Ledger.open(url) as ledger:
        for name in ("empty", "full"):
            ledger.open_setwise(name, ["pure:0.1x2000000"], delta=1e-6)
        fill(url, "full", ENTRIES)
        times: dict[str, list[float]] = {"empty": [], "full": []}
        accounts = {name: ledger.account(name) for name in times}
        use = parse_use("pure:0.1")
        for number in range(rounds):
            for name, account in accounts.items():
                began = time.perf_counter()
                account.charge([use], key=f"after-{number}", request="count")
                times[name].append(time.perf_counter() - began)
    return 1000 * median(times["empty"]), 1000 * median(times["full"])


_SUFFIXES = {"no cap": "", "a zcdp cap": "_under_a_zcdp_cap", "a cap": "_under_a_cap"}


def main() -> None:
    """Measure both stores and print what was found."""
    parser = argparse.ArgumentParser(description="Durable charges per second, and whether age slows them.")
    parser.add_argument("--json", action="store_true", help="print one object")
    as_json = parser.parse_args().json
    with tempfile.TemporaryDirectory() as folder, running_server() as server:
        found = {}
        for name, rule in CAPS.items():
            with server.database() as url:
                found["SQLite", name] = throughput(f"{folder}/{rule}.db", rule)
                found["PostgreSQL", name] = throughput(url, rule)
        with server.database() as url:
            aged = {"SQLite": ageing(f"{folder}/age.db", fill_sqlite), "PostgreSQL": ageing(url, fill_postgresql)}
    ratio = max(full / empty for empty, full in aged.values())
    if as_json:
        names = {key: key[0].lower() + _SUFFIXES[key[1]] for key in found}
        values = {f"{names[key]}_charges_per_s": rate for key, (rate, *_) in found.items()}
        percentiles = {f"{names[key]}_p99_ms": last for key, (*_, last) in found.items()}
        print(json.dumps({**values, **percentiles, "million_entries_ratio": ratio}))
        return
    print(f"{WRITERS} writers, {ACCOUNTS} accounts{'':8}{'charges/s':>12}{'best':>8}{'p50 ms':>10}{'p99 ms':>10}")
    for (store, name), (rate, best, middle, last) in found.items():
        print(f"{store + ', ' + name:30}{rate:12.0f}{best:8.0f}{middle:10.2f}{last:10.2f}")
    print(f"\n{'median ms of a charge':30}{'empty':>12}{'10^6 entries':>14}{'ratio':>8}")
    for store, (empty, full) in aged.items():
        print(f"{store:30}{empty:12.2f}{full:14.2f}{full / empty:8.2f}")


if __name__ == "__main__":
    main()
