"""Traces: a span for a request and for its plan, below the caller's own, with nothing of what was asked."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from opentelemetry import trace

from setwise.service import telemetry
from tests.service.team import TOP_3, Team, ask


class Kept(trace.NonRecordingSpan):
    def __init__(self, name: str, parent: trace.SpanContext, attributes: dict[str, object]) -> None:
        super().__init__(trace.SpanContext(7, 8, is_remote=False))
        self.name, self.parent, self.attributes = name, parent, dict(attributes)

    def set_attribute(self, key: str, value: object) -> None:
        self.attributes[key] = value


class Tracer:
    """Keeps every span that was opened."""

    def __init__(self) -> None:
        self.spans: list[Kept] = []

    @contextmanager
    def start_as_current_span(self, name: str, *, context=None, attributes=None, **others: object) -> Iterator[Kept]:
        parent = trace.get_current_span(context).get_span_context()
        self.spans.append(Kept(name, parent, attributes or {}))
        with trace.use_span(self.spans[-1]):
            yield self.spans[-1]


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> Tracer:
    found = Tracer()
    monkeypatch.setattr(telemetry, "_tracer", found)
    return found


def test_a_request_and_its_plan_are_spans_that_say_nothing_private(team: Team, tracer: Tracer):
    sent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    team.ada.headers["traceparent"] = sent
    filtered = {"query": {"kind": "count", "where": "country = 'NO'"}, "spend": TOP_3["spend"] | {"discover": None}}
    assert ask(team.ada, "traced", TOP_3 | filtered).status_code == 200
    assert team.ada.get("/accounts/bob-events").status_code == 404
    asked, plan, refused = tracer.spans
    assert asked.name == "POST /api/v1/queries"
    assert f"{asked.parent.trace_id:032x}" == sent.split("-")[1]
    assert (plan.name, plan.parent.span_id) == ("plan", 8)
    assert refused.attributes["http.response.status_code"] == 404
    assert refused.attributes["http.route"] == "/api/v1/accounts/{account}"
    told = repr([(span.name, span.attributes) for span in tracer.spans])
    assert not any(word in told for word in ("ada", "bob", "country", "NO'", team.ada_token))
