"""dp-accounting: privacy-loss distributions on its default grid; picks by zero-concentrated DP."""

from functools import partial, reduce
from typing import Any

import dp_accounting
from dp_accounting import rdp
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as pld
from protocol import report, wanted
from tasks import ACCOUNTING, Accounting, Uses


def epsilon(task: Accounting) -> dict[str, Any]:
    if any(uses.kind == "bounded-range" for uses in task.uses):
        return _by_concentration(task)
    parts = [_distribution(uses).self_compose(uses.count) for uses in task.uses]
    whole = reduce(lambda one, other: one.compose(other), parts)
    return {"value": float(whole.get_epsilon_for_delta(task.delta)), "how": "privacy-loss distribution"}


def _distribution(uses: Uses) -> Any:  # noqa: ANN401
    match uses.kind:
        case "pure" | "approx":
            failing = uses.parameters[1] if uses.kind == "approx" else 0
            return pld.from_privacy_parameters(common.DifferentialPrivacyParameters(uses.parameters[0], failing))
        case "laplace":
            return pld.from_laplace_mechanism(uses.parameters[0])
        case "gaussian":
            return pld.from_gaussian_mechanism(uses.parameters[0])
        case _:
            return pld.from_gaussian_mechanism(uses.parameters[0], sampling_prob=uses.parameters[1])


def _by_concentration(task: Accounting) -> dict[str, Any]:
    """Price a pick as epsilon^2/8-zCDP by hand; the library has no bounded range."""
    accountant = rdp.RdpAccountant()
    for uses in task.uses:
        share = 8 if uses.kind == "bounded-range" else 2
        accountant.compose(dp_accounting.ZCDpEvent(uses.parameters[0] ** 2 / share), uses.count)
    return {"value": float(accountant.get_epsilon(task.delta)), "how": "zCDP, parameters by hand"}


if __name__ == "__main__":
    report(wanted({task.name: partial(epsilon, task) for task in ACCOUNTING}))
