"""How a replica runs: where its stores are and where its limits lie."""

import math
from dataclasses import dataclass, field, fields
from pathlib import Path

from setwise.errors import InvalidParameter


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a replica needs to know. Addresses may carry passwords and are kept out of `repr`.

    >>> Settings(ledger="setwise.db").workers
    2
    """

    ledger: str = field(default="setwise.db", repr=False)
    """The database of the ledger and of the service's own tables: a file or postgresql://..."""
    data_dir: Path = Path()
    """The folder below which tables for DuckDB are found; nothing outside can be registered."""
    engines: tuple[str, ...] = field(default=("duckdb",), repr=False)
    """duckdb, spark or spark://..., postgresql://...: where registered tables may live."""
    workers: int = 2
    """Queries that run at once; others wait."""
    memory: str | None = None
    """DuckDB's memory for each query, as in 4GiB; by default most of the machine's."""
    waiting: int = 64
    """Queries that may wait; more are turned away."""
    quick_seconds: float = 2.0
    """How long a request waits for its answer before it is told where to poll."""
    query_seconds: float = 300.0
    """How long a query may run before it is cancelled."""
    answer_step: float = 0.25
    """Answers leave at this many seconds times a power of two after they were asked."""
    calculator_seconds: float = 10.0
    """How long a calculation or a plan may take before it is stopped."""
    calculators: int = 2
    """Processes for calculations, and as many for plans."""
    body_bytes: int = 1 << 20
    """The largest body of a request."""
    body_seconds: float = 30.0
    """How long a body may take to arrive."""
    requests_per_second: float = 50.0
    """What a person may keep up, per replica."""
    burst: int = 100
    """What a person may ask at once, per replica."""
    token_cache_seconds: float = 2.0
    """How long another replica's revocation of a token may go unnoticed."""
    heartbeat_seconds: float = 1.0
    """How often a replica says that its queries are alive; after ten of these they may be taken over."""
    session_hours: float = 12.0
    """How long a browser stays signed in."""
    secure_cookies: bool = False
    """Whether cookies are for TLS only; set it behind a TLS proxy."""

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, bool) or not isinstance(value, int | float):
                continue
            least = 0.0 if each.name in {"answer_step", "token_cache_seconds", "quick_seconds"} else math.ulp(0.0)
            if not (math.isfinite(value) and value >= least):
                raise InvalidParameter(f"{each.name} must be positive, not {value!r}")
        if not self.engines:
            raise InvalidParameter("engines must name at least one of duckdb, spark, postgresql://...")
        for engine in self.engines:
            if engine != "duckdb" and not engine.startswith(("spark", "local", "postgresql://", "postgres://")):
                raise InvalidParameter(f"engine must be duckdb, spark, spark://... or postgresql://..., not {engine!r}")
