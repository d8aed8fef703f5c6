"""prv-accountant: privacy random variables by Fourier transform, with its error set to 0.01."""

from functools import partial
from typing import Any

from protocol import Unsupported, report, wanted
from prv_accountant import (
    ApproximateDPMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    PoissonSubsampledGaussianMechanism,
    PRVAccountant,
    PureDPMechanism,
)
from tasks import ACCOUNTING, Accounting, Uses


def epsilon(task: Accounting) -> dict[str, Any]:
    counts = [uses.count for uses in task.uses]
    accountant = PRVAccountant(
        prvs=[_variable(uses) for uses in task.uses], max_self_compositions=counts, eps_error=0.01, delta_error=1e-10
    )
    lower, _, upper = accountant.compute_epsilon(task.delta, counts)
    return {"value": float(upper), "lower": float(lower), "how": "privacy random variables, error 0.01"}


def _variable(uses: Uses) -> Any:  # noqa: ANN401
    match uses.kind:
        case "pure":
            return PureDPMechanism(uses.parameters[0])
        case "approx":
            return ApproximateDPMechanism(*uses.parameters)
        case "laplace":
            return LaplaceMechanism(mu=1 / uses.parameters[0])
        case "gaussian":
            return GaussianMechanism(uses.parameters[0])
        case "sampled-gaussian":
            return PoissonSubsampledGaussianMechanism(uses.parameters[1], uses.parameters[0])
        case _:
            raise Unsupported("no bounded range and no zCDP")


if __name__ == "__main__":
    report(wanted({task.name: partial(epsilon, task) for task in ACCOUNTING}))
