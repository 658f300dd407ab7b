"""Text events as the objects of the OpenAI surface."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from dspark.gateway.event_stream import server_sent
from dspark.gateway.generation_events import Completed, Started
from dspark.gateway.openai_messages import message_delta, whole_message
from dspark.gateway.text_assembly import TextChunk
from dspark.sampling import Usage

DONE = server_sent("[DONE]")


@dataclass(frozen=True, slots=True)
class ResponseOptions:
    """What the client asked to see."""

    return_token_ids: bool = False
    include_usage: bool = False
    # of the request's class, if the client named one
    service_tier: str | None = None


class ResponseStyle(Protocol):
    """The words in which the two surfaces, completions and chat, differ."""

    id_prefix: str
    object_name: str
    chunk_object_name: str

    def opening_delta(self) -> dict[str, Any] | None:
        """What the first chunk of a stream says before any text."""
        ...

    def delta(self, chunk: TextChunk) -> dict[str, Any]: ...

    def whole(self, chunks: Sequence[TextChunk]) -> dict[str, Any]: ...


class CompletionStyle:
    """/v1/completions: plain text."""

    id_prefix = "cmpl-"
    object_name = "text_completion"
    chunk_object_name = "text_completion"

    def opening_delta(self) -> dict[str, Any] | None:
        return None

    def delta(self, chunk: TextChunk) -> dict[str, Any]:
        return {"text": chunk.text}

    def whole(self, chunks: Sequence[TextChunk]) -> dict[str, Any]:
        return {"text": "".join(chunk.text for chunk in chunks)}


class ChatStyle:
    """/v1/chat/completions: messages of the assistant."""

    id_prefix = "chatcmpl-"
    object_name = "chat.completion"
    chunk_object_name = "chat.completion.chunk"

    def opening_delta(self) -> dict[str, Any] | None:
        return {"delta": {"role": "assistant", "content": ""}}

    def delta(self, chunk: TextChunk) -> dict[str, Any]:
        return {"delta": message_delta(chunk)}

    def whole(self, chunks: Sequence[TextChunk]) -> dict[str, Any]:
        return {"message": whole_message(chunks)}


class ResponseWriter:
    """Writes the objects of one response."""

    def __init__(
        self, style: ResponseStyle, model: str, started: Started, options: ResponseOptions
    ) -> None:
        self._style = style
        self._started = started
        self._options = options
        self._envelope = {
            "id": style.id_prefix + started.request_id,
            "created": int(time.time()),
            "model": model,
        }
        if options.service_tier is not None:
            self._envelope["service_tier"] = options.service_tier

    def whole(
        self,
        chunks: Sequence[TextChunk],
        end: Completed,
        prompt_token_ids: Sequence[int],
    ) -> dict[str, Any]:
        """The response that is not streamed."""
        choice = self._choice(self._style.whole(chunks), end)
        extras: dict[str, Any] = {}
        if self._options.return_token_ids:
            choice["token_ids"] = [i for chunk in chunks for i in chunk.token_ids]
            extras["prompt_token_ids"] = list(prompt_token_ids)
        return {
            **self._envelope,
            "object": self._style.object_name,
            "choices": [choice],
            "usage": usage_object(end.usage, end.reasoning_tokens),
            **extras,
            **self._extensions(end),
        }

    def opening(self) -> bytes:
        """The first event of a stream; nothing where the style has none."""
        delta = self._style.opening_delta()
        return b"" if delta is None else self._event([self._choice(delta)])

    def chunk(self, chunk: TextChunk) -> bytes:
        """An event for what is new, be it token ids if those were asked for; else nothing."""
        if not chunk.says_something and not (self._options.return_token_ids and chunk.token_ids):
            return b""
        choice = self._choice(self._style.delta(chunk))
        if self._options.return_token_ids:
            choice["token_ids"] = chunk.token_ids
        return self._event([choice])

    def closing(self, end: Completed) -> bytes:
        """The finish reason, then the usage if asked for, then the end mark."""
        finish = self._event(
            [self._choice(self._style.delta(TextChunk("")), end)], **self._extensions(end)
        )
        usage = b""
        if self._options.include_usage:
            usage = self._event([], usage=usage_object(end.usage, end.reasoning_tokens))
        return finish + usage + DONE

    def _choice(self, content: dict[str, Any], end: Completed | None = None) -> dict[str, Any]:
        return {
            "index": 0,
            **content,
            "logprobs": None,
            "finish_reason": _finish_word(end) if end else None,
            "stop_reason": end.stop_reason if end else None,
        }

    def _event(self, choices: list[dict[str, Any]], **extras: Any) -> bytes:
        body = {**self._envelope, "object": self._style.chunk_object_name, "choices": choices}
        if self._options.include_usage:
            body["usage"] = None
        body.update(extras)
        return server_sent(json.dumps(body, separators=(",", ":")))

    def _extensions(self, end: Completed) -> dict[str, Any]:
        return {"seed": self._started.seed, "speculation": speculation_object(end)}


def usage_object(usage: Usage, reasoning_tokens: int | None = None) -> dict[str, Any]:
    counts: dict[str, Any] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }
    if reasoning_tokens is not None:
        counts["completion_tokens_details"] = {"reasoning_tokens": reasoning_tokens}
    return counts


def _finish_word(end: Completed) -> str:
    return "tool_calls" if end.calls_tools else end.finish_reason.value


def speculation_object(end: Completed) -> dict[str, Any] | None:
    """None where the scheduler was lost before its report."""
    if end.speculation is None or end.steps is None:
        return None
    return {**asdict(end.speculation), "steps": asdict(end.steps)}
