"""Spans as they are recorded, linked and encoded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource

from dspark.telemetry import tracing
from dspark.telemetry.batched_call import MAX_OWN_SPANS, record_call
from dspark.telemetry.exporters import _to_readable
from dspark.telemetry.otlp_encoding import encode
from dspark.telemetry.recorder import OpenSpan, Recorder, Sampled
from dspark.telemetry.span import Span, SpanEvent, SpanIds, SpanKind
from dspark.telemetry.trace_context import to_traceparent
from harness.otlp_receiver import ReceivedSpan, spans_of

RESOURCE = Resource({"service.name": "s"})


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Span]]:
    """The process traces; what is recorded lands here."""
    spans: list[Span] = []
    recorder = Recorder(lambda carrier, name: Sampled(True, 7, 8, ""), spans.append, False)
    monkeypatch.setattr(tracing, "_recorder", recorder)
    yield spans


def call(parents: list[SpanIds]) -> None:
    traceparents = [to_traceparent(ids) for ids in parents]
    record_call("s", "verify", traceparents, 1, 2, {"rows": 3})


def test_each_request_gets_the_call_in_its_trace(recorded: list[Span]) -> None:
    parents = [SpanIds(trace, trace + 100) for trace in (1, 2, 3)]
    call(parents)
    assert [(span.ids.trace_id, span.parent_id) for span in recorded] == parents
    first, *others = (span.ids for span in recorded)
    assert list(recorded[0].links) == others
    assert [list(span.links) for span in recorded[1:]] == [[first], [first]]
    assert [span.shared for span in recorded] == [{"rows": 3}] * 3


def test_further_requests_are_linked_to(recorded: list[Span]) -> None:
    parents = [SpanIds(trace, trace) for trace in range(1, MAX_OWN_SPANS + 4)]
    call(parents)
    assert len(recorded) == MAX_OWN_SPANS
    assert list(recorded[0].links)[-3:] == parents[-3:]
    assert len(recorded[0].links) == len(parents) - 1


def test_garbage_from_the_wire_is_left_out(recorded: list[Span]) -> None:
    record_call("s", "verify", ["garbage", "", to_traceparent(SpanIds(1, 2))], 1, 2, {})
    assert [span.parent_id for span in recorded] == [2]
    record_call("s", "verify", ["garbage"], 1, 2, {})
    assert len(recorded) == 1


def test_nothing_is_recorded_where_traces_are_off() -> None:
    assert tracing.active() is None
    call([SpanIds(1, 2)])


def test_a_span_ends_once(recorded: list[Span]) -> None:
    recorder = tracing.active()
    assert recorder is not None
    span = recorder.open("s", "request", SpanKind.SERVER, {})
    span.end()
    span.end()
    assert [(each.ids.trace_id, each.parent_id) for each in recorded] == [(7, 8)]


def test_an_unsampled_span_passes_its_ids_on_and_is_not_recorded() -> None:
    spans: list[Span] = []
    recorder = Recorder(lambda carrier, name: Sampled(False, 7, 8, "k=v"), spans.append, False)
    span: OpenSpan = recorder.open("s", "request", SpanKind.SERVER, {})
    span.event("something")
    span.end()
    assert not spans and not span.events
    assert span.carrier == (
        ("traceparent", to_traceparent(span.ids, is_sampled=False)),
        ("tracestate", "k=v"),
    )


def sample_spans() -> list[Span]:
    shared = {"text": "ä", "flag": True, "count": 0, "share": 0.5, "many": ("a", "b")}
    own = {"own": 1}
    ids = [SpanIds(2**128 - 1, 2**64 - 1), SpanIds(1, 2), SpanIds(3, 4)]
    return [
        Span("one", "a", ids[0], 0, 10, 20, own, ids[1:], SpanKind.SERVER, shared=shared),
        Span(
            "two", "b", ids[1], 9, 11, 12, {}, events=[SpanEvent("e", 11, {"x": 1})], shared=shared
        ),
        Span("one", "c", ids[2], 9, 11, 12, {}, error="broken", trace_state="k=v"),
    ]


def test_the_encoding_is_that_of_opentelemetry() -> None:
    spans = sample_spans()
    ours = [*spans_of(encode(spans, RESOURCE))]
    theirs = [*spans_of(encode_spans(_to_readable(RESOURCE)(spans)))]

    def by_id(span: ReceivedSpan) -> str:
        return span.span_id

    assert sorted(ours, key=by_id) == sorted(theirs, key=by_id)
    assert {span.name: span.error for span in ours} == {"a": None, "b": None, "c": "broken"}
