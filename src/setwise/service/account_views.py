"""What the API shows of accounts and their history."""

from typing import Literal

from pydantic import BaseModel, Field

from setwise.accounting.answer import Answer
from setwise.accounting.notation import format_use
from setwise.ledger.standing import Standing
from setwise.service.views import BracketView


class AccountView(BaseModel):
    """How an account stands. The upper end of `epsilon` is the promise at `delta`; `odometer` is what is used of it."""

    account: str = Field(examples=["ada-events"])
    kind: Literal["setwise", "filter"] = Field(examples=["setwise"])
    analyst: str = Field(examples=["ada"])
    dataset: str = Field(examples=["events"])
    epsilon: BracketView
    delta: float = Field(examples=[1e-6])
    method: str = Field(examples=["certified-optimum"])
    statement: str = Field(examples=["thm:optimum"])
    left: list[str] = Field(examples=[["bounded-range:0.1x15", "pure:0.1x15"]])
    spent: list[str] = Field(examples=[["bounded-range:0.1x10", "pure:0.1x10"]])
    share_left: float = Field(examples=[0.6])
    odometer: BracketView
    charges: int = Field(examples=[1])
    every: str | None = Field(examples=[None], description="the calendar period after which the budget is fresh")
    period: str = Field(examples=[""], description="the present period")

    @staticmethod
    def of(standing: Standing) -> "AccountView":
        """Show how an account stands."""
        return AccountView(
            account=standing.name,
            kind="filter" if standing.kind == "filter" else "setwise",
            analyst=standing.analyst,
            dataset=standing.dataset,
            epsilon=bracket(standing.epsilon),
            delta=standing.delta,
            method=standing.epsilon.method,
            statement=standing.epsilon.statement,
            left=[format_use(use) for use in standing.left],
            spent=[format_use(use) for use in standing.spent],
            share_left=standing.share_left,
            odometer=bracket(standing.odometer),
            charges=standing.charges,
            every=standing.every,
            period=standing.period,
        )


def bracket(answer: Answer) -> BracketView:
    """Show the ends of a bracket."""
    return BracketView(lower=answer.lower, upper=answer.upper)
