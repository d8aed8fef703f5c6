"""The schemas of the API's answers, each made from the record that it shows."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from setwise.accounting.brackets import Answer, Interaction
from setwise.accounting.guarantees import Use
from setwise.accounting.notation import format_use, use_in_words
from setwise.analytics.answer import EARLIER_NOTE, PrivateAnswer
from setwise.analytics.planning import Plan
from setwise.analytics.sql.result import Output, SqlAnswer
from setwise.ledger.audit.verification import Verification
from setwise.ledger.records import Entry
from setwise.ledger.status import AccountStatus, Joint
from setwise.service.auth.people import NewToken, Person, Role, Token
from setwise.service.queries.jobs import Job, JobState


class ProblemView(BaseModel):
    """application/problem+json: what went wrong and how to mend it."""

    type: str = Field(examples=["urn:setwise:problem:invalid-parameter"])
    title: str = Field(examples=["Invalid parameter"])
    status: int = Field(examples=[422])
    detail: str = Field(examples=["k: Input should be greater than or equal to 1"])
    field: str | None = Field(default=None, examples=["query.k"], description="the part of the request at fault")


class PersonView(BaseModel):
    """A person."""

    name: str = Field(examples=["ada"])
    role: Role = Field(examples=["analyst"])

    @staticmethod
    def of(person: Person) -> "PersonView":
        """Show a person."""
        return PersonView(name=person.name, role=person.role)


class TokenView(BaseModel):
    """A token without its secret. Times are seconds since 1970."""

    id: str = Field(examples=["9f86d081884c7d65"])
    person: str = Field(examples=["ada"])
    label: str = Field(examples=["laptop"])
    created_at: float = Field(examples=[1760000000.0])
    expires_at: float | None = Field(examples=[1767776000.0])
    revoked_at: float | None = Field(examples=[None])

    @staticmethod
    def of(token: Token) -> "TokenView":
        """Show a token."""
        return TokenView.model_validate(asdict(token))


class NewTokenView(TokenView):
    """A token that was just made; `secret` is shown here and never again."""

    secret: str = Field(examples=["setwise_..."])

    @staticmethod
    def made(new: NewToken) -> "NewTokenView":
        """Show a new token, this once."""
        return NewTokenView(**TokenView.of(new.token).model_dump(), secret=new.secret)


class BracketView(BaseModel):
    """A certified [lower, upper]; the upper end is promised."""

    lower: float = Field(examples=[2.4319])
    upper: float = Field(examples=[2.4326])


class CompositionView(BaseModel):
    """What uses add up to, and the statement it rests on."""

    interaction: Interaction = Field(examples=["setwise"])
    epsilon: BracketView
    delta: BracketView
    method: str = Field(examples=["certified-optimum"])
    statement: str = Field(examples=["docs/optimal-composition.md, the set-wise optimum"])
    words: list[str] = Field(examples=[["25 counts at ε 0.1"]], description="the uses as pages show them, in order")


class CalibrationView(CompositionView):
    """The value found for the ? and what the uses then add up to."""

    free: Literal["noise", "epsilon", "count"] = Field(examples=["noise"])
    value: float = Field(examples=[21.12])
    uses: list[str] = Field(examples=[["gaussian:21.12x25"]])


class HealthView(BaseModel):
    """Whether this replica serves and reaches its database."""

    status: Literal["ok"] = "ok"
    version: str = Field(examples=["0.1.0"])


class AccountView(BaseModel):
    """An account's status. The upper end of `epsilon` is the promise at `delta`; `odometer` is what is used of it."""

    account: str = Field(examples=["ada-events"])
    kind: Literal["setwise", "filter", "cap"] = Field(examples=["setwise"])
    analyst: str = Field(examples=["ada"])
    dataset: str = Field(examples=["events"])
    epsilon: BracketView
    delta: float = Field(examples=[1e-6])
    method: str = Field(examples=["certified-optimum"])
    statement: str = Field(examples=["docs/optimal-composition.md, the set-wise optimum"])
    left: list[str] = Field(examples=[["bounded-range:0.1x15", "pure:0.1x15"]])
    spent: list[str] = Field(examples=[["bounded-range:0.1x10", "pure:0.1x10"]])
    share_left: float = Field(examples=[0.6])
    odometer: BracketView | None = Field(description="the loss so far; null in lists, where it is not computed")
    charges: int = Field(examples=[1])
    state: Literal["open", "frozen", "closed"] = Field(examples=["open"])
    every: str | None = Field(examples=[None], description="the calendar period after which the budget is fresh")
    period: str | None = Field(examples=[None], description="the present period, of an account that has periods")

    @staticmethod
    def of(status: AccountStatus) -> "AccountView":
        """Show the status of an account."""
        return AccountView.model_validate(status.to_dict())

    @staticmethod
    def listed(statuses: Iterable[AccountStatus]) -> "list[AccountView]":
        """Show accounts in a list, without their odometers."""
        return [AccountView.model_validate(status.summary() | {"odometer": None}) for status in statuses]


