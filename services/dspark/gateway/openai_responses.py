"""Text events as the objects of the OpenAI surface."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

from dspark.gateway.event_stream import server_sent
from dspark.gateway.generation_events import Completed, Started
from dspark.gateway.text_assembly import TextChunk
from dspark.gateway.usage_tally import UsageTally
from dspark.sampling import Usage

DONE = server_sent("[DONE]")


@dataclass(frozen=True, slots=True)
class ResponseOptions:
    """What the client asked to see."""

    return_token_ids: bool = False
    include_usage: bool = False
    # of the request's class, if the client named one
    service_tier: str | None = None
    # whether each chunk of a stream has the usage so far
    continuous_usage: bool = False
    # with more than one, seed and speculation are a choice's own
    num_choices: int = 1


class ResponseStyle(Protocol):
    """The words in which the two surfaces, completions and chat, differ."""

    id_prefix: str
    object_name: str
    chunk_object_name: str

    def opening_delta(self) -> dict[str, Any] | None:
        """What the first chunk of a stream says before any text."""
        ...

    def delta(self, text: str) -> dict[str, Any]: ...

    def whole(self, text: str) -> dict[str, Any]: ...


class CompletionStyle:
    """/v1/completions: plain text."""

    id_prefix = "cmpl-"
    object_name = "text_completion"
    chunk_object_name = "text_completion"

    def opening_delta(self) -> dict[str, Any] | None:
        return None

    def delta(self, text: str) -> dict[str, Any]:
        return {"text": text}

    def whole(self, text: str) -> dict[str, Any]:
        return {"text": text}


class ChatStyle:
    """/v1/chat/completions: messages of the assistant."""

    id_prefix = "chatcmpl-"
    object_name = "chat.completion"
    chunk_object_name = "chat.completion.chunk"

    def opening_delta(self) -> dict[str, Any] | None:
        return {"delta": {"role": "assistant", "content": ""}}

    def delta(self, text: str) -> dict[str, Any]:
        return {"delta": {"content": text} if text else {}}

    def whole(self, text: str) -> dict[str, Any]:
        return {"message": {"role": "assistant", "content": text}}


class ResponseWriter:
    """Writes the objects of one choice; ``envelope`` is what all objects of the response share."""

    def __init__(
        self,
        style: ResponseStyle,
        envelope: Mapping[str, Any],
        started: Started,
        options: ResponseOptions,
        index: int,
        tally: UsageTally,
    ) -> None:
        self._style = style
        self._envelope = envelope
        self._started = started
        self._options = options
        self._index = index
        self._tally = tally

    def whole(
        self,
        chunks: Sequence[TextChunk],
        end: Completed,
        prompt_token_ids: Sequence[int],
    ) -> dict[str, Any]:
        """The response that is not streamed, with this choice alone."""
        choice = self._choice(self._style.whole("".join(c.text for c in chunks)), end)
        extras: dict[str, Any] = {}
        if self._options.return_token_ids:
            choice["token_ids"] = [i for chunk in chunks for i in chunk.token_ids]
            extras["prompt_token_ids"] = list(prompt_token_ids)
        extras |= self._extensions(end)
        if self._options.num_choices > 1:
            choice |= extras
        return {
            **self._envelope,
            "object": self._style.object_name,
            "choices": [choice],
            "usage": usage_object(end.usage),
            **extras,
        }

    def opening(self) -> bytes:
        """The first event of a stream; nothing where the style has none."""
        delta = self._style.opening_delta()
        return b"" if delta is None else self._event([self._choice(delta)])

    def chunk(self, chunk: TextChunk) -> bytes:
        """An event for new text, or for new token ids if those were asked for; else nothing."""
        if not chunk.text and not (self._options.return_token_ids and chunk.token_ids):
            return b""
        choice = self._choice(self._style.delta(chunk.text))
        if self._options.return_token_ids:
            choice["token_ids"] = chunk.token_ids
        return self._event([choice])

    def closing(self, end: Completed) -> bytes:
        """The finish reason."""
        choice, extras = self._choice(self._style.delta(""), end), self._extensions(end)
        if self._options.num_choices > 1:
            choice, extras = choice | extras, {}
        return self._event([choice], **extras)

    def _choice(self, content: dict[str, Any], end: Completed | None = None) -> dict[str, Any]:
        return {
            "index": self._index,
            **content,
            "logprobs": None,
            "finish_reason": end.finish_reason.value if end else None,
            "stop_reason": end.stop_reason if end else None,
        }

    def _event(self, choices: list[dict[str, Any]], **extras: Any) -> bytes:
        body = {**self._envelope, "object": self._style.chunk_object_name, "choices": choices}
        if self._options.continuous_usage:
            body["usage"] = usage_object(self._tally.usage)
        elif self._options.include_usage:
            body["usage"] = None
        body.update(extras)
        return server_sent(json.dumps(body, separators=(",", ":")))

    def _extensions(self, end: Completed) -> dict[str, Any]:
        return {"seed": self._started.seed, "speculation": speculation_object(end)}


def usage_object(usage: Usage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


def speculation_object(end: Completed) -> dict[str, Any] | None:
    """None where the scheduler was lost before its report."""
    if end.speculation is None or end.steps is None:
        return None
    return {**asdict(end.speculation), "steps": asdict(end.steps)}
