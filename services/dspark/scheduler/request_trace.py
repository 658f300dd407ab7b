"""The spans of a sampled request in the scheduler: itself, and the phases it passes through."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dspark.errors import DSparkError
from dspark.telemetry import current, tracing
from dspark.telemetry.recorder import Carrier, OpenSpan, new_span_id
from dspark.telemetry.span import SpanIds, SpanKind
from dspark.telemetry.trace_context import to_traceparent

if TYPE_CHECKING:
    from dspark.scheduler.request import Request

SCOPE = "dspark.scheduler"
QUEUE, PREFILL, DECODE = "queue", "prefill", "decode"
# A longer request has no spans of its later steps: nobody looks at so many.
MAX_STEPS = 1024


class RequestTrace:
    """One phase at a time; steps are children of the phase they belong to."""

    def __init__(self, span: OpenSpan) -> None:
        self.span = span
        # names the step that is under way, for the calls that it makes
        self.step_traceparent = ""
        self._phase = QUEUE
        self._phase_id = new_span_id()
        self._since_ns = span.start_ns
        self._num_steps = 0
        self._num_untraced = 0

    def enter(self, phase: str, now_ns: int) -> None:
        """Leave the present phase for this one, if that is another."""
        if phase == self._phase:
            return
        self._close_phase(now_ns)
        self._phase, self._phase_id, self._since_ns = phase, new_span_id(), now_ns

    def preempted(self) -> None:
        self.span.event("preempted")
        self.enter(QUEUE, time.time_ns())

    def begin_step(self, may_trace: bool) -> tuple[SpanIds, int] | None:
        """Ids for the span of the step that begins, and its parent; None if there are enough."""
        if not may_trace or self._num_steps >= MAX_STEPS:
            self._num_untraced += 1
            self.step_traceparent = ""
            return None
        self._num_steps += 1
        ids = SpanIds(self.span.ids.trace_id, new_span_id())
        self.step_traceparent = to_traceparent(ids)
        return ids, self._phase_id

    def end(self, request: Request) -> None:
        """The call is over; only the first time counts."""
        if self.span.has_ended:
            return
        self._close_phase(time.time_ns())
        stats = request.stats
        self.span.attributes |= {
            "dspark.request.id": request.request_id,
            "dspark.prompt_tokens": request.num_prompt_tokens,
            "dspark.cached_tokens": request.num_cached_tokens or 0,
            "dspark.generated_tokens": request.num_generated_tokens,
            "dspark.speculation.rounds": stats.rounds,
            "dspark.speculation.drafted": stats.drafted,
            "dspark.speculation.accepted": stats.accepted,
            "dspark.steps.untraced": self._num_untraced,
        }
        for name, counts in stats.sources.items():
            self.span.attributes[f"dspark.source.{name}.drafted"] = counts.drafted
            self.span.attributes[f"dspark.source.{name}.accepted"] = counts.accepted
        self.span.end()

    def _close_phase(self, now_ns: int) -> None:
        self.span.child(self._phase, self._phase_id, self._since_ns, now_ns)


@contextmanager
def traced(carrier: Carrier, request: Request) -> Iterator[None]:
    """Around the stream of a request whose caller sent ``carrier``."""
    recorder = tracing.active()
    if recorder is None:
        yield
        return
    span = recorder.open(SCOPE, "generate", SpanKind.SERVER, carrier)
    current.span.set(span)
    if not span.is_sampled:
        yield
        return
    request.trace = RequestTrace(span)
    try:
        yield
    except DSparkError as error:
        span.attributes["error.type"] = error.reason
        span.error = error.message
        raise
    finally:
        request.trace.end(request)
