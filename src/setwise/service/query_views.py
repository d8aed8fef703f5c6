"""What the API shows of previews, queries and answers."""

import json
from typing import Any

from pydantic import BaseModel, Field

from setwise.accounting.interaction import Interaction
from setwise.accounting.notation import format_use
from setwise.analytics.planned import Planned
from setwise.ledger.standing import Standing
from setwise.service.account_views import bracket
from setwise.service.job import Job, JobState
from setwise.service.views import BracketView, ProblemView


class PreviewView(BaseModel):
    """What a question would cost at most, and how far off its answer may be. Free; no data was touched.

    With probability `confidence`: a count is off by at most `radius`, an item that leads by `detectable` is found, and
    no pick misses the best item left by more than `shortfall`. null where the mechanism has no such number.
    """

    mechanism: str = Field(examples=["unknown_gumbel"])
    cost: list[str] = Field(examples=[["bounded-range:0.1x10", "pure:0.1x10", "approx:0.0,1e-09"]])
    epsilon: BracketView
    delta: float = Field(examples=[1e-6])
    expected_error: float | None = Field(examples=[9.99])
    radius: int | None = Field(examples=[30])
    detectable: int | None = Field(examples=[None])
    shortfall: int | None = Field(examples=[214])
    confidence: float = Field(examples=[0.95])
    why: str = Field(examples=["unknown_gumbel: the draws decide"])
    left: list[str] = Field(examples=[["bounded-range:0.1x50", "pure:0.1x50"]])

    @staticmethod
    def of(planned: Planned, standing: Standing) -> "PreviewView":
        """Show a plan."""
        return PreviewView(
            mechanism=planned.name,
            cost=[format_use(use) for use in planned.uses],
            epsilon=bracket(planned.overall),
            delta=planned.delta,
            expected_error=planned.preview.expected_error,
            radius=planned.preview.radius,
            detectable=planned.preview.detectable,
            shortfall=planned.preview.shortfall,
            confidence=float(planned.preview.confidence),
            why=planned.why,
            left=[format_use(use) for use in standing.left],
        )


class AnswerItemView(BaseModel):
    """One item, its noisy count, and the interval that holds the true count with the answer's confidence."""

    item: str | int = Field(examples=["the"])
    count: int | float | None = Field(examples=[731])
    interval: tuple[int, int] | None = Field(examples=[[701, 761]])


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
    why: str = Field(examples=["unknown_gumbel: the draws decide"])
    confidence: float = Field(examples=[0.95])
    alone: tuple[float, float] | None = Field(default=None, examples=[[0.5, 1e-7]])


class QueryView(BaseModel):
    """A query: poll it while it is running; `answer` is there when it is done, `problem` when it failed."""

    id: str = Field(examples=["5f2b8c1e9a7d4c3b8e6f0a1b2c3d4e5f"])
    account: str = Field(examples=["ada-events"])
    key: str = Field(examples=["monday-top-ten"])
    state: JobState = Field(examples=["done"])
    progress: float = Field(examples=[1.0])
    created_at: float = Field(examples=[1760000000.0])
    asked: dict[str, Any] = Field(examples=[{"dataset": "events", "query": {"kind": "top-k", "item": "word", "k": 10}}])
    answer: AnswerView | None = None
    problem: ProblemView | None = None

    @staticmethod
    def of(job: Job) -> "QueryView":
        """Show a query."""
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
        )
