"""The settings of a replica, with their defaults: timeouts, limits, pool sizes, intervals, lifetimes, sign-on.

Each setting is an environment variable, and many are also options of `setwise serve`. The comments of `Settings` name
the modules that enforce the limits.
"""

from enum import StrEnum
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from setwise.analytics.engines.object_store import is_stored, split_address
from setwise.analytics.engines.registry import engine_type
from setwise.errors import InvalidParameter
from setwise.service.telemetry import LogFormat

PREFIX = "SETWISE_"
"""The environment variable of a field is its name in capitals after this prefix."""

Seconds = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
SecondsOrZero = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class EngineKind(StrEnum):
    """The kinds of engines (systems that read tables, such as DuckDB); the operator chooses some of them."""

    DUCKDB = "duckdb"
    SPARK = "spark"
    POSTGRESQL = "postgresql"
    CLICKHOUSE = "clickhouse"

    @staticmethod
    def of(address: str) -> "EngineKind | None":
        """Return the kind of the engine (system that reads tables) at the URL or name `address`.

        Returns None if it is of no known kind.

        >>> EngineKind.of("chdb:///data")
        <EngineKind.CLICKHOUSE: 'clickhouse'>
        """
        known = engine_type(address)
        return None if known is None else EngineKind(known.name)


def is_safe_address(address: object) -> bool:
    """Return whether `address` is a URL that uses TLS, or plain HTTP to this machine.

    >>> is_safe_address("https://id.example"), is_safe_address("http://id.example"), is_safe_address("http://[::1]:9")
    (True, False, True)
    """
    if not isinstance(address, str):
        return False
    parts = urlsplit(address)
    local = parts.scheme == "http" and parts.hostname in {"127.0.0.1", "::1", "localhost"}
    return bool(parts.hostname) and (parts.scheme == "https" or local)


