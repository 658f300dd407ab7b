"""The parts of OpenTelemetry that are used: sampler, resource, batching and exporters.

Spans themselves are ``dspark.telemetry.span.Span``: a step has several in each service, and those
of the SDK cost ten times as much. Imported only where traces are on.
"""

from __future__ import annotations

import logging
import os
import uuid
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NamedTuple, cast

from opentelemetry import propagate, trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import Decision

from dspark.config import SettingError
from dspark.log_limiter import LogLimiter
from dspark.telemetry.exporters import Exporter, make_exporter
from dspark.telemetry.recorder import Carrier, Recorder, Sampled, Sampler
from dspark.telemetry.span import Span
from dspark.telemetry.trace_settings import TraceSettings

log = logging.getLogger(__name__)

# Small, so that encoding a batch does not keep a service's event loop waiting.
BATCH_SIZE = 128
QUEUE_SIZE = 2048


class Ending(NamedTuple):
    """``send_rest`` sends the spans that wait and may take long, ``give_up`` cuts that short."""

    send_rest: Callable[[], None]
    give_up: Callable[[], None]


class _Queued:
    """A span in the SDK's queue, which looks only at whether it is sampled."""

    __slots__ = ("span",)
    context = trace.SpanContext(1, 1, False, trace.TraceFlags(trace.TraceFlags.SAMPLED))

    def __init__(self, span: Span) -> None:
        self.span = span


class _Backlog:
    """The exporter as the SDK's queue sees it; counts what waits, so that no more than fits does.

    The SDK would log each span that it drops, on the thread that must not wait.
    """

    def __init__(self, exporter: Exporter, size: int) -> None:
        self._exporter = exporter
        self._size = size
        self._num_queued = self._num_taken = self._num_dropped = 0
        self._limiter = LogLimiter()

    def has_room(self) -> bool:
        """Whether one more span fits; it is counted either way."""
        if self._num_queued - self._num_taken >= self._size:
            self._num_dropped += 1
            return False
        self._num_queued += 1
        return True

    def export(self, queued: list[_Queued]) -> None:
        self._num_taken += len(queued)
        self._exporter.export([each.span for each in queued])
        if self._num_dropped and self._limiter.is_due("dropped"):
            log.warning("%d spans were dropped: more came than could be sent", self._num_dropped)
            self._num_dropped = 0

    def shutdown(self) -> None:
        self._exporter.shutdown()


def make_recorder(settings: TraceSettings) -> tuple[Recorder, Ending]:
    """The recorder, and what ends it."""
    own = {
        "service.name": settings.service_name,
        "service.version": version("dspark"),
        "service.instance.id": uuid.uuid4().hex,
    }
    resource = Resource.create({name: value for name, value in own.items() if value})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    exporter = make_exporter(settings, resource)
    try:
        size = int(os.environ.get("OTEL_BSP_MAX_QUEUE_SIZE", QUEUE_SIZE))
        backlog = _Backlog(exporter, size - 1)
        processor = BatchSpanProcessor(
            cast(Any, backlog), max_queue_size=size, max_export_batch_size=_batch_size()
        )
    except ValueError as error:
        raise SettingError(f"OTEL_BSP_*: {error}") from error

    def record(span: Span) -> None:
        if backlog.has_room():
            processor.on_end(cast(ReadableSpan, _Queued(span)))

    sampler = _sampler_of(provider)
    ending = Ending(processor.shutdown, exporter.abandon)
    return Recorder(sampler, record, settings.captures_content), ending


def _batch_size() -> int | None:
    """None leaves it to the variable."""
    return None if "OTEL_BSP_MAX_EXPORT_BATCH_SIZE" in os.environ else BATCH_SIZE


def _sampler_of(provider: TracerProvider) -> Sampler:
    def sample(carrier: Carrier, name: str) -> Sampled:
        context = propagate.extract(carrier)
        parent = trace.get_current_span(context).get_span_context()
        trace_id = parent.trace_id if parent.is_valid else provider.id_generator.generate_trace_id()
        result = provider.sampler.should_sample(context, trace_id, name)
        return Sampled(
            is_sampled=result.decision is Decision.RECORD_AND_SAMPLE,
            trace_id=trace_id,
            parent_id=parent.span_id,
            trace_state=result.trace_state.to_header() if result.trace_state else "",
        )

    return sample
