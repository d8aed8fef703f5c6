"""Private groups found, and the error of their counts: one pass with equal weights, one weighted pass, and rounds.

    python benchmarks/discovery.py               a table for people
    python benchmarks/discovery.py --json        one object of named numbers: groups over those of one pass, and so on
    python benchmarks/discovery.py --runs 10     means of so many answers (5 unless told)
    python benchmarks/discovery.py --tables DIR  write the tables, on which discovery_peers.py runs other libraries

Three tables. `comparison` is that of docs/comparison.md: a million rows, 50,000 users, 10,000 items. `few` has 20,000
users with one to three of 3,000 groups each. `many` is like MovieLens-100k: 943 users with 106 of 1,682 films each on
average, and about its numbers of users for each film. Every answer is a histogram of users within (epsilon, 1e-6); the
noise of its counts is paid from the same epsilon.

`groups` is the number of groups in the answer. `error` is the mean distance of a released count from the exact number
of users, without any bound on contributions; `error_100` is that of the 100 groups with the most users, where a group
that is not in the answer counts as 0. `seconds` is the least processor time of an answer, on Parquet.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

import setwise
from setwise.analytics.planning import remembered
from setwise.mechanisms import weighted_rounds
from setwise.mechanisms.planning import rounds

sys.path.insert(0, str(Path(__file__).parent / "peers"))

import table as comparison

DELTA = 1e-6
METHODS = ("one pass", "one weighted pass", "rounds")
"""Equal weights in the planner's choice of noise; one pass with weights; and what the planner chooses."""
CASES = (
    ("comparison", 20, 1.0),
    ("comparison", 20, 3.0),
    ("comparison", 50, 1.0),
    ("few", 3, 1.0),
    ("few", 10, 1.0),
    ("many", 20, 1.0),
    ("many", 50, 1.0),
    ("many", 20, 3.0),
    ("many", 50, 3.0),
)
"""The table, the contribution bound and epsilon."""

FILMS = (
    *((1, 583), (10, 429), (25, 350), (50, 290), (100, 225)),
    *((200, 155), (338, 100), (500, 60), (1000, 11), (1682, 1)),
)
"""About how many users the film of each rank has in MovieLens-100k."""


def write_comparison(path: Path) -> None:
    """Write the table that libraries are compared on."""
    pq.write_table(pyarrow.csv.read_csv(comparison.write()), path)


def write_few(path: Path) -> None:
    """Write users with one to three groups, of a heavy-tailed law."""
    source = np.random.default_rng(7)
    users = np.repeat(np.arange(20_000), source.integers(1, 4, 20_000))
    groups = np.floor(3000 ** source.random(len(users))).astype(np.int64)
    pq.write_table(pa.table({"user_id": users, "item": groups}), path)


def write_many(path: Path) -> None:
    """Write few users with many films."""
    source = np.random.default_rng(8)
    ranks = np.arange(1, 1683)
    weights = np.exp(np.interp(np.log(ranks), *np.log(np.array(FILMS)).T)) ** 1.2
    sizes = np.clip(source.lognormal(4.2, 0.95, 943), 20, 700).astype(int)
    users, films = [], []
    for user, size in enumerate(sizes.tolist()):
        keys = np.log(weights) + source.gumbel(size=len(ranks))  # the largest are a draw without replacement
        users.append(np.full(size, user))
        films.append(ranks[np.argsort(-keys)[:size]])
    pq.write_table(pa.table({"user_id": np.concatenate(users), "item": np.concatenate(films)}), path)


TABLES: dict[str, Callable[[Path], None]] = {"comparison": write_comparison, "few": write_few, "many": write_many}


def measured(path: Path, contributions: int, epsilon: float, method: str, runs: int) -> dict[str, float]:
    """Return the means over some answers."""
    rows = pq.read_table(path).combine_chunks()
    truth = rows.group_by(["user_id", "item"]).aggregate([]).group_by("item").aggregate([([], "count_all")])
    exact = dict(zip(truth.column("item").to_pylist(), truth.column("count_all").to_pylist(), strict=True))
    top = sorted(exact, key=lambda item: -exact[item])[:100]
    found: dict[str, list[float]] = {"groups": [], "error": [], "error_100": [], "seconds": []}
    forced = "weighted_rounds" if method == "one weighted pass" else None
    popular = 0.0 if method == "one weighted pass" else weighted_rounds._POPULAR
    fewest = 10**9 if method == "one pass" else rounds.FEWEST_CONTRIBUTIONS
    with (
        setwise.open(path, user="user_id") as session,
        patch.object(weighted_rounds, "_POPULAR", popular),
        patch.object(rounds, "FEWEST_CONTRIBUTIONS", fewest),
    ):
        remembered._plan.cache_clear()  # the plan of another method would be used again
        for _ in range(runs):
            started = time.process_time()
            answer = session.histogram(
                item="item", contributions=contributions, epsilon=epsilon, delta=DELTA, mechanism=forced
            )
            found["seconds"].append(time.process_time() - started)
            counts = {item.label: item.count or 0 for item in answer.items}
            found["groups"].append(len(counts))
            errors = [abs(count - exact[label]) for label, count in counts.items()]
            found["error"].append(statistics.fmean(errors) if errors else 0.0)
            found["error_100"].append(statistics.fmean(abs(counts.get(item, 0) - exact[item]) for item in top))
    return {name: min(each) if name == "seconds" else statistics.fmean(each) for name, each in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", choices=sorted(TABLES))
    parser.add_argument("--tables", type=Path, help="only write the tables to this folder, for discovery_peers.py")
    asked = parser.parse_args()
    if asked.tables is not None:
        for name, write in TABLES.items():
            write(asked.tables / f"{name}.parquet")
        return
    numbers: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = {name: Path(folder) / f"{name}.parquet" for name in TABLES if asked.only in (None, name)}
        for name, path in paths.items():
            TABLES[name](path)
        if not asked.json:
            print("| table, contributions, epsilon | method | groups | error | error of the top 100 | seconds |")
            print("|---|---|---|---|---|---|")
        for name, contributions, epsilon in CASES:
            if name not in paths:
                continue
            results = {method: measured(paths[name], contributions, epsilon, method, asked.runs) for method in METHODS}
            for method, found in results.items():
                if not asked.json:
                    errors = f"{found['error']:.1f} | {found['error_100']:.1f}"
                    row = f"{name}, {contributions}, {epsilon:g} | {method} | {found['groups']:.0f} | {errors}"
                    print(f"| {row} | {found['seconds']:.2f} |", flush=True)
            case = f"{name}_{contributions}_{epsilon:g}"
            for column in ("groups", "error", "error_100", "seconds"):
                before = results["one pass"][column]
                numbers[f"{case}_{column}_vs_one_pass"] = results["rounds"][column] / before if before else 0.0
    if asked.json:
        print(json.dumps(numbers))


if __name__ == "__main__":
    main()
