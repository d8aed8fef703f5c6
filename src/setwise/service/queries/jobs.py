"""The store of charged queries (jobs): which process runs each query, heartbeats, retries and lost queries."""

import secrets
import time
from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from enum import StrEnum

from sqlalchemy import ColumnElement, Row, and_, bindparam, delete, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from setwise.errors import KeyConflict, UnknownName
from setwise.service.auth.people import Identity
from setwise.service.storage import schema
from setwise.service.storage.database import Database
from setwise.service.storage.schema import Clock


class JobState(StrEnum):
    """The state of a query that was charged: running, done, failed or cancelled."""

    RUNNING = "running"
    """The query waits for an engine slot or is being answered; `progress` says how far."""
    DONE = "done"
    """The query was answered, and its answer is stored."""
    FAILED = "failed"
    """The query ended in a problem. The same request under the same key runs it again at no further charge."""
    CANCELLED = "cancelled"
    """A person stopped the query. The same request under the same key runs it again at no further charge."""


class Progress:
    """The four numbers that a caller can see as a query's progress: 0 means waiting, 0.1 charged, 0.25 reading, 1 done.

    The numbers do not depend on the data. No number stands between reading and done, because a change to that number
    would reveal when the engine finished reading.
    """

    WAITING = 0.0
    CHARGED = 0.1
    READING = 0.25
    DONE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A charged query as a row of the database. Times are in seconds since 1970.

    - `person`: who asked the query
    - `account`: the account that paid, under the idempotency `key`
    - `request`: the request body as JSON text
    - `attempt`: the number of times that a replica (process of the service) has begun to run the query
    - `replica`: the replica that runs the query, which last reported at `heartbeat_at`
    - `progress`: how far the query is, as one of four values from 0 to 1 that do not depend on the data
    - `cancelled_by`: who asked to stop the query, or None
    - `answer`, `problem`: the JSON texts of the answer and of the error, or None
    """

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
"""Heartbeats that a replica may miss before its queries count as lost."""

_COLUMNS = tuple(field.name for field in fields(Job))

# Statements that every query runs are built once: building one takes longer than SQLite takes to run it.
_INSERT = insert(schema.jobs)
_WITH_ID = select(schema.jobs).where(schema.jobs.c.id == bindparam("the_id"))
_UNDER_KEY = select(schema.jobs).where(
    schema.jobs.c.account == bindparam("the_account"), schema.jobs.c.key == bindparam("the_key")
)
_FINISH = (
    update(schema.jobs)
    .where(schema.jobs.c.id == bindparam("the_id"))
    .values(state=str(JobState.DONE), answer=bindparam("the_answer"), problem=None, progress=Progress.DONE)
)


class Jobs:
    """The store of charged queries, one row per query in the service's `database`.

    A query that is refused before its charge has no row. Only one replica (process of the service) runs a query: the
    one that has inserted the row, or that was the last to raise the row's `attempt` by a compare-and-swap.

    - `replica`: the id of this replica
    - `heartbeat_seconds`: how often a replica reports that its queries are alive; after ten times this many seconds
      without a report, another replica may run them
    - `clock`: returns the time in seconds since 1970
    """

    def __init__(self, database: Database, *, replica: str, heartbeat_seconds: float, clock: Clock = time.time) -> None:
        self._database = database
        self._replica = replica
        self._lost_after = _BEATS_UNTIL_LOST * heartbeat_seconds
        self._clock = clock

    def find(self, *, account: str, key: str) -> Job | None:
        """Return the query that `account` was charged for under the idempotency `key`, or None if there is none."""
        with self._database.reading() as connection:
            row = connection.execute(_UNDER_KEY, {"the_account": account, "the_key": key}).one_or_none()
        return None if row is None else _job(row)

    def resume(self, job: Job, *, request: str) -> tuple[Job, bool]:
        """Return (query, whether this replica shall run it) for the query `job`, which was charged before.

        `job` is the query's row as `find` has read it. A query that failed, was cancelled or lost its replica (one
        process of the service) is run again, unless another replica has taken it over since the row was read. Raises
        `KeyConflict` if the key of the query was used for another request than `request`.
        """
        if job.request != request:
            raise KeyConflict.used_before(job.key, job.account)
        if self.is_lost(job):  # `job` may have been read before heartbeats that came while its question was checked
            job = self.get(job.id)
        ended = job.state in {JobState.FAILED, JobState.CANCELLED}
        return self.take_up(job) if ended or self.is_lost(job) else (job, False)

    def asked_at(self, *, account: str, key: str) -> float | None:
        """Return when the query of `account` under the idempotency `key` was charged, in seconds since 1970.

        Returns None if no query was charged under the key. A caller that repeats stored answers only for a limited time
        learns from the result whether an answer is still fresh.
        """
        job = self.find(account=account, key=key)
        return None if job is None else job.created_at

    def begin(self, *, person: str, account: str, key: str, request: str) -> tuple[Job, bool]:
        """Insert the row of a query that was just charged; return (query, whether this replica shall run it).

        A replica is one process of the service. If another replica has inserted the row first, the result has that row,
        and its second value is False unless the query has ended without an answer or lost its replica meanwhile.
        `person` asked, and `account` paid under the idempotency `key`. `request` is the request body as JSON text.
        Raises `KeyConflict` if the row that exists has another `request`.
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
            # A row that is lost in a power cut is inserted again when somebody asks under the same key, because the
            # charge and the answer are in the ledger, on disk.
            with self._database.writing(durable=False) as connection:
                connection.execute(_INSERT, {name: getattr(fresh, name) for name in _COLUMNS})
        except IntegrityError:
            job = self.find(account=account, key=key)
            assert job is not None
            return self.resume(job, request=request)
        return fresh, True

    def take_up(self, job: Job) -> tuple[Job, bool]:
        """Try to take over the query `job`, which no replica runs; return (query, whether this replica shall run it).

        A replica is one process of the service. The second value is False if another replica has taken the query over
        since `job` was read.
        """
        claim = update(schema.jobs).where(schema.jobs.c.id == job.id, schema.jobs.c.attempt == job.attempt)
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
            won = connection.execute(claim.values(fresh)).rowcount == 1
        return self.get(job.id), won

    def is_lost(self, job: Job) -> bool:
        """Return whether the query `job` runs in a replica (process of the service) that has missed ten heartbeats.

        Such a replica counts as dead, so that another replica may run the query. False for a query that is not running.
        """
        return job.state is JobState.RUNNING and job.heartbeat_at < self._clock() - self._lost_after

    def get(self, id_: str) -> Job:
        """Return the charged query with the id `id_`; raise `UnknownName` if there is none."""
        with self._database.reading() as connection:
            row = connection.execute(_WITH_ID, {"the_id": id_}).first()
        if row is None:
            raise _unknown_query()
        return _job(row)

    def visible(self, identity: Identity, id_: str) -> Job:
        """Return the charged query with the id `id_`, if the person of `identity` asked it or is a steward.

        Raises `UnknownName` otherwise.
        """
        job = self.get(id_)
        if job.person != identity.person.name and not identity.is_steward:
            raise _unknown_query()
        return job

    def of(self, person: str, most: int, *, after: Job | None = None, most_bytes: int = 1 << 20) -> list[Job]:
        """Return the queries of the person `person`, newest first: at most `most` queries.

        With `after`, only queries older than the query `after` are returned. The list ends early with the query at
        which the requests and answers in the list reach `most_bytes` characters in total, because one answer may have
        ten megabytes.
        """
        created_at, id_ = schema.jobs.c.created_at, schema.jobs.c.id
        query = select(id_).where(schema.jobs.c.person == person)
        if after is not None:
            earlier = or_(created_at < after.created_at, and_(created_at == after.created_at, id_ > after.id))
            query = query.where(earlier)
        jobs: list[Job] = []
        size = 0
        with self._database.reading() as connection:
            # Only ids are sorted: sorted together with their texts, rows of ten megabytes would be copied.
            for listed in connection.scalars(query.order_by(created_at.desc(), id_).limit(most)).all():
                row = connection.execute(_WITH_ID, {"the_id": listed}).first()
                if row is None:  # deleted meanwhile
                    continue
                jobs.append(_job(row))
                size += len(row.request) + len(row.answer or "")
                if size >= most_bytes:
                    break
        return jobs

    def ids_on(self, account: str) -> dict[str, str]:
        """Return a dict from the idempotency key of each query that `account` was charged for to the query's id."""
        query = select(schema.jobs.c.key, schema.jobs.c.id).where(schema.jobs.c.account == account)
        with self._database.reading() as connection:
            return {row.key: row.id for row in connection.execute(query)}

    def beat(self, progress: dict[str, float]) -> Collection[str]:
        """Write the heartbeat and progress of this replica's queries; return the ids of those that were cancelled.

        A replica is one process of the service, and a heartbeat tells the other replicas that this one still runs its
        queries. The caller stops the queries that were cancelled. `progress` maps the id of each query to its progress
        between 0 and 1.
        """
        ours = and_(
            schema.jobs.c.replica == self._replica,
            schema.jobs.c.state == str(JobState.RUNNING),
            schema.jobs.c.id.in_(progress),
        )
        with self._database.writing(durable=False) as connection:
            for share in set(progress.values()):
                at_it = [id_ for id_, reached in progress.items() if reached == share]
                connection.execute(
                    update(schema.jobs)
                    .where(ours, schema.jobs.c.id.in_(at_it))
                    .values(heartbeat_at=self._clock(), progress=share)
                )
            wanted = select(schema.jobs.c.id).where(ours, schema.jobs.c.cancelled_by.is_not(None))
            return list(connection.scalars(wanted))

    def cancel(self, job: Job, *, by: str) -> Job:
        """Record that the person `by` asks to stop the query `job`, and return the query.

        The replica (process of the service) that runs the query sees this at its next heartbeat, and stops the query. A
        query whose replica is dead is cancelled at once, and a query that has ended stays unchanged.
        """
        running = and_(schema.jobs.c.id == job.id, schema.jobs.c.state == str(JobState.RUNNING))
        with self._database.writing(durable=False) as connection:
            connection.execute(update(schema.jobs).where(running).values(cancelled_by=by))
            lost: ColumnElement[bool] = schema.jobs.c.heartbeat_at < self._clock() - self._lost_after
            connection.execute(update(schema.jobs).where(running, lost).values(state=str(JobState.CANCELLED)))
        return self.get(job.id)

    def done(self, job: Job, answer: str) -> Job:
        """Record in the row of the query `job` that it was answered with `answer`, and return the query.

        The row is changed even if another replica (process of the service) has taken the query over: the ledger has
        stored this answer before, so every replica records the same one.
        """
        with self._database.writing(durable=False) as connection:
            connection.execute(_FINISH, {"the_id": job.id, "the_answer": answer})
        return replace(job, state=JobState.DONE, answer=answer, problem=None, progress=Progress.DONE)

    def stopped(self, job: Job, state: JobState, problem: str) -> Job:
        """Record that the query `job` ended as `state` (failed or cancelled), and return the query.

        `problem` is its error, a problem document as JSON text. Nothing is recorded if the query has ended already, or
        if another replica (process of the service) has taken it over.
        """
        ours = and_(
            schema.jobs.c.id == job.id,
            schema.jobs.c.attempt == job.attempt,
            schema.jobs.c.state == str(JobState.RUNNING),
        )
        with self._database.writing(durable=False) as connection:
            ended = {"state": str(state), "problem": problem, "progress": Progress.DONE}
            connection.execute(update(schema.jobs).where(ours).values(ended))
        return self.get(job.id)

    def forget(self, *, before: float) -> int:
        """Delete the rows of ended queries that were charged before the time `before`, in seconds since 1970.

        Returns the number of deleted rows. Charges and answers stay in the ledger, so that asking again under the same
        idempotency key returns the stored answer.
        """
        ended = and_(schema.jobs.c.created_at < before, schema.jobs.c.state != str(JobState.RUNNING))
        with self._database.writing(durable=False) as connection:
            return connection.execute(delete(schema.jobs).where(ended)).rowcount


def _unknown_query() -> UnknownName:
    """Return the error for a query that does not exist, or that the person may not see.

    Both cases have the same message, so that nobody can find out which queries of others exist.
    """
    return UnknownName("there is no such query, or it is not yours")


def _job(row: Row[tuple[object, ...]]) -> Job:
    """Return the charged query (`Job`) that a row of the database stores."""
    return Job(**({name: getattr(row, name) for name in _COLUMNS} | {"state": JobState(row.state)}))
