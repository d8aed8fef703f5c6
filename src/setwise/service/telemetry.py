"""Logs, Prometheus metrics and OpenTelemetry traces of a replica, for its operator.

None of them shows what was asked or answered, or by whom: no counts, filters, group labels, tokens or names of people.
A route is named by its declared pattern, not by its URL. A measured time that would depend on private data is padded.
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
"""The media type of the texts that `Metrics` returns."""

_log = logging.getLogger("setwise.service")
_request: ContextVar[str] = ContextVar("request", default="")
_GIVEN = re.compile(rb"[A-Za-z0-9._-]{1,64}")
_MEASURED = ("method", "route", "status", "seconds")


def configure(log_format: LogFormat) -> None:
    """Configure the service's log, which goes to standard error.

    With the `log_format` "text" the log has warnings and errors only. With "json" every record is a line of JSON, and
    each request has a line too.
    """
    handler = logging.StreamHandler()
    handler.setFormatter(_Json() if log_format == "json" else logging.Formatter("%(levelname)s: %(message)s"))
    _log.handlers = [handler]
    _log.propagate = False
    _log.setLevel(logging.INFO if log_format == "json" else logging.WARNING)


def log_request(method: str, route: str, status: int, seconds: float) -> None:
    """Log a request with the HTTP `method` to `route` that got the HTTP `status` after `seconds` seconds.

    If the request read private data, its response was delayed to one of a few fixed times. So `seconds` does not reveal
    how long the data was read.
    """
    measured = {"method": method, "route": route, "status": status, "seconds": round(seconds, 6)}
    _log.info("request", extra=measured)


class RequestIds:
    """ASGI middleware that gives every request an id, which is in its log lines and in its response.

    The id is taken from the request's header X-Request-Id if the header is a plain word and does not look like a token.
    Otherwise the id is random.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Give the request an id and pass it on to the application; log lines and the response carry the id.

        The arguments are as in every ASGI application: `scope` has the request's metadata, and the functions `receive`
        and `send` receive its body and send the response.
        """
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        header = dict(scope["headers"]).get(HEADER.lower().encode(), b"")
        id_ = (
            header.decode() if _GIVEN.fullmatch(header) and not header.startswith(b"setwise_") else secrets.token_hex(8)
        )
        _request.set(id_)

        async def sending(message: Message) -> None:
            """Send `message`, a part of the response; the first part gets the request's id among its headers.

            The ASGI function `send`, an argument of the function around this one, sends the message; `id_`, a variable
            of that function, is the id.
            """
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[HEADER] = id_
            await send(message)

        await self._app(scope, receive, sending)


class _Json(logging.Formatter):
    """Formats a log record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return a log record as one line of JSON: time, level, message, request id, and a request's measurements."""
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            "request": _request.get() or None,
        }
        return json.dumps(line | {name: getattr(record, name) for name in _MEASURED if hasattr(record, name)})


_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Upper ends of the histogram's buckets, in seconds; the times of answers are padded before they are measured."""

disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """Prometheus counters and gauges of one replica (process of the service) since it started.

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
        self._cap_left = by_dataset("setwise_cap_left_ratio", "What is left of the cap of a dataset.")
        self._lowest_left = by_dataset(
            "setwise_account_left_ratio_lowest", "What is left of the open account on a dataset with the least."
        )
        states = ("dataset", "state")
        self._accounts = Gauge("setwise_accounts", "Accounts on a dataset, by state.", states, registry=budget)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one request by its HTTP `method`, `route` and HTTP `status`, and record its duration in `seconds`."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def query(self, outcome: str) -> None:
        """Count a query that ended with `outcome`: done, failed, cancelled or refused."""
        self._queries.labels(outcome).inc()

    def audited(self, faults: int, at: float) -> None:
        """Record the result of a verification of the ledger at the time `at`, in seconds since 1970.

        `faults` is the number of faults that it found. If there are none, `at` is also recorded as the time of the last
        verification without faults.
        """
        self._faults.set(faults)
        if not faults:
            self._verified.set(at)

    def budget(self, caps: Mapping[str, float], accounts: Iterable[tuple[str, str, float]], at: float) -> None:
        """Set the gauges of remaining budgets and of the number of accounts, for each dataset.

        A remaining budget is a share from 0 (spent) to 1 (unspent).

        - `caps` maps each dataset to the remaining share of its cap, the joint budget of its accounts
        - `accounts` has for each account its dataset, its state and its remaining share. The gauge of a dataset shows
          the lowest share of an open account, which is the account that runs out first
        - `at` is the time, in seconds since 1970
        """
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
        """Return all metrics but those of budgets, in the text format of Prometheus.

        Everybody who is signed in may read these. The metrics of budgets, which `text_of_budgets` returns, are for
        stewards and monitors only.
        """
        return generate_latest(self._registry).decode()

    def text_of_budgets(self) -> str:
        """Return the metrics of budgets in the text format of Prometheus, for stewards and monitors only.

        Nobody else may see them, because they depend on private data: a charge refunds what its answer did not need,
        how much that is depends on the private rows, and remaining budgets show it.
        """
        return generate_latest(self._budget).decode()


_tracer = trace.get_tracer("setwise.service")


@contextmanager
def request_span(method: str, route: str, headers: Mapping[str, str]) -> Iterator[trace.Span]:
    """Context manager that opens the trace span of a request with the HTTP `method` to `route`.

    If the request's `headers` name a span of the caller, the new span is a child of that span.
    """
    attributes = {"http.request.method": method, "http.route": route}
    with _tracer.start_as_current_span(
        f"{method} {route}",
        context=propagate.extract(headers),
        kind=trace.SpanKind.SERVER,
        attributes=attributes,
        record_exception=False,  # the message of an exception may contain private data
    ) as span:
        yield span


@contextmanager
def stage_span(name: str) -> Iterator[None]:
    """Context manager that opens the trace span `name` of one stage of a query, such as "plan".

    The new span is a child of the span that is open at the time, for example of the request's span.
    """
    with _tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False):
        yield
