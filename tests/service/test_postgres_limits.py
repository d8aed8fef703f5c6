"""What one person can take over PostgreSQL's protocol: time, memory, connections, requests, and turns of others."""

import asyncio
import contextlib
import socket
import struct
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import psycopg
import pytest

from setwise.errors import InvalidParameter
from setwise.service.auth.rate_limit import Buckets
from setwise.service.postgres import selects
from setwise.service.postgres.catalogue import Catalogue, parse_catalogue_query
from setwise.service.postgres.replies import Rejected
from setwise.service.postgres.selects import SelectTask, ShownTables
from setwise.service.postgres.session import PostgresSession
from setwise.service.postgres.statements import LONGEST, with_parameters
from setwise.service.postgres.values import INT8, TEXT
from setwise.service.settings import Settings
from setwise.service.slots import Threads, current_person
from setwise.service.workers.pool import WorkerPool
from tests.service.replica import QUICK, free_port, running
from tests.service.team import Team, gather, write_events
from tests.service.test_postgres_door import signed_in
from tests.service.test_postgres_messages import healthy, memory_mib

_REFUSED = r"not available after FROM|not supported in SQL|send a SELECT|at most 1,664 columns"

SOON = 5.0
"""Seconds within which a busy test machine answers a request that waits for nobody."""


@contextlib.contextmanager
def opened(folder: Any, **changed: object) -> Iterator[tuple[Team, int]]:
    write_events(folder / "events.parquet", rows=2000)
    port = free_port()
    given = {**QUICK, "calculator_seconds": 6.0, **changed}
    settings = Settings(ledger=str(folder / "s.db"), data_dir=folder, postgres=f"127.0.0.1:{port}", **given)
    with running(settings) as replica:
        yield gather(replica), port


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Team, int]]:
    with opened(tmp_path_factory.mktemp("limits")) as found:
        yield found


def connect(door: tuple[Team, int], person: str = "ada", account: str = "ada-total") -> "psycopg.Connection[Any]":
    team, port = door
    address = f"postgresql://{person}:{team.tokens[person]}@127.0.0.1:{port}/{account}"
    return psycopg.connect(address, autocommit=True)


@contextlib.contextmanager
def health_watched(team: Team) -> Iterator[list[float]]:
    """Ask for the health of the replica over and over while the block runs, and collect the seconds of each answer."""
    seconds: list[float] = []
    ended = threading.Event()

    def watch() -> None:
        with httpx.Client(timeout=60) as client:
            while not ended.is_set():
                began = time.monotonic()
                assert client.get(f"{team.url}/api/v1/health").status_code == 200
                seconds.append(time.monotonic() - began)
                time.sleep(0.02)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield seconds
    finally:
        ended.set()
        watcher.join(60)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT count(*) FROM generate_series(1, 100000000000)",
        "SELECT length(repeat('x', 3000000000))",
        "SELECT " + "(" * 1500 + "1" + ")" * 1500,
        "SELECT 'x' FROM generate_series(1, 20000)",
        "SELECT repeat('x', 1000000) FROM generate_series(1, 5)",
    ],
    ids=["endless rows", "large text", "nested", "too many rows", "too much text"],
)
def test_a_catalogue_query_has_limits_and_leaves_others_alone(door: tuple[Team, int], statement: str):
    team, _ = door
    before = memory_mib()
    with health_watched(team) as seconds, connect(door) as connection:
        with pytest.raises(psycopg.Error) as refused:
            connection.execute(statement)
        assert refused.value.diag.sqlstate in ("22023", "54000")
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert max(seconds, default=0.0) < SOON
    assert memory_mib() - before < 100


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT name, value FROM duckdb_settings() AS s",
        "SELECT s.name FROM pg_class AS c, LATERAL duckdb_settings() AS s",
        "SELECT * FROM ROWS FROM (duckdb_settings()) AS s",
        "SELECT * FROM (SELECT * FROM pragma_database_list()) AS s",
        "SELECT (SELECT max(value) FROM duckdb_settings()) AS s",
        "SELECT * FROM query('SELECT * FROM duckdb_settings()') AS s",
        "WITH x AS (SELECT 1) INSERT INTO pg_class (relname) SELECT 'a'",
        "WITH x AS (SELECT 1) DELETE FROM pg_class",
        "SELECT 1 INTO pg_temporary",
        "SELECT " + ", ".join(["1"] * 1665),
    ],
)
def test_the_catalogue_tells_nothing_of_the_server_and_is_only_read(door: tuple[Team, int], statement: str):
    with connect(door) as connection:
        with pytest.raises(psycopg.errors.InvalidParameterValue, match=_REFUSED):
            connection.execute(statement)
        assert connection.execute("SELECT relname FROM pg_class WHERE relname = 'a'").fetchall() == []


