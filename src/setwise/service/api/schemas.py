"""The fields that several requests share: names, numbers and written uses that refuse what cannot be."""

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from setwise.accounting import calibrate
from setwise.accounting.guarantees import KINDS
from setwise.accounting.notation import parse_use
from setwise.analytics.query import LARGEST_K
from setwise.errors import InvalidParameter
from setwise.mechanisms.planning.request import CountNoise, MechanismName
from setwise.service.auth.people import NAME

NO_CONTROL = r"^[^\u0000-\u001f\u007f]*$"

MOST_USES = 50
"""The most different uses in one request."""

LARGEST_COUNT = 100_000
"""The most uses of one kind in one request."""

_KINDS = f"({'|'.join(KINDS)})"


class Body(BaseModel):
    """What a request may hold: exactly the named fields, of exactly their kinds."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


def _use(text: str) -> str:
    use = parse_use(text)
    if use.count > LARGEST_COUNT:
        raise InvalidParameter(f"a use must count at most {LARGEST_COUNT:,}, not {use.count:,}")
    return text


def _planned_use(text: str) -> str:
    if "?" not in text:
        return _use(text)
    calibrate.parse_plan([text])
    return text


Name = Annotated[
    str,
    StringConstraints(pattern=NAME),
    Field(description="1 to 64 letters, digits, dots, dashes or underscores, the first a letter or digit"),
]
Column = Annotated[str, StringConstraints(min_length=1, max_length=128, pattern=NO_CONTROL)]
ShortText = Annotated[str, StringConstraints(max_length=100, pattern=NO_CONTROL)]
_WRITTEN = rf"^{_KINDS}:[0-9.,eE+x-]+$"
_PLANNED = rf"^{_KINDS}:[0-9.,eE+x?-]+$"
Written = Annotated[str, StringConstraints(min_length=1, max_length=100, pattern=_WRITTEN)]
Use = Annotated[Written, AfterValidator(_use), Field(description="KIND:PARAMETERS[xCOUNT], such as pure:0.1x25")]
PlannedUse = Annotated[
    str,
    StringConstraints(min_length=1, max_length=100, pattern=_PLANNED),
    AfterValidator(_planned_use),
    Field(description="a use, one of them with a ? for what is to be found: gaussian:?x10, pure:?x25, pure:0.1x?"),
]
Epsilon = Annotated[float, Field(gt=0.0, le=100.0, description="a privacy loss, at most 100")]
Delta = Annotated[float, Field(gt=0.0, lt=1.0, description="a probability strictly between 0 and 1")]

PATTERNS_IN_WORDS = {
    NAME: "1 to 64 letters, digits, dots, dashes or underscores, the first a letter or digit",
    NO_CONTROL: "text without control characters",
    _WRITTEN: f"a use such as pure:0.1 or gaussian:20x3, of one of the kinds {', '.join(KINDS)}; "
    "leave the field out for none",
    _PLANNED: f"a use such as gaussian:?x10 or pure:0.1x25, of one of the kinds {', '.join(KINDS)}",
}
"""What each pattern asks for: nobody should have to read a regular expression."""


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
