"""Text events as the objects of the OpenAI surface."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from dspark.gateway.echo import Echo
from dspark.gateway.event_stream import server_sent
from dspark.gateway.generation_events import Completed, Started
from dspark.gateway.openai_logprobs import (
    ToldToken,
    chat_logprobs,
    completion_logprobs,
    prompt_logprobs,
)
from dspark.gateway.openai_messages import message_delta, whole_message
from dspark.gateway.text_assembly import TextChunk
from dspark.gateway.token_bytes import Spell
from dspark.sampling import Usage

DONE = server_sent("[DONE]")


@dataclass(frozen=True, slots=True)
class ResponseOptions:
    """What the client asked to see."""

    return_token_ids: bool = False
    include_usage: bool = False
    # of the request's class, if the client named one
    service_tier: str | None = None
    # how many likely tokens in the place of each, of the answer's and of the prompt's; None means
    # that nothing is told
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    # the prompt, if the answer begins with it
    echo: Echo | None = None


class ResponseStyle(Protocol):
    """The words in which the two surfaces, completions and chat, differ."""

    id_prefix: str
    object_name: str
    chunk_object_name: str
    # whether log-probabilities of the prompt are the choice's, else the whole answer's
    tells_prompt_in_choice: bool

    def opening_delta(self) -> dict[str, Any] | None:
        """What the first chunk of a stream says before any text."""
        ...

    def delta(self, chunk: TextChunk) -> dict[str, Any]: ...

    def whole(self, chunks: Sequence[TextChunk]) -> dict[str, Any]: ...

    def logprobs(self, tokens: Sequence[ToldToken], spell: Spell) -> dict[str, Any]: ...


class CompletionStyle:
    """/v1/completions: plain text."""

    id_prefix = "cmpl-"
    object_name = "text_completion"
    chunk_object_name = "text_completion"
    tells_prompt_in_choice = True

    def opening_delta(self) -> dict[str, Any] | None:
        return None

    def delta(self, chunk: TextChunk) -> dict[str, Any]:
        return {"text": chunk.text}

    def whole(self, chunks: Sequence[TextChunk]) -> dict[str, Any]:
        return {"text": "".join(chunk.text for chunk in chunks)}

    def logprobs(self, tokens: Sequence[ToldToken], spell: Spell) -> dict[str, Any]:
        return completion_logprobs(tokens, spell)


class ChatStyle:
    """/v1/chat/completions: messages of the assistant."""

    id_prefix = "chatcmpl-"
    object_name = "chat.completion"
    chunk_object_name = "chat.completion.chunk"
    tells_prompt_in_choice = False

    def opening_delta(self) -> dict[str, Any] | None:
        return {"delta": {"role": "assistant", "content": ""}}

    def delta(self, chunk: TextChunk) -> dict[str, Any]:
        return {"delta": message_delta(chunk)}

    def whole(self, chunks: Sequence[TextChunk]) -> dict[str, Any]:
        return {"message": whole_message(chunks)}

    def logprobs(self, tokens: Sequence[ToldToken], spell: Spell) -> dict[str, Any]:
        return chat_logprobs(tokens, spell)


class ResponseWriter:
    """Writes the objects of one response."""

    def __init__(
        self,
        style: ResponseStyle,
        model: str,
        started: Started,
        options: ResponseOptions,
        spell: Spell,
    ) -> None:
        self._style = style
        self._spell = spell
        self._started = started
        self._options = options
        self._is_first = True
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
        told = [
            token
            for place, chunk in enumerate(chunks)
            for token in self._told(chunk, is_first=place == 0)
        ]
        said = list(chunks)
        if (echo := self._options.echo) is not None:
            said.insert(0, TextChunk(echo.text))
        choice = self._choice(self._style.whole(said), end, told)
        extras: dict[str, Any] = {}
        if self._options.prompt_logprobs is not None:
            holder = choice if self._style.tells_prompt_in_choice else extras
            holder["prompt_logprobs"] = self._prompt_logprobs(chunks, prompt_token_ids)
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
        """An event for what is new, or for what else was asked for of tokens; else nothing."""
        is_first = self._is_first
        told = self._told(chunk, is_first=is_first)
        if is_first and self._options.echo is not None:
            chunk = replace(chunk, text=self._options.echo.text + chunk.text)
        self._is_first = False
        asks_ids = self._options.return_token_ids and chunk.token_ids
        if not (chunk.says_something or told or asks_ids):
            return b""
        choice = self._choice(self._style.delta(chunk), told=told)
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

    def _told(self, chunk: TextChunk, *, is_first: bool) -> list[ToldToken]:
        """Tokens whose log-probabilities the client wants; with the first chunk an echo's too."""
        if (num_top := self._options.logprobs) is None:
            return []
        echo = self._options.echo
        start = 0 if echo is None else len(echo.text)
        told = [
            ToldToken(token_id, start + offset, logprobs)
            for token_id, offset, logprobs in zip(
                chunk.token_ids, chunk.offsets, chunk.logprobs, strict=True
            )
        ]
        if echo is not None and is_first:
            return [*echo.told(chunk.prompt_logprobs, num_top, self._spell), *told]
        return told

    def _prompt_logprobs(
        self, chunks: Sequence[TextChunk], prompt_token_ids: Sequence[int]
    ) -> list[dict[str, Any] | None]:
        assert self._options.prompt_logprobs is not None
        first = chunks[0].prompt_logprobs
        return prompt_logprobs(prompt_token_ids, first, self._options.prompt_logprobs, self._spell)

    def _choice(
        self,
        content: dict[str, Any],
        end: Completed | None = None,
        told: Sequence[ToldToken] = (),
    ) -> dict[str, Any]:
        return {
            "index": 0,
            **content,
            "logprobs": self._style.logprobs(told, self._spell) if told else None,
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
