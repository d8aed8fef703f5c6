"""What an analytics team calibrates: the value found, how close it is to the best, and the time.

    python benchmarks/calibrations.py [--json]          calibrations
    python benchmarks/calibrations.py --plans [--json]  questions in SQL, from text to plan, and a report of ten

Times are processor seconds of one run in a process that is warm; the aim is 2 seconds. `room` is the share of epsilon
that the value leaves: the target less the lower end of the epsilon of the uses found, over the target.

Plans are those of a table with a user, two text columns, a real and a whole one. Nothing that a plan composes is
remembered from the run before; the time is the least of the rounds, and the aim is 50 ms for a question.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from setwise.accounting.calibrate import FIND, Calibrated, parse_plan
from setwise.analytics.planning import Plan, plan_query
from setwise.analytics.pricing import Priced, price
from setwise.analytics.schema import Column, Kind, Schema
from setwise.analytics.sql.parser import parse_sql
from setwise.mechanisms.planning import cost
from setwise.mechanisms.planning.request import Total
from setwise.reports.report import Question


@dataclass(frozen=True, slots=True)
class Calibration:
    """Uses with one ? and the target they are to meet."""

    uses: str
    epsilon: float
    delta: float = 1e-6
    interaction: str = "setwise"


CALIBRATIONS = (
    Calibration("gaussian:?x25", 1.0),
    Calibration("laplace:?x100", 1.0),
    Calibration("pure:?x1000", 2.0),
    Calibration("bounded-range:?x25", 1.0),
    Calibration("bounded-range:?x100", 1.0),
    Calibration("bounded-range:?x1000", 2.0),
    Calibration("bounded-range:?x10000", 2.0),
    Calibration("bounded-range:?x100", 1.0, 1e-12),
    Calibration("bounded-range:?x100", 1.0, interaction="batch"),
    Calibration("bounded-range:0.1x100 gaussian:?x100", 3.0),
    Calibration("bounded-range:0.1x100 laplace:?x100", 4.0),
    Calibration("bounded-range:?x50 gaussian:20x50", 3.0),
    Calibration("bounded-range:0.5x5 bounded-range:0.2x10 bounded-range:?x100", 3.0),
    Calibration("bounded-range:0.1x?", 2.0),
    Calibration("bounded-range:0.01x?", 8.306),
    Calibration("bounded-range:0.1x50 pure:0.05x?", 3.0),
    Calibration("gaussian:20x?", 2.0, interaction="adaptive"),
    Calibration("zcdp:0.001x? gaussian:20x10", 2.0),
)


def measured(wanted: Calibration) -> tuple[Calibrated, float]:
    """Return what was found and the processor seconds it took."""
    started = time.process_time()
    free, plan = parse_plan(wanted.uses.split())
    found = FIND[free](plan, epsilon=wanted.epsilon, delta=wanted.delta, interaction=wanted.interaction)
    return found, time.process_time() - started


SCHEMA = Schema(
    tuple(
        Column(name=name, kind=kind)
        for name, kind in (
            ("u", Kind.INTEGER),
            ("g", Kind.TEXT),
            ("h", Kind.TEXT),
            ("v", Kind.FLOAT),
            ("w", Kind.INTEGER),
        )
    )
)
MEAN, MEDIAN, USERS = (
    "AVG(v, contribution_bounds_per_group => (0, 100)) AS mean",
    "MEDIAN(v, contribution_bounds_per_row => (0, 100)) AS median",
    "COUNT(DISTINCT u) AS users",
)
ROWS, SUM = (
    "COUNT(*, contribution_bounds_per_group => (0, 5)) AS n",
    "SUM(w, contribution_bounds_per_group => (0, 50)) AS sum",
)
FOUR = f"{ROWS}, {MEAN}, {MEDIAN}, {SUM}"
TOP = "FROM t GROUP BY g ORDER BY users DESC LIMIT"
PLANS = {
    "count": (f"SELECT {USERS} FROM t", None),
    "histogram": (f"SELECT g, {USERS} FROM t GROUP BY g", 3),
    "top 10": (f"SELECT g, {USERS} {TOP} 10", None),
    "top 100": (f"SELECT g, {USERS} {TOP} 100", None),
    "mean": (f"SELECT {MEAN} FROM t", None),
    "mean per group": (f"SELECT g, {MEAN} FROM t GROUP BY g", 3),
    "median per group": (f"SELECT g, {MEDIAN} FROM t GROUP BY g", 3),
    "four statistics": (f"SELECT g, {FOUR} FROM t GROUP BY g", 3),
    "four, 10 contributions": (f"SELECT g, {FOUR} FROM t GROUP BY g", 10),
    "mean by two columns": (f"SELECT g, h, {MEAN} FROM t GROUP BY g, h", 3),
    "users, mean, median by two": (f"SELECT g, h, {USERS}, {MEAN}, {MEDIAN} FROM t GROUP BY g, h", 3),
    "mean of the top 10": (f"SELECT g, {USERS}, {MEAN} {TOP} 10", 10),
    "median of the top 10": (f"SELECT g, {USERS}, {MEDIAN} {TOP} 10", 10),
}
"""Questions and how many groups a user counts towards."""

TOTALS = ((1.0, 1e-6), (0.5, 1e-6), (2.0, 1e-8))


def forget() -> None:
    """Forget the prices of the run before."""
    for remembered in (cost._composed, getattr(cost, "_searched", cost._composed)):
        remembered.cache_clear()


def least(call: Callable[[], object], rounds: int = 3) -> float:
    """Return the least processor time of a call in milliseconds, nothing remembered, the first round left out."""
    times = []
    for _ in range(rounds + 1):
        forget()
        started = time.process_time()
        call()
        times.append(1e3 * (time.process_time() - started))
    return min(times[1:])


def plans() -> dict[str, tuple[list[float], float]]:
    """Return the milliseconds of each question for every total, and the epsilon spent of the first."""
    found = {}
    for name, (text, contributions) in PLANS.items():

        def planned(epsilon: float, delta: float, text: str = text, contributions: int | None = contributions) -> Plan:
            statement = parse_sql(text, user="u", contributions=contributions)
            total = Total(epsilon=Fraction(str(epsilon)), delta=Fraction(str(delta)))
            return plan_query(statement.query, total, "u", SCHEMA, None).plan

        times = [least(lambda total=total: planned(*total)) for total in TOTALS]  # type: ignore[misc]
        found[name] = times, planned(*TOTALS[0]).epsilon.upper
    queries = {name: parse_sql(text, user="u", contributions=many).query for name, (text, many) in PLANS.items()}
    asked = [Question(name=name, query=query, weight=1.0, to=()) for name, query in list(queries.items())[:10]]

    def report(epsilon: float, delta: float) -> Priced:
        return price(asked, user="u", schemas=[SCHEMA] * len(asked), epsilon=epsilon, delta=delta)

    times = [least(lambda total=total: report(*total), 1) for total in TOTALS[:1]]  # type: ignore[misc]
    found["report of the first ten"] = times, report(*TOTALS[0]).promise.upper
    return found


def main() -> None:
    """Print the table, or one object of rooms and times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one object: room and seconds by calibration")
    parser.add_argument("--plans", action="store_true", help="questions in SQL instead of calibrations")
    arguments = parser.parse_args()
    if arguments.plans:
        seen = plans()
        if arguments.json:
            print(json.dumps({f"{name} ms": max(times) for name, (times, _) in seen.items()}, indent=1))
            return
        print(f"{'question':30}" + "".join(f"{f'{e:g}, {d:g}':>12}" for e, d in TOTALS) + f"{'spent of 1':>12}")
        for name, (times, spent) in seen.items():
            print(f"{name:30}" + "".join(f"{each:9.1f} ms" for each in times) + f"{spent:>{12 * (4 - len(times))}.4f}")
        return
    measured(Calibration("bounded-range:0.1x20 laplace:10x20 gaussian:?x3", 3.0))
    lines = []
    for wanted in CALIBRATIONS:
        found, seconds = measured(wanted)
        room = 1.0 - found.composition.epsilon(wanted.delta).lower / wanted.epsilon
        lines.append((wanted, found, room, seconds))
    if arguments.json:
        named = {f"{w.uses} {w.delta:g} {w.interaction}": {"room": r, "seconds": s} for w, _, r, s in lines}
        print(json.dumps(named, indent=1))
        return
    print(f"{'uses':62}{'epsilon':>8}{'delta':>7}  {'interaction':12}{'found':>12}{'room':>9}{'time':>9}")
    for wanted, found, room, seconds in lines:
        print(
            f"{wanted.uses:62}{wanted.epsilon:8g}{wanted.delta:7.0e}  {wanted.interaction:12}{found.value:12.6g}"
            f"{room:9.3%}{seconds:7.2f} s"
        )


if __name__ == "__main__":
    main()
