"""Connections to ClickHouse: to a server over HTTP, or to a chDB folder in this process.

On a ClickHouse server the profile, role or user of a login can change any setting of a statement. Some settings would
change an answer: they filter rows, cut results off, turn nulls into zeros, let one row replace another, or ignore a
missing shard. So every statement restores the default of each setting that the login has changed. Limits on memory,
time and threads are not restored: they can make a query fail but cannot change its answer.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

import clickhouse_connect
from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError

from setwise.analytics.engines.base import CANCELLED
from setwise.errors import EngineFailed, InvalidParameter, MissingExtra, UnsuitableTable

Columns: TypeAlias = Mapping[str, Sequence[Any]]
"""The columns of a result by name."""
Ask: TypeAlias = Callable[[str, Mapping[str, object]], Columns]
"""Function that runs a statement with parameters and returns its columns by name; empty if there are no rows."""

_UNREACHABLE = {
    "clickhouse": "the ClickHouse server cannot be reached or refuses the login",
    "chdb": "the chDB folder cannot be opened: one process has it at a time, and a process has one at a time",
}
"""The error message if no connection can be made, by the scheme of the address."""

_OPTIONS = ("secure", "verify", "ca_cert", "client_cert", "client_cert_key", "server_host_name")
"""The options that the address of a server may have after "?"."""
_DAY = 86_400
"""Seconds that a response may take; time limits of the server apply first."""


_KILL = "KILL QUERY WHERE user = currentUser() AND Settings['log_comment'] = {comment:String} ASYNC"
"""Statement that stops the statements of this login that have a given comment."""

_CANCELLED, _DENIED, _READ_ONLY, _CONSTRAINED = 394, 497, 164, 452
"""ClickHouse's error codes for a cancelled query, a missing privilege, a read-only login and a constrained setting."""


class ClickHouseConnection:
    """A connection to the ClickHouse at the address `url`, which runs one statement after the other.

    The field `is_embedded` is True for a chDB folder, which a ClickHouse in this process reads and nobody else uses.

    Raises: `EngineFailed` if no connection can be made.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self.is_embedded = url.startswith("chdb://")
        with _failures(_UNREACHABLE[url.partition(":")[0]]):
            self._client = open_client(url)

    def ask(self, statement: str, parameters: Mapping[str, object], comment: str) -> Columns:
        """Run the SQL `statement` with `parameters`; return the result's columns by name, or {} if it has no rows.

        Settings of the login (the database user) cannot change the result. `comment` is stored with the statement, so
        that `kill` can find it.

        Raises: `EngineFailed` or `UnsuitableTable` if ClickHouse raises an error; their messages are Setwise's own,
        because ClickHouse's messages quote rows.
        """
        values = {name: _parameter_value(value) for name, value in parameters.items()}
        worker = ThreadPoolExecutor(1, "setwise-clickhouse")  # chDB blocks Ctrl-C in the thread that it runs in
        try:
            with _failures("ClickHouse could not answer the query"):
                changed = self._client.query(_CHANGED, column_oriented=True)
                clause = _settings_clause(dict(zip(*changed.result_set, strict=True)), comment)
                run_query = partial(
                    self._client.query, f"{statement} {clause}", parameters=values, column_oriented=True
                )
                result = worker.submit(run_query).result()
                return dict(zip(result.column_names, result.result_set, strict=False))
        except (KeyboardInterrupt, SystemExit):
            self.kill(comment)
            raise
        finally:
            worker.shutdown()

    def command(self, statement: str) -> None:
        """Run a SQL statement that returns no rows, such as CREATE TABLE.

        Unlike in `ask`, settings that the login (the database user) has changed stay in force.

        Raises: `EngineFailed` if ClickHouse raises an error.
        """
        with _failures("ClickHouse could not run the statement"):
            self._client.command(statement)

    def insert_json(self, table: str, columns: Sequence[str], lines: Sequence[str], token: str | None = None) -> None:
        """Insert rows into `table`, one for each JSON object in `lines`; return when the rows are stored.

        `columns` are the column names that the objects have. `token` makes a retry safe: ClickHouse ignores the
        insertion if rows with the same token were inserted before. None inserts the rows in any case.

        Raises: `EngineFailed` if ClickHouse raises an error.
        """
        # The settings of the login could ask for delayed insertions.
        settings = {"async_insert": "0", "insert_deduplicate": "1"}
        if token is not None:
            settings["insert_deduplication_token"] = token
        block = ("\n" + "\n".join(lines)).encode()
        with _failures("ClickHouse could not store the rows"):
            self._client.raw_insert(table, list(columns), block, settings=settings, fmt="JSONEachRow")

    def kill(self, comment: str) -> None:
        """Stop the running statements of this login (the database user) that were sent with the comment `comment`.

        The request goes over a new connection, because this one is waiting for the statement. Errors of ClickHouse are
        ignored.
        """
        with suppress(ClickHouseError), closing(open_client(self._url)) as client:
            client.query(_KILL, parameters={"comment": comment})

    def close(self) -> None:
        """Close the connection to ClickHouse."""
        self._client.close()


def open_client(url: str) -> Client:
    """Return the driver's client for clickhouse://user:password@host:port/database or chdb:///folder.

    If `url` names no user, the environment variable CLICKHOUSE_USER names it, or else it is `default`. If `url` names
    no password, it is the content of the file that CLICKHOUSE_PASSWORD_FILE names, or else CLICKHOUSE_PASSWORD.

    Raises: `InvalidParameter` for an address that cannot be used, `MissingExtra` if chdb is not installed.
    """
    return _connect_embedded(url) if url.startswith("chdb://") else _server(url)


def _server(url: str) -> Client:
    """Return the driver's client for a server's address `url`, such as clickhouse://user@host:8123/database.

    Raises: `InvalidParameter` for an address that cannot be parsed or has an unknown option.
    """
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
        autogenerate_session_id=False,  # statements of one session cannot run at the same time
        query_retries=0,
        send_receive_timeout=_DAY,
        client_name="setwise",
        **options,  # type: ignore[arg-type]
    )


def _password() -> str:
    """Return the password that environment variables state, or "" if none does.

    It is the content of the file that CLICKHOUSE_PASSWORD_FILE names, or else the value of CLICKHOUSE_PASSWORD.
    Raises: `EngineFailed` if the file cannot be read.
    """
    file = os.environ.get("CLICKHOUSE_PASSWORD_FILE")
    if file is None:
        return os.environ.get("CLICKHOUSE_PASSWORD", "")
    try:
        return Path(file).read_text().strip()
    except OSError:
        raise EngineFailed("the file of CLICKHOUSE_PASSWORD_FILE cannot be read") from None


def _connect_embedded(url: str) -> Client:
    """Return the driver's client for a chDB folder, a ClickHouse in this process; `url` is chdb:///folder.

    Raises: `InvalidParameter` if the folder does not exist (chDB would create an empty database), `MissingExtra` if
    chdb is not installed.
    """
    folder = Path(url.removeprefix("chdb://"))
    if not folder.is_dir():  # checked here, because chDB would create an empty database
        raise InvalidParameter(f"{folder} is no folder of a chDB database: give it as chdb:///path/to/folder")
    try:
        return clickhouse_connect.get_client(interface="chdb", path=str(folder))
    except ImportError:
        raise MissingExtra("a chDB folder needs chdb: pip install 'setwise[chdb]'") from None


_RELIED_ON = {
    "prefer_column_name_to_alias": "1",  # as in standard SQL: a user's column may have the name of one of our aliases
    "cast_keep_nullable": "1",  # as in standard SQL: null cast to another type is null
    "join_use_nulls": "1",  # as in standard SQL: columns of an outer join without a match are null
    "least_greatest_legacy_null_behavior": "0",  # exists only in some versions
    "precise_float_parsing": "1",
}
"""Settings that the statements rely on and that are not, or were not always, the default."""

_SET_TO_LOOK = {
    "compatibility": "",  # comes first, because it changes the defaults of other settings
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
"""Settings that could cut the list of changed settings short.

