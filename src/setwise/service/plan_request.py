"""What a plan depends on, as it travels to the process that plans."""

import base64
import pickle
from dataclasses import dataclass

from setwise.analytics.planned import Planned
from setwise.analytics.planning import plan_query
from setwise.analytics.query import Query
from setwise.analytics.schema import Schema
from setwise.analytics.spending import Spending
from setwise.ledger.standing import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequest:
    """What a plan depends on: the question, the columns there are, and how the account stands."""

    query: Query
    spending: Spending
    user: str
    schema: Schema
    standing: Standing

    def planned(self) -> Planned:
        """Return the plan; no row is read."""
        return plan_query(self.query, self.spending, self.user, self.schema, self.standing)


def packed(value: object) -> str:
    """Return records as text, for a pipe between processes of one replica; nobody else writes to it."""
    return base64.b64encode(pickle.dumps(value)).decode("ascii")


def unpacked(text: str) -> object:
    """Return the records that `packed` made into text."""
    return pickle.loads(base64.b64decode(text))  # noqa: S301 - from our own process, through a pipe that is ours
