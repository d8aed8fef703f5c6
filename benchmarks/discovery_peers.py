"""Private groups that another library finds, and the error of their counts, on the tables of discovery.py.

    python benchmarks/discovery.py --tables FOLDER            writes the tables
    PEER/bin/python benchmarks/discovery_peers.py LIBRARY FOLDER [--runs 3]

LIBRARY is opendp, opendp-gaussian, pipelinedp or tumult, run by the Python of that library's environment
(benchmarks/peers/environments.py). Every answer is a histogram of users within (epsilon, 1e-6), as in discovery.py:
`groups` is the number of groups in the answer and `error` the mean distance of a released count from the exact one.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

DELTA = 1e-6
CASES = (
    ("comparison", 20, 1.0),
    ("comparison", 50, 1.0),
    ("few", 3, 1.0),
    ("few", 10, 1.0),
    ("many", 20, 1.0),
    ("many", 50, 1.0),
    ("many", 50, 3.0),
)
"""The table, the contribution bound and epsilon."""

RHO = {1.0: 0.022937, 3.0: 0.175749}
"""By epsilon, the zCDP parameter that is (epsilon, delta / 2)-DP by the optimal conversion of CanonneKaSt20."""


def opendp(path: Path, contributions: int, epsilon: float) -> dict[Any, int]:
    """Return the counts that OpenDP releases with Laplace noise."""
    import opendp.prelude as dp

    return _opendp(path, contributions, dp.loss_of(epsilon=epsilon, delta=DELTA))


def opendp_gaussian(path: Path, contributions: int, epsilon: float) -> dict[Any, int]:
    """Return the counts that OpenDP releases with Gaussian noise; half of delta is for its threshold."""
    import opendp.prelude as dp

    return _opendp(path, contributions, dp.loss_of(rho=RHO[epsilon], delta=DELTA / 2))


def _opendp(path: Path, contributions: int, loss: Any) -> dict[Any, int]:  # noqa: ANN401 - of another library
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    context = dp.Context.compositor(
        data=pl.scan_parquet(path),
        privacy_unit=dp.unit_of(contributions=1, identifier="user_id"),
        privacy_loss=loss,
        split_evenly_over=1,
        margins=[dp.polars.Margin(max_length=1_000_000)],
    )
    query = context.query().truncate_per_group(1, by=["item"]).truncate_per_group(contributions)
    found = query.group_by("item").agg(dp.len()).release().collect()
    return dict(zip(found["item"].to_list(), found["len"].to_list(), strict=True))


def pipelinedp(path: Path, contributions: int, epsilon: float) -> dict[Any, int]:
    """Return the counts that PipelineDP releases with Gaussian noise and a threshold on the same noisy counts.

    Of its documented settings this one finds the most groups on the comparison's table (benchmarks/peers/results.json).
    """
    import pipeline_dp

    table = pq.read_table(path)
    rows = list(zip(table["user_id"].to_pylist(), table["item"].to_pylist(), strict=True))
    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=DELTA)
    engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
    parameters = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.PRIVACY_ID_COUNT],
        noise_kind=pipeline_dp.NoiseKind.GAUSSIAN,
        max_partitions_contributed=contributions,
        max_contributions_per_partition=1,
        partition_selection_strategy=pipeline_dp.PartitionSelectionStrategy.GAUSSIAN_THRESHOLDING,
        post_aggregation_thresholding=True,
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda _: 1,
    )
    result = engine.aggregate(rows, parameters, extractors)
    budget.compute_budgets()
    return {item: round(values.privacy_id_count) for item, values in result}


def tumult(path: Path, contributions: int, epsilon: float) -> dict[Any, int]:
    """Return the counts that Tumult releases: half of epsilon finds groups, half counts them."""
    from pyspark.sql import SparkSession
    from tmlt.analytics import (
        AddRowsWithID,
        ApproxDPBudget,
        KeySet,
        MaxGroupsPerID,
        MaxRowsPerGroupPerID,
        QueryBuilder,
        Session,
    )

    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    session = Session.from_dataframe(
        privacy_budget=ApproxDPBudget(epsilon=epsilon, delta=DELTA),
        source_id="events",
        dataframe=spark.read.parquet(str(path)),
        protected_change=AddRowsWithID(id_column="user_id"),
    )
    bounded = (
        QueryBuilder("events").enforce(MaxGroupsPerID("item", contributions)).enforce(MaxRowsPerGroupPerID("item", 1))
    )
    keys = session.evaluate(bounded.get_groups(["item"]), ApproxDPBudget(epsilon=epsilon / 2, delta=DELTA))
    session.create_view(bounded, "bounded", cache=True)
    if not keys.count():
        return {}
    counted = session.evaluate(
        QueryBuilder("bounded").groupby(KeySet.from_dataframe(keys)).count(), session.remaining_privacy_budget
    )
    return {row["item"]: row["count"] for row in counted.collect()}


LIBRARIES: dict[str, Callable[[Path, int, float], dict[Any, int]]] = {
    "opendp": opendp,
    "opendp-gaussian": opendp_gaussian,
    "pipelinedp": pipelinedp,
    "tumult": tumult,
}


def exact_counts(path: Path) -> dict[Any, int]:
    """Return the exact number of users of every group."""
    rows = pq.read_table(path).combine_chunks()
    truth = rows.group_by(["user_id", "item"]).aggregate([]).group_by("item").aggregate([([], "count_all")])
    return dict(zip(truth.column("item").to_pylist(), truth.column("count_all").to_pylist(), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=sorted(LIBRARIES))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    exact = {name: exact_counts(asked.folder / f"{name}.parquet") for name in {case[0] for case in CASES}}
    for name, contributions, epsilon in CASES:
        groups, errors = [], []
        started = time.perf_counter()
        for _ in range(asked.runs):
            found = LIBRARIES[asked.library](asked.folder / f"{name}.parquet", contributions, epsilon)
            groups.append(len(found))
            errors += [abs(count - exact[name].get(item, 0)) for item, count in found.items()]
        seconds = (time.perf_counter() - started) / asked.runs
        error = statistics.fmean(errors) if errors else None
        case = {"table": name, "contributions": contributions, "epsilon": epsilon}
        numbers = {"groups": statistics.fmean(groups), "error": error, "seconds": seconds}
        print(json.dumps({"library": asked.library, **case, **numbers}), flush=True)


if __name__ == "__main__":
    main()
