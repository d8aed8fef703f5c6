"""PipelineDP on its local backend; its noise comes from Google's library through PyDP."""

from functools import partial
from typing import Any

import pipeline_dp
import table
from protocol import report, wanted
from pydp.algorithms.numerical_mechanisms import GaussianMechanism, LaplaceMechanism

_DRAWS = 100_000


def noise(name: str) -> dict[str, Any]:
    if name == "laplace":
        mechanism = LaplaceMechanism(epsilon=0.1, sensitivity=1.0)
    else:
        mechanism = GaussianMechanism.create_from_standard_deviation(10.0)
    return {"draws": _DRAWS, "law": f"rounded-{name}", "values": [mechanism.add_noise(0) for _ in range(_DRAWS)]}


def histogram() -> dict[str, Any]:
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=table.EPSILON, total_delta=table.DELTA)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    asked = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.PRIVACY_ID_COUNT],
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        max_partitions_contributed=table.CONTRIBUTIONS,
        max_contributions_per_partition=1,
    )
    columns = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0], partition_extractor=lambda row: row[1], value_extractor=lambda _: 1
    )
    result = engine.aggregate(table.rows(), asked, columns)
    accountant.compute_budgets()
    return {"released": {item: float(found.privacy_id_count) for item, found in result}, "law": "float"}


if __name__ == "__main__":
    tasks = {"laplace-noise": partial(noise, "laplace"), "gaussian-noise": partial(noise, "gaussian")}
    report(wanted({**tasks, "histogram": histogram}))
