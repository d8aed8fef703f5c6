"""Tumult Analytics, on Spark."""

import math
import os
import sys

import people
from pyspark.sql import SparkSession
from reporting import report
from tmlt.analytics import AddRowsWithID, ApproxDPBudget, KeySet, MaxRowsPerID, QueryBuilder, RhoZCDPBudget, Session

BUDGET, THIRD = ApproxDPBudget(people.EPSILON, people.DELTA), ApproxDPBudget(people.EPSILON / 3, people.DELTA / 3)


def opened():
    session = Session.from_dataframe(
        privacy_budget=BUDGET,
        source_id="people",
        dataframe=TABLE,
        protected_change=AddRowsWithID("user_id"),
    )
    return session, QueryBuilder("people").enforce(MaxRowsPerID(1))


def count(given):
    session, table = given
    return float(session.evaluate(table.filter("age >= 30").count(), session.remaining_privacy_budget).first()["count"])


def mean(given):
    session, table = given
    found = session.evaluate(table.average("age", low=0, high=100), session.remaining_privacy_budget)
    return float(found.first()["age_average"])


def median(given):
    session, table = given
    found = session.evaluate(table.median("minutes", low=0, high=1440), session.remaining_privacy_budget)
    return float(found.first()["minutes_median"])


def quartiles(given):
    session, table = given
    found = []
    for share in (0.25, 0.5, 0.75):
        asked = table.quantile("minutes", share, low=0, high=1440, name="found")
        found.append(float(session.evaluate(asked, THIRD).first()["found"]))
    return sorted(found)


def histogram(given):
    session, table = given
    keys = KeySet.from_dict({"occupation": people.OCCUPATIONS})
    found = session.evaluate(table.groupby(keys).count(), session.remaining_privacy_budget)
    return {row["occupation"]: float(row["count"]) for row in found.collect()}


def left(given):
    session, table = given
    session.evaluate(table.count(), ApproxDPBudget(people.EPSILON / 2, 0))
    return float(session.remaining_privacy_budget.epsilon)


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
    )
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    TABLE = spark.read.csv(str(people.CSV), header=True, inferSchema=True).cache()
    report(opened, [count, mean, median, quartiles, histogram, left], runs=3)
    tail = -math.log(people.DELTA)
    rho = (math.sqrt(tail + people.EPSILON) - math.sqrt(tail)) ** 2
    BUDGET, THIRD = RhoZCDPBudget(rho), RhoZCDPBudget(rho / 3)
    report(opened, [count, mean, median, quartiles, histogram], runs=3, setting="zCDP")