def test_the_catalogue_writes_no_file(tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    catalogue = Catalogue("ada-total", "ada", {})
    many = "SELECT count(*) FROM (SELECT DISTINCT g, md5(g::text) FROM generate_series(1, 6000000) AS g) AS x"
    with pytest.raises(InvalidParameter, match=r"[mM]emory"):
        catalogue.answer(parse_catalogue_query(many))
    assert list(tmp_path.iterdir()) == []


def test_many_columns_are_named_in_linear_time():
    """5,001 columns took 13.6 s, because each new name moved all names after it."""
    tree = parse_catalogue_query("SELECT " + ", ".join(["1"] * 1664))
    began = time.process_time()
    result = Catalogue("ada-total", "ada", {}).answer(tree)
    assert len(result.columns) == 1664
    assert time.process_time() - began < SOON


@pytest.mark.parametrize(
    "statement",
    [
        "SET a" + " " * 49_000 + "b",
        "SET SESSION a" + " " * 49_000 + "TO",
        "DECLARE a" + " " * 49_000 + "b",
        "FETCH " + "9" * 49_000 + " FROM a",
        "SHOW" + " " * 49_000,
        "EXPLAIN" + " " * 49_000,
    ],
    ids=["set", "set to", "declare", "fetch", "show", "explain"],
)
def test_patterns_of_statements_take_linear_time(statement: str):
    """They run on the event loop: SET with 20,000 blanks once kept everybody waiting for 12.7 s on a busy machine."""
    session = PostgresSession(asker=NobodyAsks())
    began = time.process_time()
    with contextlib.suppress(Rejected):
        asyncio.run(session.run(statement))
    assert time.process_time() - began < 0.5


class NobodyAsks:
    """An asker without a service, which explains nothing."""

    async def read(self, sql: str) -> Any:
        raise AssertionError(sql)

    async def ask(self, sql: str, budget: Any) -> Any:
        raise AssertionError(sql)

    async def explain(self, sql: str, budget: Any) -> list[str]:
        return []

    async def cancel(self) -> None:
        return


def test_a_parameter_in_many_places_does_not_fill_the_memory():
    """A value of 1 MiB in 16,000 places would need 16 GiB before its length is checked."""
    tracemalloc.start()
    try:
        with pytest.raises(Rejected, match="with its parameters"):
            with_parameters("SELECT '" + "', $1, '" * 3000 + "'", ["x" * 40_000])
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_catalogue_query_can_be_cancelled(door: tuple[Team, int]):
    with connect(door) as connection:
        threading.Timer(0.5, connection.cancel_safe).start()
        with pytest.raises(psycopg.errors.QueryCanceled):
            connection.execute("SELECT count(*) FROM generate_series(1, 100000000000)")
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_worker_process_keeps_few_catalogues():
    """Each catalogue takes memory; a process that kept those of all accounts would die of its limit."""
    workers = WorkerPool(processes=1, seconds=60.0, memory=512 << 20, remedy="", preload=selects.__name__)
    try:
        for number in range(10):
            tables = (("visits", (("user_id", INT8), ("country", TEXT))),)
            shown = ShownTables(database=f"account-{number}", user="ada", user_column="user_id", tables=tables)
            read = workers.calculate(SelectTask.of(shown, "SELECT relname FROM pg_class"))
            assert read.rows == [("visits",)]
    finally:
        workers.close()


def test_long_statements_are_refused(door: tuple[Team, int]):
    with connect(door) as connection:
        for text in ("SELECT '" + "x" * LONGEST + "'", "SELECT 1;" * LONGEST, "/*" * LONGEST):
            with pytest.raises(psycopg.errors.ProgramLimitExceeded):
                connection.execute(text)
        with pytest.raises(psycopg.errors.ProgramLimitExceeded):
            connection.execute("SELECT %s", ["x" * LONGEST])


def test_replaced_statements_count_towards_the_characters_that_a_connection_keeps(door: tuple[Team, int]):
    """Each name was counted when it was new, so that small statements could be replaced by large ones without limit."""
    names = [b"name%d" % number for number in range(30)]
    long = b"SELECT 1 -- " + b"x" * (LONGEST - 1000)
    with connect(door) as connection:
        refusals = [
            connection.pgconn.prepare(name, text).error_field(psycopg.pq.DiagnosticField.SQLSTATE)
            for text in (b"SELECT 1", long)
            for name in names
        ]
        assert refusals[:50] == [None] * 50
        assert refusals[50:] == [b"53400"] * 10
        assert connection.execute("SELECT 1").fetchone() == (1,)


def query(text: str) -> bytes:
    return b"Q" + struct.pack("!I", len(text.encode()) + 5) + text.encode() + b"\0"


@pytest.mark.parametrize(
    "flood",
    [b"S\0\0\0\4" * 100_000, query("") * 20_000, query("SET a = 1") * 5_000],
    ids=["sync", "empty", "settings"],
)
def test_messages_that_arrive_together_take_turns_with_others(door: tuple[Team, int], flood: bytes):
    team, port = door
    raw = signed_in(team, port)
    raw.settimeout(120)
    with raw, health_watched(team) as seconds:
        sender = threading.Thread(target=lambda: (raw.sendall(flood), raw.shutdown(socket.SHUT_WR)))
        sender.start()
        while raw.recv(1 << 20):
            pass
        sender.join(60)
    assert max(seconds, default=0.0) < SOON


def test_clients_that_never_sign_in_keep_nobody_out(tmp_path: Any):
    """Once they kept all others out until their time to sign in was over."""
    with opened(tmp_path, postgres_connections=6, header_seconds=60.0) as door, contextlib.ExitStack() as kept:
        for _ in range(20):
            kept.enter_context(socket.create_connection(("127.0.0.1", door[1]), timeout=10))
        began = time.monotonic()
        connection = kept.enter_context(connect(door))
        assert connection.execute("SELECT 1").fetchone() == (1,)
        assert time.monotonic() - began < 30
        for _ in range(20):
            kept.enter_context(socket.create_connection(("127.0.0.1", door[1]), timeout=10))
        assert connection.execute("SELECT 2").fetchone() == (2,), "a session is not closed to make room"


def test_half_of_the_connections_are_left_to_other_people(tmp_path: Any):
    with opened(tmp_path, postgres_connections=6) as door, contextlib.ExitStack() as kept:
        for _ in range(3):
            kept.enter_context(connect(door))
        with pytest.raises(psycopg.OperationalError, match="one person may have 3 connections at once"):
            connect(door)
        other = kept.enter_context(connect(door, "bob", "bob-events"))
        assert other.execute("SELECT 1").fetchone() == (1,)


def test_catalogue_queries_count_against_the_rate_limit_and_revoked_tokens_read_nothing(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
):
    with opened(tmp_path) as (team, port):
        token = team.steward.post("/people/ada/tokens", json={"label": "short"}).json()
        address = f"postgresql://ada:{token['secret']}@127.0.0.1:{port}/ada-total"
        monkeypatch.setattr(team.replica.service.authenticator, "_people_rates", Buckets(per_second=0.01, burst=5))
        with psycopg.connect(address, autocommit=True) as connection:
            with pytest.raises(psycopg.errors.TooManyConnections) as refused:  # noqa: PT012 - one of them is refused
                for _ in range(10):
                    connection.execute("SELECT relname FROM pg_class")
            assert "try again" in refused.value.diag.message_primary
            monkeypatch.undo()
            assert team.steward.delete(f"/people/ada/tokens/{token['id']}").status_code in (200, 204)
            with pytest.raises(psycopg.errors.InvalidPassword):
                connection.execute("SELECT relname FROM pg_class")


def test_a_client_that_takes_nothing_is_disconnected(tmp_path: Any):
    with opened(tmp_path, body_seconds=0.5) as (team, port), signed_in(team, port) as raw:
        raw.sendall(query("SELECT repeat('x', 390) FROM generate_series(1, 10000)") * 8)
        time.sleep(4.0)
        raw.settimeout(20)
        received = 0
        with contextlib.suppress(ConnectionError):
            while taken := raw.recv(1 << 20):
                received += len(taken)
        assert received < 8 * 3_900_000, "the rest was not sent after the client had taken nothing for half a second"
        assert healthy(team) < SOON


def test_work_is_done_on_behalf_of_the_person_who_connects(door: tuple[Team, int], monkeypatch: pytest.MonkeyPatch):
    """Otherwise the requests of all would share one turn, and none would be refused for being too many."""
    team, _ = door
    rendering = team.replica.service.rendering
    people: list[str] = []
    run = Threads.run

    async def recorded(self: Threads, function: Callable[..., Any], *args: Any, **words: Any) -> Any:
        people.extend([current_person.get()] if self is rendering else [])
        return await run(self, function, *args, **words)

    with connect(door) as connection:
        monkeypatch.setattr(Threads, "run", recorded)
        connection.execute("SELECT COUNT(DISTINCT user_id) AS users FROM events")
    assert people == ["ada"]


def test_answers_leave_at_padded_times(tmp_path: Any):
    """With a step of 1 s an answer leaves 1, 2, 4, ... seconds after it was asked, as over REST."""
    with opened(tmp_path, answer_step=1.0) as door, connect(door) as connection:
        connection.execute("SELECT COUNT(DISTINCT user_id) AS users FROM events LIMIT 0")  # starts the worker process
        began = time.monotonic()
        connection.execute("SELECT COUNT(DISTINCT user_id) AS users FROM events")
        assert time.monotonic() - began >= 1.0
