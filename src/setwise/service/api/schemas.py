"""The bodies of questions, and the fields that requests share: names, numbers and uses that refuse what cannot be."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainValidator,
    StringConstraints,
    Tag,
    ValidationError,
    create_model,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from setwise.accounting import calibrate
from setwise.accounting.guarantees import KINDS
from setwise.accounting.notation import parse_use
from setwise.analytics.budget import Draws, Within
from setwise.analytics.query import LARGEST_K, SHAPES, STATISTICS, Count, Statistic, parameters_of
from setwise.analytics.sql.syntax import LONGEST as LONGEST_SQL
from setwise.errors import InvalidParameter
from setwise.mechanisms.planning.request import CountNoise, MechanismName, Total
from setwise.service.problems import ONE, SEVERAL
from setwise.service.queries.runner import Question
from setwise.service.storage.schema import NAME, NAME_IN_WORDS

NO_CONTROL = r"^[^\u0000-\u001f\u007f]*$"

MOST_USES = 50
"""The most different uses in one request."""

MOST_COLUMNS = 16
"""The most columns that groups are made of."""

LARGEST_COUNT = 100_000
"""The most uses of one kind in one request."""

_KINDS = f"({'|'.join(KINDS)})"


class Body(BaseModel):
    """What a request may hold: exactly the named fields, of exactly their kinds."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _keep_one_unknown_field(cls, given: object) -> object:
        """Drop all unknown fields but the first, which is then refused by name.

        A megabyte of unknown fields would otherwise be as many errors, and take seconds and hundreds of megabytes.
        """
        if not isinstance(given, dict) or len(given) <= len(cls.model_fields):
            return given
        known = {name: given[name] for name in cls.model_fields if name in given}
        unknown = next((name for name in given if name not in cls.model_fields), None)
        return known if unknown is None else {**known, unknown: None}


class BracketView(BaseModel):
    """A certified [lower, upper]; the upper end is promised."""

    lower: float = Field(examples=[2.4319])
    upper: float = Field(examples=[2.4326])


@dataclass(frozen=True, slots=True)
class Matching:
    """A text that matches a pattern, refused in words: nobody should have to read a regular expression."""

    pattern: str
    words: str

    def check(self, given: str) -> str:
        """Return the text, or raise what it should be."""
        if not re.fullmatch(self.pattern, given):
            raise InvalidParameter(f"should be {self.words}")
        return given

    def __get_pydantic_core_schema__(self, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "pattern": self.pattern, "description": self.words}


PLAIN_TEXT = Matching(NO_CONTROL, "text without control characters")


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


Name = Annotated[str, Matching(NAME, NAME_IN_WORDS)]
Column = Annotated[str, StringConstraints(min_length=1, max_length=128), PLAIN_TEXT]
ShortText = Annotated[str, StringConstraints(max_length=100), PLAIN_TEXT]
_USE = Matching(
    rf"^{_KINDS}:[0-9.,eE+x-]+$",
    f"a use such as pure:0.1 or gaussian:20x3, of one of the kinds {', '.join(KINDS)}; leave the field out for none",
)
_PLANNED_USE = Matching(
    rf"^{_KINDS}:[0-9.,eE+x?-]+$",
    f"a use such as gaussian:?x10, pure:0.1x? or pure:0.1x25, of one of the kinds {', '.join(KINDS)}",
)
Use = Annotated[str, StringConstraints(min_length=1, max_length=100), _USE, AfterValidator(_use)]
PlannedUse = Annotated[str, StringConstraints(min_length=1, max_length=100), _PLANNED_USE, AfterValidator(_planned_use)]
Epsilon = Annotated[float, Field(gt=0.0, le=100.0, description="a privacy loss, at most 100")]
Delta = Annotated[float, Field(gt=0.0, lt=1.0, description="a probability strictly between 0 and 1")]
FailureShare = Annotated[float, Field(ge=0.0, lt=1.0, description="the share of delta for outright failures")]
Rule = Annotated[
    Literal["wallet", "zcdp"], Field(description="how uses add up: zcdp takes those of which only their zCDP is known")
]

_LARGEST_BOUND = 2**40

Bound = Annotated[int, Field(ge=1, le=_LARGEST_BOUND)]
Filter = Annotated[
    str,
    StringConstraints(min_length=1, max_length=4000),
    PLAIN_TEXT,
    Field(description="comparisons of allowed columns with constants, AND, OR, NOT: country = 'NO' AND age >= 18"),
]
SqlText = Annotated[
    str,
    StringConstraints(min_length=1, max_length=LONGEST_SQL),
    Matching(r"^[^\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]*$", "one SELECT, without control characters"),
]
Label = (
    Annotated[str, StringConstraints(max_length=1000), PLAIN_TEXT] | Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
)
_MOST_LABELS = 100_000
_LONGEST_LABEL = 1000


