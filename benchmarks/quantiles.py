"""Several quantiles of one column at epsilon 1: picked one by one, or by halving, in ranks off.

    python benchmarks/quantiles.py [RUNS]       the table of docs/statistics.md

Columns are made to resemble real ones: values that many people share, few share, or hardly any two. A quantile is off
by the number of people between it and the rank asked for, 0 where the value picked has it. `ties dropped` halves as
Kaplan, Schnapp and Stemmer do for values that are all different: what equals a cut is in neither slice.
"""

import sys
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from setwise.mechanisms.quantile import GridQuantiles, rank_scores, score_range
from setwise.mechanisms.randomness import SystemRandomness
from setwise.mechanisms.sampling.gumbel import gumbel_order

Counts = NDArray[np.int64]
RANDOMNESS = SystemRandomness()
SETS = {
    "quartiles": tuple(Fraction(number, 4) for number in range(1, 4)),
    "5, 25, 50, 75, 95%": tuple(Fraction(number, 20) for number in (1, 5, 10, 15, 19)),
    "deciles": tuple(Fraction(number, 10) for number in range(1, 10)),
    "sixteenths": tuple(Fraction(number, 16) for number in range(1, 16)),
}


def columns() -> dict[str, Counts]:
    """Return how many people have each value of a grid, by what the values are; the same at every run."""
    random = np.random.default_rng(1)

    def held(values: NDArray[np.float64], most: int) -> Counts:
        return np.bincount(np.clip(np.round(values), 0, most).astype(np.int64), minlength=most + 1)

    ages = np.where(random.random(6040) < 0.3, random.normal(19, 4, 6040), random.normal(36, 12, 6040))
    bands = random.choice([1, 18, 25, 35, 45, 50, 56], 6040, p=[0.037, 0.183, 0.347, 0.197, 0.091, 0.082, 0.063])
    hours = np.where(random.random(2000) < 0.45, 40.0, random.normal(40, 12, 2000))
    return {
        "ages, 6,040 people": held(ages.clip(13, 90), 100),
        "ages, 500 people": held(random.normal(40, 14, 500), 120),
        "seven age bands": held(bands, 100),
        "hours of work, 45% at 40": held(hours, 100),
        "minutes, lognormal": held(random.lognormal(4.2, 1.0, 6040), 1440),
        "income, lognormal": held(random.lognormal(3.8, 0.7, 3000), 1000),
        "spending, 60% at 0": held(np.where(random.random(3000) < 0.6, 0.0, random.lognormal(4, 1, 3000)), 1000),
        "delays, Laplace": held(random.laplace(57, 18, 10_000), 360),
        "mean stars, normal": held(random.normal(260, 45, 6040), 400),
        "uniform": held(random.uniform(0, 1000, 4000), 1000),
        "stars, 1 to 5": held(random.choice(5, 6040, p=[0.06, 0.11, 0.26, 0.35, 0.22]).astype(float), 4),
        "a group of 60 ages": held(random.normal(36, 12, 60), 100),
    }


def one_by_one(counts: Counts, shares: Sequence[Fraction]) -> list[int]:
    """Return the quantiles, each by a pick of its own, sorted."""
    each = Fraction(1, len(shares))
    picks = [GridQuantiles(shares=(share,), cells=len(counts), epsilon=each) for share in shares]
    return sorted(pick.pick(counts, RANDOMNESS)[0] for pick in picks)


def halved(counts: Counts, shares: Sequence[Fraction]) -> list[int]:
    """Return the quantiles by halving."""
    levels = len(shares).bit_length()
    picks = GridQuantiles(shares=tuple(shares), cells=len(counts), epsilon=Fraction(1, levels))
    return list(picks.pick(counts, RANDOMNESS))


def ties_dropped(counts: Counts, shares: Sequence[Fraction]) -> list[int]:
    """Return the quantiles by halving where the values of the cell that is picked are in neither slice."""
    epsilon = Fraction(1, len(shares).bit_length())

    def picked(start: int, stop: int, low: Fraction, high: Fraction, wanted: Sequence[Fraction]) -> list[int]:
        if not wanted:
            return []
        start, stop = min(start, len(counts) - 1), max(stop, 1)
        stop = max(stop, start + 1)
        middle = len(wanted) // 2
        share = (wanted[middle] - low) / (high - low)
        scores = rank_scores(counts[start:stop], share)
        cell = start + int(gumbel_order(scores, epsilon / score_range(share), 1, RANDOMNESS)[0])
        before = picked(start, cell, low, wanted[middle], wanted[:middle])
        return [*before, cell, *picked(cell + 1, stop, wanted[middle], high, wanted[middle + 1 :])]

    return picked(0, len(counts), Fraction(0), Fraction(1), shares)


def off(counts: Counts, shares: Sequence[Fraction], cells: Sequence[int]) -> float:
    """Return by how many ranks quantiles are off, on average."""
    found = [-rank_scores(counts, share)[cell] / share.denominator for share, cell in zip(shares, cells, strict=True)]
    return float(np.mean(found))


WAYS: tuple[tuple[str, Callable[[Counts, Sequence[Fraction]], list[int]]], ...] = (
    ("one by one", one_by_one),
    ("ties dropped", ties_dropped),
    ("halved", halved),
)


def main() -> None:
    runs = int(sys.argv[1]) if sys.argv[1:] else 100
    print(f"| ranks off: {', '.join(name for name, _ in WAYS)} | {' | '.join(SETS)} |")
    print("|---" * (len(SETS) + 1) + "|")
    for title, counts in columns().items():
        cells = []
        for shares in SETS.values():
            means = [np.mean([off(counts, shares, way(counts, shares)) for _ in range(runs)]) for _, way in WAYS]
            cells.append(", ".join(f"{each:.2g}" if each < 100 else f"{each:.0f}" for each in means))
        print(f"| {title} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
