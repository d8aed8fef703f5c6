"""A year of 100,000 analysts on some replicas and one ledger: what is measured here, and a simulation of the rest.

    python benchmarks/scale.py [--analysts 100000] [--replicas 8] [--partitions 1]    a table for people
    python benchmarks/scale.py --json                                                  one object

Measured, in a minute: the time of a durable charge, the time from question to answer on a prepared table, and how much
the ledger grows with each. Simulated, query by query: arrivals by hour and weekday, a line before each partition of the
ledger, a line before the workers that read tables, and the month's budget of each analyst. benchmarks/README.md has
the assumptions beside the results.
"""

import argparse
import heapq
import json
import math
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import quantiles

import duckdb
import numpy as np
import numpy.typing as npt

import setwise
from setwise.accounting.notation import parse_use
from setwise.analytics.engines.connect import open_engine
from setwise.ledger.ledger import Ledger

WORKERS = 2
"""Queries that one replica reads at once (the default of `setwise serve`)."""

HOURS = np.array([0, 0, 0, 0, 0, 0, 1, 4, 10, 14, 14, 11, 8, 11, 14, 13, 10, 6, 3, 2, 1, 1, 0, 0], dtype=float)
"""How a working day's questions fall on its hours; Saturdays and Sundays have a twentieth."""

Times = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """What one node does, in seconds and bytes."""

    charge_seconds: float
    answer_seconds: float
    bytes_per_question: float
    charges_a_month: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Year:
    """What the weeks came to."""

    questions: int
    refused_share: float
    peak_per_second: float
    ledger_busy_at_peak: float
    workers_busy_at_peak: float
    wait_median_ms: float
    wait_p99_ms: float
    wait_p999_ms: float
    wait_longest_s: float
    ledger_gigabytes: float


def measured(folder: Path) -> Node:
    """Measure a node: 200 charges, and 60 top-tens of a prepared table of a million rows; lower quartiles of each.

    A quartile, because other work on the machine makes some of them late, and none early.
    """
    table = folder / "events.parquet"
    duckdb.sql(
        "COPY (SELECT (hash(i) % 100000)::BIGINT AS user_id, 'item ' || CAST(10000 * pow((hash(i * 7 + 1) % 1000003) "
        f"/ 1000003.0, 4) AS INTEGER) AS item FROM range(1000000) made(i)) TO '{table}'"
    )
    url = str(folder / "ledger.db")
    with Ledger.open(url) as ledger:
        ledger.open_filter("month", epsilon=2.0, delta=1e-6)
        month = ledger.account("month")
        charges = 0
        while charges < 10_000:
            try:
                month.charge([parse_use("pure:0.05")], key=str(charges), request="count")
            except setwise.errors.BudgetExhausted:
                break
            charges += 1
        uses = ["bounded-range:0.01x90000", "pure:0.01x90000", "approx:0,1e-12x9000"]
        ledger.open_setwise("ada", uses, delta=1e-6)
        account = ledger.account("ada")
        charged = []
        for number in range(200):
            start = time.perf_counter()
            account.charge([parse_use("pure:0.01")], key=f"c{number}", request="count")
            charged.append(time.perf_counter() - start)
        before = _size(folder)
        answered = []
        with open_engine(str(table)) as engine:
            engine.prepare(user="user_id", item="item", destination=folder / "events.prepared")
        with setwise.open(folder / "events.prepared", user="user_id", account=account) as session:
            for number in range(60):
                start = time.perf_counter()
                session.top_k(
                    item="item", k=10, discover="bounded-range:0.01", counts="pure:0.01", delta=1e-12, key=f"q{number}"
                )
                answered.append(time.perf_counter() - start)
        grown = (_size(folder) - before) / len(answered)
    return Node(
        charge_seconds=quantiles(charged)[0],
        answer_seconds=quantiles(answered)[0],
        bytes_per_question=grown,
        charges_a_month=charges,
    )


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("ledger.db*"))


