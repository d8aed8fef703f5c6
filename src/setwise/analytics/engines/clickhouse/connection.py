"""Connections to ClickHouse by address: a server over HTTP, or a chDB folder in this process."""

import os
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import clickhouse_connect
from clickhouse_connect.driver.client import Client

from setwise.errors import EngineFailed, InvalidParameter, MissingExtra

UNREACHABLE = {
    "clickhouse": "the ClickHouse server cannot be reached or refuses the login",
    "chdb": "the chDB folder cannot be opened: one process has it at a time, and a process has one at a time",
}
"""What is said where no connection can be made, by the scheme of the address."""

_OPTIONS = ("secure", "verify", "ca_cert", "client_cert", "client_cert_key", "server_host_name")
_DAY = 86_400
"""Seconds that an answer may take; a server's own limits on time come first."""


def connected(url: str) -> Client:
    """Return a connection of its own to clickhouse://user:password@host:port/database, or to chdb:///folder.

    A user that the address leaves out is CLICKHOUSE_USER or `default`, and a password that of CLICKHOUSE_PASSWORD or of
    the file CLICKHOUSE_PASSWORD_FILE.
    """
    return _embedded(url) if url.startswith("chdb://") else _server(url)


def _server(url: str) -> Client:
    try:
        place = urlsplit(url)
        port = place.port
    except ValueError:
        raise InvalidParameter(
            "the address of a ClickHouse server cannot be read: write clickhouse://user@host:8123/database"
        ) from None
    options = {name: values[-1] for name, values in parse_qs(place.query).items()}
    for name in options:
        if name not in _OPTIONS:
            raise InvalidParameter(f"the address of a ClickHouse server takes {', '.join(_OPTIONS)}, not {name!r}")
    secure = options.pop("secure", "false").lower() in ("1", "true", "yes")
    return clickhouse_connect.get_client(
        host=place.hostname or "localhost",
        port=port or (8443 if secure else 8123),
        username=unquote(place.username) if place.username else os.environ.get("CLICKHOUSE_USER", "default"),
        password=unquote(place.password) if place.password else _password(),
        database=unquote(place.path.strip("/")) or None,
        interface="https" if secure else "http",
        autogenerate_session_id=False,  # a session answers one statement at a time
        query_retries=0,
        send_receive_timeout=_DAY,
        client_name="setwise",
        **options,  # type: ignore[arg-type]
    )


def _password() -> str:
    file = os.environ.get("CLICKHOUSE_PASSWORD_FILE")
    if file is None:
        return os.environ.get("CLICKHOUSE_PASSWORD", "")
    try:
        return Path(file).read_text().strip()
    except OSError:
        raise EngineFailed("the file of CLICKHOUSE_PASSWORD_FILE cannot be read") from None


def _embedded(url: str) -> Client:
    folder = Path(url.removeprefix("chdb://"))
    if not folder.is_dir():  # chDB would make an empty one
        raise InvalidParameter(f"{folder} is no folder of a chDB database: give it as chdb:///path/to/folder")
    try:
        return clickhouse_connect.get_client(interface="chdb", path=str(folder))
    except ImportError:
        raise MissingExtra("a chDB folder needs chdb: pip install 'setwise[chdb]'") from None
