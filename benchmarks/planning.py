"""Processor time of planning a question: from SQL text to the certified plan, for every shape of question.

    python benchmarks/planning.py                        a table for people
    python benchmarks/planning.py --json                 milliseconds by shape: the largest of all budgets
    python benchmarks/planning.py --before FILE          the table with a column of an earlier run's --json
    python -m benchmarks.planning --statements           everyday statements on open tables (from the repository)

Each plan is made for a table with a user column, two text columns, a real and a whole one, and for each of five
budgets. The process is warm, but nothing about the question is remembered: a shape is first planned once for another
budget, and every measured plan has an epsilon that the process has not seen (up to 2% above the stated one), so that no
cache knows its noise scales and prices. A time is the least of a few rounds, because other work on the machine makes
rounds slower and never faster. The aim is 50 ms for every shape.

The last lines have the time of the first plan of a new process, which also imports and builds what later plans share.
"""

import argparse
import contextlib
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import setwise
from setwise.analytics.planning.joint_pricing import price
from setwise.analytics.planning.plan import Plan, plan_query
from setwise.analytics.query import Contributions
from setwise.analytics.schema import Column, Kind, Schema
from setwise.analytics.sql.parser import parse_sql
from setwise.errors import SetwiseError
from setwise.mechanisms.planning.request import Total
from setwise.reports.report import ReportQuestion

COLUMNS = {"u": Kind.INTEGER, "g": Kind.TEXT, "h": Kind.TEXT, "v": Kind.FLOAT, "w": Kind.INTEGER}
SCHEMA = Schema(tuple(Column(name=name, kind=kind) for name, kind in COLUMNS.items()))
BUDGETS = ((1.0, 1e-6), (0.5, 1e-6), (2.0, 1e-8), (0.2, 1e-9), (10.0, 1e-6))
"""The budgets (epsilon, delta) for which every question is planned."""

AIM = 50.0
"""Milliseconds of processor time that a plan may take."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A question in SQL, its contribution bound in groups per user, and its number of public group keys, or 0."""

    text: str
    contributions: Contributions | None = None
    public: int = 0

    def plan(self, epsilon: float, delta: float) -> Plan:
        """Return the plan of the question within the budget (epsilon, delta)."""
        domain = tuple(f"group {number}" for number in range(self.public)) or None
        statement = parse_sql(self.text, user="u", contributions=self.contributions, domain=domain).filled()
        total = Total(epsilon=Fraction(str(epsilon)), delta=Fraction(str(delta)))
        return plan_query(statement.query, total, "u", SCHEMA, None).plan


USERS = "COUNT(DISTINCT u) AS users"
ROWS = "COUNT(*, contribution_bounds_per_group => (0, 5)) AS n"
SUM = "SUM(w, contribution_bounds_per_group => (0, 50)) AS sum"
MEAN = "AVG(v, contribution_bounds_per_group => (0, 100)) AS mean"
MEDIAN = "MEDIAN(v, contribution_bounds_per_row => (0, 100)) AS median"
DEVIATION = "STDDEV(v, contribution_bounds_per_row => (0, 100)) AS deviation"
DISTINCT = "COUNT(DISTINCT h) AS different"
QUARTILES = "APPROX_QUANTILES(v, 4, contribution_bounds_per_row => (0, 100)) AS quartiles"
DECILES = "APPROX_QUANTILES(v, 10, contribution_bounds_per_row => (0, 100)) AS deciles"
FOUR = f"{ROWS}, {MEAN}, {MEDIAN}, {SUM}"
EIGHT = f"{FOUR}, {USERS}, {DEVIATION}, {DISTINCT}, MEDIAN(w, contribution_bounds_per_row => (0, 9)) AS other"
TOP = "FROM t GROUP BY g ORDER BY users DESC LIMIT"


def by_group(statistics: str, contributions: Contributions | None = 3, public: int = 0) -> Shape:
    """Return the question for `statistics` of every group."""
    return Shape(f"SELECT g, {statistics} FROM t GROUP BY g", contributions, public)


