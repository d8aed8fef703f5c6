"""prv-accountant: privacy random variables by Fourier transform, with its error set as fine as a minute allows."""

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

_ERROR = 0.001
_COARSE = {"pure-10000": 0.01}
"""Tasks for which the finer error takes minutes."""


def epsilon(task: Accounting) -> dict[str, Any]:
    counts, error = [uses.count for uses in task.uses], _COARSE.get(task.name, _ERROR)
    accountant = PRVAccountant(
        prvs=[_variable(uses) for uses in task.uses], max_self_compositions=counts, eps_error=error, delta_error=1e-10
    )
    lower, _, upper = accountant.compute_epsilon(task.delta, counts)
    return {"value": float(upper), "lower": float(lower), "how": f"privacy random variables, error {error}"}


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
