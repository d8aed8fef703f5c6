"""The store of queries that were charged, through which replicas agree on who runs what."""

import secrets
import time
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from enum import StrEnum

from sqlalchemy import ColumnElement, Row, and_, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from setwise.errors import KeyConflict, UnknownName
from setwise.service.auth.people import Identity
from setwise.service.storage import schema
from setwise.service.storage.database import Database
from setwise.service.storage.schema import Clock


class JobState(StrEnum):
    """Where a query stands."""

    RUNNING = "running"
    """Charged, and waiting for its turn or being answered; `progress` says how far."""
    DONE = "done"
    """Answered; the answer is stored."""
    FAILED = "failed"
    """Ended in a problem; the same request under the same key starts it again, at no further charge."""
    CANCELLED = "cancelled"
    """Stopped by a person; the same request under the same key starts it again, at no further charge."""


class Progress:
    """The share of a query that is done at each stage; stages do not depend on the data."""

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


_BEATS_UNTIL_LOST = 10.0


class Jobs:
    """The store of queries.

    A query is recorded once it is charged: one that is refused leaves nothing here. It is run by whoever inserts its
    row, or raises its `attempt`: a compare-and-swap, so that one replica does. Should two run the same query after all
    (one was slow, not dead), the ledger keeps the answer that was stored first and both show that. A row that a power
    cut loses is made again by whoever asks under the same key: the charge and the answer are on disk, in the ledger.
    """

    def __init__(self, database: Database, *, replica: str, heartbeat_seconds: float, clock: Clock = time.time) -> None:
        self._database = database
        self._replica = replica
        self._lost_after = _BEATS_UNTIL_LOST * heartbeat_seconds
        self._clock = clock

    def resume(self, *, account: str, key: str, request: str) -> tuple[Job | None, bool]:
        """Return the query under this key, if there is one, and whether this replica has taken it up just now.

        Raise `KeyConflict` when the key was used for another request.
        """
        query = select(schema.jobs).where(schema.jobs.c.account == account, schema.jobs.c.key == key)
        with self._database.reading() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None, False
        job = _job(row)
        if job.request != request:
            raise KeyConflict(f"the key {key!r} was used before for a different request on this account; use a new key")
        ended = job.state in {JobState.FAILED, JobState.CANCELLED}
        return self.take_up(job) if ended or self.is_lost(job) else (job, False)

    def begin(self, *, person: str, account: str, key: str, request: str) -> tuple[Job, bool]:
        """Record a query that was charged; return it and whether this replica is to run it.

        It is not when another replica has recorded the same query meanwhile, and runs it.
        """
        now = self._clock()
        fresh = Job(
            id=secrets.token_hex(16),
            person=person,
            account=account,
            key=key,
            request=request,
            state=JobState.RUNNING,
            attempt=1,
            replica=self._replica,
            heartbeat_at=now,
            created_at=now,
            progress=Progress.CHARGED,
        )
        try:
            with self._database.writing(durable=False) as connection:
                connection.execute(insert(schema.jobs).values(asdict(fresh)))
        except IntegrityError:
            found, ours = self.resume(account=account, key=key, request=request)
            assert found is not None
            return found, ours
        return fresh, True

    def take_up(self, job: Job) -> tuple[Job, bool]:
        """Try to become the replica that runs a query that nobody runs; return it and whether that worked."""
        ours = update(schema.jobs).where(schema.jobs.c.id == job.id, schema.jobs.c.attempt == job.attempt)
        fresh = {
            "attempt": job.attempt + 1,
            "replica": self._replica,
            "state": str(JobState.RUNNING),
            "heartbeat_at": self._clock(),
            "progress": Progress.WAITING,
            "cancelled_by": None,
            "problem": None,
        }
        with self._database.writing(durable=False) as connection:
            won = connection.execute(ours.values(fresh)).rowcount == 1
        return self.get(job.id), won

    def is_lost(self, job: Job) -> bool:
        """Whether the replica that runs the query has not been heard of for long."""
        return job.state is JobState.RUNNING and job.heartbeat_at < self._clock() - self._lost_after

    def get(self, id_: str) -> Job:
        """Return the query of that id or raise `UnknownName`."""
        with self._database.reading() as connection:
            row = connection.execute(select(schema.jobs).where(schema.jobs.c.id == id_)).first()
        if row is None:
            raise _unknown()
        return _job(row)

    def visible(self, identity: Identity, id_: str) -> Job:
        """Return the query of that id, if it is this person's or they are a steward, or raise `UnknownName`."""
        job = self.get(id_)
        if job.person != identity.person.name and not identity.is_steward:
            raise _unknown()
        return job

    def of(self, person: str, most: int, *, after: Job | None = None, most_bytes: int = 1 << 20) -> list[Job]:
        """Return a person's latest queries, newest first: those that follow `after`, or the first ones.

        At most `most` of them, and no more after their requests and answers have `most_bytes` characters together: a
        single answer may have ten megabytes.
        """
        created_at, id_ = schema.jobs.c.created_at, schema.jobs.c.id
        query = select(id_).where(schema.jobs.c.person == person)
        if after is not None:
            earlier = or_(created_at < after.created_at, and_(created_at == after.created_at, id_ > after.id))
            query = query.where(earlier)
        jobs: list[Job] = []
        size = 0
        with self._database.reading() as connection:
            # The ids first: sorted together with their texts, rows of ten megabytes would be copied.
            for found in connection.scalars(query.order_by(created_at.desc(), id_).limit(most)).all():
                row = connection.execute(select(schema.jobs).where(id_ == found)).first()
                if row is None:  # forgotten meanwhile
                    continue
                jobs.append(_job(row))
                size += len(row.request) + len(row.answer or "")
                if size >= most_bytes:
                    break
        return jobs

    def ids_on(self, account: str) -> dict[str, str]:
        """Return the ids of the queries on an account, by their keys."""
        query = select(schema.jobs.c.key, schema.jobs.c.id).where(schema.jobs.c.account == account)
        with self._database.reading() as connection:
            return {row.key: row.id for row in connection.execute(query)}

    def beat(self, progress: dict[str, float]) -> Collection[str]:
        """Say that this replica's queries are alive and how far they are; return those that are to be cancelled."""
        mine = and_(
            schema.jobs.c.replica == self._replica,
            schema.jobs.c.state == str(JobState.RUNNING),
            schema.jobs.c.id.in_(progress),
        )
        with self._database.writing(durable=False) as connection:
            for share in set(progress.values()):
                at_it = [id_ for id_, reached in progress.items() if reached == share]
                connection.execute(
                    update(schema.jobs)
                    .where(mine, schema.jobs.c.id.in_(at_it))
                    .values(heartbeat_at=self._clock(), progress=share)
                )
            wanted = select(schema.jobs.c.id).where(mine, schema.jobs.c.cancelled_by.is_not(None))
            return list(connection.scalars(wanted))

    def cancel(self, job: Job, *, by: str) -> Job:
        """Ask for a query to be stopped; the replica that runs it will see. One that has ended stays as it is."""
        running = and_(schema.jobs.c.id == job.id, schema.jobs.c.state == str(JobState.RUNNING))
        with self._database.writing(durable=False) as connection:
            connection.execute(update(schema.jobs).where(running).values(cancelled_by=by))
            lost: ColumnElement[bool] = schema.jobs.c.heartbeat_at < self._clock() - self._lost_after
            connection.execute(update(schema.jobs).where(running, lost).values(state=str(JobState.CANCELLED)))
        return self.get(job.id)

    def done(self, job: Job, answer: str) -> Job:
        """Record the answer that the ledger has stored; whichever replica says so, it is the same."""
        ended = {"state": str(JobState.DONE), "answer": answer, "problem": None}
        self._end(schema.jobs.c.id == job.id, ended)
        return replace(job, state=JobState.DONE, answer=answer, problem=None, progress=Progress.DONE)

    def stopped(self, job: Job, state: JobState, problem: str) -> Job:
        """Record that a query failed or was cancelled, unless another replica has taken it up; return it as it is."""
        mine = and_(
            schema.jobs.c.id == job.id,
            schema.jobs.c.attempt == job.attempt,
            schema.jobs.c.state == str(JobState.RUNNING),
        )
        self._end(mine, {"state": str(state), "problem": problem})
        return self.get(job.id)

    def forget(self, *, before: float) -> int:
        """Drop the rows of queries that were asked before a moment and have ended; return how many.

        Charges and answers stay in the ledger: whoever asks again under the same key gets the stored answer.
        """
        ended = and_(schema.jobs.c.created_at < before, schema.jobs.c.state != str(JobState.RUNNING))
        with self._database.writing(durable=False) as connection:
            return connection.execute(delete(schema.jobs).where(ended)).rowcount

    def _end(self, which: ColumnElement[bool], ended: dict[str, str | None]) -> None:
        with self._database.writing(durable=False) as connection:
            connection.execute(update(schema.jobs).where(which).values(progress=Progress.DONE, **ended))


def _unknown() -> UnknownName:
    return UnknownName("there is no such query, or it is not yours")


def _job(row: Row[tuple[object, ...]]) -> Job:
    kept = {name: getattr(row, name) for name in Job.__dataclass_fields__}
    return Job(**(kept | {"state": JobState(row.state)}))