_CONTROL = re.compile(r"[\u0000-\u001f\u007f]")


def _check_domain(given: object) -> list[Any]:
    """Return public labels, each a text, a whole number or a list of these, or raise for the first that is none.

    All labels are checked at once, in place of validators for each, which took half a second for 70,000 pairs.
    """
    if not isinstance(given, list) or not 1 <= len(given) <= _MOST_LABELS:
        raise InvalidParameter(f"should be a list of 1 to {_MOST_LABELS:,} labels")
    if any(type(label) is list and not 1 <= len(label) <= MOST_COLUMNS for label in given):
        raise InvalidParameter(f"a label of several columns should have 1 to {MOST_COLUMNS} of them")
    if not _are_labels([cell for label in given for cell in (label if type(label) is list else (label,))]):
        place = next(
            place for place, label in enumerate(given) if not _are_labels(label if type(label) is list else [label])
        )
        error = PydanticCustomError("label", _NO_LABEL)
        raise ValidationError.from_exception_data("domain", [{"type": error, "loc": (place,), "input": None}])
    return given


_NO_LABEL = f"should be text of at most {_LONGEST_LABEL:,} plain characters, or a whole number of 64 bits"


def _are_labels(cells: list[Any]) -> bool:
    """Whether each cell is a text without control characters or a whole number of 64 bits."""
    texts = [cell for cell in cells if type(cell) is str]
    numbers = [cell for cell in cells if type(cell) is int]
    return (
        len(texts) + len(numbers) == len(cells)
        and max(map(len, texts), default=0) <= _LONGEST_LABEL
        and not _CONTROL.search("".join(texts))
        and min(numbers, default=0) >= -(2**63)
        and max(numbers, default=0) < 2**63
    )


_Labels = Annotated[
    list[Label | Annotated[list[Label], Field(min_length=1, max_length=MOST_COLUMNS)]],
    Field(min_length=1, max_length=_MOST_LABELS),
]
Domain = Annotated[list[Any], PlainValidator(_check_domain, json_schema_input_type=_Labels)]
_ONE_OR_SEVERAL = Discriminator(lambda given: SEVERAL if isinstance(given, list | tuple) else ONE)
"""Which of the two was meant, so that a refusal is about that one."""
Columns = Annotated[
    Annotated[Column, Tag(ONE)] | Annotated[list[Column], Field(min_length=1, max_length=MOST_COLUMNS), Tag(SEVERAL)],
    _ONE_OR_SEVERAL,
]
K = Annotated[int, Field(ge=1, le=LARGEST_K)]
Number = Annotated[int | float, Field(ge=-1e15, le=1e15)]
Step = Annotated[int | float, Field(gt=0, le=1e15)]
Share = Annotated[float, Field(gt=0.0, lt=1.0)]
Shares = Annotated[
    Annotated[Share, Tag(ONE)] | Annotated[list[Share], Field(min_length=1, max_length=99), Tag(SEVERAL)],
    _ONE_OR_SEVERAL,
]


Auto = Literal["auto"]


class GroupingBody(Body):
    """Which groups there are, and how far one user reaches; bounds that are left out are the data set's.

    A group is a column or a bin of one, as in `age by 10` or `month of at`. Contributions that are `auto` are found.
    """

    contributions: Bound | Auto | None = None
    domain: Domain | None = None
    where: Filter | None = None
    null_item: Label | None = None
    limit: Annotated[int, Field(ge=1, le=10 * LARGEST_K)] | None = None


class TopKBody(GroupingBody):
    """The k items that most users have, or with the highest sum of `value`, highest first."""

    kind: Literal["top-k"]
    item: Columns
    k: K
    per_item: Bound | None = None
    value: Column | None = None


class HistogramBody(GroupingBody):
    """How many users, or what sum of `value`, every item has."""

    kind: Literal["histogram"]
    item: Columns
    per_item: Bound | None = None
    value: Column | None = None


class CountBody(Body):
    """How many users there are; with `per_user` above 1 how many rows, at most that many of a user."""

    kind: Literal["count"]
    per_user: Bound = 1
    where: Filter | None = None


WORDS: dict[str, Any] = {
    "value": Column,
    "column": Column,
    "most": Bound,
    "clip": Bound,
    "low": Number,
    "high": Number,
    "at": Shares,
    "bounds": Auto,
    "per_user": Bound,
    "step": Step,
    "item": Columns,
}
"""What each word of a statistic may be in a request."""


