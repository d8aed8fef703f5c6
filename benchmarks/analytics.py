"""Private answers against the engine's own exact queries, and against other libraries.

    python benchmarks/analytics.py                      a table for people
    python benchmarks/analytics.py --json               one object of named ratios, our time over theirs
    python benchmarks/analytics.py --large              also 100 million rows under a memory limit of 4 GiB
    python benchmarks/analytics.py --skip-peers         without the other libraries, which are installed on the way

The table has 10 million rows, 1 million users and 100,000 items. The floor is the engine's exact user-level histogram:
group by user and item, then by item. unrestricted_vs_floor: a private top 100 over the floor's top 1,001.
restricted_vs_floor: a private histogram in one pass with 10 items per user over the floor; rounds_vs_floor: the same in
rounds, as planned without a mechanism. prepared_vs_plain: the bounded top 1,001
of a prepared dataset over a plain GROUP BY item of the source. spark_vs_floor: Spark's bounded histogram over Spark's
own floor. clickhouse_cpu: users per item of 1 million rows over ClickHouse's own uniqExact, and over its floor, by
processor time. plain_csv_vs_duckdb_reader, quoted_csv_vs_duckdb_reader: the exact histogram of 1 million rows of CSV
by our reader over that by DuckDB's. peers: for each library, its time for the histogram of 1 million rows and 50,000
users over ours (so above 1, we are faster). Times are the best of several runs in turn, for the peers of two in one
process. cpu: the first four by processor time of this process, which a busy machine disturbs less.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import duckdb

import setwise
from events_table import write_events
from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.engines.duckdb.engine import DuckDBEngine
from setwise.analytics.engines.duckdb.opening import duckdb_table

HERE = Path(__file__).parent
sys.path.append(str(HERE / "peers"))

from environments import PEERS, Built, NotBuilt, build  # noqa: E402 - the environments that `make peers` has too

HISTOGRAMS = {path.stem.removesuffix("_histogram"): path for path in sorted((HERE / "analytics_peers").glob("*.py"))}
PATIENCE = 900
EPSILON, DELTA = 1.0, 1e-6


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds by the clock, and by the processors that worked for this process."""

    wall: float
    cpu: float


def in_turn(calls: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, Spent]:
    """Return the best times of every call; they take turns, so that a busy moment hits all of them."""
    best = dict.fromkeys(calls, Spent(float("inf"), float("inf")))
    for _ in range(rounds):
        for name, call in calls.items():
            started, worked = time.perf_counter(), time.process_time()
            call()
            wall, cpu = time.perf_counter() - started, time.process_time() - worked
            best[name] = Spent(min(best[name].wall, wall), min(best[name].cpu, cpu))
    return best


def duckdb_times(folder: Path, rounds: int) -> dict[str, Spent]:
    """Return the times of DuckDB's exact queries and of private ones on the same file."""
    events = write_events(folder / "events.parquet", rows=10_000_000, users=1_000_000, items=100_000)
    exact = duckdb.connect()
    exact.execute("SET preserve_insertion_order = false")
    table = f"read_parquet('{events}')"
    pairs = f"(SELECT user_id, item FROM {table} GROUP BY user_id, item)"
    session = setwise.open(events, user="user_id")
    with open_engine(events) as engine:
        preparing = in_turn(
            {"preparing": lambda: engine.prepare(user="user_id", item="item", destination=folder / "prepared")}, 1
        )
    prepared = open_engine(folder / "prepared")
    bounded = Aggregation(user="user_id", item="item", contributions=10)
    highest = "GROUP BY item ORDER BY n DESC, item LIMIT 1001"
    ten: dict[str, Any] = {"item": "item", "contributions": 10, "epsilon": EPSILON, "delta": DELTA}
    times = in_turn(
        {
            "plain top": lambda: exact.sql(f"SELECT item, COUNT(*) AS n FROM {table} {highest}").to_arrow_table(),
            "floor top": lambda: exact.sql(f"SELECT item, COUNT(*) AS n FROM {pairs} {highest}").to_arrow_table(),
            "floor": lambda: exact.sql(f"SELECT item, COUNT(*) AS n FROM {pairs} GROUP BY item").to_arrow_table(),
            "unrestricted": lambda: session.top_k(item="item", k=100, epsilon=EPSILON, delta=DELTA),
            "restricted": lambda: session.histogram(**ten, mechanism="truncated_gaussian"),
            "restricted, in rounds": lambda: session.histogram(**ten),
            "prepared": lambda: prepared.top(bounded, 1001),
        },
        rounds,
    )
    session.close()
    prepared.close()
    exact.close()
    return {**times, **preparing}


