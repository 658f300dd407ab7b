"""Text events as the objects of the OpenAI surface."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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
    # how many likely tokens in the place of each, of the answer's and of the prompt's; None means
    # that nothing is told
    logprobs: int | None = None
    prompt_logprobs: int | None = None
    # whether each chunk of a stream has the usage so far
    continuous_usage: bool = False
    num_choices: int = 1
    # whether they are the best of more
    are_ranked: bool = False

    @property
    def tells_apart(self) -> bool:
        """Whether seed and speculation are a choice's own, not the response's."""
        return self.num_choices > 1 or self.are_ranked


class ResponseStyle(Protocol):
    """The words in which the two surfaces, completions and chat, differ."""

    id_prefix: str
    object_name: str
    chunk_object_name: str
    # why an answer that ends with calls has ended
    calls_word: str
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
    calls_word = "tool_calls"
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
    calls_word = "tool_calls"
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
    """Writes the objects of one choice; ``envelope`` is what all objects of the response share."""

    def __init__(
        self,
        style: ResponseStyle,
        envelope: Mapping[str, Any],
        started: Started,
        options: ResponseOptions,
        index: int,
        tally: UsageTally,
        spell: Spell,
        echo: Echo | None = None,
    ) -> None:
        """``echo`` is the prompt, if the choice begins with it."""
        self._style = style
        self._envelope = envelope
        self._started = started
        self._options = options
        self._index = index
        self._tally = tally
        self._spell = spell
        self._echo = echo
        self._is_first = True

    def whole(
        self,
        chunks: Sequence[TextChunk],
        end: Completed,
        prompt_token_ids: Sequence[int],
    ) -> dict[str, Any]:
        """The response that is not streamed, with this choice alone."""
        told = [
            token
            for place, chunk in enumerate(chunks)
            for token in self._told(chunk, is_first=place == 0)
        ]
        said = list(chunks)
        if self._echo is not None:
            said.insert(0, TextChunk(self._echo.text))
        choice = self._choice(self._style.whole(said), end, told)
        extras: dict[str, Any] = {}
        if self._options.prompt_logprobs is not None:
            holder = choice if self._style.tells_prompt_in_choice else extras
            holder["prompt_logprobs"] = self._prompt_logprobs(chunks, prompt_token_ids)
        if self._options.return_token_ids:
            choice["token_ids"] = [i for chunk in chunks for i in chunk.token_ids]
            extras["prompt_token_ids"] = list(prompt_token_ids)
        extras |= self._extensions(end)
        if self._options.tells_apart:
            choice |= extras
        return {
            **self._envelope,
            "object": self._style.object_name,
            "choices": [choice],
            "usage": usage_object(end.usage, end.reasoning_tokens),
            **extras,
        }

    def opening(self) -> bytes:
        """The first event of a stream; nothing where the style has none."""
        delta = self._style.opening_delta()
        return b"" if delta is None else self._event([self._choice(delta)])

    def chunk(self, chunk: TextChunk) -> bytes:
        """An event for what is new, or for what else was asked for of tokens; else nothing."""
        is_first = self._is_first
        told = self._told(chunk, is_first=is_first)
        if is_first and self._echo is not None:
            chunk = replace(chunk, text=self._echo.text + chunk.text)
        self._is_first = False
        asks_ids = self._options.return_token_ids and chunk.token_ids
        if not (chunk.says_something or told or asks_ids):
            return b""
        choice = self._choice(self._style.delta(chunk), told=told)
        if self._options.return_token_ids:
            choice["token_ids"] = chunk.token_ids
        return self._event([choice])

    def closing(self, end: Completed) -> bytes:
        """The finish reason."""
        nothing = self._style.delta(TextChunk(""))
        choice, extras = self._choice(nothing, end), self._extensions(end)
        if self._options.tells_apart:
            choice, extras = choice | extras, {}
        return self._event([choice], **extras)

    def _told(self, chunk: TextChunk, *, is_first: bool) -> list[ToldToken]:
        """Tokens whose log-probabilities the client wants; with the first chunk an echo's too."""
        if (num_top := self._options.logprobs) is None:
            return []
        echo = self._echo
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
            "index": self._index,
            **content,
            "logprobs": self._style.logprobs(told, self._spell) if told else None,
            "finish_reason": self._finish_word(end) if end else None,
            "stop_reason": end.stop_reason if end else None,
        }

    def _event(self, choices: list[dict[str, Any]], **extras: Any) -> bytes:
        body = {**self._envelope, "object": self._style.chunk_object_name, "choices": choices}
        if self._options.continuous_usage:
            body["usage"] = usage_object(self._tally.usage, self._tally.reasoning_tokens)
        elif self._options.include_usage:
            body["usage"] = None
        body.update(extras)
        return server_sent(json.dumps(body, separators=(",", ":")))

    def _finish_word(self, end: Completed) -> str:
        return self._style.calls_word if end.calls_tools else end.finish_reason.value

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


def speculation_object(end: Completed) -> dict[str, Any] | None:
    """None where the scheduler was lost before its report."""
    if end.speculation is None or end.steps is None:
        return None
    return {**asdict(end.speculation), "steps": asdict(end.steps)}
