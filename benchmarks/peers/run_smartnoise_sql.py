"""SmartNoise SQL over a pandas frame; its noise comes from OpenDP."""

import warnings
from functools import partial
from typing import Any

import pandas  # type: ignore[import-untyped]
import table
from protocol import Unsupported, report, wanted
from snsql import Privacy, from_connection
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


def histogram() -> dict[str, Any]:
    privacy = Privacy(epsilon=table.EPSILON, delta=table.DELTA)
    reader = from_connection(pandas.read_csv(table.CSV), privacy=privacy, metadata={"": {"": {"visits": _TABLE}}})
    _, *rows = reader.execute(_QUERY)
    return {"released": {str(item): float(count) for item, count in rows}, "law": "integer"}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    report(wanted({**{task.name: partial(epsilon, task) for task in ACCOUNTING}, "histogram": histogram}))