def csv_times(folder: Path, rounds: int) -> dict[str, Spent]:
    """Return the times of the exact histogram of 1 million rows of CSV: DuckDB's own reader, and ours within DuckDB."""
    events = write_events(folder / "rows.parquet", rows=1_000_000, users=100_000, items=10_000)
    calls: dict[str, Callable[[], object]] = {}
    exact = duckdb.connect()
    exact.execute("SET preserve_insertion_order = false")
    for name, quotes in (("plain", ""), ("quoted", ", FORCE_QUOTE *")):
        file = folder / f"{name}.csv"
        columns = "user_id, item, 'some text here' AS note, item % 100 AS amount, DATE '2024-01-02' AS day"
        exact.execute(f"COPY (SELECT {columns} FROM read_parquet('{events}')) TO '{file}' (HEADER{quotes})")
        pairs = f"(SELECT user_id, item FROM read_csv('{file}', all_varchar = true) GROUP BY user_id, item)"
        floor = f"SELECT item, COUNT(*) AS n FROM {pairs} GROUP BY item"
        engine = open_engine(file)
        calls[f"{name} floor"] = partial(exact.execute, floor)
        calls[f"{name} ours"] = partial(engine.histogram, Aggregation(user="user_id", item="item"))
    return in_turn(calls, rounds)


def spark_times(folder: Path, rounds: int) -> dict[str, Spent]:
    """Return the times of Spark's floor and of its bounded histogram, on the file that DuckDB was measured on."""
    from pyspark.sql import SparkSession

    from setwise.analytics.engines.spark.engine import SparkEngine
    from setwise.analytics.engines.spark.tables import SparkTable

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "4g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "8")
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    frame = session.read.parquet(str(folder / "events.parquet"))
    frame.createOrReplaceTempView("events")
    floor = "SELECT item, COUNT(*) AS n FROM (SELECT user_id, item FROM events GROUP BY user_id, item) GROUP BY item"
    engine = SparkEngine(SparkTable(frame=frame))
    bounded = Aggregation(user="user_id", item="item", contributions=10)
    times = in_turn(
        {"floor": lambda: session.sql(floor).toArrow(), "restricted": lambda: engine.histogram(bounded)}, rounds
    )
    session.stop()
    return times


def clickhouse_times(folder: Path, rounds: int) -> dict[str, Spent]:
    """Return the times of users per item of 1 million rows with items of text: ClickHouse's own, and ours within it."""
    from clickhouse_connect import get_client

    from setwise.analytics.engines.clickhouse.engine import ClickHouseEngine

    events = write_events(folder / "few.parquet", rows=1_000_000, users=100_000, items=10_000)
    data = Path(tempfile.mkdtemp(dir=folder))
    with get_client(interface="chdb", path=str(data)) as client:
        client.command("CREATE TABLE events (user_id Int64, item String) ENGINE = MergeTree ORDER BY tuple()")
        client.command(f"INSERT INTO events SELECT user_id, concat('item ', item) FROM file('{events}', Parquet)")
        pairs = "(SELECT user_id, item FROM events GROUP BY user_id, item)"
        with ClickHouseEngine(f"chdb://{data}", "events") as engine:
            of = partial(Aggregation, user="user_id", item="item")
            return in_turn(
                {
                    "rows": partial(client.query, "SELECT item, count() FROM events GROUP BY item"),
                    "uniqExact": partial(client.query, "SELECT item, uniqExact(user_id) FROM events GROUP BY item"),
                    "floor": partial(client.query, f"SELECT item, count() FROM {pairs} GROUP BY item"),
                    "unrestricted": partial(engine.histogram, of()),
                    "restricted": partial(engine.histogram, of(contributions=10)),
                },
                rounds,
            )


def large_times(folder: Path) -> dict[str, float]:
    """Return time, spill and size of a bounded histogram of 100 million rows under 4 GiB."""
    events = write_events(folder / "large.parquet", rows=100_000_000, users=10_000_000, items=100_000)
    table = duckdb_table(events, None, {})
    with DuckDBEngine(table, memory="4GiB", scratch=folder) as engine:
        started = time.perf_counter()
        engine.histogram(Aggregation(user="user_id", item="item", contributions=10))
        seconds = time.perf_counter() - started
        return {"seconds": seconds, "spilled": float(engine.spill.most), "size": float(events.stat().st_size)}


def peer_times(folder: Path, rounds: int) -> tuple[float, dict[str, float]]:
    """Return our time for the histogram that every peer makes, and the times of those that install and finish."""
    events = write_events(folder / "small.parquet", rows=1_000_000, users=50_000, items=10_000)

    def ours() -> None:
        with setwise.open(events, user="user_id") as session:
            session.histogram(item="item", contributions=10, epsilon=EPSILON, delta=DELTA)

    times = {}
    for name, script in HISTOGRAMS.items():
        (peer,) = (peer for peer in PEERS if peer.name.startswith(name))
        match build(peer):
            case NotBuilt(reason=reason):
                print(f"{peer.title} does not install here: {reason}", file=sys.stderr)
            case Built(python=python):
                found = _peer_time(python, script, events)
                if found is not None:
                    times[name] = found
    return in_turn({"ours": ours}, rounds + 2)["ours"].wall, times


