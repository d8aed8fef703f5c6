"""A real Apache Superset in an environment of its own, outside the tree: `SETWISE_TEST_CACHE` or the user's cache.

The first use installs it and makes its own database, which takes minutes; later uses start it in half a minute. `make
superset` does the same ahead of the tests.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

REQUIREMENTS = (
    "apache-superset==6.1.0",
    "flask-caching==2.3.1",  # later ones pass words that this Superset does not take
    "psycopg2-binary>=2.9.9",
    "cachetools>=5",  # imported by the driver of PostgreSQL, and not required by Superset
    "rich>=13",  # imported by the command line, and not required by Superset
)
CACHE = Path(os.environ.get("SETWISE_TEST_CACHE") or Path.home() / ".cache" / "setwise") / "superset"
_STAMP = CACHE / "requirements.txt"
_READY = CACHE / "superset.db"
_PATIENCE = 1800
"""Seconds that an installation may take."""

_CONFIG = """
SECRET_KEY = "a-key-for-tests-alone-on-this-machine-only"
SQLALCHEMY_DATABASE_URI = "sqlite:///{folder}/superset.db"
WTF_CSRF_ENABLED = False
TALISMAN_ENABLED = False
"""


def build() -> Path:
    """Install Superset and make its database, unless that was done; return the folder of its programs."""
    programs = CACHE / "bin"
    wanted = "\n".join(REQUIREMENTS)
    if not (_STAMP.exists() and _STAMP.read_text() == wanted):
        CACHE.parent.mkdir(parents=True, exist_ok=True)
        if not (programs / "python").exists():
            _run([sys.executable, "-m", "venv", str(CACHE)])
        _run([str(programs / "python"), "-m", "pip", "install", "--quiet", *REQUIREMENTS])
        _READY.unlink(missing_ok=True)
        _STAMP.write_text(wanted)
    if not _READY.exists():
        scratch = CACHE / "making"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        environment = _environment(scratch)
        person = ["--username", "admin", "--firstname", "A", "--lastname", "B", "--email", "a@example.org"]
        for words in (["db", "upgrade"], ["fab", "create-admin", *person, "--password", "secret"], ["init"]):
            _run([str(programs / "superset"), *words], environment)
        (scratch / "superset.db").rename(_READY)
        shutil.rmtree(scratch)
    return programs


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=_PATIENCE, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def _environment(folder: Path) -> dict[str, str]:
    """Write the configuration of a Superset whose database is in a folder, and return its environment."""
    config = folder / "superset_config.py"
    config.write_text(_CONFIG.format(folder=folder))
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return kept | {"SUPERSET_CONFIG_PATH": str(config), "FLASK_APP": "superset", "SUPERSET_HOME": str(folder)}


@dataclass
class Superset:
    """A Superset that somebody is signed in to."""

    client: httpx.Client

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        response = self.client.post(f"/api/v1{path}", json=body)
        assert response.status_code in (200, 201), response.text
        found: dict[str, Any] = response.json()
        return found

    def get(self, path: str) -> dict[str, Any]:
        response = self.client.get(f"/api/v1{path}")
        assert response.status_code == 200, response.text
        found: dict[str, Any] = response.json()
        return found


@contextmanager
def running(folder: Path) -> Iterator[Superset]:
    """Start Superset with a database of its own in a folder, and sign in."""
    programs = build()
    shutil.copy(_READY, folder / "superset.db")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = int(probe.getsockname()[1])
    command = [str(programs / "superset"), "run", "-h", "127.0.0.1", "-p", str(port), "--with-threads"]
    with (folder / "superset.log").open("w") as log:
        process = subprocess.Popen(command, env=_environment(folder), stdout=log, stderr=log)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120) as client:
            _wait(client, process, folder)
            account = {"username": "admin", "password": "secret", "provider": "db"}
            signed = client.post("/api/v1/security/login", json=account).json()
            client.headers["Authorization"] = f"Bearer {signed['access_token']}"
            yield Superset(client)
    finally:
        process.terminate()
        process.wait(30)


def _wait(client: httpx.Client, process: "subprocess.Popen[bytes]", folder: Path) -> None:
    until = time.monotonic() + 180
    while time.monotonic() < until:
        assert process.poll() is None, (folder / "superset.log").read_text()[-2000:]
        try:
            if client.get("/health").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.5)
    raise AssertionError("Superset did not start")


if __name__ == "__main__":
    build()
