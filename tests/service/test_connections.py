"""Connections that send nothing, or slowly: they are ended in time, make room for others, and fill no log."""

import contextlib
import resource
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.service.replica import PATIENCE, Replica
from tests.service.served import serving

HALF = b"GET /api/v1/health HTTP/1.1\r\nHost: localhost\r\n"
FILES = 1024


@contextlib.contextmanager
def half_open(url: str, number: int) -> Iterator[list[socket.socket]]:
    """Open connections that never send the end of their headers."""
    address = (httpx.URL(url).host, httpx.URL(url).port)
    opened: list[socket.socket] = []
    try:
        for _ in range(number):
            opened.append(socket.create_connection(address, PATIENCE))
            with contextlib.suppress(OSError):
                opened[-1].sendall(HALF)
        yield opened
    finally:
        for each in opened:
            each.close()


def is_ended(connection: socket.socket) -> bool:
    """Whether the other side ends a connection before patience does."""
    connection.settimeout(PATIENCE)
    try:
        while connection.recv(10_000):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


def received_until(connection: socket.socket, end: bytes) -> bytes:
    """Return what the other side sends, up to and including `end`, or all that it sends if it ends the connection."""
    connection.settimeout(PATIENCE)
    received = b""
    while end not in received and (more := connection.recv(10_000)):
        received += more
    return received


def test_1100_half_open_connections_keep_nobody_waiting_and_fill_no_log(tmp_path: Path):
    mine = resource.getrlimit(resource.RLIMIT_NOFILE)
    if mine[1] != resource.RLIM_INFINITY and mine[1] < 2 * FILES:
        pytest.skip(f"this machine allows {mine[1]} open files, too few for the callers")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(mine[0], 2 * FILES), mine[1]))
    with serving(tmp_path, "flooded", files=FILES) as served:
        process = served.ready().process
        process.send_signal(signal.SIGSTOP)  # it finds all of them waiting at once, whoever is quicker
        with half_open(served.url, FILES + 76):
            process.send_signal(signal.SIGCONT)
            slowest = 0.0
            for _ in range(50):
                began = time.monotonic()
                assert httpx.get(f"{served.url}/api/v1/health", timeout=PATIENCE, verify=False).status_code == 200
                slowest = max(slowest, time.monotonic() - began)
    assert slowest < 20.0  # 0.3 s on a free machine
    assert served.complained.read_text() == ""


def test_headers_that_do_not_arrive_end_the_connection(start: Callable[..., Replica]):
    replica = start(header_seconds=0.3)
    with half_open(replica.url, 1) as (slow,):
        began = time.monotonic()
        assert is_ended(slow)
        assert 0.2 < time.monotonic() - began < 5.0


def test_a_second_request_has_as_long_for_its_headers_as_the_first(start: Callable[..., Replica]):
    replica = start(header_seconds=0.3, idle_seconds=60.0)
    with half_open(replica.url, 1) as (slow,):
        slow.sendall(b"\r\n")
        assert b"200 OK" in slow.recv(10_000)
        slow.sendall(HALF)
        assert is_ended(slow)


def test_an_idle_connection_is_ended(start: Callable[..., Replica]):
    replica = start(idle_seconds=0.3)
    with half_open(replica.url, 1) as (idle,):
        idle.sendall(b"\r\n")
        assert b"200 OK" in idle.recv(10_000)
        assert is_ended(idle)


def test_a_request_that_takes_long_is_not_cut_short(start: Callable[..., Replica]):
    replica = start(header_seconds=0.2, idle_seconds=0.2)
    address = (httpx.URL(replica.url).host, httpx.URL(replica.url).port)
    with socket.create_connection(address, PATIENCE) as slow:
        slow.sendall(b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n")
        time.sleep(0.6)
        slow.sendall(b"a=b")
        assert b"403" in slow.recv(10_000)


def test_at_the_limit_a_request_that_was_sent_before_the_answer_to_the_one_before_it_is_not_cut_off(
    start: Callable[..., Replica],
):
    """The connection counted as waiting while its second request ran, and made room for others."""
    replica = start(connections=3)
    with half_open(replica.url, 1) as (early,):
        early.sendall(b"\r\nPOST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n")
        assert b"200 OK" in received_until(early, b'"version"')
        with half_open(replica.url, 2) as (first, _):
            assert httpx.get(f"{replica.url}/api/v1/health").status_code == 200
            assert is_ended(first)
            early.sendall(b"a=b")
            assert b"403" in received_until(early, b"403")


def test_at_the_limit_the_connection_that_has_waited_longest_makes_room(start: Callable[..., Replica]):
    replica = start(connections=3)
    with half_open(replica.url, 3) as (first, second, third):
        assert httpx.get(f"{replica.url}/api/v1/health").status_code == 200
        assert is_ended(first)
        second.sendall(b"\r\n")
        third.sendall(b"\r\n")
        assert b"200 OK" in second.recv(10_000)
        assert b"200 OK" in third.recv(10_000)