def _peer_time(python: Path, script: Path, events: Path) -> float | None:
    """Return the seconds a peer took in its environment, or None where it does not finish."""
    try:
        ran = subprocess.run(
            [python, script, events],
            check=True,
            timeout=PATIENCE,
            capture_output=True,
            text=True,
            env={**os.environ, "PYSPARK_PYTHON": str(python), "PYTHONPATH": ""},
        )
        return float(ran.stdout.split()[-1])
    except (subprocess.SubprocessError, OSError, ValueError, IndexError) as error:
        print(f"{script.stem} does not run here: {type(error).__name__}", file=sys.stderr)
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object of ratios")
    parser.add_argument("--large", action="store_true", help="also 100 million rows under 4 GiB of memory")
    parser.add_argument("--skip-peers", action="store_true", help="leave the other libraries out")
    parser.add_argument("--skip-spark", action="store_true", help="leave Spark out")
    parser.add_argument("--skip-clickhouse", action="store_true", help="leave ClickHouse out")
    parser.add_argument("--rounds", type=int, default=3, help="how many times every query is timed")
    parser.add_argument("--scratch", type=Path, help="a directory to work in and keep, for tables and environments")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="setwise-benchmark-") as temporary:
        folder = chosen.scratch or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        told = measure(folder, chosen)
    if chosen.json:
        print(json.dumps(told))


def measure(folder: Path, chosen: argparse.Namespace) -> dict[str, object]:
    """Measure what was chosen, print tables unless JSON is wanted, and return the ratios."""
    say: Callable[[str], None] = (lambda _: None) if chosen.json else print
    times = duckdb_times(folder, chosen.rounds)
    say("DuckDB, 10 million rows, 1 million users, 100,000 items        seconds       CPU")
    for name, spent in times.items():
        say(f"  {name:<58} {spent.wall:9.3f} {spent.cpu:9.3f}")
    pairs = {
        "unrestricted_vs_floor": ("unrestricted", "floor top"),
        "restricted_vs_floor": ("restricted", "floor"),
        "rounds_vs_floor": ("restricted, in rounds", "floor"),
        "prepared_vs_plain": ("prepared", "plain top"),
    }
    told: dict[str, object] = {name: times[ours].wall / times[exact].wall for name, (ours, exact) in pairs.items()}
    told["cpu"] = {name: times[ours].cpu / times[exact].cpu for name, (ours, exact) in pairs.items()}
    csv = csv_times(folder, chosen.rounds)
    for name in ("plain", "quoted"):
        read, floor = csv[f"{name} ours"].wall, csv[f"{name} floor"].wall
        say(f"1 million rows of {name} CSV: DuckDB's reader {floor:.2f} s, ours {read:.2f} s")
        told[f"{name}_csv_vs_duckdb_reader"] = read / floor
    if not chosen.skip_spark:
        spark = spark_times(folder, chosen.rounds)
        say(f"Spark on two cores: floor {spark['floor'].wall:.2f} s, bounded {spark['restricted'].wall:.2f} s")
        told["spark_vs_floor"] = spark["restricted"].wall / spark["floor"].wall
    if not chosen.skip_clickhouse:
        clickhouse = clickhouse_times(folder, chosen.rounds)
        say("ClickHouse, 1 million rows, 100,000 users, 10,000 items         seconds       CPU")
        for name, spent in clickhouse.items():
            say(f"  {name:<58} {spent.wall:9.3f} {spent.cpu:9.3f}")
        told["clickhouse_cpu"] = {
            f"{ours}_vs_{own}": clickhouse[ours].cpu / clickhouse[own].cpu
            for ours in ("unrestricted", "restricted")
            for own in ("uniqExact", "floor")
        }
    if not chosen.skip_peers:
        ours, theirs = peer_times(folder, chosen.rounds)
        say(f"1 million rows, 50,000 users, 10 items per user: ours {ours:.3f} s")
        for name, seconds in theirs.items():
            say(f"  {name:<58} {seconds:9.3f}")
        told["peers"] = {name: seconds / ours for name, seconds in theirs.items()}
    if chosen.large:
        large = large_times(folder)
        say(
            f"100 million rows, 4 GiB of memory: {large['seconds']:.1f} s, "
            f"at most {large['spilled'] / 1e6:.0f} MB spilled, a table of {large['size'] / 1e6:.0f} MB"
        )
        told["large_seconds"] = large["seconds"]
        told["large_spilled_vs_table"] = large["spilled"] / large["size"]
    for name, ratio in told.items():
        say(f"{name}: {ratio}")
    return told


if __name__ == "__main__":
    main()
