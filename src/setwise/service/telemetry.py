"""What an operator sees of a replica: a log, metrics for Prometheus, and traces by OpenTelemetry.

None of them has a count, a filter, a label, a token, a person or a name from an address: routes are named as they are
declared. Times are padded before they are measured, or do not depend on data.
"""

import json
import logging
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from opentelemetry import propagate, trace
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LogFormat = Literal["text", "json"]
HEADER = "X-Request-Id"
METRICS_TYPE = CONTENT_TYPE_PLAIN_0_0_4
"""The media type of what `Metrics` returns."""

_log = logging.getLogger("setwise.service")
_request: ContextVar[str] = ContextVar("request", default="")
_GIVEN = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_MEASURED = ("method", "route", "status", "seconds")


def configure(log_format: LogFormat) -> None:
    """Send warnings and errors to standard error; with JSON, a line for every request too."""
    handler = logging.StreamHandler()
    handler.setFormatter(_Json() if log_format == "json" else logging.Formatter("%(levelname)s: %(message)s"))
    _log.handlers = [handler]
    _log.propagate = False
    _log.setLevel(logging.INFO if log_format == "json" else logging.WARNING)


def log_request(method: str, route: str, status: int, seconds: float) -> None:
    """Log a request that was answered; times of answers are padded before they are measured."""
    measured = {"method": method, "route": route, "status": status, "seconds": round(seconds, 6)}
    _log.info("request", extra=measured)


class RequestIds:
    """Gives every request an id, the caller's own if it is plain, which its log lines and its answer carry."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on under its id."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(HEADER.lower().encode(), b"")
        id_ = given.decode() if _GIVEN.fullmatch(given) and not given.startswith(b"setwise_") else secrets.token_hex(8)
        _request.set(id_)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = id_
            await send(message)

        await self._app(scope, receive, sending)


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            "request": _request.get() or None,
        }
        return json.dumps(line | {name: getattr(record, name) for name in _MEASURED if hasattr(record, name)})


_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Upper ends in seconds; the times of answers are padded before they are measured."""

disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """What one replica has done since it started, and what it is doing.

    >>> metrics = Metrics()
    >>> metrics.request("GET", "/api/v1/health", 200, 0.001)
    >>> 'setwise_requests_total{method="GET",route="/api/v1/health",status="200"} 1.0' in metrics.text()
    True
    """

    def __init__(self) -> None:
        kept, budget = self._registry, self._budget = CollectorRegistry(), CollectorRegistry()
        self._requests = Counter("setwise_requests", "Requests answered.", ("method", "route", "status"), registry=kept)
        self._seconds = Histogram(
            "setwise_request_seconds",
            "Time from request to answer.",
            ("method", "route"),
            buckets=_BUCKETS,
            registry=kept,
        )
        self._queries = Counter("setwise_queries", "Queries ended, by outcome.", ("outcome",), registry=kept)
        gauge = partial(Gauge, registry=kept)
        self.running = gauge("setwise_queries_running", "Queries being planned, waiting or running.")
        self.reading = gauge("setwise_queries_reading", "Queries that have their turn to read.")
        self.calculating = gauge("setwise_calculations", "Calculations and plans waiting or running.")
        self._verified = gauge(
            "setwise_ledger_verified_seconds", "When an audit last found no fault, in seconds since 1970."
        )
        self._faults = gauge("setwise_ledger_faults", "Faults that the last audit found.")
        self.signed = gauge("setwise_ledger_signed_seconds", "When a head was last signed, in seconds since 1970.")
        self.budget_at = float("-inf")
        by_dataset = partial(Gauge, labelnames=("dataset",), registry=budget)
        self._cap_left = by_dataset("setwise_cap_left_ratio", "What is left of the cap of a data set.")
        self._lowest_left = by_dataset(
            "setwise_account_left_ratio_lowest", "What is left of the open account on a data set with the least."
        )
        states = ("dataset", "state")
        self._accounts = Gauge("setwise_accounts", "Accounts on a data set, by state.", states, registry=budget)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def query(self, outcome: str) -> None:
        """Count a query that ended in the given way."""
        self._queries.labels(outcome).inc()

    def audited(self, faults: int, at: float) -> None:
        """Note what an audit found, and when."""
        self._faults.set(faults)
        if not faults:
            self._verified.set(at)

    def budget(self, caps: Mapping[str, float], accounts: Iterable[tuple[str, str, float]], at: float) -> None:
        """Note the shares left of caps by data set, and of accounts, each as data set, state and share, and when."""
        self.budget_at = at
        for gauge in (self._cap_left, self._accounts, self._lowest_left):
            gauge.clear()
        for dataset, share in caps.items():
            self._cap_left.labels(dataset).set(share)
        lowest: dict[str, float] = {}
        for dataset, state, share in accounts:
            self._accounts.labels(dataset, state).inc()
            if state == "open":
                lowest[dataset] = min(share, lowest.get(dataset, 1.0))
        for dataset, share in lowest.items():
            self._lowest_left.labels(dataset).set(share)

    def text(self) -> str:
        """Return everything but the budgets, in the text format of Prometheus."""
        return generate_latest(self._registry).decode()

    def text_of_budgets(self) -> str:
        """Return the budgets, which are for stewards: what comes back to an account depends on data."""
        return generate_latest(self._budget).decode()


_tracer = trace.get_tracer("setwise.service")


@contextmanager
def request_span(method: str, route: str, headers: Mapping[str, str]) -> Iterator[trace.Span]:
    """Open the span of a request, below the caller's if the headers name one."""
    attributes = {"http.request.method": method, "http.route": route}
    with _tracer.start_as_current_span(
        f"{method} {route}",
        context=propagate.extract(headers),
        kind=trace.SpanKind.SERVER,
        attributes=attributes,
        record_exception=False,  # its words may hold data
    ) as span:
        yield span


@contextmanager
def stage_span(name: str) -> Iterator[None]:
    """Open the span of a stage of a query, below that of its request."""
    with _tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False):
        yield