class Settings(BaseSettings):
    """The settings with which a process of the service is started; the `description` of each field says what it is.

    A setting that is not given is read from its environment variable, or else has its default. Addresses may contain
    passwords and are kept out of `repr`.

    Raises `InvalidParameter` for a wrong value.

    >>> Settings(ledger="setwise.db").workers
    2
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    host: str = Field("127.0.0.1", description="the address to listen on; put a TLS proxy before any other than this")
    port: int = Field(8000, ge=0, le=65535, description="the port to listen on")
    trusted_proxy: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="the address or network of a TLS proxy, whose `X-Forwarded-Proto` and `X-Forwarded-For` are "
        "believed; the option may be repeated, the variable separates by spaces",
    )
    ledger: str = Field(
        "setwise.db",
        repr=False,
        description="the database of the ledger and of the service's own tables: a SQLite file, or `postgresql://...` "
        "for several replicas",
    )
    log: LogFormat = Field(
        "text", description="`text` for warnings and errors alone, `json` for a line for every request with its id"
    )
    data_dir: Path = Field(
        Path(), description="the folder of the tables that DuckDB may read; nothing outside it can be registered"
    )
    store: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="a prefix of an object store, `s3://BUCKET/FOLDER`, under which tables that DuckDB reads may be "
        "registered; credentials and endpoint come from the AWS_ variables of the environment; the option may be "
        "repeated, the variable separates by spaces",
    )
    live_dir: Path | None = Field(
        None,
        description="the folder for the private state of live series on files, for its owner alone; replicas share it. "
        "Series on PostgreSQL, ClickHouse and Spark keep their state there and do not need it",
    )
    engine: Annotated[tuple[str, ...], NoDecode] = Field(
        ("duckdb",),
        min_length=1,
        repr=False,
        description="where tables may live: `duckdb`, `spark`, `spark://...`, `postgresql://...`, `clickhouse://...`, "
        "`chdb:///folder`; the option may be repeated, the variable separates by spaces",
    )
    # Enforced in slots.py (who gets a slot next) and queries/engine_pool.py (the engines).
    workers: Count = Field(2, description="queries and updates of live series that read tables at once; others wait")
    memory: str | None = Field(
        None, description="DuckDB's memory for each query, as in `4GiB`; by default most of the machine's"
    )
    # Enforced in queries/runner.py: admission, the deadline (`beat` stops overdue queries), polling, and padding.
    waiting: Count = Field(
        64,
        description="queries that may be planned, wait or run, half of them of one person; others get 429",
    )
    query_seconds: Seconds = Field(
        300.0, description="timeout of a query: how long it may read tables before its deadline, when it is cancelled"
    )
    wait_seconds: SecondsOrZero = Field(
        2.0, description="how long a request waits for its answer before it is told where to poll"
    )
    answer_step: SecondsOrZero = Field(
        0.1,
        description="answers leave at this many seconds times a power of two after they were asked; 0 pads nothing",
    )
    # Enforced in workers/pool.py.
    calculator_seconds: Seconds = Field(10.0, description="timeout of a calculation or a plan")
    calculator_megabytes: Annotated[int, Field(ge=64)] = Field(
        512, description="memory limit of a calculation or a plan, in its process, in MiB"
    )
    calculators: Count = Field(
        2, description="worker processes for calculations, as many for plans, and as many for large answers"
    )
    # Enforced in server.py (connections and their timeouts) and route.py (the body).
    connections: Count | None = Field(
        None, description="connections at once; by default as many as the limit on open files leaves room for"
    )
    header_seconds: Seconds = Field(10.0, description="timeout for the headers of a request to arrive")
    idle_seconds: Seconds = Field(
        30.0, description="keep-alive timeout: how long a connection is kept open between requests"
    )
    body_bytes: Count = Field(1 << 20, description="the largest body of a request, in bytes; larger ones get 413")
    body_seconds: Seconds = Field(30.0, description="timeout for the body of a request to arrive")
    # Enforced in auth/rate_limit.py.
    requests_per_second: Seconds = Field(
        50.0, description="rate limit: requests per second that each person may keep up, per replica; others get 429"
    )
    burst: Count | None = Field(
        None, description="rate limit: requests that each person may make at once; by default two seconds' worth"
    )
    # Enforced in auth/authenticator.py.
    token_cache_seconds: SecondsOrZero = Field(
        2.0, description="how long another replica's revocation of a token may go unnoticed"
    )
    # Written in queries/runner.py, judged in queries/jobs.py.
    heartbeat_seconds: Seconds = Field(
        1.0, description="how often a replica says that its queries are alive; after ten times this others take them up"
    )
    # Enforced in auth/people.py.
    token_days: Seconds = Field(
        90.0, description="lifetime of a token: when it expires, if it is made without a date of its own"
    )
    session_hours: Seconds = Field(12.0, description="lifetime of a browser session, after which one signs in again")
    # Scheduled in upkeep.py.
    query_days: Seconds | None = Field(
        None,
        description="how long rows of queries that have ended are kept; charges and answers stay in the ledger",
    )
    head_key: Path | None = Field(
        None, description="a file with the key that heads of the ledger are signed with, kept outside the database"
    )
    head_file: Path | None = Field(
        None,
        description="the file outside the database that keeps the last signed head; by default the key's name with "
        "`.head`. A ledger that no longer has this head is not signed",
    )
    head_hours: Seconds = Field(24.0, description="how often a head is signed, when there is a key")
    verify_hours: Seconds | None = Field(
        None, description="how often this replica verifies the whole ledger; one of several replicas is enough"
    )
    secure_cookies: bool = Field(
        False, description="send cookies over TLS only, and tell browsers so; set it behind a TLS proxy"
    )

    postgres: str = Field(
        "",
        description="also speak PostgreSQL's protocol at this `HOST:PORT`, for psql, JDBC and BI tools; passwords are "
        "taken over TLS only, except from this machine",
    )
    postgres_certificate: Path | None = Field(
        None, description="the certificate of PostgreSQL's protocol, in PEM form; with `postgres_key` it turns on TLS"
    )
    postgres_key: Path | None = Field(None, description="the private key of that certificate, in PEM form")
    postgres_connections: Count = Field(200, description="connections of PostgreSQL's protocol at once")
    postgres_idle_seconds: Seconds = Field(3600.0, description="idle timeout of a connection of PostgreSQL's protocol")

    public_url: str = Field("", description="the address of this service as browsers see it; needed for single sign-on")
    oidc_client_id: str = Field("", description="what the provider of single sign-on calls this service")
    oidc_client_secret: SecretStr | None = Field(
        None, description="the secret that the provider has given this service; none for a public client"
    )
    oidc_roles: dict[str, Literal["steward", "analyst", "monitor"]] = Field(
        {},
        description="the role of each group, steward, analyst or monitor, as JSON: "
        '`{"data-office": "steward", "research": "analyst"}`',
    )
    oidc_groups_claim: str = Field("groups", min_length=1, description="the claim that lists a person's groups")
    oidc_name_claim: str = Field(
        "preferred_username", min_length=1, description="the claim from which a person's name here is made"
    )
    oidc_scopes: Annotated[tuple[str, ...], NoDecode] = Field(
        ("openid", "profile"), description="what is asked of the provider; the variable separates by spaces"
    )
    oidc_issuer: str | None = Field(
        None,
        description="an OpenID Connect provider, by what it calls itself, to the letter; turns on single sign-on",
    )

    def __init__(self, **values: Any) -> None:  # noqa: ANN401 - checked by the fields
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            name, says = str(first["loc"][0]), first["msg"].removeprefix("Value error, ")
            raise InvalidParameter(f"{name} (or {PREFIX}{name.upper()}): {says[:1].lower()}{says[1:]}") from None

    @property
    def requests_at_once(self) -> int:
        """The number of requests that each person may send to this process of the service in one burst."""
        return self.burst or max(1, round(2 * self.requests_per_second))

    @field_validator("engine", "store", "trusted_proxy", "oidc_scopes", mode="before")
    @classmethod
    def _split_at_spaces(cls, value: object) -> object:
        """Return `value`, given for a setting that may have several values, as a tuple if it is a text.

        A text, as from an environment variable, is split at spaces; any other value is returned unchanged.
        """
        return tuple(value.split()) if isinstance(value, str) else value

    @field_validator("store")
    @classmethod
    def _check_stores(cls, prefixes: tuple[str, ...]) -> tuple[str, ...]:
        for prefix in prefixes:
            if not is_stored(prefix):
                raise ValueError("a prefix of an object store begins with s3://")
            try:
                split_address(prefix)
            except InvalidParameter as error:  # its sentence does not quote the prefix, which may hold a password
                raise ValueError(str(error)) from None
        return prefixes

    @field_validator("trusted_proxy")
    @classmethod
    def _check_proxies(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        """Return the trusted proxies if each is an IP address or network; raise `ValueError` otherwise."""
        for proxy in proxies:
            try:
                ip_network(proxy)
            except ValueError:
                raise ValueError(f"a trusted proxy is an address or a network, as in 10.0.0.2, not {proxy!r}") from None
        return proxies

    @field_validator("oidc_issuer")
    @classmethod
    def _check_sign_on(cls, issuer: str | None, info: ValidationInfo) -> str | None:
        """Return `issuer`, the URL of the single sign-on provider, after checking the settings that sign-on also needs.

        `info` has the settings that were validated before. Raises `ValueError` if one of the needed settings is
        missing, or if an address does not use TLS. An `issuer` of None stays None and means that there is no single
        sign-on.
        """
        if issuer is None:
            return None
        if lacking := [name for name in ("public_url", "oidc_client_id", "oidc_roles") if not info.data.get(name)]:
            raise ValueError(f"single sign-on needs {', '.join(lacking)} too")
        if "openid" not in info.data["oidc_scopes"]:
            raise ValueError("oidc_scopes must have openid among them")
        for address in (issuer, info.data["public_url"]):
            if not is_safe_address(address):
                raise ValueError("a provider and public_url begin with https://, or http:// on this machine alone")
        return issuer

    @field_validator("engine")
    @classmethod
    def _check_engines(cls, engines: tuple[str, ...]) -> tuple[str, ...]:
        """Return `engines`, the URLs or names of systems that read tables, unchanged if each is of a known kind.

        Raises `ValueError` otherwise.
        """
        for engine in engines:
            if EngineKind.of(engine) is None:
                kind = engine.partition(":")[0]
                raise ValueError(
                    f"engine must be duckdb, spark, spark://..., postgresql://... or clickhouse://..., not {kind!r}"
                )
        return engines
