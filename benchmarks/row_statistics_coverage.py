"""How many 95% intervals of statistics over rows, distinct counts and found bounds hold, in small and large groups.

    python benchmarks/row_statistics_coverage.py [--small ROUNDS] [--large ROUNDS] [--json]

Small groups have 8 users each (400 groups), large ones 500 (20 groups). A user is in one group, with one to six rows
in it, so that the noises of groups are independent. A round is one question about all groups for each line of the
table. What an interval must hold is the number after bounding: rows are clipped to the bounds, also to bounds that the
same answer found, and a user with many rows weighs as much as `per_user` of them. A quantile has no interval: counted
is how often its rank, with one vote per user divided among the user's rows, is off by no more than the plan says.

The script stops with an error if a share is below 95% by more than chance explains with probability one in a million.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
from scipy.stats import binom

import setwise
from setwise.analytics.answer import PrivateAnswer
from setwise.analytics.planning.expected_error import releases_of
from setwise.analytics.query import Mean, Quantile, Query, Sum
from setwise.analytics.statistics import Distinct, StandardDeviation, Statistic, Variance
from setwise.mechanisms.planning.request import CountNoise, Total
from setwise.mechanisms.planning.statistics import plan_statistics
from setwise.mechanisms.statistics import OneQuantile

CLAIM, CHANCE = 0.95, 1e-6
"""The share of intervals that must hold, and the probability with which chance alone may stop the script."""

LOW, HIGH, STEP, KEPT = 0, 30, 1, 3
EPSILON = Fraction(4)

Frame: TypeAlias = Any
"""A pandas table: the library that is installed has no types."""

Column: TypeAlias = Any
"""A pandas column of numbers by team."""


def rows_of(groups: int, users: int) -> Frame:
    """Return the rows of `groups` groups of `users` users each; the same at every run."""
    random = np.random.default_rng(groups)
    rows = random.integers(1, 7, groups * users)
    who = np.repeat(np.arange(groups * users), rows)
    return pd.DataFrame(
        {
            "who": who,
            "team": who // users,
            "minutes": random.integers(-5, 45, len(who)),
            "spent": np.round(random.lognormal(3.0, 0.8, len(who)), 2),
            "page": random.integers(0, 40, len(who)),
        }
    )


def weighed(rows: Frame) -> Frame:
    """Return the first two moments of the clipped minutes by team, with a user's rows weighing `KEPT` at most."""
    near = rows["minutes"].clip(LOW, HIGH)
    own = rows.assign(near=near, square=near**2).groupby(["team", "who"])
    means = own[["near", "square"]].mean().mul(own.size().clip(upper=KEPT), axis=0)
    return means.groupby("team").sum().div(own.size().clip(upper=KEPT).groupby("team").sum(), axis=0)


def exact_variance(rows: Frame, _: PrivateAnswer) -> Column:
    """Return the variance of every team."""
    moments = weighed(rows)
    return (moments["square"] - moments["near"] ** 2).clip(lower=0)


def exact_deviation(rows: Frame, answer: PrivateAnswer) -> Column:
    """Return the standard deviation of every team."""
    return exact_variance(rows, answer) ** 0.5


def exact_distinct(rows: Frame, _: PrivateAnswer) -> Column:
    """Return the number of distinct pages of every team; no user has more pages than are kept."""
    return rows.groupby("team")["page"].nunique()


def found_bounds(answer: PrivateAnswer, column: str) -> tuple[float, float]:
    """Return the bounds (low, high) of a column that the answer found."""
    found: Any = (answer.found or {})[column]
    return float(found[0]), float(found[1])


def exact_sum(rows: Frame, answer: PrivateAnswer) -> Column:
    """Return the sum of minutes of every team, each user's own sum clipped to the bounds that the answer found."""
    low, high = found_bounds(answer, "minutes")
    own = rows.groupby(["team", "who"])["minutes"].sum()
    return own.clip(low, high).groupby("team").sum()


