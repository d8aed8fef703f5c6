"""Request bodies, made from the parameters of each kind of query, and the fields of all bodies with their limits.

A body class checks each field alone: its JSON type, its size, and the limits that the query sets for numbers. Rules
about several fields together are checked once, when `QuestionBody.question` builds the query.
"""

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
from setwise.analytics.budget import LARGEST_WITHIN, NOTHING_DRAWN, Draws, Within
from setwise.analytics.query import LARGEST_K, SHAPES, STATISTICS, Query, parameters_of
from setwise.analytics.sql.syntax import LONGEST as LONGEST_SQL
from setwise.analytics.statistics.statistic import LARGEST_NUMBER
from setwise.errors import InvalidParameter
from setwise.mechanisms.parameters import LARGEST_TAU
from setwise.mechanisms.planning.request import CountNoise, MechanismName, Total
from setwise.service.problems import ONE, SEVERAL, at_field
from setwise.service.queries.runner import Question, SqlSelect
from setwise.service.storage.schema import NAME, NAME_IN_WORDS

NO_CONTROL = r"^[^\u0000-\u001f\u007f]*$"

MOST_USES = 50
"""The most different mechanism uses in one request."""

MOST_COLUMNS = 16
"""The most columns by which one query may group."""

LARGEST_COUNT = 100_000
"""The largest count of one mechanism use in a request."""

_KINDS = f"({'|'.join(KINDS)})"