def _body_of(statistic: type[Statistic]) -> type[Body]:
    """Return the body of a query for one statistic: its own words, and those of its groups."""
    words = {name: word for name, word in parameters_of(SHAPES[statistic.kind]).items() if name in WORDS}
    fields: dict[str, Any] = {"kind": (Literal[statistic.kind], ...)}
    fields |= {
        name: (WORDS[name], ...) if word.default is word.empty else (WORDS[name] | None, word.default)
        for name, word in words.items()
    }
    return create_model(
        f"{statistic.__name__}Body",
        __base__=GroupingBody,
        __doc__=statistic.__doc__,
        **fields,
    )


MEASURED = tuple(_body_of(statistic) for statistic in STATISTICS.values() if statistic is not Count)
"""The bodies of queries for one statistic of a column, from the table of statistics."""

_STATISTIC: dict[str, Any] = {"statistic": (Literal[tuple(STATISTICS)], ...)}
_STATISTIC |= {name: (WORDS[name] | None, None) for kind in STATISTICS.values() for name in parameters_of(kind)}

StatisticBody = create_model(
    "StatisticBody",
    __base__=Body,
    __doc__="One of several statistics: its name, and the words that it has.",
    **_STATISTIC,
)


class StatisticsBody(GroupingBody):
    """Several statistics of the same groups; with `k` of the k groups with the most users."""

    kind: Literal["query"]
    statistics: Annotated[list[StatisticBody], Field(min_length=1, max_length=16)]  # type: ignore[valid-type]
    item: Columns | None = None
    k: K | None = None


class SqlBody(Body):
    """One SELECT from the data set, read into the query that the other kinds state; nothing of it reaches an engine."""

    kind: Literal["sql"]
    text: SqlText
    contributions: Bound | Auto | None = None
    domain: Domain | None = None


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

    def spending(self) -> Draws:
        """Return the record, or raise what is wrong with it."""
        return Draws(
            discover=self.discover,  # type: ignore[arg-type]  # written forms do as well
            counts=self.counts,  # type: ignore[arg-type]
            threshold_delta=self.threshold_delta,
        )


class TotalBody(Body):
    """A total for this question alone, for accounts that are filters; the planner splits it.

    `within` in place of epsilon is half the width that planned 95% intervals may have (of means over 1,000 users; of
    quantiles in users of rank): the least epsilon is found. An
    epsilon beside it must reach it.
    """

    kind: Literal["total"]
    epsilon: Epsilon | None = None
    within: Annotated[float, Field(gt=0.0, le=1e15)] | None = None
    delta: Annotated[float, Field(ge=0.0, lt=1.0)]
    counts: Annotated[CountNoise, Field(strict=False)] = CountNoise.BEST
    mechanism: Annotated[MechanismName, Field(strict=False)] | None = None

    @model_validator(mode="after")
    def _something_is_spent(self) -> "TotalBody":
        if self.epsilon is None and self.within is None:
            raise InvalidParameter("say what to spend: epsilon, or within how much the answer should be")
        return self

    def spending(self) -> Total | Within:
        """Return the record, or raise what is wrong with it."""
        given = self.model_dump(exclude={"kind", "within"})
        return Total(**given) if self.within is None else Within(within=self.within, **given)  # type: ignore[arg-type]


if TYPE_CHECKING:
    AskedQuery = Body
else:  # the bodies of statistics come from their table, which no type checker reads
    _BODIES = (TopKBody, HistogramBody, CountBody, *MEASURED, StatisticsBody, SqlBody)
    AskedQuery = Annotated[Union[_BODIES], Field(discriminator="kind")]  # noqa: UP007
AskedSpending = Annotated[DrawsBody | TotalBody, Field(discriminator="kind")]


class QuestionBody(Body):
    """A question to a data set, the account that pays, and what to spend, unless the OPTIONS of its SQL say so."""

    dataset: Name
    account: Name
    query: AskedQuery
    spend: AskedSpending | None = None

    def question(self) -> Question:
        """Return what is asked, still to be checked."""
        return Question(
            dataset=self.dataset,
            account=self.account,
            query=self.query.model_dump(exclude_none=True),
            spending=None if self.spend is None else self.spend.spending,
        )


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
    {
        "dataset": "events",
        "account": "ada-month",
        "query": {
            "kind": "sql",
            "text": "SELECT word, COUNT(DISTINCT user_id) AS users FROM events GROUP BY word",
        },
        "spend": {"kind": "total", "epsilon": 0.1, "delta": 1e-9},
    },
]