SHAPES = {
    "users": Shape(f"SELECT {USERS} FROM t"),
    "rows": Shape(f"SELECT {ROWS} FROM t"),
    "rows, bound found": Shape("SELECT COUNT(*) AS n FROM t"),
    "sum": Shape(f"SELECT {SUM} FROM t"),
    "mean": Shape(f"SELECT {MEAN} FROM t"),
    "mean, bounds found": Shape("SELECT AVG(v) AS mean FROM t"),
    "standard deviation": Shape(f"SELECT {DEVIATION} FROM t"),
    "standard deviation, bounds found": Shape("SELECT STDDEV(v) AS deviation FROM t"),
    "distinct values": Shape(f"SELECT {DISTINCT} FROM t"),
    "median": Shape(f"SELECT {MEDIAN} FROM t"),
    "quartiles": Shape(f"SELECT {QUARTILES} FROM t"),
    "eight statistics": Shape(f"SELECT {EIGHT} FROM t"),
    "histogram, 1 contribution": by_group(USERS, 1),
    "histogram": by_group(USERS),
    "histogram, 100 contributions": by_group(USERS, 100),
    "histogram, contributions found": by_group(USERS, "auto"),
    "histogram of 20 public groups": by_group(USERS, 3, 20),
    "histogram of 1,000 public groups": by_group(USERS, None, 1000),
    "top 1": Shape(f"SELECT g, {USERS} {TOP} 1"),
    "top 10": Shape(f"SELECT g, {USERS} {TOP} 10"),
    "top 10, 3 contributions": Shape(f"SELECT g, {USERS} {TOP} 10", 3),
    "top 10 of 1,000 public groups": Shape(f"SELECT g, {USERS} {TOP} 10", None, 1000),
    "top 100": Shape(f"SELECT g, {USERS} {TOP} 100"),
    "top 300": Shape(f"SELECT g, {USERS} {TOP} 300"),
    "top 1,000": Shape(f"SELECT g, {USERS} {TOP} 1000"),
    "top 1,000, 10 contributions": Shape(f"SELECT g, {USERS} {TOP} 1000", 10),
    "top 1,000 of 5,000 public groups": Shape(f"SELECT g, {USERS} {TOP} 1000", None, 5000),
    "top 10,000": Shape(f"SELECT g, {USERS} {TOP} 10000"),
    "rows per group, bound found": by_group("COUNT(*) AS n", "auto"),
    "sum per group": by_group(SUM),
    "mean per group": by_group(MEAN),
    "mean per group, bounds found": by_group("AVG(v) AS mean", "auto"),
    "mean of 1,000 public groups": by_group(MEAN, 3, 1000),
    "median per group": by_group(MEDIAN),
    "deciles per group": by_group(DECILES),
    "standard deviation per group": by_group(DEVIATION),
    "distinct values per group": by_group(DISTINCT),
    "four statistics": by_group(FOUR),
    "four statistics, 10 contributions": by_group(FOUR, 10),
    "four statistics, 100 contributions": by_group(FOUR, 100),
    "eight statistics per group": by_group(EIGHT),
    "eight statistics, 10 contributions": by_group(EIGHT, 10),
    "mean by two columns": Shape(f"SELECT g, h, {MEAN} FROM t GROUP BY g, h", 3),
    "users, mean, median by two": Shape(f"SELECT g, h, {USERS}, {MEAN}, {MEDIAN} FROM t GROUP BY g, h", 3),
    "mean of the top 10": Shape(f"SELECT g, {USERS}, {MEAN} {TOP} 10", 10),
    "median of the top 10": Shape(f"SELECT g, {USERS}, {MEDIAN} {TOP} 10", 10),
    "four of the top 100": Shape(f"SELECT g, {USERS}, {FOUR} {TOP} 100", 10),
    "mean of the top 1,000": Shape(f"SELECT g, {USERS}, {MEAN} {TOP} 1000", 10),
    "mean of the top 1,000, any number": Shape(f"SELECT g, {USERS}, {MEAN} {TOP} 1000"),
}
"""The shapes of questions by their names in the table."""

REPORT = ("users", "histogram", "top 10", "top 100", "mean", "mean per group", "median per group", "four statistics",
          "four statistics, 10 contributions", "mean by two columns")  # fmt: skip
"""The questions of a report that is priced as a whole; no aim is set for its time."""

FIRST = ("users", "mean per group", "top 1,000")
"""The shapes whose first plan in a new process is measured."""


def milliseconds(call: Callable[[], object]) -> float:
    """Return the processor time of one call."""
    started = time.process_time()
    call()
    return 1e3 * (time.process_time() - started)


def least(plan: Callable[[float], object], epsilon: float, rounds: int) -> float:
    """Return the least processor time of `rounds` plans in milliseconds, after one that is not measured.

    `plan` takes an epsilon. No two calls get the same one, so that no plan finds the prices of another in a cache.
    """
    unseen = [epsilon * (1.0 + 0.02 * (number + 1) / (rounds + 1)) for number in range(rounds + 1)]
    plan(round(unseen[0], 9))
    return min(milliseconds(lambda each=each: plan(round(each, 9))) for each in unseen[1:])  # type: ignore[misc]


