"""Tumult Analytics on a local Spark session."""

import os
import sys
import warnings
from functools import partial
from typing import Any

import table
from protocol import Unsupported, report, wanted
from pyspark.sql import SparkSession
from tasks import BUDGET, BUDGET_AS_RHO, ON_THE_FLY, OnTheFly
from tmlt.analytics import (
    AddRowsWithID,
    ApproxDPBudget,
    KeySet,
    MaxGroupsPerID,
    MaxRowsPerGroupPerID,
    MaxRowsPerID,
    PureDPBudget,
    QueryBuilder,
    RhoZCDPBudget,
    Session,
)
from tmlt.core.measurements.noise_mechanisms import AddDiscreteGaussianNoise, AddGeometricNoise

_DRAWS = 20_000


def noise(name: str) -> dict[str, Any]:
    mechanism = AddGeometricNoise(10) if name == "laplace" else AddDiscreteGaussianNoise(100)
    return {"draws": _DRAWS, "law": f"discrete-{name}", "values": [int(mechanism(0)) for _ in range(_DRAWS)]}


def histogram(share: float) -> dict[str, Any]:
    """Find the items with a share of epsilon and all of delta, count with the rest of epsilon."""
    session = Session.from_dataframe(
        privacy_budget=ApproxDPBudget(table.EPSILON, table.DELTA),
        source_id="visits",
        dataframe=_spark().read.csv(str(table.CSV), header=True, schema="user_id long, item string"),
        protected_change=AddRowsWithID("user_id"),
    )
    bounded = QueryBuilder("visits").enforce(MaxGroupsPerID("item", table.CONTRIBUTIONS))
    session.create_view(bounded.enforce(MaxRowsPerGroupPerID("item", 1)), "bounded", cache=True)
    finding = ApproxDPBudget(share * table.EPSILON, table.DELTA)
    found = session.evaluate(QueryBuilder("bounded").get_groups(["item"]), finding)
    counting = ApproxDPBudget((1 - share) * table.EPSILON, 0)
    counts = session.evaluate(QueryBuilder("bounded").groupby(KeySet.from_dataframe(found)).count(), counting)
    released = {row["item"]: float(row["count"]) for row in counts.collect()}
    return {"released": released, "law": "integer", "setting": f"Laplace noise, {share:.0%} of epsilon finds items"}


def on_the_fly(task: OnTheFly) -> dict[str, Any]:
    """Ask once, and divide what is left: a session of its own kind of budget for each kind of question."""
    if task.uses.kind == "bounded-range":
        raise Unsupported("no exponential mechanism")
    (parameter,) = task.uses.parameters
    pure = task.uses.kind == "pure"
    budget = PureDPBudget(BUDGET[0]) if pure else RhoZCDPBudget(BUDGET_AS_RHO)
    question = PureDPBudget(parameter) if pure else RhoZCDPBudget(1 / (2 * parameter**2))
    session = Session.from_dataframe(
        privacy_budget=budget,
        source_id="visits",
        dataframe=_spark().createDataFrame([(user, "tea") for user in range(10)], "user_id long, item string"),
        protected_change=AddRowsWithID("user_id"),
    )
    session.evaluate(QueryBuilder("visits").enforce(MaxRowsPerID(1)).count(), question)
    left = (session.remaining_privacy_budget.value / question.value).to_float(round_up=True)
    return {"value": 1 + int(left), "how": f"a budget of {'epsilon' if pure else 'zCDP'}"}


def _spark() -> Any:  # noqa: ANN401
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.driver.memory", "2g")
    session = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    _spark()
    tasks = {"laplace-noise": partial(noise, "laplace"), "gaussian-noise": partial(noise, "gaussian")}
    fly = {task.name: partial(on_the_fly, task) for task in ON_THE_FLY}
    histograms = {"histogram": partial(histogram, 0.5), "histogram-finding": partial(histogram, 0.75)}
    report(wanted({**tasks, **fly, **histograms}))
