"""PipelineDP on its local backend; its noise comes from Google's library through PyDP."""

from functools import partial
from typing import Any

import pipeline_dp
import table
from pipeline_dp import NoiseKind, PartitionSelectionStrategy
from protocol import report, wanted
from pydp.algorithms.numerical_mechanisms import GaussianMechanism, LaplaceMechanism

_DRAWS = 100_000
_GAUSSIAN_THRESHOLD = PartitionSelectionStrategy.GAUSSIAN_THRESHOLDING
_HISTOGRAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "histogram": ("default: Laplace noise, items selected by a truncated geometric law", {}),
    "histogram-gaussian": ("Gaussian noise, otherwise default", {"noise_kind": NoiseKind.GAUSSIAN}),
    "histogram-thresholds": (
        "Laplace noise, items selected by Gaussian thresholding",
        {"partition_selection_strategy": _GAUSSIAN_THRESHOLD},
    ),
    "histogram-one-noise": (
        "Gaussian noise, `post_aggregation_thresholding`",
        {
            "noise_kind": NoiseKind.GAUSSIAN,
            "partition_selection_strategy": _GAUSSIAN_THRESHOLD,
            "post_aggregation_thresholding": True,
        },
    ),
}
"""By task, the setting in words, and the parameters of the aggregation that differ from the defaults.

`PLDBudgetAccountant` is left out, because its documentation says that the engine does not support it yet, and so is the
selection by weighted Gaussian thresholding, which `select_partitions` has and `aggregate` has not.
"""


def noise(name: str) -> dict[str, Any]:
    if name == "laplace":
        mechanism = LaplaceMechanism(epsilon=0.1, sensitivity=1.0)
    else:
        mechanism = GaussianMechanism.create_from_standard_deviation(10.0)
    return {"draws": _DRAWS, "law": f"rounded-{name}", "values": [mechanism.add_noise(0) for _ in range(_DRAWS)]}


def histogram(setting: str, parameters: dict[str, Any]) -> dict[str, Any]:
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=table.EPSILON, total_delta=table.DELTA)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    asked = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.PRIVACY_ID_COUNT],
        max_partitions_contributed=table.CONTRIBUTIONS,
        max_contributions_per_partition=1,
        **parameters,
    )
    columns = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0], partition_extractor=lambda row: row[1], value_extractor=lambda _: 1
    )
    result = engine.aggregate(table.rows(), asked, columns)
    accountant.compute_budgets()
    released = {item: float(found.privacy_id_count) for item, found in result}
    return {"released": released, "law": "float", "setting": setting}


if __name__ == "__main__":
    tasks = {"laplace-noise": partial(noise, "laplace"), "gaussian-noise": partial(noise, "gaussian")}
    histograms = {task: partial(histogram, *setting) for task, setting in _HISTOGRAMS.items()}
    report(wanted({**tasks, **histograms}))
