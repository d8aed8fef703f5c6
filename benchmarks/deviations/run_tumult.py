"""Tumult Analytics on Spark, with the budget and the mechanism named by the second argument.

    run_tumult.py RUNS (default | gaussian)

`default` is an approximate DP budget, under which it draws Laplace noise. `gaussian` is a zCDP budget that implies the
same (epsilon, delta), under which it draws Gaussian noise.
"""

import math
import os
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "everyday")]

import visits  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402
from reporting import report  # noqa: E402
from tmlt.analytics import (  # noqa: E402
    AddRowsWithID,
    ApproxDPBudget,
    KeySet,
    MaxRowsPerID,
    QueryBuilder,
    RhoZCDPBudget,
    Session,
)

SETTING = sys.argv[2] if sys.argv[2:] else "default"


def budget():
    if SETTING == "default":
        return ApproxDPBudget(visits.EPSILON, visits.DELTA)
    tail = math.log(1 / visits.DELTA)
    return RhoZCDPBudget((math.sqrt(tail + visits.EPSILON) - math.sqrt(tail)) ** 2)


def opened():
    return {
        name: Session.from_dataframe(budget(), name, table, protected_change=AddRowsWithID("user"))
        for name, table in TABLES.items()
    }


def found(session, asked):
    return session.evaluate(asked, session.remaining_privacy_budget)


def ages(sessions):
    asked = QueryBuilder("people").enforce(MaxRowsPerID(1)).stdev("age", *visits.AGES, name="found")
    return float(found(sessions["people"], asked).first()["found"])


def ages_by_team(sessions):
    keys = KeySet.from_dict({"team": visits.TEAMS})
    asked = QueryBuilder("people").enforce(MaxRowsPerID(1)).groupby(keys).stdev("age", *visits.AGES, name="found")
    return {row["team"]: float(row["found"]) for row in found(sessions["people"], asked).collect()}


def minutes(sessions):
    bounded = QueryBuilder("visits").enforce(MaxRowsPerID(visits.ROWS_PER_USER))
    asked = bounded.stdev("minutes", *visits.MINUTES, name="found")
    return float(found(sessions["visits"], asked).first()["found"])


def pages(sessions):
    bounded = QueryBuilder("visits").enforce(MaxRowsPerID(visits.ROWS_PER_USER))
    asked = bounded.count_distinct(columns=["page"], name="found")
    return float(found(sessions["visits"], asked).first()["found"])


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "1g")
    spark = builder.config("spark.sql.shuffle.partitions", "1").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    TABLES = {
        "people": spark.createDataFrame(visits.people(), ["user", "age", "team"]).cache(),
        "visits": spark.createDataFrame(visits.visits(), ["user", "minutes", "page"]).cache(),
    }
    report(opened, [ages, ages_by_team, minutes, pages], runs=5)
