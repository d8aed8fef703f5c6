"""Setwise on the tasks of its peers."""

from fractions import Fraction
from functools import partial
from typing import Any

import table
from protocol import Unsupported, report, wanted
from tasks import ACCOUNTING, BUDGET, ON_THE_FLY, Accounting, OnTheFly

import setwise
from setwise import compose
from setwise.accounting.notation import parse_use
from setwise.accounting.prices import after_paying
from setwise.accounting.wallet import Wallet
from setwise.mechanisms import SystemRandomness
from setwise.mechanisms.noise.discrete import GaussianNoise, LaplaceNoise

_DRAWS = 1_000_000


def epsilon(task: Accounting) -> dict[str, Any]:
    if any(uses.kind == "sampled-gaussian" for uses in task.uses):
        raise Unsupported("no amplification by sampling")
    answer = compose([uses.written for uses in task.uses]).epsilon(task.delta)
    return {"value": answer.upper, "lower": answer.lower, "how": answer.method}


def on_the_fly(task: OnTheFly) -> dict[str, Any]:
    wallet, use = Wallet.for_promise(epsilon=BUDGET[0], delta=BUDGET[1]), parse_use(task.uses.written)
    left, paid = after_paying(use.guarantee.price, use.count, wallet.size), 0
    while left is not None:
        left, paid = after_paying(use.guarantee.price, use.count, left), paid + 1
    loss = use.guarantee.largest_loss()
    taken = max(paid, 0 if loss is None else int(Fraction(wallet.loss_limit) / (use.count * loss)))
    return {"value": taken, "how": "Gaussian wallet, or the sum of epsilons"}


def noise(law: LaplaceNoise | GaussianNoise, name: str) -> dict[str, Any]:
    drawn = law.draw(_DRAWS, SystemRandomness())
    return {"draws": _DRAWS, "law": name, "values": drawn[:100_000].tolist()}


def histogram(setting: str, mechanism: str | None) -> dict[str, Any]:
    """Release the count of every item, found in the data, by the mechanism, or by the one that the planner chooses."""
    with setwise.open(str(table.CSV), user="user_id") as visits:
        answer = visits.histogram(
            item="item",
            epsilon=table.EPSILON,
            delta=table.DELTA,
            contributions=table.CONTRIBUTIONS,
            mechanism=mechanism,
        )
    released = {str(item.label): float(item.count or 0) for item in answer}
    return {"released": released, "law": "integer", "setting": setting}


if __name__ == "__main__":
    laplace, gaussian = LaplaceNoise(scale=Fraction(10)), GaussianNoise(sigma=Fraction(10))
    report(
        wanted(
            {
                **{task.name: partial(epsilon, task) for task in ACCOUNTING},
                **{task.name: partial(on_the_fly, task) for task in ON_THE_FLY},
                "laplace-noise": partial(noise, laplace, "discrete-laplace"),
                "gaussian-noise": partial(noise, gaussian, "discrete-gaussian"),
                "histogram": partial(histogram, "default: in rounds, as planned", None),
                "histogram-one-pass": partial(histogram, "one pass", "truncated_gaussian"),
            }
        )
    )
