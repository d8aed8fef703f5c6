"""How often the stated share that found bounds leave out, or clip, is within its 95% interval, on two tables.

    python benchmarks/found_shares.py [--runs RUNS] [--json]

Flights: 4,000 aircraft with 1 to 60 destinations each, drawn from 100. Ratings: 6,040 users with 20 to 2,000 ratings in
18 genres. Bounds are found by default, as SQL does if a statement names none: how many groups of a user count, how many
of their rows in a group, and between which values a user's sum counts. A run is one private search with fresh noise,
by the plan of the statement. Exact shares are computed from the table. The last columns say how misleading the
estimate in the interval is: how often the exact share is more than 5 points above it, and how often the interval is at
least twice as wide as the estimate, in which case answers state the interval alone.

The script stops with an error if a share is below 95% by more than chance explains with probability one in a million.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.stats import binom

import setwise
from setwise.mechanisms.intervals import CONFIDENCE
from setwise.mechanisms.randomness import SystemRandomness
from setwise.mechanisms.release import noise_may_dominate

CHANCE = 1e-6
"""The probability with which chance alone may stop the script."""

QUESTIONS = ("SELECT item, COUNT(*) AS n FROM t GROUP BY item", "SELECT SUM(amount) AS total FROM t")


def flights(random: np.random.Generator) -> pa.Table:
    """Return rows of aircraft (who), destinations (item) and minutes (amount)."""
    popularity = 1 / np.arange(1, 101) ** 0.7
    groups = np.minimum(1 + random.negative_binomial(2, 0.08, 4000), 60)
    pairs = [random.choice(100, size=count, replace=False, p=popularity / popularity.sum()) for count in groups]
    who, item = np.repeat(np.arange(4000), groups), np.concatenate(pairs)
    rows = 1 + random.geometric(0.3, len(who))
    who, item = np.repeat(who, rows), np.repeat(item, rows)
    return pa.table({"who": who, "item": item, "amount": np.round(random.lognormal(4, 1, len(who)), 1)})


def ratings(random: np.random.Generator) -> pa.Table:
    """Return rows of users (who), genres (item) and ratings, of which a fifth count tenfold (amount)."""
    rows = np.minimum(20 + random.lognormal(4.2, 1.1, 6040).astype(int), 2000)
    who = np.repeat(np.arange(6040), rows)
    popularity = 1 / np.arange(1, 19)
    item = random.choice(18, size=len(who), p=popularity / popularity.sum())
    stars = random.choice(5, size=len(who), p=[0.06, 0.11, 0.26, 0.35, 0.22]) + 1
    return pa.table({"who": who, "item": item, "amount": stars * random.choice([1.0, 10.0], len(who), p=[0.8, 0.2])})


def left_out(numbers: NDArray[np.int64], bound: int, of_first: int) -> float:
    """Return the share that `bound` leaves out of the first `of_first` groups or rows of each user."""
    counted = np.minimum(numbers, of_first)
    return float((counted - np.minimum(counted, bound)).sum() / counted.sum())


def shares(table: pa.Table, epsilon: Fraction, runs: int) -> Iterator[tuple[str, float, float, float, float]]:
    """Yield (which bound, exact share, stated share, lower end, upper end) for each of `runs` searches."""
    frame = table.to_pandas()
    of_pairs = frame.groupby(["who", "item"]).size().groupby("who")
    groups, rows = of_pairs.size().to_numpy(), of_pairs.max().to_numpy()
    sums = frame.groupby("who")["amount"].sum().to_numpy()
    randomness = SystemRandomness()
    with setwise.open(table, user="who", name="t") as session:
        for text in QUESTIONS:
            question = session.ask_sql(text, {"epsilon": float(epsilon), "delta": 1e-6})
            (reader,) = question.sessions
            search = reader.plan(question.statement.query, question.budget).search
            assert search is not None
            read = reader.reader.statistics(search.aggregation)
            for _ in range(runs):
                found = search.search.release(read, search.steps, randomness)
                if found.left_out is not None and found.contributions is not None:
                    share = found.left_out
                    exact = left_out(groups, found.contributions, share.of_first)
                    yield "groups", exact, share.share, share.lower, share.upper
                for of_rows in found.rows:
                    share = of_rows.left_out
                    exact = left_out(rows, of_rows.bound, share.of_first)
                    yield "rows in a group", exact, share.share, share.lower, share.upper
                for bounds in found.ranges:
                    clipped = bounds.clipped_share(bounds.low, bounds.high, CONFIDENCE)
                    exact = float(((sums < float(bounds.low)) | (sums > float(bounds.high))).mean())
                    yield "users clipped", exact, clipped.share, clipped.lower, clipped.upper
                    kept = np.clip(sums, float(bounds.low), float(bounds.high)).sum() / sums.sum()
                    yield "the sum, clipped away", abs(1 - float(kept)), 0.0, 0.0, 1.0


def measured(runs: int) -> Iterator[dict[str, object]]:
    """Yield one record for each table, epsilon and bound: coverage and how far estimates are from the truth."""
    for number, make in enumerate((flights, ratings)):
        table = make(np.random.default_rng(number))
        for epsilon in (Fraction(1), Fraction(1, 4)):
            stated = defaultdict(list)
            for name, *numbers in shares(table, epsilon, runs):
                stated[name].append(numbers)
            for name, lines in stated.items():
                exact, share, lower, upper = np.array(lines).T
                held = int(((lower <= exact) & (exact <= upper)).sum())
                wide = [noise_may_dominate(s, (a, b)) for s, a, b in zip(share, lower, upper, strict=True)]
                record: dict[str, object] = {
                    "table": make.__name__,
                    "epsilon": float(epsilon),
                    "share of": name,
                    "runs": len(lines),
                    "held": held,
                    "exact, mean": float(exact.mean()),
                    "exact, largest": float(exact.max()),
                    "width": float((upper - lower).mean()),
                    "5 points above estimate": int((exact > share + 0.05).sum()),
                    "interval alone": int(np.sum(wide)),
                }
                assert held >= binom.ppf(CHANCE, len(lines), float(CONFIDENCE)), record
                yield record


def main() -> None:
    """Measure, and print a line or, with --json, a JSON object for each table, epsilon and bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500, help="searches for each table and epsilon")
    parser.add_argument("--json", action="store_true", help="print JSON objects")
    options = parser.parse_args()
    for record in measured(options.runs):
        values = (f"{value:.4f}" if isinstance(value, float) else str(value) for value in record.values())
        named = (f"{name} {value}" for name, value in zip(record, values, strict=True))
        print(json.dumps(record) if options.json else "; ".join(named), flush=True)


if __name__ == "__main__":
    main()
