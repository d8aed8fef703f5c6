"""Questions and what to spend on them, as requests write them."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from setwise.analytics.query import LARGEST_K
from setwise.errors import InvalidParameter
from setwise.mechanisms.question import CountNoise, MechanismName
from setwise.service.fields import NO_CONTROL, Body, Column, Epsilon, Name, Use

_LARGEST_BOUND = 2**40

Bound = Annotated[int, Field(ge=1, le=_LARGEST_BOUND)]
Filter = Annotated[
    str,
    StringConstraints(min_length=1, max_length=4000, pattern=NO_CONTROL),
    Field(description="comparisons of allowed columns with constants, AND, OR, NOT: country = 'NO' AND age >= 18"),
]
Label = (
    Annotated[str, StringConstraints(max_length=1000, pattern=NO_CONTROL)]
    | Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
)
Domain = Annotated[list[Label], Field(min_length=1, max_length=100_000)]


class TopKBody(Body):
    """The k items that most users have, or with the highest sum of `value`, highest first."""

    kind: Literal["top-k"]
    item: Column
    k: Annotated[int, Field(ge=1, le=LARGEST_K)]
    contributions: Bound | None = None
    per_item: Bound | None = None
    value: Column | None = None
    domain: Domain | None = None
    where: Filter | None = None
    null_item: Column | None = None
    limit: Annotated[int, Field(ge=1, le=10 * LARGEST_K)] | None = None


class HistogramBody(Body):
    """How many users, or what sum of `value`, every item has."""

    kind: Literal["histogram"]
    item: Column
    contributions: Bound | None = None
    per_item: Bound | None = None
    value: Column | None = None
    domain: Domain | None = None
    where: Filter | None = None
    null_item: Column | None = None
    limit: Annotated[int, Field(ge=1, le=10 * LARGEST_K)] | None = None


class CountBody(Body):
    """How many users there are; with `per_user` above 1 how many rows, at most that many of a user."""

    kind: Literal["count"]
    per_user: Bound = 1
    where: Filter | None = None


class SumBody(Body):
    """The sum of an integer column, each user's own sum clipped to between 0 and `clip`."""

    kind: Literal["sum"]
    value: Column
    clip: Bound
    where: Filter | None = None


class DrawsBody(Body):
    """What to draw from the account: for each pick, for each count, and for the threshold of an unknown domain."""

    kind: Literal["draws"]
    discover: Use | None = None
    counts: Use | None = None
    threshold_delta: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None

    @model_validator(mode="after")
    def _something_is_drawn(self) -> "DrawsBody":
        if self.discover is None and self.counts is None:
            raise InvalidParameter("say what to draw from the account: discover, counts, or both")
        return self


class TotalBody(Body):
    """A total for this question alone, for accounts that are filters; the planner splits it."""

    kind: Literal["total"]
    epsilon: Epsilon
    delta: Annotated[float, Field(ge=0.0, lt=1.0)]
    counts: Annotated[CountNoise, Field(strict=False)] = CountNoise.BEST
    mechanism: Annotated[MechanismName, Field(strict=False)] | None = None


AskedQuery = Annotated[TopKBody | HistogramBody | CountBody | SumBody, Field(discriminator="kind")]
AskedSpending = Annotated[DrawsBody | TotalBody, Field(discriminator="kind")]


class QuestionBody(Body):
    """A question to a data set, and the account that pays for it."""

    dataset: Name
    account: Name
    query: AskedQuery
    spend: AskedSpending


EXAMPLES = [
    {
        "dataset": "events",
        "account": "ada-events",
        "query": {"kind": "top-k", "item": "word", "k": 10},
        "spend": {
            "kind": "draws",
            "discover": "bounded-range:0.1",
            "counts": "pure:0.1",
            "threshold_delta": 1e-9,
        },
    },
    {
        "dataset": "events",
        "account": "ada-month",
        "query": {"kind": "count", "where": "country = 'NO'"},
        "spend": {"kind": "total", "epsilon": 0.1, "delta": 0.0},
    },
]
