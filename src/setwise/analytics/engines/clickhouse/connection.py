"""A connection to ClickHouse, to a server over HTTP or to a chDB folder in this process, and what it runs.

A profile, a role or a user may set any of a statement's settings, and none may change an answer. Some filter rows, cut
off results, turn nulls into zeros, let one row replace another, or a missing shard pass in silence. So every statement
sets back to its default whatever the login has changed, but for limits on memory, time and threads: these can make a
question fail, and not make its answer another.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

from setwise.errors import EngineFailed, InvalidParameter, MissingExtra, UnsuitableTable

try:
    import clickhouse_connect
    from clickhouse_connect.driver.client import Client
    from clickhouse_connect.driver.exceptions import ClickHouseError
except ImportError:  # pragma: no cover - said in one sentence instead
    raise MissingExtra("ClickHouse needs clickhouse-connect: pip install 'setwise[clickhouse]'") from None

Columns: TypeAlias = Mapping[str, Sequence[Any]]
Ask: TypeAlias = Callable[[str, Mapping[str, object]], Columns]
"""Runs a statement with parameters and returns its columns by name; none when there are no rows."""

_UNREACHABLE = {
    "clickhouse": "the ClickHouse server cannot be reached or refuses the login",
    "chdb": "the chDB folder cannot be opened: one process has it at a time, and a process has one at a time",
}
"""What is said where no connection can be made, by the scheme of the address."""

_OPTIONS = ("secure", "verify", "ca_cert", "client_cert", "client_cert_key", "server_host_name")
_DAY = 86_400
"""Seconds that an answer may take; a server's own limits on time come first."""


_KILL = "KILL QUERY WHERE user = currentUser() AND Settings['log_comment'] = {comment:String} ASYNC"

_CANCELLED, _DENIED, _READ_ONLY, _CONSTRAINED = 394, 497, 164, 452
"""Codes of ClickHouse's errors."""


class Connection:
    """A connection by its address, which runs one statement after the other."""

    def __init__(self, url: str) -> None:
        self._url = url
        with _failures(_UNREACHABLE[url.partition(":")[0]]):
            self._client = connected(url)

    def ask(self, statement: str, parameters: Mapping[str, object], comment: str) -> Columns:
        """Run a statement under settings of its own, and return its columns by name; none when there are no rows."""
        sent = {name: _sent(value) for name, value in parameters.items()}
        worker = ThreadPoolExecutor(1, "setwise-clickhouse")  # chDB hears no interrupt in the thread that it works in
        try:
            with _failures("ClickHouse could not answer the query"):
                changed = self._client.query(_CHANGED, column_oriented=True)
                clause = _settings_clause(dict(zip(*changed.result_set, strict=True)), comment)
                asked = partial(self._client.query, f"{statement} {clause}", parameters=sent, column_oriented=True)
                found = worker.submit(asked).result()
                return dict(zip(found.column_names, found.result_set, strict=False))
        except (KeyboardInterrupt, SystemExit):
            self.kill(comment)
            raise
        finally:
            worker.shutdown()

    def kill(self, comment: str) -> None:
        """Stop a statement by its comment, on another connection: this one waits for it."""
        with suppress(ClickHouseError), closing(connected(self._url)) as client:
            client.query(_KILL, parameters={"comment": comment})

    def close(self) -> None:
        """Let go of the connection."""
        self._client.close()


def connected(url: str) -> Client:
    """Return the driver's own connection to clickhouse://user:password@host:port/database, or to chdb:///folder.

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


_RELIED_ON = {
    "prefer_column_name_to_alias": "1",  # as in standard SQL: a column may have the name of an alias of ours
    "cast_keep_nullable": "1",  # as in standard SQL: null as another type is null
    "join_use_nulls": "1",  # as in standard SQL: what meets nothing is null
    "least_greatest_legacy_null_behavior": "0",  # older versions may not have it, nor the next
    "precise_float_parsing": "1",
}
"""What statements rely on where it is no default, or has not always been one."""

_SET_TO_LOOK = {
    "compatibility": "",  # first: it changes the defaults of others
    "additional_result_filter": "",
    "additional_table_filters": "{}",
    "limit": "0",
    "max_result_rows": "0",
    "max_rows_to_read": "0",
    "offset": "0",
    "read_overflow_mode": "throw",
    "result_overflow_mode": "throw",
    "timeout_overflow_mode": "throw",
    "transform_null_in": "0",
    "use_query_cache": "0",
}
"""What could cut the list of changed settings short; set for that statement, they are not listed as changed."""

_LEFT_ALONE = ("database", "log_comment", "priority", "readonly", "role", "workload")
_LEFT_ALONE_PREFIXES = (
    *("cancel_http_", "connect_", "http_", "log_", "max_bytes_before_", "max_concurrent_", "max_execution_time"),
    *("max_memory_", "max_network_", "max_temporary_", "max_threads", "memory_", "queue_max_", "receive_", "send_"),
    "tcp_",
)
"""Limits on memory, time and threads, and how the connection is kept."""

_LISTED = ", ".join(f"'{name}'" for name in _RELIED_ON)
_CHANGED = f"SELECT name, changed FROM system.settings WHERE changed OR name IN ({_LISTED}) SETTINGS " + ", ".join(
    f"{name} = '{value}'" for name, value in _SET_TO_LOOK.items()
)
"""The settings that this login has changed, and those that statements rely on."""


def _settings_clause(found: Mapping[str, bool], log_comment: str) -> str:
    """Return the SETTINGS of a statement, given what `_CHANGED` finds."""
    relied_on = {name: value for name, value in _RELIED_ON.items() if name in found}
    chosen = {name: f"'{value}'" for name, value in {**_SET_TO_LOOK, **relied_on}.items()}
    for name, changed in sorted(found.items()):
        if changed and name not in chosen and name not in _LEFT_ALONE and not name.startswith(_LEFT_ALONE_PREFIXES):
            chosen[name] = "DEFAULT"
    chosen["log_comment"] = f"'{log_comment}'"
    return "SETTINGS " + ", ".join(f"{name} = {value}" for name, value in chosen.items())


def _sent(value: object) -> object:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case _:
            return value


@contextmanager
def _failures(sentence: str) -> Iterator[None]:
    """Turn the driver's errors into ours with fixed sentences: its own quote rows, statements and addresses."""
    try:
        yield
    except (ClickHouseError, UnicodeError) as error:
        match getattr(error, "code", None):
            case int(code) if code == _CANCELLED:
                raise EngineFailed("the query was cancelled") from None
            case int(code) if code == _DENIED:
                raise EngineFailed("ClickHouse does not let this login read the table") from None
            case int(code) if code in (_READ_ONLY, _CONSTRAINED):
                raise UnsuitableTable(
                    "this ClickHouse login may not change settings, so that its profile could change answers: "
                    "give it readonly = 2, and no constraints on settings"
                ) from None
            case _:
                raise EngineFailed(sentence) from None
