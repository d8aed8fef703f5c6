"""diffprivlib: its budget accountant and its integer mechanisms. It has no users, so no bounded contributions."""

import warnings
from functools import partial
from typing import Any

from diffprivlib import BudgetAccountant
from diffprivlib.mechanisms import Geometric
from protocol import Unsupported, report, wanted
from tasks import ACCOUNTING, Accounting

_DRAWS = 20_000


def epsilon(task: Accounting) -> dict[str, Any]:
    if not {uses.kind for uses in task.uses} <= {"pure", "approx"}:
        raise Unsupported("the accountant takes (epsilon, delta) pairs only")
    spent = [(*uses.parameters, 0.0)[:2] for uses in task.uses for _ in range(uses.count)]
    failing = 1.0
    for _, delta in spent:
        failing *= 1 - delta
    slack = (task.delta - (1 - failing)) / failing
    return {"value": float(BudgetAccountant(spent_budget=spent, slack=slack).total()[0]), "how": "advanced composition"}


def laplace() -> dict[str, Any]:
    mechanism = Geometric(epsilon=0.1, sensitivity=1)
    values = [mechanism.randomise(0) for _ in range(_DRAWS)]
    return {"draws": _DRAWS, "law": "discrete-laplace", "values": values}


def gaussian() -> dict[str, Any]:
    raise Unsupported("GaussianDiscrete takes (epsilon, delta), not a deviation")


def histogram() -> dict[str, Any]:
    raise Unsupported("rows only: no users, and bins must be known")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    tasks = {"laplace-noise": laplace, "gaussian-noise": gaussian, "histogram": histogram}
    report(wanted({**{task.name: partial(epsilon, task) for task in ACCOUNTING}, **tasks}))
