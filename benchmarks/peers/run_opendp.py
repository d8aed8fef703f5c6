"""OpenDP: measurements composed by zero-concentrated DP; exact integer noise; a table by its Polars engine."""

import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import opendp.prelude as dp
import polars
import table
from protocol import Unsupported, report, wanted
from tasks import ACCOUNTING, BUDGET, BUDGET_AS_RHO, ON_THE_FLY, Accounting, OnTheFly, Uses

_DRAWS = 100_000
_SCORES = dp.vector_domain(dp.atom_domain(T=int), 10), dp.linf_distance(T=int, monotonic=True)
_COUNT = dp.atom_domain(T=int), dp.absolute_distance(T=int)


def epsilon(task: Accounting) -> dict[str, Any]:
    """Compose what each use would be: a noisy count, or a noisy maximum of ten monotone scores."""
    kinds = {uses.kind for uses in task.uses}
    if "bounded-range" in kinds and len(kinds) > 1:
        raise Unsupported("picks and counts have different input metrics and do not compose without a table")
    parts = [measurement for uses in task.uses for measurement in [_measurement(uses)] * uses.count]
    curve = dp.c.make_zCDP_to_approxDP(dp.c.make_composition(parts)).map(1)
    return {"value": float(curve.epsilon(task.delta)), "how": "zCDP"}


def _measurement(uses: Uses) -> Any:  # noqa: ANN401
    match uses.kind:
        case "pure" | "laplace":
            scale = uses.parameters[0] if uses.kind == "laplace" else 1 / uses.parameters[0]
            return dp.c.make_pureDP_to_zCDP(dp.m.make_laplace(*_COUNT, scale=scale))
        case "gaussian":
            return dp.m.make_gaussian(*_COUNT, scale=uses.parameters[0])
        case "bounded-range":
            return dp.m.make_noisy_max(*_SCORES, dp.zero_concentrated_divergence(), scale=1 / uses.parameters[0])
        case "approx":
            raise Unsupported("(epsilon, delta) pairs are summed")
        case _:
            raise Unsupported("amplification by sampling is not for Gaussians")


def on_the_fly(task: OnTheFly) -> dict[str, Any]:
    """Ask a privacy filter until it refuses, in pure DP where the question has that and in zCDP; the better counts."""
    picks = task.uses.kind == "bounded-range"
    data, space = ([0] * 10, _SCORES) if picks else (0, _COUNT)
    taken = {"zCDP": _taken(dp.zero_concentrated_divergence(), BUDGET_AS_RHO, space, _measurement(task.uses), data)}
    if task.uses.kind == "pure":
        laplace = dp.m.make_laplace(*_COUNT, scale=1 / task.uses.parameters[0])
        taken["pure DP"] = _taken(dp.max_divergence(), BUDGET[0], space, laplace, data)
    best = max(taken, key=lambda measure: taken[measure])
    return {"value": taken[best], "how": f"a filter of {best}"}


def _taken(measure: Any, total: float, space: Any, question: Any, data: Any) -> int:  # noqa: ANN401
    odometer = dp.c.make_fully_adaptive_composition(*space, measure)
    # A little more than the total, because sums of doubles come out a little above it.
    asked, taken = dp.c.make_privacy_filter(odometer, d_in=1, d_out=total * (1 + 1e-9))(data), 0
    with suppress(dp.OpenDPException):
        while True:
            asked(question)
            taken += 1
    return taken


def noise(name: str) -> dict[str, Any]:
    metric = dp.l1_distance(T=int) if name == "laplace" else dp.l2_distance(T=float)
    make = dp.m.make_laplace if name == "laplace" else dp.m.make_gaussian
    mechanism = make(dp.vector_domain(dp.atom_domain(T=int)), metric, scale=10.0)
    return {"draws": _DRAWS, "law": f"discrete-{name}", "values": list(mechanism([0] * _DRAWS))}


def histogram_laplace() -> dict[str, Any]:
    loss = dp.loss_of(epsilon=table.EPSILON, delta=table.DELTA)
    return {"setting": "default: epsilon and delta, Laplace noise", **_histogram(loss)}


def histogram_gaussian() -> dict[str, Any]:
    """Release under zCDP: half of delta is for the threshold, and rho is (epsilon, delta / 2)-DP."""
    loss = dp.loss_of(rho=_largest_rho(table.EPSILON, table.DELTA / 2), delta=table.DELTA / 2)
    return {"setting": "rho and delta (zCDP), Gaussian noise", **_histogram(loss)}


def _largest_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho for which OpenDP states `epsilon` at `delta` for one Gaussian of that rho."""

    def states_epsilon(scale: float) -> bool:
        gaussian = dp.c.make_zCDP_to_approxDP(dp.m.make_gaussian(*_COUNT, scale=scale))
        return bool(gaussian.map(1).epsilon(delta) <= epsilon)

    return float(1 / (2 * dp.binary_search(states_epsilon, (0.1, 100.0)) ** 2))


def _histogram(loss: Any) -> dict[str, Any]:  # noqa: ANN401 - of another library
    context = dp.Context.compositor(
        data=polars.scan_csv(table.CSV),
        privacy_unit=dp.unit_of(contributions=1, identifier=polars.col("user_id")),
        privacy_loss=loss,
        split_evenly_over=1,
        margins=[],
    )
    # One row for each item, then 20 rows drawn at random; `truncate_num_groups` can only keep the first ones here.
    bounded = context.query().truncate_per_group(1, by=["item"]).truncate_per_group(table.CONTRIBUTIONS)
    released = bounded.group_by("item").agg(dp.len(signed=True)).release().collect()
    return {"released": dict(zip(released["item"], map(float, released["len"]), strict=True)), "law": "integer"}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    dp.enable_features("contrib", "honest-but-curious")
    tasks: dict[str, Callable[[], dict[str, Any]]] = {
        **{task.name: partial(epsilon, task) for task in ACCOUNTING},
        **{task.name: partial(on_the_fly, task) for task in ON_THE_FLY},
        "laplace-noise": partial(noise, "laplace"),
        "gaussian-noise": partial(noise, "gaussian"),
        "histogram": histogram_laplace,
        "histogram-gaussian": histogram_gaussian,
    }
    report(wanted(tasks))