def exact_mean(rows: Frame, answer: PrivateAnswer) -> Column:
    """Return the mean of every team over users, each user's own mean clipped to the bounds that the answer found."""
    low, high = found_bounds(answer, "spent")
    own = rows.groupby(["team", "who"])["spent"].mean()
    return own.clip(low, high).groupby("team").mean()


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the table: its name, its statistic, and the function that computes what an interval must hold."""

    name: str
    statistic: Statistic
    exact: Callable[[Frame, PrivateAnswer], Column]


LINES = (
    Line("variance", Variance(column="minutes", low=LOW, high=HIGH, per_user=KEPT), exact_variance),
    Line("standard deviation", StandardDeviation(column="minutes", low=LOW, high=HIGH, per_user=KEPT), exact_deviation),
    Line("distinct values", Distinct(column="page", per_user=6), exact_distinct),
    Line("sum, bounds found", Sum(column="minutes", bounds="auto"), exact_sum),
    Line("mean, bounds found", Mean(column="spent", bounds="auto"), exact_mean),
)
SHARES = (Fraction(1, 2), Fraction(9, 10))


def asked(statistic: Statistic, groups: int) -> Query:
    """Return the question for one statistic of all groups, which are public."""
    return Query(item="team", statistics=(statistic,), contributions=1, domain=tuple(range(groups)))


def held(line: Line, rows: Frame, session: setwise.Session, total: Total, rounds: int) -> Iterator[bool]:
    """Yield for every interval of some rounds whether it holds the exact number."""
    query = asked(line.statistic, rows["team"].nunique())
    for _ in range(rounds):
        answer = session.ask(query, total)
        truth = line.exact(rows, answer)
        for item in answer.items:
            interval = item.estimates[0].interval
            assert interval is not None
            yield bool(interval[0] - 1e-9 <= truth[item.label] <= interval[1] + 1e-9)


def ranks_held(share: Fraction, rows: Frame, session: setwise.Session, total: Total, rounds: int) -> Iterator[bool]:
    """Yield for every quantile of some rounds whether its rank is off by no more users than the plan says."""
    query = asked(Quantile(column="minutes", low=LOW, high=HIGH, at=share, step=STEP), rows["team"].nunique())
    (release,) = plan_statistics(query.bounds, total, releases_of(query.statistics)).mechanism.statistics
    assert isinstance(release, OneQuantile)
    allowed = release.rank_error(Fraction(19, 20))
    near = rows["minutes"].clip(LOW, HIGH)
    votes = rows.assign(near=near, vote=1.0 / rows.groupby("who")["who"].transform("size"))
    by_value = votes.pivot_table(index="team", columns="near", values="vote", aggfunc="sum", fill_value=0.0)
    upto = by_value.cumsum(axis=1)
    for _ in range(rounds):
        for item in session.ask(query, total).items:
            value, rank = item.estimates[0].value, float(share) * upto.loc[item.label].iloc[-1]
            after = upto.loc[item.label].get(value, None)
            above = upto.loc[item.label][upto.columns <= value].iloc[-1] if after is None else after
            below = above - by_value.loc[item.label].get(value, 0.0)
            # Votes are whole thousandths of a user, so that a rank may differ by a thousandth for each user.
            slack = 1e-3 * rows[rows["team"] == item.label]["who"].nunique() if value in by_value.columns else 1.0
            yield bool(max(0.0, below - rank, rank - above) <= allowed + slack)


def shares_held(groups: int, users: int, noise: CountNoise, rounds: int) -> dict[str, tuple[int, int]]:
    """Return for every line the number of intervals that hold and the number of intervals."""
    rows = rows_of(groups, users)
    total = Total(epsilon=EPSILON, delta=Fraction("1e-6"), counts=noise)
    found: dict[str, tuple[int, int]] = {}
    with setwise.open(pa.Table.from_pandas(rows), user="who", name="rows") as session:
        outcomes = [(line.name, held(line, rows, session, total, rounds)) for line in LINES]
        if noise is CountNoise.LAPLACE:  # picks take no noise, so that one kind is enough
            outcomes += [
                (f"quantile {float(share):g}, in rank", ranks_held(share, rows, session, total, rounds))
                for share in SHARES
            ]
        for name, outcome in outcomes:
            holds = list(outcome)
            found[name] = sum(holds), len(holds)
    return found


def main() -> None:
    """Measure, print the table, and stop with an error if a share is too small to be chance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", type=int, default=8, help="rounds with 400 groups of 8 users")
    parser.add_argument("--large", type=int, default=100, help="rounds with 20 groups of 500 users")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    columns = {}
    for noise in (CountNoise.LAPLACE, CountNoise.GAUSSIAN):
        columns[f"8 users, {noise}"] = shares_held(400, 8, noise, given.small)
        columns[f"500 users, {noise}"] = shares_held(20, 500, noise, given.large)
    shares = {f"{name}, {column}": counts for column, of in columns.items() for name, counts in of.items()}
    if given.json:
        print(json.dumps({name: holds / number for name, (holds, number) in shares.items()}, indent=1))
    else:
        names = list(columns["8 users, laplace"])
        print(f"| 95% asked for | {' | '.join(columns)} |")
        print("|---" * (len(columns) + 1) + "|")
        for name in names:
            counts = [of.get(name) for of in columns.values()]
            cells = ["" if each is None else f"{each[0] / each[1]:.1%} of {each[1]:,}" for each in counts]
            print(f"| {name} | {' | '.join(cells)} |")
    short = {name: counts for name, counts in shares.items() if binom.cdf(counts[0], counts[1], CLAIM) < CHANCE}
    if short:
        raise SystemExit(f"fewer intervals hold than 95%: {short}")


if __name__ == "__main__":
    main()
