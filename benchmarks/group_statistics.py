"""Means, quantiles and several statistics of groups against the engine's own user-level aggregates.

    python benchmarks/group_statistics.py               a table for people
    python benchmarks/group_statistics.py --json        one object of named ratios, our time over theirs
    python benchmarks/group_statistics.py --spark       on Spark as well, by the clock

The table has 10 million rows, 0.9 million users, 2,000 groups and two columns of values. The floor is what the engine
itself takes for the mean over users of their own mean or sum in every group, or its exact median: group by user and
group, then by group. all_..: every user counts towards all of their groups; kept_..: towards 10 of them.
.._four_vs_slowest: rows, a mean, a median and a sum in one question over the slowest of the last three alone. Times are
the best of the rounds by the processor time of this process, which a busy machine disturbs less, and on Spark by the
clock.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import duckdb

from setwise.analytics.engines.aggregation import Aggregation
from setwise.analytics.engines.base import Engine
from setwise.analytics.engines.connect import open_engine
from setwise.analytics.measure import Measure

MEAN = Measure(column="v", averaged=True, origin=Fraction(50), step=Fraction(1, 10), least=-500, most=500)
MEDIAN = Measure(column="v", averaged=True, step=Fraction(1, 10), most=1000, in_cells=True)
SUM = Measure(column="w", most=500)
ROWS = Measure(most=5)
ALONE = {"mean": (MEAN,), "median": (MEDIAN,), "sum": (SUM,)}
KEPT = 10
FLOORS = {"mean": "AVG(own)", "median": "QUANTILE_CONT(own, 0.5)", "sum": "AVG(own)"}


def write_values(path: Path, rows: int) -> None:
    """Write the table: groups of a heavy-tailed law, users of unequal diligence."""
    with duckdb.connect() as connection:
        connection.execute("SET preserve_insertion_order = false")
        connection.execute(
            f"""COPY (SELECT CAST(floor({rows * 0.09} * pow(random(), 1.5)) AS BIGINT) AS u,
                             CAST(floor(pow(2000, random())) AS INTEGER) AS g,
                             50 + 20 * sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random()) AS v,
                             CAST(floor(100 * random()) AS INTEGER) AS w FROM range({rows}))
                TO '{path}' (FORMAT parquet)"""
        )


def best(rounds: int, clock: Callable[[], float], call: Callable[[], object]) -> float:
    """Return the shortest time of a call over the rounds."""
    times = []
    for _ in range(rounds):
        started = clock()
        call()
        times.append(clock() - started)
    return min(times)


def measured(engine: Engine, rounds: int, clock: Callable[[], float]) -> Iterator[tuple[str, float]]:
    """Yield the times of every question, of all groups of users and of some."""
    for form, kept in (("all", None), ("kept", KEPT)):
        for name, measures in {**ALONE, "four": (ROWS, MEAN, MEDIAN, SUM)}.items():
            asked = Aggregation(user="u", item="g", contributions=kept, measures=measures)
            yield f"{form}_{name}", best(rounds, clock, lambda asked=asked: engine.statistics(asked))  # type: ignore[misc]


def ratios(floors: dict[str, float], times: dict[str, float]) -> dict[str, float]:
    """Return our times over those of the engine itself, and of four statistics over the slowest alone."""
    found = {
        f"{form}_{name}_vs_floor": times[f"{form}_{name}"] / floors[name] for form in ("all", "kept") for name in ALONE
    }
    for form in ("all", "kept"):
        found[f"{form}_four_vs_slowest"] = times[f"{form}_four"] / max(times[f"{form}_{name}"] for name in ALONE)
    return found


def on_duckdb(path: Path, rounds: int) -> dict[str, float]:
    """Return the ratios on DuckDB, by processor time."""
    with duckdb.connect() as connection, open_engine(str(path)) as engine:
        connection.execute("SET preserve_insertion_order = false")
        floors = {}
        for name, over in FLOORS.items():
            value = "SUM(w)" if name == "sum" else "AVG(v)"
            own = f"SELECT u, g, {value} AS own FROM '{path}' GROUP BY u, g"
            exact = f"SELECT g, {over} FROM ({own}) GROUP BY g"
            floors[name] = best(rounds, time.process_time, lambda exact=exact: connection.sql(exact).fetchall())  # type: ignore[misc]
        return ratios(floors, dict(measured(engine, rounds, time.process_time)))


def on_spark(path: Path, rounds: int) -> dict[str, float]:
    """Return the ratios on Spark, by the clock."""
    from pyspark.sql import SparkSession

    with open_engine(str(path), "spark") as engine:
        session = SparkSession.active()
        session.read.parquet(str(path)).createOrReplaceTempView("bench")
        floors = {}
        for name, over in FLOORS.items():
            value, final = ("SUM(w)" if name == "sum" else "AVG(v)"), over.replace("QUANTILE_CONT", "PERCENTILE")
            exact = f"SELECT g, {final} FROM (SELECT u, g, {value} AS own FROM bench GROUP BY u, g) GROUP BY g"
            floors[name] = best(rounds, time.perf_counter, lambda exact=exact: session.sql(exact).collect())  # type: ignore[misc]
        return ratios(floors, dict(measured(engine, rounds, time.perf_counter)))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one object of named ratios")
    parser.add_argument("--spark", action="store_true", help="measure Spark as well")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "values.parquet"
        write_values(path, given.rows)
        found = {"duckdb": on_duckdb(path, given.rounds)}
        if given.spark:
            found["spark"] = on_spark(path, given.rounds)
    if given.json:
        print(json.dumps(found))
        return
    for engine, named in found.items():
        for name, ratio in named.items():
            print(f"{engine:8} {name:24} {ratio:6.2f}")


if __name__ == "__main__":
    main()
