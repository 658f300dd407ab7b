"""Where spans go: an OTLP receiver by gRPC or HTTP, or the console."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as OtlpGrpc
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as OtlpHttp
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from dspark.telemetry.otlp_encoding import encode
from dspark.telemetry.span import Span, SpanIds, SpanKind
from dspark.telemetry.trace_settings import TraceSettings

log = logging.getLogger(__name__)
_SAMPLED = trace.TraceFlags(trace.TraceFlags.SAMPLED)
_KINDS = {
    SpanKind.INTERNAL: trace.SpanKind.INTERNAL,
    SpanKind.SERVER: trace.SpanKind.SERVER,
}


class Exporter(Protocol):
    """Sends batches of spans; a batch that cannot be sent is dropped."""

    def export(self, spans: Sequence[Span]) -> None: ...
    def abandon(self) -> None:
        """Give up what is being sent."""
        ...

    def shutdown(self) -> None: ...


def make_exporter(settings: TraceSettings, resource: Resource) -> Exporter:
    """The exporter that the settings name."""
    if settings.exporter == "console":
        return _Spoken(ConsoleSpanExporter(), _to_readable(resource), settings.endpoint)
    if settings.protocol == "grpc":
        return _Spoken(_FastOtlpGrpc(resource), list, settings.endpoint)
    return _Spoken(OtlpHttp(), _to_readable(resource), settings.endpoint)


class _FastOtlpGrpc(OtlpGrpc):
    """The SDK's exporter with ``otlp_encoding`` in the place of its own."""

    def __init__(self, resource: Resource) -> None:
        super().__init__()
        self._of = resource

    def _translate_data(self, data: Any) -> Any:
        return encode(data, self._of)


class _Spoken:
    """Says once that spans are lost, and once that they arrive again.

    The library would log each try; its last words are the reason that is given here.
    """

    def __init__(
        self, inner: SpanExporter, convert: Callable[[Sequence[Span]], list[Any]], endpoint: str
    ) -> None:
        self._inner = inner
        self._convert = convert
        self._endpoint = endpoint
        self._is_failing = False
        self._last_words = _LastWords()

    def export(self, spans: Sequence[Span]) -> None:
        result = self._inner.export(self._convert(spans))
        is_failing = result is not SpanExportResult.SUCCESS
        if is_failing and not self._is_failing:
            reason = self._last_words.text
            log.warning("spans are lost, %s does not take them: %s", self._endpoint, reason)
        elif self._is_failing and not is_failing:
            log.info("spans arrive at %s again", self._endpoint)
        self._is_failing = is_failing

    def abandon(self) -> None:
        self._inner.shutdown()

    def shutdown(self) -> None:
        self._inner.shutdown()
        self._last_words.close()


class _LastWords(logging.Handler):
    """Takes what OpenTelemetry logs away from the log, and remembers the last of it."""

    def __init__(self) -> None:
        super().__init__()
        self.text = "no reason given"
        self._logger = logging.getLogger("opentelemetry")
        self._logger.addHandler(self)
        self._logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        # That the end of the process cuts a try short is no reason for its failure.
        if "shutdown" not in (text := record.getMessage()).lower():
            self.text = text

    def close(self) -> None:
        self._logger.removeHandler(self)
        self._logger.propagate = True
        super().close()


def _to_readable(resource: Resource) -> Callable[[Sequence[Span]], list[Any]]:
    """Spans as the SDK's exporters know them."""
    scopes: dict[str, InstrumentationScope] = {}

    def convert(span: Span) -> ReadableSpan:
        state = trace.TraceState.from_header([span.trace_state]) if span.trace_state else None
        parent = SpanIds(span.ids.trace_id, span.parent_id)
        is_good = span.error is None
        code = trace.StatusCode.UNSET if is_good else trace.StatusCode.ERROR
        return ReadableSpan(
            span.name,
            _context(span.ids, state),
            _context(parent) if span.parent_id else None,
            resource,
            {**(span.shared or {}), **span.attributes},
            [Event(event.name, event.attributes, event.at_ns) for event in span.events],
            [trace.Link(_context(ids)) for ids in span.links],
            _KINDS[span.kind],
            status=trace.Status(code, span.error),
            start_time=span.start_ns,
            end_time=span.end_ns,
            instrumentation_scope=scopes.setdefault(span.scope, InstrumentationScope(span.scope)),
        )

    return lambda spans: [convert(span) for span in spans]


def _context(ids: SpanIds, state: trace.TraceState | None = None) -> trace.SpanContext:
    return trace.SpanContext(ids.trace_id, ids.span_id, True, _SAMPLED, state)
