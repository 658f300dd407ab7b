"""The span of a client's request, in OpenTelemetry's conventions for generative AI (gen_ai.*)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from dspark.errors import DSparkError
from dspark.gateway.client_request import ChatPrompt, ClientRequest, TextPrompt
from dspark.gateway.generation_events import Completed, Event
from dspark.gateway.text_assembly import TextChunk
from dspark.gateway.token_source import GenerationRequest
from dspark.sampling import FinishReason
from dspark.telemetry import current, tracing
from dspark.telemetry.recorder import Carrier, OpenSpan
from dspark.telemetry.span import SpanKind

SCOPE = "dspark.gateway"
CHAT = "chat"
TEXT = "text_completion"
_CLIENT_GONE = "client_disconnect"


class RequestTrace:
    """Fills the span as the request goes on; values of zero are values."""

    def __init__(self, span: OpenSpan, operation: str, model: str, keeps_content: bool) -> None:
        self._span = span
        self._start = time.perf_counter()
        self._has_chunk = False
        self._texts: list[str] | None = [] if keeps_content else None
        span.attributes |= {
            "gen_ai.operation.name": operation,
            "gen_ai.provider.name": "dspark",
            "gen_ai.request.model": model,
        }

    def asked(self, client: ClientRequest, is_stream: bool) -> None:
        """What the client sent is well formed."""
        attributes = self._span.attributes
        attributes["gen_ai.request.stream"] = is_stream
        attributes["dspark.request.id"] = client.request_id
        if client.stop_strings and self._texts is not None:
            attributes["gen_ai.request.stop_sequences"] = client.stop_strings
        if self._texts is not None:
            attributes["gen_ai.input.messages"] = json.dumps(_messages(client))

    def admitted(self, request: GenerationRequest) -> None:
        """Every limit is kept and every default applied."""
        sampling = request.sampling
        self._span.attributes |= {
            "gen_ai.request.max_tokens": sampling.max_tokens,
            "gen_ai.request.temperature": sampling.temperature,
            "gen_ai.request.top_p": sampling.top_p,
            "gen_ai.request.top_k": sampling.top_k,
            # OTLP has signed integers only; a seed that is none of them is text.
            "gen_ai.request.seed": sampling.seed if sampling.seed < 2**63 else str(sampling.seed),
            "gen_ai.usage.input_tokens": len(request.prompt_token_ids),
            "dspark.request.speculation": request.speculation.enabled,
        }

    def note(self, event: Event) -> None:
        """What goes to the client."""
        match event:
            case TextChunk():
                if not self._has_chunk:
                    self._has_chunk = True
                    waited_s = time.perf_counter() - self._start
                    self._span.attributes["gen_ai.response.time_to_first_chunk"] = waited_s
                if self._texts is not None:
                    self._texts.append(event.text)
            case Completed():
                self._completed(event)
            case _:
                pass

    def choices(self, count: int) -> None:
        """So many answers were asked for; the span tells of the first."""
        self._span.attributes["gen_ai.request.choice.count"] = count

    def ended(self, reason: FinishReason) -> None:
        """The request is over, for whatever reason."""
        self._span.attributes.setdefault("gen_ai.response.finish_reasons", (reason.value,))
        if reason is FinishReason.ABORT:
            self._span.attributes["error.type"] = _CLIENT_GONE

    def failed(self, error_type: str, message: str = "") -> None:
        """The first failure counts: later ones follow from it."""
        if self._span.error is None:
            self._span.attributes["error.type"] = error_type
            self._span.error = message

    def _completed(self, end: Completed) -> None:
        attributes = self._span.attributes
        attributes |= {
            "gen_ai.response.id": str(attributes.get("dspark.request.id", "")),
            "gen_ai.response.model": attributes["gen_ai.request.model"],
            "gen_ai.response.finish_reasons": (end.finish_reason.value,),
            "gen_ai.usage.input_tokens": end.usage.prompt_tokens,
            "gen_ai.usage.output_tokens": end.usage.completion_tokens,
            "gen_ai.usage.cache_read.input_tokens": end.usage.cached_tokens,
        }
        if end.speculation is not None:
            attributes |= {
                "dspark.speculation.rounds": end.speculation.rounds,
                "dspark.speculation.drafted": end.speculation.drafted,
                "dspark.speculation.accepted": end.speculation.accepted,
            }
        if self._texts is not None:
            parts = [{"type": "text", "content": "".join(self._texts)}]
            message = {
                "role": "assistant",
                "parts": parts,
                "finish_reason": end.finish_reason.value,
            }
            attributes["gen_ai.output.messages"] = json.dumps([message])


_trace: ContextVar[RequestTrace | None] = ContextVar("request_trace", default=None)


def current_trace() -> RequestTrace | None:
    """That of the request which the running task serves; None if it is not sampled."""
    return _trace.get()


def leave_trace() -> None:
    """What the running task does from here on is not told by the span."""
    _trace.set(None)


def note_failure(error: Exception) -> None:
    """The running task's request ends with this error."""
    if (trace := _trace.get()) is not None:
        if isinstance(error, DSparkError):
            trace.failed(error.reason, error.message)
        else:
            trace.failed(type(error).__name__)


@contextmanager
def traced(operation: str, model: str, carrier: Carrier) -> Iterator[None]:
    """Around all that a task does for one request, whose caller sent ``carrier``."""
    recorder = tracing.active()
    if recorder is None:
        yield
        return
    span = recorder.open(SCOPE, f"{operation} {model}", SpanKind.SERVER, carrier)
    current.span.set(span)
    # Also None: a pipelined request inherits what was set for the one before it.
    _trace.set(
        RequestTrace(span, operation, model, recorder.captures_content) if span.is_sampled else None
    )
    try:
        yield
    except Exception as error:
        note_failure(error)
        raise
    finally:
        span.end()


def _messages(client: ClientRequest) -> list[dict[str, object]]:
    """The prompt in the form of ``gen_ai.input.messages``."""
    match client.prompt:
        case ChatPrompt(messages):
            texts = [(message.role, message.content or "") for message in messages]
        case TextPrompt(text):
            texts = [("user", text)]
        case _:
            texts = []
    return [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in texts]
