"""ClickHouse on loopback for the tests: chDB, which is ClickHouse itself, in a process of its own, behind HTTP.

The process takes what clickhouse-connect sends to a server (a statement, its parameters and settings, a login) and
answers in the same formats and errors. A login has a profile: settings that come before those of its requests.
"""

import base64
import contextlib
import email
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

_FORMAT = re.compile(r"\bFORMAT\s+(\w+)\s*;?\s*$", re.IGNORECASE)
_CODE = re.compile(r"Code: (\d+)")
_NOT_SETTINGS = {
    *("database", "query", "query_id", "session_id", "wait_end_of_query", "client_protocol_version", "compress"),
    *("send_progress_in_http_headers", "http_headers_progress_interval_ms", "enable_http_compression"),
}
_TYPES = [
    (pa.types.is_string, "String"),
    (pa.types.is_int64, "Int64"),
    (pa.types.is_int32, "Int32"),
    (pa.types.is_float64, "Float64"),
    (pa.types.is_float32, "Float32"),
    (pa.types.is_boolean, "Bool"),
    (pa.types.is_date, "Date32"),
    (pa.types.is_timestamp, "DateTime64(6, 'UTC')"),
]

POLICED = "policed"
POLICIES = {"plain": "u = 'u1' OR n &gt; 1", "computed": "toInt64(s) = 1", "divided": "intDiv(6, n) = 6"}
"""Row policies of tables of the database `policed`: chDB takes them from its configuration only."""
_USERS = (
    "<clickhouse><profiles><default/></profiles><quotas><default/></quotas><users><default><password/>"
    "<networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>"
    "<access_management>1</access_management>{}</default></users></clickhouse>"
)


def _address(folder: Path) -> str:
    return f"{folder / 'data'}?config-file={folder / 'config.xml'}"


