"""Setwise: the planner chooses the noise, so that its default is its best setting."""

import sys
from fractions import Fraction
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "everyday")]

import pyarrow as pa  # noqa: E402
import visits  # noqa: E402
from reporting import report  # noqa: E402

import setwise  # noqa: E402
from setwise.analytics.query import Query  # noqa: E402
from setwise.analytics.statistics import Distinct, StandardDeviation  # noqa: E402
from setwise.mechanisms.planning.request import Total  # noqa: E402

PEOPLE = pa.table(dict(zip(("user", "age", "team"), zip(*visits.people(), strict=True), strict=True)))
VISITS = pa.table(dict(zip(("user", "minutes", "page"), zip(*visits.visits(), strict=True), strict=True)))
TOTAL = Total(epsilon=Fraction(str(visits.EPSILON)), delta=Fraction(str(visits.DELTA)))
AGE = StandardDeviation(column="age", low=visits.AGES[0], high=visits.AGES[1])


def opened():
    return {name: setwise.open(table, user="user") for name, table in (("people", PEOPLE), ("visits", VISITS))}


def ages(sessions):
    return sessions["people"].ask(Query(statistics=(AGE,)), TOTAL).items[0].estimates[0].value


def ages_by_team(sessions):
    query = Query(statistics=(AGE,), item="team", domain=tuple(visits.TEAMS), contributions=1)
    return {item.label: item.estimates[0].value for item in sessions["people"].ask(query, TOTAL).items}


def minutes(sessions):
    low, high = visits.MINUTES
    statistic = StandardDeviation(column="minutes", low=low, high=high, per_user=visits.ROWS_PER_USER)
    return sessions["visits"].ask(Query(statistics=(statistic,)), TOTAL).items[0].estimates[0].value


def pages(sessions):
    statistic = Distinct(column="page", per_user=visits.ROWS_PER_USER)
    return sessions["visits"].ask(Query(statistics=(statistic,)), TOTAL).items[0].estimates[0].value


if __name__ == "__main__":
    report(opened, [ages, ages_by_team, minutes, pages], runs=100)
