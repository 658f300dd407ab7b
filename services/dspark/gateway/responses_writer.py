"""An answer in the words of the Responses API: one object, or a stream of named events."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any

from dspark.errors import DSparkError, InternalError
from dspark.gateway.choice_streams import ChoiceEvent
from dspark.gateway.event_stream import server_sent
from dspark.gateway.generation_events import Completed, Started
from dspark.gateway.http_errors import body_of
from dspark.gateway.responses_objects import (
    COMPLETED,
    FAILED,
    IN_PROGRESS,
    ended_response,
    output_message,
    output_text,
    response_shell,
)
from dspark.gateway.responses_types import ResponsesBody
from dspark.gateway.text_assembly import TextChunk


class ResponsesWriter:
    """Writes one response, which has one choice and so one item."""

    def __init__(self, body: ResponsesBody, model: str, request_id: str) -> None:
        self._shell = response_shell(body, model, f"resp_{request_id}", int(time.time()))
        self._item_id = f"msg_{request_id}"
        self._started: Started | None = None
        self._texts: list[str] = []
        self._num_events = 0

    def whole(self, items: Sequence[ChoiceEvent]) -> dict[str, Any]:
        """The response that is not streamed, from all events in their order."""
        for item in items:
            match item.event:
                case Started() as started:
                    self._started = started
                case TextChunk(text=text):
                    self._texts.append(text)
                case Completed() as end:
                    return self._ended(end)
        raise InternalError("the request ended without a result")

    def streamed(self, item: ChoiceEvent) -> bytes:
        """The events that the API sends for it."""
        match item.event:
            case Started() as started:
                self._started = started
                return self._opening()
            case TextChunk(text=""):
                return b""
            case TextChunk(text=text):
                self._texts.append(text)
                return self._part_event("output_text.delta", delta=text, logprobs=[])
            case Completed() as end:
                return self._closing(end)

    def broken(self, error: DSparkError) -> bytes:
        """A failed response, which is the last event."""
        what = body_of(error)["error"]
        failure = {"code": what["code"], "message": what["message"]}
        return self._event("failed", response={**self._shell, "status": FAILED, "error": failure})

    def _opening(self) -> bytes:
        item = output_message(self._item_id, IN_PROGRESS, None)
        return b"".join(
            (
                self._event("created", response=self._shell),
                self._event("in_progress", response=self._shell),
                self._event("output_item.added", output_index=0, item=item),
                self._part_event("content_part.added", part=output_text("")),
            )
        )

    def _closing(self, end: Completed) -> bytes:
        text, response = "".join(self._texts), self._ended(end)
        name = "completed" if response["status"] == COMPLETED else "incomplete"
        return b"".join(
            (
                self._part_event("output_text.done", text=text, logprobs=[]),
                self._part_event("content_part.done", part=output_text(text)),
                self._event("output_item.done", output_index=0, item=response["output"][0]),
                self._event(name, response=response),
            )
        )

    def _ended(self, end: Completed) -> dict[str, Any]:
        assert self._started is not None
        text = "".join(self._texts)
        return ended_response(self._shell, self._item_id, text, self._started, end)

    def _part_event(self, name: str, **fields: Any) -> bytes:
        place = {"item_id": self._item_id, "output_index": 0, "content_index": 0}
        return self._event(name, **place, **fields)

    def _event(self, name: str, **fields: Any) -> bytes:
        kind = f"response.{name}"
        body = {"type": kind, "sequence_number": self._num_events, **fields}
        self._num_events += 1
        return server_sent(json.dumps(body, separators=(",", ":")), kind)