class ClickHouseServer:
    """A server of one's own, with logins that need the password `secret` and have profiles."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)
        self._clients: dict[str, Any] = {}
        self._logins = folder / "logins.json"
        self.login("default")
        words = [sys.executable, "-m", "tests.servers.clickhouse", str(folder)]
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        )
        assert self._process.stdout is not None
        told = self._process.stdout.readline()
        self.port = int(told)

    def stop(self) -> None:
        """End the server."""
        for client in self._clients.values():
            client.close()
        self._process.terminate()
        self._process.communicate(timeout=60)

    def login(self, name: str, **profile: object) -> str:
        """Make a login with a profile of settings, and return its address of the default database."""
        logins = json.loads(self._logins.read_text()) if self._logins.exists() else {}
        self._logins.write_text(json.dumps({**logins, name: profile}))
        return "" if name == "default" else self.url(user=name)

    def url(self, database: str = "default", user: str = "default") -> str:
        """Return the address of a database."""
        return f"clickhouse://{user}:secret@127.0.0.1:{self.port}/{database}"

    def database(self) -> str:
        """Make a fresh, empty database, and return its address."""
        name = f"test_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name}")
        return self.url(name)

    def run(self, statement: str, url: str = "", **parameters: Any) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        from setwise.analytics.engines.clickhouse.connection import open_client

        url = url or self.url()
        if url not in self._clients:
            self._clients[url] = open_client(url)
        return list(self._clients[url].query(statement, parameters=parameters).result_rows)

    def store(self, table: pa.Table, name: str, url: str, types: dict[str, str] | None = None) -> None:
        """Make a MergeTree table of an Arrow table, each column nullable, or of the type that `types` names."""
        file = self._folder / f"{next(self._numbers)}.parquet"
        pq.write_table(table, file)
        columns = ", ".join(
            f"{_quoted(field.name)} {(types or {}).get(field.name) or f'Nullable({_written(field.type)})'}"
            for field in table.schema
        )
        self.run(f"CREATE TABLE {_quoted(name)} ({columns}) ENGINE = MergeTree ORDER BY tuple()", url)
        self.run(f"INSERT INTO {_quoted(name)} SELECT * FROM file('{file}', Parquet)", url)
        file.unlink()


def _quoted(name: str) -> str:
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _constant(value: object) -> str:
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


def _written(kind: pa.DataType) -> str:
    if pa.types.is_decimal(kind):
        return f"Decimal({kind.precision}, {kind.scale})"
    return next(name for test, name in _TYPES if test(kind))


@pytest.fixture(scope="session")
def clickhouse_server() -> Iterator[ClickHouseServer]:
    """A running server for the whole test process; without chDB the test is skipped, and fails under CI=true."""
    if find_spec("chdb") is None or find_spec("clickhouse_connect") is None:
        missing = "no ClickHouse: install chdb and clickhouse-connect"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        pytest.skip(missing)
    with tempfile.TemporaryDirectory(prefix="setwise-clickhouse-") as folder:
        server = ClickHouseServer(Path(folder))
        try:
            yield server
        finally:
            server.stop()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # head and body in one packet
    folder: Path

    def do_POST(self) -> None:
        import chdb

        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        asked = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        if self.headers.get("Content-Type", "").startswith("multipart/"):
            asked |= _form(self.headers["Content-Type"], body)
            body = b""
        query = asked.get("query", "") + body.decode()
        profile = self._profile()
        if profile is None:
            self._answer(403, b"Code: 516. DB::Exception: Authentication failed.", {})
            return
        parameters = {name[6:]: value for name, value in asked.items() if name.startswith("param_")}
        sent = {name: value for name, value in asked.items() if not name.startswith("param_")}
        settings = {name: value for name, value in sent.items() if name not in _NOT_SETTINGS}
        connection = chdb.connect(_address(self.folder))
        found = _FORMAT.search(query)
        try:
            if "database" in asked:
                connection.query(f"USE {_quoted(asked['database'])}")
            for name, value in {**profile, **settings}.items():
                connection.query(f"SET {name} = {_constant(value)}")
            answer = connection.query(query, found[1] if found else "TabSeparated", params=parameters).bytes()
            self._answer(200, answer, {"X-ClickHouse-Format": found[1] if found else "TabSeparated"})
        except Exception as error:  # chDB has two classes of that name
            told = str(error)
            self._answer(500, told.encode(), {})
        finally:
            connection.close()

    do_GET = do_POST  # noqa: N815

    def _profile(self) -> dict[str, Any] | None:
        _, _, token = self.headers.get("Authorization", "").partition(" ")
        name, _, password = base64.b64decode(token).decode().partition(":")
        logins = json.loads((self.folder / "logins.json").read_text())
        return logins.get(name) if password == "secret" else None

    def _answer(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(status)
            code = _CODE.search(body[:200].decode("utf-8", "replace")) if status != 200 else None
            if code:
                self.send_header("X-ClickHouse-Exception-Code", code[1])
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()

    def log_message(self, *told: object) -> None:
        pass


def _form(kind: str, body: bytes) -> dict[str, str]:
    """Return the fields of a form."""
    parts = email.message_from_bytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body).get_payload()
    assert isinstance(parts, list)
    fields = {}
    for part in parts:
        name = part.get_param("name", header="Content-Disposition")
        fields[str(name)] = part.get_payload(decode=True).decode()
    return fields


def _serve(folder: Path) -> None:
    import chdb

    (folder / "config.xml").write_text(f"<clickhouse><users_config>{folder}/users.xml</users_config></clickhouse>")
    filters = "".join(f"<{table}><filter>{condition}</filter></{table}>" for table, condition in POLICIES.items())
    (folder / "users.xml").write_text(_USERS.format(f"<databases><{POLICED}>{filters}</{POLICED}></databases>"))
    held = chdb.connect(_address(folder))  # the last connection to close would end the engine
    _Handler.folder = folder
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()  # ends with whoever started the server, however they end
    server.shutdown()
    held.close()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
