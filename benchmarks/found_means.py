"""How often the interval of a mean whose bounds are found holds the exact mean over users, which nothing clips.

    python benchmarks/found_means.py [--runs RUNS] [--json]

A table of 4,000 users with 1 to 60 delays each: their median is -2 minutes, their mean 12, the largest 1,300. A run
asks SQL for the mean without bounds, or for the means of five groups. The interval of an answer is about the clipped
mean; it holds the mean of all users too if the bounds clip little. Columns: runs whose interval holds the exact mean,
the same without numbers that are marked unreliable, the largest distance of the clipped mean from the exact one as a
share of the interval's half-width, and the share of users outside of the bounds.
"""

import argparse
import json
from typing import Any

import numpy as np
import pyarrow as pa

import setwise

QUESTIONS = {
    "all": "SELECT AVG(delay) AS m FROM t",
    "by group": "SELECT item, AVG(delay) AS m FROM t GROUP BY item",
}


def delays(random: np.random.Generator) -> pa.Table:
    """Return rows of users (who) in five groups (item), with their delays in minutes (delay)."""
    rows = np.minimum(1 + random.negative_binomial(2, 0.12, 4000), 60)
    who = np.repeat(np.arange(4000), rows)
    late = random.random(len(who)) < 0.3
    minutes = np.where(late, random.lognormal(3.3, 1.15, len(who)), random.normal(-5, 5, len(who)))
    minutes = np.minimum(np.round(minutes), 1300)
    item = random.choice(["a", "b", "c", "d", "e"], len(who))
    return pa.table({"who": who, "item": item, "delay": minutes.astype(int)})


def measured(question: str, epsilon: float, runs: int) -> dict[str, Any]:
    """Return the record of `runs` answers to the question of this name at `epsilon`."""
    table = delays(np.random.default_rng(5))
    frame = table.to_pandas()
    of_users = frame.groupby(["who", *(["item"] if question != "all" else [])])["delay"].mean()
    groups: dict[Any, Any] = {"all": of_users} if question == "all" else dict(list(of_users.groupby("item")))
    held = reliable = held_reliable = intervals = 0
    distances: list[float] = []
    clipped: list[float] = []
    widths: list[float] = []
    with setwise.open(table, user="who", name="t") as session:
        for _ in range(runs):
            answer = session.sql(QUESTIONS[question], epsilon=epsilon, delta=1e-6)
            found: Any = answer.answer.found["delay"]
            low, high = found
            rows: list[Any] = answer.rows
            for row in rows:
                means = groups[row.get("item", "all")]
                lower, upper = row["m"]["interval"]
                holds = lower <= means.mean() <= upper
                intervals, held = intervals + 1, held + holds
                marked = row["m"].get("unreliable", False)
                reliable, held_reliable = reliable + (not marked), held_reliable + (holds and not marked)
                distances.append(abs(means.clip(low, high).mean() - means.mean()) / ((upper - lower) / 2))
                clipped.append(float(((means < low) | (means > high)).mean()))
                widths.append((upper - lower) / 2)
    return {
        "question": question,
        "epsilon": epsilon,
        "intervals": intervals,
        "held": held,
        "reliable": reliable,
        "reliable held": held_reliable,
        "clipped away, of half-width, mean": float(np.mean(distances)),
        "users clipped, mean": float(np.mean(clipped)),
        "users clipped, largest": float(np.max(clipped)),
        "half-width": float(np.mean(widths)),
    }


def main() -> None:
    """Measure, and print a line or, with --json, a JSON object for each question and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200, help="answers for each question and epsilon")
    parser.add_argument("--json", action="store_true", help="print JSON objects")
    options = parser.parse_args()
    for question in QUESTIONS:
        for epsilon in (1.0, 4.0):
            record = measured(question, epsilon, options.runs)
            values = (f"{value:.4f}" if isinstance(value, float) else str(value) for value in record.values())
            named = (f"{name} {value}" for name, value in zip(record, values, strict=True))
            print(json.dumps(record) if options.json else "; ".join(named), flush=True)


if __name__ == "__main__":
    main()