def first_plans() -> Iterator[tuple[str, float]]:
    """Yield the names of some shapes and the milliseconds of the first plan in a new process, imports left out."""
    for name in FIRST:
        run = subprocess.run([sys.executable, __file__, "--first", name], capture_output=True, text=True, check=True)
        yield name, float(run.stdout)


def print_statements() -> None:
    """Print the processor and wall time of `session.explain` for everyday statements and tutorials, slowest first.

    A time is the median of five plans at epsilon 1 after one that is not measured. What does not depend on the
    statement is therefore remembered; no part of the program remembers a statement.
    """
    everyday, tutorial, tables = (
        importlib.import_module(f"tests.analytics.{name}")
        for name in ("everyday_statements", "tutorial_statements", "test_everyday_sql")
    )
    public = {"countries": tutorial.COUNTRIES, "calendar": tutorial.CALENDAR}
    times = []
    with (
        setwise.open(tables.EVENTS, user="user_id", name="events", public={"countries": tables.COUNTRIES}) as events,
        setwise.open(tutorial.ORDERS, user="customer_id", name="orders", public=public) as orders,
    ):
        for session, texts in ((events, everyday.STATEMENTS), (orders, tutorial.STATEMENTS)):
            for text in texts:
                runs = []
                for _ in range(6):
                    started = time.perf_counter(), time.process_time()
                    with contextlib.suppress(SetwiseError):
                        session.explain(text, epsilon=1)
                    runs.append((1e3 * (time.process_time() - started[1]), 1e3 * (time.perf_counter() - started[0])))
                times.append((*(statistics.median(column) for column in zip(*runs[1:], strict=True)), text))
    for processor, wall, text in sorted(times, reverse=True):
        print(f"{processor:8.1f}{wall:8.1f}  {text[:100]}")
    above = sum(processor > AIM for processor, _, _ in times)
    print(f"{above} of {len(times)} above {AIM:g} ms; load {os.getloadavg()[0]:.1f}")


def report_time() -> float:
    """Return the milliseconds of pricing the report as a whole for the first budget."""
    queries = {
        name: parse_sql(SHAPES[name].text, user="u", contributions=SHAPES[name].contributions).query for name in REPORT
    }
    questions = [ReportQuestion(name=name, query=query, weight=1.0, to=()) for name, query in queries.items()]
    epsilon, delta = BUDGETS[0]
    schemas = [SCHEMA] * len(questions)
    return least(lambda each: price(questions, user="u", schemas=schemas, epsilon=each, delta=delta), epsilon, 1)


def main() -> None:
    """Measure every shape and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the largest time of every shape as one object")
    parser.add_argument("--before", type=Path, help="the --json of an earlier run, for a column beside this one")
    parser.add_argument("--statements", action="store_true", help="measure everyday statements instead of shapes")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", help="measure only shapes whose names contain this text")
    parser.add_argument("--first", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.first is not None:
        print(milliseconds(lambda: SHAPES[given.first].plan(*BUDGETS[0])))
        return
    if given.statements:
        print_statements()
        return
    before = {} if given.before is None else json.loads(given.before.read_text())
    largest: dict[str, float] = {}
    if not given.json:
        heads = "".join(f"{f'{epsilon:g}, {delta:g}':>11}" for epsilon, delta in BUDGETS)
        print(f"{'milliseconds':36}{'before':>8}{'now':>8}{heads}{'spent':>8}")
    for name, shape in SHAPES.items():
        if given.only and given.only not in name:
            continue
        times = [
            least(lambda each, shape=shape, delta=delta: shape.plan(each, delta), epsilon, given.rounds)  # type: ignore[misc]
            for epsilon, delta in BUDGETS
        ]
        largest[name] = max(times)
        if not given.json:
            spent = shape.plan(*BUDGETS[0]).epsilon.upper
            cells = "".join(f"{number:8.1f}" if number else f"{'':8}" for number in
                            (before.get(name), max(times)))  # fmt: skip
            print(f"{name:36}{cells}" + "".join(f"{number:11.1f}" for number in times) + f"{spent:8.4f}", flush=True)
    if not given.only:
        largest["report of ten questions"] = report_time()
    if given.json:
        print(json.dumps(largest, indent=1))
        return
    above = {name: number for name, number in largest.items() if name in SHAPES and number > AIM}
    if "report of ten questions" in largest:
        was = before.get("report of ten questions")
        print(
            f"{'report of ten questions':36}{f'{was:8.1f}' if was else '':8}{largest['report of ten questions']:8.1f}"
        )
    if not given.only:
        for name, number in first_plans():
            print(f"{f'first plan of a process: {name}':44}{number:8.1f}")
    print(f"{len(above)} of {len(SHAPES)} shapes above {AIM:g} ms: {', '.join(above) or 'none'}")


if __name__ == "__main__":
    main()