class EntryView(BaseModel):
    """An entry of an account.

    A charge with what was asked, a settlement with the answer and the draws returned, or a slice: units taken of the
    data set's cap or given back.
    """

    entry: int = Field(examples=[1], description="its number in the account")
    at: str = Field(examples=["2026-11-15T12:00:00+00:00"])
    kind: Literal["charge", "settle", "slice"] = Field(examples=["charge"])
    key: str = Field(examples=["monday-top-ten"])
    period: str | None = Field(examples=[None])
    uses: list[str] = Field(
        examples=[["bounded-range:0.1x10"]], description="drawn by a charge, returned by a settlement"
    )
    text: str = Field(
        examples=['{"query":{"kind":"top-k"}}'],
        description="as it was written: what was asked, what was answered, or the units of a slice; JSON",
    )
    hash: str = Field(examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"])

    @staticmethod
    def of(entry: Entry) -> "EntryView":
        """Show an entry."""
        return EntryView.model_validate(entry.to_dict())


class JointView(BaseModel):
    """What the accounts on a data set promise together, over some periods of each."""

    dataset: str = Field(examples=["events"])
    accounts: list[str] = Field(examples=[["ada-events", "bob-events"]])
    periods: int = Field(examples=[1])
    epsilon: BracketView
    delta: float = Field(examples=[2e-6])
    interaction: Interaction = Field(examples=["setwise"])
    method: str = Field(examples=["certified-optimum"])
    statement: str = Field(examples=["docs/optimal-composition.md, the set-wise optimum"])
    cap: AccountView | None = Field(description="the data set's cap, if it has one")

    @staticmethod
    def of(joint: Joint) -> "JointView":
        """Show a joint promise."""
        return JointView.model_validate(joint.to_dict())


class ActView(BaseModel):
    """What somebody did, in its place in the ledger's register, which nothing can be removed from."""

    number: int = Field(examples=[7])
    at: str = Field(examples=["2026-11-15T12:00:00+00:00"])
    action: str = Field(examples=["person.added"])
    by: str = Field(examples=["steward"])
    subject: str = Field(examples=["ada"])
    details: dict[str, Any] = Field(examples=[{"role": "analyst"}])
    hash: str = Field(examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"])


class AuditView(BaseModel):
    """What verifying the ledger found: nothing is wrong when there are no faults. Keep `head` to compare later."""

    verified: bool = Field(examples=[True])
    accounts: int = Field(examples=[7])
    entries: int = Field(examples=[42])
    head: str = Field(examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"])
    faults: list[str] = Field(examples=[[]])

    @staticmethod
    def of(found: Verification) -> "AuditView":
        """Show a verification."""
        return AuditView.model_validate(found.to_dict() | {"faults": [str(fault) for fault in found.faults]})


def bracket(answer: Answer) -> BracketView:
    """Show the ends of a bracket."""
    return BracketView(lower=answer.lower, upper=answer.upper)


class PreviewView(BaseModel):
    """What a question would cost at most, and how far off its answer may be. Free; no data was touched.

    With probability `confidence`: a count is off by at most `radius`, an item that leads by `detectable` is found, and
    no pick misses the best item left by more than `shortfall`. null where the mechanism has no such number.
    """

    mechanism: str = Field(examples=["unknown_gumbel"])
    why: str = Field(examples=["unknown_gumbel: given by what is drawn from the account"])
    uses: list[str] = Field(examples=[["bounded-range:0.1x10", "pure:0.1x10", "approx:0.0,1e-09"]])
    interaction: Interaction = Field(examples=["setwise"])
    epsilon: BracketView
    delta: float = Field(examples=[1e-6])
    method: str = Field(examples=["certified-optimum"])
    statement: str = Field(examples=["docs/optimal-composition.md, the set-wise optimum"])
    expected_error: float | None = Field(examples=[9.99])
    radius: int | None = Field(examples=[30])
    detectable: int | None = Field(examples=[None])
    shortfall: int | None = Field(examples=[214])
    confidence: float = Field(examples=[0.95])
    alone: dict[str, float] | None = Field(examples=[None], description="epsilon and delta of the question by itself")
    left: list[str] = Field(examples=[["bounded-range:0.1x50", "pure:0.1x50"]])
    words: list[str] = Field(examples=[["10 picks at ε 0.1"]], description="`uses` as pages show them, in order")

    @staticmethod
    def of(plan: Plan, left: Sequence[Use]) -> "PreviewView":
        """Show a plan, and what is left of the account that would pay."""
        shown = {"left": [format_use(use) for use in left], "words": [use_in_words(use) for use in plan.uses]}
        return PreviewView.model_validate(plan.to_dict() | shown)


class AnswerItemView(BaseModel):
    """One item, the whole number to report, an interval around it, and the noisy count as it was drawn.

    `interval_note` of the answer says what its intervals promise. `noisy` may be negative and is there to be added up.
    Answers about other statistics have, under the name of each, its `value` and `interval` instead.
    """

    model_config = ConfigDict(extra="allow")

    item: str | int | dict[str, str | int] = Field(examples=["the"], description="by column where there are several")
    count: int | None = Field(default=None, examples=[731])
    interval: tuple[int, int] | None = Field(default=None, examples=[[701, 761]])
    noisy: int | None = Field(default=None, examples=[731])


class AnswerView(BaseModel):
    """A private answer, as it is stored; `alone` is the epsilon and delta of a question to a filter, by itself."""

    kind: str = Field(examples=["top-k"])
    measure: str = Field(examples=["users"])
    items: list[AnswerItemView]
    mechanism: str = Field(examples=["unknown_gumbel"])
    interaction: Interaction = Field(examples=["setwise"])
    epsilon: BracketView
    delta: float = Field(examples=[1e-6])
    method: str = Field(examples=["certified-optimum"])
    statement: str = Field(examples=["docs/optimal-composition.md, the set-wise optimum"])
    spent: list[str] = Field(examples=[["bounded-range:0.1x10", "pure:0.1x10"]])
    complete: bool = Field(examples=[True])
    reason: str = Field(examples=["all 10 items were found"])
    why: str = Field(examples=["unknown_gumbel: given by what is drawn from the account"])
    confidence: float = Field(examples=[0.95])
    interval_note: str = Field(
        default=EARLIER_NOTE, examples=["Each interval holds the exact number with probability 95%."]
    )
    hint: str = Field(
        default="", examples=[""], description="what would have shown more, where an answer came out short"
    )
    alone: tuple[float, float] | None = Field(default=None, examples=[[0.5, 1e-7]])
    groups: list[str] = Field(default=[], examples=[[]], description="the columns of items that have several")
    statistics: list[str] = Field(default=[], examples=[[]], description="the names of statistics other than one count")
    found: dict[str, Any] = Field(default={}, examples=[{}], description="bounds that were left to be found, by column")


class OutputView(BaseModel):
    """A column that SQL selects: its name, and which group or statistic of the answer it is."""

    name: str = Field(examples=["users"])
    group: int | None = Field(default=None, examples=[None])
    statistic: int | None = Field(default=None, examples=[0])


class QueryView(BaseModel):
    """A query: poll it while it is running; `answer` is there when it is done, `problem` when it failed.

    A question in SQL has its `columns`, and its answer in `rows` as well: by column the cell of a group, or the value
    and interval of a statistic.
    """

    id: str = Field(examples=["5f2b8c1e9a7d4c3b8e6f0a1b2c3d4e5f"])
    account: str = Field(examples=["ada-events"])
    key: str = Field(examples=["monday-top-ten"])
    state: JobState = Field(examples=["done"])
    progress: float = Field(examples=[1.0])
    created_at: float = Field(examples=[1760000000.0])
    asked: dict[str, Any] = Field(examples=[{"dataset": "events", "query": {"kind": "top-k", "item": "word", "k": 10}}])
    answer: AnswerView | None = None
    problem: ProblemView | None = None
    columns: list[OutputView] | None = None
    rows: list[dict[str, Any]] | None = Field(
        default=None, examples=[[{"word": "the", "users": {"value": 731, "interval": [701, 761]}}]]
    )

    @staticmethod
    def of(job: Job, outputs: Sequence[Output] | None = None) -> "QueryView":
        """Show a query; `outputs` are the columns of one that was asked in SQL."""
        rows = None
        if job.answer is not None and outputs is not None:
            rows = SqlAnswer(answer=PrivateAnswer.from_stored(job.answer), outputs=tuple(outputs)).rows
        return QueryView(
            id=job.id,
            account=job.account,
            key=job.key,
            state=job.state,
            progress=job.progress,
            created_at=job.created_at,
            asked=json.loads(job.request),
            answer=None if job.answer is None else AnswerView.model_validate_json(job.answer),
            problem=None if job.problem is None else ProblemView.model_validate_json(job.problem),
            columns=None if outputs is None else [OutputView(**asdict(each)) for each in outputs],
            rows=None if rows is None else [dict(row) for row in rows],
        )
