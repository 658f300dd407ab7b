"""Spans as OTLP messages.

Filled in place, which takes a quarter of the time of the SDK's encoder; attributes that several
spans share are encoded once.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1 import trace_pb2 as pb
from opentelemetry.sdk.resources import Resource

from dspark.telemetry.span import Attributes, AttributeValue, Span

_SAMPLED = 1
# Encoding runs beside an event loop: every so many spans it lets go of the interpreter's lock.
SLICE = 8
_LET_GO_S = 50e-6


def encode(spans: Sequence[Span], resource: Resource) -> ExportTraceServiceRequest:
    """One message for a batch, grouped by scope."""
    request = ExportTraceServiceRequest()
    of_resource = request.resource_spans.add()
    _fill_attributes(of_resource.resource.attributes, cast(Attributes, resource.attributes))
    scopes: dict[str, pb.ScopeSpans] = {}
    shared: dict[int, pb.Span] = {}
    for number, span in enumerate(spans, start=1):
        scope = scopes.get(span.scope)
        if scope is None:
            scope = scopes[span.scope] = of_resource.scope_spans.add()
            scope.scope.name = span.scope
        _fill(scope.spans.add(), span, shared)
        if number % SLICE == 0:
            time.sleep(_LET_GO_S)
    return request


def _fill(message: Any, span: Span, shared: dict[int, pb.Span]) -> None:
    if span.shared:
        encoded = shared.get(id(span.shared))
        if encoded is None:
            encoded = shared[id(span.shared)] = pb.Span()
            _fill_attributes(encoded.attributes, span.shared)
        message.CopyFrom(encoded)
    _fill_attributes(message.attributes, span.attributes)
    message.trace_id = span.ids.trace_id.to_bytes(16)
    message.span_id = span.ids.span_id.to_bytes(8)
    if span.parent_id:
        message.parent_span_id = span.parent_id.to_bytes(8)
    message.name = span.name
    message.kind = span.kind.value
    message.start_time_unix_nano = span.start_ns
    message.end_time_unix_nano = span.end_ns
    message.flags = _SAMPLED
    if span.trace_state:
        message.trace_state = span.trace_state
    for ids in span.links:
        link = message.links.add()
        link.trace_id = ids.trace_id.to_bytes(16)
        link.span_id = ids.span_id.to_bytes(8)
        link.flags = _SAMPLED
    for event in span.events:
        entry = message.events.add(name=event.name, time_unix_nano=event.at_ns)
        _fill_attributes(entry.attributes, event.attributes)
    if span.error is not None:
        message.status.code = pb.Status.STATUS_CODE_ERROR
        message.status.message = span.error


def _fill_attributes(entries: Any, attributes: Attributes) -> None:
    for key, value in attributes.items():
        _fill_value(entries.add(key=key).value, value)


def _fill_value(message: Any, value: AttributeValue) -> None:
    if isinstance(value, bool):
        message.bool_value = value
    elif isinstance(value, str):
        message.string_value = value
    elif isinstance(value, int):
        message.int_value = value
    elif isinstance(value, float):
        message.double_value = value
    else:
        for item in value:
            message.array_value.values.add(string_value=item)
