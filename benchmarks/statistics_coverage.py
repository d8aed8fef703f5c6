"""How many intervals of users, rows, sums, means and standard deviations hold the exact number, of those that say 95%.

    python benchmarks/statistics_coverage.py [ROUNDS]       a table for people

Four thousand users in four hundred groups, some of five users and some of twenty-five, with one to six rows in each of
theirs. Every round is one question with all statistics, so a round has four hundred intervals of each. A quantile has
no interval: what is counted is how often its rank is off by no more than the plan says.
"""

import sys
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import setwise
from setwise.analytics.planning.expected_error import releases_of
from setwise.analytics.query import Count, Mean, Quantile, Query, Sum
from setwise.analytics.statistics import StandardDeviation
from setwise.mechanisms.planning.request import CountNoise, Total
from setwise.mechanisms.planning.statistics import plan_statistics
from setwise.mechanisms.statistics import OneQuantile

USERS, GROUPS, OWN = 4_000, 400, 2
STATISTICS = (
    Count(most=1),
    Count(most=4),
    Sum(column="spent", low=Fraction(-20), high=Fraction(60), step=Fraction(1, 4)),
    Mean(column="spent", low=Fraction(0), high=Fraction(50)),
    Mean(column="minutes", low=Fraction(0), high=Fraction(30), per_user=3),
    StandardDeviation(column="minutes", low=Fraction(0), high=Fraction(30), per_user=3),
    Quantile(column="age", low=Fraction(0), high=Fraction(100)),
)
NAMES = ("users", "rows", "sum", "mean over users", "mean over rows", "standard deviation", "median, in rank")


def table() -> pa.Table:
    """Return the rows; the same at every run."""
    random = np.random.default_rng(20)
    pairs = np.repeat(np.arange(USERS), OWN)
    unequal = np.repeat([1.0, 5.0], GROUPS // 2)
    group = np.array([random.choice(GROUPS, OWN, replace=False, p=unequal / unequal.sum()) for _ in range(USERS)])
    rows = random.integers(1, 7, len(pairs))
    who, where = np.repeat(pairs, rows), np.repeat(group.ravel(), rows)
    return pa.table(
        {
            "who": who,
            "group": where,
            "spent": np.round(random.normal(20, 15, len(who)), 2),
            "minutes": random.integers(-5, 40, len(who)),
            "age": (18 + random.permutation(USERS) % 60)[who],
        }
    )


def exact(rows: pa.Table) -> dict[int, tuple[float, ...]]:
    """Return the exact statistics of every group but the median, of what users add once it is clipped."""
    frame = rows.to_pandas()
    frame["near"] = frame["minutes"].clip(0, 30)
    frame["square"] = frame["near"] ** 2
    own = frame.groupby(["group", "who"]).agg(
        rows=("spent", "size"),
        spent=("spent", "sum"),
        mean=("spent", "mean"),
        minutes=("near", "mean"),
        square=("square", "mean"),
    )
    own["some"] = own["rows"].clip(upper=3)
    own["weighed"], own["squares"] = own["minutes"] * own["some"], own["square"] * own["some"]
    own["rows"] = own["rows"].clip(upper=4)
    own["spent"] = (own["spent"].clip(-20, 60) * 4).add(0.5).floordiv(1) / 4
    own["mean"] = own["mean"].clip(0, 50)
    found = own.groupby("group").agg(
        users=("rows", "size"), rows=("rows", "sum"), spent=("spent", "sum"), mean=("mean", "mean"),
        weighed=("weighed", "sum"), some=("some", "sum"), squares=("squares", "sum"),
    )  # fmt: skip
    found["by_row"] = found["weighed"] / found["some"]
    found["deviation"] = (found["squares"] / found["some"] - found["by_row"] ** 2).clip(lower=0) ** 0.5
    columns = found[["users", "rows", "spent", "mean", "by_row", "deviation"]]
    return {int(label): tuple(map(float, values)) for label, *values in columns.itertuples()}


def ages_of(rows: pa.Table) -> dict[int, NDArray[np.int64]]:
    """Return the ages of the users of every group, sorted."""
    frame = rows.to_pandas().drop_duplicates(["group", "who"])
    return {int(str(label)): np.sort(own["age"].to_numpy()) for label, own in frame.groupby("group")}


def ranks_off(ages: NDArray[np.int64], value: float) -> float:
    """Return how many users are between a value and the median."""
    below, upto = np.searchsorted(ages, value, "left"), np.searchsorted(ages, value, "right")
    return float(max(0.0, below - len(ages) / 2, len(ages) / 2 - upto))


def held(noise: CountNoise, rounds: int) -> Iterator[tuple[str, bool]]:
    """Yield for every interval of some rounds the name of its statistic, and whether it holds the exact number."""
    rows = table()
    truth, ages = exact(rows), ages_of(rows)
    query = Query(item="group", statistics=STATISTICS, contributions=OWN, domain=tuple(range(GROUPS)))
    total = Total(epsilon=Fraction(20), delta=Fraction("1e-6"), counts=noise)
    median = plan_statistics(query.bounds, total, releases_of(query.statistics)).mechanism.statistics[-1]
    assert isinstance(median, OneQuantile)
    with setwise.open(rows, user="who", name="groups") as session:
        for _ in range(rounds):
            for item in session.ask(query, total):
                assert isinstance(item.label, int)
                *estimates, picked = item.estimates
                for name, estimate, number in zip(NAMES, estimates, truth[item.label], strict=False):
                    assert estimate.interval is not None
                    yield name, estimate.interval[0] - 1e-9 <= number <= estimate.interval[1] + 1e-9
                off = ranks_off(ages[item.label], picked.value)
                yield NAMES[-1], off <= median.rank_error(Fraction(19, 20))


def coverage(noise: CountNoise, rounds: int) -> dict[str, float]:
    """Return the share of intervals that hold, by statistic."""
    found: dict[str, list[bool]] = {name: [] for name in NAMES}
    for name, holds in held(noise, rounds):
        found[name].append(holds)
    return {name: float(np.mean(holds)) for name, holds in found.items()}


def main() -> None:
    rounds = int(sys.argv[1]) if sys.argv[1:] else 10
    print(f"| {rounds * GROUPS:,} of each, 95% asked for | {' | '.join(NAMES)} |")
    print("|---" * (len(NAMES) + 1) + "|")
    for noise in (CountNoise.LAPLACE, CountNoise.GAUSSIAN):
        print(f"| {noise} | {' | '.join(f'{100 * each:.1f}%' for each in coverage(noise, rounds).values())} |")


if __name__ == "__main__":
    main()
