"""Counters and gauges for Prometheus; nothing in them comes from data or names a person."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE

__all__ = ["CONTENT_TYPE", "Metrics"]

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
        kept = self._registry = CollectorRegistry()
        self._requests = Counter("setwise_requests", "Requests answered.", ("method", "route", "status"), registry=kept)
        self._seconds = Histogram(
            "setwise_request_seconds",
            "Time from request to answer.",
            ("method", "route"),
            buckets=_BUCKETS,
            registry=kept,
        )
        self._queries = Counter("setwise_queries", "Queries ended, by outcome.", ("outcome",), registry=kept)
        self.running = Gauge("setwise_queries_running", "Queries being planned, waiting or running.", registry=kept)
        self.reading = Gauge("setwise_queries_reading", "Queries that have their turn to read.", registry=kept)
        self.calculating = Gauge("setwise_calculations", "Calculations and plans waiting or running.", registry=kept)
        self.verified = Gauge(
            "setwise_ledger_verified_seconds",
            "When an audit last found no fault, in seconds since 1970.",
            registry=kept,
        )

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def query(self, outcome: str) -> None:
        """Count a query that ended in the given way."""
        self._queries.labels(outcome).inc()

    def text(self) -> str:
        """Return everything in the text format of Prometheus."""
        return generate_latest(self._registry).decode()
