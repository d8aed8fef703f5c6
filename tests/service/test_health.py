"""What /health says of a replica: whether its database answers, may be written, or hangs."""

import asyncio
import os
import queue
import signal
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import cast

import psycopg
import pytest
from sqlalchemy import create_engine

from setwise.errors import StoreFailed
from setwise.service.storage.database import Database, DatabaseProbe, DatabaseState, probe_state
from tests.servers.postgresql import PostgresqlServer
from tests.service.replica import PATIENCE, Replica


def test_health_is_answered_while_the_database_hangs(
    start: Callable[..., Replica], postgresql_server: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("setwise.service.storage.database._SILENT_SECONDS", 1.0)
    with postgresql_server.database() as url:
        replica = start(ledger=url)
        client = replica.as_holder(None)
        assert client.get("/health").json()["status"] == "ok"
        with psycopg.connect(url) as connection:
            found = connection.execute("SELECT pid FROM pg_stat_activity WHERE datname = current_database()").fetchall()
        backends = [pid for (pid,) in found]
        for pid in backends:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(1.1)  # until the last test of the database is old
            client.get("/health")  # starts a test, which hangs
            time.sleep(1.1)
            began = time.monotonic()
            refused = client.get("/health")
            assert time.monotonic() - began < PATIENCE / 2, "the database does not answer before it is continued"
            assert refused.status_code == 503
            assert refused.json()["type"] == "urn:setwise:problem:store-failed"
        finally:
            for pid in backends:
                with suppress(ProcessLookupError):  # the connection of this test has ended by itself
                    os.kill(pid, signal.SIGCONT)
        deadline = time.monotonic() + PATIENCE
        while client.get("/health").status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> Iterator["queue.Queue[DatabaseState | StoreFailed]"]:
    """A queue: every test of the database hangs until its outcome is put there."""
    waiting: queue.Queue[DatabaseState | StoreFailed] = queue.Queue()

    def outcome(_: Database) -> DatabaseState:
        ended = waiting.get(timeout=PATIENCE)
        if isinstance(ended, StoreFailed):
            raise ended
        return ended

    monkeypatch.setattr("setwise.service.storage.database.probe_state", outcome)
    monkeypatch.setattr("setwise.service.storage.database._PROBE_SECONDS", 0.0)
    monkeypatch.setattr("setwise.service.storage.database._PATIENT_SECONDS", 0.5)
    monkeypatch.setattr("setwise.service.storage.database._SILENT_SECONDS", 1.5)
    yield waiting
    waiting.put(DatabaseState.OK)  # so that a test that still hangs ends


async def is_healthy(probe: DatabaseProbe) -> bool:
    try:
        return await probe.check() is DatabaseState.OK
    except StoreFailed:
        return False


def test_a_new_replica_is_healthy_unless_its_first_test_of_the_database_hangs(
    outcomes: "queue.Queue[DatabaseState | StoreFailed]",
):
    """A first test that took more than 0.1 s was answered with 503 at once, so that the replica got no requests."""

    async def checks() -> list[bool]:
        probe = DatabaseProbe(cast("Database", None))
        found = [await is_healthy(probe)]
        await asyncio.sleep(1.5)
        found.append(await is_healthy(probe))
        outcomes.put(DatabaseState.OK)
        return [*found, await is_healthy(probe)]

    assert asyncio.run(checks()) == [True, False, True]


def test_health_does_not_depend_on_how_often_it_is_asked_for(outcomes: "queue.Queue[DatabaseState | StoreFailed]"):
    """Asked for every 10 s, as Docker does, a test of more than 0.1 s counted as 10 s without an answer."""

    async def checks() -> list[bool]:
        probe = DatabaseProbe(cast("Database", None))
        outcomes.put(DatabaseState.OK)
        found = [await is_healthy(probe)]
        await asyncio.sleep(1.6)
        return [*found, await is_healthy(probe)]

    assert asyncio.run(checks()) == [True, True]


def test_a_database_whose_last_test_failed_is_unhealthy_until_one_succeeds(
    outcomes: "queue.Queue[DatabaseState | StoreFailed]",
):
    """While the test after a failed one hung, the replica was called healthy again."""

    async def checks() -> list[bool]:
        probe = DatabaseProbe(cast("Database", None))
        found = []
        for outcome in (DatabaseState.OK, StoreFailed("it is away"), None, DatabaseState.OK):
            if outcome is not None:
                outcomes.put(outcome)
            found.append(await is_healthy(probe))
        return found

    assert asyncio.run(checks()) == [True, False, False, True]


def test_health_says_that_the_database_is_read_only(start: Callable[..., Replica], postgresql_server: PostgresqlServer):
    with postgresql_server.database() as url:
        replica = start(ledger=url)
        client = replica.as_holder(replica.steward)
        assert client.get("/health").json()["status"] == "ok"
        with psycopg.connect(url, autocommit=True) as connection:
            name = connection.info.dbname
            connection.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        replica.service.database.engine.dispose()  # as after a failover, connections are new
        deadline = time.monotonic() + PATIENCE
        while (found := client.get("/health")).json()["status"] != "read-only":
            assert found.status_code == 200
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert client.get("/me").status_code == 200  # what can be read is still shown
        assert client.post("/people", json={"name": "ada", "role": "analyst"}).status_code == 503


def test_a_sqlite_file_that_cannot_be_written_is_read_only(tmp_path: Path):
    path = tmp_path / "setwise.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE service_schema (version INTEGER)")
    connection.close()
    writable, frozen = create_engine(f"sqlite:///{path}"), create_engine(f"sqlite:///file:{path}?mode=ro&uri=true")
    assert probe_state(Database(writable, writable, threading.Lock())) is DatabaseState.OK
    assert probe_state(Database(frozen, frozen, threading.Lock())) is DatabaseState.READ_ONLY
    with sqlite3.connect(path) as other:
        other.execute("BEGIN IMMEDIATE")  # somebody writes: that shows that one can
        assert probe_state(Database(writable, writable, threading.Lock())) is DatabaseState.OK
