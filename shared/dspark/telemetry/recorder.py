"""Starts spans where a request is sampled, and hands over those that are over."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from dspark.telemetry.span import Attributes, AttributeValue, Span, SpanEvent, SpanIds, SpanKind
from dspark.telemetry.trace_context import TRACEPARENT, TRACESTATE, to_traceparent

Carrier = Mapping[str, str]


class Sampled(NamedTuple):
    """The decision on a request: its trace, the caller's span (0: none), and what to pass on."""

    is_sampled: bool
    trace_id: int
    parent_id: int
    trace_state: str


Sampler = Callable[[Carrier, str], Sampled]


class OpenSpan:
    """The span of a request while it runs; of one that is not sampled only the ids are passed on.

    ``end`` counts once; ``attributes`` and ``events`` may be added to until then.
    """

    def __init__(
        self, recorder: Recorder, scope: str, name: str, kind: SpanKind, sampled: Sampled
    ) -> None:
        self.recorder = recorder
        self.name = name
        self.ids = SpanIds(sampled.trace_id, new_span_id())
        self.is_sampled = sampled.is_sampled
        self.start_ns = time.time_ns()
        self.attributes: dict[str, AttributeValue] = {}
        self.events: list[SpanEvent] = []
        self.error: str | None = None
        self._scope = scope
        self._kind = kind
        self._sampled = sampled
        self.has_ended = False

    @property
    def carrier(self) -> tuple[tuple[str, str], ...]:
        """The metadata that makes a call to another service part of this span's trace."""
        pairs = ((TRACEPARENT, to_traceparent(self.ids, self.is_sampled)),)
        state = self._sampled.trace_state
        return (*pairs, (TRACESTATE, state)) if state else pairs

    def event(self, name: str, attributes: Attributes | None = None) -> None:
        if self.is_sampled:
            self.events.append(SpanEvent(name, time.time_ns(), attributes or {}))

    def child(self, name: str, span_id: int, start_ns: int, end_ns: int) -> None:
        """Record a part of this span that is over."""
        ids = SpanIds(self.ids.trace_id, span_id)
        self.recorder.record(Span(self._scope, name, ids, self.ids.span_id, start_ns, end_ns, {}))

    def end(self) -> None:
        if self.has_ended or not self.is_sampled:
            return
        self.has_ended = True
        self.recorder.record(
            Span(
                scope=self._scope,
                name=self.name,
                ids=self.ids,
                parent_id=self._sampled.parent_id,
                start_ns=self.start_ns,
                end_ns=time.time_ns(),
                attributes=self.attributes,
                kind=self._kind,
                events=self.events,
                error=self.error,
                trace_state=self._sampled.trace_state,
            )
        )


class Recorder:
    """``record`` takes a span that is over: it costs a microsecond and never waits or raises."""

    def __init__(
        self, sampler: Sampler, record: Callable[[Span], None], captures_content: bool
    ) -> None:
        self.record = record
        self.captures_content = captures_content
        self._sampler = sampler

    def open(self, scope: str, name: str, kind: SpanKind, carrier: Carrier) -> OpenSpan:
        """Start the span of a request whose caller sent ``carrier``, such as HTTP headers."""
        return OpenSpan(self, scope, name, kind, self._sampler(carrier, name))


def new_span_id() -> int:
    return random.getrandbits(64) or 1
