"""Counters in the text format of Prometheus; nothing in them comes from data or names a person."""

from collections import Counter

BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0)
"""Upper ends, in seconds, of the histogram of request times (times of answers are padded before they are counted)."""

_Labels = tuple[tuple[str, str], ...]


class Metrics:
    """Counts of requests and queries of one replica since it started.

    >>> metrics = Metrics()
    >>> metrics.request("GET", "/api/v1/health", 200, 0.001)
    >>> 'setwise_requests_total{method="GET",route="/api/v1/health",status="200"} 1' in metrics.text()
    True
    """

    def __init__(self) -> None:
        self._requests: Counter[_Labels] = Counter()
        self._seconds: Counter[_Labels] = Counter()
        self._buckets: Counter[tuple[_Labels, int]] = Counter()
        self._queries: Counter[str] = Counter()

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        labels = (("method", method), ("route", route), ("status", str(status)))
        self._requests[labels] += 1
        place = labels[:2]
        self._seconds[place] += seconds  # type: ignore[assignment]  # a sum, kept beside the counts
        step = next((index for index, end in enumerate(BUCKETS) if seconds <= end), len(BUCKETS))
        self._buckets[place, step] += 1

    def query(self, outcome: str) -> None:
        """Count a query that ended in the given way."""
        self._queries[outcome] += 1

    def text(self) -> str:
        """Return everything in the exposition format."""
        lines = ["# HELP setwise_requests_total Requests answered.", "# TYPE setwise_requests_total counter"]
        lines += [
            f"setwise_requests_total{_written(labels)} {count}" for labels, count in sorted(self._requests.items())
        ]
        lines += [
            "# HELP setwise_request_seconds Time from request to answer.",
            "# TYPE setwise_request_seconds histogram",
        ]
        for place, total in sorted(self._seconds.items()):
            below = 0
            for step, end in enumerate((*map(str, BUCKETS), "+Inf")):
                below += self._buckets[place, step]
                lines.append(f"setwise_request_seconds_bucket{_written((*place, ('le', end)))} {below}")
            lines.append(f"setwise_request_seconds_sum{_written(place)} {total:.6f}")
            lines.append(f"setwise_request_seconds_count{_written(place)} {below}")
        lines += ["# HELP setwise_queries_total Queries ended, by outcome.", "# TYPE setwise_queries_total counter"]
        lines += [
            f"setwise_queries_total{_written((('outcome', name),))} {n}" for name, n in sorted(self._queries.items())
        ]
        return "\n".join(lines) + "\n"


def _written(labels: _Labels) -> str:
    return "{" + ",".join(f'{name}="{value}"' for name, value in labels) + "}"
