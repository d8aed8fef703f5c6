"""A replica of the service on a port of its own, in this process, spoken to over real HTTP.

Worker processes that are idle when a replica stops are handed to the next one: each takes most of a second to start.
"""

import atexit
import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import httpx

from setwise.service.app import create_app
from setwise.service.replica import Service, open_service
from setwise.service.server import listen, make_server
from setwise.service.settings import Settings
from setwise.service.workers import pool

PATIENCE = 30.0

QUICK = {
    "answer_step": 0.01,
    "wait_seconds": 30.0,
    "requests_per_second": 10_000.0,
    "burst": 10_000,
    "heartbeat_seconds": 0.1,
}
"""Settings of a replica that keeps nobody waiting."""


_SPARE: list[pool._Worker] = []
_started, _closed = pool._Worker, pool.WorkerPool.close


def _handed_on(memory: int, preload: str) -> pool._Worker:
    for worker in list(_SPARE):
        if (worker.memory, worker.preload) == (memory, preload):
            _SPARE.remove(worker)
            if worker._process.poll() is None:
                return worker
    return _started(memory, preload)


def _close(workers: pool.WorkerPool) -> None:
    with workers._lock:
        _SPARE.extend(workers._idle)
        workers._idle.clear()
    _closed(workers)


pool._Worker, pool.WorkerPool.close = _handed_on, _close  # type: ignore[misc, assignment, method-assign]
atexit.register(lambda: [worker.end() for worker in _SPARE])


@dataclass
class Clock:
    """The machine's clock, set ahead at will."""

    ahead: float = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


@dataclass
class Replica:
    url: str
    service: Service
    clock: Clock
    steward: str
    clients: list[httpx.Client] = field(default_factory=list)

    def as_holder(self, token: str | None, **headers: str) -> httpx.Client:
        """Return a client that sends this token."""
        bearer = {} if token is None else {"Authorization": f"Bearer {token}"}
        client = httpx.Client(base_url=f"{self.url}/api/v1", headers=bearer | headers, timeout=PATIENCE, verify=False)
        self.clients.append(client)
        return client


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(settings: Settings, *, port: int = 0) -> Iterator[Replica]:
    """Start a replica, on a port of its own unless one is given, and shut it down at the end."""
    clock = Clock()
    service = open_service(settings, clock=clock)
    app = create_app(settings, service=service)
    first = service.people.first_steward()
    listening = listen("127.0.0.1", port)
    server = make_server(app, settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    replica = Replica(url, service, clock, first.secret if first is not None else "")
    try:
        deadline = time.monotonic() + PATIENCE
        while not server.started:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield replica
    finally:
        for client in replica.clients:
            client.close()
        server.should_exit = True
        thread.join(PATIENCE)
        listening.close()