class Body(BaseModel):
    """The base class of all request bodies: an unknown field, or a value of the wrong JSON type, is refused."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _keep_one_unknown_field(cls, body: object) -> object:
        """Return the request body without its unknown fields but one, so that pydantic refuses it quickly.

        Pydantic makes one error for each unknown field: a body of a megabyte of unknown fields would take seconds and
        hundreds of megabytes. One unknown field is kept, so that the body is still refused. A body that has no more
        fields than its class is returned unchanged.
        """
        if not isinstance(body, dict) or len(body) <= len(cls.model_fields):
            return body
        known = {name: body[name] for name in cls.model_fields if name in body}
        unknown = next((name for name in body if name not in cls.model_fields), None)
        return known if unknown is None else {**known, unknown: None}


@dataclass(frozen=True, slots=True)
class Matching:
    """A field type for a text that matches the regular expression `pattern`.

    If a text does not match, the error message describes the expected form by the phrase `words` and does not show the
    pattern.
    """

    pattern: str
    words: str

    def check(self, text: str) -> str:
        """Return `text` unchanged; raise `InvalidParameter` if it does not match this type's regular expression."""
        if not re.fullmatch(self.pattern, text):
            raise InvalidParameter(f"should be {self.words}")
        return text

    def __get_pydantic_core_schema__(self, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {**handler(schema), "pattern": self.pattern, "description": self.words}


PLAIN_TEXT = Matching(NO_CONTROL, "text without control characters")


def _check_use(text: str) -> str:
    """Return `text` unchanged if it is a valid mechanism use such as "pure:0.1x25" (25 uses of a 0.1-DP mechanism).

    Raises `InvalidParameter` for a text that is no such use, for invalid parameters, or for a count above 100,000.
    """
    use = parse_use(text)
    if use.count > LARGEST_COUNT:
        raise InvalidParameter(f"a use must count at most {LARGEST_COUNT:,}, not {use.count:,}")
    return text


def _check_planned_use(text: str) -> str:
    """Return `text` unchanged if it is a valid mechanism use such as "gaussian:?x25", with "?" for at most one number.

    "gaussian:?x25" are 25 uses of a Gaussian mechanism whose noise scale is to be computed. Raises `InvalidParameter`
    for a text that is not such a use.
    """
    if "?" not in text:
        return _check_use(text)
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
Use = Annotated[str, StringConstraints(min_length=1, max_length=100), _USE, AfterValidator(_check_use)]
PlannedUse = Annotated[
    str, StringConstraints(min_length=1, max_length=100), _PLANNED_USE, AfterValidator(_check_planned_use)
]
Epsilon = Annotated[float, Field(gt=0.0, le=100.0, description="a privacy loss, at most 100")]
Delta = Annotated[float, Field(gt=0.0, lt=1.0, description="a probability strictly between 0 and 1")]
FailureShare = Annotated[float, Field(ge=0.0, lt=1.0, description="the share of delta for outright failures")]
Rule = Annotated[
    Literal["wallet", "zcdp"],
    Field(description="how uses add up: zcdp also takes uses of which only the zCDP is known"),
]
AccountRule = Annotated[
    Literal["wallet", "menu", "zcdp"],
    Field(
        description="how uses add up: menu takes only uses of a menu, zcdp also uses of which only the zCDP is known"
    ),
]

Bound = Annotated[int, Field(ge=1, le=LARGEST_TAU)]
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
"""The most public group labels of one query."""

_LONGEST_LABEL = 1000
"""The most characters of one group label."""


_CONTROL = re.compile(r"[\u0000-\u001f\u007f]")


def _check_domain(domain: object) -> list[Any]:
    """Return `domain`, the public group labels of a query, unchanged if all of them are valid.

    A label is a text, a whole number or, for groups of several columns, a list of texts and whole numbers.

    Raises `InvalidParameter` unless `domain` is a list of 1 to 100,000 labels, each of at most 16 columns, and
    `ValidationError` with the position of the first label that is not valid.
    """
    if not isinstance(domain, list) or not 1 <= len(domain) <= _MOST_LABELS:
        raise InvalidParameter(f"should be a list of 1 to {_MOST_LABELS:,} labels")
    if any(type(label) is list and not 1 <= len(label) <= MOST_COLUMNS for label in domain):
        raise InvalidParameter(f"a label of several columns should have 1 to {MOST_COLUMNS} of them")
    # All labels are checked in one pass, because one pydantic validator per label took half a second for 70,000 pairs.
    if not _are_labels([cell for label in domain for cell in (label if type(label) is list else (label,))]):
        place = next(
            place for place, label in enumerate(domain) if not _are_labels(label if type(label) is list else [label])
        )
        error = PydanticCustomError("label", _NO_LABEL)
        raise ValidationError.from_exception_data("domain", [{"type": error, "loc": (place,), "input": None}])
    return domain


_NO_LABEL = f"should be text of at most {_LONGEST_LABEL:,} plain characters, or a whole number of 64 bits"


def _are_labels(cells: list[Any]) -> bool:
    """Return whether each of `cells` is a valid part of a group label.

    A valid part is a 64-bit integer, or a text of at most 1000 characters (`_LONGEST_LABEL`), none of them a control
    character.
    """
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
"""Distinguishes a single value from a list, so that an error is about the form that was sent."""
Columns = Annotated[
    Annotated[Column, Tag(ONE)] | Annotated[list[Column], Field(min_length=1, max_length=MOST_COLUMNS), Tag(SEVERAL)],
    _ONE_OR_SEVERAL,
]
K = Annotated[int, Field(ge=1, le=LARGEST_K)]
Number = Annotated[int | float, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
Step = Annotated[int | float, Field(gt=0, le=LARGEST_NUMBER)]
Share = Annotated[float, Field(gt=0.0, lt=1.0)]
Shares = Annotated[
    Annotated[Share, Tag(ONE)] | Annotated[list[Share], Field(min_length=1, max_length=99), Tag(SEVERAL)],
    _ONE_OR_SEVERAL,
]


Auto = Literal["auto"]


class GroupingBody(Body):
    """The fields that all queries with groups share.

    - `contributions`: the most groups in which one user counts; "auto" spends at most a tenth of the question's epsilon
      on finding a good bound. None takes the dataset's bound. If the dataset has none, it means "auto" for private
      groups and for five public groups or more, except in a top k by one count or sum, which needs no bound
    - `domain`: the public group labels. None means that labels are private: noise decides which groups are shown
    - `where`: a filter of rows, as an SQL condition
    - `null_item`: the label of rows whose group is null; None leaves these rows out
    - `limit`: if labels are private, only the `limit` groups with the highest exact counts (before noise) can be in the
      answer; None for no such limit
    """

    contributions: Bound | Auto | None = None
    domain: Domain | None = None
    where: Filter | None = None
    null_item: Label | None = None
    limit: Bound | None = None


_STATISTIC_TYPES: dict[str, Any] = {
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
"""The JSON type of each parameter of a statistic."""

_STATISTIC_FIELDS: dict[str, Any] = {"statistic": (Literal[tuple(STATISTICS)], ...)} | {
    name: (_STATISTIC_TYPES[name] | None, None) for kind in STATISTICS.values() for name in parameters_of(kind)
}

StatisticBody = create_model(
    "StatisticBody",
    __base__=Body,
    __doc__="One of several statistics: its name, and the parameters that this statistic has.",
    **_STATISTIC_FIELDS,
)

PARAMETER_TYPES: dict[str, Any] = {
    **_STATISTIC_TYPES,
    "k": K,
    "per_item": Bound,
    "where": Filter,
    "statistics": Annotated[list[StatisticBody], Field(min_length=1, max_length=16)],  # type: ignore[valid-type]
}
"""The JSON type of each parameter of a query, besides those of `GroupingBody`."""

_OLD_DEFAULTS = {("count", "per_user"): 1}
"""Defaults of request bodies where the query itself has None, so that the text of stored requests does not change."""


def _body_of(kind: str) -> type[Body]:
    """Return the class of request bodies for one `kind` of query, such as "top-k".

    The fields of the class are the parameters of that query.
    """
    parameters = parameters_of(SHAPES[kind])
    is_grouped = set(GroupingBody.model_fields) <= set(parameters)
    base = GroupingBody if is_grouped else Body
    fields: dict[str, Any] = {"kind": (Literal[kind], ...)}
    for name, parameter in parameters.items():
        if name in base.model_fields:
            continue
        json_type = PARAMETER_TYPES[name]
        default = _OLD_DEFAULTS.get((kind, name), parameter.default)
        if default is parameter.empty:
            fields[name] = (json_type, ...)
        else:
            fields[name] = (json_type if (kind, name) in _OLD_DEFAULTS else json_type | None, default)
    name = "".join(part.capitalize() for part in kind.split("-"))
    return create_model(f"{name}Body", __base__=base, __doc__=_description_of(kind), **fields)


def _description_of(kind: str) -> str:
    """Return the sentence that tells, in the OpenAPI document, what one `kind` of query computes."""
    words = {
        "top-k": "The k items that most users have, or with the highest sum of `value`, highest first.",
        "histogram": "How many users, or what sum of `value`, every item has.",
        "count": "How many users there are; with `per_user` above 1 how many rows, at most that many of a user.",
        "query": "Several statistics of the same groups; with `k` of the k groups with the most users.",
    }
    return words[kind] if kind in words else STATISTICS[kind].__doc__ or ""


QUERY_BODIES = {kind: _body_of(kind) for kind in SHAPES}
"""The class of request bodies of each kind of query except SQL, made from the query's parameters."""


class SqlBody(Body):
    """A question in SQL: `text` is one SELECT from the dataset.

    The service parses the text into a query of its own, and never sends the text itself to a database.

    - `contributions`: the most groups in which one user counts; "auto" spends a part of the epsilon on finding a good
      bound. None takes the bound that the SQL states. If the SQL states none, the bound of the dataset is taken; for
      private groups, a part of the epsilon may then be spent on finding a smaller bound
    - `domain`: the public group labels; None takes the labels that the dataset declares. If it declares none, groups
      are private: noise decides which of them are shown
    """

    kind: Literal["sql"]
    text: SqlText
    contributions: Bound | Auto | None = None
    domain: Domain | None = None


class DrawsBody(Body):
    """The budget of a question, stated as guarantees that were registered when its account was opened.

    Each field names a registered guarantee, such as "pure:0.1" (0.1-DP). It pays for mechanisms with this guarantee,
    and the account may use it a fixed number of times.

    - `discover`: the guarantee that pays for each pick of a group or quantile by the exponential mechanism
    - `counts`: the guarantee that pays for each noisy count or other noisy number of the answer
    - `threshold_delta`: only for private groups, which are shown if their noisy count exceeds a threshold: the
      probability that a group with only one user is shown, paid once for the whole question. None takes DELTA if the
      account has registered a single guarantee of the form "approx:0,DELTA"
    """

    kind: Literal["draws"]
    discover: Use | None = None
    counts: Use | None = None
    threshold_delta: Annotated[float, Field(gt=0.0, lt=1.0)] | None = None

    @model_validator(mode="after")
    def _check_something_is_drawn(self) -> "DrawsBody":
        """Return the request body unchanged; raise `InvalidParameter` if nothing in it pays for the question.

        Such a question is paid with guarantees that were registered when its account was opened. The field `discover`
        names the guarantee that pays for each pick of a group or quantile, and `counts` the one that pays for each
        noisy number; a request needs at least one of the two.
        """
        if self.discover is None and self.counts is None:
            raise InvalidParameter(NOTHING_DRAWN)
        return self

    def budget(self) -> Draws:
        """Return the registered guarantees that this request body names, as the budget of a question.

        A guarantee is written as in "pure:0.1", for a 0.1-DP mechanism. Raises `InvalidParameter` if one is not valid.
        """
        return Draws(discover=self.discover, counts=self.counts, threshold_delta=self.threshold_delta)


class TotalBody(Body):
    """The budget of one question that is paid by an account with an (epsilon, delta) budget.

    - `epsilon`: what the question spends or, if `within` is given, the most that it may spend (1 if it is left out)
    - `within`: the largest half-width of the 95% interval that the plan may state; the question then spends the least
      epsilon with which the planned half-width is at most `within`. The half-width is in the unit of the statistic; for
      a quantile it is the number of users by which the rank may be off. The half-width of a mean depends on the private
      number of users, so it is planned for a group of 1,000 users
    - `delta`: only a question in SQL may leave it out. Then it is 0 for public groups. For private groups it is 1e-6
      or, if that is less, a tenth of the account's budget for failures (events in which everything may be revealed)
    - `counts`: the kind of noise that is added to counts; left out, the planner chooses it
    - `mechanism`: the mechanism that answers; left out, the planner chooses it
    """

    kind: Literal["total"]
    epsilon: Epsilon | None = None
    within: Annotated[float, Field(gt=0.0, le=float(LARGEST_WITHIN))] | None = None
    delta: Annotated[float, Field(ge=0.0, lt=1.0)] | None = None
    counts: Annotated[CountNoise, Field(strict=False)] = CountNoise.BEST
    mechanism: Annotated[MechanismName, Field(strict=False)] | None = None

    @model_validator(mode="after")
    def _check_something_is_spent(self) -> "TotalBody":
        """Return the request body; raise `InvalidParameter` if it states neither a budget nor an accuracy to spend for.

        The budget is the field `epsilon`. The accuracy is the field `within`, the largest half-width of a 95% interval
        in the answer, in the unit of the statistic.
        """
        if self.epsilon is None and self.within is None:
            raise InvalidParameter("say what to spend: epsilon, or within how much the answer should be")
        return self

    def budget(self) -> Total | Within:
        """Return the budget that the request body states, as a `Within` or a `Total`.

        A body with the field `within` gives a `Within`: the question then spends the least epsilon with which the 95%
        interval that its plan states has a half-width of at most `within`. Any other body gives a `Total`: the question
        spends a fixed (epsilon, delta).

        Raises `InvalidParameter` if the budget is not valid.
        """
        words = self.model_dump(exclude={"kind", "within"}) | {"delta": self.delta or 0.0}
        return Total(**words) if self.within is None else Within(within=self.within, **words)


if TYPE_CHECKING:
    AskedQuery = Body
else:  # the bodies are generated, which a type checker cannot follow
    AskedQuery = Annotated[Union[(*QUERY_BODIES.values(), SqlBody)], Field(discriminator="kind")]
AskedSpending = Annotated[DrawsBody | TotalBody, Field(discriminator="kind")]


class QuestionBody(Body):
    """A question: the `query` to ask of `dataset`, the `account` that pays, and the budget `spend`.

    A question in SQL may state its budget in the OPTIONS of the statement; `spend` is then None.
    """

    dataset: Name
    account: Name
    query: AskedQuery
    spend: AskedSpending | None = None

    def question(self) -> Question:
        """Return the question of this request body, with its query and budget built and checked.

        Raises `InvalidParameter` with the name of the field at fault. Whether the columns, the account and the dataset
        exist is checked later.
        """
        words = self.query.model_dump(exclude_none=True)
        with at_field("query"):
            query = SqlSelect.from_dict(words) if isinstance(self.query, SqlBody) else Query.from_dict(words)
        with at_field("spend"):
            is_delta_open = isinstance(self.spend, TotalBody) and self.spend.delta is None
            if is_delta_open and not isinstance(query, SqlSelect):
                with at_field("spend.delta"):
                    raise InvalidParameter("say which delta to spend: 0 if the groups are public, else such as 1e-9")
            budget = None if self.spend is None else self.spend.budget()
        return Question(
            dataset=self.dataset,
            account=self.account,
            query=query,
            budget=budget,
            text=self.model_dump_json(exclude_none=True),
            is_delta_open=is_delta_open,
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
