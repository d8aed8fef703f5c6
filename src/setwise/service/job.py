"""A query on its way: asked once under a key, run by some replica, ended once."""

from dataclasses import dataclass
from enum import StrEnum


class JobState(StrEnum):
    """Where a query stands."""

    RUNNING = "running"
    """Waiting for its turn or being answered; `progress` says how far."""
    DONE = "done"
    """Answered; the answer is stored."""
    FAILED = "failed"
    """Ended in a problem; the same request under the same key starts it again, at no further charge."""
    CANCELLED = "cancelled"
    """Stopped by a person; the same request under the same key starts it again, at no further charge."""


class Progress:
    """The share done at each stage; stages do not depend on the data."""

    WAITING = 0.0
    CHARGED = 0.1
    READING = 0.25
    DONE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One query as the database knows it; `attempt` counts the replicas that have taken it up."""

    id: str
    person: str
    account: str
    key: str
    request: str
    state: JobState
    attempt: int
    replica: str
    heartbeat_at: float
    created_at: float
    progress: float
    cancelled_by: str | None = None
    answer: str | None = None
    problem: str | None = None