They are set for the statement that reads the list, so that list does not report them as changed.
"""

_LEFT_ALONE = ("database", "log_comment", "priority", "readonly", "role", "workload")
_LEFT_ALONE_PREFIXES = (
    *("cancel_http_", "connect_", "http_", "log_", "max_bytes_before_", "max_concurrent_", "max_execution_time"),
    *("max_memory_", "max_network_", "max_temporary_", "max_threads", "memory_", "queue_max_", "receive_", "send_"),
    "tcp_",
)
"""Beginnings of the names of settings that are not reset: limits on memory, time and threads, and the connection's."""

_LISTED = ", ".join(f"'{name}'" for name in _RELIED_ON)
_CHANGED = f"SELECT name, changed FROM system.settings WHERE changed OR name IN ({_LISTED}) SETTINGS " + ", ".join(
    f"{name} = '{value}'" for name, value in _SET_TO_LOOK.items()
)
"""Statement that lists the settings that this login has changed, and those that statements rely on."""


def _settings_clause(settings: Mapping[str, bool], log_comment: str) -> str:
    """Return the SQL SETTINGS clause that makes a statement's result independent of the login's settings.

    The login is the database user. The clause restores the default of every setting that the login has changed, except
    for limits on resources and settings of the connection. It also states the values of settings on which statements
    rely. `settings` maps the names of settings to True if the login changed them. ClickHouse stores `log_comment` with
    the statement, so that the statement can be found and stopped.
    """
    relied_on = {name: value for name, value in _RELIED_ON.items() if name in settings}
    chosen = {name: f"'{value}'" for name, value in {**_SET_TO_LOOK, **relied_on}.items()}
    for name, changed in sorted(settings.items()):
        if changed and name not in chosen and name not in _LEFT_ALONE and not name.startswith(_LEFT_ALONE_PREFIXES):
            chosen[name] = "DEFAULT"
    chosen["log_comment"] = f"'{log_comment}'"
    return "SETTINGS " + ", ".join(f"{name} = {value}" for name, value in chosen.items())


def _parameter_value(value: object) -> object:
    """Return a parameter in the form that the driver takes: booleans as "true" or "false", numbers as text.

    Values of other types are returned unchanged.
    """
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case _:
            return value


@contextmanager
def _failures(sentence: str) -> Iterator[None]:
    """Context manager that replaces the driver's errors by Setwise's own, which have fixed messages.

    The driver's messages quote rows, statements and addresses. A cancelled query and a missing privilege have messages
    of their own; `sentence` is the message for all other errors.

    Raises: `EngineFailed`, or `UnsuitableTable` for a login (a database user) that may not change settings.
    """
    try:
        yield
    except (ClickHouseError, UnicodeError) as error:
        match getattr(error, "code", None):
            case int(code) if code == _CANCELLED:
                raise EngineFailed(CANCELLED) from None
            case int(code) if code == _DENIED:
                raise EngineFailed("ClickHouse does not let this login read the table") from None
            case int(code) if code in (_READ_ONLY, _CONSTRAINED):
                raise UnsuitableTable(
                    "this ClickHouse login may not change settings, so that its profile could change answers: "
                    "give it readonly = 2, and no constraints on settings"
                ) from None
            case _:
                raise EngineFailed(sentence) from None
