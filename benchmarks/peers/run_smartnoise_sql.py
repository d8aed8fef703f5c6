"""SmartNoise SQL over a pandas frame; its noise comes from OpenDP."""

import warnings
from functools import partial
from typing import Any

import pandas  # type: ignore[import-untyped]
import table
from protocol import Unsupported, report, wanted
from snsql import Mechanism, Privacy, Stat, from_connection
from snsql.sql.odometer import OdometerHeterogeneous
from tasks import ACCOUNTING, Accounting

_QUERY = "SELECT item, COUNT(DISTINCT user_id) AS users FROM visits GROUP BY item"
_TABLE = {
    "user_id": {"type": "int", "private_id": True},
    "item": {"type": "string"},
    "max_ids": table.CONTRIBUTIONS,
    "sample_max_ids": True,
    "censor_dims": True,
    "clamp_counts": False,
    "row_privacy": False,
}
_DELTA = table.DELTA / 1.5
"""The delta to ask for: the odometer states one and a half times as much for the answer."""


def epsilon(task: Accounting) -> dict[str, Any]:
    if {uses.kind for uses in task.uses} != {"pure"}:
        raise Unsupported("the odometer adds (epsilon, delta) pairs at a delta of its own")
    (uses,) = task.uses
    # Its delta is what the uses spend plus the privacy object's own, which stands for the slack.
    odometer = OdometerHeterogeneous(Privacy(epsilon=uses.parameters[0], delta=0.0))
    odometer.tol = task.delta
    for _ in range(uses.count):
        odometer.spend()
    return {"value": float(odometer.spent[0]), "how": "advanced composition"}


def histogram(setting: str, *, gaussian: bool = False, distinct: bool = False) -> dict[str, Any]:
    """Release the counts with Laplace or Gaussian noise; `distinct` drops repeated rows of the table beforehand.

    SmartNoise keeps 20 rows of a user, so that repeated rows take the places of items. `use_dpsu` is left out, because
    it spends an epsilon of 1 that the odometer does not count.
    """
    privacy = Privacy(epsilon=table.EPSILON, delta=_DELTA)
    if gaussian:
        privacy.mechanisms.map |= {Stat.count: Mechanism.gaussian, Stat.threshold: Mechanism.gaussian}
    visits = pandas.read_csv(table.CSV)
    if distinct:
        visits = visits.drop_duplicates()
    reader = from_connection(visits, privacy=privacy, metadata={"": {"": {"visits": _TABLE}}})
    _, *rows = reader.execute(_QUERY)
    epsilon, delta = reader.odometer.spent
    assert epsilon <= table.EPSILON
    assert delta <= table.DELTA * (1 + 1e-9)
    return {"released": {str(item): float(count) for item, count in rows}, "law": "integer", "setting": setting}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    histograms = {
        "histogram": partial(histogram, "default: Laplace noise"),
        "histogram-gaussian": partial(histogram, "Gaussian noise", gaussian=True),
        "histogram-distinct": partial(histogram, "Laplace noise, repeated rows dropped beforehand", distinct=True),
    }
    report(wanted({**{task.name: partial(epsilon, task) for task in ACCOUNTING}, **histograms}))
