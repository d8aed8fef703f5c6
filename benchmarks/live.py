"""A year of running totals: errors, coverage and when items appear, beside 365 separate questions; time of one update.

    python benchmarks/live.py year      365 days, 2,000 items, 100,000 users
    python benchmarks/live.py coverage  the same year 100 times with fresh noise: how often intervals hold
    python benchmarks/live.py update    one day on top of 10 million rows

The users of the first two benchmarks, and the rows of the third, can be given with --size, and the repetitions of the
second with --runs. With --json one object is printed, whose ratios are ours over theirs.
"""

import argparse
import json
import math
import tempfile
import time
from datetime import date, timedelta
from fractions import Fraction
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.special import ndtri
from scipy.stats import binom

import setwise
from setwise.analytics.engines.connect import open_engine
from setwise.ledger.ledger import Ledger
from setwise.live.parquet_rows import recent_rows
from setwise.live.reading import aggregation_of, first_day_read, open_table
from setwise.live.series import LiveSeries, find_live, open_live
from setwise.mechanisms.randomness import SystemRandomness
from setwise.mechanisms.running_totals import RunningTotals

START = date(2025, 1, 1)
TODAY = date(2026, 11, 1)
DAYS, ITEMS, CONTRIBUTIONS = 365, 2000, 10
EPSILON, DELTA = 1.0, 1e-6


def write_events(path: Path, users: int, rows: int, items: int, seed: int = 1) -> None:
    """Write events in the order of their time; few items are popular, and users differ in how active they are."""
    random = np.random.default_rng(seed)
    active = random.pareto(2.0, users) + 0.3
    who = np.searchsorted(np.cumsum(active / active.sum()), random.random(rows)).clip(0, users - 1)
    weights = 1.0 / np.arange(1, items + 1)
    what = np.searchsorted(np.cumsum(weights / weights.sum()), random.random(rows)).clip(0, items - 1)
    seconds = np.sort(random.integers(0, DAYS * 86_400, rows))
    first = np.datetime64(START.isoformat(), "s")
    names = [f"title {place:04d}" for place in range(items)]
    labels = pa.DictionaryArray.from_arrays(pa.array(what, pa.int32()), names).cast(pa.string())
    table = pa.table({"user": who, "item": labels, "at": pa.array(first + seconds).cast(pa.timestamp("us"))})
    pq.write_table(table, path, row_group_size=100_000)


def open_year(ledger: Ledger, table: Path, folder: Path, name: str, **words: object) -> LiveSeries:
    """Open a series of a year on a table, with its state in the folder."""
    return open_live(
        ledger, name, str(table), user="user", item="item", at="at", every="day", start=START, periods=DAYS,
        contributions=CONTRIBUTIONS, epsilon=EPSILON, delta=DELTA, state=str(folder / f"{name}.live.db"),
        **words,  # type: ignore[arg-type]
    )  # fmt: skip


def exact_counts(series: LiveSeries) -> dict[str, np.ndarray]:
    """Return the exact totals under the noise, which only the state knows."""
    from setwise.live.states.base import join_batches
    from setwise.live.states.connect import open_state

    with open_state(series.opening.state, series.name) as state:
        history = join_batches(state.batches())
    return {str(label): history.counts[place].cumsum() for place, label in enumerate(history.labels)}


