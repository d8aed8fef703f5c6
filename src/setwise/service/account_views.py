"""What the API shows of accounts and their history."""

import json
from typing import Any, Literal

from pydantic import BaseModel, Field

from setwise.accounting.answer import Answer
from setwise.accounting.interaction import Interaction
from setwise.accounting.notation import format_use
from setwise.ledger.entry import Entry
from setwise.ledger.joint import Joint
from setwise.ledger.standing import Standing
from setwise.ledger.verification import Verification
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
    statement: str = Field(examples=["docs/optimal-composition.md, the set-wise optimum"])
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


class EntryView(BaseModel):
    """An entry of an account: a charge with what was asked, or a settlement with the answer and the draws returned."""

    position: int = Field(examples=[1])
    kind: Literal["charge", "settle"] = Field(examples=["charge"])
    key: str = Field(examples=["monday-top-ten"])
    at: float = Field(examples=[1760000000.0], description="seconds since 1970")
    period: str = Field(examples=[""])
    uses: list[str] = Field(
        examples=[["bounded-range:0.1x10"]], description="drawn by a charge, returned by a settlement"
    )
    request: Any = Field(examples=[{"query": {"kind": "top-k"}}], description="what was asked, of a charge")
    answer: Any = Field(examples=[None], description="what was answered, of a settlement")
    hash: str = Field(examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"])

    @staticmethod
    def of(entry: Entry) -> "EntryView":
        """Show an entry."""
        contents = entry.contents
        return EntryView(
            position=entry.position,
            kind=contents.kind,
            key=contents.key,
            at=entry.at / 1e6,
            period=contents.period,
            uses=[format_use(use) for use in entry.uses],
            request=_parsed(contents.text) if contents.kind == "charge" else None,
            answer=_parsed(contents.text) if contents.kind == "settle" else None,
            hash=entry.hash,
        )


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
    cap_epsilon: float | None = Field(examples=[None], description="the data set's cap, if it has one")
    cap_delta: float | None = Field(examples=[None])

    @staticmethod
    def of(joint: Joint) -> "JointView":
        """Show a joint promise."""
        return JointView(
            dataset=joint.dataset,
            accounts=list(joint.accounts),
            periods=joint.periods,
            epsilon=bracket(joint.epsilon),
            delta=joint.delta,
            interaction=joint.epsilon.interaction,
            method=joint.epsilon.method,
            statement=joint.epsilon.statement,
            cap_epsilon=None if joint.cap is None else joint.cap.epsilon.upper,
            cap_delta=None if joint.cap is None else joint.cap.delta,
        )


class AuditView(BaseModel):
    """What verifying the ledger found: nothing is wrong when there are no faults. Keep `head` to compare later."""

    entries: int = Field(examples=[42])
    head: str = Field(examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"])
    faults: list[str] = Field(examples=[[]])

    @staticmethod
    def of(found: Verification) -> "AuditView":
        """Show a verification."""
        return AuditView(entries=found.entries, head=found.anchor.head, faults=[str(fault) for fault in found.faults])


def _parsed(text: str) -> Any:  # noqa: ANN401 - JSON
    """Return JSON as it is, and a text that somebody else stored as text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def bracket(answer: Answer) -> BracketView:
    """Show the ends of a bracket."""
    return BracketView(lower=answer.lower, upper=answer.upper)
