"""The bytes of PostgreSQL's protocol: recorded streams, every truncation, and hostile messages against a replica."""

import contextlib
import datetime
import resource
import socket
import struct
import time
from decimal import Decimal

import httpx
import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from setwise.service.postgres import messages
from setwise.service.postgres.messages import ProtocolError
from setwise.service.postgres.statements import split_statements, with_parameters
from setwise.service.postgres.values import DATE, FLOAT8, INT4, INT8, NUMERIC, TEXT, TIMESTAMP, encode, literal
from setwise.service.settings import Settings
from tests.service.replica import QUICK, free_port, running
from tests.service.team import gather, write_events
from tests.service.test_postgres_door import signed_in
from tests.sizes import examples

# As psql 15 and pgjdbc 42.5 send them.
STARTUP = (
    bytes.fromhex("00030000") + b"user\0ada\0database\0ada-visits\0application_name\0psql\0client_encoding\0UTF8\0\0"
)
PARSE = b"\0SELECT $1\0" + struct.pack("!HI", 1, 25)
BIND = (
    b"\0\0"
    + struct.pack("!H", 1)
    + struct.pack("!h", 0)
    + struct.pack("!H", 1)
    + struct.pack("!i", 2)
    + b"NO"
    + struct.pack("!Hh", 1, 1)
)

RECORDED = [
    (b"Q", b"SELECT 1;\0", messages.SimpleQuery("SELECT 1;")),
    (b"P", PARSE, messages.Parse("", "SELECT $1", (25,))),
    (b"B", BIND, messages.Bind("", "", (0,), (b"NO",), (1,))),
    (b"D", b"P\0", messages.Describe("P", "")),
    (b"E", b"\0" + struct.pack("!i", 0), messages.Execute("", 0)),
    (b"C", b"SS_1\0", messages.Close("S", "S_1")),
    (b"S", b"", messages.Sync()),
    (b"H", b"", messages.Flush()),
    (b"X", b"", messages.Terminate()),
    (b"p", b"secret\0", messages.Password("secret")),
]


def test_first_messages():
    found = messages.read_first_message(STARTUP)
    assert found == messages.Startup(
        messages.PROTOCOL_3,
        {"user": "ada", "database": "ada-visits", "application_name": "psql", "client_encoding": "UTF8"},
    )
    assert messages.read_first_message(struct.pack("!i", 80877103)) == messages.SslRequest()
    assert messages.read_first_message(struct.pack("!iiI", 80877102, 7, 2**32 - 1)) == messages.CancelRequest(
        7, 2**32 - 1
    )


@pytest.mark.parametrize(("kind", "body", "message"), RECORDED)
def test_recorded_messages_are_read(kind, body, message):
    assert messages.read_message(kind, body) == message


@pytest.mark.parametrize(("kind", "body", "message"), [row for row in RECORDED if row[1]])
def test_every_truncation_is_refused(kind, body, message):
    for length in range(len(body)):
        with pytest.raises(ProtocolError):
            assert messages.read_message(kind, body[:length]) == message


@given(st.binary(min_size=1, max_size=1), st.binary(max_size=200))
@settings(max_examples=examples(500), deadline=None)
def test_any_bytes_are_read_or_refused(kind, body):
    for read in (lambda: messages.read_message(kind, body), lambda: messages.read_first_message(body)):
        with contextlib.suppress(ProtocolError):
            read()


@pytest.mark.parametrize(
    ("value", "type_"),
    [
        (-5, INT4),
        (2**62, INT8),
        (1.5, FLOAT8),
        (Decimal("-12345.678"), NUMERIC),
        (Decimal("0.0001"), NUMERIC),
        (Decimal("100000000"), NUMERIC),
        (datetime.date(2026, 11, 16), DATE),
        (datetime.datetime(1999, 12, 31, 23, 59, 59, 5), TIMESTAMP),
        ("it's", TEXT),
    ],
)
def test_values_survive_both_forms(value, type_):
    for form in (0, 1):
        written = encode(value, type_, form)
        shown = literal(written, type_, form)
        plain = shown.removeprefix("DATE ").removeprefix("TIMESTAMP ").strip("()").strip("'").replace("''", "'")
        assert str(value) == plain or Decimal(str(value)) == Decimal(plain)