def year(users: int) -> dict[str, float]:
    """Measure a year of public and of private items, and separate questions at the same promise."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        table = folder / "events.parquet"
        write_events(table, users, 15 * users, ITEMS)
        labels = [f"title {place:04d}" for place in range(ITEMS)]
        with Ledger.open(str(folder / "ledger.db")) as ledger:
            for name, domain in (("public", labels), ("private", None)):
                series = open_year(ledger, table, folder, name, domain=domain)
                began = time.perf_counter()
                series.update(until=START + timedelta(days=DAYS), today=TODAY)
                found[f"{name} seconds for 365 days at once"] = time.perf_counter() - began
                found |= _measured(name, series)
            found |= _separate(ledger, table, find_live(ledger, "public").totals)
    return found


def _measured(name: str, series: LiveSeries) -> dict[str, float]:
    totals, released = series.totals, series.released()
    exact = exact_counts(series)
    truth = np.array([exact[str(label)] for label in released.labels])
    errors = totals.estimates(released.noisy) - truth
    shown = np.array([np.arange(DAYS) >= first for first in released.shown_from])
    lines = series.view().lines
    ends = np.array([line.intervals for line in lines]).reshape(len(lines), DAYS, 2)
    inside = (ends[:, :, 0] <= truth) & (truth <= ends[:, :, 1])
    coverage = np.array([inside[shown[:, day], day].mean() for day in range(DAYS) if shown[:, day].any()])
    found = {
        f"{name} items shown": float(len(released.labels)),
        f"{name} predicted deviation, last day": float(totals.deviations()[-1]),
        f"{name} measured deviation, last day": float(errors[shown[:, -1], -1].std()),
        f"{name} measured deviation, all days over predicted": float(
            np.sqrt((errors[shown] ** 2 / np.broadcast_to(totals.deviations() ** 2, errors.shape)[shown]).mean())
        ),
        f"{name} within, 95%": float(totals.radii(Fraction(95, 100))[-1]),
        f"{name} least coverage of a day": float(coverage.min()),
        f"{name} mean coverage": float(coverage.mean()),
        f"{name} coverage of all items and days": float(inside[shown].mean()),
    }
    windows = totals.estimates(released.noisy, 28)
    found[f"{name} measured deviation, 28 days"] = float(
        (windows[:, -1] - (truth[:, -1] - truth[:, -29]))[shown[:, -1]].std()
    )
    found[f"{name} predicted deviation, 28 days"] = float(totals.deviations(28)[-1])
    if totals.failure is not None:
        threshold = totals.thresholds()
        passing = {label: counts > threshold for label, counts in exact.items()}
        predicted = {label: np.argmax(passes) for label, passes in passing.items() if passes.any()}
        first = dict(zip(map(str, released.labels), released.shown_from, strict=True))
        late = [first[label] - day for label, day in predicted.items() if label in first]
        found[f"{name} shown from, users"] = float(threshold[-1])
        found[f"{name} items above the threshold"] = float(len(predicted))
        found[f"{name} shown days after their count passes it, median"] = float(np.median(late))
        counts = [exact[label][day] for label, day in first.items()]
        found[f"{name} count when first shown, median"] = float(np.median(counts))
    return found


def _separate(ledger: Ledger, table: Path, totals: RunningTotals) -> dict[str, float]:
    """Ask separate questions on some days, each with the noise that 365 of them need for the same promise.

    They are about items that nobody has, so that what comes out is the noise itself.
    """
    sigma = totals.sigma * math.sqrt(DAYS * CONTRIBUTIONS)
    ledger.open_setwise("separate", [f"gaussian:{sigma!r}x{DAYS * CONTRIBUTIONS}"], delta=DELTA)
    absent = [f"absent {place}" for place in range(ITEMS)]
    noise: list[int] = []
    with setwise.open(str(table), user="user", account=ledger.account("separate"), dataset="") as session:
        for day in range(60, DAYS, 100):
            until = START + timedelta(days=day + 1)
            answer = session.histogram(
                item="item", counts=f"gaussian:{sigma!r}", contributions=CONTRIBUTIONS, domain=absent,
                where=f"at < '{until.isoformat()}'",
            )  # fmt: skip
            noise += [item.noisy for item in answer.items if item.noisy is not None]
    deviation = float(np.std(noise))
    return {
        "separate questions, predicted deviation": sigma,
        "separate questions, measured deviation": deviation,
        "separate questions within, 95%": -float(ndtri(0.025)) * deviation,
        "running totals over separate questions": float(totals.deviations()[-1]) / deviation,
    }


_LEAST_TOTAL = 30
"""Items with fewer users in the year are left out of `coverage`: one of them is shown once in a million runs."""


def coverage(users: int, runs: int) -> dict[str, float]:
    """Count how often the 95% intervals of shown private items hold the truth, over independent runs of one year.

    Within one run the errors of an item on neighbouring days are almost equal, so that one unlucky item lowers the
    share of many days. Between runs, and between items, they are independent. So each day of all runs is compared with
    a binomial law: the result has the smallest probability, over all days, of a share as low as the one found if every
    interval holds with probability 95%. With 365 days, 1e-5 would be a reason to doubt it.
    """
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        table = folder / "events.parquet"
        write_events(table, users, 15 * users, ITEMS)
        with Ledger.open(str(folder / "ledger.db")) as ledger:
            series = open_year(ledger, table, folder, "private")
            series.update(until=START + timedelta(days=DAYS), today=TODAY)
            totals, exact = series.totals, exact_counts(series)
    truth = np.array([counts for counts in exact.values() if counts[-1] >= _LEAST_TOTAL])
    new_users = np.diff(truth, axis=1, prepend=0)
    confidence, thresholds, radii = Fraction(95, 100), totals.thresholds(), totals.radii(Fraction(95, 100))
    kinds = ("corrected", "usual", "first day", "below the threshold", "earlier days")
    held, seen = ({kind: np.zeros(DAYS, dtype=np.int64) for kind in kinds} for _ in range(2))
    worst_run = 1.0
    for _ in range(runs):
        noise = totals.draw(new_users.size, SystemRandomness()).reshape(new_users.shape)
        released = totals.release(new_users, noise)
        estimates = totals.estimates(released)
        passes = (estimates > thresholds) & (truth > 0)
        some = passes.any(axis=1)
        first, exactly, estimates = passes[some].argmax(axis=1), truth[some], estimates[some]
        shown = np.arange(DAYS) >= first[:, np.newaxis]
        lower, upper = totals.intervals(released[some], confidence, None, first)
        lower, upper = np.maximum(np.floor(lower), 0), np.maximum(np.ceil(upper), 0)
        inside = (lower <= exactly) & (exactly <= upper)
        chosen = {
            "corrected": (inside, shown),
            "usual": (np.abs(estimates - exactly) <= radii, shown),
            "first day": (inside, np.arange(DAYS) == first[:, np.newaxis]),
            "below the threshold": (inside, shown & (exactly < thresholds)),
            "earlier days": (inside, ~shown),
        }
        for kind, (holds, cells) in chosen.items():
            held[kind] += (holds & cells).sum(axis=0)
            seen[kind] += cells.sum(axis=0)
        shares = (inside & shown).sum(axis=0)[shown.any(axis=0)] / shown.sum(axis=0)[shown.any(axis=0)]
        worst_run = min(worst_run, float(shares.min()))
    found = {"runs": float(runs), "least share of a day in one run": worst_run}
    for kind in kinds:
        days = seen[kind] > 0
        share = held[kind][days] / seen[kind][days]
        often = seen[kind][days] >= 1000
        found[f"{kind}: intervals"] = float(seen[kind].sum())
        found[f"{kind}: share that holds"] = float(held[kind].sum() / seen[kind].sum())
        if often.any():
            found[f"{kind}: least share of a day with 1,000 intervals or more"] = float(share[often].min())
        found[f"{kind}: least binomial probability of a day"] = float(np.min(binom.cdf(held[kind], seen[kind], 0.95)))
    return found


def update(rows: int) -> dict[str, float]:
    """Measure the update of one day on a table of a year, beside the engine's own work on that day and on all."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        table = folder / "events.parquet"
        write_events(table, rows // 50, rows, ITEMS)
        last = START + timedelta(days=DAYS)
        with Ledger.open(str(folder / "ledger.db")) as ledger:
            for late in (0, 7):
                series = open_year(ledger, table, folder, f"late{late}", late_days=late)
                began = time.perf_counter()
                series.update(until=last - timedelta(days=1), today=TODAY)
                found[f"late {late}: seconds for the first 364 days at once"] = time.perf_counter() - began
                with open_table(str(table), {}) as engine:
                    schema = engine.describe()
                began = time.perf_counter()
                rows_read = recent_rows(series.terms, schema, first_day_read(series.terms, DAYS - 1), last)
                assert rows_read is not None
                with open_engine(rows_read) as engine:
                    engine.user_groups(aggregation_of(series.terms, engine.describe(), DAYS - 1, DAYS))
                found[f"late {late}: seconds to read the new rows and pair them"] = time.perf_counter() - began
                found[f"late {late}: rows read"] = float(rows_read.num_rows)
                began = time.perf_counter()
                series.update(until=last, today=TODAY)
                found[f"late {late}: seconds for the last day"] = time.perf_counter() - began
        began = time.perf_counter()
        duckdb.execute(f"SELECT COUNT(*) FROM (SELECT DISTINCT \"user\", item FROM '{table}')").fetchall()
        found["seconds of the engine for all rows"] = time.perf_counter() - began
        found["rows of the last day"] = float(
            duckdb.execute(f"SELECT COUNT(*) FROM '{table}' WHERE \"at\" >= DATE '{last}' - 1").fetchall()[0][0]
        )
    return found


def main() -> None:
    """Run one of the benchmarks and print what it found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", choices=["year", "coverage", "update"])
    parser.add_argument("--size", type=int)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    if given.which == "update":
        found = update(given.size or 10_000_000)
    elif given.which == "coverage":
        found = coverage(given.size or 100_000, given.runs)
    else:
        found = year(given.size or 100_000)
    if given.json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:<60}{value:>14,.4g}")


if __name__ == "__main__":
    main()
