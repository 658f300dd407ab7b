"""All choices of an answer as one response, or as one stream, of the OpenAI surface."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from dspark.errors import DSparkError, InternalError
from dspark.gateway.choice_streams import ChoiceEvent
from dspark.gateway.echo import Echo
from dspark.gateway.event_stream import server_sent
from dspark.gateway.generation_events import Completed, Started
from dspark.gateway.http_errors import event_of
from dspark.gateway.openai_responses import (
    DONE,
    ResponseOptions,
    ResponseStyle,
    ResponseWriter,
    usage_object,
)
from dspark.gateway.text_assembly import TextChunk
from dspark.gateway.token_bytes import Spell
from dspark.gateway.usage_tally import UsageTally


class AnswerWriter:
    """Fed each event of each choice; ``n`` choices in a row have the same prompt."""

    def __init__(
        self,
        style: ResponseStyle,
        model: str,
        request_id: str,
        options: ResponseOptions,
        n: int,
        spell: Spell,
        echo_of: Callable[[int, Started], Echo | None],
    ) -> None:
        """``echo_of`` gives the prompt that a choice begins with, by its index."""
        self._style = style
        self._options = options
        self._tally = UsageTally(n)
        self._spell = spell
        self._echo_of = echo_of
        self._writers: dict[int, ResponseWriter] = {}
        self._seed = 0
        self._num_ended = 0
        self._envelope: dict[str, Any] = {
            "id": style.id_prefix + request_id,
            "created": int(time.time()),
            "model": model,
        }
        if options.service_tier is not None:
            self._envelope["service_tier"] = options.service_tier

    def streamed(self, item: ChoiceEvent) -> bytes:
        """What a stream sends of the event."""
        self._tally.add(item)
        match item.event:
            case Started():
                return self._started(item.index, item.event).opening()
            case TextChunk():
                return self._writers[item.index].chunk(item.event)
            case Completed():
                self._num_ended += 1
                closing = self._writers[item.index].closing(item.event)
                is_last = self._num_ended == self._options.num_choices
                return closing + (self._end() if is_last else b"")

    def broken(self, error: DSparkError) -> bytes:
        """The error as an event, then the end mark."""
        return event_of(error) + DONE

    def whole(self, items: list[ChoiceEvent]) -> dict[str, Any]:
        """The response that is not streamed, from all events in their order."""
        choices = [
            self._whole_choice(index, [item for item in items if item.index == index])
            for index in range(self._options.num_choices)
        ]
        whole = choices[0]
        if self._options.tells_apart:
            whole["choices"] = [choice for each in choices for choice in each["choices"]]
            whole["seed"] = self._seed
            for name in ("speculation", "prompt_token_ids"):
                whole.pop(name, None)
        return whole | {"usage": usage_object(self._tally.usage, self._tally.reasoning_tokens)}

    def _whole_choice(self, index: int, items: list[ChoiceEvent]) -> dict[str, Any]:
        chunks: list[TextChunk] = []
        started: Started | None = None
        for item in items:
            self._tally.add(item)
            match item.event:
                case Started() as started:
                    self._started(index, started)
                case TextChunk() as chunk:
                    chunks.append(chunk)
                case Completed() as end if started is not None:
                    writer = self._writers[index]
                    return writer.whole(chunks, end, started.prompt_token_ids)
        raise InternalError("a choice ended without a result")

    def _started(self, index: int, started: Started) -> ResponseWriter:
        if index == 0:
            self._seed = started.seed
        writer = ResponseWriter(
            self._style,
            self._envelope,
            started,
            self._options,
            index,
            self._tally,
            self._spell,
            self._echo_of(index, started),
        )
        self._writers[index] = writer
        return writer

    def _end(self) -> bytes:
        usage = b""
        if self._options.include_usage:
            name = self._style.chunk_object_name
            body = {**self._envelope, "object": name, "choices": []}
            body |= {"usage": usage_object(self._tally.usage, self._tally.reasoning_tokens)}
            usage = server_sent(json.dumps(body, separators=(",", ":")))
        return usage + DONE