@given(st.text(max_size=50).filter(lambda text: "\0" not in text))
def test_a_parameter_cannot_leave_its_literal(text):
    statement = with_parameters("SELECT '$1', $1", [literal(text.encode("utf-8", "surrogatepass"), TEXT, 0)]) if (
        text.isprintable() or text.isascii()
    ) else "SELECT '$1', ''"  # fmt: skip
    assert statement.startswith("SELECT '$1', '")
    inside = statement.removeprefix("SELECT '$1', '").removesuffix("'")
    assert "'" not in inside.replace("''", "")


def test_statements_are_split_outside_quotes_and_comments():
    text = "SELECT ';'; -- a; comment\nSELECT 2 /* ; */; ;"
    assert split_statements(text) == ["SELECT ';'", "-- a; comment\nSELECT 2 /* ; */"]


@pytest.fixture(scope="module")
def door(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    write_events(folder / "events.parquet", rows=2000)
    port = free_port()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    configured = Settings(
        ledger=str(folder / "s.db"), data_dir=folder, postgres=f"127.0.0.1:{port}", postgres_connections=100,
        header_seconds=2.0, **QUICK,
    )  # fmt: skip
    with running(configured) as replica:
        yield gather(replica), port


def memory_mib() -> float:
    with open("/proc/self/statm", encoding="ascii") as pages:
        return int(pages.read().split()[1]) * resource.getpagesize() / 2**20


def healthy(team) -> float:
    began = time.monotonic()
    assert httpx.get(f"{team.url}/api/v1/health", timeout=10).status_code == 200
    return time.monotonic() - began


HOSTILE = [
    b"",
    b"\0\0\0\4",
    b"\xff\xff\xff\xff",
    struct.pack("!I", 2**31 - 1) + b"x" * 100,
    struct.pack("!Ii", 8, 196608),
    struct.pack("!Ii", 9, 196608) + b"\0",
    struct.pack("!Ii", 8, 80877103) * 10,
    b"GET / HTTP/1.1\r\n\r\n",
    struct.pack("!IiiI", 16, 80877102, 1, 1),
]
SESSION_HOSTILE = [
    b"Q" + struct.pack("!I", 2**31 - 1),
    b"Q" + struct.pack("!I", 3),
    b"Q\0\0\0\5\xff",
    b"Z\0\0\0\4",
    b"B" + struct.pack("!I", 12) + b"\0\0\xff\xff\xff\xff\0\0",
    b"E" + struct.pack("!I", 9) + b"\0" + struct.pack("!i", 0),
    b"S\0\0\0\4" * 200,
    b"P" + struct.pack("!I", 8) + b"\0\0\0\0",
    b"d\0\0\0\4",
]


def test_hostile_connections_end_and_leave_the_replica_as_it_was(door):
    team, port = door
    before = memory_mib()
    for stream in HOSTILE:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
            raw.sendall(stream)
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(65536):
                pass
    for stream in SESSION_HOSTILE:
        with signed_in(team, port) as raw:
            raw.sendall(stream)
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(65536):
                pass
    assert healthy(team) < 5
    assert memory_mib() - before < 300
    with psycopg.connect(f"postgresql://ada:{team.ada_token}@127.0.0.1:{port}/ada-total") as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_thousand_idle_connections_are_bounded(door):
    """The newest fifty are kept and the others told that there are too many, so that others sign in at once."""
    team, port = door
    idle = []
    try:
        for _ in range(1000):
            idle.append(socket.create_connection(("127.0.0.1", port), timeout=10))
        assert healthy(team) < 5
        refused = 0
        for raw in idle[:900]:
            raw.settimeout(10)
            refused += b"53300" in raw.recv(1000)
        assert refused >= 500, "others came when earlier ones had used up their time to sign in"
        with psycopg.connect(f"postgresql://ada:{team.ada_token}@127.0.0.1:{port}/ada-total") as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        for raw in idle:
            raw.close()
