"""Traces by OpenTelemetry: a span for each request and each plan, recorded where the operator has set up an SDK.

A span has the declared route, the status and a time that is padded or does not depend on data; nothing that was asked.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from opentelemetry import propagate, trace

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
