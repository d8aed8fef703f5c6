"""autodp: Rényi DP, and the exact curve for Gaussians alone."""

import io
import warnings
from contextlib import redirect_stdout
from functools import partial
from typing import Any

from autodp.mechanism_zoo import (
    ExactGaussianMechanism,
    ExponentialMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    PureDP_Mechanism,
)
from autodp.transformer_zoo import AmplificationBySampling, ComposeGaussian, Composition
from protocol import Unsupported, report, wanted
from tasks import ACCOUNTING, Accounting, Uses


def epsilon(task: Accounting) -> dict[str, Any]:
    counts = [uses.count for uses in task.uses]
    with redirect_stdout(io.StringIO()):  # its searches print
        if {uses.kind for uses in task.uses} == {"gaussian"}:
            exact = ComposeGaussian()([ExactGaussianMechanism(uses.parameters[0]) for uses in task.uses], counts)
            return {"value": float(exact.get_approxDP(task.delta)), "how": "exact Gaussian"}
        composed = Composition()([_mechanism(uses) for uses in task.uses], counts)
        return {"value": float(composed.get_approxDP(task.delta)), "how": "Rényi DP"}


def _mechanism(uses: Uses) -> Any:  # noqa: ANN401
    match uses.kind:
        case "pure":
            return PureDP_Mechanism(uses.parameters[0])
        case "laplace":
            return LaplaceMechanism(uses.parameters[0])
        case "gaussian":
            return GaussianMechanism(uses.parameters[0])
        case "bounded-range":
            return ExponentialMechanism(uses.parameters[0])
        case "sampled-gaussian":
            sampled = AmplificationBySampling(PoissonSampling=True)
            return sampled(GaussianMechanism(uses.parameters[0]), uses.parameters[1], improved_bound_flag=True)
        case _:
            raise Unsupported("(epsilon, delta)-DP is not composed by Rényi DP")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    report(wanted({task.name: partial(epsilon, task) for task in ACCOUNTING}))