def simulated(
    node: Node, *, analysts: int, replicas: int, partitions: int, a_week: float, weeks: int, random: np.random.Generator
) -> Year:
    """Simulate some weeks, hour by hour; every question passes its partition of the ledger, then a worker."""
    eager = random.lognormal(0.0, 1.0, analysts)
    eager *= a_week / eager.mean()
    home = random.integers(0, partitions, analysts)
    chance = np.cumsum(eager) / eager.sum()
    weights = np.concatenate([np.tile(HOURS, 5), np.tile(HOURS / 20.0, 2)])
    weights /= weights.sum()
    free = [0.0] * (replicas * WORKERS)
    waits: list[Times] = []
    asked_this_month = np.zeros(analysts, dtype=np.int64)
    questions = refused = most = 0
    ledger_busy = workers_busy = 0.0
    for week in range(weeks):
        if week % 4 == 0:
            asked_this_month[:] = 0
        for hour, share in enumerate(weights):
            count = int(random.poisson(analysts * a_week * share))
            if not count:
                continue
            who = np.searchsorted(chance, random.random(count))
            fits = _within_budget(who, asked_this_month, node.charges_a_month)
            refused += count - int(fits.sum())
            who, at = who[fits], np.sort(random.random(int(fits.sum()))) * 3600.0 + 3600.0 * (168 * week + hour)
            questions += len(who)
            ready = _through_ledger(at, home[who], partitions, node.charge_seconds)
            service = random.exponential(node.answer_seconds, len(who))
            done, free = _through_workers(ready, service, free)
            waits.append(done - at - service)
            if len(who) > most:
                most = len(who)
                ledger_busy = most * node.charge_seconds / 3600.0 / partitions
                workers_busy = float(service.sum()) / 3600.0 / len(free)
    every = np.concatenate(waits)
    middle, high, higher = np.quantile(every, [0.5, 0.99, 0.999]) * 1000.0
    return Year(
        questions=questions,
        refused_share=refused / (questions + refused),
        peak_per_second=most / 3600.0,
        ledger_busy_at_peak=ledger_busy,
        workers_busy_at_peak=workers_busy,
        wait_median_ms=float(middle),
        wait_p99_ms=float(high),
        wait_p999_ms=float(higher),
        wait_longest_s=float(every.max()),
        ledger_gigabytes=questions * node.bytes_per_question / 1e9,
    )


def _within_budget(who: npt.NDArray[np.int64], asked: npt.NDArray[np.int64], most: int) -> npt.NDArray[np.bool_]:
    """Whether each question is paid for, and count it if it is; several of one analyst in an hour are taken in turn."""
    order = np.argsort(who, kind="stable")
    ranked = who[order]
    first = np.concatenate([[0], np.flatnonzero(np.diff(ranked)) + 1])
    turn = np.arange(len(who)) - np.repeat(first, np.diff(np.append(first, len(who))))
    fits = np.empty(len(who), dtype=bool)
    fits[order] = asked[ranked] + turn < most
    np.add.at(asked, who[fits], 1)
    return fits


def _through_ledger(at: Times, home: npt.NDArray[np.int64], partitions: int, seconds: float) -> Times:
    """Return when each charge is on disk: one writer for each partition, first come first served (Lindley)."""
    done = np.empty_like(at)
    for partition in range(partitions):
        mine = np.flatnonzero(home == partition)
        steps = np.arange(1, len(mine) + 1) * seconds
        done[mine] = np.maximum.accumulate(at[mine] - (steps - seconds)) + steps
    return done


def _through_workers(ready: Times, service: Times, free: list[float]) -> tuple[Times, list[float]]:
    """Return when each answer is there, and when each worker is free next: first come first served."""
    order = np.argsort(ready, kind="stable")
    done = np.empty_like(ready)
    line = list(free)
    heapq.heapify(line)
    for index, came, takes in zip(order.tolist(), ready[order].tolist(), service[order].tolist(), strict=True):
        ends = max(line[0], came) + takes
        heapq.heapreplace(line, ends)
        done[index] = ends
    return done, line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--analysts", type=int, default=100_000)
    parser.add_argument("--replicas", type=int, default=8)
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--a-week", type=float, default=4.0, help="questions of an analyst in a week, on average")
    parser.add_argument("--weeks", type=int, default=52)
    parser.add_argument("--charge-ms", type=float, help="instead of what is measured: the time of a durable charge")
    parser.add_argument("--answer-ms", type=float, help="instead of what is measured: from question to answer")
    parser.add_argument("--charges-a-month", type=int, help="instead of what is measured: the budget of an analyst")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        node = measured(Path(folder))
    given = {
        "charge_seconds": None if asked.charge_ms is None else asked.charge_ms / 1000.0,
        "answer_seconds": None if asked.answer_ms is None else asked.answer_ms / 1000.0,
        "charges_a_month": asked.charges_a_month,
    }
    node = replace(node, **{name: value for name, value in given.items() if value is not None})
    year = simulated(
        node,
        analysts=asked.analysts,
        replicas=asked.replicas,
        partitions=asked.partitions,
        a_week=asked.a_week,
        weeks=asked.weeks,
        random=np.random.default_rng(1),
    )
    found = {name: getattr(asked, name) for name in ("analysts", "replicas", "partitions", "a_week", "weeks")}
    found |= asdict(node) | asdict(year)
    if asked.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        digits = 0 if isinstance(value, int) else max(0, 3 - math.ceil(math.log10(abs(value) + 1e-12)))
        print(f"{name:28}{value:18,.{min(digits, 6)}f}")


if __name__ == "__main__":
    main()
